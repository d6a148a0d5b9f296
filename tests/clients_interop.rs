//! Other people's client libraries against the running router: what `tests/clients/README.md` lists.
//!
//! The listener's frames are small, so that messages go over many frames in both directions.

mod support;

use std::path::Path;
use std::process::Command;
use std::time::Duration;
use support::programs::{proton_c, Client, Running};
use support::router::{Router, PLAIN};

fn run(client: Client, scenario: &str) {
    let router = Router::start_with("    maxFrameSize: 4096\n", PLAIN);
    client.run(scenario, &router, &format!("interop/{scenario}"));
}

/// A module a client, a test a scenario.
macro_rules! clients {
    ($($module:ident $client:ident: $($scenario:ident)*;)*) => {$(
        mod $module {
            use super::{run, Client};
            $(
                #[test]
                fn $scenario() {
                    run(Client::$client, stringify!($scenario));
                }
            )*
        }
    )*};
}

clients! {
    proton_python ProtonPython: transfer presettled second outcomes request drain;
    proton_cpp ProtonCpp: transfer presettled outcomes request drain;
    proton_c ProtonC: transfer presettled outcomes request;
    rhea Rhea: transfer presettled second outcomes request drain;
    fe2o3 Fe2o3: transfer presettled second outcomes request;
}

/// Case 28: Proton C's own examples speak no SASL layer and name all their links alike; several at once work.
#[test]
fn case_28_several_clients_without_sasl_and_with_the_same_link_names() {
    const COUNT: &str = "2000";
    let examples = Path::new("/usr/share/proton/examples/c");
    let [receive, send] = ["receive", "send"].map(|name| proton_c(&examples.join(format!("{name}.c")), name));
    let router = Router::start(PLAIN);
    let port = router.port.to_string();
    let start = |program: &Path, address: &str| {
        Running::start(Command::new(program).args(["127.0.0.1", &port, address, COUNT]))
    };
    let addresses = ["first", "second", "third"];
    let receivers: Vec<Running> = addresses.iter().map(|address| start(&receive, address)).collect();
    let senders: Vec<Running> = addresses.iter().map(|address| start(&send, address)).collect();
    for sender in senders {
        let output = sender.finish(Duration::from_secs(30));
        assert!(output.contains("2000 messages sent and acknowledged"), "{output}");
    }
    for receiver in receivers {
        let output = receiver.finish(Duration::from_secs(30));
        let numbers = output.lines().filter_map(|line| line.strip_prefix("{\"sequence\"="));
        let numbers: Vec<u32> = numbers.map(|rest| rest.trim_end_matches('}').parse().expect("a number")).collect();
        assert_eq!(numbers, (1..=2000).collect::<Vec<u32>>());
    }
}

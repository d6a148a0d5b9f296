//! `ringway load` against a running router: every message is accounted for, and figures are those of the load asked for.

mod support;

use serde_json::Value;
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use support::router::{Router, DISTRIBUTIONS, PLAIN};

fn load(router: &Router, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringway"));
    command.args(["load", "--quiet", "--json", "--bus", &router.address()]).args(arguments);
    command.output().expect("the program starts")
}

fn figures(router: &Router, arguments: &[&str]) -> Value {
    let output = load(router, arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

fn number(figures: &Value, name: &str) -> u64 {
    figures[name].as_u64().unwrap_or_else(|| panic!("{name} in {figures}"))
}

#[test]
fn every_message_of_a_closed_loop_is_accounted_for() {
    let router = Router::start(PLAIN);
    for arguments in [
        &["--count", "5000"][..],
        &["--count", "5000", "--pairs", "3", "--threads", "2"],
        &["--count", "5000", "--senders", "5", "--receivers", "2"],
        &["--count", "5000", "--senders", "1", "--receivers", "4"],
        &["--count", "5000", "--outstanding", "1", "--body", "0"],
        &["--count", "500", "--body", "3000"],
        &["--count", "20", "--body", "300000"],
        &["--count", "1000", "--requests", "--pairs", "2"],
    ] {
        let figures = figures(&router, arguments);
        let count: u64 = arguments[1].parse().unwrap();
        assert_eq!(number(&figures, "sent"), count, "{arguments:?}");
        assert_eq!(number(&figures, "received"), count, "{arguments:?}");
        assert_eq!(number(&figures, "messages"), count, "{arguments:?}");
        assert_eq!(number(&figures, "lost"), 0);
        assert_eq!(number(&figures["outcomes"], "accepted"), count, "{arguments:?}");
        let has_stamps = !arguments.contains(&"0");
        assert_eq!(figures["latency_microseconds"].is_object(), has_stamps, "{arguments:?}");
    }
}

#[test]
fn settled_messages_have_no_outcome() {
    let router = Router::start(PLAIN);
    let figures = figures(&router, &["--count", "5000", "--settled"]);
    assert_eq!((number(&figures, "received"), number(&figures, "lost")), (5000, 0));
    assert_eq!(number(&figures["outcomes"], "accepted"), 0);
}

#[test]
fn a_multicast_message_comes_once_to_each() {
    let router = Router::start(DISTRIBUTIONS);
    let arguments =
        ["--count", "300", "--senders", "1", "--receivers", "3", "--copies", "3", "--address", "multicast.x"];
    let figures = figures(&router, &arguments);
    assert_eq!((number(&figures, "sent"), number(&figures, "received")), (300, 900));
}

#[test]
fn an_open_loop_keeps_its_rate_and_counts_behind_the_warm_up() {
    let router = Router::start(PLAIN);
    let pid = router.pid().to_string();
    let arguments = ["--rate", "2000", "--duration", "1.5", "--warm-up", "0.5", "--pairs", "4", "--router-pid", &pid];
    let figures = figures(&router, &arguments);
    // Sent for two seconds; what came in the last one and a half of them counts.
    assert!((3990..=4010).contains(&number(&figures, "sent")), "{figures}");
    assert!((2000..=4010).contains(&number(&figures, "messages")), "{figures}");
    assert_eq!(number(&figures, "lost"), 0);
    assert!(figures["router_cpu_microseconds_per_message"].as_f64().is_some_and(|cpu| cpu >= 0.0));
}

#[test]
fn who_cannot_connect_or_attach_hears_why() {
    let router = Router::start(DISTRIBUTIONS);
    let begin = Instant::now();
    let refused = load(&router, &["--count", "1", "--address", "unavailable.x"]);
    assert!(!refused.status.success());
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(text.contains("amqp:"), "{text}");
    for arguments in [&["--rate", "0"][..], &["--duration", "-1"], &["--bus", "127.0.0.1:1"], &["--router-pid", "0"]] {
        let failed = load(&router, arguments);
        assert!(!failed.status.success() && !failed.stderr.is_empty(), "{arguments:?}");
    }
    assert!(begin.elapsed() < Duration::from_secs(30));
}

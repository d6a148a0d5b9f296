//! Threshold events reach a receiver: a real client's backlog, come and gone.

mod support;

use std::path::Path;
use std::process::Command;
use std::time::Duration;
use support::programs::Running;
use support::router::Router;

const ALERTS: &str = "address {\n    prefix: orders\n    alertCountUp: 10\n    alertCountDown: 0\n}\n";

/// (event, whether the late subscriber heard it, whether it was replayed)
fn heard(output: &str) -> Vec<(String, bool, bool)> {
    let line = |line: &str| {
        let event: serde_json::Value = serde_json::from_str(line).expect("a line of JSON");
        assert_eq!(event["unit"], "messages");
        assert_eq!(event["address"], "orders/x");
        assert_eq!(event["router"], "router.under.test");
        assert_eq!(event["subject"], event["event"]);
        assert!(event["timestamp"].as_i64().is_some_and(|milliseconds| milliseconds > 1_700_000_000_000));
        let increasing = event["event"] == "threshold-crossed-increasing";
        let mark = if increasing { 10 } else { 0 };
        assert_eq!((&event["threshold"], &event["depthMessages"]), (&mark.into(), &mark.into()));
        assert_eq!(event["depthBytes"].as_u64().is_some_and(|bytes| bytes > 0), increasing);
        let replayed = event.get("replayed").is_some_and(|replayed| replayed == true);
        (event["event"].as_str().expect("a name").to_owned(), event["late"] == true, replayed)
    };
    output.lines().map(line).collect()
}

#[test]
fn a_backlog_is_heard_when_it_comes_and_when_it_goes() {
    let router = Router::start(ALERTS);
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/proton-python/events.py");
    let mut command = Command::new("/usr/bin/python3");
    command.arg(program).args([&format!("amqp://{}", router.address()), "orders/x", "10"]);
    let output = Running::start(&mut command).finish(Duration::from_secs(40));
    let (increasing, decreasing) = ("threshold-crossed-increasing", "threshold-crossed-decreasing");
    let all = heard(&output);
    let by = |late| all.iter().filter(|event| event.1 == late).map(|event| (&*event.0, event.2)).collect::<Vec<_>>();
    assert_eq!(by(false), [(increasing, false), (decreasing, false)]);
    assert_eq!(by(true), [(increasing, true), (decreasing, false)]);
    let log = router.log();
    assert_eq!((log.matches(increasing).count(), log.matches(decreasing).count()), (1, 1));
}

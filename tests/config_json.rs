//! The JSON form of the configuration.

use ringway::config::*;

const FILE: &str = r#"[
    ["router", {
        "id": 7,
        "mode": "standalone",
        "workerThreads": "1",
        "metadata": null
    }],
    ["listener", {
        "name": "health",
        "host": "0.0.0.0",
        "port": 5673,
        "authenticatePeer": "false",
        "saslMechanisms": ["ANONYMOUS"],
        "http": false,
        "failoverUrls": [],
        "openProperties": {}
    }],
    ["listener", {"port": "amqp", "idle-timeout-seconds": 60}],
    ["address", {"prefix": "telemetry/", "distribution": "balanced", "priority": 3}],
    ["address", {"pattern": "event/#", "alertSizeUp": "4g"}],
    ["log", {"module": "SERVER", "enable": "warning+"}]
]"#;

fn errors(text: &str) -> Vec<String> {
    let error = load(text, "router.json").expect_err("an error");
    error.problems.iter().map(|problem| problem.to_string()).collect()
}

#[test]
fn numbers_and_booleans_may_be_strings() {
    let config = load(FILE, "router.json").unwrap();
    assert_eq!(config.warnings, []);
    assert_eq!(config.router.id.as_deref(), Some("7"));
    assert_eq!(config.router.worker_threads, Some(1));
    assert_eq!(config.listeners.iter().map(|l| l.port).collect::<Vec<_>>(), [5673, 5672]);
    assert_eq!(config.listeners[1].idle_timeout_seconds, 60);
    assert_eq!(config.addresses[1].matches, AddressMatch::Pattern("event/#".to_string()));
    assert_eq!(config.addresses[1].alert_size, Some(AlertMarks { up: 4 << 30, down: 2 << 30 }));
}

#[test]
fn each_error_has_its_line() {
    let text = r#"[
    ["router", {"id": "a",
                "id": "b"}],
    ["listener", {
        "prot": 5672,
        "host": {"a": 1},
        "saslMechanisms": [["x"]],
        "http": true
    }],
    ["sslProfile", {"name": "x"}],
    ["listener", 5],
    "listener"
]"#;
    assert_eq!(
        errors(text),
        [
            "router.json:3: router: 'id' is given twice, first in line 2",
            "router.json:5: listener: unknown attribute 'prot'; did you mean 'port'?",
            "router.json:6: listener: 'host' is not a map",
            "router.json:7: listener: 'saslMechanisms' can't be a list of lists or of maps",
            "router.json:10: sslProfile 'x': not served by this version (TLS): take it out, or start with \
             --allow-unsupported, then it is left out",
            "router.json:11: listener: expected a map of attributes",
            "router.json:12: expected [\"section\", {attributes}]",
        ]
    );
}

#[test]
fn what_is_not_json_has_its_line_too() {
    assert_eq!(
        errors("[\n  [\"router\", {\n    \"id\" \"a\"\n"),
        ["router.json:3: not JSON: expected `:` at line 3 column 10"]
    );
    assert_eq!(errors("{\"router\": {}}"), ["router.json:1: expected a list of [\"section\", {attributes}]"]);
}

#[test]
fn lines_that_begin_with_a_hash_are_comments() {
    let config =
        load("# made by a template\n[\n  [\"listener\", {\n    # any\n    \"port\": 7}]]", "router.json").unwrap();
    assert_eq!((config.listeners[0].port, config.listeners[0].line), (7, 3));
}

//! What is wrong with a configuration is named with its line, all of it at once.

use ringway::config::*;

fn errors(text: &str) -> Vec<String> {
    let error = match load(text, "f.conf") {
        Err(error) => error,
        Ok(config) => panic!("accepted: {config:?}"),
    };
    error.problems.iter().map(|problem| problem.to_string()).collect()
}

/// The errors of one section with these lines, the first of which is line 2.
fn errors_in(section: &str, lines: &str) -> Vec<String> {
    errors(&format!("{section} {{\n{lines}\n}}\n"))
}

#[test]
fn all_errors_are_reported_in_the_order_of_their_lines() {
    let text = "\
listener {
    prot: 5672
    port: 99999
    maxFrameSize: many
    authenticatePeer: maybe
    role: nromal
}
listner {
}
adress {
    prefix: a
}
";
    assert_eq!(
        errors(text),
        [
            "f.conf:2: listener: unknown attribute 'prot'; did you mean 'port'?",
            "f.conf:3: listener: port: expected a number from 0 to 65535, amqp or amqps, found '99999'",
            "f.conf:4: listener: maxFrameSize: expected a number from 0 to 4294967295, found 'many'",
            "f.conf:5: listener: authenticatePeer: expected yes or no, found 'maybe'",
            "f.conf:6: listener: role: expected one of normal, inter-router, route-container, edge; found 'nromal'; \
             did you mean 'normal'?",
            "f.conf:8: unknown section 'listner'; did you mean 'listener'?",
            "f.conf:10: unknown section 'adress'; did you mean 'address'?",
        ]
    );
}

#[test]
fn what_this_version_does_not_serve_says_so() {
    for section in [
        "connector",
        "sslProfile",
        "ssl-profile",
        "authServicePlugin",
        "linkRoute",
        "router.config.linkRoute",
        "autoLink",
        "exchange",
        "binding",
        "policy",
        "vhost",
        "tcpListener",
        "httpConnector",
    ] {
        let found = errors_in(section, " name: x");
        assert!(found.len() == 1 && found[0].ends_with(": not served by this version"), "{section}: {found:?}");
    }
    for (section, line) in [
        ("router", "mode: interior"),
        ("router", "mode: edge"),
        ("router", "debugDumpFile: /tmp/x"),
        ("router", "saslConfigDir: /etc/sasl2"),
        ("listener", "role: route-container"),
        ("listener", "sslProfile: tls"),
        ("listener", "saslMechanisms: PLAIN"),
        ("listener", "saslMechanisms: anonymous, external"),
        ("listener", "authenticatePeer: yes"),
        ("listener", "requireSsl: yes"),
        ("listener", "requireEncryption: true"),
        ("listener", "saslPlugin: x"),
        ("listener", "initialHandshakeTimeoutSeconds: 5"),
        ("listener", "stripAnnotations: no"),
        ("listener", "multiTenant: on"),
        ("listener", "failoverUrls: amqp://b"),
        ("listener", "http: yes"),
        ("listener", "httpRoot: /usr/share"),
        ("listener", "logMessage: all"),
        ("listener", "policyVhost: v"),
        ("listener", "openProperties: {\"a\": 1}"),
        ("log", "module: SERVER\noutputFile: syslog"),
        ("address", "prefix: a\nwaypoint: yes"),
        ("address", "prefix: a\negressPhase: 1"),
        ("address", "prefix: a\nenableFallback: yes"),
    ] {
        let found = errors_in(section, line);
        assert!(found.len() == 1 && found[0].contains("not served by this version"), "{line}: {found:?}");
    }
    assert_eq!(
        errors_in("listener", "host: a\nrole: inter-router"),
        [
            "f.conf:3: listener: role: inter-router is not served by this version",
            "f.conf:3: listener: role inter-router: a standalone router is not allowed to accept connections from other routers",
        ]
    );
}

#[test]
fn forms_of_the_time_before_1_0_name_the_new_ones() {
    for (text, new) in [
        ("container {\n workerThreads: 4\n}\n", "router { id"),
        ("fixedAddress {\n prefix: /\n}\n", "address { prefix"),
        ("fixed-address {\n prefix: /\n}\n", "address { prefix"),
        ("waypoint {\n}\n", "autoLink"),
        ("linkRoutePattern {\n}\n", "linkRoute {"),
        ("router {\n routerId: A\n}\n", "id: …"),
        ("router {\n router-id: A\n}\n", "id: …"),
        ("address {\n prefix: a\n fanout: multiple\n}\n", "distribution: multicast"),
        ("address {\n prefix: a\n bias: spread\n}\n", "distribution: balanced"),
        ("listener {\n addr: 0.0.0.0\n}\n", "host: …"),
    ] {
        let found = errors(text);
        assert!(found.len() == 1 && found[0].contains("before 1.0") && found[0].contains(new), "{text}: {found:?}");
    }
}

#[test]
fn syntax_errors_do_not_hide_each_other() {
    let text = "\
host: a
router
{
    id: a
}
listener { host: b }
listener {
    host
    port:
    5672 5673
    name: x
address {
    prefix: a
}
}
log {
";
    assert_eq!(
        errors(text),
        [
            "f.conf:1: 'host: a' stands outside of any section",
            "f.conf:2: expected 'router {': the opening brace is last on the section's own line",
            "f.conf:6: listener: the opening brace is last on its line, each attribute and '}' have a line of their own",
            "f.conf:7: listener: the section isn't closed: a '}' is missing",
            "f.conf:8: listener: expected 'attribute: value', found 'host'",
            "f.conf:9: listener: attribute 'port' has no value",
            "f.conf:10: listener: expected 'attribute: value', found '5672 5673'",
            "f.conf:15: '}' without a section that it could close",
            "f.conf:16: log: the section isn't closed: a '}' is missing",
            "f.conf:16: log: a module is needed",
        ]
    );
}

#[test]
fn maps_over_several_lines_are_one_value() {
    let text =
        "listener {\n openProperties: {\n  # a comment\n  \"a\": {\"b}\": 1},\n }\n prot: 1\n}\nvhost {\n groups: {\n";
    assert_eq!(
        errors(text),
        [
            "f.conf:2: listener: openProperties is not served by this version",
            "f.conf:6: listener: unknown attribute 'prot'; did you mean 'port'?",
            "f.conf:8: vhost: not served by this version",
            "f.conf:9: vhost: the map 'groups' isn't closed: a '}' is missing",
        ]
    );
}

#[test]
fn checks_across_attributes_and_sections() {
    assert_eq!(errors_in("address", "prefix: a\npattern: b"), ["f.conf:3: address: a prefix or a pattern, not both"]);
    assert_eq!(errors_in("address", "distribution: closest"), ["f.conf:1: address: a prefix or a pattern is needed"]);
    assert_eq!(
        errors_in("address", "prefix: /"),
        ["f.conf:2: address: prefix: an address has to have more in it than separators"]
    );
    assert_eq!(errors_in("router", "id: a\nid: b"), ["f.conf:3: router: 'id' is given twice, first in line 2"]);
    assert_eq!(
        errors_in("router", "hello-interval: 1\nhelloIntervalSeconds: 2"),
        ["f.conf:3: router: 'helloIntervalSeconds' is given twice, first in line 2"]
    );
    let long = "x".repeat(128);
    assert_eq!(
        errors_in("router", &format!("id: {long}")),
        ["f.conf:2: router: id: a router's id has at most 127 characters"]
    );
    assert_eq!(errors("router {\n}\nrouter {\n}\n"), ["f.conf:3: router: there is one already, in line 1"]);
    assert_eq!(
        errors("listener {\n}\nlistener {\n port: 5672\n}\n"),
        ["f.conf:3: listener: host and port are those of the listener in line 1"]
    );
    assert_eq!(
        errors("log {\n module: server\n}\nlog {\n module: SERVER\n}\n"),
        ["f.conf:4: log: module SERVER has its settings in line 1 already"]
    );
    assert_eq!(
        errors_in("log", "module: SERVR\nenable: x"),
        ["f.conf:2: log: module: unknown module 'SERVR'; did you mean 'SERVER'?"]
    );
    assert_eq!(
        errors_in("log", "module: SERVER\nenable: info+,warn+"),
        ["f.conf:3: log: enable: unknown level 'warn'; did you mean 'warning'?"]
    );
    assert_eq!(
        errors_in("router", "timestampFormat: %!x"),
        ["f.conf:2: router: timestampFormat: not a format of strftime(3)"]
    );
}

#[test]
fn address_rules_that_match_the_same_are_refused() {
    for (first, second) in [
        ("prefix: a/b", "pattern: a.b.#"),
        ("prefix: a.b", "prefix: /a/b/"),
        ("pattern: a/#/*", "pattern: a/*/#"),
        ("pattern: #/#", "pattern: #"),
    ] {
        let found = errors(&format!("address {{\n {first}\n}}\naddress {{\n {second}\n}}\n"));
        let [found] = &found[..] else { panic!("{first}, {second}: {found:?}") };
        assert!(found.contains("matches the same addresses as the one in line 1"), "{found}");
    }
    load("listener {\n}\naddress {\n pattern: a\n}\naddress {\n pattern: a/#\n}\n", "f.conf").unwrap();
}

#[test]
fn alert_marks_have_to_be_possible() {
    assert_eq!(
        errors_in("address", "prefix: a\nalertCountUp: 0\nalertSizeDown: 1"),
        ["f.conf:3: address: alertCountUp has to be at least 1", "f.conf:4: address: alertSizeDown needs alertSizeUp",]
    );
    assert_eq!(
        errors_in("address", "prefix: a\nalertSizeUp: 1k\nalertSizeDown: 1024"),
        ["f.conf:4: address: alertSizeDown (1024) has to be below alertSizeUp (1024)"]
    );
    assert_eq!(
        errors_in("address", "prefix: a\nalertCountUp: 1t"),
        ["f.conf:3: address: alertCountUp: expected a whole number, with k, m or g behind it or not, found '1t'"]
    );
}

#[test]
fn an_error_shows_one_problem_a_line() {
    let error = load("a\nb\n", "f.conf").unwrap_err();
    assert_eq!(error.line(), 1);
    assert_eq!(error.to_string().lines().count(), 2);
}

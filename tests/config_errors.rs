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
    for (section, lines) in [
        ("connector", ""),
        ("connector", "name: x\nhost: b\nport: amqps\nverifyHostName: no"),
        ("sslProfile", "name: x"),
        ("ssl-profile", "name: x\ncert-db: /a"),
        ("authServicePlugin", "name: x"),
        ("linkRoute", "prefix: q.\ndir: in"),
        ("router.config.linkRoute", "pattern: a.*\ndirection: out\nconnection: b"),
        ("autoLink", "addr: a\ndirection: in"),
        ("exchange", "name: x\naddress: a"),
        ("policy", "maxConnections: 5"),
        ("vhost", "hostname: h"),
        ("tcpListener", "anything: x"),
        ("httpConnector", ""),
        ("router", "mode: interior"),
        ("router", "mode: edge"),
        ("router", "saslConfigDir: /etc/sasl2"),
        ("listener", "role: route-container"),
        ("listener", "saslMechanisms: PLAIN"),
        ("listener", "saslMechanisms: anonymous, external"),
        ("listener", "authenticatePeer: yes"),
        ("listener", "requireSsl: yes"),
        ("listener", "requireEncryption: true"),
        ("listener", "multiTenant: on"),
        ("listener", "failoverUrls: amqp://b"),
        ("listener", "logMessage: all"),
        ("listener", "policyVhost: v"),
        ("listener", "openProperties: {\"a\": 1}"),
        ("address", "prefix: a\nwaypoint: yes"),
        ("address", "prefix: a\negressPhase: 1"),
        ("address", "prefix: a\nenableFallback: yes"),
    ] {
        let found = errors_in(section, lines);
        assert!(found.len() == 1 && found[0].contains("not served by this version"), "{lines}: {found:?}");
    }
}

#[test]
fn what_is_not_served_but_says_nothing_new_is_accepted() {
    for text in [
        "policy {\n}\n",
        "policy {\n maxConnections: 65535\n enableVhostPolicy: no\n defaultVhost: $default\n}\n",
        "listener {\n role: normal\n requireSsl: no\n http: off\n messageLoggingComponents: none\n}\n",
        "address {\n prefix: a\n waypoint: no\n ingressPhase: 0\n egressPhase: 0\n}\n",
        "router {\n mode: standalone\n saslConfigName: qdrouterd\n debugDump: /tmp/dump\n}\n",
    ] {
        load(text, "f.conf").unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn with_leave_it_starts_without_what_is_not_served() {
    let text = "\
router {
    mode: interior
}
listener {
    port: 1
    role: inter-router
}
listener {
    port: 2
    saslMechanisms: PLAIN ANONYMOUS
    policyVhost: v
}
listener {
    port: 3
    authenticatePeer: yes
}
connector {
    name: a
}
address {
    prefix: q
    waypoint: yes
    distribution: multicast
}
";
    let config = load_with(text, "f.conf", Unsupported::Allowed).unwrap();
    let without: Vec<_> = config.unsupported.iter().map(|problem| problem.to_string()).collect();
    assert_eq!(
        without,
        [
            "f.conf:2: router: mode: interior: not served by this version (links between routers): the router is standalone",
            "f.conf:6: listener: role: inter-router: not served by this version (links to routers and brokers): \
             the listener stays closed",
            "f.conf:10: listener: saslMechanisms: PLAIN: not served by this version (SASL beyond ANONYMOUS): it isn't offered",
            "f.conf:11: listener: policyVhost: not served by this version (policy): nothing is denied",
            "f.conf:15: listener: authenticatePeer: yes: not served by this version (SASL beyond ANONYMOUS): \
             the listener stays closed",
            "f.conf:17: connector 'a': not served by this version (connections that the router makes): it isn't made",
            "f.conf:22: address: waypoint: yes: not served by this version (waypoints and phases): messages go straight on",
        ]
    );
    assert_eq!(config.listeners.iter().map(|listener| listener.port).collect::<Vec<_>>(), [2]);
    assert_eq!(config.addresses[0].distribution, Distribution::Multicast);
    assert_eq!(load(text, "f.conf").unwrap_err().problems.len(), 7);
    // Leave isn't for mistakes.
    assert!(load_with("listener {\n prot: 1\n}\n", "f.conf", Unsupported::Allowed).is_err());
}

#[test]
fn sections_that_are_not_served_are_checked_all_the_same() {
    for (section, lines, error) in [
        ("connector", "adress: a", "2: connector: unknown attribute 'adress'"),
        ("connector", "connectionStatus: x", "2: connector: 'connectionStatus' can't be given: the router says it"),
        ("connector", "role: inter-router", "2: connector: role='standalone' not allowed to connect"),
        ("linkRoute", "prefix: a", "1: linkRoute: 'direction' is needed"),
        ("linkRoute", "dir: in", "1: linkRoute: either a 'prefix' or a 'pattern'"),
        ("linkRoute", "dir: in\nprefix: a\nconnection: b\ncontainerId: c", "4: linkRoute: cannot have both"),
        ("autoLink", "addr: a\ndir: up", "3: autoLink: direction: expected one of in, out"),
        ("autoLink", "addr: a\ndir: in\nfallback: yes\nphase: 2", "5: autoLink: phase: a fallback has none"),
        ("sslProfile", "certFile: a", "1: sslProfile: 'name' is needed"),
        ("listener", "sslProfile: tls", "2: listener: sslProfile: there is no sslProfile 'tls'"),
        ("listener", "saslPlugin: p", "2: listener: saslPlugin: there is no authServicePlugin 'p'"),
        ("binding", "exchangeName: e\nnextHopAddress: a", "2: binding: exchangeName: there is no exchange 'e'"),
        (
            "listener",
            "role: edge\nopenProperties: {\"a\": 1}",
            "3: listener: openProperties: not allowed with role edge",
        ),
        ("connector", "openProperties: {\"qd.x\": 1}", "2: connector: openProperties: 'qd.x' is the router's own"),
        ("connector", "openProperties: {\"a\": }", "2: connector: openProperties: not JSON"),
        ("address", "prefix: a\nenableFallback: yes\nwaypoint: yes", "3: address: enableFallback: not together with"),
        (
            "vhost",
            "id: h\ngroups: {\n a: {\n  users: x\n  remoteHost: *\n }\n}",
            "3: vhost: groups: a: unknown attribute 'remoteHost'",
        ),
        ("vhost", "id: h\ngroups: {\n \"a\": {\"remoteHosts\": \"*\"}\n}", "3: vhost: groups: a: 'users' is needed"),
        ("connectionLinkRoute", "pattern: a", "1: connectionLinkRoute: can't be given in a file"),
    ] {
        let found = errors_in(section, lines);
        assert!(found.iter().any(|found| found.starts_with(&format!("f.conf:{error}"))), "{lines}: {found:?}");
    }
    let twice = errors("listener {\n name: a\n port: 1\n}\nlistener {\n name: a\n port: 2\n}\n");
    assert_eq!(twice, ["f.conf:6: listener: name: 'a' is the name of the listener in line 1 too"]);
}

#[test]
fn a_profile_may_stand_behind_what_uses_it() {
    let text = "listener {\n sslProfile: p\n}\nsslProfile {\n name: p\n}\n";
    let found = errors(text);
    assert!(found.len() == 2 && found.iter().all(|found| found.contains("(TLS)")), "{found:?}");
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
            "f.conf:16: log: 'module' is needed",
        ]
    );
}

#[test]
fn maps_over_several_lines_are_one_value() {
    let text =
        "listener {\n openProperties: {\n  # a comment\n  \"a\": {\"b}\": 1},\n }\n prot: 1\n}\nvhost {\n id: h\n groups: {\n";
    assert_eq!(
        errors(text),
        [
            "f.conf:2: listener: openProperties: not served by this version (own open properties): take it out, or start \
             with --allow-unsupported, then they aren't sent",
            "f.conf:6: listener: unknown attribute 'prot'; did you mean 'port'?",
            "f.conf:8: vhost 'h': not served by this version (policy): take it out, or start with --allow-unsupported, \
             then nothing is denied",
            "f.conf:10: vhost: the map 'groups' isn't closed: a '}' is missing",
        ]
    );
}

#[test]
fn checks_across_attributes_and_sections() {
    assert_eq!(
        errors_in("address", "prefix: a\npattern: b"),
        ["f.conf:3: address: cannot have both a 'prefix' and a 'pattern' attribute"]
    );
    assert_eq!(
        errors_in("address", "distribution: closest"),
        ["f.conf:1: address: either a 'prefix' or a 'pattern' attribute must be provided"]
    );
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
        ["f.conf:2: router: id: exceeds the maximum allowed length (127 characters)"]
    );
    for id in ["abc def", "abc\\bdef"] {
        let found = errors_in("router", &format!("id: {id}"));
        assert!(found.len() == 1 && found[0].ends_with("is disallowed in a router's id (AttributeError)"), "{found:?}");
    }
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
        ["f.conf:2: log: module: expected one of ROUTER, ROUTER_CORE, ROUTER_HELLO, ROUTER_LS, ROUTER_MA, MESSAGE, \
             SERVER, AGENT, AUTHSERVICE, CONTAINER, ERROR, POLICY, HTTP, CONN_MGR, PYTHON, PROTOCOL, DEFAULT; found \
             'SERVR'; did you mean 'SERVER'?"]
    );
    assert_eq!(
        errors_in("log", "module: SERVER\nenable: info+,warm+"),
        ["f.conf:3: log: enable: 'warm' is not a valid log level; it is one of trace, debug, info, notice, warning, \
             error, critical"]
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

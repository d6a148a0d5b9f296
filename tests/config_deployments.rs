//! Files as those who run such routers write them: each parses, and what of it isn't served is named, all of it.

use ringway::config::*;

/// What isn't served of a file, without its name: `line: what (feature): what happens instead`.
fn unsupported(name: &str, text: &str) -> (Config, Vec<String>) {
    let config = load_with(text, name, Unsupported::Allowed).unwrap_or_else(|error| panic!("{error}"));
    let listed: Vec<String> = config.unsupported.iter().map(|problem| problem.to_string()).collect();
    // Refused otherwise, for each of these and nothing else.
    match load(text, name) {
        Ok(_) => assert_eq!(listed, [] as [String; 0]),
        Err(error) => {
            let advice = ": take it out, or start with --allow-unsupported, then ";
            let refused: Vec<String> = error.problems.iter().map(|p| p.to_string().replace(advice, ": ")).collect();
            assert_eq!(refused, listed);
        }
    }
    let short = |line: String| {
        let line = line.strip_prefix(name).and_then(|line| line.strip_prefix(':')).unwrap_or(&line).to_string();
        line.replace("not served by this version ", "")
    };
    (config, listed.into_iter().map(short).collect())
}

fn warnings(config: &Config) -> Vec<String> {
    config.warnings.iter().map(|warning| format!("{}: {}", warning.line, warning.text)).collect()
}

#[test]
fn telemetry_of_a_compute_node() {
    let (config, unsupported) = unsupported("edge.conf", include_str!("configurations/telemetry-edge.conf"));
    assert_eq!(
        unsupported,
        [
            "5: router: mode: edge: (links between routers): the router is standalone",
            "7: router: saslConfigDir: (SASL beyond ANONYMOUS): the directory isn't read",
            "11: sslProfile 'uplink': (TLS): it is left out",
            "19: connector 'telemetry.site-a.example.com': (connections that the router makes): it isn't made",
        ]
    );
    assert_eq!(
        warnings(&config),
        ["16: sslProfile: '#' starts a comment, so the value of 'password' ends in front of it"]
    );
    assert_eq!(
        config.listeners.iter().map(|l| (l.port, l.link_capacity)).collect::<Vec<_>>(),
        [(5666, 25_000), (5667, 250)]
    );
    let prefixes: Vec<_> = config.addresses.iter().map(|address| (&address.matches, address.distribution)).collect();
    let prefix = |text: &str| AddressMatch::Prefix(text.to_string());
    assert_eq!(
        prefixes,
        [
            (&prefix("collectd"), Distribution::Multicast),
            (&prefix("ceilometer/"), Distribution::Multicast),
            (&prefix("anycast."), Distribution::Closest),
        ]
    );
}

#[test]
fn rpc_between_controllers() {
    let (config, unsupported) = unsupported("rpc.conf", include_str!("configurations/rpc.conf"));
    assert_eq!(
        unsupported,
        [
            "2: router: mode: interior: (links between routers): the router is standalone",
            "4: router: saslConfigDir: (SASL beyond ANONYMOUS): the directory isn't read",
            "13: listener: sslProfile: (TLS): the listener stays closed",
            "14: listener: saslMechanisms: PLAIN: (SASL beyond ANONYMOUS): it isn't offered",
            "15: listener: authenticatePeer: yes: (SASL beyond ANONYMOUS): the listener stays closed",
            "22: listener: role: inter-router: (links to routers and brokers): the listener stays closed",
            "27: connector '172.16.2.11': (connections that the router makes): it isn't made",
            "34: sslProfile 'internal_tls': (TLS): it is left out",
        ]
    );
    assert_eq!(
        warnings(&config),
        [
            "0: no listener: nobody can connect",
            "6: router: debugDumpFile has no effect: there are no pools that it would describe"
        ]
    );
    assert_eq!((config.listeners.len(), config.addresses.len()), (0, 6));
    assert_eq!(config.logs[0].output, Some(LogOutput::Syslog));
}

#[test]
fn devices_in_json() {
    let (config, unsupported) = unsupported("devices.json", include_str!("configurations/devices.json"));
    assert_eq!(
        unsupported,
        [
            "23: listener: requireSsl: yes: (TLS): the listener stays closed",
            "24: listener: sslProfile: (TLS): the listener stays closed",
            "25: listener: saslPlugin: (SASL beyond ANONYMOUS): the listener stays closed",
            "26: listener: saslMechanisms: PLAIN: (SASL beyond ANONYMOUS): it isn't offered",
            "26: listener: saslMechanisms: EXTERNAL: (SASL beyond ANONYMOUS): it isn't offered",
            "27: listener: authenticatePeer: yes: (SASL beyond ANONYMOUS): the listener stays closed",
            "40: sslProfile 'external': (TLS): it is left out",
            "46: authServicePlugin 'tenants': (SASL beyond ANONYMOUS): it is left out",
            "53: connector 'broker': (connections that the router makes): it isn't made",
            "62: linkRoute 'event/': (link routes): its links aren't routed",
            "63: linkRoute 'event/': (link routes): its links aren't routed",
            "67: policy: (policy): nothing is denied",
            "68: vhost 'devices': (policy): nothing is denied",
        ]
    );
    assert_eq!(warnings(&config), [] as [String; 0]);
    assert_eq!(config.listeners.iter().map(|l| (l.port, l.http)).collect::<Vec<_>>(), [(5671, true), (5673, false)]);
    assert_eq!(config.addresses[1].priority, Some(9));
}

#[test]
fn brokers_of_two_sites() {
    let (config, unsupported) = unsupported("sites.conf", include_str!("configurations/sites.conf"));
    assert_eq!(
        unsupported,
        [
            "4: router: mode: interior: (links between routers): the router is standalone",
            "12: listener: openProperties: (own open properties): they aren't sent",
            "20: listener: role: inter-router: (links to routers and brokers): the listener stays closed",
            "24: listener: saslMechanisms: EXTERNAL: (SASL beyond ANONYMOUS): it isn't offered",
            "25: listener: authenticatePeer: yes: (SASL beyond ANONYMOUS): the listener stays closed",
            "26: listener: requireSsl: yes: (TLS): the listener stays closed",
            "27: listener: sslProfile: (TLS): the listener stays closed",
            "30: connector 'broker-west': (connections that the router makes): it isn't made",
            "36: connector 'amq-east': (connections that the router makes): it isn't made",
            "44: sslProfile 'sites': (TLS): it is left out",
            "50: address: waypoint: yes: (waypoints and phases): messages go straight on",
            "52: autoLink 'orders': (autolinks): the link isn't attached",
            "57: autoLink 'orders': (autolinks): the link isn't attached",
            "64: linkRoute 'orders': (link routes): its links aren't routed",
            "70: linkRoute '$coordinator.#': (link routes): its links aren't routed",
            "75: vhost 'shop': (policy): nothing is denied",
        ]
    );
    assert_eq!(warnings(&config), [] as [String; 0]);
    assert_eq!(config.listeners.iter().map(|l| l.idle_timeout_seconds).collect::<Vec<_>>(), [120]);
}

#[test]
fn a_fixture_of_a_test_suite_is_served_whole() {
    let (config, unsupported) = unsupported("fixture.conf", include_str!("configurations/fixture.conf"));
    assert_eq!(unsupported, [] as [String; 0]);
    assert_eq!(warnings(&config), [] as [String; 0]);
    assert_eq!((config.listeners.len(), config.addresses.len()), (1, 3));
}

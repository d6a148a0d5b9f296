//! The line-oriented form of the configuration: what files of the kinds in use come to.

use ringway::config::*;
use ringway::log::{Level, Levels, Module};

fn load_ok(text: &str) -> Config {
    load(text, "test.conf").unwrap_or_else(|error| panic!("{error}"))
}

fn warnings(config: &Config) -> Vec<String> {
    config.warnings.iter().map(|warning| warning.to_string()).collect()
}

#[test]
fn the_built_in_default_is_one_anonymous_listener_on_this_machine() {
    let config = load(DEFAULT, DEFAULT_NAME).unwrap();
    assert_eq!(config.warnings, []);
    assert_eq!(config.router.default_distribution, Distribution::Balanced);
    let [listener] = &config.listeners[..] else { panic!("one listener") };
    assert_eq!((listener.host.as_str(), listener.port), ("127.0.0.1", 5672));
    assert_eq!(listener.sasl_mechanisms, ["ANONYMOUS"]);
}

#[test]
fn an_empty_listener_has_every_default() {
    let config = load_ok("router {\n}\nlistener {\n}\n");
    assert_eq!(
        config.listeners[0],
        ListenerConfig {
            name: None,
            line: 3,
            host: String::new(),
            port_name: "amqp".to_string(),
            port: 5672,
            socket_address_family: None,
            role: ListenerRole::Normal,
            cost: 1,
            sasl_mechanisms: vec!["ANONYMOUS".to_string()],
            authenticate_peer: false,
            max_frame_size: 16_384,
            max_sessions: 32_768,
            max_session_frames: None,
            idle_timeout_seconds: 16,
            handshake_timeout_seconds: 60,
            message_size_max: 0,
            links_max: 65_536,
            unsettled_max: 131_072,
            strip_annotations: StripAnnotations::Both,
            link_capacity: 250,
            http: false,
            http_root_dir: None,
            healthz: true,
            metrics: true,
            websockets: true,
        }
    );
    assert_eq!(
        config.router,
        RouterConfig {
            id: None,
            mode: RouterMode::Standalone,
            hello_interval_seconds: 1,
            hello_max_age_seconds: 3,
            ra_interval_seconds: 30,
            ra_interval_flux_seconds: 4,
            remote_ls_max_age_seconds: 60,
            worker_threads: None,
            timestamps_in_utc: false,
            timestamp_format: None,
            default_distribution: Distribution::Balanced,
            metadata: None,
            flow: FlowConfig { flow_control: FlowControl::Share, credit_slack_percent: 100 },
            multicast_stall_seconds: 2,
            drain_wait_milliseconds: 50,
            memory_limit_bytes: None,
            connections_max: 65_535,
            busy_poll_microseconds: 0,
        }
    );
    assert_eq!(warnings(&config), [] as [String; 0]);
}

#[test]
fn a_file_of_a_telemetry_node() {
    let config = load_ok(
        "\u{feff}
# \u{201c}Telemetry\u{201d}: quotes that a word processor made
router {
    id: node-17.example.com
  mode: standalone
\tdefaultDistribution: closest

}\u{20}
listener {
    host: 127.0.0.1
    port: 5666
    authenticatePeer: no
    linkCapacity: 25000   # enough for a burst
    sasl-mechanisms: anonymous
    idle-timeout-seconds: 0
    max-session-frames: 100
    socketAddressFamily: IPv4
}

listener {
    port: amqps
    protocol-family: IPv6
    http: off
}
router.config.address {
    prefix: collectd
    distribution: multicast
    name: metrics
}
org.apache.qpid.dispatch.router.config.address {
    pattern: ceilometer/*/#
    distribution: unavailable
    priority: 9
}
address {
    prefix: anycast.
    waypoint: false
    ingressPhase: 0
}
log {
    module: DEFAULT
    enable: info+
    timestamp: true
    output: stdout
}
log {
    module: PROTOCOL
    enable: trace,debug critical
    outputFile: /tmp/trace.log
    includeSource: on
}",
    );
    assert_eq!(config.router.id.as_deref(), Some("node-17.example.com"));
    assert_eq!(config.router.default_distribution, Distribution::Closest);
    let first = &config.listeners[0];
    assert_eq!((first.link_capacity, first.idle_timeout_seconds, first.max_session_frames), (25_000, 0, Some(100)));
    assert_eq!(first.sasl_mechanisms, ["ANONYMOUS"]);
    assert_eq!(first.socket_address_family, Some(AddressFamily::Ipv4));
    let second = &config.listeners[1];
    assert_eq!((second.port, second.port_name.as_str(), second.host.as_str()), (5671, "amqps", ""));
    assert_eq!(second.socket_address_family, Some(AddressFamily::Ipv6));

    let addresses: Vec<_> = config.addresses.iter().map(|a| (&a.matches, a.distribution, a.priority)).collect();
    assert_eq!(
        addresses,
        [
            (&AddressMatch::Prefix("collectd".to_string()), Distribution::Multicast, None),
            (&AddressMatch::Pattern("ceilometer/*/#".to_string()), Distribution::Unavailable, Some(9)),
            (&AddressMatch::Prefix("anycast.".to_string()), Distribution::Balanced, None),
        ]
    );
    assert_eq!(config.addresses[0].name.as_deref(), Some("metrics"));

    assert_eq!(config.logs[0].enable, Some(LogLevels::Levels(Levels::from(Level::Info))));
    assert_eq!(config.logs[0].include_timestamp, Some(true));
    assert_eq!(config.logs[0].output, Some(LogOutput::Stdout));
    assert_eq!(config.logs[1].module, Module::Protocol);
    let listed = [Level::Trace, Level::Debug, Level::Critical].map(Levels::only);
    let listed = listed.into_iter().fold(Levels::NONE, Levels::with);
    assert_eq!(config.logs[1].enable, Some(LogLevels::Levels(listed)));
    assert_eq!(config.logs[1].output, Some(LogOutput::File("/tmp/trace.log".to_string())));
    assert_eq!(warnings(&config), [] as [String; 0]);
}

#[test]
fn flow_of_an_address_is_the_routers_with_its_own_on_top() {
    let config = load_ok(
        "router {\n flowControl: capacity\n creditSlack: 50%\n drainWait: 100 ms\n multicastStallSeconds: 10\n busyPollMicroseconds: 60\n}\n\
         listener {\n}\naddress {\n prefix: a\n creditSlack: 0\n}\naddress {\n prefix: b\n flowControl: share\n}\n",
    );
    let (router, capacity, share) = (&config.router, FlowControl::Capacity, FlowControl::Share);
    assert_eq!((router.drain_wait_milliseconds, router.multicast_stall_seconds), (100, 10));
    assert_eq!(router.busy_poll_microseconds, 60);
    assert_eq!(router.flow, FlowConfig { flow_control: capacity, credit_slack_percent: 50 });
    assert_eq!(config.addresses[0].flow, FlowConfig { flow_control: capacity, credit_slack_percent: 0 });
    assert_eq!(config.addresses[1].flow, FlowConfig { flow_control: share, credit_slack_percent: 50 });
}

#[test]
fn alert_marks_have_suffixes_and_the_lower_defaults_to_half() {
    let config = load_ok(
        "listener {\n}\naddress {\n prefix: a\n alertCountUp: 10k\n alertSizeUp: 2m\n alertSizeDown: 1k\n}\n\
         address {\n prefix: b\n alertCountUp: 1\n alertCountDown: 0\n}\n",
    );
    assert_eq!(config.addresses[0].alert_count, Some(AlertMarks { up: 10_000, down: 5_000 }));
    assert_eq!(config.addresses[0].alert_size, Some(AlertMarks { up: 2 << 20, down: 1 << 10 }));
    assert_eq!(config.addresses[1].alert_count, Some(AlertMarks { up: 1, down: 0 }));
    assert_eq!(config.addresses[1].alert_size, None);
}

#[test]
fn numbers_below_and_above_the_possible_are_drawn_in_with_a_warning() {
    let config =
        load_ok("listener {\n maxFrameSize: 100\n maxSessions: 100000\n linkCapacity: 0\n maxSessionFrames: 0\n}\n");
    let listener = &config.listeners[0];
    assert_eq!((listener.max_frame_size, listener.max_sessions, listener.link_capacity), (512, 32_768, 250));
    assert_eq!(listener.max_session_frames, None);
    assert_eq!(
        warnings(&config),
        [
            "test.conf:2: listener: maxFrameSize: 100 is below AMQP's least, 512 is used",
            "test.conf:3: listener: maxSessions: 100000 is too many, 32768 is used",
        ]
    );
}

#[test]
fn what_looks_like_an_accident_is_warned_of() {
    let config = load_ok(
        "router {\n id: \"quoted\"\n metadata: abc#def\n workerThreads: 8\n}\nlistener {\n host: localhost # fine\n}\n\
         address {\n pattern: a/# # all of a\n}\naddress {\n pattern: b c\n}\n",
    );
    assert_eq!(config.addresses[0].matches, AddressMatch::Pattern("a/#".to_string()));
    assert_eq!(config.router.id.as_deref(), Some("\"quoted\""));
    assert_eq!(config.router.metadata.as_deref(), Some("abc"));
    assert_eq!(config.router.worker_threads, Some(8));
    assert_eq!(
        warnings(&config),
        [
            "test.conf:2: router: the quotes around the value of 'id' are part of it",
            "test.conf:3: router: '#' starts a comment, so the value of 'metadata' ends in front of it",
            "test.conf:13: address: the value of 'pattern' is one word, 'b'; 'c' is left out",
        ]
    );
}

#[test]
fn a_router_without_listener_is_warned_of() {
    assert_eq!(warnings(&load_ok("")), ["test.conf: no listener: nobody can connect"]);
}

#[test]
fn line_ends_of_another_system_are_line_ends() {
    let config = load_ok("listener {\r\n    host: 0.0.0.0\r\n    port: 20001\r\n}\r\n");
    assert_eq!((config.listeners[0].host.as_str(), config.listeners[0].port), ("0.0.0.0", 20_001));
}

#[test]
fn limits_are_as_the_file_says() {
    let config = load_ok(
        "router {\n memoryLimit: 64m\n maxConnections: 100\n}\n\
         listener {\n initialHandshakeTimeoutSeconds: 5\n maxMessageSize: 1000\n maxLinks: 10\n maxUnsettled: 20\n}\n",
    );
    assert_eq!((config.router.memory_limit_bytes, config.router.connections_max), (Some(64 << 20), 100));
    let listener = &config.listeners[0];
    assert_eq!((listener.handshake_timeout_seconds, listener.message_size_max), (5, 1000));
    assert_eq!((listener.links_max, listener.unsettled_max), (10, 20));
}

#[test]
fn listeners_are_known_by_host_port_and_name() {
    let config = load_ok("listener {\n}\nlistener {\n host: ::1\n port: 7\n name: a\n}\n");
    let identities: Vec<_> = config.listeners.iter().map(ListenerConfig::identity).collect();
    assert_eq!(identities, ["listener/:amqp", "listener/::1:7:a"]);
}

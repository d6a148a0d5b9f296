//! What a configuration comes to: plain structs, every default filled in.

use crate::log::{Levels, Module};
use std::fmt;

/// A whole configuration, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    pub router: RouterConfig,
    pub listeners: Vec<ListenerConfig>,
    /// In the order of the file. No two have the same pattern.
    pub addresses: Vec<AddressConfig>,
    pub logs: Vec<LogConfig>,
    /// What was accepted but looks like a mistake, or has no effect here. One readable line each.
    pub warnings: Vec<super::Problem>,
    /// What the file asks for and this version doesn't serve, where that is allowed: what it goes without.
    pub unsupported: Vec<super::Problem>,
    /// All sections as they were written, served or not, in the order of the file: for management to show.
    pub entities: Vec<Configured>,
}

/// A section's attributes as it gives them.
#[derive(Debug, Clone, PartialEq)]
pub struct Configured {
    /// The schema's name of the entity.
    pub entity: &'static str,
    pub line: usize,
    /// By the schema's names.
    pub values: Vec<(&'static str, super::Value)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouterMode {
    Standalone,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RouterConfig {
    /// None: the file gives no id; the caller makes a random one.
    pub id: Option<String>,
    pub mode: RouterMode,
    pub hello_interval_seconds: u32,
    pub hello_max_age_seconds: u32,
    pub ra_interval_seconds: u32,
    pub ra_interval_flux_seconds: u32,
    pub remote_ls_max_age_seconds: u32,
    /// Shards; None: one for each core.
    pub worker_threads: Option<u16>,
    pub timestamps_in_utc: bool,
    /// As chrono reads it; None: the date and time with microseconds and zone.
    pub timestamp_format: Option<String>,
    /// For addresses that no `address` entity matches.
    pub default_distribution: Distribution,
    pub metadata: Option<String>,
    /// For addresses that don't say.
    pub flow: FlowConfig,
    /// A multicast consumer without credit for longer than this is set aside.
    pub multicast_stall_seconds: u32,
    /// How long a consumer's drain waits for the senders.
    pub drain_wait_milliseconds: u32,
    /// What may be held for peers; None: a share of what the machine has.
    pub memory_limit_bytes: Option<u64>,
    pub connections_max: u32,
    /// How long a shard polls before it sleeps; 0: not at all.
    pub busy_poll_microseconds: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Distribution {
    Multicast,
    Closest,
    Balanced,
    Unavailable,
}

/// How senders of an address get credit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowControl {
    /// A share of what the consumers can take.
    Share,
    /// The link capacity of the sender's listener, as soon as there is a consumer.
    Capacity,
}

/// How credit is given, for the router's addresses or for one.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowConfig {
    pub flow_control: FlowControl,
    /// What may wait in the router beyond the consumers' windows, in percent of them.
    pub credit_slack_percent: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenerRole {
    Normal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressFamily {
    Ipv4,
    Ipv6,
}

/// Which way the router's own annotations are taken off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StripAnnotations {
    In,
    Out,
    Both,
    No,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ListenerConfig {
    pub name: Option<String>,
    /// The line where it begins, for messages that only binding it can give.
    pub line: usize,
    /// Empty: all addresses of the machine.
    pub host: String,
    /// As the file has it: a number, `amqp` or `amqps`.
    pub port_name: String,
    /// 0: any free port.
    pub port: u16,
    /// None: whatever the host resolves to.
    pub socket_address_family: Option<AddressFamily>,
    pub role: ListenerRole,
    pub cost: u32,
    /// Upper-case names, in the order of the file.
    pub sasl_mechanisms: Vec<String>,
    pub authenticate_peer: bool,
    /// Bytes.
    pub max_frame_size: u32,
    /// 1 to 32 768; channel-max is one less.
    pub max_sessions: u32,
    /// Incoming window of a session, in frames of `max_frame_size`; None: the router's own bound.
    pub max_session_frames: Option<u32>,
    /// 0: none.
    pub idle_timeout_seconds: u32,
    pub handshake_timeout_seconds: u32,
    /// Bytes; 0: any.
    pub message_size_max: u64,
    /// Of a connection.
    pub links_max: u32,
    /// Of a session, each way.
    pub unsettled_max: u32,
    pub strip_annotations: StripAnnotations,
    /// Deliveries; never 0.
    pub link_capacity: u32,
    /// It speaks HTTP, not AMQP.
    pub http: bool,
    /// Directory of the files that it serves.
    pub http_root_dir: Option<String>,
    pub healthz: bool,
    pub metrics: bool,
    pub websockets: bool,
}

impl ListenerConfig {
    /// What management knows it by, with nothing looked up: `listener/host:port`, with `:name` where it has one.
    pub fn identity(&self) -> String {
        let name = self.name.as_ref().map(|name| format!(":{name}")).unwrap_or_default();
        format!("listener/{}:{}{name}", self.host, self.port_name)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddressMatch {
    /// The address itself and everything below it: `a/b` matches `a/b` and `a/b/c`.
    Prefix(String),
    /// Tokens between `.` or `/`; `*` is any one, `#` any number.
    Pattern(String),
}

/// Marks of a depth: an event on reaching `up`, the opposite one on coming down to `down`. `down < up`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlertMarks {
    pub up: u64,
    pub down: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct AddressConfig {
    pub name: Option<String>,
    pub line: usize,
    pub matches: AddressMatch,
    pub distribution: Distribution,
    /// 0 to 9; None: the message's own.
    pub priority: Option<u8>,
    /// The router's, with what this address says in its place.
    pub flow: FlowConfig,
    /// Messages.
    pub alert_count: Option<AlertMarks>,
    /// Bytes.
    pub alert_size: Option<AlertMarks>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogOutput {
    Stdout,
    Stderr,
    Syslog,
    File(String),
}

impl fmt::Display for LogOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LogOutput::Stdout => "stdout",
            LogOutput::Stderr => "stderr",
            LogOutput::Syslog => "syslog",
            LogOutput::File(path) => path,
        })
    }
}

/// What `enable` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevels {
    /// Those of the module DEFAULT.
    Default,
    Levels(Levels),
}

/// What a `log` entity says of its module. None: it doesn't say.
#[derive(Debug, Clone, PartialEq)]
pub struct LogConfig {
    pub line: usize,
    pub module: Module,
    pub enable: Option<LogLevels>,
    pub include_timestamp: Option<bool>,
    pub include_source: Option<bool>,
    pub output: Option<LogOutput>,
}

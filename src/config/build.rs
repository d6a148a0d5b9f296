//! Sections to the structs that the router runs on: of what is served, with every default filled in.

use super::across;
use super::check::{self, Checked};
use super::problem::{closest, Report};
use super::schema::{self, did_you_mean, Unserved};
use super::section::Section;
use super::types::*;
use super::value::Value;
use crate::limits;
use crate::log::{Level, Levels, Module};

/// Longest id of a router.
const ROUTER_ID_LENGTH_MAX: usize = 127;

pub(super) fn build(sections: &[Section], report: &mut Report) -> Config {
    let checked: Vec<Checked> = sections.iter().filter_map(|section| check::check(section, report)).collect();
    across::check(&checked, report);
    let of = |name: &'static str| checked.iter().filter(move |section| section.entity.name == name);

    let router = router(of("router").next(), report);
    let listeners: Vec<_> = of("listener").filter_map(|section| listener(section, report)).collect();
    let addresses: Vec<_> = of("address").filter_map(|section| address(section, &router.flow, report)).collect();
    let logs: Vec<_> = of("log").filter_map(|section| log(section, report)).collect();
    across::listeners_apart(&listeners, report);
    across::addresses_apart(&addresses, report);
    across::modules_apart(&logs, report);
    // What is wrong with those that there are is told already.
    if listeners.is_empty() && (of("listener").next().is_none() || !report.has_errors()) {
        report.warning(0, "no listener: nobody can connect");
    }
    let entities = checked.iter().map(Checked::configured).collect();
    Config { router, listeners, addresses, logs, warnings: Vec::new(), unsupported: Vec::new(), entities }
}

fn router(section: Option<&Checked>, report: &mut Report) -> RouterConfig {
    let absent = Checked::absent(schema::find("router").expect("an entity of the schema"));
    let section = section.unwrap_or(&absent);
    let id = section.text("id");
    if let Some(id) = &id {
        router_id(id, section, report);
    }
    // qdrouterd's strftime(3) has no microseconds, so it takes printf's word for them.
    let timestamp_format = section.text("timestampFormat").map(|format| format.replace("%%06lu", "%6f"));
    if timestamp_format.as_deref().is_some_and(|format| !is_time_format(format)) {
        section.error("timestampFormat", "timestampFormat: not a format of strftime(3)", report);
    }
    RouterConfig {
        id,
        mode: RouterMode::Standalone,
        hello_interval_seconds: section.number("helloIntervalSeconds"),
        hello_max_age_seconds: section.number("helloMaxAgeSeconds"),
        ra_interval_seconds: section.number("raIntervalSeconds"),
        ra_interval_flux_seconds: section.number("raIntervalFluxSeconds"),
        remote_ls_max_age_seconds: section.number("remoteLsMaxAgeSeconds"),
        worker_threads: section.integer("workerThreads").and_then(|number| u16::try_from(number).ok()),
        timestamps_in_utc: section.boolean("timestampsInUTC"),
        timestamp_format,
        default_distribution: distribution(section.choice("defaultDistribution")),
        metadata: section.text("metadata"),
        flow: flow(section, None),
        multicast_stall_seconds: section.number("multicastStallSeconds"),
        drain_wait_milliseconds: section.number("drainWait"),
        memory_limit_bytes: memory_limit(section, report),
        connections_max: section.number("maxConnections"),
        busy_poll_microseconds: section.number("busyPollMicroseconds"),
    }
}

/// Less than that a router can't do its work in.
fn memory_limit(section: &Checked, report: &mut Report) -> Option<u64> {
    let bytes = section.integer("memoryLimit")?;
    let least = limits::MEMORY_LIMIT_MIN as u64;
    if bytes < least {
        section.error("memoryLimit", format!("memoryLimit: {bytes} bytes is less than {least}, the least"), report);
    }
    Some(bytes)
}

fn router_id(id: &str, section: &Checked, report: &mut Report) {
    if id.len() > ROUTER_ID_LENGTH_MAX {
        let text = format!("id: exceeds the maximum allowed length ({ROUTER_ID_LENGTH_MAX} characters)");
        section.error("id", text, report);
    }
    if let Some(c) = id.chars().find(|c| c.is_control() || c.is_whitespace()) {
        // The word in brackets is what scripts that start qdrouterd look for.
        section.error("id", format!("id: the character {c:?} is disallowed in a router's id (AttributeError)"), report);
    }
}

fn is_time_format(format: &str) -> bool {
    !chrono::format::StrftimeItems::new(format).any(|item| item == chrono::format::Item::Error)
}

fn distribution(word: Option<&str>) -> Distribution {
    match word {
        Some("multicast") => Distribution::Multicast,
        Some("closest") => Distribution::Closest,
        Some("unavailable") => Distribution::Unavailable,
        _ => Distribution::Balanced,
    }
}

/// What a section says of flow, on top of what holds without it.
fn flow(section: &Checked, base: Option<&FlowConfig>) -> FlowConfig {
    FlowConfig {
        flow_control: match (section.choice("flowControl"), base) {
            (Some("capacity"), _) => FlowControl::Capacity,
            (Some(_), _) | (None, None) => FlowControl::Share,
            (None, Some(base)) => base.flow_control,
        },
        credit_slack_percent: match section.integer("creditSlack") {
            Some(percent) => percent as u32,
            None => base.map_or(0, |base| base.credit_slack_percent),
        },
    }
}

/// None: it stays closed, since what it promises isn't served.
pub(super) fn listener(section: &Checked, report: &mut Report) -> Option<ListenerConfig> {
    let sasl_mechanisms = sasl_mechanisms(section, report);
    if section.is_closed {
        return None;
    }
    let (port_name, port) = match section.value("port") {
        Some(Value::Port { name, number }) => (name, number.unwrap_or(0)),
        _ => (String::new(), 0),
    };
    Some(ListenerConfig {
        name: section.text("name"),
        line: section.line,
        host: section.text("host").unwrap_or_default(),
        port_name,
        port,
        socket_address_family: match section.choice("socketAddressFamily") {
            Some("IPv4") => Some(AddressFamily::Ipv4),
            Some("IPv6") => Some(AddressFamily::Ipv6),
            _ => None,
        },
        role: ListenerRole::Normal,
        cost: section.number("cost"),
        sasl_mechanisms,
        authenticate_peer: section.boolean("authenticatePeer"),
        max_frame_size: max_frame_size(section, report),
        max_sessions: max_sessions(section, report),
        max_session_frames: section
            .integer("maxSessionFrames")
            .map(|frames| frames as u32)
            .filter(|frames| *frames > 0),
        idle_timeout_seconds: section.number("idleTimeoutSeconds"),
        handshake_timeout_seconds: match section.number("initialHandshakeTimeoutSeconds") {
            0 => limits::HANDSHAKE_SECONDS,
            seconds => seconds,
        },
        message_size_max: section.integer("maxMessageSize").unwrap_or(0),
        links_max: section.number("maxLinks"),
        unsettled_max: section.number("maxUnsettled"),
        strip_annotations: match section.choice("stripAnnotations") {
            Some("in") => StripAnnotations::In,
            Some("out") => StripAnnotations::Out,
            Some("no") => StripAnnotations::No,
            _ => StripAnnotations::Both,
        },
        link_capacity: match section.number("linkCapacity") {
            0 => limits::LINK_CAPACITY_DEFAULT,
            capacity => capacity,
        },
        http: section.boolean("http") || section.given("httpRootDir").is_some(),
        http_root_dir: section.text("httpRootDir"),
        healthz: section.boolean("healthz"),
        metrics: section.boolean("metrics"),
        websockets: section.boolean("websockets"),
    })
}

/// The mechanisms that are offered. Whoever needn't authenticate may use ANONYMOUS, whatever else there is.
fn sasl_mechanisms(section: &Checked, report: &mut Report) -> Vec<String> {
    let unserved = Unserved { feature: "SASL beyond ANONYMOUS", instead: "it isn't offered", closes: false };
    for mechanism in section.list("saslMechanisms").iter().map(|item| item.to_ascii_uppercase()) {
        if mechanism != "ANONYMOUS" {
            let what = format!("listener: saslMechanisms: {mechanism}");
            report.unserved(section.line("saslMechanisms"), &what, &unserved);
        }
    }
    vec!["ANONYMOUS".to_string()]
}

fn max_frame_size(section: &Checked, report: &mut Report) -> u32 {
    let size = section.number("maxFrameSize");
    if size < limits::MAX_FRAME_SIZE_MIN {
        let text = format!("maxFrameSize: {size} is below AMQP's least, {} is used", limits::MAX_FRAME_SIZE_MIN);
        section.warning("maxFrameSize", text, report);
    }
    size.max(limits::MAX_FRAME_SIZE_MIN)
}

fn max_sessions(section: &Checked, report: &mut Report) -> u32 {
    let most = limits::MAX_SESSIONS_DEFAULT;
    match section.number("maxSessions") {
        0 => most,
        sessions if sessions > most => {
            section.warning("maxSessions", format!("maxSessions: {sessions} is too many, {most} is used"), report);
            most
        }
        sessions => sessions,
    }
}

pub(super) fn address(section: &Checked, router: &FlowConfig, report: &mut Report) -> Option<AddressConfig> {
    if !across::prefix_or_pattern(section, report) {
        return None;
    }
    let matches = match (section.text("prefix"), section.text("pattern")) {
        (Some(prefix), _) => AddressMatch::Prefix(prefix),
        (None, pattern) => AddressMatch::Pattern(pattern?),
    };
    fallback_alone(section, report);
    if across::tokens(&matches).is_empty() {
        section.error("prefix", "prefix: an address has to have more in it than separators", report);
    }
    Some(AddressConfig {
        name: section.text("name"),
        line: section.line,
        matches,
        distribution: distribution(section.choice("distribution")),
        priority: section.integer("priority").map(|priority| priority as u8),
        flow: flow(section, Some(router)),
        alert_count: marks(section, "alertCountUp", "alertCountDown", report),
        alert_size: marks(section, "alertSizeUp", "alertSizeDown", report),
    })
}

fn fallback_alone(section: &Checked, report: &mut Report) {
    let is_phase = |name: &str| matches!(section.stated(name), Some(Value::Integer(phase)) if *phase != 0);
    let is_yes = |name: &str| section.stated(name) == Some(&Value::Boolean(true));
    if is_yes("enableFallback") && (is_yes("waypoint") || is_phase("ingressPhase") || is_phase("egressPhase")) {
        section.error("enableFallback", "enableFallback: not together with waypoint or a phase other than 0", report);
    }
}

/// Two marks of a depth; the lower is half of the upper where it isn't given.
fn marks(section: &Checked, up_name: &str, down_name: &str, report: &mut Report) -> Option<AlertMarks> {
    match (section.integer(up_name), section.integer(down_name)) {
        (None, None) => None,
        (None, Some(_)) => {
            if !section.is_broken {
                section.error(down_name, format!("{down_name} needs {up_name}"), report);
            }
            None
        }
        (Some(0), _) => {
            section.error(up_name, format!("{up_name} has to be at least 1"), report);
            None
        }
        (Some(up), Some(down)) if down >= up => {
            section.error(down_name, format!("{down_name} ({down}) has to be below {up_name} ({up})"), report);
            None
        }
        (Some(up), down) => Some(AlertMarks { up, down: down.unwrap_or(up / 2) }),
    }
}

pub(super) fn log(section: &Checked, report: &mut Report) -> Option<LogConfig> {
    let module = section.choice("module").and_then(Module::parse)?;
    let enable = section.text("enable").and_then(|text| match levels(&text) {
        Ok(levels) => Some(levels),
        Err(text) => {
            section.error("enable", text, report);
            None
        }
    });
    let output = section.text("outputFile").map(|text| match text.as_str() {
        "stdout" => LogOutput::Stdout,
        "stderr" => LogOutput::Stderr,
        "syslog" => LogOutput::Syslog,
        _ => LogOutput::File(text),
    });
    let flag = |name: &str| section.given(name).map(|value| *value == Value::Boolean(true));
    Some(LogConfig {
        line: section.line,
        module,
        enable,
        include_timestamp: flag("includeTimestamp"),
        include_source: flag("includeSource"),
        output,
    })
}

/// Levels as `enable` lists them: `info+`, `trace,debug`, `none`; `default` is as if nothing were said. The first letters
/// of a level are enough (`warn+`).
fn levels(text: &str) -> Result<LogLevels, String> {
    let is_begin_of = |begin: &str, word: &str| {
        !begin.is_empty() && word.get(..begin.len()).is_some_and(|first| first.eq_ignore_ascii_case(begin))
    };
    let mut levels = Levels::NONE;
    for word in text.split([',', ' ', ';', ':', '\t']).filter(|word| !word.is_empty()) {
        let (name, is_open) = word.strip_suffix('+').map_or((word, false), |name| (name, true));
        if is_begin_of(name, "default") && name.len() > 1 {
            return Ok(LogLevels::Default);
        }
        if is_begin_of(name, "none") && !is_open {
            continue;
        }
        let level = Level::ALL.iter().find(|(_, known)| is_begin_of(name, known)).map(|(level, _)| *level);
        let level = level.ok_or_else(|| {
            let known = Level::ALL.iter().map(|(_, name)| *name);
            let suggestion = did_you_mean(closest(name, known.clone()));
            let known: Vec<_> = known.collect();
            format!("enable: '{name}' is not a valid log level; it is one of {}{suggestion}", known.join(", "))
        })?;
        levels = levels.with(if is_open { Levels::from(level) } else { Levels::only(level) });
    }
    Ok(LogLevels::Levels(levels))
}

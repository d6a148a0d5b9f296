//! Sections to checked structs: each attribute by the schema, then what one attribute says about another, then
//! what one section says about another.

use super::problem::{closest, Report};
use super::schema::{self, did_you_mean, Entity};
use super::section::Section;
use super::types::*;
use super::value::{self, Value};
use crate::limits;
use crate::log::{Level, Levels, Module};

pub(super) fn build(sections: &[Section], report: &mut Report) -> Config {
    let checked: Vec<Checked> = sections.iter().filter_map(|section| check(section, report)).collect();
    single(&checked, report);
    let of = |name: &'static str| checked.iter().filter(move |section| section.entity.name == name);

    let absent = Checked::absent("router");
    let router = router(of("router").next().unwrap_or(&absent), report);
    let listeners: Vec<_> = of("listener").map(|section| listener(section, report)).collect();
    let addresses: Vec<_> = of("address").filter_map(|section| address(section, &router.flow, report)).collect();
    let logs: Vec<_> = of("log").filter_map(|section| log(section, report)).collect();
    listeners_apart(&listeners, report);
    addresses_apart(&addresses, report);
    modules_apart(&logs, report);
    if of("listener").next().is_none() {
        report.warning(0, "no listener: nobody can connect");
    }
    Config { router, listeners, addresses, logs, warnings: Vec::new() }
}

/// A section whose attributes are known and have values of their kinds.
struct Checked {
    entity: &'static Entity,
    line: usize,
    /// By the schema's name, with its line.
    values: Vec<(&'static str, usize, Value)>,
    /// Attributes that stand there with a value that can't be read: told already.
    is_broken: bool,
}

/// Checks a section by the schema. None: no such entity here.
fn check(section: &Section, report: &mut Report) -> Option<Checked> {
    let entity = match schema::entity(&section.name) {
        Ok(entity) => entity,
        Err(text) => {
            report.error(section.line, text);
            return None;
        }
    };
    let mut checked = Checked { entity, line: section.line, values: Vec::new(), is_broken: false };
    for given in &section.attributes {
        let attribute = match schema::attribute_of(entity, &given.name) {
            Ok(attribute) => attribute,
            Err(text) => {
                report.error(given.line, format!("{}: {text}", entity.name));
                checked.is_broken = true;
                continue;
            }
        };
        match value::parse(attribute, &given.value) {
            Ok(None) => {}
            Ok(Some(value)) => {
                if let Some((_, before, _)) = checked.values.iter().find(|(name, _, _)| *name == attribute.name) {
                    let text = format!("{}: '{}' is given twice, first in line {before}", entity.name, attribute.name);
                    report.error(given.line, text);
                    continue;
                }
                if !value::is_served(attribute, &value) {
                    report.error(given.line, unserved(entity, attribute, &value));
                }
                checked.values.push((attribute.name, given.line, value));
            }
            Err(text) => {
                report.error(given.line, format!("{}: {text}", entity.name));
                checked.is_broken = true;
            }
        }
    }
    Some(checked)
}

fn unserved(entity: &Entity, attribute: &schema::Attribute, value: &Value) -> String {
    let value = match value {
        Value::Boolean(true) => ": yes",
        Value::Boolean(false) => ": no",
        Value::Choice(word) => &format!(": {word}"),
        Value::Integer(number) => &format!(": {number}"),
        _ => "",
    };
    format!("{}: {}{value} is not served by this version", entity.name, attribute.name)
}

impl Checked {
    /// A section that isn't there: all defaults.
    fn absent(name: &str) -> Checked {
        let entity = schema::entity(name).expect("an entity of the schema");
        Checked { entity, line: 0, values: Vec::new(), is_broken: false }
    }

    fn given(&self, name: &str) -> Option<&Value> {
        self.values.iter().find(|(known, _, _)| *known == name).map(|(_, _, value)| value)
    }

    /// The line of an attribute, or the section's own.
    fn line(&self, name: &str) -> usize {
        self.values.iter().find(|(known, _, _)| *known == name).map_or(self.line, |(_, line, _)| *line)
    }

    /// The value given, else the schema's default.
    fn value(&self, name: &str) -> Option<Value> {
        if let Some(value) = self.given(name) {
            return Some(value.clone());
        }
        let attribute = self.entity.attributes.iter().find(|attribute| attribute.name == name);
        debug_assert!(attribute.is_some(), "{name} is not in the schema");
        attribute
            .and_then(|attribute| Some((attribute, attribute.default?)))
            .and_then(|(attribute, default)| value::parse_text(attribute, default).ok())
    }

    fn text(&self, name: &str) -> Option<String> {
        match self.value(name) {
            Some(Value::Text(text)) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    fn boolean(&self, name: &str) -> bool {
        matches!(self.value(name), Some(Value::Boolean(true)))
    }

    fn choice(&self, name: &str) -> Option<&'static str> {
        match self.value(name) {
            Some(Value::Choice(word)) => Some(word),
            _ => None,
        }
    }

    fn integer(&self, name: &str) -> Option<u64> {
        match self.value(name) {
            Some(Value::Integer(number)) => Some(number),
            _ => None,
        }
    }

    /// An integer that has a default and whose bounds fit.
    fn number(&self, name: &str) -> u32 {
        self.integer(name).and_then(|number| u32::try_from(number).ok()).unwrap_or(0)
    }

    fn list(&self, name: &str) -> Vec<String> {
        match self.value(name) {
            Some(Value::List(items)) => items,
            _ => Vec::new(),
        }
    }

    /// What went wrong, with the section's name in front.
    fn error(&self, attribute: &str, text: impl AsRef<str>, report: &mut Report) {
        report.error(self.line(attribute), format!("{}: {}", self.entity.name, text.as_ref()));
    }

    fn warning(&self, attribute: &str, text: impl AsRef<str>, report: &mut Report) {
        report.warning(self.line(attribute), format!("{}: {}", self.entity.name, text.as_ref()));
    }
}

/// Entities of which a file has one at most.
fn single(checked: &[Checked], report: &mut Report) {
    for (index, section) in checked.iter().enumerate() {
        let before = checked[..index].iter().find(|earlier| earlier.entity.name == section.entity.name);
        if let (true, Some(before)) = (section.entity.is_single, before) {
            let text = format!("{}: there is one already, in line {}", section.entity.name, before.line);
            report.error(section.line, text);
        }
    }
}

fn router(section: &Checked, report: &mut Report) -> RouterConfig {
    let id = section.text("id");
    if id.as_ref().is_some_and(|id| id.len() > 127) {
        section.error("id", "id: a router's id has at most 127 characters", report);
    }
    let worker_threads = section.number("workerThreads");
    if section.given("workerThreads").is_some() && worker_threads != 1 {
        section.warning("workerThreads", "workerThreads has no effect: this version serves with one thread", report);
    }
    let timestamp_format = section.text("timestampFormat");
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
        worker_threads,
        timestamps_in_utc: section.boolean("timestampsInUTC"),
        timestamp_format,
        default_distribution: distribution(section.choice("defaultDistribution")),
        metadata: section.text("metadata"),
        flow: flow(section, None),
        multicast_stall_seconds: section.number("multicastStallSeconds"),
        drain_wait_milliseconds: section.number("drainWait"),
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

fn listener(section: &Checked, report: &mut Report) -> ListenerConfig {
    // The mode is standalone, whatever the file says: another is an error already.
    if let Some(role @ ("inter-router" | "edge")) = section.choice("role") {
        let text = format!("role {role}: a standalone router is not allowed to accept connections from other routers");
        section.error("role", text, report);
    }
    let (port_name, port) = match section.value("port") {
        Some(Value::Port { name, number }) => (name, number),
        _ => (String::new(), 0),
    };
    ListenerConfig {
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
        sasl_mechanisms: sasl_mechanisms(section, report),
        authenticate_peer: section.boolean("authenticatePeer"),
        max_frame_size: max_frame_size(section, report),
        max_sessions: max_sessions(section, report),
        max_session_frames: section
            .integer("maxSessionFrames")
            .map(|frames| frames as u32)
            .filter(|frames| *frames > 0),
        idle_timeout_seconds: section.number("idleTimeoutSeconds"),
        strip_annotations: StripAnnotations::Both,
        link_capacity: match section.number("linkCapacity") {
            0 => limits::LINK_CAPACITY_DEFAULT,
            capacity => capacity,
        },
    }
}

fn sasl_mechanisms(section: &Checked, report: &mut Report) -> Vec<String> {
    let mut mechanisms = Vec::new();
    for mechanism in section.list("saslMechanisms").iter().flat_map(|item| value::words(item)) {
        let mechanism = mechanism.to_ascii_uppercase();
        if mechanism != "ANONYMOUS" {
            section.error(
                "saslMechanisms",
                format!("saslMechanisms: {mechanism} is not served by this version"),
                report,
            );
        } else if !mechanisms.contains(&mechanism) {
            mechanisms.push(mechanism);
        }
    }
    if section.boolean("authenticatePeer") {
        let text =
            "authenticatePeer: yes is not served by this version: its only mechanism is ANONYMOUS, which proves nobody";
        section.error("authenticatePeer", text, report);
    }
    if mechanisms.is_empty() {
        mechanisms.push("ANONYMOUS".to_string());
    }
    mechanisms
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

fn address(section: &Checked, router: &FlowConfig, report: &mut Report) -> Option<AddressConfig> {
    let matches = match (section.text("prefix"), section.text("pattern")) {
        (Some(prefix), None) => AddressMatch::Prefix(prefix),
        (None, Some(pattern)) => AddressMatch::Pattern(pattern),
        (Some(_), Some(_)) => {
            section.error("pattern", "a prefix or a pattern, not both", report);
            return None;
        }
        (None, None) => {
            if !section.is_broken {
                section.error("", "a prefix or a pattern is needed", report);
            }
            return None;
        }
    };
    if tokens(&matches).is_empty() {
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

fn log(section: &Checked, report: &mut Report) -> Option<LogConfig> {
    let Some(name) = section.text("module") else {
        if !section.is_broken {
            section.error("", "a module is needed", report);
        }
        return None;
    };
    let Some(module) = Module::parse(&name) else {
        let suggestion = did_you_mean(closest(&name, Module::ALL.iter().map(|(_, name)| *name)));
        section.error("module", format!("module: unknown module '{name}'{suggestion}"), report);
        return None;
    };
    let enable = section.text("enable").and_then(|text| match levels(&text) {
        Ok(levels) => levels,
        Err(text) => {
            section.error("enable", text, report);
            None
        }
    });
    let output = section.text("outputFile").and_then(|text| match text.as_str() {
        "stdout" => Some(LogOutput::Stdout),
        "stderr" => Some(LogOutput::Stderr),
        "syslog" => {
            section.error("outputFile", "outputFile: syslog is not served by this version", report);
            None
        }
        path => Some(LogOutput::File(path.to_string())),
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

/// Levels as `enable` lists them: `info+`, `trace,debug`, `none`; `default` is as if nothing were said.
fn levels(text: &str) -> Result<Option<Levels>, String> {
    let mut levels = Levels::NONE;
    for word in value::words(text) {
        let (name, is_open) = word.strip_suffix('+').map_or((word.as_str(), false), |name| (name, true));
        if !is_open && name.eq_ignore_ascii_case("default") {
            return Ok(None);
        }
        if !is_open && name.eq_ignore_ascii_case("none") {
            continue;
        }
        let level = Level::parse(name).ok_or_else(|| {
            let suggestion = did_you_mean(closest(name, Level::ALL.iter().map(|(_, name)| *name)));
            format!("enable: unknown level '{name}'{suggestion}")
        })?;
        levels = levels.with(if is_open { Levels::from(level) } else { Levels::only(level) });
    }
    Ok(Some(levels))
}

/// An address rule's tokens in the form that two equal rules share: `prefix: a/b` is `a/b/#`, and behind a `#`
/// another is nothing new (`#.*` is `*.#`).
fn tokens(matches: &AddressMatch) -> Vec<&str> {
    let (text, is_prefix) = match matches {
        AddressMatch::Prefix(text) => (text, true),
        AddressMatch::Pattern(text) => (text, false),
    };
    let mut tokens: Vec<&str> = Vec::new();
    let mut is_hash_pending = false;
    for token in text.split(['.', '/']).skip_while(|token| token.is_empty()).chain(is_prefix.then_some("#")) {
        match token {
            "#" => is_hash_pending = true,
            "*" => tokens.push(token),
            "" if is_prefix => {}
            _ => {
                if std::mem::take(&mut is_hash_pending) {
                    tokens.push("#");
                }
                tokens.push(token);
            }
        }
    }
    let is_empty = is_prefix && tokens.is_empty();
    if is_hash_pending && !is_empty {
        tokens.push("#");
    }
    tokens
}

fn addresses_apart(addresses: &[AddressConfig], report: &mut Report) {
    let mut seen = std::collections::HashMap::new();
    for address in addresses {
        if let Some(before) = seen.insert(tokens(&address.matches), address.line) {
            let text = match &address.matches {
                AddressMatch::Prefix(prefix) => format!("prefix '{prefix}'"),
                AddressMatch::Pattern(pattern) => format!("pattern '{pattern}'"),
            };
            report
                .error(address.line, format!("address: {text} matches the same addresses as the one in line {before}"));
        }
    }
}

fn listeners_apart(listeners: &[ListenerConfig], report: &mut Report) {
    for (index, listener) in listeners.iter().enumerate() {
        let is_same = |other: &&ListenerConfig| {
            (other.port, &other.host, other.socket_address_family)
                == (listener.port, &listener.host, listener.socket_address_family)
        };
        if let (true, Some(before)) = (listener.port != 0, listeners[..index].iter().find(is_same)) {
            let text = format!("listener: host and port are those of the listener in line {}", before.line);
            report.error(listener.line, text);
        }
    }
}

fn modules_apart(logs: &[LogConfig], report: &mut Report) {
    for (index, log) in logs.iter().enumerate() {
        if let Some(before) = logs[..index].iter().find(|earlier| earlier.module == log.module) {
            let text = format!("log: module {} has its settings in line {} already", log.module.name(), before.line);
            report.error(log.line, text);
        }
    }
}

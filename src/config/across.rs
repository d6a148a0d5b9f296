//! What one attribute says about another, and one section about another, whether this version serves them or not.

use super::check::Checked;
use super::map::Map;
use super::problem::{closest, Report};
use super::schema::{self, did_you_mean};
use super::section::Raw;
use super::types::{AddressConfig, AddressMatch, ListenerConfig, LogConfig};
use super::value::{self, Value};
use std::collections::HashMap;

/// Properties of the open frame that the router itself gives.
const OWN_PROPERTIES: [&str; 7] =
    ["product", "version", "failover-server-list", "network-host", "port", "scheme", "hostname"];
const OWN_PROPERTY_PREFIXES: [&str; 2] = ["qd.", "x-opt-qd."];

pub(super) fn check(sections: &[Checked], report: &mut Report) {
    single(sections, report);
    names_apart(sections, report);
    let mode = sections.iter().find(|section| section.entity.name == "router").and_then(|s| s.stated_choice("mode"));
    for section in sections {
        if matches!(section.entity.name, "listener" | "connector") {
            role(section, mode.unwrap_or("standalone"), report);
        }
        port(section, report);
        if section.is_broken {
            continue;
        }
        match section.entity.name {
            "listener" | "connector" => open_properties(section, report),
            "linkRoute" => {
                prefix_or_pattern(section, report);
                one_of(section, "containerId", "connection", report);
            }
            "autoLink" => auto_link(section, report),
            "vhost" => groups(section, report),
            "sslProfile" | "authServicePlugin" | "exchange" if section.name().is_none() => {
                section.error("", "'name' is needed: others refer to it", report);
            }
            _ => {}
        }
        references(section, sections, report);
    }
}

/// Entities of which a file has one at most.
fn single(sections: &[Checked], report: &mut Report) {
    for (index, section) in sections.iter().enumerate() {
        let before = sections[..index].iter().find(|earlier| earlier.entity.name == section.entity.name);
        if let (true, Some(before)) = (section.entity.is_single, before) {
            let text = format!("{}: there is one already, in line {}", section.entity.name, before.line);
            report.error(section.line, text);
        }
    }
}

fn names_apart(sections: &[Checked], report: &mut Report) {
    let mut seen: HashMap<(&str, &str), usize> = HashMap::new();
    for section in sections {
        let Some(name) = section.name() else { continue };
        if let Some(before) = seen.insert((section.entity.name, name), section.line) {
            let text = format!("name: '{name}' is the name of the {} in line {before} too", section.entity.name);
            section.error("name", text, report);
        }
    }
}

/// The words are `qdrouterd`'s, since scripts look for them.
fn role(section: &Checked, mode: &str, report: &mut Report) {
    let Some(role @ ("inter-router" | "edge")) = section.stated_choice("role") else { return };
    let text = match (section.entity.name, mode, role) {
        (_, "standalone", _) => {
            "role='standalone' not allowed to connect to or accept connections from other routers.".to_string()
        }
        (_, "edge", "inter-router") | ("listener", "edge", "edge") => {
            format!("role='{role}' only allowed with router mode='interior'")
        }
        _ => return,
    };
    section.error("role", text, report);
}

fn port(section: &Checked, report: &mut Report) {
    if let Some(Value::Port { name, number: None }) = section.stated("port") {
        let text = format!("port: expected a number from 0 to 65535, amqp or amqps, found '{name}'");
        section.error("port", text, report);
    }
}

fn open_properties(section: &Checked, report: &mut Report) {
    let Some(Value::Map(map)) = section.stated("openProperties") else { return };
    if map.is_empty() {
        return;
    }
    if let Some(role @ ("inter-router" | "edge")) = section.stated_choice("role") {
        section.error("openProperties", format!("openProperties: not allowed with role {role}"), report);
    }
    let is_own =
        |key: &str| OWN_PROPERTIES.contains(&key) || OWN_PROPERTY_PREFIXES.iter().any(|prefix| key.starts_with(prefix));
    for key in map.keys() {
        if is_own(key) {
            section.error("openProperties", format!("openProperties: '{key}' is the router's own"), report);
        } else if !key.is_ascii() {
            section.error("openProperties", format!("openProperties: '{key}' is not ASCII"), report);
        }
    }
}

/// Gives whether exactly one of the two is there; says so if not.
pub(super) fn prefix_or_pattern(section: &Checked, report: &mut Report) -> bool {
    let text = match (section.stated_text("prefix"), section.stated_text("pattern")) {
        (Some(_), None) | (None, Some(_)) => return true,
        (Some(_), Some(_)) => "cannot have both a 'prefix' and a 'pattern' attribute",
        (None, None) => "either a 'prefix' or a 'pattern' attribute must be provided",
    };
    if !section.is_broken {
        section.error(if section.stated("prefix").is_some() { "pattern" } else { "" }, text, report);
    }
    false
}

fn one_of(section: &Checked, first: &str, second: &str, report: &mut Report) {
    if section.stated_text(first).is_some() && section.stated_text(second).is_some() {
        section.error(second, format!("cannot have both a '{first}' and a '{second}' attribute"), report);
    }
}

fn auto_link(section: &Checked, report: &mut Report) {
    one_of(section, "containerId", "connection", report);
    let is_fallback = section.stated("fallback") == Some(&Value::Boolean(true));
    if is_fallback && matches!(section.stated("phase"), Some(Value::Integer(phase)) if *phase != 0) {
        section.error("phase", "phase: a fallback has none", report);
    }
}

/// Names that have to be those of other sections, wherever in the file they stand.
fn references(section: &Checked, sections: &[Checked], report: &mut Report) {
    for (of, attribute, entity) in [
        ("listener", "sslProfile", "sslProfile"),
        ("connector", "sslProfile", "sslProfile"),
        ("authServicePlugin", "sslProfile", "sslProfile"),
        ("listener", "saslPlugin", "authServicePlugin"),
        ("binding", "exchangeName", "exchange"),
    ] {
        let Some(name) = section.stated_text(attribute).filter(|_| section.entity.name == of) else { continue };
        let known = || sections.iter().filter(|other| other.entity.name == entity).filter_map(|other| other.name());
        if !known().any(|known| known == name) {
            let suggestion = did_you_mean(closest(name, known()));
            section.error(attribute, format!("{attribute}: there is no {entity} '{name}'{suggestion}"), report);
        }
    }
}

/// A vhost's groups, each by the schema's entity of them.
fn groups(section: &Checked, report: &mut Report) {
    let Some(Value::Map(groups)) = section.stated("groups") else { return };
    for (name, group) in groups {
        let serde_json::Value::Object(group) = group else {
            section.error("groups", format!("groups: '{name}' is not a map of attributes"), report);
            continue;
        };
        for text in group_problems(group) {
            section.error("groups", format!("groups: {name}: {text}"), report);
        }
    }
}

fn group_problems(group: &Map) -> Vec<String> {
    let Some(entity) = schema::find("vhostUserGroupSettings") else { return Vec::new() };
    let mut problems = Vec::new();
    for (name, value) in group {
        let result = schema::attribute_of(entity, name).and_then(|attribute| match Raw::from_json(value) {
            Some(raw) => value::parse(attribute, &raw).map(|_| ()),
            None => Err(format!("'{name}' can't be a list of lists or of maps")),
        });
        problems.extend(result.err());
    }
    for attribute in entity.attributes.iter().filter(|attribute| attribute.is_required) {
        if !group.keys().any(|name| schema::is_same_name(attribute.name, name)) {
            problems.push(format!("'{}' is needed", attribute.name));
        }
    }
    problems
}

/// An address rule's tokens in the form that two equal rules share: `prefix: a/b` is `a/b/#`, and behind a `#`
/// another is nothing new (`#.*` is `*.#`).
pub(super) fn tokens(matches: &AddressMatch) -> Vec<&str> {
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

pub(super) fn addresses_apart(addresses: &[AddressConfig], report: &mut Report) {
    let mut seen = HashMap::new();
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

pub(super) fn listeners_apart(listeners: &[ListenerConfig], report: &mut Report) {
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

pub(super) fn modules_apart(logs: &[LogConfig], report: &mut Report) {
    for (index, log) in logs.iter().enumerate() {
        if let Some(before) = logs[..index].iter().find(|earlier| earlier.module == log.module) {
            let text = format!("log: module {} has its settings in line {} already", log.module.name(), before.line);
            report.error(log.line, text);
        }
    }
}

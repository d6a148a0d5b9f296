//! What requests change: checked here, done by control.

use super::agent::{refuse, Refusal};
use super::datum::Datum;
use super::message::{Request, Status};
use super::query::{RowRead, Wanted};
use super::schema::{Attribute, EntityType, Source, DUMMY};
use super::store::Entity;
use crate::config::{self, AddressConfig, AddressMatch, Created, FlowConfig, ListenerConfig, LogConfig, Raw};
use crate::routing::{AddressRow, Marks};
use std::collections::BTreeMap;

/// What is to be done for a request that kept entities are changed by.
pub enum Change {
    Create { entity: Entity, made: Made },
    Delete { number: u64, deleted: Deleted },
    UpdateLog { number: u64, attributes: BTreeMap<String, Datum>, config: LogConfig },
}

pub enum Made {
    Listener(Box<ListenerConfig>),
    Address(Box<AddressConfig>),
}

pub enum Deleted {
    /// The one with this identity.
    Listener(String),
    Address(AddressMatch),
}

/// What is to be changed of a row.
pub struct RowChange {
    pub read: RowRead,
    pub what: RowUpdate,
}

pub enum RowUpdate {
    Connection { close: bool, trace: Option<bool> },
    Link { detach: bool },
    Alerts(Alerts),
}

/// New marks of an address. The outer None: as they are; the inner: none.
#[derive(Default, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Alerts {
    count_up: Option<Option<u64>>,
    count_down: Option<Option<u64>>,
    size_up: Option<Option<u64>>,
    size_down: Option<Option<u64>>,
}

/// The body's attributes by their names and in their types. `may`: whether an attribute may be there, else `verb` can't be
/// done to it in `operation`.
pub fn accept(
    entity_type: &EntityType,
    body: &[(String, Datum)],
    may: impl Fn(&Attribute) -> bool,
    verb: &str,
    operation: &str,
) -> Result<BTreeMap<String, Datum>, Refusal> {
    let mut attributes = BTreeMap::new();
    for (name, value) in body.iter().filter(|(name, value)| !value.is_null() && name != "type" && name != "name") {
        let Some(attribute) = entity_type.attribute(name) else {
            let text = format!("Unknown attribute '{name}' for '{}'", entity_type.long);
            return Err(refuse(Status::BadRequest, text));
        };
        if !may(attribute) {
            return Err(refuse(Status::BadRequest, format!("Cannot {verb} attribute '{name}' in {operation}")));
        }
        let Some(value) = attribute.accept(value) else {
            return Err(refuse(Status::BadRequest, format!("Invalid value for '{name}' of '{}'", entity_type.long)));
        };
        if attributes.insert(attribute.name.to_owned(), value).is_some() {
            let (old, new) = (attribute.alias.unwrap_or_default(), attribute.name);
            let text = format!("Both '{old}' and '{new}' cannot be specified for entity '{}'", entity_type.short);
            return Err(refuse(Status::BadRequest, text));
        }
    }
    Ok(attributes)
}

/// Who may connect to a router of this mode, in the words that tools look for.
pub fn check_roles(entity_type: &EntityType, attributes: &BTreeMap<String, Datum>, mode: &str) -> Result<(), Refusal> {
    let role = attributes.get("role").and_then(Datum::as_text).unwrap_or("normal");
    let wrong = match (mode, role, entity_type.short) {
        (_, _, short) if !matches!(short, "listener" | "connector") => return Ok(()),
        ("standalone", "inter-router" | "edge", _) => {
            "role='standalone' not allowed to connect to or accept connections from other routers.".to_owned()
        }
        ("edge", "inter-router", short) | ("edge", "edge", short @ "listener") => {
            format!("role='{role}' only allowed with router mode='interior' for {short}")
        }
        _ => return Ok(()),
    };
    Err(refuse(Status::BadRequest, wrong))
}

/// What is to be made for an entity. None: nothing, or nothing can.
pub fn make(
    entity_type: &EntityType,
    name: Option<&str>,
    body: &[(String, Datum)],
    attributes: &BTreeMap<String, Datum>,
    flow: &FlowConfig,
) -> Result<Option<Made>, Refusal> {
    if entity_type.short == DUMMY {
        return Ok(None);
    }
    let Some(configured) = entity_type.configured else { return Ok(None) };
    let apart = |one: &str, other: &str| attributes.contains_key(one) && attributes.contains_key(other);
    if entity_type.attribute("containerId").is_some() && apart("containerId", "connection") {
        return Err(refuse(Status::BadRequest, "Both connection and containerId cannot be specified"));
    }
    if let Some(missing) = entity_type.attributes.iter().find(|one| one.is_required && is_missing(one, attributes)) {
        return Err(refuse(Status::BadRequest, format!("Missing required attribute '{}'", missing.name)));
    }
    if let Some(unserved) = &configured.unserved {
        let text = format!("{}: not served by this version ({})", configured.name, unserved.feature);
        return Err(refuse(Status::NotImplemented, text));
    }
    let mut raws = Vec::new();
    // As they were given: texts of numbers with units are configuration's to read.
    for (key, value) in body.iter().filter(|(key, _)| !matches!(key.as_str(), "type" | "name" | "identity")) {
        let raw = value.to_json().and_then(|json| Raw::from_json(&json));
        let Some(raw) = raw else { return Err(refuse(Status::BadRequest, format!("Invalid value for '{key}'"))) };
        raws.push((key.clone(), raw));
    }
    raws.extend(name.map(|name| ("name".to_owned(), Raw::Text(name.to_owned()))));
    match config::create(configured.name, raws, flow) {
        Ok(Created::Listener(listener)) => Ok(Some(Made::Listener(Box::new(listener)))),
        Ok(Created::Address(address)) => Ok(Some(Made::Address(Box::new(address)))),
        Ok(Created::Log(_)) => Ok(None),
        Err(text) => Err(refuse(Status::BadRequest, text)),
    }
}

/// Whether nothing gives an attribute its value, not the router either.
fn is_missing(attribute: &Attribute, attributes: &BTreeMap<String, Datum>) -> bool {
    !matches!(attribute.name, "type" | "identity" | "name") && !attributes.contains_key(attribute.name)
}

/// What a log entity's new attributes come to.
pub fn log(entity: &Entity, attributes: &BTreeMap<String, Datum>, flow: &FlowConfig) -> Result<LogConfig, Refusal> {
    let module = entity.text("module").unwrap_or_default();
    let mut raws = vec![("module".to_owned(), Raw::Text(module.to_owned()))];
    for (name, value) in attributes {
        let text = match value.as_text() {
            // No level at all.
            Some("") if name == "enable" => "none".to_owned(),
            Some("") if name == "outputFile" => {
                return Err(refuse(Status::InternalError, "CError: Configuration: Failed to open log file ''"));
            }
            Some(text) => text.to_owned(),
            None => value.as_boolean().unwrap_or_default().to_string(),
        };
        raws.push((name.clone(), Raw::Text(text)));
    }
    match config::create("log", raws, flow) {
        Ok(Created::Log(config)) => Ok(config),
        Ok(_) => Err(refuse(Status::InternalError, "not a log")),
        Err(text) => Err(refuse(Status::BadRequest, text)),
    }
}

/// What is to be undone for an entity; None: nothing.
pub fn deletion(entity_type: &EntityType, entity: &Entity) -> Option<Deleted> {
    match entity_type.short {
        "listener" => Some(Deleted::Listener(entity.identity.clone())),
        "router.config.address" => {
            let prefix = entity.text("prefix").map(|prefix| AddressMatch::Prefix(prefix.to_owned()));
            let pattern = || entity.text("pattern").map(|pattern| AddressMatch::Pattern(pattern.to_owned()));
            prefix.or_else(pattern).map(Deleted::Address)
        }
        _ => None,
    }
}

impl RowChange {
    pub fn new(entity_type: &EntityType, read: RowRead, request: &Request) -> Result<RowChange, Refusal> {
        let bad = || refuse(Status::BadRequest, Status::BadRequest.text());
        let Some(body) = &request.attributes else { return Err(bad()) };
        let body: Vec<(String, Datum)> = body.iter().filter(|(name, _)| name != "identity").cloned().collect();
        let attributes = || accept(entity_type, &body, |attribute| attribute.can_update, "update", "UPDATE");
        let status = |attributes: &BTreeMap<String, Datum>| {
            attributes.get("adminStatus").and_then(Datum::as_text).map(|status| status == "deleted")
        };
        let what = match entity_type.source {
            Source::Connections => {
                let attributes = attributes()?;
                let trace = attributes.get("enableProtocolTrace").and_then(Datum::as_boolean);
                if attributes.is_empty() || !matches!(read.wanted, Wanted::Number(_)) {
                    return Err(bad());
                }
                RowUpdate::Connection { close: status(&attributes).unwrap_or(false), trace }
            }
            Source::Links => RowUpdate::Link { detach: status(&attributes()?).ok_or_else(bad)? },
            Source::Addresses => RowUpdate::Alerts(Alerts::new(&body, entity_type)?),
            _ => return Err(refuse(Status::NotImplemented, Status::NotImplemented.text())),
        };
        Ok(RowChange { read, what })
    }
}

impl Alerts {
    fn new(body: &[(String, Datum)], entity_type: &EntityType) -> Result<Alerts, Refusal> {
        let mut alerts = Alerts::default();
        for (name, value) in body.iter().filter(|(name, _)| !matches!(name.as_str(), "type" | "name")) {
            let mark = match name.as_str() {
                "alertCountUp" => &mut alerts.count_up,
                "alertCountDown" => &mut alerts.count_down,
                "alertSizeUp" => &mut alerts.size_up,
                "alertSizeDown" => &mut alerts.size_down,
                _ => {
                    // Its error.
                    accept(entity_type, &[(name.clone(), value.clone())], |one| one.can_update, "update", "UPDATE")?;
                    continue;
                }
            };
            let number = value.as_integer().and_then(|number| u64::try_from(number).ok());
            if number.is_none() && !value.is_null() {
                return Err(refuse(Status::BadRequest, format!("Invalid value for '{name}'")));
            }
            *mark = Some(number);
        }
        if alerts == Alerts::default() {
            return Err(refuse(Status::BadRequest, "nothing to update"));
        }
        Ok(alerts)
    }

    /// The marks that an address has then, of messages and bytes.
    pub fn of(&self, row: &AddressRow) -> (Option<Marks>, Option<Marks>) {
        let attributes = &row.attributes;
        (
            marks(attributes.alert_count, self.count_up, self.count_down),
            marks(attributes.alert_size, self.size_up, self.size_down),
        )
    }
}

fn marks(old: Option<Marks>, up: Option<Option<u64>>, down: Option<Option<u64>>) -> Option<Marks> {
    let upper = up.unwrap_or(old.map(|old| old.up))?;
    let kept = old.map(|old| old.down).filter(|_| up.is_none());
    Some(Marks { up: upper, down: down.unwrap_or(kept).unwrap_or(upper / 2) })
}

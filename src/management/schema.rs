//! What is managed: entity types, their attributes, what may be done with them. Those that can be configured are
//! configuration's table; the operational ones are here.

use super::columns;
use super::datum::Datum;
use super::PREFIX;
use crate::config::schema::{self as configured, Kind, EVERY_ENTITY};
use serde_json::{json, Map, Value};

/// An attribute's type, in the schema's words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Type {
    Text,
    Path,
    /// The identity of another entity.
    EntityId,
    Integer,
    Boolean,
    List,
    Map,
    Properties,
    /// One of these words.
    Choice(&'static [&'static str]),
}

#[derive(Clone, Debug)]
pub struct Attribute {
    pub name: &'static str,
    /// An older name, in requests and where `shows_alias` in answers too.
    pub alias: Option<&'static str>,
    pub kind: Type,
    /// As a configuration file would have it.
    pub default: Option<&'static str>,
    pub is_required: bool,
    pub is_unique: bool,
    pub is_hidden: bool,
    pub is_deprecated: bool,
    /// Worth drawing over time.
    pub is_figure: bool,
    pub can_create: bool,
    pub can_update: bool,
    pub description: &'static str,
}

impl Attribute {
    /// What the router says, and nobody else.
    pub const fn told(name: &'static str, kind: Type, description: &'static str) -> Attribute {
        Attribute {
            name,
            alias: None,
            kind,
            default: None,
            is_required: false,
            is_unique: false,
            is_hidden: false,
            is_deprecated: false,
            is_figure: false,
            can_create: false,
            can_update: false,
            description,
        }
    }

    pub const fn graphed(self) -> Attribute {
        Attribute { is_figure: true, ..self }
    }

    pub const fn updated(self) -> Attribute {
        Attribute { can_update: true, ..self }
    }

    const fn both(self) -> Attribute {
        Attribute { can_create: true, can_update: true, ..self }
    }

    fn of(attribute: &configured::Attribute) -> Attribute {
        Attribute {
            name: attribute.name,
            alias: attribute.aliases.first().copied(),
            kind: type_of(attribute.kind),
            default: attribute.default,
            is_required: attribute.is_required,
            is_unique: attribute.is_unique,
            is_hidden: attribute.is_hidden,
            is_deprecated: attribute.is_deprecated,
            is_figure: attribute.name.ends_with("Count") || attribute.name.ends_with("Denied"),
            can_create: attribute.can_create,
            can_update: attribute.can_update,
            description: attribute.description,
        }
    }

    /// Its value where nobody gave it one.
    pub fn default(&self) -> Option<Datum> {
        let text = self.default?;
        Some(match self.kind {
            Type::Boolean => Datum::boolean(matches!(text, "yes" | "true" | "on")),
            Type::Integer => Datum::integer(text.parse().unwrap_or_default()),
            _ => Datum::text(text),
        })
    }

    /// The value that a request gives it, in this attribute's type. None: it can't be one.
    pub fn accept(&self, value: &Datum) -> Option<Datum> {
        match self.kind {
            Type::Boolean => value.as_boolean().map(Datum::boolean),
            Type::Integer => value.as_integer().map(Datum::integer),
            Type::Choice(words) => {
                let by_number = || usize::try_from(value.as_integer()?).ok().and_then(|number| words.get(number));
                let word = match value.as_text() {
                    Some(text) => words.iter().find(|word| **word == text).or_else(by_number),
                    None => by_number(),
                };
                word.map(|word| Datum::text(word))
            }
            Type::Text | Type::Path | Type::EntityId => match value.as_integer() {
                // Ports and ids that look like numbers.
                Some(number) if value.as_text().is_none() => Some(Datum::text(&number.to_string())),
                _ => value.as_text().map(Datum::text),
            },
            Type::List | Type::Map | Type::Properties => Some(value.clone()),
        }
    }

    fn dump(&self) -> Value {
        let kind = match self.kind {
            Type::Text => json!("string"),
            Type::Path => json!("path"),
            Type::EntityId => json!("entityId"),
            Type::Integer => json!("integer"),
            Type::Boolean => json!("boolean"),
            Type::List => json!("list"),
            Type::Map => json!("map"),
            Type::Properties => json!("properties"),
            Type::Choice(words) => json!(words),
        };
        let mut all = Map::new();
        all.insert("type".into(), kind);
        if let Some(default) = self.default().and_then(|default| default.to_json()).filter(|default| !is_empty(default))
        {
            all.insert("default".into(), default);
        }
        let flags = [
            ("required", self.is_required),
            ("unique", self.is_unique),
            ("deprecated", self.is_deprecated),
            ("graph", self.is_figure),
            ("create", self.can_create),
            ("update", self.can_update),
        ];
        all.extend(flags.iter().filter(|(_, on)| *on).map(|(name, _)| ((*name).into(), json!(true))));
        all.insert("description".into(), json!(self.description));
        Value::Object(all)
    }
}

fn is_empty(value: &Value) -> bool {
    matches!(value, Value::Bool(false)) || value.as_str() == Some("") || value.as_i64() == Some(0)
}

fn type_of(kind: Kind) -> Type {
    match kind {
        Kind::Choice(words) => Type::Choice(words),
        Kind::Text | Kind::Words | Kind::Items | Kind::Port => Type::Text,
        Kind::Path => Type::Path,
        Kind::Boolean => Type::Boolean,
        Kind::Integer(..) | Kind::Percent(_) | Kind::Milliseconds(_) | Kind::Quantity(_) => Type::Integer,
        Kind::List => Type::List,
        Kind::Map => Type::Map,
        Kind::Properties => Type::Properties,
    }
}

/// Where entities of a type come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// There are none but those of types that extend it.
    Abstract,
    /// Kept here: configured, created, or said once.
    Stored,
    Router,
    Addresses,
    Links,
    Connections,
    LogCounts,
    Allocators,
}

pub struct EntityType {
    /// Without [`PREFIX`].
    pub short: &'static str,
    pub long: String,
    /// Types that it extends, the nearest first, by their places in the schema.
    pub bases: Vec<usize>,
    pub operations: Vec<&'static str>,
    pub attributes: Vec<Attribute>,
    pub description: &'static str,
    pub is_single: bool,
    pub is_deprecated: bool,
    pub source: Source,
    /// Configuration's entity, with what this version has no feature for.
    pub configured: Option<&'static configured::Entity>,
}

impl EntityType {
    pub fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes.iter().find(|attribute| attribute.name == name || attribute.alias == Some(name))
    }

    /// Older names are shown beside the new ones.
    pub fn shows_aliases(&self) -> bool {
        matches!(self.short, "router.config.linkRoute" | "router.config.autoLink")
    }

    /// Answers have all its attributes, null where there is no value; and its entities may go without a name.
    pub fn has_nulls(&self) -> bool {
        self.short.starts_with("router.") && self.short != "router.node"
    }

    pub fn allows(&self, operation: &str) -> bool {
        self.operations.contains(&operation)
    }

    fn dump(&self) -> Value {
        let attributes = self.attributes.iter().filter(|attribute| attribute.name != "type");
        let attributes: Map<String, Value> = attributes.map(|one| (one.name.to_owned(), one.dump())).collect();
        let mut all = Map::new();
        if !attributes.is_empty() {
            all.insert("attributes".into(), Value::Object(attributes));
        }
        if !self.operations.is_empty() {
            all.insert("operations".into(), json!(self.operations));
        }
        all.insert("description".into(), json!(self.description));
        all.insert("fullyQualifiedType".into(), json!(self.long));
        if self.is_deprecated {
            all.insert("deprecated".into(), json!(true));
        }
        if self.is_single {
            all.insert("singleton".into(), json!(true));
        }
        Value::Object(all)
    }
}

/// All types.
pub struct Schema {
    types: Vec<EntityType>,
}

/// What configuration calls an address's rule and management shows under another name too.
pub const FALLBACK: Attribute = Attribute::told("fallback", Type::Boolean, "As enableFallback");

const ENTITY: &str = "entity";
const CONFIGURATION: &str = "configurationEntity";
const OPERATIONAL: &str = "operationalEntity";
/// The management node's type, whose name has another prefix.
pub const NODE: &str = "org.amqp.management";
pub const MANAGEMENT: &str = "management";
pub const DUMMY: &str = "dummy";

const NODE_OPERATIONS: [&str; 6] =
    ["QUERY", "GET-TYPES", "GET-ANNOTATIONS", "GET-OPERATIONS", "GET-ATTRIBUTES", "GET-MGMT-NODES"];
const OWN_OPERATIONS: [&str; 4] = ["GET-SCHEMA", "GET-JSON-SCHEMA", "GET-LOG", "PROFILE"];

#[rustfmt::skip]
const LOG_STATS: &[Attribute] = &[
    Attribute::told("traceCount", Type::Integer, "Lines of level trace").graphed(),
    Attribute::told("debugCount", Type::Integer, "Lines of level debug").graphed(),
    Attribute::told("infoCount", Type::Integer, "Lines of level info").graphed(),
    Attribute::told("noticeCount", Type::Integer, "Lines of level notice").graphed(),
    Attribute::told("warningCount", Type::Integer, "Lines of level warning").graphed(),
    Attribute::told("errorCount", Type::Integer, "Lines of level error").graphed(),
    Attribute::told("criticalCount", Type::Integer, "Lines of level critical").graphed(),
];

#[rustfmt::skip]
const NODES: &[Attribute] = &[
    Attribute::told("id", Type::Text, "The other router's id"),
    Attribute::told("protocolVersion", Type::Integer, "Version of the protocol between routers"),
    Attribute::told("instance", Type::Integer, "When that router started"),
    Attribute::told("linkState", Type::List, "Its neighbours"),
    Attribute::told("nextHop", Type::Text, "The first router on the way there"),
    Attribute::told("validOrigins", Type::List, "Routers whose way there leads through this one"),
    Attribute::told("address", Type::Text, "Its address"),
    Attribute::told("routerLink", Type::EntityId, "The link to it"),
    Attribute::told("cost", Type::Integer, "Cost of the way there"),
    Attribute::told("lastTopoChange", Type::Integer, "When the network changed last"),
    Attribute::told("index", Type::Integer, "Its number here"),
];

#[rustfmt::skip]
const VHOST_STATS: &[Attribute] = &[
    Attribute::told("id", Type::Text, "The vhost's host name"),
    Attribute::told("hostname", Type::Text, "The vhost's host name"),
    Attribute::told("connectionsApproved", Type::Integer, "Connections that were let in").graphed(),
    Attribute::told("connectionsDenied", Type::Integer, "Connections that were denied").graphed(),
    Attribute::told("connectionsCurrent", Type::Integer, "Connections at present").graphed(),
    Attribute::told("perUserState", Type::Map, "Connections by user"),
    Attribute::told("perHostState", Type::Map, "Connections by host"),
    Attribute::told("sessionDenied", Type::Integer, "Sessions that were denied").graphed(),
    Attribute::told("senderDenied", Type::Integer, "Senders that were denied").graphed(),
    Attribute::told("receiverDenied", Type::Integer, "Receivers that were denied").graphed(),
    Attribute::told("maxMessageSizeDenied", Type::Integer, "Messages that were too large").graphed(),
];

#[rustfmt::skip]
const CONSOLE: &[Attribute] = &[
    Attribute::told("listener", Type::Text, "The listener of the console"),
    Attribute::told("wsport", Type::Integer, "Its port for WebSocket"),
    Attribute::told("proxy", Type::Text, "The program between them"),
    Attribute::told("home", Type::Text, "Where its files are"),
    Attribute::told("args", Type::Text, "The program's arguments"),
];

#[rustfmt::skip]
const DUMMY_ATTRIBUTES: &[Attribute] = &[
    Attribute::told("arg1", Type::Text, "Any text").both(),
    Attribute::told("arg2", Type::Text, "Any text").both(),
    Attribute::told("num1", Type::Integer, "Any number").both(),
    Attribute::told("num2", Type::Integer, "Any number").both(),
];

impl Default for Schema {
    fn default() -> Self {
        Self::new()
    }
}

impl Schema {
    pub fn new() -> Schema {
        let mut schema = Schema { types: Vec::new() };
        schema.add(ENTITY, None, &[], vec![], "What every entity has");
        schema.add(CONFIGURATION, Some(ENTITY), &["READ"], vec![], "What can be configured");
        schema.add(OPERATIONAL, Some(ENTITY), &["READ"], vec![], "What comes and goes by itself, and figures");
        schema.add(NODE, Some(OPERATIONAL), &NODE_OPERATIONS, vec![], "What answers requests of management");
        let node =
            schema.add(MANAGEMENT, Some(NODE), &OWN_OPERATIONS, vec![], "What answers requests of management here");
        (node.source, node.is_single) = (Source::Stored, true);
        for entity in configured::ENTITIES.iter().filter(|entity| !entity.attributes.is_empty()) {
            schema.add_configured(entity);
        }
        schema.add_operational();
        schema
    }

    fn add(
        &mut self,
        short: &'static str,
        base: Option<&str>,
        operations: &[&'static str],
        mut attributes: Vec<Attribute>,
        description: &'static str,
    ) -> &mut EntityType {
        let base = base.and_then(|name| self.types.iter().position(|one| one.short == name));
        let mut operations = operations.to_vec();
        let mut bases = Vec::new();
        if let Some(at) = base {
            let base = &self.types[at];
            operations.extend(&base.operations);
            bases = [&[at], &base.bases[..]].concat();
        }
        attributes.extend(EVERY_ENTITY.iter().map(Attribute::of));
        let long = if short == NODE { NODE.to_owned() } else { format!("{PREFIX}{short}") };
        self.types.push(EntityType {
            short,
            long,
            bases,
            operations,
            attributes,
            description,
            is_single: false,
            is_deprecated: false,
            source: Source::Abstract,
            configured: None,
        });
        let last = self.types.len() - 1;
        &mut self.types[last]
    }

    fn add_configured(&mut self, entity: &'static configured::Entity) {
        let operations: Vec<&'static str> = entity.operations.iter().map(|operation| operation.name()).collect();
        let mut attributes: Vec<Attribute> = entity.attributes.iter().map(Attribute::of).collect();
        if entity.type_name == "router" {
            // Of the same things, figures have the last word.
            let known = |one: &Attribute| attributes.iter().any(|other| other.name == one.name);
            let figures: Vec<Attribute> =
                columns::ROUTER.iter().map(|column| column.attribute.clone()).filter(|one| !known(one)).collect();
            attributes.extend(figures);
        }
        if entity.type_name == "router.config.address" {
            attributes.push(FALLBACK);
        }
        let added = self.add(entity.type_name, Some(CONFIGURATION), &operations, attributes, entity.description);
        (added.source, added.is_single, added.configured) = (Source::Stored, entity.is_single, Some(entity));
        if entity.type_name == "router" {
            added.source = Source::Router;
        }
    }

    fn add_operational(&mut self) {
        let operational = Some(OPERATIONAL);
        self.add("router.link", operational, &["UPDATE"], attributes(columns::LINK), "A link of a client's").source =
            Source::Links;
        self.add("router.address", operational, &["UPDATE"], attributes(columns::ADDRESS), "An address in use")
            .source = Source::Addresses;
        self.add("connection", operational, &["UPDATE"], attributes(columns::CONNECTION), "An open connection")
            .source = Source::Connections;
        self.add("router.node", operational, &[], NODES.to_vec(), "Another router of the network").source =
            Source::Stored;
        self.add("logStats", operational, &[], LOG_STATS.to_vec(), "Lines of a part of the router").source =
            Source::LogCounts;
        self.add("allocator", operational, &[], attributes(columns::ALLOCATOR), "Memory of one kind").source =
            Source::Allocators;
        self.add("vhostStats", operational, &[], VHOST_STATS.to_vec(), "Figures of a vhost").source = Source::Stored;
        let console = self.add("console", Some(CONFIGURATION), &[], CONSOLE.to_vec(), "The console of older versions");
        (console.source, console.is_single, console.is_deprecated) = (Source::Stored, true, true);
        let operations = ["CREATE", "READ", "UPDATE", "DELETE", "CALLME"];
        self.add(DUMMY, Some(ENTITY), &operations, DUMMY_ATTRIBUTES.to_vec(), "Does nothing; to try a client with")
            .source = Source::Stored;
    }

    pub fn types(&self) -> &[EntityType] {
        &self.types
    }

    /// By its short or long name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.types.iter().position(|one| one.long == name || one.short == name)
    }

    pub fn get(&self, number: usize) -> &EntityType {
        &self.types[number]
    }

    /// Whether `number` is `base` or extends it.
    pub fn is_a(&self, number: usize, base: usize) -> bool {
        number == base || self.types[number].bases.contains(&base)
    }

    /// All of it, as GET-SCHEMA gives it.
    pub fn dump(&self) -> Value {
        let types: Map<String, Value> = self.types.iter().map(|one| (one.short.to_owned(), one.dump())).collect();
        json!({"prefix": PREFIX.trim_end_matches('.'), "entityTypes": types})
    }
}

fn attributes<R>(columns: &[columns::Column<R>]) -> Vec<Attribute> {
    columns.iter().map(|column| column.attribute.clone()).collect()
}

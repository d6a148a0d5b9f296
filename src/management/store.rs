//! Entities that are kept: configured, created, or said once.

use super::datum::Datum;
use super::out::Out;
use super::schema::{EntityType, Schema, MANAGEMENT};
use crate::config::{Configured, Value};
use std::collections::{BTreeMap, HashMap};

#[derive(Clone, Debug)]
pub struct Entity {
    /// Its type's place in the schema.
    pub kind: usize,
    /// The number that it was made with; no other has it.
    pub number: u64,
    pub name: Option<String>,
    pub identity: String,
    /// By the schema's names, in the schema's types.
    pub attributes: BTreeMap<String, Datum>,
}

impl Entity {
    /// Writes an attribute's value.
    pub fn put(&self, kind: &EntityType, name: &str, out: &mut Out) {
        let attribute = kind.attribute(name);
        let hidden = attribute.is_some_and(|attribute| attribute.is_hidden);
        match self.attributes.get(attribute.map_or(name, |attribute| attribute.name)) {
            Some(_) if hidden => out.text("*****"),
            Some(value) => out.raw(value.bytes()),
            None => out.null(),
        }
    }

    /// With the type in front, where it isn't already.
    pub fn long_identity(&self, kind: &EntityType) -> String {
        match self.identity.contains('/') || kind.short == MANAGEMENT {
            true => self.identity.clone(),
            false => format!("{}/{}", kind.short, self.identity),
        }
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).and_then(Datum::as_text)
    }

    /// All attributes, as READ gives them. Those without a value are there as nulls where the type has columns.
    pub fn show(&self, kind: &EntityType, names: &[&str]) -> Out {
        let mut out = Out::default();
        let mut map = out.begin();
        for name in names {
            let value = kind.attribute(name).and_then(|attribute| self.attributes.get(attribute.name));
            let is_there = match *name {
                "type" | "identity" => true,
                "name" => self.name.is_some() || kind.has_nulls(),
                _ => value.is_some() || kind.has_nulls(),
            };
            if is_there {
                out.text(name);
                match *name {
                    "type" => out.text(&kind.long),
                    "identity" => out.text(&self.identity),
                    "name" => out.or_null(self.name.as_deref(), Out::text),
                    name => self.put(kind, name, &mut out),
                }
                map.count += 2;
            }
        }
        out.end_map(map);
        out
    }
}

#[derive(Default)]
pub struct Store {
    entities: BTreeMap<u64, Entity>,
    /// Types and numbers, by name.
    names: HashMap<String, Vec<(usize, u64)>>,
    /// How many there are of a type.
    counts: HashMap<usize, usize>,
    next_number: u64,
    /// Of those whose identity is a count of their type.
    next_of: HashMap<usize, u64>,
}

impl Store {
    /// An entity with these attributes and the schema's defaults, not kept yet.
    pub fn make(
        &mut self,
        schema: &Schema,
        kind: usize,
        name: Option<String>,
        mut attributes: BTreeMap<String, Datum>,
    ) -> Entity {
        let entity_type = schema.get(kind);
        for attribute in entity_type.attributes.iter().filter(|attribute| attribute.default.is_some()) {
            if !attributes.contains_key(attribute.name) {
                attributes.extend(attribute.default().map(|default| (attribute.name.to_owned(), default)));
            }
        }
        fill(entity_type.short, &mut attributes);
        self.next_number += 1;
        let number = self.next_number;
        let mut entity = Entity { kind, number, name, identity: String::new(), attributes };
        entity.identity = self.identity(&entity, entity_type);
        if entity.name.is_none() && !entity_type.has_nulls() {
            entity.name = Some(entity.identity.clone());
        }
        entity
    }

    fn identity(&mut self, entity: &Entity, kind: &EntityType) -> String {
        let text = |name: &str| entity.text(name).unwrap_or_default().to_owned();
        let name = entity.name.clone();
        let own = match kind.short {
            MANAGEMENT => return "self".to_owned(),
            "listener" | "connector" => {
                let name = name.map(|name| format!(":{name}")).unwrap_or_default();
                format!("{}:{}{name}", text("host"), text("port"))
            }
            "log" => text("module"),
            "router" => text("id"),
            "vhost" => text("hostname"),
            "sslProfile" | "authServicePlugin" if name.is_some() => name.unwrap_or_default(),
            _ if kind.has_nulls() => return entity.number.to_string(),
            _ => {
                let next = self.next_of.entry(entity.kind).or_insert(0);
                *next += 1;
                (*next - 1).to_string()
            }
        };
        format!("{}/{own}", kind.short)
    }

    pub fn keep(&mut self, entity: Entity) {
        if let Some(name) = &entity.name {
            self.names.entry(name.clone()).or_default().push((entity.kind, entity.number));
        }
        *self.counts.entry(entity.kind).or_default() += 1;
        self.entities.insert(entity.number, entity);
    }

    /// How many there are of a type.
    pub fn count(&self, kind: usize) -> usize {
        self.counts.get(&kind).copied().unwrap_or_default()
    }

    pub fn remove(&mut self, number: u64) -> Option<Entity> {
        let entity = self.entities.remove(&number)?;
        self.counts.entry(entity.kind).and_modify(|count| *count -= 1);
        if let Some((name, named)) = entity.name.as_ref().and_then(|name| Some((name, self.names.get_mut(name)?))) {
            named.retain(|(_, other)| *other != number);
            if named.is_empty() {
                self.names.remove(name);
            }
        }
        Some(entity)
    }

    pub fn get(&self, number: u64) -> Option<&Entity> {
        self.entities.get(&number)
    }

    pub fn get_mut(&mut self, number: u64) -> Option<&mut Entity> {
        self.entities.get_mut(&number)
    }

    /// The entities of a type, in the order in which they were made.
    pub fn of(&self, kind: usize) -> impl Iterator<Item = &Entity> {
        self.entities.values().filter(move |entity| entity.kind == kind)
    }

    /// The one of this type, else the first of any.
    pub fn by_name(&self, kind: Option<usize>, name: &str) -> Option<&Entity> {
        let named = self.names.get(name)?;
        let of_type = named.iter().find(|(of, _)| Some(*of) == kind);
        let (_, number) = of_type.or_else(|| named.iter().min_by_key(|(_, number)| *number))?;
        self.entities.get(number)
    }

    /// `schema`: identities may have their type in front.
    pub fn by_identity(&self, schema: &Schema, kind: Option<usize>, identity: &str) -> Option<&Entity> {
        let short = identity.rsplit_once('/').map_or(identity, |(_, number)| number);
        let numbered = short.parse().ok().and_then(|number| self.entities.get(&number));
        let is_it = |entity: &&Entity| {
            let entity_type = schema.get(entity.kind);
            let named = entity.identity == identity || entity.long_identity(entity_type) == identity;
            named && kind.is_none_or(|kind| schema.is_a(entity.kind, kind) || !entity_type.has_nulls())
        };
        numbered.filter(is_it).or_else(|| self.entities.values().find(is_it))
    }
}

/// What an entity of a type has though nobody says so.
fn fill(short: &str, attributes: &mut BTreeMap<String, Datum>) {
    let mut put = |name: &str, value: Datum| {
        attributes.entry(name.to_owned()).or_insert(value);
    };
    match short {
        "router.config.address" => {
            put("ingressPhase", Datum::integer(0));
            put("egressPhase", Datum::integer(0));
            put("priority", Datum::integer(-1));
            let fallback = attributes.get("enableFallback").cloned().unwrap_or_else(|| Datum::boolean(false));
            attributes.insert("fallback".to_owned(), fallback);
        }
        "router.config.linkRoute" => put("operStatus", Datum::text("inactive")),
        "router.config.autoLink" => put("operStatus", Datum::text("inactive")),
        "connector" => put("connectionStatus", Datum::text("FAILED")),
        "router" => put("area", Datum::text("0")),
        "policy" => {
            let figures = ["connectionsProcessed", "connectionsDenied", "connectionsCurrent", "linksDenied"];
            figures.iter().for_each(|name| put(name, Datum::integer(0)));
            put("maxMessageSizeDenied", Datum::integer(0));
            put("totalDenials", Datum::integer(0));
        }
        _ => {}
    }
}

/// What a section says, in management's types.
pub fn values(configured: &Configured) -> (Option<String>, BTreeMap<String, Datum>) {
    let mut name = None;
    let mut attributes = BTreeMap::new();
    for (attribute, value) in &configured.values {
        match (*attribute, value) {
            ("name", Value::Text(text)) => name = Some(text.clone()),
            (attribute, value) => drop(attributes.insert(attribute.to_owned(), datum(value))),
        }
    }
    (name, attributes)
}

fn datum(value: &Value) -> Datum {
    match value {
        Value::Text(text) => Datum::text(text),
        Value::Boolean(value) => Datum::boolean(*value),
        Value::Integer(number) => Datum::integer(i64::try_from(*number).unwrap_or(i64::MAX)),
        Value::Choice(word) => Datum::text(word),
        Value::List(items) => Datum::text(&items.join(" ")),
        Value::Map(map) => Datum::json(&serde_json::Value::Object(map.clone())),
        Value::Port { name, .. } => Datum::text(name),
    }
}

//! The operations: what a request wants, what it needs for that, and what it is answered.

use super::datum::Datum;
use super::message::{Request, Response, Status};
use super::out::Out;
use super::query::Query;
use super::schema::{EntityType, Schema, MANAGEMENT, NODE};
use std::collections::BTreeMap;

/// An entity that is kept here.
#[derive(Clone, Debug)]
pub struct Entity {
    /// Its type's place in the schema.
    pub kind: usize,
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
        let value = self.attributes.get(attribute.map_or(name, |attribute| attribute.name));
        match value {
            Some(_) if hidden => out.text("*****"),
            Some(value) => out.raw(value.bytes()),
            None => out.null(),
        }
    }

    /// With the type in front, where it isn't already.
    pub fn long_identity(&self, kind: &EntityType) -> String {
        let short = kind.short.strip_prefix("router.config.").unwrap_or(kind.short);
        match self.identity.strip_prefix(short).is_some_and(|rest| rest.starts_with('/')) || kind.short == MANAGEMENT {
            true => self.identity.clone(),
            false => format!("{}/{}", kind.short, self.identity),
        }
    }
}

/// What an operation comes to.
pub enum Step {
    Answer(Response),
    /// To be answered with the rows of its tables.
    Query(Query),
}

pub struct Agent {
    schema: Schema,
    /// By the number that they were made with.
    entities: BTreeMap<u64, Entity>,
}

impl Default for Agent {
    fn default() -> Self {
        Self::new()
    }
}

type Refusal = Response;

fn refuse(status: Status, text: impl Into<String>) -> Refusal {
    Response::error(status, text.into())
}

impl Agent {
    pub fn new() -> Agent {
        Agent { schema: Schema::new(), entities: BTreeMap::new() }
    }

    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The entities of a type, in the order in which they were made.
    pub fn entities_of(&self, kind: usize) -> impl Iterator<Item = &Entity> {
        self.entities.values().filter(move |entity| entity.kind == kind)
    }

    /// Names of a type's attributes as answers have them.
    pub fn shown(&self, kind: usize) -> Vec<&'static str> {
        let kind = self.schema.get(kind);
        let aliases = kind.shows_aliases();
        let names = kind.attributes.iter().flat_map(|one| [Some(one.name), one.alias.filter(|_| aliases)]);
        names.flatten().collect()
    }

    /// What a request comes to.
    pub fn begin(&mut self, request: &Request) -> Step {
        match self.handle(request) {
            Ok(step) => step,
            Err(refusal) => Step::Answer(refusal),
        }
    }

    fn handle(&mut self, request: &Request) -> Result<Step, Refusal> {
        let Some(operation) = request.text("operation") else {
            return Err(refuse(Status::BadRequest, "No 'operation' property"));
        };
        let operation = operation.to_ascii_uppercase();
        let kind = self.requested_type(request, "type")?;
        let is_node = kind.is_none_or(|kind| self.is_node(kind)) && self.is_self(request);
        if is_node {
            return self.node_operation(&operation, request);
        }
        Err(refuse(Status::NotImplemented, format!("Operation '{operation}' not implemented")))
    }

    /// The type that a property names. None: it isn't given.
    fn requested_type(&self, request: &Request, property: &str) -> Result<Option<usize>, Refusal> {
        let Some(value) = request.property(property) else { return Ok(None) };
        let name = value.as_text().unwrap_or_default();
        if property == "entityType" && name.is_empty() {
            return Ok(None);
        }
        let found = self.schema.find(name);
        found.map(Some).ok_or_else(|| refuse(Status::BadRequest, format!("No such entity type '{name}'")))
    }

    fn is_node(&self, kind: usize) -> bool {
        let management = self.schema.find(MANAGEMENT);
        management.is_some_and(|management| self.schema.is_a(management, kind))
    }

    /// Whether a request is for the management node: it names it, or nothing.
    fn is_self(&self, request: &Request) -> bool {
        let names = |property| request.property(property).is_none_or(|value| value.as_text() == Some("self"));
        names("name") && names("identity")
    }

    fn node_operation(&mut self, operation: &str, request: &Request) -> Result<Step, Refusal> {
        let entity_type = self.requested_type(request, "entityType")?;
        let wanted = |number: usize| entity_type.is_none_or(|base| self.schema.is_a(number, base));
        let types = self.schema.types().iter().enumerate().filter(|(number, _)| wanted(*number)).map(|(_, one)| one);
        let mut out = Out::default();
        match operation {
            "QUERY" => return self.query(request, entity_type).map(Step::Query),
            "GET-TYPES" => out.map(types.map(|one| (&one.long, one)), |out, one: &EntityType| {
                out.list(&one.bases, |out, base| out.text(&self.schema.get(*base).long))
            }),
            "GET-OPERATIONS" => out.map(types.map(|one| (&one.long, one)), |out, one| {
                out.list(&one.operations, |out, name| out.text(name))
            }),
            "GET-ATTRIBUTES" => out.map(types.map(|one| (&one.long, one)), |out, one| {
                out.list(&one.attributes, |out, attribute| out.text(attribute.name))
            }),
            "GET-ANNOTATIONS" => out.map::<&str, ()>([], |_, ()| {}),
            "GET-MGMT-NODES" => out.list::<()>([], |_, ()| {}),
            "GET-SCHEMA" => out.json(&self.schema.dump()),
            "GET-JSON-SCHEMA" => out.text(&self.json_schema(request)?),
            "READ" => return Ok(Step::Answer(self.read_self())),
            _ => {
                let text = format!("Operation '{operation}' not implemented on {NODE}");
                return Err(refuse(Status::NotImplemented, text));
            }
        }
        Ok(Step::Answer(Response::ok(out)))
    }

    fn query(&self, request: &Request, entity_type: Option<usize>) -> Result<Query, Refusal> {
        let number = |property: &str, default: usize| match request.property(property) {
            None => Ok(default),
            Some(value) => match value.as_integer() {
                // Below zero is as if it weren't there.
                Some(number) => Ok(usize::try_from(number).unwrap_or(default)),
                None => Err(refuse(Status::BadRequest, format!("'{property}' is not a number"))),
            },
        };
        let (offset, count) = (number("offset", 0)?, number("count", usize::MAX)?);
        let attributes = request.attributes.iter().flatten();
        let names = attributes.clone().find(|(key, _)| key == "attributeNames").map(|(_, value)| value);
        let names = match names.map(Datum::value) {
            None | Some(crate::wire::value::Value::Null) => None,
            Some(crate::wire::value::Value::List(list)) => {
                let text = |element| match element {
                    Ok(crate::wire::value::Value::String(text) | crate::wire::value::Value::Symbol(text)) => {
                        Some(text.to_owned())
                    }
                    _ => None,
                };
                let names: Option<Vec<String>> = list.iter().map(text).collect();
                let names = names.ok_or_else(|| refuse(Status::BadRequest, "attributeNames are not all text"))?;
                Some(names).filter(|names| !names.is_empty())
            }
            Some(_) => return Err(refuse(Status::BadRequest, "attributeNames is not a list")),
        };
        Query::new(self, entity_type, names, offset, count)
    }

    fn json_schema(&self, request: &Request) -> Result<String, Refusal> {
        let dump = self.schema.dump();
        let Some(indent) = request.property("indent") else { return Ok(dump.to_string()) };
        let Some(indent) = indent.as_integer().and_then(|indent| usize::try_from(indent).ok()).filter(|n| *n <= 16)
        else {
            return Err(refuse(Status::BadRequest, "'indent' is not a number from 0 to 16"));
        };
        let spaces = " ".repeat(indent);
        let formatter = serde_json::ser::PrettyFormatter::with_indent(spaces.as_bytes());
        let mut text = Vec::new();
        let mut writer = serde_json::Serializer::with_formatter(&mut text, formatter);
        serde::Serialize::serialize(&dump, &mut writer)
            .map_err(|error| refuse(Status::InternalError, error.to_string()))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn read_self(&self) -> Response {
        let mut out = Out::default();
        let long = self.schema.find(MANAGEMENT).map_or("", |number| &self.schema.get(number).long);
        out.map([("name", "self"), ("identity", "self"), ("type", long)], Out::text);
        Response::ok(out)
    }
}

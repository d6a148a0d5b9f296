//! The operations: what a request wants, what it needs for that, and what it is answered.

use super::change::{self, Change, RowChange};
use super::datum::Datum;
use super::message::{Request, Response, Status};
use super::out::Out;
use super::query::{Figures, Query, RowRead};
use super::schema::{EntityType, Schema, Source, DUMMY, MANAGEMENT, NODE};
use super::store::{self, Entity, Store};
use crate::config::{Config, FlowConfig};
use crate::limits;
use crate::wire::value::Value;
use std::collections::BTreeMap;

/// What an operation comes to.
pub enum Step {
    Answer(Response),
    /// To be answered with the rows of its tables.
    Query(Query),
    /// To be answered with one row.
    Read(RowRead),
    /// To be done, then answered with what `Agent::done` says.
    Change(Change),
    /// To be changed in the shards, then answered with the row.
    ChangeRow(RowChange),
    /// The latest lines of the log, so many.
    Log(usize),
}

pub struct Agent {
    schema: Schema,
    store: Store,
    /// What an address has that doesn't say.
    flow: FlowConfig,
    /// As the configuration states it, whatever the router is.
    mode: String,
}

pub(super) type Refusal = Response;

pub(super) fn refuse(status: Status, text: impl Into<String>) -> Refusal {
    Response::error(status, text.into())
}

impl Agent {
    /// `figures`: those of the router that stay as they are.
    pub fn new(config: &Config, figures: &Figures) -> Agent {
        let mut agent = Agent {
            schema: Schema::new(),
            store: Store::default(),
            flow: config.router.flow.clone(),
            mode: "standalone".to_owned(),
        };
        agent.add(MANAGEMENT, Some("self".to_owned()), BTreeMap::new());
        for configured in config.entities.iter().filter(|one| !matches!(one.entity, "router" | "log")) {
            let (name, mut attributes) = store::values(configured);
            let Some(entity) = crate::config::schema::find(configured.entity) else { continue };
            if let (Some(unserved), "autoLink" | "connector") = (&entity.unserved, configured.entity) {
                let attribute = if configured.entity == "autoLink" { "lastError" } else { "connectionMsg" };
                let text = format!("not served by this version ({}): {}", unserved.feature, unserved.instead);
                attributes.insert(attribute.to_owned(), Datum::text(&text));
            }
            agent.add(entity.type_name, name, attributes);
        }
        agent.add_router(config, figures);
        agent.add_logs(config);
        if agent.schema.find("policy").is_some_and(|policy| agent.store.of(policy).next().is_none()) {
            agent.add("policy", None, BTreeMap::new());
        }
        agent
    }

    fn add(&mut self, short: &str, name: Option<String>, attributes: BTreeMap<String, Datum>) {
        if let Some(kind) = self.schema.find(short) {
            let entity = self.store.make(&self.schema, kind, name, attributes);
            self.store.keep(entity);
        }
    }

    fn add_router(&mut self, config: &Config, figures: &Figures) {
        let stated = config.entities.iter().find(|one| one.entity == "router");
        let (name, mut attributes) = stated.map(store::values).unwrap_or_default();
        if let Some(mode) = attributes.get("mode").and_then(Datum::as_text) {
            self.mode = mode.to_owned();
        }
        attributes.insert("id".to_owned(), Datum::text(&figures.id));
        attributes.insert("hostName".to_owned(), Datum::text(&figures.host_name));
        self.add("router", name, attributes);
    }

    fn add_logs(&mut self, config: &Config) {
        for (_, module) in crate::log::Module::ALL {
            let text =
                |value: &crate::config::Value| matches!(value, crate::config::Value::Choice(word) if *word == module);
            let is_of = |one: &&crate::config::Configured| {
                one.entity == "log" && one.values.iter().any(|(name, value)| *name == "module" && text(value))
            };
            let (name, mut attributes) = config.entities.iter().find(is_of).map(store::values).unwrap_or_default();
            attributes.insert("module".to_owned(), Datum::text(module));
            if module == "DEFAULT" {
                let mut put = |name: &str, value| {
                    attributes.entry(name.to_owned()).or_insert(value);
                };
                put("enable", Datum::text("info+"));
                put("includeTimestamp", Datum::boolean(true));
                put("includeSource", Datum::boolean(false));
                put("outputFile", Datum::text("stderr"));
            }
            self.add("log", name, attributes);
        }
    }

    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The entities of a type, in the order in which they were made.
    pub(super) fn entities_of(&self, kind: usize) -> impl Iterator<Item = &Entity> {
        self.store.of(kind)
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
        if operation == "CREATE" {
            return self.create(request);
        }
        let kind = self.requested_type(request, "type")?;
        let is_node = kind.is_none_or(|kind| self.is_node(kind));
        if is_node && self.is_self(request) {
            return self.node_operation(&operation, request);
        }
        match kind.filter(|kind| self.schema.get(*kind).source != Source::Stored && !self.is_node(*kind)) {
            Some(kind) => self.row_operation(&operation, kind, request),
            None => self.entity_operation(&operation, kind, request),
        }
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

    // ── the management node ──

    fn node_operation(&mut self, operation: &str, request: &Request) -> Result<Step, Refusal> {
        let entity_type = self.requested_type(request, "entityType")?;
        let wanted = |number: usize| entity_type.is_none_or(|base| self.schema.is_a(number, base));
        let types = self.schema.types().iter().enumerate().filter(|(number, _)| wanted(*number)).map(|(_, one)| one);
        let types = types.map(|one| (&one.long, one));
        let mut out = Out::default();
        match operation {
            "QUERY" => return self.query(request, entity_type).map(Step::Query),
            "GET-TYPES" => out.map(types, |out, one: &EntityType| {
                out.list(&one.bases, |out, base| out.text(&self.schema.get(*base).long))
            }),
            "GET-OPERATIONS" => {
                out.map(types, |out, one: &EntityType| out.list(&one.operations, |out, name| out.text(name)))
            }
            "GET-ATTRIBUTES" => out.map(types, |out, one: &EntityType| {
                out.list(&one.attributes, |out, attribute| out.text(attribute.name))
            }),
            "GET-ANNOTATIONS" => out.map::<&str, ()>([], |_, ()| {}),
            // Those of other routers.
            "GET-MGMT-NODES" => out.list::<()>([], |_, ()| {}),
            "GET-SCHEMA" => out.json(&self.schema.dump()),
            "GET-JSON-SCHEMA" => out.text(&self.json_schema(request)?),
            "GET-LOG" => return Ok(Step::Log(count(request, "limit")?)),
            "READ" => return self.entity_operation(operation, None, request),
            _ => return Err(not_implemented(operation, NODE)),
        }
        Ok(Step::Answer(Response::ok(out)))
    }

    fn query(&self, request: &Request, entity_type: Option<usize>) -> Result<Query, Refusal> {
        let offset = request.property("offset").map_or(Ok(0), |_| count(request, "offset"))?;
        let offset = if offset == usize::MAX { 0 } else { offset };
        let attributes = request.attributes.iter().flatten();
        let names = attributes.clone().find(|(key, _)| key == "attributeNames").map(|(_, value)| value.value());
        let names = match names {
            None | Some(Value::Null) => None,
            Some(Value::List(list)) => {
                let text = |element| match element {
                    Ok(Value::String(text) | Value::Symbol(text)) => Some(text.to_owned()),
                    _ => None,
                };
                let names: Option<Vec<String>> = list.iter().map(text).collect();
                let names = names.ok_or_else(|| refuse(Status::BadRequest, "attributeNames are not all text"))?;
                Some(names).filter(|names| !names.is_empty())
            }
            Some(_) => return Err(refuse(Status::BadRequest, "attributeNames is not a list")),
        };
        Query::new(self, entity_type, names, offset, count(request, "count")?)
    }

    fn json_schema(&self, request: &Request) -> Result<String, Refusal> {
        let dump = self.schema.dump();
        let Some(indent) = request.property("indent") else { return Ok(dump.to_string()) };
        let indent = indent.as_integer().and_then(|indent| usize::try_from(indent).ok()).filter(|indent| *indent <= 16);
        let Some(indent) = indent else {
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

    // ── entities that are kept ──

    /// The entity that a request names, of this type, or of any.
    fn find(&self, kind: Option<usize>, request: &Request) -> Result<&Entity, Refusal> {
        let (name, identity) = (request.text("name"), request.text("identity"));
        let columns = kind.filter(|kind| self.schema.get(*kind).has_nulls());
        // Names are looked for among all: another type's is told from none.
        let found = match (identity, name) {
            (Some(identity), _) => self.store.by_identity(&self.schema, columns, identity),
            (None, Some(name)) => self.store.by_name(kind, name).or_else(|| match columns {
                Some(_) => None,
                None => self.store.by_name(None, name),
            }),
            (None, None) => {
                let of = kind.map(|kind| format!("{}: ", self.schema.get(kind).long)).unwrap_or_default();
                return Err(refuse(Status::BadRequest, format!("{of}No name or identity provided")));
            }
        };
        let Some(entity) = found else {
            let (key, value) = if identity.is_some() { ("identity", identity) } else { ("name", name) };
            let text = format!("No entity with {key}={}", value.unwrap_or_default());
            return Err(refuse(Status::NotFound, text));
        };
        if identity.is_some() && name.is_some_and(|name| entity.name.as_deref() != Some(name)) {
            return Err(refuse(Status::BadRequest, "Conflicting name and identity"));
        }
        match kind {
            Some(kind) if !self.schema.is_a(entity.kind, kind) => {
                let (found, wanted) = (&self.schema.get(entity.kind).long, &self.schema.get(kind).long);
                let text = format!("Entity type '{found}' does not extend requested type '{wanted}'");
                Err(refuse(Status::BadRequest, text))
            }
            _ => Ok(entity),
        }
    }

    fn entity_operation(&mut self, operation: &str, kind: Option<usize>, request: &Request) -> Result<Step, Refusal> {
        if kind.is_none() {
            if let Some((kind, rest)) = self.row_of_identity(request) {
                return self.row_operation_on(operation, kind, request, Some(rest));
            }
        }
        let entity = self.find(kind, request)?;
        let (number, entity_type) = (entity.number, self.schema.get(entity.kind));
        if !entity_type.allows(operation) {
            return Err(not_allowed(operation, entity_type));
        }
        match operation {
            "READ" => Ok(Step::Answer(self.show(entity, Status::Ok))),
            "UPDATE" => self.update(number, request),
            "DELETE" => self.delete(number),
            "CALLME" => {
                let mut out = Out::default();
                out.map(request.properties.iter().map(|(key, value)| (key, value)), |out, value| {
                    out.raw(value.bytes())
                });
                Ok(Step::Answer(Response::ok(out)))
            }
            _ => Err(not_implemented(operation, &entity_type.long)),
        }
    }

    pub(super) fn show(&self, entity: &Entity, status: Status) -> Response {
        let kind = self.schema.get(entity.kind);
        Response::of(status, entity.show(kind, &self.shown(entity.kind)))
    }

    fn create(&mut self, request: &Request) -> Result<Step, Refusal> {
        let Some(body) = &request.attributes else {
            return Err(refuse(Status::BadRequest, "Body of request must be a map"));
        };
        let said = |key: &str| body.iter().find(|(name, value)| name == key && !value.is_null());
        for key in ["type", "name"] {
            let text = said(key).and_then(|(_, value)| value.as_text());
            let is_same = key == "type"
                && text.map(|text| self.schema.find(text)) == request.text(key).map(|text| self.schema.find(text));
            if let (Some(one), Some(other)) = (text, request.text(key)) {
                if one != other && !is_same {
                    return Err(refuse(Status::BadRequest, format!("Conflicting values for '{key}'")));
                }
            }
        }
        let of = |key: &str| request.text(key).or_else(|| said(key).and_then(|(_, value)| value.as_text()));
        let Some(type_name) = of("type") else { return Err(refuse(Status::BadRequest, "No 'type' attribute")) };
        let Some(kind) = self.schema.find(type_name) else {
            return Err(refuse(Status::BadRequest, format!("No such entity type '{type_name}'")));
        };
        if said("identity").is_some() {
            return Err(refuse(Status::BadRequest, "'identity' attribute cannot be specified"));
        }
        let name = of("name").map(str::to_owned);
        let entity_type = self.schema.get(kind);
        if !entity_type.allows("CREATE") {
            return Err(not_allowed("CREATE", entity_type));
        }
        let attributes = change::accept(entity_type, body, |attribute| attribute.can_create, "set", "CREATE")?;
        if name.as_ref().is_some_and(|name| self.store.by_name(Some(kind), name).is_some()) {
            return Err(refuse(Status::BadRequest, "Name conflicts with an existing entity"));
        }
        let most = if entity_type.short == "listener" { limits::LISTENERS_MAX } else { limits::ENTITIES_MAX };
        if self.store.count(kind) >= most {
            let text = format!("There are {most} entities of '{}', and no more are kept", entity_type.long);
            return Err(refuse(Status::BadRequest, text));
        }
        change::check_roles(entity_type, &attributes, &self.mode)?;
        let made = change::make(entity_type, name.as_deref(), body, &attributes, &self.flow)?;
        let entity = self.store.make(&self.schema, kind, name, attributes);
        if entity_type.short == DUMMY {
            let response = self.show(&entity, Status::Created);
            self.store.keep(entity);
            return Ok(Step::Answer(response));
        }
        made.map(|made| Step::Change(Change::Create { entity, made })).ok_or_else(|| not_allowed("CREATE", entity_type))
    }

    fn update(&mut self, number: u64, request: &Request) -> Result<Step, Refusal> {
        let Some(body) = &request.attributes else {
            return Err(refuse(Status::BadRequest, "Body of request must be a map"));
        };
        let Some(entity) = self.store.get(number) else { return Err(refuse(Status::NotFound, "No such entity")) };
        let entity_type = self.schema.get(entity.kind);
        let is_same = |name: &str, value: &Datum| match name {
            "type" => value.as_text().and_then(|text| self.schema.find(text)) == Some(entity.kind),
            "identity" => value.as_text() == Some(&entity.identity),
            "name" => value.as_text() == entity.name.as_deref(),
            name => entity.attributes.get(name) == Some(value),
        };
        let fresh: Vec<(String, Datum)> = body.iter().filter(|(name, value)| !is_same(name, value)).cloned().collect();
        let attributes = change::accept(entity_type, &fresh, |attribute| attribute.can_update, "update", "UPDATE")?;
        if entity_type.short == "log" {
            let config = change::log(entity, &attributes, &self.flow)?;
            return Ok(Step::Change(Change::UpdateLog { number, attributes, config }));
        }
        if entity_type.short != DUMMY {
            return Err(not_implemented("UPDATE", &entity_type.long));
        }
        self.store_update(number, attributes)
    }

    fn store_update(&mut self, number: u64, attributes: BTreeMap<String, Datum>) -> Result<Step, Refusal> {
        let Some(entity) = self.store.get_mut(number) else { return Err(refuse(Status::NotFound, "No such entity")) };
        entity.attributes.extend(attributes);
        let entity = entity.clone();
        Ok(Step::Answer(self.show(&entity, Status::Ok)))
    }

    fn delete(&mut self, number: u64) -> Result<Step, Refusal> {
        let Some(entity) = self.store.get(number) else { return Err(refuse(Status::NotFound, "No such entity")) };
        match change::deletion(self.schema.get(entity.kind), entity) {
            Some(deleted) => Ok(Step::Change(Change::Delete { number, deleted })),
            None => {
                self.store.remove(number);
                Ok(Step::Answer(no_content()))
            }
        }
    }

    /// A change was made: what is answered.
    pub fn done(&mut self, change: Change) -> Response {
        match change {
            Change::Create { entity, .. } => {
                let response = self.show(&entity, Status::Created);
                self.store.keep(entity);
                response
            }
            Change::Delete { number, .. } => {
                self.store.remove(number);
                no_content()
            }
            Change::UpdateLog { number, attributes, .. } => match self.store_update(number, attributes) {
                Ok(Step::Answer(response)) | Err(response) => response,
                Ok(_) => refuse(Status::InternalError, "an update that isn't over"),
            },
        }
    }

    // ── rows ──

    /// The type of rows that an identity begins with, and the rest of it.
    fn row_of_identity<'r>(&self, request: &'r Request) -> Option<(usize, &'r str)> {
        let (short, rest) = request.text("identity").or(request.text("name"))?.split_once('/')?;
        let kind = self.schema.find(short)?;
        let is_row = matches!(self.schema.get(kind).source, Source::Addresses | Source::Links | Source::Router);
        is_row.then_some((kind, rest))
    }

    fn row_operation(&self, operation: &str, kind: usize, request: &Request) -> Result<Step, Refusal> {
        self.row_operation_on(operation, kind, request, None)
    }

    /// `identity`: in place of the request's.
    fn row_operation_on(
        &self,
        operation: &str,
        kind: usize,
        request: &Request,
        identity: Option<&str>,
    ) -> Result<Step, Refusal> {
        let entity_type = self.schema.get(kind);
        if !entity_type.allows(operation) {
            return Err(not_allowed(operation, entity_type));
        }
        let identity = identity.or(request.text("identity"));
        let read = RowRead::new(self, kind, request.text("name"), identity)?;
        match operation {
            "READ" => Ok(Step::Read(read)),
            "UPDATE" => RowChange::new(entity_type, read, request).map(Step::ChangeRow),
            _ => Err(not_implemented(operation, &entity_type.long)),
        }
    }
}

fn no_content() -> Response {
    Response { status: Status::NoContent, ..Response::error(Status::NoContent, Status::NoContent.text()) }
}

fn not_implemented(operation: &str, of: &str) -> Refusal {
    refuse(Status::NotImplemented, format!("Operation '{operation}' not implemented on {of}"))
}

/// A type's operations don't have this one.
fn not_allowed(operation: &str, entity_type: &EntityType) -> Refusal {
    let is_made_by_itself = matches!(entity_type.source, Source::Connections | Source::Router);
    if is_made_by_itself && matches!(operation, "CREATE" | "DELETE") {
        return refuse(Status::Forbidden, Status::Forbidden.text());
    }
    let text =
        format!("Operation '{operation}' not implemented for '{}' {:?}", entity_type.long, entity_type.operations);
    refuse(Status::NotImplemented, text)
}

/// A number of the request; below zero is as if it weren't there.
fn count(request: &Request, property: &str) -> Result<usize, Refusal> {
    let Some(value) = request.property(property) else { return Ok(usize::MAX) };
    match value.as_integer() {
        Some(number) => Ok(usize::try_from(number).unwrap_or(usize::MAX)),
        None => Err(refuse(Status::BadRequest, format!("'{property}' is not a number"))),
    }
}

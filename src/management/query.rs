//! QUERY: which attributes of which entities, from where on, how many; and its answer, row by row.

use super::agent::{refuse, Agent, Refusal};
use super::columns::{self, Allocated, Column};
use super::message::{Response, Status};
use super::out::{Open, Out};
use super::schema::Source;
use super::store::Entity;
use crate::dispatch::{ConnectionRow, LinkRow, RouterRow, Table};
use crate::log::{Level, Module};
use crate::routing::AddressRow;
use std::rc::Rc;

/// The router's own figures, of all shards together.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    pub id: String,
    pub host_name: String,
    pub mode: &'static str,
    pub version: &'static str,
    pub metadata: Option<String>,
    pub row: RouterRow,
    /// Links that have had no credit for long.
    pub links_blocked: u64,
    pub uptime_seconds: u32,
    pub memory_bytes: Option<u64>,
    pub resident_bytes: Option<u64>,
    pub worker_threads: u32,
}

/// Lines of the log by level, a module each.
pub type LogCounts = Vec<(Module, [u64; Level::ALL.len()])>;

/// What a query is answered from: what is there at about the same time.
#[derive(Clone, Default)]
pub struct Snapshot {
    pub router: Figures,
    pub addresses: Rc<Vec<AddressRow>>,
    pub links: Rc<Vec<LinkRow>>,
    pub connections: Rc<Vec<ConnectionRow>>,
    pub log_counts: LogCounts,
}

impl Snapshot {
    /// Its tables: which each is, whoever has it, and its bytes.
    pub fn held(&self) -> [(*const (), usize); 3] {
        fn held<R>(rows: &Rc<Vec<R>>, more: impl Fn(&R) -> usize) -> (*const (), usize) {
            let texts: usize = rows.iter().map(more).sum();
            (Rc::as_ptr(rows).cast(), rows.capacity() * std::mem::size_of::<R>() + texts)
        }
        [
            held(&self.addresses, |row| row.key.len()),
            held(&self.links, |row| row.name.len() + row.routing.address.as_ref().map_or(0, String::len)),
            held(&self.connections, |row| row.facts.texts_len()),
        ]
    }
}

/// What one answer's column shows of a type's rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cell {
    Null,
    Name,
    Identity,
    Type,
    /// Of the type's table in `columns`.
    Column(usize),
    /// An attribute that is stored.
    Stored,
}

/// A query, understood.
#[derive(Clone, Debug)]
pub struct Query {
    /// The answer's columns.
    names: Vec<String>,
    /// Types whose entities are rows, with what each column shows.
    types: Vec<(usize, Vec<Cell>)>,
    offset: usize,
    count: usize,
    /// Entities of one type are wanted: their names and identities are as that type's own.
    is_typed: bool,
}

/// How many rows of an answer are written at once, so that what writes them can look up.
const ROWS_AT_ONCE: usize = 1000;

impl Query {
    /// `names` None: all attributes. `entity_type` None: all types.
    pub fn new(
        agent: &Agent,
        entity_type: Option<usize>,
        names: Option<Vec<String>>,
        offset: usize,
        count: usize,
    ) -> Result<Query, Response> {
        let schema = agent.schema();
        let mut types: Vec<usize> = (0..schema.types().len()).collect();
        types.retain(|number| schema.get(*number).source != Source::Abstract);
        if let Some(base) = entity_type {
            types.retain(|number| schema.is_a(*number, base));
        }
        let known: Vec<&str> = match entity_type {
            Some(number) => agent.shown(number),
            None => all_names(agent, &types),
        };
        let is_given = names.is_some();
        let names = names.unwrap_or_else(|| known.iter().map(|name| (*name).to_owned()).collect());
        let unknown: Vec<&str> = names.iter().map(String::as_str).filter(|name| !known.contains(name)).collect();
        if !unknown.is_empty() {
            let of = entity_type.map(|number| format!(" for type {}", schema.get(number).long)).unwrap_or_default();
            return Err(Response::error(Status::NotFound, format!("Unknown attributes {unknown:?}{of}.")));
        }
        // Repeated without a bound, they would make each row as long as the request.
        if names.len() > known.len() {
            return Err(Response::error(
                Status::BadRequest,
                "attributeNames has more names than there are attributes.",
            ));
        }
        let plan = |number: usize| {
            let cells: Vec<Cell> = names.iter().map(|name| cell(agent, number, name)).collect();
            let shows = !is_given || cells.iter().any(|cell| *cell != Cell::Null);
            shows.then_some((number, cells))
        };
        let types = types.into_iter().filter_map(plan).collect();
        Ok(Query { names, types, offset, count, is_typed: entity_type.is_some() })
    }

    /// Tables of which rows are wanted.
    pub fn tables(&self, agent: &Agent) -> Vec<Table> {
        let sources = self.types.iter().map(|(number, _)| agent.schema().get(*number).source);
        let mut tables: Vec<Table> = Vec::new();
        for table in sources.flat_map(tables_of) {
            if !tables.contains(table) {
                tables.push(*table);
            }
        }
        tables
    }

    /// Whether it goes on where an earlier one ended.
    pub fn is_continuation(&self) -> bool {
        self.offset > 0
    }

    /// Whether its answer may have more rows than are written at once.
    pub fn is_long(&self) -> bool {
        self.count > ROWS_AT_ONCE
    }
}

/// Tables that a type's rows come from.
fn tables_of(source: Source) -> &'static [Table] {
    match source {
        Source::Router | Source::Allocators => &[Table::Router, Table::Links],
        Source::Addresses => &[Table::Addresses],
        Source::Links => &[Table::Links],
        Source::Connections => &[Table::Connections],
        _ => &[],
    }
}

fn all_names<'a>(agent: &'a Agent, types: &[usize]) -> Vec<&'a str> {
    let mut names: Vec<&str> = types.iter().flat_map(|number| agent.shown(*number)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn position<R>(columns: &[Column<R>], name: &str) -> Option<usize> {
    columns.iter().position(|column| column.attribute.name == name)
}

fn cell(agent: &Agent, number: usize, name: &str) -> Cell {
    let kind = agent.schema().get(number);
    let column = match (name, kind.source) {
        ("name", _) => return Cell::Name,
        ("identity", _) => return Cell::Identity,
        ("type", _) => return Cell::Type,
        (_, Source::Router) => position(columns::ROUTER, name),
        (_, Source::Addresses) => position(columns::ADDRESS, name),
        (_, Source::Links) => position(columns::LINK, name),
        (_, Source::Connections) => position(columns::CONNECTION, name),
        (_, Source::Allocators) => position(columns::ALLOCATOR, name),
        (_, Source::LogCounts) => Level::ALL.iter().position(|(_, level)| name.strip_suffix("Count") == Some(level)),
        _ => None,
    };
    match (column, kind.source) {
        (Some(at), _) => Cell::Column(at),
        (None, Source::Stored | Source::Router) if kind.attribute(name).is_some() => Cell::Stored,
        _ => Cell::Null,
    }
}

/// Rows of one type.
enum Rows<'a> {
    Stored(Vec<&'a Entity>),
    Router(&'a Figures, Option<&'a Entity>),
    Addresses(&'a [AddressRow]),
    Links(&'a [LinkRow]),
    Connections(&'a [ConnectionRow]),
    LogCounts(&'a LogCounts),
    Allocators(Vec<Allocated>),
}

impl<'a> Rows<'a> {
    fn of(agent: &'a Agent, snapshot: &'a Snapshot, number: usize) -> Rows<'a> {
        match agent.schema().get(number).source {
            Source::Router => Rows::Router(&snapshot.router, agent.entities_of(number).next()),
            Source::Addresses => Rows::Addresses(&snapshot.addresses),
            Source::Links => Rows::Links(&snapshot.links),
            Source::Connections => Rows::Connections(&snapshot.connections),
            Source::LogCounts => Rows::LogCounts(&snapshot.log_counts),
            Source::Stored => Rows::Stored(agent.entities_of(number).collect()),
            Source::Allocators => Rows::Allocators(columns::allocated(&snapshot.router.row)),
            Source::Abstract => Rows::Stored(Vec::new()),
        }
    }

    fn len(&self) -> usize {
        match self {
            Rows::Stored(entities) => entities.len(),
            Rows::Router(..) => 1,
            Rows::Addresses(rows) => rows.len(),
            Rows::Links(rows) => rows.len(),
            Rows::Connections(rows) => rows.len(),
            Rows::LogCounts(rows) => rows.len(),
            Rows::Allocators(rows) => rows.len(),
        }
    }

    /// Writes one cell of row `at`. `long`: the type's name in front of identities, where types are mixed.
    fn put(&self, at: usize, cell: Cell, name: &str, agent: &Agent, number: usize, mixed: bool, out: &mut Out) {
        let kind = agent.schema().get(number);
        match cell {
            Cell::Null => return out.null(),
            Cell::Type => return out.text(&kind.long),
            _ => {}
        }
        let with_type = |out: &mut Out, identity: &str| match mixed {
            true => out.text(&format!("{}/{identity}", kind.short)),
            false => out.text(identity),
        };
        match (self, cell) {
            (Rows::Stored(entities), cell) => {
                let Some(entity) = entities.get(at) else { return out.null() };
                match cell {
                    Cell::Name => match &entity.name {
                        None if mixed => out.text(&entity.long_identity(kind)),
                        name => out.or_null(name.as_deref(), Out::text),
                    },
                    Cell::Identity if mixed => out.text(&entity.long_identity(kind)),
                    Cell::Identity => out.text(&entity.identity),
                    _ => entity.put(kind, name, out),
                }
            }
            (Rows::Router(figures, _), Cell::Name) => with_type(out, &figures.id),
            (Rows::Router(figures, _), Cell::Identity) => {
                with_type(out, if mixed { &figures.id } else { "1" });
            }
            (Rows::Router(figures, _), Cell::Column(column)) => (columns::ROUTER[column].put)(figures, out),
            (Rows::Router(_, entity), _) => match entity {
                Some(entity) => entity.put(kind, name, out),
                None => out.null(),
            },
            (Rows::Addresses(rows), Cell::Column(column)) => (columns::ADDRESS[column].put)(&rows[at], out),
            (Rows::Addresses(rows), _) => with_type(out, &rows[at].key),
            (Rows::Links(rows), Cell::Column(column)) => (columns::LINK[column].put)(&rows[at], out),
            (Rows::Links(rows), Cell::Name) if !mixed => out.text(&rows[at].name),
            (Rows::Links(rows), _) => with_type(out, &link_identity(&rows[at])),
            (Rows::Connections(rows), Cell::Column(column)) => (columns::CONNECTION[column].put)(&rows[at], out),
            (Rows::Connections(rows), Cell::Name) => out.text(&format!("connection/{}", rows[at].facts.host)),
            (Rows::Connections(rows), _) => out.text(&rows[at].number.to_string()),
            (Rows::LogCounts(rows), Cell::Column(level)) => out.ulong(rows[at].1.get(level).copied().unwrap_or(0)),
            (Rows::Allocators(rows), Cell::Column(column)) => (columns::ALLOCATOR[column].put)(&rows[at], out),
            (Rows::Allocators(rows), _) => out.text(&format!("allocator/{}", rows[at].kind)),
            (Rows::LogCounts(rows), _) => out.text(&format!("logStats/{}", rows[at].0.name())),
        }
    }
}

/// A link's identity: `[Ln]` of the log.
pub fn link_identity(row: &LinkRow) -> String {
    row.number.to_string()
}

/// Writes the answer to a query, some rows at a time.
pub struct Writer {
    query: Query,
    out: Out,
    body: Open,
    results: Open,
    /// The type that is being written, and its next row.
    at: (usize, usize),
    skipped: usize,
}

impl Writer {
    pub fn new(query: Query) -> Writer {
        let mut out = Out::default();
        let mut body = out.begin();
        out.text("attributeNames");
        out.list(&query.names, |out, name| out.text(name));
        out.text("results");
        body.count = 4;
        let results = out.begin();
        Writer { query, out, body, results, at: (0, 0), skipped: 0 }
    }

    /// Writes some more rows; false: these were the last.
    pub fn go_on(&mut self, agent: &Agent, snapshot: &Snapshot) -> bool {
        let query = &self.query;
        let mut left = ROWS_AT_ONCE;
        while let Some((number, cells)) = query.types.get(self.at.0) {
            let rows = Rows::of(agent, snapshot, *number);
            while self.at.1 < rows.len() {
                if self.results.count as usize == query.count {
                    return false;
                }
                if self.skipped < query.offset {
                    let skip = (query.offset - self.skipped).min(rows.len() - self.at.1);
                    (self.skipped, self.at.1) = (self.skipped + skip, self.at.1 + skip);
                    continue;
                }
                if left == 0 {
                    return true;
                }
                left -= 1;
                let at = self.at.1;
                self.at.1 += 1;
                self.out.list(cells.iter().zip(&query.names), |out, (cell, name)| {
                    rows.put(at, *cell, name, agent, *number, !query.is_typed, out)
                });
                self.results.count += 1;
            }
            self.at = (self.at.0 + 1, 0);
        }
        false
    }

    /// Bytes so far.
    pub fn bytes_len(&self) -> usize {
        self.out.bytes_len()
    }

    /// Whether there are as many rows as were asked for: then who asked may ask for those behind them.
    pub fn may_go_on(&self) -> bool {
        self.results.count as usize == self.query.count
    }

    pub fn finish(self) -> Response {
        let Writer { mut out, body, results, .. } = self;
        out.end_list(results);
        out.end_map(body);
        Response::ok(out)
    }
}

/// Which one row is wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wanted {
    Number(u64),
    /// A link's name.
    Name(String),
    /// An address's key.
    Key(String),
    /// There is but one.
    Only,
}

/// A READ of one row.
#[derive(Clone, Debug)]
pub struct RowRead {
    kind: usize,
    table: Option<Table>,
    pub wanted: Wanted,
    /// As the request named it.
    named: String,
}

impl RowRead {
    pub fn new(agent: &Agent, kind: usize, name: Option<&str>, identity: Option<&str>) -> Result<RowRead, Refusal> {
        let Some(named) = identity.or(name) else {
            let text = format!("{}: No name or identity provided", agent.schema().get(kind).long);
            return Err(refuse(Status::BadRequest, text));
        };
        let number = |text: &str| text.parse().map(Wanted::Number).unwrap_or(Wanted::Key(text.to_owned()));
        let (table, wanted) = match agent.schema().get(kind).source {
            Source::Addresses => (Some(Table::Addresses), Wanted::Key(named.to_owned())),
            Source::Links => (
                Some(Table::Links),
                match identity {
                    Some(identity) => number(identity),
                    None => Wanted::Name(named.to_owned()),
                },
            ),
            Source::Connections if identity.is_none() => {
                return Err(refuse(Status::BadRequest, "Name not supported. Identity required"));
            }
            Source::Connections => (Some(Table::Connections), number(named)),
            Source::Router => (Some(Table::Router), Wanted::Only),
            Source::Allocators => return Err(refuse(Status::NotFound, format!("No entity with {named}"))),
            _ => (None, Wanted::Key(named.to_owned())),
        };
        Ok(RowRead { kind, table, wanted, named: named.to_owned() })
    }

    /// Tables that the row is made of.
    pub fn tables(&self, agent: &Agent) -> &'static [Table] {
        tables_of(agent.schema().get(self.kind).source)
    }

    /// Leaves but the wanted row; whether it is there.
    pub fn narrow(&self, snapshot: &mut Snapshot) -> bool {
        let wanted = &self.wanted;
        match self.table {
            Some(Table::Addresses) => {
                let found = snapshot.addresses.iter().find(|row| matches!(wanted, Wanted::Key(key) if *key == row.key));
                snapshot.addresses = Rc::new(found.cloned().into_iter().collect());
                !snapshot.addresses.is_empty()
            }
            Some(Table::Links) => {
                let found = snapshot.links.iter().find(|row| match wanted {
                    Wanted::Number(number) => row.number == *number,
                    Wanted::Name(name) => row.name == *name,
                    _ => false,
                });
                snapshot.links = Rc::new(found.cloned().into_iter().collect());
                !snapshot.links.is_empty()
            }
            Some(Table::Connections) => {
                let is_it = |row: &&ConnectionRow| matches!(wanted, Wanted::Number(number) if *number == row.number);
                let found = snapshot.connections.iter().find(is_it);
                snapshot.connections = Rc::new(found.cloned().into_iter().collect());
                !snapshot.connections.is_empty()
            }
            Some(Table::Router) => {
                let id = &snapshot.router.id;
                self.named == "1" || self.named == *id || self.named == format!("router/{id}")
            }
            None => {
                snapshot.log_counts.retain(|(module, _)| self.named == format!("logStats/{}", module.name()));
                !snapshot.log_counts.is_empty()
            }
        }
    }

    /// The answer, from what `narrow` left.
    pub fn answer(&self, agent: &Agent, snapshot: &Snapshot) -> Response {
        let rows = Rows::of(agent, snapshot, self.kind);
        let names = agent.shown(self.kind);
        let cells: Vec<Cell> = names.iter().map(|name| cell(agent, self.kind, name)).collect();
        let mut out = Out::default();
        out.map(names.iter().zip(&cells).map(|(name, cell)| (name, (*name, *cell))), |out, (name, cell)| {
            rows.put(0, cell, name, agent, self.kind, false, out)
        });
        Response::ok(out)
    }

    pub fn not_found(&self) -> Response {
        refuse(Status::NotFound, format!("No entity with {}", self.named))
    }
}

/// One line of the log.
pub struct LogLine<'l> {
    pub module: Module,
    pub level: Level,
    pub text: &'l str,
    pub file: &'l str,
    pub line: u32,
    /// Seconds since 1970.
    pub at: i64,
}

/// The answer to GET-LOG.
pub fn log_lines<'l>(lines: impl Iterator<Item = LogLine<'l>>) -> Response {
    let mut out = Out::default();
    out.list(lines, |out, line| {
        let mut list = out.begin();
        out.text(line.module.name());
        out.text(line.level.name());
        out.text(line.text);
        out.text(line.file);
        out.long(line.line.into());
        out.long(line.at);
        list.count = 6;
        out.end_list(list);
    });
    Response::ok(out)
}

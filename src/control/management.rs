//! Requests of management, from a shard's mailbox to its answer: each in a task of its own, so that none waits for another's
//! rows, but where there are many: those answers take turns, so that few are here at a time.

use super::change::{self, Listeners};
use super::http::Http;
use super::kept::{self, Kept, Requester};
use super::report::Reporter;
use super::shards::{Collected, Shards};
use super::{settings, ControlError};
use crate::config::Config;
use crate::dispatch::{Answer, Request, Table};
use crate::log::{Level, Module};
use crate::management::{
    self, Agent, Envelope, Figures, LogLine, Query, Received, Response, RowRead, Snapshot, Status, Step, Writer,
};
use crate::memory::Memory;
use crate::routing::AddressRules;
use crate::shard::Order;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Instant, UNIX_EPOCH};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Answers to queries that ask for many rows, or for all, are written for so many requesters at once: each holds all of its
/// rows meanwhile, and what it has written.
const LONG_ANSWERS_AT_ONCE: usize = 4;

pub struct Management {
    pub(super) agent: RefCell<Agent>,
    pub(super) shards: Rc<Shards>,
    pub(super) reporter: Rc<RefCell<Reporter>>,
    pub(super) http: Rc<Http>,
    pub(super) listeners: RefCell<Listeners>,
    /// The rules that every shard has.
    pub(super) rules: RefCell<AddressRules>,
    /// Some rule, or some request, has given addresses marks.
    pub(super) uses_marks: Cell<bool>,
    figures: Figures,
    started: Instant,
    /// What requesters that read in parts were shown first.
    kept: RefCell<Kept>,
    memory: Arc<Memory>,
    long_answers: Semaphore,
}

/// What is known at the start.
pub struct Known {
    agent: Agent,
    figures: Figures,
    listeners: Listeners,
    rules: AddressRules,
}

impl Known {
    /// `figures`: those that stay as they are.
    pub fn new(config: &Config, figures: Figures, listeners: Listeners) -> Result<Known, ControlError> {
        let rules = settings::rules(config)?;
        Ok(Known { agent: Agent::new(config, &figures), figures, listeners, rules })
    }
}

impl Management {
    pub fn new(known: Known, shards: Rc<Shards>, reporter: Rc<RefCell<Reporter>>, http: Rc<Http>) -> Rc<Management> {
        let Known { agent, figures, listeners, rules } = known;
        let uses_marks = rules.rules().any(change::has_marks);
        let memory = listeners.memory().clone();
        Rc::new(Management {
            agent: RefCell::new(agent),
            shards,
            reporter,
            http,
            listeners: RefCell::new(listeners),
            rules: RefCell::new(rules),
            uses_marks: Cell::new(uses_marks),
            figures,
            started: Instant::now(),
            kept: RefCell::new(Kept::new(memory.clone())),
            memory,
            long_answers: Semaphore::new(LONG_ANSWERS_AT_ONCE),
        })
    }

    /// A shard brought a request.
    pub fn request(self: &Rc<Self>, request: Request) {
        tokio_uring::spawn(answer(self.clone(), request));
    }

    /// `held`: what the answer takes, until a shard has it.
    async fn respond<'m>(
        self: &'m Rc<Self>,
        requester: Requester,
        request: &management::Request,
        held: &mut Held<'m>,
    ) -> Response {
        let step = self.agent.borrow_mut().begin(request);
        match step {
            Step::Answer(response) => response,
            Step::Query(query) => self.query(requester, query, held).await,
            Step::Read(read) => self.read(&read).await,
            Step::Change(change) => self.change(change).await,
            Step::ChangeRow(change) => self.change_row(change).await,
            Step::Log(limit) => self.log_lines(limit),
        }
    }

    async fn read(&self, read: &RowRead) -> Response {
        let tables = read.tables(&self.agent.borrow());
        let mut snapshot = self.snapshot(tables).await;
        match read.narrow(&mut snapshot) {
            true => read.answer(&self.agent.borrow(), &snapshot),
            false => read.not_found(),
        }
    }

    /// The latest lines of the log.
    fn log_lines(&self, limit: usize) -> Response {
        let mut reporter = self.reporter.borrow_mut();
        let recent = reporter.log().recent();
        let skipped = recent.len().saturating_sub(limit);
        management::log_lines(recent.skip(skipped).map(|entry| LogLine {
            module: entry.module,
            level: entry.level,
            text: &entry.text,
            file: entry.file,
            line: entry.line,
            at: entry.at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as i64,
        }))
    }

    async fn query<'m>(self: &'m Rc<Self>, requester: Requester, query: Query, held: &mut Held<'m>) -> Response {
        let tables = query.tables(&self.agent.borrow());
        let known = query.is_continuation().then(|| self.kept.borrow_mut().of(requester, &tables)).flatten();
        if query.is_long() && !tables.is_empty() {
            held.turn = self.long_answers.acquire().await.ok();
        }
        let is_known = known.is_some();
        let snapshot = match known {
            Some(snapshot) => snapshot,
            None => self.snapshot(&tables).await,
        };
        let mut writer = Writer::new(query);
        while writer.go_on(&self.agent.borrow(), &snapshot) {
            held.set(writer.bytes_len());
            // No request is taken while it is; an answer of many rows may make it so by itself.
            if self.memory.is_full() {
                return Response::error(
                    Status::InternalError,
                    "The answer takes too much memory. Ask for fewer, by count.",
                );
            }
            tokio::task::yield_now().await;
        }
        if !writer.may_go_on() {
            self.kept.borrow_mut().forget(requester);
        } else if !is_known && !tables.is_empty() {
            self.keep(requester, tables, snapshot);
        }
        writer.finish()
    }

    fn keep(self: &Rc<Self>, requester: Requester, tables: Vec<Table>, snapshot: Snapshot) {
        let mut kept = self.kept.borrow_mut();
        kept.keep(requester, tables, snapshot);
        if !kept.is_empty() && !std::mem::replace(&mut kept.is_watched, true) {
            tokio_uring::spawn(forget(self.clone()));
        }
    }

    /// Rows of these tables, and what control knows itself.
    pub(super) async fn snapshot(&self, tables: &[Table]) -> Snapshot {
        let mut snapshot = Snapshot { router: self.figures.clone(), ..Snapshot::default() };
        for table in tables {
            match self.shards.collect(*table).await {
                Some(Collected::Router(row)) => snapshot.router.row = (*row).clone(),
                Some(Collected::Links(rows)) => snapshot.links = rows,
                Some(Collected::Addresses(rows)) => snapshot.addresses = rows,
                Some(Collected::Connections(rows)) => snapshot.connections = rows,
                None => {}
            }
        }
        // Where the rows are at hand, the counts are theirs.
        let row = &mut snapshot.router.row;
        if tables.contains(&Table::Addresses) {
            (row.addresses, row.served_addresses) = (snapshot.addresses.len() as u64, 0);
        }
        if tables.contains(&Table::Links) {
            row.links = snapshot.links.len() as u64;
            let blocked = snapshot.links.iter().filter(|row| row.routing.is_blocked());
            snapshot.router.links_blocked = blocked.count() as u64;
        }
        if tables.contains(&Table::Connections) {
            row.connections = snapshot.connections.len() as u64;
        }
        snapshot.router.uptime_seconds = self.started.elapsed().as_secs() as u32;
        snapshot.router.memory_bytes = super::http::memory_bytes(0);
        snapshot.router.resident_bytes = super::http::memory_bytes(1);
        snapshot.log_counts = self.reporter.borrow_mut().log().all_counts();
        snapshot
    }

    fn log(&self, level: Level, text: std::fmt::Arguments<'_>) {
        self.reporter.borrow_mut().log().write(Module::Agent, level, text);
    }
}

/// What an answer takes, as it counts in the account of memory, and its turn where it is a long one.
struct Held<'m> {
    memory: &'m Memory,
    bytes: usize,
    turn: Option<SemaphorePermit<'m>>,
}

impl Held<'_> {
    fn set(&mut self, bytes: usize) {
        self.memory.changed(self.bytes, bytes);
        self.bytes = bytes;
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// Lets go of rows whose requester asks for no more of them, until there are none.
async fn forget(management: Rc<Management>) {
    loop {
        tokio::time::sleep(kept::KEPT).await;
        let mut kept = management.kept.borrow_mut();
        kept.forget_old();
        if kept.is_empty() {
            kept.is_watched = false;
            return;
        }
    }
}

/// Answers one request.
async fn answer(management: Rc<Management>, request: Request) {
    let Request { shard, link, connection, address, message } = request;
    let mut held = Held { memory: &management.memory, bytes: 0, turn: None };
    let reply = match management::Request::read(&message) {
        Received::Unanswerable => {
            management.log(Level::Debug, format_args!("[C{connection}] Request without reply-to"));
            None
        }
        Received::Bad(envelope, text) => {
            management.log(Level::Error, format_args!("[C{connection}] Error performing a request: {text}"));
            Some((envelope, Response::error(Status::BadRequest, text)))
        }
        Received::Request(envelope, request) => {
            management.log(Level::Debug, format_args!("[C{connection}] Agent request {request}"));
            let response = management.respond((shard, link), &request, &mut held).await;
            if response.is_error() {
                let operation = request.text("operation").unwrap_or("a request");
                management.log(Level::Error, format_args!("Error performing {operation}: {}", response.description));
            }
            Some((envelope, response))
        }
    };
    let reply = reply.map(|(envelope, response)| seal(&envelope, &response));
    held.set(reply.as_ref().map_or(0, |(_, message)| message.len()));
    management.shards.order(usize::from(shard.0), Order::Answer(Answer { connection, address, reply })).await;
}

fn seal(envelope: &Envelope, response: &Response) -> (Box<str>, Vec<u8>) {
    (envelope.reply_to.clone(), envelope.seal(response))
}

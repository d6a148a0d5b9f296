//! Requests of management, from a shard's mailbox to its answer: each in a task of its own, so that none waits for another's
//! rows.

use super::report::Reporter;
use super::shards::{Collected, Shards};
use crate::dispatch::{Answer, Request, Table};
use crate::ids::{LinkId, ShardId};
use crate::log::{Level, Module};
use crate::management::{self, Agent, Envelope, Figures, Query, Received, Response, Snapshot, Status, Step, Writer};
use crate::payload::Owned;
use crate::shard::Order;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How long rows are kept for a requester that reads them in parts, and for how many requesters.
const KEPT: Duration = Duration::from_secs(10);
const KEPT_MAX: usize = 16;

/// The requester's shard and link.
type Requester = (ShardId, LinkId);

pub struct Management {
    agent: RefCell<Agent>,
    shards: Rc<Shards>,
    reporter: Rc<RefCell<Reporter>>,
    figures: Figures,
    started: Instant,
    /// What requesters that read in parts were shown first.
    kept: RefCell<HashMap<Requester, Kept>>,
}

struct Kept {
    used: Instant,
    tables: Vec<Table>,
    snapshot: Snapshot,
}

impl Management {
    /// `figures`: those that stay as they are.
    pub fn new(
        agent: Agent,
        shards: Rc<Shards>,
        reporter: Rc<RefCell<Reporter>>,
        figures: Figures,
        started: Instant,
    ) -> Rc<Management> {
        let kept = RefCell::default();
        Rc::new(Management { agent: RefCell::new(agent), shards, reporter, figures, started, kept })
    }

    /// A shard brought a request.
    pub fn request(self: &Rc<Self>, request: Request) {
        tokio_uring::spawn(answer(self.clone(), request));
    }

    async fn respond(&self, requester: Requester, request: &management::Request) -> Response {
        let step = self.agent.borrow_mut().begin(request);
        match step {
            Step::Answer(response) => response,
            Step::Query(query) => self.query(requester, query).await,
        }
    }

    async fn query(&self, requester: Requester, query: Query) -> Response {
        let tables = query.tables(&self.agent.borrow());
        let snapshot = match self.kept_for(requester, &query, &tables) {
            Some(snapshot) => snapshot,
            None => {
                let snapshot = self.snapshot(&tables).await;
                self.keep(requester, tables, &snapshot);
                snapshot
            }
        };
        let mut writer = Writer::new(query);
        loop {
            let goes_on = writer.go_on(&self.agent.borrow(), &snapshot);
            if !goes_on {
                return writer.finish();
            }
            tokio::task::yield_now().await;
        }
    }

    /// The rows that this requester was shown the begin of.
    fn kept_for(&self, requester: Requester, query: &Query, tables: &[Table]) -> Option<Snapshot> {
        let mut kept = self.kept.borrow_mut();
        if !query.is_continuation() {
            return None;
        }
        let known = kept.get_mut(&requester)?;
        let now = Instant::now();
        if known.tables != tables || now - known.used > KEPT {
            return None;
        }
        known.used = now;
        Some(known.snapshot.clone())
    }

    fn keep(&self, requester: Requester, tables: Vec<Table>, snapshot: &Snapshot) {
        let mut kept = self.kept.borrow_mut();
        let used = Instant::now();
        kept.retain(|_, known| used - known.used <= KEPT);
        if kept.len() >= KEPT_MAX {
            let oldest = kept.iter().min_by_key(|(_, known)| known.used).map(|(requester, _)| *requester);
            oldest.and_then(|oldest| kept.remove(&oldest));
        }
        kept.insert(requester, Kept { used, tables, snapshot: snapshot.clone() });
    }

    /// Rows of these tables, and what control knows itself.
    async fn snapshot(&self, tables: &[Table]) -> Snapshot {
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
        }
        if tables.contains(&Table::Connections) {
            row.connections = snapshot.connections.len() as u64;
        }
        snapshot.router.uptime_seconds = self.started.elapsed().as_secs() as u32;
        snapshot.router.memory_bytes = memory_bytes();
        snapshot.log_counts = self.reporter.borrow_mut().log().all_counts();
        snapshot
    }

    fn log(&self, level: Level, text: std::fmt::Arguments<'_>) {
        self.reporter.borrow_mut().log().write(Module::Agent, level, text);
    }
}

/// Answers one request.
async fn answer(management: Rc<Management>, request: Request) {
    let Request { shard, requester, connection, address, message, is_cut } = request;
    let reply = match management::Request::read(&message, is_cut) {
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
            let response = management.respond((shard, requester), &request).await;
            if response.is_error() {
                let operation = request.text("operation").unwrap_or("a request");
                management.log(Level::Error, format_args!("Error performing {operation}: {}", response.description));
            }
            Some((envelope, response))
        }
    };
    let reply = reply.map(|(envelope, response)| seal(&envelope, &response));
    management.shards.order(usize::from(shard.0), Order::Answer(Answer { requester, address, reply })).await;
}

fn seal(envelope: &Envelope, response: &Response) -> (Box<str>, Owned) {
    (envelope.reply_to.clone(), Owned::copied(&envelope.seal(response)))
}

/// Virtual memory of this process.
fn memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().next()?.parse().ok()?;
    // SAFETY: no pointers.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    Some(pages * u64::try_from(page_bytes).ok()?)
}

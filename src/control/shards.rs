//! The shards as control asks them: each question in an order, its answer awaited.
//!
//! Whoever awaits an answer holds nothing up: the reader of reports passes it on. A shard that has ended answers nothing any
//! more; then there is none.

use crate::dispatch::{ConnectionRow, LinkRow, Page, RouterRow, Rows, Table};
use crate::routing::AddressRow;
use crate::shard::{Change, Mailbox, Order, PAGES_MAX};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{oneshot, Semaphore};

/// When a full queue is offered an order again.
const RETRY: Duration = Duration::from_millis(1);

/// One shard's line.
struct Line {
    mailbox: Arc<Mailbox>,
    /// Who waits for pages, in the order in which they were asked for.
    pages: RefCell<VecDeque<oneshot::Sender<Page>>>,
    pages_free: Semaphore,
}

/// All rows of a table, of all shards, at about one time.
#[derive(Clone)]
pub enum Collected {
    Router(Rc<RouterRow>),
    Links(Rc<Vec<LinkRow>>),
    Addresses(Rc<Vec<AddressRow>>),
    Connections(Rc<Vec<ConnectionRow>>),
}

#[derive(Default)]
struct Collector {
    waiting: RefCell<Vec<oneshot::Sender<Collected>>>,
    is_running: Cell<bool>,
}

pub struct Shards {
    lines: Vec<Line>,
    /// Who waits for changes, by their tickets.
    changes: RefCell<HashMap<u64, oneshot::Sender<bool>>>,
    next_ticket: Cell<u64>,
    /// A table each.
    collectors: [Collector; TABLES],
}

const TABLES: usize = 4;

impl Shards {
    pub fn new(mailboxes: impl IntoIterator<Item = Arc<Mailbox>>) -> Rc<Shards> {
        let line = |mailbox| Line { mailbox, pages: RefCell::default(), pages_free: Semaphore::new(PAGES_MAX) };
        let lines = mailboxes.into_iter().map(line).collect();
        Rc::new(Shards {
            lines,
            changes: RefCell::default(),
            next_ticket: Cell::new(0),
            collectors: Default::default(),
        })
    }

    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Takes the pages that shards answered with.
    pub fn take_pages(&self) {
        for line in &self.lines {
            while let Some(page) = line.mailbox.poll_page() {
                if let Some(waiting) = line.pages.borrow_mut().pop_front() {
                    let _ = waiting.send(page);
                }
            }
        }
    }

    /// A shard made a change, or couldn't.
    pub fn done(&self, ticket: u64, done: bool) {
        if let Some(waiting) = self.changes.borrow_mut().remove(&ticket) {
            let _ = waiting.send(done);
        }
    }

    /// Gives an order, when there is room for it.
    pub async fn order(&self, shard: usize, mut order: Order) {
        let Some(line) = self.lines.get(shard) else { return };
        while let Err(back) = line.mailbox.order(order) {
            order = back;
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Gives all shards the same order.
    pub async fn order_all(&self, order: impl Fn() -> Order) {
        for shard in 0..self.len() {
            self.order(shard, order()).await;
        }
    }

    async fn page(&self, shard: usize, table: Table, from: u32) -> Option<Page> {
        let line = self.lines.get(shard)?;
        let free = line.pages_free.acquire().await.ok()?;
        let (sender, receiver) = oneshot::channel();
        let mut order = Order::Page { table, from };
        // No await between an order that is taken and its place in the list: answers come in that order.
        while let Err(back) = line.mailbox.order(order) {
            order = back;
            tokio::time::sleep(RETRY).await;
        }
        line.pages.borrow_mut().push_back(sender);
        let page = receiver.await.ok();
        drop(free);
        page
    }

    /// Has a shard make a change; whether it could.
    pub async fn change(&self, shard: usize, change: Change) -> bool {
        let ticket = self.next_ticket.replace(self.next_ticket.get() + 1);
        let (sender, receiver) = oneshot::channel();
        self.changes.borrow_mut().insert(ticket, sender);
        self.order(shard, Order::Change { ticket, change }).await;
        receiver.await.unwrap_or(false)
    }

    /// Has every shard make a change; whether any could.
    pub async fn change_all(&self, change: impl Fn() -> Change) -> bool {
        let mut any = false;
        for shard in 0..self.len() {
            any |= self.change(shard, change()).await;
        }
        any
    }

    /// All rows of a table as they are now or a little later: who asks while rows are being collected gets the next lot,
    /// together with all others who do.
    pub async fn collect(self: &Rc<Shards>, table: Table) -> Option<Collected> {
        let (sender, receiver) = oneshot::channel();
        let collector = &self.collectors[table as usize];
        collector.waiting.borrow_mut().push(sender);
        if !collector.is_running.replace(true) {
            tokio_uring::spawn(run(self.clone(), table));
        }
        receiver.await.ok()
    }

    async fn all_rows(&self, table: Table) -> Collected {
        let mut all = match table {
            Table::Router => Rows::Router(Box::default()),
            Table::Links => Rows::Links(Vec::new()),
            Table::Addresses => Rows::Addresses(Vec::new()),
            Table::Connections => Rows::Connections(Vec::new()),
        };
        for shard in 0..self.len() {
            let mut from = Some(0);
            while let Some(at) = from {
                let Some(Page { rows, next }) = self.page(shard, table, at).await else { break };
                add(&mut all, rows);
                from = next;
            }
        }
        match all {
            Rows::Router(row) => Collected::Router(Rc::from(row)),
            Rows::Links(rows) => Collected::Links(rows.into()),
            Rows::Addresses(mut rows) => {
                merge_served(&mut rows);
                Collected::Addresses(rows.into())
            }
            Rows::Connections(mut rows) => {
                rows.sort_unstable_by_key(|row| row.number);
                Collected::Connections(rows.into())
            }
        }
    }
}

/// Collects for those who wait, until nobody does.
async fn run(shards: Rc<Shards>, table: Table) {
    let collector = &shards.collectors[table as usize];
    loop {
        let waiting = collector.waiting.take();
        if waiting.is_empty() {
            collector.is_running.set(false);
            return;
        }
        let rows = shards.all_rows(table).await;
        for one in waiting {
            let _ = one.send(rows.clone());
        }
    }
}

fn add(all: &mut Rows, more: Rows) {
    match (all, more) {
        (Rows::Router(all), Rows::Router(more)) => all.add(&more),
        (Rows::Links(all), Rows::Links(more)) => all.extend(more),
        (Rows::Addresses(all), Rows::Addresses(more)) => all.extend(more),
        (Rows::Connections(all), Rows::Connections(more)) => all.extend(more),
        _ => debug_assert!(false, "rows of another table"),
    }
}

/// Addresses that the router serves itself are on every shard: they are one.
fn merge_served(rows: &mut Vec<AddressRow>) {
    let mut first: HashMap<String, usize> = HashMap::new();
    let mut at = 0;
    while at < rows.len() {
        if rows[at].in_process == 0 {
            at += 1;
            continue;
        }
        match first.get(&rows[at].key).copied() {
            None => {
                first.insert(rows[at].key.clone(), at);
                at += 1;
            }
            Some(known) => {
                let other = rows.remove(at);
                rows[known].counters.add(&other.counters);
                rows[known].senders += other.senders;
            }
        }
    }
}

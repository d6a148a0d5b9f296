//! What control and a shard say to each other: orders one way, reports the other.
//!
//! Bounded lock-free queues with an eventfd each: orders for each shard, and one of reports for all of them, so that what two
//! shards tell of a connection that moved comes in its order. Orders are never lost: a full queue gives the order back.
//! A report that finds its queue full is dropped and counted; nothing that must not be lost is a report only (that
//! a shard stopped is also its thread's result).

use crate::dispatch;
use crate::ids::{LinkId, ShardId};
use crate::routing;
use crate::shard::Listener;
use crate::telemetry::Counters;
use crossbeam_queue::ArrayQueue;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

const ORDERS_MAX: usize = 256;
const REPORTS_MAX: usize = 4096;
/// Pages that control may ask a shard for before it has taken the answers: so many always have room.
pub const PAGES_MAX: usize = 4;

/// What control wants of a shard.
pub enum Order {
    /// Accept on one more socket.
    AddListener(Listener),
    /// No more accepts there; its connections live on.
    RemoveListener { number: u32 },
    /// Report every frame, of connections that are open and of those to come.
    SetTrace(bool),
    /// An edge, of any shard, for this one's subscribers. `timestamp`: milliseconds since 1970.
    Publish { address: Box<str>, edge: routing::Edge, timestamp: i64 },
    /// The next request of this requester's may come, and the reply goes where it says.
    Answer(dispatch::Answer),
    /// Answer with `Report::Done`.
    Change { ticket: u64, change: Change },
    /// Answer with `Report::Counters`.
    ReportCounters,
    /// Answer with a page of a table, from `from` on. At most [`PAGES_MAX`] of them unanswered.
    Page { table: dispatch::Table, from: u32 },
    /// The orderly end: accepts stop, connections are closed with `amqp:connection:forced`, the thread ends.
    Stop,
}

/// What is changed in a shard at run time.
#[derive(Debug)]
pub enum Change {
    AddRule(Box<routing::AddressRule>),
    RemoveRule(routing::AddressMatch),
    /// Marks of an address that is there, for as long as it is.
    SetAlerts {
        address: Box<str>,
        count: Option<routing::Marks>,
        size: Option<routing::Marks>,
    },
    /// By its number.
    CloseConnection(u64),
    DetachLink(LinkId),
    TraceConnection {
        number: u64,
        on: bool,
    },
}

/// What a shard lets control know. Facts, not text: control words and writes them.
#[derive(Debug)]
pub enum Report {
    ConnectionAccepted {
        connection: u64,
        listener: u32,
        peer: Option<SocketAddr>,
    },
    /// What dispatch has to say of connections and links.
    Served(dispatch::Report),
    /// An address's depth reached a mark of its alerts.
    ThresholdCrossed {
        address: Box<str>,
        edge: routing::Edge,
    },
    /// A request to management. Kept by the shard until control's queue takes it, as is the next one.
    Request(dispatch::Request),
    /// A change is made, or it couldn't be: what it is about isn't here.
    Done {
        ticket: u64,
        done: bool,
    },
    /// Accepting failed (`errno`) and is tried again in a while.
    AcceptPaused {
        listener: u32,
        errno: i32,
    },
    Counters {
        shard: ShardId,
        counters: Box<Counters>,
    },
    Stopped {
        shard: ShardId,
    },
}

/// What all shards report.
pub struct Reports {
    queue: ArrayQueue<Report>,
    /// Rung when reports or pages were put in.
    bell: OwnedFd,
    /// Whether the bell was rung and not yet heard.
    rung: AtomicBool,
}

/// One shard's queues, shared by both sides.
pub struct Mailbox {
    orders: ArrayQueue<Order>,
    /// Rung when orders were put in; the shard reads it in its ring.
    orders_bell: OwnedFd,
    pages: ArrayQueue<dispatch::Page>,
    reports: Arc<Reports>,
}

fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made, nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn ring_bell(bell: &OwnedFd) {
    let one = 1u64.to_ne_bytes();
    // SAFETY: eight readable bytes. It can't fail but for a counter at its end, and then the bell is rung already.
    unsafe { libc::write(bell.as_raw_fd(), one.as_ptr().cast(), one.len()) };
}

impl Reports {
    pub fn new() -> io::Result<Arc<Reports>> {
        let (queue, bell) = (ArrayQueue::new(REPORTS_MAX), eventfd()?);
        Ok(Arc::new(Reports { queue, bell, rung: AtomicBool::new(false) }))
    }

    /// Becomes readable (eight bytes, a counter) when there are reports or pages. Blocking: read it in a ring or a poll. Then
    /// say `heard`, then take all there are.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// What is put in from now on rings again.
    pub fn heard(&self) {
        self.rung.store(false, Ordering::SeqCst);
    }

    pub fn poll(&self) -> Option<Report> {
        self.queue.pop()
    }

    /// Rings the bell, unless that was done and not yet heard.
    pub fn ring(&self) {
        if !self.rung.swap(true, Ordering::SeqCst) {
            ring_bell(&self.bell);
        }
    }
}

impl Mailbox {
    /// `reports`: the one queue of all shards.
    pub fn new(reports: Arc<Reports>) -> io::Result<Arc<Mailbox>> {
        Ok(Arc::new(Mailbox {
            orders: ArrayQueue::new(ORDERS_MAX),
            orders_bell: eventfd()?,
            pages: ArrayQueue::new(PAGES_MAX),
            reports,
        }))
    }

    /// Control's side: gives the order back where the shard is that far behind.
    pub fn order(&self, order: Order) -> Result<(), Order> {
        let result = self.orders.push(order);
        ring_bell(&self.orders_bell);
        result
    }

    /// Control's side: the answer to the oldest order for a page.
    pub fn poll_page(&self) -> Option<dispatch::Page> {
        self.pages.pop()
    }

    /// What this shard and the others report.
    pub fn reports(&self) -> &Arc<Reports> {
        &self.reports
    }

    /// The shard's side.
    pub(super) fn orders_bell(&self) -> BorrowedFd<'_> {
        self.orders_bell.as_fd()
    }

    pub(super) fn poll_order(&self) -> Option<Order> {
        self.orders.pop()
    }

    /// The shard's side: false when the queue is full and the report is lost.
    pub(super) fn report(&self, report: Report) -> bool {
        self.try_report(report).is_ok()
    }

    /// The shard's side: gives the report back when the queue is full.
    pub(super) fn try_report(&self, report: Report) -> Result<(), Report> {
        let result = self.reports.queue.push(report);
        self.reports.ring();
        result
    }

    /// The shard's side: the answer to an order for a page. There is room, where control keeps to [`PAGES_MAX`].
    pub(super) fn answer(&self, page: dispatch::Page) {
        let taken = self.pages.push(page).is_ok();
        debug_assert!(taken, "more pages were asked for than there is room for");
        self.reports.ring();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_loses_reports_and_keeps_orders() {
        let reports = Reports::new().unwrap();
        let mailbox = Mailbox::new(reports.clone()).unwrap();
        let stopped = || Report::Stopped { shard: ShardId(0) };
        for _ in 0..REPORTS_MAX {
            assert!(mailbox.report(stopped()));
        }
        assert!(!mailbox.report(stopped()));
        assert_eq!(std::iter::from_fn(|| reports.poll()).count(), REPORTS_MAX);
        for _ in 0..ORDERS_MAX {
            assert!(mailbox.order(Order::SetTrace(true)).is_ok());
        }
        assert!(matches!(mailbox.order(Order::Stop), Err(Order::Stop)));
        assert_eq!(std::iter::from_fn(|| mailbox.poll_order()).count(), ORDERS_MAX);
        assert!(mailbox.order(Order::Stop).is_ok());
    }
}

//! What control and a shard say to each other: orders one way, reports the other.
//!
//! Two bounded lock-free queues with an eventfd each. Orders are never lost: a full queue gives the order back.
//! A report that finds its queue full is dropped and counted; nothing that must not be lost is a report only (that
//! a shard stopped is also its thread's result).

use crate::dispatch;
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
    /// Report every frame of this connection, or none.
    SetConnectionTrace { connection: u64, on: bool },
    /// An edge, of any shard, for this one's subscribers. `timestamp`: milliseconds since 1970.
    Publish { address: Box<str>, edge: routing::Edge, timestamp: i64 },
    /// Answer with `Report::Counters`.
    ReportCounters,
    /// Answer with a page of a table, from `from` on. At most [`PAGES_MAX`] of them unanswered.
    Page { table: dispatch::Table, from: u32 },
    /// The orderly end: accepts stop, connections are closed with `amqp:connection:forced`, the thread ends.
    Stop,
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
    /// Accepting failed (`errno`) and is tried again in a while.
    AcceptPaused {
        listener: u32,
        errno: i32,
    },
    Counters(Box<Counters>),
    Stopped,
}

/// The two queues, shared by both sides.
pub struct Mailbox {
    orders: ArrayQueue<Order>,
    reports: ArrayQueue<Report>,
    pages: ArrayQueue<dispatch::Page>,
    /// Rung when orders were put in; the shard reads it in its ring.
    orders_bell: OwnedFd,
    /// Rung when reports or pages were put in.
    reports_bell: OwnedFd,
    /// Whether the reports' bell was rung and not yet heard.
    reports_rung: AtomicBool,
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

impl Mailbox {
    pub fn new() -> io::Result<Arc<Mailbox>> {
        Ok(Arc::new(Mailbox {
            orders: ArrayQueue::new(ORDERS_MAX),
            reports: ArrayQueue::new(REPORTS_MAX),
            pages: ArrayQueue::new(PAGES_MAX),
            orders_bell: eventfd()?,
            reports_bell: eventfd()?,
            reports_rung: AtomicBool::new(false),
        }))
    }

    /// Control's side: gives the order back where the shard is that far behind.
    pub fn order(&self, order: Order) -> Result<(), Order> {
        let result = self.orders.push(order);
        ring_bell(&self.orders_bell);
        result
    }

    /// Control's side: the next report. Read `reports_bell` first, then take all there are.
    pub fn poll_report(&self) -> Option<Report> {
        if let Some(report) = self.reports.pop() {
            return Some(report);
        }
        // Empty: the next report rings again. One may have come between: look once more.
        self.reports_rung.store(false, Ordering::SeqCst);
        self.reports.pop()
    }

    /// Control's side: the answer to the oldest order for a page. To be looked at before the reports, whose being empty
    /// lets the bell be rung again.
    pub fn poll_page(&self) -> Option<dispatch::Page> {
        self.pages.pop()
    }

    /// Becomes readable (eight bytes, a counter) when there are reports. Blocking: read it in a ring or a poll.
    pub fn reports_bell(&self) -> BorrowedFd<'_> {
        self.reports_bell.as_fd()
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
        let taken = self.reports.push(report).is_ok();
        self.ring_reports();
        taken
    }

    /// The shard's side: the answer to an order for a page. There is room, where control keeps to [`PAGES_MAX`].
    pub(super) fn answer(&self, page: dispatch::Page) {
        let taken = self.pages.push(page).is_ok();
        debug_assert!(taken, "more pages were asked for than there is room for");
        self.ring_reports();
    }

    fn ring_reports(&self) {
        if !self.reports_rung.swap(true, Ordering::SeqCst) {
            ring_bell(&self.reports_bell);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_loses_reports_and_keeps_orders() {
        let mailbox = Mailbox::new().unwrap();
        for _ in 0..REPORTS_MAX {
            assert!(mailbox.report(Report::Stopped));
        }
        assert!(!mailbox.report(Report::Stopped));
        assert_eq!(std::iter::from_fn(|| mailbox.poll_report()).count(), REPORTS_MAX);
        for _ in 0..ORDERS_MAX {
            assert!(mailbox.order(Order::SetTrace(true)).is_ok());
        }
        assert!(matches!(mailbox.order(Order::Stop), Err(Order::Stop)));
        assert_eq!(std::iter::from_fn(|| mailbox.poll_order()).count(), ORDERS_MAX);
        assert!(mailbox.order(Order::Stop).is_ok());
    }
}

//! Requests to the router itself: what peers send to the addresses of management, on its way to control, and control's
//! answers on theirs to whoever asked.
//!
//! Owns: requests that arrived and that control hasn't taken, and for each requester what it has outstanding.
//! Doesn't: read a request (control does), know links beyond their ids, wait for anything.
//! Driven by: [`super::Dispatch`]. The router consumes from the addresses like any other consumer, by credit: what control is
//! too slow for waits at the senders.
//!
//! Invariants:
//! - A request is accepted when control has it, and is never lost before. Each gets one answer of control, which gives the
//!   credit back.
//! - Control has one request of a requester's at a time, so a requester's are answered in their order.
//! - Requests that wait, and answers that nobody takes, are bounded in number and bytes. A requester that doesn't take its
//!   answers has its requests rejected.

use crate::ids::{DeliveryId, LinkHandle, LinkId, SessionNumber, ShardId, WireDelivery};
use crate::payload::{Owned, Payload};
use std::collections::{BTreeMap, VecDeque};

/// Where management is asked: `$management` in the network, and on this router (`_local/…`, `_topo/0/<id>/…`).
pub const ADDRESSES: [&str; 2] = ["$management", "_local/$management"];

/// Requests to one of the addresses that are here and unanswered.
const WINDOW: u32 = 32;
/// A request's bytes; of a longer one control gets the begin.
pub const REQUEST_BYTES_MAX: usize = 256 * 1024;
/// Answers that a requester may have waiting for its receiver's credit, and their bytes but for the last one's.
const ANSWERS_WAITING_MAX: u32 = 64;
const ANSWER_BYTES_WAITING_MAX: usize = 1024 * 1024;
/// Bytes of all answers that wait, but for the last one's.
const ANSWER_BYTES_MAX: usize = 128 * 1024 * 1024;

/// A request, as its sender wrote it.
#[derive(Debug)]
pub struct Request {
    /// Whose it is.
    pub shard: ShardId,
    /// The link that it came in on; goes back in its answer.
    pub requester: LinkId,
    /// `[Cn]` of its connection.
    pub connection: u64,
    /// Which of [`ADDRESSES`] it came to; goes back in its answer.
    pub address: usize,
    pub message: Vec<u8>,
    /// It was longer than [`REQUEST_BYTES_MAX`].
    pub is_cut: bool,
}

/// What control says to a request.
#[derive(Debug)]
pub struct Answer {
    pub requester: LinkId,
    pub address: usize,
    /// Where to, and the message. None: nobody wants to know.
    pub reply: Option<(Box<str>, Owned)>,
}

/// The router's consumer of one of the addresses.
struct Intake {
    link: LinkId,
    /// Deliveries that it was sent, a serial number.
    taken: u32,
    /// It takes them up to this one.
    limit: u32,
    /// One that is still arriving.
    partial: Option<Arriving>,
}

/// `delivery`: whose sender is to hear that control has it.
struct Arriving {
    delivery: DeliveryId,
    request: Request,
}

#[derive(Default)]
struct Requester {
    /// The router's link to whatever address it names for answers.
    from: Option<LinkId>,
    /// A request of its is at control.
    is_busy: bool,
    /// Bytes of answers sent since none waited.
    bytes: usize,
    /// Its link is detached.
    is_gone: bool,
}

/// What is to be done about the oldest requests.
pub enum Verdict {
    /// Offer it to control, then say `taken` or `put_back`.
    Ask(DeliveryId, Request),
    /// Its requester doesn't take the answers that it has.
    Reject(DeliveryId, Request),
}

#[derive(Default)]
pub struct Service {
    intakes: Vec<Intake>,
    /// Requests that control hasn't taken.
    waiting: VecDeque<Arriving>,
    requesters: BTreeMap<LinkId, Requester>,
    /// Control had no room for one.
    is_pushed_back: bool,
}

/// The handle of the router's link that consumes from an address.
pub fn handle(address: usize) -> LinkHandle {
    LinkHandle { index: address as u32, generation: u32::MAX }
}

/// Adds what there is room for, and says whether that was all.
fn gather(message: &mut Vec<u8>, payload: &Payload) -> bool {
    payload.ranges().iter().map(|range| range.as_slice()).all(|bytes| {
        let room = REQUEST_BYTES_MAX - message.len();
        message.extend_from_slice(&bytes[..bytes.len().min(room)]);
        bytes.len() <= room
    })
}

impl Service {
    /// The router consumes from the next of the addresses. Gives the credit that it has there.
    pub fn serve(&mut self, link: LinkId) -> u32 {
        self.intakes.push(Intake { link, taken: 0, limit: WINDOW, partial: None });
        WINDOW
    }

    pub fn addresses_len(&self) -> usize {
        self.intakes.len()
    }

    fn intake(&mut self, handle: LinkHandle) -> Option<(usize, &mut Intake)> {
        let address = handle.index as usize;
        self.intakes.get_mut(address).map(|intake| (address, intake))
    }

    /// A request arrives, or its begin. `requester`: the link that brought it, and its connection's number.
    pub fn sent(&mut self, port: LinkHandle, delivery: DeliveryId, shard: ShardId, requester: (LinkId, u64)) {
        let Some((address, intake)) = self.intake(port) else { return };
        intake.taken = intake.taken.wrapping_add(1);
        let (requester, connection) = requester;
        let request = Request { shard, requester, connection, address, message: Vec::new(), is_cut: false };
        intake.partial = Some(Arriving { delivery, request });
    }

    /// More of it, or all.
    pub fn sent_more(&mut self, port: LinkHandle, delivery: DeliveryId, complete: bool, payload: &Payload) {
        let Some((_, intake)) = self.intake(port) else { return };
        let Some(arriving) = intake.partial.as_mut().filter(|arriving| arriving.delivery == delivery) else { return };
        arriving.request.is_cut |= !gather(&mut arriving.request.message, payload);
        if complete {
            let whole = intake.partial.take();
            self.waiting.extend(whole);
        }
    }

    /// The sender gave it up. Its credit comes back; gives what `credit` is to be told.
    pub fn aborted(&mut self, port: LinkHandle, delivery: DeliveryId) -> Option<(LinkId, u32, u32)> {
        let (address, intake) = self.intake(port)?;
        intake.partial.take_if(|arriving| arriving.delivery == delivery)?;
        self.more_credit(address)
    }

    fn more_credit(&mut self, address: usize) -> Option<(LinkId, u32, u32)> {
        let intake = self.intakes.get_mut(address)?;
        intake.limit = intake.limit.wrapping_add(1);
        Some((intake.link, intake.taken, intake.limit))
    }

    #[inline]
    pub fn has_requests(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether one is to be offered to control again in a while.
    #[inline]
    pub fn is_pushed_back(&self) -> bool {
        self.is_pushed_back
    }

    /// The oldest request whose requester has none at control. `backlog`: how many deliveries of a link are in the router;
    /// None: it is detached.
    pub fn poll(&mut self, backlog: impl Fn(LinkId) -> Option<u32>) -> Option<Verdict> {
        self.is_pushed_back = false;
        let is_free = |known: &BTreeMap<LinkId, Requester>, one: &Arriving| {
            known.get(&one.request.requester).is_none_or(|requester| !requester.is_busy)
        };
        let at = self.waiting.iter().position(|one| is_free(&self.requesters, one))?;
        let Arriving { delivery, request } = self.waiting.remove(at)?;
        let known = self.requesters.entry(request.requester).or_default();
        known.is_gone |= backlog(request.requester).is_none();
        let waits = known.from.and_then(backlog).unwrap_or(0);
        if waits == 0 {
            known.bytes = 0;
        }
        let is_slow = waits >= ANSWERS_WAITING_MAX || known.bytes >= ANSWER_BYTES_WAITING_MAX;
        if is_slow || (waits > 0 && self.bytes() >= ANSWER_BYTES_MAX) {
            return Some(Verdict::Reject(delivery, request));
        }
        Some(Verdict::Ask(delivery, request))
    }

    /// Bytes of answers that wait, at most.
    fn bytes(&self) -> usize {
        self.requesters.values().map(|requester| requester.bytes).sum()
    }

    /// Control has the request.
    pub fn taken(&mut self, requester: LinkId) {
        self.requesters.entry(requester).or_default().is_busy = true;
    }

    /// Control has no room for it now.
    pub fn put_back(&mut self, delivery: DeliveryId, request: Request) {
        self.is_pushed_back = true;
        self.waiting.push_front(Arriving { delivery, request });
    }

    /// A request was answered, or rejected: credit for another one. Gives what `credit` is to be told.
    pub fn answered(&mut self, address: usize) -> Option<(LinkId, u32, u32)> {
        self.more_credit(address)
    }

    /// The link to send a requester's answer on, made by `attach` where there is none. None: the requester is unknown.
    pub fn link_for(&mut self, requester: LinkId, bytes: usize, attach: impl FnOnce() -> LinkId) -> Option<LinkId> {
        let known = self.requesters.get_mut(&requester)?;
        known.bytes += bytes;
        Some(*known.from.get_or_insert_with(attach))
    }

    /// The link on which a requester's answers are sent.
    pub fn link_to(&self, requester: LinkId) -> Option<LinkId> {
        self.requesters.get(&requester)?.from
    }

    /// Control is done with a requester's request. Gives the link that nobody needs any more.
    pub fn finished(&mut self, requester: LinkId) -> Option<LinkId> {
        self.requesters.get_mut(&requester)?.is_busy = false;
        self.forget(requester)
    }

    /// A peer's link is gone. Gives the link that nobody needs any more.
    pub fn left(&mut self, requester: LinkId) -> Option<LinkId> {
        self.requesters.get_mut(&requester)?.is_gone = true;
        self.forget(requester)
    }

    fn forget(&mut self, requester: LinkId) -> Option<LinkId> {
        let known = self.requesters.get(&requester)?;
        let waits = self.waiting.iter().any(|one| one.request.requester == requester);
        if !known.is_gone || known.is_busy || waits {
            return None;
        }
        self.requesters.remove(&requester)?.from
    }
}

/// What stands for a delivery on the wire, on links that have none.
pub const NO_WIRE: WireDelivery = WireDelivery { session: SessionNumber(0), delivery_id: 0 };

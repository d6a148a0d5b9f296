//! Requests to the router itself: what peers send to the addresses of management, on its way to control, and control's
//! answers on theirs to whoever asked.
//!
//! Owns: requests that arrived and that control hasn't taken, and for each requester (a connection, whichever of its links it asks
//! on) what it has outstanding.
//! Doesn't: read a request (control does), know links beyond their ids, wait for anything.
//! Driven by: [`super::Dispatch`]. The router consumes from the addresses like any other consumer, by credit: what control is
//! too slow for waits at the senders.
//!
//! Invariants:
//! - A request is accepted when control has it, and is never lost before. Each gets one answer of control, which gives the
//!   credit back.
//! - Control has one request of a requester's at a time, so a requester's are answered in their order.
//! - Requests that wait, and answers that nobody takes, are bounded in number and bytes, and count in `memory`. A requester that
//!   doesn't take its answers has its requests rejected, and so has everybody while nothing new is taken.

use crate::ids::{DeliveryId, LinkHandle, LinkId, SessionNumber, ShardId, WireDelivery};
use crate::payload::Payload;
use crate::routing::own_handle;
use std::collections::{BTreeMap, VecDeque};

/// Where management is asked: `$management` in the network, and on this router (`_local/…`, `_topo/0/<id>/…`).
pub const ADDRESSES: [&str; 2] = ["$management", "_local/$management"];

/// Requests to one of the addresses that are here and unanswered.
const WINDOW: u32 = 32;
/// Answers that a requester may have waiting for its receiver's credit, and their bytes but for the last one's.
const ANSWERS_WAITING_MAX: u32 = 64;
const ANSWER_BYTES_WAITING_MAX: usize = 1024 * 1024;

/// A request, as its sender wrote it.
#[derive(Debug)]
pub struct Request {
    /// Where it came in.
    pub shard: ShardId,
    /// The link that it came in on.
    pub link: LinkId,
    /// Whose it is: `[Cn]` of its connection; goes back in its answer.
    pub connection: u64,
    /// Which of [`ADDRESSES`] it came to; goes back in its answer.
    pub address: usize,
    pub message: Vec<u8>,
}

/// What control says to a request.
#[derive(Debug)]
pub struct Answer {
    pub connection: u64,
    pub address: usize,
    /// Where to, and the message. None: nobody wants to know.
    pub reply: Option<(Box<str>, Vec<u8>)>,
}

/// The router's consumer of one of the addresses.
struct Intake {
    link: LinkId,
    /// Deliveries that it was sent, a serial number.
    taken: u32,
    /// It takes them up to this one.
    limit: u32,
}

/// `delivery`: whose sender is to hear that control has it.
struct Arrived {
    delivery: DeliveryId,
    request: Request,
}

struct Requester {
    /// The link that its first request came on: the router's own goes by its name.
    first: LinkId,
    /// The router's link to whatever address it names for answers.
    from: Option<LinkId>,
    /// A request of its is at control.
    is_busy: bool,
    /// Bytes of answers sent since none waited.
    bytes: usize,
    /// Its connection is over.
    is_gone: bool,
}

impl Requester {
    fn new(first: LinkId) -> Requester {
        Requester { first, from: None, is_busy: false, bytes: 0, is_gone: false }
    }
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
    waiting: VecDeque<Arrived>,
    /// By their connections' numbers.
    requesters: BTreeMap<u64, Requester>,
    /// The links of their answers, by the handle that other shards know.
    links: BTreeMap<LinkHandle, LinkId>,
    /// Control had no room for one.
    is_pushed_back: bool,
}

/// The handle of the router's link that consumes from an address.
pub fn handle(address: usize) -> LinkHandle {
    LinkHandle { index: address as u32, generation: u32::MAX }
}

impl Service {
    /// The router consumes from the next of the addresses. Gives the credit that it has there.
    pub fn serve(&mut self, link: LinkId) -> u32 {
        self.intakes.push(Intake { link, taken: 0, limit: WINDOW });
        WINDOW
    }

    pub fn addresses_len(&self) -> usize {
        self.intakes.len()
    }

    /// A request has arrived on `link` of that connection. `port`: the router's link that it came to.
    pub fn sent(
        &mut self,
        port: LinkHandle,
        delivery: DeliveryId,
        shard: ShardId,
        (link, connection): (LinkId, u64),
        payload: &Payload,
    ) {
        let address = port.index as usize;
        let Some(intake) = self.intakes.get_mut(address) else { return };
        intake.taken = intake.taken.wrapping_add(1);
        let request = Request { shard, link, connection, address, message: payload.to_vec() };
        self.waiting.push_back(Arrived { delivery, request });
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

    /// The oldest request whose requester has none at control. `backlog`: how many deliveries of a link are in the router.
    /// `is_full`: there is no memory for answers.
    pub fn poll(&mut self, is_full: bool, backlog: impl Fn(LinkId) -> u32) -> Option<Verdict> {
        self.is_pushed_back = false;
        let is_free = |one: &Arrived| self.requesters.get(&one.request.connection).is_none_or(|known| !known.is_busy);
        let at = self.waiting.iter().position(is_free)?;
        let Arrived { delivery, request } = self.waiting.remove(at)?;
        let known = self.requesters.entry(request.connection).or_insert_with(|| Requester::new(request.link));
        let waits = known.from.map_or(0, backlog);
        if waits == 0 {
            known.bytes = 0;
        }
        if is_full || waits >= ANSWERS_WAITING_MAX || known.bytes >= ANSWER_BYTES_WAITING_MAX {
            return Some(Verdict::Reject(delivery, request));
        }
        Some(Verdict::Ask(delivery, request))
    }

    /// Control has a request of theirs.
    pub fn taken(&mut self, connection: u64) {
        if let Some(known) = self.requesters.get_mut(&connection) {
            known.is_busy = true;
        }
    }

    /// Control has no room for it now.
    pub fn put_back(&mut self, delivery: DeliveryId, request: Request) {
        self.is_pushed_back = true;
        self.waiting.push_front(Arrived { delivery, request });
    }

    /// A request was answered, or rejected: credit for another one. Gives what `credit` is to be told.
    pub fn answered(&mut self, address: usize) -> Option<(LinkId, u32, u32)> {
        self.more_credit(address)
    }

    /// The link to send a requester's answer on, made by `attach` for a peer's link where there is none, and its handle. None: the
    /// requester is unknown.
    pub fn link_for(
        &mut self,
        connection: u64,
        bytes: usize,
        attach: impl FnOnce(LinkId) -> LinkId,
    ) -> Option<(LinkHandle, LinkId)> {
        let known = self.requesters.get_mut(&connection)?;
        known.bytes += bytes;
        let handle = own_handle(known.first);
        let from = *known.from.get_or_insert_with(|| {
            let from = attach(known.first);
            self.links.insert(handle, from);
            from
        });
        Some((handle, from))
    }

    /// The link of answers that other shards call so.
    pub fn link_to(&self, handle: LinkHandle) -> Option<LinkId> {
        self.links.get(&handle).copied()
    }

    /// Control is done with a requester's request. Gives the link that nobody needs any more.
    pub fn finished(&mut self, connection: u64) -> Option<LinkId> {
        self.requesters.get_mut(&connection)?.is_busy = false;
        self.forget(connection)
    }

    /// A connection is over. Gives the link that nobody needs any more.
    pub fn left(&mut self, connection: u64) -> Option<LinkId> {
        if let Some(one) = self.waiting.iter().find(|one| one.request.connection == connection) {
            self.requesters.entry(connection).or_insert_with(|| Requester::new(one.request.link));
        }
        self.requesters.get_mut(&connection)?.is_gone = true;
        self.forget(connection)
    }

    fn forget(&mut self, connection: u64) -> Option<LinkId> {
        let known = self.requesters.get(&connection)?;
        let waits = self.waiting.iter().any(|one| one.request.connection == connection);
        if !known.is_gone || known.is_busy || waits {
            return None;
        }
        let known = self.requesters.remove(&connection)?;
        self.links.remove(&own_handle(known.first));
        known.from
    }
}

/// What stands for a delivery on the wire, on links that have none.
pub const NO_WIRE: WireDelivery = WireDelivery { session: SessionNumber(0), delivery_id: 0 };

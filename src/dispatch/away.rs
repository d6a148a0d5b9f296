//! Links of this shard's connections to addresses that other shards own.
//!
//! Owns: which those are; deliveries that came for them and that their engine doesn't take yet. What an engine says of such
//! a link becomes notes to the owner, what the owner decides becomes commands to the engine.
//!
//! Invariants:
//! - On a link, what the owner decided reaches the engine in that order: a delivery waits for the one before it, the answer
//!   to a drain for all of them.
//! - Each whole delivery that came is reported once as waiting no longer, in bytes of its session, whatever became of it.
//! - A connection whose notes find a crowded outbox rests until that has room.

use super::proxies::RELAY;
use super::shares::{RARE_EVENT_COST, REST, STEPS_AN_EVENT};
use super::{find, Dispatch, Peer, Report};
use crate::engine::{LinkAnswer, RemoteAttach, Sent};
use crate::ids::{ConnectionId, DeliveryId, LinkHandle, LinkId, Port, SessionNumber, ShardId, WireDelivery};
use crate::limits;
use crate::link::{Direction, ReceiverSettleMode, SenderSettleMode};
use crate::mesh::parcel::{cost_bytes, Accepted, Attaching, Decided, Happened};
use crate::mesh::Note;
use crate::outcome::{Fault, State};
use crate::payload::Payload;
use crate::routing::Arrival;
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Bytes sent that an owner is told of together. Far less than what it lets wait.
const SENT_BYTES_TOLD: usize = limits::OUTPUT_MARK_BYTES / 8;

/// What a connection has on other shards.
#[derive(Default)]
pub(super) struct Away {
    /// Those that know the connection.
    pub shards: BTreeSet<ShardId>,
    /// Attaches that wait for their answer.
    attaching: BTreeMap<LinkHandle, Asked>,
    /// Links by which this connection's anonymous senders are known there.
    relays: BTreeSet<(LinkHandle, ShardId)>,
    receivers: BTreeMap<LinkHandle, Receiver>,
    /// Bytes sent that the owner wasn't told of.
    sent_bytes: BTreeMap<(ShardId, SessionNumber), usize>,
}

struct Asked {
    owner: ShardId,
    name: String,
    address: Option<String>,
    direction: Direction,
}

/// A link to a peer that receives.
pub(super) struct Receiver {
    owner: ShardId,
    session: SessionNumber,
    /// Deliveries that came for it.
    seen: u32,
    /// How often its credit was told.
    round: u32,
    waiting: VecDeque<Waiting>,
    /// What the engine has, not completely sent.
    under_way: Option<UnderWay>,
}

enum Waiting {
    Send { delivery: DeliveryId, message_format: u32, settled: bool, complete: bool, payload: Payload },
    SendMore { delivery: DeliveryId, complete: bool, payload: Payload },
    SendAbort { delivery: DeliveryId },
    Drained { round: u32 },
}

#[derive(Clone, Copy)]
enum UnderWay {
    Whole { cost: usize },
    Stream,
}

impl Waiting {
    /// As the owner counts it.
    fn cost(&self) -> usize {
        match self {
            Waiting::Send { complete: true, payload, .. } => cost_bytes(payload.len()),
            _ => 0,
        }
    }
}

impl Receiver {
    pub fn new(owner: ShardId, session: SessionNumber) -> Receiver {
        Receiver { owner, session, seen: 0, round: 0, waiting: VecDeque::new(), under_way: None }
    }

    /// Deliveries that the engine wasn't given.
    fn sends_waiting(&self) -> u32 {
        self.waiting.iter().filter(|waiting| matches!(waiting, Waiting::Send { .. })).count() as u32
    }

    /// What is here of it, as the owner counts it.
    fn cost(&self) -> usize {
        let under_way = match self.under_way {
            Some(UnderWay::Whole { cost }) => cost,
            _ => 0,
        };
        under_way + self.waiting.iter().map(Waiting::cost).sum::<usize>()
    }
}

impl Away {
    /// Bytes of a session's deliveries wait no longer. Gives what its owner is to be told.
    fn sent(&mut self, owner: ShardId, session: SessionNumber, bytes: usize) -> Option<usize> {
        let sent = self.sent_bytes.entry((owner, session)).or_default();
        *sent += bytes;
        (*sent >= SENT_BYTES_TOLD).then(|| std::mem::take(sent))
    }
}

impl Peer {
    fn away(&mut self) -> &mut Away {
        self.away.get_or_insert_with(Box::default)
    }

    /// Notes a link that another shard has already.
    pub fn links_elsewhere(&mut self, owner: ShardId, link: LinkHandle, receiver: Option<Receiver>) {
        let away = self.away();
        away.shards.insert(owner);
        if let Some(receiver) = receiver {
            away.receivers.insert(link, receiver);
        }
    }

    fn receiver(&mut self, link: LinkHandle) -> Option<&mut Receiver> {
        self.away.as_mut()?.receivers.get_mut(&link)
    }
}

/// What happens on such links.
impl Dispatch {
    /// Tells an owner. Gives what the event costs.
    fn note_home(&mut self, id: ConnectionId, link: LinkHandle, owner: ShardId, what: Happened) -> u64 {
        self.outbox.push(owner, Note::happened(id, link, what));
        self.cost_of(owner, id)
    }

    /// A connection that has more to say to a crowded shard rests.
    fn cost_of(&mut self, owner: ShardId, id: ConnectionId) -> u64 {
        if !self.outbox.is_crowded(owner) {
            return 1;
        }
        if let Some(peer) = find(&mut self.peers, id) {
            peer.rests_for = Some(owner);
        }
        REST
    }

    /// A peer attaches a link to an address that another shard owns.
    pub(super) fn attach_elsewhere(
        &mut self,
        id: ConnectionId,
        link: LinkHandle,
        owner: ShardId,
        attach: Box<RemoteAttach>,
    ) {
        let Some(peer) = find(&mut self.peers, id) else { return };
        let Some(direction) = attach.direction else { return };
        let RemoteAttach { name, session, sender_settle_mode, receiver_settle_mode, terminus, .. } = *attach;
        let address = super::address_of(&terminus);
        let asked = Asked { owner, name: name.clone(), address, direction };
        let (link_capacity, number) = (peer.link_capacity, peer.number);
        let away = peer.away();
        away.shards.insert(owner);
        away.attaching.insert(link, asked);
        let attaching = Box::new(Attaching {
            number,
            link_capacity,
            session,
            direction,
            terminus,
            name,
            sender_settle_mode,
            receiver_settle_mode,
        });
        self.note_home(id, link, owner, Happened::Attached(attaching));
    }

    /// A link is over: its owner hears so, whether it has answered the attach or not.
    pub(super) fn link_ended_elsewhere(
        &mut self,
        id: ConnectionId,
        link: LinkHandle,
        token: Option<LinkId>,
        closed: bool,
    ) {
        let Some(peer) = find(&mut self.peers, id) else { return };
        let Some(away) = &mut peer.away else { return };
        let asked = away.attaching.remove(&link).map(|asked| asked.owner);
        let relays: Vec<ShardId> = away.shards.iter().copied().filter(|s| away.relays.remove(&(link, *s))).collect();
        let owner = token.and_then(LinkId::shard).or(asked);
        let told = away.receivers.remove(&link).and_then(|receiver| {
            for waiting in &receiver.waiting {
                if let Waiting::Send { delivery, .. } = *waiting {
                    self.outbox.push(receiver.owner, Note::Unsent { delivery });
                }
            }
            let told = away.sent(receiver.owner, receiver.session, receiver.cost());
            told.map(|bytes| (receiver.owner, receiver.session, bytes))
        });
        // All links of a connection that is over go by one note.
        if peer.engine.is_closed() {
            return;
        }
        if let Some((owner, session, bytes)) = told {
            self.outbox.push(owner, Note::SessionSent { connection: id, session, bytes });
        }
        for owner in owner.into_iter().chain(relays) {
            self.note_home(id, link, owner, Happened::Ended { closed });
        }
    }

    /// An engine never began a delivery that another shard has, and its link ends.
    pub(super) fn unsent_elsewhere(&mut self, delivery: DeliveryId) {
        self.outbox.push(delivery.shard(), Note::Unsent { delivery });
    }

    /// A delivery that another shard has is larger than its receiver takes. One that was to go out settled, and whole, counted as
    /// sent when it left that shard: there is nothing left of it there to be told of, and its id may be another's.
    pub(super) fn refused_elsewhere(
        &mut self,
        id: ConnectionId,
        link: LinkHandle,
        delivery: DeliveryId,
        settled: bool,
    ) {
        let Some(receiver) = find(&mut self.peers, id).and_then(|peer| peer.receiver(link)) else { return };
        let is_over_there = settled && matches!(receiver.under_way, Some(UnderWay::Whole { .. }));
        if !is_over_there {
            self.outbox.push(delivery.shard(), Note::Refused { delivery });
        }
    }

    /// If this was a subscriber's link, the router's own to it goes, too.
    pub(super) fn own_link_gone(&mut self, link: LinkId, now: Time) {
        if let Some(from) = self.publisher.left(link) {
            self.own_link_ended(from, now);
        }
    }

    /// If this connection asked something, the router's own link to it goes, too.
    pub(super) fn requester_gone(&mut self, connection: u64, now: Time) {
        if let Some(from) = self.service.left(connection) {
            self.own_link_ended(from, now);
        }
    }

    /// A link of the router's own is over.
    pub(super) fn own_link_ended(&mut self, link: LinkId, now: Time) {
        let port = self.router.port(link);
        self.router.link_ended(link, true, now);
        let Some(Port { connection, link }) = port else { return };
        for shard in (0..self.shards).map(ShardId) {
            if self.own_relays.remove(&(link, shard)) {
                self.outbox.push(shard, Note::happened(connection, link, Happened::Ended { closed: true }));
            }
        }
    }

    /// A connection is over.
    pub(super) fn connection_over_elsewhere(&mut self, id: ConnectionId) {
        let Some(away) = find(&mut self.peers, id).and_then(|peer| peer.away.take()) else { return };
        for shard in away.shards {
            self.outbox.push(shard, Note::ConnectionOver { connection: id });
        }
    }

    /// A session's window is shut: what is held counts no longer, and the router does what it can about its own. Gives what
    /// the event costs.
    pub(super) fn session_full(&mut self, id: ConnectionId, session: SessionNumber, now: Time) -> u64 {
        let held = find(&mut self.peers, id).map_or(0, |peer| super::anonymous::lend_held(peer, session));
        let links_elsewhere = self.session_full_elsewhere(id, session);
        self.router.session_full(id, session, links_elsewhere.is_some(), now);
        RARE_EVENT_COST + (held + links_elsewhere.unwrap_or(0)) as u64 / STEPS_AN_EVENT
    }

    /// Where other shards may hold something of it: how many of its links they look at for that, at most.
    fn session_full_elsewhere(&mut self, id: ConnectionId, session: SessionNumber) -> Option<usize> {
        let peer = find(&mut self.peers, id)?;
        let away = peer.away.as_ref().filter(|away| !away.shards.is_empty())?;
        for shard in &away.shards {
            self.outbox.push(*shard, Note::SessionFull { connection: id, session });
        }
        Some(peer.engine.session_links(session))
    }

    /// The first frame of a delivery for another shard's address.
    #[inline(never)]
    pub(super) fn deliver_elsewhere(
        &mut self,
        id: ConnectionId,
        link: LinkHandle,
        owner: ShardId,
        arrival: Arrival<'_>,
    ) -> u64 {
        let Arrival { wire, message_format, settled, complete, payload, to } = arrival;
        if !(settled && complete) {
            self.keep(id, wire, DeliveryId::arrived_elsewhere(owner, link));
        }
        let to = to.unwrap_or_default();
        let (to_bytes, bytes) = (to.len() as u16, payload.len() as u32);
        let what = Happened::Delivery { wire, message_format, settled, complete, to_bytes, bytes };
        self.outbox.push_with(owner, Note::happened(id, link, what), to, &payload);
        self.cost_of(owner, id)
    }

    /// A delivery for another shard's address that is to be rejected there.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn refuse_elsewhere(
        &mut self,
        id: ConnectionId,
        link: LinkHandle,
        owner: ShardId,
        wire: WireDelivery,
        settled: bool,
        complete: bool,
        why: &'static str,
    ) -> u64 {
        if !(settled && complete) {
            self.keep(id, wire, DeliveryId::arrived_elsewhere(owner, link));
        }
        self.note_home(id, link, owner, Happened::DeliveryRefused { wire, settled, complete, why })
    }

    /// A message of an anonymous sender's goes to another shard's address. The sender's credit stays here.
    pub(super) fn forward(
        &mut self,
        id: ConnectionId,
        link: (LinkHandle, LinkId),
        owner: ShardId,
        arrival: Arrival<'_>,
        now: Time,
    ) -> u64 {
        let (handle, link) = link;
        self.router.forwarded(link, arrival.settled, now);
        let (link_capacity, number, is_new) = match find(&mut self.peers, id) {
            Some(peer) => {
                let is_new = peer.away().relays.insert((handle, owner));
                if is_new {
                    peer.away().shards.insert(owner);
                }
                (peer.link_capacity, peer.number, is_new)
            }
            // The router's own.
            None => (limits::LINK_CAPACITY_DEFAULT, 0, self.own_relays.insert((handle, owner))),
        };
        if is_new {
            let view = self.router.link_view(link);
            let attaching = Box::new(Attaching {
                number,
                link_capacity,
                session: arrival.wire.session,
                direction: Direction::Incoming,
                terminus: RELAY,
                name: String::new(),
                sender_settle_mode: view.as_ref().map_or(SenderSettleMode::Mixed, |view| view.sender_settle_mode()),
                receiver_settle_mode: view.map_or(ReceiverSettleMode::First, |view| view.receiver_settle_mode()),
            });
            self.note_home(id, handle, owner, Happened::Attached(attaching));
        }
        self.deliver_elsewhere(id, handle, owner, arrival)
    }

    /// A later frame of a delivery that another shard has.
    pub(super) fn more_elsewhere(
        &mut self,
        id: ConnectionId,
        token: DeliveryId,
        wire: WireDelivery,
        payload: &Payload,
        complete: bool,
        settled: bool,
    ) -> u64 {
        let (owner, link) = token.arrival();
        let what = Happened::DeliveryMore { wire, complete, settled, bytes: payload.len() as u32 };
        self.outbox.push_with(owner, Note::happened(id, link, what), "", payload);
        self.cost_of(owner, id)
    }

    pub(super) fn aborted_elsewhere(&mut self, id: ConnectionId, token: DeliveryId, wire: WireDelivery) -> u64 {
        let (owner, link) = token.arrival();
        self.note_home(id, link, owner, Happened::DeliveryAborted { wire })
    }

    pub(super) fn sender_disposition_elsewhere(
        &mut self,
        id: ConnectionId,
        token: DeliveryId,
        wire: WireDelivery,
        state: Option<State>,
        settled: bool,
    ) -> u64 {
        let (owner, link) = token.arrival();
        self.note_home(id, link, owner, Happened::SenderDisposition { wire, state, settled })
    }

    #[inline(never)]
    pub(super) fn receiver_disposition_elsewhere(
        &mut self,
        id: ConnectionId,
        delivery: DeliveryId,
        wire: WireDelivery,
        state: Option<State>,
        settled: bool,
    ) -> u64 {
        let owner = delivery.shard();
        self.outbox.push(owner, Note::ReceiverDisposition { delivery, wire, state, settled });
        self.cost_of(owner, id)
    }

    pub(super) fn sender_drained_elsewhere(
        &mut self,
        id: ConnectionId,
        link: LinkHandle,
        owner: ShardId,
        returned: u32,
    ) -> u64 {
        self.note_home(id, link, owner, Happened::SenderDrained { returned })
    }

    pub(super) fn credit_elsewhere(
        &mut self,
        id: ConnectionId,
        link: LinkHandle,
        delivery_count: u32,
        limit: u32,
        drain: bool,
    ) -> u64 {
        let Some(receiver) = find(&mut self.peers, id).and_then(|peer| peer.receiver(link)) else { return 1 };
        receiver.round = receiver.round.wrapping_add(1);
        let delivery_count = delivery_count.wrapping_add(receiver.sends_waiting());
        let (owner, seen, round) = (receiver.owner, receiver.seen, receiver.round);
        self.note_home(id, link, owner, Happened::Credit { delivery_count, seen, limit, drain, round })
    }

    /// Payload of a delivery that another shard has went out.
    pub(super) fn payload_sent_elsewhere(
        &mut self,
        id: ConnectionId,
        link: LinkHandle,
        delivery: DeliveryId,
        bytes: usize,
        complete: bool,
    ) -> u64 {
        let Some(receiver) = find(&mut self.peers, id).and_then(|peer| peer.receiver(link)) else { return 1 };
        let under_way = receiver.under_way;
        if complete {
            receiver.under_way = None;
        }
        match under_way {
            Some(UnderWay::Whole { cost }) if complete => {
                let (owner, session) = (receiver.owner, receiver.session);
                self.sent(id, owner, session, cost);
            }
            Some(UnderWay::Stream) => {
                self.outbox.push(delivery.shard(), Note::PayloadSent { delivery, bytes, complete });
            }
            _ => {}
        }
        if complete {
            self.advance(id, link);
        }
        self.cost_of(delivery.shard(), id)
    }

    /// A whole delivery that came from this owner for a link of this session waits no longer.
    fn sent(&mut self, id: ConnectionId, owner: ShardId, session: SessionNumber, cost: usize) {
        let Some(away) = find(&mut self.peers, id).and_then(|peer| peer.away.as_mut()) else { return };
        if let Some(bytes) = away.sent(owner, session, cost) {
            self.outbox.push(owner, Note::SessionSent { connection: id, session, bytes });
        }
    }
}

/// What owners decide.
impl Dispatch {
    pub(super) fn decided(&mut self, owner: ShardId, port: Port, what: Decided, payload: Payload, now: Time) {
        let Port { connection: id, link } = port;
        match what {
            Decided::Attached(answer) => return self.answered(owner, id, link, *answer),
            Decided::Grant { add, drain } => return self.granted(id, link, add, drain, now),
            Decided::Drained { round } => return self.enqueue_drained(id, link, round),
            Decided::Send { delivery, session, message_format, settled, complete, .. } => {
                let delivery = delivery.elsewhere(owner);
                let waiting = Waiting::Send { delivery, message_format, settled, complete, payload };
                return match find(&mut self.peers, id).and_then(|peer| peer.receiver(link)) {
                    Some(_) => self.enqueue(id, link, waiting),
                    // The link ended meanwhile.
                    None => self.sent(id, owner, session, waiting.cost()),
                };
            }
            Decided::SendMore { delivery, complete, .. } => {
                return self.enqueue_more(id, link, delivery.elsewhere(owner), complete, payload);
            }
            Decided::SendAbort { delivery } => {
                let delivery = delivery.elsewhere(owner);
                return self.enqueue(id, link, Waiting::SendAbort { delivery });
            }
            _ => {}
        }
        let Some(engine) = self.engine(id) else { return };
        // What is said of a link that ended reaches nobody: its session's numbers may be another's by now.
        if engine.link_token(link).is_none() {
            return;
        }
        match what {
            Decided::DisposeIncoming { wire, state, settled } => engine.dispose_incoming(wire, state, settled),
            Decided::DisposeOutgoing { wire, state, settled } => engine.dispose_outgoing(wire, state, settled),
            Decided::Detach(fault) => engine.detach(link, &fault),
            _ => {}
        }
    }

    fn granted(&mut self, id: ConnectionId, link: LinkHandle, add: u32, drain: bool, now: Time) {
        if id == ConnectionId::ROUTER {
            let from = self.service.link_to(link);
            return from.map_or((), |from| self.router.forwarded_left(from, add, now));
        }
        let Some(engine) = self.engine(id) else { return };
        match engine.link_token(link) {
            Some(token) if token.shard().is_some() => engine.grant(link, add, drain),
            // An anonymous sender's: so many of its messages there wait no longer.
            Some(token) => self.router.forwarded_left(token, add, now),
            None => {}
        }
    }

    fn answered(&mut self, owner: ShardId, id: ConnectionId, link: LinkHandle, answer: Result<Accepted, Fault>) {
        if self.engine(id).is_none() {
            return;
        }
        let Some(peer) = find(&mut self.peers, id) else { return };
        let connection = peer.number;
        // Else it ended meanwhile, and the owner hears of that.
        let Some(asked) = peer.away().attaching.remove(&link) else { return };
        let Asked { name, address, direction, .. } = asked;
        match answer {
            Ok(accepted) => {
                let token = LinkId::elsewhere(owner, accepted.link.generation);
                let Some(session) = peer.engine.link_session(link) else { return };
                if direction == Direction::Outgoing {
                    peer.links_elsewhere(owner, link, Some(Receiver::new(owner, session)));
                }
                let answer = LinkAnswer {
                    sender_settle_mode: accepted.sender_settle_mode,
                    receiver_settle_mode: accepted.receiver_settle_mode,
                    ..LinkAnswer::default()
                };
                peer.engine.accept_link(link, token, answer);
                if peer.engine.link_token(link).is_none() {
                    // It ended, and what says so is still to come, without a token.
                    peer.away().attaching.insert(link, Asked { owner, name, address, direction });
                    return;
                }
                peer.links.insert(link);
                self.report(Report::LinkAttached { connection, link: token, name, address, direction });
            }
            Err(fault) => {
                peer.engine.refuse_link(link, &fault);
                let condition = fault.condition;
                self.report(Report::LinkRefused { connection, name, address, direction, condition });
            }
        }
    }

    fn enqueue(&mut self, id: ConnectionId, link: LinkHandle, waiting: Waiting) {
        let Some(peer) = find(&mut self.peers, id) else { return };
        let Some(receiver) = peer.receiver(link) else { return };
        if let Waiting::Send { .. } = waiting {
            receiver.seen = receiver.seen.wrapping_add(1);
        }
        receiver.waiting.push_back(waiting);
        self.advance(id, link);
    }

    /// Of several in a row the last one answers.
    fn enqueue_drained(&mut self, id: ConnectionId, link: LinkHandle, round: u32) {
        let receiver = find(&mut self.peers, id).and_then(|peer| peer.receiver(link));
        match receiver.and_then(|receiver| receiver.waiting.back_mut()) {
            Some(Waiting::Drained { round: last }) => *last = round,
            _ => self.enqueue(id, link, Waiting::Drained { round }),
        }
    }

    /// Pieces that wait are joined into one, behind their delivery's begin.
    fn enqueue_more(
        &mut self,
        id: ConnectionId,
        link: LinkHandle,
        delivery: DeliveryId,
        complete: bool,
        payload: Payload,
    ) {
        let receiver = find(&mut self.peers, id).and_then(|peer| peer.receiver(link));
        if let Some(Waiting::SendMore { delivery: last, complete: is_over, payload: waiting }) =
            receiver.and_then(|receiver| receiver.waiting.back_mut())
        {
            if *last == delivery {
                *is_over |= complete;
                return self.packer.append(waiting, payload);
            }
        }
        self.enqueue(id, link, Waiting::SendMore { delivery, complete, payload });
    }

    /// Gives an engine what waits for a link of it, as far as it takes that.
    fn advance(&mut self, id: ConnectionId, link: LinkHandle) {
        loop {
            if self.engine(id).is_none() {
                return;
            }
            let Some(peer) = find(&mut self.peers, id) else { return };
            let Some(receiver) = peer.away.as_mut().and_then(|away| away.receivers.get_mut(&link)) else { return };
            let is_next = |waiting: &Waiting| match waiting {
                Waiting::Send { .. } | Waiting::Drained { .. } => receiver.under_way.is_none(),
                Waiting::SendMore { .. } | Waiting::SendAbort { .. } => true,
            };
            if !receiver.waiting.front().is_some_and(is_next) {
                return;
            }
            let engine = &mut peer.engine;
            let mut whole = None;
            match receiver.waiting.pop_front() {
                Some(Waiting::Send { delivery, message_format, settled, complete, mut payload }) => {
                    let cost = cost_bytes(payload.len());
                    self.deliveries_out += 1;
                    let fewer = match self.annotations.are_used {
                        true => self.annotations.annotate(engine, complete, &mut payload, &mut self.packer),
                        false => 0,
                    };
                    let sent = engine.send(link, delivery, message_format, settled, complete, payload);
                    if fewer > 0 && !complete && sent == Sent::Partly {
                        let sent = Note::PayloadSent { delivery, bytes: fewer, complete: false };
                        self.outbox.push(delivery.shard(), sent);
                    }
                    match sent {
                        Sent::Whole { .. } if complete => whole = Some((receiver.owner, receiver.session, cost)),
                        // The link has ended.
                        Sent::Whole { .. } => {}
                        Sent::Partly if complete => receiver.under_way = Some(UnderWay::Whole { cost }),
                        Sent::Partly => receiver.under_way = Some(UnderWay::Stream),
                    }
                }
                Some(Waiting::SendMore { delivery, complete, payload }) => {
                    engine.send_more(link, delivery, complete, payload);
                }
                Some(Waiting::SendAbort { delivery }) => {
                    if let Sent::Whole { .. } = engine.send_abort(link, delivery) {
                        receiver.under_way = None;
                        self.outbox.push(delivery.shard(), Note::PayloadSent { delivery, bytes: 0, complete: true });
                    }
                }
                // The answer to an earlier flow answers no later one.
                Some(Waiting::Drained { round }) if round == receiver.round => engine.drained(link),
                Some(Waiting::Drained { .. }) | None => {}
            }
            if let Some((owner, session, cost)) = whole {
                self.sent(id, owner, session, cost);
            }
        }
    }
}

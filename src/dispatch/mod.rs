//! Engines to the router and back: an engine's event becomes a routing input, a routing output a command to an engine.
//!
//! Owns: the engines, one a connection; the router; the output buffers that engines are lent.
//! Doesn't: touch sockets, rings or clocks (its driver), decide anything about a delivery (the router), frame (engines),
//! log (facts for the log come out of `poll_report`).
//! Driven by: a shard's turn, or the simulator, which so runs exactly what a shard runs.
//!
//! Three kinds of method: `accepted`, `received`, … say what happened; `run` does what follows from it; `poll_*` and
//! getters give what there is to send, to report, to wait for.
//!
//! Invariants:
//! - A batch of one engine's events into the router, then all of the router's outputs into engines, then the next batch. An
//!   engine ends a batch before anything that could end a link, so what is to be said on it is said before. (One at a time
//!   cost a third more: credit and released payload are reckoned once a batch.)
//! - An engine that was told something is *pending* until its own events are drained, too, in [`Dispatch::run`]; nothing
//!   here calls itself.
//! - A connection's links are gone from the router when `closed` returns.

mod admission;
mod annotations;
mod anonymous;
mod away;
mod connections;
mod direct;
mod events;
mod moving;
mod notes;
mod opening;
mod outbox;
mod outputs;
mod proxies;
mod report;
mod requests;
mod rows;
mod service;
mod shares;
mod trace;

pub use connections::{ConnectionRow, CONNECTION_BYTES};
pub use moving::Moved;
pub use report::Report;
pub use rows::{LinkRow, Page, RouterRow, Rows, Table};
pub use service::{Answer, Request};

use crate::engine::{self, Engine, Event, LinkAnswer, RemoteAttach, RemoteError, Sent, Transfer, Transmit};
use crate::ids::{ConnectionId, DeliveryId, LinkHandle, LinkId, Port, ShardId, WireDelivery};
use crate::limits;
use crate::link::Terminus;
use crate::outcome::Fault;
use crate::payload::{Packer, Pool, Range};
use crate::routing::{Arrival, Attach, Edge, Output, Router, RouterSettings};
use crate::security::Exchange;
use crate::time::Time;
use crate::wire;
use annotations::Annotations;
use anonymous::{take_held, Held, Looks};
use away::Away;
use direct::Runs;
use events::Publisher;
use moving::Moving;
use outbox::Outbox;
use outputs::Outputs;
use proxies::Proxies;
use service::Service;
use shares::{EVENTS_AT_ONCE, RARE_EVENT_COST, REST, STEPS_AN_EVENT};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use trace::Trace;

/// Reads of fewer bytes are packed: what stays of them keeps little more than itself.
const PACKED_BYTES_MAX: usize = limits::CHUNK_BYTES / 8;
/// Free chunks kept for packing.
const PACKING_CHUNKS_KEPT: usize = 32;

/// One connection, as dispatch knows it.
struct Peer {
    id: ConnectionId,
    engine: Engine,
    /// `[Cn]` in the log.
    number: u64,
    link_capacity: u32,
    facts: connections::Facts,
    /// In `Dispatch::pending`.
    pending: bool,
    /// In `Dispatch::deferred`: no more input until its turn comes.
    deferred: bool,
    /// What its engine's output has room for, as `Dispatch::outputs` knows it.
    output_bytes: usize,
    /// The router knows this connection.
    opened: bool,
    exchange: Option<(Exchange, String)>,
    /// Links that the router knows, for the stop; in an order that doesn't vary from run to run.
    links: BTreeSet<LinkHandle>,
    /// Messages of anonymous links whose `to` has not arrived yet.
    held: BTreeMap<LinkHandle, Held>,
    /// Payload bytes of them.
    held_bytes: usize,
    /// Where it lives is settled.
    is_home: bool,
    /// It is to live on another shard; nothing it says is heard until it does.
    moving: Option<Box<Moving>>,
    /// What it has on other shards.
    away: Option<Box<Away>>,
    /// It is deferred until this shard takes more.
    rests_for: Option<ShardId>,
}

pub struct Dispatch {
    router: Router,
    /// By the connection id's index.
    peers: Vec<Option<Box<Peer>>>,
    /// Connections whose engine was told something.
    pending: Vec<ConnectionId>,
    /// Connections that had their share of `Dispatch::run`; they go on when time has.
    deferred: Vec<ConnectionId>,
    deferred_at: Time,
    outputs: Outputs,
    packer: Packer,
    publisher: Publisher,
    annotations: Annotations,
    service: Service,
    /// Drained by the driver after each call, so it is as long as one call's work.
    reports: VecDeque<Report>,
    trace: Trace,
    /// Which shard this is, of how many.
    shard: ShardId,
    shards: u16,
    /// Connections move to the owner of their first link's address.
    moves: bool,
    /// Connections that are to live elsewhere.
    leaving: VecDeque<(ConnectionId, ShardId)>,
    outbox: Outbox,
    /// Connections of other shards with links here.
    proxies: Proxies,
    /// Shards to which the router's own anonymous links send, too.
    own_relays: BTreeSet<(LinkHandle, ShardId)>,
    runs: Runs,
    stopped: bool,
    next_number: u64,
    pub deliveries_in: u64,
    pub deliveries_out: u64,
}

impl Peer {
    fn new(id: ConnectionId, engine: Engine, number: u64, link_capacity: u32) -> Peer {
        Peer {
            id,
            engine,
            number,
            link_capacity,
            facts: connections::Facts::default(),
            pending: false,
            deferred: false,
            output_bytes: 0,
            opened: false,
            exchange: None,
            links: BTreeSet::new(),
            held: BTreeMap::new(),
            held_bytes: 0,
            is_home: false,
            moving: None,
            away: None,
            rests_for: None,
        }
    }
}

/// A peer by its id, borrowed from the table alone so that the router stays free.
#[inline]
fn find(peers: &mut [Option<Box<Peer>>], id: ConnectionId) -> Option<&mut Peer> {
    match peers.get_mut(id.index as usize) {
        Some(Some(peer)) if peer.id == id => Some(peer),
        _ => None,
    }
}

impl Dispatch {
    /// That of one shard, of so many. `trace`: report every frame.
    pub fn new(router: RouterSettings, shard: ShardId, shards: u16, trace: bool, now: Time) -> Dispatch {
        let memory = router.memory.clone();
        Dispatch {
            service: Service::default(),
            publisher: Publisher::new(&router.router_id),
            annotations: Annotations::new(&router.router_id),
            router: Router::on_shard(router, shard, shards, now),
            peers: Vec::new(),
            pending: Vec::with_capacity(1024),
            deferred: Vec::new(),
            deferred_at: now,
            outputs: Outputs::new(memory.clone()),
            packer: Packer::new(Pool::counted(limits::CHUNK_BYTES, PACKING_CHUNKS_KEPT, memory.clone())),
            reports: VecDeque::new(),
            trace: Trace::new(trace),
            shard,
            shards,
            moves: true,
            leaving: VecDeque::new(),
            outbox: Outbox::new(shards, memory),
            proxies: Proxies::default(),
            own_relays: BTreeSet::new(),
            runs: Runs::default(),
            stopped: false,
            next_number: 1 + u64::from(shard.0),
            deliveries_in: 0,
            deliveries_out: 0,
        }
    }

    /// The router, to look at.
    pub fn router(&self) -> &Router {
        &self.router
    }

    /// An engine about to be told something: it has an output buffer, and its events are drained afterwards.
    #[inline]
    fn engine(&mut self, id: ConnectionId) -> Option<&mut Engine> {
        let peer = find(&mut self.peers, id)?;
        self.outputs.lend(&mut peer.engine, &mut peer.output_bytes);
        if !peer.pending {
            peer.pending = true;
            self.pending.push(id);
        }
        Some(&mut peer.engine)
    }

    /// Drains an engine's events into the router, batch by batch: all of them, or what `left` allows. Then the connection is
    /// deferred.
    fn pump(&mut self, id: ConnectionId, mut left: u64, now: Time) {
        let Some(peer) = find(&mut self.peers, id) else { return };
        if peer.engine.is_at_rest() || (peer.deferred || peer.moving.is_some()) && left != u64::MAX {
            return;
        }
        self.outputs.lend(&mut peer.engine, &mut peer.output_bytes);
        self.router.count_steps_of(id);
        let before = self.deliveries_in;
        let is_bounded = left != u64::MAX;
        loop {
            while let Some(cost) = self.next(id, now) {
                if !is_bounded {
                    continue;
                }
                left = left.saturating_sub(cost);
                if left == 0 {
                    self.defer(id, now);
                    break;
                }
            }
            self.apply_outputs();
            let steps = self.router.take_steps();
            if left == 0 {
                break;
            }
            let quiet = find(&mut self.peers, id).and_then(|peer| peer.engine.next_batch());
            left = left.saturating_sub(steps / STEPS_AN_EVENT + quiet.map_or(0, u64::from));
            if left == 0 {
                self.defer(id, now);
            }
            if left == 0 || quiet.is_none() {
                break;
            }
        }
        if self.deliveries_in != before {
            if let Some(peer) = find(&mut self.peers, id) {
                peer.facts.last_delivery = Some(now);
            }
        }
        if self.trace.is_any {
            self.drain_trace(id);
        }
    }

    // ── events ──

    /// Acts on what an engine has to tell next in a batch: a run, or one event. What it counts as.
    #[inline]
    fn next(&mut self, id: ConnectionId, now: Time) -> Option<u64> {
        let engine = &mut find(&mut self.peers, id)?.engine;
        if engine.is_at_rest() {
            return None;
        }
        let Runs { arrived, settled } = &mut self.runs;
        let cost = match engine.poll_run(arrived, settled) {
            Some(run) => self.pass_run(id, run, now),
            None => {
                let event = engine.poll_batch()?;
                self.event(id, event, now)
            }
        };
        Some(cost.saturating_add(self.router.take_steps() / STEPS_AN_EVENT))
    }

    fn event(&mut self, id: ConnectionId, event: Event, now: Time) -> u64 {
        match event {
            Event::Transfer(transfer) => return self.transfer(id, transfer, false, now),
            Event::ReceiverDisposition { delivery, wire, state, settled } => {
                return self.receiver_disposition(id, delivery, wire, state, settled, now);
            }
            Event::SenderDisposition { token: Some(delivery), wire, state, settled } => {
                if delivery.is_elsewhere() {
                    return self.sender_disposition_elsewhere(id, delivery, wire, state, settled);
                }
                self.router.sender_disposition(delivery, state, settled, now)
            }
            // Of a delivery that routing is done with.
            Event::SenderDisposition { token: None, .. } => {}
            Event::TransferMore { link, wire, token, payload, more, settled } => match token {
                Some(delivery) if delivery.is_elsewhere() => {
                    return self.more_elsewhere(id, delivery, wire, &payload, !more, settled);
                }
                Some(delivery) => self.router.delivery_more(delivery, payload, !more, settled, now),
                None => self.held_more(id, link, wire, payload, more, settled, now),
            },
            Event::TransferAborted { link, wire, token } => match token {
                Some(delivery) if delivery.is_elsewhere() => return self.aborted_elsewhere(id, delivery, wire),
                Some(delivery) => self.router.delivery_aborted(delivery, now),
                None => self.held_aborted(id, link, wire, now),
            },
            Event::Credit { link, delivery_count, limit, drain } => {
                let Some(token) = self.link_token(id, link) else { return 1 };
                if token.shard().is_some() {
                    return self.credit_elsewhere(id, link, delivery_count, limit, drain);
                }
                self.router.credit(token, delivery_count, limit, drain, now);
            }
            Event::SenderDrained { link, returned } => {
                let Some(token) = self.link_token(id, link) else { return 1 };
                if let Some(owner) = token.shard() {
                    return self.sender_drained_elsewhere(id, link, owner, returned);
                }
                self.router.sender_drained(token, returned, now);
            }
            Event::PayloadSent { delivery, link, bytes, complete } => {
                if delivery.is_elsewhere() {
                    return self.payload_sent_elsewhere(id, link, delivery, bytes, complete);
                }
                self.router.payload_sent(delivery, bytes, complete, now)
            }
            Event::SessionWritable { session } => self.router.session_writable(id, session, now),
            rare => return self.rare_event(id, rare, now),
        }
        1
    }

    /// Events of a connection's or link's life: they may allocate.
    #[cold]
    fn rare_event(&mut self, id: ConnectionId, event: Event, now: Time) -> u64 {
        match event {
            Event::SaslInit(init) => self.sasl_init(id, *init),
            Event::SaslResponse(response) => self.sasl_response(id, &response),
            Event::Opened(open) => self.opened(id, *open, now),
            Event::Attached { link, attach } => self.attach_asked(id, link, attach, now),
            Event::LinkEnded { link, token, closed, error } => {
                self.link_forgotten(id, link);
                self.link_ended_elsewhere(id, link, token, closed);
                if let Some(token) = token {
                    self.link_ended(id, token, closed, error, now);
                }
            }
            Event::Unsent { delivery } if delivery.is_elsewhere() => self.unsent_elsewhere(delivery),
            Event::Unsent { delivery } => self.router.delivery_unsent(delivery, now),
            Event::Refused { delivery, link, settled } if delivery.is_elsewhere() => {
                self.refused_elsewhere(id, link, delivery, settled);
            }
            Event::Refused { delivery, .. } => self.router.delivery_too_large(delivery, now),
            Event::SessionFull { session } => return self.session_full(id, session, now),
            Event::Closed { error } => self.connection_over(id, error, now),
            _ => {}
        }
        // Behind the attach that makes a connection move nothing is heard here.
        let peer = find(&mut self.peers, id);
        if peer.is_some_and(|peer| peer.moving.is_some() || peer.rests_for.is_some()) {
            REST
        } else {
            RARE_EVENT_COST
        }
    }

    fn link_token(&mut self, id: ConnectionId, link: LinkHandle) -> Option<LinkId> {
        find(&mut self.peers, id)?.engine.link_token(link)
    }

    fn attached(&mut self, id: ConnectionId, link: LinkHandle, attach: &RemoteAttach, now: Time) {
        let Some(peer) = find(&mut self.peers, id) else { return };
        let connection = peer.number;
        let Some(direction) = attach.direction else { return };
        let (name, address) = (attach.name.clone(), address_of(&attach.terminus));
        let asked = Attach {
            port: Port { connection: id, link },
            session: attach.session,
            direction,
            terminus: &attach.terminus,
            name: &attach.name,
            sender_settle_mode: attach.sender_settle_mode,
            receiver_settle_mode: attach.receiver_settle_mode,
        };
        let answer = match self.refuses_subscription(direction, &attach.terminus) {
            Some(fault) => Err(fault),
            None => self.router.attach(asked, now),
        };
        let Some(engine) = self.engine(id) else { return };
        match answer {
            Ok(attached) => {
                let answer = LinkAnswer {
                    sender_settle_mode: attached.sender_settle_mode,
                    receiver_settle_mode: attached.receiver_settle_mode,
                    dynamic_address: attached.dynamic_address.as_deref(),
                    max_message_size: None,
                };
                engine.accept_link(link, attached.link, answer);
                if let Some(peer) = find(&mut self.peers, id) {
                    peer.links.insert(link);
                }
                let link = attached.link;
                if let Some(from) = attached.events_from {
                    self.publisher.joined(link, from);
                }
                let address = attached.dynamic_address.or(address);
                self.report(Report::LinkAttached { connection, link, name, address, direction });
            }
            Err(fault) => {
                engine.refuse_link(link, &fault);
                let condition = fault.condition;
                self.report(Report::LinkRefused { connection, name, address, direction, condition });
            }
        }
    }

    fn link_forgotten(&mut self, id: ConnectionId, link: LinkHandle) {
        let Some(peer) = find(&mut self.peers, id) else { return };
        peer.links.remove(&link);
        if let Some(held) = take_held(peer, link) {
            // The session may live on: its window has to.
            if let Some(engine) = self.engine(id) {
                engine.payload_released(held.wire.session, held.payload.len());
            }
        }
    }

    fn link_ended(
        &mut self,
        id: ConnectionId,
        token: LinkId,
        closed: bool,
        error: Option<Box<RemoteError>>,
        now: Time,
    ) {
        self.link_gone(token, closed, now);
        if let Some(connection) = find(&mut self.peers, id).map(|peer| peer.number) {
            self.report(Report::LinkDetached { connection, link: token, error });
        }
    }

    /// A link in this router is over.
    fn link_gone(&mut self, link: LinkId, closed: bool, now: Time) {
        self.router.link_ended(link, closed, now);
        self.own_link_gone(link, now);
    }

    fn connection_over(&mut self, id: ConnectionId, error: Option<Box<RemoteError>>, now: Time) {
        let Some(peer) = find(&mut self.peers, id) else { return };
        peer.held.clear();
        peer.held_bytes = 0;
        peer.links.clear();
        let connection = peer.number;
        if std::mem::replace(&mut peer.opened, false) {
            self.router.connection_closed(id, now);
        }
        self.requester_gone(connection, now);
        self.connection_over_elsewhere(id);
        self.report(Report::ConnectionClosed { connection, error });
    }

    // ── deliveries ──

    /// `tried`: the straight way was looked for, and there is none.
    fn transfer(&mut self, id: ConnectionId, transfer: Transfer, tried: bool, now: Time) -> u64 {
        self.deliveries_in += 1;
        let Some(link) = transfer.token else { return 1 };
        let Transfer { link: handle, wire, message_format, settled, more, payload, .. } = transfer;
        let is_plain = wire::annotations::are_absent(&payload);
        let transfer = Held { wire, message_format, settled, payload, lent: 0, looks: Looks::default() };
        match (is_plain, tried) {
            (false, _) => self.look_into(id, (handle, link), transfer, more, now),
            (true, false) => self.route(id, (handle, link), transfer, more, now),
            (true, true) => self.unusual_transfer(id, (handle, link), transfer, more, now),
        }
    }

    fn route(&mut self, id: ConnectionId, link: (LinkHandle, LinkId), transfer: Held, more: bool, now: Time) -> u64 {
        let usual = !(more || self.annotations.are_used);
        let unusual = if usual { self.pass_alone(id, link.1, transfer, now) } else { Some(transfer) };
        unusual.map_or(1, |transfer| self.unusual_transfer(id, link, transfer, more, now))
    }

    fn unusual_transfer(
        &mut self,
        id: ConnectionId,
        link: (LinkHandle, LinkId),
        transfer: Held,
        more: bool,
        now: Time,
    ) -> u64 {
        // The message itself says where it goes; until that has arrived, it is held.
        if self.router.is_anonymous(link.1) {
            return self.look_for_to(id, link, transfer, more, now);
        }
        let Held { wire, message_format, settled, payload, .. } = transfer;
        let arrival = Arrival { wire, message_format, settled, complete: !more, payload, to: None };
        match link.1.shard() {
            Some(owner) => return self.deliver_elsewhere(id, link.0, owner, arrival),
            None => self.arrive(id, link.1, arrival, now),
        }
        1
    }

    #[inline]
    fn arrive(&mut self, id: ConnectionId, link: LinkId, arrival: Arrival<'_>, now: Time) {
        let wire = arrival.wire;
        // What is settled and complete is never spoken of again.
        let forgotten = arrival.settled && arrival.complete;
        if let Some(delivery) = self.router.delivery(link, arrival, now) {
            if !forgotten {
                self.keep(id, wire, delivery);
            }
        }
    }

    #[inline]
    fn keep(&mut self, id: ConnectionId, wire: WireDelivery, delivery: DeliveryId) {
        if let Some(peer) = find(&mut self.peers, id) {
            peer.engine.set_incoming_token(wire, delivery);
        }
    }

    // ── outputs ──

    /// Hands all of the router's outputs to engines.
    #[inline]
    fn apply_outputs(&mut self) {
        while self.router.has_outputs() {
            let Some(output) = self.router.poll_output() else { break };
            self.apply(output);
        }
    }

    #[inline]
    fn apply(&mut self, output: Output) {
        match output {
            Output::Send { port, delivery, message_format, settled, complete, mut payload } => {
                let fewer = self.annotate(port.connection, complete, &mut payload);
                let Some(engine) = self.engine(port.connection) else {
                    return self.tell(Output::Send { port, delivery, message_format, settled, complete, payload });
                };
                let sent = engine.send(port.link, delivery, message_format, settled, complete, payload);
                self.deliveries_out += 1;
                self.after_send(port, sent);
                if fewer > 0 && !complete && sent == Sent::Partly {
                    // They left the router, too: the stream goes on when what the router counts has.
                    let now = self.router.now();
                    self.router.payload_sent(delivery, fewer, false, now);
                }
            }
            Output::DisposeIncoming { port, wire, state, settled } => match self.engine(port.connection) {
                Some(engine) => engine.dispose_incoming(wire, state, settled),
                None => self.tell(Output::DisposeIncoming { port, wire, state, settled }),
            },
            Output::Credit { port, add, drain } => match self.engine(port.connection) {
                Some(engine) => engine.grant(port.link, add, drain),
                None => self.tell(Output::Credit { port, add, drain }),
            },
            Output::PayloadReleased { connection, session, bytes } => match self.engine(connection) {
                Some(engine) => engine.payload_released(session, bytes),
                None => self.tell(Output::PayloadReleased { connection, session, bytes }),
            },
            Output::PlacesLent { connection, session, places } => match self.engine(connection) {
                Some(engine) => engine.places_lent(session, places),
                None => self.tell(Output::PlacesLent { connection, session, places }),
            },
            Output::DisposeOutgoing { port, wire, state, settled } => match self.engine(port.connection) {
                Some(engine) => engine.dispose_outgoing(wire, state, settled),
                None => self.tell(Output::DisposeOutgoing { port, wire, state, settled }),
            },
            Output::SendMore { port, delivery, complete, payload } => {
                let Some(engine) = self.engine(port.connection) else {
                    return self.tell(Output::SendMore { port, delivery, complete, payload });
                };
                let sent = engine.send_more(port.link, delivery, complete, payload);
                self.after_send(port, sent);
            }
            Output::SendAbort { port, delivery } => self.abort(port, delivery),
            Output::Drained { port } => match self.engine(port.connection) {
                Some(engine) => engine.drained(port.link),
                None => self.tell(Output::Drained { port }),
            },
            Output::Detach { port, fault } => match self.engine(port.connection) {
                Some(engine) => engine.detach(port.link, &fault),
                None => self.tell(Output::Detach { port, fault }),
            },
        }
    }

    fn abort(&mut self, port: Port, delivery: DeliveryId) {
        let Some(engine) = self.engine(port.connection) else {
            return self.tell(Output::SendAbort { port, delivery });
        };
        let sent = engine.send_abort(port.link, delivery);
        self.after_send(port, sent);
    }

    /// Tells the router, before it gives its next output, what a send left no room for.
    #[inline]
    fn after_send(&mut self, port: Port, sent: Sent) {
        if sent == (Sent::Whole { room: true }) {
            return;
        }
        let Some(peer) = find(&mut self.peers, port.connection) else { return };
        match sent {
            Sent::Partly => {
                if let Some(link) = peer.engine.link_token(port.link) {
                    self.router.link_busy(link);
                }
            }
            Sent::Whole { .. } => self.session_blocked(port),
        }
    }

    /// The session of this link takes nothing for now.
    #[cold]
    fn session_blocked(&mut self, port: Port) {
        let session = find(&mut self.peers, port.connection).and_then(|peer| peer.engine.link_session(port.link));
        if let Some(session) = session {
            self.router.session_blocked(port.connection, session);
        }
    }
}

fn address_of(terminus: &Terminus) -> Option<String> {
    match terminus {
        Terminus::Node { address, .. } => address.clone(),
        Terminus::Coordinator => Some("$coordinator".to_owned()),
        Terminus::Absent => None,
    }
}

/// What happened.
impl Dispatch {
    /// A connection was accepted. Its id stays until `closed`. Gives its number in reports.
    pub fn accepted(
        &mut self,
        id: ConnectionId,
        settings: &Arc<engine::Settings>,
        link_capacity: u32,
        now: Time,
    ) -> u64 {
        let mut engine = Engine::new(settings.clone(), now);
        admission::admit(&mut engine);
        if self.trace.is_of_all {
            engine.set_trace(true);
        }
        let number = self.next_number;
        self.next_number += u64::from(self.shards);
        let peer = Box::new(Peer::new(id, engine, number, link_capacity));
        self.seat(peer);
        number
    }

    /// Puts a connection into its place.
    fn seat(&mut self, peer: Box<Peer>) {
        self.listens(peer.engine.settings());
        let index = peer.id.index as usize;
        if self.peers.len() <= index {
            self.peers.resize_with(index + 1, || None);
        }
        self.peers[index] = Some(peer);
    }

    /// Bytes came. A read that brought little is copied together with others, so that what is kept of it (a stream's
    /// frames behind a slow consumer) doesn't keep a chunk each.
    pub fn received(&mut self, id: ConnectionId, mut bytes: Range, now: Time) {
        if bytes.len() < PACKED_BYTES_MAX {
            bytes = self.packer.pack(bytes.as_slice());
        }
        if let Some(engine) = self.engine(id) {
            engine.handle_input(bytes, now);
            self.pump(id, EVENTS_AT_ONCE, now);
        }
    }

    /// The peer sends no more, or the connection broke.
    pub fn end_of_stream(&mut self, id: ConnectionId, now: Time) {
        if let Some(engine) = self.engine(id) {
            engine.handle_end_of_stream(now);
        }
    }

    /// The moment that `connection_timeout` named has come (or an earlier one).
    pub fn handle_timeout(&mut self, id: ConnectionId, now: Time) {
        if let Some(engine) = self.engine(id) {
            engine.handle_timeout(now);
        }
    }

    /// When to call `handle_timeout` though nothing happens.
    #[inline]
    pub fn connection_timeout(&mut self, id: ConnectionId) -> Option<Time> {
        find(&mut self.peers, id)?.engine.poll_timeout()
    }

    /// Whether bytes are to be read at all now.
    pub fn wants_input(&mut self, id: ConnectionId) -> bool {
        find(&mut self.peers, id)
            .is_some_and(|peer| !peer.deferred && peer.moving.is_none() && peer.engine.wants_input())
    }

    /// Does what follows from all that happened, and puts each connection that may have output, an end or another
    /// time-out into `touched` (more than once does no harm).
    pub fn run(&mut self, now: Time, touched: &mut Vec<ConnectionId>) {
        if self.router.poll_timeout().is_some_and(|at| at <= now) {
            self.router.handle_timeout(now);
            self.apply_outputs();
            self.report_links();
        }
        if !self.deferred.is_empty() && now > self.deferred_at {
            self.resume();
        }
        loop {
            // What nobody's events brought about.
            self.apply_outputs();
            while let Some(id) = self.pending.pop() {
                if let Some(peer) = find(&mut self.peers, id) {
                    // Before its events: what they bring about may make it pending again.
                    peer.pending = false;
                    touched.push(id);
                    self.pump(id, EVENTS_AT_ONCE, now);
                    if let Some(peer) = find(&mut self.peers, id) {
                        self.outputs.note_engine(&peer.engine, &mut peer.output_bytes);
                        peer.facts.note_sends(peer.engine.sends(), now);
                    }
                }
            }
            if !self.publisher.is_due() {
                break;
            }
            self.publish_due(now);
        }
    }

    /// Edges of addresses' depths, after a `run`. `push` says whether it took one; what it doesn't take is there the next
    /// time, as a count and the latest figures.
    #[inline]
    pub fn flush_edges(&mut self, push: impl FnMut(&str, &Edge) -> bool) {
        self.router.flush_edges(push);
    }

    /// Whether edges wait for `flush_edges`.
    #[inline]
    pub fn has_edges(&self) -> bool {
        self.router.has_edges()
    }

    /// An edge, of this shard or another one, for the subscribers here. `timestamp`: milliseconds since 1970. `run` sends
    /// it.
    pub fn publish(&mut self, address: &str, edge: Edge, timestamp: i64) {
        self.publisher.edge(address, edge, timestamp);
    }

    /// When to call `run` though nothing happens.
    pub fn next_timeout(&self) -> Option<Time> {
        let timeout = self.router.poll_timeout();
        // Who rests for a crowded shard goes on when that has room.
        let goes_on = |id: &ConnectionId| {
            let peer = self.peers.get(id.index as usize).and_then(Option::as_ref);
            !peer.and_then(|peer| peer.rests_for).is_some_and(|shard| self.outbox.is_crowded(shard))
        };
        if !self.deferred.iter().any(goes_on) {
            return timeout;
        }
        let next = self.deferred_at + Duration::from_nanos(1);
        Some(timeout.map_or(next, |timeout| timeout.min(next)))
    }

    /// What there is to send. Its buffers are the driver's until `transmitted` gives them back.
    #[inline]
    pub fn poll_transmit(&mut self, id: ConnectionId) -> Option<Transmit> {
        let peer = find(&mut self.peers, id)?;
        let transmit = peer.engine.poll_transmit();
        self.outputs.note_polled(transmit.as_ref(), &mut peer.output_bytes);
        if peer.engine.has_work() {
            if !(peer.pending || peer.deferred) {
                peer.pending = true;
                self.pending.push(id);
            }
        } else if let Some(unused) = peer.engine.reclaim_output() {
            self.outputs.put_noted(unused, std::mem::take(&mut peer.output_bytes));
        }
        if self.trace.is_any {
            self.drain_trace(id);
        }
        transmit
    }

    /// A buffer that no engine had (what a cancelled send left) is on its way out: it counts until `transmitted`.
    pub fn lent(&mut self, transmit: &Transmit) {
        self.outputs.note(0, transmit.bytes.capacity());
    }

    /// A send is over.
    #[inline]
    pub fn transmitted(&mut self, mut transmit: Transmit) {
        transmit.clear();
        self.outputs.put(transmit);
    }

    /// The next fact for the log.
    pub fn poll_report(&mut self) -> Option<Report> {
        self.reports.pop_front()
    }

    /// Nothing more will come out, and nothing more is wanted: the connection may end once its output is sent.
    #[inline]
    pub fn is_finished(&mut self, id: ConnectionId) -> bool {
        find(&mut self.peers, id).is_none_or(|peer| peer.engine.is_closed())
    }

    /// The connection is gone.
    pub fn closed(&mut self, id: ConnectionId, now: Time) {
        self.void_move(id);
        if let Some(peer) = find(&mut self.peers, id) {
            // What it still says doesn't make it move.
            peer.is_home = true;
        }
        // Its engine has closed as a rule; where the socket ended under it, its links end here.
        if let Some(engine) = self.engine(id) {
            engine.handle_end_of_stream(now);
            self.pump(id, u64::MAX, now);
        }
        if let Some(slot) = self.peers.get_mut(id.index as usize) {
            if let Some(peer) = slot.take_if(|peer| peer.id == id) {
                self.outputs.note(peer.output_bytes, 0);
                peer.engine.settings().memory.leave();
            }
        }
    }

    /// Ends every connection in an orderly way; their ends show in `is_finished`.
    pub fn stop(&mut self) {
        self.stopped = true;
        let ids: Vec<ConnectionId> = self.peers.iter().flatten().map(|peer| peer.id).collect();
        for id in ids {
            self.void_move(id);
            self.close(id);
        }
    }

    /// Ends a connection in an orderly way.
    fn close(&mut self, id: ConnectionId) {
        let fault = Fault::connection("amqp:connection:forced", "the router is shutting down");
        let link_fault = Fault::link("amqp:connection:forced", "the router is shutting down");
        let links: Vec<LinkHandle> =
            find(&mut self.peers, id).map(|peer| peer.links.iter().copied().collect()).unwrap_or_default();
        let Some(engine) = self.engine(id) else { return };
        for link in links {
            engine.detach(link, &link_fault);
        }
        engine.close(Some(&fault));
    }
}

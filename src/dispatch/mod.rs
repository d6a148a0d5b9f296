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

mod anonymous;
mod events;
mod outputs;
mod report;
mod rows;

pub use report::Report;
pub use rows::{LinkRow, Page, RouterRow, Rows, Table};

use crate::engine::{
    self, Engine, Event, LinkAnswer, RemoteAttach, RemoteError, RemoteOpen, SaslInit, Sent, Transfer, Transmit,
};
use crate::ids::{ConnectionId, DeliveryId, LinkHandle, LinkId, Port, SessionNumber, WireDelivery};
use crate::limits;
use crate::link::Terminus;
use crate::outcome::Fault;
use crate::payload::{Packer, Payload, Pool, Range};
use crate::routing::{Arrival, Attach, Edge, Output, Router, RouterSettings};
use crate::security::{Exchange, Step};
use crate::time::Time;
use anonymous::{Destination, Held};
use events::{Publication, Publisher};
use outputs::Outputs;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Events of one connection that are acted on before others have their turn. One read may bring about millions: a
/// disposition names a hundred thousand deliveries in thirty bytes.
const EVENTS_AT_ONCE: u64 = 16 * 1024;
/// What an event of a link's or connection's life counts as.
const RARE_EVENT_COST: u64 = 16;

/// Reads of fewer bytes are packed: what stays of the others keeps at most eight times its size in chunks.
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
    /// In `Dispatch::pending`.
    pending: bool,
    /// In `Dispatch::deferred`: no more input until its turn comes.
    deferred: bool,
    /// The router knows this connection.
    opened: bool,
    exchange: Option<(Exchange, String)>,
    /// Links that the router knows, for the stop; in an order that doesn't vary from run to run.
    links: BTreeSet<LinkHandle>,
    /// Messages of anonymous links whose `to` has not arrived yet.
    held: BTreeMap<LinkHandle, Held>,
    /// Payload bytes of them.
    held_bytes: usize,
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
    /// Drained by the driver after each call, so it is as long as one call's work.
    reports: VecDeque<Report>,
    trace: bool,
    next_number: u64,
    pub deliveries_in: u64,
    pub deliveries_out: u64,
}

/// Sees to it that an engine has a buffer to write to.
#[inline]
fn lend(peer: &mut Peer, outputs: &mut Outputs) {
    if peer.engine.needs_output() {
        peer.engine.give_output(outputs.take());
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

/// Takes a held message out.
fn take_held(peer: &mut Peer, link: LinkHandle) -> Option<Held> {
    let held = peer.held.remove(&link)?;
    peer.held_bytes -= held.payload.len();
    Some(held)
}

impl Dispatch {
    /// `trace`: report every frame.
    pub fn new(router: RouterSettings, trace: bool, now: Time) -> Dispatch {
        Dispatch {
            publisher: Publisher::new(&router.router_id),
            router: Router::new(router, now),
            peers: Vec::new(),
            pending: Vec::with_capacity(1024),
            deferred: Vec::new(),
            deferred_at: now,
            outputs: Outputs::default(),
            packer: Packer::new(Pool::new(limits::CHUNK_BYTES, PACKING_CHUNKS_KEPT)),
            reports: VecDeque::new(),
            trace,
            next_number: 1,
            deliveries_in: 0,
            deliveries_out: 0,
        }
    }

    /// The router, to look at.
    pub fn router(&self) -> &Router {
        &self.router
    }

    fn report(&mut self, report: Report) {
        self.reports.push_back(report);
    }

    /// An engine about to be told something: it has an output buffer, and its events are drained afterwards.
    #[inline]
    fn engine(&mut self, id: ConnectionId) -> Option<&mut Engine> {
        let peer = find(&mut self.peers, id)?;
        lend(peer, &mut self.outputs);
        if !peer.pending {
            peer.pending = true;
            self.pending.push(id);
        }
        Some(&mut peer.engine)
    }

    /// Drains an engine's events into the router, batch by batch: all of them, or what `left` allows. Then the connection is
    /// deferred.
    fn pump(&mut self, id: ConnectionId, mut left: u64, now: Time) {
        if let Some(peer) = find(&mut self.peers, id) {
            if peer.deferred && left != u64::MAX {
                return;
            }
            lend(peer, &mut self.outputs);
        }
        loop {
            while let Some(event) = find(&mut self.peers, id).and_then(|peer| peer.engine.poll_batch()) {
                let cost = self.event(id, event, now);
                left = left.saturating_sub(cost);
                if left == 0 {
                    self.defer(id, now);
                    break;
                }
            }
            self.apply_outputs();
            if left == 0 {
                break;
            }
            if !find(&mut self.peers, id).is_some_and(|peer| peer.engine.next_batch()) {
                break;
            }
        }
        if self.trace {
            self.drain_trace(id);
        }
    }

    #[cold]
    fn defer(&mut self, id: ConnectionId, now: Time) {
        if let Some(peer) = find(&mut self.peers, id) {
            peer.deferred = true;
            self.deferred.push(id);
            self.deferred_at = now;
        }
    }

    /// Connections that had their share and go on, now that the others had theirs.
    #[cold]
    fn resume(&mut self) {
        for id in std::mem::take(&mut self.deferred) {
            if let Some(peer) = find(&mut self.peers, id) {
                peer.deferred = false;
                if !peer.pending {
                    peer.pending = true;
                    self.pending.push(id);
                }
            }
        }
    }

    fn drain_trace(&mut self, id: ConnectionId) {
        while let Some(peer) = find(&mut self.peers, id) {
            let Some(line) = peer.engine.poll_trace() else { return };
            let connection = peer.number;
            self.report(Report::Trace { connection, line });
        }
    }

    // ── events ──

    #[inline]
    fn event(&mut self, id: ConnectionId, event: Event, now: Time) -> u64 {
        match event {
            Event::Transfer(transfer) => self.transfer(id, transfer, now),
            Event::ReceiverDisposition { delivery, wire, state, settled } => {
                self.router.receiver_disposition(delivery, wire, state, settled, now)
            }
            Event::SenderDisposition { token: Some(delivery), state, settled, .. } => {
                self.router.sender_disposition(delivery, state, settled, now)
            }
            // Of a delivery that routing is done with.
            Event::SenderDisposition { token: None, .. } => {}
            Event::TransferMore { link, wire, token, payload, more, settled } => match token {
                Some(delivery) => self.router.delivery_more(delivery, payload, !more, settled, now),
                None => self.held_more(id, link, wire, payload, more, settled, now),
            },
            Event::TransferAborted { link, wire, token } => match token {
                Some(delivery) => self.router.delivery_aborted(delivery, now),
                None => self.held_aborted(id, link, wire, now),
            },
            Event::Credit { link, delivery_count, limit, drain } => {
                if let Some(link) = self.link_token(id, link) {
                    self.router.credit(link, delivery_count, limit, drain, now);
                }
            }
            Event::SenderDrained { link, returned } => {
                if let Some(link) = self.link_token(id, link) {
                    self.router.sender_drained(link, returned, now);
                }
            }
            Event::PayloadSent { delivery, bytes, complete, .. } => {
                self.router.payload_sent(delivery, bytes, complete, now)
            }
            Event::SessionWritable { session } => self.router.session_writable(id, session, now),
            rare => {
                self.rare_event(id, rare, now);
                return RARE_EVENT_COST;
            }
        }
        1
    }

    /// Events of a connection's or link's life: they may allocate.
    #[cold]
    fn rare_event(&mut self, id: ConnectionId, event: Event, now: Time) {
        match event {
            Event::SaslInit(init) => self.sasl_init(id, *init),
            Event::SaslResponse(response) => self.sasl_response(id, &response),
            Event::Opened(open) => self.opened(id, *open),
            Event::Attached { link, attach } => self.attached(id, link, &attach, now),
            Event::LinkEnded { link, token, closed, error } => {
                self.link_forgotten(id, link);
                if let Some(token) = token {
                    self.link_ended(id, token, closed, error, now);
                }
            }
            Event::SessionFull { session } => self.session_full(id, session, now),
            Event::Closed { error } => self.connection_over(id, error, now),
            _ => {}
        }
    }

    /// A session's window is shut. Messages held for their address will be long before they are whole: their bytes count
    /// no longer, and the router does what it can about its own.
    fn session_full(&mut self, id: ConnectionId, session: SessionNumber, now: Time) {
        if let Some(peer) = find(&mut self.peers, id) {
            let held = peer.held.values().filter(|held| held.wire.session == session);
            let bytes = held.map(|held| held.payload.len()).sum();
            peer.engine.payload_released(session, bytes);
        }
        self.router.session_full(id, session, now);
    }

    fn link_token(&mut self, id: ConnectionId, link: LinkHandle) -> Option<LinkId> {
        find(&mut self.peers, id)?.engine.link_token(link)
    }

    fn sasl_init(&mut self, id: ConnectionId, init: SaslInit) {
        let Some(engine) = self.engine(id) else { return };
        let offered = engine.settings().clone();
        let (exchange, step) =
            Exchange::begin(&init.mechanism, &offered.sasl_mechanisms, init.initial_response.as_deref());
        if let Some(peer) = find(&mut self.peers, id) {
            peer.exchange = Some((exchange, init.mechanism));
        }
        self.sasl_step(id, step);
    }

    fn sasl_response(&mut self, id: ConnectionId, response: &[u8]) {
        let Some(peer) = find(&mut self.peers, id) else { return };
        let step = match &mut peer.exchange {
            Some((exchange, _)) => exchange.respond(Some(response)),
            None => Step::Refused,
        };
        self.sasl_step(id, step);
    }

    fn sasl_step(&mut self, id: ConnectionId, step: Step) {
        let Some(engine) = self.engine(id) else { return };
        let (accepted, user) = match step {
            Step::Challenge(challenge) => return engine.sasl_challenge(&challenge),
            Step::Accepted { user } => (true, Some(user)),
            Step::Refused => (false, None),
        };
        engine.sasl_outcome(accepted);
        let Some(peer) = find(&mut self.peers, id) else { return };
        let mechanism = peer.exchange.take().map(|(_, mechanism)| mechanism).unwrap_or_default();
        let connection = peer.number;
        self.report(Report::Authenticated { connection, mechanism, user, accepted });
    }

    fn opened(&mut self, id: ConnectionId, open: RemoteOpen) {
        let Some(peer) = find(&mut self.peers, id) else { return };
        peer.opened = true;
        let (connection, link_capacity) = (peer.number, peer.link_capacity);
        self.router.connection_opened(id, link_capacity);
        self.report(Report::ConnectionOpened {
            connection,
            container_id: open.container_id,
            hostname: open.hostname,
            product: open.product,
            version: open.version,
        });
    }

    fn attached(&mut self, id: ConnectionId, link: LinkHandle, attach: &RemoteAttach, now: Time) {
        let Some(peer) = find(&mut self.peers, id) else { return };
        let connection = peer.number;
        let Some(direction) = attach.direction else { return };
        let (name, address) = (attach.name.clone(), address_of(&attach.terminus));
        let answer = self.router.attach(
            Attach {
                port: Port { connection: id, link },
                session: attach.session,
                direction,
                terminus: &attach.terminus,
                name: &attach.name,
                sender_settle_mode: attach.sender_settle_mode,
                receiver_settle_mode: attach.receiver_settle_mode,
            },
            now,
        );
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
        self.router.link_ended(token, closed, now);
        if let Some(from) = self.publisher.left(token) {
            self.router.link_ended(from, true, now);
        }
        if let Some(connection) = find(&mut self.peers, id).map(|peer| peer.number) {
            self.report(Report::LinkDetached { connection, link: token, error });
        }
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
        self.report(Report::ConnectionClosed { connection, error });
    }

    // ── deliveries ──

    #[inline]
    fn transfer(&mut self, id: ConnectionId, transfer: Transfer, now: Time) {
        self.deliveries_in += 1;
        let Some(link) = self.link_token(id, transfer.link) else { return };
        if self.router.is_anonymous(link) {
            return self.anonymous_transfer(id, link, transfer, now);
        }
        let Transfer { wire, message_format, settled, more, payload, .. } = transfer;
        self.arrive(id, link, Arrival { wire, message_format, settled, complete: !more, payload, to: None }, now);
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

    /// On an anonymous link the message itself says where it goes; until that has arrived, the message is held.
    fn anonymous_transfer(&mut self, id: ConnectionId, link: LinkId, transfer: Transfer, now: Time) {
        let held = Held {
            wire: transfer.wire,
            message_format: transfer.message_format,
            settled: transfer.settled,
            payload: transfer.payload,
        };
        self.look_for_to(id, (transfer.link, link), held, transfer.more, now);
    }

    /// `link`: as the engine names it, and the router.
    fn look_for_to(&mut self, id: ConnectionId, link: (LinkHandle, LinkId), mut held: Held, more: bool, now: Time) {
        let (handle, link) = link;
        let mut scratch = anonymous::SCRATCH;
        // The address is read out of a second reference to the same bytes, while the first goes to the router.
        let probe = held.payload.clone();
        let (to, is_decodable) = match anonymous::destination(&probe, !more, &mut scratch) {
            Destination::Address(to) => (Some(to), true),
            Destination::Nowhere => (None, true),
            Destination::Undecodable => (None, false),
            // All of a connection's links together hold so much, whatever its windows are.
            Destination::Later if !self.may_hold(id, held.payload.len()) => (None, true),
            Destination::Later => {
                self.packer.pack_payload(&mut held.payload, limits::COPY_BYTES_MAX);
                if let Some(peer) = find(&mut self.peers, id) {
                    peer.held_bytes += held.payload.len();
                    peer.held.insert(handle, held);
                }
                return;
            }
        };
        let Held { wire, message_format, settled, payload } = held;
        let arrival = Arrival { wire, message_format, settled, complete: !more, payload, to };
        if is_decodable {
            self.arrive(id, link, arrival, now);
        } else if let Some(delivery) = self.router.delivery_undecodable(link, arrival, now) {
            self.keep(id, wire, delivery);
        }
    }

    fn may_hold(&mut self, id: ConnectionId, bytes: usize) -> bool {
        find(&mut self.peers, id).is_some_and(|peer| peer.held_bytes + bytes <= anonymous::HELD_BYTES_MAX)
    }

    /// A later frame of a message that the router doesn't have: held, or done with.
    #[allow(clippy::too_many_arguments)]
    fn held_more(
        &mut self,
        id: ConnectionId,
        link: LinkHandle,
        wire: WireDelivery,
        mut payload: Payload,
        more: bool,
        settled: bool,
        now: Time,
    ) {
        let Some(peer) = find(&mut self.peers, id) else { return };
        let held = take_held(peer, link).filter(|held| held.wire == wire);
        let Some(mut held) = held else {
            let bytes = payload.len();
            if let Some(engine) = self.engine(id) {
                engine.payload_released(wire.session, bytes);
            }
            return;
        };
        self.packer.pack_payload(&mut payload, limits::COPY_BYTES_MAX);
        held.payload.append(payload);
        held.settled |= settled;
        if let Some(token) = peer.engine.link_token(link) {
            self.look_for_to(id, (link, token), held, more, now);
        }
    }

    fn held_aborted(&mut self, id: ConnectionId, link: LinkHandle, wire: WireDelivery, now: Time) {
        let Some(peer) = find(&mut self.peers, id) else { return };
        if let Some(held) = take_held(peer, link).filter(|held| held.wire == wire) {
            let link = peer.engine.link_token(link);
            if let Some(engine) = self.engine(id) {
                engine.payload_released(wire.session, held.payload.len());
            }
            if let Some(link) = link {
                self.router.delivery_unseen(link, now);
            }
        }
    }

    // ── outputs ──

    /// Hands all of the router's outputs to engines.
    #[inline]
    fn apply_outputs(&mut self) {
        while let Some(output) = self.router.poll_output() {
            self.apply(output);
        }
    }

    #[inline]
    fn apply(&mut self, output: Output) {
        match output {
            Output::Send { port, delivery, message_format, settled, complete, payload } => {
                let Some(engine) = self.engine(port.connection) else { return };
                let sent = engine.send(port.link, delivery, message_format, settled, complete, payload);
                self.deliveries_out += 1;
                self.after_send(port, sent);
            }
            Output::DisposeIncoming { connection, wire, state, settled } => {
                if let Some(engine) = self.engine(connection) {
                    engine.dispose_incoming(wire, state, settled);
                }
            }
            Output::Credit { port, add, drain } => match self.engine(port.connection) {
                Some(engine) => engine.grant(port.link, add, drain),
                None => self.own_credit(port, add, drain),
            },
            Output::PayloadReleased { connection, session, bytes } => {
                if let Some(engine) = self.engine(connection) {
                    engine.payload_released(session, bytes);
                }
            }
            Output::DisposeOutgoing { connection, wire, state, settled } => {
                if let Some(engine) = self.engine(connection) {
                    engine.dispose_outgoing(wire, state, settled);
                }
            }
            Output::SendMore { port, delivery, complete, payload } => {
                let Some(engine) = self.engine(port.connection) else { return };
                let sent = engine.send_more(port.link, delivery, complete, payload);
                self.after_send(port, sent);
            }
            Output::SendAbort { port, delivery } => self.abort(port, delivery),
            Output::Drained { port } => {
                if let Some(engine) = self.engine(port.connection) {
                    engine.drained(port.link);
                }
            }
            Output::Detach { port, fault } => {
                if let Some(engine) = self.engine(port.connection) {
                    engine.detach(port.link, &fault);
                }
            }
        }
    }

    /// Credit for a link of the router's own: a subscriber takes events.
    #[cold]
    fn own_credit(&mut self, port: Port, add: u32, drain: bool) {
        if port.connection == ConnectionId::ROUTER {
            let subscriber = LinkId { index: port.link.index, generation: port.link.generation };
            self.publisher.credit(subscriber, add, drain);
        }
    }

    /// Sends what subscribers have credit for.
    #[cold]
    fn publish_due(&mut self, now: Time) {
        while let Some(publication) = self.publisher.poll() {
            let from = match publication {
                Publication::Message { from, payload } => {
                    let wire = WireDelivery { session: SessionNumber(0), delivery_id: 0 };
                    let message_format = 0;
                    let arrival = Arrival { wire, message_format, settled: true, complete: true, payload, to: None };
                    self.router.delivery(from, arrival, now);
                    self.apply_outputs();
                    continue;
                }
                Publication::Drained { from } => from,
            };
            self.router.sender_drained(from, u32::MAX, now);
            self.apply_outputs();
        }
    }

    fn abort(&mut self, port: Port, delivery: DeliveryId) {
        let Some(engine) = self.engine(port.connection) else { return };
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
            Sent::Whole { .. } => {
                if let Some(session) = peer.engine.link_session(port.link) {
                    self.router.session_blocked(port.connection, session);
                }
            }
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
        if self.trace {
            engine.set_trace(true);
        }
        let number = self.next_number;
        self.next_number += 1;
        let peer = Box::new(Peer {
            id,
            engine,
            number,
            link_capacity,
            pending: false,
            deferred: false,
            opened: false,
            exchange: None,
            links: BTreeSet::new(),
            held: BTreeMap::new(),
            held_bytes: 0,
        });
        let index = id.index as usize;
        if self.peers.len() <= index {
            self.peers.resize_with(index + 1, || None);
        }
        self.peers[index] = Some(peer);
        number
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
        find(&mut self.peers, id).is_some_and(|peer| !peer.deferred && peer.engine.wants_input())
    }

    /// Does what follows from all that happened, and puts each connection that may have output, an end or another
    /// time-out into `touched` (more than once does no harm).
    pub fn run(&mut self, now: Time, touched: &mut Vec<ConnectionId>) {
        if self.router.poll_timeout().is_some_and(|at| at <= now) {
            self.router.handle_timeout(now);
            self.apply_outputs();
        }
        if !self.deferred.is_empty() && now > self.deferred_at {
            self.resume();
        }
        loop {
            while let Some(id) = self.pending.pop() {
                if let Some(peer) = find(&mut self.peers, id) {
                    // Before its events: what they bring about may make it pending again.
                    peer.pending = false;
                    touched.push(id);
                    self.pump(id, EVENTS_AT_ONCE, now);
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
        if self.deferred.is_empty() {
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
        if peer.engine.has_work() {
            if !(peer.pending || peer.deferred) {
                peer.pending = true;
                self.pending.push(id);
            }
        } else if let Some(unused) = peer.engine.reclaim_output() {
            self.transmitted(unused);
        }
        if self.trace {
            self.drain_trace(id);
        }
        transmit
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
        // Its engine has closed as a rule; where the socket ended under it, its links end here.
        if let Some(engine) = self.engine(id) {
            engine.handle_end_of_stream(now);
            self.pump(id, u64::MAX, now);
        }
        if let Some(slot) = self.peers.get_mut(id.index as usize) {
            if slot.as_ref().is_some_and(|peer| peer.id == id) {
                *slot = None;
            }
        }
    }

    /// Report every frame from now on, or none.
    pub fn set_trace(&mut self, on: bool) {
        self.trace = on;
        for peer in self.peers.iter_mut().flatten() {
            peer.engine.set_trace(on);
        }
    }

    /// Ends every connection in an orderly way; their ends show in `is_finished`.
    pub fn stop(&mut self) {
        let ids: Vec<ConnectionId> = self.peers.iter().flatten().map(|peer| peer.id).collect();
        let fault = Fault::connection("amqp:connection:forced", "the router is shutting down");
        let link_fault = Fault::link("amqp:connection:forced", "the router is shutting down");
        for id in ids {
            let links: Vec<LinkHandle> =
                find(&mut self.peers, id).map(|peer| peer.links.iter().copied().collect()).unwrap_or_default();
            let Some(engine) = self.engine(id) else { continue };
            for link in links {
                engine.detach(link, &link_fault);
            }
            engine.close(Some(&fault));
        }
    }
}

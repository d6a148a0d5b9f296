//! The router: its state, its inputs as methods, and `poll_output`.
//!
//! What the inputs do is in files by the noun: `attach`, `arrival`, `assign`, `settle`, `multicast`,
//! `credit_flow`, `loss`.

use crate::arena::Arena;
use crate::ids::{AddressId, ConnectionId, DeliveryId, LinkId, Port, SessionNumber, ShardId, WireDelivery};
use crate::limits;
use crate::link::{Direction, ReceiverSettleMode, SenderSettleMode, Terminus};
use crate::payload::{Packer, Payload, Pool};
use crate::routing::address::Address;
use crate::routing::blocked::Watch;
use crate::routing::connection::Connections;
use crate::routing::counters::Counters;
use crate::routing::delivery::Deliveries;
use crate::routing::latency::Spread;
use crate::routing::link::Link;
use crate::routing::name::{self, Class, TemporaryNames};
use crate::routing::output::Output;
use crate::routing::rounds::{Round, Sampling};
use crate::routing::settings::{AddressMatch, AddressRule, Marks, RouterSettings};
use crate::routing::stuck::LOOKING;
use crate::routing::table::AddressTable;
use crate::routing::threshold::{Edge, EdgeOutbox};
use crate::time::{earliest, Time};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// A peer attaches a link.
#[derive(Debug)]
pub struct Attach<'a> {
    pub port: Port,
    pub session: SessionNumber,
    pub direction: Direction,
    /// The terminus at the router's end.
    pub terminus: &'a Terminus,
    pub name: &'a str,
    pub sender_settle_mode: SenderSettleMode,
    pub receiver_settle_mode: ReceiverSettleMode,
}

/// The router's answer to an attach that it accepts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attached {
    pub link: LinkId,
    /// The address that a dynamic node was given.
    pub dynamic_address: Option<String>,
    /// The receiver subscribed to threshold events: the router's own link, on which they are sent to it. Its credit goes
    /// to [`ConnectionId::ROUTER`] and the link handle of the same numbers as `link`.
    pub events_from: Option<LinkId>,
    pub sender_settle_mode: SenderSettleMode,
    pub receiver_settle_mode: ReceiverSettleMode,
}

/// A delivery's first frame.
#[derive(Debug)]
pub struct Arrival<'a> {
    pub wire: WireDelivery,
    pub message_format: u32,
    pub settled: bool,
    /// False: more follows with `delivery_more`.
    pub complete: bool,
    pub payload: Payload,
    /// On an anonymous link (see `is_anonymous`): the message's properties.to.
    pub to: Option<&'a str>,
}

/// The last `Send`, `SendMore` or `SendAbort` of a delivery that was polled, before it is known whether the engine took all of it.
pub(super) struct Polled {
    pub link: LinkId,
    pub delivery: DeliveryId,
}

/// Payload bytes of one session that have left the router and that its engine hasn't heard of.
pub(super) struct Released {
    pub connection: ConnectionId,
    pub session: SessionNumber,
    pub bytes: usize,
}

/// The routing of one shard.
pub struct Router {
    pub(super) settings: RouterSettings,
    pub(super) table: AddressTable,
    pub(super) addresses: Arena<AddressId, Address>,
    pub(super) links: Arena<LinkId, Link>,
    pub(super) deliveries: Deliveries,
    pub(super) connections: Connections,
    pub(super) temporary_names: TemporaryNames,
    /// Full sessions, one of whose deliveries may go on only when more of it comes.
    pub(super) starved: Vec<(ConnectionId, crate::routing::connection::SessionSlot)>,
    /// See [`Router::take_steps`].
    pub(super) steps: u64,
    /// Whose inputs they are counted for.
    pub(super) payer: Option<ConnectionId>,
    pub(super) packer: Packer,
    pub(super) totals: Counters,
    /// Times to settle, of all addresses.
    pub(super) spread: Spread,
    /// The rounds that look for stuck deliveries, and those that take samples for rates.
    pub(super) looking: Round,
    pub(super) sampling: Sampling,
    pub(super) watch: Watch,
    /// Commands in the order in which they were decided.
    pub(super) outputs: VecDeque<Output>,
    /// A `Drained` was put there since they were last drained.
    pub(super) may_have_drained: bool,
    /// Addresses where a delivery may find a consumer, or a drain its answer.
    pub(super) work: VecDeque<AddressId>,
    /// Anonymous senders whose credit is to be looked at.
    pub(super) dirty: Vec<LinkId>,
    /// When addresses' credit is to be looked at. An entry that isn't its address's `timer` is stale.
    pub(super) timers: BinaryHeap<Reverse<(Time, AddressId)>>,
    /// Threshold edges that nobody fetched yet.
    pub(super) edges: EdgeOutbox<Box<str>>,
    /// Edges of all addresses that were fetched, the missed ones included.
    edges_counted: u64,
    /// The latest time that an input brought.
    pub(super) now: Time,
    pub(super) polled: Option<Polled>,
    pub(super) released: Option<Released>,
}

/// Free chunks that the packer's pool keeps.
const PACKER_CHUNKS_KEPT: usize = 32;

impl Router {
    pub fn new(settings: RouterSettings, now: Time) -> Router {
        Router::on_shard(settings, ShardId(0), 1, now)
    }

    /// The routing of one shard of so many.
    pub fn on_shard(settings: RouterSettings, shard: ShardId, shards: u16, now: Time) -> Router {
        Router {
            table: AddressTable::new(settings.seed),
            temporary_names: TemporaryNames::new(settings.seed, shard, shards),
            packer: Packer::new(Pool::counted(limits::CHUNK_BYTES, PACKER_CHUNKS_KEPT, settings.memory.clone())),
            deliveries: Deliveries::new(settings.memory.clone()),
            settings,
            addresses: Arena::new(),
            links: Arena::new(),
            connections: Connections::default(),
            totals: Counters::default(),
            spread: Spread::default(),
            looking: Round::new(LOOKING, now),
            watch: Watch::new(now),
            sampling: Sampling::new(now),
            outputs: VecDeque::new(),
            may_have_drained: false,
            work: VecDeque::new(),
            dirty: Vec::new(),
            timers: BinaryHeap::new(),
            edges: EdgeOutbox::default(),
            edges_counted: 0,
            now,
            polled: None,
            released: None,
            starved: Vec::new(),
            steps: 0,
            payer: None,
        }
    }

    // ── getters ──

    pub fn settings(&self) -> &RouterSettings {
        &self.settings
    }

    /// The latest time that an input brought.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Whether a sender's link names no address, so that each message has its own (`Arrival::to`).
    #[inline]
    pub fn is_anonymous(&self, link: LinkId) -> bool {
        self.links.get(link).is_some_and(|link| link.address.is_none())
    }

    /// Where a link is.
    #[inline]
    pub fn port(&self, link: LinkId) -> Option<Port> {
        self.links.get(link).map(|link| link.port)
    }

    /// Times from arrival to settlement, of all addresses. Where a page of addresses was just read, without a rest.
    pub fn spread(&self) -> &Spread {
        &self.spread
    }

    /// What became of all deliveries since the start.
    pub fn totals(&self) -> &Counters {
        &self.totals
    }

    /// Addresses that somebody uses.
    pub fn addresses_len(&self) -> usize {
        self.table.len()
    }

    /// Links, detached ones with deliveries still on their way included.
    pub fn links_len(&self) -> usize {
        self.links.len()
    }

    pub fn connections_len(&self) -> usize {
        self.connections.len()
    }

    /// Deliveries in the router, copies of a multicast message and itself each.
    pub fn deliveries_len(&self) -> usize {
        self.deliveries.len()
    }

    /// What inputs cost beyond the usual, since this was called last: copies of multicast messages that were made, got more of
    /// theirs or are missed, [`STEPS_A_COPY`](crate::routing::STEPS_A_COPY) each; consumers of sessions that take deliveries again,
    /// as much; links and deliveries that were looked at to open sessions' windows.
    /// Of the last, those for a session of another connection than `count_steps_of` named don't count.
    #[inline]
    pub fn take_steps(&mut self) -> u64 {
        std::mem::take(&mut self.steps)
    }

    /// Counts anew, for inputs of a connection.
    #[inline]
    pub fn count_steps_of(&mut self, connection: ConnectionId) {
        (self.steps, self.payer) = (0, Some(connection));
    }

    // ── what happened, beside what other files have ──

    /// A connection is open. `link_capacity`: its listener's.
    pub fn connection_opened(&mut self, connection: ConnectionId, link_capacity: u32) {
        self.connections.open(connection, link_capacity.max(1));
    }

    /// Time went on: looks at the credit of the addresses whose time has come, and for deliveries that are stuck.
    pub fn handle_timeout(&mut self, now: Time) {
        self.begin(now);
        self.look_for_stuck();
        self.look_for_blocked();
        self.sample_rates();
        while let Some(Reverse((at, id))) = self.timers.peek().copied() {
            if at > now {
                return;
            }
            self.timers.pop();
            if let Some(address) = self.addresses.get_mut(id).filter(|address| address.timer == Some(at)) {
                address.timer = None;
                address.credit.tick(now);
                self.push_work(id);
            }
        }
    }

    // ── what to do ──

    /// When `handle_timeout` is wanted.
    pub fn poll_timeout(&self) -> Option<Time> {
        let credit = self.timers.peek().map(|Reverse((at, _))| *at);
        let looking = (self.deliveries.len() > 0).then(|| self.looking.at());
        let moved = self.moved();
        earliest([credit, looking, self.sampling.due(moved), self.watch.due(moved)])
    }

    /// Threshold edges, in the order in which they came for each address: `push` says whether it took one. What it
    /// doesn't take stays, as a count and the latest figures.
    pub fn flush_edges(&mut self, mut push: impl FnMut(&str, &Edge) -> bool) {
        if self.edges.is_empty() {
            return;
        }
        let counted = &mut self.edges_counted;
        self.edges.flush(|address, edge| {
            let taken = push(address, edge);
            if taken {
                *counted += 1 + edge.missed;
            }
            taken
        });
    }

    /// Sets, changes or removes the marks of an address that is there, as management does at run time, for as long as it
    /// is there; the depth is compared with them at once, and what was above and loses its marks has its decreasing
    /// edge. False: the lower mark isn't below the upper one, or there is no such address (nobody has the events
    /// address, and the router's own names have no marks).
    pub fn set_alerts(&mut self, address: &str, count: Option<Marks>, size: Option<Marks>) -> bool {
        let is_valid = |marks: Option<Marks>| marks.is_none_or(|marks| marks.down < marks.up);
        if !is_valid(count) || !is_valid(size) {
            return false;
        }
        let Some(name) = name::parse(address, &self.settings.router_id).filter(|name| name.class == Class::Mobile)
        else {
            return false;
        };
        let Some(address) = self.table.find(name).and_then(|id| self.addresses.get_mut(id)) else { return false };
        (address.attributes.alert_count, address.attributes.alert_size) = (count, size);
        let rest = &address.rest;
        address.depth.set_marks(count, size, |edge| self.edges.raise(rest.clone(), edge));
        true
    }

    /// One more rule, for addresses that come from now on. Refused where one for the same addresses is there.
    pub fn add_rule(&mut self, rule: AddressRule) -> Result<(), String> {
        self.settings.rules.insert(rule)
    }

    /// No rule for these addresses any more; whether there was one. Addresses that are there keep what it gave them.
    pub fn remove_rule(&mut self, matches: &AddressMatch) -> bool {
        self.settings.rules.remove(matches).is_some()
    }

    /// Whether edges wait to be fetched.
    #[inline]
    pub fn has_edges(&self) -> bool {
        !self.edges.is_empty()
    }

    /// Threshold edges of all addresses since the start, as far as they were fetched.
    pub fn edges_counted(&self) -> u64 {
        self.edges_counted
    }

    /// Whether `poll_output` may have one, or has something to do.
    #[inline]
    pub fn has_outputs(&self) -> bool {
        let is_noted = self.polled.is_some() || self.released.is_some();
        let waits = !self.outputs.is_empty() || !self.work.is_empty() || !self.dirty.is_empty();
        is_noted || waits || !self.starved.is_empty()
    }

    /// The next command for an engine. Drain it after each input; deliveries are assigned to consumers only here,
    /// one at a time, so that `link_busy` and `session_blocked` are heard in between.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.finish_polled();
        loop {
            if let Some(output) = self.outputs.pop_front() {
                self.note_polled(&output);
                return Some(output);
            }
            if let Some(address) = self.work.front().copied() {
                if let Some(output) = self.assign_next(address).or_else(|| self.next_grant(address)) {
                    return Some(output);
                }
                self.work.pop_front();
                self.work_done(address);
                continue;
            }
            if let Some(output) = self.next_anonymous_grant() {
                return Some(output);
            }
            if let Some((connection, session)) = self.starved.pop() {
                self.relieve(connection, session);
                continue;
            }
            if self.released.is_none() {
                self.may_have_drained = false;
                return None;
            }
            self.flush_released();
        }
    }

    // ── helpers for all files ──

    /// An input begins.
    #[inline]
    pub(super) fn begin(&mut self, now: Time) {
        self.now = self.now.max(now);
        self.finish_polled();
    }

    #[inline]
    pub(super) fn push_work(&mut self, id: AddressId) {
        if let Some(address) = self.addresses.get_mut(id) {
            if !address.has_work {
                address.has_work = true;
                self.work.push_back(id);
            }
        }
    }

    /// Payload bytes of a session left the router. Reported together, so that a run of small messages costs one
    /// command.
    #[inline]
    pub(super) fn release(&mut self, connection: ConnectionId, session: SessionNumber, bytes: usize) {
        if bytes == 0 {
            return;
        }
        if let Some(released) = &mut self.released {
            if released.connection == connection && released.session == session {
                released.bytes += bytes;
                return;
            }
        }
        self.flush_released();
        self.released = Some(Released { connection, session, bytes });
    }

    /// Has the engine hear of released payload, where its connection is still there.
    fn flush_released(&mut self) {
        let Some(Released { connection, session, bytes }) = self.released.take() else { return };
        if self.connections.is_open(connection) {
            self.outputs.push_back(Output::PayloadReleased { connection, session, bytes });
        }
    }
}

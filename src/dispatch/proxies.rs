//! Links here whose connections live on other shards.
//!
//! Owns: a *proxy* for each such connection, that routing takes for one of this shard's: what routing decides for it becomes
//! notes to its home, what its home tells becomes routing's inputs.
//!
//! Invariants:
//! - A delivery that is whole goes to the home at once and counts as sent. What is on its way to a session there, or waits
//!   for the session, is bounded by [`WAITING_BYTES_MAX`]; beyond that the session is blocked.
//! - Of a delivery that streams, the home says what was sent, as an engine here would.

use super::outbox::Outbox;
use super::Dispatch;
use crate::arena::Arena;
use crate::ids::{ConnectionId, DeliveryId, LinkHandle, LinkId, Port, SessionNumber, ShardId, WireDelivery, ELSEWHERE};
use crate::limits;
use crate::link::Terminus;
use crate::mesh::parcel::{cost_bytes, Accepted, Attaching, Decided, Happened};
use crate::mesh::Note;
use crate::outcome::StateKind;
use crate::payload::Payload;
use crate::routing::{rejected, Arrival, Attach, Output, Router};
use crate::time::Time;
use std::collections::{BTreeMap, HashMap};

/// Of deliveries to one session of another shard: as for an engine's output.
const WAITING_BYTES_MAX: usize = limits::OUTPUT_MARK_BYTES;

/// Deliveries that are over and still known by what they came as, beside as many as are here.
const ARRIVED_KEPT: usize = 64;

pub(super) struct Proxy {
    home: ShardId,
    /// As its home calls it. None: it is on its way there.
    connection: Option<ConnectionId>,
    /// What was decided for it meanwhile.
    waiting: Vec<Output>,
    /// `[Cn]` in the log.
    number: u64,
    links: BTreeMap<LinkHandle, ProxyLink>,
    sessions: BTreeMap<SessionNumber, Waiting>,
}

pub(super) struct ProxyLink {
    link: LinkId,
    session: SessionNumber,
    name: Box<str>,
    /// Deliveries sent to the home.
    sent: u32,
    /// The latest of the receiver's credit.
    round: u32,
    /// Of an anonymous sender's, credit is its home's affair. Here what routing grants says how many deliveries wait no
    /// longer.
    is_relay: bool,
    arrived: Option<Arrived>,
}

/// What came on a link and is here, by the numbers that its sender gave. Kept from the first time on that this says something of
/// what isn't its last.
struct Arrived {
    deliveries: HashMap<u32, DeliveryId>,
    /// With more, those that are over are forgotten.
    len_max: usize,
}

impl Arrived {
    fn of(link: LinkId, router: &Router) -> Arrived {
        let deliveries: HashMap<u32, DeliveryId> =
            router.arrived(link).map(|(wire, delivery)| (wire.delivery_id, delivery)).collect();
        let len_max = 2 * deliveries.len() + ARRIVED_KEPT;
        Arrived { deliveries, len_max }
    }

    fn note(&mut self, number: u32, delivery: DeliveryId, router: &Router) {
        self.deliveries.insert(number, delivery);
        if self.deliveries.len() > self.len_max {
            self.deliveries.retain(|_, delivery| router.is_here(*delivery));
            self.len_max = 2 * self.deliveries.len() + ARRIVED_KEPT;
        }
    }
}

/// What a session's home hasn't sent yet.
#[derive(Default)]
struct Waiting {
    bytes: usize,
    blocked: bool,
}

impl ProxyLink {
    pub fn new(link: LinkId, session: SessionNumber, name: &str, is_relay: bool) -> ProxyLink {
        ProxyLink { link, session, name: name.into(), sent: 0, round: 0, is_relay, arrived: None }
    }
}

#[derive(Default)]
pub(super) struct Proxies {
    all: Arena<ConnectionId, Proxy>,
    /// By home and the connection's place.
    known: Vec<Vec<Option<ConnectionId>>>,
}

impl Proxies {
    /// What routing calls it.
    fn outside(id: ConnectionId) -> ConnectionId {
        ConnectionId { index: id.index | ELSEWHERE, ..id }
    }

    fn inside(id: ConnectionId) -> ConnectionId {
        ConnectionId { index: id.index & !ELSEWHERE, ..id }
    }

    /// A proxy of a connection that lives, or will live, on `home`. Gives what routing calls it.
    pub fn open(&mut self, home: ShardId, connection: Option<ConnectionId>, number: u64) -> ConnectionId {
        let (links, sessions) = (BTreeMap::new(), BTreeMap::new());
        let id = self.all.insert(Proxy { home, connection, waiting: Vec::new(), number, links, sessions });
        if let Some(connection) = connection {
            self.know(home, connection, id);
        }
        Proxies::outside(id)
    }

    /// Where a connection is in `known`: first the router's own, then by index.
    fn place(connection: ConnectionId) -> usize {
        connection.index.wrapping_add(1) as usize
    }

    fn know(&mut self, home: ShardId, connection: ConnectionId, id: ConnectionId) {
        let (home, index) = (usize::from(home.0), Proxies::place(connection));
        if self.known.len() <= home {
            self.known.resize_with(home + 1, Vec::new);
        }
        let known = &mut self.known[home];
        if known.len() <= index {
            known.resize(index + 1, None);
        }
        known[index] = Some(id);
    }

    /// What routing calls the proxy of a connection.
    fn of(&self, home: ShardId, connection: ConnectionId) -> Option<ConnectionId> {
        let id = (*self.known.get(usize::from(home.0))?.get(Proxies::place(connection))?)?;
        let proxy = self.all.get(id).filter(|proxy| proxy.connection == Some(connection))?;
        (proxy.home == home).then(|| Proxies::outside(id))
    }

    pub fn get(&self, id: ConnectionId) -> Option<&Proxy> {
        self.all.get(Proxies::inside(id)).filter(|_| id.index & ELSEWHERE != 0)
    }

    pub fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Proxy> {
        self.all.get_mut(Proxies::inside(id)).filter(|_| id.index & ELSEWHERE != 0)
    }

    pub fn close(&mut self, id: ConnectionId) -> Option<Proxy> {
        let proxy = self.all.remove(Proxies::inside(id))?;
        if let Some(connection) = proxy.connection {
            if let Some(known) = self.known.get_mut(usize::from(proxy.home.0)) {
                known[Proxies::place(connection)] = None;
            }
        }
        Some(proxy)
    }

    fn link_mut(&mut self, home: ShardId, port: Port) -> Option<&mut ProxyLink> {
        let id = self.of(home, port.connection)?;
        self.get_mut(id)?.links.get_mut(&port.link)
    }
}

impl Proxy {
    pub fn number(&self) -> u64 {
        self.number
    }

    pub fn add_link(&mut self, handle: LinkHandle, link: ProxyLink) {
        self.links.insert(handle, link);
    }

    /// A link's name; None: a relay, or over.
    pub fn link_name(&self, handle: LinkHandle) -> Option<&str> {
        let link = self.links.get(&handle).filter(|link| !link.is_relay)?;
        Some(&link.name)
    }

    /// Sessions of its links, of which little enough waits; one for each link.
    fn open_sessions(&self) -> impl Iterator<Item = SessionNumber> + '_ {
        let is_open = |session: &SessionNumber| self.sessions.get(session).is_none_or(|waiting| !waiting.blocked);
        self.links.values().map(|link| link.session).filter(is_open)
    }

    /// Notes an output to this proxy's home, where that is known.
    fn tell(&mut self, output: Output, outbox: &mut Outbox) {
        let Some(connection) = self.connection else { return self.waiting.push(output) };
        let empty = Payload::new();
        let (link, decided, payload) = match output {
            Output::PayloadReleased { session, bytes, .. } => {
                return outbox.push(self.home, Note::PayloadReleased { connection, session, bytes });
            }
            Output::PlacesLent { session, places, .. } => {
                return outbox.push(self.home, Note::PlacesLent { connection, session, places });
            }
            Output::Send { port, delivery, message_format, settled, complete, payload } => {
                let Some(ProxyLink { session, .. }) = self.links.get(&port.link) else { return };
                let (session, bytes) = (*session, payload.len() as u32);
                (port.link, Decided::Send { delivery, session, message_format, settled, complete, bytes }, payload)
            }
            Output::SendMore { port, delivery, complete, payload } => {
                let bytes = payload.len() as u32;
                (port.link, Decided::SendMore { delivery, complete, bytes }, payload)
            }
            Output::SendAbort { port, delivery } => (port.link, Decided::SendAbort { delivery }, empty),
            Output::Credit { port, add, drain } => (port.link, Decided::Grant { add, drain }, empty),
            Output::DisposeIncoming { port, wire, state, settled } => {
                (port.link, Decided::DisposeIncoming { wire, state, settled }, empty)
            }
            Output::DisposeOutgoing { port, wire, state, settled } => {
                (port.link, Decided::DisposeOutgoing { wire, state, settled }, empty)
            }
            Output::Drained { port } => {
                let round = self.links.get(&port.link).map_or(0, |link| link.round);
                (port.link, Decided::Drained { round }, empty)
            }
            Output::Detach { port, fault } => (port.link, Decided::Detach(Box::new(fault)), empty),
        };
        outbox.push_with(self.home, Note::decided(connection, link, decided), "", &payload);
    }
}

/// Whether a state only says how far a delivery is.
fn is_passing(kind: StateKind) -> bool {
    matches!(kind, StateKind::Received | StateKind::Other)
}

/// What routing decides for a proxy.
impl Dispatch {
    /// An output that is for no connection of this shard.
    #[inline(never)]
    pub(super) fn tell(&mut self, output: Output) {
        if output.connection() == ConnectionId::ROUTER {
            return match output {
                Output::Credit { port, add, drain } => self.own_credit(port, add, drain),
                Output::Send { port, delivery, payload, .. } => self.request_sent(port, delivery, &payload),
                _ => {}
            };
        }
        // Else it is for a connection that is over.
        let Some(proxy) = self.proxies.get_mut(output.connection()) else { return };
        match &output {
            Output::Send { port, complete, payload, .. } => {
                let Some(link) = proxy.links.get_mut(&port.link) else { return };
                link.sent = link.sent.wrapping_add(1);
                let session = link.session;
                let waiting = proxy.sessions.entry(session).or_default();
                if *complete {
                    waiting.bytes += cost_bytes(payload.len());
                    if waiting.bytes >= WAITING_BYTES_MAX {
                        waiting.blocked = true;
                        self.router.session_blocked(port.connection, session);
                    }
                }
            }
            Output::SendMore { port, .. } | Output::SendAbort { port, .. } => {
                let Some(link) = proxy.links.get(&port.link) else { return };
                self.router.link_busy(link.link);
            }
            // Only says how far a delivery is: where much waits already, what follows makes up for it.
            Output::DisposeIncoming { settled: false, state, .. }
            | Output::DisposeOutgoing { settled: false, state, .. }
                if state.as_ref().is_none_or(|state| is_passing(state.kind)) && self.outbox.is_crowded(proxy.home) =>
            {
                return;
            }
            _ => {}
        }
        proxy.tell(output, &mut self.outbox);
    }
}

/// What homes tell.
impl Dispatch {
    /// A connection that moved is there.
    pub(super) fn proxy_arrived(&mut self, home: ShardId, proxy: ConnectionId, connection: ConnectionId, now: Time) {
        let Some(state) = self.proxies.get_mut(proxy) else { return };
        state.connection = Some(connection);
        for output in std::mem::take(&mut state.waiting) {
            state.tell(output, &mut self.outbox);
        }
        // What the engine that was here took no more of waits at its home now.
        for session in state.open_sessions() {
            self.router.session_writable(proxy, session, now);
        }
        self.proxies.know(home, connection, Proxies::inside(proxy));
    }

    pub(super) fn happened(&mut self, home: ShardId, port: Port, what: Happened, payload: Cargo, now: Time) {
        if let Happened::Attached(attaching) = what {
            return self.attach_for(home, port, &attaching, now);
        }
        let Some(own) = self.proxies.link_mut(home, port) else { return };
        let (link, is_looked_through) = (own.link, own.arrived.is_some());
        match what {
            Happened::Attached(_) => {}
            Happened::Ended { closed } => {
                let proxy = self.proxies.of(home, port.connection).and_then(|id| self.proxies.get_mut(id));
                if let Some(proxy) = proxy {
                    proxy.links.remove(&port.link);
                    if proxy.links.is_empty() && port.connection == ConnectionId::ROUTER {
                        self.link_gone(link, closed, now);
                        return self.connection_over_there(home, port.connection, now);
                    }
                }
                self.link_gone(link, closed, now);
                self.apply_outputs();
            }
            Happened::Delivery { wire, message_format, settled, complete, .. } => {
                let to = payload.to.as_deref();
                let arrival = Arrival { wire, message_format, settled, complete, payload: payload.payload, to };
                self.router.delivery(link, arrival, now);
                if is_looked_through {
                    self.note_arrived(home, port, link, wire);
                }
            }
            Happened::DeliveryRefused { wire, settled, complete, why } => {
                let payload = Payload::new();
                let arrival = Arrival { wire, message_format: 0, settled, complete, payload, to: None };
                self.router.delivery_refused(link, arrival, rejected("amqp:invalid-field", why), now);
            }
            Happened::DeliveryMore { wire, complete, settled, .. } => match self.router.last_arrived_as(link, wire) {
                Some(delivery) => self.router.delivery_more(delivery, payload.payload, complete, settled, now),
                None => {
                    let (connection, session, bytes) = (port.connection, wire.session, payload.payload.len());
                    self.outbox.push(home, Note::PayloadReleased { connection, session, bytes });
                }
            },
            Happened::DeliveryAborted { wire } => {
                if let Some(delivery) = self.router.last_arrived_as(link, wire) {
                    self.router.delivery_aborted(delivery, now);
                }
            }
            Happened::SenderDisposition { wire, state, settled } => {
                if let Some(delivery) = self.arrived_as(home, port, link, wire) {
                    self.router.sender_disposition(delivery, state, settled, now);
                }
            }
            Happened::SenderDrained { returned } => self.router.sender_drained(link, returned, now),
            Happened::Credit { delivery_count, seen, limit, drain, round } => {
                let Some(own) = self.proxies.link_mut(home, port) else { return };
                own.round = round;
                // Those that are on their way there are assigned as well.
                let assigned = delivery_count.wrapping_add(own.sent.wrapping_sub(seen));
                self.router.credit(link, assigned, limit, drain, now);
            }
        }
    }

    /// A delivery came for a link of which what came is looked through.
    #[cold]
    fn note_arrived(&mut self, home: ShardId, port: Port, link: LinkId, wire: WireDelivery) {
        let Some(delivery) = self.router.last_arrived_as(link, wire) else { return };
        if let Some(arrived) = self.proxies.link_mut(home, port).and_then(|own| own.arrived.as_mut()) {
            arrived.note(wire.delivery_id, delivery, &self.router);
        }
    }

    /// The delivery that came as `wire` on a link.
    fn arrived_as(&mut self, home: ShardId, port: Port, link: LinkId, wire: WireDelivery) -> Option<DeliveryId> {
        if let Some(last) = self.router.last_arrived_as(link, wire) {
            return Some(last);
        }
        let own = self.proxies.link_mut(home, port)?;
        let arrived = own.arrived.get_or_insert_with(|| Arrived::of(link, &self.router));
        arrived.deliveries.get(&wire.delivery_id).copied().filter(|delivery| self.router.is_here(*delivery))
    }

    fn attach_for(&mut self, home: ShardId, port: Port, attaching: &Attaching, now: Time) {
        self.apply_outputs();
        let id = match self.proxies.of(home, port.connection) {
            Some(id) => id,
            None => {
                let id = self.proxies.open(home, Some(port.connection), attaching.number);
                self.router.connection_opened(id, attaching.link_capacity);
                id
            }
        };
        let answer = self.router.attach(
            Attach {
                port: Port { connection: id, link: port.link },
                session: attaching.session,
                direction: attaching.direction,
                terminus: &attaching.terminus,
                name: &attaching.name,
                sender_settle_mode: attaching.sender_settle_mode,
                receiver_settle_mode: attaching.receiver_settle_mode,
            },
            now,
        );
        let answer = answer.map(|attached| {
            let link = ProxyLink::new(attached.link, attaching.session, &attaching.name, attaching.is_anonymous());
            if let Some(proxy) = self.proxies.get_mut(id) {
                proxy.links.insert(port.link, link);
            }
            if attaching.is_anonymous() {
                self.router.credit_given_elsewhere(attached.link);
            }
            Accepted {
                link: attached.link,
                sender_settle_mode: attached.sender_settle_mode,
                receiver_settle_mode: attached.receiver_settle_mode,
            }
        });
        if !attaching.is_anonymous() {
            let decided = Decided::Attached(Box::new(answer));
            self.outbox.push(home, Note::decided(port.connection, port.link, decided));
        }
        self.apply_outputs();
    }

    /// A session of another shard's has sent so much of what waited for it.
    pub(super) fn session_sent(
        &mut self,
        home: ShardId,
        connection: ConnectionId,
        session: SessionNumber,
        bytes: usize,
        now: Time,
    ) {
        let Some(id) = self.proxies.of(home, connection) else { return };
        let Some(proxy) = self.proxies.get_mut(id) else { return };
        let Some(waiting) = proxy.sessions.get_mut(&session) else { return };
        debug_assert!(bytes <= waiting.bytes, "what waits no longer waited");
        waiting.bytes = waiting.bytes.saturating_sub(bytes);
        if waiting.blocked && waiting.bytes < WAITING_BYTES_MAX / 2 {
            waiting.blocked = false;
            self.router.session_writable(id, session, now);
        }
    }

    pub(super) fn session_full_there(
        &mut self,
        home: ShardId,
        connection: ConnectionId,
        session: SessionNumber,
        now: Time,
    ) {
        if let Some(id) = self.proxies.of(home, connection) {
            self.router.session_full(id, session, true, now);
        }
    }

    /// A connection of another shard's is over, and so are its links here.
    pub(super) fn connection_over_there(&mut self, home: ShardId, connection: ConnectionId, now: Time) {
        self.apply_outputs();
        let Some(id) = self.proxies.of(home, connection) else { return };
        let Some(proxy) = self.proxies.close(id) else { return };
        self.router.connection_closed(id, now);
        for link in proxy.links.values() {
            self.own_link_gone(link.link, now);
        }
        self.requester_gone(proxy.number(), now);
        self.apply_outputs();
    }
}

/// What a note brings along.
#[derive(Default)]
pub(super) struct Cargo {
    pub to: Option<String>,
    pub payload: Payload,
}

/// The terminus, there, of an anonymous sender's link of whose messages some go to another shard.
pub(super) const RELAY: Terminus = Terminus::Absent;

impl Attaching {
    fn is_anonymous(&self) -> bool {
        self.terminus == RELAY
    }
}

//! A bench for the router alone: links are named by numbers, outputs become short words, and the router's
//! invariants are checked after every input.
#![allow(dead_code)]

use ringway::ids::{ConnectionId, DeliveryId, LinkHandle, LinkId, Port, SessionNumber, WireDelivery};
use ringway::link::{Direction, ReceiverSettleMode, SenderSettleMode, Terminus};
use ringway::outcome::{Fault, State, StateKind};
use ringway::payload::Payload;
use ringway::routing::{
    AddressAttributes, AddressMatch, AddressRule, AddressRules, Arrival, Attach, Attached, FlowControl, Output, Router,
    RouterSettings, Treatment,
};
use ringway::run::{Arrived, Settled};
use ringway::time::Time;
use std::collections::HashMap;

/// One output, in short.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Out {
    /// To a sender: more credit.
    Credit(LinkId, u32),
    /// To a sender: use or return it.
    Drain(LinkId),
    /// To a consumer. (link, body, settled, complete)
    Send(LinkId, String, bool, bool),
    More(LinkId, String, bool),
    Abort(LinkId),
    /// To a sender: (number of its delivery, state, settled)
    Told(u32, Option<StateKind>, bool),
    /// To a consumer: (number of its delivery, state, settled)
    ToldConsumer(u32, Option<StateKind>, bool),
    Drained(LinkId),
    Released(usize),
    /// Places of deliveries that wait for one of their session's.
    Lent(u32),
}

pub struct Bench {
    pub router: Router,
    pub now: Time,
    next: u32,
    links: HashMap<Port, LinkId>,
    /// Deliveries that consumers have, in the order in which they were sent.
    pub sent: Vec<(LinkId, DeliveryId)>,
    /// States with their encoding, as senders were told them.
    pub states: Vec<(u32, Option<State>)>,
    /// Leave out credit and released payload from what `take` gives.
    pub quiet: bool,
    /// The usual deliveries and outcomes go the straight way, as a driver has them go.
    pub straight: bool,
    /// Links whose engine takes nothing whole.
    pub slow: Vec<LinkId>,
    pending: Vec<Out>,
    /// What each sender may still send.
    pub credit: HashMap<LinkId, u32>,
    /// Senders that were asked to use or return their credit.
    pub asked: Vec<LinkId>,
    next_delivery: u32,
    polls: u32,
    /// Links are attached on this session.
    pub session: SessionNumber,
}

pub fn rule(pattern: &str, treatment: Treatment) -> AddressRule {
    let attributes = AddressAttributes { treatment: Some(treatment), ..AddressAttributes::default() };
    AddressRule { matches: AddressMatch::Pattern(pattern.into()), attributes }
}

/// A whole delivery, as an engine tells of it.
pub fn arrived(number: u32, body: &str) -> Arrived {
    Arrived { delivery_id: number, start: 0, bytes: body.len() as u32, delivery: DeliveryId::NONE }
}

/// A whole unsettled delivery, of no matter what.
pub fn whole(number: u32) -> Arrival<'static> {
    let wire = WireDelivery { session: SessionNumber(0), delivery_id: number };
    let payload = Payload::copied(b"body");
    Arrival { wire, message_format: 0, settled: false, complete: true, payload, to: None }
}

pub fn settings() -> RouterSettings {
    let rules = vec![
        rule("closest.#", Treatment::Closest),
        rule("balanced.#", Treatment::Balanced),
        rule("multicast.#", Treatment::Multicast),
        rule("unavailable.#", Treatment::Unavailable),
    ];
    RouterSettings {
        router_id: "R".into(),
        rules: AddressRules::new(rules).expect("rules"),
        flow_control: FlowControl::Capacity,
        seed: 42,
        ..RouterSettings::default()
    }
}

pub fn node(address: &str) -> Terminus {
    terminus(Some(address), false)
}

pub fn terminus(address: Option<&str>, dynamic: bool) -> Terminus {
    Terminus::Node { address: address.map(String::from), dynamic }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Modes(pub SenderSettleMode, pub ReceiverSettleMode);

pub const MIXED: Modes = Modes(SenderSettleMode::Mixed, ReceiverSettleMode::First);

impl Default for Bench {
    fn default() -> Self {
        Bench::new(settings())
    }
}

impl Bench {
    pub fn new(settings: RouterSettings) -> Bench {
        Bench {
            router: Router::new(settings, Time::ZERO),
            now: Time::ZERO,
            next: 0,
            links: HashMap::new(),
            sent: Vec::new(),
            states: Vec::new(),
            quiet: true,
            straight: false,
            slow: Vec::new(),
            pending: Vec::new(),
            credit: HashMap::new(),
            asked: Vec::new(),
            next_delivery: 1_000_000,
            polls: 0,
            session: SessionNumber(0),
        }
    }

    fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    pub fn connect(&mut self, capacity: u32) -> ConnectionId {
        let id = ConnectionId { index: self.number(), generation: 0 };
        self.router.connection_opened(id, capacity);
        id
    }

    pub fn attach(
        &mut self,
        connection: ConnectionId,
        direction: Direction,
        terminus: &Terminus,
        modes: Modes,
    ) -> Result<Attached, Fault> {
        let link = LinkHandle { index: self.number(), generation: 0 };
        let attached = self.router.attach(
            Attach {
                port: Port { connection, link },
                session: self.session,
                direction,
                terminus,
                name: "link",
                sender_settle_mode: modes.0,
                receiver_settle_mode: modes.1,
            },
            self.now,
        )?;
        self.links.insert(Port { connection, link }, attached.link);
        if let Some(own) = attached.events_from {
            let link = LinkHandle { index: attached.link.index, generation: attached.link.generation };
            self.links.insert(Port { connection: ConnectionId::ROUTER, link }, own);
        }
        Ok(attached)
    }

    pub fn sender(&mut self, connection: ConnectionId, address: &str) -> LinkId {
        self.attach(connection, Direction::Incoming, &node(address), MIXED).expect("a sender").link
    }

    pub fn sender_on(&mut self, connection: ConnectionId, session: SessionNumber, address: &str) -> LinkId {
        let before = std::mem::replace(&mut self.session, session);
        let link = self.sender(connection, address);
        self.session = before;
        link
    }

    pub fn anonymous(&mut self, connection: ConnectionId) -> LinkId {
        let nowhere = terminus(None, false);
        self.attach(connection, Direction::Incoming, &nowhere, MIXED).expect("an anonymous sender").link
    }

    pub fn consumer(&mut self, connection: ConnectionId, address: &str, credit: u32) -> LinkId {
        self.consumer_with(connection, address, credit, MIXED)
    }

    pub fn consumer_with(&mut self, connection: ConnectionId, address: &str, credit: u32, modes: Modes) -> LinkId {
        let link = self.attach(connection, Direction::Outgoing, &node(address), modes).expect("a consumer").link;
        if credit > 0 {
            self.router.credit(link, 0, credit, false, self.now);
        }
        link
    }

    pub fn send(&mut self, link: LinkId, number: u32, settled: bool, body: &str) -> Option<DeliveryId> {
        self.arrive(link, number, settled, true, body, None)
    }

    /// A sender sends all that its credit allows, at most `most`. How many it sent.
    pub fn flood(&mut self, link: LinkId, settled: bool, most: u32) -> u32 {
        let mut count = 0;
        loop {
            let outs = self.poll();
            self.pending.extend(outs);
            if count == most || self.credit.get(&link).is_none_or(|credit| *credit == 0) {
                return count;
            }
            count += 1;
            self.next_delivery += 1;
            self.send(link, self.next_delivery, settled, "flood");
        }
    }

    pub fn send_to(&mut self, link: LinkId, number: u32, settled: bool, to: Option<&str>) -> Option<DeliveryId> {
        self.arrive(link, number, settled, true, "body", to)
    }

    pub fn begin(&mut self, link: LinkId, number: u32, settled: bool, body: &str) -> DeliveryId {
        self.arrive(link, number, settled, false, body, None).expect("an incomplete delivery is kept")
    }

    fn arrive(
        &mut self,
        link: LinkId,
        number: u32,
        settled: bool,
        complete: bool,
        body: &str,
        to: Option<&str>,
    ) -> Option<DeliveryId> {
        let outs = self.poll();
        self.pending.extend(outs);
        if let Some(credit) = self.credit.get_mut(&link) {
            *credit = credit.saturating_sub(1);
        }
        let wire = WireDelivery { session: SessionNumber(0), delivery_id: number };
        if self.straight && complete && to.is_none() {
            if let Some(way) = self.router.way(link, wire.session, 0, settled, self.now) {
                let to = self.links[&way.port];
                // An engine that takes nothing whole has no room for it.
                if !self.slow.contains(&to) {
                    let mut item = [arrived(number, body)];
                    self.router.pass(&way, &mut item);
                    self.sent.push((to, item[0].delivery));
                    self.pending.push(Out::Send(to, body.to_owned(), way.settled, true));
                    return (!settled).then_some(item[0].delivery);
                }
            }
        }
        let arrival =
            Arrival { wire, message_format: 0, settled, complete, payload: Payload::copied(body.as_bytes()), to };
        self.router.delivery(link, arrival, self.now)
    }

    pub fn more(&mut self, delivery: DeliveryId, body: &str, complete: bool) {
        self.router.delivery_more(delivery, Payload::copied(body.as_bytes()), complete, false, self.now);
    }

    /// The consumer's word on the delivery that was sent as number `at` since the begin.
    pub fn dispose(&mut self, at: usize, state: Option<State>, settled: bool) {
        let (_, delivery) = self.sent[at];
        let wire = WireDelivery { session: SessionNumber(0), delivery_id: at as u32 };
        let kind = state.as_ref().map(|state| state.kind);
        let straight = self.straight && settled;
        let outcome = kind.unwrap_or(StateKind::Other);
        let mut item = [Settled { delivery, wire, sender_id: 0, bytes: 0 }];
        if straight && self.router.settle(&mut item, outcome, self.now).is_some() {
            self.pending.push(Out::Told(item[0].sender_id, kind, true));
            self.states.push((item[0].sender_id, state));
            return;
        }
        self.router.receiver_disposition(delivery, wire, state, settled, self.now);
    }

    pub fn accept(&mut self, at: usize) {
        self.dispose(at, Some(State::ACCEPTED), true);
    }

    pub fn end(&mut self, link: LinkId) {
        self.router.link_ended(link, true, self.now);
    }

    /// All outputs since the last time.
    pub fn take(&mut self) -> Vec<Out> {
        let mut outs = std::mem::take(&mut self.pending);
        outs.extend(self.poll());
        outs
    }

    /// What there is now, then the invariants.
    fn poll(&mut self) -> Vec<Out> {
        let mut outs = Vec::new();
        while let Some(output) = self.router.poll_output() {
            let link = |port: &Port| self.links[port];
            if let Output::Credit { port, add, drain } = &output {
                *self.credit.entry(link(port)).or_default() += add;
                if *drain {
                    self.asked.push(link(port));
                }
            }
            let out = match &output {
                Output::Credit { port, drain: true, .. } => Out::Drain(link(port)),
                Output::Credit { port, add, .. } => Out::Credit(link(port), *add),
                Output::Send { port, delivery, settled, complete, payload, .. } => {
                    let link = link(port);
                    self.sent.push((link, *delivery));
                    if self.slow.contains(&link) {
                        self.router.link_busy(link);
                    }
                    Out::Send(link, text(payload), *settled, *complete)
                }
                Output::SendMore { port, complete, payload, .. } => {
                    let link = link(port);
                    self.router.link_busy(link);
                    Out::More(link, text(payload), *complete)
                }
                Output::SendAbort { port, .. } => Out::Abort(link(port)),
                Output::DisposeIncoming { wire, state, settled, .. } => {
                    self.states.push((wire.delivery_id, state.clone()));
                    Out::Told(wire.delivery_id, state.as_ref().map(|state| state.kind), *settled)
                }
                Output::DisposeOutgoing { wire, state, settled, .. } => {
                    Out::ToldConsumer(wire.delivery_id, state.as_ref().map(|state| state.kind), *settled)
                }
                Output::Drained { port } => Out::Drained(link(port)),
                Output::Detach { .. } => continue,
                Output::PayloadReleased { bytes, .. } => Out::Released(*bytes),
                Output::PlacesLent { places, .. } => Out::Lent(*places),
            };
            if !(self.quiet && matches!(out, Out::Credit(..) | Out::Released(_) | Out::Lent(_) | Out::Drain(_))) {
                outs.push(out);
            }
        }
        // They cost as much as there is in the router: in long tests now and then.
        self.polls += 1;
        if self.polls < 1_000 || self.polls % 32 == 0 {
            self.router.check_invariants().expect("the invariants hold");
        }
        outs
    }

    /// Everything that is left has to be nothing, once these connections are closed.
    pub fn close_all(&mut self, connections: &[ConnectionId]) {
        for connection in connections {
            self.router.connection_closed(*connection, self.now);
            self.take();
        }
        self.router.check_empty().expect("nothing is left");
    }
}

fn text(payload: &Payload) -> String {
    String::from_utf8(payload.to_vec()).expect("bodies are text")
}

/// What senders hear of an outcome that ends their delivery.
pub fn told(number: u32, kind: StateKind) -> Out {
    Out::Told(number, Some(kind), true)
}

pub fn sent(link: LinkId, body: &str) -> Out {
    Out::Send(link, body.into(), false, true)
}

//! A given situation, measured: senders and receivers of a kind, each on a connection of its own, with delay, in virtual
//! time. What tests ask of the credit rule and of balancing is read here: throughput, shares, windows, latency.
//!
//! Owns: the clients of a scenario and their counts. Doesn't: draw anything at random, but what the world draws for its
//! pipes.
//! Driven by: a test: add clients, `run_for`, read, change something, run on.

use super::client::{AttachRequest, Client, Event, LinkIndex, Node, SessionIndex, Settings};
use super::message::{compose, parse, Properties};
use super::pipe::Manner;
use super::plan::{rules, TopUp};
use super::random::Random;
use super::world::{Happening, PeerIndex, World, WorldSettings};
use crate::link::{ReceiverSettleMode, SenderSettleMode};
use crate::outcome::StateKind;
use crate::routing::RouterSettings;
use crate::time::Time;
use crate::wire::performative::Role;
use crate::wire::state;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct SenderSpec {
    pub address: String,
    pub settled: bool,
    /// None: as fast as credit allows. Else one message is due so often, and waits for credit.
    pub interval: Option<Duration>,
    /// Messages in all.
    pub messages: Option<u64>,
    pub body_bytes: usize,
    /// An anonymous sender, to the same address.
    pub anonymous: bool,
}

impl SenderSpec {
    pub fn eager(address: &str) -> SenderSpec {
        SenderSpec {
            address: address.to_owned(),
            settled: false,
            interval: None,
            messages: None,
            body_bytes: 100,
            anonymous: false,
        }
    }

    pub fn paced(address: &str, interval: Duration) -> SenderSpec {
        SenderSpec { interval: Some(interval), ..SenderSpec::eager(address) }
    }

    /// Has nothing to send, until told.
    pub fn idle(address: &str) -> SenderSpec {
        SenderSpec { messages: Some(0), ..SenderSpec::eager(address) }
    }
}

#[derive(Clone, Debug)]
pub struct ReceiverSpec {
    pub address: String,
    /// Credit and what it holds, together.
    pub window: u32,
    /// One message takes so long; one at a time.
    pub service: Duration,
    /// Told in batches of so many.
    pub settle_batch: u32,
    /// False: it holds what it gets.
    pub settles: bool,
    pub top_up: TopUp,
    /// Asks for settled deliveries.
    pub settled_mode: bool,
    /// Polls: credit 1 with drain, again as soon as that is answered or the message is served.
    pub polls: bool,
}

impl ReceiverSpec {
    pub fn new(address: &str, window: u32) -> ReceiverSpec {
        ReceiverSpec {
            address: address.to_owned(),
            window,
            service: Duration::ZERO,
            settle_batch: 1,
            settles: true,
            top_up: TopUp::Each,
            settled_mode: false,
            polls: false,
        }
    }

    /// Handles `rate` messages a second.
    pub fn rate(self, rate: u64) -> ReceiverSpec {
        ReceiverSpec { service: Duration::from_nanos(1_000_000_000 / rate), ..self }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SenderId(pub usize);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ReceiverId(pub usize);

struct Sender {
    spec: SenderSpec,
    peer: PeerIndex,
    session: SessionIndex,
    link: Option<LinkIndex>,
    due: VecDeque<Time>,
    ticking: bool,
    sent: u64,
    in_flight: BTreeMap<u32, u64>,
    outcomes: BTreeMap<&'static str, u64>,
    gone: bool,
}

struct Receiver {
    spec: ReceiverSpec,
    peer: PeerIndex,
    link: Option<LinkIndex>,
    queue: VecDeque<(u32, bool)>,
    batch: Vec<u32>,
    serving: bool,
    stalled: bool,
    received: u64,
    served: u64,
    first_credit_at: Option<Time>,
    last_from: BTreeMap<usize, u64>,
    drained: u64,
    gone: bool,
}

#[derive(Clone, Copy)]
enum Of {
    Sender(usize),
    Receiver(usize),
}

pub struct Scenario {
    pub world: World,
    /// Each direction of each connection.
    pub delay: Duration,
    peers: Vec<Of>,
    senders: Vec<Sender>,
    receivers: Vec<Receiver>,
    /// By key: which sender's, which number of it, when it was due.
    messages: Vec<(usize, u64, Time)>,
    /// How many of each message arrived.
    arrivals: Vec<u8>,
    latencies: Vec<Duration>,
}

fn kind_name(kind: Option<StateKind>) -> &'static str {
    match kind {
        Some(StateKind::Accepted) => "accepted",
        Some(StateKind::Rejected) => "rejected",
        Some(StateKind::Released) => "released",
        Some(StateKind::Modified) => "modified",
        Some(StateKind::Received | StateKind::Other) => "other",
        None => "none",
    }
}

impl Scenario {
    /// `adjust`: what differs from the router's defaults.
    pub fn new(adjust: impl FnOnce(&mut WorldSettings)) -> Scenario {
        let mut settings = WorldSettings {
            router: RouterSettings { rules: rules(), seed: 1, ..RouterSettings::default() },
            ..WorldSettings::default()
        };
        settings.engine.idle_timeout = Duration::ZERO;
        adjust(&mut settings);
        Scenario {
            world: World::new(settings, Random::new(1)),
            delay: Duration::ZERO,
            peers: Vec::new(),
            senders: Vec::new(),
            receivers: Vec::new(),
            messages: Vec::new(),
            arrivals: Vec::new(),
            latencies: Vec::new(),
        }
    }

    fn connect(&mut self, of: Of) -> (PeerIndex, SessionIndex) {
        let settings = Settings { container_id: format!("client-{}", self.peers.len()), ..Settings::default() };
        let settings = Settings { handshake: super::client::Handshake::Pipelined, ..settings };
        let manner = Manner { delay: self.delay, ..Manner::default() };
        let peer = self.world.connect(Client::new(settings), manner.clone(), manner);
        let session = self.world.client_mut(peer).begin(2048);
        self.peers.push(of);
        (peer, session)
    }

    // ── who is there ──

    pub fn sender(&mut self, spec: SenderSpec) -> SenderId {
        let number = self.senders.len();
        let (peer, session) = self.connect(Of::Sender(number));
        let node = if spec.anonymous { Node::Anonymous } else { Node::Address(spec.address.clone()) };
        let request = AttachRequest {
            name: format!("sender-{number}"),
            node,
            role: Role::Sender,
            sender_settle_mode: if spec.settled { SenderSettleMode::Settled } else { SenderSettleMode::Unsettled },
            receiver_settle_mode: ReceiverSettleMode::First,
            max_message_size: None,
        };
        let link = self.world.client_mut(peer).attach(session, request);
        let ticking = spec.interval.is_some();
        if ticking {
            self.world.timer(self.world.now, number as u64);
        }
        self.senders.push(Sender {
            spec,
            peer,
            session,
            link: Some(link),
            due: VecDeque::new(),
            ticking,
            sent: 0,
            in_flight: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            gone: false,
        });
        SenderId(number)
    }

    pub fn receiver(&mut self, spec: ReceiverSpec) -> ReceiverId {
        let number = self.receivers.len();
        let (peer, session) = self.connect(Of::Receiver(number));
        let request = AttachRequest {
            name: format!("receiver-{number}"),
            node: Node::Address(spec.address.clone()),
            role: Role::Receiver,
            sender_settle_mode: if spec.settled_mode { SenderSettleMode::Settled } else { SenderSettleMode::Mixed },
            receiver_settle_mode: ReceiverSettleMode::First,
            max_message_size: None,
        };
        let link = self.world.client_mut(peer).attach(session, request);
        self.receivers.push(Receiver {
            spec,
            peer,
            link: Some(link),
            queue: VecDeque::new(),
            batch: Vec::new(),
            serving: false,
            stalled: false,
            received: 0,
            served: 0,
            first_credit_at: None,
            last_from: BTreeMap::new(),
            drained: 0,
            gone: false,
        });
        ReceiverId(number)
    }

    /// Gives a sender so many messages more.
    pub fn add_messages(&mut self, id: SenderId, count: u64) {
        let sender = &mut self.senders[id.0];
        sender.spec.messages = Some(sender.spec.messages.unwrap_or(sender.sent) + count);
        self.pump(id.0);
    }

    /// From now on as fast as credit allows.
    pub fn wake(&mut self, id: SenderId) {
        self.senders[id.0].spec.messages = None;
        self.pump(id.0);
    }

    /// A sender sends nothing more, and stays.
    pub fn rest(&mut self, id: SenderId) {
        self.senders[id.0].spec.messages = Some(self.senders[id.0].sent);
    }

    /// Another window from now on; what is over it runs off.
    pub fn set_window(&mut self, id: ReceiverId, window: u32) {
        self.receivers[id.0].spec.window = window;
        self.top_up(id.0);
    }

    /// A receiver stops, or goes on.
    pub fn stall(&mut self, id: ReceiverId, stalled: bool) {
        self.receivers[id.0].stalled = stalled;
        self.serve(id.0);
        self.top_up(id.0);
    }

    /// A receiver that held what it got settles from now on, the held ones first.
    pub fn settle_again(&mut self, id: ReceiverId) {
        self.receivers[id.0].spec.settles = true;
        self.serve(id.0);
        self.top_up(id.0);
    }

    pub fn leave_sender(&mut self, id: SenderId) {
        let sender = &mut self.senders[id.0];
        sender.gone = true;
        let peer = sender.peer;
        self.world.client_mut(peer).close(None);
    }

    pub fn leave_receiver(&mut self, id: ReceiverId) {
        let receiver = &mut self.receivers[id.0];
        receiver.gone = true;
        let peer = receiver.peer;
        self.world.client_mut(peer).close(None);
    }

    /// The receiver's connection breaks.
    pub fn kill(&mut self, id: ReceiverId) {
        let receiver = &mut self.receivers[id.0];
        receiver.gone = true;
        let peer = receiver.peer;
        self.world.cut(peer, true);
    }

    // ── readings ──

    pub fn sent(&self, id: SenderId) -> u64 {
        self.senders[id.0].sent
    }

    /// Messages of a sender that have their outcome (named by its kind).
    pub fn outcomes(&self, id: SenderId, kind: &str) -> u64 {
        self.senders[id.0].outcomes.get(kind).copied().unwrap_or_default()
    }

    pub fn outcomes_in_all(&self, id: SenderId) -> u64 {
        self.senders[id.0].outcomes.values().sum()
    }

    /// Messages sent unsettled that wait for their outcome.
    pub fn in_flight(&self, id: SenderId) -> usize {
        self.senders[id.0].in_flight.len()
    }

    pub fn credit(&self, id: SenderId) -> u32 {
        let sender = &self.senders[id.0];
        sender.link.map_or(0, |link| self.world.client(sender.peer).link(link).credit())
    }

    /// What a sender may have on its way: its credit and what waits for its outcome.
    pub fn credit_window(&self, id: SenderId) -> u32 {
        self.credit(id) + self.in_flight(id) as u32
    }

    pub fn received(&self, id: ReceiverId) -> u64 {
        self.receivers[id.0].received
    }

    pub fn served(&self, id: ReceiverId) -> u64 {
        self.receivers[id.0].served
    }

    pub fn drained(&self, id: ReceiverId) -> u64 {
        self.receivers[id.0].drained
    }

    /// When a receiver's first credit left it.
    pub fn first_credit_at(&self, id: ReceiverId) -> Option<Time> {
        self.receivers[id.0].first_credit_at
    }

    /// Messages that arrived nowhere so far, of those sent.
    pub fn missing(&self) -> usize {
        self.arrivals.iter().filter(|count| **count == 0).count()
    }

    /// Messages that arrived more than once (of a multicast: more often than `copies`).
    pub fn arrived_more_than(&self, copies: u8) -> usize {
        self.arrivals.iter().filter(|count| **count > copies).count()
    }

    pub fn arrived_fewer_than(&self, copies: u8) -> usize {
        self.arrivals.iter().filter(|count| **count < copies).count()
    }

    /// Deliveries that the router holds.
    pub fn in_router(&self) -> usize {
        self.world.dispatches().map(|dispatch| dispatch.router().deliveries_len()).sum()
    }

    /// From when a message was due to when it arrived, of all that arrived since this was asked last; sorted.
    pub fn take_latencies(&mut self) -> Vec<Duration> {
        let mut taken = std::mem::take(&mut self.latencies);
        taken.sort_unstable();
        taken
    }

    // ── time ──

    pub fn run_for(&mut self, duration: Duration) {
        let until = self.world.now + duration;
        while self.world.next_time().is_some_and(|at| at <= until) {
            match self.world.step() {
                Some(Happening::Timer(token)) => self.alarm(token),
                Some(Happening::Client(peer)) => self.client_events(peer),
                Some(Happening::Internal) | None => {}
            }
            if let Some((peer, what)) = self.world.violation() {
                panic!("client {}: {what}", peer.0);
            }
        }
        self.world.now = until;
    }

    /// Runs until `done`, at most so long; whether it came to that.
    pub fn run_until(&mut self, longest: Duration, mut done: impl FnMut(&Scenario) -> bool) -> bool {
        let until = self.world.now + longest;
        while !done(self) {
            if self.world.now >= until {
                return false;
            }
            self.run_for(Duration::from_millis(1).min(until.since(self.world.now)));
        }
        true
    }

    fn alarm(&mut self, token: u64) {
        let number = (token & 0xffff_ffff) as usize;
        match token >> 32 {
            0 => self.tick(number),
            _ => self.served_one(number),
        }
    }

    fn client_events(&mut self, peer: PeerIndex) {
        while let Some(event) = self.world.client_mut(peer).poll_event() {
            match (self.peers[peer.0], event) {
                (_, Event::Closed { condition }) => {
                    assert!(condition.is_none(), "the router closed: {condition:?}");
                    self.world.hang_up(peer);
                    return;
                }
                (_, Event::Detached { condition, .. }) => assert!(condition.is_none(), "detached: {condition:?}"),
                (Of::Sender(number), Event::Credit { .. } | Event::Window { .. } | Event::Attached { .. }) => {
                    self.pump(number);
                }
                (Of::Sender(number), Event::Outcome { delivery_id, kind, settled: true, .. }) => {
                    let sender = &mut self.senders[number];
                    if sender.in_flight.remove(&delivery_id).is_some() {
                        *sender.outcomes.entry(kind_name(kind)).or_default() += 1;
                    }
                }
                (Of::Receiver(number), Event::Message { delivery_id, settled, bytes, .. }) => {
                    self.arrived(number, delivery_id, settled, &bytes);
                }
                (Of::Receiver(number), Event::Drained { .. }) => {
                    self.receivers[number].drained += 1;
                }
                _ => {}
            }
        }
        // Once all that came is counted as held: the client's own credit is ahead of the events that are left.
        if let Of::Receiver(number) = self.peers[peer.0] {
            self.top_up(number);
        }
    }

    // ── senders ──

    fn tick(&mut self, number: usize) {
        let now = self.world.now;
        let sender = &mut self.senders[number];
        let Some(interval) = sender.spec.interval.filter(|_| !sender.gone && sender.ticking) else { return };
        let begun = sender.sent + sender.due.len() as u64;
        if sender.spec.messages.is_none_or(|messages| begun < messages) {
            sender.due.push_back(now);
        }
        self.world.timer(now + interval, number as u64);
        self.pump(number);
    }

    fn pump(&mut self, number: usize) {
        let now = self.world.now;
        loop {
            let sender = &mut self.senders[number];
            let Some(link) = sender.link.filter(|_| !sender.gone) else { return };
            let state = self.world.client(sender.peer).link(link);
            let (credit, draining) = (state.credit(), state.is_draining());
            let due = match sender.spec.interval {
                None => sender.spec.messages.is_none_or(|messages| sender.sent < messages).then_some(now),
                Some(_) => sender.due.front().copied(),
            };
            let Some(due) = due.filter(|_| credit > 0 && state.is_attached()) else {
                if draining {
                    let peer = sender.peer;
                    self.world.client_mut(peer).return_credit(link);
                }
                return;
            };
            let key = self.messages.len() as u64;
            let to = sender.spec.anonymous.then(|| sender.spec.address.clone());
            let bytes = compose(key, sender.spec.body_bytes, &Properties { to, ..Properties::default() });
            let (peer, settled) = (sender.peer, sender.spec.settled);
            let room = self.world.client(peer).session(sender.session).remote_room();
            if room == 0 {
                return;
            }
            let sent = self.world.client_mut(peer).send_begin(link, settled, &key.to_be_bytes(), &bytes, true);
            let Some((delivery_id, taken)) = sent else { return };
            assert!(taken == bytes.len(), "a scenario's message fits its frame");
            let sender = &mut self.senders[number];
            sender.due.pop_front();
            if !settled {
                sender.in_flight.insert(delivery_id, key);
            }
            self.messages.push((number, sender.sent, due));
            self.arrivals.push(0);
            sender.sent += 1;
        }
    }

    // ── receivers ──

    fn arrived(&mut self, number: usize, delivery_id: u32, settled: bool, bytes: &[u8]) {
        let (key, _) = parse(bytes).expect("a message of the scenario's");
        let (sender, sequence, due) = self.messages[key as usize];
        self.arrivals[key as usize] += 1;
        self.latencies.push(self.world.now.since(due));
        let receiver = &mut self.receivers[number];
        let last = receiver.last_from.insert(sender, sequence);
        assert!(last.is_none_or(|last| last < sequence), "sender {sender}: {sequence} came after {last:?}");
        receiver.received += 1;
        receiver.queue.push_back((delivery_id, settled));
        self.serve(number);
    }

    fn serve(&mut self, number: usize) {
        loop {
            let receiver = &mut self.receivers[number];
            let rests = receiver.serving || receiver.stalled || !receiver.spec.settles || receiver.gone;
            if receiver.queue.is_empty() || rests {
                return;
            }
            if !receiver.spec.service.is_zero() {
                receiver.serving = true;
                let at = self.world.now + receiver.spec.service;
                self.world.timer(at, 1 << 32 | number as u64);
                return;
            }
            self.finish_one(number);
        }
    }

    fn served_one(&mut self, number: usize) {
        self.receivers[number].serving = false;
        if self.receivers[number].gone {
            return;
        }
        self.finish_one(number);
        self.serve(number);
        self.top_up(number);
    }

    fn finish_one(&mut self, number: usize) {
        let receiver = &mut self.receivers[number];
        let Some((delivery_id, settled)) = receiver.queue.pop_front() else { return };
        receiver.served += 1;
        if settled {
            return;
        }
        receiver.batch.push(delivery_id);
        if receiver.batch.len() < receiver.spec.settle_batch as usize {
            return;
        }
        let (Some(link), peer) = (receiver.link, receiver.peer) else { return };
        let batch = std::mem::take(&mut receiver.batch);
        let mut first = batch[0];
        for (place, delivery_id) in batch.iter().enumerate() {
            let next = batch.get(place + 1);
            if next != Some(&delivery_id.wrapping_add(1)) {
                self.world.client_mut(peer).dispose(link, first, *delivery_id, Some(&state::ACCEPTED), true);
                first = next.copied().unwrap_or_default();
            }
        }
    }

    fn top_up(&mut self, number: usize) {
        let now = self.world.now;
        let receiver = &mut self.receivers[number];
        let Some(link) = receiver.link.filter(|_| !receiver.gone && !receiver.stalled) else { return };
        let state = self.world.client(receiver.peer).link(link);
        if !state.is_attached() {
            return;
        }
        let (credit, draining) = (state.credit(), state.is_draining());
        let held = (receiver.queue.len() + receiver.batch.len()) as u32;
        let want = receiver.spec.window.saturating_sub(held);
        let peer = receiver.peer;
        if receiver.spec.polls {
            if !draining && held == 0 && credit == 0 {
                self.world.client_mut(peer).set_credit(link, 1, true);
            }
            return;
        }
        let gives = match receiver.spec.top_up {
            TopUp::Each => want > credit,
            TopUp::Half => want > credit && credit <= receiver.spec.window / 2,
            TopUp::Empty => want > 0 && credit == 0,
        };
        if gives {
            receiver.first_credit_at.get_or_insert(now);
            self.world.client_mut(peer).set_credit(link, want, false);
        }
    }
}

/// Jain's fairness index of some shares: 1 where all are the same, 1/n where one has all.
pub fn fairness(shares: &[u64]) -> f64 {
    let sum: f64 = shares.iter().map(|share| *share as f64).sum();
    let squares: f64 = shares.iter().map(|share| (*share as f64) * (*share as f64)).sum();
    if squares == 0.0 {
        return 1.0;
    }
    sum * sum / (shares.len() as f64 * squares)
}

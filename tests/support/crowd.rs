//! Very many well-behaved clients on one thread: engines that connect, over sockets that never block.
//!
//! Each message says whose it is and which one of that sender's, so that what is lost or comes twice shows.

use super::router::Router;
use ringway::client::Client;
use ringway::engine::{Direction, Event, LinkOffer, Sent, Settings, Source, Target};
use ringway::ids::{DeliveryId, LinkHandle, LinkId, SessionNumber};
use ringway::outcome::{State, StateKind};
use ringway::payload::{Payload, Range};
use ringway::time::Time;
use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// Deliveries of a sender without an outcome, at most.
const UNSETTLED_MAX: usize = 1000;
const READ_BYTES: usize = 64 * 1024;

#[derive(Clone)]
pub enum Role {
    /// Sends so many messages of so many bytes, each until it is accepted.
    Sender { address: String, bytes: usize, messages: u64 },
    /// Accepts all it gets.
    Receiver { address: String, credit: u32 },
}

pub struct Peer {
    stream: Option<TcpStream>,
    client: Client,
    role: Role,
    number: u32,
    session: Option<SessionNumber>,
    pub link: Option<LinkHandle>,
    pub is_attached: bool,
    /// Whether it reads its socket at all.
    pub reads: bool,
    /// A receiver reads no more once it is attached and gave credit.
    pub stops_when_attached: bool,
    output: Vec<u8>,
    written: usize,
    /// Why it ended, where it did.
    pub ended: Option<String>,
    // A sender's.
    credit: u32,
    delivery_count: u32,
    limit: u32,
    is_busy: bool,
    next: u64,
    again: VecDeque<u64>,
    under_way: HashMap<u32, (u64, Instant)>,
    next_delivery: u32,
    pub sent: u64,
    /// Messages a second; None: as credit allows.
    pub rate: Option<u64>,
    paced: Option<Instant>,
    pace: u64,
    pub accepted: HashSet<u64>,
    pub returned: u64,
    pub rejected: u64,
    /// Microseconds from a send to its outcome.
    pub latencies: Vec<u32>,
    body: Option<Range>,
    // A receiver's.
    outstanding: u32,
    arriving: HashMap<u32, (usize, Vec<u8>)>,
    pub received: u64,
    pub received_bytes: u64,
    /// By sender, and which of its messages.
    pub seen: HashMap<(u32, u64), u32>,
    pub keeps_seen: bool,
}

pub struct Crowd {
    pub peers: Vec<Peer>,
    began: Instant,
    address: (&'static str, u16),
    next_number: u32,
    buffer: Box<[u8]>,
}

fn body(number: u32, which: u64, bytes: usize, rest: &Range) -> Payload {
    let mut head = vec![0x00, 0x53, 0x75, 0xb0];
    head.extend((bytes as u32).to_be_bytes());
    head.extend(number.to_be_bytes());
    head.extend(which.to_be_bytes());
    let mut payload = Payload::copied(&head);
    payload.push(rest.slice(0, bytes - 12));
    payload
}

impl Crowd {
    pub fn new(router: &Router) -> Crowd {
        let buffer = vec![0; READ_BYTES].into();
        let address = ("127.0.0.1", router.port);
        Crowd { peers: Vec::new(), began: Instant::now(), address, next_number: 0, buffer }
    }

    fn now(&self) -> Time {
        Time(self.began.elapsed().as_nanos() as u64)
    }

    /// Connects one more; gives its index.
    pub fn add(&mut self, role: Role) -> usize {
        let peer = self.connect(role);
        self.peers.push(peer);
        self.peers.len() - 1
    }

    fn connect(&mut self, role: Role) -> Peer {
        self.next_number += 1;
        let number = self.next_number;
        let stream = TcpStream::connect(self.address).expect("the router accepts");
        stream.set_nonblocking(true).expect("a socket that never blocks");
        stream.set_nodelay(true).expect("TCP_NODELAY");
        let settings =
            Settings { container_id: format!("crowd-{number}"), idle_timeout: Duration::ZERO, ..Settings::default() };
        let bytes = if let Role::Sender { bytes, .. } = &role { *bytes } else { 0 };
        Peer {
            stream: Some(stream),
            client: Client::new(settings, None, self.now()),
            number,
            session: None,
            link: None,
            is_attached: false,
            reads: true,
            stops_when_attached: false,
            output: Vec::new(),
            written: 0,
            ended: None,
            credit: 0,
            delivery_count: 0,
            limit: 0,
            is_busy: false,
            next: 0,
            again: VecDeque::new(),
            under_way: HashMap::new(),
            next_delivery: 0,
            sent: 0,
            rate: None,
            paced: None,
            pace: 0,
            accepted: HashSet::new(),
            returned: 0,
            rejected: 0,
            latencies: Vec::new(),
            body: (bytes > 0).then(|| Range::copied(&vec![b'x'; bytes])),
            outstanding: 0,
            arriving: HashMap::new(),
            received: 0,
            received_bytes: 0,
            seen: HashMap::new(),
            keeps_seen: true,
            role,
        }
    }

    /// Its socket is closed at once, with whatever is on it: as kill -9 of its process does.
    pub fn kill(&mut self, index: usize) {
        self.peers[index].stream = None;
        self.peers[index].ended = Some("killed".into());
    }

    /// Another in the place of one that ended.
    pub fn replace(&mut self, index: usize) {
        let role = self.peers[index].role.clone();
        self.peers[index] = self.connect(role);
    }

    /// Whatever can be done now is done; waits up to `patience` for something.
    pub fn pump(&mut self, patience: Duration) {
        let now = self.now();
        for peer in &mut self.peers {
            peer.act(now);
        }
        let mut polled: Vec<libc::pollfd> = self.peers.iter().filter_map(Peer::pollfd).collect();
        let wait = patience.as_millis().min(50) as i32;
        // SAFETY: a valid array of that length.
        unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, wait) };
        let now = self.now();
        let mut results = polled.iter();
        for peer in &mut self.peers {
            if peer.pollfd().is_none() {
                continue;
            }
            let Some(result) = results.next() else { break };
            if result.revents & libc::POLLIN != 0 || result.revents & (libc::POLLHUP | libc::POLLERR) != 0 {
                peer.read(&mut self.buffer, now);
            }
            if result.revents != 0 {
                peer.act(now);
            }
        }
    }

    /// Pumps until `is_done` says so; false where it took longer than `patience`.
    pub fn run_until(&mut self, patience: Duration, mut is_done: impl FnMut(&Crowd) -> bool) -> bool {
        let deadline = Instant::now() + patience;
        while !is_done(self) {
            if Instant::now() > deadline {
                return false;
            }
            self.pump(Duration::from_millis(20));
        }
        true
    }

    pub fn run_for(&mut self, time: Duration) {
        self.run_until(time, |_| false);
    }

    pub fn all_attached(&self) -> bool {
        self.peers.iter().all(|peer| peer.is_attached)
    }

    pub fn received(&self) -> u64 {
        self.peers.iter().map(|peer| peer.received).sum()
    }

    pub fn accepted(&self) -> u64 {
        self.peers.iter().map(|peer| peer.accepted.len() as u64).sum()
    }

    /// Ends of connections that nobody asked for.
    pub fn ends(&self) -> Vec<String> {
        let ended = self.peers.iter().filter_map(|peer| peer.ended.clone());
        ended.filter(|why| why != "killed").collect()
    }
}

impl Peer {
    fn pollfd(&self) -> Option<libc::pollfd> {
        let stream = self.stream.as_ref()?;
        let reads = if self.reads { libc::POLLIN } else { 0 };
        let writes = if self.written < self.output.len() { libc::POLLOUT } else { 0 };
        if reads | writes == 0 {
            return None;
        }
        Some(libc::pollfd { fd: stream.as_raw_fd(), events: reads | writes, revents: 0 })
    }

    fn read(&mut self, buffer: &mut [u8], now: Time) {
        for _ in 0..4 {
            let Some(stream) = &mut self.stream else { return };
            if !self.reads {
                return;
            }
            match stream.read(buffer) {
                Ok(0) => {
                    self.client.engine.handle_end_of_stream(now);
                    self.stream = None;
                }
                Ok(count) => {
                    self.client.engine.handle_input(Range::copied(&buffer[..count]), now);
                    self.events();
                    if count < buffer.len() {
                        return;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => {
                    self.ended.get_or_insert(format!("reading: {error}"));
                    self.stream = None;
                }
            }
        }
    }

    /// Acts on what happened, sends what may be sent, writes what the socket takes.
    fn act(&mut self, now: Time) {
        if self.client.engine.poll_timeout().is_some_and(|at| at <= now) {
            self.client.engine.handle_timeout(now);
        }
        self.events();
        self.send();
        loop {
            if self.written == self.output.len() {
                self.output.clear();
                self.written = 0;
                let Some(transmit) = self.client.engine.poll_transmit() else { break };
                self.output = transmit.to_vec();
                self.events();
            }
            let Some(stream) = &mut self.stream else { return };
            match stream.write(&self.output[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => {
                    self.ended.get_or_insert(format!("writing: {error}"));
                    self.stream = None;
                    return;
                }
            }
        }
    }

    fn events(&mut self) {
        while let Some(event) = self.client.poll_event() {
            self.event(event);
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Opened(_) => self.attach(),
            Event::LinkAnswered { link, attach, .. } if self.link == Some(link) => {
                self.is_attached = !matches!(attach.terminus, ringway::engine::Terminus::Absent);
                if let Role::Receiver { credit, .. } = self.role {
                    self.outstanding = credit;
                    self.client.engine.grant(link, credit, false);
                    self.reads = !self.stops_when_attached;
                }
            }
            Event::LinkEnded { error, .. } => {
                self.ended.get_or_insert(format!("link: {error:?}"));
                self.link = None;
            }
            Event::Closed { error } => {
                self.ended.get_or_insert(format!("connection: {error:?}"));
                self.link = None;
            }
            Event::Credit { delivery_count, limit, .. } => {
                (self.delivery_count, self.limit) = (delivery_count, limit);
                self.credit = limit.wrapping_sub(delivery_count);
            }
            Event::PayloadSent { complete: true, .. } | Event::SessionWritable { .. } => self.is_busy = false,
            Event::ReceiverDisposition { delivery, state, settled, .. } if settled => self.outcome(delivery, state),
            Event::Transfer(transfer) => {
                let head = transfer.payload.to_vec();
                let (id, session) = (transfer.wire.delivery_id, transfer.wire.session);
                self.client.engine.payload_released(session, head.len());
                if transfer.more {
                    self.arriving.insert(id, (head.len(), head[..head.len().min(20)].to_vec()));
                } else {
                    self.arrived(transfer.wire, head.len(), &head);
                }
            }
            Event::TransferMore { wire, payload, more, .. } => {
                self.client.engine.payload_released(wire.session, payload.len());
                let Some((bytes, head)) = self.arriving.get_mut(&wire.delivery_id) else { return };
                *bytes += payload.len();
                if head.len() < 20 {
                    head.extend(payload.to_vec());
                }
                if !more {
                    if let Some((bytes, head)) = self.arriving.remove(&wire.delivery_id) {
                        self.arrived(wire, bytes, &head);
                    }
                }
            }
            Event::TransferAborted { wire, .. } => {
                self.arriving.remove(&wire.delivery_id);
                self.top_up();
            }
            _ => {}
        }
    }

    fn attach(&mut self) {
        let Some(session) = self.client.engine.begin_session() else { return };
        self.session = Some(session);
        let token = LinkId { index: 0, generation: 0 };
        let name = format!("link-{}", self.number);
        let (direction, address) = match &self.role {
            Role::Sender { address, .. } => (Direction::Outgoing, address.clone()),
            Role::Receiver { address, .. } => (Direction::Incoming, address.clone()),
        };
        let offer = LinkOffer {
            name: &name,
            direction,
            source: Source { address: Some(&address), ..Source::default() },
            target: Target { address: Some(&address), ..Target::default() },
            sender_settle_mode: Default::default(),
            receiver_settle_mode: Default::default(),
        };
        self.link = self.client.engine.attach_link(session, token, &offer);
    }

    fn arrived(&mut self, wire: ringway::ids::WireDelivery, bytes: usize, head: &[u8]) {
        assert!(head.len() >= 20, "a message of the crowd's");
        let declared = u32::from_be_bytes([head[4], head[5], head[6], head[7]]) as usize;
        assert_eq!(declared + 8, bytes, "a message arrives whole");
        let number = u32::from_be_bytes([head[8], head[9], head[10], head[11]]);
        let which = u64::from_be_bytes(head[12..20].try_into().expect("eight bytes"));
        if self.keeps_seen {
            *self.seen.entry((number, which)).or_default() += 1;
        }
        self.received += 1;
        self.received_bytes += bytes as u64;
        self.client.engine.dispose_incoming(wire, Some(State::ACCEPTED), true);
        self.top_up();
    }

    /// A delivery is over: its credit is given again, half of all at a time.
    fn top_up(&mut self) {
        let (Role::Receiver { credit, .. }, Some(link)) = (&self.role, self.link) else { return };
        self.outstanding = self.outstanding.saturating_sub(1);
        if self.outstanding <= credit / 2 {
            self.client.engine.grant(link, credit - self.outstanding, false);
            self.outstanding = *credit;
        }
    }

    fn outcome(&mut self, delivery: DeliveryId, state: Option<State>) {
        let Some((which, sent)) = self.under_way.remove(&delivery.index) else { return };
        match state.map(|state| state.kind) {
            Some(StateKind::Accepted) => {
                self.accepted.insert(which);
                self.latencies.push(sent.elapsed().as_micros().min(u32::MAX as u128) as u32);
            }
            Some(StateKind::Rejected) => self.rejected += 1,
            _ => {
                self.returned += 1;
                self.again.push_back(which);
            }
        }
    }

    fn send(&mut self) {
        let Role::Sender { bytes, messages, .. } = self.role else { return };
        let (Some(link), Some(rest)) = (self.link, self.body.clone()) else { return };
        // A turn's worth, so that all have theirs.
        for _ in 0..self.paced_turn() {
            let has_more = self.next < messages || !self.again.is_empty();
            if !self.is_attached || self.is_busy || self.credit == 0 || !has_more {
                return;
            }
            if self.under_way.len() >= UNSETTLED_MAX || self.stream.is_none() {
                return;
            }
            let which = self.again.pop_front().unwrap_or_else(|| {
                self.next += 1;
                self.next - 1
            });
            self.next_delivery += 1;
            self.credit -= 1;
            self.sent += 1;
            self.pace += 1;
            let delivery = DeliveryId { index: self.next_delivery, generation: 0 };
            self.under_way.insert(delivery.index, (which, Instant::now()));
            let payload = body(self.number, which, bytes, &rest);
            self.is_busy = match self.client.engine.send(link, delivery, 0, false, true, payload) {
                Sent::Whole { room } => !room,
                Sent::Partly => true,
            };
        }
    }

    /// Messages that may be sent in a turn.
    fn paced_turn(&mut self) -> u64 {
        let Some(rate) = self.rate else { return 64 };
        if !self.is_attached {
            return 0;
        }
        let elapsed = self.paced.get_or_insert_with(Instant::now).elapsed();
        let due = (elapsed.as_secs_f64() * rate as f64) as u64;
        // What it couldn't send in time it sends later, as long as that is little.
        self.pace = self.pace.max(due.saturating_sub(rate / 10));
        due.saturating_sub(self.pace).min(64)
    }

    pub fn number(&self) -> u32 {
        self.number
    }

    pub fn is_sender(&self) -> bool {
        matches!(self.role, Role::Sender { .. })
    }
}

impl Peer {
    /// A sender begins no further message.
    pub fn finish(&mut self) {
        if let Role::Sender { messages, .. } = &mut self.role {
            *messages = self.next;
        }
    }

    /// All that a sender began has its outcome.
    pub fn is_done(&self) -> bool {
        let Role::Sender { messages, .. } = self.role else { return true };
        self.next >= messages && self.under_way.is_empty() && self.again.is_empty()
    }
}

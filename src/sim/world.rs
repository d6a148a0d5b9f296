//! The world around a router: virtual time, sockets with their pipes, and the turn of a shard over all of them.
//!
//! Owns: the clock, the router (dispatch over engines and routing), the connections' pipes, the clients' ends.
//! Doesn't: decide what clients do (its user), judge (the checkers).
//! Driven by: its user, step by step: a step is one event; the user hears of what concerns it.
//!
//! The router's side does what a shard's turn does, in the same order: one receive armed and one send in flight a
//! connection; what completed is told to dispatch; dispatch runs and what it touched is flushed, until nothing follows.
//!
//! Invariant: everything that happens follows from the seed and from the calls.

use super::client::Client;
use super::message::digest;
use super::pipe::{Manner, Pipe};
use super::random::Random;
use crate::arena::Arena;
use crate::dispatch::{Dispatch, Report};
use crate::engine::{self, Transmit};
use crate::ids::{ConnectionId, ShardId};
use crate::payload::Pool;
use crate::routing::{Edge, RouterSettings};
use crate::time::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

/// A client's place in the world; never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct PeerIndex(pub usize);

/// How long the router's side of a connection lingers (as a shard's does).
const LINGER: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Wake {
    /// Something may have completed on the router's side of a connection.
    Router(ConnectionId),
    Turn,
    ClientInput(u32),
    ClientOutput(u32),
    Timer(u64),
}

/// What a step was about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Happening {
    /// A timer of the user's.
    Timer(u64),
    /// A client got bytes, or its connection is over: poll its events.
    Client(PeerIndex),
    /// Nothing for the user.
    Internal,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Open,
    Lingering,
}

struct Sending {
    transmit: Transmit,
    bytes: Vec<u8>,
    sent: usize,
    stamp: u64,
}

/// The router's end of a connection.
struct Stream {
    peer: u32,
    phase: Phase,
    receiving: bool,
    input_over: bool,
    sending: Option<Sending>,
    listed: bool,
    in_inbox: bool,
    deadline: Option<Time>,
    /// The earliest wake for a time-out of the connection's that is under way.
    timer: Option<Time>,
    /// Input bytes that dispatch got.
    consumed: u64,
    /// As many of them as dispatch had handled when it was polled for output last: what it wrote since then was
    /// written knowing them.
    stamp: u64,
}

/// A client's end.
struct Peer {
    client: Client,
    connection: Option<ConnectionId>,
    to_router: Pipe,
    to_client: Pipe,
    /// The client takes bytes from its socket.
    reading: bool,
    /// The client has gone: what the router writes gets lost.
    vanished: bool,
    /// Whether that looked like a reset to the router.
    reset: bool,
    /// The client sees no more bytes.
    over: bool,
    input_wake: Option<Time>,
}

#[derive(Clone, Debug)]
pub struct WorldSettings {
    pub router: RouterSettings,
    pub engine: engine::Settings,
    pub link_capacity: u32,
    /// Bytes of a chunk, so of one receive.
    pub chunk_bytes: usize,
    /// A turn takes up to so long to begin, so that several completions meet in it.
    pub turn_delay: Duration,
    /// Of a hundred times that control is offered a threshold edge, it has no room for it.
    pub edges_refused_percent: u64,
    pub trace: bool,
}

impl Default for WorldSettings {
    fn default() -> WorldSettings {
        WorldSettings {
            router: RouterSettings::default(),
            engine: engine::Settings::default(),
            link_capacity: crate::limits::LINK_CAPACITY_DEFAULT,
            chunk_bytes: crate::limits::CHUNK_BYTES,
            turn_delay: Duration::ZERO,
            edges_refused_percent: 0,
            trace: false,
        }
    }
}

pub struct World {
    pub now: Time,
    pub steps: u64,
    /// Of all that happened, in order: the same for the same seed.
    pub trace_digest: u64,
    random: Random,
    wakes: BinaryHeap<Reverse<(Time, u64, Wake)>>,
    wake_number: u64,
    dispatch: Dispatch,
    pool: Pool,
    streams: Arena<ConnectionId, Stream>,
    peers: Vec<Peer>,
    inbox: Vec<ConnectionId>,
    flushing: Vec<ConnectionId>,
    touched: Vec<ConnectionId>,
    violated: Option<PeerIndex>,
    turn_at: Option<Time>,
    settings: WorldSettings,
    engine_settings: Arc<engine::Settings>,
    /// Threshold edges that control took, in order.
    pub edges: Vec<(String, Edge)>,
    /// Frames and reports as text, where asked for.
    pub log: Vec<String>,
}

impl World {
    pub fn new(settings: WorldSettings, random: Random) -> World {
        World {
            now: Time::ZERO,
            steps: 0,
            trace_digest: 0,
            random,
            wakes: BinaryHeap::new(),
            wake_number: 0,
            dispatch: Dispatch::new(settings.router.clone(), ShardId(0), 1, settings.trace, Time::ZERO),
            pool: Pool::new(settings.chunk_bytes, 64),
            streams: Arena::new(),
            peers: Vec::new(),
            inbox: Vec::new(),
            flushing: Vec::new(),
            touched: Vec::new(),
            violated: None,
            turn_at: None,
            engine_settings: Arc::new(settings.engine.clone()),
            settings,
            edges: Vec::new(),
            log: Vec::new(),
        }
    }

    // ── getters ──

    pub fn dispatch(&self) -> &Dispatch {
        &self.dispatch
    }

    pub fn client(&self, peer: PeerIndex) -> &Client {
        &self.peers[peer.0].client
    }

    /// The first breach that any client found since it was asked last.
    pub fn violation(&self) -> Option<(PeerIndex, &str)> {
        let found = self.violated?;
        self.peers[found.0].client.violations.first().map(|what| (found, what.as_str()))
    }

    /// Threshold edges that control has not taken yet.
    pub fn edges_wait(&self) -> bool {
        self.dispatch.has_edges()
    }

    /// Chunks of received bytes that somebody in the router holds.
    pub fn chunks_in_use(&self) -> usize {
        self.pool.in_use()
    }

    /// Connections that the router's side still has.
    pub fn connections(&self) -> usize {
        self.streams.len()
    }

    pub fn is_over(&self, peer: PeerIndex) -> bool {
        self.peers[peer.0].over
    }

    // ── what the user does ──

    /// A client connects.
    pub fn connect(&mut self, client: Client, to_router: Manner, to_client: Manner) -> PeerIndex {
        let index = self.peers.len();
        let connection = self.streams.insert(Stream {
            peer: index as u32,
            phase: Phase::Open,
            receiving: false,
            input_over: false,
            sending: None,
            listed: false,
            in_inbox: false,
            deadline: None,
            timer: None,
            consumed: 0,
            stamp: 0,
        });
        self.peers.push(Peer {
            client,
            connection: Some(connection),
            to_router: Pipe::new(to_router),
            to_client: Pipe::new(to_client),
            reading: true,
            vanished: false,
            reset: false,
            over: false,
            input_wake: None,
        });
        let (engine, link_capacity) = (self.engine_settings.clone(), self.settings.link_capacity);
        self.dispatch.accepted(connection, &engine, link_capacity, self.now);
        self.wake_router(connection, self.now);
        self.touch(PeerIndex(index));
        PeerIndex(index)
    }

    /// The client, to be told something; what it has to say is sent.
    pub fn client_mut(&mut self, peer: PeerIndex) -> &mut Client {
        self.touch(peer);
        &mut self.peers[peer.0].client
    }

    fn touch(&mut self, peer: PeerIndex) {
        self.wake(self.now, Wake::ClientOutput(peer.0 as u32));
    }

    pub fn timer(&mut self, at: Time, token: u64) {
        self.wake(at.max(self.now), Wake::Timer(token));
    }

    /// A client stops taking bytes from its socket, or begins again.
    pub fn set_reading(&mut self, peer: PeerIndex, reading: bool) {
        self.peers[peer.0].reading = reading;
        self.wake_client_input(peer.0);
    }

    /// The network gets fast and wide.
    pub fn ease(&mut self) {
        for index in 0..self.peers.len() {
            self.peers[index].to_router.ease();
            self.peers[index].to_client.ease();
            self.touch(PeerIndex(index));
            if let Some(connection) = self.peers[index].connection {
                self.wake_router(connection, self.now);
            }
        }
    }

    /// The connection breaks under the client: a part of what is under way arrives, the rest is lost.
    pub fn cut(&mut self, peer: PeerIndex, reset: bool) {
        let state = &mut self.peers[peer.0];
        let kept = self.random.between(0, state.to_router.queued() as u64) as usize;
        state.to_router.cut(kept, self.now);
        state.to_client.cut(0, self.now);
        state.vanished = true;
        state.reset = reset;
        state.over = true;
        if let Some(connection) = state.connection {
            self.wake_receive(connection);
            self.wake_router(connection, self.now);
        }
    }

    /// The client has said all it had to and closes its socket once that is under way.
    pub fn hang_up(&mut self, peer: PeerIndex) {
        self.flush_client(peer.0);
        let state = &mut self.peers[peer.0];
        state.to_router.finish(self.now);
        state.vanished = true;
        state.over = true;
        if let Some(connection) = state.connection {
            self.wake_receive(connection);
            self.wake_router(connection, self.now);
        }
    }

    /// Orderly end of the router.
    pub fn stop_router(&mut self) {
        self.dispatch.stop();
        self.schedule_turn(self.now);
    }

    // ── steps ──

    fn wake(&mut self, at: Time, wake: Wake) {
        self.wake_number += 1;
        self.wakes.push(Reverse((at, self.wake_number, wake)));
    }

    /// When the next thing happens.
    pub fn next_time(&self) -> Option<Time> {
        self.wakes.peek().map(|Reverse((at, ..))| *at)
    }

    /// The next thing happens. None: nothing ever will.
    pub fn step(&mut self) -> Option<Happening> {
        let Reverse((at, _, wake)) = self.wakes.pop()?;
        self.now = self.now.max(at);
        self.steps += 1;
        self.note(at.0);
        Some(match wake {
            Wake::Timer(token) => {
                self.note(token);
                Happening::Timer(token)
            }
            Wake::Router(id) => {
                self.completed(id);
                Happening::Internal
            }
            Wake::Turn => {
                self.turn();
                Happening::Internal
            }
            Wake::ClientOutput(peer) => {
                self.flush_client(peer as usize);
                Happening::Internal
            }
            Wake::ClientInput(peer) => self.client_input(peer as usize),
        })
    }

    /// Adds to the trace.
    pub fn note(&mut self, word: u64) {
        self.trace_digest = (self.trace_digest ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31);
    }

    // ── clients' ends ──

    fn flush_client(&mut self, index: usize) {
        let peer = &mut self.peers[index];
        if peer.vanished || !peer.client.has_output() {
            return;
        }
        let output = peer.client.output();
        let taken = peer.to_router.write(output, 0, self.now, &mut self.random);
        output.drain(..taken);
        if let Some(connection) = peer.connection {
            self.wake_receive(connection);
        }
    }

    fn wake_client_input(&mut self, index: usize) {
        let peer = &mut self.peers[index];
        if !peer.reading || peer.over {
            return;
        }
        if let Some(at) = peer.to_client.next_arrival() {
            let at = at.max(self.now);
            if peer.input_wake.is_none_or(|earlier| at < earlier) {
                peer.input_wake = Some(at);
                self.wake(at, Wake::ClientInput(index as u32));
            }
        }
    }

    fn client_input(&mut self, index: usize) -> Happening {
        let now = self.now;
        let peer = &mut self.peers[index];
        if peer.input_wake == Some(now) {
            peer.input_wake = None;
        }
        if peer.over || !peer.reading {
            return Happening::Internal;
        }
        let mut bytes = Vec::new();
        match peer.to_client.read(usize::MAX, now, &mut bytes) {
            Some(stamp) => {
                let word = digest(&bytes);
                peer.client.handle_input(&bytes, stamp);
                if !peer.client.violations.is_empty() {
                    self.violated = Some(PeerIndex(index));
                }
                let connection = peer.connection;
                self.note(word);
                if let Some(connection) = connection {
                    if self.streams.get(connection).is_some_and(|stream| stream.sending.is_some()) {
                        self.wake_router(connection, now);
                    }
                }
            }
            None if peer.to_client.is_over(now) => peer.over = true,
            None => {}
        }
        self.wake_client_input(index);
        self.touch(PeerIndex(index));
        Happening::Client(PeerIndex(index))
    }

    // ── the router's end ──

    fn wake_router(&mut self, connection: ConnectionId, at: Time) {
        self.wake(at, Wake::Router(connection));
    }

    /// Wakes the router when an armed receive will have something.
    fn wake_receive(&mut self, connection: ConnectionId) {
        let Some(stream) = self.streams.get(connection) else { return };
        if !stream.receiving {
            return;
        }
        if let Some(at) = self.peers[stream.peer as usize].to_router.next_arrival() {
            let at = at.max(self.now);
            self.wake_router(connection, at);
        }
    }

    fn completed(&mut self, id: ConnectionId) {
        if let Some(stream) = self.streams.get_mut(id) {
            if stream.timer.is_some_and(|at| at <= self.now) {
                stream.timer = None;
            }
            if !stream.in_inbox {
                stream.in_inbox = true;
                self.inbox.push(id);
            }
            let delay = Duration::from_nanos(self.random.below(self.settings.turn_delay.as_nanos() as u64 + 1));
            self.schedule_turn(self.now + delay);
        }
    }

    fn schedule_turn(&mut self, at: Time) {
        if self.turn_at.is_none_or(|earlier| at < earlier) {
            self.turn_at = Some(at);
            self.wake(at, Wake::Turn);
        }
    }

    fn turn(&mut self) {
        if self.turn_at.is_none_or(|at| at > self.now) {
            return;
        }
        self.turn_at = None;
        let mut inbox = std::mem::take(&mut self.inbox);
        for id in inbox.drain(..) {
            if let Some(stream) = self.streams.get_mut(id) {
                stream.in_inbox = false;
                self.complete_send(id);
                self.complete_receive(id);
                self.expire(id);
                self.list(id);
            }
        }
        self.inbox = inbox;
        self.settle();
        if let Some(at) = self.dispatch.next_timeout() {
            self.schedule_turn(at.max(self.now));
        }
        self.take_edges();
        self.drain_reports();
    }

    fn take_edges(&mut self) {
        let (random, edges, refused) = (&mut self.random, &mut self.edges, self.settings.edges_refused_percent);
        self.dispatch.flush_edges(|address, edge| {
            let taken = !random.percent(refused);
            if taken {
                edges.push((address.to_owned(), *edge));
            }
            taken
        });
    }

    fn list(&mut self, id: ConnectionId) {
        if let Some(stream) = self.streams.get_mut(id) {
            if !stream.listed {
                stream.listed = true;
                self.flushing.push(id);
            }
        }
    }

    fn settle(&mut self) {
        loop {
            self.dispatch.run(self.now, &mut self.touched);
            while let Some(id) = self.touched.pop() {
                self.list(id);
            }
            if self.flushing.is_empty() {
                return;
            }
            for id in std::mem::take(&mut self.flushing) {
                self.flush(id);
            }
        }
    }

    fn complete_receive(&mut self, id: ConnectionId) {
        let (now, chunk_bytes) = (self.now, self.settings.chunk_bytes);
        let Some(stream) = self.streams.get_mut(id) else { return };
        if !stream.receiving {
            return;
        }
        let peer = &mut self.peers[stream.peer as usize];
        let mut bytes = Vec::new();
        if peer.to_router.read(chunk_bytes, now, &mut bytes).is_some() {
            stream.receiving = false;
            stream.consumed += bytes.len() as u64;
            let (phase, index) = (stream.phase, stream.peer);
            self.note(digest(&bytes));
            if phase == Phase::Open {
                let chunk = self.pool.take();
                // SAFETY: as many bytes as a chunk has room for at most, and no range lies on them yet.
                let range = unsafe {
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), chunk.data(), bytes.len());
                    chunk.range(0, bytes.len())
                };
                drop(chunk);
                self.dispatch.received(id, range, now);
            }
            self.wake(now, Wake::ClientOutput(index));
        } else if peer.to_router.is_over(now) {
            stream.receiving = false;
            stream.input_over = true;
            let (phase, reset) = (stream.phase, peer.reset);
            match phase {
                Phase::Open => {
                    self.dispatch.end_of_stream(id, now);
                    if reset {
                        self.end(id);
                    } else {
                        self.limit(id);
                    }
                }
                Phase::Lingering => self.end(id),
            }
        }
    }

    fn complete_send(&mut self, id: ConnectionId) {
        let now = self.now;
        let Some(stream) = self.streams.get_mut(id) else { return };
        let Some(sending) = &mut stream.sending else { return };
        let peer = &mut self.peers[stream.peer as usize];
        let failed = peer.vanished;
        if !failed && sending.sent < sending.bytes.len() {
            let rest = &sending.bytes[sending.sent..];
            sending.sent += peer.to_client.write(rest, sending.stamp, now, &mut self.random);
        }
        let done = failed || sending.sent == sending.bytes.len();
        let index = stream.peer as usize;
        if done {
            if let Some(sending) = stream.sending.take() {
                self.dispatch.transmitted(sending.transmit);
            }
            if failed {
                self.dispatch.end_of_stream(id, now);
                self.end(id);
            }
        }
        self.wake_client_input(index);
    }

    fn flush(&mut self, id: ConnectionId) {
        let now = self.now;
        let Some(stream) = self.streams.get_mut(id) else { return };
        stream.listed = false;
        if stream.phase != Phase::Open {
            self.arm_receive(id);
            return;
        }
        if stream.sending.is_none() {
            // A connection whose input rests has not handled all that it got.
            let handled = self.dispatch.wants_input(id).then_some(stream.consumed);
            let stamp = stream.stamp;
            stream.stamp = handled.unwrap_or(stamp);
            if let Some(transmit) = self.dispatch.poll_transmit(id) {
                if transmit.is_empty() {
                    self.dispatch.transmitted(transmit);
                } else {
                    let bytes = transmit.to_vec();
                    stream.sending = Some(Sending { transmit, bytes, sent: 0, stamp });
                    self.complete_send_soon(id);
                }
            }
        }
        if self.dispatch.wants_input(id) {
            self.arm_receive(id);
        }
        if self.dispatch.is_finished(id) {
            self.finish(id);
        } else if let Some(at) = self.dispatch.connection_timeout(id) {
            let Some(stream) = self.streams.get_mut(id) else { return };
            if stream.timer.is_none_or(|earlier| at < earlier) {
                stream.timer = Some(at);
                self.wake_router(id, at.max(now));
            }
        }
    }

    /// The kernel takes what it has room for at once; the completion is heard in a later turn.
    fn complete_send_soon(&mut self, id: ConnectionId) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        let Some(sending) = &mut stream.sending else { return };
        let peer = &mut self.peers[stream.peer as usize];
        if !peer.vanished {
            sending.sent = peer.to_client.write(&sending.bytes, sending.stamp, self.now, &mut self.random);
        }
        let (index, whole) = (stream.peer as usize, sending.sent == sending.bytes.len());
        let vanished = peer.vanished;
        self.wake_client_input(index);
        if whole || vanished {
            self.wake_router(id, self.now);
        }
    }

    fn arm_receive(&mut self, id: ConnectionId) {
        if let Some(stream) = self.streams.get_mut(id) {
            if !stream.receiving && !stream.input_over {
                stream.receiving = true;
                self.wake_receive(id);
            }
        }
    }

    fn finish(&mut self, id: ConnectionId) {
        self.limit(id);
        let Some(stream) = self.streams.get_mut(id) else { return };
        if stream.sending.is_some() {
            return;
        }
        if stream.input_over {
            self.end(id);
        } else {
            stream.phase = Phase::Lingering;
            let index = stream.peer as usize;
            self.peers[index].to_client.finish(self.now);
            self.wake_client_input(index);
            self.arm_receive(id);
        }
    }

    fn limit(&mut self, id: ConnectionId) {
        let at = self.now + LINGER;
        let Some(stream) = self.streams.get_mut(id) else { return };
        if stream.deadline.is_none() {
            stream.deadline = Some(at);
            self.wake_router(id, at);
        }
    }

    fn expire(&mut self, id: ConnectionId) {
        let now = self.now;
        let Some(stream) = self.streams.get_mut(id) else { return };
        if stream.deadline.is_some_and(|deadline| deadline <= now) {
            return self.end(id);
        }
        if stream.phase == Phase::Open && self.dispatch.connection_timeout(id).is_some_and(|due| due <= now) {
            self.dispatch.handle_timeout(id, now);
        }
    }

    /// The socket is gone.
    fn end(&mut self, id: ConnectionId) {
        let Some(stream) = self.streams.remove(id) else { return };
        let peer = &mut self.peers[stream.peer as usize];
        peer.connection = None;
        peer.to_client.finish(self.now);
        if let Some(sending) = stream.sending {
            self.dispatch.transmitted(sending.transmit);
        }
        self.dispatch.closed(id, self.now);
        self.schedule_turn(self.now);
        self.wake_client_input(stream.peer as usize);
    }

    fn drain_reports(&mut self) {
        while let Some(report) = self.dispatch.poll_report() {
            if self.settings.trace {
                let line = match report {
                    Report::Trace { connection, line } => format!("{:>12} [C{connection}] {line}", self.now.0),
                    other => format!("{:>12} {other:?}", self.now.0),
                };
                self.log.push(line);
            }
        }
    }
}

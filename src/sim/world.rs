//! The world around a router: virtual time, and sockets with their pipes.
//!
//! Owns: the clock, the router (dispatch over engines and routing), the connections' pipes, the clients' ends.
//! Doesn't: decide what clients do (its user), judge (the checkers).
//! Driven by: its user, step by step: a step is one event; the user hears of what concerns it.
//!
//! The router's side (`shards.rs`) does what a shard's turn does: one receive armed and one send in flight a connection.
//!
//! Invariant: everything that happens follows from the seed and from the calls.

use super::client::Client;
use super::message::digest;
use super::pipe::{Manner, Pipe};
use super::random::Random;
use super::shards::{Place, Shard, Stream, Traveller};
use crate::dispatch::Dispatch;
use crate::engine;
use crate::memory::Memory;
use crate::routing::{Edge, RouterSettings};
use crate::sabotage;
use crate::time::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

/// A client's place in the world; never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct PeerIndex(pub usize);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Wake {
    /// Something may have completed on the router's side of a connection.
    Router(Place),
    Turn(usize),
    /// A parcel arrives at a shard.
    Lane(usize),
    /// A connection arrives where it is to live.
    Moved(usize),
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

/// A client's end.
pub(super) struct Peer {
    pub client: Client,
    /// None: it is over, or between two shards.
    pub connection: Option<Place>,
    pub to_router: Pipe,
    pub to_client: Pipe,
    /// The client takes bytes from its socket.
    pub reading: bool,
    /// The client has gone: what the router writes gets lost.
    pub vanished: bool,
    /// Whether that looked like a reset to the router.
    pub reset: bool,
    /// The client sees no more bytes.
    pub over: bool,
    input_wake: Option<Time>,
    /// What it has to say is looked at in a step to come.
    output_wake: bool,
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
    pub shards: u16,
    /// Connections move to the owner of their first link's address.
    pub moves: bool,
    pub lanes: LaneSettings,
    /// Bytes that all shards may hold for peers; None: any number.
    pub memory_limit: Option<usize>,
    /// An error made on purpose.
    pub sabotage: sabotage::Switch,
    pub trace: bool,
}

/// The lanes between shards.
#[derive(Clone, Debug)]
pub struct LaneSettings {
    /// A parcel, or a connection that moves, is on its way up to so long.
    pub delay_max: Duration,
    /// Parcels that a lane has room for.
    pub parcels: usize,
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
            shards: 1,
            moves: true,
            lanes: LaneSettings { delay_max: Duration::from_micros(10), parcels: 64 },
            memory_limit: None,
            sabotage: sabotage::Switch::default(),
            trace: false,
        }
    }
}

pub struct World {
    pub now: Time,
    pub steps: u64,
    /// Of all that happened, in order: the same for the same seed.
    pub trace_digest: u64,
    pub(super) random: Random,
    wakes: BinaryHeap<Reverse<(Time, u64, Wake)>>,
    wake_number: u64,
    pub(super) shards: Vec<Shard>,
    /// Connections between two shards.
    pub(super) travellers: Vec<Option<Traveller>>,
    pub(super) peers: Vec<Peer>,
    violated: Option<PeerIndex>,
    pub(super) settings: WorldSettings,
    engine_settings: Arc<engine::Settings>,
    memory: Arc<Memory>,
    /// Threshold edges that control took, in order.
    pub edges: Vec<(String, Edge)>,
    /// Frames and reports as text, where asked for.
    pub log: Vec<String>,
}

impl World {
    pub fn new(mut settings: WorldSettings, random: Random) -> World {
        let memory = Arc::new(Memory::new(settings.memory_limit.unwrap_or(usize::MAX), usize::MAX));
        (settings.engine.memory, settings.router.memory) = (memory.clone(), memory.clone());
        (settings.engine.sabotage, settings.router.sabotage) = (settings.sabotage, settings.sabotage);
        World {
            now: Time::ZERO,
            steps: 0,
            trace_digest: 0,
            random,
            wakes: BinaryHeap::new(),
            wake_number: 0,
            shards: (0..settings.shards).map(|shard| Shard::new(&settings, shard)).collect(),
            travellers: Vec::new(),
            peers: Vec::new(),
            violated: None,
            engine_settings: Arc::new(settings.engine.clone()),
            memory,
            settings,
            edges: Vec::new(),
            log: Vec::new(),
        }
    }

    // ── getters ──

    /// Each shard's.
    pub fn dispatches(&self) -> impl Iterator<Item = &Dispatch> {
        self.shards.iter().map(|shard| &shard.dispatch)
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
        self.dispatches().any(Dispatch::has_edges)
    }

    /// Chunks of received bytes that somebody in the router holds.
    pub fn chunks_in_use(&self) -> usize {
        self.shards.iter().map(|shard| shard.pool.in_use()).sum()
    }

    /// The router had no room for anything new, at some time.
    pub fn was_full(&self) -> bool {
        self.memory.used_max() > self.memory.limit() / 8 * 7
    }

    /// The router's account of what it holds for peers.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Connections that the router's side still has.
    pub fn connections(&self) -> usize {
        self.shards.iter().map(|shard| shard.streams.len()).sum::<usize>() + self.travellers.iter().flatten().count()
    }

    pub fn is_over(&self, peer: PeerIndex) -> bool {
        self.peers[peer.0].over
    }

    // ── what the user does ──

    /// A client connects.
    pub fn connect(&mut self, client: Client, to_router: Manner, to_client: Manner) -> PeerIndex {
        let index = self.peers.len();
        // Any shard may accept it.
        let shard = if self.shards.len() > 1 { self.random.below(self.shards.len() as u64) as usize } else { 0 };
        let id = self.shards[shard].streams.insert(Stream::new(index as u32));
        let place = Place { shard, id };
        self.peers.push(Peer {
            client,
            connection: Some(place),
            to_router: Pipe::new(to_router),
            to_client: Pipe::new(to_client),
            reading: true,
            vanished: false,
            reset: false,
            over: false,
            input_wake: None,
            output_wake: false,
        });
        let (engine, link_capacity) = (self.engine_settings.clone(), self.settings.link_capacity);
        self.shards[shard].dispatch.accepted(id, &engine, link_capacity, self.now);
        self.wake_router(place, self.now);
        self.touch(PeerIndex(index));
        PeerIndex(index)
    }

    /// The client, to be told something; what it has to say is sent.
    pub fn client_mut(&mut self, peer: PeerIndex) -> &mut Client {
        self.touch(peer);
        &mut self.peers[peer.0].client
    }

    pub(super) fn touch(&mut self, peer: PeerIndex) {
        if !std::mem::replace(&mut self.peers[peer.0].output_wake, true) {
            self.wake(self.now, Wake::ClientOutput(peer.0 as u32));
        }
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
        for shard in 0..self.shards.len() {
            self.shards[shard].dispatch.stop();
            self.schedule_turn(shard, self.now);
        }
    }

    // ── steps ──

    pub(super) fn wake(&mut self, at: Time, wake: Wake) {
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
            Wake::Router(place) => {
                self.completed(place);
                Happening::Internal
            }
            Wake::Turn(shard) => {
                self.turn(shard);
                Happening::Internal
            }
            Wake::Lane(shard) => {
                self.schedule_turn(shard, self.now);
                Happening::Internal
            }
            Wake::Moved(traveller) => {
                self.arrive(traveller);
                Happening::Internal
            }
            Wake::ClientOutput(peer) => {
                self.peers[peer as usize].output_wake = false;
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

    pub(super) fn wake_client_input(&mut self, index: usize) {
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
                    if self.stream(connection).is_some_and(|stream| stream.is_sending()) {
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
}

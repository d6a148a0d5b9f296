//! The router's side of the world: its shards, each with the turn of a real one, and the lanes between them.
//!
//! A shard's turn, in order: what completed is told to dispatch; parcels that arrived; dispatch runs and what it touched is
//! flushed, until nothing follows; parcels go into their lanes, connections on their way. A lane is slow and short: what it
//! has no room for stays in dispatch.

use super::message::digest;
use super::world::{Peer, PeerIndex, Wake, World, WorldSettings};
use crate::arena::Arena;
use crate::dispatch::{Dispatch, Moved, Report};
use crate::engine::Transmit;
use crate::ids::{ConnectionId, ShardId};
use crate::mesh::Parcel;
use crate::payload::Pool;
use crate::sabotage::Sabotage;
use crate::time::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// How long the router's side of a connection lingers (as a shard's does).
const LINGER: Duration = Duration::from_secs(2);

/// A connection's place in the router.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Place {
    pub shard: usize,
    pub id: ConnectionId,
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
pub(super) struct Stream {
    peer: u32,
    phase: Phase,
    receiving: bool,
    input_over: bool,
    sending: Option<Sending>,
    listed: bool,
    in_inbox: bool,
    /// Where it is to live, once no send is in flight.
    moving: Option<ShardId>,
    deadline: Option<Time>,
    /// The earliest wake for a time-out of the connection's that is under way.
    timer: Option<Time>,
    /// Input bytes that dispatch got.
    consumed: u64,
    /// As many of them as dispatch had handled when it was polled for output last: what it wrote since then was
    /// written knowing them.
    stamp: u64,
}

impl Stream {
    pub fn new(peer: u32) -> Stream {
        Stream {
            peer,
            phase: Phase::Open,
            receiving: false,
            input_over: false,
            sending: None,
            listed: false,
            in_inbox: false,
            moving: None,
            deadline: None,
            timer: None,
            consumed: 0,
            stamp: 0,
        }
    }

    pub fn is_sending(&self) -> bool {
        self.sending.is_some()
    }
}

/// A connection between two shards.
pub(super) struct Traveller {
    to: usize,
    stream: Stream,
    moved: Moved,
}

/// One shard of the router.
pub(super) struct Shard {
    pub dispatch: Dispatch,
    pub pool: Pool,
    pub streams: Arena<ConnectionId, Stream>,
    inbox: Vec<ConnectionId>,
    flushing: Vec<ConnectionId>,
    touched: Vec<ConnectionId>,
    turn_at: Option<Time>,
    /// Parcels under way to it, by their sender, with the time at which each arrives.
    lanes: Vec<VecDeque<(Time, Parcel)>>,
    /// Parcels that it sent.
    parcels: u32,
    /// Buffers of completed sends that are never given back, on purpose.
    lost: Vec<Transmit>,
}

impl Shard {
    pub fn new(settings: &WorldSettings, shard: u16) -> Shard {
        let (router, shards) = (settings.router.clone(), settings.shards);
        let mut dispatch = Dispatch::new(router, ShardId(shard), shards, settings.trace, Time::ZERO);
        dispatch.set_moves(settings.moves);
        Shard {
            dispatch,
            pool: Pool::counted(settings.chunk_bytes, 64, settings.router.memory.clone()),
            streams: Arena::new(),
            inbox: Vec::new(),
            flushing: Vec::new(),
            touched: Vec::new(),
            turn_at: None,
            lanes: (0..shards).map(|_| VecDeque::new()).collect(),
            parcels: 0,
            lost: Vec::new(),
        }
    }
}

impl World {
    pub(super) fn stream(&self, place: Place) -> Option<&Stream> {
        self.shards[place.shard].streams.get(place.id)
    }

    fn stream_mut(&mut self, place: Place) -> Option<&mut Stream> {
        self.shards[place.shard].streams.get_mut(place.id)
    }

    pub(super) fn wake_router(&mut self, place: Place, at: Time) {
        self.wake(at, Wake::Router(place));
    }

    /// Wakes the router when an armed receive will have something.
    pub(super) fn wake_receive(&mut self, place: Place) {
        let Some(stream) = self.stream(place) else { return };
        if !stream.receiving {
            return;
        }
        if let Some(at) = self.peers[stream.peer as usize].to_router.next_arrival() {
            let at = at.max(self.now);
            self.wake_router(place, at);
        }
    }

    pub(super) fn completed(&mut self, place: Place) {
        let now = self.now;
        let Place { shard, id } = place;
        let state = &mut self.shards[shard];
        if let Some(stream) = state.streams.get_mut(id) {
            if stream.timer.is_some_and(|at| at <= now) {
                stream.timer = None;
            }
            if !stream.in_inbox {
                stream.in_inbox = true;
                state.inbox.push(id);
            }
            let delay = Duration::from_nanos(self.random.below(self.settings.turn_delay.as_nanos() as u64 + 1));
            self.schedule_turn(shard, now + delay);
        }
    }

    pub(super) fn schedule_turn(&mut self, shard: usize, at: Time) {
        let turn_at = &mut self.shards[shard].turn_at;
        if turn_at.is_none_or(|earlier| at < earlier) {
            *turn_at = Some(at);
            self.wake(at, Wake::Turn(shard));
        }
    }

    pub(super) fn turn(&mut self, shard: usize) {
        if self.shards[shard].turn_at.is_none_or(|at| at > self.now) {
            return;
        }
        self.shards[shard].turn_at = None;
        let mut inbox = std::mem::take(&mut self.shards[shard].inbox);
        for id in inbox.drain(..) {
            let place = Place { shard, id };
            if let Some(stream) = self.stream_mut(place) {
                stream.in_inbox = false;
                self.complete_send(place);
                self.complete_receive(place);
                self.expire(place);
                self.list(place);
            }
        }
        self.shards[shard].inbox = inbox;
        self.receive_parcels(shard);
        self.settle(shard);
        if let Some(at) = self.shards[shard].dispatch.next_timeout() {
            self.schedule_turn(shard, at.max(self.now));
        }
        self.take_edges(shard);
        self.drain_reports(shard);
    }

    fn take_edges(&mut self, shard: usize) {
        let (random, edges, refused) = (&mut self.random, &mut self.edges, self.settings.edges_refused_percent);
        let sabotage = self.settings.sabotage;
        self.shards[shard].dispatch.flush_edges(|address, edge| {
            let taken = !random.percent(refused);
            let lost = sabotage.meets(Sabotage::LoseEdge, edges.len() as u32);
            if taken && !lost {
                edges.push((address.to_owned(), *edge));
            }
            taken
        });
    }

    fn list(&mut self, place: Place) {
        let state = &mut self.shards[place.shard];
        if let Some(stream) = state.streams.get_mut(place.id) {
            if !stream.listed {
                stream.listed = true;
                state.flushing.push(place.id);
            }
        }
    }

    fn settle(&mut self, shard: usize) {
        loop {
            let state = &mut self.shards[shard];
            state.dispatch.run(self.now, &mut state.touched);
            while let Some(id) = self.shards[shard].touched.pop() {
                self.list(Place { shard, id });
            }
            self.begin_moves(shard);
            let flushing = std::mem::take(&mut self.shards[shard].flushing);
            if flushing.is_empty() {
                break;
            }
            for id in flushing {
                self.flush(Place { shard, id });
            }
        }
        self.send_parcels(shard);
    }

    // ── lanes ──

    fn send_parcels(&mut self, from: usize) {
        let (now, room) = (self.now, self.settings.lanes.parcels);
        let delay_max = self.settings.lanes.delay_max.as_nanos() as u64;
        let mut parcels = Vec::new();
        let shards = &mut self.shards;
        let mut rooms: Vec<usize> = shards.iter().map(|shard| room.saturating_sub(shard.lanes[from].len())).collect();
        shards[from].dispatch.flush_parcels(|to, parcel| {
            let room = &mut rooms[usize::from(to.0)];
            if *room == 0 {
                return Err(parcel);
            }
            *room -= 1;
            parcels.push((to, parcel));
            Ok(())
        });
        for (to, parcel) in parcels {
            let shard = &mut self.shards[from];
            shard.parcels += 1;
            if self.settings.sabotage.meets(Sabotage::LoseParcel, shard.parcels) {
                continue;
            }
            let delay = Duration::from_nanos(self.random.below(delay_max + 1));
            let to = usize::from(to.0);
            let lane = &mut self.shards[to].lanes[from];
            let at = lane.back().map_or(now, |(last, _)| *last).max(now + delay);
            lane.push_back((at, parcel));
            self.wake(at, Wake::Lane(to));
        }
    }

    fn receive_parcels(&mut self, shard: usize) {
        for from in 0..self.shards.len() {
            let mut taken = false;
            while let Some((_, parcel)) = self.shards[shard].lanes[from].pop_front_if(|(at, _)| *at <= self.now) {
                taken = true;
                self.shards[shard].dispatch.handle_parcel(ShardId(from as u16), parcel, self.now);
            }
            // There is room again for what its sender kept.
            if taken && self.shards[from].dispatch.has_parcels() {
                self.schedule_turn(from, self.now);
            }
        }
    }

    fn begin_moves(&mut self, shard: usize) {
        while let Some((id, to)) = self.shards[shard].dispatch.poll_move() {
            let place = Place { shard, id };
            self.cancel_receive(place);
            if let Some(stream) = self.stream_mut(place) {
                stream.receiving = false;
                stream.moving = Some(to);
            }
            self.depart(place);
        }
    }

    /// Cancels the read in flight: what it brought by then is kept, the end of the stream is met again.
    fn cancel_receive(&mut self, place: Place) {
        let Some(stream) = self.stream(place) else { return };
        let is_over = self.peers[stream.peer as usize].to_router.is_over(self.now);
        if !is_over && self.random.percent(50) {
            self.complete_receive(place);
        }
    }

    /// A connection that is to move does so once no send of it is in flight.
    fn depart(&mut self, place: Place) {
        let Place { shard, id } = place;
        let Some(stream) = self.stream(place).filter(|stream| !stream.is_sending()) else { return };
        let Some(to) = stream.moving else { return };
        let Some(moved) = self.shards[shard].dispatch.take(id, self.now) else {
            panic!("a connection that was to move isn't there");
        };
        let Some(stream) = self.shards[shard].streams.remove(id) else { return };
        self.peers[stream.peer as usize].connection = None;
        self.travellers.push(Some(Traveller { to: usize::from(to.0), stream, moved }));
        let delay = Duration::from_nanos(self.random.below(self.settings.lanes.delay_max.as_nanos() as u64 + 1));
        self.wake(self.now + delay, Wake::Moved(self.travellers.len() - 1));
    }

    pub(super) fn arrive(&mut self, traveller: usize) {
        let Some(Traveller { to: shard, mut stream, moved }) = self.travellers[traveller].take() else { return };
        (stream.moving, stream.timer, stream.listed, stream.in_inbox) = (None, None, false, false);
        let peer = stream.peer as usize;
        let id = self.shards[shard].streams.insert(stream);
        let place = Place { shard, id };
        self.peers[peer].connection = Some(place);
        self.shards[shard].dispatch.adopt(id, moved, self.now);
        self.list(place);
        if let Some(deadline) = self.stream(place).and_then(|stream| stream.deadline) {
            self.wake_router(place, deadline);
        }
        self.schedule_turn(shard, self.now);
    }

    // ── completions ──

    fn complete_receive(&mut self, place: Place) {
        let (now, chunk_bytes) = (self.now, self.settings.chunk_bytes);
        let Self { shards, peers, .. } = self;
        let state = &mut shards[place.shard];
        let Some(stream) = state.streams.get_mut(place.id) else { return };
        if !stream.receiving {
            return;
        }
        let peer = &mut peers[stream.peer as usize];
        let mut bytes = Vec::new();
        if peer.to_router.read(chunk_bytes, now, &mut bytes).is_some() {
            stream.receiving = false;
            stream.consumed += bytes.len() as u64;
            let (phase, index) = (stream.phase, stream.peer);
            if phase == Phase::Open {
                let chunk = state.pool.take();
                // SAFETY: as many bytes as a chunk has room for at most, and no range lies on them yet.
                let range = unsafe {
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), chunk.data(), bytes.len());
                    chunk.range(0, bytes.len())
                };
                drop(chunk);
                state.dispatch.received(place.id, range, now);
            }
            self.note(digest(&bytes));
            self.touch(PeerIndex(index as usize));
        } else if peer.to_router.is_over(now) {
            stream.receiving = false;
            stream.input_over = true;
            let (phase, reset) = (stream.phase, peer.reset);
            match phase {
                Phase::Open => {
                    state.dispatch.end_of_stream(place.id, now);
                    if reset {
                        self.end(place);
                    } else {
                        self.limit(place);
                    }
                }
                Phase::Lingering => self.end(place),
            }
        }
    }

    fn complete_send(&mut self, place: Place) {
        let now = self.now;
        let Self { shards, peers, random, .. } = self;
        let state = &mut shards[place.shard];
        let Some(stream) = state.streams.get_mut(place.id) else { return };
        let Some(sending) = &mut stream.sending else { return };
        let peer = &mut peers[stream.peer as usize];
        let failed = peer.vanished;
        if !failed && sending.sent < sending.bytes.len() {
            let rest = &sending.bytes[sending.sent..];
            sending.sent += peer.to_client.write(rest, sending.stamp, now, random);
        }
        let done = failed || sending.sent == sending.bytes.len();
        let (index, moves) = (stream.peer as usize, stream.moving.is_some());
        if done {
            if let Some(sending) = stream.sending.take() {
                if self.settings.sabotage.meets(Sabotage::LoseBuffers, sending.bytes.len() as u32) {
                    state.lost.push(sending.transmit);
                } else {
                    state.dispatch.transmitted(sending.transmit);
                }
            }
            if failed {
                if !moves {
                    state.dispatch.end_of_stream(place.id, now);
                }
                self.end(place);
            } else if moves {
                self.depart(place);
            }
        }
        self.wake_client_input(index);
    }

    fn flush(&mut self, place: Place) {
        let now = self.now;
        let Place { shard, id } = place;
        let state = &mut self.shards[shard];
        let Some(stream) = state.streams.get_mut(id) else { return };
        stream.listed = false;
        if stream.moving.is_some() {
            return;
        }
        if stream.phase != Phase::Open {
            self.arm_receive(place);
            return;
        }
        if stream.sending.is_none() {
            // A connection whose input rests has not handled all that it got.
            let handled = state.dispatch.wants_input(id).then_some(stream.consumed);
            let stamp = stream.stamp;
            stream.stamp = handled.unwrap_or(stamp);
            if let Some(transmit) = state.dispatch.poll_transmit(id) {
                if transmit.is_empty() {
                    state.dispatch.transmitted(transmit);
                } else {
                    let bytes = transmit.to_vec();
                    stream.sending = Some(Sending { transmit, bytes, sent: 0, stamp });
                    self.complete_send_soon(place);
                }
            }
        }
        let dispatch = &mut self.shards[shard].dispatch;
        let (wants_input, is_finished) = (dispatch.wants_input(id), dispatch.is_finished(id));
        let timeout = dispatch.connection_timeout(id);
        if wants_input {
            self.arm_receive(place);
        }
        if is_finished {
            self.finish(place);
        } else if let Some(at) = timeout {
            let Some(stream) = self.stream_mut(place) else { return };
            if stream.timer.is_none_or(|earlier| at < earlier) {
                stream.timer = Some(at);
                self.wake_router(place, at.max(now));
            }
        }
    }

    /// The kernel takes what it has room for at once; the completion is heard in a later turn.
    fn complete_send_soon(&mut self, place: Place) {
        let now = self.now;
        let Self { shards, peers, random, .. } = self;
        let Some(stream) = shards[place.shard].streams.get_mut(place.id) else { return };
        let Some(sending) = &mut stream.sending else { return };
        let peer: &mut Peer = &mut peers[stream.peer as usize];
        if !peer.vanished {
            sending.sent = peer.to_client.write(&sending.bytes, sending.stamp, now, random);
        }
        let (index, whole) = (stream.peer as usize, sending.sent == sending.bytes.len());
        let vanished = peer.vanished;
        self.wake_client_input(index);
        if whole || vanished {
            self.wake_router(place, now);
        }
    }

    fn arm_receive(&mut self, place: Place) {
        if let Some(stream) = self.stream_mut(place) {
            if !stream.receiving && !stream.input_over {
                stream.receiving = true;
                self.wake_receive(place);
            }
        }
    }

    fn finish(&mut self, place: Place) {
        self.limit(place);
        let Some(stream) = self.stream_mut(place) else { return };
        if stream.sending.is_some() {
            return;
        }
        if stream.input_over {
            self.end(place);
        } else {
            stream.phase = Phase::Lingering;
            let index = stream.peer as usize;
            self.peers[index].to_client.finish(self.now);
            self.wake_client_input(index);
            self.arm_receive(place);
        }
    }

    fn limit(&mut self, place: Place) {
        let at = self.now + LINGER;
        let Some(stream) = self.stream_mut(place) else { return };
        if stream.deadline.is_none() {
            stream.deadline = Some(at);
            self.wake_router(place, at);
        }
    }

    fn expire(&mut self, place: Place) {
        let now = self.now;
        let state = &mut self.shards[place.shard];
        let Some(stream) = state.streams.get_mut(place.id) else { return };
        if stream.moving.is_some() {
            return;
        }
        if stream.deadline.is_some_and(|deadline| deadline <= now) {
            return self.end(place);
        }
        if stream.phase == Phase::Open && state.dispatch.connection_timeout(place.id).is_some_and(|due| due <= now) {
            state.dispatch.handle_timeout(place.id, now);
        }
    }

    /// The socket is gone.
    fn end(&mut self, place: Place) {
        let now = self.now;
        let state = &mut self.shards[place.shard];
        let Some(stream) = state.streams.remove(place.id) else { return };
        if let Some(sending) = stream.sending {
            state.dispatch.transmitted(sending.transmit);
        }
        state.dispatch.closed(place.id, now);
        let peer = &mut self.peers[stream.peer as usize];
        peer.connection = None;
        peer.to_client.finish(now);
        self.schedule_turn(place.shard, now);
        self.wake_client_input(stream.peer as usize);
    }

    fn drain_reports(&mut self, shard: usize) {
        while let Some(report) = self.shards[shard].dispatch.poll_report() {
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

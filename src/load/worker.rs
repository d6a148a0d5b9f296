//! A thread's part of the load: its connections, and the schedule by which they send.

use super::figures::Tally;
use super::message::Maker;
use super::peer::{Context, Part, Peer};
use super::{Dial, End, Plan, Shared};
use crate::engine::Transmit;
use crate::ids::{ConnectionId, ShardId};
use crate::payload::{Pool, Range};
use crate::shard::{Application, Listener, Order};
use crate::telemetry::Counters;
use crate::time::Time;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

/// How often a thread that has nothing to do looks whether it begins.
const LOOK: Duration = Duration::from_millis(1);

pub struct Worker {
    number: usize,
    plan: Arc<Plan>,
    shared: Arc<Shared>,
    maker: Maker,
    pub tally: Tally,
    /// By connection's index: a worker's connections are never replaced.
    peers: Vec<Option<Peer>>,
    pending: Vec<ConnectionId>,
    /// Senders in the order of their numbers, and the place in the schedule: whose message is due next, in which round.
    senders: Vec<ConnectionId>,
    next: (u64, usize),
    is_started: bool,
    is_stopping: bool,
    sent: u64,
    /// Output buffers that no connection has.
    spares: Vec<Transmit>,
    /// The latest turn's.
    now: Time,
}

impl Worker {
    pub fn new(number: usize, plan: Arc<Plan>, shared: Arc<Shared>, pool: Pool) -> Worker {
        let maker = Maker::new(pool, plan.body_bytes);
        Worker {
            number,
            plan,
            shared,
            maker,
            tally: Tally::new(),
            peers: Vec::new(),
            pending: Vec::new(),
            senders: Vec::new(),
            next: (0, 0),
            is_started: false,
            is_stopping: false,
            sent: 0,
            spares: Vec::new(),
            now: Time::ZERO,
        }
    }

    pub fn add(&mut self, id: ConnectionId, part: Part, index: usize, dial: &Dial) {
        let place = id.index as usize;
        if self.peers.len() <= place {
            self.peers.resize_with(place + 1, || None);
        }
        self.peers[place] = Some(Peer::new(part, index, dial, Time::ZERO));
        if part == Part::Sender {
            self.senders.push(id);
        }
        self.list(id);
    }

    #[inline]
    fn peer(&mut self, id: ConnectionId) -> Option<&mut Peer> {
        self.peers.get_mut(id.index as usize)?.as_mut()
    }

    #[inline]
    fn list(&mut self, id: ConnectionId) {
        let Some(peer) = self.peer(id) else { return };
        if !std::mem::replace(&mut peer.is_pending, true) {
            self.pending.push(id);
        }
    }

    fn start(&self) -> Time {
        Time(self.shared.start.load(Ordering::Acquire))
    }

    /// The time in which messages count.
    fn window(&self) -> (Time, Time) {
        let load = |moment: &std::sync::atomic::AtomicU64| Time(moment.load(Ordering::Relaxed));
        (load(&self.shared.measure), load(&self.shared.stop))
    }

    /// When the message that is next in this thread's schedule is due.
    fn next_due(&self) -> Option<Time> {
        let id = *self.senders.get(self.next.1)?;
        let peer = self.peers.get(id.index as usize)?.as_ref()?;
        Some(due(&self.plan, self.start(), peer.index, self.next.0))
    }

    /// Makes due whatever the schedule says.
    fn schedule(&mut self, now: Time) {
        if self.plan.rate.is_none() {
            if !std::mem::replace(&mut self.is_started, true) {
                for id in self.senders.clone() {
                    self.peer(id).into_iter().for_each(|peer| peer.due = u64::MAX);
                    self.list(id);
                }
            }
            return;
        }
        while self.next_due().is_some_and(|due| due <= now) {
            let id = self.senders[self.next.1];
            self.peer(id).into_iter().for_each(|peer| peer.due += 1);
            self.list(id);
            self.next.1 += 1;
            if self.next.1 == self.senders.len() {
                self.next = (self.next.0 + 1, 0);
            }
        }
    }

    /// Events of one connection, then what it has to send.
    fn serve(&mut self, id: ConnectionId, now: Time, window: (Time, Time), start: Time) {
        let plan = self.plan.clone();
        let Some(peer) = self.peers.get_mut(id.index as usize).and_then(Option::as_mut) else { return };
        peer.is_pending = false;
        let engine = &mut peer.client.engine;
        if engine.output_len() == 0 && engine.output_capacity() == 0 {
            engine.give_output(self.spares.pop().unwrap_or_default());
        }
        let mut context = Context { plan: &plan, tally: &mut self.tally, now, window };
        if let Err(why) = peer.handle_events(&mut context) {
            if !self.is_stopping {
                self.shared.fail(why);
            }
            return;
        }
        if !peer.is_ready && peer.has_all_links() {
            peer.is_ready = true;
            self.shared.ready.fetch_add(1, Ordering::Release);
        }
        if peer.part == Part::Receiver || now < start || self.is_stopping {
            return;
        }
        let index = peer.index;
        let (over, quota) = match plan.end {
            End::After(_) => (now >= window.1, u64::MAX),
            End::Count(count) => (false, share(count, plan.senders, index)),
        };
        if !over {
            self.sent += peer.send_due(&mut context, &mut self.maker, quota, |number| match plan.rate {
                Some(_) => due(&plan, start, index, number),
                None => now,
            });
        }
        if !over && peer.measured < quota {
            return;
        }
        if !std::mem::replace(&mut peer.is_done, true) {
            let counts = &self.shared.counts[self.number];
            counts.sent.store(self.sent, Ordering::Relaxed);
            self.shared.senders_done.fetch_add(1, Ordering::Release);
        }
    }
}

/// When a sender's message number `round` is due: senders take turns, evenly spread.
fn due(plan: &Plan, start: Time, sender: usize, round: u64) -> Time {
    let position = round as f64 * plan.senders as f64 + sender as f64;
    let rate = plan.rate.unwrap_or(f64::INFINITY);
    start + Duration::from_nanos((position * 1e9 / rate) as u64)
}

/// What of `count` falls to number `index` of `among`.
fn share(count: u64, among: usize, index: usize) -> u64 {
    let among = among as u64;
    count / among + u64::from((index as u64) < count % among)
}

impl Application for Worker {
    type Parcel = ();
    type Moved = ();

    fn accepted(&mut self, _: ConnectionId, _: &Listener, _: Option<SocketAddr>, _: Time) {}

    #[inline]
    fn received(&mut self, id: ConnectionId, bytes: Range, now: Time) {
        if let Some(peer) = self.peer(id) {
            peer.client.engine.handle_input(bytes, now);
            self.list(id);
        }
    }

    fn end_of_stream(&mut self, id: ConnectionId, now: Time) {
        if let Some(peer) = self.peer(id) {
            peer.client.engine.handle_end_of_stream(now);
            self.list(id);
        }
    }

    fn handle_timeout(&mut self, id: ConnectionId, now: Time) {
        if let Some(peer) = self.peer(id) {
            peer.client.engine.handle_timeout(now);
            self.list(id);
        }
    }

    fn wants_input(&mut self, id: ConnectionId) -> bool {
        self.peer(id).is_some_and(|peer| peer.client.engine.wants_input())
    }

    fn connection_timeout(&mut self, id: ConnectionId) -> Option<Time> {
        self.peer(id)?.client.engine.poll_timeout()
    }

    fn run(&mut self, now: Time, touched: &mut Vec<ConnectionId>) {
        self.now = now;
        let (start, window) = (self.start(), self.window());
        if now >= start && !self.is_stopping {
            self.schedule(now);
            if now >= window.1 {
                // Whoever isn't done finds that it is.
                for id in self.senders.clone() {
                    if self.peer(id).is_some_and(|peer| !peer.is_done) {
                        self.list(id);
                    }
                }
            }
        }
        while let Some(id) = self.pending.pop() {
            touched.push(id);
            self.serve(id, now, window, start);
        }
        let counts = &self.shared.counts[self.number];
        counts.sent.store(self.sent, Ordering::Relaxed);
        counts.received.store(self.tally.received, Ordering::Relaxed);
        counts.settled.store(self.tally.outcomes.all(), Ordering::Relaxed);
    }

    fn flush_parcels(&mut self, _: impl FnMut(ShardId, ()) -> Result<(), ()>) {}

    fn handle_parcel(&mut self, _: ShardId, (): (), _: Time) {}

    fn poll_move(&mut self) -> Option<(ConnectionId, ShardId)> {
        None
    }

    fn take(&mut self, _: ConnectionId, _: Time) -> Option<()> {
        None
    }

    fn adopt(&mut self, _: ConnectionId, (): (), _: Time) {}

    fn next_timeout(&mut self) -> Option<Time> {
        if self.is_stopping {
            return None;
        }
        let (start, stop) = (self.start(), self.window().1);
        let next = match self.plan.rate {
            // Not begun: look again soon.
            _ if start.0 == u64::MAX => Some(self.now + LOOK),
            Some(_) => self.next_due(),
            None if !self.is_started => Some(start),
            None => None,
        };
        let stop = (stop.0 != u64::MAX).then_some(stop);
        next.into_iter().chain(stop).min()
    }

    fn poll_transmit(&mut self, id: ConnectionId, _: Time) -> Option<Transmit> {
        let peer = self.peer(id)?;
        let transmit = peer.client.engine.poll_transmit();
        if peer.client.engine.has_work() {
            self.list(id);
        }
        transmit
    }

    fn transmitted(&mut self, mut transmit: Transmit) {
        transmit.clear();
        self.spares.push(transmit);
    }

    fn is_finished(&mut self, id: ConnectionId) -> bool {
        self.peer(id).is_none_or(|peer| peer.client.engine.is_closed())
    }

    fn closed(&mut self, id: ConnectionId, now: Time) {
        let Some(peer) = self.peer(id) else { return };
        if !peer.client.engine.is_closed() {
            peer.client.engine.handle_end_of_stream(now);
        }
        self.list(id);
        if self.is_stopping {
            self.peers[id.index as usize] = None;
        }
    }

    fn order(&mut self, _: Order, _: Time) {}

    fn stop(&mut self, _: Time) {
        self.is_stopping = true;
        self.peers.iter_mut().flatten().for_each(|peer| peer.client.engine.close(None));
    }

    fn count(&self, _: &mut Counters) {}

    fn accept_failed(&mut self, _: u32, _: i32) {}
}

//! The loop: what completed, what follows from it, what is sent, what is slept on.

use super::accept::{self, Accepted, Accepting};
use super::alarm::Alarm;
use super::application::Application;
use super::buffers::ReceiveBuffers;
use super::mailbox::{Mailbox, Order, Report};
use super::ring::{Completion, Operation, Ring, RingError, INDEX_MAX};
use super::spin::{Look, Spent, Spin};
use super::stream::{Message, Phase, SendOutcome, Stream, Travelling};
use super::timers::{Timer, Timers};
use super::{Listener, ShardError};
use crate::arena::Arena;
use crate::ids::{ConnectionId, ShardId};
use crate::memory::Memory;
use crate::mesh::{Lanes, Post};
use crate::telemetry::Counters;
use crate::time::{earliest, Time};
use io_uring::{cqueue, opcode, types};
use slab::Slab;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a connection whose output is over may take to send its own end, or to take its last output.
const LINGER: Duration = Duration::from_secs(2);
/// How long, behind the stop's deadline, the kernel may take to give back what was cancelled.
const DRAIN: Duration = Duration::from_secs(2);
/// A thread that polls enters the kernel so often, for what the kernel does only then.
const ENTER_WHILE_POLLING: Duration = Duration::from_micros(50);
/// What a parcel counts as, where the bytes that a shard moved are counted: a turn's work for one other shard, as a rule.
const PARCEL_BYTES: u64 = 1024;
/// Bytes of quiet sends that may be kept during a sleep, until the next turn gives their buffers back.
const KEPT_ASLEEP_BYTES_MAX: usize = 64 * 1024;
/// SENDMSG messages kept for the next sends.
const MESSAGES_MAX: usize = 1024;

enum Stop {
    No,
    /// Connections are being closed; at that moment whatever is left of them is ended.
    Closing(Time),
    /// All sockets are ended, their operations cancelled; at that moment they are given up.
    Draining(Time),
}

/// What travels from shard to shard.
pub enum Crossing<P, M> {
    Parcel(P),
    Connection(Box<Travelling<M>>),
}

/// The lanes of shards that serve with `A`.
pub type LanesOf<A> = Lanes<Crossing<<A as Application>::Parcel, <A as Application>::Moved>>;

/// Where a turn is among the shards.
pub struct Place<A: Application> {
    pub shard: ShardId,
    pub lanes: Arc<LanesOf<A>>,
    pub mailbox: Arc<Mailbox>,
    /// What all shards count their time from.
    pub origin: Instant,
}

pub struct Turn<A: Application> {
    pub application: A,
    shard: ShardId,
    post: Post<Crossing<A::Parcel, A::Moved>>,
    /// What the other shards are rung by, by their numbers.
    doorbells: Arc<[OwnedFd]>,
    ring: Ring,
    buffers: ReceiveBuffers,
    streams: Arena<ConnectionId, Stream>,
    listeners: Slab<Accepting>,
    timers: Timers,
    alarm: Alarm,
    /// Connections to flush in this turn, each listed once.
    flushing: Vec<ConnectionId>,
    /// Connections whose receive is to be armed at the turn's end.
    receiving: Vec<ConnectionId>,
    /// Of these, the ones that went away without a buffer: they are armed first.
    hungry: Vec<ConnectionId>,
    touched: Vec<ConnectionId>,
    /// Connections with a quiet send that isn't known to be over.
    quiet: Vec<ConnectionId>,
    /// What hangs on those sends doesn't bear a sleep: more is to be flushed behind one, or they keep much memory.
    quiet_urgent: bool,
    quiet_bytes: usize,
    completions: Vec<Completion>,
    messages: Vec<Box<Message>>,
    mailbox: Arc<Mailbox>,
    /// Where the read of the orders' bell lands: boxed, so that it stays in place.
    bell: Box<u64>,
    bell_in_flight: bool,
    origin: Instant,
    now: Time,
    stop: Stop,
    stop_deadline: Duration,
    busy_poll: Duration,
    spin: Spin,
    pub counters: Counters,
}

impl<A: Application> Turn<A> {
    /// To be called on the shard's thread. `memory`: what received bytes count in.
    /// `busy_poll`: how long to poll before each sleep.
    pub fn new(
        application: A,
        memory: Arc<Memory>,
        place: Place<A>,
        stop_deadline: Duration,
        busy_poll: Duration,
    ) -> Result<Turn<A>, RingError> {
        let Place { shard, lanes, mailbox, origin } = place;
        let ring = Ring::new()?;
        let buffers = ReceiveBuffers::new(&ring, memory)?;
        let mut turn = Turn {
            application,
            shard,
            post: Post::new(lanes, shard),
            doorbells: Arc::new([]),
            ring,
            buffers,
            streams: Arena::new(),
            listeners: Slab::new(),
            timers: Timers::new(),
            alarm: Alarm::new(),
            flushing: Vec::with_capacity(1024),
            receiving: Vec::with_capacity(1024),
            hungry: Vec::new(),
            touched: Vec::with_capacity(1024),
            quiet: Vec::with_capacity(1024),
            quiet_urgent: false,
            quiet_bytes: 0,
            completions: Vec::with_capacity(8192),
            messages: Vec::new(),
            mailbox,
            bell: Box::new(0),
            bell_in_flight: false,
            origin,
            now: Time(origin.elapsed().as_nanos() as u64),
            stop: Stop::No,
            stop_deadline,
            busy_poll,
            spin: Spin::new(),
            counters: Counters::default(),
        };
        turn.arm_bell();
        Ok(turn)
    }

    /// What other shards ring this one by.
    pub fn doorbell(&self) -> Result<OwnedFd, RingError> {
        self.ring.doorbell().map_err(|error| RingError::Other("a shard's doorbell can't be made", error))
    }

    /// Once all shards have their rings, before `run`.
    pub fn meet(&mut self, doorbells: Arc<[OwnedFd]>) {
        self.doorbells = doorbells;
    }

    pub fn add_listener(&mut self, listener: Listener) {
        self.application.listens(&listener);
        let entry = self.listeners.vacant_entry();
        let index = entry.key() as u32;
        entry.insert(Accepting::new(listener, index)).arm(&mut self.ring);
    }

    /// Turns until the orderly stop is over. After an error the kernel may still use what is in here: forget it, don't
    /// drop it.
    pub fn run(&mut self) -> Result<(), ShardError> {
        while !self.is_over()? {
            self.sleep().map_err(ShardError::Enter)?;
            self.turn();
        }
        if self.post.has_peers() {
            // The last one to be done tells those that wait for it.
            self.ring_doorbells();
            self.ring.submit_and_look().map_err(ShardError::Enter)?;
        }
        self.buffers.unregister(&self.ring);
        self.report(Report::Stopped { shard: self.shard });
        Ok(())
    }

    /// Submits what the turn made, and sleeps until something happens, unless a quiet send has to be known over first.
    fn sleep(&mut self) -> io::Result<()> {
        self.ring_doorbells();
        let end = self.sleep_end();
        // The turn's own work took time as well; a turn is far shorter than a timer's precision matters.
        let timeout = end.map(|at| at.since(self.now));
        if self.quiet_urgent || timeout == Some(Duration::ZERO) {
            return self.ring.submit_and_look();
        }
        if self.look_longer(timeout)? {
            return Ok(());
        }
        // The turn and the look took time, in latency mode perhaps all that there was.
        if end.is_some() {
            self.now = Time(self.origin.elapsed().as_nanos() as u64);
        }
        let timeout = end.map(|at| at.since(self.now));
        if timeout == Some(Duration::ZERO) {
            return self.ring.submit_and_look();
        }
        let timeout = timeout.filter(|_| !end.is_some_and(|at| self.alarm.covers(at, self.now, &mut self.ring)));
        if !self.post.has_peers() || matches!(self.stop, Stop::Draining(_)) {
            return self.ring.submit_and_wait(timeout);
        }
        if !self.post.arm() {
            return self.ring.submit_and_look();
        }
        let result = self.ring.submit_and_wait(timeout);
        self.post.disarm();
        result
    }

    /// Looks for something to do before the sleep, in latency mode as long as that says, else where it pays. True: there is.
    #[inline]
    fn look_longer(&mut self, timeout: Option<Duration>) -> io::Result<bool> {
        if !self.busy_poll.is_zero() {
            self.ring.submit_and_look()?;
            return self.poll_busily(timeout.map_or(self.busy_poll, |timeout| timeout.min(self.busy_poll)));
        }
        if timeout.is_some_and(|timeout| timeout < Look::MOST) || matches!(self.stop, Stop::Draining(_)) {
            return Ok(false);
        }
        // Reckoned in trials, and now and then between them.
        let spent = || {
            let traffic = &self.post.traffic;
            let parcels = traffic.parcels_in + traffic.parcels_out;
            let bytes = self.counters.bytes_received + self.counters.bytes_sent + parcels * PARCEL_BYTES;
            Spent { cpu: super::cpu_time(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or_default(), bytes }
        };
        let Some(look) = self.spin.look(spent) else { return Ok(false) };
        self.ring.submit_and_look()?;
        // Where something is there at once, no sleep would have followed.
        let is_look = !(self.ring.has_completions() || self.post.has_peers() && self.post.has_something_to_do());
        // What is there is taken with one more enter, which makes the batch larger.
        let found = self.poll_busily(look.time())?;
        if is_look {
            self.counters.looks += 1;
            self.counters.looks_in_vain += u64::from(!found);
            self.spin.looked(look, found);
        }
        Ok(found)
    }

    /// Looks for something to do for so long. True: there is. Not asleep, a shard needs no interrupt and no switch to wake up,
    /// and others no doorbell.
    fn poll_busily(&mut self, limit: Duration) -> io::Result<bool> {
        let begin = Instant::now();
        let mut entered = Duration::ZERO;
        loop {
            let waited = begin.elapsed();
            if self.ring.has_news() || waited - entered >= ENTER_WHILE_POLLING {
                self.ring.submit_and_look()?;
                entered = waited;
                // The kernel may raise its flag behind the work that it is about: then it stays up for nothing until more comes.
                if self.ring.has_completions() {
                    return Ok(true);
                }
            }
            if self.post.has_peers() && self.post.has_something_to_do() {
                return Ok(true);
            }
            if waited >= limit {
                return Ok(false);
            }
            std::hint::spin_loop();
        }
    }

    fn turn(&mut self) {
        self.counters.turns += 1;
        self.now = Time(self.origin.elapsed().as_nanos() as u64);

        let mut completions = std::mem::take(&mut self.completions);
        self.ring.completions(&mut completions);
        // Asked before what completed makes operations of its own, which have nothing to do with the enter that is over.
        let are_quiet_over = self.ring.is_submitted();
        for completion in completions.drain(..) {
            self.complete(completion);
        }
        self.completions = completions;
        if are_quiet_over {
            self.end_quiet_sends();
        }

        self.expire();
        self.receive_crossings();
        self.settle();
        self.arm_receives();
    }

    /// Runs the application and flushes until nothing follows any more. It ends: a connection with a send in
    /// flight takes no more, so each sends at most once a turn.
    fn settle(&mut self) {
        loop {
            self.application.run(self.now, &mut self.touched);
            self.begin_moves();
            self.send_parcels();
            while let Some(id) = self.touched.pop() {
                self.list(id);
            }
            if self.flushing.is_empty() {
                return;
            }
            let mut flushing = std::mem::take(&mut self.flushing);
            // Who got input is listed first: a sender's credit goes before its messages do, so it is busy meanwhile. (Credit that
            // doesn't press makes no output of its own, so it holds nothing up.)
            for id in flushing.drain(..) {
                self.flush(id);
            }
            // What was listed meanwhile (a connection that stays after all) has its turn in the next round.
            flushing.append(&mut self.flushing);
            self.flushing = flushing;
        }
    }

    /// Puts a connection on the list of those to flush.
    #[inline]
    fn list(&mut self, id: ConnectionId) {
        if let Some(stream) = self.streams.get_mut(id) {
            if !stream.listed {
                stream.listed = true;
                self.flushing.push(id);
            }
        }
    }

    // ── completions ──

    #[inline]
    fn complete(&mut self, completion: Completion) {
        match Operation::from_user_data(completion.user_data) {
            Some(Operation::Receive(id)) => self.complete_receive(id, completion),
            Some(Operation::Send(id)) => self.complete_send(id, completion.result),
            Some(Operation::Accept(listener)) => self.complete_accept(listener, completion.result),
            Some(Operation::Wake) => self.complete_bell(),
            Some(Operation::Ring(shard)) => self.ring_again(shard, completion.result),
            Some(Operation::Alarm) => self.alarm.rang(),
            // Lanes are looked at in each turn.
            Some(Operation::Doorbell | Operation::Cancel) | None => {}
        }
    }

    fn complete_receive(&mut self, id: ConnectionId, completion: Completion) {
        let (count, more) = (completion.result.max(0) as usize, cqueue::buffer_more(completion.flags));
        let bytes = cqueue::buffer_select(completion.flags).and_then(|buffer| self.buffers.take(buffer, count, more));
        let Some(stream) = self.streams.get_mut(id) else { return };
        // Without a buffer nothing was taken out of the socket.
        stream.received(cqueue::sock_nonempty(completion.flags) || completion.result == -libc::ENOBUFS);
        self.counters.receives += 1;
        let phase = stream.phase;
        match completion.result {
            count if count > 0 => {
                self.counters.bytes_received += count as u64;
                if let (Some(bytes), Phase::Open) = (bytes, phase) {
                    self.application.received(id, bytes, self.now);
                }
            }
            error if error == -libc::ENOBUFS => {
                self.counters.receives_without_buffer += 1;
                self.buffers.exhausted();
                self.hungry.push(id);
            }
            error if error == -libc::EINTR || error == -libc::EAGAIN => {}
            // An open connection's is cancelled for a move, and for nothing else.
            error if error == -libc::ECANCELED && phase == Phase::Open => {}
            result => {
                // 0: the peer's end. Below: a reset or the like, or our own cancel.
                stream.input_over = true;
                stream.broken |= result < 0;
                match phase {
                    Phase::Open => self.end_input(id),
                    Phase::Lingering => self.end(id),
                    Phase::Ending => {}
                }
            }
        }
        self.list(id);
        self.reap(id);
    }

    /// The peer of an open connection sends no more, or it is broken. Where the connection moves, its next shard says so:
    /// what came before is still to be acted on there.
    fn end_input(&mut self, id: ConnectionId) {
        self.begin_moves();
        let Some(stream) = self.streams.get(id).filter(|stream| stream.moving.is_none()) else { return };
        let broken = stream.broken;
        self.application.end_of_stream(id, self.now);
        if broken {
            // The peer takes nothing any more.
            self.end(id);
        } else {
            self.limit(id);
        }
    }

    fn complete_send(&mut self, id: ConnectionId, result: i32) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        if result > 0 {
            self.counters.bytes_sent += result as u64;
        }
        let outcome = stream.sent(result, &mut self.ring);
        self.end_send(id, outcome);
        self.list(id);
        self.reap(id);
    }

    fn end_send(&mut self, id: ConnectionId, outcome: SendOutcome) {
        let SendOutcome::Done { transmit, message, failed } = outcome else {
            self.counters.sends_short += u64::from(matches!(outcome, SendOutcome::Short));
            return;
        };
        if let Some(message) = message {
            if self.messages.len() < MESSAGES_MAX {
                self.messages.push(message);
            }
        }
        self.application.transmitted(transmit);
        if let Some(stream) = self.streams.get_mut(id).filter(|stream| failed && stream.phase == Phase::Open) {
            // What the peer still sends would come to nothing.
            stream.broken = true;
            self.end_input(id);
        }
    }

    /// The kernel was entered, and what it had to say of quiet sends was heard: the others are over.
    fn end_quiet_sends(&mut self) {
        if self.quiet.is_empty() {
            return;
        }
        let mut quiet = std::mem::take(&mut self.quiet);
        for id in quiet.drain(..) {
            let Some(stream) = self.streams.get_mut(id) else { continue };
            if !stream.is_sending_quietly() {
                continue;
            }
            self.counters.bytes_sent += stream.sending_bytes() as u64;
            let outcome = stream.sent_quietly();
            let flush = std::mem::take(&mut stream.flush_after_send) || stream.moving.is_some();
            let ending = stream.phase == Phase::Ending;
            self.end_send(id, outcome);
            if flush {
                self.list(id);
            }
            if ending {
                self.reap(id);
            }
        }
        self.quiet = quiet;
        self.quiet_urgent = false;
        self.quiet_bytes = 0;
    }

    fn complete_accept(&mut self, index: u32, result: i32) {
        let Some(accepting) = self.listeners.get_mut(index as usize) else { return };
        match accepting.completed(result) {
            Accepted::Connection(fd, peer) if !accepting.stopped => self.accepted(index, fd, peer),
            Accepted::Pause(errno) if !accepting.stopped => {
                self.counters.accepts_failed += 1;
                let at = self.now + accept::PAUSE;
                self.timers.schedule(&mut accepting.timer, at, Timer::Listener(index));
                let number = accepting.listener.number;
                self.application.accept_failed(number, errno);
                return;
            }
            Accepted::Connection(..) | Accepted::Again | Accepted::Pause(_) | Accepted::Over => {}
        }
        let Some(accepting) = self.listeners.get_mut(index as usize) else { return };
        if accepting.stopped {
            self.listeners.remove(index as usize);
        } else {
            accepting.arm(&mut self.ring);
        }
    }

    fn accepted(&mut self, listener: u32, fd: OwnedFd, peer: Option<SocketAddr>) {
        if self.streams.len() >= INDEX_MAX as usize {
            return;
        }
        let id = self.insert(Stream::new(fd));
        self.counters.connections_opened += 1;
        let listener = &self.listeners[listener as usize].listener;
        self.application.accepted(id, listener, peer, self.now);
        self.list(id);
    }

    /// Takes over a socket that was connected elsewhere. The application hears of it by its id, never by `accepted`.
    pub fn connect(&mut self, socket: OwnedFd) -> ConnectionId {
        let id = self.insert(Stream::new(socket));
        self.list(id);
        id
    }

    fn insert(&mut self, stream: Stream) -> ConnectionId {
        let id = self.streams.insert(stream);
        if let Some(stream) = self.streams.get_mut(id) {
            stream.id = id;
        }
        id
    }

    fn complete_bell(&mut self) {
        self.bell_in_flight = false;
        while let Some(order) = self.mailbox.poll_order() {
            match order {
                Order::AddListener(listener) if matches!(self.stop, Stop::No) => self.add_listener(listener),
                // It would outlive the stop.
                Order::AddListener(_) => {}
                Order::RemoveListener { number } => self.remove_listener(number),
                Order::ReportCounters => {
                    let mut counters = Box::new(self.counters);
                    self.count(&mut counters);
                    self.report(Report::Counters { shard: self.shard, counters });
                }
                Order::Stop => self.begin_stop(),
                order => self.application.order(order, self.now),
            }
        }
        if !matches!(self.stop, Stop::Draining(_)) {
            self.arm_bell();
        }
    }

    /// Adds what is counted elsewhere.
    pub fn count(&self, counters: &mut Counters) {
        let traffic = self.post.traffic;
        counters.enters = self.ring.enters;
        counters.parcels_in = traffic.parcels_in;
        counters.parcels_out = traffic.parcels_out;
        counters.lanes_full = traffic.lanes_full;
        counters.doorbells = traffic.doorbells;
        counters.sleeps = traffic.sleeps;
        self.application.count(counters);
    }

    fn arm_bell(&mut self) {
        let fd = types::Fd(self.mailbox.orders_bell().as_raw_fd());
        let into: *mut u64 = &mut *self.bell;
        let entry = opcode::Read::new(fd, into.cast(), 8).build().user_data(Operation::Wake.user_data());
        // SAFETY: the boxed counter stays in place; the mailbox, with its eventfd, is held by this turn.
        unsafe { self.ring.push(entry) };
        self.bell_in_flight = true;
    }

    fn report(&mut self, report: Report) {
        if !self.mailbox.report(report) {
            self.counters.reports_missed += 1;
        }
    }

    // ── other shards ──

    fn receive_crossings(&mut self) {
        while let Some((from, crossing)) = self.post.receive() {
            match crossing {
                Crossing::Parcel(parcel) => self.application.handle_parcel(from, parcel, self.now),
                Crossing::Connection(travelling) => self.arrive(*travelling),
            }
        }
    }

    fn send_parcels(&mut self) {
        if !self.post.has_peers() {
            return;
        }
        self.post.move_on();
        let post = &mut self.post;
        self.application.flush_parcels(|to, parcel| {
            post.offer(to, Crossing::Parcel(parcel)).map_err(|crossing| match crossing {
                Crossing::Parcel(parcel) => parcel,
                Crossing::Connection(_) => unreachable!("a lane gives back what it was offered"),
            })
        });
        self.ring_doorbells();
    }

    fn ring_doorbells(&mut self) {
        let (ring, doorbells) = (&mut self.ring, &self.doorbells);
        self.post.settle(|shard| {
            if let Some(doorbell) = doorbells.get(usize::from(shard.0)) {
                ring.ring(doorbell, shard);
            }
        });
    }

    /// Ringing failed: for want of memory or room for now, or because that shard's thread has ended.
    #[cold]
    fn ring_again(&mut self, shard: ShardId, result: i32) {
        if matches!(-result, libc::EAGAIN | libc::ENOMEM | libc::EOVERFLOW | libc::EBUSY | libc::EINTR) {
            if let Some(doorbell) = self.doorbells.get(usize::from(shard.0)) {
                self.ring.ring(doorbell, shard);
            }
        }
    }

    /// Connections that should live elsewhere begin to move: what is in flight of them comes back first.
    #[inline]
    fn begin_moves(&mut self) {
        while let Some((id, to)) = self.application.poll_move() {
            let Some(stream) = self.streams.get_mut(id) else { continue };
            if stream.phase == Phase::Open {
                stream.depart(to, &mut self.ring);
                self.list(id);
            }
        }
    }

    /// Nothing of a moving connection is in flight any more.
    fn leave(&mut self, id: ConnectionId, to: ShardId) {
        let Some(moved) = self.application.take(id, self.now) else { return self.stay(id) };
        let Some(stream) = self.streams.remove(id) else { return };
        self.counters.moves_out += 1;
        self.post.send(to, Crossing::Connection(Box::new(stream.travel(moved))));
    }

    /// A connection doesn't move after all.
    fn stay(&mut self, id: ConnectionId) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        stream.moving = None;
        if stream.input_over || stream.broken {
            self.end_input(id);
        }
        self.list(id);
        self.reap(id);
    }

    fn arrive(&mut self, travelling: Travelling<A::Moved>) {
        let (stream, moved) = Stream::arrive(travelling);
        let is_over = stream.input_over || stream.broken;
        let id = self.insert(stream);
        self.counters.moves_in += 1;
        self.application.adopt(id, moved, self.now);
        if is_over {
            self.end_input(id);
        }
        if matches!(self.stop, Stop::Draining(_)) {
            self.end(id);
        }
        self.list(id);
        self.reap(id);
    }

    // ── flushing, ending ──

    /// Sends what there is, looks at whether the connection is over, keeps its timer.
    #[inline]
    fn flush(&mut self, id: ConnectionId) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        stream.listed = false;
        if let Some(to) = stream.moving.filter(|_| stream.phase == Phase::Open) {
            if stream.is_idle() {
                self.leave(id, to);
            }
            return;
        }
        if stream.phase != Phase::Open {
            if stream.wants_receive() {
                self.receiving.push(id);
            }
            return;
        }
        if stream.is_sending() {
            self.quiet_urgent |= stream.flush_behind_send();
        } else {
            let unsent = stream.take_unsent();
            // The application's own output goes behind it.
            let more_follows = unsent.is_some();
            if let Some(transmit) = &unsent {
                self.application.lent(transmit);
            }
            if let Some(transmit) = unsent.or_else(|| self.application.poll_transmit(id, self.now)) {
                if transmit.len() == 0 {
                    self.application.transmitted(transmit);
                } else {
                    self.counters.sends += 1;
                    self.quiet.push(id);
                    self.quiet_bytes += transmit.len();
                    self.quiet_urgent |= self.quiet_bytes > KEPT_ASLEEP_BYTES_MAX || !transmit.ranges().is_empty();
                    stream.send(transmit, &mut self.ring, &mut self.messages);
                    if more_follows {
                        self.quiet_urgent |= stream.flush_behind_send();
                    }
                }
            }
        }
        if stream.wants_receive() && self.application.wants_input(id) {
            self.receiving.push(id);
        }
        if self.application.is_finished(id) {
            self.finish(id);
        } else if let Some(at) = self.application.connection_timeout(id) {
            self.timers.schedule(&mut stream.timer, at, Timer::Connection(id));
        }
    }

    /// The application has no more to say: once its output is sent the socket lingers, for a bounded time in all.
    fn finish(&mut self, id: ConnectionId) {
        self.limit(id);
        let Some(stream) = self.streams.get_mut(id) else { return };
        if stream.is_sending() {
            self.quiet_urgent |= stream.flush_behind_send();
            return;
        }
        if stream.input_over {
            self.end(id);
            self.reap(id);
        } else {
            stream.shut_output();
        }
    }

    /// From now on the socket has LINGER to live.
    fn limit(&mut self, id: ConnectionId) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        if stream.deadline.is_none() {
            let at = self.now + LINGER;
            stream.deadline = Some(at);
            self.timers.schedule(&mut stream.timer, at, Timer::Connection(id));
        }
    }

    fn end(&mut self, id: ConnectionId) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.end(&mut self.ring);
        }
    }

    /// Frees an ended connection once nothing of it is in flight.
    fn reap(&mut self, id: ConnectionId) {
        let done = self.streams.get(id).is_some_and(|stream| stream.phase == Phase::Ending && stream.is_idle());
        if done {
            // Dropping it closes the descriptor.
            self.streams.remove(id);
            self.counters.connections_closed += 1;
            self.application.closed(id, self.now);
        }
    }

    fn arm_receives(&mut self) {
        self.buffers.refill();
        for id in self.hungry.drain(..) {
            let Some(stream) = self.streams.get_mut(id) else { continue };
            if stream.phase == Phase::Open && self.application.wants_input(id) {
                stream.arm_receive(&mut self.ring);
            }
        }
        let mut receiving = std::mem::take(&mut self.receiving);
        for id in receiving.drain(..) {
            if let Some(stream) = self.streams.get_mut(id) {
                stream.arm_receive(&mut self.ring);
            }
        }
        self.receiving = receiving;
    }

    // ── time ──

    /// When a sleep is to end.
    fn sleep_end(&mut self) -> Option<Time> {
        let stop = match self.stop {
            Stop::No => None,
            Stop::Closing(at) | Stop::Draining(at) => Some(at),
        };
        earliest([self.timers.next(), self.application.next_timeout(), stop])
    }

    fn expire(&mut self) {
        while let Some((at, timer)) = self.timers.pop_due(self.now) {
            match timer {
                Timer::Listener(index) => {
                    if let Some(accepting) = self.listeners.get_mut(index as usize) {
                        if accepting.timer == Some(at) {
                            accepting.timer = None;
                            accepting.arm(&mut self.ring);
                        }
                    }
                }
                Timer::Connection(id) => self.expire_connection(id, at),
            }
        }
    }

    fn expire_connection(&mut self, id: ConnectionId, at: Time) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        if stream.timer != Some(at) {
            return;
        }
        stream.timer = None;
        if let Some(deadline) = stream.deadline {
            if deadline <= self.now {
                stream.end(&mut self.ring);
                self.reap(id);
                return;
            }
            self.timers.schedule(&mut stream.timer, deadline, Timer::Connection(id));
        }
        if stream.phase == Phase::Open && stream.moving.is_none() {
            if self.application.connection_timeout(id).is_some_and(|due| due <= self.now) {
                self.application.handle_timeout(id, self.now);
            }
            // Flushing asks for the next moment.
            self.list(id);
        }
    }

    // ── stopping ──

    fn remove_listener(&mut self, number: u32) {
        let found: Vec<usize> =
            self.listeners.iter().filter(|(_, l)| l.listener.number == number).map(|(index, _)| index).collect();
        for index in found {
            self.stop_listener(index);
        }
    }

    fn stop_listener(&mut self, index: usize) {
        let accepting = &mut self.listeners[index];
        accepting.stop(&mut self.ring);
        if !accepting.in_flight {
            self.listeners.remove(index);
        }
    }

    fn begin_stop(&mut self) {
        if !matches!(self.stop, Stop::No) {
            return;
        }
        self.stop = Stop::Closing(self.now + self.stop_deadline);
        let listeners: Vec<usize> = self.listeners.iter().map(|(index, _)| index).collect();
        for index in listeners {
            self.stop_listener(index);
        }
        self.application.stop(self.now);
        let ids: Vec<ConnectionId> = self.streams.iter().map(|(id, _)| id).collect();
        for id in ids {
            if self.streams.get(id).is_some_and(|stream| stream.moving.is_some()) {
                self.stay(id);
            }
            self.list(id);
        }
    }

    /// Moves the stop on. True: everything in flight came back.
    fn is_over(&mut self) -> Result<bool, ShardError> {
        match self.stop {
            Stop::No => Ok(false),
            Stop::Closing(deadline) => {
                if self.streams.is_empty() {
                    // Others may still have a connection for this shard.
                    self.post.retire();
                }
                let is_over = self.streams.is_empty() && self.post.is_over();
                if is_over || self.now >= deadline {
                    self.begin_drain();
                }
                self.is_drained()
            }
            Stop::Draining(_) => self.is_drained(),
        }
    }

    fn begin_drain(&mut self) {
        self.stop = Stop::Draining(self.now + DRAIN);
        let ids: Vec<ConnectionId> = self.streams.iter().map(|(id, _)| id).collect();
        for id in ids {
            self.end(id);
            self.reap(id);
        }
        if self.bell_in_flight {
            let cancel = opcode::AsyncCancel::new(Operation::Wake.user_data()).build();
            // SAFETY: it points to nothing.
            unsafe { self.ring.push(cancel.user_data(Operation::Cancel.user_data())) };
        }
    }

    fn is_drained(&mut self) -> Result<bool, ShardError> {
        let Stop::Draining(deadline) = self.stop else { return Ok(false) };
        if self.streams.is_empty() && self.listeners.is_empty() && !self.bell_in_flight {
            return Ok(true);
        }
        if self.now < deadline {
            return Ok(false);
        }
        Err(ShardError::Undrained)
    }
}

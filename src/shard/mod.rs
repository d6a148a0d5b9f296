//! The pinned thread that serves connections.
//!
//! Owns: its io_uring, the receive chunks and the buffer ring over them, listening sockets' accepts, connected sockets
//! from accept to close or until they move to another shard, timers, the turn, ringing other shards' doorbells.
//! Doesn't: know AMQP or where a delivery goes (dispatch drives engines and the router), bind sockets, write logs or
//! wait for anything but its ring (control does those).
//! Driven by: its ring; orders come from control by [`Mailbox`].
//!
//! Each shard has an accept in flight on every listening socket: the kernel wakes one of them for a connection, in turns.
//!
//! A turn: drain completions → drain lanes from other shards → engines and routing, parcels into lanes, doorbells → flush each
//! touched connection once → offer receive buffers → sleep in the ring (where it pays, after a short look) until something
//! completes, a doorbell rings or a timer is due.
//!
//! Invariants:
//! - One receive and one send in flight a connection, one accept a listener, one read of the orders' bell.
//! - A buffer belongs to the kernel until its completion was taken; a connection's slot and its socket live until its
//!   last completion.
//! - Work in a turn is bounded by what completed, and each connection is flushed at most once.
//! - On the message path nothing is allocated, and `io_uring_enter` is the only system call, but for the CPU clock that `spin` reads now and then.
//!
//! Files: `turn` first (the loop), then `stream` (a socket's life), `serve` (dispatch behind the sockets).

pub mod mailbox;

mod accept;
mod alarm;
mod application;
mod buffers;
mod ring;
mod serve;
mod spin;
mod stream;
mod timers;
mod turn;

#[cfg(test)]
mod tests;

pub use application::Application;
pub use mailbox::{Change, Mailbox, Order, Report, Reports, PAGES_MAX};
pub use ring::RingError;
pub use turn::{Place, Turn};

use crate::dispatch::Dispatch;
use crate::engine;
use crate::ids::ShardId;
use crate::mesh::Lanes;
use crate::routing::RouterSettings;
use crate::time::Time;
use std::fmt;
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A bound, listening socket and how its connections are served. Control binds it (SO_REUSEADDR).
#[derive(Clone)]
pub struct Listener {
    /// Control's number of it, in reports.
    pub number: u32,
    /// Shared by all shards; it listens until the last one has dropped it.
    pub socket: Arc<TcpListener>,
    /// Credit that a sender's link may have (`linkCapacity`).
    pub link_capacity: u32,
    pub engine: Arc<engine::Settings>,
}

pub struct ShardSettings {
    /// A shard each: the core to run on; None: wherever the scheduler likes. Read the ids once, before any thread is pinned.
    pub cores: Vec<Option<core_affinity::CoreId>>,
    pub router: RouterSettings,
    /// How long a shard without anything to do polls its ring before it sleeps (latency mode). Zero: not at all.
    pub busy_poll: Duration,
    /// How long an orderly stop waits for peers to take what is still to be sent.
    pub stop_deadline: Duration,
    /// Report every frame.
    pub trace: bool,
    /// Connections move to the shard of their first link's address. Off: for debugging and measuring.
    pub moves: bool,
}

/// Why a shard didn't start, or ended.
#[derive(Debug)]
pub enum ShardError {
    Ring(RingError),
    /// The thread or its mailbox couldn't be made.
    Thread(io::Error),
    /// Entering the kernel failed for good.
    Enter(io::Error),
    /// At the stop the kernel didn't give back everything in flight in time.
    Undrained,
}

impl fmt::Display for ShardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShardError::Ring(error) => error.fmt(f),
            ShardError::Thread(error) => write!(f, "a shard's thread can't be started: {error}"),
            ShardError::Enter(error) => write!(f, "io_uring_enter failed: {error}"),
            ShardError::Undrained => write!(f, "operations in flight didn't end before the deadline"),
        }
    }
}

impl std::error::Error for ShardError {}

/// A running shard, as control holds it.
pub struct ShardHandle {
    pub shard: ShardId,
    pub mailbox: Arc<Mailbox>,
    pub thread: JoinHandle<Result<(), ShardError>>,
}

/// A shard whose thread runs and hasn't met the others yet.
struct Starting {
    handle: ShardHandle,
    doorbell: mpsc::Receiver<OwnedFd>,
    meet: mpsc::Sender<Meeting>,
}

/// What a shard begins to serve with, once all have their rings.
struct Meeting {
    doorbells: Arc<[OwnedFd]>,
    listeners: Vec<Listener>,
}

/// Starts the shards: returns when all their rings are made, or with what was wrong and none running. They share the
/// listeners.
pub fn spawn(settings: ShardSettings, listeners: Vec<Listener>) -> Result<Vec<ShardHandle>, ShardError> {
    let settings = Arc::new(settings);
    let reports = Reports::new().map_err(ShardError::Thread)?;
    let shards = settings.cores.len() as u16;
    let (lanes, origin) = (Lanes::new(shards), Instant::now());
    let mut starting = Vec::new();
    for shard in (0..shards).map(ShardId) {
        let mailbox = Mailbox::new(reports.clone()).map_err(ShardError::Thread)?;
        let place = turn::Place { shard, lanes: lanes.clone(), mailbox, origin };
        starting.push(start(settings.clone(), place).map_err(ShardError::Thread)?);
    }
    // Where one fails, dropping the others' ends of their channels ends them.
    let mut doorbells = Vec::new();
    for shard in &starting {
        doorbells.extend(shard.doorbell.recv());
    }
    if doorbells.len() < starting.len() {
        return Err(why_not(starting));
    }
    let doorbells: Arc<[OwnedFd]> = doorbells.into();
    let begin = |shard: Starting| {
        let _ = shard.meet.send(Meeting { doorbells: doorbells.clone(), listeners: listeners.clone() });
        shard.handle
    };
    Ok(starting.into_iter().map(begin).collect())
}

fn start(settings: Arc<ShardSettings>, place: turn::Place<serve::Serve>) -> io::Result<Starting> {
    let (shard, mailbox) = (place.shard, place.mailbox.clone());
    let (give_doorbell, doorbell) = mpsc::channel();
    let (meet, meeting) = mpsc::channel();
    let thread = std::thread::Builder::new()
        .name(format!("shard-{}", shard.0))
        .spawn(move || run(&settings, place, give_doorbell, meeting))?;
    Ok(Starting { handle: ShardHandle { shard, mailbox, thread }, doorbell, meet })
}

/// Ends shards of which at least one has failed to start, and says why.
fn why_not(starting: Vec<Starting>) -> ShardError {
    let threads: Vec<_> = starting.into_iter().map(|shard| shard.handle.thread).collect();
    let errors = threads.into_iter().filter_map(|thread| thread.join().ok()?.err());
    errors.last().unwrap_or_else(|| ShardError::Thread(io::Error::other("the thread ended at once")))
}

/// CPU that this thread or this process took so far, as the clock says.
pub(crate) fn cpu_time(clock: libc::clockid_t) -> Option<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid pointer to a timespec.
    let result = unsafe { libc::clock_gettime(clock, &mut time) };
    (result == 0).then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// Raises RLIMIT_NOFILE to its hard limit: each connection is a descriptor. Gives the limit that holds afterwards.
pub fn raise_descriptor_limit() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a valid pointer to an rlimit, in both calls.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) != 0 {
            return Err(io::Error::last_os_error());
        }
        if limit.rlim_cur < limit.rlim_max {
            limit.rlim_cur = limit.rlim_max;
            if libc::setrlimit(libc::RLIMIT_NOFILE, &limit) != 0 {
                return Err(io::Error::last_os_error());
            }
        }
    }
    Ok(limit.rlim_cur)
}

fn run(
    settings: &ShardSettings,
    place: turn::Place<serve::Serve>,
    give_doorbell: mpsc::Sender<OwnedFd>,
    meeting: mpsc::Receiver<Meeting>,
) -> Result<(), ShardError> {
    if let Some(core) = settings.cores[usize::from(place.shard.0)] {
        // A core that was taken away meanwhile: the shard runs unpinned, slower, rightly.
        core_affinity::set_for_current(core);
    }
    let _guard = AbortOnPanic;
    let shards = settings.cores.len() as u16;
    let memory = settings.router.memory.clone();
    let mut dispatch = Dispatch::new(settings.router.clone(), place.shard, shards, settings.trace, Time::ZERO);
    dispatch.set_moves(settings.moves);
    dispatch.serve_management(Time::ZERO);
    let serve = serve::Serve::new(dispatch, place.mailbox.clone());
    let mut turn =
        turn::Turn::new(serve, memory, place, settings.stop_deadline, settings.busy_poll).map_err(ShardError::Ring)?;
    let result = match turn.doorbell() {
        Ok(doorbell) => {
            let _ = give_doorbell.send(doorbell);
            meet_and_run(&mut turn, &meeting)
        }
        Err(error) => Err(ShardError::Ring(error)),
    };
    if !matches!(result, Ok(Ended::InOrder)) {
        // The kernel may still use what is in there.
        std::mem::forget(turn);
    }
    result.map(|_| ())
}

enum Ended {
    InOrder,
    /// Another shard couldn't start.
    Alone,
}

fn meet_and_run(turn: &mut turn::Turn<serve::Serve>, meeting: &mpsc::Receiver<Meeting>) -> Result<Ended, ShardError> {
    let Ok(Meeting { doorbells, listeners }) = meeting.recv() else { return Ok(Ended::Alone) };
    turn.meet(doorbells);
    for listener in listeners {
        turn.add_listener(listener);
    }
    turn.run()?;
    Ok(Ended::InOrder)
}

/// A panic would unwind through memory that the kernel still writes to, and a router without its shard serves nobody.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

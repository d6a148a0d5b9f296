//! The pinned thread that serves connections.
//!
//! Owns: its io_uring, the receive chunks and the buffer ring over them, listening sockets' accepts, connected sockets
//! from accept to close, timers, the turn.
//! Doesn't: know AMQP or where a delivery goes (dispatch drives engines and the router), bind sockets, write logs or
//! wait for anything but its ring (control does those).
//! Driven by: its ring; orders come from control by [`Mailbox`].
//!
//! A turn: drain completions → (lanes, once there are several shards) → engines and routing → flush each touched
//! connection once → offer receive buffers → sleep in the ring until something completes or a timer is due.
//!
//! Invariants:
//! - One receive and one send in flight a connection, one accept a listener, one read of the orders' bell.
//! - A buffer belongs to the kernel until its completion was taken; a connection's slot and its socket live until its
//!   last completion.
//! - Work in a turn is bounded by what completed, and each connection is flushed at most once.
//! - On the message path nothing is allocated, and `io_uring_enter` is the only system call.
//!
//! Files: `turn` first (the loop), then `stream` (a socket's life), `serve` (dispatch behind the sockets).

pub mod mailbox;

mod accept;
mod application;
mod buffers;
mod ring;
mod serve;
mod stream;
mod timers;
mod turn;

#[cfg(test)]
mod tests;

pub use mailbox::{Mailbox, Order, Report, PAGES_MAX};
pub use ring::RingError;

use crate::dispatch::Dispatch;
use crate::engine;
use crate::ids::ShardId;
use crate::limits;
use crate::payload::Pool;
use crate::routing::RouterSettings;
use crate::time::Time;
use std::fmt;
use std::io;
use std::net::TcpListener;
use std::sync::mpsc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Free chunks that a shard keeps: 16 MiB.
const CHUNKS_KEPT_MAX: usize = 256;

/// A bound, listening socket and how its connections are served. Control binds it (SO_REUSEADDR).
pub struct Listener {
    /// Control's number of it, in reports.
    pub number: u32,
    pub socket: TcpListener,
    /// Credit that a sender's link may have (`linkCapacity`).
    pub link_capacity: u32,
    pub engine: Arc<engine::Settings>,
}

pub struct ShardSettings {
    pub shard: ShardId,
    /// The core to run on; None: wherever the scheduler likes. Read the ids once, before any thread is pinned.
    pub core: Option<core_affinity::CoreId>,
    pub router: RouterSettings,
    /// How long an orderly stop waits for peers to take what is still to be sent.
    pub stop_deadline: Duration,
    /// Report every frame.
    pub trace: bool,
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

/// Starts a shard: returns when its ring is made and its accepts are in flight, or with what was wrong.
pub fn spawn(settings: ShardSettings, listeners: Vec<Listener>) -> Result<ShardHandle, ShardError> {
    let mailbox = Mailbox::new().map_err(ShardError::Thread)?;
    let (shard, inside) = (settings.shard, mailbox.clone());
    let (started, starting) = mpsc::sync_channel(1);
    let thread = std::thread::Builder::new()
        .name(format!("shard-{}", shard.0))
        .spawn(move || run(settings, listeners, inside, started))
        .map_err(ShardError::Thread)?;
    match starting.recv() {
        Ok(()) => Ok(ShardHandle { shard, mailbox, thread }),
        // The thread ended without having started: its result says why.
        Err(_) => match thread.join() {
            Ok(Err(error)) => Err(error),
            _ => Err(ShardError::Thread(io::Error::other("the thread ended at once"))),
        },
    }
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
    settings: ShardSettings,
    listeners: Vec<Listener>,
    mailbox: Arc<Mailbox>,
    started: mpsc::SyncSender<()>,
) -> Result<(), ShardError> {
    if let Some(core) = settings.core {
        // A core that was taken away meanwhile: the shard runs unpinned, slower, rightly.
        core_affinity::set_for_current(core);
    }
    let _guard = AbortOnPanic;
    let stop_deadline = settings.stop_deadline;
    let dispatch = Dispatch::new(settings.router, settings.shard, 1, settings.trace, Time::ZERO);
    let serve = serve::Serve::new(dispatch, mailbox.clone());
    let pool = Pool::new(limits::CHUNK_BYTES, CHUNKS_KEPT_MAX);
    let mut turn = turn::Turn::new(serve, pool, mailbox, stop_deadline).map_err(ShardError::Ring)?;
    for listener in listeners {
        turn.add_listener(listener);
    }
    let _ = started.send(());
    let result = turn.run();
    if result.is_err() {
        std::mem::forget(turn);
    }
    result
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

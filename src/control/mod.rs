//! The control thread: everything beside the message path.
//!
//! Owns: binding the listeners' sockets, starting the shard and ending it in order on a signal, the log.
//! Doesn't: touch a connection or a message; a shard never waits for it.
//! Driven by: the command line (it is the main thread), then by signals and the shard's reports, on tokio-uring.
//!
//! Invariants:
//! - a read on tokio-uring is awaited to its end in a task of its own, never raced and dropped: the buffer is the
//!   kernel's until then, and the runtime waits at its end for every operation in flight;
//! - the router listens before it says so, and says what was wrong before it ends with an error.
//!
//! Files: `settings` (a configuration in the words of engine and routing), `listen` (sockets), `log` (writing it),
//! `report` (what a shard tells, in the words of the log).

mod listen;
pub mod log;
mod report;
mod settings;

pub use listen::BindError;
pub use log::LogError;
pub use settings::check;

use self::log::Log;
use self::report::Reporter;
use crate::config::Config;
use crate::ids::ShardId;
use crate::log::{Level, Module};
use crate::routing::EdgeOutbox;
use crate::shard::{self, Mailbox, Order, Report, ShardError, ShardHandle, ShardSettings};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::signal::unix::{signal, SignalKind};

/// How long peers may take to read their closes when the router stops.
const STOP_DEADLINE: Duration = Duration::from_secs(5);

/// Reports that are taken before the control thread looks at what else there is: a shard that reports without a pause
/// must not keep it from hearing a signal.
const REPORTS_AT_ONCE: usize = 256;

/// When a shard's full queue is offered events again.
const PUBLISH_RETRY: Duration = Duration::from_millis(1);

/// Why the router didn't start, or ended otherwise than asked to.
#[derive(Debug)]
pub enum ControlError {
    /// The configuration can't be had on this machine: its line, and why.
    Configuration(usize, String),
    Shard(ShardError),
    /// The control thread's own runtime.
    Runtime(io::Error),
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ControlError::Configuration(_, text) => f.write_str(text),
            ControlError::Shard(error) => error.fmt(f),
            ControlError::Runtime(error) => write!(f, "the control thread can't be set up: {error}"),
        }
    }
}

impl std::error::Error for ControlError {}

impl From<BindError> for ControlError {
    fn from(error: BindError) -> Self {
        ControlError::Configuration(error.line, error.to_string())
    }
}

impl From<LogError> for ControlError {
    fn from(error: LogError) -> Self {
        ControlError::Configuration(error.line, error.to_string())
    }
}

/// Runs a router to its orderly end. `listening` is called once, when it serves, with where it listens.
pub fn run(config: &Config, listening: impl FnOnce(&[SocketAddr])) -> Result<(), ControlError> {
    // Before anybody can see that there is a router to stop.
    mask_signals(libc::SIG_BLOCK);
    let mut log = Log::open(config)?;
    let router_id = settings::router_id(config);
    let (listeners, places) = bind(config, &router_id)?;
    if let Err(error) = shard::raise_descriptor_limit() {
        log.write(Module::Server, Level::Warning, format_args!("the limit of open files can't be raised: {error}"));
    }
    let shard = ShardSettings {
        shard: ShardId(0),
        core: core(),
        router: settings::router(config, &router_id)?,
        stop_deadline: STOP_DEADLINE,
        trace: log.traces_frames(),
    };
    let shard = shard::spawn(shard, listeners).map_err(ControlError::Shard)?;
    // Behind the shard: where io_uring is missing, its error says what to do.
    let runtime = match tokio_uring::Runtime::new(&tokio_uring::builder()) {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = shard.mailbox.order(Order::Stop);
            let _ = shard.thread.join();
            return Err(ControlError::Runtime(error));
        }
    };
    announce(config, &router_id, &places, &mut log);
    listening(&places);
    runtime.block_on(serve(shard, Reporter::new(log, places)))
}

/// Holds back the signals that the router acts on, until what handles them is there; threads that are started meanwhile
/// keep it so.
fn mask_signals(how: libc::c_int) {
    // SAFETY: a set of this function's own, filled before it is used.
    unsafe {
        let mut signals = std::mem::zeroed();
        libc::sigemptyset(&mut signals);
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGQUIT, libc::SIGHUP] {
            libc::sigaddset(&mut signals, signal);
        }
        libc::pthread_sigmask(how, &signals, std::ptr::null_mut());
    }
}

/// Binds every listener; gives the shard's listeners and where each listens, by its number.
fn bind(config: &Config, router_id: &str) -> Result<(Vec<shard::Listener>, Vec<SocketAddr>), ControlError> {
    let (mut listeners, mut places) = (Vec::new(), Vec::new());
    for listener in &config.listeners {
        let engine = Arc::new(settings::engine(listener, router_id));
        for socket in listen::bind(listener)? {
            places.push(socket.local_addr().map_err(|error| BindError {
                line: listener.line,
                place: listener.host.clone(),
                error,
            })?);
            let number = listeners.len() as u32;
            let (link_capacity, engine) = (listener.link_capacity, engine.clone());
            listeners.push(shard::Listener { number, socket, link_capacity, engine });
        }
    }
    Ok((listeners, places))
}

/// The shard's core: one of those that this process may use. By the process id, so that several routers on a machine
/// don't all sit on its first one.
fn core() -> Option<core_affinity::CoreId> {
    let cores = core_affinity::get_core_ids()?;
    cores.get(std::process::id() as usize % cores.len().max(1)).copied()
}

fn announce(config: &Config, router_id: &str, places: &[SocketAddr], log: &mut Log) {
    for warning in config.warnings.iter().chain(&config.unsupported) {
        log.write(Module::Agent, Level::Warning, format_args!("{warning}"));
    }
    log.write(Module::Server, Level::Info, format_args!("Container Name: {router_id}"));
    log.write(Module::Router, Level::Info, format_args!("Router started in Standalone mode"));
    log.write(Module::Router, Level::Info, format_args!("Version: ringway {}", env!("CARGO_PKG_VERSION")));
    for place in places {
        log.write(Module::Server, Level::Notice, format_args!("Listening on {place}"));
    }
    // Tools wait for this line, as it is.
    log.write(
        Module::Server,
        Level::Notice,
        format_args!("Operational, 1 Threads Running (process ID {})", std::process::id()),
    );
}

/// Until the shard's thread has ended: signals stop it, its reports are logged.
async fn serve(shard: ShardHandle, reporter: Reporter) -> Result<(), ControlError> {
    let ShardHandle { mailbox, thread, .. } = shard;
    let reporter = Rc::new(RefCell::new(reporter));
    let is_over = Rc::new(Cell::new(false));
    let reports = tokio_uring::spawn(log_reports(mailbox.clone(), reporter.clone(), is_over.clone()));
    let result = wait_for_end(&mailbox, thread, &reporter).await;
    // The reader of reports may still be waiting for one: let it see that there is none to come.
    is_over.set(true);
    ring(&mailbox);
    let _ = reports.await;
    reporter.borrow_mut().stopped(&result);
    result
}

async fn wait_for_end(
    mailbox: &Mailbox,
    thread: std::thread::JoinHandle<Result<(), ShardError>>,
    reporter: &RefCell<Reporter>,
) -> Result<(), ControlError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(ControlError::Runtime)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(ControlError::Runtime)?;
    let mut quit = signal(SignalKind::quit()).map_err(ControlError::Runtime)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(ControlError::Runtime)?;
    mask_signals(libc::SIG_UNBLOCK);
    let mut ended = tokio::task::spawn_blocking(move || thread.join());
    let mut is_stopping = false;
    loop {
        // None of these is an operation in the ring.
        let number = tokio::select! {
            ended = &mut ended => {
                return match ended {
                    Ok(Ok(result)) => result.map_err(ControlError::Shard),
                    _ => Err(ControlError::Shard(ShardError::Thread(io::Error::other("the shard's thread panicked")))),
                };
            }
            _ = terminate.recv() => libc::SIGTERM,
            _ = interrupt.recv() => libc::SIGINT,
            _ = quit.recv() => libc::SIGQUIT,
            _ = hangup.recv() => {
                reporter.borrow_mut().reopen_log();
                continue;
            }
        };
        if is_stopping {
            // Asked twice: whoever waits has no patience left.
            std::process::exit(128 + number);
        }
        is_stopping = true;
        reporter.borrow_mut().stopping(number);
        while mailbox.order(Order::Stop).is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// Takes reports whenever the bell rings, until the shard has stopped.
async fn log_reports(mailbox: Arc<Mailbox>, reporter: Rc<RefCell<Reporter>>, is_over: Rc<Cell<bool>>) {
    let bell = match mailbox.reports_bell().try_clone_to_owned() {
        Ok(bell) => tokio_uring::fs::File::from_std(std::fs::File::from(bell)),
        Err(error) => return reporter.borrow_mut().deaf(&error),
    };
    let mut buffer = vec![0u8; 8];
    let mut events = EdgeOutbox::default();
    while !is_over.get() {
        let (result, returned) = bell.read_at(buffer, 0).await;
        buffer = returned;
        if let Err(error) = result {
            return reporter.borrow_mut().deaf(&error);
        }
        let mut taken = 0;
        while let Some(report) = mailbox.poll_report() {
            taken += 1;
            if taken % REPORTS_AT_ONCE == 0 {
                tokio::task::yield_now().await;
            }
            if let Report::ThresholdCrossed { address, edge } = &report {
                events.raise(address.clone(), *edge);
                publish(&mailbox, &mut events);
            }
            reporter.borrow_mut().report(report);
        }
        // What the shard's full queue didn't take.
        while !events.is_empty() && !is_over.get() {
            tokio::time::sleep(PUBLISH_RETRY).await;
            publish(&mailbox, &mut events);
        }
    }
}

/// Has the shard tell its subscribers of edges.
fn publish(mailbox: &Mailbox, events: &mut EdgeOutbox<Box<str>>) {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let timestamp = since_1970.as_millis() as i64;
    events.flush(|address, edge| {
        mailbox.order(Order::Publish { address: address.clone(), edge: *edge, timestamp }).is_ok()
    });
}

/// Rings the bell of reports from this side.
fn ring(mailbox: &Mailbox) {
    if let Ok(bell) = mailbox.reports_bell().as_fd().try_clone_to_owned() {
        let _ = io::Write::write(&mut std::fs::File::from(bell), &1u64.to_ne_bytes());
    }
}

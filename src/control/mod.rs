//! The control thread: everything beside the message path.
//!
//! Owns: binding the listeners' sockets, choosing the shards' cores, starting the shards and ending them in order on a signal,
//! passing threshold edges on to all of them, the log.
//! Doesn't: touch a connection or a message; a shard never waits for it.
//! Driven by: the command line (it is the main thread), then by signals and the shards' reports, on tokio-uring.
//!
//! Invariants:
//! - a read on tokio-uring is awaited to its end in a task of its own, never raced and dropped: the buffer is the
//!   kernel's until then;
//! - nothing keeps a router that has stopped from its end: the runtime goes with the process, whatever its threads still wait for;
//! - the router listens before it says so, and says what was wrong before it ends with an error;
//! - an output of the log is waited for when the router starts and when it ends, a second at most, and never between.
//!
//! Files: `cores` (how many shards, and where), `settings` (a configuration in the words of engine and routing), `listen`
//! (sockets), `log` (writing it), `report` (what shards tell, in the words of the log), `shards` (asking them),
//! `management` (answering requests), `http`.

mod change;
mod cores;
mod http;
mod kept;
mod listen;
pub mod log;
mod management;
mod memory;
mod report;
mod settings;
mod shards;

pub use listen::BindError;
pub use log::LogError;
pub use settings::check;

use self::http::Http;
use self::log::Log;
use self::management::{Known, Management};
use self::report::Reporter;
use self::shards::Shards;
use crate::config::Config;
use crate::log::{Level, Module};
use crate::memory::Memory;
use crate::routing::EdgeOutbox;
use crate::shard::{self, Mailbox, Order, Report, Reports, ShardError, ShardHandle, ShardSettings};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::mem::ManuallyDrop;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::signal::unix::{signal, SignalKind};
use tokio::sync::Notify;

/// How long peers may take to read their closes when the router stops.
const STOP_DEADLINE: Duration = Duration::from_secs(5);

/// Reports that are taken before the control thread looks at what else there is: a shard that reports without a pause
/// must not keep it from hearing a signal.
const REPORTS_AT_ONCE: usize = 256;

/// When a shard's full queue is offered orders again, and how often.
const ORDER_RETRY: Duration = Duration::from_millis(1);
const ORDER_TRIES: u32 = 5000;

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

/// What the command line says beside the configuration.
pub struct Options {
    /// How many shards; None: as the configuration says.
    pub shards: Option<u16>,
    /// How long a shard polls before it sleeps; None: as the configuration says.
    pub busy_poll_microseconds: Option<u32>,
    /// Connections move to the shard of their first link's address.
    pub moves: bool,
}

/// Runs a router to its orderly end. `listening` is called once, when it serves, with where it listens.
pub fn run(config: &Config, options: Options, listening: impl FnOnce(&[SocketAddr])) -> Result<(), ControlError> {
    // Before anybody can see that there is a router to stop.
    mask_signals(libc::SIG_BLOCK);
    let mut log = Log::open(config)?;
    let router_id = settings::router_id(config);
    let memory = Arc::new(memory::account(&config.router));
    announce(config, &router_id, &mut log);
    let Sockets { listeners, http, places } = bind(config, &router_id, &memory, &mut log)?;
    if let Err(error) = shard::raise_descriptor_limit() {
        log.write(Module::Server, Level::Warning, format_args!("the limit of open files can't be raised: {error}"));
    }
    let cores = cores::choose(options.shards.or(config.router.worker_threads), &mut log);
    let busy_poll = options.busy_poll_microseconds.unwrap_or(config.router.busy_poll_microseconds);
    let settings = ShardSettings {
        cores,
        router: settings::router(config, &router_id, &memory)?,
        busy_poll: Duration::from_micros(u64::from(busy_poll)),
        stop_deadline: STOP_DEADLINE,
        trace: log.traces_frames(),
        moves: options.moves,
    };
    let running = change::Listeners::new(config, &listeners, places.len() as u32, &router_id, &memory);
    let shards = shard::spawn(settings, listeners).map_err(ControlError::Shard)?;
    // Behind the shards: where io_uring is missing, their error says what to do.
    let runtime = match tokio_uring::Runtime::new(&tokio_uring::builder()) {
        // Never dropped: that would wait for its threads, and looking up a name or opening a file may take for ever.
        Ok(runtime) => ManuallyDrop::new(runtime),
        Err(error) => {
            for shard in shards {
                let _ = shard.mailbox.order(Order::Stop);
                let _ = shard.thread.join();
            }
            return Err(ControlError::Runtime(error));
        }
    };
    // Tools wait for this line, as it is.
    log.write(
        Module::Server,
        Level::Notice,
        format_args!("Operational, {} Threads Running (process ID {})", shards.len(), std::process::id()),
    );
    // Whoever hears that it serves finds that in the log.
    log.flush();
    listening(&places);
    let figures = settings::figures(config, &router_id, shards.len());
    let known = Known::new(config, figures, running)?;
    let reporter = Rc::new(RefCell::new(Reporter::new(log, places)));
    let result = runtime.block_on(serve(shards, http, reporter.clone(), known));
    reporter.borrow_mut().memory(&memory);
    reporter.borrow_mut().stopped(&result);
    reporter.borrow_mut().log().close();
    result
}

/// Holds back the signals that the router acts on, until what handles them is there; threads that are started meanwhile
/// keep it so.
fn mask_signals(how: libc::c_int) {
    // SAFETY: a set of this function's own, filled before it is used.
    unsafe {
        let mut signals = std::mem::zeroed();
        libc::sigemptyset(&mut signals);
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGQUIT, libc::SIGHUP, libc::SIGUSR1] {
            libc::sigaddset(&mut signals, signal);
        }
        libc::pthread_sigmask(how, &signals, std::ptr::null_mut());
    }
}

/// Listeners' sockets: the shards', and those of HTTP.
#[derive(Default)]
struct Sockets {
    listeners: Vec<shard::Listener>,
    http: Vec<http::Bound>,
    /// Where each listens, by its number.
    places: Vec<SocketAddr>,
}

/// Binds every listener.
fn bind(config: &Config, router_id: &str, memory: &Arc<Memory>, log: &mut Log) -> Result<Sockets, ControlError> {
    let mut all = Sockets::default();
    for listener in &config.listeners {
        let engine = Arc::new(settings::engine(listener, router_id, memory));
        let site = Rc::new(http::Site::new(listener));
        for socket in listen::bind(listener)? {
            let fault = |error| BindError { line: listener.line, place: listener.host.clone(), error };
            let place = socket.local_addr().map_err(fault)?;
            // A port that the kernel chose is looked up by the listener's name.
            let name = listener.name.as_ref().filter(|_| listener.port == 0);
            let name = name.map(|name| format!(" ({name})")).unwrap_or_default();
            let (module, protocol) = if listener.http { (Module::Http, " for HTTP") } else { (Module::Server, "") };
            log.write(module, Level::Notice, format_args!("Listening{protocol} on {place}{name}"));
            let number = all.places.len() as u32;
            all.places.push(place);
            if listener.http {
                all.http.push(http::Bound { socket, site: site.clone() });
                continue;
            }
            let (link_capacity, engine) = (listener.link_capacity, engine.clone());
            all.listeners.push(shard::Listener { number, socket: Arc::new(socket), link_capacity, engine });
        }
    }
    Ok(all)
}

fn announce(config: &Config, router_id: &str, log: &mut Log) {
    for warning in config.warnings.iter().chain(&config.unsupported) {
        log.write(Module::Agent, Level::Warning, format_args!("{warning}"));
    }
    log.write(Module::Server, Level::Info, format_args!("Container Name: {router_id}"));
    log.write(Module::Router, Level::Info, format_args!("Router started in Standalone mode"));
    log.write(Module::Router, Level::Info, format_args!("Version: ringway {}", env!("CARGO_PKG_VERSION")));
}

/// Until the shards' threads have ended: signals stop them, their reports are logged, requests answered.
async fn serve(
    shards: Vec<ShardHandle>,
    http: Vec<http::Bound>,
    reporter: Rc<RefCell<Reporter>>,
    known: Known,
) -> Result<(), ControlError> {
    let mailboxes: Rc<[Arc<Mailbox>]> = shards.iter().map(|shard| shard.mailbox.clone()).collect();
    let Some(reports) = mailboxes.first().map(|mailbox| mailbox.reports().clone()) else { return Ok(()) };
    let is_over = Rc::new(Cell::new(false));
    let asked = Shards::new(mailboxes.iter().cloned());
    let pages = Http::new(asked.clone(), SystemTime::now());
    for bound in http {
        pages.listen(bound).map_err(ControlError::Runtime)?;
    }
    let management = Management::new(known, asked.clone(), reporter.clone(), pages);
    let ears = Ears { shards: asked, management, reporter: reporter.clone(), is_over: is_over.clone() };
    let reading = tokio_uring::spawn(hear(reports.clone(), mailboxes.clone(), ears));
    let threads = shards.into_iter().map(|shard| shard.thread).collect();
    let result = wait_for_end(&mailboxes, threads, &reporter).await;
    // The reader of reports may still be waiting for one: let it see that there is none to come.
    is_over.set(true);
    reports.ring();
    let _ = reading.await;
    result
}

type ShardThread = std::thread::JoinHandle<Result<(), ShardError>>;

fn join(thread: ShardThread) -> Result<(), ShardError> {
    thread.join().unwrap_or_else(|_| Err(ShardError::Thread(io::Error::other("the shard's thread panicked"))))
}

async fn wait_for_end(
    mailboxes: &[Arc<Mailbox>],
    threads: Vec<ShardThread>,
    reporter: &RefCell<Reporter>,
) -> Result<(), ControlError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(ControlError::Runtime)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(ControlError::Runtime)?;
    let mut quit = signal(SignalKind::quit()).map_err(ControlError::Runtime)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(ControlError::Runtime)?;
    let mut counters = signal(SignalKind::user_defined1()).map_err(ControlError::Runtime)?;
    mask_signals(libc::SIG_UNBLOCK);
    let mut ending = tokio::task::JoinSet::new();
    for thread in threads {
        ending.spawn_blocking(move || join(thread));
    }
    let mut result = Ok(());
    let mut is_stopping = false;
    loop {
        // None of these is an operation in the ring.
        let number = tokio::select! {
            ended = ending.join_next() => {
                let Some(ended) = ended else { return result.map_err(ControlError::Shard) };
                result = result.and(ended.unwrap_or_else(|error| Err(ShardError::Thread(error.into()))));
                // One that ended by itself takes the others with it: they can't do its part.
                None
            }
            _ = terminate.recv() => Some(libc::SIGTERM),
            _ = interrupt.recv() => Some(libc::SIGINT),
            _ = quit.recv() => Some(libc::SIGQUIT),
            _ = hangup.recv() => {
                reporter.borrow_mut().reopen_log();
                continue;
            }
            _ = counters.recv() => {
                order_all(mailboxes, || Order::ReportCounters).await;
                continue;
            }
        };
        if let Some(number) = number {
            if is_stopping {
                // Asked twice: whoever waits has no patience left.
                reporter.borrow_mut().log().close();
                std::process::exit(128 + number);
            }
            reporter.borrow_mut().stopping(number);
        }
        if !std::mem::replace(&mut is_stopping, true) {
            order_all(mailboxes, || Order::Stop).await;
        }
    }
}

/// Orders the same of every shard. One whose queue stays full has ended, or it will hear nothing any more.
async fn order_all(mailboxes: &[Arc<Mailbox>], order: impl Fn() -> Order) {
    let mut tries = ORDER_TRIES;
    for mailbox in mailboxes {
        while mailbox.order(order()).is_err() && tries > 0 {
            tries -= 1;
            tokio::time::sleep(ORDER_RETRY).await;
        }
    }
}

/// Who hears what shards say.
struct Ears {
    shards: Rc<Shards>,
    management: Rc<Management>,
    reporter: Rc<RefCell<Reporter>>,
    is_over: Rc<Cell<bool>>,
}

/// Takes answers and reports whenever the bell rings, until the shards have stopped.
async fn hear(reports: Arc<Reports>, mailboxes: Rc<[Arc<Mailbox>]>, ears: Ears) {
    let bell = match reports.bell().try_clone_to_owned() {
        Ok(bell) => tokio_uring::fs::File::from_std(std::fs::File::from(bell)),
        Err(error) => return ears.reporter.borrow_mut().deaf(&error),
    };
    let heard = Rc::new(Notify::new());
    tokio_uring::spawn(memory::purge_behind(heard.clone()));
    let mut buffer = vec![0u8; 8];
    let mut events: Vec<Events> = mailboxes.iter().map(|_| Events::default()).collect();
    while !ears.is_over.get() {
        let (result, returned) = bell.read_at(buffer, 0).await;
        buffer = returned;
        if let Err(error) = result {
            return ears.reporter.borrow_mut().deaf(&error);
        }
        reports.heard();
        ears.shards.take_pages();
        let mut taken = 0;
        // Whatever it is, memory may be free behind it.
        heard.notify_one();
        while let Some(report) = reports.poll() {
            taken += 1;
            if taken % REPORTS_AT_ONCE == 0 {
                ears.shards.take_pages();
                tokio::task::yield_now().await;
            }
            match report {
                Report::Request(request) => ears.management.request(request),
                Report::Done { ticket, done } => ears.shards.done(ticket, done),
                report => {
                    if let Report::ThresholdCrossed { address, edge } = &report {
                        events.iter_mut().for_each(|events| events.raise(address.clone(), *edge));
                        publish(&mailboxes, &mut events);
                    }
                    ears.reporter.borrow_mut().report(report);
                }
            }
        }
        // What a shard's full queue didn't take.
        while events.iter().any(|events| !events.is_empty()) && !ears.is_over.get() {
            tokio::time::sleep(ORDER_RETRY).await;
            publish(&mailboxes, &mut events);
        }
    }
}

/// Edges that a shard has yet to tell its subscribers of.
type Events = EdgeOutbox<Box<str>>;

/// Has every shard tell its subscribers of edges.
fn publish(mailboxes: &[Arc<Mailbox>], events: &mut [Events]) {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let timestamp = since_1970.as_millis() as i64;
    for (mailbox, events) in mailboxes.iter().zip(events) {
        events.flush(|address, edge| {
            mailbox.order(Order::Publish { address: address.clone(), edge: *edge, timestamp }).is_ok()
        });
    }
}

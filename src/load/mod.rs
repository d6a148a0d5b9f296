//! The load generator: senders, receivers, requesters and responders on the shard's own loop, against any AMQP 1.0 peer.
//!
//! Owns: what is sent when ([`Plan`]), the connections' behaviour, the figures ([`Figures`]).
//! Doesn't: read arguments, resolve names, print (`cli` does).
//! Driven by: `cli`, which calls [`run`]; each thread is a [`Turn`] with a [`worker::Worker`] behind its sockets.
//!
//! Latency is taken from the moment at which a message was to be sent: in an open loop (a rate is given) the schedule's,
//! whether or not there was credit for it then, so that a stall shows in every message that it held up. In a closed loop
//! it is the moment of sending, and says little: who waits for credit offers less.
//!
//! Files: `mod` (plan, running it), `worker` (a thread's connections and schedule), `peer` (one connection), `message`
//! (bytes with a stamp), `figures` (what came of it).

mod figures;
mod message;
mod peer;
mod worker;

pub use figures::{Figures, Latency, Outcomes};

use crate::ids::ShardId;
use crate::mesh::Lanes;
use crate::payload::Pool;
use crate::security::Login;
use crate::shard::{Mailbox, Order, Place, Reports, Turn};
use crate::time::Time;
use figures::Tally;
use peer::Part;
use std::fmt;
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use worker::Worker;

/// How long an orderly end of the connections may take.
const STOP_DEADLINE: Duration = Duration::from_secs(2);
/// How long connecting and attaching may take, all together.
const SETUP_DEADLINE: Duration = Duration::from_secs(60);
const CHUNK_BYTES: usize = 64 * 1024;
const CHUNKS_KEPT_MAX: usize = 256;
/// What a lane between two threads holds; nothing goes through one.
const LANE_PARCELS: usize = 1;

/// What load to make.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Connections with a link each. With `requests` they ask and the receivers answer.
    pub senders: usize,
    pub receivers: usize,
    /// Sender and receiver number n are on address n modulo this.
    pub addresses: usize,
    /// What the addresses' names begin with; a number follows where there are several.
    pub address: String,
    pub requests: bool,
    pub body_bytes: usize,
    pub settled: bool,
    /// Credit that a receiver keeps open.
    pub credit: u32,
    /// Messages a second of all senders together; None: a closed loop.
    pub rate: Option<f64>,
    /// Messages without an outcome (requests without a reply) that a sender may have.
    pub outstanding: u32,
    /// Before this passed, messages don't count.
    pub warm_up: Duration,
    pub end: End,
    /// Receivers that get each message.
    pub copies: u64,
    pub threads: usize,
    /// How long a thread polls before it sleeps.
    pub busy_poll: Duration,
    /// How long to wait at the end, while nothing comes, for what is still missing.
    pub patience: Duration,
}

#[derive(Clone, Copy, Debug)]
pub enum End {
    /// So many messages behind the warm-up, of all senders together.
    Count(u64),
    After(Duration),
}

impl Plan {
    pub fn address_of(&self, number: usize) -> String {
        match self.addresses {
            1 => self.address.clone(),
            addresses => format!("{}{}", self.address, number % addresses),
        }
    }
}

/// How connections are made.
pub struct Dial {
    pub connect: Box<dyn Fn() -> Result<TcpStream, String> + Send + Sync>,
    pub hostname: String,
    /// None: without a SASL layer.
    pub login: Option<Login>,
}

/// Why no figures came of it.
#[derive(Debug)]
pub struct LoadError(pub String);

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for LoadError {}

/// What happens while it runs, for whoever watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The warm-up is over.
    Measuring,
    /// About a second passed: messages since the beginning.
    Progress { sent: u64, received: u64 },
    /// The last message that counts was sent and has come, or the time is over.
    Measured,
}

/// What the threads share: a few words, each written by one side.
pub(crate) struct Shared {
    /// Nanoseconds since the origin when sending begins, when messages count, and when no more are sent.
    start: AtomicU64,
    measure: AtomicU64,
    stop: AtomicU64,
    ready: AtomicUsize,
    senders_done: AtomicUsize,
    counts: Vec<Counts>,
    failure: Mutex<Option<String>>,
}

/// A thread's counts: on a cache line of their own.
#[repr(align(64))]
#[derive(Default)]
pub(crate) struct Counts {
    sent: AtomicU64,
    received: AtomicU64,
    settled: AtomicU64,
}

impl Shared {
    fn new(threads: usize) -> Shared {
        Shared {
            start: AtomicU64::new(u64::MAX),
            measure: AtomicU64::new(u64::MAX),
            stop: AtomicU64::new(u64::MAX),
            ready: AtomicUsize::new(0),
            senders_done: AtomicUsize::new(0),
            counts: (0..threads).map(|_| Counts::default()).collect(),
            failure: Mutex::new(None),
        }
    }

    fn fail(&self, why: String) {
        self.failure.lock().expect("nobody panics with it").get_or_insert(why);
    }

    fn check(&self) -> Result<(), LoadError> {
        let failure = self.failure.lock().expect("nobody panics with it").clone();
        failure.map_or(Ok(()), |why| Err(LoadError(why)))
    }

    fn sum(&self, of: impl Fn(&Counts) -> &AtomicU64) -> u64 {
        self.counts.iter().map(|counts| of(counts).load(Ordering::Relaxed)).sum()
    }
}

/// A thread that makes load.
struct Running {
    mailbox: Arc<Mailbox>,
    thread: std::thread::JoinHandle<Result<Tally, String>>,
}

/// Makes the load, and gives what came of it. `watch` is told of each moment as it comes.
pub fn run(plan: Plan, dial: Dial, mut watch: impl FnMut(Moment)) -> Result<Figures, LoadError> {
    let plan = Arc::new(plan);
    let (shared, dial, origin) = (Arc::new(Shared::new(plan.threads)), Arc::new(dial), Instant::now());
    let mut threads = Vec::new();
    for number in 0..plan.threads {
        threads.push(spawn(number, &plan, &dial, &shared, origin)?);
    }
    let result = conduct(&plan, &shared, origin, &mut watch);
    for running in &threads {
        let _ = running.mailbox.order(Order::Stop);
    }
    let mut tally = Tally::new();
    let mut ended = Ok(());
    for running in threads {
        match running.thread.join() {
            Ok(Ok(part)) => tally.add(&part),
            Ok(Err(why)) => ended = Err(LoadError(why)),
            Err(_) => ended = Err(LoadError("a thread panicked".to_owned())),
        }
    }
    result?;
    ended?;
    let measure = Time(shared.measure.load(Ordering::Relaxed));
    Ok(tally.figures(&plan, measure, shared.sum(|counts| &counts.sent)))
}

fn spawn(
    number: usize,
    plan: &Arc<Plan>,
    dial: &Arc<Dial>,
    shared: &Arc<Shared>,
    origin: Instant,
) -> Result<Running, LoadError> {
    let fail = |error: std::io::Error| LoadError(format!("a thread can't be started: {error}"));
    let reports = Reports::new().map_err(fail)?;
    let mailbox = Mailbox::new(reports).map_err(fail)?;
    let place = Place { shard: ShardId(0), lanes: Lanes::with_capacity(1, LANE_PARCELS), mailbox, origin };
    let (plan, dial, shared) = (plan.clone(), dial.clone(), shared.clone());
    let mailbox = place.mailbox.clone();
    let thread = std::thread::Builder::new()
        .name(format!("load-{number}"))
        .spawn(move || work(number, plan, &dial, &shared, place).inspect_err(|why| shared.fail(why.clone())))
        .map_err(fail)?;
    Ok(Running { mailbox, thread })
}

/// A thread's life: connects its part of the peers, then turns until it is told to stop.
fn work(
    number: usize,
    plan: Arc<Plan>,
    dial: &Dial,
    shared: &Arc<Shared>,
    place: Place<Worker>,
) -> Result<Tally, String> {
    // A schedule in microseconds needs sleeps as exact.
    // SAFETY: no pointers.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    let pool = Pool::new(CHUNK_BYTES, CHUNKS_KEPT_MAX);
    let worker = Worker::new(number, plan.clone(), shared.clone(), pool);
    let mut turn =
        Turn::new(worker, Arc::default(), place, STOP_DEADLINE, plan.busy_poll).map_err(|error| error.to_string())?;
    // Receivers first: what is sent to nobody is refused by some peers.
    for (part, count) in [(Part::Receiver, plan.receivers), (Part::Sender, plan.senders)] {
        for index in (0..count).filter(|index| index % plan.threads == number) {
            let stream = (dial.connect)()?;
            stream.set_nodelay(true).map_err(|error| error.to_string())?;
            let id = turn.connect(stream.into());
            turn.application.add(id, part, index, dial);
        }
    }
    let result = turn.run().map_err(|error| error.to_string());
    let tally = std::mem::replace(&mut turn.application.tally, Tally::new());
    if result.is_err() {
        // The kernel may still use what is in there.
        std::mem::forget(turn);
    }
    result.map(|()| tally)
}

/// Begins when all are there, tells the moments, and waits for the end.
fn conduct(plan: &Plan, shared: &Shared, origin: Instant, watch: &mut impl FnMut(Moment)) -> Result<(), LoadError> {
    let peers = plan.senders + plan.receivers;
    while shared.ready.load(Ordering::Acquire) < peers {
        shared.check()?;
        if origin.elapsed() > SETUP_DEADLINE {
            let ready = shared.ready.load(Ordering::Relaxed);
            return Err(LoadError(format!("{} of {peers} links were not attached in time", peers - ready)));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let start = origin.elapsed() + Duration::from_millis(10);
    let measure = start + plan.warm_up;
    let nanoseconds = |moment: Duration| moment.as_nanos() as u64;
    if let End::After(duration) = plan.end {
        shared.stop.store(nanoseconds(measure + duration), Ordering::Relaxed);
    }
    shared.measure.store(nanoseconds(measure), Ordering::Relaxed);
    shared.start.store(nanoseconds(start), Ordering::Release);
    std::thread::sleep(measure.saturating_sub(origin.elapsed()));
    watch(Moment::Measuring);
    wait_for_end(plan, shared, origin, measure, watch)
}

fn wait_for_end(
    plan: &Plan,
    shared: &Shared,
    origin: Instant,
    measure: Duration,
    watch: &mut impl FnMut(Moment),
) -> Result<(), LoadError> {
    let mut measured = false;
    let (mut told, mut moved) = (origin.elapsed(), (0, origin.elapsed()));
    loop {
        std::thread::sleep(Duration::from_millis(2));
        shared.check()?;
        let now = origin.elapsed();
        let (sent, received) = (shared.sum(|counts| &counts.sent), shared.sum(|counts| &counts.received));
        let settled = shared.sum(|counts| &counts.settled);
        let over = matches!(plan.end, End::After(duration) if now >= measure + duration);
        let senders_done = shared.senders_done.load(Ordering::Acquire) >= plan.senders;
        let has_all = senders_done && received >= sent * plan.copies && (plan.settled || settled >= sent);
        if moved.0 != received + settled || !senders_done {
            moved = (received + settled, now);
        }
        let gives_up = senders_done && now - moved.1 >= plan.patience;
        if !measured && (over || has_all || gives_up) {
            measured = true;
            watch(Moment::Measured);
        }
        if has_all || gives_up {
            return Ok(());
        }
        if now - told >= Duration::from_secs(1) {
            told = now;
            watch(Moment::Progress { sent, received });
        }
    }
}

//! `ringway load`: makes load, and says how fast it went and how long it took.

use super::connect::{ConnectOptions, Connection};
use super::failure::Failure;
use crate::load::{self, Dial, End, Figures, Moment, Plan};
use clap::{ArgAction, Args};
use serde_json::{json, Value};
use std::fmt::Write;
use std::time::Duration;

/// Makes load on any AMQP 1.0 peer, and measures throughput and latency
///
/// By default each sender sends as fast as credit lets it (a closed loop), which shows throughput; latency says something at
/// a fixed --rate, where it is counted from the moment at which a message was to be sent.
#[derive(Args, Debug)]
#[command(version, disable_version_flag = true, args_override_self = true)]
pub struct LoadArguments {
    /// Senders and receivers, each pair on an address of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pairs: u32,
    /// Senders, where there are not as many as receivers (1 and more receivers: fan-out)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    senders: Option<u32>,
    /// Receivers (1 and more senders: fan-in)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    receivers: Option<u32>,
    /// Addresses that senders and receivers are spread over; by default as many as there are of the fewer
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    addresses: Option<u32>,
    /// What the addresses' names begin with; a number follows where there are several [default: that of --bus, or load]
    #[arg(long, value_name = "NAME")]
    address: Option<String>,
    /// Request and response: senders ask, receivers answer, latency is of the round trip
    #[arg(long)]
    requests: bool,
    /// Bytes of a message's body; below 8 there is no latency
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = clap::value_parser!(u32).range(..=1 << 30))]
    body: u32,
    /// Send settled: nobody waits for outcomes
    #[arg(long)]
    settled: bool,
    /// Credit that each receiver keeps open
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    credit: u32,
    /// Messages without an outcome (requests without a reply) that each sender may have [default: as credit lets it; requests: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    outstanding: Option<u32>,
    /// Messages a second of all senders together, by the clock, however the peer keeps up (an open loop)
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// Seconds to measure
    #[arg(long, value_name = "SECS", default_value_t = 10.0, conflicts_with = "count")]
    duration: f64,
    /// Messages to measure, of all senders together
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Seconds before that, in which messages don't count [default: 1; 0 with --count]
    #[arg(long, value_name = "SECS")]
    warm_up: Option<f64>,
    /// Receivers that get each message, for counting losses (multicast)
    #[arg(long, value_name = "N", default_value_t = 1)]
    copies: u64,
    /// Seconds to wait at the end for what is still missing, while nothing comes
    #[arg(long, value_name = "SECS", default_value_t = 5.0)]
    patience: f64,
    /// Threads that make the load
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// A thread looks for more so long before it sleeps: latencies are then the peer's alone
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    busy_poll: u32,
    /// Process whose CPU time is told for each message: the router's
    #[arg(long, value_name = "PID")]
    router_pid: Option<u32>,
    /// The figures as a JSON object
    #[arg(long)]
    json: bool,
    /// No line each second
    #[arg(short = 'q', long)]
    quiet: bool,
    /// Print the version
    #[arg(long, action = ArgAction::Version)]
    version: Option<bool>,
    #[command(flatten)]
    connect: ConnectOptions,
}

pub fn run(arguments: &LoadArguments) -> Result<String, Failure> {
    let plan = arguments.plan()?;
    let dial = arguments.dial()?;
    let mut progress = Progress::default();
    let (mut cpu_before, mut cpu_after) = (None, None);
    if let Some(pid) = arguments.router_pid {
        cpu_seconds(pid)?;
    }
    let cpu = || arguments.router_pid.and_then(|pid| cpu_seconds(pid).ok());
    let figures = load::run(plan.clone(), dial, |moment| match moment {
        Moment::Measuring => cpu_before = cpu(),
        Moment::Measured => cpu_after = cpu(),
        Moment::Progress { sent, received } if !arguments.quiet => progress.tell(sent, received),
        Moment::Progress { .. } => {}
    });
    let figures = figures.map_err(|error| Failure::new(format!("{}: {error}", arguments.connect.bus)))?;
    let cpu = cpu_before.zip(cpu_after).map(|(before, after)| after - before);
    let cpu_a_message = cpu.filter(|_| figures.messages > 0).map(|seconds| seconds * 1e6 / figures.messages as f64);
    Ok(match arguments.json {
        true => format!("{}\n", json_figures(&plan, &figures, cpu_a_message)),
        false => text(&figures, cpu_a_message),
    })
}

impl LoadArguments {
    fn plan(&self) -> Result<Plan, Failure> {
        let senders = self.senders.unwrap_or(self.pairs) as usize;
        let receivers = self.receivers.unwrap_or(self.pairs) as usize;
        let addresses = self.addresses.map_or(senders.min(receivers), |addresses| addresses as usize);
        if addresses > senders.max(receivers) {
            return Err(Failure::new("--addresses: more than there are senders or receivers"));
        }
        if self.rate.is_some_and(|rate| !(rate > 0.0 && rate.is_finite())) {
            return Err(Failure::new("--rate: a number above 0 is wanted"));
        }
        let end = match self.count {
            Some(count) => End::Count(count),
            None => End::After(seconds("--duration", self.duration)?),
        };
        let warm_up = self.warm_up.unwrap_or(if self.count.is_some() { 0.0 } else { 1.0 });
        let given = self.address.clone().or_else(|| self.connect.bus.address.clone());
        Ok(Plan {
            senders,
            receivers,
            addresses,
            address: given.unwrap_or_else(|| "load".to_owned()),
            requests: self.requests,
            body_bytes: self.body as usize,
            settled: self.settled,
            credit: self.credit,
            rate: self.rate,
            outstanding: self.outstanding.unwrap_or(if self.requests && self.rate.is_none() { 1 } else { u32::MAX }),
            warm_up: seconds("--warm-up", warm_up)?,
            end,
            copies: self.copies,
            threads: usize::from(self.threads).min(senders.max(receivers)),
            busy_poll: Duration::from_micros(u64::from(self.busy_poll)),
            patience: seconds("--patience", self.patience)?,
        })
    }

    fn dial(&self) -> Result<Dial, Failure> {
        let options = self.connect.clone();
        // What is wrong with the options, or with the peer, shows here; so does how to log in.
        let probe = Connection::open(&options)?;
        let login = probe.login.clone();
        probe.close();
        Ok(Dial {
            hostname: options.bus.host.clone(),
            login,
            connect: Box::new(move || options.connect().map_err(|failure| failure.to_string())),
        })
    }
}

fn seconds(option: &str, given: f64) -> Result<Duration, Failure> {
    Duration::try_from_secs_f64(given).map_err(|_| Failure::new(format!("{option}: {given} is no number of seconds")))
}

/// User and system time of a process so far (proc(5), `stat`).
fn cpu_seconds(pid: u32) -> Result<f64, Failure> {
    let file = format!("/proc/{pid}/stat");
    let text = std::fs::read_to_string(&file).map_err(|error| Failure::new(format!("{file}: {error}")))?;
    // The name, in brackets, may hold anything; utime and stime are the 12th and 13th behind it.
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: f64 = fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    // SAFETY: no pointers.
    let ticks_a_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    Ok(ticks / ticks_a_second as f64)
}

#[derive(Default)]
struct Progress {
    seconds: u64,
    received: u64,
}

impl Progress {
    fn tell(&mut self, sent: u64, received: u64) {
        self.seconds += 1;
        let came = received - std::mem::replace(&mut self.received, received);
        eprintln!("{:4} s  sent {sent}, received {received} ({came}/s)", self.seconds);
    }
}

fn text(figures: &Figures, cpu_a_message: Option<f64>) -> String {
    let mut out = String::new();
    let mut line = |name: &str, value: String| writeln!(out, "{name:<12}{value}").expect("a string takes all");
    line("throughput", format!("{:.0} messages/s", figures.messages_per_second));
    line("messages", format!("{} in {:.2} s", figures.messages, figures.seconds));
    if let Some(latency) = figures.latency_microseconds {
        let percentiles = [
            ("p50", latency.p50),
            ("p90", latency.p90),
            ("p99", latency.p99),
            ("p99.9", latency.p99_9),
            ("p99.99", latency.p99_99),
            ("max", latency.max),
        ];
        let percentiles = percentiles.map(|(name, value)| format!("{name} {value:.1}"));
        line("latency", format!("{} µs", percentiles.join(", ")));
    }
    let outcomes = figures.outcomes;
    let others = [
        ("released", outcomes.released),
        ("modified", outcomes.modified),
        ("rejected", outcomes.rejected),
        ("other", outcomes.other),
    ];
    let others = others.iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!(", {count} {name}"));
    line("outcomes", format!("{} accepted{}", outcomes.accepted, others.collect::<String>()));
    line("lost", format!("{} of {}", figures.lost, figures.sent));
    if let Some(microseconds) = cpu_a_message {
        line("router CPU", format!("{microseconds:.3} µs a message"));
    }
    out
}

fn json_figures(plan: &Plan, figures: &Figures, cpu_a_message: Option<f64>) -> Value {
    let mut value = json!(figures);
    value["router_cpu_microseconds_per_message"] = json!(cpu_a_message);
    value["load"] = json!({
        "senders": plan.senders,
        "receivers": plan.receivers,
        "addresses": plan.addresses,
        "requests": plan.requests,
        "body_bytes": plan.body_bytes,
        "settled": plan.settled,
        "credit": plan.credit,
        "outstanding": (plan.outstanding < u32::MAX).then_some(plan.outstanding),
        "rate": plan.rate,
        "warm_up_seconds": plan.warm_up.as_secs_f64(),
        "threads": plan.threads,
        "busy_poll_microseconds": plan.busy_poll.as_micros() as u64,
    });
    value
}

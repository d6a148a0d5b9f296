//! Clients that come, go and die, under load: what was accepted had arrived, nothing leaks, and the end is as the begin.
//!
//! For seconds in every run; `RINGWAY_KILLS` (how many clients are killed) and `RINGWAY_SOAK_SECONDS` for longer.

mod support;

use std::collections::HashMap;
use std::process::Command;
use std::time::{Duration, Instant};
use support::crowd::{Crowd, Role};
use support::programs::Running;
use support::router::{program, Router, QUIET};

fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// The same numbers each time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

const ADDRESSES: u64 = 4;

fn sender(random: &mut Random) -> Role {
    let bytes = [100, 1_000, 20_000, 200_000][random.below(4) as usize];
    Role::Sender { address: format!("churn/{}", random.below(ADDRESSES)), bytes, messages: u64::MAX }
}

fn receiver(random: &mut Random) -> Role {
    Role::Receiver { address: format!("churn/{}", random.below(ADDRESSES)), credit: 1 + random.below(100) as u32 }
}

/// What receivers took and senders heard accepted, of peers that are gone too.
#[derive(Default)]
struct Ledger {
    seen: HashMap<(u32, u64), u32>,
    accepted: Vec<(u32, u64)>,
}

impl Ledger {
    fn take(&mut self, crowd: &mut Crowd, index: usize) {
        let peer = &mut crowd.peers[index];
        for (message, count) in peer.seen.drain() {
            *self.seen.entry(message).or_default() += count;
        }
        let number = peer.number();
        self.accepted.extend(peer.accepted.drain().map(|which| (number, which)));
    }
}

/// A killed process's sockets end without a word, whatever is on them.
#[test]
fn clients_killed_in_mid_transfer_lose_nothing_that_was_accepted() {
    let kills = setting("RINGWAY_KILLS", 60);
    let router = Router::start(QUIET);
    let mut random = Random(4);
    let mut crowd = Crowd::new(&router);
    let mut ledger = Ledger::default();
    // One receiver for each address that stays, so that what can be delivered is.
    let stay = ADDRESSES as usize;
    for n in 0..ADDRESSES {
        crowd.add(Role::Receiver { address: format!("churn/{n}"), credit: 50 });
    }
    crowd.pump(Duration::ZERO);
    let descriptors = router.descriptors_at_rest();
    let begun = Instant::now();
    for n in 0..20 {
        let role = if n % 3 == 0 { receiver(&mut random) } else { sender(&mut random) };
        crowd.add(role);
    }
    for _ in 0..kills {
        crowd.run_for(Duration::from_millis(3 + random.below(15)));
        let index = stay + random.below(20) as usize;
        ledger.take(&mut crowd, index);
        crowd.kill(index);
        crowd.replace(index);
    }
    println!(
        "{kills} kills in {:?}, {} messages were accepted",
        begun.elapsed(),
        ledger.accepted.len() as u64 + crowd.accepted()
    );
    // The senders come to their end, then all leave.
    crowd.peers.iter_mut().for_each(|peer| peer.finish());
    let is_done = crowd.run_until(Duration::from_secs(60), |crowd| crowd.peers.iter().all(|peer| peer.is_done()));
    assert!(is_done, "a delivery has no outcome");
    for index in 0..crowd.peers.len() {
        ledger.take(&mut crowd, index);
    }
    assert_eq!(crowd.ends(), [] as [String; 0]);
    // A receiver that was killed had taken what it accepted: its ledger was kept.
    let lost = ledger.accepted.iter().filter(|message| !ledger.seen.contains_key(message)).count();
    assert_eq!(lost, 0, "accepted, and nobody got it");
    for index in stay..crowd.peers.len() {
        crowd.kill(index);
    }
    let freed = crowd.run_until(Duration::from_secs(20), |_| router.descriptors() <= descriptors);
    assert!(freed, "{} descriptors of {descriptors}", router.descriptors());
    assert_no_leftovers(&router, stay as u64);
}

/// Links and deliveries of clients that are gone are gone: the router says so itself. `stay`: the clients that are left, a
/// link each.
fn assert_no_leftovers(router: &Router, stay: u64) {
    let figures = router.general_figures();
    let figure = |name: &str| *figures.get(name).unwrap_or_else(|| panic!("no {name} in {figures:?}"));
    // The one who asks has a connection and two links.
    assert_eq!((figure("Connections"), figure("Links")), (stay + 1, stay + 2), "{figures:?}");
    let outcomes = ["Accepted Count", "Rejected Count", "Released Count", "Modified Count", "Dropped Presettled Count"];
    let ended: u64 = outcomes.iter().map(|name| figure(name)).sum::<u64>() + figure("Presettled Count");
    // Nobody hears the outcome of what a killed sender sent, so those have none.
    assert!(ended <= figure("Ingress Count") + 1, "{figures:?}");
}

/// Half of what the machine does, for a while, while clients come, go and are killed.
///
/// The load is a process of its own at a fixed rate, and so is what measures latency; the clients that come and go are few
/// and slow, so that it is the router that is looked at. A long one has the router on a core of its own.
#[test]
fn a_soak_ends_as_it_began() {
    let seconds = setting("RINGWAY_SOAK_SECONDS", 16);
    let router = Router::start(QUIET);
    if seconds > 60 && router.has_core_apart() {
        router.run_on_core(0);
    }
    let load = |arguments: &[&str]| {
        let mut command = Command::new(program());
        command.args(["load", "--quiet", "--json", "--bus", &router.address()]).args(arguments);
        Running::start(&mut command)
    };
    let figures = |output: String| -> serde_json::Value { serde_json::from_str(output.trim()).expect("figures") };
    let figure = |value: &serde_json::Value, name: &str| value.pointer(name).and_then(|value| value.as_f64());
    let pairs = ["--pairs", "8", "--body", "1000", "--credit", "200"];
    let capacity = load(&[&pairs[..], &["--duration", "3"]].concat()).finish(Duration::from_secs(30));
    let capacity = figure(&figures(capacity), "/messages_per_second").expect("a rate");
    let rate = (capacity / 2.0).round().to_string();
    let duration = (2 * seconds + 60).to_string();
    let mut half = load(&[&pairs[..], &["--rate", &rate, "--duration", &duration]].concat());

    let mut random = Random(6);
    let mut crowd = Crowd::new(&router);
    for n in 0..ADDRESSES {
        crowd.add(Role::Receiver { address: format!("churn/{n}"), credit: 100 });
    }
    let mut churn = |crowd: &mut Crowd, time: Duration| {
        let deadline = Instant::now() + time;
        while Instant::now() < deadline {
            crowd.run_for(Duration::from_millis(50));
            let index = if crowd.peers.len() < ADDRESSES as usize + 20 {
                crowd.add(if random.below(3) == 0 { receiver(&mut random) } else { sender(&mut random) })
            } else {
                let index = ADDRESSES as usize + random.below(20) as usize;
                crowd.kill(index);
                crowd.replace(index);
                index
            };
            crowd.peers[index].rate = Some(20);
            for peer in &mut crowd.peers {
                peer.keeps_seen = false;
                peer.accepted.clear();
                peer.latencies.clear();
            }
        }
    };
    // Every so often: what the router holds, and how long a message takes that is sent now and then.
    let every = (seconds / 4).clamp(4, 20);
    let mut samples: Vec<Sample> = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(seconds) || samples.len() < 2 {
        churn(&mut crowd, Duration::from_secs(every - 3));
        let probe =
            load(&["--address", "probe", "--rate", "1000", "--duration", "2", "--warm-up", "0.5", "--body", "100"]);
        churn(&mut crowd, Duration::from_millis(2800));
        let probe = figures(probe.finish(Duration::from_secs(30)));
        let sample = Sample {
            after: begun.elapsed().as_secs(),
            memory_kib: router.memory_kib("VmRSS"),
            descriptors: router.descriptors(),
            p50: figure(&probe, "/latency_microseconds/p50").expect("a latency"),
            p99: figure(&probe, "/latency_microseconds/p99").expect("a latency"),
        };
        let Sample { after, memory_kib, descriptors, p50, p99 } = &sample;
        println!("{after:5} s: {memory_kib} KiB, {descriptors} descriptors, latency p50 {p50} µs, p99 {p99} µs");
        samples.push(sample);
    }
    println!(
        "{capacity:.0} messages a second at most, {rate} were offered; {} of the clients that came and went",
        crowd.received()
    );
    assert!(half.is_running(), "the load ended early");
    drop(half);
    assert_eq!(crowd.ends(), [] as [String; 0]);
    let warm = samples.iter().position(|sample| sample.after >= (seconds / 4).min(60)).unwrap_or(0);
    let last = samples.split_off(samples.len() - samples.len().div_ceil(4).min(5));
    let first = &samples[warm.min(samples.len() - 1)..(warm + 5).min(samples.len())];
    let median = |samples: &[Sample], of: fn(&Sample) -> f64| {
        let mut all: Vec<f64> = samples.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let both = |of: fn(&Sample) -> f64| (median(first, of), median(&last, of));
    let (memory, descriptors) = (both(|sample| sample.memory_kib as f64), both(|sample| sample.descriptors as f64));
    let latency = both(|sample| sample.p50);
    assert!(memory.1 <= memory.0 * 1.1 + 4.0 * 1024.0, "memory grew: {memory:?} KiB");
    assert!(descriptors.1 <= descriptors.0 + 3.0, "descriptors grew: {descriptors:?}");
    // A short one shares its cores with other tests, and their latency is what it would judge.
    assert!(seconds <= 60 || latency.1 <= latency.0 * 2.0 + 1_000.0, "latency grew: {latency:?} µs");
}

struct Sample {
    /// Seconds.
    after: u64,
    memory_kib: u64,
    descriptors: usize,
    /// Microseconds.
    p50: f64,
    p99: f64,
}

/// SIGTERM while all are busy: each hears a close, what was accepted had arrived, and the router is gone soon.
#[test]
fn sigterm_under_load_tells_everybody_and_loses_nothing() {
    let mut router = Router::start(QUIET);
    let mut random = Random(7);
    let mut crowd = Crowd::new(&router);
    for n in 0..ADDRESSES {
        crowd.add(Role::Receiver { address: format!("churn/{n}"), credit: 100 });
    }
    for _ in 0..40 {
        crowd.add(sender(&mut random));
    }
    // One that has stopped reading: it holds nobody up.
    let deaf = crowd.add(Role::Receiver { address: "churn/0".into(), credit: 1000 });
    assert!(crowd.run_until(Duration::from_secs(20), Crowd::all_attached));
    crowd.run_for(Duration::from_millis(300));
    crowd.peers[deaf].reads = false;
    crowd.run_for(Duration::from_millis(700));
    router.terminate();
    let asked = Instant::now();
    let is_told = crowd.run_until(Duration::from_secs(5), |crowd| {
        let mut all = crowd.peers.iter().enumerate().filter(|(index, _)| *index != deaf);
        all.all(|(_, peer)| peer.ended.is_some())
    });
    assert!(is_told, "not everybody heard the end");
    let status = router.wait(Duration::from_secs(5).saturating_sub(asked.elapsed())).expect("it ends within 5 s");
    println!("ended after {:?}", asked.elapsed());
    assert!(status.success(), "{status}");
    for (index, peer) in crowd.peers.iter().enumerate().filter(|(index, _)| *index != deaf) {
        let why = peer.ended.as_deref().unwrap_or_default();
        assert!(why.contains("amqp:connection:forced"), "client {index} ended with {why}");
    }
    let mut ledger = Ledger::default();
    crowd.peers[deaf].reads = true;
    crowd.run_for(Duration::from_millis(200));
    for index in 0..crowd.peers.len() {
        ledger.take(&mut crowd, index);
    }
    assert!(ledger.accepted.len() > 100, "the load was a load: {}", ledger.accepted.len());
    let lost = ledger.accepted.iter().filter(|message| !ledger.seen.contains_key(message)).count();
    assert_eq!(lost, 0, "accepted, and nobody got it");
}

//! More is offered than fits: the memory limit holds, nobody is disconnected, and all is delivered once the receivers read.

mod support;

use std::time::{Duration, Instant};
use support::crowd::{Crowd, Role};
use support::router::Router;

const MIB: u64 = 1024 * 1024;

struct Load {
    limit_mib: u64,
    /// Senders of small messages and of large ones.
    small: usize,
    large: usize,
    /// Bytes that each kind offers in all.
    bytes: u64,
}

/// Senders offer all at once to receivers that don't read, until nothing moves; then the receivers read.
fn overload(load: &Load) {
    let mut router = Router::start_of("", &format!("memoryLimit: {}m", load.limit_mib), "");
    let mut crowd = Crowd::new(&router);
    let receivers: Vec<usize> = (0..10)
        .map(|n| {
            let kind = if n % 2 == 0 { "small" } else { "large" };
            let index = crowd.add(Role::Receiver { address: format!("{kind}/{n}"), credit: 100 });
            crowd.peers[index].stops_when_attached = true;
            index
        })
        .collect();
    assert!(crowd.run_until(Duration::from_secs(20), Crowd::all_attached));
    let at_rest = router.memory_kib("VmRSS");
    for n in 0..load.small + load.large {
        let (kind, count, bytes) = match n < load.small {
            true => ("small", load.small, 1_000),
            false => ("large", load.large, 1_000_000),
        };
        let messages = (load.bytes / bytes as u64).div_ceil(count as u64);
        let number = 2 * (n % 5) + usize::from(kind == "large");
        crowd.add(Role::Sender { address: format!("{kind}/{number}"), bytes, messages });
        crowd.pump(Duration::ZERO);
    }
    assert!(crowd.run_until(Duration::from_secs(60), Crowd::all_attached), "not all senders attached");
    let mut moved = (0, Instant::now());
    while moved.1.elapsed() < Duration::from_secs(2) {
        crowd.pump(Duration::from_millis(20));
        let sent = crowd.peers.iter().map(|peer| peer.sent).sum();
        if sent != moved.0 {
            moved = (sent, Instant::now());
        }
    }
    let stopped = router.memory_kib("VmRSS");
    for index in receivers {
        crowd.peers[index].reads = true;
    }
    let messages = |bytes: u64, count: usize| {
        if count == 0 {
            0
        } else {
            (load.bytes / bytes).div_ceil(count as u64) * count as u64
        }
    };
    let expected = messages(1_000, load.small) + messages(1_000_000, load.large);
    let is_done = crowd.run_until(Duration::from_secs(600), |crowd| crowd.accepted() == expected);
    let peak = router.memory_kib("VmHWM");
    println!("memory limit {} MiB; KiB at rest {at_rest}, stopped {stopped}, peak {peak}", load.limit_mib);
    println!(
        "sent before the receivers read: {}; returned: {}",
        moved.0,
        crowd.peers.iter().map(|p| p.returned).sum::<u64>()
    );
    assert_eq!(crowd.ends(), [] as [String; 0], "nobody is disconnected");
    assert!(is_done, "{} of {expected} were accepted", crowd.accepted());
    let most_kib = (load.limit_mib + 48) * 1024;
    assert!(peak <= most_kib, "{peak} KiB resident, {most_kib} allowed");
    let received: usize = crowd.peers.iter().map(|peer| peer.seen.len()).sum();
    assert_eq!(received as u64, expected, "each arrived");
    let twice = crowd.peers.iter().flat_map(|peer| peer.seen.values()).filter(|count| **count > 1).count();
    assert_eq!(twice, 0, "none arrived twice");
    router.stop();
    let counted = held_kib(&router);
    println!("counted against the limit: at most {counted} KiB");
    assert!(counted <= load.limit_mib * 1024, "{counted} KiB were held");
}

/// What counted against the memory limit at most, as the router says at its end.
fn held_kib(router: &Router) -> u64 {
    let log = router.log();
    let (_, text) = log.split_once("Memory for peers: at most ").unwrap_or_else(|| panic!("{log}"));
    text.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number of KiB")
}

#[test]
fn a_small_memory_limit_holds_while_nobody_reads() {
    overload(&Load { limit_mib: 16, small: 100, large: 100, bytes: 60 * MIB });
}

/// A thousand senders and 1 GB. Minutes.
#[test]
#[ignore = "minutes: tests/long runs it"]
fn a_thousand_senders_offer_a_gigabyte() {
    overload(&Load { limit_mib: 64, small: 500, large: 500, bytes: 512 * MIB });
}

//! The simulator's seeds: a router's pure rooms and clients in virtual time, checked against a shadow model.
//!
//! `RINGWAY_SEEDS=100000 cargo test --release --features sim --test simulation many_seeds` runs more of them (from
//! `RINGWAY_SEED_FIRST`); `RINGWAY_SEED=7 … one_seed` runs one alone, and with `RINGWAY_TRACE=FILE` writes it down.

#![cfg(feature = "sim")]

use ringway::sim;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

/// In the tests of every change.
const SEEDS: u64 = 300;

#[test]
fn many_seeds() {
    let (first, count) = (number("RINGWAY_SEED_FIRST").unwrap_or(0), number("RINGWAY_SEEDS").unwrap_or(SEEDS));
    let (mut messages, mut received, mut outcomes, mut failures) = (0, 0, 0, Vec::new());
    for seed in first..first + count {
        match sim::run(seed) {
            Ok(summary) => {
                messages += summary.messages;
                received += summary.received;
                outcomes += summary.outcomes;
            }
            Err(failure) => failures.push(failure),
        }
    }
    println!("{count} seeds: {messages} messages sent, {received} received, {outcomes} outcomes");
    for failure in failures.iter().take(40) {
        println!("{failure}");
    }
    assert!(failures.is_empty(), "{} of {count} seeds failed", failures.len());
    assert!(count < 100 || messages > 1000 && received > 1000 && outcomes > 1000, "nothing happened");
}

#[test]
fn one_seed() {
    let Some(seed) = number("RINGWAY_SEED") else { return };
    let file = std::env::var("RINGWAY_TRACE").ok();
    match sim::run_traced(seed, file.is_some()) {
        Ok(summary) => println!("{summary:?}"),
        Err(failure) => {
            if let Some(file) = file {
                std::fs::write(file, failure.log.join("\n")).expect("the trace's file");
            }
            panic!("{failure}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..20 {
        let runs = [sim::run(seed), sim::run(seed)].map(|run| run.map_err(|failure| failure.to_string()));
        assert_eq!(runs[0], runs[1], "seed {seed}");
    }
}

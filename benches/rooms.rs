//! Wall time of the pure rooms: the scenarios that `perf/instructions` counts, an operation each. Counts are the gate, since they
//! don't move with the machine's load; time shows what counts don't: cache misses, branches.
//!
//! `cargo bench --bench rooms [-- FILTER]`

use criterion::{criterion_group, criterion_main, Criterion, Throughput};
use std::time::Instant;

#[path = "instructions/credit.rs"]
mod credit;
#[path = "instructions/dispatch.rs"]
mod dispatch;
#[path = "instructions/engine.rs"]
mod engine;
#[path = "instructions/router.rs"]
mod router;
#[path = "instructions/wire.rs"]
mod wire;
#[allow(dead_code)]
#[path = "instructions/wire_samples.rs"]
mod wire_samples;

/// A scenario: its name, `room/what`, and what to run N times.
pub type Scenario = (&'static str, fn(u64));

/// Operations that are run more, so that what it takes to set one up is small beside them.
const OPERATIONS: u64 = 100;

fn rooms(c: &mut Criterion) {
    let all = [wire::SCENARIOS, engine::SCENARIOS, dispatch::SCENARIOS, router::SCENARIOS, credit::SCENARIOS];
    for (name, run) in all.into_iter().flatten() {
        let (room, what) = name.split_once('/').expect("a room and a name");
        let mut group = c.benchmark_group(room);
        group.throughput(Throughput::Elements(OPERATIONS));
        group.bench_function(what, |bencher| {
            bencher.iter_custom(|times| {
                let begin = Instant::now();
                run(times * OPERATIONS);
                begin.elapsed()
            })
        });
        group.finish();
    }
}

criterion_group!(benches, rooms);
criterion_main!(benches);

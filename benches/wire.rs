//! Wall time of the wire room: what one frame costs to read and to write. Its instruction counts: `perf/instructions wire`.

use std::hint::black_box;

use criterion::{criterion_group, criterion_main, Criterion, Throughput};
use ringway::payload::{Payload, Range};
use ringway::wire::message;
use ringway::wire::performative::{Attach, Performative};

#[allow(dead_code)]
#[path = "instructions/wire_samples.rs"]
mod samples;

fn performatives(c: &mut Criterion) {
    let source = samples::source();
    let attach = Attach { name: "receiver-1", source: Some(&source), ..Attach::default() };
    let all = [
        Performative::Transfer(samples::transfer()),
        Performative::Disposition(samples::disposition()),
        Performative::Flow(samples::flow()),
        Performative::Attach(attach),
    ];
    let mut group = c.benchmark_group("wire");
    group.throughput(Throughput::Elements(1));
    for performative in all {
        let name = performative.name();
        let mut body = Vec::new();
        performative.encode(&mut body);
        group.bench_function(format!("{name}-decode"), |b| b.iter(|| Performative::decode(black_box(&body)).is_ok()));
        let mut out = Vec::with_capacity(4096);
        group.bench_function(format!("{name}-encode"), |b| {
            b.iter(|| {
                out.clear();
                black_box(&performative).encode(&mut out);
                out.len()
            })
        });
    }
    let payload = Payload::from(Range::copied(samples::MESSAGE));
    group.bench_function("message-to", |b| {
        b.iter(|| message::to(black_box(&payload), &mut [0; 64]).is_ok_and(|to| to.is_some()));
    });
    group.finish();
}

criterion_group!(benches, performatives);
criterion_main!(benches);

//! Hostile clients of every kind beside an honest pair, which loses nothing and keeps most of its rate; the router's memory
//! and descriptors are afterwards what they were.
//!
//! For seconds in every run; `RINGWAY_HOSTILE_SECONDS` for longer, `RINGWAY_HOSTILE_ONLY` for those with a word in their
//! name.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::amqp::*;
use support::crowd::{Crowd, Role};
use support::raw::AMQP_HEADER;
use support::router::{Router, QUIET};

/// How long the hostile clients go on.
fn seconds() -> u64 {
    std::env::var("RINGWAY_HOSTILE_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(8)
}

/// A hostile client: what it does until it is told to stop. It opens its own connections, again and again.
type Hostile = fn(u16, &AtomicBool);

/// Writes, slowly enough to leave the honest their share of the machine (it is not the load that is tested here). False: the
/// router ended it.
fn write(stream: &mut TcpStream, bytes: &[u8]) -> bool {
    std::thread::sleep(Duration::from_millis(2));
    stream.write_all(bytes).is_ok()
}

fn connect(port: u16) -> Option<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_write_timeout(Some(Duration::from_millis(300))).ok()?;
    stream.set_read_timeout(Some(Duration::from_millis(1))).ok()?;
    Some(stream)
}

/// Reads what there is and forgets it.
fn swallow(stream: &mut TcpStream) {
    let mut buffer = [0; 16 * 1024];
    while matches!(stream.read(&mut buffer), Ok(count) if count == buffer.len()) {}
}

fn opened() -> Vec<u8> {
    [&AMQP_HEADER[..], &open_frame("hostile").to_bytes(), &begin_frame().to_bytes()].concat()
}

/// Connections that say half of a header, or an open cut short, and wait.
fn half_open(port: u16, stop: &AtomicBool) {
    let open = [&AMQP_HEADER[..], &open_frame("half").to_bytes()].concat();
    let mut kept = std::collections::VecDeque::new();
    while !stop.load(Ordering::Relaxed) {
        for cut in [0, 1, 7, 8, 12, open.len() - 1] {
            let Some(mut stream) = connect(port) else { continue };
            write(&mut stream, &open[..cut]);
            kept.push_back(stream);
        }
        while kept.len() > 200 {
            kept.pop_front();
        }
    }
}

/// A byte now and then.
fn trickle(port: u16, stop: &AtomicBool) {
    let bytes = [opened(), sender_attach("trickle", 0, "honest").to_bytes()].concat();
    while !stop.load(Ordering::Relaxed) {
        let Some(mut stream) = connect(port) else { continue };
        for byte in &bytes {
            std::thread::sleep(Duration::from_millis(20));
            if stop.load(Ordering::Relaxed) || stream.write_all(&[*byte]).is_err() {
                break;
            }
        }
    }
}

/// Asks for answers without end and reads none.
fn never_reads(port: u16, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let Some(mut stream) = connect(port) else { continue };
        let echo = Frame::new(FLOW)
            .with(flow::NEXT_INCOMING_ID, 0u32)
            .with(flow::INCOMING_WINDOW, 100u32)
            .with(flow::NEXT_OUTGOING_ID, 0u32)
            .with(flow::OUTGOING_WINDOW, 100u32)
            .with(flow::ECHO, true);
        let echoes: Vec<u8> = (0..200).flat_map(|_| echo.to_bytes()).collect();
        write(&mut stream, &opened());
        while !stop.load(Ordering::Relaxed) && write(&mut stream, &echoes) {}
    }
}

/// Consumes the honest pair's address' neighbour and reads nothing, with much credit.
fn greedy(port: u16, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let Some(mut stream) = connect(port) else { continue };
        let credit = Frame::new(FLOW)
            .with(flow::NEXT_INCOMING_ID, 0u32)
            .with(flow::INCOMING_WINDOW, u32::MAX)
            .with(flow::NEXT_OUTGOING_ID, 0u32)
            .with(flow::OUTGOING_WINDOW, u32::MAX)
            .with(flow::HANDLE, 0u32)
            .with(flow::DELIVERY_COUNT, 0u32)
            .with(flow::LINK_CREDIT, u32::MAX);
        let attach = receiver_attach("greedy", 0, "greedy").to_bytes();
        write(&mut stream, &[opened(), attach, credit.to_bytes()].concat());
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// Attaches and detaches without reading.
fn attach_flood(port: u16, stop: &AtomicBool) {
    let mut round = 0u32;
    while !stop.load(Ordering::Relaxed) {
        let Some(mut stream) = connect(port) else { continue };
        write(&mut stream, &opened());
        while !stop.load(Ordering::Relaxed) {
            let pairs: Vec<u8> = (0..50)
                .flat_map(|n| {
                    round += 1;
                    let attach = sender_attach(&format!("flood-{round}"), n, &format!("flood/{round}"));
                    [attach.to_bytes(), detach_frame(n).to_bytes()].concat()
                })
                .collect();
            if !write(&mut stream, &pairs) {
                break;
            }
            swallow(&mut stream);
        }
    }
}

/// A session on every channel, a link on each of many handles.
fn every_channel(port: u16, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let Some(mut stream) = connect(port) else { continue };
        write(&mut stream, &opened());
        for channel in 1..=u16::MAX {
            let more = [
                begin_frame().on(channel).to_bytes(),
                receiver_attach(&format!("c-{channel}"), u32::from(channel), "every").on(channel).to_bytes(),
            ];
            if stop.load(Ordering::Relaxed) || stream.write_all(&more.concat()).is_err() {
                break;
            }
            if channel % 256 == 0 {
                std::thread::sleep(Duration::from_millis(20));
                swallow(&mut stream);
            }
        }
    }
}

/// A hundred thousand addresses, a message to each.
fn many_addresses(port: u16, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let Some(mut stream) = connect(port) else { continue };
        write(&mut stream, &opened());
        let sender = sender_attach("anonymous", 0, "").with(attach::TARGET, described(TARGET, vec![]));
        write(&mut stream, &sender.to_bytes());
        for batch in 0..1_000u32 {
            let messages: Vec<u8> = (0..100u32)
                .flat_map(|n| {
                    let id = batch * 100 + n;
                    let message = message_to(&format!("address/{id}"), b"once");
                    transfer_frame(0, id, &message).to_bytes()
                })
                .collect();
            if stop.load(Ordering::Relaxed) || !write(&mut stream, &messages) {
                break;
            }
            swallow(&mut stream);
        }
    }
}

/// Lies in every count: frame sizes, list counts, ids, windows, ranges.
fn liar(port: u16, stop: &AtomicBool) {
    let mut seed = 1u64;
    let mut random = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    while !stop.load(Ordering::Relaxed) {
        let Some(mut stream) = connect(port) else { continue };
        let mut honest = opened();
        honest.extend(sender_attach("liar", 0, "liar").to_bytes());
        honest.extend(receiver_attach("liar", 1, "liar").to_bytes());
        let wide = Frame::new(DISPOSITION)
            .with(disposition::ROLE, true)
            .with(disposition::FIRST, 0u32)
            .with(disposition::LAST, (u32::MAX / 2) - 1)
            .with(disposition::SETTLED, true);
        for _ in 0..50 {
            honest.extend(wide.to_bytes());
        }
        for _ in 0..4 {
            let at = random(honest.len() as u64) as usize;
            honest[at] = [0, 0xff, 0x7f, 0x80, random(256) as u8][random(5) as usize];
        }
        write(&mut stream, &honest);
        swallow(&mut stream);
    }
}

const ALL: [(&str, Hostile); 8] = [
    ("half-open handshakes", half_open),
    ("a byte now and then", trickle),
    ("never reads", never_reads),
    ("greedy", greedy),
    ("attach flood", attach_flood),
    ("every channel", every_channel),
    ("many addresses", many_addresses),
    ("liar", liar),
];

/// Messages a second that the pair offers.
const PAIR_RATE: u64 = 5_000;

/// Messages a second through the pair, for `time`.
fn rate(crowd: &mut Crowd, time: Duration) -> f64 {
    let (before, begin) = (crowd.received(), Instant::now());
    crowd.run_for(time);
    (crowd.received() - before) as f64 / begin.elapsed().as_secs_f64()
}

/// The pair's rate while all the hostile clients are at work, and what was resident at their end.
fn beside_hostile(router: &Router, crowd: &mut Crowd, time: Duration, only: Option<&str>) -> (f64, u64) {
    let stop = AtomicBool::new(false);
    let port = router.port;
    std::thread::scope(|scope| {
        for (_, hostile) in ALL.iter().filter(|(name, _)| only.is_none_or(|only| name.contains(only))) {
            let stop = &stop;
            scope.spawn(move || hostile(port, stop));
        }
        let during = rate(crowd, time);
        let peak = router.memory_kib("VmRSS");
        stop.store(true, Ordering::Relaxed);
        // Their threads end while the pair goes on.
        crowd.run_for(Duration::from_secs(1));
        (during, peak)
    })
}

/// KiB resident when the last hostile connection has ended, and the allocator has had its time.
fn memory_at_rest(router: &Router, crowd: &mut Crowd, descriptors: usize) -> u64 {
    crowd.run_until(Duration::from_secs(30), |_| router.descriptors() <= descriptors);
    crowd.run_for(Duration::from_secs(5));
    router.memory_kib("VmRSS")
}

#[test]
fn an_honest_pair_beside_hostile_clients() {
    let router = Router::start(QUIET);
    let mut crowd = Crowd::new(&router);
    let receiver = crowd.add(Role::Receiver { address: "honest".into(), credit: 100 });
    assert!(crowd.run_until(Duration::from_secs(20), Crowd::all_attached));
    crowd.peers[receiver].keeps_seen = false;
    let sender = crowd.add(Role::Sender { address: "honest".into(), bytes: 1_000, messages: u64::MAX });
    // The hostile run on the same machine: the pair leaves them some of it, and so has to keep its rate.
    crowd.peers[sender].rate = Some(PAIR_RATE);
    rate(&mut crowd, Duration::from_secs(1));
    let alone = rate(&mut crowd, Duration::from_secs(2));
    let descriptors = router.descriptors_at_rest();
    let only = std::env::var("RINGWAY_HOSTILE_ONLY").ok();
    // Once for what slabs and pools grow to, then for what counts.
    let duration = Duration::from_secs(seconds());
    beside_hostile(&router, &mut crowd, duration / 4, only.as_deref());
    let memory = memory_at_rest(&router, &mut crowd, descriptors);
    let busy = router.cpu_time();
    let (during, peak) = beside_hostile(&router, &mut crowd, duration, only.as_deref());
    let busy = router.cpu_time() - busy;
    let settled = memory_at_rest(&router, &mut crowd, descriptors);
    let after = rate(&mut crowd, Duration::from_secs(2));
    println!("messages a second: alone {alone:.0}, beside hostile clients {during:.0}, afterwards {after:.0}");
    println!("CPU time of the router beside them: {busy:?}");
    println!("KiB resident: before {memory}, beside {peak}, afterwards {settled}");
    assert_eq!(crowd.ends(), [] as [String; 0], "the honest pair stays connected");
    assert_eq!(router.descriptors(), descriptors, "descriptors are left");
    // What was sent arrives: the sender ends, all is accepted.
    crowd.peers[sender].finish();
    assert!(crowd.run_until(Duration::from_secs(20), |crowd| crowd.peers[sender].is_done()), "all has an outcome");
    let pair = &crowd.peers[sender];
    assert_eq!((pair.returned, pair.rejected), (0, 0));
    assert_eq!(crowd.received(), pair.sent, "each arrived once");
    assert!(settled <= memory + memory / 4 + 16 * 1024, "memory isn't flat: {memory} KiB before, {settled} afterwards");
    assert!(during >= 0.8 * alone, "{during:.0} messages a second of {alone:.0}");
}

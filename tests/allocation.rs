//! A steady flow of unsettled messages makes no heap allocation in the shard's thread, and no wait but its ring.
//!
//! A process of its own: the allocator counts what the shard's thread asks for, and nobody else's thread has its name.

mod support;

use ringway::wire::performative::Role;
use ringway::{engine, routing, shard};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;
use support::flood::{receive_all, send_all, Client};

/// Allocations and reallocations of the thread that is named as shards are.
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static IS_SHARD: Cell<bool> = const { Cell::new(false) };
}

struct Counting;

/// The same by size: under 1, 2, 4, … bytes.
static BY_SIZE: [AtomicU64; 40] = [const { AtomicU64::new(0) }; 40];

fn count(size: usize) {
    let is_shard = IS_SHARD.try_with(|is_shard| {
        if !is_shard.get() {
            // Looked at each time, since a thread has another name until it has set its own.
            let mut name = [0u8; 16];
            // SAFETY: 16 bytes are what PR_GET_NAME writes.
            unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
            is_shard.set(name.starts_with(b"shard-"));
        }
        is_shard.get()
    });
    if is_shard == Ok(true) {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        let bits = (usize::BITS - size.leading_zeros()) as usize;
        BY_SIZE[bits.min(39)].fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: the system's allocator does it; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        System.alloc(layout)
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        System.dealloc(pointer, layout)
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        System.realloc(pointer, layout, size)
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A router of so many shards; with moves, or so that half the messages cross.
fn start(shards: usize, moves: bool) -> (SocketAddr, Vec<shard::ShardHandle>) {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let engine = Arc::new(engine::Settings::default());
    let listener = shard::Listener { number: 0, socket: Arc::new(socket), link_capacity: 250, engine };
    let settings = shard::ShardSettings {
        cores: vec![None; shards],
        router: routing::RouterSettings::default(),
        busy_poll: Duration::ZERO,
        stop_deadline: Duration::from_secs(2),
        trace: false,
        moves,
    };
    (address, shard::spawn(settings, vec![listener]).unwrap())
}

/// Allocations of the shards in the second half of `count` messages of each pair.
fn allocations_of(
    (address, shards): (SocketAddr, Vec<shard::ShardHandle>),
    pairs: u32,
    count: u32,
    body: usize,
) -> u64 {
    let received = AtomicU32::new(0);
    let (warm, last) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for pair in 0..pairs {
            let place = format!("steady.{pair}");
            let mut receiver = Client::connect(address, "receiver");
            receiver.attach(Role::Receiver, &place);
            let mut sender = Client::connect(address, "sender");
            sender.attach(Role::Sender, &place);
            let (all, warm, last) = (&received, &warm, &last);
            scope.spawn(move || send_all(sender, count, body));
            scope.spawn(move || {
                let mut before = 0;
                receive_all(receiver, count, 500, |received| {
                    let all = all.fetch_add(received - before, Ordering::Relaxed) + received - before;
                    before = received;
                    let now = ALLOCATIONS.load(Ordering::Relaxed);
                    if all >= pairs * count / 2 && warm.load(Ordering::Relaxed) == 0 {
                        warm.store(now, Ordering::Relaxed);
                        BY_SIZE.iter().for_each(|size| size.store(0, Ordering::Relaxed));
                    }
                    // A pair that has ended lets go of its links.
                    if received < count {
                        last.fetch_max(now, Ordering::Relaxed);
                    }
                })
            });
        }
    });
    shards.iter().for_each(|shard| assert!(shard.mailbox.order(shard::Order::Stop).is_ok()));
    shards.into_iter().for_each(|shard| shard.thread.join().unwrap().unwrap());
    last.load(Ordering::Relaxed) - warm.load(Ordering::Relaxed)
}

fn assert_few(allocations: u64, few: u64, what: &str) {
    // Pools and tables may still grow a little when the flow finds a new high.
    let sizes: Vec<u64> = BY_SIZE.iter().map(|size| size.load(Ordering::Relaxed)).collect();
    assert!(allocations <= few, "{what}: {allocations} allocations; under 1, 2, 4, … bytes: {sizes:?}");
    println!("{what}: {allocations} allocations after warming up");
}

/// Messages between shards, of each of eight pairs: so many that what pools and buffers grow by, which is bounded, is few beside them.
const CROSSING_COUNT: u32 = 400_000;
/// One in ten thousand of the second half's.
const CROSSING_FEW: u64 = 8 * CROSSING_COUNT as u64 / 2 / 10_000;

/// One test: the counter is the process's.
#[test]
fn a_steady_flow_allocates_nothing() {
    let count = 150_000;
    for body in [0, 100, 1500] {
        assert_few(allocations_of(start(1, true), 1, count, body), 64, &format!("{count} messages of {body} bytes"));
    }
    // Buffers of parcels double until they have their size, and a shard that the machine keeps from running has the others'
    // parcels pile up to a new high, whose buffers are new. That says nothing of a steady flow: one of a few runs is without.
    // An allocation in ten thousand messages would show in each.
    let mut crossing = u64::MAX;
    for _ in 0..4 {
        if crossing > CROSSING_FEW {
            crossing = allocations_of(start(2, false), 8, CROSSING_COUNT, 100);
        }
    }
    assert_few(crossing, CROSSING_FEW, &format!("8 times {CROSSING_COUNT} messages between two shards"));
}

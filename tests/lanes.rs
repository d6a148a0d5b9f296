//! Lanes under load, with delays: parcels lost or overtaken, a shard that sleeps on what there is to do, two rings for one
//! sleep.
//!
//! Threads stand for shards; parking stands for the sleep in the ring. (How the doorbell meets a memory model is
//! `doorbell_model.rs`.)

use ringway::ids::ShardId;
use ringway::mesh::{Lanes, Post, Traffic};
use std::sync::{mpsc, Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::Duration;

/// A parcel: its number in its lane.
type Parcel = u64;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Sends `count` parcels to each other shard, in bursts, and receives as many from each; then retires.
fn shard(mut post: Post<Parcel>, me: u16, shards: u16, count: u64, threads: &OnceLock<Vec<Thread>>) -> Traffic {
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (u64::from(me) + 1));
    let (mut sent, mut received) = (vec![0; usize::from(shards)], vec![0; usize::from(shards)]);
    (sent[usize::from(me)], received[usize::from(me)]) = (count, count);
    while !post.is_over() {
        while let Some((from, parcel)) = post.receive() {
            let expected = &mut received[usize::from(from.0)];
            assert_eq!(parcel, *expected, "from {from:?} to {me}");
            *expected += 1;
            delay(random.below(2000));
        }
        for to in 0..shards {
            for _ in 0..random.below(12) {
                let number = &mut sent[usize::from(to)];
                if *number < count {
                    post.send(ShardId(to), *number);
                    *number += 1;
                }
            }
        }
        if sent.iter().chain(&received).all(|number| *number == count) {
            post.retire();
        }
        delay(random.below(200));
        post.move_on();
        post.settle(|to| threads.wait()[usize::from(to.0)].unpark());
        let is_idle = sent.iter().all(|number| *number == count) || random.below(3) == 0;
        if is_idle && post.arm() {
            // Whoever has parcels left to send has a time-out, as a shard has its timers.
            match sent.iter().all(|number| *number == count) {
                true => thread::park(),
                false => thread::park_timeout(Duration::from_micros(50)),
            }
            post.disarm();
        }
    }
    post.traffic
}

/// Mostly none; now and then the scheduler's, now and then a sleep.
fn delay(dice: u64) {
    match dice {
        0 => thread::sleep(Duration::from_micros(200)),
        1..=9 => thread::yield_now(),
        10..=19 => (0..dice * 100).for_each(|_| std::hint::spin_loop()),
        _ => {}
    }
}

fn stress(shards: u16, capacity: usize, count: u64) {
    let lanes = Lanes::with_capacity(shards, capacity);
    let threads = Arc::new(OnceLock::new());
    let (ended, ends) = mpsc::channel();
    let started: Vec<Thread> = (0..shards)
        .map(|me| {
            let (post, threads, ended) = (Post::new(lanes.clone(), ShardId(me)), threads.clone(), ended.clone());
            let run = move || ended.send(shard(post, me, shards, count, &threads)).expect("the test waits");
            thread::spawn(run).thread().clone()
        })
        .collect();
    threads.set(started).expect("set once");
    drop(ended);
    let mut traffic = Traffic::default();
    for _ in 0..shards {
        let one = ends.recv_timeout(Duration::from_secs(60)).expect("a shard panicked, or sleeps on its parcels");
        traffic.parcels_in += one.parcels_in;
        traffic.parcels_out += one.parcels_out;
        traffic.lanes_full += one.lanes_full;
        traffic.doorbells += one.doorbells;
        traffic.sleeps += one.sleeps;
    }
    let parcels = u64::from(shards) * u64::from(shards - 1) * count;
    assert_eq!((traffic.parcels_in, traffic.parcels_out), (parcels, parcels));
    assert!(traffic.doorbells <= traffic.sleeps, "{traffic:?}");
    println!("{shards} shards, lanes of {capacity}: {traffic:?}");
}

#[test]
fn two_shards_with_lanes_of_one() {
    stress(2, 1, 20_000);
}

#[test]
fn three_shards_with_small_lanes() {
    stress(3, 4, 20_000);
}

#[test]
fn eight_shards_with_lanes_of_sixteen() {
    stress(8, 16, 2_000);
}

#[test]
fn two_shards_with_room_for_all() {
    stress(2, 4096, 50_000);
}

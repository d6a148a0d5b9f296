//! The doorbell under a model checker: every order in which two or three threads can meet, with the reorderings that the
//! memory model allows. A wake-up that is lost shows as a deadlock.
//!
//! The protocol is the router's own file; lanes and the kernel's wake-up are stand-ins. The lane's stand-in publishes with
//! release and acquire and no more, as a queue may.

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Notify};
use loom::thread;

mod atomic {
    pub use loom::sync::atomic::{fence, AtomicU8, Ordering};
}
#[path = "../src/mesh/doorbell.rs"]
mod doorbell;

/// The same file with fences that do nothing: the model has to find out.
#[path = "../src/mesh"]
mod without_fences {
    mod atomic {
        pub use loom::sync::atomic::{AtomicU8, Ordering};
        pub fn fence(_: Ordering) {}
    }
    #[path = "doorbell.rs"]
    pub mod doorbell;
}

trait Bell: Default + Send + Sync + 'static {
    fn arm(&self, for_room: bool);
    fn disarm(&self) -> bool;
    fn claim(&self) -> bool;
    fn claim_for_room(&self) -> bool;
}

macro_rules! bell {
    ($doorbell:ty) => {
        impl Bell for $doorbell {
            fn arm(&self, for_room: bool) {
                self.arm(for_room)
            }
            fn disarm(&self) -> bool {
                self.disarm()
            }
            fn claim(&self) -> bool {
                self.claim()
            }
            fn claim_for_room(&self) -> bool {
                self.claim_for_room()
            }
        }
    };
}
bell!(doorbell::Doorbell);
bell!(without_fences::doorbell::Doorbell);

/// A lane of one sender and one receiver: only how many parcels went in and out.
struct Lane {
    pushed: AtomicUsize,
    popped: AtomicUsize,
    capacity: usize,
}

impl Lane {
    fn new(capacity: usize) -> Lane {
        Lane { pushed: AtomicUsize::new(0), popped: AtomicUsize::new(0), capacity }
    }

    fn len(&self) -> usize {
        self.pushed.load(Ordering::Acquire) - self.popped.load(Ordering::Acquire)
    }

    fn push(&self) -> bool {
        let pushed = self.pushed.load(Ordering::Relaxed);
        if pushed - self.popped.load(Ordering::Acquire) == self.capacity {
            return false;
        }
        self.pushed.store(pushed + 1, Ordering::Release);
        true
    }

    fn pop(&self) -> bool {
        let popped = self.popped.load(Ordering::Relaxed);
        if self.pushed.load(Ordering::Acquire) == popped {
            return false;
        }
        self.popped.store(popped + 1, Ordering::Release);
        true
    }
}

/// A shard: its bell, and the kernel's side of it.
struct Shard<B> {
    bell: B,
    wake: Notify,
    rings: AtomicUsize,
    sleeps: AtomicUsize,
}

impl<B: Bell> Shard<B> {
    fn new() -> Shard<B> {
        Shard { bell: B::default(), wake: Notify::new(), rings: AtomicUsize::new(0), sleeps: AtomicUsize::new(0) }
    }

    fn ring_if(&self, claimed: bool) {
        if claimed {
            self.rings.fetch_add(1, Ordering::Relaxed);
            self.wake.notify();
        }
    }

    /// Sleeps unless `has_work` after arming.
    fn sleep(&self, for_room: bool, has_work: impl Fn() -> bool) {
        self.bell.arm(for_room);
        let sleeps = !has_work();
        if sleeps {
            self.wake.wait();
        }
        if self.bell.disarm() || sleeps {
            self.sleeps.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn check(&self) {
        let (rings, sleeps) = (self.rings.load(Ordering::Relaxed), self.sleeps.load(Ordering::Relaxed));
        assert!(rings <= sleeps, "a bell was rung twice for one sleep");
    }
}

/// Senders send one parcel a turn and ring; the receiver takes them, and sleeps when there is none.
fn receiver_sleeps<B: Bell>(senders: usize, parcels: usize) {
    let shard = Arc::new(Shard::<B>::new());
    let lanes: Vec<Arc<Lane>> = (0..senders).map(|_| Arc::new(Lane::new(usize::MAX))).collect();
    let threads: Vec<_> = lanes
        .iter()
        .map(|lane| {
            let (lane, shard) = (lane.clone(), shard.clone());
            thread::spawn(move || {
                for _ in 0..parcels {
                    assert!(lane.push());
                    shard.ring_if(shard.bell.claim());
                }
            })
        })
        .collect();
    let mut received = 0;
    loop {
        for lane in &lanes {
            while lane.pop() {
                received += 1;
            }
        }
        if received == senders * parcels {
            break;
        }
        shard.sleep(false, || lanes.iter().any(|lane| lane.len() > 0));
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    shard.check();
}

/// A lane with room for one: the sender sleeps while what it has waits for room, the receiver while it has nothing.
fn sender_sleeps_for_room<B: Bell>(parcels: usize) {
    let (sender, receiver) = (Arc::new(Shard::<B>::new()), Arc::new(Shard::<B>::new()));
    let lane = Arc::new(Lane::new(1));
    let receiving = {
        let (sender, receiver, lane) = (sender.clone(), receiver.clone(), lane.clone());
        thread::spawn(move || {
            let mut received = 0;
            while received < parcels {
                if lane.pop() {
                    received += 1;
                    sender.ring_if(sender.bell.claim_for_room());
                } else {
                    receiver.sleep(false, || lane.len() > 0);
                }
            }
        })
    };
    let mut sent = 0;
    while sent < parcels {
        if lane.push() {
            sent += 1;
            receiver.ring_if(receiver.bell.claim());
        } else {
            sender.sleep(true, || lane.len() < 1);
        }
    }
    receiving.join().unwrap();
    sender.check();
    receiver.check();
}

fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

#[test]
fn no_wake_up_is_lost_from_one_sender() {
    check(4, || receiver_sleeps::<doorbell::Doorbell>(1, 2));
}

#[test]
fn no_wake_up_is_lost_from_two_senders() {
    check(2, || receiver_sleeps::<doorbell::Doorbell>(2, 1));
}

#[test]
fn who_waits_for_room_is_woken() {
    check(3, || sender_sleeps_for_room::<doorbell::Doorbell>(2));
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_fences_a_wake_up_is_lost() {
    check(4, || receiver_sleeps::<without_fences::doorbell::Doorbell>(1, 2));
}

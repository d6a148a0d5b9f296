//! Routing's stand-alone types: a message's way through an address's credit, the choice of its consumer, its depth.

use std::collections::VecDeque;
use std::hint::black_box;

use ringway::routing::credit::{AddressCredit, ConsumerSlot, CreditSettings, SenderSlot};
use ringway::routing::threshold::Depth;
use ringway::routing::treatment::balanced::{Balanced, Choice, LocalSlot, Origin};
use ringway::routing::Marks;
use ringway::time::Time;

use crate::Scenario;

pub const SCENARIOS: &[Scenario] = &[
    ("credit/10-senders", |count| credit(10, 10, count)),
    ("credit/10000-senders", |count| credit(10_000, 10_000, count)),
    ("credit/1-busy-of-10", |count| credit(10, 1, count)),
    ("credit/1-busy-of-10000", |count| credit(10_000, 1, count)),
    ("balanced/10-consumers", |count| balanced(10, count)),
    ("balanced/2000-consumers", |count| balanced(2000, count)),
    ("threshold/depth-alone", depth_alone),
    ("threshold/unconfigured", |count| threshold(None, count)),
    ("threshold/configured", |count| threshold(Some(Marks { up: 1000, down: 500 }), count)),
];

/// One operation: a delivery arrives, is assigned, an earlier one is settled, the consumer tops up, and who gets the
/// credit is told.
fn credit(senders: u32, busy: u32, count: u64) {
    let mut credit = AddressCredit::new(CreditSettings::default());
    let senders: Vec<_> = (0..senders).map(|_| credit.sender_joined(250)).collect();
    let first_idle = senders[busy as usize - 1];
    let consumer = credit.consumer_joined(250);
    credit.consumer_flow(consumer, 250, Time::ZERO);
    let mut run = CreditRun { credit, consumer, last_busy: first_idle, granted: VecDeque::new(), out: VecDeque::new() };
    run.granted.reserve(100_000);
    run.grant();
    // What is idle has shown that it is before the count begins.
    let mut now = Time::ZERO;
    for _ in 0..senders.len() + 5000 {
        run.message(now);
        now.0 += 200_000;
        run.credit.tick(now);
    }
    for _ in 0..count {
        run.message(now);
    }
}

struct CreditRun {
    credit: AddressCredit,
    consumer: ConsumerSlot,
    last_busy: SenderSlot,
    granted: VecDeque<SenderSlot>,
    out: VecDeque<SenderSlot>,
}

impl CreditRun {
    fn grant(&mut self) {
        while let Some(grant) = self.credit.poll_grant() {
            if grant.sender <= self.last_busy {
                self.granted.extend((0..grant.add).map(|_| grant.sender));
            }
        }
    }

    fn message(&mut self, now: Time) {
        let Some(sender) = self.granted.pop_front() else { return };
        self.credit.arrived(sender, now);
        self.credit.assigned(sender);
        self.credit.consumer_assigned(self.consumer);
        self.out.push_back(sender);
        if self.out.len() > 100 {
            if let Some(earlier) = self.out.pop_front() {
                self.credit.settled(earlier);
                self.credit.consumer_settled(self.consumer);
                let room = self.credit.consumer_room(self.consumer) + 1;
                self.credit.consumer_flow(self.consumer, room, now);
            }
        }
        self.grant();
    }
}

/// One operation: a consumer is chosen and gets a delivery, and one settles one.
fn balanced(consumers: u32, count: u64) {
    let mut balanced = Balanced::new();
    let slots: Vec<_> = (0..consumers).map(|_| balanced.local_joined()).collect();
    slots.iter().for_each(|&slot| balanced.local_room(slot, true));
    let mut out: VecDeque<LocalSlot> = VecDeque::with_capacity(16_384);
    for _ in 0..10_000 {
        one_choice(&mut balanced, &mut out);
    }
    for _ in 0..count {
        one_choice(&mut balanced, &mut out);
        if let Some(slot) = out.pop_front() {
            balanced.local_settled(slot);
        }
    }
}

fn one_choice(balanced: &mut Balanced, out: &mut VecDeque<LocalSlot>) {
    if let Some(Choice::Local(slot)) = black_box(&*balanced).choose(Origin::HERE) {
        balanced.local_assigned(slot);
        out.push_back(slot);
    }
}

/// An address's depth without marks on it: what management shows of any address.
#[derive(Default)]
struct DepthAlone {
    messages: u64,
    bytes: u64,
}

impl DepthAlone {
    fn added(&mut self, messages: u32, bytes: u64) {
        self.messages = self.messages.wrapping_add(u64::from(messages));
        self.bytes = self.bytes.wrapping_add(bytes);
    }

    fn removed(&mut self, messages: u32, bytes: u64) {
        debug_assert!(self.messages >= u64::from(messages) && self.bytes >= bytes, "more went than came");
        self.messages = self.messages.wrapping_sub(u64::from(messages));
        self.bytes = self.bytes.wrapping_sub(bytes);
    }
}

/// One operation: a message comes and goes.
fn depth_alone(count: u64) {
    let mut depth = DepthAlone::default();
    depth.added(100, 100);
    for _ in 0..count {
        black_box(&mut depth).added(1, 1);
        black_box(&mut depth).removed(1, 1);
    }
}

/// One operation: a message comes and goes.
fn threshold(marks: Option<Marks>, count: u64) {
    let (mut depth, mut edges) = (Depth::default(), 0);
    depth.set_marks(marks, marks, |_| edges += 1);
    depth.added(100, 100, |_| edges += 1);
    for _ in 0..count {
        black_box(&mut depth).added(1, 1, |_| edges += 1);
        black_box(&mut depth).removed(1, 1, |_| edges += 1);
    }
    assert_eq!(black_box(edges), 0);
}

//! A router of one address, its senders and consumers, and the wires between them, in virtual time.
//!
//! The router is the credit and the balanced treatment with late binding; a turn takes everything that comes at
//! one moment, then assigns, grants and answers drains. Peers are what AMQP lets them be: a sender sends what it
//! has credit for, a consumer gives a window and tops it up as it settles.

use ringway::routing::credit::{AddressCredit, ConsumerSlot, CreditSettings, SenderSlot};
use ringway::routing::treatment::balanced::{Balanced, Choice, LocalSlot, Origin};
use ringway::routing::FlowControl;
use ringway::time::Time;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

pub const MICROSECOND: u64 = 1_000;
pub const MILLISECOND: u64 = 1_000_000;
pub const SECOND: u64 = 1_000_000_000;

/// What a sender has to send.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// More than it can ever send.
    Eager,
    /// One each so many nanoseconds, from the first of them on.
    Paced { every: u64, from: u64 },
    /// So many and no more.
    Some(u64),
}

/// How a consumer behaves.
#[derive(Clone, Copy, Debug)]
pub struct Habit {
    pub window: u32,
    /// Nanoseconds for a message, one after the other.
    pub service: u64,
    /// It settles, and tops its credit up, when it has handled so many.
    pub batch: u32,
    /// It never settles.
    pub stuck: bool,
    /// It asks for settled deliveries.
    pub settled: bool,
    /// It gives no credit by itself (a poller).
    pub by_hand: bool,
}

impl Habit {
    pub fn prompt(window: u32, service: u64) -> Self {
        Self { window, service, batch: 1, stuck: false, settled: false, by_hand: false }
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    // At the peers.
    Granted { sender: usize, add: u32, drain: bool },
    Produce { sender: usize },
    Received { consumer: usize, count: u32 },
    Handled { consumer: usize },
    DrainAnswered { consumer: usize },
    // At the router.
    Arrived { sender: usize, count: u32 },
    Returned { sender: usize, credit: u32 },
    Settled { consumer: usize, count: u32, limit: u64 },
    Flow { consumer: usize, limit: u64, drain: bool },
    Tick,
}

pub struct Sender {
    pub slot: SenderSlot,
    pub work: Work,
    pub left: bool,
    pub settled_mode: bool,
    /// At the peer: credit, and messages that it has (not for an eager one).
    credit: u64,
    stock: u64,
    pub sent: u64,
    /// Deliveries that a consumer got, or that have an outcome otherwise.
    pub served: u64,
    pub first_served_at: Option<u64>,
    pub lost: u64,
}

pub struct Consumer {
    pub slot: ConsumerSlot,
    local: LocalSlot,
    pub habit: Habit,
    pub left: bool,
    // Router's side.
    limit: u64,
    assigned: u64,
    unsettled: VecDeque<Delivery>,
    // Peer's side.
    queue: u64,
    busy: bool,
    handled: u64,
    since_batch: u32,
    /// All deliveries that it may get, as it told last.
    limit_told: u64,
    /// The highest of these: what is on its way when it tells less may still come.
    limit_most: u64,
    pub received: u64,
    pub drains_answered: u64,
}

#[derive(Clone, Copy, Debug)]
struct Delivery {
    sender: usize,
    number: u64,
    settled: bool,
}

pub struct Sim {
    pub credit: AddressCredit,
    balanced: Balanced,
    pub senders: Vec<Sender>,
    pub consumers: Vec<Consumer>,
    by_local: HashMap<LocalSlot, usize>,
    by_slot: HashMap<SenderSlot, usize>,
    by_consumer: HashMap<ConsumerSlot, usize>,
    fifo: VecDeque<Delivery>,
    /// One way, each link.
    pub delay: u64,
    pub now: u64,
    heap: BinaryHeap<Reverse<(u64, u64, usize)>>,
    events: Vec<Event>,
    free: Vec<usize>,
    sequence: u64,
    numbers: u64,
    pub in_router_max: u64,
    pub unsettled: u64,
    pub granted: u64,
    pub grants: u64,
    pub check_each_turn: bool,
    by_capacity: bool,
}

impl Sim {
    pub fn new(settings: CreditSettings, delay: u64) -> Self {
        let mut sim = Self {
            credit: AddressCredit::new(settings),
            balanced: Balanced::new(),
            senders: Vec::new(),
            consumers: Vec::new(),
            by_local: HashMap::new(),
            by_slot: HashMap::new(),
            by_consumer: HashMap::new(),
            fifo: VecDeque::new(),
            delay,
            now: 0,
            heap: BinaryHeap::new(),
            events: Vec::new(),
            free: Vec::new(),
            sequence: 0,
            numbers: 0,
            in_router_max: 0,
            unsettled: 0,
            granted: 0,
            grants: 0,
            check_each_turn: false,
            by_capacity: settings.flow_control == FlowControl::Capacity,
        };
        sim.at(0, Event::Tick);
        sim
    }

    fn at(&mut self, time: u64, event: Event) {
        self.sequence += 1;
        let index = self.free.pop().unwrap_or_else(|| {
            self.events.push(event);
            self.events.len() - 1
        });
        self.events[index] = event;
        self.heap.push(Reverse((time, self.sequence, index)));
    }

    fn after(&mut self, wait: u64, event: Event) {
        self.at(self.now + wait, event);
    }

    fn time(&self) -> Time {
        Time(self.now)
    }

    pub fn sender(&mut self, work: Work, capacity: u32) -> usize {
        let slot = self.credit.sender_joined(capacity);
        let sender = self.senders.len();
        self.by_slot.insert(slot, sender);
        let stock = if let Work::Some(stock) = work { stock } else { 0 };
        self.senders.push(Sender {
            slot,
            work,
            left: false,
            settled_mode: false,
            credit: 0,
            stock,
            sent: 0,
            served: 0,
            first_served_at: None,
            lost: 0,
        });
        if let Work::Paced { from, .. } = work {
            self.at(self.now.max(from), Event::Produce { sender });
        }
        sender
    }

    pub fn consumer(&mut self, habit: Habit, capacity: u32) -> usize {
        let slot = self.credit.consumer_joined(capacity);
        let local = self.balanced.local_joined();
        let consumer = self.consumers.len();
        self.by_local.insert(local, consumer);
        self.by_consumer.insert(slot, consumer);
        self.consumers.push(Consumer {
            slot,
            local,
            habit,
            left: false,
            limit: 0,
            assigned: 0,
            unsettled: VecDeque::new(),
            queue: 0,
            busy: false,
            handled: 0,
            since_batch: 0,
            limit_told: 0,
            limit_most: 0,
            received: 0,
            drains_answered: 0,
        });
        if !habit.by_hand {
            self.flow(consumer, habit.window, false);
        }
        consumer
    }

    /// A consumer tells so much credit, by hand.
    pub fn flow(&mut self, consumer: usize, credit: u32, drain: bool) {
        let delay = self.delay;
        let one = &mut self.consumers[consumer];
        one.limit_told = one.received + u64::from(credit);
        one.limit_most = one.limit_most.max(one.limit_told);
        let limit = one.limit_told;
        self.after(delay, Event::Flow { consumer, limit, drain });
    }

    /// The link is lost: what wasn't settled has its outcome; the last `unsent` of it wasn't sent.
    pub fn lose_consumer(&mut self, consumer: usize, unsent: usize) {
        let one = &mut self.consumers[consumer];
        one.left = true;
        let (slot, local) = (one.slot, one.local);
        self.credit.consumer_left(slot);
        self.balanced.local_left(local);
        self.by_local.remove(&local);
        let mut unsettled = std::mem::take(&mut self.consumers[consumer].unsettled);
        for _ in 0..unsent {
            // Back to the front, in arrival order.
            let Some(delivery) = unsettled.pop_back() else { break };
            let at = self.fifo.partition_point(|one| one.number < delivery.number);
            self.fifo.insert(at, delivery);
            self.credit.unassigned(self.senders[delivery.sender].slot);
            self.credit.consumer_unassigned(slot);
            self.unsettled -= 1;
        }
        for delivery in unsettled {
            self.finish(consumer, delivery);
            self.senders[delivery.sender].lost += 1;
        }
        self.by_consumer.remove(&slot);
        self.turn();
    }

    pub fn lose_sender(&mut self, sender: usize) {
        let one = &mut self.senders[sender];
        one.left = true;
        self.credit.sender_left(one.slot);
        self.by_slot.remove(&one.slot);
        self.turn();
    }

    /// Nobody consumes and nobody will: what waits is released.
    pub fn release_waiting(&mut self) {
        while let Some(delivery) = self.fifo.pop_front() {
            self.credit.abandoned(self.senders[delivery.sender].slot);
        }
        self.turn();
    }

    pub fn block(&mut self, consumer: usize, blocked: bool) {
        let slot = self.consumers[consumer].slot;
        if blocked {
            self.credit.consumer_blocked(slot);
        } else {
            self.credit.consumer_unblocked(slot);
        }
        self.room(consumer);
        self.turn();
    }

    fn room(&mut self, consumer: usize) {
        let one = &self.consumers[consumer];
        self.balanced.local_room(one.local, self.credit.consumer_room(one.slot) > 0);
    }

    fn finish(&mut self, consumer: usize, delivery: Delivery) {
        self.credit.settled(self.senders[delivery.sender].slot);
        self.credit.consumer_settled(self.consumers[consumer].slot);
        self.unsettled -= 1;
    }

    /// Goes on until a moment.
    pub fn run_until(&mut self, time: u64) {
        while let Some(&Reverse((at, _, _))) = self.heap.peek() {
            if at > time {
                break;
            }
            self.now = at;
            while let Some(&Reverse((next, _, index))) = self.heap.peek() {
                if next != at {
                    break;
                }
                self.heap.pop();
                self.free.push(index);
                self.handle(self.events[index]);
            }
            self.turn();
        }
        self.now = time;
    }

    pub fn run_for(&mut self, time: u64) {
        self.run_until(self.now + time);
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Granted { sender, add, drain } => self.granted_to(sender, add, drain),
            Event::Produce { sender } => self.produce(sender),
            Event::Received { consumer, count } => self.received(consumer, count),
            Event::Handled { consumer } => self.handled(consumer),
            Event::DrainAnswered { consumer } => self.consumers[consumer].drains_answered += 1,
            Event::Arrived { sender, count } => self.arrived(sender, count),
            Event::Returned { sender, credit } => {
                if !self.senders[sender].left {
                    self.credit.returned(self.senders[sender].slot, credit);
                }
            }
            Event::Settled { consumer, count, limit } => {
                if self.consumers[consumer].left {
                    return;
                }
                for _ in 0..count {
                    if let Some(delivery) = self.consumers[consumer].unsettled.pop_front() {
                        self.finish(consumer, delivery);
                        self.balanced.local_settled(self.consumers[consumer].local);
                    }
                }
                self.flow_arrived(consumer, limit, false);
            }
            Event::Flow { consumer, limit, drain } => self.flow_arrived(consumer, limit, drain),
            Event::Tick => {
                self.credit.tick(Time(self.now));
                self.after(10 * MILLISECOND, Event::Tick);
            }
        }
    }

    // The peers.

    fn granted_to(&mut self, sender: usize, add: u32, drain: bool) {
        if self.senders[sender].left {
            return;
        }
        self.senders[sender].credit += u64::from(add);
        self.send(sender);
        let one = &mut self.senders[sender];
        if drain && one.credit > 0 {
            let credit = std::mem::take(&mut one.credit) as u32;
            self.after(self.delay, Event::Returned { sender, credit });
        }
    }

    fn produce(&mut self, sender: usize) {
        if self.senders[sender].left {
            return;
        }
        self.senders[sender].stock += 1;
        self.send(sender);
        if let Work::Paced { every, .. } = self.senders[sender].work {
            self.after(every, Event::Produce { sender });
        }
    }

    /// Gives a sender more to send.
    pub fn stock(&mut self, sender: usize, count: u64) {
        self.senders[sender].stock += count;
        self.send(sender);
    }

    fn send(&mut self, sender: usize) {
        let delay = self.delay;
        let one = &mut self.senders[sender];
        let count = if let Work::Eager = one.work { one.credit } else { one.credit.min(one.stock) };
        if count == 0 || one.left {
            return;
        }
        one.credit -= count;
        one.stock = one.stock.saturating_sub(count);
        one.sent += count;
        self.after(delay, Event::Arrived { sender, count: count as u32 });
    }

    fn received(&mut self, consumer: usize, count: u32) {
        let one = &mut self.consumers[consumer];
        if one.left {
            return;
        }
        one.received += u64::from(count);
        one.queue += u64::from(count);
        assert!(one.received <= one.limit_most, "more than its credit");
        if one.habit.stuck {
            return;
        }
        if one.habit.service == 0 {
            let all = std::mem::take(&mut one.queue) as u32;
            self.handled_some(consumer, all);
        } else if !one.busy {
            one.busy = true;
            let service = one.habit.service;
            self.after(service, Event::Handled { consumer });
        }
    }

    fn handled(&mut self, consumer: usize) {
        let one = &mut self.consumers[consumer];
        if one.left {
            return;
        }
        one.queue -= 1;
        one.busy = one.queue > 0;
        let service = one.habit.service;
        if one.busy {
            self.after(service, Event::Handled { consumer });
        }
        self.handled_some(consumer, 1);
    }

    fn handled_some(&mut self, consumer: usize, count: u32) {
        let delay = self.delay;
        let one = &mut self.consumers[consumer];
        one.handled += u64::from(count);
        one.since_batch += count;
        if one.since_batch < one.habit.batch {
            return;
        }
        let settle = std::mem::take(&mut one.since_batch);
        if !one.habit.by_hand {
            one.limit_told = one.handled + u64::from(one.habit.window);
            one.limit_most = one.limit_most.max(one.limit_told);
        }
        let count = if one.habit.settled { 0 } else { settle };
        let limit = one.limit_told;
        self.after(delay, Event::Settled { consumer, count, limit });
    }

    // The router.

    fn arrived(&mut self, sender: usize, count: u32) {
        if self.senders[sender].left {
            return;
        }
        for _ in 0..count {
            let slot = self.senders[sender].slot;
            assert!(self.credit.unused(slot) > 0, "sent without credit");
            self.credit.arrived(slot, self.time());
            self.numbers += 1;
            let settled = self.senders[sender].settled_mode;
            self.fifo.push_back(Delivery { sender, number: self.numbers, settled });
        }
    }

    fn flow_arrived(&mut self, consumer: usize, limit: u64, drain: bool) {
        let time = self.time();
        let one = &mut self.consumers[consumer];
        if one.left {
            return;
        }
        one.limit = limit;
        let room = limit.saturating_sub(one.assigned) as u32;
        let slot = one.slot;
        if drain {
            self.credit.consumer_drain(slot, room, time);
        } else {
            self.credit.consumer_flow(slot, room, time);
        }
        self.room(consumer);
    }

    fn turn(&mut self) {
        self.assign();
        if let Some(slot) = self.credit.stalled() {
            unreachable!("{slot:?} set aside in an anycast address");
        }
        self.grant();
        self.in_router_max = self.in_router_max.max(self.in_router());
        if self.check_each_turn {
            self.credit.check_invariants();
        }
    }

    fn grant(&mut self) {
        loop {
            let budget = self.credit.budget();
            let Some(grant) = self.credit.poll_grant() else { break };
            let sender = self.by_slot[&grant.sender];
            // Beyond the one that lets it go on, nothing is granted without budget.
            let was = self.credit.credit_window(grant.sender) - grant.add;
            let beyond =
                if self.credit.unused(grant.sender) == grant.add { grant.add.saturating_sub(1) } else { grant.add };
            assert!(
                self.by_capacity || beyond == 0 || budget >= i64::from(beyond),
                "{grant:?} at budget {budget}, window {was}"
            );
            self.granted += u64::from(grant.add);
            self.grants += u64::from(grant.add > 0);
            self.after(self.delay, Event::Granted { sender, add: grant.add, drain: grant.drain });
        }
        while let Some(slot) = self.credit.poll_drained() {
            let consumer = self.by_consumer[&slot];
            self.consumers[consumer].limit = self.consumers[consumer].assigned;
            self.room(consumer);
            self.after(self.delay, Event::DrainAnswered { consumer });
        }
    }

    fn assign(&mut self) {
        let mut last: Option<(usize, u32)> = None;
        while let Some(delivery) = self.fifo.front().copied() {
            let Some(Choice::Local(local)) = self.balanced.choose(Origin::HERE) else { break };
            self.fifo.pop_front();
            let consumer = self.by_local[&local];
            let sender = &mut self.senders[delivery.sender];
            sender.served += 1;
            sender.first_served_at.get_or_insert(self.now);
            let one = &mut self.consumers[consumer];
            one.assigned += 1;
            assert!(one.assigned <= one.limit, "assigned beyond credit");
            if one.habit.settled {
                self.credit.assigned_settled(sender.slot);
                self.credit.consumer_assigned_settled(one.slot);
            } else {
                self.credit.assigned(sender.slot);
                self.credit.consumer_assigned(one.slot);
                one.unsettled.push_back(delivery);
                self.balanced.local_assigned(local);
                self.unsettled += 1;
            }
            let _ = delivery.settled;
            self.room(consumer);
            last = match last {
                Some((same, count)) if same == consumer => Some((same, count + 1)),
                other => {
                    self.pass_on(other);
                    Some((consumer, 1))
                }
            };
        }
        self.pass_on(last);
    }

    fn pass_on(&mut self, run: Option<(usize, u32)>) {
        if let Some((consumer, count)) = run {
            self.after(self.delay, Event::Received { consumer, count });
        }
    }

    // What is to be seen.

    pub fn waiting(&self) -> u64 {
        self.fifo.len() as u64
    }

    pub fn unused(&self, sender: usize) -> u32 {
        self.credit.unused(self.senders[sender].slot)
    }

    pub fn in_router(&self) -> u64 {
        self.waiting() + self.unsettled
    }

    pub fn window(&self, sender: usize) -> u32 {
        self.credit.credit_window(self.senders[sender].slot)
    }

    /// What one sender gets through in so long.
    pub fn served_in(&mut self, sender: usize, time: u64) -> u64 {
        let before = self.senders[sender].served;
        self.run_for(time);
        self.senders[sender].served - before
    }

    pub fn received_in(&mut self, consumer: usize, time: u64) -> u64 {
        let before = self.consumers[consumer].received;
        self.run_for(time);
        self.consumers[consumer].received - before
    }
}

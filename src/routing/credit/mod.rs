//! Senders' credit follows the consumers' capacity.
//!
//! Owns: for one address, what each sender holds (credit, waiting and unsettled deliveries), what each consumer
//! can take, and the rule that turns the second into grants for the first. Doesn't: know links, deliveries or
//! their order; the address's FIFO and the choice of the consumer are routing's.
//! Driven by: the address's owner, which tells every change and then polls: [`AddressCredit::poll_grant`] until
//! it has no more, [`AddressCredit::poll_drained`], and for multicast [`AddressCredit::stalled`].
//!
//! What holds (share rule):
//! - Deliveries of the address in the router ≤ Σ consumers' windows + slack + one a sender + credit granted
//!   earlier and not yet used.
//! - A sender with nothing unused and nothing waiting gets at least 1 while any consumer has a window.
//! - Nothing beyond that one is granted while the budget is ≤ 0. Nothing is taken back, but by a consumer's drain
//!   and when the last consumer leaves.
//! - Every input and every poll is O(1), O(log n) for a multicast consumer; starting a drain is O(senders that may
//!   have something to send and aren't asked yet).
//!
//! ```text
//! share  = max(1, floor(Σ (window + slack) / senders that used credit lately)); 0 without a window
//! budget = Σ (room + slack) − Σ (unused − spare) − all waiting
//! ```
//!
//! The words room, window, slack are at [`consumers`]; unused, waiting, limit, spare at [`senders`].

mod consumers;
mod fixed;
mod multicast;
mod senders;
#[cfg(test)]
mod tests;

pub use fixed::FixedCredit;

use crate::limits;
use crate::routing::lists::Lists;
use crate::routing::settings::FlowControl;
use crate::sabotage::{self, Sabotage};
use crate::time::{earliest, Time};
use consumers::{Anycast, Consumer};
use multicast::Multicast;
use senders::{ask, need, Placing, Senders};
use std::time::Duration;

/// After how long a sender's use of its credit is looked at: what it didn't touch from one look to the next is
/// spare. Longer than the round trip to a sender, or credit on its way there would be taken for spare.
pub const REVIEW_PERIOD: Duration = Duration::from_millis(250);

/// A sender that uses all it may hold within this time of its first use gets a larger limit.
pub const BURST: Duration = Duration::from_millis(10);

/// A sender of one address, as its credit knows it. Valid until it left and its deliveries are done with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct SenderSlot(pub u32);

impl SenderSlot {
    /// Stands for all anonymous senders: their deliveries wait and count, their credit is [`FixedCredit`].
    pub const ANONYMOUS: SenderSlot = SenderSlot(0);
}

/// A consumer of one address, as its credit knows it. Valid until it left and its deliveries are settled.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ConsumerSlot(pub u32);

/// What an address's credit is told at its start.
#[derive(Clone, Copy, Debug)]
pub struct CreditSettings {
    pub flow_control: FlowControl,
    /// `creditSlack`, percent.
    pub slack_percent: u32,
    /// Each delivery goes to every consumer.
    pub multicast: bool,
    /// `multicastStallSeconds`: how long a consumer may be without room before it is set aside.
    pub multicast_stall: Duration,
    /// `drainWait`: how long a consumer's drain waits for the senders.
    pub drain_wait: Duration,
    /// An error made on purpose, in the simulator.
    pub sabotage: sabotage::Switch,
}

impl Default for CreditSettings {
    fn default() -> Self {
        Self {
            flow_control: FlowControl::Share,
            slack_percent: limits::CREDIT_SLACK_PERCENT_DEFAULT,
            multicast: false,
            multicast_stall: limits::MULTICAST_STALL,
            drain_wait: limits::DRAIN_WAIT,
            sabotage: sabotage::Switch::default(),
        }
    }
}

/// What a sender's link is to be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    pub sender: SenderSlot,
    /// Credit to add; 0 where it is only asked to drain.
    pub add: u32,
    /// It should use or return what it has.
    pub drain: bool,
}

enum Consumers {
    Anycast(Anycast),
    Multicast(Multicast),
}

/// How many senders in turn are looked at for one that is worth a flow.
const TRIES: u32 = 4;

/// Consumers whose drain isn't answered yet, in the order of their deadlines.
const DRAINING: usize = 0;
/// Consumers whose drain can be answered.
const DRAINED: usize = 1;

/// The credit of one address.
///
/// ```
/// use ringway::routing::credit::{AddressCredit, CreditSettings, Grant};
/// use ringway::time::Time;
/// let settings = CreditSettings { slack_percent: 0, ..CreditSettings::default() };
/// let mut credit = AddressCredit::new(settings);
/// let (first, second) = (credit.sender_joined(250), credit.sender_joined(250));
/// let consumer = credit.consumer_joined(250);
/// // No credit from the consumer yet: none for the senders.
/// assert_eq!(credit.poll_grant(), None);
///
/// // It can take 4: each may send one, then each gets up to half.
/// credit.consumer_flow(consumer, 4, Time::ZERO);
/// assert_eq!(credit.poll_grant(), Some(Grant { sender: first, add: 2, drain: false }));
/// assert_eq!(credit.poll_grant(), Some(Grant { sender: second, add: 2, drain: false }));
/// assert_eq!(credit.poll_grant(), None);
///
/// // One comes and is assigned: it took what was granted for it, nothing is free.
/// credit.arrived(first, Time::ZERO);
/// credit.assigned(first);
/// credit.consumer_assigned(consumer);
/// assert_eq!(credit.credit_window(first), 2);
/// assert_eq!(credit.poll_grant(), None);
///
/// // It is settled and the consumer tops up: a share is free again.
/// credit.settled(first);
/// credit.consumer_settled(consumer);
/// credit.consumer_flow(consumer, 4, Time::ZERO);
/// assert_eq!(credit.poll_grant(), Some(Grant { sender: first, add: 1, drain: false }));
/// ```
pub struct AddressCredit {
    settings: CreditSettings,
    senders: Senders,
    consumers: Consumers,
    drains: Lists,
    /// When a draining consumer is answered at the latest, by slot.
    drain_deadlines: Vec<Time>,
    /// Σ of draining consumers' high-waters.
    draining_high: u64,
    drain_round: u32,
    remote_in_links: u32,
    share: u32,
    is_held_back: bool,
    now: Time,
}

/// Inputs from senders' links.
impl AddressCredit {
    pub fn new(settings: CreditSettings) -> Self {
        let consumers = if settings.multicast {
            Consumers::Multicast(Multicast::new(settings.slack_percent, settings.multicast_stall))
        } else {
            Consumers::Anycast(Anycast::new(settings.slack_percent))
        };
        let mut senders = Senders::new();
        let anonymous = senders.join(0, true);
        debug_assert_eq!(anonymous, SenderSlot::ANONYMOUS.0);
        Self {
            settings,
            senders,
            consumers,
            drains: Lists::new(2),
            drain_deadlines: Vec::new(),
            draining_high: 0,
            drain_round: 0,
            remote_in_links: 0,
            share: 0,
            is_held_back: false,
            now: Time::ZERO,
        }
    }

    /// A sender attached; `capacity`: the linkCapacity of its listener.
    pub fn sender_joined(&mut self, capacity: u32) -> SenderSlot {
        SenderSlot(self.senders.join(capacity, false))
    }

    /// A sender's link is gone, and its credit with it. Its deliveries may still wait or be unsettled: they are
    /// told as before until they are done with.
    pub fn sender_left(&mut self, sender: SenderSlot) {
        self.senders.leave(sender.0);
        self.set_share();
    }

    /// A delivery came in: it used one credit and waits.
    #[inline]
    pub fn arrived(&mut self, sender: SenderSlot, now: Time) {
        self.now = self.now.max(now);
        if let Consumers::Multicast(multicast) = &mut self.consumers {
            multicast.arrived(now);
        }
        if self.senders.arrived(sender.0, self.now, self.placing()) {
            self.set_share();
        }
    }

    /// So many deliveries came in and are assigned at once, unsettled: each used one credit and never waits. Not for multicast.
    #[inline]
    pub fn passed(&mut self, sender: SenderSlot, count: u32, now: Time) {
        self.now = self.now.max(now);
        if self.senders.passed(sender.0, count, self.now, self.placing()) {
            self.set_share();
        }
    }

    /// A waiting delivery is assigned and unsettled; for multicast: all copies are.
    #[inline]
    pub fn assigned(&mut self, sender: SenderSlot) {
        self.senders.assigned(sender.0, self.placing());
    }

    /// A waiting delivery went out settled.
    #[inline]
    pub fn assigned_settled(&mut self, sender: SenderSlot) {
        self.senders.left_waiting(sender.0, self.placing());
    }

    /// A waiting delivery is released, rejected, dropped or aborted.
    pub fn abandoned(&mut self, sender: SenderSlot) {
        self.senders.left_waiting(sender.0, self.placing());
    }

    /// An assigned delivery waits again: its consumer is gone before anything of it was sent.
    pub fn unassigned(&mut self, sender: SenderSlot) {
        self.senders.unassigned(sender.0, self.placing());
    }

    /// An assigned delivery is settled.
    #[inline]
    pub fn settled(&mut self, sender: SenderSlot) {
        self.settled_run(sender, 1);
    }

    /// So many assigned deliveries are settled.
    #[inline]
    pub fn settled_run(&mut self, sender: SenderSlot, count: u32) {
        self.senders.settled(sender.0, count, self.placing());
    }

    /// The sender gave credit back: it answered a drain, or advanced its delivery-count by itself.
    pub fn returned(&mut self, sender: SenderSlot, credit: u32) {
        let dry = self.drains.length(DRAINING) > 0 && !self.has_lasting_window();
        self.senders.returned(sender.0, credit, self.drain_round, dry, self.placing());
    }

    /// The linkCapacity of its listener changed.
    pub fn sender_capacity_changed(&mut self, sender: SenderSlot, capacity: u32) {
        self.senders.set_capacity(sender.0, capacity, self.placing());
    }
}

/// Inputs from consumers' links.
impl AddressCredit {
    /// A consumer attached; `capacity`: the linkCapacity of its listener. It counts from its first flow.
    pub fn consumer_joined(&mut self, capacity: u32) -> ConsumerSlot {
        self.joined(capacity, false)
    }

    /// A router that has consumers of this address is reachable; what it can take is told by
    /// [`Self::remote_window_changed`], assignments to it like any other consumer's.
    pub fn remote_joined(&mut self, capacity: u32) -> ConsumerSlot {
        self.joined(capacity, true)
    }

    fn joined(&mut self, capacity: u32, remote: bool) -> ConsumerSlot {
        if self.attached() == 0 {
            self.senders.forget_asks(self.placing());
        }
        let slot = match &mut self.consumers {
            Consumers::Anycast(anycast) => anycast.join(capacity, remote),
            Consumers::Multicast(multicast) => multicast.join(capacity, remote),
        };
        self.drains.reserve(slot);
        if self.drain_deadlines.len() <= slot as usize {
            self.drain_deadlines.resize(slot as usize + 1, Time::ZERO);
        }
        ConsumerSlot(slot)
    }

    /// A flow: `room` is the credit that the consumer's link has now, less what was assigned to it already.
    pub fn consumer_flow(&mut self, consumer: ConsumerSlot, room: u32, now: Time) {
        self.now = self.now.max(now);
        if self.has_drains() {
            self.end_drain(consumer.0);
        }
        self.update_consumer(consumer, |one| one.flow(room));
        if room > 0 {
            self.senders.moisten();
        }
    }

    /// A flow with drain: what the senders have for this consumer is to be sent, then its credit is given back.
    pub fn consumer_drain(&mut self, consumer: ConsumerSlot, room: u32, now: Time) {
        self.now = self.now.max(now);
        self.update_maybe_draining(consumer, |one| one.flow(room));
        if room == 0 {
            self.end_drain(consumer.0);
            self.drains.push(DRAINED, consumer.0);
            return;
        }
        if self.drains.list_of(consumer.0) != Some(DRAINING) {
            self.drains.push(DRAINING, consumer.0);
            self.draining_high += self.high(consumer.0);
            self.drain_deadlines[consumer.0 as usize] = self.now + self.settings.drain_wait;
        }
        self.drain_round = self.drain_round.wrapping_add(1);
        self.senders.moisten();
        self.senders.ask(false);
    }

    /// A delivery (for multicast: a copy) is assigned to it, unsettled.
    #[inline]
    pub fn consumer_assigned(&mut self, consumer: ConsumerSlot) {
        self.consumer_assigned_run(consumer, 1, false);
    }

    /// A delivery (for multicast: a copy) is assigned to it, settled.
    #[inline]
    pub fn consumer_assigned_settled(&mut self, consumer: ConsumerSlot) {
        self.consumer_assigned_run(consumer, 1, true);
    }

    /// So many deliveries (for multicast: copies) are assigned to it.
    #[inline]
    pub fn consumer_assigned_run(&mut self, consumer: ConsumerSlot, count: u32, settled: bool) {
        match &mut self.consumers {
            Consumers::Anycast(anycast) => anycast.assigned(consumer.0, count, settled),
            Consumers::Multicast(multicast) => {
                (0..count).for_each(|_| multicast.assigned(consumer.0, settled, self.now));
                self.set_share();
            }
        }
        if self.drains.length(DRAINING) > 0 {
            self.end_drain_if_used(consumer);
        }
    }

    /// A draining consumer whose credit is used up needs no more.
    fn end_drain_if_used(&mut self, consumer: ConsumerSlot) {
        let draining = self.drains.list_of(consumer.0) == Some(DRAINING);
        if draining && self.consumer(consumer).is_some_and(|one| !one.blocked && one.room() == 0) {
            self.end_drain(consumer.0);
            self.drains.push(DRAINED, consumer.0);
        }
    }

    /// One of its deliveries is settled.
    #[inline]
    pub fn consumer_settled(&mut self, consumer: ConsumerSlot) {
        self.consumer_settled_run(consumer, 1);
    }

    /// So many of its deliveries are settled.
    #[inline]
    pub fn consumer_settled_run(&mut self, consumer: ConsumerSlot, count: u32) {
        match &mut self.consumers {
            Consumers::Anycast(anycast) => anycast.settled(consumer.0, count),
            Consumers::Multicast(multicast) => multicast.update(consumer.0, self.now, |one| one.settled(count)),
        }
    }

    /// One of its deliveries is taken back, not sent at all.
    pub fn consumer_unassigned(&mut self, consumer: ConsumerSlot) {
        match &mut self.consumers {
            Consumers::Anycast(anycast) => {
                anycast.update(consumer.0, Consumer::unassigned);
            }
            Consumers::Multicast(multicast) => multicast.unassigned(consumer.0, self.now),
        }
        self.set_share();
    }

    /// Multicast: a copy that waits for it won't be assigned: settled without room, or aborted.
    pub fn consumer_missed(&mut self, consumer: ConsumerSlot) {
        if let Consumers::Multicast(multicast) = &mut self.consumers {
            multicast.missed(consumer.0, self.now);
            self.set_share();
        }
    }

    /// Multicast: a delivery has its copies now, or never gets any. Who takes part from now on has no part in it.
    pub fn copied(&mut self) {
        if let Consumers::Multicast(multicast) = &mut self.consumers {
            multicast.copied();
        }
    }

    /// Its output is above the mark, or its session's window is closed: it has no room now.
    pub fn consumer_blocked(&mut self, consumer: ConsumerSlot) {
        self.update_maybe_draining(consumer, |one| one.set_blocked(true));
    }

    pub fn consumer_unblocked(&mut self, consumer: ConsumerSlot) {
        self.update_maybe_draining(consumer, |one| one.set_blocked(false));
        // Its window counted for nothing, perhaps, when senders gave back what they had.
        if self.senders.needs.length(need::DRY) > 0 && self.has_lasting_window() {
            self.senders.moisten();
        }
    }

    /// Its link is gone. What it hadn't settled is told as before.
    pub fn consumer_left(&mut self, consumer: ConsumerSlot) {
        self.end_drain(consumer.0);
        self.update_consumer(consumer, |one| one.left = true);
        if self.attached() == 0 {
            // Nothing is to be sent only to be released.
            self.senders.ask(true);
        }
    }

    /// What another router can take of this address: its consumers' windows, as far as they are for us.
    pub fn remote_window_changed(&mut self, consumer: ConsumerSlot, window: u32, now: Time) {
        let unsettled = self.consumer(consumer).map_or(0, |one| one.unsettled);
        self.consumer_flow(consumer, window.saturating_sub(unsettled), now);
    }

    /// How many senders other routers have, that share what the consumers can take.
    pub fn remote_in_links_changed(&mut self, in_links: u32) {
        self.remote_in_links = in_links;
        self.set_share();
    }

    #[inline]
    fn update_consumer(&mut self, consumer: ConsumerSlot, change: impl FnOnce(&mut Consumer)) {
        let changed = match &mut self.consumers {
            Consumers::Anycast(anycast) => anycast.update(consumer.0, change),
            Consumers::Multicast(multicast) => {
                multicast.update(consumer.0, self.now, change);
                true
            }
        };
        if changed {
            self.set_share();
        }
    }

    /// The same, of one that may be draining, and keeps the sum of these.
    fn update_maybe_draining(&mut self, consumer: ConsumerSlot, change: impl FnOnce(&mut Consumer)) {
        let is_draining = self.drains.list_of(consumer.0) == Some(DRAINING);
        let before = if is_draining { self.high(consumer.0) } else { 0 };
        self.update_consumer(consumer, change);
        if is_draining {
            self.draining_high = self.draining_high - before + self.high(consumer.0);
        }
    }

    fn high(&self, slot: u32) -> u64 {
        self.consumer(ConsumerSlot(slot)).map_or(0, |one| one.high().into())
    }

    #[inline]
    fn has_drains(&self) -> bool {
        self.drains.length(DRAINING) + self.drains.length(DRAINED) > 0
    }

    /// A drain is over, or its consumer changed its mind.
    fn end_drain(&mut self, slot: u32) {
        if self.drains.list_of(slot) == Some(DRAINING) {
            self.draining_high -= self.high(slot);
        }
        self.drains.remove(slot);
        if self.drains.length(DRAINING) == 0 && self.attached() > 0 {
            self.senders.forget_asks(self.placing());
        }
    }
}

/// Time, settings.
impl AddressCredit {
    /// Time went on. Late is no harm but to promptness; [`Self::poll_timeout`] says when there is something to do.
    pub fn tick(&mut self, now: Time) {
        self.now = self.now.max(now);
        let placing = self.placing();
        if self.senders.review(self.now, placing) {
            self.set_share();
        }
        while let Some(slot) = self.drains.first(DRAINING) {
            if self.drain_deadlines[slot as usize] > self.now {
                break;
            }
            self.end_drain(slot);
            self.drains.push(DRAINED, slot);
        }
    }

    /// When [`Self::tick`] is wanted.
    pub fn poll_timeout(&self) -> Option<Time> {
        let drain = self.drains.first(DRAINING).map(|slot| self.drain_deadlines[slot as usize]);
        let stall = match &self.consumers {
            Consumers::Anycast(_) => None,
            Consumers::Multicast(multicast) => multicast.poll_timeout(),
        };
        let review = self.senders.next_review();
        earliest([drain, stall, review])
    }

    /// Takes other settings at run time; treatment and rule stay.
    pub fn set_slack_percent(&mut self, percent: u32) {
        self.settings.slack_percent = percent;
        match &mut self.consumers {
            Consumers::Anycast(anycast) => anycast.set_slack_percent(percent),
            Consumers::Multicast(multicast) => multicast.set_slack_percent(percent),
        }
        self.set_share();
    }
}

/// Outputs.
impl AddressCredit {
    /// Memory is short: until it is said not to be, who has no credit gets it for one delivery, and nobody more. Each can go
    /// on, and with what he does then the rule is applied again.
    #[inline]
    pub fn hold_back(&mut self, yes: bool) {
        self.is_held_back = yes;
    }

    /// The next thing to tell a sender; to be polled until there is none.
    #[inline]
    pub fn poll_grant(&mut self) -> Option<Grant> {
        if self.senders.is_content() {
            return None;
        }
        self.next_grant()
    }

    fn next_grant(&mut self) -> Option<Grant> {
        let granted = match self.settings.flow_control {
            _ if !self.has_window() => None,
            FlowControl::Share => self.next_by_share(),
            FlowControl::Capacity => self.next_by_capacity(),
        };
        let Some((slot, add)) = granted else { return self.poll_ask() };
        let add = add + u32::from(self.settings.sabotage.meets(Sabotage::Overgrant, slot + add));
        debug_assert!(self.may_grant(slot, add), "a grant of {add} with a budget of {}", self.budget());
        self.senders.grant(slot, add, self.now, self.placing());
        let drain = self.drains.length(DRAINING) > 0
            && self.senders.get(slot).is_some_and(|sender| sender.returned_round != self.drain_round);
        if drain {
            self.senders.asked(slot, self.placing());
        }
        Some(Grant { sender: SenderSlot(slot), add, drain })
    }

    /// What the share rule must hold, whatever it weighs: nothing goes beyond the budget but one credit for a sender that
    /// has none. Said apart from the rule, so that an error in it shows.
    fn may_grant(&self, slot: u32, add: u32) -> bool {
        let has_none = self.senders.get(slot).is_some_and(|sender| sender.held() == 0);
        let by_capacity = self.settings.flow_control == FlowControl::Capacity;
        by_capacity || i64::from(add) <= self.budget() || (add == 1 && has_none)
    }

    /// The share rule: who gets how much.
    fn next_by_share(&mut self) -> Option<(u32, u32)> {
        let share = self.share();
        let budget = self.budget();
        let part = |budget: i64, of: u32| u32::try_from(budget / i64::from(of.max(1))).unwrap_or(0);
        // (1) Who can't send at all gets one; and more at once where that leaves one for each other such.
        if let Some(slot) = self.senders.needs.first(need::STARVED) {
            let starved = self.senders.needs.length(need::STARVED);
            let sender = self.senders.get(slot)?;
            let left = part(budget - i64::from(starved), starved);
            let most = if self.is_held_back { 1 } else { sender.limit };
            let below_share = share.saturating_sub(sender.window());
            return Some((slot, below_share.min(most).min(left.saturating_add(1)).max(1)));
        }
        if budget <= 0 || self.is_held_back {
            return None;
        }
        // (2) Who is below the share gets up to it. (3) What is left goes to those that used up all they had.
        for _ in 0..TRIES {
            let Some((slot, in_list)) = self.first_below_or_rest(share) else { return None };
            let sender = self.senders.get(slot)?;
            let fair = part(budget, self.senders.needs.length(in_list)).max(1);
            let mut add = fair.min(sender.limit.saturating_sub(sender.held()));
            if in_list == need::BELOW {
                add = add.min(share.saturating_sub(sender.window()));
            }
            if sender.is_worth(add) {
                return Some((slot, add));
            }
            self.senders.needs.push(in_list, slot);
        }
        None
    }

    /// The next by need that isn't starved. One that has its share by now is moved on.
    fn first_below_or_rest(&mut self, share: u32) -> Option<(u32, usize)> {
        while let Some(slot) = self.senders.needs.first(need::BELOW) {
            let sender = self.senders.get(slot)?;
            if sender.window() < share {
                return Some((slot, need::BELOW));
            }
            let list = sender.exhausted.then_some(need::REST);
            self.senders.needs.place(list, slot);
        }
        self.senders.needs.first(need::REST).map(|slot| (slot, need::REST))
    }

    /// The capacity rule: each up to its link's capacity.
    fn next_by_capacity(&mut self) -> Option<(u32, u32)> {
        loop {
            let needs = &self.senders.needs;
            let slot = needs.first(need::STARVED).or_else(|| needs.first(need::BELOW))?;
            let sender = self.senders.get(slot)?;
            let mut add = sender.capacity.saturating_sub(sender.window());
            if self.is_held_back {
                add = add.min(1_u32.saturating_sub(sender.held()));
            }
            if add > 0 {
                return Some((slot, add));
            }
            // With what it does next it is listed again.
            self.senders.needs.remove(slot);
        }
    }

    fn poll_ask(&mut self) -> Option<Grant> {
        let slot = self.senders.asks.first(ask::PENDING)?;
        self.senders.asked(slot, self.placing());
        Some(Grant { sender: SenderSlot(slot), add: 0, drain: true })
    }

    /// The next consumer whose drain is to be answered; its credit is then 0. To be polled when deliveries
    /// that wait were assigned and [`Self::poll_grant`] has nothing more.
    pub fn poll_drained(&mut self) -> Option<ConsumerSlot> {
        let slot = match self.drains.first(DRAINED) {
            Some(slot) => slot,
            None => {
                let slot = self.drains.first(DRAINING)?;
                let starved = self.has_window() && self.senders.needs.length(need::STARVED) > 0;
                let asked = self.senders.asks.length(ask::PENDING) + self.senders.asks.length(ask::ASKED) > 0;
                if starved || asked || self.senders.waiting() > 0 {
                    return None;
                }
                slot
            }
        };
        self.end_drain(slot);
        self.update_consumer(ConsumerSlot(slot), Consumer::drained);
        if self.has_lasting_window() {
            self.senders.moisten();
        }
        Some(ConsumerSlot(slot))
    }

    /// Multicast: the next consumer that has had no room for too long: it is to be set aside, or to be excused.
    pub fn stalled(&self) -> Option<ConsumerSlot> {
        match &self.consumers {
            Consumers::Anycast(_) => None,
            Consumers::Multicast(multicast) => multicast.stalled(self.now).map(ConsumerSlot),
        }
    }

    /// A stalled consumer waits for a sender rather than the reverse: its time begins anew.
    pub fn excuse(&mut self, consumer: ConsumerSlot) {
        if let Consumers::Multicast(multicast) = &mut self.consumers {
            multicast.excuse(consumer.0, self.now);
        }
    }

    /// A stalled consumer's waiting copies are to be released; none is made for it until it gives credit again
    /// ([`Self::is_active`]).
    pub fn set_aside(&mut self, consumer: ConsumerSlot) {
        if let Consumers::Multicast(multicast) = &mut self.consumers {
            multicast.set_aside(consumer.0, self.now);
            self.set_share();
        }
    }
}

/// Getters.
impl AddressCredit {
    /// What each sender that sends may have in the router: `targetInCredit`.
    #[inline]
    pub fn share(&self) -> u32 {
        self.share
    }

    /// To be called when what it is made of has changed.
    fn set_share(&mut self) {
        self.share = self.share_now();
    }

    fn share_now(&self) -> u32 {
        if !self.has_window() {
            return 0;
        }
        let supply = match &self.consumers {
            Consumers::Anycast(anycast) => anycast.supply(),
            Consumers::Multicast(multicast) => multicast.supply(),
        };
        let senders = self.senders.active().saturating_add(self.remote_in_links).max(1);
        (supply / u64::from(senders)).clamp(1, u64::from(u32::MAX)) as u32
    }

    /// What may be granted beyond a sender's first.
    #[inline]
    pub fn budget(&self) -> i64 {
        let counted = self.senders.counted() as i64;
        match &self.consumers {
            Consumers::Anycast(anycast) => anycast.budget() - counted - self.senders.waiting() as i64,
            Consumers::Multicast(multicast) => multicast.budget() - counted,
        }
    }

    #[inline]
    fn has_window(&self) -> bool {
        match &self.consumers {
            Consumers::Anycast(anycast) => anycast.has_window(),
            Consumers::Multicast(multicast) => multicast.has_window(),
        }
    }

    /// Whether a consumer has a window that doesn't end with its drain.
    fn has_lasting_window(&self) -> bool {
        if self.drains.length(DRAINING) == 0 {
            return self.has_window();
        }
        self.local_out_capacity() + self.remote_out_capacity() > self.draining_high
    }

    #[inline]
    fn placing(&self) -> Placing {
        Placing { share: self.share, by_capacity: self.settings.flow_control == FlowControl::Capacity }
    }

    fn consumer(&self, consumer: ConsumerSlot) -> Option<&Consumer> {
        match &self.consumers {
            Consumers::Anycast(anycast) => anycast.get(consumer.0),
            Consumers::Multicast(multicast) => multicast.get(consumer.0),
        }
    }

    fn attached(&self) -> u32 {
        match &self.consumers {
            Consumers::Anycast(anycast) => anycast.attached(),
            Consumers::Multicast(multicast) => multicast.attached(),
        }
    }

    /// Whether deliveries go to this consumer: for anycast while it has room, for multicast unless it is set
    /// aside or never gave credit.
    pub fn is_active(&self, consumer: ConsumerSlot) -> bool {
        match &self.consumers {
            Consumers::Anycast(anycast) => anycast.get(consumer.0).is_some_and(|one| one.room() > 0),
            Consumers::Multicast(multicast) => multicast.is_active(consumer.0),
        }
    }

    pub fn consumer_room(&self, consumer: ConsumerSlot) -> u32 {
        self.consumer(consumer).map_or(0, Consumer::room)
    }

    pub fn consumer_window(&self, consumer: ConsumerSlot) -> u32 {
        self.consumer(consumer).map_or(0, Consumer::window)
    }

    /// Link attribute `creditWindow`.
    pub fn credit_window(&self, sender: SenderSlot) -> u32 {
        self.senders.get(sender.0).map_or(0, senders::Sender::window)
    }

    /// A sender's deliveries that have no consumer yet.
    pub fn sender_waiting(&self, sender: SenderSlot) -> u32 {
        self.senders.get(sender.0).map_or(0, |one| one.waiting)
    }

    /// Credit that a sender was granted and hasn't used.
    pub fn unused(&self, sender: SenderSlot) -> u32 {
        self.senders.get(sender.0).map_or(0, |one| one.unused)
    }

    /// When a sender used its last credit; the begin of time, where it had none yet.
    pub fn dry_since(&self, sender: SenderSlot) -> Time {
        self.senders.get(sender.0).map_or(Time::ZERO, |one| one.dry_since)
    }

    pub fn local_in_links(&self) -> u32 {
        self.senders.attached()
    }

    /// Senders that used no credit lately and have nothing waiting.
    pub fn idle_in_links(&self) -> u32 {
        self.senders.attached() - self.senders.active()
    }

    pub fn local_out_capacity(&self) -> u64 {
        match &self.consumers {
            Consumers::Anycast(anycast) => anycast.capacity_local(),
            Consumers::Multicast(multicast) => multicast.capacity_local(),
        }
    }

    pub fn remote_in_links(&self) -> u32 {
        self.remote_in_links
    }

    pub fn remote_out_capacity(&self) -> u64 {
        match &self.consumers {
            Consumers::Anycast(anycast) => anycast.capacity_remote(),
            Consumers::Multicast(multicast) => multicast.capacity_remote(),
        }
    }

    pub fn waiting(&self) -> u64 {
        self.senders.waiting()
    }

    /// Multicast: how often a consumer was set aside.
    pub fn set_aside_count(&self) -> u64 {
        match &self.consumers {
            Consumers::Anycast(_) => 0,
            Consumers::Multicast(multicast) => multicast.set_aside_count(),
        }
    }

    /// Nobody is attached and nothing is on its way.
    pub fn is_empty(&self) -> bool {
        let consumers = match &self.consumers {
            Consumers::Anycast(anycast) => anycast.is_empty(),
            Consumers::Multicast(multicast) => multicast.is_empty(),
        };
        consumers && self.senders.is_idle()
    }

    /// For tests and the simulator: everything that is kept is what it stands for. O(links).
    pub fn check_invariants(&self) {
        self.senders.check_invariants(self.placing());
        assert_eq!(self.share, self.share_now());
        match &self.consumers {
            Consumers::Anycast(anycast) => anycast.check_invariants(),
            Consumers::Multicast(multicast) => multicast.check_invariants(),
        }
        let draining = std::iter::successors(self.drains.first(DRAINING), |slot| self.drains.next(*slot));
        assert_eq!(self.draining_high, draining.map(|slot| self.high(slot)).sum::<u64>());
        if self.attached() > 0 && self.drains.length(DRAINING) == 0 {
            assert_eq!(self.senders.asks.length(ask::ASKED) + self.senders.asks.length(ask::PENDING), 0);
        }
    }
}

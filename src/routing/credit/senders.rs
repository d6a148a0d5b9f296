//! What the senders of an address hold: each one's figures, their sums, and the lists by need.

use super::{BURST, REVIEW_PERIOD};
use crate::routing::lists::Lists;
use crate::time::Time;
use slab::Slab;

/// The limit of a new sender: what it may hold before it has shown that it uses it.
pub(super) const LIMIT_START: u32 = 8;

/// The least limit. One is enough for who sends now and then; a second shows whether it sends both at once.
pub(super) const LIMIT_MIN: u32 = 2;

/// Which part of what it didn't touch in a period, while it used some, is taken off a sender's limit: slowly, since
/// it grows by doubling.
const DECAY: u32 = 4;

/// More credit is worth a flow when it is at least this part of what it has unused and waiting.
const WORTH: u32 = 16;

/// Lists by need; a sender is in at most one.
pub(super) mod need {
    /// Nothing unused, nothing waiting: it can't send at all.
    pub const STARVED: usize = 0;
    /// It uses what it gets, and its window was below the share.
    pub const BELOW: usize = 1;
    /// It uses what it gets, and has its share.
    pub const REST: usize = 2;
    /// It gave back what a drain asked for: it has nothing to send, until somebody asks anew.
    pub const DRY: usize = 3;
    pub const LISTS: usize = 4;
}

/// Lists of a drain; a sender is in at most one.
pub(super) mod ask {
    /// To be asked.
    pub const PENDING: usize = 0;
    /// Asked, and it hasn't used or returned everything yet.
    pub const ASKED: usize = 1;
    /// Not asked, and it may have something to send: the next drain asks it. One that has been idle isn't here, so
    /// that a drain costs nothing for it. Kept from the first drain on.
    pub const READY: usize = 2;
    pub const LISTS: usize = 3;
}

/// One sender.
///
/// `unused`: granted and not arrived. `waiting`: arrived and not assigned. `unsettled`: assigned and not
/// settled. The window, shown as `creditWindow`, is their sum.
#[derive(Debug, Clone, Default)]
pub(super) struct Sender {
    pub(super) capacity: u32,
    pub(super) unused: u32,
    pub(super) waiting: u32,
    pub(super) unsettled: u32,
    /// What unused and waiting may be together.
    pub(super) limit: u32,
    /// The least that `unused` was since the last review.
    low: u32,
    /// Credit that it holds and doesn't need: what it didn't touch from one review to the next.
    pub(super) spare: u32,
    /// It was granted up to its limit: when all of that is used in one burst, the limit doubles.
    at_limit: bool,
    /// When the first delivery came since it was granted up to its limit.
    burst_since: Option<Time>,
    /// It used up all that it had, in this period or the one before.
    pub(super) exhausted: bool,
    exhausted_now: bool,
    /// It used credit, or had some waiting, in this period or the one before.
    active: bool,
    used: bool,
    pub(super) left: bool,
    pub(super) anonymous: bool,
    /// A drain asked it, and it hasn't used or returned all: more credit would call the drain off.
    asked: bool,
    /// The last drain in which it returned credit, so had nothing more to send.
    pub(super) returned_round: u32,
    review_at: Time,
    /// When it used its last credit.
    pub(super) dry_since: Time,
}

impl Sender {
    #[inline]
    pub(super) fn held(&self) -> u32 {
        self.unused.saturating_add(self.waiting)
    }

    #[inline]
    pub(super) fn window(&self) -> u32 {
        self.held().saturating_add(self.unsettled)
    }

    /// What of its unused credit counts against the budget. One that has shown to send now and then has one
    /// for nothing: that is the one a sender which may come beyond the budget.
    #[inline]
    fn counted(&self) -> u32 {
        if self.left {
            return 0;
        }
        let free = u32::from(self.limit <= LIMIT_MIN);
        self.unused.saturating_sub(self.spare.max(free))
    }

    /// Whether to tell it of so much more: one that has plenty isn't told of each single credit.
    #[inline]
    pub(super) fn is_worth(&self, add: u32) -> bool {
        add.saturating_mul(WORTH) >= self.held()
    }

    #[inline]
    fn set_unused(&mut self, unused: u32) {
        self.unused = unused;
        self.low = self.low.min(unused);
        self.spare = self.spare.min(unused);
    }

    fn is_gone(&self) -> bool {
        self.left && self.waiting == 0 && self.unsettled == 0
    }
}

/// How a sender's place in the lists by need is found.
#[derive(Clone, Copy)]
pub(super) struct Placing {
    pub(super) share: u32,
    pub(super) by_capacity: bool,
}

pub(super) struct Senders {
    senders: Slab<Sender>,
    pub(super) needs: Lists,
    pub(super) asks: Lists,
    /// A consumer has drained: it is kept who is ready to be asked.
    has_drained: bool,
    /// Senders whose spare, limit and activity are looked at when their time comes; all wait the same time,
    /// so they are in its order.
    reviews: Lists,
    /// Σ of what counts of unused credit.
    counted: u64,
    waiting: u64,
    attached: u32,
    active: u32,
}

impl Senders {
    pub(super) fn new() -> Self {
        Self {
            senders: Slab::new(),
            needs: Lists::new(need::LISTS),
            asks: Lists::new(ask::LISTS),
            has_drained: false,
            reviews: Lists::new(1),
            counted: 0,
            waiting: 0,
            attached: 0,
            active: 0,
        }
    }

    pub(super) fn join(&mut self, capacity: u32, anonymous: bool) -> u32 {
        let limit = if anonymous { 0 } else { LIMIT_START.min(capacity.max(1)) };
        let slot = self.senders.insert(Sender { capacity, limit, anonymous, ..Sender::default() }) as u32;
        self.needs.reserve(slot);
        self.asks.reserve(slot);
        self.reviews.reserve(slot);
        if !anonymous {
            self.attached += 1;
            self.needs.push(need::STARVED, slot);
        }
        slot
    }

    pub(super) fn leave(&mut self, slot: u32) {
        let Some(sender) = self.senders.get_mut(slot as usize) else { return };
        if sender.left || sender.anonymous {
            return;
        }
        self.counted -= u64::from(sender.counted());
        sender.left = true;
        sender.unused = 0;
        sender.spare = 0;
        sender.low = 0;
        self.attached -= 1;
        if sender.active {
            sender.active = false;
            self.active -= 1;
        }
        let gone = sender.is_gone();
        self.needs.remove(slot);
        self.asks.remove(slot);
        self.reviews.remove(slot);
        if gone {
            self.senders.remove(slot as usize);
        }
    }

    #[inline]
    pub(super) fn get(&self, slot: u32) -> Option<&Sender> {
        self.senders.get(slot as usize)
    }

    /// Changes one, keeps the sums and its place in the lists.
    #[inline]
    fn update(&mut self, slot: u32, placing: Placing, change: impl FnOnce(&mut Sender)) {
        let Some(sender) = self.senders.get_mut(slot as usize) else {
            debug_assert!(false, "unknown sender");
            return;
        };
        let (counted, waiting) = (sender.counted(), sender.waiting);
        change(sender);
        self.counted = self.counted - u64::from(counted) + u64::from(sender.counted());
        self.waiting = self.waiting - u64::from(waiting) + u64::from(sender.waiting);
        if sender.left || sender.anonymous {
            if sender.is_gone() {
                self.senders.remove(slot as usize);
            }
            return;
        }
        let list = Self::need_of(sender, placing, self.needs.list_of(slot));
        self.needs.place(list, slot);
    }

    #[inline]
    fn need_of(sender: &Sender, placing: Placing, now_in: Option<usize>) -> Option<usize> {
        if placing.by_capacity {
            return (sender.window() < sender.capacity && !sender.asked).then_some(need::BELOW);
        }
        if sender.held() == 0 {
            return Some(if now_in == Some(need::DRY) { need::DRY } else { need::STARVED });
        }
        let below_limit = sender.limit.saturating_sub(sender.held());
        if sender.asked || sender.spare > 0 || below_limit == 0 || !sender.is_worth(below_limit) {
            return None;
        }
        if sender.window() < placing.share {
            return Some(need::BELOW);
        }
        sender.exhausted.then_some(need::REST)
    }

    fn schedule_review(&mut self, slot: u32, now: Time) {
        if self.reviews.list_of(slot).is_some() {
            return;
        }
        if let Some(sender) = self.senders.get_mut(slot as usize) {
            sender.low = sender.unused;
            sender.review_at = now + REVIEW_PERIOD;
            self.reviews.push(0, slot);
        }
        self.place_ask(slot);
    }

    /// Whether a drain asks it: it may have something to send. One with spare credit would have sent by now what it has.
    fn is_ready(&self, slot: u32, sender: &Sender) -> bool {
        sender.unused > sender.spare && self.reviews.list_of(slot).is_some()
    }

    /// What it has unused or to spare changed, or it is reviewed from now on: one that isn't asked is ready to be, or not.
    #[inline]
    fn place_ask(&mut self, slot: u32) {
        if self.has_drained {
            self.place_ready(slot);
        }
    }

    fn place_ready(&mut self, slot: u32) {
        if matches!(self.asks.list_of(slot), Some(ask::PENDING | ask::ASKED)) {
            return;
        }
        let Some(sender) = self.senders.get(slot as usize) else { return };
        let ready = !sender.left && !sender.anonymous && self.is_ready(slot, sender);
        self.asks.place(ready.then_some(ask::READY), slot);
    }

    /// One that uses and fills what it holds: what it holds in all and its window stay the same, so its place does,
    /// but where it has no spare credit any more, or nothing unused. True: it wasn't active and is now.
    #[inline]
    pub(super) fn arrived(&mut self, slot: u32, now: Time, placing: Placing) -> bool {
        let Some(sender) = self.senders.get_mut(slot as usize) else {
            debug_assert!(false, "unknown sender");
            return false;
        };
        debug_assert!(sender.unused > 0 || sender.anonymous, "a delivery without credit");
        self.waiting += 1;
        sender.waiting = sender.waiting.saturating_add(1);
        if sender.anonymous || sender.left {
            return false;
        }
        let (counted, spare) = (sender.counted(), sender.spare);
        sender.set_unused(sender.unused.saturating_sub(1));
        self.counted -= u64::from(counted - sender.counted());
        sender.used = true;
        let activated = !sender.active;
        let since = *sender.burst_since.get_or_insert(now);
        if sender.unused == 0 || spare > 0 {
            self.used_last_or_spare(slot, now, since, placing);
        }
        if activated {
            self.activate(slot, now);
        }
        activated
    }

    /// What `arrived` and `assigned` do so many times, for one that is attached and has credit of its own: it holds less, its
    /// window stays the same.
    #[inline]
    pub(super) fn passed(&mut self, slot: u32, count: u32, now: Time, placing: Placing) -> bool {
        let Some(sender) = self.senders.get_mut(slot as usize) else {
            debug_assert!(false, "unknown sender");
            return false;
        };
        debug_assert!(sender.unused >= count && !sender.left && !sender.anonymous, "a delivery without credit");
        sender.unsettled = sender.unsettled.saturating_add(count);
        let (counted, spare) = (sender.counted(), sender.spare);
        sender.set_unused(sender.unused.saturating_sub(count));
        self.counted -= u64::from(counted - sender.counted());
        sender.used = true;
        let activated = !sender.active;
        let since = *sender.burst_since.get_or_insert(now);
        if sender.unused == 0 || spare > 0 {
            self.used_last_or_spare(slot, now, since, placing);
        } else if self.needs.list_of(slot).is_none() {
            if let Some(list) = Self::need_of(sender, placing, None) {
                self.needs.push(list, slot);
            }
        }
        if activated {
            self.activate(slot, now);
        }
        activated
    }

    /// It has nothing unused any more, or less that is spare.
    fn used_last_or_spare(&mut self, slot: u32, now: Time, since: Time, placing: Placing) {
        self.update(slot, placing, |sender| {
            if sender.unused > 0 {
                return;
            }
            sender.asked = false;
            sender.dry_since = now;
            sender.exhausted = true;
            sender.exhausted_now = true;
            if std::mem::take(&mut sender.at_limit) && now.since(since) <= BURST {
                sender.limit = sender.limit.saturating_mul(2).min(sender.capacity.max(1));
            }
        });
        if self.get(slot).is_some_and(|sender| sender.unused == 0) {
            self.asks.remove(slot);
        } else {
            self.place_ask(slot);
        }
    }

    fn activate(&mut self, slot: u32, now: Time) {
        if let Some(sender) = self.senders.get_mut(slot as usize) {
            sender.active = true;
            self.active += 1;
        }
        self.schedule_review(slot, now);
    }

    /// A delivery stops waiting: it holds less. In a list already, it stays where it is, unless it has nothing now.
    #[inline]
    fn stop_waiting(&mut self, slot: u32, assigned: bool, placing: Placing) {
        let Some(sender) = self.senders.get_mut(slot as usize) else {
            debug_assert!(false, "unknown sender");
            return;
        };
        debug_assert!(sender.waiting > 0);
        self.waiting -= u64::from(sender.waiting > 0);
        sender.waiting = sender.waiting.saturating_sub(1);
        sender.unsettled = sender.unsettled.saturating_add(u32::from(assigned));
        if sender.held() == 0 {
            self.update(slot, placing, |_| ());
        } else if self.needs.list_of(slot).is_none() && !sender.left && !sender.anonymous {
            if let Some(list) = Self::need_of(sender, placing, None) {
                self.needs.push(list, slot);
            }
        }
    }

    #[inline]
    pub(super) fn assigned(&mut self, slot: u32, placing: Placing) {
        self.stop_waiting(slot, true, placing);
    }

    /// A waiting delivery is done with.
    #[inline]
    pub(super) fn left_waiting(&mut self, slot: u32, placing: Placing) {
        self.stop_waiting(slot, false, placing);
    }

    /// Its window is smaller: it may be below the share now.
    #[inline]
    pub(super) fn settled(&mut self, slot: u32, count: u32, placing: Placing) {
        let Some(sender) = self.senders.get_mut(slot as usize) else {
            debug_assert!(false, "unknown sender");
            return;
        };
        debug_assert!(sender.unsettled >= count);
        sender.unsettled = sender.unsettled.saturating_sub(count);
        match self.needs.list_of(slot) {
            Some(need::STARVED | need::BELOW | need::DRY) => {}
            _ if sender.spare > 0 && !placing.by_capacity => {}
            _ => self.update(slot, placing, |_| ()),
        }
    }

    pub(super) fn unassigned(&mut self, slot: u32, placing: Placing) {
        self.update(slot, placing, |sender| {
            debug_assert!(sender.unsettled > 0);
            sender.unsettled = sender.unsettled.saturating_sub(1);
            sender.waiting = sender.waiting.saturating_add(1);
        });
    }

    /// It gave credit back. `dry`: it is known to have nothing to send.
    pub(super) fn returned(&mut self, slot: u32, credit: u32, round: u32, dry: bool, placing: Placing) {
        self.update(slot, placing, |sender| {
            sender.at_limit = false;
            sender.returned_round = round;
            sender.set_unused(sender.unused.saturating_sub(credit));
            sender.asked &= sender.unused > 0;
        });
        let Some(sender) = self.senders.get(slot as usize) else { return };
        let is_dry = dry && sender.held() == 0 && !sender.left && !sender.anonymous;
        if sender.unused == 0 {
            self.asks.remove(slot);
        } else {
            self.place_ask(slot);
        }
        if is_dry {
            self.needs.push(need::DRY, slot);
        }
    }

    /// Grants, and puts it behind the others of its list.
    #[inline]
    pub(super) fn grant(&mut self, slot: u32, add: u32, now: Time, placing: Placing) {
        let Some(sender) = self.senders.get_mut(slot as usize) else { return };
        let counted = sender.counted();
        sender.unused = sender.unused.saturating_add(add);
        if sender.held() >= sender.limit {
            sender.at_limit = true;
            sender.burst_since = None;
        }
        self.counted += u64::from(sender.counted() - counted);
        match Self::need_of(sender, placing, None) {
            Some(list) => self.needs.push(list, slot),
            None => self.needs.remove(slot),
        }
        if !placing.by_capacity && self.reviews.list_of(slot).is_none() {
            self.schedule_review(slot, now);
        } else {
            self.place_ask(slot);
        }
    }

    /// Nobody needs more, and nobody is to be asked.
    #[inline]
    pub(super) fn is_content(&self) -> bool {
        let of = |list| self.needs.length(list);
        of(need::STARVED) + of(need::BELOW) + of(need::REST) + self.asks.length(ask::PENDING) == 0
    }

    /// Looks at those whose time has come. True: the number of active ones changed.
    pub(super) fn review(&mut self, now: Time, placing: Placing) -> bool {
        let active = self.active;
        while let Some(slot) = self.reviews.first(0) {
            if self.get(slot).is_none_or(|sender| sender.review_at > now) {
                break;
            }
            self.review_one(slot, now, placing);
        }
        active != self.active
    }

    fn review_one(&mut self, slot: u32, now: Time, placing: Placing) {
        let mut went_idle = false;
        let mut again = true;
        self.update(slot, placing, |sender| {
            sender.spare = sender.low;
            sender.low = sender.unused;
            // One that used some and left some needs less. One that used none says nothing: it may be far away.
            let least = LIMIT_MIN.min(sender.capacity.max(1));
            if sender.used {
                sender.limit = sender.limit.saturating_sub(sender.spare.div_ceil(DECAY)).max(least);
            }
            sender.exhausted = std::mem::take(&mut sender.exhausted_now);
            let active = sender.used || sender.waiting > 0;
            sender.used = false;
            let was_active = sender.active;
            sender.active = was_active && active;
            went_idle = was_active && !active;
            sender.review_at = now + REVIEW_PERIOD;
            again = was_active
                || sender.spare < sender.unused
                || (sender.unused > 0 && sender.limit > least)
                || sender.exhausted;
        });
        if went_idle {
            self.active -= 1;
        }
        if again {
            self.reviews.push(0, slot);
        } else {
            self.reviews.remove(slot);
        }
        self.place_ask(slot);
    }

    pub(super) fn next_review(&self) -> Option<Time> {
        let slot = self.reviews.first(0)?;
        self.senders.get(slot as usize).map(|sender| sender.review_at)
    }

    /// Marks for asking: those that may have something to send; with `all`, each that has unused credit.
    pub(super) fn ask(&mut self, all: bool) {
        if all {
            for (slot, sender) in self.senders.iter() {
                if sender.unused > 0 && !sender.left {
                    self.asks.push(ask::PENDING, slot as u32);
                }
            }
            return;
        }
        if !std::mem::replace(&mut self.has_drained, true) {
            let mut at = self.reviews.first(0);
            while let Some(slot) = at {
                at = self.reviews.next(slot);
                self.place_ready(slot);
            }
        }
        while let Some(slot) = self.asks.first(ask::READY) {
            self.asks.push(ask::PENDING, slot);
        }
    }

    /// Marks one as asked.
    pub(super) fn asked(&mut self, slot: u32, placing: Placing) {
        self.asks.push(ask::ASKED, slot);
        self.update(slot, placing, |sender| sender.asked = true);
    }

    /// No drain waits for an answer any more.
    pub(super) fn forget_asks(&mut self, placing: Placing) {
        while let Some(slot) = self.asks.first(ask::PENDING) {
            self.asks.remove(slot);
            self.place_ask(slot);
        }
        while let Some(slot) = self.asks.first(ask::ASKED) {
            self.asks.remove(slot);
            self.update(slot, placing, |sender| sender.asked = false);
            self.place_ask(slot);
        }
    }

    /// Those that had nothing to send are to be opened again.
    pub(super) fn moisten(&mut self) {
        while let Some(slot) = self.needs.first(need::DRY) {
            self.needs.push(need::STARVED, slot);
        }
    }

    #[inline]
    pub(super) fn counted(&self) -> u64 {
        self.counted
    }

    #[inline]
    pub(super) fn waiting(&self) -> u64 {
        self.waiting
    }

    #[inline]
    pub(super) fn active(&self) -> u32 {
        self.active
    }

    pub(super) fn attached(&self) -> u32 {
        self.attached
    }

    pub(super) fn set_capacity(&mut self, slot: u32, capacity: u32, placing: Placing) {
        self.update(slot, placing, |sender| {
            sender.capacity = capacity;
            sender.limit = sender.limit.min(capacity.max(1));
        });
    }

    pub(super) fn is_idle(&self) -> bool {
        self.attached == 0 && self.waiting == 0 && self.senders.iter().all(|(_, sender)| sender.anonymous)
    }

    pub(super) fn check_invariants(&self, placing: Placing) {
        let all = || self.senders.iter().map(|(_, sender)| sender);
        assert_eq!(self.counted, all().map(|sender| u64::from(sender.counted())).sum::<u64>());
        assert_eq!(self.waiting, all().map(|sender| u64::from(sender.waiting)).sum::<u64>());
        assert_eq!(self.active as usize, all().filter(|sender| sender.active).count());
        assert_eq!(self.attached as usize, all().filter(|sender| !sender.left && !sender.anonymous).count());
        for (slot, sender) in self.senders.iter() {
            let slot = slot as u32;
            assert!(sender.spare <= sender.unused && sender.low <= sender.unused);
            assert!(!sender.is_gone());
            if sender.left || sender.anonymous {
                assert_eq!(self.needs.list_of(slot), None);
                continue;
            }
            assert_eq!(sender.asked, self.asks.list_of(slot) == Some(ask::ASKED));
            let asked = matches!(self.asks.list_of(slot), Some(ask::PENDING | ask::ASKED));
            let ready = self.has_drained && self.is_ready(slot, sender);
            assert!(asked || ready == (self.asks.list_of(slot) == Some(ask::READY)));
            assert!(sender.limit <= sender.capacity.max(1));
            let starved = matches!(self.needs.list_of(slot), Some(need::STARVED | need::DRY));
            assert!(placing.by_capacity || starved == (sender.held() == 0));
            // What isn't spare is looked at again.
            assert!(sender.unused == sender.spare || placing.by_capacity || self.reviews.list_of(slot).is_some());
            assert!(!sender.active || self.reviews.list_of(slot).is_some());
        }
    }
}

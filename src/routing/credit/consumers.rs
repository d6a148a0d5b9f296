//! What the consumers of an anycast address can take: sums that are kept as each one changes.

use crate::limits::CONSUMER_WINDOW_MAX;
use slab::Slab;

/// What one consumer has.
///
/// `room`: credit that it gave less what was assigned to it. `unsettled`: assigned and not yet settled.
/// `passed`: went out settled, and no credit came back for it yet; so it is taken for still being there.
/// `window` = room + unsettled + passed. `high`: the window's high-water over the last two flows, so that one
/// which settles and tops up in batches doesn't make the share flap:
///
/// ```text
///                        room  unsettled  window  high
/// flow of 300             300          0     300   300
/// 300 assigned              0        300     300   300
/// 300 settled               0          0       0   300
/// flow of 300             300          0     300   300
///
///                        room  passed     window  high
/// flow of 100             100       0        100   100
/// 100 went out settled      0     100        100   100
/// flow, 2 more              2      98        100   100
/// ```
#[derive(Debug, Clone, Default)]
pub(super) struct Consumer {
    pub(super) capacity: u32,
    pub(super) remote: bool,
    pub(super) left: bool,
    /// Its output is above its mark, or its session's window is closed: its credit is no room now.
    pub(super) blocked: bool,
    /// What it gave less what was assigned, whether or not it can be used now.
    credit: u32,
    pub(super) unsettled: u32,
    passed: u32,
    high_previous: u32,
    high_current: u32,
}

impl Consumer {
    pub(super) fn new(capacity: u32, remote: bool) -> Self {
        Self { capacity, remote, ..Self::default() }
    }

    #[inline]
    pub(super) fn room(&self) -> u32 {
        if self.blocked || self.left {
            0
        } else {
            self.credit.min(CONSUMER_WINDOW_MAX)
        }
    }

    #[inline]
    pub(super) fn window(&self) -> u32 {
        self.room().saturating_add(self.unsettled).saturating_add(self.passed).min(CONSUMER_WINDOW_MAX)
    }

    #[inline]
    pub(super) fn high(&self) -> u32 {
        if self.left {
            0
        } else {
            self.high_previous.max(self.high_current)
        }
    }

    /// What may wait in the router for this consumer, so that both hops stay busy.
    #[inline]
    pub(super) fn slack(&self, percent: u32) -> u32 {
        self.slack_of(self.high(), percent)
    }

    fn slack_of(&self, high: u32, percent: u32) -> u32 {
        let window = u64::from(high.min(self.capacity));
        (window * u64::from(percent) / 100).min(u64::from(CONSUMER_WINDOW_MAX)) as u32
    }

    pub(super) fn flow(&mut self, room: u32) {
        self.passed = self.passed.saturating_sub(room.saturating_sub(self.credit));
        self.credit = room;
        self.high_previous = self.high_current;
        self.high_current = self.window();
        if room == 0 {
            // It takes nothing more: no old high-water speaks for it.
            self.high_previous = self.high_current;
        }
    }

    /// Its credit is given back: a drain was answered.
    pub(super) fn drained(&mut self) {
        self.passed = 0;
        self.flow(0);
    }

    pub(super) fn set_blocked(&mut self, blocked: bool) {
        self.blocked = blocked;
        self.high_current = self.high_current.max(self.window());
    }

    #[inline]
    pub(super) fn assigned(&mut self, count: u32, settled: bool) {
        debug_assert!(self.credit >= count, "assigned beyond the consumer's credit");
        self.credit = self.credit.saturating_sub(count);
        let kept = if settled { &mut self.passed } else { &mut self.unsettled };
        *kept = kept.saturating_add(count);
    }

    #[inline]
    pub(super) fn settled(&mut self, count: u32) {
        debug_assert!(self.unsettled >= count);
        self.unsettled = self.unsettled.saturating_sub(count);
    }

    /// A delivery that was assigned and not sent at all is taken back.
    pub(super) fn unassigned(&mut self) {
        self.settled(1);
        self.credit = self.credit.saturating_add(1);
    }

    pub(super) fn is_gone(&self) -> bool {
        self.left && self.unsettled == 0
    }
}

/// The consumers of an anycast address and their sums.
pub(super) struct Anycast {
    consumers: Slab<Consumer>,
    slack_percent: u32,
    room: u64,
    slack: u64,
    high_local: u64,
    high_remote: u64,
    /// Those that haven't left.
    attached: u32,
}

impl Anycast {
    pub(super) fn new(slack_percent: u32) -> Self {
        Self { consumers: Slab::new(), slack_percent, room: 0, slack: 0, high_local: 0, high_remote: 0, attached: 0 }
    }

    pub(super) fn join(&mut self, capacity: u32, remote: bool) -> u32 {
        self.attached += 1;
        self.consumers.insert(Consumer::new(capacity, remote)) as u32
    }

    /// Changes one and keeps the sums. True: what the share is made of changed.
    #[inline]
    pub(super) fn update(&mut self, slot: u32, change: impl FnOnce(&mut Consumer)) -> bool {
        let Some(consumer) = self.consumers.get_mut(slot as usize) else {
            debug_assert!(false, "unknown consumer");
            return false;
        };
        let (room, high, had_left) = (consumer.room(), consumer.high(), consumer.left);
        change(consumer);
        let (high_now, gone) = (consumer.high(), consumer.is_gone());
        self.room = self.room - u64::from(room) + u64::from(consumer.room());
        if high_now != high {
            let percent = self.slack_percent;
            let (slack, slack_now) = (consumer.slack_of(high, percent), consumer.slack_of(high_now, percent));
            self.slack = self.slack - u64::from(slack) + u64::from(slack_now);
            let sum = if consumer.remote { &mut self.high_remote } else { &mut self.high_local };
            *sum = *sum - u64::from(high) + u64::from(high_now);
        }
        self.attached -= u32::from(consumer.left && !had_left);
        if gone {
            self.consumers.remove(slot as usize);
        }
        high_now != high
    }

    /// So much of its credit becomes deliveries: neither its window nor its high-water changes.
    #[inline]
    pub(super) fn assigned(&mut self, slot: u32, count: u32, settled: bool) {
        let Some(consumer) = self.consumers.get_mut(slot as usize) else {
            debug_assert!(false, "unknown consumer");
            return;
        };
        // Beyond the bound that a window counts to, the room stays the same.
        let room = consumer.room();
        consumer.assigned(count, settled);
        self.room -= u64::from(room - consumer.room());
    }

    #[inline]
    pub(super) fn settled(&mut self, slot: u32, count: u32) {
        let Some(consumer) = self.consumers.get_mut(slot as usize) else {
            debug_assert!(false, "unknown consumer");
            return;
        };
        consumer.settled(count);
        if consumer.is_gone() {
            self.consumers.remove(slot as usize);
        }
    }

    pub(super) fn get(&self, slot: u32) -> Option<&Consumer> {
        self.consumers.get(slot as usize)
    }

    /// Σ (room + slack).
    #[inline]
    pub(super) fn budget(&self) -> i64 {
        (self.room + self.slack) as i64
    }

    /// Σ (window + slack).
    #[inline]
    pub(super) fn supply(&self) -> u64 {
        self.high_local + self.high_remote + self.slack
    }

    #[inline]
    pub(super) fn has_window(&self) -> bool {
        self.high_local + self.high_remote > 0
    }

    pub(super) fn capacity_local(&self) -> u64 {
        self.high_local
    }

    pub(super) fn capacity_remote(&self) -> u64 {
        self.high_remote
    }

    pub(super) fn attached(&self) -> u32 {
        self.attached
    }

    pub(super) fn set_slack_percent(&mut self, percent: u32) {
        self.slack_percent = percent;
        self.slack = self.consumers.iter().map(|(_, one)| u64::from(one.slack(percent))).sum();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.consumers.is_empty()
    }

    pub(super) fn check_invariants(&self) {
        let all = || self.consumers.iter().map(|(_, one)| one);
        assert_eq!(self.room, all().map(|one| u64::from(one.room())).sum::<u64>());
        assert_eq!(self.slack, all().map(|one| u64::from(one.slack(self.slack_percent))).sum::<u64>());
        let high = |remote| all().filter(|one| one.remote == remote).map(|one| u64::from(one.high())).sum::<u64>();
        assert_eq!((self.high_local, self.high_remote), (high(false), high(true)));
        assert_eq!(self.attached as usize, all().filter(|one| !one.left).count());
    }
}

//! What the consumers of a multicast address can take: the least that any of them can.
//!
//! Each delivery goes to every active consumer, so each takes one of what every consumer has left, whether the
//! copy is assigned at once or waits. Kept is therefore where each consumer's credit ends on a count of all
//! deliveries, which doesn't move as deliveries come; the least of these ends is the address's.
//!
//! ```text
//!              accepted  taken  waiting there  room  end = taken + room (+ slack)   left = end - accepted
//! flow of 10          0      0              0    10   10                            10
//! 3 arrive            3      0              3    10   10                             7
//! 2 assigned          3      2              1     8   10                             7
//! ```

use super::consumers::Consumer;
use crate::routing::lists::Lists;
use crate::time::Time;
use slab::Slab;
use std::collections::BTreeSet;
use std::time::Duration;

/// No room, and nothing waits for it.
const IDLE: usize = 0;
/// No room, and copies wait.
const STALLED: usize = 1;

struct Member {
    consumer: Consumer,
    /// Deliveries of the address that are no longer waiting for it: assigned, missed, or before it came.
    taken: u64,
    /// It has given credit, and isn't set aside.
    active: bool,
    set_aside: bool,
    stalled_since: Time,
}

impl Member {
    fn end(&self, slack_percent: u32) -> u64 {
        self.taken + u64::from(self.consumer.room()) + u64::from(self.consumer.slack(slack_percent))
    }
}

/// The consumers of a multicast address.
pub(super) struct Multicast {
    members: Slab<Member>,
    slack_percent: u32,
    stall: Duration,
    /// Deliveries that have come in.
    accepted: u64,
    /// Of these, the ones whose copies aren't made yet: they are for whoever is active then.
    uncopied: u64,
    /// The active ones, by where their credit ends.
    ends: BTreeSet<(u64, u32)>,
    without_room: Lists,
    capacity_local: u64,
    capacity_remote: u64,
    attached: u32,
    set_aside_count: u64,
}

impl Multicast {
    pub(super) fn new(slack_percent: u32, stall: Duration) -> Self {
        Self {
            members: Slab::new(),
            slack_percent,
            stall,
            accepted: 0,
            uncopied: 0,
            ends: BTreeSet::new(),
            without_room: Lists::new(2),
            capacity_local: 0,
            capacity_remote: 0,
            attached: 0,
            set_aside_count: 0,
        }
    }

    pub(super) fn join(&mut self, capacity: u32, remote: bool) -> u32 {
        self.attached += 1;
        let slot = self.members.insert(Member {
            consumer: Consumer::new(capacity, remote),
            taken: self.accepted,
            active: false,
            set_aside: false,
            stalled_since: Time::ZERO,
        }) as u32;
        self.without_room.reserve(slot);
        slot
    }

    /// A delivery came in: a copy waits for each active consumer.
    pub(super) fn arrived(&mut self, now: Time) {
        self.accepted += 1;
        self.uncopied += 1;
        while let Some(slot) = self.without_room.first(IDLE) {
            self.without_room.push(STALLED, slot);
            self.members[slot as usize].stalled_since = now;
        }
    }

    /// A delivery's copies are made, or never will be.
    pub(super) fn copied(&mut self) {
        debug_assert!(self.uncopied > 0);
        self.uncopied = self.uncopied.saturating_sub(1);
    }

    /// Changes one and keeps its place.
    fn change(&mut self, slot: u32, now: Time, change: impl FnOnce(&mut Member)) {
        let Some(member) = self.members.get_mut(slot as usize) else {
            debug_assert!(false, "unknown consumer");
            return;
        };
        let (was_active, end, high, had_left) =
            (member.active, member.end(self.slack_percent), member.consumer.high(), member.consumer.left);
        change(member);
        let end_now = member.end(self.slack_percent);
        if was_active != member.active || end != end_now {
            if was_active {
                self.ends.remove(&(end, slot));
            }
            if member.active {
                self.ends.insert((end_now, slot));
            }
        }
        let sum = if member.consumer.remote { &mut self.capacity_remote } else { &mut self.capacity_local };
        *sum = *sum - u64::from(high) + u64::from(member.consumer.high());
        let list = if !member.active || member.consumer.room() > 0 {
            None
        } else if member.taken == self.accepted {
            Some(IDLE)
        } else {
            Some(STALLED)
        };
        if list == Some(STALLED) && self.without_room.list_of(slot) != list {
            member.stalled_since = now;
        }
        self.without_room.place(list, slot);
        if member.consumer.left && !had_left {
            self.attached -= 1;
        }
        if member.consumer.is_gone() {
            self.members.remove(slot as usize);
        }
    }

    /// Changes what one has; one that gets room again is active again, from here on.
    pub(super) fn update(&mut self, slot: u32, now: Time, change: impl FnOnce(&mut Consumer)) {
        let taken = self.accepted - self.uncopied;
        self.change(slot, now, |member| {
            change(&mut member.consumer);
            if member.consumer.left {
                member.active = false;
            } else if !member.active && member.consumer.room() > 0 {
                member.active = true;
                member.set_aside = false;
                member.taken = taken;
            }
        });
    }

    /// A copy is assigned.
    pub(super) fn assigned(&mut self, slot: u32, settled: bool, now: Time) {
        let accepted = self.accepted;
        self.change(slot, now, |member| {
            member.consumer.assigned(1, settled);
            member.taken = (member.taken + 1).min(accepted);
        });
    }

    /// A copy that waited won't be assigned: it was settled and there was no room, or it was aborted.
    pub(super) fn missed(&mut self, slot: u32, now: Time) {
        let accepted = self.accepted;
        self.change(slot, now, |member| member.taken = (member.taken + 1).min(accepted));
    }

    /// An assigned copy that wasn't sent at all waits again.
    pub(super) fn unassigned(&mut self, slot: u32, now: Time) {
        self.change(slot, now, |member| {
            member.consumer.unassigned();
            member.taken = member.taken.saturating_sub(1);
        });
    }

    /// One that has had no room for too long while copies waited.
    pub(super) fn stalled(&self, now: Time) -> Option<u32> {
        let slot = self.without_room.first(STALLED)?;
        (now.since(self.members[slot as usize].stalled_since) >= self.stall).then_some(slot)
    }

    /// It isn't for its own sake that it has no room: its time begins anew.
    pub(super) fn excuse(&mut self, slot: u32, now: Time) {
        if self.without_room.list_of(slot) == Some(STALLED) {
            self.members[slot as usize].stalled_since = now;
            self.without_room.push(STALLED, slot);
        }
    }

    pub(super) fn set_aside(&mut self, slot: u32, now: Time) {
        self.set_aside_count += 1;
        let accepted = self.accepted;
        self.change(slot, now, |member| {
            member.active = false;
            member.set_aside = true;
            member.taken = accepted;
        });
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        let slot = self.without_room.first(STALLED)?;
        Some(self.members[slot as usize].stalled_since + self.stall)
    }

    /// The least that an active consumer can still take.
    #[inline]
    pub(super) fn budget(&self) -> i64 {
        self.ends.first().map_or(0, |&(end, _)| end as i64 - self.accepted as i64)
    }

    /// The window and slack of the consumer that can take the least.
    pub(super) fn supply(&self) -> u64 {
        self.ends.first().and_then(|&(_, slot)| self.members.get(slot as usize)).map_or(0, |member| {
            u64::from(member.consumer.high()) + u64::from(member.consumer.slack(self.slack_percent))
        })
    }

    #[inline]
    pub(super) fn has_window(&self) -> bool {
        !self.ends.is_empty()
    }

    pub(super) fn get(&self, slot: u32) -> Option<&Consumer> {
        self.members.get(slot as usize).map(|member| &member.consumer)
    }

    /// Whether deliveries go to it now.
    pub(super) fn is_active(&self, slot: u32) -> bool {
        self.members.get(slot as usize).is_some_and(|member| member.active)
    }

    pub(super) fn capacity_local(&self) -> u64 {
        self.capacity_local
    }

    pub(super) fn capacity_remote(&self) -> u64 {
        self.capacity_remote
    }

    pub(super) fn attached(&self) -> u32 {
        self.attached
    }

    pub(super) fn set_aside_count(&self) -> u64 {
        self.set_aside_count
    }

    pub(super) fn set_slack_percent(&mut self, percent: u32) {
        self.slack_percent = percent;
        self.ends = self
            .members
            .iter()
            .filter(|(_, member)| member.active)
            .map(|(slot, member)| (member.end(percent), slot as u32))
            .collect();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub(super) fn check_invariants(&self) {
        for (slot, member) in self.members.iter() {
            assert!(member.taken <= self.accepted && self.uncopied <= self.accepted);
            let kept = self.ends.contains(&(member.end(self.slack_percent), slot as u32));
            assert_eq!(kept, member.active);
            let without = self.without_room.list_of(slot as u32).is_some();
            assert_eq!(without, member.active && member.consumer.room() == 0);
        }
        assert_eq!(self.ends.len(), self.members.iter().filter(|(_, member)| member.active).count());
    }
}

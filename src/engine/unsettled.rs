//! Unsettled deliveries of a session in one direction, by delivery-id.
//!
//! Ids are given in sequence and settled in about that order, so the map is a ring in which an id's low bits are its
//! slot. What stays behind while its neighbours settle (a straggler) moves into a tree, and so does all when ids
//! jump, and what lies before a long hole that a look passed over, so that memory and looks are O(deliveries) whatever a
//! peer does. The ring's slots count in the router's account.

use super::serial;
use crate::memory::Memory;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A ring that spans up to this many ids is left alone, however few of them are in use.
const SPAN_MIN: usize = 64;
/// Ids that the ring spans for one delivery in it, at most, beyond that.
const SPAN_PER_DELIVERY: usize = 4;

/// A look that passes over so many ids without a delivery has the ring begin behind them.
const HOLE_MAX: usize = 64;

/// Slots that an empty ring keeps.
const SLOTS_KEPT_MAX: usize = 4096;

pub(super) struct Unsettled<T> {
    /// A power of two of them, or none yet. Id `n` of the span is in slot `n % len`; slots outside of it are None.
    slots: Vec<Option<T>>,
    /// The span's first id. Its slot is in use, or the span is empty.
    front: u32,
    /// Ids from `front` on that the ring holds or held.
    span: u32,
    /// Deliveries in the ring.
    live: usize,
    stragglers: BTreeMap<u32, T>,
    memory: Arc<Memory>,
}

impl<T> Drop for Unsettled<T> {
    fn drop(&mut self) {
        self.memory.remove(self.ring_bytes());
    }
}

impl<T> Unsettled<T> {
    pub(super) fn new(memory: Arc<Memory>) -> Unsettled<T> {
        Unsettled { slots: Vec::new(), front: 0, span: 0, live: 0, stragglers: BTreeMap::new(), memory }
    }

    fn ring_bytes(&self) -> usize {
        self.slots.len() * size_of::<Option<T>>()
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.live + self.stragglers.len()
    }

    #[inline(always)]
    fn is_in_span(&self, id: u32) -> bool {
        id.wrapping_sub(self.front) < self.span
    }

    #[inline(always)]
    fn is_dense(&self) -> bool {
        self.span as usize <= self.live * SPAN_PER_DELIVERY + SPAN_MIN
    }

    /// The slot of an id in the span (of any id, where that doesn't matter).
    #[inline(always)]
    fn slot(&mut self, id: u32) -> Option<&mut Option<T>> {
        let mask = self.slots.len().wrapping_sub(1);
        self.slots.get_mut(id as usize & mask)
    }

    #[inline(always)]
    fn ring_get(&mut self, id: u32) -> Option<&mut T> {
        if !self.is_in_span(id) {
            return None;
        }
        self.slot(id)?.as_mut()
    }

    /// Takes a delivery out of the ring.
    #[inline(always)]
    fn ring_take(&mut self, id: u32) -> Option<T> {
        if !self.is_in_span(id) {
            return None;
        }
        let delivery = self.slot(id)?.take()?;
        self.live -= 1;
        if id == self.front {
            self.trim_front();
        } else if !self.is_dense() {
            self.condense();
        }
        Some(delivery)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        if self.stragglers.is_empty() {
            return self.ring_get(id);
        }
        // Looked up twice since a borrow that may be returned can't be given up.
        if self.ring_get(id).is_some() {
            return self.ring_get(id);
        }
        self.stragglers.get_mut(&id)
    }

    #[inline]
    pub(super) fn get(&mut self, id: u32) -> Option<T>
    where
        T: Copy,
    {
        self.get_mut(id).copied()
    }

    #[inline]
    pub(super) fn contains(&mut self, id: u32) -> bool {
        self.ring_get(id).is_some() || (!self.stragglers.is_empty() && self.stragglers.contains_key(&id))
    }

    /// Remembers a delivery; false, and nothing done, where its id is in use.
    #[inline]
    pub(super) fn insert(&mut self, id: u32, delivery: T) -> bool {
        if self.span == 0 {
            self.front = id;
        }
        let next = id.wrapping_sub(self.front) == self.span;
        let room = (self.span as usize) < self.slots.len();
        if next && room && self.is_dense() && self.stragglers.is_empty() {
            if let Some(slot) = self.slot(id) {
                *slot = Some(delivery);
                self.span += 1;
                self.live += 1;
                return true;
            }
        }
        self.insert_slowly(id, delivery)
    }

    #[cold]
    #[inline(never)]
    fn insert_slowly(&mut self, id: u32, delivery: T) -> bool {
        if self.contains(id) {
            return false;
        }
        if self.span > 0 && serial::distance(self.front, id) < 0 {
            self.stragglers.insert(id, delivery);
            return true;
        }
        let offset = id.wrapping_sub(self.front);
        if offset >= self.span {
            if (offset - self.span) as usize >= SPAN_MIN {
                // A jump: the ring begins again there. Each delivery moves at most once in its life.
                self.move_out(|_| true);
                self.front = id;
            }
            self.span = id.wrapping_sub(self.front) + 1;
            self.grow();
        }
        if let Some(slot) = self.slot(id) {
            *slot = Some(delivery);
            self.live += 1;
        }
        self.condense();
        true
    }

    /// Makes place for the span.
    fn grow(&mut self) {
        let size = (self.span as usize).next_power_of_two().max(16);
        if size <= self.slots.len() {
            return;
        }
        let old_bytes = self.ring_bytes();
        let old = std::mem::take(&mut self.slots);
        self.slots.resize_with(size, || None);
        self.memory.add(self.ring_bytes() - old_bytes);
        if old.is_empty() {
            return;
        }
        let old_mask = old.len() - 1;
        // Where an old slot's id is now: the one id of the span that had that slot.
        for (index, delivery) in old.into_iter().enumerate() {
            let ahead = (index as u32).wrapping_sub(self.front) & old_mask as u32;
            let id = self.front.wrapping_add(ahead);
            if let Some(slot) = self.slot(id).filter(|_| delivery.is_some()) {
                *slot = delivery;
            }
        }
    }

    /// Moves what is at the ring's front among the stragglers, as long as `more` says so.
    #[cold]
    fn move_out(&mut self, more: impl Fn(&Self) -> bool) {
        while self.span > 0 && more(self) {
            let front = self.front;
            if let Some(straggler) = self.slot(front).and_then(Option::take) {
                self.stragglers.insert(front, straggler);
                self.live -= 1;
            }
            self.front = front.wrapping_add(1);
            self.span -= 1;
        }
    }

    /// Makes the ring dense.
    #[cold]
    #[inline(never)]
    fn condense(&mut self) {
        self.move_out(|ring| !ring.is_dense());
        self.trim_front();
    }

    /// The ring begins at `end` or behind it, which lies in its span or follows it.
    #[cold]
    #[inline(never)]
    fn cut(&mut self, end: u32) {
        self.move_out(|ring| ring.front != end);
        self.trim_front();
    }

    #[inline]
    fn trim_front(&mut self) {
        while self.span > 0 {
            let front = self.front;
            if self.slot(front).is_some_and(|slot| slot.is_some()) {
                break;
            }
            self.front = front.wrapping_add(1);
            self.span -= 1;
        }
        if self.span == 0 && self.slots.len() > SLOTS_KEPT_MAX {
            self.drop_ring();
        }
    }

    #[cold]
    fn drop_ring(&mut self) {
        self.memory.remove(self.ring_bytes());
        self.slots = Vec::new();
    }

    #[inline]
    pub(super) fn remove(&mut self, id: u32) -> Option<T> {
        if let Some(delivery) = self.ring_take(id) {
            return Some(delivery);
        }
        if self.stragglers.is_empty() {
            return None;
        }
        self.stragglers.remove(&id)
    }

    /// As [`Self::remove`], where `usual` says so of it.
    #[inline]
    pub(super) fn remove_if(&mut self, id: u32, usual: impl FnOnce(&T) -> bool) -> Option<T> {
        self.get_mut(id).filter(|delivery| usual(delivery))?;
        self.remove(id)
    }

    /// Takes each delivery from `from` to `to`, both included, out, as long as `each` says that it takes more. Where to go on; None:
    /// there are no more.
    #[inline]
    pub(super) fn take_each(&mut self, from: u32, to: u32, mut each: impl FnMut(u32, T) -> bool) -> Option<u32> {
        let mut next = from;
        loop {
            let (id, delivery) = self.take_first_in(next, to)?;
            let more = each(id, delivery);
            if id == to {
                return None;
            }
            next = id.wrapping_add(1);
            if !more {
                return Some(next);
            }
        }
    }

    /// The first id in use from `from` to `to`, both included; costs what exists, not what the range names.
    pub(super) fn first_in(&mut self, from: u32, to: u32) -> Option<u32> {
        let in_ring = self.first_in_ring(from, to);
        if self.stragglers.is_empty() {
            return in_ring;
        }
        let straggler = if from <= to {
            self.stragglers.range(from..=to).next()
        } else {
            self.stragglers.range(from..).next().or_else(|| self.stragglers.range(..=to).next())
        };
        match (in_ring, straggler) {
            (Some(ring), Some((&straggler, _))) => {
                Some(if ring.wrapping_sub(from) < straggler.wrapping_sub(from) { ring } else { straggler })
            }
            (ring, straggler) => ring.or(straggler.map(|(&id, _)| id)),
        }
    }

    /// A long hole that it passes over is in the ring no more: so each id is passed over once, or among few.
    fn first_in_ring(&mut self, from: u32, to: u32) -> Option<u32> {
        let asked = to.wrapping_sub(from);
        let first = if self.is_in_span(from) { from } else { self.front };
        let mut id = first;
        let mut found = false;
        while self.is_in_span(id) && id.wrapping_sub(from) <= asked {
            found = self.ring_get(id).is_some();
            if found {
                break;
            }
            id = id.wrapping_add(1);
        }
        if id.wrapping_sub(first) as usize >= HOLE_MAX {
            self.cut(id);
        }
        found.then_some(id)
    }

    /// As [`Self::first_in`], and forgets it.
    #[inline]
    pub(super) fn take_first_in(&mut self, from: u32, to: u32) -> Option<(u32, T)> {
        // In order, as a rule.
        if self.stragglers.is_empty() {
            if let Some(delivery) = self.ring_take(from) {
                return Some((from, delivery));
            }
        }
        self.take_first_in_slowly(from, to)
    }

    #[inline(never)]
    fn take_first_in_slowly(&mut self, from: u32, to: u32) -> Option<(u32, T)> {
        let id = self.first_in(from, to)?;
        Some((id, self.remove(id)?))
    }

    /// Forgets each delivery of which `keep` says false; costs O(deliveries).
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        for ahead in 0..self.span {
            let goes = self.slot(self.front.wrapping_add(ahead)).and_then(|slot| slot.take_if(|it| !keep(it)));
            self.live -= usize::from(goes.is_some());
        }
        self.stragglers.retain(|_, delivery| keep(delivery));
        self.trim_front();
        self.condense();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_wrap() {
        let mut map = Unsettled::new(Arc::default());
        for n in 0..10u32 {
            assert!(map.insert((u32::MAX - 4).wrapping_add(n), n));
        }
        assert_eq!(map.first_in(u32::MAX, 3), Some(u32::MAX));
        assert_eq!(map.remove(u32::MAX), Some(4));
        assert_eq!(map.first_in(u32::MAX, 3), Some(0));
        assert_eq!(map.remove(u32::MAX - 4), Some(0));
        assert_eq!(map.front, u32::MAX - 3);
        assert!(!map.insert(2, 99));
    }

    #[test]
    fn a_straggler_leaves_the_ring_short() {
        let mut map = Unsettled::new(Arc::default());
        map.insert(0, 0);
        for id in 1..100_000 {
            assert!(map.insert(id, id));
            if id > 10 {
                assert_eq!(map.remove(id - 5), Some(id - 5));
            }
        }
        assert!(map.slots.len() <= 256, "{}", map.slots.len());
        assert_eq!(map.first_in(0, u32::MAX / 2), Some(0));
        assert_eq!(map.remove(0), Some(0));
        assert_eq!(map.len(), 5 + 5);
    }

    #[test]
    fn jumping_ids_cost_what_exists() {
        let mut map = Unsettled::new(Arc::default());
        let ids: Vec<u32> = (0..1000u32).map(|n| n.wrapping_mul(2_654_435_761)).collect();
        for &id in &ids {
            assert!(map.insert(id, id));
            assert!(!map.insert(id, id));
        }
        assert_eq!(map.len(), 1000);
        assert!(map.slots.len() <= SPAN_MIN * 4);
        let mut found = Vec::new();
        for (from, to) in [(0, 1 << 31), ((1 << 31) + 1, u32::MAX)] {
            let mut next = from;
            while let Some(id) = map.first_in(next, to) {
                found.push(id);
                next = id + 1;
                if id == to {
                    break;
                }
            }
        }
        let mut sorted = ids.clone();
        sorted.sort_unstable();
        assert_eq!(found, sorted);
        for id in ids {
            assert_eq!(map.remove(id), Some(id));
        }
        assert_eq!(map.len(), 0);
    }

    /// What a look from an id on passes over: slots of the ring from there to the first delivery or the span's end.
    fn hole(map: &mut Unsettled<u32>, from: u32) -> u32 {
        (0..).find(|n| !map.is_in_span(from + n) || map.ring_get(from + n).is_some()).unwrap()
    }

    #[test]
    fn what_is_settled_around_few_leaves_a_short_ring() {
        let mut map = Unsettled::new(Arc::default());
        (0..131_072).for_each(|id| assert!(map.insert(id, id)));
        let mut count = 0;
        map.take_each(1, 131_070, |_, _| {
            count += 1;
            true
        });
        assert_eq!((count, map.len()), (131_070, 2));
        assert!(map.span as usize <= map.live * SPAN_PER_DELIVERY + SPAN_MIN, "{} for {}", map.span, map.live);
        assert_eq!(map.first_in(1, 131_070), None);
        assert_eq!(map.first_in(1, 131_071), Some(131_071));
        assert_eq!(map.first_in(0, 131_071), Some(0));
    }

    #[test]
    fn a_hole_is_passed_over_once() {
        let mut map = Unsettled::new(Arc::default());
        (0..9_000).for_each(|id| assert!(map.insert(id, id)));
        // Holes of 500 between 500 deliveries each.
        for first in (500..8_000).step_by(1_000) {
            map.take_each(first, first + 499, |_, _| true);
        }
        for (from, to, found) in [(600, 7_000, Some(1_000)), (1_600, 1_999, None), (7_500, 7_600, None)] {
            assert_eq!(map.first_in(from, to), found);
            let left: usize = (0..20).map(|n| hole(&mut map, from + n) as usize).max().unwrap();
            assert!(left < HOLE_MAX, "{left} behind {from}");
            assert_eq!(map.first_in(from, to), found);
        }
        let ids = |map: &mut Unsettled<u32>| {
            let mut next = Some(0);
            std::iter::from_fn(|| {
                let id = map.first_in(next?, 10_000)?;
                next = Some(id + 1);
                Some(id)
            })
            .collect::<Vec<_>>()
        };
        let expected: Vec<u32> = (0..9_000).filter(|id| id % 1_000 < 500 || *id >= 8_000).collect();
        assert_eq!(ids(&mut map), expected);
        assert!(map.insert(9_000, 9_000));
        assert_eq!((map.len(), map.get(700), map.get(9_000)), (expected.len() + 1, None, Some(9_000)));
    }

    #[test]
    fn retain_forgets_and_trims() {
        let mut map = Unsettled::new(Arc::default());
        for id in 5..15 {
            map.insert(id, id);
        }
        map.retain(|&id| id >= 10);
        assert_eq!((map.len(), map.front), (5, 10));
        map.retain(|_| false);
        assert_eq!((map.len(), map.span), (0, 0));
        assert_eq!(map.first_in(0, 100), None);
    }

    /// Against a tree, with ids that run on, jump, repeat and wrap.
    #[test]
    fn agrees_with_a_tree() {
        let mut seed = 1u64;
        let mut random = move |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((seed >> 33) % below) as u32
        };
        for run in 0..50 {
            let (mut map, mut tree) = (Unsettled::new(Arc::default()), BTreeMap::new());
            let mut next = if run % 2 == 0 { u32::MAX - 300 } else { random(1 << 31) };
            for step in 0..4_000u32 {
                match random(10) {
                    0..=4 => {
                        let fresh = !tree.contains_key(&next);
                        assert_eq!(map.insert(next, step), fresh);
                        tree.entry(next).or_insert(step);
                        next = next.wrapping_add(if random(50) == 0 { random(200) } else { 1 });
                    }
                    5 if random(20) == 0 => {
                        let id = next.wrapping_sub(random(500));
                        assert_eq!(map.insert(id, step), !tree.contains_key(&id));
                        tree.entry(id).or_insert(step);
                    }
                    5 | 6 => {
                        let id = next.wrapping_sub(random(100));
                        assert_eq!(map.remove(id), tree.remove(&id));
                        assert_eq!(map.get_mut(id), None);
                    }
                    7 => {
                        let from = next.wrapping_sub(random(300));
                        let to = from.wrapping_add(random(150));
                        let expected =
                            (0..=to.wrapping_sub(from)).map(|n| from.wrapping_add(n)).find(|id| tree.contains_key(id));
                        assert_eq!(map.first_in(from, to), expected);
                        if random(2) == 0 {
                            let taken = map.take_first_in(from, to);
                            assert_eq!(taken, expected.and_then(|id| Some((id, tree.remove(&id)?))));
                        }
                    }
                    8 if random(50) == 0 => {
                        map.retain(|value| value % 3 != 0);
                        tree.retain(|_, value| *value % 3 != 0);
                    }
                    _ => {
                        let id = next.wrapping_sub(random(100));
                        assert_eq!(map.get_mut(id).copied(), tree.get(&id).copied());
                    }
                }
                assert_eq!(map.len(), tree.len());
            }
        }
    }
}

//! Unsettled deliveries of a session in one direction, by delivery-id.
//!
//! Ids are given in sequence and settled in about that order, so the map is a ring indexed by the id's distance from
//! the oldest. What stays behind while its neighbours settle (a straggler) moves into a tree, and so does all when
//! ids jump, so that memory is O(deliveries) whatever a peer does.

use super::serial;
use std::collections::{BTreeMap, VecDeque};

/// A ring of up to this many slots is left alone, however few of them are in use.
const RING_SLOTS_MIN: usize = 64;
/// Slots in the ring for one delivery in it, at most, beyond that.
const RING_SLOTS_PER_DELIVERY: usize = 4;

pub(super) struct Unsettled<T> {
    ring: VecDeque<Option<T>>,
    /// The delivery-id of the ring's first slot. That slot is in use, or the ring is empty.
    front: u32,
    /// Deliveries in the ring.
    live: usize,
    stragglers: BTreeMap<u32, T>,
}

impl<T> Unsettled<T> {
    pub(super) fn new() -> Unsettled<T> {
        Unsettled { ring: VecDeque::new(), front: 0, live: 0, stragglers: BTreeMap::new() }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.live + self.stragglers.len()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        match self.ring.get_mut(id.wrapping_sub(self.front) as usize) {
            Some(slot) if slot.is_some() => slot.as_mut(),
            _ if self.stragglers.is_empty() => None,
            _ => self.stragglers.get_mut(&id),
        }
    }

    #[inline]
    pub(super) fn contains(&self, id: u32) -> bool {
        match self.ring.get(id.wrapping_sub(self.front) as usize) {
            Some(slot) if slot.is_some() => true,
            _ => !self.stragglers.is_empty() && self.stragglers.contains_key(&id),
        }
    }

    /// Remembers a delivery; false, and nothing done, where its id is in use.
    #[inline]
    pub(super) fn insert(&mut self, id: u32, delivery: T) -> bool {
        if self.ring.is_empty() && self.stragglers.is_empty() {
            self.front = id;
        }
        if id.wrapping_sub(self.front) as usize == self.ring.len() && self.stragglers.is_empty() {
            self.ring.push_back(Some(delivery));
            self.live += 1;
            if self.ring.len() > RING_SLOTS_MIN && self.ring.len() > self.live * RING_SLOTS_PER_DELIVERY {
                self.relieve();
            }
            return true;
        }
        self.insert_slowly(id, delivery)
    }

    #[cold]
    fn insert_slowly(&mut self, id: u32, delivery: T) -> bool {
        if self.contains(id) {
            return false;
        }
        if self.ring.is_empty() {
            self.front = id;
        }
        let offset = id.wrapping_sub(self.front) as usize;
        if let Some(slot) = self.ring.get_mut(offset) {
            *slot = Some(delivery);
            self.live += 1;
            return true;
        }
        if serial::distance(self.front, id) < 0 {
            self.stragglers.insert(id, delivery);
            return true;
        }
        if offset - self.ring.len() >= RING_SLOTS_MIN {
            // A jump: begin the ring again there. Each delivery moves at most once in its life.
            let front = self.front;
            let old = self.ring.drain(..).zip(0u32..);
            self.stragglers.extend(old.filter_map(|(slot, n)| Some((front.wrapping_add(n), slot?))));
            self.live = 0;
            self.front = id;
        } else {
            self.ring.resize_with(offset, || None);
        }
        self.ring.push_back(Some(delivery));
        self.live += 1;
        self.relieve();
        true
    }

    /// Moves what keeps the front of a sparse ring.
    #[cold]
    fn relieve(&mut self) {
        while self.ring.len() > RING_SLOTS_MIN && self.ring.len() > self.live * RING_SLOTS_PER_DELIVERY {
            if let Some(Some(straggler)) = self.ring.pop_front() {
                self.stragglers.insert(self.front, straggler);
                self.live -= 1;
            }
            self.front = self.front.wrapping_add(1);
        }
        self.trim_front();
    }

    #[inline]
    fn trim_front(&mut self) {
        while let Some(None) = self.ring.front() {
            self.ring.pop_front();
            self.front = self.front.wrapping_add(1);
        }
    }

    #[inline]
    pub(super) fn remove(&mut self, id: u32) -> Option<T> {
        let offset = id.wrapping_sub(self.front) as usize;
        if let Some(delivery) = self.ring.get_mut(offset).and_then(Option::take) {
            self.live -= 1;
            if offset == 0 {
                self.trim_front();
            }
            return Some(delivery);
        }
        if self.stragglers.is_empty() {
            return None;
        }
        self.stragglers.remove(&id)
    }

    /// The first id in use from `from` to `to`, both included; costs what exists, not what the range names.
    #[inline]
    pub(super) fn first_in(&self, from: u32, to: u32) -> Option<u32> {
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

    /// As [`Self::first_in`], and forgets it.
    #[inline]
    pub(super) fn take_first_in(&mut self, from: u32, to: u32) -> Option<(u32, T)> {
        let offset = from.wrapping_sub(self.front) as usize;
        if self.stragglers.is_empty() {
            // In order, as a rule.
            if let Some(delivery) = self.ring.get_mut(offset).and_then(Option::take) {
                self.live -= 1;
                if offset == 0 {
                    self.trim_front();
                }
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

    #[inline]
    fn first_in_ring(&self, from: u32, to: u32) -> Option<u32> {
        let span = to.wrapping_sub(from);
        let offset = from.wrapping_sub(self.front) as usize;
        let start = if offset < self.ring.len() {
            offset
        } else if self.front.wrapping_sub(from) <= span {
            0
        } else {
            return None;
        };
        let found = self.ring.range(start..).position(Option::is_some)?;
        let id = self.front.wrapping_add((start + found) as u32);
        (id.wrapping_sub(from) <= span).then_some(id)
    }

    /// Forgets each delivery of which `keep` says false; costs O(deliveries).
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        for slot in &mut self.ring {
            if slot.as_ref().is_some_and(|delivery| !keep(delivery)) {
                *slot = None;
                self.live -= 1;
            }
        }
        self.stragglers.retain(|_, delivery| keep(delivery));
        self.trim_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_wrap() {
        let mut map = Unsettled::new();
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
        let mut map = Unsettled::new();
        map.insert(0, 0);
        for id in 1..100_000 {
            assert!(map.insert(id, id));
            if id > 10 {
                assert_eq!(map.remove(id - 5), Some(id - 5));
            }
        }
        assert!(map.ring.len() <= 256 && map.ring.capacity() <= 1024, "{}", map.ring.capacity());
        assert_eq!(map.first_in(0, u32::MAX / 2), Some(0));
        assert_eq!(map.remove(0), Some(0));
        assert_eq!(map.len(), 5 + 5);
    }

    #[test]
    fn jumping_ids_cost_what_exists() {
        let mut map = Unsettled::new();
        let ids: Vec<u32> = (0..1000u32).map(|n| n.wrapping_mul(2_654_435_761)).collect();
        for &id in &ids {
            assert!(map.insert(id, id));
            assert!(!map.insert(id, id));
        }
        assert_eq!(map.len(), 1000);
        assert!(map.ring.len() <= RING_SLOTS_MIN * 4);
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

    #[test]
    fn retain_forgets_and_trims() {
        let mut map = Unsettled::new();
        for id in 5..15 {
            map.insert(id, id);
        }
        map.retain(|&id| id >= 10);
        assert_eq!((map.len(), map.front), (5, 10));
        map.retain(|_| false);
        assert_eq!((map.len(), map.ring.len()), (0, 0));
        assert_eq!(map.first_in(0, 100), None);
    }
}

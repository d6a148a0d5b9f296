//! A table from a number that the peer chose (a channel, a handle) to what we have for it.
//!
//! Peers number from 0 as a rule, so it is a dense vector; a peer that picks large numbers lands in a tree instead,
//! so that one attach with handle 65 535 costs one entry. Memory is O(entries).

use std::collections::BTreeMap;

/// Keys up to this many are dense whatever the number of entries.
const DENSE_MIN: u32 = 16;
/// Slots for one entry, at most, beyond that; twice as many as where a key becomes dense, so that each removal pays for
/// a constant part of the next thinning out.
const DENSE_PER_ENTRY: u32 = 4;

pub(super) struct Table<T> {
    dense: Vec<Option<T>>,
    sparse: BTreeMap<u32, T>,
    /// Entries in all.
    len: u32,
}

impl<T> Table<T> {
    pub(super) fn new() -> Table<T> {
        Table { dense: Vec::new(), sparse: BTreeMap::new(), len: 0 }
    }

    #[inline]
    pub(super) fn get(&self, key: u32) -> Option<&T> {
        match self.dense.get(key as usize) {
            Some(entry) => entry.as_ref(),
            None if self.sparse.is_empty() => None,
            None => self.sparse.get(&key),
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, key: u32) -> Option<&mut T> {
        match self.dense.get_mut(key as usize) {
            Some(entry) => entry.as_mut(),
            None => self.sparse.get_mut(&key),
        }
    }

    /// Puts an entry where none is.
    pub(super) fn insert(&mut self, key: u32, value: T) {
        debug_assert!(self.get(key).is_none());
        self.len += 1;
        if key as usize >= self.dense.len() && key < DENSE_MIN.max(self.len.saturating_mul(2)) {
            self.extend_to(key);
        }
        match self.dense.get_mut(key as usize) {
            Some(entry) => *entry = Some(value),
            None => drop(self.sparse.insert(key, value)),
        }
    }

    /// Makes `key` dense; what was sparse below it moves along.
    fn extend_to(&mut self, key: u32) {
        self.dense.resize_with(key as usize + 1, || None);
        while let Some(entry) = self.sparse.first_entry().filter(|entry| *entry.key() <= key) {
            let (key, value) = entry.remove_entry();
            self.dense[key as usize] = Some(value);
        }
    }

    pub(super) fn remove(&mut self, key: u32) -> Option<T> {
        let removed = match self.dense.get_mut(key as usize) {
            Some(entry) => entry.take(),
            None => self.sparse.remove(&key),
        };
        if removed.is_some() {
            self.len -= 1;
            let kept = DENSE_MIN.max(self.len.saturating_mul(DENSE_PER_ENTRY));
            if self.dense.len() > kept as usize {
                self.thin_out();
            }
        }
        removed
    }

    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    /// Few of many are left: who would not be dense by now becomes sparse.
    #[cold]
    fn thin_out(&mut self) {
        let kept = DENSE_MIN.max(self.len.saturating_mul(2));
        for (key, entry) in (kept..).zip(self.dense.drain(kept as usize..)) {
            self.sparse.extend(entry.map(|value| (key, value)));
        }
        self.dense.shrink_to_fit();
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.dense.iter().flatten().chain(self.sparse.values())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_keys_cost_one_entry_and_become_dense_with_their_neighbours() {
        let mut table = Table::new();
        table.insert(65_535, 'z');
        assert_eq!(table.dense.len(), 0);
        table.insert(20, 'u');
        assert_eq!(table.dense.len(), 0);
        for key in 0..12 {
            table.insert(key, 'a');
        }
        table.insert(24, 'x');
        assert_eq!(table.dense.len(), 25);
        assert_eq!((table.get(20), table.get(24), table.get(65_535)), (Some(&'u'), Some(&'x'), Some(&'z')));
        assert_eq!(table.sparse.len(), 1);
        assert_eq!(table.values().count(), 15);
        assert_eq!((table.remove(20), table.remove(20), table.remove(65_535)), (Some('u'), None, Some('z')));
        assert_eq!(table.get(20), None);
    }

    #[test]
    fn what_stays_of_many_costs_no_more_than_it_did_alone() {
        let mut table = Table::new();
        (0..10_000).for_each(|key| table.insert(key, key));
        (0..10_000).filter(|key| key % 5_000 != 4_999).for_each(|key| assert_eq!(table.remove(key), Some(key)));
        assert_eq!((table.dense.len(), table.dense.capacity(), table.sparse.len()), (16, 16, 2));
        assert_eq!((table.get(4_999), table.get(9_999), table.get(5_000)), (Some(&4_999), Some(&9_999), None));
        (0..4_000).for_each(|key| table.insert(key, key));
        assert_eq!(
            (table.remove(4_999), table.remove(9_999), table.values().count()),
            (Some(4_999), Some(9_999), 4_000)
        );
    }
}

//! Numbers that we give out, for channels and handles: the lowest free one first.
//!
//! Those that came back are kept as runs, so memory is O(numbers in use), whichever come back and whichever stay.

use std::collections::BTreeMap;

#[derive(Default)]
pub(super) struct Numbers {
    /// All from here on are free.
    end: u32,
    /// Below it: runs of free ones, from their first number to the one behind their last. None touches another or the end.
    runs: BTreeMap<u32, u32>,
}

impl Numbers {
    /// The lowest free number, where it isn't above `max`.
    pub(super) fn take(&mut self, max: u32) -> Option<u32> {
        let lowest = self.runs.first_key_value().map_or(self.end, |(first, _)| *first);
        if lowest > max {
            return None;
        }
        match self.runs.remove(&lowest) {
            None => self.end = lowest.checked_add(1)?,
            Some(behind) if lowest + 1 == behind => {}
            Some(behind) => {
                self.runs.insert(lowest + 1, behind);
            }
        }
        Some(lowest)
    }

    /// A number that was taken is free again.
    pub(super) fn give(&mut self, number: u32) {
        let before = self.runs.range(..=number).next_back();
        debug_assert!(number < self.end && before.is_none_or(|(_, behind)| *behind <= number));
        let first = before.filter(|(_, behind)| **behind == number).map_or(number, |(first, _)| *first);
        let behind = self.runs.remove(&(number + 1)).unwrap_or(number + 1);
        if behind == self.end {
            self.runs.remove(&first);
            self.end = first;
        } else {
            self.runs.insert(first, behind);
        }
    }

    /// One more than the highest number in use.
    pub(super) fn end(&self) -> u32 {
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_number_comes_first_and_runs_join() {
        let mut numbers = Numbers::default();
        assert_eq!((0..10).map(|_| numbers.take(u32::MAX)).collect::<Vec<_>>(), (0..10).map(Some).collect::<Vec<_>>());
        for number in [3, 5, 1, 4] {
            numbers.give(number);
        }
        assert_eq!(numbers.runs.iter().collect::<Vec<_>>(), [(&1, &2), (&3, &6)]);
        assert_eq!((numbers.take(0), numbers.take(1), numbers.take(9), numbers.end()), (None, Some(1), Some(3), 10));
        for number in [9, 7, 8, 6] {
            numbers.give(number);
        }
        assert_eq!((numbers.end(), numbers.runs.len()), (4, 0));
        assert_eq!((numbers.take(3), numbers.take(4)), (None, Some(4)));
    }

    #[test]
    fn memory_follows_what_is_in_use() {
        let mut numbers = Numbers::default();
        (0..1_000).for_each(|number| assert_eq!(numbers.take(u32::MAX), Some(number)));
        (0..999).for_each(|number| numbers.give(number));
        assert_eq!((numbers.runs.len(), numbers.end()), (1, 1_000));
        numbers.give(999);
        assert_eq!((numbers.runs.len(), numbers.end()), (0, 0));
    }
}

//! Limits that were given to the router, and when it can have known them.

use std::collections::VecDeque;

/// Limits, oldest first: serial numbers (RFC 1982), each with the output's length behind the frame that gave it.
#[derive(Debug, Default)]
pub struct Promises(VecDeque<(u64, u32)>);

/// How far `a` is ahead of `b`.
pub fn ahead(a: u32, b: u32) -> i32 {
    a.wrapping_sub(b) as i32
}

impl Promises {
    pub fn new(limit: u32) -> Promises {
        Promises(VecDeque::from([(0, limit)]))
    }

    pub fn add(&mut self, written: u64, limit: u32) {
        match self.0.back_mut() {
            // The same limit again, later: the earlier one says as much.
            Some((_, last)) if *last == limit => {}
            _ => self.0.push_back((written, limit)),
        }
    }

    /// The highest limit that counts for a router which had read `stamp` bytes: the last one that it surely knew,
    /// or a later one that it may have known.
    pub fn limit(&mut self, stamp: u64) -> u32 {
        while self.0.get(1).is_some_and(|(written, _)| *written <= stamp) {
            self.0.pop_front();
        }
        let mut limits = self.0.iter().map(|(_, limit)| *limit);
        let first = limits.next().unwrap_or_default();
        limits.fold(first, |most, limit| if ahead(limit, most) > 0 { limit } else { most })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reduction_counts_once_it_was_surely_read() {
        let mut promises = Promises::new(0);
        promises.add(10, 5);
        promises.add(20, 3);
        assert_eq!(promises.limit(9), 5);
        assert_eq!(promises.limit(19), 5);
        assert_eq!(promises.limit(20), 3);
        promises.add(30, u32::MAX);
        assert_eq!(promises.limit(30), u32::MAX);
        promises.add(40, 2);
        assert_eq!(promises.limit(39), 2, "serial numbers wrap");
    }
}

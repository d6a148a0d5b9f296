//! When to wake up: a heap of moments with lazy revalidation.
//!
//! A connection's time-outs move with nearly every frame (idle time-outs above all), nearly always to later. So an
//! entry in the heap is only a moment at which to ask; who is asked says whether it is due or when to ask again.
//!
//! Invariant: whoever has a time-out has an entry no later than it. The owner remembers its earliest entry
//! ([`Entry`]) and adds one only for something earlier, so that the heap holds about one entry an owner.

use crate::ids::ConnectionId;
use crate::time::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Who is to be asked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Timer {
    Connection(ConnectionId),
    /// A listener whose accepts rest.
    Listener(u32),
}

/// An owner's earliest entry in the heap, if it has any.
pub type Entry = Option<Time>;

#[derive(Default)]
pub struct Timers {
    heap: BinaryHeap<Reverse<(Time, Timer)>>,
}

impl Timers {
    pub fn new() -> Timers {
        Timers::default()
    }

    /// Makes sure that `timer` is asked by `at`.
    #[inline]
    pub fn schedule(&mut self, entry: &mut Entry, at: Time, timer: Timer) {
        if entry.is_none_or(|known| at < known) {
            *entry = Some(at);
            self.heap.push(Reverse((at, timer)));
        }
    }

    pub fn next(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes out one whose moment came, with that moment. The owner compares it with its entry: another than the
    /// earliest is an old one, to be ignored.
    pub fn pop_due(&mut self, now: Time) -> Option<(Time, Timer)> {
        match self.heap.peek() {
            Some(Reverse((at, _))) if *at <= now => self.heap.pop().map(|Reverse(due)| due),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_earlier_moment_is_added() {
        let mut timers = Timers::new();
        let mut entry = None;
        timers.schedule(&mut entry, Time(50), Timer::Listener(1));
        timers.schedule(&mut entry, Time(70), Timer::Listener(1));
        assert_eq!(timers.heap.len(), 1);
        timers.schedule(&mut entry, Time(20), Timer::Listener(1));
        assert_eq!((entry, timers.next()), (Some(Time(20)), Some(Time(20))));
        assert_eq!(timers.pop_due(Time(19)), None);
        assert_eq!(timers.pop_due(Time(20)), Some((Time(20), Timer::Listener(1))));
        assert_eq!(timers.pop_due(Time(49)), None);
        assert_eq!(timers.pop_due(Time(100)), Some((Time(50), Timer::Listener(1))));
        assert_eq!(timers.next(), None);
    }
}

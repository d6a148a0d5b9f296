//! The moment at which a sleep ends at the latest, kept by the kernel from turn to turn.
//!
//! A sleep with a time limit of its own costs a timer set and taken back each time. What a shard waits for is mostly far away and
//! stays (counters of the second, idle time-outs), so it stands in the ring as an operation until it is due: a sleep sets
//! one only for an earlier moment than any that stands.
//!
//! Invariants:
//! - An alarm that rings with nothing due costs a turn, never more: who has a time-out is asked by it.
//! - Few stand at the same time, each earlier than those before it.

use super::ring::{Operation, Ring};
use crate::time::Time;
use io_uring::{opcode, types};
use std::time::Duration;

/// Alarms that stand at most; beyond, a sleep has its own limit.
const STANDING_MAX: usize = 8;
/// What is nearer comes after few sleeps, and should come in time: an alarm is set only when the turn's operations are submitted.
const NEAR: Duration = Duration::from_millis(1);

pub struct Alarm {
    /// The latest first.
    standing: Vec<Time>,
    /// What their entries point to until they are submitted, by place: boxed, so that it stays there.
    after: Box<[types::Timespec; STANDING_MAX]>,
}

impl Alarm {
    pub fn new() -> Alarm {
        Alarm { standing: Vec::with_capacity(STANDING_MAX), after: Box::default() }
    }

    /// Whether a sleep that begins with the next enter ends by `at` without a limit of its own.
    #[inline]
    pub fn covers(&mut self, at: Time, now: Time, ring: &mut Ring) -> bool {
        if self.standing.last().is_some_and(|standing| *standing <= at) {
            return true;
        }
        let (after, place) = (at.since(now), self.standing.len());
        if after < NEAR || place == STANDING_MAX {
            return false;
        }
        self.after[place] = types::Timespec::from(after);
        let entry = opcode::Timeout::new(&self.after[place]).build().user_data(Operation::Alarm.user_data());
        // SAFETY: the kernel reads the boxed time when the entry is submitted; its place is free again only after it rang.
        unsafe { ring.push(entry) };
        self.standing.push(at);
        true
    }

    /// The earliest has rung.
    pub fn rang(&mut self) {
        self.standing.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(milliseconds: u64) -> Time {
        Time::from_millis(milliseconds)
    }

    #[test]
    fn one_is_set_for_an_earlier_moment_only() {
        let (mut ring, mut alarm, now) = (Ring::new().unwrap(), Alarm::new(), Time::ZERO);
        assert!(alarm.covers(after(1000), now, &mut ring));
        assert!(alarm.covers(after(2000), now, &mut ring));
        assert_eq!(alarm.standing, [after(1000)]);
        assert!(alarm.covers(after(30), now, &mut ring));
        assert_eq!(alarm.standing, [after(1000), after(30)]);
        assert!(!alarm.covers(Time(900_000), now, &mut ring), "too near");
        for _ in 0..2 {
            // The later one stands on when the earlier one rings.
            ring.submit_and_wait(None).unwrap();
            let mut completions = Vec::new();
            ring.completions(&mut completions);
            for completion in completions {
                assert_eq!(Operation::from_user_data(completion.user_data), Some(Operation::Alarm));
                alarm.rang();
            }
            assert!(alarm.covers(after(1500), after(30), &mut ring));
        }
    }

    #[test]
    fn few_stand() {
        let (mut ring, mut alarm) = (Ring::new().unwrap(), Alarm::new());
        let set = (0..100).filter(|n| alarm.covers(after(10_000 - n), Time::ZERO, &mut ring)).count();
        assert_eq!(set, STANDING_MAX);
        assert!(alarm.covers(after(20_000), Time::ZERO, &mut ring));
    }
}

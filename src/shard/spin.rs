//! Whether to look a moment longer before a sleep, though no latency mode asks for it.
//!
//! A sleep costs a switch, an interrupt and a wake-up: about as much CPU as looking for that long. So where peers answer at once (one
//! request at a time, each awaited) a short look saves both CPU and latency; anywhere else it is a loss. It is decided by what
//! was: sleeps that were short allow a look, long ones take that back faster, and one that finds nothing is paid for with as many short
//! sleeps as the looks before it deserve.
//!
//! Invariant: looks that find nothing cost a small part of the sleeps between them, whatever the load.

use std::time::Duration;

/// The longest look: about what a sleep costs.
pub const LOOK: Duration = Duration::from_micros(15);
/// A sleep that a look would have saved: with the sends in front of it, and the wake-up behind.
const SHORT: Duration = Duration::from_micros(35);
/// Short sleeps that allow a look, and at most as many as count.
const WORTH: i32 = 16;
const SCORE_MAX: i32 = 32;
/// What a long sleep takes back.
const LONG_COST: i32 = 4;
/// What a look in vain takes back: doubled by each in a row, halved by each that found something.
const VAIN_COST_MIN: i32 = 8;
const VAIN_COST_MAX: i32 = 1024;

pub struct Spin {
    score: i32,
    vain_cost: i32,
}

impl Spin {
    pub fn new() -> Spin {
        Spin { score: 0, vain_cost: VAIN_COST_MIN }
    }

    #[inline]
    pub fn is_worth(&self) -> bool {
        self.score >= WORTH
    }

    /// A sleep took so long.
    #[inline]
    pub fn slept(&mut self, time: Duration) {
        self.score += if time <= SHORT { 1 } else { -LONG_COST };
        self.score = self.score.clamp(-self.vain_cost, SCORE_MAX);
    }

    /// Something came while looking, or nothing.
    #[inline]
    pub fn looked(&mut self, found: bool) {
        if found {
            self.score = (self.score + 1).min(SCORE_MAX);
            self.vain_cost = (self.vain_cost / 2).max(VAIN_COST_MIN);
        } else {
            self.score -= self.vain_cost;
            self.vain_cost = (self.vain_cost * 2).min(VAIN_COST_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sleeps of this many microseconds until a look is worth it.
    fn sleeps_until_a_look(spin: &mut Spin, microseconds: u64) -> Option<u32> {
        (0..10_000).find(|_| {
            spin.slept(Duration::from_micros(microseconds));
            spin.is_worth()
        })
    }

    #[test]
    fn short_sleeps_allow_looks_and_vain_ones_make_them_rare() {
        let mut spin = Spin::new();
        assert_eq!(sleeps_until_a_look(&mut spin, 10), Some(15));
        let mut sleeps = 0;
        for _ in 0..20 {
            spin.looked(false);
            assert!(!spin.is_worth());
            sleeps += sleeps_until_a_look(&mut spin, 10).unwrap();
        }
        assert!(sleeps > 10_000, "{sleeps}");
        // Those that find something make one in vain cheap again.
        for _ in 0..20 {
            assert!(spin.is_worth());
            spin.looked(true);
        }
        spin.looked(false);
        assert!(spin.is_worth() || sleeps_until_a_look(&mut spin, 10) < Some(8));
    }

    #[test]
    fn long_sleeps_never_do() {
        let mut spin = Spin::new();
        assert_eq!(sleeps_until_a_look(&mut spin, 40), None);
        // Nor does one in five.
        for round in 0..10_000 {
            spin.slept(Duration::from_micros(if round % 5 == 0 { 40 } else { 10 }));
            assert!(!spin.is_worth());
        }
    }
}

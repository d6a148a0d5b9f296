//! Whether to look a moment longer before a sleep, though no latency mode asks for it.
//!
//! A sleep costs a switch, an interrupt and a wake-up: about as much CPU as looking for that long. So where peers answer at once (one
//! request at a time, each awaited) a long look saves both CPU and latency; anywhere else it is a loss. It is decided by what
//! was: sleeps that were short allow a look, long ones take that back faster, and one that finds nothing is paid for with as many short
//! sleeps as the looks before it deserve.
//!
//! Where many peers are busy, something comes so soon behind a turn that a brief look often finds it: that costs little, and spares what
//! came the wake-up, the longest part of its way. Sleeps say nothing of that, since waking up takes several times as long; so
//! now and then a brief look is tried, and where enough of them find something each sleep has one in front of it.
//!
//! Invariant: looks that find nothing cost a small part of the sleeps between them, whatever the load.

use std::time::Duration;

/// The longest look: about what a sleep costs.
const LONG: Duration = Duration::from_micros(15);
/// A brief look: a fraction of what waking up takes.
const BRIEF: Duration = Duration::from_micros(3);
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
/// One in so many sleeps has a brief look tried in front of it, where they don't pay.
const TRIED_EVERY: u32 = 64;
/// All of brief looks, as their share that finds something is kept: a mean in which the last 64 weigh most.
const ALL: u32 = 1 << 16;
const SHARE_WEIGHT: u32 = 64;
/// Brief looks pay from the upper share until the lower one.
const SHARE_UPPER: u32 = ALL / 10;
const SHARE_LOWER: u32 = ALL / 16;

pub struct Spin {
    score: i32,
    vain_cost: i32,
    /// Of brief looks, those that found something.
    share: u32,
    brief_pays: bool,
    /// Sleeps until a brief look is tried.
    untried: u32,
}

/// How long to look before a sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Look {
    Long,
    Brief,
}

impl Look {
    #[inline]
    pub fn time(self) -> Duration {
        match self {
            Look::Long => LONG,
            Look::Brief => BRIEF,
        }
    }
}

impl Spin {
    pub fn new() -> Spin {
        Spin { score: 0, vain_cost: VAIN_COST_MIN, share: 0, brief_pays: false, untried: TRIED_EVERY }
    }

    /// A sleep is next. How to look before it, if at all.
    #[inline]
    pub fn look(&mut self) -> Option<Look> {
        if self.score >= WORTH {
            return Some(Look::Long);
        }
        self.untried -= 1;
        if self.untried == 0 || self.brief_pays {
            self.untried = TRIED_EVERY;
            return Some(Look::Brief);
        }
        None
    }

    /// A sleep took so long.
    #[inline]
    pub fn slept(&mut self, time: Duration) {
        self.score += if time <= SHORT { 1 } else { -LONG_COST };
        self.score = self.score.clamp(-self.vain_cost, SCORE_MAX);
    }

    /// Something came while looking, or nothing.
    #[inline]
    pub fn looked(&mut self, look: Look, found: bool) {
        match look {
            Look::Brief => self.looked_briefly(found),
            Look::Long if found => {
                self.score = (self.score + 1).min(SCORE_MAX);
                self.vain_cost = (self.vain_cost / 2).max(VAIN_COST_MIN);
            }
            Look::Long => {
                self.score -= self.vain_cost;
                self.vain_cost = (self.vain_cost * 2).min(VAIN_COST_MAX);
            }
        }
    }

    fn looked_briefly(&mut self, found: bool) {
        self.share -= self.share / SHARE_WEIGHT;
        if found {
            self.share += ALL / SHARE_WEIGHT;
        }
        self.brief_pays = self.share >= if self.brief_pays { SHARE_LOWER } else { SHARE_UPPER };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks_long(spin: &mut Spin) -> bool {
        spin.look() == Some(Look::Long)
    }

    /// Sleeps of this many microseconds until a long look is worth it.
    fn sleeps_until_a_long_look(spin: &mut Spin, microseconds: u64) -> Option<u32> {
        (0..10_000).find(|_| {
            spin.slept(Duration::from_micros(microseconds));
            looks_long(spin)
        })
    }

    #[test]
    fn short_sleeps_allow_looks_and_vain_ones_make_them_rare() {
        let mut spin = Spin::new();
        assert_eq!(sleeps_until_a_long_look(&mut spin, 10), Some(15));
        let mut sleeps = 0;
        for _ in 0..20 {
            spin.looked(Look::Long, false);
            assert!(!looks_long(&mut spin));
            sleeps += sleeps_until_a_long_look(&mut spin, 10).unwrap();
        }
        assert!(sleeps > 10_000, "{sleeps}");
        // Those that find something make one in vain cheap again.
        for _ in 0..20 {
            assert!(looks_long(&mut spin));
            spin.looked(Look::Long, true);
        }
        spin.looked(Look::Long, false);
        assert!(looks_long(&mut spin) || sleeps_until_a_long_look(&mut spin, 10) < Some(8));
    }

    #[test]
    fn long_sleeps_never_do() {
        let mut spin = Spin::new();
        assert_eq!(sleeps_until_a_long_look(&mut spin, 40), None);
        // Nor does one in five.
        for round in 0..10_000 {
            spin.slept(Duration::from_micros(if round % 5 == 0 { 40 } else { 10 }));
            assert!(!looks_long(&mut spin));
        }
    }

    /// Of so many sleeps, those with a brief look in front, of which every `nth` finds something.
    fn brief_looks(spin: &mut Spin, sleeps: u32, nth: u32) -> u32 {
        let mut looks = 0;
        for _ in 0..sleeps {
            spin.slept(Duration::from_micros(40));
            if let Some(look) = spin.look() {
                looks += 1;
                spin.looked(look, looks % nth == 0);
            }
        }
        looks
    }

    #[test]
    fn brief_looks_are_taken_where_they_often_find_something() {
        let mut spin = Spin::new();
        // One in fifty: they are tried, and no more.
        assert_eq!(brief_looks(&mut spin, 64_000, 50), 1000);
        // One in six: as soon as that is known, before each sleep.
        assert!(brief_looks(&mut spin, 64_000, 6) > 55_000);
        // And until it is known that they don't any more.
        assert!(brief_looks(&mut spin, 64_000, 50) < 1200);
    }
}

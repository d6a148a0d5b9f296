//! Whether to look a moment longer before a sleep, though no latency mode asks for it.
//!
//! A sleep costs a switch, an interrupt and a wake-up, here and at the peer whose answer ends it. Where peers answer soon, a *long* look
//! saves more CPU than it takes, and most of the latency; anywhere else it is a loss. Which of both holds can't be told from how
//! long sleeps take, since a peer that is asleep itself answers late, and one that was never left to fall asleep at once. So it
//! is measured: now and then the other way is tried for some sleeps, and kept where twice in a row the CPU for each byte falls by more
//! than chance.
//!
//! Where many peers are busy, something comes so soon behind a turn that a *brief* look often finds it: that costs some CPU, and spares what
//! came the wake-up, the longest part of its way. Now and then one is tried, and where enough of them find something
//! each sleep has one in front of it.
//!
//! Invariant: a long look that costs an eighth more than it saves is given up, whatever the load; trials, and long looks that chance
//! made win, take few hundredths of the CPU.

use std::time::Duration;

/// A long look: about as long as two wake-ups, this thread's and its peer's.
const LONG: Duration = Duration::from_micros(30);
/// A brief look: a fraction of what waking up takes.
const BRIEF: Duration = Duration::from_micros(4);

/// Sleeps over which a way is measured.
const MEASURED: u32 = 32;
/// Sleeps until peers have followed a change.
const SETTLING: u32 = 16;
/// Sleeps between two trials at least.
const KEPT_MIN: u32 = 256;
/// CPU between two of long looks, where the first changed nothing: a hundred times what its looks may take.
const PAUSE: Duration = LONG.saturating_mul(100 * (SETTLING + MEASURED));
/// Sleeps between two of going without: doubled from the least by each that changed nothing.
const KEPT_MAX: u32 = 16 * 1024;
/// So many long looks that found something count as one sleep.
const FINDS_A_SLEEP: u32 = 16;

/// One in so many sleeps has a brief look tried in front of it, where they seldom find something.
const BRIEF_EVERY: u32 = 64;
/// All of brief looks, as their share that finds something is kept: a mean in which the last 64 weigh most.
const ALL: u32 = 1 << 16;
const SHARE_WEIGHT: u32 = 64;
/// Brief looks are taken from the upper share until the lower one.
const SHARE_UPPER: u32 = ALL / 10;
const SHARE_LOWER: u32 = ALL / 16;

/// How long to look before a sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Look {
    Long,
    Brief,
}

impl Look {
    /// Who sleeps for less doesn't look.
    pub const MOST: Duration = LONG;

    #[inline]
    pub fn time(self) -> Duration {
        match self {
            Look::Long => LONG,
            Look::Brief => BRIEF,
        }
    }
}

/// What a thread has taken and done so far.
#[derive(Clone, Copy, Default)]
pub struct Spent {
    pub cpu: Duration,
    /// Bytes that it moved.
    pub bytes: u64,
}

impl Spent {
    /// Nanoseconds of CPU for a MiB since then; none where no byte was moved.
    fn cost_since(&self, before: &Spent) -> Option<u128> {
        let bytes = u128::from(self.bytes - before.bytes);
        (self.cpu.saturating_sub(before.cpu).as_nanos() << 20).checked_div(bytes)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// As it was found best.
    Kept,
    /// The same, and what that costs is measured.
    Measured,
    /// The other way, until peers have followed.
    Settling,
    /// The other way, and what that costs is measured.
    Tried,
}

pub struct Spin {
    /// A long look before each sleep is the better way.
    looks: bool,
    stage: Stage,
    /// Sleeps until the next stage.
    sleeps_left: u32,
    /// Sleeps from one trial of going without long looks to the next.
    sleeps_kept: u32,
    /// CPU taken before which none of long looks begins.
    paused_until: Duration,
    finds: u32,
    /// The other way won the last trial.
    has_won: bool,
    /// As the measuring began.
    before: Spent,
    kept_cost: Option<u128>,
    brief: BriefLooks,
}

/// Brief looks, where no long ones are taken.
struct BriefLooks {
    /// Of them, those that found something.
    share: u32,
    often_find: bool,
    sleeps_left: u32,
}

impl Spin {
    pub fn new() -> Spin {
        Spin {
            looks: false,
            stage: Stage::Kept,
            sleeps_left: KEPT_MIN,
            sleeps_kept: KEPT_MIN,
            paused_until: Duration::ZERO,
            finds: 0,
            has_won: false,
            before: Spent::default(),
            kept_cost: None,
            brief: BriefLooks { share: 0, often_find: false, sleeps_left: BRIEF_EVERY },
        }
    }

    /// A sleep is next. How to look before it, if at all.
    #[inline]
    pub fn look(&mut self, spent: impl FnOnce() -> Spent) -> Option<Look> {
        if self.sleeps_left == 0 {
            self.advance(spent());
        }
        if self.stage != Stage::Kept || !self.looks {
            self.sleeps_left -= 1;
        }
        let is_other_way = matches!(self.stage, Stage::Settling | Stage::Tried);
        if self.looks != is_other_way {
            return Some(Look::Long);
        }
        self.brief.is_next().then_some(Look::Brief)
    }

    #[cold]
    fn advance(&mut self, spent: Spent) {
        (self.stage, self.sleeps_left) = match self.stage {
            Stage::Kept if !self.looks && spent.cpu < self.paused_until => (Stage::Kept, KEPT_MIN),
            Stage::Kept => (Stage::Measured, MEASURED),
            Stage::Measured => {
                self.kept_cost = spent.cost_since(&self.before);
                (Stage::Settling, SETTLING)
            }
            Stage::Settling => (Stage::Tried, MEASURED),
            Stage::Tried => {
                self.decide(spent);
                let sleeps = match (self.has_won, self.looks) {
                    (true, _) => SETTLING,
                    (false, true) => self.sleeps_kept,
                    (false, false) => KEPT_MIN,
                };
                (Stage::Kept, sleeps)
            }
        };
        self.before = spent;
    }

    /// A trial is over. The other way is taken once it has won two in a row: one may be chance, where some messages are large.
    fn decide(&mut self, spent: Spent) {
        let wins = match (self.kept_cost, spent.cost_since(&self.before)) {
            (Some(kept), Some(tried)) => tried < kept - kept / 8,
            // With nothing to do there is nothing to look for.
            _ => self.looks,
        };
        if wins && self.has_won {
            self.looks = !self.looks;
            self.sleeps_kept = KEPT_MIN;
        } else if !wins && self.looks {
            self.sleeps_kept = (self.sleeps_kept * 2).min(KEPT_MAX);
        } else if !wins {
            self.paused_until = spent.cpu + PAUSE;
        }
        self.has_won = wins && !self.has_won;
    }

    /// Something came while looking, or nothing.
    #[inline]
    pub fn looked(&mut self, look: Look, found: bool) {
        match look {
            Look::Brief => self.brief.looked(found),
            Look::Long if self.stage == Stage::Kept => {
                self.finds += u32::from(found);
                if !found || self.finds == FINDS_A_SLEEP {
                    self.finds = 0;
                    self.sleeps_left -= 1;
                }
            }
            Look::Long => {}
        }
    }
}

impl BriefLooks {
    #[inline]
    fn is_next(&mut self) -> bool {
        self.sleeps_left -= 1;
        let is_next = self.often_find || self.sleeps_left == 0;
        if is_next {
            self.sleeps_left = BRIEF_EVERY;
        }
        is_next
    }

    fn looked(&mut self, found: bool) {
        self.share -= self.share / SHARE_WEIGHT;
        if found {
            self.share += ALL / SHARE_WEIGHT;
        }
        self.often_find = self.share >= if self.often_find { SHARE_LOWER } else { SHARE_UPPER };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shard under some load, in turns that are never the same.
    struct Shard {
        spin: Spin,
        spent: Spent,
        seed: u64,
        /// Microseconds that a turn takes with a long look before it and without, and how many long looks of 100 find something.
        with: u64,
        without: u64,
        found: u64,
        /// Bytes of a turn, as drawn.
        bytes: fn(u64) -> u64,
    }

    impl Shard {
        fn new(with: u64, without: u64, found: u64) -> Shard {
            Shard { spin: Spin::new(), spent: Spent::default(), seed: 1, with, without, found, bytes: |_| 100 }
        }

        /// Below `bound`.
        fn draw(&mut self, bound: u64) -> u64 {
            self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.seed >> 33) % bound
        }

        /// Long looks of so many turns.
        fn long_looks(&mut self, turns: u32) -> u32 {
            let mut looks = 0;
            for _ in 0..turns {
                let is_long = self.spin.look(|| self.spent) == Some(Look::Long);
                looks += u32::from(is_long);
                if is_long {
                    let found = self.draw(100) < self.found;
                    self.spin.looked(Look::Long, found);
                }
                let mean = if is_long { self.with } else { self.without };
                let cpu = mean / 2 + self.draw(mean);
                self.spent.cpu += Duration::from_micros(cpu);
                let drawn = self.draw(1000);
                self.spent.bytes += (self.bytes)(drawn);
            }
            looks
        }
    }

    #[test]
    fn long_looks_are_taken_where_they_save_cpu() {
        let mut shard = Shard::new(20, 40, 100);
        assert!(shard.long_looks(100_000) > 98_000);
        // And until they don't any more, whatever they find.
        for found in [0, 60, 100] {
            (shard.with, shard.found) = (55, found);
            shard.long_looks(300_000);
            assert!(shard.long_looks(100_000) < 2000, "{found}");
            // Once they do again, though not all find something.
            (shard.with, shard.found) = (20, 80);
            shard.long_looks(40_000);
            assert!(shard.long_looks(100_000) > 98_000);
        }
    }

    #[test]
    fn chance_is_not_taken_for_a_saving() {
        assert!(Shard::new(42, 40, 100).long_looks(1_000_000) < 20_000);
    }

    #[test]
    fn a_load_that_comes_late_is_tried_soon() {
        // Half a minute of what isn't worth looking for; then a pause is over after 1440 turns at the latest.
        let mut shard = Shard::new(55, 40, 0);
        shard.long_looks(750_000);
        (shard.with, shard.without, shard.found) = (50, 100, 100);
        shard.long_looks(1440 + 2 * KEPT_MIN);
        assert!(shard.long_looks(1000) > 900);
    }

    #[test]
    fn some_large_messages_prove_little() {
        let looks = (1..=20).map(|seed| {
            let mut shard = Shard::new(55, 40, 60);
            (shard.seed, shard.bytes) = (seed, |drawn| if drawn < 10 { 1_000_000 } else { 200 });
            shard.long_looks(1_000_000)
        });
        assert!(looks.sum::<u32>() < 20 * 50_000);
    }

    #[test]
    fn who_brings_nothing_is_not_looked_for() {
        let mut shard = Shard::new(20, 40, 0);
        shard.bytes = |_| 0;
        assert!(shard.long_looks(100_000) < 2000);
        (shard.found, shard.bytes) = (100, |_| 100);
        shard.long_looks(40_000);
        (shard.found, shard.bytes) = (0, |_| 0);
        shard.long_looks(40_000);
        assert!(shard.long_looks(100_000) < 2000);
    }

    /// Of so many sleeps, those with a brief look in front, of which every `nth` finds something.
    fn brief_looks(spin: &mut Spin, sleeps: u32, nth: u32) -> u32 {
        let mut looks = 0;
        for _ in 0..sleeps {
            if spin.look(Spent::default) == Some(Look::Brief) {
                looks += 1;
                spin.looked(Look::Brief, looks % nth == 0);
            }
        }
        looks
    }

    #[test]
    fn brief_looks_are_taken_where_they_often_find_something() {
        let mut spin = Spin::new();
        // One in fifty: they are tried, and no more.
        assert!(brief_looks(&mut spin, 64_000, 50) <= 1000);
        // One in six: as soon as that is known, before each sleep.
        assert!(brief_looks(&mut spin, 64_000, 6) > 55_000);
        // And until it is known that they don't any more.
        assert!(brief_looks(&mut spin, 64_000, 50) < 1200);
    }
}

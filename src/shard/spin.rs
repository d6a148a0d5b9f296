//! Whether to look a moment longer before a sleep, though no latency mode asks for it.
//!
//! A sleep costs a switch, an interrupt and a wake-up, here and at the peer whose answer ends it. Where peers answer soon, a *long* look
//! saves more CPU than it takes, and most of the latency; anywhere else it is a loss. Which of both holds can't be told from how
//! long sleeps take, since a peer that is asleep itself answers late, and one that was never left to fall asleep at once. So it
//! is measured: now and then the other way is tried for some sleeps, and kept where the CPU for each byte falls by more than chance.
//!
//! Where many peers are busy, something comes so soon behind a turn that a *brief* look often finds it: that costs little, and spares what
//! came the wake-up, the longest part of its way. Now and then one is tried, and where enough of them find something
//! each sleep has one in front of it.
//!
//! Invariant: what is tried in vain costs a small part of what is kept, whatever the load.

use std::time::Duration;

/// A long look: about what a sleep costs.
const LONG: Duration = Duration::from_micros(30);
/// A brief look: a fraction of what waking up takes.
const BRIEF: Duration = Duration::from_micros(3);

/// Sleeps over which a way is measured.
const MEASURED: u32 = 32;
/// Sleeps until peers have followed a change.
const SETTLING: u32 = 16;
/// Sleeps between two trials: doubled by each that changed nothing.
const KEPT_MIN: u32 = 256;
const KEPT_MAX: u32 = 16 * 1024;

/// One in so many sleeps has a brief look tried in front of it, where they don't pay.
const TRIED_EVERY: u32 = 64;
/// All of brief looks, as their share that finds something is kept: a mean in which the last 64 weigh most.
const ALL: u32 = 1 << 16;
const SHARE_WEIGHT: u32 = 64;
/// Brief looks pay from the upper share until the lower one.
const SHARE_UPPER: u32 = ALL / 10;
const SHARE_LOWER: u32 = ALL / 16;

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

/// What a thread has taken and done so far.
#[derive(Clone, Copy, Default)]
pub struct Account {
    pub cpu: Duration,
    pub bytes: u64,
}

impl Account {
    /// CPU for so many bytes since then; none where there were none.
    fn cost_since(&self, before: &Account) -> Option<u128> {
        let bytes = u128::from(self.bytes - before.bytes);
        ((self.cpu - before.cpu).as_nanos() << 20).checked_div(bytes)
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
    /// Sleeps until the next stage, looks that found something not counted.
    left: u32,
    /// Those from one trial to the next.
    kept: u32,
    /// As the measuring began.
    before: Account,
    kept_cost: Option<u128>,
    brief: Brief,
}

/// Brief looks, where no long ones are taken.
struct Brief {
    /// Of them, those that found something.
    share: u32,
    pays: bool,
    /// Sleeps until one is tried.
    untried: u32,
}

impl Spin {
    pub fn new() -> Spin {
        Spin {
            looks: false,
            stage: Stage::Kept,
            left: KEPT_MIN,
            kept: KEPT_MIN,
            before: Account::default(),
            kept_cost: None,
            brief: Brief { share: 0, pays: false, untried: TRIED_EVERY },
        }
    }

    /// A sleep is next. How to look before it, if at all.
    #[inline]
    pub fn look(&mut self, account: impl FnOnce() -> Account) -> Option<Look> {
        if self.left == 0 {
            self.advance(account());
        }
        if self.stage != Stage::Kept || !self.looks {
            self.left -= 1;
        }
        let other = matches!(self.stage, Stage::Settling | Stage::Tried);
        if self.looks != other {
            return Some(Look::Long);
        }
        self.brief.is_next().then_some(Look::Brief)
    }

    #[cold]
    fn advance(&mut self, account: Account) {
        (self.stage, self.left) = match self.stage {
            Stage::Kept => (Stage::Measured, MEASURED),
            Stage::Measured => {
                self.kept_cost = account.cost_since(&self.before);
                (Stage::Settling, SETTLING)
            }
            Stage::Settling => (Stage::Tried, MEASURED),
            Stage::Tried => {
                self.decide(account.cost_since(&self.before));
                (Stage::Kept, self.kept)
            }
        };
        self.before = account;
    }

    fn decide(&mut self, tried_cost: Option<u128>) {
        let changes = match (self.kept_cost, tried_cost) {
            // By more than an eighth: less may be chance.
            (Some(kept), Some(tried)) => tried < kept - kept / 8,
            // With nothing to do there is nothing to look for.
            _ => self.looks,
        };
        self.looks ^= changes;
        self.kept = if changes { KEPT_MIN } else { (self.kept * 2).min(KEPT_MAX) };
    }

    /// Something came while looking, or nothing.
    #[inline]
    pub fn looked(&mut self, look: Look, found: bool) {
        match look {
            Look::Brief => self.brief.looked(found),
            // As long as looks find something they are the better way: the trial is put off.
            Look::Long if self.stage == Stage::Kept && !found => self.left -= 1,
            Look::Long => {}
        }
    }
}

impl Brief {
    #[inline]
    fn is_next(&mut self) -> bool {
        self.untried -= 1;
        let is_next = self.pays || self.untried == 0;
        if is_next {
            self.untried = TRIED_EVERY;
        }
        is_next
    }

    fn looked(&mut self, found: bool) {
        self.share -= self.share / SHARE_WEIGHT;
        if found {
            self.share += ALL / SHARE_WEIGHT;
        }
        self.pays = self.share >= if self.pays { SHARE_LOWER } else { SHARE_UPPER };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shard whose turns bring so many bytes.
    struct Shard {
        spin: Spin,
        account: Account,
        bytes: u64,
    }

    impl Shard {
        fn new(bytes: u64) -> Shard {
            Shard { spin: Spin::new(), account: Account::default(), bytes }
        }

        /// Long looks of so many turns, which take these microseconds with one and without.
        fn long_looks(&mut self, turns: u32, with: u64, without: u64) -> u32 {
            let mut looks = 0;
            for turn in 0..turns {
                let is_long = self.spin.look(|| self.account) == Some(Look::Long);
                looks += u32::from(is_long);
                if is_long {
                    self.spin.looked(Look::Long, self.bytes > 0 && with < without);
                }
                // No two turns are the same.
                let cpu = if is_long { with } else { without } * (90 + u64::from(turn % 7 * 3)) / 100;
                self.account.cpu += Duration::from_micros(cpu);
                self.account.bytes += self.bytes;
            }
            looks
        }
    }

    #[test]
    fn long_looks_are_taken_where_they_save_cpu() {
        let mut shard = Shard::new(100);
        let tried = shard.long_looks(10_000, 20, 40);
        assert!(tried > 9_500, "{tried}");
        // And until they don't any more.
        let vain = shard.long_looks(20_000, 50, 40);
        assert!(vain < 17_000, "{vain}");
        assert!(shard.long_looks(100_000, 50, 40) < 1000);
        // Once they do again.
        shard.long_looks(20_000, 20, 40);
        assert!(shard.long_looks(100_000, 20, 40) > 99_000);
    }

    #[test]
    fn a_little_less_is_chance() {
        let mut shard = Shard::new(100);
        assert!(shard.long_looks(100_000, 38, 40) < 1000);
    }

    #[test]
    fn who_brings_nothing_is_not_looked_for() {
        let mut shard = Shard::new(0);
        assert!(shard.long_looks(100_000, 20, 40) < 1000);
        shard.bytes = 100;
        shard.long_looks(20_000, 20, 40);
        shard.bytes = 0;
        shard.long_looks(20_000, 20, 40);
        assert!(shard.long_looks(100_000, 20, 40) < 1000);
    }

    /// Of so many sleeps, those with a brief look in front, of which every `nth` finds something.
    fn brief_looks(spin: &mut Spin, sleeps: u32, nth: u32) -> u32 {
        let mut looks = 0;
        for _ in 0..sleeps {
            if spin.look(Account::default) == Some(Look::Brief) {
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

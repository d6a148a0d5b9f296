//! How many a second, of a count that only grows: two samples of it tell, taken now and then by who goes round
//! ([`super::rounds`]). The count itself costs nothing more for it.

use crate::time::Time;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Sample {
    /// Both wrap.
    at_milliseconds: u32,
    count: u32,
}

impl Sample {
    fn new(now: Time, count: u64) -> Sample {
        Sample { at_milliseconds: now.as_millis() as u32, count: count as u32 }
    }
}

/// A count's two latest samples.
///
/// ```
/// use ringway::routing::Rate;
/// use ringway::time::Time;
/// let mut rate = Rate::since(Time::ZERO);
/// rate.sample(Time::from_millis(2500), 250);
/// rate.sample(Time::from_millis(5000), 1250);
/// // Since the older of them:
/// assert_eq!(rate.per_second(Time::from_millis(6500), 2050), 450);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Rate {
    older: Sample,
    newer: Sample,
}

impl Rate {
    /// Of a count that is 0 until now.
    pub fn since(now: Time) -> Rate {
        let sample = Sample::new(now, 0);
        Rate { older: sample, newer: sample }
    }

    pub fn sample(&mut self, now: Time, count: u64) {
        self.older = std::mem::replace(&mut self.newer, Sample::new(now, count));
    }

    /// Since the older sample: over the last seconds.
    pub fn per_second(&self, now: Time, count: u64) -> u32 {
        let now = Sample::new(now, count);
        let milliseconds = u64::from(now.at_milliseconds.wrapping_sub(self.older.at_milliseconds)).max(1);
        let counted = u64::from(now.count.wrapping_sub(self.older.count));
        ((counted * 1000 + milliseconds / 2) / milliseconds) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_count_has_its_rate_all_the_time() {
        let mut rate = Rate::since(Time::ZERO);
        for step in 1..2000u64 {
            let (now, count) = (Time::from_millis(step * 10), step * 3);
            assert_eq!(rate.per_second(now, count), 300, "at step {step}");
            if step % 250 == 0 {
                rate.sample(now, count);
            }
        }
    }

    #[test]
    fn counts_and_moments_wrap() {
        let (count, at) = (u64::from(u32::MAX) - 5, Time::from_millis(u64::from(u32::MAX) - 500));
        let mut rate = Rate::default();
        rate.sample(at, count);
        rate.sample(at, count);
        assert_eq!(rate.per_second(Time::from_millis(u64::from(u32::MAX) + 500), count + 20), 20);
    }
}

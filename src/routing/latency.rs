//! How long deliveries take from their arrival to their settlement.
//!
//! Deliveries that came in one turn and were settled in one turn took the same time, as far as anybody looked at a clock:
//! they are counted as a run, and only a run's end touches a histogram.

use crate::time::Time;
use hdrhistogram::Histogram;
use std::time::Duration;

/// The older half of what a histogram shows weighs half as much, and so on: it is about the last minutes.
const HALF_LIFE: Duration = Duration::from_secs(60);

/// Values are within 1/16 of what was measured: few kilobytes whatever the span.
const DIGITS: u8 = 1;

/// Times of one address. Without a delivery it takes no memory of its own.
#[derive(Default)]
pub struct Latency {
    run_age_nanoseconds: u64,
    run_count: u32,
    kept: Option<Box<Kept>>,
}

struct Kept {
    /// Microseconds, rounded up.
    histogram: Histogram<u32>,
    halved_at: Time,
    count: u64,
    sum_nanoseconds: u64,
}

/// What a histogram says: quantiles of the last minutes, sums since the begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LatencySummary {
    pub count: u64,
    pub sum_nanoseconds: u64,
    pub p50_microseconds: u64,
    pub p99_microseconds: u64,
    pub p999_microseconds: u64,
    pub max_microseconds: u64,
}

/// The upper bounds of [`Spread`]'s classes, but for the last that has none.
pub const SPREAD_BOUNDS_MICROSECONDS: [u64; 16] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000,
];

/// Times of all addresses, those that are gone included, in a few fixed classes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spread {
    /// How many took no longer than a bound, and longer than the one before.
    pub counts: [u64; SPREAD_BOUNDS_MICROSECONDS.len() + 1],
    pub sum_nanoseconds: u64,
}

impl Spread {
    /// So many deliveries took so long.
    pub fn add(&mut self, age_nanoseconds: u64, count: u32) {
        let class = SPREAD_BOUNDS_MICROSECONDS.partition_point(|bound| bound * 1000 < age_nanoseconds);
        self.counts[class] += u64::from(count);
        self.sum_nanoseconds = self.sum_nanoseconds.saturating_add(age_nanoseconds.saturating_mul(u64::from(count)));
    }

    /// Another router's, or shard's, with this one's.
    pub fn merge(&mut self, other: &Spread) {
        self.counts.iter_mut().zip(other.counts).for_each(|(count, more)| *count += more);
        self.sum_nanoseconds += other.sum_nanoseconds;
    }
}

/// A run that is longer ends, so that its count never overflows.
const RUN_MAX: u32 = u32::MAX / 2;

impl Latency {
    /// A delivery took so long. `all` hears of it as well, though not at once.
    #[inline]
    pub fn record(&mut self, age_nanoseconds: u64, now: Time, all: &mut Spread) {
        self.record_run(age_nanoseconds, 1, now, all);
    }

    /// So many deliveries took so long.
    #[inline]
    pub fn record_run(&mut self, age_nanoseconds: u64, count: u32, now: Time, all: &mut Spread) {
        if age_nanoseconds != self.run_age_nanoseconds || self.run_count > RUN_MAX {
            self.flush(now, all);
            self.run_age_nanoseconds = age_nanoseconds;
        }
        self.run_count += count;
    }

    /// Ends the run: what was recorded is in the histogram and in `all`.
    #[cold]
    pub fn flush(&mut self, now: Time, all: &mut Spread) {
        let (age, count) = (self.run_age_nanoseconds, std::mem::take(&mut self.run_count));
        if count == 0 {
            return;
        }
        all.add(age, count);
        if self.kept.is_none() {
            self.kept = Kept::new(now).map(Box::new);
        }
        if let Some(kept) = &mut self.kept {
            kept.add(age, count, now);
        }
    }

    /// What is in the histogram: see `flush`.
    pub fn summary(&self) -> LatencySummary {
        self.kept.as_ref().map_or(LatencySummary::default(), |kept| kept.summary())
    }
}

/// It grows with what is recorded. (There is one for every small number of digits.)
fn empty() -> Option<Histogram<u32>> {
    Histogram::new(DIGITS).ok()
}

impl Kept {
    fn new(now: Time) -> Option<Kept> {
        Some(Kept { histogram: empty()?, halved_at: now, count: 0, sum_nanoseconds: 0 })
    }

    fn add(&mut self, age_nanoseconds: u64, count: u32, now: Time) {
        if now.since(self.halved_at) >= HALF_LIFE {
            self.fade(now);
        }
        // It takes every value: where it can't grow that far, there is no memory either.
        let _ = self.histogram.record_n(age_nanoseconds.div_ceil(1000).max(1), count);
        self.count += u64::from(count);
        self.sum_nanoseconds = self.sum_nanoseconds.saturating_add(age_nanoseconds.saturating_mul(u64::from(count)));
    }

    /// What is old counts less.
    fn fade(&mut self, now: Time) {
        let halves = (now.since(self.halved_at).as_secs() / HALF_LIFE.as_secs()).min(31) as u32;
        let Some(mut faded) = empty() else { return };
        for value in self.histogram.iter_recorded() {
            let count = value.count_at_value() >> halves;
            if count > 0 {
                let _ = faded.record_n(value.value_iterated_to(), count);
            }
        }
        self.histogram = faded;
        self.halved_at = now;
    }

    fn summary(&self) -> LatencySummary {
        let histogram = &self.histogram;
        LatencySummary {
            count: self.count,
            sum_nanoseconds: self.sum_nanoseconds,
            p50_microseconds: histogram.value_at_quantile(0.5),
            p99_microseconds: histogram.value_at_quantile(0.99),
            p999_microseconds: histogram.value_at_quantile(0.999),
            max_microseconds: histogram.max(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::from_millis(seconds * 1000)
    }

    #[test]
    fn quantiles_are_those_of_what_was_recorded() {
        let (mut latency, mut all) = (Latency::default(), Spread::default());
        let mut ages: Vec<u64> = (0..20_000u64).map(|at| 50 + at * at % 7919 * 13).collect();
        for age in &ages {
            latency.record(*age * 1000, at(1), &mut all);
        }
        latency.flush(at(1), &mut all);
        ages.sort_unstable();
        let summary = latency.summary();
        assert_eq!((summary.count, summary.sum_nanoseconds), (20_000, ages.iter().sum::<u64>() * 1000));
        for (shown, part) in
            [(summary.p50_microseconds, 0.5), (summary.p99_microseconds, 0.99), (summary.p999_microseconds, 0.999)]
        {
            let exact = ages[(ages.len() as f64 * part) as usize] as f64;
            assert!((shown as f64 / exact - 1.0).abs() < 1.0 / 15.0, "{part}: {shown}, exactly {exact}");
        }
        let below = |bound: u64| ages.iter().filter(|age| **age <= bound).count() as u64;
        let mut sum = 0;
        for (bound, count) in SPREAD_BOUNDS_MICROSECONDS.iter().zip(all.counts) {
            sum += count;
            assert_eq!(sum, below(*bound), "up to {bound} µs");
        }
        assert_eq!(all.sum_nanoseconds, summary.sum_nanoseconds);
    }

    #[test]
    fn quantiles_are_about_the_last_minutes() {
        let (mut latency, mut all) = (Latency::default(), Spread::default());
        for _ in 0..1000 {
            latency.record(1_000_000, at(1), &mut all);
        }
        latency.flush(at(1), &mut all);
        for _ in 0..100 {
            latency.record(2_000_000_000, at(600), &mut all);
        }
        latency.flush(at(600), &mut all);
        let summary = latency.summary();
        assert!(summary.p50_microseconds > 1_900_000, "{summary:?}");
        assert_eq!((summary.count, all.counts.iter().sum::<u64>()), (1100, 1100));
    }

    #[test]
    fn times_beyond_every_bound() {
        let (mut latency, mut all) = (Latency::default(), Spread::default());
        latency.record(0, at(1), &mut all);
        latency.record(3_000_000_000_000_000_000, at(1), &mut all);
        latency.flush(at(1), &mut all);
        let summary = latency.summary();
        assert_eq!((summary.count, all.counts[0], all.counts[16]), (2, 1, 1));
        assert!(summary.max_microseconds >= 3_000_000_000_000_000);
    }
}

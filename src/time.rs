//! Time as an argument: pure rooms are told what time it is, they never look.

use std::ops::{Add, Sub};
use std::time::Duration;

/// A moment: nanoseconds since an origin that only the caller knows (a shard's start, a simulation's zero).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Time(pub u64);

impl Time {
    pub const ZERO: Time = Time(0);

    #[inline]
    pub fn from_millis(milliseconds: u64) -> Time {
        Time(milliseconds * 1_000_000)
    }

    #[inline]
    pub fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// How long since `earlier`; zero when that is later.
    #[inline]
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// The earliest of moments that may never come.
#[inline]
pub fn earliest<const N: usize>(moments: [Option<Time>; N]) -> Option<Time> {
    moments.into_iter().fold(None, |least, moment| match (least, moment) {
        (Some(least), Some(moment)) => Some(least.min(moment)),
        (least, moment) => least.or(moment),
    })
}

impl Add<Duration> for Time {
    type Output = Time;
    #[inline]
    fn add(self, by: Duration) -> Time {
        Time(self.0.saturating_add(by.as_nanos() as u64))
    }
}

impl Sub<Time> for Time {
    type Output = Duration;
    #[inline]
    fn sub(self, earlier: Time) -> Duration {
        self.since(earlier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_is_of_those_that_come() {
        assert_eq!(earliest([None, None]), None);
        assert_eq!(earliest([None, Some(Time(3)), None, Some(Time(2)), Some(Time(4))]), Some(Time(2)));
        assert_eq!(earliest([Some(Time(0)), None]), Some(Time(0)));
    }
}

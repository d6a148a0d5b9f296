//! What came of a load.

use super::{End, Plan};
use crate::outcome::StateKind;
use crate::time::Time;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::time::Duration;

/// Latencies are kept to three digits, up to this.
const LATENCY_MAX: Duration = Duration::from_secs(600);

/// A thread's counts.
pub struct Tally {
    /// Messages that arrived (of requests: replies), whenever.
    pub received: u64,
    /// Those in the time that counts, and when the last one of them came.
    measured: u64,
    last: Time,
    /// Nanoseconds from a message's moment to its arrival, of messages whose moment counts.
    latency: Histogram<u64>,
    pub outcomes: Outcomes,
}

#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Serialize)]
pub struct Outcomes {
    pub accepted: u64,
    pub released: u64,
    pub modified: u64,
    pub rejected: u64,
    pub other: u64,
}

impl Outcomes {
    pub fn all(&self) -> u64 {
        self.accepted + self.released + self.modified + self.rejected + self.other
    }

    fn add(&mut self, other: &Outcomes) {
        self.accepted += other.accepted;
        self.released += other.released;
        self.modified += other.modified;
        self.rejected += other.rejected;
        self.other += other.other;
    }
}

impl Tally {
    pub fn new() -> Tally {
        let most = LATENCY_MAX.as_nanos() as u64;
        Tally {
            received: 0,
            measured: 0,
            last: Time::ZERO,
            latency: Histogram::new_with_bounds(1, most, 3).expect("bounds that a histogram takes"),
            outcomes: Outcomes::default(),
        }
    }

    #[inline]
    pub fn arrived(&mut self, stamp: Option<Time>, now: Time, (from, to): (Time, Time)) {
        self.received += 1;
        if now >= from && now < to {
            self.measured += 1;
            self.last = now;
        }
        if let Some(stamp) = stamp.filter(|stamp| *stamp >= from && *stamp < to) {
            self.latency.saturating_record((now.since(stamp).as_nanos() as u64).max(1));
        }
    }

    #[inline]
    pub fn outcome(&mut self, kind: Option<StateKind>) {
        let outcomes = &mut self.outcomes;
        *match kind {
            Some(StateKind::Accepted) => &mut outcomes.accepted,
            Some(StateKind::Released) => &mut outcomes.released,
            Some(StateKind::Modified) => &mut outcomes.modified,
            Some(StateKind::Rejected) => &mut outcomes.rejected,
            _ => &mut outcomes.other,
        } += 1;
    }

    pub fn add(&mut self, other: &Tally) {
        self.received += other.received;
        self.measured += other.measured;
        self.last = self.last.max(other.last);
        self.outcomes.add(&other.outcomes);
        self.latency.add(&other.latency).expect("the same bounds");
    }

    /// In what the plan's end says: of a count the time up to the last message is what it took.
    pub fn figures(&self, plan: &Plan, measure: Time, sent: u64) -> Figures {
        let time = match plan.end {
            End::Count(_) => self.last.since(measure),
            End::After(duration) => duration,
        };
        let microseconds = |nanoseconds: u64| nanoseconds as f64 / 1e3;
        let at = |percentile: f64| microseconds(self.latency.value_at_percentile(percentile));
        let latency = (!self.latency.is_empty()).then(|| Latency {
            p50: at(50.0),
            p90: at(90.0),
            p99: at(99.0),
            p99_9: at(99.9),
            p99_99: at(99.99),
            max: microseconds(self.latency.max()),
            mean: self.latency.mean() / 1e3,
        });
        Figures {
            messages: self.measured,
            seconds: time.as_secs_f64(),
            messages_per_second: self.measured as f64 / time.as_secs_f64().max(1e-9),
            latency_microseconds: latency,
            sent,
            received: self.received,
            lost: (sent * plan.copies).saturating_sub(self.received),
            outcomes: self.outcomes,
        }
    }
}

/// What came of a load, in the time that counts; sent, received, lost and outcomes are of the whole run.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Messages that arrived; of requests: replies.
    pub messages: u64,
    pub seconds: f64,
    pub messages_per_second: f64,
    /// None: bodies were too short for a stamp, or nothing came.
    pub latency_microseconds: Option<Latency>,
    pub sent: u64,
    pub received: u64,
    pub lost: u64,
    pub outcomes: Outcomes,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latency {
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p99_9: f64,
    pub p99_99: f64,
    pub max: f64,
    pub mean: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_falls_into_the_time_counts() {
        let mut tally = Tally::new();
        let window = (Time(1000), Time(2000));
        tally.arrived(Some(Time(990)), Time(995), window);
        tally.arrived(Some(Time(990)), Time(1010), window);
        tally.arrived(Some(Time(1500)), Time(1600), window);
        tally.arrived(Some(Time(1990)), Time(5990), window);
        assert_eq!((tally.received, tally.measured, tally.last), (4, 2, Time(1600)));
        // A message that was to be sent in time is late, however late it is.
        assert_eq!((tally.latency.len(), tally.latency.min()), (2, 100));
        assert!(tally.latency.max() >= 4000);
    }
}

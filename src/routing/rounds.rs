//! Going round: over all of a slab every so often, a bounded part at a time. So what would cost every message a little is done
//! for all at once: the look for deliveries that are stuck (`stuck`) and links that are blocked (`blocked`), and the samples that rates
//! are taken from.

use crate::routing::router::Router;
use crate::time::Time;
use std::ops::Range;
use std::time::Duration;

/// Slots that are looked at in one go, tens of microseconds at most where each is looked at closely, and the time between
/// two of these.
const STEP_SLOTS: u32 = 1024;
const PAUSE: Duration = Duration::from_millis(5);

/// From one sample to the next: a rate is over one to two of these.
const SAMPLING: Duration = Duration::from_millis(2500);

/// How far a round is.
pub struct Round {
    period: Duration,
    next: u32,
    at: Time,
    begun_at: Time,
}

impl Round {
    /// `period`: from one round's begin to the next one's.
    pub fn new(period: Duration, now: Time) -> Round {
        Round { period, next: 0, at: now + period, begun_at: now }
    }

    /// When the next step is.
    pub fn at(&self) -> Time {
        self.at
    }

    /// The slots to look at now, of so many. None yet: it isn't time.
    pub fn step(&mut self, slots: u32, now: Time) -> Range<u32> {
        if now < self.at {
            return 0..0;
        }
        if self.next == 0 {
            self.begun_at = now;
        }
        let from = self.next.min(slots);
        let to = from.saturating_add(STEP_SLOTS).min(slots);
        (self.next, self.at) = match to == slots {
            true => (0, (self.begun_at + self.period).max(now + PAUSE)),
            false => (to, now + PAUSE),
        };
        from..to
    }

    /// Whether the step before was a round's last.
    pub fn is_complete(&self) -> bool {
        self.next == 0
    }
}

/// The rounds that samples are taken on. They rest when nothing moves any more, and all rates are 0.
pub struct Sampling {
    links: Round,
    addresses: Round,
    /// How much had moved, in all, at the ends of the two last rounds.
    moved: [u64; 2],
}

impl Sampling {
    pub fn new(now: Time) -> Sampling {
        Sampling { links: Round::new(SAMPLING, now), addresses: Round::new(SAMPLING, now), moved: [0; 2] }
    }

    /// When to go on, where so much has moved by now.
    pub fn due(&self, moved: u64) -> Option<Time> {
        (moved != self.moved[0]).then(|| self.links.at().min(self.addresses.at()))
    }
}

impl Router {
    /// Grows with everything that a rate is of.
    pub(super) fn moved(&self) -> u64 {
        let totals = &self.totals;
        let ended = totals.accepted + totals.rejected + totals.released + totals.modified;
        totals.deliveries + totals.egress + ended
    }

    /// Takes samples of the next links and addresses, as far as it is time to.
    pub(super) fn sample_rates(&mut self) {
        let now = self.now;
        let step = self.sampling.links.step(self.links.slots_len(), now);
        let is_last = !step.is_empty() && self.sampling.links.is_complete();
        for slot in step {
            if let Some(link) = self.links.at_slot_mut(slot) {
                link.sample(now);
            }
        }
        for slot in self.sampling.addresses.step(self.addresses.slots_len(), now) {
            if let Some(address) = self.addresses.at_slot_mut(slot) {
                address.ingress_rate.sample(now, address.counters.deliveries);
                address.egress_rate.sample(now, address.counters.egress);
            }
        }
        if is_last {
            self.sampling.moved = [self.sampling.moved[1], self.moved()];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_sees_every_slot_once_in_its_time() {
        let mut round = Round::new(Duration::from_secs(1), Time::ZERO);
        let (mut seen, mut now, mut begins) = (vec![0; 5000], Time::ZERO, Vec::new());
        while now < Time::from_millis(3500) {
            now = now.max(round.at());
            let step = round.step(5000, now);
            assert!(step.len() <= STEP_SLOTS as usize);
            if step.start == 0 {
                begins.push(now.as_millis());
            }
            step.for_each(|slot| seen[slot as usize] += 1);
            assert_eq!(round.step(5000, now), 0..0);
        }
        assert_eq!(begins, [1000, 2000, 3000, 4000]);
        assert!(seen.iter().all(|count| (3..=4).contains(count)));
    }
}

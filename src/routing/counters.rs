//! Counts of deliveries, a link, an address, and in all. Plain integers that only grow.

use crate::outcome::StateKind;

/// What became of deliveries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Of a sender's link, an address, the router: that arrived. Of a consumer's link: that were sent.
    pub deliveries: u64,
    /// Of these, settled from the begin.
    pub presettled: u64,
    /// Of an address, the router: sent to consumers, copies of a multicast each.
    pub egress: u64,
    pub accepted: u64,
    pub rejected: u64,
    pub released: u64,
    pub modified: u64,
    /// Settled deliveries that reached nobody: no consumer, lost with their link, or aborted by their sender.
    pub dropped_presettled: u64,
    /// That their consumers were done with when they had been here for a second, but not for ten.
    pub delayed_1s: u64,
    /// The same for ten seconds or longer.
    pub delayed_10s: u64,
    /// That were here for ten seconds and not done with. Each is counted once, for good. Of a consumer's link: that were
    /// with it then.
    pub stuck: u64,
    /// Copies of settled multicast messages that a consumer had no room for.
    pub missed: u64,
}

impl Counters {
    /// Counts an outcome; states on the way don't count.
    #[inline]
    pub fn outcome(&mut self, kind: StateKind) {
        self.outcomes(kind, 1);
    }

    /// Counts so many of the same.
    #[inline]
    pub fn outcomes(&mut self, kind: StateKind, count: u32) {
        match kind {
            StateKind::Accepted => self.accepted += u64::from(count),
            StateKind::Received | StateKind::Other => {}
            kind => self.rare_outcomes(kind, count),
        }
    }

    /// Apart, so that the usual one is a comparison.
    #[cold]
    fn rare_outcomes(&mut self, kind: StateKind, count: u32) {
        let count = u64::from(count);
        match kind {
            StateKind::Rejected => self.rejected += count,
            StateKind::Released => self.released += count,
            StateKind::Modified => self.modified += count,
            StateKind::Accepted | StateKind::Received | StateKind::Other => {}
        }
    }

    /// Counts one that was here for a second, or for ten.
    pub fn delayed(&mut self, for_ten: bool) {
        self.delayed_1s += u64::from(!for_ten);
        self.delayed_10s += u64::from(for_ten);
    }

    /// Adds another's.
    pub fn add(&mut self, other: &Counters) {
        self.deliveries += other.deliveries;
        self.presettled += other.presettled;
        self.egress += other.egress;
        self.accepted += other.accepted;
        self.rejected += other.rejected;
        self.released += other.released;
        self.modified += other.modified;
        self.dropped_presettled += other.dropped_presettled;
        self.delayed_1s += other.delayed_1s;
        self.delayed_10s += other.delayed_10s;
        self.stuck += other.stuck;
        self.missed += other.missed;
    }

    #[inline]
    pub fn arrived(&mut self, settled: bool) {
        self.arrived_run(1, settled);
    }

    #[inline]
    pub fn arrived_run(&mut self, count: u32, settled: bool) {
        self.deliveries += u64::from(count);
        self.presettled += if settled { u64::from(count) } else { 0 };
    }
}

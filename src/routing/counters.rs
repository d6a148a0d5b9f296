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
    /// Copies of settled multicast messages that a consumer had no room for.
    pub missed: u64,
}

impl Counters {
    /// Counts an outcome; states on the way don't count.
    #[inline]
    pub fn outcome(&mut self, kind: StateKind) {
        match kind {
            StateKind::Accepted => self.accepted += 1,
            StateKind::Rejected => self.rejected += 1,
            StateKind::Released => self.released += 1,
            StateKind::Modified => self.modified += 1,
            StateKind::Received | StateKind::Other => {}
        }
    }

    #[inline]
    pub fn arrived(&mut self, settled: bool) {
        self.deliveries += 1;
        self.presettled += u64::from(settled);
    }
}

//! Deliveries that stay: counted as delayed when their consumer is done with them, as stuck while it isn't.
//!
//! A delivery's age is its own, from its arrival. Nothing is kept in the order of ages: once a second a round (see `rounds`)
//! looks over the slab for what is old and not counted yet. One that ends in between is counted as it ends, so that the
//! round's being late loses none.

use crate::routing::delivery::{Deliveries, Delivery, Kind, Slot, Stage, DEPTH, STUCK};
use crate::routing::router::Router;
use crate::time::Time;
use std::time::Duration;

/// A delivery of this age is delayed.
pub const SLOW_NANOSECONDS: u64 = 1_000_000_000;
/// A delivery of this age is stuck.
const OLD_NANOSECONDS: u64 = 10 * SLOW_NANOSECONDS;

/// From one look for stuck ones to the next.
pub const LOOKING: Duration = Duration::from_secs(1);

impl Deliveries {
    /// In nanoseconds.
    #[inline]
    pub fn age(&self, slot: Slot, now: Time) -> u64 {
        now.0.saturating_sub(self[slot].arrived.0)
    }
}

impl Delivery {
    /// Someone is to take it, or has it and isn't done with it.
    fn is_under_way(&self) -> bool {
        match self.kind {
            Kind::Free => false,
            Kind::Single | Kind::Copy => self.is(DEPTH),
            Kind::Message => self.stage != Stage::Done,
        }
    }
}

impl Router {
    /// Looks for deliveries that are stuck, as far as it is time to.
    pub(super) fn look_for_stuck(&mut self) {
        for slot in self.looking.step(self.deliveries.slots(), self.now) {
            if self.deliveries.age(slot, self.now) >= OLD_NANOSECONDS {
                let record = &self.deliveries[slot];
                if !record.is(STUCK) && record.is_under_way() {
                    self.count_stuck(slot);
                }
            }
        }
    }

    #[cold]
    fn count_stuck(&mut self, slot: Slot) {
        let record = &mut self.deliveries[slot];
        record.set(STUCK);
        let (kind, address) = (record.kind, record.address);
        let (in_link, out_link) = (record.in_link, record.out_link);
        if let Some(link) = self.links.get_mut(out_link) {
            link.counters.stuck += 1;
            self.notice_stuck(out_link);
        }
        // Copies are their consumers'; to everybody else there is their message.
        if kind == Kind::Copy {
            return;
        }
        if let Some(link) = self.links.get_mut(in_link) {
            link.counters.stuck += 1;
            self.notice_stuck(in_link);
        }
        if let Some(address) = self.addresses.get_mut(address) {
            address.counters.stuck += 1;
        }
        self.totals.stuck += 1;
    }

    /// The consumer of a delivery or copy, or those of a message, are done with it.
    #[inline]
    pub(super) fn count_age(&mut self, slot: Slot) {
        if self.deliveries.age(slot, self.now) >= SLOW_NANOSECONDS {
            self.count_delayed(slot);
        }
    }

    #[cold]
    pub(super) fn count_delayed(&mut self, slot: Slot) {
        let is_old = self.deliveries.age(slot, self.now) >= OLD_NANOSECONDS;
        if is_old && !self.deliveries[slot].is(STUCK) {
            self.count_stuck(slot);
        }
        let record = &self.deliveries[slot];
        if let Some(link) = self.links.get_mut(record.out_link) {
            link.counters.delayed(is_old);
        }
        if record.kind == Kind::Copy {
            return;
        }
        if let Some(link) = self.links.get_mut(record.in_link) {
            link.counters.delayed(is_old);
        }
        if let Some(address) = self.addresses.get_mut(record.address) {
            address.counters.delayed(is_old);
        }
        self.totals.delayed(is_old);
    }
}

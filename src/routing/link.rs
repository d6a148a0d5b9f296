//! Links as routing knows them: a sender's or a consumer's end.

use crate::ids::{AddressId, ConnectionId, Port};
use crate::link::{ReceiverSettleMode, SenderSettleMode};
use crate::routing::blocked::Told;
use crate::routing::connection::SessionSlot;
use crate::routing::counters::Counters;
use crate::routing::credit::{ConsumerSlot, FixedCredit, SenderSlot};
use crate::routing::delivery::{List, Slot};
use crate::routing::rate::Rate;
use crate::routing::treatment::Candidate;
use crate::time::Time;

pub struct Link {
    pub port: Port,
    pub session_slot: SessionSlot,
    /// A sender's place in its session's list.
    pub session_position: u32,
    /// Place in its connection's list of links.
    pub connection_position: u32,
    /// None: an anonymous sender.
    pub address: Option<AddressId>,
    /// Place in its address's list of senders or consumers.
    pub address_position: u32,
    pub sender_settle_mode: SenderSettleMode,
    pub receiver_settle_mode: ReceiverSettleMode,
    pub counters: Counters,
    pub end: End,
}

pub enum End {
    Sender(Sender),
    Consumer(Consumer),
}

/// What a link does with its credit.
#[derive(Clone, Copy, Default)]
pub struct Activity {
    /// Of the deliveries that it is done with.
    pub settle_rate: Rate,
    /// Since when it has no credit, where it has none. (A sender's address may know of a later moment.)
    pub dry_since: Time,
    /// What the log says of it.
    told: Told,
}

/// A link whose peer sends. It outlives its detach until its last delivery is gone, so that these can still be
/// accounted to its session.
pub struct Sender {
    /// Its deliveries, in the order of their arrival.
    pub deliveries: List,
    /// As its address's credit knows it.
    pub slot: SenderSlot,
    /// An anonymous sender's credit.
    pub fixed: Option<FixedCredit>,
    pub activity: Activity,
    /// In the list of anonymous senders whose credit is to be looked at.
    pub dirty: bool,
    /// Detached.
    pub ended: bool,
}

/// A link whose peer receives.
pub struct Consumer {
    /// Deliveries that it was assigned and that aren't finished.
    pub unsettled: List,
    /// Copies of multicast messages that wait for its credit.
    pub queue: List,
    pub activity: Activity,
    pub slot: ConsumerSlot,
    pub candidate: Candidate,
    /// It takes deliveries up to this one, a serial number (RFC 1982).
    pub limit: u32,
    /// How many it was assigned, a serial number that begins where the first flow says.
    pub assigned: u32,
    /// Room that its address's credit knows of: that counts in bounded steps.
    pub told_room: u32,
    /// Its credit is to be used now or given back.
    pub drain: bool,
    /// Its drain is to be answered when its link is free.
    pub drained_due: bool,
    /// Its last drain was answered, and no flow came since.
    pub answered: bool,
    /// The delivery that occupies the link.
    pub busy: Option<Slot>,
    /// Its session takes nothing; it is in that session's list.
    pub parked: bool,
    /// Its address's credit knows that it takes nothing for now.
    pub blocked: bool,
    /// It can take a delivery, and its address's candidates know.
    pub ready: bool,
}

impl Sender {
    /// A sender to an address, where its credit has this slot.
    pub fn new(slot: SenderSlot) -> Sender {
        Sender { deliveries: List::EMPTY, slot, fixed: None, activity: Activity::default(), dirty: false, ended: false }
    }

    pub fn anonymous(capacity: u32) -> Sender {
        Sender { fixed: Some(FixedCredit::new(capacity)), ..Sender::new(SenderSlot::ANONYMOUS) }
    }
}

impl Consumer {
    /// A consumer of an address, as that one's credit and treatment know it.
    pub fn new(slot: ConsumerSlot, candidate: Candidate) -> Consumer {
        Consumer {
            unsettled: List::EMPTY,
            queue: List::EMPTY,
            activity: Activity::default(),
            slot,
            candidate,
            limit: 0,
            assigned: 0,
            told_room: 0,
            drain: false,
            drained_due: false,
            answered: false,
            busy: None,
            parked: false,
            blocked: false,
            ready: false,
        }
    }

    /// Credit that isn't assigned. A peer may lower its limit below what was assigned: then there is none.
    #[inline]
    pub fn room(&self) -> u32 {
        let left = self.limit.wrapping_sub(self.assigned);
        if left > i32::MAX as u32 {
            0
        } else {
            left
        }
    }
}

impl Link {
    /// The router's own.
    pub fn is_own(&self) -> bool {
        self.port.connection == ConnectionId::ROUTER
    }

    #[inline]
    pub fn activity(&self) -> &Activity {
        match &self.end {
            End::Sender(sender) => &sender.activity,
            End::Consumer(consumer) => &consumer.activity,
        }
    }

    #[inline]
    fn activity_mut(&mut self) -> &mut Activity {
        match &mut self.end {
            End::Sender(sender) => &mut sender.activity,
            End::Consumer(consumer) => &mut consumer.activity,
        }
    }

    /// It is attached, without credit.
    pub fn begin(&mut self, now: Time) {
        *self.activity_mut() = Activity { settle_rate: Rate::since(now), dry_since: now, told: Told::default() };
    }

    pub fn told_mut(&mut self) -> &mut Told {
        &mut self.activity_mut().told
    }

    /// Notes how many deliveries it is done with.
    pub fn sample(&mut self, now: Time) {
        let settled = self.settled();
        self.activity_mut().settle_rate.sample(now, settled);
    }

    /// Deliveries that it is done with.
    pub fn settled(&self) -> u64 {
        let listed = match &self.end {
            End::Sender(sender) => sender.deliveries.len,
            End::Consumer(consumer) => consumer.unsettled.len,
        };
        self.counters.deliveries - u64::from(listed)
    }

    #[inline]
    pub fn sender(&self) -> Option<&Sender> {
        match &self.end {
            End::Sender(sender) => Some(sender),
            End::Consumer(_) => None,
        }
    }

    #[inline]
    pub fn sender_mut(&mut self) -> Option<&mut Sender> {
        match &mut self.end {
            End::Sender(sender) => Some(sender),
            End::Consumer(_) => None,
        }
    }

    /// An anonymous sender's.
    pub fn fixed_credit_mut(&mut self) -> Option<&mut FixedCredit> {
        self.sender_mut()?.fixed.as_mut()
    }

    #[inline]
    pub fn consumer(&self) -> Option<&Consumer> {
        match &self.end {
            End::Consumer(consumer) => Some(consumer),
            End::Sender(_) => None,
        }
    }

    #[inline]
    pub fn consumer_mut(&mut self) -> Option<&mut Consumer> {
        match &mut self.end {
            End::Consumer(consumer) => Some(consumer),
            End::Sender(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::LinkId;
    use crate::routing::settings::Treatment;
    use crate::routing::treatment::Candidates;

    #[test]
    fn room_is_serial_arithmetic() {
        let candidate = Candidates::new(Treatment::Closest).join(LinkId { index: 0, generation: 0 });
        let mut consumer = Consumer::new(ConsumerSlot(0), candidate);
        (consumer.limit, consumer.assigned) = (4, u32::MAX - 2);
        assert_eq!(consumer.room(), 7);
        (consumer.limit, consumer.assigned) = (5, 8);
        assert_eq!(consumer.room(), 0);
    }
}

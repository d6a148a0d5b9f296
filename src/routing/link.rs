//! Links as routing knows them: a sender's or a consumer's end.

use crate::ids::{AddressId, Port};
use crate::link::{ReceiverSettleMode, SenderSettleMode};
use crate::routing::connection::SessionSlot;
use crate::routing::counters::Counters;
use crate::routing::delivery::{List, Slot};
use crate::routing::treatment::Candidate;

pub struct Link {
    pub port: Port,
    pub session_slot: SessionSlot,
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

/// A link whose peer sends. It outlives its detach until its last delivery is gone, so that these can still be
/// accounted to its session.
pub struct Sender {
    /// Its deliveries, in the order of their arrival.
    pub deliveries: List,
    /// Most that it may have granted and unfinished: its listener's linkCapacity.
    pub capacity: u32,
    /// Granted and not arrived.
    pub unused: u32,
    /// Arrived, and no consumer's yet.
    pub waiting: u32,
    /// With a consumer, and not finished.
    pub unsettled: u32,
    /// It was told to use or return its credit.
    pub draining: bool,
    /// In the list of senders whose credit is to be looked at.
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
    /// It takes deliveries up to this one, a serial number (RFC 1982).
    pub limit: u32,
    /// How many it was assigned, a serial number that begins where the first flow says.
    pub assigned: u32,
    /// It gave credit at least once.
    pub active: bool,
    /// Its credit is to be used now or given back.
    pub drain: bool,
    /// The delivery that occupies the link.
    pub busy: Option<Slot>,
    /// Its session takes nothing; it is in that session's list.
    pub parked: bool,
    /// Its place among its address's candidates, from its attach to its end.
    pub candidate: Option<Candidate>,
    /// It can take a delivery, and its address's candidates know.
    pub ready: bool,
}

impl Sender {
    pub fn new(capacity: u32) -> Sender {
        Sender {
            deliveries: List::EMPTY,
            capacity,
            unused: 0,
            waiting: 0,
            unsettled: 0,
            draining: false,
            dirty: false,
            ended: false,
        }
    }
}

impl Consumer {
    pub fn new() -> Consumer {
        Consumer {
            unsettled: List::EMPTY,
            queue: List::EMPTY,
            limit: 0,
            assigned: 0,
            active: false,
            drain: false,
            busy: None,
            parked: false,
            candidate: None,
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

    #[test]
    fn room_is_serial_arithmetic() {
        let mut consumer = Consumer::new();
        (consumer.limit, consumer.assigned) = (4, u32::MAX - 2);
        assert_eq!(consumer.room(), 7);
        (consumer.limit, consumer.assigned) = (5, 8);
        assert_eq!(consumer.room(), 0);
    }
}

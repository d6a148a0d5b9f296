//! An address: who sends to it, who consumes from it, and what waits for room.

use crate::ids::LinkId;
use crate::routing::counters::Counters;
use crate::routing::delivery::List;
use crate::routing::name::{Class, Name};
use crate::routing::settings::{AddressAttributes, Treatment};
use crate::routing::treatment::Candidates;

pub struct Address {
    pub class: Class,
    pub rest: Box<str>,
    pub treatment: Treatment,
    pub attributes: AddressAttributes,
    pub senders: Vec<LinkId>,
    pub consumers: Vec<LinkId>,
    /// Consumers that gave credit at least once.
    pub active: u32,
    /// Consumers that want their drain answered.
    pub drains: Vec<LinkId>,
    /// Deliveries that no consumer had room for, in the order of their arrival.
    pub waiting: List,
    /// Consumers that can take a delivery now (multicast: and have one waiting).
    pub candidates: Candidates,
    /// In the router's list of addresses with work to do.
    pub has_work: bool,
    /// Deliveries that are in the router: waiting and unsettled, a multicast message once a copy.
    pub depth_messages: u64,
    pub depth_bytes: u64,
    pub counters: Counters,
}

impl Address {
    pub fn new(name: Name<'_>, treatment: Treatment, attributes: AddressAttributes) -> Address {
        Address {
            class: name.class,
            rest: name.rest.into(),
            treatment,
            attributes,
            senders: Vec::new(),
            consumers: Vec::new(),
            active: 0,
            drains: Vec::new(),
            waiting: List::EMPTY,
            candidates: Candidates::new(treatment),
            has_work: false,
            depth_messages: 0,
            depth_bytes: 0,
            counters: Counters::default(),
        }
    }

    pub fn name(&self) -> Name<'_> {
        Name { class: self.class, rest: &self.rest }
    }

    #[inline]
    pub fn enter(&mut self, bytes: u64) {
        self.depth_messages += 1;
        self.depth_bytes += bytes;
    }

    #[inline]
    pub fn grow(&mut self, bytes: u64) {
        self.depth_bytes += bytes;
    }

    #[inline]
    pub fn leave(&mut self, bytes: u64) {
        self.depth_messages -= 1;
        self.depth_bytes -= bytes;
    }

    /// Nobody refers to it any more.
    pub fn is_unused(&self) -> bool {
        self.senders.is_empty() && self.consumers.is_empty() && self.depth_messages == 0
    }
}

//! An address: who sends to it, who consumes from it, and what waits for room.

use crate::ids::LinkId;
use crate::routing::counters::Counters;
use crate::routing::credit::{AddressCredit, ConsumerSlot, CreditSettings, SenderSlot};
use crate::routing::delivery::List;
use crate::routing::latency::Latency;
use crate::routing::name::{Class, Name};
use crate::routing::rate::Rate;
use crate::routing::settings::{AddressAttributes, Treatment};
use crate::routing::threshold::Depth;
use crate::routing::treatment::{Candidate, Candidates};
use crate::time::Time;

pub struct Address {
    pub class: Class,
    pub rest: Box<str>,
    pub treatment: Treatment,
    pub attributes: AddressAttributes,
    pub senders: Vec<LinkId>,
    pub consumers: Vec<LinkId>,
    pub credit: AddressCredit,
    /// The links of the credit's slots.
    sender_slots: Vec<LinkId>,
    consumer_slots: Vec<LinkId>,
    /// Deliveries that no consumer had room for, in the order of their arrival.
    pub waiting: List,
    /// Consumers that can take a delivery now (multicast: and have one waiting).
    pub candidates: Candidates,
    /// In the router's list of addresses with work to do.
    pub has_work: bool,
    /// Consumers that want their drain answered.
    pub drains: u32,
    /// When its credit is looked at next.
    pub timer: Option<Time>,
    /// That may have to be earlier.
    pub timer_due: bool,
    /// Deliveries that are in the router: waiting and unsettled, a multicast message once a copy.
    pub depth: Depth,
    pub counters: Counters,
    pub ingress_rate: Rate,
    pub egress_rate: Rate,
    pub latency: Latency,
}

/// Puts a link at a slot's place.
fn place(links: &mut Vec<LinkId>, slot: u32, link: LinkId) {
    if links.len() <= slot as usize {
        links.resize(slot as usize + 1, link);
    }
    links[slot as usize] = link;
}

impl Address {
    pub fn new(name: Name<'_>, treatment: Treatment, attributes: AddressAttributes, credit: CreditSettings) -> Address {
        Address {
            class: name.class,
            rest: name.rest.into(),
            treatment,
            attributes,
            senders: Vec::new(),
            consumers: Vec::new(),
            credit: AddressCredit::new(credit),
            sender_slots: Vec::new(),
            consumer_slots: Vec::new(),
            waiting: List::EMPTY,
            candidates: Candidates::new(treatment),
            has_work: false,
            drains: 0,
            timer: None,
            timer_due: false,
            depth: Depth::default(),
            counters: Counters::default(),
            ingress_rate: Rate::default(),
            egress_rate: Rate::default(),
            latency: Latency::default(),
        }
    }

    pub fn join_sender(&mut self, link: LinkId, capacity: u32) -> SenderSlot {
        let slot = self.credit.sender_joined(capacity);
        place(&mut self.sender_slots, slot.0, link);
        slot
    }

    pub fn join_consumer(&mut self, link: LinkId, capacity: u32) -> (ConsumerSlot, Candidate) {
        let slot = self.credit.consumer_joined(capacity);
        place(&mut self.consumer_slots, slot.0, link);
        (slot, self.candidates.join(link))
    }

    pub fn sender_link(&self, slot: SenderSlot) -> Option<LinkId> {
        self.sender_slots.get(slot.0 as usize).copied()
    }

    pub fn consumer_link(&self, slot: ConsumerSlot) -> Option<LinkId> {
        self.consumer_slots.get(slot.0 as usize).copied()
    }

    pub fn name(&self) -> Name<'_> {
        Name { class: self.class, rest: &self.rest }
    }

    /// Nobody refers to it any more.
    pub fn is_unused(&self) -> bool {
        self.senders.is_empty() && self.consumers.is_empty() && self.depth.messages() == 0
    }
}

//! What the router shows of itself: figures of addresses and links, for management and tests. They cost nothing
//! unless somebody looks.

use crate::ids::{AddressId, LinkId, Port};
use crate::link::{Direction, ReceiverSettleMode, SenderSettleMode};
use crate::routing::address::Address;
use crate::routing::counters::Counters;
use crate::routing::credit::AddressCredit;
use crate::routing::link::{End, Link};
use crate::routing::name::{self, Class};
use crate::routing::router::Router;
use crate::routing::settings::{AddressAttributes, Treatment};
use crate::routing::threshold::Depth;
use crate::time::Time;
use std::time::Duration;

impl Router {
    /// An address by the name that a peer would use.
    pub fn address(&self, text: &str) -> Option<AddressView<'_>> {
        let name = name::parse(text, &self.settings.router_id)?;
        self.address_view(self.table.find(name)?)
    }

    pub fn address_view(&self, id: AddressId) -> Option<AddressView<'_>> {
        self.addresses.get(id).map(|address| AddressView { address, now: self.now })
    }

    /// All addresses, in no order that means anything.
    pub fn address_views(&self) -> impl Iterator<Item = (AddressId, AddressView<'_>)> {
        self.addresses.iter().map(|(id, address)| (id, AddressView { address, now: self.now }))
    }

    /// Attached links of peers.
    pub fn peer_links_len(&self) -> usize {
        self.connections.links_len()
    }

    pub fn link_view(&self, id: LinkId) -> Option<LinkView<'_>> {
        self.links.get(id).map(|link| LinkView { router: self, link })
    }

    /// All links, in no order that means anything; a detached sender's until its last delivery is gone.
    pub fn link_views(&self) -> impl Iterator<Item = (LinkId, LinkView<'_>)> {
        self.links.iter().map(|(id, link)| (id, LinkView { router: self, link }))
    }

    /// A sender's `creditWindow`: unused, waiting and unsettled. Of an anonymous one: unused and waiting.
    pub fn credit_window(&self, link: LinkId) -> Option<u32> {
        self.link_view(link)?.credit_window()
    }

    pub fn link_counters(&self, link: LinkId) -> Option<&Counters> {
        self.links.get(link).map(|link| &link.counters)
    }
}

/// Figures of an address.
pub struct AddressView<'a> {
    address: &'a Address,
    now: Time,
}

impl<'a> AddressView<'a> {
    /// The address as peers name it.
    pub fn name(&self) -> &'a str {
        &self.address.rest
    }
    /// Known to this router only: a temporary one of a receiver's, or under `_local/`.
    pub fn is_local(&self) -> bool {
        self.address.class == Class::Local
    }
    /// As management names it: its class, a mobile one's phase, and its name.
    pub fn key(&self) -> String {
        let class = match self.address.class {
            Class::Mobile => "M0",
            Class::Local => "L",
            Class::Router => "R",
        };
        format!("{class}{}", self.address.rest)
    }
    pub fn treatment(&self) -> Treatment {
        self.address.treatment
    }
    pub fn senders(&self) -> usize {
        self.address.senders.len()
    }
    pub fn consumers(&self) -> usize {
        self.address.consumers.len()
    }
    /// What the configuration says of it.
    pub fn attributes(&self) -> &'a AddressAttributes {
        &self.address.attributes
    }
    /// Deliveries in the router: waiting and unsettled, a multicast message once a copy.
    pub fn depth_messages(&self) -> u64 {
        self.address.depth.messages()
    }
    pub fn depth_bytes(&self) -> u64 {
        self.address.depth.bytes()
    }
    /// Of these, the ones that no consumer had room for (multicast: those wait at their consumers).
    pub fn waiting(&self) -> u32 {
        self.address.waiting.len
    }
    pub fn counters(&self) -> &'a Counters {
        &self.address.counters
    }
    /// Deliveries that arrived, a second, over the last seconds.
    pub fn ingress_rate(&self) -> u32 {
        self.address.ingress_rate.per_second(self.now, self.address.counters.deliveries)
    }
    /// Deliveries that went to consumers, a second, over the last seconds.
    pub fn egress_rate(&self) -> u32 {
        self.address.egress_rate.per_second(self.now, self.address.counters.egress)
    }
    /// Shares, windows and links, as management shows them.
    pub fn credit(&self) -> &'a AddressCredit {
        &self.address.credit
    }
    /// Marks and edges, as management shows them.
    pub fn depth(&self) -> &'a Depth {
        &self.address.depth
    }
}

/// Figures of a link.
pub struct LinkView<'a> {
    router: &'a Router,
    link: &'a Link,
}

impl<'a> LinkView<'a> {
    pub fn port(&self) -> Port {
        self.link.port
    }
    pub fn direction(&self) -> Direction {
        match self.link.end {
            End::Sender(_) => Direction::Incoming,
            End::Consumer(_) => Direction::Outgoing,
        }
    }
    /// None: an anonymous sender's.
    pub fn address(&self) -> Option<AddressView<'a>> {
        self.router.address_view(self.link.address?)
    }
    pub fn sender_settle_mode(&self) -> SenderSettleMode {
        self.link.sender_settle_mode
    }
    pub fn receiver_settle_mode(&self) -> ReceiverSettleMode {
        self.link.receiver_settle_mode
    }
    pub fn counters(&self) -> &'a Counters {
        &self.link.counters
    }
    /// Deliveries that the link may have in the router: its listener's `linkCapacity`.
    pub fn capacity(&self) -> u32 {
        self.router.connections.link_capacity(self.link.port.connection).unwrap_or(0)
    }
    /// Detached, and kept for the sake of its last deliveries.
    pub fn is_ended(&self) -> bool {
        self.link.sender().is_some_and(|sender| sender.ended)
    }
    /// Of a sender: its deliveries that are in the router. Of a consumer: those that it was sent and that aren't finished.
    pub fn unsettled(&self) -> u32 {
        match &self.link.end {
            End::Sender(sender) => sender.deliveries.len,
            End::Consumer(consumer) => consumer.unsettled.len,
        }
    }
    /// Of a multicast consumer: copies that wait for its credit. Of a sender: its deliveries that have no consumer yet; of
    /// its multicast messages, those that a copy of waits.
    pub fn undelivered(&self) -> u32 {
        match &self.link.end {
            End::Consumer(consumer) => consumer.queue.len,
            End::Sender(sender) => match &sender.fixed {
                Some(fixed) => fixed.waiting(),
                None => self.address().map_or(0, |address| address.credit().sender_waiting(sender.slot)),
            },
        }
    }
    /// Credit that isn't used: a sender's, or a consumer's.
    pub fn credit_available(&self) -> u32 {
        match &self.link.end {
            End::Consumer(consumer) => consumer.room(),
            End::Sender(sender) => match &sender.fixed {
                Some(fixed) => fixed.unused(),
                None => self.address().map_or(0, |address| address.credit().unused(sender.slot)),
            },
        }
    }
    /// How long it has had no credit; zero where it has some.
    pub fn zero_credit(&self) -> Duration {
        if self.credit_available() > 0 || self.is_ended() {
            return Duration::ZERO;
        }
        let own = self.link.activity().dry_since;
        let used_up = self.link.sender().filter(|sender| sender.fixed.is_none()).and_then(|sender| {
            let address = self.address()?;
            Some(address.credit().dry_since(sender.slot))
        });
        self.router.now.since(used_up.map_or(own, |used_up| used_up.max(own)))
    }
    /// Deliveries that it was done with, a second, over the last seconds.
    pub fn settle_rate(&self) -> u32 {
        self.link.activity().settle_rate.per_second(self.router.now, self.link.settled())
    }
    /// Of a sender: unused, waiting and unsettled. Of an anonymous one: unused and waiting.
    pub fn credit_window(&self) -> Option<u32> {
        let sender = self.link.sender()?;
        match &sender.fixed {
            Some(fixed) => Some(fixed.unused() + fixed.waiting() + fixed.waiting_elsewhere()),
            None => Some(self.address()?.credit().credit_window(sender.slot)),
        }
    }
}

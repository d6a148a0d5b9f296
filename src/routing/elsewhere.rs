//! Links whose connections live on another shard, and anonymous senders here of whose messages some go there.

use crate::ids::{ConnectionId, DeliveryId, LinkId, WireDelivery};
use crate::routing::delivery::{By, NONE};
use crate::routing::link::Link;
use crate::routing::router::Router;
use crate::time::Time;

impl Router {
    /// A connection goes by another id from now on: it left this shard, and its links stay.
    pub fn connection_renamed(&mut self, from: ConnectionId, to: ConnectionId) {
        self.finish_polled();
        let (links, connections) = (&mut self.links, &self.connections);
        for link in connections.links(from).iter().copied().chain(connections.senders(from)) {
            if let Some(link) = links.get_mut(link) {
                link.port.connection = to;
            }
        }
        self.connections.rename(from, to);
    }

    /// The delivery that another shard knows by a shortened id.
    pub fn known_elsewhere(&self, delivery: DeliveryId) -> Option<DeliveryId> {
        self.deliveries.known_elsewhere(delivery)
    }

    /// The last delivery that came on a sender's link, if it is here and came as `wire`: one that still arrives always is.
    pub fn last_arrived_as(&self, link: LinkId, wire: WireDelivery) -> Option<DeliveryId> {
        let last = self.links.get(link)?.sender()?.deliveries.tail;
        (last != NONE && self.deliveries[last].in_wire == wire).then(|| self.deliveries.id(last))
    }

    /// All that came on a sender's link and is here.
    pub fn arrived(&self, link: LinkId) -> impl Iterator<Item = (WireDelivery, DeliveryId)> + '_ {
        let list = self.links.get(link).and_then(|link| link.sender()).map(|sender| &sender.deliveries);
        let slots = list.map(|list| self.deliveries.list(By::Sender, list));
        slots.into_iter().flatten().map(|slot| (self.deliveries[slot].in_wire, self.deliveries.id(slot)))
    }

    /// Whether a delivery is here.
    pub fn is_here(&self, delivery: DeliveryId) -> bool {
        self.deliveries.slot(delivery).is_some()
    }

    /// Whether nothing that a sender's link brought is here.
    pub fn is_idle(&self, link: LinkId) -> bool {
        self.links.get(link).and_then(|link| link.sender()).is_some_and(|sender| sender.deliveries.is_empty())
    }

    /// A message of an anonymous sender's went to another shard: it waits there, as far as this link's credit knows.
    pub fn forwarded(&mut self, link_id: LinkId, settled: bool, now: Time) {
        self.begin(now);
        let Some(link) = self.links.get_mut(link_id) else { return };
        link.counters.arrived(settled);
        if let Some(fixed) = link.fixed_credit_mut() {
            fixed.forwarded();
            if fixed.unused() == 0 {
                // As of those that arrive here.
                self.mark_dirty(link_id);
            }
        }
    }

    /// So many of those wait no longer.
    pub fn forwarded_left(&mut self, link_id: LinkId, deliveries: u32, now: Time) {
        self.begin(now);
        if let Some(fixed) = self.links.get_mut(link_id).and_then(Link::fixed_credit_mut) {
            fixed.forwarded_left(deliveries);
            self.mark_dirty(link_id);
        }
    }

    /// An anonymous sender whose credit another shard gives: here it has all that it may have.
    pub fn credit_given_elsewhere(&mut self, link_id: LinkId) {
        if let Some(fixed) = self.links.get_mut(link_id).and_then(Link::fixed_credit_mut) {
            fixed.given_elsewhere();
        }
    }

    /// An anonymous sender that came from another shard has so much credit from there.
    pub fn credit_brought(&mut self, link_id: LinkId, unused: u32) {
        if let Some(fixed) = self.links.get_mut(link_id).and_then(Link::fixed_credit_mut) {
            fixed.brought(unused);
        }
    }
}

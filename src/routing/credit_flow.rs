//! Credit: what consumers give, and what senders get of it.
//!
//! For now by the plain rule: a sender has its listener's linkCapacity while somebody consumes, and each delivery
//! that is finished (settled, or sent on when it came settled) is replaced by a new credit. A delivery that waits
//! isn't replaced, so what waits is bounded by the senders' capacity.

use crate::ids::{AddressId, LinkId};
use crate::routing::output::Output;
use crate::routing::router::Router;
use crate::routing::settings::Treatment;
use crate::time::Time;

impl Router {
    /// A consumer's credit: it takes deliveries up to `limit` (delivery-count + link-credit), a serial number.
    /// `drain`: it is to be used now, the rest given back.
    pub fn credit(&mut self, link_id: LinkId, delivery_count: u32, limit: u32, drain: bool, _now: Time) {
        self.finish_polled();
        let Some(link) = self.links.get_mut(link_id) else { return };
        let Some(address_id) = link.address else { return };
        let Some(consumer) = link.consumer_mut() else { return };
        if consumer.busy.is_none() {
            // The same, but where the engine dropped a delivery that it hadn't begun.
            consumer.assigned = delivery_count;
        }
        consumer.limit = limit;
        let opens = !consumer.active && consumer.room() > 0;
        consumer.active |= opens;
        let drain_begins = drain && !consumer.drain;
        consumer.drain = drain;
        let Some(address) = self.addresses.get_mut(address_id) else { return };
        if drain_begins {
            address.drains.push(link_id);
        }
        if opens {
            address.active += 1;
            if address.active == 1 {
                self.open_senders(address_id);
            }
        }
        self.refresh(link_id);
    }

    /// A sender gave credit back without a delivery; `credit_left` is what it still has.
    pub fn sender_drained(&mut self, link_id: LinkId, credit_left: u32, _now: Time) {
        self.finish_polled();
        let Some(sender) = self.links.get_mut(link_id).and_then(|link| link.sender_mut()) else { return };
        sender.unused = credit_left;
        sender.draining = false;
        self.mark_dirty(link_id);
    }

    /// A first consumer takes deliveries: senders may send.
    fn open_senders(&mut self, id: AddressId) {
        let Some(address) = self.addresses.get(id) else { return };
        for at in 0..address.senders.len() {
            let Some(link_id) = self.addresses.get(id).map(|address| address.senders[at]) else { return };
            self.mark_dirty(link_id);
        }
    }

    /// The last consumer is gone: senders give back what they have, so that nothing is sent only to be released.
    pub(super) fn close_senders(&mut self, id: AddressId) {
        let Some(address) = self.addresses.get(id) else { return };
        for link_id in &address.senders {
            let Some(link) = self.links.get_mut(*link_id) else { continue };
            let port = link.port;
            let Some(sender) = link.sender_mut() else { continue };
            if sender.unused > 0 && !sender.draining {
                sender.draining = true;
                self.outputs.push_back(Output::Credit { port, add: 0, drain: true });
            }
        }
    }

    /// A sender's credit is to be looked at before the outputs are drained.
    #[inline]
    pub(super) fn mark_dirty(&mut self, link_id: LinkId) {
        if let Some(sender) = self.links.get_mut(link_id).and_then(|link| link.sender_mut()) {
            if !sender.dirty && !sender.ended {
                sender.dirty = true;
                self.dirty.push(link_id);
            }
        }
    }

    /// The next sender that gets credit.
    pub(super) fn next_grant(&mut self) -> Option<Output> {
        while let Some(link_id) = self.dirty.pop() {
            let Some(link) = self.links.get_mut(link_id) else { continue };
            let (port, address) = (link.port, link.address);
            let Some(sender) = link.sender_mut() else { continue };
            sender.dirty = false;
            let open = match address {
                None => true,
                Some(id) => self.addresses.get(id).is_some_and(|address| address.active > 0),
            };
            if sender.ended || !open {
                continue;
            }
            let held = sender.unused.saturating_add(sender.waiting).saturating_add(sender.unsettled);
            let add = sender.capacity.saturating_sub(held);
            if add > 0 || sender.draining {
                sender.unused += add;
                sender.draining = false;
                return Some(Output::Credit { port, add, drain: false });
            }
        }
        None
    }

    /// Nothing more of an address can be assigned: drains are answered, where nothing waits for the consumer.
    pub(super) fn work_done(&mut self, id: AddressId) {
        let Some(address) = self.addresses.get_mut(id) else { return };
        address.has_work = false;
        if address.drains.is_empty() {
            return;
        }
        let multicast = address.treatment == Treatment::Multicast;
        let waiting = !address.waiting.is_empty();
        let mut drains = std::mem::take(&mut address.drains);
        drains.retain(|link_id| {
            let Some(link) = self.links.get_mut(*link_id) else { return false };
            let port = link.port;
            let Some(consumer) = link.consumer_mut().filter(|consumer| consumer.drain) else { return false };
            let more = if multicast { !consumer.queue.is_empty() } else { waiting };
            if consumer.busy.is_some() || (consumer.room() > 0 && more) {
                return true;
            }
            consumer.drain = false;
            consumer.assigned = consumer.limit;
            self.outputs.push_back(Output::Drained { port });
            self.refresh(*link_id);
            false
        });
        if let Some(address) = self.addresses.get_mut(id) {
            address.drains = drains;
        }
    }
}

//! Credit: what consumers give is told to the address's credit, what that grants goes to the senders' links.

use crate::ids::{AddressId, LinkId};
use crate::routing::credit::{AddressCredit, ConsumerSlot, Grant};
use crate::routing::delivery::{COMPLETE, CUT};
use crate::routing::link::Consumer;
use crate::routing::output::Output;
use crate::routing::router::Router;
use crate::routing::settings::Treatment;
use crate::time::Time;
use std::cmp::Reverse;

impl Consumer {
    /// Tells the address's credit what room there is. It counts up to a bound; `told_room` falls to 0 when it has to
    /// hear more.
    pub fn tell_room(&mut self, credit: &mut AddressCredit, now: Time) {
        self.told_room = self.room().min(crate::limits::CONSUMER_WINDOW_MAX);
        if self.drain {
            credit.consumer_drain(self.slot, self.told_room, now);
        } else {
            credit.consumer_flow(self.slot, self.told_room, now);
        }
    }
}

impl Router {
    /// A consumer's credit: it takes deliveries up to `limit` (delivery-count + link-credit), a serial number.
    /// `drain`: it is to be used now, the rest given back.
    pub fn credit(&mut self, link_id: LinkId, delivery_count: u32, limit: u32, drain: bool, now: Time) {
        self.begin(now);
        self.watch.stir();
        let Some(link) = self.links.get_mut(link_id) else { return };
        let (port, Some(address_id)) = (link.port, link.address) else { return };
        let Some(consumer) = link.consumer_mut() else { return };
        if std::mem::take(&mut consumer.answered) && self.may_have_drained {
            // An answer to its last drain that isn't out is none to this flow.
            self.outputs.retain(|output| !matches!(output, Output::Drained { port: to } if *to == port));
        }
        if consumer.busy.is_none() {
            // The same, but where the engine dropped a delivery that it hadn't begun.
            consumer.assigned = delivery_count;
        }
        let Some(address) = self.addresses.get_mut(address_id) else { return };
        let had_room = consumer.room() > 0;
        consumer.limit = limit;
        if had_room && consumer.room() == 0 {
            consumer.activity.dry_since = self.now;
        }
        consumer.drained_due = false;
        address.drains = address.drains + u32::from(drain) - u32::from(consumer.drain);
        consumer.drain = drain;
        consumer.tell_room(&mut address.credit, now);
        // A deadline may come before what is scheduled.
        address.timer_due |= drain;
        self.refresh(link_id);
    }

    /// A sender gave `returned` of its credit back without a delivery (more than it has: all), or answered a drain.
    pub fn sender_drained(&mut self, link_id: LinkId, returned: u32, now: Time) {
        self.begin(now);
        self.watch.stir();
        let Some(link) = self.links.get_mut(link_id) else { return };
        let address_id = link.address;
        let Some(sender) = link.sender_mut() else { return };
        if let Some(fixed) = &mut sender.fixed {
            fixed.returned(returned.min(fixed.unused()));
            if fixed.unused() == 0 {
                sender.activity.dry_since = self.now;
            }
            self.mark_dirty(link_id);
            return;
        }
        let slot = sender.slot;
        let Some(id) = address_id else { return };
        if let Some(address) = self.addresses.get_mut(id) {
            let returned = returned.min(address.credit.unused(slot));
            address.credit.returned(slot, returned);
            if address.credit.unused(slot) == 0 {
                sender.activity.dry_since = self.now;
            }
            self.push_work(id);
        }
    }

    /// The next thing that an address's credit has for one of its senders. Drains are answered when there is none.
    pub(super) fn next_grant(&mut self, id: AddressId) -> Option<Output> {
        let is_held_back = self.settings.memory.is_half_used();
        loop {
            let address = self.addresses.get_mut(id)?;
            address.credit.hold_back(is_held_back);
            let stalled = match address.treatment {
                Treatment::Multicast => address.credit.stalled(),
                _ => None,
            };
            if let Some(slot) = stalled {
                self.consumer_stalled(id, slot);
            } else if let Some(Grant { sender, add, drain }) = address.credit.poll_grant() {
                let port = address.sender_link(sender).and_then(|link_id| self.port(link_id));
                if let Some(port) = port {
                    return Some(Output::Credit { port, add, drain });
                }
                debug_assert!(false, "a grant for a sender that isn't there");
            } else if address.drains == 0 {
                return None;
            } else {
                let slot = address.credit.poll_drained()?;
                if let Some(link_id) = address.consumer_link(slot) {
                    self.answer_drain(link_id);
                }
            }
        }
    }

    /// A multicast consumer has had no room for too long.
    fn consumer_stalled(&mut self, id: AddressId, slot: ConsumerSlot) {
        let Some(address) = self.addresses.get(id) else { return };
        let link_id = address.consumer_link(slot);
        let excused = link_id.is_some_and(|link_id| self.waits_for_sender(link_id));
        let Some(address) = self.addresses.get_mut(id) else { return };
        if excused {
            return address.credit.excuse(slot);
        }
        address.credit.set_aside(slot);
        if let Some(link_id) = link_id {
            self.set_aside(link_id);
        }
    }

    /// Whether a consumer's link is taken by a delivery all of which that came was sent: its sender is the slow one.
    fn waits_for_sender(&self, link_id: LinkId) -> bool {
        let consumer = self.links.get(link_id).and_then(|link| link.consumer());
        consumer.and_then(|consumer| consumer.busy).is_some_and(|copy| {
            let record = &self.deliveries[copy];
            !record.is(COMPLETE | CUT) && record.unreleased == 0
        })
    }

    /// What is left of a consumer's credit is given back, at once or when its link is free.
    pub(super) fn answer_drain(&mut self, link_id: LinkId) {
        let Some(link) = self.links.get_mut(link_id) else { return };
        let (port, address_id) = (link.port, link.address);
        let Some(consumer) = link.consumer_mut() else { return };
        if std::mem::take(&mut consumer.drain) {
            if let Some(address) = address_id.and_then(|id| self.addresses.get_mut(id)) {
                address.drains -= 1;
            }
        }
        consumer.drained_due = consumer.busy.is_some();
        consumer.told_room = 0;
        if !consumer.drained_due {
            consumer.assigned = consumer.limit;
            consumer.answered = true;
            consumer.activity.dry_since = self.now;
            self.outputs.push_back(Output::Drained { port });
            self.may_have_drained = true;
            self.refresh(link_id);
        }
    }

    /// An address has nothing more to do for now.
    pub(super) fn work_done(&mut self, id: AddressId) {
        let Some(address) = self.addresses.get_mut(id) else { return };
        address.has_work = false;
        if address.timer.is_none() || std::mem::take(&mut address.timer_due) {
            let at = address.credit.poll_timeout();
            if let Some(at) = at.filter(|at| address.timer.is_none_or(|timer| *at < timer)) {
                address.timer = Some(at);
                self.timers.push(Reverse((at, id)));
            }
        }
    }

    /// An anonymous sender's credit is to be looked at before the outputs are drained.
    #[inline]
    pub(super) fn mark_dirty(&mut self, link_id: LinkId) {
        if let Some(sender) = self.links.get_mut(link_id).and_then(|link| link.sender_mut()) {
            if !sender.dirty && !sender.ended {
                sender.dirty = true;
                self.dirty.push(link_id);
            }
        }
    }

    /// The next anonymous sender that gets credit.
    pub(super) fn next_anonymous_grant(&mut self) -> Option<Output> {
        let is_held_back = self.settings.memory.is_half_used();
        while let Some(link_id) = self.dirty.pop() {
            let Some(link) = self.links.get_mut(link_id) else { continue };
            let port = link.port;
            let Some(sender) = link.sender_mut() else { continue };
            sender.dirty = false;
            let grant = sender.fixed.as_mut().and_then(|fixed| fixed.poll_grant(is_held_back));
            if let Some(add) = grant.filter(|_| !sender.ended) {
                return Some(Output::Credit { port, add, drain: false });
            }
        }
        None
    }
}

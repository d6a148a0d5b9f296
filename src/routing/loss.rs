//! Links and connections that go, and what becomes of their deliveries.

use crate::arena::Arena;
use crate::ids::{AddressId, ConnectionId, DeliveryId, LinkId};
use crate::link::Direction;
use crate::outcome::State;
use crate::routing::connection::Session;
use crate::routing::delivery::{By, Kind, Slot, Stage, NONE};
use crate::routing::delivery::{COMPLETE, COUNTED, CUT, OPEN, OUT_SETTLED, SENDING, SENT_SETTLED, SETTLED, UNSENT};
use crate::routing::link::{End, Link};
use crate::routing::router::Router;
use crate::time::Time;

/// A parked consumer goes. Its place in its session's list is swept out when there are more of its kind than others, so that
/// each costs O(1).
fn leave_parking(session: &mut Session, links: &Arena<LinkId, Link>, link_id: LinkId) {
    session.parked_gone += 1;
    if session.parked_gone as usize * 2 > session.parked.len() {
        session.parked.retain(|id| *id != link_id && links.contains(*id));
        session.parked_gone = 0;
    }
}

impl Router {
    /// A connection is over, and all its links with it; nothing is said to it any more.
    pub fn connection_closed(&mut self, connection: ConnectionId, now: Time) {
        self.begin(now);
        // Senders first, so that no consumer's end makes an outcome for a sender that goes with it.
        for link_id in self.connections.links(connection).to_vec() {
            if self.links.get(link_id).is_some_and(|link| link.sender().is_some()) {
                self.end_link(link_id);
            }
        }
        while let Some(link_id) = self.connections.last_link(connection) {
            self.end_link(link_id);
        }
        self.connections.close(connection);
        // What the ends of its own links would have said to it.
        self.outputs.retain(|output| output.connection() != connection);
    }

    /// A link is gone, for whatever reason. Unknown ones are ignored.
    pub fn link_ended(&mut self, link_id: LinkId, _closed: bool, now: Time) {
        self.begin(now);
        if self.links.get(link_id).is_some_and(|link| link.sender().is_none_or(|sender| !sender.ended)) {
            self.end_link(link_id);
        }
    }

    fn end_link(&mut self, link_id: LinkId) {
        let Some(link) = self.links.get_mut(link_id) else { return };
        let (connection, position, session) = (link.port.connection, link.connection_position, link.session_slot);
        let moved = self.connections.detach(connection, position, session);
        if let Some(other) = moved.and_then(|id| self.links.get_mut(id)) {
            other.connection_position = position;
        }
        let Some(link) = self.links.get(link_id) else { return };
        let address = link.address;
        match link.end {
            End::Sender(_) => {
                self.leave_address(link_id, Direction::Incoming);
                self.end_sender(link_id);
            }
            End::Consumer(_) => {
                self.leave_address(link_id, Direction::Outgoing);
                self.end_consumer(link_id);
            }
        }
        if let Some(id) = address {
            if self.addresses.get(id).is_some_and(|address| address.is_unused()) {
                self.remove_address(id);
            }
        }
    }

    fn leave_address(&mut self, link_id: LinkId, direction: Direction) {
        let Some(link) = self.links.get(link_id) else { return };
        let position = link.address_position;
        let Some(address) = link.address.and_then(|id| self.addresses.get_mut(id)) else { return };
        let list = match direction {
            Direction::Incoming => &mut address.senders,
            Direction::Outgoing => &mut address.consumers,
        };
        list.swap_remove(position as usize);
        if let Some(other) = list.get(position as usize).copied().and_then(|id| self.links.get_mut(id)) {
            other.address_position = position;
        }
    }

    pub(super) fn remove_address(&mut self, id: AddressId) {
        if let Some(mut address) = self.addresses.remove(id) {
            self.table.remove(address.name());
            address.depth.gone(|edge| self.edges.raise(address.rest.clone(), edge));
            address.latency.flush(self.now, &mut self.spread);
        }
    }

    /// A detached sender whose last delivery is gone.
    pub(super) fn free_link(&mut self, link_id: LinkId) {
        let Some(link) = self.links.remove(link_id) else { return };
        let moved = self.connections.remove_sender(link.session_slot, link.session_position);
        if let Some(other) = moved.and_then(|id| self.links.get_mut(id)) {
            other.session_position = link.session_position;
        }
        self.connections.leave_session(link.port.connection, link.session_slot);
    }

    /// A sender's deliveries: what is incomplete or unsettled and waits goes, since there is nobody to tell.
    fn end_sender(&mut self, link_id: LinkId) {
        let Some(link) = self.links.get_mut(link_id) else { return };
        let address = link.address;
        let Some(sender) = link.sender_mut() else { return };
        sender.ended = true;
        if let Some(address) = address.and_then(|id| self.addresses.get_mut(id)) {
            address.credit.sender_left(sender.slot);
        }
        // The list's head is looked at again each time: ending a delivery frees no other of this sender's.
        let mut slot = sender.deliveries.head;
        if slot == NONE {
            self.free_link(link_id);
            return;
        }
        while slot != NONE {
            let next = self.deliveries.next(By::Sender, slot);
            self.orphan(slot);
            slot = next;
        }
    }

    /// The sender of a delivery is gone.
    fn orphan(&mut self, slot: Slot) {
        let record = &mut self.deliveries[slot];
        // An outcome that the sender was to settle: nobody else will.
        let said = record.take(OPEN) && record.is(COUNTED);
        if !record.is(COMPLETE) {
            self.cut(slot);
            return;
        }
        if said && record.stage == Stage::Assigned {
            self.tell_consumer(slot, None, true);
            return;
        }
        let settled = record.is(SETTLED);
        match (record.stage, record.kind) {
            (Stage::Waiting, _) if !settled => self.drop_waiting(slot),
            (Stage::Assigned, Kind::Message) if !settled => self.drop_waiting_copies(slot),
            _ => self.review(slot),
        }
    }

    /// A consumer's deliveries: what was sent failed, what wasn't goes elsewhere or back.
    fn end_consumer(&mut self, link_id: LinkId) {
        self.stop_taking(link_id);
        while let Some(copy) = self.links.get(link_id).and_then(|link| link.consumer()).map(|c| c.queue.head) {
            if copy == NONE {
                break;
            }
            self.rank_outcome(copy, Some(State::RELEASED));
            self.drop_copy(copy);
        }
        loop {
            let Some(consumer) = self.links.get_mut(link_id).and_then(|link| link.consumer_mut()) else { return };
            let slot = consumer.unsettled.head;
            if slot == NONE {
                break;
            }
            self.deliveries.unlink(By::Consumer, &mut consumer.unsettled, slot);
            let (credit_slot, record) = (consumer.slot, &self.deliveries[slot]);
            if let Some(address) = self.addresses.get_mut(record.address).filter(|_| !record.is(SENT_SETTLED)) {
                address.credit.consumer_settled(credit_slot);
            }
            self.lose(slot);
        }
        let Some(link) = self.links.remove(link_id) else { return };
        self.connections.leave_session(link.port.connection, link.session_slot);
        let (Some(id), Some(consumer)) = (link.address, link.consumer()) else { return };
        if let Some(address) = self.addresses.get_mut(id) {
            address.candidates.leave(consumer.candidate);
            address.credit.consumer_left(consumer.slot);
            self.push_work(id);
        }
        self.release_waiting(id);
    }

    /// A consumer is no candidate any more, and never again.
    fn stop_taking(&mut self, link_id: LinkId) {
        let Some(link) = self.links.get_mut(link_id) else { return };
        let (address, session) = (link.address, link.session_slot);
        let Some(consumer) = link.consumer_mut() else { return };
        consumer.limit = consumer.assigned;
        let (candidate, parked) = (consumer.candidate, consumer.parked);
        let drains = std::mem::take(&mut consumer.drain);
        consumer.drained_due = false;
        let ready = std::mem::take(&mut consumer.ready);
        if let Some(address) = address.and_then(|id| self.addresses.get_mut(id)) {
            address.drains -= u32::from(drains);
            if ready {
                address.candidates.set_room(candidate, false);
            }
        }
        if parked {
            leave_parking(&mut self.connections.sessions[session as usize], &self.links, link_id);
        }
    }

    /// Nothing of a delivery or copy that was sent went out, and its link ends.
    pub fn delivery_unsent(&mut self, id: DeliveryId, now: Time) {
        self.begin(now);
        if let Some(slot) = self.deliveries.slot(id).filter(|slot| self.deliveries[*slot].kind == Kind::Single) {
            self.deliveries[slot].set(UNSENT);
        }
    }

    /// A delivery or copy lost its consumer. Whether anything of it was sent decides what its sender hears.
    fn lose(&mut self, slot: Slot) {
        let record = &mut self.deliveries[slot];
        let is_copy = record.kind == Kind::Copy;
        let all_here = record.is(SENDING) && u64::from(record.unreleased) == record.bytes && record.bytes > 0;
        let untouched = all_here || (!is_copy && record.is(UNSENT));
        let settled_there = record.is(OUT_SETTLED);
        let whole = record.is(COMPLETE) && !record.is(SENDING);
        // What was cut, or refused for its size, counts as dropped already.
        let counted = record.is(CUT) || record.is(COUNTED);
        let state = if untouched { State::RELEASED } else { State::delivery_failed() };
        if is_copy {
            if !settled_there || !whole {
                self.rank_outcome(slot, Some(state));
            }
        } else if record.is(OPEN) {
            self.tell_sender(slot, Some(state), true);
        } else if settled_there && !whole && !counted {
            self.count_dropped(slot);
        }
        self.conclude(slot);
    }

    /// Nobody consumes an address any more: what waits goes back to its senders, in the order of its arrival.
    fn release_waiting(&mut self, id: AddressId) {
        loop {
            let Some(address) = self.addresses.get_mut(id).filter(|address| address.consumers.is_empty()) else {
                return;
            };
            let slot = address.waiting.head;
            if slot == NONE {
                return;
            }
            self.deliveries.unlink(By::Consumer, &mut address.waiting, slot);
            self.turn_away(slot, State::RELEASED);
        }
    }
}

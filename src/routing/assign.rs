//! Assigning: a delivery that waits and a consumer that has room find each other, as late as can be.

use crate::ids::{AddressId, ConnectionId, DeliveryId, LinkId, SessionNumber};
use crate::link::SenderSettleMode;
use crate::outcome::State;
use crate::payload::Payload;
use crate::routing::address::Address;
use crate::routing::delivery::{By, Kind, Slot, Stage};
use crate::routing::delivery::{
    COMPLETE, COUNTED, CREDIT, CUT, OPEN, OUT_SETTLED, PASSED, PRESETTLED, SENDING, SENT, SENT_SETTLED, SETTLED,
};
use crate::routing::link::{Consumer, End};
use crate::routing::output::Output;
use crate::routing::router::{Polled, Router};
use crate::routing::settings::Treatment;
use crate::time::Time;

/// A consumer's session takes nothing: it is no candidate until it does.
#[cold]
fn park(address: &mut Address, consumer: &mut Consumer) {
    address.candidates.set_room(consumer.candidate, false);
    address.credit.consumer_blocked(consumer.slot);
    consumer.blocked = true;
    consumer.ready = false;
    consumer.parked = true;
}

impl Consumer {
    /// It was assigned so many. `more`: another may follow, if it has room.
    #[inline]
    pub(super) fn took(&mut self, address: &mut Address, count: u32, more: bool, now: Time) {
        self.assigned = self.assigned.wrapping_add(count);
        self.told_room = self.told_room.saturating_sub(count);
        address.candidates.assigned(self.candidate, count);
        let room = self.room() > 0;
        if !room {
            self.activity.dry_since = now;
        }
        if !more || !room {
            address.candidates.set_room(self.candidate, false);
            self.ready = false;
        }
        if self.told_room == 0 && room {
            self.tell_room(&mut address.credit, now);
        }
    }
}

/// What a consumer counts as whose session takes deliveries again, in [`Router::take_steps`].
const STEPS_A_WAKE: u64 = 8;

impl Router {
    /// The next delivery of an address that a consumer takes, as the command that sends it.
    pub(super) fn assign_next(&mut self, id: AddressId) -> Option<Output> {
        let address = self.addresses.get_mut(id)?;
        let multicast = address.treatment == Treatment::Multicast;
        if !multicast && address.waiting.is_empty() {
            return None;
        }
        // The best candidate whose session takes deliveries. Others are set aside on the way, until it does.
        let (link_id, link) = loop {
            let link_id = address.candidates.best()?;
            let link = self.links.get_mut(link_id)?;
            let session = &mut self.connections.sessions[link.session_slot as usize];
            if !session.blocked {
                break (link_id, link);
            }
            session.parked.push(link_id);
            park(address, link.consumer_mut()?);
        };
        let (port, mode) = (link.port, link.sender_settle_mode);
        let End::Consumer(consumer) = &mut link.end else { return None };
        let queue = if multicast { &mut consumer.queue } else { &mut address.waiting };
        let slot = queue.head;
        self.deliveries.unlink(By::Consumer, queue, slot);
        let more = !multicast || !consumer.queue.is_empty();

        let record = &mut self.deliveries[slot];
        link.counters.arrived(record.is(PRESETTLED));
        address.counters.egress += 1;
        self.totals.egress += 1;
        record.out_link = link_id;
        record.stage = Stage::Assigned;
        let settled = match mode {
            SenderSettleMode::Settled => true,
            SenderSettleMode::Unsettled => false,
            SenderSettleMode::Mixed => record.is(SETTLED),
        };
        if settled {
            record.set(OUT_SETTLED | SENT_SETTLED);
            address.credit.consumer_assigned_settled(consumer.slot);
        } else {
            address.credit.consumer_assigned(consumer.slot);
        }
        let complete = record.is(COMPLETE);
        let message_format = record.message_format;
        let payload = std::mem::take(&mut record.payload);
        let (in_link, passes) = (record.in_link, record.kind == Kind::Single && record.is(CREDIT));
        if passes {
            record.set(PASSED);
        }
        self.deliveries.push_back(By::Consumer, &mut consumer.unsettled, slot);
        let delivery = self.deliveries.id(slot);
        consumer.took(address, 1, more && complete, self.now);
        if !complete {
            self.deliveries[slot].set(SENDING);
            consumer.busy = Some(slot);
            consumer.blocked = true;
            address.credit.consumer_blocked(consumer.slot);
        }
        if passes {
            if let Some(sender) = self.links.get_mut(in_link).and_then(|link| link.sender_mut()) {
                address.credit.assigned(sender.slot);
                if let Some(fixed) = &mut sender.fixed {
                    fixed.left_waiting(1);
                    self.mark_dirty(in_link);
                }
            }
        }
        if !complete {
            self.note_under_way(slot);
        }
        self.polled = complete.then_some(Polled { link: link_id, delivery });
        Some(Output::Send { port, delivery, message_format, settled, complete, payload })
    }

    /// A multicast message no longer waits, as its sender's credit sees it.
    pub(super) fn stop_waiting(&mut self, slot: Slot) {
        let record = &mut self.deliveries[slot];
        if record.is(PASSED) || !record.is(CREDIT) {
            return;
        }
        record.set(PASSED);
        let (link_id, address_id) = (record.in_link, record.address);
        let Some(sender) = self.links.get_mut(link_id).and_then(|link| link.sender_mut()) else { return };
        if let Some(address) = self.addresses.get_mut(address_id) {
            address.credit.assigned(sender.slot);
        }
        if let Some(fixed) = &mut sender.fixed {
            fixed.left_waiting(1);
            self.mark_dirty(link_id);
        }
    }

    /// A `SendMore` or `SendAbort` goes out: the engine may be done with the delivery now.
    #[inline]
    pub(super) fn note_polled(&mut self, output: &Output) {
        let (Output::SendMore { delivery, complete: true, .. } | Output::SendAbort { delivery, .. }) = output else {
            return;
        };
        let Some(slot) = self.deliveries.slot(*delivery) else { return };
        let link = self.deliveries[slot].out_link;
        self.polled = Some(Polled { link, delivery: *delivery });
    }

    /// What was polled last went out whole, unless `link_busy` came in between.
    #[inline]
    pub(super) fn finish_polled(&mut self) {
        let Some(polled) = self.polled.take() else { return };
        if let Some(slot) = self.deliveries.slot(polled.delivery) {
            self.sent(slot);
        }
    }

    /// All of a delivery or copy is out.
    fn sent(&mut self, slot: Slot) {
        let record = &mut self.deliveries[slot];
        let link_id = record.out_link;
        let was_busy = record.take(SENDING);
        if record.kind == Kind::Copy {
            self.copy_sent(slot);
        } else {
            self.release_all(slot);
        }
        if was_busy {
            if let Some(consumer) = self.links.get_mut(link_id).and_then(|link| link.consumer_mut()) {
                consumer.busy = None;
            }
            self.refresh(link_id);
        }
        let record = &self.deliveries[slot];
        let usual = OUT_SETTLED | COMPLETE | CREDIT | PASSED;
        if record.kind == Kind::Single && record.flags & (usual | COUNTED) == usual {
            self.end_accepted(slot);
        } else if record.is(OUT_SETTLED) {
            self.tell_sender(slot, Some(State::ACCEPTED), true);
            self.finish(slot);
        } else if record.kind == Kind::Single && !record.is(OPEN) {
            self.review(slot);
        }
    }

    /// Payload bytes of a delivery have left the router, or will never leave it.
    #[inline]
    pub(super) fn release_all(&mut self, slot: Slot) {
        let bytes = std::mem::take(&mut self.deliveries[slot].unreleased);
        self.release_of(slot, bytes);
    }

    pub(super) fn release_of(&mut self, slot: Slot, bytes: u32) {
        if bytes == 0 {
            return;
        }
        let record = &self.deliveries[slot];
        let (in_link, session) = (record.in_link, record.in_wire.session);
        if !record.is(COMPLETE) && record.unreleased == 0 {
            self.note_starved(in_link);
        }
        if let Some(port) = self.port(in_link) {
            self.release(port.connection, session, bytes as usize);
        }
    }

    /// The engine could not put all of the `Send` or `SendMore` that was polled last into its output: the link is
    /// taken until `payload_sent` says complete. Call it before the next `poll_output`; without it, what was
    /// polled counts as sent whole.
    pub fn link_busy(&mut self, link_id: LinkId) {
        let Some(polled) = self.polled.take_if(|polled| polled.link == link_id) else { return };
        let Some(slot) = self.deliveries.slot(polled.delivery) else { return };
        self.deliveries[slot].set(SENDING);
        if let Some(consumer) = self.links.get_mut(link_id).and_then(|link| link.consumer_mut()) {
            consumer.busy = Some(slot);
            self.refresh(link_id);
        }
    }

    /// Payload of a delivery that made its link busy went out. `complete`: the link is free again.
    pub fn payload_sent(&mut self, id: DeliveryId, bytes: usize, complete: bool, now: Time) {
        self.begin(now);
        let Some(slot) = self.deliveries.slot(id) else { return };
        let record = &mut self.deliveries[slot];
        if !record.is(SENDING) {
            return;
        }
        if complete && self.has_all(slot) {
            self.sent(slot);
            return;
        }
        let record = &mut self.deliveries[slot];
        if record.kind == Kind::Copy {
            self.copy_sent_some(slot, bytes);
            return;
        }
        let bytes = record.unreleased.min(u32::try_from(bytes).unwrap_or(u32::MAX));
        record.unreleased -= bytes;
        self.release_of(slot, bytes);
    }

    /// Whether all of a delivery or copy is handed to its consumer's engine.
    fn has_all(&self, slot: Slot) -> bool {
        let record = &self.deliveries[slot];
        match record.kind {
            Kind::Copy => self.deliveries[record.parent()].is(COMPLETE | CUT),
            _ => record.is(COMPLETE | CUT),
        }
    }

    /// A consumer's connection or session takes nothing more for now. Call it before the next `poll_output`.
    pub fn session_blocked(&mut self, connection: ConnectionId, session: SessionNumber) {
        if let Some(slot) = self.connections.session(connection, session) {
            self.connections.sessions[slot as usize].blocked = true;
        }
    }

    /// It takes deliveries again.
    pub fn session_writable(&mut self, connection: ConnectionId, session: SessionNumber, now: Time) {
        self.begin(now);
        let Some(slot) = self.connections.session(connection, session) else { return };
        let session = &mut self.connections.sessions[slot as usize];
        session.blocked = false;
        let mut parked = std::mem::take(&mut session.parked);
        session.parked_gone = 0;
        // They may all be parked again by what waits.
        self.steps += STEPS_A_WAKE * parked.len() as u64;
        for link_id in parked.drain(..) {
            if let Some(consumer) = self.links.get_mut(link_id).and_then(|link| link.consumer_mut()) {
                consumer.parked = false;
                self.refresh(link_id);
            }
        }
        // The list keeps its memory: a session is blocked again and again.
        self.connections.sessions[slot as usize].parked = parked;
    }

    /// Brings a consumer's place among its address's candidates up to date.
    pub(super) fn refresh(&mut self, link_id: LinkId) {
        let Some(link) = self.links.get_mut(link_id) else { return };
        let Some(address_id) = link.address else { return };
        let Some(consumer) = link.consumer_mut() else { return };
        let Some(address) = self.addresses.get_mut(address_id) else { return };
        let taken = consumer.busy.is_some() || consumer.parked;
        if taken != consumer.blocked {
            consumer.blocked = taken;
            if taken {
                address.credit.consumer_blocked(consumer.slot);
            } else {
                address.credit.consumer_unblocked(consumer.slot);
            }
        }
        let has_use = address.treatment != Treatment::Multicast || !consumer.queue.is_empty();
        let can = has_use && consumer.room() > 0 && !taken;
        if can != consumer.ready {
            address.candidates.set_room(consumer.candidate, can);
            consumer.ready = can;
        }
        if consumer.drained_due && consumer.busy.is_none() {
            self.answer_drain(link_id);
        }
        self.push_work(address_id);
    }

    /// A copy went out whole: its message is released when that was the last.
    fn copy_sent(&mut self, slot: Slot) {
        let record = &mut self.deliveries[slot];
        record.unreleased = 0;
        record.payload = Payload::new();
        record.set(SENT);
        let message = record.parent();
        self.deliveries.copy_holds_less(slot);
        self.copy_is_out(message);
    }
}

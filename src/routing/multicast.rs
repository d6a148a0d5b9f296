//! Multicast: a copy for each consumer, one outcome for the sender.
//!
//! A message's copies are made when it is complete or large enough to stream. An unsettled message has a copy for
//! every consumer that takes part (it gave credit, and isn't set aside); a settled one for those that have room now, the others miss it, counted.
//! The sender's outcome is the highest of the copies', once all have one: rejected before accepted before others
//! before modified before released.

use crate::ids::LinkId;
use crate::outcome::{State, StateKind};
use crate::payload::Payload;
use crate::routing::address::Address;
use crate::routing::delivery::{By, Kind, List, Slot, Stage, NONE};
use crate::routing::delivery::{COMPLETE, CUT, DEPTH, OPEN, OUT_SETTLED, PRESETTLED, SENT, SETTLED};
use crate::routing::router::Router;
use crate::routing::settle::is_outcome;
use crate::sabotage::Sabotage;

/// What a copy counts as, in [`Router::take_steps`].
pub const STEPS_A_COPY: u64 = 8;

fn rank(kind: StateKind) -> u8 {
    match kind {
        StateKind::Rejected => 5,
        StateKind::Accepted => 4,
        StateKind::Other => 3,
        StateKind::Modified => 2,
        StateKind::Released => 1,
        StateKind::Received => 0,
    }
}

impl Router {
    /// Makes a message's copies.
    pub(super) fn fan_out(&mut self, message: Slot) {
        let id = self.deliveries[message].address;
        let settled = self.deliveries[message].is(SETTLED);
        let consumers = self.addresses.get(id).map_or(0, |address| address.consumers.len());
        self.steps += STEPS_A_COPY * consumers as u64;
        let record = &mut self.deliveries[message];
        record.stage = Stage::Assigned;
        let payload = std::mem::take(&mut record.payload);
        if !record.is(COMPLETE | CUT) {
            self.note_under_way(message);
        }
        for at in 0..consumers {
            let Some(link_id) = self.addresses.get(id).map(|address| address.consumers[at]) else { break };
            let Some(link) = self.links.get_mut(link_id) else { continue };
            let Some(consumer) = link.consumer() else { continue };
            let Some(address) = self.addresses.get_mut(id) else { break };
            if !address.credit.is_active(consumer.slot) {
                continue;
            }
            if at > 0 && self.settings.sabotage.meets(Sabotage::MissCopy, self.totals.deliveries as u32) {
                continue;
            }
            if settled && consumer.room() <= consumer.queue.len {
                address.credit.consumer_missed(consumer.slot);
                self.count_missed(link_id, message);
                continue;
            }
            self.make_copy(message, link_id, payload.clone());
        }
        if let Some(address) = self.addresses.get_mut(id) {
            address.credit.copied();
        }
        if self.deliveries[message].copies.is_empty() {
            // Nobody takes it: the sender may try again, or nobody minds.
            self.turn_away(message, State::RELEASED);
        }
    }

    /// A message ends before its copies are made: for the consumers' credit they count as missed.
    pub(super) fn miss_all(&mut self, message: Slot) {
        let Some(address) = self.addresses.get_mut(self.deliveries[message].address) else { return };
        self.steps += STEPS_A_COPY * address.consumers.len() as u64;
        for link_id in &address.consumers {
            let consumer = self.links.get(*link_id).and_then(|link| link.consumer());
            if let Some(slot) = consumer.map(|consumer| consumer.slot) {
                if address.credit.is_active(slot) {
                    address.credit.consumer_missed(slot);
                }
            }
        }
        address.credit.copied();
    }

    fn count_missed(&mut self, link_id: LinkId, message: Slot) {
        if let Some(link) = self.links.get_mut(link_id) {
            link.counters.missed += 1;
        }
        if let Some(address) = self.addresses.get_mut(self.deliveries[message].address) {
            address.counters.missed += 1;
        }
        self.totals.missed += 1;
    }

    fn make_copy(&mut self, message: Slot, link_id: LinkId, payload: Payload) {
        let copy = self.deliveries.insert(Kind::Copy, Stage::Waiting, self.deliveries[message].arrived);
        let from = &self.deliveries[message];
        let (address_id, bytes, message_format) = (from.address, from.bytes, from.message_format);
        let flags = from.flags & (SETTLED | PRESETTLED | COMPLETE) | DEPTH;
        let record = &mut self.deliveries[copy];
        record.set_parent(message);
        record.address = address_id;
        record.bytes = bytes;
        record.unreleased = payload.len() as u32;
        record.message_format = message_format;
        record.payload = payload;
        record.flags = flags;
        let mut copies = std::mem::replace(&mut self.deliveries[message].copies, List::EMPTY);
        self.deliveries.push_back(By::Sender, &mut copies, copy);
        self.deliveries[message].copies = copies;
        self.deliveries[message].unsent += 1;
        if let Some(Address { depth, rest, .. }) = self.addresses.get_mut(address_id) {
            depth.added(1, bytes, |edge| self.edges.raise(rest.clone(), edge));
        }
        if let Some(consumer) = self.links.get_mut(link_id).and_then(|link| link.consumer_mut()) {
            self.deliveries.push_back(By::Consumer, &mut consumer.queue, copy);
            self.deliveries[copy].out_link = link_id;
        }
        self.refresh(link_id);
    }

    /// More of a message that streams, for each of its copies.
    pub(super) fn copies_more(&mut self, message: Slot, payload: Payload, complete: bool) {
        let bytes = payload.len();
        self.steps += STEPS_A_COPY * u64::from(self.deliveries[message].copies.len);
        let mut copy = self.deliveries[message].copies.head;
        while copy != NONE {
            let next = self.deliveries.next(By::Sender, copy);
            let record = &mut self.deliveries[copy];
            record.bytes += bytes as u64;
            record.unreleased += bytes as u32;
            if complete {
                record.set(COMPLETE);
            }
            self.grow_depth(copy, bytes);
            let record = &mut self.deliveries[copy];
            if record.stage == Stage::Waiting {
                self.packer.append(&mut record.payload, payload.clone());
            } else {
                self.send_more(copy, payload.clone(), complete);
            }
            copy = next;
        }
    }

    /// A message's sender gave it up, or is gone, before it was complete.
    pub(super) fn abort_copies(&mut self, message: Slot) {
        let mut copy = self.deliveries[message].copies.head;
        while copy != NONE {
            let next = self.deliveries.next(By::Sender, copy);
            if self.deliveries[copy].stage == Stage::Waiting {
                self.drop_copy(copy);
            } else {
                self.abort_sent(copy);
            }
            copy = next;
        }
    }

    /// Copies that wait in their consumers' queues go, since nobody hears of them any more.
    pub(super) fn drop_waiting_copies(&mut self, message: Slot) {
        self.each_waiting_copy(message, Router::drop_copy);
    }

    /// A message's copies that wait for their consumers go: those miss it.
    pub(super) fn miss_waiting_copies(&mut self, message: Slot) {
        self.each_waiting_copy(message, Router::miss_copy);
    }

    fn each_waiting_copy(&mut self, message: Slot, end: fn(&mut Router, Slot)) {
        let mut copy = self.deliveries[message].copies.head;
        while copy != NONE {
            let next = self.deliveries.next(By::Sender, copy);
            if self.deliveries[copy].stage == Stage::Waiting {
                end(self, copy);
            }
            copy = next;
        }
    }

    /// A consumer has taken nothing for too long: its copies go, and none is made until it gives credit again.
    pub(super) fn set_aside(&mut self, link_id: LinkId) {
        loop {
            let consumer = self.links.get(link_id).and_then(|link| link.consumer());
            let Some(copy) = consumer.map(|consumer| consumer.queue.head).filter(|copy| *copy != NONE) else { return };
            self.miss_copy(copy);
        }
    }

    /// A copy that waits goes; its consumer misses the message.
    fn miss_copy(&mut self, copy: Slot) {
        let record = &self.deliveries[copy];
        self.count_missed(record.out_link, record.parent());
        self.rank_outcome(copy, Some(State::RELEASED));
        self.drop_copy(copy);
    }

    /// Takes a copy out of its consumer's queue, for good.
    pub(super) fn drop_copy(&mut self, copy: Slot) {
        let link_id = self.deliveries[copy].out_link;
        if let Some(consumer) = self.links.get_mut(link_id).and_then(|link| link.consumer_mut()) {
            self.deliveries.unlink(By::Consumer, &mut consumer.queue, copy);
            if let Some(address) = self.addresses.get_mut(self.deliveries[copy].address) {
                address.credit.consumer_missed(consumer.slot);
            }
        }
        self.refresh(link_id);
        self.conclude(copy);
    }

    /// A consumer told the state of its copy. An outcome ends its side, whoever settles first.
    pub(super) fn copy_disposition(&mut self, copy: Slot, state: Option<State>, settled: bool) {
        let outcome = is_outcome(&state);
        if !settled && !outcome {
            return;
        }
        self.rank_outcome(copy, state);
        if settled {
            self.settle_consumer_side(copy);
        } else {
            self.tell_consumer(copy, None, true);
        }
    }

    /// Keeps the highest outcome of a message's copies. A copy settled without one was taken.
    pub(super) fn rank_outcome(&mut self, copy: Slot, state: Option<State>) {
        let state = state.unwrap_or(State::ACCEPTED);
        let message = self.deliveries[copy].parent();
        let best = self.deliveries.outcome(message).map_or(0, |best| rank(best.kind));
        let state = Some(state);
        self.count_outcome(copy, &state);
        if let Some(state) = state.filter(|state| rank(state.kind) > best) {
            self.deliveries.set_outcome(message, state);
        }
    }

    /// Some of a copy went out. The message's bytes are released as far as its slowest copy is.
    pub(super) fn copy_sent_some(&mut self, copy: Slot, bytes: usize) {
        let record = &mut self.deliveries[copy];
        let before = record.unreleased;
        record.unreleased -= before.min(u32::try_from(bytes).unwrap_or(u32::MAX));
        let message = record.parent();
        self.deliveries.copy_holds_less(copy);
        self.release_as_slowest(message, before);
    }

    /// A copy that held `before` bytes holds fewer: when it was the slowest, another one is now.
    fn release_as_slowest(&mut self, message: Slot, before: u32) {
        let held = self.deliveries[message].unreleased;
        if before < held || held == 0 {
            return;
        }
        let slowest = self.deliveries.most_unreleased(message);
        if slowest >= held {
            return;
        }
        self.deliveries[message].unreleased = slowest;
        self.release_of(message, held - slowest);
    }

    /// A copy of a message is wholly sent, or never will be.
    pub(super) fn copy_is_out(&mut self, message: Slot) {
        let record = &mut self.deliveries[message];
        record.unsent -= 1;
        if record.unsent == 0 {
            self.release_all(message);
            self.stop_waiting(message);
        }
    }

    /// A copy is over: the message is, with its last.
    pub(super) fn copy_concluded(&mut self, copy: Slot) {
        let record = &mut self.deliveries[copy];
        let message = record.parent();
        let sent = record.is(SENT);
        let before = std::mem::take(&mut record.unreleased);
        if record.is(OUT_SETTLED) {
            // A consumer that is sent settled copies takes them.
            self.rank_settled(copy);
        }
        self.deliveries.leave_order(copy);
        let mut copies = std::mem::replace(&mut self.deliveries[message].copies, List::EMPTY);
        self.deliveries.unlink(By::Sender, &mut copies, copy);
        self.deliveries[message].copies = copies;
        self.deliveries.remove(copy);
        if !sent {
            self.copy_is_out(message);
            if self.deliveries[message].unsent > 0 && !self.deliveries[message].is(COMPLETE) {
                self.release_as_slowest(message, before);
            }
        }
        if copies.is_empty() {
            self.message_concluded(message);
        }
    }

    /// A copy that went out settled counts as accepted, when nothing else was said of it.
    fn rank_settled(&mut self, copy: Slot) {
        let message = self.deliveries[copy].parent();
        if self.deliveries[message].is(OPEN) && !self.deliveries[copy].is(super::delivery::COUNTED) {
            self.rank_outcome(copy, None);
        }
    }

    /// All copies of a message are over.
    fn message_concluded(&mut self, message: Slot) {
        self.count_latency(message);
        self.count_age(message);
        let state = self.deliveries.take_outcome(message).unwrap_or(State::RELEASED);
        let record = &mut self.deliveries[message];
        record.stage = Stage::Done;
        if record.is(OPEN) {
            // What is still arriving is dropped; there is nobody to settle it with.
            let settled = !self.waits_for_settlement(message) || !self.deliveries[message].is(COMPLETE);
            self.tell_sender(message, Some(state), settled);
        }
        self.release_all(message);
        self.review(message);
    }
}

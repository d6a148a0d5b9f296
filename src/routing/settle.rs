//! Settlement: outcomes on their way from consumers to senders, and the end of deliveries.

use crate::ids::{AddressId, DeliveryId, LinkId, Port, WireDelivery};
use crate::link::ReceiverSettleMode;
use crate::outcome::{State, StateKind};
use crate::routing::address::Address;
use crate::routing::delivery::{By, Kind, Slot, Stage};
use crate::routing::delivery::{
    COMPLETE, COUNTED, CREDIT, CUT, DEPTH, OPEN, OUT_SETTLED, OUT_WIRE, PASSED, SENDING, SENT_SETTLED, SETTLED,
};
use crate::routing::link::End;
use crate::routing::output::Output;
use crate::routing::router::Router;
use crate::routing::stuck::SLOW_NANOSECONDS;
use crate::time::Time;

/// Rejected with an error, as the router itself says it: the state's encoding (AMQP 1.0, section 3.4.3), since
/// states pass routing as bytes. `condition` and `description` are short.
pub fn rejected(condition: &str, description: &str) -> State {
    debug_assert!(condition.len() + description.len() < 200);
    let error_len = 1 + 2 + condition.len() + 2 + description.len();
    let mut bytes = vec![0x00, 0x53, 0x25, 0xc0, (1 + 3 + 2 + error_len) as u8, 1];
    bytes.extend([0x00, 0x53, 0x1d, 0xc0, error_len as u8, 2]);
    bytes.extend([0xa3, condition.len() as u8]);
    bytes.extend(condition.as_bytes());
    bytes.extend([0xa1, description.len() as u8]);
    bytes.extend(description.as_bytes());
    State { kind: StateKind::Rejected, encoded: Some(bytes.into()) }
}

/// Whether a state ends a delivery by itself. What isn't known (transactional) ends when it is settled.
#[inline]
pub fn is_outcome(state: &Option<State>) -> bool {
    use StateKind::{Accepted, Modified, Rejected, Released};
    state.as_ref().is_some_and(|state| matches!(state.kind, Accepted | Rejected | Released | Modified))
}

impl Router {
    /// A consumer told the state of a delivery that it was sent.
    pub fn receiver_disposition(
        &mut self,
        id: DeliveryId,
        wire: WireDelivery,
        state: Option<State>,
        settled: bool,
        now: Time,
    ) {
        self.begin(now);
        let Some(slot) = self.deliveries.slot(id) else { return };
        let record = &mut self.deliveries[slot];
        if record.stage != Stage::Assigned || record.is(OUT_SETTLED) || record.kind == Kind::Message {
            return;
        }
        if settled && record.is_usual() {
            let outcome = state.as_ref().map_or(StateKind::Other, |state| state.kind);
            if let Some((port, wire)) = self.end_whole(slot, outcome) {
                self.outputs.push_back(Output::DisposeIncoming { port, wire, state, settled: true });
            }
            return;
        }
        record.out_wire = wire;
        record.set(OUT_WIRE);
        if record.kind == Kind::Copy {
            self.copy_disposition(slot, state, settled);
            return;
        }
        if record.is(COUNTED) && !settled {
            // It has told its outcome and waits for its sender; another state changes nothing, and telling it again and
            // again would cost the sender what it costs the consumer.
            return;
        }
        let outcome = is_outcome(&state);
        if outcome && !record.is(OPEN) {
            self.count_outcome(slot, &state);
        }
        let record = &self.deliveries[slot];
        if settled {
            self.tell_sender(slot, state, true);
            self.settle_consumer_side(slot);
        } else if !outcome {
            self.tell_sender(slot, state, false);
        } else if !record.is(OPEN) {
            // The sender has settled already, or is gone: there is nothing to wait for.
            self.tell_consumer(slot, None, true);
        } else if self.waits_for_settlement(slot) {
            self.tell_sender(slot, state, false);
        } else {
            let kind = state.as_ref().map(State::without_fields);
            self.tell_sender(slot, state, true);
            self.tell_consumer(slot, kind, true);
        }
    }

    /// A delivery or copy is larger than its consumer takes, and that hears nothing of it: as if it had rejected it.
    pub fn delivery_too_large(&mut self, id: DeliveryId, now: Time) {
        self.begin(now);
        let Some(slot) = self.deliveries.slot(id) else { return };
        let record = &self.deliveries[slot];
        if record.stage != Stage::Assigned || record.kind == Kind::Message {
            return;
        }
        let state = rejected("amqp:link:message-size-exceeded", "the message is larger than its receiver takes");
        if record.kind == Kind::Copy {
            self.rank_outcome(slot, Some(state));
        } else if record.is(OPEN) {
            self.tell_sender(slot, Some(state), true);
        } else if !record.is(COUNTED) {
            self.deliveries[slot].set(COUNTED);
            self.count_dropped(slot);
        }
        self.settle_consumer_side(slot);
    }

    /// Ends a delivery that is wholly sent, both sides at once: what `tell_sender`, `finish` and `review` do, with each
    /// link and the address looked up once. Gives whom to tell the outcome, where somebody waits for it.
    #[inline]
    pub(super) fn end_whole(&mut self, slot: Slot, outcome: StateKind) -> Option<(Port, WireDelivery)> {
        let record = &self.deliveries[slot];
        let (in_link, out_link, address_id) = (record.in_link, record.out_link, record.address);
        let (wire, bytes) = (record.in_wire, record.bytes);
        let (open, sent_settled) = (record.is(OPEN), record.is(SENT_SETTLED));
        debug_assert!(record.unreleased == 0 && record.is(DEPTH));
        let age = self.deliveries.age(slot, self.now);
        if age >= SLOW_NANOSECONDS {
            self.count_delayed(slot);
        }
        self.totals.outcome(outcome);
        let address = self.addresses.get_mut(address_id)?;
        address.counters.outcome(outcome);
        address.latency.record(age, self.now, &mut self.spread);
        if let Some(link) = self.links.get_mut(out_link) {
            link.counters.outcome(outcome);
            if let End::Consumer(consumer) = &mut link.end {
                self.deliveries.unlink(By::Consumer, &mut consumer.unsettled, slot);
                address.candidates.settled(consumer.candidate, 1);
                if !sent_settled {
                    address.credit.consumer_settled(consumer.slot);
                }
            }
        }
        let (mut told, mut ended) = (None, false);
        if let Some(link) = self.links.get_mut(in_link) {
            link.counters.outcome(outcome);
            told = open.then_some((link.port, wire));
            if let End::Sender(sender) = &mut link.end {
                self.deliveries.unlink(By::Sender, &mut sender.deliveries, slot);
                address.credit.settled(sender.slot);
                ended = sender.ended && sender.deliveries.is_empty();
            }
        }
        let Address { depth, rest, .. } = address;
        depth.removed(1, bytes, |edge| self.edges.raise(rest.clone(), edge));
        if !address.has_work {
            address.has_work = true;
            self.work.push_back(address_id);
        }
        self.deliveries.remove(slot);
        if ended {
            self.free_link(in_link);
        }
        told
    }

    /// As `end_whole`, for a delivery that its consumer wanted settled: the router itself says that it was accepted.
    pub(super) fn end_accepted(&mut self, slot: Slot) {
        let outcome = if self.deliveries[slot].is(OPEN) { StateKind::Accepted } else { StateKind::Other };
        if let Some((port, wire)) = self.end_whole(slot, outcome) {
            let state = Some(State::ACCEPTED);
            self.outputs.push_back(Output::DisposeIncoming { port, wire, state, settled: true });
        }
    }

    /// Whether a delivery's sender settles first (its receiver-settle-mode is second).
    pub(super) fn waits_for_settlement(&self, slot: Slot) -> bool {
        let link = self.links.get(self.deliveries[slot].in_link);
        link.is_some_and(|link| link.receiver_settle_mode == ReceiverSettleMode::Second)
    }

    /// A sender told the state of a delivery that it sent (settled it, most often).
    pub fn sender_disposition(&mut self, id: DeliveryId, state: Option<State>, settled: bool, now: Time) {
        self.begin(now);
        let Some(slot) = self.deliveries.slot(id) else { return };
        let record = &mut self.deliveries[slot];
        if record.kind == Kind::Copy || !record.is(OPEN) {
            return;
        }
        if settled {
            record.clear(OPEN);
            record.set(SETTLED);
        }
        // A consumer that hasn't told its own state yet learns of it when it does: until then its delivery's
        // number isn't known here.
        if record.kind == Kind::Single && record.stage == Stage::Assigned && record.is(OUT_WIRE) {
            self.tell_consumer(slot, state, settled);
        } else {
            self.review(slot);
        }
    }

    /// The consumer of a delivery hears its state. `settled` ends its side.
    pub(super) fn tell_consumer(&mut self, slot: Slot, state: Option<State>, settled: bool) {
        let record = &self.deliveries[slot];
        let wire = record.out_wire;
        if let Some(port) = self.port(record.out_link) {
            self.outputs.push_back(Output::DisposeOutgoing { port, wire, state, settled });
        }
        if settled {
            self.settle_consumer_side(slot);
        }
    }

    /// The consumer's engine has forgotten a delivery. When it is still being sent, it stays until that is done.
    pub(super) fn settle_consumer_side(&mut self, slot: Slot) {
        let record = &mut self.deliveries[slot];
        record.set(OUT_SETTLED);
        if !record.is(SENDING) {
            self.finish(slot);
        }
    }

    /// The sender of a delivery hears its state, when it waits for one.
    #[inline]
    pub(super) fn tell_sender(&mut self, slot: Slot, state: Option<State>, settled: bool) {
        if !self.deliveries[slot].is(OPEN) {
            return;
        }
        if is_outcome(&state) {
            self.count_outcome(slot, &state);
        }
        let record = &mut self.deliveries[slot];
        if settled {
            record.clear(OPEN);
        }
        let (wire, in_link) = (record.in_wire, record.in_link);
        if let Some(port) = self.port(in_link) {
            self.outputs.push_back(Output::DisposeIncoming { port, wire, state, settled });
        }
    }

    /// Counts a delivery's outcome, once.
    #[inline]
    pub(super) fn count_outcome(&mut self, slot: Slot, state: &Option<State>) {
        let Some(kind) = state.as_ref().map(|state| state.kind) else { return };
        let record = &mut self.deliveries[slot];
        if record.is(COUNTED) {
            return;
        }
        record.set(COUNTED);
        // A copy that never left its consumer's queue has an outcome for its message alone.
        if record.stage == Stage::Assigned {
            if let Some(link) = self.links.get_mut(record.out_link) {
                link.counters.outcome(kind);
            }
        }
        if record.kind == Kind::Copy {
            return;
        }
        if let Some(link) = self.links.get_mut(record.in_link) {
            link.counters.outcome(kind);
        }
        if let Some(address) = self.addresses.get_mut(record.address) {
            address.counters.outcome(kind);
        }
        self.totals.outcome(kind);
    }

    /// A delivery or copy that was assigned leaves its consumer.
    #[inline]
    pub(super) fn finish(&mut self, slot: Slot) {
        let link_id = self.deliveries[slot].out_link;
        if let Some(consumer) = self.links.get_mut(link_id).and_then(|link| link.consumer_mut()) {
            self.deliveries.unlink(By::Consumer, &mut consumer.unsettled, slot);
            if consumer.busy == Some(slot) {
                consumer.busy = None;
            }
            let record = &self.deliveries[slot];
            if let Some(address) = self.addresses.get_mut(record.address) {
                address.candidates.settled(consumer.candidate, 1);
                if !record.is(SENT_SETTLED) {
                    address.credit.consumer_settled(consumer.slot);
                }
            }
            self.refresh(link_id);
        }
        self.conclude(slot);
    }

    /// The consumer's side of a delivery or copy, in no consumer's list any more, is over.
    pub(super) fn conclude(&mut self, slot: Slot) {
        let record = &mut self.deliveries[slot];
        record.clear(SENDING);
        record.stage = Stage::Done;
        self.leave_depth(slot);
        if self.deliveries[slot].kind == Kind::Copy {
            self.copy_concluded(slot);
            return;
        }
        self.release_all(slot);
        self.review(slot);
    }

    #[inline]
    pub(super) fn leave_depth(&mut self, slot: Slot) {
        if !self.deliveries[slot].is(DEPTH) {
            return;
        }
        self.count_age(slot);
        if self.deliveries[slot].kind == Kind::Single {
            self.count_latency(slot);
        }
        let record = &mut self.deliveries[slot];
        record.clear(DEPTH);
        let id = record.address;
        if let Some(address) = self.addresses.get_mut(id) {
            let Address { depth, rest, .. } = address;
            depth.removed(1, record.bytes, |edge| self.edges.raise(rest.clone(), edge));
            if address.is_unused() {
                self.remove_address(id);
            }
        }
    }

    /// How long a delivery took, or a message with all its copies.
    pub(super) fn count_latency(&mut self, slot: Slot) {
        let age = self.deliveries.age(slot, self.now);
        match self.addresses.get_mut(self.deliveries[slot].address) {
            Some(address) => address.latency.record(age, self.now, &mut self.spread),
            // It went with the message's last copy.
            None => self.spread.add(age, 1),
        }
    }

    /// A delivery is done with, as its sender's credit sees it.
    #[inline]
    fn return_credit(&mut self, link_id: LinkId, address_id: AddressId, was_assigned: bool) {
        let Some(sender) = self.links.get_mut(link_id).and_then(|link| link.sender_mut()) else { return };
        let slot = sender.slot;
        if let Some(fixed) = sender.fixed.as_mut().filter(|_| !was_assigned) {
            fixed.left_waiting(1);
            self.mark_dirty(link_id);
        }
        if let Some(address) = self.addresses.get_mut(address_id) {
            if was_assigned {
                address.credit.settled(slot);
            } else {
                address.credit.abandoned(slot);
            }
            self.push_work(address_id);
        }
    }

    /// Looks whether a delivery gives its credit back, and whether it is over. Its slot may be free afterwards.
    #[inline]
    pub(super) fn review(&mut self, slot: Slot) {
        let record = &mut self.deliveries[slot];
        if record.is(OPEN) || !record.is(COMPLETE | CUT) {
            return;
        }
        let done = record.stage == Stage::Done;
        let passed = done || (record.kind == Kind::Single && record.stage == Stage::Assigned && !record.is(SENDING));
        let link_id = record.in_link;
        if passed && record.take(CREDIT) {
            let (was_assigned, address_id) = (record.is(PASSED), record.address);
            self.return_credit(link_id, address_id, was_assigned);
        }
        if done {
            if let Some(sender) = self.links.get_mut(link_id).and_then(|link| link.sender_mut()) {
                self.deliveries.unlink(By::Sender, &mut sender.deliveries, slot);
                if sender.ended && sender.deliveries.is_empty() {
                    self.free_link(link_id);
                }
            }
            self.deliveries.remove(slot);
        }
    }
}

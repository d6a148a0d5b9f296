//! Deliveries on their way in: first frames, later ones, aborted ones.

use crate::ids::{AddressId, DeliveryId, LinkId};
use crate::limits;
use crate::outcome::State;
use crate::payload::Payload;
use crate::routing::address::Address;
use crate::routing::attach::is_events;
use crate::routing::credit::SenderSlot;
use crate::routing::delivery::{By, Kind, Slot, Stage};
use crate::routing::delivery::{
    BUFFERED, COMPLETE, COUNTED, CREDIT, CUT, DEPTH, OPEN, OUT_SETTLED, OUT_WIRE, PRESETTLED, SENDING, SETTLED,
};
use crate::routing::name::{self, Class};
use crate::routing::output::Output;
use crate::routing::router::{Arrival, Router};
use crate::routing::settings::Treatment;
use crate::routing::settle;
use crate::sabotage::Sabotage;
use crate::time::Time;

/// A range that has to wait is copied out of its receive chunk when it is shorter than this, so that a few bytes
/// don't keep a whole chunk.
const PACKED_BYTES_MAX: usize = limits::RECEIVE_CHUNK_BYTES / 16;

/// Later frames of a delivery that bring fewer bytes are packed wherever they go.
const TINY_BYTES_MAX: usize = 256;

/// Payload of incomplete deliveries that a session may have buffered; above it they stream at once, so that they
/// can't close the window that their own rest has to come through.
const BUFFERED_BYTES_MAX: usize = limits::SESSION_INCOMING_BYTES / 4;

impl Router {
    /// A delivery begins. The id, where the router keeps it, is the engine's token for it from now on (before
    /// the outputs are drained); None: it is complete and done with, or its link isn't known.
    #[inline]
    pub fn delivery(&mut self, link_id: LinkId, arrival: Arrival<'_>, now: Time) -> Option<DeliveryId> {
        self.arrive(link_id, arrival, None, now)
    }

    /// As `delivery`, of a message that goes nowhere: this is its outcome.
    pub fn delivery_refused(
        &mut self,
        link_id: LinkId,
        arrival: Arrival<'_>,
        outcome: State,
        now: Time,
    ) -> Option<DeliveryId> {
        self.arrive(link_id, arrival, Some(outcome), now)
    }

    fn arrive(
        &mut self,
        link_id: LinkId,
        arrival: Arrival<'_>,
        refused: Option<State>,
        now: Time,
    ) -> Option<DeliveryId> {
        self.begin(now);
        let link = self.links.get_mut(link_id)?;
        if link.sender().is_none_or(|sender| sender.ended) {
            return None;
        }
        link.counters.arrived(arrival.settled);
        let link_address = link.address;
        let sender = link.sender_mut()?;
        let mut is_dry = false;
        if let Some(fixed) = &mut sender.fixed {
            fixed.arrived();
            is_dry = fixed.unused() == 0;
            if is_dry {
                sender.activity.dry_since = self.now;
            }
        }
        let credit_slot = sender.slot;
        if !self.settings.sabotage.meets(Sabotage::Miscount, arrival.wire.delivery_id) {
            self.totals.arrived(arrival.settled);
        }

        let slot = self.deliveries.insert(Kind::Single, Stage::Buffering, self.now);
        self.deliveries.push_back(By::Sender, &mut sender.deliveries, slot);
        let bytes = arrival.payload.len();
        let record = &mut self.deliveries[slot];
        record.in_link = link_id;
        record.in_wire = arrival.wire;
        record.message_format = arrival.message_format;
        record.payload = arrival.payload;
        record.bytes = bytes as u64;
        record.unreleased = bytes as u32;
        record.flags = CREDIT
            | if arrival.complete { COMPLETE } else { 0 }
            | if arrival.settled { SETTLED | PRESETTLED } else { OPEN };
        let id = self.deliveries.id(slot);
        if is_dry {
            // It may have had less than its capacity, while memory was short.
            self.mark_dirty(link_id);
        }

        match (refused, link_address) {
            (Some(outcome), _) => self.turn_away(slot, outcome),
            (None, Some(address)) => self.enter(slot, address, credit_slot),
            (None, None) => match self.resolve(arrival.to) {
                Ok(address) => self.enter(slot, address, credit_slot),
                Err(state) => self.turn_away(slot, state),
            },
        }
        self.deliveries.slot(id).map(|_| id)
    }

    /// The address that a message names, where somebody uses it; else the outcome that it gets.
    fn resolve(&self, to: Option<&str>) -> Result<AddressId, State> {
        let router_id = self.settings.router_id.as_str();
        let Some(name) = to.and_then(|to| name::parse(to, router_id)) else {
            return Err(settle::rejected("amqp:invalid-field", "the message names no address"));
        };
        if let Some(id) = self.table.find(name) {
            return Ok(id);
        }
        if is_events(name) {
            return Err(settle::rejected("amqp:unauthorized-access", "only the router sends to this address"));
        }
        if name.class != Class::Mobile {
            return Err(State::RELEASED);
        }
        let rule = self.settings.rules.find(name.rest).and_then(|attributes| attributes.treatment);
        match rule.unwrap_or(self.settings.default_treatment) {
            Treatment::Unavailable => {
                Err(settle::rejected("amqp:not-found", "Deliveries cannot be sent to an unavailable address"))
            }
            _ => Err(State::RELEASED),
        }
    }

    /// A new delivery and its address.
    fn enter(&mut self, slot: Slot, id: AddressId, credit_slot: SenderSlot) {
        let Some(address) = self.addresses.get_mut(id) else {
            self.turn_away(slot, State::RELEASED);
            return;
        };
        let record = &mut self.deliveries[slot];
        record.address = id;
        address.counters.arrived(record.is(PRESETTLED));
        address.credit.arrived(credit_slot, self.now);
        if address.treatment == Treatment::Multicast {
            record.kind = Kind::Message;
        } else if !address.consumers.is_empty() {
            // What is turned away at once never was a backlog.
            record.set(DEPTH);
            let Address { depth, rest, .. } = address;
            depth.added(1, record.bytes, |edge| self.edges.raise(rest.clone(), edge));
        }
        let bytes = record.bytes;
        if address.consumers.is_empty() || self.settings.memory.is_full() {
            self.turn_away(slot, State::RELEASED);
        } else if bytes > limits::REQUEST_BYTES_MAX as u64 && self.own_consumers(id) > 0 {
            self.refuse_request(slot);
        } else if !self.deliveries[slot].is(COMPLETE) {
            let below = self.packed_below(limits::COPY_BYTES_MAX);
            self.packer.pack_payload(&mut self.deliveries[slot].payload, below);
            self.buffer(slot, bytes as usize);
        } else if self.deliveries[slot].kind == Kind::Message {
            self.fan_out(slot);
        } else {
            self.wait(slot, id);
        }
    }

    /// More of an incomplete delivery is here: it goes on when it is complete or large enough.
    fn buffer(&mut self, slot: Slot, added: usize) {
        let record = &mut self.deliveries[slot];
        let is_first = !record.is(BUFFERED);
        record.set(BUFFERED);
        let Some(session_slot) = self.links.get(record.in_link).map(|link| link.session_slot) else { return };
        if is_first {
            self.note_buffering(slot, session_slot);
        }
        let record = &self.deliveries[slot];
        let session = &mut self.connections.sessions[session_slot as usize];
        session.buffered_bytes += added;
        let streams = record.bytes >= limits::STREAM_BYTES_MIN as u64 || session.buffered_bytes > BUFFERED_BYTES_MAX;
        let waits = || record.bytes <= limits::REQUEST_BYTES_MAX as u64 && self.own_consumers(record.address) > 0;
        if record.is(COMPLETE) || streams && !waits() {
            self.unbuffer(slot);
            self.offer(slot);
        }
    }

    /// A buffered delivery's bytes no longer count as such.
    pub(super) fn unbuffer(&mut self, slot: Slot) {
        let record = &mut self.deliveries[slot];
        if !record.take(BUFFERED) {
            return;
        }
        let Some(link) = self.links.get(record.in_link) else { return };
        let session = &mut self.connections.sessions[link.session_slot as usize];
        session.buffered_bytes = session.buffered_bytes.saturating_sub(record.bytes as usize);
    }

    /// A delivery that can go on asks for a consumer. The router itself takes whole ones only, since one that stands still would
    /// hold up everybody's requests.
    pub(super) fn offer(&mut self, slot: Slot) {
        let id = self.deliveries[slot].address;
        if !self.deliveries[slot].is(COMPLETE) && self.own_consumers(id) > 0 {
            return self.refuse_request(slot);
        }
        if self.addresses.get(id).is_none_or(|address| address.consumers.is_empty()) {
            self.turn_away(slot, State::RELEASED);
            return;
        }
        if self.deliveries[slot].kind == Kind::Message {
            self.fan_out(slot);
        } else {
            self.wait(slot, id);
        }
    }

    #[cold]
    fn refuse_request(&mut self, slot: Slot) {
        let text = "a request to the router is longer than what it takes";
        self.turn_away(slot, settle::rejected("amqp:link:message-size-exceeded", text));
    }

    /// A delivery goes to the end of its address's FIFO.
    #[inline]
    fn wait(&mut self, slot: Slot, id: AddressId) {
        let below = self.packed_below(PACKED_BYTES_MAX);
        let Some(address) = self.addresses.get_mut(id) else { return };
        let record = &mut self.deliveries[slot];
        if address.candidates.is_empty() {
            self.packer.pack_payload(&mut record.payload, below);
        }
        record.stage = Stage::Waiting;
        if self.settings.sabotage.meets(Sabotage::Overtake, self.totals.deliveries as u32) && address.waiting.len > 0 {
            let first = address.waiting.head;
            self.deliveries.unlink(By::Consumer, &mut address.waiting, first);
            self.deliveries.push_back(By::Consumer, &mut address.waiting, first);
        }
        self.deliveries.push_back(By::Consumer, &mut address.waiting, slot);
        if !address.has_work {
            address.has_work = true;
            self.work.push_back(id);
        }
    }

    /// No consumer gets a delivery that is in no consumer's list: its sender hears why.
    pub(super) fn turn_away(&mut self, slot: Slot, state: State) {
        if self.deliveries[slot].is(OPEN) {
            self.tell_sender(slot, Some(state), true);
        } else {
            self.count_dropped(slot);
        }
        self.drop_rest(slot);
    }

    /// A delivery has no consumer's side any more: what is here of it goes, what comes will.
    pub(super) fn drop_rest(&mut self, slot: Slot) {
        self.unbuffer(slot);
        let record = &mut self.deliveries[slot];
        let never_copied = record.kind == Kind::Message && record.stage == Stage::Buffering;
        record.stage = Stage::Done;
        record.payload = Payload::new();
        if !record.is(COMPLETE | CUT) {
            self.note_under_way(slot);
        }
        if never_copied {
            self.miss_all(slot);
        }
        if self.deliveries[slot].kind == Kind::Message {
            self.count_age(slot);
        }
        self.leave_depth(slot);
        self.release_all(slot);
        self.review(slot);
    }

    /// A later frame of a delivery.
    pub fn delivery_more(&mut self, id: DeliveryId, mut payload: Payload, complete: bool, settled: bool, now: Time) {
        self.begin(now);
        let Some(slot) = self.deliveries.slot(id) else { return };
        let record = &mut self.deliveries[slot];
        if record.is(COMPLETE | CUT) || record.kind == Kind::Copy {
            return;
        }
        // As a disposition of the sender's would: a consumer that has told its outcome waits for it.
        let settles = settled && record.take(OPEN);
        if settles {
            record.set(SETTLED);
        }
        if record.stage == Stage::Buffering {
            let address = self.addresses.get(record.address);
            if address.is_none_or(|address| address.consumers.is_empty()) {
                // Its consumers left since it began: more of it is no backlog. It stays until all of it has come.
                self.turn_away(slot, State::RELEASED);
            }
        }
        if self.settings.memory.is_full() {
            self.relinquish(slot);
        }
        let bytes = payload.len();
        if bytes < TINY_BYTES_MAX {
            // A stream of tiny frames behind a slow consumer: packed side by side they become one range again.
            self.packer.pack_payload(&mut payload, TINY_BYTES_MAX);
        }
        let record = &mut self.deliveries[slot];
        record.bytes += bytes as u64;
        record.unreleased += bytes as u32;
        if complete {
            record.set(COMPLETE);
        }
        if record.is(DEPTH) {
            self.grow_depth(slot, bytes);
        }
        let below = self.packed_below(0);
        let record = &mut self.deliveries[slot];
        match (record.stage, record.kind) {
            (Stage::Done, _) => {
                self.release_all(slot);
                self.review(slot);
            }
            (stage @ (Stage::Buffering | Stage::Waiting), _) => {
                self.packer.pack_payload(&mut payload, below.max(limits::COPY_BYTES_MAX));
                self.packer.append(&mut self.deliveries[slot].payload, payload);
                if stage == Stage::Buffering {
                    self.buffer(slot, bytes);
                }
            }
            (Stage::Assigned, Kind::Message) => {
                self.packer.pack_payload(&mut payload, below);
                self.copies_more(slot, payload, complete);
            }
            (Stage::Assigned, _) => {
                self.packer.pack_payload(&mut payload, below);
                self.send_more(slot, payload, complete);
                if settles && self.deliveries[slot].is(OUT_WIRE) {
                    self.tell_consumer(slot, None, true);
                }
            }
        }
    }

    /// There is no memory for more of a delivery that no consumer has begun to get.
    #[cold]
    fn relinquish(&mut self, slot: Slot) {
        match self.deliveries[slot].stage {
            Stage::Buffering => self.turn_away(slot, State::RELEASED),
            Stage::Waiting => self.give_back(slot),
            Stage::Assigned | Stage::Done => {}
        }
    }

    /// Payload that waits for a consumer: a range shorter than this is copied out of its receive chunk.
    #[inline]
    fn packed_below(&self, usual: usize) -> usize {
        if self.settings.memory.is_tight() {
            limits::RECEIVE_CHUNK_BYTES
        } else {
            usual
        }
    }

    /// Hands more payload of a delivery to the engine that has its begin.
    pub(super) fn send_more(&mut self, slot: Slot, payload: Payload, complete: bool) {
        let delivery = self.deliveries.id(slot);
        let Some(port) = self.port(self.deliveries[slot].out_link) else { return };
        self.outputs.push_back(Output::SendMore { port, delivery, complete, payload });
    }

    /// The sender gave up a delivery that it had begun.
    pub fn delivery_aborted(&mut self, id: DeliveryId, now: Time) {
        self.begin(now);
        let Some(slot) = self.deliveries.slot(id) else { return };
        if self.deliveries[slot].is(COMPLETE | CUT) || self.deliveries[slot].kind == Kind::Copy {
            return;
        }
        self.cut(slot);
    }

    /// A delivery of an anonymous sender was given up before it could be told where it goes: it used a credit, and
    /// nothing else is known of it here.
    pub fn delivery_unseen(&mut self, link_id: LinkId, now: Time) {
        self.begin(now);
        let Some(sender) = self.links.get_mut(link_id).and_then(|link| link.sender_mut()) else { return };
        if let Some(fixed) = &mut sender.fixed {
            fixed.arrived();
            fixed.left_waiting(1);
            self.mark_dirty(link_id);
        }
    }

    /// More bytes of a delivery that counts in its address's depth.
    pub(super) fn grow_depth(&mut self, slot: Slot, bytes: usize) {
        if let Some(Address { depth, rest, .. }) = self.addresses.get_mut(self.deliveries[slot].address) {
            depth.added(0, bytes as u64, |edge| self.edges.raise(rest.clone(), edge));
        }
    }

    /// Nothing more comes of an incomplete delivery, and nobody waits for its outcome.
    pub(super) fn cut(&mut self, slot: Slot) {
        let record = &mut self.deliveries[slot];
        record.set(CUT);
        record.clear(OPEN);
        // One that its consumer refused for its size counts already.
        let presettled = record.is(PRESETTLED) && !record.is(COUNTED);
        let stage = record.stage;
        if presettled && stage != Stage::Done {
            self.count_dropped(slot);
        }
        match (stage, self.deliveries[slot].kind) {
            (Stage::Done, _) => self.review(slot),
            (Stage::Buffering, _) => self.drop_rest(slot),
            (Stage::Waiting, _) => self.drop_waiting(slot),
            (Stage::Assigned, Kind::Message) => self.abort_copies(slot),
            (Stage::Assigned, _) => self.abort_sent(slot),
        }
    }

    /// Takes a delivery out of its address's FIFO, for good.
    pub(super) fn drop_waiting(&mut self, slot: Slot) {
        if let Some(address) = self.addresses.get_mut(self.deliveries[slot].address) {
            self.deliveries.unlink(By::Consumer, &mut address.waiting, slot);
        }
        self.drop_rest(slot);
    }

    /// A delivery or copy that went out in part will never be whole: its consumer hears so. Its link is free when
    /// the engine has said that.
    pub(super) fn abort_sent(&mut self, slot: Slot) {
        let delivery = self.deliveries.id(slot);
        self.deliveries[slot].set(OUT_SETTLED | SENDING);
        if self.deliveries[slot].kind == Kind::Single {
            self.release_all(slot);
        }
        if let Some(port) = self.port(self.deliveries[slot].out_link) {
            self.outputs.push_back(Output::SendAbort { port, delivery });
        }
    }

    pub(super) fn count_dropped(&mut self, slot: Slot) {
        let record = &self.deliveries[slot];
        if let Some(link) = self.links.get_mut(record.in_link) {
            link.counters.dropped_presettled += 1;
        }
        if let Some(address) = self.addresses.get_mut(record.address) {
            address.counters.dropped_presettled += 1;
        }
        self.totals.dropped_presettled += 1;
    }
}

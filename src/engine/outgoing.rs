//! Transfers to the peer: numbered, within credit and the session's window, split at the peer's max-frame-size, held
//! while the output is above its mark.
//!
//! A link has at most one delivery under way ([`Sending`]); one that went into the output whole at `send` never
//! becomes one.

use super::connection::{Engine, Links};
use super::link::{Link, LinkState};
use super::session::{Outgoing, Session};
use super::*;
use crate::ids::{DeliveryId, LinkHandle, SessionNumber};
use crate::limits::COPY_BYTES_MAX;
use crate::payload::Payload;
use crate::run::Arrived;
use crate::sabotage::Sabotage;
use crate::wire::frame;
use crate::wire::performative as wire;

/// More than a frame header and a transfer as we write it take.
const HEAD_BYTES_MAX: usize = 64;

/// A delivery on its way into the output.
pub(super) struct Sending {
    delivery: DeliveryId,
    message_format: u32,
    settled: bool,
    /// All its payload is here.
    complete: bool,
    aborted: bool,
    /// It is larger than its receiver takes: nothing more of it is written but the abort of what was, and the rest of its
    /// payload is let go of.
    refused: bool,
    /// That is to be told.
    refusal_due: bool,
    /// Its last frame is written.
    finished: bool,
    /// Bytes of it that came, written or not.
    size: u64,
    /// Given when the first frame is written.
    pub delivery_id: Option<u32>,
    payload: Payload,
    /// Bytes of `payload`.
    left: usize,
    /// Bytes written that no event told of.
    unreported: usize,
    /// In the engine's list of links with something to report.
    report_due: bool,
}

/// Why no further frame of a delivery is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pause {
    Finished,
    /// More payload is to come.
    Starved,
    NoCredit,
    NoRoom,
}

impl Sending {
    /// Not begun; begun, a delivery needs no more credit.
    pub(super) fn waits_for_credit(&self) -> bool {
        self.delivery_id.is_none() && self.has_more()
    }

    /// What is to be told of it when its link ends: that nothing of it was sent, or what was and hasn't been told.
    pub(super) fn last_word(&self, link: LinkHandle) -> Option<Event> {
        let (delivery, bytes, complete) = (self.delivery, self.unreported, self.finished);
        if self.delivery_id.is_none() {
            return Some(Event::Unsent { delivery });
        }
        (bytes > 0 || complete).then_some(Event::PayloadSent { delivery, link, bytes, complete })
    }

    /// Whether there is a frame to write.
    fn has_more(&self) -> bool {
        !self.finished && (self.aborted || !self.refused && (self.left > 0 || self.complete))
    }

    /// More of it came, and is let go of.
    fn discard(&mut self, bytes: usize, complete: bool) {
        self.unreported += bytes;
        self.complete |= complete;
        self.finished = self.complete && !self.aborted;
    }

    /// It is larger than its receiver takes (section 2.7.3): what is here of it goes.
    fn refuse(&mut self) {
        (self.refused, self.refusal_due) = (true, true);
        self.aborted = self.delivery_id.is_some();
        self.payload = Payload::new();
        let left = std::mem::take(&mut self.left);
        self.discard(left, false);
    }
}

/// What writing a frame needs of an engine.
struct Wire<'e> {
    links: &'e mut Links,
    session: &'e mut Session,
    output: &'e mut Transmit,
    max_frame_size: usize,
    bounds: Bounds,
}

/// What bounds what is sent, beside credit and the peer's window.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    /// Output bytes.
    mark: usize,
    /// Unsettled deliveries of a session. It bounds what begins; the rest of a delivery takes no place.
    unsettled_max: usize,
}

/// Whether one more delivery of a session may be unsettled.
#[inline]
fn has_place(session: &Session, bounds: Bounds) -> bool {
    session.outgoing_count() < bounds.unsettled_max
}

/// Whether there is room for a delivery's first frame.
#[inline]
fn has_room(session: &Session, output: &Transmit, bounds: Bounds) -> bool {
    session.remote_incoming_window > 0 && has_place(session, bounds) && output.len() < bounds.mark
}

/// Whether there is room for a frame of a delivery that began.
#[inline]
fn has_room_for_more(session: &Session, output: &Transmit, bounds: Bounds) -> bool {
    session.remote_incoming_window > 0 && output.len() < bounds.mark
}

/// Whether something that waits in a session may go, whatever is in the output.
#[inline]
fn has_next(session: &Session, bounds: Bounds) -> bool {
    let begins = session.room_wanted || !session.blocked_unbegun.is_empty();
    session.remote_incoming_window > 0 && (!session.blocked.is_empty() || begins && has_place(session, bounds))
}

/// Commands.
impl Engine {
    /// Begins a delivery on an outgoing link that has credit and no delivery under way. Without room or credit it is
    /// held: nothing is lost, and the credit that the receiver gave is never exceeded. One that turns out to be larger than
    /// the receiver takes goes on as others do (`PayloadSent` tells of its bytes), but nobody gets it: `Refused` says so.
    #[inline]
    pub fn send(
        &mut self,
        link: LinkHandle,
        delivery: DeliveryId,
        message_format: u32,
        settled: bool,
        complete: bool,
        payload: Payload,
    ) -> Sent {
        let bounds = self.bounds();
        let Some(state) = self.links.get_mut(link) else { return Sent::Whole { room: true } };
        let usable = state.state == LinkState::Attached && state.direction == Direction::Outgoing;
        debug_assert!(!usable || state.sending.is_none(), "a link has one delivery under way at most");
        if !usable || state.sending.is_some() {
            return Sent::Whole { room: true };
        }
        self.sends += 1;
        let channel = state.channel;
        let left = payload.len();
        if complete && left + HEAD_BYTES_MAX <= self.remote.max_frame_size && self.trace.is_none() {
            let Some(Some(session)) = self.sessions.get_mut(usize::from(channel)) else {
                return Sent::Whole { room: true };
            };
            let fits = left as u64 <= state.max_message_size;
            if fits && state.credit_left() > 0 && has_room(session, &self.output, bounds) {
                write_whole(session, state, &mut self.output, link, delivery, message_format, settled, &payload, left);
                if self.settings.sabotage.meets(Sabotage::SendTwice, state.delivery_count)
                    && state.credit_left() > 0
                    && has_room(session, &self.output, bounds)
                {
                    let output = &mut self.output;
                    write_whole(session, state, output, link, delivery, message_format, settled, &payload, left);
                }
                let room = has_room(session, &self.output, bounds);
                if !room {
                    self.wait_for_room(channel, None);
                }
                return Sent::Whole { room };
            }
        }
        self.send_slowly(link, channel, delivery, message_format, settled, complete, payload)
    }

    /// How many of a run's deliveries, from the first on, `send_run` takes on an outgoing link at once, each in one frame.
    #[inline]
    pub fn room_for(&self, link: LinkHandle, items: &[Arrived]) -> usize {
        let Some(state) = self.links.get(link) else { return 0 };
        let usable = state.state == LinkState::Attached && state.direction == Direction::Outgoing;
        let apart = self.trace.is_some() || self.settings.sabotage.is(Sabotage::SendTwice);
        if !usable || state.sending.is_some() || apart {
            return 0;
        }
        let Some(Some(session)) = self.sessions.get(usize::from(state.channel)) else { return 0 };
        let unsettled = self.settings.unsettled_max.saturating_sub(session.outgoing_count());
        let most = state.credit_left().min(session.remote_incoming_window) as usize;
        let items = &items[..items.len().min(most).min(unsettled)];
        let frame_max = self.remote.max_frame_size - HEAD_BYTES_MAX;
        let payload_max = state.max_message_size.min(frame_max as u64);
        let mut output_bytes = self.output.len();
        let fits = |item: &&Arrived| {
            let fits = output_bytes < self.output_mark && u64::from(item.bytes) <= payload_max;
            output_bytes += item.bytes as usize + HEAD_BYTES_MAX;
            fits
        };
        items.iter().take_while(fits).count()
    }

    /// Sends deliveries of a run, no more than `room_for` said. Whether there is room for more.
    #[inline]
    pub fn send_run(&mut self, link: LinkHandle, run: &Arrivals, items: &[Arrived]) -> bool {
        debug_assert!(items.len() <= self.room_for(link, items));
        let Some(state) = self.links.get_mut(link) else { return true };
        let (channel, settled) = (state.channel, run.settled);
        let Some(Some(session)) = self.sessions.get_mut(usize::from(channel)) else { return true };
        let mut heads = wire::Heads::new(channel, state.local_handle, run.message_format, settled);
        let mut delivery_id = session.next_delivery_id;
        for item in items {
            let bytes = item.bytes as usize;
            let copied = if bytes < COPY_BYTES_MAX { run.payload_bytes(item) } else { &[] };
            heads.write(&mut self.output.bytes, delivery_id, bytes, copied);
            if bytes >= COPY_BYTES_MAX {
                self.output.push_range(run.payload_range(item));
            }
            if !settled {
                session.outgoing.insert(delivery_id, Outgoing { link, delivery: item.delivery });
            }
            delivery_id = delivery_id.wrapping_add(1);
        }
        let count = items.len() as u32;
        self.sends += u64::from(count);
        session.next_delivery_id = delivery_id;
        session.next_outgoing_id = session.next_outgoing_id.wrapping_add(count);
        session.remote_incoming_window -= count;
        state.delivery_count = state.delivery_count.wrapping_add(count);
        state.unsettled += if settled { 0 } else { count };
        self.room_or_wait(channel)
    }

    /// As `send`, for a delivery that doesn't go out in one frame at once.
    #[allow(clippy::too_many_arguments)]
    #[inline(never)]
    fn send_slowly(
        &mut self,
        link: LinkHandle,
        channel: u16,
        delivery: DeliveryId,
        message_format: u32,
        settled: bool,
        complete: bool,
        payload: Payload,
    ) -> Sent {
        let left = payload.len();
        let mut sending = Sending {
            delivery,
            message_format,
            settled,
            complete,
            aborted: false,
            refused: false,
            refusal_due: false,
            finished: false,
            size: left as u64,
            delivery_id: None,
            payload,
            left,
            unreported: 0,
            report_due: false,
        };
        if self.is_too_large(link, &sending) {
            sending.refuse();
            self.keep_sending(link, channel, Box::new(sending), Pause::Finished);
            return Sent::Partly;
        }
        let pause = self.write_frames(link, channel, &mut sending);
        if pause == Pause::Finished {
            return Sent::Whole { room: self.room_or_wait(channel) };
        }
        self.keep_sending(link, channel, Box::new(sending), pause);
        if pause == Pause::NoCredit && self.links.get(link).is_some_and(|state| state.drain) {
            // Decided before the flow that took its credit away was known. As for one that is held already: see `on_link_flow`.
            self.write_link_flow(link, true);
        }
        Sent::Partly
    }

    /// More payload of a delivery of which `send` said `Partly`. Always `Partly`: `PayloadSent` tells of all its bytes
    /// and of its end.
    pub fn send_more(&mut self, link: LinkHandle, delivery: DeliveryId, complete: bool, payload: Payload) -> Sent {
        let Some((channel, mut sending)) = self.take_sending(link, delivery) else { return Sent::Partly };
        sending.size += payload.len() as u64;
        if !sending.refused && self.is_too_large(link, &sending) {
            sending.refuse();
        }
        if sending.refused {
            sending.discard(payload.len(), complete);
        } else {
            sending.left += payload.len();
            self.input.packer().append(&mut sending.payload, payload);
            sending.complete |= complete;
        }
        let waits = self.links.get(link).is_some_and(|state| state.waits);
        if waits && !sending.refused {
            self.put_sending(link, sending);
            return Sent::Partly;
        }
        // A refusal is told at once; the abort waits for room as frames do.
        let pause = if waits { Pause::NoRoom } else { self.write_frames(link, channel, &mut sending) };
        self.keep_sending(link, channel, sending, pause);
        Sent::Partly
    }

    /// Gives up the delivery under way: transfer(aborted) where it had begun (section 2.7.5). Whole: the link is free, no
    /// event follows. Partly: the abort itself waits for room; `PayloadSent` tells when the link is free.
    pub fn send_abort(&mut self, link: LinkHandle, delivery: DeliveryId) -> Sent {
        let Some((channel, mut sending)) = self.take_sending(link, delivery) else {
            return Sent::Whole { room: true };
        };
        if sending.delivery_id.is_none() {
            // It used no credit, but routing counts what it gave us; the receiver, who saw nothing, won't tell it anew.
            let has_credit = self.links.get(link).is_some_and(|state| state.credit_left() > 0);
            self.queue.extend(has_credit.then_some(super::connection::Queued::Credit(link)));
        }
        let is_out = sending.delivery_id.is_none() || sending.finished || sending.refused && !sending.aborted;
        if is_out {
            return Sent::Whole { room: self.room_or_wait(channel) };
        }
        (sending.aborted, sending.complete) = (true, true);
        sending.payload = Payload::new();
        sending.left = 0;
        let waits = self.links.get(link).is_some_and(|state| state.waits);
        let pause = if waits { Pause::NoRoom } else { self.write_frames(link, channel, &mut sending) };
        if pause == Pause::Finished {
            return Sent::Whole { room: self.room_or_wait(channel) };
        }
        self.keep_sending(link, channel, sending, pause);
        Sent::Partly
    }
}

impl Engine {
    #[inline]
    fn bounds(&self) -> Bounds {
        Bounds { mark: self.output_mark, unsettled_max: self.settings.unsettled_max }
    }

    fn is_too_large(&self, link: LinkHandle, sending: &Sending) -> bool {
        self.links.get(link).is_some_and(|state| sending.size > state.max_message_size)
    }

    fn take_sending(&mut self, link: LinkHandle, delivery: DeliveryId) -> Option<(u16, Box<Sending>)> {
        let state = self.links.get_mut(link)?;
        match state.sending.take() {
            Some(sending) if sending.delivery == delivery => Some((state.channel, sending)),
            other => {
                state.sending = other;
                None
            }
        }
    }

    fn put_sending(&mut self, link: LinkHandle, sending: Box<Sending>) {
        if let Some(state) = self.links.get_mut(link) {
            state.sending = Some(sending);
        }
    }

    /// Puts a delivery back and notes what it waits for and what is to be told of it.
    fn keep_sending(&mut self, link: LinkHandle, channel: u16, mut sending: Box<Sending>, pause: Pause) {
        let tell = sending.unreported > 0 || sending.finished || sending.refusal_due;
        if tell && !std::mem::replace(&mut sending.report_due, true) {
            self.reports.push_back(link);
        }
        self.put_sending(link, sending);
        if pause == Pause::NoRoom {
            self.wait_for_room(channel, Some(link));
        }
    }

    /// Has a session looked at when there is room, and first the delivery that waits on this link.
    pub(super) fn wait_for_room(&mut self, channel: u16, link: Option<LinkHandle>) {
        let Some(Some(session)) = self.sessions.get_mut(usize::from(channel)) else { return };
        match link.map(|link| (link, self.links.get_mut(link).filter(|state| state.sending.is_some()))) {
            Some((link, Some(state))) => {
                if !std::mem::replace(&mut state.waits, true) {
                    session.blocked.push_back(link);
                }
            }
            Some((_, None)) => return,
            None => session.room_wanted = true,
        }
        self.wait_for_output(channel);
    }

    /// A session in which something waits that its peer takes waits for the output; else it waits for its peer: this is
    /// called again when that gave it room, or a place.
    pub(super) fn wait_for_output(&mut self, channel: u16) {
        let bounds = self.bounds();
        let Some(Some(session)) = self.sessions.get_mut(usize::from(channel)) else { return };
        if !has_next(session, bounds) {
            return;
        }
        if !std::mem::replace(&mut session.waiting, true) {
            self.waiting.push_back(channel);
        }
        self.room_opened |= self.output.len() < bounds.mark;
    }

    /// Whether the next delivery finds room; where it doesn't, `SessionWritable` is owed.
    #[inline]
    fn room_or_wait(&mut self, channel: u16) -> bool {
        let Some(Some(session)) = self.sessions.get(usize::from(channel)) else { return true };
        if has_room(session, &self.output, self.bounds()) {
            return true;
        }
        self.wait_for_room(channel, None);
        false
    }

    /// Writes frames of a delivery until something stops it.
    #[inline]
    fn write_frames(&mut self, link: LinkHandle, channel: u16, sending: &mut Sending) -> Pause {
        let bounds = self.bounds();
        let Some(Some(session)) = self.sessions.get_mut(usize::from(channel)) else { return Pause::NoRoom };
        let (links, output) = (&mut self.links, &mut self.output);
        let mut wire = Wire { links, session, output, max_frame_size: self.remote.max_frame_size, bounds };
        let aborts = sending.aborted;
        let pause = loop {
            let start = wire.output.bytes.len();
            if let Some(pause) = write_frame(&mut wire, link, channel, sending) {
                break pause;
            }
            if self.trace.is_some() {
                super::trace::output(&mut self.trace, &wire.output.bytes[start..]);
            }
            if sending.finished {
                break Pause::Finished;
            }
        };
        if aborts {
            // It left its place.
            self.wait_for_output(channel);
        }
        pause
    }

    /// There may be room: deliveries that waited go on, a frame from each link in turn; then who asked is told. Those that wait
    /// for a place to begin are passed over, and first when there is one. Costs what goes on, whatever waits.
    pub(super) fn use_room(&mut self) {
        self.room_opened = false;
        while self.output.len() < self.output_mark {
            let Some(channel) = self.waiting.pop_front() else { return };
            if self.use_session_room(channel) {
                // The next time another session is the first.
                self.waiting.push_back(channel);
            }
        }
    }

    /// Gives whether the session still waits for the output.
    fn use_session_room(&mut self, channel: u16) -> bool {
        let bounds = self.bounds();
        loop {
            let max_frame_size = self.remote.max_frame_size;
            let Some(Some(session)) = self.sessions.get_mut(usize::from(channel)) else { return false };
            if !has_next(session, bounds) {
                session.waiting = false;
                return false;
            }
            if self.output.len() >= bounds.mark {
                return true;
            }
            let has_place = has_place(session, bounds);
            let unbegun = if has_place { session.blocked_unbegun.pop_front() } else { None };
            let Some(link) = unbegun.or_else(|| session.blocked.pop_front()) else {
                session.waiting = false;
                if std::mem::take(&mut session.room_wanted) {
                    let session = SessionNumber(channel);
                    self.queue.push_back(super::connection::Queued::Event(Event::SessionWritable { session }));
                }
                return false;
            };
            let Some(state) = self.links.get_mut(link).filter(|state| state.waits) else {
                session.blocked_stale = session.blocked_stale.saturating_sub(1);
                continue;
            };
            if !has_place && state.sending.as_ref().is_some_and(|sending| sending.delivery_id.is_none()) {
                session.blocked_unbegun.push_back(link);
                continue;
            }
            state.waits = false;
            // What it waited with may have been given up meanwhile.
            let Some(mut sending) = state.sending.take() else { continue };
            let start = self.output.bytes.len();
            let mut wire = Wire { links: &mut self.links, session, output: &mut self.output, max_frame_size, bounds };
            let pause = write_frame(&mut wire, link, channel, &mut sending);
            self.trace_output(start);
            let again = pause.is_none() && sending.has_more() || pause == Some(Pause::NoRoom);
            self.keep_sending(link, channel, sending, if again { Pause::NoRoom } else { Pause::Finished });
        }
    }

    /// The next report of payload that went into the output.
    pub(super) fn next_report(&mut self) -> Option<Event> {
        while let Some(link) = self.reports.pop_front() {
            let Some(state) = self.links.get_mut(link) else { continue };
            let Some(sending) = &mut state.sending else { continue };
            if !std::mem::take(&mut sending.report_due) {
                continue;
            }
            let (delivery, complete) = (sending.delivery, sending.finished);
            if std::mem::take(&mut sending.refusal_due) {
                sending.report_due = true;
                self.reports.push_front(link);
                return Some(Event::Refused { delivery, link, settled: sending.settled });
            }
            let bytes = std::mem::take(&mut sending.unreported);
            if complete {
                let unused = sending.refused && sending.delivery_id.is_none() && state.flow_seen;
                state.sending = None;
                if unused {
                    // As of one that `send_abort` gave up before it began.
                    self.queue.push_back(super::connection::Queued::Credit(link));
                }
            }
            return Some(Event::PayloadSent { delivery, link, bytes, complete });
        }
        None
    }
}

/// Writes one frame of a delivery, or says why not.
#[inline]
fn write_frame(wire: &mut Wire<'_>, link: LinkHandle, channel: u16, sending: &mut Sending) -> Option<Pause> {
    if sending.finished {
        return Some(Pause::Finished);
    }
    if !sending.has_more() {
        return Some(Pause::Starved);
    }
    let Some(state) = wire.links.get_mut(link) else { return Some(Pause::Finished) };
    let first = sending.delivery_id.is_none();
    if first && state.credit_left() == 0 {
        return Some(Pause::NoCredit);
    }
    // What begins while its link waits has its turn to wait for.
    let has_room = match first {
        true => !state.waits && has_room(wire.session, wire.output, wire.bounds),
        false => has_room_for_more(wire.session, wire.output, wire.bounds),
    };
    if !has_room {
        return Some(Pause::NoRoom);
    }
    let delivery_id = match sending.delivery_id {
        Some(delivery_id) => delivery_id,
        None => {
            let delivery_id = number(wire.session, state, link, sending.delivery, sending.settled);
            sending.delivery_id = Some(delivery_id);
            delivery_id
        }
    };
    let tag = delivery_id.to_be_bytes();
    let transfer = wire::Transfer {
        handle: state.local_handle,
        delivery_id: Some(delivery_id),
        delivery_tag: first.then_some(&tag),
        message_format: first.then_some(sending.message_format),
        settled: sending.settled.then_some(true),
        more: !sending.complete && !sending.aborted,
        aborted: sending.aborted,
        ..wire::Transfer::default()
    };
    let count = write_head(wire.output, channel, transfer, wire.max_frame_size, sending.left);
    write_payload(wire.output, &mut sending.payload, count, sending.left);
    sending.left -= count;
    sending.unreported += count;
    sending.finished = sending.left == 0 && (sending.complete || sending.aborted && !sending.refused);
    if std::mem::take(&mut sending.aborted) && !sending.settled {
        // An aborted delivery is settled at both ends (section 2.7.5).
        state.unsettled -= u32::from(wire.session.outgoing.remove(delivery_id).is_some());
    }
    wire.session.next_outgoing_id = wire.session.next_outgoing_id.wrapping_add(1);
    wire.session.remote_incoming_window -= 1;
    None
}

/// Writes a delivery that is known to fit one frame, with credit and room for it.
#[allow(clippy::too_many_arguments)]
#[inline]
fn write_whole(
    session: &mut Session,
    state: &mut Link,
    output: &mut Transmit,
    link: LinkHandle,
    delivery: DeliveryId,
    message_format: u32,
    settled: bool,
    payload: &Payload,
    payload_bytes: usize,
) {
    let delivery_id = number(session, state, link, delivery, settled);
    let transfer = wire::Transfer {
        handle: state.local_handle,
        delivery_id: Some(delivery_id),
        delivery_tag: Some(&delivery_id.to_be_bytes()),
        message_format: Some(message_format),
        settled: settled.then_some(true),
        ..wire::Transfer::default()
    };
    transfer.encode_frame(&mut output.bytes, state.channel, payload_bytes);
    lay(output, payload);
    session.next_outgoing_id = session.next_outgoing_id.wrapping_add(1);
    session.remote_incoming_window -= 1;
}

/// Gives a delivery its id and counts it against the credit.
#[inline]
fn number(session: &mut Session, state: &mut Link, link: LinkHandle, delivery: DeliveryId, settled: bool) -> u32 {
    let delivery_id = session.next_delivery_id;
    session.next_delivery_id = delivery_id.wrapping_add(1);
    state.delivery_count = state.delivery_count.wrapping_add(1);
    if !settled {
        session.outgoing.insert(delivery_id, Outgoing { link, delivery });
        state.unsettled += 1;
    }
    delivery_id
}

/// Writes a frame's header and transfer; gives how many of the `left` payload bytes it has place for.
#[inline]
fn write_head(
    output: &mut Transmit,
    channel: u16,
    mut transfer: wire::Transfer<'_>,
    max_frame_size: usize,
    left: usize,
) -> usize {
    let start = output.bytes.len();
    transfer.encode_frame(&mut output.bytes, channel, left);
    if left + HEAD_BYTES_MAX <= max_frame_size {
        return left;
    }
    let head = output.bytes.len() - start;
    if left + head <= max_frame_size {
        return left;
    }
    output.bytes.truncate(start);
    transfer.more = true;
    transfer.encode_frame(&mut output.bytes, channel, 0);
    // The smallest max-frame-size is 512, so there is place.
    let count = max_frame_size.saturating_sub(output.bytes.len() - start).min(left);
    frame::finish_with_payload(&mut output.bytes, start, count);
    count
}

/// Lays `count` of a payload's `left` bytes behind what is in the output: small pieces copied, large ones as ranges.
#[inline]
fn write_payload(output: &mut Transmit, payload: &mut Payload, count: usize, left: usize) {
    if count < left {
        let part = payload.split_to(count);
        return lay(output, &part);
    }
    lay(output, payload);
    *payload = Payload::new();
}

#[inline]
fn lay(output: &mut Transmit, payload: &Payload) {
    for range in payload.ranges() {
        if range.len() < COPY_BYTES_MAX {
            output.bytes.extend_from_slice(range.as_slice());
        } else {
            output.push_range(range.clone());
        }
    }
}

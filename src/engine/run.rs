//! Runs (see [`crate::run`]): usual frames that came one behind another, taken in one go.
//!
//! What is usual: on an open connection that nothing else is due on, transfers of one link of this shard, each of them a whole
//! delivery in one frame that lies in one chunk, alike but for id, tag and payload, within window and credit, and
//! dispositions that settle what we sent. A run leaves the engine as the same frames taken one by one do; what isn't usual, violations
//! included, stays for [`Engine::poll_batch`].

use super::connection::{Closing, Engine, Phase, OUTPUT_REST_BYTES};
use super::input::usual_frame;
use super::session::{Incoming, Slot};
use super::{Direction, Transfer};
use crate::ids::{DeliveryId, LinkHandle, LinkId, SessionNumber, WireDelivery};
use crate::limits::DELIVERY_TAG_BYTES_MAX;
use crate::outcome::State;
use crate::payload::{Payload, Range};
use crate::run::{Arrived, Settled, RUN_MAX};
use crate::wire::descriptor;
use crate::wire::frame::HEADER_BYTES;
use crate::wire::performative::{Performative, Shape, Whole};
use crate::wire::value::code;

/// What a disposition begins with, as a rule.
const DISPOSITION: [u8; 3] = [code::DESCRIBED, code::SMALL_ULONG, descriptor::DISPOSITION as u8];

/// What a run is.
#[derive(Debug)]
pub enum Run {
    /// Deliveries arrived; `set_incoming_tokens` for those that routing keeps.
    Arrived(Arrivals),
    /// The receivers of deliveries settled them with this state; the engine has forgotten them.
    Settled(Option<State>),
}

/// What deliveries of a run that arrived have in common.
#[derive(Debug)]
pub struct Arrivals {
    pub link: LinkHandle,
    /// What `accept_link` said of the link.
    pub token: Option<LinkId>,
    pub session: SessionNumber,
    pub message_format: u32,
    pub settled: bool,
    /// The frames; items' payloads lie in there.
    pub frames: Range,
}

impl Arrivals {
    /// One of them, as `Event::Transfer` tells of it.
    pub fn transfer(&self, item: &Arrived) -> Transfer {
        Transfer {
            link: self.link,
            token: self.token,
            wire: WireDelivery { session: self.session, delivery_id: item.delivery_id },
            message_format: self.message_format,
            settled: self.settled,
            more: false,
            payload: self.payload(item),
        }
    }

    #[inline(always)]
    pub fn payload_bytes(&self, item: &Arrived) -> &[u8] {
        &self.frames.as_slice()[item.start as usize..][..item.bytes as usize]
    }

    pub fn payload(&self, item: &Arrived) -> Payload {
        Payload::from(self.payload_range(item))
    }

    pub(super) fn payload_range(&self, item: &Arrived) -> Range {
        self.frames.slice(item.start as usize, (item.start + item.bytes) as usize)
    }
}

/// A frame that brings a whole delivery: its size, the peer's channel, what it says.
#[inline(always)]
fn whole_frame(bytes: &[u8], size_max: u32) -> Option<(usize, u16, Whole)> {
    let (channel, size) = usual_frame(bytes, size_max)?;
    let whole = Whole::read(&bytes[HEADER_BYTES..size])?;
    (whole.tag_bytes <= DELIVERY_TAG_BYTES_MAX).then_some((size, channel, whole))
}

impl Engine {
    /// The next run, where what is to be told next is one; its items are put into one of these vectors, which are empty. None
    /// says nothing of what `poll_batch` has.
    #[inline]
    pub fn poll_run(&mut self, arrived: &mut Vec<Arrived>, settled: &mut Vec<Settled>) -> Option<Run> {
        let is_plain = self.phase == Phase::Open && self.trace.is_none() && self.output.len() < OUTPUT_REST_BYTES;
        let is_due = self.room_opened || self.deferred.is_some() || !matches!(self.closing, Closing::No);
        if !is_plain || is_due || !self.queue.is_empty() || !self.reports.is_empty() {
            return None;
        }
        if self.cursor.is_none() {
            let chunk = self.input.take_current()?;
            let arrivals = self.take_arrivals(&chunk, arrived);
            let taken = match &arrivals {
                Some(arrivals) => arrivals.frames.len(),
                None => self.take_disposition(chunk.as_slice()),
            };
            self.input.put_current_behind(chunk, taken);
            if let Some(arrivals) = arrivals {
                return Some(Run::Arrived(arrivals));
            }
        }
        self.next_settled(settled).map(Run::Settled)
    }

    /// Takes whole deliveries of one link that `chunk` begins with.
    #[inline]
    fn take_arrivals(&mut self, chunk: &Range, items: &mut Vec<Arrived>) -> Option<Arrivals> {
        let size_max = self.settings.max_frame_size;
        let bytes = chunk.as_slice();
        let (mut size, remote_channel, first) = whole_frame(bytes, size_max)?;
        let channel = *self.channels.get(remote_channel.into())?;
        let session =
            self.sessions.get_mut(usize::from(channel))?.as_deref_mut().filter(|session| !session.end_sent)?;
        let Some(&Slot::Link(link)) = session.handles.get(first.handle) else { return None };
        let state = self.links.get_mut(link)?;
        if state.direction != Direction::Incoming || state.partial.is_some() || state.drain {
            return None;
        }
        // Its deliveries leave this shard: who has them may have to rest behind each.
        if state.token.is_none_or(|token| token.shard().is_some()) {
            return None;
        }
        let most = session.incoming_window.min(state.credit).min(RUN_MAX as u32) as usize;
        let (mut whole, mut end, mut payload_bytes) = (first, 0, 0);
        let mut shape: Option<Shape> = None;
        while items.len() < most {
            let start = end + HEADER_BYTES + whole.length;
            let payload = end + size - start;
            let delivery_id = whole.delivery_id;
            let entry = Incoming { link, token: None, settled: false };
            if payload as u64 > state.max_message_size
                || !(first.settled || session.incoming.insert(delivery_id, entry))
            {
                break;
            }
            items.push(Arrived { delivery_id, start: start as u32, bytes: payload as u32, delivery: DeliveryId::NONE });
            payload_bytes += payload;
            end += size;
            let rest = &bytes[end..];
            if let Some(next) = shape.as_ref().and_then(|shape| shape.read(rest)) {
                (size, whole) = next;
                continue;
            }
            let Some((next_size, next_channel, next)) = whole_frame(rest, size_max) else { break };
            let alike = next.handle == first.handle && next.settled == first.settled;
            if next_channel != remote_channel || !alike || next.message_format != first.message_format {
                break;
            }
            (size, whole) = (next_size, next);
            shape = Shape::of(&rest[..size], &whole);
        }
        let count = items.len() as u32;
        if count == 0 {
            return None;
        }
        session.incoming_window -= count;
        session.next_incoming_id = session.next_incoming_id.wrapping_add(count);
        session.held_bytes += payload_bytes;
        self.held.bytes += payload_bytes;
        state.delivery_count = state.delivery_count.wrapping_add(count);
        state.credit -= count;
        state.unsettled += if first.settled { 0 } else { count };
        if session.is_incoming_window_low() {
            Self::mark_dirty(&mut self.dirty, channel, session);
        }
        Some(Arrivals {
            link,
            token: state.token,
            session: SessionNumber(channel),
            message_format: first.message_format,
            settled: first.settled,
            frames: chunk.slice(0, end),
        })
    }

    /// Sets the cursor on a disposition that `bytes` begin with. How long its frame is; 0: there is none, or not a usual one.
    fn take_disposition(&mut self, bytes: &[u8]) -> usize {
        let Some((channel, size)) = usual_frame(bytes, self.settings.max_frame_size) else { return 0 };
        let body = &bytes[HEADER_BYTES..size];
        if !body.starts_with(&DISPOSITION) {
            return 0;
        }
        match Performative::decode(body) {
            Ok((Performative::Disposition(disposition), length)) if length == body.len() => {
                self.on_disposition(channel, &disposition).map_or(0, |()| size)
            }
            _ => 0,
        }
    }

    /// As `set_incoming_token`, of a run.
    #[inline]
    pub fn set_incoming_tokens(&mut self, session: SessionNumber, items: &[Arrived]) {
        let Some(Some(session)) = self.sessions.get_mut(usize::from(session.0)) else { return };
        for item in items {
            if let Some(entry) = session.incoming.get_mut(item.delivery_id) {
                entry.token = Some(item.delivery);
            }
        }
    }
}

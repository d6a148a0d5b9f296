//! Transfers from the peer: window, credit, ids, tags, continuation, size (section 2.7.5).

use super::connection::{Engine, Queued};
use super::fault::{self, Violation};
use super::link::{Link, Partial};
use super::session::{unmapped, Incoming, Session, Slot};
use super::window::Held;
use super::*;
use crate::ids::{DeliveryId, LinkHandle, SessionNumber, WireDelivery};
use crate::limits::DELIVERY_TAG_BYTES_MAX;
use crate::payload::Payload;
use crate::wire::performative as wire;
use crate::wire::state as wire_state;
use std::collections::VecDeque;

/// From the peer.
impl Engine {
    #[inline(always)]
    pub(super) fn on_transfer(
        &mut self,
        remote_channel: u16,
        transfer: &wire::Transfer<'_>,
        payload: Payload,
    ) -> Result<Option<Event>, Violation> {
        let channel = match self.channels.get(remote_channel.into()) {
            Some(&channel) => channel,
            None => return Err(unmapped(remote_channel)),
        };
        let Some(Some(session)) = self.sessions.get_mut(usize::from(channel)) else { return Ok(None) };
        if session.end_sent {
            return Ok(None);
        }
        if session.incoming_window == 0 {
            return Err(Violation::session(channel, fault::WINDOW_VIOLATION, "transfer beyond the session's window"));
        }
        session.incoming_window -= 1;
        session.next_incoming_id = session.next_incoming_id.wrapping_add(1);
        if session.is_incoming_window_low() {
            Self::mark_dirty(&mut self.dirty, channel, session);
        }
        let link = match session.handles.get(transfer.handle) {
            Some(&Slot::Link(link)) => link,
            Some(Slot::Detached { .. }) => return Ok(None),
            None => {
                let why = "transfer on an unattached handle";
                return Err(Violation::session(channel, fault::UNATTACHED_HANDLE, why));
            }
        };
        let Some(state) = self.links.get_mut(link) else { return Ok(None) };
        if state.partial.is_some() {
            return on_transfer_more(session, state, link, transfer, payload, &mut self.held);
        }
        if transfer.more || transfer.aborted || state.drain {
            let mut rare = Rare { flows: &mut self.flows, queue: &mut self.queue, held: &mut self.held };
            return on_transfer_begin(session, state, link, transfer, payload, &mut rare);
        }
        on_transfer_first(session, state, link, transfer, payload, &mut self.held)
    }
}

/// What a first frame that isn't all of its delivery may have to do with.
struct Rare<'e> {
    flows: &'e mut Vec<LinkHandle>,
    queue: &'e mut VecDeque<Queued>,
    held: &'e mut Held,
}

/// The frame that begins a delivery of several, or none, or that uses up credit that is being drained.
#[inline(never)]
fn on_transfer_begin(
    session: &mut Session,
    state: &mut Link,
    link: LinkHandle,
    transfer: &wire::Transfer<'_>,
    payload: Payload,
    rare: &mut Rare<'_>,
) -> Result<Option<Event>, Violation> {
    let bytes = payload.len() as u64;
    let event = on_transfer_first(session, state, link, transfer, payload, rare.held)?;
    if transfer.aborted {
        // Nobody heard of it; its credit is given again.
        state.credit_untold = state.credit_untold.saturating_add(1);
        if !std::mem::replace(&mut state.flow_due, true) {
            rare.flows.push(link);
        }
        return Ok(None);
    }
    if let (true, Some(Event::Transfer(told))) = (transfer.more, &event) {
        let mut tag = [0; DELIVERY_TAG_BYTES_MAX];
        let given = transfer.delivery_tag.unwrap_or_default();
        tag[..given.len()].copy_from_slice(given);
        state.partial = Some(Box::new(Partial {
            delivery_id: told.wire.delivery_id,
            message_format: told.message_format,
            tag_len: given.len() as u8,
            tag,
            settled: told.settled,
            bytes,
        }));
        session.arriving += 1;
    }
    if state.drain && state.credit == 0 {
        state.drain = false;
        rare.queue.push_back(Queued::Event(Event::SenderDrained { link, returned: 0 }));
    }
    Ok(event)
}

/// The frame that begins a delivery: held against what it must have, the credit, the size; remembered.
#[inline(always)]
fn on_transfer_first(
    session: &mut Session,
    state: &mut Link,
    link: LinkHandle,
    transfer: &wire::Transfer<'_>,
    payload: Payload,
    held: &mut Held,
) -> Result<Option<Event>, Violation> {
    let violation = |condition, why: &'static str| Err(Violation::link(link, condition, why));
    if state.direction != Direction::Incoming {
        return violation(fault::NOT_ALLOWED, "transfer from a link's receiver");
    }
    let Some(delivery_id) = transfer.delivery_id else {
        return violation(fault::INVALID_FIELD, "a delivery's first transfer has no delivery-id");
    };
    match transfer.delivery_tag {
        Some(tag) if tag.len() <= DELIVERY_TAG_BYTES_MAX => {}
        Some(_) => return violation(fault::INVALID_FIELD, "a delivery-tag is longer than 32 bytes"),
        None => return violation(fault::INVALID_FIELD, "a delivery's first transfer has no delivery-tag"),
    }
    if transfer.resume || transfer.state.is_some_and(is_transactional) {
        let why = if transfer.resume { "no delivery is resumed here" } else { "there are no transactions here" };
        return violation(fault::NOT_IMPLEMENTED, why);
    }
    if state.credit == 0 {
        return violation(fault::TRANSFER_LIMIT_EXCEEDED, "transfer beyond the link's credit");
    }
    state.delivery_count = state.delivery_count.wrapping_add(1);
    if transfer.aborted {
        return Ok(None);
    }
    state.credit -= 1;
    let bytes = payload.len();
    if bytes as u64 > state.max_message_size {
        return violation(fault::MESSAGE_SIZE_EXCEEDED, "the message exceeds max-message-size");
    }
    let channel = state.channel;
    let settled = transfer.settled.unwrap_or(false);
    if !settled || transfer.more {
        if !session.incoming.insert(delivery_id, Incoming { link, token: None, settled }) {
            return Err(Violation::session(channel, fault::INVALID_FIELD, "the delivery-id is in use"));
        }
        state.unsettled += 1;
    }
    session.held_bytes += bytes;
    held.bytes += bytes;
    let wire = WireDelivery { session: SessionNumber(channel), delivery_id };
    let (message_format, more) = (transfer.message_format.unwrap_or(0), transfer.more);
    let token = state.token;
    Ok(Some(Event::Transfer(Transfer { link, token, wire, message_format, settled, more, payload })))
}

/// Whether a delivery is to be part of a transaction: as if it wasn't, it must not pass.
#[cold]
fn is_transactional(state: &[u8]) -> bool {
    wire_state::kind(state) == wire_state::Kind::Transactional
}

/// A further frame of a delivery; ids that it repeats have to be the same.
#[inline(never)]
fn on_transfer_more(
    session: &mut Session,
    state: &mut Link,
    link: LinkHandle,
    transfer: &wire::Transfer<'_>,
    payload: Payload,
    held: &mut Held,
) -> Result<Option<Event>, Violation> {
    let Some(partial) = &mut state.partial else { return Ok(None) };
    let delivery_id = partial.delivery_id;
    let same_id = transfer.delivery_id.is_none_or(|id| id == delivery_id);
    let same_tag = transfer.delivery_tag.is_none_or(|tag| *tag == partial.tag[..usize::from(partial.tag_len)]);
    let same_format = transfer.message_format.is_none_or(|format| format == partial.message_format);
    if !(same_id && same_tag && same_format) {
        let why = "a transfer contradicts the delivery that it continues";
        return Err(Violation::link(link, fault::INVALID_FIELD, why));
    }
    partial.settled |= transfer.settled.unwrap_or(false);
    partial.bytes += payload.len() as u64;
    if !transfer.aborted && partial.bytes > state.max_message_size {
        return Err(Violation::link(link, fault::MESSAGE_SIZE_EXCEEDED, "the message exceeds max-message-size"));
    }
    let ends = transfer.aborted || !transfer.more;
    let settled = partial.settled || transfer.aborted;
    let token = match session.incoming.get_mut(delivery_id) {
        Some(entry) if entry.link == link => {
            entry.settled |= settled;
            Some(entry.token)
        }
        _ => None,
    };
    if ends {
        state.partial = None;
        session.arriving = session.arriving.saturating_sub(1);
        let removed = settled || session.incoming.get_mut(delivery_id).is_some_and(|entry| entry.settled);
        if token.is_some() && removed && session.incoming.remove(delivery_id).is_some() {
            state.unsettled = state.unsettled.saturating_sub(1);
        }
    }
    let Some(token) = token else { return Ok(None) };
    let wire = WireDelivery { session: SessionNumber(state.channel), delivery_id };
    if transfer.aborted {
        return Ok(Some(Event::TransferAborted { link, wire, token }));
    }
    session.held_bytes += payload.len();
    held.bytes += payload.len();
    Ok(Some(Event::TransferMore { link, wire, token, payload, more: transfer.more, settled }))
}

/// Commands.
impl Engine {
    /// Says, after `Event::Transfer` or `Event::TransferMore`, that routing keeps the delivery, by this id.
    #[inline]
    pub fn set_incoming_token(&mut self, wire: WireDelivery, token: DeliveryId) {
        let Some(Some(session)) = self.sessions.get_mut(usize::from(wire.session.0)) else { return };
        if let Some(entry) = session.incoming.get_mut(wire.delivery_id) {
            entry.token = Some(token);
        }
    }
}

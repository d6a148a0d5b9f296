//! Transfers from the peer: window, credit, ids, tags, continuation, size (section 2.7.5).

use super::connection::Engine;
use super::fault::{self, Violation};
use super::link::Partial;
use super::session::{Incoming, Slot};
use super::*;
use crate::ids::{DeliveryId, LinkHandle, SessionNumber, WireDelivery};
use crate::limits::DELIVERY_TAG_BYTES_MAX;
use crate::payload::Payload;
use crate::wire::performative as wire;

/// Unsettled deliveries from the peer that one session may have. Credit bounds them as long as routing replenishes it by
/// settlement; this holds whatever routing does.
const UNSETTLED_MAX: usize = 1 << 20;

/// From the peer.
impl Engine {
    #[inline]
    pub(super) fn on_transfer(
        &mut self,
        remote_channel: u16,
        transfer: &wire::Transfer<'_>,
        payload: Payload,
    ) -> Result<Option<Event>, Violation> {
        let Some(channel) = self.mapped(remote_channel)? else { return Ok(None) };
        let Some(Some(session)) = self.sessions.get_mut(usize::from(channel)) else { return Ok(None) };
        if session.incoming_window == 0 {
            return Err(Violation::session(channel, fault::WINDOW_VIOLATION, "transfer beyond the session's window"));
        }
        session.incoming_window -= 1;
        session.next_incoming_id = session.next_incoming_id.wrapping_add(1);
        if session.is_incoming_window_low(&self.settings) {
            Self::mark_dirty(&mut self.dirty, channel, session);
        }
        match session.handles.get(transfer.handle) {
            Some(&Slot::Link(link)) => {
                let partial = self.links.get(link).is_some_and(|state| state.partial.is_some());
                if partial {
                    self.on_transfer_more(link, channel, transfer, payload)
                } else {
                    self.on_transfer_first(link, channel, transfer, payload)
                }
            }
            Some(Slot::Detached { .. }) => Ok(None),
            None => Err(Violation::session(channel, fault::UNATTACHED_HANDLE, "transfer on an unattached handle")),
        }
    }

    /// The frame that begins a delivery.
    #[inline]
    fn on_transfer_first(
        &mut self,
        link: LinkHandle,
        channel: u16,
        transfer: &wire::Transfer<'_>,
        payload: Payload,
    ) -> Result<Option<Event>, Violation> {
        let violation = |condition, why: &'static str| Err(Violation::link(link, condition, why));
        let Some(state) = self.links.get_mut(link) else { return Ok(None) };
        let Some(Some(session)) = self.sessions.get_mut(usize::from(channel)) else { return Ok(None) };
        if state.direction != Direction::Incoming {
            return violation(fault::NOT_ALLOWED, "transfer from a link's receiver");
        }
        let Some(delivery_id) = transfer.delivery_id else {
            return violation(fault::INVALID_FIELD, "a delivery's first transfer has no delivery-id");
        };
        let tag = match transfer.delivery_tag {
            Some(tag) if tag.len() <= DELIVERY_TAG_BYTES_MAX => tag,
            Some(_) => return violation(fault::INVALID_FIELD, "a delivery-tag is longer than 32 bytes"),
            None => return violation(fault::INVALID_FIELD, "a delivery's first transfer has no delivery-tag"),
        };
        if state.credit == 0 {
            return violation(fault::TRANSFER_LIMIT_EXCEEDED, "transfer beyond the link's credit");
        }
        state.delivery_count = state.delivery_count.wrapping_add(1);
        if transfer.aborted {
            // Nobody heard of it; its credit is given again.
            if !std::mem::replace(&mut state.flow_due, true) {
                self.flows.push(link);
            }
            return Ok(None);
        }
        state.credit -= 1;
        let bytes = payload.len();
        if state.max_message_size > 0 && bytes as u64 > state.max_message_size {
            return violation(fault::MESSAGE_SIZE_EXCEEDED, "the message exceeds max-message-size");
        }
        let settled = transfer.settled.unwrap_or(false);
        if !settled || transfer.more {
            if session.incoming.len() >= UNSETTLED_MAX {
                return Err(Violation::session(
                    channel,
                    fault::RESOURCE_LIMIT_EXCEEDED,
                    "too many unsettled deliveries",
                ));
            }
            if !session.incoming.insert(delivery_id, Incoming { link, token: None, settled }) {
                return Err(Violation::session(channel, fault::INVALID_FIELD, "the delivery-id is in use"));
            }
            state.unsettled += 1;
        }
        let message_format = transfer.message_format.unwrap_or(0);
        if transfer.more {
            let mut kept = [0; DELIVERY_TAG_BYTES_MAX];
            kept[..tag.len()].copy_from_slice(tag);
            let (tag, tag_len, bytes) = (kept, tag.len() as u8, bytes as u64);
            state.partial = Some(Box::new(Partial { delivery_id, message_format, tag_len, tag, settled, bytes }));
        }
        session.held_bytes += bytes;
        if state.drain && state.credit == 0 {
            state.drain = false;
            self.queue.push_back(super::connection::Queued::Event(Event::SenderDrained { link, credit: 0 }));
        }
        let wire = WireDelivery { session: SessionNumber(channel), delivery_id };
        Ok(Some(Event::Transfer(Transfer { link, wire, message_format, settled, more: transfer.more, payload })))
    }

    /// A further frame of a delivery; ids that it repeats have to be the same.
    fn on_transfer_more(
        &mut self,
        link: LinkHandle,
        channel: u16,
        transfer: &wire::Transfer<'_>,
        payload: Payload,
    ) -> Result<Option<Event>, Violation> {
        let Some(state) = self.links.get_mut(link) else { return Ok(None) };
        let Some(Some(session)) = self.sessions.get_mut(usize::from(channel)) else { return Ok(None) };
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
        if !transfer.aborted && state.max_message_size > 0 && partial.bytes > state.max_message_size {
            return Err(Violation::link(link, fault::MESSAGE_SIZE_EXCEEDED, "the message exceeds max-message-size"));
        }
        let ends = transfer.aborted || !transfer.more;
        let settled = partial.settled || transfer.aborted;
        // Who settled it already hears no more of it.
        let token = match session.incoming.get_mut(delivery_id) {
            Some(entry) if entry.link == link => {
                entry.settled |= settled;
                Some(entry.token)
            }
            _ => None,
        };
        if ends {
            state.partial = None;
            let removed = settled || session.incoming.get_mut(delivery_id).is_some_and(|entry| entry.settled);
            if removed && session.incoming.remove(delivery_id).is_some() {
                state.unsettled = state.unsettled.saturating_sub(1);
            }
        }
        let Some(token) = token else { return Ok(None) };
        let wire = WireDelivery { session: SessionNumber(channel), delivery_id };
        if transfer.aborted {
            return Ok(Some(Event::TransferAborted { link, wire, token }));
        }
        session.held_bytes += payload.len();
        Ok(Some(Event::TransferMore { link, wire, token, payload, more: transfer.more, settled }))
    }
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

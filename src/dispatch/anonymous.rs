//! Messages of an anonymous link: each says itself where it goes, in its properties' `to` (AMQP 1.0, section 3.2.4). And the
//! begins of messages that are held until what has to be known of them has come.

use super::{find, Dispatch, Peer};
use crate::ids::{ConnectionId, DeliveryId, LinkHandle, LinkId, SessionNumber, WireDelivery};
use crate::limits;
use crate::payload::Payload;
use crate::routing::{rejected, Arrival};
use crate::time::Time;
use crate::wire::annotations::{Place, RouterAnnotations};
use crate::wire::{message, WireError};

/// A message's properties end within this many bytes, or it counts as having none: what is held for them is bounded.
pub(super) const PROPERTIES_BYTES_MAX: usize = 64 * 1024;

/// What a connection's links hold together at most, for messages whose properties have not arrived; more of them count as
/// having none.
pub const HELD_BYTES_MAX: usize = limits::SESSION_INCOMING_BYTES;

/// And how many of them.
const HELD_MESSAGES_MAX: usize = 1024;

/// All looks into a held message together cost no more than so many times its bytes, and these: for one that has to be looked
/// into again and again, more has to come.
const LOOKED_TIMES_MAX: usize = 4;
const LOOKED_BYTES_FREE: usize = 64 * 1024;

/// The begin of a message: one that has just come, or whose annotations or properties have not arrived yet.
pub struct Held {
    pub wire: WireDelivery,
    pub message_format: u32,
    pub settled: bool,
    pub payload: Payload,
    /// Bytes of it that don't count in its session's window for now.
    pub lent: usize,
    pub looks: Looks,
}

/// What a held message was looked into for nothing.
#[derive(Default)]
pub struct Looks {
    /// Bytes of the message, while it is held.
    held: usize,
    /// It isn't looked into before it has so many.
    due: usize,
    /// Bytes that all looks had before them.
    spent: usize,
}

impl Looks {
    /// One more. The next is due when it can find more than this one did, and what all of them cost is paid for.
    fn in_vain(&mut self, payload: &Payload) {
        self.held = payload.len();
        self.spent += self.held;
        let paid = self.spent.saturating_sub(LOOKED_BYTES_FREE) / LOOKED_TIMES_MAX;
        self.due = message::needed(payload).max(paid).min(PROPERTIES_BYTES_MAX);
    }
}

/// Where a message goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Destination<'a> {
    Address(&'a str),
    /// The message names none.
    Nowhere,
    /// What comes before its body can't be read.
    Undecodable,
    /// More of it has to arrive first.
    Later,
}

/// Room for an address that lies in two pieces.
pub type Scratch = [u8; limits::ADDRESS_BYTES_MAX + 8];

pub const SCRATCH: Scratch = [0; limits::ADDRESS_BYTES_MAX + 8];

/// Looks into the sections at a message's begin. `complete`: nothing more will come.
pub fn destination<'a>(payload: &'a Payload, complete: bool, scratch: &'a mut Scratch) -> Destination<'a> {
    let may_follow = !complete && payload.len() < PROPERTIES_BYTES_MAX;
    match message::to(payload, scratch) {
        Ok(Some(to)) => Destination::Address(to),
        // Nothing but sections that come before the properties so far.
        Ok(None) if may_follow && ends_before_properties(payload) => Destination::Later,
        Ok(None) => Destination::Nowhere,
        Err(WireError::Truncated) if may_follow => Destination::Later,
        Err(_) => Destination::Undecodable,
    }
}

fn ends_before_properties(payload: &Payload) -> bool {
    message::Head::scan(payload).is_ok_and(|head| head.properties.is_none() && head.body == payload.len())
}

/// Takes a held message out.
pub(super) fn take_held(peer: &mut Peer, link: LinkHandle) -> Option<Held> {
    let mut held = peer.held.remove(&link)?;
    peer.held_bytes -= held.looks.held;
    peer.engine.payload_returned(held.wire.session, std::mem::take(&mut held.lent));
    Some(held)
}

/// A session's window is shut. What is held of its messages counts no longer, once: whole they will be only when more comes.
/// Gives how many were looked at.
pub(super) fn lend_held(peer: &mut Peer, session: SessionNumber) -> usize {
    let mut bytes = 0;
    for held in peer.held.values_mut().filter(|held| held.wire.session == session) {
        bytes += held.looks.held - std::mem::replace(&mut held.lent, held.looks.held);
    }
    peer.engine.payload_released(session, bytes);
    peer.held.len()
}

impl Dispatch {
    /// `link`: as the engine names it, and the router.
    pub(super) fn look_for_to(
        &mut self,
        id: ConnectionId,
        link: (LinkHandle, LinkId),
        held: Held,
        more: bool,
        now: Time,
    ) -> u64 {
        let (handle, link) = link;
        let mut scratch = SCRATCH;
        // The address is read out of a second reference to the same bytes, while the first goes to the router.
        let probe = held.payload.clone();
        let overridden = if self.annotations.are_used { self.overridden(id, &probe, !more) } else { None };
        let found = match &overridden {
            Some(to) => Destination::Address(to),
            None => destination(&probe, !more, &mut scratch),
        };
        let (to, is_decodable) = match found {
            Destination::Address(to) => (Some(to), true),
            Destination::Nowhere => (None, true),
            Destination::Undecodable => (None, false),
            // All of a connection's links together hold so much, whatever its windows are.
            Destination::Later if !self.may_hold(id, held.payload.len()) => (None, true),
            Destination::Later => {
                self.hold(id, handle, held);
                return 1;
            }
        };
        let Held { wire, message_format, settled, payload, .. } = held;
        let arrival = Arrival { wire, message_format, settled, complete: !more, payload, to };
        if is_decodable {
            let owner = to.and_then(|to| self.owner_of_address(to)).filter(|owner| *owner != self.shard);
            if let Some(owner) = owner {
                return self.forward(id, (handle, link), owner, arrival, now);
            }
            self.arrive(id, link, arrival, now);
        } else {
            let text = "the message can't be decoded as far as its properties";
            let state = rejected("amqp:decode-error", text);
            if let Some(delivery) = self.router.delivery_refused(link, arrival, state, now) {
                self.keep(id, wire, delivery);
            }
        }
        1
    }

    /// Where another router says that a message goes, if its connection's annotations are heard.
    fn overridden(&mut self, id: ConnectionId, payload: &Payload, complete: bool) -> Option<String> {
        if find(&mut self.peers, id)?.engine.settings().strip_incoming {
            return None;
        }
        let place = Place::find(payload, complete).ok().filter(|place| place.section.is_some())?;
        let mut scratch = Vec::new();
        RouterAnnotations::read(place.value(payload, &mut scratch), false).ok()?.to.map(str::to_owned)
    }

    /// Keeps the begin of a message until more of it is here.
    pub(super) fn hold(&mut self, id: ConnectionId, link: LinkHandle, mut held: Held) {
        if held.looks.spent == 0 {
            self.packer.pack_payload(&mut held.payload, limits::COPY_BYTES_MAX);
        }
        held.looks.in_vain(&held.payload);
        if let Some(peer) = find(&mut self.peers, id) {
            peer.held_bytes += held.looks.held;
            peer.held.insert(link, held);
        }
    }

    pub(super) fn may_hold(&mut self, id: ConnectionId, bytes: usize) -> bool {
        find(&mut self.peers, id)
            .is_some_and(|peer| peer.held_bytes + bytes <= HELD_BYTES_MAX && peer.held.len() < HELD_MESSAGES_MAX)
    }

    /// A later frame of a message that the router doesn't have: held, or done with. Costs what came, until it is looked into.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn held_more(
        &mut self,
        id: ConnectionId,
        link: LinkHandle,
        wire: WireDelivery,
        mut payload: Payload,
        more: bool,
        settled: bool,
        now: Time,
    ) {
        let Some(peer) = find(&mut self.peers, id) else { return };
        let bytes = payload.len();
        let Some(held) = peer.held.get_mut(&link).filter(|held| held.wire == wire) else {
            take_held(peer, link);
            if let Some(engine) = self.engine(id) {
                engine.payload_released(wire.session, bytes);
            }
            return;
        };
        self.packer.pack_payload(&mut payload, limits::COPY_BYTES_MAX);
        self.packer.append(&mut held.payload, payload);
        held.settled |= settled;
        held.looks.held += bytes;
        peer.held_bytes += bytes;
        peer.engine.payload_returned(wire.session, std::mem::take(&mut held.lent));
        if more && held.looks.held < held.looks.due && peer.held_bytes <= HELD_BYTES_MAX {
            return;
        }
        let token = peer.engine.link_token(link);
        if let (Some(held), Some(token)) = (take_held(peer, link), token) {
            self.look_into(id, (link, token), held, more, now);
        }
    }

    pub(super) fn held_aborted(&mut self, id: ConnectionId, link: LinkHandle, wire: WireDelivery, now: Time) {
        let Some(peer) = find(&mut self.peers, id) else { return };
        if let Some(held) = take_held(peer, link).filter(|held| held.wire == wire) {
            let token = peer.engine.link_token(link);
            if let Some(engine) = self.engine(id) {
                engine.payload_released(wire.session, held.payload.len());
            }
            let Some(token) = token else { return };
            if self.router.is_anonymous(token) {
                return self.router.delivery_unseen(token, now);
            }
            // It arrived, if only to be given up.
            let Held { message_format, settled, .. } = held;
            let payload = Payload::new();
            let arrival = Arrival { wire, message_format, settled, complete: false, payload, to: None };
            if let Some(owner) = token.shard() {
                self.deliver_elsewhere(id, link, owner, arrival);
                self.aborted_elsewhere(id, DeliveryId::arrived_elsewhere(owner, link), wire);
            } else if let Some(delivery) = self.router.delivery(token, arrival, now) {
                self.router.delivery_aborted(delivery, now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// header, properties (to = "q"), a data section.
    const MESSAGE: &[u8] =
        b"\x00\x53\x70\xc0\x02\x01\x41\x00\x53\x73\xc0\x06\x03\x40\x40\xa1\x01q\x00\x53\x75\xa0\x01x";

    #[test]
    fn an_address_is_waited_for_until_it_is_there() {
        for cut in 0..=MESSAGE.len() {
            let payload = Payload::copied(&MESSAGE[..cut]);
            let mut scratch = SCRATCH;
            let found = destination(&payload, false, &mut scratch);
            assert_eq!(found == Destination::Address("q"), cut >= 18, "{cut}");
            assert_eq!(found == Destination::Later, cut < 18, "{cut}");
        }
    }

    /// The looks at a message that comes byte by byte: after how many bytes.
    fn looks(message: impl IntoIterator<Item = u8>) -> Vec<usize> {
        let (mut payload, mut looks, mut at) = (Payload::new(), Looks::default(), Vec::new());
        for (here, byte) in message.into_iter().enumerate() {
            if here >= looks.due {
                at.push(here);
                if destination(&payload, false, &mut { SCRATCH }) != Destination::Later {
                    break;
                }
                looks.in_vain(&payload);
            }
            payload.append(Payload::copied(&[byte]));
        }
        at
    }

    #[test]
    fn an_address_is_found_when_it_is_there_and_not_looked_for_where_it_can_t_be() {
        let mut message = b"\x00\x53\x72\xd1\x00\x00\x0f\xff\x00\x00\x00\x02".to_vec();
        message.resize(8 + 0xfff, 0);
        message.extend_from_slice(&MESSAGE[7..]);
        let at = looks(message.iter().copied());
        assert_eq!(at.last(), Some(&(8 + 0xfff + 11)));
        assert!(at.len() < 25 && !at.iter().any(|here| (9..8 + 0xfff).contains(here)), "{at:?}");
    }

    #[test]
    fn a_message_that_asks_for_a_look_at_each_byte_gets_few() {
        let sections = || b"\x00\x53\x70\x45".iter().copied().cycle().take(PROPERTIES_BYTES_MAX - 1);
        let nested = || std::iter::repeat_n(0, PROPERTIES_BYTES_MAX - 1);
        for at in [looks(sections()), looks(b"\x00\x53\x70".iter().copied().chain(nested()))] {
            let spent = at.iter().sum::<usize>();
            assert!(spent < (LOOKED_TIMES_MAX + 2) * PROPERTIES_BYTES_MAX + LOOKED_BYTES_FREE, "{spent}");
        }
    }

    #[test]
    fn messages_without_one_go_nowhere() {
        let body_only = Payload::copied(b"\x00\x53\x75\xa0\x01x");
        assert_eq!(destination(&body_only, false, &mut { SCRATCH }), Destination::Nowhere);
        let empty = Payload::new();
        assert_eq!(destination(&empty, true, &mut { SCRATCH }), Destination::Nowhere);
        assert_eq!(destination(&Payload::copied(&MESSAGE[..7]), true, &mut { SCRATCH }), Destination::Nowhere);
    }

    #[test]
    fn what_can_t_be_read_is_told_from_what_names_no_address() {
        let cut = Payload::copied(&MESSAGE[..9]);
        assert_eq!(destination(&cut, true, &mut { SCRATCH }), Destination::Undecodable);
        let garbage = Payload::copied(b"garbage");
        assert_eq!(destination(&garbage, false, &mut { SCRATCH }), Destination::Undecodable);
    }

    #[test]
    fn what_is_held_is_bounded() {
        let mut endless = vec![0x00, 0x53, 0x71, 0xd1, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 2];
        endless.resize(PROPERTIES_BYTES_MAX - 1, 0);
        assert_eq!(destination(&Payload::copied(&endless), false, &mut { SCRATCH }), Destination::Later);
        endless.push(0);
        assert_eq!(destination(&Payload::copied(&endless), false, &mut { SCRATCH }), Destination::Undecodable);
    }
}

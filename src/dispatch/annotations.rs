//! The routers' annotations of messages, as a listener's `stripAnnotations` wants them: taken off what comes in, taken off
//! or added to what goes out.
//!
//! They are dealt with where a connection lives, so nothing of them is known between. Where all listeners take them off both
//! ways, as they do by default, a message costs one look at its first bytes; only one that has annotations is looked into.

use super::anonymous::{Held, PROPERTIES_BYTES_MAX};
use super::{find, Dispatch};
use crate::engine::{self, Engine};
use crate::ids::{ConnectionId, LinkHandle, LinkId};
use crate::payload::{Packer, Payload};
use crate::routing::{rejected, Arrival};
use crate::time::Time;
use crate::wire::annotations::{Place, RouterAnnotations};
use crate::wire::WireError;

/// What is longer counts as the body does: it passes as it is.
const SECTION_BYTES_MAX: usize = PROPERTIES_BYTES_MAX;

pub(super) struct Annotations {
    /// Some listener doesn't take them off both ways.
    pub are_used: bool,
    /// This router, in ingress and trace.
    router: String,
    /// A section that came in pieces.
    value: Vec<u8>,
    /// One that is made.
    section: Vec<u8>,
}

/// What is to be done with a message, its annotations seen.
enum Verdict {
    Pass,
    /// More of it has to come first.
    Wait,
    Refuse(&'static str),
}

impl Annotations {
    pub fn new(router_id: &str) -> Annotations {
        Annotations { are_used: false, router: format!("0/{router_id}"), value: Vec::new(), section: Vec::new() }
    }
}

impl Dispatch {
    /// Connections with these settings are to come, here or on another shard. To be called before the first of them.
    pub fn listens(&mut self, settings: &engine::Settings) {
        self.annotations.are_used |= !(settings.strip_incoming && settings.strip_outgoing);
    }

    /// The begin of a message that may have annotations.
    #[inline(never)]
    pub(super) fn look_into(
        &mut self,
        id: ConnectionId,
        link: (LinkHandle, LinkId),
        mut held: Held,
        more: bool,
        now: Time,
    ) -> u64 {
        match self.take_annotations(id, &mut held, more) {
            Verdict::Wait if self.may_hold(id, held.payload.len()) => self.hold(id, link.0, held),
            Verdict::Refuse(why) => return self.refuse(id, link, held, more, why, now),
            Verdict::Pass | Verdict::Wait => return self.route(id, link, held, more, now),
        }
        1
    }

    /// Takes what is a router's off a message, where that is wanted of its connection.
    fn take_annotations(&mut self, id: ConnectionId, held: &mut Held, more: bool) -> Verdict {
        let place = match Place::find(&held.payload, !more) {
            Ok(place) => place,
            Err(WireError::Truncated) if more && held.payload.len() < PROPERTIES_BYTES_MAX => return Verdict::Wait,
            Err(_) => return Verdict::Pass,
        };
        let Some(peer) = find(&mut self.peers, id) else { return Verdict::Pass };
        if place.section.is_none_or(|section| section.value.len() > SECTION_BYTES_MAX) {
            return Verdict::Pass;
        }
        let Annotations { value, section, .. } = &mut self.annotations;
        let (strip, value) = (peer.engine.settings().strip_incoming, place.value(&held.payload, value));
        match RouterAnnotations::read(value, strip) {
            Err(why) => return Verdict::Refuse(why),
            Ok(found) if !(strip && found.any) => return Verdict::Pass,
            Ok(_) => {}
        }
        section.clear();
        RouterAnnotations::default().write(value, None, section);
        let before = held.payload.len();
        place.replace(&mut held.payload, section, |bytes| self.packer.pack(bytes));
        peer.engine.payload_released(held.wire.session, before - held.payload.len());
        Verdict::Pass
    }

    /// A message whose annotations are wrong is rejected.
    fn refuse(
        &mut self,
        id: ConnectionId,
        link: (LinkHandle, LinkId),
        held: Held,
        more: bool,
        why: &'static str,
        now: Time,
    ) -> u64 {
        let Held { wire, message_format, settled, payload, .. } = held;
        if let Some(owner) = link.1.shard() {
            if let Some(engine) = self.engine(id) {
                engine.payload_released(wire.session, payload.len());
            }
            return self.refuse_elsewhere(id, link.0, owner, wire, settled, !more, why);
        }
        let arrival = Arrival { wire, message_format, settled, complete: !more, payload, to: None };
        let state = rejected("amqp:invalid-field", why);
        if let Some(delivery) = self.router.delivery_refused(link.1, arrival, state, now) {
            self.keep(id, wire, delivery);
        }
        1
    }

    /// What a consumer gets of a message, by its first payload. Gives how many bytes fewer it is.
    #[inline]
    pub(super) fn annotate(&mut self, id: ConnectionId, complete: bool, payload: &mut Payload) -> usize {
        if !self.annotations.are_used {
            return 0;
        }
        // For a proxy its connection's home does it.
        let Some(peer) = find(&mut self.peers, id) else { return 0 };
        self.annotations.annotate(&peer.engine, complete, payload, &mut self.packer)
    }
}

impl Annotations {
    /// Adds this router to a message's annotations, or takes all routers' off, as its connection wants it.
    #[inline(never)]
    pub fn annotate(&mut self, to: &Engine, complete: bool, payload: &mut Payload, packer: &mut Packer) -> usize {
        let strip = to.settings().strip_outgoing;
        let Ok(place) = Place::find(&*payload, complete) else { return 0 };
        let length = place.section.map_or(0, |section| section.value.len());
        if payload.is_empty() || length > SECTION_BYTES_MAX {
            return 0;
        }
        let value = place.value(payload, &mut self.value);
        let found = if length == 0 { Ok(RouterAnnotations::default()) } else { RouterAnnotations::read(value, strip) };
        self.section.clear();
        match found {
            Err(_) => return 0,
            Ok(found) if strip && !found.any => return 0,
            Ok(_) if strip => RouterAnnotations::default().write(value, None, &mut self.section),
            Ok(found) => found.write(value, Some(&self.router), &mut self.section),
        }
        let before = payload.len();
        place.replace(payload, &self.section, |bytes| packer.pack(bytes));
        before.saturating_sub(payload.len())
    }
}

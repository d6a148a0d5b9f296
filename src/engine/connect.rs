//! What only the side that connects does (sections 2.2, 5.3), and what either side does that begins sessions and attaches
//! links instead of answering the peer's.
//!
//! All that needs no answer to be sent is sent at once: without SASL the protocol header and the open, and a link's attach
//! behind its session's begin.

use super::connection::{Engine, Phase, Queued};
use super::fault::{self, Violation};
use super::link::{receiver_mode_to_wire, remote_attach, sender_mode_to_wire, terminus_of, Link, LinkState};
use super::session::{Pending, Session, Slot, OUTGOING_WINDOW};
use super::*;
use crate::ids::{LinkHandle, LinkId, SessionNumber};
use crate::outcome::Fault;
use crate::time::Time;
use crate::wire::performative::{self as wire, Performative};
use crate::wire::sasl::{self, SaslFrame};
use crate::wire::{PROTOCOL_HEADER_AMQP, PROTOCOL_HEADER_SASL};
use std::sync::Arc;

/// Making and getters.
impl Engine {
    /// The side that connects. `sasl`: through a SASL layer; then `Event::SaslMechanisms` comes first. Of the settings
    /// the ones about SASL mean nothing here.
    pub fn connect(settings: Arc<Settings>, sasl: bool, now: Time) -> Engine {
        let mut engine = Engine::new(settings, now);
        engine.is_initiator = true;
        engine.asks_for_sasl = sasl;
        if sasl {
            engine.write_bytes(&PROTOCOL_HEADER_SASL);
        } else {
            engine.write_bytes(&PROTOCOL_HEADER_AMQP);
            engine.write_open();
        }
        engine
    }

    /// The protocol header that the peer answered with, where it isn't the one that we asked for: what it would speak.
    pub fn other_protocol(&self) -> Option<[u8; 8]> {
        self.other_protocol
    }

    /// Whether both sides opened, and neither closed.
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }
}

/// From the peer.
impl Engine {
    /// The peer's protocol header; gives whether there is more to do now.
    pub(super) fn on_header_answered(&mut self, header: [u8; 8]) -> bool {
        let asks_for_sasl = self.asks_for_sasl && self.phase == Phase::Header;
        match (header, asks_for_sasl) {
            (PROTOCOL_HEADER_SASL, true) => self.phase = Phase::SaslMechanisms,
            (PROTOCOL_HEADER_AMQP, false) => self.phase = Phase::Opening,
            _ => {
                self.other_protocol = Some(header);
                let why = match header {
                    PROTOCOL_HEADER_SASL => "the peer asks for authentication (SASL)",
                    PROTOCOL_HEADER_AMQP => "the peer has no SASL layer",
                    [b'A', b'M', b'Q', b'P', ..] => "the peer asks for another protocol",
                    _ => "the peer doesn't speak AMQP",
                };
                self.break_off(Fault::connection(fault::FRAMING_ERROR, why));
                return false;
            }
        }
        true
    }

    /// The exchange is over: the peer lets us in, or not.
    pub(super) fn on_sasl_outcome(&mut self, code: u8) {
        if code != sasl::CODE_OK {
            let why = match code {
                sasl::CODE_AUTH => "authentication failed",
                _ => "authentication failed for a reason at the peer's side",
            };
            return self.break_off(Fault::connection("amqp:unauthorized-access", why));
        }
        self.write_bytes(&PROTOCOL_HEADER_AMQP);
        self.write_open();
        self.phase = Phase::HeaderAfterSasl;
    }

    /// The peer's begin for a session of ours.
    pub(super) fn on_begin_answer(
        &mut self,
        remote_channel: u16,
        channel: u16,
        begin: &wire::Begin<'_>,
    ) -> Result<(), Violation> {
        let Some(session) = self.session_mut(channel).filter(|session| session.awaits_begin) else {
            return Err(Violation::connection(fault::NOT_ALLOWED, "begin answers a session that we did not begin"));
        };
        session.awaits_begin = false;
        session.next_incoming_id = begin.next_outgoing_id;
        session.remote_incoming_window = begin.incoming_window;
        session.remote_handle_max = begin.handle_max;
        self.channels.insert(remote_channel.into(), channel);
        self.wait_for_output(channel);
        Ok(())
    }

    /// The peer's attach for a link of ours.
    pub(super) fn on_attach_answer(
        &mut self,
        channel: u16,
        pending: Pending,
        attach: &wire::Attach<'_>,
    ) -> Result<(), Violation> {
        let link = pending.link.filter(|link| self.links.get(*link).is_some());
        let local_handle = pending.local_handle;
        let Some(session) = self.session_mut(channel) else { return Ok(()) };
        session.handles_used = session.handles_used.max(attach.handle.saturating_add(1));
        let Some(link) = link else {
            // We gave it up meanwhile.
            session.handles.insert(attach.handle, Slot::Detached { local_handle });
            self.note_detached(channel);
            return Ok(());
        };
        session.handles.insert(attach.handle, Slot::Link(link));
        let Some(state) = self.links.get_mut(link) else { return Ok(()) };
        state.state = LinkState::Attached;
        state.remote_handle = attach.handle;
        if state.direction == Direction::Incoming {
            state.delivery_count = attach.initial_delivery_count.unwrap_or(0);
        }
        let (direction, token) = (state.direction, state.token.unwrap_or(LinkId { index: 0, generation: 0 }));
        if state.flow_due {
            self.flows.push(link);
        }
        // What is told is the peer's end, which is the one behind the other direction.
        let far = match direction {
            Direction::Incoming => Direction::Outgoing,
            Direction::Outgoing => Direction::Incoming,
        };
        let terminus = terminus_of(far, attach)?;
        let attach = Box::new(remote_attach(channel, direction, terminus, attach));
        self.queue.push_back(Queued::Event(Event::LinkAnswered { link, token, attach }));
        Ok(())
    }
}

/// Commands.
impl Engine {
    /// Chooses a mechanism, after `Event::SaslMechanisms`.
    pub fn sasl_init(&mut self, mechanism: &str, initial_response: Option<&[u8]>, hostname: Option<&str>) {
        if self.phase == Phase::SaslRest && self.is_initiator {
            self.write_sasl(&SaslFrame::Init(sasl::Init { mechanism, initial_response, hostname }));
            self.phase = Phase::SaslOutcome;
        }
    }

    /// Answers a challenge.
    pub fn sasl_respond(&mut self, response: &[u8]) {
        if self.phase == Phase::SaslRest && self.is_initiator {
            self.write_sasl(&SaslFrame::Response(sasl::Response { response }));
            self.phase = Phase::SaslOutcome;
        }
    }

    /// Begins a session, on a connection that is open. None: it isn't, or neither side has a channel left.
    pub fn begin_session(&mut self) -> Option<SessionNumber> {
        if self.phase != Phase::Open {
            return None;
        }
        let channel = self.free_channel()?;
        let initial_serial = self.settings.initial_serial;
        let window_bytes = self.settings.incoming_bytes_first();
        let mut session = Session::new(&wire::Begin::default(), window_bytes, initial_serial, &self.settings.memory);
        session.awaits_begin = true;
        self.place_session(channel, session);
        let begin = wire::Begin {
            next_outgoing_id: initial_serial,
            incoming_window: self.widen_window(channel),
            outgoing_window: OUTGOING_WINDOW,
            handle_max: self.settings.handle_max,
            ..wire::Begin::default()
        };
        self.write_frame(channel, &Performative::Begin(begin));
        Some(SessionNumber(channel))
    }

    /// Attaches a link; `LinkAnswered` follows, or `LinkEnded`. `token` is handed back with its events. A grant may follow
    /// at once, a delivery when the peer gave credit. None: the session is over, it has no handle left, or the name is in
    /// use.
    pub fn attach_link(&mut self, session: SessionNumber, token: LinkId, offer: &LinkOffer<'_>) -> Option<LinkHandle> {
        let key = (Arc::<str>::from(offer.name), offer.direction == Direction::Outgoing);
        if self.phase != Phase::Open || self.names.contains_key(&key) {
            return None;
        }
        let channel = session.0;
        let session = self.session_mut(channel).filter(|session| !session.end_sent)?;
        let local_handle = session.take_local_handle()?;
        let name = key.0.clone();
        let link = Link::new(offer.direction, channel, local_handle, name.clone(), &self.settings);
        let link = self.links.insert(Link { token: Some(token), ..link });
        self.count_link(key.0.len());
        self.names.insert(key, link);
        if let Some(session) = self.session_mut(channel) {
            let direction = offer.direction;
            session.pending.push_back(Pending { name, direction, link: Some(link), local_handle });
        }
        self.write_attach(channel, local_handle, offer);
        Some(link)
    }

    /// Ends a link for good, without an error: detach(closed). `LinkEnded` follows.
    pub fn close_link(&mut self, link: LinkHandle) {
        if self.links.get(link).is_some() {
            self.detach_link(link, true, None);
        }
    }
}

impl Engine {
    fn write_attach(&mut self, channel: u16, handle: u32, offer: &LinkOffer<'_>) {
        let (mut source, mut target) = (Vec::new(), Vec::new());
        offer.source.encode(&mut source);
        offer.target.encode(&mut target);
        let is_sender = offer.direction == Direction::Outgoing;
        let max_message_size = self.settings.max_message_size;
        let attach = wire::Attach {
            name: offer.name,
            handle,
            role: if is_sender { wire::Role::Sender } else { wire::Role::Receiver },
            snd_settle_mode: sender_mode_to_wire(offer.sender_settle_mode),
            rcv_settle_mode: receiver_mode_to_wire(offer.receiver_settle_mode),
            source: Some(&source),
            target: Some(&target),
            initial_delivery_count: is_sender.then_some(self.settings.initial_serial),
            max_message_size: (!is_sender && max_message_size > 0).then_some(max_message_size),
            ..wire::Attach::default()
        };
        self.write_frame(channel, &Performative::Attach(attach));
    }

    /// We detached a link before the peer attached it: its attach and detach are still to come.
    pub(super) fn forget_pending(&mut self, channel: u16, link: LinkHandle) {
        let Some(session) = self.session_mut(channel) else { return };
        if let Some(pending) = session.pending.iter_mut().find(|pending| pending.link == Some(link)) {
            pending.link = None;
        }
    }
}

impl Session {
    /// The link of ours that an attach of the peer's answers.
    pub(super) fn take_pending(&mut self, name: &str, direction: Direction) -> Option<Pending> {
        let is_it = |pending: &Pending| *pending.name == *name && pending.direction == direction;
        let index = self.pending.iter().position(is_it)?;
        self.pending.remove(index)
    }
}

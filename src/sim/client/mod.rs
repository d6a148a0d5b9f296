//! A client: AMQP 1.0 from the peer's side, without I/O, written apart from the engine so that neither's error hides the
//! other's.
//!
//! Owns: the protocol from the first header to the last, for one connection; and it watches the router: each breach of
//! the specification or of what this client granted is an entry in `violations`.
//! Doesn't: decide what to send or to accept when (its user does).
//! Driven by: the simulator, or a test's socket: bytes in, events and bytes out.
//!
//! *Promises*: the credit and windows that a client gives take time to arrive. A promise is remembered with the place in
//! the output where it was made; bytes from the router come with a stamp, how much of that output the router had read
//! before it wrote them. So what is held against the router is exactly what it may have known.

mod link;
mod promise;
mod session;

pub use link::{AttachRequest, Link, LinkState, Node};
pub use session::Session;

use crate::outcome::StateKind;
use crate::wire::error::Error;
use crate::wire::performative::{Begin, Close, Disposition, End, Flow, Open, Performative, Role};
use crate::wire::sasl::{Init, SaslFrame};
use crate::wire::{frame, state, PROTOCOL_HEADER_AMQP, PROTOCOL_HEADER_SASL};
use std::collections::VecDeque;

/// How a client begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Handshake {
    /// AMQP at once, without a SASL layer.
    Bare,
    /// SASL ANONYMOUS, each step after the router's.
    #[default]
    Sasl,
    /// SASL ANONYMOUS and all that follows in one go, without waiting for an answer.
    Pipelined,
}

#[derive(Clone, Debug)]
pub struct Settings {
    pub container_id: String,
    pub handshake: Handshake,
    /// Bytes of the largest frame that this client takes.
    pub max_frame_size: u32,
    /// Payload bytes of a transfer frame that this client sends, at most.
    pub frame_payload_max: usize,
    /// Milliseconds of silence after which this client would hang up; None: it waits.
    pub idle_time_out: Option<u32>,
    /// Where its serial numbers start.
    pub initial_serial: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            container_id: "client".to_owned(),
            handshake: Handshake::Sasl,
            max_frame_size: 16_384,
            frame_payload_max: 16_000,
            idle_time_out: None,
            initial_serial: 0,
        }
    }
}

/// A session's place in a client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct SessionIndex(pub usize);

/// A link's place in a client; never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct LinkIndex(pub usize);

/// What happened, for the client's user.
#[derive(Debug)]
pub enum Event {
    Opened,
    /// The router's close, or its answer to ours.
    Closed {
        condition: Option<String>,
    },
    SessionEnded {
        session: SessionIndex,
        condition: Option<String>,
    },
    /// The router answered the attach. `address`: the one that a dynamic node was given, else what was asked for.
    Attached {
        link: LinkIndex,
        address: Option<String>,
    },
    /// The link is over. `refused`: the attach was answered with a null terminus, or with the session's end.
    Detached {
        link: LinkIndex,
        refused: bool,
        closed: bool,
        condition: Option<String>,
    },
    /// A sender's credit changed.
    Credit {
        link: LinkIndex,
    },
    /// A session may send more frames.
    Window {
        session: SessionIndex,
    },
    /// A whole message came.
    Message {
        link: LinkIndex,
        delivery_id: u32,
        settled: bool,
        bytes: Vec<u8>,
    },
    /// The router gave up a message that it had begun.
    MessageAborted {
        link: LinkIndex,
        delivery_id: u32,
    },
    /// What became of a message that was sent.
    Outcome {
        link: LinkIndex,
        delivery_id: u32,
        kind: Option<StateKind>,
        state: Vec<u8>,
        settled: bool,
    },
    /// The router settled what it had sent.
    PeerSettled {
        link: LinkIndex,
        delivery_id: u32,
    },
    /// A receiver's drain was answered; so much of its credit was given back.
    Drained {
        link: LinkIndex,
        returned: u32,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    SaslHeader,
    SaslMechanisms,
    SaslOutcome,
    AmqpHeader,
    Frames,
    /// The router's close came: nothing may follow.
    Closed,
}

pub struct Client {
    settings: Settings,
    phase: Phase,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Bytes of output in all.
    written: u64,
    /// Of the bytes being handled: how much of our output the router had read.
    stamp: u64,
    opened: bool,
    close_sent: bool,
    remote_max_frame_size: u32,
    /// Milliseconds; 0: none.
    remote_idle_time_out: u32,
    sessions: Vec<Session>,
    links: Vec<Link>,
    events: VecDeque<Event>,
    pub violations: Vec<String>,
}

impl Client {
    pub fn new(settings: Settings) -> Client {
        let mut client = Client {
            phase: match settings.handshake {
                Handshake::Bare => Phase::AmqpHeader,
                _ => Phase::SaslHeader,
            },
            settings,
            input: Vec::new(),
            output: Vec::new(),
            written: 0,
            stamp: 0,
            opened: false,
            close_sent: false,
            remote_max_frame_size: 512,
            remote_idle_time_out: 0,
            sessions: Vec::new(),
            links: Vec::new(),
            events: VecDeque::new(),
            violations: Vec::new(),
        };
        match client.settings.handshake {
            Handshake::Bare => client.write_open(),
            Handshake::Sasl => client.write(&PROTOCOL_HEADER_SASL),
            Handshake::Pipelined => {
                client.write(&PROTOCOL_HEADER_SASL);
                client.write_sasl_init();
                client.write_open();
            }
        }
        client
    }

    // ── getters ──

    pub fn is_opened(&self) -> bool {
        self.opened
    }

    pub fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// The router wants a frame at least so often, in milliseconds.
    pub fn remote_idle_time_out(&self) -> Option<u32> {
        Some(self.remote_idle_time_out).filter(|milliseconds| *milliseconds > 0)
    }

    pub fn link(&self, link: LinkIndex) -> &Link {
        &self.links[link.0]
    }

    pub fn session(&self, session: SessionIndex) -> &Session {
        &self.sessions[session.0]
    }

    /// A SASL client that waits for its turn can't send AMQP yet.
    pub fn may_begin(&self) -> bool {
        !self.close_sent
            && match self.settings.handshake {
                Handshake::Sasl => matches!(self.phase, Phase::AmqpHeader | Phase::Frames),
                _ => self.phase != Phase::Closed,
            }
    }

    // ── what happened ──

    /// Bytes came; `stamp`: how much of our output the router had read when it wrote them.
    pub fn handle_input(&mut self, bytes: &[u8], stamp: u64) {
        self.stamp = self.stamp.max(stamp);
        self.input.extend_from_slice(bytes);
        let input = std::mem::take(&mut self.input);
        let mut used = 0;
        while let Some(size) = self.step(&input[used..]) {
            used += size;
        }
        self.input = input;
        self.input.drain(..used);
    }

    /// Handles what is whole at the begin of `input`; gives its length.
    fn step(&mut self, input: &[u8]) -> Option<usize> {
        match self.phase {
            Phase::SaslHeader => {
                self.header(input, PROTOCOL_HEADER_SASL)?;
                self.phase = Phase::SaslMechanisms;
                Some(8)
            }
            Phase::AmqpHeader => {
                self.header(input, PROTOCOL_HEADER_AMQP)?;
                self.phase = Phase::Frames;
                Some(8)
            }
            Phase::Closed => {
                if !input.is_empty() {
                    self.violate("bytes follow the close");
                }
                None
            }
            Phase::SaslMechanisms | Phase::SaslOutcome | Phase::Frames => {
                let header = frame::parse_header(input.first_chunk()?);
                let Ok(header) = header else {
                    self.violate("a frame header that can't be");
                    self.phase = Phase::Closed;
                    return None;
                };
                if header.size > self.settings.max_frame_size.max(512) {
                    self.violate(format!("a frame of {} bytes is larger than allowed", header.size));
                }
                let body = input.get(header.body_start()..header.size as usize)?;
                if self.phase == Phase::Frames {
                    self.frame(header.frame_type, header.channel, body);
                } else {
                    self.sasl_frame(header.frame_type, body);
                }
                Some(header.size as usize)
            }
        }
    }

    fn header(&mut self, input: &[u8], due: [u8; 8]) -> Option<()> {
        let header: &[u8; 8] = input.first_chunk()?;
        if *header != due {
            self.violate(format!("the protocol header {header:02x?} instead of {due:02x?}"));
        }
        Some(())
    }

    fn sasl_frame(&mut self, frame_type: u8, body: &[u8]) {
        if frame_type != frame::TYPE_SASL {
            return self.violate("an AMQP frame inside the SASL layer");
        }
        match (self.phase, SaslFrame::decode(body)) {
            (Phase::SaslMechanisms, Ok(SaslFrame::Mechanisms(mechanisms))) => {
                if !mechanisms.sasl_server_mechanisms.contains("ANONYMOUS") {
                    self.violate("ANONYMOUS is not offered");
                }
                if self.settings.handshake == Handshake::Sasl {
                    self.write_sasl_init();
                }
                self.phase = Phase::SaslOutcome;
            }
            (Phase::SaslOutcome, Ok(SaslFrame::Outcome(outcome))) => {
                if outcome.code != 0 {
                    self.violate(format!("SASL outcome {}", outcome.code));
                }
                if self.settings.handshake == Handshake::Sasl {
                    self.write_open();
                }
                self.phase = Phase::AmqpHeader;
            }
            (_, other) => self.violate(format!("a SASL frame out of place: {other:?}")),
        }
    }

    fn frame(&mut self, frame_type: u8, channel: u16, body: &[u8]) {
        if frame_type != frame::TYPE_AMQP {
            return self.violate("a SASL frame outside the SASL layer");
        }
        if body.is_empty() {
            return;
        }
        let (performative, size) = match Performative::decode(body) {
            Ok(decoded) => decoded,
            Err(error) => return self.violate(format!("a frame that can't be read: {error}: {body:02x?}")),
        };
        let payload = &body[size..];
        if !payload.is_empty() && !matches!(performative, Performative::Transfer(_)) {
            self.violate(format!("{} with a payload", performative.name()));
        }
        if !self.opened && !matches!(performative, Performative::Open(_) | Performative::Close(_)) {
            self.violate(format!("{} before open", performative.name()));
        }
        match performative {
            Performative::Open(open) => self.on_open(&open),
            Performative::Close(close) => self.on_close(&close),
            Performative::Begin(begin) => self.on_begin(channel, &begin),
            other => match self.sessions.iter().position(|session| session.remote_channel == Some(channel)) {
                Some(index) => self.on_session_frame(SessionIndex(index), other, payload),
                None => self.violate(format!("{} on channel {channel}, which has no session", other.name())),
            },
        }
    }

    fn on_open(&mut self, open: &Open<'_>) {
        if std::mem::replace(&mut self.opened, true) {
            self.violate("a second open");
        }
        if open.max_frame_size < 512 {
            self.violate("a max-frame-size below 512");
        }
        self.remote_max_frame_size = open.max_frame_size;
        self.remote_idle_time_out = open.idle_time_out.unwrap_or_default();
        self.events.push_back(Event::Opened);
    }

    fn on_close(&mut self, close: &Close<'_>) {
        self.phase = Phase::Closed;
        self.close(None);
        self.events.push_back(Event::Closed { condition: condition(close.error.as_ref()) });
    }

    fn on_begin(&mut self, channel: u16, begin: &Begin<'_>) {
        let Some(ours) = begin.remote_channel else { return self.violate("a begin that answers none") };
        if self.sessions.iter().any(|session| session.remote_channel == Some(channel)) {
            return self.violate(format!("begin on channel {channel}, which has a session"));
        }
        // The channel may have been used before: the youngest session on it is meant.
        let found = self.sessions.iter_mut().rev().find(|session| session.channel == ours && !session.is_over());
        match found {
            Some(session) if session.remote_channel.is_none() => session.begun(channel, begin),
            _ => return self.violate(format!("begin answers channel {ours}, which doesn't wait for one")),
        }
        let index = self.sessions.iter().rposition(|session| session.remote_channel == Some(channel));
        self.events.push_back(Event::Window { session: SessionIndex(index.unwrap_or_default()) });
    }

    fn on_session_frame(&mut self, session: SessionIndex, performative: Performative<'_>, payload: &[u8]) {
        match performative {
            Performative::End(end) => self.on_end(session, &end),
            Performative::Flow(flow) => self.on_flow(session, &flow),
            Performative::Attach(attach) => self.on_attach(session, &attach),
            Performative::Detach(detach) => self.on_detach(session, &detach),
            Performative::Transfer(transfer) => self.on_transfer(session, &transfer, payload),
            Performative::Disposition(disposition) => self.on_disposition(session, &disposition),
            Performative::Open(_) | Performative::Begin(_) | Performative::Close(_) => {}
        }
    }

    fn on_end(&mut self, index: SessionIndex, end: &End<'_>) {
        let session = &mut self.sessions[index.0];
        session.remote_channel = None;
        session.end_received = true;
        if !session.end_sent {
            session.end_sent = true;
            let channel = session.channel;
            self.write_frame(channel, &Performative::End(End::default()));
        }
        let condition = condition(end.error.as_ref());
        for (place, link) in self.links.iter_mut().enumerate() {
            if link.session == index && link.state != LinkState::Over {
                link.state = LinkState::Over;
                let (condition, refused) = (condition.clone(), link.is_unanswered());
                let link = LinkIndex(place);
                self.events.push_back(Event::Detached { link, refused, closed: false, condition });
            }
        }
        self.events.push_back(Event::SessionEnded { session: index, condition });
    }

    fn on_disposition(&mut self, session: SessionIndex, disposition: &Disposition<'_>) {
        let (first, last) = (disposition.first, disposition.last.unwrap_or(disposition.first));
        if (last.wrapping_sub(first) as i32) < 0 {
            return self.violate(format!("a disposition from {first} to {last}"));
        }
        let kind = disposition.state.map(state_kind);
        match disposition.role {
            Role::Receiver => {
                if let Some(again) = self.sessions[session.0].settled_again(first, last) {
                    return self.violate(format!("delivery {again}, which is settled, got another disposition"));
                }
                for (delivery_id, link) in self.sessions[session.0].outgoing_between(first, last, disposition.settled) {
                    let state = disposition.state.unwrap_or_default().to_vec();
                    let settled = disposition.settled;
                    if settled {
                        self.sessions[session.0].settled_by_router.insert(delivery_id);
                    }
                    self.events.push_back(Event::Outcome { link, delivery_id, kind, state, settled });
                }
            }
            Role::Sender if disposition.settled => {
                for (delivery_id, link) in self.sessions[session.0].incoming_between(first, last, true) {
                    self.events.push_back(Event::PeerSettled { link, delivery_id });
                }
            }
            Role::Sender => {}
        }
    }

    // ── commands ──

    /// Begins a session that takes `incoming_window` frames at a time.
    pub fn begin(&mut self, incoming_window: u32) -> SessionIndex {
        let taken = |channel| self.sessions.iter().any(|session| session.channel == channel && !session.is_over());
        let channel = (0..u16::MAX).find(|channel| !taken(*channel)).expect("fewer sessions than channels");
        let begin = Begin {
            next_outgoing_id: self.settings.initial_serial,
            incoming_window,
            outgoing_window: u32::MAX,
            ..Begin::default()
        };
        self.write_frame(channel, &Performative::Begin(begin));
        self.sessions.push(Session::new(channel, self.settings.initial_serial, incoming_window));
        SessionIndex(self.sessions.len() - 1)
    }

    pub fn end(&mut self, index: SessionIndex) {
        let session = &mut self.sessions[index.0];
        if session.end_sent || self.close_sent {
            return;
        }
        session.end_sent = true;
        let channel = session.channel;
        self.write_frame(channel, &Performative::End(End::default()));
    }

    pub fn close(&mut self, condition: Option<&str>) {
        if !std::mem::replace(&mut self.close_sent, true) {
            let error = condition.map(|condition| Error::new(condition, ""));
            self.write_frame(0, &Performative::Close(Close { error }));
        }
    }

    /// Tells the router the state of deliveries of one link, from `first` to `last`.
    pub fn dispose(&mut self, link: LinkIndex, first: u32, last: u32, state: Option<&[u8]>, settled: bool) {
        let (session, role) = (self.links[link.0].session, self.links[link.0].role);
        if self.sessions[session.0].end_sent || self.close_sent {
            return;
        }
        if settled {
            match role {
                Role::Receiver => self.sessions[session.0].incoming_between(first, last, true),
                Role::Sender => self.sessions[session.0].outgoing_between(first, last, true),
            };
        }
        let last = Some(last).filter(|last| *last != first);
        let disposition = Disposition { role, first, last, settled, state, batchable: false };
        let channel = self.sessions[session.0].channel;
        self.write_frame(channel, &Performative::Disposition(disposition));
    }

    /// An empty frame.
    pub fn heartbeat(&mut self) {
        if self.phase == Phase::Frames && !self.close_sent {
            self.write(&frame::HEARTBEAT);
        }
    }

    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Output bytes; the caller drains what it takes.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    pub fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    // ── writing ──

    fn write(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
        self.written += bytes.len() as u64;
    }

    fn write_frame(&mut self, channel: u16, performative: &Performative<'_>) {
        let before = self.output.len();
        let start = frame::begin(&mut self.output, frame::TYPE_AMQP, channel);
        performative.encode(&mut self.output);
        frame::finish(&mut self.output, start);
        self.written += (self.output.len() - before) as u64;
    }

    fn write_sasl_init(&mut self) {
        let before = self.output.len();
        let start = frame::begin(&mut self.output, frame::TYPE_SASL, 0);
        let init = Init { mechanism: "ANONYMOUS", initial_response: Some(b"sim"), hostname: None };
        SaslFrame::Init(init).encode(&mut self.output);
        frame::finish(&mut self.output, start);
        self.written += (self.output.len() - before) as u64;
    }

    fn write_open(&mut self) {
        self.write(&PROTOCOL_HEADER_AMQP);
        let container_id = self.settings.container_id.clone();
        let open = Open {
            container_id: &container_id,
            max_frame_size: self.settings.max_frame_size,
            idle_time_out: self.settings.idle_time_out,
            ..Open::default()
        };
        self.write_frame(0, &Performative::Open(open));
    }

    /// A session's flow, with a link's part where one is given: (handle, delivery-count, credit, drain).
    fn write_flow(&mut self, session: SessionIndex, link: Option<(u32, u32, u32, bool)>) {
        let session = &self.sessions[session.0];
        let mut flow = Flow {
            next_incoming_id: session.next_incoming_id(),
            incoming_window: session.incoming_window(),
            next_outgoing_id: session.next_outgoing_id,
            outgoing_window: u32::MAX,
            ..Flow::default()
        };
        if let Some((handle, delivery_count, credit, drain)) = link {
            flow.handle = Some(handle);
            flow.delivery_count = Some(delivery_count);
            flow.link_credit = Some(credit);
            flow.drain = drain;
        }
        self.write_frame(session.channel, &Performative::Flow(flow));
    }

    fn violate(&mut self, what: impl Into<String>) {
        self.violations.push(what.into());
    }
}

fn condition(error: Option<&Error<'_>>) -> Option<String> {
    error.map(|error| format!("{}: {}", error.condition, error.description.unwrap_or_default()))
}

/// A state's kind, in the words that routing uses.
pub fn state_kind(raw: &[u8]) -> StateKind {
    match state::kind(raw) {
        state::Kind::Received => StateKind::Received,
        state::Kind::Accepted => StateKind::Accepted,
        state::Kind::Rejected => StateKind::Rejected,
        state::Kind::Released => StateKind::Released,
        state::Kind::Modified => StateKind::Modified,
        _ => StateKind::Other,
    }
}

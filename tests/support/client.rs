//! The client's side of a connection, for tests: writes what it is told, right or wrong, and cuts what it gets into
//! frames. It keeps no protocol state of its own; see [`Link`] for the little that a test of many messages wants.

use ringway::wire::frame;
use ringway::wire::performative::{
    Attach, Begin, Close, Detach, Disposition, End, Flow, Open, Performative, Role, SenderSettleMode, Transfer,
};
use ringway::wire::sasl::{Init, SaslFrame};
use ringway::wire::state;
use ringway::wire::terminus::{Source, Target};
use ringway::wire::{PROTOCOL_HEADER_AMQP, PROTOCOL_HEADER_SASL};
use std::collections::VecDeque;

/// A frame from the router.
#[derive(Clone, PartialEq, Eq)]
pub struct Received {
    pub frame_type: u8,
    pub channel: u16,
    pub body: Vec<u8>,
    /// Bytes of the whole frame.
    pub size: usize,
}

impl Received {
    pub fn performative(&self) -> Performative<'_> {
        assert_eq!(self.frame_type, frame::TYPE_AMQP, "an AMQP frame");
        Performative::decode(&self.body).expect("the router's frames are valid").0
    }

    pub fn payload(&self) -> &[u8] {
        let (_, length) = Performative::decode(&self.body).expect("the router's frames are valid");
        &self.body[length..]
    }

    pub fn sasl(&self) -> SaslFrame<'_> {
        assert_eq!(self.frame_type, frame::TYPE_SASL, "a SASL frame");
        SaslFrame::decode(&self.body).expect("the router's frames are valid")
    }

    pub fn is_heartbeat(&self) -> bool {
        self.body.is_empty()
    }

    /// The performative's name with its error's condition, where it has one: `detach amqp:link:stolen`.
    pub fn brief(&self) -> String {
        if self.is_heartbeat() {
            return "heartbeat".to_owned();
        }
        if self.frame_type == frame::TYPE_SASL {
            return match self.sasl() {
                SaslFrame::Mechanisms(_) => "mechanisms".to_owned(),
                SaslFrame::Outcome(outcome) => format!("outcome {}", outcome.code),
                SaslFrame::Challenge(_) => "challenge".to_owned(),
                other => format!("{other:?}"),
            };
        }
        let performative = self.performative();
        let error = match performative {
            Performative::Detach(Detach { error, .. }) => error,
            Performative::End(End { error }) => error,
            Performative::Close(Close { error }) => error,
            _ => None,
        };
        match error {
            Some(error) => format!("{} {}", performative.name(), error.condition),
            None => performative.name().to_owned(),
        }
    }
}

impl std::fmt::Debug for Received {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{}] {}", self.channel, self.brief())
    }
}

#[derive(Default)]
pub struct Client {
    output: Vec<u8>,
    input: Vec<u8>,
    /// Protocol headers that came.
    pub headers: Vec<[u8; 8]>,
    frames: VecDeque<Received>,
}

/// Writing.
impl Client {
    pub fn raw(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
    }

    pub fn frame(&mut self, channel: u16, performative: Performative<'_>) {
        let start = frame::begin(&mut self.output, frame::TYPE_AMQP, channel);
        performative.encode(&mut self.output);
        frame::finish(&mut self.output, start);
    }

    /// A frame with this body, whatever it is.
    pub fn frame_raw(&mut self, frame_type: u8, channel: u16, body: &[u8]) {
        let start = frame::begin(&mut self.output, frame_type, channel);
        self.output.extend_from_slice(body);
        frame::finish(&mut self.output, start);
    }

    pub fn header(&mut self) {
        self.raw(&PROTOCOL_HEADER_AMQP);
    }

    pub fn sasl_init(&mut self, mechanism: &str, initial_response: Option<&[u8]>) {
        let start = frame::begin(&mut self.output, frame::TYPE_SASL, 0);
        Init { mechanism, initial_response, hostname: Some("test") }.encode(&mut self.output);
        frame::finish(&mut self.output, start);
    }

    /// SASL header and init.
    pub fn sasl_anonymous(&mut self) {
        self.raw(&PROTOCOL_HEADER_SASL);
        self.sasl_init("ANONYMOUS", Some(b"guest"));
    }

    pub fn open(&mut self, open: Open<'_>) {
        self.frame(0, Performative::Open(open));
    }

    /// Protocol header and an open with a container-id.
    pub fn header_and_open(&mut self) {
        self.header();
        self.open(Open { container_id: "client", ..Open::default() });
    }

    pub fn begin(&mut self, channel: u16) {
        self.begin_with(channel, Begin { incoming_window: 2_048, outgoing_window: 2_048, ..Begin::default() });
    }

    pub fn begin_with(&mut self, channel: u16, begin: Begin<'_>) {
        self.frame(channel, Performative::Begin(begin));
    }

    pub fn attach(&mut self, channel: u16, attach: Attach<'_>) {
        self.frame(channel, Performative::Attach(attach));
    }

    /// Attaches a sending link to an address.
    pub fn attach_sender(&mut self, channel: u16, handle: u32, name: &str, address: &str) {
        let (source, target) = (source(None), target(Some(address)));
        self.attach(
            channel,
            Attach {
                name,
                handle,
                role: Role::Sender,
                snd_settle_mode: SenderSettleMode::Mixed,
                source: Some(&source),
                target: Some(&target),
                initial_delivery_count: Some(0),
                ..Attach::default()
            },
        );
    }

    /// Attaches a receiving link to an address.
    pub fn attach_receiver(&mut self, channel: u16, handle: u32, name: &str, address: &str) {
        let (source, target) = (source(Some(address)), target(None));
        let (source, target) = (Some(&source[..]), Some(&target[..]));
        self.attach(channel, Attach { name, handle, role: Role::Receiver, source, target, ..Attach::default() });
    }

    pub fn flow(&mut self, channel: u16, flow: Flow<'_>) {
        self.frame(channel, Performative::Flow(flow));
    }

    /// Gives credit as a receiver whose session's windows stay wide open.
    pub fn credit(&mut self, channel: u16, handle: u32, delivery_count: u32, credit: u32) {
        self.flow(channel, Flow { handle: Some(handle), ..wide_open(delivery_count, credit) });
    }

    pub fn transfer(&mut self, channel: u16, transfer: Transfer<'_>, payload: &[u8]) {
        let start = frame::begin(&mut self.output, frame::TYPE_AMQP, channel);
        transfer.encode(&mut self.output);
        self.output.extend_from_slice(payload);
        frame::finish(&mut self.output, start);
    }

    /// A whole unsettled delivery in one frame.
    pub fn send(&mut self, channel: u16, handle: u32, delivery_id: u32, payload: &[u8]) {
        self.transfer(channel, first(handle, delivery_id, &delivery_id.to_be_bytes()), payload);
    }

    pub fn disposition(&mut self, channel: u16, disposition: Disposition<'_>) {
        self.frame(channel, Performative::Disposition(disposition));
    }

    /// As the receiver: accepts and settles.
    pub fn accept(&mut self, channel: u16, first: u32, last: Option<u32>) {
        let (role, state) = (Role::Receiver, Some(&state::ACCEPTED[..]));
        self.disposition(channel, Disposition { role, first, last, settled: true, state, batchable: false });
    }

    pub fn detach(&mut self, channel: u16, handle: u32, closed: bool) {
        self.frame(channel, Performative::Detach(Detach { handle, closed, error: None }));
    }

    pub fn end(&mut self, channel: u16) {
        self.frame(channel, Performative::End(End { error: None }));
    }

    pub fn close(&mut self) {
        self.frame(0, Performative::Close(Close { error: None }));
    }

    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    pub fn has_output(&self) -> bool {
        !self.output.is_empty()
    }
}

/// Reading.
impl Client {
    pub fn feed(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        let mut at = 0;
        while let Some(head) = self.input.get(at..at + 8) {
            let head: [u8; 8] = head.try_into().expect("eight bytes");
            if head[..4] == *b"AMQP" {
                self.headers.push(head);
                at += 8;
                continue;
            }
            let header = frame::parse_header(&head).expect("the router's frames are valid");
            let size = header.size as usize;
            let Some(whole) = self.input.get(at..at + size) else { break };
            let body = whole[header.body_start()..].to_vec();
            self.frames.push_back(Received { frame_type: header.frame_type, channel: header.channel, body, size });
            at += size;
        }
        self.input.drain(..at);
    }

    pub fn next(&mut self) -> Option<Received> {
        self.frames.pop_front()
    }

    /// All frames that came, in brief.
    pub fn briefs(&mut self) -> Vec<String> {
        self.frames.drain(..).map(|frame| frame.brief()).collect()
    }

    pub fn frames(&mut self) -> Vec<Received> {
        self.frames.drain(..).collect()
    }

    /// Whether an incomplete frame waits.
    pub fn is_between_frames(&self) -> bool {
        self.input.is_empty()
    }
}

/// The first, or only, transfer of a delivery.
pub fn first(handle: u32, delivery_id: u32, tag: &[u8]) -> Transfer<'_> {
    Transfer {
        handle,
        delivery_id: Some(delivery_id),
        delivery_tag: Some(tag),
        message_format: Some(0),
        ..Transfer::default()
    }
}

/// A flow whose session part gives all that is wanted. Its windows are relative to ids that a new session starts with.
pub fn wide_open(delivery_count: u32, link_credit: u32) -> Flow<'static> {
    Flow {
        next_incoming_id: None,
        incoming_window: u32::MAX,
        outgoing_window: 2_048,
        delivery_count: Some(delivery_count),
        link_credit: Some(link_credit),
        ..Flow::default()
    }
}

pub fn source(address: Option<&str>) -> Vec<u8> {
    let mut out = Vec::new();
    Source { address, ..Source::default() }.encode(&mut out);
    out
}

pub fn target(address: Option<&str>) -> Vec<u8> {
    let mut out = Vec::new();
    Target { address, ..Target::default() }.encode(&mut out);
    out
}

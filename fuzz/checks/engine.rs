//! What must hold of an engine whatever its peer sends and its driver says. The bytes are a script: frames of the peer, right
//! or wrong, and commands of a driver that keeps the rules (one delivery under way a link). Shared, by inclusion, by the
//! fuzz target and the test that runs its corpus.
//!
//! Held: nothing panics; all output is frames that the peer may be sent (whole, no larger than its max-frame-size,
//! decodable, on begun channels, none behind close); a link brings no more deliveries than were granted; events end; what runs tell
//! is what single events do, and the engine writes the same behind it.

use std::sync::Arc;
use std::time::Duration;

use ringway::engine::{
    Direction, Engine, Event, LinkAnswer, ReceiverSettleMode, Run, SenderSettleMode, Sent, Settings, Transmit,
};
use ringway::ids::{DeliveryId, LinkHandle, LinkId, SessionNumber, WireDelivery};
use ringway::outcome::{Fault, State};
use ringway::payload::{Payload, Range};
use ringway::run::{Settled, RUN_MAX};
use ringway::time::Time;
use ringway::wire::frame;
use ringway::wire::performative as wire;
use ringway::wire::performative::Performative;
use ringway::wire::sasl::SaslFrame;
use ringway::wire::terminus::{Source, Target};
use ringway::wire::{state, PROTOCOL_HEADER_AMQP, PROTOCOL_HEADER_SASL};

#[path = "script.rs"]
mod script;
use script::Script;

/// More than any script's events.
const EVENTS_MAX: usize = 1 << 20;

pub fn check(data: &[u8]) {
    assert!(play(data, false) == play(data, true), "runs change what an engine writes");
}

/// Plays a script, with events one by one or by runs, and gives what the engine wrote.
fn play(data: &[u8], by_runs: bool) -> Vec<u8> {
    let mut script = Script { data };
    let mut driver = Driver::new(&mut script);
    driver.by_runs = by_runs;
    if !script.byte().is_multiple_of(4) {
        driver.prelude(&mut script);
    }
    while !script.data.is_empty() && !driver.over {
        driver.step(&mut script);
    }
    driver.input_end();
    driver.written
}

impl Script<'_> {
    /// Small as a rule, and then near the ends of the range.
    fn number(&mut self) -> u32 {
        match self.byte() {
            small @ 0..=199 => small.into(),
            near @ 200..=227 => u32::MAX - (near - 200) as u32,
            near @ 228..=239 => (1u32 << 31).wrapping_add(near as u32).wrapping_sub(234),
            _ => u32::from_be_bytes([self.byte(), self.byte(), self.byte(), self.byte()]),
        }
    }

    /// Whether something shall go wrong here.
    fn wrong(&mut self) -> bool {
        self.byte() >= 240
    }

    /// A handle that the prelude's links have, or nearly any.
    fn handle(&mut self) -> u32 {
        match self.byte() {
            right @ 0..=239 => right as u32 % 4,
            wrong => wrong as u32 % 11,
        }
    }

    fn optional(&mut self) -> Option<u32> {
        let flag = self.flag();
        flag.then(|| self.number())
    }

    fn state(&mut self) -> Option<&'static [u8]> {
        match self.byte() % 6 {
            0 => None,
            1 => Some(&state::RELEASED),
            2 => Some(b"\x00\x53\x25\xc0\x0a\x01\x00\x53\x1d\xc0\x04\x01\xa3\x01x"),
            3 => Some(b"\x00\x53\x27\xc0\x02\x01\x41"),
            4 => Some(b"\x00\x53\x23\xc0\x03\x02\x43\x44"),
            _ => Some(&state::ACCEPTED),
        }
    }

    fn payload(&mut self) -> Payload {
        let len = match self.byte() {
            small @ 0..=199 => small as usize,
            large => (large as usize - 199) * 97,
        };
        Payload::copied(&vec![0x75; len])
    }
}

struct LinkModel {
    link: LinkHandle,
    direction: Direction,
    session: SessionNumber,
    granted: u64,
    /// The delivery under way on it.
    sending: Option<DeliveryId>,
    /// Said to be complete.
    whole: bool,
}

struct Driver {
    engine: Engine,
    now: Time,
    links: Vec<LinkModel>,
    /// Deliveries from the peer, and to it.
    incoming: Vec<WireDelivery>,
    outgoing: Vec<WireDelivery>,
    next: u32,
    /// The peer's next delivery-id, and whether it is in the middle of a delivery, and on which handle.
    delivery_id: u32,
    arriving: bool,
    arriving_on: u32,
    over: bool,
    peer: Peer,
    /// Runs are asked for, and their items taken for single events.
    by_runs: bool,
    written: Vec<u8>,
}

/// Reads what the engine sends.
#[derive(Default)]
struct Peer {
    bytes: Vec<u8>,
    headers: u32,
    begun: Vec<u16>,
    closed: bool,
}

impl Driver {
    fn new(script: &mut Script<'_>) -> Driver {
        let flags = script.byte();
        let settings = Settings {
            max_frame_size: 512 << (flags & 3),
            channel_max: 3,
            handle_max: 7,
            idle_timeout: Duration::from_secs(if flags & 4 == 0 { 0 } else { 10 }),
            sasl_required: flags & 8 != 0,
            session_incoming_bytes: 8 * 1024,
            max_message_size: if flags & 16 == 0 { 0 } else { 1000 },
            initial_serial: if flags & 32 == 0 { 0 } else { u32::MAX - 3 },
            ..Settings::default()
        };
        let mut engine = Engine::new(Arc::new(settings), Time::ZERO);
        engine.set_trace(flags & 64 != 0);
        Driver {
            engine,
            now: Time::ZERO,
            links: Vec::new(),
            incoming: Vec::new(),
            outgoing: Vec::new(),
            next: 0,
            delivery_id: 0,
            arriving: false,
            arriving_on: 0,
            over: false,
            peer: Peer::default(),
            by_runs: false,
            written: Vec::new(),
        }
    }

    /// Opens a connection and a session, so that most scripts come further than that.
    fn prelude(&mut self, script: &mut Script<'_>) {
        let mut bytes = Vec::new();
        if self.engine.settings().sasl_required {
            bytes.extend_from_slice(&PROTOCOL_HEADER_SASL);
            let start = frame::begin(&mut bytes, frame::TYPE_SASL, 0);
            ringway::wire::sasl::Init { mechanism: "ANONYMOUS", ..Default::default() }.encode(&mut bytes);
            frame::finish(&mut bytes, start);
        }
        bytes.extend_from_slice(&PROTOCOL_HEADER_AMQP);
        self.input(&bytes, script);
        let open = wire::Open { container_id: "peer", max_frame_size: 512, ..wire::Open::default() };
        self.frame(0, Performative::Open(open), script);
        let begin = wire::Begin { incoming_window: 20, outgoing_window: 20, ..wire::Begin::default() };
        self.frame(0, Performative::Begin(begin), script);
        for _ in 0..script.byte() % 8 {
            self.attach(0, script);
        }
        let window = script.byte() as u32;
        let flow =
            wire::Flow { incoming_window: window, handle: Some(1), link_credit: Some(window), ..wire::Flow::default() };
        if self.links.iter().any(|model| model.direction == Direction::Outgoing) {
            self.frame(0, Performative::Flow(flow), script);
        }
        for model in &mut self.links {
            model.granted += window as u64;
            self.engine.grant(model.link, window, false);
        }
        self.events();
    }

    fn step(&mut self, script: &mut Script<'_>) {
        match script.byte() % 28 {
            0 if script.wrong() => {
                let (frame_type, channel, body) = (script.byte() % 3, script.byte() as u16 % 5, script.bytes());
                let mut bytes = Vec::new();
                let start = frame::begin(&mut bytes, frame_type, channel);
                bytes.extend_from_slice(body);
                frame::finish(&mut bytes, start);
                self.input(&bytes, script);
            }
            1 if script.wrong() => {
                let bytes = script.bytes().to_vec();
                self.input(&bytes, script);
            }
            0..=11 => self.peer_frame(script),
            12 => self.with_link(script, Direction::Incoming, |driver, at, script| {
                let (add, drain) = (script.byte() as u32, script.flag());
                driver.links[at].granted += add as u64;
                driver.engine.grant(driver.links[at].link, add, drain);
            }),
            13 | 14 => self.with_link(script, Direction::Outgoing, Driver::send),
            15 => self.with_link(script, Direction::Outgoing, |driver, at, _| {
                let model = &mut driver.links[at];
                let Some(delivery) = model.sending else { return };
                if !model.whole && driver.engine.send_abort(model.link, delivery) != Sent::Partly {
                    model.sending = None;
                }
                model.whole = true;
            }),
            16 | 17 => {
                let (settled, state) = (script.flag(), driver_state(script.byte()));
                if let Some(wire) = pick(&self.incoming, script.byte()) {
                    self.engine.dispose_incoming(wire, state, settled);
                }
            }
            18 => {
                let (settled, state) = (script.flag(), driver_state(script.byte()));
                if let Some(wire) = pick(&self.outgoing, script.byte()) {
                    self.engine.dispose_outgoing(wire, state, settled);
                }
            }
            19 => self
                .with_link(script, Direction::Outgoing, |driver, at, _| driver.engine.drained(driver.links[at].link)),
            20 => {
                let direction = if script.flag() { Direction::Incoming } else { Direction::Outgoing };
                self.with_link(script, direction, |driver, at, script| {
                    let fault = match script.byte() % 8 {
                        0 => Fault::connection("amqp:internal-error", "fuzz"),
                        1 => Fault::session("amqp:internal-error", "fuzz"),
                        _ => Fault::link("amqp:resource-deleted", "fuzz"),
                    };
                    driver.engine.detach(driver.links[at].link, &fault);
                });
            }
            21 => self.engine.payload_released(SessionNumber(script.byte() as u16 % 5), script.number() as usize),
            22..=24 => self.output(),
            25 => {
                self.now = Time::from_millis(self.now.as_millis() + script.number() as u64 % 30_000);
                self.engine.handle_timeout(self.now);
                let _ = self.engine.poll_timeout();
            }
            26 if script.byte().is_multiple_of(16) => self.engine.close(None),
            26 => {}
            _ if script.byte().is_multiple_of(16) => self.engine.handle_end_of_stream(self.now),
            _ => {}
        }
        self.events();
    }

    /// One frame of the peer's, of the right form.
    fn peer_frame(&mut self, script: &mut Script<'_>) {
        let channel = match script.byte() {
            0..=249 => 0,
            other => other as u16 % 6,
        };
        let properties = None;
        let performative = match script.byte() % 20 {
            0..=6 => {
                let tag = script.bytes();
                // The next delivery, or more of the one under way, or anything.
                let wrong = script.wrong();
                let first = if wrong { script.flag() } else { !self.arriving };
                let more = script.byte().is_multiple_of(4);
                let handle = if wrong { script.handle() } else { script.byte() as u32 % 2 * 2 };
                let handle = if first { handle } else { self.arriving_on };
                let delivery_id = if wrong { script.number() } else { self.delivery_id };
                let transfer = wire::Transfer {
                    handle,
                    delivery_id: first.then_some(delivery_id),
                    delivery_tag: first.then_some(&tag[..tag.len().min(if wrong { 40 } else { 32 })]),
                    message_format: if first { Some(0) } else { None },
                    settled: if script.flag() { Some(script.flag()) } else { None },
                    more,
                    state: script.state(),
                    aborted: script.byte().is_multiple_of(8),
                    ..wire::Transfer::default()
                };
                if !wrong {
                    self.delivery_id = self.delivery_id.wrapping_add(first as u32);
                    (self.arriving, self.arriving_on) = (more && !transfer.aborted, handle);
                }
                let mut bytes = Vec::new();
                let payload = script.payload().to_vec();
                transfer.encode_frame(&mut bytes, channel, payload.len());
                bytes.extend_from_slice(&payload);
                if !wrong && first && !self.arriving {
                    // Whole: with others like it behind, some of them.
                    for _ in 0..tag.len() % 5 {
                        let next = wire::Transfer { delivery_id: Some(self.delivery_id), state: None, ..transfer };
                        self.delivery_id = self.delivery_id.wrapping_add(1);
                        next.encode_frame(&mut bytes, channel, payload.len());
                        bytes.extend_from_slice(&payload);
                    }
                }
                return self.input(&bytes, script);
            }
            7..=9 => Performative::Flow(wire::Flow {
                next_incoming_id: script.optional(),
                incoming_window: script.number(),
                next_outgoing_id: script.number(),
                outgoing_window: script.number(),
                handle: script.flag().then(|| script.handle()),
                delivery_count: script.optional(),
                link_credit: script.optional(),
                available: None,
                drain: script.flag(),
                echo: script.flag(),
                properties,
            }),
            10..=12 => {
                let receiver = script.flag();
                // Ids that exist, as a rule.
                let start = if receiver { self.engine.settings().initial_serial } else { 0 };
                let first = match script.byte() {
                    right @ 0..=239 => start.wrapping_add(right as u32 % 8),
                    _ => script.number(),
                };
                let last = match script.byte() {
                    0..=127 => None,
                    right @ 128..=239 => Some(first.wrapping_add(right as u32 % 8)),
                    _ => Some(script.number()),
                };
                Performative::Disposition(wire::Disposition {
                    role: if receiver { wire::Role::Receiver } else { wire::Role::Sender },
                    first,
                    last,
                    settled: script.flag(),
                    state: script.state(),
                    batchable: false,
                })
            }
            13..=15 => return self.attach(channel, script),
            16 => {
                let detach = wire::Detach { handle: script.handle(), closed: script.flag(), error: None };
                Performative::Detach(detach)
            }
            17 if script.wrong() => Performative::Begin(wire::Begin {
                remote_channel: None,
                next_outgoing_id: script.number(),
                incoming_window: script.number(),
                outgoing_window: script.number(),
                handle_max: script.number(),
                ..wire::Begin::default()
            }),
            18 if script.wrong() => Performative::End(wire::End::default()),
            _ => match script.byte() % 16 {
                0 => Performative::Close(wire::Close::default()),
                1 => Performative::Open(wire::Open { container_id: "again", ..wire::Open::default() }),
                _ => Performative::Flow(wire::Flow { incoming_window: 100, echo: true, ..wire::Flow::default() }),
            },
        };
        self.frame(channel, performative, script);
    }

    fn attach(&mut self, channel: u16, script: &mut Script<'_>) {
        let (index, kind) = (script.byte(), script.byte());
        // Of the four links, even ones bring deliveries; a name comes back with its handle and role, as a rule.
        let wrong = script.wrong();
        let handle = if wrong { script.number() % 10 } else { index as u32 % 4 };
        let receiver = if wrong { script.flag() } else { index & 1 == 1 };
        let (mut source, mut target) = (Vec::new(), Vec::new());
        let address = (kind & 1 == 0).then_some("queue");
        let dynamic = address.is_none() && kind & 2 == 0;
        Source { address, dynamic, ..Source::default() }.encode(&mut source);
        Target { address, dynamic, ..Target::default() }.encode(&mut target);
        let attach = wire::Attach {
            name: ["a", "b", "c", "d"][index as usize % 4],
            handle,
            role: if receiver { wire::Role::Receiver } else { wire::Role::Sender },
            snd_settle_mode: [wire::SenderSettleMode::Mixed, wire::SenderSettleMode::Settled][kind as usize / 4 % 2],
            source: (kind & 24 != 8).then_some(source.as_slice()),
            target: (kind & 24 != 16).then_some(target.as_slice()),
            max_message_size: (kind % 16 == 6).then_some(300),
            initial_delivery_count: if wrong { None } else { Some(kind as u32 >> 5) },
            ..wire::Attach::default()
        };
        self.frame(channel, Performative::Attach(attach), script);
    }

    fn frame(&mut self, channel: u16, performative: Performative<'_>, script: &mut Script<'_>) {
        let mut bytes = Vec::new();
        let start = frame::begin(&mut bytes, frame::TYPE_AMQP, channel);
        performative.encode(&mut bytes);
        frame::finish(&mut bytes, start);
        self.input(&bytes, script);
    }

    /// Gives the engine bytes in one or two pieces.
    fn input(&mut self, bytes: &[u8], script: &mut Script<'_>) {
        if !self.engine.wants_input() {
            return;
        }
        let cut = match script.byte() {
            whole @ 0..=127 => whole as usize * 1000,
            cut => cut as usize - 128,
        };
        let (first, second) = bytes.split_at(cut.min(bytes.len()));
        for part in [first, second] {
            if !part.is_empty() {
                self.engine.handle_input(Range::copied(part), self.now);
                self.events();
            }
        }
    }

    fn with_link(
        &mut self,
        script: &mut Script<'_>,
        direction: Direction,
        act: impl FnOnce(&mut Driver, usize, &mut Script<'_>),
    ) {
        let wanted = script.byte() as usize;
        let places: Vec<usize> = (0..self.links.len()).filter(|&at| self.links[at].direction == direction).collect();
        if !places.is_empty() {
            act(self, places[wanted % places.len()], script);
        }
    }

    fn send(&mut self, at: usize, script: &mut Script<'_>) {
        let (payload, complete, settled) = (script.payload(), script.flag(), script.flag());
        let model = &mut self.links[at];
        match model.sending {
            Some(_) if model.whole => {}
            Some(delivery) => {
                model.whole = complete;
                self.engine.send_more(model.link, delivery, complete, payload);
            }
            None => {
                let delivery = DeliveryId { index: self.next, generation: 0 };
                self.next += 1;
                if self.engine.send(model.link, delivery, 0, settled, complete, payload) == Sent::Partly {
                    model.sending = Some(delivery);
                    model.whole = complete;
                }
            }
        }
    }

    fn events(&mut self) {
        for _ in 0..EVENTS_MAX {
            while self.engine.poll_trace().is_some() {}
            if self.by_runs && self.run() {
                continue;
            }
            let Some(event) = self.engine.poll_event() else { return };
            assert!(!self.over, "no event follows Closed: {event:?}");
            self.event(event);
        }
        panic!("events without end");
    }

    /// The next run, where there is one.
    fn run(&mut self) -> bool {
        let (mut arrived, mut settled) = (Vec::new(), Vec::new());
        match self.engine.poll_run(&mut arrived, &mut settled) {
            None => return false,
            Some(Run::Arrived(run)) => {
                assert!(!arrived.is_empty() && arrived.len() <= RUN_MAX && settled.is_empty());
                for item in arrived {
                    self.event(Event::Transfer(run.transfer(&item)));
                }
            }
            Some(Run::Settled(state)) => {
                assert!(!settled.is_empty() && settled.len() <= RUN_MAX && arrived.is_empty());
                for Settled { delivery, wire, .. } in settled {
                    self.event(Event::ReceiverDisposition { delivery, wire, state: state.clone(), settled: true });
                }
            }
        }
        true
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::SaslInit(_) => self.engine.sasl_outcome(true),
            Event::SaslMechanisms(_) | Event::SaslChallenge(_) | Event::LinkAnswered { .. } => {
                panic!("told only to the side that connects: {event:?}")
            }
            Event::Attached { link, attach } => {
                self.next += 1;
                if self.next.is_multiple_of(7) {
                    return self.engine.refuse_link(link, &Fault::link("amqp:not-found", "fuzz"));
                }
                let direction = attach.direction.expect("an attach has a direction");
                let answer = LinkAnswer {
                    sender_settle_mode: SenderSettleMode::Mixed,
                    receiver_settle_mode: ReceiverSettleMode::First,
                    dynamic_address: Some("dynamic-1").filter(|_| self.next.is_multiple_of(2)),
                    max_message_size: None,
                };
                self.engine.accept_link(link, LinkId { index: self.next, generation: 0 }, answer);
                let session = attach.session;
                self.links.push(LinkModel { link, direction, session, granted: 0, sending: None, whole: false });
            }
            Event::LinkEnded { link, token, .. } => {
                let before = self.links.len();
                self.links.retain(|model| model.link != link);
                assert_eq!(self.links.len() < before, token.is_some(), "a link ends once");
            }
            Event::Transfer(transfer) => {
                let model = self.links.iter_mut().find(|model| model.link == transfer.link);
                let model = model.expect("transfers come on links that live");
                assert_eq!(model.direction, Direction::Incoming);
                assert_eq!(model.session, transfer.wire.session);
                model.granted = model.granted.checked_sub(1).expect("no transfer beyond what was granted");
                self.next += 1;
                if !self.next.is_multiple_of(3) {
                    let token = DeliveryId { index: self.next, generation: 0 };
                    self.engine.set_incoming_token(transfer.wire, token);
                }
                self.incoming.push(transfer.wire);
            }
            Event::TransferMore { link, .. } | Event::TransferAborted { link, .. } => {
                assert!(self.links.iter().any(|model| model.link == link), "transfers come on links that live");
            }
            Event::ReceiverDisposition { wire, .. } => self.outgoing.push(wire),
            Event::PayloadSent { link, complete, delivery, .. } => {
                let model = self.links.iter_mut().find(|model| model.link == link);
                let model = model.expect("payload is sent on links that live");
                assert_eq!(model.sending, Some(delivery), "only of the delivery under way");
                if complete {
                    model.sending = None;
                }
            }
            Event::Unsent { delivery } => {
                let model = self.links.iter_mut().find(|model| model.sending == Some(delivery));
                model.expect("only what is under way can be unsent").sending = None;
            }
            Event::Refused { delivery, link, .. } => {
                let is_it = |model: &LinkModel| model.link == link && model.sending == Some(delivery);
                let is_under_way = self.links.iter().any(is_it);
                assert!(is_under_way, "only what is under way can be refused");
            }
            // What it gave back may be granted anew, and was not used.
            Event::SenderDrained { link, .. } | Event::Credit { link, .. } => {
                assert!(self.links.iter().any(|model| model.link == link), "flows come on links that live");
            }
            Event::Closed { .. } => {
                assert!(self.links.is_empty(), "every link ends before the connection");
                self.over = true;
            }
            Event::Opened(_)
            | Event::SaslResponse(_)
            | Event::SenderDisposition { .. }
            | Event::SessionFull { .. }
            | Event::SessionWritable { .. } => {}
        }
    }

    /// Takes the output and reads it as the peer does.
    fn output(&mut self) {
        while let Some(transmit) = self.engine.poll_transmit() {
            assert_eq!(transmit.to_vec().len(), transmit.len());
            self.peer.read(&transmit, self.engine.remote_max_frame_size());
            self.written.extend(transmit.to_vec());
            self.engine.give_output(Transmit::default());
            self.events();
        }
    }

    fn input_end(&mut self) {
        self.events();
        self.output();
        self.engine.handle_end_of_stream(self.now);
        self.events();
        self.output();
        assert!(self.over && self.engine.is_closed(), "a connection ends with its stream");
        assert_eq!(self.engine.link_count(), 0);
    }
}

fn pick(from: &[WireDelivery], byte: u8) -> Option<WireDelivery> {
    // The latest are the likeliest to live.
    from.len().checked_sub(1 + byte as usize % 8).and_then(|at| from.get(at)).copied()
}

fn driver_state(byte: u8) -> Option<State> {
    match byte % 4 {
        0 => None,
        1 => Some(State::delivery_failed()),
        2 => Some(State::RELEASED),
        _ => Some(State::ACCEPTED),
    }
}

impl Peer {
    fn read(&mut self, transmit: &Transmit, frame_size_max: u32) {
        self.bytes.extend_from_slice(&transmit.to_vec());
        let bytes = std::mem::take(&mut self.bytes);
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            assert!(!self.closed, "nothing follows close");
            if rest.starts_with(b"AMQP") {
                self.headers += 1;
                assert!(self.headers <= 2 && rest.len() >= 8);
                rest = &rest[8..];
                continue;
            }
            let header = frame::parse_header(rest.first_chunk().expect("whole frames")).expect("right headers");
            let (one, behind) = rest.split_at(header.size as usize);
            assert!(one.len() <= frame_size_max as usize, "a frame of {} bytes", one.len());
            self.frame(&header, &one[header.body_start()..]);
            rest = behind;
        }
    }

    fn frame(&mut self, header: &frame::FrameHeader, body: &[u8]) {
        if header.frame_type == frame::TYPE_SASL {
            SaslFrame::decode(body).expect("right SASL frames");
            return;
        }
        if body.is_empty() {
            return;
        }
        let (performative, len) = Performative::decode(body).expect("right performatives");
        assert!(len == body.len() || matches!(performative, Performative::Transfer(_)), "only transfers have payload");
        match performative {
            Performative::Open(_) => {}
            Performative::Begin(_) => {
                assert!(!self.begun.contains(&header.channel), "a channel is begun once");
                self.begun.push(header.channel);
            }
            Performative::End(_) => {
                assert!(self.begun.contains(&header.channel), "a channel that is begun ends");
                self.begun.retain(|&channel| channel != header.channel);
            }
            Performative::Close(_) => self.closed = true,
            _ => assert!(self.begun.contains(&header.channel), "frames are on begun channels: {performative:?}"),
        }
    }
}

//! The engine itself: its state, getters, `handle_*` and `poll_*`. The commands are beside what they concern: `link.rs`,
//! `flow.rs`, `outgoing.rs`, `incoming.rs`, `disposition.rs`, `sasl.rs`, `opening.rs`, `connect.rs`.

use super::disposition::Cursor;
use super::fault::{self, Violation, Where};
use super::input::{usual_frame, Frame, Input};
use super::link::Link;
use super::numbers::Numbers;
use super::session::Session;
use super::table::Table;
use super::trace::Trace;
use super::*;
use crate::arena::Arena;
use crate::ids::{LinkHandle, LinkId, SessionNumber};
use crate::limits::{CHUNK_BYTES, OUTPUT_MARK_BYTES, OUTPUT_MARK_TIGHT_BYTES};
use crate::outcome::{Fault, Scope};
use crate::payload::{Payload, Range};
use crate::time::Time;
use crate::wire::error::Error;
use crate::wire::frame::{self, HEADER_BYTES};
use crate::wire::performative::Performative;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// With so much output unread by the peer its input rests, so that answers can't pile up.
pub(super) const OUTPUT_REST_BYTES: usize = 4 * OUTPUT_MARK_BYTES;
/// Input that may wait while it rests; beyond, the driver shouldn't read on.
const INPUT_REST_BYTES: usize = 2 * CHUNK_BYTES;
/// Frames, and deliveries that they name, that nothing is told of, before the driver may look at others. One read brings
/// thirty thousand.
const QUIET_MAX: u32 = 1024;

/// How far a connection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// The first protocol header is awaited.
    Header,
    SaslInit,
    /// The driver's word on the SASL exchange is awaited; input rests.
    SaslRest,
    SaslResponse,
    /// As the side that connects: the server's mechanisms are awaited.
    SaslMechanisms,
    /// As the side that connects: the server's challenge or outcome is awaited.
    SaslOutcome,
    HeaderAfterSasl,
    /// Headers are exchanged, the peer's open is awaited.
    Opening,
    Open,
    /// Ours is out; all but the peer's close is swallowed.
    CloseSent,
    Done,
}

impl Phase {
    /// Frames are SASL's.
    fn is_sasl(self) -> bool {
        matches!(self, Phase::SaslInit | Phase::SaslResponse | Phase::SaslMechanisms | Phase::SaslOutcome)
    }
}

/// Whether `Closed` was told.
pub(super) enum Closing {
    No,
    Due(Option<Box<RemoteError>>),
    Told,
}

/// What waits to be told, in order. Rare events only: what a frame says is given as it is read.
pub(super) enum Queued {
    Event(Event),
    /// A receiver's credit, as it is when it is told.
    Credit(LinkHandle),
    Ended {
        link: LinkHandle,
        closed: bool,
        error: Option<Box<RemoteError>>,
    },
}

/// What the peer's open said.
pub(super) struct Remote {
    pub max_frame_size: usize,
    pub channel_max: u16,
    /// How often we have to send something.
    pub heartbeat: Option<Duration>,
    pub container_id: Option<Box<str>>,
}

pub(super) type Links = Arena<LinkHandle, Link>;

/// One AMQP connection, our end.
pub struct Engine {
    pub(super) settings: Arc<Settings>,
    /// We connect: what we have to say first went out when the engine was made.
    pub(super) is_initiator: bool,
    /// We connect, and through a SASL layer.
    pub(super) asks_for_sasl: bool,
    /// Our open is out.
    pub(super) open_sent: bool,
    /// The protocol header that the peer answered with, where it isn't the one that was asked for.
    pub(super) other_protocol: Option<[u8; 8]>,
    /// The latest time that a `handle_*` told.
    pub(super) now: Time,
    pub(super) began: Time,
    pub(super) last_input: Time,
    pub(super) last_output: Time,
    pub(super) phase: Phase,
    pub(super) closing: Closing,
    pub(super) close_reason: Option<Fault>,
    pub(super) sasl_steps: u8,
    /// What the peer's open is refused with.
    pub(super) refusal: Option<Fault>,
    pub(super) remote: Remote,

    pub(super) input: Input,
    pub(super) held: super::window::Held,
    /// Input was left alone because the peer doesn't read its output.
    pub(super) input_rested: bool,
    /// The stream ended; told once the input at hand is done with.
    pub(super) end_of_stream: bool,
    pub(super) output: Transmit,
    /// Output bytes above which its links have no room: the usual mark, less while memory is tight.
    pub(super) output_mark: usize,

    /// From the peer's channels to ours.
    pub(super) channels: Table<u16>,
    /// By our channel.
    pub(super) sessions: Vec<Option<Box<Session>>>,
    /// Our channels.
    pub(super) channels_used: Numbers,
    pub(super) links: Links,
    /// Handles that we detached and the peer didn't yet, in all sessions.
    pub(super) detached: usize,
    /// Sessions that we ended and the peer didn't yet.
    pub(super) ends_awaited: usize,
    /// Links by name and whether the peer is the receiver (section 2.6.1).
    pub(super) names: BTreeMap<(Arc<str>, bool), LinkHandle>,

    pub(super) queue: VecDeque<Queued>,
    pub(super) cursor: Option<Cursor>,
    /// Sessions with dispositions or a flow to write.
    pub(super) dirty: Vec<u16>,
    /// Links with a flow to write.
    pub(super) flows: Vec<LinkHandle>,
    /// Sessions in which something waits for room in the output.
    pub(super) waiting: VecDeque<u16>,
    /// There may be room for what waits.
    pub(super) room_opened: bool,
    /// Links with sent payload to report.
    pub(super) reports: VecDeque<LinkHandle>,
    /// Deliveries that `send` was given.
    pub(super) sends: u64,
    pub(super) trace: Option<Box<Trace>>,
    /// A frame that opens the next batch of events.
    pub(super) deferred: Option<(u16, Range)>,
    /// The driver has acted on the batch before it.
    pub(super) is_batch_begun: bool,
    /// Frames, and deliveries that they named, that there was nothing to tell of, and the driver hasn't heard of.
    pub(super) quiet: u32,
}

/// Why a look at the input gave nothing.
enum Stop {
    /// Nothing to do without more input, or a word from the driver.
    Rest,
    /// What follows may end links: see `Engine::poll_batch`.
    BatchEnd,
    Violation(Violation),
}

/// What a look at the input came to: None: something was done; look again.
type Step = Result<Option<Event>, Stop>;

impl From<Violation> for Stop {
    #[inline(always)]
    fn from(violation: Violation) -> Stop {
        Stop::Violation(violation)
    }
}

/// Making and getters.
impl Engine {
    /// The side that accepts a connection.
    pub fn new(settings: Arc<Settings>, now: Time) -> Engine {
        Engine {
            input: Input::new(settings.memory.clone()),
            held: super::window::Held::new(settings.memory.clone()),
            settings,
            is_initiator: false,
            asks_for_sasl: false,
            open_sent: false,
            other_protocol: None,
            now,
            began: now,
            last_input: now,
            last_output: now,
            phase: Phase::Header,
            closing: Closing::No,
            close_reason: None,
            sasl_steps: 0,
            refusal: None,
            remote: Remote {
                max_frame_size: crate::limits::MAX_FRAME_SIZE_MIN as usize,
                channel_max: u16::MAX,
                heartbeat: None,
                container_id: None,
            },
            input_rested: false,
            end_of_stream: false,
            output: Transmit::default(),
            output_mark: OUTPUT_MARK_BYTES,
            channels: Table::new(),
            sessions: Vec::new(),
            channels_used: Numbers::default(),
            links: Arena::new(),
            detached: 0,
            ends_awaited: 0,
            names: BTreeMap::new(),
            queue: VecDeque::new(),
            cursor: None,
            dirty: Vec::new(),
            flows: Vec::new(),
            waiting: VecDeque::new(),
            room_opened: false,
            reports: VecDeque::new(),
            sends: 0,
            trace: None,
            deferred: None,
            is_batch_begun: false,
            quiet: 0,
        }
    }

    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// What `accept_link` said of this link; None: not accepted, or gone.
    #[inline]
    pub fn link_token(&self, link: LinkHandle) -> Option<LinkId> {
        self.links.get(link)?.token
    }

    pub fn link_direction(&self, link: LinkHandle) -> Option<Direction> {
        Some(self.links.get(link)?.direction)
    }

    pub fn link_session(&self, link: LinkHandle) -> Option<SessionNumber> {
        Some(SessionNumber(self.links.get(link)?.channel))
    }

    /// The name that the peer gave a link.
    pub fn link_name(&self, link: LinkHandle) -> Option<&str> {
        self.links.get(link).map(|link| &*link.name)
    }

    /// Links of a session.
    pub fn session_links(&self, session: SessionNumber) -> usize {
        let session = self.sessions.get(usize::from(session.0)).and_then(Option::as_ref);
        session.map_or(0, |session| session.handles.len())
    }

    /// Links that are not over.
    pub fn link_count(&self) -> usize {
        self.links.len()
    }

    /// Sessions that are begun.
    pub fn session_count(&self) -> usize {
        self.sessions.iter().flatten().filter(|session| !session.end_sent).count()
    }

    /// Unsettled deliveries from the peer and to it.
    pub fn unsettled_count(&self) -> (usize, usize) {
        let sessions = || self.sessions.iter().flatten();
        let incoming = sessions().map(|s| s.incoming.len() - s.incoming_stale as usize).sum();
        (incoming, sessions().map(|s| s.outgoing.len() - s.outgoing_stale as usize).sum())
    }

    /// Output bytes that wait for `poll_transmit`. What was noted and is not yet written isn't counted.
    #[inline]
    pub fn output_len(&self) -> usize {
        self.output.len()
    }

    /// Bytes that the output at hand has memory for.
    #[inline]
    pub fn output_capacity(&self) -> usize {
        self.output.bytes.capacity()
    }

    /// Whether so much output waits that `send` would hold what it is given.
    #[inline]
    pub fn is_output_above_mark(&self) -> bool {
        self.output.len() >= self.output_mark
    }

    /// No more input is taken and nothing but the output at hand will be sent. Flush, shut down the socket's write
    /// side, and close it when the peer did or after a bounded wait.
    pub fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::CloseSent | Phase::Done)
    }

    /// Closed, and nothing more is to come from the peer either: once flushed, the socket may go.
    pub fn is_finished(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Why the connection ended, where it wasn't the peer's close.
    pub fn close_reason(&self) -> Option<&Fault> {
        self.close_reason.as_ref()
    }

    /// The peer's container-id, once it opened.
    pub fn container_id(&self) -> Option<&str> {
        self.remote.container_id.as_deref()
    }

    /// Bytes of the largest frame that we send: what the peer takes, within our own bound.
    pub fn remote_max_frame_size(&self) -> u32 {
        self.remote.max_frame_size as u32
    }

    /// Whether the driver should go on reading: false while input rests (for the driver's word on SASL, or while the
    /// peer doesn't read its output) and enough of it is here. Look again after each command and transmit.
    pub fn wants_input(&self) -> bool {
        let rests = self.phase == Phase::SaslRest || self.is_input_resting();
        !(rests && self.input.len() >= INPUT_REST_BYTES)
    }

    /// Whether `poll_event` may have something to give without new input: call it again after `poll_transmit`.
    #[inline]
    pub fn has_work(&self) -> bool {
        let input = self.input_rested && !self.is_input_resting();
        let due = matches!(self.closing, Closing::Due(_)) || self.cursor.is_some() || self.end_of_stream;
        let due = due || self.deferred.is_some();
        due || self.room_opened || input || !self.queue.is_empty() || !self.reports.is_empty()
    }

    /// Nothing is here that `poll_event` could tell.
    #[inline]
    pub fn is_at_rest(&self) -> bool {
        self.input.len() == 0 && !self.has_work()
    }

    /// Whether a buffer should be lent (`give_output`) before the engine is told anything.
    #[inline]
    pub fn needs_output(&self) -> bool {
        self.output.bytes.capacity() == 0
    }

    #[inline]
    fn is_input_resting(&self) -> bool {
        self.output.len() >= OUTPUT_REST_BYTES && !self.is_closed()
    }
}

/// What happened outside.
impl Engine {
    /// Bytes came. Then drain `poll_event`.
    #[inline]
    pub fn handle_input(&mut self, bytes: Range, now: Time) {
        self.now = now;
        self.last_input = now;
        if self.phase != Phase::Done {
            self.input.push(bytes);
        }
    }

    /// The peer's end of stream, or the socket's error: what was received before is done with first, then every link
    /// ends, then the connection.
    pub fn handle_end_of_stream(&mut self, now: Time) {
        self.now = now;
        self.end_of_stream = true;
    }
}

/// Lending, tracing.
impl Engine {
    /// Lends an empty buffer for output; `poll_transmit` gives it back.
    pub fn give_output(&mut self, mut buffer: Transmit) {
        if self.output.is_empty() {
            buffer.clear();
            self.output = buffer;
            self.output_mark =
                if self.settings.memory.is_tight() { OUTPUT_MARK_TIGHT_BYTES } else { OUTPUT_MARK_BYTES };
        }
    }

    /// Takes a lent buffer back that nothing was written to, so that an engine at rest holds none.
    pub fn reclaim_output(&mut self) -> Option<Transmit> {
        (self.output.is_empty() && !self.needs_output()).then(|| std::mem::take(&mut self.output))
    }

    pub fn set_trace(&mut self, on: bool) {
        self.trace = on.then(Box::default);
    }

    /// Deliveries that `send` was given since the connection is here.
    #[inline]
    pub fn sends(&self) -> u64 {
        self.sends
    }

    pub fn is_traced(&self) -> bool {
        self.trace.is_some()
    }
}

/// What there is to do.
impl Engine {
    /// The next event, one batch after another: for a driver that acts on each at once.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        loop {
            let event = self.poll_batch();
            if event.is_some() || self.next_batch().is_none() {
                return event;
            }
        }
    }

    /// The next event of the batch at hand. A batch ends before a frame that may end a link, a session or the connection, so
    /// that a driver may tell all of it to routing and act on what comes of it at once, and loses nothing that is to
    /// be said on those links; and when it went through much that there is nothing to tell of. Then `next_batch`.
    #[inline]
    pub fn poll_batch(&mut self) -> Option<Event> {
        loop {
            if self.cursor.is_some() {
                if let Some(event) = self.next_disposition() {
                    return Some(event);
                }
                if self.quiet >= QUIET_MAX {
                    return None;
                }
            }
            if let Some(event) = self.next_queued() {
                return Some(event);
            }
            match self.step() {
                Ok(Some(event)) => return Some(event),
                Ok(None) if self.pauses() => return None,
                Ok(None) => {}
                Err(Stop::Violation(violation)) => self.fail(violation),
                Err(Stop::BatchEnd) => return None,
                Err(Stop::Rest) if self.end_of_stream => self.meet_end_of_stream(),
                Err(Stop::Rest) => {
                    self.input.gather_last();
                    return None;
                }
            }
        }
    }

    /// The driver has acted on all events of a batch. None: there is nothing without more input. Else another one begins, or it
    /// goes on, and this is what counts as events, since so much was gone through that there was nothing to tell of.
    #[inline]
    pub fn next_batch(&mut self) -> Option<u32> {
        if self.quiet >= QUIET_MAX {
            return Some(std::mem::take(&mut self.quiet));
        }
        self.is_batch_begun = self.deferred.is_some();
        self.is_batch_begun.then_some(0)
    }

    /// Counts a frame, or a delivery that one names, that there is nothing to tell of. Whether it is time for others.
    #[inline]
    pub(super) fn pauses(&mut self) -> bool {
        self.quiet += 1;
        self.quiet >= QUIET_MAX
    }

    /// All output at hand. Events may follow (room for what waited): see `has_work`.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        if !(self.dirty.is_empty() && self.flows.is_empty()) && self.is_noted_pressing() {
            self.write_noted();
        }
        if self.output.is_empty() {
            return None;
        }
        self.last_output = self.now;
        self.room_opened |= !self.waiting.is_empty();
        Some(std::mem::take(&mut self.output))
    }

    /// A frame as a line of text, where tracing is on.
    pub fn poll_trace(&mut self) -> Option<String> {
        let trace = self.trace.as_mut()?;
        if let Some(line) = trace.lines.pop_front() {
            return Some(line);
        }
        let dropped = std::mem::take(&mut trace.dropped);
        (dropped > 0).then(|| format!("({dropped} frames not shown)"))
    }

    #[inline]
    fn next_queued(&mut self) -> Option<Event> {
        if self.queue.is_empty() && self.reports.is_empty() && !self.room_opened && matches!(self.closing, Closing::No)
        {
            return None;
        }
        self.next_queued_slowly()
    }

    #[inline(never)]
    fn next_queued_slowly(&mut self) -> Option<Event> {
        if self.room_opened {
            self.use_room();
        }
        if let Some(event) = self.next_report() {
            return Some(event);
        }
        while let Some(queued) = self.queue.pop_front() {
            match queued {
                Queued::Event(event) => return Some(event),
                Queued::Credit(link) => {
                    if let Some(state) = self.links.get(link) {
                        return Some(state.credit_event(link));
                    }
                }
                Queued::Ended { link, closed, error } => {
                    let token = self.remove_link(link).and_then(|link| link.token);
                    return Some(Event::LinkEnded { link, token, closed, error });
                }
            }
        }
        match std::mem::replace(&mut self.closing, Closing::Told) {
            Closing::Due(error) => Some(Event::Closed { error }),
            before => {
                self.closing = before;
                None
            }
        }
    }

    /// Looks at the input once.
    #[inline(always)]
    fn step(&mut self) -> Step {
        let usual = self.phase == Phase::Open && self.trace.is_none() && self.output.len() < OUTPUT_REST_BYTES;
        if !usual || self.deferred.is_some() {
            return self.step_any();
        }
        self.input_rested = false;
        let Some(mut chunk) = self.input.take_current() else { return self.step_any() };
        let Some((channel, size)) = usual_frame(chunk.as_slice(), self.settings.max_frame_size) else {
            self.input.put_current(chunk, 0);
            return self.step_any();
        };
        let body = &chunk.as_slice()[HEADER_BYTES..size];
        let step = match Performative::decode(body) {
            Ok((Performative::Transfer(transfer), length)) => {
                let payload = Payload::from(chunk.slice(HEADER_BYTES + length, size));
                self.on_transfer(channel, &transfer, payload)
            }
            Ok((performative, length)) if length == body.len() => match performative {
                Performative::Disposition(disposition) => self.on_disposition(channel, &disposition).map(|()| None),
                Performative::Flow(flow) => self.on_flow(channel, &flow),
                _ => {
                    self.deferred = Some((channel, chunk.slice(HEADER_BYTES, size)));
                    Ok(None)
                }
            },
            _ if body.is_empty() => Ok(None),
            Ok(_) => Err(bytes_follow()),
            Err(error) => Err(error.into()),
        };
        if !self.is_closed() {
            chunk.advance(size);
            self.input.put_current(chunk, size);
        }
        step.map_err(Stop::Violation)
    }

    /// As [`Self::step`], in any phase, for frames of any form and layers below them.
    #[inline(never)]
    fn step_any(&mut self) -> Step {
        if self.deferred.is_some() {
            return self.step_deferred();
        }
        match self.phase {
            Phase::Header | Phase::HeaderAfterSasl => {
                return if self.read_protocol_header() || self.is_closed() { Ok(None) } else { Err(Stop::Rest) };
            }
            Phase::SaslRest | Phase::Done => return Err(Stop::Rest),
            Phase::SaslInit | Phase::SaslResponse | Phase::SaslMechanisms | Phase::SaslOutcome => {}
            Phase::Opening | Phase::Open | Phase::CloseSent => {}
        }
        self.input_rested = self.is_input_resting() && !self.end_of_stream;
        if self.input_rested {
            return Err(Stop::Rest);
        }
        match self.input.next_frame(self.settings.max_frame_size) {
            Ok(Some(frame)) => Ok(self.on_frame(frame)?),
            Ok(None) => Err(Stop::Rest),
            Err(error) => {
                self.fail(error.into());
                // What follows can't be read as frames.
                self.phase = Phase::Done;
                self.input.clear();
                Ok(None)
            }
        }
    }

    /// The frame that was deferred, once the driver began its batch.
    fn step_deferred(&mut self) -> Step {
        if !std::mem::take(&mut self.is_batch_begun) {
            return Err(Stop::BatchEnd);
        }
        let Some((channel, body)) = self.deferred.take() else { return Ok(None) };
        let (performative, _) = Performative::decode(body.as_slice()).map_err(Violation::from)?;
        if self.phase != Phase::Open {
            return Ok(self.on_performative_unopened(&performative)?);
        }
        self.on_rare_performative(channel, &performative)?;
        Ok(None)
    }

    fn on_frame(&mut self, frame: Frame) -> Result<Option<Event>, Violation> {
        if self.trace.is_some() {
            let rest = frame.rest.len();
            super::trace::input(&mut self.trace, frame.header.channel, frame.body.as_slice(), rest);
        }
        if self.phase.is_sasl() {
            return self.on_sasl_frame(&frame.header, &frame.joined());
        }
        if frame.header.frame_type != frame::TYPE_AMQP {
            return Err(Violation::connection(fault::FRAMING_ERROR, "not an AMQP frame"));
        }
        if frame.body.is_empty() && frame.rest.is_empty() {
            return Ok(None);
        }
        // The performative itself may be longer than what is contiguous.
        let is_short = !frame.rest.is_empty() && Performative::decode(frame.body.as_slice()).is_err();
        let joined = is_short.then(|| frame.joined());
        let channel = frame.header.channel;
        let (performative, length) = Performative::decode(joined.as_deref().unwrap_or(frame.body.as_slice()))?;
        if let (Performative::Transfer(transfer), Phase::Open) = (&performative, self.phase) {
            let payload = Frame::payload(&frame.body, frame.rest, length);
            return self.on_transfer(channel, transfer, payload);
        }
        let transfer = matches!(performative, Performative::Transfer(_));
        if !transfer && length != frame.body.len() + frame.rest.len() {
            return Err(bytes_follow());
        }
        match (self.phase, performative) {
            (Phase::Open, Performative::Disposition(disposition)) => {
                self.on_disposition(channel, &disposition).map(|()| None)
            }
            (Phase::Open, Performative::Flow(flow)) => self.on_flow(channel, &flow),
            (Phase::Open, _) => {
                self.deferred = Some((channel, joined.map_or(frame.body, |whole| Range::copied(&whole))));
                Ok(None)
            }
            (_, performative) => self.on_performative_unopened(&performative),
        }
    }

    #[inline(never)]
    fn on_rare_performative(&mut self, channel: u16, performative: &Performative<'_>) -> Result<(), Violation> {
        match performative {
            Performative::Begin(begin) => self.on_begin(channel, begin)?,
            Performative::Attach(attach) => self.on_attach(channel, attach)?,
            Performative::Detach(detach) => self.on_detach(channel, detach)?,
            Performative::End(end) => self.on_end(channel, end)?,
            Performative::Close(close) => self.on_close(close),
            _ => return Err(Violation::connection(fault::NOT_ALLOWED, "a second open")),
        }
        Ok(())
    }

    fn on_performative_unopened(&mut self, performative: &Performative<'_>) -> Result<Option<Event>, Violation> {
        match (self.phase, performative) {
            (Phase::Opening, Performative::Open(open)) => self.on_open(open).map(Some),
            (Phase::Opening | Phase::CloseSent, Performative::Close(close)) => {
                self.on_close(close);
                Ok(None)
            }
            (Phase::Opening, _) => Err(Violation::connection(fault::NOT_ALLOWED, "a frame before open")),
            // In flight when we closed.
            _ => Ok(None),
        }
    }
}

#[cold]
#[inline(never)]
fn bytes_follow() -> Violation {
    Violation::connection(fault::DECODE_ERROR, "bytes follow the performative")
}

impl Engine {
    /// A violation takes down its scope.
    #[cold]
    #[inline(never)]
    fn fail(&mut self, violation: Violation) {
        let error = Error::new(violation.condition, &violation.description);
        match violation.at {
            Where::Link(link) => self.detach_link(link, true, Some(&error)),
            Where::Session(channel) => self.end_session(channel, Some(&error)),
            Where::Connection => {
                let scope = Scope::Connection;
                let description = violation.description.clone().into_owned();
                self.close_reason.get_or_insert(Fault { scope, condition: violation.condition, description });
                self.close_with(Some(&error));
            }
        }
    }

    /// Writes a frame without payload.
    pub(super) fn write_frame(&mut self, channel: u16, performative: &Performative<'_>) {
        let start = frame::begin(&mut self.output.bytes, frame::TYPE_AMQP, channel);
        performative.encode(&mut self.output.bytes);
        frame::finish(&mut self.output.bytes, start);
        self.trace_output(start);
    }

    pub(super) fn write_bytes(&mut self, bytes: &[u8]) {
        self.output.bytes.extend_from_slice(bytes);
    }

    /// Traces the frames that were written from `start` on.
    #[inline]
    pub(super) fn trace_output(&mut self, start: usize) {
        if self.trace.is_some() {
            super::trace::output(&mut self.trace, &self.output.bytes[start..]);
        }
    }
}

//! A blocking TCP client for hand-made frames.
//!
//! It keeps what a peer must keep to speak correctly (session and link counters), so that a test only says what
//! it wants to do wrong. All that it sends and sees is logged; the log is printed when the test fails.
//!
//! Frames wait in two queues, flows in one and all others in the other, because a router may send a flow
//! whenever it likes.

use super::amqp::*;
use super::router::Router;
use std::collections::{HashMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

pub const AMQP_HEADER: [u8; 8] = *b"AMQP\x00\x01\x00\x00";
pub const SASL_HEADER: [u8; 8] = *b"AMQP\x03\x01\x00\x00";

/// How long an expected frame may take. Generous, for machines that are busy with the other tests.
pub const PATIENCE: Duration = Duration::from_secs(15);

const LOG_LINES_MAX: usize = 120;

/// A link as its owner knows it.
#[derive(Clone, Debug)]
pub struct Link {
    pub channel: u16,
    pub handle: u32,
    pub peer_channel: u16,
    pub peer_handle: u32,
    /// The router's attach.
    pub attach: Frame,
}

impl Link {
    /// The address that the router gave to a dynamic source.
    pub fn source_address(&self) -> String {
        let address = self.attach.field(attach::SOURCE).field(0).text();
        address.unwrap_or_else(|| panic!("no source address in {}", self.attach)).to_string()
    }
}

#[derive(Default)]
struct Session {
    /// Our own channel.
    channel: u16,
    next_incoming_id: u32,
    /// The transfer-id that the router's incoming window ends before.
    window_end: u32,
}

#[derive(Default)]
struct LinkState {
    /// Incoming: deliveries that arrived (on top of the initial count).
    delivery_count: u32,
    in_delivery: bool,
    /// Outgoing: delivery-count + link-credit of the last flow.
    limit: Option<u32>,
}

pub enum Read1 {
    Frame(Frame),
    Silence,
    EndOfStream,
}

pub struct Raw {
    pub stream: TcpStream,
    input: Vec<u8>,
    frames: VecDeque<Frame>,
    flows: VecDeque<Frame>,
    /// By the router's channel.
    sessions: HashMap<u16, Session>,
    /// By the router's channel and handle.
    links: HashMap<(u16, u32), LinkState>,
    /// Next transfer's id, by our channel: counts transfer frames.
    outgoing: HashMap<u16, u32>,
    /// Frames without body that arrived, and when.
    pub heartbeats: Vec<Instant>,
    /// Bytes of the largest frame that arrived.
    pub largest_frame: usize,
    log: VecDeque<String>,
    began: Instant,
    ended: bool,
}

impl Raw {
    /// Connects and says nothing yet.
    pub fn connect(router: &Router) -> Raw {
        let stream = TcpStream::connect(("127.0.0.1", router.port)).expect("the router accepts");
        stream.set_nodelay(true).expect("TCP_NODELAY");
        Raw {
            stream,
            input: Vec::new(),
            frames: VecDeque::new(),
            flows: VecDeque::new(),
            sessions: HashMap::new(),
            links: HashMap::new(),
            outgoing: HashMap::new(),
            heartbeats: Vec::new(),
            largest_frame: 0,
            log: VecDeque::new(),
            began: Instant::now(),
            ended: false,
        }
    }

    /// Connects and opens, with no SASL layer.
    pub fn open(router: &Router, container: &str) -> Raw {
        Raw::open_with(router, open_frame(container)).0
    }

    /// The same with an open of the test's own; gives the router's open too.
    pub fn open_with(router: &Router, open: Frame) -> (Raw, Frame) {
        let mut raw = Raw::connect(router);
        raw.send_bytes(&AMQP_HEADER);
        raw.send(&open);
        assert_eq!(raw.read_header(), AMQP_HEADER);
        let reply = raw.expect(OPEN);
        (raw, reply)
    }

    /// Connects, opens and begins a session on channel 0.
    pub fn session(router: &Router, container: &str) -> Raw {
        let mut raw = Raw::open(router, container);
        raw.begin(0);
        raw
    }

    // ── Sending ──

    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap_or_else(|error| self.fail(&format!("sending failed: {error}")));
    }

    pub fn send(&mut self, frame: &Frame) {
        self.note("->", frame);
        if frame.code == TRANSFER {
            *self.outgoing.entry(frame.channel).or_default() += 1;
        }
        self.send_bytes(&frame.to_bytes());
    }

    /// Several frames in one write.
    pub fn send_all(&mut self, frames: &[Frame]) {
        let mut bytes = Vec::new();
        for frame in frames {
            self.note("->", frame);
            if frame.code == TRANSFER {
                *self.outgoing.entry(frame.channel).or_default() += 1;
            }
            bytes.extend(frame.to_bytes());
        }
        self.send_bytes(&bytes);
    }

    pub fn begin(&mut self, channel: u16) -> Frame {
        self.send(&begin_frame().on(channel));
        self.expect(BEGIN)
    }

    /// Attaches and waits for the router's attach.
    pub fn attach(&mut self, frame: Frame) -> Link {
        self.send(&frame);
        let reply = self.expect(ATTACH);
        Link {
            channel: frame.channel,
            handle: frame.number(attach::HANDLE),
            peer_channel: reply.channel,
            peer_handle: reply.number(attach::HANDLE),
            attach: reply,
        }
    }

    pub fn attach_sender(&mut self, handle: u32, address: &str) -> Link {
        self.attach(sender_attach(&format!("sender-{handle}"), handle, address))
    }

    pub fn attach_receiver(&mut self, handle: u32, address: &str) -> Link {
        self.attach(receiver_attach(&format!("receiver-{handle}"), handle, address))
    }

    /// Attaches a receiver and gives it credit.
    pub fn attach_consumer(&mut self, handle: u32, address: &str, credit: u32) -> Link {
        let link = self.attach_receiver(handle, address);
        self.credit(&link, credit);
        link
    }

    /// A flow with the session's counters as they are; a wide incoming window.
    pub fn session_flow(&self, link_or_channel: u16) -> Frame {
        let session = self.sessions.values().find(|session| session.channel == link_or_channel);
        let next_incoming_id = session.map_or(0, |session| session.next_incoming_id);
        Frame::new(FLOW)
            .on(link_or_channel)
            .with(flow::NEXT_INCOMING_ID, next_incoming_id)
            .with(flow::INCOMING_WINDOW, WIDE_WINDOW)
            .with(flow::NEXT_OUTGOING_ID, self.outgoing.get(&link_or_channel).copied().unwrap_or(0))
            .with(flow::OUTGOING_WINDOW, WIDE_WINDOW)
    }

    /// A receiver's flow for `link`.
    pub fn link_flow(&self, link: &Link, credit: u32) -> Frame {
        self.session_flow(link.channel)
            .with(flow::HANDLE, link.handle)
            .with(flow::DELIVERY_COUNT, self.delivery_count(link))
            .with(flow::LINK_CREDIT, credit)
    }

    pub fn credit(&mut self, link: &Link, credit: u32) {
        let frame = self.link_flow(link, credit);
        self.send(&frame);
    }

    pub fn drain(&mut self, link: &Link, credit: u32) {
        let frame = self.link_flow(link, credit).with(flow::DRAIN, true);
        self.send(&frame);
    }

    /// The delivery-count of an incoming link as its receiver counts it.
    pub fn delivery_count(&self, link: &Link) -> u32 {
        self.links.get(&(link.peer_channel, link.peer_handle)).map_or(0, |state| state.delivery_count)
    }

    pub fn settle(&mut self, transfer: &Frame, state: Value) {
        let id = transfer.number(transfer::DELIVERY_ID);
        let channel = self.sessions.get(&transfer.channel).map_or(0, |session| session.channel);
        self.send(&disposition_frame(id, id, true, state).on(channel));
    }

    // ── Receiving ──

    pub fn read_header(&mut self) -> [u8; 8] {
        let deadline = Instant::now() + PATIENCE;
        while self.input.len() < 8 {
            if !self.fill(deadline) {
                self.fail("a protocol header was expected");
            }
        }
        let header: [u8; 8] = self.input[..8].try_into().expect("eight bytes");
        self.input.drain(..8);
        self.log.push_back(format!("<- header {header:02x?}"));
        header
    }

    /// Reads once more; false at the deadline and at the end of the stream.
    fn fill(&mut self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        if self.ended || left.is_zero() {
            return false;
        }
        self.stream.set_read_timeout(Some(left)).expect("a read timeout");
        let mut chunk = [0; 65_536];
        match self.stream.read(&mut chunk) {
            Ok(0) => self.ended = true,
            Ok(count) => {
                self.input.extend_from_slice(&chunk[..count]);
                return true;
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => {
                self.log.push_back(format!("   read failed: {error}"));
                self.ended = true;
            }
        }
        false
    }

    /// Reads frames into the queues until one more came, or `deadline`.
    fn pump(&mut self, deadline: Instant) -> bool {
        loop {
            let before = self.input.len();
            if let Some(frame) = Frame::cut(&mut self.input) {
                self.largest_frame = self.largest_frame.max(before - self.input.len());
                self.note("<-", &frame);
                self.take_in(frame);
                return true;
            }
            if !self.fill(deadline) {
                return false;
            }
        }
    }

    fn take_in(&mut self, frame: Frame) {
        match frame.code {
            EMPTY => return self.heartbeats.push(Instant::now()),
            BEGIN if !frame.field(begin::REMOTE_CHANNEL).is_null() => {
                let channel = frame.number(begin::REMOTE_CHANNEL) as u16;
                let next_incoming_id = frame.number(begin::NEXT_OUTGOING_ID);
                // Tests that keep to the window begin with transfer-id 0.
                let window_end = frame.number(begin::INCOMING_WINDOW);
                self.sessions.insert(frame.channel, Session { channel, next_incoming_id, window_end });
                self.links.retain(|(peer_channel, _), _| *peer_channel != frame.channel);
            }
            ATTACH => {
                let initial = frame.field(attach::INITIAL_DELIVERY_COUNT).number().unwrap_or(0) as u32;
                let state = LinkState { delivery_count: initial, ..LinkState::default() };
                self.links.insert((frame.channel, frame.number(attach::HANDLE)), state);
            }
            FLOW => self.take_flow(&frame),
            TRANSFER => self.count_transfer(&frame),
            _ => {}
        }
        match frame.code {
            FLOW => self.flows.push_back(frame),
            _ => self.frames.push_back(frame),
        }
    }

    fn take_flow(&mut self, frame: &Frame) {
        if let Some(session) = self.sessions.get_mut(&frame.channel) {
            let next = frame.field(flow::NEXT_INCOMING_ID).number().unwrap_or(0) as u32;
            session.window_end = next.wrapping_add(frame.number(flow::INCOMING_WINDOW));
        }
        if frame.field(flow::HANDLE).is_null() {
            return;
        }
        let count = frame.field(flow::DELIVERY_COUNT).number();
        let credit = frame.field(flow::LINK_CREDIT).number();
        let link = self.links.entry((frame.channel, frame.number(flow::HANDLE))).or_default();
        if let Some(credit) = credit {
            link.limit = Some((count.unwrap_or(0) as u32).wrapping_add(credit as u32));
        }
    }

    fn count_transfer(&mut self, frame: &Frame) {
        if let Some(session) = self.sessions.get_mut(&frame.channel) {
            session.next_incoming_id = session.next_incoming_id.wrapping_add(1);
        }
        let link = self.links.entry((frame.channel, frame.number(transfer::HANDLE))).or_default();
        if !link.in_delivery {
            link.delivery_count = link.delivery_count.wrapping_add(1);
        }
        link.in_delivery = frame.field(transfer::MORE).is_true() && !frame.field(transfer::ABORTED).is_true();
    }

    /// The next frame that isn't a flow or a heartbeat.
    pub fn read(&mut self, patience: Duration) -> Read1 {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(frame) = self.frames.pop_front() {
                return Read1::Frame(frame);
            }
            if !self.pump(deadline) {
                return if self.ended { Read1::EndOfStream } else { Read1::Silence };
            }
        }
    }

    pub fn receive(&mut self) -> Frame {
        match self.read(PATIENCE) {
            Read1::Frame(frame) => frame,
            Read1::Silence => self.fail("a frame was expected, nothing came"),
            Read1::EndOfStream => self.fail("a frame was expected, the stream ended"),
        }
    }

    /// The next frame, which must be a `code`. For a flow: the next flow.
    pub fn expect(&mut self, code: u64) -> Frame {
        if code == FLOW {
            return self.expect_flow();
        }
        let frame = self.receive();
        if frame.code != code {
            self.fail(&format!("expected {}, got {frame}", Frame::new(code)));
        }
        frame
    }

    fn expect_flow(&mut self) -> Frame {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(frame) = self.flows.pop_front() {
                return frame;
            }
            if !self.pump(deadline) {
                self.fail("a flow was expected");
            }
        }
    }

    /// A frame of `code` whose error (in `field`) has this condition.
    pub fn expect_error(&mut self, code: u64, field: usize, condition: &str) -> Frame {
        let frame = self.expect(code);
        if frame.condition(field) != Some(condition) {
            self.fail(&format!("expected the condition {condition} in {frame}"));
        }
        frame
    }

    /// A close with this condition, then the end of the stream (after our close).
    pub fn expect_close(&mut self, condition: &str) {
        self.expect_error(CLOSE, CLOSE_ERROR, condition);
        // The router may be gone already, as it may after an error.
        let _ = self.stream.write_all(&Frame::new(CLOSE).to_bytes());
        self.expect_end_of_stream();
    }

    pub fn expect_end_of_stream(&mut self) {
        match self.read(PATIENCE) {
            Read1::EndOfStream => {}
            Read1::Frame(frame) => self.fail(&format!("the end of the stream was expected, got {frame}")),
            Read1::Silence => self.fail("the end of the stream was expected, nothing came"),
        }
    }

    /// No frame but flows and heartbeats for `time`.
    pub fn expect_silence(&mut self, time: Duration) {
        match self.read(time) {
            Read1::Silence => {}
            Read1::Frame(frame) => self.fail(&format!("silence was expected, got {frame}")),
            Read1::EndOfStream => self.fail("silence was expected, the stream ended"),
        }
    }

    /// A whole delivery: its first frame, and the payload of all.
    pub fn receive_delivery(&mut self) -> (Frame, Vec<u8>) {
        let first = self.expect(TRANSFER);
        let (mut payload, mut more) = (first.payload.clone(), first.field(transfer::MORE).is_true());
        while more {
            let next = self.expect(TRANSFER);
            payload.extend_from_slice(&next.payload);
            more = next.field(transfer::MORE).is_true();
        }
        (first, payload)
    }

    /// What the sender of delivery `id` hears: the disposition's state. Settles where the receiver didn't.
    pub fn expect_outcome(&mut self, id: u32) -> Value {
        let frame = self.expect(DISPOSITION);
        let first = frame.number(disposition::FIRST);
        let last = frame.field(disposition::LAST).number().map_or(first, |last| last as u32);
        if !(first..=last).contains(&id) {
            self.fail(&format!("an outcome of {id} was expected, got {frame}"));
        }
        frame.field(disposition::STATE).clone()
    }

    /// Outcomes of the deliveries `first` to `last`, in whatever frames they come; all settled, all `code`.
    pub fn expect_outcomes(&mut self, first: u32, last: u32, code: u64) {
        let mut missing: std::collections::BTreeSet<u32> = (first..=last).collect();
        while !missing.is_empty() {
            let frame = self.expect(DISPOSITION);
            let from = frame.number(disposition::FIRST);
            let to = frame.field(disposition::LAST).number().map_or(from, |last| last as u32);
            if frame.field(disposition::STATE).code() != Some(code) || !frame.field(disposition::SETTLED).is_true() {
                self.fail(&format!("expected state {code:#x}, settled, in {frame}"));
            }
            for id in from..=to {
                if !missing.remove(&id) {
                    self.fail(&format!("delivery {id} got an outcome twice, or was never sent: {frame}"));
                }
            }
        }
    }

    /// The limit (delivery-count + credit) that the router gave our sender last; none before its first flow.
    pub fn limit(&self, link: &Link) -> Option<u32> {
        self.links.get(&(link.peer_channel, link.peer_handle)).and_then(|state| state.limit)
    }

    /// Whether our sender, having sent `count` deliveries, may send another: within its credit.
    pub fn may_send(&self, link: &Link, count: u32) -> bool {
        self.limit(link).is_some_and(|limit| limit.wrapping_sub(count) as i32 > 0)
    }

    /// Whether the session of this link takes a transfer more (section 2.5.6).
    pub fn has_window(&self, link: &Link) -> bool {
        let next = self.outgoing.get(&link.channel).copied().unwrap_or(0);
        self.sessions.get(&link.peer_channel).is_some_and(|session| session.window_end.wrapping_sub(next) as i32 > 0)
    }

    /// Waits until our sender may have sent `count` deliveries in all.
    pub fn wait_for_limit(&mut self, link: &Link, count: u32) {
        let deadline = Instant::now() + PATIENCE;
        while !self.may_send(link, count.wrapping_sub(1)) {
            if !self.pump(deadline) {
                self.fail(&format!("credit for {count} deliveries was expected, the limit is {:?}", self.limit(link)));
            }
        }
    }

    /// The transfer-id that the incoming window of the (only) session ends before.
    pub fn window_end(&self) -> u32 {
        self.sessions.values().next().map_or(0, |session| session.window_end)
    }

    /// Waits for one more flow.
    pub fn wait_for_flow(&mut self) {
        self.forget_flows();
        self.expect(FLOW);
    }

    /// Takes in what arrives for `time`, whatever it is.
    pub fn listen(&mut self, time: Duration) {
        let deadline = Instant::now() + time;
        while self.pump(deadline) {}
    }

    /// Forgets the flows that came so far.
    pub fn forget_flows(&mut self) {
        self.flows.clear();
    }

    pub fn detach(&mut self, link: &Link) {
        self.send(&detach_frame(link.handle).on(link.channel));
        self.expect(DETACH);
    }

    /// Closes in good order.
    pub fn close(mut self) {
        self.send(&Frame::new(CLOSE));
        let reply = self.expect(CLOSE);
        assert!(reply.field(CLOSE_ERROR).is_null(), "closed with an error: {reply}");
        self.expect_end_of_stream();
    }

    /// The connection still serves: a session can begin on `channel` and end.
    pub fn expect_alive(&mut self, channel: u16) {
        self.begin(channel);
        self.send(&Frame::new(END).on(channel));
        self.expect(END);
    }

    // ── The log ──

    fn note(&mut self, direction: &str, frame: &Frame) {
        if self.log.len() == LOG_LINES_MAX {
            self.log.pop_front();
        }
        self.log.push_back(format!("{:8.3} {direction} {frame}", self.began.elapsed().as_secs_f64()));
    }

    #[track_caller]
    fn fail(&self, why: &str) -> ! {
        panic!("{why}");
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let port = self.stream.local_addr().map_or(0, |address| address.port());
            let lines: Vec<&str> = self.log.iter().map(String::as_str).collect();
            eprintln!("── client on port {port} ──\n{}", lines.join("\n"));
        }
    }
}

//! dispatch: one operation is one message through two engines and the router, with its outcome back and the credit for
//! the next: what a shard does for a message, but for its ring. What the peers do for it here isn't counted: of these scenarios
//! only the functions in `rooms` are.

use crate::Scenario;
use ringway::dispatch::Dispatch;
use ringway::engine::{self, Transmit};
use ringway::ids::{ConnectionId, ShardId};
use ringway::limits;
use ringway::payload::{Pool, Range};
use ringway::routing::RouterSettings;
use ringway::time::Time;
use ringway::wire::performative::{Attach, Begin, Disposition, Flow, Open, Performative, Role, Transfer};
use ringway::wire::{frame, terminus, PROTOCOL_HEADER_AMQP};
use std::sync::Arc;

pub const SCENARIOS: &[Scenario] = &[
    ("dispatch/unsettled-100", |count| flow(count, BATCH, 100, false)),
    ("dispatch/unsettled-100-alone", |count| flow(count, 1, 100, false)),
    ("dispatch/settled-100", |count| flow(count, BATCH, 100, true)),
    ("dispatch/unsettled-4000", |count| flow(count, BATCH, 4000, false)),
];

/// The consumer's window.
const WINDOW: u32 = 500;
/// Messages that come together: as many as there is credit for, in these scenarios.
const BATCH: u32 = WINDOW;

struct Bench {
    dispatch: Dispatch,
    pool: Pool,
    touched: Vec<ConnectionId>,
    /// What the router sent to the sender, to the receiver.
    to_sender: Vec<u8>,
    to_receiver: Vec<u8>,
}

/// What a shard calls; what is counted is what happens inside of these.
mod rooms {
    use super::*;

    #[inline(never)]
    pub fn receive(dispatch: &mut Dispatch, id: ConnectionId, range: Range) {
        dispatch.received(id, range, Time::ZERO);
    }

    #[inline(never)]
    pub fn run(dispatch: &mut Dispatch, touched: &mut Vec<ConnectionId>) {
        dispatch.run(Time::ZERO, touched);
    }

    #[inline(never)]
    pub fn transmit(dispatch: &mut Dispatch, id: ConnectionId) -> Option<Transmit> {
        dispatch.poll_transmit(id)
    }

    #[inline(never)]
    pub fn transmitted(dispatch: &mut Dispatch, transmit: Transmit) {
        dispatch.transmitted(transmit);
    }
}

const SENDER: ConnectionId = ConnectionId { index: 0, generation: 0 };
const RECEIVER: ConnectionId = ConnectionId { index: 1, generation: 1 };

impl Bench {
    fn new() -> Bench {
        let mut dispatch = Dispatch::new(RouterSettings::default(), ShardId(0), 1, false, Time::ZERO);
        let settings = Arc::new(engine::Settings::default());
        for id in [SENDER, RECEIVER] {
            dispatch.accepted(id, &settings, limits::LINK_CAPACITY_DEFAULT, Time::ZERO);
        }
        let pool = Pool::new(limits::CHUNK_BYTES, 64);
        Bench { dispatch, pool, touched: Vec::new(), to_sender: Vec::new(), to_receiver: Vec::new() }
    }

    /// Bytes as the shard receives them: in chunks.
    fn receive(&mut self, id: ConnectionId, bytes: &[u8]) {
        for part in bytes.chunks(limits::CHUNK_BYTES) {
            let chunk = self.pool.take();
            // SAFETY: the chunk is fresh, and the part no larger.
            let range: Range = unsafe {
                std::ptr::copy_nonoverlapping(part.as_ptr(), chunk.data(), part.len());
                chunk.range(0, part.len())
            };
            drop(chunk);
            rooms::receive(&mut self.dispatch, id, range);
        }
    }

    /// The rest of a turn.
    fn turn(&mut self) {
        self.to_sender.clear();
        self.to_receiver.clear();
        loop {
            rooms::run(&mut self.dispatch, &mut self.touched);
            if self.touched.is_empty() {
                break;
            }
            while let Some(id) = self.touched.pop() {
                if let Some(transmit) = rooms::transmit(&mut self.dispatch, id) {
                    let out = if id == SENDER { &mut self.to_sender } else { &mut self.to_receiver };
                    transmit.slices().for_each(|slice| out.extend_from_slice(slice));
                    rooms::transmitted(&mut self.dispatch, transmit);
                }
            }
        }
        while self.dispatch.poll_report().is_some() {}
    }

    fn attach(&mut self, id: ConnectionId, role: Role) {
        let (mut source, mut target) = (Vec::new(), Vec::new());
        terminus::Source { address: Some("a"), ..terminus::Source::default() }.encode(&mut source);
        terminus::Target { address: Some("a"), ..terminus::Target::default() }.encode(&mut target);
        let mut out = PROTOCOL_HEADER_AMQP.to_vec();
        frame_of(&mut out, |out| Open { container_id: "bench", max_frame_size: 65_536, ..Open::default() }.encode(out));
        frame_of(&mut out, |out| {
            Begin { incoming_window: 1 << 30, outgoing_window: 1 << 30, ..Begin::default() }.encode(out)
        });
        frame_of(&mut out, |out| {
            let attach = Attach {
                name: "link",
                role,
                source: Some(&source),
                target: Some(&target),
                initial_delivery_count: (role == Role::Sender).then_some(0),
                ..Attach::default()
            };
            attach.encode(out)
        });
        self.receive(id, &out);
        self.turn();
    }
}

fn frame_of(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = frame::begin(out, frame::TYPE_AMQP, 0);
    body(out);
    frame::finish(out, start);
}

/// Each whole frame of `bytes`; they begin with a frame.
fn frames(bytes: &[u8], mut each: impl FnMut(Performative<'_>)) {
    let mut at = 0;
    while let Some(header) = bytes.get(at..at + 8).and_then(|header| header.first_chunk::<8>()) {
        let Ok(header) = frame::parse_header(header) else { panic!("no frame") };
        let body = &bytes[at + header.body_start()..at + header.size as usize];
        if let Ok((performative, _)) = Performative::decode(body) {
            each(performative);
        }
        at += header.size as usize;
    }
}

/// Up to which delivery the sender has credit, where a flow among these frames says it.
fn granted(bytes: &[u8]) -> Option<u32> {
    let mut limit = None;
    frames(bytes, |performative| {
        if let Performative::Flow(Flow { handle: Some(_), delivery_count, link_credit, .. }) = performative {
            limit = Some(delivery_count.unwrap_or(0) + link_credit.unwrap_or(0));
        }
    });
    limit
}

/// A message of so many bytes, all of it one data section.
fn message(bytes: usize) -> Vec<u8> {
    let mut message = vec![0x00, 0x53, 0x75, 0xb0];
    message.extend_from_slice(&(bytes as u32 - 8).to_be_bytes());
    message.resize(bytes, b'x');
    message
}

fn consumer_flow(received: u32) -> Flow<'static> {
    Flow {
        next_incoming_id: Some(received),
        incoming_window: 1 << 30,
        next_outgoing_id: 0,
        outgoing_window: 1 << 30,
        handle: Some(0),
        delivery_count: Some(received),
        link_credit: Some(WINDOW),
        ..Flow::default()
    }
}

/// `batch`: messages at most that come together.
fn flow(count: u64, batch: u32, body: usize, settled: bool) {
    let count = count as u32;
    let mut bench = Bench::new();
    bench.attach(RECEIVER, Role::Receiver);
    bench.attach(SENDER, Role::Sender);
    let mut template = Vec::new();
    let transfer = Transfer {
        delivery_id: Some(u32::MAX),
        delivery_tag: Some(b"\0\0\0\0"),
        message_format: Some(0),
        settled: Some(settled),
        ..Transfer::default()
    };
    transfer.encode_frame(&mut template, 0, body);
    let id_at = template.windows(4).position(|bytes| bytes == [0xff; 4]).expect("the delivery-id");
    template.extend_from_slice(&message(body));

    let mut input = Vec::new();
    frame_of(&mut input, |out| consumer_flow(0).encode(out));
    let (mut sent, mut limit, mut received) = (0, 0, 0);
    while received < count {
        bench.receive(RECEIVER, &input);
        bench.turn();
        limit = granted(&bench.to_sender).unwrap_or(limit);
        input.clear();
        let now = limit.min(sent + batch);
        for id in sent..now {
            let at = input.len();
            input.extend_from_slice(&template);
            input[at + id_at..at + id_at + 4].copy_from_slice(&id.to_be_bytes());
        }
        assert!(limit > sent, "no credit behind {sent} messages");
        sent = now;
        bench.receive(SENDER, &input);
        bench.turn();
        limit = granted(&bench.to_sender).unwrap_or(limit);
        assert!(bench.to_receiver.len() >= body, "nothing came out");
        input.clear();
        if !settled {
            let accepted = Disposition {
                role: Role::Receiver,
                first: received,
                last: Some(sent - 1),
                settled: true,
                state: Some(&[0x00, 0x53, 0x24, 0x45]),
                ..Disposition::default()
            };
            frame_of(&mut input, |out| accepted.encode(out));
        }
        received = sent;
        frame_of(&mut input, |out| consumer_flow(received).encode(out));
    }
}

/// What the router makes of one message with a body of `body` bytes, when its consumer has room.
#[allow(dead_code, reason = "the bench `copy` alone looks at it")]
pub struct Output {
    /// Bytes that it wrote, small payloads copied in.
    pub written: usize,
    /// The body goes out of the memory that it came in.
    pub in_place: bool,
}

#[allow(dead_code)]
pub fn output_of_one(body: usize) -> Output {
    let mut bench = Bench::new();
    bench.attach(RECEIVER, Role::Receiver);
    bench.attach(SENDER, Role::Sender);
    let mut input = Vec::new();
    frame_of(&mut input, |out| consumer_flow(0).encode(out));
    bench.receive(RECEIVER, &input);
    bench.turn();
    // As many as make a read of some size: a short one is packed.
    let messages = (16 * 1024 / body).clamp(1, 8);
    input.clear();
    for id in 0..messages as u32 {
        let (delivery_id, delivery_tag) = (Some(id), Some(&b"0"[..]));
        let transfer = Transfer { delivery_id, delivery_tag, message_format: Some(0), ..Transfer::default() };
        transfer.encode_frame(&mut input, 0, body);
        input.resize(input.len() + body, b'x');
    }
    let chunk = bench.pool.take();
    // SAFETY: the chunk is fresh, and long enough.
    let range = unsafe {
        std::ptr::copy_nonoverlapping(input.as_ptr(), chunk.data(), input.len());
        chunk.range(0, input.len())
    };
    let came_in = range.as_slice().as_ptr_range();
    bench.dispatch.received(SENDER, range, Time::ZERO);
    bench.dispatch.run(Time::ZERO, &mut bench.touched);
    let transmit = bench.dispatch.poll_transmit(RECEIVER).expect("the consumer has room");
    let is_inside = |slice: &[u8]| came_in.contains(&slice.as_ptr());
    let in_place = transmit.slices().any(is_inside);
    Output { written: transmit.bytes.len() / messages, in_place }
}

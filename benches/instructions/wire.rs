//! wire: one operation is one performative decoded, or one frame encoded.

use std::hint::black_box;

use ringway::payload::{Payload, Range};
use ringway::wire::performative::{Disposition, Flow, Performative, Role, Transfer};
use ringway::wire::{message, state};

use crate::Scenario;

pub const SCENARIOS: &[Scenario] = &[
    ("wire/loop", empty_loop),
    ("wire/transfer-decode", transfer_decode),
    ("wire/transfer-decode-settled", transfer_decode_settled),
    ("wire/transfer-encode", transfer_encode),
    ("wire/disposition-decode", disposition_decode),
    ("wire/disposition-encode", disposition_encode),
    ("wire/flow-decode", flow_decode),
    ("wire/flow-encode", flow_encode),
    ("wire/message-to", message_to),
];

/// As python-proton sends one: a wide delivery-id, an eight-byte tag, unsettled.
pub fn transfer() -> Transfer<'static> {
    Transfer {
        handle: 1,
        delivery_id: Some(70_000),
        delivery_tag: Some(b"\x00\x00\x00\x00\x00\x01\x11\x70"),
        message_format: Some(0),
        settled: Some(false),
        ..Transfer::default()
    }
}

/// As a receiver accepts one.
pub fn disposition() -> Disposition<'static> {
    Disposition {
        role: Role::Receiver,
        first: 70_000,
        last: Some(70_000),
        settled: true,
        state: Some(&state::ACCEPTED),
        batchable: false,
    }
}

pub fn flow() -> Flow<'static> {
    Flow {
        next_incoming_id: Some(70_000),
        incoming_window: 2048,
        next_outgoing_id: 1,
        outgoing_window: u32::MAX,
        handle: Some(0),
        delivery_count: Some(70_000),
        link_credit: Some(250),
        ..Flow::default()
    }
}

/// What the others have beside their operation.
fn empty_loop(count: u64) {
    for _ in 0..count {
        black_box(&b"body"[..]);
    }
}

/// Decodes and looks at every field, as the engine does.
fn decode(body: Vec<u8>, count: u64) {
    for _ in 0..count {
        match Performative::decode(black_box(&body)) {
            Ok((Performative::Transfer(transfer), payload)) => {
                black_box((transfer.handle, transfer.delivery_id, transfer.settled, transfer.more, payload));
            }
            Ok((Performative::Disposition(disposition), _)) => {
                black_box((disposition.first, disposition.last, disposition.settled, disposition.state));
            }
            Ok((Performative::Flow(flow), _)) => {
                black_box((flow.handle, flow.delivery_count, flow.link_credit, flow.drain));
            }
            other => panic!("{other:?}"),
        }
    }
}

fn transfer_decode(count: u64) {
    let mut body = Vec::new();
    transfer().encode(&mut body);
    decode(body, count);
}

fn transfer_decode_settled(count: u64) {
    let mut body = Vec::new();
    Transfer { settled: Some(true), delivery_tag: Some(b"1"), ..transfer() }.encode(&mut body);
    decode(body, count);
}

fn disposition_decode(count: u64) {
    let mut body = Vec::new();
    disposition().encode(&mut body);
    decode(body, count);
}

fn flow_decode(count: u64) {
    let mut body = Vec::new();
    flow().encode(&mut body);
    decode(body, count);
}

/// As the engine sends one: a four-byte tag.
fn transfer_encode(count: u64) {
    let mut out = Vec::with_capacity(4096);
    let transfer = Transfer { delivery_tag: Some(b"\x00\x01\x11\x70"), ..transfer() };
    for _ in 0..count {
        out.clear();
        black_box(&transfer).encode_frame(&mut out, 0, 100);
        black_box(&out);
    }
}

fn disposition_encode(count: u64) {
    let mut out = Vec::with_capacity(4096);
    let disposition = disposition();
    for _ in 0..count {
        out.clear();
        black_box(&disposition).encode_frame(&mut out, 0);
        black_box(&out);
    }
}

fn flow_encode(count: u64) {
    let mut out = Vec::with_capacity(4096);
    let flow = flow();
    for _ in 0..count {
        out.clear();
        black_box(&flow).encode_frame(&mut out, 0);
        black_box(&out);
    }
}

/// An anonymous sender's message: header, properties with an id and a `to`, a body.
fn message_to(count: u64) {
    let bytes = b"\x00\x53\x70\xc0\x02\x01\x41\x00\x53\x73\xc0\x0c\x03\x53\x09\x40\xa1\x06queue1\x00\x53\x75\xa0\x02hi";
    let payload = Payload::from(Range::copied(bytes));
    for _ in 0..count {
        let mut scratch = [0; 64];
        let to = message::to(black_box(&payload), &mut scratch);
        assert_eq!(black_box(to), Ok(Some("queue1")));
    }
}

//! wire: one operation is one performative decoded, or one frame encoded.

use std::hint::black_box;

use ringway::payload::{Payload, Range};
use ringway::wire::message;
use ringway::wire::performative::{Performative, Transfer};

use crate::wire_samples::{disposition, flow, transfer, MESSAGE};
use crate::Scenario;

pub const SCENARIOS: &[Scenario] = &[
    ("wire/loop", empty_loop),
    ("wire/transfer-decode", transfer_decode),
    ("wire/transfer-decode-settled", transfer_decode_settled),
    ("wire/transfer-decode-list32", transfer_decode_list32),
    ("wire/transfer-encode", transfer_encode),
    ("wire/disposition-decode", disposition_decode),
    ("wire/disposition-encode", disposition_encode),
    ("wire/flow-decode", flow_decode),
    ("wire/flow-encode", flow_encode),
    ("wire/message-to", message_to),
];

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

/// As rhea writes one.
fn transfer_decode_list32(count: u64) {
    let body = b"\x00\x53\x14\xd0\x00\x00\x00\x11\x00\x00\x00\x06\x43\x70\x00\x01\x11\x70\xa0\x0212\x43\x42\x42";
    decode(body.to_vec(), count);
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

/// Finds the address of an anonymous sender's message.
fn message_to(count: u64) {
    let payload = Payload::from(Range::copied(MESSAGE));
    for _ in 0..count {
        let mut scratch = [0; 64];
        let to = message::to(black_box(&payload), &mut scratch);
        assert_eq!(black_box(to), Ok(Some("queue1")));
    }
}

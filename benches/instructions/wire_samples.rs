//! Frames and messages as clients send them, for the benches.

use ringway::wire::performative::{Disposition, Flow, Role, Transfer};
use ringway::wire::state;
use ringway::wire::terminus::Source;

/// An anonymous sender's: header, properties with an id and a `to`, a body.
pub const MESSAGE: &[u8] =
    b"\x00\x53\x70\xc0\x02\x01\x41\x00\x53\x73\xc0\x0c\x03\x53\x09\x40\xa1\x06queue1\x00\x53\x75\xa0\x02hi";

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

pub fn source() -> Vec<u8> {
    let mut out = Vec::new();
    Source { address: Some("queue/1"), expiry_policy: Some("session-end"), ..Source::default() }.encode(&mut out);
    out
}

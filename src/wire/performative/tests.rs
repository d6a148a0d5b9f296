use super::*;
use crate::wire::{error::Error, frame, state, Symbols};

fn round_trip(performative: Performative<'_>) {
    let mut out = vec![0xee];
    performative.encode(&mut out);
    let body = &out[1..];
    assert_eq!(Performative::decode(body), Ok((performative, body.len())));
    for cut in 0..body.len() {
        assert!(Performative::decode(&body[..cut]).is_err(), "{cut} bytes of {performative:?}");
    }
}

#[test]
fn performatives_come_back_as_they_were() {
    let map = [0xc1, 0x07, 0x02, 0xa3, 0x01, b'k', 0xa1, 0x01, b'v'];
    let source = [0x00, 0x53, 0x28, 0xc0, 0x04, 0x01, 0xa1, 0x01, b'q'];
    let error = Some(Error { condition: "amqp:not-found", description: Some("no"), info: Some(&map) });
    let symbols = Symbols::names(&["a", "bc"]);
    for open in [
        Open { container_id: "x", ..Open::default() },
        Open {
            container_id: "x",
            hostname: Some("h"),
            max_frame_size: 512,
            channel_max: 0,
            idle_time_out: Some(1000),
            outgoing_locales: symbols,
            incoming_locales: symbols,
            offered_capabilities: symbols,
            desired_capabilities: symbols,
            properties: Some(&map),
        },
    ] {
        round_trip(Performative::Open(open));
    }
    round_trip(Performative::Begin(Begin { remote_channel: Some(7), incoming_window: 2048, ..Begin::default() }));
    round_trip(Performative::Attach(Attach {
        name: "l",
        handle: 300,
        role: Role::Receiver,
        snd_settle_mode: SenderSettleMode::Settled,
        rcv_settle_mode: ReceiverSettleMode::Second,
        source: Some(&source),
        max_message_size: Some(1 << 40),
        properties: Some(&map),
        ..Attach::default()
    }));
    round_trip(Performative::Flow(Flow { handle: Some(0), link_credit: Some(250), drain: true, ..Flow::default() }));
    round_trip(Performative::Flow(Flow { next_incoming_id: Some(u32::MAX), ..Flow::default() }));
    round_trip(Performative::Flow(Flow { properties: Some(&map), ..Flow::default() }));
    round_trip(Performative::Transfer(Transfer::default()));
    round_trip(Performative::Transfer(Transfer { handle: 256, batchable: true, ..Transfer::default() }));
    let long = [7; 255];
    for tag in [&long[..4], &long[..5], &long[..200], &long[..201], &long[..]] {
        round_trip(Performative::Transfer(Transfer {
            handle: 1,
            delivery_id: Some(5),
            delivery_tag: Some(tag),
            message_format: Some(0),
            settled: Some(false),
            more: true,
            rcv_settle_mode: Some(ReceiverSettleMode::First),
            state: Some(&state::ACCEPTED),
            resume: true,
            aborted: true,
            batchable: false,
        }));
    }
    for state in [None, Some(&state::ACCEPTED[..])] {
        for settled in [false, true] {
            let role = Role::Receiver;
            round_trip(Performative::Disposition(Disposition {
                role,
                first: 3,
                last: None,
                settled,
                state,
                batchable: settled,
            }));
        }
    }
    for error in [None, error] {
        round_trip(Performative::Detach(Detach { handle: 0, closed: true, error }));
        round_trip(Performative::End(End { error }));
        round_trip(Performative::Close(Close { error }));
    }
}

#[test]
fn a_frame_is_the_performative_behind_its_header() {
    let transfer = Transfer { delivery_tag: Some(b"abcd"), settled: Some(true), ..Transfer::default() };
    let mut out = Vec::new();
    transfer.encode_frame(&mut out, 9, 100);
    let mut expected = Vec::new();
    let start = frame::begin(&mut expected, frame::TYPE_AMQP, 9);
    transfer.encode(&mut expected);
    frame::finish_with_payload(&mut expected, start, 100);
    assert_eq!(out, expected);
    assert_eq!(out.len(), 8 + 6 + 10);
}

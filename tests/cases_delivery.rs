//! Cases of deliveries: tags, continuation frames, narrow peers, bodies of every form, outcomes with their fields.

mod support;

use std::time::Duration;
use support::amqp::*;
use support::raw::{Link, Raw};
use support::router::{Router, PLAIN};

/// A consumer with much credit and a producer that has some.
fn pair(router: &Router, address: &str) -> (Raw, Raw, Link) {
    let mut consumer = Raw::session(router, "consumer");
    consumer.attach_consumer(0, address, 1000);
    let mut producer = Raw::session(router, "producer");
    let sender = producer.attach_sender(0, address);
    producer.wait_for_limit(&sender, 5);
    (consumer, producer, sender)
}

/// An error that takes down a link or a session, not the connection.
fn expect_small_error(raw: &mut Raw, what: &str) {
    let frame = raw.receive();
    let condition = match frame.code {
        DETACH => frame.condition(detach::ERROR),
        END => frame.condition(END_ERROR),
        _ => panic!("{what}: a detach or an end was expected, got {frame}"),
    };
    assert!(condition.is_some(), "{what}: without an error: {frame}");
    raw.expect_alive(100);
}

/// Vcabbage 165, azure-uamqp-python 101.
#[test]
fn case_32_tags_of_0_to_32_bytes() {
    let router = Router::start(PLAIN);
    let (mut consumer, mut producer, sender) = pair(&router, "tags");
    for length in 0..=32 {
        let id = length as u32;
        producer.wait_for_limit(&sender, id + 1);
        let tag = vec![length as u8; length];
        producer.send(&transfer_frame(0, id, &data_message(&tag)).with(transfer::DELIVERY_TAG, &tag[..]));
        let (first, payload) = consumer.receive_delivery();
        assert_eq!(payload, data_message(&tag));
        assert!(!first.field(transfer::DELIVERY_TAG).is_null(), "a first frame has a tag: {first}");
        consumer.settle(&first, accepted());
        producer.expect_outcomes(id, id, ACCEPTED);
    }
}

#[test]
fn case_32_a_first_frame_that_lacks_what_it_needs() {
    let router = Router::start(PLAIN);
    let frame = transfer_frame(0, 0, &data_message(b"bad"));
    let bad = [
        ("a tag of 33 bytes", frame.clone().with(transfer::DELIVERY_TAG, &[1u8; 33][..])),
        ("no tag", frame.clone().without(transfer::DELIVERY_TAG)),
        ("no delivery-id", frame.clone().without(transfer::DELIVERY_ID)),
    ];
    for (what, frame) in bad {
        eprintln!("{what}");
        let (mut consumer, mut producer, _) = pair(&router, what);
        producer.send(&frame);
        expect_small_error(&mut producer, what);
        consumer.expect_silence(Duration::from_millis(50));
    }
}

/// Amqpnetlite 231, rabbitmq-amqp1.0-client 11.
#[test]
fn case_33_continuation_frames_that_omit_or_repeat() {
    let router = Router::start(PLAIN);
    let (mut consumer, mut producer, _) = pair(&router, "continued");
    let message = data_message(b"one message in three frames");
    let repeat = [transfer::DELIVERY_ID, transfer::DELIVERY_TAG, transfer::MESSAGE_FORMAT];
    for (id, repeated) in [&repeat[..0], &repeat[..1], &repeat[..2], &repeat[..]].into_iter().enumerate() {
        let first = transfer_frame(0, id as u32, &message[..5]).with(transfer::MORE, true);
        let mut next = Frame::new(TRANSFER).with(transfer::HANDLE, 0u32);
        for field in repeated {
            next = next.with(*field, first.field(*field).clone());
        }
        producer.send(&first);
        producer.send(&next.clone().with(transfer::MORE, true).payload(&message[5..9]));
        producer.send(&next.payload(&message[9..]));
        let (transfer, payload) = consumer.receive_delivery();
        assert_eq!(payload, message);
        consumer.settle(&transfer, accepted());
        producer.expect_outcomes(id as u32, id as u32, ACCEPTED);
    }
}

#[test]
fn case_33_continuation_frames_that_contradict() {
    let router = Router::start(PLAIN);
    let next = Frame::new(TRANSFER).with(transfer::HANDLE, 0u32).payload(&data_message(b"second"));
    let bad = [
        ("another delivery-id", next.clone().with(transfer::DELIVERY_ID, 7u32)),
        ("another tag", next.clone().with(transfer::DELIVERY_TAG, &b"other"[..])),
        ("another format", next.clone().with(transfer::MESSAGE_FORMAT, 9u32)),
    ];
    for (what, frame) in bad {
        eprintln!("{what}");
        let (mut consumer, mut producer, _) = pair(&router, what);
        producer.send(&transfer_frame(0, 0, &data_message(b"first")).with(transfer::MORE, true));
        producer.send(&frame);
        expect_small_error(&mut producer, what);
        // Nothing, or an abort, but no message.
        consumer.listen(Duration::from_millis(50));
        while let support::raw::Read1::Frame(frame) = consumer.read(Duration::ZERO) {
            let is_part = frame.field(transfer::MORE).is_true() || frame.field(transfer::ABORTED).is_true();
            assert!(frame.code == TRANSFER && is_part, "{what}: {frame}");
        }
    }
}

/// An aborted delivery leaves no trace at the receiver but an abort, and its credit comes back.
#[test]
fn an_aborted_delivery_is_not_delivered() {
    let router = Router::start_with("    linkCapacity: 10\n", PLAIN);
    let (mut consumer, mut producer, sender) = pair(&router, "aborted");
    for id in 0..100 {
        producer.wait_for_limit(&sender, id + 1);
        producer.send(&transfer_frame(0, id, &[0x00, 0x53, 0x75]).with(transfer::MORE, true));
        producer.send(&Frame::new(TRANSFER).with(transfer::HANDLE, 0u32).with(transfer::ABORTED, true));
    }
    producer.wait_for_limit(&sender, 101);
    producer.send(&transfer_frame(0, 100, &data_message(b"whole")));
    loop {
        let frame = consumer.expect(TRANSFER);
        if frame.payload == data_message(b"whole") {
            break;
        }
        let is_part = frame.field(transfer::MORE).is_true() || frame.field(transfer::ABORTED).is_true();
        assert!(is_part, "an aborted delivery came whole: {frame}");
    }
}

/// Fe2o3-amqp 382: a peer with the smallest frames and a window of three.
#[test]
fn case_35_frames_of_512_bytes_and_a_window_of_3() {
    let router = Router::start(PLAIN);
    let (mut consumer, _) = Raw::open_with(&router, open_frame("narrow").with(open::MAX_FRAME_SIZE, 512u32));
    consumer.send(&begin_frame().with(begin::INCOMING_WINDOW, 3u32));
    let first_id = consumer.expect(BEGIN).number(begin::NEXT_OUTGOING_ID);
    let link = consumer.attach_receiver(0, "narrow");
    let window = |consumer: &mut Raw, credit: u32| {
        let flow = consumer.link_flow(&link, credit).with(flow::INCOMING_WINDOW, 3u32);
        consumer.send(&flow);
    };
    window(&mut consumer, 10);
    let mut producer = Raw::session(&router, "producer");
    let sender = producer.attach_sender(0, "narrow");
    producer.wait_for_limit(&sender, 2);
    let body: Vec<u8> = (0..5000u32).map(|number| number as u8).collect();
    for id in 0..2 {
        producer.send(&transfer_frame(0, id, &data_message(&body)));
    }
    let mut frames = 0;
    for id in 0..2 {
        let (mut payload, mut more, mut ids) = (Vec::new(), true, Vec::new());
        while more {
            let frame = consumer.expect(TRANSFER);
            frames += 1;
            payload.extend_from_slice(&frame.payload);
            more = frame.field(transfer::MORE).is_true();
            ids.extend(frame.field(transfer::DELIVERY_ID).number());
            if frames % 3 == 0 {
                // The window is used up: nothing may come until it opens.
                consumer.expect_silence(Duration::from_millis(30));
                window(&mut consumer, 10 - id);
            }
        }
        assert_eq!(payload, data_message(&body));
        assert!(ids.iter().all(|number| *number == ids[0]), "delivery-ids of one delivery: {ids:?}");
    }
    assert!(consumer.largest_frame <= 512, "a frame of {} bytes", consumer.largest_frame);
    assert!(frames < 2 * 12, "{frames} frames for 10 000 bytes: they aren't filled");
    // The router counts the frames as we did.
    consumer.forget_flows();
    let flow = consumer.session_flow(0).with(flow::ECHO, true);
    consumer.send(&flow);
    assert_eq!(consumer.expect(FLOW).number(flow::NEXT_OUTGOING_ID), first_id.wrapping_add(frames));
}

/// Amqpnetlite 629, rabbitmq-server 15048: the bare message passes as it is.
#[test]
fn case_36_unusual_bodies_pass_unmodified() {
    let router = Router::start(PLAIN);
    let (mut consumer, mut producer, sender) = pair(&router, "bodies");
    let section = |code: u64, value: Value| Value::Described(Box::new(Value::Ulong(code)), Box::new(value)).to_bytes();
    let list = Value::List(vec![Value::Null, "text".into(), true.into()]);
    let headed = [described(0x70, vec![true.into(), 9u8.into()]).to_bytes(), data_message(b"headed")].concat();
    let messages = [
        ("properties only", properties(Some("bodies"), None)),
        ("empty data", data_message(b"")),
        ("two data sections", [data_message(b"one"), data_message(b"two")].concat()),
        ("a null value", section(0x77, Value::Null)),
        ("a sequence", section(0x76, list)),
        ("a value with a footer", [section(0x77, 7u32.into()), section(0x78, Value::Map(Vec::new()))].concat()),
        ("a header", headed),
    ];
    for (id, (what, message)) in messages.into_iter().enumerate() {
        let id = id as u32;
        producer.wait_for_limit(&sender, id + 1);
        producer.send(&transfer_frame(0, id, &message));
        let (first, payload) = consumer.receive_delivery();
        assert_eq!(payload, message, "{what}");
        consumer.settle(&first, accepted());
        producer.expect_outcomes(id, id, ACCEPTED);
    }
}

#[test]
fn case_36_a_delivery_of_0_bytes_gets_an_outcome() {
    let router = Router::start(PLAIN);
    let (mut consumer, mut producer, _) = pair(&router, "nothing");
    producer.send(&transfer_frame(0, 0, b""));
    // Passed on or refused, both will do.
    if let support::raw::Read1::Frame(transfer) = consumer.read(Duration::from_millis(300)) {
        assert_eq!((transfer.code, transfer.payload.len()), (TRANSFER, 0), "{transfer}");
        consumer.settle(&transfer, accepted());
    }
    assert!(!producer.expect_outcome(0).is_null());
    producer.send(&transfer_frame(0, 1, &data_message(b"next")));
    assert_eq!(consumer.receive_delivery().1, data_message(b"next"));
}

/// Rabbitmq-server 2584, 6292, qpid-dispatch 988.
#[test]
fn case_37_every_field_of_an_outcome_reaches_the_sender() {
    let router = Router::start(PLAIN);
    let (mut consumer, mut producer, sender) = pair(&router, "outcomes");
    let info = Value::Map(vec![
        (symbol("hue"), Value::Int(121)),
        (symbol("why"), "not green enough".into()),
        (symbol("list"), Value::List(vec![1u32.into(), Value::Null])),
    ]);
    let annotations = Value::Map(vec![(symbol("x-opt-why"), "busy".into()), (symbol("x-opt-times"), 3u64.into())]);
    let error = described(ERROR, vec![symbol("app:bad-colour"), "no green".into(), info]);
    let long = "long ".repeat(2_000);
    let states = [
        described(REJECTED, vec![error]),
        described(REJECTED, vec![described(ERROR, vec![symbol("app:long"), long.as_str().into()])]),
        described(MODIFIED, vec![true.into(), true.into(), annotations.clone()]),
        described(MODIFIED, vec![Value::Null, true.into()]),
        described(MODIFIED, vec![true.into(), Value::Null, annotations]),
        described(RELEASED, Vec::new()),
        accepted(),
    ];
    for (id, state) in states.into_iter().enumerate() {
        let id = id as u32;
        producer.wait_for_limit(&sender, id + 1);
        producer.send(&transfer_frame(0, id, &data_message(b"judge this")));
        let (first, _) = consumer.receive_delivery();
        consumer.settle(&first, state.clone());
        assert_eq!(producer.expect_outcome(id), state);
    }
}

/// Three-ack: the receiver's outcome, the sender's settlement, the receiver's.
#[test]
fn receiver_settles_second() {
    let router = Router::start(PLAIN);
    let mut consumer = Raw::session(&router, "consumer");
    let second = |frame: Frame| frame.with(attach::SENDER_SETTLE_MODE, 0u8).with(attach::RECEIVER_SETTLE_MODE, 1u8);
    let link = consumer.attach(second(receiver_attach("in", 0, "second")));
    consumer.credit(&link, 10);
    let mut producer = Raw::session(&router, "producer");
    let sender = producer.attach(second(sender_attach("out", 0, "second")));
    producer.wait_for_limit(&sender, 1);
    producer.send(&transfer_frame(0, 0, &data_message(b"in three steps")));
    let (first, _) = consumer.receive_delivery();
    let id = first.number(transfer::DELIVERY_ID);
    consumer.send(&disposition_frame(id, id, false, accepted()));
    let outcome = producer.expect(DISPOSITION);
    assert_eq!(outcome.field(disposition::STATE).code(), Some(ACCEPTED));
    assert!(!outcome.field(disposition::SETTLED).is_true(), "the receiver hasn't settled: {outcome}");
    let settle = disposition_frame(0, 0, true, accepted()).with(disposition::ROLE, ROLE_SENDER);
    producer.send(&settle);
    let settled = consumer.expect(DISPOSITION);
    assert_eq!(settled.field(disposition::ROLE), &Value::Bool(ROLE_SENDER));
    assert!(settled.field(disposition::SETTLED).is_true(), "{settled}");
    assert_eq!(settled.number(disposition::FIRST), id);
}

/// A range of dispositions settles them all, and ids that never were are no matter.
#[test]
fn a_disposition_of_a_wide_range() {
    let router = Router::start(PLAIN);
    let (mut consumer, mut producer, sender) = pair(&router, "range");
    let mut ids = Vec::new();
    for id in 0..100 {
        producer.wait_for_limit(&sender, id + 1);
        producer.send(&transfer_frame(0, id, &data_message(b"many")));
        ids.push(consumer.receive_delivery().0.number(transfer::DELIVERY_ID));
    }
    let first = ids[0];
    consumer.send(&disposition_frame(first, first.wrapping_add(0x7fff_ffff), true, accepted()));
    producer.expect_outcomes(0, 99, ACCEPTED);
    consumer.expect_alive(1);
}

/// Settled messages arrive settled where the receiver doesn't ask otherwise, and get no disposition.
#[test]
fn settled_deliveries_get_no_outcome() {
    let router = Router::start(PLAIN);
    let (mut consumer, mut producer, _) = pair(&router, "settled");
    for id in 0..5 {
        producer.send(&transfer_frame(0, id, &data_message(&[id as u8])).with(transfer::SETTLED, true));
        let (first, payload) = consumer.receive_delivery();
        assert!(first.field(transfer::SETTLED).is_true(), "{first}");
        assert_eq!(payload, data_message(&[id as u8]));
    }
    producer.expect_silence(Duration::from_millis(100));
}

//! Cases of sessions: what ends with a session and what doesn't, errors at their scope, serial numbers.

mod support;

use std::time::Duration;
use support::amqp::*;
use support::raw::{Link, Raw};
use support::router::{Router, DISTRIBUTIONS, PLAIN};

/// A message from `producer` reaches `consumer` and is accepted.
fn expect_passage(producer: &mut Raw, sender: &Link, id: u32, consumer: &mut Raw) {
    let message = data_message(&id.to_be_bytes());
    producer.send(&transfer_frame(sender.handle, id, &message).on(sender.channel));
    let (first, payload) = consumer.receive_delivery();
    assert_eq!(payload, message);
    consumer.settle(&first, accepted());
    let state = producer.expect_outcome(id);
    assert_eq!(state.code(), Some(ACCEPTED));
}

/// Rabbitmq-server 14389: a refused link among three takes down nothing else.
#[test]
fn case_15_one_refused_link_among_three() {
    let router = Router::start(DISTRIBUTIONS);
    let mut consumer = Raw::session(&router, "consumer");
    consumer.attach_consumer(0, "good", 10);
    let mut raw = Raw::session(&router, "three");
    raw.send_all(&[
        sender_attach("first", 0, "good"),
        sender_attach("bad", 1, "unavailable/here"),
        sender_attach("third", 2, "good"),
    ]);
    let mut attached = Vec::new();
    for _ in 0..4 {
        let frame = raw.receive();
        match frame.code {
            ATTACH => attached.push(frame),
            DETACH => {
                let bad = attached.iter().find(|attach| attach.field(attach::NAME).text() == Some("bad"));
                let bad = bad.expect("attached before it is detached");
                assert_eq!(frame.number(detach::HANDLE), bad.number(attach::HANDLE));
            }
            _ => panic!("an attach or a detach was expected, got {frame}"),
        }
    }
    for (id, (handle, name)) in [(0, "first"), (2, "third")].into_iter().enumerate() {
        let attach = attached.iter().find(|attach| attach.field(attach::NAME).text() == Some(name));
        let attach = attach.expect("attached").clone();
        let peer_handle = attach.number(attach::HANDLE);
        let link = Link { channel: 0, handle, peer_channel: attach.channel, peer_handle, attach };
        raw.wait_for_limit(&link, 1);
        expect_passage(&mut raw, &link, id as u32, &mut consumer);
    }
}

#[test]
fn case_15_one_link_that_breaks_the_rules_among_three() {
    let router = Router::start(PLAIN);
    let mut raw = Raw::session(&router, "three");
    let mut consumer = Raw::session(&router, "consumer");
    consumer.attach_consumer(0, "good", 10);
    let first = raw.attach_sender(0, "good");
    let bad = raw.attach_sender(1, "nobody.consumes");
    let third = raw.attach_sender(2, "good");
    raw.wait_for_limit(&first, 1);
    raw.wait_for_limit(&third, 1);
    // No credit on it: a transfer goes beyond.
    raw.send(&transfer_frame(1, 0, &data_message(b"too early")));
    let detach = raw.expect_error(DETACH, detach::ERROR, "amqp:link:transfer-limit-exceeded");
    assert_eq!(detach.number(detach::HANDLE), bad.peer_handle);
    raw.send(&detach_frame(1));
    expect_passage(&mut raw, &first, 1, &mut consumer);
    expect_passage(&mut raw, &third, 2, &mut consumer);
}

/// Three unsettled deliveries at a consumer.
fn three_unsettled(router: &Router, address: &str) -> (Raw, Raw, Link) {
    let mut consumer = Raw::session(router, "consumer");
    consumer.attach_consumer(0, address, 10);
    let mut producer = Raw::session(router, "producer");
    let sender = producer.attach_sender(0, address);
    producer.wait_for_limit(&sender, 3);
    for id in 0..3 {
        producer.send(&transfer_frame(0, id, &data_message(b"unsettled")));
        consumer.receive_delivery();
    }
    (consumer, producer, sender)
}

/// Qpid-dispatch 131: everything ends in one write, and the senders of what was unsettled hear it.
#[test]
fn case_16_detach_end_and_close_in_one_batch() {
    let router = Router::start(PLAIN);
    let (mut consumer, mut producer, _) = three_unsettled(&router, "batch");
    consumer.send_all(&[detach_frame(0), Frame::new(END), Frame::new(CLOSE)]);
    producer.expect_outcomes(0, 2, MODIFIED);
    consumer.expect(DETACH);
    consumer.expect(END);
    consumer.expect(CLOSE);
    consumer.expect_end_of_stream();
    producer.expect_alive(1);
}

#[test]
fn case_16_close_without_detach_or_end() {
    let router = Router::start(PLAIN);
    let descriptors = router.descriptors_at_rest();
    let (mut consumer, mut producer, sender) = three_unsettled(&router, "abrupt");
    consumer.send(&Frame::new(CLOSE));
    producer.expect_outcomes(0, 2, MODIFIED);
    consumer.expect(CLOSE);
    drop(consumer);
    // The address has no consumer any more; with a new one all goes on.
    let mut consumer = Raw::session(&router, "consumer again");
    consumer.attach_consumer(0, "abrupt", 10);
    producer.wait_for_limit(&sender, 4);
    expect_passage(&mut producer, &sender, 3, &mut consumer);
    consumer.close();
    producer.close();
    assert_eq!(router.descriptors_at_rest(), descriptors, "descriptors are leaked");
}

#[test]
fn case_16_a_killed_socket() {
    let router = Router::start(PLAIN);
    let (consumer, mut producer, _) = three_unsettled(&router, "killed");
    drop(consumer);
    producer.expect_outcomes(0, 2, MODIFIED);
}

/// Qpid-dispatch 136: the receiver leaves in the middle of a message.
#[test]
fn case_16_the_receiver_closes_in_mid_transfer() {
    let router = Router::start(PLAIN);
    let mut consumer = Raw::session(&router, "consumer");
    consumer.attach_consumer(0, "half", 10);
    let mut producer = Raw::session(&router, "producer");
    let sender = producer.attach_sender(0, "half");
    producer.wait_for_limit(&sender, 1);
    let part = vec![1; 15_000];
    let opening = [0x00, 0x53, 0x75, 0xb0, 0x00, 0x01, 0xd4, 0xc0]; // a data section of 8 × 15 000 bytes
    let mut message = opening.to_vec();
    message.extend_from_slice(&part);
    producer.send(&transfer_frame(0, 0, &message).with(transfer::MORE, true));
    let more = Frame::new(TRANSFER).with(transfer::HANDLE, 0u32).payload(&part);
    for _ in 0..6 {
        producer.send(&more.clone().with(transfer::MORE, true));
    }
    // It streams: the consumer sees the begin of it.
    assert!(consumer.expect(TRANSFER).field(transfer::MORE).is_true());
    consumer.send(&Frame::new(CLOSE));
    drop(consumer);
    producer.send(&more);
    let outcome = producer.expect(DISPOSITION);
    let code = outcome.field(disposition::STATE).code();
    assert!([Some(MODIFIED), Some(RELEASED)].contains(&code), "{outcome}");
    assert!(outcome.field(disposition::SETTLED).is_true(), "{outcome}");
    producer.expect_alive(1);
}

/// The sender leaves in the middle of a message: nobody may take the half for the whole.
#[test]
fn case_16_the_sender_closes_in_mid_transfer() {
    let router = Router::start(PLAIN);
    let mut consumer = Raw::session(&router, "consumer");
    consumer.attach_consumer(0, "half", 1);
    let mut producer = Raw::session(&router, "producer");
    let sender = producer.attach_sender(0, "half");
    producer.wait_for_limit(&sender, 1);
    let frame = transfer_frame(0, 0, &[0x00, 0x53, 0x75, 0xb0, 0x00, 0x10, 0x00, 0x00]);
    producer.send(&frame.with(transfer::MORE, true));
    for _ in 0..8 {
        let more = Frame::new(TRANSFER).with(transfer::HANDLE, 0u32).with(transfer::MORE, true);
        producer.send(&more.payload(&[2; 15_000]));
    }
    let first = consumer.expect(TRANSFER);
    assert!(first.field(transfer::MORE).is_true());
    producer.send(&Frame::new(CLOSE));
    drop(producer);
    loop {
        let frame = consumer.expect(TRANSFER);
        if frame.field(transfer::ABORTED).is_true() {
            break;
        }
        assert!(frame.field(transfer::MORE).is_true(), "half a message ends as if it were whole: {frame}");
    }
    // The aborted delivery used the credit that it had; another is asked for.
    let link = consumer.attach_consumer(1, "half.next", 1);
    assert_eq!(consumer.delivery_count(&link), 0);
    let mut producer = Raw::session(&router, "next producer");
    let sender = producer.attach_sender(0, "half.next");
    producer.wait_for_limit(&sender, 1);
    expect_passage(&mut producer, &sender, 0, &mut consumer);
}

#[test]
fn case_16_the_same_channel_and_handle_at_once_for_another_address() {
    let router = Router::start(PLAIN);
    let mut producer = Raw::session(&router, "producer");
    let mut consumer = Raw::session(&router, "consumer");
    consumer.attach_consumer(0, "old", 100);
    let old = producer.attach_sender(0, "old");
    let new = producer.attach_sender(1, "new");
    for id in 0..50 {
        producer.wait_for_limit(&old, id + 1);
        producer.send(&transfer_frame(0, id, &data_message(b"old")));
    }
    let flow = Frame::new(FLOW)
        .with(flow::INCOMING_WINDOW, WIDE_WINDOW)
        .with(flow::NEXT_INCOMING_ID, 0u32)
        .with(flow::NEXT_OUTGOING_ID, 0u32)
        .with(flow::OUTGOING_WINDOW, WIDE_WINDOW)
        .with(flow::HANDLE, 0u32)
        .with(flow::LINK_CREDIT, 10u32);
    consumer.send_all(&[Frame::new(END), begin_frame(), receiver_attach("anew", 0, "new"), flow]);
    while consumer.receive().code != END {}
    consumer.expect(BEGIN);
    consumer.expect(ATTACH);
    producer.wait_for_limit(&new, 1);
    producer.send(&transfer_frame(1, 50, &data_message(b"new")));
    let (_, payload) = consumer.receive_delivery();
    assert_eq!(payload, data_message(b"new"), "a delivery of the old link");
    consumer.expect_silence(Duration::from_millis(100));
    // What the old link had is given back, whether it had been sent or not.
    let mut returned = 0;
    while returned < 50 {
        let frame = producer.expect(DISPOSITION);
        let code = frame.field(disposition::STATE).code();
        assert!([Some(MODIFIED), Some(RELEASED)].contains(&code), "{frame}");
        let first = frame.number(disposition::FIRST);
        returned += frame.field(disposition::LAST).number().map_or(first, |last| last as u32) - first + 1;
    }
}

#[test]
fn case_17_a_handle_in_use() {
    let router = Router::start(PLAIN);
    let mut raw = Raw::session(&router, "twice");
    raw.attach_sender(5, "first");
    raw.send(&sender_attach("another name", 5, "second"));
    raw.expect_error(END, END_ERROR, "amqp:session:handle-in-use");
    raw.send(&Frame::new(END));
    raw.expect_alive(1);
}

#[test]
fn case_17_an_unattached_handle() {
    let router = Router::start(PLAIN);
    let mut raw = Raw::open(&router, "unattached");
    let frames = [
        transfer_frame(3, 0, &data_message(b"nowhere")),
        Frame::new(DETACH).with(detach::HANDLE, 3u32).with(detach::CLOSED, true),
        raw.session_flow(0).with(flow::HANDLE, 3u32).with(flow::LINK_CREDIT, 1u32),
    ];
    for (channel, frame) in frames.into_iter().enumerate() {
        let channel = channel as u16;
        raw.begin(channel);
        raw.send(&frame.on(channel));
        raw.expect_error(END, END_ERROR, "amqp:session:unattached-handle");
        raw.send(&Frame::new(END).on(channel));
    }
    raw.expect_alive(9);
}

#[test]
fn case_17_a_repeated_begin() {
    let router = Router::start(PLAIN);
    let mut raw = Raw::session(&router, "again");
    raw.send(&begin_frame());
    raw.expect_close("amqp:not-allowed");
}

#[test]
fn case_17_frames_without_a_mandatory_field() {
    let router = Router::start(PLAIN);
    for field in [begin::NEXT_OUTGOING_ID, begin::INCOMING_WINDOW, begin::OUTGOING_WINDOW] {
        let mut raw = Raw::open(&router, "begin");
        raw.send(&begin_frame().without(field));
        raw.expect_close("amqp:decode-error");
    }
    for field in [attach::NAME, attach::HANDLE, attach::ROLE] {
        let mut raw = Raw::session(&router, "attach");
        raw.send(&sender_attach("incomplete", 0, "somewhere").without(field));
        raw.expect_close("amqp:decode-error");
    }
    for frame in [Frame::new(TRANSFER), Frame::new(DISPOSITION), Frame::new(DETACH), Frame::new(FLOW)] {
        let mut raw = Raw::session(&router, "empty");
        raw.send(&frame);
        raw.expect_close("amqp:decode-error");
    }
}

#[test]
fn case_17_handle_max_is_inclusive() {
    let router = Router::start(PLAIN);
    let mut raw = Raw::open(&router, "handles");
    let handle_max = raw.begin(0).number(begin::HANDLE_MAX);
    assert!(handle_max < u32::MAX, "our handles have a bound");
    raw.attach_sender(handle_max, "last");
    raw.send(&sender_attach("beyond", handle_max + 1, "beyond"));
    raw.expect_close("amqp:connection:framing-error");
}

/// A frame on a channel where no session is.
#[test]
fn case_17_a_frame_on_a_channel_without_a_session() {
    let router = Router::start(PLAIN);
    let mut raw = Raw::session(&router, "lost");
    raw.send(&sender_attach("lost", 0, "somewhere").on(7));
    let close = raw.expect(CLOSE);
    assert!(close.condition(CLOSE_ERROR).is_some(), "never silence: {close}");
}

/// Rhea starts outgoing-window at 0xffffffff and counts down; amqp10 starts ids at 1.
#[test]
fn case_18_unusual_windows_and_first_ids() {
    let router = Router::start(PLAIN);
    let mut consumer = Raw::session(&router, "consumer");
    consumer.attach_consumer(0, "ids", 1000);
    for first_id in [1u32, 1000, 0x7fff_fffe, 0xffff_fffd] {
        let mut raw = Raw::open(&router, "unusual");
        let begin = begin_frame();
        raw.send(&begin.with(begin::NEXT_OUTGOING_ID, first_id).with(begin::OUTGOING_WINDOW, u32::MAX));
        raw.expect(BEGIN);
        let attach = sender_attach("unusual", 0, "ids").with(attach::INITIAL_DELIVERY_COUNT, first_id);
        let sender = raw.attach(attach);
        raw.wait_for_limit(&sender, first_id.wrapping_add(6));
        // A session flow as rhea writes it, the window counted down.
        let flow = Frame::new(FLOW)
            .with(flow::NEXT_INCOMING_ID, 0u32)
            .with(flow::INCOMING_WINDOW, 2048u32)
            .with(flow::NEXT_OUTGOING_ID, first_id)
            .with(flow::OUTGOING_WINDOW, u32::MAX - 1);
        raw.send(&flow);
        for number in 0..6u32 {
            let id = first_id.wrapping_add(number);
            expect_passage(&mut raw, &sender, id, &mut consumer);
        }
        raw.close();
    }
}

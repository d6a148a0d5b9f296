//! What a peer may grow has a bound, and reaching it is an error at its scope or a pause, never more.

mod support;

use std::time::{Duration, Instant};
use support::amqp::*;
use support::raw::{Raw, Read1, AMQP_HEADER};
use support::router::{Router, PLAIN};

fn credit_of(raw: &mut Raw, address: &str, credit: u32) -> support::raw::Link {
    raw.attach_consumer(0, address, credit)
}

/// A peer that opens slowly, however often it says something, is closed.
#[test]
fn a_handshake_has_an_end() {
    let router = Router::start_with("    initialHandshakeTimeoutSeconds: 1\n", PLAIN);
    let begun = Instant::now();
    let mut silent = Raw::connect(&router);
    let mut half = Raw::connect(&router);
    half.send_bytes(&AMQP_HEADER);
    let mut slow = Raw::connect(&router);
    let open = [&AMQP_HEADER[..], &open_frame("slow").to_bytes()].concat();
    for byte in &open[..12] {
        slow.send_bytes(&[*byte]);
        std::thread::sleep(Duration::from_millis(50));
    }
    silent.expect_end_of_stream();
    assert_eq!(half.read_header(), AMQP_HEADER);
    // Where a close has its place, it says why.
    half.expect(OPEN);
    assert_eq!(half.expect(CLOSE).condition(CLOSE_ERROR), Some("amqp:resource-limit-exceeded"));
    let waited = begun.elapsed();
    assert!((Duration::from_millis(800)..Duration::from_secs(5)).contains(&waited), "{waited:?}");
    // Who opened in time may take any time afterwards.
    let mut opened = Raw::session(&router, "opened");
    std::thread::sleep(Duration::from_millis(1500));
    opened.expect_alive(1);
}

#[test]
fn a_connection_too_many_is_opened_and_closed_with_the_reason() {
    let router = Router::start_of("", "maxConnections: 3", PLAIN);
    let kept: Vec<Raw> = (0..3).map(|n| Raw::session(&router, &format!("kept-{n}"))).collect();
    for _ in 0..3 {
        let (mut more, _) = Raw::open_with(&router, open_frame("more"));
        let close = more.expect(CLOSE);
        assert_eq!(close.condition(CLOSE_ERROR), Some("amqp:resource-limit-exceeded"), "{close}");
        more.send(&Frame::new(CLOSE));
        more.expect_end_of_stream();
    }
    // Far too many are not even answered.
    let crowd: Vec<Raw> = (0..60).map(|_| Raw::connect(&router)).collect();
    drop(crowd);
    for mut one in kept {
        one.expect_alive(1);
        one.close();
    }
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let (mut again, _) = Raw::open_with(&router, open_frame("again"));
        again.send(&begin_frame());
        if let Read1::Frame(frame) = again.read(Duration::from_secs(5)) {
            if frame.code == BEGIN {
                return;
            }
        }
        assert!(Instant::now() < deadline, "places are free again");
    }
}

#[test]
fn a_link_too_many_is_refused_and_the_others_work() {
    let router = Router::start_with("    maxLinks: 2\n", PLAIN);
    let mut raw = Raw::session(&router, "links");
    let consumer = credit_of(&mut raw, "q", 10);
    let sender = raw.attach_sender(1, "q");
    raw.send(&sender_attach("third", 2, "q"));
    raw.expect(ATTACH);
    let detach = raw.expect(DETACH);
    assert_eq!(detach.condition(detach::ERROR), Some("amqp:resource-limit-exceeded"), "{detach}");
    raw.send(&detach_frame(2));
    raw.wait_for_limit(&sender, 1);
    raw.send(&transfer_frame(1, 0, &data_message(b"x")));
    let (first, _) = raw.receive_delivery();
    raw.settle(&first, accepted());
    raw.expect_outcomes(0, 0, ACCEPTED);
    raw.detach(&consumer);
    // There is a place again.
    raw.attach_receiver(3, "other");
}

/// A consumer that settles nothing gets so many and waits, and so do its senders; nobody is ended, and settling goes on.
#[test]
fn unsettled_deliveries_have_a_bound_each_way() {
    let router = Router::start_with("    maxUnsettled: 5\n", PLAIN);
    let mut consumer = Raw::session(&router, "consumer");
    let _link = credit_of(&mut consumer, "q", 100);
    let mut producers: Vec<Raw> = (0..2).map(|n| Raw::session(&router, &format!("producer-{n}"))).collect();
    for producer in &mut producers {
        let sender = producer.attach_sender(0, "q");
        for sent in 0..5 {
            producer.wait_for_limit(&sender, sent + 1);
            producer.send(&transfer_frame(0, sent, &data_message(&[sent as u8])));
        }
        producer.listen(Duration::from_millis(100));
        assert_eq!(producer.window_end(), 5, "its window is shut");
    }
    let first: Vec<Frame> = (0..5).map(|_| consumer.receive_delivery().0).collect();
    consumer.expect_silence(Duration::from_millis(300));
    for frame in &first {
        consumer.settle(frame, accepted());
    }
    let rest: Vec<Frame> = (0..5).map(|_| consumer.receive_delivery().0).collect();
    for frame in &rest {
        consumer.settle(frame, accepted());
    }
    for producer in &mut producers {
        producer.expect_outcomes(0, 4, ACCEPTED);
        producer.listen(Duration::from_millis(100));
        assert!(producer.window_end() > 5, "its window is open again");
        producer.expect_alive(1);
    }
    consumer.expect_alive(1);
}

/// The router takes whole requests: one whose rest doesn't come holds nobody up, and one that is too long ends by itself.
#[test]
fn half_a_request_to_the_router_holds_up_nobody() {
    let router = Router::start(PLAIN);
    let mut peer = Raw::session(&router, "half");
    let links = [peer.attach_sender(0, "$management"), peer.attach_sender(1, "$management")];
    for (link, id) in links.iter().zip(0..) {
        peer.wait_for_limit(link, 1);
        peer.send(&transfer_frame(id, id, &[b'x'; 16_000]).with(transfer::MORE, true));
    }
    for _ in 0..5 {
        peer.send(
            &Frame::new(TRANSFER).with(transfer::HANDLE, 0u32).with(transfer::MORE, true).payload(&[b'x'; 16_000]),
        );
    }
    assert!(router.general_figures()["Connections"] > 1);
    // One of the two grows too long.
    for _ in 0..16 {
        peer.send(
            &Frame::new(TRANSFER).with(transfer::HANDLE, 1u32).with(transfer::MORE, true).payload(&[b'x'; 16_000]),
        );
    }
    peer.expect_outcomes(1, 1, REJECTED);
    assert!(router.general_figures()["Connections"] > 1);
}

/// The only delivery that may be unsettled is one of many frames: all of them pass, and the next one after it.
#[test]
fn a_large_message_passes_where_one_delivery_may_be_unsettled() {
    let router = Router::start_with("    maxUnsettled: 1\n", PLAIN);
    let mut consumer = Raw::session(&router, "consumer");
    let _link = credit_of(&mut consumer, "q", 10);
    let mut producer = Raw::session(&router, "producer");
    let sender = producer.attach_sender(0, "q");
    let message = data_message(&vec![7; 300_000]);
    let parts: Vec<&[u8]> = message.chunks(16_000).collect();
    let mut sent = 0;
    for id in 0..2 {
        producer.wait_for_limit(&sender, id + 1);
        for (n, part) in parts.iter().enumerate() {
            wait_for_window(&mut producer, sent + 1);
            producer.send(&transfer_frame(0, id, part).with(transfer::MORE, n + 1 < parts.len()));
            sent += 1;
        }
        let (first, payload) = consumer.receive_delivery();
        assert_eq!(payload, message);
        producer.listen(Duration::from_millis(100));
        assert_eq!(producer.window_end(), sent, "its window is shut");
        consumer.settle(&first, accepted());
        producer.expect_outcomes(id, id, ACCEPTED);
    }
    consumer.expect_alive(1);
}

fn wait_for_window(raw: &mut Raw, frames: u32) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while raw.window_end() < frames {
        assert!(Instant::now() < deadline, "the window is for {} frames, not {frames}", raw.window_end());
        raw.listen(Duration::from_millis(5));
    }
}

/// A link that leaves takes what it left unsettled along: the next one on its session begins anew.
#[test]
fn who_attaches_again_has_the_places_of_what_it_left() {
    let router = Router::start_with("    maxUnsettled: 5\n", PLAIN);
    let mut consumer = Raw::session(&router, "consumer");
    let mut producer = Raw::session(&router, "producer");
    for round in 0..3 {
        let link = credit_of(&mut consumer, "q", 10);
        let sender = producer.attach_sender(0, "q");
        for n in 0..5 {
            producer.wait_for_limit(&sender, n + 1);
            producer.send(&transfer_frame(0, round * 5 + n, &data_message(&[n as u8])));
            consumer.receive_delivery();
        }
        producer.detach(&sender);
        consumer.detach(&link);
        wait_for_window(&mut producer, (round + 2) * 5);
    }
}

/// Qpid-dispatch 717, hono 2152, azure-sdk-for-java 49848.
#[test]
fn case_22_the_largest_message_passes_and_one_byte_more_is_refused() {
    let router = Router::start_with("    maxMessageSize: 100000\n", PLAIN);
    let mut consumer = Raw::session(&router, "consumer");
    let _link = credit_of(&mut consumer, "q", 10);
    let mut producer = Raw::session(&router, "producer");
    let sender = producer.attach_sender(0, "q");
    assert_eq!(sender.attach.field(attach::MAX_MESSAGE_SIZE).number(), Some(100_000));
    producer.wait_for_limit(&sender, 1);
    let message = data_message(&vec![7; 99_992]);
    assert_eq!(message.len(), 100_000);
    send_in_frames(&mut producer, 0, 0, &message, true);
    let (first, payload) = consumer.receive_delivery();
    assert_eq!(payload, message);
    consumer.settle(&first, accepted());
    producer.expect_outcomes(0, 0, ACCEPTED);
    // One more, of a length that isn't known beforehand.
    producer.wait_for_limit(&sender, 2);
    send_in_frames(&mut producer, 0, 1, &[&message[..], &[0]].concat(), false);
    let detach = producer.expect(DETACH);
    assert_eq!(detach.condition(detach::ERROR), Some("amqp:link:message-size-exceeded"), "{detach}");
    producer.expect_alive(1);
    // What of it was on its way is given up; nobody takes it for a whole message.
    let deadline = Instant::now() + Duration::from_secs(5);
    while Instant::now() < deadline {
        match consumer.read(Duration::from_millis(300)) {
            Read1::Frame(frame) if frame.code == TRANSFER => {
                let more = frame.field(transfer::MORE).is_true();
                let aborted = frame.field(transfer::ABORTED).is_true();
                assert!(more || aborted, "a part came as if it was all: {frame}");
                if aborted {
                    break;
                }
            }
            Read1::Frame(frame) => panic!("unexpected {frame}"),
            Read1::Silence => break,
            Read1::EndOfStream => panic!("the consumer was closed"),
        }
    }
    consumer.expect_alive(1);
}

/// Section 2.7.3: what is larger than a receiver takes isn't sent to it. Its sender hears why, and both links live.
#[test]
fn a_receivers_own_max_message_size_is_kept() {
    let router = Router::start(PLAIN);
    let mut consumer = Raw::session(&router, "consumer");
    let link = consumer.attach(receiver_attach("small", 0, "q").with(attach::MAX_MESSAGE_SIZE, 20_000u64));
    consumer.credit(&link, 10);
    let mut producer = Raw::session(&router, "producer");
    let sender = producer.attach_sender(0, "q");
    // In one frame, as a stream that the receiver has seen a part of, and one that fits.
    for (id, bytes) in [(0, 20_001 - 8), (1, 100_000), (2, 20_000 - 8)] {
        producer.wait_for_limit(&sender, id + 1);
        send_in_frames(&mut producer, 0, id, &data_message(&vec![7; bytes]), true);
        if id < 2 {
            producer.expect_outcomes(id, id, REJECTED);
        }
    }
    let mut bytes = 0;
    let first = loop {
        let frame = consumer.expect(TRANSFER);
        bytes += frame.payload.len();
        assert!(bytes <= 20_000, "{bytes} bytes of a message, or more, on a link that takes 20 000");
        if frame.field(transfer::ABORTED).is_true() {
            bytes = 0;
        } else if !frame.field(transfer::MORE).is_true() {
            break frame;
        }
    };
    assert_eq!(bytes, 20_000);
    // A delivery's later frames may leave its id out.
    let id = first.field(transfer::DELIVERY_ID).number().expect("each frame of the router's has it") as u32;
    consumer.send(&disposition_frame(id, id, true, accepted()));
    producer.expect_outcomes(2, 2, ACCEPTED);
    consumer.expect_alive(1);
}

#[test]
fn case_22_no_limit_is_said_by_saying_none() {
    let router = Router::start(PLAIN);
    let mut producer = Raw::session(&router, "producer");
    let sender = producer.attach_sender(0, "q");
    assert!(sender.attach.field(attach::MAX_MESSAGE_SIZE).is_null(), "{}", sender.attach);
}

/// A message in frames of at most 16 000 payload bytes; the last ends the delivery or not.
fn send_in_frames(raw: &mut Raw, handle: u32, id: u32, message: &[u8], ends: bool) {
    let parts: Vec<&[u8]> = message.chunks(16_000).collect();
    for (n, part) in parts.iter().enumerate() {
        let more = n + 1 < parts.len() || !ends;
        raw.send(&transfer_frame(handle, id, part).with(transfer::MORE, more));
    }
}

/// Go-amqp 48, fe2o3-amqp 170: what a sender says of its own window doesn't hold it up.
#[test]
fn case_13_a_sender_with_an_outgoing_window_of_1() {
    let router = Router::start(PLAIN);
    let mut consumer = Raw::session(&router, "consumer");
    let _link = credit_of(&mut consumer, "q", 10_000);
    let mut producer = Raw::open(&router, "producer");
    producer.send(&begin_frame().with(begin::OUTGOING_WINDOW, 1u32));
    producer.expect(BEGIN);
    let sender = producer.attach_sender(0, "q");
    for sent in 0..10_000u32 {
        producer.wait_for_limit(&sender, sent + 1);
        let frame = transfer_frame(0, sent, &data_message(b"x")).with(transfer::SETTLED, true);
        producer.send(&frame);
        if sent % 100 == 99 {
            for _ in 0..100 {
                consumer.receive_delivery();
            }
        }
    }
}

/// Skupper-router 1619: a session's window bounds what waits, and a peer that oversteps it loses its session.
#[test]
fn case_14_ten_session_frames_and_a_blocked_receiver() {
    let router = Router::start_with("    maxSessionFrames: 10\n", PLAIN);
    let mut consumer = Raw::session(&router, "consumer");
    let link = consumer.attach_receiver(0, "q");
    // It takes three frames, and no more.
    let flow = consumer.link_flow(&link, 1).with(flow::INCOMING_WINDOW, 3u32);
    consumer.send(&flow);
    let mut producer = Raw::session(&router, "producer");
    let sender = producer.attach_sender(0, "q");
    producer.wait_for_limit(&sender, 1);
    let window = producer.window_end();
    assert!(window <= 10, "{window}");
    // One endless message, more of it than the window.
    let part = vec![1; 10_000];
    let frame = transfer_frame(0, 0, &part).with(transfer::MORE, true);
    for _ in 0..100 {
        producer.send(&frame);
    }
    let end = producer.expect(END);
    assert_eq!(end.condition(0), Some("amqp:session:window-violation"), "{end}");
    producer.send(&Frame::new(END));
    producer.expect_alive(1);
    assert!(router.memory_kib("VmRSS") < 200 * 1024);
}

#[test]
fn resumed_and_transactional_deliveries_are_refused_at_their_link() {
    let router = Router::start(PLAIN);
    let mut consumer = Raw::session(&router, "consumer");
    let _link = credit_of(&mut consumer, "q", 10);
    let transactional = described(0x34, vec![Value::from(&b"txn"[..])]);
    for (n, frame) in [
        transfer_frame(0, 0, &data_message(b"x")).with(transfer::RESUME, true),
        transfer_frame(0, 0, &data_message(b"x")).with(transfer::STATE, transactional),
    ]
    .into_iter()
    .enumerate()
    {
        let mut producer = Raw::session(&router, &format!("producer-{n}"));
        let sender = producer.attach_sender(0, "q");
        producer.wait_for_limit(&sender, 1);
        producer.send(&frame);
        let detach = producer.expect(DETACH);
        assert_eq!(detach.condition(detach::ERROR), Some("amqp:not-implemented"), "{detach}");
        producer.expect_alive(1);
    }
    consumer.expect_silence(Duration::from_millis(200));
}

/// Skupper-router 1288: a receiver dies in the middle of 100 MB, and another takes its place.
#[test]
fn case_34_a_receiver_of_100_mb_is_killed_and_replaced() {
    use support::crowd::{Crowd, Role};
    let router = Router::start_of("", "memoryLimit: 64m", PLAIN);
    let mut crowd = Crowd::new(&router);
    let receiver = crowd.add(Role::Receiver { address: "big".into(), credit: 2 });
    let sender = crowd.add(Role::Sender { address: "big".into(), bytes: 100_000_000, messages: 2 });
    assert!(crowd.run_until(Duration::from_secs(10), Crowd::all_attached));
    crowd.run_for(Duration::from_millis(100));
    crowd.peers[receiver].reads = false;
    crowd.run_for(Duration::from_millis(500));
    crowd.kill(receiver);
    crowd.replace(receiver);
    let is_done = crowd.run_until(Duration::from_secs(60), |crowd| crowd.peers[sender].is_done());
    assert!(is_done, "a permanent stall: {} accepted", crowd.accepted());
    assert_eq!(crowd.accepted(), 2);
    let peak = router.memory_kib("VmHWM");
    assert!(peak < 112 * 1024, "{peak} KiB");
}

//! Cases of connections: idle time-outs, frame sizes, the order of opening, channels, foreign protocols, and the
//! orderly stop. Numbers are those of the public reports that the cases come from.

mod support;

use std::io::Write;
use std::time::{Duration, Instant};
use support::amqp::*;
use support::raw::{Raw, Read1, AMQP_HEADER, SASL_HEADER};
use support::router::{Router, PLAIN};

/// How long until the router closes; the time counts from now.
fn time_until_close(raw: &mut Raw, patience: Duration) -> (Duration, Frame) {
    let began = Instant::now();
    match raw.read(patience) {
        Read1::Frame(frame) if frame.code == CLOSE => (began.elapsed(), frame),
        Read1::Frame(frame) => panic!("a close was expected, got {frame}"),
        Read1::Silence => panic!("no close within {patience:?}"),
        Read1::EndOfStream => panic!("the stream ended after {:?} without a close", began.elapsed()),
    }
}

/// Rhea 434, amqpnetlite 444, go-amqp 16: we advertise half of what we wait, so that a peer which beats at what
/// it was told isn't closed by a late beat.
#[test]
fn case_01_idle_time_out_of_16_seconds() {
    let router = Router::start_with("    idleTimeoutSeconds: 16\n", PLAIN);
    let (mut silent, open) = Raw::open_with(&router, open_frame("silent"));
    assert_eq!(open.number(open::IDLE_TIME_OUT), 8000);
    let beating = {
        let mut beating = Raw::open(&router, "beating");
        std::thread::spawn(move || {
            for _ in 0..3 {
                beating.listen(Duration::from_millis(7900));
                beating.send(&Frame::new(EMPTY));
            }
            beating.expect_alive(0);
            beating.close();
        })
    };
    let (time, close) = time_until_close(&mut silent, Duration::from_secs(20));
    assert!((15_000..18_000).contains(&time.as_millis()), "closed after {time:?}");
    assert!(close.condition(CLOSE_ERROR).is_some(), "closed without an error");
    beating.join().expect("the beating client lives");
}

/// Node-amqp10 261: what the peer advertises sets our pace, what we advertise sets the peer's.
#[test]
fn case_02_heartbeats_follow_the_peers_time_out() {
    let router = Router::start_with("    idleTimeoutSeconds: 60\n", PLAIN);
    let (mut raw, open) = Raw::open_with(&router, open_frame("hasty").with(open::IDLE_TIME_OUT, 2000u32));
    assert_eq!(open.number(open::IDLE_TIME_OUT), 30_000);
    let mut last = Instant::now();
    raw.listen(Duration::from_millis(6500));
    assert!(raw.heartbeats.len() >= 3, "{} heartbeats in 6.5 s", raw.heartbeats.len());
    for beat in &raw.heartbeats {
        let gap = beat.duration_since(last);
        assert!(gap <= Duration::from_millis(2050), "{gap:?} between two frames");
        last = *beat;
    }
    raw.close();
}

#[test]
fn case_02_heartbeats_reversed() {
    let router = Router::start_with("    idleTimeoutSeconds: 2\n", PLAIN);
    let (mut raw, open) = Raw::open_with(&router, open_frame("calm").with(open::IDLE_TIME_OUT, 60_000u32));
    assert_eq!(open.number(open::IDLE_TIME_OUT), 1000);
    let (time, close) = time_until_close(&mut raw, Duration::from_secs(5));
    assert!((1_500..3_500).contains(&time.as_millis()), "closed after {time:?}");
    assert!(close.condition(CLOSE_ERROR).is_some(), "closed without an error");
    assert!(raw.heartbeats.is_empty(), "a peer with a minute's patience needs no heartbeat in two seconds");
}

#[test]
fn case_02_no_heartbeats_without_a_time_out() {
    let router = Router::start(PLAIN);
    let zero = Raw::open_with(&router, open_frame("zero").with(open::IDLE_TIME_OUT, 0u32)).0;
    let absent = Raw::open(&router, "absent");
    for mut raw in [zero, absent] {
        raw.listen(Duration::from_secs(2));
        assert!(raw.heartbeats.is_empty());
        raw.close();
    }
}

/// Rabbitmq-amqp1.0 42. The error comes from the size field alone: the body is never sent here.
#[test]
fn case_03_a_frame_beyond_our_max_frame_size() {
    let router = Router::start_with("    maxFrameSize: 4096\n", PLAIN);
    for size in [4097u32, 0x7fff_ffff, 0xffff_ffff] {
        let (mut raw, open) = Raw::open_with(&router, open_frame("large"));
        assert_eq!(open.number(open::MAX_FRAME_SIZE), 4096);
        let mut header = size.to_be_bytes().to_vec();
        header.extend([2, 0, 0, 0]);
        raw.send_bytes(&header);
        raw.expect_close("amqp:connection:framing-error");
    }
}

#[test]
fn case_03_a_frame_of_exactly_our_max_frame_size() {
    let router = Router::start_with("    maxFrameSize: 4096\n", PLAIN);
    let mut consumer = Raw::session(&router, "consumer");
    consumer.attach_consumer(0, "exact", 10);
    let mut raw = Raw::session(&router, "producer");
    let link = raw.attach_sender(0, "exact");
    raw.wait_for_limit(&link, 1);
    let overhead = transfer_frame(0, 0, &[]).to_bytes().len();
    let message = data_message(&vec![7; 4096 - overhead - 8]);
    let frame = transfer_frame(0, 0, &message);
    assert_eq!(frame.to_bytes().len(), 4096);
    raw.send(&frame);
    let (first, payload) = consumer.receive_delivery();
    assert_eq!(payload, message);
    consumer.settle(&first, accepted());
    raw.expect_outcomes(0, 0, ACCEPTED);
}

#[test]
fn case_03_frames_that_cannot_be() {
    let router = Router::start(PLAIN);
    let headers: [(&str, [u8; 8]); 3] = [
        ("a size below the header's", [0, 0, 0, 7, 2, 0, 0, 0]),
        ("a data offset inside the header", [0, 0, 0, 8, 1, 0, 0, 0]),
        ("a data offset beyond the frame", [0, 0, 0, 8, 3, 0, 0, 0]),
    ];
    for (what, header) in headers {
        eprintln!("{what}");
        let mut raw = Raw::open(&router, "wrong");
        raw.send_bytes(&header);
        raw.expect_close("amqp:connection:framing-error");
    }
}

/// Qpid-broker-j 439: a refusal is an open that a client can read, then a close that says why.
#[test]
fn case_04_a_refused_connection_is_opened_first() {
    let router = Router::start(PLAIN);
    let refused: [(&str, Frame); 3] = [
        ("no container-id", Frame::new(OPEN)),
        ("a container-id of the wrong type", Frame::new(OPEN).with(open::CONTAINER_ID, 7u32)),
        ("a begin before the open", begin_frame()),
    ];
    for (what, frame) in refused {
        eprintln!("{what}");
        let mut raw = Raw::connect(&router);
        raw.send_bytes(&AMQP_HEADER);
        raw.send(&frame);
        assert_eq!(raw.read_header(), AMQP_HEADER);
        let open = raw.expect(OPEN);
        assert!(open.field(open::CONTAINER_ID).text().is_some(), "our open names its container");
        let frame_size = open.field(open::MAX_FRAME_SIZE).number();
        assert!(frame_size.is_none_or(|size| size >= 512), "max-frame-size {frame_size:?}");
        let close = raw.expect(CLOSE);
        assert!(close.condition(CLOSE_ERROR).is_some(), "closed without an error: {close}");
        let _ = raw.stream.write_all(&Frame::new(CLOSE).to_bytes());
        raw.expect_end_of_stream();
    }
}

/// All that a client may say before it hears anything, from the SASL header to a receiver's credit.
fn pipelined(address: &str) -> Vec<u8> {
    let mut bytes = SASL_HEADER.to_vec();
    let init = Frame::new(SASL_INIT).with(sasl::MECHANISM, symbol("ANONYMOUS")).with(1, &b"guest"[..]);
    bytes.extend(init.to_bytes());
    bytes.extend(AMQP_HEADER);
    let flow = Frame::new(FLOW)
        .with(flow::INCOMING_WINDOW, WIDE_WINDOW)
        .with(flow::NEXT_OUTGOING_ID, 0u32)
        .with(flow::OUTGOING_WINDOW, WIDE_WINDOW)
        .with(flow::HANDLE, 0u32)
        .with(flow::DELIVERY_COUNT, 0u32)
        .with(flow::LINK_CREDIT, 5u32);
    for frame in [open_frame("hasty"), begin_frame(), receiver_attach("hasty", 0, address), flow] {
        bytes.extend(frame.to_bytes());
    }
    bytes
}

fn expect_pipelined(router: &Router, mut raw: Raw, address: &str) {
    assert_eq!(raw.read_header(), SASL_HEADER);
    let mechanisms = raw.expect(SASL_MECHANISMS);
    let offered = mechanisms.field(sasl::MECHANISMS);
    let is_offered = match offered {
        Value::Array(all) => all.contains(&symbol("ANONYMOUS")),
        one => *one == symbol("ANONYMOUS"),
    };
    assert!(is_offered, "offered are {offered}");
    assert_eq!(raw.expect(SASL_OUTCOME).number(sasl::OUTCOME_CODE), 0);
    assert_eq!(raw.read_header(), AMQP_HEADER);
    raw.expect(OPEN);
    raw.expect(BEGIN);
    raw.expect(ATTACH);
    let mut producer = Raw::session(router, "producer");
    let link = producer.attach_sender(0, address);
    producer.wait_for_limit(&link, 5);
    for id in 0..5 {
        producer.send(&transfer_frame(0, id, &data_message(&[id as u8])));
        let (first, payload) = raw.receive_delivery();
        assert_eq!(payload, data_message(&[id as u8]));
        raw.settle(&first, accepted());
    }
    producer.expect_outcomes(0, 4, ACCEPTED);
}

/// Fe2o3-amqp 330: the credit that came before the link was there must not be lost.
#[test]
fn case_05_everything_from_sasl_to_credit_in_one_write() {
    let router = Router::start(PLAIN);
    let mut raw = Raw::connect(&router);
    raw.send_bytes(&pipelined("one.write"));
    expect_pipelined(&router, raw, "one.write");
}

#[test]
fn case_05_everything_from_sasl_to_credit_byte_by_byte() {
    let router = Router::start(PLAIN);
    let mut raw = Raw::connect(&router);
    for byte in pipelined("many.writes") {
        raw.send_bytes(&[byte]);
        std::thread::sleep(Duration::from_micros(200));
    }
    expect_pipelined(&router, raw, "many.writes");
}

/// Rabbitmq-server 12221: the number is the highest channel, not their count.
#[test]
fn case_06_channel_max_is_inclusive() {
    let router = Router::start_with("    maxSessions: 10\n", PLAIN);
    let (mut raw, open) = Raw::open_with(&router, open_frame("inclusive"));
    assert_eq!(open.number(open::CHANNEL_MAX), 9);
    assert_eq!(raw.begin(9).number(begin::REMOTE_CHANNEL), 9);
    raw.send(&begin_frame().on(10));
    raw.expect_close("amqp:connection:framing-error");
}

#[test]
fn case_06_channel_max_0_gives_one_session() {
    let router = Router::start_with("    maxSessions: 1\n", PLAIN);
    let (mut raw, open) = Raw::open_with(&router, open_frame("single"));
    assert_eq!(open.number(open::CHANNEL_MAX), 0);
    assert_eq!(raw.begin(0).channel, 0);
    // It can end and begin again.
    raw.send(&Frame::new(END));
    raw.expect(END);
    raw.begin(0);
    raw.send(&begin_frame().on(1));
    raw.expect_close("amqp:connection:framing-error");
}

/// Node-amqp10 30: each side numbers its own channels; a peer's channel-max bounds ours.
#[test]
fn case_06_the_peers_channels_may_differ_from_ours() {
    let router = Router::start(PLAIN);
    let (mut raw, _) = Raw::open_with(&router, open_frame("other").with(open::CHANNEL_MAX, 2u16));
    let begins = [7u16, 1, 3000].map(|channel| raw.begin(channel));
    for (begin, channel) in begins.iter().zip([7, 1, 3000]) {
        assert_eq!(begin.number(begin::REMOTE_CHANNEL), channel);
        assert!(begin.channel <= 2, "our channel {} is beyond the peer's channel-max", begin.channel);
    }
    let receiver = raw.attach(receiver_attach("in", 4, "channels").on(7));
    raw.credit(&receiver, 10);
    let sender = raw.attach(sender_attach("out", 9, "channels").on(3000));
    raw.wait_for_limit(&sender, 1);
    raw.send(&transfer_frame(9, 0, &data_message(b"across")).on(3000));
    let (first, payload) = raw.receive_delivery();
    assert_eq!((first.channel, payload), (receiver.peer_channel, data_message(b"across")));
    raw.send(&disposition_frame(first.number(transfer::DELIVERY_ID), first.number(1), true, accepted()).on(7));
    let outcome = raw.expect(DISPOSITION);
    assert_eq!(outcome.channel, sender.peer_channel);
}

/// A port for AMQP 1.0 answers other protocols with the header that it serves, and closes.
#[test]
fn case_12_foreign_protocols_on_a_plain_port() {
    let router = Router::start(PLAIN);
    let hello: [(&str, &[u8]); 5] = [
        ("AMQP 0-9-1", b"AMQP\x00\x00\x09\x01"),
        ("AMQP 1.0 over TLS", b"AMQP\x02\x01\x00\x00"),
        ("an unknown version", b"AMQP\x00\x02\x00\x00"),
        ("HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        ("a TLS hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03hello, hello, hello"),
    ];
    for (what, bytes) in hello {
        eprintln!("{what}");
        let mut raw = Raw::connect(&router);
        raw.send_bytes(bytes);
        let header = raw.read_header();
        assert!([AMQP_HEADER, SASL_HEADER].contains(&header), "{what}: {header:02x?}");
        raw.expect_end_of_stream();
    }
}

/// A mechanism that wasn't offered: the outcome says so, then the connection closes.
#[test]
fn case_07_a_mechanism_that_was_not_offered() {
    let router = Router::start(PLAIN);
    let mut raw = Raw::connect(&router);
    raw.send_bytes(&SASL_HEADER);
    raw.send(&Frame::new(SASL_INIT).with(sasl::MECHANISM, symbol("PLAIN")).with(1, &b"\0me\0secret"[..]));
    assert_eq!(raw.read_header(), SASL_HEADER);
    raw.expect(SASL_MECHANISMS);
    assert_eq!(raw.expect(SASL_OUTCOME).number(sasl::OUTCOME_CODE), 1);
    raw.expect_end_of_stream();
}

/// Amqpnetlite 24, vertx-proton 121: EXTERNAL takes a verified client certificate, and nobody has one on a plain
/// socket. It isn't offered, and whoever asks for it all the same is told no, whatever its initial-response.
#[test]
fn case_08_external_without_a_certificate_is_refused_at_once() {
    let router = Router::start(PLAIN);
    let external = || Frame::new(SASL_INIT).with(sasl::MECHANISM, symbol("EXTERNAL"));
    for init in [external(), external().with(1, &b""[..]), external().with(1, &b"somebody"[..])] {
        let mut raw = Raw::connect(&router);
        raw.send_bytes(&SASL_HEADER);
        raw.send(&init);
        assert_eq!(raw.read_header(), SASL_HEADER);
        let mechanisms = raw.expect(SASL_MECHANISMS);
        let offered = mechanisms.field(sasl::MECHANISMS).to_string();
        assert!(offered.contains("ANONYMOUS") && !offered.contains("EXTERNAL"), "{offered}");
        assert_eq!(raw.expect(SASL_OUTCOME).number(sasl::OUTCOME_CODE), 1);
        raw.expect_end_of_stream();
    }
}

/// A router that is told to stop says so to its peers, and leaves with success.
#[test]
fn sigterm_detaches_links_closes_connections_and_exits_with_0() {
    let mut router = Router::start(PLAIN);
    let mut raw = Raw::session(&router, "attached");
    raw.attach_consumer(0, "stop", 10);
    raw.attach_sender(1, "stop");
    let mut idle = Raw::open(&router, "idle");
    router.terminate();
    expect_forced(&mut raw, 2);
    expect_forced(&mut idle, 0);
    let status = router.wait(Duration::from_secs(5)).expect("it ends soon");
    assert!(status.success(), "it ended with {status}");
}

#[test]
fn sigterm_is_not_held_up_by_peers_that_do_not_answer() {
    let mut router = Router::start(PLAIN);
    let mut raw = Raw::session(&router, "deaf");
    raw.attach_consumer(0, "stop", 10);
    let _silent = std::net::TcpStream::connect(("127.0.0.1", router.port)).expect("a connection");
    router.terminate();
    // Nothing is read or answered: the router has a deadline of its own.
    let status = router.wait(Duration::from_secs(10)).expect("it ends though nobody answers");
    assert!(status.success(), "it ended with {status}");
}

/// The detaches of `links` links, then the close, all forced; answers the close.
fn expect_forced(raw: &mut Raw, links: usize) {
    let mut detached = 0;
    loop {
        let frame = raw.receive();
        match frame.code {
            DETACH => {
                assert_eq!(frame.condition(detach::ERROR), Some("amqp:connection:forced"), "{frame}");
                detached += 1;
            }
            END => {}
            CLOSE => {
                assert_eq!(frame.condition(CLOSE_ERROR), Some("amqp:connection:forced"), "{frame}");
                break;
            }
            _ => panic!("a detach or a close was expected, got {frame}"),
        }
    }
    assert_eq!(detached, links, "links that were detached");
    let _ = raw.stream.write_all(&Frame::new(CLOSE).to_bytes());
    raw.expect_end_of_stream();
}

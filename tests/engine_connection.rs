//! A connection's life: protocol headers, SASL, open and close, time-outs, frame sizes.

mod support;

use ringway::engine::{Event, Settings};
use ringway::wire::performative::{Begin, Open, Performative};
use ringway::wire::value::{Map, Value};
use ringway::wire::{PROTOCOL_HEADER_AMQP, PROTOCOL_HEADER_SASL, PROTOCOL_HEADER_TLS};
use std::time::Duration;
use support::pair::{names, Pair};

#[test]
fn golden_open_and_close_without_sasl() {
    let settings = Settings {
        container_id: "r1".to_owned(),
        version: "1".to_owned(),
        max_frame_size: 16_384,
        channel_max: 7,
        ..Settings::default()
    };
    let mut pair = Pair::with(settings);
    // header; open("c"); close
    pair.client.raw(b"AMQP\x00\x01\x00\x00");
    pair.client.raw(b"\x00\x00\x00\x11\x02\x00\x00\x00\x00\x53\x10\xc0\x04\x01\xa1\x01c");
    pair.client.raw(b"\x00\x00\x00\x0c\x02\x00\x00\x00\x00\x53\x18\x45");
    let bytes = pair.client.take_output();
    pair.engine.handle_input(ringway::payload::Range::copied(&bytes), pair.now);
    pair.drain_events();
    let out = pair.engine.poll_transmit().expect("an answer").to_vec();
    let capabilities = b"\xe0\x25\x02\xa3\x0fANONYMOUS-RELAY\x12qd.streaming-links";
    let mut fields = b"\xa1\x02r1\x40\x70\x00\x00\x40\x00\x60\x00\x07\x70\x00\x00\x1f\x40\x40\x40".to_vec();
    fields.extend(capabilities);
    fields.extend(capabilities);
    fields.extend(b"\xc1\x2c\x04\xa3\x07product\xa1\x14qpid-dispatch-router\xa3\x07version\xa1\x011");
    let mut expected = b"AMQP\x00\x01\x00\x00".to_vec();
    let size = 8 + 3 + 3 + fields.len();
    expected.extend((size as u32).to_be_bytes());
    expected.extend(b"\x02\x00\x00\x00\x00\x53\x10\xc0");
    expected.push(fields.len() as u8 + 1);
    expected.push(10);
    expected.extend(&fields);
    expected.extend(b"\x00\x00\x00\x0c\x02\x00\x00\x00\x00\x53\x18\x45");
    assert_eq!(out, expected);
    assert_eq!(names(&pair.events), ["opened", "closed"]);
    assert!(pair.engine.is_finished());
}

#[test]
fn the_open_says_what_clients_look_for() {
    let mut pair = Pair::new();
    pair.client.header_and_open();
    pair.pump();
    assert_eq!(pair.client.headers, [PROTOCOL_HEADER_AMQP]);
    let frame = pair.client.next().unwrap();
    let Performative::Open(open) = frame.performative() else { panic!("{frame:?}") };
    assert_eq!(open.container_id, "router");
    assert_eq!(open.idle_time_out, Some(8_000));
    assert_eq!(open.channel_max, 32_767);
    assert_eq!(open.max_frame_size, 16_384);
    for capabilities in [open.offered_capabilities, open.desired_capabilities] {
        assert_eq!(capabilities.iter().collect::<Vec<_>>(), ["ANONYMOUS-RELAY", "qd.streaming-links"]);
    }
    let properties = Map::parse(open.properties.unwrap()).unwrap();
    assert_eq!(properties.get("product"), Some(Value::String("qpid-dispatch-router")));
    assert!(matches!(&pair.events[0], Event::Opened(open) if open.container_id == "client"));
    assert_eq!(pair.engine.container_id(), Some("client"));
}

#[test]
fn case_01_idle_peer_is_closed_at_the_full_timeout() {
    let mut pair = Pair::opened(Settings::default());
    for _ in 0..5 {
        pair.pass(Duration::from_millis(7_900));
        pair.client.raw(&[0, 0, 0, 8, 2, 0, 0, 0]);
        pair.pump();
        assert!(!pair.engine.is_closed());
    }
    pair.pass(Duration::from_millis(15_999));
    assert!(!pair.engine.is_closed());
    pair.pass(Duration::from_millis(1));
    assert!(pair.engine.is_closed());
    assert_eq!(pair.client.briefs(), ["close amqp:resource-limit-exceeded"]);
    assert_eq!(names(&pair.events), ["closed"]);
    assert_eq!(pair.engine.poll_timeout(), None);
}

#[test]
fn case_02_heartbeats_at_half_of_what_the_peer_says() {
    let settings = Settings { idle_timeout: Duration::from_secs(60), ..Settings::default() };
    let mut pair = Pair::with(settings.clone());
    pair.client.header();
    pair.client.open(Open { container_id: "c", idle_time_out: Some(2_000), ..Open::default() });
    pair.pump();
    pair.client.frames();
    pair.pass(Duration::from_secs(10));
    assert_eq!(pair.client.briefs(), vec!["heartbeat"; 10]);
    // What else is sent counts.
    pair.advance(Duration::from_millis(0));
    pair.client.begin(0);
    pair.pump();
    pair.pass(Duration::from_millis(999));
    assert_eq!(pair.client.briefs(), ["begin"]);
    pair.pass(Duration::from_millis(1));
    assert_eq!(pair.client.briefs(), ["heartbeat"]);

    for silent in [None, Some(0)] {
        let mut pair = Pair::with(settings.clone());
        pair.client.header();
        pair.client.open(Open { container_id: "c", idle_time_out: silent, ..Open::default() });
        pair.pump();
        pair.client.frames();
        pair.pass(Duration::from_secs(59));
        assert!(pair.client.briefs().is_empty());
    }
}

#[test]
fn a_heartbeat_that_the_peer_does_not_read_is_not_due_at_once_again() {
    let mut pair = Pair::new();
    pair.client.header();
    pair.client.open(Open { container_id: "c", idle_time_out: Some(2_000), ..Open::default() });
    let bytes = pair.client.take_output();
    pair.engine.handle_input(ringway::payload::Range::copied(&bytes), pair.now);
    while pair.engine.poll_event().is_some() {}
    let mut calls = 0;
    while let Some(at) = pair.engine.poll_timeout().filter(|at| at.as_millis() < 10_000) {
        pair.engine.handle_timeout(at);
        calls += 1;
        assert!(calls <= 10, "a second each");
    }
    assert_eq!(calls, 9);
}

#[test]
fn no_idle_timeout_means_no_time_out() {
    let mut pair = Pair::with(Settings { idle_timeout: Duration::ZERO, ..Settings::default() });
    pair.client.header_and_open();
    pair.pump();
    let frame = pair.client.next().unwrap();
    assert!(matches!(frame.performative(), Performative::Open(Open { idle_time_out: None, .. })));
    assert_eq!(pair.engine.poll_timeout(), None);
}

#[test]
fn case_03_a_frame_over_max_frame_size_is_refused_from_its_size_field() {
    let mut pair = Pair::opened(Settings { max_frame_size: 1_024, ..Settings::default() });
    pair.client.raw(&1_025u32.to_be_bytes());
    pair.client.raw(&[2, 0, 0, 0]);
    pair.pump();
    assert_eq!(pair.client.briefs(), ["close amqp:connection:framing-error"]);
    assert!(pair.engine.is_closed());
    assert_eq!(names(&pair.events), ["closed"]);
    // What follows isn't kept.
    pair.client.raw(&[0; 2_000]);
    pair.pump();
    assert_eq!(pair.chunks_in_use(), 0);
}

#[test]
fn a_frame_of_max_frame_size_is_taken() {
    let (mut pair, _) = Pair::with_sender(Settings { max_frame_size: 512, ..Settings::default() }, 1);
    let mut head = Vec::new();
    support::client::first(0, 0, b"").encode(&mut head);
    let payload = vec![7; 512 - 8 - head.len()];
    pair.client.transfer(0, support::client::first(0, 0, b""), &payload);
    pair.pump();
    assert_eq!(pair.received_payload(), payload);
}

#[test]
fn case_04_a_refusal_is_a_valid_open_and_then_close() {
    let mut pair = Pair::new();
    pair.client.header();
    pair.client.open(Open { container_id: "c", max_frame_size: 511, ..Open::default() });
    pair.pump();
    let frames = pair.client.frames();
    let Performative::Open(open) = frames[0].performative() else { panic!("{frames:?}") };
    assert!(open.max_frame_size >= 512);
    assert_eq!(frames[1].brief(), "close amqp:invalid-field");
    assert_eq!(names(&pair.events), ["closed"]);
}

fn sasl_through_flow(read_bytes: usize) {
    let mut pair = Pair::new();
    pair.read_bytes = read_bytes;
    pair.client.sasl_anonymous();
    pair.client.header_and_open();
    pair.client.begin(3);
    pair.client.attach_receiver(3, 2, "receiver", "q");
    pair.client.credit(3, 2, 0, 40);
    pair.pump();
    assert_eq!(pair.client.headers, [PROTOCOL_HEADER_SASL, PROTOCOL_HEADER_AMQP]);
    assert_eq!(pair.client.briefs(), ["mechanisms", "outcome 0", "open", "begin", "attach"]);
    assert_eq!(names(&pair.events), ["sasl-init", "opened", "attached", "credit"]);
    assert!(matches!(pair.events[3], Event::Credit { delivery_count: 0, limit: 40, drain: false, .. }));
    assert!(matches!(&pair.events[0], Event::SaslInit(init)
        if init.mechanism == "ANONYMOUS" && init.initial_response.as_deref() == Some(b"guest")));
    assert_eq!(pair.chunks_in_use(), 0);
}

#[test]
fn case_05_sasl_through_flow_in_one_write() {
    sasl_through_flow(64 * 1024);
}

#[test]
fn case_05_sasl_through_flow_byte_by_byte() {
    sasl_through_flow(1);
}

#[test]
fn case_05_credit_before_the_answer_is_kept() {
    let mut pair = Pair::new();
    pair.accepts = false;
    pair.client.header_and_open();
    pair.client.begin(0);
    pair.client.attach_receiver(0, 0, "receiver", "q");
    pair.client.credit(0, 0, 0, 11);
    pair.pump();
    assert_eq!(names(&pair.events), ["opened", "attached"]);
    let link = pair.attached();
    let token = pair.token();
    pair.events.clear();
    pair.engine.accept_link(link, token, Default::default());
    pair.pump();
    assert!(matches!(pair.events[..], [Event::Credit { limit: 11, .. }]));
}

#[test]
fn input_rests_until_the_sasl_outcome() {
    let mut pair = Pair::new();
    pair.client.sasl_anonymous();
    pair.client.header_and_open();
    let bytes = pair.client.take_output();
    pair.engine.handle_input(ringway::payload::Range::copied(&bytes), pair.now);
    assert!(matches!(pair.engine.poll_event(), Some(Event::SaslInit(_))));
    assert!(pair.engine.poll_event().is_none());
    pair.engine.sasl_challenge(b"?");
    pair.engine.sasl_outcome(true); // out of turn: the response is awaited
    pair.pump();
    // The AMQP header in a response's place is no SASL frame.
    assert!(pair.engine.is_closed());
}

#[test]
fn case_07_a_refused_mechanism_and_refused_credentials_are_told_and_over() {
    let settings = Settings { sasl_mechanisms: vec!["PLAIN".to_owned()], ..Settings::default() };
    let mut pair = Pair::with(settings.clone());
    pair.client.sasl_anonymous();
    pair.pump();
    assert_eq!(pair.client.briefs(), ["mechanisms", "outcome 1"]);
    assert!(pair.engine.is_finished());
    assert_eq!(names(&pair.events), ["closed"]);

    let mut pair = Pair::with(settings);
    pair.client.raw(&PROTOCOL_HEADER_SASL);
    pair.client.sasl_init("PLAIN", Some(b"\0u\0wrong"));
    let bytes = pair.client.take_output();
    pair.engine.handle_input(ringway::payload::Range::copied(&bytes), pair.now);
    assert!(matches!(pair.engine.poll_event(), Some(Event::SaslInit(_))));
    pair.engine.sasl_outcome(false);
    pair.pump();
    assert_eq!(pair.client.briefs(), ["mechanisms", "outcome 1"]);
    assert!(pair.engine.is_finished());
}

#[test]
fn case_12_a_foreign_header_is_answered_with_ours_and_a_close() {
    let tls_hello = [0x16, 3, 1, 0, 0xa5, 1, 0, 0, 0xa1, 3, 3];
    for foreign in [&b"AMQP\x00\x00\x09\x01"[..], b"GET / HTTP/1.1\r\n\r\n", &tls_hello, &PROTOCOL_HEADER_TLS, b"X"] {
        for read_bytes in [1, 1024] {
            let mut pair = Pair::new();
            pair.read_bytes = read_bytes;
            pair.client.raw(foreign);
            pair.pump();
            assert_eq!(pair.client.headers, [PROTOCOL_HEADER_AMQP], "{foreign:?}");
            assert!(pair.engine.is_finished());
            assert_eq!(names(&pair.events), ["closed"]);
        }
    }
}

#[test]
fn case_12_a_bare_header_where_sasl_is_required() {
    let mut pair = Pair::with(Settings { sasl_required: true, ..Settings::default() });
    pair.client.header_and_open();
    pair.pump();
    assert_eq!(pair.client.headers, [PROTOCOL_HEADER_SASL]);
    assert!(pair.client.briefs().is_empty());
    assert_eq!(names(&pair.events), ["closed"]);
    assert!(pair.engine.is_finished());
}

#[test]
fn case_28_no_sasl_layer_at_all() {
    let mut pair = Pair::new();
    pair.client.header_and_open();
    pair.client.begin(0);
    pair.client.attach_sender(0, 0, "fixed", "q");
    pair.pump();
    assert_eq!(pair.client.briefs(), ["open", "begin", "attach"]);
}

#[test]
fn a_second_open_is_an_error() {
    let mut pair = Pair::opened(Settings::default());
    pair.client.open(Open { container_id: "again", ..Open::default() });
    pair.pump();
    assert_eq!(pair.client.briefs(), ["close amqp:not-allowed"]);
}

#[test]
fn a_frame_before_open_is_an_error() {
    let mut pair = Pair::new();
    pair.client.header();
    pair.client.begin(0);
    pair.pump();
    assert_eq!(pair.client.briefs(), ["open", "close amqp:not-allowed"]);
}

#[test]
fn undecodable_frames_close_the_connection() {
    for (body, condition) in [
        (&b"\x00\x53\x10\x45"[..], "amqp:decode-error"), // open without a container-id, and a second one
        (b"\x00\x53\x99\x45", "amqp:decode-error"),
        (b"\x00", "amqp:decode-error"),
        (b"\xff\xff\xff\xff", "amqp:decode-error"),
    ] {
        let mut pair = Pair::opened(Settings::default());
        pair.client.frame_raw(0, 0, body);
        pair.pump();
        assert_eq!(pair.client.briefs(), [format!("close {condition}")]);
    }
    let mut pair = Pair::opened(Settings::default());
    pair.client.raw(&[0, 0, 0, 9, 9, 0, 0, 0, 0]); // data offset beyond the frame
    pair.pump();
    assert_eq!(pair.client.briefs(), ["close amqp:connection:framing-error"]);
}

#[test]
fn our_close_swallows_what_is_in_flight() {
    let (mut pair, _) = Pair::with_sender(Settings::default(), 10);
    pair.close_forced();
    assert_eq!(pair.client.briefs(), ["close amqp:connection:forced"]);
    assert_eq!(names(&pair.events()), ["link-ended", "closed"]);
    pair.client.send(0, 0, 0, b"late");
    pair.client.begin_with(5, Begin::default());
    pair.client.close();
    pair.pump();
    assert!(pair.engine.is_finished());
    assert!(pair.events.is_empty());
    assert!(pair.client.briefs().is_empty());
}

#[test]
fn the_end_of_the_stream_ends_each_link_once() {
    let mut pair = Pair::opened(Settings::default());
    for handle in 0..100 {
        pair.client.attach_sender(0, handle, &format!("s{handle}"), "a");
    }
    pair.pump();
    pair.events.clear();
    pair.engine.handle_end_of_stream(pair.now);
    pair.engine.handle_end_of_stream(pair.now);
    pair.drain_events();
    let mut expected = vec!["link-ended"; 100];
    expected.push("closed");
    assert_eq!(names(&pair.events), expected);
    assert_eq!(pair.engine.link_count(), 0);
    assert!(pair.engine.is_finished() && !pair.engine.has_work());
}

#[test]
fn input_before_the_end_of_the_stream_counts() {
    let (mut pair, _) = Pair::with_sender(Settings::default(), 10);
    pair.client.send(0, 0, 0, b"last");
    let bytes = pair.client.take_output();
    pair.engine.handle_input(ringway::payload::Range::copied(&bytes), pair.now);
    pair.engine.handle_end_of_stream(pair.now);
    pair.drain_events();
    assert_eq!(names(&pair.events), ["transfer", "link-ended", "closed"]);
}

#[test]
fn a_peer_that_never_reads_is_not_answered_without_bound() {
    let mut pair = Pair::opened(Settings::default());
    for n in 0..100_000u32 {
        pair.client.attach_sender(0, 0, &format!("link {n}"), "a");
        pair.client.detach(0, 0, true);
        if pair.engine.wants_input() {
            for read in pair.client.take_output().chunks(64 * 1024) {
                pair.engine.handle_input(ringway::payload::Range::copied(read), pair.now);
            }
            pair.drain_events();
            pair.events.clear();
        } else {
            break;
        }
    }
    assert!(!pair.engine.wants_input());
    assert!(pair.engine.output_len() < 2 * 1024 * 1024, "{}", pair.engine.output_len());
    pair.pump();
    assert!(pair.engine.wants_input());
}

#[test]
fn the_trace_shows_both_ways() {
    let mut pair = Pair::new();
    pair.engine.set_trace(true);
    pair.client.header_and_open();
    pair.client.begin(0);
    pair.pump();
    let lines: Vec<String> = std::iter::from_fn(|| pair.engine.poll_trace()).collect();
    let starts: Vec<&str> = lines.iter().map(|line| line.split('(').next().unwrap()).collect();
    assert_eq!(starts, ["[0]: <- @open", "[0]: -> @open", "[0]: <- @begin", "[0]: -> @begin"]);
}

/// Section 2.4.5: an idle time-out that can't be supported is refused. Heartbeats every half millisecond can't.
#[test]
fn an_idle_time_out_that_is_too_short_is_refused() {
    for (idle, refused) in [(1, true), (49, true), (50, false), (0, false)] {
        let mut pair = Pair::new();
        pair.client.header();
        pair.client.open(Open { container_id: "c", idle_time_out: Some(idle), ..Open::default() });
        pair.pump();
        let briefs = pair.client.briefs();
        let expected: &[&str] = if refused { &["open", "close amqp:invalid-field"] } else { &["open"] };
        assert_eq!(briefs, expected, "{idle}");
    }
}

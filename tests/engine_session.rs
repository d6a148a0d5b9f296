//! Sessions: channels, windows, ends, errors at their scope.

mod support;

use ringway::engine::{Event, Sent, Settings};
use ringway::payload::Payload;
use ringway::wire::performative::{Attach, Begin, Flow, Open, Performative, Role, Transfer};
use support::client::first;
use support::pair::{names, transfers, Pair};

#[test]
fn case_06_channel_max_is_inclusive() {
    let mut pair = Pair::with(Settings { channel_max: 0, ..Settings::default() });
    pair.client.header_and_open();
    pair.client.begin(0);
    pair.pump();
    assert_eq!(pair.client.briefs(), ["open", "begin"]);
    pair.client.begin(1);
    pair.pump();
    assert_eq!(pair.client.briefs(), ["close amqp:connection:framing-error"]);
}

#[test]
fn case_06_channels_of_the_ends_differ() {
    let mut pair = Pair::new();
    pair.client.header_and_open();
    for channel in [10, 11, 12, 13, 14] {
        pair.client.begin(channel);
    }
    pair.client.begin(1);
    pair.pump();
    let frames = pair.client.frames();
    let answer = frames.last().unwrap();
    assert_eq!(answer.channel, 5);
    assert!(matches!(answer.performative(), Performative::Begin(Begin { remote_channel: Some(1), .. })));
    // Their channel 1 is our 5.
    pair.client.attach_receiver(1, 0, "r", "a");
    pair.client.credit(1, 0, 0, 1);
    pair.pump();
    assert_eq!(pair.client.next().unwrap().channel, 5);
    let link = pair.attached();
    let delivery = pair.next_delivery();
    assert_eq!(pair.engine.link_session(link).unwrap().0, 5);
    let sent = pair.engine.send(link, delivery, 0, false, true, Payload::copied(b"x"));
    assert_eq!(sent, Sent::Whole { room: true });
    pair.pump();
    assert_eq!(pair.client.next().unwrap().channel, 5);
    pair.client.accept(1, 0, None);
    pair.pump();
    assert!(matches!(pair.events.last(), Some(Event::ReceiverDisposition { delivery: d, .. }) if *d == delivery));
}

#[test]
fn case_06_the_peers_own_channel_max_binds_us() {
    let mut pair = Pair::new();
    pair.client.header();
    pair.client.open(Open { container_id: "c", channel_max: 0, ..Open::default() });
    pair.client.begin(0);
    pair.pump();
    assert_eq!(pair.client.briefs(), ["open", "begin"]);
    pair.client.end(0);
    pair.client.begin(0);
    pair.pump();
    assert_eq!(pair.client.briefs(), ["end", "begin"]);
}

#[test]
fn case_13_an_outgoing_window_of_one_stalls_nothing() {
    let mut pair = Pair::new();
    pair.client.header_and_open();
    pair.client.begin_with(0, Begin { incoming_window: 1, outgoing_window: 1, ..Begin::default() });
    pair.add_sender(0, "s", 20_000);
    for id in 0..10_000 {
        pair.client.send(0, 0, id, b"x");
        pair.pump();
        for event in pair.events() {
            if let Event::Transfer(transfer) = event {
                pair.engine.payload_released(transfer.wire.session, transfer.payload.len());
                pair.accept_incoming(transfer.wire);
            }
        }
    }
    pair.pump();
    assert!(!pair.client.briefs().iter().any(|brief| brief.starts_with("end") || brief.starts_with("close")));
    assert_eq!(pair.engine.unsettled_count(), (0, 0));
}

#[test]
fn case_14_a_session_overrun_is_a_window_violation() {
    let settings = Settings { max_session_frames: Some(10), ..Settings::default() };
    let mut pair = Pair::with(settings);
    pair.client.header_and_open();
    pair.client.begin(0);
    pair.pump();
    let frames = pair.client.frames();
    assert!(matches!(frames[1].performative(), Performative::Begin(Begin { incoming_window: 10, .. })));
    pair.client.attach_sender(0, 0, "s", "a");
    pair.pump();
    let link = pair.attached();
    pair.engine.grant(link, 1_000, false);
    pair.pump();
    pair.client.frames();
    pair.events.clear();
    // The receiver is blocked: nothing is released, and the window isn't reopened beyond what is held.
    for id in 0..11 {
        pair.client.send(0, 0, id, &[0; 10_000]);
    }
    pair.pump();
    assert_eq!(pair.client.briefs(), ["end amqp:session:window-violation"]);
    let mut expected = vec!["transfer"; 10];
    expected.push("link-ended");
    assert_eq!(names(&pair.events), expected);
    assert!(!pair.engine.is_closed());
    // Until its end, the session is dead; then its channel serves again.
    pair.client.send(0, 0, 11, b"late");
    pair.client.attach_sender(0, 1, "t", "a");
    pair.client.end(0);
    pair.client.begin(0);
    pair.pump();
    assert_eq!(pair.client.briefs(), ["begin"]);
}

#[test]
fn the_incoming_window_reopens_as_payload_leaves() {
    let settings = Settings { max_session_frames: Some(10), ..Settings::default() };
    let (mut pair, _) = Pair::with_sender(settings, 10_000);
    let mut window = 10;
    for id in 0..500 {
        assert!(window > 0, "stalled at {id}");
        pair.client.send(0, 0, id, &[0; 100]);
        window -= 1;
        pair.pump();
        for event in pair.events() {
            if let Event::Transfer(transfer) = event {
                pair.engine.payload_released(transfer.wire.session, transfer.payload.len());
            }
        }
        pair.pump();
        for frame in pair.client.frames() {
            let Performative::Flow(flow) = frame.performative() else { panic!("{frame:?}") };
            assert_eq!(flow.next_incoming_id, Some(id + 1));
            assert_eq!(flow.handle, None);
            window = flow.incoming_window;
        }
    }
    // One flow for half a window, not one a frame.
    assert!(window <= 10);
}

#[test]
fn a_full_session_is_told_once_until_it_opens_again() {
    let settings = Settings { max_session_frames: Some(2), max_frame_size: 512, ..Settings::default() };
    let (mut pair, _) = Pair::with_sender(settings, 100);
    pair.events.clear();
    let mut session = None;
    for round in 0..3 {
        for id in 0..2 {
            pair.client.send(0, 0, round * 2 + id, &[0; 400]);
        }
        pair.pump();
        pair.pump();
        let events = pair.events();
        assert_eq!(names(&events), ["transfer", "transfer", "session-full"]);
        if let Some(Event::SessionFull { session: full }) = events.last() {
            session = Some(*full);
        }
        pair.engine.payload_released(session.unwrap(), 800);
        pair.pump();
        assert_eq!(pair.client.briefs(), ["flow"]);
    }
}

#[test]
fn case_15_one_bad_link_among_three() {
    let mut pair = Pair::opened(Settings::default());
    for handle in 0..3 {
        pair.client.attach_sender(0, handle, &format!("s{handle}"), "a");
    }
    pair.pump();
    pair.client.frames();
    pair.events.clear();
    pair.client.send(0, 1, 0, b"no credit");
    pair.pump();
    assert_eq!(pair.client.briefs(), ["detach amqp:link:transfer-limit-exceeded"]);
    assert_eq!(names(&pair.events), ["link-ended"]);
    assert_eq!(pair.engine.link_count(), 2);
}

#[test]
fn case_16_link_and_session_close_in_one_batch() {
    let (mut pair, link) = Pair::with_sender(Settings::default(), 10);
    let half = Transfer { more: true, ..first(0, 0, b"t") };
    pair.client.transfer(0, half, b"half");
    pair.client.detach(0, 0, true);
    pair.client.end(0);
    // The same channel, handle, name, delivery-id, another address.
    pair.client.begin(0);
    pair.client.attach_sender(0, 0, "sender", "b");
    pair.client.close();
    pair.pump();
    assert_eq!(pair.client.briefs(), ["detach", "end", "begin", "attach", "close"]);
    let expected = ["transfer", "link-ended", "attached", "link-ended", "closed"];
    assert_eq!(names(&pair.events), expected);
    assert!(
        matches!(pair.events[1], Event::LinkEnded { link: ended, token: Some(_), closed: true, .. } if ended == link)
    );
    assert!(matches!(pair.events[3], Event::LinkEnded { link: ended, closed: false, .. } if ended != link));
    assert!(pair.engine.is_finished());
}

#[test]
fn case_16_the_same_channel_and_handle_at_once_hear_nothing_stale() {
    let (mut pair, link) = Pair::with_receiver(Settings::default(), 10);
    for _ in 0..5 {
        let delivery = pair.next_delivery();
        pair.engine.send(link, delivery, 0, false, true, Payload::copied(b"old"));
    }
    pair.pump();
    pair.client.frames();
    pair.client.end(0);
    pair.client.begin(0);
    pair.client.attach_receiver(0, 0, "receiver", "b");
    pair.client.credit(0, 0, 0, 10);
    // Of the old session's deliveries: ids that the new one hasn't used.
    pair.client.accept(0, 0, Some(4));
    pair.pump();
    assert_eq!(names(&pair.events), ["link-ended", "attached", "credit"]);
    assert_eq!(pair.engine.unsettled_count(), (0, 0));
    let new = pair.attached();
    let delivery = pair.next_delivery();
    pair.engine.send(new, delivery, 0, false, true, Payload::copied(b"new"));
    pair.pump();
    let frames = pair.client.frames();
    let sent = transfers(&frames);
    assert!(matches!(sent[0].performative(), Performative::Transfer(Transfer { delivery_id: Some(0), .. })));
    pair.client.accept(0, 0, None);
    pair.pump();
    assert!(matches!(pair.events.last(), Some(Event::ReceiverDisposition { delivery: d, .. }) if *d == delivery));
}

#[test]
fn case_16_close_in_mid_transfer_without_detach_or_end() {
    let (mut pair, _) = Pair::with_sender(Settings::default(), 10);
    pair.client.transfer(0, Transfer { more: true, ..first(0, 0, b"t") }, b"half");
    pair.client.close();
    pair.pump();
    assert_eq!(names(&pair.events), ["transfer", "link-ended", "closed"]);
    assert_eq!(pair.client.briefs(), ["close"]);
    assert_eq!((pair.engine.session_count(), pair.engine.link_count()), (0, 0));
    pair.events.clear();
    assert_eq!(pair.chunks_in_use(), 0);
}

#[test]
fn case_17_errors_at_their_scope() {
    type Act = fn(&mut Pair);
    let acts: [(&str, Act, &str); 9] = [
        ("handle in use", |p| p.client.attach_sender(0, 0, "other", "a"), "end amqp:session:handle-in-use"),
        ("unattached handle, transfer", |p| p.client.send(0, 7, 0, b""), "end amqp:session:unattached-handle"),
        ("unattached handle, flow", |p| p.client.credit(0, 7, 0, 1), "end amqp:session:unattached-handle"),
        ("unattached handle, detach", |p| p.client.detach(0, 7, true), "end amqp:session:unattached-handle"),
        ("repeated begin", |p| p.client.begin(0), "close amqp:not-allowed"),
        // begin [null, 0, 1] has no outgoing-window; attach ["n"] no handle
        (
            "begin without a mandatory field",
            |p| p.client.frame_raw(0, 1, b"\x00\x53\x11\xc0\x05\x03\x40\x43\x52\x01"),
            "close amqp:decode-error",
        ),
        (
            "attach without a mandatory field",
            |p| p.client.frame_raw(0, 0, b"\x00\x53\x12\xc0\x04\x01\xa1\x01n"),
            "close amqp:decode-error",
        ),
        ("handle beyond handle-max", |p| p.client.attach_sender(0, 8, "n", "a"), "close amqp:connection:framing-error"),
        ("no session", |p| p.client.attach_sender(9, 0, "n", "a"), "close amqp:not-allowed"),
    ];
    for (what, act, expected) in acts {
        let (mut pair, _) = Pair::with_sender(Settings { handle_max: 7, ..Settings::default() }, 1);
        act(&mut pair);
        pair.pump();
        assert_eq!(pair.client.briefs(), [expected], "{what}");
        assert_eq!(names(&pair.events)[0], "link-ended", "{what}");
        assert_eq!(pair.engine.is_closed(), expected.starts_with("close"), "{what}");
    }
}

#[test]
fn handle_max_is_inclusive() {
    let mut pair = Pair::opened(Settings { handle_max: 7, ..Settings::default() });
    pair.client.attach_sender(0, 7, "n", "a");
    pair.pump();
    assert_eq!(pair.client.briefs(), ["attach"]);
}

#[test]
fn the_peers_handle_max_binds_us() {
    let mut pair = Pair::new();
    pair.client.header_and_open();
    pair.client.begin_with(0, Begin { incoming_window: 1, handle_max: 0, ..Begin::default() });
    pair.client.attach_sender(0, 0, "n", "a");
    pair.client.attach_sender(0, 1, "m", "a");
    pair.pump();
    assert_eq!(pair.client.briefs(), ["open", "begin", "attach", "end amqp:resource-limit-exceeded"]);
}

#[test]
fn case_18_rhea_counts_its_outgoing_window_down_from_the_top() {
    let mut pair = Pair::new();
    pair.client.header_and_open();
    let begin = Begin { incoming_window: 2_048, outgoing_window: u32::MAX, ..Begin::default() };
    pair.client.begin_with(0, begin);
    pair.client.attach_receiver(0, 0, "r", "a");
    let flow =
        Flow { incoming_window: u32::MAX, outgoing_window: u32::MAX - 1, ..support::client::wide_open(0, 5_000) };
    pair.client.flow(0, Flow { handle: Some(0), next_incoming_id: Some(0), ..flow });
    pair.pump();
    let link = pair.attached();
    for _ in 0..5_000 {
        let delivery = pair.next_delivery();
        let sent = pair.engine.send(link, delivery, 0, true, true, Payload::copied(b"x"));
        assert_eq!(sent, Sent::Whole { room: true });
        pair.transmit();
    }
}

#[test]
fn case_18_amqp10_starts_its_ids_at_one() {
    let mut pair = Pair::new();
    pair.client.header_and_open();
    pair.client.begin_with(0, Begin { next_outgoing_id: 1, incoming_window: 100, ..Begin::default() });
    pair.client.attach_sender(0, 0, "s", "a");
    pair.pump();
    let link = pair.attached();
    pair.engine.grant(link, 10, false);
    pair.pump();
    let flow = pair.client.frames().pop().unwrap();
    assert!(matches!(flow.performative(), Performative::Flow(Flow { next_incoming_id: Some(1), .. })));
    pair.client.send(0, 0, 1, b"x");
    pair.pump();
    assert!(matches!(pair.events.last(), Some(Event::Transfer(_))));
    pair.client.flow(0, Flow { next_outgoing_id: 2, echo: true, ..support::client::wide_open(0, 0) });
    pair.pump();
    let flow = pair.client.frames().pop().unwrap();
    assert!(matches!(flow.performative(), Performative::Flow(Flow { next_incoming_id: Some(2), handle: None, .. })));
}

#[test]
fn an_echo_is_answered_once_a_turn() {
    let (mut pair, _) = Pair::with_receiver(Settings::default(), 5);
    for _ in 0..100 {
        let flow = support::client::wide_open(0, 5);
        pair.client.flow(0, Flow { handle: Some(0), echo: true, ..flow });
        pair.client.flow(0, Flow { echo: true, handle: None, delivery_count: None, link_credit: None, ..flow });
    }
    pair.pump();
    let frames = pair.client.frames();
    assert_eq!(frames.len(), 1, "{frames:?}");
    let Performative::Flow(flow) = frames[0].performative() else { panic!() };
    assert_eq!((flow.handle, flow.link_credit, flow.delivery_count), (Some(0), Some(5), Some(0)));
    assert!(pair.events.is_empty(), "no news: {:?}", names(&pair.events));
}

#[test]
fn sessions_and_links_with_large_numbers_cost_what_they_are() {
    let mut pair = Pair::opened(Settings::default());
    pair.client.begin(32_767);
    pair.client.attach_sender(32_767, 65_535, "s", "a");
    pair.client.attach(0, Attach { name: "r", handle: 65_535, role: Role::Receiver, ..Attach::default() });
    pair.pump();
    assert_eq!(pair.client.briefs(), ["begin", "attach", "attach"]);
    assert_eq!(pair.engine.session_count(), 2);
    pair.client.end(32_767);
    pair.pump();
    assert_eq!((pair.engine.session_count(), pair.engine.link_count()), (1, 1));
}

#[test]
fn many_sessions_begin_and_end() {
    let mut pair = Pair::new();
    pair.client.header_and_open();
    for channel in 0..1_000 {
        pair.client.begin(channel);
    }
    pair.pump();
    assert_eq!(pair.engine.session_count(), 1_000);
    for channel in (0..1_000).step_by(2) {
        pair.client.end(channel);
    }
    pair.pump();
    pair.client.frames();
    pair.client.begin(0);
    pair.pump();
    assert_eq!(pair.client.next().unwrap().channel, 0, "the lowest free channel");
    assert_eq!(pair.engine.session_count(), 501);
}

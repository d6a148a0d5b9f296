//! Links and connections that go away, and large messages cut in the middle.

#[path = "routing_support/mod.rs"]
mod support;

use ringway::ids::{DeliveryId, LinkId, SessionNumber};
use ringway::limits::STREAM_BYTES_MIN;
use ringway::link::{ReceiverSettleMode, SenderSettleMode};
use ringway::outcome::{State, StateKind};
use ringway::routing::Output;
use support::*;

fn large() -> String {
    "x".repeat(STREAM_BYTES_MIN)
}

#[test]
fn a_lost_consumers_deliveries_fail_and_what_waits_goes_to_the_next() {
    let mut bench = Bench::default();
    let (here, there) = (bench.connect(10), bench.connect(10));
    let doomed = bench.consumer(there, "closest/q", 2);
    let sender = bench.sender(here, "closest/q");
    bench.take();
    for number in 0..4 {
        bench.send(sender, number, false, &number.to_string());
    }
    assert_eq!(bench.take(), [sent(doomed, "0"), sent(doomed, "1")]);
    let next = bench.consumer(here, "closest/q", 0);
    bench.router.connection_closed(there, bench.now);
    assert_eq!(bench.take(), [told(0, StateKind::Modified), told(1, StateKind::Modified)]);
    assert_eq!(bench.states[0].1, Some(State::delivery_failed()));
    bench.router.credit(next, 0, 10, false, bench.now);
    assert_eq!(bench.take(), [sent(next, "2"), sent(next, "3")]);
    bench.close_all(&[here]);
}

#[test]
fn the_last_consumer_leaves_and_what_waits_is_released_in_order() {
    let mut bench = Bench::default();
    let connection = bench.connect(10);
    let consumer = bench.consumer(connection, "q", 1);
    let sender = bench.sender(connection, "q");
    bench.take();
    for number in 0..3 {
        bench.send(sender, number, number == 2, "x");
    }
    bench.take();
    bench.end(consumer);
    assert_eq!(bench.take(), [told(0, StateKind::Modified), told(1, StateKind::Released)]);
    assert_eq!(bench.router.totals().dropped_presettled, 1);
    assert_eq!(bench.router.deliveries_len(), 0);
    bench.close_all(&[connection]);
}

#[test]
fn a_lost_senders_deliveries_go_but_settled_ones_still_pass() {
    let mut bench = Bench::default();
    let (here, there) = (bench.connect(10), bench.connect(10));
    let consumer = bench.consumer(here, "q", 1);
    let sender = bench.sender(there, "q");
    bench.take();
    bench.send(sender, 0, false, "sent");
    bench.send(sender, 1, false, "waits");
    bench.send(sender, 2, true, "settled");
    bench.begin(sender, 3, true, "begun");
    bench.take();
    bench.router.connection_closed(there, bench.now);
    assert_eq!(bench.take(), []);
    bench.router.credit(consumer, 1, 9, false, bench.now);
    assert_eq!(bench.take(), [Out::Send(consumer, "settled".into(), true, true)]);
    // The consumer of the one that was sent is told that nobody waits for it.
    bench.dispose(0, Some(State::ACCEPTED), false);
    assert_eq!(bench.take(), [Out::ToldConsumer(0, None, true)]);
    assert_eq!(bench.router.links_len(), 1);
    bench.close_all(&[here]);
}

#[test]
fn small_messages_are_whole_before_they_go_large_ones_stream() {
    let mut bench = Bench::default();
    let connection = bench.connect(10);
    let consumer = bench.consumer(connection, "q", 10);
    let sender = bench.sender(connection, "q");
    bench.take();
    let small = bench.begin(sender, 0, false, "a");
    bench.more(small, "b", false);
    assert_eq!(bench.take(), []);
    bench.more(small, "c", true);
    assert_eq!(bench.take(), [sent(consumer, "abc")]);
    let stream = bench.begin(sender, 1, false, &large());
    assert_eq!(bench.take(), [Out::Send(consumer, large(), false, false)]);
    bench.more(stream, "more", false);
    assert_eq!(bench.take(), [Out::More(consumer, "more".into(), false)]);
    bench.more(stream, "end", true);
    assert_eq!(bench.take(), [Out::More(consumer, "end".into(), true)]);
    bench.router.payload_sent(stream, STREAM_BYTES_MIN + 7, true, bench.now);
    bench.accept(1);
    assert_eq!(bench.take(), [told(1, StateKind::Accepted)]);
    bench.close_all(&[connection]);
}

#[test]
fn a_stream_occupies_its_link_and_nothing_else() {
    let mut bench = Bench::default();
    let connection = bench.connect(10);
    let (a, b) = (bench.consumer(connection, "closest/q", 10), bench.consumer(connection, "closest/q", 10));
    let (one, two) = (bench.sender(connection, "closest/q"), bench.sender(connection, "closest/q"));
    bench.take();
    let stream = bench.begin(one, 0, true, &large());
    bench.take();
    for number in 0..3 {
        bench.send(two, number, false, "x");
    }
    assert_eq!(bench.take(), vec![sent(b, "x"); 3]);
    bench.more(stream, "end", true);
    bench.take();
    bench.quiet = false;
    bench.router.payload_sent(stream, STREAM_BYTES_MIN, false, bench.now);
    assert!(bench.take().contains(&Out::Released(STREAM_BYTES_MIN)));
    bench.router.payload_sent(stream, 3, true, bench.now);
    assert!(bench.take().contains(&Out::Released(3)));
    bench.quiet = true;
    bench.send(two, 3, false, "y");
    bench.send(two, 4, false, "y");
    assert_eq!(bench.take(), [sent(b, "y"), sent(a, "y")]);
    bench.close_all(&[connection]);
}

#[test]
fn a_full_session_is_opened_for_what_goes_under_way_with_nothing_left_to_send() {
    let mut bench = Bench::default();
    bench.quiet = false;
    let connection = bench.connect(10);
    let consumer = bench.consumer(connection, "q", 10);
    let senders = [(); 3].map(|()| bench.sender(connection, "q"));
    let stream = bench.begin(senders[0], 0, true, &large());
    bench.take();
    bench.router.payload_sent(stream, STREAM_BYTES_MIN, false, bench.now);
    // It waits for its rest, and so does what begins behind it, which doesn't count as held from now on.
    let begun = bench.begin(senders[1], 1, false, "begun");
    bench.router.session_full(connection, SessionNumber(0), false, bench.now);
    assert!(bench.take().contains(&Out::Released("begun".len())));
    // Full again, while the stream has something to send.
    bench.more(stream, "end", true);
    bench.send(senders[2], 2, false, "behind");
    bench.router.session_full(connection, SessionNumber(0), false, bench.now);
    assert!(!bench.take().iter().any(|out| matches!(out, Out::Released(_))));
    bench.router.payload_sent(stream, "end".len(), true, bench.now);
    let outs = bench.take();
    assert!(outs.contains(&Out::Send(consumer, "begun".into(), false, false)), "{outs:?}");
    assert!(outs.contains(&Out::Released("end".len() + "behind".len())), "{outs:?}");
    assert!(outs.contains(&Out::Lent(1)), "of what waits whole, {outs:?}");
    bench.more(begun, "", true);
    bench.take();
    bench.router.payload_sent(begun, 0, true, bench.now);
    assert!(bench.take().contains(&sent(consumer, "behind")));
    bench.close_all(&[connection]);
}

#[test]
fn what_a_detached_sender_left_waiting_is_lent_too() {
    for is_again in [false, true] {
        let mut bench = Bench::default();
        bench.quiet = false;
        let connection = bench.connect(10);
        bench.consumer(connection, "q", 10);
        let left = bench.sender(connection, "q");
        let other = bench.sender(connection, "q");
        let stream = bench.begin(other, 0, true, &large());
        bench.take();
        bench.router.payload_sent(stream, STREAM_BYTES_MIN, false, bench.now);
        bench.send(left, 1, true, "settled");
        bench.end(left);
        if is_again {
            bench.sender(connection, "q");
        }
        bench.take();
        bench.router.session_full(connection, SessionNumber(0), false, bench.now);
        let outs = bench.take();
        assert!(outs.contains(&Out::Released("settled".len())));
        // What came settled and whole takes no place.
        assert!(!outs.iter().any(|out| matches!(out, Out::Lent(_))), "{outs:?}");
        bench.close_all(&[connection]);
    }
}

/// Of many sessions, each with links of its own, one at a time is full.
#[test]
fn opening_a_session_looks_at_its_own_links_alone() {
    let mut bench = Bench::default();
    bench.quiet = false;
    let connection = bench.connect(10);
    bench.consumer(connection, "q", 1);
    let sessions: Vec<SessionNumber> = (0..60).map(SessionNumber).collect();
    let links: Vec<[LinkId; 2]> =
        sessions.iter().map(|session| [(); 2].map(|()| bench.sender_on(connection, *session, "q"))).collect();
    bench.send(links[0][0], 0, true, "takes the credit");
    bench.take();
    let waiting: Vec<DeliveryId> =
        links.iter().zip(1..).map(|(links, number)| bench.begin(links[0], number, true, "begun")).collect();
    bench.take();
    // Detached, with a delivery that is here: it is its session's still.
    bench.send(links[7][1], 5000, true, "left");
    bench.end(links[7][1]);
    bench.take();
    bench.router.take_steps();
    for (session, delivery) in sessions.iter().zip(&waiting) {
        for piece in ["begun".len(), 1] {
            bench.router.session_full(connection, *session, true, bench.now);
            let left = if session.0 == 7 && piece > 1 { "left".len() } else { 0 };
            assert_eq!(bench.take(), [Out::Released(piece + left)], "{session:?}");
            assert!(bench.router.take_steps() <= 8, "{session:?}");
            bench.more(*delivery, "y", false);
            bench.take();
        }
    }
    bench.close_all(&[connection]);
}

#[test]
fn a_session_without_links_for_a_while_knows_what_it_had_waiting() {
    let mut bench = Bench::default();
    bench.quiet = false;
    let connection = bench.connect(10);
    bench.consumer(connection, "q", 1);
    let number = SessionNumber(5);
    let first = bench.sender_on(connection, number, "q");
    bench.send(first, 0, true, "takes the credit");
    bench.send(first, 1, true, "waits");
    bench.router.session_blocked(connection, number);
    bench.end(first);
    bench.take();
    // One without links has nothing that could be under way.
    bench.router.session_full(connection, number, false, bench.now);
    assert_eq!(bench.take(), []);
    let (second, other) = (bench.sender_on(connection, number, "q"), bench.sender_on(connection, number, "q"));
    bench.session = number;
    let unblocked = bench.consumer(connection, "r", 1);
    let to_it = bench.sender(connection, "r");
    bench.send(to_it, 2, true, "goes on");
    bench.send(second, 3, false, "waits, too");
    assert!(bench.take().contains(&Out::Send(unblocked, "goes on".into(), true, true)));
    bench.router.session_full(connection, number, true, bench.now);
    let outs = bench.take();
    assert!(outs.contains(&Out::Released("waits".len() + "waits, too".len())), "{outs:?}");
    assert!(outs.contains(&Out::Lent(1)), "{outs:?}");
    bench.end(other);
    bench.end(second);
    bench.close_all(&[connection]);
}

#[test]
fn an_aborted_message_gives_its_credit_back() {
    let mut bench = Bench::default();
    bench.quiet = false;
    let connection = bench.connect(5);
    let consumer = bench.consumer(connection, "q", 10);
    let sender = bench.sender(connection, "q");
    assert_eq!(bench.take(), [Out::Credit(sender, 5)]);
    let small = bench.begin(sender, 0, false, "abc");
    bench.take();
    bench.router.delivery_aborted(small, bench.now);
    assert_eq!(bench.take(), [Out::Credit(sender, 1), Out::Released(3)]);
    let stream = bench.begin(sender, 1, false, &large());
    bench.take();
    bench.router.delivery_aborted(stream, bench.now);
    assert_eq!(bench.take(), [Out::Abort(consumer), Out::Credit(sender, 1), Out::Released(STREAM_BYTES_MIN)]);
    bench.send(sender, 2, true, "next");
    assert_eq!(bench.take()[0], Out::Send(consumer, "next".into(), true, true));
    bench.close_all(&[connection]);
}

#[test]
fn streams_in_tiny_pieces_that_wait_stay_few_ranges() {
    for address in ["closest.q", "multicast.q"] {
        let mut bench = Bench::default();
        let connection = bench.connect(5);
        let consumer = bench.consumer(connection, address, 1);
        let sender = bench.sender(connection, address);
        bench.take();
        bench.send(sender, 0, true, "what uses the credit");
        bench.take();
        let streams = [1, 2].map(|number| bench.begin(sender, number, false, &large()));
        bench.take();
        for piece in 1..=20_000 {
            streams.iter().for_each(|stream| bench.more(*stream, "y", piece == 20_000));
        }
        bench.router.credit(consumer, 1, 3, false, bench.now);
        let mut payloads = Vec::new();
        while let Some(output) = bench.router.poll_output() {
            if let Output::Send { payload, complete: true, .. } = output {
                payloads.push(payload);
            }
        }
        assert_eq!(payloads.len(), 2, "{address}");
        for payload in payloads {
            assert_eq!(payload.to_vec(), format!("{}{}", large(), "y".repeat(20_000)).into_bytes());
            assert!(payload.ranges().len() < 20_000 / 32 + 64, "{address}: {} ranges", payload.ranges().len());
        }
        bench.close_all(&[connection]);
    }
}

#[test]
fn a_sender_that_goes_in_the_middle_of_a_stream_aborts_it() {
    let mut bench = Bench::default();
    let (here, there) = (bench.connect(5), bench.connect(5));
    let consumer = bench.consumer(here, "q", 10);
    let sender = bench.sender(there, "q");
    let stream = bench.begin(sender, 0, false, &large());
    bench.take();
    bench.router.connection_closed(there, bench.now);
    assert_eq!(bench.take(), [Out::Abort(consumer)]);
    bench.router.delivery_more(stream, Default::default(), true, false, bench.now);
    assert_eq!(bench.take(), []);
    bench.close_all(&[here]);
}

#[test]
fn a_consumer_that_goes_in_the_middle_of_a_stream_fails_it_and_the_rest_is_dropped() {
    let mut bench = Bench::default();
    let connection = bench.connect(1);
    let consumer = bench.consumer(connection, "q", 10);
    let sender = bench.sender(connection, "q");
    let stream = bench.begin(sender, 0, false, &large());
    bench.take();
    bench.router.payload_sent(stream, 100, false, bench.now);
    bench.take();
    bench.end(consumer);
    assert_eq!(bench.take(), [told(0, StateKind::Modified)]);
    bench.quiet = false;
    bench.more(stream, "more", false);
    assert_eq!(bench.take(), [Out::Released(4)]);
    let next = bench.consumer(connection, "q", 10);
    assert_eq!(bench.take(), []);
    bench.more(stream, "end", true);
    assert_eq!(bench.take(), [Out::Credit(sender, 1), Out::Released(3)]);
    bench.send(sender, 1, true, "next");
    assert_eq!(bench.take()[0], Out::Send(next, "next".into(), true, true));
    bench.close_all(&[connection]);
}

#[test]
fn what_no_byte_was_sent_of_is_released() {
    let mut bench = Bench::default();
    let connection = bench.connect(10);
    let consumer = bench.consumer(connection, "q", 10);
    let sender = bench.sender(connection, "q");
    bench.take();
    bench.slow.push(consumer);
    bench.send(sender, 0, false, "held");
    assert_eq!(bench.take(), [sent(consumer, "held")]);
    bench.send(sender, 1, false, "waits");
    assert_eq!(bench.take(), []);
    bench.end(consumer);
    assert_eq!(bench.take(), [told(0, StateKind::Released), told(1, StateKind::Released)]);
    bench.close_all(&[connection]);
}

#[test]
fn an_outcome_in_the_middle_of_a_stream_reaches_the_sender_at_once() {
    let mut bench = Bench::default();
    let connection = bench.connect(10);
    let consumer = bench.consumer(connection, "q", 10);
    let sender = bench.sender(connection, "q");
    let stream = bench.begin(sender, 0, false, &large());
    bench.take();
    bench.dispose(0, Some(State { kind: StateKind::Rejected, encoded: None }), true);
    assert_eq!(bench.take(), [told(0, StateKind::Rejected)]);
    // The sender may go on, or give up.
    bench.more(stream, "more", false);
    assert_eq!(bench.take(), [Out::More(consumer, "more".into(), false)]);
    bench.router.delivery_aborted(stream, bench.now);
    assert_eq!(bench.take(), [Out::Abort(consumer)]);
    assert_eq!(bench.router.deliveries_len(), 0);
    bench.close_all(&[connection]);
}

#[test]
fn a_blocked_session_takes_nothing_and_others_go_on() {
    let mut bench = Bench::default();
    let (slow, fast) = (bench.connect(10), bench.connect(10));
    let a = bench.consumer(slow, "closest/q", 10);
    let b = bench.consumer(fast, "closest/q", 10);
    let sender = bench.sender(fast, "closest/q");
    bench.take();
    bench.router.session_blocked(slow, SessionNumber(0));
    for number in 0..4 {
        bench.send(sender, number, true, "x");
    }
    let to_b = Out::Send(b, "x".into(), true, true);
    assert_eq!(bench.take(), vec![to_b.clone(); 4]);
    bench.router.session_writable(slow, SessionNumber(0), bench.now);
    bench.take();
    bench.send(sender, 4, true, "x");
    bench.send(sender, 5, true, "x");
    let outs = bench.take();
    assert!(outs.contains(&Out::Send(a, "x".into(), true, true)) && outs.contains(&to_b));
    // A link that comes while it is blocked, and goes while it waits.
    bench.router.session_blocked(slow, SessionNumber(0));
    bench.end(b);
    bench.send(sender, 6, true, "x");
    assert_eq!(bench.take(), []);
    bench.end(a);
    bench.take();
    bench.router.session_writable(slow, SessionNumber(0), bench.now);
    bench.close_all(&[slow, fast]);
}

#[test]
fn partial_messages_of_one_session_cannot_close_its_window_for_each_other() {
    let mut bench = Bench::default();
    let connection = bench.connect(10);
    let senders: Vec<_> = (0..40).map(|_| bench.sender(connection, "q")).collect();
    let consumers: Vec<_> = (0..40).map(|_| bench.consumer(connection, "q", 1)).collect();
    bench.take();
    let part = "x".repeat(STREAM_BYTES_MIN - 1);
    let mut streamed = 0;
    for (number, sender) in senders.iter().enumerate() {
        bench.begin(*sender, number as u32, false, &part);
        streamed += bench.take().len();
    }
    assert!(streamed >= 20, "{streamed}");
    assert_eq!(consumers.len(), 40);
    bench.close_all(&[connection]);
}

#[test]
fn a_detached_link_is_kept_until_its_settled_deliveries_are_gone() {
    let mut bench = Bench::default();
    let connection = bench.connect(10);
    let modes = Modes(SenderSettleMode::Unsettled, ReceiverSettleMode::First);
    let consumer = bench.consumer_with(connection, "q", 1, modes);
    let sender = bench.sender(connection, "q");
    bench.send(sender, 0, true, "a");
    bench.send(sender, 1, true, "b");
    assert_eq!(bench.take().len(), 1);
    bench.end(sender);
    bench.take();
    assert_eq!(bench.router.links_len(), 2);
    bench.accept(0);
    bench.router.credit(consumer, 1, 2, false, bench.now);
    assert_eq!(bench.take(), [sent(consumer, "b")]);
    bench.accept(1);
    bench.take();
    assert_eq!(bench.router.links_len(), 1);
    bench.close_all(&[connection]);
}

/// Refused for its size while more of it is to come, and then its consumer or its sender goes: it was dropped once.
#[test]
fn a_settled_stream_that_was_refused_counts_as_dropped_once() {
    for sender_goes in [false, true] {
        let mut bench = Bench::default();
        let connection = bench.connect(10);
        let consumer = bench.consumer(connection, "q", 1);
        let sender = bench.sender(connection, "q");
        bench.take();
        let delivery = bench.begin(sender, 0, true, &large());
        bench.take();
        bench.router.delivery_too_large(delivery, bench.now);
        assert_eq!(bench.router.totals().dropped_presettled, 1);
        match sender_goes {
            true => bench.router.delivery_aborted(delivery, bench.now),
            false => bench.end(consumer),
        }
        bench.take();
        assert_eq!(bench.router.totals().dropped_presettled, 1);
        bench.close_all(&[connection]);
    }
}

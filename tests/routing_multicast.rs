//! Multicast: a copy each, one outcome.

#[path = "routing_support/mod.rs"]
mod support;

use ringway::ids::{ConnectionId, LinkId, SessionNumber};
use ringway::limits::{SESSION_INCOMING_BYTES, STREAM_BYTES_MIN};
use ringway::link::{Direction, ReceiverSettleMode, SenderSettleMode};
use ringway::outcome::{State, StateKind};
use ringway::routing::Output;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::*;

fn group(consumers: usize, credit: u32) -> (Bench, ConnectionId, LinkId, Vec<LinkId>) {
    group_of(100, consumers, credit)
}

/// As above, with a sender of this link capacity.
fn group_of(capacity: u32, consumers: usize, credit: u32) -> (Bench, ConnectionId, LinkId, Vec<LinkId>) {
    let mut bench = Bench::default();
    let connection = bench.connect(capacity);
    let consumers = (0..consumers).map(|_| bench.consumer(connection, "multicast/m", credit)).collect();
    let sender = bench.sender(connection, "multicast/m");
    bench.take();
    (bench, connection, sender, consumers)
}

fn state(kind: StateKind) -> Option<State> {
    Some(State { kind, encoded: None })
}

#[test]
fn every_consumer_has_a_copy_and_the_sender_one_outcome() {
    let (mut bench, connection, sender, consumers) = group(3, 10);
    bench.send(sender, 0, false, "m");
    assert_eq!(bench.take(), consumers.iter().map(|link| sent(*link, "m")).collect::<Vec<_>>());
    assert_eq!(bench.router.address("multicast/m").unwrap().depth_messages(), 3);
    bench.accept(0);
    bench.accept(2);
    assert_eq!(bench.take(), []);
    bench.accept(1);
    assert_eq!(bench.take(), [told(0, StateKind::Accepted)]);
    bench.close_all(&[connection]);
}

#[test]
fn the_highest_outcome_wins() {
    use StateKind::{Accepted, Modified, Rejected, Released};
    for (copies, expected) in [
        ([Released, Modified, Released], Modified),
        ([Released, Accepted, Modified], Accepted),
        ([Accepted, Rejected, Accepted], Rejected),
        ([Released, Released, Released], Released),
    ] {
        let (mut bench, _, sender, _) = group(3, 10);
        bench.send(sender, 0, false, "m");
        bench.take();
        for (at, kind) in copies.into_iter().enumerate() {
            bench.dispose(at, state(kind), true);
        }
        assert_eq!(bench.take(), [told(0, expected)]);
    }
}

#[test]
fn an_error_of_one_consumer_reaches_the_sender_whole() {
    let (mut bench, _, sender, _) = group(2, 10);
    bench.send(sender, 0, false, "m");
    bench.take();
    let error = State { kind: StateKind::Rejected, encoded: Some(Arc::new([9, 9])) };
    bench.dispose(0, Some(error.clone()), true);
    bench.accept(1);
    bench.take();
    assert_eq!(bench.states, [(0, Some(error))]);
}

#[test]
fn errors_are_kept_up_to_a_bound_and_then_their_kind() {
    let (mut bench, connection, sender, consumers) = group_of(400, 2, 400);
    for number in 0..300 {
        bench.send(sender, number, false, "m");
    }
    bench.take();
    let of = |bench: &Bench, link: LinkId| -> Vec<usize> {
        (0..bench.sent.len()).filter(|at| bench.sent[*at].0 == link).collect()
    };
    let (first, second) = (of(&bench, consumers[0]), of(&bench, consumers[1]));
    assert_eq!(first.len(), 300);
    for (number, at) in first.into_iter().enumerate() {
        let error = State { kind: StateKind::Rejected, encoded: Some(vec![number as u8; 4096].into()) };
        bench.dispose(at, Some(error), true);
    }
    second.into_iter().for_each(|at| bench.accept(at));
    bench.take();
    assert_eq!(bench.states.len(), 300);
    let mut whole = 0;
    for (number, state) in std::mem::take(&mut bench.states) {
        let State { kind, encoded } = state.unwrap();
        assert_eq!(kind, StateKind::Rejected);
        whole += usize::from(encoded.is_some_and(|bytes| bytes[..] == [number as u8; 4096]));
    }
    assert_eq!(whole, 256);
    // What was told is room again.
    bench.send(sender, 300, false, "m");
    bench.take();
    let error = State { kind: StateKind::Rejected, encoded: Some(vec![1; 4096].into()) };
    bench.dispose(600, Some(error.clone()), true);
    bench.accept(601);
    bench.take();
    assert_eq!(bench.states, [(300, Some(error))]);
    bench.close_all(&[connection]);
}

#[test]
fn unsettled_copies_wait_for_their_own_consumer() {
    let (mut bench, connection, sender, consumers) = group(2, 1);
    bench.send(sender, 0, false, "a");
    bench.send(sender, 1, false, "b");
    assert_eq!(bench.take(), [sent(consumers[0], "a"), sent(consumers[1], "a")]);
    bench.router.credit(consumers[1], 1, 2, false, bench.now);
    assert_eq!(bench.take(), [sent(consumers[1], "b")]);
    for at in 0..3 {
        bench.accept(at);
    }
    assert_eq!(bench.take(), [told(0, StateKind::Accepted)]);
    bench.router.credit(consumers[0], 1, 2, false, bench.now);
    assert_eq!(bench.take(), [sent(consumers[0], "b")]);
    bench.accept(3);
    assert_eq!(bench.take(), [told(1, StateKind::Accepted)]);
    bench.close_all(&[connection]);
}

#[test]
fn settled_ones_go_to_who_has_room_and_the_rest_is_counted() {
    let (mut bench, connection, sender, consumers) = group(2, 1);
    let idle = bench.consumer(connection, "multicast/m", 0);
    bench.router.credit(consumers[1], 0, 5, false, bench.now);
    bench.take();
    for number in 0..3 {
        bench.send(sender, number, true, "m");
        bench.take();
    }
    let to = |link: LinkId| bench.sent.iter().filter(|(to, _)| *to == link).count();
    assert_eq!((to(consumers[0]), to(consumers[1]), to(idle)), (1, 3, 0));
    assert_eq!(bench.router.totals().missed, 2);
    assert_eq!(bench.router.link_counters(consumers[0]).unwrap().missed, 2);
    assert_eq!(bench.router.deliveries_len(), 0);
    bench.close_all(&[connection]);
}

#[test]
fn lost_consumers_count_as_failed_or_never_reached() {
    let (mut bench, connection, sender, consumers) = group(2, 1);
    bench.send(sender, 0, false, "a");
    bench.send(sender, 1, false, "b");
    bench.take();
    bench.end(consumers[0]);
    assert_eq!(bench.take(), []);
    bench.accept(1);
    assert_eq!(bench.take(), [told(0, StateKind::Accepted)]);
    bench.end(consumers[1]);
    assert_eq!(bench.take(), [told(1, StateKind::Released)]);
    bench.send(sender, 2, false, "c");
    assert_eq!(bench.take(), [told(2, StateKind::Released)]);
    bench.close_all(&[connection]);
}

#[test]
fn a_stream_goes_to_all_and_is_released_as_the_slowest_takes_it() {
    let (mut bench, connection, sender, consumers) = group(2, 10);
    let body = "x".repeat(STREAM_BYTES_MIN);
    let stream = bench.begin(sender, 0, false, &body);
    assert_eq!(bench.take().len(), 2);
    let copies: Vec<_> = bench.sent.iter().map(|(_, copy)| *copy).collect();
    bench.quiet = false;
    bench.router.payload_sent(copies[0], STREAM_BYTES_MIN, false, bench.now);
    assert_eq!(bench.take(), []);
    bench.router.payload_sent(copies[1], 1000, false, bench.now);
    assert_eq!(bench.take(), [Out::Released(1000)]);
    bench.more(stream, "end", true);
    assert_eq!(
        bench.take(),
        [Out::More(consumers[0], "end".into(), true), Out::More(consumers[1], "end".into(), true)]
    );
    bench.router.payload_sent(copies[1], STREAM_BYTES_MIN - 1000 + 3, true, bench.now);
    bench.take();
    bench.router.payload_sent(copies[0], 3, true, bench.now);
    bench.accept(0);
    bench.accept(1);
    bench.quiet = true;
    assert_eq!(bench.take(), [told(0, StateKind::Accepted)]);
    bench.close_all(&[connection]);
}

/// Two streams of one session: the first has nothing left to send, the second waits behind it and fills the window.
#[test]
fn a_stream_that_waits_and_keeps_its_session_full_is_missed() {
    let (mut bench, connection, sender, consumers) = group(2, 10);
    let other = bench.sender(connection, "multicast/m");
    let body = "x".repeat(STREAM_BYTES_MIN);
    let stream = bench.begin(sender, 0, false, &body);
    bench.take();
    let copies: Vec<_> = bench.sent.iter().map(|(_, copy)| *copy).collect();
    for copy in copies {
        bench.router.payload_sent(copy, STREAM_BYTES_MIN, false, bench.now);
    }
    let size = SESSION_INCOMING_BYTES + 1;
    let waiting = bench.begin(other, 1, false, &"y".repeat(size));
    bench.take();
    bench.quiet = false;
    bench.router.session_full(connection, SessionNumber(0), false, bench.now);
    let outs = bench.take();
    assert!(outs.contains(&told(1, StateKind::Released)), "{outs:?}");
    assert!(outs.contains(&Out::Released(size)), "{outs:?}");
    bench.quiet = true;
    bench.more(waiting, "", true);
    bench.more(stream, "end", true);
    let expected = consumers.iter().map(|link| Out::More(*link, "end".into(), true)).collect::<Vec<_>>();
    assert_eq!(bench.take(), expected);
    bench.close_all(&[connection]);
}

/// A message whose copies are all out is nothing that waits, however long its consumers take to settle it.
#[test]
fn places_are_lent_of_messages_whose_copies_wait() {
    let (mut bench, connection, sender, consumers) = group(2, 3);
    let other = bench.sender(connection, "multicast/m");
    for number in 0..2 {
        bench.send(other, number, false, "out");
    }
    let body = "x".repeat(STREAM_BYTES_MIN);
    let stream = bench.begin(sender, 2, false, &body);
    bench.take();
    let copies: Vec<_> = bench.sent[4..].iter().map(|(_, copy)| *copy).collect();
    for copy in copies {
        bench.router.payload_sent(copy, STREAM_BYTES_MIN, false, bench.now);
    }
    bench.take();
    bench.quiet = false;
    bench.router.session_full(connection, SessionNumber(0), false, bench.now);
    assert!(!bench.take().iter().any(|out| matches!(out, Out::Lent(_))));
    bench.send(other, 3, false, "waits");
    bench.take();
    bench.router.session_full(connection, SessionNumber(0), false, bench.now);
    assert!(bench.take().contains(&Out::Lent(1)));
    bench.quiet = true;
    bench.more(stream, "end", true);
    assert_eq!(bench.take().len(), consumers.len());
    bench.close_all(&[connection]);
}

/// Who takes part since a message began gets it as well, and is set aside by it when there is no room for it.
#[test]
fn a_copy_of_a_message_that_began_before_its_consumer_waits_no_longer_than_others() {
    let (mut bench, connection, sender, _) = group(1, 10);
    let other = bench.sender(connection, "multicast/m");
    let begun = [bench.begin(sender, 0, false, "a"), bench.begin(other, 1, false, "b")];
    let late = bench.consumer(connection, "multicast/m", 1);
    bench.take();
    begun.into_iter().for_each(|message| bench.more(message, "", true));
    assert_eq!(bench.take().len(), 3);
    for at in 0..3 {
        bench.accept(at);
    }
    assert_eq!(bench.take(), [told(0, StateKind::Accepted)]);
    bench.now = bench.now + Duration::from_secs(3);
    bench.router.handle_timeout(bench.now);
    assert_eq!(bench.take(), [told(1, StateKind::Accepted)]);
    bench.router.credit(late, 1, 2, false, bench.now);
    bench.send(sender, 2, false, "c");
    assert_eq!(bench.take().len(), 2);
    bench.close_all(&[connection]);
}

#[test]
fn an_aborted_stream_is_aborted_everywhere() {
    let (mut bench, connection, sender, consumers) = group(2, 10);
    let stream = bench.begin(sender, 0, false, &"x".repeat(STREAM_BYTES_MIN));
    bench.take();
    bench.router.delivery_aborted(stream, bench.now);
    assert_eq!(bench.take(), [Out::Abort(consumers[0]), Out::Abort(consumers[1])]);
    bench.send(sender, 1, true, "m");
    assert_eq!(bench.take().len(), 2);
    assert_eq!(bench.router.deliveries_len(), 0);
    bench.close_all(&[connection]);
}

#[test]
fn all_consumers_of_a_stream_go_and_the_rest_of_it_is_dropped() {
    let (mut bench, connection, sender, consumers) = group(2, 10);
    let stream = bench.begin(sender, 0, false, &"x".repeat(STREAM_BYTES_MIN));
    bench.take();
    let copies: Vec<_> = bench.sent.iter().map(|(_, copy)| *copy).collect();
    bench.router.payload_sent(copies[0], 10, false, bench.now);
    bench.end(consumers[0]);
    bench.end(consumers[1]);
    assert_eq!(bench.take(), [told(0, StateKind::Modified)]);
    bench.more(stream, "end", true);
    assert_eq!(bench.take(), []);
    assert_eq!(bench.router.deliveries_len(), 0);
    bench.close_all(&[connection]);
}

#[test]
fn settle_modes_of_the_consumers_are_kept_apart() {
    let mut bench = Bench::default();
    let connection = bench.connect(100);
    let modes = |sender| Modes(sender, ReceiverSettleMode::First);
    let settled = bench.consumer_with(connection, "multicast/m", 10, modes(SenderSettleMode::Settled));
    let unsettled = bench.consumer_with(connection, "multicast/m", 10, modes(SenderSettleMode::Unsettled));
    let sender = bench.sender(connection, "multicast/m");
    bench.take();
    bench.send(sender, 0, false, "a");
    assert_eq!(bench.take(), [Out::Send(settled, "a".into(), true, true), sent(unsettled, "a")]);
    bench.dispose(1, state(StateKind::Released), true);
    assert_eq!(bench.take(), [told(0, StateKind::Accepted)]);
    bench.send(sender, 1, true, "b");
    assert_eq!(bench.take(), [Out::Send(settled, "b".into(), true, true), sent(unsettled, "b")]);
    bench.dispose(3, state(StateKind::Accepted), false);
    assert_eq!(bench.take(), [Out::ToldConsumer(3, None, true)]);
    bench.close_all(&[connection]);
}

#[test]
fn in_three_steps_the_sender_settles_last() {
    let mut bench = Bench::default();
    let connection = bench.connect(100);
    for _ in 0..2 {
        bench.consumer(connection, "multicast/m", 10);
    }
    let second = Modes(SenderSettleMode::Unsettled, ReceiverSettleMode::Second);
    let sender = bench.attach(connection, Direction::Incoming, &node("multicast/m"), second).unwrap().link;
    let delivery = bench.send(sender, 0, false, "m").unwrap();
    bench.take();
    bench.accept(0);
    bench.accept(1);
    assert_eq!(bench.take(), [Out::Told(0, Some(StateKind::Accepted), false)]);
    assert_eq!(bench.router.deliveries_len(), 1);
    bench.router.sender_disposition(delivery, None, true, bench.now);
    assert_eq!(bench.take(), []);
    assert_eq!(bench.router.deliveries_len(), 0);
    bench.close_all(&[connection]);
}

/// What the sender's window gets back.
fn released(bench: &mut Bench) -> usize {
    let quiet = std::mem::replace(&mut bench.quiet, false);
    let outs = bench.take();
    bench.quiet = quiet;
    outs.iter().map(|out| if let Out::Released(bytes) = out { *bytes } else { 0 }).sum()
}

#[test]
fn a_stream_is_released_as_its_slowest_consumer_takes_it_whoever_leaves_or_joins() {
    let (mut bench, connection, sender, consumers) = group(3, 10);
    let other = bench.sender(connection, "multicast/m");
    let (short, stream) = (bench.begin(sender, 0, false, "a"), bench.begin(other, 1, false, "b"));
    // Its one credit is for the short message: the stream waits for it.
    let late = bench.consumer(connection, "multicast/m", 1);
    bench.more(short, "", true);
    assert_eq!(bench.take().len(), 4);
    (0..4).for_each(|at| bench.accept(at));
    released(&mut bench);
    bench.more(stream, &"x".repeat(STREAM_BYTES_MIN - 1), false);
    assert_eq!(released(&mut bench), 0);
    let copies: Vec<_> = bench.sent[4..].iter().map(|(_, copy)| *copy).collect();
    assert_eq!(copies.len(), 3);
    let after = |bench: &mut Bench, copy: usize, bytes: usize| {
        bench.router.payload_sent(copies[copy], bytes, false, bench.now);
        released(bench)
    };

    for (copy, bytes) in [(0, STREAM_BYTES_MIN), (1, 1000), (2, 2000)] {
        assert_eq!(after(&mut bench, copy, bytes), 0, "the late one has got nothing");
    }
    // It is set aside.
    bench.now = bench.now + Duration::from_secs(3);
    bench.router.handle_timeout(bench.now);
    assert_eq!(released(&mut bench), 1000);
    assert_eq!(bench.router.link_counters(late).unwrap().missed, 1);
    assert_eq!(after(&mut bench, 1, 500), 500);
    assert_eq!(after(&mut bench, 1, 4500), 500);
    // The slowest leaves, at 2000; the next is at 6000. One that joins has no copy.
    bench.end(consumers[2]);
    assert_eq!(released(&mut bench), 4000);
    let joined = bench.consumer(connection, "multicast/m", 10);
    assert_eq!(released(&mut bench), 0);
    bench.more(stream, "end", false);
    assert_eq!(released(&mut bench), 0);
    assert_eq!(after(&mut bench, 0, 3), 0);
    assert_eq!(after(&mut bench, 1, STREAM_BYTES_MIN - 6000), STREAM_BYTES_MIN - 6000);
    assert_eq!(after(&mut bench, 1, 2), 2);
    bench.end(consumers[1]);
    assert_eq!(released(&mut bench), 1);
    bench.more(stream, "", true);
    bench.router.payload_sent(copies[0], 0, true, bench.now);
    bench.accept(4);
    assert_eq!(bench.take().last(), Some(&told(1, StateKind::Accepted)));
    bench.send(sender, 2, false, "m");
    assert!(bench.take().contains(&sent(joined, "m")));
    bench.close_all(&[connection]);
}

#[test]
fn at_any_pace_a_stream_is_released_as_the_slowest_takes_it() {
    for seed in 1..=200_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut below = |bound: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 33) as usize % bound
        };
        let count = 2 + below(20);
        let (mut bench, connection, sender, consumers) = group(count, 10);
        let stream = bench.begin(sender, 0, false, &"x".repeat(STREAM_BYTES_MIN));
        released(&mut bench);
        let copies: Vec<_> = bench.sent.iter().map(|(_, copy)| *copy).collect();
        // What each consumer that is there hasn't got.
        let mut held: Vec<(usize, usize)> = (0..count).map(|at| (at, STREAM_BYTES_MIN)).collect();
        let mut unreleased = STREAM_BYTES_MIN;
        for step in 0..200 {
            let at = below(held.len());
            match below(20) {
                0 if held.len() > 1 => {
                    bench.end(consumers[held[at].0]);
                    held.swap_remove(at);
                }
                1..4 => {
                    let bytes = 1 + below(2000);
                    bench.more(stream, &"y".repeat(bytes), false);
                    held.iter_mut().for_each(|(_, held)| *held += bytes);
                    unreleased += bytes;
                }
                kind => {
                    let (copy, held) = &mut held[at];
                    let bytes = if kind < 12 { below(*held + 1) } else { below(300).min(*held) };
                    bench.router.payload_sent(copies[*copy], bytes, false, bench.now);
                    *held -= bytes;
                }
            }
            let slowest = held.iter().map(|(_, held)| *held).max().unwrap();
            assert_eq!(released(&mut bench), unreleased - slowest, "seed {seed}, step {step}");
            unreleased = slowest;
        }
        bench.close_all(&[connection]);
    }
}

/// Beside what it costs to make as many copies and send them.
#[test]
fn what_a_consumer_takes_of_a_stream_costs_no_look_at_all_the_others() {
    const CONSUMERS: usize = 10_000;
    let measured = || {
        let (mut bench, connection, sender, _) = group(CONSUMERS, 10);
        let stream = bench.begin(sender, 0, false, &"x".repeat(STREAM_BYTES_MIN / 2));
        bench.take();
        let mut copies = Vec::new();
        let begun_at = Instant::now();
        bench.more(stream, &"x".repeat(STREAM_BYTES_MIN / 2), false);
        while let Some(output) = bench.router.poll_output() {
            if let Output::Send { delivery, .. } = output {
                copies.push(delivery);
            }
        }
        let sent_at = Instant::now();
        assert_eq!(copies.len(), CONSUMERS);
        // One after the other, and then one alone, the last.
        let alone = std::iter::repeat_n(&copies[CONSUMERS - 1], CONSUMERS);
        for copy in copies.iter().chain(alone) {
            bench.router.payload_sent(*copy, 1, false, bench.now);
            while bench.router.poll_output().is_some() {}
        }
        let (making, taking) = (sent_at - begun_at, sent_at.elapsed());
        bench.close_all(&[connection]);
        (taking < 10 * making, taking, making)
    };
    let runs: Vec<_> = (0..5).map(|_| measured()).collect();
    assert!(runs.iter().any(|run| run.0), "{runs:?}");
}

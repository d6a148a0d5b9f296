//! Senders' credit follows the consumers', end to end through the router.

#[path = "routing_support/mod.rs"]
mod support;

use ringway::ids::LinkId;
use ringway::limits::STREAM_BYTES_MIN;
use ringway::link::{ReceiverSettleMode, SenderSettleMode};
use ringway::memory::Memory;
use ringway::outcome::{State, StateKind};
use ringway::routing::credit::{AddressCredit, CreditSettings};
use ringway::routing::{AddressAttributes, AddressRules, FlowControl, Marks, RouterSettings};
use ringway::time::Time;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::*;

fn share(slack: u32) -> Bench {
    Bench::new(RouterSettings { flow_control: FlowControl::Share, credit_slack_percent: slack, ..settings() })
}

/// The shortest of five times that something takes.
fn shortest(time: impl FnMut() -> Duration) -> Duration {
    std::iter::repeat_with(time).take(5).min().expect("five of them")
}

/// Senders that send whatever they may, until nothing moves.
fn flood_all(bench: &mut Bench, senders: &[LinkId], settled: bool) -> u32 {
    let mut count = 0;
    loop {
        let sent: u32 = senders.iter().map(|sender| bench.flood(*sender, settled, u32::MAX)).sum();
        if sent == 0 {
            return count;
        }
        count += sent;
        assert!(count < 100_000, "credit without end");
    }
}

#[test]
fn a_hundred_eager_senders_and_a_consumer_that_never_settles() {
    for (slack, most) in [(0, 110), (100, 120)] {
        let mut bench = share(slack);
        let connection = bench.connect(250);
        let senders: Vec<_> = (0..100).map(|_| bench.sender(connection, "q")).collect();
        assert_eq!(flood_all(&mut bench, &senders, false), 0);
        bench.consumer(connection, "q", 10);
        flood_all(&mut bench, &senders, false);
        assert!(bench.router.deliveries_len() <= most, "{} at slack {slack}", bench.router.deliveries_len());
        assert!(bench.router.deliveries_len() >= 100);
        bench.close_all(&[connection]);
    }
}

#[test]
fn a_consumer_counts_from_its_first_flow() {
    let mut bench = share(100);
    let connection = bench.connect(250);
    let senders: Vec<_> = (0..3).map(|_| bench.sender(connection, "q")).collect();
    let consumer = bench.consumer(connection, "q", 0);
    bench.take();
    assert!(bench.credit.is_empty());
    bench.router.credit(consumer, 0, 1, false, bench.now);
    bench.take();
    assert!(senders.iter().all(|sender| bench.credit[sender] == 1));
    let alone = bench.sender(connection, "alone");
    bench.consumer(connection, "alone", 1);
    bench.take();
    assert_eq!(bench.credit[&alone], 2);
    bench.close_all(&[connection]);
}

#[test]
fn a_settled_flood_arrives_whole() {
    let mut bench = share(100);
    let connection = bench.connect(250);
    let consumer = bench.consumer(connection, "q", 0);
    let sender = bench.sender(connection, "q");
    let (mut sent, mut count) = (0, 0);
    for round in 1..=1_000 {
        bench.router.credit(consumer, count, round * 10, false, bench.now);
        sent += bench.flood(sender, true, u32::MAX);
        bench.take();
        count = bench.sent.len() as u32;
    }
    assert_eq!(count, 10_000);
    assert_eq!(sent - count, bench.router.address("q").unwrap().waiting());
    assert_eq!(bench.router.totals().dropped_presettled, 0);
    bench.close_all(&[connection]);
}

#[test]
fn settle_modes_that_differ_are_bounded_and_stall_nobody() {
    for (mode, settled) in [(SenderSettleMode::Settled, false), (SenderSettleMode::Unsettled, true)] {
        let mut bench = share(100);
        let connection = bench.connect(250);
        let modes = Modes(mode, ReceiverSettleMode::First);
        let consumer = bench.consumer_with(connection, "q", 100, modes);
        let sender = bench.sender(connection, "q");
        let mut disposed = 0;
        for round in 0..50 {
            bench.flood(sender, settled, u32::MAX);
            bench.take();
            assert!(bench.router.deliveries_len() <= 450, "{}", bench.router.deliveries_len());
            while disposed < bench.sent.len() && mode == SenderSettleMode::Unsettled {
                bench.accept(disposed);
                disposed += 1;
            }
            bench.take();
            let count = bench.sent.len() as u32;
            assert!(count > round * 50, "{count} in round {round}");
            bench.router.credit(consumer, count, count + 100, false, bench.now);
        }
        bench.close_all(&[connection]);
    }
}

#[test]
fn a_consumer_is_replaced_a_hundred_times() {
    let mut bench = share(100);
    let (senders, consumers) = (bench.connect(250), bench.connect(250));
    let sender = bench.sender(senders, "q");
    for round in 0..100 {
        let consumer = bench.consumer(consumers, "q", 50);
        bench.take();
        // What it had is taken back by the drain; the full window comes again.
        let mut arrived = 0;
        while arrived < 150 {
            let sent = bench.flood(sender, false, 150 - arrived);
            assert!(sent > 0, "round {round}: no credit after {arrived}");
            arrived += sent;
            bench.take();
            let count = bench.sent.iter().filter(|(link, _)| *link == consumer).count() as u32;
            bench.router.credit(consumer, count, count + 50, false, bench.now);
            for at in 0..bench.sent.len() {
                if at % 3 == 0 {
                    bench.accept(at);
                }
            }
            bench.take();
            bench.now = bench.now + Duration::from_millis(1);
        }
        bench.end(consumer);
        bench.take();
        assert_eq!(bench.router.deliveries_len(), 0);
        if bench.asked.contains(&sender) {
            bench.asked.clear();
            bench.credit.insert(sender, 0);
            bench.router.sender_drained(sender, u32::MAX, bench.now);
            bench.take();
        }
        assert_eq!(bench.flood(sender, false, 1), 0, "no credit while nobody consumes");
        bench.sent.clear();
    }
    bench.close_all(&[senders, consumers]);
}

#[test]
fn a_multicast_consumer_that_takes_nothing_is_set_aside() {
    let mut bench = share(0);
    let connection = bench.connect(10);
    let (stuck, live) =
        (bench.consumer(connection, "multicast/m", 2), bench.consumer(connection, "multicast/m", 5_000));
    let sender = bench.sender(connection, "multicast/m");
    let before = bench.flood(sender, false, 100);
    assert!(before <= 3, "{before}");
    bench.take();
    let stall = bench.router.settings().multicast_stall;
    let at = bench.router.poll_timeout().expect("a look at the stalled one");
    assert!(at <= bench.now + stall);
    bench.now = bench.now + stall;
    while bench.router.poll_timeout().is_some_and(|at| at <= bench.now) {
        bench.router.handle_timeout(bench.now);
        bench.take();
    }
    let mut after = 0;
    for _ in 0..100 {
        after += bench.flood(sender, false, 10);
        bench.take();
        for at in 0..bench.sent.len() {
            bench.accept(at);
        }
        bench.take();
    }
    assert!(after >= 100, "{after}");
    let to = |bench: &Bench, link| bench.sent.iter().filter(|(to, _)| *to == link).count();
    assert_eq!(to(&bench, stuck), 2);
    assert_eq!(bench.router.address("multicast/m").unwrap().credit().set_aside_count(), 1);
    // Back with its next credit.
    bench.router.credit(stuck, 2, 4, false, bench.now);
    assert_eq!(bench.flood(sender, false, 1), 1);
    bench.take();
    assert_eq!(to(&bench, stuck), 3);
    assert!(to(&bench, live) > 100);
    bench.close_all(&[connection]);
}

#[test]
fn unsettled_multicast_reaches_every_slow_consumer() {
    let mut bench = share(100);
    let connection = bench.connect(100);
    let consumers: Vec<_> = (0..3).map(|_| bench.consumer(connection, "multicast/m", 1)).collect();
    let sender = bench.sender(connection, "multicast/m");
    let (mut sent, mut done) = (0, 0);
    let mut counts = [0u32; 3];
    for _ in 0..1_000 {
        sent += bench.flood(sender, false, u32::MAX);
        bench.take();
        while done < bench.sent.len() {
            let at = consumers.iter().position(|link| *link == bench.sent[done].0).unwrap();
            counts[at] += 1;
            bench.accept(done);
            let limit = counts[at] + 1;
            bench.router.credit(consumers[at], counts[at], limit, false, bench.now);
            done += 1;
        }
        bench.take();
        bench.now = bench.now + Duration::from_millis(1);
    }
    assert!(sent >= 1_000);
    let waiting = bench.router.address("multicast/m").unwrap().depth_messages() as u32;
    assert_eq!(counts.iter().sum::<u32>() + waiting, sent * 3);
    bench.close_all(&[connection]);
}

#[test]
fn a_poller_that_drains_gets_each_message_once() {
    let mut bench = share(100);
    let connection = bench.connect(250);
    let consumer = bench.consumer(connection, "q", 0);
    let sender = bench.sender(connection, "q");
    bench.take();
    let (mut has, mut got, mut count) = (0, 0, 0u32);
    for round in 0..300 {
        has += round % 3 % 2;
        bench.router.credit(consumer, count, count + 1, true, bench.now);
        let mut outs = bench.take();
        // The sender sends what it has, then gives the rest back.
        has -= bench.flood(sender, true, has);
        outs.extend(bench.take());
        if bench.asked.contains(&sender) {
            bench.asked.clear();
            bench.credit.insert(sender, 0);
            bench.router.sender_drained(sender, u32::MAX, bench.now);
            outs.extend(bench.take());
        }
        got += outs.iter().filter(|out| matches!(out, Out::Send(..))).count() as u32;
        let drained = outs.contains(&Out::Drained(consumer));
        assert!(drained, "round {round}: {outs:?}");
        count += 1;
    }
    assert_eq!((got, has), (100, 0));
    bench.close_all(&[connection]);
}

/// Its drain is answered when its link is free. With new credit by then, the answer isn't one any more: it would take that back.
#[test]
fn a_drain_that_is_answered_late_takes_no_new_credit_back() {
    for has_new_credit in [false, true] {
        let mut bench = share(100);
        let connection = bench.connect(250);
        let consumer = bench.consumer(connection, "q", 10);
        let sender = bench.sender(connection, "q");
        bench.take();
        let large = "x".repeat(STREAM_BYTES_MIN);
        let stream = bench.begin(sender, 0, false, &large);
        assert_eq!(bench.take(), [Out::Send(consumer, large, false, false)]);
        bench.router.credit(consumer, 1, 10, true, bench.now);
        bench.more(stream, "end", true);
        assert_eq!(bench.take(), [Out::More(consumer, "end".into(), true)]);
        // The sender gives nothing back; the wait for it is over while the stream is under way.
        bench.now = bench.now + bench.router.settings().drain_wait;
        bench.router.handle_timeout(bench.now);
        assert_eq!(bench.take(), []);
        bench.router.payload_sent(stream, STREAM_BYTES_MIN + "end".len(), true, bench.now);
        if !has_new_credit {
            assert_eq!(bench.take(), [Out::Drained(consumer)]);
            bench.close_all(&[connection]);
            continue;
        }
        bench.router.credit(consumer, 1, 11, false, bench.now);
        assert_eq!(bench.take(), []);
        bench.send(sender, 1, false, "next");
        assert_eq!(bench.take(), [sent(consumer, "next")]);
        // The next drain has its own answer.
        bench.router.credit(consumer, 2, 11, true, bench.now);
        bench.router.sender_drained(sender, u32::MAX, bench.now);
        assert_eq!(bench.take(), [Out::Drained(consumer)]);
        bench.close_all(&[connection]);
    }
}

/// A drain is answered once, however often it is said before.
#[test]
fn a_drain_that_is_said_again_has_one_answer() {
    for straight in [false, true] {
        let mut bench = share(100);
        bench.straight = straight;
        let connection = bench.connect(250);
        let consumer = bench.consumer(connection, "q", 10);
        let senders = [bench.sender(connection, "q"), bench.sender(connection, "q")];
        bench.take();
        for _ in 0..3 {
            bench.router.credit(consumer, 0, 10, true, bench.now);
            assert_eq!(bench.take(), []);
        }
        assert_eq!(bench.asked, senders, "each is asked once");
        bench.send(senders[0], 0, true, "last");
        assert_eq!(bench.take(), [Out::Send(consumer, "last".into(), true, true)]);
        for sender in senders {
            assert_eq!(bench.take(), []);
            bench.router.sender_drained(sender, u32::MAX, bench.now);
        }
        assert_eq!(bench.take(), [Out::Drained(consumer)]);
        bench.now = bench.now + bench.router.settings().drain_wait;
        bench.router.handle_timeout(bench.now);
        assert_eq!(bench.take(), []);
        bench.close_all(&[connection]);
    }
}

/// Found: the first flow behind a drain's answer looked at all commands that weren't out yet.
#[test]
fn a_flow_behind_a_drain_costs_the_same_beside_many_commands() {
    let time = |outcomes: usize| {
        let mut bench = Bench::default();
        let (peer, other) = (bench.connect(250), bench.connect(20_000));
        let consumers: Vec<_> = (0..4_000).map(|_| bench.consumer(peer, "drained", 0)).collect();
        for consumer in &consumers {
            bench.router.credit(*consumer, 0, 10, true, bench.now);
        }
        assert_eq!(bench.take().len(), 4_000);
        bench.consumer(other, "busy", 20_000);
        let sender = bench.sender(other, "busy");
        bench.take();
        for number in 0..outcomes {
            bench.router.delivery(sender, whole(number as u32), bench.now);
        }
        bench.take();
        (0..outcomes).for_each(|at| bench.accept(at));
        let begin = Instant::now();
        for consumer in &consumers {
            bench.router.credit(*consumer, 0, 10, false, bench.now);
        }
        let time = begin.elapsed();
        assert_eq!(bench.take().len(), outcomes);
        time
    };
    let (few, many) = (shortest(|| time(10)), shortest(|| time(15_000)));
    assert!(many < few * 10 + Duration::from_millis(10), "{few:?}, {many:?}");
}

#[test]
fn twenty_replies_at_once_to_a_client_that_prefetches_ten() {
    let mut bench = share(100);
    let connection = bench.connect(250);
    let consumer = bench.consumer(connection, "reply", 10);
    let relay = bench.anonymous(connection);
    bench.take();
    for number in 0..20 {
        bench.send_to(relay, number, true, Some("reply"));
    }
    assert_eq!(bench.take().len(), 10);
    bench.router.credit(consumer, 10, 20, false, bench.now);
    assert_eq!(bench.take().len(), 10);
    assert_eq!(bench.router.totals().dropped_presettled, 0);
    bench.close_all(&[connection]);
}

#[test]
fn no_message_waits_behind_a_stuck_consumer() {
    let mut bench = share(100);
    let connection = bench.connect(250);
    let stuck = bench.consumer(connection, "q", 250);
    let sender = bench.sender(connection, "q");
    bench.flood(sender, false, 1_000);
    bench.take();
    let held = bench.sent.len();
    assert_eq!(held, 250);
    let fresh = bench.consumer(connection, "q", 50);
    bench.take();
    let (mut count, mut done) = (0, bench.sent.len());
    for _ in 0..100 {
        bench.flood(sender, false, 50);
        bench.take();
        for at in held..bench.sent.len() {
            assert_eq!(bench.sent[at].0, fresh);
            if at >= done {
                bench.accept(at);
                done = at + 1;
            }
        }
        count = (bench.sent.len() - held) as u32;
        bench.router.credit(fresh, count, count + 50, false, bench.now);
        bench.take();
    }
    assert!(count >= 4_500, "{count}");
    bench.end(stuck);
    let modified =
        bench.take().iter().filter(|out| matches!(out, Out::Told(_, Some(StateKind::Modified), true))).count();
    assert_eq!(modified, 250);
    bench.close_all(&[connection]);
}

#[test]
fn an_anonymous_sender_whose_message_waits_has_credit_for_other_addresses() {
    let memory = Arc::new(Memory::new(10 << 20, 10));
    let mut bench = Bench::new(RouterSettings { memory: memory.clone(), ..settings() });
    let connection = bench.connect(250);
    bench.consumer(connection, "closest/stuck", 0);
    let consumer = bench.consumer(connection, "closest/free", 10);
    memory.add(6 << 20);
    let sender = bench.anonymous(connection);
    bench.take();
    assert_eq!(bench.credit[&sender], 1, "memory is short");
    bench.send_to(sender, 0, false, Some("closest/stuck"));
    bench.take();
    assert_eq!(bench.credit[&sender], 1);
    memory.remove(6 << 20);
    bench.send_to(sender, 1, false, Some("closest/free"));
    assert_eq!(bench.take(), [sent(consumer, "body")]);
    assert_eq!(bench.credit[&sender], 249, "all but what waits");
    bench.close_all(&[connection]);
}

fn edges(bench: &mut Bench) -> Vec<(String, bool, u64)> {
    let mut all = Vec::new();
    bench.router.flush_edges(|address, edge| {
        all.push((address.to_string(), edge.increasing, edge.depth_messages));
        true
    });
    all
}

#[test]
fn a_backlog_raises_one_edge_each_way() {
    let mut watched = rule("watched", ringway::routing::Treatment::Balanced);
    watched.attributes = AddressAttributes { alert_count: Some(Marks { up: 10, down: 5 }), ..watched.attributes };
    let rules = AddressRules::new(vec![watched]).unwrap();
    let mut bench = Bench::new(RouterSettings { rules, ..settings() });
    let connection = bench.connect(250);
    let consumer = bench.consumer(connection, "watched", 3);
    let sender = bench.sender(connection, "watched");
    bench.flood(sender, false, 20);
    bench.take();
    assert_eq!(edges(&mut bench), [("watched".to_string(), true, 10)]);
    for at in 0..3 {
        bench.dispose(at, Some(State::ACCEPTED), true);
    }
    bench.take();
    assert_eq!(edges(&mut bench), []);
    // Its end ends all that waits: once below, that is said once.
    bench.end(consumer);
    bench.take();
    assert_eq!(edges(&mut bench), [("watched".to_string(), false, 5)]);
    bench.close_all(&[connection]);
}

/// Found: each drain looked at all senders that had unused credit, those that had been idle for long among them.
#[test]
fn a_drain_costs_the_same_beside_many_idle_senders() {
    let time = |senders: u32| {
        let mut credit = AddressCredit::new(CreditSettings::default());
        for _ in 0..senders {
            credit.sender_joined(250);
        }
        let consumer = credit.consumer_joined(250);
        credit.consumer_flow(consumer, 1, Time::ZERO);
        assert_eq!(std::iter::from_fn(|| credit.poll_grant()).count() as u32, senders);
        (1..5).for_each(|round| credit.tick(Time::from_millis(round * 1_000)));
        credit.check_invariants();
        shortest(|| {
            let begin = Instant::now();
            for _ in 0..1_000 {
                credit.consumer_drain(consumer, 1, Time::from_millis(5_000));
                assert_eq!(credit.poll_grant(), None);
                assert_eq!(credit.poll_drained(), Some(consumer));
            }
            begin.elapsed()
        })
    };
    let (few, many) = (time(10), time(40_000));
    assert!(many < few * 20 + Duration::from_millis(20), "{few:?}, {many:?}");
}

/// Found: each answer looked at all consumers whose drain wasn't answered yet.
#[test]
fn an_answer_to_a_drain_costs_the_same_beside_many_others() {
    let time = |consumers: u32| {
        let mut credit = AddressCredit::new(CreditSettings::default());
        let consumers: Vec<_> = (0..consumers).map(|_| credit.consumer_joined(250)).collect();
        shortest(|| {
            let begin = Instant::now();
            consumers.iter().for_each(|consumer| credit.consumer_drain(*consumer, 1, Time::ZERO));
            let answered = std::iter::from_fn(|| credit.poll_drained());
            assert!(answered.eq(consumers.iter().copied()));
            begin.elapsed()
        })
    };
    let (few, many) = (time(1_000), time(32_000));
    assert!(many < few * 32 * 10 + Duration::from_millis(20), "{few:?}, {many:?}");
}

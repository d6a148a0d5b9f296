//! Senders' credit under a small simulation: who gets through how much, and what the router holds.

mod model;
mod seeds;

use model::{Habit, Sim, Work, MICROSECOND, MILLISECOND, SECOND};
use ringway::routing::credit::CreditSettings;
use ringway::routing::FlowControl;

fn settings(slack_percent: u32) -> CreditSettings {
    CreditSettings { slack_percent, ..CreditSettings::default() }
}

fn eager(sim: &mut Sim, count: usize) -> Vec<usize> {
    (0..count).map(|_| sim.sender(Work::Eager, 250)).collect()
}

/// A paced sender that starts at a moment of its own.
fn paced(sim: &mut Sim, count: u64, every: u64) -> Vec<usize> {
    (0..count).map(|index| sim.sender(Work::Paced { every, from: every * index / count }, 250)).collect()
}

fn jain(values: &[u64]) -> f64 {
    let sum: f64 = values.iter().map(|&value| value as f64).sum();
    let squares: f64 = values.iter().map(|&value| (value * value) as f64).sum();
    sum * sum / (values.len() as f64 * squares)
}

#[test]
fn the_router_holds_no_more_than_windows_slack_and_one_a_sender() {
    for (slack, most) in [(0, 110), (100, 120)] {
        let mut sim = Sim::new(settings(slack), MILLISECOND);
        eager(&mut sim, 100);
        sim.run_for(100 * MILLISECOND);
        sim.consumer(Habit { stuck: true, ..Habit::prompt(10, 0) }, 250);
        sim.run_for(10 * SECOND);
        assert!(sim.in_router_max <= most && sim.in_router_max >= 100, "{} of {most}", sim.in_router_max);
        assert_eq!(sim.consumers[0].received, 10);
    }
}

#[test]
fn shares_follow_joins_and_leaves_without_taking_back() {
    let mut sim = Sim::new(settings(0), MILLISECOND);
    let mut senders = eager(&mut sim, 4);
    sim.consumer(Habit::prompt(240, MILLISECOND), 250);
    let near = |sim: &Sim, senders: &[usize], share: u32| {
        let windows: Vec<_> = senders.iter().map(|&sender| sim.window(sender)).collect();
        assert!(windows.iter().all(|&window| window.abs_diff(share) <= 1), "{windows:?}, not {share}");
    };
    sim.run_for(3 * SECOND);
    near(&sim, &senders, 60);
    senders.extend(eager(&mut sim, 1));
    sim.run_for(3 * SECOND);
    near(&sim, &senders, 48);
    for sender in senders.drain(..3) {
        sim.lose_sender(sender);
    }
    sim.run_for(3 * SECOND);
    near(&sim, &senders, 120);
    assert_eq!(sim.credit.share(), 120);
}

#[test]
fn the_first_flow_opens_each_sender_with_one() {
    let mut sim = Sim::new(settings(100), MILLISECOND);
    let senders = eager(&mut sim, 10);
    let consumer = sim.consumer(Habit { by_hand: true, ..Habit::prompt(1, 0) }, 250);
    sim.run_for(SECOND);
    assert_eq!(sim.granted, 0);
    sim.flow(consumer, 1, false);
    sim.run_for(MILLISECOND);
    assert!(senders.iter().all(|&sender| sim.window(sender) == 1));
}

#[test]
fn fifty_senders_on_a_window_of_ten_are_served_alike() {
    let mut sim = Sim::new(settings(100), MILLISECOND);
    let senders = eager(&mut sim, 50);
    sim.consumer(Habit::prompt(10, 0), 250);
    while sim.consumers[0].received < 100_000 {
        sim.run_for(SECOND);
    }
    let served: Vec<_> = senders.iter().map(|&sender| sim.senders[sender].served).collect();
    assert!(jain(&served) >= 0.99, "{}", jain(&served));
}

#[test]
fn a_stuck_consumer_starves_none_of_a_hundred_senders() {
    let mut sim = Sim::new(settings(100), MILLISECOND);
    let senders = eager(&mut sim, 100);
    sim.consumer(Habit { stuck: true, ..Habit::prompt(100, 0) }, 250);
    sim.consumer(Habit::prompt(10, MILLISECOND), 250);
    sim.run_for(2 * SECOND);
    let before: Vec<_> = senders.iter().map(|&sender| sim.senders[sender].served).collect();
    sim.run_for(5 * SECOND);
    let served: Vec<_> = senders.iter().zip(before).map(|(&one, before)| sim.senders[one].served - before).collect();
    assert!(served.iter().all(|&count| count >= 40), "{served:?}");
}

#[test]
fn settled_on_one_side_only_is_bounded_and_goes_on() {
    for (consumer_settled, sender_settled) in [(true, false), (false, true)] {
        let mut sim = Sim::new(settings(100), MILLISECOND);
        let senders = eager(&mut sim, 4);
        senders.iter().for_each(|&sender| sim.senders[sender].settled_mode = sender_settled);
        let habit = Habit { settled: consumer_settled, ..Habit::prompt(100, 20 * MICROSECOND) };
        let consumer = sim.consumer(habit, 250);
        sim.run_for(SECOND);
        // What it can handle in a second is 50 000, and its window lets through 100 each 2 ms and 20 µs at most.
        let received = sim.received_in(consumer, SECOND);
        assert!(received >= 45_000, "{received}");
        assert!(sim.in_router_max <= 204, "{}", sim.in_router_max);
    }
}

#[test]
fn one_that_settles_in_batches_gets_its_full_rate() {
    for senders in [1, 4] {
        let mut sim = Sim::new(settings(100), MILLISECOND);
        eager(&mut sim, senders);
        let consumer = sim.consumer(Habit { batch: 300, ..Habit::prompt(1000, 20 * MICROSECOND) }, 250);
        sim.run_for(2 * SECOND);
        let received = sim.received_in(consumer, 2 * SECOND);
        assert!(received >= 98_000, "{received} with {senders} senders");
    }
}

#[test]
fn beside_a_stuck_consumer_a_fresh_one_gets_its_full_rate() {
    for held in [250, 1000] {
        let mut sim = Sim::new(settings(100), MILLISECOND);
        eager(&mut sim, 4);
        sim.consumer(Habit { stuck: true, ..Habit::prompt(held, 0) }, 250);
        sim.run_for(2 * SECOND);
        let fresh = sim.consumer(Habit::prompt(100, 50 * MICROSECOND), 250);
        sim.run_for(SECOND);
        let received = sim.received_in(fresh, SECOND);
        assert!(received >= 19_500, "{received}");
    }
}

/// What a lone eager sender gets through in a second, with a consumer of this window.
fn alone(settings: CreditSettings, window: u32) -> u64 {
    let mut sim = Sim::new(settings, MILLISECOND);
    let busy = eager(&mut sim, 1)[0];
    sim.consumer(Habit::prompt(window, 0), 250);
    sim.run_for(2 * SECOND);
    sim.served_in(busy, SECOND)
}

#[test]
fn one_busy_among_a_thousand_idle() {
    let alone = alone(settings(100), 250);
    let mut sim = Sim::new(settings(100), MILLISECOND);
    let idle: Vec<_> = (0..1000).map(|_| sim.sender(Work::Some(0), 250)).collect();
    sim.consumer(Habit::prompt(250, 0), 250);
    sim.run_for(10 * MILLISECOND);
    let busy = eager(&mut sim, 1)[0];
    sim.run_for(2 * SECOND);
    let among = sim.served_in(busy, SECOND);
    println!("alone {alone}, among 1000 idle {among}");
    assert!(among as f64 >= 0.85 * alone as f64, "{among} of {alone}");

    // A hundred wake at once: each is served within a second.
    let woken = sim.now;
    for &sender in &idle[..100] {
        sim.stock(sender, 3);
    }
    sim.run_for(SECOND);
    let latest = idle[..100].iter().map(|&sender| sim.senders[sender].first_served_at).max().flatten();
    println!("woken served within {:?} ms", latest.map(|at| (at - woken) / MILLISECOND));
    assert!(idle[..100].iter().all(|&sender| sim.senders[sender].served == 3));
}

#[test]
fn one_busy_among_two_hundred_that_send_now_and_then() {
    let alone = alone(settings(100), 250);
    let mut sim = Sim::new(settings(100), MILLISECOND);
    let slow = paced(&mut sim, 200, SECOND);
    sim.consumer(Habit::prompt(250, 0), 250);
    let busy = eager(&mut sim, 1)[0];
    sim.run_for(2 * SECOND);
    let before: u64 = slow.iter().map(|&sender| sim.senders[sender].served).sum();
    let among = sim.served_in(busy, 3 * SECOND) / 3;
    let paced: u64 = slow.iter().map(|&sender| sim.senders[sender].served).sum::<u64>() - before;
    println!("alone {alone}, among 200 paced {among}");
    assert!(among as f64 >= 0.5 * alone as f64, "{among} of {alone}");
    assert!(paced >= 590, "{paced}");
}

#[test]
fn slack_costs_no_throughput() {
    let capacity = alone(CreditSettings { flow_control: FlowControl::Capacity, ..settings(100) }, 10);
    let share = alone(settings(100), 10);
    println!("by capacity {capacity}, by share {share}, strictest {}", alone(settings(0), 10));
    assert!(share as f64 >= 0.9 * capacity as f64, "{share} of {capacity}");
}

#[test]
fn a_killed_consumer_is_replaced_at_full_credit() {
    let mut sim = Sim::new(settings(100), MILLISECOND);
    let senders = eager(&mut sim, 4);
    for round in 0..100 {
        let consumer = sim.consumer(Habit::prompt(100, 50 * MICROSECOND), 250);
        sim.run_for(100 * MILLISECOND);
        let windows: u32 = senders.iter().map(|&sender| sim.window(sender)).sum();
        assert!(windows >= 190, "round {round}: {windows} of window 100 and slack 100");
        sim.lose_consumer(consumer, round % 40);
        sim.run_for(10 * MILLISECOND);
        // The senders were drained: nothing more comes, only to be released.
        assert!(senders.iter().all(|&sender| sim.unused(sender) == 0));
        assert_eq!(sim.unsettled, 0);
        sim.credit.check_invariants();
    }
}

#[test]
fn a_drain_poller_gets_each_message_once() {
    for many in [1, 20] {
        let mut sim = Sim::new(settings(100), MILLISECOND);
        let senders: Vec<_> = (0..many).map(|_| sim.sender(Work::Some(0), 250)).collect();
        let poller = sim.consumer(Habit { by_hand: true, ..Habit::prompt(1, 0) }, 250);
        let (mut polls, mut had) = (0, 0);
        let mut poll = |sim: &mut Sim| {
            let before = sim.consumers[poller].received;
            polls += 1;
            sim.flow(poller, 1, true);
            while sim.consumers[poller].drains_answered < polls {
                sim.run_for(MILLISECOND);
            }
            sim.consumers[poller].received - before
        };
        let mut random = 12_345u64;
        for round in 0..300u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let stock = random >> 33 & 3;
            sim.stock(senders[(round % many) as usize], stock);
            had += stock;
            let mut got = 0;
            let asked_at = sim.now;
            while poll(&mut sim) == 1 {
                got += 1;
            }
            had -= got;
            assert_eq!(had, 0, "round {round}");
            // Answered by the senders, not by running out of time.
            assert!(sim.now - asked_at < (got + 1) * 10 * MILLISECOND);
            // And a poll of nothing again finds nothing.
            assert_eq!(poll(&mut sim), 0);
        }
        sim.credit.check_invariants();
    }
}

#[test]
fn a_drain_beside_a_consumer_that_stays() {
    let mut sim = Sim::new(settings(100), MILLISECOND);
    let senders = eager(&mut sim, 3);
    let idle: Vec<_> = (0..3).map(|_| sim.sender(Work::Some(0), 250)).collect();
    sim.consumer(Habit::prompt(50, 100 * MICROSECOND), 250);
    let poller = sim.consumer(Habit { by_hand: true, ..Habit::prompt(1, 0) }, 250);
    for poll in 1..=100 {
        sim.flow(poller, 5, true);
        sim.run_for(60 * MILLISECOND);
        assert_eq!((sim.consumers[poller].drains_answered, sim.consumers[poller].received), (poll, 5 * poll));
    }
    assert!(senders.iter().all(|&sender| sim.senders[sender].served > 10_000));
    assert!(idle.iter().all(|&sender| sim.unused(sender) >= 1));
    sim.credit.check_invariants();
}

#[test]
fn faster_consumers_get_more_in_proportion() {
    let mut sim = Sim::new(settings(100), 100 * MICROSECOND);
    eager(&mut sim, 3);
    let consumers = [1, 2, 4].map(|each| sim.consumer(Habit::prompt(20, each * MILLISECOND), 250));
    while consumers.iter().map(|&one| sim.consumers[one].received).sum::<u64>() < 30_000 {
        sim.run_for(100 * MILLISECOND);
    }
    let received = consumers.map(|one| sim.consumers[one].received as f64);
    let all: f64 = received.iter().sum();
    for (part, expected) in received.iter().zip([4.0, 2.0, 1.0]) {
        assert!((part / all - expected / 7.0).abs() <= 0.05 * expected / 7.0, "{received:?}");
    }
}

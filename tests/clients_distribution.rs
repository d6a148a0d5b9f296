//! Distribution to three receivers: multicast, closest, balanced, and what a sender hears.

mod support;

use std::time::Duration;
use support::amqp::*;
use support::raw::{Link, Raw, Read1};
use support::router::{Router, DISTRIBUTIONS};

/// Receivers on connections of their own, each with `credit`.
fn consumers(router: &Router, address: &str, credits: &[u32]) -> Vec<(Raw, Link)> {
    let attach = |(number, credit): (usize, &u32)| {
        let mut raw = Raw::session(router, &format!("consumer-{number}"));
        let link = raw.attach_consumer(0, address, *credit);
        (raw, link)
    };
    credits.iter().enumerate().map(attach).collect()
}

fn producer(router: &Router, address: &str) -> (Raw, Link) {
    let mut raw = Raw::session(router, "producer");
    let link = raw.attach_sender(0, address);
    raw.wait_for_limit(&link, 1);
    (raw, link)
}

fn send(raw: &mut Raw, link: &Link, id: u32) {
    raw.wait_for_limit(link, id + 1);
    raw.send(&transfer_frame(0, id, &data_message(&id.to_be_bytes())));
}

/// Deliveries that have arrived, as (their frame, the number in their body).
fn arrived(raw: &mut Raw) -> Vec<(Frame, u32)> {
    let mut deliveries = Vec::new();
    while let Read1::Frame(frame) = raw.read(Duration::from_millis(20)) {
        let body = &frame.payload[frame.payload.len() - 4..];
        let number = u32::from_be_bytes(body.try_into().expect("four bytes"));
        deliveries.push((frame, number));
    }
    deliveries
}

#[test]
fn multicast_gives_each_receiver_each_message() {
    let router = Router::start(DISTRIBUTIONS);
    let mut receivers = consumers(&router, "multicast/all", &[100, 100, 100]);
    let (mut raw, link) = producer(&router, "multicast/all");
    for id in 0..50 {
        send(&mut raw, &link, id);
        for (consumer, _) in &mut receivers {
            let (first, payload) = consumer.receive_delivery();
            assert_eq!(payload, data_message(&id.to_be_bytes()));
            consumer.settle(&first, accepted());
        }
        raw.expect_outcomes(id, id, ACCEPTED);
    }
}

/// Rejected before accepted before modified before released, whoever says it first.
#[test]
fn multicast_waits_for_all_and_ranks_their_outcomes() {
    let router = Router::start(DISTRIBUTIONS);
    let mut receivers = consumers(&router, "multicast/ranks", &[100, 100, 100]);
    let (mut raw, link) = producer(&router, "multicast/ranks");
    let state = |code: u64| described(code, Vec::new());
    let cases = [
        ([ACCEPTED, REJECTED, RELEASED], REJECTED),
        ([RELEASED, ACCEPTED, MODIFIED], ACCEPTED),
        ([RELEASED, MODIFIED, RELEASED], MODIFIED),
        ([RELEASED, RELEASED, RELEASED], RELEASED),
    ];
    for (id, (answers, outcome)) in cases.into_iter().enumerate() {
        let id = id as u32;
        send(&mut raw, &link, id);
        for (number, ((consumer, _), answer)) in receivers.iter_mut().zip(answers).enumerate() {
            let (first, _) = consumer.receive_delivery();
            if number == 2 {
                raw.expect_silence(Duration::from_millis(30));
            }
            consumer.settle(&first, state(answer));
        }
        assert_eq!(raw.expect_outcome(id).code(), Some(outcome), "of {answers:x?}");
    }
}

/// A receiver that leaves owes no outcome any more.
#[test]
fn multicast_does_not_wait_for_a_receiver_that_left() {
    let router = Router::start(DISTRIBUTIONS);
    let mut receivers = consumers(&router, "multicast/leave", &[10, 10, 10]);
    let (mut raw, link) = producer(&router, "multicast/leave");
    send(&mut raw, &link, 0);
    for (consumer, _) in &mut receivers {
        let (first, _) = consumer.receive_delivery();
        consumer.settle(&first, accepted());
    }
    raw.expect_outcomes(0, 0, ACCEPTED);
    send(&mut raw, &link, 1);
    let (mut leaver, _) = receivers.pop().expect("three of them");
    leaver.receive_delivery();
    drop(leaver);
    for (consumer, _) in &mut receivers {
        let (first, _) = consumer.receive_delivery();
        consumer.settle(&first, accepted());
    }
    raw.expect_outcomes(1, 1, ACCEPTED);
}

/// In turn, to those that have credit.
#[test]
fn closest_goes_in_turn_to_receivers_with_credit() {
    let router = Router::start(DISTRIBUTIONS);
    let mut receivers = consumers(&router, "closest/turns", &[100, 0, 100]);
    let (mut raw, link) = producer(&router, "closest/turns");
    for id in 0..10 {
        send(&mut raw, &link, id);
    }
    let counts: Vec<usize> = receivers.iter_mut().map(|(consumer, _)| arrived(consumer).len()).collect();
    assert_eq!(counts, [5, 0, 5]);
    let (late, late_link) = &mut receivers[1];
    late.credit(late_link, 100);
    for id in 10..40 {
        send(&mut raw, &link, id);
    }
    let counts: Vec<usize> = receivers.iter_mut().map(|(consumer, _)| arrived(consumer).len()).collect();
    assert_eq!(counts, [10, 10, 10]);
}

/// An idle set is served evenly.
#[test]
fn balanced_is_even_when_all_settle() {
    let router = Router::start(DISTRIBUTIONS);
    let mut receivers = consumers(&router, "balanced/even", &[100, 100, 100]);
    let (mut raw, link) = producer(&router, "balanced/even");
    let mut counts = [0; 3];
    for id in 0..30 {
        send(&mut raw, &link, id);
        let mut found = false;
        while !found {
            for ((consumer, _), count) in receivers.iter_mut().zip(&mut counts) {
                if let Read1::Frame(frame) = consumer.read(Duration::from_millis(5)) {
                    consumer.settle(&frame, accepted());
                    *count += 1;
                    found = true;
                    break;
                }
            }
        }
        raw.expect_outcomes(id, id, ACCEPTED);
    }
    assert_eq!(counts, [10, 10, 10]);
}

/// Whoever has the fewest unsettled gets the next.
#[test]
fn balanced_prefers_the_least_loaded() {
    let router = Router::start(DISTRIBUTIONS);
    let mut receivers = consumers(&router, "balanced/load", &[100, 100, 100]);
    let (mut raw, link) = producer(&router, "balanced/load");
    for id in 0..30 {
        send(&mut raw, &link, id);
    }
    let first_round: Vec<Vec<(Frame, u32)>> = receivers.iter_mut().map(|(consumer, _)| arrived(consumer)).collect();
    assert!(first_round.iter().all(|deliveries| deliveries.len() == 10), "nobody settles, so all get as many");
    // The second settles all that it has; it must get the next ten, before the others get another.
    for (frame, _) in &first_round[1] {
        receivers[1].0.settle(frame, accepted());
    }
    let numbers: Vec<u32> = first_round[1].iter().map(|(_, number)| *number).collect();
    for number in numbers {
        let outcome = raw.expect(DISPOSITION);
        assert_eq!(outcome.field(disposition::STATE).code(), Some(ACCEPTED), "of {number}");
        if outcome.field(disposition::LAST).number().is_some_and(|last| last as u32 >= 27) {
            break;
        }
    }
    for id in 30..40 {
        send(&mut raw, &link, id);
    }
    let counts: Vec<usize> = receivers.iter_mut().map(|(consumer, _)| arrived(consumer).len()).collect();
    assert_eq!(counts, [0, 10, 0]);
}

/// With the credit of all used up, messages wait for whoever gives the next.
#[test]
fn a_message_without_room_waits_for_the_next_credit() {
    let router = Router::start(DISTRIBUTIONS);
    let mut receivers = consumers(&router, "balanced/wait", &[1, 1, 1]);
    let (mut raw, link) = producer(&router, "balanced/wait");
    for id in 0..4 {
        send(&mut raw, &link, id);
    }
    for (consumer, _) in &mut receivers {
        consumer.receive_delivery();
        consumer.expect_silence(Duration::from_millis(30));
    }
    let (last, last_link) = &mut receivers[2];
    last.credit(last_link, 1);
    assert_eq!(last.receive_delivery().1, data_message(&3u32.to_be_bytes()));
}

/// Order of one sender's messages at each receiver.
#[test]
fn order_is_kept_at_each_receiver() {
    for address in ["balanced/order", "closest/order", "multicast/order"] {
        let router = Router::start(DISTRIBUTIONS);
        let mut receivers = consumers(&router, address, &[1000, 1000, 1000]);
        let (mut raw, link) = producer(&router, address);
        for id in 0..200 {
            raw.wait_for_limit(&link, id + 1);
            raw.send(&transfer_frame(0, id, &data_message(&id.to_be_bytes())).with(transfer::SETTLED, true));
        }
        let mut total = 0;
        for (consumer, _) in &mut receivers {
            let numbers: Vec<u32> = arrived(consumer).into_iter().map(|(_, number)| number).collect();
            assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{address}: {numbers:?}");
            total += numbers.len();
        }
        assert_eq!(total, if address.starts_with("multicast") { 600 } else { 200 }, "{address}");
    }
}

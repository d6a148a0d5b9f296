//! Settlement through the router: every outcome, in each of the settle modes.

#[path = "routing_support/mod.rs"]
mod support;

use ringway::ids::{ConnectionId, LinkId};
use ringway::link::{Direction, ReceiverSettleMode, SenderSettleMode};
use ringway::outcome::{State, StateKind};
use std::sync::Arc;
use support::*;

fn pair() -> (Bench, ConnectionId, LinkId, LinkId) {
    let mut bench = Bench::default();
    let connection = bench.connect(10);
    let consumer = bench.consumer(connection, "q", 100);
    let sender = bench.sender(connection, "q");
    bench.take();
    (bench, connection, sender, consumer)
}

#[test]
fn a_message_passes_and_its_outcome_comes_back() {
    let (mut bench, connection, sender, consumer) = pair();
    bench.send(sender, 0, false, "a");
    assert_eq!(bench.take(), [sent(consumer, "a")]);
    bench.accept(0);
    assert_eq!(bench.take(), [told(0, StateKind::Accepted)]);
    assert_eq!(bench.router.totals().accepted, 1);
    bench.close_all(&[connection]);
}

#[test]
fn every_field_of_an_outcome_reaches_the_sender() {
    let (mut bench, _, sender, _) = pair();
    let rejected = State { kind: StateKind::Rejected, encoded: Some(Arc::new([1, 2, 3])) };
    let modified = State { kind: StateKind::Modified, encoded: Some(Arc::new([4, 5])) };
    for (number, state) in [(0, rejected), (1, modified), (2, State::RELEASED)] {
        bench.send(sender, number, false, "x");
        bench.take();
        bench.dispose(number as usize, Some(state.clone()), true);
        bench.take();
        assert_eq!(bench.states.last(), Some(&(number, Some(state))));
    }
    let totals = bench.router.totals();
    assert_eq!((totals.rejected, totals.modified, totals.released), (1, 1, 1));
}

#[test]
fn states_on_the_way_pass_and_end_nothing() {
    let (mut bench, _, sender, _) = pair();
    bench.send(sender, 0, false, "x");
    bench.take();
    let received = State { kind: StateKind::Received, encoded: Some(Arc::new([7])) };
    bench.dispose(0, Some(received), false);
    assert_eq!(bench.take(), [Out::Told(0, Some(StateKind::Received), false)]);
    let transactional = State { kind: StateKind::Other, encoded: Some(Arc::new([8])) };
    bench.dispose(0, Some(transactional), false);
    assert_eq!(bench.take(), [Out::Told(0, Some(StateKind::Other), false)]);
    bench.accept(0);
    assert_eq!(bench.take(), [told(0, StateKind::Accepted)]);
}

#[test]
fn an_unsettled_outcome_settles_both_sides_of_a_first_mode_sender() {
    let (mut bench, _, sender, _) = pair();
    bench.send(sender, 0, false, "x");
    bench.take();
    bench.dispose(0, Some(State::ACCEPTED), false);
    assert_eq!(bench.take(), [told(0, StateKind::Accepted), Out::ToldConsumer(0, Some(StateKind::Accepted), true)]);
    assert_eq!(bench.router.deliveries_len(), 0);
}

#[test]
fn in_three_steps_the_sender_settles_before_the_consumer() {
    let mut bench = Bench::default();
    let connection = bench.connect(10);
    let second = Modes(SenderSettleMode::Unsettled, ReceiverSettleMode::Second);
    bench.consumer_with(connection, "q", 100, second);
    let sender = bench.attach(connection, Direction::Incoming, &node("q"), second).unwrap();
    assert_eq!(sender.receiver_settle_mode, ReceiverSettleMode::Second);
    let delivery = bench.send(sender.link, 0, false, "x").unwrap();
    bench.take();
    bench.dispose(0, Some(State::ACCEPTED), false);
    assert_eq!(bench.take(), [Out::Told(0, Some(StateKind::Accepted), false)]);
    bench.router.sender_disposition(delivery, None, true, bench.now);
    assert_eq!(bench.take(), [Out::ToldConsumer(0, None, true)]);
    assert_eq!(bench.router.totals().accepted, 1);
    bench.close_all(&[connection]);
}

#[test]
fn a_settled_message_goes_out_settled_and_is_forgotten() {
    let (mut bench, _, sender, consumer) = pair();
    assert_eq!(bench.send(sender, 0, true, "x").map(|_| ()), Some(()));
    assert_eq!(bench.take(), [Out::Send(consumer, "x".into(), true, true)]);
    assert_eq!(bench.router.deliveries_len(), 0);
    assert_eq!(bench.router.totals().presettled, 1);
}

#[test]
fn a_consumer_that_wants_settled_ones_gets_them_and_the_sender_hears_accepted() {
    let mut bench = Bench::default();
    let connection = bench.connect(10);
    let modes = Modes(SenderSettleMode::Settled, ReceiverSettleMode::First);
    let consumer = bench.consumer_with(connection, "q", 100, modes);
    let sender = bench.sender(connection, "q");
    bench.take();
    bench.send(sender, 0, false, "x");
    assert_eq!(bench.take(), [Out::Send(consumer, "x".into(), true, true), told(0, StateKind::Accepted)]);
    assert_eq!(bench.router.deliveries_len(), 0);
}

#[test]
fn a_consumer_that_wants_unsettled_ones_settles_what_came_settled() {
    let mut bench = Bench::default();
    let connection = bench.connect(2);
    let modes = Modes(SenderSettleMode::Unsettled, ReceiverSettleMode::Second);
    let consumer = bench.consumer_with(connection, "q", 100, modes);
    let sender = bench.sender(connection, "q");
    bench.take();
    bench.quiet = false;
    bench.send(sender, 0, true, "x");
    let outs = bench.take();
    assert_eq!(outs[0], sent(consumer, "x"));
    // Sent on: its credit is back, though the consumer hasn't settled.
    assert!(outs.contains(&Out::Credit(sender, 1)));
    bench.dispose(0, Some(State::ACCEPTED), false);
    assert_eq!(bench.take(), [Out::ToldConsumer(0, None, true)]);
    assert_eq!(bench.router.deliveries_len(), 0);
}

#[test]
fn a_sender_may_settle_by_itself_at_any_time() {
    let (mut bench, _, sender, consumer) = pair();
    // Before the consumer said anything: it is told when it does.
    let first = bench.send(sender, 0, false, "a").unwrap();
    bench.take();
    bench.router.sender_disposition(first, None, true, bench.now);
    assert_eq!(bench.take(), []);
    bench.dispose(0, Some(State::ACCEPTED), false);
    assert_eq!(bench.take(), [Out::ToldConsumer(0, None, true)]);
    // While it waits: it goes out settled.
    bench.router.credit(consumer, 1, 1, false, bench.now);
    let second = bench.send(sender, 1, false, "b").unwrap();
    assert_eq!(bench.take(), []);
    bench.router.sender_disposition(second, None, true, bench.now);
    bench.router.credit(consumer, 1, 2, false, bench.now);
    assert_eq!(bench.take(), [Out::Send(consumer, "b".into(), true, true)]);
    assert_eq!(bench.router.deliveries_len(), 0);
}

#[test]
fn a_consumer_that_settles_without_a_state_ends_the_delivery() {
    let (mut bench, _, sender, _) = pair();
    bench.send(sender, 0, false, "x");
    bench.take();
    bench.dispose(0, None, true);
    assert_eq!(bench.take(), [Out::Told(0, None, true)]);
    assert_eq!(bench.router.deliveries_len(), 0);
}

#[test]
fn words_on_deliveries_that_are_gone_do_nothing() {
    let (mut bench, _, sender, _) = pair();
    let delivery = bench.send(sender, 0, false, "x").unwrap();
    bench.take();
    bench.accept(0);
    bench.take();
    bench.accept(0);
    bench.router.sender_disposition(delivery, None, true, bench.now);
    bench.more(delivery, "y", true);
    bench.router.delivery_aborted(delivery, bench.now);
    bench.router.payload_sent(delivery, 1, true, bench.now);
    assert_eq!(bench.take(), []);
}

#[test]
fn a_sender_that_settles_with_a_later_frame_settles_for_its_consumer() {
    let mut bench = Bench::default();
    let connection = bench.connect(10);
    let second = Modes(SenderSettleMode::Mixed, ReceiverSettleMode::Second);
    let consumer = bench.consumer(connection, "q", 10);
    let sender = bench.attach(connection, Direction::Incoming, &node("q"), second).unwrap().link;
    let stream = bench.begin(sender, 0, false, &"x".repeat(ringway::limits::STREAM_BYTES_MIN));
    bench.take();
    bench.dispose(0, Some(State::ACCEPTED), false);
    assert_eq!(bench.take(), [Out::Told(0, Some(StateKind::Accepted), false)]);
    bench.router.delivery_more(stream, Default::default(), true, true, bench.now);
    assert_eq!(bench.take(), [Out::More(consumer, String::new(), true), Out::ToldConsumer(0, None, true)]);
    bench.router.payload_sent(stream, 0, true, bench.now);
    bench.take();
    assert_eq!(bench.router.deliveries_len(), 0);
    bench.close_all(&[connection]);
}

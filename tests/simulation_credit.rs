//! Credit that follows the consumers, measured in virtual time: bounds, shares, fairness, throughput.

#![cfg(feature = "sim")]

use ringway::routing::FlowControl;
use ringway::sim::plan::TopUp;
use ringway::sim::scenario::{fairness, ReceiverId, ReceiverSpec, Scenario, SenderId, SenderSpec};
use std::time::Duration;

const ADDRESS: &str = "balanced/q";

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn with_slack(percent: u32) -> Scenario {
    Scenario::new(|settings| settings.router.credit_slack_percent = percent)
}

fn eager(scenario: &mut Scenario, count: usize) -> Vec<SenderId> {
    (0..count).map(|_| scenario.sender(SenderSpec::eager(ADDRESS))).collect()
}

fn idle(scenario: &mut Scenario, count: usize) -> Vec<SenderId> {
    (0..count).map(|_| scenario.sender(SenderSpec::idle(ADDRESS))).collect()
}

/// The most deliveries that the router held at any millisecond.
fn most_in_router(scenario: &mut Scenario, milliseconds: u64) -> usize {
    let mut most = 0;
    for _ in 0..milliseconds {
        scenario.run_for(ms(1));
        most = most.max(scenario.in_router());
    }
    most
}

/// Messages a second that a receiver gets, after a second to settle in.
fn rate(scenario: &mut Scenario, receiver: ReceiverId, seconds: u64) -> u64 {
    scenario.run_for(Duration::from_secs(1));
    let before = scenario.received(receiver);
    scenario.run_for(Duration::from_secs(seconds));
    (scenario.received(receiver) - before) / seconds
}

#[test]
fn what_the_router_holds_is_bounded_by_the_consumer() {
    for (slack, most, delay) in [(0, 110, 0), (100, 120, 0), (0, 110, 1), (100, 120, 1)] {
        let mut scenario = with_slack(slack);
        scenario.delay = ms(delay);
        eager(&mut scenario, 100);
        scenario.run_for(ms(100));
        assert_eq!(scenario.in_router(), 0, "no receiver, no credit");
        let receiver = scenario.receiver(ReceiverSpec { settles: false, ..ReceiverSpec::new(ADDRESS, 10) });
        let held = most_in_router(&mut scenario, 3000);
        assert_eq!(scenario.received(receiver), 10);
        assert!(held <= most, "slack {slack}, delay {delay} ms: {held} deliveries in the router");
    }
}

#[test]
fn senders_share_the_window_as_they_come_and_go() {
    let mut scenario = with_slack(0);
    let mut senders = eager(&mut scenario, 4);
    scenario.run_for(ms(100));
    scenario.receiver(ReceiverSpec::new(ADDRESS, 240).rate(1000));
    let near = |scenario: &Scenario, senders: &[SenderId], window: u32| {
        let windows: Vec<u32> = senders.iter().map(|sender| scenario.credit_window(*sender)).collect();
        let fits = windows.iter().all(|have| (window..=window + 1).contains(have));
        assert!(fits, "windows of {windows:?} instead of {window}");
    };
    scenario.run_for(ms(3000));
    near(&scenario, &senders, 60);
    senders.push(scenario.sender(SenderSpec::eager(ADDRESS)));
    scenario.run_for(ms(3000));
    near(&scenario, &senders, 48);
    for sender in senders.drain(..3) {
        scenario.leave_sender(sender);
    }
    scenario.run_for(ms(3000));
    // That no flow took credit back is the client's own check.
    near(&scenario, &senders, 120);
}

#[test]
fn the_first_credit_opens_every_sender_with_one() {
    for (count, each) in [(1, 2), (2, 1), (20, 1)] {
        let mut scenario = Scenario::new(|_| {});
        let senders = idle(&mut scenario, count);
        let receiver = scenario.receiver(ReceiverSpec::new(ADDRESS, 0));
        scenario.run_for(ms(1000));
        assert!(senders.iter().all(|sender| scenario.credit(*sender) == 0), "attached without credit");
        scenario.set_window(receiver, 1);
        scenario.run_for(ms(20));
        let credits: Vec<u32> = senders.iter().map(|sender| scenario.credit(*sender)).collect();
        assert_eq!(credits, vec![each; count]);
    }
}

#[test]
fn eager_senders_are_served_alike() {
    let mut scenario = Scenario::new(|_| {});
    scenario.delay = Duration::from_micros(100);
    let senders = eager(&mut scenario, 50);
    let receiver = scenario.receiver(ReceiverSpec::new(ADDRESS, 10));
    assert!(scenario.run_until(Duration::from_secs(600), |scenario| scenario.received(receiver) >= 100_000));
    let shares: Vec<u64> = senders.iter().map(|sender| scenario.outcomes(*sender, "accepted")).collect();
    assert!(fairness(&shares) >= 0.99, "{} of {shares:?}", fairness(&shares));
}

#[test]
fn a_stuck_consumer_starves_nobody() {
    let mut scenario = Scenario::new(|_| {});
    scenario.receiver(ReceiverSpec { settles: false, ..ReceiverSpec::new(ADDRESS, 100) });
    scenario.receiver(ReceiverSpec::new(ADDRESS, 10).rate(1000));
    let senders = eager(&mut scenario, 100);
    scenario.run_for(Duration::from_secs(5));
    let before: Vec<u64> = senders.iter().map(|sender| scenario.outcomes(*sender, "accepted")).collect();
    scenario.run_for(Duration::from_secs(5));
    let after = senders.iter().map(|sender| scenario.outcomes(*sender, "accepted"));
    let shares: Vec<u64> = after.zip(&before).map(|(after, before)| after - before).collect();
    let served: u64 = shares.iter().sum();
    assert!(served >= 4900, "{served} messages in five seconds");
    assert!(shares.iter().all(|share| *share >= 25), "{shares:?}");
}

#[test]
fn a_settled_flood_arrives_whole() {
    let count = 100_000;
    let mut scenario = Scenario::new(|_| {});
    scenario.delay = Duration::from_micros(50);
    let receiver = scenario.receiver(ReceiverSpec::new(ADDRESS, 250));
    scenario.run_for(ms(10));
    let sender = scenario.sender(SenderSpec { settled: true, messages: Some(count), ..SenderSpec::eager(ADDRESS) });
    scenario.run_until(Duration::from_secs(120), |scenario| scenario.received(receiver) == count);
    assert_eq!((scenario.sent(sender), scenario.received(receiver)), (count, count));
}

#[test]
fn settled_and_unsettled_ends_meet_within_bounds() {
    for (sender_settled, receiver_settled) in [(false, true), (true, false)] {
        let mut scenario = Scenario::new(|_| {});
        scenario.delay = ms(1);
        let spec = ReceiverSpec { settled_mode: receiver_settled, ..ReceiverSpec::new(ADDRESS, 50) };
        let receiver = scenario.receiver(spec.rate(1000));
        for _ in 0..4 {
            scenario.sender(SenderSpec { settled: sender_settled, ..SenderSpec::eager(ADDRESS) });
        }
        let rate = rate(&mut scenario, receiver, 5);
        assert!(rate >= 950, "{rate} a second of 1000");
        let held = most_in_router(&mut scenario, 1000);
        assert!(held <= 50 + 50 + 4 + 50, "{held} deliveries in the router");
    }
}

#[test]
fn a_consumer_that_settles_in_batches_has_its_full_rate() {
    let alone = |settle_batch| {
        let mut scenario = Scenario::new(|_| {});
        scenario.delay = ms(1);
        eager(&mut scenario, 4);
        let spec = ReceiverSpec { settle_batch, top_up: TopUp::Half, ..ReceiverSpec::new(ADDRESS, 1000) };
        let receiver = scenario.receiver(spec.rate(20_000));
        rate(&mut scenario, receiver, 4)
    };
    let rate = alone(300);
    assert!(rate >= 19_000, "{rate} a second of 20 000");
}

#[test]
fn a_stuck_consumer_leaves_a_fresh_one_its_full_rate() {
    let mut scenario = Scenario::new(|_| {});
    scenario.delay = ms(1);
    let stuck = scenario.receiver(ReceiverSpec { settles: false, ..ReceiverSpec::new(ADDRESS, 250) });
    eager(&mut scenario, 4);
    scenario.run_for(ms(2000));
    assert_eq!(scenario.received(stuck), 250);
    let fresh = scenario.receiver(ReceiverSpec::new(ADDRESS, 250).rate(10_000));
    let rate = rate(&mut scenario, fresh, 4);
    assert!(rate >= 9500, "{rate} a second of 10 000");
}

#[test]
fn a_consumer_killed_and_replaced_has_full_credit_at_once() {
    let mut scenario = Scenario::new(|_| {});
    scenario.delay = ms(1);
    let senders = eager(&mut scenario, 4);
    for round in 0..100 {
        let receiver = scenario.receiver(ReceiverSpec { settles: false, ..ReceiverSpec::new(ADDRESS, 100) });
        assert!(scenario.run_until(ms(1000), |scenario| scenario.first_credit_at(receiver).is_some()));
        let full = scenario.run_until(ms(100), |scenario| scenario.received(receiver) == 100);
        assert!(full, "round {round}: {} messages of 100", scenario.received(receiver));
        scenario.settle_again(receiver);
        scenario.run_for(ms(7));
        scenario.kill(receiver);
        scenario.run_for(ms(round % 5));
    }
    for sender in &senders {
        scenario.rest(*sender);
    }
    scenario.run_for(ms(1000));
    for sender in senders {
        assert_eq!(scenario.in_flight(sender), 0, "deliveries without an outcome");
        assert_eq!(scenario.outcomes_in_all(sender), scenario.sent(sender));
    }
    assert_eq!(scenario.in_router(), 0);
}

#[test]
fn multicast_sets_a_silent_receiver_aside() {
    let address = "multicast/q";
    let mut scenario = Scenario::new(|settings| settings.router.multicast_stall = Duration::from_secs(2));
    scenario.delay = ms(1);
    let silent = scenario.receiver(ReceiverSpec { settles: false, ..ReceiverSpec::new(address, 10) });
    let others = [(); 2].map(|()| scenario.receiver(ReceiverSpec::new(address, 50).rate(1000)));
    scenario.run_for(ms(10));
    let sender = scenario.sender(SenderSpec::eager(address));
    scenario.run_for(ms(1500));
    let before = others.map(|receiver| scenario.received(receiver));
    assert!(before.iter().all(|received| *received < 500), "before it is set aside, it holds the others: {before:?}");
    scenario.run_for(ms(2500));
    let before = others.map(|receiver| scenario.received(receiver));
    scenario.run_for(ms(2000));
    for (receiver, before) in others.iter().zip(before) {
        let received = scenario.received(*receiver) - before;
        assert!(received >= 1800, "{received} in two seconds of a thousand a second");
    }
    assert_eq!(scenario.received(silent), 10);
    // Its next credit brings it back.
    scenario.settle_again(silent);
    scenario.run_for(ms(1000));
    assert!(scenario.received(silent) > 500, "{} messages", scenario.received(silent));
    assert!(scenario.outcomes(sender, "accepted") > 3000);
}

#[test]
fn unsettled_multicast_reaches_every_slow_receiver() {
    let address = "multicast/q";
    let mut scenario = Scenario::new(|_| {});
    scenario.delay = ms(1);
    let receivers = [200, 300, 500].map(|rate| scenario.receiver(ReceiverSpec::new(address, 10).rate(rate)));
    scenario.run_for(ms(10));
    let sender = scenario.sender(SenderSpec { messages: Some(2000), ..SenderSpec::eager(address) });
    scenario.run_until(Duration::from_secs(30), |scenario| scenario.outcomes_in_all(sender) == 2000);
    assert_eq!(scenario.outcomes(sender, "accepted"), 2000);
    assert_eq!(receivers.map(|receiver| scenario.received(receiver)), [2000; 3]);
    assert_eq!((scenario.arrived_fewer_than(3), scenario.arrived_more_than(3)), (0, 0));
}

#[test]
fn a_drain_poller_gets_each_message_once() {
    let mut scenario = Scenario::new(|_| {});
    scenario.delay = ms(1);
    let senders: Vec<SenderId> = (0..3).map(|n| scenario.sender(SenderSpec::paced(ADDRESS, ms(20 + n * 7)))).collect();
    let poller = scenario.receiver(ReceiverSpec { polls: true, ..ReceiverSpec::new(ADDRESS, 1) });
    scenario.run_for(Duration::from_secs(10));
    for sender in &senders {
        scenario.rest(*sender);
    }
    scenario.run_for(Duration::from_secs(5));
    let sent: u64 = senders.iter().map(|sender| scenario.sent(*sender)).sum();
    assert!(sent > 900, "{sent} messages were sent");
    assert_eq!(scenario.received(poller), sent);
    assert_eq!((scenario.missing(), scenario.arrived_more_than(1)), (0, 0));
    assert!(scenario.drained(poller) > 10, "{} empty polls", scenario.drained(poller));
}

#[test]
fn settled_replies_at_once_all_arrive() {
    let mut scenario = Scenario::new(|_| {});
    scenario.delay = ms(1);
    let receiver = scenario.receiver(ReceiverSpec::new("plain/reply", 10).rate(1000));
    scenario.run_for(ms(10));
    let replies = SenderSpec { settled: true, anonymous: true, messages: Some(20), ..SenderSpec::eager("plain/reply") };
    scenario.sender(replies);
    scenario.run_for(ms(1000));
    assert_eq!(scenario.received(receiver), 20);
}

/// What one eager sender alone gets through in a second.
fn alone() -> u64 {
    let mut scenario = Scenario::new(|_| {});
    scenario.delay = ms(1);
    let receiver = scenario.receiver(ReceiverSpec::new(ADDRESS, 250));
    eager(&mut scenario, 1);
    scenario.run_for(ms(1000));
    rate(&mut scenario, receiver, 2)
}

#[test]
fn a_busy_sender_among_idle_ones_has_most_of_its_throughput() {
    let mut scenario = Scenario::new(|_| {});
    scenario.delay = ms(1);
    let others = idle(&mut scenario, 1000);
    let receiver = scenario.receiver(ReceiverSpec::new(ADDRESS, 250));
    scenario.run_for(ms(100));
    let busy = eager(&mut scenario, 1)[0];
    scenario.run_for(ms(1000));
    let (rate, alone) = (rate(&mut scenario, receiver, 2), alone());
    assert!(rate * 100 >= alone * 85, "{rate} a second, {alone} alone");

    // A hundred of the idle ones wake at once.
    scenario.take_latencies();
    let sent = scenario.sent(busy);
    for sender in &others[..100] {
        scenario.add_messages(*sender, 5);
    }
    scenario.run_for(ms(1000));
    for sender in &others[..100] {
        assert!(scenario.outcomes_in_all(*sender) >= 1, "not served within a second");
    }
    scenario.run_for(ms(4000));
    for sender in &others[..100] {
        assert_eq!(scenario.outcomes(*sender, "accepted"), 5);
    }
    assert!(scenario.sent(busy) > sent);
}

#[test]
fn a_busy_sender_among_occasional_ones_has_half_of_its_throughput() {
    let mut scenario = Scenario::new(|_| {});
    scenario.delay = ms(1);
    let receiver = scenario.receiver(ReceiverSpec::new(ADDRESS, 250));
    for number in 0..200 {
        scenario.sender(SenderSpec::paced(ADDRESS, ms(1000)));
        // Not all in the same millisecond.
        if number % 10 == 0 {
            scenario.run_for(ms(47));
        }
    }
    let busy = eager(&mut scenario, 1)[0];
    scenario.run_for(ms(2000));
    let before = scenario.outcomes_in_all(busy);
    scenario.run_for(ms(3000));
    let (rate, alone) = ((scenario.outcomes_in_all(busy) - before) / 3, alone());
    assert!(rate * 100 >= alone * 50, "{rate} a second, {alone} alone");
    assert!(scenario.received(receiver) > 0);
}

#[test]
fn default_slack_costs_no_throughput() {
    let measured = |flow_control| {
        let mut scenario = Scenario::new(|settings| settings.router.flow_control = flow_control);
        scenario.delay = ms(1);
        let receiver = scenario.receiver(ReceiverSpec::new(ADDRESS, 10));
        eager(&mut scenario, 1);
        rate(&mut scenario, receiver, 4)
    };
    let (share, capacity) = (measured(FlowControl::Share), measured(FlowControl::Capacity));
    assert!(share * 100 >= capacity * 90, "{share} a second by share, {capacity} by capacity");
}

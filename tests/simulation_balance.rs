//! Balancing by what each consumer has outstanding, measured in virtual time.

#![cfg(feature = "sim")]

use ringway::sim::scenario::{ReceiverId, ReceiverSpec, Scenario, SenderSpec};
use std::time::Duration;

const ADDRESS: &str = "balanced/q";

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn receiver(scenario: &mut Scenario, window: u32, service: Duration) -> ReceiverId {
    scenario.receiver(ReceiverSpec { service, ..ReceiverSpec::new(ADDRESS, window) })
}

#[test]
fn faster_consumers_get_more_in_proportion() {
    for delay in [Duration::ZERO, Duration::from_micros(100)] {
        let mut scenario = Scenario::new(|_| {});
        scenario.delay = delay;
        let receivers = [1, 2, 4].map(|service| receiver(&mut scenario, 100, ms(service)));
        for _ in 0..4 {
            scenario.sender(SenderSpec::eager(ADDRESS));
        }
        let served = |scenario: &Scenario| receivers.map(|receiver| scenario.served(receiver));
        scenario.run_until(Duration::from_secs(60), |scenario| served(scenario).iter().sum::<u64>() >= 30_000);
        let shares = served(&scenario);
        let total: u64 = shares.iter().sum();
        assert!(total >= 30_000, "{shares:?}");
        for (share, weight) in shares.iter().zip([4, 2, 1]) {
            let fair = total * weight / 7;
            assert!(share.abs_diff(fair) * 100 <= fair * 5, "{shares:?}, delay {delay:?}");
        }
    }
}

#[test]
fn idle_consumers_are_served_evenly() {
    let mut scenario = Scenario::new(|_| {});
    let receivers = [(); 4].map(|()| receiver(&mut scenario, 100, Duration::ZERO));
    scenario.run_for(ms(10));
    scenario.sender(SenderSpec { messages: Some(1001), ..SenderSpec::paced(ADDRESS, ms(2)) });
    scenario.run_for(ms(3000));
    let counts = receivers.map(|receiver| scenario.received(receiver));
    assert_eq!(counts.iter().sum::<u64>(), 1001);
    assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1, "{counts:?}");
}

#[test]
fn a_consumer_that_stops_settling_holds_its_credit_and_no_more() {
    let mut scenario = Scenario::new(|_| {});
    scenario.delay = Duration::from_micros(100);
    let stuck = scenario.receiver(ReceiverSpec { settles: false, ..ReceiverSpec::new(ADDRESS, 50) });
    let others = [(); 2].map(|()| receiver(&mut scenario, 50, ms(1)));
    let sender = scenario.sender(SenderSpec { messages: Some(5000), ..SenderSpec::eager(ADDRESS) });
    scenario.run_until(Duration::from_secs(20), |scenario| scenario.outcomes_in_all(sender) == 4950);
    assert_eq!(scenario.received(stuck), 50);
    assert_eq!(others.map(|receiver| scenario.received(receiver)).iter().sum::<u64>(), 4950, "none waits behind it");

    // Back, it takes part.
    scenario.settle_again(stuck);
    scenario.add_messages(sender, 3000);
    scenario.run_for(Duration::from_secs(5));
    assert_eq!(scenario.outcomes(sender, "accepted"), 8000);
    assert!(scenario.received(stuck) > 500, "{}", scenario.received(stuck));

    // Killed with fifty of them.
    let fresh = scenario.receiver(ReceiverSpec { settles: false, ..ReceiverSpec::new(ADDRESS, 50) });
    scenario.add_messages(sender, 3000);
    scenario.run_until(Duration::from_secs(1), |scenario| scenario.received(fresh) == 50);
    scenario.run_for(ms(1));
    scenario.kill(fresh);
    scenario.run_for(Duration::from_secs(10));
    assert_eq!(scenario.in_flight(sender), 0);
    let (accepted, modified) = (scenario.outcomes(sender, "accepted"), scenario.outcomes(sender, "modified"));
    let released = scenario.outcomes(sender, "released");
    assert_eq!((accepted + modified + released, modified), (11_000, 50), "released: {released}");
    assert_eq!(scenario.arrived_more_than(1), 0);
}

#[test]
fn without_room_messages_wait_for_the_first_that_has_it() {
    let mut scenario = Scenario::new(|_| {});
    scenario.delay = Duration::from_micros(100);
    let slow = scenario.receiver(ReceiverSpec { settles: false, ..ReceiverSpec::new(ADDRESS, 5) });
    let sender = scenario.sender(SenderSpec::eager(ADDRESS));
    scenario.run_for(ms(1000));
    assert_eq!(scenario.received(slow), 5);
    let waiting = scenario.in_router() - 5;
    assert!(waiting > 0 && scenario.outcomes_in_all(sender) == 0, "they wait, none is refused");
    let second = scenario.receiver(ReceiverSpec { settles: false, ..ReceiverSpec::new(ADDRESS, 3) });
    scenario.run_for(ms(100));
    assert_eq!((scenario.received(slow), scenario.received(second)), (5, 3));
    scenario.settle_again(slow);
    scenario.run_for(ms(100));
    assert!(scenario.received(slow) > 50);
    assert_eq!(scenario.outcomes(sender, "released") + scenario.outcomes(sender, "rejected"), 0);
}

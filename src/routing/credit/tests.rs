//! The rule by hand: single inputs and what they grant.

use super::*;

fn credit(slack_percent: u32) -> AddressCredit {
    AddressCredit::new(CreditSettings { slack_percent, ..CreditSettings::default() })
}

fn at(milliseconds: u64) -> Time {
    Time::from_millis(milliseconds)
}

fn grants(credit: &mut AddressCredit) -> Vec<(u32, u32)> {
    let all = std::iter::from_fn(|| credit.poll_grant()).map(|grant| (grant.sender.0, grant.add)).collect();
    credit.check_invariants();
    all
}

fn total(grants: &[(u32, u32)], sender: SenderSlot) -> u32 {
    grants.iter().filter(|(slot, _)| *slot == sender.0).map(|(_, add)| add).sum()
}

#[test]
fn a_consumer_without_credit_opens_nobody() {
    let mut credit = credit(100);
    let senders: Vec<_> = (0..10).map(|_| credit.sender_joined(250)).collect();
    let consumer = credit.consumer_joined(250);
    assert_eq!(grants(&mut credit), []);
    credit.consumer_flow(consumer, 1, at(0));
    let got = grants(&mut credit);
    for &sender in &senders {
        assert_eq!(total(&got, sender), 1);
    }
}

#[test]
fn the_first_credit_of_one_opens_a_lone_sender_with_two() {
    let mut credit = credit(100);
    let sender = credit.sender_joined(250);
    let consumer = credit.consumer_joined(250);
    credit.consumer_flow(consumer, 1, at(0));
    assert_eq!(grants(&mut credit), [(sender.0, 2)]);
}

#[test]
fn the_capacity_rule_gives_all_and_replenishes_what_settles() {
    let mut credit =
        AddressCredit::new(CreditSettings { flow_control: FlowControl::Capacity, ..CreditSettings::default() });
    let sender = credit.sender_joined(250);
    let consumer = credit.consumer_joined(250);
    assert_eq!(grants(&mut credit), []);
    credit.consumer_flow(consumer, 10, at(0));
    assert_eq!(grants(&mut credit), [(sender.0, 250)]);
    credit.arrived(sender, at(1));
    credit.assigned(sender);
    credit.consumer_assigned(consumer);
    assert_eq!(grants(&mut credit), []);
    credit.settled(sender);
    credit.consumer_settled(consumer);
    assert_eq!(grants(&mut credit), [(sender.0, 1)]);
}

#[test]
fn spare_credit_is_no_burden_to_others() {
    let mut credit = credit(0);
    let idle: Vec<_> = (0..100).map(|_| credit.sender_joined(250)).collect();
    let busy = credit.sender_joined(250);
    let consumer = credit.consumer_joined(250);
    credit.consumer_flow(consumer, 50, at(0));
    assert_eq!(grants(&mut credit).len(), 101);
    assert!(credit.budget() < 0);
    credit.arrived(busy, at(1));
    credit.assigned(busy);
    credit.consumer_assigned(consumer);
    assert_eq!(total(&grants(&mut credit), busy), 1);
    credit.tick(at(250));
    assert_eq!(credit.idle_in_links(), 100);
    assert!(total(&grants(&mut credit), busy) > 0);
    assert!(idle.iter().all(|&sender| credit.unused(sender) == 1));
}

#[test]
fn the_last_consumer_leaving_drains_the_senders() {
    let mut credit = credit(100);
    let sender = credit.sender_joined(250);
    let other = credit.sender_joined(250);
    let consumer = credit.consumer_joined(250);
    credit.consumer_flow(consumer, 4, at(0));
    grants(&mut credit);
    credit.consumer_left(consumer);
    assert_eq!(credit.poll_grant(), Some(Grant { sender, add: 0, drain: true }));
    assert_eq!(credit.poll_grant(), Some(Grant { sender: other, add: 0, drain: true }));
    assert_eq!(credit.poll_grant(), None);
    for sender in [sender, other] {
        credit.returned(sender, credit.unused(sender));
    }
    assert_eq!(grants(&mut credit), []);
    // A new one opens them again.
    let consumer = credit.consumer_joined(250);
    credit.consumer_flow(consumer, 1, at(10));
    assert_eq!(grants(&mut credit).len(), 2);
}

#[test]
fn a_drain_asks_senders_and_is_answered_exactly() {
    let mut credit = credit(100);
    let senders = [credit.sender_joined(250), credit.sender_joined(250)];
    let consumer = credit.consumer_joined(250);
    credit.consumer_drain(consumer, 1, at(0));
    let asked: Vec<_> = std::iter::from_fn(|| credit.poll_grant()).collect();
    assert_eq!(asked, senders.map(|sender| Grant { sender, add: 1, drain: true }));
    assert_eq!(credit.poll_drained(), None);
    credit.returned(senders[0], 1);
    assert_eq!(credit.poll_grant(), None);
    assert_eq!(credit.poll_drained(), None);
    credit.returned(senders[1], 1);
    assert_eq!(credit.poll_grant(), None);
    assert_eq!(credit.poll_drained(), Some(consumer));
    assert_eq!(credit.consumer_room(consumer), 0);
    assert_eq!(credit.poll_drained(), None);
    // Again, and now one has something.
    credit.consumer_drain(consumer, 1, at(1));
    let asked: Vec<_> = std::iter::from_fn(|| credit.poll_grant()).collect();
    assert_eq!(asked.len(), 2);
    credit.arrived(senders[1], at(2));
    credit.assigned(senders[1]);
    credit.consumer_assigned(consumer);
    assert_eq!(credit.poll_drained(), Some(consumer));
    credit.check_invariants();
}

#[test]
fn a_drain_is_answered_after_a_bounded_wait() {
    let mut credit = credit(100);
    let sender = credit.sender_joined(250);
    let consumer = credit.consumer_joined(250);
    credit.consumer_drain(consumer, 1, at(0));
    assert_eq!(credit.poll_grant(), Some(Grant { sender, add: 2, drain: true }));
    assert_eq!(credit.poll_timeout(), Some(at(50)));
    credit.tick(at(49));
    assert_eq!(credit.poll_drained(), None);
    credit.tick(at(50));
    assert_eq!(credit.poll_drained(), Some(consumer));
    assert_eq!(grants(&mut credit), []);
}

#[test]
fn multicast_goes_by_the_slowest_and_sets_a_stuck_one_aside() {
    let mut credit =
        AddressCredit::new(CreditSettings { multicast: true, slack_percent: 0, ..CreditSettings::default() });
    let sender = credit.sender_joined(250);
    let (slow, fast) = (credit.consumer_joined(250), credit.consumer_joined(250));
    credit.consumer_flow(slow, 1, at(0));
    credit.consumer_flow(fast, 100, at(0));
    assert_eq!(grants(&mut credit), [(sender.0, 1)]);
    credit.arrived(sender, at(1));
    for consumer in [slow, fast] {
        credit.consumer_assigned(consumer);
    }
    credit.assigned(sender);
    // The slow one has no room: one more, that waits for it.
    assert_eq!(grants(&mut credit), [(sender.0, 1)]);
    credit.arrived(sender, at(2));
    credit.consumer_assigned(fast);
    assert_eq!(credit.budget(), -1);
    assert_eq!(grants(&mut credit), []);
    assert_eq!(credit.poll_timeout(), Some(at(250)));
    credit.tick(at(2001));
    assert_eq!(credit.poll_set_aside(), None);
    credit.tick(at(2002));
    assert_eq!(credit.poll_set_aside(), Some(slow));
    assert_eq!(credit.set_aside_count(), 1);
    assert!(!credit.is_active(slow));
    credit.assigned(sender);
    assert!(total(&grants(&mut credit), sender) > 1);
    // Its next credit brings it back, from here on.
    credit.consumer_flow(slow, 5, at(3000));
    assert!(credit.is_active(slow));
    credit.check_invariants();
}

#[test]
fn all_is_zero_when_all_are_gone() {
    let mut credit = credit(100);
    let sender = credit.sender_joined(250);
    let consumer = credit.consumer_joined(250);
    credit.consumer_flow(consumer, 2, at(0));
    grants(&mut credit);
    for _ in 0..3 {
        credit.arrived(sender, at(1));
    }
    for _ in 0..2 {
        credit.assigned(sender);
        credit.consumer_assigned(consumer);
    }
    credit.sender_left(sender);
    credit.check_invariants();
    credit.consumer_left(consumer);
    credit.check_invariants();
    for _ in 0..2 {
        credit.settled(sender);
        credit.consumer_settled(consumer);
    }
    assert!(!credit.is_empty());
    credit.abandoned(sender);
    assert!(credit.is_empty());
    assert_eq!((credit.waiting(), credit.share(), credit.budget()), (0, 0, 0));
    credit.check_invariants();
}

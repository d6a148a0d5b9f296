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
    assert_eq!(credit.stalled(), None);
    credit.tick(at(2002));
    assert_eq!(credit.stalled(), Some(slow));
    credit.set_aside(slow);
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

/// A multicast consumer as anybody would write it down.
#[derive(Clone, Default)]
struct Copying {
    slot: u32,
    credit: u32,
    blocked: bool,
    waiting: u32,
    unsettled: u32,
    active: bool,
}

impl Copying {
    fn room(&self) -> u32 {
        if self.blocked {
            0
        } else {
            self.credit
        }
    }

    /// `uncopied`: messages that came, of which it gets copies when they are made.
    fn activate(&mut self, uncopied: u32) {
        if !self.active && self.room() > 0 {
            self.active = true;
            self.waiting = uncopied;
        }
    }
}

#[test]
fn multicast_agrees_with_a_model_that_scans() {
    for seed in 1..=50u64 {
        let mut state = seed << 32 | 0x9e37_79b9;
        let mut random = move |bound: u32| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            ((state >> 32) * u64::from(bound) >> 32) as u32
        };
        let mut credit =
            AddressCredit::new(CreditSettings { multicast: true, slack_percent: 0, ..CreditSettings::default() });
        let (mut model, mut uncopied): (Vec<Copying>, u32) = (Vec::new(), 0);
        for step in 0..2_000u64 {
            let now = at(step);
            let index = random(8) as usize;
            if model.len() <= index {
                model.push(Copying { slot: credit.consumer_joined(250).0, ..Copying::default() });
                continue;
            }
            let one = &mut model[index];
            let slot = ConsumerSlot(one.slot);
            match random(9) {
                0 | 1 => {
                    credit.arrived(SenderSlot::ANONYMOUS, now);
                    credit.abandoned(SenderSlot::ANONYMOUS);
                    model.iter_mut().filter(|one| one.active).for_each(|one| one.waiting += 1);
                    uncopied += 1;
                    // Now and then copies are made later.
                    while uncopied > 0 && random(3) > 0 {
                        credit.copied();
                        uncopied -= 1;
                    }
                }
                2 | 3 if one.active && one.waiting > 0 && one.room() > 0 => {
                    credit.consumer_assigned(slot);
                    (one.credit, one.waiting, one.unsettled) = (one.credit - 1, one.waiting - 1, one.unsettled + 1);
                }
                4 if one.active && one.waiting > 0 => {
                    credit.consumer_missed(slot);
                    one.waiting -= 1;
                }
                5 if one.unsettled > 0 => {
                    credit.consumer_settled(slot);
                    one.unsettled -= 1;
                }
                6 => {
                    one.credit = random(30);
                    credit.consumer_flow(slot, one.credit, now);
                    one.activate(uncopied);
                }
                7 => {
                    one.blocked = random(2) == 0;
                    if one.blocked {
                        credit.consumer_blocked(slot);
                    } else {
                        credit.consumer_unblocked(slot);
                    }
                    one.activate(uncopied);
                }
                8 if random(4) == 0 => {
                    credit.consumer_left(slot);
                    for _ in 0..one.unsettled {
                        credit.consumer_settled(slot);
                    }
                    model.swap_remove(index);
                }
                _ => credit.tick(now),
            }
            while let Some(slot) = credit.stalled() {
                credit.set_aside(slot);
                let one = model.iter_mut().find(|one| one.slot == slot.0).unwrap();
                assert!(one.active && one.waiting > 0 && one.room() == 0);
                (one.active, one.waiting) = (false, 0);
            }
            credit.check_invariants();
            let active = model.iter().filter(|one| one.active);
            let least = active.map(|one| i64::from(one.room()) - i64::from(one.waiting)).min().unwrap_or(0);
            assert_eq!(credit.budget(), least, "seed {seed}, step {step}");
            for one in &model {
                assert_eq!(credit.is_active(ConsumerSlot(one.slot)), one.active);
            }
        }
        model.iter().for_each(|one| {
            credit.consumer_left(ConsumerSlot(one.slot));
            (0..one.unsettled).for_each(|_| credit.consumer_settled(ConsumerSlot(one.slot)));
        });
        assert!(credit.is_empty());
    }
}

/// What has come is over: the next moment lies ahead, or whoever sleeps until it never sleeps.
#[test]
fn the_next_moment_lies_ahead_under_either_rule() {
    for flow_control in [FlowControl::Share, FlowControl::Capacity] {
        let mut credit = AddressCredit::new(CreditSettings { flow_control, ..CreditSettings::default() });
        let sender = credit.sender_joined(250);
        let consumer = credit.consumer_joined(250);
        credit.consumer_flow(consumer, 10, at(0));
        assert_ne!(grants(&mut credit), []);
        credit.arrived(sender, at(1));
        for _ in 0..20 {
            let Some(next) = credit.poll_timeout() else { break };
            credit.tick(next);
            assert!(credit.poll_timeout().is_none_or(|after| after > next), "{flow_control:?} at {next:?}");
        }
    }
}

#[test]
fn while_memory_is_short_only_who_has_no_credit_gets_one() {
    for flow_control in [FlowControl::Share, FlowControl::Capacity] {
        let mut credit = AddressCredit::new(CreditSettings { flow_control, ..CreditSettings::default() });
        let senders: Vec<_> = (0..3).map(|_| credit.sender_joined(250)).collect();
        let consumer = credit.consumer_joined(250);
        credit.hold_back(true);
        credit.consumer_flow(consumer, 200, at(0));
        let one_each: Vec<_> = senders.iter().map(|sender| (sender.0, 1)).collect();
        assert_eq!(grants(&mut credit), one_each, "{flow_control:?}");
        // The next one comes when what the last one brought is on its way, or settled by the older rule.
        credit.arrived(senders[1], at(1));
        assert_eq!(grants(&mut credit), [], "{flow_control:?}");
        credit.assigned(senders[1]);
        credit.consumer_assigned(consumer);
        credit.settled(senders[1]);
        assert_eq!(grants(&mut credit), [(senders[1].0, 1)], "{flow_control:?}");
        credit.hold_back(false);
        senders.iter().for_each(|sender| credit.arrived(*sender, at(2)));
        let got = grants(&mut credit);
        assert!(senders.iter().all(|sender| total(&got, *sender) > 5), "{flow_control:?}: {got:?}");
    }
}

/// Found: a consumer's window counts for nothing while it is blocked; senders that gave back what they had meanwhile weren't opened
/// when it was free again.
#[test]
fn a_consumer_that_is_free_again_opens_who_gave_back_what_it_had() {
    let mut credit = credit(100);
    let sender = credit.sender_joined(250);
    let (polling, busy) = (credit.consumer_joined(250), credit.consumer_joined(250));
    credit.consumer_flow(busy, 10, at(0));
    credit.consumer_blocked(busy);
    credit.consumer_flow(busy, 20, at(0));
    credit.consumer_flow(busy, 30, at(0));
    credit.consumer_drain(polling, 5, at(1));
    let got = grants(&mut credit);
    credit.returned(sender, total(&got, sender));
    assert_eq!(grants(&mut credit), []);
    assert_eq!(credit.poll_drained(), Some(polling));
    assert_eq!(grants(&mut credit), []);
    credit.consumer_unblocked(busy);
    assert_ne!(grants(&mut credit), []);
}

#[test]
fn a_drain_that_is_repeated_asks_nobody_again() {
    let mut credit = credit(100);
    let senders: Vec<_> = (0..3).map(|_| credit.sender_joined(250)).collect();
    let consumer = credit.consumer_joined(250);
    credit.consumer_flow(consumer, 30, at(0));
    let given = grants(&mut credit);
    for round in 0..3 {
        credit.consumer_drain(consumer, 30, at(1));
        let asked: Vec<_> = std::iter::from_fn(|| credit.poll_grant()).filter(|grant| grant.drain).collect();
        assert_eq!(asked.len(), if round == 0 { 3 } else { 0 }, "round {round}");
        assert_eq!(credit.poll_drained(), None);
        credit.check_invariants();
    }
    // One has something to send, and then nothing more. All that the others have they give back.
    credit.arrived(senders[0], at(2));
    credit.assigned(senders[0]);
    credit.consumer_assigned(consumer);
    for sender in &senders {
        assert!(total(&given, *sender) > 0);
        assert_eq!(credit.poll_drained(), None);
        credit.returned(*sender, credit.unused(*sender));
        credit.check_invariants();
    }
    assert_eq!(grants(&mut credit), []);
    assert_eq!(credit.poll_drained(), Some(consumer));
    assert_eq!(credit.poll_drained(), None);
    // What is granted anew may be used, so a new drain asks for it.
    credit.consumer_flow(consumer, 30, at(3));
    assert_eq!(grants(&mut credit).len(), 3);
    credit.consumer_drain(consumer, 30, at(4));
    assert_eq!(std::iter::from_fn(|| credit.poll_grant()).filter(|grant| grant.drain).count(), 3);
    // It takes it back, and drains again: those that were asked are asked as others are.
    credit.consumer_flow(consumer, 30, at(5));
    credit.check_invariants();
    credit.consumer_drain(consumer, 30, at(6));
    assert_eq!(std::iter::from_fn(|| credit.poll_grant()).filter(|grant| grant.drain).count(), 3);
    credit.check_invariants();
}

//! Random joins, leaves, drains, stalls and losses, by seed: a failure names the seed.
//!
//! The model asserts at each step that nothing is sent without credit, nothing assigned beyond it, and nothing
//! granted beyond the one without budget; the credit's own sums are checked after each turn.

use crate::model::{Habit, Sim, Work, MILLISECOND};
use ringway::routing::credit::CreditSettings;
use ringway::routing::FlowControl;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) * bound >> 32
    }

    fn pick(&mut self, from: &[usize]) -> Option<usize> {
        (!from.is_empty()).then(|| from[self.below(from.len() as u64) as usize])
    }
}

fn habit(random: &mut Random) -> Habit {
    Habit {
        window: 1 + random.below(40) as u32,
        service: random.below(3) * MILLISECOND / 4,
        batch: 1 + random.below(3) as u32,
        stuck: random.below(5) == 0,
        settled: random.below(4) == 0,
        by_hand: random.below(4) == 0,
    }
}

fn work(random: &mut Random) -> Work {
    match random.below(3) {
        0 => Work::Eager,
        1 => Work::Some(random.below(30)),
        _ => Work::Paced { every: (1 + random.below(40)) * MILLISECOND, from: 0 },
    }
}

struct Links {
    senders: Vec<usize>,
    consumers: Vec<usize>,
}

fn step(sim: &mut Sim, links: &mut Links, random: &mut Random) {
    let sender = random.pick(&links.senders);
    let consumer = random.pick(&links.consumers);
    match (random.below(12), sender, consumer) {
        (0 | 1, _, _) if links.senders.len() < 12 => {
            let (work, capacity) = (work(random), 1 + random.below(60) as u32);
            links.senders.push(sim.sender(work, capacity));
        }
        (2 | 3, _, _) if links.consumers.len() < 5 => {
            let (habit, capacity) = (habit(random), 1 + random.below(60) as u32);
            links.consumers.push(sim.consumer(habit, capacity));
        }
        (4, Some(sender), _) => {
            links.senders.retain(|&one| one != sender);
            sim.lose_sender(sender);
        }
        (5, _, Some(consumer)) => {
            links.consumers.retain(|&one| one != consumer);
            sim.lose_consumer(consumer, random.below(4) as usize);
        }
        (6 | 7, _, Some(consumer)) => {
            let (credit, drain) = (random.below(20) as u32, random.below(2) == 0);
            if sim.consumers[consumer].habit.by_hand || random.below(4) == 0 {
                sim.flow(consumer, credit, drain);
            }
        }
        (8, _, Some(consumer)) => sim.block(consumer, random.below(2) == 0),
        (9, Some(sender), _) => sim.stock(sender, random.below(20)),
        _ => {}
    }
    sim.run_for(random.below(30) * MILLISECOND);
}

fn run(seed: u64) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let flow_control = if seed % 8 == 7 { FlowControl::Capacity } else { FlowControl::Share };
    let slack_percent = [0, 100, 50, 300][seed as usize % 4];
    let delay = (1 + random.below(8)) * MILLISECOND / 2;
    let mut sim = Sim::new(CreditSettings { flow_control, slack_percent, ..CreditSettings::default() }, delay);
    sim.check_each_turn = true;
    let mut links = Links { senders: Vec::new(), consumers: Vec::new() };
    for _ in 0..60 {
        step(&mut sim, &mut links, &mut random);
    }
    // All go, in any order; then nothing is left.
    while !links.senders.is_empty() || !links.consumers.is_empty() {
        if random.below(2) == 0 && !links.senders.is_empty() {
            sim.lose_sender(links.senders.swap_remove(0));
        } else if !links.consumers.is_empty() {
            sim.lose_consumer(links.consumers.swap_remove(0), random.below(3) as usize);
        }
    }
    sim.run_for(20 * MILLISECOND);
    sim.release_waiting();
    assert_eq!((sim.waiting(), sim.unsettled, sim.credit.waiting()), (0, 0, 0));
    assert_eq!((sim.credit.budget(), sim.credit.share()), (0, 0));
    assert!(sim.credit.is_empty());
    sim.credit.check_invariants();
}

#[test]
fn two_thousand_seeds() {
    for seed in 1..=2000 {
        let result = std::panic::catch_unwind(|| run(seed));
        assert!(result.is_ok(), "seed {seed}");
    }
}

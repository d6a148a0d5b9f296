//! Balanced against a model that scans.

use super::*;

/// A small generator, so that a failure names its seed and step.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 32) * u64::from(bound) >> 32) as u32
    }
}

struct ModelCandidate {
    choice: Choice,
    unsettled: u32,
    cost: u32,
    origins: Origins,
    room: bool,
    /// When it came to its value.
    since: u64,
}

/// Obviously right: a scan for the smallest.
#[derive(Default)]
struct Model {
    candidates: Vec<ModelCandidate>,
    step: u64,
}

impl Model {
    fn choose(&self, origin: Origin) -> Option<Choice> {
        self.candidates
            .iter()
            .filter(|one| one.room)
            .filter(|one| matches!(one.choice, Choice::Local(_)) || one.origins.contains(origin))
            .min_by_key(|one| {
                let remote = matches!(one.choice, Choice::Remote(_));
                (u64::from(one.unsettled) + u64::from(one.cost), remote, one.since)
            })
            .map(|one| one.choice)
    }

    fn touch(&mut self, index: usize) -> &mut ModelCandidate {
        self.step += 1;
        let candidate = &mut self.candidates[index];
        candidate.since = self.step;
        candidate
    }
}

fn random_origins(random: &mut Random) -> Origins {
    (0..random.below(4)).map(|_| Origin(random.below(200))).collect()
}

fn join(balanced: &mut Balanced, model: &mut Model, random: &mut Random) {
    let candidate = if random.below(4) > 0 {
        let slot = balanced.local_joined();
        (Choice::Local(slot), 0, Origins::default())
    } else {
        let (cost, origins) = (random.below(12), random_origins(random));
        (Choice::Remote(balanced.remote_joined(cost, origins.clone())), cost, origins)
    };
    let (choice, cost, origins) = candidate;
    model.candidates.push(ModelCandidate { choice, unsettled: 0, cost, origins, room: false, since: 0 });
}

fn assign(balanced: &mut Balanced, choice: Choice) {
    match choice {
        Choice::Local(slot) => balanced.local_assigned(slot),
        Choice::Remote(slot) => balanced.remote_assigned(slot),
    }
}

fn settle(balanced: &mut Balanced, choice: Choice) {
    match choice {
        Choice::Local(slot) => balanced.local_settled(slot),
        Choice::Remote(slot) => balanced.remote_settled(slot),
    }
}

fn set_room(balanced: &mut Balanced, choice: Choice, room: bool) {
    match choice {
        Choice::Local(slot) => balanced.local_room(slot, room),
        Choice::Remote(slot) => balanced.remote_room(slot, room),
    }
}

/// One random change in both.
fn step(balanced: &mut Balanced, model: &mut Model, random: &mut Random) {
    let index = random.below(model.candidates.len() as u32) as usize;
    let choice = model.candidates[index].choice;
    match random.below(20) {
        0..8 => {
            let Some(chosen) = balanced.choose(Origin(random.below(200))) else { return };
            assign(balanced, chosen);
            let index = model.candidates.iter().position(|one| one.choice == chosen).unwrap();
            model.touch(index).unsettled += 1;
        }
        8..16 => {
            if model.candidates[index].unsettled > 0 {
                settle(balanced, choice);
                model.touch(index).unsettled -= 1;
            }
        }
        16..18 => {
            let room = random.below(3) > 0;
            set_room(balanced, choice, room);
            if model.candidates[index].room != room {
                model.touch(index).room = room;
            }
        }
        18 => {
            let Choice::Remote(slot) = choice else { return };
            let (cost, origins) = (random.below(12), random_origins(random));
            balanced.remote_path_changed(slot, cost, origins.clone());
            if model.candidates[index].cost != cost {
                model.touch(index).cost = cost;
            }
            model.candidates[index].origins = origins;
        }
        _ if random.below(2) == 0 && model.candidates.len() > 1 => {
            match choice {
                Choice::Local(slot) => balanced.local_left(slot),
                Choice::Remote(slot) => balanced.remote_left(slot),
            }
            model.candidates.swap_remove(index);
        }
        _ => {
            if model.candidates.len() < 40 {
                join(balanced, model, random);
            }
        }
    }
}

#[test]
fn agrees_with_a_scan_over_a_million_random_steps() {
    for seed in 1..=20 {
        let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ seed << 40);
        let (mut balanced, mut model) = (Balanced::new(), Model::default());
        join(&mut balanced, &mut model, &mut random);
        for number in 0..50_000 {
            step(&mut balanced, &mut model, &mut random);
            let origin = Origin(random.below(200));
            assert_eq!(balanced.choose(origin), model.choose(origin), "seed {seed}, step {number}");
        }
    }
}

#[test]
fn four_idle_consumers_are_served_evenly() {
    let mut balanced = Balanced::new();
    let slots: Vec<_> = (0..4).map(|_| balanced.local_joined()).collect();
    slots.iter().for_each(|&slot| balanced.local_room(slot, true));
    let mut counts = [0u32; 4];
    for _ in 0..4001 {
        let Some(Choice::Local(slot)) = balanced.choose(Origin::HERE) else { panic!() };
        balanced.local_assigned(slot);
        balanced.local_settled(slot);
        counts[slot.0 as usize] += 1;
        assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1);
    }
}

#[test]
fn costs_are_thresholds() {
    for backlog in 0..=300u32 {
        let mut balanced = Balanced::new();
        let locals = [balanced.local_joined(), balanced.local_joined()];
        let near = balanced.remote_joined(10, Origins::default());
        let far = balanced.remote_joined(100, Origins::default());
        for local in locals {
            balanced.local_room(local, true);
            (0..backlog).for_each(|_| balanced.local_assigned(local));
        }
        balanced.remote_room(near, true);
        balanced.remote_room(far, true);
        // Each goes to the smallest value, so what is assigned fills the lower ones up first.
        let mut values = [u64::from(backlog), u64::from(backlog), 10, 100];
        for _ in 0..500 {
            let choice = balanced.choose(Origin::HERE).unwrap();
            let expected = *values.iter().min().unwrap();
            let index = match choice {
                Choice::Local(slot) => locals.iter().position(|&one| one == slot).unwrap(),
                Choice::Remote(slot) => 2 + usize::from(slot == far),
            };
            assert_eq!(values[index], expected, "backlog {backlog}");
            // Local wins ties.
            assert!(index < 2 || values[0].min(values[1]) > expected);
            values[index] += 1;
            assign(&mut balanced, choice);
        }
        locals.iter().for_each(|&local| balanced.local_room(local, false));
        assert!(matches!(balanced.choose(Origin::HERE), Some(Choice::Remote(_))));
    }
}

#[test]
fn an_origin_that_is_not_valid_gets_no_remote() {
    let mut balanced = Balanced::new();
    let one = balanced.remote_joined(1, [Origin(3), Origin(70)].into_iter().collect());
    let other = balanced.remote_joined(5, [Origin(4)].into_iter().collect());
    balanced.remote_room(one, true);
    balanced.remote_room(other, true);
    assert_eq!(balanced.choose(Origin::HERE), Some(Choice::Remote(one)));
    assert_eq!(balanced.choose(Origin(70)), Some(Choice::Remote(one)));
    assert_eq!(balanced.choose(Origin(4)), Some(Choice::Remote(other)));
    assert_eq!(balanced.choose(Origin(5)), None);
}

#[test]
fn two_routers_behind_one_neighbour_are_counted_apart() {
    let mut balanced = Balanced::new();
    let near = balanced.remote_joined(10, Origins::default());
    let behind = balanced.remote_joined(15, Origins::default());
    balanced.remote_room(near, true);
    balanced.remote_room(behind, true);
    for _ in 0..25 {
        let choice = balanced.choose(Origin::HERE).unwrap();
        assign(&mut balanced, choice);
    }
    assert_eq!((balanced.remote_unsettled(near), balanced.remote_unsettled(behind)), (15, 10));
}

#[test]
fn large_values_are_found() {
    let mut balanced = Balanced::new();
    let slots: Vec<_> = (0..3).map(|_| balanced.local_joined()).collect();
    for (slot, count) in slots.iter().zip([100_000, 70_000, 90_000]) {
        balanced.local_room(*slot, true);
        (0..count).for_each(|_| balanced.local_assigned(*slot));
    }
    assert_eq!(balanced.choose(Origin::HERE), Some(Choice::Local(slots[1])));
    balanced.local_left(slots[1]);
    assert_eq!(balanced.choose(Origin::HERE), Some(Choice::Local(slots[2])));
    balanced.local_room(slots[2], false);
    assert_eq!(balanced.choose(Origin::HERE), Some(Choice::Local(slots[0])));
    balanced.local_left(slots[0]);
    assert_eq!(balanced.choose(Origin::HERE), None);
}

//! What the router counts is what its clients saw: deliveries and settled ones, copies to receivers, outcomes; in all, and of each
//! address that was there all the time, on however many shards.
//!
//! Clients don't see what was under way when somebody went, so of each figure there is a least and a most. Where nobody went
//! they are the same.

use super::{Checker, Standing};
use crate::outcome::StateKind;
use crate::routing;
use crate::sim::model::{LinkRecord, Message, Model, Progress};
use crate::sim::world::World;
use std::collections::BTreeMap;

pub struct Counters;

/// At least and at most so many.
#[derive(Clone, Copy, Default)]
struct Between(u64, u64);

impl Between {
    fn add(&mut self, least: u64, most: u64) {
        self.0 += least;
        self.1 += most;
    }
}

const FIGURES: [&str; 7] = ["deliveries", "presettled", "egress", "accepted", "rejected", "released", "modified"];

#[derive(Clone, Copy, Default)]
struct Figures([Between; FIGURES.len()]);

fn of(counters: &routing::Counters) -> [u64; FIGURES.len()] {
    let routing::Counters { deliveries, presettled, egress, accepted, rejected, released, modified, .. } = *counters;
    [deliveries, presettled, egress, accepted, rejected, released, modified]
}

impl Figures {
    /// `receivers`: those that its address ever had.
    fn count(&mut self, message: &Message, sender: &LinkRecord, receivers: &[&LinkRecord]) {
        let [deliveries, presettled, egress, outcomes @ ..] = &mut self.0;
        let is_whole = message.progress == Progress::Complete && sender.is_live();
        let has_arrived = is_whole || message.outcome.is_some() || !message.copies.is_empty();
        deliveries.add(has_arrived.into(), 1);
        if message.settled {
            presettled.add(has_arrived.into(), 1);
        }
        // A receiver of a message that was given up, or whose end was under way when its sender went, never has it whole, nor has
        // one that went or that takes none so large.
        let has_come_whole = is_whole || !message.copies.is_empty();
        let may_miss = |receiver: &&&LinkRecord| {
            !has_come_whole || receiver.leaving_at.is_some() || receiver.is_too_small_for(message)
        };
        let (seen, unseen) = (message.copies.len(), receivers.iter().filter(may_miss).count());
        egress.add(seen as u64, (seen + unseen) as u64);
        let told = message.outcome.as_ref().filter(|_| message.outcome_settled).map(|(kind, _)| *kind);
        let kinds = [StateKind::Accepted, StateKind::Rejected, StateKind::Released, StateKind::Modified];
        for (outcome, kind) in outcomes.iter_mut().zip(kinds) {
            match told {
                Some(told) => outcome.add((told == kind).into(), (told == kind).into()),
                None if message.settled => {}
                None => outcome.add(0, 1),
            }
        }
    }

    fn check(&self, counters: &routing::Counters, what: &str) -> Result<(), String> {
        for ((name, Between(least, most)), counted) in FIGURES.iter().zip(self.0).zip(of(counters)) {
            if !(least..=most).contains(&counted) {
                return Err(format!("{what}: {name} {counted}, clients saw {least} to {most}"));
            }
        }
        Ok(())
    }
}

/// Of all messages, and of those to each address.
fn seen(model: &Model) -> (Figures, BTreeMap<&str, Figures>) {
    let mut receivers: BTreeMap<&str, Vec<&LinkRecord>> = BTreeMap::new();
    for link in model.links.values().filter(|link| !link.sends) {
        receivers.entry(link.address.as_deref().unwrap_or_default()).or_default().push(link);
    }
    let (mut all, mut each) = (Figures::default(), BTreeMap::<&str, Figures>::new());
    for message in model.messages.values() {
        let (sender, address) = (model.link(message.sender), &*message.address);
        let receivers = receivers.get(address).map_or(&[][..], |all| all);
        all.count(message, sender, receivers);
        each.entry(address).or_default().count(message, sender, receivers);
    }
    (all, each)
}

fn totals(world: &World) -> routing::Counters {
    let mut totals = routing::Counters::default();
    world.dispatches().for_each(|dispatch| totals.add(dispatch.router().totals()));
    totals
}

impl Checker for Counters {
    fn name(&self) -> &'static str {
        "counters"
    }

    fn quiet(&mut self, model: &Model, world: &World, _: &[Standing]) -> Result<(), String> {
        let (all, each) = seen(model);
        all.check(&totals(world), "the router")?;
        for (_, view) in world.dispatches().flat_map(|dispatch| dispatch.router().address_views()) {
            let Some(figures) = each.get(view.name()).filter(|_| !view.is_local()) else { continue };
            // A link that was there before the first message and stayed has kept the address.
            let first =
                model.messages.values().filter(|message| message.address == view.name()).map(|one| one.begun_at);
            let first = first.min().unwrap_or_default();
            let kept = model.links.values().any(|link| {
                link.is_live()
                    && link.address.as_deref() == Some(view.name())
                    && link.attached_at.is_some_and(|attached| attached <= first)
            });
            if kept {
                figures.check(view.counters(), view.name())?;
            }
        }
        Ok(())
    }

    fn end(&mut self, model: &Model, world: &World) -> Result<(), String> {
        seen(model).0.check(&totals(world), "the router at its end")
    }
}

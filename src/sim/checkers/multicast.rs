//! An unsettled multicast message that got its outcome reached every receiver that was there all the time and never
//! stood without credit for long.

use super::{Checker, Standing};
use crate::sim::model::{spread_of, Model, Progress, Spread};
use crate::sim::world::World;
use std::time::Duration;

/// A receiver without credit for so long may have been set aside.
const DRY_MAX: Duration = Duration::from_millis(900);
/// Its first credit has arrived after so long.
const SETTLING_IN: Duration = Duration::from_millis(500);

pub struct Multicast;

impl Checker for Multicast {
    fn name(&self) -> &'static str {
        "multicast"
    }

    fn quiet(&mut self, model: &Model, world: &World, _: &[Standing]) -> Result<(), String> {
        // A full router gives back what begins.
        let was_full = world.was_full();
        for (key, message) in &model.messages {
            let done = message.progress == Progress::Complete && !message.settled && message.outcome_settled;
            let given_back = was_full && message.copies.is_empty();
            if !done || given_back || spread_of(&message.address) != Spread::Multicast {
                continue;
            }
            for (number, link) in model.consumers(&message.address) {
                let there = link.credit_at.is_some_and(|at| at + SETTLING_IN < message.begun_at);
                let missed = !message.copies.iter().any(|copy| copy.link == number);
                let there = there && !link.is_too_small_for(message);
                if there && link.prompt && link.dry_longest < DRY_MAX && missed {
                    return Err(format!("multicast message {key} never reached {number:?} ({link:?}): {message:?}"));
                }
            }
        }
        Ok(())
    }
}

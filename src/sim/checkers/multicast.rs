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

#[derive(Default)]
pub struct Multicast {
    /// The router was full once: then it gives back what begins.
    full: bool,
}

impl Checker for Multicast {
    fn name(&self) -> &'static str {
        "multicast"
    }

    fn stepped(&mut self, world: &World) -> Result<(), String> {
        self.full |= world.was_full();
        Ok(())
    }

    fn quiet(&mut self, model: &Model, _: &World, _: &[Standing]) -> Result<(), String> {
        for (key, message) in &model.messages {
            let done = message.progress == Progress::Complete && !message.settled && message.outcome_settled;
            let given_back = self.full && message.copies.is_empty();
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

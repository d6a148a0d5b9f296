//! Each unsettled message gets exactly one outcome at its sender, while that lives; and it is what a receiver said, or
//! what became of it.

use super::{Checker, Standing};
use crate::outcome::{State, StateKind};
use crate::sim::model::{spread_of, LinkRecord, Message, Model, Observation, Progress, Spread};
use crate::sim::world::World;

pub struct Outcomes;

impl Checker for Outcomes {
    fn name(&self) -> &'static str {
        "outcomes"
    }

    fn observe(&mut self, model: &Model, observation: &Observation) -> Result<(), String> {
        let Observation::Outcome { key, kind, state, settled } = observation else { return Ok(()) };
        let message = &model.messages[key];
        if message.settled || message.abandoned {
            return Err(format!("message {key} was sent settled and got an outcome"));
        }
        if message.outcome_settled {
            return Err(format!("message {key} got a second outcome"));
        }
        let Some(kind) = *kind else {
            return if *settled && message.outcome.is_none() {
                Err(format!("message {key} was settled without an outcome"))
            } else {
                Ok(())
            };
        };
        if kind == StateKind::Received {
            return Ok(());
        }
        if let Some((before, encoded)) = &message.outcome {
            if *before != kind || encoded != state {
                return Err(format!("message {key} was {before:?}, then {kind:?}"));
            }
            return Ok(());
        }
        let grounds = match spread_of(&message.address) {
            Spread::Anycast => anycast_grounds(model, message, kind, state),
            Spread::Multicast => multicast_grounds(model, message, kind, state),
            // An anonymous sender's, to an address that nobody may use.
            Spread::Unavailable => matches!(kind, StateKind::Rejected | StateKind::Released),
        };
        if !grounds {
            return Err(format!("message {key} is {kind:?} ({state:02x?}), for which there is no ground: {message:?}"));
        }
        Ok(())
    }

    fn quiet(&mut self, model: &Model, _: &World, _: &[Standing]) -> Result<(), String> {
        for (key, message) in &model.messages {
            let waits = !message.settled
                && !message.abandoned
                && message.progress == Progress::Complete
                && !message.outcome_settled;
            if waits && model.link(message.sender).is_live() {
                return Err(format!("message {key} has no outcome: {message:?}"));
            }
        }
        Ok(())
    }
}

fn failed() -> Vec<u8> {
    State::delivery_failed().encoded.map(|encoded| encoded.to_vec()).unwrap_or_default()
}

/// Whether a receiver of the address is gone, with what was on its way to it.
fn lost_consumer(model: &Model, address: &str) -> bool {
    model
        .links
        .values()
        .any(|link| !link.sends && link.address.as_deref() == Some(address) && link.leaving_at.is_some())
}

/// Whether there was a receiver that wanted settled deliveries: what goes to it is accepted when it is sent.
fn settling_consumer(model: &Model, address: &str) -> bool {
    model.links.values().any(|link| link.settled_mode && link.address.as_deref() == Some(address))
}

/// Whether a message may have been refused for its size: there was a receiver that takes none so large.
fn too_large(model: &Model, message: &Message, state: &[u8]) -> bool {
    let of_address = |link: &&LinkRecord| !link.sends && link.address.as_deref() == Some(message.address.as_str());
    let small = model.links.values().filter(of_address).any(|link| link.is_too_small_for(message));
    let condition = b"amqp:link:message-size-exceeded";
    small && state.windows(condition.len()).any(|window| window == condition)
}

fn anycast_grounds(model: &Model, message: &Message, kind: StateKind, state: &[u8]) -> bool {
    let said = message.copies.first().and_then(|copy| copy.disposed.as_ref());
    if said.is_some_and(|(said, encoded)| *said == kind && encoded == state) {
        return true;
    }
    let taken_settled = message.copies.first().map_or(settling_consumer(model, &message.address), |copy| copy.settled);
    match kind {
        StateKind::Accepted => taken_settled,
        StateKind::Rejected => message.copies.is_empty() && too_large(model, message, state),
        // Nobody has it.
        StateKind::Released => message.copies.is_empty(),
        // It was sent, and its receiver is gone.
        StateKind::Modified => state == failed() && lost_consumer(model, &message.address),
        _ => false,
    }
}

fn multicast_grounds(model: &Model, message: &Message, kind: StateKind, state: &[u8]) -> bool {
    let said = |(said, encoded): &(StateKind, Vec<u8>)| *said == kind && encoded == state;
    if message.copies.iter().filter_map(|copy| copy.disposed.as_ref()).any(said) {
        return true;
    }
    match kind {
        StateKind::Accepted => settling_consumer(model, &message.address),
        StateKind::Rejected => too_large(model, message, state),
        StateKind::Released => message.copies.iter().all(|copy| copy.disposed.is_none()),
        StateKind::Modified => state == failed() && lost_consumer(model, &message.address),
        _ => false,
    }
}

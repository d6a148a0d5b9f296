//! No message arrives twice, changed, unsent or given up: an anycast one at one receiver, a multicast one once at each. And
//! none that was sent settled is missed where no receiver ever left.

use super::{Checker, Standing};
use crate::sim::model::{spread_of, Model, Observation, Progress, Spread};
use crate::sim::world::World;

pub struct Once;

impl Checker for Once {
    fn name(&self) -> &'static str {
        "once"
    }

    fn observe(&mut self, model: &Model, observation: &Observation) -> Result<(), String> {
        let Observation::Received { key, link, settled, digest } = observation else { return Ok(()) };
        let Some(message) = model.messages.get(key) else {
            return Err(format!("message {key} was received and never sent"));
        };
        if message.progress != Progress::Complete {
            return Err(format!("message {key} was received whole, its sender has it {:?}", message.progress));
        }
        if message.digest != *digest {
            return Err(format!("message {key} arrived changed"));
        }
        let record = model.link(*link);
        if record.address.as_deref() != Some(message.address.as_str()) {
            return Err(format!("message {key} to {:?} came to {:?}", message.address, record.address));
        }
        if *settled && !message.settled && !message.abandoned && !record.settled_mode {
            return Err(format!("message {key} was sent unsettled and arrived settled"));
        }
        let again = match spread_of(&message.address) {
            Spread::Multicast => message.copies.iter().any(|copy| copy.link == *link),
            _ => !message.copies.is_empty(),
        };
        if again {
            return Err(format!("message {key} arrived twice: now at {link:?}, before at {:?}", message.copies));
        }
        Ok(())
    }

    fn quiet(&mut self, model: &Model, world: &World, _: &[Standing]) -> Result<(), String> {
        // A full router takes nothing that begins, and what is sent settled is lost.
        let was_full = world.was_full();
        for (key, message) in &model.messages {
            let sender = model.link(message.sender);
            let due = message.settled
                && !was_full
                && message.progress == Progress::Complete
                && spread_of(&message.address) == Spread::Anycast
                && sender.is_live()
                && message.copies.is_empty();
            let consumers =
                model.links.values().filter(|link| !link.sends && link.address.as_deref() == Some(&message.address));
            let (mut any, mut stayed) = (false, true);
            for consumer in consumers {
                any |= consumer.credit_at.is_some_and(|at| at < message.begun_at);
                stayed &= consumer.leaving_at.is_none() && !consumer.is_too_small_for(message);
            }
            // An anonymous sender may be ahead of the consumer's attach.
            if due && any && stayed && sender.address.is_some() {
                return Err(format!("message {key}, sent settled, is lost: {message:?}"));
            }
        }
        Ok(())
    }
}

//! Messages of one sender's link to one address reach a receiver in the order in which they were sent.

use super::Checker;
use crate::sim::model::{LinkNumber, Model, Observation};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Order {
    /// The last sequence number by sender and receiver.
    last: BTreeMap<(LinkNumber, LinkNumber), u32>,
}

impl Checker for Order {
    fn name(&self) -> &'static str {
        "order"
    }

    fn observe(&mut self, model: &Model, observation: &Observation) -> Result<(), String> {
        let Observation::Received { key, link, .. } = observation else { return Ok(()) };
        let Some(message) = model.messages.get(key) else { return Ok(()) };
        let last = self.last.entry((message.sender, *link)).or_default();
        if message.sequence <= *last {
            return Err(format!("message {key}, number {} of its sender, came after number {last}", message.sequence));
        }
        *last = message.sequence;
        Ok(())
    }
}

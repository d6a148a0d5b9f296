//! Nobody waits while there is capacity: when all is quiet, every sender of an address that somebody takes from has
//! sent all it had, and every drain is answered.

use super::{Checker, Standing};
use crate::sim::model::Model;
use crate::sim::world::World;

pub struct Progress;

impl Checker for Progress {
    fn name(&self) -> &'static str {
        "progress"
    }

    fn quiet(&mut self, _: &Model, _: &World, standings: &[Standing]) -> Result<(), String> {
        let takes = |address: &str| {
            standings.iter().any(|standing| match standing {
                Standing::Receiver { address: theirs, credit, .. } => theirs == address && *credit > 0,
                Standing::Sender { .. } => false,
            })
        };
        for standing in standings {
            match standing {
                Standing::Receiver { draining: true, .. } => {
                    return Err(format!("a drain was never answered: {standing:?}"));
                }
                Standing::Sender { address, left, unfinished, .. } if *left > 0 || *unfinished => {
                    if address.as_deref().is_none_or(takes) {
                        return Err(format!("a sender is stuck: {standing:?}"));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

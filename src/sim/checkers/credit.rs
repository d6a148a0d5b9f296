//! Credit and windows are never overdrawn, nor taken back; nor is any other of the protocol's rules broken: what clients
//! found of it.

use super::Checker;
use crate::sim::world::World;

#[derive(Default)]
pub struct Credit;

impl Checker for Credit {
    fn name(&self) -> &'static str {
        "credit"
    }

    fn stepped(&mut self, world: &World) -> Result<(), String> {
        match world.violation() {
            Some((peer, violation)) => Err(format!("client {}: {violation}", peer.0)),
            None => Ok(()),
        }
    }
}

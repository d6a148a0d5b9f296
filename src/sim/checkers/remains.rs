//! Nothing is left when everybody has gone: no connection, link, delivery or address, no chunk of payload; and
//! what the router counts of itself fits together all the time.

use super::Checker;
use crate::sim::model::Model;
use crate::sim::world::World;

/// Steps between two looks at all of the router's own counts: each costs as much as there is in the router.
const STEPS: u64 = 61;

#[derive(Default)]
pub struct Remains {
    next: u64,
}

impl Checker for Remains {
    fn stepped(&mut self, world: &World) -> Result<(), String> {
        if world.steps < self.next {
            return Ok(());
        }
        self.next = world.steps + STEPS;
        world.dispatches().try_for_each(|dispatch| dispatch.router().check_invariants())
    }

    fn end(&mut self, _: &Model, world: &World) -> Result<(), String> {
        world.dispatches().try_for_each(|dispatch| dispatch.router().check_empty())?;
        if world.connections() > 0 {
            return Err(format!("{} connections are left", world.connections()));
        }
        if world.chunks_in_use() > 0 {
            return Err(format!("{} chunks of payload are left", world.chunks_in_use()));
        }
        Ok(())
    }
}

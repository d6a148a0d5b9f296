//! Nothing is left when everybody has gone: no connection, link, delivery or address, no chunk of payload; and
//! what the router counts of itself fits together all the time.

use super::Checker;
use crate::limits::CHUNK_BYTES;
use crate::sim::model::Model;
use crate::sim::world::World;

/// Steps between two looks at all of the router's own counts: each costs as much as there is in the router.
const STEPS: u64 = 61;
/// A shard copies small payloads together in two places, each of which keeps the chunk that it is filling; and what
/// it lent as output buffers is told to the account in steps of less than a chunk.
const CHUNKS_AT_REST: usize = 3;

#[derive(Default)]
pub struct Remains {
    next: u64,
}

impl Checker for Remains {
    fn name(&self) -> &'static str {
        "remains"
    }

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
        let memory = world.memory();
        let left = (memory.promised(), memory.connections());
        if left != (0, 0) {
            return Err(format!("{left:?}: bytes of windows, and connections, that are still in the account"));
        }
        if memory.used() > world.dispatches().count() * CHUNKS_AT_REST * CHUNK_BYTES {
            return Err(format!("{} bytes are still in the account", memory.used()));
        }
        Ok(())
    }
}

//! Threshold edges: they alternate, each at its mark, and what they say of an address is what its depth says.

use super::Checker;
use crate::routing::{Edge, Unit};
use crate::sim::model::Model;
use crate::sim::world::World;
use std::collections::BTreeMap;

/// Steps between two comparisons with the depths.
const STEPS: u64 = 17;

#[derive(Default)]
pub struct Edges {
    seen: usize,
    next: u64,
    /// By address and unit: whether the last edge went up, with its mark.
    above: BTreeMap<(String, Unit), bool>,
}

impl Edges {
    fn take(&mut self, address: &str, edge: &Edge) -> Result<(), String> {
        let before = self.above.insert((address.to_owned(), edge.unit), edge.increasing).unwrap_or(false);
        // Each of those that were missed turned it round, and so did this one.
        let turns = edge.missed + 1;
        if before ^ (turns % 2 == 1) != edge.increasing {
            return Err(format!("{address}: {edge:?} follows an edge to the same side"));
        }
        let at_mark = match edge.unit {
            _ if edge.missed > 0 => true,
            Unit::Messages => edge.depth_messages == edge.threshold || !edge.increasing && edge.depth_messages == 0,
            Unit::Bytes => {
                (edge.depth_bytes >= edge.threshold) == edge.increasing || edge.depth_bytes == edge.threshold
            }
        };
        if !at_mark {
            return Err(format!("{address}: {edge:?} is not at its mark"));
        }
        Ok(())
    }

    /// Where control has heard everything, the edges and the depths say the same.
    fn compare(&self, world: &World) -> Result<(), String> {
        for (_, view) in world.dispatches().flat_map(|dispatch| dispatch.router().address_views()) {
            for unit in [Unit::Messages, Unit::Bytes] {
                let (marks, depth) = match unit {
                    Unit::Messages => (view.attributes().alert_count, view.depth_messages()),
                    Unit::Bytes => (view.attributes().alert_size, view.depth_bytes()),
                };
                let Some(marks) = marks else { continue };
                let above = view.depth().is_above(unit);
                if (depth >= marks.up && !above) || (depth <= marks.down && above) {
                    return Err(format!("{}: depth {depth}, above {above}, {marks:?}", view.name()));
                }
                let told = self.above.get(&(view.name().to_owned(), unit)).copied().unwrap_or(false);
                if !world.edges_wait() && told != above {
                    return Err(format!("{}: the edges say above {told}, it is {above}", view.name()));
                }
            }
        }
        Ok(())
    }
}

impl Checker for Edges {
    fn name(&self) -> &'static str {
        "edges"
    }

    fn stepped(&mut self, world: &World) -> Result<(), String> {
        while let Some((address, edge)) = world.edges.get(self.seen) {
            self.seen += 1;
            self.take(address, edge)?;
        }
        if world.steps >= self.next {
            self.next = world.steps + STEPS;
            self.compare(world)?;
        }
        Ok(())
    }

    fn end(&mut self, _: &Model, world: &World) -> Result<(), String> {
        let above = self.above.iter().find(|(_, above)| **above);
        match above {
            Some(((address, unit), _)) if !world.edges_wait() => {
                Err(format!("{address} is above its mark of {unit:?} for ever"))
            }
            _ => Ok(()),
        }
    }
}

//! The checkers: one a property, each in its own file. A checker sees every fact before the model takes it in, and is
//! asked once more when all is quiet (everything that can happen has happened, clients are still there) and at the end
//! (all clients have gone).

mod counters;
mod credit;
mod edges;
mod multicast;
mod once;
mod order;
mod outcomes;
mod progress;
mod remains;

use super::model::{LinkNumber, Model, Observation};
use super::world::World;

/// How an actor's link stands when all is quiet.
#[derive(Clone, Debug)]
pub enum Standing {
    /// `left`: messages that it would still send. `unfinished`: one that it could not complete.
    Sender {
        link: LinkNumber,
        address: Option<String>,
        left: u32,
        unfinished: bool,
        credit: u32,
    },
    Receiver {
        link: LinkNumber,
        address: String,
        credit: u32,
        draining: bool,
    },
}

pub trait Checker {
    /// The property's, as a failure says it.
    fn name(&self) -> &'static str;

    /// A fact, before the model knows it.
    fn observe(&mut self, _model: &Model, _observation: &Observation) -> Result<(), String> {
        Ok(())
    }

    /// After a step of the world.
    fn stepped(&mut self, _world: &World) -> Result<(), String> {
        Ok(())
    }

    /// Nothing more happens by itself; all receivers take what they get.
    fn quiet(&mut self, _model: &Model, _world: &World, _standings: &[Standing]) -> Result<(), String> {
        Ok(())
    }

    /// Nobody is connected any more.
    fn end(&mut self, _model: &Model, _world: &World) -> Result<(), String> {
        Ok(())
    }
}

/// All of them.
pub fn all() -> Vec<Box<dyn Checker>> {
    vec![
        Box::new(outcomes::Outcomes),
        Box::new(once::Once),
        Box::new(multicast::Multicast),
        Box::new(counters::Counters),
        Box::new(order::Order::default()),
        Box::new(credit::Credit::default()),
        Box::new(edges::Edges::default()),
        Box::new(progress::Progress),
        Box::new(remains::Remains::default()),
    ]
}

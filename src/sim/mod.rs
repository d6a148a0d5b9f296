//! The simulator: clients and one router's pure rooms in one thread, under virtual time, from one seed.
//!
//! Owns: the clock, the network, the clients, what they do (plan, actors), what they should see (model), and who judges
//! (checkers). Doesn't: touch the shard or any socket; look into the router, but to ask it for its own invariants.
//! Driven by: `tests/simulation*.rs`.
//!
//! Two ways: [`run`] draws everything from a seed and checks properties, and [`shrink`] makes what fails small; [`scenario`] sets up a given situation and
//! measures it (throughput, shares, latency) in virtual time.
//!
//! Invariant: the same seed gives the same trace, step by step. So no hash map's order, no address of memory, no clock
//! may decide anything, here or in the rooms under test.
//!
//! Files: `world` (network, time), `shards` (the router), `client` (the protocol from the other side), `plan` → `actors` →
//! `model` → `checkers`. That each checker finds errors of its kind is shown with errors made on purpose (`sabotage`).

mod actors;
pub mod checkers;
pub mod client;
pub mod message;
pub mod model;
pub mod pipe;
pub mod plan;
pub mod random;
pub mod scenario;
mod shards;
pub mod shrink;
mod simulation;
pub mod world;

pub use simulation::{run, run_plan, run_traced, Failure, Summary};

//! Which link gets this delivery.
//!
//! Owns: addresses and the links on them, treatments (closest, balanced, multicast, unavailable), deliveries
//! from their arrival to their outcome, the credit of senders, thresholds.
//! Doesn't: know frames, bytes of a message, sockets, time (it is told).
//! Driven by: dispatch, which turns an engine's events into inputs here and outputs from here
//! into commands to engines. One input, then drain the outputs.
//!
//! Words: *sender* is a peer that sends (its link is incoming), *consumer* a peer that receives (outgoing).
//!
//! Invariants:
//! - every delivery that arrived unsettled gets exactly one outcome at its sender, unless that is gone;
//! - a consumer is never assigned more than its credit;
//! - order a link is kept;
//! - when all links are gone, no delivery is left and all counters are zero.

pub mod credit;
mod lists;
pub mod output;
pub use output::*;
pub mod threshold;
pub mod treatment;

mod address;
mod arrival;
mod assign;
mod attach;
mod blocked;
mod connection;
mod counters;
mod credit_flow;
mod delivery;
mod direct;
mod elsewhere;
mod invariants;
mod latency;
mod link;
mod loss;
mod multicast;
mod name;
mod own;
mod pace;
mod rate;
mod relief;
mod rounds;
mod router;
mod rows;
mod rules;
mod settings;
mod settle;
mod stuck;
mod table;
mod views;

pub use blocked::Notice;
pub use counters::Counters;
pub use direct::{Told, Way};
pub use latency::{LatencySummary, Spread, SPREAD_BOUNDS_MICROSECONDS};
pub use multicast::STEPS_A_COPY;
pub use name::{normalise, owner, owner_of};
pub use own::own_handle;
pub use rate::Rate;
pub use router::{Arrival, Attach, Attached, Router};
pub use rows::{AddressRow, AlertRow, CreditRow, LinkRow};
pub use rules::{AddressRules, RuleError};
pub use settings::{AddressAttributes, AddressMatch, AddressRule, FlowControl, Marks, RouterSettings, Treatment};
pub use settle::rejected;
pub use threshold::{Edge, EdgeOutbox, Unit};
pub use views::{AddressView, LinkView};

/// Bytes of one of each, for whoever shows them.
pub const ADDRESS_BYTES: usize = std::mem::size_of::<address::Address>();
pub const LINK_BYTES: usize = std::mem::size_of::<link::Link>();
pub const DELIVERY_BYTES: usize = std::mem::size_of::<delivery::Delivery>();

//! One AMQP connection as a state machine, without I/O.
//!
//! Owns: protocol headers, the SASL layer's framing, open/begin/attach and their ends, sessions with both
//! windows, links with their credit, transfers and their splitting, dispositions, idle time-outs.
//! Doesn't: read, write, look at a clock, know an address's meaning, choose where a delivery goes.
//! Driven by: the shard (or a test, or the simulator): one mutation, then drain: events, output, time-out.
//!
//! Four kinds of method:
//! - getters: change nothing;
//! - `handle_*`: what happened outside (bytes came, time passed, the peer's end of stream);
//! - commands: what routing decided (accept a link, grant credit, send, dispose, detach, close), and of the side that
//!   connects: begin a session, attach a link;
//! - `poll_*`: what there is to do (an event or a run of them, output bytes, the next time-out).
//!
//! It plays both sides: the one that accepts a connection (`Engine::new`) and the one that opens it (`Engine::connect`).
//! Who begins sessions and attaches links is up to either side.
//!
//! Words: *incoming* is from the peer to us (the engine is the link's receiver), *outgoing* the reverse.

pub mod event;
pub use event::*;

mod connect;
mod connection;
mod disposition;
mod fault;
mod flow;
mod incoming;
mod input;
mod link;
mod moving;
mod numbers;
mod opening;
mod outgoing;
mod run;
mod sasl;
mod serial;
mod session;
mod settings;
mod table;
mod trace;
mod transmit;
mod unsettled;
mod window;
pub use connection::Engine;
pub use moving::Suspended;
pub use run::{Arrivals, Run};
pub use settings::{Settings, CAPABILITIES, PRODUCT};
pub use transmit::Transmit;

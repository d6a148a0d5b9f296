//! Ringway: an AMQP 1.0 message router on io_uring.
//!
//! This list is the map; it is in the order in which data flows. Which room may use which is written in
//! ARCHITECTURE.md and held by `tests/architecture.rs`.

// Vocabulary: words that every room shares. No behaviour of their own beyond keeping themselves valid.
pub mod arena;
pub mod ids;
pub mod limits;
pub mod link;
pub mod log;
pub mod memory;
pub mod outcome;
pub mod payload;
pub mod run;
pub mod sabotage;
pub mod time;

// Pure rooms: no clock, socket, thread, lock or random of their own.
pub mod wire;

pub mod engine;

pub mod security;

pub mod client;

pub mod routing;

pub mod dispatch;

pub mod config;

pub mod management;

// Concurrent, no sockets.
pub mod mesh;
pub mod telemetry;

// Impure: rings, sockets, threads, clocks.
pub mod cli;
pub mod control;
pub mod load;
pub mod shard;

#[cfg(feature = "sim")]
pub mod sim;

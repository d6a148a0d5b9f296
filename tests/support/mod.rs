//! What tests share. Each test file uses some of it.
//!
//! For engines in virtual time:
//! - `client`: a sans-I/O client on the wire room.
//! - `pair`: engines pumped against it.
//! - `mesh`: several shards' dispatch, with lanes between them.
//!
//! For the running router:
//! - `amqp`: frames as plain data, and a codec of its own: a second reading of the specification, so that a
//!   mistake in the router's `wire` room isn't repeated by the test that should find it, and so that frames can
//!   be wrong on purpose.
//! - `raw`: a blocking TCP client for such frames, which logs all it sends and sees.
//! - `http`: a client of its HTTP listeners, and a strict reader of metrics.
//! - `router`: starts the router under test on a port of its own and stops it in an orderly way.
//! - `flood`: sends and receives many messages fast.
//! - `crowd`: very many well-behaved clients on one thread.
//! - `programs`: builds and runs programs written with other people's client libraries.

#![allow(dead_code)]

pub mod amqp;
pub mod client;
pub mod crowd;
pub mod flood;
pub mod http;
pub mod mesh;
pub mod pair;
pub mod programs;
pub mod raw;
pub mod router;

//! What shards tell each other.
//!
//! Owns: the lanes (`crossbeam_queue::ArrayQueue`, one for each ordered pair of shards, FIFO, bounded; what doesn't
//! fit waits in a FIFO at its sender), the doorbell's arming, and what is in a parcel.
//! Doesn't: sockets, rings (the shard rings the doorbell), decisions (routing's). The lanes don't know what is in them.
//! Driven by: each shard, through its own [`Post`].

pub mod doorbell;
pub mod lane;
pub mod parcel;

/// The shard that owns an address: see there.
pub use crate::routing::owner;
pub use lane::{Lanes, Post, Traffic};
pub use parcel::{Note, Parcel};

/// The atomics of the doorbell: a name of its own, so that a model checker can put its own in their place.
mod atomic {
    pub use std::sync::atomic::{fence, AtomicU8, Ordering};
}

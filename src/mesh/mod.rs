//! What shards tell each other.
//!
//! Owns: the lanes (`crossbeam_queue::ArrayQueue`, one for each ordered pair of shards, FIFO, bounded; what doesn't
//! fit waits in a FIFO at its sender), and the doorbell's arming.
//! Doesn't: sockets, rings (the shard rings the doorbell), decisions (routing's), know what is in a parcel.
//! Driven by: each shard, through its own [`Post`].

pub mod doorbell;
pub mod lane;

pub use lane::{Lanes, Post, Traffic};

/// The atomics of the doorbell: a name of its own, so that a model checker can put its own in their place.
mod atomic {
    pub use std::sync::atomic::{fence, AtomicU8, Ordering};
}

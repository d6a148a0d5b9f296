//! Runs: deliveries that take the same way one behind another, and so are handed from room to room in one go.
//!
//! What a flood consists of: transfers of one link, each a whole delivery in a frame of its own, and the deliveries that one
//! disposition settles. The engine that heard of them, routing, and the engine that is to say it all see a slice of items
//! here; what is the same for all of a run is said, looked up and counted once. A single delivery is a run of one.

use crate::ids::{DeliveryId, WireDelivery};

/// Items of one run at most: so many stay in the nearest cache on their way through the rooms.
pub const RUN_MAX: usize = 256;

/// A whole delivery that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// On its sender's session.
    pub delivery_id: u32,
    /// Where its payload is in the bytes that brought the run, and how much of it there is.
    pub start: u32,
    pub bytes: u32,
    /// Routing's id of it, once it has one; not for what is settled on both sides, which nobody speaks of again.
    pub delivery: DeliveryId,
}

/// A delivery that its consumer settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    pub delivery: DeliveryId,
    /// As it is called on the consumer's session.
    pub wire: WireDelivery,
    /// What it is called on its sender's, once routing said that.
    pub sender_id: u32,
    /// Of its payload, as routing knows.
    pub bytes: u64,
}

//! Ids: newtypes, so that a link's number can't be taken for a delivery's.
//!
//! A slab id is an index with a generation: a stale id (its slot was freed and used again) is recognised
//! instead of reaching a stranger.

/// Makes an id for an [`crate::arena::Arena`]: a slot's index and the generation that it was filled in.
macro_rules! slab_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub struct $name {
            pub index: u32,
            pub generation: u32,
        }
        impl crate::arena::SlabId for $name {
            #[inline]
            fn new(index: u32, generation: u32) -> Self {
                Self { index, generation }
            }
            #[inline]
            fn index(self) -> u32 {
                self.index
            }
            #[inline]
            fn generation(self) -> u32 {
                self.generation
            }
        }
    };
}

slab_id!(
    /// One AMQP connection on a shard.
    ConnectionId
);
slab_id!(
    /// One link of an engine, in the engine's own slab: what the shard says to an engine about a link.
    LinkHandle
);
slab_id!(
    /// One link as routing knows it.
    LinkId
);
slab_id!(
    /// One delivery on its way through the router, as routing knows it.
    DeliveryId
);
slab_id!(
    /// One address.
    AddressId
);

/// Our channel number of a session on a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct SessionNumber(pub u16);

/// Where a link of routing is: which connection's engine, and which link there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Port {
    pub connection: ConnectionId,
    pub link: LinkHandle,
}

/// A delivery on the wire: the session's and its delivery-id there. Given by an engine, kept by routing, and
/// handed back when routing speaks of that delivery to the engine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct WireDelivery {
    pub session: SessionNumber,
    pub delivery_id: u32,
}

/// One shard: a pinned thread.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ShardId(pub u16);

impl ConnectionId {
    /// Stands for the router itself, where it sends messages of its own.
    pub const ROUTER: ConnectionId = ConnectionId { index: u32::MAX, generation: u32::MAX };
}

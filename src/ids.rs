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

/// Set in an id's index: what it names is on another shard. No slab of one shard gets so far.
pub const ELSEWHERE: u32 = 1 << 31;

/// Shards of a router at most: a byte says which one.
pub const SHARDS_MAX: usize = 256;

/// Bits of a generation that an id keeps which says its shard, too.
const GENERATION_BITS: u32 = 24;

impl LinkId {
    /// Stands for a link on another shard. `generation`: of its id there.
    pub fn elsewhere(shard: ShardId, generation: u32) -> LinkId {
        LinkId { index: ELSEWHERE | u32::from(shard.0), generation }
    }

    /// The shard of a link that isn't here.
    #[inline]
    pub fn shard(self) -> Option<ShardId> {
        (self.index & ELSEWHERE != 0).then_some(ShardId(self.index as u16))
    }
}

impl DeliveryId {
    /// Stands for a delivery that nobody keeps: one that was settled from the begin and is over.
    pub const NONE: DeliveryId = DeliveryId { index: ELSEWHERE - 1, generation: u32::MAX };

    #[inline]
    pub fn is_elsewhere(self) -> bool {
        self.index & ELSEWHERE != 0
    }

    /// Stands for a delivery on another shard, which knows it by `self`. Of its generation there is room for so much that a
    /// stale one would have to be sixteen million lives of its slot old to reach a stranger.
    #[inline]
    pub fn elsewhere(self, shard: ShardId) -> DeliveryId {
        debug_assert!(!self.is_elsewhere() && usize::from(shard.0) < SHARDS_MAX);
        let generation = u32::from(shard.0) << GENERATION_BITS | self.generation & ((1 << GENERATION_BITS) - 1);
        DeliveryId { index: self.index | ELSEWHERE, generation }
    }

    /// The shard that `elsewhere` was told.
    #[inline]
    pub fn shard(self) -> ShardId {
        ShardId((self.generation >> GENERATION_BITS) as u16)
    }

    /// Whether `elsewhere` of this id is `other`, for any shard.
    #[inline]
    pub fn is_known_elsewhere_as(self, other: DeliveryId) -> bool {
        self.index == other.index & !ELSEWHERE && (self.generation ^ other.generation) << (32 - GENERATION_BITS) == 0
    }

    /// Stands for a delivery from the peer that is on another shard: there it is found by its link.
    pub fn arrived_elsewhere(shard: ShardId, link: LinkHandle) -> DeliveryId {
        let index = ELSEWHERE | u32::from(shard.0) << (31 - u8::BITS) | link.index;
        DeliveryId { index, generation: link.generation }
    }

    /// What `arrived_elsewhere` was told.
    pub fn arrival(self) -> (ShardId, LinkHandle) {
        let index = self.index & !ELSEWHERE;
        let shard = ShardId((index >> (31 - u8::BITS)) as u16);
        (shard, LinkHandle { index: index & ((1 << (31 - u8::BITS)) - 1), generation: self.generation })
    }
}

impl ConnectionId {
    /// Stands for the router itself, where it sends messages of its own.
    pub const ROUTER: ConnectionId = ConnectionId { index: u32::MAX, generation: u32::MAX };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_elsewhere_says_where() {
        let delivery = DeliveryId { index: 77, generation: 0xfe00_0001 };
        let away = delivery.elsewhere(ShardId(255));
        assert!(away.is_elsewhere() && !delivery.is_elsewhere());
        assert_eq!(away.shard(), ShardId(255));
        assert!(delivery.is_known_elsewhere_as(away));
        assert!(!DeliveryId { index: 77, generation: 2 }.is_known_elsewhere_as(away));
        assert!(!DeliveryId { index: 78, ..delivery }.is_known_elsewhere_as(away));
        let link = LinkHandle { index: 131_072, generation: u32::MAX };
        assert_eq!(DeliveryId::arrived_elsewhere(ShardId(200), link).arrival(), (ShardId(200), link));
        assert_eq!(LinkId::elsewhere(ShardId(3), 9).shard(), Some(ShardId(3)));
        assert_eq!(LinkId { index: 3, generation: 9 }.shard(), None);
    }
}

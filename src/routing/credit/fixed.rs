//! The credit of an anonymous sender: no address, so no share; the linkCapacity of its listener.
//!
//! A delivery that waits because its address has no room holds its part of the capacity until it is assigned,
//! so a flood to one stuck address can't grow beyond it.

/// One anonymous sender's credit.
///
/// ```
/// use ringway::routing::credit::FixedCredit;
/// let mut credit = FixedCredit::new(10);
/// assert_eq!(credit.poll_grant(false), Some(10));
/// assert_eq!(credit.poll_grant(false), None);
/// for _ in 0..3 {
///     credit.arrived();
/// }
/// // They wait: nothing is replenished.
/// assert_eq!(credit.poll_grant(false), None);
/// credit.left_waiting(2);
/// assert_eq!(credit.poll_grant(false), Some(2));
/// ```
#[derive(Debug, Clone)]
pub struct FixedCredit {
    capacity: u32,
    unused: u32,
    waiting: u32,
    /// Waiting on other shards.
    forwarded: u32,
    /// Another shard gives its credit: what is granted here tells that one how many no longer wait.
    is_elsewhere: bool,
}

impl FixedCredit {
    pub fn new(capacity: u32) -> Self {
        Self { capacity, unused: 0, waiting: 0, forwarded: 0, is_elsewhere: false }
    }

    /// The sender has so much already.
    pub fn brought(&mut self, unused: u32) {
        self.unused = unused;
    }

    /// Another shard gives its credit.
    pub fn given_elsewhere(&mut self) {
        self.unused = self.capacity;
        self.is_elsewhere = true;
    }

    /// A delivery came in.
    pub fn arrived(&mut self) {
        self.unused = self.unused.saturating_sub(1);
        self.waiting = self.waiting.saturating_add(1);
    }

    /// A delivery came in, and went to another shard, where it waits.
    pub fn forwarded(&mut self) {
        self.unused = self.unused.saturating_sub(1);
        self.forwarded = self.forwarded.saturating_add(1);
    }

    /// So many of those wait no longer.
    pub fn forwarded_left(&mut self, deliveries: u32) {
        debug_assert!(deliveries <= self.forwarded);
        self.forwarded = self.forwarded.saturating_sub(deliveries);
    }

    /// Deliveries that waited are assigned, settled or released.
    pub fn left_waiting(&mut self, deliveries: u32) {
        debug_assert!(deliveries <= self.waiting);
        self.waiting = self.waiting.saturating_sub(deliveries);
    }

    /// The sender gave credit back.
    pub fn returned(&mut self, credit: u32) {
        self.unused = self.unused.saturating_sub(credit);
    }

    /// What to grant now, if anything. `is_held_back`: memory is short, so that only who has no credit gets it, for one delivery.
    pub fn poll_grant(&mut self, is_held_back: bool) -> Option<u32> {
        let held = self.unused.saturating_add(self.waiting).saturating_add(self.forwarded);
        let mut add = self.capacity.saturating_sub(held);
        if is_held_back && !self.is_elsewhere {
            add = add.min(1_u32.saturating_sub(self.unused));
        }
        if add == 0 {
            return None;
        }
        self.unused += add;
        Some(add)
    }

    pub fn unused(&self) -> u32 {
        self.unused
    }

    pub fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Deliveries that wait on other shards.
    pub fn waiting_elsewhere(&self) -> u32 {
        self.forwarded
    }

    pub fn capacity(&self) -> u32 {
        self.capacity
    }
}

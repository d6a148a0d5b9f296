//! What all shards together may hold for peers: one account against one ceiling.
//!
//! Owns: the ceiling (`memoryLimit`), what counts against it, what peers were promised that they may send, and how many
//! connections there are. Doesn't: hold memory, or decide what is given up: who asks does.
//! Driven by: pools (a chunk at a time), engines (session windows, sessions with their rings, links), dispatch (output buffers, parcels,
//! connections, links), routing (records of deliveries), control (answers of management, rows that it keeps).
//!
//! Shared by all shards, in plain atomic counters: nobody waits for anybody. They are touched in coarse steps (a chunk, a
//! window, a buffer that grew, a link), never once a message. A reader may see a figure that is a moment old; each bound
//! leaves room for that.
//!
//! Invariants:
//! - Windows are opened only while what is used and what is promised stay below half of the ceiling together. What a
//!   session may send beyond that is one frame, and only while it holds nothing; it doesn't count as promised, so that
//!   it keeps nothing back from others.
//! - Above half of it ([`Memory::is_half_used`]) senders get credit for one delivery at a time.
//! - Above seven eighths ([`Memory::is_full`]) nothing new is taken: a delivery that begins is given back to its sender
//!   unless it goes straight on into a consumer's output, which has its own bound; a link is refused, and a session.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The account of one router.
#[derive(Debug)]
pub struct Memory {
    limit: usize,
    connections_max: usize,
    used: AtomicUsize,
    used_max: AtomicUsize,
    /// What peers may send by the windows that they were told and haven't used.
    promised: AtomicUsize,
    connections: AtomicUsize,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::new(usize::MAX, usize::MAX)
    }
}

impl Memory {
    /// `limit`: bytes. `connections_max`: see [`Self::join`].
    pub fn new(limit: usize, connections_max: usize) -> Memory {
        let zero = || AtomicUsize::new(0);
        Memory { limit, connections_max, used: zero(), used_max: zero(), promised: zero(), connections: zero() }
    }

    /// Bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes that count against the ceiling now.
    #[inline]
    pub fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// The most that counted at a time.
    pub fn used_max(&self) -> usize {
        self.used_max.load(Relaxed)
    }

    #[inline]
    pub fn add(&self, bytes: usize) {
        let now = self.used.fetch_add(bytes, Relaxed) + bytes;
        if now > self.used_max.load(Relaxed) {
            self.used_max.fetch_max(now, Relaxed);
        }
    }

    #[inline]
    pub fn remove(&self, bytes: usize) {
        let before = self.used.fetch_sub(bytes, Relaxed);
        debug_assert!(before >= bytes, "more is given back than was taken");
    }

    /// What somebody has of it grew or shrank.
    pub fn changed(&self, before: usize, now: usize) {
        match now.checked_sub(before) {
            Some(more) => self.add(more),
            None => self.remove(before - now),
        }
    }

    /// So much is used that what can be made smaller should be: waiting payload is copied together, outputs stay short.
    #[inline]
    pub fn is_tight(&self) -> bool {
        self.used() > self.limit / 4
    }

    /// So much is used that senders get credit for one delivery at a time.
    #[inline]
    pub fn is_half_used(&self) -> bool {
        self.used() > self.limit / 2
    }

    /// So much is used that nothing new is taken.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.used() > self.limit / 8 * 7
    }

    // ── windows ──

    /// Bytes that may be promised lightly: half of what may be at all, less what was or is used.
    pub fn spare(&self) -> usize {
        (self.limit / 8).saturating_sub(self.promised.load(Relaxed).max(self.used()))
    }

    /// Bytes that are promised now.
    pub fn promised(&self) -> usize {
        self.promised.load(Relaxed)
    }

    /// Promises up to `wanted` bytes; gives how many.
    pub fn promise(&self, wanted: usize) -> usize {
        let mut granted = 0;
        let _ = self.promised.fetch_update(Relaxed, Relaxed, |promised| {
            let left = (self.limit / 2).saturating_sub(self.used()).min(self.limit / 4).saturating_sub(promised);
            granted = wanted.min(left);
            Some(promised + granted)
        });
        granted
    }

    /// What was promised is here now, or never will be.
    pub fn redeem(&self, bytes: usize) {
        let before = self.promised.fetch_sub(bytes, Relaxed);
        debug_assert!(before >= bytes, "more is redeemed than was promised");
    }

    // ── connections ──

    /// A connection begins. Where there are as many as may be, it is to be told so; where there are far more (each is
    /// told, but not all listen), nothing but its end is left.
    pub fn join(&self) -> Admission {
        let before = self.connections.fetch_add(1, Relaxed);
        let surplus = before.saturating_sub(self.connections_max);
        match before < self.connections_max {
            true => Admission::Welcome,
            false if surplus < self.connections_max / 8 + 16 => Admission::Refused,
            false => Admission::Dropped,
        }
    }

    /// A connection ended, however it was admitted.
    pub fn leave(&self) {
        self.connections.fetch_sub(1, Relaxed);
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Relaxed)
    }
}

/// What becomes of a connection that begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    Welcome,
    /// It hears that there are too many.
    Refused,
    /// It hears nothing.
    Dropped,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promises_stop_at_half_of_the_ceiling_less_what_is_used() {
        let memory = Memory::new(1000, 10);
        assert_eq!(memory.promise(100), 100);
        memory.add(300);
        assert_eq!((memory.promise(1000), memory.promise(1000)), (100, 0));
        assert!(memory.is_tight() && !memory.is_full());
        memory.redeem(200);
        memory.add(600);
        assert_eq!(memory.promise(1), 0);
        assert!(memory.is_full());
        memory.remove(900);
        // Never more than a quarter at a time, lightly an eighth.
        assert_eq!(memory.spare(), 125);
        assert_eq!(memory.promise(1000), 250);
    }

    #[test]
    fn connections_beyond_the_bound_are_told_so_and_many_more_are_dropped() {
        let memory = Memory::new(0, 8);
        let seen: Vec<Admission> = (0..40).map(|_| memory.join()).collect();
        let count = |admission| seen.iter().filter(|seen| **seen == admission).count();
        assert_eq!((count(Admission::Welcome), count(Admission::Refused), count(Admission::Dropped)), (8, 17, 15));
        (0..33).for_each(|_| memory.leave());
        assert_eq!(memory.join(), Admission::Welcome);
    }
}

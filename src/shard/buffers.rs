//! Where received bytes land: pooled chunks that the kernel picks from a provided buffer ring.
//!
//! A receive is armed without a buffer; the kernel takes one only when bytes are there. So an idle connection holds
//! none, and memory follows what is in use at the same time.
//!
//! A chunk takes what several receives bring, one behind another (IOU_PBUF_RING_INC, Linux 6.12), until it is full: a message that
//! comes in small pieces and has to wait would otherwise keep a chunk a piece alive. So a chunk may be large, and a receive brings
//! what a flood left in the socket: larger turns, larger sends, fewer wake-ups of the receiving process. (An older
//! kernel fills one receive's chunk and no more: there they are smaller.)
//!
//! Owns: the ring of offered chunks, their buffer ids, how far each is filled.
//! Driven by: the shard: [`ReceiveBuffers::take`] on each completion that names a buffer, [`ReceiveBuffers::refill`]
//! at a turn's end.
//!
//! Invariants:
//! - The kernel writes a chunk on offer any time, behind what is filled; ranges lie on the filled part only.
//! - A full chunk goes on offer again only as a fresh one of the pool, when its last range is gone.
//! - How many are on offer follows demand between two bounds: few stay warm in the cache, many bridge a burst.

use super::ring::{Ring, RingError};
use crate::limits;
use crate::memory::Memory;
use crate::payload::{Chunk, Pool, Range};
use io_uring::types::BufRingEntry;
use std::alloc::{alloc_zeroed, dealloc, handle_alloc_error, Layout};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::Arc;

/// The buffer group of receives.
pub const BUFFER_GROUP: u16 = 0;
/// Chunks on offer at least, where the memory limit allows it: a 64th of that.
const OFFERED_MIN: u16 = 4;
/// Entries of the ring: a power of two.
const ENTRIES: u16 = 256;
/// Bytes on offer at most, and as many of free chunks that are kept.
const BYTES_MAX: usize = 16 * 1024 * 1024;
/// Turns without exhaustion after which fewer are offered.
const CALM_TURNS: u32 = 4096;
/// IOU_PBUF_RING_INC: the kernel fills a buffer in several goes.
const INCREMENTAL: u16 = 2;

pub struct ReceiveBuffers {
    pool: Pool,
    /// The ring that the kernel reads: ENTRIES of them, page aligned.
    entries: NonNull<BufRingEntry>,
    tail: u16,
    /// The chunk on offer under each buffer id.
    offered: Vec<Option<Chunk>>,
    /// How many bytes of it receives have filled.
    filled: Vec<u32>,
    free_ids: Vec<u16>,
    least: u16,
    target: u16,
    calm_turns: u32,
}

fn layout() -> Layout {
    Layout::from_size_align(ENTRIES as usize * std::mem::size_of::<BufRingEntry>(), 4096).expect("a fixed size")
}

impl ReceiveBuffers {
    /// Registers the group with the ring and offers the first chunks.
    pub fn new(ring: &Ring, memory: Arc<Memory>) -> Result<ReceiveBuffers, RingError> {
        // SAFETY: the layout isn't of size zero.
        let entries = unsafe { alloc_zeroed(layout()) }.cast::<BufRingEntry>();
        let Some(entries) = NonNull::new(entries) else { handle_alloc_error(layout()) };
        // SAFETY: the memory is aligned, of the right size, and freed only after `unregister` or the ring's end.
        let register = |flags| unsafe {
            ring.inner().submitter().register_buf_ring_with_flags(entries.as_ptr() as u64, ENTRIES, BUFFER_GROUP, flags)
        };
        // An older kernel doesn't know the flag.
        let incremental = register(INCREMENTAL).is_ok();
        if !incremental {
            register(0).map_err(|error| match error.raw_os_error() {
                Some(libc::EINVAL) => RingError::TooOld,
                _ => RingError::Other("the receive buffers can't be registered", error),
            })?;
        }
        let chunk_bytes = if incremental { limits::RECEIVE_CHUNK_BYTES } else { limits::CHUNK_BYTES };
        let least = (memory.limit() / 64 / chunk_bytes).clamp(1, OFFERED_MIN.into()) as u16;
        let mut buffers = ReceiveBuffers {
            pool: Pool::counted(chunk_bytes, BYTES_MAX / chunk_bytes, memory),
            entries,
            tail: 0,
            offered: (0..ENTRIES).map(|_| None).collect(),
            filled: vec![0; ENTRIES as usize],
            free_ids: (0..ENTRIES).rev().collect(),
            least,
            target: least,
            calm_turns: 0,
        };
        buffers.refill();
        Ok(buffers)
    }

    /// The bytes that a completion brought into the buffer that it named. `more`: the kernel goes on filling it. None:
    /// no such buffer is on offer, which only a broken kernel would say.
    #[inline]
    pub fn take(&mut self, buffer: u16, count: usize, more: bool) -> Option<Range> {
        let offered = self.offered.get_mut(buffer as usize)?;
        let chunk = if more { offered.clone()? } else { offered.take()? };
        let start = self.filled[buffer as usize] as usize;
        if !more {
            self.free_ids.push(buffer);
        }
        let count = count.min(chunk.capacity() - start);
        self.filled[buffer as usize] = (start + count) as u32;
        // SAFETY: the kernel filled these bytes, and writes only behind them from now on.
        Some(unsafe { chunk.range(start, count) })
    }

    /// A receive found nothing on offer: offer more from now on.
    pub fn exhausted(&mut self) {
        // On offer is in use: of a small memory limit only a part.
        let most = BYTES_MAX.min(self.pool.memory().limit() / 16) / self.pool.chunk_bytes();
        self.target = (self.target * 2).min(most.clamp(self.least.into(), ENTRIES.into()) as u16);
        self.calm_turns = 0;
    }

    /// Offers chunks up to the target.
    #[inline]
    pub fn refill(&mut self) {
        self.calm_turns += 1;
        if self.calm_turns >= CALM_TURNS {
            self.target = (self.target / 2).max(self.least);
            self.calm_turns = 0;
        }
        let before = self.tail;
        while (ENTRIES as usize - self.free_ids.len()) < self.target as usize {
            let Some(buffer) = self.free_ids.pop() else { break };
            let chunk = self.pool.take();
            debug_assert!(chunk.is_unique());
            // SAFETY: inside the ring; the kernel reads an entry only below the tail, which is moved afterwards.
            let entry = unsafe { &mut *self.entries.as_ptr().add((self.tail & (ENTRIES - 1)) as usize) };
            entry.set_addr(chunk.data() as u64);
            entry.set_len(chunk.capacity() as u32);
            entry.set_bid(buffer);
            self.offered[buffer as usize] = Some(chunk);
            self.filled[buffer as usize] = 0;
            self.tail = self.tail.wrapping_add(1);
        }
        if self.tail != before {
            // SAFETY: the tail is a u16 inside of the ring's first entry, which the kernel reads with acquire.
            unsafe { &*BufRingEntry::tail(self.entries.as_ptr()).cast::<AtomicU16>() }
                .store(self.tail, Ordering::Release);
        }
    }

    /// Takes the group away from the kernel; afterwards the chunks are ours. No receive is in flight.
    pub fn unregister(&mut self, ring: &Ring) {
        if ring.inner().submitter().unregister_buf_ring(BUFFER_GROUP).is_ok() {
            self.offered.iter_mut().for_each(|chunk| *chunk = None);
        }
    }
}

impl Drop for ReceiveBuffers {
    fn drop(&mut self) {
        if self.offered.iter().any(Option::is_some) {
            // Still the kernel's: leaked rather than written to after it was freed.
            self.offered.drain(..).for_each(std::mem::forget);
            return;
        }
        // SAFETY: allocated with this layout; the kernel no longer has it.
        unsafe { dealloc(self.entries.as_ptr().cast(), layout()) }
    }
}

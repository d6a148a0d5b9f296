//! Ref-counted chunks and ranges in them.
//!
//! Owns: the memory that received bytes live in, from the read that brings them to the send that takes them.
//! A [`Chunk`] is a piece of memory of a fixed size; a [`Range`] is some of its bytes and keeps it alive; a
//! [`Payload`] is the ranges that make a message's bytes, in order. When the last reference to a chunk goes, it
//! returns to its [`Pool`].
//!
//! Invariants:
//! - A chunk stays on the thread that made it (`Rc` inside); counts are plain integers.
//! - Bytes under a range never change. A chunk's filler (the kernel, a [`Packer`]) writes only behind the bytes
//!   that ranges were made of.
//! - Nothing is allocated while the pool has a free chunk, but for what is longer than one and copied.
//! - Whatever size a chunk of a counted pool has, it counts in the account until its last reference goes.

use crate::memory::Memory;
use smallvec::SmallVec;
use std::alloc::{alloc, dealloc, handle_alloc_error, Layout};
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;

/// Ranges of fewer bytes become one where many lie side by side: each costs as much again as a few bytes do.
const SHORT_BYTES: usize = 64;
/// So many short ones lie side by side at a payload's end at most.
const SHORT_RANGES_MAX: usize = 32;
/// What becomes one range at a time is shorter than this.
pub const JOINED_BYTES_MAX: usize = SHORT_RANGES_MAX * SHORT_BYTES;

/// A payload of more ranges than this keeps those that were taken off it, emptied, until they are half of its ranges.
const RANGES_SHIFTED_MAX: usize = 16;

/// Data begins here, behind the header; a cache line.
const DATA_OFFSET: usize = 64;

struct Header {
    references: Cell<u32>,
    capacity: u32,
    /// A number for the chunk's user (the shard: its buffer id in the ring).
    tag: Cell<u32>,
    pool: Option<Rc<PoolInner>>,
}

const _: () = assert!(std::mem::size_of::<Header>() <= DATA_OFFSET);

fn layout(capacity: usize) -> Layout {
    // Capacity is bounded by u32, so the sum can't overflow on the 64-bit targets that this router runs on.
    Layout::from_size_align(DATA_OFFSET + capacity, 64).expect("a chunk's size is valid")
}

fn allocate(capacity: usize, pool: Option<Rc<PoolInner>>) -> NonNull<Header> {
    let capacity_u32 = u32::try_from(capacity).expect("a chunk is smaller than 4 GiB");
    let layout = layout(capacity);
    // SAFETY: the layout's size is at least DATA_OFFSET, not zero.
    let memory = unsafe { alloc(layout) }.cast::<Header>();
    let Some(header) = NonNull::new(memory) else { handle_alloc_error(layout) };
    // SAFETY: freshly allocated, large enough and aligned for a Header.
    unsafe { header.write(Header { references: Cell::new(1), capacity: capacity_u32, tag: Cell::new(0), pool }) };
    header
}

/// # Safety
/// `header` came from [`allocate`], and nobody uses it any more.
unsafe fn free(header: NonNull<Header>) {
    let capacity = header.as_ref().capacity as usize;
    std::ptr::drop_in_place(header.as_ptr());
    dealloc(header.as_ptr().cast(), layout(capacity));
}

struct PoolInner {
    chunk_bytes: usize,
    /// Free chunks that are kept; more go back to the allocator.
    kept_max: usize,
    free: RefCell<Vec<NonNull<Header>>>,
    in_use: Cell<usize>,
    /// Chunks that somebody holds count here.
    memory: Arc<Memory>,
}

impl Drop for PoolInner {
    fn drop(&mut self) {
        for header in self.free.get_mut().drain(..) {
            // SAFETY: a free chunk has no reference; its header holds no pool (it was taken out when it came back).
            unsafe { free(header) }
        }
    }
}

/// Where a thread's chunks come from and return to.
#[derive(Clone)]
pub struct Pool(Rc<PoolInner>);

impl Pool {
    /// A pool of chunks of `chunk_bytes` each, which keeps up to `kept_max` free ones.
    pub fn new(chunk_bytes: usize, kept_max: usize) -> Pool {
        Pool::counted(chunk_bytes, kept_max, Arc::default())
    }

    /// As `new`; chunks in use count in `memory`, and while that is tight none is kept free.
    pub fn counted(chunk_bytes: usize, kept_max: usize, memory: Arc<Memory>) -> Pool {
        Pool(Rc::new(PoolInner {
            chunk_bytes,
            kept_max,
            free: RefCell::new(Vec::with_capacity(kept_max.min(1024))),
            in_use: Cell::new(0),
            memory,
        }))
    }

    /// A chunk with one reference: a free one, else a new one.
    pub fn take(&self) -> Chunk {
        self.0.in_use.set(self.0.in_use.get() + 1);
        self.0.memory.add(self.0.chunk_bytes);
        let header = self.0.free.borrow_mut().pop();
        match header {
            Some(mut header) => {
                // SAFETY: a free chunk has no reference, so this is the only access.
                let inner = unsafe { header.as_mut() };
                inner.references.set(1);
                inner.pool = Some(self.0.clone());
                Chunk(header)
            }
            None => Chunk(allocate(self.0.chunk_bytes, Some(self.0.clone()))),
        }
    }

    /// A chunk of another size, which goes back to the allocator.
    fn take_odd(&self, capacity: usize) -> Chunk {
        self.0.in_use.set(self.0.in_use.get() + 1);
        self.0.memory.add(capacity);
        Chunk(allocate(capacity, Some(self.0.clone())))
    }

    pub fn memory(&self) -> &Arc<Memory> {
        &self.0.memory
    }

    pub fn chunk_bytes(&self) -> usize {
        self.0.chunk_bytes
    }

    /// Chunks that somebody holds.
    pub fn in_use(&self) -> usize {
        self.0.in_use.get()
    }

    /// Chunks that wait to be taken.
    pub fn free(&self) -> usize {
        self.0.free.borrow().len()
    }
}

/// A counted reference to a piece of memory of fixed size.
pub struct Chunk(NonNull<Header>);

impl Chunk {
    /// A chunk outside of any pool, filled with a copy of `bytes`.
    pub fn copied(bytes: &[u8]) -> Chunk {
        let chunk = Chunk(allocate(bytes.len(), None));
        // SAFETY: fresh memory of exactly that length, no range on it yet.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), chunk.data(), bytes.len()) };
        chunk
    }

    #[inline]
    fn header(&self) -> &Header {
        // SAFETY: alive as long as this reference is.
        unsafe { self.0.as_ref() }
    }

    /// Where the bytes are, for whom fills them (the kernel). Writing under a live range is the caller's fault.
    #[inline]
    pub fn data(&self) -> *mut u8 {
        // SAFETY: DATA_OFFSET is inside the allocation.
        unsafe { self.0.as_ptr().cast::<u8>().add(DATA_OFFSET) }
    }

    #[inline]
    pub fn capacity(&self) -> usize {
        self.header().capacity as usize
    }

    /// Whether this is the only reference.
    #[inline]
    pub fn is_unique(&self) -> bool {
        self.header().references.get() == 1
    }

    #[inline]
    pub fn tag(&self) -> u32 {
        self.header().tag.get()
    }

    #[inline]
    pub fn set_tag(&self, tag: u32) {
        self.header().tag.set(tag);
    }

    /// The bytes from `start`, `len` of them.
    ///
    /// # Safety
    /// They were filled, and stay as they are while the range lives.
    #[inline]
    pub unsafe fn range(&self, start: usize, len: usize) -> Range {
        assert!(start + len <= self.capacity(), "a range lies inside its chunk");
        Range { chunk: self.clone(), start: start as u32, len: len as u32 }
    }
}

impl Clone for Chunk {
    #[inline]
    fn clone(&self) -> Chunk {
        let references = &self.header().references;
        references.set(references.get().checked_add(1).expect("fewer than 4 billion references"));
        Chunk(self.0)
    }
}

impl Drop for Chunk {
    #[inline]
    fn drop(&mut self) {
        let references = &self.header().references;
        let left = references.get() - 1;
        references.set(left);
        if left == 0 {
            release(self.0);
        }
    }
}

/// The last reference went: back to the pool, or to the allocator.
#[cold]
#[inline(never)]
fn release(mut header: NonNull<Header>) {
    // SAFETY: no reference is left, so this is the only access.
    let pool = unsafe { header.as_mut().pool.take() };
    let Some(pool) = pool else {
        // SAFETY: as above.
        unsafe { free(header) };
        return;
    };
    // SAFETY: as above.
    let capacity = unsafe { header.as_ref() }.capacity as usize;
    pool.in_use.set(pool.in_use.get() - 1);
    pool.memory.remove(capacity);
    let mut waiting = pool.free.borrow_mut();
    if capacity == pool.chunk_bytes && waiting.len() < pool.kept_max && !pool.memory.is_tight() {
        waiting.push(header);
    } else {
        // SAFETY: as above.
        unsafe { free(header) };
    }
}

/// Some bytes of a chunk, which they keep alive.
#[derive(Clone)]
pub struct Range {
    chunk: Chunk,
    start: u32,
    len: u32,
}

impl Range {
    /// A range of its own over a copy of `bytes`.
    pub fn copied(bytes: &[u8]) -> Range {
        Range { chunk: Chunk::copied(bytes), start: 0, len: bytes.len() as u32 }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: a range's bytes were filled and don't change while it lives (see `Chunk::range`).
        unsafe { std::slice::from_raw_parts(self.chunk.data().add(self.start as usize), self.len as usize) }
    }

    /// The part from `from` to `to` (exclusive), both counted from this range's begin.
    #[inline]
    pub fn slice(&self, from: usize, to: usize) -> Range {
        assert!(from <= to && to <= self.len as usize, "a part lies inside its range");
        Range { chunk: self.chunk.clone(), start: self.start + from as u32, len: (to - from) as u32 }
    }

    /// Drops the first `count` bytes.
    #[inline]
    pub fn advance(&mut self, count: usize) {
        assert!(count <= self.len as usize, "a range can't advance beyond its end");
        self.start += count as u32;
        self.len -= count as u32;
    }

    /// Takes the first `count` bytes off.
    #[inline]
    pub fn split_to(&mut self, count: usize) -> Range {
        let head = self.slice(0, count);
        self.advance(count);
        head
    }

    #[inline]
    pub fn chunk(&self) -> &Chunk {
        &self.chunk
    }
}

impl std::fmt::Debug for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Range({}+{})", self.start, self.len)
    }
}

/// A message's bytes, or some of them: ranges in order. Of many, those in front may be empty, since they were taken off.
#[derive(Clone, Default, Debug)]
pub struct Payload {
    ranges: SmallVec<[Range; 1]>,
}

impl Payload {
    #[inline]
    pub fn new() -> Payload {
        Payload { ranges: SmallVec::new() }
    }

    pub fn copied(bytes: &[u8]) -> Payload {
        Payload::from(Range::copied(bytes))
    }

    /// Bytes in all.
    #[inline]
    pub fn len(&self) -> usize {
        match self.ranges() {
            // As a rule.
            [range] => range.len(),
            ranges => ranges.iter().map(Range::len).sum(),
        }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ranges.iter().all(Range::is_empty)
    }

    #[inline]
    pub fn push(&mut self, range: Range) {
        if range.is_empty() {
            return;
        }
        match self.ranges.last_mut() {
            // Its neighbour in memory, as packed pieces are: so a message in tiny pieces stays few ranges.
            Some(last) if last.chunk.0 == range.chunk.0 && last.start + last.len == range.start => {
                last.len += range.len;
            }
            _ => self.ranges.push(range),
        }
    }

    /// Puts all of `more` behind what is here.
    #[inline]
    pub fn append(&mut self, more: Payload) {
        if self.ranges.is_empty() {
            *self = more;
        } else {
            more.ranges.into_iter().for_each(|range| self.push(range));
        }
    }

    #[inline]
    pub fn ranges(&self) -> &[Range] {
        &self.ranges
    }

    /// Takes the first `count` bytes off; `count` is at most the length. Costs what is taken, whatever stays.
    pub fn split_to(&mut self, mut count: usize) -> Payload {
        match &mut self.ranges[..] {
            // As a rule.
            [range] if range.len() > count => return range.split_to(count).into(),
            _ => {}
        }
        let mut head = Payload::new();
        let emptied = self.emptied();
        let mut whole = emptied;
        for range in self.ranges[emptied..].iter_mut() {
            if range.len() > count {
                if count > 0 {
                    head.ranges.push(range.split_to(count));
                    count = 0;
                }
                break;
            }
            count -= range.len();
            whole += 1;
            head.ranges.push(range.clone());
            if count == 0 {
                break;
            }
        }
        assert!(count == 0, "a payload can't be split behind its end");
        if self.ranges.len() <= RANGES_SHIFTED_MAX || whole >= self.ranges.len() / 2 {
            self.ranges.drain(..whole);
        } else {
            self.empty(emptied, whole);
        }
        head
    }

    /// How many ranges in front are empty.
    #[inline]
    fn emptied(&self) -> usize {
        match self.ranges.first() {
            Some(first) if first.is_empty() => self.ranges.partition_point(Range::is_empty),
            _ => 0,
        }
    }

    /// Lets go of the chunks of these ranges. All that are empty refer to one: that of the last range, which is needed longest.
    #[cold]
    fn empty(&mut self, from: usize, to: usize) {
        let kept = if from > 0 { self.ranges.first() } else { self.ranges.last() };
        if let Some(nothing) = kept.map(|range| range.slice(0, 0)) {
            self.ranges[from..to].fill(nothing);
        }
    }

    /// A copy in one piece, for tests and slow paths.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len());
        for range in &self.ranges {
            bytes.extend_from_slice(range.as_slice());
        }
        bytes
    }
}

impl From<Range> for Payload {
    #[inline]
    fn from(range: Range) -> Payload {
        if range.is_empty() {
            return Payload::new();
        }
        Payload { ranges: SmallVec::from_buf([range]) }
    }
}

/// Copies `bytes` into a chunk, from `at` on.
///
/// # Safety
/// There is room for them, and no range lies on it.
#[inline]
unsafe fn fill(chunk: &Chunk, at: usize, bytes: &[u8]) -> Range {
    std::ptr::copy_nonoverlapping(bytes.as_ptr(), chunk.data().add(at), bytes.len());
    chunk.range(at, bytes.len())
}

/// Copies small payloads that have to wait into chunks of their own, one behind another, so that a hundred
/// bytes don't keep a whole receive chunk alive.
pub struct Packer {
    pool: Pool,
    current: Option<(Chunk, usize)>,
}

impl Packer {
    pub fn new(pool: Pool) -> Packer {
        Packer { pool, current: None }
    }

    /// A range of the same bytes in a packed chunk, or in one of its own where they are more than fit. Either is counted.
    pub fn pack(&mut self, bytes: &[u8]) -> Range {
        if bytes.len() > self.pool.chunk_bytes() {
            // SAFETY: fresh memory of exactly that length.
            return unsafe { fill(&self.pool.take_odd(bytes.len()), 0, bytes) };
        }
        let (chunk, used) = match self.current.take() {
            // Nobody holds a range any more: begin at its start again.
            Some((chunk, _)) if chunk.is_unique() && bytes.len() <= chunk.capacity() => (chunk, 0),
            Some((chunk, used)) if used + bytes.len() <= chunk.capacity() => (chunk, used),
            _ => (self.pool.take(), 0),
        };
        // SAFETY: the room behind `used` is inside the chunk and no range lies on it.
        let range = unsafe { fill(&chunk, used, bytes) };
        self.current = Some((chunk, used + bytes.len()));
        range
    }

    /// All these bytes, in as many packed chunks as they take.
    pub fn pack_all(&mut self, bytes: &[u8]) -> Payload {
        let mut payload = Payload::new();
        for piece in bytes.chunks(self.pool.chunk_bytes()) {
            payload.push(self.pack(piece));
        }
        payload
    }

    /// Packs each range of a payload that is shorter than `below` bytes.
    pub fn pack_payload(&mut self, payload: &mut Payload, below: usize) {
        let emptied = payload.emptied();
        for range in payload.ranges[emptied..].iter_mut() {
            if range.len() < below {
                *range = self.pack(range.as_slice());
            }
        }
    }

    /// As [`Payload::append`], of what comes in pieces: short ones that don't lie side by side, as those of streams that are packed
    /// by turns, are joined. Of two neighbours one has `SHORT_BYTES` or more, but for the last `SHORT_RANGES_MAX` ranges; a byte
    /// is copied a few times at most.
    pub fn append(&mut self, payload: &mut Payload, more: Payload) {
        if payload.ranges.is_empty() {
            *payload = more;
            return;
        }
        for range in more.ranges {
            if range.len() >= SHORT_BYTES {
                // Nothing will be joined with the short ones in front of it any more.
                self.join_short(payload, 2);
                payload.push(range);
            } else {
                payload.push(range);
                self.join_short(payload, SHORT_RANGES_MAX);
            }
        }
    }

    /// Makes one range of the short ones at a payload's end, where they are so many.
    #[inline]
    fn join_short(&mut self, payload: &mut Payload, least: usize) {
        if payload.ranges.len() < least {
            return;
        }
        let last = payload.ranges.iter().rev().take(SHORT_RANGES_MAX);
        let count = last.take_while(|range| (1..SHORT_BYTES).contains(&range.len())).count();
        if count >= least {
            self.join_last(payload, count);
        }
    }

    #[cold]
    fn join_last(&mut self, payload: &mut Payload, count: usize) {
        let first = payload.ranges.len() - count;
        let (mut joined, mut len) = ([0; JOINED_BYTES_MAX], 0);
        for range in payload.ranges.drain(first..) {
            joined[len..len + range.len()].copy_from_slice(range.as_slice());
            len += range.len();
        }
        payload.push(self.pack(&joined[..len]));
    }

    /// Lets go of a chunk that is not full, where nothing waits in it.
    pub fn idle(&mut self) {
        if self.current.as_ref().is_some_and(|(chunk, _)| chunk.is_unique()) {
            self.current = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(pool: &Pool, bytes: &[u8]) -> Range {
        let chunk = pool.take();
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), chunk.data(), bytes.len());
            chunk.range(0, bytes.len())
        }
    }

    #[test]
    fn a_chunk_returns_to_its_pool_with_its_last_range() {
        let pool = Pool::new(64, 2);
        let range = filled(&pool, b"hello world");
        let part = range.slice(6, 11);
        drop(range);
        assert_eq!((pool.in_use(), pool.free()), (1, 0));
        assert_eq!(part.as_slice(), b"world");
        drop(part);
        assert_eq!((pool.in_use(), pool.free()), (0, 1));
        let _again = pool.take();
        assert_eq!((pool.in_use(), pool.free()), (1, 0));
    }

    #[test]
    fn a_pool_keeps_no_more_than_it_was_told() {
        let pool = Pool::new(16, 1);
        let (a, b) = (pool.take(), pool.take());
        drop(a);
        drop(b);
        assert_eq!((pool.in_use(), pool.free()), (0, 1));
    }

    #[test]
    fn pieces_that_are_packed_side_by_side_are_one_range() {
        let mut packer = Packer::new(Pool::new(256, 2));
        let mut payload = Payload::new();
        for byte in 0..=255u8 {
            payload.append(packer.pack(&[byte]).into());
        }
        assert_eq!(payload.ranges().len(), 1);
        payload.append(packer.pack(&[7]).into());
        assert_eq!(payload.ranges().len(), 2);
        assert_eq!(payload.to_vec(), (0..=255).chain([7]).collect::<Vec<u8>>());
    }

    /// Payloads to which pieces of these sizes come by turns, through one packer; with what each is.
    fn by_turns(packer: &mut Packer, sizes: &[usize]) -> [(Payload, Vec<u8>); 2] {
        let mut payloads = [(Payload::new(), Vec::new()), (Payload::new(), Vec::new())];
        for (number, size) in sizes.iter().enumerate() {
            for (turn, (payload, bytes)) in payloads.iter_mut().enumerate() {
                let piece = vec![(number + turn) as u8; *size];
                let packed = packer.pack(&piece);
                packer.append(payload, packed.into());
                bytes.extend(piece);
            }
        }
        payloads
    }

    #[test]
    fn a_payload_in_tiny_pieces_stays_few_ranges() {
        let pool = Pool::new(64 * 1024, 4);
        let long_tails: Vec<usize> = (0..20_000).map(|number| if number % 31 == 0 { 64 } else { 1 }).collect();
        let mixed: Vec<usize> = (0..20_000).map(|number| number * 7 % 100).collect();
        for sizes in [vec![1; 20_000], vec![3; 20_000], vec![63; 20_000], vec![64; 20_000], long_tails, mixed] {
            let mut packer = Packer::new(pool.clone());
            let payloads = by_turns(&mut packer, &sizes);
            let bytes = payloads[0].1.len();
            for (payload, expected) in &payloads {
                assert_eq!(&payload.to_vec(), expected);
                let ranges = payload.ranges().len();
                assert!(ranges <= 2 * bytes / SHORT_BYTES + SHORT_RANGES_MAX, "{ranges} ranges, {bytes} bytes");
            }
            let held = pool.in_use() * pool.chunk_bytes();
            assert!(held <= 8 * bytes + 2 * pool.chunk_bytes(), "{held} are held for {bytes} bytes");
        }
    }

    #[test]
    fn few_short_ranges_stay_as_they_are() {
        let mut packer = Packer::new(Pool::new(1024, 4));
        let [(payload, _), _] = by_turns(&mut packer, &[5; SHORT_RANGES_MAX - 1]);
        assert_eq!(payload.ranges().len(), SHORT_RANGES_MAX - 1);
    }

    #[test]
    fn a_payload_splits_at_and_inside_ranges() {
        let mut payload = Payload::copied(b"abc");
        payload.append(Payload::copied(b"defg"));
        assert_eq!(payload.len(), 7);
        let head = payload.split_to(3);
        assert_eq!(head.to_vec(), b"abc");
        let next = payload.split_to(1);
        assert_eq!(next.to_vec(), b"d");
        assert_eq!(payload.to_vec(), b"efg");
        assert_eq!(payload.split_to(0).len(), 0);
        assert_eq!(payload.split_to(3).to_vec(), b"efg");
        assert!(payload.is_empty());
    }

    #[test]
    fn a_payload_of_many_ranges_gives_them_up_as_they_are_taken() {
        let pool = Pool::new(64, 200);
        let mut payload = Payload::new();
        for number in 0..100u8 {
            payload.push(filled(&pool, &[number; 64]));
        }
        let expected = payload.to_vec();
        let mut taken = Vec::new();
        for step in [1, 63, 64, 100, 0, 28].into_iter().cycle().take(120) {
            let step = step.min(payload.len());
            taken.extend(payload.split_to(step).to_vec());
            assert_eq!(payload.to_vec(), expected[taken.len()..]);
            assert_eq!(payload.len(), expected.len() - taken.len());
            assert_eq!(pool.in_use(), payload.len().div_ceil(64));
        }
        taken.extend(payload.split_to(payload.len()).to_vec());
        assert_eq!(taken, expected);
        assert!(payload.is_empty() && payload.ranges().is_empty());
        assert_eq!(pool.in_use(), 0);
    }

    #[test]
    fn what_is_taken_off_a_payload_costs_the_same_whatever_stays() {
        let pool = Pool::new(64 * 1024, 64);
        let took = |ranges| {
            let mut packer = Packer::new(pool.clone());
            let [(mut payload, bytes), _] = by_turns(&mut packer, &vec![SHORT_BYTES; ranges]);
            let start = std::time::Instant::now();
            for _ in 0..bytes.len() / 512 {
                assert_eq!(payload.split_to(512).len(), 512);
            }
            start.elapsed()
        };
        let least = |ranges| (0..3).map(|_| took(ranges)).min().unwrap();
        let (few, many) = (least(4_000), least(64_000));
        assert!(many < 16 * 4 * few, "{few:?}, {many:?}");
    }

    #[test]
    fn packed_ranges_share_a_chunk_and_keep_their_bytes() {
        let pool = Pool::new(8, 4);
        let mut packer = Packer::new(pool.clone());
        let (a, b, c) = (packer.pack(b"abc"), packer.pack(b"defg"), packer.pack(b"hij"));
        assert_eq!((a.as_slice(), b.as_slice(), c.as_slice()), (&b"abc"[..], &b"defg"[..], &b"hij"[..]));
        assert_eq!(pool.in_use(), 2);
        drop((a, b));
        assert_eq!(pool.in_use(), 1);
        drop(c);
        packer.idle();
        assert_eq!(pool.in_use(), 0);
    }

    #[test]
    fn what_is_longer_than_a_packed_chunk_is_counted_too() {
        let memory = Arc::new(Memory::default());
        let mut packer = Packer::new(Pool::counted(8, 4, memory.clone()));
        let (short, long) = (packer.pack(b"abc"), packer.pack(b"longer than that"));
        assert_eq!((short.as_slice(), long.as_slice()), (&b"abc"[..], &b"longer than that"[..]));
        assert_eq!(memory.used(), 8 + 16);
        drop(long);
        assert_eq!((memory.used(), packer.pool.free()), (8, 0));
    }

    #[test]
    fn a_pool_may_go_before_its_chunks() {
        let pool = Pool::new(16, 1);
        let range = filled(&pool, b"x");
        drop(pool);
        assert_eq!(range.as_slice(), b"x");
    }
}

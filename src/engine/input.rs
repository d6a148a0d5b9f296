//! Received bytes, cut into frames.
//!
//! A frame that lies in one chunk is handed out as a range of it, nothing copied. One that straddles reads is
//! gathered: its beginning into a piece of its own, so that the performative is contiguous; payload pieces of
//! `COPY_BYTES_MAX` or more stay ranges of the chunks that brought them, shorter ones are copied, so that a frame
//! that came in one-byte reads doesn't keep a chunk alive for each byte.

use crate::limits::COPY_BYTES_MAX;
use crate::memory::Memory;
use crate::payload::{Packer, Payload, Pool, Range, JOINED_BYTES_MAX};
use crate::wire::frame::{self, FrameHeader, HEADER_BYTES};
use crate::wire::WireError;
use std::collections::VecDeque;
use std::sync::Arc;

/// A straddling frame of up to so many bytes is copied whole.
const GATHER_BYTES_MAX: usize = 2 * COPY_BYTES_MAX;
/// Chunks that gathered bytes are put into, one behind another; so many are kept.
const GATHER_CHUNK_BYTES: usize = 2 * GATHER_BYTES_MAX;
const GATHER_CHUNKS_KEPT: usize = 2;
const _: () = assert!(JOINED_BYTES_MAX <= GATHER_CHUNK_BYTES, "what is joined is counted");
/// Of a longer one at least so many bytes are made contiguous, enough for any transfer's performative.
const HEAD_BYTES_MIN: usize = 512;

enum Piece {
    Shared(Range),
    /// Small reads, put together; bytes before `from` are consumed.
    Gathered {
        bytes: Vec<u8>,
        from: usize,
    },
}

impl Piece {
    fn as_slice(&self) -> &[u8] {
        match self {
            Piece::Shared(range) => range.as_slice(),
            Piece::Gathered { bytes, from } => &bytes[*from..],
        }
    }

    fn advance(&mut self, count: usize) {
        match self {
            Piece::Shared(range) => range.advance(count),
            Piece::Gathered { from, .. } => *from += count,
        }
    }
}

/// A frame as it was cut.
pub(super) struct Frame {
    pub header: FrameHeader,
    /// The frame's body or, of a large one that straddles reads, its beginning.
    pub body: Range,
    /// What follows `body` in the frame.
    pub rest: Payload,
}

impl Frame {
    /// The whole body, contiguous. No account knows of the copy: it is for a look, and what is kept stays where it came.
    pub(super) fn joined(&self) -> Vec<u8> {
        let mut whole = self.body.as_slice().to_vec();
        for range in self.rest.ranges() {
            whole.extend_from_slice(range.as_slice());
        }
        whole
    }

    /// What follows a performative of that many bytes, in the chunks that brought it.
    pub(super) fn payload(body: &Range, rest: Payload, length: usize) -> Payload {
        let mut payload = Payload::from(body.slice(length.min(body.len()), body.len()));
        payload.append(rest);
        payload.split_to(length.saturating_sub(body.len()));
        payload
    }
}

/// Why no frame was cut.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CutError {
    Malformed(WireError),
    /// The size field says more than is allowed.
    TooLarge(u32),
}

pub(super) struct Input {
    /// What comes before `pieces`.
    current: Option<Range>,
    pieces: VecDeque<Piece>,
    len: usize,
    /// A gathering vector at rest.
    spare: Vec<u8>,
    /// Where frames that straddled become contiguous, and pieces of what is sent; made when the first do.
    packer: Option<Packer>,
    memory: Arc<Memory>,
    /// What gathered pieces beyond a burst's size count there.
    counted: usize,
}

impl Input {
    pub(super) fn new(memory: Arc<Memory>) -> Input {
        let (pieces, spare) = (VecDeque::new(), Vec::new());
        Input { current: None, pieces, len: 0, spare, packer: None, memory, counted: 0 }
    }

    /// Bytes that were received and not yet cut.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn clear(&mut self) {
        *self = Input::new(self.memory.clone());
    }

    /// Takes all of it out, copied.
    pub(super) fn take_bytes(&mut self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        self.peek(&mut bytes);
        self.clear();
        bytes
    }

    /// Frees what is kept for the next straddling frame.
    pub(super) fn shrink(&mut self) {
        self.packer = None;
        self.spare = Vec::new();
    }

    /// What makes contiguous copies for this connection.
    pub(super) fn packer(&mut self) -> &mut Packer {
        let memory = &self.memory;
        let pool = || Packer::new(Pool::counted(GATHER_CHUNK_BYTES, GATHER_CHUNKS_KEPT, memory.clone()));
        self.packer.get_or_insert_with(pool)
    }

    fn pack(&mut self, bytes: &[u8]) -> Range {
        self.packer().pack(bytes)
    }

    /// As [`Self::push`], of bytes that are in no chunk.
    pub(super) fn push_copied(&mut self, bytes: &[u8]) {
        let packed = self.pack(bytes);
        self.push(packed);
    }

    #[inline]
    pub(super) fn push(&mut self, bytes: Range) {
        if bytes.is_empty() {
            return;
        }
        self.unload_current();
        self.len += bytes.len();
        if bytes.len() < COPY_BYTES_MAX && !self.pieces.is_empty() {
            self.gather_last();
            if let Some(Piece::Gathered { bytes: gathered, from }) = self.pieces.back_mut() {
                let before = gathered.capacity();
                if *from > gathered.len() / 2 {
                    // Where each read ends inside a frame the piece is never empty; what was cut of it goes all the same.
                    gathered.drain(..std::mem::take(from));
                }
                gathered.extend_from_slice(bytes.as_slice());
                let (before, after) = (counted_bytes(before), counted_bytes(gathered.capacity()));
                if after != before {
                    self.counted += after - before;
                    self.memory.add(after - before);
                }
                return;
            }
        }
        self.pieces.push_back(Piece::Shared(bytes));
    }

    /// Lets go of the last chunk where only a small part of it is still to be cut. For when input comes to rest.
    pub(super) fn gather_last(&mut self) {
        self.unload_current();
        if let Some(Piece::Shared(range)) = self.pieces.back() {
            if range.len() < COPY_BYTES_MAX {
                let mut gathered = std::mem::take(&mut self.spare);
                gathered.clear();
                gathered.extend_from_slice(range.as_slice());
                self.pieces.pop_back();
                self.pieces.push_back(Piece::Gathered { bytes: gathered, from: 0 });
            }
        }
    }

    /// The next eight bytes, where there are so many. Consumes nothing.
    #[inline]
    fn peek_header(&mut self) -> Option<[u8; 8]> {
        let mut header = [0; 8];
        (self.peek(&mut header) == 8).then_some(header)
    }

    /// Copies the next bytes, as many as there are and fit. Consumes nothing.
    pub(super) fn peek(&mut self, into: &mut [u8]) -> usize {
        self.unload_current();
        let mut filled = 0;
        for piece in &self.pieces {
            let slice = piece.as_slice();
            let count = slice.len().min(into.len() - filled);
            into[filled..filled + count].copy_from_slice(&slice[..count]);
            filled += count;
            if filled == into.len() {
                break;
            }
        }
        filled
    }

    pub(super) fn consume(&mut self, mut count: usize) {
        debug_assert!(count <= self.len);
        self.unload_current();
        self.len -= count;
        while let Some(piece) = self.pieces.front_mut() {
            let here = piece.as_slice().len();
            if here > count {
                piece.advance(count);
                return;
            }
            count -= here;
            self.pop_front();
        }
    }

    fn pop_front(&mut self) {
        if let Some(Piece::Gathered { bytes, .. }) = self.pieces.pop_front() {
            // Small ones are worth keeping; a large one was a burst.
            if bytes.capacity() <= GATHER_BYTES_MAX {
                self.spare = bytes;
            } else {
                self.counted -= counted_bytes(bytes.capacity());
                self.memory.remove(counted_bytes(bytes.capacity()));
            }
        }
    }

    /// The chunk in front, for a look at the frames that lie whole in it. What is left of it goes back by
    /// [`Self::put_current`] before anything else is done with the input.
    #[inline(always)]
    pub(super) fn take_current(&mut self) -> Option<Range> {
        if self.current.is_none() {
            self.load_current();
        }
        self.current.take()
    }

    /// `consumed`: bytes that were cut off it.
    #[inline(always)]
    pub(super) fn put_current(&mut self, rest: Range, consumed: usize) {
        self.len -= consumed;
        if !rest.is_empty() {
            self.current = Some(rest);
        }
    }

    /// As above, where `count` bytes of the chunk are consumed and still in front of what is left.
    #[inline]
    pub(super) fn put_current_behind(&mut self, mut chunk: Range, count: usize) {
        chunk.advance(count);
        self.put_current(chunk, count);
    }

    #[inline(never)]
    fn load_current(&mut self) {
        if let Some(Piece::Shared(_)) = self.pieces.front() {
            if let Some(Piece::Shared(range)) = self.pieces.pop_front() {
                self.current = Some(range);
            }
        }
    }

    /// Makes all of the input pieces again.
    #[inline]
    fn unload_current(&mut self) {
        if let Some(range) = self.current.take() {
            self.pieces.push_front(Piece::Shared(range));
        }
    }

    /// Cuts the next frame, where all of it is here. A frame larger than `size_max` is refused from its size field.
    #[inline(never)]
    pub(super) fn next_frame(&mut self, size_max: u32) -> Result<Option<Frame>, CutError> {
        let Some(bytes) = self.peek_header() else { return Ok(None) };
        let header = checked_header(&bytes, size_max)?;
        let size = header.size as usize;
        if self.len < size {
            return Ok(None);
        }
        let body_at = usize::from(header.doff) * 4;
        self.consume(body_at);
        let mut left = size - body_at;
        let body = self.take_head(left);
        left -= body.len();
        let mut rest = Payload::new();
        while left > 0 {
            let Some(piece) = self.take_piece(left) else { break };
            left -= piece.len();
            rest.push(piece);
        }
        Ok(Some(Frame { header, body, rest }))
    }

    /// The beginning of a frame's body of which `left` bytes are to come, contiguous.
    fn take_head(&mut self, left: usize) -> Range {
        let here = self.pieces.front().map_or(0, |piece| piece.as_slice().len()).min(left);
        if let Some(Piece::Shared(range)) = self.pieces.front().filter(|_| here == left) {
            // Whole: nothing straddles.
            let head = range.slice(0, here);
            self.consume(here);
            return head;
        }
        if here == left || here >= COPY_BYTES_MAX {
            return self.take_piece(here).unwrap_or_else(|| Range::copied(&[]));
        }
        // Few bytes in front: so many that a performative fits, or all.
        let count = if left <= GATHER_BYTES_MAX { left } else { HEAD_BYTES_MIN.max(here) };
        let mut gathered = [0; GATHER_BYTES_MAX];
        let filled = self.peek(&mut gathered[..count]);
        self.consume(filled);
        self.pack(&gathered[..filled])
    }

    /// Up to `count` bytes from the front piece: where they are many, as a range of their chunk, else copied.
    fn take_piece(&mut self, count: usize) -> Option<Range> {
        let count = self.pieces.front()?.as_slice().len().min(count);
        let taken = match self.pieces.pop_front()? {
            Piece::Shared(range) if count >= COPY_BYTES_MAX => {
                let taken = range.slice(0, count);
                self.pieces.push_front(Piece::Shared(range));
                taken
            }
            piece => {
                let slice = piece.as_slice();
                let taken = self.pack(&slice[..count.min(slice.len())]);
                self.pieces.push_front(piece);
                taken
            }
        };
        self.consume(count);
        Some(taken)
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        self.memory.remove(self.counted);
    }
}

/// What a gathered piece of that capacity counts as: small ones are as many as connections.
fn counted_bytes(capacity: usize) -> usize {
    if capacity > GATHER_BYTES_MAX {
        capacity
    } else {
        0
    }
}

/// The channel and size of a frame of the usual form, an AMQP frame without an extended header, that is all here.
#[inline(always)]
pub(super) fn usual_frame(bytes: &[u8], size_max: u32) -> Option<(u16, usize)> {
    let &[s0, s1, s2, s3, 2, frame::TYPE_AMQP, c0, c1] = bytes.first_chunk::<HEADER_BYTES>()? else { return None };
    let size = u32::from_be_bytes([s0, s1, s2, s3]);
    let usual = size <= size_max && size as usize <= bytes.len() && size as usize >= HEADER_BYTES;
    usual.then_some((u16::from_be_bytes([c0, c1]), size as usize))
}

fn checked_header(bytes: &[u8; 8], size_max: u32) -> Result<FrameHeader, CutError> {
    let header = frame::parse_header(bytes).map_err(CutError::Malformed)?;
    if header.size > size_max {
        return Err(CutError::TooLarge(header.size));
    }
    if u32::from(header.doff) * 4 > header.size {
        return Err(CutError::Malformed(WireError::BadFrame));
    }
    Ok(header)
}

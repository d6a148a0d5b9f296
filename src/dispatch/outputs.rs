//! Output buffers that engines are lent.
//!
//! Owns: the ones that nobody has. They grow with use and keep what they grew to; what is kept is bounded by bytes.

use crate::engine::Transmit;

/// A buffer's first size.
const FIRST_BYTES: usize = 16 * 1024;
const FIRST_RANGES: usize = 64;

/// Bytes that are kept for the next ones: sixty-four buffers of a full output mark each.
const KEPT_BYTES_MAX: usize = 64 * crate::limits::OUTPUT_MARK_BYTES;

#[derive(Default)]
pub struct Outputs {
    free: Vec<Transmit>,
    /// What `free` has room for.
    bytes: usize,
}

impl Outputs {
    /// An empty buffer: the one that was in use last, else a new one.
    #[inline]
    pub fn take(&mut self) -> Transmit {
        match self.free.pop() {
            Some(transmit) => {
                self.bytes -= transmit.bytes.capacity();
                transmit
            }
            None => Transmit::with_capacity(FIRST_BYTES, FIRST_RANGES),
        }
    }

    /// Takes an empty buffer back.
    #[inline]
    pub fn put(&mut self, transmit: Transmit) {
        let bytes = transmit.bytes.capacity();
        if self.bytes + bytes <= KEPT_BYTES_MAX {
            self.bytes += bytes;
            self.free.push(transmit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded_by_bytes() {
        let mut outputs = Outputs::default();
        let large = || Transmit::with_capacity(KEPT_BYTES_MAX / 2, 0);
        for _ in 0..3 {
            outputs.put(large());
        }
        assert_eq!(outputs.free.len(), 2);
        assert!(outputs.take().bytes.capacity() >= KEPT_BYTES_MAX / 2);
        assert!(outputs.take().bytes.capacity() >= KEPT_BYTES_MAX / 2);
        assert_eq!((outputs.bytes, outputs.take().bytes.capacity()), (0, FIRST_BYTES));
    }
}

//! Output buffers that engines are lent.
//!
//! Owns: the ones that nobody has. They grow with use and keep what they grew to; what is kept is bounded by bytes. What is
//! lent counts in the router's account, in steps.

use crate::engine::{Engine, Transmit};
use crate::memory::Memory;
use std::sync::Arc;

/// A buffer's first size.
const FIRST_BYTES: usize = 16 * 1024;
const FIRST_RANGES: usize = 64;

/// Bytes that are kept for the next ones: sixty-four buffers of a full output mark each.
const KEPT_BYTES_MAX: usize = 64 * crate::limits::OUTPUT_MARK_BYTES;

/// Bytes by which the router's account may be behind.
const STEP_BYTES: usize = crate::limits::CHUNK_BYTES;

pub struct Outputs {
    free: Vec<Transmit>,
    /// What `free` has room for.
    bytes: usize,
    /// What those that are lent have room for, and what of it the account knows.
    lent: usize,
    told: usize,
    memory: Arc<Memory>,
}

impl Outputs {
    pub fn new(memory: Arc<Memory>) -> Outputs {
        Outputs { free: Vec::new(), bytes: 0, lent: 0, told: 0, memory }
    }

    /// An empty buffer: the one that was in use last, else a new one.
    #[inline]
    pub fn take(&mut self) -> Transmit {
        let transmit = match self.free.pop() {
            Some(transmit) => {
                self.bytes -= transmit.bytes.capacity();
                transmit
            }
            None => Transmit::with_capacity(FIRST_BYTES, FIRST_RANGES),
        };
        self.note(0, transmit.bytes.capacity());
        transmit
    }

    /// Sees to it that an engine has a buffer to write to. `noted`: what that engine's is noted as.
    #[inline]
    pub fn lend(&mut self, engine: &mut Engine, noted: &mut usize) {
        if engine.needs_output() {
            engine.give_output(self.take());
            *noted = engine.output_capacity();
        }
    }

    /// Notes what an engine's buffer has grown to.
    #[inline]
    pub fn note_engine(&mut self, engine: &Engine, noted: &mut usize) {
        let bytes = engine.output_capacity();
        if bytes != *noted {
            self.note(*noted, bytes);
            *noted = bytes;
        }
    }

    /// Notes that an engine's buffer, of that size now, is on its way out.
    #[inline]
    pub fn note_polled(&mut self, transmit: Option<&Transmit>, noted: &mut usize) {
        if let Some(transmit) = transmit {
            self.note(std::mem::take(noted), transmit.bytes.capacity());
        }
    }

    /// A buffer that is lent had room for `before` bytes and has it for `after` now.
    #[inline]
    pub fn note(&mut self, before: usize, after: usize) {
        self.lent = self.lent + after - before;
        if self.lent.abs_diff(self.told) >= STEP_BYTES {
            self.tell();
        }
    }

    #[cold]
    fn tell(&mut self) {
        self.memory.changed(self.told, self.lent);
        self.told = self.lent;
    }

    /// Takes an empty buffer back from an engine whose buffer is noted as that large.
    pub fn put_noted(&mut self, transmit: Transmit, noted: usize) {
        self.note(noted, transmit.bytes.capacity());
        self.put(transmit);
    }

    /// Takes an empty buffer back.
    #[inline]
    pub fn put(&mut self, transmit: Transmit) {
        let bytes = transmit.bytes.capacity();
        self.note(bytes, 0);
        if self.bytes + bytes <= KEPT_BYTES_MAX && !self.memory.is_tight() {
            self.bytes += bytes;
            self.free.push(transmit);
        }
    }
}

impl Drop for Outputs {
    fn drop(&mut self) {
        self.memory.remove(self.told);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded_by_bytes() {
        let memory = Arc::new(Memory::default());
        let mut outputs = Outputs::new(memory.clone());
        let lent: Vec<Transmit> = (0..3).map(|_| outputs.take()).collect();
        for mut transmit in lent {
            let before = transmit.bytes.capacity();
            transmit.bytes.reserve_exact(KEPT_BYTES_MAX / 2);
            outputs.note(before, transmit.bytes.capacity());
            outputs.put(transmit);
        }
        assert_eq!(memory.used(), 0);
        assert_eq!(outputs.free.len(), 2);
        assert!(outputs.take().bytes.capacity() >= KEPT_BYTES_MAX / 2);
        assert!(outputs.take().bytes.capacity() >= KEPT_BYTES_MAX / 2);
        assert_eq!((outputs.bytes, outputs.take().bytes.capacity()), (0, FIRST_BYTES));
        assert!(memory.used() >= KEPT_BYTES_MAX, "what is lent counts");
    }
}

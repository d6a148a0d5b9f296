//! A writer into a vector's spare room: one reservation, then stores without a check or a length update each. For the
//! encoders of the hot path alone.

use super::value::code;
/// Writes behind a vector's end; the vector takes it over with [`Spare::finish`].
pub(super) struct Spare<'v> {
    out: &'v mut Vec<u8>,
    at: *mut u8,
    #[cfg(debug_assertions)]
    end: *mut u8,
}

impl<'v> Spare<'v> {
    /// Room for `bytes` bytes. The caller writes no more than them.
    #[inline(always)]
    pub fn new(out: &'v mut Vec<u8>, bytes: usize) -> Spare<'v> {
        out.reserve(bytes);
        let room = out.spare_capacity_mut();
        let at: *mut u8 = room.as_mut_ptr().cast();
        Spare {
            #[cfg(debug_assertions)]
            end: room.as_mut_ptr_range().end.cast(),
            at,
            out,
        }
    }

    /// A place, to patch later or to measure from.
    #[inline(always)]
    pub fn here(&self) -> *mut u8 {
        self.at
    }

    #[inline(always)]
    pub fn bytes<const N: usize>(&mut self, bytes: [u8; N]) {
        self.check(N);
        // SAFETY: the room was reserved (`new`), which the debug build checks.
        unsafe {
            self.at.cast::<[u8; N]>().write_unaligned(bytes);
            self.at = self.at.add(N);
        }
    }

    #[inline(always)]
    pub fn slice(&mut self, bytes: &[u8]) {
        self.check(bytes.len());
        // SAFETY: as above; the source is borrowed, so it doesn't lie in the spare room.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at, bytes.len());
            self.at = self.at.add(bytes.len());
        }
    }

    /// Overwrites what was written at `place`, a value of `here`.
    #[inline(always)]
    pub fn patch<const N: usize>(&mut self, place: *mut u8, bytes: [u8; N]) {
        debug_assert!(place.wrapping_add(N) <= self.at, "only what was written is patched");
        // SAFETY: `place` is inside what this writer wrote.
        unsafe { place.cast::<[u8; N]>().write_unaligned(bytes) };
    }

    /// Bytes from `place` up to here.
    #[inline(always)]
    pub fn since(&self, place: *mut u8) -> usize {
        self.at as usize - place as usize
    }

    /// What was written is the vector's.
    #[inline(always)]
    pub fn finish(self) {
        let len = self.at as usize - self.out.as_ptr() as usize;
        // SAFETY: all bytes up to `at` were written, within the capacity.
        unsafe { self.out.set_len(len) };
    }

    #[inline(always)]
    fn check(&self, _bytes: usize) {
        #[cfg(debug_assertions)]
        assert!(self.end as usize - self.at as usize >= _bytes, "more written than reserved");
    }
}

/// A described list8 in the making: fields in order; trailing nulls are left out at its end. The caller knows that
/// fields and their bytes stay below 255.
pub(super) struct SpareList<'s, 'v> {
    spare: &'s mut Spare<'v>,
    /// Where size and count go.
    head: *mut u8,
    count: u8,
    /// Fields up to the last that is not null, and where it ends.
    kept: u8,
    end: *mut u8,
}

impl<'v> Spare<'v> {
    /// Begins a described list.
    #[inline(always)]
    pub fn list(&mut self, descriptor: u8) -> SpareList<'_, 'v> {
        self.bytes([code::DESCRIBED, code::SMALL_ULONG, descriptor, code::LIST8]);
        let head = self.here();
        self.bytes([0, 0]);
        let end = self.here();
        SpareList { spare: self, head, count: 0, kept: 0, end }
    }
}

impl SpareList<'_, '_> {
    #[inline(always)]
    pub fn null(&mut self) {
        self.spare.bytes([code::NULL]);
        self.count += 1;
    }

    #[inline(always)]
    fn keep(&mut self) {
        self.count += 1;
        self.kept = self.count;
        self.end = self.spare.here();
    }

    #[inline(always)]
    pub fn value<const N: usize>(&mut self, bytes: [u8; N]) {
        self.spare.bytes(bytes);
        self.keep();
    }

    #[inline(always)]
    pub fn uint(&mut self, value: u32) {
        let [a, b, c, d] = value.to_be_bytes();
        match value {
            0 => self.spare.bytes([code::UINT0]),
            1..=255 => self.spare.bytes([code::SMALL_UINT, d]),
            _ => self.spare.bytes([code::UINT, a, b, c, d]),
        }
        self.keep();
    }

    #[inline(always)]
    pub fn optional_uint(&mut self, value: Option<u32>) {
        match value {
            None => self.null(),
            Some(value) => self.uint(value),
        }
    }

    #[inline(always)]
    pub fn boolean(&mut self, value: bool) {
        self.value([if value { code::TRUE } else { code::FALSE }]);
    }

    #[inline(always)]
    pub fn optional_boolean(&mut self, value: Option<bool>) {
        match value {
            None => self.null(),
            Some(value) => self.boolean(value),
        }
    }

    /// A boolean whose default is false.
    #[inline(always)]
    pub fn flag(&mut self, value: bool) {
        match value {
            true => self.value([code::TRUE]),
            false => self.null(),
        }
    }

    /// At most 255 bytes.
    #[inline(always)]
    pub fn binary(&mut self, bytes: &[u8]) {
        self.spare.bytes([code::BINARY8, bytes.len() as u8]);
        self.raw(bytes);
    }

    /// A value that is encoded already. Four bytes are the usual tag, and the usual state.
    #[inline(always)]
    pub fn raw(&mut self, bytes: &[u8]) {
        match <[u8; 4]>::try_from(bytes) {
            Ok(four) => self.spare.bytes(four),
            Err(_) => self.spare.slice(bytes),
        }
        self.keep();
    }

    #[inline(always)]
    pub fn finish(self) {
        // The size counts the count's byte.
        let size = self.end as usize - self.head as usize - 1;
        debug_assert!(size < 256, "a list8's size is one byte");
        self.spare.at = self.end;
        self.spare.patch(self.head, [size as u8, self.kept]);
    }
}

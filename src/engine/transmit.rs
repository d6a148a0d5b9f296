//! Output on its way to the kernel: written bytes with payload ranges laid in between.

use crate::payload::Range;

/// Bytes to send, in order. Frames and small payloads are in `bytes`; a large payload is a range with the offset
/// in `bytes` where it goes in.
#[derive(Default, Debug)]
pub struct Transmit {
    pub bytes: Vec<u8>,
    /// In ascending order of their offsets.
    ranges: Vec<(usize, Range)>,
    range_bytes: usize,
}

impl Transmit {
    pub fn with_capacity(bytes: usize, ranges: usize) -> Transmit {
        Transmit { bytes: Vec::with_capacity(bytes), ranges: Vec::with_capacity(ranges), range_bytes: 0 }
    }

    /// Bytes in all.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len() + self.range_bytes
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.ranges.is_empty()
    }

    /// Makes it empty; its memory stays.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ranges.clear();
        self.range_bytes = 0;
    }

    /// Lays a payload range behind what is there.
    #[inline]
    pub fn push_range(&mut self, range: Range) {
        self.range_bytes += range.len();
        self.ranges.push((self.bytes.len(), range));
    }

    pub fn ranges(&self) -> &[(usize, Range)] {
        &self.ranges
    }

    /// The pieces in the order in which they are sent; none is empty.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let ends = self.ranges.iter().map(|(offset, range)| (*offset, range.as_slice()));
        let mut from = 0;
        ends.chain(std::iter::once((self.bytes.len(), &[][..])))
            .flat_map(move |(offset, range)| {
                let bytes = &self.bytes[from..offset];
                from = offset;
                [bytes, range]
            })
            .filter(|slice| !slice.is_empty())
    }

    /// A copy in one piece, for tests and slow paths.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.len());
        for slice in self.slices() {
            all.extend_from_slice(slice);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_come_in_the_order_of_sending() {
        let mut transmit = Transmit::default();
        transmit.bytes.extend_from_slice(b"ab");
        transmit.push_range(Range::copied(b"CD"));
        transmit.push_range(Range::copied(b"E"));
        transmit.bytes.extend_from_slice(b"f");
        transmit.push_range(Range::copied(b"G"));
        assert_eq!(transmit.slices().collect::<Vec<_>>(), [&b"ab"[..], b"CD", b"E", b"f", b"G"]);
        assert_eq!(transmit.to_vec(), b"abCDEfG");
        assert_eq!(transmit.len(), 7);
        transmit.clear();
        assert!(transmit.is_empty() && transmit.slices().next().is_none());
    }
}

//! Frames (section 2.3): an eight-byte header in front of every performative.

use super::WireError;

/// A frame header's length; `size` counts it.
pub const HEADER_BYTES: usize = 8;

pub const TYPE_AMQP: u8 = 0;
pub const TYPE_SASL: u8 = 1;

/// A frame's fixed header. `channel` is the session's number on AMQP frames, ignored on SASL frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameHeader {
    /// Bytes of the whole frame, header included.
    pub size: u32,
    /// Where the body begins, in words of four bytes.
    pub doff: u8,
    pub frame_type: u8,
    pub channel: u16,
}

impl FrameHeader {
    /// Where the body begins: behind the header and what extends it.
    #[inline]
    pub fn body_start(&self) -> usize {
        self.doff as usize * 4
    }

    /// Bytes of the body; an AMQP frame of none is a heartbeat (section 2.4.5).
    #[inline]
    pub fn body_len(&self) -> usize {
        (self.size as usize).saturating_sub(self.body_start())
    }
}

/// Reads a header. The caller holds `size` against its max-frame-size and the type against what it expects; that
/// the body lies inside the frame is checked here.
#[inline]
pub fn parse_header(bytes: &[u8; HEADER_BYTES]) -> Result<FrameHeader, WireError> {
    let size = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let doff = bytes[4];
    if doff < 2 || size < doff as u32 * 4 {
        return Err(WireError::BadFrame);
    }
    Ok(FrameHeader { size, doff, frame_type: bytes[5], channel: u16::from_be_bytes([bytes[6], bytes[7]]) })
}

/// A header with no extension, for a frame of `size` bytes in all.
#[inline]
pub fn header(size: u32, frame_type: u8, channel: u16) -> [u8; HEADER_BYTES] {
    let s = size.to_be_bytes();
    let c = channel.to_be_bytes();
    [s[0], s[1], s[2], s[3], 2, frame_type, c[0], c[1]]
}

/// Begins a frame; its size follows with [`finish`]. Gives where the frame begins.
#[inline]
pub fn begin(out: &mut Vec<u8>, frame_type: u8, channel: u16) -> usize {
    let start = out.len();
    out.extend_from_slice(&header(0, frame_type, channel));
    start
}

/// Ends the frame that began at `start`: all bytes from there on are its.
#[inline]
pub fn finish(out: &mut [u8], start: usize) {
    finish_with_payload(out, start, 0);
}

/// Ends a frame that `payload_bytes` follow which are not in `out`.
#[inline]
pub fn finish_with_payload(out: &mut [u8], start: usize, payload_bytes: usize) {
    let size = (out.len() - start + payload_bytes) as u32;
    if let Some(place) = out.get_mut(start..start + 4) {
        place.copy_from_slice(&size.to_be_bytes());
    }
}

/// An empty frame on channel 0, which says only that we live (section 2.4.5).
pub const HEARTBEAT: [u8; HEADER_BYTES] = [0, 0, 0, 8, 2, TYPE_AMQP, 0, 0];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_begun_and_finished() {
        let mut out = vec![9];
        let start = begin(&mut out, TYPE_SASL, 0x0102);
        out.extend_from_slice(b"abc");
        finish(&mut out, start);
        assert_eq!(out, [9, 0, 0, 0, 11, 2, 1, 1, 2, b'a', b'b', b'c']);
        finish_with_payload(&mut out, start, 256);
        assert_eq!(out[1..5], [0, 0, 1, 11]);
        let header = parse_header(out[1..9].try_into().unwrap()).unwrap();
        assert_eq!(header, FrameHeader { size: 267, doff: 2, frame_type: TYPE_SASL, channel: 0x0102 });
        assert_eq!((header.body_start(), header.body_len()), (8, 259));
    }

    #[test]
    fn impossible_headers_are_refused() {
        for bytes in [[0, 0, 0, 7, 2, 0, 0, 0], [0, 0, 0, 8, 1, 0, 0, 0], [0, 0, 0, 11, 3, 0, 0, 0]] {
            assert_eq!(parse_header(&bytes), Err(WireError::BadFrame));
        }
        assert!(parse_header(&[0, 0, 0, 12, 3, 0, 0, 0]).is_ok());
        assert_eq!(parse_header(&HEARTBEAT).map(|h| h.body_len()), Ok(0));
    }
}

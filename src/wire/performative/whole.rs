//! Whole deliveries: transfers that are all of a message, as a flood consists of them, read and written one behind another.
//!
//! Reading takes the usual encodings of what such a transfer may say and gives up on anything else with None, as
//! [`crate::wire::quick`] does; what it takes, [`super::Performative::decode`] reads alike. Writing makes one head and
//! changes in it what differs from one delivery to the next.

use super::Transfer;
use crate::wire::descriptor;
use crate::wire::frame::HEADER_BYTES;
use crate::wire::quick::Quick;
use crate::wire::value::code;

/// A transfer that is a delivery by itself: numbered and tagged, no `more`, nothing of states, resuming or aborting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Whole {
    pub handle: u32,
    pub delivery_id: u32,
    pub tag_bytes: usize,
    pub message_format: u32,
    pub settled: bool,
    /// Of the performative; the payload follows.
    pub length: usize,
    /// Where the id's field is in it, and the tag's.
    id_at: usize,
    tag_at: usize,
}

impl Whole {
    /// Reads the transfer at the begin of a frame's body, where it is such a one.
    #[inline(always)]
    pub fn read(body: &[u8]) -> Option<Whole> {
        let [code::DESCRIBED, code::SMALL_ULONG, number, ..] = *body else { return None };
        if u64::from(number) != descriptor::TRANSFER {
            return None;
        }
        let (mut fields, length) = Quick::open(body)?;
        if !fields.has(2) {
            return None;
        }
        let (mut handle, mut delivery_id, mut tag) = (0, None, None);
        fields.uint(&mut handle)?;
        let id_at = length - fields.left();
        fields.optional_uint(&mut delivery_id)?;
        let tag_at = length - fields.left();
        fields.optional_binary(&mut tag)?;
        let (mut message_format, mut settled, mut flag) = (None, None, false);
        if fields.has(3) {
            fields.optional_zero(&mut message_format)?;
        }
        if fields.has(4) {
            fields.optional_boolean(&mut settled)?;
        }
        if fields.has(5) {
            // More.
            fields.flag(&mut flag)?;
        }
        if fields.has(6) {
            flag |= !fields.is_batchable_alone()?;
        }
        if flag {
            return None;
        }
        fields.finish(11)?;
        Some(Whole {
            handle,
            delivery_id: delivery_id?,
            tag_bytes: tag?.len(),
            message_format: message_format.unwrap_or(0),
            settled: settled.unwrap_or(false),
            length,
            id_at,
            tag_at,
        })
    }
}

impl Quick<'_> {
    /// Of a transfer's fields behind `more`: whether all that they say is batchable, if anything.
    #[inline(always)]
    fn is_batchable_alone(&mut self) -> Option<bool> {
        // The receiver's settle mode and the state.
        self.null()?;
        if self.has(7) {
            self.null()?;
        }
        let (mut resume, mut aborted, mut batchable) = (false, false, false);
        if self.has(8) {
            self.flag(&mut resume)?;
        }
        if self.has(9) {
            self.flag(&mut aborted)?;
        }
        if self.has(10) {
            self.flag(&mut batchable)?;
        }
        Some(!resume && !aborted)
    }
}

/// Bytes that a frame's head is kept in, by [`Shape`] where it fits, by [`Heads`] always.
const HEAD_BYTES_MAX: usize = 48;
/// Below it, delivery-ids have shorter encodings.
const WIDE_FROM: u32 = 256;

/// What the frame of a whole delivery looks like: header and transfer, but for its id and tag. Those behind it are like it, as a
/// rule, and are read by a comparison.
pub struct Shape {
    whole: Whole,
    frame_bytes: usize,
    /// The bytes that have to be the same; the others are 0 in both.
    head: [u8; HEAD_BYTES_MAX],
    mask: [u8; HEAD_BYTES_MAX],
}

impl Shape {
    /// That of a frame which `whole` was read from. None: its head is long, or its id short.
    pub fn of(frame: &[u8], whole: &Whole) -> Option<Shape> {
        let head_bytes = HEADER_BYTES + whole.length;
        let (id_at, tag_at) = (HEADER_BYTES + whole.id_at, HEADER_BYTES + whole.tag_at);
        if head_bytes > HEAD_BYTES_MAX || frame.get(id_at) != Some(&code::UINT) {
            return None;
        }
        let mut mask = [0; HEAD_BYTES_MAX];
        mask[..head_bytes].fill(0xff);
        // Behind the constructors, and the tag's size.
        mask[id_at + 1..tag_at].fill(0);
        mask[tag_at + 2..tag_at + 2 + whole.tag_bytes].fill(0);
        let mut head = mask;
        head.iter_mut().zip(frame).for_each(|(ours, byte)| *ours &= byte);
        Some(Shape { whole: *whole, frame_bytes: frame.len(), head, mask })
    }

    /// What the frame says that `bytes` begin with, and how long it is, where it is all there and of this shape.
    #[inline(always)]
    pub fn read(&self, bytes: &[u8]) -> Option<(usize, Whole)> {
        let head = bytes.first_chunk::<HEAD_BYTES_MAX>()?;
        let mut differs = 0;
        for at in 0..HEAD_BYTES_MAX {
            differs |= head[at] & self.mask[at] ^ self.head[at];
        }
        if differs != 0 || bytes.len() < self.frame_bytes {
            return None;
        }
        let delivery_id = u32::from_be_bytes(*head.get(HEADER_BYTES + self.whole.id_at + 1..)?.first_chunk()?);
        Some((self.frame_bytes, Whole { delivery_id, ..self.whole }))
    }
}

/// Writes the frames of whole deliveries on one link: header and transfer, the delivery-id as the tag.
pub struct Heads {
    channel: u16,
    handle: u32,
    message_format: u32,
    settled: bool,
    /// A frame's head, once one with a wide delivery-id was written; where its id and its tag are.
    head: [u8; HEAD_BYTES_MAX],
    len: usize,
    id_at: usize,
}

impl Heads {
    #[inline]
    pub fn new(channel: u16, handle: u32, message_format: u32, settled: bool) -> Heads {
        Heads { channel, handle, message_format, settled, head: [0; HEAD_BYTES_MAX], len: 0, id_at: 0 }
    }

    /// Writes a frame's header and transfer, and its payload where that is given; of it `payload_bytes` are to follow in all.
    #[inline(always)]
    pub fn write(&mut self, out: &mut Vec<u8>, delivery_id: u32, payload_bytes: usize, payload: &[u8]) {
        if self.len == 0 || delivery_id < WIDE_FROM {
            self.write_new(out, delivery_id, payload_bytes);
            return out.extend_from_slice(payload);
        }
        let id = delivery_id.to_be_bytes();
        self.head[..4].copy_from_slice(&((self.len + payload_bytes) as u32).to_be_bytes());
        self.head[self.id_at..self.id_at + 4].copy_from_slice(&id);
        self.head[self.id_at + 6..self.id_at + 10].copy_from_slice(&id);
        out.reserve(HEAD_BYTES_MAX + payload.len());
        let len = out.len();
        // SAFETY: there is room for all of the head's place and the payload behind it, which aren't parts of `out`; of them
        // what the length takes in was written.
        unsafe {
            let end = out.as_mut_ptr().add(len);
            end.cast::<[u8; HEAD_BYTES_MAX]>().write_unaligned(self.head);
            std::ptr::copy_nonoverlapping(payload.as_ptr(), end.add(self.len), payload.len());
            out.set_len(len + self.len + payload.len());
        }
    }

    /// Writes a head field by field, and keeps it where the next ones are like it.
    #[inline(never)]
    fn write_new(&mut self, out: &mut Vec<u8>, delivery_id: u32, payload_bytes: usize) {
        let start = out.len();
        let transfer = Transfer {
            handle: self.handle,
            delivery_id: Some(delivery_id),
            delivery_tag: Some(&delivery_id.to_be_bytes()),
            message_format: Some(self.message_format),
            settled: self.settled.then_some(true),
            ..Transfer::default()
        };
        transfer.encode_frame(out, self.channel, payload_bytes);
        if delivery_id < WIDE_FROM {
            return;
        }
        let handle_bytes = match self.handle {
            0 => 1,
            1..=255 => 2,
            _ => 5,
        };
        // Behind the list's begin and the id's constructor.
        self.id_at = HEADER_BYTES + 6 + handle_bytes + 1;
        self.len = out.len() - start;
        self.head[..self.len].copy_from_slice(&out[start..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::performative::Performative;

    fn transfer(delivery_id: u32) -> Transfer<'static> {
        Transfer {
            handle: 3,
            delivery_id: Some(delivery_id),
            delivery_tag: Some(b"tag"),
            message_format: Some(0),
            settled: Some(false),
            ..Transfer::default()
        }
    }

    #[test]
    fn what_is_no_whole_delivery_is_left_alone() {
        let whole = |transfer: Transfer<'_>| {
            let mut body = Vec::new();
            transfer.encode(&mut body);
            let read = Whole::read(&body);
            if let Some(read) = read {
                assert_eq!(Performative::decode(&body), Ok((Performative::Transfer(transfer), read.length)));
            }
            read.is_some()
        };
        let usual = transfer(700);
        assert!(whole(usual));
        assert!(whole(Transfer { settled: None, message_format: None, ..usual }));
        assert!(whole(Transfer { batchable: true, ..usual }));
        assert!(!whole(Transfer { more: true, ..usual }));
        assert!(!whole(Transfer { resume: true, ..usual }));
        assert!(!whole(Transfer { aborted: true, ..usual }));
        assert!(!whole(Transfer { delivery_id: None, ..usual }));
        assert!(!whole(Transfer { delivery_tag: None, ..usual }));
        assert!(!whole(Transfer { state: Some(&crate::wire::state::ACCEPTED), ..usual }));
    }

    #[test]
    fn frames_of_one_shape_read_alike() {
        let frame = |transfer: Transfer<'_>, payload: usize| {
            let mut frame = Vec::new();
            transfer.encode_frame(&mut frame, 3, payload);
            frame.resize(frame.len() + payload, 9);
            frame
        };
        let usual = frame(transfer(700), 100);
        let shape = Shape::of(&usual, &Whole::read(&usual[HEADER_BYTES..]).unwrap()).unwrap();
        let reads = |bytes: &[u8]| {
            let read = shape.read(bytes);
            if let Some((size, whole)) = read {
                assert_eq!(Whole::read(&bytes[HEADER_BYTES..]), Some(whole));
                assert_eq!(bytes[..4], (size as u32).to_be_bytes());
            }
            read.map(|(_, whole)| whole.delivery_id)
        };
        assert_eq!(reads(&usual), Some(700));
        assert_eq!(reads(&frame(Transfer { delivery_tag: Some(b"gat"), ..transfer(u32::MAX) }, 100)), Some(u32::MAX));
        let mut others = vec![frame(transfer(255), 100), frame(transfer(701), 99), usual[..usual.len() - 1].to_vec()];
        others.push(frame(Transfer { delivery_tag: Some(b"tags"), ..transfer(701) }, 99));
        others.push(frame(Transfer { handle: 4, ..transfer(701) }, 100));
        others.push(frame(Transfer { settled: Some(true), ..transfer(701) }, 100));
        others.push(frame(Transfer { more: true, ..transfer(701) }, 100));
        assert!(others.iter().all(|other| reads(other).is_none()));
        // Each byte of the head counts but those of id and tag.
        let same = (0..40).filter(|&at| {
            let mut other = usual.clone();
            other[at] ^= 0x10;
            reads(&other).is_some()
        });
        assert_eq!(same.count(), 4 + 3 + 40 - HEADER_BYTES - shape.whole.length);
        // A short id, a long tag: no shape.
        let short = frame(transfer(255), 100);
        assert!(Shape::of(&short, &Whole::read(&short[HEADER_BYTES..]).unwrap()).is_none());
        let long = frame(Transfer { delivery_tag: Some(&[7; 32]), ..transfer(700) }, 100);
        assert!(Shape::of(&long, &Whole::read(&long[HEADER_BYTES..]).unwrap()).is_none());
    }

    #[test]
    fn heads_are_written_as_transfers_are() {
        for handle in [0, 7, 255, 256, 70_000] {
            for settled in [false, true] {
                let mut heads = Heads::new(9, handle, 5, settled);
                let (mut written, mut expected) = (Vec::new(), Vec::new());
                for id in [254, 255, 256, 257, 0x1234_5678, u32::MAX, 0, 1, 300] {
                    let transfer = Transfer {
                        handle,
                        delivery_id: Some(id),
                        delivery_tag: Some(&id.to_be_bytes()),
                        message_format: Some(5),
                        settled: settled.then_some(true),
                        ..Transfer::default()
                    };
                    heads.write(&mut written, id, 4, b"body");
                    transfer.encode_frame(&mut expected, 9, 4);
                    expected.extend_from_slice(b"body");
                    heads.write(&mut written, id, 5000, b"");
                    transfer.encode_frame(&mut expected, 9, 5000);
                }
                assert_eq!(written, expected, "handle {handle}");
            }
        }
    }
}

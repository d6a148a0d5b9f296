//! A message's bytes: the moment at which it was to be sent is the beginning of its body.

use crate::payload::{Packer, Payload, Pool, Range};
use crate::time::Time;
use crate::wire::message::{Head, Properties, Property};
use crate::wire::value::code;
use crate::wire::{descriptor, encode};

/// What is copied for each message; the rest of a body is shared by all.
const COPIED_BYTES_MAX: usize = 1024;
const STAMP_BYTES: usize = 8;

/// Makes messages with a body of one size.
pub struct Maker {
    packer: Packer,
    body_bytes: usize,
    /// Of a message: its sections up to the body's shared part.
    scratch: Vec<u8>,
    /// What a large body ends with.
    rest: Option<Range>,
}

impl Maker {
    pub fn new(pool: Pool, body_bytes: usize) -> Maker {
        let rest = (body_bytes > COPIED_BYTES_MAX).then(|| Range::copied(&vec![b'x'; body_bytes - STAMP_BYTES]));
        Maker { packer: Packer::new(pool), body_bytes, scratch: Vec::new(), rest }
    }

    /// A message that only has a body.
    pub fn plain(&mut self, stamp: Time) -> Payload {
        self.scratch.clear();
        self.body(stamp)
    }

    /// A request that wants its reply at an address.
    pub fn request(&mut self, stamp: Time, reply_to: &str, correlation_id: u64) -> Payload {
        self.scratch.clear();
        properties(&mut self.scratch, None, Some(reply_to), |out| encode::ulong(out, correlation_id));
        self.body(stamp)
    }

    fn body(&mut self, stamp: Time) -> Payload {
        let out = &mut self.scratch;
        encode::descriptor(out, descriptor::DATA);
        match u8::try_from(self.body_bytes) {
            Ok(bytes) => out.extend_from_slice(&[code::BINARY8, bytes]),
            Err(_) => {
                out.push(code::BINARY32);
                out.extend_from_slice(&(self.body_bytes as u32).to_be_bytes());
            }
        }
        let stamped = if self.body_bytes >= STAMP_BYTES { STAMP_BYTES } else { 0 };
        out.extend_from_slice(&stamp.0.to_be_bytes()[..stamped]);
        match &self.rest {
            Some(rest) => {
                let mut payload = Payload::from(self.packer.pack(out));
                payload.push(rest.clone());
                payload
            }
            None => {
                out.resize(out.len() + self.body_bytes - stamped, b'x');
                Payload::from(self.packer.pack(out))
            }
        }
    }
}

/// Properties (section 3.2.4) up to the correlation-id.
fn properties(out: &mut Vec<u8>, to: Option<&str>, reply_to: Option<&str>, correlation_id: impl FnOnce(&mut Vec<u8>)) {
    encode::descriptor(out, descriptor::PROPERTIES);
    let list = encode::begin(out);
    let text = |out: &mut Vec<u8>, text: Option<&str>| match text {
        Some(text) => encode::string(out, text),
        None => encode::null(out),
    };
    // message-id, user-id, to, subject, reply-to, correlation-id
    encode::null(out);
    encode::null(out);
    text(out, to);
    encode::null(out);
    text(out, reply_to);
    correlation_id(out);
    encode::finish(out, list, code::LIST8, 6);
}

/// The reply to a request: its body with its correlation-id, to where it said. None: it said nothing.
pub fn reply(request: &[u8]) -> Option<Vec<u8>> {
    let head = Head::scan(request).ok()?;
    let found = Properties::find(request).ok()??;
    let mut scratch = [0; 512];
    let to = found.get(Property::ReplyTo)?.text(&mut scratch).ok()??.to_owned();
    let mut scratch = [0; 512];
    let correlation_id =
        found.get(Property::CorrelationId).and_then(|id| id.bytes(&mut scratch).ok().map(<[u8]>::to_vec));
    let mut out = Vec::with_capacity(request.len());
    properties(&mut out, Some(&to), None, |out| match &correlation_id {
        Some(id) => out.extend_from_slice(id),
        None => encode::null(out),
    });
    out.extend_from_slice(&request[head.body..]);
    Some(out)
}

/// When a message was to be sent. None: its body is too short, or nothing of ours.
pub fn stamp(message: &Payload) -> Option<Time> {
    let first = message.ranges().first()?.as_slice();
    let found = match binary(first) {
        Some(body) => body.get(..STAMP_BYTES)?.try_into().ok(),
        // Sections before the body, or a piece that ends within them.
        None => {
            let whole = message.to_vec();
            let body = Head::scan(&whole[..]).ok()?.body;
            binary(&whole[body..])?.get(..STAMP_BYTES)?.try_into().ok()
        }
    };
    found.map(|bytes| Time(u64::from_be_bytes(bytes)))
}

/// What a data section holds that these bytes begin with.
fn binary(section: &[u8]) -> Option<&[u8]> {
    let value = match section {
        [0, 0x53, 0x75, value @ ..] | [0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x75, value @ ..] => value,
        _ => return None,
    };
    match value {
        [code::BINARY8, _, body @ ..] | [code::BINARY32, _, _, _, _, body @ ..] => Some(body),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::message::to;

    #[test]
    fn the_stamp_survives_any_size_and_sections_before_the_body() {
        let pool = Pool::new(4096, 4);
        for body_bytes in [8, 100, 255, 256, 5000] {
            let mut maker = Maker::new(pool.clone(), body_bytes);
            let message = maker.plain(Time(7_000_000_001));
            assert_eq!(stamp(&message), Some(Time(7_000_000_001)));
            // As a broker passes it on: behind a header of its own.
            let mut sections = vec![0, 0x53, 0x70, 0xc0, 2, 1, 0x41];
            sections.extend(message.to_vec());
            assert_eq!(stamp(&Payload::copied(&sections)), Some(Time(7_000_000_001)));
        }
        assert_eq!(stamp(&Maker::new(pool.clone(), 7).plain(Time(1))), None);
        assert_eq!(stamp(&Payload::copied(b"")), None);
        assert_eq!(stamp(&Payload::copied(&[0, 0x53, 0x77, 0x40])), None);
    }

    #[test]
    fn a_reply_goes_where_its_request_says() {
        let request = Maker::new(Pool::new(4096, 4), 50).request(Time(9), "amqp:/_topo/0/r/temp.x", 3);
        let reply = reply(&request.to_vec()).unwrap();
        assert_eq!(to(&reply[..], &mut [0; 64]).unwrap(), Some("amqp:/_topo/0/r/temp.x"));
        assert_eq!(stamp(&Payload::copied(&reply)), Some(Time(9)));
        assert!(super::reply(&Maker::new(Pool::new(4096, 4), 50).plain(Time(9)).to_vec()).is_none());
    }
}

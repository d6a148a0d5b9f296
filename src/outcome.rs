//! What became of a delivery, in words that engine and routing share.
//!
//! Routing needs the kind (to count, to rank the copies of a multicast); everything else passes through
//! unread, as the bytes that the peer sent: an error with its info map, annotations, a transaction's state.

use std::sync::Arc;

/// A delivery state: its kind, and its own encoding where it has fields.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State {
    pub kind: StateKind,
    /// The state as AMQP encodes it (a described list, descriptor included), where the kind alone doesn't say
    /// everything. None: the kind without fields. All deliveries that one disposition names share it.
    pub encoded: Option<Arc<[u8]>>,
}

/// The delivery states of AMQP 1.0 (section 3.4), and all others (transactional) as one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum StateKind {
    Received,
    Accepted,
    Rejected,
    Released,
    Modified,
    /// Transactional or unknown: passed on, never interpreted.
    Other,
}

impl State {
    pub const ACCEPTED: State = State { kind: StateKind::Accepted, encoded: None };
    pub const RELEASED: State = State { kind: StateKind::Released, encoded: None };

    /// Modified with delivery-failed: what a sender hears when the receiver vanished with the delivery.
    pub fn delivery_failed() -> State {
        // 00 53 27 c0 02 01 41: described list, one field, true
        State { kind: StateKind::Modified, encoded: Some(Arc::new([0x00, 0x53, 0x27, 0xc0, 0x02, 0x01, 0x41])) }
    }

    /// The kind without its fields: rejected without its error is still rejected.
    pub fn without_fields(&self) -> State {
        State { kind: self.kind, encoded: None }
    }

    /// Bytes of its encoding.
    #[inline]
    pub fn encoded_len(&self) -> usize {
        self.encoded.as_ref().map_or(0, |encoded| encoded.len())
    }

    /// Whether this is an outcome (it ends the delivery), not a state on the way.
    #[inline]
    pub fn is_terminal(&self) -> bool {
        !matches!(self.kind, StateKind::Received)
    }
}

/// An error to tell a peer: what AMQP calls an `error`, with the scope that it takes down.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    pub scope: Scope,
    /// A symbol of the specification's or the router's, e.g. `amqp:not-found`, `qd:no-route-to-dest`.
    pub condition: &'static str,
    pub description: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    Link,
    Session,
    Connection,
}

impl Fault {
    pub fn link(condition: &'static str, description: impl Into<String>) -> Fault {
        Fault { scope: Scope::Link, condition, description: description.into() }
    }
    pub fn session(condition: &'static str, description: impl Into<String>) -> Fault {
        Fault { scope: Scope::Session, condition, description: description.into() }
    }
    pub fn connection(condition: &'static str, description: impl Into<String>) -> Fault {
        Fault { scope: Scope::Connection, condition, description: description.into() }
    }
}

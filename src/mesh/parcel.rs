//! What one shard tells another in one turn.
//!
//! A parcel is notes in order, and the payload bytes that they bring, in the same order, in one buffer. It comes back
//! to the shard that made it with what the other one has to say, so that in steady flow none is made anew.
//!
//! Words: a connection's *home* is the shard that has its socket and engine; an address's *owner* is the shard that
//! has its links. A note names a link as the home's engine does.

use crate::ids::{ConnectionId, DeliveryId, LinkHandle, LinkId, Port, SessionNumber, WireDelivery};
use crate::link::{Direction, ReceiverSettleMode, SenderSettleMode, Terminus};
use crate::outcome::{Fault, State};

/// Buffers that grew beyond this are given back rather than kept.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// What is left of a buffer that is one of many.
const SHRUNK_BYTES: usize = 16 << 10;

/// A fact or a command. What a shard says of a connection that is over, or a link that ended, reaches nobody.
#[derive(Debug)]
pub enum Note {
    /// Of a connection that has moved: it is `connection` now, the shard that it left calls it `proxy`.
    Arrived {
        proxy: ConnectionId,
        connection: ConnectionId,
    },
    FromHome(Port, Happened),
    FromOwner(Port, Decided),
    /// From the home: what concerns a session, or all of a connection.
    SessionFull {
        connection: ConnectionId,
        session: SessionNumber,
    },
    /// From the home: so many bytes of deliveries to it (`cost_bytes`) wait no longer.
    SessionSent {
        connection: ConnectionId,
        session: SessionNumber,
        bytes: usize,
    },
    /// From the home: the connection is over, and all its links with it.
    ConnectionOver {
        connection: ConnectionId,
    },
    /// From the home: the receiver of a delivery told its state.
    ReceiverDisposition {
        delivery: DeliveryId,
        wire: WireDelivery,
        state: Option<State>,
        settled: bool,
    },
    /// From the home: payload of a streamed delivery went out.
    PayloadSent {
        delivery: DeliveryId,
        bytes: usize,
        complete: bool,
    },
    /// From the home: nothing of a delivery went out, and its link ends.
    Unsent {
        delivery: DeliveryId,
    },
    /// From the home: a delivery is larger than its receiver takes.
    Refused {
        delivery: DeliveryId,
    },
    /// From the owner: payload bytes that a session brought have left the router.
    PayloadReleased {
        connection: ConnectionId,
        session: SessionNumber,
        bytes: usize,
    },
    /// From the owner: so many unsettled deliveries of a session, whose window is shut, wait there.
    PlacesLent {
        connection: ConnectionId,
        session: SessionNumber,
        places: u32,
    },
}

/// What happened on a link, as its home tells the owner of its address. Lost: the owner's picture of the link is wrong.
#[derive(Debug)]
pub enum Happened {
    Attached(Box<Attaching>),
    Ended {
        closed: bool,
    },
    /// With `to_bytes` of an address and then `bytes` of payload.
    Delivery {
        wire: WireDelivery,
        message_format: u32,
        settled: bool,
        complete: bool,
        to_bytes: u16,
        bytes: u32,
    },
    DeliveryMore {
        wire: WireDelivery,
        complete: bool,
        settled: bool,
        bytes: u32,
    },
    /// One whose annotations are wrong.
    DeliveryRefused {
        wire: WireDelivery,
        settled: bool,
        complete: bool,
        why: &'static str,
    },
    DeliveryAborted {
        wire: WireDelivery,
    },
    SenderDisposition {
        wire: WireDelivery,
        state: Option<State>,
        settled: bool,
    },
    SenderDrained {
        returned: u32,
    },
    /// The receiver's credit, its `round`th. `delivery_count` counts the deliveries that the home had seen, `seen` in all.
    Credit {
        delivery_count: u32,
        seen: u32,
        limit: u32,
        drain: bool,
        round: u32,
    },
}

/// What the owner wants done on a link.
#[derive(Debug)]
pub enum Decided {
    Attached(Box<Result<Accepted, Fault>>),
    Grant {
        add: u32,
        drain: bool,
    },
    /// With `bytes` of payload, as those below. `session`: the one that it counts to, also where its link is over.
    Send {
        delivery: DeliveryId,
        session: SessionNumber,
        message_format: u32,
        settled: bool,
        complete: bool,
        bytes: u32,
    },
    SendMore {
        delivery: DeliveryId,
        complete: bool,
        bytes: u32,
    },
    SendAbort {
        delivery: DeliveryId,
    },
    DisposeIncoming {
        wire: WireDelivery,
        state: Option<State>,
        settled: bool,
    },
    DisposeOutgoing {
        wire: WireDelivery,
        state: Option<State>,
        settled: bool,
    },
    /// The drain of the receiver's `round`th credit is answered.
    Drained {
        round: u32,
    },
    Detach(Box<Fault>),
}

/// An attach, for the owner of its address.
#[derive(Debug)]
pub struct Attaching {
    /// `[Cn]` in the log.
    pub number: u64,
    /// The connection's listener's.
    pub link_capacity: u32,
    pub session: SessionNumber,
    pub direction: Direction,
    /// Absent: an anonymous sender's, some of whose messages go there. Nobody waits for an answer.
    pub terminus: Terminus,
    pub name: String,
    pub sender_settle_mode: SenderSettleMode,
    pub receiver_settle_mode: ReceiverSettleMode,
}

#[derive(Debug)]
pub struct Accepted {
    pub link: LinkId,
    pub sender_settle_mode: SenderSettleMode,
    pub receiver_settle_mode: ReceiverSettleMode,
}

#[derive(Debug, Default)]
struct Contents {
    notes: Vec<Note>,
    bytes: Vec<u8>,
    /// Empty ones on their way back.
    returned: Vec<Parcel>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Parcel(Box<Contents>);

impl Parcel {
    /// Notes in it.
    pub fn len(&self) -> usize {
        self.0.notes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.notes.is_empty() && self.0.returned.is_empty()
    }

    pub fn push(&mut self, note: Note) {
        self.0.notes.push(note);
    }

    /// Bytes of payload in it.
    pub fn bytes_len(&self) -> usize {
        self.0.bytes.len()
    }

    /// Appends bytes that the next note brings.
    pub fn put(&mut self, bytes: &[u8]) {
        self.0.bytes.extend_from_slice(bytes);
    }

    /// Has an empty one taken along.
    pub fn take_along(&mut self, empty: Parcel) {
        debug_assert!(empty.is_empty());
        self.0.returned.push(empty);
    }

    pub fn pop_returned(&mut self) -> Option<Parcel> {
        self.0.returned.pop()
    }

    /// Takes its notes out, to be put back by [`Self::clear`].
    pub fn take_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.0.notes)
    }

    /// All bytes of payload.
    pub fn bytes(&self) -> &[u8] {
        &self.0.bytes
    }

    /// Gives back what an empty one grew large by.
    pub fn shrink(&mut self) {
        self.0.bytes.shrink_to(SHRUNK_BYTES);
    }

    /// Makes it empty; its memory stays. `notes`: as `take_notes` gave them.
    pub fn clear(&mut self, mut notes: Vec<Note>) {
        notes.clear();
        self.0.notes = notes;
        self.0.bytes.clear();
        if self.0.bytes.capacity() > KEPT_BYTES_MAX {
            self.0.bytes = Vec::new();
        }
    }
}

/// What a delivery counts as while it waits at its consumer's home: its payload, and its record there.
pub fn cost_bytes(payload_bytes: usize) -> usize {
    payload_bytes + 128
}

/// A link on a connection.
impl Note {
    pub fn happened(connection: ConnectionId, link: LinkHandle, what: Happened) -> Note {
        Note::FromHome(Port { connection, link }, what)
    }

    pub fn decided(connection: ConnectionId, link: LinkHandle, what: Decided) -> Note {
        Note::FromOwner(Port { connection, link }, what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parcel_may_go_to_another_thread_and_is_small() {
        fn goes<T: Send>() {}
        goes::<Parcel>();
        assert!(std::mem::size_of::<Note>() <= 72, "{}", std::mem::size_of::<Note>());
        assert_eq!(std::mem::size_of::<Parcel>(), 8);
    }
}

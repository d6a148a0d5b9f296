//! What routing tells its driver to do.

use crate::ids::{ConnectionId, DeliveryId, Port, SessionNumber, WireDelivery};
use crate::outcome::{Fault, State};
use crate::payload::Payload;

/// One command to an engine. The driver applies them in order.
#[derive(Debug)]
pub enum Output {
    /// A sender's link gets `add` more credit. `drain`: it should use or return what it has.
    Credit { port: Port, add: u32, drain: bool },
    /// A delivery goes out on a consumer's link. `complete` false: more payload follows with `SendMore`.
    Send { port: Port, delivery: DeliveryId, message_format: u32, settled: bool, complete: bool, payload: Payload },
    /// More payload of a delivery that went out incomplete.
    SendMore { port: Port, delivery: DeliveryId, complete: bool, payload: Payload },
    /// A delivery that went out incomplete will never be complete.
    SendAbort { port: Port, delivery: DeliveryId },
    /// The sender of a delivery hears its state.
    DisposeIncoming { port: Port, wire: WireDelivery, state: Option<State>, settled: bool },
    /// The consumer of a delivery hears that the sender settled it (three-ack), or its state changed there.
    DisposeOutgoing { port: Port, wire: WireDelivery, state: Option<State>, settled: bool },
    /// A consumer's drain is answered: what credit is left is given back.
    Drained { port: Port },
    /// A link has to go.
    Detach { port: Port, fault: Fault },
    /// Payload bytes that a session of this connection brought have left the router.
    PayloadReleased { connection: ConnectionId, session: SessionNumber, bytes: usize },
    /// So many unsettled deliveries of a session, whose window is shut, wait in the router: they aren't to keep the rest of another one
    /// out, which they may be waiting for.
    PlacesLent { connection: ConnectionId, session: SessionNumber, places: u32 },
}

impl Output {
    /// Whose engine it is for.
    pub fn connection(&self) -> ConnectionId {
        match self {
            Output::Credit { port, .. }
            | Output::Send { port, .. }
            | Output::SendMore { port, .. }
            | Output::SendAbort { port, .. }
            | Output::Drained { port }
            | Output::DisposeIncoming { port, .. }
            | Output::DisposeOutgoing { port, .. }
            | Output::Detach { port, .. } => port.connection,
            Output::PayloadReleased { connection, .. } | Output::PlacesLent { connection, .. } => *connection,
        }
    }
}

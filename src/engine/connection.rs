//! The connection: the engine itself, its getters, `handle_*`, commands and `poll_*`.

use super::*;
use crate::ids::{DeliveryId, LinkHandle, LinkId, SessionNumber, WireDelivery};
use crate::outcome::{Fault, State};
use crate::payload::{Payload, Range};
use crate::time::Time;
use std::sync::Arc;

/// One AMQP connection, the router's end.
pub struct Engine {
    settings: Arc<Settings>,
    now: Time,
    output: Transmit,
}

/// Making and getters.
impl Engine {
    pub fn new(settings: Arc<Settings>, now: Time) -> Engine {
        Engine { settings, now, output: Transmit::default() }
    }

    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// What `accept_link` said of this link; None: not accepted, or gone.
    pub fn link_token(&self, _link: LinkHandle) -> Option<LinkId> {
        None
    }

    pub fn link_direction(&self, _link: LinkHandle) -> Option<Direction> {
        None
    }

    pub fn link_session(&self, _link: LinkHandle) -> Option<SessionNumber> {
        None
    }

    /// Output bytes that wait for `poll_transmit`.
    pub fn output_len(&self) -> usize {
        self.output.len()
    }

    /// Whether so much output waits that `send` would hold what it is given.
    pub fn is_output_above_mark(&self) -> bool {
        self.output_len() >= crate::limits::OUTPUT_MARK_BYTES
    }

    /// No more input is taken and nothing but the output at hand will be sent. Flush, shut down the socket's write
    /// side, and close it when the peer did or after a bounded wait.
    pub fn is_closed(&self) -> bool {
        false
    }

    /// The peer's container-id, once it opened.
    pub fn container_id(&self) -> Option<&str> {
        None
    }

    /// Bytes of the largest frame that the peer takes.
    pub fn remote_max_frame_size(&self) -> u32 {
        512
    }

    /// Whether the driver should go on reading: false while input rests (SASL, output that the peer doesn't read).
    pub fn wants_input(&self) -> bool {
        true
    }

    /// Whether `poll_event` may have something to give without new input: call it again after `poll_transmit`.
    pub fn has_work(&self) -> bool {
        false
    }

    /// Whether a buffer should be lent (`give_output`) before the engine is told anything.
    pub fn needs_output(&self) -> bool {
        self.output.bytes.capacity() == 0
    }
}

/// What happened outside.
impl Engine {
    /// Bytes came. Then drain `poll_event`.
    pub fn handle_input(&mut self, _bytes: Range, now: Time) {
        self.now = now;
    }

    /// The peer's end of stream, or the socket's error: every link ends, then the connection.
    pub fn handle_end_of_stream(&mut self, now: Time) {
        self.now = now;
    }

    /// The time of `poll_timeout` came.
    pub fn handle_timeout(&mut self, now: Time) {
        self.now = now;
    }
}

/// Commands. Those that name a link, session or delivery that is gone do nothing.
impl Engine {
    /// Lends an empty buffer for output; `poll_transmit` gives it back.
    pub fn give_output(&mut self, buffer: Transmit) {
        self.output = buffer;
    }

    pub fn sasl_challenge(&mut self, _challenge: &[u8]) {}

    /// Ends the SASL exchange: code 0 (ok) or 1 (auth), after which the connection is over.
    pub fn sasl_outcome(&mut self, _ok: bool) {}

    pub fn accept_link(&mut self, _link: LinkHandle, _token: LinkId, _answer: LinkAnswer<'_>) {}

    /// Refuses an attach: an attach with a null terminus at our end, then detach(closed, error) (section 2.6.3).
    pub fn refuse_link(&mut self, _link: LinkHandle, _fault: &Fault) {}

    /// Says, after `Event::Transfer`, that routing keeps the delivery, by this id. Of a delivery that it doesn't keep
    /// nothing more is heard.
    pub fn set_incoming_token(&mut self, _wire: WireDelivery, _token: DeliveryId) {}

    /// Gives the sender of an incoming link `add` more credit. `drain`: it should use or return what it has.
    pub fn grant(&mut self, _link: LinkHandle, _add: u32, _drain: bool) {}

    /// Begins a delivery on an outgoing link that has credit and no delivery under way.
    pub fn send(
        &mut self,
        _link: LinkHandle,
        _delivery: DeliveryId,
        _message_format: u32,
        _settled: bool,
        _complete: bool,
        _payload: Payload,
    ) -> Sent {
        Sent::Whole { room: true }
    }

    /// More payload of the delivery under way. Whole: all that was given of it is in the output and it is complete.
    pub fn send_more(&mut self, _link: LinkHandle, _delivery: DeliveryId, _complete: bool, _payload: Payload) -> Sent {
        Sent::Whole { room: true }
    }

    /// Gives up the delivery under way. Partly: the abort itself waits for the session's window.
    pub fn send_abort(&mut self, _link: LinkHandle, _delivery: DeliveryId) -> Sent {
        Sent::Whole { room: true }
    }

    /// Tells the sender of an incoming delivery its state.
    pub fn dispose_incoming(&mut self, _wire: WireDelivery, _state: Option<State>, _settled: bool) {}

    /// Tells the receiver of an outgoing delivery our state of it.
    pub fn dispose_outgoing(&mut self, _wire: WireDelivery, _state: Option<State>, _settled: bool) {}

    /// Answers a receiver's drain: the credit left is used up, and the flow says so.
    pub fn drained(&mut self, _link: LinkHandle) {}

    /// Ends a link: detach(closed, error). `LinkEnded` follows.
    pub fn detach(&mut self, _link: LinkHandle, _fault: &Fault) {}

    /// Ends the connection. `LinkEnded` for each link and `Closed` follow.
    pub fn close(&mut self, _fault: Option<&Fault>) {}

    /// Payload bytes that this session brought have left the router.
    pub fn payload_released(&mut self, _session: SessionNumber, _bytes: usize) {}

    pub fn set_trace(&mut self, _on: bool) {}
}

/// What there is to do.
impl Engine {
    pub fn poll_event(&mut self) -> Option<Event> {
        None
    }

    pub fn poll_timeout(&self) -> Option<Time> {
        None
    }

    /// All output at hand. Events may follow (room for what waited): see `has_work`.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        if self.output.is_empty() {
            return None;
        }
        Some(std::mem::take(&mut self.output))
    }

    /// A frame as a line of text, where tracing is on.
    pub fn poll_trace(&mut self) -> Option<String> {
        None
    }
}

//! The usual delivery and its outcome: from engine to engine as soon as the router has said where to.

use super::Dispatch;
use crate::engine::Sent;
use crate::ids::{DeliveryId, WireDelivery};
use crate::outcome::{State, StateKind};
use crate::payload::Payload;
use crate::routing::{Output, Pass};
use crate::time::Time;

impl Dispatch {
    /// A delivery goes straight on to a consumer.
    #[inline]
    pub(super) fn pass(&mut self, pass: Pass, message_format: u32, mut payload: Payload) {
        let Pass { port, delivery, settled, .. } = pass;
        self.annotate(port.connection, true, &mut payload);
        let Some(engine) = self.engine(port.connection) else {
            self.router.passed(&pass);
            return self.tell(Output::Send { port, delivery, message_format, settled, complete: true, payload });
        };
        let sent = engine.send(port.link, delivery, message_format, settled, true, payload);
        self.deliveries_out += 1;
        match sent {
            Sent::Whole { room: true } => self.router.passed(&pass),
            Sent::Whole { room: false } => {
                self.router.passed(&pass);
                self.session_blocked(port);
            }
            Sent::Partly => self.router.passed_partly(&pass),
        }
    }

    /// A consumer's word on a delivery: the usual one goes straight to its sender.
    #[inline]
    pub(super) fn receiver_disposition(
        &mut self,
        delivery: DeliveryId,
        wire: WireDelivery,
        state: Option<State>,
        settled: bool,
        now: Time,
    ) {
        let outcome = state.as_ref().map_or(StateKind::Other, |state| state.kind);
        let told = if settled { self.router.settle(delivery, outcome, now) } else { None };
        let Some((port, wire)) = told else {
            return self.router.receiver_disposition(delivery, wire, state, settled, now);
        };
        match self.engine(port.connection) {
            Some(engine) => engine.dispose_incoming(wire, state, true),
            None => self.tell(Output::DisposeIncoming { port, wire, state, settled: true }),
        }
    }
}

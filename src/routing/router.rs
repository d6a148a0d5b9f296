//! The router's inputs and outputs.

use crate::ids::{ConnectionId, DeliveryId, LinkId, Port, SessionNumber, WireDelivery};
use crate::link::{Direction, ReceiverSettleMode, SenderSettleMode, Terminus};
use crate::outcome::{Fault, State};
use crate::payload::Payload;
use crate::routing::output::Output;
use crate::routing::settings::RouterSettings;
use crate::time::Time;
use std::collections::VecDeque;

/// A peer attaches a link.
#[derive(Debug)]
pub struct Attach<'a> {
    pub port: Port,
    pub session: SessionNumber,
    pub direction: Direction,
    /// The terminus at the router's end.
    pub terminus: &'a Terminus,
    pub name: &'a str,
    pub sender_settle_mode: SenderSettleMode,
    pub receiver_settle_mode: ReceiverSettleMode,
}

/// The router's answer to an attach that it accepts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attached {
    pub link: LinkId,
    /// The address that a dynamic node was given.
    pub dynamic_address: Option<String>,
    pub sender_settle_mode: SenderSettleMode,
    pub receiver_settle_mode: ReceiverSettleMode,
}

/// A delivery's first frame.
#[derive(Debug)]
pub struct Arrival<'a> {
    pub wire: WireDelivery,
    pub message_format: u32,
    pub settled: bool,
    /// False: more follows with `delivery_more`.
    pub complete: bool,
    pub payload: Payload,
    /// On an anonymous link (see `is_anonymous`): the message's properties.to.
    pub to: Option<&'a str>,
}

/// The routing of one shard.
pub struct Router {
    settings: RouterSettings,
    outputs: VecDeque<Output>,
}

impl Router {
    pub fn new(settings: RouterSettings, _now: Time) -> Router {
        Router { settings, outputs: VecDeque::new() }
    }

    // ── getters ──

    /// Whether a sender's link names no address, so that each message has its own (`Arrival::to`).
    pub fn is_anonymous(&self, _link: LinkId) -> bool {
        false
    }

    pub fn settings(&self) -> &RouterSettings {
        &self.settings
    }

    // ── what happened ──

    /// A connection is open. `link_capacity`: its listener's.
    pub fn connection_opened(&mut self, _connection: ConnectionId, _link_capacity: u32) {}

    /// A connection is over, and all its links with it; nothing is said to it any more.
    pub fn connection_closed(&mut self, _connection: ConnectionId, _now: Time) {}

    /// A peer attaches a link: accepted with a token for it, or refused.
    pub fn attach(&mut self, attach: Attach<'_>, _now: Time) -> Result<Attached, Fault> {
        let _ = attach;
        Err(Fault::link("amqp:not-implemented", "routing is not there yet"))
    }

    /// A link is gone, for whatever reason. Unknown ones are ignored.
    pub fn link_ended(&mut self, _link: LinkId, _closed: bool, _now: Time) {}

    /// A delivery begins. The id, where the router keeps it, is the engine's token for it from now on (before
    /// the outputs are drained); None: it is done with already, later frames of it are to be dropped, and their
    /// payload counts as released.
    pub fn delivery(&mut self, _link: LinkId, _arrival: Arrival<'_>, _now: Time) -> Option<DeliveryId> {
        None
    }

    /// A later frame of a delivery.
    pub fn delivery_more(
        &mut self,
        _delivery: DeliveryId,
        _payload: Payload,
        _complete: bool,
        _settled: bool,
        _now: Time,
    ) {
    }

    /// The sender gave up a delivery that it had begun.
    pub fn delivery_aborted(&mut self, _delivery: DeliveryId, _now: Time) {}

    /// A consumer told the state of a delivery that it was sent.
    pub fn receiver_disposition(
        &mut self,
        _delivery: DeliveryId,
        _wire: WireDelivery,
        _state: Option<State>,
        _settled: bool,
        _now: Time,
    ) {
    }

    /// A sender told the state of a delivery that it sent (settled it, most often).
    pub fn sender_disposition(&mut self, _delivery: DeliveryId, _state: Option<State>, _settled: bool, _now: Time) {}

    /// A consumer's credit: it takes deliveries up to `limit` (delivery-count + link-credit), a serial number.
    pub fn credit(&mut self, _link: LinkId, _delivery_count: u32, _limit: u32, _drain: bool, _now: Time) {}

    /// A sender gave credit back without a delivery; `credit_left` is what it still has.
    pub fn sender_drained(&mut self, _link: LinkId, _credit_left: u32, _now: Time) {}

    /// The engine could not put all of the `Send` or `SendMore` that was polled last into its output: the link is
    /// taken until `payload_sent` says complete. Call it before the next `poll_output`; without it, what was
    /// polled counts as sent whole.
    pub fn link_busy(&mut self, _link: LinkId) {}

    /// Payload of a delivery that made its link busy went out. `complete`: the link is free again.
    pub fn payload_sent(&mut self, _delivery: DeliveryId, _bytes: usize, _complete: bool, _now: Time) {}

    /// A consumer's connection or session takes nothing more for now. Call it before the next `poll_output`.
    pub fn session_blocked(&mut self, _connection: ConnectionId, _session: SessionNumber) {}

    /// It takes deliveries again.
    pub fn session_writable(&mut self, _connection: ConnectionId, _session: SessionNumber, _now: Time) {}

    pub fn handle_timeout(&mut self, _now: Time) {}

    // ── what to do ──

    pub fn poll_timeout(&self) -> Option<Time> {
        None
    }

    /// The next command for an engine. Drain it after each input; work is assigned to consumers only here, one
    /// delivery at a time, so that `link_busy` and `session_blocked` are heard in between.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }
}

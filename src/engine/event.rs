//! What an engine tells its driver, and the words of its commands.

use crate::ids::{DeliveryId, LinkHandle, LinkId, SessionNumber, WireDelivery};
pub use crate::link::{Direction, ReceiverSettleMode, SenderSettleMode, Terminus};
use crate::outcome::State;
use crate::payload::Payload;
pub use crate::wire::terminus::{Source, Target};

/// An error that a peer sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RemoteError {
    pub condition: String,
    pub description: String,
}

/// One thing that happened on a connection. Small: what is large and rare is boxed.
#[derive(Debug)]
pub enum Event {
    /// The peer chose a SASL mechanism. Answer with `sasl_challenge` or `sasl_outcome`; input rests until then.
    SaslInit(Box<SaslInit>),
    /// The peer's answer to a challenge.
    SaslResponse(Vec<u8>),
    /// Where we connect: the mechanisms that the server offers. Answer with `sasl_init` (or close); input rests until then.
    SaslMechanisms(Vec<String>),
    /// Where we connect: the server's challenge. Answer with `sasl_respond`.
    SaslChallenge(Vec<u8>),
    /// The peer opened the connection; our open is already on its way out.
    Opened(Box<RemoteOpen>),
    /// A link was attached by the peer. Answer with `accept_link` or `refuse_link`.
    Attached { link: LinkHandle, attach: Box<RemoteAttach> },
    /// The peer attached its end of a link that `attach_link` began. A refusal looks the same, without a terminus at the
    /// peer's end, and `LinkEnded` follows. `attach.terminus` is the peer's: the target of a link that we send on.
    LinkAnswered { link: LinkHandle, token: LinkId, attach: Box<RemoteAttach> },
    /// A link ended, for whatever reason (a detach, its session's or connection's end, stolen, our fault): the
    /// handle is gone when this event is out; deliveries on it are routing's to end. `token`: what `accept_link`
    /// said; None: the link ended before it was answered.
    LinkEnded { link: LinkHandle, token: Option<LinkId>, closed: bool, error: Option<Box<RemoteError>> },
    /// The first frame of a delivery on an incoming link.
    Transfer(Transfer),
    /// A later frame of a delivery whose first had `more`.
    /// `token` is what `set_incoming_token` said of it.
    TransferMore {
        link: LinkHandle,
        wire: WireDelivery,
        token: Option<DeliveryId>,
        payload: Payload,
        more: bool,
        settled: bool,
    },
    /// The peer gave up a delivery that it had begun.
    TransferAborted { link: LinkHandle, wire: WireDelivery, token: Option<DeliveryId> },
    /// The receiver of an outgoing delivery told its state. One event a delivery, however many a frame named.
    /// When `settled`, the engine has forgotten the delivery.
    ReceiverDisposition { delivery: DeliveryId, wire: WireDelivery, state: Option<State>, settled: bool },
    /// The sender of an incoming delivery told its state (settled it, most often). When `settled`, the engine
    /// has forgotten it.
    SenderDisposition { wire: WireDelivery, token: Option<DeliveryId>, state: Option<State>, settled: bool },
    /// The receiver of an outgoing link has credit up to `limit` (its delivery-count + link-credit, a serial
    /// number, RFC 1982), counted as `delivery_count` counts. `drain`: use it now or give it back.
    Credit { link: LinkHandle, delivery_count: u32, limit: u32, drain: bool },
    /// The sender of an incoming link gave `returned` of its credit back without a delivery, or answered a drain, in
    /// which case that may be 0. Not what it has left: a grant may have been made since the sender wrote this.
    SenderDrained { link: LinkHandle, returned: u32 },
    /// Payload bytes of an outgoing delivery went into the output. `complete`: all of it did, the link is free
    /// for the next. Only for deliveries whose `send` did not say `Sent::Whole`.
    PayloadSent { delivery: DeliveryId, link: LinkHandle, bytes: usize, complete: bool },
    /// Nothing of this delivery, which `send` took, went to the peer or ever will: its link ends, as the next events say.
    Unsent { delivery: DeliveryId },
    /// This delivery is larger than its receiver's max-message-size: the receiver gets nothing of it, or an abort behind what
    /// it got. `PayloadSent` follows as for others. `settled`: as `send` said.
    Refused { delivery: DeliveryId, link: LinkHandle, settled: bool },
    /// Outgoing links of this session may send again, after `send` said that there was no room.
    SessionWritable { session: SessionNumber },
    /// The router holds as much payload of this session as it may, so the peer can send nothing on it. Told once until
    /// the window opens again.
    SessionFull { session: SessionNumber },
    /// The connection is over: the peer closed it, or it broke our rules. No event follows.
    Closed { error: Option<Box<RemoteError>> },
}

#[derive(Debug)]
pub struct SaslInit {
    pub mechanism: String,
    /// None where the peer sent none (null), which isn't the same as an empty one.
    pub initial_response: Option<Vec<u8>>,
    pub hostname: Option<String>,
}

#[derive(Debug, Default)]
pub struct RemoteOpen {
    pub container_id: String,
    pub hostname: Option<String>,
    pub max_frame_size: u32,
    pub channel_max: u16,
    pub idle_timeout_milliseconds: u32,
    /// `product` and `version` of the peer's properties, where given.
    pub product: Option<String>,
    pub version: Option<String>,
    /// All of its properties, a map as it was encoded. None: absent, or too many to be kept.
    pub properties: Option<Box<[u8]>>,
}

/// An attach of the peer's, with what routing asks of it.
#[derive(Debug, Default)]
pub struct RemoteAttach {
    pub name: String,
    pub session: SessionNumber,
    pub direction: Option<Direction>,
    pub sender_settle_mode: SenderSettleMode,
    pub receiver_settle_mode: ReceiverSettleMode,
    /// The terminus at the router's end: the target of an incoming link, the source of an outgoing one. Of a link that we
    /// attached, the one at the peer's end.
    pub terminus: Terminus,
    /// The whole source and target as the peer encoded them (a described list each), to be echoed; None: absent or null.
    pub source_encoded: Option<Box<[u8]>>,
    pub target_encoded: Option<Box<[u8]>>,
    /// 0: none.
    pub max_message_size: u64,
}

/// A delivery's first frame.
#[derive(Debug)]
pub struct Transfer {
    pub link: LinkHandle,
    /// What `accept_link` said of the link; it has credit only since.
    pub token: Option<LinkId>,
    pub wire: WireDelivery,
    pub message_format: u32,
    pub settled: bool,
    pub more: bool,
    pub payload: Payload,
}

/// What became of a `send`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sent {
    /// All of it is in the output. `room` says whether the link's connection and session take more now.
    Whole { room: bool },
    /// Some of it waits in the engine (session window, output mark, or the message is still arriving): the link
    /// takes no other delivery until `PayloadSent` says complete.
    Partly,
}

/// How a link is accepted; the peer's own source and target are echoed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkAnswer<'a> {
    pub sender_settle_mode: SenderSettleMode,
    pub receiver_settle_mode: ReceiverSettleMode,
    /// The address of a node that was made for a dynamic terminus.
    pub dynamic_address: Option<&'a str>,
    /// Bytes of the largest message on an incoming link, where it is less than the listener's. None: the listener's.
    pub max_message_size: Option<u64>,
}

/// A link that our side attaches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkOffer<'a> {
    /// No other link of the peer's and ours has this name in this direction.
    pub name: &'a str,
    pub direction: Direction,
    pub source: Source<'a>,
    pub target: Target<'a>,
    pub sender_settle_mode: SenderSettleMode,
    pub receiver_settle_mode: ReceiverSettleMode,
}

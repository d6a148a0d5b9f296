//! One connection of the load: a link to send on, one to receive on, or both.
//!
//! A sender has a link to its address, a receiver one from it. With requests the sender also has a link from an address
//! that the peer makes for its replies, and the receiver an anonymous one to send them on.

use super::figures::Tally;
use super::message::{self, Maker};
use super::{Dial, Plan};
use crate::client::{Client, PRODUCT};
use crate::engine::{Event, RemoteError, Sent, Settings, Terminus, Transfer};
use crate::ids::{DeliveryId, LinkHandle, LinkId, SessionNumber, WireDelivery};
use crate::outcome::{State, StateKind};
use crate::payload::Payload;
use crate::time::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// The links' tokens.
const OUTGOING: LinkId = LinkId { index: 0, generation: 0 };
const INCOMING: LinkId = LinkId { index: 1, generation: 0 };
/// Bytes of a request that is answered; larger ones get no reply.
const REQUEST_BYTES_MAX: usize = 1 << 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    Sender,
    Receiver,
}

pub struct Peer {
    pub client: Client,
    pub part: Part,
    /// Of its part.
    pub index: usize,
    pub outgoing: Outgoing,
    incoming: Option<LinkHandle>,
    session: SessionNumber,
    /// Deliveries that the incoming link may still bring.
    credit_left: u32,
    /// A delivery whose last frame hasn't come.
    arriving: Option<Arriving>,
    /// Where replies are to go.
    reply_to: Option<String>,
    /// Replies that wait for credit.
    replies: VecDeque<Payload>,
    links_missing: usize,
    /// Already said to be ready, done.
    pub is_ready: bool,
    pub is_done: bool,
    /// In the worker's list of peers with something to do.
    pub is_pending: bool,
    /// Messages whose moment to be sent has come.
    pub due: u64,
    /// Messages sent, and those among them that count.
    pub sent: u64,
    pub measured: u64,
}

/// The link that it sends on.
#[derive(Default)]
pub struct Outgoing {
    link: Option<LinkHandle>,
    credit: u32,
    /// No room in the session or the output.
    blocked: bool,
    /// A delivery is on its way in pieces.
    partly: bool,
    /// Without an outcome, or a reply.
    outstanding: u32,
}

struct Arriving {
    wire: WireDelivery,
    settled: bool,
    payload: Payload,
}

/// What happened on a connection that its worker wants to know.
pub struct Context<'a> {
    pub plan: &'a Plan,
    pub tally: &'a mut Tally,
    pub now: Time,
    /// The time in which messages count.
    pub window: (Time, Time),
}

impl Peer {
    pub fn new(part: Part, index: usize, dial: &Dial, now: Time) -> Peer {
        let settings = Settings {
            container_id: format!("{PRODUCT}-load-{}-{part:?}-{index}", std::process::id()),
            hostname: Some(dial.hostname.clone()),
            product: PRODUCT,
            capabilities: &[],
            idle_timeout: Duration::ZERO,
            max_frame_size: 65_536,
            ..Settings::default()
        };
        Peer {
            client: Client::new(settings, dial.login.clone(), now),
            part,
            index,
            outgoing: Outgoing::default(),
            incoming: None,
            session: SessionNumber(0),
            credit_left: 0,
            arriving: None,
            reply_to: None,
            replies: VecDeque::new(),
            links_missing: 1,
            is_ready: false,
            is_done: false,
            is_pending: false,
            due: 0,
            sent: 0,
            measured: 0,
        }
    }

    pub fn has_all_links(&self) -> bool {
        self.links_missing == 0
    }

    /// Acts on all events. An error: the connection, or a link, has ended.
    pub fn handle_events(&mut self, context: &mut Context<'_>) -> Result<(), String> {
        while let Some(event) = self.client.poll_event() {
            self.handle(event, context)?;
        }
        self.send_replies();
        Ok(())
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) -> Result<(), String> {
        match event {
            Event::Opened(_) => self.attach(context.plan)?,
            Event::LinkAnswered { token, attach, .. } => self.answered(token, &attach.terminus, context.plan)?,
            Event::LinkEnded { error, .. } => return Err(self.ended("the peer ended a link", error)),
            Event::Closed { error } => {
                let ours = self.client.engine.close_reason().map(|fault| fault.description.clone());
                let what = ours.unwrap_or_else(|| "the peer closed the connection".to_owned());
                return Err(self.ended(&what, error));
            }
            Event::Credit { link, delivery_count, limit, drain } => {
                // A peer that took credit back is behind what is on its way.
                let ahead = limit.wrapping_sub(delivery_count);
                self.outgoing.credit = if ahead as i32 > 0 { ahead } else { 0 };
                if drain {
                    self.client.engine.drained(link);
                    self.outgoing.credit = 0;
                }
            }
            Event::Transfer(transfer) => self.transfer(transfer, context),
            Event::TransferMore { wire, payload, more, settled, .. } => {
                self.more(wire, payload, more, settled, context)
            }
            Event::TransferAborted { .. } => self.arriving = None,
            Event::ReceiverDisposition { wire, state, settled, .. } => self.outcome(wire, state, settled, context),
            Event::SessionWritable { .. } => self.outgoing.blocked = false,
            Event::PayloadSent { complete, .. } => self.outgoing.partly &= !complete,
            _ => {}
        }
        Ok(())
    }

    fn ended(&self, what: &str, error: Option<Box<RemoteError>>) -> String {
        let part = format!("{:?} {}", self.part, self.index).to_lowercase();
        match error {
            Some(error) => format!("{part}: {what}: {}: {}", error.condition, error.description),
            None => format!("{part}: {what}"),
        }
    }

    // ── links ──

    fn attach(&mut self, plan: &Plan) -> Result<(), String> {
        let full = || "the peer takes no session, or no link".to_owned();
        self.session = self.client.engine.begin_session().ok_or_else(full)?;
        let address = plan.address_of(self.index);
        let is_sender = self.part == Part::Sender;
        self.links_missing = 1 + usize::from(plan.requests);
        if is_sender || plan.requests {
            // A responder's is anonymous: each reply says where to.
            let address = is_sender.then_some(&address[..]);
            let name = format!("load-out-{}-{}", std::process::id(), self.index);
            self.outgoing.link = Some(self.client.sender(self.session, OUTGOING, &name, address).ok_or_else(full)?);
        }
        if !is_sender || plan.requests {
            let address = (!is_sender).then_some(&address[..]);
            let name = format!("load-in-{}-{}", std::process::id(), self.index);
            let link = self.client.receiver(self.session, INCOMING, &name, address).ok_or_else(full)?;
            self.incoming = Some(link);
            self.client.engine.grant(link, plan.credit, false);
            self.credit_left = plan.credit;
        }
        Ok(())
    }

    fn answered(&mut self, token: LinkId, terminus: &Terminus, plan: &Plan) -> Result<(), String> {
        let Terminus::Node { address, .. } = terminus else {
            // Refused; why, comes with its end.
            return Ok(());
        };
        if token == INCOMING && plan.requests && self.part == Part::Sender {
            let made = address.clone().ok_or("the peer made no address for replies")?;
            self.reply_to = Some(made);
        }
        self.links_missing -= 1;
        Ok(())
    }

    // ── receiving ──

    #[inline]
    fn transfer(&mut self, transfer: Transfer, context: &mut Context<'_>) {
        self.credit_left = self.credit_left.saturating_sub(1);
        let bytes = transfer.payload.len();
        self.client.engine.payload_released(self.session, bytes);
        let arrived = Arriving { wire: transfer.wire, settled: transfer.settled, payload: transfer.payload };
        if transfer.more {
            self.arriving = Some(arrived);
        } else {
            self.arrived(arrived, context);
        }
    }

    fn more(&mut self, wire: WireDelivery, payload: Payload, more: bool, settled: bool, context: &mut Context<'_>) {
        self.client.engine.payload_released(self.session, payload.len());
        let Some(mut arriving) = self.arriving.take_if(|arriving| arriving.wire == wire) else { return };
        arriving.settled |= settled;
        // Only a request is looked at whole; of others the first piece has the stamp.
        if context.plan.requests && arriving.payload.len() + payload.len() <= REQUEST_BYTES_MAX {
            arriving.payload.append(payload);
        }
        if more {
            self.arriving = Some(arriving);
        } else {
            self.arrived(arriving, context);
        }
    }

    fn arrived(&mut self, arrived: Arriving, context: &mut Context<'_>) {
        if !arrived.settled {
            self.client.engine.dispose_incoming(arrived.wire, Some(State::ACCEPTED), true);
        }
        match (context.plan.requests, self.part) {
            (true, Part::Receiver) => {
                let reply = message::reply(&arrived.payload.to_vec());
                self.replies.extend(reply.map(|reply| Payload::copied(&reply)));
            }
            (is_reply, _) => {
                self.outgoing.outstanding = self.outgoing.outstanding.saturating_sub(u32::from(is_reply));
                context.tally.arrived(message::stamp(&arrived.payload), context.now, context.window);
            }
        }
        if self.credit_left <= context.plan.credit / 2 {
            let add = context.plan.credit - self.credit_left;
            if let Some(link) = self.incoming {
                self.client.engine.grant(link, add, false);
                self.credit_left += add;
            }
        }
    }

    fn send_replies(&mut self) {
        while self.outgoing.can_send() {
            let Some(reply) = self.replies.pop_front() else { return };
            self.send(reply, true);
        }
    }

    // ── sending ──

    /// Sends what is due, as far as the peer lets it. `stamps` gives the moment of message number n; of those
    /// that count, `quota` are sent at most. Gives how many went.
    pub fn send_due(
        &mut self,
        context: &mut Context<'_>,
        maker: &mut Maker,
        quota: u64,
        stamps: impl Fn(u64) -> Time,
    ) -> u64 {
        let plan = context.plan;
        let before = self.sent;
        while self.sent < self.due && self.measured < quota && self.outgoing.can_send() && self.may_have_more(plan) {
            let stamp = stamps(self.sent);
            let payload = match &self.reply_to {
                Some(reply_to) => maker.request(stamp, reply_to, self.sent),
                None => maker.plain(stamp),
            };
            self.sent += 1;
            self.measured += u64::from(stamp >= context.window.0);
            self.outgoing.outstanding += u32::from(plan.requests || !plan.settled);
            self.send(payload, plan.settled);
        }
        self.sent - before
    }

    fn may_have_more(&self, plan: &Plan) -> bool {
        self.outgoing.outstanding < plan.outstanding
    }

    fn send(&mut self, payload: Payload, settled: bool) {
        let Some(link) = self.outgoing.link else { return };
        let delivery = DeliveryId { index: self.sent as u32, generation: 0 };
        self.outgoing.credit -= 1;
        match self.client.engine.send(link, delivery, 0, settled, true, payload) {
            Sent::Whole { room } => self.outgoing.blocked = !room,
            Sent::Partly => self.outgoing.partly = true,
        }
    }

    fn outcome(&mut self, wire: WireDelivery, state: Option<State>, settled: bool, context: &mut Context<'_>) {
        let kind = state.as_ref().map(|state| state.kind);
        if !settled && matches!(kind, None | Some(StateKind::Received)) {
            return;
        }
        if !settled {
            // A receiver that wants to hear that its outcome was heard.
            self.client.engine.dispose_outgoing(wire, state, true);
        }
        if !context.plan.requests {
            self.outgoing.outstanding = self.outgoing.outstanding.saturating_sub(1);
        }
        context.tally.outcome(kind);
    }
}

impl Outgoing {
    #[inline]
    fn can_send(&self) -> bool {
        self.credit > 0 && !self.blocked && !self.partly
    }
}

//! A link at the client: attach to detach, credit both ways, transfers both ways.

use super::promise::{ahead, Promises};
use super::{condition, Client, Event, LinkIndex, SessionIndex};
use crate::limits;
use crate::link::{ReceiverSettleMode, SenderSettleMode};
use crate::wire::performative::{self, Attach, Detach, Flow, Performative, Role, Transfer};
use crate::wire::terminus::{AnyTarget, Source, Target};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkState {
    /// Our attach is out.
    Attaching,
    Attached,
    /// Our detach is out; what the router sends on the link is dropped.
    Detaching,
    Over,
}

/// What a link is attached to at the router.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Node {
    Address(String),
    /// A sender's: each message says its own.
    Anonymous,
    /// A receiver's: the router makes one up.
    Dynamic,
}

#[derive(Clone, Debug)]
pub struct AttachRequest {
    pub name: String,
    pub node: Node,
    pub role: Role,
    pub sender_settle_mode: SenderSettleMode,
    pub receiver_settle_mode: ReceiverSettleMode,
    /// Bytes of the largest message that a receiver takes; None: any.
    pub max_message_size: Option<u64>,
}

/// A message that comes in several frames.
struct Arriving {
    delivery_id: u32,
    settled: bool,
    bytes: Vec<u8>,
}

pub struct Link {
    pub session: SessionIndex,
    pub role: Role,
    pub state: LinkState,
    pub request: AttachRequest,
    handle: u32,
    remote_handle: Option<u32>,
    refused: bool,
    /// Deliveries begun; of a receiver once the router's attach came.
    delivery_count: u32,
    /// A sender's: the delivery-count that credit ends at. A receiver's: what it said last.
    limit: u32,
    /// A receiver's limits, each with its time.
    limits: Promises,
    /// A sender's: it was asked to use its credit or to return it. A receiver's: it asked.
    drain: bool,
    /// A sender's delivery of which more is to come.
    sending: Option<u32>,
    arriving: Option<Arriving>,
}

impl Link {
    /// Deliveries that may still begin, as far as this side knows.
    pub fn credit(&self) -> u32 {
        ahead(self.limit, self.delivery_count).max(0) as u32
    }

    pub fn is_attached(&self) -> bool {
        self.state == LinkState::Attached
    }

    /// The router's attach never came.
    pub(super) fn is_unanswered(&self) -> bool {
        self.remote_handle.is_none()
    }

    /// A delivery is begun and not ended.
    pub fn is_sending(&self) -> bool {
        self.sending.is_some()
    }

    pub fn is_draining(&self) -> bool {
        self.drain
    }

    pub fn delivery_count(&self) -> u32 {
        self.delivery_count
    }
}

impl Client {
    pub fn attach(&mut self, session: SessionIndex, request: AttachRequest) -> LinkIndex {
        let taken = |handle| {
            self.links.iter().any(|l| l.session == session && l.handle == handle && l.state != LinkState::Over)
        };
        let handle = (0..u32::MAX).find(|handle| !taken(*handle)).expect("fewer links than handles");
        let (source, target) = termini(&request);
        let initial = self.settings.initial_serial;
        let attach = Attach {
            name: &request.name,
            handle,
            role: request.role,
            snd_settle_mode: match request.sender_settle_mode {
                SenderSettleMode::Unsettled => performative::SenderSettleMode::Unsettled,
                SenderSettleMode::Settled => performative::SenderSettleMode::Settled,
                SenderSettleMode::Mixed => performative::SenderSettleMode::Mixed,
            },
            rcv_settle_mode: match request.receiver_settle_mode {
                ReceiverSettleMode::First => performative::ReceiverSettleMode::First,
                ReceiverSettleMode::Second => performative::ReceiverSettleMode::Second,
            },
            source: Some(&source),
            target: Some(&target),
            initial_delivery_count: (request.role == Role::Sender).then_some(initial),
            max_message_size: request.max_message_size,
            ..Attach::default()
        };
        let channel = self.sessions[session.0].channel;
        self.write_frame(channel, &Performative::Attach(attach));
        self.links.push(Link {
            session,
            role: request.role,
            state: LinkState::Attaching,
            request,
            handle,
            remote_handle: None,
            refused: false,
            delivery_count: initial,
            limit: initial,
            limits: Promises::default(),
            drain: false,
            sending: None,
            arriving: None,
        });
        LinkIndex(self.links.len() - 1)
    }

    pub fn detach(&mut self, link: LinkIndex, closed: bool) {
        if !matches!(self.links[link.0].state, LinkState::Attaching | LinkState::Attached) {
            return;
        }
        self.links[link.0].state = LinkState::Detaching;
        self.write_detach(link, closed);
    }

    fn write_detach(&mut self, link: LinkIndex, closed: bool) {
        let (handle, session) = (self.links[link.0].handle, self.links[link.0].session);
        if self.sessions[session.0].end_sent || self.close_sent {
            return;
        }
        let channel = self.sessions[session.0].channel;
        self.write_frame(channel, &Performative::Detach(Detach { handle, closed, error: None }));
    }

    // ── credit ──

    /// A receiver takes `credit` deliveries from now on. `drain`: what the router doesn't use at once it gives back.
    /// Before the router's attach came, the link's delivery-count isn't known: nothing is said.
    pub fn set_credit(&mut self, index: LinkIndex, credit: u32, drain: bool) -> bool {
        let link = &mut self.links[index.0];
        let session = link.session;
        if link.state != LinkState::Attached || self.sessions[session.0].end_sent || self.close_sent {
            return false;
        }
        link.limit = link.delivery_count.wrapping_add(credit);
        link.drain = drain;
        let (handle, count, limit) = (link.handle, link.delivery_count, link.limit);
        self.write_flow(session, Some((handle, count, credit, drain)));
        self.window_told(session);
        let written = self.written;
        self.links[index.0].limits.add(written, limit);
        true
    }

    /// A sender gives back the credit that it was asked to use or return.
    pub fn return_credit(&mut self, index: LinkIndex) {
        let link = &mut self.links[index.0];
        if link.state != LinkState::Attached || !link.drain || link.sending.is_some() {
            return;
        }
        link.delivery_count = link.limit;
        link.drain = false;
        let (handle, session, count) = (link.handle, link.session, link.delivery_count);
        if !self.sessions[session.0].end_sent && !self.close_sent {
            self.write_flow(session, Some((handle, count, 0, true)));
            self.window_told(session);
        }
    }

    pub(super) fn on_link_flow(&mut self, session: SessionIndex, handle: u32, flow: &Flow<'_>) {
        let Some(index) = self.link_by_remote(session, handle) else {
            return self.violate(format!("a flow on handle {handle}, which is not attached"));
        };
        match self.links[index.0].role {
            Role::Sender => self.on_credit(index, flow),
            Role::Receiver => self.on_sender_flow(index, flow),
        }
        let link = &self.links[index.0];
        if flow.echo && link.state == LinkState::Attached {
            let (handle, count, credit) = (link.handle, link.delivery_count, link.credit());
            self.write_flow(session, Some((handle, count, credit, false)));
            self.window_told(session);
        }
    }

    /// The router, as a receiver, gives this sender credit.
    fn on_credit(&mut self, index: LinkIndex, flow: &Flow<'_>) {
        let Some(credit) = flow.link_credit else {
            return self.violate("a flow to a sender without link-credit");
        };
        let initial = self.settings.initial_serial;
        let link = &mut self.links[index.0];
        let theirs = flow.delivery_count.unwrap_or(initial);
        if ahead(theirs, link.delivery_count) > 0 {
            let ours = link.delivery_count;
            return self.violate(format!("the router counts {theirs} deliveries, this sender began {ours}"));
        }
        let limit = theirs.wrapping_add(credit);
        let attached = link.state == LinkState::Attached;
        let change = ahead(limit, link.limit);
        if change < 0 && attached {
            // Neither a share that falls nor a drain takes back what was given.
            self.violate(format!("{} of a sender's credit were taken back", change.unsigned_abs()));
        }
        let link = &mut self.links[index.0];
        link.limit = limit;
        link.drain = flow.drain;
        if link.state == LinkState::Attached {
            self.events.push_back(Event::Credit { link: index });
        }
    }

    /// The router, as a sender, tells where it is: it answers a drain, or returns credit.
    fn on_sender_flow(&mut self, index: LinkIndex, flow: &Flow<'_>) {
        let Some(count) = flow.delivery_count else {
            return self.violate("a flow from a sender without delivery-count");
        };
        let stamp = self.stamp;
        let link = &mut self.links[index.0];
        let advanced = ahead(count, link.delivery_count);
        let limit = link.limits.limit(stamp);
        if advanced < 0 {
            let ours = link.delivery_count;
            return self.violate(format!("the router's delivery-count went from {ours} back to {count}"));
        }
        if advanced > 0 && ahead(limit, count) < 0 {
            return self.violate(format!("the router's delivery-count {count} is beyond the limit {limit}"));
        }
        if advanced > 0 && !flow.drain {
            return self.violate("delivery-count advanced without deliveries, and without drain");
        }
        link.delivery_count = count;
        if flow.drain && link.drain && link.credit() == 0 {
            link.drain = false;
            if link.state == LinkState::Attached {
                self.events.push_back(Event::Drained { link: index, returned: advanced as u32 });
            }
        }
    }

    // ── sending ──

    /// Begins a delivery; its bytes follow with `send_part`. None: no credit, or another one is under way.
    pub fn send_begin(
        &mut self,
        index: LinkIndex,
        settled: bool,
        tag: &[u8],
        payload: &[u8],
        last: bool,
    ) -> Option<(u32, usize)> {
        let link = &self.links[index.0];
        let session = link.session;
        let room = self.sessions[session.0].remote_room();
        if link.state != LinkState::Attached || link.sending.is_some() || link.credit() == 0 || room == 0 {
            return None;
        }
        if self.close_sent {
            return None;
        }
        let delivery_id = self.sessions[session.0].next_delivery_id;
        self.sessions[session.0].next_delivery_id = delivery_id.wrapping_add(1);
        if !settled {
            self.sessions[session.0].unsettled_outgoing.insert(delivery_id, index);
        }
        let link = &mut self.links[index.0];
        link.delivery_count = link.delivery_count.wrapping_add(1);
        link.sending = Some(delivery_id);
        let first = Transfer {
            handle: link.handle,
            delivery_id: Some(delivery_id),
            delivery_tag: Some(tag),
            message_format: Some(0),
            settled: settled.then_some(true),
            ..Transfer::default()
        };
        let taken = self.write_transfers(index, first, payload, last);
        Some((delivery_id, taken))
    }

    /// More of the delivery under way, as far as the router's window goes; gives how many bytes went. `last`: with
    /// these bytes it is complete.
    pub fn send_part(&mut self, index: LinkIndex, payload: &[u8], last: bool) -> usize {
        let link = &self.links[index.0];
        if link.state != LinkState::Attached || link.sending.is_none() || self.close_sent {
            return 0;
        }
        let transfer = Transfer { handle: link.handle, ..Transfer::default() };
        self.write_transfers(index, transfer, payload, last)
    }

    fn write_transfers(&mut self, index: LinkIndex, first: Transfer<'_>, payload: &[u8], last: bool) -> usize {
        let session = self.links[index.0].session;
        // The performative takes some 50 bytes, the tag more.
        let frame_max = (self.remote_max_frame_size as usize).saturating_sub(120);
        let size_max = self.settings.frame_payload_max.min(frame_max).max(1);
        let (mut transfer, mut taken) = (first, 0);
        while self.sessions[session.0].remote_room() > 0 {
            let size = size_max.min(payload.len() - taken);
            let bytes = &payload[taken..taken + size];
            taken += size;
            transfer.more = !(last && taken == payload.len());
            let channel = self.sessions[session.0].channel;
            let before = self.output.len();
            transfer.encode_frame(&mut self.output, channel, bytes.len());
            self.output.extend_from_slice(bytes);
            self.written += (self.output.len() - before) as u64;
            let session = &mut self.sessions[session.0];
            session.next_outgoing_id = session.next_outgoing_id.wrapping_add(1);
            if !transfer.more {
                self.links[index.0].sending = None;
            }
            if taken == payload.len() {
                break;
            }
            transfer = Transfer { handle: first.handle, ..Transfer::default() };
        }
        taken
    }

    /// Gives up the delivery under way. False: the window doesn't let it say so yet.
    pub fn send_abort(&mut self, index: LinkIndex) -> bool {
        let session = self.links[index.0].session;
        if self.sessions[session.0].remote_room() == 0 || self.close_sent {
            return false;
        }
        let link = &mut self.links[index.0];
        let Some(delivery_id) = link.sending.take() else { return true };
        let transfer = Transfer { handle: link.handle, aborted: true, ..Transfer::default() };
        let session = &mut self.sessions[session.0];
        session.next_outgoing_id = session.next_outgoing_id.wrapping_add(1);
        session.unsettled_outgoing.remove(&delivery_id);
        let channel = session.channel;
        let before = self.output.len();
        transfer.encode_frame(&mut self.output, channel, 0);
        self.written += (self.output.len() - before) as u64;
        true
    }

    // ── receiving ──

    pub(super) fn on_transfer(&mut self, session: SessionIndex, transfer: &Transfer<'_>, payload: &[u8]) {
        self.count_incoming_frame(session);
        let Some(index) = self.link_by_remote(session, transfer.handle) else {
            return self.violate(format!("a transfer on handle {}, which is not attached", transfer.handle));
        };
        if self.links[index.0].role != Role::Receiver {
            return self.violate("a transfer to a sender");
        }
        if self.links[index.0].arriving.is_none() {
            self.begin_arriving(session, index, transfer);
        } else if let Some(arriving) = &mut self.links[index.0].arriving {
            arriving.settled |= transfer.settled == Some(true);
            if transfer.delivery_id.is_some_and(|id| id != arriving.delivery_id) {
                self.violate(format!("{transfer:?} in the middle of another delivery"));
            }
        }
        let link = &mut self.links[index.0];
        let Some(arriving) = &mut link.arriving else { return };
        let (delivery_id, settled) = (arriving.delivery_id, arriving.settled);
        arriving.bytes.extend_from_slice(payload);
        let (size, most) = (arriving.bytes.len(), link.request.max_message_size);
        if most.is_some_and(|most| size as u64 > most) {
            return self.violate(format!("{size} bytes of a message on a link that takes {most:?}"));
        }
        if transfer.more && !transfer.aborted {
            return;
        }
        let bytes = link.arriving.take().map(|arriving| arriving.bytes).unwrap_or_default();
        let attached = link.state == LinkState::Attached;
        if settled || transfer.aborted {
            self.sessions[session.0].unsettled_incoming.remove(&delivery_id);
        }
        // Between our detach and the router's, deliveries are dropped; their fate is the router's to tell the sender.
        if !attached || self.sessions[session.0].end_sent {
            return;
        }
        self.events.push_back(if transfer.aborted {
            Event::MessageAborted { link: index, delivery_id }
        } else {
            Event::Message { link: index, delivery_id, settled, bytes }
        });
    }

    /// The first frame of a delivery.
    fn begin_arriving(&mut self, session: SessionIndex, index: LinkIndex, transfer: &Transfer<'_>) {
        let Some(delivery_id) = transfer.delivery_id else {
            return self.violate("a delivery's first transfer without delivery-id");
        };
        match transfer.delivery_tag {
            Some(tag) if tag.len() <= limits::DELIVERY_TAG_BYTES_MAX => {}
            tag => self.violate(format!("a delivery's first transfer with the tag {tag:?}")),
        }
        if let Some(due) = self.sessions[session.0].next_remote_delivery_id {
            if due != delivery_id {
                self.violate(format!("delivery-id {delivery_id} follows {}", due.wrapping_sub(1)));
            }
        }
        let stamp = self.stamp;
        let state = &mut self.sessions[session.0];
        state.next_remote_delivery_id = Some(delivery_id.wrapping_add(1));
        let settled = transfer.settled == Some(true);
        if !settled {
            state.unsettled_incoming.insert(delivery_id, index);
        }
        let link = &mut self.links[index.0];
        let (limit, count) = (link.limits.limit(stamp), link.delivery_count);
        link.delivery_count = count.wrapping_add(1);
        link.arriving = Some(Arriving { delivery_id, settled, bytes: Vec::new() });
        let mode = link.request.sender_settle_mode;
        if ahead(limit, count) <= 0 {
            self.violate(format!("delivery {delivery_id} overdraws the credit: count {count}, limit {limit}"));
        }
        match mode {
            SenderSettleMode::Settled if !settled => self.violate("an unsettled delivery on a settled link"),
            SenderSettleMode::Unsettled if settled => self.violate("a settled delivery on an unsettled link"),
            _ => {}
        }
    }

    // ── attach, detach ──

    fn link_by_remote(&self, session: SessionIndex, handle: u32) -> Option<LinkIndex> {
        let found = |link: &Link| {
            link.session == session && link.remote_handle == Some(handle) && link.state != LinkState::Over
        };
        self.links.iter().rposition(found).map(LinkIndex)
    }

    pub(super) fn on_attach(&mut self, session: SessionIndex, attach: &Attach<'_>) {
        if self.sessions[session.0].end_sent {
            return;
        }
        if self.link_by_remote(session, attach.handle).is_some() {
            return self.violate(format!("attach on handle {}, which is in use", attach.handle));
        }
        // The answer's role is the other one. Of two links with one name, answers come in the order of attaching.
        let waits = |link: &Link| {
            link.session == session
                && link.remote_handle.is_none()
                && link.request.name == attach.name
                && link.role != attach.role
                && link.state != LinkState::Over
        };
        let Some(index) = self.links.iter().position(waits) else {
            return self.violate(format!("attach of {:?}, which doesn't wait for one", attach.name));
        };
        let (refused, address) = answered(self.links[index].role, attach);
        let wrong = self.check_modes(index, attach);
        let link = &mut self.links[index];
        link.remote_handle = Some(attach.handle);
        if link.role == Role::Receiver {
            match attach.initial_delivery_count {
                Some(count) => {
                    (link.delivery_count, link.limit) = (count, count);
                    link.limits = Promises::new(count);
                }
                None => self.violate("a sender's attach without initial-delivery-count"),
            }
        }
        let link = &mut self.links[index];
        link.refused = refused;
        if refused {
            return;
        }
        if let Some(wrong) = wrong {
            self.violate(wrong);
        }
        if self.links[index].state == LinkState::Attaching {
            self.links[index].state = LinkState::Attached;
            self.events.push_back(Event::Attached { link: LinkIndex(index), address });
        }
    }

    /// What was asked for must be answered, or the link refused.
    fn check_modes(&self, index: usize, attach: &Attach<'_>) -> Option<String> {
        let asked = &self.links[index].request;
        let sender = match attach.snd_settle_mode {
            performative::SenderSettleMode::Unsettled => SenderSettleMode::Unsettled,
            performative::SenderSettleMode::Settled => SenderSettleMode::Settled,
            performative::SenderSettleMode::Mixed => SenderSettleMode::Mixed,
        };
        let wrong = asked.sender_settle_mode != sender && asked.sender_settle_mode != SenderSettleMode::Mixed;
        wrong.then(|| format!("asked for {:?}, the router answers {sender:?}", asked.sender_settle_mode))
    }

    pub(super) fn on_detach(&mut self, session: SessionIndex, detach: &Detach<'_>) {
        let Some(link) = self.link_by_remote(session, detach.handle) else {
            if self.sessions[session.0].end_sent {
                return;
            }
            return self.violate(format!("detach of handle {}, which is not attached", detach.handle));
        };
        let before = self.links[link.0].state;
        self.links[link.0].state = LinkState::Over;
        if before != LinkState::Detaching {
            self.write_detach(link, detach.closed);
        }
        self.sessions[session.0].forget(link);
        let refused = self.links[link.0].refused;
        let condition = condition(detach.error.as_ref());
        self.events.push_back(Event::Detached { link, refused, closed: detach.closed, condition });
    }
}

/// The source and target of a request, encoded.
fn termini(request: &AttachRequest) -> (Vec<u8>, Vec<u8>) {
    let (mut source, mut target) = (Vec::new(), Vec::new());
    let address = match &request.node {
        Node::Address(address) => Some(address.as_str()),
        Node::Anonymous | Node::Dynamic => None,
    };
    let dynamic = request.node == Node::Dynamic;
    match request.role {
        Role::Sender => {
            Source::default().encode(&mut source);
            Target { address, dynamic, ..Target::default() }.encode(&mut target);
        }
        Role::Receiver => {
            Source { address, dynamic, ..Source::default() }.encode(&mut source);
            Target::default().encode(&mut target);
        }
    }
    (source, target)
}

/// Whether the router's answer refuses the link, and the address in it.
fn answered(role: Role, attach: &Attach<'_>) -> (bool, Option<String>) {
    match role {
        Role::Sender => match attach.target.map(AnyTarget::decode) {
            Some(Ok(AnyTarget::Target(target))) => (false, target.address.map(str::to_owned)),
            _ => (true, None),
        },
        Role::Receiver => match attach.source.map(Source::decode) {
            Some(Ok(source)) => (false, source.address.map(str::to_owned)),
            _ => (true, None),
        },
    }
}

//! Links: attach, acceptance and refusal, stealing, detach.
//!
//! A handle that we detached stays taken in its session until the peer's detach: what was in flight meanwhile is
//! swallowed (section 2.6.4 ff.).

use super::connection::{Engine, Queued};
use super::fault::{self, Violation};
use super::outgoing::Sending;
use super::session::Slot;
use super::*;
use crate::ids::{LinkHandle, LinkId, SessionNumber};
use crate::limits::{LINK_BYTES, LINK_NAME_BYTES_MAX, LINK_PLACE_BYTES};
use crate::outcome::{Fault, Scope};
use crate::wire::error::Error;
use crate::wire::performative::{self as wire, Performative, Role};
use crate::wire::terminus::{AnyTarget, Source};
use std::sync::Arc;

/// A flow is pressing when the sender knows nothing of more than this part of its credit.
const UNTOLD_PART: u32 = 4;
/// And goes with other output when it knows nothing of more than this part.
const UNTOLD_PART_RIDING: u32 = 16;

/// Places for events that stay when no link is left.
const QUEUE_KEPT_MAX: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LinkState {
    /// The driver has still to accept or refuse it.
    Announced,
    /// We attached it; the peer has still to.
    Pending,
    Attached,
    /// Over; here only until its `LinkEnded` is out.
    Ended,
}

/// `S`: what it is sending; see `moving.rs` for the one that sends nothing.
pub(super) struct Link<S = Box<Sending>> {
    pub state: LinkState,
    pub direction: Direction,
    pub token: Option<LinkId>,
    /// Our channel of its session.
    pub channel: u16,
    pub local_handle: u32,
    pub remote_handle: u32,
    pub name: Arc<str>,
    /// A flow of this link is to be written.
    pub flow_due: bool,
    /// That flow can't wait until something else is written.
    pub flow_pressing: bool,
    /// Of the receiver's last flow (outgoing), or asked of the sender and not answered (incoming).
    pub drain: bool,
    /// In one of its session's lists of links that wait for room (`Session::blocked`, `blocked_unbegun`), once at most.
    pub waits: bool,
    /// Deliveries of it in its session's unsettled map.
    pub unsettled: u32,
    /// Deliveries that began on it, as the sender counts them (section 2.6.7).
    pub delivery_count: u32,
    /// Incoming: credit that the sender has left. Outgoing: see `limit`.
    pub credit: u32,
    /// Incoming: the part of it that no flow has told.
    pub credit_untold: u32,
    /// Outgoing: the delivery-count up to which the receiver gave credit.
    pub limit: u32,
    /// Outgoing: the receiver sent a flow, so `limit` means something.
    pub flow_seen: bool,
    /// Bytes of the largest message that its receiver takes: this side or, of an outgoing link, the peer. `u64::MAX`: any.
    pub max_message_size: u64,
    /// Incoming: the delivery of which more frames are to come.
    pub partial: Option<Box<Partial>>,
    /// Outgoing: the delivery that is not completely in the output.
    pub sending: Option<S>,
    /// What the peer's attach said, for the answer; gone with it.
    pub asked: Option<Box<Asked>>,
}

/// A delivery that arrives in several frames.
pub(super) struct Partial {
    pub delivery_id: u32,
    pub message_format: u32,
    pub tag_len: u8,
    pub tag: [u8; crate::limits::DELIVERY_TAG_BYTES_MAX],
    pub settled: bool,
    pub bytes: u64,
}

pub(super) struct Asked {
    source: Option<Box<[u8]>>,
    target: Option<Box<[u8]>>,
}

/// A max-message-size, where absent and 0 mean that there is none (section 2.7.3).
fn size_limit(bytes: u64) -> u64 {
    if bytes == 0 {
        u64::MAX
    } else {
        bytes
    }
}

impl Link {
    /// Ours to attach: nothing was sent or granted on it yet.
    pub(super) fn new(
        direction: Direction,
        channel: u16,
        local_handle: u32,
        name: Arc<str>,
        settings: &Settings,
    ) -> Link {
        Link {
            state: LinkState::Pending,
            direction,
            token: None,
            channel,
            local_handle,
            remote_handle: 0,
            name,
            flow_due: false,
            flow_pressing: false,
            drain: false,
            waits: false,
            unsettled: 0,
            delivery_count: settings.initial_serial,
            credit: 0,
            credit_untold: 0,
            limit: settings.initial_serial,
            flow_seen: false,
            max_message_size: match direction {
                Direction::Incoming => size_limit(settings.max_message_size),
                Direction::Outgoing => u64::MAX,
            },
            partial: None,
            sending: None,
            asked: None,
        }
    }

    /// How many deliveries the receiver takes of us now.
    #[inline]
    pub(super) fn credit_left(&self) -> u32 {
        serial::ahead(self.delivery_count, self.limit)
    }

    /// Whether a flow has to go now. Credit that comes back piecemeal waits for other output, which its outcomes are as a
    /// rule, while the sender knows of most of what it has.
    #[inline]
    pub(super) fn is_flow_pressing(&self) -> bool {
        self.is_flow_due_at(UNTOLD_PART)
    }

    /// Whether a flow is to go with output that goes in any case.
    #[inline]
    pub(super) fn is_flow_riding(&self) -> bool {
        self.is_flow_due_at(UNTOLD_PART_RIDING)
    }

    #[inline]
    fn is_flow_due_at(&self, part: u32) -> bool {
        self.flow_pressing || self.credit_untold > self.credit / part
    }

    /// Whether more frames of this delivery are to come.
    #[inline]
    pub(super) fn is_arriving(&self, delivery_id: u32) -> bool {
        self.partial.as_ref().is_some_and(|partial| partial.delivery_id == delivery_id)
    }

    /// The event that tells the receiver's credit. A delivery that waits for credit in the engine is counted, as
    /// routing counts it.
    pub(super) fn credit_event(&self, link: LinkHandle) -> Event {
        let held = u32::from(self.sending.as_ref().is_some_and(|sending| sending.delivery_id.is_none()));
        let delivery_count = self.delivery_count.wrapping_add(held);
        Event::Credit { link, delivery_count, limit: self.limit, drain: self.drain }
    }

    pub(super) fn role(&self) -> Role {
        match self.direction {
            Direction::Incoming => Role::Receiver,
            Direction::Outgoing => Role::Sender,
        }
    }
}

/// From the peer.
impl Engine {
    pub(super) fn on_attach(&mut self, remote_channel: u16, attach: &wire::Attach<'_>) -> Result<(), Violation> {
        let Some(channel) = self.mapped(remote_channel)? else { return Ok(()) };
        if attach.handle > self.settings.handle_max {
            return Err(Violation::connection(fault::FRAMING_ERROR, "a handle is beyond handle-max"));
        }
        if self.detached > self.settings.links_max {
            // A peer that answers no detach: each refused link would keep a handle of its session for ever.
            return Err(Violation::connection(fault::RESOURCE_LIMIT_EXCEEDED, "too many detaches are not answered"));
        }
        let direction = if attach.role.is_receiver() { Direction::Outgoing } else { Direction::Incoming };
        let Some(session) = self.session_mut(channel) else { return Ok(()) };
        if session.handles.get(attach.handle).is_some() {
            return Err(Violation::session(channel, fault::HANDLE_IN_USE, "the handle is attached"));
        }
        if let Some(pending) = session.take_pending(attach.name, direction) {
            return self.on_attach_answer(channel, pending, attach);
        }
        let terminus = terminus_of(direction, attach)?;
        let Some(session) = self.session_mut(channel) else { return Ok(()) };
        let Some(local_handle) = session.take_local_handle() else {
            return Err(Violation::session(channel, fault::RESOURCE_LIMIT_EXCEEDED, "no handle is left for our end"));
        };
        let name: Arc<str> = attach.name.into();
        let key = (name.clone(), attach.role.is_receiver());
        if let Some(&old) = self.names.get(&key) {
            let error = Error::new(fault::STOLEN, "another link of this name was attached");
            self.detach_link(old, true, Some(&error));
        }
        let initial = self.settings.initial_serial;
        let link = self.links.insert(Link {
            state: LinkState::Announced,
            remote_handle: attach.handle,
            delivery_count: match direction {
                Direction::Incoming => attach.initial_delivery_count.unwrap_or(0),
                Direction::Outgoing => initial,
            },
            max_message_size: match direction {
                Direction::Incoming => size_limit(self.settings.max_message_size),
                Direction::Outgoing => size_limit(attach.max_message_size.unwrap_or(0)),
            },
            asked: Some(Box::new(Asked {
                source: attach.source.map(Into::into),
                target: attach.target.map(Into::into),
            })),
            ..Link::new(direction, channel, local_handle, name, &self.settings)
        });
        self.count_link(key.0.len());
        self.names.insert(key, link);
        if let Some(session) = self.session_mut(channel) {
            session.handles.insert(attach.handle, Slot::Link(link));
            session.handles_used = session.handles_used.max(attach.handle.saturating_add(1));
        }
        if let Some(fault) = self.attach_fault(attach) {
            self.refuse_link(link, &fault);
            return Ok(());
        }
        let attach = Box::new(remote_attach(channel, direction, terminus, attach));
        self.queue.push_back(Queued::Event(Event::Attached { link, attach }));
        Ok(())
    }

    /// What forbids a link, whatever it is for.
    fn attach_fault(&self, attach: &wire::Attach<'_>) -> Option<Fault> {
        if self.links.len() > self.settings.links_max {
            return Some(Fault::link(fault::RESOURCE_LIMIT_EXCEEDED, "the connection has too many links"));
        }
        if self.settings.memory.is_full() {
            return Some(Fault::link(fault::RESOURCE_LIMIT_EXCEEDED, "the router has no memory left for another link"));
        }
        let too_long = attach.name.len() > LINK_NAME_BYTES_MAX;
        too_long.then(|| Fault::link(fault::INVALID_FIELD, "the link's name is too long"))
    }

    pub(super) fn on_detach(&mut self, remote_channel: u16, detach: &wire::Detach<'_>) -> Result<(), Violation> {
        let Some(channel) = self.mapped(remote_channel)? else { return Ok(()) };
        let Some(session) = self.session_mut(channel) else { return Ok(()) };
        match session.handles.remove(detach.handle) {
            None => {
                return Err(Violation::session(channel, fault::UNATTACHED_HANDLE, "detach of an unattached handle"))
            }
            Some(Slot::Detached { local_handle }) => {
                session.give_local_handle(local_handle);
                session.detached -= 1;
                self.detached -= 1;
            }
            Some(Slot::Link(link)) => {
                let error = detach.error.as_ref().map(remote_error);
                let Some(local_handle) = self.links.get(link).map(|link| link.local_handle) else { return Ok(()) };
                self.write_dispositions(channel);
                self.write_unanswered_attach(link);
                let answer = wire::Detach { handle: local_handle, closed: detach.closed, error: None };
                self.write_frame(channel, &Performative::Detach(answer));
                if let Some(session) = self.session_mut(channel) {
                    session.give_local_handle(local_handle);
                }
                self.forget_unsettled(link);
                self.end_link(link, detach.closed, error);
            }
        }
        Ok(())
    }
}

/// Commands.
impl Engine {
    /// Accepts an attach. `token` is handed back by `link_token` and `LinkEnded`.
    pub fn accept_link(&mut self, link: LinkHandle, token: LinkId, answer: LinkAnswer<'_>) {
        let Some(state) = self.links.get_mut(link).filter(|link| link.state == LinkState::Announced) else { return };
        state.state = LinkState::Attached;
        state.token = Some(token);
        if state.direction == Direction::Incoming {
            let own = size_limit(answer.max_message_size.unwrap_or(0));
            state.max_message_size = own.min(state.max_message_size);
        }
        let asked = state.asked.take();
        let (mut source, mut target) = asked.map_or((None, None), |asked| (asked.source, asked.target));
        if let Some(address) = answer.dynamic_address {
            match state.direction {
                Direction::Incoming => target = target.map(|raw| named_target(raw, address)),
                Direction::Outgoing => source = source.map(|raw| named_source(raw, address)),
            }
        }
        let incoming = state.direction == Direction::Incoming;
        let (channel, flow_due, flow_seen) = (state.channel, state.flow_due, state.flow_seen);
        let name = state.name.clone();
        let attach = wire::Attach {
            name: &name,
            handle: state.local_handle,
            role: state.role(),
            snd_settle_mode: sender_mode_to_wire(answer.sender_settle_mode),
            rcv_settle_mode: receiver_mode_to_wire(answer.receiver_settle_mode),
            source: source.as_deref(),
            target: target.as_deref(),
            initial_delivery_count: (!incoming).then_some(state.delivery_count),
            max_message_size: (incoming && state.max_message_size < u64::MAX).then_some(state.max_message_size),
            ..wire::Attach::default()
        };
        self.write_frame(channel, &Performative::Attach(attach));
        if flow_due {
            self.flows.push(link);
        }
        if flow_seen {
            // Credit that came before our answer (section 2.6.7 lets the receiver pipeline it).
            self.queue.push_back(Queued::Credit(link));
        }
    }

    /// Refuses an attach: an attach with a null terminus at our end, then detach(closed, error) (section 2.6.3). No
    /// `LinkEnded` follows.
    pub fn refuse_link(&mut self, link: LinkHandle, fault: &Fault) {
        if !self.links.get(link).is_some_and(|link| link.state == LinkState::Announced) {
            return;
        }
        self.write_detach(link, true, Some(&Error::new(fault.condition, &fault.description)));
        self.free_name(link);
        self.remove_link(link);
    }

    /// Ends a link, or what the fault's scope says: detach(closed, error). `LinkEnded` follows.
    pub fn detach(&mut self, link: LinkHandle, fault: &Fault) {
        let Some(channel) = self.links.get(link).map(|link| link.channel) else { return };
        let error = Error::new(fault.condition, &fault.description);
        match fault.scope {
            Scope::Link => self.detach_link(link, true, Some(&error)),
            Scope::Session => self.end_session(channel, Some(&error)),
            Scope::Connection => self.close(Some(fault)),
        }
    }
}

impl Engine {
    /// Our detach. The link is over; its handle is free when the peer answers.
    pub(super) fn detach_link(&mut self, link: LinkHandle, closed: bool, error: Option<&Error<'_>>) {
        self.write_detach(link, closed, error);
        self.end_link(link, closed, None);
    }

    /// Writes a detach; what the session knows of the link is gone.
    fn write_detach(&mut self, link: LinkHandle, closed: bool, error: Option<&Error<'_>>) {
        let Some(state) = self.links.get(link).filter(|link| link.state != LinkState::Ended) else { return };
        let (channel, local_handle, remote_handle) = (state.channel, state.local_handle, state.remote_handle);
        let is_pending = state.state == LinkState::Pending;
        self.write_dispositions(channel);
        self.write_unanswered_attach(link);
        let detach = wire::Detach { handle: local_handle, closed, error: error.copied() };
        self.write_frame(channel, &Performative::Detach(detach));
        if is_pending {
            return self.forget_pending(channel, link);
        }
        if let Some(slot) = self.session_mut(channel).and_then(|session| session.handles.get_mut(remote_handle)) {
            *slot = Slot::Detached { local_handle };
            self.note_detached(channel);
        }
        self.forget_unsettled(link);
    }

    pub(super) fn note_detached(&mut self, channel: u16) {
        if let Some(session) = self.session_mut(channel) {
            session.detached += 1;
            self.detached += 1;
        }
    }

    /// A detach has to follow an attach, also where the driver gave no answer yet.
    fn write_unanswered_attach(&mut self, link: LinkHandle) {
        let Some(state) = self.links.get_mut(link).filter(|link| link.state == LinkState::Announced) else { return };
        let asked = state.asked.take();
        let (source, target) = asked.map_or((None, None), |asked| (asked.source, asked.target));
        let incoming = state.direction == Direction::Incoming;
        let (channel, name) = (state.channel, state.name.clone());
        let attach = wire::Attach {
            name: &name,
            handle: state.local_handle,
            role: state.role(),
            source: source.as_deref().filter(|_| incoming),
            target: target.as_deref().filter(|_| !incoming),
            initial_delivery_count: (!incoming).then_some(state.delivery_count),
            ..wire::Attach::default()
        };
        self.write_frame(channel, &Performative::Attach(attach));
    }

    /// Marks a link as over and queues its event. Its session's part is the caller's.
    pub(super) fn end_link(&mut self, link: LinkHandle, closed: bool, error: Option<Box<RemoteError>>) {
        let Some(state) = self.links.get_mut(link).filter(|link| link.state != LinkState::Ended) else { return };
        state.state = LinkState::Ended;
        state.asked = None;
        let channel = state.channel;
        let (sending, waits) = (state.sending.take(), std::mem::take(&mut state.waits));
        if state.partial.take().is_some() {
            if let Some(Some(session)) = self.sessions.get_mut(usize::from(channel)) {
                session.arriving = session.arriving.saturating_sub(1);
            }
        }
        if let Some(event) = sending.as_ref().and_then(|sending| sending.last_word(link)) {
            self.queue.push_back(Queued::Event(event));
        }
        if waits {
            self.sweep_blocked(channel);
        }
        self.free_name(link);
        self.queue.push_back(Queued::Ended { link, closed, error });
    }

    /// A link that waited for room is over: its place in the session's list is found empty when its turn comes, or swept.
    fn sweep_blocked(&mut self, channel: u16) {
        let Some(Some(session)) = self.sessions.get_mut(usize::from(channel)) else { return };
        session.blocked_stale += 1;
        if is_worth_sweeping(session.blocked_stale, session.blocked.len() + session.blocked_unbegun.len()) {
            let waits = |link: &LinkHandle| self.links.get(*link).is_some_and(|link| link.waits);
            session.blocked.retain(waits);
            session.blocked_unbegun.retain(waits);
            session.blocked_stale = 0;
            session.blocked.shrink_to(SWEPT_MIN as usize);
        }
    }

    /// A link counts against the router's memory, its name twice.
    pub(super) fn count_link(&mut self, name_bytes: usize) {
        if self.links.len() > self.held.link_places {
            self.held.link_places = self.links.len();
            self.held.keep(LINK_PLACE_BYTES);
        }
        self.held.keep(LINK_BYTES - LINK_PLACE_BYTES + 2 * name_bytes);
    }

    /// Its place stays for the next one while there are others, and counts.
    pub(super) fn remove_link(&mut self, link: LinkHandle) -> Option<Link> {
        let link = self.links.remove(link)?;
        self.held.let_go(LINK_BYTES - LINK_PLACE_BYTES + 2 * link.name.len());
        if self.links.is_empty() {
            self.drop_places();
        }
        Some(link)
    }

    /// No link is left, nor what waited for one.
    fn drop_places(&mut self) {
        self.links.shrink();
        self.flows = Vec::new();
        self.queue.shrink_to(QUEUE_KEPT_MAX);
        let places = std::mem::take(&mut self.held.link_places);
        self.held.let_go(places * LINK_PLACE_BYTES);
    }

    fn free_name(&mut self, link: LinkHandle) {
        let Some(state) = self.links.get(link) else { return };
        let key = (state.name.clone(), state.direction == Direction::Outgoing);
        if self.names.get(&key) == Some(&link) {
            self.names.remove(&key);
        }
    }

    /// What the peer says of a link's deliveries reaches nobody any more. They leave their places to others, but stay in the
    /// session's map until there are more of their kind than live ones: swept out then, each costs O(1), whatever else is
    /// in the map, and the map has at most twice what is bounded, or a few more.
    fn forget_unsettled(&mut self, link: LinkHandle) {
        let Some(state) = self.links.get_mut(link) else { return };
        let left = std::mem::take(&mut state.unsettled);
        if left == 0 {
            return;
        }
        let (channel, direction) = (state.channel, state.direction);
        let Some(Some(session)) = self.sessions.get_mut(usize::from(channel)) else { return };
        let links = &self.links;
        // The link at hand ends now.
        let is_live =
            |other: LinkHandle| other != link && links.get(other).is_some_and(|l| l.state != LinkState::Ended);
        match direction {
            Direction::Incoming => {
                session.incoming_stale += left;
                if is_worth_sweeping(session.incoming_stale, session.incoming.len()) {
                    session.incoming.retain(|delivery| is_live(delivery.link));
                    session.incoming_stale = 0;
                }
                if session.is_incoming_window_low() {
                    Self::mark_dirty(&mut self.dirty, channel, session);
                }
            }
            Direction::Outgoing => {
                session.outgoing_stale += left;
                if is_worth_sweeping(session.outgoing_stale, session.outgoing.len()) {
                    session.outgoing.retain(|delivery| is_live(delivery.link));
                    session.outgoing_stale = 0;
                }
                self.wait_for_output(channel);
            }
        }
    }
}

/// Fewer stale entries than that aren't worth a look.
const SWEPT_MIN: u32 = 64;

/// Stale entries are swept out when they are the greater part, so that a sweep is paid for by what it takes away.
fn is_worth_sweeping(stale: u32, all: usize) -> bool {
    stale >= SWEPT_MIN && stale as usize * 2 >= all
}

pub(super) fn remote_error(error: &Error<'_>) -> Box<RemoteError> {
    Box::new(RemoteError {
        condition: error.condition.to_owned(),
        description: error.description.unwrap_or_default().to_owned(),
    })
}

pub(super) fn terminus_of(direction: Direction, attach: &wire::Attach<'_>) -> Result<Terminus, Violation> {
    // Both ends are checked, since both are echoed.
    let source = attach.source.map(Source::decode).transpose()?;
    let target = attach.target.map(AnyTarget::decode).transpose()?;
    Ok(match (direction, source, target) {
        (Direction::Outgoing, Some(source), _) => {
            Terminus::Node { address: source.address.map(str::to_owned), dynamic: source.dynamic }
        }
        (Direction::Incoming, _, Some(AnyTarget::Target(target))) => {
            Terminus::Node { address: target.address.map(str::to_owned), dynamic: target.dynamic }
        }
        (Direction::Incoming, _, Some(AnyTarget::Coordinator(_))) => Terminus::Coordinator,
        _ => Terminus::Absent,
    })
}

pub(super) fn remote_attach(
    channel: u16,
    direction: Direction,
    terminus: Terminus,
    attach: &wire::Attach<'_>,
) -> RemoteAttach {
    RemoteAttach {
        name: attach.name.to_owned(),
        session: SessionNumber(channel),
        direction: Some(direction),
        sender_settle_mode: match attach.snd_settle_mode {
            wire::SenderSettleMode::Unsettled => SenderSettleMode::Unsettled,
            wire::SenderSettleMode::Settled => SenderSettleMode::Settled,
            wire::SenderSettleMode::Mixed => SenderSettleMode::Mixed,
        },
        receiver_settle_mode: match attach.rcv_settle_mode {
            wire::ReceiverSettleMode::First => ReceiverSettleMode::First,
            wire::ReceiverSettleMode::Second => ReceiverSettleMode::Second,
        },
        terminus,
        source_encoded: attach.source.map(Into::into),
        target_encoded: attach.target.map(Into::into),
        max_message_size: attach.max_message_size.unwrap_or(0),
    }
}

pub(super) fn sender_mode_to_wire(mode: SenderSettleMode) -> wire::SenderSettleMode {
    match mode {
        SenderSettleMode::Unsettled => wire::SenderSettleMode::Unsettled,
        SenderSettleMode::Settled => wire::SenderSettleMode::Settled,
        SenderSettleMode::Mixed => wire::SenderSettleMode::Mixed,
    }
}

pub(super) fn receiver_mode_to_wire(mode: ReceiverSettleMode) -> wire::ReceiverSettleMode {
    match mode {
        ReceiverSettleMode::First => wire::ReceiverSettleMode::First,
        ReceiverSettleMode::Second => wire::ReceiverSettleMode::Second,
    }
}

/// A dynamic source as the peer asked for it, with the address that its node got.
fn named_source(raw: Box<[u8]>, address: &str) -> Box<[u8]> {
    let Ok(source) = Source::decode(&raw) else { return raw };
    let mut out = Vec::with_capacity(raw.len() + address.len() + 8);
    Source { address: Some(address), ..source }.encode(&mut out);
    out.into()
}

fn named_target(raw: Box<[u8]>, address: &str) -> Box<[u8]> {
    let Ok(AnyTarget::Target(target)) = AnyTarget::decode(&raw) else { return raw };
    let mut out = Vec::with_capacity(raw.len() + address.len() + 8);
    crate::wire::terminus::Target { address: Some(address), ..target }.encode(&mut out);
    out.into()
}

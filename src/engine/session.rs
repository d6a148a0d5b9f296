//! Sessions: begin, end, channels, both windows, handles.
//!
//! A frame beyond our incoming window ends the session; how wide that is: `window.rs`.

use super::connection::Engine;
use super::disposition::Dispositions;
use super::fault::{self, Violation};
use super::link::remote_error;
use super::numbers::Numbers;
use super::table::Table;
use super::unsettled::Unsettled;
use super::Direction;
use crate::ids::{DeliveryId, LinkHandle};
use crate::limits::SESSION_BYTES;
use crate::memory::Memory;
use crate::wire::error::Error;
use crate::wire::performative::{self as wire, Performative};
use std::collections::VecDeque;
use std::sync::Arc;

/// The window that we announce for what we send. We keep to the peer's incoming window, which is the one that binds.
pub(super) const OUTGOING_WINDOW: u32 = i32::MAX as u32;

/// Ends of ours that the peer may leave unanswered while memory is full: each keeps its session's place.
const ENDS_AWAITED_MAX: usize = 256;
/// Places for sessions that a connection keeps, however few it has.
const PLACES_KEPT_MAX: usize = 64;

/// What the peer's handle leads to.
pub(super) enum Slot {
    Link(LinkHandle),
    /// We detached it; the peer didn't yet.
    Detached {
        local_handle: u32,
    },
}

/// An unsettled delivery from the peer.
#[derive(Clone, Copy)]
pub(super) struct Incoming {
    pub link: LinkHandle,
    /// Routing's id of it, where routing keeps it.
    pub token: Option<DeliveryId>,
    /// The sender sent it settled; it is here only until its last frame.
    pub settled: bool,
}

/// An unsettled delivery to the peer.
pub(super) struct Outgoing {
    pub link: LinkHandle,
    pub delivery: DeliveryId,
}

/// A link that we attached and the peer didn't yet.
pub(super) struct Pending {
    pub name: Arc<str>,
    pub direction: Direction,
    /// None: we detached it again.
    pub link: Option<LinkHandle>,
    pub local_handle: u32,
}

pub(super) struct Session {
    /// We sent our end: all but the peer's end is swallowed.
    pub end_sent: bool,
    /// We began it; the peer's begin is to come.
    pub awaits_begin: bool,
    /// Links of ours that the peer has still to attach, in the order of our attaches.
    pub pending: VecDeque<Pending>,

    /// The transfer-id of the peer's next frame.
    pub next_incoming_id: u32,
    /// Frames that the peer may send by what we told it.
    pub incoming_window: u32,
    /// What it was when we told it last.
    pub incoming_window_told: u32,
    /// Half of what it would be if nothing was held: down there the peer is told of more.
    pub incoming_window_low: u32,
    /// Bytes up to which it is opened; grows with use.
    pub window_bytes: usize,
    /// What the router's account holds as promised to this session.
    pub promised_bytes: usize,
    /// `SessionFull` was told of the window as it is.
    pub full_told: bool,
    /// Payload bytes of it in the router.
    pub held_bytes: usize,
    pub incoming: Unsettled<Incoming>,
    /// Of these, the ones whose link is over.
    pub incoming_stale: u32,
    /// Links of which a delivery still arrives.
    pub arriving: u32,
    /// Unsettled deliveries that it may have beyond its bound while one still arrives, since as many wait in the router.
    pub places_lent: u32,

    pub next_outgoing_id: u32,
    /// Frames that the peer takes of us.
    pub remote_incoming_window: u32,
    pub next_delivery_id: u32,
    pub outgoing: Unsettled<Outgoing>,
    pub outgoing_stale: u32,

    pub handles: Table<Slot>,
    /// Handles below it were attached once, as far as the peer counts from 0.
    pub handles_used: u32,
    /// Of `handles`, the ones that we detached and the peer didn't yet.
    pub detached: usize,
    pub remote_handle_max: u32,
    local_handles: Numbers,

    /// What we have to say of deliveries from the peer, and of deliveries to it.
    pub as_receiver: Dispositions,
    as_sender: Dispositions,
    /// In the engine's list of sessions with something to write.
    pub dirty: bool,
    /// A flow is to be written, whatever the window.
    pub flow_due: bool,

    /// Links whose delivery under way waits for room.
    pub blocked: VecDeque<LinkHandle>,
    /// Those whose turn came when as many deliveries were unsettled as may be, and whose own hadn't begun. It doesn't before
    /// they are taken from here.
    pub blocked_unbegun: VecDeque<LinkHandle>,
    /// Of both, the ones that are over.
    pub blocked_stale: u32,
    /// A `send` was told that there is no room, so `SessionWritable` is due when there is.
    pub room_wanted: bool,
    /// In the engine's list of sessions that wait for the output.
    pub waiting: bool,
}

impl Session {
    /// Its incoming window is shut.
    pub(super) fn new(
        begin: &wire::Begin<'_>,
        window_bytes: usize,
        initial_serial: u32,
        memory: &Arc<Memory>,
    ) -> Session {
        Session {
            end_sent: false,
            awaits_begin: false,
            pending: VecDeque::new(),
            next_incoming_id: begin.next_outgoing_id,
            incoming_window: 0,
            incoming_window_told: 0,
            incoming_window_low: 0,
            window_bytes,
            promised_bytes: 0,
            full_told: false,
            held_bytes: 0,
            incoming: Unsettled::new(memory.clone()),
            incoming_stale: 0,
            arriving: 0,
            places_lent: 0,
            next_outgoing_id: initial_serial,
            remote_incoming_window: begin.incoming_window,
            next_delivery_id: initial_serial,
            outgoing: Unsettled::new(memory.clone()),
            outgoing_stale: 0,
            handles: Table::new(),
            handles_used: 0,
            detached: 0,
            remote_handle_max: begin.handle_max,
            local_handles: Numbers::default(),
            as_receiver: Dispositions::default(),
            as_sender: Dispositions::default(),
            dirty: false,
            flow_due: false,
            blocked: VecDeque::new(),
            blocked_unbegun: VecDeque::new(),
            blocked_stale: 0,
            room_wanted: false,
            waiting: false,
        }
    }

    /// Dispositions that are noted in the role in which we say them.
    #[inline]
    pub(super) fn gathered(&mut self, role: wire::Role) -> &mut Dispositions {
        match role {
            wire::Role::Receiver => &mut self.as_receiver,
            wire::Role::Sender => &mut self.as_sender,
        }
    }

    pub(super) fn take_local_handle(&mut self) -> Option<u32> {
        self.local_handles.take(self.remote_handle_max)
    }

    pub(super) fn give_local_handle(&mut self, handle: u32) {
        self.local_handles.give(handle);
    }

    /// Unsettled deliveries from the peer, without those whose link is over: what is bounded.
    #[inline]
    pub(super) fn incoming_count(&self) -> usize {
        self.incoming.len().saturating_sub(self.incoming_stale as usize)
    }

    /// Unsettled deliveries to the peer, likewise.
    #[inline]
    pub(super) fn outgoing_count(&self) -> usize {
        self.outgoing.len().saturating_sub(self.outgoing_stale as usize)
    }

    /// Whether something waits in it.
    #[inline]
    pub(super) fn wants_room(&self) -> bool {
        self.room_wanted || !self.blocked.is_empty() || !self.blocked_unbegun.is_empty()
    }

    /// Whether the peer should hear of a larger window: half of it is used.
    #[inline]
    pub(super) fn is_incoming_window_low(&self) -> bool {
        self.incoming_window <= self.incoming_window_low
    }
}

/// From the peer.
impl Engine {
    pub(super) fn on_begin(&mut self, remote_channel: u16, begin: &wire::Begin<'_>) -> Result<(), Violation> {
        if remote_channel > self.settings.channel_max {
            return Err(Violation::connection(fault::FRAMING_ERROR, "a channel is beyond channel-max"));
        }
        if self.channels.get(remote_channel.into()).is_some() {
            return Err(Violation::connection(fault::NOT_ALLOWED, "the channel has a session already"));
        }
        if let Some(channel) = begin.remote_channel {
            return self.on_begin_answer(remote_channel, channel, begin);
        }
        let is_refused = self.settings.memory.is_full();
        if is_refused && self.ends_awaited >= ENDS_AWAITED_MAX {
            return Err(Violation::connection(fault::RESOURCE_LIMIT_EXCEEDED, "too many ends are not answered"));
        }
        let Some(channel) = self.free_channel() else {
            return Err(Violation::connection(fault::RESOURCE_LIMIT_EXCEEDED, "no channel is left for our end"));
        };
        let initial_serial = self.settings.initial_serial;
        let session = Session::new(begin, self.settings.incoming_bytes_first(), initial_serial, &self.settings.memory);
        self.channels.insert(remote_channel.into(), channel);
        self.place_session(channel, session);
        let answer = wire::Begin {
            remote_channel: Some(remote_channel),
            next_outgoing_id: initial_serial,
            incoming_window: if is_refused { 0 } else { self.widen_window(channel) },
            outgoing_window: OUTGOING_WINDOW,
            handle_max: self.settings.handle_max,
            ..wire::Begin::default()
        };
        self.write_frame(channel, &Performative::Begin(answer));
        if is_refused {
            let why = "the router has no memory left for another session";
            return Err(Violation::session(channel, fault::RESOURCE_LIMIT_EXCEEDED, why));
        }
        Ok(())
    }

    pub(super) fn on_end(&mut self, remote_channel: u16, end: &wire::End<'_>) -> Result<(), Violation> {
        let Some(channel) = self.channels.remove(remote_channel.into()) else { return Err(unmapped(remote_channel)) };
        let end_sent = self.session_mut(channel).is_none_or(|session| session.end_sent);
        if !end_sent {
            self.end_links_of(channel, end.error.as_ref());
            self.write_frame(channel, &Performative::End(wire::End { error: None }));
        }
        self.free_session(channel);
        Ok(())
    }
}

impl Engine {
    #[inline]
    pub(super) fn session_mut(&mut self, channel: u16) -> Option<&mut Session> {
        self.sessions.get_mut(usize::from(channel))?.as_deref_mut()
    }

    /// Our channel of the session on the peer's channel; None where we ended it, so that the frame is to be swallowed.
    #[inline]
    pub(super) fn mapped(&self, remote_channel: u16) -> Result<Option<u16>, Violation> {
        let Some(&channel) = self.channels.get(remote_channel.into()) else { return Err(unmapped(remote_channel)) };
        let open = matches!(self.sessions.get(usize::from(channel)), Some(Some(session)) if !session.end_sent);
        Ok(open.then_some(channel))
    }

    /// The lowest channel of ours that is free and that the peer takes.
    pub(super) fn free_channel(&mut self) -> Option<u16> {
        let max = self.settings.channel_max.min(self.remote.channel_max);
        let channel = self.channels_used.take(max.into())? as u16;
        if usize::from(channel) >= self.sessions.len() {
            self.sessions.push(None);
        }
        Some(channel)
    }

    /// A session counts against the router's memory.
    pub(super) fn place_session(&mut self, channel: u16, session: Session) {
        let Some(place) = self.sessions.get_mut(usize::from(channel)) else { return };
        *place = Some(Box::new(session));
        self.held.keep(SESSION_BYTES);
    }

    fn free_session(&mut self, channel: u16) {
        self.break_promise(channel);
        let place = self.sessions.get_mut(usize::from(channel));
        if let Some(session) = place.and_then(Option::take) {
            self.detached -= session.detached;
            self.ends_awaited -= usize::from(session.end_sent);
            self.held.let_go(SESSION_BYTES);
            self.channels_used.give(channel.into());
            self.sessions.truncate(self.channels_used.end() as usize);
            if self.sessions.len() < self.sessions.capacity() / 4 {
                self.sessions.shrink_to((2 * self.sessions.len()).max(PLACES_KEPT_MAX));
            }
        }
        if self.cursor.as_ref().is_some_and(|cursor| cursor.channel == channel) {
            self.cursor = None;
        }
    }

    /// The connection ends, and all its sessions.
    pub(super) fn drop_sessions(&mut self) {
        self.held.let_go(self.sessions.drain(..).flatten().count() * SESSION_BYTES);
        self.sessions = Vec::new();
        self.channels_used = Numbers::default();
        self.channels = Table::new();
        (self.detached, self.ends_awaited) = (0, 0);
    }

    /// Our end. The channel is free when the peer answers.
    pub(super) fn end_session(&mut self, channel: u16, error: Option<&Error<'_>>) {
        if self.session_mut(channel).is_none_or(|session| session.end_sent) {
            return;
        }
        self.write_dispositions(channel);
        self.end_links_of(channel, None);
        self.write_frame(channel, &Performative::End(wire::End { error: error.copied() }));
        if self.cursor.as_ref().is_some_and(|cursor| cursor.channel == channel) {
            self.cursor = None;
        }
        self.break_promise(channel);
        let memory = self.settings.memory.clone();
        if let Some(session) = self.session_mut(channel) {
            // Nothing of it is needed but the fact that it waits.
            let (detached, awaits_begin) = (session.detached, session.awaits_begin);
            *session = Session::new(&wire::Begin::default(), 0, 0, &memory);
            session.end_sent = true;
            session.awaits_begin = awaits_begin;
            self.detached -= detached;
            self.ends_awaited += 1;
        }
    }

    /// All links of a session are over. One event each is queued; nothing is recursive.
    fn end_links_of(&mut self, channel: u16, error: Option<&Error<'_>>) {
        let Some(session) = self.session_mut(channel) else { return };
        session.blocked.clear();
        session.blocked_unbegun.clear();
        let attached = session.handles.values().filter_map(|slot| match slot {
            Slot::Link(link) => Some(*link),
            Slot::Detached { .. } => None,
        });
        let pending = session.pending.iter().filter_map(|pending| pending.link);
        let links: Vec<LinkHandle> = attached.chain(pending).collect();
        for link in links {
            self.end_link(link, false, error.map(remote_error));
        }
    }

    /// Notes that a session has something to write at the next `poll_transmit`.
    #[inline]
    pub(super) fn mark_dirty(dirty: &mut Vec<u16>, channel: u16, session: &mut Session) {
        if !session.dirty {
            session.dirty = true;
            dirty.push(channel);
        }
    }
}

#[cold]
#[inline(never)]
pub(super) fn unmapped(remote_channel: u16) -> Violation {
    Violation::connection(fault::NOT_ALLOWED, format!("no session on channel {remote_channel}"))
}

//! Flow (section 2.7.4): the peer's windows and credit, and ours. What we have to say is noted and written once, when the
//! output is taken.

use super::connection::{Engine, Queued};
use super::fault::{self, Violation};
use super::link::LinkState;
use super::session::{Slot, OUTGOING_WINDOW};
use super::*;
use crate::ids::{LinkHandle, SessionNumber};
use crate::sabotage::Sabotage;
use crate::wire::performative as wire;

/// Credit beyond this has no order as a serial number.
const CREDIT_MAX: u32 = i32::MAX as u32;
/// Links whose flows wait for other output at most.
const FLOWS_HELD_MAX: usize = 16;

/// From the peer.
impl Engine {
    #[inline]
    pub(super) fn on_flow(&mut self, remote_channel: u16, flow: &wire::Flow<'_>) -> Result<Option<Event>, Violation> {
        let Some(channel) = self.mapped(remote_channel)? else { return Ok(None) };
        let initial = self.settings.initial_serial;
        let Some(Some(session)) = self.sessions.get_mut(usize::from(channel)) else { return Ok(None) };
        session.next_incoming_id = flow.next_outgoing_id;
        // Frames under way that the peer hadn't seen when it wrote this (section 2.5.6).
        let under_way = session.next_outgoing_id.wrapping_sub(flow.next_incoming_id.unwrap_or(initial));
        session.remote_incoming_window = flow.incoming_window.saturating_sub(under_way);
        if session.wants_room() {
            self.wait_for_output(channel);
        }
        let Some(Some(session)) = self.sessions.get_mut(usize::from(channel)) else { return Ok(None) };
        let Some(handle) = flow.handle else {
            if flow.echo {
                session.flow_due = true;
                Self::mark_dirty(&mut self.dirty, channel, session);
            }
            return Ok(None);
        };
        match session.handles.get(handle) {
            // Clients' links top up their credit from a task of their own, which may not have heard yet that the link was
            // detached. Of no use to us, and no reason to end what else is on the session.
            None if handle < session.handles_used => Ok(None),
            None => Err(Violation::session(channel, fault::UNATTACHED_HANDLE, "flow for an unattached handle")),
            Some(Slot::Detached { .. }) => Ok(None),
            Some(&Slot::Link(link)) => Ok(self.on_link_flow(link, flow)),
        }
    }

    fn on_link_flow(&mut self, link: LinkHandle, flow: &wire::Flow<'_>) -> Option<Event> {
        let initial = self.settings.initial_serial;
        let state = self.links.get_mut(link)?;
        state.flow_pressing |= flow.echo;
        if flow.echo && !std::mem::replace(&mut state.flow_due, true) && state.state == LinkState::Attached {
            self.flows.push(link);
        }
        match state.direction {
            Direction::Outgoing => {
                // What the receiver counted last, and the credit that it gave from there (section 2.6.7).
                let counted = flow.delivery_count.unwrap_or(initial);
                let limit = counted.wrapping_add(flow.link_credit.unwrap_or(0).min(CREDIT_MAX));
                let limit = limit.wrapping_add(self.settings.sabotage.is(Sabotage::Overdraw).into());
                let news = !state.flow_seen || limit != state.limit || flow.drain || state.drain;
                state.flow_seen = true;
                state.limit = limit;
                state.drain = flow.drain;
                let held = state.sending.as_ref().is_some_and(|sending| sending.waits_for_credit());
                if held && state.credit_left() > 0 {
                    let channel = state.channel;
                    self.wait_for_room(channel, Some(link));
                } else if held && flow.drain {
                    // A delivery was begun by routing before this flow took its credit away. It waits for credit, so the
                    // drain can't wait for it: the receiver would give none before it is answered.
                    self.write_link_flow(link, true);
                }
                let state = self.links.get(link)?;
                (news && state.state == LinkState::Attached).then(|| state.credit_event(link))
            }
            Direction::Incoming => {
                // The sender's count moves ahead of ours where it gave credit back, never behind: it may count a
                // delivery at its end.
                let returned = serial::ahead(state.delivery_count, flow.delivery_count?).min(state.credit);
                let drained = state.drain && flow.drain && state.credit == returned;
                if returned == 0 && !drained {
                    return None;
                }
                state.credit -= returned;
                state.delivery_count = state.delivery_count.wrapping_add(returned);
                state.drain &= state.credit > 0;
                Some(Event::SenderDrained { link, returned })
            }
        }
    }
}

/// Commands.
impl Engine {
    /// Gives the sender of an incoming link `add` more credit. `drain`: it should use or return what it has;
    /// `SenderDrained` follows.
    #[inline]
    pub fn grant(&mut self, link: LinkHandle, add: u32, drain: bool) {
        let Some(state) = self.links.get_mut(link) else { return };
        if state.direction != Direction::Incoming || state.state == LinkState::Ended {
            return;
        }
        if add > 0 && self.settings.sabotage.meets(Sabotage::LoseGrant, state.delivery_count) {
            return;
        }
        state.credit = state.credit.saturating_add(add).min(CREDIT_MAX);
        state.credit_untold = state.credit_untold.saturating_add(add);
        state.flow_pressing |= drain || state.drain || add == 0;
        state.drain = drain;
        let attached = state.state == LinkState::Attached;
        if !std::mem::replace(&mut state.flow_due, true) && attached {
            self.flows.push(link);
        }
    }

    /// Answers a receiver's drain: the credit left counts as used (section 2.6.7), and a flow says so at once, behind
    /// what was sent.
    pub fn drained(&mut self, link: LinkHandle) {
        let Some(state) = self.links.get_mut(link) else { return };
        if state.direction != Direction::Outgoing || state.state != LinkState::Attached {
            return;
        }
        if state.credit_left() > 0 {
            state.delivery_count = state.limit;
        }
        self.write_link_flow(link, true);
    }

    /// What was said to be released is here all the same, and counts again.
    pub fn payload_returned(&mut self, session: SessionNumber, bytes: usize) {
        self.held.bytes += bytes;
        if let Some(session) = self.session_mut(session.0) {
            session.held_bytes += bytes;
        }
    }

    /// Payload bytes that this session brought have left the router.
    #[inline]
    pub fn payload_released(&mut self, session: SessionNumber, bytes: usize) {
        let channel = session.0;
        // What an ended session brought counts as the connection's for as long as it is here.
        self.held.bytes = self.held.bytes.saturating_sub(bytes);
        let Some(Some(session)) = self.sessions.get_mut(usize::from(channel)) else { return };
        session.held_bytes = session.held_bytes.saturating_sub(bytes);
        if session.is_incoming_window_low() {
            Self::mark_dirty(&mut self.dirty, channel, session);
        }
    }

    /// So many of a session's unsettled deliveries wait in the router: where its window is shut by them, they aren't to keep the rest
    /// of one out that still arrives. (A few more are let in at a time, since it costs a look at all of them to know.)
    pub fn places_lent(&mut self, session: SessionNumber, places: u32) {
        let channel = session.0;
        let Some(Some(session)) = self.sessions.get_mut(usize::from(channel)) else { return };
        if session.arriving > 0 && session.is_at_unsettled_bound(&self.settings) {
            let lent = (session.places_lent.saturating_add(places) as usize).max(self.settings.unsettled_max / 16);
            session.places_lent = lent.min(session.incoming_count()) as u32;
            Self::mark_dirty(&mut self.dirty, channel, session);
        }
    }
}

impl Engine {
    /// Whether what was noted is worth output of its own.
    #[inline]
    pub(super) fn is_noted_pressing(&self) -> bool {
        let is_pressing = |link: &LinkHandle| self.links.get(*link).is_some_and(|link| link.is_flow_pressing());
        !(self.output.is_empty() && self.dirty.is_empty())
            || self.flows.len() > FLOWS_HELD_MAX
            || self.flows.iter().any(is_pressing)
    }

    /// Writes what was noted: dispositions first, then links' flows (but for a little more credit), then sessions' where no
    /// link's said it.
    pub(super) fn write_noted(&mut self) {
        for index in 0..self.dirty.len() {
            let channel = self.dirty[index];
            self.write_dispositions(channel);
        }
        let mut flows = std::mem::take(&mut self.flows);
        let are_many = flows.len() > FLOWS_HELD_MAX;
        flows.retain(|&link| {
            let Some(state) = self.links.get(link) else { return false };
            if !state.flow_due || state.state != LinkState::Attached {
                return false;
            }
            let goes = are_many || state.is_flow_riding();
            if goes {
                self.write_link_flow(link, false);
            }
            !goes
        });
        self.flows = flows;
        let mut dirty = std::mem::take(&mut self.dirty);
        for channel in dirty.drain(..) {
            self.write_session_flow(channel);
        }
        self.dirty = dirty;
    }

    /// A session's own flow, where one is due or the peer should know of a larger window.
    fn write_session_flow(&mut self, channel: u16) {
        let Some(session) = self.session_mut(channel) else { return };
        session.dirty = false;
        if session.end_sent {
            return;
        }
        let (low, before) = (session.is_incoming_window_low(), session.incoming_window);
        if low && self.widen_window(channel) == 0 {
            self.tell_full(channel);
        }
        let Some(session) = self.session_mut(channel) else { return };
        if session.flow_due || session.incoming_window > before {
            let flow = Self::session_flow(session);
            self.write_flow(channel, &flow);
        }
    }

    /// The peer may send nothing on a session, and nothing of it leaves the router by itself, perhaps.
    #[cold]
    fn tell_full(&mut self, channel: u16) {
        let Some(session) = self.session_mut(channel) else { return };
        if !std::mem::replace(&mut session.full_told, true) {
            // It is reckoned anew what is lent.
            session.places_lent = 0;
            let session = SessionNumber(channel);
            self.queue.push_back(Queued::Event(Event::SessionFull { session }));
        }
    }

    /// A link's flow, with its session's windows.
    pub(super) fn write_link_flow(&mut self, link: LinkHandle, drained: bool) {
        let Some(channel) = self.links.get(link).map(|link| link.channel) else { return };
        self.widen_window(channel);
        let Some(state) = self.links.get_mut(link) else { return };
        state.flow_due = false;
        state.flow_pressing = false;
        state.credit_untold = 0;
        let Some(Some(session)) = self.sessions.get_mut(usize::from(channel)) else { return };
        let mut flow = Self::session_flow(session);
        flow.handle = Some(state.local_handle);
        flow.delivery_count = Some(state.delivery_count);
        match state.direction {
            Direction::Incoming => {
                flow.link_credit = Some(state.credit);
                flow.drain = state.drain;
            }
            Direction::Outgoing => {
                flow.link_credit = Some(state.credit_left());
                flow.available = Some(0);
                flow.drain = drained || state.drain;
            }
        }
        self.write_flow(channel, &flow);
    }

    /// Our windows of a session; what is said here is what the peer may use from now on.
    fn session_flow(session: &mut super::session::Session) -> wire::Flow<'static> {
        session.flow_due = false;
        session.full_told &= session.incoming_window == 0;
        wire::Flow {
            next_incoming_id: Some(session.next_incoming_id),
            incoming_window: session.incoming_window,
            next_outgoing_id: session.next_outgoing_id,
            outgoing_window: OUTGOING_WINDOW,
            ..wire::Flow::default()
        }
    }

    fn write_flow(&mut self, channel: u16, flow: &wire::Flow<'_>) {
        let start = self.output.bytes.len();
        flow.encode_frame(&mut self.output.bytes, channel);
        self.trace_output(start);
    }
}

//! An engine on its way to another thread.
//!
//! Payload is counted by one thread, so an engine can go only while it holds none: nothing is under way or unsettled
//! either way, what is to be sent is written bytes alone. Bytes that were received and not yet read as frames go along,
//! copied.

use super::connection::{Closing, Engine, Phase, Remote};
use super::input::Input;
use super::link::{Link, LinkState};
use super::numbers::Numbers;
use super::session::Session;
use super::table::Table;
use super::trace::Trace;
use super::window::Held;
use super::*;
use crate::arena::Arena;
use crate::ids::{LinkHandle, LinkId};
use crate::limits::OUTPUT_MARK_BYTES;
use crate::outcome::Fault;
use crate::time::Time;
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;

/// An accepted connection's engine without payload, as plain data.
pub struct Suspended {
    settings: Arc<Settings>,
    now: Time,
    began: Time,
    last_input: Time,
    last_output: Time,
    phase: Phase,
    close_reason: Option<Fault>,
    held: Held,
    remote: Remote,
    input: Vec<u8>,
    end_of_stream: bool,
    output: Vec<u8>,
    channels: Table<u16>,
    sessions: Vec<Option<Box<Session>>>,
    channels_used: Numbers,
    links: Arena<LinkHandle, Link<Infallible>>,
    detached: usize,
    ends_awaited: usize,
    names: BTreeMap<(Arc<str>, bool), LinkHandle>,
    dirty: Vec<u16>,
    flows: Vec<LinkHandle>,
    waiting: VecDeque<u16>,
    room_opened: bool,
    sends: u64,
    traced: bool,
}

impl<S> Link<S> {
    /// The same, sending nothing.
    fn idle<T>(self) -> Link<T> {
        let Link {
            state, direction, token, channel, local_handle, remote_handle, name, flow_due, flow_pressing, ..
        } = self;
        let Link { drain, unsettled, delivery_count, credit, credit_untold, limit, flow_seen, .. } = self;
        let Link { max_message_size, partial, asked, .. } = self;
        Link {
            state,
            direction,
            token,
            channel,
            local_handle,
            remote_handle,
            name,
            flow_due,
            flow_pressing,
            drain,
            waits: false,
            unsettled,
            delivery_count,
            credit,
            credit_untold,
            limit,
            flow_seen,
            max_message_size,
            partial,
            sending: None,
            asked,
        }
    }
}

/// Getters, and commands for one that moves.
impl Engine {
    /// Whether it may be suspended: it is open, and no payload is in it, nor any that it brought anywhere in its shard.
    pub fn is_movable(&self) -> bool {
        let is_idle = |link: &Link| link.partial.is_none() && link.sending.is_none();
        self.phase == Phase::Open
            && !self.is_initiator
            && matches!(self.closing, Closing::No)
            && self.unsettled_count() == (0, 0)
            && self.links.iter().all(|(_, link)| is_idle(link))
            && self.held.bytes == 0
            && self.output.ranges().is_empty()
            && self.queue.is_empty()
            && self.cursor.is_none()
            && self.deferred.is_none()
    }

    /// Links that the driver accepted: handle, token, direction.
    pub fn accepted_links(&self) -> impl Iterator<Item = (LinkHandle, LinkId, Direction)> + '_ {
        let accepted = self.links.iter().filter(|(_, link)| link.state == LinkState::Attached);
        accepted.filter_map(|(handle, link)| Some((handle, link.token?, link.direction)))
    }

    /// Credit that the sender of an incoming link has left.
    pub fn link_credit(&self, link: LinkHandle) -> u32 {
        self.links.get(link).map_or(0, |link| link.credit)
    }

    /// The link goes by another token from now on.
    pub fn set_link_token(&mut self, link: LinkHandle, token: LinkId) {
        if let Some(link) = self.links.get_mut(link) {
            link.token = Some(token);
        }
    }
}

impl Engine {
    /// The engine as plain data. It has to be movable.
    pub fn suspend(mut self) -> Suspended {
        debug_assert!(self.is_movable());
        Suspended {
            input: self.input.take_bytes(),
            output: self.output.bytes,
            settings: self.settings,
            now: self.now,
            began: self.began,
            last_input: self.last_input,
            last_output: self.last_output,
            phase: self.phase,
            close_reason: self.close_reason,
            held: self.held,
            remote: self.remote,
            end_of_stream: self.end_of_stream,
            channels: self.channels,
            sessions: self.sessions,
            channels_used: self.channels_used,
            links: self.links.map(Link::idle),
            detached: self.detached,
            ends_awaited: self.ends_awaited,
            names: self.names,
            dirty: self.dirty,
            flows: self.flows,
            waiting: self.waiting,
            room_opened: self.room_opened,
            sends: self.sends,
            traced: self.trace.is_some(),
        }
    }

    /// The engine again, as it was.
    pub fn resume(suspended: Suspended) -> Engine {
        let mut input = Input::new(suspended.settings.memory.clone());
        if !suspended.input.is_empty() {
            input.push_copied(&suspended.input);
        }
        let mut output = Transmit::default();
        output.bytes = suspended.output;
        Engine {
            input,
            output,
            settings: suspended.settings,
            is_initiator: false,
            asks_for_sasl: false,
            open_sent: true,
            other_protocol: None,
            now: suspended.now,
            began: suspended.began,
            last_input: suspended.last_input,
            last_output: suspended.last_output,
            phase: suspended.phase,
            closing: Closing::No,
            close_reason: suspended.close_reason,
            // Only before an open.
            refusal: None,
            sasl_steps: 0,
            held: suspended.held,
            output_mark: OUTPUT_MARK_BYTES,
            remote: suspended.remote,
            end_of_stream: suspended.end_of_stream,
            channels: suspended.channels,
            sessions: suspended.sessions,
            channels_used: suspended.channels_used,
            links: suspended.links.map(Link::idle),
            detached: suspended.detached,
            ends_awaited: suspended.ends_awaited,
            names: suspended.names,
            queue: VecDeque::new(),
            cursor: None,
            dirty: suspended.dirty,
            flows: suspended.flows,
            waiting: suspended.waiting,
            room_opened: suspended.room_opened,
            reports: VecDeque::new(),
            sends: suspended.sends,
            trace: suspended.traced.then(Box::<Trace>::default),
            input_rested: false,
            deferred: None,
            is_batch_begun: false,
            quiet: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suspended_engine_may_go_to_another_thread() {
        fn goes<T: Send>() {}
        goes::<Suspended>();
    }
}

//! Dispositions both ways (section 2.7.6).
//!
//! From the peer: a frame may name a range of deliveries; a cursor walks those of them that exist and gives one event
//! each, so that a range of two billion ids costs what it hits. To the peer: ids that get the same state are
//! gathered until the output is taken, and go out as few ranges as they make.

use super::connection::{Engine, Links, OUTPUT_REST_BYTES};
use super::fault::Violation;
use super::link::LinkState;
use super::serial;
use super::session::Incoming;
use super::*;
use crate::ids::{LinkHandle, SessionNumber, WireDelivery};
use crate::outcome::{State, StateKind};
use crate::run::{Settled, RUN_MAX};
use crate::sabotage::Sabotage;
use crate::wire::performative::{self as wire, Role};
use crate::wire::state as wire_state;

/// Ranges that are gathered before they are written.
const RANGES_MAX: usize = 1024;
/// Ranges that an empty list keeps room for.
const RANGES_KEPT_MAX: usize = 128;

/// Bytes of a state that is told whole however much output waits. Each range repeats it, so one frame from a peer could become as
/// many of its size as it names deliveries.
const BRIEF_BYTES_MAX: usize = 256;

/// A disposition from the peer that is being walked.
pub(super) struct Cursor {
    pub channel: u16,
    /// The peer speaks as the receiver: of what we sent.
    from_receiver: bool,
    next: u32,
    last: u32,
    state: Option<State>,
    settled: bool,
}

/// Dispositions to the peer, not yet written: deliveries that share a state.
#[derive(Default)]
pub(super) struct Dispositions {
    ranges: Vec<(u32, u32)>,
    state: Option<State>,
    settled: bool,
}

impl Dispositions {
    #[inline]
    fn takes(&self, state: &Option<State>, settled: bool) -> bool {
        // States of the same disposition are equal at a look, since they share their encoding.
        let is_same = || self.state == *state;
        self.ranges.is_empty() || (self.settled == settled && self.ranges.len() < RANGES_MAX && is_same())
    }

    #[inline]
    fn push(&mut self, id: u32, state: Option<State>, settled: bool) {
        if self.ranges.is_empty() {
            self.state = state;
            self.settled = settled;
        }
        self.add(id);
    }

    /// One more of the same state.
    #[inline]
    fn add(&mut self, id: u32) {
        match self.ranges.last_mut() {
            Some((_, last)) if last.wrapping_add(1) == id => *last = id,
            _ => self.ranges.push((id, id)),
        }
    }

    /// Sorts and joins the ranges: deliveries that went several ways come back interleaved.
    fn join(&mut self) {
        let [(first, _), _, ..] = self.ranges[..] else { return };
        let base = first.wrapping_sub(1 << 31);
        self.ranges.sort_unstable_by_key(|&(first, _)| first.wrapping_sub(base));
        self.ranges.dedup_by(|&mut (first, last), (_, kept_last)| {
            let joins = serial::distance(*kept_last, first) <= 1;
            if joins && serial::distance(*kept_last, last) > 0 {
                *kept_last = last;
            }
            joins
        });
    }
}

/// From the peer.
impl Engine {
    #[inline]
    pub(super) fn on_disposition(
        &mut self,
        remote_channel: u16,
        disposition: &wire::Disposition<'_>,
    ) -> Result<(), Violation> {
        let Some(channel) = self.mapped(remote_channel)? else { return Ok(()) };
        let (first, last) = (disposition.first, disposition.last.unwrap_or(disposition.first));
        if serial::range_len_minus_one(first, last).is_none() {
            return Ok(());
        }
        self.cursor = Some(Cursor {
            channel,
            from_receiver: disposition.role.is_receiver(),
            next: first,
            last,
            state: disposition.state.map(state_from_wire),
            settled: disposition.settled,
        });
        Ok(())
    }

    /// What the disposition at hand names, where a receiver settles with it: its next deliveries, as many as a run takes, and
    /// their state. None: it is done with, or another one.
    pub(super) fn next_settled(&mut self, items: &mut Vec<Settled>) -> Option<Option<State>> {
        let cursor = self.cursor.as_mut().filter(|cursor| cursor.from_receiver && cursor.settled)?;
        let channel = cursor.channel;
        let Some(Some(session)) = self.sessions.get_mut(usize::from(channel)) else {
            self.cursor = None;
            return None;
        };
        let was_full = session.outgoing_count() >= self.settings.unsettled_max;
        let (links, stale) = (&mut self.links, &mut session.outgoing_stale);
        let mut leaving = Leaving::new();
        let next = session.outgoing.take_each(cursor.next, cursor.last, |delivery_id, entry| {
            let is_live = leaving.turn_to(links, entry.link, stale);
            leaving.count += 1;
            if is_live {
                let wire = WireDelivery { session: SessionNumber(channel), delivery_id };
                items.push(Settled { delivery: entry.delivery, wire, sender_id: 0, bytes: 0 });
            }
            items.len() < RUN_MAX
        });
        leaving.finish(links, stale);
        let state = match next {
            Some(next) => {
                cursor.next = next;
                cursor.state.clone()
            }
            None => self.cursor.take().and_then(|cursor| cursor.state),
        };
        if was_full {
            self.wait_for_output(channel);
        }
        (!items.is_empty()).then_some(state)
    }

    /// The next delivery that the disposition at hand names; None when there is none, and then it is done with, or when it is time
    /// for others.
    #[inline]
    pub(super) fn next_disposition(&mut self) -> Option<Event> {
        loop {
            let cursor = self.cursor.as_mut()?;
            if !(cursor.from_receiver && cursor.settled) {
                return self.next_disposition_rare();
            }
            // The most usual by far.
            let channel = cursor.channel;
            let Some(Some(session)) = self.sessions.get_mut(usize::from(channel)) else {
                self.cursor = None;
                return None;
            };
            let Some((delivery_id, entry)) = session.outgoing.take_first_in(cursor.next, cursor.last) else {
                self.cursor = None;
                return None;
            };
            let is_live = settle_on(&mut self.links, entry.link, &mut session.outgoing_stale);
            let was_full = session.outgoing_count() + 1 == self.settings.unsettled_max;
            let wire = WireDelivery { session: SessionNumber(channel), delivery_id };
            let state = cursor.step(delivery_id);
            if delivery_id == cursor.last {
                self.cursor = None;
            }
            if was_full {
                self.wait_for_output(channel);
            }
            if is_live {
                return Some(Event::ReceiverDisposition { delivery: entry.delivery, wire, state, settled: true });
            }
        }
    }

    /// As above, for states on the way and what senders say.
    #[inline(never)]
    fn next_disposition_rare(&mut self) -> Option<Event> {
        loop {
            let cursor = self.cursor.as_mut()?;
            let (channel, settled, from_receiver) = (cursor.channel, cursor.settled, cursor.from_receiver);
            let session = self.sessions.get_mut(usize::from(channel)).and_then(Option::as_deref_mut);
            let found = session.and_then(|session| {
                let id = match from_receiver {
                    true => session.outgoing.first_in(cursor.next, cursor.last),
                    false => session.incoming.first_in(cursor.next, cursor.last),
                };
                id.map(|id| (id, session))
            });
            let Some((delivery_id, session)) = found else {
                self.cursor = None;
                return None;
            };
            let state = cursor.step(delivery_id);
            if delivery_id == cursor.last {
                self.cursor = None;
            }
            let wire = WireDelivery { session: SessionNumber(channel), delivery_id };
            if from_receiver {
                let entry = session.outgoing.get_mut(delivery_id)?;
                let (link, delivery) = (entry.link, entry.delivery);
                if is_live(&self.links, link) {
                    return Some(Event::ReceiverDisposition { delivery, wire, state, settled });
                }
                if self.pauses() {
                    return None;
                }
                continue;
            }
            let entry = session.incoming.get_mut(delivery_id)?;
            let (link, token) = (entry.link, entry.token);
            let live = is_live(&self.links, link);
            entry.settled |= settled;
            // Of a delivery that still arrives the entry serves until its last frame.
            let arrives = self.links.get(link).is_some_and(|link| link.is_arriving(delivery_id));
            if settled && !arrives {
                session.incoming.remove(delivery_id);
                settle_on(&mut self.links, link, &mut session.incoming_stale);
                if session.is_incoming_window_low() {
                    Self::mark_dirty(&mut self.dirty, channel, session);
                }
            }
            if token.is_some() && live {
                return Some(Event::SenderDisposition { wire, token, state, settled });
            }
            if self.pauses() {
                return None;
            }
        }
    }
}

impl Cursor {
    /// Moves behind a delivery, and gives the state for it.
    #[inline]
    fn step(&mut self, delivery_id: u32) -> Option<State> {
        if delivery_id == self.last {
            return self.state.take();
        }
        self.next = delivery_id.wrapping_add(1);
        self.state.clone()
    }
}

/// Commands.
impl Engine {
    /// Tells the sender of an incoming delivery its state. One that the sender settled already hears nothing.
    #[inline]
    pub fn dispose_incoming(&mut self, wire: WireDelivery, state: Option<State>, settled: bool) {
        let channel = wire.session.0;
        let Some(Some(session)) = self.sessions.get_mut(usize::from(channel)) else { return };
        let entry =
            if settled { session.incoming.remove(wire.delivery_id) } else { session.incoming.get(wire.delivery_id) };
        let Some(entry) = entry else { return };
        let link = self.links.get_mut(entry.link).filter(|link| link.state != LinkState::Ended);
        match link {
            // Of a delivery that still arrives the entry serves until its last frame: routing counts on hearing that.
            Some(link) if settled && link.is_arriving(wire.delivery_id) => {
                session.incoming.insert(wire.delivery_id, Incoming { settled: true, ..entry });
            }
            Some(link) => link.unsettled -= u32::from(settled),
            None => {
                session.incoming_stale = session.incoming_stale.saturating_sub(u32::from(settled));
                return;
            }
        }
        let settled_by_sender = entry.settled;
        if settled && self.settings.sabotage.meets(Sabotage::LoseOutcome, wire.delivery_id) {
            return;
        }
        if settled_by_sender || (!settled && is_passing(&state) && self.output.len() >= OUTPUT_REST_BYTES) {
            return;
        }
        if session.gathered(Role::Receiver).takes(&state, settled) {
            session.gathered(Role::Receiver).push(wire.delivery_id, state, settled);
            return Self::mark_dirty(&mut self.dirty, channel, session);
        }
        self.write_and_gather(wire, state, settled, Role::Receiver);
    }

    /// As `dispose_incoming`, settled, for deliveries that came on one session.
    pub fn dispose_incoming_run(&mut self, session: SessionNumber, items: &[Settled], state: &Option<State>) {
        let mut left = items;
        while let Some((first, rest)) = left.split_first() {
            // The first of them has the state noted that the others share.
            let wire = WireDelivery { session, delivery_id: first.sender_id };
            self.dispose_incoming(wire, state.clone(), true);
            left = &rest[self.dispose_usual(session.0, rest, state)..];
        }
    }

    /// Notes the outcome of the first of these deliveries behind one of the same state, as far as their sender waits for it
    /// and their links bring no part of a delivery. How many they are.
    fn dispose_usual(&mut self, channel: u16, items: &[Settled], state: &Option<State>) -> usize {
        let Some(Some(session)) = self.sessions.get_mut(usize::from(channel)) else { return items.len() };
        let (links, stale) = (&mut self.links, &mut session.incoming_stale);
        let (incoming, gathered) = (&mut session.incoming, &mut session.as_receiver);
        if gathered.ranges.is_empty() || !gathered.takes(state, true) {
            return 0;
        }
        let mut leaving = Leaving::new();
        let mut count = 0;
        while let Some(item) = items.get(count).filter(|_| gathered.ranges.len() < RANGES_MAX) {
            let usual = |entry: &Incoming| leaving.turn_to(links, entry.link, stale) && !entry.settled;
            if incoming.remove_if(item.sender_id, usual).is_none() {
                break;
            }
            leaving.count += 1;
            count += 1;
            if !self.settings.sabotage.meets(Sabotage::LoseOutcome, item.sender_id) {
                gathered.add(item.sender_id);
            }
        }
        leaving.finish(links, stale);
        count
    }

    /// Tells the receiver of an outgoing delivery our state of it.
    pub fn dispose_outgoing(&mut self, wire: WireDelivery, state: Option<State>, settled: bool) {
        if !settled && self.output.len() >= OUTPUT_REST_BYTES {
            // As a receiver's state on the way: see `is_passing`.
            return;
        }
        let Some(Some(session)) = self.sessions.get_mut(usize::from(wire.session.0)) else { return };
        let Some(entry) = session.outgoing.get_mut(wire.delivery_id) else { return };
        let link = entry.link;
        let live = is_live(&self.links, link);
        if settled {
            session.outgoing.remove(wire.delivery_id);
            settle_on(&mut self.links, link, &mut session.outgoing_stale);
            self.wait_for_output(wire.session.0);
        }
        if !live {
            return;
        }
        self.gather(wire, state, settled, Role::Sender);
    }
}

impl Engine {
    /// Notes a disposition, to be written with others of the same state.
    fn gather(&mut self, wire: WireDelivery, state: Option<State>, settled: bool, role: Role) {
        let channel = wire.session.0;
        let Some(Some(session)) = self.sessions.get_mut(usize::from(channel)) else { return };
        if !session.gathered(role).takes(&state, settled) {
            return self.write_and_gather(wire, state, settled, role);
        }
        session.gathered(role).push(wire.delivery_id, state, settled);
        Self::mark_dirty(&mut self.dirty, channel, session);
    }

    /// As above, where what was noted has another state, and so is written first.
    #[inline(never)]
    fn write_and_gather(&mut self, wire: WireDelivery, state: Option<State>, settled: bool, role: Role) {
        self.write_dispositions(wire.session.0);
        self.gather(wire, state, settled, role);
    }
}

impl Engine {
    /// Writes what a session has gathered.
    pub(super) fn write_dispositions(&mut self, channel: u16) {
        for role in [Role::Receiver, Role::Sender] {
            let Some(session) = self.session_mut(channel) else { return };
            let gathered = session.gathered(role);
            if gathered.ranges.is_empty() {
                continue;
            }
            gathered.join();
            let mut gathered = std::mem::take(gathered);
            let whole = gathered.state.as_ref().and_then(state_to_wire);
            let brief = gathered.state.as_ref().and_then(state_to_wire_in_brief);
            for &(first, last) in &gathered.ranges {
                let state = if self.output.len() < OUTPUT_REST_BYTES { whole } else { brief };
                let last = (last != first).then_some(last);
                let settled = gathered.settled;
                let disposition = wire::Disposition { role, first, last, settled, state, batchable: false };
                let start = self.output.bytes.len();
                disposition.encode_frame(&mut self.output.bytes, channel);
                if settled && self.settings.sabotage.is(Sabotage::SettleTwice) {
                    disposition.encode_frame(&mut self.output.bytes, channel);
                }
                self.trace_output(start);
            }
            // The vector is kept for the next ones, but for a long one.
            gathered.ranges.clear();
            gathered.ranges.shrink_to(RANGES_KEPT_MAX);
            gathered.state = None;
            let Some(session) = self.session_mut(channel) else { return };
            *session.gathered(role) = gathered;
        }
    }
}

/// Whether a link has something to say and to hear. What deliveries a link leaves behind stay in their session's map, stale,
/// until they are settled or swept out.
#[inline]
fn is_live(links: &Links, link: LinkHandle) -> bool {
    links.get(link).is_some_and(|link| link.state != LinkState::Ended)
}

/// A delivery left its session's map: its link has one less, or there is a stale one less. Gives whether the link is live.
#[inline]
fn settle_on(links: &mut Links, link: LinkHandle, stale: &mut u32) -> bool {
    match links.get_mut(link) {
        Some(link) if link.state != LinkState::Ended => {
            link.unsettled -= 1;
            true
        }
        _ => {
            *stale = stale.saturating_sub(1);
            false
        }
    }
}

/// Deliveries of a run that leave their session's map, as [`settle_on`] counts them, but a link at a time.
struct Leaving {
    /// The link at hand, whether it is live, and how many of it left.
    link: Option<LinkHandle>,
    is_live: bool,
    count: u32,
}

impl Leaving {
    fn new() -> Leaving {
        Leaving { link: None, is_live: false, count: 0 }
    }

    /// The next one is of this link. Whether that is live, and has no delivery that still arrives.
    #[inline(always)]
    fn turn_to(&mut self, links: &mut Links, link: LinkHandle, stale: &mut u32) -> bool {
        if self.link != Some(link) {
            self.finish(links, stale);
            self.link = Some(link);
            self.is_live = links.get(link).is_some_and(|link| link.state != LinkState::Ended && link.partial.is_none());
        }
        self.is_live
    }

    /// Counts those of the link at hand.
    fn finish(&mut self, links: &mut Links, stale: &mut u32) {
        let count = std::mem::take(&mut self.count);
        match self.link.and_then(|link| links.get_mut(link)).filter(|_| self.is_live) {
            Some(link) => link.unsettled -= count,
            None => *stale = stale.saturating_sub(count),
        }
    }
}

/// Whether a state, told without settling, only says how far a delivery is. One that doesn't reach a peer is made up for
/// by what follows it; any number may be told of a delivery, so a peer that reads nothing is told none.
#[inline]
fn is_passing(state: &Option<State>) -> bool {
    state.as_ref().is_none_or(|state| matches!(state.kind, StateKind::Received | StateKind::Other))
}

#[inline]
pub(super) fn state_from_wire(raw: &[u8]) -> State {
    if raw == wire_state::ACCEPTED {
        return State::ACCEPTED;
    }
    let kind = match wire_state::kind(raw) {
        wire_state::Kind::Received => StateKind::Received,
        wire_state::Kind::Accepted => StateKind::Accepted,
        wire_state::Kind::Rejected => StateKind::Rejected,
        wire_state::Kind::Released => StateKind::Released,
        wire_state::Kind::Modified => StateKind::Modified,
        wire_state::Kind::Declared | wire_state::Kind::Transactional | wire_state::Kind::Other => StateKind::Other,
    };
    let says_more = kind == StateKind::Other || !wire_state::is_plain(raw);
    State { kind, encoded: says_more.then(|| raw.into()) }
}

/// A state as it goes to the wire; None for one that can't be told without its fields.
#[inline]
fn state_to_wire(state: &State) -> Option<&[u8]> {
    match &state.encoded {
        Some(encoded) => Some(encoded),
        None => kind_to_wire(state.kind),
    }
}

/// As above, for a peer that doesn't read its output: of a long one the kind alone.
#[inline]
fn state_to_wire_in_brief(state: &State) -> Option<&[u8]> {
    match &state.encoded {
        Some(encoded) if encoded.len() <= BRIEF_BYTES_MAX => Some(encoded),
        _ => kind_to_wire(state.kind),
    }
}

#[inline]
fn kind_to_wire(kind: StateKind) -> Option<&'static [u8]> {
    match kind {
        StateKind::Accepted => Some(&wire_state::ACCEPTED),
        StateKind::Released => Some(&wire_state::RELEASED),
        StateKind::Rejected => Some(&[0x00, 0x53, 0x25, 0x45]),
        StateKind::Modified => Some(&[0x00, 0x53, 0x27, 0x45]),
        StateKind::Received | StateKind::Other => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interleaved_ids_join() {
        let mut gathered = Dispositions::default();
        for id in [u32::MAX - 1, 1, 2, u32::MAX, 7, 0, 4, 4] {
            gathered.push(id, Some(State::ACCEPTED), true);
        }
        gathered.join();
        assert_eq!(gathered.ranges, [(u32::MAX - 1, 2), (4, 4), (7, 7)]);
    }
}

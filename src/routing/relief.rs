//! A session whose incoming window is shut by what the router holds of it, and how it is opened again.
//!
//! The window is shared by all links of a session, and a peer can't be told to send on one rather than on another. So what
//! waits can shut out the rest of a delivery that is under way; while that keeps a consumer's link, what waits for that
//! consumer waits for ever. Three things break such a circle, the mildest first:
//! - a delivery that is kept until it is whole goes on as it is (it streams);
//! - what waits doesn't count as held any more, and its places among the unsettled are lent (credit bounds both), when a delivery
//!   under way has nothing left to send;
//! - an incomplete one that waits and has grown beyond a bound is given back to its sender; of a multicast one, the copies that
//!   wait are missed.

use crate::ids::{ConnectionId, DeliveryId, LinkId, SessionNumber};
use crate::limits;
use crate::outcome::State;
use crate::routing::connection::{push_swept, SessionSlot};
use crate::routing::delivery::{By, Deliveries, Kind, Slot, Stage};
use crate::routing::delivery::{COMPLETE, CUT, OPEN};
use crate::routing::output::Output;
use crate::routing::router::Router;
use crate::time::Time;

/// Bytes of an incomplete delivery that may wait without counting as held by its session.
const LENT_BYTES_MAX: u64 = limits::SESSION_INCOMING_BYTES as u64;

fn is_incomplete(deliveries: &Deliveries, id: DeliveryId) -> bool {
    deliveries.slot(id).is_some_and(|slot| !deliveries[slot].is(COMPLETE | CUT))
}

impl Router {
    /// A session's window is shut: it brought as much payload as the router may hold of it. `shared`: other shards have links
    /// of it, so one of its deliveries may be under way there, and wait for what the window brings.
    pub fn session_full(&mut self, connection: ConnectionId, session: SessionNumber, shared: bool, now: Time) {
        self.begin(now);
        let Some(session) = self.connections.session(connection, session) else { return };
        self.connections.sessions[session as usize].full = true;
        for id in std::mem::take(&mut self.connections.sessions[session as usize].buffering) {
            let Some(slot) = self.deliveries.slot(id) else { continue };
            if self.deliveries[slot].stage == Stage::Buffering && !self.deliveries[slot].is(COMPLETE | CUT) {
                self.unbuffer(slot);
                self.offer(slot);
            }
        }
        self.sweep_under_way(session);
        if shared {
            self.lend(connection, session);
        } else {
            self.note_full(connection, session);
        }
    }

    /// An incomplete delivery waits for its rest.
    pub(super) fn note_buffering(&mut self, slot: Slot, session: SessionSlot) {
        let id = self.deliveries.id(slot);
        let (sessions, deliveries) = (&mut self.connections.sessions, &self.deliveries);
        push_swept(&mut sessions[session as usize].buffering, id, |id| {
            deliveries.slot(*id).is_some_and(|slot| deliveries[slot].stage == Stage::Buffering)
        });
    }

    /// An incomplete delivery is on its way to a consumer, or to nobody: its session may wait for the rest of it, at once where
    /// what came of it was lent while it waited.
    #[cold]
    pub(super) fn note_under_way(&mut self, slot: Slot) {
        let id = self.deliveries.id(slot);
        let link_id = self.deliveries[slot].in_link;
        let Some(session) = self.links.get(link_id).map(|link| link.session_slot) else { return };
        let (sessions, deliveries) = (&mut self.connections.sessions, &self.deliveries);
        push_swept(&mut sessions[session as usize].under_way, id, |id| is_incomplete(deliveries, *id));
        self.note_starved(link_id);
    }

    /// Forgets those that are over or complete. Each is forgotten once.
    fn sweep_under_way(&mut self, session: SessionSlot) {
        let (sessions, deliveries) = (&mut self.connections.sessions, &self.deliveries);
        self.steps += sessions[session as usize].under_way.len() as u64;
        sessions[session as usize].under_way.retain(|id| is_incomplete(deliveries, *id));
    }

    /// Whether a delivery goes on only when more of it comes.
    fn is_starved(&self, id: DeliveryId) -> bool {
        self.deliveries.slot(id).is_some_and(|slot| {
            let record = &self.deliveries[slot];
            let under_way = matches!(record.stage, Stage::Assigned | Stage::Done);
            under_way && !record.is(COMPLETE | CUT) && record.unreleased == 0
        })
    }

    /// All that came of an incomplete delivery may have left the router. When its session is full, nothing more will come
    /// by itself.
    #[cold]
    pub(super) fn note_starved(&mut self, link_id: LinkId) {
        let Some(link) = self.links.get(link_id) else { return };
        if self.connections.sessions[link.session_slot as usize].full {
            let (connection, session) = (link.port.connection, link.session_slot);
            self.note_full(connection, session);
        }
    }

    /// A session is looked at when the outputs are drained. Several may be full by then.
    fn note_full(&mut self, connection: ConnectionId, session: SessionSlot) {
        if !self.starved.contains(&(connection, session)) {
            self.starved.push((connection, session));
        }
    }

    /// Opens a full session's window when one of its deliveries is under way and has nothing left to send.
    pub(super) fn relieve(&mut self, connection: ConnectionId, session: SessionSlot) {
        let Some(known) = self.connections.sessions.get(session as usize) else { return };
        if known.under_way.iter().any(|id| self.is_starved(*id)) {
            let before = self.steps;
            self.lend(connection, session);
            if self.payer != Some(connection) {
                // The session of a sender, and a consumer's input that let it starve.
                self.steps = before;
            }
        }
    }

    /// What waits of a session doesn't count as held any more, nor among what its window is shut by.
    fn lend(&mut self, connection: ConnectionId, session: SessionSlot) {
        let Some(known) = self.connections.sessions.get_mut(session as usize) else { return };
        known.full = false;
        let (number, mut places) = (known.number, 0);
        for slot in self.deliveries_of(session) {
            let record = &self.deliveries[slot];
            let lent = record.is(COMPLETE) || record.bytes <= LENT_BYTES_MAX;
            let waits = match record.kind {
                Kind::Message => record.unsent > 0,
                _ => record.stage == Stage::Waiting,
            };
            // Those that aren't complete are few: one a link.
            places += u32::from(waits && record.is(OPEN) && record.is(COMPLETE));
            match (record.stage, record.kind) {
                // A multicast message's copies wait each for its consumer.
                (Stage::Waiting, _) | (Stage::Assigned, Kind::Message) if lent => self.release_all(slot),
                (Stage::Waiting, _) => self.give_back(slot),
                (Stage::Assigned, Kind::Message) => self.miss_waiting_copies(slot),
                _ => {}
            }
        }
        if places > 0 {
            self.outputs.push_back(Output::PlacesLent { connection, session: number, places });
        }
    }

    /// A delivery that waits goes back to its sender; what still comes of it is dropped.
    pub(super) fn give_back(&mut self, slot: Slot) {
        if let Some(address) = self.addresses.get_mut(self.deliveries[slot].address) {
            self.deliveries.unlink(By::Consumer, &mut address.waiting, slot);
        }
        self.turn_away(slot, State::RELEASED);
    }

    /// What the links of a session brought and is still here, of detached ones too.
    fn deliveries_of(&mut self, session: SessionSlot) -> Vec<Slot> {
        let mut found = Vec::new();
        let Some(known) = self.connections.sessions.get(session as usize) else { return found };
        for sender in known.senders.iter().filter_map(|id| self.links.get(*id)?.sender()) {
            found.extend(self.deliveries.list(By::Sender, &sender.deliveries));
        }
        self.steps += (known.senders.len() + found.len()) as u64;
        found
    }
}

//! A session whose incoming window is shut by what the router holds of it, and how it is opened again.
//!
//! The window is shared by all links of a session, and a peer can't be told to send on one rather than on another. So what
//! waits can shut out the rest of a delivery that is under way; while that keeps a consumer's link, what waits for that
//! consumer waits for ever. Three things break such a circle, the mildest first:
//! - a delivery that is kept until it is whole goes on as it is (it streams);
//! - what waits doesn't count as held any more (credit bounds it), when a delivery under way has nothing left to send;
//! - an incomplete one that waits and has grown beyond a bound is given back to its sender.

use crate::ids::{ConnectionId, LinkId, SessionNumber};
use crate::limits;
use crate::outcome::State;
use crate::routing::connection::SessionSlot;
use crate::routing::delivery::{By, Kind, Slot, Stage};
use crate::routing::delivery::{COMPLETE, CUT};
use crate::routing::router::Router;
use crate::time::Time;

/// Bytes of an incomplete delivery that may wait without counting as held by its session.
const LENT_BYTES_MAX: u64 = limits::SESSION_INCOMING_BYTES as u64;

impl Router {
    /// A session's window is shut: it brought as much payload as the router may hold of it. `shared`: other shards have links
    /// of it, so one of its deliveries may be under way there, and wait for what the window brings.
    pub fn session_full(&mut self, connection: ConnectionId, session: SessionNumber, shared: bool, now: Time) {
        self.begin(now);
        let Some(session) = self.connections.session(connection, session) else { return };
        self.connections.sessions[session as usize].full = true;
        for slot in self.deliveries_of(connection, session) {
            let record = &self.deliveries[slot];
            if record.stage == Stage::Buffering && !record.is(COMPLETE | CUT) {
                self.unbuffer(slot);
                self.offer(slot);
            }
        }
        if shared {
            self.lend(connection, session);
        } else {
            self.starved = Some((connection, session));
        }
    }

    /// All that came of an incomplete delivery has left the router. When its session is full, nothing more will come by
    /// itself.
    #[cold]
    pub(super) fn note_starved(&mut self, link_id: LinkId) {
        let Some(link) = self.links.get(link_id) else { return };
        if self.connections.sessions[link.session_slot as usize].full {
            self.starved = Some((link.port.connection, link.session_slot));
        }
    }

    /// Opens a full session's window when one of its deliveries is under way and has nothing left to send.
    pub(super) fn relieve(&mut self, connection: ConnectionId, session: SessionSlot) {
        let all = self.deliveries_of(connection, session);
        let is_starved = |slot: &Slot| {
            let record = &self.deliveries[*slot];
            let under_way = matches!(record.stage, Stage::Assigned | Stage::Done);
            under_way && !record.is(COMPLETE) && !record.is(CUT) && record.unreleased == 0
        };
        if all.iter().any(is_starved) {
            self.lend(connection, session);
        }
    }

    /// What waits of a session doesn't count as held any more.
    fn lend(&mut self, connection: ConnectionId, session: SessionSlot) {
        let all = self.deliveries_of(connection, session);
        if let Some(session) = self.connections.sessions.get_mut(session as usize) {
            session.full = false;
        }
        for slot in all {
            let record = &self.deliveries[slot];
            let lent = record.is(COMPLETE) || record.bytes <= LENT_BYTES_MAX;
            match (record.stage, record.kind) {
                // A multicast message's copies wait each for its consumer, for a bounded time.
                (Stage::Waiting, _) | (Stage::Assigned, Kind::Message) if lent => self.release_all(slot),
                (Stage::Waiting, _) => self.give_back(slot),
                _ => {}
            }
        }
    }

    /// A delivery that waits goes back to its sender; what still comes of it is dropped.
    pub(super) fn give_back(&mut self, slot: Slot) {
        if let Some(address) = self.addresses.get_mut(self.deliveries[slot].address) {
            self.deliveries.unlink(By::Consumer, &mut address.waiting, slot);
        }
        self.turn_away(slot, State::RELEASED);
    }

    /// What the links of a session brought and is still here.
    fn deliveries_of(&self, connection: ConnectionId, session: SessionSlot) -> Vec<Slot> {
        let mut found = Vec::new();
        for link_id in self.connections.links(connection) {
            let Some(link) = self.links.get(*link_id).filter(|link| link.session_slot == session) else { continue };
            let mut slot = link.sender().map_or(super::delivery::NONE, |sender| sender.deliveries.head);
            while slot != super::delivery::NONE {
                found.push(slot);
                slot = self.deliveries.next(By::Sender, slot);
            }
        }
        found
    }
}

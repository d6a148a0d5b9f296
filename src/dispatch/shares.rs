//! What one connection may have done for it before the others have their turn.
//!
//! Owns: what things count as, and which connections wait. Doesn't: do the work (`Dispatch::pump`), or count what other shards'
//! connections have done here: a parcel is acted on as a whole.

use super::{find, Dispatch};
use crate::ids::ConnectionId;
use crate::routing::STEPS_A_COPY;
use crate::time::Time;

/// Events of one connection that are acted on before others have their turn. One read may bring about millions: a
/// disposition names a hundred thousand deliveries in thirty bytes. A multicast message counts once more for each consumer.
pub(super) const EVENTS_AT_ONCE: u64 = 16 * 1024;
/// What an event of a link's or connection's life counts as.
pub(super) const RARE_EVENT_COST: u64 = 16;
/// Of the router, as [`Router::take_steps`] counts them.
pub(super) const STEPS_AN_EVENT: u64 = STEPS_A_COPY;
/// What an event costs that is the last for now.
pub(super) const REST: u64 = u64::MAX;

impl Dispatch {
    #[cold]
    pub(super) fn defer(&mut self, id: ConnectionId, now: Time) {
        if let Some(peer) = find(&mut self.peers, id).filter(|peer| peer.moving.is_none()) {
            peer.deferred = true;
            self.deferred.push(id);
            self.deferred_at = now;
        }
    }

    /// Connections that had their share and go on, now that the others had theirs.
    #[cold]
    pub(super) fn resume(&mut self) {
        for id in std::mem::take(&mut self.deferred) {
            if let Some(peer) = find(&mut self.peers, id) {
                if peer.rests_for.is_some_and(|shard| self.outbox.is_crowded(shard)) {
                    self.deferred.push(id);
                    continue;
                }
                peer.rests_for = None;
                peer.deferred = false;
                if !peer.pending {
                    peer.pending = true;
                    self.pending.push(id);
                }
            }
        }
    }
}

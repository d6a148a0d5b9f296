//! Connections on their way to the shard that owns the address of their first named link.
//!
//! Owns: the decision, and what travels. Doesn't: know sockets (the driver cancels the read in flight, waits for the send,
//! and passes the socket on).
//!
//! Life: an attach decides → `poll_move` says so → `take` here → `adopt` there, where the attach is answered. In between
//! nothing of the connection is acted on, and bytes that still come are kept. The end of the connection voids the move.

use super::connections::Facts;
use super::{find, Dispatch, Peer};
use crate::engine::{Engine, RemoteAttach, Suspended};
use crate::ids::{ConnectionId, LinkHandle, ShardId};
use crate::link::Terminus;
use crate::routing;
use crate::time::Time;
use std::time::Duration;

/// The attach that made a connection move. It is answered where the connection then lives.
pub(super) struct Moving {
    link: LinkHandle,
    attach: Box<RemoteAttach>,
}

/// A connection between two shards: plain data.
pub struct Moved {
    engine: Suspended,
    number: u64,
    link_capacity: u32,
    facts: Facts,
    /// Since it was opened.
    age: Duration,
    decider: Moving,
}

impl Dispatch {
    /// Whether connections move to their address's shard. A flag for measurements: without it, every delivery may cross.
    pub fn set_moves(&mut self, on: bool) {
        self.moves = on;
    }

    /// The shard that owns what a terminus names. None: the connection's own one is as good as any.
    pub(super) fn owner_of(&self, terminus: &Terminus) -> Option<ShardId> {
        if self.shards == 1 {
            return None;
        }
        let Terminus::Node { address: Some(address), dynamic: false, .. } = terminus else { return None };
        routing::owner_of(address, &self.router.settings().router_id, self.shards)
    }

    /// A peer attaches a link: here, at its owner's, or where the connection then lives.
    pub(super) fn attach_asked(&mut self, id: ConnectionId, link: LinkHandle, attach: Box<RemoteAttach>, now: Time) {
        if let Some(owner) = self.owner_of(&attach.terminus) {
            let Some(peer) = find(&mut self.peers, id) else { return };
            let decides = !std::mem::replace(&mut peer.is_home, true);
            if decides && owner != self.shard && self.moves && !self.stopped && is_movable(peer) {
                peer.moving = Some(Box::new(Moving { link, attach }));
                self.leaving.push_back((id, owner));
                return;
            }
        }
        self.attached(id, link, &attach, now);
    }

    /// A connection that should live on another shard. The driver cancels its read in flight, gives what that still brought
    /// with `received`, and takes it once no send is in flight.
    pub fn poll_move(&mut self) -> Option<(ConnectionId, ShardId)> {
        while let Some((id, to)) = self.leaving.pop_front() {
            if find(&mut self.peers, id).is_some_and(|peer| peer.moving.is_some()) {
                return Some((id, to));
            }
        }
        None
    }

    /// Takes a connection out that `poll_move` named. None: it isn't to move (any more).
    pub fn take(&mut self, id: ConnectionId, now: Time) -> Option<Moved> {
        self.drain_trace(id);
        let peer = find(&mut self.peers, id)?;
        let decider = *peer.moving.take()?;
        let noted = std::mem::take(&mut peer.output_bytes);
        match peer.engine.reclaim_output() {
            Some(unused) => self.outputs.put_noted(unused, noted),
            // It goes along.
            None => self.outputs.note(noted, 0),
        }
        let peer = self.peers.get_mut(id.index as usize)?.take()?;
        self.router.connection_closed(id, now);
        let Peer { engine, number, link_capacity, facts, .. } = *peer;
        let age = now.since(facts.opened_at);
        Some(Moved { engine: engine.suspend(), number, link_capacity, facts, age, decider })
    }

    /// A connection arrived here. Its id stays until `closed`.
    pub fn adopt(&mut self, id: ConnectionId, moved: Moved, now: Time) {
        let Moved { engine, number, link_capacity, facts, age, decider } = moved;
        let engine = Engine::resume(engine);
        self.trace.is_any |= engine.is_traced();
        let mut peer = Box::new(Peer::new(id, engine, number, link_capacity));
        // Each shard has a beginning of its own.
        peer.facts = Facts { opened_at: Time(now.0.saturating_sub(age.as_nanos() as u64)), ..facts };
        (peer.opened, peer.is_home) = (true, true);
        self.seat(peer);
        self.router.connection_opened(id, link_capacity);
        if self.stopped {
            self.close(id);
        }
        self.attach_asked(id, decider.link, decider.attach, now);
        self.apply_outputs();
        self.engine(id);
    }

    /// The connection ends here after all.
    pub(super) fn void_move(&mut self, id: ConnectionId) {
        if let Some(peer) = find(&mut self.peers, id) {
            peer.moving = None;
        }
    }
}

/// Whether a connection has nothing that binds it to this shard.
fn is_movable(peer: &Peer) -> bool {
    peer.links.is_empty() && peer.held.is_empty() && peer.engine.is_movable()
}

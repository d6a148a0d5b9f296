//! Connections on their way to the shard that owns the address of their first named link.
//!
//! Owns: the decision, and what travels. Doesn't: know sockets (the driver cancels the read in flight, waits for the send,
//! and passes the socket on).
//!
//! Life: an attach decides → `poll_move` says so → `take` here → `adopt` there, where the attach is answered. In between
//! nothing of the connection is acted on, and bytes that still come are kept. The end of the connection voids the move.
//!
//! Links that it has by then: an anonymous sender's goes along, with its credit. One of a dynamic node's, or a subscriber's,
//! has its address here: it stays in this router, as one whose connection lives elsewhere. A connection that has
//! deliveries on their way stays where it is.

use super::away::Receiver;
use super::connections::Facts;
use super::proxies::ProxyLink;
use super::{find, Dispatch, Peer};
use crate::engine::{Engine, RemoteAttach, Suspended};
use crate::ids::{ConnectionId, LinkHandle, LinkId, Port, SessionNumber, ShardId};
use crate::link::{Direction, ReceiverSettleMode, SenderSettleMode, Terminus};
use crate::mesh::Note;
use crate::routing::{self, Attach};
use crate::time::Time;
use std::collections::BTreeSet;

/// What a connection that leaves has beside its engine.
pub(super) struct Moving {
    /// The attach that made it move. It is answered where the connection then lives.
    link: LinkHandle,
    attach: Box<RemoteAttach>,
    /// What the routing of this shard calls it from now on, where it has links that stay.
    proxy: Option<ConnectionId>,
    /// Its anonymous senders.
    relays: Vec<Relay>,
}

/// An anonymous sender's link.
struct Relay {
    handle: LinkHandle,
    session: SessionNumber,
    sender_settle_mode: SenderSettleMode,
    receiver_settle_mode: ReceiverSettleMode,
    credit: u32,
}

/// A connection between two shards: plain data.
pub struct Moved {
    engine: Suspended,
    number: u64,
    link_capacity: u32,
    facts: Facts,
    links: BTreeSet<LinkHandle>,
    from: ShardId,
    moving: Moving,
}

impl Dispatch {
    /// Whether connections move to their address's shard. A flag for measurements: without it, every delivery may cross.
    pub fn set_moves(&mut self, on: bool) {
        self.moves = on;
    }

    /// The shard that owns what a terminus names. None: the connection's own one is as good as any.
    pub(super) fn owner_of(&self, terminus: &Terminus) -> Option<ShardId> {
        let Terminus::Node { address: Some(address), dynamic: false, .. } = terminus else { return None };
        self.owner_of_address(address)
    }

    #[inline]
    pub(super) fn owner_of_address(&self, address: &str) -> Option<ShardId> {
        if self.shards == 1 {
            return None;
        }
        routing::owner_of(address, &self.router.settings().router_id, self.shards)
    }

    /// A peer attaches a link: here, at its owner's, or where the connection then lives.
    pub(super) fn attach_asked(&mut self, id: ConnectionId, link: LinkHandle, attach: Box<RemoteAttach>, now: Time) {
        let Some(owner) = self.owner_of(&attach.terminus) else { return self.attached(id, link, &attach, now) };
        let Some(peer) = find(&mut self.peers, id) else { return };
        let decides = !std::mem::replace(&mut peer.is_home, true);
        if owner == self.shard {
            return self.attached(id, link, &attach, now);
        }
        if decides && self.moves && !self.stopped && self.is_movable(id) {
            return self.leave(id, owner, link, attach, now);
        }
        self.attach_elsewhere(id, link, owner, attach);
    }

    /// Whether a connection can be taken from this shard: nothing is on its way from it or to it.
    fn is_movable(&mut self, id: ConnectionId) -> bool {
        // What is decided already is for the engine as it is here.
        self.apply_outputs();
        let Some(peer) = find(&mut self.peers, id) else { return false };
        let router = &self.router;
        let is_idle = |(_, token, direction): (LinkHandle, LinkId, Direction)| {
            direction == Direction::Outgoing || !router.is_anonymous(token) || router.is_idle(token)
        };
        peer.away.is_none()
            && peer.held.is_empty()
            && peer.engine.is_movable()
            && peer.engine.accepted_links().all(is_idle)
    }

    /// A connection begins to leave: what of it stays in this router gets its own name there.
    fn leave(&mut self, id: ConnectionId, to: ShardId, link: LinkHandle, attach: Box<RemoteAttach>, now: Time) {
        let Some(peer) = find(&mut self.peers, id) else { return };
        let number = peer.number;
        let accepted: Vec<(LinkHandle, LinkId)> =
            peer.engine.accepted_links().map(|(handle, token, _)| (handle, token)).collect();
        let (mut relays, mut staying) = (Vec::new(), Vec::new());
        for (handle, token) in accepted {
            let Some(session) = peer.engine.link_session(handle) else { continue };
            let Some(view) = self.router.link_view(token) else { continue };
            if self.router.is_anonymous(token) {
                relays.push(Relay {
                    handle,
                    session,
                    sender_settle_mode: view.sender_settle_mode(),
                    receiver_settle_mode: view.receiver_settle_mode(),
                    credit: peer.engine.link_credit(handle),
                });
                self.router.link_ended(token, true, now);
            } else {
                let name = peer.engine.link_name(handle).unwrap_or_default();
                staying.push((handle, ProxyLink::new(token, session, name, false)));
            }
        }
        let proxy = (!staying.is_empty()).then(|| self.proxies.open(to, None, number));
        match proxy.and_then(|proxy| Some((proxy, self.proxies.get_mut(proxy)?))) {
            Some((proxy, state)) => {
                staying.into_iter().for_each(|(handle, link)| state.add_link(handle, link));
                self.router.connection_renamed(id, proxy);
            }
            None => {
                self.router.connection_closed(id, now);
                self.requester_gone(number, now);
            }
        }
        if let Some(peer) = find(&mut self.peers, id) {
            peer.moving = Some(Box::new(Moving { link, attach, proxy, relays }));
            self.leaving.push_back((id, to));
        }
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
    pub fn take(&mut self, id: ConnectionId, _now: Time) -> Option<Moved> {
        self.drain_trace(id);
        let peer = find(&mut self.peers, id)?;
        let moving = *peer.moving.take()?;
        let noted = std::mem::take(&mut peer.output_bytes);
        match peer.engine.reclaim_output() {
            Some(unused) => self.outputs.put_noted(unused, noted),
            // It goes along.
            None => self.outputs.note(noted, 0),
        }
        let peer = self.peers.get_mut(id.index as usize)?.take()?;
        let Peer { engine, number, link_capacity, facts, links, .. } = *peer;
        Some(Moved { engine: engine.suspend(), number, link_capacity, facts, links, from: self.shard, moving })
    }

    /// A connection arrived here. Its id stays until `closed`.
    pub fn adopt(&mut self, id: ConnectionId, moved: Moved, now: Time) {
        let Moved { engine, number, link_capacity, facts, links, from, moving } = moved;
        let Moving { link, attach, proxy, relays } = moving;
        let engine = Engine::resume(engine);
        self.trace.is_any |= engine.is_traced();
        let mut peer = Box::new(Peer::new(id, engine, number, link_capacity));
        (peer.opened, peer.is_home, peer.facts, peer.links) = (true, true, facts, links);
        self.seat(peer);
        self.router.connection_opened(id, link_capacity);
        for relay in relays {
            self.adopt_relay(id, relay, now);
        }
        if let Some(proxy) = proxy {
            self.adopt_links(id, from, proxy);
        }
        if self.stopped {
            self.close(id);
        } else {
            self.attach_asked(id, link, attach, now);
        }
        self.apply_outputs();
        self.engine(id);
    }

    fn adopt_relay(&mut self, id: ConnectionId, relay: Relay, now: Time) {
        let attach = Attach {
            port: Port { connection: id, link: relay.handle },
            session: relay.session,
            direction: Direction::Incoming,
            terminus: &Terminus::Absent,
            name: "",
            sender_settle_mode: relay.sender_settle_mode,
            receiver_settle_mode: relay.receiver_settle_mode,
        };
        let Ok(attached) = self.router.attach(attach, now) else { return };
        self.router.credit_brought(attached.link, relay.credit);
        if let Some(peer) = find(&mut self.peers, id) {
            peer.engine.set_link_token(relay.handle, attached.link);
        }
    }

    /// Links that stay at the shard which the connection left.
    fn adopt_links(&mut self, id: ConnectionId, from: ShardId, proxy: ConnectionId) {
        self.outbox.push(from, Note::Arrived { proxy, connection: id });
        let Some(peer) = find(&mut self.peers, id) else { return };
        let router = &self.router;
        let stayed: Vec<_> = peer
            .engine
            .accepted_links()
            .filter(|(handle, token, _)| {
                !router.port(*token).is_some_and(|port| port.connection == id && port.link == *handle)
            })
            .collect();
        for (handle, token, direction) in stayed {
            peer.engine.set_link_token(handle, LinkId::elsewhere(from, token.generation));
            let session = peer.engine.link_session(handle).unwrap_or_default();
            let receiver = (direction == Direction::Outgoing).then(|| Receiver::new(from, session));
            peer.links_elsewhere(from, handle, receiver);
        }
    }

    /// The connection ends here after all.
    pub(super) fn void_move(&mut self, id: ConnectionId) {
        let Some(peer) = find(&mut self.peers, id) else { return };
        let Some(moving) = peer.moving.take() else { return };
        let link_capacity = peer.link_capacity;
        match moving.proxy {
            Some(proxy) => {
                self.proxies.close(proxy);
                self.router.connection_renamed(proxy, id);
            }
            None => self.router.connection_opened(id, link_capacity),
        }
    }
}

//! Connections and their sessions, as far as routing needs them: which links go with them, and whether a session
//! takes deliveries.

use crate::ids::{ConnectionId, DeliveryId, LinkId, SessionNumber, ELSEWHERE};
use slab::Slab;
use std::collections::BTreeMap;

/// Lists of ids of which some are gone are swept when they have grown to a power of two from this one on.
const SWEPT_MIN: usize = 64;

/// Adds to such a list. `is_here`: whether what an id names still is.
pub fn push_swept<T>(list: &mut Vec<T>, id: T, is_here: impl FnMut(&T) -> bool) {
    list.push(id);
    if list.len().is_power_of_two() && list.len() >= SWEPT_MIN {
        list.retain(is_here);
    }
}

/// A session's place in [`Connections`].
pub type SessionSlot = u32;

pub struct Session {
    pub number: SessionNumber,
    /// Links that refer to it.
    links: u32,
    /// Of these, the ones that aren't detached.
    attached: u32,
    /// Of these, the ones whose peer sends, detached ones with deliveries that are still here included.
    pub senders: Vec<LinkId>,
    /// Its engine takes nothing on it for now.
    pub blocked: bool,
    /// Consumers that would have had a delivery but for that.
    pub parked: Vec<LinkId>,
    /// How many of these are gone.
    pub parked_gone: u32,
    /// Incomplete deliveries that are buffered, and ones that are under way; with some that were.
    pub buffering: Vec<DeliveryId>,
    pub under_way: Vec<DeliveryId>,
    /// Payload bytes of deliveries that aren't complete and have no consumer.
    pub buffered_bytes: usize,
    /// Its window is shut by what is held of it, as far as is known.
    pub full: bool,
}

impl Session {
    fn new(number: SessionNumber) -> Session {
        Session {
            number,
            links: 0,
            attached: 0,
            senders: Vec::new(),
            blocked: false,
            parked: Vec::new(),
            parked_gone: 0,
            buffering: Vec::new(),
            under_way: Vec::new(),
            buffered_bytes: 0,
            full: false,
        }
    }

    /// It had but detached links, and gets another one. Its number may be another session's by now: nothing is known of that.
    fn begin_again(&mut self) {
        debug_assert!(self.parked.len() == self.parked_gone as usize, "who waits for a session is attached");
        self.parked.clear();
        (self.parked_gone, self.blocked, self.full) = (0, false, false);
    }

    pub fn links_len(&self) -> usize {
        self.links as usize
    }
}

struct Connection {
    generation: u32,
    link_capacity: u32,
    links: Vec<LinkId>,
    /// Those that links refer to, detached ones too.
    sessions: BTreeMap<SessionNumber, SessionSlot>,
}

/// Where a link is noted.
pub struct Place {
    /// In its connection's list.
    pub position: u32,
    pub session: SessionSlot,
    /// A sender's, in its session's list.
    pub session_position: u32,
}

#[derive(Default)]
pub struct Connections {
    /// By the id's index.
    slots: Vec<Option<Connection>>,
    /// Connections of other shards that have links here, by the index of what they are called here.
    proxies: Vec<Option<Connection>>,
    /// The router's own ([`ConnectionId::ROUTER`]), once it has links.
    own: Option<Connection>,
    pub sessions: Slab<Session>,
    live: usize,
    /// Attached links of peers.
    links: usize,
}

impl Connections {
    /// Connections of this shard.
    pub fn len(&self) -> usize {
        self.live
    }

    /// Attached links of all peers.
    pub fn links_len(&self) -> usize {
        self.links
    }

    /// Connections of other shards that have links here.
    pub fn proxies_len(&self) -> usize {
        self.proxies.iter().flatten().count()
    }

    /// Where a connection of this id is, or would be.
    #[inline]
    fn place_mut(&mut self, id: ConnectionId) -> Option<&mut Option<Connection>> {
        if id.index & ELSEWHERE == 0 {
            return self.slots.get_mut(id.index as usize);
        }
        if id == ConnectionId::ROUTER {
            return Some(&mut self.own);
        }
        self.proxies.get_mut((id.index & !ELSEWHERE) as usize)
    }

    fn make_place(&mut self, id: ConnectionId) {
        let (places, index) = match id.index & ELSEWHERE {
            0 => (&mut self.slots, id.index as usize),
            _ => (&mut self.proxies, (id.index & !ELSEWHERE) as usize),
        };
        if places.len() <= index {
            places.resize_with(index + 1, || None);
        }
    }

    pub fn open(&mut self, id: ConnectionId, link_capacity: u32) {
        let connection =
            Connection { generation: id.generation, link_capacity, links: Vec::new(), sessions: BTreeMap::new() };
        self.put(id, connection);
    }

    fn put(&mut self, id: ConnectionId, connection: Connection) {
        self.make_place(id);
        let Some(place) = self.place_mut(id) else { return };
        debug_assert!(place.is_none(), "a connection's slot is free when it is opened");
        let is_new = place.replace(connection).is_none();
        self.live += usize::from(is_new && id.index & ELSEWHERE == 0);
    }

    /// A connection goes by another id from now on.
    pub fn rename(&mut self, from: ConnectionId, to: ConnectionId) {
        let Some(mut connection) = self.remove(from) else { return };
        connection.generation = to.generation;
        self.put(to, connection);
    }

    fn remove(&mut self, id: ConnectionId) -> Option<Connection> {
        let connection = self.place_mut(id)?.take_if(|connection| connection.generation == id.generation)?;
        self.live -= usize::from(id.index & ELSEWHERE == 0);
        Some(connection)
    }

    /// The router has links of its own.
    pub fn open_own(&mut self, link_capacity: u32) {
        let generation = ConnectionId::ROUTER.generation;
        self.own.get_or_insert_with(|| Connection {
            generation,
            link_capacity,
            links: Vec::new(),
            sessions: BTreeMap::new(),
        });
    }

    fn get(&self, id: ConnectionId) -> Option<&Connection> {
        let place = if id.index & ELSEWHERE == 0 {
            self.slots.get(id.index as usize)?
        } else if id == ConnectionId::ROUTER {
            &self.own
        } else {
            self.proxies.get((id.index & !ELSEWHERE) as usize)?
        };
        place.as_ref().filter(|connection| connection.generation == id.generation)
    }

    fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.place_mut(id)?.as_mut().filter(|connection| connection.generation == id.generation)
    }

    pub fn is_open(&self, id: ConnectionId) -> bool {
        self.get(id).is_some()
    }

    pub fn link_capacity(&self, id: ConnectionId) -> Option<u32> {
        self.get(id).map(|connection| connection.link_capacity)
    }

    /// The links of a connection.
    pub fn links(&self, id: ConnectionId) -> &[LinkId] {
        self.get(id).map_or(&[], |connection| &connection.links)
    }

    /// The senders of a connection, detached ones with deliveries that are still here included.
    pub fn senders(&self, id: ConnectionId) -> impl Iterator<Item = LinkId> + '_ {
        let sessions = self.get(id).into_iter().flat_map(|connection| connection.sessions.values());
        sessions
            .filter_map(|slot| self.sessions.get(*slot as usize))
            .flat_map(|session| session.senders.iter().copied())
    }

    /// A link of a connection, the one attached last; to take them all.
    pub fn last_link(&self, id: ConnectionId) -> Option<LinkId> {
        self.get(id)?.links.last().copied()
    }

    /// Forgets a connection that has no links.
    pub fn close(&mut self, id: ConnectionId) {
        self.remove(id);
    }

    pub fn session(&self, id: ConnectionId, number: SessionNumber) -> Option<SessionSlot> {
        self.get(id)?.sessions.get(&number).copied()
    }

    /// Notes a link. None: no such connection.
    pub fn add_link(
        &mut self,
        id: ConnectionId,
        number: SessionNumber,
        link: LinkId,
        is_sender: bool,
    ) -> Option<Place> {
        let place = if id.index & ELSEWHERE == 0 {
            self.slots.get_mut(id.index as usize)?
        } else if id == ConnectionId::ROUTER {
            &mut self.own
        } else {
            self.proxies.get_mut((id.index & !ELSEWHERE) as usize)?
        };
        let sessions = &mut self.sessions;
        let connection = place.as_mut().filter(|connection| connection.generation == id.generation)?;
        let slot =
            *connection.sessions.entry(number).or_insert_with(|| sessions.insert(Session::new(number)) as SessionSlot);
        let session = &mut sessions[slot as usize];
        if session.attached == 0 {
            session.begin_again();
        }
        session.links += 1;
        session.attached += 1;
        let session_position = session.senders.len() as u32;
        if is_sender {
            session.senders.push(link);
        }
        connection.links.push(link);
        self.links += usize::from(id != ConnectionId::ROUTER);
        Some(Place { position: connection.links.len() as u32 - 1, session: slot, session_position })
    }

    /// A link is detached: it leaves its connection's list. Gives the link that has its place now.
    pub fn detach(&mut self, id: ConnectionId, position: u32, slot: SessionSlot) -> Option<LinkId> {
        self.sessions[slot as usize].attached -= 1;
        let connection = self.get_mut(id)?;
        connection.links.swap_remove(position as usize);
        let moved = connection.links.get(position as usize).copied();
        self.links -= usize::from(id != ConnectionId::ROUTER);
        moved
    }

    /// A sender that is gone leaves its session's list. Gives the one that has its place now.
    pub fn remove_sender(&mut self, slot: SessionSlot, position: u32) -> Option<LinkId> {
        let senders = &mut self.sessions[slot as usize].senders;
        senders.swap_remove(position as usize);
        senders.get(position as usize).copied()
    }

    /// Nothing of a detached link refers to its session any more. A session without links is forgotten.
    pub fn leave_session(&mut self, id: ConnectionId, slot: SessionSlot) {
        let session = &mut self.sessions[slot as usize];
        session.links -= 1;
        if session.links > 0 {
            return;
        }
        let number = self.sessions.remove(slot as usize).number;
        // Its connection may be gone.
        if let Some(connection) = self.get_mut(id) {
            connection.sessions.remove(&number);
        }
    }
}

//! Treatments: which of the consumers that have room gets the next delivery.
//!
//! Owns: the consumers of an address that can take a delivery now, ordered as the address's treatment wants.
//! Doesn't: know deliveries, credit, links beyond their ids.
//! Driven by: the router, when a consumer's room or the number of its outstanding deliveries changes.
//!
//! Every step is O(1), however many consumers there are.

pub mod balanced;

use crate::ids::LinkId;
use crate::routing::lists::Lists;
use crate::routing::settings::Treatment;
use balanced::{Balanced, Choice, LocalSlot, Origin};

/// A consumer of an address, as its treatment knows it. Valid until it left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate(u32);

/// The one list of a rotation.
const RING: usize = 0;

enum Order {
    /// By turns: who was served goes to the end. Closest, and the order in which multicast serves its consumers.
    Rotation { ring: Lists, free: Vec<u32>, next: u32 },
    /// The fewest outstanding first.
    Balanced(Balanced),
}

/// The consumers of an address.
pub struct Candidates {
    order: Order,
    /// By candidate.
    links: Vec<LinkId>,
    with_room: u32,
}

impl Candidates {
    pub fn new(treatment: Treatment) -> Candidates {
        let order = match treatment {
            Treatment::Balanced => Order::Balanced(Balanced::new()),
            Treatment::Closest | Treatment::Multicast | Treatment::Unavailable => {
                Order::Rotation { ring: Lists::new(1), free: Vec::new(), next: 0 }
            }
        };
        Candidates { order, links: Vec::new(), with_room: 0 }
    }

    /// A consumer attached; it has no room yet.
    pub fn join(&mut self, link: LinkId) -> Candidate {
        let slot = match &mut self.order {
            Order::Rotation { ring, free, next } => free.pop().unwrap_or_else(|| {
                *next += 1;
                ring.reserve(*next - 1);
                *next - 1
            }),
            Order::Balanced(balanced) => balanced.local_joined().0,
        };
        if self.links.len() <= slot as usize {
            self.links.resize(slot as usize + 1, link);
        }
        self.links[slot as usize] = link;
        Candidate(slot)
    }

    /// It is gone. It had no room at the last.
    pub fn leave(&mut self, candidate: Candidate) {
        match &mut self.order {
            Order::Rotation { free, .. } => free.push(candidate.0),
            Order::Balanced(balanced) => balanced.local_left(LocalSlot(candidate.0)),
        }
    }

    /// Whether it can take a delivery. To be called when that changes.
    #[inline]
    pub fn set_room(&mut self, candidate: Candidate, room: bool) {
        self.with_room = if room { self.with_room + 1 } else { self.with_room - 1 };
        match &mut self.order {
            Order::Rotation { ring, .. } => ring.place(room.then_some(RING), candidate.0),
            Order::Balanced(balanced) => balanced.local_room(LocalSlot(candidate.0), room),
        }
    }

    /// It was given so many deliveries, one after the other.
    #[inline]
    pub fn assigned(&mut self, candidate: Candidate, count: u32) {
        match &mut self.order {
            Order::Rotation { ring, .. } => ring.push(RING, candidate.0),
            Order::Balanced(balanced) => balanced.local_assigned_run(LocalSlot(candidate.0), count),
        }
    }

    /// So many deliveries that it was given are finished.
    #[inline]
    pub fn settled(&mut self, candidate: Candidate, count: u32) {
        if let Order::Balanced(balanced) = &mut self.order {
            balanced.local_settled_run(LocalSlot(candidate.0), count);
        }
    }

    /// Nobody has room.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.with_room == 0
    }

    /// Who gets the next delivery.
    #[inline]
    pub fn best(&self) -> Option<LinkId> {
        let slot = match &self.order {
            Order::Rotation { ring, .. } => ring.first(RING)?,
            Order::Balanced(balanced) => match balanced.choose(Origin::HERE)? {
                Choice::Local(local) => local.0,
                Choice::Remote(_) => return None,
            },
        };
        self.links.get(slot as usize).copied()
    }

    /// How many deliveries, as long as nothing else changes, go to who gets the next one; 0: nobody has room.
    #[inline]
    pub fn turns(&self) -> u32 {
        match &self.order {
            _ if self.with_room == 0 => 0,
            Order::Balanced(balanced) => balanced.turns(),
            Order::Rotation { .. } if self.with_room == 1 => u32::MAX,
            Order::Rotation { .. } => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyone_has_a_turn() {
        let link = |index| LinkId { index, generation: 0 };
        let mut all = Candidates::new(Treatment::Closest);
        let places: Vec<Candidate> = (0..3).map(|index| all.join(link(index))).collect();
        assert_eq!(all.best(), None);
        places.iter().for_each(|place| all.set_room(*place, true));
        let mut served = Vec::new();
        for _ in 0..6 {
            let best = all.best().unwrap();
            served.push(best.index);
            all.assigned(places[best.index as usize], 1);
        }
        assert_eq!(served, [0, 1, 2, 0, 1, 2]);
        all.set_room(places[0], false);
        all.leave(places[0]);
        assert_eq!(all.best(), Some(link(1)));
        let again = all.join(link(9));
        assert_eq!(again, places[0]);
        all.set_room(places[1], false);
        all.set_room(places[2], false);
        assert!(all.is_empty());
        all.set_room(again, true);
        assert_eq!(all.best(), Some(link(9)));
    }
}

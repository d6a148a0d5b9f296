//! What this shard has to tell the others, until their lanes have room.
//!
//! Owns: the parcels being filled, those that wait, and empty ones. Doesn't: know what a note means.
//!
//! Invariants: notes to a shard leave in the order in which they were put; nothing is lost. What waits is bounded by credit
//! and windows, and by that a connection which fills a crowded outbox rests. Payload in a parcel counts in the router's
//! account from the parcel's end to its unpacking.

use crate::ids::ShardId;
use crate::limits;
use crate::memory::Memory;
use crate::mesh::{Note, Parcel};
use crate::payload::Payload;
use std::collections::VecDeque;
use std::sync::Arc;

/// A parcel with so much in it is followed by another one, so that the work it makes is bounded.
const PARCEL_NOTES_MAX: usize = 512;
const PARCEL_BYTES_MAX: usize = 256 * 1024;
/// Full parcels for one shard that make it crowded.
const CROWD: usize = 8;
/// Empty parcels that are kept: as many as can be on their way, a lane's, those that another shard has taken out of it and not given
/// back, and a crowd each way.
const EMPTY_MAX: usize = 2 * limits::LANE_PARCELS + 2 * CROWD;
/// Of these, the ones whose buffers are kept whatever their size.
const LARGE_EMPTY_MAX: usize = 2 * CROWD;
/// Payload bytes from which on a parcel counts in the account: less is less than what is moved without one.
const COUNTED_BYTES_MIN: usize = 4096;

/// For one shard.
#[derive(Default)]
struct Bag {
    full: VecDeque<Parcel>,
    open: Parcel,
    /// Empty ones that it made.
    theirs: Vec<Parcel>,
}

pub struct Outbox {
    bags: Vec<Bag>,
    /// Empty parcels of this shard's.
    empty: Vec<Parcel>,
    memory: Arc<Memory>,
    pub notes_sent: u64,
    pub notes_received: u64,
}

impl Outbox {
    /// For so many shards.
    pub fn new(shards: u16, memory: Arc<Memory>) -> Outbox {
        let bags = (0..if shards > 1 { shards } else { 0 }).map(|_| Bag::default()).collect();
        Outbox { bags, empty: Vec::new(), memory, notes_sent: 0, notes_received: 0 }
    }

    /// Tells a shard something.
    pub fn push(&mut self, to: ShardId, note: Note) {
        let Some(bag) = self.bags.get_mut(usize::from(to.0)) else { return };
        self.notes_sent += 1;
        bag.open.push(note);
        if bag.open.len() >= PARCEL_NOTES_MAX || bag.open.bytes_len() >= PARCEL_BYTES_MAX {
            self.close(usize::from(to.0));
        }
    }

    /// As `push`, with the bytes that the note brings.
    pub fn push_with(&mut self, to: ShardId, note: Note, address: &str, payload: &Payload) {
        let Some(bag) = self.bags.get_mut(usize::from(to.0)) else { return };
        bag.open.put(address.as_bytes());
        for range in payload.ranges() {
            bag.open.put(range.as_slice());
        }
        self.push(to, note);
    }

    /// Whether so much waits for a shard that who has more for it should rest.
    pub fn is_crowded(&self, to: ShardId) -> bool {
        self.bags.get(usize::from(to.0)).is_some_and(|bag| bag.full.len() >= CROWD)
    }

    /// Ends the parcel that is being filled.
    fn close(&mut self, to: usize) {
        let bag = &mut self.bags[to];
        // Its own ones first: one of the other's that is filled here never goes home, and the other has to make another.
        let next = self.empty.pop().or_else(|| bag.theirs.pop()).unwrap_or_default();
        let mut full = std::mem::replace(&mut bag.open, next);
        // The last of these is taken out first, and so kept below the others.
        for empty in bag.theirs.drain(..).rev() {
            full.take_along(empty);
        }
        let bytes = counted_bytes(&full);
        if bytes > 0 {
            self.memory.add(bytes);
        }
        bag.full.push_back(full);
    }

    /// Offers all that there is: `push` gives a parcel back that it has no room for.
    pub fn flush(&mut self, mut push: impl FnMut(ShardId, Parcel) -> Result<(), Parcel>) {
        for to in 0..self.bags.len() {
            loop {
                let bag = &mut self.bags[to];
                if bag.full.is_empty() && bag.open.len() > 0 {
                    self.close(to);
                    continue;
                }
                let Some(parcel) = bag.full.pop_front() else { break };
                if let Err(parcel) = push(ShardId(to as u16), parcel) {
                    bag.full.push_front(parcel);
                    break;
                }
            }
        }
    }

    /// Whether something waits.
    pub fn has_parcels(&self) -> bool {
        self.bags.iter().any(|bag| bag.open.len() > 0 || !bag.full.is_empty())
    }

    /// Takes a parcel back in that is done with. `notes`: the vector that was taken out of it.
    pub fn recycle(&mut self, from: ShardId, mut parcel: Parcel, notes: Vec<Note>) {
        while let Some(own) = parcel.pop_returned() {
            keep(&mut self.empty, own);
        }
        let bytes = counted_bytes(&parcel);
        if bytes > 0 {
            self.memory.remove(bytes);
        }
        parcel.clear(notes);
        if let Some(bag) = self.bags.get_mut(usize::from(from.0)) {
            keep(&mut bag.theirs, parcel);
        }
    }
}

/// Keeps an empty parcel among others, where there are few. (Another shard's are many when nothing is told it for long.) The last
/// ones are used first.
fn keep(empty: &mut Vec<Parcel>, parcel: Parcel) {
    if empty.len() < EMPTY_MAX {
        empty.push(parcel);
        if let Some(place) = empty.len().checked_sub(LARGE_EMPTY_MAX + 1) {
            empty[place].shrink();
        }
    }
}

/// What a parcel counts as in the account.
fn counted_bytes(parcel: &Parcel) -> usize {
    Some(parcel.bytes_len()).filter(|bytes| *bytes >= COUNTED_BYTES_MIN).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{ConnectionId, SessionNumber};

    fn note(bytes: usize) -> Note {
        let connection = ConnectionId { index: 0, generation: 0 };
        Note::SessionSent { connection, session: SessionNumber(0), bytes }
    }

    fn numbers(parcel: &mut Parcel) -> Vec<usize> {
        let number = |note: &Note| match note {
            Note::SessionSent { bytes, .. } => *bytes,
            other => panic!("{other:?}"),
        };
        parcel.take_notes().iter().map(number).collect()
    }

    #[test]
    fn what_a_full_lane_gives_back_stays_in_order() {
        let mut outbox = Outbox::new(3, Arc::default());
        for number in 0..2 * PARCEL_NOTES_MAX + 3 {
            outbox.push(ShardId(2), note(number));
        }
        let (mut taken, mut room) = (Vec::new(), 1);
        outbox.flush(|to, mut parcel| {
            assert_eq!(to, ShardId(2));
            if room == 0 {
                return Err(parcel);
            }
            room -= 1;
            taken.extend(numbers(&mut parcel));
            Ok(())
        });
        assert_eq!(taken.len(), PARCEL_NOTES_MAX);
        assert!(outbox.has_parcels());
        outbox.push(ShardId(2), note(2 * PARCEL_NOTES_MAX + 3));
        outbox.flush(|_, mut parcel| {
            taken.extend(numbers(&mut parcel));
            Ok(())
        });
        assert!(!outbox.has_parcels());
        assert_eq!(taken, (0..2 * PARCEL_NOTES_MAX + 4).collect::<Vec<_>>());
    }

    #[test]
    fn parcels_go_to_and_fro_and_none_is_made_anew() {
        let mut shards = [Outbox::new(2, Arc::default()), Outbox::new(2, Arc::default())];
        let mut most = 0;
        for round in 0..1000 {
            let mut lane = Vec::new();
            for from in [0, 1] {
                // One says much more than the other.
                for _ in 0..if from == 0 { PARCEL_NOTES_MAX * 3 } else { usize::from(round % 5 == 0) } {
                    shards[from].push(ShardId(1 - from as u16), note(0));
                }
                shards[from].flush(|_, parcel| {
                    lane.push((from, parcel));
                    Ok(())
                });
            }
            for (from, mut parcel) in lane {
                let notes = parcel.take_notes();
                shards[1 - from].recycle(ShardId(from as u16), parcel, notes);
            }
            let idle =
                |outbox: &Outbox| outbox.empty.len() + outbox.bags.iter().map(|bag| bag.theirs.len()).sum::<usize>();
            let all: usize = shards.iter().map(idle).sum();
            most = most.max(all);
        }
        assert!(most < 60, "{most} parcels in all");
    }

    #[test]
    fn who_tells_nothing_keeps_few_parcels_of_others() {
        let mut outbox = Outbox::new(2, Arc::default());
        for _ in 0..10 * EMPTY_MAX {
            let mut parcel = Parcel::default();
            parcel.push(note(0));
            let notes = parcel.take_notes();
            outbox.recycle(ShardId(1), parcel, notes);
        }
        assert_eq!(outbox.bags[1].theirs.len(), EMPTY_MAX);
    }
}

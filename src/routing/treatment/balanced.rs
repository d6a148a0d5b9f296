//! Balanced: each delivery goes where the fewest are outstanding.
//!
//! Owns: an address's candidates, ordered by what is outstanding at each. Doesn't: know links, deliveries,
//! paths through the network; the caller says what changes.
//!
//! Rule: candidates are those with room. A local consumer's value is its unsettled count; another router's is
//! what is unsettled towards it plus the cost of the way there, and it takes a message only from an origin that
//! is valid for it. The smallest value wins; local wins a tie with remote; among equals the one that has had that
//! value longest, so ties rotate.
//!
//! ```text
//! local, 3 unsettled   local, 101 unsettled   remote, cost 100, 0 unsettled    goes to
//!         room                 room                       room                 the first local
//!      no room                 room                       room                 the remote (100 < 101)
//!      no room              no room                       room                 the remote, at once
//! ```
//!
//! A handful of local consumers, the usual case, is looked through at each choice, and a change is a count. More of them stand
//! in buckets by value, with a bitmap over the buckets: a choice and a change are O(1), however many consumers there
//! are. Remote ones are few (a network's routers) and kept sorted.

use crate::routing::lists::Lists;
use slab::Slab;

/// A local consumer among the candidates of one address; valid until it left.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct LocalSlot(pub u32);

/// Another router among the candidates of one address; valid until it left.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct RemoteSlot(pub u32);

/// Who gets a delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    Local(LocalSlot),
    Remote(RemoteSlot),
}

/// The router where a message came into the network: its index in the topology; [`Origin::HERE`] for this one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin(pub u32);

impl Origin {
    /// This router; always valid.
    pub const HERE: Origin = Origin(0);
}

/// A set of origins: those whose own shortest path to a router leads through this one.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Origins(Vec<u64>);

impl Origins {
    pub fn insert(&mut self, origin: Origin) {
        let word = origin.0 as usize / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (origin.0 % 64);
    }

    #[inline]
    pub fn contains(&self, origin: Origin) -> bool {
        if origin == Origin::HERE {
            return true;
        }
        self.0.get(origin.0 as usize / 64).is_some_and(|word| word >> (origin.0 % 64) & 1 == 1)
    }
}

impl FromIterator<Origin> for Origins {
    fn from_iter<I: IntoIterator<Item = Origin>>(origins: I) -> Self {
        let mut set = Self::default();
        origins.into_iter().for_each(|origin| set.insert(origin));
        set
    }
}

/// Local consumers up to this many are looked through.
const SCANNED_MAX: u32 = 8;

#[derive(Clone, Copy)]
struct Local {
    unsettled: u32,
    room: bool,
    /// When it came to its value: a count of changes.
    since: u64,
}

struct Remote {
    unsettled: u32,
    cost: u32,
    room: bool,
    origins: Origins,
}

impl Remote {
    fn value(&self) -> u64 {
        u64::from(self.unsettled) + u64::from(self.cost)
    }
}

/// The candidates of one balanced address.
///
/// ```
/// use ringway::routing::treatment::balanced::{Balanced, Choice, Origin, Origins};
/// let mut balanced = Balanced::new();
/// let local = balanced.local_joined();
/// let remote = balanced.remote_joined(2, Origins::default());
/// balanced.remote_room(remote, true);
/// // The local consumer hasn't given credit: the network is used at once.
/// assert_eq!(balanced.choose(Origin::HERE), Some(Choice::Remote(remote)));
/// balanced.local_room(local, true);
/// for _ in 0..3 {
///     assert_eq!(balanced.choose(Origin::HERE), Some(Choice::Local(local)));
///     balanced.local_assigned(local);
/// }
/// // 3 outstanding here, a cost of 2 to there.
/// assert_eq!(balanced.choose(Origin::HERE), Some(Choice::Remote(remote)));
/// // Not for a message whose own way to that router doesn't lead through here.
/// assert_eq!(balanced.choose(Origin(7)), Some(Choice::Local(local)));
/// ```
pub struct Balanced {
    locals: Slab<Local>,
    /// Changes of local consumers.
    changes: u64,
    /// Since there were more than `SCANNED_MAX` of them, until all are gone.
    index: Option<Box<Index>>,
    remotes: Slab<Remote>,
    /// Remotes with room by value; among equals the one that came to it first.
    order: Vec<u32>,
}

impl Default for Balanced {
    fn default() -> Self {
        Self::new()
    }
}

impl Balanced {
    pub fn new() -> Self {
        Self { locals: Slab::new(), changes: 0, index: None, remotes: Slab::new(), order: Vec::new() }
    }

    /// Who gets a message of this origin. None: nobody has room, it waits.
    #[inline]
    pub fn choose(&self, origin: Origin) -> Option<Choice> {
        let local = match &self.index {
            None => self.scan(),
            Some(index) => index.first(),
        };
        if self.order.is_empty() {
            return local.map(|(_, slot)| Choice::Local(LocalSlot(slot)));
        }
        let remote = self.order.iter().find_map(|&slot| {
            let remote = &self.remotes[slot as usize];
            remote.origins.contains(origin).then_some((remote.value(), slot))
        });
        match (local, remote) {
            (Some((value, slot)), Some((away, _))) if u64::from(value) <= away => Some(Choice::Local(LocalSlot(slot))),
            (_, Some((_, slot))) => Some(Choice::Remote(RemoteSlot(slot))),
            (Some((_, slot)), None) => Some(Choice::Local(LocalSlot(slot))),
            (None, None) => None,
        }
    }

    /// How many messages in a row go to the local consumer that gets the next one: until another one has less outstanding, or as
    /// much for longer.
    #[inline]
    pub fn turns(&self) -> u32 {
        if self.locals.len() == 1 && self.order.is_empty() {
            return u32::MAX;
        }
        if self.index.is_some() || !self.order.is_empty() {
            return 1;
        }
        let (mut least, mut second) = (u32::MAX, u32::MAX);
        for (_, local) in self.locals.iter().filter(|(_, local)| local.room) {
            second = second.min(local.unsettled.max(least));
            least = least.min(local.unsettled);
        }
        (second - least).max(1)
    }

    /// The smallest value of a local consumer with room, and whose it is.
    #[inline]
    fn scan(&self) -> Option<(u32, u32)> {
        if self.locals.len() == 1 {
            let (slot, local) = self.locals.iter().next()?;
            return local.room.then_some((local.unsettled, slot as u32));
        }
        let with_room = self.locals.iter().filter(|(_, local)| local.room);
        let least = with_room.min_by_key(|(_, local)| (local.unsettled, local.since));
        least.map(|(slot, local)| (local.unsettled, slot as u32))
    }

    /// No local consumer, no other router.
    pub fn is_empty(&self) -> bool {
        self.locals.is_empty() && self.remotes.is_empty()
    }
}

/// Local consumers.
impl Balanced {
    /// A consumer attached; it has no room yet.
    pub fn local_joined(&mut self) -> LocalSlot {
        let slot = self.locals.insert(Local { unsettled: 0, room: false, since: 0 }) as u32;
        if slot >= SCANNED_MAX && self.index.is_none() {
            self.index = Some(Box::new(Index::new(&self.locals)));
        }
        if let Some(index) = &mut self.index {
            index.buckets.reserve(slot);
        }
        LocalSlot(slot)
    }

    /// It is gone, and what was outstanding there doesn't count any more.
    pub fn local_left(&mut self, slot: LocalSlot) {
        self.change_local(slot, |local| local.room = false);
        if self.locals.contains(slot.0 as usize) {
            self.locals.remove(slot.0 as usize);
        }
        if self.locals.is_empty() {
            (self.locals, self.index) = (Slab::new(), None);
        }
    }

    /// Whether it can take a delivery now.
    #[inline]
    pub fn local_room(&mut self, slot: LocalSlot, room: bool) {
        self.change_local(slot, |local| local.room = room);
    }

    #[inline]
    pub fn local_assigned(&mut self, slot: LocalSlot) {
        self.local_assigned_run(slot, 1);
    }

    /// It was given so many deliveries.
    #[inline]
    pub fn local_assigned_run(&mut self, slot: LocalSlot, count: u32) {
        self.change_local(slot, |local| local.unsettled = local.unsettled.saturating_add(count));
    }

    /// A delivery there is settled, or was taken back.
    #[inline]
    pub fn local_settled(&mut self, slot: LocalSlot) {
        self.local_settled_run(slot, 1);
    }

    /// So many deliveries there are settled.
    #[inline]
    pub fn local_settled_run(&mut self, slot: LocalSlot, count: u32) {
        self.change_local(slot, |local| {
            debug_assert!(local.unsettled >= count);
            local.unsettled = local.unsettled.saturating_sub(count);
        });
    }

    pub fn local_unsettled(&self, slot: LocalSlot) -> u32 {
        self.locals.get(slot.0 as usize).map_or(0, |local| local.unsettled)
    }

    #[inline]
    fn change_local(&mut self, slot: LocalSlot, change: impl FnOnce(&mut Local)) {
        let Some(local) = self.locals.get_mut(slot.0 as usize) else {
            debug_assert!(false, "unknown consumer");
            return;
        };
        let before = *local;
        change(local);
        if before.room == local.room && (before.unsettled == local.unsettled || !local.room) {
            return;
        }
        self.changes += 1;
        local.since = self.changes;
        let now = *local;
        if let Some(index) = &mut self.index {
            index.change(slot.0, before, now);
        }
    }
}

/// Local consumers with room, by what is unsettled there.
struct Index {
    buckets: Lists,
    filled: Bitmap,
    /// The smallest value of a local consumer with room.
    lowest: Option<u32>,
}

impl Index {
    fn new(locals: &Slab<Local>) -> Self {
        let mut index = Self { buckets: Lists::new(1), filled: Bitmap::default(), lowest: None };
        let mut in_order: Vec<_> = locals.iter().map(|(slot, local)| (local.since, slot as u32, *local)).collect();
        in_order.sort_unstable_by_key(|&(since, slot, _)| (since, slot));
        for (_, slot, local) in in_order {
            index.buckets.reserve(slot);
            if local.room {
                index.change(slot, Local { room: false, ..local }, local);
            }
        }
        index
    }

    #[inline]
    fn first(&self) -> Option<(u32, u32)> {
        self.lowest.and_then(|value| Some((value, self.buckets.first(value as usize)?)))
    }

    fn change(&mut self, slot: u32, before: Local, now: Local) {
        if now.room {
            self.buckets.reserve_lists(now.unsettled as usize + 1);
            self.buckets.push(now.unsettled as usize, slot);
            if self.buckets.length(now.unsettled as usize) == 1 {
                self.filled.set(now.unsettled);
            }
            self.lowest = Some(self.lowest.map_or(now.unsettled, |lowest| lowest.min(now.unsettled)));
        } else {
            self.buckets.remove(slot);
        }
        if before.room && self.buckets.length(before.unsettled as usize) == 0 {
            self.filled.clear(before.unsettled);
            if self.lowest == Some(before.unsettled) {
                // Assigned one: the others have at least as many as it has now.
                let next = Some(before.unsettled.saturating_add(1));
                let follows = now.room && Some(now.unsettled) == next;
                self.lowest = if follows { next } else { self.filled.first() };
            }
        }
    }
}

/// Other routers.
impl Balanced {
    /// A router that has consumers of the address is reachable at this cost; it has no room yet.
    pub fn remote_joined(&mut self, cost: u32, origins: Origins) -> RemoteSlot {
        RemoteSlot(self.remotes.insert(Remote { unsettled: 0, cost, room: false, origins }) as u32)
    }

    pub fn remote_left(&mut self, slot: RemoteSlot) {
        self.change_remote(slot, |remote| remote.room = false);
        if self.remotes.contains(slot.0 as usize) {
            self.remotes.remove(slot.0 as usize);
        }
    }

    /// The way there changed.
    pub fn remote_path_changed(&mut self, slot: RemoteSlot, cost: u32, origins: Origins) {
        self.change_remote(slot, |remote| {
            remote.cost = cost;
            remote.origins = origins;
        });
    }

    /// Whether its link can take a delivery now.
    pub fn remote_room(&mut self, slot: RemoteSlot, room: bool) {
        self.change_remote(slot, |remote| remote.room = room);
    }

    pub fn remote_assigned(&mut self, slot: RemoteSlot) {
        self.change_remote(slot, |remote| remote.unsettled = remote.unsettled.saturating_add(1));
    }

    pub fn remote_settled(&mut self, slot: RemoteSlot) {
        self.change_remote(slot, |remote| {
            debug_assert!(remote.unsettled > 0);
            remote.unsettled = remote.unsettled.saturating_sub(1);
        });
    }

    pub fn remote_unsettled(&self, slot: RemoteSlot) -> u32 {
        self.remotes.get(slot.0 as usize).map_or(0, |remote| remote.unsettled)
    }

    fn change_remote(&mut self, slot: RemoteSlot, change: impl FnOnce(&mut Remote)) {
        let Some(remote) = self.remotes.get_mut(slot.0 as usize) else {
            debug_assert!(false, "unknown router");
            return;
        };
        let before = (remote.room, remote.value());
        change(remote);
        let now = (remote.room, remote.value());
        if before == now || !(before.0 || now.0) {
            return;
        }
        if before.0 {
            self.order.retain(|&other| other != slot.0);
        }
        if now.0 {
            let remotes = &self.remotes;
            let at = self.order.partition_point(|&other| remotes[other as usize].value() <= now.1);
            self.order.insert(at, slot.0);
        }
    }
}

/// Which numbers are in a set: a bit a number, and above a bit for each word of those that isn't zero. The smallest is
/// found in as many steps as there are upper words, one for 4096 numbers.
#[derive(Default)]
struct Bitmap {
    words: Vec<u64>,
    upper: Vec<u64>,
}

impl Bitmap {
    #[inline]
    fn first(&self) -> Option<u32> {
        let (at, upper) = self.upper.iter().enumerate().find(|(_, word)| **word != 0)?;
        let at = at * 64 + upper.trailing_zeros() as usize;
        let word = self.words.get(at)?;
        Some((at * 64) as u32 + word.trailing_zeros())
    }

    #[inline]
    fn set(&mut self, number: u32) {
        let at = number as usize / 64;
        if self.words.len() <= at {
            self.grow(at);
        }
        self.words[at] |= 1 << (number % 64);
        self.upper[at / 64] |= 1 << (at % 64);
    }

    #[inline]
    fn clear(&mut self, number: u32) {
        let at = number as usize / 64;
        self.words[at] &= !(1 << (number % 64));
        if self.words[at] == 0 {
            self.upper[at / 64] &= !(1 << (at % 64));
        }
    }

    #[cold]
    fn grow(&mut self, at: usize) {
        self.words.resize((at + 1).next_power_of_two(), 0);
        self.upper.resize(self.words.len().div_ceil(64), 0);
    }
}

#[cfg(test)]
#[path = "balanced_tests.rs"]
mod tests;

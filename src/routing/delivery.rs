//! Deliveries: their records, the slab that holds them, and the lists that run through it.
//!
//! A record stands for one of three things ([`Kind`]): a delivery to one consumer (its sender's side and its
//! consumer's side in one), a multicast message (the sender's side), or one of its copies (a consumer's side).
//! Lists are intrusive, so that moving a delivery from one to another allocates nothing.
//!
//! Invariant: a record is in the `by_sender` list of its in-link (a copy: of its message) as long as it lives, and
//! in at most one list through `by_consumer`: its address's waiting ones, or the queue or the unsettled of its
//! out-link. (A message whose copies are made is in none: there it has its slowest copy, see `pace`.)

use crate::ids::{AddressId, DeliveryId, LinkId, SessionNumber, WireDelivery, ELSEWHERE};
use crate::memory::Memory;
use crate::outcome::State;
use crate::payload::Payload;
use crate::routing::direct::Way;
use crate::run::Arrived;
use crate::time::Time;
use std::sync::Arc;

/// A record's place in the slab, for whom holds it in a list: no generation, so only for records that live.
pub type Slot = u32;

pub const NONE: Slot = u32::MAX;

/// Bytes of encodings that messages' outcomes keep, each as if it were nobody else's. Beyond, the kind alone is kept: rejected
/// without its error is still rejected.
pub const OUTCOME_BYTES_MAX: usize = 1024 * 1024;

/// Records that are counted in the account at once.
const COUNTED_STEP: u32 = 64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Free,
    /// For one consumer.
    Single,
    /// A multicast message: what the sender sees.
    Message,
    /// What one consumer sees of a multicast message.
    Copy,
}

/// How far the consumer's side of a delivery is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Its first bytes are here; it waits to be complete, or large enough to stream.
    Buffering,
    /// In its address's FIFO (a copy: in its consumer's queue).
    Waiting,
    /// On a consumer's link (a message: its copies are made).
    Assigned,
    /// No consumer's side (any more). What still arrives of it is dropped.
    Done,
}

/// The sender waits for an outcome, and its engine knows the delivery.
pub const OPEN: u16 = 1;
/// All of its payload has arrived.
pub const COMPLETE: u16 = 1 << 1;
/// Nothing more comes of it: its link is gone, or it was aborted.
pub const CUT: u16 = 1 << 2;
/// The sender settled it, at its begin or later.
pub const SETTLED: u16 = 1 << 3;
/// It arrived settled.
pub const PRESETTLED: u16 = 1 << 4;
/// It takes up some of its sender's credit.
pub const CREDIT: u16 = 1 << 5;
/// It counts in its address's depth.
pub const DEPTH: u16 = 1 << 6;
/// Its out-link is occupied by it: some of its payload isn't out yet, or hasn't arrived.
pub const SENDING: u16 = 1 << 7;
/// The consumer's side is settled: its engine forgot it.
pub const OUT_SETTLED: u16 = 1 << 8;
/// `out_wire` is known.
pub const OUT_WIRE: u16 = 1 << 9;
/// Its outcome was counted.
pub const COUNTED: u16 = 1 << 10;
/// With CREDIT: it counts in its sender's `unsettled`, else in its `waiting`.
pub const PASSED: u16 = 1 << 11;
/// Of a copy: all of it went out.
pub const SENT: u16 = 1 << 12;
/// Of a delivery to one consumer, the same bit: that one's engine says that nothing of it was sent, and its link ends.
pub const UNSENT: u16 = SENT;
/// Its bytes count as its session's buffered ones.
pub const BUFFERED: u16 = 1 << 13;
/// It went out settled.
pub const SENT_SETTLED: u16 = 1 << 14;

/// It counts as stuck.
pub const STUCK: u16 = 1 << 15;
/// A delivery on its way through the router.
pub struct Delivery {
    /// What has arrived and wasn't handed on.
    pub payload: Payload,
    /// [`NO_ADDRESS`] for one that was turned away.
    pub address: AddressId,
    /// Of a copy: none, its message has it.
    pub in_link: LinkId,
    pub out_link: LinkId,
    pub in_wire: WireDelivery,
    pub out_wire: WireDelivery,
    /// Payload that has arrived, in all.
    pub bytes: u64,
    /// When it arrived; of a copy: when its message did.
    pub arrived: Time,
    /// Payload bytes that still count in the sender's session window; of a copy: that its consumer hasn't got.
    pub unreleased: u32,
    pub message_format: u32,
    by_sender: Pair,
    /// Of a message, which is in no such list: its slowest copy as `next` (see `top`).
    by_consumer: Pair,
    /// Of a message: its copies; of a copy: its place among them by pace (see `place`).
    pub copies: List,
    /// Of a message: how many of its copies aren't wholly sent; of a copy: its message (see `parent`).
    pub unsent: u32,
    generation: u32,
    pub flags: u16,
    pub kind: Kind,
    pub stage: Stage,
}

const _: () = assert!(std::mem::size_of::<Delivery>() <= 128, "two cache lines a delivery");

pub const NO_ADDRESS: AddressId = AddressId { index: u32::MAX, generation: u32::MAX };
pub const NO_LINK: LinkId = LinkId { index: u32::MAX, generation: u32::MAX };

impl Delivery {
    fn empty() -> Delivery {
        let wire = WireDelivery { session: SessionNumber(0), delivery_id: 0 };
        Delivery {
            payload: Payload::new(),
            address: NO_ADDRESS,
            in_link: NO_LINK,
            out_link: NO_LINK,
            in_wire: wire,
            out_wire: wire,
            bytes: 0,
            arrived: Time::ZERO,
            unreleased: 0,
            message_format: 0,
            by_sender: Pair::UNLINKED,
            by_consumer: Pair::UNLINKED,
            copies: List::EMPTY,
            unsent: 0,
            generation: 0,
            flags: 0,
            kind: Kind::Free,
            stage: Stage::Done,
        }
    }

    /// Of a copy: its message.
    #[inline]
    pub fn parent(&self) -> Slot {
        debug_assert!(self.kind == Kind::Copy);
        self.unsent
    }

    /// Makes it one of a message's copies, in no order yet.
    #[inline]
    pub fn set_parent(&mut self, message: Slot) {
        self.unsent = message;
        self.set_place(Place::NOWHERE);
    }

    /// Of a copy: where it is in the order of its message's copies.
    #[inline]
    pub fn place(&self) -> Place {
        debug_assert!(self.kind == Kind::Copy);
        Place { below: self.copies.head, previous: self.copies.tail, next: self.copies.len }
    }

    #[inline]
    pub fn set_place(&mut self, place: Place) {
        debug_assert!(self.kind == Kind::Copy);
        self.copies = List { head: place.below, tail: place.previous, len: place.next };
    }

    /// Of a message: the slowest of its copies, once they are in order.
    #[inline]
    pub fn top(&self) -> Slot {
        debug_assert!(self.kind == Kind::Message);
        self.by_consumer.next
    }

    #[inline]
    pub fn set_top(&mut self, copy: Slot) {
        debug_assert!(self.kind == Kind::Message);
        self.by_consumer.next = copy;
    }

    #[inline]
    pub fn is(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    #[inline]
    pub fn set(&mut self, flag: u16) {
        self.flags |= flag;
    }

    #[inline]
    pub fn clear(&mut self, flag: u16) {
        self.flags &= !flag;
    }

    /// Wholly sent to one consumer that has it unsettled, and its sender waits for the outcome.
    #[inline]
    pub fn is_usual(&self) -> bool {
        let usual = OPEN | COMPLETE | CREDIT | PASSED;
        self.kind == Kind::Single && self.flags & (usual | SENDING | COUNTED | OUT_SETTLED) == usual
    }

    /// Takes a flag off; whether it was on.
    #[inline]
    pub fn take(&mut self, flag: u16) -> bool {
        let was = self.is(flag);
        self.clear(flag);
        was
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Pair {
    previous: Slot,
    next: Slot,
}

impl Pair {
    const UNLINKED: Pair = Pair { previous: NONE, next: NONE };
}

/// A copy's neighbours in the order of its message's copies (see `pace`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The first of those that hold no more than it.
    pub below: Slot,
    /// The one beside it that comes before it, or the one above it.
    pub previous: Slot,
    pub next: Slot,
}

impl Place {
    pub const NOWHERE: Place = Place { below: NONE, previous: NONE, next: NONE };
}

/// Which of a record's two pairs of neighbours a list runs through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    Sender,
    Consumer,
}

/// A list of deliveries: head, tail, length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct List {
    pub head: Slot,
    pub tail: Slot,
    pub len: u32,
}

impl List {
    pub const EMPTY: List = List { head: NONE, tail: NONE, len: 0 };

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// The slab of all deliveries.
pub struct Deliveries {
    records: Vec<Delivery>,
    /// Of messages: the highest outcome of their copies so far. As long as the last one that has any needs it.
    outcomes: Vec<Option<Box<State>>>,
    /// Bytes of their encodings.
    outcome_bytes: usize,
    /// Free records, linked through `by_sender.next`; `free_len` of them.
    free: Option<Slot>,
    live: u32,
    memory: Arc<Memory>,
    /// Records that count in the account: as many as live, and some.
    counted: u32,
}

impl Drop for Deliveries {
    fn drop(&mut self) {
        self.memory.remove(records_bytes(self.counted));
    }
}

fn records_bytes(count: u32) -> usize {
    count as usize * size_of::<Delivery>()
}

impl std::ops::Index<Slot> for Deliveries {
    type Output = Delivery;
    #[inline]
    fn index(&self, slot: Slot) -> &Delivery {
        &self.records[slot as usize]
    }
}

impl std::ops::IndexMut<Slot> for Deliveries {
    #[inline]
    fn index_mut(&mut self, slot: Slot) -> &mut Delivery {
        &mut self.records[slot as usize]
    }
}

impl Deliveries {
    pub fn new(memory: Arc<Memory>) -> Deliveries {
        Deliveries {
            records: Vec::new(),
            outcomes: Vec::new(),
            outcome_bytes: 0,
            free: None,
            live: 0,
            memory,
            counted: 0,
        }
    }

    #[cold]
    fn count_more(&mut self) {
        self.counted += COUNTED_STEP;
        self.memory.add(records_bytes(COUNTED_STEP));
    }

    #[cold]
    fn count_fewer(&mut self) {
        self.counted -= COUNTED_STEP;
        self.memory.remove(records_bytes(COUNTED_STEP));
    }

    pub fn len(&self) -> usize {
        self.live as usize
    }

    /// Slots that there are records for, free ones included.
    #[inline]
    pub fn slots(&self) -> Slot {
        self.records.len() as Slot
    }

    /// Of a message: the highest outcome of its copies so far.
    pub fn outcome(&self, message: Slot) -> Option<&State> {
        self.outcomes.get(message as usize)?.as_deref()
    }

    pub fn set_outcome(&mut self, message: Slot, state: State) {
        let index = message as usize;
        if self.outcomes.len() <= index {
            self.outcomes.resize_with(index + 1, || None);
        }
        let kept = &mut self.outcomes[index];
        self.outcome_bytes -= kept.as_ref().map_or(0, |kept| kept.encoded_len());
        let fits = self.outcome_bytes + state.encoded_len() <= OUTCOME_BYTES_MAX;
        let state = if fits { state } else { state.without_fields() };
        self.outcome_bytes += state.encoded_len();
        match kept {
            Some(kept) => **kept = state,
            empty => *empty = Some(Box::new(state)),
        }
    }

    pub fn take_outcome(&mut self, message: Slot) -> Option<State> {
        let state = *self.outcomes.get_mut(message as usize)?.take()?;
        self.outcome_bytes -= state.encoded_len();
        Some(state)
    }

    /// Bytes that messages' outcomes keep, as they count.
    pub fn outcome_bytes(&self) -> usize {
        self.outcome_bytes
    }

    /// A fresh record, all fields empty.
    #[inline]
    pub fn insert(&mut self, kind: Kind, stage: Stage, arrived: Time) -> Slot {
        self.live += 1;
        if self.live > self.counted {
            self.count_more();
        }
        let slot = match self.free {
            Some(slot) => {
                let next = self.records[slot as usize].by_sender.next;
                self.free = (next != NONE).then_some(next);
                slot
            }
            None => {
                self.records.push(Delivery::empty());
                (self.records.len() - 1) as Slot
            }
        };
        let record = &mut self.records[slot as usize];
        record.by_sender = Pair::UNLINKED;
        record.arrived = arrived;
        record.kind = kind;
        record.stage = stage;
        slot
    }

    /// Records of deliveries that are with their consumer, unsettled, at the ends of their sender's and their consumer's lists.
    /// Each item is given its record's id.
    #[inline]
    pub fn insert_run(&mut self, way: &Way, items: &mut [Arrived], lists: (&mut List, &mut List), arrived: Time) {
        let (by_sender, by_consumer) = lists;
        for item in items {
            let slot = self.insert(Kind::Single, Stage::Assigned, arrived);
            let record = &mut self[slot];
            (record.in_link, record.out_link, record.address) = (way.in_link, way.out_link, way.address);
            record.in_wire = WireDelivery { session: way.session, delivery_id: item.delivery_id };
            record.message_format = way.message_format;
            record.bytes = item.bytes.into();
            record.flags = OPEN | COMPLETE | CREDIT | PASSED | DEPTH;
            item.delivery = DeliveryId { index: slot, generation: record.generation };
            self.push_back(By::Sender, by_sender, slot);
            self.push_back(By::Consumer, by_consumer, slot);
        }
    }

    /// Frees a record that is in no list.
    #[inline]
    pub fn remove(&mut self, slot: Slot) {
        let next = self.free.unwrap_or(NONE);
        let record = &mut self.records[slot as usize];
        debug_assert!(record.kind == Kind::Copy || record.kind != Kind::Free && record.copies.is_empty());
        let generation = record.generation.wrapping_add(1);
        if !record.payload.ranges().is_empty() {
            record.payload = Payload::new();
        }
        record.address = NO_ADDRESS;
        record.in_link = NO_LINK;
        record.out_link = NO_LINK;
        record.bytes = 0;
        record.unreleased = 0;
        record.copies = List::EMPTY;
        record.unsent = 0;
        record.flags = 0;
        record.kind = Kind::Free;
        record.stage = Stage::Done;
        record.generation = generation;
        record.by_sender = Pair { previous: NONE, next };
        record.by_consumer = Pair::UNLINKED;
        self.free = Some(slot);
        self.live -= 1;
        if self.counted - self.live >= 2 * COUNTED_STEP {
            self.count_fewer();
        }
    }

    #[inline]
    pub fn id(&self, slot: Slot) -> DeliveryId {
        DeliveryId { index: slot, generation: self.records[slot as usize].generation }
    }

    /// The id of the record that another shard knows as `other`; None: it is gone.
    pub fn known_elsewhere(&self, other: DeliveryId) -> Option<DeliveryId> {
        let slot = other.index & !ELSEWHERE;
        let record = self.records.get(slot as usize).filter(|record| record.kind != Kind::Free)?;
        let id = DeliveryId { index: slot, generation: record.generation };
        id.is_known_elsewhere_as(other).then_some(id)
    }

    /// The record of an id; None: it is gone.
    #[inline]
    pub fn slot(&self, id: DeliveryId) -> Option<Slot> {
        match self.records.get(id.index as usize) {
            Some(record) if record.generation == id.generation && record.kind != Kind::Free => Some(id.index),
            _ => None,
        }
    }

    #[inline]
    fn pair(&mut self, by: By, slot: Slot) -> &mut Pair {
        let record = &mut self.records[slot as usize];
        match by {
            By::Sender => &mut record.by_sender,
            By::Consumer => &mut record.by_consumer,
        }
    }

    /// The record behind this one in its list, NONE at the end.
    #[inline]
    pub fn next(&self, by: By, slot: Slot) -> Slot {
        let record = &self.records[slot as usize];
        match by {
            By::Sender => record.by_sender.next,
            By::Consumer => record.by_consumer.next,
        }
    }

    #[inline]
    pub fn push_back(&mut self, by: By, list: &mut List, slot: Slot) {
        let tail = list.tail;
        *self.pair(by, slot) = Pair { previous: tail, next: NONE };
        if tail == NONE {
            list.head = slot;
        } else {
            self.pair(by, tail).next = slot;
        }
        list.tail = slot;
        list.len += 1;
    }

    #[inline]
    pub fn unlink(&mut self, by: By, list: &mut List, slot: Slot) {
        let Pair { previous, next } = std::mem::replace(self.pair(by, slot), Pair::UNLINKED);
        if previous == NONE {
            list.head = next;
        } else {
            self.pair(by, previous).next = next;
        }
        if next == NONE {
            list.tail = previous;
        } else {
            self.pair(by, next).previous = previous;
        }
        list.len -= 1;
    }

    /// The slots of a list, in order.
    pub fn list(&self, by: By, list: &List) -> impl Iterator<Item = Slot> + '_ {
        let mut at = list.head;
        std::iter::from_fn(move || {
            let slot = at;
            if slot == NONE {
                return None;
            }
            at = self.next(by, slot);
            Some(slot)
        })
    }

    /// All live records.
    pub fn iter(&self) -> impl Iterator<Item = (Slot, &Delivery)> {
        self.records.iter().enumerate().filter(|(_, record)| record.kind != Kind::Free).map(|(i, r)| (i as Slot, r))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_leaves_any_place_of_its_list() {
        let mut all = Deliveries::new(Arc::default());
        let slots: Vec<Slot> = (0..4).map(|_| all.insert(Kind::Single, Stage::Waiting, Time::ZERO)).collect();
        let mut list = List::EMPTY;
        for slot in &slots {
            all.push_back(By::Consumer, &mut list, *slot);
        }
        let order = |all: &Deliveries, list: &List| all.list(By::Consumer, list).collect::<Vec<_>>();
        all.unlink(By::Consumer, &mut list, slots[1]);
        assert_eq!(order(&all, &list), vec![slots[0], slots[2], slots[3]]);
        all.unlink(By::Consumer, &mut list, slots[0]);
        all.unlink(By::Consumer, &mut list, slots[3]);
        assert_eq!((order(&all, &list), list.len), (vec![slots[2]], 1));
        all.unlink(By::Consumer, &mut list, slots[2]);
        assert_eq!(list, List::EMPTY);
    }

    #[test]
    fn a_stale_id_reaches_nothing() {
        let mut all = Deliveries::new(Arc::default());
        let slot = all.insert(Kind::Single, Stage::Waiting, Time::ZERO);
        let id = all.id(slot);
        all.remove(slot);
        assert_eq!((all.slot(id), all.len()), (None, 0));
        let again = all.insert(Kind::Single, Stage::Waiting, Time::ZERO);
        assert_eq!(again, slot);
        assert_ne!(all.id(again), id);
    }
}

//! An arena: a slab whose ids carry a generation.
//!
//! Invariant: an id reaches the value that it was made for or nothing; never another value that took the
//! same slot later.

use slab::Slab;
use std::marker::PhantomData;

/// What an id of an arena is made of.
pub trait SlabId: Copy {
    fn new(index: u32, generation: u32) -> Self;
    fn index(self) -> u32;
    fn generation(self) -> u32;
}

struct Slot<T> {
    generation: u32,
    value: T,
}

/// Values of one kind, each reached by its id.
pub struct Arena<I, T> {
    slots: Slab<Slot<T>>,
    next_generation: u32,
    id: PhantomData<I>,
}

impl<I: SlabId, T> Default for Arena<I, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<I: SlabId, T> Arena<I, T> {
    pub fn new() -> Self {
        Self { slots: Slab::new(), next_generation: 0, id: PhantomData }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Puts a value in and gives its id.
    #[inline]
    pub fn insert(&mut self, value: T) -> I {
        let generation = self.next_generation;
        self.next_generation = self.next_generation.wrapping_add(1);
        let index = self.slots.insert(Slot { generation, value });
        I::new(index as u32, generation)
    }

    #[inline]
    pub fn get(&self, id: I) -> Option<&T> {
        match self.slots.get(id.index() as usize) {
            Some(slot) if slot.generation == id.generation() => Some(&slot.value),
            _ => None,
        }
    }

    #[inline]
    pub fn get_mut(&mut self, id: I) -> Option<&mut T> {
        match self.slots.get_mut(id.index() as usize) {
            Some(slot) if slot.generation == id.generation() => Some(&mut slot.value),
            _ => None,
        }
    }

    #[inline]
    pub fn contains(&self, id: I) -> bool {
        self.get(id).is_some()
    }

    /// Takes a value out; a stale id takes nothing.
    #[inline]
    pub fn remove(&mut self, id: I) -> Option<T> {
        if !self.contains(id) {
            return None;
        }
        Some(self.slots.remove(id.index() as usize).value)
    }

    pub fn iter(&self) -> impl Iterator<Item = (I, &T)> {
        self.slots.iter().map(|(index, slot)| (I::new(index as u32, slot.generation), &slot.value))
    }

    /// The values in `slots` slots from the slot `from` on, and where the next ones begin. None: there are no more. So
    /// that all can be looked at bit by bit, while they come and go: none is seen twice, and none is missed that stays.
    pub fn page(&self, from: u32, slots: u32) -> (impl Iterator<Item = (I, &T)>, Option<u32>) {
        let end = from.saturating_add(slots);
        let at = move |index: u32| self.slots.get(index as usize).map(|slot| (index, slot));
        let values = (from..end).filter_map(at).map(|(index, slot)| (I::new(index, slot.generation), &slot.value));
        (values, ((end as usize) < self.slots.capacity()).then_some(end))
    }

    /// Slots that there are, empty ones included.
    pub fn slots_len(&self) -> u32 {
        self.slots.capacity() as u32
    }

    /// What is in a slot.
    pub fn at_slot_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.slots.get_mut(slot as usize).map(|slot| &mut slot.value)
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (I, &mut T)> {
        self.slots.iter_mut().map(|(index, slot)| (I::new(index as u32, slot.generation), &mut slot.value))
    }

    /// The same ids, with values made of these.
    pub fn map<U>(self, mut change: impl FnMut(T) -> U) -> Arena<I, U> {
        let slots = self.slots.into_iter().map(|(index, slot)| {
            let Slot { generation, value } = slot;
            (index, Slot { generation, value: change(value) })
        });
        Arena { slots: slots.collect(), next_generation: self.next_generation, id: PhantomData }
    }

    /// Gives memory back to the allocator where many slots stand empty.
    pub fn shrink(&mut self) {
        self.slots.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::DeliveryId;

    #[test]
    fn a_stale_id_reaches_nothing() {
        let mut arena: Arena<DeliveryId, &str> = Arena::new();
        let first = arena.insert("first");
        assert_eq!(arena.remove(first), Some("first"));
        let second = arena.insert("second");
        assert_eq!(second.index, first.index);
        assert_eq!(arena.get(first), None);
        assert_eq!(arena.remove(first), None);
        assert_eq!(arena.get(second), Some(&"second"));
    }

    #[test]
    fn pages_show_each_value_once() {
        let mut arena: Arena<DeliveryId, u32> = Arena::new();
        let ids: Vec<DeliveryId> = (0..10).map(|value| arena.insert(value)).collect();
        arena.remove(ids[3]);
        let (mut seen, mut next) = (Vec::new(), Some(0));
        while let Some(from) = next {
            let (values, behind) = arena.page(from, 4);
            seen.extend(values.map(|(_, value)| *value));
            assert!(behind.is_none_or(|behind| behind == from + 4));
            next = behind;
        }
        assert_eq!(seen, [0, 1, 2, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn ids_outlive_a_change_of_all_values() {
        let mut arena: Arena<DeliveryId, u32> = Arena::new();
        let ids: Vec<DeliveryId> = (0..4).map(|value| arena.insert(value)).collect();
        arena.remove(ids[1]);
        let mut texts = arena.map(|value| value.to_string());
        assert_eq!(texts.get(ids[3]).map(String::as_str), Some("3"));
        assert_eq!(texts.get(ids[1]), None);
        let next = texts.insert("4".to_owned());
        assert!(!ids.contains(&next));
    }
}

//! Doubly linked lists over slots: a slot is in at most one list of a linkage, and is put in, moved and taken
//! out in O(1) without an allocation.

/// No slot.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Node {
    previous: u32,
    next: u32,
    /// Which list of this linkage the slot is in; `NONE` for no list.
    list: u32,
}

const FREE: Node = Node { previous: NONE, next: NONE, list: NONE };

#[derive(Clone, Copy)]
struct Ends {
    first: u32,
    last: u32,
    length: u32,
}

const EMPTY: Ends = Ends { first: NONE, last: NONE, length: 0 };

/// Lists that share their slots.
pub(in crate::routing) struct Lists {
    nodes: Vec<Node>,
    ends: Vec<Ends>,
}

impl Lists {
    pub(in crate::routing) fn new(lists: usize) -> Self {
        Self { nodes: Vec::new(), ends: vec![EMPTY; lists] }
    }

    /// Has at least so many lists.
    #[inline]
    pub(in crate::routing) fn reserve_lists(&mut self, lists: usize) {
        if self.ends.len() < lists {
            self.ends.resize(lists.next_power_of_two(), EMPTY);
        }
    }

    /// Makes room for a slot; to be called once for a new one, which is then in no list.
    pub(in crate::routing) fn reserve(&mut self, slot: u32) {
        if self.nodes.len() <= slot as usize {
            self.nodes.resize(slot as usize + 1, FREE);
        }
    }

    #[inline]
    pub(in crate::routing) fn length(&self, list: usize) -> u32 {
        self.ends[list].length
    }

    #[inline]
    pub(in crate::routing) fn first(&self, list: usize) -> Option<u32> {
        let first = self.ends[list].first;
        (first != NONE).then_some(first)
    }

    /// The one behind `slot` in its list.
    #[inline]
    pub(in crate::routing) fn next(&self, slot: u32) -> Option<u32> {
        let next = self.nodes[slot as usize].next;
        (next != NONE).then_some(next)
    }

    #[inline]
    pub(in crate::routing) fn list_of(&self, slot: u32) -> Option<usize> {
        let list = self.nodes[slot as usize].list;
        (list != NONE).then_some(list as usize)
    }

    #[inline]
    pub(in crate::routing) fn remove(&mut self, slot: u32) {
        let node = self.nodes[slot as usize];
        if node.list == NONE {
            return;
        }
        let ends = &mut self.ends[node.list as usize];
        ends.length -= 1;
        if node.previous == NONE {
            ends.first = node.next;
        } else {
            self.nodes[node.previous as usize].next = node.next;
        }
        if node.next == NONE {
            self.ends[node.list as usize].last = node.previous;
        } else {
            self.nodes[node.next as usize].previous = node.previous;
        }
        self.nodes[slot as usize] = FREE;
    }

    /// Puts a slot at the end of a list, out of the one that it was in.
    #[inline]
    pub(in crate::routing) fn push(&mut self, list: usize, slot: u32) {
        self.remove(slot);
        let last = self.ends[list].last;
        self.nodes[slot as usize] = Node { previous: last, next: NONE, list: list as u32 };
        if last == NONE {
            self.ends[list].first = slot;
        } else {
            self.nodes[last as usize].next = slot;
        }
        let ends = &mut self.ends[list];
        ends.last = slot;
        ends.length += 1;
    }

    /// Has the slot be in this list, or in none: one that is there already keeps its place.
    #[inline]
    pub(in crate::routing) fn place(&mut self, list: Option<usize>, slot: u32) {
        if self.list_of(slot) != list {
            match list {
                Some(list) => self.push(list, slot),
                None => self.remove(slot),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(lists: &Lists, list: usize) -> Vec<u32> {
        let mut all = Vec::new();
        let mut at = lists.first(list);
        while let Some(slot) = at {
            all.push(slot);
            at = lists.next(slot);
        }
        assert_eq!(all.len(), lists.length(list) as usize);
        all
    }

    #[test]
    fn moves_between_lists_keep_order() {
        let mut lists: Lists = Lists::new(2);
        for slot in 0..4 {
            lists.reserve(slot);
            lists.push(0, slot);
        }
        lists.push(1, 1);
        lists.place(Some(0), 0);
        assert_eq!(slots(&lists, 0), [0, 2, 3]);
        lists.push(0, 0);
        assert_eq!(slots(&lists, 0), [2, 3, 0]);
        lists.remove(3);
        lists.remove(3);
        assert_eq!(slots(&lists, 0), [2, 0]);
        assert_eq!(slots(&lists, 1), [1]);
        assert_eq!(lists.list_of(3), None);
    }
}

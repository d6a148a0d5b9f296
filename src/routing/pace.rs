//! Which of a multicast message's copies is the slowest: the message holds as much of its sender's window as that one does.
//!
//! Owns: the order of a message's copies by what they hold unreleased. It is a tree in which no copy holds more than the one
//! above it, so that the slowest is on top. Those right below the same copy are linked. A copy's record has room for this
//! where a message's has its list of copies.
//! Doesn't: know when payload is released (`multicast` does).
//!
//! More of a message makes all its copies hold more by as much, which leaves the order as it is. When one holds less, those
//! right below it are joined, in pairs and then all, and go below the top one. One event may so take as many steps as there
//! are copies, but that makes the next ones short: on the whole an event takes as many as the number of copies
//! has binary digits, most often one or two.
//!
//! Invariant: a message has no tree yet (most go out whole, and nobody asks), or all its copies are in it.

use crate::routing::delivery::{By, Deliveries, Place, Slot, NONE};

impl Deliveries {
    /// How much the slowest of a message's copies holds.
    pub fn most_unreleased(&mut self, message: Slot) -> u32 {
        let mut top = self[message].top();
        if top == NONE {
            top = self.put_in_order(message);
        }
        if top == NONE {
            return 0;
        }
        self[top].unreleased
    }

    #[cold]
    fn put_in_order(&mut self, message: Slot) -> Slot {
        let (mut top, mut copy) = (NONE, self[message].copies.head);
        while copy != NONE {
            top = self.join(top, copy);
            copy = self.next(By::Sender, copy);
        }
        self[message].set_top(top);
        top
    }

    /// A copy holds less than before.
    #[inline]
    pub fn copy_holds_less(&mut self, copy: Slot) {
        if self[copy].place().below != NONE {
            self.put_below_top(copy);
        }
    }

    /// What is below a copy goes below the top one instead, or becomes it.
    fn put_below_top(&mut self, copy: Slot) {
        let place = self[copy].place();
        self[copy].set_place(Place { below: NONE, ..place });
        let others = self.join_all(place.below);
        let message = self[copy].parent();
        let top = self.join(self[message].top(), others);
        self[message].set_top(top);
    }

    /// A copy is about to be no longer one of its message's.
    pub fn leave_order(&mut self, copy: Slot) {
        let message = self[copy].parent();
        if self[message].top() == NONE {
            return;
        }
        if self[message].top() == copy {
            let top = self.join_all(self[copy].place().below);
            self[message].set_top(top);
        } else {
            self.copy_holds_less(copy);
            // Its neighbours now: what was below it may have been put before it.
            let Place { previous, next, .. } = self[copy].place();
            let mut before = self[previous].place();
            // The first below another one has that one before it.
            let slot = if before.below == copy { &mut before.below } else { &mut before.next };
            *slot = next;
            self[previous].set_place(before);
            if next != NONE {
                let behind = self[next].place();
                self[next].set_place(Place { previous, ..behind });
            }
        }
        self[copy].set_place(Place::NOWHERE);
    }

    /// Makes one tree of two that nothing is above or beside: the top one that holds less is put below the other.
    fn join(&mut self, one: Slot, other: Slot) -> Slot {
        if one == NONE {
            return other;
        }
        if other == NONE {
            return one;
        }
        let is_first = self[one].unreleased >= self[other].unreleased;
        let (top, under) = if is_first { (one, other) } else { (other, one) };
        let (place, lower) = (self[top].place(), self[under].place());
        self[under].set_place(Place { previous: top, next: place.below, ..lower });
        if place.below != NONE {
            let beside = self[place.below].place();
            self[place.below].set_place(Place { previous: under, ..beside });
        }
        self[top].set_place(Place { below: under, ..place });
        top
    }

    /// Makes one tree of those that were below a copy, from the first one on.
    fn join_all(&mut self, first: Slot) -> Slot {
        // The pairs, the last one first.
        let (mut pairs, mut at) = (NONE, first);
        while at != NONE {
            let one = at;
            let other = self.take_off(one);
            at = if other == NONE { NONE } else { self.take_off(other) };
            let pair = self.join(one, other);
            let place = self[pair].place();
            self[pair].set_place(Place { next: pairs, ..place });
            pairs = pair;
        }
        let mut all = NONE;
        while pairs != NONE {
            let next = self.take_off(pairs);
            all = self.join(all, pairs);
            pairs = next;
        }
        all
    }

    /// A copy is beside none any more, and below none. Gives the one that was behind it.
    fn take_off(&mut self, copy: Slot) -> Slot {
        let Place { below, next, .. } = self[copy].place();
        self[copy].set_place(Place { below, ..Place::NOWHERE });
        next
    }

    /// Says whether a message's copies are all in its tree, each below one that holds as much or more; or whether there is no
    /// tree.
    pub fn is_in_order(&self, message: Slot) -> bool {
        let (mut count, mut tops) = (0, vec![self[message].top()]);
        while let Some(top) = tops.pop().filter(|top| *top != NONE) {
            count += 1;
            let (mut previous, mut at) = (top, self[top].place().below);
            while at != NONE {
                let place = self[at].place();
                if place.previous != previous || self[at].unreleased > self[top].unreleased {
                    return false;
                }
                tops.push(at);
                (previous, at) = (at, place.next);
            }
        }
        count == 0 || count == self[message].copies.len
    }
}

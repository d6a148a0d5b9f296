//! Threshold edges: one event when an address backs up, one when it has recovered.
//!
//! Owns: an address's depth in messages and bytes, the marks on it, and what is waiting for room in the queue of
//! events. Doesn't: know the queue, who listens, or time. Driven by: the address's owner, at each delivery that
//! comes and each that is done with.
//!
//! Depth = waiting + unsettled; a multicast message once a copy, a stream's bytes as they arrive and until it is
//! settled. Messages and bytes are apart. The increasing edge is raised when the depth reaches the upper mark from
//! below, the decreasing one when it then reaches the lower mark from above; edges of a unit alternate, so the gap
//! between the marks bounds their rate.
//!
//! ```text
//! marks: up 10, down 5
//! depth   8   2  10   9  10  20  15   3  14   5   6   5   0
//! edge           up                down  up down
//! ```

use crate::routing::settings::Marks;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// What a depth is counted in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Unit {
    Messages,
    Bytes,
}

/// A depth reached a mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Edge {
    pub unit: Unit,
    /// It reached the upper mark; else the lower one.
    pub increasing: bool,
    /// The mark.
    pub threshold: u64,
    pub depth_messages: u64,
    pub depth_bytes: u64,
    /// Edges of this unit before this one for which the queue had no room.
    pub missed: u64,
}

/// Of one unit: marks, on which side the depth is, and what is to be watched for there.
#[derive(Clone, Copy, Debug)]
struct Watch {
    marks: Option<Marks>,
    above: bool,
    /// A depth of this or more is an edge; `u64::MAX`: none is.
    rise_at: u64,
    /// A depth below this is an edge; 0: none is.
    fall_below: u64,
    rises: u64,
    falls: u64,
}

impl Watch {
    const OFF: Watch = Watch { marks: None, above: false, rise_at: u64::MAX, fall_below: 0, rises: 0, falls: 0 };

    #[inline]
    fn is_crossed(&self, depth: u64) -> bool {
        depth >= self.rise_at || depth < self.fall_below
    }

    /// Watches for what can follow.
    fn arm(&mut self) {
        (self.rise_at, self.fall_below) = match self.marks {
            None => (u64::MAX, 0),
            Some(marks) if self.above => (u64::MAX, marks.down.saturating_add(1)),
            Some(marks) => (marks.up, 0),
        };
    }

    /// Goes to the other side; gives the direction and the mark.
    fn cross(&mut self) -> (bool, u64) {
        let marks = self.marks.unwrap_or(Marks { up: 0, down: 0 });
        self.above = !self.above;
        self.arm();
        if self.above {
            self.rises += 1;
            (true, marks.up)
        } else {
            self.falls += 1;
            (false, marks.down)
        }
    }
}

/// Watches of both units.
#[derive(Debug)]
struct Watches {
    messages: Watch,
    bytes: Watch,
}

impl Watches {
    fn unit(&self, unit: Unit) -> &Watch {
        match unit {
            Unit::Messages => &self.messages,
            Unit::Bytes => &self.bytes,
        }
    }

    fn unit_mut(&mut self, unit: Unit) -> &mut Watch {
        match unit {
            Unit::Messages => &mut self.messages,
            Unit::Bytes => &mut self.bytes,
        }
    }
}

/// The depth of one address. Where no mark is set, a message costs two additions, two subtractions and two looks.
///
/// ```
/// use ringway::routing::threshold::Depth;
/// use ringway::routing::Marks;
/// let mut depth = Depth::default();
/// let mut edges = Vec::new();
/// depth.set_marks(Some(Marks { up: 2, down: 0 }), None, |edge| edges.push(edge));
/// depth.added(1, 100, |edge| edges.push(edge));
/// depth.added(1, 100, |edge| edges.push(edge));
/// depth.removed(1, 100, |edge| edges.push(edge));
/// depth.removed(1, 100, |edge| edges.push(edge));
/// assert_eq!(edges.iter().map(|edge| (edge.increasing, edge.depth_messages)).collect::<Vec<_>>(), [
///     (true, 2),
///     (false, 0)
/// ]);
/// ```
#[derive(Debug, Default)]
pub struct Depth {
    messages: u64,
    bytes: u64,
    watches: Option<Box<Watches>>,
}

impl Depth {
    /// Deliveries came in, or bytes of one that is coming in (then 0 messages).
    #[inline]
    pub fn added(&mut self, messages: u32, bytes: u64, raise: impl FnMut(Edge)) {
        self.messages = self.messages.wrapping_add(u64::from(messages));
        self.bytes = self.bytes.wrapping_add(bytes);
        if let Some(watches) = &self.watches {
            if self.messages >= watches.messages.rise_at || self.bytes >= watches.bytes.rise_at {
                self.cross(raise);
            }
        }
    }

    /// Deliveries are done with.
    #[inline]
    pub fn removed(&mut self, messages: u32, bytes: u64, raise: impl FnMut(Edge)) {
        debug_assert!(self.messages >= u64::from(messages) && self.bytes >= bytes, "more went than came");
        self.messages = self.messages.wrapping_sub(u64::from(messages));
        self.bytes = self.bytes.wrapping_sub(bytes);
        if let Some(watches) = &self.watches {
            if self.messages < watches.messages.fall_below || self.bytes < watches.bytes.fall_below {
                self.cross(raise);
            }
        }
    }

    /// As `added`, one message after another, of so many bytes each.
    #[inline]
    pub fn added_run(&mut self, bytes: impl ExactSizeIterator<Item = u64>, mut raise: impl FnMut(Edge)) {
        if self.watches.is_some() {
            return bytes.for_each(|bytes| self.added(1, bytes, &mut raise));
        }
        self.messages = self.messages.wrapping_add(bytes.len() as u64);
        self.bytes = bytes.fold(self.bytes, u64::wrapping_add);
    }

    /// As `removed`, one message after another, of so many bytes each.
    #[inline]
    pub fn removed_run(&mut self, bytes: impl ExactSizeIterator<Item = u64>, mut raise: impl FnMut(Edge)) {
        if self.watches.is_some() {
            return bytes.for_each(|bytes| self.removed(1, bytes, &mut raise));
        }
        self.messages = self.messages.wrapping_sub(bytes.len() as u64);
        self.bytes = bytes.fold(self.bytes, u64::wrapping_sub);
    }

    /// Messages, of so many bytes each, come and are done with, one after the other.
    #[inline]
    pub fn passed_run(&mut self, bytes: impl Iterator<Item = u64>, mut raise: impl FnMut(Edge)) {
        if self.watches.is_some() {
            for bytes in bytes {
                self.added(1, bytes, &mut raise);
                self.removed(1, bytes, &mut raise);
            }
        }
    }

    #[cold]
    fn cross(&mut self, mut raise: impl FnMut(Edge)) {
        for unit in [Unit::Messages, Unit::Bytes] {
            let depth = self.of(unit);
            let Some(watches) = &mut self.watches else { return };
            let watch = watches.unit_mut(unit);
            if watch.is_crossed(depth) {
                let (increasing, threshold) = watch.cross();
                raise(self.edge(unit, increasing, threshold));
            }
        }
    }

    /// Sets, changes or removes marks, and compares at once: the lower mark is below the upper one, that is at
    /// least 1. A unit that is above and loses its marks has its decreasing edge.
    pub fn set_marks(&mut self, messages: Option<Marks>, bytes: Option<Marks>, mut raise: impl FnMut(Edge)) {
        if self.watches.is_none() && messages.is_none() && bytes.is_none() {
            return;
        }
        for (unit, marks) in [(Unit::Messages, messages), (Unit::Bytes, bytes)] {
            let marks = marks.map(|marks| {
                debug_assert!(marks.up >= 1 && marks.down < marks.up);
                let up = marks.up.max(1);
                Marks { up, down: marks.down.min(up - 1) }
            });
            if marks.is_none() {
                self.release(unit, &mut raise);
            }
            let off = || Box::new(Watches { messages: Watch::OFF, bytes: Watch::OFF });
            let watch = self.watches.get_or_insert_with(off).unit_mut(unit);
            watch.marks = marks;
            watch.arm();
        }
        self.cross(raise);
    }

    /// The address goes away: what is above has its decreasing edge.
    pub fn gone(&mut self, mut raise: impl FnMut(Edge)) {
        for unit in [Unit::Messages, Unit::Bytes] {
            self.release(unit, &mut raise);
        }
        self.watches = None;
    }

    fn release(&mut self, unit: Unit, raise: &mut impl FnMut(Edge)) {
        let Some(watches) = &mut self.watches else { return };
        let watch = watches.unit_mut(unit);
        if watch.above {
            let (increasing, threshold) = watch.cross();
            raise(self.edge(unit, increasing, threshold));
        }
    }

    fn edge(&self, unit: Unit, increasing: bool, threshold: u64) -> Edge {
        Edge { unit, increasing, threshold, depth_messages: self.messages, depth_bytes: self.bytes, missed: 0 }
    }

    fn of(&self, unit: Unit) -> u64 {
        match unit {
            Unit::Messages => self.messages,
            Unit::Bytes => self.bytes,
        }
    }

    /// `depthMessages`.
    #[inline]
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// `depthBytes`.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// `aboveCountThreshold`, `aboveSizeThreshold`.
    pub fn is_above(&self, unit: Unit) -> bool {
        self.watches.as_ref().is_some_and(|watches| watches.unit(unit).above)
    }

    /// Increasing and decreasing edges that were raised.
    pub fn edges_counted(&self, unit: Unit) -> (u64, u64) {
        self.watches.as_ref().map_or((0, 0), |watches| (watches.unit(unit).rises, watches.unit(unit).falls))
    }

    /// The increasing edge as of now, where it is above: for a subscriber who comes late.
    pub fn replay(&self, unit: Unit) -> Option<Edge> {
        let watch = self.watches.as_ref()?.unit(unit);
        let marks = watch.marks?;
        watch.above.then(|| self.edge(unit, true, marks.up))
    }
}

/// Addresses and units of which an [`EdgeOutbox`] keeps edges that undo each other.
const HELD_MAX: usize = 4096;

/// Edges of one unit of one address for which there was no room: how many, and the last of each direction.
struct Held {
    count: u64,
    /// What these themselves say that was missed.
    missed: u64,
    last: Edge,
    before_last: Edge,
}

/// What the queue of events can't take.
///
/// Edges alternate. So of a run that didn't fit, its last one says all if their count is odd; if it is even, the
/// last two do, and what is passed on alternates still. The rest is a count, in the first one's `missed`. Memory
/// is one entry for an address and unit, however long the queue is full, and addresses that come and go meanwhile are
/// some thousands at most, beside those whose state is another than what was passed on.
///
/// ```
/// use ringway::routing::threshold::{Depth, EdgeOutbox};
/// use ringway::routing::Marks;
/// let (mut depth, mut outbox) = (Depth::default(), EdgeOutbox::default());
/// depth.set_marks(Some(Marks { up: 1, down: 0 }), None, |edge| outbox.raise("orders", edge));
/// for _ in 0..1000 {
///     depth.added(1, 0, |edge| outbox.raise("orders", edge));
///     depth.removed(1, 0, |edge| outbox.raise("orders", edge));
/// }
/// let mut sent = Vec::new();
/// outbox.flush(|_, edge| { sent.push((edge.increasing, edge.missed)); true });
/// assert_eq!(sent, [(true, 1998), (false, 0)]);
/// ```
pub struct EdgeOutbox<K> {
    held: HashMap<(K, Unit), Held>,
    /// Each key of `held` once, in the order in which they began to wait.
    order: VecDeque<(K, Unit)>,
    /// With more of them, those that are where they were are forgotten.
    len_max: usize,
    /// Edges that were, for the next one's `missed`.
    forgotten: u64,
}

impl<K> Default for EdgeOutbox<K> {
    fn default() -> Self {
        Self { held: HashMap::new(), order: VecDeque::new(), len_max: HELD_MAX, forgotten: 0 }
    }
}

impl<K: Eq + Hash + Clone> EdgeOutbox<K> {
    /// Takes an edge of an address; it goes out with the next [`Self::flush`].
    pub fn raise(&mut self, address: K, edge: Edge) {
        let key = (address, edge.unit);
        match self.held.get_mut(&key) {
            Some(held) => {
                debug_assert_ne!(held.last.increasing, edge.increasing, "edges alternate");
                held.count += 1;
                held.missed += edge.missed;
                held.before_last = held.last;
                held.last = edge;
            }
            None => {
                let missed = edge.missed + std::mem::take(&mut self.forgotten);
                self.held.insert(key.clone(), Held { count: 1, missed, last: edge, before_last: edge });
                self.order.push_back(key);
                if self.held.len() > self.len_max {
                    self.forget();
                }
            }
        }
    }

    /// Forgets those of whose edges the last one undid the first: they are only counted.
    #[cold]
    fn forget(&mut self) {
        let forgotten = &mut self.forgotten;
        self.held.retain(|_, held| {
            let stays = held.count % 2 == 1;
            *forgotten += if stays { 0 } else { held.count + held.missed };
            stays
        });
        self.order.retain(|key| self.held.contains_key(key));
        self.len_max = (2 * self.held.len()).max(HELD_MAX);
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Passes on what there is room for: `push` says whether it took the edge.
    pub fn flush(&mut self, mut push: impl FnMut(&K, &Edge) -> bool) {
        while let Some(key) = self.order.front() {
            let Some(held) = self.held.get_mut(key) else {
                self.order.pop_front();
                continue;
            };
            if held.count % 2 == 0 {
                let edge = Edge { missed: held.missed + held.count - 2, ..held.before_last };
                if !push(&key.0, &edge) {
                    return;
                }
                (held.count, held.missed) = (1, 0);
            }
            let edge = Edge { missed: held.missed + held.count - 1, ..held.last };
            if !push(&key.0, &edge) {
                return;
            }
            self.held.remove(key);
            self.order.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKS: Marks = Marks { up: 10, down: 5 };
    const SIZE: u64 = 100;

    /// Takes a depth to where it should be, one message at a time.
    fn go_to(depth: &mut Depth, messages: u64, edges: &mut Vec<Edge>) {
        while depth.messages() < messages {
            depth.added(1, SIZE, |edge| edges.push(edge));
        }
        while depth.messages() > messages {
            depth.removed(1, SIZE, |edge| edges.push(edge));
        }
    }

    fn vector(count: Option<Marks>, size: Option<Marks>) -> Vec<(Unit, bool, u64, u64)> {
        let (mut depth, mut edges) = (Depth::default(), Vec::new());
        depth.set_marks(count, size, |edge| edges.push(edge));
        for messages in [8, 2, 10, 9, 10, 20, 15, 3, 14, 5, 6, 5, 0] {
            go_to(&mut depth, messages, &mut edges);
        }
        edges.iter().map(|edge| (edge.unit, edge.increasing, edge.threshold, edge.depth_messages)).collect()
    }

    #[test]
    fn the_known_vector_by_messages_bytes_and_both() {
        let by = |unit, scale| {
            [(true, 10), (false, 5), (true, 10), (false, 5)]
                .map(|(increasing, mark)| (unit, increasing, mark * scale, mark))
        };
        let bytes = Marks { up: 10 * SIZE, down: 5 * SIZE };
        assert_eq!(vector(Some(MARKS), None), by(Unit::Messages, 1));
        assert_eq!(vector(None, Some(bytes)), by(Unit::Bytes, SIZE));
        let both = vector(Some(MARKS), Some(bytes));
        for (unit, scale) in [(Unit::Messages, 1), (Unit::Bytes, SIZE)] {
            let of_unit: Vec<_> = both.iter().copied().filter(|edge| edge.0 == unit).collect();
            assert_eq!(of_unit, by(unit, scale));
        }
        assert_eq!(vector(None, None), []);
    }

    #[test]
    fn addresses_that_come_and_go_while_the_queue_is_full_are_bounded() {
        let mut outbox = EdgeOutbox::default();
        let edge = |increasing| Edge {
            unit: Unit::Messages,
            increasing,
            threshold: 1,
            depth_messages: 1,
            depth_bytes: 1,
            missed: 0,
        };
        for number in 0..50_000 {
            outbox.raise(number, edge(true));
            if number % 10 > 0 {
                outbox.raise(number, edge(false));
            }
            assert!(outbox.held.len() <= HELD_MAX + 2 * number / 10 && outbox.order.len() == outbox.held.len());
        }
        let mut sent = Vec::new();
        let mut edges = 0;
        outbox.flush(|number, edge| {
            sent.push((*number, edge.increasing));
            edges += 1 + edge.missed;
            true
        });
        assert_eq!(edges + outbox.forgotten, 5_000 + 2 * 45_000);
        let above: Vec<usize> = sent.iter().filter(|(number, _)| number % 10 == 0).map(|(number, _)| *number).collect();
        assert!(above == (0..50_000).step_by(10).collect::<Vec<_>>(), "the state of each is known");
        assert!(outbox.is_empty() && outbox.held.is_empty());
    }

    #[test]
    fn between_the_marks_nothing_is_raised() {
        let (mut depth, mut edges) = (Depth::default(), Vec::new());
        depth.set_marks(Some(MARKS), None, |edge| edges.push(edge));
        for _ in 0..250_000 {
            go_to(&mut depth, 9, &mut edges);
            go_to(&mut depth, 6, &mut edges);
        }
        assert_eq!(edges, []);
        go_to(&mut depth, 10, &mut edges);
        for _ in 0..250_000 {
            go_to(&mut depth, 11, &mut edges);
            go_to(&mut depth, 6, &mut edges);
        }
        assert_eq!(edges.len(), 1);
    }

    #[test]
    fn full_swings_alternate_and_a_stopped_reader_costs_a_count() {
        let (mut depth, mut outbox) = (Depth::default(), EdgeOutbox::default());
        depth.set_marks(Some(MARKS), None, |_| unreachable!());
        let (mut sent, mut room) = (Vec::new(), 8usize);
        for swing in 0..10_000 {
            let stopped = (4_000..6_000).contains(&swing);
            for messages in [10, 5] {
                while depth.messages() < messages {
                    depth.added(1, SIZE, |edge| outbox.raise("a", edge));
                }
                while depth.messages() > messages {
                    depth.removed(1, SIZE, |edge| outbox.raise("a", edge));
                }
                room = if stopped { room } else { 8 };
                outbox.flush(|_, edge| {
                    if room == 0 {
                        return false;
                    }
                    room -= 1;
                    sent.push(*edge);
                    true
                });
                assert!(outbox.held.len() <= 1 && outbox.order.len() <= 1);
            }
        }
        assert!(outbox.is_empty());
        assert!(sent.windows(2).all(|pair| pair[0].increasing != pair[1].increasing));
        assert!(sent.first().is_some_and(|edge| edge.increasing) && sent.last().is_some_and(|edge| !edge.increasing));
        let missed: u64 = sent.iter().map(|edge| edge.missed).sum();
        assert!(missed > 3_900 && sent.len() > 16_000);
        assert_eq!(sent.len() as u64 + missed, 20_000);
        assert_eq!(depth.edges_counted(Unit::Messages), (10_000, 10_000));
    }

    #[test]
    fn marks_changed_at_run_time_are_compared_at_once() {
        let (mut depth, mut edges) = (Depth::default(), Vec::new());
        go_to(&mut depth, 20, &mut edges);
        let set = |depth: &mut Depth, count: Option<Marks>| {
            let mut edges = Vec::new();
            depth.set_marks(count, None, |edge| edges.push((edge.increasing, edge.threshold)));
            edges
        };
        assert_eq!(set(&mut depth, Some(Marks { up: 21, down: 10 })), []);
        assert_eq!(set(&mut depth, Some(Marks { up: 20, down: 10 })), [(true, 20)]);
        // Above stays above between the marks.
        assert_eq!(set(&mut depth, Some(Marks { up: 40, down: 19 })), []);
        assert!(depth.is_above(Unit::Messages));
        assert_eq!(depth.replay(Unit::Messages).map(|edge| edge.threshold), Some(40));
        assert_eq!(set(&mut depth, Some(Marks { up: 40, down: 20 })), [(false, 20)]);
        assert_eq!(set(&mut depth, Some(Marks { up: 5, down: 1 })), [(true, 5)]);
        assert_eq!(set(&mut depth, None), [(false, 1)]);
        assert_eq!(set(&mut depth, None), []);
    }

    #[test]
    fn an_address_that_goes_away_above_has_recovered() {
        let (mut depth, mut edges) = (Depth::default(), Vec::new());
        depth.set_marks(Some(MARKS), Some(Marks { up: 1, down: 0 }), |edge| edges.push(edge));
        go_to(&mut depth, 12, &mut edges);
        assert_eq!(edges.len(), 2);
        depth.gone(|edge| edges.push(edge));
        let gone: Vec<_> = edges[2..].iter().map(|edge| (edge.unit, edge.increasing)).collect();
        assert_eq!(gone, [(Unit::Messages, false), (Unit::Bytes, false)]);
        depth.gone(|_| unreachable!());
    }

    #[test]
    fn jumps_over_a_mark_are_edges() {
        let (mut depth, mut edges) = (Depth::default(), Vec::new());
        depth.set_marks(Some(MARKS), Some(Marks { up: 1_000, down: 500 }), |edge| edges.push(edge));
        // A stream's bytes as they arrive; then three copies at once.
        depth.added(1, 0, |edge| edges.push(edge));
        depth.added(0, 2_000, |edge| edges.push(edge));
        depth.added(30, 30, |edge| edges.push(edge));
        depth.removed(31, 2_030, |edge| edges.push(edge));
        let raised: Vec<_> = edges.iter().map(|edge| (edge.unit, edge.increasing)).collect();
        assert_eq!(
            raised,
            [(Unit::Bytes, true), (Unit::Messages, true), (Unit::Messages, false), (Unit::Bytes, false)]
        );
    }

    #[test]
    fn events_equal_those_of_a_model_that_watches_every_depth() {
        for seed in 1..=1_000u64 {
            let mut state = seed << 20 ^ 0x5bd1_e995_97f4_a7c1;
            let mut random = move |bound: u64| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 33) % bound
            };
            let (mut depth, mut raised) = (Depth::default(), Vec::new());
            let (mut above, mut expected) = ([false; 2], Vec::new());
            let up = [1 + random(40), 1 + random(4_000)];
            let down = [random(up[0]), random(up[1])];
            let marks = |index: usize| Some(Marks { up: up[index], down: down[index] });
            depth.set_marks(marks(0), marks(1), |edge| raised.push((edge.unit, edge.increasing)));
            let mut sizes = VecDeque::new();
            for _ in 0..400 {
                if random(2) == 0 || sizes.is_empty() {
                    let size = random(200);
                    sizes.push_back(size);
                    depth.added(1, size, |edge| raised.push((edge.unit, edge.increasing)));
                } else {
                    let size = sizes.pop_front().unwrap_or(0);
                    depth.removed(1, size, |edge| raised.push((edge.unit, edge.increasing)));
                }
                let depths = [sizes.len() as u64, sizes.iter().sum::<u64>()];
                for (index, unit) in [Unit::Messages, Unit::Bytes].into_iter().enumerate() {
                    if !above[index] && depths[index] >= up[index] || above[index] && depths[index] <= down[index] {
                        above[index] = !above[index];
                        expected.push((unit, above[index]));
                    }
                }
                assert_eq!((depth.messages(), depth.bytes()), (depths[0], depths[1]));
            }
            assert_eq!(raised, expected, "seed {seed}");
        }
    }
}

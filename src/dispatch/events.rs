//! Threshold events as messages: to each receiver on the events address, as its credit allows.
//!
//! Owns: which addresses are above a mark (by the edges that came), and for each subscriber what it is still to hear.
//! Doesn't: know links beyond their ids, time, or other shards: control tells every edge, each with its moment.
//! Driven by: [`super::Dispatch`]. A subscriber's link has an address of its own in the router, with a sender's link of
//! the router's beside it, so that credit, waiting and loss are routing's as for any other message.
//!
//! Invariants:
//! - For an address and a unit, what a subscriber hears alternates, and its first is an increasing one.
//! - A subscriber costs [`EVENTS_WAITING_MAX`] events and one entry for an address and unit, however slow it is. What it
//!   doesn't hear one by one it hears as the latest state, with how many it `missed`. There are [`SUBSCRIBERS_MAX`] of them.

use super::{service, Dispatch};
use crate::ids::{LinkId, Port};
use crate::link::{Direction, Terminus};
use crate::outcome::Fault;
use crate::payload::Payload;
use crate::routing::{Arrival, Edge, EdgeOutbox, Unit};
use crate::time::Time;
use crate::wire::encode::{self, Compound};
use crate::wire::value::{code, Value};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::rc::Rc;

/// Events that wait for a subscriber one by one; more are only counted, and the latest kept.
const EVENTS_WAITING_MAX: usize = 256;
/// Subscribers of a shard. Each edge is told to each of them.
const SUBSCRIBERS_MAX: usize = 1024;

/// Descriptor codes of sections (AMQP 1.0, section 3.2).
const PROPERTIES: u64 = 0x73;
const AMQP_VALUE: u64 = 0x77;

type Key = (Rc<str>, Unit);

/// An edge of an address, and when control heard of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Event {
    edge: Edge,
    /// Milliseconds since 1970.
    timestamp: i64,
    /// It was above before the subscriber came, or before its turn among those that were.
    replayed: bool,
}

/// Of what was above when a subscriber came: what hasn't been told yet, in the order of the keys.
struct Replay {
    told: Option<Key>,
    last: Key,
}

impl Replay {
    fn contains(&self, key: &Key) -> bool {
        *key <= self.last && self.told.as_ref().is_none_or(|told| key > told)
    }
}

struct Subscriber {
    /// The router's own link to this subscriber's address.
    from: LinkId,
    credit: u32,
    drain: bool,
    replay: Option<Replay>,
    waiting: VecDeque<(Rc<str>, Event)>,
    /// Behind `waiting`, when that is full.
    rest: EdgeOutbox<Rc<str>>,
    /// The latest edge's moment in `rest`.
    rest_timestamp: i64,
}

/// What is to be done on a link of the router's.
#[derive(Debug)]
pub enum Publication {
    Message {
        from: LinkId,
        payload: Payload,
    },
    /// Its credit is given back.
    Drained {
        from: LinkId,
    },
}

/// All subscribers of this shard.
pub struct Publisher {
    router_id: Box<str>,
    above: BTreeMap<Key, Event>,
    /// By the subscriber's link.
    subscribers: BTreeMap<LinkId, Subscriber>,
    /// Subscribers that may have something to be sent.
    due: VecDeque<LinkId>,
}

impl Publisher {
    pub fn new(router_id: &str) -> Publisher {
        Publisher {
            router_id: router_id.into(),
            above: BTreeMap::new(),
            subscribers: BTreeMap::new(),
            due: VecDeque::new(),
        }
    }

    /// A receiver attached to the events address. First it hears what is above now.
    pub fn joined(&mut self, subscriber: LinkId, from: LinkId) {
        let subscription = Subscriber {
            from,
            credit: 0,
            drain: false,
            replay: self.above.last_key_value().map(|(last, _)| Replay { told: None, last: last.clone() }),
            waiting: VecDeque::new(),
            rest: EdgeOutbox::default(),
            rest_timestamp: 0,
        };
        self.subscribers.insert(subscriber, subscription);
    }

    fn is_full(&self) -> bool {
        self.subscribers.len() >= SUBSCRIBERS_MAX
    }

    /// A link ended. If it was a subscriber's, gives the router's link to it.
    pub fn left(&mut self, subscriber: LinkId) -> Option<LinkId> {
        self.subscribers.remove(&subscriber).map(|subscription| subscription.from)
    }

    /// A subscriber takes `add` more events. `drain`: what it isn't sent now is given back.
    pub fn credit(&mut self, subscriber: LinkId, add: u32, drain: bool) {
        if let Some(subscription) = self.subscribers.get_mut(&subscriber) {
            subscription.credit = subscription.credit.saturating_add(add);
            subscription.drain |= drain;
            self.due.push_back(subscriber);
        }
    }

    /// An address's depth reached a mark, here or on another shard.
    pub fn edge(&mut self, address: &str, edge: Edge, timestamp: i64) {
        let key: Key = (address.into(), edge.unit);
        let event = Event { edge, timestamp, replayed: false };
        if edge.increasing {
            self.above.insert(key.clone(), event);
        } else {
            self.above.remove(&key);
        }
        for (link, subscriber) in &mut self.subscribers {
            // What it hasn't heard of yet it hears of as it is when its turn comes.
            if !subscriber.replay.as_ref().is_some_and(|replay| replay.contains(&key)) {
                subscriber.push(&key.0, event);
                self.due.push_back(*link);
            }
        }
    }

    #[inline]
    pub fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// The next message that a subscriber has credit for, or the end of its drain.
    pub fn poll(&mut self) -> Option<Publication> {
        while let Some(link) = self.due.front() {
            if let Some(subscriber) = self.subscribers.get_mut(link) {
                let from = subscriber.from;
                let next = if subscriber.credit > 0 { subscriber.pop(&self.above) } else { None };
                if let Some((address, event)) = next {
                    subscriber.credit -= 1;
                    let payload = Payload::copied(&encode(&self.router_id, &address, &event));
                    return Some(Publication::Message { from, payload });
                }
                if std::mem::take(&mut subscriber.drain) {
                    subscriber.credit = 0;
                    return Some(Publication::Drained { from });
                }
            }
            self.due.pop_front();
        }
        None
    }
}

impl Subscriber {
    fn push(&mut self, address: &Rc<str>, event: Event) {
        if self.waiting.len() < EVENTS_WAITING_MAX && self.rest.is_empty() {
            self.waiting.push_back((address.clone(), event));
        } else {
            self.rest.raise(address.clone(), event.edge);
            self.rest_timestamp = event.timestamp;
        }
    }

    fn pop(&mut self, above: &BTreeMap<Key, Event>) -> Option<(Rc<str>, Event)> {
        if let Some(replay) = &mut self.replay {
            let from = replay.told.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
            if let Some((key, event)) = above.range((from, Bound::Included(&replay.last))).next() {
                replay.told = Some(key.clone());
                return Some((key.0.clone(), Event { replayed: true, ..*event }));
            }
            self.replay = None;
        }
        if let Some(next) = self.waiting.pop_front() {
            return Some(next);
        }
        let (mut next, timestamp) = (None, self.rest_timestamp);
        self.rest.flush(|address, edge| {
            let takes = next.is_none();
            if takes {
                next = Some((address.clone(), Event { edge: *edge, timestamp, replayed: false }));
            }
            takes
        });
        next
    }
}

/// The message: its subject is the event's name, its body a map.
fn encode(router_id: &str, address: &str, event: &Event) -> Vec<u8> {
    let edge = &event.edge;
    let name = if edge.increasing { "threshold-crossed-increasing" } else { "threshold-crossed-decreasing" };
    let unit = match edge.unit {
        Unit::Messages => "messages",
        Unit::Bytes => "bytes",
    };
    let mut out = Vec::with_capacity(256 + address.len() + router_id.len());
    encode::descriptor(&mut out, PROPERTIES);
    let list = encode::begin(&mut out);
    for _ in 0..3 {
        encode::null(&mut out); // message-id, user-id, to
    }
    encode::string(&mut out, name); // subject
    encode::finish(&mut out, list, code::LIST8, 4);

    encode::descriptor(&mut out, AMQP_VALUE);
    let mut map = Map { compound: encode::begin(&mut out), out: &mut out, count: 0 };
    map.entry("event", Value::String(name));
    map.entry("unit", Value::String(unit));
    map.entry("address", Value::String(address));
    map.entry("router", Value::String(router_id));
    map.entry("threshold", Value::Ulong(edge.threshold));
    map.entry("depthMessages", Value::Ulong(edge.depth_messages));
    map.entry("depthBytes", Value::Ulong(edge.depth_bytes));
    map.entry("timestamp", Value::Timestamp(event.timestamp));
    if event.replayed {
        map.entry("replayed", Value::Boolean(true));
    } else if edge.missed > 0 {
        map.entry("missed", Value::Ulong(edge.missed));
    }
    map.end();
    out
}

struct Map<'o> {
    compound: Compound,
    out: &'o mut Vec<u8>,
    count: u32,
}

impl Map<'_> {
    fn entry(&mut self, key: &str, value: Value<'_>) {
        encode::string(self.out, key);
        encode::value(self.out, &value);
        self.count += 2;
    }

    fn end(self) {
        encode::finish(self.out, self.compound, code::MAP8, self.count);
    }
}

impl Dispatch {
    /// Why a link that would receive events is refused, if it is.
    pub(super) fn refuses_subscription(&self, direction: Direction, terminus: &Terminus) -> Option<Fault> {
        let is_refused = self.publisher.is_full() && self.router.is_subscription(direction, terminus);
        is_refused.then(|| Fault::link("amqp:resource-limit-exceeded", "too many receive threshold events"))
    }

    /// Credit for a link of the router's own: a subscriber takes events.
    #[cold]
    pub(super) fn own_credit(&mut self, port: Port, add: u32, drain: bool) {
        let subscriber = LinkId { index: port.link.index, generation: port.link.generation };
        self.publisher.credit(subscriber, add, drain);
    }

    /// Sends what subscribers have credit for.
    #[cold]
    pub(super) fn publish_due(&mut self, now: Time) {
        while let Some(publication) = self.publisher.poll() {
            let from = match publication {
                Publication::Message { from, payload } => {
                    let (wire, message_format) = (service::NO_WIRE, 0);
                    let arrival = Arrival { wire, message_format, settled: true, complete: true, payload, to: None };
                    self.router.delivery(from, arrival, now);
                    self.apply_outputs();
                    continue;
                }
                Publication::Drained { from } => from,
            };
            self.router.sender_drained(from, u32::MAX, now);
            self.apply_outputs();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32) -> LinkId {
        LinkId { index, generation: 0 }
    }

    fn edge(increasing: bool) -> Edge {
        Edge { unit: Unit::Messages, increasing, threshold: 10, depth_messages: 10, depth_bytes: 1000, missed: 0 }
    }

    /// What a subscriber hears next: address, increasing, replayed, missed.
    fn heard(publisher: &mut Publisher, subscriber: LinkId) -> Vec<(String, bool, bool, u64)> {
        let mut all = Vec::new();
        let Some(subscription) = publisher.subscribers.get_mut(&subscriber) else { return all };
        while subscription.credit > 0 {
            let Some((address, event)) = subscription.pop(&publisher.above) else { break };
            subscription.credit -= 1;
            all.push((address.to_string(), event.edge.increasing, event.replayed, event.edge.missed));
        }
        all
    }

    #[test]
    fn a_late_subscriber_first_hears_what_is_above() {
        let mut publisher = Publisher::new("R");
        publisher.edge("a", edge(true), 1);
        publisher.edge("b", edge(true), 2);
        publisher.edge("c", edge(true), 3);
        publisher.edge("c", edge(false), 4);
        publisher.joined(link(1), link(2));
        // Over before it was told: as if it had never been.
        publisher.edge("b", edge(false), 5);
        publisher.edge("a", edge(false), 6);
        publisher.edge("a", edge(true), 7);
        publisher.credit(link(1), 10, false);
        assert_eq!(heard(&mut publisher, link(1)), [("a".to_owned(), true, true, 0)]);
        publisher.edge("a", edge(false), 8);
        assert_eq!(heard(&mut publisher, link(1)), [("a".to_owned(), false, false, 0)]);
    }

    #[test]
    fn a_slow_subscriber_hears_the_latest_state_and_how_many_it_missed() {
        let mut publisher = Publisher::new("R");
        publisher.joined(link(1), link(2));
        for at in 0..10_001 {
            publisher.edge("a", edge(at % 2 == 0), at);
        }
        publisher.credit(link(1), 100_000, false);
        let all = heard(&mut publisher, link(1));
        assert!(all.len() <= EVENTS_WAITING_MAX + 2);
        assert_eq!(all.len() as u64 + all.iter().map(|event| event.3).sum::<u64>(), 10_001);
        assert!(all.iter().enumerate().all(|(at, event)| event.1 == (at % 2 == 0)), "they alternate");
        assert!(all.last().is_some_and(|event| event.1), "the state is known");
    }

    #[test]
    fn what_rises_before_its_turn_is_told_with_what_was_above() {
        let mut publisher = Publisher::new("R");
        publisher.edge("a", edge(true), 1);
        publisher.edge("y", edge(true), 2);
        publisher.joined(link(1), link(2));
        publisher.credit(link(1), 1, false);
        assert_eq!(heard(&mut publisher, link(1)), [("a".to_owned(), true, true, 0)]);
        publisher.edge("b", edge(true), 3);
        publisher.edge("c", edge(true), 4);
        publisher.edge("c", edge(false), 5);
        publisher.edge("z", edge(true), 6);
        publisher.edge("a", edge(false), 7);
        publisher.credit(link(1), 10, false);
        let expected = [("b", true, true), ("y", true, true), ("z", true, false), ("a", false, false)];
        let expected = expected.map(|(name, increasing, replayed)| (name.to_owned(), increasing, replayed, 0));
        assert_eq!(heard(&mut publisher, link(1)), expected);
    }

    #[test]
    fn nothing_is_sent_beyond_credit() {
        let mut publisher = Publisher::new("R");
        publisher.joined(link(1), link(2));
        publisher.edge("a", edge(true), 1);
        publisher.edge("a", edge(false), 2);
        assert!(publisher.poll().is_none());
        publisher.credit(link(1), 1, false);
        assert!(matches!(publisher.poll(), Some(Publication::Message { from, .. }) if from == link(2)));
        assert!(publisher.poll().is_none());
        publisher.credit(link(1), 3, true);
        assert!(matches!(publisher.poll(), Some(Publication::Message { .. })));
        assert!(matches!(publisher.poll(), Some(Publication::Drained { from }) if from == link(2)));
        publisher.edge("a", edge(true), 3);
        assert!(publisher.poll().is_none());
        assert_eq!(publisher.left(link(1)), Some(link(2)));
        assert_eq!(publisher.left(link(1)), None);
    }
}

//! The shadow model: what clients sent, received and were told, seen from outside of the router.
//!
//! Owns: a record of each message and link. Doesn't: judge (the checkers do), look into the router.
//! Driven by: the clients' actors, which tell each fact as an [`Observation`].

use crate::outcome::StateKind;
use crate::time::Time;
use std::collections::BTreeMap;

/// A message's key: never used twice.
pub type Key = u64;

/// A link's number in the simulation: never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct LinkNumber(pub u32);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Spread {
    /// Each message goes to one consumer.
    Anycast,
    /// Each goes to all.
    Multicast,
    /// Nobody may use it.
    Unavailable,
}

/// How an address is spread, by its name: the simulation's configuration has these prefixes.
pub fn spread_of(address: &str) -> Spread {
    match address.split(['/', '.']).next() {
        Some("multicast") => Spread::Multicast,
        Some("unavailable") => Spread::Unavailable,
        _ => Spread::Anycast,
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// The sender has begun it.
    Begun,
    Complete,
    Aborted,
}

/// A message at one receiver, whole.
#[derive(Clone, Debug)]
pub struct Copy {
    pub link: LinkNumber,
    pub settled: bool,
    /// What the receiver said of it.
    pub disposed: Option<(StateKind, Vec<u8>)>,
}

#[derive(Clone, Debug)]
pub struct Message {
    pub sender: LinkNumber,
    /// Its place among those of its sender.
    pub sequence: u32,
    pub address: String,
    pub settled: bool,
    pub begun_at: Time,
    pub progress: Progress,
    pub digest: u64,
    /// Bytes.
    pub size: usize,
    pub copies: Vec<Copy>,
    /// What its sender was told, and whether that is the last word.
    pub outcome: Option<(StateKind, Vec<u8>)>,
    pub outcome_settled: bool,
    /// Its sender settled it first.
    pub abandoned: bool,
}

#[derive(Clone, Debug)]
pub struct LinkRecord {
    /// A sender's link to the router, or a receiver's.
    pub sends: bool,
    /// None: an anonymous sender.
    pub address: Option<String>,
    /// Bytes of the largest message that the receiver takes; None: any.
    pub max_message_size: Option<u64>,
    /// The receiver asked for settled deliveries.
    pub settled_mode: bool,
    /// Its connection and session are never the reason why it gets nothing.
    pub prompt: bool,
    pub attached_at: Option<Time>,
    /// The client said that it goes.
    pub leaving_at: Option<Time>,
    pub ended_at: Option<Time>,
    /// When the receiver gave credit first.
    pub credit_at: Option<Time>,
    /// Since when it has given none that is left.
    pub dry_since: Option<Time>,
    /// The longest that it ever stood without.
    pub dry_longest: std::time::Duration,
}

impl LinkRecord {
    /// Whether a message is larger than this receiver takes.
    pub fn is_too_small_for(&self, message: &Message) -> bool {
        self.max_message_size.is_some_and(|most| message.size as u64 > most)
    }

    pub fn is_live(&self) -> bool {
        self.attached_at.is_some() && self.leaving_at.is_none()
    }
}

/// A fact, as an actor tells it.
#[derive(Clone, Debug)]
pub enum Observation {
    Attached {
        link: LinkNumber,
        address: Option<String>,
    },
    Leaving {
        link: LinkNumber,
    },
    Ended {
        link: LinkNumber,
    },
    Begun {
        key: Key,
        link: LinkNumber,
        address: String,
        settled: bool,
        digest: u64,
        size: usize,
    },
    Completed {
        key: Key,
    },
    Aborted {
        key: Key,
    },
    /// Its sender settled it, whatever becomes of it.
    Abandoned {
        key: Key,
    },
    Received {
        key: Key,
        link: LinkNumber,
        settled: bool,
        digest: u64,
    },
    Disposed {
        key: Key,
        link: LinkNumber,
        kind: StateKind,
        state: Vec<u8>,
    },
    Outcome {
        key: Key,
        kind: Option<StateKind>,
        state: Vec<u8>,
        settled: bool,
    },
    /// A receiver's credit changed.
    Credit {
        link: LinkNumber,
        credit: u32,
    },
    /// A receiver's drain was answered.
    Drained {
        link: LinkNumber,
    },
}

#[derive(Default)]
pub struct Model {
    pub now: Time,
    pub messages: BTreeMap<Key, Message>,
    pub links: BTreeMap<LinkNumber, LinkRecord>,
    next_sequence: BTreeMap<LinkNumber, u32>,
    next_key: Key,
}

impl Model {
    /// A link that an actor is about to attach.
    pub fn add_link(
        &mut self,
        sends: bool,
        address: Option<String>,
        settled_mode: bool,
        prompt: bool,
        max_message_size: Option<u64>,
    ) -> LinkNumber {
        let number = LinkNumber(self.links.len() as u32);
        self.links.insert(
            number,
            LinkRecord {
                sends,
                address,
                settled_mode,
                prompt,
                max_message_size,
                attached_at: None,
                leaving_at: None,
                ended_at: None,
                credit_at: None,
                dry_since: None,
                dry_longest: std::time::Duration::ZERO,
            },
        );
        number
    }

    pub fn next_key(&mut self) -> Key {
        self.next_key += 1;
        self.next_key
    }

    pub fn link(&self, number: LinkNumber) -> &LinkRecord {
        &self.links[&number]
    }

    /// Live consumers of an address.
    pub fn consumers<'a>(&'a self, address: &'a str) -> impl Iterator<Item = (LinkNumber, &'a LinkRecord)> + 'a {
        let of_address = move |(number, link): (&LinkNumber, &'a LinkRecord)| {
            (!link.sends && link.is_live() && link.address.as_deref() == Some(address)).then_some((*number, link))
        };
        self.links.iter().filter_map(of_address)
    }

    /// Takes a fact in. The checkers have seen it before.
    pub fn apply(&mut self, observation: &Observation) {
        let now = self.now;
        match observation {
            Observation::Attached { link, address } => {
                let record = self.links.get_mut(link).expect("added before");
                record.attached_at = Some(now);
                record.dry_since = Some(now);
                if address.is_some() {
                    record.address.clone_from(address);
                }
            }
            Observation::Leaving { link } => {
                self.links.get_mut(link).expect("added before").leaving_at = Some(now);
            }
            Observation::Ended { link } => {
                let record = self.links.get_mut(link).expect("added before");
                record.leaving_at.get_or_insert(now);
                record.ended_at = Some(now);
            }
            Observation::Begun { key, link, address, settled, digest, size } => {
                let sequence = self.next_sequence.entry(*link).or_default();
                *sequence += 1;
                let message = Message {
                    sender: *link,
                    sequence: *sequence,
                    address: address.clone(),
                    settled: *settled,
                    begun_at: now,
                    progress: Progress::Begun,
                    digest: *digest,
                    size: *size,
                    copies: Vec::new(),
                    outcome: None,
                    outcome_settled: false,
                    abandoned: false,
                };
                self.messages.insert(*key, message);
            }
            Observation::Completed { key } => self.message(*key).progress = Progress::Complete,
            Observation::Aborted { key } => self.message(*key).progress = Progress::Aborted,
            Observation::Abandoned { key } => {
                let message = self.message(*key);
                message.abandoned = true;
            }
            Observation::Received { key, link, settled, .. } => {
                let copy = Copy { link: *link, settled: *settled, disposed: None };
                self.message(*key).copies.push(copy);
            }
            Observation::Disposed { key, link, kind, state } => {
                let copy = self.message(*key).copies.iter_mut().find(|copy| copy.link == *link);
                copy.expect("disposed after received").disposed = Some((*kind, state.clone()));
            }
            Observation::Outcome { key, kind, state, settled } => {
                let message = self.message(*key);
                if let Some(kind) = kind.filter(|kind| *kind != StateKind::Received) {
                    message.outcome = Some((kind, state.clone()));
                }
                message.outcome_settled |= settled;
            }
            Observation::Credit { link, credit } => self.credit(*link, *credit),
            Observation::Drained { .. } => {}
        }
    }

    fn credit(&mut self, link: LinkNumber, credit: u32) {
        let now = self.now;
        let record = self.links.get_mut(&link).expect("added before");
        if credit == 0 {
            record.dry_since.get_or_insert(now);
            return;
        }
        record.credit_at.get_or_insert(now);
        if let Some(since) = record.dry_since.take() {
            record.dry_longest = record.dry_longest.max(now.since(since));
        }
    }

    fn message(&mut self, key: Key) -> &mut Message {
        self.messages.get_mut(&key).expect("begun before")
    }
}

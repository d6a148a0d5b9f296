//! What is known of a connection, to be shown.

use super::{find, Dispatch};
use crate::ids::ConnectionId;
use crate::time::Time;
use std::time::Duration;

/// What dispatch is told of a connection, and keeps to show it.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Where its peer is.
    pub host: Box<str>,
    /// Control's number of its listener.
    pub listener: u32,
    pub container: Box<str>,
    pub mechanism: Option<Box<str>>,
    pub user: Option<Box<str>>,
    /// The properties of the peer's open, a map as it was encoded.
    pub properties: Option<Box<[u8]>>,
    pub opened_at: Time,
    /// When a delivery came or went last.
    pub last_delivery: Option<Time>,
    /// Deliveries that its engine was given, as of then.
    sends: u64,
    /// Management closed it.
    pub is_closing: bool,
}

impl Facts {
    /// Bytes of its texts.
    pub fn texts_len(&self) -> usize {
        let texts = [Some(&self.host), Some(&self.container), self.mechanism.as_ref(), self.user.as_ref()];
        let texts: usize = texts.into_iter().flatten().map(|text| text.len()).sum();
        texts + self.properties.as_ref().map_or(0, |properties| properties.len())
    }

    #[inline]
    pub(super) fn note_sends(&mut self, sends: u64, now: Time) {
        if sends != self.sends {
            (self.sends, self.last_delivery) = (sends, Some(now));
        }
    }
}

/// An open connection's facts, copied.
#[derive(Clone, Debug)]
pub struct ConnectionRow {
    /// `[Cn]` in the log.
    pub number: u64,
    pub facts: Facts,
    /// Its frames are reported.
    pub is_traced: bool,
    /// Since it was opened.
    pub uptime: Duration,
    /// Since a delivery came or went; None: none did.
    pub last_delivery: Option<Duration>,
}

/// Bytes of one connection, for whoever shows them.
pub const CONNECTION_BYTES: usize = std::mem::size_of::<super::Peer>();

impl Dispatch {
    /// Where the peer of a connection that was accepted is, and control's number of its listener.
    pub fn note_peer(&mut self, id: ConnectionId, host: &str, listener: u32) {
        if let Some(peer) = find(&mut self.peers, id) {
            (peer.facts.host, peer.facts.listener) = (host.into(), listener);
        }
    }

    pub(super) fn connection_rows(&self, from: u32, slots: u32, now: Time) -> (Vec<ConnectionRow>, Option<u32>) {
        let end = self.peers.len().min(from.saturating_add(slots) as usize);
        let here = self.peers.get(from as usize..end).unwrap_or_default().iter().flatten();
        let rows = here.filter(|peer| peer.opened).map(|peer| ConnectionRow {
            number: peer.number,
            facts: peer.facts.clone(),
            is_traced: peer.engine.is_traced(),
            uptime: now.since(peer.facts.opened_at),
            last_delivery: peer.facts.last_delivery.map(|at| now.since(at)),
        });
        (rows.collect(), (end < self.peers.len()).then_some(end as u32))
    }
}

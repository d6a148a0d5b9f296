//! What is shown of the router, its links and addresses: a table a page at a time, each page bounded work.

use super::connections::ConnectionRow;
use super::Dispatch;
use crate::routing::{self, AddressRow, Counters, Spread};
use crate::time::Time;

/// Slots that a page looks at: about 50 µs of a turn.
const PAGE_SLOTS: u32 = 128;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Table {
    Router,
    Links,
    Addresses,
    Connections,
}

/// A page of a table.
#[derive(Debug)]
pub struct Page {
    pub rows: Rows,
    /// Where the next page begins; None: this was the last one.
    pub next: Option<u32>,
}

#[derive(Debug)]
pub enum Rows {
    Router(Box<RouterRow>),
    Links(Vec<LinkRow>),
    Addresses(Vec<AddressRow>),
    Connections(Vec<ConnectionRow>),
}

/// What a shard's router has in all, since its start or now.
#[derive(Clone, Debug, Default)]
pub struct RouterRow {
    pub counters: Counters,
    pub spread: Spread,
    pub connections: u64,
    /// Attached ones of peers.
    pub links: u64,
    /// Without the ones that the router serves itself.
    pub addresses: u64,
    /// Addresses that the router serves itself: every shard has them all.
    pub served_addresses: u64,
    /// Deliveries that are in it.
    pub deliveries: u64,
    /// Threshold edges.
    pub edges: u64,
}

impl RouterRow {
    /// Adds another shard's part.
    pub fn add(&mut self, other: &RouterRow) {
        self.counters.add(&other.counters);
        self.spread.merge(&other.spread);
        self.connections += other.connections;
        self.links += other.links;
        self.addresses += other.addresses;
        self.served_addresses = self.served_addresses.max(other.served_addresses);
        self.deliveries += other.deliveries;
        self.edges += other.edges;
    }
}

/// A link, as routing and its connection know it.
#[derive(Clone, Debug)]
pub struct LinkRow {
    /// Its own, no other link's of any shard.
    pub number: u64,
    /// `[Cn]` in the log.
    pub connection: u64,
    pub name: String,
    pub routing: routing::LinkRow,
}

impl Dispatch {
    /// The page of a table that begins at `from`: 0, or what the page before it said.
    pub fn page(&mut self, table: Table, from: u32, now: Time) -> Page {
        match table {
            Table::Router => Page { rows: Rows::Router(Box::new(self.router_row())), next: None },
            Table::Addresses => {
                let (rows, next) = self.router.address_rows(from, PAGE_SLOTS, now);
                Page { rows: Rows::Addresses(rows), next }
            }
            Table::Links => {
                let (rows, next) = self.router.link_rows(from, PAGE_SLOTS, now);
                Page { rows: Rows::Links(rows.into_iter().filter_map(|row| self.link_row(row)).collect()), next }
            }
            Table::Connections => {
                let (rows, next) = self.connection_rows(from, PAGE_SLOTS, now);
                Page { rows: Rows::Connections(rows), next }
            }
        }
    }

    fn router_row(&self) -> RouterRow {
        RouterRow {
            counters: *self.router.totals(),
            spread: *self.router.spread(),
            connections: self.router.connections_len() as u64,
            links: self.router.peer_links_len() as u64,
            addresses: (self.router.addresses_len() - self.service.addresses_len()) as u64,
            served_addresses: self.service.addresses_len() as u64,
            deliveries: self.router.deliveries_len() as u64,
            edges: self.router.edges_counted(),
        }
    }

    /// A link that outlives its connection has neither its number nor its name. None: it is another shard's to show.
    fn link_row(&self, routing: routing::LinkRow) -> Option<LinkRow> {
        let port = routing.port;
        let number = 1 + u64::from(routing.id.generation) * u64::from(self.shards) + u64::from(self.shard.0);
        if let Some(proxy) = self.proxies.get(port.connection) {
            let (connection, name) = (proxy.number(), proxy.link_name(port.link)?.to_owned());
            return Some(LinkRow { number, connection, name, routing });
        }
        let peer = self.peers.get(port.connection.index as usize).and_then(Option::as_deref);
        let peer = peer.filter(|peer| peer.id == port.connection);
        let name = peer.and_then(|peer| peer.engine.link_name(port.link)).unwrap_or_default().to_owned();
        Some(LinkRow { number, connection: peer.map_or(0, |peer| peer.number), name, routing })
    }
}

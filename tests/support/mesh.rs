//! Several shards' dispatch side by side, with lanes that are as quick or as stuck as a test wants.

use super::client::Client;
use ringway::dispatch::Dispatch;
use ringway::engine::Settings;
use ringway::ids::{ConnectionId, ShardId};
use ringway::mesh::{owner, Parcel};
use ringway::payload::Range;
use ringway::routing::{AddressAttributes, AddressMatch, AddressRule, AddressRules, RouterSettings, Treatment};
use ringway::time::Time;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

pub struct Connection {
    pub client: Client,
    pub shard: usize,
    pub id: ConnectionId,
}

pub struct Mesh {
    pub shards: Vec<Dispatch>,
    pub next_index: Vec<u32>,
    pub lanes: VecDeque<(usize, usize, Parcel)>,
    /// Parcels that all lanes together take.
    pub room: usize,
    pub settings: Arc<Settings>,
    pub connections: Vec<Connection>,
    pub now: Time,
}

impl Mesh {
    pub fn new(shards: u16) -> Mesh {
        let multicast = AddressAttributes { treatment: Some(Treatment::Multicast), ..AddressAttributes::default() };
        let rule = AddressRule { matches: AddressMatch::Prefix("multicast".to_owned()), attributes: multicast };
        let rules = AddressRules::new(vec![rule]).unwrap();
        let router = RouterSettings { rules, ..RouterSettings::default() };
        let dispatch = |shard| Dispatch::new(router.clone(), ShardId(shard), shards, false, Time::ZERO);
        Mesh {
            shards: (0..shards).map(dispatch).collect(),
            next_index: vec![0; usize::from(shards)],
            lanes: VecDeque::new(),
            room: usize::MAX,
            settings: Arc::new(Settings::default()),
            connections: Vec::new(),
            now: Time::ZERO,
        }
    }

    pub fn stay(mut self) -> Mesh {
        self.shards.iter_mut().for_each(|shard| shard.set_moves(false));
        self
    }

    pub fn new_id(&mut self, shard: usize) -> ConnectionId {
        self.next_index[shard] += 1;
        ConnectionId { index: self.next_index[shard] - 1, generation: 0 }
    }

    /// Connections come with these settings from now on, on any shard.
    pub fn listen(&mut self, settings: Settings) {
        self.shards.iter_mut().for_each(|shard| shard.listens(&settings));
        self.settings = Arc::new(settings);
    }

    /// A connection that a shard accepted.
    pub fn accept(&mut self, shard: usize) -> usize {
        let id = self.new_id(shard);
        self.shards[shard].accepted(id, &self.settings, 250, self.now);
        self.connections.push(Connection { client: Client::default(), shard, id });
        self.connections.len() - 1
    }

    /// The same with a session begun.
    pub fn connect(&mut self, shard: usize) -> usize {
        let index = self.accept(shard);
        self.client(index).header_and_open();
        self.client(index).begin(0);
        self.pump();
        self.client(index).frames();
        index
    }

    pub fn client(&mut self, index: usize) -> &mut Client {
        &mut self.connections[index].client
    }

    /// What a client wrote arrives, in reads of so many bytes.
    pub fn read(&mut self, read_bytes: usize) {
        for connection in &mut self.connections {
            let dispatch = &mut self.shards[connection.shard];
            if connection.client.has_output() && dispatch.wants_input(connection.id) {
                for read in connection.client.take_output().chunks(read_bytes) {
                    dispatch.received(connection.id, Range::copied(read), self.now);
                }
            }
        }
    }

    pub fn turn(&mut self, shard: usize) {
        let dispatch = &mut self.shards[shard];
        loop {
            let mut touched = Vec::new();
            dispatch.run(self.now, &mut touched);
            if touched.is_empty() {
                break;
            }
            for id in touched {
                if let Some(transmit) = dispatch.poll_transmit(id) {
                    let found = self.connections.iter_mut().find(|c| (c.shard, c.id) == (shard, id));
                    found.expect("a connection").client.feed(&transmit.to_vec());
                    dispatch.transmitted(transmit);
                }
            }
        }
        let (lanes, room) = (&mut self.lanes, self.room);
        dispatch.flush_parcels(|to, parcel| match lanes.len() < room {
            true => {
                lanes.push_back((shard, usize::from(to.0), parcel));
                Ok(())
            }
            false => Err(parcel),
        });
    }

    pub fn move_on(&mut self) {
        for shard in 0..self.shards.len() {
            while let Some((id, to)) = self.shards[shard].poll_move() {
                let moved = self.shards[shard].take(id, self.now).expect("it is to move");
                let to = usize::from(to.0);
                let new = self.new_id(to);
                let connection = self.connections.iter_mut().find(|c| (c.shard, c.id) == (shard, id)).unwrap();
                (connection.shard, connection.id) = (to, new);
                self.shards[to].adopt(new, moved, self.now);
            }
        }
    }

    /// All that follows, with reads of so many bytes.
    pub fn pump_by(&mut self, read_bytes: usize) {
        for _ in 0..40 {
            self.now = self.now + Duration::from_micros(10);
            self.read(read_bytes);
            for shard in 0..self.shards.len() {
                self.turn(shard);
            }
            self.move_on();
            if self.room > 0 {
                for (from, to, parcel) in std::mem::take(&mut self.lanes) {
                    self.shards[to].handle_parcel(ShardId(from as u16), parcel, self.now);
                }
            }
        }
    }

    pub fn pump(&mut self) {
        self.pump_by(64 * 1024);
    }

    /// As time goes on.
    pub fn sleep(&mut self, time: Duration) {
        self.now = self.now + time;
        self.pump();
    }

    pub fn notes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.notes().0).sum()
    }

    /// Everybody goes, and nothing is left.
    pub fn end(mut self) {
        for index in 0..self.connections.len() {
            self.client(index).close();
        }
        self.sleep(Duration::from_secs(1));
        for connection in &self.connections {
            self.shards[connection.shard].closed(connection.id, self.now);
        }
        self.pump();
        for shard in &self.shards {
            shard.router().check_empty().unwrap();
        }
    }
}

/// The first of `name.0`, `name.1`, … that a shard owns.
pub fn owned_by(shard: usize, shards: u16, name: &str) -> String {
    let named = (0..).map(|number| format!("{name}.{number}"));
    named.into_iter().find(|name| usize::from(owner(name, shards).0) == shard).unwrap()
}

pub fn message(number: u64) -> Vec<u8> {
    let mut bytes = b"\x00\x53\x75\xa0\x08".to_vec();
    bytes.extend(number.to_be_bytes());
    bytes
}

/// With its address in the properties.
pub fn message_to(address: &str, number: u64) -> Vec<u8> {
    let len = address.len() as u8;
    let mut bytes = vec![0x00, 0x53, 0x73, 0xc0, len + 5, 3, 0x40, 0x40, 0xa1, len];
    bytes.extend(address.as_bytes());
    bytes.extend(message(number));
    bytes
}

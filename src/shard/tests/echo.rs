//! An application that sends back what it receives, by ranges or by copies, and ends when told to.

use crate::engine::{self, Transmit};
use crate::ids::ConnectionId;
use crate::payload::{Pool, Range};
use crate::shard::application::Application;
use crate::shard::turn::Turn;
use crate::shard::{Listener, Mailbox, Order, ShardError};
use crate::telemetry::Counters;
use crate::time::Time;
use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

#[derive(Default)]
struct Peer {
    waiting: Transmit,
    finished: bool,
    timeout: Option<Time>,
}

/// What the echo does beside echoing.
#[derive(Clone, Copy, Default)]
pub struct Manner {
    /// Ranges are sent as they are; else their bytes are copied.
    pub ranges: bool,
    /// End the connection when this byte comes.
    pub end_at: Option<u8>,
    /// Send a byte when nothing came for so long.
    pub silence: Option<Duration>,
    /// Send so much at a connection's begin.
    pub greeting: usize,
}

pub struct Echo {
    manner: Manner,
    peers: HashMap<ConnectionId, Peer>,
    pending: Vec<ConnectionId>,
    pool: Pool,
}

impl Application for Echo {
    fn accepted(&mut self, id: ConnectionId, _: &Listener, peer: Option<SocketAddr>, now: Time) {
        assert!(peer.is_some_and(|address| address.ip().is_loopback()));
        let mut state = Peer { timeout: self.manner.silence.map(|silence| now + silence), ..Peer::default() };
        state.waiting.bytes.resize(self.manner.greeting, b'g');
        self.peers.insert(id, state);
        self.pending.push(id);
    }

    fn received(&mut self, id: ConnectionId, bytes: Range, now: Time) {
        let peer = self.peers.get_mut(&id).expect("accepted before");
        peer.timeout = self.manner.silence.map(|silence| now + silence);
        if self.manner.end_at.is_some_and(|end| bytes.as_slice().contains(&end)) {
            peer.finished = true;
        }
        if self.manner.ranges {
            let half = bytes.len() / 2;
            peer.waiting.push_range(bytes.slice(0, half));
            peer.waiting.bytes.extend_from_slice(&bytes.as_slice()[half..half + 1]);
            if half + 1 < bytes.len() {
                peer.waiting.push_range(bytes.slice(half + 1, bytes.len()));
            }
        } else {
            peer.waiting.bytes.extend_from_slice(bytes.as_slice());
        }
        self.pending.push(id);
    }

    fn end_of_stream(&mut self, id: ConnectionId, _: Time) {
        self.peers.get_mut(&id).expect("accepted before").finished = true;
        self.pending.push(id);
    }

    fn handle_timeout(&mut self, id: ConnectionId, now: Time) {
        let peer = self.peers.get_mut(&id).expect("accepted before");
        peer.waiting.bytes.push(b't');
        peer.timeout = self.manner.silence.map(|silence| now + silence);
        self.pending.push(id);
    }

    fn wants_input(&mut self, id: ConnectionId) -> bool {
        self.peers[&id].waiting.len() < 1 << 20
    }

    fn connection_timeout(&mut self, id: ConnectionId) -> Option<Time> {
        self.peers[&id].timeout
    }

    fn run(&mut self, _: Time, touched: &mut Vec<ConnectionId>) {
        touched.append(&mut self.pending);
    }

    fn next_timeout(&mut self) -> Option<Time> {
        None
    }

    fn poll_transmit(&mut self, id: ConnectionId, _: Time) -> Option<Transmit> {
        let peer = self.peers.get_mut(&id)?;
        (!peer.waiting.is_empty()).then(|| std::mem::take(&mut peer.waiting))
    }

    fn transmitted(&mut self, _: Transmit) {}

    fn is_finished(&mut self, id: ConnectionId) -> bool {
        self.peers[&id].finished
    }

    fn closed(&mut self, id: ConnectionId, _: Time) {
        assert!(self.peers.remove(&id).is_some());
    }

    fn order(&mut self, _: Order, _: Time) {}

    fn stop(&mut self, _: Time) {
        for peer in self.peers.values_mut() {
            peer.finished = true;
        }
    }

    fn count(&self, _: &mut Counters) {}

    fn accept_failed(&mut self, _: u32, _: i32) {}
}

/// What was left at the end of a turn's thread.
#[derive(Debug)]
pub struct Ended {
    pub result: Result<(), ShardError>,
    pub counters: Counters,
    /// Connections that the application was not told the end of.
    pub connections_left: usize,
    pub chunks_in_use: usize,
}

/// A turn on a thread of its own, echoing on a port of its own.
pub struct Running {
    pub address: SocketAddr,
    pub mailbox: Arc<Mailbox>,
    thread: JoinHandle<Ended>,
}

impl Running {
    pub fn start(manner: Manner) -> Running {
        Running::start_with_deadline(manner, Duration::from_millis(200))
    }

    pub fn start_with_deadline(manner: Manner, stop_deadline: Duration) -> Running {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let mailbox = Mailbox::new().unwrap();
        let inside = mailbox.clone();
        let thread = std::thread::spawn(move || {
            let pool = Pool::new(16 * 1024, 64);
            let echo = Echo { manner, peers: HashMap::new(), pending: Vec::new(), pool: pool.clone() };
            let mut turn = Turn::new(echo, pool, inside, stop_deadline).unwrap();
            let engine = Arc::new(engine::Settings::default());
            turn.add_listener(Listener { number: 0, socket, link_capacity: 1, engine });
            let result = turn.run();
            let chunks_in_use = turn.application.pool.in_use();
            Ended { result, counters: turn.counters, connections_left: turn.application.peers.len(), chunks_in_use }
        });
        Running { address, mailbox, thread }
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream
    }

    /// The orderly stop, after which nothing may be left.
    pub fn stop(self) -> Counters {
        assert!(self.mailbox.order(Order::Stop).is_ok());
        let ended = self.thread.join().unwrap();
        assert!(ended.result.is_ok(), "{:?}", ended.result);
        assert_eq!((ended.connections_left, ended.chunks_in_use), (0, 0));
        assert_eq!(ended.counters.connections_opened, ended.counters.connections_closed);
        ended.counters
    }
}

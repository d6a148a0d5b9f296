//! An application that sends back what it receives, by ranges or by copies, ends when told to, moves to the next shard when told
//! to, and asks the next shard when told to.

use crate::engine::{self, Transmit};
use crate::ids::{ConnectionId, ShardId};
use crate::memory::Memory;
use crate::mesh::Lanes;
use crate::payload::Range;
use crate::shard::application::Application;
use crate::shard::turn::{Place, Turn};
use crate::shard::{Listener, Mailbox, Order, Reports, ShardError};
use crate::telemetry::Counters;
use crate::time::Time;
use std::collections::{HashMap, VecDeque};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::{mpsc, Arc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

#[derive(Default)]
struct Peer {
    waiting: Transmit,
    finished: bool,
    timeout: Option<Time>,
    is_moving: bool,
}

/// A connection between two shards.
pub struct Moved {
    waiting: Vec<u8>,
    finished: bool,
    timeout: Option<Time>,
}

/// What one echo says to another one.
pub enum Parcel {
    Ask(ConnectionId),
    Answer(ConnectionId),
}

/// What the echo does beside echoing.
#[derive(Clone, Copy, Default)]
pub struct Manner {
    /// Ranges are sent as they are; else their bytes are copied.
    pub ranges: bool,
    /// End the connection when this byte comes.
    pub end_at: Option<u8>,
    /// Move a connection to the next shard when this byte comes.
    pub move_at: Option<u8>,
    /// Ask the next shard when this byte comes; its answer is sent as `A`.
    pub ask_at: Option<u8>,
    /// Send a byte when nothing came for so long.
    pub silence: Option<Duration>,
    /// Send so much at a connection's begin.
    pub greeting: usize,
    /// How long the shards poll before they sleep.
    pub busy_poll: Duration,
}

pub struct Echo {
    manner: Manner,
    peers: HashMap<ConnectionId, Peer>,
    pending: Vec<ConnectionId>,
    shard: ShardId,
    next: ShardId,
    parcels: VecDeque<(ShardId, Parcel)>,
    moves: VecDeque<(ConnectionId, ShardId)>,
    is_stopped: bool,
    /// Buffers that are to come back.
    lent: usize,
}

impl Echo {
    fn new(manner: Manner, shard: ShardId, next: ShardId) -> Echo {
        Echo {
            manner,
            peers: HashMap::new(),
            pending: Vec::new(),
            shard,
            next,
            parcels: VecDeque::new(),
            moves: VecDeque::new(),
            is_stopped: false,
            lent: 0,
        }
    }
}

impl Application for Echo {
    type Parcel = Parcel;
    type Moved = Moved;

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
        if self.manner.move_at.is_some_and(|byte| bytes.as_slice().contains(&byte)) && !peer.is_moving {
            peer.is_moving = true;
            self.moves.push_back((id, self.next));
        }
        let asked = bytes.as_slice().iter().filter(|byte| self.manner.ask_at == Some(**byte)).count();
        self.parcels.extend((0..asked).map(|_| (self.next, Parcel::Ask(id))));
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

    fn flush_parcels(&mut self, mut push: impl FnMut(ShardId, Parcel) -> Result<(), Parcel>) {
        while let Some((to, parcel)) = self.parcels.pop_front() {
            if let Err(parcel) = push(to, parcel) {
                return self.parcels.push_front((to, parcel));
            }
        }
    }

    fn handle_parcel(&mut self, from: ShardId, parcel: Parcel, _: Time) {
        assert_ne!(from, self.shard);
        match parcel {
            Parcel::Ask(id) => self.parcels.push_back((from, Parcel::Answer(id))),
            Parcel::Answer(id) => {
                if let Some(peer) = self.peers.get_mut(&id) {
                    peer.waiting.bytes.push(b'A');
                    self.pending.push(id);
                }
            }
        }
    }

    fn poll_move(&mut self) -> Option<(ConnectionId, ShardId)> {
        self.moves.pop_front()
    }

    fn take(&mut self, id: ConnectionId, _: Time) -> Option<Moved> {
        let peer = self.peers.get_mut(&id).expect("accepted before");
        // What is finished stays.
        if !std::mem::take(&mut peer.is_moving) || peer.finished {
            return None;
        }
        let Peer { waiting, finished, timeout, .. } = self.peers.remove(&id)?;
        let waiting = waiting.slices().flatten().copied().collect();
        Some(Moved { waiting, finished, timeout })
    }

    fn adopt(&mut self, id: ConnectionId, moved: Moved, _: Time) {
        let Moved { waiting, finished, timeout } = moved;
        let mut peer = Peer { finished: finished || self.is_stopped, timeout, ..Peer::default() };
        peer.waiting.bytes = waiting;
        self.peers.insert(id, peer);
        self.pending.push(id);
    }

    fn next_timeout(&mut self) -> Option<Time> {
        None
    }

    fn poll_transmit(&mut self, id: ConnectionId, _: Time) -> Option<Transmit> {
        let peer = self.peers.get_mut(&id)?;
        let transmit = (!peer.waiting.is_empty()).then(|| std::mem::take(&mut peer.waiting))?;
        self.lent(&transmit);
        Some(transmit)
    }

    fn lent(&mut self, _: &Transmit) {
        self.lent += 1;
    }

    fn transmitted(&mut self, _: Transmit) {
        assert!(self.lent > 0, "a buffer comes back that was never lent");
        self.lent -= 1;
    }

    fn is_finished(&mut self, id: ConnectionId) -> bool {
        self.peers[&id].finished
    }

    fn closed(&mut self, id: ConnectionId, _: Time) {
        assert!(self.peers.remove(&id).is_some());
    }

    fn order(&mut self, _: Order, _: Time) {}

    fn stop(&mut self, _: Time) {
        self.is_stopped = true;
        self.moves.clear();
        for peer in self.peers.values_mut() {
            peer.finished = true;
            peer.is_moving = false;
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
    pub bytes_in_use: usize,
}

/// Turns on threads of their own, echoing on a port of their own.
pub struct Running {
    pub address: SocketAddr,
    pub mailboxes: Vec<Arc<Mailbox>>,
    threads: Vec<JoinHandle<Ended>>,
}

impl Running {
    pub fn start(manner: Manner) -> Running {
        Running::start_with_deadline(manner, Duration::from_millis(200))
    }

    pub fn start_with_deadline(manner: Manner, stop_deadline: Duration) -> Running {
        Running::start_shards(1, 64, manner, stop_deadline)
    }

    /// `lane_parcels`: what fits into a lane.
    pub fn start_shards(shards: u16, lane_parcels: usize, manner: Manner, stop_deadline: Duration) -> Running {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let listener = Listener {
            number: 0,
            socket: Arc::new(socket),
            link_capacity: 1,
            engine: Arc::new(engine::Settings::default()),
        };
        let reports = Reports::new().unwrap();
        let mailboxes: Vec<_> = (0..shards).map(|_| Mailbox::new(reports.clone()).unwrap()).collect();
        let (lanes, origin) = (Lanes::with_capacity(shards, lane_parcels), Instant::now());
        let mut meetings: Vec<mpsc::Sender<Arc<[OwnedFd]>>> = Vec::new();
        let mut doorbells = Vec::new();
        let mut threads = Vec::new();
        for shard in 0..shards {
            let place = Place {
                shard: ShardId(shard),
                lanes: lanes.clone(),
                mailbox: mailboxes[usize::from(shard)].clone(),
                origin,
            };
            let next = ShardId((shard + 1) % shards);
            let listener = listener.clone();
            let ((meet, meeting), (give, doorbell)) = (mpsc::channel(), mpsc::channel());
            threads.push(std::thread::spawn(move || {
                let memory = Arc::<Memory>::default();
                let echo = Echo::new(manner, place.shard, next);
                let mut turn = Turn::new(echo, memory.clone(), place, stop_deadline, manner.busy_poll).unwrap();
                give.send(turn.doorbell().unwrap()).unwrap();
                turn.meet(meeting.recv().unwrap());
                turn.add_listener(listener);
                let result = turn.run();
                let bytes_in_use = memory.used();
                let mut counters = turn.counters;
                turn.count(&mut counters);
                Ended { result, counters, connections_left: turn.application.peers.len(), bytes_in_use }
            }));
            meetings.push(meet);
            doorbells.push(doorbell.recv().unwrap());
        }
        let doorbells: Arc<[OwnedFd]> = doorbells.into();
        meetings.into_iter().for_each(|meet| meet.send(doorbells.clone()).unwrap());
        Running { address, mailboxes, threads }
    }

    pub fn order(&self, order: impl Fn() -> Order) {
        self.mailboxes.iter().for_each(|mailbox| assert!(mailbox.order(order()).is_ok()));
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream
    }

    /// The orderly stop, after which nothing may be left.
    pub fn stop(self) -> Counters {
        self.stop_all().remove(0)
    }

    /// The same, with each shard's counters.
    pub fn stop_all(self) -> Vec<Counters> {
        self.order(|| Order::Stop);
        let ended: Vec<Ended> = self.threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        for ended in &ended {
            assert!(ended.result.is_ok(), "{:?}", ended.result);
            assert_eq!((ended.connections_left, ended.bytes_in_use), (0, 0));
            let counters = ended.counters;
            let came = counters.connections_opened + counters.moves_in;
            assert_eq!(came, counters.connections_closed + counters.moves_out);
        }
        ended.into_iter().map(|ended| ended.counters).collect()
    }
}

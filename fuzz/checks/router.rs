//! What must hold of a whole router, whatever its peers send. The bytes are a script: up to four peers on one or two shards,
//! each with two sessions and some links, their frames right or wrong and cut anywhere, interleaved; time, full lanes, sockets
//! that end. Shared, by inclusion, by the fuzz target and the tests that run its corpus and scripts of chance.
//!
//! Held: nothing panics; all output is whole frames that decode; routing's own counts fit together all the time; when all
//! peers are gone nothing is left: no link, delivery, address, chunk, promise of a window.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use ringway::dispatch::Dispatch;
use ringway::engine::Settings;
use ringway::ids::{ConnectionId, ShardId};
use ringway::memory::Memory;
use ringway::mesh::Parcel;
use ringway::payload::{Pool, Range};
use ringway::routing::{
    AddressAttributes, AddressMatch, AddressRule, AddressRules, FlowControl, Marks, RouterSettings, Treatment,
};
use ringway::time::Time;
use ringway::wire::frame;
use ringway::wire::performative as wire;
use ringway::wire::performative::Performative;
use ringway::wire::state;
use ringway::wire::terminus::{Source, Target};
use ringway::wire::PROTOCOL_HEADER_AMQP;

#[path = "script.rs"]
mod script;
use script::Script;

const PEERS: usize = 4;
const ADDRESSES: [&str; 4] = ["queue", "multicast/a", "closest/b", "other"];
const CHUNK_BYTES: usize = 4096;

pub fn check(data: &[u8]) {
    let mut script = Script { data };
    let mut router = Router::new(&mut script);
    let mut steps = 0u32;
    while !script.data.is_empty() {
        router.step(&mut script);
        steps += 1;
        if steps.is_multiple_of(16) {
            router.look();
        }
    }
    router.end();
}

impl Script<'_> {
    /// Small as a rule, and then anything.
    fn number(&mut self) -> u32 {
        match self.byte() {
            small @ 0..=239 => small.into(),
            near @ 240..=247 => u32::MAX - u32::from(near - 240),
            _ => u32::from_be_bytes([self.byte(), self.byte(), self.byte(), self.byte()]),
        }
    }

    /// Whether something shall go wrong here.
    fn wrong(&mut self) -> bool {
        self.byte() >= 250
    }

    fn state(&mut self) -> Option<&'static [u8]> {
        match self.byte() % 8 {
            0 => None,
            1 => Some(&state::RELEASED),
            2 => Some(b"\x00\x53\x25\xc0\x0a\x01\x00\x53\x1d\xc0\x04\x01\xa3\x01x"),
            3 => Some(b"\x00\x53\x27\xc0\x02\x01\x41"),
            4 => Some(b"\x00\x53\x23\xc0\x03\x02\x43\x44"),
            _ => Some(&state::ACCEPTED),
        }
    }
}

/// A session as its peer knows it.
#[derive(Default)]
struct Session {
    delivery_id: u32,
    /// Transfers that came, and the last delivery's id.
    frames: u32,
    incoming: u32,
    links: [Link; 4],
}

/// Even handles send, odd ones receive.
#[derive(Default)]
struct Link {
    attached: bool,
    anonymous: bool,
    /// In the middle of a delivery.
    arriving: bool,
    deliveries: u32,
}

/// A socket and who is behind it.
struct Peer {
    shard: usize,
    id: ConnectionId,
    /// Written and not yet read by the router.
    written: Vec<u8>,
    sessions: [Session; 2],
    open: bool,
    headers: bool,
}

struct Router {
    shards: Vec<Dispatch>,
    next_index: Vec<u32>,
    lanes: VecDeque<(usize, usize, Parcel)>,
    settings: Arc<Settings>,
    memory: Arc<Memory>,
    pool: Pool,
    peers: Vec<Peer>,
    now: Time,
}

impl Router {
    fn new(script: &mut Script<'_>) -> Router {
        let flags = script.byte();
        let limit = if flags & 1 == 0 { usize::MAX } else { 1 << 20 };
        let memory = Arc::new(Memory::new(limit, PEERS));
        let rule = |prefix: &str, treatment| AddressRule {
            matches: AddressMatch::Prefix(prefix.to_owned()),
            attributes: AddressAttributes {
                treatment: Some(treatment),
                alert_count: (flags & 2 == 0).then_some(Marks { up: 3, down: 1 }),
                ..AddressAttributes::default()
            },
        };
        let rules = vec![rule("multicast", Treatment::Multicast), rule("closest", Treatment::Closest)];
        let settings = RouterSettings {
            rules: AddressRules::new(rules).expect("two prefixes"),
            flow_control: if flags & 4 == 0 { FlowControl::Share } else { FlowControl::Capacity },
            memory: memory.clone(),
            ..RouterSettings::default()
        };
        let shards = 1 + u16::from(flags & 8 != 0);
        let engine = Settings {
            max_frame_size: 512 << (flags >> 6),
            handle_max: 7,
            session_incoming_bytes: 64 * 1024,
            max_session_frames: (flags & 16 != 0).then_some(3),
            max_message_size: if flags & 32 == 0 { 0 } else { 3000 },
            unsettled_max: 20,
            memory: memory.clone(),
            ..Settings::default()
        };
        let dispatch = |shard| Dispatch::new(settings.clone(), ShardId(shard), shards, false, Time::ZERO);
        Router {
            shards: (0..shards).map(dispatch).collect(),
            next_index: vec![0; usize::from(shards)],
            lanes: VecDeque::new(),
            settings: Arc::new(engine),
            pool: Pool::counted(CHUNK_BYTES, 4, memory.clone()),
            memory,
            peers: Vec::new(),
            now: Time::ZERO,
        }
    }

    fn new_id(&mut self, shard: usize) -> ConnectionId {
        self.next_index[shard] += 1;
        ConnectionId { index: self.next_index[shard] - 1, generation: 0 }
    }

    // ── the script ──

    fn step(&mut self, script: &mut Script<'_>) {
        let choice = script.byte();
        let at = usize::from(choice & 3);
        if at >= self.peers.len() {
            return self.connect(script);
        }
        match choice >> 2 {
            0..=33 => self.speak(at, script),
            34..=49 => {
                let count = match script.byte() {
                    all @ 0..=99 => usize::from(all) * 1000,
                    few => usize::from(few - 99),
                };
                self.read(at, count);
                self.turn(script.byte());
            }
            50..=55 => self.turn(script.byte()),
            56 | 57 => {
                self.now = Time(self.now.0 + u64::from(script.number()) * 1_000_000);
                self.expire();
                self.turn(255);
            }
            58 if script.wrong() => self.hang_up(at, true),
            59 if script.byte() > 200 => self.hang_up(at, false),
            60 if script.wrong() => self.shards[0].stop(),
            _ => {}
        }
    }

    fn connect(&mut self, script: &mut Script<'_>) {
        let shard = usize::from(script.byte()) % self.shards.len();
        let id = self.new_id(shard);
        self.shards[shard].accepted(id, &self.settings, 1 + u32::from(script.byte() % 20), self.now);
        let mut peer = Peer {
            shard,
            id,
            written: PROTOCOL_HEADER_AMQP.to_vec(),
            sessions: Default::default(),
            open: true,
            headers: false,
        };
        let container_id = ["peer-0", "peer-1", "peer-2", "peer-3"][self.peers.len()];
        peer.write(0, &Performative::Open(wire::Open { container_id, max_frame_size: 512, ..wire::Open::default() }));
        for channel in 0..2 {
            let incoming_window = if script.wrong() { script.number() } else { 100 };
            peer.write(
                channel,
                &Performative::Begin(wire::Begin { incoming_window, outgoing_window: 100, ..wire::Begin::default() }),
            );
        }
        self.peers.push(peer);
    }

    /// A frame of a peer's, right as a rule.
    fn speak(&mut self, at: usize, script: &mut Script<'_>) {
        let peer = &mut self.peers[at];
        let place = script.byte();
        let (channel, handle) = (u16::from(place & 1), usize::from(place >> 1) % 4);
        let session = &mut peer.sessions[usize::from(channel)];
        let link = &mut session.links[handle];
        let sends = handle % 2 == 0;
        if script.wrong() {
            return peer.speak_wrongly(channel, script);
        }
        if !link.attached {
            return peer.attach(channel, handle, script);
        }
        match script.byte() % 16 {
            0 => {
                *link = Link::default();
                let detach = wire::Detach { handle: handle as u32, closed: script.flag(), error: None };
                peer.write(channel, &Performative::Detach(detach));
            }
            1 if script.byte() > 240 => {
                *session = Session::default();
                peer.write(channel, &Performative::End(wire::End::default()));
                let window = script.number();
                let begin = wire::Begin { incoming_window: window, outgoing_window: 100, ..wire::Begin::default() };
                peer.write(channel, &Performative::Begin(begin));
            }
            _ if sends => peer.transfer(channel, handle, script),
            2..=8 => {
                let flow = wire::Flow {
                    next_incoming_id: Some(session.frames),
                    incoming_window: if script.wrong() { script.number() } else { 100 },
                    outgoing_window: 100,
                    handle: Some(handle as u32),
                    delivery_count: Some(link.deliveries),
                    link_credit: Some(script.number()),
                    drain: script.byte() > 200,
                    echo: script.byte() > 200,
                    ..wire::Flow::default()
                };
                peer.write(channel, &Performative::Flow(flow));
            }
            _ => {
                // The latest deliveries, as a rule all of them.
                let back = u32::from(script.byte() % 16);
                let disposition = wire::Disposition {
                    role: wire::Role::Receiver,
                    first: session.incoming.saturating_sub(back),
                    last: script.flag().then_some(session.incoming),
                    settled: script.byte() > 20,
                    state: script.state(),
                    batchable: false,
                };
                peer.write(channel, &Performative::Disposition(disposition));
            }
        }
    }

    // ── the router's side ──

    /// As many bytes as that of what a peer wrote arrive.
    fn read(&mut self, at: usize, count: usize) {
        let peer = &mut self.peers[at];
        let dispatch = &mut self.shards[peer.shard];
        let mut left = count.min(peer.written.len());
        while peer.open && left > 0 && dispatch.wants_input(peer.id) {
            let size = left.min(CHUNK_BYTES);
            let bytes: Vec<u8> = peer.written.drain(..size).collect();
            let chunk = self.pool.take();
            // SAFETY: a fresh chunk with place for the bytes, and no other range on it.
            let range: Range = unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), chunk.data(), size);
                chunk.range(0, size)
            };
            drop(chunk);
            dispatch.received(peer.id, range, self.now);
            left -= size;
        }
    }

    /// A turn of each shard. `room`: parcels that the lanes take.
    fn turn(&mut self, room: u8) {
        self.now = self.now + Duration::from_micros(1);
        for (from, to, parcel) in std::mem::take(&mut self.lanes) {
            self.shards[to].handle_parcel(ShardId(from as u16), parcel, self.now);
        }
        for shard in 0..self.shards.len() {
            loop {
                let mut touched = Vec::new();
                self.shards[shard].run(self.now, &mut touched);
                if touched.is_empty() {
                    break;
                }
                for id in touched {
                    self.flush(shard, id);
                }
            }
            let lanes = &mut self.lanes;
            self.shards[shard].flush_parcels(|to, parcel| {
                if lanes.len() >= usize::from(room) {
                    return Err(parcel);
                }
                lanes.push_back((shard, usize::from(to.0), parcel));
                Ok(())
            });
            self.shards[shard].flush_edges(|_, _| room > 10);
            while self.shards[shard].poll_report().is_some() {}
            self.move_on(shard);
        }
    }

    fn flush(&mut self, shard: usize, id: ConnectionId) {
        let Some(transmit) = self.shards[shard].poll_transmit(id) else { return };
        if let Some(peer) = self.peers.iter_mut().find(|peer| (peer.shard, peer.id) == (shard, id) && peer.open) {
            peer.take(&transmit.to_vec());
        }
        self.shards[shard].transmitted(transmit);
    }

    fn move_on(&mut self, shard: usize) {
        while let Some((id, to)) = self.shards[shard].poll_move() {
            let Some(moved) = self.shards[shard].take(id, self.now) else { panic!("what is to move is there") };
            let to = usize::from(to.0);
            let new = self.new_id(to);
            let peer = self.peers.iter_mut().find(|peer| (peer.shard, peer.id) == (shard, id));
            let peer = peer.expect("what moves has a peer");
            (peer.shard, peer.id) = (to, new);
            self.shards[to].adopt(new, moved, self.now);
        }
    }

    fn expire(&mut self) {
        for peer in self.peers.iter().filter(|peer| peer.open) {
            let dispatch = &mut self.shards[peer.shard];
            if dispatch.connection_timeout(peer.id).is_some_and(|at| at <= self.now) {
                dispatch.handle_timeout(peer.id, self.now);
            }
        }
    }

    /// A peer's socket ends, with what it wrote last or without.
    fn hang_up(&mut self, at: usize, reads: bool) {
        if reads {
            self.read(at, usize::MAX);
        }
        let peer = &mut self.peers[at];
        if std::mem::take(&mut peer.open) {
            let dispatch = &mut self.shards[peer.shard];
            dispatch.end_of_stream(peer.id, self.now);
            dispatch.closed(peer.id, self.now);
        }
        self.turn(255);
    }

    fn look(&self) {
        for dispatch in &self.shards {
            dispatch.router().check_invariants().expect("routing's counts fit together");
        }
    }

    fn end(&mut self) {
        for at in 0..self.peers.len() {
            self.hang_up(at, at % 2 == 0);
        }
        for _ in 0..20 {
            self.now = self.now + Duration::from_millis(100);
            self.turn(255);
        }
        for dispatch in &self.shards {
            dispatch.router().check_empty().expect("nothing is left");
        }
        assert_eq!(self.pool.in_use(), 0, "chunks are left");
        assert_eq!((self.memory.promised(), self.memory.connections()), (0, 0));
    }
}

impl Peer {
    fn write(&mut self, channel: u16, performative: &Performative<'_>) {
        let start = frame::begin(&mut self.written, frame::TYPE_AMQP, channel);
        performative.encode(&mut self.written);
        frame::finish(&mut self.written, start);
    }

    fn attach(&mut self, channel: u16, handle: usize, script: &mut Script<'_>) {
        let kind = script.byte();
        let receiver = handle % 2 == 1;
        let address = (kind < 220).then_some(ADDRESSES[usize::from(kind) % 4]);
        let dynamic = kind >= 240;
        let (mut source, mut target) = (Vec::new(), Vec::new());
        Source { address: address.filter(|_| receiver), dynamic: dynamic && receiver, ..Source::default() }
            .encode(&mut source);
        Target { address: address.filter(|_| !receiver), dynamic: dynamic && !receiver, ..Target::default() }
            .encode(&mut target);
        let attach = wire::Attach {
            name: ["a", "b", "c", "d"][handle],
            handle: handle as u32,
            role: if receiver { wire::Role::Receiver } else { wire::Role::Sender },
            snd_settle_mode: [wire::SenderSettleMode::Mixed, wire::SenderSettleMode::Settled]
                [usize::from(kind / 4 % 8 == 0)],
            rcv_settle_mode: [wire::ReceiverSettleMode::First, wire::ReceiverSettleMode::Second]
                [usize::from(kind / 4 % 8 == 1)],
            source: Some(&source),
            target: Some(&target),
            initial_delivery_count: (!receiver).then_some(0),
            max_message_size: (kind / 4 % 8 == 2).then_some(700),
            ..wire::Attach::default()
        };
        let link = Link { attached: true, anonymous: address.is_none() && !dynamic, ..Link::default() };
        self.sessions[usize::from(channel)].links[handle] = link;
        self.write(channel, &Performative::Attach(attach));
    }

    fn transfer(&mut self, channel: u16, handle: usize, script: &mut Script<'_>) {
        let session = &mut self.sessions[usize::from(channel)];
        let link = &mut session.links[handle];
        let (first, more, aborted) = (!link.arriving, script.byte() > 180, script.byte() > 230);
        let id = session.delivery_id;
        let settled = script.byte();
        let transfer = wire::Transfer {
            handle: handle as u32,
            delivery_id: first.then_some(id),
            delivery_tag: first.then_some(b"tag"),
            message_format: first.then_some(0),
            settled: (settled > 200).then_some(settled > 210),
            more,
            aborted,
            ..wire::Transfer::default()
        };
        session.delivery_id = id.wrapping_add(u32::from(first));
        link.arriving = more && !aborted;
        let mut payload = Vec::new();
        if first && link.anonymous {
            let address = ADDRESSES[usize::from(script.byte()) % 4].as_bytes();
            payload.extend([0x00, 0x53, 0x73, 0xc0, address.len() as u8 + 5, 3, 0x40, 0x40, 0xa1, address.len() as u8]);
            payload.extend(address);
        }
        let size = usize::from(script.byte());
        payload.extend(vec![0x75; if size < 200 { size } else { (size - 190) * 60 }]);
        // No larger than the smallest frame may be.
        payload.truncate(440);
        transfer.encode_frame(&mut self.written, channel, payload.len());
        self.written.extend(payload);
    }

    /// What a peer shouldn't say, or not now.
    fn speak_wrongly(&mut self, channel: u16, script: &mut Script<'_>) {
        let channel = if script.flag() { channel } else { u16::from(script.byte() % 5) };
        let performative = match script.byte() % 9 {
            0 => {
                let bytes = script.bytes();
                self.written.extend_from_slice(bytes);
                return;
            }
            1 => {
                let start = frame::begin(&mut self.written, script.byte() % 3, channel);
                let body = script.bytes();
                self.written.extend_from_slice(body);
                frame::finish(&mut self.written, start);
                return;
            }
            2 => Performative::Close(wire::Close::default()),
            3 => Performative::End(wire::End::default()),
            4 => Performative::Begin(wire::Begin { incoming_window: script.number(), ..wire::Begin::default() }),
            5 => Performative::Detach(wire::Detach { handle: script.number(), closed: script.flag(), error: None }),
            6 => Performative::Flow(wire::Flow {
                next_incoming_id: script.flag().then(|| script.number()),
                incoming_window: script.number(),
                next_outgoing_id: script.number(),
                outgoing_window: script.number(),
                handle: script.flag().then(|| script.number() % 8),
                delivery_count: script.flag().then(|| script.number()),
                link_credit: script.flag().then(|| script.number()),
                drain: script.flag(),
                echo: script.flag(),
                ..wire::Flow::default()
            }),
            7 => Performative::Disposition(wire::Disposition {
                role: if script.flag() { wire::Role::Receiver } else { wire::Role::Sender },
                first: script.number(),
                last: script.flag().then(|| script.number()),
                settled: script.flag(),
                state: script.state(),
                batchable: script.flag(),
            }),
            _ => Performative::Transfer(wire::Transfer {
                handle: script.number() % 8,
                delivery_id: script.flag().then(|| script.number()),
                more: script.flag(),
                aborted: script.flag(),
                resume: script.flag(),
                state: script.state(),
                ..wire::Transfer::default()
            }),
        };
        self.write(channel, &performative);
    }

    /// Reads what the router wrote.
    fn take(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        if !self.headers && rest.len() >= 8 {
            assert!(rest.starts_with(b"AMQP"), "a header comes first");
            self.headers = true;
            rest = &rest[8..];
        }
        while !rest.is_empty() {
            let header = frame::parse_header(rest.first_chunk().expect("whole frames")).expect("right headers");
            let (one, behind) = rest.split_at(header.size as usize);
            let body = &one[header.body_start()..];
            rest = behind;
            if body.is_empty() {
                continue;
            }
            let (performative, _) = Performative::decode(body).expect("right performatives");
            let Performative::Transfer(transfer) = performative else { continue };
            // A begin of ours is answered on the same channel: the router takes the lowest that is free.
            let Some(session) = self.sessions.get_mut(usize::from(header.channel)) else { continue };
            session.frames = session.frames.wrapping_add(1);
            session.incoming = transfer.delivery_id.unwrap_or(session.incoming);
            if let Some(link) = session.links.get_mut(transfer.handle as usize) {
                link.deliveries = link.deliveries.wrapping_add(u32::from(transfer.delivery_tag.is_some()));
            }
        }
    }
}

//! A steady flow of unsettled messages makes no heap allocation in the shard's thread, and no wait but its ring.
//!
//! A process of its own: the allocator counts what the shard's thread asks for, and nobody else's thread has its name.

use ringway::wire::performative::{Attach, Begin, Disposition, Flow, Open, Performative, Role, Transfer};
use ringway::wire::{frame, terminus, PROTOCOL_HEADER_AMQP};
use ringway::{engine, routing, shard};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// Allocations and reallocations of the thread that is named as shards are.
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static IS_SHARD: Cell<bool> = const { Cell::new(false) };
}

struct Counting;

/// The same by size: under 1, 2, 4, … bytes.
static BY_SIZE: [AtomicU64; 40] = [const { AtomicU64::new(0) }; 40];

fn count(size: usize) {
    let is_shard = IS_SHARD.try_with(|is_shard| {
        if !is_shard.get() {
            // Looked at each time, since a thread has another name until it has set its own.
            let mut name = [0u8; 16];
            // SAFETY: 16 bytes are what PR_GET_NAME writes.
            unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
            is_shard.set(name.starts_with(b"shard-"));
        }
        is_shard.get()
    });
    if is_shard == Ok(true) {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        let bits = (usize::BITS - size.leading_zeros()) as usize;
        BY_SIZE[bits.min(39)].fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: the system's allocator does it; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        System.alloc(layout)
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        System.dealloc(pointer, layout)
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        System.realloc(pointer, layout, size)
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A blocking client that speaks just enough AMQP, without a SASL layer.
struct Client {
    stream: TcpStream,
    input: Vec<u8>,
}

impl Client {
    fn connect(address: SocketAddr, name: &str) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut client = Client { stream, input: Vec::new() };
        let mut out = PROTOCOL_HEADER_AMQP.to_vec();
        frame_of(&mut out, |out| Open { container_id: name, ..Open::default() }.encode(out));
        let begin = Begin { incoming_window: 1 << 30, outgoing_window: 1 << 30, ..Begin::default() };
        frame_of(&mut out, |out| begin.encode(out));
        client.stream.write_all(&out).unwrap();
        let mut header = [0; 8];
        client.stream.read_exact(&mut header).unwrap();
        assert_eq!(header, PROTOCOL_HEADER_AMQP);
        client
    }

    fn attach(&mut self, role: Role, address: &str) {
        let (mut source, mut target) = (Vec::new(), Vec::new());
        terminus::Source { address: Some(address), ..terminus::Source::default() }.encode(&mut source);
        terminus::Target { address: Some(address), ..terminus::Target::default() }.encode(&mut target);
        let attach = Attach {
            name: "link",
            role,
            source: Some(&source),
            target: Some(&target),
            initial_delivery_count: (role == Role::Sender).then_some(0),
            ..Attach::default()
        };
        self.send(|out| attach.encode(out));
    }

    fn send(&mut self, body: impl FnOnce(&mut Vec<u8>)) {
        let mut out = Vec::new();
        frame_of(&mut out, body);
        self.stream.write_all(&out).unwrap();
    }

    /// Reads once and hands over each whole frame's performative.
    fn read(&mut self, mut each: impl FnMut(Performative<'_>)) {
        let mut chunk = [0; 65536];
        let count = self.stream.read(&mut chunk).unwrap();
        assert!(count > 0, "the router ended the connection");
        self.input.extend_from_slice(&chunk[..count]);
        let mut at = 0;
        while let Some(header) = self.input.get(at..at + 8) {
            let header = frame::parse_header(header.try_into().unwrap()).unwrap();
            let Some(body) = self.input.get(at + header.body_start()..at + header.size as usize) else { break };
            if !body.is_empty() {
                each(Performative::decode(body).unwrap().0);
            }
            at += header.size as usize;
        }
        self.input.drain(..at);
    }
}

fn frame_of(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = frame::begin(out, frame::TYPE_AMQP, 0);
    body(out);
    frame::finish(out, start);
}

/// Sends `count` messages of `body` bytes within the credit it is given; gives up nothing.
fn send_all(mut client: Client, count: u32, body: usize) {
    let mut message = vec![0x00, 0x53, 0x75, 0xb0];
    message.extend_from_slice(&(body as u32).to_be_bytes());
    message.resize(8 + body, b'x');
    let (mut sent, mut limit, mut settled) = (0u32, 0u32, 0u32);
    let mut out = Vec::new();
    while settled < count {
        client.read(|performative| match performative {
            Performative::Flow(flow) if flow.handle.is_some() => {
                limit = flow.delivery_count.unwrap_or(0) + flow.link_credit.unwrap_or(0)
            }
            Performative::Disposition(disposition) => {
                assert!(disposition.settled);
                settled += disposition.last.unwrap_or(disposition.first) - disposition.first + 1;
            }
            Performative::Detach(detach) => panic!("{detach:?}"),
            Performative::Close(close) => panic!("{close:?}"),
            _ => {}
        });
        out.clear();
        while sent < limit && sent < count {
            let tag = sent.to_be_bytes();
            let transfer = Transfer {
                delivery_id: Some(sent),
                delivery_tag: Some(&tag),
                message_format: Some(0),
                ..Transfer::default()
            };
            transfer.encode_frame(&mut out, 0, message.len());
            out.extend_from_slice(&message);
            sent += 1;
        }
        client.stream.write_all(&out).unwrap();
    }
}

/// Receives and accepts `count` messages, with credit topped up by halves; says so at `marks`.
fn receive_all(mut client: Client, count: u32, window: u32, mut at: impl FnMut(u32)) {
    let flow = |received: u32| Flow {
        next_incoming_id: Some(received),
        incoming_window: 1 << 30,
        next_outgoing_id: 0,
        outgoing_window: 1 << 30,
        handle: Some(0),
        delivery_count: Some(received),
        link_credit: Some(window),
        ..Flow::default()
    };
    client.send(|out| flow(0).encode(out));
    let (mut received, mut credited) = (0, window);
    while received < count {
        let first = received;
        client.read(|performative| match performative {
            Performative::Transfer(transfer) => {
                assert_eq!(transfer.delivery_id, Some(received));
                received += 1;
            }
            Performative::Detach(detach) => panic!("{detach:?}"),
            Performative::Close(close) => panic!("{close:?}"),
            _ => {}
        });
        if received == first {
            continue;
        }
        let accepted = Disposition {
            role: Role::Receiver,
            first,
            last: Some(received - 1),
            settled: true,
            state: Some(&[0x00, 0x53, 0x24, 0x45]),
            ..Disposition::default()
        };
        client.send(|out| accepted.encode(out));
        if credited - received <= window / 2 {
            credited = received + window;
            client.send(|out| flow(received).encode(out));
        }
        at(received);
    }
}

fn start(settings: engine::Settings) -> (SocketAddr, shard::ShardHandle) {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let listener =
        shard::Listener { number: 0, socket: Arc::new(socket), link_capacity: 250, engine: Arc::new(settings) };
    let settings = shard::ShardSettings {
        cores: vec![None],
        router: routing::RouterSettings::default(),
        busy_poll: Duration::ZERO,
        stop_deadline: Duration::from_secs(2),
        trace: false,
        moves: true,
    };
    (address, shard::spawn(settings, vec![listener]).unwrap().remove(0))
}

/// Allocations of the shard in the second half of `count` messages.
fn allocations_of(count: u32, body: usize) -> u64 {
    let (address, handle) = start(engine::Settings::default());
    let mut receiver = Client::connect(address, "receiver");
    receiver.attach(Role::Receiver, "steady");
    let mut sender = Client::connect(address, "sender");
    sender.attach(Role::Sender, "steady");
    let sending = std::thread::spawn(move || send_all(sender, count, body));
    let (mut warm, mut last) = (None, 0);
    receive_all(receiver, count, 500, |received| {
        let now = ALLOCATIONS.load(Ordering::Relaxed);
        if received >= count / 2 && warm.is_none() {
            warm = Some(now);
            BY_SIZE.iter().for_each(|size| size.store(0, Ordering::Relaxed));
        }
        if received < count {
            last = now;
        }
    });
    sending.join().unwrap();
    assert!(handle.mailbox.order(shard::Order::Stop).is_ok());
    handle.thread.join().unwrap().unwrap();
    last - warm.unwrap()
}

#[test]
fn a_steady_flow_allocates_nothing() {
    // One after the other: the counter is the process's.
    for body in [0, 100, 1500] {
        let count = 150_000;
        let allocations = allocations_of(count, body);
        // Pools and tables may still grow a little when the flow finds a new high.
        let sizes: Vec<u64> = BY_SIZE.iter().map(|size| size.load(Ordering::Relaxed)).collect();
        assert!(
            allocations <= 64,
            "{allocations} allocations for {count} messages of {body} bytes; under 1, 2, 4, … bytes: {sizes:?}"
        );
        println!("{body} bytes: {allocations} allocations after warming up");
    }
}

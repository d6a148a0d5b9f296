//! What one disposition says of thousands of deliveries is in memory once, and little of it is kept; a stream that waits takes little
//! more than its bytes. A program of its own for its allocator.

mod support;

use ringway::dispatch::Dispatch;
use ringway::engine::Settings;
use ringway::ids::{ConnectionId, ShardId};
use ringway::payload::Range;
use ringway::routing::{AddressAttributes, AddressMatch, AddressRule, AddressRules, RouterSettings, Treatment};
use ringway::time::Time;
use ringway::wire::performative::{Disposition, Flow, Role, Transfer};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;
use support::client::{first, wide_open, Client};
use support::mesh::{owned_by, Mesh};

thread_local! {
    /// Bytes that live, and the most of them.
    static LIVE: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

struct Counting;

fn count(more: usize, fewer: usize) {
    let _ = LIVE.try_with(|live| {
        let (now, most) = live.get();
        let now = (now + more).saturating_sub(fewer);
        live.set((now, most.max(now)));
    });
}

// SAFETY: passes everything on to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(0, layout.size());
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const COUNT: u32 = 4_000;
/// Of an error's description.
const TEXT_BYTES: usize = 12_000;
/// What a delivery's own way through the rooms may take.
const DELIVERY_BYTES: usize = 1_000;

struct World {
    dispatch: Dispatch,
    settings: Arc<Settings>,
    clients: Vec<Client>,
    now: Time,
}

fn id(client: usize) -> ConnectionId {
    ConnectionId { index: client as u32, generation: 0 }
}

impl World {
    fn new() -> World {
        let attributes = AddressAttributes { treatment: Some(Treatment::Multicast), ..AddressAttributes::default() };
        let rule = AddressRule { matches: AddressMatch::Pattern("multicast".into()), attributes };
        let rules = AddressRules::new(vec![rule]).expect("rules");
        let router = RouterSettings { rules, ..RouterSettings::default() };
        World {
            dispatch: Dispatch::new(router, ShardId(0), 1, false, Time::ZERO),
            settings: Arc::new(Settings::default()),
            clients: Vec::new(),
            now: Time::ZERO,
        }
    }

    fn connect(&mut self) -> usize {
        let index = self.clients.len();
        self.dispatch.accepted(id(index), &self.settings, 250, self.now);
        let mut client = Client::default();
        client.header_and_open();
        client.begin(0);
        self.clients.push(client);
        self.pump();
        index
    }

    fn receiver(&mut self, address: &str) -> usize {
        let index = self.connect();
        self.clients[index].attach_receiver(0, 0, "r", address);
        self.clients[index].credit(0, 0, 0, COUNT);
        self.pump();
        index
    }

    /// Sends all the messages, to these addresses in turns.
    fn send(&mut self, addresses: &[&str]) -> usize {
        let index = self.connect();
        let links = COUNT / 200;
        for link in 0..links {
            let address = addresses[link as usize % addresses.len()];
            self.clients[index].attach_sender(0, link, &format!("s{link}"), address);
        }
        self.pump();
        for number in 0..COUNT {
            self.clients[index].send(0, number % links, number, b"x");
            if number % 100 == 0 {
                self.pump();
            }
        }
        self.pump();
        index
    }

    fn turn(&mut self, reads: bool) -> bool {
        self.now = self.now + Duration::from_micros(1);
        for (index, client) in self.clients.iter_mut().enumerate() {
            if client.has_output() && self.dispatch.wants_input(id(index)) {
                self.dispatch.received(id(index), Range::copied(&client.take_output()), self.now);
            }
        }
        let mut touched = Vec::new();
        self.dispatch.run(self.now, &mut touched);
        for id in touched.iter().filter(|_| reads) {
            if let Some(transmit) = self.dispatch.poll_transmit(*id) {
                self.clients[id.index as usize].feed(&transmit.to_vec());
                self.dispatch.transmitted(transmit);
            }
        }
        !touched.is_empty()
    }

    fn pump(&mut self) {
        for _ in 0..5 {
            while self.turn(true) {}
        }
        self.clients.iter_mut().for_each(|client| drop(client.frames()));
    }

    /// A consumer rejects all that it has in one frame. How much more lives when that is done with, and at most meanwhile.
    fn reject_all(&mut self, consumer: usize, settled: bool) -> (usize, usize) {
        let mut state = vec![0x00, 0x53, 0x25, 0xd0, 0, 0, 0, 0, 0, 0, 0, 1];
        let mut error = vec![0x00, 0x53, 0x1d, 0xd0, 0, 0, 0, 0, 0, 0, 0, 2, 0xa3, 1, b'c', 0xb1];
        error.extend((TEXT_BYTES as u32).to_be_bytes());
        error.resize(error.len() + TEXT_BYTES, b'd');
        let length = error.len() as u32 - 8;
        error[4..8].copy_from_slice(&length.to_be_bytes());
        state.extend(error);
        let length = state.len() as u32 - 8;
        state[4..8].copy_from_slice(&length.to_be_bytes());
        let disposition = Disposition { role: Role::Receiver, last: Some(COUNT), settled, ..Disposition::default() };
        self.clients[consumer].disposition(0, Disposition { state: Some(&state), ..disposition });
        let (before, _) = LIVE.get();
        LIVE.set((before, before));
        while self.turn(false) {}
        let (live, most) = LIVE.get();
        (live.saturating_sub(before), most - before)
    }
}

#[test]
fn what_one_frame_says_of_all_is_there_once() {
    for settled in [false, true] {
        let mut world = World::new();
        let consumer = world.receiver("q");
        world.send(&["q"]);
        assert_eq!(world.dispatch.router().deliveries_len(), COUNT as usize);
        let (live, most) = world.reject_all(consumer, settled);
        assert!(most < COUNT as usize * DELIVERY_BYTES, "{live}, {most}");
        assert_eq!(world.dispatch.router().deliveries_len(), 0);
    }
}

#[test]
fn a_sender_that_does_not_read_is_told_the_whole_error_up_to_a_bound() {
    let mut world = World::new();
    let (consumer, _other) = (world.receiver("q"), world.receiver("p"));
    // Every other one, so each is told in a frame of its own.
    world.send(&["q", "p"]);
    let (live, most) = world.reject_all(consumer, true);
    assert!(most < COUNT as usize * DELIVERY_BYTES + (4 << 20), "{live}, {most}");
    assert_eq!(world.dispatch.router().deliveries_len(), COUNT as usize / 2);
}

#[test]
fn what_a_multicast_keeps_for_its_sender_is_there_once() {
    let mut world = World::new();
    let (consumer, other) = (world.receiver("multicast"), world.receiver("multicast"));
    world.send(&["multicast"]);
    assert!(world.dispatch.router().deliveries_len() >= 2 * COUNT as usize);
    let (live, most) = world.reject_all(consumer, true);
    assert!(live < COUNT as usize * 100 && most < COUNT as usize * DELIVERY_BYTES, "{live}, {most}");
    world.clients[other].accept(0, 0, Some(COUNT));
    world.pump();
    assert_eq!(world.dispatch.router().deliveries_len(), 0);
}

/// A stream waits, at the shard of a consumer that takes nothing, behind a message that does.
#[test]
fn a_stream_of_tiny_frames_takes_little_where_it_waits() {
    const FRAMES: u32 = 50_000;
    const BEGUN: usize = 100_000;
    let mut mesh = Mesh::new(2).stay();
    let address = owned_by(0, 2, "queue");
    let (whole, stream, consumer) = (mesh.connect(0), mesh.connect(0), mesh.connect(1));
    mesh.client(consumer).attach_receiver(0, 0, "r", &address);
    mesh.client(consumer).flow(0, Flow { handle: Some(0), incoming_window: 0, ..wide_open(0, 10) });
    for sender in [whole, stream] {
        mesh.client(sender).attach_sender(0, 0, "s", &address);
    }
    mesh.pump();
    mesh.client(whole).send(0, 0, 0, b"whole");
    mesh.pump();
    let rest = Transfer { more: true, handle: 0, ..Transfer::default() };
    mesh.client(stream).transfer(0, Transfer { more: true, ..first(0, 0, b"t") }, b"");
    for _ in 0..BEGUN / 10_000 {
        mesh.client(stream).transfer(0, rest, &[b'y'; 10_000]);
    }
    mesh.pump();
    let mut before = 0;
    for number in 1..=FRAMES {
        // The first half grows what is kept.
        if number == FRAMES / 2 {
            (before, _) = LIVE.get();
        }
        mesh.client(stream).transfer(0, Transfer { more: number < FRAMES, ..rest }, b"x");
        if number % 100 == 0 {
            mesh.pump();
        }
    }
    let live = LIVE.get().0.saturating_sub(before);
    assert!(live < 4 * FRAMES as usize / 2, "{live}");
    mesh.client(consumer).flow(0, wide_open(0, 0));
    mesh.client(consumer).frames();
    mesh.pump();
    let frames = mesh.client(consumer).frames();
    let bytes: usize = frames.iter().map(|frame| frame.payload().len()).sum();
    assert_eq!(bytes, b"whole".len() + BEGUN + FRAMES as usize);
    mesh.end();
}

/// A consumer that takes no more of a message asks for a drain again and again: the last one of them is answered, once.
#[test]
fn drains_that_wait_behind_a_message_are_one() {
    let mut mesh = Mesh::new(2).stay();
    let address = owned_by(0, 2, "queue");
    let (producer, consumer) = (mesh.connect(0), mesh.connect(1));
    mesh.client(producer).attach_sender(0, 0, "s", &address);
    mesh.client(consumer).attach_receiver(0, 0, "r", &address);
    let flow =
        |credit, incoming_window, drain| Flow { handle: Some(0), incoming_window, drain, ..wide_open(0, credit) };
    mesh.client(consumer).flow(0, flow(10, 0, false));
    mesh.pump();
    mesh.client(producer).send(0, 0, 0, b"x");
    mesh.pump();
    let mut before = 0;
    for number in 0..6_000 {
        if number == 1_000 {
            (before, _) = LIVE.get();
        }
        mesh.client(consumer).flow(0, flow(9, 0, true));
        mesh.sleep(Duration::from_millis(100));
    }
    let live = LIVE.get().0.saturating_sub(before);
    assert!(live < 100_000, "{live}");
    let all = Flow { handle: None, delivery_count: None, link_credit: None, ..flow(0, 100, false) };
    mesh.client(consumer).flow(0, all);
    mesh.client(consumer).frames();
    mesh.pump();
    assert_eq!(mesh.client(consumer).briefs(), ["transfer", "flow"]);
    mesh.end();
}

//! A client in a steady flow allocates nothing for a message, sent or received. A program of its own for its allocator.

use ringway::client::Client;
use ringway::engine::{Direction, Engine, Event, LinkAnswer, Settings, Transmit};
use ringway::ids::{DeliveryId, LinkHandle, LinkId};
use ringway::outcome::State;
use ringway::payload::{Packer, Payload, Pool, Range};
use ringway::time::Time;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: passes everything on to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const TOKEN: LinkId = LinkId { index: 0, generation: 0 };
const DELIVERY: DeliveryId = DeliveryId { index: 0, generation: 0 };
/// Messages each way in one round: less than an output takes before it is full.
const BATCH: u32 = 20;

/// A client with a link each way to a server that echoes.
struct Pair {
    client: Client,
    sender: LinkHandle,
    receiver: LinkHandle,
    server: Engine,
    server_sender: Option<LinkHandle>,
    packer: Packer,
    accepted: u32,
    received: u32,
    /// What the client's own work allocated.
    allocations: u64,
}

impl Pair {
    fn new() -> Pair {
        let mut client = Client::new(Settings::default(), None, Time::ZERO);
        let mut server = Engine::new(Arc::new(Settings::default()), Time::ZERO);
        let output = client.engine.poll_transmit().expect("header and open");
        server.handle_input(Range::copied(&output.to_vec()), Time::ZERO);
        while server.poll_event().is_some() {}
        let output = server.poll_transmit().expect("header and open");
        client.engine.handle_input(Range::copied(&output.to_vec()), Time::ZERO);
        while client.poll_event().is_some() {}
        let session = client.engine.begin_session().expect("a session");
        let sender = client.sender(session, TOKEN, "out", Some("a")).expect("a link");
        let receiver = client.receiver(session, TOKEN, "in", Some("a")).expect("a link");
        client.engine.grant(receiver, BATCH, false);
        let packer = Packer::new(Pool::new(64 * 1024, 8));
        let mut pair = Pair {
            client,
            sender,
            receiver,
            server,
            server_sender: None,
            packer,
            accepted: 0,
            received: 0,
            allocations: 0,
        };
        for _ in 0..4 {
            pair.pump();
        }
        pair
    }

    /// What each has to say goes to the other.
    fn pump(&mut self) {
        if let Some(output) = self.client.engine.poll_transmit() {
            let input = pack(&mut self.packer, &output);
            self.client.engine.give_output(output);
            self.server.handle_input(input, Time::ZERO);
            self.serve();
        }
        if let Some(output) = self.server.poll_transmit() {
            let input = pack(&mut self.packer, &output);
            self.server.give_output(output);
            let before = ALLOCATIONS.get();
            self.client.engine.handle_input(input, Time::ZERO);
            self.take();
            self.allocations += ALLOCATIONS.get() - before;
        }
    }

    fn serve(&mut self) {
        while let Some(event) = self.server.poll_event() {
            match event {
                Event::Attached { link, attach } => {
                    self.server.accept_link(link, TOKEN, LinkAnswer::default());
                    match attach.direction {
                        Some(Direction::Incoming) => self.server.grant(link, BATCH, false),
                        _ => self.server_sender = Some(link),
                    }
                }
                Event::Transfer(transfer) => {
                    self.server.dispose_incoming(transfer.wire, Some(State::ACCEPTED), true);
                    self.server.payload_released(transfer.wire.session, transfer.payload.len());
                    self.server.grant(transfer.link, 1, false);
                    if let Some(link) = self.server_sender {
                        self.server.send(link, DELIVERY, 0, false, true, transfer.payload);
                    }
                }
                _ => {}
            }
        }
    }

    /// The client's part of it.
    fn take(&mut self) {
        while let Some(event) = self.client.poll_event() {
            match event {
                Event::ReceiverDisposition { .. } => self.accepted += 1,
                Event::Transfer(transfer) => {
                    self.received += 1;
                    let engine = &mut self.client.engine;
                    engine.dispose_incoming(transfer.wire, Some(State::ACCEPTED), true);
                    engine.payload_released(transfer.wire.session, transfer.payload.len());
                    engine.grant(self.receiver, 1, false);
                }
                _ => {}
            }
        }
    }

    fn round(&mut self, body: &Range) {
        let before = ALLOCATIONS.get();
        for _ in 0..BATCH {
            self.client.engine.send(self.sender, DELIVERY, 0, false, true, Payload::from(body.clone()));
        }
        self.allocations += ALLOCATIONS.get() - before;
        self.pump();
        self.pump();
    }
}

/// As a read would bring it.
fn pack(packer: &mut Packer, output: &Transmit) -> Range {
    packer.pack(&output.to_vec())
}

#[test]
fn a_steady_flow_allocates_nothing() {
    for bytes in [100, 8_000] {
        let mut pair = Pair::new();
        let body = Range::copied(&vec![0; bytes]);
        // Until all vectors have their sizes.
        for _ in 0..40 {
            pair.round(&body);
        }
        pair.allocations = 0;
        (pair.accepted, pair.received) = (0, 0);
        for _ in 0..200 {
            pair.round(&body);
        }
        assert_eq!((pair.accepted, pair.received), (200 * BATCH, 200 * BATCH));
        assert_eq!(pair.allocations, 0, "{bytes} bytes");
    }
}

#[test]
fn the_counter_counts() {
    let before = ALLOCATIONS.get();
    drop(std::hint::black_box(vec![1u8]));
    assert_eq!(ALLOCATIONS.get() - before, 1);
}

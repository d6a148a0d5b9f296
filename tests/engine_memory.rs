//! What a peer's sessions and links cost is in the account while it is there, and goes when they do.
//!
//! A process of its own: the allocator counts the bytes that each test's thread holds.

mod support;

use ringway::engine::{Engine, Event, Settings};
use ringway::ids::{SessionNumber, WireDelivery};
use ringway::limits::SESSION_BYTES;
use ringway::memory::Memory;
use ringway::payload::Payload;
use ringway::wire::performative::{Begin, Flow, Performative};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use support::client::Client;
use support::pair::Pair;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

fn count(bytes: isize) {
    let _ = HELD.try_with(|held| held.set(held.get() + bytes));
}

// SAFETY: the system's allocator does it; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        System.alloc(layout)
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        System.dealloc(pointer, layout)
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        System.realloc(pointer, layout, size)
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What a connection may hold beside what is counted: buffers of its own, and the test's pool.
const UNCOUNTED_BYTES: usize = 512 * 1024;

fn settings(memory: &Arc<Memory>) -> Settings {
    Settings { memory: memory.clone(), ..Settings::default() }
}

/// Lets the client do something, and holds what the engine keeps after it against the account. The client keeps nothing.
fn assert_counted(what: &str, act: impl FnOnce(&mut Pair)) {
    let before = HELD.get();
    let memory = Arc::new(Memory::default());
    let mut pair = Pair::with(settings(&memory));
    pair.client.header_and_open();
    pair.pump();
    act(&mut pair);
    pair.client = Client::default();
    pair.events = Vec::new();
    let (held, counted) = ((HELD.get() - before) as usize, memory.used());
    assert!(held < counted + UNCOUNTED_BYTES, "{what}: {held} bytes are held, {counted} counted");
    drop(pair);
    assert_eq!((memory.used(), memory.promised()), (0, 0), "{what}");
}

/// Does something for each of some numbers, a few at a time, and forgets what came of it.
fn each(pair: &mut Pair, numbers: std::ops::Range<u32>, act: impl Fn(&mut Client, u32)) {
    for number in numbers.clone() {
        act(&mut pair.client, number);
        if number % 512 == 0 || number + 1 == numbers.end {
            pair.pump();
            pair.events.clear();
            pair.client.frames();
        }
    }
}

fn begin(client: &mut Client, channel: u32) {
    client.begin(channel as u16);
}

fn end(client: &mut Client, channel: u32) {
    client.end(channel as u16);
}

#[test]
fn sessions_are_counted() {
    assert_counted("begun", |pair| each(pair, 0..32_768, begin));
    assert_counted("all but one ended", |pair| {
        each(pair, 0..32_768, begin);
        each(pair, 0..32_767, end);
    });
    assert_counted("ended, and never by the client", |pair| {
        each(pair, 0..8_000, begin);
        each(pair, 0..8_000, |client, channel| client.detach(channel as u16, 7, true));
    });
}

/// What a session had unsettled once keeps its room.
#[test]
fn rings_of_unsettled_deliveries_are_counted() {
    const COUNT: u32 = 2_500;
    assert_counted("from the peer", |pair| {
        for channel in 0..40 {
            pair.client.begin(channel);
            pair.client.attach_sender(channel, 0, "s", "a");
            pair.pump();
            pair.engine.grant(pair.attached(), COUNT, false);
            pair.events.clear();
            let ids: Vec<WireDelivery> = (0..COUNT)
                .map(|id| {
                    pair.client.send(channel, 0, id, b"");
                    pair.pump();
                    pair.client.frames();
                    pair.events.clear();
                    WireDelivery { session: SessionNumber(channel), delivery_id: id }
                })
                .collect();
            ids.into_iter().for_each(|id| pair.accept_incoming(id));
            pair.pump();
            pair.client.frames();
        }
        assert_eq!(pair.engine.unsettled_count(), (0, 0));
    });
    assert_counted("to the peer", |pair| {
        for channel in 0..40 {
            pair.client.begin(channel);
            pair.client.attach_receiver(channel, 0, "r", "a");
            pair.client.credit(channel, 0, 0, COUNT);
            pair.pump();
            let link = pair.attached();
            for _ in 0..COUNT {
                let delivery = pair.next_delivery();
                pair.engine.send(link, delivery, 0, false, true, Payload::copied(b"x"));
                pair.pump();
            }
            pair.client.frames();
            pair.client.accept(channel, 0, Some(COUNT));
            pair.pump();
            pair.events.clear();
        }
        assert_eq!(pair.engine.unsettled_count(), (0, 0));
    });
}

#[test]
fn links_that_were_are_not_kept() {
    let attach = |client: &mut Client, handle: u32| {
        if handle % 2 == 0 {
            client.attach_sender(0, handle, &format!("link {handle}"), "a");
        } else {
            client.attach_receiver(0, handle, &format!("link {handle}"), "a");
        }
    };
    let detach = |client: &mut Client, handle: u32| client.detach(0, handle, true);
    assert_counted("attached and detached", |pair| {
        each(pair, 0..1, begin);
        each(pair, 0..60_000, attach);
        each(pair, 0..60_000, detach);
    });
    assert_counted("all but one detached", |pair| {
        each(pair, 0..1, begin);
        each(pair, 0..60_000, attach);
        each(pair, 0..59_999, detach);
    });
    assert_counted("ended with their session", |pair| {
        each(pair, 0..1, begin);
        each(pair, 0..60_000, attach);
        each(pair, 0..1, end);
    });
    assert_counted("all but one ended with their session", |pair| {
        each(pair, 0..2, begin);
        pair.client.attach_sender(1, 0, "stays", "a");
        each(pair, 0..60_000, attach);
        each(pair, 0..1, end);
    });
    assert_counted("all but one detached in each of many sessions", |pair| {
        for channel in 0..20 {
            each(pair, channel..channel + 1, begin);
            let name = |handle| format!("{channel} {handle}");
            let attach = |client: &mut Client, handle| {
                client.attach_sender(channel as u16, handle, &name(handle), "a");
            };
            each(pair, 0..20_000, attach);
            each(pair, 0..19_999, |client, handle| client.detach(channel as u16, handle, true));
        }
    });
}

#[test]
fn a_session_counts_until_both_ends_are_said_and_goes_along_with_its_connection() {
    let memory = Arc::new(Memory::default());
    let mut pair = Pair::with(settings(&memory));
    pair.client.header_and_open();
    each(&mut pair, 0..100, begin);
    let counted = |pair: &mut Pair| {
        pair.pump();
        memory.used() / SESSION_BYTES
    };
    assert_eq!(counted(&mut pair), 100);
    each(&mut pair, 0..10, end);
    assert_eq!(counted(&mut pair), 90);
    // A violation: the engine ends it, the client has still to.
    pair.client.detach(10, 7, true);
    assert_eq!(counted(&mut pair), 90);
    pair.client.end(10);
    assert_eq!(counted(&mut pair), 89);
    assert!(pair.engine.is_movable());
    let suspended = pair.engine.suspend();
    pair.engine = Engine::resume(suspended);
    assert_eq!(counted(&mut pair), 89);
    pair.client.end(11);
    assert_eq!(counted(&mut pair), 88);
    pair.client.close();
    pair.pump();
    assert_eq!(memory.used(), 0);
}

#[test]
fn no_session_begins_while_memory_is_full() {
    let memory = Arc::new(Memory::new(16 << 20, usize::MAX));
    let mut pair = Pair::opened(settings(&memory));
    let used = memory.limit() / 16 * 15;
    memory.add(used);
    pair.client.begin(1);
    pair.pump();
    let frames = pair.client.frames();
    let told: Vec<String> = frames.iter().map(|frame| frame.brief()).collect();
    assert_eq!(told, ["begin", "end amqp:resource-limit-exceeded"]);
    assert!(matches!(frames[0].performative(), Performative::Begin(Begin { incoming_window: 0, .. })));
    assert_eq!(pair.engine.session_count(), 1);
    pair.client.end(1);
    pair.pump();
    memory.remove(used);
    pair.client.begin(1);
    pair.pump();
    assert_eq!(pair.client.briefs(), ["begin"]);
    memory.add(used);
    // Who doesn't end what was refused gets no more of it.
    each(&mut pair, 2..1_000, begin);
    assert!(pair.engine.is_closed());
    assert_eq!(pair.engine.close_reason().unwrap().condition, "amqp:resource-limit-exceeded");
    memory.remove(used);
}

#[test]
fn begins_take_no_windows_from_others() {
    let memory = Arc::new(Memory::new(256 << 20, usize::MAX));
    let mut crowd = Pair::with(settings(&memory));
    crowd.client.header_and_open();
    for channel in 0..16_000 {
        crowd.client.begin(channel);
    }
    crowd.pump();
    let begins = crowd.client.frames();
    let is_open = |begin: &Begin<'_>| begin.incoming_window > 0;
    assert!(begins.iter().skip(1).all(|frame| matches!(frame.performative(), Performative::Begin(b) if is_open(&b))));
    let most = crowd.engine.settings().connection_incoming_bytes;
    assert!(memory.promised() <= most, "{} bytes are promised", memory.promised());
    let mut other = Pair::with(settings(&memory));
    other.client.header_and_open();
    other.client.begin(0);
    other.pump();
    let frames = other.client.frames();
    let Performative::Begin(begin) = frames[1].performative() else { panic!("{frames:?}") };
    assert!(begin.incoming_window >= 2, "{begin:?}");
}

#[test]
fn a_session_beyond_its_connections_share_goes_on_frame_by_frame() {
    let memory = Arc::new(Memory::default());
    let mut pair = Pair::with(Settings { connection_incoming_bytes: 0, ..settings(&memory) });
    pair.client.header_and_open();
    pair.client.begin(0);
    pair.add_sender(0, "s", 1_000);
    pair.client.frames();
    pair.events.clear();
    for id in 0..100 {
        pair.client.send(0, 0, id, b"x");
        pair.pump();
        assert_eq!(memory.promised(), 0);
        // Held: no more comes until it left.
        assert!(pair.client.briefs().is_empty());
        for event in pair.events() {
            if let Event::Transfer(transfer) = event {
                pair.engine.payload_released(transfer.wire.session, transfer.payload.len());
            }
        }
        pair.pump();
        let frames = pair.client.frames();
        let flow = frames.last().map(|frame| frame.performative());
        assert!(matches!(flow, Some(Performative::Flow(Flow { incoming_window: 1, .. }))), "{frames:?}");
    }
}

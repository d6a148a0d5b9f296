//! engine: one operation is one unsettled message of 100 bytes: transfer in on one connection, out on another,
//! disposition in there and out here, credit both ways, in batches of 64.

use ringway::engine::{Engine, Event, LinkAnswer, Settings, Transmit};
use ringway::ids::{DeliveryId, LinkHandle, LinkId, WireDelivery};
use ringway::payload::{Chunk, Pool, Range};
use ringway::time::Time;
use ringway::wire::performative::{Attach, Begin, Disposition, Flow, Open, Role, Transfer};
use ringway::wire::{frame, state, PROTOCOL_HEADER_AMQP};
use std::hint::black_box;
use std::sync::Arc;

use crate::Scenario;

pub const SCENARIOS: &[Scenario] = &[("engine/steady", steady)];

const BATCH: u64 = 64;
const BODY: [u8; 105] = [7; 105];

/// A connection with one link, and what a client writes to it.
struct Side {
    engine: Engine,
    link: LinkHandle,
    pool: Pool,
    bytes: Vec<u8>,
}

fn framed(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = frame::begin(out, frame::TYPE_AMQP, 0);
    body(out);
    frame::finish(out, start);
}

impl Side {
    fn new(role: Role) -> Side {
        let mut side = Side {
            engine: Engine::new(Arc::new(Settings::default()), Time::ZERO),
            link: LinkHandle { index: 0, generation: 0 },
            pool: Pool::new(64 * 1024, 4),
            bytes: Vec::with_capacity(64 * 1024),
        };
        side.bytes.extend_from_slice(&PROTOCOL_HEADER_AMQP);
        framed(&mut side.bytes, |out| Open { container_id: "c", ..Open::default() }.encode(out));
        framed(&mut side.bytes, |out| Begin { incoming_window: 1 << 30, ..Begin::default() }.encode(out));
        framed(&mut side.bytes, |out| Attach { name: "l", role, ..Attach::default() }.encode(out));
        side.read();
        while let Some(event) = side.engine.poll_event() {
            if let Event::Attached { link, .. } = event {
                side.link = link;
                side.engine.accept_link(link, LinkId { index: 1, generation: 1 }, LinkAnswer::default());
            }
        }
        side.engine.give_output(Transmit::with_capacity(64 * 1024, 16));
        side
    }

    /// What a read brings: the bytes at hand.
    fn read(&mut self) {
        let chunk = self.pool.take();
        // SAFETY: a chunk that nobody else holds, and fewer bytes than it has.
        let range: Range = unsafe {
            std::ptr::copy_nonoverlapping(self.bytes.as_ptr(), chunk.data(), self.bytes.len());
            chunk.range(0, self.bytes.len())
        };
        self.bytes.clear();
        self.engine.handle_input(range, Time::ZERO);
    }

    fn write(&mut self) {
        if let Some(mut transmit) = self.engine.poll_transmit() {
            black_box(&transmit.bytes);
            transmit.clear();
            self.engine.give_output(transmit);
        }
    }
}

/// A read of a batch of transfers that is written once; for each batch only ids and tags change.
struct Batch {
    chunk: Chunk,
    len: usize,
    /// Where a transfer's id and its tag stand.
    ids: Vec<(usize, usize)>,
}

impl Batch {
    fn new(pool: &Pool) -> Batch {
        let (mut bytes, mut ids) = (Vec::new(), Vec::new());
        for _ in 0..BATCH {
            let (id, tag) = (0x7151_4131u32, 0x7151_4232u32.to_be_bytes());
            let transfer = Transfer {
                delivery_id: Some(id),
                delivery_tag: Some(&tag),
                message_format: Some(0),
                ..Transfer::default()
            };
            let start = bytes.len();
            transfer.encode_frame(&mut bytes, 0, BODY.len());
            let at = |what: [u8; 4]| start + bytes[start..].windows(4).position(|w| w == what).expect("it is there");
            ids.push((at(id.to_be_bytes()), at(tag)));
            bytes.extend_from_slice(&BODY);
        }
        let chunk = pool.take();
        assert!(bytes.len() <= chunk.capacity());
        // SAFETY: a fresh chunk with place for the bytes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), chunk.data(), bytes.len()) };
        Batch { chunk, len: bytes.len(), ids }
    }

    fn read(&mut self, first: u32) -> Range {
        assert!(self.chunk.is_unique());
        for (id, &(id_at, tag_at)) in (first..).zip(&self.ids) {
            let bytes = id.to_be_bytes();
            // SAFETY: inside the chunk, on which no range lies.
            unsafe {
                self.chunk.data().add(id_at).cast::<[u8; 4]>().write(bytes);
                self.chunk.data().add(tag_at).cast::<[u8; 4]>().write(bytes);
            }
        }
        // SAFETY: filled, and changed only when nobody holds a range.
        unsafe { self.chunk.range(0, self.len) }
    }
}

fn steady(count: u64) {
    let (mut from, mut to) = (Side::new(Role::Sender), Side::new(Role::Receiver));
    let mut batch = Batch::new(&from.pool);
    from.engine.grant(from.link, 1_000, false);
    let mut first = 0u32;
    let mut wires: Vec<WireDelivery> = Vec::with_capacity(BATCH as usize);
    for _ in 0..count.div_ceil(BATCH) {
        let flow = Flow {
            next_incoming_id: Some(first),
            incoming_window: 1 << 30,
            handle: Some(0),
            delivery_count: Some(first),
            link_credit: Some(1_000),
            ..Flow::default()
        };
        framed(&mut to.bytes, |out| flow.encode(out));
        to.read();
        while let Some(event) = to.engine.poll_event() {
            black_box(&event);
        }
        from.engine.handle_input(batch.read(first), Time::ZERO);
        while let Some(event) = from.engine.poll_event() {
            let Event::Transfer(transfer) = event else { continue };
            let delivery = DeliveryId { index: wires.len() as u32, generation: 0 };
            wires.push(transfer.wire);
            let (session, bytes) = (transfer.wire.session, transfer.payload.len());
            from.engine.set_incoming_token(transfer.wire, delivery);
            black_box(to.engine.send(to.link, delivery, 0, false, true, transfer.payload));
            from.engine.payload_released(session, bytes);
        }
        to.write();
        let accepted = Disposition {
            role: Role::Receiver,
            first,
            last: Some(first + BATCH as u32 - 1),
            settled: true,
            state: Some(&state::ACCEPTED),
            batchable: false,
        };
        framed(&mut to.bytes, |out| accepted.encode(out));
        to.read();
        while let Some(event) = to.engine.poll_event() {
            let Event::ReceiverDisposition { delivery, state, settled, .. } = event else { continue };
            from.engine.dispose_incoming(wires[delivery.index as usize], state, settled);
            from.engine.grant(from.link, 1, false);
        }
        wires.clear();
        from.write();
        first += BATCH as u32;
    }
    assert_eq!(from.engine.unsettled_count(), (0, 0));
}

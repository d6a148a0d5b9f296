//! Messages larger than anything the router may hold: they stream, and its memory stays where it was.

mod support;

use std::io::Read;
use std::time::{Duration, Instant};
use support::amqp::*;
use support::raw::Raw;
use support::router::{Router, PLAIN};

const MESSAGE_BYTES: usize = 100 * 1024 * 1024;
const FRAME_PAYLOAD_BYTES: usize = 16_000;
const RECEIVER_BYTES_A_SECOND: usize = 10 * 1024 * 1024;
const GROWTH_KIB_MAX: u64 = 16 * 1024;

/// Byte `position` of the message's body.
fn pattern(position: usize) -> u8 {
    (position / 251 + position) as u8
}

/// The head of a message of one data section.
fn head() -> Vec<u8> {
    let mut head = vec![0x00, 0x53, 0x75, 0xb0];
    head.extend((MESSAGE_BYTES as u32).to_be_bytes());
    head
}

/// Writes the message as fast as the router takes it, keeping to its session window.
fn send_large_message(raw: &mut Raw) {
    let mut position = 0;
    let mut frame = transfer_frame(0, 0, &head());
    let mut frames_sent = 0u32;
    let mut window_end = raw.window_end();
    loop {
        let count = FRAME_PAYLOAD_BYTES.min(MESSAGE_BYTES - position);
        frame.payload.extend((position..position + count).map(pattern));
        position += count;
        let is_last = position == MESSAGE_BYTES;
        if !is_last {
            frame = frame.with(transfer::MORE, true);
        }
        while (window_end.wrapping_sub(frames_sent) as i32) <= 0 {
            raw.wait_for_flow();
            window_end = raw.window_end();
        }
        raw.send(&frame);
        frames_sent += 1;
        if is_last {
            return;
        }
        frame = Frame::new(TRANSFER).with(transfer::HANDLE, 0u32);
    }
}

/// Reads at a steady rate, straight from the socket, and checks every byte of the message. Gives the transfer's id.
fn receive_large_message(raw: &mut Raw) -> u32 {
    let began = Instant::now();
    let (mut input, mut chunk) = (Vec::new(), vec![0; 64 * 1024]);
    let (mut read, mut position, mut id) = (0usize, 0usize, None);
    let mut head = head();
    loop {
        let due = Duration::from_secs_f64(read as f64 / RECEIVER_BYTES_A_SECOND as f64);
        std::thread::sleep(due.saturating_sub(began.elapsed()));
        let count = raw.stream.read(&mut chunk).expect("the router sends");
        assert!(count > 0, "the stream ended after {position} bytes of the message");
        read += count;
        input.extend_from_slice(&chunk[..count]);
        while let Some(frame) = Frame::cut(&mut input) {
            if frame.code != TRANSFER {
                assert!(matches!(frame.code, EMPTY | FLOW), "{frame}");
                continue;
            }
            id = id.or(frame.field(transfer::DELIVERY_ID).number());
            let skip = head.len().min(frame.payload.len());
            assert_eq!(frame.payload[..skip], head[..skip]);
            head.drain(..skip);
            for byte in &frame.payload[skip..] {
                assert_eq!(*byte, pattern(position), "byte {position}");
                position += 1;
            }
            if !frame.field(transfer::MORE).is_true() {
                assert_eq!(position, MESSAGE_BYTES);
                return id.expect("the first frame has an id") as u32;
            }
        }
    }
}

#[test]
fn a_message_of_100_mb_passes_a_slow_receiver_in_little_memory() {
    let router = Router::start(PLAIN);
    let mut consumer = Raw::session(&router, "slow");
    consumer.attach_consumer(0, "large", 1);
    let mut producer = Raw::session(&router, "fast");
    let sender = producer.attach_sender(0, "large");
    producer.wait_for_limit(&sender, 1);
    router.reset_peak_memory();
    let idle = router.memory_kib("VmRSS");
    let sending = std::thread::spawn(move || {
        send_large_message(&mut producer);
        producer
    });
    consumer.stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a read timeout");
    let id = receive_large_message(&mut consumer);
    consumer.send(&disposition_frame(id, id, true, accepted()));
    let mut producer = sending.join().expect("the producer sends it all");
    producer.expect_outcomes(0, 0, ACCEPTED);
    let growth = router.memory_kib("VmHWM").saturating_sub(idle);
    println!("peak memory: {growth} KiB above {idle} KiB");
    assert!(growth < GROWTH_KIB_MAX, "peak memory grew by {growth} KiB above {idle} KiB");
}

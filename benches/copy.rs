//! Where `limits::COPY_BYTES_MAX` comes from: CPU a message for payloads that are copied into the output and for payloads that are sent
//! from the chunk that received them, over TCP on this machine.
//!
//! `cargo bench --bench copy`: for each size both ways by turns, medians; then what the router itself does, the bytes of a message
//! that it writes, and whether its payload goes out of the chunk that it came in.
//!
//! Bytes come from one socket in large reads and leave by another in sends of as much, as in a flood. A thread feeds the
//! first one, another drains the second; their time isn't counted.

#[allow(dead_code)]
#[path = "instructions/dispatch.rs"]
mod dispatch;

use ringway::limits;
use std::io::{IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// What the scenarios of the instruction counts are named by.
pub type Scenario = (&'static str, fn(u64));

/// A frame's header and performative, as the router writes them.
const HEAD_BYTES: usize = 40;
const SIZES: [usize; 8] = [256, 512, 1024, 2048, 4096, 8192, 16 * 1024, 32 * 1024];
const ROUNDS: usize = 9;
/// Bytes that go through in one round.
const ROUND_BYTES: usize = 64 * 1024 * 1024;

fn main() {
    println!("{:>8}{:>14}{:>14}{:>8}", "bytes", "copied µs", "ranges µs", "ratio");
    for size in SIZES {
        let (mut copied, mut ranges) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            copied.push(round(size, copy));
            ranges.push(round(size, lay));
        }
        let (copied, ranges) = (median(copied), median(ranges));
        println!("{size:>8}{copied:>14.3}{ranges:>14.3}{:>8.2}", ranges / copied);
    }
    println!("\nlimits::COPY_BYTES_MAX is {}. What the router does:", limits::COPY_BYTES_MAX);
    println!("{:>8}{:>16}{:>28}", "bytes", "bytes written", "sent from where it came");
    // In one frame each, as the router takes them by default.
    for size in SIZES.into_iter().filter(|size| size + 64 <= limits::MAX_FRAME_SIZE_DEFAULT as usize) {
        let output = dispatch::output_of_one(size);
        println!("{size:>8}{:>16}{:>28}", output.written, if output.in_place { "yes" } else { "no, copied once" });
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// CPU microseconds of this thread.
fn cpu() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid pointer.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let one = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
    let (two, _) = listener.accept().expect("a connection");
    for stream in [&one, &two] {
        stream.set_nodelay(true).expect("a TCP socket");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a TCP socket");
    }
    (one, two)
}

/// Carries a round's bytes as messages of `size`, and gives the CPU microseconds of one.
fn round(size: usize, carry: fn(&mut TcpStream, &[u8], usize, &mut Vec<u8>)) -> f64 {
    let (mut feed, mut from) = pair();
    let (mut to, mut drain) = pair();
    let feeding = std::thread::spawn(move || {
        let bytes = vec![b'x'; 256 * 1024];
        let mut left = ROUND_BYTES;
        while left > 0 {
            let now = left.min(bytes.len());
            feed.write_all(&bytes[..now]).expect("it is read");
            left -= now;
        }
    });
    let draining = std::thread::spawn(move || {
        let mut bytes = vec![0; 256 * 1024];
        while drain.read(&mut bytes).expect("a connection") > 0 {}
    });
    let (mut chunk, mut output) = (vec![0; limits::RECEIVE_CHUNK_BYTES], Vec::new());
    let (begin, mut carried, mut messages) = (cpu(), 0, 0);
    while carried < ROUND_BYTES {
        let count = from.read(&mut chunk).expect("a connection");
        carried += count;
        messages += count.div_ceil(size);
        carry(&mut to, &chunk[..count], size, &mut output);
    }
    let spent = cpu() - begin;
    drop(to);
    feeding.join().expect("it fed");
    draining.join().expect("it drained");
    spent / messages as f64
}

fn copy(to: &mut TcpStream, bytes: &[u8], size: usize, output: &mut Vec<u8>) {
    output.clear();
    for message in bytes.chunks(size) {
        output.extend_from_slice(&[0; HEAD_BYTES]);
        output.extend_from_slice(message);
    }
    to.write_all(output).expect("it is drained");
}

fn lay(to: &mut TcpStream, bytes: &[u8], size: usize, output: &mut Vec<u8>) {
    output.clear();
    output.resize(HEAD_BYTES * bytes.len().div_ceil(size), 0);
    let pieces = output.chunks(HEAD_BYTES).zip(bytes.chunks(size));
    let mut pieces: Vec<IoSlice<'_>> =
        pieces.flat_map(|(head, body)| [IoSlice::new(head), IoSlice::new(body)]).collect();
    let mut left = &mut pieces[..];
    while !left.is_empty() {
        // A thousand pieces are what one call takes.
        let some = left.len().min(1000);
        let count = to.write_vectored(&left[..some]).expect("it is drained");
        IoSlice::advance_slices(&mut left, count);
    }
}

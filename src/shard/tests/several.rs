//! Several turns: parcels by lanes and doorbells, connections that move with what is on their way.

use super::echo::{Manner, Running};
use crate::telemetry::Counters;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_millis(500);

fn sum(counters: &[Counters], of: impl Fn(&Counters) -> u64) -> u64 {
    counters.iter().map(of).sum()
}

/// Reads until `count` of these bytes came.
fn read_until(mut stream: &TcpStream, byte: u8, count: usize) {
    let (mut buffer, mut seen) = ([0; 4096], 0);
    while seen < count {
        let read = stream.read(&mut buffer).unwrap();
        assert!(read > 0, "the echo ended the connection");
        seen += buffer[..read].iter().filter(|read| **read == byte).count();
    }
}

#[test]
fn every_shard_accepts() {
    let running = Running::start_shards(2, 64, Manner::default(), DEADLINE);
    // One after the other: of many at once, a shard that is awake may take all.
    for _ in 0..50 {
        let stream = running.connect();
        (&stream).write_all(b"x").unwrap();
        read_until(&stream, b'x', 1);
    }
    let counters = running.stop_all();
    assert_eq!(sum(&counters, |counters| counters.connections_opened), 50);
    assert!(counters.iter().all(|counters| counters.connections_opened > 0), "{counters:?}");
}

#[test]
fn a_sleeping_shard_is_woken_for_each_parcel() {
    let running = Running::start_shards(2, 64, Manner { ask_at: Some(b'?'), ..Manner::default() }, DEADLINE);
    let stream = running.connect();
    for _ in 0..500 {
        (&stream).write_all(b"?").unwrap();
        read_until(&stream, b'A', 1);
    }
    let counters = running.stop_all();
    assert_eq!(sum(&counters, |counters| counters.parcels_in), 1000);
    let (rings, sleeps) = (sum(&counters, |counters| counters.doorbells), sum(&counters, |counters| counters.sleeps));
    assert!(rings > 0 && rings <= sleeps, "{counters:?}");
}

#[test]
fn lanes_that_are_full_lose_nothing() {
    let running = Running::start_shards(3, 1, Manner { ask_at: Some(b'?'), ..Manner::default() }, DEADLINE);
    let streams: Vec<TcpStream> = (0..6).map(|_| running.connect()).collect();
    for stream in &streams {
        (&*stream).write_all(&[b'?'; 3000]).unwrap();
    }
    for stream in &streams {
        read_until(stream, b'A', 3000);
    }
    let counters = running.stop_all();
    assert_eq!(sum(&counters, |counters| counters.parcels_in), 2 * 6 * 3000);
    assert!(sum(&counters, |counters| counters.lanes_full) > 0);
}

#[test]
fn a_connection_moves_with_all_that_is_on_its_way() {
    for ranges in [false, true] {
        let manner = Manner { ranges, move_at: Some(b'm'), greeting: 3_000_000, ..Manner::default() };
        let running = Running::start_shards(2, 64, manner, DEADLINE);
        let mut stream = running.connect();
        // Each of these moves it, at any point of what is read and sent.
        let sent: Vec<u8> =
            (0..8_000_000usize).map(|i| if i % 50_021 == 7 { b'm' } else { (i % 97) as u8 + 128 }).collect();
        let (mut writer, copy) = (stream.try_clone().unwrap(), sent.clone());
        let writing = std::thread::spawn(move || {
            writer.write_all(&copy).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        // So that a send is in flight that can't go on.
        std::thread::sleep(Duration::from_millis(100));
        let mut back = Vec::new();
        stream.read_to_end(&mut back).unwrap();
        writing.join().unwrap();
        assert!(back[..3_000_000].iter().all(|byte| *byte == b'g'));
        assert!(back[3_000_000..] == sent, "ranges: {ranges}");
        let counters = running.stop_all();
        let moves = sum(&counters, |counters| counters.moves_in);
        assert_eq!(moves, sum(&counters, |counters| counters.moves_out));
        assert!(moves > 10, "{moves}");
    }
}

#[test]
fn timers_go_with_a_connection_that_moves() {
    let silence = Duration::from_millis(150);
    let manner = Manner { silence: Some(silence), move_at: Some(b'm'), ..Manner::default() };
    let running = Running::start_shards(2, 64, manner, DEADLINE);
    let stream = running.connect();
    (&stream).write_all(b"m").unwrap();
    let begin = Instant::now();
    read_until(&stream, b't', 1);
    assert!(begin.elapsed() >= silence - Duration::from_millis(5), "{:?}", begin.elapsed());
    read_until(&stream, b't', 1);
    let counters = running.stop_all();
    assert_eq!(sum(&counters, |counters| counters.moves_in), 1);
}

#[test]
fn a_stop_waits_for_connections_on_their_way() {
    for _ in 0..20 {
        let manner = Manner { move_at: Some(b'm'), ..Manner::default() };
        let running = Running::start_shards(3, 1, manner, Duration::from_secs(20));
        let streams: Vec<TcpStream> = (0..8).map(|_| running.connect()).collect();
        for stream in &streams {
            (&*stream).write_all(b"x").unwrap();
            read_until(stream, b'x', 1);
        }
        for stream in &streams {
            (&*stream).write_all(b"m").unwrap();
        }
        // Each peer sees an end, none a reset.
        let reading: Vec<_> = streams
            .into_iter()
            .map(|mut stream| std::thread::spawn(move || stream.read_to_end(&mut Vec::new()).unwrap()))
            .collect();
        let begin = Instant::now();
        running.stop_all();
        assert!(begin.elapsed() < Duration::from_secs(10));
        for reading in reading {
            reading.join().unwrap();
        }
    }
}

#[test]
fn a_stop_ends_at_its_deadline_whatever_moves() {
    let manner = Manner { greeting: 50_000_000, move_at: Some(b'm'), ..Manner::default() };
    let running = Running::start_shards(2, 64, manner, Duration::from_millis(300));
    let stuck = running.connect();
    (&stuck).write_all(b"m").unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let begin = Instant::now();
    running.stop_all();
    assert!(begin.elapsed() < Duration::from_secs(5));
}

use super::echo::{Manner, Running};
use crate::engine;
use crate::shard::{Listener, Order};
use socket2::SockRef;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 % 251) as u8 + 1).collect()
}

/// Sends `len` bytes and reads them back.
fn echoes(mut stream: TcpStream, len: usize) {
    let sent = pattern(len);
    let mut writer = stream.try_clone().unwrap();
    let copy = sent.clone();
    let writing = std::thread::spawn(move || writer.write_all(&copy).unwrap());
    let mut back = vec![0; len];
    stream.read_exact(&mut back).unwrap();
    writing.join().unwrap();
    assert!(back == sent);
}

#[test]
fn small_and_large_echo_by_copy() {
    let running = Running::start(Manner::default());
    echoes(running.connect(), 1);
    echoes(running.connect(), 3_000_000);
    let counters = running.stop();
    assert_eq!(counters.connections_opened, 2);
    assert_eq!((counters.bytes_received, counters.bytes_sent), (3_000_001, 3_000_001));
}

#[test]
fn ranges_echo_from_the_chunks_that_received_them() {
    let running = Running::start(Manner { ranges: true, ..Manner::default() });
    echoes(running.connect(), 2);
    echoes(running.connect(), 3_000_000);
    running.stop();
}

#[test]
fn more_connections_than_buffers_on_offer() {
    let running = Running::start(Manner::default());
    let streams: Vec<TcpStream> = (0..300).map(|_| running.connect()).collect();
    for round in 0..3 {
        for stream in &streams {
            (&mut &*stream).write_all(&[round; 100]).unwrap();
        }
        for stream in &streams {
            let mut back = [9; 100];
            (&mut &*stream).read_exact(&mut back).unwrap();
            assert_eq!(back, [round; 100]);
        }
    }
    drop(streams);
    let counters = running.stop();
    assert_eq!(counters.connections_opened, 300);
}

#[test]
fn a_peer_that_reads_late_gets_all() {
    let running = Running::start(Manner { ranges: true, ..Manner::default() });
    let mut stream = running.connect();
    let sent = pattern(8_000_000);
    let mut writer = stream.try_clone().unwrap();
    let copy = sent.clone();
    let writing = std::thread::spawn(move || {
        writer.write_all(&copy).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    std::thread::sleep(Duration::from_millis(300));
    let mut back = vec![0; sent.len()];
    stream.read_exact(&mut back).unwrap();
    writing.join().unwrap();
    assert!(back == sent);
    // The peer ended its side; so does the echo.
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    running.stop();
}

#[test]
fn an_end_reaches_the_peer_behind_the_last_bytes() {
    let running = Running::start(Manner { end_at: Some(b'!'), greeting: 100_000, ..Manner::default() });
    let mut stream = running.connect();
    stream.write_all(b"bye!").unwrap();
    // Bytes behind the end, never read by the application: they must not reset what is on its way to us.
    stream.write_all(&[0; 5000]).unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    assert_eq!(&all[..100_000], [b'g'; 100_000]);
    assert!(all[100_000..].starts_with(b"bye!"));
    running.stop();
}

#[test]
fn timers_come_and_follow_activity() {
    let silence = Duration::from_millis(150);
    let running = Running::start(Manner { silence: Some(silence), ..Manner::default() });
    let mut stream = running.connect();
    let begin = Instant::now();
    let mut byte = [0];
    for _ in 0..4 {
        std::thread::sleep(Duration::from_millis(60));
        stream.write_all(b"x").unwrap();
        stream.read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"x");
    }
    stream.read_exact(&mut byte).unwrap();
    assert_eq!(byte, *b"t");
    let elapsed = begin.elapsed();
    assert!(elapsed >= Duration::from_millis(4 * 60) + silence, "{elapsed:?}");
    running.stop();
}

#[test]
fn a_stop_does_not_wait_for_a_peer_that_never_reads() {
    let running =
        Running::start_with_deadline(Manner { greeting: 50_000_000, ..Manner::default() }, Duration::from_millis(300));
    let stuck = running.connect();
    let idle = running.connect();
    std::thread::sleep(Duration::from_millis(100));
    let begin = Instant::now();
    running.stop();
    let elapsed = begin.elapsed();
    assert!(elapsed >= Duration::from_millis(250) && elapsed < Duration::from_secs(10), "{elapsed:?}");
    drop((stuck, idle));
}

#[test]
fn a_stop_with_nothing_open_is_quick() {
    let running = Running::start_with_deadline(Manner::default(), Duration::from_secs(30));
    let begin = Instant::now();
    running.stop();
    assert!(begin.elapsed() < Duration::from_secs(1));
}

#[test]
fn resets_and_vanished_peers_leave_nothing() {
    let running = Running::start(Manner { greeting: 1000, ..Manner::default() });
    for _ in 0..50 {
        let mut stream = running.connect();
        stream.write_all(&[1; 3000]).unwrap();
        // Unread bytes at the close: the peer sends a reset.
        drop(stream);
    }
    echoes_after_greeting(running.connect());
    let counters = running.stop();
    assert_eq!(counters.connections_opened, 51);
}

fn echoes_after_greeting(mut stream: TcpStream) {
    let mut greeting = vec![0; 1000];
    stream.read_exact(&mut greeting).unwrap();
    echoes(stream, 10_000);
}

#[test]
fn listeners_come_and_go_while_their_connections_stay() {
    let running = Running::start(Manner::default());
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let engine = Arc::new(engine::Settings::default());
    let listener = Listener { number: 5, socket: Arc::new(socket), link_capacity: 1, engine };
    running.order(|| Order::AddListener(listener.clone()));
    drop(listener);
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    echoes(stream.try_clone().unwrap(), 1000);

    running.order(|| Order::RemoveListener { number: 5 });
    let deadline = Instant::now() + Duration::from_secs(10);
    while TcpStream::connect(address).is_ok() {
        assert!(Instant::now() < deadline, "the removed listener still listens");
        std::thread::sleep(Duration::from_millis(5));
    }
    echoes(stream, 1000);
    echoes(running.connect(), 1000);
    running.stop();
}

/// Found: while each turn accepted somebody, no send was known to be over, so nobody was sent more than once.
#[test]
fn who_is_connected_is_served_while_others_come() {
    let running = Running::start(Manner::default());
    let mut stream = running.connect();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    // Fewer than wait to be accepted without loss.
                    let many: Vec<_> = (0..20).map(|_| running.connect()).collect();
                    let mut last = many.last().unwrap();
                    last.write_all(b"l").unwrap();
                    last.read_exact(&mut [0]).unwrap();
                    // So many ends in order would keep their ports for a minute.
                    let at_once = Some(Duration::ZERO);
                    many.iter().for_each(|stream| SockRef::from(stream).set_linger(at_once).unwrap());
                }
            });
        }
        // Another process may take the core away for a while, but not each time.
        let mut windows = (0..4).map(|_| longest_round_trip(&mut stream, Duration::from_millis(400)));
        let is_served = windows.any(|longest| longest < Duration::from_millis(25));
        over.store(true, Ordering::Relaxed);
        assert!(is_served);
    });
    drop(stream);
    running.stop();
}

fn longest_round_trip(stream: &mut TcpStream, time: Duration) -> Duration {
    let (begin, mut longest) = (Instant::now(), Duration::ZERO);
    while begin.elapsed() < time {
        let before = Instant::now();
        stream.write_all(b"x").unwrap();
        stream.read_exact(&mut [0]).unwrap();
        longest = longest.max(before.elapsed());
    }
    longest
}

//! Latency mode: shards that poll before they sleep.

use super::echo::{Manner, Running};
use std::io::{Read, Write};
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_millis(500);

fn manner() -> Manner {
    Manner { busy_poll: Duration::from_micros(500), ask_at: Some(b'?'), ..Manner::default() }
}

#[test]
fn what_comes_while_polling_is_served() {
    let running = Running::start_shards(1, 64, manner(), DEADLINE);
    let mut stream = running.connect();
    let mut byte = [0];
    for round in 0..200 {
        // Now within the time that it polls, now asleep.
        std::thread::sleep(Duration::from_micros(round % 10 * 100));
        stream.write_all(b"x").unwrap();
        stream.read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"x");
    }
    running.stop();
}

#[test]
fn parcels_reach_a_polling_shard_and_a_sleeping_one() {
    let running = Running::start_shards(2, 64, manner(), DEADLINE);
    let mut stream = running.connect();
    for round in 0..200 {
        std::thread::sleep(Duration::from_micros(round % 10 * 100));
        stream.write_all(b"?").unwrap();
        let mut answer = [0; 2];
        stream.read_exact(&mut answer).unwrap();
        assert!(answer.contains(&b'A'));
    }
    running.stop();
}

#[test]
fn a_shard_with_nothing_to_do_sleeps() {
    let running = Running::start_shards(1, 64, manner(), DEADLINE);
    let stream = running.connect();
    std::thread::sleep(Duration::from_millis(300));
    drop(stream);
    let begin = Instant::now();
    let counters = running.stop_all();
    assert!(begin.elapsed() < DEADLINE);
    // A sleep is one enter, polling some more each: not one each 50 microseconds of the whole time.
    assert!(counters[0].enters < 500, "{counters:?}");
}

#[test]
fn timers_come_on_time() {
    let silence = Duration::from_millis(20);
    let running = Running::start_shards(1, 64, Manner { silence: Some(silence), ..manner() }, DEADLINE);
    let mut stream = running.connect();
    let begin = Instant::now();
    stream.write_all(b"x").unwrap();
    let mut bytes = [0; 2];
    stream.read_exact(&mut bytes).unwrap();
    assert_eq!(bytes, *b"xt");
    assert!(begin.elapsed() >= silence);
    running.stop();
}

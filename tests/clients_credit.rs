//! Credit and balance with real clients: a slow consumer sets its senders' pace, faster consumers get more, a flood of
//! settled messages arrives whole.

mod support;

use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use support::amqp::*;
use support::programs::Running;
use support::raw::{Raw, Read1};
use support::router::{Router, PLAIN};

/// Rates are measured: the tests of this file take turns.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn python(program: &str, router: &Router, address: &str, arguments: &[&str]) -> Running {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/proton-python").join(program);
    let mut command = Command::new("/usr/bin/python3");
    Running::start(command.arg(program).arg(format!("amqp://{}", router.address())).arg(address).args(arguments))
}

/// What a program printed.
fn result(program: Running) -> Value {
    let output = program.finish(Duration::from_secs(120));
    serde_json::from_str(output.trim()).unwrap_or_else(|error| panic!("{error} in {output}"))
}

fn number(result: &Value, name: &str) -> f64 {
    result[name].as_f64().unwrap_or_else(|| panic!("{name} in {result}"))
}

/// 1 000 messages a second are taken; each of three senders would send many times that for a minute.
#[test]
fn a_slow_consumer_sets_its_senders_pace_and_memory_stays() {
    let _turn = turn();
    let router = Router::start(PLAIN);
    let consumer = python("paced.py", &router, "slow", &["1000", "100", "100", "3"]);
    let senders = [(); 3].map(|()| python("eager.py", &router, "slow", &["60"]));
    std::thread::sleep(Duration::from_secs(10));
    let early = router.memory_kib("VmRSS");
    std::thread::sleep(Duration::from_secs(49));
    let late = router.memory_kib("VmRSS");
    let (sent, taken) = (senders.map(result), result(consumer));
    assert!(sent.iter().all(|sent| sent["sent"] == sent["accepted"]), "nothing is lost");
    assert_eq!(taken["gapless"], true, "each sender's order is kept");
    // The messages that say the end aren't counted by the consumer.
    let each = sent.each_ref().map(|sent| number(sent, "sent"));
    assert_eq!(number(&taken, "taken") + 3.0, each.iter().sum::<f64>());
    assert!(each.iter().all(|count| (count / each[0] - 1.0).abs() < 0.1), "{each:?} are alike");
    let rate = number(&taken, "taken") / number(&taken, "seconds");
    assert!((900.0..=1010.0).contains(&rate), "{rate} a second");
    assert!(late.abs_diff(early) <= 1024, "{early} KiB after 10 s, {late} KiB after 60 s");
}

/// Three consumers that take 1, 2 and 4 ms, a sender that always has more.
#[test]
fn faster_consumers_get_more_in_proportion() {
    let _turn = turn();
    let router = Router::start(PLAIN);
    let consumers = ["1000", "2000", "4000"].map(|service| python("paced.py", &router, "work", &[service, "30", "16"]));
    let sender = python("eager.py", &router, "work", &["12"]);
    let results = consumers.map(result);
    drop(sender);
    let shares = results.each_ref().map(|result| number(result, "taken"));
    assert!(results.iter().all(|result| result["rising"] == true), "order is kept");
    let all: f64 = shares.iter().sum();
    for (share, parts) in shares.iter().zip([4.0, 2.0, 1.0]) {
        let expected = all * parts / 7.0;
        assert!((share / expected - 1.0).abs() <= 0.15, "{shares:?}: expected {expected}");
    }
}

/// A million settled messages of 100 bytes through one receiver, as fast as they go.
#[test]
fn a_settled_flood_arrives_whole() {
    const COUNT: u32 = 1_000_000;
    const BATCH: u32 = 200;
    const CREDIT: u32 = 1000;
    let _turn = turn();
    let router = Router::start(PLAIN);
    let mut raw = Raw::session(&router, "consumer");
    let link = raw.attach_consumer(0, "flood", CREDIT);
    let receiver = std::thread::spawn(move || {
        for number in 0..COUNT {
            let Read1::Frame(frame) = raw.read(Duration::from_secs(10)) else {
                panic!("message {number} of {COUNT} didn't arrive")
            };
            let body = &frame.payload[frame.payload.len() - 100..];
            assert_eq!(body[..4], number.to_be_bytes(), "order is kept");
            if (number + 1) % (CREDIT / 2) == 0 {
                raw.credit(&link, CREDIT);
            }
        }
    });
    let mut raw = Raw::session(&router, "producer");
    let link = raw.attach_sender(0, "flood");
    let mut sent = 0;
    while sent < COUNT {
        raw.wait_for_limit(&link, sent + 1);
        let limit = raw.limit(&link).expect("a limit");
        let until = limit.min(sent + BATCH).min(COUNT);
        let frames: Vec<Frame> = (sent..until)
            .map(|number| {
                let mut body = [0; 100];
                body[..4].copy_from_slice(&number.to_be_bytes());
                transfer_frame(0, number, &data_message(&body)).with(transfer::SETTLED, true)
            })
            .collect();
        raw.send_all(&frames);
        sent = until;
    }
    receiver.join().expect("all arrive");
}

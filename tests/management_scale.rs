//! Management at scale: thousands of addresses are made and read soon, and reading everything each second costs the shards little.
//!
//! Bounds are of the router's own CPU time, which a busy machine leaves alone. With `RINGWAY_MEASURE=1` there are ten thousand
//! addresses, and the time by the clock has its bound, too.

mod support;

use serde_json::{json, Value};
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::amqp::{transfer, transfer_frame};
use support::raw::Raw;
use support::router::Router;

/// What a thousand addresses may take.
const CREATION: Duration = Duration::from_secs(1);

fn manage(router: &Router, line: &[&str], input: &str) -> Value {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ringway"))
        .args([&["manage", "-b", &router.address()], line].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the tool starts");
    child.stdin.take().expect("its input").write_all(input.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// CPU time of the router's threads with a name that begins so.
fn cpu_time(router: &Router, name: &str) -> Vec<Duration> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", router.pid())).expect("the router runs");
    let mut times: Vec<(String, Duration)> = tasks
        .filter_map(|task| {
            let task = task.ok()?.path();
            let thread = std::fs::read_to_string(task.join("comm")).ok()?;
            let spent = std::fs::read_to_string(task.join("schedstat")).ok()?;
            let nanoseconds = spent.split_whitespace().next()?.parse().ok()?;
            thread.starts_with(name).then(|| (thread, Duration::from_nanos(nanoseconds)))
        })
        .collect();
    times.sort();
    times.into_iter().map(|(_, time)| time).collect()
}

#[test]
fn many_addresses_are_made_and_read_in_pages() {
    let is_measured = std::env::var_os("RINGWAY_MEASURE").is_some();
    let addresses: usize = if is_measured { 10_000 } else { 2000 };
    let bound = CREATION * addresses as u32 / 1000;
    let router = Router::start_shards(2, "");
    let one = |number| json!({"type": "address", "name": format!("a{number}"), "prefix": format!("queue/{number}")});
    let list = Value::Array((0..addresses).map(one).collect()).to_string();
    let (begun, before) = (Instant::now(), router.cpu_time());
    let made = manage(&router, &["create", "--stdin"], &list);
    let (took, spent) = (begun.elapsed(), router.cpu_time() - before);
    assert_eq!(made.as_array().map(Vec::len), Some(addresses));
    // The tool asks for 500 at a time.
    let (begun, before) = (Instant::now(), router.cpu_time());
    let read = manage(&router, &["query", "--type=address", "name", "prefix"], "");
    let (reading, read_spent) = (begun.elapsed(), router.cpu_time() - before);
    let names: std::collections::BTreeSet<&str> =
        read.as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(names.len(), addresses);
    println!("{addresses} addresses: made in {took:?}, {spent:?} of CPU; read in {reading:?}, {read_spent:?} of CPU");
    assert!(spent + read_spent < bound, "{spent:?} and {read_spent:?} of CPU");
    assert!(!is_measured || took < bound, "{took:?}");
}

/// 2000 addresses and 200 connections, all of it asked for once a second.
#[test]
fn reading_everything_each_second_takes_little_of_a_shard() {
    const SECONDS: u32 = 10;
    // Its clients say nothing, however long the preparation takes.
    let router = Router::start_as("idleTimeoutSeconds: 0", "", &["--shards", "2"]);
    let _consumers: Vec<Raw> = (0..200)
        .map(|number| {
            let mut raw = Raw::session(&router, &format!("consumer-{number}"));
            (0..10).for_each(|handle| drop(raw.attach_consumer(handle, &format!("queue/{number}/{handle}"), 10)));
            raw
        })
        .collect();
    let rest = Duration::from_secs(1);
    std::thread::sleep(rest);
    let (shards, control, begun) = (cpu_time(&router, "shard-"), router.cpu_time(), Instant::now());
    let (mut next, mut rounds) = (Instant::now(), 0);
    while begun.elapsed() < rest * SECONDS {
        let count =
            |entity: &str| manage(&router, &["query", &format!("--type={entity}")], "").as_array().unwrap().len();
        assert!(count("router.address") >= 2000 && count("router.link") >= 2000 && count("connection") >= 200);
        assert_eq!(count("router"), 1);
        rounds += 1;
        next += rest;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    let took = begun.elapsed();
    let spent: Vec<Duration> =
        cpu_time(&router, "shard-").iter().zip(&shards).map(|(now, then)| *now - *then).collect();
    let control = (router.cpu_time() - control).saturating_sub(spent.iter().sum());
    let share = |spent: Duration| 100.0 * spent.as_secs_f64() / f64::from(rounds);
    let shares: Vec<f64> = spent.iter().map(|spent| share(*spent)).collect();
    println!("{rounds} times in {took:?}: {shares:.2?} % of a shard a second, control {:.1} %", share(control));
    assert!(shares.iter().all(|share| *share <= 3.0), "{shares:?}");
}

/// A QUERY of all addresses, without a count.
fn everything(reply_to: &str) -> Vec<u8> {
    let text = |text: &str| [&[0xa1, text.len() as u8], text.as_bytes()].concat();
    let list = [&[0x40; 4][..], &text(reply_to)].concat();
    let pairs = ["operation", "QUERY", "entityType", "router.address"].map(text).concat();
    let properties = [&[0x00, 0x53, 0x73, 0xc0, list.len() as u8 + 1, 5], &*list].concat();
    let application_properties = [&[0x00, 0x53, 0x74, 0xc1, pairs.len() as u8 + 1, 4], &*pairs].concat();
    [&*properties, &application_properties, b"\x00\x53\x77\xc1\x01\x00"].concat()
}

/// More than are answered at once ask at once, twice each: everybody gets all rows, and who asks for few isn't behind them.
#[test]
fn many_who_ask_for_everything_get_it() {
    const ADDRESSES: u32 = 1200;
    let router = Router::start_as("idleTimeoutSeconds: 0", "", &["--shards", "2"]);
    let _consumers: Vec<Raw> = (0..12)
        .map(|number| {
            let mut raw = Raw::session(&router, &format!("consumer-{number}"));
            let first = number * ADDRESSES / 12;
            (0..ADDRESSES / 12).for_each(|n| drop(raw.attach_consumer(n, &format!("wide/{:04}", first + n), 1)));
            raw
        })
        .collect();
    let mut askers: Vec<(Raw, _)> = (0..16)
        .map(|number| {
            let mut raw = Raw::session(&router, &format!("asker-{number}"));
            raw.attach_consumer(0, &format!("reply/{number}"), 10);
            let link = raw.attach_sender(1, "$management");
            (raw, link)
        })
        .collect();
    for id in 0..2 {
        for (number, (asker, link)) in askers.iter_mut().enumerate() {
            asker.wait_for_limit(link, id + 1);
            let request = everything(&format!("reply/{number}"));
            asker.send(&transfer_frame(1, id, &request).with(transfer::SETTLED, true));
        }
    }
    let few = manage(&router, &["query", "--type=listener"], "");
    assert_eq!(few.as_array().map(Vec::len), Some(1));
    for (asker, _) in &mut askers {
        for _ in 0..2 {
            let (_, answer) = asker.receive_delivery();
            let mut seen = vec![false; ADDRESSES as usize];
            for at in answer.windows(9).filter(|at| at.starts_with(b"wide/")) {
                let number = std::str::from_utf8(&at[5..]).ok().and_then(|digits| digits.parse::<usize>().ok());
                seen[number.expect("an address of these")] = true;
            }
            assert!(seen.iter().all(|seen| *seen), "all rows");
        }
    }
}

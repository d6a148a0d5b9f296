//! Ten thousand connections that do nothing: what each costs, and that the next one works at once. What an idle router's memory consists of.

mod support;

use ringway::shard::raise_descriptor_limit;
use ringway::wire::performative::Role;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use support::flood::{receive_all, send_all, Client};
use support::router::{Router, PLAIN};

const CONNECTIONS: u64 = 10_000;
/// Descriptors beside those of the connections, in the test and in the router.
const DESCRIPTORS_SPARE: u64 = 200;
const KIB_EACH_MAX: u64 = 10;

#[test]
fn ten_thousand_idle_connections_are_small_and_the_next_one_works_at_once() {
    let limit = raise_descriptor_limit().expect("the limit can be raised");
    if limit < CONNECTIONS + DESCRIPTORS_SPARE {
        println!("skipped: no process here may open more than {limit} files");
        return;
    }
    let router = Router::start_with("    idleTimeoutSeconds: 0", PLAIN);
    let address: SocketAddr = router.address().parse().unwrap();
    let before = router.memory_kib("VmRSS");
    let idle: Vec<Client> = (0..CONNECTIONS)
        .map(|number| {
            let mut client = Client::connect(address, "idle");
            client.attach(Role::Receiver, &format!("idle.{number}"));
            client
        })
        .collect();

    let begin = Instant::now();
    let mut receiver = Client::connect(address, "one more");
    receiver.attach(Role::Receiver, "one.more");
    let mut sender = Client::connect(address, "one more");
    sender.attach(Role::Sender, "one.more");
    let sending = std::thread::spawn(move || send_all(sender, 1, 100));
    receive_all(receiver, 1, 1, |_| {});
    sending.join().unwrap();
    // Behind all the others' attaches.
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());

    let each = (router.memory_kib("VmRSS") - before) as f64 / CONNECTIONS as f64;
    println!("{each:.2} KiB each");
    assert!(each <= KIB_EACH_MAX as f64, "{each:.2} KiB each");
    drop(idle);
}

#[test]
fn memory_comes_in_small_pages() {
    let router = Router::start(PLAIN);
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{}/{name}", router.pid())).unwrap();
    let (status, pages) = (read("status"), read("smaps_rollup"));
    assert!(status.contains("THP_enabled:\t0"), "{status}");
    let huge = pages.lines().find(|line| line.starts_with("AnonHugePages:")).unwrap();
    let kib: u64 = huge.split_whitespace().nth(1).unwrap().parse().unwrap();
    // Where the system makes them unasked, there may be one from before the program's begin.
    assert!(kib <= 2048, "{huge}");
}

//! Several shards in the running router: where they run, what crosses between them, that it starts and stops as one.

mod support;

use ringway::wire::performative::Role;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use support::flood::{receive_all, send_all, Client};
use support::router::{Router, PLAIN};

type Counters = BTreeMap<String, u64>;

/// Each shard's counters, which the router logs when it gets SIGUSR1.
fn counters(router: &Router, shards: usize) -> Vec<Counters> {
    let lines = |router: &Router| -> Vec<String> {
        router.log().lines().filter(|line| line.contains(": Counters {")).map(str::to_string).collect()
    };
    let before = lines(router).len();
    // SAFETY: the router is the test's own child.
    unsafe { libc::kill(router.pid() as i32, libc::SIGUSR1) };
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let mut found = lines(router).split_off(before);
        if found.len() == shards {
            found.sort_by_key(|line| line.split_once("Shard ").map(|(_, rest)| rest.to_string()));
            return found.iter().map(|line| parse(line)).collect();
        }
        assert!(Instant::now() < deadline, "the router didn't log its counters\n{}", router.log());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// `… Counters { turns: 5, … }`
fn parse(line: &str) -> Counters {
    let (_, fields) = line.split_once("Counters {").expect("counters");
    let fields = fields.trim_end_matches(['}', ' ']).split(',').filter_map(|field| field.split_once(": "));
    fields.filter_map(|(name, value)| Some((name.trim().to_string(), value.trim().parse().ok()?))).collect()
}

fn sum(counters: &[Counters], name: &str) -> u64 {
    counters.iter().map(|counters| counters[name]).sum()
}

/// What grew between two looks.
fn growth(before: &[Counters], after: &[Counters], name: &str) -> u64 {
    sum(after, name) - sum(before, name)
}

fn cores() -> usize {
    // SAFETY: a set of this function's own, of the size that is told.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, std::mem::size_of::<libc::cpu_set_t>(), &mut set);
        libc::CPU_COUNT(&set) as usize
    }
}

/// Two shards where the machine has two cores.
fn two() -> usize {
    cores().min(2)
}

/// A client on each end of an address.
fn pair(router: &Router, place: &str) -> (Client, Client) {
    let address: SocketAddr = router.address().parse().unwrap();
    let mut receiver = Client::connect(address, "receiver");
    receiver.attach(Role::Receiver, place);
    let mut sender = Client::connect(address, "sender");
    sender.attach(Role::Sender, place);
    (receiver, sender)
}

/// Floods `pairs` addresses with `count` messages each, and gives the counters before and after the messages.
fn flood(router: &Router, pairs: usize, count: u32) -> (Vec<Counters>, Vec<Counters>) {
    let clients: Vec<_> = (0..pairs).map(|number| pair(router, &format!("place.{number}"))).collect();
    // Their links are attached, and what moves has moved.
    std::thread::sleep(Duration::from_millis(200));
    let before = counters(router, two());
    std::thread::scope(|scope| {
        for (receiver, sender) in clients {
            scope.spawn(move || send_all(sender, count, 100));
            scope.spawn(move || receive_all(receiver, count, 500, |_| {}));
        }
    });
    (before, counters(router, two()))
}

#[test]
fn each_shard_has_a_core_of_its_own() {
    let router = Router::start_as("", PLAIN, &[]);
    let mut pinned = BTreeSet::new();
    for task in std::fs::read_dir(format!("/proc/{}/task", router.pid())).unwrap() {
        let task = task.unwrap().path();
        if !std::fs::read_to_string(task.join("comm")).unwrap().starts_with("shard-") {
            continue;
        }
        let status = std::fs::read_to_string(task.join("status")).unwrap();
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim().to_string();
        assert!(list.parse::<u32>().is_ok(), "a shard may run on {list}");
        assert!(pinned.insert(list), "two shards on one core");
    }
    assert_eq!(pinned.len(), cores());
}

#[test]
fn more_shards_than_cores_are_capped_and_said_so() {
    let router = Router::start_as("", PLAIN, &["--shards", "60000"]);
    // Its port is open a moment before it says that it is operational.
    let deadline = Instant::now() + Duration::from_secs(10);
    while !router.log().contains("Operational") && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    let log = router.log();
    let expected = format!("60000 threads are asked for, {} are started", cores());
    assert!(log.contains(&expected), "{log}");
    assert!(log.contains(&format!("Operational, {} Threads Running", cores())), "{log}");
}

#[test]
fn nothing_crosses_between_connections_of_one_address() {
    let mut router = Router::start_shards(2, PLAIN);
    let (before, after) = flood(&router, 8, 12_500);
    assert_eq!(growth(&before, &after, "deliveries_in"), 100_000);
    assert_eq!(growth(&before, &after, "parcels_out"), 0, "{before:?}\n{after:?}");
    assert_eq!(sum(&before, "moves_in"), sum(&before, "moves_out"));
    if two() == 2 {
        assert!(sum(&before, "moves_in") > 0, "no connection was accepted elsewhere than its address lives");
        assert!(after.iter().all(|counters| counters["deliveries_in"] > 0), "one shard has it all: {after:?}");
    }
    router.stop();
}

#[test]
fn what_crosses_wakes_a_shard_at_most_once_a_sleep() {
    let mut router = Router::start_as("", PLAIN, &["--shards", "2", "--debug-no-moves"]);
    let (before, after) = flood(&router, 8, 5_000);
    assert_eq!(sum(&after, "moves_in"), 0);
    assert!(sum(&after, "doorbells") <= sum(&after, "sleeps"), "{after:?}");
    if two() == 2 {
        assert!(growth(&before, &after, "parcels_in") > 0, "nothing crossed: {after:?}");
    }
    router.stop();
}

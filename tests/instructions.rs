//! Instructions a message, counted by callgrind: they grow with the number of senders or consumers, thresholds cost where
//! nobody set one, or a message costs the pure rooms more than it may.
//!
//! The scenarios are those that `perf/instructions` counts; this program runs itself under callgrind with N and with 2 N
//! messages and takes the difference, so that start and set-up drop out. What a room asserts of itself counts too where
//! the build has it. An unoptimised build says nothing about instructions: there only the scenarios' names are checked.

#[path = "../benches/instructions/credit.rs"]
mod credit;
#[path = "../benches/instructions/dispatch.rs"]
mod dispatch;
#[path = "../benches/instructions/router.rs"]
mod router;

use std::path::Path;
use std::process::Command;
use std::thread;

/// As the scenarios' files want it: a name, and what to run N times.
type Scenario = (&'static str, fn(u64));

/// Messages: enough that what varies from run to run (the test harness's own threads) drops out.
const COUNT: u64 = 1000;
/// The same where a message costs tens of instructions.
const COUNT_SMALL: u64 = 100_000;
const NAME: &str = "RINGWAY_SCENARIO";
const OPERATIONS: &str = "RINGWAY_OPERATIONS";

/// Not a test: what runs under callgrind.
#[test]
#[ignore = "run under callgrind by the others"]
fn one_scenario() {
    let (Ok(name), Ok(count)) = (std::env::var(NAME), std::env::var(OPERATIONS)) else { return };
    find(&name)(count.parse().expect("a number of operations"));
}

fn find(name: &str) -> fn(u64) {
    let mut scenarios = router::SCENARIOS.iter().chain(credit::SCENARIOS).chain(dispatch::SCENARIOS);
    scenarios.find(|(known, _)| *known == name).unwrap_or_else(|| panic!("no scenario {name}")).1
}

fn count(name: &str, operations: u64) -> u64 {
    // As perf/instructions has it: of dispatch's scenarios what the rooms do.
    let only = name.starts_with("dispatch/").then_some("--toggle-collect=*::rooms::*");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .args(only)
        .arg(std::env::current_exe().expect("this program"))
        .args(["--exact", "--ignored", "--test-threads=1", "one_scenario"])
        .envs([(NAME, name), (OPERATIONS, &operations.to_string())])
        .output()
        .expect("valgrind runs");
    let log = String::from_utf8_lossy(&output.stderr);
    let collected = log.lines().find_map(|line| line.split_once("Collected : "));
    assert!(output.status.success(), "{name}: {log}");
    collected.and_then(|(_, number)| number.trim().parse().ok()).unwrap_or_else(|| panic!("{name}: {log}"))
}

/// Instructions an operation.
fn instructions(name: &str, operations: u64) -> f64 {
    let (once, twice) = thread::scope(|scope| {
        let twice = scope.spawn(|| count(name, 2 * operations));
        (count(name, operations), twice.join().expect("a count"))
    });
    let each = (twice as f64 - once as f64) / operations as f64;
    println!("{name}: {each:.1}");
    each
}

fn is_optimised() -> bool {
    let program = std::env::current_exe().expect("this program");
    let optimised = !program.parent().is_some_and(|path| path.ends_with(Path::new("debug/deps")));
    if !optimised {
        println!("not counted in an unoptimised build");
    }
    optimised
}

/// That `many` costs at most `times` what `few` does.
fn at_most(times: f64, many: &str, few: &str) {
    let _ = (find(many), find(few));
    if is_optimised() {
        let (few, many_instructions) = (instructions(few, COUNT), instructions(many, COUNT));
        assert!(few > 0.0 && many_instructions <= times * few, "{many}: {many_instructions}, of {few}");
    }
}

#[test]
fn ten_thousand_senders_cost_little_more_than_ten() {
    at_most(1.5, "routing/senders-10000", "routing/senders-10");
}

#[test]
fn two_thousand_consumers_cost_little_more_than_ten() {
    at_most(2.0, "routing/consumers-2000", "routing/consumers-10");
}

/// Every address has a depth, that management shows, threshold or not: keeping it is no threshold's cost. What a threshold
/// adds to that is at most 10 instructions for a message that comes and goes where none is set, and at most 30 where
/// one is; through the whole router the latter is checked again.
#[test]
fn thresholds_cost_a_few_instructions() {
    let names = ["threshold/depth-alone", "threshold/unconfigured", "threshold/configured"];
    let routing = ["routing/unsettled", "routing/unsettled-marks"];
    names.iter().chain(&routing).for_each(|name| _ = find(name));
    if !is_optimised() {
        return;
    }
    let [alone, unconfigured, configured] = names.map(|name| instructions(name, COUNT_SMALL));
    assert!(unconfigured - alone <= 10.0, "{unconfigured} with none configured, depth alone {alone}");
    assert!(configured - alone <= 30.0, "{configured} with one configured, depth alone {alone}");
    let [without, with] = routing.map(|name| instructions(name, COUNT));
    assert!(with - without <= 30.0, "{with} with marks, {without} without");
}

/// Transfer in, transfer out, disposition in, disposition out and the credit for it, batched as in a flood.
#[test]
fn a_message_costs_the_rooms_what_it_may() {
    for (name, bar) in [("dispatch/unsettled-100", 1200.0), ("dispatch/settled-100", 700.0)] {
        _ = find(name);
        if is_optimised() {
            let each = instructions(name, COUNT);
            assert!(each <= bar, "{name}: {each}");
        }
    }
}

//! Management asked by a real client: its addresses, requests good and bad, changes at run time, many rows.

mod support;

use std::path::Path;
use std::process::Command;
use std::time::Duration;
use support::programs::Running;
use support::router::{Router, PLAIN};

/// Runs a scenario of the program against a router of its own.
fn run(scenario: &str) {
    let router = Router::start(PLAIN);
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/proton-python/management.py");
    let mut command = Command::new("/usr/bin/python3");
    command.arg(program).args([scenario, "127.0.0.1", &router.port.to_string()]);
    let output = Running::start(&mut command).finish(Duration::from_secs(90));
    assert!(output.trim_end().ends_with("PASS"), "{output}\n{}", router.log());
}

#[test]
fn it_has_several_addresses_and_answers_to_any() {
    run("addresses");
}

#[test]
fn bodies_of_every_kind_have_their_status() {
    run("bodies");
}

#[test]
fn what_is_created_works_and_goes_again() {
    run("entities");
}

#[test]
fn an_operator_closes_traces_detaches_and_sets_marks() {
    run("connections");
}

#[test]
fn addresses_that_are_there_get_the_marks_of_their_own_rule() {
    run("marks");
}

#[test]
fn who_doesn_t_take_answers_gets_no_more() {
    run("slow");
}

#[test]
fn settled_requests_are_answered() {
    run("settled");
}

#[test]
fn ten_thousand_addresses_are_created_and_read() {
    run("many");
}

#[test]
fn all_rows_come_at_once_and_in_pages() {
    run("large");
}

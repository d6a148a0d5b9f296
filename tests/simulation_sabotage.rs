//! The simulator finds errors: each of those that can be made on purpose, within a thousand seeds, by the checker whose
//! property it breaks; and what it found it makes small.

#![cfg(feature = "sim")]

use ringway::sabotage::{Sabotage, Switch};
use ringway::sim::plan::Plan;
use ringway::sim::shrink::shrink;
use ringway::sim::{run_plan, Failure};

const SEEDS: u64 = 1000;

fn sabotaged(seed: u64, sabotage: Sabotage) -> Plan {
    let mut plan = Plan::of(seed);
    plan.world.sabotage = Switch::on(sabotage);
    plan
}

/// The first seed that finds an error.
fn first(sabotage: Sabotage) -> Failure {
    let failures = (0..SEEDS).filter_map(|seed| run_plan(seed, sabotaged(seed, sabotage), false).err());
    let failure = failures.into_iter().next();
    failure.unwrap_or_else(|| panic!("{sabotage:?} isn't found within {SEEDS} seeds"))
}

fn is_found(sabotage: Sabotage, by: &[&str]) {
    let failure = first(sabotage);
    println!("{sabotage:?}: {failure}");
    assert!(by.contains(&failure.by), "{sabotage:?} was found by {}: {}", failure.by, failure.what);
}

#[test]
fn a_consumer_sent_more_than_its_credit_is_found() {
    is_found(Sabotage::Overdraw, &["credit"]);
}

/// The share rule's own assertion.
#[test]
fn a_grant_beyond_the_budget_is_found() {
    is_found(Sabotage::Overgrant, &["panic"]);
}

#[test]
fn a_grant_that_never_arrives_is_found() {
    is_found(Sabotage::LoseGrant, &["progress"]);
}

#[test]
fn a_delivery_that_is_settled_twice_is_found() {
    is_found(Sabotage::SettleTwice, &["credit"]);
}

#[test]
fn a_lost_outcome_is_found() {
    is_found(Sabotage::LoseOutcome, &["outcomes"]);
}

#[test]
fn a_delivery_that_is_sent_twice_is_found() {
    is_found(Sabotage::SendTwice, &["once"]);
}

#[test]
fn a_delivery_that_overtakes_is_found() {
    is_found(Sabotage::Overtake, &["order"]);
}

#[test]
fn a_missed_multicast_copy_is_found() {
    is_found(Sabotage::MissCopy, &["multicast"]);
}

/// It may hold anything, so anything may show it.
#[test]
fn a_lost_parcel_is_found() {
    is_found(Sabotage::LoseParcel, &["actor", "credit", "once", "outcomes", "panic", "progress", "remains"]);
}

#[test]
fn a_lost_threshold_edge_is_found() {
    is_found(Sabotage::LoseEdge, &["edges"]);
}

#[test]
fn a_buffer_that_is_never_given_back_is_found() {
    is_found(Sabotage::LoseBuffers, &["remains"]);
}

#[test]
fn a_delivery_that_is_not_counted_is_found() {
    is_found(Sabotage::Miscount, &["counters"]);
}

#[test]
fn a_failing_seed_shrinks_to_what_it_takes() {
    for sabotage in [Sabotage::Overdraw, Sabotage::LoseOutcome, Sabotage::LoseParcel] {
        let failure = first(sabotage);
        let (seed, by) = (failure.seed, failure.by);
        let plan = sabotaged(seed, sabotage);
        let before = plan.peers.iter().map(|peer| peer.links.len()).sum::<usize>();
        let shrunk = shrink(plan, failure);
        println!("{sabotage:?}: {before} links; {shrunk}");
        let (_, links, messages) = shrunk.size();
        assert_eq!(shrunk.failure.by, by, "it is the same finding");
        assert!(links <= 4 && messages <= 100, "{sabotage:?}: {shrunk}");
        // What is left fails by itself, each time.
        let again = run_plan(seed, shrunk.plan.clone(), false).expect_err("it fails");
        assert_eq!((again.step, again.by, &again.what), (shrunk.failure.step, by, &shrunk.failure.what));
    }
}

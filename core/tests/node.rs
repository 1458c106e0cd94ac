//! Nodes: whether a kubelet is at work, for how long without a break, and which nodes may still run
//! a sandbox that nobody saw.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::{
    W, at, beat, fenced, hear_nothing, no_nodes, node_state, nodes_with, not_ready, secs,
};
use ipgc_core::node::{Blocked, NodeState, Nodes, Standing};
use rstest::rstest;

/// Nodes that exist when the pod watch begins anew.
fn suspected(names: &[&str], second: u64) -> Nodes {
    let states: Vec<_> = names.iter().map(|name| (*name, node_state())).collect();
    let mut nodes = nodes_with(&states);
    nodes.gap(at(second));
    nodes.suspect(names.iter().copied(), at(second));
    nodes
}

fn by(names: &[&str]) -> Option<Blocked> {
    Some(Blocked::By(
        names.iter().map(|name| (*name).into()).collect(),
    ))
}

fn until(second: u64) -> Option<Blocked> {
    Some(Blocked::Until(at(second)))
}

fn blockers(nodes: &Nodes, now: u64) -> Option<Blocked> {
    nodes.blockers(None, secs(W), at(now))
}

#[test]
fn a_node_that_is_gone_is_not_forgotten_while_it_blocks() {
    let mut nodes = nodes_with(&[("a", node_state())]);
    nodes.remove("a", at(100));
    nodes.gap(at(150));
    nodes.suspect(["a"], at(150));
    nodes.forget(secs(W), at(100 + W));
    assert_eq!(blockers(&nodes, 100 + W), until(150 + W));
    nodes.forget(secs(W), at(150 + W));
    assert!(nodes.get("a").is_none());
}

#[test]
fn a_node_that_went_between_the_gap_and_the_list_blocks_as_well() {
    let mut nodes = nodes_with(&[("a", node_state()), ("gone", node_state())]);
    nodes.remove("gone", at(50));
    nodes.gap(at(100));
    nodes.remove("a", at(110));
    nodes.suspect([], at(120));
    assert_eq!(blockers(&nodes, 120), until(110 + W));
}

#[test]
fn a_node_that_was_listed_and_not_seen_yet_blocks() {
    let mut nodes = no_nodes();
    nodes.gap(at(100));
    nodes.suspect(["new"], at(100));
    assert_eq!(blockers(&nodes, 10_000), by(&["new"]));
    nodes.remove("new", at(10_000));
    assert_eq!(blockers(&nodes, 10_000), until(10_000 + W));
}

#[test]
fn a_silent_node_that_goes_blocks_until_it_has_been_gone_for_w() {
    let mut nodes = suspected(&["a"], 0);
    nodes.remove("a", at(10_000));
    assert_eq!(blockers(&nodes, 10_000), until(10_000 + W));
    assert_eq!(blockers(&nodes, 10_000 + W), None);
}

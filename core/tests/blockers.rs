//! Which nodes may still run a sandbox that nobody saw, and until when.

// The helpers build what a call answers.
#![allow(clippy::unnecessary_wraps)]

use proptest::collection::vec;

use crate::common::prelude::*;

/// Nodes that exist when the pod watch begins anew.
fn suspected(names: &[&str], second: u64) -> Nodes {
    let states: Vec<_> = names.iter().map(|name| (*name, node_state())).collect();
    let mut nodes = nodes_with(&states);
    nodes.gap(at(second));
    nodes.suspect(names.iter().copied(), at(second));
    nodes
}

fn by(names: &[&str]) -> Option<Wait> {
    Some(waits_for(names))
}

/// It is looked at again then.
fn until(second: u64) -> Option<Wait> {
    Some(Wait::until(at(second)))
}

fn blockers(nodes: &Nodes, now: u64) -> Option<Wait> {
    nodes.blockers(None, secs(W), at(now))
}

#[test]
fn a_node_that_is_gone_is_not_forgotten_while_it_blocks() {
    let mut nodes = nodes_with(&[("a", node_state())]);
    nodes.remove("a", at(100));
    nodes.gap(at(150));
    nodes.suspect(["a"], at(150));
    nodes.forget(secs(W), secs(W), at(100 + W));
    assert_eq!(blockers(&nodes, 100 + W), until(150 + W));
    nodes.forget(secs(W), secs(W), at(150 + W));
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

/// How much is known of the node before it comes.
#[derive(Clone, Copy, Debug)]
enum Before {
    Nothing,
    ItsEnd,
    APodsEnd,
}

/// Its Node may have been deleted before the gap while the machine ran on, and be registered again.
#[rstest]
#[case::within_w(W - 1, true)]
#[case::after_w(W, false)]
fn a_node_that_came_after_the_gap_blocks_if_it_was_not_absent_for_w(
    #[case] came: u64,
    #[case] blocks: bool,
    #[values(Before::Nothing, Before::ItsEnd, Before::APodsEnd)] before: Before,
) {
    let mut nodes = match before {
        Before::ItsEnd => nodes_with(&[("new", node_state())]),
        _ => no_nodes(),
    };
    nodes.remove("new", at(0));
    nodes.gap(at(10));
    nodes.suspect([], at(10));
    if matches!(before, Before::APodsEnd) {
        nodes.note_outlasting("new", at(10));
    }
    nodes.apply("new", not_ready(), at(10 + came));
    let now = at(10 + W + 10);
    let held = blocks.then(|| waits_for(&["new"]));
    assert_eq!(nodes.blockers(None, secs(W), now), held);
    assert_eq!(nodes.suspects(None, secs(W), now), held);
}

#[test]
fn that_it_was_absent_only_a_list_or_an_event_shows() {
    let mut nodes = no_nodes();
    nodes.gap(at(10));
    nodes.suspect([], at(200));
    let mut other = nodes.clone();
    nodes.apply("new", not_ready(), at(200 + W - 1));
    assert_eq!(blockers(&nodes, 300 + W), by(&["new"]));
    other.note_read("new", Some(not_ready()), at(300 + W));
    assert_eq!(blockers(&other, 300 + W), by(&["new"]));
}

#[test]
fn that_it_was_absent_for_w_counts_until_the_next_gap() {
    let mut nodes = suspected(&[], 0);
    for (gone, came) in [(0, W), (W + 5, W + 10)] {
        nodes.remove("new", at(gone));
        nodes.apply("new", not_ready(), at(came));
    }
    assert_eq!(nodes.suspects(None, secs(W), at(W + 20)), None);
}

#[test]
fn a_node_that_is_gone_is_forgotten_though_each_gap_makes_it_a_suspect() {
    let mut nodes = nodes_with(&[("a", node_state())]);
    nodes.remove("a", at(0));
    for gap in [10_000, 20_000] {
        nodes.gap(at(gap));
        nodes.suspect([], at(gap));
    }
    nodes.forget(secs(15_000), secs(W), at(20_000 + W));
    assert!(nodes.get("a").is_none());
}

#[test]
fn the_longest_stretch_counts() {
    let mut nodes = suspected(&["a"], 0);
    for (from, to) in [(0, 50), (150, 350), (450, 480)] {
        nodes.apply("a", node_state(), at(from));
        beat(&mut nodes, "a", from, to);
        nodes.apply("a", not_ready(), at(to + 1));
    }
    // From the first change on.
    assert_eq!(nodes.blockers(None, secs(190), at(500)), None);
    assert_eq!(nodes.blockers(None, secs(191), at(500)), by(&["a"]));
}

/// Node a, a suspect since 0, was at work from then until 400.
fn worked() -> Nodes {
    let mut nodes = suspected(&["a"], 0);
    nodes.apply("a", node_state(), at(0));
    beat(&mut nodes, "a", 0, 400);
    nodes
}

/// It was at work for W, and proves as little by being gone.
#[test]
fn where_work_proves_nothing_a_node_that_goes_blocks_for_w() {
    let mut nodes = worked();
    let suspects = |nodes: &Nodes, now| nodes.suspects(None, secs(W), at(now));
    assert_eq!(suspects(&nodes, 400), by(&["a"]));
    nodes.remove("a", at(400));
    assert_eq!(suspects(&nodes, 400), until(400 + W));
    assert_eq!(suspects(&nodes, 400 + W), None);
}

/// The rows for which its work proves nothing go by the fence alone.
#[test]
fn a_fence_is_read_also_where_the_node_was_at_work_for_w() {
    let mut nodes = worked();
    nodes.apply("a", not_ready(), at(401));
    assert!(unconfirmed(&nodes, 402).is_empty());
    nodes.apply("a", fenced(), at(402));
    assert_eq!(unconfirmed(&nodes, 402), ["a"]);
}

/// They go by its absence alone, too.
#[test]
fn an_absence_is_read_also_where_the_node_was_at_work_for_w() {
    let mut nodes = worked();
    nodes.remove("a", at(400));
    assert_eq!(nodes.suspects(None, secs(W), at(400 + W)), None);
    assert_eq!(unconfirmed(&nodes, 400 + W), ["a"]);
    let mut back = nodes.clone();
    back.note_read("a", Some(not_ready()), at(400 + W));
    assert_eq!(back.suspects(None, secs(W), at(400 + W)), by(&["a"]));
    // Once, after the wait.
    nodes.note_read("a", None, at(399 + W));
    assert_eq!(unconfirmed(&nodes, 400 + W), ["a"]);
    nodes.note_read("a", None, at(400 + W));
    assert!(unconfirmed(&nodes, 9_000).is_empty());
}

#[test]
fn all_that_block_are_named_in_order_and_the_last_moment_counts() {
    let mut nodes = suspected(&["c", "b", "a"], 0);
    for name in ["a", "b", "c"] {
        nodes.apply(name, not_ready(), at(0));
    }
    assert_eq!(blockers(&nodes, 0), by(&["a", "b", "c"]));
    nodes.remove("a", at(10));
    assert_eq!(blockers(&nodes, 10), by(&["b", "c"]));
    nodes.remove("c", at(30));
    nodes.remove("b", at(20));
    assert_eq!(blockers(&nodes, 30), until(30 + W));
    assert_eq!(blockers(&nodes, 29 + W), until(30 + W));
}

/// Work that was shown stays shown when a later pause makes it less clear when it began.
#[test]
fn a_longer_pause_takes_back_no_work() {
    let mut nodes = nodes_with(&[("a", node_state())]);
    beat(&mut nodes, "a", 80, 100);
    nodes.gap(at(100));
    nodes.suspect(["a"], at(100));
    beat(&mut nodes, "a", 110, 150);
    // From two changes after the gap on.
    assert_eq!(nodes.blockers(None, secs(30), at(150)), None);
    assert!(nodes.blockers(None, secs(31), at(150)).is_some());
    nodes.note_lease("a", Some("180"), at(180), at(180));
    assert_eq!(nodes.blockers(None, secs(30), at(180)), None);
    assert!(nodes.blockers(None, secs(31), at(180)).is_some());
}

/// From this number on nothing happens.
const PAUSE: u8 = 42;

/// Changes one of three nodes; the number below [`PAUSE`] says how, and which.
fn happen(nodes: &mut Nodes, what: u8, now: u64) {
    let name = ["a", "b", "c"][usize::from(what % 3)];
    match what / 3 {
        0 => nodes.apply(name, node_state(), at(now)),
        1 => nodes.apply(name, not_ready(), at(now)),
        2 => nodes.apply(name, fenced(), at(now)),
        3 => nodes.remove(name, at(now)),
        4 => nodes.gap(at(now)),
        5 => nodes.suspect(["a", "b"], at(now)),
        6 => nodes.retain(|listed| listed != name, at(now)),
        7 => nodes.forget(secs(W), secs(W), at(now)),
        8 => nodes.note_lease(name, None, at(now), at(now)),
        _ => nodes.note_lease(name, Some(&now.to_string()), at(now), at(now)),
    }
}

proptest! {
    /// An earlier answer, for this moment or another, changes no later one.
    #[test]
    fn an_answer_is_that_of_the_nodes_as_they_are(
        events in vec((0..84_u8, 0..70_u64), 0..40),
    ) {
        let mut now = 0;
        let mut nodes = Nodes::default();
        for (what, pause) in events {
            now += pause;
            if what < PAUSE {
                happen(&mut nodes, what, now);
            }
            // Twice: the second answer of a moment is the same as the first.
            for wait in [0, 1, 30, 59, 60, 61, 100, 200, 210, 600].repeat(2) {
                for slice in [None, Some("b")] {
                    let (wait, now) = (secs(wait), at(now));
                    // A clone remembers no answer.
                    let fresh = nodes.clone();
                    prop_assert_eq!(nodes.blockers(slice, wait, now), fresh.blockers(slice, wait, now));
                    prop_assert_eq!(nodes.suspects(slice, wait, now), fresh.suspects(slice, wait, now));
                }
            }
        }
    }
}

// Reads

fn unconfirmed(nodes: &Nodes, now: u64) -> Vec<&str> {
    nodes.unconfirmed(None, secs(W), at(now)).collect()
}

/// An event of the watch comes after all events before it. So all that the watch showed until then was true.
#[test]
fn what_the_watch_tells_in_order_need_not_be_read() {
    let mut nodes = worked();
    assert_eq!(unconfirmed(&nodes, 400), ["a"]);
    nodes.apply("a", not_ready(), at(401));
    assert!(unconfirmed(&nodes, 401).is_empty());
    assert_eq!(blockers(&nodes, 401), None);
}

/// The versions of a Lease that was restored from a backup are smaller.
#[test]
fn a_lease_whose_version_went_back_is_no_renewal() {
    let mut nodes = nodes_with(&[("a", node_state())]);
    let versions = ["1000", "900", "899"];
    for (version, second) in versions.into_iter().zip((0..).step_by(10)) {
        nodes.note_lease("a", Some(version), at(second), at(second));
    }
    let standing = |nodes: &Nodes| nodes.standing("a", at(0), at(40));
    assert_eq!(standing(&nodes), Standing::Listening);
    nodes.note_lease("a", Some("910"), at(40), at(40));
    assert!(matches!(standing(&nodes), Standing::Alive { .. }));
}

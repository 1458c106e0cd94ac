//! Nodes: whether a kubelet is at work, for how long without a break, and which nodes may still run
//! a sandbox that nobody saw.

// The helpers build what a call answers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::unnecessary_wraps)]

mod common;

use common::{
    TWO_BEATS, W, at, beat, fenced, hear_nothing, no_nodes, node_state, nodes_with, not_ready, secs,
};
use ipgc_core::node::{Blocked, NodeState, Nodes, Standing};
use proptest::{collection::vec, prelude::*};
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

// Fences

#[rstest]
#[case::ready_and_tainted(true, true, false, false)]
#[case::ready_and_declared(true, false, true, false)]
#[case::not_ready(false, false, false, false)]
#[case::tainted(false, true, false, true)]
#[case::declared(false, false, true, true)]
#[case::both(false, true, true, true)]
fn a_fence_is_what_is_said_of_a_node_that_is_not_ready(
    #[case] ready: bool,
    #[case] out_of_service: bool,
    #[case] declared_empty: bool,
    #[case] is_fenced: bool,
) {
    let state = NodeState {
        ready,
        out_of_service,
        declared_empty,
        ..node_state()
    };
    assert_eq!(state.is_fenced(), is_fenced);
    let mut nodes = nodes_with(&[("a", state)]);
    hear_nothing(&mut nodes, "a", 0, 100);
    let standing = nodes.standing("a", at(0), at(100));
    assert_eq!(standing == Standing::Fenced, is_fenced);
    assert_eq!(standing == Standing::Silent, !is_fenced);
}

// Standing

/// A ready node whose Lease is read each 10 s: it changes from `from` to `to`, then it does not.
fn worked(from: u64, to: u64, until: u64) -> Nodes {
    let mut nodes = nodes_with(&[("a", node_state())]);
    beat(&mut nodes, "a", from, to);
    for second in (to + 10..=until).step_by(10) {
        nodes.hear("a", Some(&to.to_string()), at(second));
    }
    nodes
}

/// A standing, of one that is alive only since when.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Fenced,
    Gone(ipgc_core::time::Moment),
    Alive(ipgc_core::time::Moment),
    Listening,
    Silent,
}

impl From<Standing> for Seen {
    fn from(standing: Standing) -> Self {
        match standing {
            Standing::Fenced => Self::Fenced,
            Standing::Gone(since) => Self::Gone(since),
            Standing::Alive { since, .. } => Self::Alive(since),
            Standing::Listening => Self::Listening,
            Standing::Silent => Self::Silent,
        }
    }
}

fn standing(nodes: &Nodes, end: u64, now: u64) -> Seen {
    nodes.standing("a", at(end), at(now)).into()
}

#[rstest]
#[case::before_the_first_read(0, Seen::Alive(at(10)))]
#[case::before_the_first_change(5, Seen::Alive(at(25)))]
#[case::after_it(11, Seen::Alive(at(31)))]
#[case::long_after_it(95, Seen::Alive(at(115)))]
fn a_kubelet_at_work_is_alive_from_its_first_change_after_the_end(
    #[case] end: u64,
    #[case] alive: Seen,
) {
    // The first read shows no change: nobody knows when it was written.
    let nodes = worked(0, 100, 100);
    assert_eq!(standing(&nodes, end, 100), alive);
    // As long as nothing changes, neither does that.
    assert_eq!(standing(&nodes, end, 150), alive);
}

#[rstest]
#[case::never_read(nodes_with(&[("a", node_state())]), 1_000, Seen::Listening)]
#[case::read_once(worked(0, 0, 0), 5, Seen::Listening)]
#[case::read_for_less_than_a_minute(worked(0, 0, 50), 59, Seen::Listening)]
#[case::read_for_a_minute(worked(0, 0, 60), 60, Seen::Silent)]
#[case::a_minute_after_the_last_change(worked(0, 100, 160), 160, Seen::Alive(at(10)))]
#[case::later(worked(0, 100, 160), 161, Seen::Silent)]
#[case::later_and_not_read_since(worked(0, 100, 100), 161, Seen::Listening)]
#[case::silent_and_not_read_any_more(worked(0, 100, 200), 260, Seen::Listening)]
#[case::silent_and_read_just_now(worked(0, 100, 200), 259, Seen::Silent)]
fn silence_is_a_minute_of_reads_without_a_change(
    #[case] nodes: Nodes,
    #[case] now: u64,
    #[case] expected: Seen,
) {
    assert_eq!(standing(&nodes, 0, now), expected);
}

#[test]
fn a_node_without_a_lease_is_silent() {
    let mut nodes = nodes_with(&[("a", node_state())]);
    for second in (0..=60).step_by(10) {
        nodes.hear("a", None, at(second));
    }
    assert_eq!(standing(&nodes, 0, 60), Seen::Silent);
    // A kubelet that makes it anew is at work.
    nodes.hear("a", Some("1"), at(70));
    assert_eq!(standing(&nodes, 0, 70), Seen::Alive(at(70)));
    // One whose Lease was deleted wrote nothing.
    nodes.hear("a", None, at(80));
    assert_eq!(standing(&nodes, 75, 80), Seen::Alive(at(95)));
}

#[test]
fn work_after_a_silence_starts_anew() {
    let mut nodes = worked(0, 100, 160);
    beat(&mut nodes, "a", 170, 200);
    assert_eq!(standing(&nodes, 0, 200), Seen::Alive(at(170)));
    // A minute is no silence yet.
    let mut nodes = worked(0, 100, 150);
    beat(&mut nodes, "a", 160, 200);
    assert_eq!(standing(&nodes, 0, 200), Seen::Alive(at(10)));
}

#[rstest]
#[case::short(159, Seen::Alive(at(10)))]
// Who knows when in that time it was written.
#[case::as_long_as_a_silence(160, Seen::Listening)]
#[case::long(1_000, Seen::Listening)]
fn a_pause_between_reads_as_long_as_a_silence_starts_anew(
    #[case] second: u64,
    #[case] after: Seen,
) {
    let mut nodes = worked(0, 100, 100);
    nodes.hear("a", Some("x"), at(second));
    assert_eq!(standing(&nodes, 0, second + 1), after);
    nodes.hear("a", Some("y"), at(second + 10));
    let anew = Seen::Alive(at(second + 10));
    let expected = if after == Seen::Listening {
        anew
    } else {
        after
    };
    assert_eq!(standing(&nodes, 0, second + 10), expected);
}

#[test]
fn a_node_that_is_not_ready_is_silent_whatever_its_lease_does() {
    let mut nodes = worked(0, 100, 100);
    nodes.apply("a", not_ready(), at(101));
    beat(&mut nodes, "a", 110, 200);
    assert_eq!(standing(&nodes, 0, 200), Seen::Silent);
    nodes.apply("a", node_state(), at(201));
    assert_eq!(standing(&nodes, 0, 201), Seen::Silent);
    beat(&mut nodes, "a", 210, 220);
    assert_eq!(standing(&nodes, 0, 220), Seen::Alive(at(210)));
}

#[test]
fn a_state_that_says_the_same_again_breaks_nothing() {
    let mut nodes = worked(0, 100, 100);
    nodes.apply("a", node_state(), at(101));
    assert_eq!(standing(&nodes, 0, 101), Seen::Alive(at(10)));
}

#[test]
fn a_node_is_gone_from_its_removal_on() {
    let mut nodes = worked(0, 100, 100);
    nodes.remove("a", at(500));
    nodes.remove("a", at(600));
    nodes.hear("a", Some("x"), at(610));
    assert_eq!(standing(&nodes, 0, 700), Seen::Gone(at(500)));
    assert_eq!(standing(&nodes, 550, 700), Seen::Gone(at(550)));
    // Back, it is the same node.
    nodes.apply("a", node_state(), at(800));
    assert_eq!(standing(&nodes, 0, 800), Seen::Listening);
    nodes.apply("a", not_ready(), at(801));
    assert_eq!(standing(&nodes, 0, 801), Seen::Silent);
    // What was read of its Lease before it went counts no more.
    nodes.apply("a", node_state(), at(802));
    nodes.hear("a", Some("y"), at(810));
    assert_eq!(standing(&nodes, 0, 810), Seen::Listening);
    nodes.hear("a", Some("z"), at(820));
    assert_eq!(standing(&nodes, 0, 820), Seen::Alive(at(820)));
}

#[test]
fn a_node_that_a_list_lacks_is_gone() {
    let mut nodes = nodes_with(&[("a", node_state()), ("b", node_state())]);
    nodes.retain(|name| name == "b", at(50));
    assert_eq!(standing(&nodes, 0, 50), Seen::Gone(at(50)));
    assert_eq!(nodes.standing("b", at(0), at(50)), Standing::Listening);
    assert_eq!(nodes.get("a").unwrap().state(), None);
    assert_eq!(nodes.get("b").unwrap().state(), Some(&node_state()));
}

#[test]
fn a_name_that_was_never_seen_is_gone_since_the_first_complete_list() {
    let mut nodes = Nodes::default();
    assert_eq!(standing(&nodes, 0, 1_000), Seen::Listening);
    nodes.apply("b", node_state(), at(1));
    assert_eq!(standing(&nodes, 0, 1_000), Seen::Listening);
    nodes.retain(|_| true, at(20));
    nodes.retain(|_| true, at(30));
    assert_eq!(standing(&nodes, 0, 1_000), Seen::Gone(at(20)));
    assert_eq!(standing(&nodes, 25, 1_000), Seen::Gone(at(25)));
}

// Blockers

#[test]
fn before_the_nodes_are_known_everything_blocks() {
    let mut nodes = Nodes::default();
    assert_eq!(blockers(&nodes, 10_000), by(&[]));
    nodes.retain(|_| true, at(0));
    assert_eq!(blockers(&nodes, 10_000), None);
    nodes.gap(at(5));
    assert_eq!(nodes.pending_gap(), Some(at(5)));
    assert_eq!(blockers(&nodes, 10_000), by(&[]));
    nodes.suspect([], at(6));
    assert_eq!(nodes.pending_gap(), None);
    assert_eq!(blockers(&nodes, 10_000), None);
}

#[test]
fn a_node_that_came_after_the_gap_blocks_nothing() {
    let mut nodes = suspected(&[], 0);
    nodes.apply("new", not_ready(), at(1));
    assert_eq!(blockers(&nodes, 10), None);
}

#[test]
fn a_suspect_blocks_until_it_has_worked_for_w() {
    let mut nodes = suspected(&["a"], 100);
    // Nobody has listened to it yet.
    assert_eq!(blockers(&nodes, 100), until(100 + W));
    beat(&mut nodes, "a", 110, 120);
    assert_eq!(blockers(&nodes, 120), until(120 + W));
    beat(&mut nodes, "a", 130, 110 + W);
    assert_eq!(blockers(&nodes, 119 + W), until(120 + W));
    // That it worked until then is yet to be seen.
    assert_eq!(blockers(&nodes, 120 + W), until(125 + W));
    beat(&mut nodes, "a", 120 + W, 120 + W);
    assert_eq!(blockers(&nodes, 120 + W), None);
    // Longer waits still wait, and what it did for W is not undone.
    assert_eq!(
        nodes.blockers(None, secs(2 * W), at(120 + W)),
        until(120 + 2 * W)
    );
    nodes.apply("a", not_ready(), at(120 + W));
    assert_eq!(blockers(&nodes, 120 + W), None);
    assert_eq!(nodes.blockers(None, secs(W + 1), at(120 + W)), by(&["a"]));
}

#[test]
fn work_before_the_gap_does_not_count() {
    let mut nodes = worked(0, 300, 300);
    nodes.gap(at(300));
    nodes.suspect(["a"], at(310));
    beat(&mut nodes, "a", 310, 400);
    // Of a series that began before, two changes may not have come after the gap.
    assert_eq!(blockers(&nodes, 400), until(300 + TWO_BEATS + W));
    // Nor when that stretch ends.
    nodes.apply("a", not_ready(), at(401));
    assert_eq!(nodes.blockers(None, secs(80), at(401)), None);
    assert_eq!(nodes.blockers(None, secs(81), at(401)), by(&["a"]));
}

#[rstest]
#[case::not_ready(true)]
#[case::silent(false)]
fn work_with_a_break_starts_anew(#[case] not_ready_at_all: bool) {
    let mut nodes = suspected(&["a"], 100);
    beat(&mut nodes, "a", 100, 300);
    if not_ready_at_all {
        nodes.apply("a", not_ready(), at(301));
        beat(&mut nodes, "a", 310, 360);
    } else {
        for second in (310..=360).step_by(10) {
            nodes.hear("a", Some("300"), at(second));
        }
    }
    assert_eq!(blockers(&nodes, 361), by(&["a"]));
    nodes.apply("a", node_state(), at(365));
    beat(&mut nodes, "a", 370, 500);
    assert_eq!(standing(&nodes, 0, 500), Seen::Alive(at(370)));
    assert_eq!(blockers(&nodes, 500), until(370 + W));
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

#[test]
fn a_fenced_node_never_blocks_again() {
    let mut nodes = suspected(&["a", "b"], 100);
    nodes.apply("b", not_ready(), at(105));
    nodes.apply("a", fenced(), at(110));
    assert_eq!(blockers(&nodes, 110), by(&["b"]));
    nodes.apply("a", node_state(), at(120));
    assert_eq!(blockers(&nodes, 120), by(&["b"]));
    // A gap after it returned is another matter; one while it is fenced is none.
    nodes.apply("b", fenced(), at(130));
    nodes.gap(at(140));
    nodes.suspect(["a", "b"], at(140));
    assert_eq!(blockers(&nodes, 140), until(140 + W));
}

#[test]
fn an_absence_of_w_ends_a_block_even_if_the_node_returns() {
    let mut nodes = suspected(&["a"], 0);
    nodes.remove("a", at(100));
    assert_eq!(blockers(&nodes, 99 + W), until(100 + W));
    nodes.apply("a", not_ready(), at(100 + W));
    assert_eq!(blockers(&nodes, 100 + W), None);
    let mut nodes = suspected(&["a"], 0);
    nodes.remove("a", at(100));
    nodes.apply("a", not_ready(), at(99 + W));
    assert_eq!(blockers(&nodes, 5_000), by(&["a"]));
}

#[test]
fn a_new_gap_begins_everything_anew() {
    let mut nodes = suspected(&["a"], 0);
    beat(&mut nodes, "a", 0, 500);
    assert_eq!(blockers(&nodes, 500), None);
    nodes.gap(at(500));
    nodes.suspect(["a"], at(505));
    assert_eq!(blockers(&nodes, 505), until(500 + TWO_BEATS + W));
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

#[rstest]
#[case::its_own(Some("a"), until(10 + W))]
#[case::another(Some("b"), by(&["b"]))]
#[case::one_that_never_was(Some("x"), None)]
#[case::none(None, by(&["b"]))]
fn the_slice_of_a_node_is_blocked_by_that_node_only(
    #[case] slice: Option<&str>,
    #[case] blocked: Option<Blocked>,
) {
    let mut nodes = suspected(&["a", "b"], 0);
    nodes.apply("b", not_ready(), at(5));
    nodes.remove("a", at(10));
    assert_eq!(nodes.blockers(slice, secs(W), at(20)), blocked);
}

// The rest

#[test]
fn nodes_that_are_gone_for_long_are_forgotten() {
    let mut nodes = nodes_with(&[("a", node_state()), ("b", node_state())]);
    nodes.remove("a", at(100));
    nodes.forget(secs(50), at(149));
    assert!(nodes.get("a").is_some());
    nodes.forget(secs(50), at(150));
    assert!(nodes.get("a").is_none());
    assert!(nodes.get("b").is_some());
}

#[test]
fn a_pulse_tells_existence_fences_and_work() {
    let mut nodes = worked(0, 100, 100);
    for (name, state) in [("b", fenced()), ("c", not_ready()), ("d", node_state())] {
        nodes.apply(name, state, at(50));
    }
    nodes.remove("d", at(60));
    let beating = nodes.pulse(at(100));
    let of = |name: &str| {
        let pulse = beating[name];
        (pulse.exists, pulse.fenced, pulse.alive_since)
    };
    assert_eq!(of("a"), (true, false, Some(at(10))));
    assert_eq!(of("b"), (true, true, None));
    assert_eq!(of("c"), (true, false, None));
    assert_eq!(of("d"), (false, false, None));
    let existing: Vec<_> = nodes.existing().map(|(name, _)| name).collect();
    assert_eq!(existing, ["a", "b", "c"]);
    assert_ne!(beating, nodes.pulse(at(161)));
}

#[test]
fn taking_stock_changes_no_answer() {
    let mut nodes = suspected(&["a", "b"], 100);
    beat(&mut nodes, "a", 100, 600);
    beat(&mut nodes, "b", 100, 400);
    let answers = |nodes: &Nodes, now: u64| -> Vec<_> {
        let waits = (0..600).step_by(10);
        waits
            .map(|wait| nodes.blockers(None, secs(wait), at(now)))
            .collect()
    };
    for now in [600, 650] {
        let mut stock = nodes.clone();
        stock.take_stock(at(600));
        assert_eq!(answers(&stock, now), answers(&nodes, now));
        // Nobody is beyond doubt after the next gap.
        stock.gap(at(660));
        assert_eq!(stock.blockers(None, secs(10), at(660)), by(&[]));
        stock.suspect(["a"], at(661));
        assert!(stock.blockers(None, secs(10), at(661)).is_some());
    }
    let mut none = nodes_with(&[("a", node_state())]);
    none.take_stock(at(100));
    assert_eq!(blockers(&none, 100), None);
}

/// Whatever happens to three nodes; the number says what, and to which.
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
        7 => nodes.forget(secs(W), at(now)),
        8 => nodes.hear(name, None, at(now)),
        _ => nodes.hear(name, Some(&now.to_string()), at(now)),
    }
}

proptest! {
    /// Stock may be taken at any time, and later events or not at all: no answer changes.
    #[test]
    fn stock_tells_nothing_that_the_nodes_do_not(
        before in vec((0..42_u8, 0..70_u64), 0..40),
        after in vec((0..42_u8, 0..70_u64), 0..3),
    ) {
        let mut now = 0;
        let mut nodes = Nodes::default();
        for (what, pause) in before {
            now += pause;
            happen(&mut nodes, what, now);
        }
        let mut stock = nodes.clone();
        stock.take_stock(at(now));
        for (what, pause) in [(255, 0)].into_iter().chain(after) {
            if what < 255 {
                now += pause;
                happen(&mut nodes, what, now);
                happen(&mut stock, what, now);
            }
            for wait in [0, 1, 30, 59, 60, 61, 100, 200, 210, 600] {
                for slice in [None, Some("b")] {
                    prop_assert_eq!(
                        stock.blockers(slice, secs(wait), at(now)),
                        nodes.blockers(slice, secs(wait), at(now))
                    );
                }
            }
        }
    }

    #[test]
    fn the_nodes_at_the_end_of_a_name_are_those_that_it_ends_with(
        names in vec("[ab-]{0,3}", 0..8),
        gone in vec(any::<bool>(), 8),
        name in "[ab-]{0,8}",
    ) {
        let mut nodes = Nodes::default();
        for (name, gone) in names.iter().zip(gone) {
            nodes.apply(name, node_state(), at(0));
            if gone {
                nodes.remove(name, at(1));
            }
        }
        let is_own = |node: &&str| {
            let rest = name.strip_suffix(node);
            rest.is_some_and(|rest| rest.ends_with('-'))
        };
        let plain: Vec<_> = nodes.existing().map(|(name, _)| name).filter(is_own).collect();
        prop_assert_eq!(nodes.ending(&name), plain);
    }
}

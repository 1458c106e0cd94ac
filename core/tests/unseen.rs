//! What is waited for on behalf of those whom nobody saw, and on behalf of nodes: every grade of
//! evidence, the flags that shorten a wait, and what a watch that is not heard costs.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::{Known, POD, W, at, but, ended, node_state, nodes_with, pod, reporting, row_content};
use ipgc_core::{
    clearance::{Clearance, LOOK_AGAIN, Subject, Wait},
    evidence::Policy,
    pod::PodState,
};
use rstest::rstest;

/// What all of it comes to for 10.0.0.5 of an absent pod.
fn weigh(known: &Known, policy: &Policy, now: u64) -> Clearance {
    Subject {
        row: &row_content(),
        facts: &known.facts(),
        policy,
        now: at(now),
    }
    .of_deleted()
}

#[test]
fn a_grace_that_is_not_known_is_thirty_seconds_at_least() {
    let last = PodState {
        termination_grace: None,
        ..reporting(POD, "net1", "10.0.0.5")
    };
    let known = Known {
        longest_grace: std::time::Duration::ZERO,
        ..Known::of(&[ended(last, 100, false)])
    };
    let clearance = weigh(&known, &Policy::default(), 100);
    assert_eq!(clearance.wait, Wait::Until(at(100 + W)));
}

#[test]
fn a_node_that_nobody_has_listened_to_yet_holds_its_rows_even_where_w_is_nothing() {
    let none = std::time::Duration::ZERO;
    let policy = Policy {
        grace: none,
        max_pod_grace: none,
        del_budget: none,
        ..Policy::default()
    };
    let known = Known::of(&[ended(reporting(POD, "net1", "10.0.0.5"), 100, false)])
        .on(nodes_with(&[("node-1", node_state())]));
    let clearance = weigh(&known, &policy, 200);
    assert_eq!(clearance.wait, Wait::Until(at(200) + LOOK_AGAIN));
}

#[rstest]
#[case::one_that_reported([true, true], [true, true], true)]
#[case::one_before_it([true, true], [false, true], true)]
#[case::one_after_it([true, false], [true, false], false)]
#[case::the_one_itself([true, true], [true, false], false)]
#[case::nobody_who_reported([false, false], [true, true], true)]
#[case::nobody_who_reported_and_one_unwatched([false, false], [false, true], false)]
fn an_end_is_watched_where_that_of_all_who_may_have_the_row_is(
    #[case] reported: [bool; 2],
    #[case] watched: [bool; 2],
    #[case] all: bool,
) {
    let end = |i: usize| {
        let last = if reported[i] {
            reporting(POD, "net1", "10.0.0.5")
        } else {
            pod(POD)
        };
        but(&ended(last, 100, true), |end| end.watched = watched[i])
    };
    let known = Known::of(&[end(0), end(1)]).seen(0);
    assert_eq!(weigh(&known, &Policy::default(), 100).watched, all);
}

#[test]
fn nobody_watched_the_end_of_a_row_of_nobody() {
    let clearance = weigh(&Known::default().seen(0), &Policy::default(), 100);
    assert!(!clearance.watched);
}

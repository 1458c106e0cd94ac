//! What the ends of a podref's incarnations say about its rows: who answers for a row, and how long
//! each of them is waited for.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::{sync::Arc, time::Duration};

use common::{
    Known, POD, TWO_BEATS, W, any_history, at, beat, ended, node_state, nodes_with, pod, reporting,
    row_content, secs, status,
};
use ipgc_core::{
    clearance::{Clearance, Subject, Wait},
    evidence::{DEFAULT_POD_GRACE, Ended, Grade, Policy},
    networks::{Request, Status},
    node::Nodes,
    pod::PodState,
    pool::RowContent,
    time::Moment,
};
use proptest::prelude::*;
use rstest::rstest;

/// When it is now, long after everything.
const NOW: u64 = 9_000;
/// W of an end on a node that is at work all the time.
const WATCHED_W: u64 = TWO_BEATS + W;

/// The node of all pods, at work from the beginning.
fn at_work() -> Nodes {
    let mut nodes = nodes_with(&[("node-1", node_state())]);
    beat(&mut nodes, "node-1", 0, NOW);
    nodes
}

/// What all of it comes to for this row, seen since the epoch.
fn weigh(row: &RowContent, incarnations: &[Arc<Ended>], rows: usize, policy: &Policy) -> Clearance {
    let known = Known {
        rows,
        ..Known::of(incarnations).seen(0).on(at_work())
    };
    Subject {
        row,
        facts: &known.facts(),
        policy,
        now: at(NOW),
    }
    .of_deleted()
}

fn free_time(
    row: &RowContent,
    incarnations: &[Arc<Ended>],
    rows: usize,
    policy: &Policy,
) -> (Grade, Moment) {
    let clearance = weigh(row, incarnations, rows, policy);
    match clearance.wait {
        Wait::Until(moment) => (clearance.grade, moment),
        Wait::For(nodes) | Wait::AtMost(nodes, _) => panic!("waits for {nodes:?}"),
    }
}

/// An incarnation that reported the row.
fn answering(second: u64, settled: bool) -> Arc<Ended> {
    ended(reporting(POD, "net1", "10.0.0.5"), second, settled)
}

/// One that did not.
fn silent(second: u64, settled: bool) -> Arc<Ended> {
    ended(pod(POD), second, settled)
}

fn unscheduled(second: u64, settled: bool) -> Arc<Ended> {
    let last = PodState {
        node: None,
        ..reporting(POD, "net1", "10.0.0.5")
    };
    ended(last, second, settled)
}

fn time_of(incarnations: &[Arc<Ended>]) -> (Grade, Moment) {
    free_time(&row_content(), incarnations, 1, &Policy::default())
}

#[test]
fn a_settled_end_waits_for_the_cooldown() {
    let free = time_of(&[answering(100, true)]);
    assert_eq!(free, (Grade::Settled, at(102)));
}

#[test]
fn a_witnessed_end_waits_for_w() {
    let free = time_of(&[answering(100, false)]);
    assert_eq!(free, (Grade::Witnessed, at(100 + WATCHED_W)));
}

#[test]
fn a_good_end_of_one_that_did_not_report_the_row_waits_for_w() {
    let free = time_of(&[silent(100, true)]);
    assert_eq!(free, (Grade::Unwitnessed, at(100 + W)));
}

#[rstest]
#[case::other_interface("net2", "10.0.0.5")]
#[case::other_address("net1", "10.0.0.6")]
#[case::no_interface("", "10.0.0.5")]
fn a_report_counts_by_address_and_interface(#[case] interface: &str, #[case] address: &str) {
    let free = time_of(&[ended(reporting(POD, interface, address), 100, true)]);
    assert_eq!(free, (Grade::Unwitnessed, at(100 + W)));
}

#[test]
fn the_interface_is_the_rows_own() {
    let row = RowContent {
        interface: Some("net2".into()),
        ..row_content()
    };
    let free = |interface| {
        let end = ended(reporting(POD, interface, "10.0.0.5"), 100, true);
        free_time(&row, &[end], 1, &Policy::default())
    };
    assert_eq!(free("net2"), (Grade::Settled, at(102)));
    assert_eq!(free("net1"), (Grade::Unwitnessed, at(100 + W)));
}

#[test]
fn a_report_in_another_spelling_is_the_same_report() {
    let row = RowContent {
        address: common::ip("fd00::1"),
        ..row_content()
    };
    let last = reporting(POD, "net1", "FD00:0:0:0:0:0:0:0001/64");
    let free = free_time(&row, &[ended(last, 100, true)], 1, &Policy::default());
    assert_eq!(free, (Grade::Settled, at(102)));
}

#[test]
fn a_row_without_an_interface_is_reported_by_nobody() {
    let row = RowContent {
        interface: None,
        ..row_content()
    };
    let free = free_time(&row, &[answering(100, true)], 1, &Policy::default());
    assert_eq!(free, (Grade::Unwitnessed, at(100 + W)));
}

#[rstest]
#[case::missing(Status::Missing)]
#[case::malformed(Status::parse("[{"))]
fn without_a_readable_status_nothing_is_reported(#[case] status: Status) {
    let last = PodState { status, ..pod(POD) };
    let free = time_of(&[ended(last, 100, true)]);
    assert_eq!(free, (Grade::Unwitnessed, at(100 + W)));
}

#[test]
fn a_later_incarnation_without_a_report_adds_its_own_w() {
    let free = time_of(&[answering(100, true), silent(150, true)]);
    assert_eq!(free, (Grade::Witnessed, at(150 + W)));
}

#[test]
fn a_successor_that_adopted_the_row_and_ended_well_does_not_cut_its_predecessors_w() {
    let free = time_of(&[answering(100, false), answering(110, true)]);
    assert_eq!(free, (Grade::Witnessed, at(100 + WATCHED_W)));
    // The forced one need not have reported the row.
    let free = time_of(&[silent(100, false), answering(110, true)]);
    assert_eq!(free, (Grade::Witnessed, at(100 + WATCHED_W)));
}

#[test]
fn a_predecessors_w_that_is_over_does_not_hold_a_successors_row() {
    let free = time_of(&[answering(100, false), answering(1000, true)]);
    assert_eq!(free, (Grade::Witnessed, at(1002)));
}

#[test]
fn incarnations_that_all_ended_well_wait_for_the_cooldown_of_the_last() {
    let free = time_of(&[silent(90, true), answering(100, true), answering(110, true)]);
    assert_eq!(free, (Grade::Settled, at(112)));
}

#[test]
fn the_last_of_several_waits_decides_whatever_its_place() {
    let slow = PodState {
        termination_grace: Some(secs(3000)),
        ..pod(POD)
    };
    let free = time_of(&[
        ended(slow, 10, false),
        answering(100, false),
        answering(200, true),
    ]);
    assert_eq!(
        free,
        (Grade::Witnessed, at(10 + TWO_BEATS + 120 + 3000 + 60))
    );
}

#[test]
fn without_any_incarnation_the_wait_begins_with_the_first_observation() {
    assert_eq!(time_of(&[]), (Grade::Unwitnessed, at(W)));
}

#[test]
fn an_incarnation_that_was_never_scheduled_is_no_evidence() {
    assert_eq!(
        time_of(&[unscheduled(100, true), unscheduled(200, false)]),
        (Grade::Unwitnessed, at(W))
    );
    assert_eq!(
        time_of(&[
            unscheduled(50, false),
            answering(100, true),
            unscheduled(1000, false)
        ]),
        (Grade::Settled, at(102))
    );
}

#[test]
fn one_lost_del_for_each_row_is_waited_for() {
    let free = free_time(
        &row_content(),
        &[answering(100, false)],
        5,
        &Policy::default(),
    );
    assert_eq!(
        free,
        (Grade::Witnessed, at(100 + TWO_BEATS + 120 + 30 + 5 * 60))
    );
}

#[rstest]
#[case::one_row(Some(30), 1, 210)]
#[case::no_rows_count_as_one(Some(30), 0, 210)]
#[case::three_rows(Some(30), 3, 330)]
#[case::no_grace_at_all(Some(0), 1, 180)]
#[case::grace_unknown(None, 1, 210)]
#[case::at_the_cap(Some(3600), 1, 3780)]
#[case::above_the_cap(Some(3601), 1, 3780)]
#[case::for_ever(Some(u64::MAX), 1, 3780)]
fn w_is_grace_and_the_pods_own_and_one_budget_for_each_row(
    #[case] grace: Option<u64>,
    #[case] rows: usize,
    #[case] wait: u64,
) {
    assert_eq!(Policy::default().wait(grace.map(secs), rows), secs(wait));
}

#[test]
fn an_unknown_grace_is_capped_too() {
    let policy = Policy {
        max_pod_grace: secs(5),
        ..Policy::default()
    };
    assert!(policy.max_pod_grace < DEFAULT_POD_GRACE);
    assert_eq!(policy.wait(None, 1), secs(185));
}

#[rstest]
#[case::grace(Policy { grace: Duration::MAX, ..Policy::default() }, 1)]
#[case::pod_grace(Policy { max_pod_grace: Duration::MAX, grace: Duration::MAX, ..Policy::default() }, 1)]
#[case::budget(Policy { del_budget: Duration::MAX, ..Policy::default() }, 1)]
#[case::budget_times_rows(Policy { del_budget: Duration::MAX / 2, ..Policy::default() }, usize::MAX)]
fn a_wait_beyond_all_time_is_for_ever(#[case] policy: Policy, #[case] rows: usize) {
    assert_eq!(policy.wait(Some(Duration::MAX), rows), Duration::MAX);
    let free = free_time(&row_content(), &[answering(100, false)], rows, &policy);
    assert_eq!(free, (Grade::Witnessed, Moment::new(Duration::MAX)));
}

#[test]
fn more_rows_than_can_be_counted_are_a_long_wait() {
    let wait = Policy::default().wait(Some(secs(30)), usize::MAX);
    assert_eq!(wait, secs(150) + secs(60) * u32::MAX);
}

#[test]
fn expected_rows_are_the_reported_or_the_requested_whichever_are_more() {
    let mut last = PodState {
        status: status(&[("net1", &["10.0.0.5", "fd00::5"]), ("net2", &[])]),
        request: Request::parse("a,b,c", "default"),
        ..pod(POD)
    };
    assert_eq!(ended(last.clone(), 0, true).expected_rows(), 3);
    last.request = Request::parse("a", "default");
    assert_eq!(ended(last.clone(), 0, true).expected_rows(), 2);
    last.request = Request::parse("a,,b", "default");
    last.status = Status::parse("{");
    assert_eq!(ended(last, 0, true).expected_rows(), 0);
}

proptest! {
    #[test]
    fn nothing_is_freed_before_the_w_of_any_doubtful_incarnation(
        history in any_history(),
        rows in 0usize..10,
    ) {
        let policy = Policy::default();
        let (grade, free) = free_time(&row_content(), &history, rows, &policy);
        for e in history.iter().filter(|e| e.last.node.is_some()) {
            let wait = policy.wait(e.last.termination_grace, rows);
            let least = if e.settled { policy.cooldown } else { wait };
            prop_assert!(free >= e.at + least);
            if e.last.mirror {
                prop_assert!(free >= e.at + policy.leftover_grace);
            }
        }
        if grade == Grade::Settled {
            let last = history.iter().rfind(|e| e.last.node.is_some());
            prop_assert!(last.is_some_and(|e| e.settled && e.reported(&row_content())));
        }
        prop_assert_eq!(
            grade == Grade::Unwitnessed,
            !history.iter().any(|e| e.last.node.is_some() && e.reported(&row_content()))
        );
    }

    #[test]
    fn no_row_is_free_before_the_first_look_at_any_of_its_incarnations(
        history in any_history(),
        more in 0usize..5,
    ) {
        let policy = Policy::default();
        let rows = history.iter().map(|e| e.expected_rows()).max().unwrap_or(0) + more;
        let (_, free) = free_time(&row_content(), &history, rows, &policy);
        for e in history.iter().filter(|e| e.last.node.is_some()) {
            prop_assert!(e.first_look(&policy) <= free);
        }
    }

    #[test]
    fn one_more_silent_incarnation_never_brings_the_free_forward(
        history in any_history(),
        settled: bool,
        later in 0u64..500,
    ) {
        let policy = Policy::default();
        let (grade, free) = free_time(&row_content(), &history, 1, &policy);
        let mut longer = history;
        longer.push(silent(1000 + later, settled));
        let (grade_after, free_after) = free_time(&row_content(), &longer, 1, &policy);
        prop_assert!(free_after >= free);
        prop_assert!(grade_after >= grade);
    }
}

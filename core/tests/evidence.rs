//! What the states of a pod say about its sandbox, and what the ends of a podref's incarnations
//! say about its rows.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::{sync::Arc, time::Duration};

use common::{
    ENDED, MADE_UP, POD, RUNNING, WAITING, at, containers, ended, pod, podref, reporting, sandbox,
    secs, status,
};
use ipgc_core::{
    evidence::{DEFAULT_POD_GRACE, Ended, Grade, Policy, Trail, free_time},
    networks::{Request, Status},
    pod::{ContainerState, Phase, PodState},
    pool::RowContent,
    time::Moment,
};
use proptest::prelude::*;
use rstest::rstest;

const UP: Option<bool> = Some(true);
const DOWN: Option<bool> = Some(false);
/// A kubelet that is too old for the condition.
const NONE: Option<bool> = None;

type Containers<'a> = &'a [(&'a str, ContainerState)];

/// What a watch shows of one incarnation.
enum Event {
    State(PodState),
    Gap,
}
use Event::{Gap, State};

fn state(phase: Phase, sandbox_ready: Option<bool>, states: Containers<'_>) -> Event {
    State(PodState {
        phase,
        sandbox_ready,
        containers: containers(states),
        ..pod(POD)
    })
}

fn deleting(event: Event) -> Event {
    match event {
        State(state) => State(PodState {
            deleting: true,
            ..state
        }),
        Gap => Gap,
    }
}

fn pending(ready: Option<bool>, states: Containers<'_>) -> Event {
    state(Phase::Pending, ready, states)
}

fn running(ready: Option<bool>, states: Containers<'_>) -> Event {
    state(Phase::Running, ready, states)
}

fn failed(ready: Option<bool>, states: Containers<'_>) -> Event {
    state(Phase::Failed, ready, states)
}

fn succeeded(ready: Option<bool>, states: Containers<'_>) -> Event {
    state(Phase::Succeeded, ready, states)
}

/// Whether it is settled after each of the events.
fn course<const N: usize>(events: [Event; N]) -> [bool; N] {
    let mut trail = Trail::default();
    events.map(|event| {
        match event {
            State(state) => trail.advance(&state),
            Gap => trail.gap(),
        }
        trail.is_settled()
    })
}

fn settles<const N: usize>(events: [Event; N]) -> bool {
    course(events)[N - 1]
}

// Trail: the sequences of a pod's deletion.

#[test]
fn a_graceful_end_is_settled_from_the_terminal_phase_on() {
    let settled = course([
        pending(DOWN, &[("main", WAITING)]),
        running(UP, &[("main", RUNNING)]),
        deleting(running(UP, &[("main", RUNNING)])),
        deleting(succeeded(DOWN, &[("main", ENDED)])),
        // grace 0, then DELETED
        deleting(succeeded(DOWN, &[("main", ENDED)])),
        deleting(succeeded(DOWN, &[("main", ENDED)])),
    ]);
    assert_eq!(settled, [false, false, false, true, true, true]);
}

#[test]
fn a_graceful_end_in_phase_failed_is_settled() {
    assert!(settles([
        running(UP, &[("main", RUNNING)]),
        deleting(failed(DOWN, &[("main", ENDED)])),
    ]));
}

#[test]
fn a_pod_past_its_active_deadline_is_settled() {
    assert!(settles([
        running(UP, &[("main", RUNNING)]),
        failed(DOWN, &[("main", ENDED)]),
    ]));
}

#[test]
fn a_pod_that_completes_is_settled_only_when_the_held_back_phase_comes() {
    let settled = course([
        running(UP, &[("main", RUNNING)]),
        // The containers ended, the sandbox stands, the kubelet holds the phase back.
        running(UP, &[("main", ENDED)]),
        succeeded(DOWN, &[("main", ENDED)]),
    ]);
    assert_eq!(settled, [false, false, true]);
}

#[test]
fn a_forced_deletion_is_not_settled() {
    assert!(!settles([
        running(UP, &[("main", RUNNING)]),
        deleting(running(UP, &[("main", RUNNING)])),
        deleting(running(UP, &[("main", RUNNING)])),
    ]));
}

#[test]
fn a_deletion_forced_while_the_containers_end_is_not_settled() {
    assert!(!settles([
        running(UP, &[("main", RUNNING), ("side", RUNNING)]),
        deleting(running(UP, &[("main", RUNNING), ("side", RUNNING)])),
        deleting(running(UP, &[("main", ENDED), ("side", RUNNING)])),
        deleting(running(UP, &[("main", ENDED), ("side", ENDED)])),
    ]));
}

#[test]
fn a_terminal_phase_from_the_pod_garbage_collector_is_not_settled() {
    assert!(!settles([
        running(UP, &[("main", RUNNING)]),
        deleting(failed(UP, &[("main", RUNNING)])),
        deleting(failed(UP, &[("main", RUNNING)])),
    ]));
}

#[test]
fn a_terminal_phase_that_somebody_else_wrote_never_settles() {
    // A finalizer keeps the pod. The kubelet reports its containers before it has stopped the
    // sandbox, since it only holds back the phase, and that is there already.
    assert!(!settles([
        running(UP, &[("main", RUNNING)]),
        deleting(failed(UP, &[("main", RUNNING)])),
        deleting(failed(UP, &[("main", ENDED)])),
    ]));
}

#[test]
fn a_pod_deleted_while_its_sandbox_is_set_up_is_not_settled() {
    assert!(!settles([
        pending(DOWN, &[("main", WAITING)]),
        deleting(pending(DOWN, &[("main", WAITING)])),
        deleting(failed(DOWN, &[("main", MADE_UP)])),
    ]));
}

#[test]
fn made_up_states_alone_prove_nothing_even_where_the_sandbox_was_up() {
    assert!(!settles([
        pending(UP, &[("main", WAITING)]),
        deleting(failed(DOWN, &[("main", MADE_UP)])),
    ]));
}

#[test]
fn a_run_too_short_to_be_seen_is_settled_where_the_sandbox_was_seen_up() {
    assert!(settles([
        pending(UP, &[("main", WAITING)]),
        succeeded(DOWN, &[("main", ENDED)]),
    ]));
    assert!(!settles([
        pending(DOWN, &[("main", WAITING)]),
        succeeded(DOWN, &[("main", ENDED)]),
    ]));
}

#[test]
fn a_container_that_never_ran_does_not_spoil_the_end_of_those_that_did() {
    assert!(settles([
        pending(UP, &[("init", RUNNING), ("main", WAITING)]),
        deleting(failed(DOWN, &[("init", ENDED), ("main", MADE_UP)])),
    ]));
}

#[test]
fn a_pod_deleted_while_its_second_sandbox_is_set_up_is_not_settled() {
    assert!(!settles([
        running(UP, &[("main", RUNNING)]),
        // The sandbox died (the node booted again); the kubelet makes another.
        running(DOWN, &[("main", ENDED)]),
        deleting(running(DOWN, &[("main", ENDED)])),
        deleting(failed(DOWN, &[("main", ENDED)])),
    ]));
}

#[test]
fn a_pod_deleted_while_its_second_sandbox_is_set_up_before_the_main_container_is_not_settled() {
    assert!(!settles([
        pending(UP, &[("init", RUNNING), ("main", WAITING)]),
        pending(UP, &[("init", ENDED), ("main", WAITING)]),
        pending(DOWN, &[("init", ENDED), ("main", WAITING)]),
        deleting(failed(DOWN, &[("init", ENDED), ("main", MADE_UP)])),
    ]));
}

#[test]
fn a_pod_whose_second_sandbox_came_up_is_settled() {
    assert!(settles([
        running(UP, &[("main", RUNNING)]),
        running(DOWN, &[("main", ENDED)]),
        running(UP, &[("main", RUNNING)]),
        deleting(failed(DOWN, &[("main", ENDED)])),
    ]));
}

#[test]
fn a_pod_rejected_with_empty_statuses_is_not_settled() {
    assert!(!settles([
        running(UP, &[("main", RUNNING)]),
        failed(UP, &[]),
        deleting(failed(UP, &[])),
    ]));
    assert!(!settles([pending(DOWN, &[]), failed(DOWN, &[])]));
}

#[test]
fn a_pod_never_seen_before_its_terminal_state_is_not_settled() {
    assert!(!Trail::default().is_settled());
    assert!(!settles([failed(DOWN, &[("main", ENDED)])]));
}

#[test]
fn a_pod_deleted_between_two_runs_of_a_crash_loop_is_settled() {
    let settled = course([
        running(UP, &[("main", RUNNING)]),
        running(UP, &[("main", ENDED)]),
        running(UP, &[("main", WAITING)]),
        running(UP, &[("main", RUNNING)]),
        running(UP, &[("main", WAITING)]),
        deleting(running(UP, &[("main", WAITING)])),
        deleting(failed(DOWN, &[("main", ENDED)])),
    ]);
    assert_eq!(settled, [false, false, false, false, false, false, true]);
}

#[test]
fn a_restart_after_all_containers_ended_is_no_end() {
    assert!(!settles([
        running(UP, &[("main", RUNNING)]),
        running(UP, &[("main", ENDED)]),
        running(UP, &[("main", RUNNING)]),
        deleting(running(UP, &[("main", RUNNING)])),
    ]));
}

#[test]
fn init_sidecar_and_ephemeral_containers_that_ended_are_settled() {
    assert!(settles([
        pending(
            UP,
            &[("init", RUNNING), ("side", WAITING), ("main", WAITING)]
        ),
        pending(UP, &[("init", ENDED), ("side", RUNNING), ("main", WAITING)]),
        running(UP, &[("init", ENDED), ("side", RUNNING), ("main", RUNNING)]),
        running(
            UP,
            &[
                ("init", ENDED),
                ("side", RUNNING),
                ("main", RUNNING),
                ("debug", RUNNING)
            ]
        ),
        deleting(failed(
            DOWN,
            &[
                ("init", ENDED),
                ("side", ENDED),
                ("main", ENDED),
                ("debug", ENDED)
            ]
        )),
    ]));
}

#[rstest]
#[case::init_runs(&[("init", RUNNING), ("side", ENDED), ("main", ENDED), ("debug", ENDED)])]
#[case::sidecar_runs(&[("init", ENDED), ("side", RUNNING), ("main", ENDED), ("debug", ENDED)])]
#[case::main_runs(&[("init", ENDED), ("side", ENDED), ("main", RUNNING), ("debug", ENDED)])]
#[case::ephemeral_runs(&[("init", ENDED), ("side", ENDED), ("main", ENDED), ("debug", RUNNING)])]
#[case::ephemeral_waits(&[("init", ENDED), ("side", ENDED), ("main", ENDED), ("debug", WAITING)])]
#[case::ephemeral_is_not_mentioned(&[("init", ENDED), ("side", ENDED), ("main", ENDED)])]
#[case::a_stranger_runs(&[("init", ENDED), ("side", ENDED), ("main", ENDED), ("debug", ENDED), ("x", RUNNING)])]
#[case::nothing_is_mentioned(&[])]
fn one_started_container_not_shown_as_terminated_is_enough_to_doubt(#[case] last: Containers<'_>) {
    assert!(!settles([
        running(
            UP,
            &[
                ("init", ENDED),
                ("side", RUNNING),
                ("main", RUNNING),
                ("debug", RUNNING)
            ]
        ),
        deleting(failed(DOWN, last)),
    ]));
}

#[test]
fn a_container_seen_as_started_long_ago_still_counts() {
    assert!(!settles([
        running(UP, &[("debug", RUNNING), ("main", RUNNING)]),
        running(UP, &[("main", RUNNING)]),
        running(UP, &[("main", RUNNING)]),
        deleting(failed(DOWN, &[("main", ENDED)])),
    ]));
}

#[test]
fn without_the_condition_a_running_container_shows_that_the_sandbox_is_up() {
    assert!(settles([
        running(NONE, &[("main", RUNNING)]),
        deleting(failed(NONE, &[("main", ENDED)])),
    ]));
    assert!(!settles([
        running(NONE, &[("main", RUNNING)]),
        running(NONE, &[("main", WAITING)]),
        deleting(failed(NONE, &[("main", ENDED)])),
    ]));
}

#[test]
fn with_the_condition_a_running_container_does_not_count() {
    assert!(!settles([
        running(DOWN, &[("main", RUNNING)]),
        deleting(failed(DOWN, &[("main", ENDED)])),
    ]));
}

#[rstest]
#[case(Phase::Pending)]
#[case(Phase::Running)]
#[case(Phase::Unknown)]
fn terminated_containers_without_a_terminal_phase_are_not_settled(#[case] phase: Phase) {
    assert!(!settles([
        running(UP, &[("main", RUNNING)]),
        deleting(state(phase, UP, &[("main", ENDED)])),
    ]));
}

#[test]
fn a_gap_before_the_terminal_state_makes_it_doubtful() {
    assert!(!settles([
        running(UP, &[("main", RUNNING)]),
        Gap,
        deleting(failed(DOWN, &[("main", ENDED)])),
    ]));
    assert!(!settles([
        running(UP, &[("main", RUNNING)]),
        running(UP, &[("main", ENDED)]),
        Gap,
        succeeded(DOWN, &[("main", ENDED)]),
    ]));
}

#[test]
fn a_sandbox_seen_up_again_after_a_gap_settles() {
    assert!(settles([
        running(UP, &[("main", RUNNING)]),
        Gap,
        running(UP, &[("main", RUNNING)]),
        deleting(failed(DOWN, &[("main", ENDED)])),
    ]));
}

#[test]
fn a_container_started_before_a_gap_still_has_to_end() {
    assert!(!settles([
        running(UP, &[("main", RUNNING), ("debug", RUNNING)]),
        Gap,
        running(UP, &[("main", RUNNING)]),
        deleting(failed(DOWN, &[("main", ENDED)])),
    ]));
}

#[test]
fn a_terminal_state_seen_before_a_gap_stays_settled() {
    let settled = course([
        running(UP, &[("main", RUNNING)]),
        deleting(failed(DOWN, &[("main", ENDED)])),
        Gap,
        Gap,
        // The relist shows it once more.
        deleting(failed(DOWN, &[("main", ENDED)])),
    ]);
    assert_eq!(settled, [false, true, true, true, true]);
}

fn any_phase() -> impl Strategy<Value = Phase> {
    prop_oneof![
        Just(Phase::Pending),
        Just(Phase::Running),
        Just(Phase::Succeeded),
        Just(Phase::Failed),
        Just(Phase::Unknown),
    ]
}

fn any_container_state() -> impl Strategy<Value = ContainerState> {
    prop_oneof![
        1 => Just(WAITING),
        2 => Just(RUNNING),
        3 => Just(ENDED),
        1 => Just(MADE_UP),
    ]
}

prop_compose! {
    fn any_state()(
        phase in any_phase(),
        ready in any::<Option<bool>>(),
        deleting: bool,
        // Few names and few states, so that courses which settle are not rare.
        states in prop::collection::vec(any_container_state(), 0..3),
    ) -> PodState {
        let states: Vec<_> = ["a", "b"].into_iter().zip(states).collect();
        PodState { phase, deleting, sandbox_ready: ready, containers: containers(&states), ..pod(POD) }
    }
}

fn runs(state: &PodState) -> bool {
    state.containers.iter().any(|c| c.state == RUNNING)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    /// The wording of the grade, checked backwards and without the trail's bookkeeping.
    #[test]
    fn settled_means_terminal_all_terminated_and_a_sandbox_seen_up(
        events in prop::collection::vec(prop::option::weighted(0.9, any_state()), 1..8),
    ) {
        let mut trail = Trail::default();
        for end in 0..events.len() {
            let before = trail.is_settled();
            let Some(last) = &events[end] else {
                trail.gap();
                prop_assert_eq!(trail.is_settled(), before);
                continue;
            };
            trail.advance(last);
            if !trail.is_settled() {
                continue;
            }
            prop_assert!(last.phase.is_terminal());
            prop_assert!(!runs(last));
            prop_assert!(last.containers.iter().any(|c| c.state == ENDED || c.state == MADE_UP));
            let started = events[..=end].iter().flatten().flat_map(|s| s.containers.iter())
                .filter(|c| c.state == RUNNING || c.state == ENDED);
            for started in started {
                let is_terminated = last.containers.iter().any(|c| {
                    c.name == started.name && matches!(c.state, ContainerState::Terminated { .. })
                });
                prop_assert!(is_terminated);
            }
            let evidence = events[..end].iter().flatten()
                .any(|s| s.sandbox_ready.unwrap_or_else(|| runs(s)));
            prop_assert!(evidence);
            if !before {
                // Between that state and the end there is no gap and no sandbox known to be down.
                let up = events[..end].iter().rposition(|e| {
                    e.as_ref().is_some_and(|s| s.sandbox_ready.unwrap_or_else(|| runs(s)))
                }).expect("some state is evidence");
                prop_assert!(events[up..end].iter().all(Option::is_some));
                prop_assert!(!events[up..end].iter().flatten()
                    .any(|s| !s.phase.is_terminal() && s.sandbox_ready == DOWN));
            }
        }
    }
}

// free_time: what the ends are worth for a row.

/// The row 10.0.0.5 of the pod on net1.
fn row() -> RowContent {
    RowContent {
        address: common::ip("10.0.0.5"),
        sandbox: sandbox(1).into(),
        podref: podref(POD),
        interface: Some("net1".into()),
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

/// With one row and a termination grace of 30 s: 120 + 30 + 60.
const W: u64 = 210;

fn time_of(incarnations: &[Arc<Ended>]) -> Option<(Grade, Moment)> {
    free_time(&row(), incarnations, 1, &Policy::default())
}

#[test]
fn a_settled_end_waits_for_the_cooldown() {
    let free = time_of(&[answering(100, true)]);
    assert_eq!(free, Some((Grade::Settled, at(102))));
}

#[test]
fn a_witnessed_end_waits_for_w() {
    let free = time_of(&[answering(100, false)]);
    assert_eq!(free, Some((Grade::Witnessed, at(100 + W))));
}

#[test]
fn a_good_end_of_one_that_did_not_report_the_row_waits_for_w() {
    let free = time_of(&[silent(100, true)]);
    assert_eq!(free, Some((Grade::Unwitnessed, at(100 + W))));
}

#[rstest]
#[case::other_interface("net2", "10.0.0.5")]
#[case::other_address("net1", "10.0.0.6")]
#[case::no_interface("", "10.0.0.5")]
fn a_report_counts_by_address_and_interface(#[case] interface: &str, #[case] address: &str) {
    let free = time_of(&[ended(reporting(POD, interface, address), 100, true)]);
    assert_eq!(free, Some((Grade::Unwitnessed, at(100 + W))));
}

#[test]
fn the_interface_is_the_rows_own() {
    let row = RowContent {
        interface: Some("net2".into()),
        ..row()
    };
    let free = |interface| {
        let end = ended(reporting(POD, interface, "10.0.0.5"), 100, true);
        free_time(&row, &[end], 1, &Policy::default())
    };
    assert_eq!(free("net2"), Some((Grade::Settled, at(102))));
    assert_eq!(free("net1"), Some((Grade::Unwitnessed, at(100 + W))));
}

#[test]
fn a_report_in_another_spelling_is_the_same_report() {
    let row = RowContent {
        address: common::ip("fd00::1"),
        ..row()
    };
    let last = reporting(POD, "net1", "FD00:0:0:0:0:0:0:0001/64");
    let free = free_time(&row, &[ended(last, 100, true)], 1, &Policy::default());
    assert_eq!(free, Some((Grade::Settled, at(102))));
}

#[test]
fn a_row_without_an_interface_is_reported_by_nobody() {
    let row = RowContent {
        interface: None,
        ..row()
    };
    let free = free_time(&row, &[answering(100, true)], 1, &Policy::default());
    assert_eq!(free, Some((Grade::Unwitnessed, at(100 + W))));
}

#[rstest]
#[case::missing(Status::Missing)]
#[case::malformed(Status::parse("[{"))]
fn without_a_readable_status_nothing_is_reported(#[case] status: Status) {
    let last = PodState { status, ..pod(POD) };
    let free = time_of(&[ended(last, 100, true)]);
    assert_eq!(free, Some((Grade::Unwitnessed, at(100 + W))));
}

#[test]
fn a_later_incarnation_without_a_report_adds_its_own_w() {
    let free = time_of(&[answering(100, true), silent(150, true)]);
    assert_eq!(free, Some((Grade::Witnessed, at(150 + W))));
}

#[test]
fn a_successor_that_adopted_the_row_and_ended_well_does_not_cut_its_predecessors_w() {
    let free = time_of(&[answering(100, false), answering(110, true)]);
    assert_eq!(free, Some((Grade::Witnessed, at(100 + W))));
    // The forced one need not have reported the row.
    let free = time_of(&[silent(100, false), answering(110, true)]);
    assert_eq!(free, Some((Grade::Witnessed, at(100 + W))));
}

#[test]
fn a_predecessors_w_that_is_over_does_not_hold_a_successors_row() {
    let free = time_of(&[answering(100, false), answering(1000, true)]);
    assert_eq!(free, Some((Grade::Witnessed, at(1002))));
}

#[test]
fn incarnations_that_all_ended_well_wait_for_the_cooldown_of_the_last() {
    let free = time_of(&[silent(90, true), answering(100, true), answering(110, true)]);
    assert_eq!(free, Some((Grade::Settled, at(112))));
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
    assert_eq!(free, Some((Grade::Witnessed, at(10 + 120 + 3000 + 60))));
}

#[test]
fn without_any_incarnation_there_is_no_evidence() {
    assert_eq!(time_of(&[]), None);
}

#[test]
fn an_incarnation_that_was_never_scheduled_is_no_evidence() {
    assert_eq!(
        time_of(&[unscheduled(100, true), unscheduled(200, false)]),
        None
    );
    assert_eq!(
        time_of(&[
            unscheduled(50, false),
            answering(100, true),
            unscheduled(1000, false)
        ]),
        Some((Grade::Settled, at(102)))
    );
}

#[test]
fn rows_of_a_mirror_pod_wait_for_the_leftover_grace_at_least() {
    let mirror = PodState {
        mirror: true,
        ..reporting(POD, "net1", "10.0.0.5")
    };
    let free = time_of(&[ended(mirror.clone(), 100, false)]);
    assert_eq!(free, Some((Grade::Witnessed, at(100 + 600))));
    let slow = PodState {
        termination_grace: Some(secs(3000)),
        ..mirror
    };
    let free = time_of(&[ended(slow, 100, false)]);
    assert_eq!(free, Some((Grade::Witnessed, at(100 + 120 + 3000 + 60))));
}

#[test]
fn one_lost_del_for_each_row_is_waited_for() {
    let free = free_time(&row(), &[answering(100, false)], 5, &Policy::default());
    assert_eq!(free, Some((Grade::Witnessed, at(100 + 120 + 30 + 5 * 60))));
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
    let free = free_time(&row(), &[answering(100, false)], rows, &policy);
    assert_eq!(free, Some((Grade::Witnessed, Moment::new(Duration::MAX))));
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

prop_compose! {
    fn any_incarnation()(
        second in 0u64..1000,
        settled: bool,
        reports: bool,
        scheduled in prop::bool::weighted(0.9),
        mirror in prop::bool::weighted(0.1),
        grace in prop::option::of(0u64..5000),
    ) -> Arc<Ended> {
        let mut last = if reports { reporting(POD, "net1", "10.0.0.5") } else { pod(POD) };
        last.node = scheduled.then(|| "node-1".into());
        last.mirror = mirror;
        last.termination_grace = grace.map(secs);
        ended(last, second, settled)
    }
}

fn any_history() -> impl Strategy<Value = Vec<Arc<Ended>>> {
    prop::collection::vec(any_incarnation(), 0..5).prop_map(|mut history| {
        history.sort_by_key(|e| e.at);
        history
    })
}

proptest! {
    #[test]
    fn nothing_is_freed_before_the_w_of_any_doubtful_incarnation(
        history in any_history(),
        rows in 0usize..10,
    ) {
        let policy = Policy::default();
        let Some((grade, free)) = free_time(&row(), &history, rows, &policy) else {
            prop_assert!(history.iter().all(|e| e.last.node.is_none()));
            return Ok(());
        };
        for e in history.iter().filter(|e| e.last.node.is_some()) {
            let least = if e.settled { policy.cooldown } else { policy.wait(e.last.termination_grace, rows) };
            prop_assert!(free >= e.at + least);
            if e.last.mirror && !e.settled {
                prop_assert!(free >= e.at + policy.leftover_grace);
            }
        }
        if grade == Grade::Settled {
            let last = history.iter().rfind(|e| e.last.node.is_some());
            prop_assert!(last.is_some_and(|e| e.settled && e.reported(&row())));
        }
        prop_assert_eq!(
            grade == Grade::Unwitnessed,
            !history.iter().any(|e| e.last.node.is_some() && e.reported(&row()))
        );
    }

    #[test]
    fn no_row_is_free_before_the_earliest_time_of_any_of_its_incarnations(
        history in any_history(),
        more in 0usize..5,
    ) {
        let policy = Policy::default();
        let rows = history.iter().map(|e| e.expected_rows()).max().unwrap_or(0) + more;
        let Some((_, free)) = free_time(&row(), &history, rows, &policy) else { return Ok(()) };
        for e in history.iter().filter(|e| e.last.node.is_some()) {
            prop_assert!(e.earliest_free_time(&policy) <= free);
        }
    }

    #[test]
    fn one_more_silent_incarnation_never_brings_the_free_forward(
        history in any_history(),
        settled: bool,
        later in 0u64..500,
    ) {
        let policy = Policy::default();
        let Some((grade, free)) = free_time(&row(), &history, 1, &policy) else { return Ok(()) };
        let mut longer = history;
        longer.push(silent(1000 + later, settled));
        let (grade_after, free_after) = free_time(&row(), &longer, 1, &policy).expect("evidence");
        prop_assert!(free_after >= free);
        prop_assert!(grade_after >= grade);
    }
}

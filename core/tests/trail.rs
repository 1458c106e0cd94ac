//! What the states of a pod say about its sandbox.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::{ENDED, MADE_UP, POD, RUNNING, WAITING, any_phase, containers, pod};
use ipgc_core::{
    evidence::Trail,
    pod::{ContainerState, Phase, PodState},
};
use proptest::prelude::*;
use rstest::rstest;

const UP: Option<bool> = Some(true);
const DOWN: Option<bool> = Some(false);
/// A kubelet that is too old for the condition.
const NONE: Option<bool> = None;

type Containers<'a> = &'a [(&'a str, ContainerState)];

/// What a watch shows of one incarnation.
// Few are made, one after the other.
#[allow(clippy::large_enum_variant)]
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
fn a_terminal_phase_written_while_the_sandbox_is_up_is_not_settled() {
    // The node object is gone, and its kubelet is not: the containers have ended, DEL of the first of two
    // interfaces takes a minute, and the phase is written by the garbage collector.
    assert!(!settles([
        running(UP, &[("main", RUNNING)]),
        deleting(running(UP, &[("main", ENDED)])),
        deleting(failed(UP, &[("main", ENDED)])),
        deleting(failed(UP, &[("main", ENDED)])),
    ]));
    // Nor when the kubelet has its word after that, which may be about something else.
    assert!(!settles([
        running(UP, &[("main", RUNNING)]),
        failed(UP, &[("main", ENDED)]),
        failed(DOWN, &[("main", ENDED)]),
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

/// All containers ended while the pod was to go on, so the kubelet may be making another sandbox when the pod is deleted. A
/// kubelet without the condition does not say whether it is.
#[rstest]
#[case::main(&[("main", ENDED)])]
#[case::init_and_main(&[("init", ENDED), ("main", ENDED)])]
#[case::init_alone(&[("init", ENDED), ("main", WAITING)])]
#[case::ephemeral(&[("main", ENDED), ("debug", ENDED)])]
fn without_the_condition_containers_that_ended_before_the_phase_settle_nothing(
    #[case] ended: Containers<'_>,
) {
    let up: Vec<_> = ended.iter().map(|(name, _)| (*name, RUNNING)).collect();
    let course = |ready, last| {
        settles([
            running(ready, &up),
            running(ready, ended),
            deleting(running(ready, ended)),
            deleting(failed(
                last,
                &up.iter()
                    .map(|(name, _)| (*name, ENDED))
                    .collect::<Vec<_>>(),
            )),
        ])
    };
    assert!(!course(NONE, NONE));
    // One that says that it is up has made none.
    let is_all = ended.iter().all(|(_, state)| *state == ENDED);
    assert!(course(UP, DOWN) && (is_all || !course(NONE, DOWN)));
    // And a container that runs again shows the sandbox that counts.
    assert!(settles([
        running(NONE, &up),
        running(NONE, ended),
        running(NONE, &up),
        deleting(failed(
            NONE,
            &up.iter()
                .map(|(name, _)| (*name, ENDED))
                .collect::<Vec<_>>()
        )),
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
                prop_assert!(!events[up + 1..end].iter().flatten()
                    .any(|s| !s.phase.is_terminal() && s.sandbox_ready != UP));
            }
        }
    }
}

//! The evidence about a sandbox from the states of its pod.

use ipgc_core::evidence::Trail;

use crate::common::prelude::*;

const UP: Option<bool> = Some(true);
const DOWN: Option<bool> = Some(false);
/// A kubelet that is too old for the condition.
const NONE: Option<bool> = None;

type Containers<'a> = &'a [(&'a str, ContainerState)];

const WAITS: Containers<'_> = &[("main", WAITING)];
const RUNS: Containers<'_> = &[("main", RUNNING)];
const ENDS: Containers<'_> = &[("main", ENDED)];
/// An init container, a sidecar, the main one and an ephemeral one.
const FOUR: Containers<'_> = &[
    ("init", ENDED),
    ("side", RUNNING),
    ("main", RUNNING),
    ("debug", RUNNING),
];

/// An event of a watch about one incarnation.
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
fn course(events: Vec<Event>) -> Vec<bool> {
    let mut trail = Trail::default();
    let after = |event| {
        match event {
            State(state) => trail.advance(&state),
            Gap => trail.gap(),
        }
        trail.settled
    };
    events.into_iter().map(after).collect()
}

fn settles(events: Vec<Event>) -> bool {
    course(events).last() == Some(&true)
}

/// The event with this number, from 0, settles it, and none before.
#[rstest]
#[case::graceful(vec![pending(DOWN, WAITS), running(UP, RUNS), deleting(running(UP, RUNS)), deleting(succeeded(DOWN, ENDS)), deleting(succeeded(DOWN, ENDS)), deleting(succeeded(DOWN, ENDS))], 3)]
#[case::graceful_in_phase_failed(vec![running(UP, RUNS), deleting(failed(DOWN, ENDS))], 1)]
#[case::past_its_active_deadline(vec![running(UP, RUNS), failed(DOWN, ENDS)], 1)]
// The containers ended, the sandbox stands, the kubelet holds the phase back.
#[case::completes(vec![running(UP, RUNS), running(UP, ENDS), succeeded(DOWN, ENDS)], 2)]
#[case::too_short_a_run_to_be_seen(vec![pending(UP, WAITS), succeeded(DOWN, ENDS)], 1)]
#[case::one_that_never_ran_does_not_spoil_the_end_of_those_that_did(vec![pending(UP, &[("init", RUNNING), ("main", WAITING)]), deleting(failed(DOWN, &[("init", ENDED), ("main", MADE_UP)]))], 1)]
#[case::second_sandbox_came_up(vec![running(UP, RUNS), running(DOWN, ENDS), running(UP, RUNS), deleting(failed(DOWN, ENDS))], 3)]
#[case::between_two_runs_of_a_crash_loop(vec![running(UP, RUNS), running(UP, ENDS), running(UP, WAITS), running(UP, RUNS), running(UP, WAITS), deleting(running(UP, WAITS)), deleting(failed(DOWN, ENDS))], 6)]
#[case::init_sidecar_and_ephemeral(vec![pending(UP, &[("init", RUNNING), ("side", WAITING), ("main", WAITING)]), pending(UP, &[("init", ENDED), ("side", RUNNING), ("main", WAITING)]), running(UP, &[("init", ENDED), ("side", RUNNING), ("main", RUNNING)]), running(UP, FOUR), deleting(failed(DOWN, &[("init", ENDED), ("side", ENDED), ("main", ENDED), ("debug", ENDED)]))], 4)]
#[case::without_the_condition_it_ran(vec![running(NONE, RUNS), deleting(failed(NONE, ENDS))], 1)]
#[case::seen_up_again_after_a_gap(vec![running(UP, RUNS), Gap, running(UP, RUNS), deleting(failed(DOWN, ENDS))], 3)]
// The relist shows it once more.
#[case::terminal_before_a_gap(vec![running(UP, RUNS), deleting(failed(DOWN, ENDS)), Gap, Gap, deleting(failed(DOWN, ENDS))], 1)]
fn an_end_is_settled_from_the_terminal_phase_on(#[case] events: Vec<Event>, #[case] from: usize) {
    let settled = course(events);
    let expected: Vec<_> = (0..settled.len()).map(|event| event >= from).collect();
    assert_eq!(settled, expected);
}

#[rstest]
#[case::forced(vec![running(UP, RUNS), deleting(running(UP, RUNS)), deleting(running(UP, RUNS))])]
#[case::forced_while_the_containers_end(vec![running(UP, &[("main", RUNNING), ("side", RUNNING)]), deleting(running(UP, &[("main", RUNNING), ("side", RUNNING)])), deleting(running(UP, &[("main", ENDED), ("side", RUNNING)])), deleting(running(UP, &[("main", ENDED), ("side", ENDED)]))])]
#[case::phase_from_the_pod_garbage_collector(vec![running(UP, RUNS), deleting(failed(UP, RUNS)), deleting(failed(UP, RUNS))])]
// The node object is gone, and its kubelet is not: the containers have ended, DEL of the first of two
// interfaces takes a minute, and the phase is written by the garbage collector.
#[case::phase_written_while_the_sandbox_is_up(vec![running(UP, RUNS), deleting(running(UP, ENDS)), deleting(failed(UP, ENDS)), deleting(failed(UP, ENDS))])]
// The kubelet's word after that may be about something else.
#[case::phase_written_before_the_word_of_the_kubelet(vec![running(UP, RUNS), failed(UP, ENDS), failed(DOWN, ENDS)])]
// A finalizer keeps the pod. The kubelet reports its containers before it has stopped the
// sandbox, since it only holds back the phase, and that is there already.
#[case::phase_that_somebody_else_wrote(vec![running(UP, RUNS), deleting(failed(UP, RUNS)), deleting(failed(UP, ENDS))])]
#[case::deleted_while_its_sandbox_is_set_up(vec![pending(DOWN, WAITS), deleting(pending(DOWN, WAITS)), deleting(failed(DOWN, &[("main", MADE_UP)]))])]
#[case::a_made_up_end_of_a_container_that_ran(vec![running(UP, RUNS), deleting(failed(DOWN, &[("main", MADE_UP)]))])]
#[case::made_up_states_alone(vec![pending(UP, WAITS), deleting(failed(DOWN, &[("main", MADE_UP)]))])]
#[case::sandbox_never_seen_up(vec![pending(DOWN, WAITS), succeeded(DOWN, ENDS)])]
// The sandbox died (the node booted again); the kubelet makes another.
#[case::deleted_while_its_second_sandbox_is_set_up(vec![running(UP, RUNS), running(DOWN, ENDS), deleting(running(DOWN, ENDS)), deleting(failed(DOWN, ENDS))])]
#[case::the_same_before_the_main_container(vec![pending(UP, &[("init", RUNNING), ("main", WAITING)]), pending(UP, &[("init", ENDED), ("main", WAITING)]), pending(DOWN, &[("init", ENDED), ("main", WAITING)]), deleting(failed(DOWN, &[("init", ENDED), ("main", MADE_UP)]))])]
#[case::rejected_with_empty_statuses(vec![running(UP, RUNS), failed(UP, &[]), deleting(failed(UP, &[]))])]
#[case::rejected_before_it_ran(vec![pending(DOWN, &[]), failed(DOWN, &[])])]
#[case::never_seen_before_its_terminal_state(vec![failed(DOWN, ENDS)])]
#[case::restart_after_all_containers_ended(vec![running(UP, RUNS), running(UP, ENDS), running(UP, RUNS), deleting(running(UP, RUNS))])]
#[case::a_container_seen_as_started_long_ago(vec![running(UP, &[("debug", RUNNING), ("main", RUNNING)]), running(UP, RUNS), running(UP, RUNS), deleting(failed(DOWN, ENDS))])]
#[case::without_the_condition_it_waited(vec![running(NONE, RUNS), running(NONE, WAITS), deleting(failed(NONE, ENDS))])]
#[case::with_the_condition_a_running_container_does_not_count(vec![running(DOWN, RUNS), deleting(failed(DOWN, ENDS))])]
#[case::terminated_in_phase_pending(vec![running(UP, RUNS), deleting(pending(UP, ENDS))])]
#[case::terminated_in_phase_running(vec![running(UP, RUNS), deleting(running(UP, ENDS))])]
#[case::terminated_in_phase_unknown(vec![running(UP, RUNS), deleting(state(Phase::Unknown, UP, ENDS))])]
#[case::gap_before_the_terminal_state(vec![running(UP, RUNS), Gap, deleting(failed(DOWN, ENDS))])]
#[case::gap_after_the_containers_ended(vec![running(UP, RUNS), running(UP, ENDS), Gap, succeeded(DOWN, ENDS)])]
#[case::a_container_started_before_a_gap(vec![running(UP, &[("main", RUNNING), ("debug", RUNNING)]), Gap, running(UP, RUNS), deleting(failed(DOWN, ENDS))])]
fn an_end_in_doubt_is_not_settled(#[case] events: Vec<Event>) {
    assert!(!settles(events));
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
    assert!(!settles(vec![
        running(UP, FOUR),
        deleting(failed(DOWN, last))
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
    let all_ended: Vec<_> = ended.iter().map(|(name, _)| (*name, ENDED)).collect();
    let course = |ready, last| {
        settles(vec![
            running(ready, &up),
            running(ready, ended),
            deleting(running(ready, ended)),
            deleting(failed(last, &all_ended)),
        ])
    };
    assert!(!course(NONE, NONE));
    // One that says that it is up has made none.
    let is_all = ended.iter().all(|(_, state)| *state == ENDED);
    assert!(course(UP, DOWN) && (is_all || !course(NONE, DOWN)));
    // And a container that runs again shows the sandbox that counts.
    assert!(settles(vec![
        running(NONE, &up),
        running(NONE, ended),
        running(NONE, &up),
        deleting(failed(NONE, &all_ended)),
    ]));
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
            let before = trail.settled;
            let Some(last) = &events[end] else {
                trail.gap();
                prop_assert_eq!(trail.settled, before);
                continue;
            };
            trail.advance(last);
            if !trail.settled {
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

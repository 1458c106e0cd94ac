//! Ends of pods that their kubelet did not stop, or whose containers it may be starting anew: such a sandbox may outlast W.

use ipgc_core::{breaker::Limits, known::Evidence, pod::wire::Wire};

use crate::common::prelude::*;

fn evidence() -> Evidence {
    Evidence::new(
        Policy::default(),
        Limits::default(),
        working(&["node-1"], 1_000),
    )
}

fn running() -> PodState {
    reporting(POD, "net1", "10.0.0.5")
}

fn deleting() -> PodState {
    running().but(|it| it.deleting = true)
}

/// A pod that runs since 0, and is being deleted since 100.
fn being_deleted() -> Evidence {
    let mut evidence = evidence();
    evidence.apply_pod(running(), at(0));
    evidence.apply_pod(deleting(), at(100));
    evidence
}

/// Whether its sandbox may outlast W, if it goes in this state.
fn may_outlast(evidence: &mut Evidence, last: PodState, second: u64) -> bool {
    let ended = evidence.delete_pod(last, at(second));
    ended.unwrap().may_outlast()
}

/// A list shows a successor of a pod that its kubelet did not stop.
#[test]
fn and_if_a_list_shows_its_successor() {
    let mut evidence = being_deleted();
    evidence.pods.begin_list(at(990));
    let next = running().but(|it| it.uid = "uid-2".into());
    let ended = evidence.apply_pod(next, at(1_000));
    assert!(ended.unwrap().may_outlast());
}

/// Somebody else writes the phase before the pod is forced away.
#[rstest]
#[case::nobody_writes_a_phase(Phase::Running)]
#[case::somebody_does(Phase::Failed)]
fn a_foreign_phase_does_not_make_a_stuck_pod_end(#[case] phase: Phase) {
    let mut evidence = being_deleted();
    let last = deleting().but(|it| it.phase = phase);
    evidence.apply_pod(last.clone(), at(999));
    assert!(may_outlast(&mut evidence, last, 1_000));
}

/// Whether a container of this pod may be started anew.
fn starts_anew(pod: &Value) -> bool {
    let wire: Wire = serde_json::from_str(&pod.to_string()).unwrap();
    wire.state().unwrap().restarts
}

/// A kubelet says that a container ended while it pulls its image anew.
#[rstest]
#[case::that_serves("Always", "containerStatuses", 0, true)]
#[case::without_a_policy("", "containerStatuses", 0, true)]
#[case::that_failed("OnFailure", "containerStatuses", 1, true)]
#[case::that_is_done("OnFailure", "containerStatuses", 0, false)]
#[case::that_is_never_restarted("Never", "containerStatuses", 1, false)]
#[case::init_container_that_failed("Always", "initContainerStatuses", 1, true)]
#[case::init_container_that_is_done("Always", "initContainerStatuses", 0, false)]
fn a_container_is_started_anew(
    #[case] policy: &str,
    #[case] list: &str,
    #[case] code: i64,
    #[case] restarts: bool,
) {
    let mut status = json!({"phase": "Running"});
    status[list] = json!([{"name": "main", "state": {"terminated": {"exitCode": code}}}]);
    for is_deleted in [false, true] {
        let mut pod = json!({
            "metadata": {"namespace": "default", "name": "web-0", "uid": "uid-1"},
            "spec": {"restartPolicy": policy},
            "status": status,
        });
        if is_deleted {
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        assert_eq!(starts_anew(&pod), restarts);
    }
}

/// A container with a policy of its own, as a sidecar, is started anew whatever the pod's policy is.
#[rstest]
#[case::sidecar("initContainers", "initContainerStatuses", "main", true)]
#[case::one_that_serves("containers", "containerStatuses", "main", true)]
#[case::another_one("containers", "containerStatuses", "other", false)]
fn a_container_with_a_policy_of_its_own_is_started_anew(
    #[case] list: &str,
    #[case] statuses: &str,
    #[case] name: &str,
    #[case] restarts: bool,
) {
    let mut pod = json!({
        "metadata": {"namespace": "default", "name": "web-0", "uid": "uid-1"},
        "spec": {"restartPolicy": "Never"},
        "status": {"phase": "Running"},
    });
    pod["spec"][list] = json!([{"name": "main", "restartPolicy": "Always"}, {"name": "other"}]);
    pod["status"][statuses] = json!([{"name": name, "state": {"terminated": {"exitCode": 0}}}]);
    assert_eq!(starts_anew(&pod), restarts);
}

/// While it is being deleted, containers that ended are those that the kubelet stops.
#[rstest]
#[case::was_restarted_before(true)]
#[case::ran(false)]
fn a_container_that_ended_during_the_deletion_is_not_started(#[case] restarts: bool) {
    let mut evidence = evidence();
    let before = running().but(|it| it.restarts = restarts);
    evidence.apply_pod(before, at(0));
    let last = deleting().but(|it| it.containers = containers(&[("main", ENDED)]));
    assert_eq!(may_outlast(&mut evidence, last, 10), restarts);
}

/// A kubelet falls silent before its node is known as not ready: longer than `--node-monitor-grace-period` takes.
#[rstest]
#[case::when_it_is_forced_away(false)]
#[case::when_its_node_fails(true)]
fn a_kubelet_that_did_not_stop_a_pod_is_known_also_if_it_fell_silent_since(#[case] fails: bool) {
    let mut evidence = being_deleted();
    for second in (1_010..=1_100).step_by(10) {
        let (nodes, last) = (&mut evidence.nodes, Some("1000"));
        nodes.note_lease("node-1", last, at(second), at(second));
    }
    if fails {
        evidence.nodes.apply("node-1", not_ready(), at(1_100));
    }
    assert!(may_outlast(&mut evidence, deleting(), 1_100));
}

/// A kubelet that is too old for the condition `PodReadyToStartContainers`.
#[test]
fn who_writes_a_terminal_phase_while_a_container_runs_is_not_the_kubelet() {
    let mut evidence = evidence();
    let old = |state: PodState| state.but(|it| it.sandbox_ready = None);
    evidence.apply_pod(old(running()), at(0));
    evidence.apply_pod(old(deleting()), at(100));
    let last = old(deleting()).but(|it| it.phase = Phase::Failed);
    evidence.apply_pod(last.clone(), at(999));
    assert!(may_outlast(&mut evidence, last, 1_000));
}

/// A kubelet stopped it after all, though later than W, and said so.
#[test]
fn a_pod_that_its_kubelet_ended_late_is_not_held_for_ever() {
    let mut evidence = being_deleted();
    evidence.nodes.apply("node-1", not_ready(), at(900));
    let last = stopped(deleting());
    // What was before is in doubt, so that it is no good end.
    evidence.pods.begin_list(at(950));
    evidence.apply_pod(last.clone(), at(960));
    evidence.end_pod_list(at(960));
    let ended = evidence.delete_pod(last, at(1_000)).unwrap();
    assert!(!ended.settled && !ended.may_outlast());
}

/// A list shows it as deleting when its node is not ready any more: nobody knows whether the kubelet had the time.
#[test]
fn a_pod_that_a_list_shows_after_its_node_failed_is_not_taken_for_stuck() {
    let mut evidence = evidence();
    evidence.nodes.apply("node-1", not_ready(), at(900));
    evidence.pods.begin_list(at(950));
    evidence.apply_pod(deleting(), at(960));
    evidence.end_pod_list(at(960));
    assert!(!may_outlast(&mut evidence, deleting(), 2_000));
}

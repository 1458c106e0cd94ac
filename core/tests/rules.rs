//! The rules on mirrors, deleted and completed pods, and which rule comes first.

use ipgc_core::judge::Word;

use crate::common::prelude::*;

// Rule 2: mirrors

fn mirror() -> PodState {
    reporting(POD, "net1", "10.0.0.5").but(|it| it.mirror = true)
}

#[test]
fn a_mirror_stays_one_whoever_bore_its_name_later() {
    let plain = pod(POD).but(|it| it.node = None);
    let ends = [ended(mirror(), 100, true), ended(plain, 200, false)];
    let known = Known::of(&ends).seen(4_000).absent(4_000).on(at_work());
    let stale = stale(verdict(&Presence::Absent, &known));
    assert_eq!(stale.clearance.wait, until(4_000 + TWO_BEATS + 600));
    assert_eq!(stale.clearance.grade, Grade::Unwitnessed);
}

#[test]
fn every_node_whose_name_ends_a_mirrors_may_be_its_own() {
    let row = row_value("kube-system/etcd-b-a", &sandbox(1), "net1");
    for [ready, silent] in [["a", "b-a"], ["b-a", "a"]] {
        let mut nodes = nodes_with(&[(ready, node_state()), (silent, not_ready())]);
        beat(&mut nodes, ready, 0, NOW);
        let known = Known::default().seen(0).on(nodes);
        let stale = stale(judged(&row, &Presence::Absent, &known, NOW));
        assert_eq!(stale.clearance.wait, waits_for(&[silent]));
    }
}

#[test]
fn a_mirror_that_is_there_holds_its_rows() {
    let known = predecessor(0);
    let gone_elsewhere = elsewhere().but(|it| it.mirror = true);
    for (state, held) in [(mirror(), Held::Reported), (gone_elsewhere, Held::Mirror)] {
        assert_held(&verdict(&present(state), &known), held);
    }
}

/// Node-1, whose kubelet falls silent. It came after the gap, and blocks all the same.
fn silent() -> Nodes {
    let mut nodes = nodes_with(&[("node-1", node_state())]);
    hear_nothing(&mut nodes, "node-1", 0, NOW);
    nodes
}

/// From the first change of the node's Lease after the end on.
#[rstest]
#[case::watched(30, true, at_work(), Grade::Unwitnessed, until(100 + TWO_BEATS + 600))]
#[case::watched_badly(30, false, at_work(), Grade::Unwitnessed, until(100 + TWO_BEATS + 600))]
#[case::w_is_longer(3_000, true, at_work(), Grade::Unwitnessed, until(100 + TWO_BEATS + 120 + 3_000 + 60))]
#[case::its_own_node_blocks(30, true, silent(), Grade::Unfenced, waits_for(&["node-1"]))]
fn a_mirror_that_is_gone_is_unwitnessed_with_the_leftover_grace(
    #[case] grace: u64,
    #[case] settled: bool,
    #[case] nodes: Nodes,
    #[case] grade: Grade,
    #[case] wait: Wait,
) {
    let last = mirror().but(|it| it.termination_grace = Some(secs(grace)));
    let known = Known::of(&[ended(last, 100, settled)]);
    let known = known.seen(90).absent(90).on(nodes);
    let Stale { cause, clearance } = stale(verdict(&Presence::Absent, &known));
    assert_eq!((cause, clearance.watched), (Cause::Deleted, false));
    assert_eq!((clearance.grade, clearance.wait), (grade, wait));
}

#[test]
fn a_static_pod_whose_node_object_was_deleted_may_run_on() {
    let known = Known::of(&[ended(mirror(), 100, true)]).seen(0);
    let stale = stale(verdict(&Presence::Absent, &known));
    assert_eq!(stale.clearance.wait, waits_for(&["node-1"]));
}

#[test]
fn so_may_that_of_a_mirror_that_nobody_saw() {
    let row = row_value("kube-system/etcd-node-1", &sandbox(1), "net1");
    let mut nodes = nodes_with(&[("node-1", node_state()), ("node-2", node_state())]);
    beat(&mut nodes, "node-2", 0, NOW);
    nodes.remove("node-1", at(50));
    let known = Known::default().seen(60).absent(60).on(nodes);
    let stale = stale(judged(&row, &Presence::Absent, &known, NOW));
    assert_eq!(stale.clearance.grade, Grade::Unfenced);
    assert_eq!(stale.clearance.wait, waits_for(&["node-1"]));
}

#[rstest]
#[case::own_name("kube-system/etcd-node-1", true)]
#[case::longer("kube-system/etcd-xnode-1", false)]
#[case::no_dash("kube-system/node-1", false)]
#[case::another_node("kube-system/etcd-node-2", false)]
fn after_a_restart_a_mirror_is_known_by_its_nodes_name(#[case] owner: &str, #[case] mirror: bool) {
    let row = row_value(owner, &sandbox(1), "net1");
    let known = Known::default().seen(0).on(at_work());
    let stale = stale(judged(&row, &Presence::Absent, &known, NOW));
    let wait = if mirror { 10 + 600 } else { W };
    assert_eq!(stale.clearance.wait, until(wait));
}

#[test]
fn a_plain_pod_that_was_seen_is_no_mirror_whatever_its_name() {
    let plain =
        reporting(POD, "net1", "10.0.0.5").but(|it| it.podref = podref("kube-system/etcd-node-1"));
    let row = row_value("kube-system/etcd-node-1", &sandbox(1), "net1");
    let known = Known::of(&[ended(plain, 100, true)]).seen(0).on(at_work());
    let stale = stale(judged(&row, &Presence::Absent, &known, NOW));
    assert_eq!(stale.clearance.grade, Grade::Settled);
}

// Rule 3

#[test]
fn what_the_watch_still_shows_alive_waits_for_its_end() {
    let good = ended(reporting(POD, "net1", "10.0.0.5"), 100, true);
    let known = Known::of(&[good]).but(|it| it.living = Some(living("uid-2")));
    let stale = stale(verdict(&Presence::Absent, &known));
    assert_eq!(stale.clearance.wait, Wait::until(at(NOW) + LOOK_AGAIN));
}

// Rule 4: completed

#[test]
fn a_container_that_runs_in_the_proven_state_keeps_the_row() {
    let known = completed(&ended(done(), 100, true));
    let runs = done().but(|it| it.containers = containers(&[("main", ENDED), ("debug", RUNNING)]));
    assert_held(&verdict(&present(runs), &known), Held::Ended);
}

#[test]
fn a_completed_pods_row_goes_after_the_grace() {
    let known = completed(&ended(done(), 100, true));
    let before = stale(verdict(&present(done()), &known));
    assert_eq!(before.cause, Cause::Completed);
    assert_eq!(before.clearance.grade, Grade::Settled);
    assert_eq!(before.clearance.wait, until(220));
    assert!(before.clearance.watched);
    // Also while it is being deleted or held by a finalizer.
    let deleting = done().but(|it| it.deleting = true);
    assert_eq!(stale(verdict(&present(deleting), &known)), before);
}

#[test]
fn a_completed_pod_whose_end_was_not_clean_waits_for_w() {
    let end = but(&ended(done(), 100, false), |end| end.stopped = true);
    let stale = stale(verdict(&present(done()), &completed(&end)));
    assert_eq!(stale.clearance.grade, Grade::Witnessed);
    assert_eq!(stale.clearance.wait, until(100 + TWO_BEATS + W));
}

#[rstest]
#[case::another_incarnation(done_as("uid-2", Phase::Succeeded), true, Held::Ended)]
#[case::not_terminal(done_as("uid-1", Phase::Running), true, Held::Reported)]
#[case::not_stopped(done_as("uid-1", Phase::Failed), false, Held::Ended)]
fn a_pod_that_is_not_at_its_end_is_not_completed(
    #[case] state: PodState,
    #[case] stopped: bool,
    #[case] held: Held,
) {
    let end = but(&ended(done(), 100, true), |end| end.stopped = stopped);
    assert_held(&verdict(&present(state), &completed(&end)), held);
}

/// A pod that is being deleted uses its address until its kubelet has ended it. Where there is no kubelet at work, it
/// stays for ever with the report that it had.
#[rstest]
#[case::ready(Some(node_state()), Held::Reported, Word::Live)]
#[case::not_ready(Some(not_ready()), Held::Leaving, Word::Unreported)]
#[case::fenced(Some(fenced()), Held::Leaving, Word::Unreported)]
#[case::removed(None, Held::Leaving, Word::Unreported)]
fn a_pod_that_is_being_deleted_is_live_while_its_kubelet_may_end_it(
    #[case] node: Option<NodeState>,
    #[case] held: Held,
    #[case] word: Word,
) {
    let nodes: Vec<_> = node.map(|node| ("node-1", node)).into_iter().collect();
    let known = Known::default().on(nodes_with(&nodes));
    let state = reporting(POD, "net1", "10.0.0.5").but(|it| it.deleting = true);
    let verdict = verdict(&present(state), &known);
    assert_eq!((verdict.word(), verdict), (word, Verdict::Held(held)));
}

/// An evicted pod as it is found after a restart: its containers are gone from the runtime, so the
/// kubelet made their ends up. It stays for weeks, and its rows wait for W, not for its deletion. Where the
/// address was never reported, it may be of a set-up that was cut off and goes on.
#[rstest]
#[case::made_up(&[("main", MADE_UP)], Some(false), true, true)]
#[case::of_an_old_kubelet(&[("main", MADE_UP)], None, true, true)]
#[case::all_of_them(&[("init", MADE_UP), ("main", MADE_UP)], Some(false), true, true)]
#[case::one_waits(&[("init", MADE_UP), ("main", WAITING)], Some(false), true, false)]
#[case::one_runs(&[("init", MADE_UP), ("main", RUNNING)], Some(false), true, false)]
#[case::rejected(&[], Some(false), true, false)]
#[case::sandbox_up(&[("main", MADE_UP)], Some(true), true, false)]
#[case::not_reported(&[("main", MADE_UP)], Some(false), false, false)]
fn a_pod_whose_end_the_kubelet_made_up_waits_for_w(
    #[case] states: &[(&str, ContainerState)],
    #[case] sandbox_ready: Option<bool>,
    #[case] reported: bool,
    #[case] goes: bool,
) {
    let evicted = PodState {
        containers: containers(states),
        sandbox_ready,
        status: if reported {
            done().status
        } else {
            Status::Missing
        },
        ..done_as("uid-1", Phase::Failed)
    };
    let end = but(&ended(evicted.clone(), 100, false), |end| {
        end.stopped = false;
    });
    match verdict(&present(evicted), &completed(&end)) {
        Verdict::Stale(stale) => {
            assert!(goes);
            assert_eq!(stale.clearance.grade, Grade::Witnessed);
            assert_eq!(stale.clearance.wait, until(100 + TWO_BEATS + W));
        }
        verdict => {
            assert!(!goes);
            assert!(matches!(verdict, Verdict::Held(_)), "{verdict:?}");
        }
    }
}

fn done_as(uid: &str, phase: Phase) -> PodState {
    PodState {
        uid: uid.into(),
        phase,
        ..done()
    }
}

#[test]
fn a_terminal_phase_that_the_watch_has_not_shown_is_no_end_yet() {
    let known = Known::default().but(|it| it.living = Some(living("uid-1")));
    assert_held(&verdict(&present(done()), &known), Held::Ended);
}

/// Where its node is gone, the garbage collector of pods wrote its phase, and a finalizer keeps it.
#[rstest]
#[case::fenced(Some(fenced()), false, Ok(until(220)))]
#[case::not_ready(Some(not_ready()), false, Err(Held::Ended))]
#[case::ready(Some(node_state()), false, Err(Held::Ended))]
#[case::gone(None, false, Err(Held::Ended))]
#[case::gone_and_deleted(None, true, Ok(until(100 + W)))]
fn a_completed_pod_that_did_not_stop_goes_where_its_node_is_fenced(
    #[case] node: Option<NodeState>,
    #[case] deleting: bool,
    #[case] goes: Result<Wait, Held>,
) {
    let end = but(&ended(done(), 100, false), |end| end.stopped = false);
    let nodes: Vec<_> = node.map(|node| ("node-1", node)).into_iter().collect();
    let known = completed(&end).on(nodes_with(&nodes));
    let runs = done_as("uid-1", Phase::Failed).but(|it| {
        it.deleting = deleting;
        it.containers = containers(&[("main", RUNNING)]);
    });
    let verdict = verdict(&present(runs), &known);
    match goes {
        Ok(wait) => {
            let clearance = stale(verdict).clearance;
            assert_eq!((clearance.grade, clearance.wait), (Grade::Fenced, wait));
        }
        Err(held) => assert_held(&verdict, held),
    }
}

#[test]
fn predecessors_of_a_completed_pod_count() {
    let forced = ended(reporting(POD, "net1", "10.0.0.5"), 4_900, false);
    let known = completed(&ended(done(), 4_950, true)).but(|it| it.ended = vec![forced]);
    let stale = stale(verdict(&present(done()), &known));
    assert_eq!(stale.clearance.wait, until(4_900 + TWO_BEATS + W));
    // That the pod is at its end, its object says itself.
    assert!(stale.clearance.watched);
}

#[test]
fn a_completed_pod_found_by_a_list_is_no_mass_of_unseen_ends() {
    let end = but(&ended(done(), 100, true), |end| end.watched = false);
    let stale = stale(verdict(&present(done()), &completed(&end)));
    assert!(stale.clearance.watched);
}

// Which rule comes first

/// Everything that could free the row.
fn everything() -> Known {
    Known {
        ended: vec![ended(reporting(POD, "net1", "10.0.0.5"), 10, true)],
        living: Some(Living {
            running_since: Some(at(0)),
            completed: Some(ended(done(), 0, true)),
            ..living("uid-1")
        }),
        siblings: leftover().siblings,
        ..predecessor(0)
    }
}

#[rstest]
#[case::mirror_before_completed(PodState { mirror: true, ..done() }, Ok(Held::Reported))]
#[case::completed_before_reported(done(), Err(Cause::Completed))]
#[case::reported_before_predecessor(reporting(POD, "net1", "10.0.0.5"), Ok(Held::Reported))]
#[case::completed_before_predecessor(PodState { status: Status::Missing, ..done() }, Err(Cause::Completed))]
#[case::no_predecessor_while_the_status_is_incomplete(PodState { status: Status::Missing, ..pod(POD) }, Ok(Held::Changing))]
#[case::predecessor_before_leftover(elsewhere(), Err(Cause::Predecessor))]
fn the_first_rule_that_fits_decides(#[case] state: PodState, #[case] first: Result<Held, Cause>) {
    match (verdict(&present(state), &everything()), first) {
        (Verdict::Held(held), Ok(first)) => assert_eq!(held, first),
        (Verdict::Stale(stale), Err(first)) => assert_eq!(stale.cause, first),
        (verdict, _) => panic!("{verdict:?}"),
    }
}

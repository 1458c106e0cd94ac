//! Ends of pods whose kubelet may have begun a second sandbox that no state shows: the API server gets only the newest
//! state of a pod.

use ipgc_core::{breaker::Limits, known::Evidence};

use crate::common::prelude::*;

/// The end of a pod whose rows were seen with these sandboxes; it ended well at 100.
fn end(sandboxes: &[u64]) -> Arc<Ended> {
    let end = ended(reporting(POD, "net1", "10.0.0.5"), 100, true);
    but(&end, |end| {
        for number in sandboxes {
            let tag = IdTag::of(&sandbox(*number)).unwrap();
            end.sandboxes.note(tag, at(10));
        }
    })
}

/// The next pod of the name took the row over, and ended well at 300.
#[test]
fn nor_is_one_that_the_next_pod_took_over() {
    let next = ended(reporting(POD, "net1", "10.0.0.5"), 300, true);
    let known = Known::of(&[end(&[2]), next]).seen(0).on(at_work());
    let clearance = known.weigh(&row_content(), &Policy::default(), 301);
    assert_eq!(clearance.wait, until(100 + W));
}

/// The row is of sandbox 1.
#[rstest]
#[case::nobody_saw_its_rows(&[], true)]
#[case::of_its_sandbox(&[1], true)]
#[case::of_its_former_sandbox(&[1, 2], true)]
#[case::of_another_sandbox(&[2], false)]
fn a_row_that_was_seen_with_another_sandbox_alone_is_not_settled(
    #[case] sandboxes: &[u64],
    #[case] is_settled: bool,
) {
    let known = Known::of(&[end(sandboxes)]).seen(0).on(at_work());
    let clearance = known.weigh(&row_content(), &Policy::default(), 101);
    let (grade, wait) = if is_settled {
        (Grade::Settled, until(102))
    } else {
        (Grade::Witnessed, until(100 + TWO_BEATS + W))
    };
    assert_eq!((clearance.grade, clearance.wait), (grade, wait));
}

/// A machine is booted so fast that its node stays ready, and its pods' states may be old: a deletion writes such a one
/// again. No container outlives a boot.
#[rstest]
#[case::and_nothing_was_seen_of_the_pod(&[], false)]
#[case::and_an_old_state_was_seen(&[1], false)]
#[case::and_another_container_runs(&[2], true)]
fn the_machine_was_booted_before_the_end(#[case] seen: &[u64], #[case] is_settled: bool) {
    let policy = &Policy::default();
    let mut evidence = Evidence::new(Limits::default(), Nodes::default());
    let boot = |evidence: &mut Evidence, boot, version, second| {
        let state = booted("m", boot, version);
        evidence.note_node("node-1", Some(state), false, at(second));
    };
    boot(&mut evidence, "a", "1", 0);
    let running = |container| {
        let id = IdTag::of(&sandbox(container)).unwrap();
        reporting(POD, "net1", "10.0.0.5").but(|it| it.container_ids = [id].into())
    };
    evidence.apply_pod(running(1), policy, at(1));
    boot(&mut evidence, "b", "2", 50);
    for container in seen {
        let next = running(*container).but(|it| it.deleting = true);
        evidence.apply_pod(next, policy, at(60));
    }
    let last = running(2).but(|it| {
        it.phase = Phase::Failed;
        it.sandbox_ready = Some(false);
        it.containers = containers(&[("main", ENDED)]);
    });
    evidence.apply_pod(last.clone(), policy, at(70));
    let end = evidence.delete_pod(last, policy, at(71)).unwrap();
    assert_eq!(end.settled, is_settled);
}

/// The watch of nodes lags behind that of pods, for less than the cooldown.
#[rstest]
#[case::soon(101, Grade::Witnessed)]
#[case::later_than_a_watch_lags(103, Grade::Settled)]
#[case::before(99, Grade::Settled)]
fn another_boot_is_told_soon_after_the_end(#[case] second: u64, #[case] grade: Grade) {
    let mut nodes = nodes_with(&[("node-1", booted("m", "a", "1"))]);
    nodes.apply("node-1", booted("m", "b", "2"), at(second));
    beat(&mut nodes, "node-1", 0, 1_000);
    let known = Known::of(&[end(&[1])]).seen(0).on(nodes);
    let clearance = known.weigh(&row_content(), &Policy::default(), 500);
    assert_eq!(clearance.grade, grade);
}

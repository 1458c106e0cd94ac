//! The rules that free rows of pods that are there, mirrors, and which rule comes first.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::sync::Arc;

use common::{
    ENDED, Known, POD, RUNNING, W, at, beat, but, containers, ended, fenced, hear_nothing, ip,
    no_nodes, node_state, nodes_with, not_ready, observe, pod, podref, pool_document, reporting,
    row_content, row_value, sandbox, secs, status,
};
use ipgc_core::{
    clearance::{LOOK_AGAIN, Living, Wait},
    evidence::{Ended, Grade, Policy},
    judge::{Cause, Held, Stale, Unknown, Verdict, judge},
    networks::{Request, Status},
    node::Nodes,
    pod::{Phase, PodState},
    pool::RowContent,
    proof::Presence,
    sighting::Sighting,
};
use rstest::rstest;
use serde_json::{Value, json};

/// The present of most tests.
const NOW: u64 = 5_000;

fn judged(row: &Value, presence: &Presence, known: &Known, now: u64) -> Verdict {
    let pool = observe(&pool_document("10.0.0.0/24", &[("5", row.clone())]));
    judge(
        &pool,
        &pool.rows()[0],
        presence,
        &known.facts(),
        &Policy::default(),
        at(now),
    )
}

/// The verdict on 10.0.0.5 of net1.
fn verdict(presence: &Presence, known: &Known) -> Verdict {
    judged(&row_value(POD, &sandbox(1), "net1"), presence, known, NOW)
}

/// The verdict on the same address in a row without an interface.
fn verdict_without_interface(presence: &Presence, known: &Known) -> Verdict {
    let row = json!({"id": sandbox(1), "podref": POD});
    judged(&row, presence, known, NOW)
}

fn present(state: PodState) -> Presence {
    Presence::Present(Some(Box::new(state)))
}

#[track_caller]
fn stale(verdict: Verdict) -> Stale {
    match verdict {
        Verdict::Stale(stale) => stale,
        other => panic!("{other:?}"),
    }
}

fn living(uid: &str) -> Living {
    Living {
        uid: uid.into(),
        running_since: None,
        completed: None,
    }
}

/// The node of all pods, ready and at work the whole time.
fn at_work() -> Nodes {
    let mut nodes = nodes_with(&[("node-1", node_state())]);
    beat(&mut nodes, "node-1", 0, NOW);
    nodes
}

// Rule 2: mirrors

fn mirror() -> PodState {
    PodState {
        mirror: true,
        ..reporting(POD, "net1", "10.0.0.5")
    }
}

#[test]
fn a_mirror_stays_one_whoever_bore_its_name_later() {
    let plain = PodState {
        node: None,
        ..pod(POD)
    };
    let ends = [ended(mirror(), 100, true), ended(plain, 200, false)];
    let known = Known::of(&ends).seen(4_000);
    let stale = stale(verdict(&Presence::Absent, &known));
    assert_eq!(stale.clearance.wait, Wait::Until(at(4_600)));
    assert_eq!(stale.grade(), Grade::Unwitnessed);
}

#[test]
fn every_node_whose_name_ends_a_mirrors_may_be_its_own() {
    let row = row_value("kube-system/etcd-b-a", &sandbox(1), "net1");
    for [ready, silent] in [["a", "b-a"], ["b-a", "a"]] {
        let mut nodes = nodes_with(&[(ready, node_state()), (silent, not_ready())]);
        beat(&mut nodes, ready, 0, NOW);
        let known = Known::default().seen(0).on(nodes);
        let stale = stale(judged(&row, &Presence::Absent, &known, NOW));
        assert_eq!(stale.clearance.wait, Wait::For([silent.into()].into()));
    }
}

// Rule 4: completed

/// A pod at its end that is still there.
fn done() -> PodState {
    PodState {
        phase: Phase::Succeeded,
        containers: containers(&[("main", ENDED)]),
        ..reporting(POD, "net1", "10.0.0.5")
    }
}

fn completed(end: &Arc<Ended>) -> Known {
    Known {
        living: Some(Living {
            completed: Some(Arc::clone(end)),
            ..living(&end.last.uid)
        }),
        ..Known::default().seen(0).on(at_work())
    }
}

#[test]
fn a_container_that_runs_in_the_proven_state_keeps_the_row() {
    let known = completed(&ended(done(), 100, true));
    let runs = PodState {
        containers: containers(&[("main", ENDED), ("debug", RUNNING)]),
        ..done()
    };
    assert_eq!(
        verdict(&present(runs), &known),
        Verdict::Held(Held::Reported)
    );
}

// Rule 6: predecessors

/// A row that was seen at 0 while its pod was absent, and a pod that runs since `since`.
fn predecessor(since: u64) -> Known {
    Known {
        living: Some(Living {
            running_since: Some(at(since)),
            ..living("uid-1")
        }),
        sighting: Some(Sighting {
            first: at(0),
            while_absent: Some(at(0)),
        }),
        ..Known::default().on(at_work())
    }
}

/// One that lives on another address.
fn elsewhere() -> PodState {
    reporting(POD, "net1", "10.0.0.6")
}

#[test]
fn the_run_of_another_incarnation_does_not_count() {
    let again = PodState {
        uid: "uid-2".into(),
        ..elsewhere()
    };
    assert_eq!(
        verdict(&present(again), &predecessor(100)),
        Verdict::Held(Held::Drift)
    );
}

#[test]
fn a_former_sandbox_waits_for_a_watch_that_is_heard() {
    let known = Known {
        fresh: false,
        ..predecessor(100)
    };
    let predecessor = stale(verdict(&present(elsewhere()), &known));
    assert!(!predecessor.is_free(at(NOW)));
    assert_eq!(
        predecessor.clearance.wait,
        Wait::Until(at(NOW) + LOOK_AGAIN)
    );
    let known = Known {
        fresh: false,
        ..leftover()
    };
    let leftover = stale(verdict(&present(elsewhere()), &known));
    assert_eq!(leftover.clearance.wait, Wait::Until(at(NOW) + LOOK_AGAIN));
}

// Rule 8: leftovers

fn sibling(address: &str, interface: Option<&str>, id: u64) -> RowContent {
    RowContent {
        address: ip(address),
        interface: interface.map(Into::into),
        sandbox: sandbox(id).into(),
        ..row_content()
    }
}

/// The pod's other row bears another sandbox.
fn leftover() -> Known {
    Known {
        siblings: Some(vec![row_content(), sibling("10.0.0.6", Some("net1"), 2)]),
        living: Some(living("uid-1")),
        ..Known::default().seen(0).on(at_work())
    }
}

#[test]
fn a_row_without_an_interface_is_no_proof_of_another_sandbox() {
    let known = Known {
        siblings: Some(vec![row_content(), sibling("10.0.0.6", None, 2)]),
        ..leftover()
    };
    assert_eq!(
        verdict(&present(reporting(POD, "", "10.0.0.6")), &known),
        Verdict::Held(Held::Drift)
    );
}

//! One incarnation's end, and how long its row waits for it.

#![allow(clippy::unwrap_used)]
use super::*;
use crate::{
    definitions::Scope,
    evidence::Sandboxes,
    id::IdTag,
    networks::{Request, Status},
    node::NodeState,
    pod::Phase,
};

fn at(seconds: u64) -> Moment {
    Moment::new(Duration::from_secs(seconds))
}

fn row() -> RowContent {
    RowContent {
        address: "10.0.0.1".parse().unwrap(),
        sandbox: "ab".repeat(32).into(),
        podref: "d/web-0".parse().unwrap(),
        interface: Some("net1".into()),
    }
}

/// An incarnation that reported the row and ended at `at`.
fn end(settled: bool, at: Moment) -> Ended {
    let status = r#"[{"name":"d/net","interface":"net1","ips":["10.0.0.1"]}]"#;
    Ended {
        last: PodState {
            podref: row().podref,
            uid: "a".into(),
            phase: Phase::Succeeded,
            deleting: true,
            node: Some("north".into()),
            host_network: false,
            mirror: false,
            name_may_return: true,
            termination_grace: None,
            status: Status::parse(status),
            request: Request::default(),
            default_network: None,
            sandbox_ready: Some(false),
            containers: Arc::default(),
            container_ids: Box::default(),
            since: None,
        },
        at,
        watched: true,
        settled,
        stopped: settled,
        listed_at: None,
        born: None,
        gap_at: None,
        sandboxes: Sandboxes::default(),
    }
}

/// A node whose kubelet has been at work all the time.
fn nodes(until: u64) -> Nodes {
    let mut nodes = Nodes::default();
    let state = NodeState {
        uid: "n".into(),
        ready: true,
        out_of_service: false,
        taint_is_old: false,
        declared_empty: false,
        ..NodeState::default()
    };
    nodes.apply("north", state, at(0));
    nodes.retain(|_| true, at(0));
    for second in (0..=until).step_by(10) {
        nodes.hear("north", Some(&second.to_string()), at(second), at(second));
    }
    nodes
}

fn clearance(end: Ended, first_seen: Moment, now: u64) -> Clearance {
    let ended = [Arc::new(end)];
    let nodes = nodes(now);
    let facts = Facts {
        ended: &ended,
        living: None,
        rows: 1,
        interfaces: 1,
        sighting: Some(Sighting {
            first: first_seen,
            while_absent: None,
        }),
        siblings: None,
        others: &[],
        scope: Scope::default(),
        nodes: &nodes,
        slice: None,
        longest_grace: Duration::ZERO,
        fresh: true,
    };
    let subject = Subject {
        row: &row(),
        facts: &facts,
        policy: &Policy::default(),
        now: at(now),
    };
    subject.of_deleted()
}

#[test]
fn an_unknown_termination_grace_is_thirty_seconds_at_the_least() {
    // The node was at work when the pod ended, its Lease changed every ten seconds: of the next
    // two changes one comes after the end, and then W.
    let clearance = clearance(end(false, at(1_000)), at(0), 1_000);
    let wait = Duration::from_secs(20) + Policy::default().wait(Some(DEFAULT_POD_GRACE), 1);
    assert_eq!(clearance.wait, Wait::Until(at(1_000) + wait));
}

#[test]
fn whoever_wrote_the_row_has_been_shown_by_the_watch_before_it_goes() {
    let settled = || end(true, at(1_000));
    assert_eq!(
        clearance(settled(), at(1_005), 1_005).wait,
        Wait::Until(at(1_007)),
        "seen first long after the end: a successor may have written it a moment ago"
    );
    assert_eq!(
        clearance(settled(), at(1_000), 1_005).wait,
        Wait::Until(at(1_002))
    );
    let mut known = settled();
    known
        .sandboxes
        .note(IdTag::of(&row().sandbox).unwrap(), at(900));
    assert_eq!(
        clearance(known, at(1_005), 1_005).wait,
        Wait::Until(at(1_002)),
        "its writer was seen alive with it"
    );
    let mut never_returns = settled();
    never_returns.last.name_may_return = false;
    assert_eq!(
        clearance(never_returns, at(1_005), 1_005).wait,
        Wait::Until(at(1_002))
    );
}

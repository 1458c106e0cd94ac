//! The cost of a sweep in decisions: a million rows against the facts of a hundred thousand pods.
//! `cargo bench -p ipgc-core`; the goal is a second on one core.

#![allow(clippy::unwrap_used)]

use std::{collections::HashMap, sync::Arc, time::Duration};

use divan::{Bencher, counter::ItemsCount};
use ipgc_core::{
    clearance::Facts,
    definitions::Scope,
    evidence::{Ended, Policy, Sandboxes},
    judge::{Verdict, judge},
    networks::{Request, Status},
    node::{NodeState, Nodes},
    pod::{Phase, PodState},
    podref::PodRef,
    pool::{Glance, ObservedPool},
    proof::Presence,
    sighting::Sighting,
    time::Moment,
};
use serde_json::{Map, Value, json};

const ROWS_PER_POOL: usize = 10_000;
const PODS: usize = 100_000;
const NODES: usize = 1_000;
/// The present, in seconds.
const NOW: u64 = 1_000;
/// Every row is judged as often, so that a million are.
const ROUNDS: usize = 10;
/// Of so many pods, one is gone and settled, and one is gone and nobody knows of it.
const ONE_GONE_OF: usize = 50;

fn owner(pod: usize) -> String {
    format!("namespace-{}/pod-{pod}", pod % 100)
}

/// The pool of the pods from `first` on, a row each.
fn pool_text(first: usize) -> String {
    let row = |key: usize| {
        let id = format!("{:064x}", first + key);
        json!({"id": id, "podref": owner(first + key), "ifname": "net1"})
    };
    let rows: Map<_, _> = (0..ROWS_PER_POOL)
        .map(|key| (key.to_string(), row(key)))
        .collect();
    let range = format!("10.{}.0.0/16", first / ROWS_PER_POOL);
    let metadata = json!({"generation": 1, "name": range.replace('/', "-"), "uid": range});
    json!({"metadata": metadata, "spec": {"range": range, "allocations": rows}}).to_string()
}

fn pod(pod: usize) -> PodState {
    let (pool, key) = (pod / ROWS_PER_POOL, pod % ROWS_PER_POOL);
    let address = format!("10.{pool}.{}.{}", key / 256, key % 256);
    let status = json!([
        {"name": "cbr0", "interface": "eth0", "ips": ["10.244.0.1"], "default": true},
        {"name": "default/nad", "interface": "net1", "ips": [address]}
    ]);
    PodState {
        podref: owner(pod).parse().unwrap(),
        uid: pod.to_string().into(),
        phase: Phase::Running,
        deleting: false,
        node: Some(format!("node-{}", pod % 1_000).into()),
        host_network: false,
        mirror: false,
        name_may_return: true,
        termination_grace: Some(Duration::from_secs(30)),
        status: Status::parse(&status.to_string()),
        request: Request::parse("nad", "default"),
        default_network: None,
        sandbox_ready: Some(true),
        containers: Arc::default(),
        container_ids: Box::default(),
        since: None,
    }
}

/// Presence and ends of one pod.
fn facts_of(number: usize) -> (PodRef, (Presence, Vec<Arc<Ended>>)) {
    let last = pod(number);
    let podref = last.podref.clone();
    let settled = |last| Ended {
        last,
        at: Moment::EPOCH,
        watched: true,
        settled: true,
        stopped: true,
        listed_at: None,
        born: None,
        gap_at: None,
        sandboxes: Sandboxes::default(),
    };
    let known = match number % ONE_GONE_OF {
        0 => (Presence::Absent, vec![Arc::new(settled(last))]),
        1 => (Presence::Absent, Vec::new()),
        _ => (Presence::Present(Some(Arc::new(last))), Vec::new()),
    };
    (podref, known)
}

/// The nodes of all pods, suspected of running what nobody saw, and at work ever since: each is asked
/// about for each row that nobody knows of.
fn nodes_at_work() -> Nodes {
    let mut nodes = Nodes::default();
    let names: Vec<_> = (0..NODES).map(|node| format!("node-{node}")).collect();
    let state = || NodeState {
        ready: true,
        ..NodeState::default()
    };
    for name in &names {
        nodes.apply(name, state(), Moment::EPOCH);
    }
    nodes.retain(|_| true, Moment::EPOCH);
    nodes.gap(Moment::EPOCH);
    nodes.suspect(names.iter().map(String::as_str), Moment::EPOCH);
    for second in (0..=NOW).step_by(10) {
        let moment = Moment::new(Duration::from_secs(second));
        for name in &names {
            nodes.hear(name, Some(&second.to_string()), moment, moment);
        }
    }
    nodes
}

#[divan::bench(sample_count = 5)]
fn judge_a_million_rows(bencher: Bencher<'_, '_>) {
    let pools: Vec<_> = (0..PODS)
        .step_by(ROWS_PER_POOL)
        .map(|first| ObservedPool::parse(&pool_text(first), Moment::EPOCH, |_| true).unwrap())
        .collect();
    let pods: HashMap<_, _> = (0..PODS).map(facts_of).collect();
    let nodes = nodes_at_work();
    let policy = Policy::default();
    let now = Moment::new(Duration::from_secs(NOW));
    let sighting = Sighting {
        first: Moment::EPOCH,
        while_absent: None,
    };
    let round = || {
        let rows = pools
            .iter()
            .flat_map(|pool| pool.rows().iter().map(move |row| (pool, row)));
        let free = rows.filter(|(pool, row)| {
            let (presence, ended) = &pods[row.podref_text().unwrap()];
            let facts = Facts {
                ended,
                living: None,
                rows: 1,
                interfaces: 1,
                sighting: Some(sighting),
                siblings: None,
                others: &[],
                scope: Scope::default(),
                nodes: &nodes,
                slice: None,
                longest_grace: Duration::from_secs(30),
                fresh: true,
            };
            let verdict = judge(pool, row, presence, &facts, &policy, now);
            matches!(verdict, Verdict::Stale(stale) if stale.is_free(now))
        });
        assert_eq!(free.count(), 2 * PODS / ONE_GONE_OF);
    };
    bencher
        .counter(ItemsCount::new(PODS * ROUNDS))
        .bench_local(|| (0..ROUNDS).for_each(|_| round()));
}

#[divan::bench]
fn parse_a_pool_of_10000_rows_that_nobody_wants(bencher: Bencher<'_, '_>) {
    let text = pool_text(0);
    bencher
        .counter(ItemsCount::new(ROWS_PER_POOL))
        .bench_local(|| {
            ObservedPool::parse(&text, Moment::EPOCH, |_| false)
                .unwrap()
                .total_rows
        });
}

/// A page as the API server writes it: two pools, with what their managed fields say of every row.
fn page_text() -> String {
    let fields: Map<_, _> = (0..ROWS_PER_POOL)
        .map(|key| {
            (
                format!("f:{key}"),
                json!({".": {}, "f:id": {}, "f:ifname": {}, "f:podref": {}}),
            )
        })
        .collect();
    let managers = json!([{
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {".": {}, "f:allocations": fields, "f:range": {}}},
        "manager": "whereabouts",
        "operation": "Update",
        "time": "2026-01-01T00:00:00Z",
    }]);
    let pools = [0, ROWS_PER_POOL].map(|first| {
        let mut pool: Value = serde_json::from_str(&pool_text(first)).unwrap();
        pool["metadata"]["managedFields"] = managers.clone();
        pool
    });
    json!({"items": pools, "metadata": {"resourceVersion": "1"}}).to_string()
}

#[divan::bench]
fn parse_a_page_of_20000_rows_that_nobody_wants(bencher: Bencher<'_, '_>) {
    let text = page_text();
    bencher
        .counter(ItemsCount::new(2 * ROWS_PER_POOL))
        .with_inputs(|| text.clone().into_bytes())
        .bench_local_refs(|text| {
            let text = str::from_utf8(text).unwrap();
            let unwanted = |_: &Glance<'_>| false;
            let read = ObservedPool::parse_list::<Value>(text, Moment::EPOCH, unwanted);
            read.unwrap().1.len()
        });
}

fn main() {
    divan::main();
}

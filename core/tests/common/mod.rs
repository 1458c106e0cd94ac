//! Builders that the integration tests share: pods, ended incarnations, pools and proofs.

// Every test binary compiles this module and uses a part of it.
#![allow(dead_code)]

use std::{collections::HashMap, net::IpAddr, sync::Arc, time::Duration};

use ipgc_core::{
    evidence::{Ended, Policy},
    judge::{Release, Verdict},
    networks::{Request, Status},
    pod::{Container, ContainerState, Phase, PodState},
    podref::PodRef,
    pool::{ObservedPool, Row},
    proof::{Presence, Proof},
    time::Moment,
};
use json_patch::Patch;
use serde_json::{Value, json};

/// The pod that most tests are about.
pub const POD: &str = "default/web-0";
/// The uid of [`pool_document`].
pub const POOL_UID: &str = "3f0a7c52-pool";

pub const WAITING: ContainerState = ContainerState::Waiting;
pub const RUNNING: ContainerState = ContainerState::Running;
pub const ENDED: ContainerState = ContainerState::Terminated { started: true };
/// What the kubelet makes up for a container that never ran.
pub const MADE_UP: ContainerState = ContainerState::Terminated { started: false };

/// `n` seconds after the epoch.
pub fn at(n: u64) -> Moment {
    Moment::new(secs(n))
}

pub fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub fn podref(text: &str) -> PodRef {
    text.parse().unwrap()
}

/// A sandbox id, one for each `n`.
pub fn sandbox(n: u64) -> String {
    format!("{n:064x}")
}

/// A network-status with these (interface, addresses).
pub fn status(entries: &[(&str, &[&str])]) -> Status {
    let entries: Vec<Value> = entries
        .iter()
        .map(|(interface, ips)| json!({"name": "default/nad", "interface": interface, "ips": ips}))
        .collect();
    Status::parse(&Value::from(entries).to_string())
}

/// A scheduled pod that runs, asked for nothing and reports nothing.
pub fn pod(owner: &str) -> PodState {
    PodState {
        default_network: None,
        podref: podref(owner),
        uid: "uid-1".into(),
        phase: Phase::Running,
        deleting: false,
        node: Some("node-1".into()),
        host_network: false,
        mirror: false,
        name_may_return: true,
        termination_grace: Some(secs(30)),
        status: Status::Missing,
        request: Request::default(),
        sandbox_ready: Some(true),
        containers: containers(&[("main", RUNNING)]),
    }
}

pub fn containers(states: &[(&str, ContainerState)]) -> Box<[Container]> {
    states
        .iter()
        .map(|(name, state)| Container {
            name: (*name).into(),
            state: *state,
        })
        .collect()
}

/// A pod that reported `address` on `interface`.
pub fn reporting(owner: &str, interface: &str, address: &str) -> PodState {
    PodState {
        status: status(&[(interface, &[address])]),
        ..pod(owner)
    }
}

/// The end of an incarnation `at` seconds after the epoch.
pub fn ended(last: PodState, second: u64, settled: bool) -> Arc<Ended> {
    Arc::new(Ended {
        last,
        at: at(second),
        settled,
        doubt_until: None,
    })
}

/// A row as whereabouts 0.8 and later store it.
pub fn row_value(owner: &str, id: &str, interface: &str) -> Value {
    json!({"id": id, "podref": owner, "ifname": interface})
}

/// An IPPool of `range` as the API server shows it.
pub fn pool_document(range: &str, rows: &[(&str, Value)]) -> Value {
    let allocations: serde_json::Map<_, _> = rows
        .iter()
        .map(|(key, value)| ((*key).to_owned(), value.clone()))
        .collect();
    json!({
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
        "kind": "IPPool",
        "metadata": {
            "name": range.replace([':', '/'], "-"),
            "namespace": "kube-system",
            "uid": POOL_UID,
            "resourceVersion": "7"
        },
        "spec": {"range": range, "allocations": allocations}
    })
}

/// What an observation of the document at the epoch gives.
pub fn observe(document: &Value) -> ObservedPool {
    ObservedPool::parse(&document.to_string(), Moment::EPOCH, |_| true).unwrap()
}

/// A pool of 10.0.0.0/24 with one row: `key` held by [`POD`] on net1.
pub fn pool_with(key: &str) -> ObservedPool {
    observe(&pool_document(
        "10.0.0.0/24",
        &[(key, row_value(POD, &sandbox(1), "net1"))],
    ))
}

/// A proof that every owner of the pool is absent.
pub fn all_absent(pool: &ObservedPool) -> Proof<'_> {
    let presence: HashMap<_, _> = pool
        .rows()
        .iter()
        .filter_map(|row| Some((row.content().ok()?.podref.clone(), Presence::Absent)))
        .collect();
    pool.begin_proof().conclude(presence)
}

/// Releases the row with evidence that leaves no doubt: its pod reported it and settled long ago.
pub fn release<'a>(proof: &Proof<'a>, row: &'a Row) -> Result<Release<'a>, Verdict> {
    let evidence = row
        .content()
        .map(|content| {
            let mut last = pod(content.podref.as_str());
            let interface = content.interface.as_deref().unwrap_or("net1");
            last.status = status(&[(interface, &[&content.address.to_string()])]);
            ended(last, 0, true)
        })
        .ok();
    let evidence: Vec<_> = evidence.into_iter().collect();
    proof.release(row, &evidence, 1, &Policy::default(), at(1_000_000))
}

/// All rows of the pool, released.
pub fn release_all<'a>(proof: &Proof<'a>) -> Vec<Release<'a>> {
    let rows = proof.observed().rows();
    rows.iter()
        .map(|row| release(proof, row).unwrap())
        .collect()
}

/// The document after the patch; `None` where the patch fails, which must leave it as it was.
pub fn apply(document: &Value, patch: &Patch) -> Option<Value> {
    let mut after = document.clone();
    let applied = json_patch::patch(&mut after, patch).is_ok();
    assert!(applied || after == *document);
    applied.then_some(after)
}

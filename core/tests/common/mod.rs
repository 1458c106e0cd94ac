//! Builders that the integration tests share: pods, ended incarnations, nodes, facts, pools and
//! proofs.

// Every test binary compiles this module and uses a part of it.
#![allow(dead_code)]

pub mod arbitrary;
pub mod prelude;
pub mod rules;

use std::net::IpAddr;

use ipgc_core::{
    clearance::{Facts, Other, Subject},
    definitions::{Networks, Scope},
    judge::Release,
    node::Boot,
    pod::Container,
    pool::{PoolKey, Row},
    proof::Proof,
};
use json_patch::Patch;

use prelude::*;

/// The pod that most tests are about.
pub const POD: &str = "default/web-0";
/// Where a Lease changes every ten seconds, of two changes one comes after any given moment.
pub const TWO_BEATS: u64 = 20;
/// With one row and a termination grace of 30 s: 120 + 30 + 60.
pub const W: u64 = 210;
/// The uid of [`pool_document`].
pub const POOL_UID: &str = "3f0a7c52-pool";
/// Nothing is known of the pool, so each report counts.
pub const ANY_SCOPE: Scope<'static> = Scope {
    networks: &Networks::new(),
    range: None,
    definitions: &Definitions::new(),
};

pub const WAITING: ContainerState = ContainerState::Waiting;
pub const RUNNING: ContainerState = ContainerState::Running;
pub const ENDED: ContainerState = ContainerState::Terminated { started: true };
/// The state that the kubelet makes up for a container that never ran.
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

/// The tag of that id.
pub fn tag(n: u64) -> IdTag {
    IdTag::of(&sandbox(n)).unwrap()
}

pub fn pool_key(namespace: &str, name: &str) -> PoolKey {
    let (namespace, name) = (namespace.to_owned(), name.to_owned());
    PoolKey { namespace, name }
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
        restarts: false,
        container_ids: Box::default(),
        has_resource_claims: false,
        since: None,
    }
}

pub fn containers(states: &[(&str, ContainerState)]) -> Arc<[Container]> {
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
    pod(owner).but(|it| it.status = status(&[(interface, &[address])]))
}

/// The same pod after its kubelet has stopped all of it.
pub fn stopped(running: PodState) -> PodState {
    running.but(|it| {
        it.phase = Phase::Failed;
        it.sandbox_ready = Some(false);
        it.containers = containers(&[("main", ENDED)]);
    })
}

/// The end of an incarnation that was watched, `at` seconds after the epoch.
pub fn ended(last: PodState, second: u64, settled: bool) -> Arc<Ended> {
    Arc::new(Ended {
        last,
        at: at(second),
        terminal_since: None,
        watched: true,
        settled,
        stopped: settled,
        stuck: false,
        listed_at: None,
        born: None,
        gap_at: None,
        sandboxes: Sandboxes::default(),
    })
}

/// The same with something else about it.
pub trait But: Sized {
    fn but(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

impl<T> But for T {}

/// The same incarnation with something else about its end.
pub fn but(end: &Arc<Ended>, change: impl FnOnce(&mut Ended)) -> Arc<Ended> {
    let mut end = Ended::clone(end);
    change(&mut end);
    Arc::new(end)
}

/// The row 10.0.0.5 of [`POD`] on net1, written for the first sandbox.
pub fn row_content() -> RowContent {
    RowContent {
        address: ip("10.0.0.5"),
        sandbox: sandbox(1).into(),
        podref: podref(POD),
        interface: Some("net1".into()),
    }
}

/// A node that is ready.
pub fn node_state() -> NodeState {
    NodeState {
        ready_changed: None,
        uid: "node-uid".into(),
        ready: true,
        out_of_service: false,
        declared_empty: false,
        ..NodeState::default()
    }
}

/// A node that is ready, on this boot of this machine; the version of its object is `version`.
pub fn booted(machine: &str, boot: &str, version: &str) -> NodeState {
    NodeState {
        version: version.into(),
        boot: Some(Boot {
            machine: (machine.into(), machine.into()),
            id: boot.into(),
        }),
        ..node_state()
    }
}

/// A node that is not ready, and of which nobody says that it runs no sandboxes.
pub fn not_ready() -> NodeState {
    node_state().but(|it| it.ready = false)
}

/// A node that is not ready and shut down for good.
pub fn fenced() -> NodeState {
    not_ready().but(|it| it.out_of_service = true)
}

/// A complete list without any node.
pub fn no_nodes() -> Nodes {
    let mut nodes = Nodes::default();
    nodes.retain(|_| false, Moment::EPOCH);
    nodes
}

/// A complete list of these nodes.
pub fn nodes_with(states: &[(&str, NodeState)]) -> Nodes {
    let mut nodes = Nodes::default();
    for (name, state) in states {
        nodes.apply(name, state.clone(), Moment::EPOCH);
    }
    nodes.retain(|_| true, Moment::EPOCH);
    nodes
}

/// Reads of a Lease that changes all the time, each 10 s from one second on to another.
pub fn beat(nodes: &mut Nodes, name: &str, from: u64, to: u64) {
    for second in (from..=to).step_by(10) {
        nodes.note_lease(name, Some(&second.to_string()), at(second), at(second));
    }
}

/// Reads of a Lease that never changes.
pub fn hear_nothing(nodes: &mut Nodes, name: &str, from: u64, to: u64) {
    for second in (from..=to).step_by(10) {
        nodes.note_lease(name, Some("still"), at(second), at(second));
    }
}

/// These nodes, ready and at work from the beginning until then.
pub fn working(names: &[&str], until: u64) -> Nodes {
    let states: Vec<_> = names.iter().map(|name| (*name, node_state())).collect();
    let mut nodes = nodes_with(&states);
    for name in names {
        beat(&mut nodes, name, 0, until);
    }
    nodes
}

pub fn present(state: PodState) -> Presence {
    Presence::Present(Some(Arc::new(state)))
}

/// Everything that [`Facts`] refers to.
#[derive(Clone, Debug)]
pub struct Known {
    pub ended: Vec<Arc<Ended>>,
    pub living: Option<Living>,
    pub rows: usize,
    pub interfaces: usize,
    pub sighting: Option<Sighting>,
    pub siblings: Option<Vec<RowContent>>,
    pub others: Vec<Other>,
    pub networks: Networks,
    pub definitions: Definitions,
    pub nodes: Nodes,
    pub slice: Option<String>,
    pub longest_grace: Duration,
    pub fresh: bool,
}

impl Default for Known {
    /// The watch is heard, one row, no nodes, and that is known: an incarnation that ended on a node is
    /// fenced after W.
    fn default() -> Self {
        Self {
            ended: Vec::new(),
            living: None,
            rows: 1,
            interfaces: 1,
            sighting: None,
            siblings: None,
            others: Vec::new(),
            networks: [None].into(),
            definitions: Definitions::new(),
            nodes: no_nodes(),
            slice: None,
            longest_grace: secs(30),
            fresh: true,
        }
    }
}

impl Known {
    /// Of these incarnations, and nothing else out of the ordinary.
    pub fn of(ended: &[Arc<Ended>]) -> Self {
        Self {
            ended: ended.to_vec(),
            ..Self::default()
        }
    }

    /// The row was first seen as it is in this second. In second 0 its pod was proven absent, too.
    pub fn seen(self, second: u64) -> Self {
        Self {
            sighting: Some(Sighting {
                first: at(second),
                while_absent: (second == 0).then_some(at(0)),
            }),
            ..self
        }
    }

    /// In this second its pod was proven absent.
    pub fn absent(mut self, second: u64) -> Self {
        if let Some(sighting) = &mut self.sighting {
            sighting.while_absent = Some(at(second));
        }
        self
    }

    pub fn on(self, nodes: Nodes) -> Self {
        Self { nodes, ..self }
    }

    pub fn facts<'f>(&'f self, policy: &'f Policy, now: u64) -> Facts<'f> {
        Facts {
            ended: &self.ended,
            living: self.living.clone(),
            rows: self.rows,
            interfaces: self.interfaces,
            sighting: self.sighting,
            siblings: self.siblings.as_deref(),
            others: &self.others,
            scope: Scope {
                networks: &self.networks,
                range: Range::parse("10.0.0.0/24"),
                definitions: &self.definitions,
            },
            nodes: &self.nodes,
            slice: self.slice.as_deref(),
            longest_grace: self.longest_grace,
            fresh: self.fresh,
            policy,
            now: at(now),
        }
    }

    /// The verdict on the first row of the pool.
    pub fn judge(
        &self,
        pool: &ObservedPool,
        presence: &Presence,
        policy: &Policy,
        now: u64,
    ) -> Verdict {
        let row = &pool.rows()[0];
        judge(pool, row, presence, &self.facts(policy, now))
    }

    /// The conclusion of all evidence about this row of an absent pod.
    pub fn weigh(&self, row: &RowContent, policy: &Policy, now: u64) -> Clearance {
        let facts = &self.facts(policy, now);
        Subject { row, facts }.of_deleted()
    }
}

pub fn until(second: u64) -> Wait {
    Wait::until(at(second))
}

/// Until something happens on these nodes.
pub fn waits_for(names: &[&str]) -> Wait {
    Wait::on(names.iter().map(|name| (*name).into()).collect())
}

/// Until something happens on this node, or until then.
pub fn at_most(name: &str, second: u64) -> Wait {
    Wait {
        until: Some(at(second)),
        ..waits_for(&[name])
    }
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

/// The result of an observation of the document at the epoch.
pub fn observe(document: &Value) -> ObservedPool {
    ObservedPool::parse(&document.to_string(), Moment::EPOCH, |_| true).unwrap()
}

/// A pool of 10.0.0.0/24 with one row: `key` held by [`POD`] on net1.
pub fn document_with(key: &str) -> Value {
    let row = row_value(POD, &sandbox(1), "net1");
    pool_document("10.0.0.0/24", &[(key, row)])
}

pub fn pool_with(key: &str) -> ObservedPool {
    observe(&document_with(key))
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

/// Releases the row with evidence that leaves no doubt: its pod reported it and settled long ago, and
/// the row was seen then.
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
    let known = Known::of(&Vec::from_iter(evidence)).seen(0);
    proof.release(row, &known.facts(&Policy::default(), 1_000_000))
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

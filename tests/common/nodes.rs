//! Nodes whose kubelets are at work, fall silent and come back; and the neighbour by whom a test
//! shows that the collector is at work.

use std::{ops::RangeInclusive, time::Duration};

use serde_json::Value;
use testkit::{Match, Server, fixtures, pods::Kubelet};
use tokio::task::JoinHandle;

use super::{Bench, NS, POOL, put_pool, put_row_on, reporting, seconds, server};

/// W of a pod with one row and the default termination grace: 120 s + 30 s + 60 s.
pub const W: u64 = 210;

/// A kubelet that renews its Lease every ten seconds until it is dropped.
pub struct Beat(JoinHandle<()>);

impl Beat {
    /// The kubelet of a node that is there already.
    pub fn of(server: &Server, node: &str) -> Self {
        let (kubelet, node) = (Kubelet::new(server), node.to_owned());
        Self(tokio::spawn(async move {
            loop {
                kubelet.renew_lease(&node);
                seconds(10).await;
            }
        }))
    }
}

impl Drop for Beat {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A node that is ready, with a kubelet at work.
pub fn live_node(server: &Server, name: &str) -> Beat {
    server.put(fixtures::node(name, true));
    Beat::of(server, name)
}

/// A node that is not ready, with a Lease that nobody renews.
pub fn silent_node(server: &Server, name: &str) {
    server.put(fixtures::node(name, false));
    Kubelet::new(server).renew_lease(name);
}

/// The kubelet dies, and the node controller sees it.
pub fn fall_silent(server: &Server, name: &str, beat: Beat) {
    drop(beat);
    Kubelet::new(server).set_ready(name, false);
}

/// The kubelet is back.
pub fn come_back(server: &Server, name: &str) -> Beat {
    Kubelet::new(server).set_ready(name, true);
    Beat::of(server, name)
}

/// Declares a node out of service.
pub fn taint(server: &Server, node: &str) {
    let found = server.edit("nodes", "", node, |node| {
        node["spec"]["taints"] = serde_json::json!([fixtures::out_of_service_taint()]);
    });
    assert!(found, "no node {node}");
}

/// A person states that a node runs no sandboxes, as of now.
pub fn declare_empty(server: &Server, node: &str) {
    let now = server.now() + Duration::from_secs(1);
    let found = server.edit("nodes", "", node, |node| {
        node["metadata"]["annotations"]["ipgc.dev/no-sandboxes"] = now.to_string().into();
    });
    assert!(found, "no node {node}");
}

/// A running pod on this node that reports 10.0.0.`offset` on `net1`.
pub fn run_on(server: &Server, node: &str, name: &str, offset: u64) {
    server.put(reporting(name, offset).node(node).running());
}

/// The uid of the second incarnation of a name.
pub const SECOND: &str = "00000000-0000-4000-8000-00000000beef";

/// A second incarnation of this name, running, that reports 10.0.0.`offset`.
pub fn second(name: &str, offset: u64) -> Value {
    reporting(name, offset).uid(SECOND).running().build()
}

/// ADD takes a row over for another sandbox.
pub fn adopt(server: &Server, pool: &str, key: &str) {
    let adopted = server.edit("ippools", NS, pool, |pool| {
        pool["spec"]["allocations"][key]["id"] = fixtures::sandbox(0xadd).into();
    });
    assert!(adopted, "no pool {pool}");
}

/// The name of the neighbour, whose row is at [`NEIGHBOUR_KEY`].
pub const NEIGHBOUR: &str = "neighbour";
pub const NEIGHBOUR_KEY: &str = "200";

/// Puts a neighbour, running, with a row of its own in the pool.
pub fn put_neighbour(server: &Server, pool: &str) {
    // Its name never returns. So no unseen pod can have its row, whatever a test does to the nodes.
    let pod = reporting(NEIGHBOUR, 200).owner("ReplicaSet", "neighbours");
    server.put(pod.node("neighbours-node").running());
    put_row_on(server, pool, 200, NEIGHBOUR, "net1", 200);
}

/// A server with a pool of these rows, and the neighbour.
pub fn with_neighbour(rows: &[(u64, &str)]) -> Server {
    let server = server();
    put_pool(&server, rows);
    put_neighbour(&server, POOL);
    server
}

/// The neighbour ends well, and its row goes: the collector is at work. Within ten minutes, since
/// some tests have spoilt so much that only the next sweep finds it.
pub async fn neighbour_goes(bench: &Bench, pool: &str) {
    bench.end([NEIGHBOUR]);
    goes_after(bench, pool, NEIGHBOUR_KEY, 900).await;
    assert!(!bench.sent(Match::patch("ippools")).is_empty());
}

/// These rows are there and stay for two hours, while the neighbour's goes.
pub async fn stays(bench: &Bench, pool: &str, keys: &[&str]) {
    seconds(3_600).await;
    neighbour_goes(bench, pool).await;
    seconds(3_600).await;
    assert_eq!(bench.rows(pool), keys, "\n{}", bench.server.requests());
}

/// Whether the row with this key goes within so many seconds from now, and when, to the second.
pub async fn goes_after(bench: &Bench, pool: &str, key: &str, at_most: u64) -> u64 {
    for second in 0..=at_most {
        if !bench.rows(pool).iter().any(|row| row == key) {
            return second;
        }
        seconds(1).await;
    }
    panic!(
        "row {key} is still there after {at_most} s\n{}",
        bench.server.requests()
    );
}

/// The row with this key goes within these seconds from now, and not before them.
pub async fn goes_in(bench: &Bench, pool: &str, key: &str, within: RangeInclusive<u64>) {
    let second = goes_after(bench, pool, key, *within.end()).await;
    assert!(
        within.contains(&second),
        "row {key} went after {second} s, and not within {within:?}"
    );
}

/// The notes of the pools' events with this reason.
pub fn pool_events(bench: &Bench, reason: &str) -> Vec<String> {
    let mut events = bench.events("IPPool");
    events.retain(|event| event.contains(reason));
    events
}

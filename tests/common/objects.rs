//! What tests put on their server: definitions, pools with rows, reservations, pods.

use ipgc::core::reservation::{CLAIM_ANNOTATION, CLAIMED_PODREF};
use serde_json::{Value, json};
use testkit::{
    Server,
    fixtures::{self, PodBuilder},
};

use super::{NS, ORIP, POOL, RANGE};

/// A server with the definition `default/net` on [`RANGE`], and its pool without rows: the first sweep learns where
/// pools are.
pub fn server() -> Server {
    let server = Server::new();
    server.put(fixtures::nad(NS, "net", RANGE));
    server.put(fixtures::pool(NS, RANGE));
    server
}

/// The same without the pool, and it takes whatever is written to a pool: other servers refuse or prune bad values, at the
/// latest when ipgc patches them.
pub fn lenient() -> Server {
    let server = Server::builder().adjust("ippools", |ippools| ippools.schema = None);
    let server = server.build();
    server.put(fixtures::nad(NS, "net", RANGE));
    server
}

/// A time that API servers take, and k8s-openapi does not.
pub const FAR: &str = "9999-12-31T00:00:00Z";

/// Managed fields that API servers take, with such a time, and deeper than `serde_json` goes.
pub fn far_fields() -> Value {
    let deep = (0..200).fold(json!({}), |inner, _| json!({ "f:x": inner }));
    json!([{"manager": "x", "operation": "Update", "apiVersion": "v1", "time": FAR, "fieldsType": "FieldsV1", "fieldsV1": deep}])
}

/// The podref of a pod that is named alone, or as `namespace/name`.
fn podref_of(pod: &str) -> String {
    if pod.contains('/') {
        return pod.to_owned();
    }
    format!("{NS}/{pod}")
}

/// Puts a pool with one row for each (offset, pod), with reservations. Those of one pod are of its interfaces `net1`, `net2`
/// and so on.
pub fn put_pool(server: &Server, rows: &[(u64, &str)]) {
    let mut pool = fixtures::pool(NS, RANGE);
    for (at, (offset, pod)) in rows.iter().enumerate() {
        let podref = podref_of(pod);
        let before = rows[..at].iter().filter(|(_, other)| other == pod);
        let interface = format!("net{}", before.count() + 1);
        pool = pool.row(*offset, &fixtures::sandbox(*offset), &podref, &interface);
        let address = format!("10.0.0.{offset}");
        server.put(fixtures::reservation(NS, &address, &podref, &interface));
    }
    server.put(pool);
}

/// The same, and its pods run.
pub fn put_running(server: &Server, rows: &[(u64, &str)]) {
    put_pool(server, rows);
    for (offset, pod) in rows {
        run_pod(server, pod, *offset);
    }
}

/// A server with a pool of these rows, whose pods run.
pub fn running(rows: &[(u64, &str)]) -> Server {
    let server = server();
    put_running(&server, rows);
    server
}

/// The running pods `web-1` to `web-<count>` with a row and a reservation each; their names.
pub fn put_crowd(server: &Server, count: usize) -> Vec<String> {
    let names: Vec<_> = (1..=count).map(|n| format!("web-{n}")).collect();
    put_running(server, &numbered(&names));
    names
}

/// Each of these names with an offset, from 1.
pub fn numbered(names: &[String]) -> Vec<(u64, &str)> {
    (1..).zip(names.iter().map(String::as_str)).collect()
}

/// Running pods that `kind` controls, with a row each in the pool of 10.`number`.0.0/16, which the definition `net` has.
/// Their addresses.
pub fn put_many(
    server: &Server,
    number: u64,
    net: &str,
    kind: &str,
    names: &[String],
) -> Vec<String> {
    let range = format!("10.{number}.0.0/16");
    server.put(fixtures::nad(NS, net, &range));
    let mut pool = fixtures::pool(NS, &range);
    let mut addresses = Vec::new();
    for (n, name) in numbered(names) {
        let address = format!("10.{number}.{}.{}", n / 256, n % 256);
        pool = pool.row_of(n, &format!("{NS}/{name}"));
        server.put(on_net(net, name, &address).owner(kind, "owner").running());
        addresses.push(address);
    }
    server.put(pool);
    addresses
}

/// Puts the definition `default/<name>` of a range in the network `sliced`, which is cut up among nodes.
pub fn put_sliced(server: &Server, name: &str) {
    let ipam = json!({"type": "whereabouts", "range": "10.8.0.0/16", "node_slice_size": "/24", "network_name": "sliced"});
    server.put(fixtures::nad_with_ipam(NS, name, &ipam));
}

/// Puts the `NodeSlicePool` of the network `sliced` with these slices of nodes.
pub fn put_slices(server: &Server, namespace: &str, slices: &[(&str, &str)]) {
    let pool = fixtures::node_slice_pool(namespace, "sliced", "10.8.0.0/16", "/24", slices);
    server.put(pool);
}

/// Puts the definition `default/<name>` of a range in this network.
pub fn put_network(server: &Server, name: &str, network: &str, range: &str) {
    let ipam = json!({ "type": "whereabouts", "network_name": network, "range": range });
    server.put(fixtures::nad_with_ipam(NS, name, &ipam));
}

/// The owner of a reservation; none if it is not there.
pub fn podref(server: &Server, name: &str) -> String {
    let reservation = server.get(ORIP, NS, name).unwrap_or_default();
    let podref = reservation["spec"]["podref"].as_str();
    podref.unwrap_or_default().to_owned()
}

/// Puts a reservation that was claimed from a pod, by a run that is no more.
pub fn put_claimed(server: &Server, name: &str, pod: &str) {
    let mut claimed = fixtures::reservation(NS, name, CLAIMED_PODREF, "net1");
    claimed["metadata"]["annotations"][CLAIM_ANNOTATION] = format!("{NS}/{pod}").into();
    server.put(claimed);
}

/// A person annotates a pool.
pub fn annotate_pool(server: &Server, pool: &str, key: &str, value: &str) {
    let found = server.edit("ippools", NS, pool, |pool| {
        pool["metadata"]["annotations"][key] = value.into();
    });
    assert!(found, "no pool {pool}");
}

/// Puts a reservation of a pod, on `net1`.
pub fn reserve(server: &Server, name: &str, pod: &str) {
    server.put(fixtures::reservation(NS, name, &podref_of(pod), "net1"));
}

/// Puts a pool of its own whose one row is of a pod that is not there; its name.
pub fn put_leak(server: &Server, range: &str) -> String {
    let pool = fixtures::pool(NS, range);
    server.put(pool.row(1, &fixtures::sandbox(0x1ea), "default/gone", "net1"));
    fixtures::pool_name(range)
}

/// One more row of [`POOL`], on `net1`, of a sandbox of this number; or another in its place.
pub fn put_row(server: &Server, offset: u64, pod: &str, sandbox: u64) {
    put_row_on(server, POOL, offset, pod, "net1", sandbox);
}

/// The same in any pool, on any interface.
pub fn put_row_on(
    server: &Server,
    pool: &str,
    offset: u64,
    pod: &str,
    interface: &str,
    sandbox: u64,
) {
    let row = fixtures::row(&fixtures::sandbox(sandbox), &podref_of(pod), interface);
    let found = server.edit("ippools", NS, pool, |pool| {
        pool["spec"]["allocations"][offset.to_string()] = row;
    });
    assert!(found, "no pool {pool}");
}

/// A running pod that reports 10.0.0.`offset` on `net1`.
pub fn run_pod(server: &Server, name: &str, offset: u64) {
    server.put(reporting(name, offset).running());
}

/// A pod that asks for `default/net`, and reports nothing yet.
pub fn asking(name: &str) -> PodBuilder {
    fixtures::pod(NS, name)
        .node("node-1")
        .networks("default/net")
}

/// A pod that reports 10.0.0.`offset` on `net1`.
pub fn reporting(name: &str, offset: u64) -> PodBuilder {
    on_net("net", name, &format!("10.0.0.{offset}"))
}

/// A pod that asks for a network of `default`, and reports this address of it on `net1`.
pub fn on_net(net: &str, name: &str, address: &str) -> PodBuilder {
    let net = format!("{NS}/{net}");
    let pod = fixtures::pod(NS, name).node("node-1").networks(&net);
    pod.reports(&net, "net1", &[address])
}

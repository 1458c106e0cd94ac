//! Writes a dump as kubectl would of a cluster with so many pods, each with two rows and two reservations:
//!
//! ```sh
//! cargo run --release --example dump -- 100000 > dump.json
//! /usr/bin/time -v target/release/ipgc audit -f dump.json
//! ```
//!
//! Pods are as large as real ones, managed fields aside, which kubectl leaves out. A second argument leaves out so
//! many of the pods, whose rows are stale then.

use std::io::{self, BufWriter, Write};

use serde_json::{Value, json};
use testkit::fixtures;

/// Pods to a pool of twice as many rows.
const POOL: u64 = 1_000;
const NODES: u64 = 1_000;

fn podref(pod: u64) -> (String, String) {
    (
        format!("ns-{}", pod % 50),
        format!("web-{}-abcde-{pod}", pod % 1_000),
    )
}

fn offset(pod: u64, interface: u64) -> u64 {
    pod % POOL * 2 + interface
}

fn address(pod: u64, interface: u64) -> String {
    let offset = offset(pod, interface);
    format!("10.{}.{}.{}", pod / POOL, offset >> 8, offset & 255)
}

fn network(pod: u64) -> String {
    format!("default/net-{}", pod / POOL)
}

fn pod(pod: u64) -> Value {
    let (namespace, name) = podref(pod);
    let network = network(pod);
    let variables: Vec<_> = (0..12)
        .map(|n| json!({ "name": format!("VARIABLE_{n}"), "value": format!("some value of it, {n}") }))
        .collect();
    fixtures::pod(&namespace, &name)
        .uid(&format!("00000000-0000-4000-9000-{pod:012}"))
        .node(&format!("node-{}", pod % NODES))
        .owner("ReplicaSet", "web")
        .label("app", "web")
        .networks(&format!("{network},{network}"))
        .reports_default(&["10.244.0.7"])
        .reports(&network, "net1", &[&address(pod, 1)])
        .reports(&network, "net2", &[&address(pod, 2)])
        .running()
        .with(|pod| {
            pod["metadata"]["resourceVersion"] = "1".into();
            pod["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
            pod["spec"]["tolerations"] = ["not-ready", "unreachable"]
                .map(|taint| {
                    json!({
                        "effect": "NoExecute", "key": format!("node.kubernetes.io/{taint}"),
                        "operator": "Exists", "tolerationSeconds": 300
                    })
                })
                .to_vec()
                .into();
            let container = &mut pod["spec"]["containers"][0];
            container["env"] = variables.into();
            container["resources"] =
                json!({ "limits": { "memory": "128Mi" }, "requests": { "cpu": "10m" } });
            container["terminationMessagePath"] = "/dev/termination-log".into();
            container["volumeMounts"] = json!([{ "mountPath": "/data", "name": "data" }]);
        })
        .build()
}

fn pool(number: u64, pods: u64) -> Value {
    let mut pool = fixtures::pool("kube-system", &format!("10.{number}.0.0/16"));
    for pod in (number * POOL..(number + 1) * POOL).take_while(|pod| *pod < pods) {
        let (namespace, name) = podref(pod);
        for interface in [1, 2] {
            let owner = format!("{namespace}/{name}");
            let id = fixtures::sandbox(pod);
            pool = pool.row(
                offset(pod, interface),
                &id,
                &owner,
                &format!("net{interface}"),
            );
        }
    }
    with_identity(pool.build(), number)
}

fn reservation(pod: u64, interface: u64) -> Value {
    let (namespace, name) = podref(pod);
    let owner = format!("{namespace}/{name}");
    let address = address(pod, interface);
    let reservation =
        fixtures::reservation("kube-system", &address, &owner, &format!("net{interface}"));
    with_identity(reservation, pod * 2 + interface)
}

fn with_identity(mut object: Value, number: u64) -> Value {
    object["metadata"]["uid"] = format!("00000000-0000-4000-8000-{number:012}").into();
    object["metadata"]["resourceVersion"] = number.to_string().into();
    object["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
    object
}

fn main() -> io::Result<()> {
    let mut numbers = std::env::args()
        .skip(1)
        .filter_map(|text| text.parse().ok());
    let pods: u64 = numbers.next().unwrap_or(100_000);
    let gone: u64 = numbers.next().unwrap_or(0);
    let pools = pods.div_ceil(POOL);
    let definition =
        |n: u64| fixtures::nad("default", &format!("net-{n}"), &format!("10.{n}.0.0/16"));
    let objects = (0..pools)
        .map(|number| pool(number, pods))
        .chain((0..pods).flat_map(|pod| [1, 2].map(|interface| reservation(pod, interface))))
        .chain((gone..pods).map(pod))
        .chain((0..NODES).map(|node| fixtures::node(&format!("node-{node}"), true)))
        .chain((0..pools).map(definition));
    let mut output = BufWriter::new(io::stdout().lock());
    write!(output, "{{\n    \"apiVersion\": \"v1\",\n    \"items\": [")?;
    for (number, object) in objects.enumerate() {
        let comma = if number == 0 { "" } else { "," };
        write!(output, "{comma}\n{object:#}")?;
    }
    write!(
        output,
        "\n    ],\n    \"kind\": \"List\",\n    \"metadata\": {{\n        \"resourceVersion\": \"\"\n    }}\n}}\n"
    )?;
    output.flush()
}

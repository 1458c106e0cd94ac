//! A dump as kubectl would write it of a cluster whose pods have two rows and two reservations each.
//!
//! Pods are as large as real ones, managed fields aside, which kubectl leaves out: some 13 kB, indented by four.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Serializer, Value, json, ser::PrettyFormatter};
use testkit::fixtures;

/// Pods to a pool of twice as many rows.
const POOL: u64 = 1_000;
const NODES: u64 = 1_000;
const MADE: &str = "2026-01-01T00:00:00Z";

/// What is in it.
#[derive(Clone, Copy, Debug)]
pub struct Dump {
    /// Pods that have rows.
    pub pods: u64,
    /// So many of them are left out: their rows are stale.
    pub gone: u64,
    /// So many of the 1,000 nodes are not ready.
    pub silent: u64,
}

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
    fixtures::pod(&namespace, &name)
        .uid(&format!("00000000-0000-4000-9000-{pod:012}"))
        .node(&format!("node-{}", pod % NODES))
        .owner("ReplicaSet", "web")
        .label("app.kubernetes.io/name", "web")
        .label(
            "app.kubernetes.io/instance",
            &format!("web-{}", pod % 1_000),
        )
        .label("pod-template-hash", "abcde")
        .annotation("prometheus.io/scrape", "true")
        .annotation("checksum/config", &fixtures::sandbox(pod))
        .networks(&format!("{network},{network}"))
        .reports_default(&["10.244.0.7"])
        .reports(&network, "net1", &[&address(pod, 1)])
        .reports(&network, "net2", &[&address(pod, 2)])
        .running()
        .with(|pod| {
            pod["metadata"]["resourceVersion"] = "1".into();
            pod["metadata"]["generateName"] = "web-abcde-".into();
            pod["metadata"]["creationTimestamp"] = MADE.into();
            fill(&mut pod["spec"]);
            pod["status"]["containerStatuses"] = json!([container_status("main")]);
            pod["status"]["startTime"] = MADE.into();
            pod["status"]["qosClass"] = "Burstable".into();
            pod["status"]["hostIP"] = "192.168.0.7".into();
            pod["status"]["podIP"] = "10.244.0.7".into();
            for condition in pod["status"]["conditions"]
                .as_array_mut()
                .into_iter()
                .flatten()
            {
                condition["lastProbeTime"] = Value::Null;
                condition["lastTransitionTime"] = MADE.into();
            }
        })
        .build()
}

/// What nobody here reads of a pod, and has to be stepped over.
fn fill(spec: &mut Value) {
    spec["tolerations"] = ["not-ready", "unreachable"]
        .map(|taint| {
            json!({
                "effect": "NoExecute", "key": format!("node.kubernetes.io/{taint}"),
                "operator": "Exists", "tolerationSeconds": 300
            })
        })
        .to_vec()
        .into();
    spec["containers"] = [container("main")].to_vec().into();
    spec["serviceAccountName"] = "web".into();
    spec["terminationGracePeriodSeconds"] = 30.into();
    spec["affinity"] = json!({ "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{
        "podAffinityTerm": {
            "labelSelector": { "matchExpressions": [{ "key": "app", "operator": "In", "values": ["web"] }] },
            "topologyKey": "kubernetes.io/hostname"
        },
        "weight": 100
    }] } });
    spec["volumes"] = json!([
        { "emptyDir": {}, "name": "data" },
        { "configMap": { "defaultMode": 420, "name": "web" }, "name": "config" },
        { "name": "kube-api-access-abcde", "projected": { "defaultMode": 420, "sources": [
            { "serviceAccountToken": { "expirationSeconds": 3607, "path": "token" } },
            { "configMap": { "items": [{ "key": "ca.crt", "path": "ca.crt" }], "name": "kube-root-ca.crt" } },
            { "downwardAPI": { "items": [{
                "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.namespace" }, "path": "namespace"
            }] } },
        ] } },
    ]);
}

fn container(name: &str) -> Value {
    let variables: Vec<_> = (0..8)
        .map(|n| json!({ "name": format!("VARIABLE_{n}"), "value": format!("some value of it, {n}") }))
        .collect();
    let probe = |path: &str| {
        json!({
            "failureThreshold": 3, "httpGet": { "path": path, "port": "http", "scheme": "HTTP" },
            "periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 1
        })
    };
    json!({
        "args": ["--listen=0.0.0.0:8080", "--log-format=json"],
        "env": variables,
        "image": format!("registry.example.com/shop/{name}:1.2.3"),
        "imagePullPolicy": "IfNotPresent",
        "livenessProbe": probe("/livez"),
        "name": name,
        "ports": [{ "containerPort": 8080, "name": "http", "protocol": "TCP" }],
        "readinessProbe": probe("/readyz"),
        "resources": { "limits": { "memory": "128Mi" }, "requests": { "cpu": "10m", "memory": "128Mi" } },
        "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "volumeMounts": [
            { "mountPath": "/data", "name": "data" },
            { "mountPath": "/etc/web", "name": "config", "readOnly": true },
            { "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "name": "kube-api-access-abcde",
              "readOnly": true },
        ],
    })
}

fn container_status(name: &str) -> Value {
    let digest = fixtures::sandbox(7);
    json!({
        "containerID": format!("containerd://{digest}"),
        "image": format!("registry.example.com/shop/{name}:1.2.3"),
        "imageID": format!("registry.example.com/shop/{name}@sha256:{digest}"),
        "lastState": {}, "name": name, "ready": true, "restartCount": 0, "started": true,
        "state": { "running": { "startedAt": MADE } },
    })
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
    object["metadata"]["creationTimestamp"] = MADE.into();
    object
}

impl Dump {
    /// Writes it.
    pub fn write(self, output: &mut impl Write) -> io::Result<()> {
        let Self { pods, gone, silent } = self;
        let pools = pods.div_ceil(POOL);
        let definition =
            |n: u64| fixtures::nad("default", &format!("net-{n}"), &format!("10.{n}.0.0/16"));
        let reservations = sorted(pods * 2, |it| address(it / 2, it % 2 + 1));
        let names = sorted(pods, |number| {
            let (namespace, name) = podref(number);
            format!("{namespace}/{name}")
        });
        let numbers = sorted(pools, |number| number.to_string());
        let objects = numbers
            .iter()
            .map(|number| pool(*number, pods))
            .chain(
                reservations
                    .into_iter()
                    .map(|it| reservation(it / 2, it % 2 + 1)),
            )
            .chain(names.into_iter().filter(|it| *it >= gone).map(pod))
            .chain((0..NODES).map(|node| fixtures::node(&format!("node-{node}"), node >= silent)))
            .chain((0..pools).map(definition));
        write!(output, "{{\n    \"apiVersion\": \"v1\",\n    \"items\": [")?;
        for (number, object) in objects.enumerate() {
            output.write_all(if number == 0 { b"\n" } else { b",\n" })?;
            item(output, &object)?;
        }
        write!(
            output,
            "\n    ],\n    \"kind\": \"List\",\n    \"metadata\": {{\n        \"resourceVersion\": \"\"\n    }}\n}}\n"
        )
    }
}

/// In the order of their names, as the API server lists them.
fn sorted(count: u64, name: impl Fn(u64) -> String) -> Vec<u64> {
    let mut numbers: Vec<_> = (0..count).collect();
    numbers.sort_by_cached_key(|number| name(*number));
    numbers
}

fn item(output: &mut impl Write, object: &Value) -> io::Result<()> {
    let mut text = Vec::new();
    let indent = PrettyFormatter::with_indent(b"    ");
    object.serialize(&mut Serializer::with_formatter(&mut text, indent))?;
    for (at, line) in text.split(|byte| *byte == b'\n').enumerate() {
        if at > 0 {
            writeln!(output)?;
        }
        output.write_all(b"        ")?;
        output.write_all(line)?;
    }
    Ok(())
}

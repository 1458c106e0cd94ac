//! Objects of real size, in the form in which the API server itself stored one of each kind.
//!
//! One object of a kind is made through the API and read back: with it come the server's defaults, its
//! conditions and its managed fields. All others are copies of it, with names of their own. The one object is
//! deleted again.

use ipgc::api::Reservation;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use rand::RngExt as _;
use serde_json::{Value, json};
use testkit::fixtures;

use super::{
    population::{Address, Owner, Population},
    raw,
};
use crate::{
    Result, nodes,
    pods::{NETWORK_STATUS, NETWORKS, now},
};

/// The name of the one object of a kind.
const MODEL: &str = "model";

/// The container ID of a running container, and the digest of its image.
const CONTAINER: &str = "6c1f2f4f3b0f4f0d8f2f1f0e9d8c7b6a5f4e3d2c1b0a9f8e7d6c5b4a3f2e1d0c";
const DIGEST: &str = "0f3c6b1e5a7d9284f1c0b8e7d6a5943f2e1d0c9b8a7f6e5d4c3b2a190807f6e5";

/// Creates an object through the API, changes its parts as their managers do (path behind the object, kind of
/// patch, change), reads it and deletes it.
async fn stored(
    client: &Client,
    all: &str,
    manager: &str,
    object: &Value,
    changes: &[(&str, &str, Value)],
) -> Result<Value> {
    let one = format!("{all}/{MODEL}");
    raw::create(client, &format!("{all}?fieldManager={manager}"), object).await?;
    for (path, kind, change) in changes {
        raw::patch(client, &format!("{one}{path}"), kind, change).await?;
    }
    let mut object = raw::read(client, &one).await?;
    raw::delete(client, &one).await?;
    forget_version(&mut object);
    Ok(object)
}

/// Stored objects have no version: it is the revision of the key.
pub fn forget_version(object: &mut Value) {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
}

/// A copy of an object with a name and a uid of its own.
pub fn named(model: &Value, name: &str) -> Value {
    let mut object = model.clone();
    object["metadata"]["name"] = name.into();
    object["metadata"]["uid"] = uid().into();
    object
}

/// The pod of this number, as a copy of another one.
pub fn pod_of(model: &Value, population: &Population, number: usize) -> Value {
    let mut pod = named(model, &population.pod(number));
    let annotations = &mut pod["metadata"]["annotations"];
    annotations[NETWORKS] = population.networks(number).into();
    annotations[NETWORK_STATUS] = population.network_status(number).into();
    pod["spec"]["nodeName"] = population.node_of(number).into();
    pod
}

/// The reservation of this address, as a copy of another one.
pub fn reservation_of(model: &Value, population: &Population, address: Address) -> Value {
    let mut reservation = named(model, &population.ip(address));
    reservation["spec"]["podref"] = population.podref(address.pod).into();
    reservation["spec"]["ifname"] = format!("net{}", address.interface).into();
    reservation
}

/// A pod that runs, made by its controller, reported by multus and by the kubelet.
pub async fn pod(client: &Client, namespace: &str, owner: Owner) -> Result<Value> {
    let all = raw::all::<Pod>(namespace);
    let manager = "kube-controller-manager";
    let reported = json!({"metadata": {"annotations": {NETWORK_STATUS: "[]"}}});
    let kubelet = "/status?fieldManager=kubelet";
    let changes = [
        ("?fieldManager=multus", "merge-patch", reported),
        (kubelet, "strategic-merge-patch", running()),
    ];
    stored(client, &all, manager, &controlled(owner), &changes).await
}

/// A node that is ready.
pub async fn node(client: &Client) -> Result<Value> {
    let object = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": MODEL, "labels": {
            "kubernetes.io/hostname": MODEL, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
        }},
        "spec": {"podCIDR": "10.244.17.0/24"},
    });
    let condition = |kind: &str, status: &str, reason: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": reason,
            "lastHeartbeatTime": now(), "lastTransitionTime": now(),
        })
    };
    let status = json!({"status": {
        "capacity": {"cpu": "32", "memory": "131072Mi", "pods": "250"},
        "allocatable": {"cpu": "31500m", "memory": "128000Mi", "pods": "250"},
        "addresses": [{"type": "InternalIP", "address": "192.0.2.17"}],
        "conditions": [
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID"),
            condition("Ready", "True", "KubeletReady"),
        ],
        "nodeInfo": {
            "architecture": "amd64", "operatingSystem": "linux", "kernelVersion": "6.12.0",
            "osImage": "Debian GNU/Linux 13", "containerRuntimeVersion": "containerd://2.1.4",
            "kubeletVersion": "v1.34.4", "kubeProxyVersion": "", "machineID": "0123456789abcdef",
            "systemUUID": "0123456789abcdef", "bootID": "0123456789abcdef",
        },
    }});
    let kubelet = "/status?fieldManager=kubelet";
    let changes = [(kubelet, "strategic-merge-patch", status)];
    stored(client, "/api/v1/nodes", "ipgc-e2e", &object, &changes).await
}

/// The Lease of a node, renewed now.
pub async fn lease(client: &Client) -> Result<Value> {
    let all = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let object = fixtures::lease("kube-node-lease", MODEL, MODEL, &nodes::now());
    stored(client, all, "kubelet", &object, &[]).await
}

/// A reservation as the plugin makes it.
pub async fn reservation(client: &Client, namespace: &str) -> Result<Value> {
    let all = raw::all::<Reservation>(namespace);
    let object = fixtures::reservation(namespace, MODEL, "model/model", "net1");
    stored(client, &all, "whereabouts", &object, &[]).await
}

/// The status that the kubelet writes for a pod whose containers have all ended by themselves.
pub fn ended() -> Value {
    let state = json!({"terminated": {
        "exitCode": 0, "reason": "Completed", "startedAt": now(), "finishedAt": now(),
        "containerID": format!("containerd://{CONTAINER}"),
    }});
    status("Succeeded", "False", &state)
}

/// The status that the kubelet writes for a pod that runs.
pub fn running() -> Value {
    status("Running", "True", &json!({"running": {"startedAt": now()}}))
}

/// A pod's status; all its containers are in this state.
fn status(phase: &str, sandbox: &str, state: &Value) -> Value {
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "lastProbeTime": null, "lastTransitionTime": now()});
    let runs = sandbox == "True";
    let container = |name: &str, image: &str| {
        json!({
            "name": name, "state": state, "lastState": {}, "ready": runs, "started": runs,
            "restartCount": 0, "image": image, "imageID": format!("{image}@sha256:{DIGEST}"),
            "containerID": format!("containerd://{CONTAINER}"),
        })
    };
    json!({"status": {
        "phase": phase, "startTime": now(), "qosClass": "Burstable",
        "hostIP": "192.0.2.17", "hostIPs": [{"ip": "192.0.2.17"}],
        "podIP": "10.244.17.23", "podIPs": [{"ip": "10.244.17.23"}],
        "conditions": [
            condition("PodReadyToStartContainers", sandbox),
            condition("Initialized", "True"),
            condition("Ready", sandbox),
            condition("ContainersReady", sandbox),
            condition("PodScheduled", "True"),
        ],
        "containerStatuses": [
            container("app", "registry.example.com/team/app:v1.42.0"),
            container("proxy", "registry.example.com/mesh/proxy:v1.24.3"),
        ],
    }})
}

/// A pod as a controller creates it from an ordinary template, with its node already set.
pub fn controlled(owner: Owner) -> Value {
    let (kind, controller) = match owner {
        Owner::ReplicaSet => ("ReplicaSet", "web-7d4b9c6f5d"),
        Owner::StatefulSet => ("StatefulSet", "web"),
    };
    let variable = |number: usize| json!({"name": format!("APP_SETTING_{number:02}"), "value": format!("value-of-setting-{number:02}")});
    let variables: Vec<_> = (0..6).map(variable).collect();
    let mount = |name: &str, path: &str| json!({"name": name, "mountPath": path, "readOnly": true});
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": 8080}, "initialDelaySeconds": 5, "timeoutSeconds": 2});
    let token = "kube-api-access-x7f2q";
    let token_mount = mount(token, "/var/run/secrets/kubernetes.io/serviceaccount");
    let toleration = |taint: &str| {
        json!({
            "key": format!("node.kubernetes.io/{taint}"), "operator": "Exists",
            "effect": "NoExecute", "tolerationSeconds": 300,
        })
    };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": MODEL, "generateName": format!("{controller}-"),
            "labels": {
                "app.kubernetes.io/name": "web", "app.kubernetes.io/instance": "web-production",
                "app.kubernetes.io/version": "v1.42.0", "pod-template-hash": "7d4b9c6f5d",
            },
            "annotations": {
                NETWORKS: "net",
                "prometheus.io/scrape": "true", "prometheus.io/port": "9090",
            },
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": kind, "name": controller, "controller": true,
                "blockOwnerDeletion": true, "uid": "7d0c2c1e-6f58-4a55-9a53-0c5d8a1f2b3e",
            }],
        },
        "spec": {
            "nodeName": MODEL, "serviceAccountName": "default", "terminationGracePeriodSeconds": 30,
            "priorityClassName": "", "restartPolicy": "Always",
            "containers": [
                {
                    "name": "app", "image": "registry.example.com/team/app:v1.42.0",
                    "env": variables,
                    "ports": [{"name": "http", "containerPort": 8080}],
                    "resources": {
                        "requests": {"cpu": "250m", "memory": "256Mi"},
                        "limits": {"memory": "512Mi"},
                    },
                    "readinessProbe": probe("/readyz"),
                    "volumeMounts": [mount("config", "/etc/app"), {"name": "data", "mountPath": "/data"}, token_mount],
                },
                {
                    "name": "proxy", "image": "registry.example.com/mesh/proxy:v1.24.3",
                    "volumeMounts": [token_mount],
                },
            ],
            "volumes": [
                {"name": "config", "configMap": {"name": "web"}}, {"name": "data", "emptyDir": {}},
                {"name": token, "projected": {"defaultMode": 420, "sources": [
                    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                ]}},
            ],
            "tolerations": [toleration("not-ready"), toleration("unreachable")],
        },
    })
}

/// A random uid in the form of Kubernetes.
pub fn uid() -> String {
    let bits: u128 = rand::rng().random();
    // Version 4, variant 1.
    let bits = bits & !(0xf000 << 64 | 0xc000 << 48) | 0x4000 << 64 | 0x8000 << 48;
    let hex = format!("{bits:032x}");
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &hex[part]);
    parts.join("-")
}

//! Objects of real size, in the form in which the API server itself stored one of each kind.
//!
//! One object of a kind is made through the API, with placeholders for names, and read back: with it come
//! the server's defaults, its conditions and its managed fields. All others are copies of its text, with
//! the placeholders filled. The one object is deleted again.

use std::fmt::Write as _;

use ipgc::api::Reservation;
use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kube::Client;
use rand::RngExt as _;
use serde_json::{Value, json};

use super::{
    population::{Address, Owner, Population},
    raw,
};
use crate::{
    Error, Result,
    pods::{NETWORK_STATUS, NETWORKS},
};

const NAME: &str = "placeholder-of-the-name";
const NODE: &str = "placeholder-of-the-node";
const NETWORK_LIST: &str = "placeholder of networks";
const STATUS_LIST: &str = "placeholder of the status";
const PODREF: &str = "placeholder/podref";
const IFNAME: &str = "placeholder-ifname";

/// The text of an object, and the uid in it.
#[derive(Clone, Debug)]
pub struct Template {
    text: String,
    uid: String,
}

impl Template {
    /// From an object as the server answers with it.
    fn of(mut object: Value) -> Result<Self> {
        let metadata = &mut object["metadata"];
        let uid = metadata["uid"].as_str().map(str::to_owned);
        if let Some(metadata) = metadata.as_object_mut() {
            // Stored objects have none: it is the revision of the key.
            metadata.remove("resourceVersion");
        }
        Ok(Self {
            text: object.to_string(),
            uid: uid.ok_or_else(|| Error::Malformed {
                what: "an object".into(),
                why: "it has no uid".into(),
            })?,
        })
    }

    /// A copy with a uid of its own and these placeholders filled.
    fn fill(&self, holes: &[(&str, &str)]) -> String {
        let mut text = self.text.replace(&self.uid, &uid());
        for (hole, value) in holes {
            text = text.replace(hole, value);
        }
        text
    }

    /// A copy of a pod's template.
    #[must_use]
    pub fn pod(&self, population: &Population, pod: usize) -> String {
        self.fill(&[
            (NAME, &population.pod(pod)),
            (NODE, &population.node_of(pod)),
            (NETWORK_LIST, &population.networks(pod)),
            (STATUS_LIST, &escaped(&population.network_status(pod))),
        ])
    }

    /// A copy of a node's or a Lease's template.
    #[must_use]
    pub fn named(&self, name: &str) -> String {
        self.fill(&[(NAME, name)])
    }

    /// A copy of a reservation's template.
    #[must_use]
    pub fn reservation(&self, population: &Population, address: Address) -> String {
        self.fill(&[
            (NAME, &population.ip(address)),
            (PODREF, &population.podref(address.pod)),
            (IFNAME, &format!("net{}", address.interface)),
        ])
    }

    /// How large a pod of a population is, and how much of that are managed fields.
    pub fn sizes(&self, population: &Population) -> Result<(usize, usize)> {
        let object = raw::parse("a template", &self.text)?;
        let managed = object["metadata"]["managedFields"].to_string().len();
        Ok((self.pod(population, 0).len(), managed))
    }
}

/// One row of a pool, of the pod that holds it.
#[must_use]
pub fn row(population: &Population, row: Address) -> Value {
    json!({
        "id": Population::sandbox(row.pod),
        "podref": population.podref(row.pod),
        "ifname": format!("net{}", row.interface),
    })
}

/// The rows of a pool as its `spec.allocations`, each with the pod that holds it.
#[must_use]
pub fn allocations(population: &Population, rows: impl Iterator<Item = Address>) -> Value {
    let mut text = String::from("{");
    for row in rows {
        if text.len() > 1 {
            text.push(',');
        }
        // Writing to a String does not fail.
        write!(text, r#""{}":{}"#, row.offset, self::row(population, row)).ok();
    }
    text.push('}');
    // What was written above is JSON.
    serde_json::from_str(&text).unwrap_or_default()
}

/// A pod that runs, made by its controller, reported by multus and by the kubelet.
pub async fn pod(client: &Client, namespace: &str, owner: Owner) -> Result<Template> {
    let all = raw::all::<Pod>(namespace);
    let one = format!("{all}/{NAME}");
    let (kind, controller) = match owner {
        Owner::ReplicaSet => ("ReplicaSet", "web-7d4b9c6f5d"),
        Owner::StatefulSet => ("StatefulSet", "web"),
    };
    let manager = "fieldManager=kube-controller-manager";
    let object = controlled(kind, controller);
    raw::create(client, &format!("{all}?{manager}"), &object).await?;
    let multus = format!("{one}?fieldManager=multus");
    let reported = json!({"metadata": {"annotations": {NETWORK_STATUS: STATUS_LIST}}});
    raw::patch(client, &multus, "merge-patch", &reported).await?;
    let kubelet = format!("{one}/status?fieldManager=kubelet");
    raw::patch(client, &kubelet, "strategic-merge-patch", &running()).await?;
    taken(client, &one).await
}

/// A node that is ready.
pub async fn node(client: &Client) -> Result<Template> {
    let (all, one) = ("/api/v1/nodes", format!("/api/v1/nodes/{NAME}"));
    let object = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": NAME, "labels": {
            "kubernetes.io/hostname": NAME, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
        }},
        "spec": {"podCIDR": "10.244.17.0/24"},
    });
    raw::create(client, all, &object).await?;
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
    let kubelet = format!("{one}/status?fieldManager=kubelet");
    raw::patch(client, &kubelet, "strategic-merge-patch", &status).await?;
    taken(client, &one).await
}

/// The Lease of a node, renewed now.
pub async fn lease(client: &Client) -> Result<Template> {
    let all = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let object = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": NAME},
        "spec": {"holderIdentity": NAME, "leaseDurationSeconds": 40, "renewTime": renewed()},
    });
    raw::create(client, &format!("{all}?fieldManager=kubelet"), &object).await?;
    taken(client, &format!("{all}/{NAME}")).await
}

/// A reservation as the plugin makes it.
pub async fn reservation(client: &Client, namespace: &str) -> Result<Template> {
    let all = raw::all::<Reservation>(namespace);
    let object = json!({
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "OverlappingRangeIPReservation",
        "metadata": {"name": NAME}, "spec": {"podref": PODREF, "ifname": IFNAME},
    });
    raw::create(client, &format!("{all}?fieldManager=whereabouts"), &object).await?;
    taken(client, &format!("{all}/{NAME}")).await
}

/// Reads an object as a template, and deletes it.
async fn taken(client: &Client, path: &str) -> Result<Template> {
    let text = raw::get(client, path).await?;
    raw::delete(client, path).await?;
    Template::of(raw::parse(path, &text)?)
}

/// What the kubelet writes about a pod whose containers have all ended by themselves.
#[must_use]
pub fn ended() -> Value {
    let state = json!({"terminated": {
        "exitCode": 0, "reason": "Completed", "startedAt": now(), "finishedAt": now(),
        "containerID": "containerd://6c1f2f4f3b0f4f0d8f2f1f0e9d8c7b6a5f4e3d2c1b0a9f8e7d6c5b4a3f2e1d0c",
    }});
    status("Succeeded", "False", &state)
}

fn running() -> Value {
    status("Running", "True", &json!({"running": {"startedAt": now()}}))
}

/// A pod's status; all its containers are in this state.
fn status(phase: &str, sandbox: &str, state: &Value) -> Value {
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "lastProbeTime": null, "lastTransitionTime": now()});
    let runs = sandbox == "True";
    let container = |name: &str, image: &str| {
        json!({
            "name": name, "state": state, "lastState": {}, "ready": runs, "started": runs,
            "restartCount": 0, "image": image,
            "imageID": format!("{image}@sha256:0f3c6b1e5a7d9284f1c0b8e7d6a5943f2e1d0c9b8a7f6e5d4c3b2a190807f6e5"),
            "containerID": "containerd://6c1f2f4f3b0f4f0d8f2f1f0e9d8c7b6a5f4e3d2c1b0a9f8e7d6c5b4a3f2e1d0c",
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
fn controlled(kind: &str, controller: &str) -> Value {
    let variable = |number: usize| json!({"name": format!("APP_SETTING_{number:02}"), "value": format!("value-of-setting-{number:02}")});
    let variables: Vec<_> = (0..6).map(variable).collect();
    let mount = |name: &str, path: &str| json!({"name": name, "mountPath": path, "readOnly": true});
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": 8080}, "initialDelaySeconds": 5, "timeoutSeconds": 2});
    let token = "kube-api-access-x7f2q";
    let token_mount = mount(token, "/var/run/secrets/kubernetes.io/serviceaccount");
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": NAME, "generateName": format!("{controller}-"),
            "labels": {
                "app.kubernetes.io/name": "web", "app.kubernetes.io/instance": "web-production",
                "app.kubernetes.io/version": "v1.42.0", "pod-template-hash": "7d4b9c6f5d",
            },
            "annotations": {
                NETWORKS: NETWORK_LIST,
                "prometheus.io/scrape": "true", "prometheus.io/port": "9090",
            },
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": kind, "name": controller, "controller": true,
                "blockOwnerDeletion": true, "uid": "7d0c2c1e-6f58-4a55-9a53-0c5d8a1f2b3e",
            }],
        },
        "spec": {
            "nodeName": NODE, "serviceAccountName": "default", "terminationGracePeriodSeconds": 30,
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
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            ],
        },
    })
}

/// A random uid in the form of Kubernetes.
#[must_use]
pub fn uid() -> String {
    let bits: u128 = rand::rng().random();
    // Version 4, variant 1.
    let bits = bits & !(0xf000 << 64 | 0xc000 << 48) | 0x4000 << 64 | 0x8000 << 48;
    let hex = format!("{bits:032x}");
    let parts = [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ];
    parts.join("-")
}

/// A text as it stands in JSON, without the quotes.
fn escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The present moment as a Lease has it.
#[must_use]
pub fn renewed() -> String {
    let now = Timestamp::now();
    now.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_copy_has_its_own_names_and_uid() {
        let object = json!({
            "metadata": {"name": NAME, "uid": "8f14e45f-ceea-467f-a9c3-1f2e3d4c5b6a", "resourceVersion": "7"},
            "status": STATUS_LIST, "list": NETWORK_LIST, "node": NODE,
        });
        let template = Template::of(object).unwrap();
        let population = Population::new("bench", 10);
        let copies = [3, 4]
            .map(|pod| -> Value { serde_json::from_str(&template.pod(&population, pod)).unwrap() });
        let [third, fourth] = &copies;
        assert_eq!(third["metadata"]["name"], population.pod(3));
        assert_eq!(third["status"], population.network_status(3));
        assert_ne!(third["metadata"]["uid"], fourth["metadata"]["uid"]);
        assert_eq!(third["metadata"]["uid"].as_str().unwrap().len(), 36);
        assert_eq!(third["metadata"].get("resourceVersion"), None);
        let uid = uid();
        assert_eq!(
            (&uid[14..15], "89ab".contains(&uid[19..20])),
            ("4", true),
            "{uid}"
        );
    }

    #[test]
    fn allocations_hold_the_rows_of_a_pool() {
        let population = Population::new("bench", 3);
        let rows = allocations(&population, population.rows_of(0));
        assert_eq!(rows.as_object().unwrap().len(), 3);
        assert_eq!(rows["2"]["podref"], population.podref(1));
    }
}

//! Pods without a kubelet: this module writes what a kubelet and multus would write.
//!
//! The ways a pod ends are those seen on a real node: a graceful deletion passes through a terminal phase
//! with all containers terminated, a forced one goes away while its phase still says Running, and the pod
//! garbage collector writes phase Failed and leaves the containers running. Nothing here touches a pool.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use serde_json::{Value, json};

use crate::{
    Namespace, Result,
    cluster::create,
    wait::{self, PATIENCE},
};

/// The annotation in which multus reports addresses, once all interfaces are up.
pub const NETWORK_STATUS: &str = "k8s.v1.cni.cncf.io/network-status";

/// The annotation in which a pod asks for networks.
pub const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";

/// The image of each pod's one container, which nobody pulls.
const IMAGE: &str = "registry.invalid/none";

/// A pod to make.
#[derive(Clone, Debug)]
pub struct PodPlan {
    /// Its name.
    pub name: String,
    /// Its node; the object need not exist.
    pub node: Option<String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// `terminationGracePeriodSeconds`.
    pub grace: i64,
    /// Whether a ReplicaSet controls it, so that its name never returns. The ReplicaSet need not exist:
    /// nothing here collects what it owned.
    pub of_replica_set: bool,
}

impl PodPlan {
    /// A pod of one container on a node without an object.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            node: Some("e2e-node".into()),
            annotations: BTreeMap::new(),
            grace: 30,
            of_replica_set: false,
        }
    }

    /// Controlled by a ReplicaSet.
    pub fn of_replica_set(mut self) -> Self {
        self.of_replica_set = true;
        self
    }

    /// On another node.
    pub fn on(mut self, node: impl Into<String>) -> Self {
        self.node = Some(node.into());
        self
    }

    /// Not scheduled yet.
    pub fn unscheduled(mut self) -> Self {
        self.node = None;
        self
    }

    /// With these networks asked for, as in `net-a,net-b`.
    pub fn networks(self, list: &str) -> Self {
        self.annotation(NETWORKS, list)
    }

    /// With one more annotation.
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.into(), value.into());
        self
    }

    fn object(&self) -> Value {
        let owner = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "owner", "controller": true,
            "uid": "00000000-0000-4000-8000-0000000000ff",
        });
        let owners: Vec<Value> = self.of_replica_set.then_some(owner).into_iter().collect();
        json!({
            "metadata": {
                "name": self.name, "annotations": self.annotations, "ownerReferences": owners,
            },
            "spec": {
                "nodeName": self.node,
                "containers": [{"name": "main", "image": IMAGE}],
                "terminationGracePeriodSeconds": self.grace,
            },
        })
    }
}

/// One entry of the network-status annotation.
#[derive(Clone, Debug)]
pub struct Interface {
    /// `namespace/name` of the network attachment.
    pub network: String,
    /// The name in the pod, `net1`.
    pub interface: String,
    /// Its addresses.
    pub ips: Vec<String>,
}

/// How a pod ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All containers returned zero.
    Succeeded,
    /// One did not.
    Failed,
}

impl Namespace {
    /// Makes a pod. It is Pending, with a node and without a status.
    pub async fn pod(&self, plan: &PodPlan) -> Result<Pod> {
        create(&self.pods(), plan.object()).await
    }

    /// Makes a pod and lets it run with these interfaces.
    pub async fn running_pod(&self, plan: &PodPlan, interfaces: &[Interface]) -> Result<Pod> {
        self.pod(plan).await?;
        self.run_pod(&plan.name, interfaces).await
    }

    /// The kubelet's write while the sandbox is set up: condition False, containers waiting.
    pub async fn prepare_pod(&self, name: &str) -> Result<Pod> {
        let waiting = json!({"waiting": {"reason": "ContainerCreating"}});
        self.pod_status(name, "Pending", "False", &waiting).await
    }

    /// The writes of multus and the kubelet once the pod runs: the annotation, condition True, containers
    /// running.
    pub async fn run_pod(&self, name: &str, interfaces: &[Interface]) -> Result<Pod> {
        self.network_status(name, interfaces).await?;
        let running = json!({"running": {"startedAt": now()}});
        self.pod_status(name, "Running", "True", &running).await
    }

    /// Writes the network-status annotation as multus does.
    pub async fn network_status(&self, name: &str, interfaces: &[Interface]) -> Result<Pod> {
        let mut entries = vec![json!({
            "name": "cluster-net", "interface": "eth0", "ips": ["10.244.0.2"], "default": true, "dns": {},
        })];
        entries.extend(interfaces.iter().map(|interface| {
            json!({
                "name": interface.network, "interface": interface.interface, "ips": interface.ips,
                "mac": "0a:58:0a:00:00:02", "dns": {},
            })
        }));
        let text = Value::from(entries).to_string();
        self.annotate_pod(name, NETWORK_STATUS, Some(&text)).await
    }

    /// Sets or removes one annotation of a pod.
    pub async fn annotate_pod(&self, name: &str, key: &str, value: Option<&str>) -> Result<Pod> {
        let patch = json!({"metadata": {"annotations": {key: value}}});
        Ok(self
            .pods()
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await?)
    }

    /// The kubelet's write when everything of the pod has ended: terminal phase, condition False, all
    /// containers terminated, in one write.
    pub async fn finish_pod(&self, name: &str, end: End) -> Result<Pod> {
        let (phase, code) = match end {
            End::Succeeded => ("Succeeded", 0),
            End::Failed => ("Failed", 137),
        };
        let terminated = json!({"terminated": {
            "exitCode": code, "reason": "Completed", "startedAt": now(), "finishedAt": now(),
        }});
        self.pod_status(name, phase, "False", &terminated).await
    }

    /// The pod garbage collector's write for a pod of a node that is gone: phase Failed, containers
    /// untouched.
    pub async fn fail_pod_from_afar(&self, name: &str) -> Result<Pod> {
        let patch = json!({"status": {"phase": "Failed", "reason": "NodeLost"}});
        self.patch_status(name, patch).await
    }

    /// Asks for a deletion. With a grace of zero the object is gone when this returns (unless it has
    /// finalizers).
    pub async fn delete_pod(&self, name: &str, grace: Option<u32>) -> Result<()> {
        self.delete_by(name, grace, None).await
    }

    /// A forced deletion: the phase still says whatever it said, the sandbox may live.
    pub async fn force_delete_pod(&self, name: &str) -> Result<()> {
        self.delete_pod(name, Some(0)).await
    }

    /// A graceful deletion from beginning to end, with a kubelet that does its part.
    pub async fn end_pod(&self, name: &str, end: End) -> Result<()> {
        self.delete_pod(name, None).await?;
        let pod = self.finish_pod(name, end).await?;
        self.delete_by(name, Some(0), pod.uid()).await?;
        self.pod_gone(name, PATIENCE).await
    }

    async fn delete_by(&self, name: &str, grace: Option<u32>, uid: Option<String>) -> Result<()> {
        let preconditions = uid.map(|uid| Preconditions {
            uid: Some(uid),
            resource_version: None,
        });
        let parameters = DeleteParams {
            grace_period_seconds: grace,
            preconditions,
            ..DeleteParams::default()
        };
        self.pods().delete(name, &parameters).await?;
        Ok(())
    }

    /// Waits until no pod of this name is there.
    pub async fn pod_gone(&self, name: &str, deadline: Duration) -> Result<()> {
        let what = format!("{}/{name} to be gone", self.name);
        let pods = &self.pods();
        // Phase and end of a pod that is there: its status alone fills a screen.
        let read = || async move {
            let pod = pods.get_opt(name).await?;
            let phase = |pod: Pod| (pod.status?.phase, pod.metadata.deletion_timestamp).into();
            Ok(pod.map(phase))
        };
        wait::until_state(&what, deadline, read, |pod: &Option<Option<_>>| {
            pod.is_none()
        })
        .await?;
        Ok(())
    }

    /// The pods of this namespace.
    pub fn pods(&self) -> Api<Pod> {
        self.api()
    }

    async fn pod_status(
        &self,
        name: &str,
        phase: &str,
        sandbox: &str,
        state: &Value,
    ) -> Result<Pod> {
        let ready = state.get("running").is_some();
        let container = json!({
            "name": "main", "state": state, "ready": ready, "started": ready, "restartCount": 0,
            "image": IMAGE, "imageID": "",
        });
        let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "lastTransitionTime": now()});
        let readiness = if ready { "True" } else { "False" };
        let patch = json!({"status": {
            "phase": phase,
            "startTime": now(),
            "conditions": [
                condition("PodReadyToStartContainers", sandbox),
                condition("Initialized", "True"),
                condition("Ready", readiness),
                condition("ContainersReady", readiness),
                condition("PodScheduled", "True"),
            ],
            "containerStatuses": [container],
        }});
        self.patch_status(name, patch).await
    }

    async fn patch_status(&self, name: &str, patch: Value) -> Result<Pod> {
        Ok(self
            .pods()
            .patch_status(name, &PatchParams::default(), &Patch::Merge(patch))
            .await?)
    }
}

/// The present second as Kubernetes writes it.
pub(crate) fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

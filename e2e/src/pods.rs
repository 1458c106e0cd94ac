//! Pods without a kubelet: this module writes what a kubelet and multus would write.
//!
//! The ways a pod ends are those seen on a real node: a graceful deletion passes through a terminal phase
//! with all containers terminated, a forced one goes away while its phase still says Running, and the pod
//! garbage collector writes phase Failed and leaves the containers running. Nothing here touches a pool.

use std::{net::IpAddr, time::Duration};

use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use serde_json::{Value, json};
use testkit::fixtures::{self, PodBuilder};

use crate::{
    Namespace, Result,
    cluster::create,
    wait::{self, PATIENCE},
};

pub use fixtures::{NETWORK_STATUS, NETWORKS};

/// A pod to make.
#[derive(Clone, Debug)]
pub struct PodPlan {
    /// Its name.
    pub name: String,
    pod: PodBuilder,
}

impl PodPlan {
    /// A pod of one container on a node without an object, with next to no termination grace.
    pub fn new(name: impl Into<String>) -> Self {
        let name = name.into();
        // Its namespace is that in which it is made.
        let pod = fixtures::pod("", &name).with(|pod| pod["metadata"]["namespace"] = Value::Null);
        Self {
            pod: pod.node("e2e-node").grace(1),
            name,
        }
    }

    fn but(self, change: impl FnOnce(PodBuilder) -> PodBuilder) -> Self {
        Self {
            name: self.name,
            pod: change(self.pod),
        }
    }

    /// Controlled by a ReplicaSet, so that its name never returns. The ReplicaSet need not exist: nothing here
    /// collects what it owned.
    pub fn of_replica_set(self) -> Self {
        self.but(|pod| pod.owner("ReplicaSet", "owner"))
    }

    /// On another node.
    pub fn on(self, node: &str) -> Self {
        self.but(|pod| pod.node(node))
    }

    /// With another termination grace, in seconds.
    pub fn grace(self, seconds: u32) -> Self {
        self.but(|pod| pod.grace(seconds.into()))
    }

    /// Not scheduled yet.
    pub fn unscheduled(self) -> Self {
        self.but(|pod| pod.with(|pod| pod["spec"]["nodeName"] = Value::Null))
    }

    /// With these networks asked for, as in `net-a,net-b`.
    pub fn networks(self, list: &str) -> Self {
        self.annotation(NETWORKS, list)
    }

    /// With one more annotation.
    pub fn annotation(self, key: &str, value: &str) -> Self {
        self.but(|pod| pod.annotation(key, value))
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
    pub ips: Vec<IpAddr>,
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
        create(&self.pods(), plan.pod.clone().build()).await
    }

    /// Makes a pod and lets it run with these interfaces.
    pub async fn running_pod(&self, plan: &PodPlan, interfaces: &[Interface]) -> Result<Pod> {
        self.pod(plan).await?;
        self.run_pod(&plan.name, interfaces).await
    }

    /// The kubelet's write while the sandbox is set up: condition False, containers waiting.
    pub async fn prepare_pod(&self, name: &str) -> Result<Pod> {
        self.patch_status(name, fixtures::starting_status()).await
    }

    /// The writes of multus and the kubelet once the pod runs: the annotation, condition True, containers
    /// running.
    pub async fn run_pod(&self, name: &str, interfaces: &[Interface]) -> Result<Pod> {
        self.network_status(name, interfaces).await?;
        self.patch_status(name, fixtures::running_status()).await
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
        let phase = match end {
            End::Succeeded => "Succeeded",
            End::Failed => "Failed",
        };
        let mut status = fixtures::ended_status(phase);
        let state = &mut status["containerStatuses"][0]["state"];
        state["terminated"]["finishedAt"] = now().into();
        self.patch_status(name, status).await
    }

    /// The pod garbage collector's write for a pod of a node that is gone: phase Failed, containers
    /// untouched.
    pub async fn fail_pod_from_afar(&self, name: &str) -> Result<Pod> {
        let status = json!({"phase": "Failed", "reason": "NodeLost"});
        self.patch_status(name, status).await
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

    async fn patch_status(&self, name: &str, status: Value) -> Result<Pod> {
        let patch = Patch::Merge(json!({"status": status}));
        let parameters = PatchParams::default();
        Ok(self.pods().patch_status(name, &parameters, &patch).await?)
    }
}

/// The present second as Kubernetes writes it.
pub(crate) fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

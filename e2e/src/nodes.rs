//! Nodes without a kubelet: this module writes what a kubelet would write about itself.
//!
//! A node that lives is Ready, and somebody renews its Lease in `kube-node-lease`. Both are what a
//! collector can see of it, and no more is played: nothing runs on it but the pods that tests write.

use std::{sync::Mutex, time::Duration};

use k8s_openapi::{
    api::{coordination::v1::Lease, core::v1::Node},
    jiff::Timestamp,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::json;
use testkit::fixtures;
use tokio::task::JoinHandle;

use crate::{
    Cluster, Result,
    cluster::{create, unique},
    pods,
    process::lock,
};

/// Where kubelets have their Leases.
const LEASES: &str = "kube-node-lease";

/// A kubelet renews its Lease every 10 s; tests have less time.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// A node whose Lease is renewed until it is silenced or dropped.
pub struct LiveNode {
    /// Its name.
    pub name: String,
    client: Client,
    heart: Mutex<Option<Heartbeats>>,
}

/// The kubelets of some nodes, as far as their Leases. They stop when this is dropped.
pub struct Heartbeats(JoinHandle<()>);

impl Heartbeats {
    /// Renews each Lease once in `interval`, one after the other.
    pub fn start(client: Client, nodes: Vec<String>, interval: Duration) -> Self {
        let leases: Api<Lease> = Api::namespaced(client, LEASES);
        let pause = interval / u32::try_from(nodes.len().max(1)).unwrap_or(u32::MAX);
        Self(tokio::spawn(async move {
            let mut turns = tokio::time::interval(pause);
            let kubelet = PatchParams {
                field_manager: Some("kubelet".to_owned()),
                ..PatchParams::default()
            };
            for node in nodes.iter().cycle() {
                turns.tick().await;
                // A beat that a loaded server drops is followed by the next; a server that is gone is for the test to
                // notice.
                let renewed = Patch::Merge(json!({"spec": {"renewTime": now()}}));
                leases.patch(node, &kubelet, &renewed).await.ok();
            }
        }))
    }
}

impl Drop for Heartbeats {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Cluster {
    /// Makes a node with a unique name that looks alive.
    pub async fn live_node(&self, prefix: &str) -> Result<LiveNode> {
        let name = unique(prefix);
        let nodes: Api<Node> = Api::all(self.client().clone());
        let node = create(&nodes, fixtures::node(&name, true)).await?;
        let mut lease = fixtures::lease(LEASES, &name, &name, &now());
        // As the kubelet has it: the Lease goes with its node.
        lease["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "v1", "kind": "Node", "name": name, "uid": node.uid()}]);
        let leases: Api<Lease> = Api::namespaced(self.client().clone(), LEASES);
        create(&leases, lease).await?;
        let client = self.client().clone();
        let heart = Heartbeats::start(client.clone(), vec![name.clone()], HEARTBEAT);
        let node = LiveNode {
            name,
            client,
            heart: Mutex::new(Some(heart)),
        };
        node.report(true).await?;
        Ok(node)
    }
}

impl LiveNode {
    /// No heartbeat any more, and what the node controller then writes. Nothing says whether its
    /// sandboxes go on.
    pub async fn silence(&self) -> Result<()> {
        drop(lock(&self.heart).take());
        self.report(false).await
    }

    /// Writes its Ready condition.
    async fn report(&self, is_ready: bool) -> Result<()> {
        let condition = fixtures::ready_condition(is_ready, &pods::now());
        let status = json!({"status": {"conditions": [condition]}});
        Api::<Node>::all(self.client.clone())
            .patch_status(&self.name, &PatchParams::default(), &Patch::Merge(status))
            .await?;
        Ok(())
    }
}

/// The present moment as a Lease has it.
pub(crate) fn now() -> String {
    Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%S%.6fZ")
        .to_string()
}

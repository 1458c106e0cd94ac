//! Everybody but ipgc: the kubelet, multus, the CNI plugin whereabouts, and a person who deletes
//! pods. They write what the real ones write, in their order, through the API server.
//!
//! One thing they never do is CNI DEL. That it is lost is what the story is about.

use std::{collections::BTreeMap, time::Duration};

use ipgc::{
    api::{IpPool, NetworkAttachmentDefinition, Reservation},
    core::address::{Offset, Range, pool_name},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde::Deserialize;
use serde_json::{Value, json};
use testkit::fixtures;
use tokio::time::Instant;

use crate::{
    cluster::{from_json, now},
    failure::Failure,
    stage::{POD_GRACE, Stage},
};

/// The range that pods get their addresses from: six of them, reserved for documentation.
pub const RANGE: &str = "192.0.2.0/29";
/// Name of the network, and of its interface in a pod.
const NETWORK: &str = "net";
const INTERFACE: &str = "net1";

/// Name of the pool of [`RANGE`], as whereabouts makes it.
pub fn pool() -> Result<String, Failure> {
    Ok(pool_name(None, None, range()?))
}

/// The address that a row of the pool holds.
pub fn address(key: &str) -> Option<String> {
    let offset = Offset::parse(key)?;
    Some(range().ok()?.address_at(offset)?.to_string())
}

/// A row of a pool.
#[derive(Clone, Deserialize)]
pub struct Row {
    pub id: String,
    pub podref: Option<String>,
    pub ifname: Option<String>,
}

/// The rows of a pool, by their keys.
pub fn rows(pool: &IpPool) -> BTreeMap<String, Row> {
    serde_json::from_value(pool.spec.spec["allocations"].clone()).unwrap_or_default()
}

fn range() -> Result<Range, Failure> {
    Range::parse(RANGE).ok_or_else(|| Failure::Story(format!("{RANGE} is not a CIDR")))
}

/// A new container id: 64 hex digits, as runtimes make them.
fn sandbox() -> String {
    let [a, b] = rand::random::<[u128; 2]>();
    format!("{a:032x}{b:032x}")
}

impl Stage {
    /// The network's definition and its pool, still empty.
    pub async fn make_network(&self) -> Result<(), Failure> {
        let definition = from_json(fixtures::nad(&self.namespace, NETWORK, RANGE))?;
        self.api::<NetworkAttachmentDefinition>()
            .create(&PostParams::default(), &definition)
            .await
            .map_err(Failure::api("create a NetworkAttachmentDefinition"))?;
        let pool = from_json(fixtures::pool(&self.namespace, RANGE).build())?;
        self.api::<IpPool>()
            .create(&PostParams::default(), &pool)
            .await
            .map_err(Failure::api("create an IPPool"))?;
        Ok(())
    }

    /// A pod from its creation to Running: CNI ADD, network-status, container states. Returns the
    /// address it got.
    pub async fn run_pod(&self, name: &str) -> Result<String, Failure> {
        // Its image is never pulled.
        let pod = fixtures::pod(&self.namespace, name)
            .node(&self.node)
            .networks(NETWORK)
            .grace(POD_GRACE.as_secs())
            .with(restricted);
        let pod = from_json(pod.build())?;
        let api = self.api::<Pod>();
        api.create(&PostParams::default(), &pod)
            .await
            .map_err(Failure::api(format!("create pod {name}")))?;
        self.pod_status(name, fixtures::starting_status()).await?;
        let address = self.cni_add(name).await?;
        let network = format!("{}/{NETWORK}", self.namespace);
        let status = json!([fixtures::network(&network, INTERFACE, &[&address])]);
        let annotation = json!({ "metadata": { "annotations": {
            fixtures::NETWORK_STATUS: status.to_string(),
        } } });
        api.patch(name, &PatchParams::default(), &Patch::Merge(annotation))
            .await
            .map_err(Failure::api(format!("annotate pod {name}")))?;
        self.pod_status(name, fixtures::running_status()).await?;
        Ok(address)
    }

    /// The steps of whereabouts for a new sandbox: take over a row with the same pod and interface, or
    /// else the first free address, with a reservation.
    async fn cni_add(&self, pod: &str) -> Result<String, Failure> {
        let podref = self.podref(pod);
        let name = pool()?;
        let pools = self.api::<IpPool>();
        let read = pools
            .get(&name)
            .await
            .map_err(Failure::api("read the IPPool"))?;
        let rows = rows(&read);
        let own = rows.iter().find(|(_, row)| {
            row.podref.as_deref() == Some(&podref) && row.ifname.as_deref() == Some(INTERFACE)
        });
        let free = || {
            (1..=6)
                .map(|n| n.to_string())
                .find(|key| !rows.contains_key(key))
        };
        let key = own.map(|(key, _)| key.clone()).or_else(free);
        let key = key.ok_or_else(|| Failure::Story("the range is full".to_owned()))?;
        let address = address(&key).unwrap_or_default();
        let row = fixtures::row(&sandbox(), &podref, INTERFACE);
        let patch = json!({ "spec": { "allocations": { key: row } } });
        pools
            .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .map_err(Failure::api("write a row"))?;
        if own.is_none() {
            let reservation = fixtures::reservation(&self.namespace, &address, &podref, INTERFACE);
            self.api::<Reservation>()
                .create(&PostParams::default(), &from_json(reservation)?)
                .await
                .map_err(Failure::api(format!("reserve {address}")))?;
        }
        Ok(address)
    }

    /// A graceful deletion: the kubelet stops everything, says so, and lets the object go. CNI DEL
    /// is lost on the way. Returns a moment right before the pod is gone.
    pub async fn end_pod(&self, name: &str) -> Result<Instant, Failure> {
        let api = self.api::<Pod>();
        let deleting = Failure::api(format!("delete pod {name}"));
        let answer = api.delete(name, &DeleteParams::default()).await;
        let pod = answer.map_err(deleting)?.left();
        let uid = pod.and_then(|pod| pod.uid());
        // Stopping takes its time.
        tokio::time::sleep(Duration::from_millis(200)).await;
        self.pod_status(name, fixtures::ended_status("Succeeded"))
            .await?;
        let before = Instant::now();
        api.delete(name, &now(uid))
            .await
            .map_err(Failure::api(format!("delete pod {name}")))?;
        Ok(before)
    }

    /// A forced deletion: the object is gone at once, even if its containers run on. Returns a moment
    /// right before.
    pub async fn force_delete_pod(&self, name: &str) -> Result<Instant, Failure> {
        let before = Instant::now();
        self.api::<Pod>()
            .delete(name, &DeleteParams::default().grace_period(0))
            .await
            .map_err(Failure::api(format!("delete pod {name}")))?;
        Ok(before)
    }

    async fn pod_status(&self, name: &str, status: Value) -> Result<(), Failure> {
        let patch = json!({ "status": status });
        self.api::<Pod>()
            .patch_status(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .map_err(Failure::api(format!("write the status of pod {name}")))?;
        Ok(())
    }
}

/// Adds the settings that the strictest pod security level requires.
fn restricted(pod: &mut Value) {
    let spec = &mut pod["spec"];
    spec["securityContext"] =
        json!({ "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } });
    spec["containers"][0]["securityContext"] =
        json!({ "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } });
}

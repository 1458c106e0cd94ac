//! A scenario's part of the stage: a namespace, a network, pods, and what is known of their addresses.

use std::{
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use e2e::{
    Error, Namespace, Result,
    cluster::{create, unique},
    node::{Machine, WHEREABOUTS_KUBECONFIG, detector::Holding},
    pools::Row,
    wait,
};
use ipgc::{
    api::IpPool,
    core::address::{Offset, Range},
};
use k8s_openapi::api::{
    apps::v1::ReplicaSet,
    core::v1::{Pod, ServiceAccount},
    events::v1::Event,
};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{stage::Stage, wanted::Wanted};

/// For what takes seconds, on a machine of two cores that compiles.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// A DEL that cannot reach the server gives up after a minute.
pub const LOST_DEL: Duration = Duration::from_secs(60);

/// For this long after its start ipgc takes it that a name which may return bore another pod before: W of a
/// pod that nobody knows, with one row.
pub const YOUNG: Duration = Duration::from_secs(120 + 30 + 60 + 5);

/// A kubelet renews its Lease every ten seconds, and ipgc looks at Leases now and then.
pub const LEASE: Duration = Duration::from_secs(45);

/// `--sweep-interval`, and its jitter.
pub const SWEEP: Duration = Duration::from_secs(330);

/// `--add-budget`, as users have it.
pub const ADD_BUDGET: Duration = Duration::from_secs(120);

/// `--cooldown`, as users have it.
pub const COOLDOWN: Duration = Duration::from_secs(2);

/// The wait after an end that was only witnessed, of a pod with a grace of one second and this many rows:
/// `--grace`, the pod's own, `--del-budget` for each row.
pub fn witnessed(rows: u32) -> Duration {
    Duration::from_secs(120 + 1) + Duration::from_secs(60) * rows
}

/// At most this many addresses fit into the note of one event.
const FEW: usize = 12;

/// One scenario.
pub struct Scene {
    pub stage: Arc<Stage>,
    pub namespace: Namespace,
}

impl Scene {
    /// A namespace, with the service account that pods need.
    pub async fn new(stage: &Arc<Stage>, prefix: &str) -> Result<Self> {
        let namespace = stage.cluster.namespace(prefix).await?;
        let accounts: &Api<ServiceAccount> = &namespace.api();
        let found = || async move { Ok(accounts.get_opt("default").await?.is_some()) };
        wait::until_state("the default service account", PATIENCE, found, |found| {
            *found
        })
        .await?;
        Ok(Self {
            stage: Arc::clone(stage),
            namespace,
        })
    }

    /// The configuration of a network on the Ethernet through all nodes.
    pub fn config(name: &str, ipam: &Value) -> Value {
        json!({
            "cniVersion": "1.0.0", "name": name, "type": "bridge", "bridge": "lan0", "ipam": ipam,
        })
    }

    /// A network attachment with addresses of one range.
    pub async fn network(&self, name: &str, range: &str) -> Result<()> {
        let ipam = json!({"type": "whereabouts", "range": range});
        self.namespace
            .network_attachment(name, &Self::config(name, &ipam))
            .await
    }

    /// One whose way to the API server is its own, so that it can be taken away for it alone.
    pub async fn network_apart(&self, name: &str, range: &str) -> Result<Apart> {
        let path = format!("/etc/cni/net.d/whereabouts.d/{}.kubeconfig", unique(name));
        let apart = Apart {
            stage: Arc::clone(&self.stage),
            path: path.clone(),
        };
        apart.mend()?;
        let ipam = json!({
            "type": "whereabouts", "range": range, "kubernetes": {"kubeconfig": path},
        });
        self.namespace
            .network_attachment(name, &Self::config(name, &ipam))
            .await?;
        Ok(apart)
    }

    /// Makes a pod.
    pub async fn create(&self, wanted: &Wanted) -> Result<()> {
        let mut pod = wanted.template.clone();
        pod["metadata"]["name"] = wanted.name.as_str().into();
        create(&self.namespace.pods(), pod).await.map(drop)
    }

    /// Makes the ReplicaSet `web` and waits until its pods run.
    pub async fn replicas(&self, wanted: &Wanted, count: usize) -> Result<()> {
        let set = json!({
            "metadata": {"name": "web"},
            "spec": {
                "replicas": count, "selector": {"matchLabels": {"app": wanted.name}},
                "template": wanted.template,
            },
        });
        let sets: &Api<ReplicaSet> = &self.namespace.api();
        create(sets, set).await?;
        let ready = || async move {
            let set = sets.get("web").await?;
            let ready = set.status.and_then(|status| status.ready_replicas);
            Ok(usize::try_from(ready.unwrap_or_default()).unwrap_or_default())
        };
        wait::until_state("the set's pods", PATIENCE * 2, ready, |ready| {
            *ready == count
        })
        .await?;
        Ok(())
    }

    /// Scales the ReplicaSet `web`.
    pub async fn scale(&self, count: usize) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": {"replicas": count}}));
        self.namespace
            .api::<ReplicaSet>()
            .patch("web", &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// Makes a pod and waits until it runs. Its addresses in whereabouts' pools, as its rows tell them.
    pub async fn run(&self, wanted: &Wanted) -> Result<Vec<IpAddr>> {
        self.create(wanted).await?;
        self.running(&wanted.name).await?;
        let rows = self.rows_of(&wanted.name).await?;
        let addresses: Vec<IpAddr> = rows.into_iter().map(|(address, _)| address).collect();
        // The detector must see what is there, or it would see nothing wrong either.
        for address in &addresses {
            self.answers(*address).await?;
        }
        Ok(addresses)
    }

    /// Waits until a pod is ready.
    pub async fn running(&self, name: &str) -> Result<()> {
        let pods = &self.namespace.pods();
        let what = format!("{}/{name} to run", self.namespace.name);
        let read = || async move {
            Ok(pods
                .get_opt(name)
                .await?
                .map(|pod| (is_ready(&pod), pod.status)))
        };
        wait::until_state(&what, PATIENCE, read, |pod| matches!(pod, Some((true, _)))).await?;
        Ok(())
    }

    /// Waits for the first row of this scenario, and until a sandbox has its address.
    pub async fn first_address(&self, deadline: Duration) -> Result<IpAddr> {
        let rows = || self.rows();
        let rows = wait::until_state("a row", deadline, rows, |rows| rows.len() == 1).await?;
        let (address, _) = rows[0];
        self.answers(address).await?;
        Ok(address)
    }

    /// Waits until some namespace of a pod has the address.
    pub async fn answers(&self, address: IpAddr) -> Result<Holding> {
        let what = format!("the detector to see {address}");
        let read = || async { Ok(self.stage.detector.holders(address)) };
        let holders =
            wait::until_state(&what, PATIENCE, read, |holders| !holders.is_empty()).await?;
        Ok(holders[0].clone())
    }

    /// Waits until no namespace of a pod has the address.
    pub async fn silent(&self, address: IpAddr) -> Result<()> {
        self.silent_within(address, PATIENCE).await
    }

    /// The same, with a deadline of its own.
    pub async fn silent_within(&self, address: IpAddr, deadline: Duration) -> Result<()> {
        let what = format!("no sandbox to have {address}");
        let read = || async { Ok(self.stage.detector.holders(address)) };
        wait::until_state(&what, deadline, read, Vec::is_empty).await?;
        Ok(())
    }

    /// The rows of this scenario's pods in all pools, with their addresses.
    pub async fn rows(&self) -> Result<Vec<(IpAddr, Row)>> {
        let all = Api::<IpPool>::all(self.namespace.client().clone());
        let all = all.list(&ListParams::default()).await?;
        let prefix = format!("{}/", self.namespace.name);
        let mut rows = Vec::new();
        for pool in all {
            let spec = pool.spec.spec;
            let range = spec["range"].as_str().unwrap_or_default();
            let range = Range::parse(range).ok_or_else(|| malformed(range))?;
            let held = spec["allocations"].as_object().cloned();
            for (key, row) in held.unwrap_or_default() {
                let row: Row = serde_json::from_value(row)?;
                let offset = Offset::parse(&key);
                let address = offset.and_then(|offset| range.address_at(offset));
                if row.podref.starts_with(&prefix) {
                    rows.push((address.ok_or_else(|| malformed(&key))?, row));
                }
            }
        }
        rows.sort_by_key(|(address, _)| *address);
        Ok(rows)
    }

    /// The rows of one pod.
    pub async fn rows_of(&self, name: &str) -> Result<Vec<(IpAddr, Row)>> {
        let podref = format!("{}/{name}", self.namespace.name);
        let mut rows = self.rows().await?;
        rows.retain(|(_, row)| row.podref == podref);
        Ok(rows)
    }

    /// Names of the reservations of this scenario's pods.
    pub async fn reservations(&self) -> Result<Vec<String>> {
        let prefix = format!("{}/", self.namespace.name);
        let mut all = self.stage.pools.reservations().await?;
        all.retain(|_, one| {
            let claimed = one.annotations.get("ipgc.dev/claimed-from");
            one.podref.starts_with(&prefix)
                || claimed.is_some_and(|podref| podref.starts_with(&prefix))
        });
        Ok(all.into_keys().collect())
    }

    /// This number of rows of a pod stays until almost this long after `since`, with or without a sandbox that has
    /// their addresses.
    pub async fn keeps_rows(
        &self,
        (name, count): (&str, usize),
        since: Instant,
        wait: Duration,
    ) -> Result<()> {
        let rest = wait.saturating_sub(since.elapsed() + Duration::from_secs(5));
        let rows = || self.rows_of(name);
        let what = "the rows of a pod that is gone";
        wait::holds_for(what, rest, rows, |rows| rows.len() == count).await
    }

    /// Waits until the rows of this scenario are as wanted, later where ipgc is under fire.
    pub async fn rows_until(
        &self,
        what: &str,
        deadline: Duration,
        wanted: impl Fn(&Vec<(IpAddr, Row)>) -> bool,
    ) -> Result<()> {
        let deadline = deadline + self.stage.delay();
        wait::until_state(what, deadline, || self.rows(), wanted).await?;
        Ok(())
    }

    /// Waits until this scenario's pods hold no rows, and then no reservations: those whose names may return are
    /// claimed, and go `--add-budget` later.
    pub async fn empty(&self, deadline: Duration) -> Result<()> {
        let what = format!("all rows of {} to be gone", self.namespace.name);
        let read = || async { Ok((self.rows().await?, self.reservations().await?)) };
        let deadline = deadline + self.stage.delay() + ADD_BUDGET;
        wait::until_state(&what, deadline, read, |(rows, reservations)| {
            rows.is_empty() && reservations.is_empty()
        })
        .await?;
        Ok(())
    }

    /// The addresses of this scenario's pods that ipgc freed, in order.
    pub async fn freed(&self) -> Result<Vec<IpAddr>> {
        let prefix = format!("{}/", self.namespace.name);
        let frees = self.stage.detector.frees().await?;
        Ok(frees
            .into_iter()
            .filter(|free| free.podref().starts_with(&prefix))
            .map(|free| free.address)
            .collect())
    }

    /// Waits until ipgc freed an address of this scenario's pods.
    pub async fn freed_one(&self) -> Result<IpAddr> {
        let deadline = LOST_DEL + YOUNG + LEASE + PATIENCE;
        let freed = || self.freed();
        let freed =
            wait::until_state("a row to be freed", deadline, freed, |it| !it.is_empty()).await?;
        Ok(freed[0])
    }

    /// How many pods of this scenario are ready, and how many there are.
    pub async fn pods(&self) -> Result<(usize, usize)> {
        let all = self
            .namespace
            .pods()
            .list(&ListParams::default())
            .await?
            .items;
        Ok((all.iter().filter(|pod| is_ready(pod)).count(), all.len()))
    }

    /// The findings of an audit about this scenario's pods.
    pub async fn findings(&self) -> Result<Vec<Value>> {
        let prefix = format!("{}/", self.namespace.name);
        let mut findings = self.stage.audit().await?;
        findings.retain(|one| {
            let mut pods = one["pods"].as_array().into_iter().flatten();
            pods.any(|pod| pod.as_str().is_some_and(|pod| pod.starts_with(&prefix)))
        });
        Ok(findings)
    }

    /// The notes of events with this reason on pools.
    pub async fn told(&self, reason: &str) -> Result<Vec<String>> {
        let events: Api<Event> = self.stage.pools.api();
        let events = events.list(&ListParams::default()).await?.items;
        let on_pools = events.into_iter().filter(|event| {
            let regarding = event.regarding.as_ref();
            let kind = regarding.and_then(|regarding| regarding.kind.as_deref());
            kind == Some("IPPool") && event.reason.as_deref() == Some(reason)
        });
        Ok(on_pools.filter_map(|event| event.note).collect())
    }

    /// Every address that ipgc freed was told on its pool. One that is killed tells no more.
    async fn all_is_told(&self) -> Result<()> {
        let freed = self.freed().await?;
        if self.stage.under_fire() || freed.len() > FEW {
            return Ok(());
        }
        let untold = || async {
            let told = self.told("IPAddressGarbageCollected").await?;
            let is_told = |address: &IpAddr| {
                let text = format!(" {address} ({}/", self.namespace.name);
                told.iter().any(|note| note.contains(&text))
            };
            Ok(freed.iter().copied().filter(|it| !is_told(it)).collect())
        };
        let what = "an event for each freed address";
        wait::until_state(what, PATIENCE, untold, Vec::<IpAddr>::is_empty).await?;
        Ok(())
    }

    /// The end of every scenario: nothing of it is in any pool, an audit finds nothing, events told all,
    /// and no wrong free was seen.
    pub async fn ends_clean(&self, deadline: Duration) -> Result<()> {
        self.empty(deadline).await?;
        let findings = self.findings().await?;
        assert!(findings.is_empty(), "the audit found {findings:#?}");
        self.all_is_told().await?;
        self.stage.detector.check().await?;
        Ok(())
    }

    /// Adds an interface to a pod that runs, as whatever plugs networks in later does: by ADD of the
    /// plugin, with the arguments that the runtime gives. `address` is one that the pod has.
    pub async fn plug(
        &self,
        node: &Machine,
        pod: &str,
        address: IpAddr,
        interface: &str,
        config: &Value,
    ) -> Result<()> {
        let holding = self.answers(address).await?;
        let bearer = holding.pod.expect("a sandbox that runs is described");
        let add = r#"printf '%s' "$1" | CNI_COMMAND=ADD CNI_PATH=/opt/cni/bin CNI_IFNAME="$2" \
            CNI_NETNS="/var/run/netns/$3" CNI_CONTAINERID="$4" \
            CNI_ARGS="IgnoreUnknown=1;K8S_POD_NAMESPACE=$5;K8S_POD_NAME=$6" /opt/cni/bin/bridge"#;
        let (network, namespace) = (&holding.namespace, &self.namespace.name);
        let arguments = [
            &config.to_string(),
            interface,
            network,
            &bearer.sandbox,
            namespace,
            pod,
        ];
        node.namespaces()?.shell(add, &arguments).await?;
        Ok(())
    }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|it| it.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| one.type_ == "Ready" && one.status == "True")
}

/// A network whose whereabouts asks by a kubeconfig of its own.
pub struct Apart {
    stage: Arc<Stage>,
    path: String,
}

impl Apart {
    /// Its kubeconfig, as the nodes see it.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// From now on its DEL and ADD reach no server.
    pub fn lose(&self) -> Result<()> {
        // Nobody listens on this port of the forwarder's address.
        self.point("https://10.96.0.1:444")
    }

    /// From now on they do again.
    pub fn mend(&self) -> Result<()> {
        self.point("https://10.96.0.1:443")
    }

    fn point(&self, url: &str) -> Result<()> {
        debug_assert_ne!(self.path, WHEREABOUTS_KUBECONFIG);
        for node in self.stage.tier.nodes() {
            // No pod with this network is on a node that another scenario has powered off.
            if node.namespaces().is_ok() {
                node.whereabouts_asks(self.stage.tier.plane(), &self.path, url)?;
            }
        }
        Ok(())
    }
}

fn malformed(what: &str) -> Error {
    Error::Other(format!("a pool has {what:?}"))
}

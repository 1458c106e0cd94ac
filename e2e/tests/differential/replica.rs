//! One copy of the states of one setting, and the means to build them.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use e2e::{
    Cluster, Error, Namespace, Result,
    cni::{Cni, Network, Sandbox},
    nodes::LiveNode,
    pods::{Interface, NETWORK_STATUS, PodPlan},
};
use futures::future::BoxFuture;
use ipgc::api::{IpPool, NetworkAttachmentDefinition, Reservation};
use k8s_openapi::api::events::v1::Event;
use kube::{Api, ResourceExt as _, api::ListParams};
use serde_json::Value;

use crate::states::{Address, Outcome, State};

/// The event with which both sides report a free.
const FREED: &str = "IPAddressGarbageCollected";

/// The states of one setting in a namespace, for one collector.
pub struct Replica {
    pub namespace: Namespace,
    numbers_from: usize,
    /// The node of nearly all pods.
    pub node: LiveNode,
    /// A node that a state may let fall silent.
    pub other_node: LiveNode,
    cni: Cni,
}

/// One state's corner of a replica. Names, ranges and addresses hold the state's number, so that
/// states never meet.
#[derive(Clone, Copy)]
pub struct Place<'r> {
    pub replica: &'r Replica,
    number: usize,
}

/// One step of bringing a state about.
pub type Step = for<'r> fn(Place<'r>) -> BoxFuture<'r, Result<()>>;

/// The content of a replica at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Rows and reservations, in words, with their podrefs.
    held: BTreeMap<String, String>,
    /// Addresses that an event reports as freed.
    told: BTreeSet<IpAddr>,
}

fn row_of(pool: &str, key: &str) -> String {
    format!("row {key} of {pool}")
}

fn reservation_of(name: &str) -> String {
    format!("reservation {name}")
}

impl Replica {
    /// Builds the states up to the moment in which a collector begins to look.
    /// The numbers of the states begin after `numbers_from`: no pod of another replica reports the same address.
    pub async fn build(
        cluster: &Cluster,
        prefix: &str,
        numbers_from: usize,
        states: &[&State],
    ) -> Result<Self> {
        let namespace = cluster.namespace(prefix).await?;
        let replica = Self {
            node: cluster.live_node(prefix).await?,
            other_node: cluster.live_node(prefix).await?,
            cni: Cni::new(&namespace).await?,
            numbers_from,
            namespace,
        };
        for state in states {
            (state.build)(replica.place(state)).await?;
        }
        Ok(replica)
    }

    /// The changes that the collector sees: pods end.
    pub async fn act(&self, states: &[&State]) -> Result<()> {
        for state in states {
            (state.act)(self.place(state)).await?;
        }
        Ok(())
    }

    /// Everything at this moment. An address that is not there at the beginning is an error: nobody
    /// could be seen to free it, or to keep it.
    pub async fn beginning(&self, states: &[&State]) -> Result<Snapshot> {
        let snapshot = self.snapshot().await?;
        for state in states {
            for address in &state.addresses {
                let (row, reservation) = self.place(state).holdings(address);
                for holding in row.into_iter().chain(reservation) {
                    if !snapshot.held.contains_key(&holding) {
                        let what = format!("{holding} of {} was not built", state.name);
                        return Err(Error::Other(what));
                    }
                }
            }
        }
        Ok(snapshot)
    }

    /// Everything at this moment.
    pub async fn snapshot(&self) -> Result<Snapshot> {
        let everything = ListParams::default();
        let mut held = BTreeMap::new();
        let podref = |spec: &Value| spec["podref"].as_str().unwrap_or_default().to_owned();
        let pools = self.namespace.api::<IpPool>();
        for pool in pools.list(&everything).await? {
            let rows = pool.spec.spec["allocations"].as_object();
            for (key, row) in rows.into_iter().flatten() {
                held.insert(row_of(&pool.name_any(), key), podref(row));
            }
        }
        let reservations = self.namespace.api::<Reservation>();
        for reservation in reservations.list(&everything).await? {
            let name = reservation_of(&reservation.name_any());
            held.insert(name, podref(&reservation.spec.spec));
        }
        let events = self.namespace.api::<Event>().list(&everything).await?;
        let told = events
            .iter()
            .filter(|event| event.reason.as_deref() == Some(FREED))
            .filter_map(|event| {
                let (_, rest) = event.note.as_deref()?.split_once('[')?;
                rest.split_once(']')?.0.parse().ok()
            })
            .collect();
        Ok(Snapshot { held, told })
    }

    /// What became of an address between two snapshots.
    pub fn outcome(
        &self,
        state: &State,
        address: &Address,
        before: &Snapshot,
        now: &Snapshot,
    ) -> Outcome {
        let place = self.place(state);
        let (row, reservation) = place.holdings(address);
        // One of another podref is not the one that was there.
        let gone = |holding: String| before.held.get(&holding) != now.held.get(&holding);
        let ip = place.fill(&address.ip).parse().unwrap();
        match (row.map(gone), reservation.map(gone)) {
            (Some(false), Some(true)) => Outcome::ReservationLost,
            (Some(true), Some(false)) => Outcome::ReservationLeft,
            (Some(true), _) | (_, Some(true)) => Outcome::Freed,
            _ if now.told.contains(&ip) => Outcome::ToldFreed,
            _ => Outcome::Kept,
        }
    }

    pub fn place(&self, state: &State) -> Place<'_> {
        Place {
            replica: self,
            number: self.numbers_from + state.number,
        }
    }
}

impl Place<'_> {
    /// The namespace of pods, pools and all.
    pub fn namespace(&self) -> &Namespace {
        &self.replica.namespace
    }

    /// A text with the state's number for `{n}` and the node's name for `{node}`.
    pub fn fill(&self, template: &str) -> String {
        template
            .replace("{n}", &self.number.to_string())
            .replace("{node}", &self.replica.node.name)
    }

    /// The row and the reservation of an address, as a snapshot names them.
    fn holdings(&self, address: &Address) -> (Option<String>, Option<String>) {
        let row = address.row.as_ref();
        let row = row.map(|(pool, offset)| row_of(&self.fill(pool), &offset.to_string()));
        let reservation = address.reservation.as_ref();
        (
            row,
            reservation.map(|name| reservation_of(&self.fill(name))),
        )
    }

    /// The name of the state's pod.
    pub fn pod(&self) -> String {
        self.fill("pod-{n}")
    }

    /// The pod's podref.
    pub fn podref(&self) -> String {
        format!("{}/{}", self.namespace().name, self.pod())
    }

    /// The state's network, of the range that most states use.
    pub fn network(&self) -> Network {
        Network::range(self.fill("net-{n}"), &self.fill("10.{n}.0.0/24"))
    }

    /// The state's network with other ranges.
    pub fn network_of(&self, ranges: &[&str]) -> Network {
        let ranges: Vec<String> = ranges.iter().map(|range| self.fill(range)).collect();
        let ranges: Vec<&str> = ranges.iter().map(String::as_str).collect();
        Network::ranges(self.fill("net-{n}"), &ranges)
    }

    /// The pool of [`Self::network`].
    pub fn pool(&self) -> String {
        self.fill("10.{n}.0.0-24")
    }

    /// The reference of a network in a pod's annotations.
    pub fn reference(&self, network: &Network) -> String {
        format!("{}/{}", self.namespace().name, network.name)
    }

    /// A pod on the replica's node that asks for `networks`.
    pub fn plan(&self, pod: &str, networks: &str) -> PodPlan {
        let plan = PodPlan::new(pod).on(&self.replica.node.name);
        plan.networks(networks)
    }

    /// The network attachments of the replica.
    pub fn attachments(&self) -> Api<NetworkAttachmentDefinition> {
        self.namespace().api()
    }

    /// The plugin's ADD in a new sandbox of a pod.
    pub async fn add(&self, pod: &str, network: &Network, interface: &str) -> Result<Vec<IpAddr>> {
        let sandbox = Sandbox::new(&self.namespace().name, pod);
        self.add_to(&sandbox, network, interface).await
    }

    /// The plugin's ADD in this sandbox.
    pub async fn add_to(
        &self,
        sandbox: &Sandbox,
        network: &Network,
        interface: &str,
    ) -> Result<Vec<IpAddr>> {
        self.replica.cni.add(network, sandbox, interface).await
    }

    /// A running pod with `net1` on this network, as multus reports it.
    pub async fn run(&self, plan: &PodPlan, network: &Network) -> Result<()> {
        self.replica.cni.start(plan, &[network]).await?;
        Ok(())
    }

    /// The entry of `net1` in the pod's annotation.
    pub fn interface(&self, network: &Network, addresses: &[IpAddr]) -> Interface {
        network.interface(&self.namespace().name, "net1", addresses)
    }

    /// The state's pod, running, with an address of the state's network.
    pub async fn running_pod(&self) -> Result<()> {
        let network = self.network();
        self.namespace().attach(&network).await?;
        self.run(&self.plan(&self.pod(), &network.name), &network)
            .await
    }

    /// The same with another annotation, or with none.
    pub async fn running_pod_with_status(&self, status: Option<&str>) -> Result<()> {
        self.running_pod().await?;
        self.annotate(status).await
    }

    /// Replaces the pod's annotation.
    pub async fn annotate(&self, status: Option<&str>) -> Result<()> {
        self.namespace()
            .annotate_pod(&self.pod(), NETWORK_STATUS, status)
            .await?;
        Ok(())
    }

    /// The state's pod, whose sandbox is being set up: it has its address and no annotation.
    pub async fn starting_pod(&self) -> Result<()> {
        let (pod, network) = (self.pod(), self.network());
        self.namespace().attach(&network).await?;
        self.namespace()
            .pod(&self.plan(&pod, &network.name))
            .await?;
        self.namespace().prepare_pod(&pod).await?;
        self.add(&pod, &network, "net1").await?;
        Ok(())
    }
}

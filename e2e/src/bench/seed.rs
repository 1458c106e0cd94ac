//! Writes a population: nodes, networks, pools, pods and reservations, as if they had been there for long.
//!
//! Objects of which there are many go straight into etcd ([`super::etcd`]), as copies of an object that the API server
//! made ([`super::template`]); a hundred thousand pods take half a minute instead of many. Each kind is
//! counted through the API afterwards.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use ipgc::api::{IpPool, NetworkAttachmentDefinition, Reservation};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use serde_json::{Value, json};

use super::{
    etcd::Etcd,
    population::{Address, Population},
    raw, template,
};
use crate::{
    ControlPlane, Error, Result,
    cni::Network,
    wait::{self, Probe},
};

/// Requests of a seeding in flight at a time.
const CONCURRENCY: usize = 16;

/// Where etcd has them.
const STORED: &str = "/registry/whereabouts.cni.cncf.io";

/// The API server's watch caches are behind for as long as they decode what was put.
const CAUGHT_UP: Duration = Duration::from_secs(300);

/// Puts objects into a control plane.
#[derive(Clone)]
pub struct Seeder {
    client: Client,
    etcd: Etcd,
}

impl Seeder {
    /// For these servers.
    pub async fn of(plane: &ControlPlane) -> Result<Self> {
        Ok(Self {
            client: plane.admin().await?,
            etcd: Etcd::of(plane)?,
        })
    }

    /// All of a population, rows and reservations included.
    pub async fn everything(&self, population: &Population) -> Result<()> {
        self.everything_but(population, 0).await
    }

    /// All of a population but its last so many pods, whose rows and reservations are there all the same.
    pub async fn everything_but(&self, population: &Population, orphans: usize) -> Result<()> {
        self.attachments(population).await?;
        self.nodes(population.nodes).await?;
        self.pools(population, Population::rows_of).await?;
        if population.reservations {
            let all = 0..population.pools;
            let all = all.flat_map(|pool| population.rows_of(pool));
            self.reservations(population, all).await?;
        }
        let living = Population {
            pods: population.pods - orphans,
            ..population.clone()
        };
        self.pods(&living).await
    }

    /// One network attachment for each pool.
    pub async fn attachments(&self, population: &Population) -> Result<()> {
        let namespace = &population.namespace;
        let path = raw::all::<NetworkAttachmentDefinition>(namespace);
        let created = (0..population.pools).map(|pool| {
            let mut network =
                Network::range(Population::attachment(pool), &population.range(pool));
            if !population.reservations {
                network = network.without_reservations();
            }
            let object = json!({
                "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
                "metadata": {"name": network.name}, "spec": {"config": network.config().to_string()},
            });
            let path = &path;
            async move { raw::create(&self.client, path, &object).await.map(drop) }
        });
        let created = stream::iter(created).buffer_unordered(CONCURRENCY);
        created.try_collect::<()>().await
    }

    /// Nodes that are ready, each with a Lease.
    pub async fn nodes(&self, count: usize) -> Result<()> {
        let node = template::node(&self.client).await?;
        let lease = template::lease(&self.client).await?;
        let objects = (0..count).map(Population::node).flat_map(|name| {
            let mut node = template::named(&node, &name);
            node["metadata"]["labels"]["kubernetes.io/hostname"] = name.as_str().into();
            let mut lease = template::named(&lease, &name);
            lease["spec"]["holderIdentity"] = name.as_str().into();
            let stored = |kind, object: Value| (format!("/registry/{kind}/{name}"), object);
            [
                stored("minions", node),
                stored("leases/kube-node-lease", lease),
            ]
        });
        self.etcd.put_all(objects).await?;
        self.counted("/api/v1/nodes", count).await
    }

    /// The pools with these of their rows.
    pub async fn pools<R: Iterator<Item = Address>>(
        &self,
        population: &Population,
        rows: impl Fn(&Population, usize) -> R,
    ) -> Result<()> {
        let namespace = &population.namespace;
        let path = raw::all::<IpPool>(namespace);
        let spec = |pool| {
            let allocations = population.allocations(rows(population, pool));
            json!({"range": population.range(pool), "allocations": allocations})
        };
        let first = json!({
            "apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "IPPool",
            "metadata": {"name": population.pool(0)}, "spec": spec(0),
        });
        // Its managed fields name the rows by their keys, which are those of all pools.
        let made = format!("{path}?fieldManager=whereabouts");
        let mut model = raw::create(&self.client, &made, &first).await?;
        template::forget_version(&mut model);
        let others = (1..population.pools).map(|pool| {
            let name = population.pool(pool);
            let mut object = template::named(&model, &name);
            object["spec"] = spec(pool);
            (format!("{STORED}/ippools/{namespace}/{name}"), object)
        });
        self.etcd.put_all(others).await?;
        self.counted(&path, population.pools).await
    }

    /// Reservations of these addresses.
    pub async fn reservations(
        &self,
        population: &Population,
        addresses: impl Iterator<Item = Address>,
    ) -> Result<()> {
        let namespace = &population.namespace;
        let model = template::reservation(&self.client, namespace).await?;
        let kind = "overlappingrangeipreservations";
        let mut count = 0;
        let objects = addresses.map(|address| {
            count += 1;
            let key = format!("{STORED}/{kind}/{namespace}/{}", population.ip(address));
            (key, template::reservation_of(&model, population, address))
        });
        self.etcd.put_all(objects).await?;
        let path = raw::all::<Reservation>(namespace);
        self.counted(&path, count).await
    }

    /// All pods, running; those that are there already are written anew.
    pub async fn pods(&self, population: &Population) -> Result<()> {
        let namespace = &population.namespace;
        let model = template::pod(&self.client, namespace, population.owner).await?;
        let objects = (0..population.pods).map(|pod| {
            let key = format!("/registry/pods/{namespace}/{}", population.pod(pod));
            (key, template::pod_of(&model, population, pod))
        });
        self.etcd.put_all(objects).await?;
        let path = raw::all::<Pod>(namespace);
        self.counted(&path, population.pods).await
    }

    /// Makes sure that a list has so many items at least, and waits until the server's watch cache has
    /// taken them all in: until then it answers nobody who asks for what is new.
    async fn counted(&self, path: &str, wanted: usize) -> Result<()> {
        let first = format!("{path}?limit=1");
        let list = raw::read(&self.client, &first).await?;
        let items = list["items"].as_array().map_or(0, Vec::len);
        let metadata = &list["metadata"];
        let rest = metadata["remainingItemCount"].as_u64().unwrap_or(0);
        let found = items + usize::try_from(rest).unwrap_or(usize::MAX);
        if found < wanted {
            let why = format!("{found} instead of {wanted} items");
            return Err(Error::Other(why));
        }
        let version = metadata["resourceVersion"].as_str().unwrap_or_default();
        // A list of nothing, from the cache.
        let newest = format!(
            "{path}?fieldSelector=metadata.name=none&resourceVersion={version}&resourceVersionMatch=NotOlderThan"
        );
        let newest = &*newest;
        let what = format!("the watch cache of {path}");
        wait::until(&what, CAUGHT_UP, || async move {
            Ok(match raw::get(&self.client, newest).await {
                Ok(_) => Probe::Done(()),
                Err(late) if matches!(late.api_code(), Some(429 | 504)) => {
                    Probe::NotYet(late.to_string())
                }
                Err(error) => return Err(error),
            })
        })
        .await
    }
}

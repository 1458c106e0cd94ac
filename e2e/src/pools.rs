//! Pools, reservations and network attachments, read and planted through the API.
//!
//! Planting is for what the plugin cannot be made to do (rows of old versions, rows of pods that never
//! were). Reading never interprets: a key that is no number is an error here, since only tests write it.

use std::collections::BTreeMap;

use ipgc::api::{self, IpPool, NetworkAttachmentDefinition, NodeSlicePool};
use kube::{
    ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use testkit::fixtures;

use crate::{
    Namespace, Result,
    cluster::{create, from_json},
    cni::Network,
    wait,
};

/// One row of a pool.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
pub struct Row {
    /// The sandbox.
    #[serde(default)]
    pub id: String,
    /// `namespace/name` of the pod.
    #[serde(default)]
    pub podref: String,
    /// The interface; rows of old versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ifname: Option<String>,
}

/// Rows by offset.
pub type Rows = BTreeMap<i128, Row>;

/// A pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// `spec.allocations`.
    pub rows: Rows,
    /// `metadata.resourceVersion`.
    pub version: String,
}

/// A reservation of an address across pools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// `namespace/name` of the pod.
    pub podref: String,
    /// The interface.
    pub ifname: Option<String>,
    /// `metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
}

impl Row {
    /// A row as today's plugin writes it.
    pub fn new(id: impl Into<String>, podref: impl Into<String>, ifname: &str) -> Self {
        Self {
            id: id.into(),
            podref: podref.into(),
            ifname: Some(ifname.into()),
        }
    }
}

impl Namespace {
    /// A pool, if it is there.
    pub async fn pool(&self, name: &str) -> Result<Option<Pool>> {
        let found = self.api::<IpPool>().get_opt(name).await?;
        found.map(parse_pool).transpose()
    }

    /// The rows of a pool; none if there is no pool.
    pub async fn rows(&self, pool: &str) -> Result<Rows> {
        Ok(self
            .pool(pool)
            .await?
            .map(|pool| pool.rows)
            .unwrap_or_default())
    }

    /// The offsets of a pool's rows.
    pub async fn offsets(&self, pool: &str) -> Result<Vec<i128>> {
        Ok(self.rows(pool).await?.into_keys().collect())
    }

    /// Waits until a pool has exactly these rows, by offset.
    pub async fn wait_offsets(&self, pool: &str, wanted: &[i128]) -> Result<Rows> {
        let what = format!("pool {}/{pool} to have the rows {wanted:?}", self.name);
        wait::until_state(
            &what,
            wait::PATIENCE,
            || self.rows(pool),
            |rows| rows.keys().copied().eq(wanted.iter().copied()),
        )
        .await
    }

    /// The reservations of this namespace by name.
    pub async fn reservations(&self) -> Result<BTreeMap<String, Reservation>> {
        let all = ListParams::default();
        let found = self.api::<api::Reservation>().list(&all).await?;
        let read = |object: api::Reservation| {
            let text = |field: &str| object.spec.spec[field].as_str().map(str::to_owned);
            let reservation = Reservation {
                podref: text("podref").unwrap_or_default(),
                ifname: text("ifname"),
                annotations: object.annotations().clone(),
            };
            (object.name_any(), reservation)
        };
        Ok(found.into_iter().map(read).collect())
    }

    /// Waits until exactly the reservations of these names are there.
    pub async fn wait_reservations(&self, wanted: &[&str]) -> Result<()> {
        let what = format!("the reservations of {} to be {wanted:?}", self.name);
        wait::until_state(
            &what,
            wait::PATIENCE,
            || self.reservations(),
            |found| found.keys().map(String::as_str).eq(wanted.iter().copied()),
        )
        .await?;
        Ok(())
    }

    /// Makes a pool with rows.
    pub async fn plant_pool(&self, name: &str, range: &str, rows: &Rows) -> Result<()> {
        let mut pool = fixtures::pool(&self.name, range).name(name);
        for (offset, row) in rows {
            pool = pool.raw_row(&offset.to_string(), json!(row));
        }
        create(&self.api::<IpPool>(), pool.build()).await?;
        Ok(())
    }

    /// Adds or replaces one row.
    pub async fn plant_row(&self, pool: &str, offset: i128, row: &Row) -> Result<()> {
        // A merge patch would keep an old `ifname` that the new row lacks.
        let path = format!("/spec/allocations/{offset}");
        self.patch_pool(pool, json!([{"op": "add", "path": path, "value": row}]))
            .await
    }

    /// Takes one row out, as a DEL would.
    pub async fn pull_row(&self, pool: &str, offset: i128) -> Result<()> {
        let path = format!("/spec/allocations/{offset}");
        self.patch_pool(pool, json!([{"op": "remove", "path": path}]))
            .await
    }

    /// Applies a JSON patch to a pool.
    pub async fn patch_pool(&self, pool: &str, operations: Value) -> Result<()> {
        let patch: json_patch::Patch = from_json(operations)?;
        let (parameters, patch) = (PatchParams::default(), Patch::Json::<()>(patch));
        let pools = self.api::<IpPool>();
        pools.patch(pool, &parameters, &patch).await?;
        Ok(())
    }

    /// Makes a reservation.
    pub async fn plant_reservation(&self, name: &str, podref: &str, ifname: &str) -> Result<()> {
        let object = fixtures::reservation(&self.name, name, podref, ifname);
        create(&self.api::<api::Reservation>(), object).await?;
        Ok(())
    }

    /// Deletes a reservation.
    pub async fn pull_reservation(&self, name: &str) -> Result<()> {
        let reservations = self.api::<api::Reservation>();
        reservations.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Makes a pool of slices, as upstream's node-slice controller leaves it; a slice without a node is free.
    pub async fn plant_slices(
        &self,
        name: &str,
        range: &str,
        size: &str,
        slices: &[(&str, &str)],
    ) -> Result<()> {
        let object = fixtures::node_slice_pool(&self.name, name, range, size, slices);
        create(&self.api::<NodeSlicePool>(), object).await?;
        Ok(())
    }

    /// Makes a network attachment with this CNI configuration.
    pub async fn network_attachment(&self, name: &str, config: &Value) -> Result<()> {
        let object = fixtures::nad_with_config(&self.name, name, &config.to_string());
        create(&self.api::<NetworkAttachmentDefinition>(), object).await?;
        Ok(())
    }

    /// Makes the network attachment of a network.
    pub async fn attach(&self, network: &Network) -> Result<()> {
        self.network_attachment(&network.name, &network.config())
            .await
    }
}

fn parse_pool(object: IpPool) -> Result<Pool> {
    #[derive(Deserialize)]
    struct Spec {
        #[serde(default)]
        allocations: BTreeMap<String, Row>,
    }
    let spec: Spec = serde_json::from_value(object.spec.spec)?;
    let mut rows = Rows::new();
    for (key, row) in spec.allocations {
        let offset = key.parse()?;
        rows.insert(offset, row);
    }
    Ok(Pool {
        rows,
        version: object.metadata.resource_version.unwrap_or_default(),
    })
}

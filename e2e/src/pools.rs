//! Pools, reservations and network attachments, read and planted through the API.
//!
//! Planting is for what the plugin cannot be made to do (rows of old versions, rows of pods that never
//! were). Reading never interprets: a key that is no number is an error here, since only tests write it.

use std::collections::BTreeMap;

use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams},
    core::GroupVersionKind,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use testkit::fixtures;

use crate::{
    Namespace, Result,
    cluster::{create, from_json},
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

/// A kind of whereabouts.
fn whereabouts(kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(
        "whereabouts.cni.cncf.io",
        "v1alpha1",
        kind,
    ))
}

/// The pools of a namespace, untyped.
pub fn pools(client: &Client, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, &whereabouts("IPPool"))
}

/// The pools of all namespaces, untyped.
pub fn all(client: &Client) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &whereabouts("IPPool"))
}

/// The reservations of a namespace, untyped.
pub fn reservations(client: &Client, namespace: &str) -> Api<DynamicObject> {
    let kind = whereabouts("OverlappingRangeIPReservation");
    Api::namespaced_with(client.clone(), namespace, &kind)
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
        let found = pools(self.client(), &self.name).get_opt(name).await?;
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
        let found = reservations(self.client(), &self.name)
            .list(&ListParams::default())
            .await?;
        Ok(found
            .into_iter()
            .map(|object| {
                let text = |field: &str| object.data["spec"][field].as_str().map(str::to_owned);
                let reservation = Reservation {
                    podref: text("podref").unwrap_or_default(),
                    ifname: text("ifname"),
                    annotations: object.metadata.annotations.clone().unwrap_or_default(),
                };
                (object.metadata.name.unwrap_or_default(), reservation)
            })
            .collect())
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
        create(&pools(self.client(), &self.name), pool.build()).await?;
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
        pools(self.client(), &self.name)
            .patch(pool, &PatchParams::default(), &Patch::Json::<()>(patch))
            .await?;
        Ok(())
    }

    /// Makes a reservation.
    pub async fn plant_reservation(&self, name: &str, podref: &str, ifname: &str) -> Result<()> {
        let object = fixtures::reservation(&self.name, name, podref, ifname);
        create(&reservations(self.client(), &self.name), object).await?;
        Ok(())
    }

    /// Deletes a reservation.
    pub async fn pull_reservation(&self, name: &str) -> Result<()> {
        reservations(self.client(), &self.name)
            .delete(name, &DeleteParams::default())
            .await?;
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
        let kind = whereabouts("NodeSlicePool");
        let all = Api::namespaced_with(self.client().clone(), &self.name, &kind);
        create::<DynamicObject>(&all, object).await?;
        Ok(())
    }

    /// Makes a network attachment with this CNI configuration.
    pub async fn network_attachment(&self, name: &str, config: &Value) -> Result<()> {
        let object = fixtures::nad_with_config(&self.name, name, &config.to_string());
        create(&self.network_attachments(), object).await?;
        Ok(())
    }

    /// The network attachments of this namespace, untyped.
    pub fn network_attachments(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("k8s.cni.cncf.io", "v1", "NetworkAttachmentDefinition");
        let kind = ApiResource::from_gvk_with_plural(&kind, "network-attachment-definitions");
        Api::namespaced_with(self.client().clone(), &self.name, &kind)
    }
}

fn parse_pool(object: DynamicObject) -> Result<Pool> {
    #[derive(Deserialize)]
    struct Spec {
        #[serde(default)]
        allocations: BTreeMap<String, Row>,
    }
    let spec: Spec = serde_json::from_value(object.data["spec"].clone())?;
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

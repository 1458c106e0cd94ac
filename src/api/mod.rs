//! The foreign kinds that ipgc reads, as Rust types, and the CRDs that describe them.
//!
//! Three kinds belong to whereabouts (`whereabouts.cni.cncf.io/v1alpha1`): [`IpPool`],
//! [`Reservation`] and [`NodeSlicePool`]. One belongs to the Network Plumbing Working Group
//! (`k8s.cni.cncf.io/v1`): [`NetworkAttachmentDefinition`]. ipgc owns none of them.
//!
//! **What the types promise.** They read every object that was valid under any schema that
//! whereabouts ever shipped, from the rows without a podref (before 0.4.2) to 0.9.4, and they keep
//! what they do not know: each level has an `extra` map that takes unknown fields in and writes
//! them out again, the top level included. Two things are not kept: unknown fields inside
//! `metadata`, which the API server drops as well, and the difference between a field that is
//! `null` and one that is absent.
//!
//! For the top level, kube's derive is told `no_spec`: it then flattens a *body* (`spec`, `status`
//! where there is one, `extra`) into the object instead of demanding a `spec`. In Rust this body
//! is the field that the derive calls `spec`; the accessors of each kind spare callers the
//! `pool.spec.spec`.
//!
//! **What the CRDs promise.** [`crds`] validates and prunes exactly like the CRDs of whereabouts
//! 0.9.4 and of network-attachment-definition-client 1.7: same names, properties, types and
//! required fields, nothing nullable, no defaults, no status subresource, and unknown fields are
//! pruned. They are stricter than the types on purpose: the types also read what an older schema
//! let in. They serve tests, demos and clusters that lost theirs.
//!
//! This module touches nothing: it has no client and no file. It never judges a row, never turns
//! a key into an address, and nothing in it is meant for a PUT. ipgc changes these objects only
//! by JSON Patch and DELETE, so a field that some future version adds is safe even where these
//! types would lose it.

mod ippool;
mod nad;
mod nodeslice;
mod reservation;

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

pub use ippool::{Allocation, IpPool, IpPoolBody, IpPoolSpec};
pub use nad::{NetworkAttachmentDefinition, NetworkAttachmentDefinitionBody, NetworkSpec};
pub use nodeslice::{
    NodeSliceAllocation, NodeSlicePool, NodeSlicePoolBody, NodeSlicePoolSpec, NodeSlicePoolStatus,
};
pub use reservation::{Reservation, ReservationBody, ReservationSpec};

/// Fields that an object carries and its Rust type does not know, by name, as they were read.
pub type Extra = BTreeMap<String, Value>;

/// The CRDs as files: (name, text), in the order of [`crds`].
///
/// They are those of the repository, which a test and the gate compare with [`crds`]: what makes them out of the types
/// is no part of the program.
pub const CRD_FILES: [(&str, &str); 4] = [
    (
        "whereabouts.cni.cncf.io_ippools.yaml",
        include_str!("../../crds/whereabouts.cni.cncf.io_ippools.yaml"),
    ),
    (
        "whereabouts.cni.cncf.io_overlappingrangeipreservations.yaml",
        include_str!("../../crds/whereabouts.cni.cncf.io_overlappingrangeipreservations.yaml"),
    ),
    (
        "whereabouts.cni.cncf.io_nodeslicepools.yaml",
        include_str!("../../crds/whereabouts.cni.cncf.io_nodeslicepools.yaml"),
    ),
    (
        "k8s.cni.cncf.io_network-attachment-definitions.yaml",
        include_str!("../../crds/k8s.cni.cncf.io_network-attachment-definitions.yaml"),
    ),
];

/// The CRDs of the four kinds, in a fixed order: IP pools, reservations, node slices, NADs.
///
/// They are made from the types. The program prints [`CRD_FILES`] instead.
#[must_use]
pub fn crds() -> Vec<CustomResourceDefinition> {
    let mut crds = vec![
        IpPool::crd(),
        Reservation::crd(),
        NodeSlicePool::crd(),
        NetworkAttachmentDefinition::crd(),
    ];
    // The derive puts the name of the Rust type into the title, which says nothing to a cluster.
    for version in crds.iter_mut().flat_map(|crd| &mut crd.spec.versions) {
        if let Some(validation) = &mut version.schema
            && let Some(schema) = &mut validation.open_api_v3_schema
        {
            schema.title = None;
        }
    }
    crds
}

/// The four CRDs as one YAML stream, in the order of [`crds`]: the texts of [`CRD_FILES`], parted
/// by `---`.
#[must_use]
pub fn crds_yaml() -> String {
    CRD_FILES.map(|(_, text)| text).join("---\n")
}

/// Reads the `extra` of a body that is flattened into the top level of an object.
///
/// There the two fields that name the type arrive as unknown ones, because kube's derive keeps
/// them in the type and not in the value. They are dropped here; left in, they would be written
/// twice.
fn top_level_extra<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Extra, D::Error> {
    let mut extra = Extra::deserialize(deserializer)?;
    extra.remove("apiVersion");
    extra.remove("kind");
    Ok(extra)
}

/// Reads `null` as the empty value: a nil Go map or slice is written as `null`, and without a
/// schema, or with one that predates pruning, the server stores it like that.
fn null_as_empty<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

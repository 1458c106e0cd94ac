//! The foreign kinds that ipgc reads, and the CRDs that describe them.
//!
//! Three kinds belong to whereabouts (`whereabouts.cni.cncf.io/v1alpha1`): [`IpPool`],
//! [`Reservation`] and [`NodeSlicePool`]. One belongs to the Network Plumbing Working Group
//! (`k8s.cni.cncf.io/v1`): [`NetworkAttachmentDefinition`]. ipgc owns none of them.
//!
//! Of most only the names of the kinds are needed here: `ipgc_core` and [`crate::watch`] read their texts. ipgc changes
//! objects by JSON Patch and DELETE alone, so these types need not keep what they do not know. In Rust the fields
//! beside the metadata are those of the field `spec`, since kube would demand a `spec` of each object otherwise.
//!
//! [`CRD_FILES`] validate and prune exactly like the CRDs of whereabouts 0.9.4 and of
//! network-attachment-definition-client 1.7. They serve tests, demos and clusters that lost theirs.

use ipgc_core::{address::Range, routes::Slice, text::excerpt};
use kube::CustomResource;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// An `IPPool`: one range of addresses, and the rows of the pods that hold addresses of it.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize)]
#[kube(group = "whereabouts.cni.cncf.io", version = "v1alpha1")]
#[kube(kind = "IPPool", root = "IpPool", plural = "ippools")]
#[kube(schema = "disabled", namespaced, no_spec)]
pub struct IpPoolBody {
    /// `spec`, unread.
    #[serde(default)]
    pub spec: Value,
}

/// An `OverlappingRangeIPReservation`: one address that is taken in every range that contains it. The address is its name.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize)]
#[kube(group = "whereabouts.cni.cncf.io", version = "v1alpha1")]
#[kube(kind = "OverlappingRangeIPReservation", root = "Reservation")]
#[kube(plural = "overlappingrangeipreservations")]
#[kube(schema = "disabled", namespaced, no_spec)]
pub struct ReservationBody {
    /// `spec`, unread.
    #[serde(default)]
    pub spec: Value,
}

/// A `NodeSlicePool` (since whereabouts 0.9.0): one range, cut into slices of which each node gets one.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize)]
#[kube(group = "whereabouts.cni.cncf.io", version = "v1alpha1")]
#[kube(kind = "NodeSlicePool", plural = "nodeslicepools")]
#[kube(schema = "disabled", namespaced, no_spec)]
pub struct NodeSlicePoolBody {
    /// The range and the size of a slice. It is not used, but what is none is no slice pool.
    pub spec: Option<NodeSlicePoolSpec>,
    /// Which node has which slice.
    // Not named `status`: kube's derive claims that name.
    #[serde(rename = "status")]
    pub slices: Option<NodeSlicePoolStatus>,
}

/// The range of a node slice pool.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSlicePoolSpec {
    /// The whole range, such as `10.0.0.0/8`.
    pub range: String,
    /// The prefix length of a slice: `/22` or `22`.
    pub slice_size: String,
}

/// The slices of a node slice pool.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct NodeSlicePoolStatus {
    /// Every slice of the range, those without a node included.
    #[serde(deserialize_with = "null_as_empty")]
    pub allocations: Vec<NodeSliceAllocation>,
}

/// One slice and its node.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSliceAllocation {
    /// The node that has the slice; empty when no node has it.
    pub node_name: String,
    /// The slice, as a CIDR.
    pub slice_range: String,
}

impl NodeSlicePool {
    /// The slices that nodes have, or what is wrong with one, each with its place in `status.allocations`. Free slices are
    /// left out.
    pub fn slices(&self) -> impl Iterator<Item = (usize, Result<Slice, String>)> {
        let all = self.spec.slices.iter().flat_map(|it| &it.allocations);
        let assigned = all.enumerate().filter(|(_, it)| !it.node_name.is_empty());
        assigned.map(|(place, it)| {
            let slice = Range::parse(&it.slice_range).map(|range| Slice {
                namespace: self.metadata.namespace.clone().unwrap_or_default(),
                name: self.metadata.name.clone().unwrap_or_default(),
                node: it.node_name.as_str().into(),
                range,
            });
            let faulty = || {
                let (node, text) = (&it.node_name, excerpt(&it.slice_range));
                format!("the slice of node {node} is not a CIDR: {text:?}")
            };
            (place, slice.ok_or_else(faulty))
        })
    }
}

/// A nil Go slice is written as `null`.
fn null_as_empty<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A `NetworkAttachmentDefinition`: a network that pods can ask for beside the one of the cluster.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize)]
#[kube(group = "k8s.cni.cncf.io", version = "v1")]
#[kube(kind = "NetworkAttachmentDefinition")]
#[kube(plural = "network-attachment-definitions")]
#[kube(schema = "disabled", namespaced, no_spec)]
pub struct NetworkAttachmentDefinitionBody {
    /// `spec`, unread.
    #[serde(default)]
    pub spec: Value,
}

macro_rules! crds {
    ($($name:literal),* $(,)?) => { [$(($name, include_str!(concat!("../crds/", $name)))),*] };
}

/// The CRDs as files: (name, text).
pub const CRD_FILES: [(&str, &str); 4] = crds![
    "whereabouts.cni.cncf.io_ippools.yaml",
    "whereabouts.cni.cncf.io_overlappingrangeipreservations.yaml",
    "whereabouts.cni.cncf.io_nodeslicepools.yaml",
    "k8s.cni.cncf.io_network-attachment-definitions.yaml",
];

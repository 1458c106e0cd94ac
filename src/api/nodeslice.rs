//! [`NodeSlicePool`]: how one range is cut into a slice per node, kind `NodeSlicePool` of
//! whereabouts (since 0.9.0).
//!
//! Plain data. Names of per-node pools are built elsewhere. It never writes: the slices are the
//! business of whereabouts' node-slice controller alone.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Extra, null_as_empty, top_level_extra};

/// Everything of a `NodeSlicePool` beside its type and metadata; flattened into the object.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "whereabouts.cni.cncf.io",
    version = "v1alpha1",
    kind = "NodeSlicePool",
    plural = "nodeslicepools",
    singular = "nodeslicepool",
    doc = "One range of addresses, cut into slices of which each node gets one.",
    namespaced,
    no_spec,
    derive = "Default",
    derive = "PartialEq"
)]
pub struct NodeSlicePoolBody {
    /// The range and the size of a slice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "NodeSlicePoolSpec")]
    pub spec: Option<NodeSlicePoolSpec>,

    /// Which node has which slice. It is no subresource: whereabouts writes it with the object.
    // Not named `status`: kube's derive claims that name, and would add the subresource.
    #[serde(default, rename = "status", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "NodeSlicePoolStatus")]
    pub slices: Option<NodeSlicePoolStatus>,

    /// Unknown fields of the top level.
    #[serde(flatten, deserialize_with = "top_level_extra")]
    #[schemars(skip)]
    pub extra: Extra,
}

/// The range of a node slice pool (whereabouts 0.9.4, `NodeSlicePoolSpec`).
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSlicePoolSpec {
    /// The whole range in CIDR notation, such as `10.0.0.0/8`.
    pub range: String,

    /// The prefix length of a slice in bits, with or without the slash: `/22` or `22`.
    pub slice_size: String,

    /// Unknown fields of `spec`.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// The slices of a node slice pool (whereabouts 0.9.4, `NodeSlicePoolStatus`).
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct NodeSlicePoolStatus {
    /// Every slice of the range, those without a node included.
    #[serde(deserialize_with = "null_as_empty")]
    pub allocations: Vec<NodeSliceAllocation>,

    /// Unknown fields of `status`.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// One slice and its node (whereabouts 0.9.4, `NodeSliceAllocation`).
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSliceAllocation {
    /// The node that has the slice; empty when no node has it.
    pub node_name: String,

    /// The slice in CIDR notation.
    pub slice_range: String,

    /// Unknown fields of the slice.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

impl NodeSlicePool {
    /// The slices that a node has, as (node, CIDR). Free slices are left out.
    pub fn assigned(&self) -> impl Iterator<Item = (&str, &str)> {
        self.spec
            .slices
            .iter()
            .flat_map(|status| &status.allocations)
            .filter(|slice| !slice.node_name.is_empty())
            .map(|slice| (slice.node_name.as_str(), slice.slice_range.as_str()))
    }
}

//! [`IpPool`]: the rows of one range, kind `IPPool` of whereabouts.
//!
//! Plain data. What a key means, which rows are well formed and which of them may go is decided
//! elsewhere; the collector observes pools as `ipgc_core::pool::ObservedPool`, without building
//! this type. It never writes.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Extra, null_as_empty, top_level_extra};

/// Everything of an `IPPool` beside its type and metadata; flattened into the object.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "whereabouts.cni.cncf.io",
    version = "v1alpha1",
    kind = "IPPool",
    root = "IpPool",
    plural = "ippools",
    singular = "ippool",
    doc = "One range of addresses and the pods that hold addresses of it.",
    namespaced,
    no_spec,
    derive = "Default",
    derive = "PartialEq"
)]
pub struct IpPoolBody {
    /// The range and its rows. whereabouts always writes it, the schema lets it be absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "IpPoolSpec")]
    pub spec: Option<IpPoolSpec>,

    /// Unknown fields of the top level.
    #[serde(flatten, deserialize_with = "top_level_extra")]
    #[schemars(skip)]
    pub extra: Extra,
}

/// The range of a pool and the rows in it (whereabouts 0.9.4, `IPPoolSpec`).
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct IpPoolSpec {
    /// The range in CIDR notation, such as `192.168.2.0/24`. Keys count from its address part.
    pub range: String,

    /// The rows. The key is the distance from the address part of the range to the held address,
    /// in decimal.
    #[serde(deserialize_with = "null_as_empty")]
    pub allocations: BTreeMap<String, Allocation>,

    /// Unknown fields of `spec`.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// One row of a pool: who holds the address (whereabouts 0.9.4, `IPAllocation`).
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Allocation {
    /// The sandbox that was given the address, by the id that the container runtime uses.
    pub id: String,

    /// The pod as `namespace/name`.
    // Required by the schema since 0.8. Rows written before 0.4.2 have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub podref: Option<String>,

    /// The interface in the pod, such as `net1`. Rows written before 0.8.0 have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub ifname: Option<String>,

    /// Unknown fields of the row, such as the claim tag of a future version.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

impl IpPool {
    /// The text of `spec.range`; `None` when the pool has no spec.
    #[must_use]
    pub fn range(&self) -> Option<&str> {
        self.spec.spec.as_ref().map(|spec| spec.range.as_str())
    }

    /// The rows as (key, row), in the order of the keys as text; none when the pool has no spec.
    pub fn rows(&self) -> impl Iterator<Item = (&str, &Allocation)> {
        self.spec
            .spec
            .iter()
            .flat_map(|spec| &spec.allocations)
            .map(|(key, row)| (key.as_str(), row))
    }
}

//! [`Reservation`]: one address taken across ranges, kind `OverlappingRangeIPReservation` of
//! whereabouts.
//!
//! Plain data. The address is in the name of the object only, in one of several spellings;
//! nothing here reads it from there. It never writes.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Extra, top_level_extra};

/// Everything of an `OverlappingRangeIPReservation` beside its type and metadata; flattened into
/// the object.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "whereabouts.cni.cncf.io",
    version = "v1alpha1",
    kind = "OverlappingRangeIPReservation",
    root = "Reservation",
    plural = "overlappingrangeipreservations",
    singular = "overlappingrangeipreservation",
    doc = "An address that is taken in every range that contains it. The address is the name.",
    namespaced,
    no_spec,
    derive = "Default",
    derive = "PartialEq"
)]
pub struct ReservationBody {
    /// Who holds the address.
    pub spec: ReservationSpec,

    /// Unknown fields of the top level.
    #[serde(flatten, deserialize_with = "top_level_extra")]
    #[schemars(skip)]
    pub extra: Extra,
}

/// Who holds a reserved address (whereabouts 0.9.4, `OverlappingRangeIPReservationSpec`).
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ReservationSpec {
    /// The sandbox that was given the address. Written up to 0.7 only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub containerid: Option<String>,

    /// The pod as `namespace/name`.
    // Required by the schema since 0.8, optional before.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub podref: Option<String>,

    /// The interface in the pod, such as `net1`. Reservations made before 0.8.0 have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub ifname: Option<String>,

    /// Unknown fields of `spec`.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

impl Reservation {
    /// The text of `spec.podref`; `None` when the reservation has none.
    #[must_use]
    pub fn podref(&self) -> Option<&str> {
        self.spec.spec.podref.as_deref()
    }

    /// The text of `spec.ifname`; `None` when the reservation has none.
    #[must_use]
    pub fn ifname(&self) -> Option<&str> {
        self.spec.spec.ifname.as_deref()
    }
}

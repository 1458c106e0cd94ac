//! The reservation of a freed row: claim, prove, delete (docs/safety.md).
//!
//! An ADD accepts an existing reservation of its own podref *without writing it*, so preconditions
//! alone guard nothing against a successor of the same name. A claim replaces the podref, which
//! makes every ADD skip the address; then the absence is proven once more; only then the
//! reservation is deleted, with the uid and the resourceVersion that the claim gave it.

use std::{collections::BTreeMap, net::IpAddr};

use jiff::Timestamp;
use json_patch::Patch;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    address::reservation_address,
    operation::{add, remove, replace, test},
    podref::PodRef,
    pool::{RowContent, Unreadable},
    text::not_null,
};

/// Podref of a claimed reservation. No pod can have it: a namespace has no dots.
pub const CLAIMED_PODREF: &str = "ipgc.dev/releasing";
/// Annotation that keeps the podref which a claim replaced.
pub const CLAIM_ANNOTATION: &str = "ipgc.dev/claimed-from";
const CLAIM_PATH: [&str; 3] = ["metadata", "annotations", CLAIM_ANNOTATION];

/// An OverlappingRangeIPReservation as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`, which holds the address.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// `metadata.creationTimestamp`, where it is a time. No rule judges by it.
    pub created: Option<Timestamp>,
    /// `spec.podref`; empty where there is none, as under the CRD of whereabouts before 0.5, which drops it.
    pub podref: String,
    /// `spec.ifname`, where there is one.
    pub interface: Option<String>,
    /// `spec.containerid`, where there is one: whereabouts before 0.5 wrote it.
    pub sandbox: Option<String>,
    /// A field of `spec` that is not known. It may say whom the reservation belongs to.
    pub extra: Option<Unreadable>,
    /// The podref before a claim.
    pub claimed_from: Option<String>,
    has_annotations: bool,
}

#[derive(Deserialize)]
struct Raw {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    namespace: Option<String>,
    name: String,
    uid: String,
    resource_version: String,
    creation_timestamp: Option<String>,
    annotations: Option<BTreeMap<String, String>>,
}

/// The fields of the spec, each a text.
#[derive(Deserialize)]
struct Spec {
    #[serde(default, deserialize_with = "not_null")]
    podref: Option<String>,
    #[serde(default, deserialize_with = "not_null")]
    ifname: Option<String>,
    #[serde(default, deserialize_with = "not_null")]
    containerid: Option<String>,
    /// It is known, and says nothing.
    #[serde(default, deserialize_with = "not_null", rename = "poduid")]
    _uid: Option<String>,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

impl Reservation {
    /// Reads the text of a reservation.
    ///
    /// # Errors
    /// Where it has no name, uid, resourceVersion or spec, or a known field that is no text.
    pub fn parse(text: &str) -> serde_json::Result<Self> {
        let Raw { metadata, spec } = serde_json::from_str(text)?;
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        Ok(Self {
            podref: spec.podref.unwrap_or_default(),
            interface: given(spec.ifname),
            sandbox: given(spec.containerid),
            extra: Unreadable::of_fields(&spec.others),
            namespace: metadata.namespace.unwrap_or_default(),
            name: metadata.name,
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            created: metadata.creation_timestamp.and_then(|it| it.parse().ok()),
            has_annotations: metadata.annotations.is_some(),
            claimed_from: metadata
                .annotations
                .and_then(|mut all| all.remove(CLAIM_ANNOTATION)),
        })
    }

    /// Whether we claimed it before (and did not finish).
    pub fn is_claimed(&self) -> bool {
        self.podref == CLAIMED_PODREF && self.claimed_from.is_some()
    }

    /// The podref, a claim of ours seen through; empty where there is none.
    pub fn owner(&self) -> &str {
        match &self.claimed_from {
            Some(claimed_from) if self.is_claimed() => claimed_from,
            _ => &self.podref,
        }
    }

    /// The text that says whose it is: its owner; where there is none, the id of its sandbox.
    pub fn whose(&self) -> &str {
        match &self.sandbox {
            Some(sandbox) if self.podref.is_empty() => sandbox,
            _ => self.owner(),
        }
    }

    /// The pod that it names.
    ///
    /// # Errors
    /// Where it names none, or has a field that may say something else.
    pub fn pod(&self) -> Result<PodRef, Unreadable> {
        if let Some(extra) = &self.extra {
            return Err(extra.clone());
        }
        self.owner().parse().map_err(|()| Unreadable::PodRef)
    }

    /// Whether it is of this row's pod; one that names no pod, of this row's sandbox.
    pub fn is_of(&self, row: &RowContent) -> bool {
        match &self.sandbox {
            Some(its) if self.podref.is_empty() => **its == *row.sandbox,
            _ => self.owner() == row.podref.as_str(),
        }
    }

    /// Whether it is the reservation of this row, which goes with it: same address in the same network, same pod
    /// (or, where it names none, same sandbox), same interface, and no field that may say something else. An
    /// interface that either of them does not name (before whereabouts 0.8) is not held against it.
    pub fn belongs_to(&self, row: &RowContent, network: Option<&str>) -> bool {
        let same_interface = match (&self.interface, &row.interface) {
            (Some(ours), Some(theirs)) => **ours == **theirs,
            _ => true,
        };
        let is_known = self.extra.is_none();
        let same_address = reservation_address(&self.name, network) == Some(row.address);
        is_known && same_address && self.is_of(row) && same_interface
    }

    /// The row that it would belong to, at `address`. Where the reservation names no sandbox, that is nobody's.
    ///
    /// # Errors
    /// As [`Reservation::pod`].
    pub fn as_row(&self, address: IpAddr) -> Result<RowContent, Unreadable> {
        Ok(RowContent {
            address,
            sandbox: self.sandbox.as_deref().unwrap_or_default().into(),
            podref: self.pod()?,
            interface: self.interface.as_deref().map(Into::into),
        })
    }

    /// Step 1: replaces the podref, so that no ADD accepts the reservation any more.
    pub fn claim(&self) -> Patch {
        // The version as well: a claim that the server does late, after we gave it up and the
        // reservation was claimed anew and given back, must not hit the pod that lives again.
        let mut operations = vec![
            test(&["metadata", "uid"], &*self.uid),
            test(&["metadata", "resourceVersion"], &*self.resource_version),
            test(&["spec", "podref"], &*self.podref),
        ];
        if !self.has_annotations {
            operations.push(add(&["metadata", "annotations"], json!({})));
        }
        // A claim of what is claimed already must not forget whose it was.
        operations.push(add(&CLAIM_PATH, self.owner()));
        operations.push(replace(&["spec", "podref"], CLAIMED_PODREF));
        Patch(operations)
    }

    /// Puts the podref of a claimed reservation back, since its pod lives again or a row has its address.
    pub fn give_back(&self) -> Patch {
        Patch(vec![
            test(&["metadata", "uid"], &*self.uid),
            test(&["spec", "podref"], CLAIMED_PODREF),
            replace(&["spec", "podref"], self.owner()),
            remove(&CLAIM_PATH),
        ])
    }
}

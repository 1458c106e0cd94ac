//! The reservation of a freed row: claim, prove, delete (docs/safety.md).
//!
//! An ADD accepts an existing reservation of its own podref *without writing it*, so preconditions
//! alone guard nothing against a successor of the same name. A claim replaces the podref, which
//! makes every ADD skip the address; then the absence is proven once more; only then the
//! reservation is deleted, with the uid and the resourceVersion that the claim gave it.

mod lean;

use std::{collections::BTreeMap, net::IpAddr};

use json_patch::{
    AddOperation, Patch, PatchOperation, RemoveOperation, ReplaceOperation, jsonptr::PointerBuf,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    address::reservation_address, patch::test, podref::PodRef, pool::RowContent, text::Text,
};

pub use self::lean::LeanReservation;
pub(crate) use self::lean::Typed;

/// Podref of a claimed reservation. No pod can have it: a namespace has no dots.
pub const CLAIMED_PODREF: &str = "ipgc.dev/releasing";
/// Annotation that keeps the podref which a claim replaced.
pub const CLAIM_ANNOTATION: &str = "ipgc.dev/claimed-from";

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
    /// `spec.podref`.
    pub podref: String,
    /// `spec.ifname`, where there is one.
    pub interface: Option<String>,
    /// The podref before a claim.
    pub claimed_from: Option<String>,
    has_annotations: bool,
}

/// A reservation whose texts are `T`.
#[derive(Deserialize)]
struct Raw<T> {
    metadata: Metadata<T>,
    spec: Option<Spec<T>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<T> {
    namespace: Option<T>,
    name: T,
    uid: T,
    resource_version: T,
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct Spec<T> {
    podref: Option<T>,
    ifname: Option<T>,
}

/// What a reservation says before anything of it is copied.
#[derive(Clone, Copy, Debug)]
pub struct ReservationGlance<'a> {
    /// `metadata.name`, which holds the address.
    pub name: &'a str,
    /// `metadata.uid`.
    pub uid: &'a str,
    /// See [`Reservation::owner`].
    pub owner: &'a str,
    /// See [`Reservation::is_claimed`].
    pub is_claimed: bool,
}

impl<T: AsRef<str>> Raw<T> {
    fn claimed_from(&self) -> Option<&str> {
        let annotations = self.metadata.annotations.as_ref();
        annotations?.get(CLAIM_ANNOTATION).map(String::as_str)
    }

    fn glance(&self) -> Option<ReservationGlance<'_>> {
        let podref = self.spec.as_ref()?.podref.as_ref()?.as_ref();
        let claimed = self.claimed_from().filter(|_| podref == CLAIMED_PODREF);
        Some(ReservationGlance {
            name: self.metadata.name.as_ref(),
            uid: self.metadata.uid.as_ref(),
            owner: claimed.unwrap_or(podref),
            is_claimed: claimed.is_some(),
        })
    }
}

impl Reservation {
    /// Reads a reservation; `None` where it has no name, uid, resourceVersion or podref. Such a
    /// one is nobody's that we know.
    #[must_use]
    pub fn read(object: &Value) -> Option<Self> {
        Self::of(Raw::<String>::deserialize(object).ok()?)
    }

    /// The same, of its text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::parse_if(text, |_| true)
    }

    /// The same, if it is `wanted`: most of a list are not, and nothing of those is copied.
    #[must_use]
    pub fn parse_if(
        text: &str,
        wanted: impl FnOnce(ReservationGlance<'_>) -> bool,
    ) -> Option<Self> {
        let raw = serde_json::from_str::<Raw<Text<'_>>>(text).ok()?;
        wanted(raw.glance()?).then(|| Self::of(raw))?
    }

    fn of<T: Into<String>>(Raw { metadata, spec }: Raw<T>) -> Option<Self> {
        let spec = spec?;
        let interface = spec.ifname.map(Into::into);
        Some(Self {
            podref: spec.podref?.into(),
            interface: interface.filter(|name: &String| !name.is_empty()),
            namespace: metadata.namespace.map(Into::into).unwrap_or_default(),
            name: metadata.name.into(),
            uid: metadata.uid.into(),
            resource_version: metadata.resource_version.into(),
            claimed_from: metadata
                .annotations
                .as_ref()
                .and_then(|annotations| annotations.get(CLAIM_ANNOTATION).cloned()),
            has_annotations: metadata.annotations.is_some(),
        })
    }

    /// Whether we claimed it before (and did not finish).
    #[must_use]
    pub fn is_claimed(&self) -> bool {
        self.podref == CLAIMED_PODREF && self.claimed_from.is_some()
    }

    /// The pod it belongs to, a claim of ours seen through.
    #[must_use]
    pub fn owner(&self) -> &str {
        match &self.claimed_from {
            Some(owner) if self.podref == CLAIMED_PODREF => owner,
            _ => &self.podref,
        }
    }

    /// Whether it reserves `address` in `network`.
    #[must_use]
    pub fn is_for(&self, address: IpAddr, network: Option<&str>) -> bool {
        reservation_address(&self.name, network) == Some(address)
    }

    /// Whether it is the reservation of this row: same address in the same network, same pod, same
    /// interface. An interface that either of them does not name (before whereabouts 0.8) is not
    /// held against it.
    #[must_use]
    pub fn belongs_to(&self, row: &RowContent, network: Option<&str>) -> bool {
        let same_interface = match (&self.interface, &row.interface) {
            (Some(ours), Some(theirs)) => **ours == **theirs,
            _ => true,
        };
        self.is_for(row.address, network) && self.owner() == row.podref.as_str() && same_interface
    }

    /// The row that it would belong to, at `address`. Its sandbox is nobody's.
    #[must_use]
    pub fn as_row(&self, address: IpAddr) -> Option<RowContent> {
        Some(RowContent {
            address,
            sandbox: Box::default(),
            podref: self.owner().parse::<PodRef>().ok()?,
            interface: self.interface.as_deref().map(Into::into),
        })
    }

    /// Step 1: replaces the podref, so that no ADD accepts the reservation any more.
    #[must_use]
    pub fn claim(&self) -> Patch {
        // The version as well: a claim that the server does late, after we gave it up and the
        // reservation was claimed anew and given back, must not hit the pod that lives again.
        let mut operations = vec![
            test(&["metadata", "uid"], json!(self.uid)),
            test(
                &["metadata", "resourceVersion"],
                json!(self.resource_version),
            ),
            test(&["spec", "podref"], json!(self.podref)),
        ];
        if !self.has_annotations {
            operations.push(PatchOperation::Add(AddOperation {
                path: PointerBuf::from_tokens(["metadata", "annotations"]),
                value: json!({}),
            }));
        }
        operations.push(PatchOperation::Add(AddOperation {
            path: PointerBuf::from_tokens(["metadata", "annotations", CLAIM_ANNOTATION]),
            // A claim of what is claimed already must not forget whose it was.
            value: json!(self.owner()),
        }));
        operations.push(PatchOperation::Replace(ReplaceOperation {
            path: PointerBuf::from_tokens(["spec", "podref"]),
            value: json!(CLAIMED_PODREF),
        }));
        Patch(operations)
    }

    /// Puts the podref of a claimed reservation back, since its pod lives again or a row has its address.
    #[must_use]
    pub fn restore(&self) -> Patch {
        Patch(vec![
            test(&["metadata", "uid"], json!(self.uid)),
            test(&["spec", "podref"], json!(CLAIMED_PODREF)),
            PatchOperation::Replace(ReplaceOperation {
                path: PointerBuf::from_tokens(["spec", "podref"]),
                value: json!(self.owner()),
            }),
            PatchOperation::Remove(RemoveOperation {
                path: PointerBuf::from_tokens(["metadata", "annotations", CLAIM_ANNOTATION]),
            }),
        ])
    }
}

//! The reservation of a freed row: claim, prove, delete (docs/safety.md).
//!
//! An ADD accepts an existing reservation of its own podref *without writing it*, so preconditions
//! alone guard nothing against a successor of the same name. A claim replaces the podref, which
//! makes every ADD skip the address; then the absence is proven once more; only then the
//! reservation is deleted, with the uid and the resourceVersion that the claim gave it.

use std::{collections::BTreeMap, net::IpAddr};

use json_patch::{
    AddOperation, Patch, PatchOperation, RemoveOperation, ReplaceOperation, jsonptr::PointerBuf,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    address::reservation_address,
    fields::{Fields, Known},
    operation::test,
    podref::PodRef,
    pool::{RowContent, Unreadable},
    text::Text,
};

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
    /// `spec.podref`; empty where there is none, as under the CRD of whereabouts before 0.5, which drops it.
    pub podref: String,
    /// `spec.ifname`, where there is one.
    pub interface: Option<String>,
    /// `spec.containerid`, where there is one: whereabouts before 0.5 wrote it.
    pub sandbox: Option<String>,
    /// A field of `spec` that is not known. It may say whom the reservation belongs to.
    pub extra: Option<Box<str>>,
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

/// The known fields of the spec.
struct OfSpec;

impl Known<4> for OfSpec {
    const NAMES: [&'static str; 4] = ["podref", "ifname", "containerid", "poduid"];
}

type Spec<T> = Fields<T, OfSpec, 4>;

/// The podref, a claim of ours seen through.
fn owner<'a>(podref: &'a str, claimed_from: Option<&'a str>) -> &'a str {
    let claimed = claimed_from.filter(|_| podref == CLAIMED_PODREF);
    claimed.unwrap_or(podref)
}

/// What a reservation says before anything of it is copied.
#[derive(Clone, Copy, Debug)]
pub struct ReservationGlance<'a> {
    /// `metadata.name`, which holds the address.
    pub name: &'a str,
    /// `metadata.uid`.
    pub uid: &'a str,
    /// See [`Reservation::whose`].
    pub whose: &'a str,
    /// See [`Reservation::is_claimed`].
    pub is_claimed: bool,
}

impl<T: AsRef<str>> Raw<T> {
    fn claimed_from(&self) -> Option<&str> {
        let annotations = self.metadata.annotations.as_ref();
        annotations?.get(CLAIM_ANNOTATION).map(String::as_str)
    }

    fn glance(&self) -> Option<ReservationGlance<'_>> {
        let [podref, _, sandbox, _] = &self.spec.as_ref()?.texts;
        let podref = podref.as_ref().map_or("", AsRef::as_ref);
        let claimed_from = self.claimed_from();
        Some(ReservationGlance {
            name: self.metadata.name.as_ref(),
            uid: self.metadata.uid.as_ref(),
            whose: match sandbox {
                Some(sandbox) if podref.is_empty() => sandbox.as_ref(),
                _ => owner(podref, claimed_from),
            },
            is_claimed: podref == CLAIMED_PODREF && claimed_from.is_some(),
        })
    }
}

impl Reservation {
    /// Reads a reservation; `None` where it has no name, uid, resourceVersion or spec, or a known field that is
    /// no text.
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
        let Fields { texts, extra, .. } = spec?;
        let [podref, interface, sandbox, _] = texts.map(|text| {
            text.map(Into::into)
                .filter(|text: &String| !text.is_empty())
        });
        Some(Self {
            sandbox,
            podref: podref.unwrap_or_default(),
            interface,
            extra,
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

    /// The podref, a claim of ours seen through; empty where there is none.
    #[must_use]
    pub fn owner(&self) -> &str {
        owner(&self.podref, self.claimed_from.as_deref())
    }

    /// What says whose it is: its owner; where there is none, the id of its sandbox.
    #[must_use]
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
            return Err(Unreadable::ExtraField(extra.clone()));
        }
        self.owner().parse().map_err(|_| Unreadable::PodRef)
    }

    /// Whether it is of this row's pod; one that names no pod, of this row's sandbox.
    #[must_use]
    pub fn is_of(&self, row: &RowContent) -> bool {
        match &self.sandbox {
            Some(its) if self.podref.is_empty() => **its == *row.sandbox,
            _ => self.owner() == row.podref.as_str(),
        }
    }

    /// Whether it reserves `address` in `network`.
    #[must_use]
    pub fn is_for(&self, address: IpAddr, network: Option<&str>) -> bool {
        reservation_address(&self.name, network) == Some(address)
    }

    /// Whether it is the reservation of this row, which goes with it: same address in the same network, same pod
    /// (or, where it names none, same sandbox), same interface, and no field that may say something else. An
    /// interface that either of them does not name (before whereabouts 0.8) is not held against it.
    #[must_use]
    pub fn belongs_to(&self, row: &RowContent, network: Option<&str>) -> bool {
        let same_interface = match (&self.interface, &row.interface) {
            (Some(ours), Some(theirs)) => **ours == **theirs,
            _ => true,
        };
        let is_known = self.extra.is_none();
        is_known && self.is_for(row.address, network) && self.is_of(row) && same_interface
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

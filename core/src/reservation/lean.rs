//! A reservation of a dump: as little of it as is judged, in as few pieces of memory.

use std::sync::Arc;

use serde::Deserialize;

use super::{CLAIM_ANNOTATION, CLAIMED_PODREF, Metadata, Reservation, Spec};
use crate::{
    pool::Version,
    text::{Interner, Text},
};

/// A reservation, as much of it as decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeanReservation {
    /// `metadata.namespace`.
    pub namespace: Arc<str>,
    /// `metadata.name`, which holds the address.
    pub name: Box<str>,
    /// `metadata.uid`.
    pub uid: Box<str>,
    /// `spec.podref`.
    pub podref: Box<str>,
    /// `spec.ifname`, where there is one.
    pub interface: Option<Arc<str>>,
    /// The podref before a claim of ours.
    pub claimed_from: Option<Box<str>>,
}

impl LeanReservation {
    /// Of a whole one.
    #[must_use]
    pub fn of(reservation: Reservation, texts: &mut Interner) -> Self {
        Self {
            namespace: texts.intern(&reservation.namespace),
            name: reservation.name.into(),
            uid: reservation.uid.into(),
            podref: reservation.podref.into(),
            interface: reservation.interface.map(|name| texts.intern(&name)),
            claimed_from: reservation.claimed_from.map(Into::into),
        }
    }

    /// The pod it belongs to, a claim of ours seen through.
    #[must_use]
    pub fn owner(&self) -> &str {
        match &self.claimed_from {
            Some(owner) if *self.podref == *CLAIMED_PODREF => owner,
            _ => &self.podref,
        }
    }
}

#[derive(Deserialize)]
enum Kind {
    OverlappingRangeIPReservation,
}

/// A reservation with its type. Where that stands first, what is none is given up at once.
#[derive(Deserialize)]
pub(crate) struct Typed<'t> {
    #[serde(rename = "apiVersion")]
    _version: Version,
    #[serde(rename = "kind")]
    _kind: Kind,
    #[serde(borrow)]
    metadata: Metadata<Text<'t>>,
    #[serde(borrow)]
    spec: Option<Spec<Text<'t>>>,
}

impl Typed<'_> {
    /// What is kept of it; `None` where [`Reservation::parse`] makes nothing of it.
    pub(crate) fn lean(self, texts: &mut Interner) -> Option<LeanReservation> {
        let Self { metadata, spec, .. } = self;
        let Spec { podref, ifname } = spec?;
        let boxed = |text: Text<'_>| text.0.into();
        let mut annotations = metadata.annotations.unwrap_or_default();
        let namespace = metadata.namespace.as_ref();
        let interface = ifname.filter(|name| !name.0.is_empty());
        Some(LeanReservation {
            podref: boxed(podref?),
            namespace: texts.intern(namespace.map_or("", |name| &name.0)),
            name: boxed(metadata.name),
            uid: boxed(metadata.uid),
            interface: interface.map(|name| texts.intern(&name.0)),
            claimed_from: annotations.remove(CLAIM_ANNOTATION).map(Into::into),
        })
    }
}

//! A reservation of a dump: as little of it as is judged, in as few pieces of memory.

use std::sync::Arc;

use serde::Deserialize;

use super::{Metadata, Raw, Reservation, Spec, owner};
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
    /// `spec.podref`; empty where there is none.
    pub podref: Box<str>,
    /// `spec.ifname`, where there is one.
    pub interface: Option<Arc<str>>,
    /// `spec.containerid`, where there is one.
    pub sandbox: Option<Box<str>>,
    /// A field of `spec` that is not known.
    pub extra: Option<Box<str>>,
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
            sandbox: reservation.sandbox.map(Into::into),
            extra: reservation.extra,
            claimed_from: reservation.claimed_from.map(Into::into),
        }
    }

    /// The whole of it, to be judged. Fields that were not kept decide nothing.
    #[must_use]
    pub fn whole(&self) -> Reservation {
        let owned = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
        Reservation {
            namespace: (*self.namespace).to_owned(),
            name: (*self.name).to_owned(),
            uid: (*self.uid).to_owned(),
            resource_version: String::new(),
            podref: (*self.podref).to_owned(),
            interface: self.interface.as_deref().map(str::to_owned),
            sandbox: owned(&self.sandbox),
            extra: self.extra.clone(),
            claimed_from: owned(&self.claimed_from),
            has_annotations: self.claimed_from.is_some(),
        }
    }

    /// See [`Reservation::owner`].
    #[must_use]
    pub fn owner(&self) -> &str {
        owner(&self.podref, self.claimed_from.as_deref())
    }

    /// Whether it is of this pod; one that names no pod, of this sandbox.
    #[must_use]
    pub fn is_of(&self, podref: &str, sandbox: &str) -> bool {
        match &self.sandbox {
            Some(its) if self.podref.is_empty() => **its == *sandbox,
            _ => self.owner() == podref,
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
        let whole = Reservation::of(Raw { metadata, spec })?;
        Some(LeanReservation::of(whole, texts))
    }
}

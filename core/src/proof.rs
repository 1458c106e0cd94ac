//! Presence of pods and ResourceClaims, learned after an observation.
//!
//! The order of the two reads is the whole of hazard A's guard (docs/safety.md): a pod exists before
//! its ADD can write a row, so a pod that is absent *after* the row was observed is not the one
//! that is being born. The types keep that order: a [`Ticket`] can only be had from an
//! [`ObservedPool`], whoever asks the API server takes the ticket first, and only
//! [`Ticket::conclude`] makes a [`Proof`].

use std::{
    collections::{HashMap, HashSet},
    net::IpAddr,
    sync::Arc,
};

use crate::{
    pod::PodState,
    podref::PodRef,
    pool::{ObservedPool, RowContent},
};

/// The answer of a quorum read about a pod.
#[derive(Clone, Debug)]
#[must_use]
pub enum Presence {
    /// NotFound, or not in a complete LIST.
    Absent,
    /// It is there; with its state, unless only its metadata was read.
    Present(Option<Arc<PodState>>),
    /// The read failed. An error is never absence.
    Unknown(Box<str>),
}

/// The right to begin a proof: the pool was observed before.
#[derive(Debug)]
pub struct Ticket<'a> {
    observed: &'a ObservedPool,
}

/// The ResourceClaims of one complete LIST.
#[derive(Clone, Debug, Default)]
pub struct ResourceClaims {
    uids: HashSet<Box<str>>,
    addresses: HashSet<IpAddr>,
}

/// The ResourceClaims, or why they are not known.
pub type KnownResourceClaims = Result<ResourceClaims, Box<str>>;

impl ResourceClaims {
    /// One of them, and the addresses that its status reports.
    pub fn add(&mut self, uid: &str, addresses: impl IntoIterator<Item = IpAddr>) {
        self.uids.insert(uid.into());
        self.addresses.extend(addresses);
    }

    fn may_use(&self, uid: &str, address: IpAddr) -> bool {
        self.uids.contains(uid) || self.addresses.contains(&address)
    }
}

/// The presence of the owner of a row, whose pod is `pod`. A row of a ResourceClaim has an owner as long as the claim is
/// there, or another claim reports the address, or a pod of the row's name is there.
pub fn of_owner(row: &RowContent, claims: &KnownResourceClaims, pod: Presence) -> Presence {
    match (row.resource_claim(), claims) {
        (Some(_), Err(reason)) => Presence::Unknown(reason.clone()),
        (Some(uid), Ok(claims)) if claims.may_use(uid, row.address) => Presence::Present(None),
        (None, _) | (Some(_), Ok(_)) => pod,
    }
}

/// The podref that DRANET 1.4 writes for all ResourceClaims.
pub const OF_RESOURCE_CLAIMS: &str = "default/pod-whereabouts";

/// The presence of the owner of a reservation of `address` without a row, whose pod is `pod`. One of ResourceClaims has an
/// owner as long as one of them reports the address.
pub fn of_lone_reservation(
    podref: &PodRef,
    address: IpAddr,
    claims: &KnownResourceClaims,
    pod: Presence,
) -> Presence {
    match claims {
        _ if podref.as_str() != OF_RESOURCE_CLAIMS || matches!(pod, Presence::Present(_)) => pod,
        Err(reason) => Presence::Unknown(reason.clone()),
        Ok(claims) if claims.addresses.contains(&address) => Presence::Present(None),
        Ok(_) => pod,
    }
}

impl ObservedPool {
    /// Begins a proof about the pods of this observation's rows.
    pub fn begin_proof(&self) -> Ticket<'_> {
        Ticket { observed: self }
    }
}

impl<'a> Ticket<'a> {
    /// Ends the proof with what was read since [`ObservedPool::begin_proof`].
    pub fn conclude(self, presence: HashMap<PodRef, Presence>) -> Proof<'a> {
        Proof {
            observed: self.observed,
            presence,
            resource_claims: Err("nobody asked for ResourceClaims".into()),
        }
    }
}

/// An observation, and the presence of its rows' pods learned after it.
#[derive(Debug)]
#[must_use]
pub struct Proof<'a> {
    observed: &'a ObservedPool,
    presence: HashMap<PodRef, Presence>,
    resource_claims: KnownResourceClaims,
}

impl<'a> Proof<'a> {
    /// The same with the ResourceClaims, listed since the proof began.
    pub fn with_resource_claims(mut self, known: KnownResourceClaims) -> Self {
        self.resource_claims = known;
        self
    }

    /// The observation that came first.
    pub fn observed(&self) -> &'a ObservedPool {
        self.observed
    }

    /// The presence of a pod; [`Presence::Unknown`] where it was not asked for.
    pub fn presence(&self, podref: &PodRef) -> Presence {
        self.presence
            .get(podref)
            .cloned()
            .unwrap_or_else(|| Presence::Unknown("nobody asked".into()))
    }

    /// The presence of the owner of a row: see [`of_owner`].
    pub fn owner(&self, row: &RowContent) -> Presence {
        of_owner(row, &self.resource_claims, self.presence(&row.podref))
    }
}

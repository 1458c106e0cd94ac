//! Presence of pods, learned after an observation.
//!
//! The order of the two reads is the whole of hazard A's guard (docs/safety.md): a pod exists before
//! its ADD can write a row, so a pod that is absent *after* the row was observed is not the one
//! that is being born. The types keep that order: a [`Ticket`] can only be had from an
//! [`ObservedPool`], whoever asks the API server takes the ticket first, and only
//! [`Ticket::conclude`] makes a [`Proof`].

use std::{collections::HashMap, sync::Arc};

use crate::{pod::PodState, podref::PodRef, pool::ObservedPool};

/// The answer of a quorum read about a pod.
#[derive(Clone, Debug)]
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

impl ObservedPool {
    /// Begins a proof about the pods of this observation's rows.
    #[must_use]
    pub fn begin_proof(&self) -> Ticket<'_> {
        Ticket { observed: self }
    }
}

impl<'a> Ticket<'a> {
    /// Ends the proof with what was read since [`ObservedPool::begin_proof`].
    #[must_use]
    pub fn conclude(self, presence: HashMap<PodRef, Presence>) -> Proof<'a> {
        Proof {
            observed: self.observed,
            presence,
        }
    }
}

/// An observation, and the presence of its rows' pods learned after it.
#[derive(Debug)]
pub struct Proof<'a> {
    observed: &'a ObservedPool,
    presence: HashMap<PodRef, Presence>,
}

impl<'a> Proof<'a> {
    /// The observation that came first.
    #[must_use]
    pub fn observed(&self) -> &'a ObservedPool {
        self.observed
    }

    /// The presence of a pod; [`Presence::Unknown`] where it was not asked for.
    #[must_use]
    pub fn presence(&self, podref: &PodRef) -> Presence {
        self.presence
            .get(podref)
            .cloned()
            .unwrap_or_else(|| Presence::Unknown("nobody asked".into()))
    }
}

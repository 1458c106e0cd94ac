//! What all writers share.

use std::sync::{Arc, Mutex};

use ipgc_core::evidence::Policy;

use super::{gate::Gate, pool_api::PoolApi, prover::Prover, reservations::Reservations};
use crate::{
    clock::Clock,
    report::{Counters, Events},
    watch::{Freshness, PodIndex},
};

/// What a turn works with.
pub struct Context {
    /// Reads and writes the pool.
    pub pools: PoolApi,
    /// Proves absence.
    pub prover: Prover,
    /// Removes reservations.
    pub reservations: Reservations,
    /// Evidence.
    pub index: Arc<Mutex<PodIndex>>,
    /// Whether the index hears of pods at present.
    pub freshness: Arc<Freshness>,
    /// Waits and exemptions.
    pub policy: Policy,
    /// The present.
    pub clock: Clock,
    /// Whether we may write.
    pub gate: Arc<Gate>,
    /// Tells others.
    pub events: Events,
    /// Counts.
    pub counters: Arc<Counters>,
}

//! What all writers share.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

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
    /// Rows that were reported as kept, by pool uid and key: each is news once.
    pub kept: Mutex<HashSet<(String, Box<str>)>>,
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

/// Most rows whose report is remembered; a cluster with more of them hears of some twice.
const REMEMBERED: usize = 10_000;

impl Context {
    /// Whether it is news that this row is kept.
    pub fn is_news(&self, pool_uid: &str, key: &str) -> bool {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= REMEMBERED {
            kept.clear();
        }
        kept.insert((pool_uid.to_owned(), key.into()))
    }
}

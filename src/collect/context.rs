//! What all writers share.

use std::{
    collections::{BTreeSet, HashSet},
    sync::{Arc, Mutex},
};

use ipgc_core::{
    address::excerpt,
    evidence::Policy,
    judge::Unknown,
    pool::{ObservedPool, Row},
};
use tracing::warn;

use super::{
    gate::Gate,
    knowledge::{Knowledge, lock},
    nodes::NodeWaits,
    pool_api::PoolApi,
    prover::Prover,
    reservations::Reservations,
};
use crate::{
    clock::Clock,
    report::{Counters, Events},
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
    pub knowledge: Arc<Knowledge>,
    /// Told when the Leases of nodes are of interest.
    pub waits: Arc<NodeWaits>,
    /// Rows that were reported as kept, by pool uid and key: each is news once.
    pub kept: Mutex<HashSet<(String, Box<str>)>>,
    /// Waits and exemptions.
    pub policy: Policy,
    /// The present.
    pub clock: Clock,
    /// Every decision is taken, nothing is written.
    pub dry_run: bool,
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
        let mut kept = lock(&self.kept);
        if kept.len() >= REMEMBERED {
            kept.clear();
        }
        kept.insert((pool_uid.to_owned(), key.into()))
    }

    /// Says that a row is kept, if that is news.
    pub fn report_unknown(&self, pool: &ObservedPool, row: &Row, reason: &Unknown) {
        if self.is_news(pool.uid(), row.key()) {
            self.counters.rows_unknown.increment();
            let key = excerpt(row.key());
            let podref = row.podref_text().map(excerpt);
            warn!(pool = %pool.key(), key, podref, %reason, "row kept");
        }
    }

    /// The networks that the name of the pool tells: what precedes the range in it, and, where that
    /// is one node's slice, what precedes the node.
    #[must_use]
    pub fn networks_of(&self, observed: &ObservedPool) -> BTreeSet<Option<Box<str>>> {
        let Some(network) = observed.network() else {
            return BTreeSet::new();
        };
        let slice = lock(&self.knowledge.slices).get(observed.key()).cloned();
        let within = match (network, slice) {
            (Some(network), Some(node)) if *network == *node => Some(None),
            (Some(network), Some(node)) => network
                .strip_suffix(&*node)
                .and_then(|rest| rest.strip_suffix('-'))
                .map(Some),
            _ => None,
        };
        [Some(network), within]
            .into_iter()
            .flatten()
            .map(|network| network.map(Into::into))
            .collect()
    }
}

//! What a sweep found, in numbers.

use std::{collections::BTreeMap, time::Duration};

use ipgc_core::{
    clearance::Wait,
    judge::{Stale, Verdict},
    pool::PoolKey,
    time::Moment,
};
use tracing::{info, warn};

/// What a sweep found. Every row of every pool is counted under its verdict.
#[derive(Clone, Debug, Default)]
pub struct SweepReport {
    /// Pools that were read.
    pub pools: usize,
    /// Pools that are none that can be read.
    pub pools_unreadable: usize,
    /// Rows in all.
    pub rows: usize,
    /// Rows whose pod may answer.
    pub held: usize,
    /// Rows that may go, now or later.
    pub stale: usize,
    /// Rows about which nothing can be said.
    pub unknown: usize,
    /// Stale rows by grade and cause.
    pub stale_by: BTreeMap<(&'static str, &'static str), usize>,
    /// Rows that wait for something to happen on a node, by node.
    pub held_by_node: BTreeMap<Box<str>, usize>,
    /// Stale rows whose pod's end nobody watched.
    pub suspect: usize,
    /// Where those are: pool, its uid, how many.
    pub suspect_pools: Vec<(PoolKey, String, usize)>,
    /// Rows and reservations of which it is remembered when they were first seen.
    pub remembered: usize,
    /// Reservations in all.
    pub reservations: usize,
    /// Reservations without a row whose pod does not need them, as far as the watch tells.
    pub orphans: usize,
    /// Reservations that say nothing of whose they are, or where.
    pub reservations_unreadable: usize,
    /// CPU time of parsing pools and judging rows: what a sweep costs beside transport.
    pub judging: Duration,
}

impl SweepReport {
    pub(super) fn count(&mut self, verdict: &Verdict) {
        match verdict {
            Verdict::Held(_) => self.held += 1,
            Verdict::Unknown(_) => self.unknown += 1,
            Verdict::Stale(stale) => self.count_stale(stale),
        }
    }

    fn count_stale(&mut self, stale: &Stale) {
        self.stale += 1;
        let key = (stale.grade().as_str(), stale.cause.as_str());
        *self.stale_by.entry(key).or_default() += 1;
        if let Wait::For(nodes) | Wait::AtMost(nodes, _) = &stale.clearance.wait {
            for node in nodes {
                *self.held_by_node.entry(node.clone()).or_default() += 1;
            }
        }
    }

    pub(super) fn log(&self, begun: Moment, ended: Moment) {
        let took = ended.since(begun);
        if self.pools == 0 {
            info!("sweep found no pools: is whereabouts installed, and --pool-namespace right?");
        } else {
            info!(
                pools = self.pools,
                rows = self.rows,
                held = self.held,
                stale = self.stale,
                unknown = self.unknown,
                orphans = self.orphans,
                ?took,
                judging = ?self.judging,
                "sweep ended"
            );
        }
        for (node, rows) in &self.held_by_node {
            warn!(
                rows,
                node = &**node,
                "rows are held by a node that is silent. If it runs no sandboxes: kubectl annotate node {node} {}=$(date -u +%FT%TZ)",
                ipgc_core::node::NO_SANDBOXES_ANNOTATION
            );
        }
    }
}

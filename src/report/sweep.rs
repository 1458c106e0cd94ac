//! The numbers of a sweep.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc, time::Duration};

use ipgc_core::{
    judge::{Stale, Verdict, Word},
    pool::PoolKey,
    time::Moment,
};
use jiff::Timestamp;
use tracing::{info, warn};

/// The numbers of a sweep. Every row of every pool is counted under its verdict.
#[derive(Clone, Debug, Default)]
pub struct SweepReport {
    /// When the last sweep ended that saw everything, by the wall clock; `None` before the first.
    pub ended_at: Option<Timestamp>,
    /// Pools that were read.
    pub pools: usize,
    /// Pools that are none that can be read.
    pub pools_unreadable: usize,
    /// Pools that were read, but for their range: nobody knows the addresses of their rows.
    pub pools_without_range: usize,
    /// Rows in all.
    pub rows: usize,
    /// Rows by the words of their verdicts, in the order of [`Word::ALL`].
    pub words: [usize; Word::ALL.len()],
    /// Rows that wait for something to happen on a node, by node.
    held_by: HeldBy,
    /// Rows whose DELs, if they are lost, are more than a kubelet at work gets through.
    pub endless: usize,
    /// Stale rows whose pod's end nobody watched.
    pub suspect: usize,
    /// Where those are: pool, its uid, how many.
    pub suspect_pools: Vec<(PoolKey, String, usize)>,
    /// Reservations without a row whose pod does not need them, as far as the watch tells; `None` where reservations
    /// could not be listed.
    pub orphans: Option<usize>,
    /// Reservations that say nothing of whose they are, or where.
    pub reservations_unreadable: usize,
    /// Each pool that was read.
    pub by_pool: Vec<PoolTally>,
    /// Addresses that more than one live pod uses in one network.
    pub duplicates: usize,
    /// Addresses that a live pod uses and has no row of; `None` where not all pools could be read.
    pub unallocated: Option<usize>,
    /// Whether the breaker is open, after this sweep.
    pub breaker_open: bool,
}

/// The numbers of one pool.
#[derive(Clone, Debug)]
pub struct PoolTally {
    /// The pool.
    pub key: PoolKey,
    /// How many addresses it can give out, as far as definitions tell; `None` where its range cannot be read.
    pub size: Option<u128>,
    /// Its rows of such addresses: only they take room.
    pub taken: usize,
    /// Its rows by the words of their verdicts, in the same order.
    pub words: [usize; Word::ALL.len()],
    /// For how long the oldest of those that are stale was known to be so.
    pub oldest_stale: Duration,
}

impl PoolTally {
    /// A row that is known to be stale for `known`, if it is.
    pub fn count(&mut self, verdict: &Verdict, known: Duration) {
        self.words[verdict.word() as usize] += 1;
        if verdict.word() == Word::Stale {
            self.oldest_stale = self.oldest_stale.max(known);
        }
    }
}

/// In an outage there are a thousand of them, in each sweep.
pub const NODES_SHOWN: usize = 20;

impl SweepReport {
    /// Pools that may have a row of any address.
    pub fn blind(&self) -> usize {
        self.pools_unreadable + self.pools_without_range
    }

    /// The nodes that hold rows, with how many, most first.
    pub fn held_by(&self) -> Vec<(Box<str>, usize)> {
        let mut held_by = self.held_by.clone();
        held_by.count(&Arc::from([]));
        let mut held_by: Vec<_> = held_by.by_node.into_iter().collect();
        held_by.sort_by_key(|(_, rows)| Reverse(*rows));
        held_by
    }

    /// A stale row.
    pub fn count_stale(&mut self, stale: &Stale) {
        if stale.clearance.endless.is_some() {
            self.endless += 1;
        } else if !stale.clearance.wait.is_timed() {
            self.held_by.count(&stale.clearance.wait.nodes);
        }
    }

    /// Logs it; `before` is what the sweep before it found.
    pub fn log(&self, before: &Self, begun: Moment, ended: Moment) {
        let words = |word| self.words[word as usize];
        let took = ended.since(begun);
        if self.pools == 0 {
            info!("sweep found no pools: is whereabouts installed, and --pool-namespace right?");
        } else {
            info!(
                pools = self.pools,
                rows = self.rows,
                live = words(Word::Live),
                unreported = words(Word::Unreported),
                stale = words(Word::Stale),
                unfenced = words(Word::Unfenced),
                unknown = words(Word::Unknown),
                orphans = self.orphans,
                ?took,
                "sweep ended"
            );
        }
        // Pods that start or end are among them for a moment.
        let unreported = words(Word::Unreported).min(before.words[Word::Unreported as usize]);
        if unreported > 0 {
            warn!(
                rows = unreported,
                "rows are held though no pod reports them: ipgc audit tells the reason of each, and what frees it"
            );
        }
        if self.endless > 0 {
            warn!(
                rows = self.endless,
                "rows are held, since a kubelet at work may not have stopped their sandboxes in time: they go by their \
                 own DEL, or with their node. If nobody answers on them: ipgc release --force ADDRESS"
            );
        }
        let held_by = self.held_by();
        for (node, rows) in held_by.iter().take(NODES_SHOWN) {
            warn!(
                rows,
                node = &**node,
                "rows are held by a node that is silent. If it runs no sandboxes: kubectl annotate node {node} --overwrite {}=$(date -u +%FT%TZ)",
                ipgc_core::node::NO_SANDBOXES_ANNOTATION
            );
        }
        if held_by.len() > NODES_SHOWN {
            let more = held_by.len() - NODES_SHOWN;
            warn!(more, "rows are held by more nodes that are silent");
        }
    }
}

/// How many rows each node holds.
#[derive(Clone, Debug, Default)]
struct HeldBy {
    /// In an outage one row after the other is held by the same thousand nodes.
    last: Arc<[Box<str>]>,
    rows_of_last: usize,
    by_node: BTreeMap<Box<str>, usize>,
}

impl HeldBy {
    /// A row that these hold. Those of the last rows are added when others come.
    fn count(&mut self, nodes: &Arc<[Box<str>]>) {
        if !Arc::ptr_eq(nodes, &self.last) {
            let rows = std::mem::take(&mut self.rows_of_last);
            for node in &*std::mem::replace(&mut self.last, Arc::clone(nodes)) {
                *self.by_node.entry(node.clone()).or_default() += rows;
            }
        }
        self.rows_of_last += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_for_each_node_that_holds_them() {
        let [both, a] = [&["a", "b"][..], &["a"]]
            .map(|names| names.iter().copied().map(Box::from).collect::<Arc<_>>());
        let mut held_by = HeldBy::default();
        for nodes in [&both, &both, &a, &both, &Arc::default()] {
            held_by.count(nodes);
        }
        let counted = held_by.by_node.into_iter();
        assert_eq!(
            counted.collect::<Vec<_>>(),
            [("a".into(), 4), ("b".into(), 3)]
        );
    }
}

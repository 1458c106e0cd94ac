//! What the planner is told by others: the informers, the sweep, the keeper of nodes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ipgc_core::{
    evidence::Ended,
    podref::PodRef,
    pool::{PoolKey, RowContent},
    time::Moment,
};

/// One piece of news.
#[derive(Debug)]
pub enum Input {
    /// A pod ended.
    Ended(Arc<Ended>),
    /// A sweep found this, by owner.
    Found(BTreeMap<PodRef, Found>),
    /// A sweep that saw everything has come to its end.
    SweepEnded {
        /// When it began.
        begun: Moment,
        /// When the one before it began.
        before: Moment,
    },
    /// This copy leads from now on.
    TookOver,
    /// Something happened on these nodes.
    NodesChanged(BTreeSet<Box<str>>),
}

/// What a sweep found of an owner.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The pools with rows that may go, and the names of reservations of the owner that have no
    /// row in their network.
    pub pools: BTreeMap<PoolKey, BTreeSet<String>>,
    /// All rows of the owner, where its pod lives and a row of it may be left of another sandbox.
    pub siblings: Option<Arc<[RowContent]>>,
}

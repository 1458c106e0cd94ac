//! Decisions of a person: which rows and reservations are to go.
//!
//! A person picks, and may say that no sandbox answers. Whether a pod is there who needs an address is never
//! theirs to say: that is proven, after the row was observed, and rows are removed by the same patches as ever.
//! Nothing here asks anybody or prints.

pub mod force;
pub mod release;
pub mod report;

use std::{collections::BTreeSet, sync::Arc};

use ipgc_core::{
    podref::PodRef,
    pool::{ObservedPool, PoolKey, Row},
};
use kube::Client;
use tokio_util::task::TaskTracker;

pub use crate::collect::picked::{Fate, Pick, Picked, Subject};
use crate::{
    calls::CallError,
    clock::Clock,
    collect::{
        gate::Gate,
        pool_api::{ObserveError, PoolApi},
        prover::Prover,
        reservation_api::ReservationApi,
    },
    leader::Leadership,
};

/// Why something was not removed.
#[derive(Debug, thiserror::Error)]
pub enum NotDone {
    /// The row or reservation is gone, or another stands in its place.
    #[error("it is gone, or has changed")]
    Gone,
    /// A reason speaks against it, or it is not known whether one does.
    #[error("{0}")]
    Kept(String),
    /// The pool could not be read.
    #[error(transparent)]
    Observe(#[from] ObserveError),
    /// The request was not done, as far as is known.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// Writes what a person decided without a run of the collector, one after the other.
pub struct Writer {
    pools: PoolApi,
    prover: Prover,
    reservations: ReservationApi,
}

impl Writer {
    /// Works through `client`.
    pub fn new(client: &Client) -> Self {
        let clock = Clock::start();
        let gate = Arc::new(Gate::new(clock, Leadership::always(clock)));
        Self {
            pools: PoolApi::new(client.clone(), clock, Arc::default(), 1),
            prover: Prover::new(client.clone(), gate, TaskTracker::new(), Arc::default()),
            reservations: ReservationApi::new(client.clone(), Arc::default()),
        }
    }

    /// The pool, if it is still that one, with the rows of these pods.
    async fn observe(
        &self,
        pool: &PoolKey,
        uid: &str,
        podrefs: &BTreeSet<PodRef>,
    ) -> Result<Option<ObservedPool>, ObserveError> {
        let observed = self.pools.observe(pool, podrefs).await?;
        Ok(observed.filter(|observed| observed.uid() == uid))
    }
}

/// The row, if it is as it was.
fn row_of<'a>(pool: &'a ObservedPool, key: &str, stored: &serde_json::Value) -> Option<&'a Row> {
    let mut rows = pool.rows().iter();
    rows.find(|row| row.key() == key && row.stored() == stored)
}

//! The unit of work: one incarnation that ended, and how far its rows have come.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ipgc_core::{
    evidence::Ended,
    judge::{Release, Stale},
    pool::{PoolKey, Row, RowContent},
};

use super::resolve::Route;

/// One incarnation on its way through the queue. It outlives failed tries, and so does its
/// progress.
#[derive(Debug)]
pub struct Item {
    ended: Arc<Ended>,
    progress: Mutex<Progress>,
}

/// What earlier tries did.
#[derive(Debug, Default)]
pub struct Progress {
    /// Rows whose removal was asked for and whose reservations are not done.
    pub removed: Vec<Removed>,
    /// Whether it was said already that some networks lead nowhere.
    pub unresolved_reported: bool,
}

/// A row whose removal was asked for. Made from a [`Release`] and from nothing else.
#[derive(Clone, Debug)]
pub struct Removed {
    /// The pool that it was in.
    pub pool: PoolKey,
    /// The row as it was observed.
    pub row: Row,
    /// What it said.
    pub content: RowContent,
    /// Why it had to go.
    pub stale: Stale,
    /// How its pool was found.
    pub routes: Arc<[Route]>,
    /// Whether it is known to be gone: the patch was answered with 200, or a later observation
    /// does not show the row.
    pub confirmed: bool,
}

impl Removed {
    /// The removal that is about to be asked for.
    #[must_use]
    pub fn attempt(pool: &PoolKey, release: &Release<'_>, routes: &Arc<[Route]>) -> Self {
        Self {
            pool: pool.clone(),
            row: release.row().clone(),
            content: release.content().clone(),
            stale: release.stale(),
            routes: Arc::clone(routes),
            confirmed: false,
        }
    }
}

impl Item {
    /// An incarnation that nothing was done for yet.
    #[must_use]
    pub fn new(ended: Arc<Ended>) -> Arc<Self> {
        Arc::new(Self {
            ended,
            progress: Mutex::default(),
        })
    }

    /// The incarnation.
    #[must_use]
    pub fn ended(&self) -> &Arc<Ended> {
        &self.ended
    }

    /// What was done so far.
    pub fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

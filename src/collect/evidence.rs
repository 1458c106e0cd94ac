//! The evidence in the hands of several tasks: one lock guards all of it.

use std::sync::{Arc, Mutex, MutexGuard};

use ipgc_core::known::Evidence;

use crate::lock;

/// The evidence in the hands of several tasks.
#[derive(Clone)]
pub struct SharedEvidence(Arc<Mutex<Evidence>>);

impl SharedEvidence {
    /// Shares this evidence.
    pub fn new(evidence: Evidence) -> Self {
        Self(Arc::new(Mutex::new(evidence)))
    }

    /// The evidence, for a moment and never across a wait.
    pub fn lock(&self) -> MutexGuard<'_, Evidence> {
        lock::lock(&self.0)
    }
}

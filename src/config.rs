//! What a run of the collector can be told.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use ipgc_core::{breaker::Limits, evidence::Policy};

use crate::collect::picked::Picked;

/// Settings of a [`Collector`](crate::run::Collector).
#[derive(Clone)]
pub struct Config {
    /// Look for pools in this namespace only; everywhere if there is none.
    pub pool_namespace: Option<String>,
    /// Waits and exemptions.
    pub policy: Policy,
    /// How many workers look for pools at a time.
    pub workers: usize,
    /// How often an incarnation is tried again after a failure.
    pub max_retries: u32,
    /// Wait after the first failure; it doubles with each.
    pub retry_from: Duration,
    /// Longest wait after a failure.
    pub retry_to: Duration,
    /// Most incarnations in work at a time; the rest is left to the sweep.
    pub queue_capacity: usize,
    /// Time between sweeps.
    pub sweep_interval: Duration,
    /// When the breaker opens.
    pub breaker: Limits,
    /// Every decision is taken, nothing is written.
    pub dry_run: bool,
    /// Name of this process in the events it sends.
    pub instance: String,
    /// Where the Lease of leader election is; without it this is the only copy.
    pub lease_namespace: Option<String>,
    /// What a person picked: nothing else is touched.
    pub picked: Option<Arc<Picked>>,
    /// Nodes of which a person says that they run no sandboxes.
    pub said_dead: BTreeSet<Box<str>>,
}

impl Config {
    /// Where the Lease is by which it is decided whether this copy writes; `None` where nothing is. A dry
    /// run writes nothing, whoever leads.
    #[must_use]
    pub fn election(&self) -> Option<&str> {
        let namespace = self.lease_namespace.as_deref();
        namespace.filter(|_| !self.dry_run)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            pool_namespace: None,
            policy: Policy::default(),
            workers: 16,
            max_retries: 5,
            sweep_interval: Duration::from_mins(5),
            breaker: Limits::default(),
            dry_run: false,
            retry_from: Duration::from_millis(200),
            retry_to: Duration::from_secs(30),
            // More pods than the largest cluster that Kubernetes supports can lose at once.
            queue_capacity: 200_000,
            instance: "ipgc".to_owned(),
            lease_namespace: None,
            picked: None,
            said_dead: BTreeSet::new(),
        }
    }
}

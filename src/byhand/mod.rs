//! Decisions of a person: which rows and reservations are to go.
//!
//! The person names the address and states that no sandbox answers on it. This statement replaces the wait and the
//! breaker, not the proof: ipgc observes the row, and then proves that its pod is absent, or that the pod runs and does
//! not report the address. The patch is that of a collector.
//! Nothing here asks anybody or prints.

pub mod force;
pub mod free;

use std::{sync::Arc, time::Duration};

use ipgc_core::evidence::Policy;
use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::{
    calls::{CallError, patient},
    collect::context::Context,
    config::Config,
    snapshot::live::{LiveError, Scan},
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
    /// The cluster could not be read.
    #[error(transparent)]
    Read(#[from] LiveError),
    /// The request was not done, as far as is known.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// Writes what a person decided, without a run of the collector.
pub struct Writer {
    scan: Scan,
    context: Arc<Context>,
}

impl Writer {
    /// Works through `client`, by this policy, on the pools of this namespace or of all.
    pub fn new(client: &Client, policy: Policy, pool_namespace: Option<String>) -> Self {
        let config = Config {
            pool_namespace: pool_namespace.clone(),
            policy,
            // There is no sweep, after which a claim that was refused would be tried again.
            sweep_interval: Duration::ZERO,
            workers: 1,
            // Theirs are judged too, and the API server is asked for them.
            resource_claims: true,
            ..Config::default()
        };
        let context = Context::new(patient(client.clone()), config);
        Self {
            scan: Scan {
                pool_namespace,
                only_objects: true,
                ..Scan::default()
            },
            context: Arc::new(context),
        }
    }

    /// Ends the work early: a collector finishes what was begun.
    pub fn stop(&self) -> &CancellationToken {
        &self.context.stop
    }
}

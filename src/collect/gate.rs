//! The gate in front of every write: shut while we are told that we may not write.

use std::{sync::Mutex, time::Duration};

use ipgc_core::time::Moment;
use tokio::sync::watch;
use tracing::{error, info};

use crate::{clock::Clock, lock::lock};

/// How long the gate stays shut after a refusal. Rights are mended by people, slowly.
const SHUT: Duration = Duration::from_secs(30);

/// Open, or shut until a moment.
#[derive(Debug)]
pub struct Gate {
    clock: Clock,
    shut_until: Mutex<Option<Moment>>,
    open: watch::Sender<bool>,
}

impl Gate {
    /// An open gate.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            shut_until: Mutex::default(),
            open: watch::Sender::new(true),
        }
    }

    /// Whether writing is allowed as far as we know. False from a refusal to the next success.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<bool> {
        self.open.subscribe()
    }

    /// How long to wait before the next write; zero when the gate is open, or due for a try.
    #[must_use]
    pub fn wait(&self) -> Duration {
        let shut_until = *lock(&self.shut_until);
        shut_until.map_or(Duration::ZERO, |moment| self.clock.until(moment))
    }

    /// The server said that we may not write.
    pub fn refused(&self, what: &str, reason: &impl std::fmt::Display) {
        *lock(&self.shut_until) = Some(self.clock.now() + SHUT);
        if self.open.send_replace(false) {
            error!(%reason, "not allowed to {what}; nothing is written until that is mended");
        }
    }

    /// A write went through.
    pub fn passed(&self) {
        // Thousands of writes that pass wake nobody.
        let was_shut = self
            .open
            .send_if_modified(|open| !std::mem::replace(open, true));
        if was_shut {
            *lock(&self.shut_until) = None;
            info!("writing is allowed again");
        }
    }
}

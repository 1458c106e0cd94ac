//! The gate in front of every write: shut while we are told that we may not write, and while another
//! copy leads.

use std::time::Duration;

use ipgc_core::time::Moment;
use tokio::{sync::watch, time::timeout};
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use crate::{clock::Clock, leader::Leadership};

/// How long the gate stays shut after a refusal. Rights are mended by people, slowly.
const SHUT: Duration = Duration::from_secs(30);
/// After so long, what waits for leadership is looked at again: another copy has done it by then, or
/// nobody leads.
const STAND_BY: Duration = Duration::from_mins(1);

/// Open, or shut until a moment.
#[derive(Debug)]
pub struct Gate {
    clock: Clock,
    leadership: Leadership,
    shut: watch::Sender<Option<Shut>>,
}

/// Until when, and what was refused.
#[derive(Clone, Copy, Debug)]
pub struct Shut {
    until: Moment,
    by: Access,
}

/// The request that was refused. A read does not tell whether writing is allowed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Something was to be read.
    Read,
    /// Something was to be changed.
    Write,
}

impl Gate {
    /// A gate that is open as long as this copy leads.
    pub fn new(clock: Clock, leadership: Leadership) -> Self {
        Self {
            clock,
            leadership,
            shut: watch::Sender::default(),
        }
    }

    /// Shut from a refusal to the next success.
    pub fn subscribe(&self) -> watch::Receiver<Option<Shut>> {
        self.shut.subscribe()
    }

    /// Whether this copy is the one that writes.
    pub fn leads(&self) -> bool {
        self.leadership.is_held()
    }

    /// Waits while another copy leads, and for a minute at the most; false if there was nothing to wait
    /// for. What was read before the wait is old after it.
    pub async fn stood_by(&self, stop: &CancellationToken) -> bool {
        if self.leads() {
            return false;
        }
        let held = timeout(STAND_BY, self.leadership.held());
        stop.run_until_cancelled(held).await;
        true
    }

    /// How long to wait before the next write; zero when the gate is open, or due for a try.
    pub fn wait(&self) -> Duration {
        let shut = *self.shut.borrow();
        shut.map_or(Duration::ZERO, |shut| self.clock.until(shut.until))
    }

    /// Whether a write may be sent.
    pub fn is_open(&self) -> bool {
        self.leads() && self.wait().is_zero()
    }

    /// The server said that we may not do this.
    pub fn refused(&self, by: Access, what: &str, reason: &impl std::fmt::Display) {
        let until = self.clock.now() + SHUT;
        let mut was_open = false;
        self.shut.send_modify(|shut| {
            was_open = shut.is_none();
            // A refused write is not allowed again because something can be read.
            let by = shut
                .filter(|shut| shut.by == Access::Write)
                .map_or(by, |shut| shut.by);
            *shut = Some(Shut { until, by });
        });
        if was_open {
            error!(%reason, "not allowed to {what}; nothing is written until that is mended");
        }
    }

    /// A write went through.
    pub fn passed(&self) {
        // Thousands of writes that pass wake nobody.
        if self.shut.send_if_modified(|shut| shut.take().is_some()) {
            info!("writing is allowed again");
        }
    }

    /// All pools could be read. Where nothing was refused for a while after a read had been, it counts no
    /// more.
    pub fn read(&self) {
        let now = self.clock.now();
        let shut = *self.shut.borrow();
        let is_over =
            shut.is_some_and(|shut| shut.by == Access::Read && now.since(shut.until) >= SHUT);
        if is_over {
            self.passed();
        }
    }
}

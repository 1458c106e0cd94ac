//! A sign of life: when a loop last got on.
//!
//! What makes it is the loop itself, at each of its steps, so that one that hangs makes none. An API server that does
//! not answer keeps no loop from getting on: each request ends at its deadline.

use std::{
    future::Future,
    pin::pin,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use ipgc_core::time::Moment;
use tokio::time::timeout;

use crate::clock::Clock;

/// A task that waits makes one so often.
const BEAT: Duration = Duration::from_secs(30);

/// When a loop last got on.
#[derive(Debug)]
pub struct Pulse {
    clock: Clock,
    /// In milliseconds since the clock's epoch.
    last: AtomicU64,
}

impl Pulse {
    /// One that beat just now.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        let pulse = Self {
            clock,
            last: AtomicU64::new(0),
        };
        pulse.beat();
        pulse
    }

    /// The loop got on.
    pub fn beat(&self) {
        let now = self.clock.now().since(Moment::EPOCH).as_millis();
        let now = u64::try_from(now).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Relaxed);
    }

    /// For how long it has not.
    #[must_use]
    pub fn silence(&self) -> Duration {
        let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
        self.clock.now().since(Moment::EPOCH + last)
    }

    /// Waits for something that may take long in the order of things, and beats meanwhile. Never around work.
    pub async fn through<T>(&self, wait: impl Future<Output = T>) -> T {
        let mut wait = pin!(wait);
        loop {
            self.beat();
            if let Ok(over) = timeout(BEAT, &mut wait).await {
                self.beat();
                return over;
            }
        }
    }
}

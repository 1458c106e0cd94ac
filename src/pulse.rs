//! How far a run has come, and a sign of life: when its loop last got on.
//!
//! The loop itself makes it, at each of its steps, so a loop that hangs makes none. An API server that does
//! not answer keeps no loop from getting on: each request ends at its deadline.

use std::{future::Future, pin::pin, time::Duration};

use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

/// A task that waits makes one so often.
const BEAT: Duration = Duration::from_secs(30);

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The run was not started.
    New,
    /// The caches are not complete; nothing is freed.
    Starting,
    /// All caches are complete and the planner runs.
    Ready,
    /// The run has ended.
    Done,
}

/// When a loop last got on.
#[derive(Debug)]
pub struct Pulse(watch::Sender<Instant>);

impl Default for Pulse {
    fn default() -> Self {
        Self(watch::Sender::new(Instant::now()))
    }
}

impl Pulse {
    /// The loop got on.
    pub fn beat(&self) {
        self.0.send_replace(Instant::now());
    }

    /// For how long it has not.
    pub fn silence(&self) -> Duration {
        self.0.borrow().elapsed()
    }

    /// Waits for something that may take long in the order of things, and beats meanwhile. Never around work
    /// but requests, which end at their deadlines.
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

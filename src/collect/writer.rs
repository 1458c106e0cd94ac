//! One writer per pool.
//!
//! Jobs for a pool gather in its inbox while its writer is busy; each turn takes all of them, so
//! that a mass delete costs one patch per pool and not one per pod (a patch on a large pool costs
//! the server the same whatever it removes). The first job is served at once; after each turn the
//! writer pauses, the longer the longer the turn took, and lives as long as there are jobs.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use ipgc_core::pool::PoolKey;
use tokio::time::{Instant, sleep};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{context::Context, job::Job, turn};
use crate::lock::lock;

/// Least pause after a turn: what ends within it is served together.
const PAUSE: Duration = Duration::from_millis(200);
/// Longest pause: what the last of a mass of deleted pods waits for at the most.
const LONGEST_PAUSE: Duration = Duration::from_secs(4);
/// Pause for each second that a turn took, so that a pool keeps the server busy for a quarter of
/// the time at the most.
const PAUSE_FOR_TURN: u32 = 3;

/// The writers of all pools.
#[derive(Clone)]
pub struct Writers {
    context: Arc<Context>,
    inboxes: Inboxes,
    tasks: TaskTracker,
    stop: CancellationToken,
}

type Inboxes = Arc<Mutex<HashMap<PoolKey, Vec<Job>>>>;

impl Writers {
    /// No writer yet. Their tasks run in `tasks` and begin nothing new after `stop`.
    #[must_use]
    pub fn new(context: Arc<Context>, tasks: TaskTracker, stop: CancellationToken) -> Self {
        Self {
            context,
            inboxes: Arc::default(),
            tasks,
            stop,
        }
    }

    /// Hands a job to the writer of its pool.
    pub fn submit(&self, key: PoolKey, job: Job) {
        let mut inboxes = lock(&self.inboxes);
        if let Some(inbox) = inboxes.get_mut(&key) {
            inbox.push(job);
            return;
        }
        inboxes.insert(key.clone(), vec![job]);
        let mut writer = Writer {
            key,
            inboxes: Arc::clone(&self.inboxes),
            retired: false,
        };
        let (context, stop) = (Arc::clone(&self.context), self.stop.clone());
        self.tasks.spawn(async move {
            while let Some(jobs) = writer.next_jobs() {
                if stop.is_cancelled() {
                    break;
                }
                let begun = Instant::now();
                turn::work(&context, &stop, &writer.key, jobs).await;
                let pause = begun.elapsed().saturating_mul(PAUSE_FOR_TURN);
                let pause = sleep(pause.clamp(PAUSE, LONGEST_PAUSE));
                stop.run_until_cancelled(pause).await;
            }
        });
    }
}

/// The one writer of a pool, as long as it lives.
struct Writer {
    key: PoolKey,
    inboxes: Inboxes,
    /// The inbox under this key is no longer ours.
    retired: bool,
}

impl Writer {
    /// All jobs that have gathered; `None`, and the inbox is gone, when there are none.
    fn next_jobs(&mut self) -> Option<Vec<Job>> {
        let mut inboxes = lock(&self.inboxes);
        let jobs = std::mem::take(inboxes.get_mut(&self.key)?);
        if jobs.is_empty() {
            inboxes.remove(&self.key);
            self.retired = true;
            return None;
        }
        Some(jobs)
    }
}

impl Drop for Writer {
    /// However the writer ends, jobs never wait in an inbox that nobody empties: dropped, they are
    /// tried again.
    fn drop(&mut self) {
        if !self.retired {
            lock(&self.inboxes).remove(&self.key);
        }
    }
}

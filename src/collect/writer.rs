//! One writer per pool.
//!
//! Jobs for a pool gather while its writer is busy; each turn takes all of them, so that a mass delete
//! costs a few patches per pool and not one per pod (a patch on a large pool costs the server the same
//! whatever it removes). The first job is served at once. After a turn the writer pauses, the longer
//! the longer the pool's own requests took, and then for as long as more jobs come in; it lives as
//! long as there are jobs.
//!
//! Reservations are not waited for: while those of one turn are released, the next turn removes rows.

use std::{sync::Arc, time::Duration};

use ipgc_core::pool::PoolKey;
use tokio::{
    sync::oneshot,
    time::{Instant, sleep},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    batches::{Batches, Inbox},
    context::Context,
    job::Job,
    turn,
};

/// Least pause after a turn: what ends within it is served together.
const PAUSE: Duration = Duration::from_millis(200);
/// Longest pause, on a server that takes many seconds for a patch.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Pause for each second that the requests on the pool took, so that they keep the server busy for a
/// quarter of the time at the most.
const PAUSE_FOR_WORK: u32 = 3;
/// No job for so long: those that came together are here.
const QUIET: Duration = Duration::from_millis(200);
/// Jobs that come in all the time are served so often.
const LONGEST_GATHERING: Duration = Duration::from_secs(4);

/// The writers of all pools.
pub struct Writers {
    context: Arc<Context>,
    jobs: Batches<PoolKey, Job>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Writers {
    /// No writer yet. Their tasks run in `tasks` and begin nothing new after `stop`.
    #[must_use]
    pub fn new(context: Arc<Context>, tasks: TaskTracker, stop: CancellationToken) -> Self {
        Self {
            context,
            jobs: Batches::new(tasks.clone()),
            tasks,
            stop,
        }
    }

    /// Hands a job to the writer of its pool.
    pub fn submit(&self, key: PoolKey, job: Job) {
        let (context, stop) = (Arc::clone(&self.context), self.stop.clone());
        let tasks = self.tasks.clone();
        self.jobs.submit(key, job, |inbox| async move {
            serve(inbox, &context, &stop, &tasks).await;
        });
    }
}

async fn serve(
    mut inbox: Inbox<PoolKey, Job>,
    context: &Arc<Context>,
    stop: &CancellationToken,
    tasks: &TaskTracker,
) {
    while let Some(jobs) = inbox.take() {
        if stop.is_cancelled() {
            return;
        }
        let (rows_done, done) = oneshot::channel();
        let (context, key) = (Arc::clone(context), inbox.key().clone());
        let stopping = stop.clone();
        tasks.spawn(async move {
            turn::work(&context, &stopping, &key, jobs, rows_done).await;
        });
        // A turn that ended without a word took nothing that we know of.
        let took = done.await.unwrap_or_default();
        stop.run_until_cancelled(gather(&inbox, took)).await;
    }
}

/// Pauses after work that took so long, and until all that come together have come. Who comes alone
/// does not wait for company.
async fn gather(inbox: &Inbox<PoolKey, Job>, took: Duration) {
    let begun = Instant::now();
    let pause = took.saturating_mul(PAUSE_FOR_WORK);
    sleep(pause.clamp(PAUSE, LONGEST_PAUSE)).await;
    loop {
        let gathered = inbox.len();
        if gathered <= 1 || begun.elapsed() >= LONGEST_GATHERING {
            return;
        }
        sleep(QUIET).await;
        if inbox.len() == gathered {
            return;
        }
    }
}

//! One writer per pool.
//!
//! Jobs for a pool gather while its writer is busy; each turn takes all of them, so that a mass delete
//! costs a few patches per pool and not one per pod (a patch on a large pool costs the server the same
//! whatever it removes). The first job is served at once, with all that are due together with it. After
//! a turn the writer pauses, in proportion to what the requests on the pool took, and then gathers for as
//! long as more items of the queue are about to be due; it lives as long as there are jobs.
//!
//! Writers that gather at the same time end that at the same beat, so that their proofs are one list.
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
    item::ItemQueue,
    job::Job,
    release::Releaser,
    turn,
};

/// Least pause after a turn: what ends within it is served together.
const PAUSE: Duration = Duration::from_millis(200);
/// Longest pause, on a server that takes many seconds for a patch.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Pause for each second that the requests on the pool took, so that they keep the server busy for a
/// quarter of the time at the most.
const PAUSE_FOR_WORK: u32 = 3;
/// Items that are due so soon are waited for.
const SOON: Duration = Duration::from_millis(500);
/// The first turn waits no longer than that for those who come with it.
const LONGEST_WAIT: Duration = Duration::from_millis(500);
/// Items that are due so soon come together with the first.
const AT_ONCE: Duration = Duration::from_millis(10);
/// How often it is looked at whether more are coming.
const LOOK: Duration = Duration::from_millis(100);
/// So many jobs are enough: a patch of them costs hardly more than one of a single row, and more would
/// only wait longer.
const MANY: usize = 250;
/// Gathering ends with each of these beats at the latest. A turn of each pool is three requests: with ten
/// pools and pods that go for minutes, shorter beats would cost more than five requests for a hundred rows.
const BEAT: Duration = Duration::from_secs(20);

/// The writers of all pools.
pub struct Writers {
    context: Arc<Context>,
    /// Removes reservations.
    releaser: Arc<Releaser>,
    /// Tells whether more jobs are coming.
    queue: Arc<ItemQueue>,
    begun: Instant,
    jobs: Batches<PoolKey, Job>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Writers {
    /// No writer yet. Their tasks run in `tasks` and begin nothing new after `stop`.
    #[must_use]
    pub fn new(
        context: Arc<Context>,
        releaser: Arc<Releaser>,
        queue: Arc<ItemQueue>,
        tasks: TaskTracker,
        stop: CancellationToken,
    ) -> Self {
        Self {
            context,
            releaser,
            queue,
            begun: Instant::now(),
            jobs: Batches::new(tasks.clone()),
            tasks,
            stop,
        }
    }

    /// Hands a job to the writer of its pool.
    pub fn submit(self: &Arc<Self>, key: PoolKey, job: Job) {
        let writers = Arc::clone(self);
        self.jobs
            .submit(key, job, |inbox| async move { writers.serve(inbox).await });
    }

    async fn serve(&self, mut inbox: Inbox<PoolKey, Job>) {
        let gathered = self.gather_at_once(&inbox);
        self.stop.run_until_cancelled(gathered).await;
        while let Some(jobs) = inbox.take() {
            if self.stop.is_cancelled() {
                return;
            }
            let (rows_done, done) = oneshot::channel();
            let (context, key) = (Arc::clone(&self.context), inbox.key().clone());
            let releaser = Arc::clone(&self.releaser);
            let stop = self.stop.clone();
            self.tasks.spawn(async move {
                turn::work(&context, &releaser, &stop, &key, jobs, rows_done).await;
            });
            // A turn that ended without a word took nothing that we know of.
            let took = done.await.unwrap_or_default();
            let gathered = self.gather(&inbox, took);
            self.stop.run_until_cancelled(gathered).await;
        }
    }

    /// Who comes alone is served at once. Of thousands that a sweep found the first would be, and the
    /// others wait for its turn and for the pause after it.
    async fn gather_at_once(&self, inbox: &Inbox<PoolKey, Job>) {
        let begun = Instant::now();
        while inbox.len() < MANY
            && begun.elapsed() < LONGEST_WAIT
            && self.queue.next_due().is_some_and(|wait| wait <= AT_ONCE)
        {
            sleep(AT_ONCE).await;
        }
    }

    /// Pauses after work that took so long, and until all that come together have come.
    async fn gather(&self, inbox: &Inbox<PoolKey, Job>, took: Duration) {
        let pause = took.saturating_mul(PAUSE_FOR_WORK);
        sleep(pause.clamp(PAUSE, LONGEST_PAUSE)).await;
        let beat = self.beat();
        while (1..MANY).contains(&inbox.len())
            && self.beat() == beat
            && self.queue.next_due().is_some_and(|wait| wait <= SOON)
        {
            sleep(LOOK).await;
        }
    }

    /// The number of the present beat.
    fn beat(&self) -> u128 {
        self.begun.elapsed().as_millis() / BEAT.as_millis()
    }
}

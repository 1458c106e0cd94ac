//! Group commit: jobs for one key gather while earlier ones of that key are at work, and are served
//! together.
//!
//! For each key there is one task at the most, which lives as long as it has jobs. Knows nothing of
//! what the jobs are.

use std::{collections::HashMap, future::Future, hash::Hash, sync::Arc};

use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use crate::lock::{Shared, lock};

/// The inboxes of all keys.
pub struct Batches<K, J> {
    inboxes: Inboxes<K, J>,
    tasks: TaskTracker,
}

type Inboxes<K, J> = Shared<HashMap<K, mpsc::UnboundedSender<J>>>;

impl<K: Clone + Eq + Hash, J> Batches<K, J> {
    /// No jobs yet. The task that serves them runs in `tasks`.
    pub fn new(tasks: TaskTracker) -> Self {
        Self {
            inboxes: Arc::default(),
            tasks,
        }
    }

    /// Adds a job. If nobody serves its key, somebody does from now on.
    pub fn submit<F>(&self, key: K, job: J, serve: impl FnOnce(Inbox<K, J>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut inboxes = lock(&self.inboxes);
        let served = inboxes.get(&key).filter(|inbox| !inbox.is_closed());
        if let Some(inbox) = served {
            // A task that ends early drops its jobs, and whoever waits for them hears of it.
            let _ = inbox.send(job);
            return;
        }
        let (inbox, jobs) = mpsc::unbounded_channel();
        let _ = inbox.send(job);
        inboxes.insert(key.clone(), inbox);
        let inboxes = Arc::clone(&self.inboxes);
        self.tasks.spawn(serve(Inbox { key, jobs, inboxes }));
    }
}

/// The jobs of one key, in the hands of the one who serves them.
pub struct Inbox<K, J> {
    key: K,
    jobs: mpsc::UnboundedReceiver<J>,
    inboxes: Inboxes<K, J>,
}

impl<K: Eq + Hash, J> Inbox<K, J> {
    /// Whose jobs these are.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// All jobs that have gathered; `None`, and the inbox is gone, when there are none.
    pub fn take(&mut self) -> Option<Vec<J>> {
        // No job is added while this is locked.
        let inboxes = Arc::clone(&self.inboxes);
        let mut inboxes = lock(&inboxes);
        let jobs = self.take_more();
        if jobs.is_empty() {
            inboxes.remove(&self.key);
            return None;
        }
        Some(jobs)
    }

    /// Whatever has gathered since, if anything.
    pub fn take_more(&mut self) -> Vec<J> {
        std::iter::from_fn(|| self.jobs.try_recv().ok()).collect()
    }
}

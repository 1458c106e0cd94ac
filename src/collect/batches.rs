//! Group commit: jobs for one key gather while earlier ones of that key are at work, and are served
//! together.
//!
//! For each key there is one task at the most, which lives as long as it has jobs. Knows nothing of
//! what the jobs are.

use std::{
    collections::HashMap,
    future::Future,
    hash::Hash,
    sync::{Arc, Mutex},
};

use tokio_util::task::TaskTracker;

use crate::lock::lock;

/// The inboxes of all keys.
pub struct Batches<K, J> {
    inboxes: Inboxes<K, J>,
    tasks: TaskTracker,
}

type Inboxes<K, J> = Arc<Mutex<HashMap<K, Vec<J>>>>;

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
        if let Some(inbox) = inboxes.get_mut(&key) {
            inbox.push(job);
            return;
        }
        inboxes.insert(key.clone(), vec![job]);
        // A runtime that ends drops what is spawned at once, and then the inbox is locked again.
        drop(inboxes);
        let inbox = Inbox {
            key,
            inboxes: Arc::clone(&self.inboxes),
            retired: false,
        };
        self.tasks.spawn(serve(inbox));
    }
}

/// The jobs of one key, in the hands of the one who serves them.
pub struct Inbox<K: Eq + Hash, J> {
    key: K,
    inboxes: Inboxes<K, J>,
    /// The inbox under this key is no longer ours.
    retired: bool,
}

impl<K: Eq + Hash, J> Inbox<K, J> {
    /// Whose jobs these are.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// All jobs that have gathered; `None`, and the inbox is gone, when there are none.
    pub fn take(&mut self) -> Option<Vec<J>> {
        let mut inboxes = lock(&self.inboxes);
        let jobs = std::mem::take(inboxes.get_mut(&self.key)?);
        if jobs.is_empty() {
            inboxes.remove(&self.key);
            self.retired = true;
            return None;
        }
        Some(jobs)
    }

    /// Whatever has gathered since, if anything.
    pub fn take_more(&self) -> Vec<J> {
        let mut inboxes = lock(&self.inboxes);
        let jobs = inboxes.get_mut(&self.key).map(std::mem::take);
        jobs.unwrap_or_default()
    }
}

impl<K: Eq + Hash, J> Drop for Inbox<K, J> {
    /// However its task ends, jobs never wait in an inbox that nobody empties: dropped, whoever waits
    /// for them hears of it.
    fn drop(&mut self) {
        if !self.retired {
            lock(&self.inboxes).remove(&self.key);
        }
    }
}

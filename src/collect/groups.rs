//! Jobs of one namespace gather while earlier jobs of that namespace run, and then run together.
//!
//! Each namespace has at most one task. The task ends when it has no jobs.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex},
};

use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

use crate::lock::lock;

/// A job, and where its answer is awaited.
type Job<J, A> = (J, oneshot::Sender<A>);

type Inboxes<J, A> = HashMap<String, mpsc::UnboundedSender<Job<J, A>>>;

/// The inboxes of all namespaces.
pub struct Groups<J, A>(Arc<Mutex<Inboxes<J, A>>>);

impl<J, A> Default for Groups<J, A> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<J, A> Groups<J, A> {
    /// Adds a job, and waits for its answer. `None`: the task ended early. Starts a task in `tasks` if the namespace has
    /// none.
    pub async fn ask<F>(
        &self,
        tasks: &TaskTracker,
        namespace: &str,
        job: J,
        serve: impl FnOnce(Inbox<J, A>) -> F,
    ) -> Option<A>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        {
            let mut inboxes = lock(&self.0);
            let served = inboxes.get(namespace).filter(|inbox| !inbox.is_closed());
            if let Some(inbox) = served {
                let _ = inbox.send((job, answer));
            } else {
                let (inbox, jobs) = mpsc::unbounded_channel();
                let _ = inbox.send((job, answer));
                inboxes.insert(namespace.to_owned(), inbox);
                let (namespace, all) = (namespace.to_owned(), Self(Arc::clone(&self.0)));
                tasks.spawn(serve(Inbox {
                    namespace,
                    jobs,
                    all,
                }));
            }
        }
        answered.await.ok()
    }
}

/// The jobs of one namespace, for its task.
pub struct Inbox<J, A> {
    /// Whose jobs these are.
    pub namespace: String,
    jobs: mpsc::UnboundedReceiver<Job<J, A>>,
    all: Groups<J, A>,
}

impl<J, A> Inbox<J, A> {
    /// All jobs that have gathered; `None`, and the inbox is gone, when there are none.
    pub fn take(&mut self) -> Option<Vec<Job<J, A>>> {
        // No job is added while this is locked.
        let inboxes = Arc::clone(&self.all.0);
        let mut inboxes = lock(&inboxes);
        let jobs = self.take_more();
        if jobs.is_empty() {
            inboxes.remove(&self.namespace);
            return None;
        }
        Some(jobs)
    }

    /// Whatever has gathered since, if anything.
    pub fn take_more(&mut self) -> Vec<Job<J, A>> {
        std::iter::from_fn(|| self.jobs.try_recv().ok()).collect()
    }
}

//! The roll of a namespace: which of some pods exist, by the names of all pods in it.
//!
//! A whole namespace is a few pages of names. A question that comes while a list is read is answered by the next
//! one, all by the same: each list begins after all who are answered by it have asked, which is what
//! makes it a proof (docs/safety.md).

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use ipgc_core::proof::Presence;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, api::ListParams};
use tokio::{sync::oneshot, time::Instant};
use tokio_util::task::TaskTracker;

use super::{
    batches::{Batches, Inbox},
    names::{Table, table_of},
};
use crate::{calls::CallError, history::History};

/// Fewest and most pods to a page.
const SMALLEST_PAGE: usize = 500;
const LARGEST_PAGE: usize = 10_000;
/// Pods on a page for each pod that is asked about: reading one costs the server about as much as
/// a few dozen in a list.
const PAGE_FOR_POD: usize = 50;

/// Reads the rolls of namespaces.
#[derive(Clone)]
pub struct Rolls {
    client: Client,
    history: Arc<History>,
    questions: Arc<Batches<String, Question>>,
}

/// The pods of a namespace that exist, of those that were asked about.
pub struct Roll {
    /// When it was begun.
    pub begun: Instant,
    present: HashSet<String>,
    /// Whether there is no further page.
    is_whole: bool,
}

struct Question {
    wanted: Vec<String>,
    answer: oneshot::Sender<Answer>,
}

type Answer = Result<Arc<Roll>, Arc<CallError>>;

impl Rolls {
    /// Reads through `client`, in `tasks`.
    pub fn new(client: Client, tasks: TaskTracker, history: Arc<History>) -> Self {
        Self {
            client,
            history,
            questions: Arc::new(Batches::new(tasks)),
        }
    }

    /// A roll of a namespace that begins from now on and tells of these pods; `None` if whoever reads it ended early.
    ///
    /// # Errors
    /// When a page cannot be read: nothing is known then.
    pub async fn ask(&self, namespace: &str, wanted: Vec<String>) -> Option<Answer> {
        let (answer, answered) = oneshot::channel();
        let question = Question { wanted, answer };
        let (client, history) = (self.client.clone(), Arc::clone(&self.history));
        self.questions
            .submit(namespace.to_owned(), question, |inbox| async move {
                serve(inbox, &client, &history).await;
            });
        answered.await.ok()
    }
}

async fn serve(mut inbox: Inbox<String, Question>, client: &Client, history: &History) {
    while let Some(questions) = inbox.take() {
        let names = questions.iter().flat_map(|question| &question.wanted);
        let wanted: BTreeSet<_> = names.map(String::as_str).collect();
        let roll = read(client, history, inbox.key(), &wanted).await;
        let roll = roll.map(Arc::new).map_err(Arc::new);
        for question in questions {
            // The turn that asked may be gone.
            let _ = question.answer.send(roll.clone());
        }
    }
}

impl Roll {
    /// Whether this pod exists; `None` where reading it alone takes fewer requests than the rest of the roll.
    pub fn presence(&self, name: &str) -> Option<Presence> {
        if self.present.contains(name) {
            return Some(Presence::Present(None));
        }
        self.is_whole.then_some(Presence::Absent)
    }
}

/// The names of these pods that exist, as long as a list takes fewer requests than to read each pod
/// that was not found yet.
async fn read(
    client: &Client,
    history: &History,
    namespace: &str,
    wanted: &BTreeSet<&str>,
) -> Result<Roll, CallError> {
    let size = (PAGE_FOR_POD * wanted.len()).clamp(SMALLEST_PAGE, LARGEST_PAGE);
    let limit = u32::try_from(size).unwrap_or(u32::MAX);
    let first = ListParams::default().limit(limit);
    let begun = Instant::now();
    let mut present = HashSet::new();
    let find = |page: Table, left| {
        for name in page.names()? {
            let name = name?;
            if wanted.contains(name) {
                present.insert(name.to_owned());
            }
        }
        Ok(left <= wanted.len() - present.len())
    };
    let is_whole = history
        .pages::<Pod, _>(client, Some(namespace), first, table_of, find)
        .await?;
    Ok(Roll {
        begun,
        present,
        is_whole,
    })
}

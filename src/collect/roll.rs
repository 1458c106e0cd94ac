//! The roll of a namespace: which of some pods exist, by the names of all pods in it.
//!
//! A whole namespace is a few pages of names. A question that comes while a list is read is answered by the next
//! one, all by the same: each list begins after all who are answered by it have asked, which is what
//! makes it a proof (docs/safety.md).

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use ipgc_core::podref::PodRef;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, api::ListParams};
use tokio::{sync::oneshot, time::Instant};
use tokio_util::task::TaskTracker;

use super::{
    batches::{Batches, Inbox},
    names::page_of_names,
};
use crate::{
    calls::{CallError, next_page, pages_left},
    history::History,
};

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

/// The answer of a roll about the pods that were asked about.
#[derive(Debug, Default)]
pub struct Roll {
    /// Those that exist.
    pub present: Vec<PodRef>,
    /// Those that do not.
    pub absent: Vec<PodRef>,
    /// Those that it says nothing about: reading them one by one takes fewer requests than the rest
    /// of the roll.
    pub unread: Vec<PodRef>,
}

struct Question {
    wanted: Vec<PodRef>,
    answer: oneshot::Sender<Result<(Instant, Roll), Arc<CallError>>>,
}

impl Rolls {
    /// Reads through `client`, in `tasks`.
    pub fn new(client: Client, tasks: TaskTracker, history: Arc<History>) -> Self {
        Self {
            client,
            history,
            questions: Arc::new(Batches::new(tasks)),
        }
    }

    /// Which of these pods of a namespace exist, by a list that begins from now on, and when it began;
    /// `None` if whoever reads it ended early.
    ///
    /// # Errors
    /// When a page cannot be read: nothing is known then.
    pub async fn ask(
        &self,
        namespace: &str,
        wanted: Vec<PodRef>,
    ) -> Option<Result<(Instant, Roll), Arc<CallError>>> {
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
        let wanted: BTreeSet<&str> = questions
            .iter()
            .flat_map(|question| question.wanted.iter().map(PodRef::name))
            .collect();
        let begun = Instant::now();
        let names = read(client, history, inbox.key(), &wanted).await;
        let names = names.map_err(Arc::new);
        for question in questions {
            let roll = match &names {
                Ok(names) => Ok((begun, names.answer(question.wanted))),
                Err(error) => Err(Arc::clone(error)),
            };
            // The turn that asked may be gone.
            let _ = question.answer.send(roll);
        }
    }
}

/// The content of the pages that were read.
struct Names {
    present: HashSet<String>,
    /// Whether there is no further page.
    is_whole: bool,
}

impl Names {
    fn answer(&self, wanted: Vec<PodRef>) -> Roll {
        let mut roll = Roll::default();
        for podref in wanted {
            let list = if self.present.contains(podref.name()) {
                &mut roll.present
            } else if self.is_whole {
                &mut roll.absent
            } else {
                &mut roll.unread
            };
            list.push(podref);
        }
        roll
    }
}

/// The names of these pods that exist, as long as a list takes fewer requests than to read each pod
/// that was not found yet.
async fn read(
    client: &Client,
    history: &History,
    namespace: &str,
    wanted: &BTreeSet<&str>,
) -> Result<Names, CallError> {
    let size = (PAGE_FOR_POD * wanted.len()).clamp(SMALLEST_PAGE, LARGEST_PAGE);
    let limit = u32::try_from(size).unwrap_or(u32::MAX);
    let mut params = ListParams::default().limit(limit);
    let mut present = HashSet::new();
    loop {
        let asked = history.ask::<Pod>(&params);
        let metadata = page_of_names::<Pod>(client, namespace, &params, |name| {
            if wanted.contains(name) {
                present.insert(name.to_owned());
            }
        });
        let metadata = metadata.await?;
        history.hear(asked.as_ref(), &metadata);
        let Some(next) = next_page(&params, &metadata) else {
            // All pages of one list are one revision: who was in none of them is absent.
            return Ok(Names {
                present,
                is_whole: true,
            });
        };
        if pages_left(&params, &metadata) > wanted.len() - present.len() {
            return Ok(Names {
                present,
                is_whole: false,
            });
        }
        params = next;
    }
}

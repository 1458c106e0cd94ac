//! What a writer is given, and what it answers.

use std::{sync::Arc, time::Duration};

use ipgc_core::time::Moment;
use tokio::sync::oneshot;

use super::{item::Item, resolve::Route};

/// One incarnation's rows in one pool.
#[derive(Debug)]
pub struct Job {
    /// The incarnation.
    pub item: Arc<Item>,
    /// How the pool was found.
    pub routes: Arc<[Route]>,
    /// Who waits for the outcome.
    pub done: oneshot::Sender<Outcome>,
}

/// What became of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing of the incarnation is left that may go.
    Done,
    /// A row may go later.
    NotBefore(Moment),
    /// Something failed.
    Retry {
        /// What, in one sentence.
        reason: String,
        /// Not sooner than this.
        at_least: Duration,
        /// When another row may go, whatever becomes of this one.
        later: Option<Moment>,
    },
    /// We may not write at present, or are shutting down; no failure of the job.
    Postponed(Duration),
}

impl Outcome {
    /// A failure, to be tried again after the backoff.
    #[must_use]
    pub fn retry(reason: String) -> Self {
        Self::Retry {
            reason,
            at_least: Duration::ZERO,
            later: None,
        }
    }

    /// What two outcomes of one item come to: a failure first, then the earlier moment.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (
                Self::Retry {
                    reason,
                    at_least,
                    later,
                },
                Self::Retry {
                    at_least: b,
                    later: also,
                    ..
                },
            ) => Self::Retry {
                reason,
                at_least: at_least.max(b),
                later: earlier(later, also),
            },
            (
                Self::Retry {
                    reason,
                    at_least,
                    later,
                },
                Self::NotBefore(moment),
            )
            | (
                Self::NotBefore(moment),
                Self::Retry {
                    reason,
                    at_least,
                    later,
                },
            ) => Self::Retry {
                reason,
                at_least,
                later: earlier(later, Some(moment)),
            },
            (Self::Postponed(a), Self::Postponed(b)) => Self::Postponed(a.max(b)),
            (Self::NotBefore(a), Self::NotBefore(b)) => Self::NotBefore(a.min(b)),
            (retry @ Self::Retry { .. }, _) | (_, retry @ Self::Retry { .. }) => retry,
            (postponed @ Self::Postponed(_), _) | (_, postponed @ Self::Postponed(_)) => postponed,
            (later @ Self::NotBefore(_), _) | (_, later @ Self::NotBefore(_)) => later,
            (Self::Done, Self::Done) => Self::Done,
        }
    }
}

fn earlier(a: Option<Moment>, b: Option<Moment>) -> Option<Moment> {
    a.into_iter().chain(b).min()
}

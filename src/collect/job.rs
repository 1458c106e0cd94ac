//! What a writer is given, and what it answers.

use std::{
    collections::BTreeSet,
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
    sync::Arc,
    time::Duration,
};

use ipgc_core::{clearance::union, time::Moment};
use tokio::sync::oneshot;

use super::item::{Item, Route};

/// One item's rows in one pool.
#[derive(Debug)]
pub struct Job {
    /// The item.
    pub item: Arc<Item>,
    /// Reservations of its podref that had no row in the network of the pool.
    pub orphans: BTreeSet<String>,
    /// How the pool was found.
    pub routes: Arc<[Route]>,
    /// Who waits for the outcome.
    pub done: oneshot::Sender<Outcome>,
}

/// What became of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing of the item is left that may go.
    Done,
    /// Something may go later.
    Waiting(Waiting),
    /// Something failed.
    Retry {
        /// What, in one sentence.
        reason: String,
        /// Not sooner than this.
        at_least: Duration,
        /// What else may go later, whatever becomes of this one.
        later: Waiting,
    },
    /// We may not write at present, or are shutting down; no failure of the job.
    Postponed(Duration),
}

/// What an item waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// This moment, if there is one.
    pub until: Option<Moment>,
    /// Something to happen on one of these nodes, of each row another one, in the order of their names.
    pub nodes: Arc<[Box<str>]>,
    /// Whether that only brings the moment forward.
    pub goes_anyway: bool,
    /// A read of the Leases that is asked for at this moment or later.
    pub read: Option<Moment>,
}

impl Waiting {
    /// Whether there is nothing to wait for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.until.is_none() && self.nodes.is_empty()
    }

    fn or(mut self, other: Self) -> Self {
        let goes_anyway = |it: &Self| it.goes_anyway || it.nodes.is_empty();
        self.goes_anyway = goes_anyway(&self) && goes_anyway(&other);
        self.until = self.until.into_iter().chain(other.until).min();
        self.read = self.read.into_iter().chain(other.read).min();
        self.nodes = union(self.nodes, other.nodes);
        self
    }
}

impl Outcome {
    /// A failure, to be tried again after the backoff, which is `at_least` so long.
    #[must_use]
    pub fn retry(reason: String, at_least: Duration) -> Self {
        Self::Retry {
            reason,
            at_least,
            later: Waiting::default(),
        }
    }

    /// A row may go at this moment.
    #[must_use]
    pub fn not_before(moment: Moment) -> Self {
        Self::not_before_or_told(moment, Arc::default(), None)
    }

    /// A row may go at this moment, or when one of these nodes is fenced, or when a read of the Leases was taken in that
    /// was asked for at `read` or later.
    #[must_use]
    pub fn not_before_or_told(
        moment: Moment,
        nodes: Arc<[Box<str>]>,
        read: Option<Moment>,
    ) -> Self {
        Self::Waiting(Waiting {
            until: Some(moment),
            nodes,
            goes_anyway: true,
            read,
        })
    }

    /// A row may go when something has happened on all of these nodes, or at this moment.
    ///
    /// As long as one of them stands in the way, it does not matter what happens on the others. So one is watched,
    /// for each `key` another one: in an outage the return of one node of a thousand wakes one row of a thousand. Where
    /// one stands in the way no longer than until a moment, the others are found when the row is looked at anyway.
    #[must_use]
    pub fn for_nodes(nodes: &[Box<str>], key: &str, until: Option<Moment>) -> Self {
        let count = u64::try_from(nodes.len()).unwrap_or(u64::MAX).max(1);
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(key);
        let one = usize::try_from(hash % count).unwrap_or_default();
        Self::Waiting(Waiting {
            until,
            nodes: nodes.get(one).cloned().into_iter().collect(),
            goes_anyway: false,
            read: None,
        })
    }

    /// What two outcomes of one item come to: a failure first, then whatever comes first.
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
                later: later.or(also),
            },
            (
                Self::Retry {
                    reason,
                    at_least,
                    later,
                },
                Self::Waiting(waiting),
            )
            | (
                Self::Waiting(waiting),
                Self::Retry {
                    reason,
                    at_least,
                    later,
                },
            ) => Self::Retry {
                reason,
                at_least,
                later: later.or(waiting),
            },
            (Self::Postponed(a), Self::Postponed(b)) => Self::Postponed(a.max(b)),
            (Self::Waiting(a), Self::Waiting(b)) => Self::Waiting(a.or(b)),
            (retry @ Self::Retry { .. }, _) | (_, retry @ Self::Retry { .. }) => retry,
            (postponed @ Self::Postponed(_), _) | (_, postponed @ Self::Postponed(_)) => postponed,
            (waiting @ Self::Waiting(_), _) | (_, waiting @ Self::Waiting(_)) => waiting,
            (Self::Done, Self::Done) => Self::Done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_anyway_does_so_unless_it_waits_with_something_that_does_not() {
        let node: Arc<[Box<str>]> = ["a".into()].into();
        let at = Outcome::not_before(Moment::EPOCH);
        let sooner = Outcome::not_before_or_told(Moment::EPOCH, Arc::clone(&node), None);
        let held = Outcome::for_nodes(&node, "1", Some(Moment::EPOCH));
        let goes = |outcome: Outcome| match outcome {
            Outcome::Waiting(waiting) => waiting.goes_anyway,
            other => panic!("{other:?}"),
        };
        for (one, other, expected) in [
            (&at, &sooner, true),
            (&sooner, &sooner, true),
            (&at, &held, false),
            (&sooner, &held, false),
        ] {
            assert_eq!(goes(one.clone().and(other.clone())), expected);
            assert_eq!(goes(other.clone().and(one.clone())), expected);
        }
    }

    /// Else the return of each of a thousand nodes would wake all rows that wait for the others.
    #[test]
    fn each_row_watches_one_of_its_nodes_and_all_of_them_are_watched() {
        let nodes = ["a", "b", "c"].map(Box::from);
        let mut watched = [0; 3];
        for key in 0..300 {
            let Outcome::Waiting(waiting) = Outcome::for_nodes(&nodes, &key.to_string(), None)
            else {
                panic!("it waits");
            };
            assert_eq!(waiting.nodes.len(), 1);
            for (watched, node) in watched.iter_mut().zip(&nodes) {
                *watched += usize::from(waiting.nodes[0] == *node);
            }
        }
        assert!(
            watched.iter().all(|rows| (60..140).contains(rows)),
            "{watched:?}"
        );
    }
}

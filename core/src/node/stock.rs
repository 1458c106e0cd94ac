//! What is reckoned of all nodes once, so that it need not be for each row.
//!
//! It says nothing that the nodes do not say themselves. Whatever changes a node drops it.

use std::{
    collections::BTreeMap,
    hash::{Hash, Hasher},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use super::{Blocked, Nodes};
use crate::time::Moment;

/// New stock costs as much as a few rows without any; within this time few nodes fall silent.
const KEEP: Duration = Duration::from_secs(10);

/// Who may block, from one moment on, while nothing is heard of any node.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Stock {
    now: Moment,
    /// Those that block until something happens there, in the order of their names.
    silent: Arc<[Box<str>]>,
    /// Until when each of them is silent still, if it is not known to remain so.
    silent_until: Option<Moment>,
    /// The longest that any of these was at work or gone: each longer wait has all of them.
    silent_longest: Duration,
    /// The other suspects.
    others: Box<[Box<str>]>,
    /// All suspects that exist.
    existing: Arc<[Box<str>]>,
    said: Said,
}

/// What was answered at one moment, by the wait that was asked for: of the rows that are judged together nearly all wait
/// as long, and each would ask all nodes. It is no part of what a stock is.
#[derive(Debug, Default)]
struct Said(Mutex<Answers>);

#[derive(Debug, Default)]
struct Answers {
    at: Moment,
    by_wait: BTreeMap<Duration, Answer>,
}

/// Whether stock tells, and whether anybody blocks.
type Answer = Option<Option<Blocked>>;

impl Said {
    /// The answer for this wait at `now`, for which `ask` is asked once.
    fn once(&self, wait: Duration, now: Moment, ask: impl FnOnce() -> Answer) -> Answer {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.at != now {
            answers.at = now;
            answers.by_wait.clear();
        }
        answers.by_wait.entry(wait).or_insert_with(ask).clone()
    }
}

impl PartialEq for Said {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Said {}

impl Hash for Said {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl Stock {
    pub(super) fn of(nodes: &Nodes, now: Moment) -> Self {
        let mut silent: Vec<Box<str>> = Vec::new();
        let mut others = Vec::new();
        let mut silent_longest = Duration::ZERO;
        let mut silent_until: Option<Moment> = None;
        for (name, node) in &nodes.by_name {
            let Some(suspect) = &node.suspect else {
                continue;
            };
            if matches!(node.blocks(Duration::MAX, now), Some(None)) {
                silent_longest = silent_longest.max(node.longest(suspect, now));
                silent_until = [silent_until, node.silent_until()]
                    .into_iter()
                    .flatten()
                    .min();
                silent.push(name.clone());
            } else {
                others.push(name.clone());
            }
        }
        Self {
            now,
            silent: silent.into(),
            silent_until,
            silent_longest,
            others: others.into(),
            existing: nodes.existing_suspects(None),
            said: Said::default(),
        }
    }

    /// Whether it may well tell less than new stock would: who fell silent since, it goes and asks each time.
    pub(super) fn is_old(&self, now: Moment) -> bool {
        now < self.now || now.since(self.now) >= KEEP
    }

    /// What [`Nodes::existing_suspects`] answers for all nodes.
    pub(super) fn suspects(&self) -> Arc<[Box<str>]> {
        Arc::clone(&self.existing)
    }

    /// What [`Nodes::blockers`] answers for all nodes; `None` where this does not tell.
    pub(super) fn blockers(&self, nodes: &Nodes, wait: Duration, now: Moment) -> Answer {
        if now < self.now || self.silent_until.is_some_and(|until| now >= until) {
            return None;
        }
        self.said.once(wait, now, || self.ask(nodes, wait, now))
    }

    fn ask(&self, nodes: &Nodes, wait: Duration, now: Moment) -> Answer {
        let mut until: Option<Moment> = None;
        for node in self.others.iter().filter_map(|name| nodes.get(name)) {
            match node.blocks(wait, now) {
                Some(Some(moment)) => until = until.max(Some(moment)),
                // It fell silent since.
                Some(None) => return None,
                None => {}
            }
        }
        if self.silent.is_empty() {
            return Some(until.map(Blocked::Until));
        }
        let all = wait > self.silent_longest;
        all.then(|| Some(Blocked::By(Arc::clone(&self.silent))))
    }
}

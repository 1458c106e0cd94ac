//! The open cases, and when each is due. A case is one owner (the podref of rows) in one pool.
//!
//! A case waits until a moment, or for a change of a node; or it is queued for its pool, or in flight. The end of a pod or
//! a sweep opens it. It is closed when nothing is left to do. Nothing here reads evidence.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use crate::{id::hash_of, podref::PodRef, pool::PoolKey, time::Moment, wait::union, work::Work};

/// The pool and the owner.
pub type CaseKey = (PoolKey, PodRef);

/// A case that waits for a node is due after this time even without news of the node: the node may have changed between
/// the look and the wait.
const LOOK_AT_NODES: Duration = Duration::from_mins(1);
/// The same for a case that also waits until a moment. It is longer: after a mass delete each such case would otherwise
/// read its pool every minute.
const LOOK_FOR_FENCE: Duration = Duration::from_mins(10);

/// The result of the turn for a case. By default it is done: the pool has no row of the owner that may be freed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Outcome {
    /// The failure, in one sentence, and the least wait until the next try.
    pub failure: Option<(String, Duration)>,
    /// Writing is not allowed at present, or the run is shutting down. No failure of the case, which is due after this
    /// wait.
    pub postponed: Option<Duration>,
    /// When rows or reservations may be freed later, whatever the failure.
    pub until: Option<Moment>,
    /// The nodes on one of which something has to happen for that, of each row another one, in the order of their names.
    pub nodes: Arc<[Box<str>]>,
    /// Whether a change of the node only brings the moment forward.
    pub goes_anyway: bool,
}

/// The next step of a case after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It is closed.
    Closed,
    /// It is looked at again at this moment.
    Waits(Moment),
    /// It failed, and is tried again after this wait.
    Retries(Duration),
    /// It has failed too often.
    GivenUp,
}

#[derive(Debug, Default)]
enum CaseState {
    Waits {
        due: Moment,
        nodes: Arc<[Box<str>]>,
    },
    /// In the lane of its pool.
    #[default]
    Queued,
    /// In a batch.
    InFlight,
}

#[derive(Debug, Default)]
struct Case {
    work: Work,
    state: CaseState,
    tries: u32,
    /// Opened again while it is in flight.
    again: Option<Moment>,
    /// Looked at, and not closed since.
    is_known: bool,
    /// Something of it was removed or marked, and the rest is to follow.
    is_begun: bool,
}

/// All cases.
#[derive(Debug, Default)]
pub struct Cases {
    by_key: HashMap<Arc<CaseKey>, Case>,
    due: BTreeSet<(Moment, Arc<CaseKey>)>,
    on_node: HashMap<Box<str>, BTreeSet<Arc<CaseKey>>>,
    /// How many were looked at and not closed: they wait for something, or are in work.
    pub known: usize,
    /// How many have rows that were removed, or reservations that were marked, when they were looked at last.
    pub begun: usize,
}

impl Outcome {
    /// Whether there is something to wait for.
    fn waits(&self) -> bool {
        self.until.is_some() || !self.nodes.is_empty()
    }

    /// When a case is looked at that waits from now on.
    fn due(&self, now: Moment) -> Moment {
        if self.nodes.is_empty() {
            return self.until.unwrap_or(now);
        }
        let look = if self.goes_anyway {
            LOOK_FOR_FENCE
        } else {
            LOOK_AT_NODES
        };
        self.until.map_or(now + look, |until| until.min(now + look))
    }

    /// A failure, to be tried again after the backoff, which is `at_least` so long.
    pub fn retry(reason: String, at_least: Duration) -> Self {
        Self {
            failure: Some((reason, at_least)),
            ..Self::default()
        }
    }

    /// Nothing may be written for so long.
    pub fn postponed(wait: Duration) -> Self {
        Self {
            postponed: Some(wait),
            ..Self::default()
        }
    }

    /// A row may go at this moment.
    pub fn not_before(moment: Moment) -> Self {
        Self::not_before_or_fenced(moment, Arc::default())
    }

    /// A row may go at this moment, or when one of these nodes is fenced.
    pub fn not_before_or_fenced(moment: Moment, nodes: Arc<[Box<str>]>) -> Self {
        Self {
            until: Some(moment),
            nodes,
            goes_anyway: true,
            ..Self::default()
        }
    }

    /// A row may go when something has happened on all of these nodes, or at this moment.
    ///
    /// Only one of the nodes is watched, chosen by `key`: while it blocks, the others do not matter. So in an outage
    /// one returning node wakes few rows. If it blocks only until a moment, the others are found when the row is looked
    /// at anyway.
    pub fn for_nodes(nodes: &[Box<str>], key: &str, until: Option<Moment>) -> Self {
        let count = u64::try_from(nodes.len()).unwrap_or(u64::MAX).max(1);
        let one = usize::try_from(hash_of(key) % count).unwrap_or_default();
        let nodes = nodes.get(one).cloned().into_iter().collect();
        Self {
            until,
            nodes,
            ..Self::default()
        }
    }

    /// Two outcomes of one case as one.
    pub fn and(self, other: Self) -> Self {
        let goes_anyway = |it: &Self| it.goes_anyway || it.nodes.is_empty();
        let goes_anyway = goes_anyway(&self) && goes_anyway(&other);
        let failure = match (self.failure, other.failure) {
            (Some((reason, a)), Some((_, b))) => Some((reason, a.max(b))),
            (one, other) => one.or(other),
        };
        Self {
            failure,
            postponed: self.postponed.max(other.postponed),
            until: self.until.into_iter().chain(other.until).min(),
            goes_anyway,
            nodes: union(self.nodes, other.nodes),
        }
    }
}

impl Cases {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.by_key.len()
    }

    /// Whether one is queued for its pool, or in flight.
    pub fn at_work(&self) -> bool {
        self.due.len() < self.by_key.len()
    }

    /// Whether one waits for a node.
    pub fn wait_for_nodes(&self) -> bool {
        !self.on_node.is_empty()
    }

    /// When the next one is due.
    pub fn next_due(&self) -> Option<Moment> {
        self.due.first().map(|(due, _)| *due)
    }

    /// The owners of all of them.
    pub fn owners(&self) -> HashSet<&PodRef> {
        self.by_key.keys().map(|key| &key.1).collect()
    }

    /// Whether there is such a case.
    pub fn contains(&self, key: &CaseKey) -> bool {
        self.by_key.contains_key(key)
    }

    /// Opens a case, to be looked at no later than at that moment. Of one that is open, the work is added.
    pub fn open(&mut self, key: CaseKey, at: Moment, work: Work) {
        let Some((known, case)) = self.by_key.get_key_value(&key) else {
            let case = Case {
                work,
                ..Case::default()
            };
            let key = Arc::new(key);
            self.by_key.insert(Arc::clone(&key), case);
            self.put(&key, at, Arc::default());
            return;
        };
        let known = Arc::clone(known);
        let is_later = matches!(case.state, CaseState::Waits { due, .. } if due > at);
        if is_later {
            self.put(&known, at, Arc::default());
        }
        if let Some(case) = self.by_key.get_mut(&known) {
            case.work.add(work);
            if matches!(case.state, CaseState::InFlight) {
                case.again = case.again.into_iter().chain([at]).min();
            }
        }
    }

    /// A sweep found work of an owner in a pool. A waiting case is looked at now only if a reservation is new. A case
    /// in flight is checked when it ends.
    pub fn find(&mut self, key: CaseKey, now: Moment, work: Work) {
        let Some((known, case)) = self.by_key.get_key_value(&key) else {
            self.open(key, now, work);
            return;
        };
        let known = Arc::clone(known);
        let is_known = |name: &String| case.work.orphans.contains(name) || case.work.releases(name);
        let is_waiting = matches!(case.state, CaseState::Waits { .. });
        if is_waiting && !work.orphans.iter().all(is_known) {
            self.open(key, now, work);
        } else if let Some(case) = self.by_key.get_mut(&known) {
            case.work.add(work);
        }
    }

    /// The next case that is due, which is queued from then on.
    pub fn take_due(&mut self, now: Moment) -> Option<Arc<CaseKey>> {
        if self.next_due()? > now {
            return None;
        }
        let (_, key) = self.due.pop_first()?;
        self.leave(&key);
        Some(key)
    }

    /// The work of a case that was queued, for a batch.
    pub fn begin(&mut self, key: &CaseKey) -> Option<Work> {
        let case = self.by_key.get_mut(key)?;
        case.state = CaseState::InFlight;
        Some(std::mem::take(&mut case.work))
    }

    /// Ends the turn of a case in flight, with the rest of its work. `retry_after` tells the wait after so many failures
    /// before; none once it has failed too often.
    pub fn end_turn(
        &mut self,
        key: &CaseKey,
        mut work: Work,
        outcome: Outcome,
        retry_after: &dyn Fn(u32) -> Option<Duration>,
        now: Moment,
    ) -> Next {
        let Some((key, _)) = self.by_key.get_key_value(key) else {
            return Next::Closed;
        };
        let key = Arc::clone(key);
        let case = self.by_key.get_mut(&key);
        let Some(case) = case.filter(|case| matches!(case.state, CaseState::InFlight)) else {
            return Next::Closed;
        };
        let known = work.orphans.len();
        work.add(std::mem::take(&mut case.work));
        let found = (work.orphans.len() > known).then_some(now);
        self.begun -= usize::from(case.is_begun);
        self.known -= usize::from(case.is_known);
        case.is_begun = !(work.removed.is_empty() && work.wanted.is_empty());
        case.is_known = true;
        case.work = work;
        let again = case.again.take().into_iter().chain(found).min();
        // A turn that neither fails nor is postponed ends the count of failures.
        let tries = std::mem::take(&mut case.tries);
        // A failure counts first, then that nothing may be written.
        let (next, outcome) = if let Some((_, at_least)) = &outcome.failure {
            if let Some(wait) = retry_after(tries) {
                let wait = wait.max(*at_least);
                case.tries = tries + 1;
                (Next::Retries(wait), Outcome::not_before(now + wait))
            } else {
                (Next::GivenUp, outcome)
            }
        } else if let Some(wait) = outcome.postponed {
            case.tries = tries;
            (Next::Waits(now), Outcome::not_before(now + wait))
        } else if outcome.waits() {
            (Next::Waits(now), outcome)
        } else {
            (Next::Closed, outcome)
        };
        let is_over = matches!(next, Next::Closed | Next::GivenUp) && !outcome.waits();
        if is_over && again.is_none() {
            self.by_key.remove(&key);
            return next;
        }
        self.begun += usize::from(case.is_begun);
        self.known += 1;
        let due = match again {
            Some(again) if is_over => again,
            Some(again) => again.min(outcome.due(now)),
            None => outcome.due(now),
        };
        self.put(&key, due, outcome.nodes);
        match next {
            Next::Waits(_) => Next::Waits(due),
            next => next,
        }
    }

    /// Something happened on a node: the cases that wait for it are due.
    pub fn wake(&mut self, node: &str, now: Moment) {
        for key in self.on_node.get(node).cloned().unwrap_or_default() {
            self.put(&key, now, Arc::default());
        }
    }

    /// All cases that wait for a node are due.
    pub fn wake_all(&mut self, now: Moment) {
        let all: Vec<_> = self.on_node.keys().cloned().collect();
        for node in all {
            self.wake(&node, now);
        }
    }

    /// From now on a case waits for these nodes, and until then at the latest.
    fn put(&mut self, key: &Arc<CaseKey>, due: Moment, nodes: Arc<[Box<str>]>) {
        self.leave(key);
        let Some(case) = self.by_key.get_mut(key) else {
            return;
        };
        for node in nodes.iter() {
            let waiting = self.on_node.entry(node.clone()).or_default();
            waiting.insert(Arc::clone(key));
        }
        self.due.insert((due, Arc::clone(key)));
        case.state = CaseState::Waits { due, nodes };
    }

    /// The case waits for nothing more.
    fn leave(&mut self, key: &Arc<CaseKey>) {
        let Some(case) = self.by_key.get_mut(key) else {
            return;
        };
        let CaseState::Waits { due, nodes } = std::mem::take(&mut case.state) else {
            return;
        };
        self.due.remove(&(due, Arc::clone(key)));
        for node in nodes.iter() {
            if let Some(waiting) = self.on_node.get_mut(node) {
                waiting.remove(key);
                if waiting.is_empty() {
                    self.on_node.remove(node);
                }
            }
        }
    }
}

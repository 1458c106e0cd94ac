//! The planner: all open work, and what happens next.
//!
//! News and answers of turns go in by [`Planner::take`], effects come out. The planner makes no requests. It reads the
//! evidence, counts sweeps in it, and forgets old parts of it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use crate::{
    batch::Batch,
    cases::{CaseKey, Cases, Next, Outcome},
    evidence::Ended,
    known::Evidence,
    lanes::Lanes,
    node::Standing,
    podref::PodRef,
    pool::PoolKey,
    routes::Routes,
    time::Moment,
    work::{Work, Works},
};

/// Upper limit of the pools and slices that are remembered, since a sweep was asked for because of them.
const REMEMBERED: usize = 10_000;
/// How long the evidence of an incarnation is kept after its end at the least.
const KEEP_EVIDENCE: Duration = Duration::from_mins(10);

/// One piece of news, or an answer of a turn.
#[derive(Debug)]
pub enum Input {
    /// A pod ended.
    Ended(Arc<Ended>),
    /// A sweep found this work. The planner fills in the number of the sweep.
    Found(BTreeMap<CaseKey, Work>),
    /// A sweep that began at this moment saw everything, and has come to its end.
    SweepEnded(Moment),
    /// This copy leads from now on.
    TookOver,
    /// Something happened on these nodes.
    NodesChanged(BTreeSet<Box<str>>),
    /// A turn has done what it could about rows; its requests on the pool took so long.
    RowsDone {
        /// The pool.
        pool: PoolKey,
        /// How long the requests took.
        took: Duration,
    },
    /// A turn has done what it could for these cases.
    CasesDone(PoolKey, Vec<(PodRef, Work, Outcome)>),
}

/// Something to be done or told.
#[derive(Debug)]
pub enum Effect {
    /// Ask for a sweep.
    Sweep,
    /// A pod ended, and these of its networks lead to no pool: why, in one sentence each.
    Routed(Arc<Ended>, Vec<String>),
    /// Too much work is open: the end of this pod, or what else a sweep found, is left to the next sweep.
    LeftToSweep(Option<PodRef>),
    /// The turn of a case ended.
    TurnEnded(TurnEnded),
}

/// A case whose turn ended.
#[derive(Debug)]
pub struct TurnEnded {
    /// The case.
    pub key: CaseKey,
    /// Its next step.
    pub next: Next,
    /// The failure, if there was one, in one sentence.
    pub failure: Option<String>,
    /// The last incarnation that opened it.
    pub ended: Option<Arc<Ended>>,
}

/// How the planner goes about it.
pub struct Terms<'t> {
    /// Most cases at a time, though an end may open several.
    pub capacity: usize,
    /// The wait of a case that failed, after so many failures before; none once it has failed too often.
    pub retry_after: &'t dyn Fn(u32) -> Option<Duration>,
}

/// How much work is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// Cases that are open.
    pub open: usize,
    /// Whether one of them is queued for its pool, or in flight.
    pub at_work: bool,
    /// When the next of the others is looked at.
    pub next: Option<Moment>,
    /// Cases that were looked at and are not closed. Those at work count too.
    pub waiting: usize,
    /// Cases with rows whose removal was asked for, or with marked reservations, that are not done.
    pub begun: usize,
    /// Whether the planner has taken in all that a sweep found.
    pub is_surveyed: bool,
}

/// All open work.
#[derive(Debug, Default)]
pub struct Planner {
    cases: Cases,
    lanes: Lanes,
    /// The pools and slices for which a sweep was asked, and when. If a sweep that began later did not see them either,
    /// no further sweep is asked for.
    asked: HashMap<String, Moment>,
    /// When the last sweep began that came to its end.
    surveyed: Option<Moment>,
}

impl Planner {
    /// Takes in news or an answer.
    pub fn take(
        &mut self,
        input: Input,
        evidence: &mut Evidence,
        terms: &Terms<'_>,
        now: Moment,
    ) -> Vec<Effect> {
        match input {
            Input::Ended(ended) => self.take_end(ended, evidence, terms, now),
            Input::Found(found) => self.take_found(found, evidence, terms, now),
            Input::SweepEnded(begun) => {
                let before = self.surveyed.replace(begun);
                let before = before.unwrap_or(Moment::EPOCH);
                self.forget(evidence, begun, before, now);
                Vec::new()
            }
            Input::TookOver => {
                // The former leader reported these cases. This copy reports them now.
                self.cases.wake_all(now);
                Vec::new()
            }
            Input::NodesChanged(nodes) => {
                for node in &nodes {
                    self.cases.wake(node, now);
                }
                Vec::new()
            }
            Input::RowsDone { pool, took } => {
                self.lanes.done(&pool, took, now);
                Vec::new()
            }
            Input::CasesDone(pool, cases) => {
                let ended = cases.into_iter().map(|(podref, work, outcome)| {
                    let key = (pool.clone(), podref);
                    let ended = work.ended.last().cloned();
                    let failure = outcome.failure.as_ref().map(|(reason, _)| reason.clone());
                    let retry_after = terms.retry_after;
                    let next = self.cases.end_turn(&key, work, outcome, retry_after, now);
                    Effect::TurnEnded(TurnEnded {
                        key,
                        next,
                        failure,
                        ended,
                    })
                });
                ended.collect()
            }
        }
    }

    /// All cases that are due go to the lanes of their pools, and all lanes that are ready begin a batch.
    pub fn begin(&mut self, now: Moment) -> Vec<Batch> {
        while let Some(key) = self.cases.take_due(now) {
            self.lanes.add(key, now);
        }
        let ready = self.lanes.ready(now, self.cases.next_due()).into_iter();
        let batches = ready.map(|(pool, cases)| {
            let mut works = Works::new();
            for key in cases {
                if let Some(work) = self.cases.begin(&key) {
                    works.insert(key.1.clone(), work);
                }
            }
            Batch { pool, works }
        });
        batches.collect()
    }

    /// When [`Self::begin`] has something to do next.
    pub fn next(&self) -> Option<Moment> {
        let next = [self.cases.next_due(), self.lanes.next()];
        next.into_iter().flatten().min()
    }

    /// How much work is open.
    pub fn outlook(&self) -> Outlook {
        Outlook {
            open: self.cases.count(),
            at_work: self.cases.at_work(),
            next: self.cases.next_due(),
            waiting: self.cases.known,
            begun: self.cases.begun,
            is_surveyed: self.surveyed.is_some(),
        }
    }

    /// Whether a case waits for a node.
    pub fn waits_for_nodes(&self) -> bool {
        self.cases.wait_for_nodes()
    }

    /// A case in each pool that the pod may have rows in is looked at when they may go.
    fn take_end(
        &mut self,
        ended: Arc<Ended>,
        evidence: &Evidence,
        terms: &Terms<'_>,
        now: Moment,
    ) -> Vec<Effect> {
        if self.cases.count() >= terms.capacity {
            let podref = ended.last.podref.clone();
            return vec![Effect::Sweep, Effect::LeftToSweep(Some(podref))];
        }
        // Other incarnations of its name, too: it may have taken over their rows.
        let mut all = evidence.pods.ended(&ended.last.podref);
        if !all.iter().any(|end| end.last.uid == ended.last.uid) {
            all.push(Arc::clone(&ended));
        }
        let routes = Routes::of(&all, &evidence.definitions, &evidence.pools);
        let mut effects = Vec::new();
        if self.asked.len() >= REMEMBERED {
            self.asked.clear();
        }
        for unseen in routes.unseen {
            let asked = *self.asked.entry(unseen).or_insert(now);
            if self.surveyed.is_none_or(|begun| begun <= asked) {
                effects.push(Effect::Sweep);
            }
        }
        let due = ended.first_look(&evidence.policy);
        for (pool, routes) in routes.pools {
            let key = (pool, ended.last.podref.clone());
            let work = Work {
                ended: vec![Arc::clone(&ended)],
                routes,
                ..Work::default()
            };
            self.cases.open(key, due, work);
        }
        effects.push(Effect::Routed(ended, routes.unresolved));
        effects
    }

    fn take_found(
        &mut self,
        found: BTreeMap<CaseKey, Work>,
        evidence: &mut Evidence,
        terms: &Terms<'_>,
        now: Moment,
    ) -> Vec<Effect> {
        evidence.sweeps += 1;
        for (key, mut work) in found {
            if !self.cases.contains(&key) && self.cases.count() >= terms.capacity {
                return vec![Effect::LeftToSweep(None)];
            }
            if let Some((sweep, _)) = &mut work.siblings {
                *sweep = evidence.sweeps;
            }
            self.cases.find(key, now, work);
        }
        Vec::new()
    }

    /// Forgets the evidence that this sweep, the one before and open cases did not need.
    fn forget(&self, evidence: &mut Evidence, begun: Moment, before: Moment, now: Moment) {
        let in_work = self.cases.owners();
        evidence.first_seen.forget(now.since(before), now);
        let (nodes, pods) = (&evidence.nodes, &mut evidence.pods);
        let longest = evidence.policy.longest_wait(pods.longest_grace());
        let keep = KEEP_EVIDENCE.max(longest);
        pods.forget(begun, now, keep, |end| {
            let node = end.last.node.as_ref();
            let is_silent =
                node.is_some_and(|node| nodes.standing(node, end.at, now) == Standing::Silent);
            in_work.contains(&end.last.podref) || (is_silent && !end.settled)
        });
    }
}

//! The planner: all open work, and what happens next.
//!
//! One task owns the cases and the lanes. It takes news and answers in, and starts turns. A turn does what needs requests
//! and gives its cases back; it decides nothing about when a case is looked at again.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use ipgc_core::{
    cases::{CaseKey, Cases, Next, Outcome, Retries},
    evidence::{DEFAULT_POD_GRACE, Ended, MANY_ROWS},
    lanes::{Lanes, Ready},
    networks::{Request, Status},
    node::Standing,
    podref::PodRef,
    routes::Routes,
    time::Moment,
    work::{Work, Works},
};
use tokio::{
    sync::{mpsc, watch},
    time::sleep,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, warn};

use super::{
    batch::{Batch, FromTurn},
    context::Context,
    evidence::Evidence,
    input::{Found, Input},
    nodes::Interest,
    release::Releaser,
    sweep::SweepRequests,
    turn,
};
use crate::backoff::Backoff;

/// Most cases of which it is remembered that they were given up, and most things for which a sweep was asked.
const REMEMBERED: usize = 10_000;
/// Most news that are taken in before something else is done.
const NEWS_AT_ONCE: usize = 1_000;
/// How long the evidence of an incarnation is kept after its end at the least.
const KEEP_EVIDENCE: Duration = Duration::from_mins(10);
/// What the planner works with.
pub struct Plan {
    /// What turns work with.
    pub context: Arc<Context>,
    /// Removes reservations.
    pub releaser: Arc<Releaser>,
    /// Asked for a sweep when retries are used up, or an end leads to a pool that no sweep saw.
    pub sweeps: Arc<SweepRequests>,
    /// Told whether a case waits for nodes.
    pub interest: watch::Sender<Interest>,
    /// Told how much work is open.
    pub outlook: watch::Sender<Outlook>,
    /// Most cases at a time, though an end may open several.
    pub capacity: usize,
    /// How often a case is tried again after a failure.
    pub max_retries: u32,
    /// The waits after failures.
    pub backoff: Backoff,
    /// Where turns run.
    pub tasks: TaskTracker,
    /// Nothing new is begun after that.
    pub stop: CancellationToken,
}

/// How much work is open, after a step of the planner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// Cases that are open.
    pub open: usize,
    /// Whether one of them is queued for its pool, or in flight.
    pub at_work: bool,
    /// When the next of the others is looked at.
    pub next: Option<Moment>,
    /// Cases that were looked at and wait.
    pub waiting: usize,
    /// Those of them with reservations that are marked and not deleted yet.
    pub begun: usize,
    /// Whether the planner has taken in all that a sweep found.
    pub is_surveyed: bool,
}

/// The task.
pub struct Planner {
    plan: Plan,
    cases: Cases,
    lanes: Lanes,
    /// The cases of which it was told that the retries are used up.
    given_up: HashSet<CaseKey>,
    /// For what a sweep was asked, and when, since the last one had not seen it. Once a later one has not seen it either,
    /// sweeps come at their time.
    asked: HashMap<String, Moment>,
    /// When the last sweep began that came to its end.
    surveyed: Option<Moment>,
    /// None once nothing new is begun.
    answers: Option<mpsc::UnboundedSender<FromTurn>>,
}

impl Planner {
    /// Plans until the stop. `inputs` are the news.
    pub async fn run(plan: Plan, mut inputs: mpsc::Receiver<Input>) {
        // A turn has three answers at the most.
        let (answers, mut answered) = mpsc::unbounded_channel();
        let stop = plan.stop.clone();
        let mut planner = Self {
            plan,
            cases: Cases::default(),
            lanes: Lanes::default(),
            given_up: HashSet::new(),
            asked: HashMap::new(),
            surveyed: None,
            answers: Some(answers),
        };
        loop {
            planner.begin_batches();
            planner.tell();
            let next = [planner.cases.next_due(), planner.lanes.next()];
            let next = next.into_iter().flatten().min();
            let next = next.map_or(Duration::MAX, |next| planner.plan.context.clock.until(next));
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(answer) = answered.recv() => {
                    planner.take_answer(answer);
                    while let Ok(answer) = answered.try_recv() {
                        planner.take_answer(answer);
                    }
                }
                Some(input) = inputs.recv() => {
                    planner.take(input);
                    for _ in 1..NEWS_AT_ONCE {
                        let Ok(input) = inputs.try_recv() else { break };
                        planner.take(input);
                    }
                }
                () = sleep(next) => {}
            }
        }
        // The turns in flight end, and what they did is told.
        planner.answers = None;
        while let Some(answer) = answered.recv().await {
            planner.take_answer(answer);
        }
    }

    fn take(&mut self, input: Input) {
        let now = self.plan.context.clock.now();
        match input {
            Input::Ended(ended) => self.take_end(&ended, now),
            Input::Found(found) => self.take_found(found, now),
            Input::SweepEnded { begun, before } => {
                self.forget(begun, before, now);
                self.surveyed = Some(begun);
            }
            // The copy that led told of them; now it is our turn.
            Input::TookOver => self.cases.wake_all(now),
            Input::NodesChanged(nodes) => nodes.iter().for_each(|node| self.cases.wake(node, now)),
        }
    }

    /// Whether the open work is at its bound; then the rest is left to sweeps.
    fn is_full(&self) -> bool {
        let is_full = self.cases.len() >= self.plan.capacity;
        if is_full {
            let counters = &self.plan.context.counters;
            counters.queue_overflows.inc();
        }
        is_full
    }

    /// A case in each pool that the pod may have rows in is looked at when they may go.
    fn take_end(&mut self, ended: &Arc<Ended>, now: Moment) {
        if self.is_full() {
            self.plan.sweeps.request();
            warn!(pod = %ended.podref(), "too much work is open, pod is left to the sweep");
            return;
        }
        let routes = {
            let evidence = self.plan.context.evidence();
            // Other incarnations of its name, too: it may have taken over their rows.
            let mut all = evidence.pods.ended(ended.podref());
            if !all.iter().any(|end| end.last.uid == ended.last.uid) {
                all.push(Arc::clone(ended));
            }
            Routes::of(&all, evidence.definitions.all(), &evidence.pools)
        };
        self.report_unresolved(ended, &routes);
        if self.asked.len() >= REMEMBERED {
            self.asked.clear();
        }
        for unseen in routes.unseen {
            let asked = *self.asked.entry(unseen).or_insert(now);
            if self.surveyed.is_none_or(|begun| begun <= asked) {
                self.plan.sweeps.request();
            }
        }
        let due = ended.first_look(&self.plan.context.policy);
        for (pool, routes) in routes.pools {
            let key = (pool, ended.podref().clone());
            self.cases
                .open(key, due, Work::of_end(Arc::clone(ended), routes));
        }
    }

    fn take_found(&mut self, found: BTreeMap<PodRef, Found>, now: Moment) {
        let sweep = {
            let mut evidence = self.plan.context.evidence();
            evidence.sweeps += 1;
            evidence.sweeps
        };
        for (podref, Found { pools, siblings }) in found {
            let siblings = siblings.map(|rows| (sweep, rows));
            for (pool, orphans) in pools {
                let key = (pool, podref.clone());
                if !self.cases.contains(&key) && self.is_full() {
                    warn!("too much work is open, the rest is left to the next sweep");
                    return;
                }
                let work = Work {
                    orphans,
                    siblings: siblings.clone(),
                    ..Work::default()
                };
                self.cases.find(key, now, work);
            }
        }
    }

    /// Forgets the evidence that this sweep, the one before and open cases did not need.
    fn forget(&self, begun: Moment, before: Moment, now: Moment) {
        let in_work = self.cases.owners();
        let context = &self.plan.context;
        let Evidence {
            first_seen,
            nodes,
            pods,
            ..
        } = &mut *context.evidence();
        first_seen.forget(now.since(before), now);
        let longest = pods.longest_grace().max(DEFAULT_POD_GRACE);
        let keep = KEEP_EVIDENCE.max(context.policy.wait(Some(longest), MANY_ROWS));
        pods.forget(begun, now, keep, |end| {
            let node = end.last.node.as_ref();
            let is_silent =
                node.is_some_and(|node| nodes.standing(node, end.at, now) == Standing::Silent);
            in_work.contains(end.podref()) || (is_silent && !end.settled)
        });
    }

    /// All cases that are due go to the lanes of their pools, and all lanes that are ready begin a batch.
    fn begin_batches(&mut self) {
        let now = self.plan.context.clock.now();
        while let Some(key) = self.cases.take_due(now) {
            self.lanes.add(key, now);
        }
        for ready in self.lanes.ready(now, self.cases.next_due()) {
            self.begin(ready);
        }
    }

    fn begin(&mut self, ready: Ready) {
        let Some(answers) = self.answers.clone() else {
            return;
        };
        let Ready {
            pool,
            number,
            cases,
        } = ready;
        let mut works = Works::new();
        for key in cases {
            if let Some(work) = self.cases.begin(&key, number) {
                works.insert(key.1.clone(), work);
            }
        }
        let batch = Batch {
            pool: pool.clone(),
            number,
            works,
        };
        let Plan {
            context,
            releaser,
            tasks,
            stop,
            ..
        } = &self.plan;
        let (context, releaser) = (Arc::clone(context), Arc::clone(releaser));
        let (stop, lost) = (stop.clone(), answers.clone());
        let turn = tasks.spawn(async move {
            turn::work(&context, &releaser, &stop, batch, &answers).await;
        });
        tasks.spawn(async move {
            if turn.await.is_err() {
                // The planner may have ended.
                let _ = lost.send(FromTurn::Lost(pool, number));
            }
        });
    }

    fn take_answer(&mut self, answer: FromTurn) {
        let now = self.plan.context.clock.now();
        match answer {
            FromTurn::RowsDone { pool, number, took } => self.lanes.done(&pool, number, took, now),
            FromTurn::Cases(pool, cases) => {
                for (podref, work, outcome) in cases {
                    self.give_back(&(pool.clone(), podref), work, outcome, now);
                }
            }
            FromTurn::Lost(pool, number) => {
                self.lanes.done(&pool, number, Duration::ZERO, now);
                for key in self.cases.in_batch(number) {
                    let outcome = Outcome::retry("its turn ended early".to_owned(), Duration::ZERO);
                    self.give_back(&key, Work::default(), outcome, now);
                }
            }
        }
    }

    fn give_back(&mut self, key: &CaseKey, work: Work, outcome: Outcome, now: Moment) {
        let (pool, pod) = key;
        let picked = self.plan.context.picked.clone();
        if let Some(picked) = &picked
            && matches!(outcome, Outcome::Done | Outcome::Waiting(_))
            && !work.is_begun()
        {
            picked.settled(pool, pod, &work.orphans);
        }
        let orphans = picked.as_ref().map(|_| work.orphans.clone());
        let orphans = orphans.unwrap_or_default();
        let ended = work.last_end().cloned();
        let reason = match &outcome {
            Outcome::Retry { reason, .. } => reason.clone(),
            _ => String::new(),
        };
        let retries = Retries {
            most: self.plan.max_retries,
            wait: &|failures| self.plan.backoff.wait_after(failures),
        };
        match self.cases.give_back(key, work, outcome, &retries, now) {
            Next::Closed => {
                self.given_up.remove(key);
            }
            Next::Waits(until) => {
                debug!(%pod, %pool, wait = ?until.since(now), "not free to go yet");
            }
            Next::Retries(wait) => {
                if let Some(picked) = picked {
                    picked.failed(pool, pod, &orphans, &reason, false);
                    debug!(%pod, %pool, reason, ?wait, "will try again");
                } else {
                    warn!(%pod, %pool, reason, ?wait, "will try again");
                }
            }
            Next::GivenUp => {
                if let Some(picked) = picked {
                    picked.failed(pool, pod, &orphans, &reason, true);
                }
                self.give_up(key, ended.as_ref(), &reason);
            }
        }
    }

    /// Says it once: sweeps try again as long as the failure lasts, and fail again.
    fn give_up(&mut self, key: &CaseKey, ended: Option<&Arc<Ended>>, reason: &str) {
        let context = &self.plan.context;
        let pod = &key.1;
        warn!(%pod, reason, "retries are used up");
        context.counters.retries_exhausted.inc();
        // The next sweep, in its own time, finds again the rows that a sweep found.
        if ended.is_some() {
            self.plan.sweeps.request();
        }
        // Another copy tells it. Should this one lead one day, it is news then.
        if !context.gate.leads() {
            return;
        }
        if self.given_up.len() >= REMEMBERED {
            self.given_up.clear();
        }
        if self.given_up.insert(key.clone()) {
            let uid = ended.map_or("", |ended| &ended.last.uid);
            context.events.collection_failed(pod, uid);
        }
    }

    /// Says of an incarnation what could not be read or followed.
    fn report_unresolved(&self, ended: &Ended, routes: &Routes) {
        let counters = &self.plan.context.counters;
        let last = &ended.last;
        let pod = &last.podref;
        if let Status::Malformed(reason) = &last.status {
            counters.annotations_unreadable.inc();
            warn!(%pod, %reason, "network-status cannot be read");
        }
        if let Request::Malformed(reason) = &last.request {
            counters.annotations_unreadable.inc();
            warn!(%pod, %reason, "networks annotation cannot be read");
        }
        if !routes.unresolved.is_empty() {
            counters.left_to_sweep.inc();
            let networks = routes.unresolved.len();
            let first = routes.unresolved.iter().take(3).cloned();
            let first = first.collect::<Vec<_>>().join("; ");
            warn!(%pod, networks, reason = first, "network leads to no pool, its rows are left to the sweep");
        }
    }

    /// Tells how much work is open, and whether a case waits for nodes.
    fn tell(&self) {
        let outlook = Outlook {
            open: self.cases.len(),
            at_work: self.cases.at_work(),
            next: self.cases.next_due(),
            waiting: self.cases.known(),
            begun: self.cases.begun(),
            is_surveyed: self.surveyed.is_some(),
        };
        self.plan.outlook.send_if_modified(|told| {
            let is_news = *told != outlook;
            *told = outlook;
            is_news
        });
        let waits = self.cases.wait_for_nodes();
        self.plan.interest.send_if_modified(|interest| {
            let is_news = waits && !interest.is_awaited;
            interest.is_awaited = waits;
            is_news
        });
    }
}

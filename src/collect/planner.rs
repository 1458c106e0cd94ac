//! The planner: all open work, and what happens next.
//!
//! One task owns the cases and the lanes. It takes news and answers in, and starts turns. A turn does what needs requests
//! and gives its cases back; it decides nothing about when a case is looked at again.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ipgc_core::{
    cases::{CaseKey, Cases, Next, Outcome, Retries},
    evidence::{DEFAULT_POD_GRACE, Ended, MANY_ROWS},
    lanes::{Lanes, Ready},
    networks::{Request, Status},
    node::Standing,
    patch::Answer,
    podref::PodRef,
    pool::PoolKey,
    time::Moment,
    work::{Work, Works},
};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::sleep,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, warn};

use super::{
    batch::{Batch, FromTurn},
    context::Context,
    evidence::Evidence,
    gate::Access,
    input::{Found, Input},
    nodes::Interest,
    release::Releaser,
    resolve::{Resolved, Resolver},
    sweep::SweepRequests,
    turn::{self, LEAD},
};
use crate::{backoff::Backoff, calls::CallError};

/// Most pods of which it is remembered that they were given up; of more it is told twice.
const REMEMBERED: usize = 10_000;
/// How long the evidence of an incarnation is kept after its end at the least.
const KEEP_EVIDENCE: Duration = Duration::from_mins(10);
/// Looking pools up takes less, as long as the API server answers.
const AT_ONCE: Duration = Duration::from_millis(500);
/// Most ends that are resolved together.
const RESOLVED_TOGETHER: usize = 1_000;

/// What the planner works with.
pub struct Plan {
    /// What turns work with.
    pub context: Arc<Context>,
    /// Removes reservations.
    pub releaser: Arc<Releaser>,
    /// Finds pools.
    pub resolver: Arc<Resolver>,
    /// Asked for a sweep when retries are used up.
    pub sweeps: Arc<SweepRequests>,
    /// Told whether a case waits for nodes.
    pub interest: watch::Sender<Interest>,
    /// Told how many cases there are.
    pub depth: Arc<AtomicUsize>,
    /// Most ends and cases at a time, though an end may open several cases.
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

/// The end of an incarnation whose pools are not known yet.
struct PendingEnd {
    ended: Arc<Ended>,
    tries: u32,
}

/// Ends that were followed to their pools, up to the first failure.
struct ResolvedEnds {
    all: Vec<(PendingEnd, Result<Resolved, CallError>)>,
    /// Those that were not tried.
    left: Vec<PendingEnd>,
}

/// The task.
pub struct Planner {
    plan: Plan,
    cases: Cases,
    lanes: Lanes,
    /// Ends whose pools are not known yet, by when these are looked up, and by the uid of the pod.
    ends: BTreeMap<(Moment, Box<str>), PendingEnd>,
    /// The pods whose ends are being followed to their pools, and since when.
    resolving: Vec<PodRef>,
    resolving_since: Moment,
    /// Pods, and the pools, of which it was told that the retries are used up.
    given_up: HashSet<(Option<PoolKey>, PodRef)>,
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
            ends: BTreeMap::new(),
            resolving: Vec::new(),
            resolving_since: Moment::EPOCH,
            given_up: HashSet::new(),
            answers: Some(answers),
        };
        let mut resolving = JoinSet::new();
        loop {
            if resolving.is_empty() {
                planner.resolve_due(&mut resolving);
            }
            planner.begin_batches();
            let next = planner.next(resolving.is_empty());
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
                Some(resolved) = resolving.join_next() => match resolved {
                    Ok(resolved) => planner.take_resolved(resolved),
                    Err(error) => {
                        warn!(%error, "ends of pods are left to the sweep");
                        planner.resolving.clear();
                        planner.plan.sweeps.request();
                    }
                },
                Some(input) = inputs.recv() => {
                    planner.take(input);
                    while let Ok(input) = inputs.try_recv() {
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

    /// When there is something to do, if nothing else happens.
    fn next(&self, may_resolve: bool) -> Option<Moment> {
        let ends = self.next_end().filter(|_| may_resolve);
        let all = [self.cases.next_due(), self.lanes.next(), ends];
        all.into_iter().flatten().min()
    }

    fn next_end(&self) -> Option<Moment> {
        self.ends.first_key_value().map(|((due, _), _)| *due)
    }

    fn take(&mut self, input: Input) {
        let now = self.plan.context.clock.now();
        match input {
            Input::Ended(ended) => self.take_end(ended),
            Input::Found(found) => self.take_found(found, now),
            Input::SweepEnded { begun, before } => self.forget(begun, before, now),
            // The copy that led told of them; now it is our turn.
            Input::TookOver => self.cases.wake_all(now),
            Input::NodesChanged(nodes) => nodes.iter().for_each(|node| self.cases.wake(node, now)),
            Input::LeasesRead(asked) => self.cases.take_in_read(asked, now),
        }
        self.tell();
    }

    /// Whether the open work is at its bound; then the rest is left to sweeps.
    fn is_full(&self) -> bool {
        let is_full = self.cases.len() + self.ends.len() >= self.plan.capacity;
        if is_full {
            let counters = &self.plan.context.counters;
            counters.queue_overflows.increment();
        }
        is_full
    }

    fn take_end(&mut self, ended: Arc<Ended>) {
        if self.is_full() {
            self.plan.sweeps.request();
            warn!(pod = %ended.podref(), "too much work is open, pod is left to the sweep");
            return;
        }
        let due = ended.first_look(&self.plan.context.policy).since_epoch();
        let due = Moment::new(due.saturating_sub(LEAD));
        let key = (due, ended.last.uid.clone());
        self.ends.insert(key, PendingEnd { ended, tries: 0 });
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
        let mut in_work = self.cases.owners();
        in_work.extend(self.ends.values().map(|end| end.ended.podref()));
        in_work.extend(&self.resolving);
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

    /// The ends that are due are followed to their pools, all that are due by one task.
    fn resolve_due(&mut self, resolving: &mut JoinSet<ResolvedEnds>) {
        let now = self.plan.context.clock.now();
        let mut due = Vec::new();
        while due.len() < RESOLVED_TOGETHER
            && let Some(first) = self.ends.first_entry()
            && first.key().0 <= now
        {
            let end = first.remove();
            // Other incarnations of its name, too: it may have taken over their rows.
            let own = &end.ended;
            let mut all = self.plan.context.evidence().pods.ended(own.podref());
            if !all.iter().any(|end| end.last.uid == own.last.uid) {
                all.push(Arc::clone(own));
            }
            self.resolving.push(own.podref().clone());
            due.push((end, all));
        }
        if due.is_empty() {
            return;
        }
        self.resolving_since = now;
        let resolver = Arc::clone(&self.plan.resolver);
        resolving.spawn(async move {
            let mut all = Vec::with_capacity(due.len());
            let mut due = due.into_iter();
            for (end, incarnations) in due.by_ref() {
                let pools = resolver.resolve(&incarnations).await;
                let has_failed = pools.is_err();
                all.push((end, pools));
                // The others do not wait for a server that does not answer.
                if has_failed {
                    break;
                }
            }
            ResolvedEnds {
                all,
                left: due.map(|(end, _)| end).collect(),
            }
        });
    }

    fn take_resolved(&mut self, resolved: ResolvedEnds) {
        let now = self.plan.context.clock.now();
        self.resolving.clear();
        for end in resolved.left {
            let key = (now, end.ended.last.uid.clone());
            self.ends.insert(key, end);
        }
        for (PendingEnd { ended, tries }, resolved) in resolved.all {
            match resolved {
                Ok(resolved) => {
                    self.report_unresolved(&ended, &resolved);
                    for (pool, routes) in resolved.pools {
                        let key = (pool, ended.podref().clone());
                        let work = Work::of_end(Arc::clone(&ended), routes);
                        self.cases.open(key, now, work);
                    }
                }
                Err(error) => self.retry_end(PendingEnd { ended, tries }, &error, now),
            }
        }
        self.tell();
    }

    fn retry_end(&mut self, end: PendingEnd, error: &CallError, now: Moment) {
        let PendingEnd { ended, mut tries } = end;
        let pod = ended.podref().clone();
        let wait = if error.answer() == Answer::Forbidden {
            let gate = &self.plan.context.gate;
            gate.refused(Access::Read, "look for pools", error);
            gate.wait()
        } else if tries < self.plan.max_retries {
            tries += 1;
            let wait = self.plan.backoff.wait_after(tries - 1);
            let wait = wait.max(error.retry_after().unwrap_or_default());
            warn!(%pod, reason = format!("could not look for pools: {error}"), ?wait, "will try again");
            wait
        } else {
            let reason = format!("could not look for pools: {error}");
            self.give_up(None, &pod, Some(&ended), &reason);
            return;
        };
        let key = (now + wait, ended.last.uid.clone());
        self.ends.insert(key, PendingEnd { ended, tries });
    }

    /// All cases that are due go to the lanes of their pools, and all lanes that are ready begin a batch.
    fn begin_batches(&mut self) {
        let now = self.plan.context.clock.now();
        while let Some(key) = self.cases.take_due(now) {
            self.lanes.add(key, now);
        }
        // The cases of ends whose pools are being looked up come at once, unless the API server hangs.
        let comes_at_once = !self.resolving.is_empty() && now.since(self.resolving_since) < AT_ONCE;
        let next_end = self.next_end().filter(|due| *due > now || comes_at_once);
        let next_due = [
            self.cases.next_due(),
            next_end,
            comes_at_once.then_some(now),
        ];
        let next_due = next_due.into_iter().flatten().min();
        for ready in self.lanes.ready(now, next_due) {
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
        self.tell();
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
                self.given_up.remove(&(Some(pool.clone()), pod.clone()));
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
                self.give_up(Some(pool), pod, ended.as_ref(), &reason);
            }
        }
    }

    /// Says it once: sweeps try again as long as the failure lasts, and fail again.
    fn give_up(
        &mut self,
        pool: Option<&PoolKey>,
        pod: &PodRef,
        ended: Option<&Arc<Ended>>,
        reason: &str,
    ) {
        let context = &self.plan.context;
        warn!(%pod, reason, "retries are used up");
        context.counters.retries_exhausted.increment();
        // What a sweep found, the next one finds again in its own time.
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
        if self.given_up.insert((pool.cloned(), pod.clone())) {
            let uid = ended.map_or("", |ended| &ended.last.uid);
            context.events.collection_failed(pod, uid);
        }
    }

    /// Says of an incarnation what could not be read or followed.
    fn report_unresolved(&self, ended: &Ended, resolved: &Resolved) {
        let counters = &self.plan.context.counters;
        let last = &ended.last;
        let pod = &last.podref;
        if let Status::Malformed(reason) = &last.status {
            counters.annotations_unreadable.increment();
            warn!(%pod, %reason, "network-status cannot be read");
        }
        if let Request::Malformed(reason) = &last.request {
            counters.annotations_unreadable.increment();
            warn!(%pod, %reason, "networks annotation cannot be read");
        }
        if !resolved.unresolved.is_empty() {
            counters.left_to_sweep.increment();
            let networks = resolved.unresolved.len();
            let first = resolved.unresolved.iter().take(3).cloned();
            let first = first.collect::<Vec<_>>().join("; ");
            warn!(%pod, networks, reason = first, "network leads to no pool, its rows are left to the sweep");
        }
    }

    /// Tells how many cases there are, and whether one waits for nodes.
    fn tell(&self) {
        let open = self.cases.len() + self.ends.len();
        self.plan.depth.store(open, Ordering::Relaxed);
        let waits = self.cases.wait_for_nodes();
        self.plan.interest.send_if_modified(|interest| {
            let is_news = waits && !interest.is_awaited;
            interest.is_awaited = waits;
            is_news
        });
    }
}

//! A run: the client, evidence and settings that informers, turns, sweeps and releases share, and what is seen from outside.
//!
//! Made before the run starts, so that the admin server can answer while the API server is still out of reach.

use std::{
    collections::HashMap,
    fmt,
    hash::BuildHasher,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use ipgc_core::{
    definitions::Networks,
    evidence::Ended,
    judge::{Held, Unknown, Verdict, judge},
    known::{Evidence, Known},
    node::Nodes,
    plan::{Input, Outlook},
    podref::PodRef,
    pool::{ObservedPool, PoolKey, Row, RowContent, RowCount},
    refusal::Claims,
    text::excerpt,
    time::Moment,
    work::Wanted,
};
use jiff::Timestamp;
use kube::Client;
use tokio::{
    sync::{Notify, Semaphore, mpsc, watch},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::warn;

use super::{gate::Gate, groups::Groups, released::Released, roll};
use crate::{
    clock::{Clock, wall},
    config::Config,
    history::History,
    leader::Leadership,
    lock::lock,
    pulse::{Phase, Pulse},
    report::{self, Counters, Events, SweepReport},
    watch::Freshness,
};

/// Whether somebody waits for something that nodes or their Leases tell.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interest {
    /// Until when the Leases are of interest.
    pub until: Moment,
    /// Whether a case waits for a node.
    pub is_awaited: bool,
}

/// The client, evidence and settings of a run.
pub struct Context {
    pub config: Config,
    /// When this process began.
    pub started: Timestamp,
    /// How far the run has come.
    pub phase: watch::Sender<Phase>,
    /// Each watch, by the resource, and whether it is at work: from its first list on, unless it cannot begin for minutes.
    pub synced: [(&'static str, watch::Sender<bool>); 3],
    pub leadership: Leadership,
    /// Sends all requests but watches and access reviews.
    pub client: Client,
    /// Held while a single pool is read: bounds how many are in memory at a time.
    pub reading_pool: Semaphore,
    /// The questions about the pods of each namespace: their names.
    pub rolls: Groups<Vec<String>, roll::Answer>,
    /// The reservations that are to be deleted, by namespace: each time those of one pool.
    pub releases: Groups<(PoolKey, Vec<Wanted>, Moment), Released>,
    /// Whether reservations may be claimed, by their namespace.
    pub claims: Mutex<HashMap<String, Claims>>,
    /// Where work runs that is ended before the run ends.
    pub tasks: TaskTracker,
    /// Cancelled at shutdown: no new work begins.
    pub stop: CancellationToken,
    /// The evidence: see [`Context::evidence`].
    pub evidence: Mutex<Evidence>,
    /// Whether the watch of pods is heard.
    pub freshness: Arc<Freshness>,
    /// Held while nodes are read, which are the same for many who need them at the same time.
    pub reading_nodes: Semaphore,
    /// Held while all pools are read for reservations without a row: those of many pools are due at one moment.
    pub reading_pools: Semaphore,
    /// Whether the API server's data went back in time.
    pub history: Arc<History>,
    /// Takes news to the planner: see [`Context::plan`].
    pub planner: mpsc::Sender<Input>,
    /// Asks for a sweep before its time. Asked for again before it began, it is one all the same.
    pub sweep_wanted: Arc<Notify>,
    /// Tells that there is something to do about nodes: one changed, or there was a gap.
    pub node_news: Notify,
    /// Told when the Leases of nodes are of interest.
    pub interest: watch::Sender<Interest>,
    /// The messages about objects that were told, by a hash of uid and key, and when: of two with one hash, the second is
    /// not told.
    pub told: Mutex<HashMap<u64, Moment>>,
    pub clock: Clock,
    /// Where the sweep shows that it gets on.
    pub pulse: Arc<Pulse>,
    /// Cancelled when the time of `run --once` is over: no row is freed, no reservation is marked for a new case, and
    /// marked reservations are finished.
    pub closing: CancellationToken,
    /// Whether we have the rights to write, and the writes that the server refuses though we may send them.
    pub gate: Gate,
    /// Told how much work is open.
    pub outlook: watch::Sender<Outlook>,
    /// The findings of the last sweep.
    pub sweeps: watch::Sender<Arc<SweepReport>>,
    pub events: Events,
    pub counters: Arc<Counters>,
}

/// Most things that are remembered as told; a cluster with more of them hears of some twice.
const REMEMBERED: usize = 100_000;
/// After so long, what is still true is told again, if it is to be seen in the events: the API server
/// keeps them for an hour.
const TELL_AGAIN: Duration = Duration::from_mins(50);
/// After so long, what waits for leadership is looked at again: another copy has done it by then, or
/// nobody leads.
const STAND_BY: Duration = Duration::from_mins(1);

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").finish_non_exhaustive()
    }
}

impl Context {
    /// A context of its own, as a command has it that writes what a person decided: there are no watches and no sweeps,
    /// nobody else leads, and no events are sent. A run shares some parts with others, and puts these in their place.
    pub fn new(client: Client, config: Config) -> Self {
        let clock = Clock::start();
        let leadership = Leadership::always(clock);
        let gate = Gate::new(clock, client.clone());
        let counters = Arc::<Counters>::default();
        let evidence = Evidence::new(config.policy.clone(), config.breaker, Nodes::default());
        let (events, _) = report::channel(
            client.clone(),
            counters.clone(),
            "",
            leadership.clone(),
            true,
        );
        let resources = ["pods", "nodes", "network-attachment-definitions"];
        Self {
            client,
            started: wall(),
            phase: watch::Sender::new(Phase::New),
            synced: resources.map(|resource| (resource, watch::Sender::new(false))),
            leadership,
            reading_pool: Semaphore::new(config.workers.max(1)),
            rolls: Groups::default(),
            releases: Groups::default(),
            claims: Mutex::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            evidence: evidence.into(),
            freshness: Arc::new(Freshness::always(clock)),
            reading_nodes: Semaphore::new(1),
            reading_pools: Semaphore::new(1),
            history: Arc::default(),
            planner: mpsc::channel(1).0,
            sweep_wanted: Arc::default(),
            node_news: Notify::new(),
            interest: watch::Sender::default(),
            told: Mutex::default(),
            clock,
            pulse: Arc::default(),
            closing: CancellationToken::new(),
            gate,
            outlook: watch::Sender::default(),
            sweeps: watch::Sender::default(),
            events,
            counters,
            config,
        }
    }

    /// Whether this copy is the one that writes.
    pub fn is_leader(&self) -> bool {
        self.leadership.is_held()
    }

    /// Whether a write may be sent.
    pub fn may_write(&self) -> bool {
        self.is_leader() && self.gate.wait().is_zero()
    }

    /// Waits while another copy leads, and for a minute at the most; false if there was nothing to wait
    /// for. What was read before the wait is old after it.
    pub async fn stood_by(&self) -> bool {
        if self.is_leader() {
            return false;
        }
        let held = timeout(STAND_BY, self.leadership.held());
        self.stop.run_until_cancelled(held).await;
        true
    }

    /// The evidence, locked: for a moment, and never across a wait.
    pub fn evidence(&self) -> MutexGuard<'_, Evidence> {
        lock(&self.evidence)
    }

    /// Takes this to the planner, once there is room.
    pub async fn plan(&self, input: Input) {
        // The planner ends before those who tell it something.
        let _ = self.planner.send(input).await;
    }

    /// The facts about an owner at this moment: see [`Evidence::of`].
    pub fn known(&self, podref: &PodRef, own: &[Arc<Ended>], here: RowCount) -> Known {
        let evidence = self.evidence();
        evidence.of(podref, own, here, self.freshness.is_fresh())
    }

    /// The verdict on a row by what the watch tells, whatever other pods have its address.
    pub fn presume(&self, pool: &ObservedPool, row: &Row, known: &Known, now: Moment) -> Verdict {
        let evidence = self.evidence();
        let presence = evidence.presumption(row, known);
        let sighting = evidence.first_seen.get(pool.uid(), row);
        let networks = evidence.networks_of(pool.key(), pool.range);
        let of_pool = (pool.key(), pool.range, &networks);
        let facts = evidence.facts(of_pool, sighting, known, &[], now);
        judge(pool, row, &presence, &facts)
    }

    /// Whether this is news about a pool; told once, it is none any more.
    pub fn is_news(&self, pool_uid: &str, key: &str) -> bool {
        self.is_news_after(pool_uid, key, Duration::MAX)
    }

    /// Whether this is news, or was told so long ago that it is in no list of events any more.
    pub fn is_to_be_told(&self, pool_uid: &str, key: &str) -> bool {
        self.is_news_after(pool_uid, key, TELL_AGAIN)
    }

    fn is_news_after(&self, pool_uid: &str, key: &str, again: Duration) -> bool {
        // Another copy tells it. Should this one lead one day, it is news then.
        if !self.is_leader() {
            return false;
        }
        let now = self.clock.now();
        let mut told = lock(&self.told);
        if told.len() >= REMEMBERED {
            told.clear();
        }
        let key = told.hasher().hash_one((pool_uid, key));
        let news = told.get(&key).is_none_or(|then| now.since(*then) >= again);
        if news {
            told.insert(key, now);
        }
        news
    }

    /// Says that a row is kept, if that is news.
    pub fn report_unknown(&self, pool: &ObservedPool, row: &Row, reason: &Unknown) {
        if self.is_news(pool.uid(), row.key()) {
            self.counters.rows_unknown.inc();
            let key = excerpt(row.key());
            let podref = row.podref_text().map(excerpt);
            warn!(pool = %pool.key(), key, podref, %reason, "row kept");
        }
    }

    /// A row was observed again, and is held. A row of a ResourceClaim waits from when it is known that no claim reports
    /// its address any more.
    pub fn see_held(&self, pool_uid: &str, row: &Row, content: &RowContent, now: Moment) {
        let first_seen = &mut self.evidence().first_seen;
        if content.resource_claim().is_some() {
            first_seen.forget_one(pool_uid, row.key());
        } else {
            first_seen.see_again(pool_uid, row, now);
        }
    }

    /// The Leases of nodes are of interest until then.
    pub fn want_leases(&self, until: Moment) {
        self.interest.send_if_modified(|interest| {
            let is_longer = interest.until < until;
            interest.until = interest.until.max(until);
            is_longer
        });
    }

    /// The networks that a pool may be of, as its name tells.
    pub fn networks_of(&self, observed: &ObservedPool) -> Networks {
        self.evidence().networks_of(observed.key(), observed.range)
    }

    /// A row is held for a pod that is not its own: the end of that pod is a reason to look again.
    pub fn report_in_use(&self, pool: &PoolKey, pool_uid: &str, row: &RowContent, held: &Held) {
        let (Held::InUse(pod) | Held::OthersSandbox(pod)) = held else {
            return;
        };
        self.evidence().pods.in_use.insert(pod.clone());
        if self.is_to_be_told(pool_uid, &format!("in-use/{}/{pod}", row.address)) {
            let (address, podref) = (row.address, &row.podref);
            warn!(%pool, %address, %podref, reason = %held, "row held for another pod");
            self.events.held_in_use(pool, pool_uid, row, held);
        }
    }
}

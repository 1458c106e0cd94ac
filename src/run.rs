//! One run of the collector: what is started, in which order, and how it ends.
//!
//! Informers first; the planner only when every cache has finished its first list, and with it the
//! candidacy; on shutdown the planner first, then the turns in flight, then the Lease and the events. The caller sees each step as a
//! [`Phase`] and gets the error of a run that failed.

use std::{collections::HashSet, future::Future, sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use ipgc_core::{known::Evidence, node::Nodes, plan::Input, routes::KnownPools};
use kube::Client;
use tokio::{
    sync::{Notify, mpsc},
    task::{JoinError, JoinHandle, JoinSet},
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    calls::{asks_twice, patient},
    clock::Clock,
    collect::{
        context::Context,
        gate::Gate,
        intake::{NadSink, NodeSink, PodSink},
    },
    config::Config,
    empty_pools::delete_empty_pools,
    guard::{read_only, while_leading},
    history::History,
    leader::{Elector, Leadership},
    report::{self, Counters, counted},
    watch::{Freshness, follow},
};

pub use crate::pulse::Phase;

/// How long a shutdown waits for patches in flight: with the events below within the 10 s that an
/// administrator was promised.
const DRAIN: Duration = Duration::from_secs(8);
/// How long a shutdown waits for events.
const DRAIN_EVENTS: Duration = Duration::from_secs(1);

/// A collector that was not started yet.
pub struct Collector {
    /// The client for requests, by which they are counted.
    pub requests: Client,
    /// The run as it is seen from outside, before it starts and from then on.
    pub context: Arc<Context>,
    watches: Client,
    elector: Option<Elector>,
    inputs: mpsc::Receiver<Input>,
    send_events: BoxFuture<'static, ()>,
}

/// A collector that runs. Dropping it does not stop it.
pub struct Running {
    /// The run as it is seen from outside.
    pub context: Arc<Context>,
    task: JoinHandle<Result<(), String>>,
}

impl Collector {
    /// A collector that sends its requests through one client and its watches through another.
    /// Both may be the same; over HTTP/1.1 each watch holds a connection.
    pub fn new(requests: Client, watches: Client, config: Config) -> Self {
        let clock = Clock::start();
        let freshness = Arc::new(Freshness::new(clock));
        let history = Arc::new(History::default());
        let counters = Arc::new(Counters::default());
        let [requests, watches] =
            [requests, watches].map(|client| counted(client, &counters.requests));
        let sweep_wanted = Arc::<Notify>::default();
        let (elector, leadership) = match config.election() {
            None => (None, Leadership::always(clock)),
            Some(namespace) => {
                let (client, instance) = (requests.clone(), &config.instance);
                let (epoch, sweep) = (history.subscribe(), sweep_wanted.clone());
                let (elector, leadership) =
                    Elector::new(client, namespace, instance, clock, epoch, sweep);
                (Some(elector), leadership)
            }
        };
        // No decision is relied on for what a dry run promises.
        let client = if config.dry_run {
            read_only(requests.clone())
        } else {
            requests.clone()
        };
        // A copy tells what it freed even if it leads no more when the event is sent.
        let (events, send_events) = report::channel(
            client.clone(),
            counters.clone(),
            &config.instance,
            leadership.clone(),
            config.dry_run,
        );
        // Nor on any for that another copy leads.
        let client = patient(asks_twice(while_leading(client, leadership.clone())));
        // Its room is taken only by what is in it.
        let (planner, inputs) = mpsc::channel(config.queue_capacity.max(1));
        let mut evidence = Evidence::new(config.policy.clone(), config.breaker, Nodes::default());
        let namespace = config.pool_namespace.as_deref();
        evidence.pools = KnownPools::new(namespace, std::iter::empty(), Vec::new());
        let context = Context {
            // An access review is a POST, and the copy that writes has just led.
            gate: Gate::new(clock, requests.clone()),
            freshness: freshness.clone(),
            evidence: evidence.into(),
            history: history.clone(),
            planner,
            sweep_wanted,
            clock,
            leadership,
            events,
            counters,
            ..Context::new(client, config)
        };
        Self {
            requests,
            watches: freshness.listen(watches, &history),
            elector,
            inputs,
            send_events: send_events.boxed(),
            context: Arc::new(context),
        }
    }

    /// Starts the run on the current tokio runtime.
    pub fn start(self) -> Running {
        let context = self.context.clone();
        context.phase.send_replace(Phase::Starting);
        let task = tokio::spawn(self.run());
        Running { context, task }
    }

    async fn run(self) -> Result<(), String> {
        let context = self.context;
        let _done = Done(context.clone());
        let (watches, history, stop) = (self.watches, &context.history, &context.stop);
        let events_sent = tokio::spawn(self.send_events);
        // The context holds the history.
        let run = Arc::downgrade(&context);
        history.on_back(move |note| {
            let Some(context) = run.upgrade() else { return };
            let mut evidence = context.evidence();
            context.freshness.lose();
            evidence.distrust(context.clock.now());
            drop(evidence);
            context.counters.history_went_back.inc();
            context.events.history_went_back(note);
        });

        let mut background = JoinSet::new();
        let [pods_synced, nodes_synced, nads_synced] =
            context.synced.each_ref().map(|(_, synced)| synced.clone());
        let sink = PodSink(context.clone());
        let informer = follow(watches.clone(), sink, pods_synced, history.clone());
        background.spawn(named("the pod informer", informer));
        let sink = NodeSink {
            context: context.clone(),
            listed: None,
        };
        let informer = follow(watches.clone(), sink, nodes_synced, history.clone());
        background.spawn(named("the node informer", informer));
        let sink = NadSink {
            context: context.clone(),
            listed: HashSet::new(),
        };
        let informer = follow(watches, sink, nads_synced, history.clone());
        background.spawn(named("the definition informer", informer));
        if context.config.collect_empty_pools {
            let looking = delete_empty_pools(context.clone());
            background.spawn(named("the look for empty pools", looking));
        }
        let keeping = context.clone().keep_nodes();
        background.spawn(named("the keeper of nodes", keeping));
        let caches = async {
            for (_, synced) in &context.synced {
                // The sender is here, so this cannot fail.
                let _ = synced.subscribe().wait_for(|synced| *synced).await;
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            ended = background.join_next() => return Err(unexpected(ended)),
            () = context.pulse.through(caches) => {}
        }

        let sweeping = context.clone().run_sweeps();
        background.spawn(named("the sweep", sweeping));
        let leading = watch_leadership(context.clone());
        background.spawn(named("the watch over leadership", leading));
        info!(workers = context.config.workers, "ready");
        let mut planner = JoinSet::new();
        let planning = context.clone().run_planner(self.inputs);
        planner.spawn(named("the planner", planning));
        // Only now, so that the copy that leads can work at once.
        let election_over = CancellationToken::new();
        let mut election = JoinSet::new();
        if let Some(elector) = self.elector {
            election.spawn(named("the election", elector.run(election_over.clone())));
        }
        context.phase.send_replace(Phase::Ready);

        let result = tokio::select! {
            // First: a stop ends the planner too, and that is no failure.
            biased;
            () = stop.cancelled() => Ok(()),
            ended = background.join_next() => Err(unexpected(ended)),
            Some(ended) = election.join_next() => Err(unexpected(Some(ended))),
            ended = planner.join_next() => Err(unexpected(ended)),
        };
        stop.cancel();
        let drain = async {
            while planner.join_next().await.is_some() {}
            context.tasks.close();
            context.tasks.wait().await;
        };
        let drained = timeout(DRAIN, drain).await;
        let drained =
            drained.map_err(|_| format!("shutdown took longer than {}s", DRAIN.as_secs()));
        background.shutdown().await;
        planner.shutdown().await;
        // Only now: what was in flight was allowed by it.
        election_over.cancel();
        let given_back = async { while election.join_next().await.is_some() {} };
        // All that could send events is gone by now, unless the drain took too long.
        if drained.is_ok() {
            context.events.close();
        }
        let (events_sent, ()) = tokio::join!(timeout(DRAIN_EVENTS, events_sent), given_back);
        if events_sent.is_err() {
            warn!("events were left unsent");
        }
        result.and(drained)
    }
}

/// Tells that a run is over, however it ended.
struct Done(Arc<Context>);

impl Drop for Done {
    fn drop(&mut self) {
        self.0.phase.send_replace(Phase::Done);
        self.0.events.close();
    }
}

impl Running {
    /// Waits until all caches are complete and the planner runs; false if the run ended before.
    pub async fn ready(&mut self) -> bool {
        let mut phase = self.context.phase.subscribe();
        let reached = phase.wait_for(|phase| *phase != Phase::Starting).await;
        reached.is_ok_and(|phase| *phase == Phase::Ready)
    }

    /// Ends the run: nothing new is begun, patches in flight end.
    pub fn stop(&self) {
        self.context.stop.cancel();
    }

    /// Waits for the end of the run.
    ///
    /// # Errors
    /// One line about why it failed, unless it was stopped and ended in time.
    pub async fn done(self) -> Result<(), String> {
        self.task.await.map_err(|error| panicked(&error))?
    }
}

/// A copy that begins to lead looks for work that the copy before it left undone.
async fn watch_leadership(context: Arc<Context>) {
    loop {
        context.leadership.held().await;
        context.sweep_wanted.notify_one();
        context.plan(Input::TookOver).await;
        context.leadership.lost().await;
    }
}

async fn named(name: &'static str, task: impl Future<Output = ()>) -> &'static str {
    task.await;
    name
}

fn unexpected(ended: Option<Result<&'static str, JoinError>>) -> String {
    match ended {
        Some(Ok(name)) => format!("{name} ended unexpectedly"),
        Some(Err(error)) => panicked(&error),
        None => "every task ended unexpectedly".to_owned(),
    }
}

fn panicked(error: &JoinError) -> String {
    format!("a task panicked: {error}")
}

//! The planner's task: it gives events and the results of turns to [`Planner`], begins turns, and tells what became of
//! cases.
//!
//! A turn makes the requests, and answers for each case. When a case is due again, [`Planner`] decides.

use std::{iter, sync::Arc, time::Duration};

use ipgc_core::{
    cases::Next,
    evidence::Ended,
    networks::{Request, Status},
    plan::{Effect, Input, Planner, Terms, TurnEnded},
};
use tokio::{sync::mpsc, time::sleep};
use tracing::{debug, warn};

use super::{context::Context, turn};
use crate::backoff::Backoff;

/// Upper limit of the news that are taken in before something else is done.
const NEWS_AT_ONCE: usize = 1_000;

impl Context {
    /// Plans until the stop. `inputs` are the news.
    pub async fn run_planner(self: Arc<Self>, mut inputs: mpsc::Receiver<Input>) {
        // A turn has three answers at the most.
        let (answers, mut answered) = mpsc::unbounded_channel();
        let mut planner = Planner::default();
        loop {
            for batch in planner.begin(self.clock.now()) {
                let (context, answers) = (Arc::clone(&self), answers.clone());
                let turn = async move { turn::work(&context, batch, &answers).await };
                self.tasks.spawn(turn);
            }
            self.tell_outlook(&planner);
            let next = planner.next();
            let next = next.map_or(Duration::MAX, |next| self.clock.until(next));
            let first = tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                Some(answer) = answered.recv() => Some(answer),
                Some(input) = inputs.recv() => Some(input),
                () = sleep(next) => None,
            };
            let more = || answered.try_recv().or_else(|_| inputs.try_recv()).ok();
            let news = first.into_iter().chain(iter::from_fn(more));
            for input in news.take(NEWS_AT_ONCE) {
                self.take_in(&mut planner, input);
            }
        }
        // The turns in flight end, and what they did is told.
        drop(answers);
        while let Some(answer) = answered.recv().await {
            self.take_in(&mut planner, answer);
        }
    }

    fn take_in(&self, planner: &mut Planner, input: Input) {
        let config = &self.config;
        let backoff = Backoff::new(config.retry_from, config.retry_to);
        let terms = Terms {
            capacity: config.queue_capacity,
            retry_after: &|failures| {
                (failures < config.max_retries).then(|| backoff.wait_after(failures))
            },
        };
        let now = self.clock.now();
        let effects = planner.take(input, &mut self.evidence(), &terms, now);
        for effect in effects {
            match effect {
                Effect::Sweep => self.sweep_wanted.notify_one(),
                Effect::Routed(ended, unresolved) => self.report_unresolved(&ended, &unresolved),
                Effect::LeftToSweep(pod) => {
                    self.counters.queue_overflows.inc();
                    match pod {
                        Some(pod) => {
                            warn!(%pod, "too much work is open, pod is left to the sweep");
                        }
                        None => {
                            warn!("too much work is open, the rest is left to the next sweep");
                        }
                    }
                }
                Effect::TurnEnded(case) => self.report_case(&case),
            }
        }
    }

    /// Tells what became of a case after its turn.
    fn report_case(&self, case: &TurnEnded) {
        let (pool, pod) = &case.key;
        let reason = case.failure.as_deref().unwrap_or_default();
        match case.next {
            Next::Closed => {}
            Next::Waits(until) => {
                let wait = self.clock.until(until);
                debug!(%pod, %pool, ?wait, "not free to go yet");
            }
            Next::Retries(wait) => warn!(%pod, %pool, reason, ?wait, "will try again"),
            Next::GivenUp => self.give_up(case, reason),
        }
    }

    fn give_up(&self, case: &TurnEnded, reason: &str) {
        let (pool, pod) = &case.key;
        warn!(%pod, reason, "retries are used up");
        self.counters.retries_exhausted.inc();
        // The next sweep, in its own time, finds again the rows that a sweep found.
        if case.ended.is_some() {
            self.sweep_wanted.notify_one();
        }
        // Sweeps try again as long as the failure lasts, and fail again.
        if self.is_to_be_told(&pool.to_string(), &format!("given up/{pod}")) {
            let uid = case.ended.as_ref().map_or("", |ended| &ended.last.uid);
            self.events.collection_failed(pod, uid);
        }
    }

    /// Says of an incarnation what could not be read or followed.
    fn report_unresolved(&self, ended: &Ended, unresolved: &[String]) {
        let counters = &self.counters;
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
        if !unresolved.is_empty() {
            counters.left_to_sweep.inc();
            let networks = unresolved.len();
            let first = unresolved.iter().take(3).cloned();
            let first = first.collect::<Vec<_>>().join("; ");
            warn!(%pod, networks, reason = first, "network leads to no pool, its rows are left to the sweep");
        }
    }

    /// Tells how much work is open, and whether a case waits for nodes.
    fn tell_outlook(&self, planner: &Planner) {
        self.outlook.send_replace(planner.outlook());
        let waits = planner.waits_for_nodes();
        self.interest.send_if_modified(|interest| {
            let is_news = waits && !interest.is_awaited;
            interest.is_awaited = waits;
            is_news
        });
    }
}

//! The sweep: finds rows that may go by looking at all of them.
//!
//! It needs no NetworkAttachmentDefinition and no event. So it finds rows that leaked while ipgc did not run, rows of pools
//! whose definition was deleted or edited, and rows whose case was given up after too many failures. It reads a few pools at
//! a time, and keeps only rows that may be freed. A pool that cannot be read does not stop the sweep of the others. The
//! sweep frees nothing itself: the planner opens a case for each owner that it finds, unless one is open already.
//!
//! A sweep has no state of its own. If it is cut off, the next sweep finds the same rows.

mod read;

use std::{sync::Arc, time::Duration};

use futures::FutureExt;
use ipgc_core::{
    known::Overlaps,
    patch::Answer,
    plan::Input,
    routes::{KnownPools, slice_pools},
    time::Moment,
};
use tokio::time::sleep;
use tracing::{info, warn};

use self::read::SweepRead;
use super::context::Context;
use crate::{backoff::Backoff, calls::CallError, chance, clock::wall, report::SweepReport};

/// Shortest time from the end of a sweep to the beginning of the next, however often a sweep is asked for.
const PAUSE: Duration = Duration::from_secs(10);

impl Context {
    /// Sweeps as soon as the pod watch is heard, then at intervals and when asked, for ever.
    pub async fn run_sweeps(self: Arc<Self>) {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
        loop {
            // A sweep notes a row's sandbox with its live pod only while the watch is fresh. Without the note, the row
            // must be seen once more after the pod's end.
            self.freshness.caught_up().await;
            self.pulse.beat();
            // A request from before this one began is served by it.
            let _ = self.sweep_wanted.notified().now_or_never();
            let begun = self.clock.now();
            let (least, wait) = match self.sweep(begun).await {
                Ok(mut report) => {
                    backoff.reset();
                    self.counters.sweeps_ended.inc();
                    let took = self.clock.now().since(begun);
                    let counters = &self.counters;
                    counters.sweep_duration.observe(took.as_secs_f64());
                    let before = Arc::clone(&self.sweeps.borrow());
                    report.log(&before, begun, self.clock.now());
                    self.plan(Input::SweepEnded(begun)).await;
                    report.ended_at = Some(wall());
                    self.sweeps.send_replace(Arc::new(report));
                    // Replicas and clusters that started together must not sweep together.
                    let wait = chance::part_of(self.config.sweep_interval, 0.9..1.1);
                    (wait.min(PAUSE), wait)
                }
                Err(error) => {
                    self.counters.sweeps_failed.inc();
                    let wait = backoff.next_wait();
                    warn!(%error, ?wait, "sweep failed");
                    // However often a sweep is asked for meanwhile, the next one would fail as well.
                    (wait, wait)
                }
            };
            let pause = async {
                sleep(least).await;
                tokio::select! {
                    biased;
                    () = sleep(wait.saturating_sub(least)) => {}
                    () = self.sweep_wanted.notified() => {}
                }
            };
            self.pulse.through(pause).await;
        }
    }

    /// If reservations cannot be listed, the rows are swept, and the sweep counts as failed.
    async fn sweep(&self, begun: Moment) -> Result<SweepReport, String> {
        let gate = &self.gate;
        let namespace = self.config.pool_namespace.as_deref();
        let (slices, listed) = match self.pulse.through(self.slices(namespace)).await {
            Ok(listed) => {
                let mut slices = slice_pools(&listed);
                let evidence = &mut *self.evidence();
                evidence.slices_by_name.clone_from(&slices);
                let shared = &mut evidence.shared_slices;
                shared.retain(|pool| slices.contains_key(pool));
                slices.retain(|pool, _| !shared.contains(pool));
                evidence
                    .slices
                    .retain(|pool, node| slices.get(pool) == Some(node));
                (slices, listed)
            }
            // Those of the last sweep count on, and without any every node may block, which is safe.
            Err(error) => {
                // Before version 0.9 whereabouts has no such kind.
                if error.answer() != Answer::Gone {
                    warn!(%error, "node slices cannot be listed");
                }
                let evidence = self.evidence();
                (evidence.slices.clone(), evidence.pools.slices.clone())
            }
        };
        if self.config.resource_claims {
            let claims = self.pulse.through(self.resource_claims()).await;
            if let Err(reason) = &claims {
                warn!(reason, "rows of ResourceClaims are kept");
            }
            self.evidence().resource_claims = claims;
        }
        self.evidence().pods.begin_sweep();
        let mut read = SweepRead::new(self, namespace, slices);
        let reservations = read.at_reservations().await;
        let unread = |error: CallError| format!("pools cannot be read: {error}");
        let pools = read.at_pools().await;
        gate.listed("list pools", &pools);
        pools.map_err(unread)?;
        {
            let evidence = &mut *self.evidence();
            evidence.networks = read.networks();
            evidence.pools = KnownPools::new(namespace, read.pools(), listed);
        }
        read.again().await.map_err(unread)?;
        gate.listed("list reservations", &reservations);
        if reservations.is_ok() {
            gate.note_read().await;
        }
        let overlaps = read.overlaps();
        read.usage();
        let (found, mut report) = read.end();
        {
            let mut evidence = self.evidence();
            // A pool that cannot be read may overlap any.
            evidence.overlaps = Overlaps::default();
            if report.pools_unreadable == 0 {
                evidence.overlaps = overlaps;
                let pods = &mut evidence.pods;
                let wait = self.config.policy.wait(None, pods.longest_grace(), 1);
                if reservations.is_ok() {
                    pods.end_sweep(begun, wait);
                }
            }
        }
        report.breaker_open = self.assess_breaker(&report, begun);
        self.plan(Input::Found(found)).await;
        match reservations {
            Ok(()) => Ok(report),
            Err(error) => {
                // Rows are shown as they are. Everything was seen when the sweep before says.
                report.ended_at = self.sweeps.borrow().ended_at;
                self.sweeps.send_replace(Arc::new(report));
                Err(format!("reservations cannot be listed: {error}"))
            }
        }
    }

    /// Whether the breaker is open by what the sweep found.
    fn assess_breaker(&self, report: &SweepReport, begun: Moment) -> bool {
        let wall = wall();
        let count = (report.suspect, report.rows);
        let (changed, open_since) = {
            let evidence = &mut *self.evidence();
            let limits = &evidence.limits;
            let changed = evidence.breaker.assess(limits, count, begun, wall);
            (changed, evidence.breaker.open_since)
        };
        let (suspect, rows) = count;
        if changed && open_since.is_some() {
            warn!(
                suspect,
                rows, "breaker open: too many rows have lost their pods without anybody seeing it"
            );
        } else if changed {
            info!(suspect, rows, "breaker closed");
        }
        let Some(since) = open_since else {
            return false;
        };
        for (pool, uid, stopped) in &report.suspect_pools {
            // It may stay open for as long as a node blocks these rows.
            if self.is_news(uid, &format!("open/{since}/{stopped}")) {
                self.events.breaker_open(pool, uid, *stopped, since);
            }
        }
        true
    }
}

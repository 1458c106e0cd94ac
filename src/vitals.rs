//! What is to be seen of a run from outside: whether it lives, whether it is ready, and what it holds.
//!
//! Made before the run starts, so that the admin server can answer while the API server is still out of
//! reach; the parts of the run are entered as they come into being. Everything here is read, nothing is
//! decided.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use jiff::Timestamp;
use tokio::sync::watch;

use crate::{
    clock::Clock,
    collect::{
        evidence::SharedEvidence,
        planner::Outlook,
        sweep::{SweepHealth, SweepReport},
    },
    leader::Leadership,
    pulse::Pulse,
    report::Counters,
};

/// A sweep that has not got on for so long hangs: its longest step is a request, which ends after 20 s, and waits
/// beat twice a minute.
const STUCK: Duration = Duration::from_mins(5);

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The caches are not complete; nothing is freed.
    Starting,
    /// All caches are complete and the planner runs.
    Ready,
    /// The run has ended.
    Done,
}

/// What is to be seen of a run from outside.
#[derive(Debug)]
pub struct Vitals {
    started: Timestamp,
    pulse: Arc<Pulse>,
    counters: Arc<Counters>,
    course: OnceLock<Course>,
    caches: OnceLock<Caches>,
    leadership: Leadership,
}

/// How a run goes.
#[derive(Debug)]
pub struct Course {
    /// How far it has come.
    pub phase: watch::Receiver<Phase>,
    /// Whether the API server lets us write.
    pub may_write: watch::Receiver<bool>,
    /// How the sweeps go.
    pub sweeps: watch::Receiver<SweepHealth>,
}

/// What a run knows and has to do.
pub struct Caches {
    /// Each watch, by the resource, and whether its first list is complete.
    pub synced: [(&'static str, watch::Receiver<bool>); 3],
    /// How much work is open.
    pub outlook: watch::Receiver<Outlook>,
    /// What is known, of which the number of pods is shown.
    pub evidence: SharedEvidence,
}

impl fmt::Debug for Caches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caches").finish_non_exhaustive()
    }
}

impl Vitals {
    /// Of a run that was not started yet.
    #[must_use]
    pub(crate) fn new(clock: Clock, leadership: Leadership, counters: Arc<Counters>) -> Self {
        Self {
            started: Timestamp::now(),
            pulse: Arc::new(Pulse::new(clock)),
            counters,
            course: OnceLock::new(),
            caches: OnceLock::new(),
            leadership,
        }
    }

    /// The run has started.
    pub(crate) fn begin(&self, course: Course) {
        // A run starts once.
        let _ = self.course.set(course);
    }

    /// What the run knows from now on.
    pub(crate) fn fill(&self, caches: Caches) {
        let _ = self.caches.set(caches);
    }

    /// Where the sweep shows that it gets on.
    pub(crate) fn pulse(&self) -> &Arc<Pulse> {
        &self.pulse
    }

    /// When this process began, in seconds since 1970.
    #[must_use]
    pub fn started(&self) -> f64 {
        self.started.as_duration().as_secs_f64()
    }

    /// Whether this process leads.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.leadership.is_held()
    }

    /// Whether the run gets on: false when its sweep has hung for five minutes. One that fails gets on, for a new
    /// process would fail too, and know less: what was seen ending is lost with this one. Whoever does not lead sweeps
    /// all the same.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        // Before it starts, it asks for its rights, each under a deadline, and nothing can hang.
        self.course.get().is_none() || self.pulse.silence() <= STUCK
    }

    /// What is missing until the run is ready, in a few words each. A cache whose first list is complete
    /// stays so.
    #[must_use]
    pub fn not_ready(&self) -> Vec<String> {
        let Some(course) = self.course.get() else {
            return vec![
                "not started: the API server has not said yet which rights there are".to_owned(),
            ];
        };
        if *course.phase.borrow() == Phase::Done {
            return vec!["the run has ended".to_owned()];
        }
        let unsynced = self.synced().filter(|(_, synced)| !synced);
        let mut missing: Vec<_> = unsynced
            .map(|(resource, _)| format!("the first list of {resource} is not complete"))
            .collect();
        if self.caches.get().is_none() {
            missing.push("the watches have not begun".to_owned());
        }
        if *course.phase.borrow() == Phase::Ready && !self.leadership.is_known() {
            missing.push("the Lease could neither be read nor written".to_owned());
        }
        if !*course.may_write.borrow() {
            missing.push("the API server does not allow us to write".to_owned());
        }
        missing
    }

    /// What is counted.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Each watch, by its resource, and whether its first list is complete.
    pub fn synced(&self) -> impl Iterator<Item = (&'static str, bool)> {
        let synced = self
            .caches
            .get()
            .into_iter()
            .flat_map(|caches| &caches.synced);
        synced.map(|(resource, synced)| (*resource, *synced.borrow()))
    }

    /// Ends of pods and cases in work or waiting.
    #[must_use]
    pub fn queue_depth(&self) -> usize {
        let caches = self.caches.get();
        caches.map_or(0, |caches| caches.outlook.borrow().open)
    }

    /// Live pods that can have rows.
    #[must_use]
    pub fn pods_indexed(&self) -> usize {
        self.caches
            .get()
            .map_or(0, |caches| caches.evidence.lock().pods.len())
    }

    /// When the last sweep ended, in seconds since 1970; zero before the first.
    #[must_use]
    pub fn last_sweep(&self) -> f64 {
        let course = self.course.get();
        let ended = course.and_then(|course| course.sweeps.borrow().ended_at);
        ended.map_or(0.0, |ended| ended.as_duration().as_secs_f64())
    }

    /// What the last sweep found; `None` before the first one, and while another copy leads, which shows the
    /// same.
    #[must_use]
    pub fn report(&self) -> Option<Arc<SweepReport>> {
        let sweeps = self.course.get()?.sweeps.borrow();
        (sweeps.ended.is_some() && self.is_leader()).then(|| Arc::clone(&sweeps.report))
    }
}

#[cfg(test)]
mod tests {
    use ipgc_core::time::Moment;
    use tokio::time::sleep;

    use super::*;

    fn vitals() -> (Vitals, watch::Sender<SweepHealth>, watch::Sender<bool>) {
        let clock = Clock::start();
        let vitals = Vitals::new(clock, Leadership::always(clock), Arc::default());
        let (sweep, sweeps) = watch::channel(SweepHealth::default());
        let (may_write, writable) = watch::channel(true);
        vitals.begin(Course {
            phase: watch::channel(Phase::Ready).1,
            may_write: writable,
            sweeps,
        });
        (vitals, sweep, may_write)
    }

    async fn seconds(seconds: u64) {
        sleep(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn five_minutes_without_a_step_are_no_life() {
        let (vitals, _, _) = vitals();
        seconds(300).await;
        assert!(vitals.is_alive());
        seconds(1).await;
        assert!(!vitals.is_alive());
        vitals.pulse().beat();
        assert!(vitals.is_alive());
        vitals.pulse().through(seconds(86_400)).await;
        assert!(vitals.is_alive(), "a long wait is no illness");
        seconds(301).await;
        assert!(!vitals.is_alive());
    }

    #[tokio::test(start_paused = true)]
    async fn what_sweeps_found_is_shown_after_the_first_one() {
        let (vitals, sweep, _) = vitals();
        assert!(vitals.is_leader() && vitals.report().is_none());
        sweep.send_modify(|health| health.ended = Some(Moment::EPOCH));
        assert!(vitals.report().is_some());
    }
}

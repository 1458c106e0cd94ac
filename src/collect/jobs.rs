//! The jobs of one turn, by podref: whom rows are freed for, what is known of how they ended, and
//! which removals were asked for.
//!
//! Everything here is looked up, never read from the API server; and nothing is quadratic in the
//! size of the batch.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};

use ipgc_core::{
    evidence::Ended,
    judge::Release,
    podref::PodRef,
    pool::{ObservedPool, PoolKey},
    time::Moment,
};

use super::{
    item::{Item, Removed},
    job::{Job, Outcome},
};
use crate::watch::PodIndex;

/// All jobs of one turn on one pool.
pub struct Jobs {
    pool: PoolKey,
    by_podref: BTreeMap<PodRef, Vec<Job>>,
}

/// What is known of a podref when its rows are judged.
pub struct Known {
    /// Its incarnations, in the order of their ends.
    pub ended: Vec<Arc<Ended>>,
    /// How many DELs the kubelet has to do for it: as many as it has rows in this pool, or was
    /// expected to have anywhere.
    pub rows: usize,
    /// Whether one of that name is alive, as far as the watch tells. Where the API server says that
    /// there is none, its end is on its way, and what it ended with is evidence too.
    pub live: bool,
}

impl Jobs {
    /// The jobs of a turn on `pool`.
    #[must_use]
    pub fn new(pool: &PoolKey, jobs: Vec<Job>) -> Self {
        let mut by_podref = BTreeMap::<_, Vec<_>>::new();
        for job in jobs {
            let podref = job.item.ended().podref().clone();
            by_podref.entry(podref).or_default().push(job);
        }
        for jobs in by_podref.values_mut() {
            jobs.sort_by_key(|job| job.item.ended().at);
        }
        Self {
            pool: pool.clone(),
            by_podref,
        }
    }

    /// The podrefs that the turn works for.
    #[must_use]
    pub fn podrefs(&self) -> BTreeSet<PodRef> {
        self.by_podref.keys().cloned().collect()
    }

    /// What is known of the podrefs at this moment: from the index, and from the jobs themselves,
    /// which the index may have forgotten. While the watch is not `fresh`, somebody unseen may have
    /// taken the rows over up to `now`.
    #[must_use]
    pub fn known(
        &self,
        index: &Mutex<PodIndex>,
        fresh: bool,
        now: Moment,
        observed: &ObservedPool,
    ) -> HashMap<PodRef, Known> {
        let mut rows = HashMap::<&str, usize>::new();
        for podref in observed.rows().iter().filter_map(|row| row.podref_text()) {
            *rows.entry(podref).or_default() += 1;
        }
        let index = index.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.by_podref.iter().map(|(podref, jobs)| {
            let mut ended = index.ended(podref);
            for own in jobs.iter().map(|job| job.item.ended()) {
                if !ended.iter().any(|other| other.last.uid == own.last.uid) {
                    ended.push(Arc::clone(own));
                }
            }
            ended.sort_by_key(|end| end.at);
            let expected = ended.iter().map(|end| end.expected_rows()).max();
            let here = rows.get(podref.as_str()).copied();
            let rows = here.max(expected).unwrap_or(0);
            if !fresh {
                for end in ended.iter_mut().filter(|end| end.last.name_may_return) {
                    *end = Arc::new(Ended {
                        doubt_until: Some(now),
                        ..Ended::clone(end)
                    });
                }
            }
            let live = index.is_live(podref);
            (podref.clone(), Known { ended, rows, live })
        });
        known.collect()
    }

    /// Remembers what is about to be removed, in case the answer is lost.
    pub fn note_attempt(&self, releases: &[Release<'_>]) {
        self.forget_attempt(releases);
        for release in releases {
            // Rows are freed for the last incarnation of their podref.
            let jobs = self.by_podref.get(&release.content().podref);
            if let Some(job) = jobs.and_then(|jobs| jobs.last()) {
                let removed = Removed::attempt(&self.pool, release, &job.routes);
                job.item.progress().removed.push(removed);
            }
        }
    }

    /// A rejected patch removed nothing: rows that are gone later, others removed.
    pub fn forget_attempt(&self, releases: &[Release<'_>]) {
        let keys: HashSet<_> = releases.iter().map(|release| release.row().key()).collect();
        self.retain(|removed| removed.confirmed || !keys.contains(removed.row.key()));
    }

    /// The patch was answered with 200: its rows are gone.
    #[must_use]
    pub fn confirm(&self, releases: &[Release<'_>]) -> Vec<(Arc<Item>, Removed)> {
        let keys: HashSet<_> = releases.iter().map(|release| release.row().key()).collect();
        self.confirm_if(|removed| keys.contains(removed.row.key()))
    }

    /// The pool is gone, and with it every row whose removal was asked for.
    #[must_use]
    pub fn confirm_all(&self) -> Vec<(Arc<Item>, Removed)> {
        self.confirm_if(|_| true)
    }

    /// Rows whose removal was asked for in an earlier try, or without a clear answer, and which
    /// are no longer there.
    #[must_use]
    pub fn confirm_missing(&self, observed: &ObservedPool) -> Vec<(Arc<Item>, Removed)> {
        let rows: HashMap<_, _> = observed.rows().iter().map(|r| (r.key(), r)).collect();
        // The same owner with another content: a successor adopted the row. Whether it was ever
        // gone nobody can tell, so it is not ours to report, nor is its reservation.
        let adopted = |removed: &Removed| {
            rows.get(removed.row.key()).is_some_and(|row| {
                row.podref_text() == Some(removed.content.podref.as_str())
                    && row.stored() != removed.row.stored()
            })
        };
        self.retain(|removed| removed.confirmed || !adopted(removed));
        self.confirm_if(|removed| !rows.contains_key(removed.row.key()))
    }

    /// Rows that are gone and whose reservations are not done, this turn's and earlier ones'.
    #[must_use]
    pub fn gone(&self) -> Vec<(Arc<Item>, Removed)> {
        let mut gone = Vec::new();
        for job in self.all() {
            for removed in &job.item.progress().removed {
                if removed.confirmed && removed.pool == self.pool {
                    gone.push((Arc::clone(&job.item), removed.clone()));
                }
            }
        }
        gone
    }

    /// The reservations of all rows that are gone are done, except for these podrefs.
    pub fn reservations_done(&self, except: &BTreeSet<PodRef>) {
        self.retain(|removed| !removed.confirmed || except.contains(&removed.content.podref));
    }

    /// Tells each job its outcome.
    pub fn finish(self, outcome: impl Fn(&PodRef) -> Outcome) {
        for (podref, jobs) in self.by_podref {
            for job in jobs {
                // Nobody waits any more when we are shutting down.
                let _ = job.done.send(outcome(&podref));
            }
        }
    }

    fn all(&self) -> impl Iterator<Item = &Job> {
        self.by_podref.values().flatten()
    }

    /// Keeps those removals of this pool that pass, and all of other pools.
    fn retain(&self, keep: impl Fn(&Removed) -> bool) {
        for job in self.all() {
            let removed = &mut job.item.progress().removed;
            removed.retain(|removed| removed.pool != self.pool || keep(removed));
        }
    }

    fn confirm_if(&self, gone: impl Fn(&Removed) -> bool) -> Vec<(Arc<Item>, Removed)> {
        let mut confirmed = Vec::new();
        for job in self.all() {
            for removed in &mut job.item.progress().removed {
                if !removed.confirmed && removed.pool == self.pool && gone(removed) {
                    removed.confirmed = true;
                    confirmed.push((Arc::clone(&job.item), removed.clone()));
                }
            }
        }
        confirmed
    }
}

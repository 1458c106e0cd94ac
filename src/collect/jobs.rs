//! The jobs of one turn, by podref: whom rows are freed for, what is known of how they ended, and
//! which removals were asked for.
//!
//! Everything here is looked up, never read from the API server; and nothing is quadratic in the
//! size of the batch.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use ipgc_core::{
    judge::{Cause, Release},
    podref::PodRef,
    pool::{ObservedPool, PoolKey, RowCount},
};

use super::{
    evidence::{Evidence, Known},
    item::{Item, Removed, Wanted},
    job::{Job, Outcome},
};

/// All jobs of one turn on one pool.
pub struct Jobs {
    pool: PoolKey,
    by_podref: BTreeMap<PodRef, Vec<Job>>,
}

impl Jobs {
    /// The jobs of a turn on `pool`.
    #[must_use]
    pub fn new(pool: &PoolKey, jobs: Vec<Job>) -> Self {
        let mut by_podref = BTreeMap::<_, Vec<_>>::new();
        for job in jobs {
            let podref = job.item.podref().clone();
            by_podref.entry(podref).or_default().push(job);
        }
        for jobs in by_podref.values_mut() {
            jobs.sort_by_key(|job| job.item.incarnation().map(|ended| ended.at));
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

    /// What is known of the podrefs at this moment, of which the pool has these rows.
    #[must_use]
    pub fn known(&self, evidence: &Evidence, observed: &ObservedPool) -> HashMap<PodRef, Known> {
        let rows = RowCount::by_podref(observed.rows());
        let known = self.by_podref.iter().map(|(podref, jobs)| {
            let own = jobs
                .iter()
                .filter_map(|job| job.item.incarnation().cloned());
            let here = rows.get(podref.as_str()).copied().unwrap_or_default();
            let mut known = evidence.of(podref, &own.collect::<Vec<_>>(), here);
            known.siblings = jobs.iter().find_map(|job| job.item.finds().siblings);
            (podref.clone(), known)
        });
        known.collect()
    }

    /// The nodes that incarnations of a podref ended on, in the order of their names.
    #[must_use]
    pub fn nodes_of(&self, podref: &PodRef) -> Arc<[Box<str>]> {
        let jobs = self.by_podref.get(podref).into_iter().flatten();
        let ends = jobs.filter_map(|job| job.item.incarnation());
        let nodes: BTreeSet<Box<str>> = ends.filter_map(|end| end.last.node.clone()).collect();
        nodes.into_iter().collect()
    }

    /// Reservations that had no row in the network of the pool, with the item that they belong to.
    #[must_use]
    pub fn orphans(&self) -> Vec<(Arc<Item>, String)> {
        let orphans = self.all().flat_map(|job| {
            let named = job.orphans.iter();
            named.map(|name| (Arc::clone(&job.item), name.clone()))
        });
        orphans.collect()
    }

    /// The reservations without a row that were claimed earlier, and wait.
    #[must_use]
    pub fn claimed(&self) -> Vec<Wanted> {
        let mut all = Vec::new();
        for job in self.all() {
            let progress = job.item.progress();
            let own = progress.claimed.iter();
            let own = own.filter(|(pool, _)| *pool == self.pool);
            all.extend(own.map(|(_, wanted)| wanted.clone()));
        }
        all
    }

    /// From now on these are the ones that wait.
    pub fn note_claimed(&self, claimed: Vec<Wanted>) {
        for job in self.all() {
            let known = &mut job.item.progress().claimed;
            known.retain(|(pool, _)| *pool != self.pool);
        }
        for wanted in claimed {
            let jobs = self.by_podref.get(&wanted.row.podref);
            if let Some(job) = jobs.and_then(|jobs| jobs.last()) {
                let claimed = (self.pool.clone(), wanted);
                job.item.progress().claimed.push(claimed);
            }
        }
    }

    /// Remembers what is about to be removed, in case the answer is lost. `networks` are those that
    /// the pool itself tells.
    pub fn note_attempt(
        &self,
        releases: &[Release<'_>],
        networks: &BTreeSet<Option<Box<str>>>,
        living: impl Fn(&PodRef) -> Option<Box<str>>,
    ) {
        self.forget_attempt(releases);
        for release in releases {
            // Rows are freed for the last incarnation of their podref.
            let jobs = self.by_podref.get(&release.content().podref);
            if let Some(job) = jobs.and_then(|jobs| jobs.last()) {
                let completed = (release.stale().cause == Cause::Completed)
                    .then(|| living(&release.content().podref))
                    .flatten();
                let removed = Removed {
                    networks: job
                        .routes
                        .iter()
                        .map(|route| route.network.clone())
                        .chain(networks.iter().cloned())
                        .collect(),
                    completed,
                    ..Removed::attempt(&self.pool, release, &job.routes)
                };
                let known = &mut job.item.progress().removed;
                // Mostly it is the only one, and there are thousands of items.
                known.reserve_exact(1);
                known.push(removed);
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

    /// What is to be known of rows that are gone and whose reservations are not done, this turn's and
    /// earlier ones'.
    #[must_use]
    pub fn gone<T>(&self, what: impl Fn(&Item, &Removed) -> T) -> Vec<T> {
        let mut gone = Vec::new();
        for job in self.all() {
            for removed in &job.item.progress().removed {
                if self.is_gone(removed) {
                    gone.push(what(&job.item, removed));
                }
            }
        }
        gone
    }

    /// The reservations of all rows that are gone are done, except for these podrefs.
    pub fn reservations_done(&self, except: &BTreeSet<PodRef>) {
        self.retain(|removed| !removed.confirmed || except.contains(&removed.content.podref));
    }

    /// Takes out the jobs of podrefs none of whose reservations are to go.
    pub fn take_without_reservations(&mut self) -> Self {
        let all = std::mem::take(&mut self.by_podref).into_iter();
        let (with, without) = all.partition(|(_, jobs)| {
            jobs.iter().any(|job| {
                let progress = job.item.progress();
                !job.orphans.is_empty()
                    || progress.removed.iter().any(|it| self.is_gone(it))
                    || progress.claimed.iter().any(|(pool, _)| *pool == self.pool)
            })
        });
        self.by_podref = with;
        Self {
            pool: self.pool.clone(),
            by_podref: without,
        }
    }

    /// Takes them all out.
    pub fn take(&mut self) -> Self {
        Self {
            pool: self.pool.clone(),
            by_podref: std::mem::take(&mut self.by_podref),
        }
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

    /// Whether this was a row of the pool, and is gone.
    fn is_gone(&self, removed: &Removed) -> bool {
        removed.confirmed && removed.pool == self.pool
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

//! The cases of one pool that are worked for together: which removals were asked for, and which of them are done.
//!
//! Everything here is looked up, never read from the API server; and nothing is quadratic in the
//! size of the batch.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use crate::{
    definitions::Networks,
    evidence::Ended,
    judge::{Cause, Release},
    known::{Evidence, Known},
    podref::PodRef,
    pool::{ObservedPool, PoolKey, RowCount},
    work::{Removed, Wanted, Works},
};

/// Cases of one pool.
#[derive(Debug)]
pub struct Batch {
    /// The pool.
    pub pool: PoolKey,
    /// The cases, by their owners.
    pub works: Works,
}

impl Batch {
    /// The owners.
    pub fn podrefs(&self) -> BTreeSet<PodRef> {
        self.works.keys().cloned().collect()
    }

    /// The knowledge of the owners at this moment, who have these rows in the pool. `is_heard` as in [`Evidence::of`].
    pub fn known(
        &self,
        evidence: &Evidence,
        observed: &ObservedPool,
        is_heard: bool,
    ) -> HashMap<PodRef, Known> {
        let rows = RowCount::by_podref(observed.rows());
        let readable = observed.rows().iter().filter_map(|row| row.content().ok());
        let of_resource_claims = readable.filter(|row| row.resource_claim().is_some());
        let of_resource_claims: HashSet<_> = of_resource_claims.map(|row| &row.podref).collect();
        let known = self.works.iter().map(|(podref, work)| {
            let here = rows.get(podref.as_str()).copied().unwrap_or_default();
            let mut known = evidence.of(podref, &work.ended, here, is_heard);
            let siblings = work.siblings.as_ref();
            let siblings = siblings.filter(|(sweep, _)| *sweep == evidence.sweeps);
            known.siblings = siblings.map(|(_, rows)| Arc::clone(rows));
            known.has_resource_claims = of_resource_claims.contains(podref);
            (podref.clone(), known)
        });
        known.collect()
    }

    /// The incarnations whose end opened the case of this owner.
    pub fn ends(&self, podref: &PodRef) -> &[Arc<Ended>] {
        self.works.get(podref).map_or(&[], |work| &work.ended)
    }

    /// Reservations that had no row in the network of the pool, with their owners.
    pub fn orphans(&self) -> Vec<(PodRef, String)> {
        let orphans = self.works.iter().flat_map(|(podref, work)| {
            let named = work.orphans.iter();
            named.map(|name| (podref.clone(), name.clone()))
        });
        orphans.collect()
    }

    /// The reservations without a row that were claimed earlier, and wait.
    pub fn claimed(&self) -> Vec<Wanted> {
        let claimed = self.works.values().flat_map(|work| &work.claimed);
        claimed.cloned().collect()
    }

    /// From now on these are the ones that wait.
    pub fn note_claimed(&mut self, claimed: Vec<Wanted>) {
        for work in self.works.values_mut() {
            work.claimed.clear();
        }
        for wanted in claimed {
            if let Some(work) = self.works.get_mut(&wanted.row.podref) {
                work.claimed.push(wanted);
            }
        }
    }

    /// Remembers what is about to be removed, in case the answer is lost. `networks` are those that the pool itself
    /// tells. `living` gives the uid of the live pod of an owner.
    pub fn note_attempt(
        &mut self,
        releases: &[Release<'_>],
        networks: &Arc<Networks>,
        living: impl Fn(&PodRef) -> Option<Box<str>>,
    ) {
        self.forget_attempt(releases);
        for release in releases {
            let podref = &release.content().podref;
            if let Some(work) = self.works.get_mut(podref) {
                let cause = release.stale().cause;
                let is_of_one = matches!(cause, Cause::Completed | Cause::Predecessor);
                let incarnation = is_of_one.then(|| living(podref)).flatten();
                work.note_attempt(release, networks, incarnation);
            }
        }
    }

    /// A rejected patch removed nothing: rows that are gone later, others removed.
    pub fn forget_attempt(&mut self, releases: &[Release<'_>]) {
        let keys: HashSet<_> = releases.iter().map(|release| release.row().key()).collect();
        self.retain(|removed| removed.confirmed || !keys.contains(&*removed.key));
    }

    /// The removals that were asked for and not done are not waited for any more.
    pub fn give_up_attempts(&mut self) {
        self.retain(|removed| removed.confirmed);
    }

    /// The patch was answered with 200: its rows are gone.
    #[must_use]
    pub fn confirm(&mut self, releases: &[Release<'_>]) -> Vec<(PodRef, Removed)> {
        let keys: HashSet<_> = releases.iter().map(|release| release.row().key()).collect();
        self.confirm_if(|removed| keys.contains(&*removed.key))
    }

    /// The pool is gone, and with it every row whose removal was asked for.
    #[must_use]
    pub fn confirm_all(&mut self) -> Vec<(PodRef, Removed)> {
        self.confirm_if(|_| true)
    }

    /// Rows whose removal was asked for in an earlier try, or without a clear answer, and which
    /// are no longer there.
    #[must_use]
    pub fn confirm_missing(&mut self, observed: &ObservedPool) -> Vec<(PodRef, Removed)> {
        let rows: HashMap<_, _> = observed.rows().iter().map(|r| (r.key(), r)).collect();
        // The same owner with another content: a successor adopted the row. Whether it was ever
        // gone nobody can tell, so it is not ours to report, nor is its reservation.
        let adopted = |removed: &Removed| {
            rows.get(&*removed.key).is_some_and(|row| {
                row.podref_text() == Some(removed.content.podref.as_str())
                    && row.content().ok() != Some(&removed.content)
            })
        };
        self.retain(|removed| removed.confirmed || !adopted(removed));
        self.confirm_if(|removed| !rows.contains_key(&*removed.key))
    }

    /// Something about each row that is gone and whose reservation is not done, this turn's and
    /// earlier ones'.
    pub fn gone<T>(&self, what: impl Fn(&PodRef, &Removed) -> T) -> Vec<T> {
        let mut gone = Vec::new();
        for (podref, work) in &self.works {
            let removed = work.removed.iter().filter(|removed| removed.confirmed);
            gone.extend(removed.map(|removed| what(podref, removed)));
        }
        gone
    }

    /// The reservations of all rows that are gone are done, except for these owners.
    pub fn reservations_done(&mut self, except: &BTreeSet<PodRef>) {
        self.retain(|removed| !removed.confirmed || except.contains(&removed.content.podref));
    }

    /// Takes out the cases none of whose reservations are to go.
    pub fn take_without_reservations(&mut self) -> Works {
        let without = self
            .works
            .extract_if(.., |_, work| !work.has_reservations());
        without.collect()
    }

    fn retain(&mut self, keep: impl Fn(&Removed) -> bool) {
        for work in self.works.values_mut() {
            work.removed.retain(&keep);
        }
    }

    fn confirm_if(&mut self, gone: impl Fn(&Removed) -> bool) -> Vec<(PodRef, Removed)> {
        let mut confirmed = Vec::new();
        for (podref, work) in &mut self.works {
            let asked = work.removed.iter_mut().filter(|it| !it.confirmed);
            for removed in asked.filter(|it| gone(it)) {
                removed.confirmed = true;
                confirmed.push((podref.clone(), removed.clone()));
            }
        }
        confirmed
    }
}

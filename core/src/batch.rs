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
    judge::Release,
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

    /// The reservations that are not done: of rows that are gone, this turn's and earlier ones', and those without a row
    /// that were claimed earlier, and wait.
    pub fn wanted(&self) -> Vec<Wanted> {
        let wanted = self.works.values().flat_map(|work| &work.wanted);
        wanted.cloned().collect()
    }

    /// All of these are done that are not `left`. Those that were `claimed` now wait too.
    pub fn reservations_done(&mut self, left: impl Fn(&Wanted) -> bool, claimed: Vec<Wanted>) {
        for work in self.works.values_mut() {
            work.wanted.retain(&left);
        }
        for wanted in claimed {
            if let Some(work) = self.works.get_mut(&wanted.row.podref) {
                work.wanted.push(wanted);
            }
        }
    }

    /// Remembers what is about to be removed, in case the answer is lost. `networks` are those that the pool itself
    /// tells. `living` gives the uid of the live pod of an owner.
    pub fn note_attempt(
        &mut self,
        releases: &[Release<'_>],
        networks: &Arc<Networks>,
        evidence: &Evidence,
        living: impl Fn(&PodRef) -> Option<Box<str>>,
    ) {
        self.forget_attempt(releases);
        for release in releases {
            let podref = &release.content().podref;
            if let Some(work) = self.works.get_mut(podref) {
                let ends = evidence.pods.ended(podref);
                work.note_attempt(release, networks, &ends, living(podref).as_deref());
            }
        }
    }

    /// A rejected patch removed nothing: rows that are gone later, others removed.
    pub fn forget_attempt(&mut self, releases: &[Release<'_>]) {
        let keys: HashSet<_> = releases.iter().map(|release| release.row().key()).collect();
        self.retain(|removed| !keys.contains(&*removed.key));
    }

    /// The removals that were asked for and not done are not waited for any more.
    pub fn give_up_attempts(&mut self) {
        self.retain(|_| false);
    }

    /// The patch was answered with 200: its rows are gone.
    #[must_use]
    pub fn confirm(&mut self, releases: &[Release<'_>]) -> Vec<Removed> {
        let keys: HashSet<_> = releases.iter().map(|release| release.row().key()).collect();
        self.confirm_if(|removed| keys.contains(&*removed.key))
    }

    /// The pool is gone, and with it every row whose removal was asked for.
    #[must_use]
    pub fn confirm_all(&mut self) -> Vec<Removed> {
        self.confirm_if(|_| true)
    }

    /// Rows whose removal was asked for in an earlier try, or without a clear answer, and which
    /// are no longer there.
    #[must_use]
    pub fn confirm_missing(&mut self, observed: &ObservedPool) -> Vec<Removed> {
        let rows: HashMap<_, _> = observed.rows().iter().map(|r| (r.key(), r)).collect();
        // The same owner with another content: a successor adopted the row. Whether it was ever
        // gone nobody can tell, so it is not ours to report, nor is its reservation.
        let adopted = |removed: &Removed| {
            let was = &removed.wanted.row;
            rows.get(&*removed.key).is_some_and(|row| {
                row.podref_text() == Some(was.podref.as_str()) && row.content().ok() != Some(was)
            })
        };
        self.retain(|removed| !adopted(removed));
        self.confirm_if(|removed| !rows.contains_key(&*removed.key))
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

    /// These rows are gone, and from now on their reservations are to go.
    fn confirm_if(&mut self, gone: impl Fn(&Removed) -> bool) -> Vec<Removed> {
        let mut confirmed = Vec::new();
        for work in self.works.values_mut() {
            let before = confirmed.len();
            confirmed.extend(work.removed.extract_if(.., |it| gone(it)));
            let wanted = confirmed[before..].iter().map(|it| it.wanted.clone());
            work.wanted.extend(wanted);
        }
        confirmed
    }
}

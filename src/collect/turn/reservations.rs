//! The reservations of a turn: those of rows that are gone, and those that had no row.

use std::{collections::HashSet, net::IpAddr, sync::Arc, time::Duration};

use ipgc_core::{
    cases::Outcome,
    clearance::Facts,
    fact::Fact,
    judge::{Verdict, judge_orphan, reports_more},
    names::split,
    podref::PodRef,
    pool::{RowContent, RowCount},
    proof::{KnownResourceClaims, OF_RESOURCE_CLAIMS, Presence, of_lone_reservation},
    reservation::Reservation,
    sighting::RESERVATIONS,
    work::Wanted,
};
use tracing::{debug, info};

use super::Turn;
use crate::{
    calls::with_permit,
    clock::wall,
    collect::{gate::Access, released::Left, rows_again::read_rows_again},
};

/// A look at all pools that takes longer is not waited for by the next one.
const LONGEST_LOOK: Duration = Duration::from_mins(1);

/// The network and the address that the name of a reservation tells.
type Place = (Option<Box<str>>, IpAddr);

impl Turn<'_> {
    /// Frees the reservations of rows that this turn or an earlier try removed, and those that had no row. The latter are
    /// judged here first.
    pub(super) async fn free_reservations(&mut self) {
        if !self.context.config.dry_run {
            let stood_by = self.context.stood_by().await;
            if stood_by && !self.context.is_leader() {
                // The copy that leads finds them in a sweep. We would ask for ever.
                self.batch.reservations_done(|_| false, Vec::new());
                return;
            }
            let wait = self.context.gate.wait();
            if stood_by || !wait.is_zero() {
                for podref in self.batch.podrefs() {
                    self.outcome(&podref, Outcome::postponed(wait));
                }
                return;
            }
        }
        let mut wanted = self.batch.wanted();
        for it in &mut wanted {
            let (podref, address) = (&it.row.podref, it.row.address);
            it.name_may_return |= self.name_may_return(podref);
            // If the pod has a row with this address in another sandbox, it was given the address again since an earlier try.
            let now = self.sandboxes.get(&(podref.clone(), address));
            let had_row = !it.row.sandbox.is_empty();
            if had_row && now.is_some_and(|sandbox| *sandbox != it.row.sandbox) {
                it.fact = Fact::Taken;
            }
        }
        let orphans = self.orphans(&wanted).await.unwrap_or_else(|failure| {
            for (podref, _) in self.batch.orphans() {
                self.outcome(&podref, failure.clone());
            }
            Vec::new()
        });
        wanted.extend_from_slice(&orphans);
        if self.context.config.dry_run {
            for wanted in wanted.iter().filter(|it| it.fact != Fact::Taken) {
                let (address, podref) = (wanted.row.address, &wanted.row.podref);
                let news = format!("reserved/{address}/{podref}");
                if self.context.is_news(&self.uid, &news) {
                    self.context.counters.reservations_would_free.inc();
                    info!(pool = %self.key, %address, %podref, "would free reservation");
                }
            }
            return;
        }
        if wanted.is_empty() {
            return;
        }
        let outcome = self.context.release(self.key, wanted, self.since).await;
        self.context
            .counters
            .reservations_freed
            .inc_by(outcome.deleted as u64);
        let (mut failed, mut waiting) = (HashSet::new(), HashSet::new());
        for (podref, left) in outcome.left {
            match left {
                Left::Postponed(wait) => self.outcome(&podref, Outcome::postponed(wait)),
                Left::Kept(_, again) => {
                    // Otherwise a sweep finds it again.
                    let Some(again) = again else { continue };
                    self.outcome(&podref, Outcome::not_before(again));
                }
                Left::Failed(reason, at_least) => {
                    let reason = format!("could not release a reservation: {reason}");
                    self.outcome(&podref, self.retry(reason, at_least));
                }
                Left::Claimed(address) => {
                    waiting.insert((podref, address));
                    continue;
                }
            }
            failed.insert(podref);
        }
        let waits = |it: &Wanted| waiting.contains(&(it.row.podref.clone(), it.row.address));
        let is_left = |it: &Wanted| waits(it) || failed.contains(&it.row.podref);
        let claimed = orphans.into_iter().filter(waits).collect();
        self.batch.reservations_done(is_left, claimed);
        for (podref, _) in waiting {
            self.outcome(&podref, Outcome::not_before(outcome.until));
        }
    }

    fn name_may_return(&self, podref: &PodRef) -> bool {
        let ended = self.context.evidence().pods.ended(podref);
        let work = self.batch.works.get(podref);
        work.is_none_or(|work| work.name_may_return(&ended))
    }

    /// Of the reservations that had no row when they were found, those that may go now; those that are `released` already
    /// are not judged again. The failure of a request is that of all of them.
    async fn orphans(&mut self, released: &[Wanted]) -> Result<Vec<Wanted>, Outcome> {
        let orphans = self.batch.orphans();
        if !self.is_observed || orphans.is_empty() {
            return Ok(Vec::new());
        }
        let names = orphans.iter().map(|(_, name)| name.clone()).collect();
        let namespace = &self.key.namespace;
        let networks = self.context.evidence().known_networks();
        let known = orphans.iter().map(|(podref, _)| {
            let ends = self.batch.ends(podref);
            let mut known = self.context.known(podref, ends, RowCount::default());
            known.has_resource_claims =
                self.context.config.resource_claims && podref.as_str() == OF_RESOURCE_CLAIMS;
            // No row tells whether its settled end is proof.
            known.rests_on_nodes = true;
            (podref.clone(), known)
        });
        // The rows that they would belong to.
        let rows = orphans.iter().filter_map(|(podref, name)| {
            let (_, address) = split(name, &networks).one()?;
            Some(RowContent {
                address,
                sandbox: Box::default(),
                podref: podref.clone(),
                interface: None,
            })
        });
        let rows: Vec<_> = rows.collect();
        let others = self.context.evidence().pods.others(rows.iter());
        let known = known.collect();
        let read = self.read_nodes(None, &known, &others).await;
        read.map_err(|error| self.failure(Access::Read, "read nodes", &error))?;
        let claims = self.resource_claims(&orphans).await;
        let (mut wanted, mut marked) = (Vec::new(), HashSet::new());
        let found = self.context.reservations_named(namespace, &names).await;
        let found =
            found.map_err(|error| self.failure(Access::Read, "read reservations", &error))?;
        for (podref, name) in orphans {
            let place = split(&name, &networks).one();
            let Some((found, (network, address))) = found.get(&name).zip(place) else {
                continue;
            };
            let place = (network.map(Into::into), address);
            let is_released = released.iter().any(|it| {
                let row = &it.row;
                row.podref == podref && row.address == address && it.networks.contains(&place.0)
            });
            if is_released {
                continue;
            }
            if found.is_claimed() {
                marked.insert(place.clone());
            }
            wanted.extend(self.orphan(&podref, found, place, &claims));
        }
        if !wanted.is_empty() {
            self.retain_free(&mut wanted, &marked).await;
        }
        Ok(wanted)
    }

    /// Only the sweep saw that no row of the network has the address, and that may be long ago. So the pools are read
    /// again, and a reservation whose address has a row by now is kept. So is that of a pod that lives and reports the
    /// address, unless a row of the pod tells why; and one that a person exempted in any pool, unless it is `marked`.
    async fn retain_free(&mut self, wanted: &mut Vec<Wanted>, marked: &HashSet<Place>) {
        let namespace = Some(self.key.namespace.as_str());
        let addresses = wanted.iter().map(|wanted| wanted.row.address).collect();
        let living = wanted.iter().filter(|wanted| wanted.fact.is_of_living());
        let living: HashSet<_> = living.map(|it| it.row.podref.as_str().to_owned()).collect();
        let is_living = |podref: &str| living.contains(podref);
        let look = async {
            let permit = self.context.reading_pools.acquire().await;
            let look = read_rows_again(self.context, namespace, &addresses, is_living);
            with_permit(permit, LONGEST_LOOK, look).await
        };
        let found = match self.context.stop.run_until_cancelled(look).await {
            Some(found) => found.map_err(|error| self.failure(Access::Read, "read pools", &error)),
            None => Err(Outcome::postponed(Duration::ZERO)),
        };
        match found {
            Ok(found) => wanted.retain_mut(|wanted| {
                let (namespace, address) = (&self.key.namespace, wanted.row.address);
                let mut networks = wanted.networks.iter().map(Option::as_deref);
                let mut seen = networks.clone();
                // A claim is given back.
                if seen.any(|network| found.saw_row(namespace, network, address)) {
                    wanted.fact = Fact::Taken;
                }
                let mut own = wanted.networks.iter();
                let is_marked = own.any(|network| marked.contains(&(network.clone(), address)));
                if found.exempts(namespace, address) && !is_marked {
                    return false;
                }
                let podref = &wanted.row.podref;
                let rows = found.rows.get(podref).into_iter().flatten();
                let rows = rows.filter(|row| row.address == address).count();
                let is_reported = || {
                    let known = self.context.known(podref, &[], RowCount::default());
                    let Presence::Present(Some(pod)) = known.presumed else {
                        return false;
                    };
                    reports_more(&pod, address, rows)
                };
                wanted.fact == Fact::Taken
                    || networks.all(|network| !found.has_row(namespace, network, address))
                        && !(wanted.fact.is_of_living() && is_reported())
            }),
            Err(outcome) => {
                for wanted in std::mem::take(wanted) {
                    self.outcome(&wanted.row.podref, outcome.clone());
                }
            }
        }
    }

    /// The ResourceClaims, if a reservation is of one of them, and ipgc may free what is theirs.
    async fn resource_claims(&self, orphans: &[(PodRef, String)]) -> KnownResourceClaims {
        let mut owners = orphans.iter().map(|(podref, _)| podref.as_str());
        if self.context.config.resource_claims && owners.any(|it| it == OF_RESOURCE_CLAIMS) {
            self.context.resource_claims().await
        } else {
            Err("ResourceClaims are not read without --resource-claims".into())
        }
    }

    /// A reservation without a row, which is at this place, if it may go now.
    fn orphan(
        &mut self,
        podref: &PodRef,
        found: &Reservation,
        (network, address): Place,
        claims: &KnownResourceClaims,
    ) -> Option<Wanted> {
        // The owner may have changed. If a row came meanwhile, the reservation goes with that row.
        let has_row = self.sandboxes.contains_key(&(podref.clone(), address));
        if found.owner() != podref.as_str() || (has_row && !found.is_claimed()) {
            return None;
        }
        let now = self.context.clock.now();
        // If it is not remembered, a sweep saw its row. The next sweep finds it again if that row is gone.
        let sighting = self.context.evidence().recall_reservation(found, now)?;
        let mut here = RowCount::default();
        here.add(found.interface.as_deref());
        let known = self.context.known(podref, self.batch.ends(podref), here);
        let row = found.as_row(address).ok()?;
        let others = self.context.evidence().pods.others([&row].into_iter());
        let networks = [network.clone()].into();
        let of_pool = (self.key, None, &networks);
        let others = others.of(&row);
        // If a row of its pod came back, or its pod is there, a claimed reservation is only given back.
        let presence = if has_row {
            Presence::Present(None)
        } else {
            of_lone_reservation(podref, address, claims, known.presumed.clone())
        };
        let is_given_back = found.is_claimed() && matches!(presence, Presence::Present(_));
        let evidence = self.context.evidence();
        // The name of a reservation tells no node.
        let facts = Facts {
            slice: None,
            ..evidence.facts(of_pool, Some(sighting), &known, &others, now)
        };
        let verdict = judge_orphan(found, address, &presence, claims, &facts);
        drop(evidence);
        if podref.as_str() == OF_RESOURCE_CLAIMS && !matches!(verdict, Verdict::Stale(_)) {
            // It waits from when it is known that no claim reports its address any more.
            let mut evidence = self.context.evidence();
            evidence.first_seen.forget_one(RESERVATIONS, &found.uid);
        }
        let stale = match verdict {
            Verdict::Stale(stale) => stale,
            Verdict::Held(reason) => {
                debug!(pool = %self.key, reservation = found.name, %reason, "held");
                let context = &self.context;
                context.report_in_use(self.key, &self.uid, &row, &reason);
                return None;
            }
            Verdict::Unknown(reason) => {
                debug!(pool = %self.key, reservation = found.name, %reason, "kept");
                return None;
            }
        };
        if !stale.is_free(now) {
            self.wait(podref, &found.name, &stale);
            return None;
        }
        if !found.is_claimed() && self.context.closing.is_cancelled() {
            self.too_late(podref);
            return None;
        }
        let (since, at) = (sighting.first, (now, wall()));
        let evidence = self.context.evidence();
        let stopped = evidence.check_breaker(since, self.acknowledged, &stale.clearance, at);
        drop(evidence);
        if let Err(open) = stopped
            && !is_given_back
        {
            self.stopped(podref, &found.name, open, now);
            return None;
        }
        let uid = known.living.as_ref().map(|living| &*living.uid);
        Some(Wanted {
            row: row.into(),
            networks: Arc::new([network].into()),
            name_may_return: self.name_may_return(podref),
            // Even if its pod ends now.
            fact: if is_given_back {
                Fact::Taken
            } else {
                Fact::of(stale.cause, uid)
            },
        })
    }
}

//! Frees what a person forced: observed, proven and judged anew, then removed by the same patches as by a collector.
//!
//! The order is observe, read the cluster, prove, judge, patch. The reservation follows: claim, prove, delete.

use std::{collections::BTreeSet, sync::Arc};

use http::Request;
use ipgc_core::{
    fact::Fact,
    judge::{Stale, Verdict},
    patch::{Answer, FreePatch},
    pool::{ObservedPool, PoolKey, Row, Unreadable},
    proof::{KnownResourceClaims, Presence, ResourceClaims},
    reservation::Reservation,
    routes::slice_pools,
    work::Wanted,
};
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::Resource as _;
use serde::de::IgnoredAny;
use tokio::time::sleep;
use tracing::info;

use super::{
    NotDone, Writer,
    force::{Forced, Subject, check, check_pods},
};
use crate::{
    access,
    api::IpPool,
    audit::{
        assess::{Assessor, Item},
        report::{ReservationReport, Stored},
    },
    calls::call,
    collect::{prover::Asked, released::Left, reservation_api::is_absent},
    config::Config,
    snapshot::{Snapshot, live},
};

impl Writer {
    /// Frees the row that a person forced, if it is unchanged and may go. A reservation without a row is only judged here.
    /// The result of what was judged is why it may go, and the reservation that [`release`](Self::release) is to delete: that
    /// of the row, or the one that a person forced. With `dry_run` nothing is written.
    ///
    /// # Errors
    /// Why not.
    pub async fn free(
        &self,
        it: &Forced,
        dry_run: bool,
    ) -> Result<Option<(Stale, Wanted)>, NotDone> {
        match &it.subject {
            Subject::Row(seen) => {
                let podrefs = it.podref.iter().cloned().collect();
                let observed = self.context.observe(&it.pool, &podrefs).await?;
                let observed = observed.filter(|observed| observed.uid() == seen.pool_uid);
                let observed = observed.ok_or(NotDone::Gone)?;
                let is_it = |row: &&Row| {
                    row.key() == seen.key
                        && Stored::from(row.stored().clone()) == seen.stored
                        // Another range gives the key another address.
                        && observed.address_of(row) == Some(it.address)
                };
                let row = observed.rows().iter().find(is_it).ok_or(NotDone::Gone)?;
                self.free_row(it, &observed, row, dry_run).await
            }
            Subject::Reservation(seen) => {
                let snapshot = self.look().await?;
                let mut assessor = Assessor::new(&snapshot, &self.context.config.policy);
                assessor.claims = self.context.resource_claims().await;
                check(&assessor, it)?;
                if it.is_readable {
                    let freed = of_reservation(&assessor, it);
                    return freed.ok_or(NotDone::Gone).map(Some);
                }
                self.free_nobodys(it, seen, dry_run).await?;
                Ok(None)
            }
        }
    }

    /// Claims the reservation, proves its pod absent, and deletes it. If a pod of that name may return, the deletion waits
    /// `--add-budget`: an ADD may have accepted the reservation before the claim. The result is the number of deleted
    /// reservations. If [`stop`](Self::stop) ends it early, a collector finishes the claim.
    ///
    /// # Errors
    /// Why it is left.
    pub async fn release(&self, pool: &PoolKey, reservation: Wanted) -> Result<usize, NotDone> {
        let (context, mut deleted, mut has_waited) = (&self.context, 0, false);
        let stop = &context.stop;
        loop {
            let wanted = vec![reservation.clone()];
            let released = context.release(pool, wanted, context.clock.now()).await;
            deleted += released.deleted;
            if released.left.is_empty() {
                return Ok(deleted);
            }
            let is_claimed = |(_, left): &_| matches!(left, Left::Claimed(_));
            let waits = released.left.iter().any(is_claimed) && !stop.is_cancelled();
            let why = released.left.into_iter().find_map(|(_, left)| match left {
                Left::Claimed(_) => None,
                Left::Failed(reason, _) | Left::Kept(reason, _) => Some(reason),
                Left::Postponed(_) if stop.is_cancelled() => Some("it was interrupted".to_owned()),
                Left::Postponed(_) => Some("the server allows no writes".to_owned()),
            });
            // One that is kept does not leave the mark of another one.
            if let Some(why) = why
                && (has_waited || !waits)
            {
                return Err(NotDone::Kept(why));
            }
            has_waited = true;
            let wait = sleep(context.clock.until(released.until));
            stop.run_until_cancelled(wait).await;
        }
    }

    /// Whether all rights are there: a row must not go if its reservation could not follow. A dry run needs fewer.
    ///
    /// # Errors
    /// Which are missing, or that nobody can ask.
    pub async fn check_rights(&self, dry_run: bool) -> Result<(), String> {
        let config = Config {
            dry_run,
            ..self.context.config.clone()
        };
        let mut rights = config.rights();
        rights.retain(|right| right.group == IpPool::group(&()));
        let missing = access::missing(&self.context.client, rights).await;
        let missing = missing.map_err(|error| format!("cannot ask for rights: {error}"))?;
        if missing.is_empty() {
            return Ok(());
        }
        Err(format!("rights are missing: {}", access::names(&missing)))
    }

    /// Reads the cluster, by which pods and definitions are known from then on.
    async fn look(&self) -> Result<Snapshot, NotDone> {
        let snapshot = live::read(&self.context.client, &self.scan).await?;
        let mut evidence = self.context.evidence();
        evidence.definitions.clone_from(&snapshot.definitions);
        evidence.slices_by_name = slice_pools(&snapshot.slices);
        drop(evidence);
        Ok(snapshot)
    }

    /// The ResourceClaims, read from now on. A cluster whose API server does not know their group has none.
    async fn resource_claims(&self) -> KnownResourceClaims {
        let client = &self.context.client;
        let unread = match self.context.resource_claims().await {
            Ok(claims) => return Ok(claims),
            Err(reason) => reason,
        };
        let path = format!("/apis/{}", ResourceClaim::group(&()));
        let group = Request::get(path).body(Vec::new());
        let group = call(client.request::<IgnoredAny>(group.map_err(|it| it.to_string())?)).await;
        match group {
            Err(error) if error.answer() == Answer::Gone => Ok(ResourceClaims::default()),
            _ => Err(unread),
        }
    }

    async fn free_row(
        &self,
        it: &Forced,
        observed: &ObservedPool,
        row: &Row,
        dry_run: bool,
    ) -> Result<Option<(Stale, Wanted)>, NotDone> {
        // The cluster and the pods are read after the row was observed.
        let ticket = observed.begin_proof();
        let snapshot = self.look().await?;
        let asked: Asked = it.podref.iter().map(|it| (it.clone(), true)).collect();
        let mut proof = self.context.prove(ticket, &asked, false).await;
        let content = row.content();
        if content.is_ok_and(|it| it.resource_claim().is_some()) {
            proof = proof.with_resource_claims(self.resource_claims().await);
        }
        check_pods(&snapshot, it)?;
        let (patch, judged) = if content.is_ok() {
            let release = Assessor::new(&snapshot, &self.context.config.policy).force(&proof, row);
            let release = release.map_err(|verdict| {
                NotDone::Kept(match verdict {
                    Verdict::Held(reason) => reason.to_string(),
                    Verdict::Unknown(reason) => reason.to_string(),
                    Verdict::Stale(_) => "it waits".to_owned(),
                })
            })?;
            let (content, stale) = (release.content().clone(), release.stale().clone());
            let pod = match proof.presence(&content.podref) {
                Presence::Present(pod) => pod,
                Presence::Absent | Presence::Unknown(_) => None,
            };
            let reservation = Wanted {
                networks: self.context.networks_of(observed).into(),
                // Nobody saw its pod.
                name_may_return: true,
                fact: Fact::of(stale.cause, pod.as_ref().map(|pod| &*pod.uid)),
                row: content.into(),
            };
            let patch = FreePatch::new(&proof, vec![release]);
            (patch, Some((stale, reservation)))
        } else {
            // Its owner is proven absent if it has one, and the patch tests the whole of it.
            let presence = it.podref.as_ref().map(|it| (it, proof.presence(it)));
            let against = match presence {
                None | Some((_, Presence::Absent)) => None,
                Some((podref, Presence::Present(_))) => Some(format!("its pod {podref} is there")),
                Some((podref, Presence::Unknown(reason))) => {
                    Some(format!("its pod {podref} could not be read: {reason}"))
                }
            };
            if let Some(reason) = against {
                return Err(NotDone::Kept(reason));
            }
            let patch = FreePatch::of_unreadable(proof.observed(), row).ok_or_else(|| {
                NotDone::Kept("it is exempted by a person, or can be read".to_owned())
            })?;
            (patch, None)
        };
        if dry_run {
            return Ok(judged);
        }
        match self.context.free(&it.pool, &patch).await {
            // It may have been done, or may be done yet.
            Err(error) if error.answer() == Answer::Unclear => {
                let podrefs: BTreeSet<_> = it.podref.iter().cloned().collect();
                let now = self.context.observe(&it.pool, &podrefs).await?;
                let mut rows = now.iter().flat_map(ObservedPool::rows);
                match rows.find(|it| it.key() == row.key()) {
                    None => {}
                    Some(there) if there.stored() == row.stored() => return Err(error.into()),
                    // It is a successor's, and so is the reservation.
                    Some(_) => return Err(NotDone::Gone),
                }
            }
            done => done?,
        }
        if let Some((stale, Wanted { row: content, .. })) = &judged {
            info!(
                pool = %it.pool,
                key = row.key(),
                address = %content.address,
                podref = %content.podref,
                interface = content.interface.as_deref(),
                sandbox = %content.sandbox,
                grade = stale.clearance.grade.as_str(),
                cause = stale.cause.as_str(),
                trigger = "hand",
                "freed row"
            );
        } else {
            info!(pool = %it.pool, key = row.key(), address = %it.address, stored = %row.stored(), "freed row that cannot be read");
        }
        Ok(judged)
    }

    /// Deletes a reservation that names no pod, if it is still that one and still names none. No ADD accepts such a one, so
    /// it need not be claimed.
    async fn free_nobodys(
        &self,
        it: &Forced,
        seen: &ReservationReport,
        dry_run: bool,
    ) -> Result<(), NotDone> {
        let (namespace, name, context) = (&it.pool.namespace, &*seen.name, &self.context);
        let there = context.reservation(namespace, name).await?;
        let is_it =
            |there: &Reservation| there.uid == seen.uid && there.pod() == Err(Unreadable::PodRef);
        let there = there.filter(is_it).ok_or(NotDone::Gone)?;
        if dry_run {
            return Ok(());
        }
        match context.delete_reservation(&there).await {
            Err(error) if !is_absent(&error, name) => return Err(error.into()),
            _ => {}
        }
        info!(namespace, reservation = name, address = %it.address, "freed reservation that names no pod");
        Ok(())
    }
}

/// A reservation without a row, as it was judged.
fn of_reservation(assessor: &Assessor<'_>, it: &Forced) -> Option<(Stale, Wanted)> {
    let orphans = assessor.orphans();
    let mut orphans = orphans.iter();
    let judged = orphans.find(|judged| judged.subject() == it.subject)?;
    let (Item::Reservation(_, reading), Some(row)) = (&judged.item, &judged.content) else {
        return None;
    };
    let stale = judged.stale()?.clone();
    let pod = assessor.snapshot.pod(it.podref.as_ref()?.as_str());
    let (network, _) = reading.one()?;
    let reservation = Wanted {
        networks: Arc::new([network.map(Into::into)].into()),
        name_may_return: true,
        fact: Fact::of(stale.cause, pod.map(|pod| &*pod.uid)),
        row: row.clone().into_owned().into(),
    };
    Some((stale, reservation))
}

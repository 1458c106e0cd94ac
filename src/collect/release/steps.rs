//! The steps of releasing one reservation, whose order their types keep.
//!
//! [`Marked`]: no ADD can accept the reservation any more, since it is marked or needs no mark. [`Proven`]: its pod was
//! read after that, and its [`Fact`] holds. Only a proven one can be deleted. Both are made here alone.

use std::time::Duration;

use ipgc_core::{
    clearance::LOOK_AGAIN,
    definitions::Scope,
    fact::Fact,
    names::may_be_of_another,
    pods::PodIndex,
    proof::{OF_RESOURCE_CLAIMS, Presence, ResourceClaims, of_lone_reservation},
    refusal::Claims,
    reservation::Reservation,
    time::Moment,
};
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::Deletion;
use crate::{
    access::Right,
    api,
    calls::CallError,
    collect::{
        context::Context,
        gate::Access,
        prover::Asked,
        released::{Left, Released},
        reservation_api::is_absent,
    },
    lock::lock,
};

/// To do this with a reservation.
fn right(verb: &'static str, reservation: &Reservation) -> Right {
    Right::on_one::<api::Reservation>(verb, &reservation.namespace, &reservation.name)
}

/// A reservation that no ADD accepts any more.
pub(super) struct Marked<'r> {
    reservation: Reservation,
    deletion: Deletion<'r>,
    /// Where it is claimed: when no ADD that accepted it before that is at work any more.
    ripe: Option<Moment>,
}

/// A marked reservation whose [`Fact`] was found true after it was marked.
pub(super) struct Proven<'r>(Marked<'r>);

impl<'r> Marked<'r> {
    /// The request that it belongs to.
    pub(super) fn deletion(&self) -> Deletion<'r> {
        self.deletion
    }

    /// Whether it is claimed, so that it may have been accepted before that.
    pub(super) fn is_claimed(&self) -> bool {
        self.ripe.is_some()
    }

    /// When it may be deleted, if that is later than `now`.
    pub(super) fn waits_until(&self, now: Moment) -> Option<Moment> {
        self.ripe.filter(|ripe| *ripe > now)
    }
}

impl<'r> Proven<'r> {
    /// The marked reservation, which is no proof by itself.
    pub(super) fn marked(&self) -> &Marked<'r> {
        &self.0
    }

    /// Forgets the proof.
    pub(super) fn into_marked(self) -> Marked<'r> {
        self.0
    }
}

impl Context {
    /// Makes sure that no ADD accepts the reservation any more; `None` when it is gone.
    pub(super) async fn mark<'r>(
        &self,
        reservation: Reservation,
        deletion: Deletion<'r>,
    ) -> Result<Option<Marked<'r>>, (Deletion<'r>, Left)> {
        let wanted = deletion.wanted;
        if wanted.fact == Fact::Taken && !reservation.is_claimed() {
            return Ok(None);
        }
        let (policy, clock) = (&self.config.policy, self.clock);
        let mark = |reservation: Reservation| {
            // From when it is known to be claimed: the ADD that looked at it before may write its row yet.
            let claimed = reservation.is_claimed();
            let seen = || {
                let mut evidence = self.evidence();
                evidence.see_reservation(&reservation, clock.now()).first
            };
            Marked {
                ripe: claimed.then(|| seen() + policy.add_budget),
                reservation,
                deletion,
            }
        };
        // A pod that lives may accept it at any moment, whatever its name. One that names no pod nobody accepts.
        let may_be_accepted = (wanted.name_may_return || wanted.fact.is_of_living())
            && !reservation.podref.is_empty();
        let back_off = |verb| self.gate.backs_off_until(&right(verb, &reservation));
        let is_marked = !may_be_accepted || reservation.is_claimed();
        let claimed_until = || (!is_marked).then(|| back_off("patch")).flatten();
        if let Some(until) = back_off("delete").or_else(claimed_until) {
            let reason = "the server refused it a moment ago".to_owned();
            return Err((deletion, Left::Kept(reason, Some(until))));
        }
        if is_marked {
            return Ok(Some(mark(reservation)));
        }
        if !self.may_claim(&reservation) {
            let reason = "its claim is refused, like others'".to_owned();
            return Err((deletion, Left::Kept(reason, None)));
        }
        let claim = reservation.claim();
        match self.patch_reservation(&reservation, claim).await {
            // Its resourceVersion is the one that the DELETE must find again.
            Ok(claimed) => {
                self.gate.passed(&right("patch", &reservation));
                if let Some(claims) = lock(&self.claims).get_mut(&reservation.namespace) {
                    claims.passed();
                }
                Ok(claimed.map(mark))
            }
            Err(error) if is_absent(&error, &reservation.name) => Ok(None),
            Err(error) => {
                let left = left(self, "patch", &reservation, &error).await;
                if let Left::Kept(reason, _) = &left {
                    self.claim_refused(&reservation, reason);
                }
                Err((deletion, left))
            }
        }
    }

    /// Whether the server refuses all claims in a namespace.
    pub(super) fn claims_are_forbidden(&self, namespace: &str) -> bool {
        let claims = lock(&self.claims);
        claims.get(namespace).is_some_and(Claims::are_forbidden)
    }

    /// Whether a claim may be sent; where the server refuses them all, one may between two sweeps.
    fn may_claim(&self, reservation: &Reservation) -> bool {
        let may = lock(&self.claims)
            .get_mut(&reservation.namespace)
            .is_none_or(|claims| claims.may_begin(self.clock.now(), self.config.sweep_interval));
        if !may && self.is_to_be_told(&reservation.uid, "claim") {
            self.counters.claims_forbidden.inc();
        }
        may
    }

    /// The server refuses the claim of a reservation, and maybe all of them.
    fn claim_refused(&self, reservation: &Reservation, reason: &str) {
        let (namespace, name) = (&reservation.namespace, &reservation.name);
        let now = self.clock.now();
        let are_forbidden = lock(&self.claims)
            .entry(namespace.clone())
            .or_default()
            .refused(name, now, self.config.sweep_interval);
        if are_forbidden && self.is_to_be_told(namespace, "claims") {
            warn!(
                namespace,
                reservation = name,
                reason,
                "the server refuses to claim reservations: they are left, and one is tried after each sweep"
            );
            self.events.claims_forbidden(reservation, reason);
        }
    }
}

/// The meaning of a write on a reservation that failed; a refusal is told.
async fn left(
    context: &Context,
    verb: &'static str,
    reservation: &Reservation,
    error: &CallError,
) -> Left {
    let right = right(verb, reservation);
    if context.gate.is_about_object(&right, error).await {
        let reason = error.to_string();
        if context.is_to_be_told(&reservation.uid, &format!("refused/{reason}")) {
            context.counters.frees_refused.inc();
            let (namespace, name) = (&reservation.namespace, &reservation.name);
            warn!(
                namespace,
                reservation = name,
                verb,
                reason,
                "the server refuses to release a reservation"
            );
            context.events.reservation_refused(reservation, &reason);
        }
        return Left::Kept(reason, Some(context.gate.back_off(right)));
    }
    Left::after(&context.gate, Access::Write, "release reservations", error)
}

/// Whether a pod that may have accepted the reservation ended since the turn began, or its end is not told yet. Its sandbox
/// may run on. `found` is the pod as it was read.
fn is_news(
    deletion: Deletion<'_>,
    found: Option<&Presence>,
    pods: &PodIndex,
    is_fresh: bool,
) -> bool {
    let Deletion { wanted, since, .. } = deletion;
    let podref = &wanted.row.podref;
    let read = match found {
        Some(Presence::Present(Some(pod))) => Some(&*pod.uid),
        _ => None,
    };
    let live = pods.live(podref.as_str());
    let mut ended = pods.ended(podref).into_iter();
    wanted.name_may_return
        && (!is_fresh
            || live.is_some_and(|live| read != Some(&*live.state.uid))
            || pods.listed_at > since
            || ended.any(|end| end.at > since))
}

/// Reads the pods of marked reservations. Returns when the reads began, the reservations whose [`Fact`] holds, and
/// those that stay. Nothing else makes a [`Proven`].
pub(super) async fn prove<'r>(
    context: &Context,
    marked: Vec<Marked<'r>>,
    released: &mut [Released],
) -> (Instant, Vec<Proven<'r>>, Vec<Marked<'r>>) {
    let mut asked = Asked::new();
    for marked in &marked {
        let wanted = marked.deletion.wanted;
        let state = asked.entry(wanted.row.podref.clone()).or_default();
        *state |= wanted.fact != Fact::Absent;
    }
    let (begun, presence) = context.presence(&asked).await;
    let mut owners = asked.keys();
    let claims = if owners.any(|owner| owner.as_str() == OF_RESOURCE_CLAIMS) {
        context.resource_claims().await
    } else {
        Ok(ResourceClaims::default())
    };
    let (mut proven, mut kept) = (Vec::new(), Vec::new());
    let is_fresh = context.freshness.is_fresh();
    let evidence = context.evidence();
    for marked in marked {
        let wanted = marked.deletion.wanted;
        let (podref, address) = (&wanted.row.podref, wanted.row.address);
        let of_pod = presence.get(podref).cloned();
        let found = of_pod.map(|it| of_lone_reservation(podref, address, &claims, it));
        let found = found.as_ref();
        // A pod that lives may report what the name tells in another network.
        if let Some(Presence::Present(Some(pod))) = found
            && wanted.fact.is_of_living()
            && may_be_of_another(&marked.reservation.name, Some(address), pod)
        {
            kept.push(marked);
            continue;
        }
        let scope = Scope {
            networks: &wanted.networks,
            range: None,
            definitions: &evidence.definitions,
        };
        match wanted.fact.check(found, address, &scope) {
            Ok(true) if is_news(marked.deletion, found, &evidence.pods, is_fresh) => {
                let left = Left::Postponed(LOOK_AGAIN);
                marked.deletion.leave(released, left);
            }
            Ok(true) => proven.push(Proven(marked)),
            Ok(false) => kept.push(marked),
            Err(reason) => {
                let left = Left::Failed(reason.into_string(), Duration::ZERO);
                marked.deletion.leave(released, left);
            }
        }
    }
    (begun, proven, kept)
}

impl<'r> Proven<'r> {
    /// Deletes the reservation. Returns the deletion, if the reservation was there.
    pub(super) async fn delete(
        self,
        context: &Context,
    ) -> Result<Option<Deletion<'r>>, (Deletion<'r>, Left)> {
        let (reservation, deletion) = (self.0.reservation, self.0.deletion);
        let (namespace, name) = (&reservation.namespace, &reservation.name);
        match context.delete_reservation(&reservation).await {
            Ok(()) => {
                context.gate.passed(&right("delete", &reservation));
                let podref = &deletion.wanted.row.podref;
                info!(namespace, reservation = name, %podref, "freed reservation");
                Ok(Some(deletion))
            }
            Err(error) if is_absent(&error, name) => Ok(None),
            Err(error) => {
                let left = left(context, "delete", &reservation, &error);
                Err((deletion, left.await))
            }
        }
    }
}

impl<'r> Marked<'r> {
    /// The pod is back, or a row has the address: whoever accepted the reservation keeps it. `None` when it is gone.
    pub(super) async fn give_back(self, context: &Context) -> Option<(Deletion<'r>, Left)> {
        let kept = Left::Kept("its pod or a row may need it".to_owned(), None);
        if !self.is_claimed() {
            return Some((self.deletion, kept));
        }
        let (reservation, deletion) = (self.reservation, self.deletion);
        let (namespace, name) = (&reservation.namespace, &reservation.name);
        let given_back = context.patch_reservation(&reservation, reservation.give_back());
        match given_back.await {
            Ok(_) => {
                let podref = &deletion.wanted.row.podref;
                debug!(namespace, reservation = name, %podref, "reservation kept: its pod or a row may need it");
                Some((deletion, kept))
            }
            Err(error) if is_absent(&error, name) => None,
            Err(error) => {
                warn!(namespace, reservation = name, %error, "claimed reservation not given back");
                let left = left(context, "patch", &reservation, &error);
                Some((deletion, left.await))
            }
        }
    }
}

//! The steps of releasing one reservation, whose order their types keep.
//!
//! [`Marked`] is a reservation that no ADD accepts any more (claimed, or of a pod whose name never
//! returns), [`Proven`] is a marked one whose pod was read as absent after that, and only a proven one
//! can be deleted. Both are made here alone.

use ipgc_core::{
    fact::{Fact, Finding},
    reservation::Reservation,
    time::Moment,
};
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::{Releaser, Work, outcome::Outcomes, permission::Permission};
use crate::{
    calls::CallError,
    collect::{context::Context, prover::Asked, reservation_api::ReservationApi},
};

/// A reservation that no ADD accepts any more.
pub(super) struct Marked<'r> {
    reservation: Reservation,
    work: Work<'r>,
    /// Where it is claimed: when no ADD that accepted it before that is at work any more.
    ripe: Option<Moment>,
}

/// A marked reservation whose pod was absent after it was marked.
pub(super) struct Proven<'r>(Marked<'r>);

impl<'r> Marked<'r> {
    /// What it is to go for.
    pub(super) fn work(&self) -> Work<'r> {
        self.work
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
    /// What was proven, which is no proof of its own.
    pub(super) fn marked(&self) -> &Marked<'r> {
        &self.0
    }

    /// Forgets the proof.
    pub(super) fn into_marked(self) -> Marked<'r> {
        self.0
    }
}

impl Releaser {
    /// Makes sure that no ADD accepts the reservation any more; `None` when it is gone.
    pub(super) async fn mark<'r>(
        &self,
        permission: &Permission<'_>,
        namespace: &str,
        reservation: Reservation,
        work: Work<'r>,
    ) -> Result<Option<Marked<'r>>, (Work<'r>, CallError)> {
        let wanted = work.wanted;
        if wanted.fact == Fact::Taken && !reservation.is_claimed() {
            return Ok(None);
        }
        let Context {
            knowledge,
            policy,
            clock,
            ..
        } = permission.context;
        let mark = |reservation: Reservation| {
            // From when it is known to be claimed: the ADD that looked at it before may write its row yet.
            let claimed = reservation.is_claimed();
            let seen = || knowledge.see_reservation(&reservation, clock.now()).first;
            Marked {
                ripe: claimed.then(|| seen() + policy.add_budget),
                reservation,
                work,
            }
        };
        // A pod that lives may accept it at any moment, whatever its name. One that names no pod nobody accepts.
        let may_be_accepted = (wanted.name_may_return || wanted.fact == Fact::LivesElsewhere)
            && !reservation.podref.is_empty();
        if !may_be_accepted || reservation.is_claimed() {
            return Ok(Some(mark(reservation)));
        }
        let claim = reservation.claim();
        let answer = self.api.patch(namespace, &reservation.name, claim).await;
        permission.note(&answer);
        match answer {
            // Its resourceVersion is the one that the DELETE must find again.
            Ok(claimed) => Ok(claimed.map(mark)),
            Err(error) if ReservationApi::is_absent(&error, &reservation.name) => Ok(None),
            Err(error) => Err((work, error)),
        }
    }

    /// Reads the pods of marked reservations, which are marked by now: when that began, those proven
    /// absent, and those that are kept. Nothing else makes a [`Proven`].
    pub(super) async fn prove<'r>(
        &self,
        marked: Vec<Marked<'r>>,
        outcomes: &mut Outcomes,
    ) -> (Instant, Vec<Proven<'r>>, Vec<Marked<'r>>) {
        let mut asked = Asked::new();
        for marked in &marked {
            let wanted = marked.work.wanted;
            let state = asked.entry(wanted.row.podref.clone()).or_default();
            *state |= wanted.fact != Fact::Absent;
        }
        let (begun, presence) = self.prover.presence(&asked).await;
        let (mut proven, mut kept) = (Vec::new(), Vec::new());
        for marked in marked {
            let wanted = marked.work.wanted;
            let found = presence.get(&wanted.row.podref);
            match wanted.fact.check(found, wanted.row.address) {
                Finding::Holds => proven.push(Proven(marked)),
                Finding::DoesNot => kept.push(marked),
                Finding::Unknown(reason) => outcomes.fail_for(marked.work, reason.into_string()),
            }
        }
        (begun, proven, kept)
    }

    /// Deletes it; the work, if it was there.
    pub(super) async fn delete<'r>(
        &self,
        permission: &Permission<'_>,
        namespace: &str,
        Proven(marked): Proven<'r>,
    ) -> Result<Option<Work<'r>>, (Work<'r>, CallError)> {
        let Marked {
            reservation, work, ..
        } = marked;
        let answer = self.api.delete(namespace, &reservation).await;
        permission.note_deletion(&answer);
        match answer {
            Ok(()) => {
                let podref = &work.wanted.row.podref;
                info!(namespace, reservation = reservation.name, %podref, "freed reservation");
                Ok(Some(work))
            }
            Err(error) if ReservationApi::is_absent(&error, &reservation.name) => Ok(None),
            Err(error) => Err((work, error)),
        }
    }

    /// The pod is back, or a row has the address: whoever accepted the reservation keeps it.
    pub(super) async fn restore<'r>(
        &self,
        namespace: &str,
        marked: Marked<'r>,
    ) -> Result<(), (Work<'r>, CallError)> {
        let Marked {
            reservation,
            work,
            ripe,
        } = marked;
        if ripe.is_none() {
            return Ok(());
        }
        match self
            .api
            .patch(namespace, &reservation.name, reservation.restore())
            .await
        {
            Ok(_) => {
                let podref = &work.wanted.row.podref;
                debug!(namespace, reservation = reservation.name, %podref, "reservation kept: its pod is back, or a row has its address");
                Ok(())
            }
            Err(error) if ReservationApi::is_absent(&error, &reservation.name) => Ok(()),
            Err(error) => {
                warn!(namespace, reservation = reservation.name, %error, "claimed reservation not given back");
                Err((work, error))
            }
        }
    }
}

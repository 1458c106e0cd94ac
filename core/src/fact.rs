//! The fact about a pod that must hold when its reservation is deleted: the pod is read again after the claim.
//!
//! Decides about the answer to that question, and asks nobody.

use std::net::IpAddr;

use crate::{definitions::Scope, judge::Cause, proof::Presence};

/// The fact about the pod of a reservation that must hold when the reservation is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// It is absent.
    Absent,
    /// The pod is absent, or it is this incarnation in a terminal phase.
    Completed(Box<str>),
    /// It runs, and reports all that it asked for, and not this address.
    RunsWithoutIt,
    /// The pod is absent, or it is this incarnation and does not report this address. Its row was older than the pod.
    Predecessor(Box<str>),
    /// No fact allows the delete: a row of the same pod holds the address. A marked reservation is given back.
    Taken,
}

impl Fact {
    /// The fact behind a verdict on a row, about a pod with this uid.
    pub fn of(cause: Cause, uid: Option<&str>) -> Self {
        match (cause, uid) {
            (Cause::Deleted, _) => Self::Absent,
            (Cause::Completed, Some(uid)) => Self::Completed(uid.into()),
            (Cause::Predecessor, Some(uid)) => Self::Predecessor(uid.into()),
            (Cause::Completed | Cause::Predecessor | Cause::Leftover, _) => Self::RunsWithoutIt,
        }
    }

    /// Whether it is about the end of this incarnation.
    pub fn is_of(&self, uid: &str) -> bool {
        matches!(self, Self::Completed(own) if **own == *uid)
    }

    /// Whether the pod may take the reservation for its own at any moment, since it is there.
    pub fn is_of_living(&self) -> bool {
        matches!(self, Self::RunsWithoutIt | Self::Predecessor(_))
    }

    /// Whether it is true of a pod that was read like this, with regard to the reservation of
    /// `address` in `scope`; `None` where the pod was not read.
    ///
    /// # Errors
    /// Why nothing is known of the pod.
    pub fn check(
        &self,
        presence: Option<&Presence>,
        address: IpAddr,
        scope: &Scope<'_>,
    ) -> Result<bool, Box<str>> {
        Ok(match (self, presence) {
            (Self::Taken, _) => false,
            (_, None) => return Err("its pod was not read".into()),
            (_, Some(Presence::Unknown(reason))) => return Err(reason.clone()),
            (Self::Absent | Self::Completed(_) | Self::Predecessor(_), Some(Presence::Absent)) => {
                true
            }
            (Self::Completed(uid), Some(Presence::Present(Some(pod)))) => {
                pod.uid == *uid && pod.phase.is_terminal()
            }
            (Self::RunsWithoutIt, Some(Presence::Present(Some(pod)))) => {
                pod.is_running()
                    && scope.is_told_by(pod, address)
                    && !scope.is_reported_by(pod, address)
            }
            (Self::Predecessor(uid), Some(Presence::Present(Some(pod)))) => {
                pod.uid == *uid && !scope.is_reported_by(pod, address)
            }
            (_, Some(Presence::Absent | Presence::Present(_))) => false,
        })
    }
}

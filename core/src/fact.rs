//! What must be true of a pod when a reservation of its goes: it is asked for again after the claim.
//!
//! Decides about the answer to that question, and asks nobody.

use std::net::IpAddr;

use crate::{judge::Cause, proof::Presence};

/// What must be true of the pod of a reservation when it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// It is absent.
    Absent,
    /// This incarnation of it is at its end.
    Completed(Box<str>),
    /// It runs, and reports all that it asked for, and not this address.
    LivesElsewhere,
    /// Nothing can be: a row of the same pod holds the address. A claim on it is given back.
    Taken,
}

/// What a read of the pod says about a [`Fact`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It is true.
    Holds,
    /// It is not.
    DoesNot,
    /// The read failed, for this reason.
    Unknown(Box<str>),
}

impl Fact {
    /// The fact behind a verdict on a row, about a pod with this uid.
    #[must_use]
    pub fn of(cause: Cause, uid: Option<&str>) -> Self {
        match (cause, uid) {
            (Cause::Deleted, _) => Self::Absent,
            (Cause::Completed, Some(uid)) => Self::Completed(uid.into()),
            (Cause::Completed | Cause::Predecessor | Cause::Leftover, _) => Self::LivesElsewhere,
        }
    }

    /// Whether it is true of a pod that was read like this, with regard to the reservation of
    /// `address`; `None` where the pod was not read.
    #[must_use]
    pub fn check(&self, presence: Option<&Presence>, address: IpAddr) -> Finding {
        let holds = match (self, presence) {
            (Self::Taken, _) => false,
            (_, None) => return Finding::Unknown("its pod was not read".into()),
            (_, Some(Presence::Unknown(reason))) => return Finding::Unknown(reason.clone()),
            (Self::Absent | Self::Completed(_), Some(Presence::Absent)) => true,
            (Self::Completed(uid), Some(Presence::Present(Some(pod)))) => {
                pod.uid == *uid && pod.phase.is_terminal()
            }
            (Self::LivesElsewhere, Some(Presence::Present(Some(pod)))) => {
                let complete = pod.status.is_complete_for(&pod.request);
                pod.is_running() && complete && !pod.status.has_address(address)
            }
            (_, Some(Presence::Absent | Presence::Present(_))) => false,
        };
        if holds {
            Finding::Holds
        } else {
            Finding::DoesNot
        }
    }
}

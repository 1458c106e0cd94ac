//! The verdict on a row.
//!
//! [`judge`] goes through the rules of docs/safety.md in their order; the first that fits decides.
//! Held and Unknown rows stay. A Stale row carries the grade of its evidence and the moment from
//! which it may go, and only [`Proof::release`] turns it into something that a patch can be made
//! of.

use std::{fmt, sync::Arc};

use crate::{
    evidence::{Ended, Grade, Policy, free_time},
    networks::Status,
    pod::{Phase, PodState},
    pool::{ObservedPool, Row, RowContent, Unreadable},
    proof::{Presence, Proof},
    time::Moment,
};

/// What is to become of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A pod may answer on it.
    Held(Held),
    /// Nobody answers on it any more, or will not from a known moment on.
    Stale(Stale),
    /// We cannot tell. Never freed.
    Unknown(Unknown),
}

/// Why a row is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Rule 5: the pod reports the address.
    Reported,
    /// Rule 7: the pod is not there yet, or on its way out, or its status cannot be read.
    Young,
    /// Rule 9: the pod is there and the rules know no reason to free the row.
    Drift,
    /// The pod is there; more was not asked.
    Present,
}

/// A row whose pod is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stale {
    /// How well it is known that no sandbox answers.
    pub grade: Grade,
    /// What made it stale.
    pub cause: Cause,
    /// From when on it may be freed.
    pub free_at: Moment,
}

/// What made a row stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Rule 3: its pod was deleted.
    Deleted,
}

impl Cause {
    /// The word for logs and metric labels.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deleted => "deleted",
        }
    }
}

/// Why nothing can be said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// Rule 1: the row says nothing that we may act on.
    Unreadable(Unreadable),
    /// Rule 1: its owner is matched by `--keep-podref`.
    KeptOwner,
    /// Rule 1: a person exempted it by an annotation of the pool.
    Exempt,
    /// The pod's presence could not be read.
    NoProof(Box<str>),
    /// The pod is absent, and no incarnation of it was ever seen.
    NoEvidence,
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reported => "its pod reports the address",
            Self::Young => "its pod is starting or ending, or its network-status cannot be read",
            Self::Drift => "its pod is there and does not report the address",
            Self::Present => "its pod is there",
        })
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(reason) => reason.fmt(f),
            Self::KeptOwner => f.write_str("--keep-podref matches its owner"),
            Self::Exempt => f.write_str("an annotation of its pool exempts it"),
            Self::NoProof(reason) => write!(f, "its pod could not be read: {reason}"),
            Self::NoEvidence => f.write_str("nothing is known of how its pod ended"),
        }
    }
}

/// Judges one row of `pool`.
///
/// `ended` are the known incarnations of the row's podref in the order of their ends; `rows` is
/// the number of rows that the podref was observed to have.
#[must_use]
pub fn judge(
    pool: &ObservedPool,
    row: &Row,
    presence: &Presence,
    ended: &[Arc<Ended>],
    rows: usize,
    policy: &Policy,
) -> Verdict {
    // Rule 1
    let content = match readable(pool, row, policy) {
        Ok(content) => content,
        Err(unknown) => return Verdict::Unknown(unknown),
    };
    match presence {
        Presence::Unknown(reason) => Verdict::Unknown(Unknown::NoProof(reason.clone())),
        Presence::Present(None) => Verdict::Held(Held::Present),
        Presence::Present(Some(pod)) => Verdict::Held(present(pod, content)),
        // Rule 3
        Presence::Absent => match free_time(content, ended, rows, policy) {
            None => Verdict::Unknown(Unknown::NoEvidence),
            Some((grade, free_at)) => Verdict::Stale(Stale {
                grade,
                cause: Cause::Deleted,
                free_at,
            }),
        },
    }
}

fn readable<'r>(
    pool: &ObservedPool,
    row: &'r Row,
    policy: &Policy,
) -> Result<&'r RowContent, Unknown> {
    let content = row
        .content()
        .map_err(|reason| Unknown::Unreadable(reason.clone()))?;
    if pool.is_exempt(row) {
        return Err(Unknown::Exempt);
    }
    let kept = |glob: &crate::podref::Glob| glob.matches(content.podref.as_str());
    if policy.keep_podrefs.iter().any(kept) {
        return Err(Unknown::KeptOwner);
    }
    Ok(content)
}

fn present(pod: &PodState, row: &RowContent) -> Held {
    // Rule 5
    if pod.status.has_address(row.address) {
        return Held::Reported;
    }
    // Rule 7
    let unread = !matches!(pod.status, Status::Valid(_));
    if unread || pod.deleting || matches!(pod.phase, Phase::Pending | Phase::Unknown) {
        return Held::Young;
    }
    // Rule 9
    Held::Drift
}

/// A row that may go now. Only [`Proof::release`] makes one.
#[derive(Clone, Debug)]
pub struct Release<'a> {
    row: &'a Row,
    content: &'a RowContent,
    stale: Stale,
}

impl<'a> Release<'a> {
    /// The row.
    #[must_use]
    pub fn row(&self) -> &'a Row {
        self.row
    }

    /// What it says.
    #[must_use]
    pub fn content(&self) -> &'a RowContent {
        self.content
    }

    /// Why it may go.
    #[must_use]
    pub fn stale(&self) -> Stale {
        self.stale
    }
}

impl<'a> Proof<'a> {
    /// Judges a row of the observation that this proof followed. About a row of any other
    /// observation, a later one of the same pool included, it proves nothing.
    ///
    /// # Errors
    /// The verdict, when the row may not go at `now`.
    pub fn release(
        &self,
        row: &'a Row,
        ended: &[Arc<Ended>],
        rows: usize,
        policy: &Policy,
        now: Moment,
    ) -> Result<Release<'a>, Verdict> {
        let presence = match row.content() {
            Ok(content) if self.observed().holds(row) => self.presence(&content.podref),
            Ok(_) => Presence::Unknown("the row is of another observation".into()),
            Err(_) => Presence::Unknown("not asked".into()),
        };
        match judge(self.observed(), row, &presence, ended, rows, policy) {
            Verdict::Stale(stale) if stale.free_at <= now => match row.content() {
                Ok(content) => Ok(Release {
                    row,
                    content,
                    stale,
                }),
                Err(reason) => Err(Verdict::Unknown(Unknown::Unreadable(reason.clone()))),
            },
            verdict => Err(verdict),
        }
    }
}

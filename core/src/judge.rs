//! The verdict on a row.
//!
//! [`judge`] goes through the rules of docs/safety.md in their order; the first that fits decides.
//! Held and Unknown rows stay. A Stale row carries what its wait is for
//! ([`crate::clearance`]), and only [`Proof::release`], or [`Proof::force`] where a person says so, turns it
//! into something that a patch can be made of.

use std::{fmt, net::IpAddr, time::Duration};

use crate::{
    clearance::{Clearance, Facts, LOOK_AGAIN, Subject},
    evidence::{Grade, Policy},
    networks::Status,
    node::Standing,
    pod::{ContainerState, PodState},
    pool::{ObservedPool, Row, RowContent, Unreadable},
    proof::{Presence, Proof},
    reservation::Reservation,
    time::Moment,
};

/// What is to become of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A pod may answer on it.
    Held(Held),
    /// Nobody answers on it any more, or will not once its wait is over.
    Stale(Stale),
    /// We cannot tell. Never freed.
    Unknown(Unknown),
}

/// Why a row is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Held {
    /// Rule 2: its pod is the mirror of a static pod.
    Mirror,
    /// Rule 5: the pod reports the address.
    Reported,
    /// Rule 7: the pod is not there yet, or on its way out, or its status cannot be read.
    Young,
    /// Rule 9: the pod is there and the rules know no reason to free the row.
    Drift,
    /// The pod is there; more was not asked.
    Present,
}

/// A row that nobody needs any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stale {
    /// What made it stale.
    pub cause: Cause,
    /// When it may go, and how well it is known that no sandbox answers.
    pub clearance: Clearance,
}

impl Stale {
    /// How well it is known that no sandbox answers.
    #[must_use]
    pub fn grade(&self) -> Grade {
        self.clearance.grade
    }

    /// Whether a person can say that nobody answers on its address: its pod is gone, or at its end. Of one that
    /// is there nobody can.
    #[must_use]
    pub fn may_be_forced(&self) -> bool {
        matches!(self.cause, Cause::Deleted | Cause::Completed)
    }

    /// Whether it may go at `now`.
    #[must_use]
    pub fn is_free(&self, now: Moment) -> bool {
        self.clearance.is_over(now)
    }
}

/// What made a row stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Rules 2 and 3: its pod was deleted.
    Deleted,
    /// Rule 4: its pod is at its end, and stays.
    Completed,
    /// Rule 6: it was there before its pod was.
    Predecessor,
    /// Rule 8: its pod lives on another sandbox.
    Leftover,
}

impl Cause {
    /// All of them, in the order of their rules.
    pub const ALL: [Self; 4] = [
        Self::Deleted,
        Self::Completed,
        Self::Predecessor,
        Self::Leftover,
    ];

    /// The word for logs and metric labels.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deleted => "deleted",
            Self::Completed => "completed",
            Self::Predecessor => "predecessor",
            Self::Leftover => "leftover",
        }
    }
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cause = match self.cause {
            Cause::Deleted => "its pod is gone",
            Cause::Completed => "its pod is at its end",
            Cause::Predecessor => "it is older than its pod, which did not take it over",
            Cause::Leftover => "its pod lives on another sandbox",
        };
        let grade = match self.grade() {
            Grade::Settled => "whose sandbox was stopped",
            Grade::Fenced => "whose node runs no sandboxes",
            Grade::Witnessed => "whose end was seen",
            Grade::Unwitnessed => "nobody saw whoever had it",
            Grade::Unfenced if self.clearance.endless.is_some() => {
                "whose kubelet may still be at its DELs"
            }
            Grade::Unfenced => "whose node is silent",
        };
        write!(f, "{cause}, {grade}; it goes {}", self.clearance.wait)
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
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mirror => "its pod is the mirror of a static pod",
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
        }
    }
}

/// Judges one row of `pool`, whose pod was read as `presence` after the row was observed.
#[must_use]
pub fn judge(
    pool: &ObservedPool,
    row: &Row,
    presence: &Presence,
    facts: &Facts<'_>,
    policy: &Policy,
    now: Moment,
) -> Verdict {
    // Rule 1
    let content = match readable(pool, row, policy) {
        Ok(content) => content,
        Err(unknown) => return Verdict::Unknown(unknown),
    };
    let subject = Subject {
        row: content,
        facts,
        policy,
        now,
    };
    match presence {
        Presence::Unknown(reason) => Verdict::Unknown(Unknown::NoProof(reason.clone())),
        Presence::Present(None) => Verdict::Held(Held::Present),
        Presence::Present(Some(pod)) => present(&subject, pod),
        Presence::Absent => Verdict::Stale(absent(&subject)),
    }
}

/// A reservation that has no row waits for so much longer: an upstream DEL in flight deletes it by
/// name.
const ORPHAN_MORE: Duration = Duration::from_secs(10);
/// A claim that is older than an ADD may take by so much is nobody's work in progress.
const CLAIM_OLD: Duration = Duration::from_secs(60);

/// Judges a reservation of `address` without a row, whose pod was read as `presence` after it was
/// seen that there is no row. `facts` are those of the row that it would belong to.
#[must_use]
pub fn judge_orphan(
    reservation: &Reservation,
    address: IpAddr,
    presence: &Presence,
    facts: &Facts<'_>,
    policy: &Policy,
    now: Moment,
) -> Verdict {
    let row = match reservation.as_row(address) {
        Ok(row) => row,
        Err(unreadable) => return Verdict::Unknown(Unknown::Unreadable(unreadable)),
    };
    let kept = |glob: &crate::podref::Glob| glob.matches(row.podref.as_str());
    if policy.keep_podrefs.iter().any(kept) {
        return Verdict::Unknown(Unknown::KeptOwner);
    }
    let subject = Subject {
        row: &row,
        facts,
        policy,
        now,
    };
    let first = facts.sighting.map_or(now, |sighting| sighting.first);
    let stale = |cause, clearance: Clearance| {
        Verdict::Stale(Stale {
            cause,
            clearance: clearance.later(ORPHAN_MORE),
        })
    };
    if reservation.is_claimed() && !matches!(presence, Presence::Unknown(_)) {
        // Its row went, and so it was cleared, before it was claimed. Where its pod lives again,
        // what follows gives it back.
        let clearance = Clearance::certain(first + policy.add_budget + CLAIM_OLD);
        return Verdict::Stale(Stale {
            cause: Cause::Deleted,
            clearance,
        });
    }
    match presence {
        Presence::Unknown(reason) => Verdict::Unknown(Unknown::NoProof(reason.clone())),
        Presence::Present(None) => Verdict::Held(Held::Present),
        Presence::Absent => {
            let Stale { cause, clearance } = absent(&subject);
            stale(cause, clearance)
        }
        Presence::Present(Some(pod)) if pod.mirror => Verdict::Held(Held::Mirror),
        Presence::Present(Some(pod)) => {
            if let Some(clearance) = completed(&subject, pod) {
                return stale(Cause::Completed, clearance);
            }
            if pod.status.has_address(address) {
                return Verdict::Held(Held::Reported);
            }
            if !pod.is_running() || !matches!(pod.status, Status::Valid(_)) {
                return Verdict::Held(Held::Young);
            }
            if !pod.status.is_complete_for(&pod.request) {
                return Verdict::Held(Held::Drift);
            }
            let from = first + policy.leftover_grace;
            stale(Cause::Leftover, subject.of_former_sandbox(pod, from))
        }
    }
}

fn absent(subject: &Subject<'_>) -> Stale {
    let Subject { row, facts, .. } = subject;
    // Rule 2; rule 3
    let clearance = match mirror_of(row, facts) {
        Some(nodes) => subject.of_mirror(&nodes),
        None => subject.of_deleted(),
    };
    Stale {
        cause: Cause::Deleted,
        clearance: match facts.living {
            // Its end is on its way, and what that says is evidence too.
            Some(_) => clearance.not_before(subject.now + LOOK_AGAIN),
            None => clearance,
        },
    }
}

/// The nodes of the static pod whose mirror an absent pod was; `None` where it was none. Where nobody
/// saw it, its name tells: the kubelet appends its own, which may be the end of another one's.
fn mirror_of<'a>(row: &RowContent, facts: &Facts<'a>) -> Option<Vec<&'a str>> {
    if !facts.ended.is_empty() {
        let mut mirrors = facts.ended.iter().filter(|end| end.last.mirror).peekable();
        mirrors.peek()?;
        return Some(mirrors.filter_map(|end| end.last.node.as_deref()).collect());
    }
    let nodes = facts.nodes.ending(row.podref.name());
    (!nodes.is_empty()).then_some(nodes)
}

fn present(subject: &Subject<'_>, pod: &PodState) -> Verdict {
    let Subject { row, facts, .. } = subject;
    let stale = |cause, clearance| Verdict::Stale(Stale { cause, clearance });
    // Rule 2
    if pod.mirror {
        return Verdict::Held(Held::Mirror);
    }
    // Rule 4
    if let Some(clearance) = completed(subject, pod) {
        return stale(Cause::Completed, clearance);
    }
    // Rule 5
    if pod.status.has_address(row.address) {
        return Verdict::Held(Held::Reported);
    }
    // Rule 6
    let leftover_grace = subject.policy.leftover_grace;
    if let Some(seen) = facts.sighting.and_then(|sighting| sighting.while_absent) {
        // The watch may be behind, at a predecessor.
        let living = facts.living.as_ref().filter(|l| l.uid == pod.uid);
        let running_since = living.and_then(|l| l.running_since);
        let from = match &row.interface {
            // ADD can never adopt it.
            None => Some(seen),
            Some(_) => running_since
                .filter(|_| pod.is_running())
                .map(|since| since + leftover_grace),
        };
        if let Some(from) = from {
            return stale(Cause::Predecessor, subject.of_former_sandbox(pod, from));
        }
    }
    // Rule 7
    if !pod.is_running() || !matches!(pod.status, Status::Valid(_)) {
        return Verdict::Held(Held::Young);
    }
    // Rule 8
    if pod.status.is_complete_for(&pod.request) && lives_elsewhere(pod, row, facts.siblings) {
        let first = facts
            .sighting
            .map_or(subject.now, |sighting| sighting.first);
        let clearance = subject.of_former_sandbox(pod, first + leftover_grace);
        return stale(Cause::Leftover, clearance);
    }
    // Rule 9
    Verdict::Held(Held::Drift)
}

/// Whether [`judge`] holds each readable row of this address for what its pod reports, whatever else is known: rule 5,
/// and neither rule 2 nor rule 4. A row that is exempted or of a kept owner is held all the same, as what it is.
#[must_use]
pub fn is_reported(pod: &PodState, address: IpAddr) -> bool {
    !pod.mirror && !pod.phase.is_terminal() && pod.status.has_address(address)
}

/// When the rows of a pod at its end may go, if it is one.
fn completed(subject: &Subject<'_>, pod: &PodState) -> Option<Clearance> {
    let living = subject.facts.living.as_ref()?;
    let completed = living.completed.as_ref()?;
    let is_it = completed.last.uid == pod.uid && pod.phase.is_terminal() && !pod.mirror;
    let stopped = completed.stopped && !runs(pod);
    let stopped = stopped || is_end_made_up(pod, subject.row) || is_fenced(pod, subject);
    (is_it && stopped).then(|| subject.of_completed(completed))
}

fn runs(pod: &PodState) -> bool {
    let mut containers = pod.containers.iter();
    containers.any(|container| container.state == ContainerState::Running)
}

/// Whether the kubelet found none of its containers when the pod was at its end, and made up how they ended,
/// as it does when the runtime has removed them. Whoever looks first by then never learns of a start. It does
/// the same for a set-up that was cut off and may go on; but then multus has not reported the address.
fn is_end_made_up(pod: &PodState, row: &RowContent) -> bool {
    let made_up = ContainerState::Terminated { started: false };
    let mut containers = pod.containers.iter();
    !pod.containers.is_empty()
        && containers.all(|container| container.state == made_up)
        && pod.sandbox_ready != Some(true)
        && pod.status.has_address(row.address)
}

fn is_fenced(pod: &PodState, subject: &Subject<'_>) -> bool {
    pod.node.as_ref().is_some_and(|node| {
        let nodes = subject.facts.nodes;
        nodes.standing(node, subject.now, subject.now) == Standing::Fenced
    })
}

/// Rule 8: whether all rows that the pod reports, in any pool, bear one sandbox, and this row another. A
/// report of an address on some other interface may speak against that, never for it.
#[must_use]
pub fn lives_elsewhere(pod: &PodState, row: &RowContent, siblings: Option<&[RowContent]>) -> bool {
    let own = siblings
        .unwrap_or_default()
        .iter()
        .filter(|sibling| sibling.podref == row.podref && pod.status.has_address(sibling.address));
    let is_reported = |sibling: &&RowContent| {
        let interface = sibling.interface.as_deref();
        interface.is_some_and(|name| pod.status.reported(name, sibling.address).is_some())
    };
    let Some(first) = own.clone().find(is_reported) else {
        return false;
    };
    first.sandbox != row.sandbox && own.clone().all(|sibling| sibling.sandbox == first.sandbox)
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

/// A row that may go now. Only [`Proof::release`] and, by the word of a person, [`Proof::force`] make one.
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
    pub fn stale(&self) -> &Stale {
        &self.stale
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
        facts: &Facts<'_>,
        policy: &Policy,
        now: Moment,
    ) -> Result<Release<'a>, Verdict> {
        self.release_if(row, facts, policy, now, |stale| stale.is_free(now))
    }

    /// The same by the word of a person that no sandbox answers on the address: whatever a row waits for whose pod
    /// is gone or at its end, its wait counts as over. That it is so is proven all the same.
    ///
    /// # Errors
    /// The verdict, when the row may not go at `now` by that word either.
    pub fn force(
        &self,
        row: &'a Row,
        facts: &Facts<'_>,
        policy: &Policy,
        now: Moment,
    ) -> Result<Release<'a>, Verdict> {
        let may_go = |stale: &Stale| stale.may_be_forced() || stale.is_free(now);
        self.release_if(row, facts, policy, now, may_go)
    }

    fn release_if(
        &self,
        row: &'a Row,
        facts: &Facts<'_>,
        policy: &Policy,
        now: Moment,
        may_go: impl FnOnce(&Stale) -> bool,
    ) -> Result<Release<'a>, Verdict> {
        let presence = match row.content() {
            Ok(content) if self.observed().holds(row) => self.presence(&content.podref),
            Ok(_) => Presence::Unknown("the row is of another observation".into()),
            Err(_) => Presence::Unknown("not asked".into()),
        };
        match judge(self.observed(), row, &presence, facts, policy, now) {
            Verdict::Stale(stale) if may_go(&stale) => match row.content() {
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

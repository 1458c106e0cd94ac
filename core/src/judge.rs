//! The verdict on a row.
//!
//! [`judge`] goes through the rules of docs/safety.md in their order; the first that fits decides.
//! Held and Unknown rows stay. A Stale row carries what its wait is for
//! ([`crate::clearance`]), and only [`Proof::release`](crate::proof::Proof::release), or `force` where a person says so, turns it
//! into a [`Release`], of which a patch can be made.

mod orphan;
mod release;
mod word;

pub use self::{
    orphan::{judge_ambiguous, judge_orphan, reports_more},
    release::Release,
    word::Word,
};

use crate::{
    clearance::{Clearance, Facts, LOOK_AGAIN, Living, Other, Subject},
    definitions::Scope,
    evidence::Policy,
    id::IdTag,
    networks::{FIRST_INTERFACE, Status},
    node::Standing,
    pod::PodState,
    podref::PodRef,
    pool::{ObservedPool, Row, RowContent, Unreadable},
    proof::Presence,
    time::Moment,
};

/// The verdict on a row.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// A pod may answer on it.
    Held(Held),
    /// Nobody answers on it any more, or will not once its wait is over.
    Stale(Stale),
    /// We cannot tell. Never freed.
    Unknown(Unknown),
}

impl Verdict {
    /// The verdict if a person says that nobody answers on the address: a pod that runs
    /// without using it does not keep it any more.
    pub fn forced(self, now: Moment) -> Self {
        match self {
            Self::Held(Held::Unused) => Self::Stale(Stale {
                cause: Cause::Leftover,
                clearance: Clearance::certain(now),
            }),
            verdict => verdict,
        }
    }
}

/// Why a row is held.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[allow(missing_docs, reason = "a variant without a doc has it in its text")]
pub enum Held {
    #[error("its pod is the mirror of a static pod")]
    Mirror, // Rule 2
    #[error("its pod reports the address")]
    Reported, // Rule 5
    #[error("its id is a container of its pod")]
    OwnContainer, // Rule 5
    /// Another pod that is there reports the address in the same network.
    #[error("pod {0} reports the address")]
    InUse(PodRef),
    #[error("its id is a sandbox or container of pod {0}")]
    OthersSandbox(PodRef),
    /// The pod is in a terminal phase, and nothing says that its sandbox stopped. Its report is of before.
    #[error("its pod is in a terminal phase, and nothing says that its sandbox stopped")]
    Ended,
    /// The pod is being deleted, and its node is not ready, fenced or gone: no kubelet ends it.
    #[error("its pod is being deleted, and no kubelet ends it on its node")]
    Leaving,
    #[error("its pod is starting or ending, or its network-status cannot be read")]
    Changing, // Rule 7
    /// Rule 9: the pod runs and does not use the address in the row's network, and no evidence tells
    /// whose the row is.
    #[error("its pod runs and does not use the address in this network")]
    Unused,
    /// Rule 9: the pod is there and the rules know no reason to free the row.
    #[error("its pod is there and does not report the address")]
    Drift,
    /// The pod is there; more was not asked.
    #[error("its pod is there")]
    Present,
    /// Rule 3: the row is of a ResourceClaim that is there, or whose address another one reports, or a pod of the row's
    /// name is there.
    #[error("its ResourceClaim is there, or another one or a pod that may use the address")]
    ResourceClaim,
}

/// A row that nobody needs any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stale {
    /// The cause that made it stale.
    pub cause: Cause,
    /// When it may go, and how well it is known that no sandbox answers.
    pub clearance: Clearance,
}

impl Stale {
    /// Whether it may go at `now`.
    pub fn is_free(&self, now: Moment) -> bool {
        self.clearance.is_over(now)
    }
}

/// The cause that made a row stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Rules 2 and 3: its pod was deleted.
    Deleted,
    /// Rule 4: its pod is in a terminal phase, and stays.
    Completed,
    /// Rule 6: it was there before its pod was.
    Predecessor,
    /// Rule 8: its pod runs in another sandbox.
    Leftover,
}

words! { Cause: Deleted "deleted", Completed "completed", Predecessor "predecessor", Leftover "leftover" }

/// Why nothing can be said.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "a variant without a doc has it in its text")]
pub enum Unknown {
    /// Rule 1: the row says nothing that we may act on.
    #[error(transparent)]
    Unreadable(Unreadable),
    #[error("--keep-podref matches its owner")]
    KeptOwner, // Rule 1
    #[error("ipgc.dev/hold or ipgc.dev/keep of its pool exempts it")]
    Exempt, // Rule 1
    #[error("nobody knows whether a pod uses it: {0}")]
    NoProof(Box<str>),
}

/// Judges one row of `pool`, whose pod was read as `presence` after the row was observed.
pub fn judge(pool: &ObservedPool, row: &Row, presence: &Presence, facts: &Facts<'_>) -> Verdict {
    // Rule 1
    let content = match readable(pool, row, facts.policy) {
        Ok(content) => content,
        Err(unknown) => return Verdict::Unknown(unknown),
    };
    let subject = &Subject {
        row: content,
        facts,
    };
    let is_of_claim = content.resource_claim().is_some();
    let of_pod = |pod: &PodState| present(subject, pod);
    let verdict = by_presence(subject, presence, is_of_claim, of_pod);
    beside_others(subject, verdict)
}

/// The verdict by the presence of the owner: a ResourceClaim, or a pod. `of_pod` judges by the state of a pod that is there.
fn by_presence(
    subject: &Subject<'_>,
    presence: &Presence,
    is_of_claim: bool,
    of_pod: impl Fn(&PodState) -> Verdict,
) -> Verdict {
    match presence {
        Presence::Unknown(reason) => Verdict::Unknown(Unknown::NoProof(reason.clone())),
        Presence::Present(_) if is_of_claim => Verdict::Held(Held::ResourceClaim),
        Presence::Present(None) => Verdict::Held(Held::Present),
        Presence::Present(Some(pod)) => of_pod(pod),
        Presence::Absent if is_of_claim => Verdict::Stale(Stale {
            cause: Cause::Deleted,
            clearance: subject.of_resource_claim(),
        }),
        Presence::Absent => Verdict::Stale(absent(subject)),
    }
}

/// A row that its own pod does not need may hold the address of another pod. The row stays while that pod is there, and
/// then waits as that pod's end demands.
fn beside_others(subject: &Subject<'_>, verdict: Verdict) -> Verdict {
    // A person may free a row that its pod does not use.
    if matches!(verdict, Verdict::Stale(_) | Verdict::Held(Held::Unused))
        && let Some(held) = in_use(subject.row, subject.facts.others, &subject.facts.scope)
    {
        return Verdict::Held(held);
    }
    let Verdict::Stale(mut stale) = verdict else {
        return verdict;
    };
    let born = subject.born();
    for other in others_of(subject.row, subject.facts.others, &subject.facts.scope) {
        // A pod that was born after that end was given the address by whereabouts, which had it back.
        if let Some(end) = &other.end
            && born.is_none_or(|born| end.at >= born)
        {
            stale.clearance = stale.clearance.and(subject.of_other(end));
        }
    }
    Verdict::Stale(stale)
}

/// Why a row is held for another pod than its own, if one of `others` is there that may answer on its
/// address.
pub fn in_use(row: &RowContent, others: &[Other], scope: &Scope<'_>) -> Option<Held> {
    let living = others_of(row, others, scope).find(|other| other.end.is_none())?;
    let podref = living.pod.podref.clone();
    Some(if living.has_id {
        Held::OthersSandbox(podref)
    } else {
        Held::InUse(podref)
    })
}

fn others_of<'a>(
    row: &'a RowContent,
    others: &'a [Other],
    scope: &'a Scope<'a>,
) -> impl Iterator<Item = &'a Other> {
    // The cluster's own network, which has no definition, is on the first interface of each pod.
    let is_first = row.interface.as_deref().unwrap_or(FIRST_INTERFACE) == FIRST_INTERFACE;
    others.iter().filter(move |other| {
        let mut entries = other.pod.status.entries();
        let reports = entries.any(|entry| {
            entry.addresses.contains(&row.address)
                && (is_first || entry.interface != FIRST_INTERFACE || entry.network.contains('/'))
                && scope.may_name(entry, row.address)
        });
        other.pod.podref != row.podref && (other.has_id || reports)
    })
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
            Some(_) => clearance.not_before(subject.facts.now + LOOK_AGAIN),
            None => clearance,
        },
    }
}

/// The nodes of the static pod, if the absent pod was its mirror. For an unseen pod the name decides: it ends with a
/// node's name. Several node names may fit.
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
    let is_reported = facts.scope.is_reported_by(pod, row.address);
    if let Some(verdict) = by_own_pod(subject, pod, is_reported) {
        return verdict;
    }
    // Rule 6
    let leftover_grace = subject.facts.policy.leftover_grace;
    if let Some(from) = is_predecessors(subject, pod) {
        return stale(Cause::Predecessor, subject.of_former_sandbox(pod, from));
    }
    // Rule 7
    if is_changing(pod) {
        return held_while_at_work(subject, pod, Held::Changing);
    }
    // Rule 8
    let is_told = facts.scope.is_told_by(pod, row.address);
    if is_told && runs_in_other_sandbox(pod, row, facts.siblings) {
        let from = subject.first_seen() + leftover_grace;
        let clearance = subject.of_former_sandbox(pod, from);
        return stale(Cause::Leftover, clearance);
    }
    // Rule 9
    Verdict::Held(if is_told && is_unused(pod, row, facts.siblings) {
        Held::Unused
    } else {
        Held::Drift
    })
}

/// Rules 2, 4 and 5, which are the same for a row and for a reservation without one: the verdict if the state of its own
/// pod decides. `is_reported` says whether that pod may report the address.
fn by_own_pod(subject: &Subject<'_>, pod: &PodState, is_reported: bool) -> Option<Verdict> {
    // Rule 2: as long as the mirror is there, its static pod may run.
    if pod.mirror {
        let reported = subject.facts.scope.is_reported_by(pod, subject.row.address);
        return Some(Verdict::Held(if reported {
            Held::Reported
        } else {
            Held::Mirror
        }));
    }
    // Rule 4
    if let Some(clearance) = completed(subject, pod) {
        let cause = Cause::Completed;
        return Some(Verdict::Stale(Stale { cause, clearance }));
    }
    // Rule 5
    let reason = if is_reported {
        Held::Reported
    } else if pod.shows(&subject.row.sandbox) {
        Held::OwnContainer
    } else {
        return None;
    };
    Some(held_while_at_work(subject, pod, reason))
}

/// A row is held for this reason while the pod is at work. Of a pod that is not, the reason is that nothing shows
/// the end of its sandbox: its report may be as old as its end.
fn held_while_at_work(subject: &Subject<'_>, pod: &PodState, reason: Held) -> Verdict {
    let has_kubelet = || {
        pod.node.as_ref().is_none_or(|node| {
            let nodes = subject.facts.nodes;
            matches!(
                nodes.standing(node, subject.facts.now, subject.facts.now),
                Standing::Alive { .. } | Standing::Listening
            )
        })
    };
    Verdict::Held(if pod.phase.is_terminal() {
        Held::Ended
    } else if pod.deleting && !has_kubelet() {
        Held::Leaving
    } else {
        reason
    })
}

/// Whether a pod that tells all addresses that it uses does not tell this one; or a report of this one is about another
/// row of the pod, in another network. Without that row the report may be about this one: definitions change.
fn is_unused(pod: &PodState, row: &RowContent, siblings: Option<&[RowContent]>) -> bool {
    let is_of_another = |sibling: &RowContent| {
        sibling.podref == row.podref
            && sibling.resource_claim().is_none()
            && sibling.address == row.address
            && sibling.sandbox != row.sandbox
    };
    let reports = pod.status.has_address(row.address);
    !reports || siblings.unwrap_or_default().iter().any(is_of_another)
}

/// Rule 7: not there yet, on its way out, or nobody can tell what it uses.
fn is_changing(pod: &PodState) -> bool {
    !pod.is_running() || !(pod.host_network || matches!(pod.status, Status::Valid(_)))
}

/// Rule 6: if the row is of an earlier incarnation, from when on this is certain.
fn is_predecessors(subject: &Subject<'_>, pod: &PodState) -> Option<Moment> {
    let (row, facts, policy) = (subject.row, subject.facts, subject.facts.policy);
    // The watch may be behind, at a predecessor.
    let living = facts.living.as_ref().filter(|l| l.uid == pod.uid);
    // The pod reported the row as it is: it took the row over, whatever its definition says now.
    let tag = IdTag::of(&row.sandbox);
    let took_over =
        |living: &Living| tag.is_some_and(|tag| living.sandboxes.had(tag, subject.facts.now));
    if living.is_some_and(took_over) {
        return None;
    }
    let running_since = living.and_then(|l| l.running_since);
    let running_since = running_since.filter(|_| pod.is_running());
    let in_time = running_since.map(|since| since + policy.leftover_grace);
    let in_time = in_time.filter(|_| facts.scope.is_told_by(pod, row.address));
    if let Some(seen) = facts.sighting.and_then(|sighting| sighting.while_absent) {
        return match &row.interface {
            // Without an interface ADD can never adopt it.
            None => Some(seen),
            // An ADD whose write failed may give an address out though the row is as it was (museum 1.30).
            Some(_) => in_time,
        };
    }
    // No proof of absence was made. A pod with the host's network never has rows. For other pods, an ended incarnation
    // must have been seen with this row.
    let mut ended = facts.ended.iter();
    let is_formers = pod.host_network || ended.any(|end| end.bore(row, policy.cooldown));
    in_time.filter(|_| is_formers && !is_changing(pod))
}

/// When the rows of a pod in a terminal phase may go, if it is in one.
fn completed(subject: &Subject<'_>, pod: &PodState) -> Option<Clearance> {
    let living = subject.facts.living.as_ref()?;
    let completed = living.completed.as_ref()?;
    let is_it = completed.last.uid == pod.uid && pod.phase.is_terminal() && !pod.mirror;
    let stopped = completed.stopped && !pod.runs();
    let stopped = stopped || pod.is_end_made_up(subject.row.address) || is_fenced(pod, subject);
    (is_it && stopped).then(|| subject.of_completed(completed))
}

fn is_fenced(pod: &PodState, subject: &Subject<'_>) -> bool {
    pod.node.as_ref().is_some_and(|node| {
        let nodes = subject.facts.nodes;
        match nodes.standing(node, subject.facts.now, subject.facts.now) {
            Standing::Fenced => true,
            // A kubelet without its Node stops what is deleted, and nothing else.
            Standing::Gone(_) => pod.deleting,
            _ => false,
        }
    })
}

/// Rule 8: whether all rows that the pod reports, in any pool, bear one sandbox, and this row another. A
/// report of an address on some other interface may speak against that, never for it.
pub fn runs_in_other_sandbox(
    pod: &PodState,
    row: &RowContent,
    siblings: Option<&[RowContent]>,
) -> bool {
    let own = siblings
        .unwrap_or_default()
        .iter()
        .filter(|sibling| sibling.podref == row.podref && pod.status.has_address(sibling.address))
        .filter(|sibling| sibling.resource_claim().is_none());
    let is_reported = |sibling: &&RowContent| {
        let interface = sibling.interface.as_deref();
        interface.is_some_and(|name| pod.status.reported(name, sibling.address).is_some())
    };
    let Some(first) = own.clone().find(is_reported) else {
        return false;
    };
    // A container's id in place of the sandbox's says nothing about the sandbox.
    first.sandbox != row.sandbox
        && !pod.shows(&first.sandbox)
        && own.clone().all(|sibling| sibling.sandbox == first.sandbox)
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
    if policy.keeps(&content.podref) {
        return Err(Unknown::KeptOwner);
    }
    Ok(content)
}

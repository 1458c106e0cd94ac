//! The settings of the waits ([`Policy`]), the states of an incarnation ([`Trail`]), its end ([`Ended`]) and the
//! grades.
//!
//! Evidence belongs to an incarnation, never to a name. What it is worth for a row is weighed in [`crate::clearance`].

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use crate::{
    id::IdTag,
    networks::{FIRST_INTERFACE, Status},
    pod::{Container, ContainerState, PodState},
    podref::{Glob, PodRef},
    pool::RowContent,
    time::Moment,
};

/// How long we wait before a free, and what we leave alone.
#[derive(Clone, Debug)]
pub struct Policy {
    /// `--cooldown`: wait after a settled end.
    pub cooldown: Duration,
    /// `--grace`: first part of the wait W.
    pub grace: Duration,
    /// `--max-pod-grace`: cap of a pod's termination grace within W. Without it a pod's own counts whole, and one that is
    /// not known for an hour at most.
    pub max_pod_grace: Option<Duration>,
    /// `--del-budget`: third part of W, for each row of the podref (one CNI DEL each).
    pub del_budget: Duration,
    /// `--add-budget`: the longest time from an ADD's look at a reservation to its row. A marked reservation is deleted
    /// no sooner.
    pub add_budget: Duration,
    /// `--leftover-grace`: least wait for rows of mirror pods, and for rows of pods that are there
    /// and do not use them.
    pub leftover_grace: Duration,
    /// `--unfenced`: the treatment of rows whose grade is unfenced.
    pub unfenced: Unfenced,
    /// `--unwitnessed-hold`: longest wait for nodes that may run the sandbox of a pod that no watch showed; without it,
    /// for ever.
    pub unwitnessed_hold: Option<Duration>,
    /// `--keep-podref`: rows of these owners are never touched.
    pub keep_podrefs: Vec<Glob>,
}

/// The treatment of rows whose sandbox may run on a node that is silent and not fenced, or whose kubelet may never
/// finish its DELs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfenced {
    /// They are held until the node is back, or fenced.
    Hold,
    /// They go so long after the pod's end.
    FreeAfter(Duration),
}

/// Within W where a pod's own termination grace is not known: Kubernetes' default.
pub const DEFAULT_POD_GRACE: Duration = Duration::from_secs(30);
/// The same, at the most.
const LONGEST_UNKNOWN_GRACE: Duration = Duration::from_hours(1);
/// Time limit of one attempt to stop a sandbox (`runtimeRequestTimeout`). The next attempt starts from the beginning.
pub const KUBELET_TRY: Duration = Duration::from_mins(2);
/// So long whereabouts' DEL tries to reach the API server before it gives up and reports success.
pub const LOST_DEL: Duration = Duration::from_mins(1);
/// So long a kubelet may take to end a pod of the default termination grace with one address, as long as nothing is
/// wrong with it.
pub const KUBELET_NEEDS: Duration = DEFAULT_POD_GRACE.saturating_add(LOST_DEL);
/// More rows than pods have, for waits that are nobody's in particular.
const MANY_ROWS: usize = 8;

impl Default for Policy {
    fn default() -> Self {
        Self {
            cooldown: Duration::from_secs(2),
            grace: Duration::from_mins(2),
            max_pod_grace: None,
            del_budget: Duration::from_mins(1),
            // whereabouts gives an ADD up after that. Its requests are over ten seconds after it began to look, and
            // the API server works at one for a minute at the most.
            add_budget: Duration::from_mins(2),
            leftover_grace: Duration::from_mins(10),
            unfenced: Unfenced::Hold,
            unwitnessed_hold: None,
            keep_podrefs: Vec::new(),
        }
    }
}

impl Policy {
    /// The wait **W**: grace + the pod's `own` termination grace + one DEL budget for each of its rows. Where its own is
    /// not known, no pod has a longer one than `longest`.
    pub fn wait(&self, own: Option<Duration>, longest: Duration, rows: usize) -> Duration {
        let unknown = longest.clamp(DEFAULT_POD_GRACE, LONGEST_UNKNOWN_GRACE);
        let cap = self.max_pod_grace.unwrap_or(Duration::MAX);
        let pod = own.unwrap_or(unknown).min(cap);
        let rows = u32::try_from(rows.max(1)).unwrap_or(u32::MAX);
        self.grace
            .saturating_add(pod)
            .saturating_add(self.del_budget.saturating_mul(rows))
    }

    /// The longest wait W of a pod that is not known.
    pub fn longest_wait(&self, longest_grace: Duration) -> Duration {
        self.wait(None, longest_grace, MANY_ROWS)
    }

    /// Whether rows of this owner are never touched.
    pub fn keeps(&self, owner: &PodRef) -> bool {
        let mut kept = self.keep_podrefs.iter();
        kept.any(|glob| glob.matches(owner.as_str()))
    }

    /// Whether so many lost DELs take longer than one attempt. Then no attempt reaches the last DEL, though the kubelet
    /// is at work.
    pub fn may_never_end(&self, dels: usize) -> bool {
        let dels = u32::try_from(dels).unwrap_or(u32::MAX);
        self.del_budget.min(LOST_DEL).saturating_mul(dels) > KUBELET_TRY
    }
}

/// The evidence about the sandbox of one incarnation, from its states, one after the other.
// Independent facts, not the states of a machine.
#[allow(clippy::struct_excessive_bools)]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Trail {
    /// Containers that any state showed as started. Mostly those of another pod too, so that one list can serve both.
    pub started: Arc<[Box<str>]>,
    /// In the last state before all of them were terminated, the sandbox was up, and each state since
    /// showed it up, unless the pod was in a terminal phase.
    sandbox_up: bool,
    /// A terminal phase was seen while containers were not terminated, or the sandbox was up: somebody
    /// else than the kubelet wrote it, so that the phase says nothing about the sandbox any more. Or see
    /// [`Trail::distrust`].
    never_settles: bool,
    /// The machine was booted anew, and no container was seen since that did not run before: its states may be old.
    booted: bool,
    /// The machine was booted anew, and no sweep has seen a new sandbox since: those that are known are gone.
    pub(crate) renewed: bool,
    /// Every container that ever started was terminated in the last state.
    pub stopped: bool,
    /// The kubelet stopped every sandbox of the pod before it reported its last state.
    pub settled: bool,
}

impl Trail {
    /// Takes in the next state of the incarnation.
    pub fn advance(&mut self, state: &PodState) {
        let has_started = |container: &&Container| {
            matches!(
                container.state,
                ContainerState::Running | ContainerState::Terminated { started: true }
            ) && !self.started.contains(&container.name)
        };
        let new: Vec<_> = state.containers.iter().filter(has_started).collect();
        if !new.is_empty() {
            let new = new.into_iter().map(|container| &container.name);
            let all: BTreeSet<_> = self.started.iter().chain(new).cloned().collect();
            self.started = all.into_iter().collect();
        }
        let running = state.runs();
        let ended = |name: &str| {
            let mut containers = state.containers.iter();
            containers.find_map(|container| match container.state {
                ContainerState::Terminated { started } if *container.name == *name => Some(started),
                _ => None,
            })
        };
        // Empty statuses prove nothing: a pod rejected after a kubelet restart has none.
        let all_terminated = !self.started.is_empty()
            && !running
            && self.started.iter().all(|name| ended(name).is_some());
        // Of one that did start, the kubelet makes up an end only if it does not know how it ended.
        let none_made_up = self.started.iter().all(|name| ended(name) == Some(true));
        if !all_terminated {
            self.sandbox_up = !self.booted && state.sandbox_ready.unwrap_or(running);
        } else if state.sandbox_ready != Some(true) && !state.phase.is_terminal() {
            // The sandbox died, and the kubelet makes another. Nothing is known of the end of that one. An old kubelet
            // does not report the condition.
            self.sandbox_up = false;
        }
        // The kubelet stops the sandbox before it writes a terminal phase. If the sandbox was up, or a container was
        // not terminated, another program wrote the phase, for example pod GC.
        let foreign = !all_terminated || state.sandbox_ready == Some(true);
        let is_foreign_end = state.phase.is_terminal() && foreign;
        self.stopped = all_terminated && !is_foreign_end;
        self.never_settles |= is_foreign_end;
        self.settled = state.phase.is_terminal()
            && all_terminated
            && none_made_up
            && self.sandbox_up
            && !self.never_settles;
    }

    /// The first state is from a time before the API server's data went back. The kubelet may have said since that the
    /// sandbox is down, and nobody knows it any more.
    pub fn distrust(&mut self) {
        self.never_settles = true;
    }

    /// States may have been missed: whether the sandbox is up has to be seen anew. A terminal state
    /// that was seen before the gap stays what it is, for there is none after it.
    pub fn gap(&mut self) {
        if !self.settled {
            self.sandbox_up = false;
        }
    }

    /// The machine of the pod was booted anew: whether the sandbox is up has to be seen anew, with a container that was
    /// started since. Until then each state may be an old one that somebody else wrote again.
    pub fn boot(&mut self) {
        self.gap();
        self.booted = !self.settled;
        self.renewed = true;
    }

    /// A container was started that was not seen before.
    pub fn restart(&mut self) {
        self.booted = false;
    }
}

/// The first and the last sandbox that rows of an incarnation were seen with while it lived, and when that was seen first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sandboxes([Option<(IdTag, Moment)>; 2]);

impl Sandboxes {
    /// A row of it bore this sandbox at `now`. The first one that is known stays the first.
    pub fn note(&mut self, sandbox: IdTag, now: Moment) {
        if !self.had(sandbox, Moment::NEVER) {
            let mut others = self.0.into_iter().flatten();
            let other = others.find(|(tag, _)| *tag != sandbox);
            let seen = Some((sandbox, now));
            self.0 = match other {
                Some((_, at)) if at != Moment::NEVER => [other, seen],
                _ => [seen, other],
            };
        }
    }

    /// A row bore this sandbox that may be of it or of another pod: no proof that it had the sandbox. It takes the place of
    /// such a one at the most.
    pub fn note_doubtful(&mut self, sandbox: IdTag) {
        let places = self.0.iter();
        let is_doubtful =
            |place: &Option<(IdTag, Moment)>| place.is_some_and(|(_, at)| at == Moment::NEVER);
        let free = places.clone().position(Option::is_none);
        let free = free.or_else(|| places.clone().rposition(is_doubtful));
        if !self.tags().any(|tag| tag == sandbox)
            && let Some(free) = free
        {
            self.0[free] = Some((sandbox, Moment::NEVER));
        }
    }

    /// The sandboxes.
    pub fn tags(&self) -> impl Iterator<Item = IdTag> {
        self.0.iter().flatten().map(|(tag, _)| *tag)
    }

    /// Whether another one takes the place of one that is known.
    pub fn are_full(&self) -> bool {
        self.0.iter().all(Option::is_some)
    }

    /// Whether none of its rows was seen.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// Whether a row of it bore this sandbox before `moment`.
    pub fn had(&self, sandbox: IdTag, moment: Moment) -> bool {
        let seen = self.0.iter().flatten().find(|(tag, _)| *tag == sandbox);
        seen.is_some_and(|(_, since)| *since < moment)
    }

    /// Takes back what was seen after `moment`.
    pub fn forget_after(&mut self, moment: Moment) {
        for seen in &mut self.0 {
            *seen = seen.filter(|(_, since)| *since < moment);
        }
    }
}

/// An incarnation that was deleted, or is in a terminal phase.
// Independent facts, not the states of a machine.
#[allow(clippy::struct_excessive_bools)]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ended {
    /// Its last state.
    pub last: PodState,
    /// When its end was seen (or found out).
    pub at: Moment,
    /// When it was first seen in a terminal phase.
    pub terminal_since: Option<Moment>,
    /// When its creation was seen. None if a list showed it first, or if it had a network-status or was being deleted
    /// when it was first seen.
    pub born: Option<Moment>,
    /// Whether its end was seen as it happened; otherwise it was found out by a list.
    pub watched: bool,
    /// Whether its sandbox is known to be stopped: see [`Trail::settled`].
    pub settled: bool,
    /// Whether all its containers were terminated: see [`Trail::stopped`].
    pub stopped: bool,
    /// Whether its kubelet was at work, and had not ended it in the time that it needs since it was being deleted.
    pub stuck: bool,
    /// The list before which pods of this name may have been missed: the list that first showed this pod, or the last
    /// one before its creation. None if nothing can have been missed.
    pub listed_at: Option<Moment>,
    /// The last gap in the watch at or after its end. A pod of this name may have been created and deleted in it,
    /// unseen.
    pub gap_at: Option<Moment>,
    /// The sandboxes that its rows were seen with while it lived.
    pub sandboxes: Sandboxes,
}

impl Ended {
    /// Whether it reported the row's address on the row's interface.
    pub fn reported(&self, row: &RowContent) -> bool {
        row.interface
            .as_deref()
            .is_some_and(|interface| self.last.status.reported(interface, row.address).is_some())
    }

    /// Whether the row was seen with its present sandbox while this incarnation lived: before its
    /// end by as much as the watch may lag, which is less than `cooldown`.
    pub fn bore(&self, row: &RowContent, cooldown: Duration) -> bool {
        let before = Moment::new(self.at.since_epoch().saturating_sub(cooldown));
        IdTag::of(&row.sandbox).is_some_and(|tag| self.sandboxes.had(tag, before))
    }

    /// Rows that it can be expected to have: as many as it reported addresses (those of the default
    /// network too, which may be whereabouts' as well) or asked for networks, whichever is more.
    pub fn expected_rows(&self) -> usize {
        let reported = self.last.status.addresses().len();
        reported.max(self.last.request.networks().len())
    }

    /// How many DELs of whereabouts the kubelet may have to do: see [`Status::dels`]. The cluster's own network counts
    /// where whereabouts has its address, as this row may tell.
    ///
    /// [`Status::dels`]: crate::networks::Status::dels
    pub fn dels(&self, row: &RowContent) -> usize {
        let (status, request) = (&self.last.status, &self.last.request);
        let is_first = match row.interface.as_deref() {
            Some(interface) => interface == FIRST_INTERFACE,
            None => !status
                .further()
                .any(|entry| entry.addresses.contains(&row.address)),
        };
        let first = is_first || self.last.default_network.is_some();
        status.dels(request) + usize::from(first)
    }

    /// Whether its kubelet may not come to stop its sandbox for long, though it is at work: see [`PodState::may_outlast`].
    pub fn may_outlast(&self) -> bool {
        self.last.may_outlast(self.stuck)
    }

    /// Whether the row is that of a sandbox other than the first that its rows were seen with while it lived: its kubelet
    /// set that up late, and may have been cut off. The id of a container is no sandbox's.
    pub fn is_new_sandbox(&self, row: &RowContent) -> bool {
        let is_container = self.last.shows(&row.sandbox);
        let row = IdTag::of(&row.sandbox).filter(|_| !is_container);
        let first = self.sandboxes.tags().next();
        first.is_some_and(|first| row.is_some_and(|row| row != first))
    }

    /// Whether the `later` end of another pod of the same name makes this one needless: neither pod had a container or
    /// reported an address, and they differ in nothing else.
    pub(crate) fn tells_no_more_than(&self, later: &Self) -> bool {
        let PodState { uid, since, .. } = &later.last;
        let same = PodState {
            uid: uid.clone(),
            since: *since,
            ..self.last.clone()
        };
        let is_empty = same.containers.is_empty() && same.status == Status::Missing;
        is_empty
            && same == later.last
            && self.sandboxes.is_empty()
            && later.sandboxes.is_empty()
            && (self.watched, self.stuck) == (later.watched, later.stuck)
    }

    /// When to look at its rows first: not before any of them may go. Where the name may return and
    /// no sweep has seen its rows while it lived, at once: such a row goes no sooner than a cooldown
    /// after it was seen first.
    pub fn first_look(&self, policy: &Policy) -> Moment {
        if self.last.name_may_return && self.sandboxes.is_empty() {
            self.at
        } else {
            self.at + policy.cooldown
        }
    }
}

/// How good the evidence is that no sandbox answers on a row's address, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Grade {
    /// The kubelet stopped the sandbox and said so.
    Settled,
    /// The node runs no sandboxes.
    Fenced,
    /// The end was seen or found, nothing more: a live kubelet stops the sandbox within W.
    Witnessed,
    /// The pod is gone, and nobody saw the incarnation that wrote this row.
    Unwitnessed,
    /// The node is silent and not fenced, or its kubelet is at work and may never get through its DELs: the sandbox
    /// may answer for as long as it stays so.
    Unfenced,
}

words! { Grade: Settled "settled", Fenced "fenced", Witnessed "witnessed", Unwitnessed "unwitnessed", Unfenced "unfenced" }

//! How an incarnation ended, and what that is worth.
//!
//! Evidence belongs to an incarnation, never to a name: [`Trail`] follows the states of one pod
//! object, [`Ended`] is what remains of it, and [`free_time`] weighs all that is known of the
//! incarnations of one podref against one row (docs/safety.md).

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use crate::{
    pod::{ContainerState, PodState},
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
    /// `--max-pod-grace`: cap of a pod's terminationGracePeriodSeconds within W.
    pub max_pod_grace: Duration,
    /// `--del-budget`: third part of W, for each row of the podref (one CNI DEL each).
    pub del_budget: Duration,
    /// `--leftover-grace`: least wait for rows of mirror pods.
    pub leftover_grace: Duration,
    /// `--keep-podref`: rows of these owners are never touched.
    pub keep_podrefs: Vec<Glob>,
}

/// Within W where a pod's own termination grace is not known: Kubernetes' default.
pub const DEFAULT_POD_GRACE: Duration = Duration::from_secs(30);

impl Default for Policy {
    fn default() -> Self {
        Self {
            cooldown: Duration::from_secs(2),
            grace: Duration::from_mins(2),
            max_pod_grace: Duration::from_hours(1),
            del_budget: Duration::from_mins(1),
            leftover_grace: Duration::from_mins(10),
            keep_podrefs: Vec::new(),
        }
    }
}

impl Policy {
    /// The wait **W**: grace + the pod's termination grace + one DEL budget for each of its rows.
    #[must_use]
    pub fn wait(&self, termination_grace: Option<Duration>, rows: usize) -> Duration {
        let pod = termination_grace
            .unwrap_or(DEFAULT_POD_GRACE)
            .min(self.max_pod_grace);
        let rows = u32::try_from(rows.max(1)).unwrap_or(u32::MAX);
        self.grace
            .saturating_add(pod)
            .saturating_add(self.del_budget.saturating_mul(rows))
    }
}

/// What the states of one incarnation, seen one after the other, say about its sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trail {
    /// Containers that any state showed as started.
    started: BTreeSet<Box<str>>,
    /// In the last state before all of them were terminated, the sandbox was up, and no state since
    /// showed it down while the pod was not at its end.
    sandbox_up: bool,
    /// A terminal phase was seen while containers were not terminated: somebody else than the
    /// kubelet wrote it, so that the phase says nothing about the sandbox any more.
    foreign_end: bool,
    settled: bool,
}

impl Trail {
    /// Takes in the next state of the incarnation.
    pub fn advance(&mut self, state: &PodState) {
        for container in &state.containers {
            let started = matches!(
                container.state,
                ContainerState::Running | ContainerState::Terminated { started: true }
            );
            if started && !self.started.contains(&container.name) {
                self.started.insert(container.name.clone());
            }
        }
        let running = state
            .containers
            .iter()
            .any(|container| container.state == ContainerState::Running);
        let terminated = |name: &str| {
            state.containers.iter().any(|container| {
                *container.name == *name
                    && matches!(container.state, ContainerState::Terminated { .. })
            })
        };
        // Empty statuses prove nothing: a pod rejected after a kubelet restart has none.
        let all_terminated = !self.started.is_empty()
            && !running
            && self.started.iter().all(|name| terminated(name));
        if !all_terminated {
            self.sandbox_up = state.sandbox_ready.unwrap_or(running);
        } else if state.sandbox_ready == Some(false) && !state.phase.is_terminal() {
            // It died, and the kubelet makes another: the end of that one is nobody's word yet.
            self.sandbox_up = false;
        }
        self.foreign_end |= state.phase.is_terminal() && !all_terminated;
        self.settled =
            state.phase.is_terminal() && all_terminated && self.sandbox_up && !self.foreign_end;
    }

    /// States may have been missed: whether the sandbox is up has to be seen anew. A terminal state
    /// that was seen before the gap stays what it is, for there is none after it.
    pub fn gap(&mut self) {
        if !self.settled {
            self.sandbox_up = false;
        }
    }

    /// Whether the kubelet stopped every sandbox of the pod before it reported its last state.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.settled
    }
}

/// An incarnation that ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Its last state.
    pub last: PodState,
    /// When its end was seen (or found out).
    pub at: Moment,
    /// Whether its sandbox is known to be stopped: see [`Trail::is_settled`].
    pub settled: bool,
    /// Until this moment an incarnation of the same name may have lived that nobody saw: the last
    /// gap in the watch since its end, or the list in which it was first seen. Nothing for names
    /// that never return.
    pub doubt_until: Option<Moment>,
}

impl Ended {
    /// The owner of its rows.
    #[must_use]
    pub fn podref(&self) -> &PodRef {
        &self.last.podref
    }

    /// Whether it reported the row's address on the row's interface.
    #[must_use]
    pub fn reported(&self, row: &RowContent) -> bool {
        row.interface
            .as_deref()
            .is_some_and(|interface| self.last.status.reported(interface, row.address).is_some())
    }

    /// Rows that it can be expected to have: as many as it reported addresses (those of the default
    /// network too, which may be whereabouts' as well) or asked for networks, whichever is more.
    #[must_use]
    pub fn expected_rows(&self) -> usize {
        let reported: usize = self
            .last
            .status
            .entries()
            .iter()
            .map(|entry| entry.addresses.len())
            .sum();
        reported.max(self.last.request.networks().len())
    }

    /// Before this moment none of its rows may be freed, so that nobody need look.
    #[must_use]
    pub fn earliest_free_time(&self, policy: &Policy) -> Moment {
        self.free_time(true, self.expected_rows(), policy)
    }

    /// When a row that it wrote may be freed, were it the only incarnation that was seen.
    fn free_time(&self, settles: bool, rows: usize, policy: &Policy) -> Moment {
        let wait = policy.wait(self.last.termination_grace, rows);
        let own = if self.settled && settles {
            self.at + policy.cooldown
        } else if self.last.mirror {
            // The sandbox of a static pod does not end with its mirror.
            self.at + wait.max(policy.leftover_grace)
        } else {
            self.at + wait
        };
        match self.doubt_until {
            // Whoever was not seen may have taken the rows over and been killed.
            Some(doubt) => own.max(doubt + wait),
            None => own,
        }
    }

    fn settles_alone(&self) -> bool {
        self.settled && self.doubt_until.is_none()
    }
}

/// How good the evidence is that no sandbox answers on a row's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Grade {
    /// The kubelet stopped the sandbox and said so.
    Settled,
    /// The end was seen, nothing more: a live kubelet has stopped the sandbox within W.
    Witnessed,
    /// The pod is gone, and nobody saw the incarnation that wrote this row.
    Unwitnessed,
}

impl Grade {
    /// The word for logs and metric labels.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Settled => "settled",
            Self::Witnessed => "witnessed",
            Self::Unwitnessed => "unwitnessed",
        }
    }
}

/// From when on a row of an absent podref may be freed, and how well that is known.
///
/// `ended` are the known incarnations of the row's podref in the order of their ends, `rows` the
/// rows of the podref that were observed. `None` without a scheduled incarnation: there is no
/// evidence at all.
///
/// The incarnation that *answers* for the row is the last that reported its address on its
/// interface. Every other one may still hold it: a later one took it over without reporting it,
/// so its good end is no evidence; an earlier one may still run on a sandbox of its own after the
/// answering one adopted its row, so its own wait counts. The row waits for the latest of them.
#[must_use]
pub fn free_time(
    row: &RowContent,
    ended: &[Arc<Ended>],
    rows: usize,
    policy: &Policy,
) -> Option<(Grade, Moment)> {
    // Whoever was not seen to be scheduled was not, unless nobody looked.
    let scheduled: Vec<_> = ended
        .iter()
        .filter(|e| e.last.node.is_some() || e.doubt_until.is_some())
        .collect();
    let answering = scheduled.iter().rposition(|e| e.reported(row));
    let free_at = scheduled
        .iter()
        .enumerate()
        .map(|(i, e)| {
            let settles = answering.is_some_and(|answering| i <= answering);
            e.free_time(settles, rows, policy)
        })
        .max()?;
    let grade = match answering {
        None => Grade::Unwitnessed,
        Some(i) if i + 1 == scheduled.len() && scheduled.iter().all(|e| e.settles_alone()) => {
            Grade::Settled
        }
        Some(_) => Grade::Witnessed,
    };
    Some((grade, free_at))
}

//! Rows that are held although no pod that is at work reports them: why, and what frees them.

use ipgc_core::{
    judge::Held,
    networks::Status,
    pod::{ContainerState, Phase, PodState},
    pool::RowContent,
};
use jiff::{SignedDuration, Timestamp};

use super::{
    assess::Assessor,
    report::{Finding, Problem},
    words,
};

impl Assessor<'_> {
    /// The finding about a row or reservation that is held for this reason, if there is one.
    pub(super) fn held(&self, held: &Held, row: &RowContent) -> Option<Finding> {
        let found = self.of_held(held, row)?;
        let pod = self.snapshot.pod(row.podref.as_str());
        let is_old = pod.is_some_and(|pod| self.is_old(pod.since));
        (is_old || found.problem == Problem::InUseTwice).then_some(found)
    }

    /// The same, however young the pod is.
    pub(super) fn of_held(&self, held: &Held, row: &RowContent) -> Option<Finding> {
        if let Held::InUse(_) | Held::OthersSandbox(_) = held {
            let detail = format!(
                "{held}; its own pod does not need it: delete that pod, and the row goes as its end allows"
            );
            return Some(Finding::new(Problem::InUseTwice, detail));
        }
        let pod = self.snapshot.pod(row.podref.as_str())?;
        let (reason, command) = self.reason(held, row, pod)?;
        let mut finding = Finding::new(Problem::Unreported, reason);
        finding.command = command;
        Some(finding)
    }

    /// A pod that starts or ends has rows that it does not report, for a while. One without a time counts as old.
    fn is_old(&self, since: Option<Timestamp>) -> bool {
        let (Some(since), Some(present)) = (since, self.present) else {
            return true;
        };
        let grace = SignedDuration::try_from(self.policy.leftover_grace);
        grace.is_ok_and(|grace| present.duration_since(since) > grace)
    }

    /// Whether the node of a pod is there, and neither ready nor fenced.
    pub(super) fn is_silent(&self, pod: &PodState) -> bool {
        let node = pod.node.as_deref().filter(|_| self.snapshot.knows_nodes());
        let state = node.and_then(|name| self.snapshot.nodes.get(name));
        state.is_some_and(|state| !state.is_fenced() && !state.ready)
    }

    /// Why the row is held, and the command that ends that.
    fn reason(
        &self,
        held: &Held,
        row: &RowContent,
        pod: &PodState,
    ) -> Option<(String, Option<String>)> {
        let is_silent = self.is_silent(pod);
        let nodes: Vec<_> = pod.node.iter().cloned().collect();
        let delete = |by_force| words::delete_pod(&row.podref, by_force);
        let (reason, command) = match held {
            Held::Mirror => (
                "its pod is the mirror of a static pod and does not report it; remove the manifest of the static pod \
                 from its node",
                None,
            ),
            Held::Ended => {
                let (advice, command) = if is_silent {
                    let advice = ", and its node is not ready; mend the node or, once you know that it runs no sandboxes, say so";
                    (advice, words::declare_empty(&nodes))
                } else {
                    (
                        "; delete the pod, and the row waits as for any pod that is gone",
                        delete(false),
                    )
                };
                return Some((format!("{}{advice}", ended(pod)), command));
            }
            Held::Leaving if is_silent => (
                "its pod is being deleted, and its node is not ready: no kubelet ends the pod; mend the node or, once it \
                 is off, taint it out of service",
                words::out_of_service(&nodes),
            ),
            Held::Leaving => (
                "its pod is being deleted, and its node is gone or runs no sandboxes: no kubelet ends the pod; delete it \
                 by force",
                delete(true),
            ),
            Held::Changing if pod.deleting => (
                "its pod has been being deleted for long and does not report it; see what keeps the pod: a finalizer, or \
                 a container or volume that its kubelet cannot stop",
                None,
            ),
            Held::Changing if pod.phase != Phase::Running => (
                "its pod has been starting for long and does not report it; see why it does not start, or delete it",
                delete(false),
            ),
            Held::Changing if matches!(pod.status, Status::Malformed(_)) => (
                "its pod runs, and its network-status cannot be read, so nothing tells what it uses; see what multus \
                 says, or delete the pod",
                delete(false),
            ),
            Held::Changing => (
                "its pod runs, and its network-status is missing, so nothing tells what it uses; see what multus says, or \
                 delete the pod",
                delete(false),
            ),
            Held::Drift if pod.is_complete() => (
                "its pod runs and does not report it in this network, but may use it: what it reports may be of this network, \
                 and multus reports nothing of a definition without a cniVersion of 0.3.0 or later",
                None,
            ),
            Held::Drift => (
                "its pod runs and does not report it, and its network-status lacks networks that it asked for; see what \
                 multus says, or delete the pod",
                delete(false),
            ),
            Held::Unused if self.is_unplugged(row, pod) => (
                "its pod runs and does not use it, and the row has the sandbox of rows that the pod reports: the \
                 interface was unplugged, and its DEL was lost; once nobody answers on it, free it by hand, or delete the pod",
                Some(words::force(row.address)),
            ),
            Held::Unused => (
                "its pod runs and does not use it in this network, and nothing tells whose the row is; once nobody answers \
                 on it, free it by hand, or delete the pod",
                Some(words::force(row.address)),
            ),
            Held::Reported
            | Held::OwnContainer
            | Held::Present
            | Held::ResourceClaim
            | Held::InUse(_)
            | Held::OthersSandbox(_) => return None,
        };
        Some((reason.to_owned(), command))
    }

    /// Whether the row has the sandbox of one that its pod reports.
    fn is_unplugged(&self, row: &RowContent, pod: &PodState) -> bool {
        let mut siblings = self.index.siblings.get(&row.podref).into_iter().flatten();
        siblings.any(|it| it.sandbox == row.sandbox && pod.status.has_address(it.address))
    }
}

/// Why nothing says that the sandbox of a pod in a terminal phase stopped.
fn ended(pod: &PodState) -> String {
    let mut states = pod.containers.iter().map(|container| container.state);
    let phase = format!("{:?}", pod.phase);
    if pod.containers.is_empty() {
        format!(
            "its pod is {phase} without container states, so nothing says that its sandbox stopped"
        )
    } else if states.any(|state| state == ContainerState::Running) {
        format!(
            "its pod is {phase} while containers are shown as running: somebody else than its kubelet said so"
        )
    } else {
        format!("its pod is {phase}, and not all of its containers are known to have ended")
    }
}

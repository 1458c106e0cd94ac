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

/// How a node is, as far as it decides what frees a row of a pod there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Node {
    /// It is ready, or nothing is known of it.
    Ready,
    /// It is not ready.
    Silent,
    /// It is fenced or gone.
    Empty,
}

impl Assessor<'_> {
    /// The finding about a row or reservation that is held for this reason, if there is one.
    pub(super) fn held(&self, held: &Held, row: &RowContent) -> Option<Finding> {
        if let Held::InUse(_) | Held::OthersSandbox(_) = held {
            let detail = format!("its own pod does not need it, and it is held: {held}");
            return Some(Finding::new(Problem::InUseTwice, detail));
        }
        let pod = self.snapshot.pod(row.podref.as_str())?;
        if !self.is_old(pod.since) {
            return None;
        }
        let (reason, command) = self.reason(held, row, pod)?;
        let mut finding = Finding::new(Problem::Unreported, reason);
        finding.command = command.map(Into::into);
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

    fn node(&self, pod: &PodState) -> Node {
        let Some(name) = pod.node.as_deref().filter(|_| self.snapshot.knows_nodes()) else {
            return Node::Ready;
        };
        match self.snapshot.nodes.get(name) {
            None => Node::Empty,
            Some(state) if state.is_fenced() => Node::Empty,
            Some(state) if state.ready => Node::Ready,
            Some(_) => Node::Silent,
        }
    }

    /// Why the row is held, and the command that ends that.
    fn reason(
        &self,
        held: &Held,
        row: &RowContent,
        pod: &PodState,
    ) -> Option<(String, Option<String>)> {
        let node = self.node(pod);
        let nodes: Vec<_> = pod.node.iter().cloned().collect();
        let delete = || words::delete_pod(&row.podref, false);
        Some(match held {
            Held::Reported
            | Held::OwnContainer
            | Held::Present
            | Held::InUse(_)
            | Held::OthersSandbox(_) => return None,
            Held::Mirror => (
                "its pod is the mirror of a static pod and does not report it; remove the manifest of the static pod \
                 from its node"
                    .to_owned(),
                None,
            ),
            Held::Ended => {
                let why = ended(pod);
                if node == Node::Silent {
                    let reason = format!(
                        "{why}, and its node is not ready; mend the node, or state that it runs no sandboxes"
                    );
                    (reason, words::declare_empty(&nodes))
                } else {
                    let reason = format!("{why}; delete the pod, and the row waits as for any pod that is gone");
                    (reason, delete())
                }
            }
            Held::Leaving if node == Node::Silent => (
                "its pod is being deleted, and its node is not ready: no kubelet ends the pod; mend the node or, once it \
                 is off, taint it out of service"
                    .to_owned(),
                words::out_of_service(&nodes),
            ),
            Held::Leaving => (
                "its pod is being deleted, and its node is gone or runs no sandboxes: no kubelet ends the pod; delete it \
                 by force"
                    .to_owned(),
                words::delete_pod(&row.podref, true),
            ),
            Held::Young if pod.deleting => (
                "its pod has been being deleted for long and does not report it; see what keeps the pod: a finalizer, or \
                 a container or volume that its kubelet cannot stop"
                    .to_owned(),
                None,
            ),
            Held::Young if pod.phase != Phase::Running => (
                "its pod has been starting for long and does not report it; see why it does not start, or delete it"
                    .to_owned(),
                delete(),
            ),
            Held::Young => {
                let status = match &pod.status {
                    Status::Malformed(_) => "cannot be read",
                    _ => "is missing",
                };
                let reason = format!(
                    "its pod runs, and its network-status {status}, so nothing tells what it uses; see what multus \
                     says, or delete the pod"
                );
                (reason, delete())
            }
            Held::Drift => (
                "its pod runs and does not report it, and its network-status lacks networks that it asked for; see what \
                 multus says, or delete the pod"
                    .to_owned(),
                delete(),
            ),
            Held::Unused => {
                let why = if self.is_unplugged(row, pod) {
                    "its pod runs and does not use it, and the row has the sandbox of rows that the pod reports: the \
                     interface was unplugged, and its DEL was lost"
                } else {
                    "its pod runs and does not use it in this network, and nothing tells whose the row is"
                };
                let reason = format!("{why}; once nobody answers on it, free it by hand, or delete the pod");
                (reason, Some(words::force(row.address)))
            }
        })
    }

    /// Whether the row has the sandbox of one that its pod reports.
    fn is_unplugged(&self, row: &RowContent, pod: &PodState) -> bool {
        let mut siblings = self.index.siblings_of(&row.podref).into_iter().flatten();
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

//! Where the informers' objects go: pods into the evidence and their ends to the planner, nodes and
//! definitions into the evidence. Nothing here waits, since a server cuts a watch whose reader is slow.

use std::{collections::HashSet, sync::Arc};

use ipgc_core::{
    evidence::Ended, known::Evidence, node::NO_SANDBOXES_ANNOTATION, plan::Input, pod::PodState,
    time::Moment,
};
use tracing::warn;

use super::context::Context;
use crate::watch::{LeanDefinition, LeanNode, LeanPod, Sink};

/// Pods: into the evidence, and their ends to the planner.
pub struct PodSink(pub Arc<Context>);

impl PodSink {
    fn with<T>(&self, act: impl FnOnce(&mut Evidence, Moment) -> T) -> T {
        let mut evidence = self.0.evidence();
        act(&mut evidence, self.0.clock.now())
    }

    fn ended(&self, ended: Option<Arc<Ended>>) {
        let Some(ended) = ended else { return };
        let context = &self.0;
        if self.with(|evidence, _| evidence.pods.in_use.remove(&ended.last.podref)) {
            context.sweep_wanted.notify_one();
        }
        context.counters.ends_seen.inc();
        let input = Input::Ended(Arc::clone(&ended));
        if context.planner.try_send(input).is_err() {
            context.counters.queue_overflows.inc();
            context.sweep_wanted.notify_one();
            warn!(pod = %ended.last.podref, "too many pods ended at once, pod is left to the sweep");
        }
    }

    /// ResourceClaims matter only where ipgc may free their rows.
    fn state(&self, pod: LeanPod) -> Option<PodState> {
        let mut state = pod.into_state()?;
        state.has_resource_claims &= self.0.config.resource_claims;
        Some(state)
    }
}

impl Sink<LeanPod> for PodSink {
    fn begin_list(&mut self) {
        // A fresh watch may lag by the cooldown: rows seen within it may belong to successors.
        let heard_until = self.0.freshness.heard_until().since_epoch();
        let heard_until = Moment::new(heard_until.saturating_sub(self.0.config.policy.cooldown));
        self.with(|evidence, now| {
            let Evidence { pods, nodes, .. } = evidence;
            // All nodes will block again. Rows that no node blocked before must not wait again for this.
            let wait = self.0.config.policy.longest_wait(pods.longest_grace());
            let is_blocked = nodes.blockers(None, wait, now).is_some();
            let is_suspect = nodes.suspects(None, wait, now).is_some();
            if let Some(over) = now.since_epoch().checked_sub(wait)
                && !is_blocked
            {
                pods.end_doubts(Moment::new(over), |dels| {
                    is_suspect && self.0.config.policy.may_never_end(dels)
                });
            }
            pods.begin_list(heard_until);
        });
    }

    fn apply(&mut self, pod: LeanPod) {
        let Some(state) = self.state(pod) else {
            return;
        };
        let predecessor = self.with(|evidence, now| evidence.apply_pod(state, now));
        self.ended(predecessor);
    }

    fn delete(&mut self, pod: LeanPod) {
        let Some(state) = self.state(pod) else {
            return;
        };
        let may_outlast = state.has_resource_claims;
        let ended = self.with(|evidence, now| evidence.delete_pod(state, now));
        if may_outlast {
            // Boots are confirmed from now on.
            self.0.node_news.notify_one();
        }
        self.ended(ended);
    }

    fn end_list(&mut self) {
        let missing = self.with(|evidence, now| {
            let missing = evidence.end_pod_list(now);
            // This comes before the lock is released: until the nodes are listed, rows of unseen pods wait.
            evidence.nodes.gap(now);
            missing
        });
        for missing in missing {
            self.ended(Some(missing));
        }
        self.0.node_news.notify_one();
        self.0.sweep_wanted.notify_one();
    }

    fn interrupted(&mut self) {
        self.0.freshness.lose();
    }
}

/// Nodes: into their index.
pub struct NodeSink {
    pub context: Arc<Context>,
    /// The names in the list that is being read, if one is.
    pub listed: Option<HashSet<String>>,
}

impl Sink<LeanNode> for NodeSink {
    fn begin_list(&mut self) {
        self.listed = Some(HashSet::new());
    }

    fn apply(&mut self, node: LeanNode) {
        let (name, state) = node.into_state();
        let changed = {
            let evidence = &mut *self.context.evidence();
            let now = self.context.clock.now();
            let before = evidence.nodes.get(&name);
            let before = before.and_then(ipgc_core::node::Node::state);
            let changed = before.is_none_or(|before| !before.says_the_same(&state));
            if changed && state.declared_ahead {
                warn!(
                    node = name,
                    "annotation {NO_SANDBOXES_ANNOTATION} of a node is in the future, and does not count"
                );
            }
            evidence.note_node(&name, Some(state), self.listed.is_some(), now);
            if let Some(listed) = &mut self.listed {
                listed.insert(name);
            }
            changed
        };
        // Kubelets write their node every few minutes, whether anything changed or not.
        if changed {
            self.context.node_news.notify_one();
        }
    }

    fn delete(&mut self, node: LeanNode) {
        let (name, _) = node.into_state();
        let now = self.context.clock.now();
        self.context.evidence().note_node(&name, None, false, now);
        self.context.node_news.notify_one();
    }

    fn end_list(&mut self) {
        let listed = self.listed.take().unwrap_or_default();
        let mut evidence = self.context.evidence();
        let now = self.context.clock.now();
        evidence.nodes.retain(|name| listed.contains(name), now);
        drop(evidence);
        self.context.node_news.notify_one();
    }
}

/// Definitions: into the evidence, so that a deleted pod costs no request for its networks.
pub struct NadSink {
    pub context: Arc<Context>,
    /// The names in the list that is being read.
    pub listed: HashSet<String>,
}

impl Sink<LeanDefinition> for NadSink {
    fn begin_list(&mut self) {
        self.listed.clear();
    }

    fn apply(&mut self, object: LeanDefinition) {
        let Some((name, definition)) = object.into_definition() else {
            return;
        };
        if let Err(reason) = &definition {
            warn!(definition = name, %reason, "definition cannot be read");
        }
        let known = &mut self.context.evidence().definitions;
        known.insert(name.as_str().into(), definition);
        self.listed.insert(name);
    }

    fn delete(&mut self, object: LeanDefinition) {
        let Some((name, _)) = object.into_definition() else {
            return;
        };
        self.context.evidence().definitions.remove(name.as_str());
    }

    fn end_list(&mut self) {
        let listed = std::mem::take(&mut self.listed);
        let known = &mut self.context.evidence().definitions;
        known.retain(|name, _| listed.contains(&**name));
    }
}

#[cfg(test)]
mod tests;

//! Keeps the knowledge of nodes: which existed at a gap in the pod watch, and whether their kubelets
//! are at work.
//!
//! Leases are read only while something waits for nodes, for one wait after a gap, so that later ends need not wait for
//! it, and while a node has an end of a pod with a ResourceClaim that may outlast W: all in one list, since the
//! resourceVersion of a Lease changes whenever its kubelet renews it.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use ipgc_core::{
    node::{Pulse, SILENCE},
    plan::Input,
    time::Moment,
};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Node};
use kube::api::Request;
use serde_json::Value;
use tokio::time::sleep;
use tracing::warn;

use super::context::{Context, Interest};
use crate::{backoff::Backoff, calls::CallError, config::NODE_LEASES, watch::Lean};

/// Longest time from one read of the Leases to the next: a kubelet renews every ten seconds, and a
/// minute without a change is silence.
const READ_EVERY: Duration = Duration::from_secs(10);
/// How long a node that is gone is remembered, or longer where a wait is.
const KEEP_GONE: Duration = Duration::from_hours(48);
const LIST_NODES: &str = "list nodes";
const LIST_LEASES: &str = "list Leases of nodes";

impl Context {
    /// Keeps the knowledge of nodes for ever.
    pub async fn keep_nodes(self: Arc<Self>) {
        let mut interest = self.interest.subscribe();
        let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(30));
        // Where waits are short, what they wait for is to be seen in time.
        let quick = (self.config.policy.grace / 10).clamp(Duration::from_secs(1), READ_EVERY);
        let mut last = HashMap::new();
        let mut read_at: Option<Moment> = None;
        let mut confirmed_at: Option<Moment> = None;
        // Until when Leases are of interest to pods that may end later.
        let mut listen_until = Moment::EPOCH;
        // When nodes that could not be listed are listed again.
        let mut list_again: Option<Moment> = None;
        loop {
            list_again.take_if(|moment| *moment <= self.clock.now());
            // Once the watch has told which nodes there are, a name that it has not told is news.
            if list_again.is_none() && self.evidence().nodes.is_complete_after_gap() {
                let suspects = self.list_suspects().await;
                self.gate.listed(LIST_NODES, &suspects);
                match suspects {
                    Ok(until) => {
                        listen_until = until.unwrap_or(listen_until);
                        backoff.reset();
                    }
                    Err(error) => {
                        let wait = backoff.next_wait();
                        warn!(%error, ?wait, "nodes cannot be listed, rows that nobody saw wait");
                        list_again = Some(self.clock.now() + wait);
                    }
                }
            }
            let now = self.clock.now();
            let Interest { until, is_awaited } = *interest.borrow_and_update();
            // A case watches one of its nodes. That one may be ready while the others are silent, so all Leases are
            // read.
            // What may outlast W ends with a boot, which is proven only if the boot before it was confirmed.
            let outlasting =
                || self.config.resource_claims && self.evidence().nodes.any_outlasting();
            let read_every = if is_awaited || until > now {
                Some(quick)
            } else {
                // A list that is refused is tried until it is allowed, so that this is told.
                let is_own = |what: &&str| [LIST_NODES, LIST_LEASES].contains(what);
                let is_refused = self.gate.refused_requests().iter().any(is_own);
                (listen_until > now || is_refused || outlasting()).then_some(READ_EVERY)
            };
            let is_due = |every| read_at.is_none_or(|read| now.since(read) >= every);
            if read_every.is_some_and(is_due) {
                read_at = Some(now);
                let read = self.read_leases().await;
                self.gate.listed(LIST_LEASES, &read);
                if let Err(error) = read {
                    warn!(%error, "Leases cannot be read, rows that depend on them wait");
                }
            }
            // Seldom is enough. The later the present boot is confirmed, the more ended pods the next boot proves
            // stopped.
            let confirm_every =
                (self.config.policy.grace / 2).clamp(Duration::from_secs(1), SILENCE);
            if read_every.is_some() && confirmed_at.is_none_or(|at| now.since(at) >= confirm_every)
            {
                confirmed_at = Some(now);
                let confirmed = self.confirm_boots().await;
                self.gate.listed(LIST_NODES, &confirmed);
                if let Err(error) = confirmed {
                    warn!(%error, "nodes cannot be listed, whether they still run on the boot that is known");
                }
            }
            self.wake(&mut last).await;
            let now = self.clock.now();
            self.forget_nodes(now);
            let read_next = read_every.zip(read_at).map(|(every, read)| read + every);
            let next = read_next.into_iter().chain(list_again).min();
            let next = next.map_or(Duration::from_hours(1), |next| self.clock.until(next));
            tokio::select! {
                biased;
                () = sleep(next) => {}
                () = self.node_news.notified() => {}
                // Its sender lives as long as the run.
                Ok(()) = interest.changed() => {}
            }
        }
    }

    fn forget_nodes(&self, now: Moment) {
        let mut evidence = self.evidence();
        let grace = evidence.pods.longest_grace();
        let wait = self.config.policy.longest_wait(grace);
        let keep = KEEP_GONE.max(wait.saturating_mul(2));
        evidence.nodes.forget(keep, wait, now);
    }

    /// Lists all nodes after the gap, by a quorum LIST: each of them blocks. Returns until when their Leases are
    /// needed.
    async fn list_suspects(&self) -> Result<Option<Moment>, CallError> {
        let gap = self.evidence().nodes.pending_gap();
        let Some(gap) = gap else {
            return Ok(None);
        };
        let mut names = Vec::new();
        // The watch tells their states: this list may be older than a removal that it told.
        let add = |node: Lean| names.extend(node.metadata.name);
        self.history
            .read::<Node, _>(&self.client, None, Request::list_metadata, add)
            .await?;
        let unknown: BTreeSet<Box<str>> = {
            let evidence = self.evidence();
            let is_known = |name: &str| evidence.nodes.get(name).is_some();
            let unknown = names.iter().filter(|name| !is_known(name));
            unknown.map(|name| name.as_str().into()).collect()
        };
        let read = self.read_nodes(&unknown, false).await?;
        let now = self.clock.now();
        let mut evidence = self.evidence();
        let grace = evidence.pods.longest_grace();
        // Another gap, meanwhile, needs another list.
        if evidence.nodes.pending_gap() != Some(gap) {
            return Ok(None);
        }
        evidence
            .nodes
            .suspect(names.iter().map(String::as_str), now);
        // The watch may have told of the end of such a one already, and will not do so again.
        for (name, state) in read {
            evidence.note_node(&name, state, false, now);
        }
        drop(evidence);
        // A pod that ends later need not wait for what can be heard now.
        let wait = self.config.policy.longest_wait(grace);
        Ok(Some(now + wait + SILENCE + SILENCE))
    }

    /// Nodes whose objects are as the watch told them still run on the boot that is known.
    async fn confirm_boots(&self) -> Result<(), CallError> {
        // All pages show what the first one showed.
        let Self { clock, history, .. } = self;
        let (asked, epoch) = (clock.now(), history.epoch());
        let mut versions = Vec::new();
        let add = |node: Lean| {
            versions.extend(node.metadata.name.zip(node.metadata.resource_version));
        };
        history
            .read::<Node, _>(&self.client, None, Request::list_metadata, add)
            .await?;
        let nodes = &mut self.evidence().nodes;
        if history.epoch() == epoch {
            for (name, version) in versions {
                nodes.confirm_boot(&name, &version, asked, self.config.policy.grace);
            }
        }
        Ok(())
    }

    /// Reads the Leases of all kubelets into the nodes.
    async fn read_leases(&self) -> Result<(), CallError> {
        // All pages show what the first one showed.
        let Self { clock, history, .. } = self;
        let (asked, epoch) = (clock.now(), history.epoch());
        let mut versions = HashMap::new();
        let add = |lease: Lean<Value>| versions.extend(renewal(lease));
        history
            .read::<Lease, _>(&self.client, Some(NODE_LEASES), Request::list, add)
            .await?;
        let seen = clock.now();
        let nodes = &mut self.evidence().nodes;
        // If the data went back meanwhile, versions cannot be compared.
        if history.epoch() == epoch {
            let names: Vec<String> = nodes.existing().map(|(name, _)| name.to_owned()).collect();
            for name in names {
                let version = versions.get(&name).map(String::as_str);
                nodes.note_lease(&name, version, asked, seen);
            }
        }
        Ok(())
    }

    /// Tells the planner which nodes changed.
    async fn wake(&self, last: &mut HashMap<Box<str>, Pulse>) {
        let pulse: HashMap<Box<str>, Pulse> = {
            let evidence = self.evidence();
            let pulse = evidence.nodes.pulse(self.clock.now()).into_iter();
            pulse.map(|(name, pulse)| (name.into(), pulse)).collect()
        };
        if pulse == *last {
            return;
        }
        let names = pulse.keys().chain(last.keys());
        let changed = names.filter(|name| pulse.get(*name) != last.get(*name));
        let changed = changed.cloned().collect();
        *last = pulse;
        self.plan(Input::NodesChanged(changed)).await;
    }
}

/// The name and the version of a Lease, if the kubelet of that node holds it: what anybody else writes is no sign that the
/// kubelet is at work.
fn renewal(lease: Lean<Value>) -> Option<(String, String)> {
    let name = lease.metadata.name?;
    let is_held = lease.spec?["holderIdentity"] == *name;
    is_held.then_some((name, lease.metadata.resource_version?))
}

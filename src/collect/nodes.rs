//! Keeps the knowledge of nodes: which existed at a gap in the pod watch, and whether their kubelets
//! are at work.
//!
//! Leases are read only while something waits for nodes, and for one wait after a gap, so that later
//! ends need not wait for it: all in one list, since the resourceVersion of a Lease changes whenever its kubelet
//! renews it.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use ipgc_core::{
    evidence::{DEFAULT_POD_GRACE, MANY_ROWS, Policy},
    node::{Pulse, SILENCE},
    plan::Input,
    time::Moment,
};
use k8s_openapi::{
    api::{coordination::v1::Lease, core::v1::Node},
    apimachinery::pkg::apis::meta::v1::ListMeta,
};
use kube::{
    Api, Client, Resource,
    api::{ListParams, Request},
};
use serde::Deserialize;
use tokio::{
    sync::{Notify, mpsc, watch},
    time::sleep,
};
use tracing::warn;

use super::{evidence::SharedEvidence, prover::Prover};
use crate::{
    backoff::Backoff,
    calls::{CallError, PAGE, call, next_page},
    clock::Clock,
    history::History,
};

/// Namespace of the kubelets' Leases.
const LEASES: &str = "kube-node-lease";
/// Longest time from one read of the Leases to the next: a kubelet renews every ten seconds, and a
/// minute without a change is silence.
const READ_EVERY: Duration = Duration::from_secs(10);
/// How long a node that is gone is remembered: longer than any wait.
const KEEP_GONE: Duration = Duration::from_hours(48);

/// Whether somebody waits for something that nodes or their Leases tell.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interest {
    /// Until when the Leases are of interest.
    pub until: Moment,
    /// Whether a case waits for a node.
    pub is_awaited: bool,
}

/// A page of Leases. Every field of a Lease may be absent.
#[derive(Deserialize)]
struct LeasePage {
    metadata: ListMeta,
    items: Vec<LeanLease>,
}

/// The fields of a Lease that tell whether its kubelet is at work.
#[derive(Deserialize)]
struct LeanLease {
    metadata: LeaseMetadata,
    spec: Option<LeaseHolder>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LeaseMetadata {
    name: Option<String>,
    resource_version: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LeaseHolder {
    holder_identity: Option<String>,
}

impl LeanLease {
    /// Its name and its version, if the kubelet of that node holds it: what anybody else writes is no sign that the
    /// kubelet is at work.
    fn renewal(self) -> Option<(String, String)> {
        let name = self.metadata.name?;
        let holder = self.spec?.holder_identity;
        let is_held = holder.is_some_and(|holder| holder == name);
        is_held.then_some((name, self.metadata.resource_version?))
    }
}

/// The keeper of that knowledge.
pub struct NodeKeeper {
    /// Reads nodes and Leases.
    pub client: Client,
    /// The nodes that are kept, with the pods, since the waits depend on the pods' grace.
    pub evidence: SharedEvidence,
    /// Tells that something happened: a node changed, or there was a gap.
    pub news: Arc<Notify>,
    /// Whether somebody waits.
    pub interest: watch::Receiver<Interest>,
    /// Learns of the versions of lists.
    pub history: Arc<History>,
    /// Reads single nodes.
    pub prover: Prover,
    /// Where the cases are that wait.
    pub planner: mpsc::Sender<Input>,
    /// The waits that the Leases are read for.
    pub policy: Policy,
    /// The present.
    pub clock: Clock,
}

impl NodeKeeper {
    /// Keeps it for ever.
    pub async fn run(mut self) {
        let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(30));
        // Where waits are short, what they wait for is to be seen in time.
        let quick = (self.policy.grace / 10).clamp(Duration::from_secs(1), READ_EVERY);
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
            if list_again.is_none() && self.evidence.lock().nodes.is_complete_after_gap() {
                match self.list_suspects().await {
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
            let Interest { until, is_awaited } = *self.interest.borrow_and_update();
            // A case waits for one of its nodes, so that it says nothing of the others whether this one is ready.
            let read_every = if is_awaited || until > now {
                Some(quick)
            } else {
                (listen_until > now).then_some(READ_EVERY)
            };
            let is_due = |every| read_at.is_none_or(|read| now.since(read) >= every);
            if read_every.is_some_and(is_due) {
                read_at = Some(now);
                if let Err(error) = self.read_leases().await {
                    warn!(%error, "Leases cannot be read, rows that depend on them wait");
                }
            }
            // Now and then: how late it is known that a machine still ran decides of how many pods its next boot tells.
            let confirm_every = (self.policy.grace / 2).clamp(Duration::from_secs(1), SILENCE);
            if read_every.is_some() && confirmed_at.is_none_or(|at| now.since(at) >= confirm_every)
            {
                confirmed_at = Some(now);
                if let Err(error) = self.confirm_boots().await {
                    warn!(%error, "nodes cannot be listed, whether they still run on the boot that is known");
                }
            }
            self.wake(&mut last).await;
            let now = self.clock.now();
            self.evidence.lock().nodes.forget(KEEP_GONE, now);
            let next = match (read_every, read_at) {
                (Some(every), Some(read)) => self.clock.until(read + every),
                (Some(_), None) => Duration::ZERO,
                (None, _) => Duration::from_hours(1),
            };
            let again = list_again.map(|moment| self.clock.until(moment));
            let next = again.map_or(next, |again| again.min(next));
            tokio::select! {
                biased;
                () = sleep(next) => {}
                () = self.news.notified() => {}
                // Its sender lives as long as the run.
                Ok(()) = self.interest.changed() => {}
            }
        }
    }

    /// All nodes that exist, by a quorum LIST begun after the gap: each may run what nobody saw. Until when their Leases
    /// are of interest.
    async fn list_suspects(&self) -> Result<Option<Moment>, CallError> {
        let gap = self.evidence.lock().nodes.pending_gap();
        let Some(gap) = gap else {
            return Ok(None);
        };
        let api: Api<Node> = Api::all(self.client.clone());
        let mut params = ListParams::default().limit(PAGE);
        let mut names = Vec::new();
        loop {
            let heard = self.history.ask::<Node>(&params);
            let page = call(api.list_metadata(&params)).await?;
            self.history.hear(heard.as_ref(), &page.metadata);
            let next = next_page(&params, &page.metadata);
            // The watch tells their states: this list may be older than a removal that it told.
            names.extend(page.items.into_iter().filter_map(|node| node.metadata.name));
            match next {
                Some(next) => params = next,
                None => break,
            }
        }
        let unknown: BTreeSet<Box<str>> = {
            let evidence = self.evidence.lock();
            let is_known = |name: &str| evidence.nodes.get(name).is_some();
            let unknown = names.iter().filter(|name| !is_known(name));
            unknown.map(|name| name.as_str().into()).collect()
        };
        let read = self.prover.nodes(&unknown, false).await?;
        let now = self.clock.now();
        let mut evidence = self.evidence.lock();
        let grace = evidence.pods.longest_grace().max(DEFAULT_POD_GRACE);
        let nodes = &mut evidence.nodes;
        // Another gap, meanwhile, needs another list.
        if nodes.pending_gap() != Some(gap) {
            return Ok(None);
        }
        nodes.suspect(names.iter().map(String::as_str), now);
        // The watch may have told of the end of such a one already, and will not do so again.
        for (name, state) in read {
            match state {
                Some(state) => nodes.apply(&name, state, now),
                None => nodes.remove(&name, now),
            }
        }
        drop(evidence);
        // A pod that ends later need not wait for what can be heard now.
        let wait = self.policy.wait(Some(grace), MANY_ROWS);
        Ok(Some(now + wait + SILENCE + SILENCE))
    }

    /// Nodes whose objects are as the watch told them still run on the boot that is known.
    async fn confirm_boots(&self) -> Result<(), CallError> {
        let api: Api<Node> = Api::all(self.client.clone());
        let mut params = ListParams::default().limit(PAGE);
        // All pages show what the first one showed.
        let (asked, epoch) = (self.clock.now(), self.history.epoch());
        loop {
            let heard = self.history.ask::<Node>(&params);
            let page = call(api.list_metadata(&params)).await?;
            self.history.hear(heard.as_ref(), &page.metadata);
            if self.history.epoch() != epoch {
                return Ok(());
            }
            let next = next_page(&params, &page.metadata);
            let mut evidence = self.evidence.lock();
            for meta in page.items.into_iter().map(|node| node.metadata) {
                if let (Some(name), Some(version)) = (meta.name, meta.resource_version) {
                    evidence
                        .nodes
                        .confirm_boot(&name, &version, asked, self.policy.grace);
                }
            }
            drop(evidence);
            match next {
                Some(next) => params = next,
                None => return Ok(()),
            }
        }
    }

    /// Reads the Leases of all kubelets into the nodes.
    async fn read_leases(&self) -> Result<(), CallError> {
        let mut params = ListParams::default().limit(PAGE);
        let mut versions = HashMap::new();
        // All pages show what the first one showed.
        let (asked, epoch) = (self.clock.now(), self.history.epoch());
        let mut answered = None;
        let seen = loop {
            let heard = self.history.ask::<Lease>(&params);
            let request = Request::new(Lease::url_path(&(), Some(LEASES))).list(&params);
            let request = request.map_err(kube::Error::BuildRequest)?;
            let page: LeasePage = call(self.client.request(request)).await?;
            self.history.hear(heard.as_ref(), &page.metadata);
            let seen = *answered.get_or_insert_with(|| self.clock.now());
            let next = next_page(&params, &page.metadata);
            versions.extend(page.items.into_iter().filter_map(LeanLease::renewal));
            match next {
                Some(next) => params = next,
                None => break seen,
            }
        };
        let nodes = &mut self.evidence.lock().nodes;
        // Of two times, each version differs from what it was.
        if self.history.epoch() == epoch {
            let names: Vec<String> = nodes.existing().map(|(name, _)| name.to_owned()).collect();
            for name in names {
                let version = versions.get(&name).map(String::as_str);
                nodes.hear(&name, version, asked, seen);
            }
        }
        Ok(())
    }

    /// Those who wait for something on a node look again when it has happened.
    async fn wake(&self, last: &mut HashMap<Box<str>, Pulse>) {
        let pulse: HashMap<Box<str>, Pulse> = {
            let evidence = self.evidence.lock();
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
        self.tell(Input::NodesChanged(changed)).await;
    }

    async fn tell(&self, input: Input) {
        // The planner ends before this task does.
        let _ = self.planner.send(input).await;
    }
}

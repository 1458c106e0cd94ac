//! Keeps the knowledge of nodes: which existed at a gap in the pod watch, whether their kubelets
//! are at work, and who waits for something to happen on them.
//!
//! Leases are read only while something waits for nodes, and for one wait after a gap, so that later
//! ends need not wait for it: all in one list, since the resourceVersion of a Lease changes whenever its kubelet
//! renews it.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use ipgc_core::{
    evidence::{DEFAULT_POD_GRACE, MANY_ROWS, Policy},
    node::{Pulse, SILENCE},
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
use tokio::{sync::Notify, time::sleep};
use tracing::warn;

use super::{evidence::Evidence, item::ItemQueue, prover::Prover};
use crate::{
    backoff::Backoff,
    calls::{CallError, PAGE, call, next_page},
    clock::Clock,
    history::History,
    lock::lock,
};

/// Namespace of the kubelets' Leases.
const LEASES: &str = "kube-node-lease";
/// Longest time from one read of the Leases to the next: a kubelet renews every ten seconds, and a
/// minute without a change is silence.
const READ_EVERY: Duration = Duration::from_secs(10);
/// How long a node that is gone is remembered: longer than any wait.
const KEEP_GONE: Duration = Duration::from_hours(48);

/// Who waits for nodes.
#[derive(Debug, Default)]
pub struct NodeWaits {
    /// Items that wait for something to happen on nodes.
    parked: Mutex<Parked>,
    /// Until when Leases are of interest to somebody who waits.
    wanted_until: Mutex<Moment>,
    /// Until when they are of interest to whoever may wait later.
    listen_until: Mutex<Moment>,
    /// Who waits for a read of the Leases.
    reads: Mutex<Reads>,
    /// Something happened: a node changed, a gap, somebody waits.
    changed: Notify,
}

/// Reads of the Leases, by the moments at which they are asked for.
#[derive(Debug, Default)]
struct Reads {
    /// The last one that was taken in.
    last: Moment,
    /// The first one that may tell an item something, by its key.
    items: HashMap<Box<str>, Moment>,
}

/// In an outage a hundred thousand items may wait for a thousand nodes: each list of names is kept, and gone through,
/// once.
#[derive(Debug, Default)]
struct Parked {
    /// The nodes that an item waits for, by its key.
    items: HashMap<Box<str>, Arc<[Box<str>]>>,
    lists: HashSet<Arc<[Box<str>]>>,
}

impl Parked {
    fn park(&mut self, key: &str, nodes: Arc<[Box<str>]>) {
        let known = self.lists.get(&nodes).cloned();
        let nodes = known.unwrap_or_else(|| {
            self.lists.insert(Arc::clone(&nodes));
            nodes
        });
        self.items.insert(key.into(), nodes);
    }

    /// The items that wait for such a node.
    fn items_on(&mut self, is_one: impl Fn(&str) -> bool) -> Vec<Box<str>> {
        self.lists.retain(|list| Arc::strong_count(list) > 1);
        let address = |list: &Arc<[Box<str>]>| Arc::as_ptr(list).addr();
        let lists = self
            .lists
            .iter()
            .filter(|list| list.iter().any(|name| is_one(name)));
        let lists: HashSet<usize> = lists.map(address).collect();
        let items = self
            .items
            .iter()
            .filter(|(_, list)| lists.contains(&address(list)));
        items.map(|(key, _)| key.clone()).collect()
    }
}

impl NodeWaits {
    /// The item with this key waits for something to happen on one of these nodes.
    pub fn park(&self, key: &str, nodes: Arc<[Box<str>]>) {
        lock(&self.parked).park(key, nodes);
        self.changed.notify_one();
    }

    /// The item waits no more.
    pub fn unpark(&self, key: &str) {
        lock(&self.parked).items.remove(key);
        lock(&self.reads).items.remove(key);
    }

    /// Leases are of interest until `until`, to somebody who waits.
    pub fn want(&self, until: Moment) {
        let mut wanted = lock(&self.wanted_until);
        if *wanted < until {
            *wanted = until;
            drop(wanted);
            self.changed.notify_one();
        }
    }

    /// Something happened.
    pub fn notify(&self) {
        self.changed.notify_one();
    }

    /// From when on a read of the Leases must be asked for that is to show what one asked for at `from` may, and none
    /// has so far.
    pub fn next_read(&self, from: Moment) -> Moment {
        from.max(lock(&self.reads).last + Duration::from_nanos(1))
    }

    /// The item with this key waits for a read that is asked for at `asked` or later. False if such a one was taken
    /// in meanwhile.
    pub fn park_for_read(&self, key: &str, asked: Moment) -> bool {
        let mut reads = lock(&self.reads);
        let is_to_come = reads.last < asked;
        if is_to_come {
            reads.items.insert(key.into(), asked);
        }
        is_to_come
    }

    /// A read that was asked for at `asked` was taken in. The items that waited for it.
    fn taken_in(&self, asked: Moment) -> Vec<Box<str>> {
        let mut reads = lock(&self.reads);
        reads.last = asked;
        let told = reads.items.extract_if(|_, wanted| *wanted <= asked);
        let told = told.map(|(key, _)| key).collect();
        reads.items.shrink_to_fit();
        told
    }

    /// How often Leases are to be read, if at all: every `quick` for whoever waits. He is parked on one of the
    /// nodes that he waits for, so that it says nothing of the others whether this one is ready.
    fn read_every(&self, quick: Duration, now: Moment) -> Option<Duration> {
        if *lock(&self.wanted_until) > now || !lock(&self.parked).items.is_empty() {
            return Some(quick);
        }
        (*lock(&self.listen_until) > now).then_some(READ_EVERY)
    }
}

/// A page of Leases. Every field of a Lease may be absent.
#[derive(Deserialize)]
struct LeasePage {
    metadata: ListMeta,
    items: Vec<LeanLease>,
}

/// What a Lease tells of its kubelet.
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
    /// What is kept, with the pods, whose grace the waits depend on.
    pub evidence: Arc<Mutex<Evidence>>,
    /// Who waits.
    pub waits: Arc<NodeWaits>,
    /// Learns of the versions of lists.
    pub history: Arc<History>,
    /// Reads single nodes.
    pub prover: Prover,
    /// Where those who wait are.
    pub queue: Arc<ItemQueue>,
    /// The waits that the Leases are read for.
    pub policy: Policy,
    /// The present.
    pub clock: Clock,
}

impl NodeKeeper {
    /// Keeps it for ever.
    pub async fn run(self) {
        let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(30));
        // Where waits are short, what they wait for is to be seen in time.
        let quick = (self.policy.grace / 10).clamp(Duration::from_secs(1), READ_EVERY);
        let mut last = HashMap::new();
        let mut read_at: Option<Moment> = None;
        let mut confirmed_at: Option<Moment> = None;
        // When nodes that could not be listed are listed again.
        let mut list_again: Option<Moment> = None;
        loop {
            list_again.take_if(|moment| *moment <= self.clock.now());
            // Once the watch has told which nodes there are, a name that it has not told is news.
            if list_again.is_none() && lock(&self.evidence).nodes.is_complete_after_gap() {
                match self.list_suspects().await {
                    Ok(()) => backoff.reset(),
                    Err(error) => {
                        let wait = backoff.next_wait();
                        warn!(%error, ?wait, "nodes cannot be listed, rows that nobody saw wait");
                        list_again = Some(self.clock.now() + wait);
                    }
                }
            }
            let now = self.clock.now();
            let read_every = self.waits.read_every(quick, now);
            let is_due = |every| read_at.is_none_or(|read| now.since(read) >= every);
            if read_every.is_some_and(is_due) {
                read_at = Some(now);
                match self.read_leases().await {
                    Ok(asked) => self.look_again(self.waits.taken_in(asked)),
                    Err(error) => {
                        warn!(%error, "Leases cannot be read, rows that depend on them wait");
                    }
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
            self.wake(&mut last);
            let now = self.clock.now();
            lock(&self.evidence).nodes.forget(KEEP_GONE, now);
            let next = match (read_every, read_at) {
                (Some(every), Some(read)) => self.clock.until(read + every),
                (Some(_), None) => Duration::ZERO,
                (None, _) => Duration::from_hours(1),
            };
            let again = list_again.map(|moment| self.clock.until(moment));
            let next = again.map_or(next, |again| again.min(next));
            tokio::select! {
                () = sleep(next) => {}
                () = self.waits.changed.notified() => {}
            }
        }
    }

    /// All nodes that exist, by a quorum LIST begun after the gap: each may run what nobody saw.
    async fn list_suspects(&self) -> Result<(), CallError> {
        let gap = lock(&self.evidence).nodes.pending_gap();
        let Some(gap) = gap else {
            return Ok(());
        };
        let api: Api<Node> = Api::all(self.client.clone());
        let mut params = ListParams::default().limit(PAGE);
        let mut names = Vec::new();
        loop {
            let heard = self.history.ask::<Node>(&params);
            let page = call(api.list_metadata(&params)).await?;
            self.history.hear(heard.as_ref(), &page.metadata);
            let next = next_page(&params, &page.metadata);
            // What they are, the watch tells: this list may be older than a removal that it told.
            names.extend(page.items.into_iter().filter_map(|node| node.metadata.name));
            match next {
                Some(next) => params = next,
                None => break,
            }
        }
        let unknown: BTreeSet<Box<str>> = {
            let evidence = lock(&self.evidence);
            let is_known = |name: &str| evidence.nodes.get(name).is_some();
            let unknown = names.iter().filter(|name| !is_known(name));
            unknown.map(|name| name.as_str().into()).collect()
        };
        let read = self.prover.nodes(&unknown).await?;
        let now = self.clock.now();
        let mut evidence = lock(&self.evidence);
        let grace = evidence.pods.longest_grace().max(DEFAULT_POD_GRACE);
        let nodes = &mut evidence.nodes;
        // Another gap, meanwhile, needs another list.
        if nodes.pending_gap() != Some(gap) {
            return Ok(());
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
        // Whoever ends later need not wait for what can be heard now.
        let wait = self.policy.wait(Some(grace), MANY_ROWS);
        *lock(&self.waits.listen_until) = now + wait + SILENCE + SILENCE;
        Ok(())
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
            let mut evidence = lock(&self.evidence);
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

    /// When they were asked for.
    async fn read_leases(&self) -> Result<Moment, CallError> {
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
        let nodes = &mut lock(&self.evidence).nodes;
        // Of two times, each version differs from what it was.
        if self.history.epoch() == epoch {
            let names: Vec<String> = nodes.existing().map(|(name, _)| name.to_owned()).collect();
            for name in names {
                let version = versions.get(&name).map(String::as_str);
                nodes.hear(&name, version, asked, seen);
            }
        }
        Ok(asked)
    }

    /// Those who wait for something on a node look again when it has happened.
    fn wake(&self, last: &mut HashMap<Box<str>, Pulse>) {
        let pulse: HashMap<Box<str>, Pulse> = {
            let evidence = lock(&self.evidence);
            let pulse = evidence.nodes.pulse(self.clock.now()).into_iter();
            pulse.map(|(name, pulse)| (name.into(), pulse)).collect()
        };
        if pulse == *last {
            return;
        }
        let changed = |node: &str| pulse.get(node) != last.get(node);
        let woken = lock(&self.waits.parked).items_on(changed);
        self.look_again(woken);
        *last = pulse;
    }

    /// These items look again.
    fn look_again(&self, keys: Vec<Box<str>>) {
        for key in keys {
            self.queue.reschedule(&*key, Duration::ZERO);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(names: &[&str]) -> Arc<[Box<str>]> {
        names.iter().map(|name| Box::from(*name)).collect()
    }

    #[test]
    fn items_that_wait_for_the_same_nodes_share_their_list() {
        let mut parked = Parked::default();
        for item in 0..1_000 {
            parked.park(&format!("d/web-{item}"), nodes(&["a", "b"]));
        }
        parked.park("d/db-0", nodes(&["b", "c"]));
        assert_eq!(parked.lists.len(), 2);
        assert_eq!(parked.items_on(|name| name == "c"), ["d/db-0".into()]);
        assert_eq!(parked.items_on(|name| name == "b").len(), 1_001);
        assert!(parked.items_on(|name| name == "d").is_empty());
    }

    #[test]
    fn whoever_waits_for_a_read_is_told_by_the_first_that_is_asked_for_late_enough() {
        let (waits, at) = (NodeWaits::default(), |s| {
            Moment::new(Duration::from_secs(s))
        });
        assert_eq!(waits.taken_in(at(10)), [""; 0].map(Box::from));
        for (key, from) in [
            ("d/web-0", 5),
            ("d/web-1", 20),
            ("d/web-2", 21),
            ("d/web-3", 20),
        ] {
            assert!(waits.park_for_read(key, waits.next_read(at(from))), "{key}");
        }
        waits.unpark("d/web-3");
        assert_eq!(waits.taken_in(at(20)).len(), 2);
        assert_eq!(waits.taken_in(at(30)), ["d/web-2".into()]);
        assert!(waits.taken_in(at(40)).is_empty());
        // What was taken in between the look and now may tell him already.
        assert!(!waits.park_for_read("d/web-0", at(40)));
        assert!(waits.taken_in(at(50)).is_empty());
    }

    #[test]
    fn what_nobody_waits_for_is_forgotten() {
        let mut parked = Parked::default();
        parked.park("d/web-0", nodes(&["a"]));
        // It waits for another one since.
        parked.park("d/web-0", nodes(&["b"]));
        assert!(parked.items_on(|name| name == "a").is_empty());
        assert_eq!(parked.lists.len(), 1);
        parked.items.remove("d/web-0");
        assert!(parked.items_on(|_| true).is_empty());
        assert!(parked.lists.is_empty());
    }
}

//! Proof of absence: quorum reads of pods, begun after what they are to prove.
//!
//! A few pods are read one by one, many by a LIST of their namespace (of names only, where nobody
//! needs more: see [`super::roll`]), whichever is fewer requests. A read that fails makes its pods
//! Unknown; an error is never absence.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use futures::{StreamExt, TryStreamExt, stream};
use ipgc_core::{
    node::NodeState,
    patch::Answer,
    podref::PodRef,
    proof::{KnownResourceClaims, Presence, Proof, ResourceClaims, Ticket},
};
use kube::{
    Api, Client, Resource,
    api::{ListParams, Request},
};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::{
    gate::{Access, Gate},
    roll::Rolls,
};
use crate::{
    api::ResourceClaim,
    calls::{CallError, call, next_page, pages_left},
    history::History,
    watch::{LeanNode, LeanPod},
};

/// Up to this many pods of a namespace are read one by one without asking how many there are.
const FEW: usize = 4;
/// Reads in flight at a time.
const CONCURRENCY: usize = 8;
/// Pods to a page with all that they are, in JSON: about two megabytes.
const PAGE_OF_STATES: u32 = 250;

/// Single nodes that are read for the price of a page of them.
const READS_FOR_PAGE: usize = 16;

/// The pods that are asked about, and for each whether its state is needed.
pub type Asked = BTreeMap<PodRef, bool>;

/// Reads the presence of pods.
#[derive(Clone)]
pub struct Prover {
    client: Client,
    rolls: Rolls,
    gate: Arc<Gate>,
    history: Arc<History>,
}

impl Prover {
    /// Reads through `client`, and shuts the gate when it is refused. Reads that many share run in
    /// `tasks`.
    pub fn new(client: Client, gate: Arc<Gate>, tasks: TaskTracker, history: Arc<History>) -> Self {
        Self {
            rolls: Rolls::new(client.clone(), tasks, Arc::clone(&history)),
            client,
            gate,
            history,
        }
    }

    /// Proves for the observation that gave the ticket. Taking the ticket by value is what keeps
    /// the order: no read of this proof can begin before the observation has ended.
    pub async fn prove<'a>(&self, ticket: Ticket<'a>, asked: &Asked, claims: bool) -> Proof<'a> {
        let proof = ticket.conclude(self.presence(asked).await.1);
        if claims {
            proof.with_claims(self.claims().await)
        } else {
            proof
        }
    }

    /// The ResourceClaims of all namespaces, read from now on.
    ///
    /// # Errors
    /// When a page cannot be read.
    pub async fn claims(&self) -> KnownResourceClaims {
        let mut claims = ResourceClaims::default();
        let mut is_whole = true;
        let add = |claim: ResourceClaim| match claim.metadata.uid.as_deref() {
            Some(uid) => claims.add(uid, claim.addresses()),
            None => is_whole = false,
        };
        let read = self
            .history
            .read::<ResourceClaim, _>(&self.client, None, Request::list, add);
        let read = read.await;
        read.map_err(|error| format!("ResourceClaims cannot be listed: {error}"))?;
        let whole = is_whole.then_some(claims);
        whole.ok_or_else(|| "a ResourceClaim has no uid".into())
    }

    /// The presence of each of these pods, read from now on, and when the first of the reads began.
    pub async fn presence(&self, asked: &Asked) -> (Instant, HashMap<PodRef, Presence>) {
        let mut by_namespace = BTreeMap::<&str, BTreeSet<&PodRef>>::new();
        for podref in asked.keys() {
            by_namespace
                .entry(podref.namespace())
                .or_default()
                .insert(podref);
        }
        let mut presence = HashMap::with_capacity(asked.len());
        let mut single = Vec::new();
        let mut lists = Vec::new();
        for (namespace, wanted) in by_namespace {
            if wanted.len() <= FEW {
                single.extend(wanted.into_iter().cloned());
            } else {
                lists.push(self.many(namespace, wanted, asked));
            }
        }
        let mut lists = stream::iter(lists).buffer_unordered(CONCURRENCY);
        let mut first = None;
        while let Some((begun, found, unread)) = lists.next().await {
            first = first.into_iter().chain([begun]).min();
            presence.extend(found);
            single.extend(unread);
        }
        let first = first.unwrap_or_else(Instant::now);
        // Collected first, or the compiler cannot tell that the whole is Send.
        let reads: Vec<_> = single
            .into_iter()
            .map(|podref| async move {
                let presence = self.get(&podref).await;
                (podref, presence)
            })
            .collect();
        let reads = stream::iter(reads).buffer_unordered(CONCURRENCY);
        presence.extend(reads.collect::<Vec<_>>().await);
        (first, presence)
    }

    /// Many pods of one namespace, when their read began, and those of them that are better read one by
    /// one.
    async fn many(
        &self,
        namespace: &str,
        wanted: BTreeSet<&PodRef>,
        asked: &Asked,
    ) -> (Instant, HashMap<PodRef, Presence>, Vec<PodRef>) {
        let mut presence = HashMap::with_capacity(wanted.len());
        let mut begun = Instant::now();
        let unread = if wanted.iter().any(|podref| asked[*podref]) {
            self.list(namespace, wanted, &mut presence).await
        } else {
            self.roll(namespace, wanted, &mut presence, &mut begun)
                .await
        };
        (begun, presence, unread)
    }

    /// Asks for the roll of the namespace, which may begin later. Returns those about which it says
    /// nothing.
    async fn roll(
        &self,
        namespace: &str,
        wanted: BTreeSet<&PodRef>,
        presence: &mut HashMap<PodRef, Presence>,
        begun: &mut Instant,
    ) -> Vec<PodRef> {
        let wanted: Vec<_> = wanted.into_iter().cloned().collect();
        let reason = match self.rolls.ask(namespace, wanted.clone()).await {
            Some(Ok((at, roll))) => {
                *begun = at;
                let present = roll.present.into_iter();
                presence.extend(present.map(|podref| (podref, Presence::Present(None))));
                let absent = roll.absent.into_iter();
                presence.extend(absent.map(|podref| (podref, Presence::Absent)));
                return roll.unread;
            }
            Some(Err(error)) => self.unknown(&error),
            None => "the list ended early".into(),
        };
        let unknown = wanted.into_iter();
        presence.extend(unknown.map(|podref| (podref, Presence::Unknown(reason.clone()))));
        Vec::new()
    }

    /// Lists the namespace with the states of its pods as long as that takes fewer requests than
    /// reading one by one. Returns those about which it says nothing.
    async fn list(
        &self,
        namespace: &str,
        mut wanted: BTreeSet<&PodRef>,
        presence: &mut HashMap<PodRef, Presence>,
    ) -> Vec<PodRef> {
        let api: Api<LeanPod> = Api::namespaced(self.client.clone(), namespace);
        let mut params = ListParams::default().limit(PAGE_OF_STATES);
        loop {
            let asked = self.history.ask::<LeanPod>(&params);
            let page = match call(api.list(&params)).await {
                Ok(page) => page,
                Err(error) => {
                    let reason = self.unknown(&error);
                    let unknown = wanted.into_iter().cloned();
                    presence
                        .extend(unknown.map(|podref| (podref, Presence::Unknown(reason.clone()))));
                    return Vec::new();
                }
            };
            self.history.hear(asked.as_ref(), &page.metadata);
            let (next, left) = (
                next_page(&params, &page.metadata),
                pages_left(&params, &page.metadata),
            );
            for pod in page.items {
                let name = pod.meta().name.as_deref().unwrap_or_default();
                if let Ok(podref) = PodRef::new(namespace, name)
                    && wanted.remove(&podref)
                {
                    let state = pod.into_state().map(Arc::new);
                    presence.insert(podref, Presence::Present(state));
                }
            }
            let Some(next) = next else {
                // All pages of one list are one revision: who was in none of them is absent.
                let absent = wanted.into_iter().cloned();
                presence.extend(absent.map(|podref| (podref, Presence::Absent)));
                return Vec::new();
            };
            if left > wanted.len() {
                return wanted.into_iter().cloned().collect();
            }
            params = next;
        }
    }

    fn unknown(&self, error: &CallError) -> Box<str> {
        if error.answer() == Answer::Forbidden {
            self.gate.refused(Access::Read, "read pods", error);
        }
        error.to_string().into()
    }

    /// Nodes, read from now on: what they are counts only if they still are. Many are listed. With `all` of them those come
    /// too that have another name.
    ///
    /// # Errors
    /// When one of them cannot be read.
    pub async fn nodes(
        &self,
        names: &BTreeSet<Box<str>>,
        all: bool,
    ) -> Result<Vec<(String, Option<NodeState>)>, CallError> {
        let nodes: Api<LeanNode> = Api::all(self.client.clone());
        let nodes = &nodes;
        let mut wanted: BTreeSet<&str> = names.iter().map(|name| &**name).collect();
        let mut read = Vec::with_capacity(names.len());
        let mut page = (all || wanted.len() > READS_FOR_PAGE)
            .then(|| ListParams::default().limit(PAGE_OF_STATES));
        while let Some(params) = page {
            let asked = self.history.ask::<LeanNode>(&params);
            let list = call(nodes.list(&params)).await?;
            self.history.hear(asked.as_ref(), &list.metadata);
            page = next_page(&params, &list.metadata);
            let left = pages_left(&params, &list.metadata);
            let listed = list.items.into_iter().filter_map(LeanNode::into_state);
            for (name, state) in listed {
                if wanted.remove(&*name) || all {
                    read.push((name, Some(state)));
                }
            }
            if page.is_none() {
                // All pages of one list are one revision: those that were in none of them do not exist.
                let absent = std::mem::take(&mut wanted).into_iter();
                read.extend(absent.map(|name| (name.to_owned(), None)));
            } else if !all && left * READS_FOR_PAGE > wanted.len() {
                break;
            }
        }
        let reads: Vec<_> = wanted
            .into_iter()
            .map(|name| async move {
                match call(nodes.get(name)).await {
                    Ok(node) => Ok((name.to_owned(), node.into_state().map(|(_, state)| state))),
                    Err(error) if error.is_absence_of::<LeanNode>(name) => {
                        Ok((name.to_owned(), None))
                    }
                    Err(error) => Err(error),
                }
            })
            .collect();
        let mut reads = stream::iter(reads).buffer_unordered(CONCURRENCY);
        while let Some(node) = reads.try_next().await? {
            read.push(node);
        }
        Ok(read)
    }

    async fn get(&self, podref: &PodRef) -> Presence {
        let pods: Api<LeanPod> = Api::namespaced(self.client.clone(), podref.namespace());
        match call(pods.get(podref.name())).await {
            Ok(pod) => Presence::Present(pod.into_state().map(Arc::new)),
            Err(error) if error.is_absence_of::<LeanPod>(podref.name()) => Presence::Absent,
            Err(error) => Presence::Unknown(self.unknown(&error)),
        }
    }
}

//! Proof of absence: quorum reads of pods, begun after what they are to prove.
//!
//! A few pods are read one by one, many by a LIST of their namespace (metadata only, where nobody
//! needs more), whichever is fewer requests. A read that fails makes its pods Unknown; an error is
//! never absence.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use futures::{StreamExt, TryStreamExt, stream};
use ipgc_core::{
    node::NodeState,
    patch::Answer,
    podref::PodRef,
    proof::{Presence, Proof, Ticket},
};
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ListMeta};
use kube::{Api, Client, Resource, api::ListParams};

use super::gate::Gate;
use crate::{
    calls::{CallError, PAGE, call, next_page},
    watch::{LeanNode, LeanPod},
};

/// Up to this many pods of a namespace are read one by one without asking how many there are.
const FEW: usize = 4;
/// Reads in flight at a time.
const CONCURRENCY: usize = 8;
/// Pods to a page with all that they are.
const PAGE_OF_STATES: u32 = 250;

/// The pods that are asked about, and for each whether its state is needed.
pub type Asked = BTreeMap<PodRef, bool>;

/// Reads the presence of pods.
#[derive(Clone)]
pub struct Prover {
    client: Client,
    gate: Arc<Gate>,
}

impl Prover {
    /// Reads through `client`, and shuts the gate when it is refused.
    #[must_use]
    pub fn new(client: Client, gate: Arc<Gate>) -> Self {
        Self { client, gate }
    }

    /// Proves for the observation that gave the ticket. Taking the ticket by value is what keeps
    /// the order: no read of this proof can begin before the observation has ended.
    pub async fn prove<'a>(&self, ticket: Ticket<'a>, asked: &Asked) -> Proof<'a> {
        ticket.conclude(self.presence(asked).await)
    }

    /// The presence of each of these pods, read from now on.
    pub async fn presence(&self, asked: &Asked) -> HashMap<PodRef, Presence> {
        let mut by_namespace = BTreeMap::<&str, BTreeSet<&PodRef>>::new();
        for podref in asked.keys() {
            by_namespace
                .entry(podref.namespace())
                .or_default()
                .insert(podref);
        }
        let mut presence = HashMap::with_capacity(asked.len());
        for (namespace, wanted) in by_namespace {
            let rest = if wanted.len() <= FEW {
                wanted
            } else {
                let states = wanted.iter().any(|podref| asked[*podref]);
                self.list(namespace, wanted, states, &mut presence).await
            };
            // Collected first, or the compiler cannot tell that the whole is Send.
            let reads: Vec<_> = rest
                .into_iter()
                .map(|podref| async move { (podref.clone(), self.get(podref).await) })
                .collect();
            let reads = stream::iter(reads).buffer_unordered(CONCURRENCY);
            presence.extend(reads.collect::<Vec<_>>().await);
        }
        presence
    }

    /// Lists the namespace as long as that takes fewer requests than reading one by one. Returns
    /// those about which it says nothing.
    async fn list<'p>(
        &self,
        namespace: &str,
        mut wanted: BTreeSet<&'p PodRef>,
        states: bool,
        presence: &mut HashMap<PodRef, Presence>,
    ) -> BTreeSet<&'p PodRef> {
        let page_size = if states { PAGE_OF_STATES } else { PAGE };
        let mut params = ListParams::default().limit(page_size);
        loop {
            let (pods, metadata) = match self.page(namespace, &params, states).await {
                Ok(page) => page,
                Err(error) => {
                    let reason = self.unknown(&error);
                    for podref in wanted {
                        presence.insert(podref.clone(), Presence::Unknown(reason.clone()));
                    }
                    return BTreeSet::new();
                }
            };
            for (name, state) in pods {
                if let Ok(podref) = PodRef::new(namespace, &name)
                    && wanted.remove(&podref)
                {
                    let state = state.and_then(LeanPod::into_state).map(Box::new);
                    presence.insert(podref, Presence::Present(state));
                }
            }
            let Some(next) = next_page(&params, &metadata) else {
                // All pages of one list are one revision: who was in none of them is absent.
                for podref in wanted {
                    presence.insert(podref.clone(), Presence::Absent);
                }
                return BTreeSet::new();
            };
            // Every server since 1.15 tells how many are left; where one does not, the list ends.
            let remaining = metadata.remaining_item_count.unwrap_or(0);
            let pages = usize::try_from(remaining / i64::from(page_size) + 1).unwrap_or(usize::MAX);
            if pages > wanted.len() {
                return wanted;
            }
            params = next;
        }
    }

    fn unknown(&self, error: &CallError) -> Box<str> {
        if error.answer() == Answer::Forbidden {
            self.gate.refused("read pods", error);
        }
        error.to_string().into()
    }

    async fn page(
        &self,
        namespace: &str,
        params: &ListParams,
        states: bool,
    ) -> Result<(Vec<(String, Option<LeanPod>)>, ListMeta), CallError> {
        if states {
            let pods: Api<LeanPod> = Api::namespaced(self.client.clone(), namespace);
            let page = call(pods.list(params)).await?;
            let pods = page.items.into_iter();
            let pods = pods.filter_map(|pod| Some((pod.meta().name.clone()?, Some(pod))));
            return Ok((pods.collect(), page.metadata));
        }
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let page = call(pods.list_metadata(params)).await?;
        let names = page.items.into_iter().filter_map(|pod| pod.metadata.name);
        Ok((names.map(|name| (name, None)).collect(), page.metadata))
    }

    /// Nodes, read from now on: whether they are fenced counts only if they still are.
    ///
    /// # Errors
    /// When one of them cannot be read.
    pub async fn nodes(
        &self,
        names: &BTreeSet<Box<str>>,
    ) -> Result<Vec<(String, Option<NodeState>)>, CallError> {
        let nodes: Api<LeanNode> = Api::all(self.client.clone());
        let nodes = &nodes;
        let reads: Vec<_> = names
            .iter()
            .map(|name| async move {
                match call(nodes.get(name)).await {
                    Ok(node) => Ok((name.to_string(), node.into_state().map(|(_, state)| state))),
                    Err(error) if error.is_absence_of::<LeanNode>(name) => {
                        Ok((name.to_string(), None))
                    }
                    Err(error) => Err(error),
                }
            })
            .collect();
        let reads = stream::iter(reads).buffer_unordered(CONCURRENCY);
        reads.try_collect().await
    }

    async fn get(&self, podref: &PodRef) -> Presence {
        let pods: Api<LeanPod> = Api::namespaced(self.client.clone(), podref.namespace());
        match call(pods.get(podref.name())).await {
            Ok(pod) => Presence::Present(pod.into_state().map(Box::new)),
            Err(error) if error.is_absence_of::<LeanPod>(podref.name()) => Presence::Absent,
            Err(error) => Presence::Unknown(self.unknown(&error)),
        }
    }
}

//! Proof of absence: quorum reads of pods, begun after what they are to prove.
//!
//! A few pods are read one by one, many by a metadata LIST of their namespace, whichever is fewer
//! requests. A read that fails makes its pods Unknown; an error is never absence.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use futures::{StreamExt, stream};
use ipgc_core::{
    patch::Answer,
    podref::PodRef,
    proof::{Presence, Proof, Ticket},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{ListParams, PartialObjectMeta},
    core::ObjectList,
};

use super::gate::Gate;
use crate::{
    calls::{CallError, call, next_page},
    watch::LeanPod,
};

/// Up to this many pods of a namespace are read one by one without asking how many there are.
const FEW: usize = 4;
/// Reads in flight at a time.
const CONCURRENCY: usize = 8;
/// Pods to a page.
const PAGE: u32 = 500;

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
    pub async fn prove<'a>(&self, ticket: Ticket<'a>, podrefs: &BTreeSet<PodRef>) -> Proof<'a> {
        ticket.conclude(self.presence(podrefs).await)
    }

    /// The presence of each of these pods, read from now on.
    pub async fn presence(&self, podrefs: &BTreeSet<PodRef>) -> HashMap<PodRef, Presence> {
        let mut by_namespace = BTreeMap::<&str, BTreeSet<&PodRef>>::new();
        for podref in podrefs {
            by_namespace
                .entry(podref.namespace())
                .or_default()
                .insert(podref);
        }
        let mut presence = HashMap::with_capacity(podrefs.len());
        for (namespace, wanted) in by_namespace {
            let rest = if wanted.len() <= FEW {
                wanted
            } else {
                self.list(namespace, wanted, &mut presence).await
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
        presence: &mut HashMap<PodRef, Presence>,
    ) -> BTreeSet<&'p PodRef> {
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let page = match self.page(namespace, &params).await {
                Ok(page) => page,
                Err(error) => {
                    let reason = self.unknown(&error);
                    for podref in wanted {
                        presence.insert(podref.clone(), Presence::Unknown(reason.clone()));
                    }
                    return BTreeSet::new();
                }
            };
            for pod in &page.items {
                let name = pod.metadata.name.as_deref().unwrap_or_default();
                if let Ok(podref) = PodRef::new(namespace, name)
                    && wanted.remove(&podref)
                {
                    presence.insert(podref, Presence::Present(None));
                }
            }
            let Some(next) = next_page(&params, &page.metadata) else {
                // All pages of one list are one revision: who was in none of them is absent.
                for podref in wanted {
                    presence.insert(podref.clone(), Presence::Absent);
                }
                return BTreeSet::new();
            };
            // Every server since 1.15 tells how many are left; where one does not, the list ends.
            let remaining = page.metadata.remaining_item_count.unwrap_or(0);
            let pages = usize::try_from(remaining / i64::from(PAGE) + 1).unwrap_or(usize::MAX);
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
    ) -> Result<ObjectList<PartialObjectMeta<Pod>>, CallError> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        call(pods.list_metadata(params)).await
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

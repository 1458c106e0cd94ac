//! Proof of absence: quorum reads of pods, begun after what they are to prove.
//!
//! A few pods are read one by one, many by a LIST of their namespace (of names only, where nobody
//! needs more: see [`super::roll`]), whichever is fewer requests. A read that fails makes its pods
//! Unknown; an error is never absence.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::IpAddr,
    sync::Arc,
};

use futures::{StreamExt, TryStreamExt, stream};
use ipgc_core::{
    node::NodeState,
    podref::PodRef,
    proof::{KnownResourceClaims, Presence, Proof, ResourceClaims, Ticket},
};
use k8s_openapi::api::resource::v1::{NetworkDeviceData, ResourceClaim};
use kube::{
    Api, Resource,
    api::{ListParams, ObjectList, Request},
};
use serde::{Deserialize, de::IgnoredAny};
use tokio::time::Instant;

use super::{context::Context, gate::Access, roll};
use crate::{
    calls::{CallError, call},
    watch::{Lean, LeanNode, LeanPod},
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

impl Context {
    /// Proves for the observation that gave the ticket. Taking the ticket by value is what keeps
    /// the order: no read of this proof can begin before the observation has ended.
    pub async fn prove<'a>(
        &self,
        ticket: Ticket<'a>,
        asked: &Asked,
        resource_claims: bool,
    ) -> Proof<'a> {
        let proof = ticket.conclude(self.presence(asked).await.1);
        if resource_claims {
            proof.with_resource_claims(self.resource_claims().await)
        } else {
            proof
        }
    }

    /// The ResourceClaims of all namespaces, read from now on.
    pub async fn resource_claims(&self) -> KnownResourceClaims {
        let mut claims = ResourceClaims::default();
        let mut is_whole = true;
        let add = |claim: Lean<IgnoredAny, ClaimStatus>| match claim.metadata.uid.as_deref() {
            Some(uid) => claims.add(uid, addresses_of(claim.status.as_ref())),
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
        let mut by_namespace = BTreeMap::<&str, Vec<&PodRef>>::new();
        for podref in asked.keys() {
            let wanted = by_namespace.entry(podref.namespace()).or_default();
            wanted.push(podref);
        }
        by_namespace.retain(|_, wanted| wanted.len() > FEW);
        // Collected first, or the compiler cannot tell that the whole is Send.
        let lists: Vec<_> = by_namespace
            .into_iter()
            .map(|(namespace, wanted)| self.many_pods(namespace, wanted, asked))
            .collect();
        let mut lists = stream::iter(lists).buffer_unordered(CONCURRENCY);
        let mut presence = HashMap::with_capacity(asked.len());
        let mut first = None;
        while let Some((begun, found)) = lists.next().await {
            first = first.into_iter().chain([begun]).min();
            presence.extend(found);
        }
        let first = first.unwrap_or_else(Instant::now);
        // The few, and those about which no list tells.
        let single: Vec<_> = asked
            .keys()
            .filter(|podref| !presence.contains_key(*podref))
            .map(|podref| async move { (podref.clone(), self.pod(podref).await) })
            .collect();
        let reads = stream::iter(single).buffer_unordered(CONCURRENCY);
        presence.extend(reads.collect::<Vec<_>>().await);
        (first, presence)
    }

    /// Many pods of one namespace, and when their read began. Those that are better read one by one are left out.
    async fn many_pods(
        &self,
        namespace: &str,
        wanted: Vec<&PodRef>,
        asked: &Asked,
    ) -> (Instant, HashMap<PodRef, Presence>) {
        let begun = Instant::now();
        let found = if wanted.iter().any(|podref| asked[*podref]) {
            let found = self.list_pods(namespace, &wanted).await;
            let found = found.map(|found| (begun, found));
            found.map_err(|error| self.unknown(&error))
        } else {
            let names = wanted.iter().map(|podref| podref.name().to_owned());
            let (client, history) = (self.client.clone(), Arc::clone(&self.history));
            let serve = |inbox| async move { roll::serve(inbox, &client, &history).await };
            let roll = self
                .rolls
                .ask(&self.tasks, namespace, names.collect(), serve);
            match roll.await {
                Some(Ok((begun, roll))) => {
                    let presence = |podref: &PodRef| roll.get(podref.name()).cloned();
                    let found = wanted.iter().copied();
                    let found = found.filter_map(|it| Some((it.clone(), presence(it)?)));
                    Ok((begun, found.collect()))
                }
                Some(Err(error)) => Err(self.unknown(&error)),
                None => Err("the list ended early".into()),
            }
        };
        found.unwrap_or_else(|reason| {
            let wanted = wanted.into_iter().cloned();
            let unknown = wanted.map(|podref| (podref, Presence::Unknown(reason.clone())));
            (begun, unknown.collect())
        })
    }

    /// Lists the namespace with the states of its pods as long as that takes fewer requests than
    /// reading one by one. Those about which it says nothing are left out.
    async fn list_pods(
        &self,
        namespace: &str,
        wanted: &[&PodRef],
    ) -> Result<HashMap<PodRef, Presence>, CallError> {
        let mut wanted: BTreeSet<_> = wanted.iter().copied().cloned().collect();
        let mut presence = HashMap::with_capacity(wanted.len());
        let first = ListParams::default().limit(PAGE_OF_STATES);
        let find = |page: ObjectList<LeanPod>, left| {
            for pod in page.items {
                let name = pod.meta().name.as_deref().unwrap_or_default();
                if let Some(podref) = PodRef::new(namespace, name)
                    && wanted.remove(&podref)
                {
                    let state = pod.into_state().map(Arc::new);
                    presence.insert(podref, Presence::Present(state));
                }
            }
            Ok(left <= wanted.len())
        };
        let is_whole = self
            .history
            .pages::<LeanPod, _>(&self.client, Some(namespace), first, Request::list, find)
            .await?;
        if is_whole {
            let absent = wanted.into_iter();
            presence.extend(absent.map(|podref| (podref, Presence::Absent)));
        }
        Ok(presence)
    }

    fn unknown(&self, error: &CallError) -> Box<str> {
        self.gate.failed(Access::Read, "read pods", error);
        error.to_string().into()
    }

    /// Nodes, read from now on: what they are counts only if they still are. Many are listed. With `all` of them those come
    /// too that have another name.
    pub async fn read_nodes(
        &self,
        names: &BTreeSet<Box<str>>,
        all: bool,
    ) -> Result<Vec<(String, Option<NodeState>)>, CallError> {
        let nodes: Api<LeanNode> = Api::all(self.client.clone());
        let nodes = &nodes;
        let mut wanted: BTreeSet<&str> = names.iter().map(|name| &**name).collect();
        let mut read = Vec::with_capacity(names.len());
        if all || wanted.len() > READS_FOR_PAGE {
            let first = ListParams::default().limit(PAGE_OF_STATES);
            let find = |page: ObjectList<LeanNode>, left| {
                let listed = page.items.into_iter().map(LeanNode::into_state);
                for (name, state) in listed {
                    if wanted.remove(&*name) || all {
                        read.push((name, Some(state)));
                    }
                }
                Ok(all || left * READS_FOR_PAGE <= wanted.len())
            };
            let is_whole = self
                .history
                .pages::<LeanNode, _>(&self.client, None, first, Request::list, find)
                .await?;
            if is_whole {
                let absent = std::mem::take(&mut wanted).into_iter();
                read.extend(absent.map(|name| (name.to_owned(), None)));
            }
        }
        let reads: Vec<_> = wanted
            .into_iter()
            .map(|name| async move {
                match call(nodes.get(name)).await {
                    Ok(node) => Ok((name.to_owned(), Some(node.into_state().1))),
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

    async fn pod(&self, podref: &PodRef) -> Presence {
        let pods: Api<LeanPod> = Api::namespaced(self.client.clone(), podref.namespace());
        match call(pods.get(podref.name())).await {
            Ok(pod) => Presence::Present(pod.into_state().map(Arc::new)),
            Err(error) if error.is_absence_of::<LeanPod>(podref.name()) => Presence::Absent,
            Err(error) => Presence::Unknown(self.unknown(&error)),
        }
    }
}

/// The status of a ResourceClaim. What else it has may be deeper than `serde_json` goes.
#[derive(Clone, Deserialize)]
struct ClaimStatus {
    devices: Option<Vec<Device>>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Device {
    network_data: Option<NetworkDeviceData>,
}

/// The addresses that the status of a claim reports.
fn addresses_of(status: Option<&ClaimStatus>) -> impl Iterator<Item = IpAddr> {
    let devices = status.into_iter().flat_map(|it| &it.devices).flatten();
    let data = devices.filter_map(|device| device.network_data.as_ref());
    let texts = data.flat_map(|data| &data.ips).flatten();
    // Each has the length of its prefix, such as `192.0.2.5/24`.
    texts.filter_map(|text| text.split('/').next()?.parse().ok())
}

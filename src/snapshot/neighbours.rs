//! Who else frees addresses in the cluster, and whether pools are where nobody looks.
//!
//! All of it is asked for with the rights of the caller, and none of it is needed: what is refused or fails
//! is not known, and nothing is said of it.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, Deployment},
        batch::v1::CronJob,
    },
    apimachinery::pkg::apis::meta::v1::ListMeta,
};
use kube::{
    Client, Resource,
    api::{ListParams, Request},
};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    api::IpPool,
    calls::{next_page, text},
};

/// Objects to a page.
const PAGE: u32 = 500;
/// The programs of upstream that free addresses, by what stands in a pod template that runs them.
const LOOP: &str = "ip-control-loop";
const RECONCILER: &str = "ip-reconciler";

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: ListMeta,
    items: Option<Vec<Object>>,
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
    #[serde(default)]
    spec: Value,
}

#[derive(Deserialize)]
struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
}

impl Object {
    fn name(&self) -> String {
        let Metadata { name, namespace } = &self.metadata;
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        format!("{}/{}", text(namespace), text(name))
    }

    fn runs(&self, program: &str) -> bool {
        self.spec.to_string().contains(program)
    }
}

/// What is to be told, one sentence each.
pub async fn notes(client: &Client, pool_namespace: Option<&str>) -> Vec<String> {
    let mut notes = Vec::new();
    let all = ListParams::default().limit(PAGE);
    for object in list::<DaemonSet>(client, &all).await.unwrap_or_default() {
        let name = object.name();
        if object.runs(LOOP) {
            notes.push(format!(
                "whereabouts' own loop runs beside ipgc (DaemonSet {name}); that does no harm, and it is needed \
                 no more"
            ));
        }
        if object.runs(RECONCILER) {
            notes.push(beside("DaemonSet", &name));
        }
    }
    let named = |name: &str| all.clone().fields(&format!("metadata.name={name}"));
    let deployments = list::<Deployment>(client, &named("whereabouts-reconciler")).await;
    let running = |object: &Object| object.spec["replicas"] != 0;
    for object in deployments
        .unwrap_or_default()
        .iter()
        .filter(|d| running(d))
    {
        notes.push(beside("Deployment", &object.name()));
    }
    let jobs = list::<CronJob>(client, &named("ip-reconciler")).await;
    let running = |object: &Object| object.spec["suspend"] != true;
    for object in jobs.unwrap_or_default().iter().filter(|job| running(job)) {
        notes.push(beside("CronJob", &object.name()));
    }
    if let Some(only) = pool_namespace {
        let mut elsewhere = BTreeMap::<_, usize>::new();
        let pools = list::<IpPool>(client, &all.clone().limit(PAGE / 10)).await;
        for pool in pools.unwrap_or_default() {
            let namespace = pool.metadata.namespace.unwrap_or_default();
            if namespace != only {
                *elsewhere.entry(namespace).or_default() += 1;
            }
        }
        for (namespace, count) in elsewhere {
            notes.push(format!(
                "{count} pools are in namespace {namespace}, which is not looked at"
            ));
        }
    }
    notes
}

fn beside(kind: &str, name: &str) -> String {
    format!(
        "whereabouts' reconciler runs beside ipgc ({kind} {name}); it frees addresses by rules of its own, \
         those of pods that live among them: scale it to 0 or suspend it"
    )
}

/// All objects of a kind, if they may be read.
async fn list<K: Resource<DynamicType = ()>>(
    client: &Client,
    params: &ListParams,
) -> Option<Vec<Object>> {
    let path = K::url_path(&(), None);
    let mut objects = Vec::new();
    let mut next = Some(params.clone());
    while let Some(params) = next {
        let request = Request::new(path.as_str()).list(&params).ok()?;
        let page = text(client, request).await.ok()?;
        let page: Page = serde_json::from_str(&page).ok()?;
        objects.extend(page.items.unwrap_or_default());
        next = next_page(&params, &page.metadata);
    }
    Some(objects)
}

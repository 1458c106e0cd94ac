//! Who else frees addresses in the cluster, and whether pools are where nobody looks.
//!
//! All of it is asked for with the rights of the caller, and none of it is needed: what is refused or fails
//! is not known, and nothing is said of it.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, Deployment},
        batch::v1::CronJob,
        core::v1::Pod,
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
            notes.push(own_loop("DaemonSet", &name));
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
        let others = format!("metadata.namespace!={only}");
        let pools = list::<IpPool>(client, &all.clone().fields(&others).limit(PAGE / 10)).await;
        for pool in pools.unwrap_or_default() {
            let namespace = pool.metadata.namespace.unwrap_or_default();
            *elsewhere.entry(namespace).or_default() += 1;
        }
        for (namespace, count) in elsewhere {
            notes.push(format!(
                "{count} pools are in namespace {namespace}, which is not looked at"
            ));
        }
    }
    notes
}

/// What is to be told by what a collector may read, one sentence each: it sees no DaemonSets, but their
/// pods, by the label that upstream's manifests and chart give them.
pub async fn pods(client: &Client, pool_namespace: Option<&str>) -> Vec<String> {
    let mut notes = Vec::new();
    // Those of one DaemonSet are alike.
    let few = ListParams::default().limit(10);
    for label in ["whereabouts", "whereabouts-reconciler"] {
        let named = few.clone().labels(&format!("name={label}"));
        let pods = first_page::<Pod>(client, &named).await.unwrap_or_default();
        if let Some(pod) = pods.iter().find(|pod| pod.runs(LOOP)) {
            notes.push(own_loop("pod", &pod.name()));
        }
        if let Some(pod) = pods.iter().find(|pod| pod.runs(RECONCILER)) {
            notes.push(beside("pod", &pod.name()));
        }
    }
    if let Some(only) = pool_namespace {
        let others = few.fields(&format!("metadata.namespace!={only}"));
        let pools = first_page::<IpPool>(client, &others).await;
        if let Some(pool) = pools.unwrap_or_default().first() {
            notes.push(format!(
                "pools in other namespaces than {only} are not looked at: {}",
                pool.name()
            ));
        }
    }
    notes
}

async fn first_page<K: Resource<DynamicType = ()>>(
    client: &Client,
    params: &ListParams,
) -> Option<Vec<Object>> {
    let path = K::url_path(&(), None);
    let request = Request::new(path.as_str()).list(params).ok()?;
    let page = text(client, request).await.ok()?;
    let page: Page = serde_json::from_str(&page).ok()?;
    Some(page.items.unwrap_or_default())
}

/// Up to that version its pods run the reconciler as well, each at the same second.
fn own_loop(kind: &str, name: &str) -> String {
    format!(
        "whereabouts' own loop runs beside ipgc ({kind} {name}); it is needed no more, and up to whereabouts 0.9.3 \
         it is its reconciler, too, which frees addresses of pods that live"
    )
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use testkit::{Match, Server, fixtures};

    use super::*;

    fn upstream(name: &str, label: &str, command: &str) -> Value {
        let mut pod = fixtures::pod("kube-system", name).running().build();
        pod["metadata"]["labels"] = json!({"name": label});
        pod["spec"]["containers"][0]["args"] = json!(["-c", command]);
        pod
    }

    #[tokio::test]
    async fn a_collector_sees_upstreams_programs_by_their_pods() {
        let server = Server::new();
        let client = server.client();
        assert_eq!(pods(&client, None).await, [""; 0]);
        let script = "/token-watcher.sh & /ip-control-loop -log-level debug";
        for n in 0..20 {
            server.put(upstream(&format!("whereabouts-{n}"), "whereabouts", script));
        }
        let reconciler = "whereabouts-reconciler";
        server.put(upstream("one", reconciler, "/ip-reconciler"));
        let notes = pods(&client, None).await;
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].contains("own loop"), "{notes:?}");
        assert!(notes[1].contains("pod kube-system/one"), "{notes:?}");
    }

    #[tokio::test]
    async fn pools_elsewhere_are_told_where_they_may_be_read() {
        let server = Server::new();
        server.put(fixtures::pool("here", "10.0.0.0/24").build());
        let client = server.client();
        assert_eq!(pods(&client, Some("here")).await, [""; 0]);
        server.put(fixtures::pool("there", "10.0.1.0/24").build());
        let notes = pods(&client, Some("here")).await;
        assert!(notes[0].ends_with("there/10.0.1.0-24"), "{notes:?}");
        assert_eq!(pods(&client, None).await, [""; 0]);
        server.on(Match::list("ippools")).deny();
        assert_eq!(pods(&client, Some("here")).await, [""; 0]);
    }
}

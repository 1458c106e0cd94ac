//! Other programs that free addresses in the cluster, and pools in namespaces that are not looked at.
//!
//! The caller's rights are used. If a request fails, a note says that the answer is not known.

use std::collections::{BTreeMap, BTreeSet};

use ipgc_core::patch::Answer;
use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, Deployment},
        batch::v1::CronJob,
        core::v1::Pod,
        events::v1::Event,
    },
    apimachinery::pkg::apis::meta::v1::ListMeta,
};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams, ObjectList, TypeMeta},
};

use crate::{
    api::IpPool,
    calls::{call, next_page},
    report::CLAIMS_FORBIDDEN,
};

/// Objects to a page: there may be thousands of large ones.
const PAGE: u32 = 100;
/// The programs of upstream that free addresses, by what stands in a pod template that runs them.
const LOOP: &str = "ip-control-loop";
const RECONCILER: &str = "ip-reconciler";
/// That of a fork, which has node slices made, too.
const OPERATOR: &str = "whereabouts-operator";
/// A collector of others, by the name of its Deployment and the label of its pods.
const CLEANER: &str = "whereabouts-cleaner";
/// How manifests and charts label the pods of these.
const LABELS: [&str; 3] = [
    "name in (whereabouts,whereabouts-reconciler)",
    "app in (whereabouts,whereabouts-cleaner)",
    "app.kubernetes.io/name in (whereabouts,whereabouts-reconciler,whereabouts-operator)",
];

/// The meaning of a request that failed.
const NOT_KNOWN: &str = "so whether whereabouts' own loop or reconciler runs is not known";

fn name(object: &DynamicObject) -> String {
    let namespace = object.namespace().unwrap_or_default();
    format!("{namespace}/{}", object.name_any())
}

/// The notes about an object: that it runs upstream's loop, a reconciler, or a collector of others.
fn about(kind: &str, object: &DynamicObject) -> [Option<String>; 4] {
    let spec = object.data["spec"].to_string();
    let (object_name, app) = (object.name_any(), object.labels().get("app"));
    let is_reconciler = spec.contains(RECONCILER) || object_name == "whereabouts-reconciler";
    let is_cleaner = object_name == CLEANER || app.is_some_and(|app| app == CLEANER);
    [
        // Up to that version its pods run the reconciler as well, each at the same second.
        (
            spec.contains(LOOP),
            "whereabouts' own loop",
            "it is needed no more, and up to whereabouts 0.9.3 it is its reconciler, too, which frees addresses of pods \
             that live",
        ),
        (
            is_reconciler,
            "whereabouts' reconciler",
            "it frees addresses by rules of its own, those of pods that live among them: scale it to 0 or suspend it",
        ),
        (
            is_cleaner,
            CLEANER,
            "it frees addresses by rules of its own: scale it to 0",
        ),
        (
            spec.contains(OPERATOR),
            OPERATOR,
            "it frees addresses by rules of its own, and makes the slices of nodes: leave it where there are any, else \
             scale it to 0",
        ),
    ]
    .map(|(is_it, program, advice)| {
        is_it.then(|| format!("{program} runs beside ipgc ({kind} {}); {advice}", name(object)))
    })
}

/// The notes for people with all rights, one sentence each.
pub async fn notes(client: &Client, pool_namespace: Option<&str>) -> Vec<String> {
    let mut notes = Vec::new();
    let mut unknown = Vec::new();
    for resource in [
        ApiResource::erase::<DaemonSet>(&()),
        ApiResource::erase::<Deployment>(&()),
        ApiResource::erase::<CronJob>(&()),
    ] {
        let kind = resource.kind.clone();
        let all = ListParams::default().limit(PAGE);
        let read = each(client, resource, all, |object| {
            let spec = &object.data["spec"];
            let is_off = spec["replicas"] == 0 || spec["suspend"] == true;
            if !is_off {
                notes.extend(about(&kind, &object).into_iter().flatten());
            }
        });
        if read.await.is_none() {
            unknown.push(format!("{kind}s"));
        }
    }
    if !unknown.is_empty() {
        notes.push(format!(
            "{} cannot be read, {NOT_KNOWN}",
            unknown.join(", ")
        ));
    }
    if let Some(only) = pool_namespace {
        let mut elsewhere = BTreeMap::<_, usize>::new();
        let params = ListParams::default().limit(PAGE / 2);
        let params = params.fields(&elsewhere_than(only));
        let pools = each(client, ApiResource::erase::<IpPool>(&()), params, |pool| {
            let namespace = pool.metadata.namespace.unwrap_or_default();
            *elsewhere.entry(namespace).or_default() += 1;
        });
        if pools.await.is_none() {
            notes.push(not_seen(only));
        }
        for (namespace, count) in elsewhere {
            notes.push(format!(
                "{count} pools are in namespace {namespace}, which is not looked at"
            ));
        }
    }
    notes
}

/// The notes by what a collector may read, one sentence each: it sees no DaemonSets, but their pods. Those of a
/// `CronJob` have no label that tells.
pub async fn pods(client: &Client, pool_namespace: Option<&str>) -> Vec<String> {
    let mut first = [const { None }; 4];
    let mut is_known = true;
    for label in LABELS {
        // There is one on each node, all alike; what else has the label is few.
        for revision in ["controller-revision-hash", "!controller-revision-hash"] {
            let labelled = ListParams::default().limit(10);
            let labelled = labelled.labels(&format!("{label},{revision}"));
            let labelled = page(client, &ApiResource::erase::<Pod>(&()), &labelled).await;
            is_known &= labelled.is_some();
            for pod in labelled.into_iter().flatten() {
                for (first, note) in first.iter_mut().zip(about("pod", &pod)) {
                    *first = first.take().or(note);
                }
            }
        }
    }
    let mut notes: Vec<_> = first.into_iter().flatten().collect();
    if !is_known {
        notes.push(format!("pods cannot be listed by label, {NOT_KNOWN}"));
    }
    if let Some(only) = pool_namespace {
        let others = ListParams::default().limit(1).fields(&elsewhere_than(only));
        match page(client, &ApiResource::erase::<IpPool>(&()), &others).await {
            None => notes.push(not_seen(only)),
            Some(pools) => notes.extend(pools.items.first().map(|pool| {
                let pool = name(pool);
                format!("pools in other namespaces than {only} are not looked at: {pool}")
            })),
        }
    }
    notes
}

/// The namespaces of which a collector has told lately that the API server refuses to claim their reservations; `None` where
/// events cannot be read.
pub async fn claims_forbidden(client: &Client) -> Option<BTreeSet<String>> {
    let mut namespaces = BTreeSet::new();
    let told = ListParams::default().limit(PAGE);
    let told = told.fields(&format!("reason={CLAIMS_FORBIDDEN}"));
    let read = each(client, ApiResource::erase::<Event>(&()), told, |event| {
        namespaces.extend(event.metadata.namespace);
    });
    read.await.map(|()| namespaces)
}

fn elsewhere_than(namespace: &str) -> String {
    format!("metadata.namespace!={namespace}")
}

fn not_seen(only: &str) -> String {
    format!(
        "pools are looked at in namespace {only} only; whether there are others may not be read"
    )
}

/// A page of a kind; `None` where it is refused or fails.
async fn page(
    client: &Client,
    resource: &ApiResource,
    params: &ListParams,
) -> Option<ObjectList<DynamicObject>> {
    let api = Api::all_with(client.clone(), resource);
    match call(api.list(params)).await {
        // A cluster without the kind has none of it.
        Err(error) if error.answer() == Answer::Gone => Some(ObjectList {
            types: TypeMeta::default(),
            metadata: ListMeta::default(),
            items: Vec::new(),
        }),
        page => page.ok(),
    }
}

/// Shows all objects of a kind; `None` where they cannot all be read.
async fn each(
    client: &Client,
    resource: ApiResource,
    params: ListParams,
    mut show: impl FnMut(DynamicObject),
) -> Option<()> {
    let mut next = Some(params);
    while let Some(params) = next {
        let page = page(client, &resource, &params).await?;
        next = next_page(&params, &page.metadata);
        page.items.into_iter().for_each(&mut show);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};
    use testkit::{Match, Server, fixtures};

    use super::*;

    fn upstream(name: &str, label: (&str, &str), command: &str) -> Value {
        let mut pod = fixtures::pod("kube-system", name).running().build();
        pod["metadata"]["labels"] = json!({label.0: label.1});
        pod["spec"]["containers"][0]["args"] = json!(["-c", command]);
        pod
    }

    #[rstest]
    #[case::manifest(("name", "whereabouts"), "/ip-reconciler")]
    #[case::app(("app", "whereabouts"), "/ip-reconciler")]
    #[case::chart(("app.kubernetes.io/name", "whereabouts"), "/ip-reconciler -log-level=verbose")]
    #[case::operator(("app.kubernetes.io/name", "whereabouts"), "/whereabouts-operator controller")]
    #[tokio::test]
    async fn a_collector_sees_upstreams_programs_by_their_pods(
        #[case] label: (&str, &str),
        #[case] command: &str,
    ) {
        let server = Server::new();
        let client = server.client();
        assert_eq!(pods(&client, None).await, [""; 0]);
        let script = "/token-watcher.sh & /ip-control-loop -log-level debug";
        for n in 0..20 {
            let mut pod = upstream(&format!("whereabouts-{n}"), label, script);
            pod["metadata"]["labels"]["controller-revision-hash"] = json!("5c9");
            server.put(pod);
        }
        let (key, value) = label;
        let other = if key == "name" {
            "whereabouts-reconciler"
        } else {
            value
        };
        server.put(upstream("zz-reconciler", (key, other), command));
        let notes = pods(&client, None).await;
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].contains("own loop"), "{notes:?}");
        assert!(
            notes[1].contains("pod kube-system/zz-reconciler"),
            "{notes:?}"
        );
        server.on(Match::list("pods")).deny();
        let notes = pods(&client, None).await;
        assert_eq!(
            notes,
            [format!("pods cannot be listed by label, {NOT_KNOWN}")]
        );
    }

    #[tokio::test]
    async fn a_cleaner_is_seen_by_its_label() {
        let server = Server::new();
        let name = "whereabouts-cleaner-5d4f";
        server.put(upstream(name, ("app", CLEANER), "/clean"));
        let notes = pods(&server.client(), None).await;
        let told = format!("{CLEANER} runs beside ipgc (pod kube-system/{name})");
        assert!(
            matches!(&notes[..], [note] if note.starts_with(&told)),
            "{notes:?}"
        );
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
        let notes = pods(&client, Some("here")).await;
        assert!(notes[0].contains("in namespace here only"), "{notes:?}");
    }
}

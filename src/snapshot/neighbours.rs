//! Other programs that free addresses in the cluster, and pools in namespaces that are not looked at.
//!
//! The caller's rights are used. If a request fails, a note says that the answer is not known.

use std::collections::{BTreeMap, BTreeSet};

use ipgc_core::patch::Answer;
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment},
    batch::v1::CronJob,
    core::v1::Pod,
    events::v1::Event,
};
use kube::{
    Client, Resource, ResourceExt,
    api::{DynamicObject, ListParams, ObjectList, Request},
};

use crate::{api::IpPool, history::History, report::CLAIMS_FORBIDDEN};

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
    programs::<DaemonSet>(client, &mut notes, &mut unknown).await;
    programs::<Deployment>(client, &mut notes, &mut unknown).await;
    programs::<CronJob>(client, &mut notes, &mut unknown).await;
    if !unknown.is_empty() {
        let kinds = unknown.join(", ");
        notes.push(format!("{kinds} cannot be read, {NOT_KNOWN}"));
    }
    if let Some(only) = pool_namespace {
        let mut elsewhere = BTreeMap::<_, usize>::new();
        let params = ListParams::default().limit(PAGE / 2);
        let params = params.fields(&elsewhere_than(only));
        let read = pages::<IpPool>(client, params, |pools| {
            for pool in pools {
                let namespace = pool.metadata.namespace.unwrap_or_default();
                *elsewhere.entry(namespace).or_default() += 1;
            }
            true
        });
        if !read.await {
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

/// Adds the notes about the objects of a kind, or the kind to those that are unknown.
async fn programs<K: Resource<DynamicType = ()>>(
    client: &Client,
    notes: &mut Vec<String>,
    unknown: &mut Vec<String>,
) {
    let kind = K::kind(&());
    let read = pages::<K>(client, ListParams::default().limit(PAGE), |objects| {
        for object in objects {
            let spec = &object.data["spec"];
            let is_off = spec["replicas"] == 0 || spec["suspend"] == true;
            if !is_off {
                notes.extend(about(&kind, &object).into_iter().flatten());
            }
        }
        true
    });
    if !read.await {
        unknown.push(format!("{kind}s"));
    }
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
            let read = pages::<Pod>(client, labelled, |pods| {
                for pod in pods {
                    for (first, note) in first.iter_mut().zip(about("pod", &pod)) {
                        *first = first.take().or(note);
                    }
                }
                false
            });
            is_known &= read.await;
        }
    }
    let mut notes: Vec<_> = first.into_iter().flatten().collect();
    if !is_known {
        notes.push(format!("pods cannot be listed by label, {NOT_KNOWN}"));
    }
    if let Some(only) = pool_namespace {
        let others = ListParams::default().limit(1).fields(&elsewhere_than(only));
        let read = pages::<IpPool>(client, others, |pools| {
            notes.extend(pools.first().map(|pool| {
                let pool = name(pool);
                format!("pools in other namespaces than {only} are not looked at: {pool}")
            }));
            false
        });
        if !read.await {
            notes.push(not_seen(only));
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
    let read = pages::<Event>(client, told, |events| {
        namespaces.extend(events.into_iter().filter_map(|it| it.metadata.namespace));
        true
    });
    read.await.then_some(namespaces)
}

fn elsewhere_than(namespace: &str) -> String {
    format!("metadata.namespace!={namespace}")
}

fn not_seen(only: &str) -> String {
    format!(
        "pools are looked at in namespace {only} only; whether there are others may not be read"
    )
}

/// Shows the pages of a kind, as long as `show` wants more. Whether they could be read.
async fn pages<K: Resource<DynamicType = ()>>(
    client: &Client,
    first: ListParams,
    mut show: impl FnMut(Vec<DynamicObject>) -> bool,
) -> bool {
    let history = History::default();
    let show = |page: ObjectList<DynamicObject>, _| Ok(show(page.items));
    let read = history.pages::<K, _>(client, None, first, Request::list, show);
    // A cluster without the kind has none of it.
    let failed = read.await.err();
    failed.is_none_or(|error| error.answer() == Answer::Gone)
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

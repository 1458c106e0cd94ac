//! What ipgc reads of pods in protobuf is what it reads of them in JSON.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use e2e::{Cluster, ControlPlane};
use futures::{StreamExt as _, TryStreamExt as _};
use http::header::CONTENT_TYPE;
use ipgc::watch::{LeanPod, protobuf};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
    client::{Body, ClientBuilder},
};
use serde_json::{Value, json};
use tower::service_fn;

/// Pods that have of each field what there can be.
#[expect(clippy::too_many_lines, reason = "a table")]
fn pods() -> Vec<(Value, Value)> {
    let container = |name: &str| json!({"name": name, "image": "registry.example/pause"});
    let pod = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"containers": [container("main")], "automountServiceAccountToken": false},
        })
    };
    let with = |mut pod: Value, pointer: &str, value: Value| {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        pod.pointer_mut(parent).unwrap()[key] = value;
        pod
    };
    let status = |state: Value| json!({"name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state});
    let statuses =
        |phase: &str, state: Value| json!({"phase": phase, "containerStatuses": [status(state)]});

    let owner = |kind: &str, group: &str, controller: Value| {
        json!([
            {"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "1"},
            {"apiVersion": group, "kind": kind, "name": "c", "uid": "2", "controller": controller, "blockOwnerDeletion": true},
        ])
    };
    let network_status = json!([
        {"name": "k8s-pod-network", "ips": ["10.0.0.7"], "default": true},
        {"name": "nets/net-a", "interface": "net1", "ips": ["192.0.2.9", "2001:db8::9"], "mac": "0a:58", "dns": {}},
    ]);
    let annotations = json!({
        "k8s.v1.cni.cncf.io/network-status": network_status.to_string(),
        "k8s.v1.cni.cncf.io/networks": "nets/net-a@net1, net-b",
        "v1.multus-cni.io/default-network": "no\u{fc}ll \u{1f980}\n\"\\",
        "example.com/empty": "",
    });
    vec![
        (pod("bare"), json!({})),
        (
            with(pod("annotated"), "/metadata/annotations", annotations),
            json!({"phase": "Running"}),
        ),
        (
            with(
                pod("unreadable"),
                "/metadata/annotations",
                json!({"k8s.v1.cni.cncf.io/network-status": "[{"}),
            ),
            json!({"phase": "Unknown"}),
        ),
        (
            with(
                pod("owned"),
                "/metadata/ownerReferences",
                owner("ReplicaSet", "apps/v1", json!(true)),
            ),
            statuses(
                "Pending",
                json!({"waiting": {"reason": "ContainerCreating"}}),
            ),
        ),
        (
            with(
                pod("related"),
                "/metadata/ownerReferences",
                owner("ReplicaSet", "apps/v1", json!(null)),
            ),
            statuses(
                "Running",
                json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}}),
            ),
        ),
        (
            with(pod("scheduled"), "/spec/nodeName", json!("node-7")),
            statuses(
                "Failed",
                json!({"terminated": {"exitCode": 137, "startedAt": "1970-01-01T00:00:00Z", "finishedAt": null}}),
            ),
        ),
        (
            with(pod("hosted"), "/spec/hostNetwork", json!(true)),
            statuses(
                "Succeeded",
                json!({"terminated": {"exitCode": 0, "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:01Z"}}),
            ),
        ),
        (
            with(
                pod("patient"),
                "/spec/terminationGracePeriodSeconds",
                json!(600),
            ),
            statuses(
                "Failed",
                json!({"terminated": {"exitCode": 1, "startedAt": null, "reason": "ContainerStatusUnknown"}}),
            ),
        ),
        (
            with(
                pod("hasty"),
                "/spec/terminationGracePeriodSeconds",
                json!(0),
            ),
            json!({"phase": "Running", "conditions": [
                {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"},
                {"type": "PodReadyToStartContainers", "status": "True", "lastTransitionTime": null},
            ]}),
        ),
        (
            with(
                pod("initialized"),
                "/spec/initContainers",
                json!([container("init")]),
            ),
            json!({
                "phase": "Running",
                "conditions": [{"type": "PodReadyToStartContainers", "status": "False"}],
                "initContainerStatuses": [{"name": "init", "image": "", "imageID": "", "ready": true, "restartCount": 1, "state": {"terminated": {"exitCode": 0, "startedAt": "2026-01-01T00:00:00Z"}}}],
                "ephemeralContainerStatuses": [{"name": "debug", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": {"running": {"startedAt": null}}}],
            }),
        ),
        (
            with(
                pod("held"),
                "/metadata/finalizers",
                json!(["example.com/held"]),
            ),
            json!({"phase": "Running"}),
        ),
    ]
}

/// A client that speaks protobuf, and the forms of what it was answered.
fn in_protobuf(client: Client) -> (Client, Arc<Mutex<Vec<String>>>) {
    let forms = Arc::new(Mutex::new(Vec::new()));
    let namespace = client.default_namespace().to_owned();
    let seen = Arc::clone(&forms);
    let send = service_fn(move |request: http::Request<Body>| {
        let (client, seen) = (client.clone(), Arc::clone(&seen));
        async move {
            let response = client.send(request).await?;
            let form = response.headers().get(CONTENT_TYPE);
            let form = form.map(|form| form.to_str().unwrap().to_owned());
            seen.lock().unwrap().extend(form);
            Ok::<_, kube::Error>(response)
        }
    });
    let client = ClientBuilder::new(send, namespace).build();
    (protobuf::speak(client), forms)
}

/// The events up to the deletion of this pod, without bookmarks.
async fn events_until_gone(api: &Api<LeanPod>, from: &str, last: &str) -> Vec<String> {
    let params = WatchParams::default().timeout(60);
    let mut events = api.watch(&params, from).await.unwrap().boxed();
    let mut told = Vec::new();
    while let Some(event) = events.try_next().await.unwrap() {
        let (kind, pod) = match event {
            WatchEvent::Added(pod) => ("added", pod),
            WatchEvent::Modified(pod) => ("modified", pod),
            WatchEvent::Deleted(pod) => ("deleted", pod),
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(status) => panic!("{status:?}"),
        };
        let is_last = kind == "deleted" && pod.name_any() == last;
        let version = pod.resource_version();
        told.push(format!("{kind} {version:?} {:?}", pod.into_state()));
        if is_last {
            return told;
        }
    }
    panic!("the watch ended early: {told:#?}");
}

/// The codes, reasons and texts with which a list and a watch end.
async fn refusals(api: &Api<LeanPod>) -> [(u16, String, String); 2] {
    let params = ListParams::default().continue_token("none");
    let list = match api.list(&params).await.unwrap_err() {
        kube::Error::Api(status) => status,
        error => panic!("{error}"),
    };
    let params = WatchParams::default().timeout(10);
    let watch = api.watch(&params, "1").await.unwrap();
    let watch = match watch.boxed().try_next().await.unwrap() {
        Some(WatchEvent::Error(status)) => status,
        other => panic!("{other:?}"),
    };
    [list, watch].map(|status| (status.code, status.reason, status.message))
}

#[tokio::test]
async fn pods_in_protobuf_are_those_in_json() -> e2e::Result<()> {
    let cluster = Cluster::get().await?;
    let namespace = cluster.namespace("protobuf").await?;
    let (client, forms) = in_protobuf(cluster.client_named("protobuf").await?);
    let plain: Api<LeanPod> = namespace.api();
    let packed: Api<LeanPod> = Api::namespaced(client, &namespace.name);

    let writer: Api<Pod> = namespace.api();
    let empty = plain.list(&ListParams::default()).await.unwrap();
    let from = empty.metadata.resource_version.unwrap();
    for (pod, status) in pods() {
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let name = pod.name_any();
        writer.create(&PostParams::default(), &pod).await.unwrap();
        let status = Patch::Merge(json!({"status": status}));
        let params = PatchParams::default();
        writer.patch_status(&name, &params, &status).await.unwrap();
    }
    let held = writer.delete("held", &DeleteParams::default()).await;
    assert!(
        held.unwrap()
            .left()
            .unwrap()
            .metadata
            .deletion_timestamp
            .is_some()
    );

    // By pages, as the informer does.
    let mut params = ListParams::default().limit(4);
    let mut count = 0;
    loop {
        let (json, protobuf) = (plain.list(&params).await, packed.list(&params).await);
        let (json, protobuf) = (json.unwrap(), protobuf.unwrap());
        assert_eq!(
            json.metadata.resource_version,
            protobuf.metadata.resource_version
        );
        assert_eq!(
            json.metadata.remaining_item_count,
            protobuf.metadata.remaining_item_count
        );
        assert_eq!(json.items.len(), protobuf.items.len());
        for (json, protobuf) in json.items.into_iter().zip(protobuf.items) {
            count += 1;
            assert_eq!(json.resource_version(), protobuf.resource_version());
            let json = json.into_state();
            assert!(json.is_some());
            assert_eq!(json, protobuf.into_state());
        }
        let next = protobuf.metadata.continue_.filter(|next| !next.is_empty());
        let Some(next) = next else { break };
        params = params.continue_token(&next);
    }
    assert_eq!(count, pods().len());

    // A watch of all that happened and of what happens from now on.
    let removal = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let at_once = DeleteParams::default().grace_period(0);
        for (pod, _) in pods() {
            let name = pod["metadata"]["name"].as_str().unwrap();
            if name == "held" {
                let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
                writer
                    .patch(name, &PatchParams::default(), &free)
                    .await
                    .unwrap();
            } else {
                writer.delete(name, &at_once).await.unwrap();
            }
        }
    };
    let (json, protobuf, ()) = tokio::join!(
        events_until_gone(&plain, &from, "held"),
        events_until_gone(&packed, &from, "held"),
        removal,
    );
    assert!(json.len() >= 2 * pods().len());
    assert_eq!(json, protobuf);

    // Refusals: of a list, and of a watch from a version that is too old for a server that has just
    // started.
    if !cluster.is_foreign() {
        let plane = ControlPlane::shared().await?;
        plane.restart_api_server().await?;
    }
    let (json, protobuf) = tokio::join!(refusals(&plain), refusals(&packed));
    assert_eq!(json[1].0, 410);
    assert_eq!(json, protobuf);

    let forms = forms.lock().unwrap();
    let is_protobuf = |form: &String| form.starts_with("application/vnd.kubernetes.protobuf");
    assert!(forms.iter().all(is_protobuf), "{forms:?}");
    assert!(
        forms.iter().any(|form| form.ends_with("stream=watch")),
        "{forms:?}"
    );
    Ok(())
}

//! What deletions answer and leave behind.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use rstest::rstest;
use serde_json::{Value, json};
use support::{POOL, pool_server, pools, refused};
use testkit::{ChangeKind, Server, Verb, fixtures};

fn preconditions(uid: Option<&str>, version: Option<String>) -> DeleteParams {
    DeleteParams {
        preconditions: Some(Preconditions {
            uid: uid.map(str::to_owned),
            resource_version: version,
        }),
        ..DeleteParams::default()
    }
}

fn kinds(server: &Server) -> Vec<(ChangeKind, Option<i64>)> {
    server
        .history("pods")
        .iter()
        .skip(1)
        .map(|write| {
            let pod = write.object();
            (
                write.kind(),
                pod["metadata"]["deletionGracePeriodSeconds"].as_i64(),
            )
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn deletion_checks_its_preconditions() {
    let server = pool_server();
    let api = pools(server.client());
    let pool = api.get(POOL).await.unwrap();
    let wrong = preconditions(Some("other"), None);
    assert_eq!(refused(api.delete(POOL, &wrong).await.unwrap_err()).0, 409);
    let stale = preconditions(None, Some("1".into()));
    let (code, status) = refused(api.delete(POOL, &stale).await.unwrap_err());
    assert_eq!((code, &status["reason"]), (409, &json!("Conflict")));
    let right = preconditions(pool.metadata.uid.as_deref(), pool.metadata.resource_version);
    let answer = api.delete(POOL, &right).await.unwrap();
    assert!(answer.right().unwrap().is_success());
    assert_eq!(refused(api.delete(POOL, &right).await.unwrap_err()).0, 404);
}

#[tokio::test(start_paused = true)]
async fn a_scheduled_pod_is_deleted_in_two_steps() {
    let server = Server::new();
    server.put(fixtures::pod("shop", "a").node("n1").running().build());
    let pods: Api<Pod> = Api::namespaced(server.client(), "shop");
    let pod = pods
        .delete("a", &DeleteParams::default())
        .await
        .unwrap()
        .left()
        .unwrap();
    let end = pod.metadata.deletion_timestamp.unwrap().0.to_string();
    assert_eq!(end, "2026-01-01T00:00:30Z");
    assert_eq!(server.count("pods"), 1);
    // The same again changes nothing.
    pods.delete("a", &DeleteParams::default()).await.unwrap();
    pods.delete("a", &DeleteParams::default().grace_period(0))
        .await
        .unwrap();
    assert_eq!(server.count("pods"), 0);
    assert_eq!(
        kinds(&server),
        [
            (ChangeKind::Modified, Some(30)),
            (ChangeKind::Modified, Some(0)),
            (ChangeKind::Deleted, Some(0)),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_shorter_grace_counts_from_the_first_deletion() {
    let server = Server::new();
    server.put(fixtures::pod("shop", "a").node("n1").running().build());
    let pods: Api<Pod> = Api::namespaced(server.client(), "shop");
    pods.delete("a", &DeleteParams::default()).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    let shorter = DeleteParams::default().grace_period(10);
    let pod = pods.delete("a", &shorter).await.unwrap().left().unwrap();
    let end = pod.metadata.deletion_timestamp.unwrap().0.to_string();
    assert_eq!(end, "2026-01-01T00:00:10Z");
    let longer = DeleteParams::default().grace_period(20);
    let pod = pods.delete("a", &longer).await.unwrap().left().unwrap();
    assert_eq!(pod.metadata.deletion_grace_period_seconds, Some(10));
}

#[rstest]
#[case::unscheduled(fixtures::pod("shop", "a").build())]
#[case::terminal(fixtures::pod("shop", "a").node("n1").ended("Succeeded").build())]
#[tokio::test(start_paused = true)]
async fn a_pod_that_no_kubelet_runs_goes_at_once(#[case] pod: Value) {
    let server = Server::new();
    server.put(pod);
    let pods: Api<Pod> = Api::namespaced(server.client(), "shop");
    pods.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(
        kinds(&server),
        [
            (ChangeKind::Modified, Some(0)),
            (ChangeKind::Deleted, Some(0))
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_holds_an_object_until_it_is_removed() {
    let server = Server::new();
    server.put(
        fixtures::pod("shop", "a")
            .node("n1")
            .ended("Succeeded")
            .finalizer("example.com/x")
            .build(),
    );
    let pods: Api<Pod> = Api::namespaced(server.client(), "shop");
    pods.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(server.count("pods"), 1);
    let patch = json!({ "metadata": { "finalizers": null } });
    pods.patch("a", &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
    assert_eq!(server.count("pods"), 0);
}

#[tokio::test(start_paused = true)]
async fn collections_can_be_deleted_by_selector() {
    let server = Server::new();
    server.put(fixtures::pod("shop", "a").label("app", "x").build());
    server.put(fixtures::pod("shop", "b").build());
    let pods: Api<Pod> = Api::namespaced(server.client(), "shop");
    let params = kube::api::ListParams::default().labels("app=x");
    pods.delete_collection(&DeleteParams::default(), &params)
        .await
        .unwrap();
    assert_eq!(server.count("pods"), 1);
    assert_eq!(
        server.requests().last().unwrap().verb,
        Verb::DeleteCollection
    );
}

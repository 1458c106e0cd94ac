//! What patches answer and leave behind.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use rstest::rstest;
use serde_json::{Value, json};
use support::{POOL, pool_server, pools, refused};
use testkit::{Server, fixtures};

async fn json_patch(server: &Server, operations: Value) -> Result<DynamicObject, (u16, Value)> {
    let patch: json_patch::Patch = serde_json::from_value(operations).unwrap();
    pools(server.client())
        .patch(POOL, &PatchParams::default(), &Patch::Json::<()>(patch))
        .await
        .map_err(refused)
}

fn remove_row(offset: u64) -> Value {
    let row = fixtures::row(
        &fixtures::sandbox(offset),
        ["", "shop/a", "shop/b"][offset.min(2) as usize],
        "net1",
    );
    json!([
        { "op": "test", "path": format!("/spec/allocations/{offset}"), "value": row },
        { "op": "remove", "path": format!("/spec/allocations/{offset}") },
    ])
}

#[tokio::test(start_paused = true)]
async fn compare_and_remove_works_once() {
    let server = pool_server();
    let before = server.revision();
    let pool = json_patch(&server, remove_row(1)).await.unwrap();
    assert_eq!(
        pool.data["spec"]["allocations"].as_object().unwrap().len(),
        1
    );
    assert_eq!(
        pool.metadata.resource_version.unwrap(),
        (before + 1).to_string()
    );
    assert_eq!(pool.metadata.generation, Some(1));
    let (code, status) = json_patch(&server, remove_row(1)).await.unwrap_err();
    assert_eq!((code, &status["reason"]), (422, &json!("Invalid")));
    assert!(status["details"].get("causes").is_none(), "{status}");
    assert_eq!(
        status["message"],
        "the server rejected our request due to an error in our request"
    );
}

#[tokio::test(start_paused = true)]
async fn the_last_row_leaves_an_empty_map() {
    let server = pool_server();
    json_patch(&server, remove_row(1)).await.unwrap();
    let pool = json_patch(&server, remove_row(2)).await.unwrap();
    assert_eq!(pool.data["spec"]["allocations"], json!({}));
}

#[rstest]
#[case::test_of_missing_key(json!([{ "op": "test", "path": "/spec/allocations/9", "value": {} }]), 422)]
#[case::remove_of_missing_key(json!([{ "op": "remove", "path": "/spec/allocations/9" }]), 422)]
#[case::wrong_uid(json!([{ "op": "test", "path": "/metadata/uid", "value": "x" }]), 422)]
#[case::absence_as_upstream_tests_it(json!([{ "op": "test", "path": "/spec/allocations/9", "value": null }]), 200)]
#[case::partial_row(json!([{ "op": "test", "path": "/spec/allocations/1", "value": { "podref": "shop/a" } }]), 422)]
#[case::missing_parent(json!([{ "op": "add", "path": "/spec/nope/1", "value": {} }]), 422)]
#[case::stale_version(json!([{ "op": "test", "path": "/metadata/resourceVersion", "value": "1" }]), 422)]
#[case::uid_is_immutable(json!([{ "op": "replace", "path": "/metadata/uid", "value": "x" }]), 422)]
#[tokio::test(start_paused = true)]
async fn json_patch_answers(#[case] operations: Value, #[case] code: u16) {
    let server = pool_server();
    let before = server.revision();
    let answer = json_patch(&server, operations).await;
    assert_eq!(answer.map_or_else(|(code, _)| code, |_| 200), code);
    assert_eq!(server.revision(), before, "nothing was written");
}

#[tokio::test(start_paused = true)]
async fn too_many_operations_or_bytes_are_413() {
    let server = pool_server();
    let many: Vec<Value> = (0..10_001)
        .map(|_| json!({ "op": "test", "path": "/metadata/name", "value": POOL }))
        .collect();
    assert_eq!(
        json_patch(&server, json!(many[..10_000])).await.map(|_| ()),
        Ok(())
    );
    assert_eq!(json_patch(&server, json!(many)).await.unwrap_err().0, 413);
    let big = "x".repeat(3 * 1024 * 1024);
    let operations =
        json!([{ "op": "add", "path": "/metadata/annotations", "value": { "a": big } }]);
    assert_eq!(json_patch(&server, operations).await.unwrap_err().0, 413);
}

#[tokio::test(start_paused = true)]
async fn patching_a_missing_object_is_404() {
    let server = Server::new();
    assert_eq!(json_patch(&server, remove_row(1)).await.unwrap_err().0, 404);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_changes_nothing_is_no_write() {
    let server = pool_server();
    let before = server.revision();
    let patch = json!({ "spec": { "range": "10.0.0.0/24" } });
    pools(server.client())
        .patch(POOL, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
    assert_eq!(server.revision(), before);
}

#[tokio::test(start_paused = true)]
async fn merge_patch_sets_removes_and_compares_versions() {
    let server = pool_server();
    let api = pools(server.client());
    let merge = async |patch: Value| {
        api.patch(POOL, &PatchParams::default(), &Patch::Merge(patch))
            .await
    };
    let pool = merge(json!({ "metadata": { "annotations": { "a": "b" } } }))
        .await
        .unwrap();
    assert_eq!(pool.metadata.annotations.unwrap()["a"], "b");
    let pool = merge(json!({ "spec": { "allocations": { "1": null } } }))
        .await
        .unwrap();
    assert_eq!(
        pool.data["spec"]["allocations"].as_object().unwrap().len(),
        1
    );
    let stale = merge(json!({ "metadata": { "resourceVersion": "1" } }))
        .await
        .unwrap_err();
    assert_eq!(refused(stale).0, 409);
    let apply = api
        .patch(POOL, &PatchParams::apply("x"), &Patch::Apply(json!({})))
        .await
        .unwrap_err();
    assert_eq!(refused(apply).0, 415);
}

#[tokio::test(start_paused = true)]
async fn each_side_of_a_pod_is_written_through_its_own_path() {
    let server = Server::new();
    server.put(fixtures::pod("shop", "a").node("n1").build());
    let pods: Api<Pod> = Api::namespaced(server.client(), "shop");
    let patch = json!({
        "metadata": { "annotations": { "a": "b" } },
        "spec": { "activeDeadlineSeconds": 5 },
        "status": { "phase": "Running" },
    });
    let params = PatchParams::default();
    let pod = pods
        .patch_status("a", &params, &Patch::Merge(&patch))
        .await
        .unwrap();
    assert_eq!(pod.status.unwrap().phase.as_deref(), Some("Running"));
    assert_eq!(pod.spec.unwrap().active_deadline_seconds, None);
    assert_eq!(pod.metadata.annotations.unwrap()["a"], "b");
    let patch = json!({ "spec": { "activeDeadlineSeconds": 5 }, "status": { "phase": "Failed" } });
    let pod = pods
        .patch("a", &params, &Patch::Merge(&patch))
        .await
        .unwrap();
    assert_eq!(pod.status.unwrap().phase.as_deref(), Some("Running"));
    assert_eq!(pod.spec.unwrap().active_deadline_seconds, Some(5));
}

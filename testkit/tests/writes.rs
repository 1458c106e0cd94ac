//! What creations and replacements answer and leave behind.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, PostParams};
use rstest::rstest;
use serde_json::{Value, json};
use support::{POOL, custom, object, pools, refused};
use testkit::{Server, fixtures};

#[rstest]
#[case::row_without_podref("IPPool", "ippools", json!({ "range": "10.0.0.0/24", "allocations": { "1": { "id": "a" } } }), "spec.allocations.1.podref")]
#[case::no_allocations("IPPool", "ippools", json!({ "range": "10.0.0.0/24" }), "spec.allocations")]
#[case::range_of_wrong_type("IPPool", "ippools", json!({ "range": 7, "allocations": {} }), "spec.range")]
#[case::reservation("OverlappingRangeIPReservation", "overlappingrangeipreservations", json!({}), "spec.podref")]
#[case::node_slice("NodeSlicePool", "nodeslicepools", json!({ "range": "10.0.0.0/8" }), "spec.sliceSize")]
#[tokio::test(start_paused = true)]
async fn a_schema_violation_names_its_causes(
    #[case] kind: &str,
    #[case] plural: &str,
    #[case] spec: Value,
    #[case] field: &str,
) {
    let server = Server::new();
    let api: Api<DynamicObject> =
        Api::namespaced_with(server.client(), "kube-system", &custom(kind, plural));
    let value = json!({
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
        "kind": kind,
        "metadata": { "name": "x" },
        "spec": spec,
    });
    let error = api
        .create(&PostParams::default(), &object(value))
        .await
        .unwrap_err();
    let (code, status) = refused(error);
    assert_eq!(code, 422);
    assert_eq!(status["details"]["causes"][0]["field"], field, "{status}");
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_are_pruned_unless_told_otherwise() {
    let tagged = fixtures::pool("kube-system", "10.0.0.0/24")
        .raw_row("1", json!({ "id": "a", "podref": "shop/a", "claim": "c" }))
        .build();
    for (prune, kept) in [(true, false), (false, true)] {
        let server = Server::builder()
            .adjust("ippools", |resource| resource.prune = prune)
            .build();
        let pool = pools(server.client())
            .create(&PostParams::default(), &object(tagged.clone()))
            .await
            .unwrap();
        let row = &pool.data["spec"]["allocations"]["1"];
        assert_eq!(row.get("claim").is_some(), kept);
    }
}

#[tokio::test(start_paused = true)]
async fn the_test_itself_may_store_anything() {
    let server = Server::new();
    let odd = fixtures::pool("kube-system", "10.0.0.0/24")
        .raw_row("x", json!({ "claim": 7 }))
        .build();
    server.put(odd);
    let pool = server.get("ippools", "kube-system", POOL).unwrap();
    assert_eq!(pool["spec"]["allocations"]["x"]["claim"], 7);
}

#[tokio::test(start_paused = true)]
async fn creation_fills_the_system_fields() {
    let server = Server::new();
    let pods: Api<Pod> = Api::namespaced(server.client(), "shop");
    let pod =
        serde_json::from_value(fixtures::pod("shop", "a").node("n1").running().build()).unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    let made = pods.create(&PostParams::default(), &pod).await.unwrap();
    assert_eq!(
        made.metadata.uid.as_deref(),
        Some("00000000-0000-4000-8000-000000000001")
    );
    let time = made.metadata.creation_timestamp.unwrap().0.to_string();
    assert_eq!(time, "2026-01-01T00:00:05Z");
    assert_eq!(
        made.status.unwrap().phase.as_deref(),
        Some("Pending"),
        "status is not the client's"
    );
    let again = pods.create(&PostParams::default(), &pod).await.unwrap_err();
    let (code, status) = refused(again);
    assert_eq!((code, &status["reason"]), (409, &json!("AlreadyExists")));
}

#[tokio::test(start_paused = true)]
async fn generated_names_differ() {
    let server = Server::new();
    let pods: Api<Pod> = Api::namespaced(server.client(), "shop");
    let mut value = fixtures::pod("shop", "x").build();
    value["metadata"] = json!({ "generateName": "web-" });
    let pod: Pod = serde_json::from_value(value).unwrap();
    let one = pods.create(&PostParams::default(), &pod).await.unwrap();
    let two = pods.create(&PostParams::default(), &pod).await.unwrap();
    assert_ne!(one.metadata.name, two.metadata.name);
    assert_eq!(one.metadata.name.unwrap().len(), "web-".len() + 5);
}

#[rstest]
#[case("--1")]
#[case("Upper")]
#[case("a_b")]
#[tokio::test(start_paused = true)]
async fn names_are_dns_subdomains(#[case] name: &str) {
    let server = Server::new();
    let pod = serde_json::from_value(fixtures::pod("shop", name).build()).unwrap();
    let pods: Api<Pod> = Api::namespaced(server.client(), "shop");
    let error = pods.create(&PostParams::default(), &pod).await.unwrap_err();
    assert_eq!(refused(error).0, 422);
}

#[tokio::test(start_paused = true)]
async fn namespaces_missing_and_terminating() {
    let server = Server::builder().require_namespaces().build();
    let pods: Api<Pod> = Api::namespaced(server.client(), "shop");
    let pod: Pod = serde_json::from_value(fixtures::pod("shop", "a").build()).unwrap();
    let (code, status) = refused(pods.create(&PostParams::default(), &pod).await.unwrap_err());
    assert_eq!(
        (code, &status["message"]),
        (404, &json!("namespaces \"shop\" not found"))
    );
    server.put(fixtures::namespace("shop"));
    pods.create(&PostParams::default(), &pod).await.unwrap();
    let namespaces: Api<Namespace> = Api::all(server.client());
    namespaces
        .delete("shop", &DeleteParams::default())
        .await
        .unwrap();
    let other: Pod = serde_json::from_value(fixtures::pod("shop", "b").build()).unwrap();
    let (code, status) = refused(
        pods.create(&PostParams::default(), &other)
            .await
            .unwrap_err(),
    );
    assert_eq!(code, 403);
    assert_eq!(
        status["details"]["causes"][0]["reason"],
        "NamespaceTerminating"
    );
}

#[tokio::test(start_paused = true)]
async fn replace_compares_versions() {
    let server = Server::new();
    let leases: Api<Lease> = Api::namespaced(server.client(), "ipgc-system");
    let lease: Lease = serde_json::from_value(fixtures::lease(
        "ipgc-system",
        "ipgc",
        "a",
        "2026-01-01T00:00:00.000000Z",
    ))
    .unwrap();
    let one = leases.create(&PostParams::default(), &lease).await.unwrap();
    let mut two = one.clone();
    two.spec.as_mut().unwrap().holder_identity = Some("b".into());
    let two = leases
        .replace("ipgc", &PostParams::default(), &two)
        .await
        .unwrap();
    assert_eq!(two.spec.unwrap().holder_identity.as_deref(), Some("b"));
    let (code, status) = refused(
        leases
            .replace("ipgc", &PostParams::default(), &one)
            .await
            .unwrap_err(),
    );
    assert_eq!((code, &status["reason"]), (409, &json!("Conflict")));
    // A Lease never takes an update without a version.
    let (code, _) = refused(
        leases
            .replace("ipgc", &PostParams::default(), &lease)
            .await
            .unwrap_err(),
    );
    assert_eq!(code, 422);
}

#[tokio::test(start_paused = true)]
async fn pods_can_be_replaced_unconditionally() {
    let server = Server::new();
    server.put(fixtures::pod("shop", "a").build());
    let pods: Api<Pod> = Api::namespaced(server.client(), "shop");
    let pod: Pod =
        serde_json::from_value(fixtures::pod("shop", "a").label("x", "y").build()).unwrap();
    let pod = pods
        .replace("a", &PostParams::default(), &pod)
        .await
        .unwrap();
    assert_eq!(pod.metadata.labels.unwrap()["x"], "y");
}

#[tokio::test(start_paused = true)]
async fn dry_runs_write_nothing() {
    let server = Server::new();
    let pods: Api<Pod> = Api::namespaced(server.client(), "shop");
    let pod: Pod = serde_json::from_value(fixtures::pod("shop", "a").build()).unwrap();
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    pods.create(&params, &pod).await.unwrap();
    assert_eq!(server.count("pods"), 0);
}

#[tokio::test(start_paused = true)]
async fn events_have_one_storage_and_two_faces() {
    use k8s_openapi::api::core::v1::Event as CoreEvent;
    use k8s_openapi::api::events::v1::Event;
    let server = Server::new();
    let events: Api<Event> = Api::namespaced(server.client(), "shop");
    let mut value = json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": { "generateName": "a-" },
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "type": "Normal",
        "reason": "IPAddressGarbageCollected",
        "action": "Free",
        "note": "freed",
        "reportingController": "ipgc.dev/ipgc",
        "reportingInstance": "ipgc-0",
        "regarding": { "kind": "Pod", "namespace": "shop", "name": "a" },
    });
    let event: Event = serde_json::from_value(value.clone()).unwrap();
    let made = events.create(&PostParams::default(), &event).await.unwrap();
    let old_face: Api<CoreEvent> = Api::namespaced(server.client(), "shop");
    let seen = old_face
        .get(made.metadata.name.as_deref().unwrap())
        .await
        .unwrap();
    assert_eq!(seen.message.as_deref(), Some("freed"));
    assert_eq!(seen.involved_object.name.as_deref(), Some("a"));
    let params = kube::api::ListParams::default().fields("involvedObject.name=a");
    assert_eq!(old_face.list(&params).await.unwrap().items.len(), 1);
    assert_eq!(
        events
            .list(&kube::api::ListParams::default())
            .await
            .unwrap()
            .items[0]
            .note
            .as_deref(),
        Some("freed")
    );

    value["action"] = json!("");
    value["type"] = json!("Odd");
    let event: Event = serde_json::from_value(value).unwrap();
    let (code, status) = refused(
        events
            .create(&PostParams::default(), &event)
            .await
            .unwrap_err(),
    );
    assert_eq!(code, 422);
    assert_eq!(
        status["details"]["causes"].as_array().unwrap().len(),
        2,
        "{status}"
    );
}

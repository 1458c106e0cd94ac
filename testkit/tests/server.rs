//! Behaviour that the conformance suite leaves out, since no real server has it: time that stands still, revisions
//! that are forgotten at once, options, the test's own hand on the state.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client, Error};
use rstest::rstest;
use serde_json::{Value, json};
use testkit::{Server, fixtures};

fn server_with_pods(count: usize) -> Server {
    let server = Server::new();
    for index in 0..count {
        let pod = fixtures::pod("shop", &format!("cart-{index}"));
        server.put(pod.node("n1").running());
    }
    server
}

fn pods(client: Client) -> Api<Pod> {
    Api::namespaced(client, "shop")
}

fn typed(pod: fixtures::PodBuilder) -> Pod {
    serde_json::from_value(pod.build()).unwrap()
}

fn refused<T: std::fmt::Debug>(answer: Result<T, Error>) -> (u16, Value) {
    match answer {
        Err(Error::Api(status)) => (status.code, serde_json::to_value(&*status).unwrap()),
        other => panic!("no refusal: {other:?}"),
    }
}

#[rstest]
#[case::compacted(true)]
#[case::retention_is_over(false)]
#[tokio::test(start_paused = true)]
async fn an_expired_continue_token_is_gone(#[case] compact: bool) {
    let server = server_with_pods(3);
    let pods = pods(server.client());
    let first = pods.list(&ListParams::default().limit(2)).await.unwrap();
    let token = first.metadata.continue_.unwrap();
    let again = ListParams::default().limit(2).continue_token(&token);
    tokio::time::sleep(Duration::from_secs(61)).await;
    server.put(fixtures::pod("shop", "new"));
    assert!(pods.list(&again).await.is_ok());
    if compact {
        server.compact();
    } else {
        tokio::time::sleep(Duration::from_secs(1201)).await;
        server.put(fixtures::pod("shop", "newer"));
    }
    assert_eq!(refused(pods.list(&again).await).0, 410);
}

#[tokio::test(start_paused = true)]
async fn version_discovery_and_cluster_scoped_objects() {
    let server = Server::builder().version("v1.30.2").build();
    server.put(fixtures::node("n1", true));
    let client = server.client();
    assert_eq!(client.apiserver_version().await.unwrap().minor, "30");
    let core = client.list_core_api_resources("v1").await.unwrap();
    assert!(
        core.resources
            .iter()
            .any(|resource| resource.name == "pods")
    );
    let reviews = client
        .list_api_group_resources("authorization.k8s.io/v1")
        .await;
    assert_eq!(reviews.unwrap().resources.len(), 1);
    let node = http::Request::get("/api/v1/nodes/n1").body(vec![]).unwrap();
    let node: Value = client.request(node).await.unwrap();
    assert_eq!(node["kind"], "Node");
}

#[tokio::test(start_paused = true)]
async fn a_shorter_grace_counts_from_the_first_deletion() {
    let server = server_with_pods(1);
    let pods = pods(server.client());
    for (grace, end, left) in [
        (None, "2026-01-01T00:00:30Z", 30),
        (Some(10), "2026-01-01T00:00:10Z", 10),
        // A longer one changes nothing.
        (Some(20), "2026-01-01T00:00:10Z", 10),
    ] {
        let params = DeleteParams {
            grace_period_seconds: grace,
            ..DeleteParams::default()
        };
        let pod = pods.delete("cart-0", &params).await.unwrap().left();
        let metadata = pod.unwrap().metadata;
        assert_eq!(metadata.deletion_timestamp.unwrap().0.to_string(), end);
        assert_eq!(metadata.deletion_grace_period_seconds, Some(left));
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn pruning_can_be_switched_off_and_the_test_itself_may_store_anything() {
    let path = "/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/kube-system/ippools";
    for prune in [true, false] {
        let builder = Server::builder().adjust("ippools", |resource| resource.prune = prune);
        let server = builder.build();
        let row = json!({ "id": "a", "podref": "shop/a", "claim": "c" });
        let pool = fixtures::pool("kube-system", "10.0.0.0/24").raw_row("1", row);
        let request = http::Request::post(path).body(pool.build().to_string().into_bytes());
        let pool: Value = server.client().request(request.unwrap()).await.unwrap();
        let claim = pool["spec"]["allocations"]["1"].get("claim");
        assert_eq!(claim.is_none(), prune);
        let odd = fixtures::pool("kube-system", "10.1.0.0/24").raw_row("x", json!({ "claim": 7 }));
        server.put(odd);
        let odd = server.get("ippools", "kube-system", "10.1.0.0-24").unwrap();
        assert_eq!(odd["spec"]["allocations"]["x"]["claim"], 7);
    }
}

#[tokio::test(start_paused = true)]
async fn creation_fills_the_system_fields() {
    let server = Server::new();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let pod = typed(fixtures::pod("shop", "a"));
    let made = pods(server.client())
        .create(&PostParams::default(), &pod)
        .await;
    let metadata = made.unwrap().metadata;
    let uid = "00000000-0000-4000-8000-000000000001";
    assert_eq!(metadata.uid.as_deref(), Some(uid));
    let time = metadata.creation_timestamp.unwrap().0.to_string();
    assert_eq!(time, "2026-01-01T00:00:05Z");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_may_have_to_be_there() {
    let server = Server::builder().require_namespaces().build();
    let pods = pods(server.client());
    let create = async |name: &str| {
        let pod = typed(fixtures::pod("shop", name));
        pods.create(&PostParams::default(), &pod).await
    };
    let (code, status) = refused(create("a").await);
    assert_eq!(
        (code, &status["message"]),
        (404, &json!("namespaces \"shop\" not found"))
    );
    server.put(fixtures::namespace("shop"));
    create("a").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn pods_can_be_replaced_unconditionally() {
    let server = server_with_pods(1);
    let pod = typed(fixtures::pod("shop", "cart-0").label("x", "y"));
    let pods = pods(server.client());
    let pod = pods.replace("cart-0", &PostParams::default(), &pod).await;
    assert_eq!(pod.unwrap().metadata.labels.unwrap()["x"], "y");
}

//! The cost of large clusters: nothing here may grow with the square of its size.
//!
//! The time limits are loose, since debug builds on a busy machine run them too.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, WatchParams};
use serde_json::json;
use testkit::{Server, fixtures};

#[tokio::test(start_paused = true)]
async fn ten_thousand_pods_in_pages_and_events() {
    let begin = Instant::now();
    let server = Server::new();
    let version = server.revision().to_string();
    let pod = |index| fixtures::pod("shop", &format!("cart-{index}"));
    server.put_all((0..10_000).map(|index| pod(index).node("n1").build()));
    let pods: Api<Pod> = Api::all(server.client());
    let mut params = ListParams::default().limit(250);
    let mut seen = 0;
    loop {
        let page = pods.list_metadata(&params).await.unwrap();
        seen += page.items.len();
        match page.metadata.continue_ {
            Some(token) if !token.is_empty() => params = params.continue_token(&token),
            _ => break,
        }
    }
    assert_eq!(seen, 10_000);
    let stream = pods
        .watch_metadata(&WatchParams::default(), &version)
        .await
        .unwrap();
    assert_eq!(stream.boxed().take(10_000).count().await, 10_000);
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(90), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn one_patch_removes_thousands_of_rows() {
    let begin = Instant::now();
    let server = Server::new();
    let mut pool = fixtures::pool("kube-system", "10.0.0.0/16");
    let mut operations = Vec::new();
    for offset in 1..=10_000_u64 {
        let (id, podref) = (fixtures::sandbox(offset), format!("shop/cart-{offset}"));
        pool = pool.row(offset, &id, &podref, "net1");
        if offset < 5_000 {
            let path = format!("/spec/allocations/{offset}");
            let row = fixtures::row(&id, &podref, "net1");
            operations.push(json!({ "op": "test", "path": path, "value": row }));
            operations.push(json!({ "op": "remove", "path": path }));
        }
    }
    server.put(pool);
    let request = http::Request::patch(
        "/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/kube-system/ippools/10.0.0.0-16",
    )
    .header("content-type", "application/json-patch+json")
    .body(serde_json::to_vec(&operations).unwrap())
    .unwrap();
    server.client().request_text(request).await.unwrap();
    let pool = server.get("ippools", "kube-system", "10.0.0.0-16").unwrap();
    let rows = pool["spec"]["allocations"].as_object().unwrap();
    assert_eq!(rows.len(), 5_001);
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(90), "{took:?}");
}

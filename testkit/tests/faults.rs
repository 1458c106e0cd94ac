//! Faults whose effect the tests of the collector cannot tell from none.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::DeleteParams};
use testkit::{Match, Server, fixtures};

#[tokio::test(start_paused = true)]
async fn a_late_write_outlives_its_client() {
    let server = Server::new();
    server.put(fixtures::pod("shop", "a").node("n1"));
    let late = server.on(Match::delete("pods"));
    late.apply_late(Duration::from_secs(20));
    let pods = Api::<Pod>::namespaced(server.client(), "shop");
    let now = DeleteParams::default().grace_period(0);
    assert!(pods.delete("a", &now).await.is_err());
    tokio::time::sleep(Duration::from_secs(19)).await;
    assert_eq!(server.count("pods"), 1);
    let gone = server.wait_until(Duration::from_secs(5), |it| it.count("pods") == 0);
    assert!(gone.await);
}

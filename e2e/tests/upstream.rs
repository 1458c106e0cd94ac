//! Upstream's own programs run beside a test: what its collectors free and leave, and how pools are listed that its
//! plugin wrote.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use e2e::{
    Cluster, ControlPlane, Namespace, Options, Result,
    cni::{Cni, Network, Sandbox},
    pods::{Interface, PodPlan},
    upstream::Upstream,
    wait,
};
use ipgc::core::pool::cut_managed_fields;
use serde_json::Value;

const RANGE: &str = "10.1.0.0/24";
const POOL: &str = "10.1.0.0-24";

/// A running pod with one address, whose network attachment is there.
async fn pod_with_address(namespace: &Namespace, node: &str) -> Result<()> {
    let network = Network::range("net-a", RANGE);
    namespace
        .network_attachment("net-a", &network.config())
        .await?;
    let cni = Cni::new(namespace).await?;
    let ips = cni
        .add(&network, &Sandbox::new(&namespace.name, "web-0"), "net1")
        .await?;
    let interface = Interface {
        network: format!("{}/net-a", namespace.name),
        interface: "net1".into(),
        ips: ips.iter().map(ToString::to_string).collect(),
    };
    namespace
        .running_pod(&PodPlan::new("web-0").on(node), &[interface])
        .await?;
    Ok(())
}

#[tokio::test]
async fn the_control_loop_frees_the_row_of_a_deleted_pod() -> Result<()> {
    let plane = ControlPlane::shared().await?;
    let cluster = Cluster::of(plane).await?;
    let namespace = cluster.namespace("loop").await?;
    let node = cluster.node("loop").await?;
    pod_with_address(&namespace, &node).await?;

    let upstream = Upstream::control_loop(plane, &namespace, &node).await?;
    namespace.force_delete_pod("web-0").await?;
    namespace.wait_offsets(POOL, &[]).await?;
    namespace.wait_reservations(&[]).await?;
    upstream
        .says("successful cleanup of IP address [10.1.0.1]")
        .await
}

#[tokio::test]
async fn the_reconciler_frees_orphans_and_keeps_what_lives() -> Result<()> {
    // Servers of its own: it collects in every namespace.
    let plane = &ControlPlane::start(Options::default()).await?;
    let cluster = Cluster::of(plane).await?;
    let namespace = cluster.namespace("cron").await?;
    pod_with_address(&namespace, "e2e-node").await?;
    let gone = Sandbox::new(&namespace.name, "gone");
    Cni::new(&namespace)
        .await?
        .add(&Network::range("net-a", RANGE), &gone, "net1")
        .await?;

    let upstream = Upstream::reconciler(plane, &namespace, "@every 1s").await?;
    upstream.says("reconciler run").await?;
    namespace.wait_offsets(POOL, &[1]).await?;
    wait::holds_for(
        "the living pod's row",
        Duration::from_secs(2),
        || namespace.offsets(POOL),
        |offsets| offsets == &[1],
    )
    .await
}

/// A sweep reads what a server lists without them (`ipgc_core::pool::cut_managed_fields`), if they stand where they are
/// looked for.
#[tokio::test]
async fn the_managed_fields_of_listed_pools_are_cut() -> e2e::Result<()> {
    let cluster = Cluster::get().await?;
    let namespace = cluster.namespace("managed").await?;
    let cni = Cni::new(&namespace).await?;
    for (name, range) in [("net-a", "10.1.0.0/24"), ("net-b", "10.2.0.0/24")] {
        let sandbox = Sandbox::new(&namespace.name, name);
        let network = Network::range(name, range);
        cni.add(&network, &sandbox, "net1").await?;
    }
    let path = format!(
        "/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/{}/ippools",
        namespace.name
    );
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    let client = cluster.client_named("managed").await?;
    let text = client.request_text(request).await.unwrap();
    let mut cut = text.clone().into_bytes();
    cut_managed_fields(&mut cut);

    let mut listed: Value = serde_json::from_str(&text).unwrap();
    let pools = listed["items"].as_array_mut().unwrap();
    assert_eq!(pools.len(), 2);
    for pool in pools {
        let metadata = pool["metadata"].as_object_mut().unwrap();
        assert!(metadata.remove("managedFields").is_some());
    }
    assert_eq!(serde_json::from_slice::<Value>(&cut).unwrap(), listed);
    Ok(())
}

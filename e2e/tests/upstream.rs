//! Upstream's own programs run beside a test: what its collectors free and leave.

use std::time::Duration;

use e2e::{
    Cluster, ControlPlane, Namespace, Options, Result,
    cni::{Cni, Network, Sandbox},
    pods::{Interface, PodPlan},
    upstream::Upstream,
    wait,
};

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

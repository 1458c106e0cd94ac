//! Networks that are not the plain case: default network, no version, slices of nodes, interfaces that are plugged in.

use std::{net::IpAddr, sync::Arc, time::Duration};

use e2e::Result;
use serde_json::json;

use crate::{
    stage::Stage,
    support::{LEASE, LOST_DEL, PATIENCE, Scene, YOUNG, witnessed},
    wanted::Wanted,
};

/// The pod's first interface has its address from whereabouts, and no other network is asked for.
pub async fn default_network_by_whereabouts(stage: Arc<Stage>) -> Result<()> {
    const DEFAULT: &str = "v1.multus-cni.io/default-network";
    let scene = Scene::new(&stage, "default").await?;
    let network = scene.network_apart("net-a", "10.111.0.0/24").await?;
    let definition = format!("{}/net-a", scene.namespace.name);
    let wanted = |name: &str| Wanted::pod(name, &[]).annotated(DEFAULT, &definition);
    let first = scene.run(&wanted("stays")).await?;
    let second = scene.run(&wanted("goes")).await?;
    network.lose()?;
    scene.namespace.delete_pod("goes", None).await?;
    scene
        .namespace
        .pod_gone("goes", LOST_DEL + PATIENCE)
        .await?;
    // Its own row, and not the one of the pod that lives.
    let rows = || scene.rows();
    let only_first =
        |rows: &Vec<(IpAddr, _)>| rows.iter().map(|row| row.0).eq(first.iter().copied());
    scene
        .rows_until("one row to go", YOUNG + PATIENCE, only_first)
        .await?;
    e2e::wait::holds_for("the other row", Duration::from_secs(10), rows, only_first).await?;
    assert_eq!(scene.freed().await?, second);
    network.mend()?;
    scene.namespace.delete_pod("stays", None).await?;
    scene.ends_clean(PATIENCE).await
}

/// Without `cniVersion` multus reports nothing of the interface, though it is up.
pub async fn attachments_without_version(stage: Arc<Stage>) -> Result<()> {
    let scene = Scene::new(&stage, "bare").await?;
    let network = scene.network_apart("net-b", "10.113.0.0/24").await?;
    let ipam = json!({
        "type": "whereabouts", "range": "10.112.0.0/24",
        "kubernetes": {"kubeconfig": network.path()},
    });
    let config = json!({"name": "net-a", "type": "bridge", "bridge": "lan0", "ipam": ipam});
    scene.namespace.network_attachment("net-a", &config).await?;
    let lives = scene
        .run(&Wanted::pod("lives", &["net-a", "net-b"]))
        .await?;
    let goes = scene.run(&Wanted::pod("goes", &["net-a", "net-b"])).await?;
    assert_eq!((lives.len(), goes.len()), (2, 2));
    let pod = scene.namespace.pods().get("lives").await.unwrap();
    let status = &pod.metadata.annotations.unwrap()["k8s.v1.cni.cncf.io/network-status"];
    assert!(
        !status.contains("/net-a"),
        "multus reports it after all: {status}"
    );
    network.lose()?;
    // By force: two DELs that are lost take longer than the kubelet gives a try, so it would never go.
    scene.namespace.delete_pod("goes", Some(0)).await?;
    let rows = || scene.rows();
    let those_that_live =
        |rows: &Vec<(IpAddr, _)>| rows.iter().map(|row| row.0).eq(lives.iter().copied());
    // A row without a report is not known to be the pod's own, so it may wait for W.
    let patience = witnessed(2) + LEASE + PATIENCE;
    let what = "the rows of the pod that is gone to go";
    scene.rows_until(what, patience, those_that_live).await?;
    e2e::wait::holds_for(
        "the other rows",
        Duration::from_secs(10),
        rows,
        those_that_live,
    )
    .await?;
    let mut freed = scene.freed().await?;
    freed.sort();
    assert_eq!(freed, goes, "both DELs were lost");
    network.mend()?;
    scene.namespace.delete_pod("lives", None).await?;
    scene.ends_clean(PATIENCE).await
}

/// Each node has a slice of the range and a pool of its own. The test writes the object that
/// the slice controller would write.
pub async fn node_slices_are_pools_of_their_own(stage: Arc<Stage>) -> Result<()> {
    let scene = Scene::new(&stage, "slice").await?;
    let unused = scene.network_apart("unused", "10.118.0.0/24").await?;
    let slices = json!({
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
        "kind": "NodeSlicePool",
        "metadata": {"name": "sliced", "namespace": "kube-system"},
        "spec": {"range": "10.117.0.0/16", "sliceSize": "/24"},
        "status": {"allocations": [
            {"nodeName": "node-1", "sliceRange": "10.117.1.0/24"},
            {"nodeName": "node-2", "sliceRange": "10.117.2.0/24"},
        ]},
    });
    let file = stage.cluster.dir().join("slices.json");
    std::fs::write(&file, slices.to_string()).unwrap();
    let apply = ["apply".as_ref(), "-f".as_ref(), file.as_os_str()];
    stage.cluster.kubectl(apply).await?;
    let ipam = json!({
        "type": "whereabouts", "range": "10.117.0.0/16", "node_slice_size": "/24",
        "network_name": "sliced", "kubernetes": {"kubeconfig": unused.path()},
    });
    let config = Scene::config("net-a", &ipam);
    scene.namespace.network_attachment("net-a", &config).await?;
    for (node, name) in stage.tier.nodes().iter().zip(["one", "two"]) {
        let addresses = scene.run(&Wanted::pod(name, &["net-a"]).on(node)).await?;
        let slice = format!("10.117.{}.", node.number());
        assert!(
            addresses[0].to_string().starts_with(&slice),
            "{addresses:?}"
        );
    }
    // With slices the plugin needs the server before anything else, and its DEL fails instead of lying. Of
    // a pod that is there the kubelet would try it for ever; of one that is gone multus forgets what it
    // had to call, and the second try succeeds.
    unused.lose()?;
    for name in ["one", "two"] {
        scene.namespace.delete_pod(name, Some(0)).await?;
    }
    for (address, _) in scene.rows().await? {
        scene.silent(address).await?;
    }
    scene
        .ends_clean(YOUNG + witnessed(1) + LEASE + PATIENCE)
        .await?;
    assert_eq!(scene.freed().await?.len(), 2);
    Ok(())
}

/// An interface is plugged into a pod that runs, and nobody reports it: its row stays as long as the pod
/// does, though the pool is worked on beside it. multus does not know of it when the pod ends, so no DEL
/// comes for it.
pub async fn interface_plugged_into_a_running_pod(stage: Arc<Stage>) -> Result<()> {
    let scene = Scene::new(&stage, "plug").await?;
    let network = scene.network_apart("net-a", "10.119.0.0/24").await?;
    let node = &stage.tier.nodes()[0];
    let own = scene
        .run(&Wanted::pod("stays", &["net-a"]).on(node))
        .await?[0];
    let ipam = json!({
        "type": "whereabouts", "range": "10.119.0.0/24",
        "kubernetes": {"kubeconfig": network.path()},
    });
    let config = Scene::config("net-a", &ipam);
    scene.plug(node, "stays", own, "net7", &config).await?;
    let rows = scene.rows_of("stays").await?;
    let plugged = rows.iter().map(|row| row.0).find(|it| *it != own);
    let plugged = plugged.expect("a row of the interface that was plugged in");
    scene.answers(plugged).await?;
    // Another one of the same pool goes, and its row by ipgc.
    scene.replicas(&Wanted::pod("goes", &["net-a"]), 1).await?;
    network.lose()?;
    scene.scale(0).await?;
    let both = |rows: &Vec<(IpAddr, _)>| rows.iter().map(|row| row.0).eq([own, plugged]);
    let patience = LOST_DEL + witnessed(1) + LEASE + PATIENCE;
    scene
        .rows_until("the other row to go", patience, both)
        .await?;
    let rows = || scene.rows();
    e2e::wait::holds_for("the row that nobody reports", LEASE, rows, both).await?;
    network.mend()?;
    scene.namespace.delete_pod("stays", None).await?;
    scene.namespace.pod_gone("stays", PATIENCE).await?;
    scene.ends_clean(witnessed(2) + LEASE + PATIENCE).await?;
    assert_eq!(scene.freed().await?.last(), Some(&plugged));
    Ok(())
}

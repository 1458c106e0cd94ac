//! Nodes that fall silent while their sandboxes answer on, and what releases what they hold.

use std::{
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use e2e::{Error, Result, control_plane::ADMIN, node::Machine, upstream::Upstream, wait};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use rand::RngExt as _;
use serde_json::json;

use crate::{
    ends::{self, Rows},
    stage::Stage,
    support::{Apart, LOST_DEL, PATIENCE, SWEEP, Scene, witnessed},
    wanted::Wanted,
};

/// Longer than W of a pod with one row by this much: a hold that is none would be over.
const BEYOND: Duration = Duration::from_secs(40);

/// A pod on a node, deleted by force while the kubelet there is dead: its row is held for longer
/// than any wait, also across a restart of ipgc, and its address answers all the time.
async fn held(
    stage: &Arc<Stage>,
    node: &Machine,
    prefix: &str,
    range: &str,
) -> Result<(Scene, IpAddr, Apart)> {
    let scene = Scene::new(stage, prefix).await?;
    let network = scene.network_apart("net-a", range).await?;
    let addresses = scene.run(&Wanted::pod("web", &["net-a"]).on(node)).await?;
    let address = addresses[0];
    node.kill_kubelet().await?;
    scene.namespace.delete_pod("web", Some(0)).await?;
    scene.namespace.pod_gone("web", PATIENCE).await?;
    let both = || async { Ok((scene.rows().await?, stage.detector.holders(address))) };
    let as_before = |(rows, holders): &(Vec<(IpAddr, _)>, Vec<_>)| {
        rows.iter().map(|row| row.0).eq([address]) && holders.len() == 1
    };
    let what = "the row and the sandbox of a silent node";
    wait::holds_for(what, Duration::from_secs(45), both, as_before).await?;
    // All that was witnessed is forgotten.
    let killed = stage.tier.kill_ipgc().await?;
    assert!(
        killed > 0 || stage.under_fire(),
        "no process of ipgc was found"
    );
    stage.others_may_begin.notify_one();
    wait::holds_for(what, witnessed(1) + BEYOND, both, as_before).await?;
    // An audit says that it is held, and by what.
    let findings = scene.findings().await?;
    let reasons: Vec<_> = findings.iter().map(|one| one["problem"].clone()).collect();
    assert_eq!(reasons, ["held-unfenced"], "{findings:#?}");
    let names_node = findings[0].to_string().contains(node.name());
    assert!(names_node, "{findings:#?}");
    assert!(scene.freed().await?.is_empty());
    // And so do the events.
    let (pod, node) = (format!("{}/web", scene.namespace.name), node.name());
    let tells = |note: &String| note.contains(&pod) && note.contains(node);
    let told = || scene.told("IPAddressHeldUnfenced");
    let patience = PATIENCE + stage.delay();
    wait::until_state("an event", patience, told, |told| told.iter().any(tells)).await?;
    Ok((scene, address, network))
}

/// The node is powered off, and somebody says so: at once.
pub async fn silent_node_holds_until_it_is_fenced(stage: Arc<Stage>) -> Result<()> {
    let node = stage.victim();
    let (scene, address, _) = held(&stage, node, "fenced", "10.121.0.0/24").await?;
    node.power_off().await?;
    scene.silent(address).await?;
    let taint = async |taint: &str| {
        let taint = format!("node.kubernetes.io/out-of-service{taint}");
        let words = ["taint", "node", node.name(), &taint];
        stage.cluster.kubectl(words).await
    };
    taint("=nodeshutdown:NoExecute").await?;
    // An unwitnessed row waits for W from the restart, which is over; the sweep looks every five minutes.
    scene.ends_clean(PATIENCE).await?;
    assert_eq!(scene.freed().await?, [address]);
    taint("-").await?;
    node.power_on(stage.tier.plane(), stage.tier.hub()).await?;
    recovered(&stage, node).await
}

/// The kubelet comes back, finds a sandbox without a pod, and stops it. DEL is lost; W from the return.
pub async fn silent_node_holds_until_it_is_back(stage: Arc<Stage>) -> Result<()> {
    let node = &stage.tier.nodes()[1];
    let (scene, address, network) = held(&stage, node, "back", "10.122.0.0/24").await?;
    network.lose()?;
    let back = Instant::now();
    node.start_kubelet().await?;
    recovered(&stage, node).await?;
    scene.silent_within(address, LOST_DEL + PATIENCE).await?;
    scene.keeps_rows(("web", 1), back, witnessed(1)).await?;
    scene.ends_clean(PATIENCE * 2).await?;
    assert_eq!(scene.freed().await?, [address]);
    Ok(())
}

/// The node is powered off and its object deleted: W after that.
pub async fn removed_node_is_waited_for(stage: Arc<Stage>) -> Result<()> {
    let node = &stage.tier.nodes()[1];
    let (scene, address, _) = held(&stage, node, "removed", "10.123.0.0/24").await?;
    node.power_off().await?;
    scene.silent(address).await?;
    delete_object(&stage, node).await?;
    let deleted = Instant::now();
    scene.keeps_rows(("web", 1), deleted, witnessed(1)).await?;
    scene.ends_clean(PATIENCE * 4).await?;
    assert_eq!(scene.freed().await?, [address]);
    node.power_on(stage.tier.plane(), stage.tier.hub()).await?;
    recovered(&stage, node).await
}

/// Kubelet and sandboxes die in one step, and the node object is deleted while its pods are still there. The
/// control plane deletes them.
pub async fn dead_node_is_removed(stage: Arc<Stage>) -> Result<()> {
    let scene = Scene::new(&stage, "dead").await?;
    scene.network("net-a", "10.126.0.0/24").await?;
    let node = &stage.tier.nodes()[1];
    let addresses = scene.run(&Wanted::pod("web", &["net-a"]).on(node)).await?;
    node.power_off().await?;
    delete_object(&stage, node).await?;
    let deleted = Instant::now();
    // Pods of nodes that are gone are collected after 40 seconds, in rounds of 20.
    scene.namespace.pod_gone("web", PATIENCE * 2).await?;
    scene.keeps_rows(("web", 1), deleted, witnessed(1)).await?;
    scene.ends_clean(witnessed(1) + PATIENCE * 4).await?;
    assert_eq!(scene.freed().await?, addresses);
    node.power_on(stage.tier.plane(), stage.tier.hub()).await?;
    recovered(&stage, node).await
}

async fn delete_object(stage: &Stage, node: &Machine) -> Result<()> {
    let nodes: Api<Node> = Api::all(stage.cluster.client().clone());
    nodes.delete(node.name(), &DeleteParams::default()).await?;
    Ok(())
}

/// Upstream's loop and reconciler do their work beside ipgc. Neither frees what the other did, and what
/// upstream takes from pods that live is not of our making.
pub async fn churn_beside_upstream(stage: Arc<Stage>) -> Result<()> {
    let scene = Scene::new(&stage, "beside").await?;
    scene.network("net-a", "10.127.0.0/24").await?;
    scene.network("net-b", "10.128.0.0/24").await?;
    let mut upstream = Vec::new();
    let plane = stage.tier.plane();
    for node in stage.tier.nodes() {
        upstream.push(Upstream::control_loop(ADMIN, plane, &stage.pools, node.name()).await?);
    }
    upstream.push(Upstream::reconciler(ADMIN, plane, &stage.pools, "@every 15s").await?);
    ends::churn(&scene, 10, Rows::MayGo).await?;
    for one in &upstream {
        one.still_up()?;
    }
    scene.ends_clean(witnessed(2) + SWEEP + PATIENCE).await
}

/// Pods come and go, some by force, while ipgc is killed again and again and the API server once.
pub async fn churn_under_fire(stage: Arc<Stage>) -> Result<()> {
    let scene = Scene::new(&stage, "fire").await?;
    scene.network("net-a", "10.124.0.0/24").await?;
    scene.network("net-b", "10.125.0.0/24").await?;
    let kills = async {
        for round in 0_usize.. {
            let pause = rand::rng().random_range(3..25);
            tokio::time::sleep(Duration::from_secs(pause)).await;
            stage.tier.kill_ipgc().await?;
            if round == 3 {
                stage.tier.plane().api_server().kill()?;
                stage.tier.plane().restart_api_server().await?;
            }
        }
        Ok::<(), Error>(())
    };
    tokio::select! {
        done = ends::churn(&scene, 20, Rows::Stay) => done?,
        failed = kills => failed?,
    }
    // The kubelets back off for minutes before they start what ended so often; new pods start at once.
    stage.renew_ipgc().await?;
    stage.tier.ipgc_ready().await?;
    // Nobody saw those ends.
    scene.ends_clean(witnessed(2) * 2 + SWEEP + PATIENCE).await
}

/// Waits until all is as it was: the node is Ready and tolerated again, ipgc has its replicas.
async fn recovered(stage: &Stage, node: &Machine) -> Result<()> {
    node.ready(stage.tier.plane()).await?;
    let nodes: Api<Node> = Api::all(stage.cluster.client().clone());
    // The same patch as that of `kubectl uncordon`.
    let patch = Patch::Merge(json!({"spec": {"unschedulable": null}}));
    nodes
        .patch(node.name(), &PatchParams::default(), &patch)
        .await?;
    stage.tier.ipgc_ready().await
}

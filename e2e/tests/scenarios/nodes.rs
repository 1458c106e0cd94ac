//! Evidence from nodes: a new boot, and the node that a pool of a slice belongs to.

use std::{future::pending, sync::Arc, time::Duration};

use e2e::{
    Error, Result,
    cni::Sandbox,
    pods::{Interface, PodPlan},
    pools::Row,
    wait,
};
use ipgc::{
    byhand::{Fate, Pick, Picked, force::held_by, release::release},
    core::{clearance::Wait, evidence::Policy},
    snapshot::live::{self, Scan},
};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::{
    byhand::alone,
    support::{POOL, RANGE, plan},
};

/// Rows of a pod on three networks, which a node at work holds for ever: until its bootID changes.
#[tokio::test]
async fn m4_03_a_changed_boot_id_ends_the_hold_of_three_interfaces() -> Result<()> {
    let (plane, scene, _) = alone("boot").await?;
    let cluster = scene.namespace.cluster();
    let node = cluster.live_node("booted").await?;
    node.boot("first").await?;
    let other = plan("other", "net-a").on(&node.name);
    scene.namespace.running_pod(&other, &[]).await?;
    let gone = Sandbox::new(&scene.namespace.name, "gone");
    let row = |number: i128| {
        let interface = format!("net{number}");
        (number, Row::new(&gone.id, gone.podref(), &interface))
    };
    let rows = (1..=3).map(row).collect();
    scene.namespace.plant_pool(POOL, RANGE, &rows).await?;

    let client = scene.client().await?;
    let policy = Policy {
        // Of three of them a kubelet gets through two.
        del_budget: Duration::from_secs(60),
        ..scene.config().policy
    };
    let snapshot = live::read(&client, &Scan::default(), &mut |_, _| {}).await;
    let (held, _) = held_by(&snapshot.unwrap(), &policy, &node.name);
    // They were there for long, and nobody says that nothing answers.
    let picks = held.picks().iter().map(|pick| Pick {
        forced: false,
        ..pick.clone()
    });
    let picked = Arc::new(Picked::new(picks.collect(), Duration::from_hours(1)));
    assert_eq!(picked.picks().len(), 3);
    let config = ipgc::config::Config {
        policy,
        ..scene.config()
    };
    let run = {
        let picked = Arc::clone(&picked);
        let clients = (client.clone(), client);
        let most = Duration::from_mins(2);
        tokio::spawn(async move {
            release(clients, config, &picked, most, pending(), |_, _, _| {}).await
        })
    };
    let fates = || async { Ok(picked.fates()) };
    let are_held = |fates: &Vec<Fate>| {
        let is_held = |fate: &Fate| matches!(fate, Fate::Waits(Wait::For(nodes)) if nodes.iter().any(|it| **it == *node.name));
        fates.iter().all(is_held)
    };
    wait::until_state("the rows to be held", wait::PATIENCE, fates, are_held).await?;
    scene
        .keeps("the rows", Duration::from_secs(5), &rows)
        .await?;

    // Where no pod changes, the watch is fresh a minute after its start.
    let heard = PodPlan::new("heard").unscheduled();
    scene.namespace.pod(&heard).await?;
    scene.namespace.force_delete_pod(&heard.name).await?;
    node.boot("second").await?;
    scene.namespace.wait_offsets(POOL, &[]).await?;
    run.await.unwrap().unwrap();
    plane.stop().await
}

/// By its name the pool is the slice of a node at work; a pod of another node has a row in it, and a third node is silent.
#[tokio::test]
async fn m4_06_a_slice_with_a_row_of_another_node_waits_for_all_nodes() -> Result<()> {
    let (plane, scene, network) = alone("shared").await?;
    let cluster = scene.namespace.cluster();
    let [of, other, silent] = [
        cluster.live_node("of").await?,
        cluster.live_node("other").await?,
        cluster.live_node("silent").await?,
    ];
    silent.silence().await?;
    let slices = [(&*of.name, "10.4.1.0/24"), (&*other.name, "10.4.2.0/24")];
    let namespace = &scene.namespace;
    namespace
        .plant_slices("sliced", "10.4.0.0/16", "/24", &slices)
        .await?;
    let client = namespace.client().clone();
    let name = &namespace.name;
    let pools = [
        (format!("sliced-{}-10.4.1.0-24", of.name), "10.4.1.0/24"),
        (format!("sliced-{}-10.4.2.0-24", other.name), "10.4.2.0/24"),
    ];
    let row = |pod: &str| {
        let sandbox = Sandbox::new(&scene.namespace.name, pod);
        Row::new(&sandbox.id, sandbox.podref(), "net1")
    };
    let shared = [(1, row("gone-0")), (7, row("web-0"))].into();
    let own = [(1, row("gone-1"))].into();
    for ((pool, range), rows) in pools.iter().zip([&shared, &own]) {
        scene.namespace.plant_pool(pool, range, rows).await?;
    }
    let interfaces = [Interface {
        network: format!("{name}/{}", network.name),
        interface: "net1".to_owned(),
        ips: vec!["10.4.1.7".to_owned()],
    }];
    let web = plan("web-0", "net-a").on(&other.name);
    scene.namespace.running_pod(&web, &interfaces).await?;

    let collecting = scene.collect().await?;
    // That pool is the slice of a node at work, so the silent node does not matter.
    scene.namespace.wait_offsets(&pools[1].0, &[]).await?;
    let read = || scene.namespace.rows(&pools[0].0);
    let long = Duration::from_secs(5);
    wait::holds_for("the row", long, read, |now| *now == shared).await?;

    let taint = json!({"spec": {"taints": [{
        "key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute",
    }]}});
    Api::<Node>::all(client)
        .patch(&silent.name, &PatchParams::default(), &Patch::Merge(taint))
        .await
        .map_err(Error::api("taint a node"))?;
    scene.namespace.wait_offsets(&pools[0].0, &[7]).await?;
    collecting.end().await;
    plane.stop().await
}

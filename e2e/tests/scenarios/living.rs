//! Rows that nobody needs for their own pod, and that stay for another reason: another pod reports the address, or
//! the row's id is a container of its pod (docs/museum.md, 4.1, 4.2 and 4.4).

use std::time::Duration;

use e2e::{Result, pods::End, wait};
use ipgc::report::Counters;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::support::{COOLDOWN, Collecting, POOL, Scene, address, plan, rows, wait_of};

/// A collector that sweeps each second, and waits as long for what is left of an earlier sandbox.
async fn sweeping(scene: &Scene) -> Result<Collecting> {
    let mut config = scene.config();
    config.policy.leftover_grace = Duration::from_secs(1);
    config.sweep_interval = Duration::from_secs(1);
    scene.collect_through(scene.client().await?, config).await
}

/// Multus hotplug through an older controller hands the id of a container to the plugin.
#[tokio::test]
async fn a_row_with_the_id_of_a_container_stays() -> Result<()> {
    let (scene, network) = Scene::with_network("hotplug").await?;
    let collecting = sweeping(&scene).await?;
    let started = scene.start("web-0", &network).await?;
    let hotplugged = e2e::cni::Sandbox::new(&scene.namespace.name, "web-0");
    let old = e2e::cni::Sandbox::new(&scene.namespace.name, "web-0");
    let statuses = json!({"status": {"containerStatuses": [{
        "name": "main", "containerID": format!("containerd://{}", hotplugged.id),
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        "ready": true, "started": true, "restartCount": 0, "image": "registry.invalid/none", "imageID": "",
    }]}});
    let patch = Patch::Merge(statuses);
    let pods = scene.namespace.pods();
    pods.patch_status("web-0", &PatchParams::default(), &patch)
        .await
        .map_err(e2e::Error::api("patch the status of pod web-0"))?;
    scene.cni.add(&network, &hotplugged, "net2").await?;
    // A sandbox before the present one left a row too: that one goes.
    scene.cni.add(&network, &old, "net3").await?;

    let held = rows([(1, &started.sandbox, "net1"), (2, &hotplugged, "net2")]);
    let read = || scene.namespace.rows(POOL);
    wait::until_state("the old row to go", wait::PATIENCE, read, |rows| {
        *rows == held
    })
    .await?;
    scene
        .keeps("the rows of the pod", COOLDOWN * 4, &held)
        .await?;
    collecting.end().await;
    Ok(())
}

/// Two pods report one address. It does not matter how both got it.
#[tokio::test]
async fn an_address_that_another_pod_reports_is_held_until_its_end() -> Result<()> {
    let (scene, network) = Scene::with_network("twice").await?;
    let collecting = scene.collect().await?;
    let started = scene.start("web-0", &network).await?;
    let other = scene.interfaces(&[&network], &[vec![address("10.1.0.1")]]);
    scene
        .namespace
        .running_pod(&plan("web-1", "net-a"), &other)
        .await?;
    scene.namespace.end_pod("web-0", End::Succeeded).await?;
    let held = rows([(1, &started.sandbox, "net1")]);
    let long = wait_of(1) + COOLDOWN;
    scene.keeps("the row", long, &held).await?;
    let third = scene.start("third", &network).await?;
    assert_eq!(third.addresses, [address("10.1.0.2")]);
    let told = scene.events_of("IPPool").await?;
    let told_twice = told.iter().any(|event| {
        event.contains("IPAddressInUseTwice")
            && event.contains("10.1.0.1")
            && event.contains(&scene.podref("web-1"))
    });
    assert!(told_twice, "{told:#?}");

    scene.namespace.end_pod("web-1", End::Succeeded).await?;
    scene.only(&[2]).await?;
    collecting.end().await;
    Ok(())
}

/// The pod came back with another address, and with a status that tells not all: its predecessor's reservation
/// goes with the row.
#[tokio::test]
async fn the_reservation_of_a_predecessors_row_goes_while_its_pod_runs() -> Result<()> {
    let (scene, network) = Scene::with_network("before").await?;
    let collecting = sweeping(&scene).await?;
    scene.start("web-0", &network).await?;
    // The one that runs may have read the pool before.
    let sweeps = collecting.counters().sweeps_ended.get();
    scene
        .wait_counter(&collecting, "a sweep to see the row", |counters| {
            counters.sweeps_ended.get() > sweeps + 1
        })
        .await?;
    // Forced away. The next one asks for a second network, of which no status will tell. It comes after a proof that
    // there is no pod.
    let proofs = |counters: &Counters| -> u64 {
        let asked = |code: &'static str| {
            let of_pods = [
                ("verb", "get".into()),
                ("resource", "pods".into()),
                ("code", code.into()),
            ];
            let count = counters.requests.get(&of_pods);
            count.map_or(0, |count| count.get())
        };
        ["200", "404", "error"].into_iter().map(asked).sum()
    };
    let before = proofs(collecting.counters());
    scene.namespace.force_delete_pod("web-0").await?;
    scene
        .wait_counter(&collecting, "a proof that the pod is gone", |counters| {
            proofs(counters) > before
        })
        .await?;
    let again = plan("web-0", "net-a,net-b");
    scene.namespace.pod(&again).await?;
    // Under another interface ADD does not adopt the row.
    let sandbox = e2e::cni::Sandbox::new(&scene.namespace.name, "web-0");
    let got = scene.cni.add(&network, &sandbox, "net7").await?;
    let mut interfaces = scene.interfaces(&[&network], std::slice::from_ref(&got));
    "net7".clone_into(&mut interfaces[0].interface);
    scene.namespace.run_pod("web-0", &interfaces).await?;
    assert_eq!(got, [address("10.1.0.2")]);
    scene.only(&[2]).await?;
    collecting.end().await;
    Ok(())
}

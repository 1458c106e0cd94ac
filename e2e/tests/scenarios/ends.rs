//! The ways in which a pod ends, and in which a pool or a network goes away before its pod.

use std::time::{Duration, Instant};

use e2e::{
    Error, Result,
    pods::End,
    pools::{Row, pools},
    wait,
};
use http::Method;
use ipgc::config::Config;
use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams},
    core::GroupVersionKind,
};
use serde_json::json;

use crate::support::{COOLDOWN, POOL, Scene, just_before, plan, rows, wait_of};

/// Nobody stopped the sandbox for sure: the address is kept until a live kubelet must have.
#[tokio::test]
async fn a_forced_deletion_waits_for_the_kubelet_first() -> Result<()> {
    let (scene, network) = Scene::with_network("forced").await?;
    let collecting = scene.collect().await?;
    let started = scene
        .start_pod(&plan("web-0", "net-a"), &[&network])
        .await?;
    let ended = Instant::now();
    scene.namespace.force_delete_pod("web-0").await?;

    let held = rows([(1, &started.sandbox, "net1")]);
    let read = || scene.namespace.rows(POOL);
    let margin = Duration::from_millis(300);
    let while_waiting = wait_of(1).saturating_sub(ended.elapsed() + margin);
    wait::holds_for("the row", while_waiting, read, |rows| *rows == held).await?;
    scene.namespace.wait_offsets(POOL, &[]).await?;
    let took = ended.elapsed();
    assert!(took >= wait_of(1), "freed after {took:?}");
    scene.namespace.wait_reservations(&[]).await?;
    let counted = collecting.end().await;
    assert_eq!((counted["rows_freed"], counted["patches_sent"]), (1, 1));
    Ok(())
}

/// The pod garbage collector writes a terminal phase for a pod whose containers may still run.
#[tokio::test]
async fn a_pod_that_was_failed_from_afar_waits_as_after_a_forced_deletion() -> Result<()> {
    let (scene, network) = Scene::with_network("afar").await?;
    let collecting = scene.collect().await?;
    scene
        .start_pod(&plan("web-0", "net-a,net-a"), &[&network; 2])
        .await?;
    let ended = Instant::now();
    scene.namespace.fail_pod_from_afar("web-0").await?;
    scene.namespace.force_delete_pod("web-0").await?;
    scene.namespace.wait_offsets(POOL, &[]).await?;
    let took = ended.elapsed();
    assert!(took >= wait_of(2), "freed after {took:?}");
    collecting.end().await;
    Ok(())
}

/// A pod that never got its status: there is no proof that it ever held its row's address.
#[tokio::test]
async fn a_pod_that_was_deleted_while_it_started_waits_too() -> Result<()> {
    let (scene, network) = Scene::with_network("young").await?;
    let collecting = scene.collect().await?;
    scene.namespace.pod(&plan("web-0", "net-a")).await?;
    scene.namespace.prepare_pod("web-0").await?;
    scene.add("web-0", &[&network]).await?;
    let ended = Instant::now();
    scene.namespace.end_pod("web-0", End::Failed).await?;
    scene.namespace.wait_offsets(POOL, &[]).await?;
    let took = ended.elapsed();
    assert!(took >= wait_of(1), "freed after {took:?}");
    scene.namespace.wait_reservations(&[]).await?;
    collecting.end().await;
    Ok(())
}

#[tokio::test]
async fn what_is_not_the_pods_own_stays() -> Result<()> {
    let (scene, network) = Scene::with_network("foreign").await?;
    let collecting = scene.collect().await?;
    let started = scene
        .start_pod(&plan("web-0", "net-a"), &[&network])
        .await?;
    let id = &started.sandbox.id;
    let podref = scene.podref("web-0");
    let without_podref = Row::new(id, "", "net1");
    let of_a_driver = Row::new("claim-7", podref.as_str(), "net1");
    let of_another = Row::new(id, scene.podref("web-00"), "net1");
    for (offset, row) in [(5, &without_podref), (6, &of_a_driver), (7, &of_another)] {
        scene.namespace.plant_row(POOL, offset, row).await?;
    }
    scene.namespace.end_pod("web-0", End::Succeeded).await?;
    let left = scene.namespace.wait_offsets(POOL, &[5, 6, 7]).await?;
    assert_eq!(
        left,
        [(5, without_podref), (6, of_a_driver), (7, of_another)].into()
    );
    let counted = collecting.end().await;
    assert_eq!(
        (counted["rows_freed"], counted["retries_exhausted"]),
        (1, 0)
    );
    Ok(())
}

#[tokio::test]
async fn a_pool_that_was_deleted_meanwhile_is_no_failure() -> Result<()> {
    let (scene, network) = Scene::with_network("no-pool").await?;
    let delete_pool = {
        let scene = scene.clone();
        async move {
            pools(scene.namespace.client(), &scene.namespace.name)
                .delete(POOL, &DeleteParams::default())
                .await
                .map_err(Error::api("delete the pool"))?;
            Ok(())
        }
    };
    let on_pool = |asked: &crate::support::Asked| asked.is(&Method::PATCH, "ippools");
    let client = scene.client().await?;
    let (client, deleted) = just_before(client, on_pool, delete_pool);
    let collecting = scene.collect_through(client, scene.config()).await?;
    scene
        .start_pod(&plan("web-0", "net-a"), &[&network])
        .await?;
    scene.namespace.end_pod("web-0", End::Succeeded).await?;
    deleted.over("the pool's deletion before the patch").await?;
    // The row went with its pool, and nothing must keep the address reserved.
    scene.namespace.wait_reservations(&[]).await?;
    // Time for retries, if there were any.
    tokio::time::sleep(COOLDOWN).await;
    let counted = collecting.end().await;
    assert_eq!((counted["patches_sent"], counted["rows_freed"]), (1, 1));
    assert_eq!(counted["retries_exhausted"], 0);
    assert_eq!(scene.namespace.pool(POOL).await?, None);
    assert_eq!(scene.pod_events().await?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_row_whose_network_was_deleted_before_its_pod_is_freed_by_the_sweep() -> Result<()> {
    let (scene, network) = Scene::with_network("no-nad").await?;
    let config = Config {
        sweep_interval: Duration::from_secs(5),
        ..scene.config()
    };
    let collecting = scene.collect_through(scene.client().await?, config).await?;
    scene
        .start_pod(&plan("web-0", "net-a"), &[&network])
        .await?;
    let kind = GroupVersionKind::gvk("k8s.cni.cncf.io", "v1", "NetworkAttachmentDefinition");
    let kind = ApiResource::from_gvk_with_plural(&kind, "network-attachment-definitions");
    let client = scene.namespace.client().clone();
    Api::<DynamicObject>::namespaced_with(client, &scene.namespace.name, &kind)
        .delete("net-a", &DeleteParams::default())
        .await
        .map_err(Error::api("delete the network attachment"))?;

    scene.namespace.end_pod("web-0", End::Succeeded).await?;
    let left = |counters: &ipgc::report::Counters| counters.left_to_sweep.get() >= 1;
    scene
        .wait_counter(&collecting, "the pod to be left to the sweep", left)
        .await?;
    scene.namespace.wait_offsets(POOL, &[]).await?;
    scene.namespace.wait_reservations(&[]).await?;
    let counted = collecting.end().await;
    assert_eq!((counted["rows_freed"], counted["patches_sent"]), (1, 1));
    assert_eq!(counted["retries_exhausted"], 0);
    assert_eq!(
        scene.pod_events().await?,
        ["Normal IPAddressGarbageCollected web-0 \
          successful cleanup of IP address [10.1.0.1] from network net-a"]
    );
    Ok(())
}

/// Of a field that somebody applied the owner is still known, so that leaving it out takes it away.
#[tokio::test]
async fn who_wrote_a_pool_is_forgotten_unless_somebody_applied_fields() -> Result<()> {
    let (scene, network) = Scene::with_network("managers").await?;
    let pools = pools(scene.namespace.client(), &scene.namespace.name);
    let managers = async || {
        let pool = pools.get(POOL).await.map_err(Error::api("the pool"))?;
        let managers = pool.metadata.managed_fields.unwrap_or_default();
        let operations = managers.into_iter().filter_map(|it| it.operation);
        Ok::<_, Error>(operations.collect::<Vec<_>>())
    };
    let apply = async |annotations| {
        let fields = json!({
            "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
            "kind": "IPPool",
            "metadata": { "name": POOL, "annotations": annotations },
        });
        let (params, patch) = (PatchParams::apply("gitops"), Patch::Apply(fields));
        let applied = pools.patch(POOL, &params, &patch).await;
        let pool = applied.map_err(Error::api("apply"))?;
        Ok::<_, Error>(pool.metadata.annotations.unwrap_or_default())
    };
    let collecting = scene.collect().await?;
    for pod in ["web-0", "web-1"] {
        scene.start_pod(&plan(pod, "net-a"), &[&network]).await?;
    }
    assert!(!managers().await?.is_empty());
    scene.namespace.end_pod("web-0", End::Succeeded).await?;
    scene.namespace.wait_offsets(POOL, &[2]).await?;
    assert!(managers().await?.is_empty());
    scene.namespace.wait_reservations(&["10.1.0.2"]).await?;
    scene
        .start_pod(&plan("web-2", "net-a"), &[&network])
        .await?;
    assert!(managers().await?.is_empty(), "whereabouts' ADD");

    let exempted = apply(json!({ "ipgc.dev/keep": "200" })).await?;
    assert_eq!(exempted["ipgc.dev/keep"], "200");
    let before = managers().await?;
    assert!(before.iter().any(|operation| operation == "Apply"));
    scene.namespace.end_pod("web-1", End::Succeeded).await?;
    scene.namespace.wait_offsets(POOL, &[1]).await?;
    assert!(
        managers()
            .await?
            .iter()
            .any(|operation| operation == "Apply")
    );
    assert_eq!(apply(json!({})).await?, [].into());
    collecting.end().await;
    Ok(())
}

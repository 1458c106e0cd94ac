//! etcd is restored from a backup: its data directory is copied, and put back later.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use e2e::{Cluster, ControlPlane, Result, control_plane::Options, pods::End, wait};
use http::{Method, Response};
use kube::client::Body;
use tokio::time::sleep;

use crate::support::{POOL, Scene, hooked, plan, rows, wait_of};

/// The answer of some proxy: the server never sees the request.
fn refusal() -> Response<Body> {
    let mut response = Response::new(Body::from(b"no luck today".to_vec()));
    *response.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
    response
}

/// A pod that ended well is there again, and is deleted by force on a node that is not ready: its good end never was.
/// Another one goes on as if nothing had been, and its row goes after its end.
#[tokio::test]
async fn after_etcd_was_restored_nothing_that_was_seen_before_counts() -> Result<()> {
    let plane = ControlPlane::start(Options::default()).await?;
    let cluster = Cluster::of(&plane).await?;
    let (scene, network) = Scene::with_network_on(&cluster, "restored").await?;
    let (silent, at_work) = (cluster.live_node("a").await?, cluster.live_node("b").await?);
    let mut started = Vec::new();
    for (name, node) in [("web-1", &silent), ("web-2", &at_work)] {
        let plan = plan(name, "net-a").of_replica_set().on(&node.name);
        started.push(scene.cni.start(&plan, &[&network]).await?);
    }
    silent.silence().await?;

    let is_refusing = Arc::new(AtomicBool::new(true));
    let refuses = Arc::clone(&is_refusing);
    let client = hooked(scene.client().await?, move |method, path| {
        let is_patch = *method == Method::PATCH && path.contains("/ippools/");
        let is_refused = is_patch && refuses.load(Ordering::Relaxed);
        async move { is_refused.then(refusal) }
    });
    let collecting = scene.collect_through(client, scene.config()).await?;
    plane.back_up()?;
    // Much happens until the restored data has caught up with the versions that the watches had seen.
    for number in 0..300 {
        let text = number.to_string();
        scene
            .namespace
            .annotate_pod("web-2", "number", Some(&text))
            .await?;
    }
    scene.namespace.end_pod("web-1", End::Succeeded).await?;
    sleep(Duration::from_secs(2)).await;
    plane.restore().await?;
    is_refusing.store(false, Ordering::Relaxed);
    scene.namespace.force_delete_pod("web-1").await?;
    scene
        .wait_counter(&collecting, "ipgc to see that data went back", |counters| {
            counters.history_went_back.get() == 1
        })
        .await?;
    // Long enough for all to be listed anew.
    sleep(Duration::from_secs(3)).await;
    scene.namespace.force_delete_pod("web-2").await?;
    let held = rows([(1, &started[0].sandbox, "net1")]);
    let read = || async { scene.namespace.rows(POOL).await };
    // A server that has just started refuses what it knows no rights of yet, and ipgc tries again after half a minute.
    let patience = Duration::from_secs(90);
    wait::until_state("the row of web-2 to go", patience, read, |rows| {
        *rows == held
    })
    .await?;
    sleep(wait_of(1) * 3).await;
    assert_eq!(scene.namespace.rows(POOL).await?, held);
    let counted = collecting.end().await;
    assert_eq!(
        (counted["history_went_back"], counted["rows_freed"]),
        (1, 1)
    );
    plane.stop().await
}

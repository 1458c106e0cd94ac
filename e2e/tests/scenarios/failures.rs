//! Failures: what stays when the server will not do it, and what people get to see.

use std::sync::atomic::Ordering;

use e2e::{Cluster, ControlPlane, Result, cni::Network, control_plane::Options, pods::End, wait};
use http::Method;
use ipgc::{config::Config, core::breaker::Limits};

use crate::support::{POOL, RANGE, Scene, plan, refusing, rows};

#[tokio::test]
async fn retries_that_are_used_up_are_upstreams_failure_event() -> Result<()> {
    let (scene, network) = Scene::with_network("failed").await?;
    let (client, refused) = refusing(scene.client().await?, |asked| {
        asked.is(&Method::PATCH, "ippools")
    });
    let config = Config {
        max_retries: 2,
        ..scene.config()
    };
    let collecting = scene.collect_through(client, config).await?;
    let started = scene
        .start_pod(&plan("web-0", "net-a"), &[&network])
        .await?;
    scene.namespace.end_pod("web-0", End::Succeeded).await?;
    let exhausted = |counters: &ipgc::report::Counters| counters.retries_exhausted.get() == 1;
    scene
        .wait_counter(&collecting, "the retries to be used up", exhausted)
        .await?;
    let counted = collecting.end().await;
    assert_eq!(
        refused.load(Ordering::Relaxed),
        3,
        "one try and two retries"
    );
    assert_eq!(
        (counted["rows_freed"], counted["reservations_freed"]),
        (0, 0)
    );
    let held = rows([(1, &started.sandbox, "net1")]);
    assert_eq!(scene.namespace.rows(POOL).await?, held);
    scene.namespace.wait_reservations(&["10.1.0.1"]).await?;
    let podref = scene.podref("web-0");
    assert_eq!(
        scene.pod_events().await?,
        [format!(
            "Warning IPAddressGarbageCollectionFailed web-0 \
             failed to garbage collect addresses for pod {podref}"
        )]
    );
    Ok(())
}

/// The row is gone before the reservation is; what failed is tried again, and nothing twice.
#[tokio::test]
async fn a_reservation_that_could_not_be_released_is_released_by_a_retry() -> Result<()> {
    let (scene, network) = Scene::with_network("late").await?;
    let once = std::sync::atomic::AtomicBool::new(true);
    let (client, refused) = refusing(scene.client().await?, move |asked| {
        asked.is(&Method::DELETE, "overlappingrangeipreservations")
            && once.swap(false, Ordering::Relaxed)
    });
    let collecting = scene.collect_through(client, scene.config()).await?;
    scene
        .start_pod(&plan("web-0", "net-a"), &[&network])
        .await?;
    scene.namespace.end_pod("web-0", End::Succeeded).await?;
    scene.namespace.wait_offsets(POOL, &[]).await?;
    scene.namespace.wait_reservations(&[]).await?;
    let counted = collecting.end().await;
    assert_eq!(refused.load(Ordering::Relaxed), 1);
    assert_eq!((counted["rows_freed"], counted["patches_sent"]), (1, 1));
    assert_eq!(counted["reservations_freed"], 1);
    assert_eq!(scene.pod_events().await?.len(), 1);
    Ok(())
}

/// What a person sees by kubectl of addresses that are not freed, on their pool: those that the breaker stops, and those that
/// a silent node holds. On servers of its own, where no other node holds anything.
#[tokio::test]
async fn what_is_not_freed_is_told_on_its_pool() -> Result<()> {
    let plane = ControlPlane::start(Options::default().with_controllers()).await?;
    let scene = Scene::on(&Cluster::of(&plane).await?, "told").await?;
    let network = Network::range("net-a", RANGE);
    scene.attach(&network).await?;
    let node = scene.namespace.cluster().live_node("dies").await?;
    for pod in ["web-0", "web-1", "web-2"] {
        let plan = plan(pod, "net-a").on(&node.name);
        scene.start_pod(&plan, &[&network]).await?;
    }
    // Nobody saw the ends of more than half of all.
    for pod in ["web-0", "web-1"] {
        scene.namespace.force_delete_pod(pod).await?;
    }
    let config = Config {
        breaker: Limits {
            min: 1,
            ..Limits::default()
        },
        ..scene.config()
    };
    let collecting = scene.collect_through(scene.client().await?, config).await?;
    let told = |reason: &'static str| {
        let events = || scene.events_of("IPPool");
        let is_told = move |events: &Vec<String>| events.iter().any(|it| it.contains(reason));
        wait::until_state(reason, wait::PATIENCE * 2, events, is_told)
    };
    let events = told("IPPoolGCBreakerOpen").await?;
    let warns = |reason: &str| {
        let begins = format!("Warning {reason} {POOL} ");
        events
            .iter()
            .any(|it| it.starts_with(&begins) && it.contains("ipgc.dev/ack"))
    };
    assert!(warns("IPPoolGCBreakerOpen"), "{events:?}");
    node.silence().await?;
    scene.namespace.force_delete_pod("web-2").await?;
    let events = told("IPAddressHeldUnfenced").await?;
    let held = events
        .iter()
        .find(|it| it.contains("IPAddressHeldUnfenced"));
    assert!(held.is_some_and(|it| it.contains(&node.name)), "{events:?}");
    let counted = collecting.end().await;
    assert_eq!(counted["rows_freed"], 0);
    assert_eq!(scene.namespace.offsets(POOL).await?, [1, 2, 3]);
    plane.stop().await
}

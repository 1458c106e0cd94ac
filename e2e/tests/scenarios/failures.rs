//! Messages to people about addresses that are not freed.

use e2e::{Result, wait};
use ipgc::{config::Config, core::breaker::Limits};

use crate::{
    byhand::alone,
    support::{POOL, plan},
};

/// The events on a pool, as kubectl shows them, about addresses that are not freed: those that the breaker stops, and
/// those of a silent node. On servers of its own, where no other node holds anything.
#[tokio::test]
async fn what_is_not_freed_is_told_on_its_pool() -> Result<()> {
    let (plane, scene, network) = alone("told").await?;
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

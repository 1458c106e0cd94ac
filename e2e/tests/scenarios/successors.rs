//! A pod comes back under its name, when that could cost somebody an address.
//!
//! The race is no race here: the collector's next request waits until the successor has done its
//! part with the real plugin ([`just_before`]). Other moments are in tests/ of ipgc.

use e2e::{Result, pods::End, wait};
use http::Method;
use ipgc::core::reservation::CLAIMED_PODREF;

use crate::support::{POOL, Scene, address, just_before, plan, rows};

/// The last moment there is: absence was proven, and the DELETE is on its way.
#[tokio::test]
async fn a_successor_takes_another_address_than_the_one_being_released() -> Result<()> {
    let (scene, network) = Scene::with_network("claimed").await?;
    let successor = {
        let (scene, network) = (scene.clone(), network.clone());
        async move {
            let claimed = scene.namespace.reservations().await?;
            scene.namespace.pod(&plan("web-0", "net-a")).await?;
            let (sandbox, interfaces) = scene.cni.set_up("web-0", &[&network]).await?;
            Ok((claimed["10.1.0.1"].clone(), sandbox, interfaces))
        }
    };
    let release = |method: &Method, path: &str| {
        *method == Method::DELETE && path.contains("/overlappingrangeipreservations/")
    };
    let (client, done) = just_before(scene.client().await?, release, successor);
    let collecting = scene.collect_through(client, scene.config()).await?;
    scene.start("web-0", &network).await?;
    scene.namespace.end_pod("web-0", End::Succeeded).await?;
    let (claimed, sandbox, interfaces) = tokio::time::timeout(wait::PATIENCE, done).await???;
    assert_eq!(claimed.podref, CLAIMED_PODREF);
    assert_eq!(interfaces[0].ips, [address("10.1.0.2")]);
    scene.namespace.wait_reservations(&["10.1.0.2"]).await?;
    let held = rows([(2, &sandbox, "net1")]);
    assert_eq!(scene.namespace.rows(POOL).await?, held);
    let counted = collecting.end().await;
    assert_eq!(counted["reservations_freed"], 1);
    assert_eq!(counted["retries_exhausted"], 0);
    // A third pod shares no address with it.
    scene.namespace.run_pod("web-0", &interfaces).await?;
    let third = scene.start("third", &network).await?;
    assert_eq!(third.addresses, [address("10.1.0.1")]);
    Ok(())
}

//! A pod comes back under its name, at every moment at which that could cost somebody an address.
//!
//! The races are no races here: the collector's next request waits until the successor has done its
//! part with the real plugin ([`just_before`]).

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use e2e::{
    Result,
    cni::{Network, Sandbox},
    pods::End,
    pools::Reservation,
    wait,
};
use http::Method;
use ipgc::core::reservation::CLAIMED_PODREF;

use crate::support::{
    Asked, COOLDOWN, Collecting, POOL, Scene, address, just_before, plan, rows, wait_of,
};

/// The successor's pod object, and its ADD.
async fn come_back(scene: Arc<Scene>, network: Network) -> Result<(Sandbox, IpAddr)> {
    scene.namespace.pod(&plan("web-0", "net-a")).await?;
    let (sandbox, addresses) = scene.add("web-0", &[&network]).await?;
    Ok((sandbox, addresses[0][0]))
}

/// A collector whose first request of this kind waits until `act` is done, which begins with the end of web-0.
async fn end_before<T: Send + 'static>(
    scene: &Arc<Scene>,
    network: &Network,
    awaited: impl Fn(&Asked) -> bool + Send + Sync + 'static,
    act: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<(Collecting, T)> {
    let (client, done) = just_before(scene.client().await?, awaited, act);
    let collecting = scene.collect_through(client, scene.config()).await?;
    scene.start("web-0", network).await?;
    scene.namespace.end_pod("web-0", End::Succeeded).await?;
    let outcome = tokio::time::timeout(wait::PATIENCE, done).await???;
    Ok((collecting, outcome))
}

/// Lets the successor run, and asserts that a third pod shares no address with it.
async fn nobody_shares(
    scene: &Scene,
    network: &Network,
    successor: IpAddr,
    expected: &str,
) -> Result<()> {
    let interfaces = scene.interfaces(&[network], &[vec![successor]]);
    scene.namespace.run_pod("web-0", &interfaces).await?;
    let third = scene.start("third", network).await?;
    assert_eq!(third.addresses, [address(expected)]);
    let rows = scene.namespace.rows(POOL).await?;
    let owners: BTreeSet<_> = rows.values().map(|row| &row.podref).collect();
    assert_eq!(owners.len(), rows.len(), "{rows:#?}");
    Ok(())
}

fn pool_patch(asked: &Asked) -> bool {
    asked.is(&Method::PATCH, "ippools")
}

fn claim(asked: &Asked) -> bool {
    asked.is(&Method::PATCH, "overlappingrangeipreservations")
}

fn release(asked: &Asked) -> bool {
    asked.is(&Method::DELETE, "overlappingrangeipreservations")
}

/// It is there, but its ADD is still to come: the row is what the ADD will find.
#[tokio::test]
async fn the_row_of_a_successor_that_is_there_is_kept() -> Result<()> {
    let (scene, network) = Scene::with_network("present").await?;
    let collecting = scene.collect().await?;
    let old = scene.start("web-0", &network).await?;
    scene.namespace.force_delete_pod("web-0").await?;
    scene.namespace.pod(&plan("web-0", "net-a")).await?;

    let held = rows([(1, &old.sandbox, "net1")]);
    let long = wait_of(1) + COOLDOWN;
    scene.keeps("the row", long, &held).await?;
    let (sandbox, addresses) = scene.add("web-0", &[&network]).await?;
    assert_eq!(addresses, [[address("10.1.0.1")]]);
    let adopted = rows([(1, &sandbox, "net1")]);
    assert_eq!(scene.namespace.rows(POOL).await?, adopted);
    scene.namespace.wait_reservations(&["10.1.0.1"]).await?;
    let counted = collecting.end().await;
    assert_eq!((counted["rows_freed"], counted["patches_sent"]), (0, 0));
    assert_eq!(scene.pod_events().await?, [""; 0]);
    Ok(())
}

/// The patch tests the row as it was observed, and the successor has changed its id.
#[tokio::test]
async fn a_row_adopted_between_observation_and_patch_survives() -> Result<()> {
    let (scene, network) = Scene::with_network("adopted").await?;
    let successor = come_back(scene.clone(), network.clone());
    let (collecting, (sandbox, ip)) = end_before(&scene, &network, pool_patch, successor).await?;
    assert_eq!(ip, address("10.1.0.1"));
    let adopted = rows([(1, &sandbox, "net1")]);
    scene.keeps("the row", COOLDOWN, &adopted).await?;
    scene.namespace.wait_reservations(&["10.1.0.1"]).await?;
    nobody_shares(&scene, &network, ip, "10.1.0.2").await?;
    let counted = collecting.end().await;
    assert_eq!((counted["rows_freed"], counted["patches_sent"]), (0, 1));
    assert_eq!(counted["retries_exhausted"], 0);
    assert_eq!(scene.pod_events().await?, [""; 0]);
    Ok(())
}

/// ADD accepts a reservation of its own podref without writing it, so that nothing in the object
/// tells; the proof after the claim does.
#[tokio::test]
async fn a_reservation_accepted_before_the_claim_is_put_back() -> Result<()> {
    let (scene, network) = Scene::with_network("accepted").await?;
    let successor = come_back(scene.clone(), network.clone());
    let (collecting, (sandbox, ip)) = end_before(&scene, &network, claim, successor).await?;
    assert_eq!(ip, address("10.1.0.1"));
    let podref = scene.podref("web-0");
    let read = || scene.namespace.reservations();
    let put_back = "the reservation to be the successor's";
    let reservations = wait::until_state(put_back, wait::PATIENCE, read, |reservations| {
        let there = reservations.get("10.1.0.1");
        there.is_some_and(|reservation| {
            reservation.podref == podref && reservation.annotations.is_empty()
        })
    })
    .await?;
    assert_eq!(reservations.len(), 1);
    let counted = collecting.end().await;
    assert_eq!(counted["rows_freed"], 1);
    assert_eq!(counted["reservations_freed"], 0);
    assert_eq!(counted["retries_exhausted"], 0);
    let held = rows([(1, &sandbox, "net1")]);
    assert_eq!(scene.namespace.rows(POOL).await?, held);
    nobody_shares(&scene, &network, ip, "10.1.0.2").await
}

/// The last moment there is: absence was proven, and the DELETE is on its way.
#[tokio::test]
async fn a_successor_takes_another_address_than_the_one_being_released() -> Result<()> {
    let (scene, network) = Scene::with_network("claimed").await?;
    let successor = {
        let (scene, network) = (scene.clone(), network.clone());
        async move {
            let claimed = scene.namespace.reservations().await?;
            let (sandbox, ip) = come_back(scene, network).await?;
            Ok((claimed["10.1.0.1"].clone(), sandbox, ip))
        }
    };
    let (collecting, (claimed, sandbox, ip)) =
        end_before(&scene, &network, release, successor).await?;
    assert_eq!(claimed.podref, CLAIMED_PODREF);
    assert_eq!(ip, address("10.1.0.2"));
    scene.namespace.wait_reservations(&["10.1.0.2"]).await?;
    let held = rows([(2, &sandbox, "net1")]);
    assert_eq!(scene.namespace.rows(POOL).await?, held);
    let counted = collecting.end().await;
    assert_eq!(counted["reservations_freed"], 1);
    assert_eq!(counted["retries_exhausted"], 0);
    nobody_shares(&scene, &network, ip, "10.1.0.1").await
}

/// A claim that came too early: the successor went round it, and the owner of the reservation gets
/// it back. It reserves an address that nobody has, which is a matter for the sweep.
#[tokio::test]
async fn a_claim_is_undone_when_the_pod_is_back_before_absence_is_proven() -> Result<()> {
    let (scene, network) = Scene::with_network("undone").await?;
    let claimed = AtomicBool::new(false);
    let proof = move |asked: &Asked| {
        claimed.fetch_or(claim(asked), Ordering::Relaxed)
            && asked.is(&Method::GET, "pods")
            && asked.path.ends_with("/web-0")
    };
    let successor = come_back(scene.clone(), network.clone());
    let (collecting, (_, ip)) = end_before(&scene, &network, proof, successor).await?;
    assert_eq!(ip, address("10.1.0.2"));
    let podref = scene.podref("web-0");
    let read = || scene.namespace.reservations();
    let undone = |reservations: &BTreeMap<String, Reservation>| {
        let mut both = reservations.values();
        reservations.len() == 2 && both.all(|reservation| reservation.podref == podref)
    };
    wait::until_state("the claim to be undone", wait::PATIENCE, read, undone).await?;
    let counted = collecting.end().await;
    assert_eq!(counted["reservations_freed"], 0);
    assert_eq!(counted["retries_exhausted"], 0);
    nobody_shares(&scene, &network, ip, "10.1.0.3").await
}

/// As a StatefulSet does it: back within milliseconds, with the same address.
#[tokio::test]
async fn a_pod_that_comes_back_at_once_keeps_its_address_until_its_own_end() -> Result<()> {
    let (scene, network) = Scene::with_network("stateful").await?;
    let collecting = scene.collect().await?;
    let first = scene.start("web-0", &network).await?;
    scene.namespace.end_pod("web-0", End::Succeeded).await?;
    let second = scene.start("web-0", &network).await?;
    assert_eq!(first.addresses, second.addresses);
    let held = rows([(1, &second.sandbox, "net1")]);
    scene.keeps("the row", COOLDOWN * 2, &held).await?;
    assert_eq!(collecting.counters().patches_sent.get(), 0);
    scene.namespace.wait_reservations(&["10.1.0.1"]).await?;

    scene.namespace.end_pod("web-0", End::Succeeded).await?;
    scene.only(&[]).await?;
    let counted = collecting.end().await;
    assert_eq!((counted["rows_freed"], counted["patches_sent"]), (1, 1));
    Ok(())
}

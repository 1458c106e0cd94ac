//! Two copies of the binary on the real API server: one leads until it is stopped in its tracks; and two that both write
//! at once.

use std::{sync::Arc, time::Duration};

use e2e::{Result, ours::Ipgc, pods::End, pools::Row, wait};
use futures::{StreamExt, TryStreamExt, stream};

use crate::{
    binary::terminated,
    support::{COOLDOWN, POOL, SHORT_WAITS, Scene, address, plan, rows, wait_of},
};

/// A Lease lasts 15 s. A copy that waits for it reads it every 2.4 s at the least.
const LEASE: Duration = Duration::from_secs(15);
/// No node counts as ready to set a pod up again before a kubelet's longest pause between two tries.
const KUBELET_TRY: Duration = Duration::from_secs(120);

/// A copy that takes part in the election of this scene, or writes without an election.
async fn copy(scene: &Scene, elects: bool) -> Result<Ipgc> {
    let cooldown = format!("--cooldown={}s", COOLDOWN.as_secs());
    let namespace = &scene.namespace.name;
    let pools = ["--pool-namespace", namespace];
    let args = [
        &pools[..],
        &[&cooldown, "--sweep-interval=1s", "--leftover-grace=5s"],
        &SHORT_WAITS,
    ]
    .concat();
    let elects = if elects { "true" } else { "false" };
    let settings = [("LEADER_ELECT", elects), ("LEASE_NAMESPACE", namespace)];
    let cluster = scene.namespace.cluster();
    let copy = Ipgc::start(cluster, cluster.access(), &args, &settings).await?;
    copy.is_ready().await?;
    Ok(copy)
}

/// One that leads, one that does not, and two pods with addresses.
async fn two(prefix: &str) -> Result<(Arc<Scene>, e2e::cni::Network, Ipgc, Ipgc)> {
    let (scene, network, _) = Scene::with_own_network(prefix).await?;
    let leader = copy(&scene, true).await?;
    leader.says("leading").await?;
    let other = copy(&scene, true).await?;
    for pod in ["web-0", "web-1"] {
        scene.start(pod, &network).await?;
    }
    // By then nobody whom they did not see can have left a row.
    tokio::time::sleep(wait_of(1)).await;
    Ok((scene, network, leader, other))
}

fn pool_of(scene: &Scene) -> String {
    reserved(scene, POOL)
}

/// The name of a reservation, or of the pool, in the network of [`two`].
fn reserved(scene: &Scene, name: &str) -> String {
    format!("{}-{name}", scene.namespace.name)
}

/// It wakes up with what it knew when it led, and with a batch that it was about to free.
#[tokio::test]
async fn a_former_leader_that_wakes_up_writes_nothing() -> Result<()> {
    let (scene, network, leader, other) = two("paused").await?;
    scene.namespace.end_pod("web-0", End::Succeeded).await?;
    scene.namespace.end_pod("web-1", End::Succeeded).await?;
    leader.process().pause()?;
    other.says("leading").await?;
    scene.namespace.wait_offsets(&pool_of(&scene), &[]).await?;
    scene.namespace.wait_reservations(&[]).await?;
    // Their names and addresses are in use again.
    let first = scene.start("web-0", &network).await?;
    let second = scene.start("web-1", &network).await?;
    let held = rows([(1, &first.sandbox, "net1"), (2, &second.sandbox, "net1")]);
    let before = leader.log();
    leader.process().resume()?;
    let pool = pool_of(&scene);
    let read = || scene.namespace.rows(&pool);
    wait::holds_for("the rows", LEASE, read, |rows| *rows == held).await?;
    scene
        .namespace
        .wait_reservations(&[&reserved(&scene, "10.1.0.1"), &reserved(&scene, "10.1.0.2")])
        .await?;
    leader.says("not leading any more").await?;
    let freed = |log: &str| log.matches("freed ").count();
    assert_eq!(freed(&leader.log()), freed(&before), "{}", leader.log());
    // It sees ends as ever, and leaves them to the other one.
    scene.namespace.end_pod("web-1", End::Succeeded).await?;
    scene.namespace.wait_offsets(&pool_of(&scene), &[1]).await?;
    scene
        .namespace
        .wait_reservations(&[&reserved(&scene, "10.1.0.1")])
        .await?;
    assert_eq!(freed(&leader.log()), freed(&before), "{}", leader.log());
    // It is one of two again, and takes over in its turn.
    terminated(other).await?;
    scene.namespace.end_pod("web-0", End::Succeeded).await?;
    scene.namespace.wait_offsets(&pool_of(&scene), &[]).await?;
    terminated(leader).await.map(drop)
}

/// Nobody elects: each frees what it sees, and all of it is freed once.
#[tokio::test]
async fn two_that_write_at_once_remove_nothing_that_lives() -> Result<()> {
    const RANGE: &str = "10.79.0.0/24";
    const PODS: i128 = 40;
    let scene = Scene::new("both").await?;
    let network = e2e::cni::Network::range("net-a", RANGE);
    scene.namespace.attach(&network).await?;
    let names: Vec<_> = (1..=PODS).map(|n| format!("web-{n}")).collect();
    let mut planted = e2e::pools::Rows::new();
    for (offset, name) in (1..).zip(&names) {
        let sandbox = e2e::cni::Sandbox::new(&scene.namespace.name, name);
        let podref = sandbox.podref();
        planted.insert(offset, Row::new(&sandbox.id, podref.clone(), "net1"));
        let address = format!("10.79.0.{offset}");
        let reserved = scene.namespace.plant_reservation(&address, &podref, "net1");
        reserved.await?;
    }
    let pool = "10.79.0.0-24";
    scene.namespace.plant_pool(pool, RANGE, &planted).await?;
    for (offset, name) in (1..).zip(&names) {
        let address = address(&format!("10.79.0.{offset}"));
        let interface = network.interface(&scene.namespace.name, "net1", &[address]);
        let plan = plan(name, "net-a");
        scene.namespace.running_pod(&plan, &[interface]).await?;
    }
    let copies = [copy(&scene, false).await?, copy(&scene, false).await?];
    tokio::time::sleep(wait_of(1)).await;
    // Half of them end, and half of those are back before their rows may go.
    let (gone, stay) = names.split_at(names.len() / 2);
    let (back, _) = gone.split_at(gone.len() / 2);
    let ending = gone
        .iter()
        .map(|name| scene.namespace.end_pod(name, End::Succeeded));
    stream::iter(ending.collect::<Vec<_>>())
        .buffer_unordered(8)
        .try_collect::<()>()
        .await?;
    for name in back {
        scene.namespace.pod(&plan(name, "net-a")).await?;
        // It adopts the row of its predecessor, or gets another one.
        let (_, interfaces) = scene.cni.set_up(name, &[&network]).await?;
        scene.namespace.run_pod(name, &interfaces).await?;
    }
    let living: Vec<_> = back
        .iter()
        .chain(stay)
        .map(|name| scene.podref(name))
        .collect();
    let owners = |rows: &e2e::pools::Rows| -> Vec<String> {
        rows.values().map(|row| row.podref.clone()).collect()
    };
    let all_live = |rows: &e2e::pools::Rows| {
        let mut owners = owners(rows);
        owners.sort();
        let mut living = living.clone();
        living.sort();
        owners == living
    };
    let read = || scene.namespace.rows(pool);
    wait::until_state("rows of the living only", wait::PATIENCE, read, all_live).await?;
    wait::holds_for("rows of the living", wait_of(2), read, all_live).await?;
    // Each row has its reservation, and no reservation is left.
    let reserved = || async { Ok(scene.namespace.reservations().await?.len()) };
    let whole = |count: &usize| *count == living.len();
    // A pod that came back while its reservation was claimed has another address: the reservation is a leftover.
    let patience = KUBELET_TRY + Duration::from_secs(60);
    wait::until_state("their reservations", patience, reserved, whole).await?;
    for copy in copies {
        terminated(copy).await?;
    }
    Ok(())
}

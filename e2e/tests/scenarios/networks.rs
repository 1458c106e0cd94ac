//! The rows and reservations of a pod whose DEL was lost are given back, and nothing else is touched. Other shapes of
//! networks are in the differential test, and on real nodes.

use std::time::Instant;

use e2e::{
    Result,
    cni::Sandbox,
    pods::{End, Interface},
};
use serde_json::json;

use crate::support::{COOLDOWN, POOL, Scene, address, plan, rows};

#[tokio::test]
async fn an_address_whose_del_was_lost_is_given_back_after_the_cooldown() -> Result<()> {
    let (scene, network) = Scene::with_network("one").await?;
    let collecting = scene.collect().await?;
    let started = scene.start("web-0", &network).await?;
    assert_eq!(started.addresses, [address("10.1.0.1")]);
    let held = rows([(1, &started.sandbox, "net1")]);
    assert_eq!(scene.namespace.wait_offsets(POOL, &[1]).await?, held);
    scene.namespace.wait_reservations(&["10.1.0.1"]).await?;

    let ended = Instant::now();
    scene.namespace.end_pod("web-0", End::Succeeded).await?;
    scene.namespace.wait_offsets(POOL, &[]).await?;
    let took = ended.elapsed();
    assert!(took >= COOLDOWN, "freed after {took:?}");
    scene.namespace.wait_reservations(&[]).await?;

    let counted = collecting.end().await;
    assert_eq!(counted["rows_freed"], 1);
    assert_eq!(counted["reservations_freed"], 1);
    // The texts that alerts on whereabouts look for, as kubectl shows them.
    assert_eq!(
        scene.pod_events().await?,
        ["Normal IPAddressGarbageCollected web-0 \
          successful cleanup of IP address [10.1.0.1] from network net-a"]
    );
    let podref = scene.podref("web-0");
    assert_eq!(
        scene.events_of("IPPool").await?,
        [format!(
            "Normal IPAddressGarbageCollected {POOL} \
             freed 1 address: 10.1.0.1 ({podref})"
        )]
    );
    Ok(())
}

#[tokio::test]
async fn a_network_of_another_ipam_costs_no_request_and_gives_no_event() -> Result<()> {
    let scene = Scene::new("static").await?;
    let audit = scene.namespace.cluster().audit();
    let config = json!({
        "cniVersion": "1.0.0", "name": "net-s", "type": "macvlan",
        "ipam": {"type": "static", "addresses": [{"address": "10.1.0.1/24"}]},
    });
    scene.namespace.network_attachment("net-s", &config).await?;
    let collecting = scene.collect().await?;
    let interface = Interface {
        network: scene.podref("net-s"),
        interface: "net1".into(),
        ips: vec![address("10.1.0.1")],
    };
    let mark = audit.mark()?;
    scene
        .namespace
        .running_pod(&plan("web-0", "net-s"), &[interface])
        .await?;
    scene.namespace.end_pod("web-0", End::Succeeded).await?;
    tokio::time::sleep(COOLDOWN * 3 / 2).await;
    let counted = collecting.end().await;
    // Other scenarios' pods end too, and each may cost a look at the names of pools here.
    let others = counted["ends_seen"] - 1;
    let requests = scene.requests(mark)?;
    let names = |request: &&e2e::audit::Request| {
        (request.verb.as_str(), request.resource.as_str()) == ("list", "ippools")
    };
    let lists = requests.iter().filter(names).count();
    assert!(lists as u64 <= others, "{others} others: {requests:#?}");
    assert_eq!(requests.len(), lists, "{requests:#?}");
    assert_eq!(scene.pod_events().await?, [""; 0]);
    Ok(())
}

/// What other tests take for granted: the plugin gives the row of a podref to its new sandbox.
#[tokio::test]
async fn a_successor_of_the_same_name_adopts_the_row() -> Result<()> {
    let (scene, network) = Scene::with_network("adopt").await?;
    let (namespace, cni) = (&scene.namespace, &scene.cni);
    let old = Sandbox::new(&namespace.name, "web-0");
    let new = Sandbox::new(&namespace.name, "web-0");
    let first = cni.add(&network, &old, "net1").await?;
    // Again for the same sandbox: nothing is written.
    let before = namespace.pool(POOL).await?;
    cni.add(&network, &old, "net1").await?;
    assert_eq!(namespace.pool(POOL).await?, before);

    assert_eq!(cni.add(&network, &new, "net1").await?, first);
    let after = namespace.pool(POOL).await?;
    let adopted = after.as_ref().map(|pool| &pool.rows);
    assert_eq!(adopted, Some(&rows([(1, &new, "net1")])));
    // The old sandbox's late DEL finds nothing that is its own.
    cni.del(&network, &old, "net1").await?;
    assert_eq!(namespace.pool(POOL).await?, after);
    Ok(())
}

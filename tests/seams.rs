//! Where two mends meet: a slice that rows disprove and its reservations, nodes of other pods and of static pods, a
//! Lease that goes while all writes are paused, a name that left its network for one with the same number.

use crate::prelude::*;
use ipgc::leader::{LEASE, PAUSE_ANNOTATION};

const SLICE: &str = "sliced-node-1-10.8.1.0-24";

/// The slice of `node-1` with a row of a pod that is gone, or ends, and one of `web-0`, which starts. Where the slice is
/// `disproved`, that is on `node-2`. Both nodes are at work, and a collector is.
async fn slice_bench(disproved: bool, hold: bool, owner: Option<&str>) -> (Bench, [Beat; 2]) {
    let server = server();
    put_sliced(&server, "sliced");
    let slices = [("node-1", "10.8.1.0/24"), ("node-2", "10.8.2.0/24")];
    put_slices(&server, NS, &slices);
    let mut pool = fixtures::pool(NS, "10.8.1.0/24")
        .name(SLICE)
        .row_of(5, "default/dead")
        .row_of(6, "default/web-0");
    if hold {
        pool = pool.annotation("ipgc.dev/hold", "true");
    }
    server.put(pool);
    reserve(&server, "sliced-10.8.1.5", "dead");
    reserve(&server, "sliced-10.8.1.6", "web-0");
    if let Some(owner) = owner {
        let pod = on_net("sliced", "dead", "10.8.1.5").owner(owner, "x");
        server.put(pod.running());
    }
    // Moved from node-1 to node-2, and starting there.
    let node = if disproved { "node-2" } else { "node-1" };
    let pod = asking("web-0").node(node).networks("default/sliced");
    server.put(pod.status(fixtures::starting_status()));
    let beats = ["node-1", "node-2"].map(|node| live_node(&server, node));
    (Bench::long_since(server, Config::default()).await, beats)
}

/// A person holds the pool, or admission refuses its patch: the row stays, and so does the reservation.
#[rstest]
#[tokio::test(start_paused = true)]
async fn the_reservation_of_a_row_that_is_kept_in_a_slice_stays(
    #[values(false, true)] disproved: bool,
    #[values(false, true)] hold: bool,
) {
    let (bench, _beats) = slice_bench(disproved, hold, Some("ReplicaSet")).await;
    let refused = bench.on(Match::patch("ippools")).fail(400);
    bench.end(["dead"]);
    seconds(7_200).await;
    assert_eq!(refused.hits() > 0, !hold);
    assert_eq!(bench.rows(SLICE), ["5", "6"]);
    assert_eq!(bench.reservations(), ["sliced-10.8.1.5", "sliced-10.8.1.6"]);
}

/// Without an owner that makes up names, the reservation would be claimed and given back again and again.
#[rstest]
#[case::a_slice(false)]
#[case::disproved(true)]
#[tokio::test(start_paused = true)]
async fn the_reservation_of_a_row_in_a_held_slice_is_not_claimed(#[case] disproved: bool) {
    let (bench, _beats) = slice_bench(disproved, true, None).await;
    seconds(7_200).await;
    assert_eq!(bench.rows(SLICE), ["5", "6"]);
    assert!(bench.sent(Match::patch(ORIP)).is_empty());
}

/// The other pod was forced away, and its node turned `NotReady` while the watch of nodes was dead.
#[rstest]
#[case::the_watch_lives(false)]
#[case::the_watch_is_dead(true)]
#[tokio::test(start_paused = true)]
async fn the_node_of_another_pod_is_read_in_the_proof(#[case] dead: bool) {
    let server = with_neighbour(&[(1, "p")]);
    let _beats = ["node-1", "node-2"].map(|n| live_node(&server, n));
    run_on(&server, "node-1", "q", 1);
    let p = reporting("p", 1).node("node-2").owner("ReplicaSet", "ps");
    server.put(p.running());
    let bench = Bench::long_since(server, Config::default()).await;
    if dead {
        bench.on_events(Match::watch("nodes")).lose();
    }
    bench.kubelet().force_delete(NS, "q");
    seconds(30).await;
    bench.kubelet().set_ready("node-1", false);
    bench.end(["p"]);
    stays(&bench, POOL, &["1"]).await;
}

/// DEL gave the address back, and whereabouts gave it to a pod that was born after that.
#[rstest]
#[case::of_two_interfaces(2, false)]
#[case::of_three_interfaces(3, false)]
#[case::of_a_node_that_is_silent_now(1, true)]
#[tokio::test(start_paused = true)]
async fn an_address_that_del_gave_back_is_not_held_for_the_pod_before(
    #[case] interfaces: usize,
    #[case] silent: bool,
) {
    let server = with_neighbour(&[(1, "q")]);
    let beat = live_node(&server, "node-1");
    let _other = live_node(&server, "node-2");
    let mut q = reporting("q", 1).node("node-1");
    for n in 1..interfaces {
        let interface = format!("net{}", n + 1);
        q = q.reports("default/other", &interface, &[&format!("10.9.0.{n}")]);
    }
    server.put(q.owner("ReplicaSet", "qs").running());
    let bench = Bench::long_since(server, Config::default()).await;
    bench.kubelet().force_delete(NS, "q");
    seconds(5).await;
    // DEL; then a pod is born, and ADD gives it the address.
    let p = reporting("p", 1).node("node-2").owner("ReplicaSet", "ps");
    let young = asking("p").node("node-2").owner("ReplicaSet", "ps");
    bench.put(young.status(fixtures::starting_status()));
    seconds(1).await;
    put_row(&bench, 1, "p", 77);
    bench.put(p.running());
    seconds(60).await;
    if silent {
        fall_silent(&bench, "node-1", beat);
    }
    seconds(30).await;
    bench.end(["p"]);
    goes_in(&bench, POOL, "1", 0..=9).await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_deleted_ends_the_pause() {
    let server = running(&[(1, "web-1")]);
    let config = Config::default().with(|it| it.lease_namespace = Some("ipgc-system".into()));
    let mut running = launch(&server, config);
    assert!(running.ready().await);
    seconds(10).await;
    assert!(running.context.is_leader());
    server.edit("leases", "ipgc-system", LEASE, |l| {
        l["metadata"]["annotations"] = json!({ PAUSE_ANNOTATION: "" });
    });
    seconds(20).await;
    assert!(!running.context.is_leader());
    assert!(server.delete("leases", "ipgc-system", LEASE).is_some());
    seconds(3_600).await;
    assert!(
        running.context.is_leader(),
        "the Lease bears no annotation, and nobody leads"
    );
}

/// A static pod's sandbox does not end with its mirror, however well that ends.
#[rstest]
#[case::the_watch_lives(false, true)]
#[case::the_watch_is_dead(true, true)]
#[case::the_watch_is_dead_and_the_mirror_forced_away(true, false)]
#[tokio::test(start_paused = true)]
async fn the_node_of_a_static_pod_is_read_in_the_proof(#[case] dead: bool, #[case] settled: bool) {
    let server = with_neighbour(&[(1, "web-node-1"), (2, "old-node-2")]);
    let _beats = ["node-1", "node-2"].map(|n| live_node(&server, n));
    server.put(reporting("web-node-1", 1).node("node-1").mirror().running());
    let bench = Bench::long_since(server, Config::default()).await;
    assert_eq!(bench.rows(POOL), ["1", "200"]);
    if dead {
        bench.on_events(Match::watch("nodes")).lose();
    }
    if settled {
        bench.end(["web-node-1"]);
    } else {
        bench.kubelet().force_delete(NS, "web-node-1");
    }
    seconds(30).await;
    bench.kubelet().set_ready("node-1", false);
    stays(&bench, POOL, &["1"]).await;
}

/// The pod's row of the same number in the other network does not keep the reservation.
#[rstest]
#[case::one_pool(false)]
#[case::overlapping_pools(true)]
#[tokio::test(start_paused = true)]
async fn the_reservation_of_a_network_that_a_name_left_goes(#[case] overlapping: bool) {
    let server = server();
    for net in ["blue", "red"] {
        put_network(&server, net, net, RANGE);
    }
    server.put(fixtures::pool(NS, RANGE).network_name("blue"));
    if overlapping {
        server.put(fixtures::pool(NS, "10.0.0.0/16").network_name("blue"));
    }
    let red = fixtures::pool(NS, RANGE).network_name("red");
    server.put(red.row_of(1, "default/web-0"));
    for net in ["blue", "red"] {
        reserve(&server, &format!("{net}-10.0.0.1"), "web-0");
    }
    let _beat = live_node(&server, "node-1");
    server.put(on_net("red", "web-0", "10.0.0.1").running());
    let bench = Bench::with(server, Config::default()).await;
    seconds(4 * 3_600).await;
    assert_eq!(bench.reservations(), ["red-10.0.0.1"]);
}

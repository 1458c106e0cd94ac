//! The watch of nodes is dead without an error: the changes that it did not show are read before a row is freed.

use crate::prelude::*;

/// From now on the watch of nodes tells nothing.
fn watch_dies(server: &Server) -> Rule {
    server.on_events(Match::watch("nodes")).lose()
}

/// `web-0` has lived for long on `node-1`, which is at work.
async fn at_work() -> (Bench, Beat) {
    let server = with_neighbour(&[(1, "web-0")]);
    let beat = live_node(&server, "node-1");
    run_on(&server, "node-1", "web-0", 1);
    (Bench::long_since(server, Config::default()).await, beat)
}

/// A pod is forced away, and a minute later its node is not ready, which the watch does not tell.
async fn turned_unseen() -> (Bench, Beat) {
    let (bench, beat) = at_work().await;
    watch_dies(&bench);
    bench.kubelet().force_delete(NS, "web-0");
    seconds(60).await;
    bench.kubelet().set_ready("node-1", false);
    (bench, beat)
}

/// Its kubelet renews its Lease all the time, and cannot stop sandboxes.
#[tokio::test(start_paused = true)]
async fn a_node_that_turned_not_ready_unseen_holds_the_rows_of_its_pods() {
    let (bench, _beat) = turned_unseen().await;
    stays(&bench, POOL, &["1"]).await;
}

/// It is ready again by the time that it is read; but since when, its condition tells.
#[tokio::test(start_paused = true)]
async fn a_node_that_was_not_ready_meanwhile_begins_its_wait_anew() {
    let (bench, _beat) = turned_unseen().await;
    seconds(120).await;
    bench.kubelet().set_ready("node-1", true);
    goes_in(&bench, POOL, "1", W..=2 * W + 120).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_turned_not_ready_unseen_holds_the_rows_of_pods_that_nobody_saw() {
    let server = with_neighbour(&[(1, "gone")]);
    let _beats = ["node-1", "node-2"].map(|node| live_node(&server, node));
    let bench = Bench::start(server).await;
    seconds(1).await;
    watch_dies(&bench);
    bench.kubelet().set_ready("node-2", false);
    stays(&bench, POOL, &["1"]).await;
}

/// The name of a reservation tells no node: others than that of the slice are read too.
#[tokio::test(start_paused = true)]
async fn a_node_that_turned_not_ready_unseen_holds_reservations_alone_in_slices_of_others() {
    let server = Server::new();
    put_slices(&server, NS, &[("node-2", "10.8.2.0/24")]);
    server.put(fixtures::pool(NS, "10.8.2.0/24").name("sliced-node-2-10.8.2.0-24"));
    reserve(&server, "sliced-10.8.2.1", "web-0");
    let _beats = ["node-1", "node-2"].map(|node| live_node(&server, node));
    let bench = Bench::start(server).await;
    seconds(1).await;
    watch_dies(&bench);
    bench.kubelet().set_ready("node-1", false);
    seconds(3_600).await;
    assert_eq!(bench.reservations(), ["sliced-10.8.2.1"]);
}

/// The same where a pod has a grace longer than any counts for pods that nobody saw.
#[rstest]
#[case::usual(30, W)]
#[case::of_six_hours(21_600, W - 30 + 3_600)]
#[tokio::test(start_paused = true)]
async fn a_node_that_came_back_unseen_and_silent_holds_the_rows_of_pods_that_nobody_saw(
    #[case] grace: u64,
    #[case] wait: u64,
) {
    let server = with_neighbour(&[(1, "gone")]);
    let slow = reporting("slow", 9).node("node-2");
    server.put(slow.with(|pod| pod["spec"]["terminationGracePeriodSeconds"] = grace.into()));
    silent_node(&server, "node-1");
    let _beat = live_node(&server, "node-2");
    let bench = Bench::start(server).await;
    seconds(600).await;
    bench.delete("nodes", "", "node-1");
    seconds(1).await;
    let dead = watch_dies(&bench);
    bench.put(fixtures::node("node-1", false));
    stays(&bench, POOL, &["1"]).await;
    // It goes once the node has been gone for W, which the watch tells again.
    dead.remove();
    bench.delete("nodes", "", "node-1");
    goes_after(&bench, POOL, "1", wait + 120).await;
}

/// The row is of a second sandbox, whose set-up was cut off: the pod ended well all the same.
#[rstest]
#[case::that_turned_not_ready(|_: &Bench| {}, |bench: &Bench| bench.kubelet().set_ready("node-1", false))]
#[case::whose_fence_is_over(|bench: &Bench| {
    bench.kubelet().set_ready("node-1", false);
    taint(bench, "node-1");
}, |bench: &Bench| silent_node(bench, "node-1"))]
#[tokio::test(start_paused = true)]
async fn a_node_holds_the_row_of_a_second_sandbox_whatever_its_watch_does_not_tell(
    #[case] told: fn(&Bench),
    #[case] untold: fn(&Bench),
) {
    let (bench, _beat) = at_work().await;
    // The node is read for it, and then known to have been at work all the time.
    put_row(&bench, 2, "gone", 2);
    goes_after(&bench, POOL, "2", W + 120).await;
    put_row(&bench, 1, "web-0", 9);
    told(&bench);
    seconds(2).await;
    watch_dies(&bench);
    bench.end(["web-0"]);
    seconds(1).await;
    untold(&bench);
    stays(&bench, POOL, &["1"]).await;
}

/// No state showed the set-up, but a sweep saw its row while the pod lived.
#[tokio::test(start_paused = true)]
async fn the_row_of_a_second_sandbox_that_a_sweep_saw_waits_for_w() {
    let (bench, _beat) = at_work().await;
    put_row(&bench, 1, "web-0", 9);
    seconds(600).await;
    bench.end(["web-0"]);
    goes_in(&bench, POOL, "1", W - 5..=W + 120).await;
}

/// A pod was bound there in a gap of the watch of pods.
#[tokio::test(start_paused = true)]
async fn a_node_whose_fence_ended_unseen_holds_the_rows_of_pods_that_nobody_saw() {
    let server = with_neighbour(&[]);
    let _beats = ["node-1", "node-2"].map(|node| live_node(&server, node));
    let bench = Bench::long_since(server, Config::default()).await;
    bench.kubelet().set_ready("node-2", false);
    taint(&bench, "node-2");
    seconds(2).await;
    let dead = watch_dies(&bench);
    silent_node(&bench, "node-2");
    let gap = bench.gap().await;
    put_row(&bench, 1, "gone", 1);
    bench.compact();
    gap.remove();
    stays(&bench, POOL, &["1"]).await;
    dead.remove();
    let _beat = come_back(&bench, "node-2");
    goes_in(&bench, POOL, "1", W..=W + 120).await;
}

/// A list tells that it is gone.
#[tokio::test(start_paused = true)]
async fn a_silent_node_that_goes_while_no_watch_can_begin_holds_its_rows_no_more() {
    let server = with_neighbour(&[(1, "web-0")]);
    silent_node(&server, "node-1");
    run_on(&server, "node-1", "web-0", 1);
    let bench = Bench::long_since(server, Config::default()).await;
    bench.kubelet().force_delete(NS, "web-0");
    bench.on(Match::watch("nodes")).fail(403);
    bench.cut_watches("nodes");
    bench.delete("nodes", "", "node-1");
    goes_in(&bench, POOL, "1", 300 + W..=300 + W + 120).await;
}

/// Nodes that were read once after a wait need not be read for each row.
#[tokio::test(start_paused = true)]
async fn nodes_are_read_once_for_the_rows_of_pods_that_nobody_saw() {
    let names: Vec<_> = (1..=9).map(|n| format!("gone-{n}")).collect();
    let rows = numbered(&names);
    let server = with_neighbour(&rows);
    let others = (0..9).map(|third| {
        let pool = fixtures::pool(NS, &format!("10.7.{third}.0/24"));
        let pool = pool.row(1, &fixtures::sandbox(70 + third), "default/other", "net1");
        pool.build()
    });
    server.put_all(others);
    let _beats = ["node-1", "node-2", "node-3"].map(|node| live_node(&server, node));
    let bench = Bench::start(server).await;
    for (key, _) in rows {
        goes_after(&bench, POOL, &key.to_string(), W + 120).await;
    }
    seconds(60).await;
    let read = bench.sent(Match::get("nodes")).len();
    assert!((3..=6).contains(&read), "{read}");
    neighbour_goes(&bench, POOL).await;
}

/// This number of nodes is large enough for a LIST instead of single reads.
#[tokio::test(start_paused = true)]
async fn many_nodes_are_listed() {
    let server = with_neighbour(&[(1, "gone")]);
    let kubelet = Kubelet::new(&server);
    let nodes = (0..300).map(|n| fixtures::node(&format!("node-{n}"), true));
    server.put_all(nodes);
    let beats = tokio::spawn(async move {
        loop {
            for n in 0..300 {
                kubelet.renew_lease(&format!("node-{n}"));
            }
            seconds(10).await;
        }
    });
    let bench = Bench::start(server).await;
    goes_after(&bench, POOL, "1", W + 120).await;
    assert!(bench.sent(Match::get("nodes")).len() <= 64);
    let lists = bench.sent(Match::list("nodes"));
    assert!(!lists.filter(|list| list.limit == Some(250)).is_empty());
    beats.abort();
}

/// `web-0` has been deleting for W on a node whose kubelet cannot stop it.
async fn does_not_stop(others: &[(u64, &str)]) -> (Bench, Beat) {
    let server = with_neighbour(&[&[(1, "web-0")], others].concat());
    let beat = live_node(&server, "node-1");
    for (offset, name) in [&[(1, "web-0")], others].concat() {
        run_on(&server, "node-1", name, offset);
    }
    let bench = Bench::long_since(server, seldom()).await;
    bench.kubelet().begin_delete(NS, "web-0");
    seconds(60).await;
    for (_, name) in others {
        bench.kubelet().force_delete(NS, name);
    }
    seconds(W).await;
    (bench, beat)
}

/// Its node fails, and what shows that first is a read for the row of another pod.
#[tokio::test(start_paused = true)]
async fn a_kubelet_that_did_not_stop_a_pod_is_known_also_if_its_node_is_read() {
    let (bench, _beat) = does_not_stop(&[(2, "web-1")]).await;
    let dead = watch_dies(&bench);
    bench.kubelet().set_ready("node-1", false);
    seconds(60).await;
    assert!(!bench.sent(Match::get("nodes")).is_empty());
    bench.kubelet().force_delete(NS, "web-0");
    seconds(60).await;
    dead.remove();
    bench.kubelet().set_ready("node-1", true);
    stays(&bench, POOL, &["1"]).await;
}

/// Its Node is deleted while the watch of nodes is lost, and is there again soon.
#[tokio::test(start_paused = true)]
async fn a_kubelet_that_did_not_stop_a_pod_is_known_also_if_a_list_lacks_its_node() {
    let (bench, beat) = does_not_stop(&[]).await;
    let dead = watch_dies(&bench);
    bench.delete("nodes", "", "node-1");
    dead.remove();
    bench.on(Match::watch("nodes")).once().fail(410);
    bench.cut_watches("nodes");
    seconds(10).await;
    bench.kubelet().force_delete(NS, "web-0");
    seconds(10).await;
    drop(beat);
    let _beat = live_node(&bench, "node-1");
    stays(&bench, POOL, &["1"]).await;
}

//! Nodes, Leases and slices are read late, are spoilt or cannot be read. A row that needs them is not freed, every
//! other row is. Once they can be read again, no such row stays.

use crate::prelude::*;

/// A fault on a LIST of this resource.
fn spoil(server: &Server, resource: &str, fault: &str) -> Rule {
    strike(server.on(Match::list(resource)), fault)
}

/// `web-0` is born with row 1 on `node-1`, which is there, long after the collector began.
async fn bear(bench: &Bench) {
    seconds(600).await;
    run_on(bench, "node-1", "web-0", 1);
    put_row(bench, 1, "web-0", 1);
    seconds(60).await;
}

/// `web-0` lives with row 1 on `node-1`, which is at work.
async fn at_work() -> (Bench, Beat) {
    let server = with_neighbour(&[]);
    let beat = live_node(&server, "node-1");
    let bench = Bench::start(server).await;
    bear(&bench).await;
    (bench, beat)
}

/// The slice of `node-2`, with one row that leaked.
const SLICE: &str = "sliced-node-2-10.8.2.0-24";

fn put_slice_pool(server: &Server) {
    put_slices(server, NS, &[("node-2", "10.8.2.0/24")]);
    let pool = fixtures::pool(NS, "10.8.2.0/24").name(SLICE);
    let pool = pool.row(1, &fixtures::sandbox(81), "default/gone", "net1");
    server.put(pool);
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn slices_that_cannot_be_read_stop_no_other_row(
    #[values("500", "html", "half", "item", "hang")] fault: &str,
) {
    let server = with_neighbour(&[]);
    let _beats = ["node-1", "node-2"].map(|node| live_node(&server, node));
    put_row(&server, 9, "leaked", 9);
    put_slice_pool(&server);
    let rule = spoil(&server, "nodeslicepools", fault);
    let bench = Bench::start(server).await;
    goes_after(&bench, POOL, "9", 900).await;
    // Nobody knows whose slice that is; all nodes are at work.
    goes_after(&bench, SLICE, "1", 900).await;
    bear(&bench).await;
    bench.end(["web-0"]);
    goes_in(&bench, POOL, "1", 0..=9).await;
    assert!(rule.hits() > 0);
    neighbour_goes(&bench, POOL).await;
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn while_slices_cannot_be_read_every_node_blocks(
    #[values("500", "html", "half", "item", "hang")] fault: &str,
) {
    let server = with_neighbour(&[]);
    silent_node(&server, "node-1");
    let _beat = live_node(&server, "node-2");
    put_slice_pool(&server);
    let rule = spoil(&server, "nodeslicepools", fault);
    let bench = Bench::start(server).await;
    seconds(3_600).await;
    neighbour_goes(&bench, POOL).await;
    assert_eq!(bench.rows(SLICE), ["1"]);
    assert!(rule.hits() > 0);
    rule.remove();
    // It is node-2's, and that one has been at work all the time.
    goes_after(&bench, SLICE, "1", 900).await;
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn without_leases_a_forced_end_waits(#[values("500", "html", "half", "hang")] fault: &str) {
    let (bench, _beat) = at_work().await;
    let rule = spoil(&bench, "leases", fault);
    bench.kubelet().force_delete(NS, "web-0");
    stays(&bench, POOL, &["1"]).await;
    // Asked again and again, not in a hot loop.
    assert!((10..2_000).contains(&rule.hits()), "{}", rule.hits());
    rule.remove();
    goes_in(&bench, POOL, "1", W..=W + 120).await;
}

/// The list tells the nodes that may run a pod that was never seen: its row may be of any of those that are not known. A pod
/// that was seen, and waits for a kubelet at work, does not need the list.
#[tokio::test(start_paused = true)]
async fn nodes_that_cannot_be_listed_hold_a_row_of_a_pod_that_nobody_saw_alone() {
    let server = with_neighbour(&[]);
    let _beat = live_node(&server, "node-1");
    put_row(&server, 2, "gone", 2);
    let listed = Match::list("nodes").filter(|request| request.metadata_only);
    let listed = server.on(listed).fail(500);
    let bench = Bench::start(server).await;
    bear(&bench).await;
    bench.kubelet().force_delete(NS, "web-0");
    goes_in(&bench, POOL, "1", W..=W + 120).await;
    stays(&bench, POOL, &["2"]).await;
    assert!(listed.hits() > 10);
    listed.remove();
    goes_after(&bench, POOL, "2", W + 300).await;
}

/// A case that waits for Leases is tried now and then meanwhile, and not all the time.
#[tokio::test(start_paused = true)]
async fn leases_that_are_not_to_be_had_when_a_wait_ends_are_waited_for() {
    let (bench, _beat) = at_work().await;
    bench.kubelet().force_delete(NS, "web-0");
    seconds(W - 5).await;
    let rule = spoil(&bench, "leases", "500");
    bench.clear_requests();
    seconds(120).await;
    let looks = bench.sent(Match::get("ippools")).len();
    // One in five seconds.
    assert!((1..30).contains(&looks), "{looks}");
    assert_eq!(bench.rows(POOL).len(), 2);
    rule.remove();
    goes_after(&bench, POOL, "1", W + 120).await;
}

/// The next LIST of Leases is sent.
async fn leases_are_asked_for(bench: &Bench) {
    let lists = || bench.sent(Match::list("leases")).len();
    let before = lists();
    while lists() == before {
        sleep(Duration::from_millis(100)).await;
    }
}

/// The content of a LIST may be as old as its request when the answer comes.
#[tokio::test(start_paused = true)]
async fn a_kubelet_that_died_while_leases_were_listed_has_not_lived_through_its_wait() {
    let config = Config::default().with(|it| it.policy.grace = Duration::from_secs(30));
    let wait = config.policy.wait(None, Duration::ZERO, 1);
    let server = with_neighbour(&[]);
    put_row(&server, 1, "web-0", 1);
    server.put(fixtures::node("node-1", true));
    let kubelet = Kubelet::new(&server);
    let beat = tokio::spawn(async move {
        loop {
            kubelet.renew_lease("node-1");
            seconds(1).await;
        }
    });
    let bench = Bench::with(server, config).await;
    run_on(&bench, "node-1", "web-0", 1);
    seconds(1_800).await;
    bench.kubelet().force_delete(NS, "web-0");
    sleep(wait.saturating_sub(Duration::from_secs(6))).await;
    leases_are_asked_for(&bench).await;
    // They are every three seconds: the next LIST shows a renewal that this one did not, and none comes after it.
    sleep(Duration::from_millis(1_500)).await;
    beat.abort();
    let slow = bench.on(Match::list("leases"));
    let slow = slow.after(|_| seconds(19));
    stays(&bench, POOL, &["1"]).await;
    assert!(slow.hits() > 0);
}

/// And it may be as young as the answer.
#[tokio::test(start_paused = true)]
async fn a_kubelet_that_came_back_while_leases_were_listed_begins_its_wait_then() {
    let server = with_neighbour(&[]);
    put_row(&server, 1, "web-0", 1);
    silent_node(&server, "node-1");
    let bench = Bench::start(server).await;
    run_on(&bench, "node-1", "web-0", 1);
    seconds(60).await;
    bench.kubelet().force_delete(NS, "web-0");
    seconds(1_800).await;
    leases_are_asked_for(&bench).await;
    let slow = bench.on(Match::list("leases")).once();
    let slow = slow.delay(Duration::from_secs(19));
    leases_are_asked_for(&bench).await;
    seconds(17).await;
    let _beat = come_back(&bench, "node-1");
    goes_in(&bench, POOL, "1", W..=W + 120).await;
    assert_eq!(slow.hits(), 1);
}

/// A node of which hardly more than the name is told.
fn put_odd(server: &Server, name: &str, status: Value) {
    server.put(fixtures::node(name, true));
    server.edit("nodes", "", name, |node| {
        node["metadata"].as_object_mut().unwrap().remove("uid");
        node["status"] = status;
    });
}

#[tokio::test(start_paused = true)]
async fn a_node_of_which_nothing_is_told_is_not_at_work() {
    let server = with_neighbour(&[]);
    put_row(&server, 9, "leaked", 9);
    put_odd(&server, "odd-1", Value::Null);
    put_odd(&server, "odd-2", json!({ "conditions": [{}] }));
    let bench = Bench::start(server).await;
    // The watch tells of others, whose kubelets renew their Leases.
    put_odd(&bench, "odd-3", json!({ "conditions": null }));
    put_odd(&bench, "odd-4", json!({}));
    let _beats = ["odd-1", "odd-3"].map(|node| Beat::of(&bench, node));
    seconds(600).await;
    let pod = reporting("web-0", 1).node("odd-3");
    bench.put(pod.running());
    put_row(&bench, 1, "web-0", 1);
    seconds(60).await;
    bench.kubelet().force_delete(NS, "web-0");
    stays(&bench, POOL, &["1", "9"]).await;
    for node in ["odd-1", "odd-2", "odd-3", "odd-4"] {
        bench.delete("nodes", "", node);
    }
    for key in ["1", "9"] {
        goes_after(&bench, POOL, key, W + 120).await;
    }
}

/// Anybody may write a Lease who has the right to.
#[rstest]
#[tokio::test(start_paused = true)]
async fn a_lease_that_somebody_else_holds_is_no_sign_of_a_kubelet(
    #[values(Some("backup-tool"), Some(""), None)] holder: Option<&'static str>,
) {
    let server = with_neighbour(&[]);
    server.put(fixtures::node("node-1", true));
    let writer = server.clone();
    let somebody = tokio::spawn(async move {
        loop {
            let now = format!("{:.6}", writer.now());
            let mut lease = fixtures::lease("kube-node-lease", "node-1", "", &now);
            lease["spec"]["holderIdentity"] = holder.into();
            writer.put(lease);
            seconds(10).await;
        }
    });
    let bench = Bench::start(server).await;
    bear(&bench).await;
    bench.kubelet().force_delete(NS, "web-0");
    stays(&bench, POOL, &["1"]).await;
    somebody.abort();
    let _beat = Beat::of(&bench, "node-1");
    goes_in(&bench, POOL, "1", W..=W + 120).await;
}

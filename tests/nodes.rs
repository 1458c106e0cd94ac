//! Grades that depend on nodes: a kubelet at work, a silent one, and each way out of a hold, every
//! one with a timer of its own and no sweep in between.

use crate::prelude::*;
use ipgc_core::{evidence::Unfenced, judge::Word};

/// No sweep after the one at the start.
fn no_sweeps() -> Config {
    Config::default().with(|it| it.sweep_interval = Duration::from_secs(30 * 86_400))
}

/// `web-0` lives on `node-1`, which is at work; no sweep comes.
async fn stage(config: Config) -> (Bench, Beat) {
    let server = with_neighbour(&[(1, "web-0")]);
    let beat = live_node(&server, "node-1");
    let bench = Bench::with(server, config).await;
    run_on(&bench, "node-1", "web-0", 1);
    seconds(1_800).await;
    bench.clear_requests();
    (bench, beat)
}

/// The same, and then the node falls silent and the pod is removed by force: an hour later its row
/// is still there.
async fn held(config: Config) -> Bench {
    let (bench, beat) = stage(config).await;
    fall_silent(&bench, "node-1", beat);
    bench.kubelet().force_delete(NS, "web-0");
    stays(&bench, POOL, &["1"]).await;
    bench
}

async fn next_second_goes(bench: &Bench) {
    goes_in(bench, POOL, "1", 0..=2).await;
}

async fn goes_after_w(bench: &Bench) {
    goes_in(bench, POOL, "1", W..=W + 120).await;
}

/// However short the waits are: for one that begins later it is enough to know that there is a kubelet.
#[tokio::test(start_paused = true)]
async fn leases_are_read_every_ten_seconds_while_nobody_waits() {
    let config = no_sweeps().with(|it| it.policy.grace = Duration::from_secs(1));
    let server = server();
    let _beat = live_node(&server, "node-1");
    let bench = Bench::with(server, config).await;
    seconds(60).await;
    let reads = bench.sent(Match::list("leases")).len();
    assert!((5..=8).contains(&reads), "{reads} reads in a minute");
}

#[tokio::test(start_paused = true)]
async fn lease_that_stops_changing_starts_the_wait_anew() {
    let (bench, beat) = stage(no_sweeps()).await;
    bench.kubelet().force_delete(NS, "web-0");
    seconds(100).await;
    // The node is still Ready for the API server, and its kubelet says nothing.
    drop(beat);
    seconds(120).await;
    stays(&bench, POOL, &["1"]).await;
    let _beat = Beat::of(&bench, "node-1");
    goes_after_w(&bench).await;
}

#[tokio::test(start_paused = true)]
async fn hold_is_told_once_with_what_releases_it() {
    let (bench, beat) = stage(no_sweeps()).await;
    fall_silent(&bench, "node-1", beat);
    // Evicted by taint, then removed by force. Its containers run on.
    bench.kubelet().begin_delete(NS, "web-0");
    seconds(300).await;
    bench.kubelet().collect_pod(NS, "web-0");
    seconds(45 * 60).await;
    let events = pool_events(&bench, "IPAddressHeldUnfenced");
    let [event] = &events[..] else {
        panic!("{events:?}");
    };
    let parts = [
        "Warning",
        "default/web-0",
        "node-1",
        "node.kubernetes.io/out-of-service",
        "kubectl annotate node node-1 --overwrite ipgc.dev/no-sandboxes=",
    ];
    says(event, &parts);
    assert_eq!(bench.counted("rows_held"), 1);
    // The API server forgets it after an hour.
    seconds(15 * 60).await;
    assert_eq!(pool_events(&bench, "IPAddressHeldUnfenced").len(), 2);
    assert_eq!(bench.rows(POOL), ["1", NEIGHBOUR_KEY]);
}

/// Whether the hold has an end or not.
#[rstest]
#[tokio::test(start_paused = true)]
async fn node_that_is_fenced_frees_at_once(
    #[values(taint, declare_empty)] fence: fn(&Server, &str),
    #[values(Unfenced::Hold, Unfenced::FreeAfter(Duration::from_hours(24)))] unfenced: Unfenced,
) {
    let bench = held(no_sweeps().with(|it| it.policy.unfenced = unfenced)).await;
    assert!(!pool_events(&bench, "IPAddressHeldUnfenced").is_empty());
    fence(&bench, "node-1");
    next_second_goes(&bench).await;
}

/// The kubelet was at work when the pod ended, so that its row waits for a moment and for no node.
#[rstest]
#[tokio::test(start_paused = true)]
async fn node_that_is_fenced_while_a_row_waits_frees_at_once(
    #[values(taint, declare_empty)] fence: fn(&Server, &str),
) {
    let (bench, beat) = stage(no_sweeps()).await;
    bench.kubelet().force_delete(NS, "web-0");
    seconds(65).await;
    fall_silent(&bench, "node-1", beat);
    assert_eq!(bench.rows(POOL), ["1", NEIGHBOUR_KEY]);
    fence(&bench, "node-1");
    next_second_goes(&bench).await;
}

#[tokio::test(start_paused = true)]
async fn statement_from_before_the_node_changed_is_none() {
    let (bench, beat) = stage(no_sweeps()).await;
    declare_empty(&bench, "node-1");
    seconds(60).await;
    fall_silent(&bench, "node-1", beat);
    bench.kubelet().force_delete(NS, "web-0");
    stays(&bench, POOL, &["1"]).await;
}

#[tokio::test(start_paused = true)]
async fn fences_of_a_ready_node_are_none() {
    let (bench, _beat) = stage(no_sweeps()).await;
    declare_empty(&bench, "node-1");
    taint(&bench, "node-1");
    bench.kubelet().force_delete(NS, "web-0");
    goes_after_w(&bench).await;
}

#[tokio::test(start_paused = true)]
async fn fence_that_is_taken_back_before_the_free_holds() {
    let bench = held(no_sweeps()).await;
    // The watch shows the taint; when the node is read, it is gone again.
    let reads = bench.on(Match::get("nodes").name("node-1"));
    let reads = reads.before(|server| async move {
        server.edit("nodes", "", "node-1", |node| {
            node["spec"]["taints"] = json!([]);
        });
    });
    taint(&bench, "node-1");
    seconds(3_600).await;
    assert!(reads.hits() > 0, "the node was not read");
    assert_eq!(bench.rows(POOL), ["1"], "\n{}", bench.requests());
    reads.remove();
    taint(&bench, "node-1");
    next_second_goes(&bench).await;
}

#[tokio::test(start_paused = true)]
async fn node_that_cannot_be_read_is_not_fenced() {
    let bench = held(Config::default()).await;
    let reads = bench.on(Match::get("nodes")).fail(500);
    taint(&bench, "node-1");
    seconds(60).await;
    assert!(reads.hits() > 0);
    assert_eq!(bench.rows(POOL), ["1"]);
    reads.remove();
    goes_after(&bench, POOL, "1", 900).await;
}

#[tokio::test(start_paused = true)]
async fn free_after_ends_the_hold_of_a_silent_node() {
    let config =
        no_sweeps().with(|it| it.policy.unfenced = Unfenced::FreeAfter(Duration::from_secs(3_000)));
    let (bench, beat) = stage(config).await;
    fall_silent(&bench, "node-1", beat);
    bench.kubelet().force_delete(NS, "web-0");
    let waited = goes_after(&bench, POOL, "1", 3_100).await;
    assert!((2_990..3_030).contains(&waited), "freed after {waited} s");
}

/// One that comes back is listened to at once, although no row waits for a node that is ready: a row that is
/// held by another node goes when that one is fenced.
#[tokio::test(start_paused = true)]
async fn node_that_comes_back_is_listened_to_while_another_is_silent() {
    let server = server();
    let pods: Vec<_> = (1..=6).map(|n| format!("web-{n}")).collect();
    put_pool(&server, &numbered(&pods));
    silent_node(&server, "node-1");
    silent_node(&server, "node-2");
    let bench = Bench::with(server, no_sweeps()).await;
    let all = ["1", "2", "3", "4", "5", "6"];
    seconds(1_800).await;
    let _beat = come_back(&bench, "node-1");
    seconds(3_600).await;
    assert_eq!(bench.rows(POOL), all);
    taint(&bench, "node-2");
    for key in all {
        goes_in(&bench, POOL, key, 0..=2).await;
    }
}

/// A pod that nobody saw left its reservation alone. Its successor accepts it, and ends well on another node.
#[rstest]
#[case::that_was_read(0, false)]
#[case::that_may_be_there(500, false)]
#[case::and_waited_for_its_node(0, true)]
#[tokio::test(start_paused = true)]
async fn row_of_a_pod_that_accepted_a_reservation_alone_is_blocked_by_a_silent_node(
    #[case] failure: u16,
    #[case] pending: bool,
) {
    let server = with_neighbour(&[]);
    if pending {
        server.put(fixtures::pod(NS, "web-0"));
    }
    if failure != 0 {
        server.on(Match::list(ORIP)).fail(failure);
    }
    silent_node(&server, "node-2");
    let _beat = live_node(&server, "node-1");
    reserve(&server, "10.0.0.1", "web-0");
    let bench = Bench::long_since(server, Config::default()).await;
    put_row(&bench, 1, "web-0", 1);
    run_on(&bench, "node-1", "web-0", 1);
    seconds(600).await;
    bench.end(["web-0"]);
    stays(&bench, POOL, &["1"]).await;
    let _beat = come_back(&bench, "node-2");
    goes_in(&bench, POOL, "1", W..=W + 120).await;
}

/// The nodes that hold it may change all day.
#[tokio::test(start_paused = true)]
async fn a_hold_is_told_once_though_fewer_nodes_hold_it() {
    let server = with_neighbour(&[(1, "gone")]);
    let _beat = live_node(&server, "node-1");
    for node in ["node-2", "node-3"] {
        silent_node(&server, node);
    }
    let bench = Bench::start(server).await;
    seconds(900).await;
    assert_eq!(bench.counted("rows_held"), 1);
    taint(&bench, "node-3");
    seconds(900).await;
    assert_eq!(bench.counted("rows_held"), 1);
}

/// Row 1 leaked before the start, and `node-1` is silent all the time.
#[tokio::test(start_paused = true)]
async fn unwitnessed_hold_caps_the_hold_of_a_row_that_nobody_saw() {
    let server = with_neighbour(&[(1, "web-0")]);
    silent_node(&server, "node-1");
    let config =
        Config::default().with(|it| it.policy.unwitnessed_hold = Some(Duration::from_secs(5_000)));
    let bench = Bench::with(server, config).await;
    goes_in(&bench, POOL, "1", 4_990..=5_400).await;
    neighbour_goes(&bench, POOL).await;
}

#[tokio::test(start_paused = true)]
async fn slice_is_blocked_by_its_own_node_only() {
    let server = Server::new();
    let slices = [("node-1", "10.8.1.0/24"), ("node-2", "10.8.2.0/24")];
    put_slices(&server, NS, &slices);
    let name = |n: u64| format!("sliced-node-{n}-10.8.{n}.0-24");
    for n in [1, 2] {
        let pool = fixtures::pool(NS, &format!("10.8.{n}.0/24")).name(&name(n));
        let pool = pool.row(1, &fixtures::sandbox(n), "default/gone", "net1");
        server.put(pool);
    }
    silent_node(&server, "node-1");
    let _beat = live_node(&server, "node-2");
    let bench = Bench::start(server).await;
    goes_after(&bench, &name(2), "1", 900).await;
    seconds(7_200).await;
    assert_eq!(bench.rows(&name(1)), ["1"]);
}

/// Its name says that only node-2 can have run what nobody saw of it, and node-2 is at work; a pod of node-3 says
/// otherwise.
#[rstest]
#[case::reports_it(Some("10.8.2.9"), false)]
#[case::does_not_tell_yet(None, false)]
// A row of before, when the pod of that name was on node-2.
#[case::has_another(Some("10.8.3.9"), true)]
#[tokio::test(start_paused = true)]
async fn m4_06_a_slice_with_a_row_of_another_node_is_nobodys(
    #[case] reports: Option<&str>,
    #[case] goes: bool,
) {
    let server = Server::new();
    put_slices(&server, NS, &[("node-2", "10.8.2.0/24")]);
    let name = "sliced-node-2-10.8.2.0-24";
    let pool = fixtures::pool(NS, "10.8.2.0/24").name(name);
    server.put(pool.row_of(1, "default/gone").row_of(9, "default/web-0"));
    let pod = reports.map_or_else(|| asking("web-0"), |it| on_net("net", "web-0", it));
    server.put(pod.node("node-3").running());
    silent_node(&server, "node-1");
    let _beats = ["node-2", "node-3"].map(|node| live_node(&server, node));
    let bench = Bench::start(server).await;
    if goes {
        goes_after(&bench, name, "1", 900).await;
    } else {
        seconds(7_200).await;
        assert_eq!(bench.rows(name), ["1", "9"]);
        if reports.is_some() {
            // It is known without that row, too.
            bench.end(["web-0"]);
            bench.edit("ippools", NS, name, |pool| {
                pool["spec"]["allocations"] = json!({"1": pool["spec"]["allocations"]["1"]});
            });
            seconds(7_200).await;
            assert_eq!(bench.rows(name), ["1"]);
        }
        taint(&bench, "node-1");
        goes_after(&bench, name, "1", 10).await;
    }
}

/// Its name tells no node: its pod may have run on any, before the slice was this node's.
#[tokio::test(start_paused = true)]
async fn a_reservation_alone_in_a_slice_is_held_by_each_silent_node() {
    let server = Server::new();
    put_slices(&server, NS, &[("node-2", "10.8.2.0/24")]);
    server.put(fixtures::pool(NS, "10.8.2.0/24").name("sliced-node-2-10.8.2.0-24"));
    reserve(&server, "sliced-10.8.2.1", "web-0");
    silent_node(&server, "node-1");
    let _beat = live_node(&server, "node-2");
    let bench = Bench::start(server).await;
    seconds(7_200).await;
    assert_eq!(bench.reservations(), ["sliced-10.8.2.1"]);
    taint(&bench, "node-1");
    seconds(W + 600).await;
    assert!(bench.reservations().is_empty());
}

#[tokio::test(start_paused = true)]
async fn leases_are_read_only_while_something_waits() {
    let (bench, _beat) = stage(Config::default()).await;
    let leases = || bench.sent(Match::list("leases")).len();
    neighbour_goes(&bench, POOL).await;
    seconds(1_800).await;
    assert_eq!(leases(), 0, "a settled end needs none");
    bench.kubelet().force_delete(NS, "web-0");
    goes_after(&bench, POOL, "1", W + 120).await;
    let read = leases();
    assert!(read >= 10, "{read} reads");
    seconds(120).await;
    let read = leases();
    seconds(3_600).await;
    assert_eq!(leases(), read, "nothing waits any more");
    let gets = bench.sent(Match::get("leases"));
    assert!(gets.is_empty(), "one list for all of them");
}

/// It has rows, and neither annotation: its node is all that is known of it.
#[tokio::test(start_paused = true)]
async fn pod_that_told_of_no_network_is_held_with_its_node() {
    let server = with_neighbour(&[(1, "plain")]);
    let beat = live_node(&server, "node-1");
    server.put(fixtures::pod(NS, "plain").node("node-1").running());
    let bench = Bench::long_since(server, Config::default()).await;
    fall_silent(&bench, "node-1", beat);
    bench.kubelet().force_delete(NS, "plain");
    stays(&bench, POOL, &["1"]).await;
    let report = bench.running.context.sweeps.borrow().clone();
    assert_eq!(report.words[Word::Unfenced as usize], 1);
    taint(&bench, "node-1");
    next_second_goes(&bench).await;
}

/// A person wrote local time as UTC, an hour ahead. "Such a time is later than changes yet to come", and does not count.
/// The node came back since, with a new pod, and was cut off with it.
#[rstest]
#[case::in_time(0)]
#[case::an_hour_ahead(3_600)]
#[tokio::test(start_paused = true)]
async fn a_statement_about_the_future_never_counts(#[case] ahead: u64) {
    let server = server();
    put_neighbour(&server, POOL);
    let walls = server.clone();
    ipgc::clock::set_wall(move || walls.now());
    let beat = live_node(&server, "node-1");
    let bench = Bench::long_since(server, Config::default()).await;
    fall_silent(&bench, "node-1", beat);
    seconds(300).await;
    let stated = bench.now() + Duration::from_secs(ahead + 1);
    let declared = bench.edit("nodes", "", "node-1", |node| {
        node["metadata"]["annotations"]["ipgc.dev/no-sandboxes"] = stated.to_string().into();
    });
    assert!(declared);
    seconds(300).await;
    let beat = come_back(&bench, "node-1");
    put_row_on(&bench, POOL, 1, "web-0", "net1", 1);
    run_on(&bench, "node-1", "web-0", 1);
    seconds(600).await;
    fall_silent(&bench, "node-1", beat);
    seconds(300).await;
    bench.kubelet().force_delete(NS, "web-0");
    seconds(2_400).await;
    assert_eq!(bench.rows(POOL), ["1", "200"]);
    // Somebody cordons it.
    let edited = bench.edit("nodes", "", "node-1", |node| {
        node["spec"]["unschedulable"] = true.into();
    });
    assert!(edited);
    seconds(60).await;
    stays(&bench, POOL, &["1"]).await;
}

/// The case of a row that only a sweep can find, since the definition is gone.
#[tokio::test(start_paused = true)]
async fn a_fence_frees_a_row_that_a_sweep_found_at_once() {
    let server = with_neighbour(&[(1, "db-0")]);
    let beat = live_node(&server, "node-1");
    let _other = live_node(&server, "node-2");
    server.put(reporting("db-0", 1).grace(36_000).node("node-1").running());
    let bench = Bench::long_since(server, Config::default()).await;
    assert!(bench.server.delete(NADS, NS, "net").is_some());
    seconds(5).await;
    bench.kubelet().force_delete(NS, "db-0");
    seconds(1_800).await;
    fall_silent(&bench, "node-1", beat);
    seconds(120).await;
    taint(&bench, "node-1");
    goes_after(&bench, POOL, "1", 900).await;
}

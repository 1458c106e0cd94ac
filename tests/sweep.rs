//! The sweep: rows that leaked while ipgc did not run, when a sweep begins, the rows that it passes over, and that
//! nothing stops it.

use crate::prelude::*;

/// Sweeps of the collector: each lists the slices once.
fn sweeps(bench: &Bench) -> usize {
    bench.sent(Match::list("nodeslicepools")).len()
}

/// A server where `web-0` leaked row 1 and `alive` uses row 2.
pub fn room() -> Server {
    let server = server();
    put_pool(&server, &[(1, "web-0"), (2, "alive")]);
    run_pod(&server, "alive", 2);
    server
}

/// The first sweep sees the rows while their pods live. So these rows need no read at the end of the pod and no wait
/// after it.
#[tokio::test(start_paused = true)]
async fn the_first_one_notes_whose_rows_are_whose() {
    let bench = Bench::with(running(&[(1, "web-0")]), seldom()).await;
    // An event of the watch: it is heard.
    run_pod(&bench, "other", 9);
    seconds(3_600).await;
    assert_eq!(sweeps(&bench), 1);
    bench.clear_requests();
    bench.end(["web-0"]);
    goes_after(&bench, POOL, "1", 3).await;
    seconds(60).await;
    // Before the patch. Its reservation is claimed, and waits.
    assert_eq!(bench.sent(Match::get("ippools")).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn many_requests_are_one_sweep() {
    let config = Config {
        sweep_interval: Duration::from_secs(86_400),
        queue_capacity: 2,
        ..Config::default()
    };
    let bench = Bench::long_since(room(), config).await;
    let names: Vec<_> = (10..60).map(|n| format!("web-{n}")).collect();
    for (offset, name) in (10..).zip(&names) {
        run_pod(&bench, name, offset);
    }
    seconds(5).await;
    bench.end(&names);
    seconds(60).await;
    // All that did not fit asked for one.
    assert!(bench.counted("queue_overflows") > 40);
    // One at once, and one for those who asked while it was at work.
    assert!((1..=2).contains(&sweeps(&bench)));
}

#[tokio::test(start_paused = true)]
async fn an_error_between_two_pages_only_delays() {
    for code in [500, 410] {
        let server = room();
        let pools: Vec<_> = (1..=9)
            .map(|n| put_leak(&server, &format!("10.{n}.0.0/24")))
            .collect();
        let pages = server.on(Match::list("ippools").further_pages());
        let pages = pages.times(3).fail(code);
        let bench = Bench::start(server).await;
        seconds(1_200).await;
        assert!(pages.hits() > 0);
        let left: Vec<_> = pools.iter().filter(|p| !bench.rows(p).is_empty()).collect();
        assert!(left.is_empty(), "after {code}: {left:?}");
        assert_eq!(bench.rows(POOL), ["2"]);
        bench.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_failed_waits_longer_and_longer_however_often_it_is_asked_for() {
    let bench = Bench::long_since(room(), Config::default()).await;
    let failing = bench.on(Match::list("ippools")).fail(500);
    for _ in 0..120 {
        // Each list of pods asks for a sweep.
        bench.relist();
        seconds(5).await;
    }
    assert!((10..=30).contains(&sweeps(&bench)), "{}", sweeps(&bench));
    failing.remove();
    let ended = bench.counted("sweeps_ended");
    seconds(70).await;
    assert!(bench.counted("sweeps_ended") > ended);
}

/// For four hours no probe asks for a restart.
async fn lives_on(running: &Alive) {
    for _ in 0..48 {
        seconds(300).await;
        assert!(running.context.is_alive());
    }
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_away_is_no_reason_for_a_restart() {
    let bench = Bench::long_since(room(), Config::default()).await;
    let hang = bench.on(Match::list("ippools")).hang();
    let ended = bench.counted("sweeps_ended");
    lives_on(&bench.running).await;
    assert!(bench.counted("sweeps_ended") <= ended + 1);
    hang.remove();
    let _away = bench.on(Match::any()).disconnect();
    lives_on(&bench.running).await;
}

/// Each page comes late, and all of them together take longer than a step may.
#[rstest]
#[case::slices("nodeslicepools")]
#[case::claims("resourceclaims")]
#[tokio::test(start_paused = true)]
async fn a_long_list_is_no_reason_for_a_restart(#[case] kind: &str) {
    let server = room();
    for number in 0..9_001 {
        let name = format!("it-{number}");
        server.put(match kind {
            "nodeslicepools" => fixtures::node_slice_pool(NS, &name, RANGE, "/28", &[]),
            _ => json!({
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": { "name": name, "namespace": NS, "uid": name },
            }),
        });
    }
    server.on(Match::list(kind)).delay(Duration::from_secs(18));
    let config = Config::default().with(|it| it.resource_claims = true);
    let bench = Bench::with(server, config).await;
    for _ in 0..30 {
        seconds(15).await;
        assert!(bench.running.context.is_alive());
    }
    assert!(bench.sent(Match::list(kind)).len() > 18);
}

/// Not even when it was never there.
#[tokio::test(start_paused = true)]
async fn a_server_that_starts_late_is_waited_for() {
    let server = room();
    let away = server.on(Match::any()).disconnect();
    let mut running = launch(&server, Config::default());
    lives_on(&running).await;
    away.remove();
    assert!(running.ready().await);
}

#[tokio::test(start_paused = true)]
async fn bystanders_keep_their_rows_at_no_cost() {
    let server = room();
    // Neither asks for anything nor reports anything, and has a row: some other plugin's.
    server.put(fixtures::pod(NS, "web-0").node("node-1").running());
    let bench = Bench::long_since(server, Config::default()).await;
    seconds(3_600).await;
    let asked = bench.sent(Match::reads("pods").name("web-0"));
    assert!(asked.is_empty(), "{asked}");
    let pools = bench.sent(Match::get("ippools"));
    assert!(pools.is_empty(), "{pools}");
    assert!(sweeps(&bench) > 5);
    assert_eq!(bench.rows(POOL), ["1", "2"]);
    bench.kubelet().force_delete(NS, "web-0");
    goes_after(&bench, POOL, "1", 900).await;
}

#[tokio::test(start_paused = true)]
async fn completed_pods_that_stay() {
    for phase in ["Succeeded", "Failed"] {
        let bench = Bench::start(room()).await;
        run_pod(&bench, "web-0", 1);
        seconds(600).await;
        bench.kubelet().complete_pod(NS, "web-0", phase);
        goes_in(&bench, POOL, "1", 120..=900).await;
        assert_eq!(bench.count("pods"), 2);
        seconds(122).await;
        assert_eq!(bench.reservations(), ["10.0.0.2"]);
        bench.stop().await;
    }
}

/// Whereabouts serves the cluster's own network, and no annotation tells.
#[rstest]
#[tokio::test(start_paused = true)]
async fn completed_pods_without_annotations_that_stay(#[values(false, true)] before: bool) {
    let server = room();
    server.put(fixtures::pod(NS, "web-0").node("node-1").running());
    let complete = |server: &Server| Kubelet::new(server).complete_pod(NS, "web-0", "Succeeded");
    if before {
        complete(&server);
    }
    let bench = Bench::start(server).await;
    if !before {
        seconds(600).await;
        assert_eq!(bench.rows(POOL), ["1", "2"]);
        complete(&bench);
    }
    goes_in(&bench, POOL, "1", 120..=900).await;
    assert_eq!(bench.count("pods"), 2);
}

/// Nobody saw its containers start, and the kubelet made their ends up.
fn evicted(pod: fixtures::PodBuilder, sandbox_ready: &str) -> fixtures::PodBuilder {
    pod.running().with(|pod| {
        pod["status"]["phase"] = "Failed".into();
        pod["status"]["containerStatuses"] = json!([
            {"name": "main", "state": {"terminated": {"reason": "ContainerStatusUnknown"}}},
        ]);
        pod["status"]["conditions"] =
            json!([{"type": "PodReadyToStartContainers", "status": sandbox_ready}]);
    })
}

/// Each of its addresses is a DEL, in whichever pool.
#[tokio::test(start_paused = true)]
async fn evicted_pod_that_was_there_before() {
    let waits = [&[][..], &["10.9.0.1", "10.9.0.2"]].map(|others| async move {
        let server = room();
        let pod = reporting("web-0", 1).reports("default/other", "net2", others);
        server.put(evicted(pod, "False"));
        let bench = Bench::start(server).await;
        let waited = goes_after(&bench, POOL, "1", 1_800).await;
        bench.stop().await;
        waited
    });
    let [one, three] = waits;
    let (one, three) = (one.await, three.await);
    assert!(one >= W, "freed after {one} s");
    assert!(three >= W + 2 * 60, "freed after {three} s");
}

/// Its row went long ago, and another pod was given its address.
#[rstest]
#[case::whose_sandbox_is_down("False", &["1", "2"])]
#[case::whose_sandbox_is_up("True", &["1", "2", "3"])]
#[tokio::test(start_paused = true)]
async fn evicted_pod_reports_the_address_of_a_pod_that_is_gone(
    #[case] sandbox_ready: &str,
    #[case] left: &[&str],
) {
    let server = room();
    run_pod(&server, "web-0", 1);
    put_row(&server, 3, "gone", 3);
    server.put(evicted(reporting("old", 3), sandbox_ready));
    let bench = Bench::start(server).await;
    seconds(W - 10).await;
    assert_eq!(bench.rows(POOL), ["1", "2", "3"]);
    seconds(1_800).await;
    assert_eq!(bench.rows(POOL), left);
}

#[tokio::test(start_paused = true)]
async fn completed_pod_whose_containers_run_is_not() {
    let server = room();
    put_neighbour(&server, POOL);
    let bench = Bench::start(server).await;
    run_pod(&bench, "web-0", 1);
    seconds(600).await;
    // This is the write of the pod garbage collector, which does not ask the kubelet.
    bench.edit("pods", NS, "web-0", |pod| {
        pod["status"]["phase"] = "Failed".into();
    });
    neighbour_goes(&bench, POOL).await;
    seconds(3_600).await;
    assert_eq!(bench.rows(POOL), ["1", "2"]);
}

#[tokio::test(start_paused = true)]
async fn leftover_is_told_by_rows_in_another_pool() {
    let server = room();
    let pool = fixtures::pool(NS, "10.1.0.0/24");
    server.put(pool.row(5, &fixtures::sandbox(5), "default/web-0", "net2"));
    // Row 1 is of another sandbox than the one row that the pod reports.
    let pod = asking("web-0");
    let pod = pod.reports("default/net", "net2", &["10.1.0.5"]);
    server.put(pod.running());
    let bench = Bench::start(server).await;
    goes_in(&bench, POOL, "1", 595..=1_800).await;
    seconds(3_600).await;
    assert_eq!(bench.rows(POOL), ["2"]);
    assert_eq!(bench.rows("10.1.0.0-24"), ["5"]);
}

#[tokio::test(start_paused = true)]
async fn leftover_waits_longer_than_from_sweep_to_sweep() {
    let server = room();
    server.put(second("web-0", 9));
    put_row(&server, 9, "web-0", 9);
    let config = Config::default().with(|it| it.policy.leftover_grace = Duration::from_secs(7_200));
    let bench = Bench::with(server, config).await;
    goes_in(&bench, POOL, "1", 7_190..=7_900).await;
    assert_eq!(bench.rows(POOL), ["2", "9"]);
}

/// A row without interface, which no ADD can take over, and its pod is back, not scheduled for an hour.
#[tokio::test(start_paused = true)]
async fn predecessor_is_known_as_such_however_long_its_pod_stays_pending() {
    let server = running(&[(2, "alive")]);
    put_row_on(&server, POOL, 1, "web-0", "", 1);
    let bench = Bench::start(server).await;
    seconds(30).await;
    let young = || fixtures::pod(NS, "web-0").networks("default/net");
    bench.put(young());
    seconds(3_600).await;
    assert_eq!(bench.rows(POOL), ["1", "2"], "it may be scheduled");
    bench.put(young().node("node-1"));
    goes_after(&bench, POOL, "1", 1_200).await;
}

//! Pods on more networks than a kubelet gets through while their DELs are lost: the interface
//! whose DEL comes last may keep its address for ever.

use crate::prelude::*;

/// Puts a pool of another range, with one row of `web-0` on this interface.
fn put_other_pool(server: &Server, range: &str, interface: &str) {
    let pool = fixtures::pool(NS, range);
    let pool = pool.row(1, &fixtures::sandbox(7), &format!("{NS}/web-0"), interface);
    server.put(pool);
}

/// A pod that runs on three interfaces.
fn on_three() -> Value {
    let pod = reporting("web-0", 1)
        .networks("default/net,default/net,default/net")
        .reports("default/net", "net2", &["10.0.0.2"])
        .reports("default/net", "net3", &["10.0.0.3"]);
    pod.running().build()
}

#[tokio::test(start_paused = true)]
async fn rows_of_three_interfaces_are_held_while_the_kubelet_works() {
    let server = with_neighbour(&[(1, "web-0"), (2, "web-0"), (3, "web-0")]);
    let beat = live_node(&server, "node-1");
    let bench = Bench::with(server, seldom()).await;
    bench.put(on_three());
    seconds(1_800).await;
    bench.kubelet().force_delete(NS, "web-0");
    // Nothing is wrong with a DEL that takes its time.
    seconds(W).await;
    assert!(pool_events(&bench, "IPAddressHeldUnfenced").is_empty());
    stays(&bench, POOL, &["1", "2", "3"]).await;
    let events = pool_events(&bench, "IPAddressHeldUnfenced");
    let parts = ["default/web-0", "node-1", "ipgc release --force ADDRESS"];
    says(&events[0], &parts);
    // Each sandbox of the node is gone with it.
    drop(beat);
    bench.delete("nodes", "", "node-1");
    goes_in(&bench, POOL, "1", W + 120..=W + 240).await;
}

/// A kubelet at work that did not stop a pod in the time that it needs may never do it. A runtime that cannot stop the pod
/// makes its node not ready, and then a person forces the pod away.
#[rstest]
#[case::soon(60, false)]
#[case::after_the_time_that_it_needs(100, true)]
#[case::after_w(W + 120, true)]
#[tokio::test(start_paused = true)]
async fn a_pod_that_is_deleted_by_force_since_its_kubelet_did_not_stop_it_is_held(
    #[case] deleting_for: u64,
    #[case] is_held: bool,
    #[values(false, true)] node_fails: bool,
) {
    let (bench, beat) = stage(seldom()).await;
    begin_deletion(&bench, 30);
    seconds(deleting_for).await;
    let _beat = if node_fails {
        fall_silent(&bench, "node-1", beat);
        seconds(60).await;
        bench.kubelet().force_delete(NS, "web-0");
        seconds(60).await;
        come_back(&bench, "node-1")
    } else {
        bench.kubelet().force_delete(NS, "web-0");
        beat
    };
    if is_held {
        stays(&bench, POOL, &["1"]).await;
        assert!(!pool_events(&bench, "IPAddressHeldUnfenced").is_empty());
    } else {
        goes_in(&bench, POOL, "1", W..=W + 120).await;
    }
}

/// A deletion by force does not shorten the grace that an earlier one gave.
#[tokio::test(start_paused = true)]
async fn the_grace_of_a_deletion_counts_though_it_was_forced_later() {
    let (bench, _beat) = stage(seldom()).await;
    begin_deletion(&bench, 7_200);
    seconds(60).await;
    bench.kubelet().force_delete(NS, "web-0");
    let wait = W - 30 + 7_200;
    goes_in(&bench, POOL, "1", wait..=wait + 120).await;
}

/// The kubelet may be stopping a container whose probe failed, and does not break that off.
#[rstest]
#[tokio::test(start_paused = true)]
async fn the_grace_of_a_probe_counts(#[values("livenessProbe", "startupProbe")] probe: &str) {
    let (bench, _beat) = stage(seldom()).await;
    bench.edit("pods", NS, "web-0", |pod| {
        pod["spec"]["containers"][0][probe] = json!({ "terminationGracePeriodSeconds": 900 });
    });
    seconds(60).await;
    bench.kubelet().force_delete(NS, "web-0");
    let wait = W - 30 + 900;
    goes_in(&bench, POOL, "1", wait..=wait + 120).await;
}

/// `web-0` has run on one network for half an hour, on a node at work.
async fn stage(config: Config) -> (Bench, Beat) {
    let server = with_neighbour(&[(1, "web-0")]);
    let beat = live_node(&server, "node-1");
    let bench = Bench::with(server, config).await;
    bench.put(reporting("web-0", 1).running());
    seconds(1_800).await;
    (bench, beat)
}

/// Somebody deletes `web-0`, and gives it so many seconds.
fn begin_deletion(server: &Server, grace: u64) {
    let found = server.edit("pods", NS, "web-0", |pod| {
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        pod["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
    });
    assert!(found, "no pod web-0");
}

/// The machine of a node was booted so often.
fn boot(server: &Server, node: &str, number: u64) {
    let found = server.edit("nodes", "", node, |node| {
        node["status"]["nodeInfo"] =
            json!({"machineID": "m", "systemUUID": "s", "bootID": format!("boot-{number}")});
    });
    assert!(found, "no node {node}");
}

/// A reboot ends what ran, and tells nothing of what may have been started after it.
#[tokio::test(start_paused = true)]
async fn m4_03_rows_of_three_interfaces_go_when_their_node_was_booted_anew() {
    for is_before_the_end in [false, true] {
        let server = with_neighbour(&[(1, "web-0"), (2, "web-0"), (3, "web-0")]);
        let beat = live_node(&server, "node-1");
        boot(&server, "node-1", 1);
        let bench = Bench::with(server, seldom()).await;
        bench.put(on_three());
        seconds(1_800).await;
        if is_before_the_end {
            boot(&bench, "node-1", 2);
        }
        bench.kubelet().force_delete(NS, "web-0");
        seconds(600).await;
        assert_eq!(bench.rows(POOL), ["1", "2", "200", "3"]);
        if is_before_the_end {
            stays(&bench, POOL, &["1", "2", "3"]).await;
        } else {
            fall_silent(&bench, "node-1", beat);
            seconds(300).await;
            boot(&bench, "node-1", 2);
            let _beat = come_back(&bench, "node-1");
            goes_in(&bench, POOL, "1", W + 120..=W + 120 + 90).await;
        }
        bench.stop().await;
    }
}

/// A sandbox from before ipgc began is dead as well, once its node was seen to run on and then to be booted.
#[tokio::test(start_paused = true)]
async fn m4_03_a_boot_ends_the_doubt_about_rows_of_whom_nobody_saw() {
    for boots in [false, true] {
        let server = server();
        put_pool(&server, &[(1, "web-0")]);
        for number in [2, 3] {
            let (range, interface) = (format!("10.0.{number}.0/24"), format!("net{number}"));
            put_other_pool(&server, &range, &interface);
        }
        put_neighbour(&server, POOL);
        let _beat = live_node(&server, "node-1");
        boot(&server, "node-1", 1);
        let bench = Bench::with(server, seldom()).await;
        seconds(600).await;
        if boots {
            boot(&bench, "node-1", 2);
            goes_after(&bench, POOL, "1", 60).await;
        } else {
            stays(&bench, POOL, &["1"]).await;
        }
        bench.stop().await;
    }
}

/// Nobody saw the pod: its rows tell how many interfaces it had, whatever pools they are in.
#[rstest]
#[case::two(1)]
#[case::three(2)]
#[tokio::test(start_paused = true)]
async fn rows_of_whom_nobody_saw_are_counted_in_all_pools(#[case] others: usize) {
    let server = with_neighbour(&[(1, "web-0")]);
    for pool in 1..=others {
        let interface = format!("net{}", pool + 1);
        put_other_pool(&server, &format!("10.0.{pool}.0/24"), &interface);
    }
    let _beat = live_node(&server, "node-1");
    let bench = Bench::with(server, seldom()).await;
    if others == 1 {
        goes_in(&bench, POOL, "1", W + 60..=W + 180).await;
    } else {
        stays(&bench, POOL, &["1"]).await;
        assert!(!pool_events(&bench, "IPAddressHeldUnfenced").is_empty());
    }
}

/// An earlier pod of this name was killed by force before the first list. Its sandbox may still have the addresses
/// that this pod took over.
#[tokio::test(start_paused = true)]
async fn a_relist_ends_no_doubt_about_a_predecessor_on_three_interfaces() {
    let server = with_neighbour(&[(1, "web-0"), (2, "web-0"), (3, "web-0")]);
    let _beat = live_node(&server, "node-1");
    server.put(on_three());
    let bench = Bench::long_since(server, Config::default()).await;
    bench.relist();
    seconds(60).await;
    bench.end(["web-0"]);
    stays(&bench, POOL, &["1", "2", "3"]).await;
}

/// One DEL gives back the addresses of both families, and those of one range that an interface has two of.
#[rstest]
#[case::of_multus("net1", "net2")]
#[case::of_kubevirt("pod16477688c0e", "podb21f07a9e44")]
#[tokio::test(start_paused = true)]
async fn rows_of_one_interface_are_of_one_whatever_its_name(
    #[case] first: &str,
    #[case] second: &str,
) {
    let server = server();
    put_pool(&server, &[(1, "web-0"), (2, "web-0")]);
    reserve(&server, "10.0.0.2", "web-0");
    server.edit("ippools", NS, POOL, |pool| {
        for key in ["1", "2"] {
            pool["spec"]["allocations"][key]["ifname"] = first.into();
        }
    });
    put_neighbour(&server, POOL);
    put_other_pool(&server, "fd00:1::/64", first);
    for range in ["10.0.1.0/24", "fd00:2::/64"] {
        put_other_pool(&server, range, second);
    }
    let _beat = live_node(&server, "node-1");
    let bench = Bench::with(server, seldom()).await;
    // Each of its five rows makes it wait longer.
    goes_in(&bench, POOL, "1", W + 180..=W + 360).await;
}

/// The state of the container of `web-0`.
fn set_container(server: &Server, state: Value) {
    let found = server.edit("pods", NS, "web-0", |pod| {
        pod["status"]["containerStatuses"][0]["state"] = state;
    });
    assert!(found);
}

/// It ended for the first time.
fn ended_once() -> Value {
    json!({"terminated": {"exitCode": 1, "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:10:00Z"}})
}

/// Its kubelet did not stop it in time; or pulls an image anew, and still says that the container ended. What ipgc learns
/// by a list or at its start counts as well.
#[rstest]
#[case::not_stopped("list of its end", W + 120, |s: &Server| begin_deletion(s, 30))]
#[case::not_stopped_before_ipgc_began("start", 3_600, |s: &Server| begin_deletion(s, 30))]
#[case::waits("watch", 10, |s: &Server| set_container(s, json!({"waiting": {"reason": "ContainerCreating"}})))]
#[case::restarts("watch", 10, |s: &Server| set_container(s, ended_once()))]
#[case::restarts_as_a_list_shows("list", 0, |s: &Server| { set_container(s, ended_once()); begin_deletion(s, 30); })]
#[tokio::test(start_paused = true)]
async fn a_pod_that_its_kubelet_did_not_stop_is_forced_away(
    #[case] known_by: &str,
    #[case] wait: u64,
    #[case] deed: fn(&Server),
) {
    let (mut bench, _beat) = stage(seldom()).await;
    let lost = (known_by == "list").then(|| bench.on_events(Match::watch("pods")).lose());
    deed(&bench);
    seconds(wait).await;
    if known_by == "start" {
        bench = Bench::with(bench.stop().await, seldom()).await;
    }
    if let Some(lost) = lost {
        lost.remove();
        bench.relist();
    }
    if known_by == "list of its end" {
        bench.relist();
    } else {
        seconds(10).await;
    }
    bench.kubelet().force_delete(NS, "web-0");
    stays(&bench, POOL, &["1"]).await;
}

/// Evidence is kept while a row of its owner is there, also if a person exempts it for a while.
#[rstest]
#[case::never_exempted(false)]
#[case::exempted_for_an_hour(true)]
#[tokio::test(start_paused = true)]
async fn an_exemption_does_not_forget_that_an_end_may_outlast_w(#[case] exempts: bool) {
    let (bench, _beat) = stage(Config::default()).await;
    if exempts {
        annotate_pool(&bench, POOL, "ipgc.dev/hold", "x");
    }
    begin_deletion(&bench, 30);
    seconds(W + 120).await;
    bench.kubelet().force_delete(NS, "web-0");
    seconds(3_600).await;
    assert_eq!(bench.rows(POOL), ["1", "200"]);
    let found = bench.edit("ippools", NS, POOL, |pool| {
        pool["metadata"]["annotations"] = json!({});
    });
    assert!(found);
    stays(&bench, POOL, &["1"]).await;
}

/// More cases are open than there may be.
#[rstest]
#[case::room(100)]
#[case::full(1)]
#[tokio::test(start_paused = true)]
async fn the_end_of_a_pod_that_is_left_to_sweeps_is_not_forgotten(#[case] capacity: usize) {
    let server = with_neighbour(&[(1, "web-0"), (2, "web-1")]);
    let _beat = live_node(&server, "node-1");
    let second_beat = live_node(&server, "node-2");
    let config = Config::default().with(|it| it.queue_capacity = capacity);
    let bench = Bench::with(server, config).await;
    bench.put(reporting("web-0", 1).running());
    run_on(&bench, "node-2", "web-1", 2);
    seconds(1_800).await;
    fall_silent(&bench, "node-2", second_beat);
    bench.kubelet().force_delete(NS, "web-1");
    begin_deletion(&bench, 30);
    seconds(W + 120).await;
    bench.kubelet().force_delete(NS, "web-0");
    seconds(7_200).await;
    assert_eq!(bench.rows(POOL), ["1", "2", "200"]);
    taint(&bench, "node-2");
    seconds(7_200).await;
    let rows = bench.rows(POOL);
    assert!(rows.contains(&"1".to_owned()), "{rows:?}");
    assert!(!rows.contains(&"2".to_owned()), "{rows:?}");
}

/// It has no annotation of multus, and whereabouts serves the cluster's own network.
#[tokio::test(start_paused = true)]
async fn a_pod_without_annotations_that_its_kubelet_did_not_stop_is_forced_away() {
    let server = with_neighbour(&[]);
    put_row_on(&server, POOL, 1, "web-0", "eth0", 1);
    let _beat = live_node(&server, "node-1");
    let bench = Bench::with(server, Config::default()).await;
    bench.put(fixtures::pod(NS, "web-0").node("node-1").running());
    seconds(1_800).await;
    begin_deletion(&bench, 30);
    seconds(W + 120).await;
    bench.kubelet().force_delete(NS, "web-0");
    stays(&bench, POOL, &["1"]).await;
}

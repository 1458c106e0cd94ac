//! From the end of a pod to its freed rows, on the in-process API server.

use crate::prelude::*;
use ipgc::core::podref::Glob;

#[tokio::test(start_paused = true)]
async fn a_settled_end_frees_row_and_reservation_after_the_cooldown() {
    let bench = Bench::long_since(server(), Config::default()).await;
    put_running(&bench, &[(1, "web-0"), (2, "web-1")]);
    seconds(1).await;
    bench.kubelet().terminate_pod(NS, "web-0").await;
    bench.rows_in(POOL, &["2"], 1.9..3.0).await;
    // Until no ADD is at work any more that accepted it.
    seconds(119).await;
    assert_eq!(bench.reservations(), ["10.0.0.1", "10.0.0.2"]);
    seconds(3).await;
    assert_eq!(bench.reservations(), ["10.0.0.2"]);
    let pod = "Normal IPAddressGarbageCollected successful cleanup of IP address [10.0.0.1] from network net";
    assert_eq!(bench.events("Pod"), [pod]);
    let pool = "Normal IPAddressGarbageCollected freed 1 address: 10.0.0.1 (default/web-0)";
    assert_eq!(bench.events("IPPool"), [pool]);
}

#[tokio::test(start_paused = true)]
async fn nothing_leaked_costs_one_read_of_the_pool_for_all() {
    let bench = Bench::long_since(server(), seldom()).await;
    put_running(&bench, &[(250, "other")]);
    for n in 0..100 {
        run_pod(&bench, &format!("web-{n}"), n);
    }
    seconds(1).await;
    for n in 0..100 {
        let name = format!("web-{n}");
        bench.kubelet().complete_pod(NS, &name, "Succeeded");
        bench.delete("pods", NS, &name);
    }
    seconds(60).await;
    assert_eq!(bench.running.context.counters.ends_seen.get(), 100);
    assert!(bench.running.context.counters.rows_freed.get() == 0 && bench.rows(POOL) == ["250"]);
    // One list of the pools' names, and a read of the pool for each batch; nothing else at all.
    let requests = bench.aside_from_sweeps();
    let pools = requests.count(|r| r.resource == "ippools");
    let watches = requests.count(|r| r.verb == Verb::Watch);
    assert!(pools <= 4, "{requests}");
    assert_eq!(requests.len(), pools + watches, "{requests}");
    assert!(bench.events("Pod").is_empty());
}

#[tokio::test(start_paused = true)]
async fn host_network_and_plain_pods_cost_no_request() {
    let bench = Bench::long_since(server(), Config::default()).await;
    let plain = fixtures::pod(NS, "plain").node("node-1").running().build();
    let unscheduled = fixtures::pod(NS, "unscheduled").networks("default/net");
    let host = reporting("host", 1).with(|pod| pod["spec"]["hostNetwork"] = true.into());
    bench.put_all([plain, unscheduled.build(), host.running().build()]);
    seconds(1).await;
    for name in ["plain", "unscheduled", "host"] {
        bench.delete("pods", NS, name);
    }
    sleep(Duration::from_hours(1)).await;
    let requests = bench.aside_from_sweeps();
    let other_than_watches = requests.count(|r| r.verb != Verb::Watch);
    assert_eq!(other_than_watches, 0, "{requests}");
    // Pools once a page, reservations, slices: three lists, twelve times an hour, give or take.
    let swept = bench.sent(Match::any()).len() - requests.len();
    assert!((30..=42).contains(&swept), "{}", bench.requests());
}

#[tokio::test(start_paused = true)]
async fn a_row_of_the_default_network_is_held_and_freed_like_any_other() {
    let bench = Bench::start(server()).await;
    put_pool(&bench, &[(1, "vm-0"), (2, "vm-1")]);
    for (name, address) in [("vm-0", "10.0.0.1"), ("vm-1", "10.0.0.2")] {
        let status = format!(
            r#"[{{"name":"default/net","interface":"net1","ips":["{address}"],"default":true}}]"#
        );
        let pod = fixtures::pod(NS, name).node("node-1");
        bench.put(pod.annotation(fixtures::NETWORK_STATUS, &status).running());
    }
    seconds(1).await;
    bench.kubelet().terminate_pod(NS, "vm-0").await;
    bench.wait_rows(POOL, &["2"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_network_without_a_status_entry_is_followed_by_the_request() {
    let bench = Bench::start(server()).await;
    put_pool(&bench, &[(1, "web-0")]);
    let pod = fixtures::pod(NS, "web-0").node("node-1").networks("net");
    bench.put(pod.reports_default(&["10.244.0.9"]).running());
    seconds(1).await;
    bench.kubelet().terminate_pod(NS, "web-0").await;
    let ended = Instant::now();
    bench.wait_rows(POOL, &[]).await;
    // Nobody reported the address: a good end is no evidence for it.
    took(ended, 180.0..);
}

#[tokio::test(start_paused = true)]
async fn a_slice_of_a_node_is_followed_through_its_node_slice_pool() {
    let server = Server::new();
    put_sliced(&server, "net");
    let slices = [("node-1", "10.8.3.0/24"), ("node-2", "10.8.4.0/24")];
    put_slices(&server, "kube-system", &slices);
    let name = "sliced-node-1-10.8.3.0-24";
    let pool = fixtures::pool(NS, "10.8.3.0/24").name(name);
    server.put(pool.clone());
    let bench = Bench::with(server, seldom()).await;
    bench.put(pool.row_of(1, "default/web-0"));
    reserve(&bench, "sliced-10.8.3.1", "web-0");
    let pod = fixtures::pod(NS, "web-0").node("node-1").networks("net");
    bench.put(pod.reports("default/net", "net1", &["10.8.3.1"]).running());
    // The first sweep learns which pools and slices there are.
    seconds(10).await;
    bench.kubelet().terminate_pod(NS, "web-0").await;
    bench.wait_rows(name, &[]).await;
    seconds(122).await;
    assert!(bench.reservations().is_empty());
}

#[tokio::test(start_paused = true)]
async fn kept_owners_and_exempted_rows_stay() {
    let keep = vec![Glob::new("default/claim-*")];
    let config = Config::default().with(|it| it.policy.keep_podrefs = keep);
    let bench = Bench::with(server(), config).await;
    put_running(&bench, &[(1, "claim-a"), (2, "web-0"), (3, "web-1")]);
    annotate_pool(&bench, POOL, "ipgc.dev/keep", "2");
    seconds(1).await;
    for name in ["claim-a", "web-0", "web-1"] {
        bench.kubelet().terminate_pod(NS, name).await;
    }
    bench.wait_rows(POOL, &["1", "2"]).await;
    sleep(Duration::from_hours(1)).await;
    assert_eq!(bench.rows(POOL), ["1", "2"]);
}

#[tokio::test(start_paused = true)]
async fn a_row_of_nobody_is_counted_once() {
    let bench = Bench::start(server()).await;
    put_pool(&bench, &[(1, "web-0"), (2, "web-1")]);
    bench.edit("ippools", NS, POOL, |pool| {
        pool["spec"]["allocations"]["9"] = json!({"id": fixtures::sandbox(9), "podref": "nobody"});
        pool["spec"]["allocations"]["10"] = json!({"id": fixtures::sandbox(9), "podref": ""});
    });
    for (name, offset, keys) in [
        ("web-0", 1, &["10", "2", "9"][..]),
        ("web-1", 2, &["10", "9"]),
    ] {
        run_pod(&bench, name, offset);
        seconds(1).await;
        bench.kubelet().terminate_pod(NS, name).await;
        bench.wait_rows(POOL, keys).await;
    }
    assert_eq!(bench.running.context.counters.rows_unknown.get(), 2);
}

//! One slow pool, or one slow namespace, does not hold up the others.

use crate::prelude::*;

const SLOW: &str = "10.1.0.0-24";
const SLOW_RANGE: &str = "10.1.0.0/24";

/// Longer than the deadline of a request.
const NEVER: Duration = Duration::from_secs(25);
/// Each answer comes in time, but late.
const LATE: Duration = Duration::from_secs(8);

/// Pods `quick-1`, ... in [`POOL`], and `slow-1`, ... in [`SLOW`], whose requests take so long.
async fn bench(delay: Duration) -> Bench {
    let server = server();
    server.put(fixtures::nad(NS, "slow", SLOW_RANGE));
    let quick: Vec<_> = (1..=9).map(|n| format!("quick-{n}")).collect();
    put_running(&server, &numbered(&quick));
    let mut pool = fixtures::pool(NS, SLOW_RANGE);
    for (offset, name) in (1..=9).map(|n| (n, format!("slow-{n}"))) {
        let podref = format!("{NS}/{name}");
        pool = pool.row(offset, &fixtures::sandbox(100 + offset), &podref, "net1");
        let address = format!("10.1.0.{offset}");
        server.put(on_net("slow", &name, &address).running());
    }
    server.put(pool);
    let bench = Bench::long_since(server, seldom()).await;
    bench.on(Match::get("ippools").name(SLOW)).delay(delay);
    bench.on(Match::patch("ippools").name(SLOW)).delay(delay);
    bench
}

#[rstest]
#[case::late(LATE)]
#[case::never(NEVER)]
#[tokio::test(start_paused = true)]
async fn the_rows_of_other_pools_keep_their_latency(#[case] delay: Duration) {
    let bench = bench(delay).await;
    for n in 1..=9 {
        let (quick, slow) = (format!("quick-{n}"), format!("slow-{n}"));
        bench.end([slow.as_str()]);
        seconds(1).await;
        bench.end([quick.as_str()]);
        let begun = Instant::now();
        let left: Vec<_> = (n + 1..=9).map(|n| n.to_string()).collect();
        let left: Vec<_> = left.iter().map(String::as_str).collect();
        bench.wait_rows(POOL, &left).await;
        // The cooldown, and a pause of the pool's lane.
        took(begun, ..3.0);
    }
    if delay == LATE {
        bench.wait_rows(SLOW, &[]).await;
        bench.stop().await;
    } else {
        assert_eq!(bench.rows(SLOW).len(), 9);
    }
}

/// As many pools as are read at a time are not read to an end.
#[tokio::test(start_paused = true)]
async fn many_slow_pools_hold_up_each_read_of_another_for_five_seconds_only() {
    let server = server();
    put_running(&server, &[(1, "quick")]);
    let slow: Vec<_> = (1..=8).map(|n| format!("slow-{n}")).collect();
    for (n, name) in (1..).zip(&slow) {
        let (network, range) = (format!("slow-{n}"), format!("10.9.{n}.0/24"));
        server.put(fixtures::nad(NS, &network, &range));
        let pool = fixtures::pool(NS, &range);
        let podref = format!("{NS}/{name}");
        server.put(pool.row(1, &fixtures::sandbox(100 + n), &podref, "net1"));
        server.put(on_net(&network, name, &format!("10.9.{n}.1")).running());
    }
    let bench = Bench::long_since(server, seldom()).await;
    for n in 1..=8 {
        let name = format!("10.9.{n}.0-24");
        bench.on(Match::get("ippools").name(&name)).delay(NEVER);
    }
    bench.end(slow.iter().map(String::as_str));
    seconds(3).await;
    let asked = bench.requests().matching(&Match::get("ippools"));
    assert_eq!(asked.len(), 4, "as many as are read at a time: {asked}");
    bench.end(["quick"]);
    bench.rows_in(POOL, &[], ..13.0).await;
    // The wait of a claim.
    seconds(120 + 13).await;
    assert_eq!(bench.reservations(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn reservations_of_a_slow_namespace_hold_up_no_others() {
    let server = server();
    put_pool(&server, &[(1, "web-1")]);
    let pod = reporting("web-1", 1).owner("ReplicaSet", "web");
    server.put(pod.running());
    // The same range in another namespace of pools.
    server.put(fixtures::nad("other", "net", "10.7.0.0/24"));
    let pool = fixtures::pool("other", "10.7.0.0/24");
    let pool = pool.row(1, &fixtures::sandbox(7), "other/db-1", "net1");
    server.put(pool);
    let reservation = fixtures::reservation("other", "10.7.0.1", "other/db-1", "net1");
    server.put(reservation);
    let pod = fixtures::pod("other", "db-1").node("node-1");
    let pod = pod.networks("other/net").owner("ReplicaSet", "db");
    let pod = pod.reports("other/net", "net1", &["10.7.0.1"]).running();
    server.put(pod);
    let bench = Bench::long_since(server, seldom()).await;
    bench
        .on(Match::resource(ORIP).namespace("other"))
        .delay(LATE);
    end_pod(&bench, "other", "db-1");
    bench.end(["web-1"]);
    bench.wait_rows(POOL, &[]).await;
    seconds(2).await;
    assert_eq!(bench.reservations(), ["10.7.0.1"], "its own is slow");
    seconds(120).await;
    assert_eq!(bench.reservations(), [""; 0]);
}

//! The metrics about past actions, and about the findings of a sweep.

#![allow(
    clippy::cast_precision_loss,
    clippy::float_cmp,
    reason = "they are small counts"
)]

use crate::prelude::*;
use ipgc::metrics;

fn scraped(bench: &Bench) -> Scrape {
    Scrape::of(&bench.running)
}

/// Before anything has happened, every counter is there.
#[tokio::test(start_paused = true)]
async fn counters_begin_with_zero() {
    let server = server();
    let _down = server.on(Match::any()).disconnect();
    let running = launch(&server, Config::default());
    let scrape = Scrape::of(&running);
    let freed = scrape.all("ipgc_freed_total");
    assert_eq!(freed.len(), 5 * 4 * 2);
    let settled = "{grade=\"settled\",cause=\"deleted\",trigger=\"watch\"}";
    assert_eq!(freed.get(settled), Some(&0.0));
    let reasons: Vec<_> = scrape.all("ipgc_free_refused_total").into_keys().collect();
    let known = ["breaker", "immutable", "rejected", "unfenced", "unknown"];
    let known = known.map(|reason| format!("{{reason=\"{reason}\"}}"));
    assert_eq!(reasons, known);
    for name in ["ipgc_retries_exhausted_total", "ipgc_events_dropped_total"] {
        assert_eq!(scrape.get(name), Some(0.0), "{name}");
    }
    for name in [
        "time_to_free_seconds_count",
        "sweep_duration_seconds_count",
        "patch_rows_count",
    ] {
        let all = scrape.all(&format!("ipgc_{name}"));
        assert!(
            !all.is_empty() && all.values().all(|count| *count == 0.0),
            "{name}"
        );
    }
    let asked = scrape.all("ipgc_api_requests_total");
    let patches = "{verb=\"patch\",resource=\"ippools\",code=\"200\"}";
    assert_eq!(asked.get(patches), Some(&0.0));
    // A value that is not known yet is not shown as zero.
    scrape.lacks(&[
        "ipgc_duplicates",
        "ipgc_in_use_unallocated",
        "ipgc_pool_rows",
        "ipgc_breaker_open",
    ]);
    assert_eq!(scrape.get("ipgc_last_sweep_timestamp_seconds"), Some(0.0));
}

#[tokio::test(start_paused = true)]
async fn a_sweep_counts_each_row_of_a_pool_by_its_verdict() {
    let server = server();
    let pool = fixtures::pool(NS, RANGE)
        .row_of(1, "default/here")
        .row_of(2, "default/silent")
        .row_of(3, "default/killed")
        .row_of(4, "default/there");
    server.put(pool.row(5, "no sandbox", "x/y", "net1"));
    run_pod(&server, "here", 1);
    run_pod(&server, "there", 4);
    run_pod(&server, "silent", 2);
    server.put(reporting("killed", 3).node("node-2").grace(3_600).running());
    let beat = live_node(&server, "node-1");
    let _beat = live_node(&server, "node-2");
    let config = Config::default().with(|it| it.sweep_interval = Duration::from_mins(20));
    let bench = Bench::with(server, config).await;
    // Until nobody is in doubt any more of who was there before the start.
    seconds(3 * 3_600).await;
    fall_silent(&bench, "node-1", beat);
    bench.kubelet().force_delete(NS, "silent");
    bench.kubelet().force_delete(NS, "killed");
    seconds(3_000).await;
    let scrape = scraped(&bench);
    let verdicts = ["live", "unreported", "stale", "unfenced", "unknown"];
    let counts = verdicts.map(|verdict| scrape.rows(verdict));
    let expected = [2.0, 0.0, 1.0, 1.0, 1.0].map(Some);
    assert_eq!(counts, expected, "{:#?}", scrape.0);
    let of_report = bench.running.context.sweeps.borrow().rows as f64;
    let all: f64 = scrape.all("ipgc_pool_rows").values().sum();
    assert_eq!(all, of_report);
    assert_eq!(scrape.of_pool("ipgc_pool_size"), Some(254.0));
    let oldest = scrape.of_pool("ipgc_oldest_stale_seconds").unwrap();
    assert!((1_600.0..3_000.0).contains(&oldest), "{oldest}");
    for reason in ["unfenced", "unknown"] {
        let refused = format!("ipgc_free_refused_total{{reason=\"{reason}\"}}");
        assert_eq!(scrape.get(&refused), Some(1.0), "{reason}");
    }
    let held = scrape.all("ipgc_rows_held_by_node");
    assert_eq!(held.get("{node=\"node-1\"}"), Some(&1.0), "{held:?}");
    assert_eq!(held.len(), 1, "{held:?}");
    assert_eq!(scrape.get("ipgc_pods_indexed"), Some(2.0));
    // The two podrefs of which something may go.
    assert!(scrape.get("ipgc_queue_depth").unwrap() >= 2.0);
    assert_eq!(scrape.get("ipgc_breaker_open"), Some(0.0));
    let synced = scrape.all("ipgc_watch_synced");
    let synced: Vec<_> = synced.into_values().collect();
    assert_eq!(synced, [1.0; 3]);
    assert!(scrape.get("ipgc_last_sweep_timestamp_seconds").unwrap() > 1.7e9);
    let sweeps = bench.counted("sweeps_ended") as f64;
    assert!(sweeps > 2.0);
    let timed = scrape.get("ipgc_sweep_duration_seconds_count");
    assert_eq!(timed, Some(sweeps));
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_is_gone_is_gone_from_the_metrics() {
    let bench = Bench::with(running(&[(1, "web-0")]), Config::default()).await;
    seconds(10).await;
    assert_eq!(scraped(&bench).rows("live"), Some(1.0));
    assert!(bench.delete("ippools", NS, POOL).is_some());
    seconds(600).await;
    let scrape = scraped(&bench);
    scrape.lacks(&[
        "ipgc_pool_rows",
        "ipgc_pool_size",
        "ipgc_pool_taken",
        "ipgc_oldest_stale_seconds",
    ]);
}

#[tokio::test(start_paused = true)]
async fn a_free_counts_by_evidence_and_by_what_made_it() {
    let server = server();
    put_pool(&server, &[(1, "web-0"), (2, "leaked")]);
    run_pod(&server, "web-0", 1);
    let bench = Bench::start(server).await;
    seconds(3_600).await;
    bench.end(["web-0"]);
    bench.wait_rows(POOL, &[]).await;
    seconds(10).await;
    let scrape = scraped(&bench);
    let settled = "{grade=\"settled\",cause=\"deleted\",trigger=\"watch\"}";
    let leaked = "{grade=\"unwitnessed\",cause=\"deleted\",trigger=\"sweep\"}";
    assert_eq!(scrape.freed(), [(settled, 1.0), (leaked, 1.0)]);
    assert_eq!(bench.counted("rows_freed"), 2);
    let sum = |trigger: &str| {
        let sample = format!("ipgc_time_to_free_seconds_sum{{trigger=\"{trigger}\"}}");
        scrape.get(&sample).unwrap()
    };
    assert!((2.0..10.0).contains(&sum("watch")), "{}", sum("watch"));
    assert!((210.0..700.0).contains(&sum("sweep")), "{}", sum("sweep"));
    assert_eq!(scrape.get("ipgc_patch_rows_count"), Some(2.0));
    assert_eq!(scrape.get("ipgc_patch_rows_sum"), Some(2.0));
    let sent = "ipgc_api_requests_total{verb=\"patch\",resource=\"ippools\",code=\"200\"}";
    assert_eq!(scrape.get(sent), Some(2.0));
    let watches = "ipgc_api_requests_total{verb=\"watch\",resource=\"pods\",code=\"200\"}";
    assert!(scrape.get(watches).unwrap() >= 1.0);
}

/// Two pods with the address of row 1, of which one has the row, and one with an address without a row.
fn crowded() -> Server {
    let server = server();
    put_pool(&server, &[(1, "web-0"), (2, "web-2")]);
    for (name, offset) in [("web-0", 1), ("web-1", 1), ("web-2", 2), ("web-3", 3)] {
        // whereabouts does not give out the addresses of the default network.
        let pod = reporting(name, offset).reports_default(&["10.244.0.7"]);
        server.put(pod.running());
    }
    server
}

#[tokio::test(start_paused = true)]
async fn addresses_in_use_twice_or_without_a_row_are_counted() {
    let bench = Bench::start(crowded()).await;
    seconds(10).await;
    let scrape = scraped(&bench);
    assert_eq!(scrape.get("ipgc_duplicates"), Some(1.0));
    // Of web-1 and web-3.
    assert_eq!(scrape.get("ipgc_in_use_unallocated"), Some(2.0));
    // At their end, or on their way out, they keep nobody's address.
    bench.kubelet().complete_pod(NS, "web-1", "Succeeded");
    bench.kubelet().begin_delete(NS, "web-3");
    seconds(600).await;
    let scrape = scraped(&bench);
    assert_eq!(scrape.get("ipgc_duplicates"), Some(0.0));
    assert_eq!(scrape.get("ipgc_in_use_unallocated"), Some(0.0));
}

/// A pod that comes while a sweep looks may have written its row behind it.
#[tokio::test(start_paused = true)]
async fn pods_that_change_during_a_sweep_are_left_to_the_next() {
    let server = crowded();
    let bench = Bench::with(server, seldom()).await;
    seconds(60).await;
    // The pools are read, and the sweep hangs on its second look, which the lone reservation asks for.
    reserve(&bench, "10.0.0.9", "none");
    for resource in ["nodeslicepools", ORIP] {
        let list = bench.on(Match::list(resource)).once();
        list.delay(Duration::from_secs(5));
    }
    bench.relist();
    seconds(9).await;
    bench.edit("pods", NS, "web-3", |pod| {
        pod["metadata"]["labels"]["a"] = "b".into();
    });
    seconds(60).await;
    let scrape = scraped(&bench);
    assert_eq!(scrape.get("ipgc_sweep_duration_seconds_count"), Some(2.0));
    assert_eq!(scrape.get("ipgc_in_use_unallocated"), Some(1.0), "web-1");
}

/// A pool that cannot be read may have any row, and so may one without a range, since nobody knows the addresses of its
/// rows.
#[rstest]
#[case::a_pool(|s: &Server| { s.on(Match::list("ippools")).garble(Garble::Item(1)); })]
#[case::its_range(|s: &Server| { s.edit("ippools", NS, "10.1.0.0-24", |pool| pool["spec"]["range"] = "10.1.0.0".into()); })]
#[tokio::test(start_paused = true)]
async fn what_was_not_read_is_not_taken_for_missing(#[case] spoil: fn(&Server)) {
    let server = crowded();
    server.put(fixtures::pool(NS, "10.1.0.0/24"));
    let bench = Bench::start(server).await;
    seconds(10).await;
    let scrape = scraped(&bench);
    assert_eq!(scrape.get("ipgc_in_use_unallocated"), Some(2.0));
    assert_eq!(scrape.get("ipgc_pools_unreadable"), Some(0.0));
    spoil(&bench);
    seconds(600).await;
    let scrape = scraped(&bench);
    assert_eq!(scrape.get("ipgc_duplicates"), Some(1.0), "pods alone tell");
    assert_eq!(scrape.get("ipgc_in_use_unallocated"), None);
    assert_eq!(scrape.get("ipgc_pools_unreadable"), Some(1.0));
    assert_eq!(scrape.rows("live"), Some(2.0), "the other pool is");
}

/// An address that one definition excludes, another one may give out. An address that all exclude, no pod gets.
#[tokio::test(start_paused = true)]
async fn the_size_of_a_pool_is_what_is_given_out_of_it() {
    let server = running(&[(1, "web-0"), (130, "web-1")]);
    let ipam = json!({ "type": "whereabouts", "range": RANGE, "exclude": ["10.0.0.0/25"] });
    server.put(fixtures::nad_with_ipam(NS, "net", &ipam));
    let bench = Bench::start(server).await;
    seconds(10).await;
    let size = || scraped(&bench).of_pool("ipgc_pool_size");
    let taken = || scraped(&bench).of_pool("ipgc_pool_taken");
    assert_eq!((size(), taken()), (Some(127.0), Some(1.0)));
    bench.put(fixtures::nad(NS, "part", "10.0.0.1-10.0.0.10/24"));
    let sliced = json!({ "type": "whereabouts", "range": "10.0.0.0/24", "node_slice_size": "/26", "network_name": "x" });
    bench.put(fixtures::nad_with_ipam(NS, "sliced", &sliced));
    seconds(400).await;
    assert_eq!((size(), taken()), (Some(137.0), Some(2.0)));
    for name in ["net", "part"] {
        bench.delete(NADS, NS, name);
    }
    seconds(400).await;
    assert_eq!(size(), Some(254.0), "nobody tells");
}

/// Pools of other namespaces may have the rows.
#[rstest]
#[case::not_swept("elsewhere", 0.0)]
#[case::swept(NS, 2.0)]
#[tokio::test(start_paused = true)]
async fn networks_of_pools_that_are_not_swept_count_for_nothing(
    #[case] namespace: &str,
    #[case] unallocated: f64,
) {
    let config = Config::default().with(|it| it.pool_namespace = Some(namespace.to_owned()));
    let bench = Bench::with(crowded(), config).await;
    seconds(10).await;
    let scrape = scraped(&bench);
    assert_eq!(scrape.get("ipgc_in_use_unallocated"), Some(unallocated));
    assert_eq!(scrape.get("ipgc_duplicates"), Some(1.0), "pods alone tell");
}

/// All copies sweep and find the same: one of them tells it.
#[tokio::test(start_paused = true)]
async fn who_does_not_lead_shows_no_numbers_of_sweeps() {
    let server = crowded();
    let now = server.now().to_string();
    server.put(fixtures::lease("ipgc-system", "ipgc", "another", &now));
    let config = Config::default().with(|it| it.lease_namespace = Some("ipgc-system".to_owned()));
    let bench = Bench::with(server, config).await;
    seconds(10).await;
    let scrape = scraped(&bench);
    assert_eq!(scrape.get("ipgc_leader"), Some(0.0));
    assert!(scrape.get("ipgc_last_sweep_timestamp_seconds") > Some(0.0));
    scrape.lacks(&[
        "ipgc_pool_rows",
        "ipgc_duplicates",
        "ipgc_breaker_open",
        "ipgc_reservations_orphaned",
    ]);
    // The other one is not heard of any more.
    seconds(60).await;
    let scrape = scraped(&bench);
    assert_eq!(scrape.get("ipgc_leader"), Some(1.0));
    assert_eq!(scrape.rows("live"), Some(2.0));
}

/// The goal is 20 ms for a thousand pools, with optimization (`--release`); without it, and beside other tests, ten
/// times that is allowed.
#[tokio::test(start_paused = true)]
async fn a_scrape_of_a_thousand_pools_is_fast() {
    let server = server();
    for number in 0..1_000 {
        let range = format!("10.{}.{}.0/24", number / 250, number % 250);
        let pool = fixtures::pool(NS, &range).row_of(1, "a/b");
        server.put(pool);
    }
    let bench = Bench::start(server).await;
    seconds(30).await;
    let context = &bench.running.context;
    let begun = std::time::Instant::now();
    let text = metrics::text(context);
    let took = begun.elapsed();
    println!("1,000 pools: {} bytes in {took:?}", text.len());
    assert_eq!(Scrape::parse(&text).all("ipgc_pool_rows").len(), 5_000);
    let most = if cfg!(debug_assertions) { 200 } else { 20 };
    assert!(took < Duration::from_millis(most), "{took:?}");
}

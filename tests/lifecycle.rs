//! What the caller of the library sees of a run, and what is never done before its time.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::time::Duration;

use common::{Bench, NS, POOL, launch, put_pool, run_pod, server};
use ipgc::{config::Config, run::Phase};
use testkit::Match;
use tokio::time::{Instant, sleep, timeout};

#[tokio::test(start_paused = true)]
async fn ready_comes_after_every_cache_and_nothing_is_freed_before() {
    for resource in ["pods", "network-attachment-definitions"] {
        let server = server();
        put_pool(&server, &[(1, "web-0")]);
        run_pod(&server, "web-0", 1);
        let blocked = server.on(Match::list(resource)).fail(503);
        let mut running = launch(&server, Config::default());
        sleep(Duration::from_secs(5)).await;
        testkit::pods::Kubelet::new(&server)
            .terminate_pod(NS, "web-0")
            .await;
        sleep(Duration::from_mins(10)).await;
        assert_eq!(*running.phase().borrow(), Phase::Starting, "{resource}");
        let looked_at_pools = server.requests().count(|r| r.resource == "ippools");
        assert_eq!(looked_at_pools, 0, "{resource}");
        blocked.remove();
        assert!(
            timeout(Duration::from_mins(1), running.ready())
                .await
                .unwrap(),
            "{resource}"
        );
        running.stop();
        running.done().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_hangs_is_given_up_and_tried_again() {
    let server = server();
    let _hang = server.on(Match::list("pods")).once().hang();
    let begun = Instant::now();
    let mut running = launch(&server, Config::default());
    assert!(
        timeout(Duration::from_mins(2), running.ready())
            .await
            .unwrap()
    );
    assert!(
        begun.elapsed() < Duration::from_secs(61),
        "{:?}",
        begun.elapsed()
    );
    running.stop();
    running.done().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_run_is_seen_as_done() {
    let mut bench = Bench::start(server()).await;
    let mut phase = bench.running.phase();
    assert_eq!(*phase.borrow(), Phase::Ready);
    assert!(bench.running.ready().await);
    bench.running.stop();
    assert!(phase.wait_for(|p| *p == Phase::Done).await.is_ok());
    bench.running.done().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_stopped_before_it_is_ready_ends_well() {
    let server = server();
    let _down = server.on(Match::any()).disconnect();
    let mut running = launch(&server, Config::default());
    sleep(Duration::from_secs(5)).await;
    running.stop();
    assert!(!running.ready().await);
    running.done().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stop_lets_the_patch_in_flight_end() {
    let bench = Bench::long_since(server(), Config::default()).await;
    put_pool(&bench.server, &[(1, "web-0")]);
    run_pod(&bench.server, "web-0", 1);
    sleep(Duration::from_millis(500)).await;
    let _slow = bench
        .server
        .on(Match::patch("ippools"))
        .delay(Duration::from_secs(5));
    bench.kubelet().terminate_pod(NS, "web-0").await;
    let patching =
        |s: &testkit::Server| s.requests().count(|r| r.verb == testkit::Verb::Patch) == 1;
    assert!(
        bench
            .server
            .wait_until(Duration::from_secs(10), patching)
            .await
    );
    let stopped = Instant::now();
    bench.running.stop();
    bench.running.done().await.expect("drained");
    assert!(stopped.elapsed() < Duration::from_secs(10));
    assert!(common_rows(&bench.server).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_takes_too_long_is_cut_off_within_ten_seconds_and_reported() {
    let bench = Bench::long_since(server(), Config::default()).await;
    put_pool(&bench.server, &[(1, "web-0")]);
    run_pod(&bench.server, "web-0", 1);
    sleep(Duration::from_millis(500)).await;
    let _hang = bench.server.on(Match::patch("ippools")).hang();
    bench.kubelet().terminate_pod(NS, "web-0").await;
    sleep(Duration::from_secs(5)).await;
    let stopped = Instant::now();
    bench.running.stop();
    let error = bench
        .running
        .done()
        .await
        .expect_err("a hanging patch cannot drain");
    assert!(
        error.to_string().contains("shutdown took longer"),
        "{error}"
    );
    assert!(
        stopped.elapsed() < Duration::from_secs(10),
        "{:?}",
        stopped.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_new_is_begun_after_a_stop() {
    let bench = Bench::start(server()).await;
    put_pool(&bench.server, &[(1, "web-0")]);
    run_pod(&bench.server, "web-0", 1);
    sleep(Duration::from_millis(500)).await;
    bench.kubelet().terminate_pod(NS, "web-0").await;
    let server = bench.server.clone();
    bench.stop().await;
    sleep(Duration::from_hours(1)).await;
    assert_eq!(common_rows(&server), ["1"]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_is_no_failure_of_those_who_wait() {
    let config = Config {
        max_retries: 0,
        ..Config::default()
    };
    let bench = Bench::long_since(server(), config).await;
    put_pool(&bench.server, &[(1, "web-0"), (2, "web-1")]);
    run_pod(&bench.server, "web-0", 1);
    run_pod(&bench.server, "web-1", 2);
    sleep(Duration::from_millis(500)).await;
    let _slow = bench
        .server
        .on(Match::patch("ippools"))
        .delay(Duration::from_secs(3));
    bench.kubelet().terminate_pod(NS, "web-0").await;
    sleep(Duration::from_secs(1)).await;
    bench.kubelet().terminate_pod(NS, "web-1").await;
    // The first is being patched, the second waits for its turn.
    sleep(Duration::from_millis(2_500)).await;
    let (server, counters) = (bench.server.clone(), bench.running.counters().clone());
    bench.stop().await;
    assert_eq!(common_rows(&server), ["2"]);
    assert_eq!(counters.retries_exhausted.get(), 0);
    assert_eq!(
        server.list("events").len(),
        2,
        "of the first pod and its pool"
    );
}

#[tokio::test(start_paused = true)]
async fn missing_rights_shut_the_gate_and_mended_rights_open_it() {
    let bench = Bench::start(server()).await;
    put_pool(&bench.server, &[(1, "web-0")]);
    run_pod(&bench.server, "web-0", 1);
    sleep(Duration::from_millis(500)).await;
    let denied = bench.server.deny(Match::patch("ippools"));
    bench.kubelet().terminate_pod(NS, "web-0").await;
    sleep(Duration::from_mins(30)).await;
    assert!(!*bench.running.may_write().borrow());
    let tries = denied.hits();
    assert!((2..=61).contains(&tries), "{tries} tries in 30 minutes");
    assert_eq!(bench.running.counters().retries_exhausted.get(), 0);
    denied.remove();
    bench.wait_rows(POOL, &[]).await;
    assert!(*bench.running.may_write().borrow());
    bench.stop().await;
}

fn common_rows(server: &testkit::Server) -> Vec<String> {
    let pool = server.get("ippools", NS, POOL).unwrap();
    pool["spec"]["allocations"]
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect()
}

//! The view of a run that the caller of the library has, and the steps that are never taken before their time.

use crate::prelude::*;
use ipgc::run::Running;

/// Tests do not ask at their ends how the run goes: [`Alive`](crate::common::Alive) does.
#[tokio::test(start_paused = true)]
#[should_panic(expected = "the run ended by itself")]
async fn a_run_with_a_task_that_panics_fails_its_test() {
    let bench = Bench::start(server()).await;
    let watches = bench.on(Match::watch("nodes"));
    let _broken = watches.before(|_| async { panic!("in a task of the run") });
    bench.cut_watches("nodes");
    sleep(Duration::from_mins(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_stopped_before_it_is_ready_ends_well() {
    let server = server();
    let _down = server.on(Match::any()).disconnect();
    let mut running = launch(&server, Config::default());
    seconds(5).await;
    Running::stop(&running);
    assert!(!running.ready().await);
    running.release().done().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_takes_too_long_is_cut_off_within_ten_seconds_and_reported() {
    let bench = followed(&[(1, "web-0")], Config::default()).await;
    let _hang = bench.on(Match::patch("ippools")).hang();
    bench.kubelet().terminate_pod(NS, "web-0").await;
    seconds(5).await;
    let stopped = Instant::now();
    Running::stop(&bench.running);
    let ended = bench.running.release().done().await;
    let error = ended.expect_err("a hanging patch cannot drain");
    assert!(error.contains("shutdown took longer"), "{error}");
    took(stopped, ..10.0);
}

#[tokio::test(start_paused = true)]
async fn a_stop_is_no_failure_of_those_who_wait() {
    let config = Config::default().with(|it| it.max_retries = 0);
    let bench = followed(&[(1, "web-0"), (2, "web-1")], config).await;
    slow(&bench, Match::patch("ippools"), 3_000);
    bench.kubelet().terminate_pod(NS, "web-0").await;
    seconds(1).await;
    bench.kubelet().terminate_pod(NS, "web-1").await;
    // The first is being patched, the second waits for its turn.
    sleep(Duration::from_millis(2_500)).await;
    let counters = bench.running.context.counters.clone();
    let server = bench.stop().await;
    assert_eq!(rows(&server, POOL), ["2"]);
    assert_eq!(counters.retries_exhausted.get(), 0);
    // Of the first pod and its pool.
    assert_eq!(server.list("events").len(), 2);
}

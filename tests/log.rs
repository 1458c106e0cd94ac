//! The lines of the log: one for each free, and for each problem one with its pool or pod.

use crate::prelude::*;

#[tokio::test(start_paused = true)]
async fn a_free_is_one_line_with_the_whole_row() {
    let (log, _guard) = Log::start();
    let bench = followed(&[(1, "web-0")], seldom()).await;
    bench.kubelet().terminate_pod(NS, "web-0").await;
    bench.wait_rows(POOL, &[]).await;
    seconds(1).await;
    let lines = log.lines("freed row");
    assert_eq!(lines.len(), 1, "{lines:?}");
    let sandbox = format!("sandbox={}", fixtures::sandbox(1));
    let parts = [
        &*sandbox,
        "pool=default/10.0.0.0-24",
        "key=\"1\"",
        "address=10.0.0.1",
        "podref=default/web-0",
        "interface=\"net1\"",
        "grade=\"settled\"",
        "cause=\"deleted\"",
        "trigger=\"watch\"",
        "node=\"node-1\"",
        "uid=\"",
    ];
    says(&lines[0], &parts);
}

/// And nothing of that pool goes.
#[tokio::test(start_paused = true)]
async fn an_exemption_that_nobody_understands_is_one_line() {
    let (log, _guard) = Log::start();
    let bench = Bench::start(server()).await;
    put_pool(&bench, &[(1, "web-0")]);
    annotate_pool(&bench, POOL, "ipgc.dev/keep", "10.0.0.0/28");
    run_pod(&bench, "web-0", 1);
    seconds(10).await;
    bench.kubelet().terminate_pod(NS, "web-0").await;
    sleep(Duration::from_mins(30)).await;
    let lines = log.lines("all rows of the pool are kept");
    assert_eq!(lines.len(), 1, "{lines:?}");
    says(
        &lines[0],
        &["pool=default/10.0.0.0-24", "word=\"10.0.0.0/28\""],
    );
    assert_eq!(bench.rows(POOL), ["1"]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_try_names_the_pod_the_pool_and_the_reason() {
    let (log, _guard) = Log::start();
    let bench = Bench::start(server()).await;
    put_running(&bench, &[(1, "web-0")]);
    seconds(10).await;
    bench.on(Match::patch("ippools")).once().fail(500);
    bench.kubelet().terminate_pod(NS, "web-0").await;
    bench.wait_rows(POOL, &[]).await;
    let lines = log.lines("will try again");
    assert_eq!(lines.len(), 1, "{lines:?}");
    let parts = [
        "pool=default/10.0.0.0-24",
        "pod=default/web-0",
        "could not remove rows",
    ];
    says(&lines[0], &parts);
}

#[tokio::test(start_paused = true)]
async fn a_row_that_cannot_be_read_is_one_line_however_often_it_is_seen() {
    let (log, _guard) = Log::start();
    let bench = Bench::start(server()).await;
    put_pool(&bench, &[(1, "web-0"), (2, "web-1")]);
    bench.edit("ippools", NS, POOL, |pool| {
        pool["spec"]["allocations"]["x".repeat(100_000)] =
            json!({"id": "short", "podref": "default/web-0"});
    });
    for (name, offset) in [("web-0", 1), ("web-1", 2)] {
        run_pod(&bench, name, offset);
        sleep(Duration::from_millis(500)).await;
        bench.kubelet().terminate_pod(NS, name).await;
        seconds(10).await;
    }
    let lines = log.lines("row kept");
    assert_eq!(lines.len(), 1, "{lines:?}");
    says(
        &lines[0],
        &["pool=default/10.0.0.0-24", "not 64 hex digits"],
    );
    assert!(lines[0].len() < 1_000, "{} bytes", lines[0].len());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_said_of_pods_that_live() {
    let (log, _guard) = Log::start();
    let server = server();
    put_crowd(&server, 50);
    // Of one that goes something is said.
    let bench = Bench::long_since(server, seldom()).await;
    assert_eq!(log.lines("web-"), [""; 0]);
    bench.kubelet().terminate_pod(NS, "web-7").await;
    seconds(60).await;
    let lines = log.lines("web-");
    assert!(
        !lines.is_empty() && lines.iter().all(|line| line.contains("web-7")),
        "{lines:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_installed_is_named() {
    let (log, _guard) = Log::start();
    let server = server();
    server.on(Match::list(NADS)).once().fail(404);
    server.on(Match::list("ippools")).once().fail(404);
    let _bench = Bench::start(server).await;
    seconds(60).await;
    let missing = log.lines("is its CRD installed");
    let is_named = |line: &String| line.contains("kind=network-attachment-definitions");
    assert!(missing.iter().any(is_named), "{missing:?}");
    let failed = log.lines("sweep failed");
    assert!(failed[0].contains("pools cannot be read"), "{failed:?}");
}

/// A pod that starts or ends has such rows for a moment: only those that were there a sweep ago are told.
#[tokio::test(start_paused = true)]
async fn rows_that_stay_unreported_are_a_warning_of_the_second_sweep() {
    let (log, _guard) = Log::start();
    let server = server();
    put_pool(&server, &[(1, "web-0")]);
    server.put(reporting("web-0", 1).status(json!({"phase": "Failed"})));
    let _bench = Bench::start(server).await;
    let lines = || log.lines("rows are held though no pod reports them");
    sleep(Duration::from_mins(2)).await;
    assert_eq!(lines(), [""; 0]);
    sleep(Duration::from_mins(5)).await;
    let lines = lines();
    assert!(lines.len() == 1 && lines[0].contains("rows=1"), "{lines:?}");
    let ended = log.lines("sweep ended");
    let words = "live=0 unreported=1 stale=0 unfenced=0 unknown=0";
    assert!(ended[0].contains(words), "{ended:?}");
}

/// Once with nothing to tell, and once after an event.
#[tokio::test(start_paused = true)]
async fn a_stop_leaves_no_event_unsent() {
    for ends in [false, true] {
        let (log, _guard) = Log::start();
        let bench = followed(&[(1, "web-0")], seldom()).await;
        if ends {
            bench.kubelet().terminate_pod(NS, "web-0").await;
            bench.wait_rows(POOL, &[]).await;
        }
        bench.stop().await;
        assert_eq!(log.lines("events were left unsent"), [""; 0], "{ends}");
    }
}

/// Before version 0.8 whereabouts has no slices of nodes.
#[tokio::test(start_paused = true)]
async fn that_nobody_knows_slices_of_nodes_is_no_warning() {
    let (log, _guard) = Log::start();
    let server = server();
    server.on(Match::list("nodeslicepools")).fail(404);
    let _bench = Bench::start(server).await;
    seconds(3_600).await;
    assert!(log.lines("sweep ended").len() > 5);
    assert_eq!(log.lines(" WARN "), [""; 0]);
}

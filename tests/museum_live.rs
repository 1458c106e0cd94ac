//! The museum, first room (docs/museum.md): how other collectors freed the address of a pod that
//! lives. Each exhibit is the same situation, our guard, and a neighbour whose row goes meanwhile,
//! so that nothing passes by doing nothing.

use crate::prelude::*;

/// A server where `web-0` has row 1 and the neighbour its own; the pods are up to the test.
fn room() -> Server {
    with_neighbour(&[(1, "web-0")])
}

/// The same, with a collector that has seen `web-0` come to life and run for a while.
async fn room_with_a_watched_pod() -> Bench {
    let bench = Bench::start(room()).await;
    run_pod(&bench, "web-0", 1);
    // Long enough that no earlier incarnation can have left it its row.
    seconds(W + 60).await;
    bench
}

#[tokio::test(start_paused = true)]
async fn m1_04_target_taken_from_the_successors_record() {
    let bench = room_with_a_watched_pod().await;
    // The successor got another address, and the first row is what leaked.
    bench.end(["web-0"]);
    bench.put(second("web-0", 2));
    put_row(&bench, 2, "web-0", 2);
    stays(&bench, POOL, &["2"]).await;
}

#[tokio::test(start_paused = true)]
async fn m1_06_stale_view_of_the_truth() {
    let bench = room_with_a_watched_pod().await;
    // The watch shows the end and then nothing more, while the successor is born.
    let births = bench.on_events(Match::watch("pods")).name("web-0");
    let births = births.kind(ChangeKind::Added).hold();
    bench.end(["web-0"]);
    bench.put(second("web-0", 1));
    adopt(&bench, POOL, "1");
    seconds(60).await;
    let proofs = bench.sent(Match::get("pods").name("web-0"));
    assert!(!proofs.is_empty(), "the row was due, and nobody asked");
    seconds(600).await;
    births.remove();
    stays(&bench, POOL, &["1"]).await;
}

#[tokio::test(start_paused = true)]
async fn m1_08_late_action_on_an_old_verdict() {
    let bench = room_with_a_watched_pod().await;
    let patches = bench.on(Match::patch("ippools"));
    let throttled = patches.answer(Failure::too_many_requests(60));
    bench.end(["web-0"]);
    seconds(240).await;
    assert!(throttled.hits() > 1);
    // Its successor has the very same row, and nobody hears of it: the patch would be done.
    let births = bench.on_events(Match::watch("pods")).name("web-0");
    let births = births.kind(ChangeKind::Added).hold();
    bench.put(second("web-0", 1));
    bench.clear_requests();
    throttled.remove();
    // The watch is still as good as fresh.
    seconds(80).await;
    let proofs = bench.sent(Match::get("pods").name("web-0").quorum());
    assert!(!proofs.is_empty(), "nobody asked again");
    births.remove();
    stays(&bench, POOL, &["1"]).await;
}

#[tokio::test(start_paused = true)]
async fn m1_11_addresses_of_the_default_network() {
    let server = room();
    let pod = reporting("web-0", 5).reports_default(&["10.0.0.1"]);
    server.put(pod.running());
    // By this one alone it would run in another sandbox.
    put_row(&server, 5, "web-0", 5);
    // This pod has a row of another sandbox too, and nothing on the default network.
    run_pod(&server, "web-1", 15);
    put_row(&server, 11, "web-1", 11);
    put_row(&server, 15, "web-1", 15);
    let bench = Bench::start(server).await;
    stays(&bench, POOL, &["1", "15", "5"]).await;
}

#[tokio::test(start_paused = true)]
async fn m1_13_terminating_pod_still_serves() {
    let server = room();
    // Two pods, each with one more row, of another sandbox than the one that it reports.
    for (name, own, other) in [("web-0", 5, 1), ("web-1", 15, 11)] {
        let pod = reporting(name, own).finalizer("example.org/wait");
        server.put(pod.running());
        put_row(&server, own, name, own);
        put_row(&server, other, name, other);
    }
    let bench = Bench::start(server).await;
    bench.kubelet().begin_delete(NS, "web-0");
    // The other row of web-1 is freed, since web-1 runs. The one of web-0 stays, since web-0 is terminating.
    stays(&bench, POOL, &["1", "15", "5"]).await;
}

#[tokio::test(start_paused = true)]
async fn m1_16_half_restored_datastore() {
    let server = server();
    let names: Vec<_> = (1..=100).map(|n| format!("web-{n}")).collect();
    let rows = numbered(&names);
    put_pool(&server, &rows);
    put_neighbour(&server, POOL);
    for (offset, name) in &rows[..40] {
        run_pod(&server, name, *offset);
    }
    let bench = Bench::start(server).await;
    seconds(25 * 60).await;
    let opened = pool_events(&bench, "IPPoolGCBreakerOpen");
    assert!(!opened.is_empty(), "nobody was told");
    assert_eq!(bench.rows(POOL).len(), 101);
    neighbour_goes(&bench, POOL).await;
    // The other half of the backup is played in.
    for (offset, name) in &rows[40..] {
        run_pod(&bench, name, *offset);
    }
    seconds(7_200).await;
    assert_eq!(bench.rows(POOL).len(), 100, "{}", bench.requests());
}

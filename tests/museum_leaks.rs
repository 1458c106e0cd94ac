//! The museum, second room (docs/museum.md): how other collectors let addresses leak, for hours or
//! for ever. Each exhibit is the same situation, and the rows go; one that is in use stays.

use crate::prelude::*;
use crate::sweep::room;

/// Only what is in use is left, within three hours.
async fn only_alive_is_left(bench: &Bench) {
    goes_after(bench, POOL, "1", 3 * 3_600).await;
    for key in bench.rows(POOL) {
        if key != "2" {
            goes_after(bench, POOL, &key, 3 * 3_600).await;
        }
    }
    assert_eq!(bench.rows(POOL), ["2"]);
}

#[tokio::test(start_paused = true)]
async fn m2_02_node_died_and_the_collector_with_it() {
    let server = server();
    put_pool(&server, &[(1, "web-0"), (2, "alive")]);
    let beat = live_node(&server, "node-1");
    let _other = live_node(&server, "node-2");
    run_on(&server, "node-2", "alive", 2);
    let bench = Bench::start(server).await;
    run_on(&bench, "node-1", "web-0", 1);
    seconds(60).await;
    fall_silent(&bench, "node-1", beat);
    bench.kubelet().force_delete(NS, "web-0");
    let server = bench.stop().await;
    seconds(60).await;
    let bench = Bench::start(server).await;
    seconds(600).await;
    assert_eq!(bench.rows(POOL), ["1", "2"], "its node may still run it");
    bench.delete("nodes", "", "node-1");
    only_alive_is_left(&bench).await;
}

#[tokio::test(start_paused = true)]
async fn m2_06_one_bad_pool_ends_the_whole_pass() {
    let server = room();
    // The first of all.
    let bad = &put_leak(&server, "1.7.0.0/24");
    let reads = server.on(Match::get("ippools").name(bad)).fail(500);
    // In a list it cannot be read either.
    let list = server.on(Match::list("ippools")).garble(Garble::Item(0));
    let conflicts = server.on(Match::patch("ippools").name(POOL)).times(2);
    let conflicts = conflicts.fail(409);
    let bench = Bench::start(server).await;
    only_alive_is_left(&bench).await;
    assert_eq!(bench.rows(bad), ["1"]);
    assert!(list.hits() > 0);
    assert_eq!(conflicts.hits(), 2);
    // In a list it can be read again, and its leak is found.
    list.remove();
    put_row(&bench, 3, "lost", 3);
    goes_after(&bench, POOL, "3", 1_200).await;
    seconds(300).await;
    assert!(reads.hits() > 0);
    assert_eq!(bench.rows(bad), ["1"]);
    bench.clear_rules();
    bench.wait_rows(bad, &[]).await;
}

#[tokio::test(start_paused = true)]
async fn m2_08_wedged_on_one_poisoned_item() {
    let server = room();
    let bad = &put_leak(&server, "10.7.0.0/24");
    server.on(Match::get("ippools").name(bad)).hang();
    let bench = Bench::start(server).await;
    only_alive_is_left(&bench).await;
    // Now everything hangs, and that is seen: the alert IpgcSweepLate goes by this.
    bench.on(Match::list("ippools")).hang();
    seconds(30).await;
    let last = bench.running.context.last_sweep();
    seconds(3_600).await;
    assert!(last > 0.0 && bench.running.context.last_sweep() <= last);
    bench.clear_rules();
    bench.wait_rows(bad, &[]).await;
    seconds(600).await;
    assert!(bench.running.context.last_sweep() > last);
}

#[tokio::test(start_paused = true)]
async fn m2_09_safety_net_never_ran_unnoticed() {
    let server = room();
    let refused = server.on(Match::list("ippools")).fail(500);
    let bench = Bench::start(server).await;
    seconds(3_600).await;
    assert!(refused.hits() > 0);
    assert_eq!(bench.counted("sweeps_ended"), 0);
    assert!(bench.counted("sweeps_failed") > 0);
    // The alert IpgcSweepLate goes by this.
    assert_eq!(bench.running.context.last_sweep().to_bits(), 0);
    refused.remove();
    // Nor is a success told that is none.
    let patches = bench.on(Match::patch("ippools")).fail(503);
    seconds(1_200).await;
    assert!(patches.hits() > 0);
    assert!(bench.told_as_freed().is_empty());
    assert_eq!(bench.counted("rows_freed"), 0);
    patches.remove();
    only_alive_is_left(&bench).await;
    seconds(60).await;
    assert_eq!(bench.told_as_freed(), ["10.0.0.1"]);
    assert_eq!(bench.counted("rows_freed"), 1);
    assert!(bench.counted("sweeps_ended") > 0);
}

#[tokio::test(start_paused = true)]
async fn m2_13_wrong_namespace_configured() {
    let (log, _guard) = Log::start();
    let server = room();
    let pool = fixtures::pool("kube-system", "10.7.0.0/24");
    server.put(pool.row_of(1, "default/gone"));
    let bench = Bench::start(server.clone()).await;
    only_alive_is_left(&bench).await;
    let rows = server.get("ippools", "kube-system", "10.7.0.0-24").unwrap();
    assert_eq!(rows["spec"]["allocations"], json!({}));
    bench.stop().await;
    // A namespace without pools is seen by the number of them.
    let config = Config::default().with(|it| it.pool_namespace = Some("nowhere".to_owned()));
    assert!(log.lines("sweep found no pools").is_empty());
    let bench = Bench::with(server, config).await;
    seconds(60).await;
    let report = bench.running.context.sweeps.borrow().clone();
    assert!(bench.counted("sweeps_ended") > 0);
    let told = log.lines("sweep found no pools");
    let [line] = &told[..] else {
        panic!("{told:?}");
    };
    assert!(line.contains("--pool-namespace"), "{line}");
    assert_eq!(report.pools, 0);
}

#[tokio::test(start_paused = true)]
async fn m2_14_objects_of_an_unexpected_type() {
    let server = room();
    put_neighbour(&server, POOL);
    let bench = Bench::start(server).await;
    run_pod(&bench, "web-0", 1);
    seconds(60).await;
    // The last states of these, which come with their deletion, cannot be read as pods.
    for (name, status) in [
        ("odd-1", json!(7)),
        ("odd-2", json!([])),
        ("odd-3", json!("x")),
    ] {
        let pod = reporting(name, 9).status(status);
        bench.put(pod);
        seconds(5).await;
        bench.delete("pods", NS, name);
    }
    bench.put(second("odd-4", 9));
    bench.edit("pods", NS, "odd-4", |pod| {
        pod["metadata"]["annotations"] = json!({ fixtures::NETWORK_STATUS: 7 });
    });
    bench.delete("pods", NS, "odd-4");
    bench.end(["web-0"]);
    neighbour_goes(&bench, POOL).await;
    only_alive_is_left(&bench).await;
}

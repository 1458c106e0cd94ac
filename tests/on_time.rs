//! Rows are read and proven when they may go: never sooner, not much later, and nothing is removed if anything has
//! happened since.

use std::sync::{Arc, Mutex};

use crate::prelude::*;

/// One running pod of a ReplicaSet, which has the one row.
async fn one() -> Bench {
    let bench = Bench::long_since(server(), seldom()).await;
    put_pool(&bench, &[(1, "web-1")]);
    let pod = reporting("web-1", 1).owner("ReplicaSet", "web");
    bench.put(pod.running());
    seconds(1).await;
    bench
}

/// When such requests came in, from now on.
fn times(bench: &Bench, of: Match) -> Arc<Mutex<Vec<Duration>>> {
    let (begun, times) = (Instant::now(), Arc::<Mutex<Vec<_>>>::default());
    let told = Arc::clone(&times);
    bench.on(of).before(move |_| {
        told.lock().unwrap().push(begun.elapsed());
        async {}
    });
    times
}

/// The one time that a patch came in.
fn only(patches: &Mutex<Vec<Duration>>) -> Duration {
    let [patch] = patches.lock().unwrap()[..] else {
        panic!("not one patch");
    };
    patch
}

/// Longest delay of a timer, and of a request on its way.
const SLACK: Duration = Duration::from_millis(5);
/// 120 s, 30 s of the pod, and 60 s for its one row.
const W: Duration = Duration::from_secs(210);

#[rstest]
#[case::at_once(0, 0)]
#[case::slow(40, 30)]
#[tokio::test(start_paused = true)]
async fn a_row_is_read_when_it_may_go_and_goes_when_it_is_proven(
    #[case] read: u64,
    #[case] prove: u64,
) {
    let bench = one().await;
    let reads = times(&bench, Match::get("ippools"));
    let patches = times(&bench, Match::patch("ippools"));
    slow(&bench, Match::get("ippools"), read);
    slow(&bench, Match::get("pods"), prove);
    bench.end(["web-1"]);
    bench.wait_rows(POOL, &[]).await;
    let [first, ..] = reads.lock().unwrap()[..] else {
        panic!("the pool was not read");
    };
    let patch = only(&patches);
    let due = Duration::from_secs(2);
    let patched = due + Duration::from_millis(read + prove);
    assert!((due..due + SLACK).contains(&first), "read at {first:?}");
    assert!((patched..patched + SLACK).contains(&patch), "{patch:?}");
}

/// Reads that make the patch late by 70 ms.
fn slow_reads(bench: &Bench) {
    slow(bench, Match::get("ippools"), 40);
    slow(bench, Match::get("pods"), 30);
}

/// Its node is not there, so that no Lease has to change after the wait.
#[tokio::test(start_paused = true)]
async fn a_long_wait_is_over_on_time_too() {
    let bench = one().await;
    let patches = times(&bench, Match::patch("ippools"));
    slow_reads(&bench);
    bench.kubelet().force_delete(NS, "web-1");
    bench.wait_rows(POOL, &[]).await;
    let patch = only(&patches);
    let least = W + Duration::from_millis(70);
    assert!((least..least + 2 * SLACK).contains(&patch), "{patch:?}");
}

/// That a node is gone is read when the moment has come, not when its rows are proven.
#[tokio::test(start_paused = true)]
async fn a_node_that_comes_back_in_the_last_moment_holds_its_rows() {
    let bench = one().await;
    bench.on_events(Match::watch("nodes")).hold();
    bench.kubelet().force_delete(NS, "web-1");
    sleep(W.saturating_sub(Duration::from_millis(50))).await;
    assert!(bench.sent(Match::get("pods").name("web-1")).is_empty());
    bench.put(fixtures::node("node-1", true));
    seconds(5).await;
    assert_eq!(bench.rows(POOL), ["1"]);
}

/// A Lease has to change after the wait, which nobody can have seen before: no proof is asked for in vain.
#[tokio::test(start_paused = true)]
async fn nothing_is_proven_before_a_kubelet_was_seen_at_work() {
    let bench = one().await;
    let beat = live_node(&bench, "node-1");
    seconds(60).await;
    bench.kubelet().force_delete(NS, "web-1");
    bench.wait_rows(POOL, &[]).await;
    // Once early in the long wait, and once for the patch.
    let proofs = bench.sent(Match::get("pods").name("web-1")).len();
    assert!(proofs <= 2, "{}", bench.requests());
    drop(beat);
}

/// A Lease that has yet to show a kubelet at work is read every few seconds.
#[tokio::test(start_paused = true)]
async fn a_row_goes_soon_after_the_read_of_leases_that_shows_a_kubelet_at_work() {
    let bench = one().await;
    let _beat = live_node(&bench, "node-1");
    let asked = times(&bench, Match::list("leases"));
    let reads = times(&bench, Match::get("ippools"));
    let patches = times(&bench, Match::patch("ippools"));
    bench.kubelet().force_delete(NS, "web-1");
    bench.wait_rows(POOL, &[]).await;
    let patch = only(&patches);
    assert!(patch >= W, "{patch:?}");
    let asked = asked.lock().unwrap().clone();
    // The Lease has changed after W by the second read after it at the latest.
    let shows = *asked.iter().filter(|it| **it > W).nth(1).unwrap();
    assert!(
        patch < shows + Duration::from_secs(6),
        "{patch:?}, {asked:?}"
    );
    let reads = reads.lock().unwrap().clone();
    assert!(reads.len() < 8, "{reads:?}");
}

/// Two pods of a ReplicaSet whose rows are served together and may go 8 ms one after the other.
async fn two_at_once() -> (Bench, Arc<Mutex<Vec<Duration>>>) {
    let bench = Bench::long_since(server(), seldom()).await;
    let rows = [(1, "web-1"), (2, "web-2")];
    put_pool(&bench, &rows);
    for (offset, name) in rows {
        bench.put(reporting(name, offset).owner("ReplicaSet", "web").running());
    }
    seconds(1).await;
    let patches = times(&bench, Match::patch("ippools"));
    bench.end(["web-1"]);
    sleep(Duration::from_millis(8)).await;
    bench.end(["web-2"]);
    (bench, patches)
}

#[tokio::test(start_paused = true)]
async fn rows_that_come_together_go_when_the_last_may() {
    let (bench, patches) = two_at_once().await;
    bench.wait_rows(POOL, &[]).await;
    let patch = only(&patches);
    // Each case that comes within 10 ms is waited for.
    let last = Duration::from_millis(2_008);
    assert!((last..last + 3 * SLACK).contains(&patch), "{patch:?}");
}

/// Though the first of them may go already.
#[tokio::test(start_paused = true)]
async fn nothing_is_removed_after_the_run_was_told_to_end() {
    let (bench, patches) = two_at_once().await;
    slow_reads(&bench);
    sleep(Duration::from_millis(2_055)).await;
    assert_eq!(bench.sent(Match::get("pods")).len(), 2);
    let server = bench.stop().await;
    assert_eq!(rows(&server, POOL).len(), 2);
    assert_eq!(patches.lock().unwrap().len(), 0);
}

/// A DEL that comes after all: the row that was meant to be removed is gone, and ipgc does not count it as freed.
#[tokio::test(start_paused = true)]
async fn a_row_that_goes_meanwhile_was_not_freed_by_us() {
    let bench = one().await;
    let gone = bench.on(Match::get("pods").name("web-1")).once();
    let gone = gone.after(|server| async move {
        server.edit("ippools", NS, POOL, |pool| {
            pool["spec"]["allocations"] = json!({});
        });
    });
    bench.end(["web-1"]);
    seconds(60).await;
    assert_eq!(gone.hits(), 1);
    assert_eq!(bench.sent(Match::patch("ippools")).len(), 1);
    assert_eq!(bench.counted("rows_freed"), 0);
    assert_eq!(bench.told_as_freed(), [""; 0]);
    assert_eq!(bench.counted("retries_exhausted"), 0);
}

/// The reservation of one pod takes 36 s here. The other waits for its kubelet meanwhile, and is looked at then.
#[tokio::test(start_paused = true)]
async fn a_row_that_waits_does_not_wait_for_the_reservations_of_others() {
    let mut config = seldom();
    config.policy.grace = Duration::from_secs(1);
    config.policy.del_budget = Duration::from_secs(1);
    config.policy.max_pod_grace = Some(Duration::from_secs(1));
    let server = running(&[(1, "web-1"), (2, "web-2")]);
    let _beat = live_node(&server, "node-1");
    let bench = Bench::long_since(server, config).await;
    seconds(60).await;
    slow(&bench, Match::resource(ORIP), 12_000);
    let begun = Instant::now();
    bench.end(["web-1"]);
    bench.kubelet().force_delete(NS, "web-2");
    // One turn looks at both: the first goes after the cooldown.
    bench.wait_rows(POOL, &["2"]).await;
    took(begun, ..3.0);
    bench.wait_rows(POOL, &[]).await;
    assert_eq!(bench.reservations().len(), 2, "they are slower");
    // W is 3 s, and renewals come ten seconds apart.
    took(begun, ..35.0);
    seconds(300).await;
    assert_eq!(bench.reservations(), Vec::<String>::new());
}

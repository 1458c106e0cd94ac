//! etcd is restored from a backup: what was seen since then may never have happened, and resourceVersions are given
//! out a second time.

use crate::prelude::*;
use ipgc::leader::{LEASE, PAUSE_ANNOTATION};

/// Writes that have nothing to do with anybody here, as every cluster has them.
fn write(server: &Server, count: usize) {
    for _ in 0..count {
        server.put(fixtures::namespace("busy"));
    }
}

/// How often all objects were listed, with all that they are.
fn listed(bench: &Bench, resource: &str) -> usize {
    let lists = bench.sent(Match::list(resource).namespace(""));
    lists.filter(|request| !request.metadata_only).len()
}

/// Its name never returns, so that nothing but its own end holds its row.
fn put_web(server: &Server, node: &str, offset: u64) {
    let web = reporting(&format!("web-{offset}"), offset).owner("ReplicaSet", "web");
    server.put(web.node(node).running());
}

/// A pod ends well, etcd is restored, and there it is again. Its node is silent, and it is deleted by force: its
/// good end never was. Whether anybody sees it meanwhile or not.
#[rstest]
#[case::seen_again(10)]
#[case::not_seen_again(0)]
#[tokio::test(start_paused = true)]
async fn a_good_end_that_was_undone_frees_nothing(#[case] lives: u64) {
    let server = server();
    put_pool(&server, &[(1, "web-1"), (2, "web-2")]);
    silent_node(&server, "node-1");
    let _beat = live_node(&server, "node-2");
    put_web(&server, "node-1", 1);
    put_web(&server, "node-2", 2);
    put_neighbour(&server, POOL);
    let bench = Bench::long_since(server, Config::default()).await;
    let backup = bench.back_up();
    write(&bench, 1_000);
    // The row stays, since the pool cannot be written.
    let refused = bench.on(Match::patch("ippools")).fail(503);
    bench.end(["web-1"]);
    seconds(5).await;
    bench.restore(backup);
    refused.remove();
    if lives > 0 {
        seconds(lives).await;
    }
    bench.kubelet().force_delete(NS, "web-1");
    bench.kubelet().force_delete(NS, "web-2");
    if lives > 0 {
        // The one on the node that is at work goes, after W.
        goes_in(&bench, POOL, "2", W - 10..=W + 300).await;
        stays(&bench, POOL, &["1"]).await;
    } else {
        // As after a restart, nobody knows on which of the nodes they were.
        stays(&bench, POOL, &["1", "2"]).await;
    }
    assert_eq!(bench.counted("history_went_back"), 1);
    let told = bench.events("Namespace");
    assert_eq!(told.len(), 1, "{told:?}");
    says(&told[0], &["HistoryWentBack", "Restart all kubelets"]);
}

/// The watch is told nothing for as long as the versions are those of the past, and no error: so all is listed anew at
/// once, whether or not anybody asks for a list.
#[tokio::test(start_paused = true)]
async fn all_is_listed_anew_when_a_watch_is_taken_up_at_a_version_of_the_future() {
    let server = running(&[(1, "web-1")]);
    let _beat = live_node(&server, "node-1");
    let bench = Bench::long_since(server, seldom()).await;
    let backup = bench.back_up();
    write(&bench, 1_000);
    seconds(61).await;
    bench.clear_requests();
    bench.restore(backup);
    seconds(5).await;
    for resource in ["pods", "nodes", NADS] {
        let lists = listed(&bench, resource);
        assert_eq!(lists, 1, "{resource}\n{}", bench.requests());
    }
    // Observations from then on count.
    seconds(W + 300).await;
    bench.end(["web-1"]);
    // The list showed a state that may be older than its sandbox: its end is not settled.
    goes_in(&bench, POOL, "1", W - 1..=W + 120).await;
    assert_eq!(bench.counted("history_went_back"), 1);
}

/// An API server that goes on while its etcd is restored ends no watch: a list shows it.
#[tokio::test(start_paused = true)]
async fn a_list_that_shows_a_smaller_version_drops_the_watches() {
    let server = running(&[(1, "web-1")]);
    let _beat = live_node(&server, "node-1");
    let bench = Bench::long_since(server, seldom()).await;
    let past = bench.revision();
    write(&bench, 1_000);
    // The Leases are read while somebody waits for them.
    bench.kubelet().force_delete(NS, "web-1");
    seconds(15).await;
    bench.clear_requests();
    let stale = bench.on(Match::list("leases")).once();
    stale.serve_stale(past);
    seconds(15).await;
    assert_eq!(listed(&bench, "pods"), 1, "{}", bench.requests());
    assert_eq!(bench.counted("history_went_back"), 1);
}

/// A watch that is deaf is no fresh one, however often it is taken up.
#[tokio::test(start_paused = true)]
async fn the_head_of_a_watch_is_no_word_of_it() {
    let bench = Bench::long_since(running(&[(1, "web-1")]), Config::default()).await;
    bench.end(["web-1"]);
    sleep(Duration::from_millis(100)).await;
    // From now on each watch is answered with a head, and nothing comes of it.
    for _ in 0..30 {
        bench.on(Match::watch("pods")).once().fail(503);
        bench.cut_watches("pods");
        seconds(5).await;
    }
    assert_eq!(bench.rows(POOL), ["1"], "{}", bench.requests());
    goes_after(&bench, POOL, "1", 600).await;
}

/// The Lease as it was in the backup may be another copy's, or free. The former leader writes it again before it
/// leads.
#[tokio::test(start_paused = true)]
async fn a_leader_relies_on_its_lease_no_more_until_it_has_written_it_again() {
    let config = seldom().with(|it| it.lease_namespace = Some("ipgc-system".to_owned()));
    let server = server();
    run_pod(&server, "web-1", 1);
    let bench = Bench::long_since(server, config).await;
    assert!(bench.running.context.is_leader());
    let backup = bench.back_up();
    write(&bench, 1_000);
    // A watch has to be heard of these.
    run_pod(&bench, "web-2", 2);
    seconds(1).await;
    bench.restore(backup);
    let unwritten = bench.on(Match::writes("leases")).hang();
    let mut led = 0;
    while bench.running.context.is_leader() {
        sleep(Duration::from_millis(100)).await;
        led += 1;
    }
    assert!(led < 30, "it led {led} tenths of a second, and may 100");
    assert_eq!(bench.counted("history_went_back"), 1);
    unwritten.remove();
    seconds(10).await;
    assert!(bench.running.context.is_leader());
}

/// A person pauses, and both backups are from before: the second is put back since the first was too old. Lists and watches
/// tell of the first restoration at once, or late.
#[rstest]
#[tokio::test(start_paused = true)]
async fn a_pause_that_was_undone_lasts_until_a_person_ends_it(#[values(0, 60)] late: u64) {
    let config = seldom().with(|it| it.lease_namespace = Some("ipgc-system".to_owned()));
    let bench = Bench::long_since(server(), config).await;
    let too_old = bench.back_up();
    write(&bench, 1_000);
    seconds(10).await;
    let backup = bench.back_up();
    write(&bench, 1_000);
    seconds(10).await;
    let annotate = |annotations: Value| {
        let found = bench.edit("leases", "ipgc-system", LEASE, |lease| {
            lease["metadata"]["annotations"] = annotations.clone();
        });
        assert!(found);
    };
    annotate(json!({ PAUSE_ANNOTATION: "true" }));
    seconds(10).await;
    let tells = |it: &Request| [Verb::List, Verb::Watch].contains(&it.verb);
    let untold = bench.on(Match::any().filter(tells)).fail(503);
    bench.restore(too_old);
    for second in 0..late + 60 {
        if second == late {
            untold.remove();
        }
        seconds(1).await;
        assert!(!bench.running.context.is_leader(), "after {second} s");
    }
    assert_eq!(bench.counted("history_went_back"), 1);
    bench.restore(backup);
    for second in 0..60 {
        seconds(1).await;
        assert!(!bench.running.context.is_leader(), "after {second} s");
    }
    let lease = bench.get("leases", "ipgc-system", LEASE).unwrap();
    let annotations = &lease["metadata"]["annotations"];
    assert!(annotations[PAUSE_ANNOTATION].is_string(), "{lease}");
    annotate(Value::Null);
    seconds(10).await;
    assert!(bench.running.context.is_leader());
}

/// Each watch that begins asks whether the data went back, until it is told.
#[tokio::test(start_paused = true)]
async fn watches_that_begin_while_lists_are_refused_ask_one_after_the_other() {
    let bench = Bench::long_since(server(), Config::default()).await;
    bench.on(Match::list("nodes")).deny();
    for _ in 0..100 {
        bench.cut_watches("nodes");
        seconds(60).await;
    }
    let asked = || bench.requests().matching(&Match::list("nodes")).len();
    let before = asked();
    seconds(600).await;
    let asked = asked() - before;
    assert!((10..60).contains(&asked), "{asked} requests in ten minutes");
}

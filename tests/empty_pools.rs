//! Pools that nobody needs any more, with `--collect-empty-pools`.

use crate::prelude::*;

const HOUR: u64 = 3_600;
/// A pool that no definition leads to.
const OLD: &str = "10.9.0.0-24";

fn config(dry_run: bool) -> Config {
    Config {
        collect_empty_pools: true,
        dry_run,
        ..Config::default()
    }
}

/// A cluster with an empty pool that no definition leads to.
fn with_old() -> Server {
    let server = server();
    server.put(fixtures::pool(NS, "10.9.0.0/24"));
    server
}

async fn bench(server: Server, config: Config) -> Bench {
    let _beat = live_node(&server, "node-1");
    Bench::with(server, config).await
}

fn is_there(bench: &Bench, pool: &str) -> bool {
    bench.get("ippools", NS, pool).is_some()
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_was_empty_and_unreferenced_for_a_day_goes() {
    let server = with_old();
    // One that a definition leads to.
    server.put(fixtures::nad(NS, "other", "10.8.0.0/24"));
    server.put(fixtures::pool(NS, "10.8.0.0/24"));
    let bench = bench(server, config(false)).await;
    seconds(23 * HOUR).await;
    assert!(is_there(&bench, OLD));
    seconds(2 * HOUR).await;
    assert!(!is_there(&bench, OLD));
    assert!(is_there(&bench, "10.8.0.0-24"));
    let deletes = bench.sent(Match::delete("ippools"));
    assert_eq!(deletes.len(), 1);
}

fn edit(server: &Server, change: &Value) {
    server.edit("ippools", NS, OLD, |pool| json_patch::merge(pool, change));
}

fn define(server: &Server, ipam: &Value) {
    server.put(fixtures::nad_with_ipam(NS, "net", ipam));
}

#[rstest]
#[case::it_has_a_row(|s: &Server| put_row_on(s, OLD, 1, "web-1", "net1", 1))]
#[case::a_person_exempts_it(|s: &Server| edit(s, &json!({"metadata": {"annotations": {"ipgc.dev/hold": ""}}})))]
#[case::a_person_exempts_an_address(|s: &Server| edit(s, &json!({"metadata": {"annotations": {"ipgc.dev/keep": "10.9.0.7"}}})))]
#[case::it_has_a_finalizer(|s: &Server| edit(s, &json!({"metadata": {"finalizers": ["example.com/x"]}})))]
// A definition whose range is in a file on the nodes, or cannot be read, may lead to it.
#[case::a_definition_in_a_file(|s: &Server| define(s, &json!({"type": "whereabouts"})))]
#[case::a_broken_definition(|s: &Server| define(s, &json!({"type": "whereabouts", "range": "10.9.0.0/240"})))]
#[tokio::test(start_paused = true)]
async fn one_that_somebody_may_need_stays(#[case] need: fn(&Server)) {
    let server = with_old();
    server.put(fixtures::pod(NS, "web-1").node("node-1").running());
    need(&server);
    let bench = bench(server, config(false)).await;
    seconds(30 * HOUR).await;
    assert!(is_there(&bench, OLD));
    assert!(bench.sent(Match::delete("ippools")).is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_that_a_definition_leads_to_within_the_day_stays() {
    let bench = bench(with_old(), config(false)).await;
    seconds(23 * HOUR + 1_800).await;
    bench.put(fixtures::nad(NS, "other", "10.9.0.0/24"));
    seconds(10 * HOUR).await;
    assert!(is_there(&bench, OLD));
}

/// A pod came and went between two looks.
#[tokio::test(start_paused = true)]
async fn each_write_to_it_begins_the_day_anew() {
    let bench = bench(with_old(), config(false)).await;
    seconds(20 * HOUR).await;
    for rows in [json!({"1": {}}), json!({})] {
        bench.edit("ippools", NS, OLD, |pool| {
            pool["spec"]["allocations"] = rows;
        });
    }
    seconds(23 * HOUR).await;
    assert!(is_there(&bench, OLD));
    seconds(3 * HOUR).await;
    assert!(!is_there(&bench, OLD));
}

/// An ADD writes its row after the look, and before the deletion.
#[tokio::test(start_paused = true)]
async fn a_row_that_is_written_in_time_keeps_its_pool() {
    let bench = bench(with_old(), config(false)).await;
    let server = Server::clone(&bench);
    bench.on(Match::delete("ippools")).before(move |_| {
        let server = server.clone();
        async move {
            server.edit("ippools", NS, OLD, |pool| {
                pool["spec"]["allocations"]["1"] =
                    fixtures::row(&fixtures::sandbox(1), "default/web-1", "net1");
            });
        }
    });
    bench.put(fixtures::pod(NS, "web-1").node("node-1").running());
    seconds(30 * HOUR).await;
    assert_eq!(bench.sent(Match::delete("ippools")).len(), 1);
    assert_eq!(bench.rows(OLD), ["1"]);
}

#[tokio::test(start_paused = true)]
async fn a_look_that_fails_is_told_and_forgets_nothing() {
    let (log, _guard) = Log::start();
    let bench = bench(with_old(), config(false)).await;
    seconds(20 * HOUR).await;
    let rule = bench.on(Match::list(NADS)).deny();
    seconds(3 * HOUR).await;
    rule.remove();
    seconds(2 * HOUR).await;
    assert!(!is_there(&bench, OLD));
    assert!(!log.lines("empty pools cannot be looked for").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_is_refused_is_told_and_tried_again() {
    let (log, _guard) = Log::start();
    let bench = bench(with_old(), config(false)).await;
    bench.on(Match::delete("ippools")).once().deny();
    seconds(25 * HOUR + 60).await;
    assert!(!log.lines("the empty pool is not deleted").is_empty());
    seconds(HOUR).await;
    assert!(!is_there(&bench, OLD));
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_only_says_so() {
    let (log, _guard) = Log::start();
    let bench = bench(with_old(), config(true)).await;
    seconds(25 * HOUR).await;
    assert!(is_there(&bench, OLD));
    assert!(bench.sent(Match::delete("ippools")).is_empty());
    assert!(!log.lines("would delete the pool").is_empty());
}

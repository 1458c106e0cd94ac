//! The breaker in a run: the frees that it stops, its reports, and each way out.

use crate::prelude::*;
use ipgc::clock::set_wall;
use ipgc_core::breaker::Limits;
use jiff::Timestamp;
use tokio::time::Instant;

/// The second pool with suspects, and one without any.
const OTHER: &str = "10.1.0.0-24";
const QUIET: &str = "10.2.0.0-24";
/// How many suspects each of the two has: only those of both are too many.
const SUSPECTS: usize = 4;
/// `--breaker-hold`, in seconds.
const HOLD: u64 = 1_800;

fn config() -> Config {
    assert_eq!(Limits::default().hold.as_secs(), HOLD);
    Config::default().with(|it| it.breaker.min = 5)
}

fn suspects(range: &str, third: u64, count: usize) -> fixtures::PoolBuilder {
    (1..)
        .take(count)
        .fold(fixtures::pool(NS, range), |pool, n| {
            let id = fixtures::sandbox(1_000 * third + n);
            pool.row(n, &id, &format!("{NS}/lost-{third}-{n}"), "net1")
        })
}

/// Two pools of rows that nobody saw losing their pods, one whose only pod runs, and two rows for
/// pods that the collector may watch. The server's clock is ours, as that of the finding and its acknowledgement.
fn room() -> Server {
    let (start, begun) = (Timestamp::now(), Instant::now());
    set_wall(move || start + begun.elapsed());
    let server = Server::builder().start_time(start).build();
    server.put(fixtures::nad(NS, "net", RANGE));
    let row = |n| fixtures::row(&fixtures::sandbox(n), &format!("{NS}/web-{n}"), "net1");
    let pool = suspects(RANGE, 0, SUSPECTS);
    server.put(pool.raw_row("101", row(101)).raw_row("102", row(102)));
    server.put(suspects("10.1.0.0/24", 1, SUSPECTS));
    let quiet = fixtures::pool(NS, "10.2.0.0/24");
    server.put(quiet.raw_row("103", row(103)));
    let alive = fixtures::pod(NS, "web-103").node("node-1");
    let alive = alive.reports("default/other", "net1", &["10.2.0.103"]);
    server.put(alive.running());
    for n in [101, 102] {
        run_pod(&server, &format!("web-{n}"), n);
    }
    server
}

/// A collector in that room that has found them.
async fn open() -> Bench {
    let bench = Bench::with(room(), config()).await;
    seconds(300).await;
    assert_eq!(stopped(&bench), (SUSPECTS, SUSPECTS));
    bench
}

/// How many rows of suspects are left in the two pools.
fn stopped(bench: &Bench) -> (usize, usize) {
    let few = bench.rows(POOL);
    let few = few.iter().filter(|key| key.len() < 3).count();
    (few, bench.rows(OTHER).len())
}

fn acknowledge(server: &Server, pool: &str, when: Timestamp) {
    annotate_pool(server, pool, "ipgc.dev/ack", &when.to_string());
}

#[tokio::test(start_paused = true)]
async fn it_is_told_on_each_pool_that_it_concerns() {
    let bench = open().await;
    let events = pool_events(&bench, "IPPoolGCBreakerOpen");
    assert_eq!(events.len(), 2, "{events:?}");
    for (event, pool, count) in [(&events[0], POOL, SUSPECTS), (&events[1], OTHER, SUSPECTS)] {
        assert!(event.starts_with("Warning"), "{event}");
        let count = format!("{count} addresses are not freed");
        let ask = format!("annotate ippools.whereabouts.cni.cncf.io {pool} ");
        says(event, &[&count, &ask, "ipgc.dev/ack"]);
    }
    assert!(bench.counted("frees_stopped") >= (2 * SUSPECTS) as u64);
}

/// Also if a sweep cannot see everything.
#[tokio::test(start_paused = true)]
async fn it_is_shown_though_reservations_cannot_be_listed() {
    let server = room();
    server.on(Match::list(ORIP)).fail(503);
    let bench = Bench::with(server, config()).await;
    seconds(300).await;
    assert_eq!(stopped(&bench), (SUSPECTS, SUSPECTS));
    let shown = Scrape::of(&bench.running);
    assert_eq!(shown.get("ipgc_breaker_open"), Some(1.0));
}

#[tokio::test(start_paused = true)]
async fn it_lets_go_the_pool_that_is_acknowledged_and_no_other() {
    let bench = open().await;
    // From before the finding: about something else, so that it counts for nothing.
    acknowledge(&bench, POOL, bench.now() - Duration::from_secs(3_600));
    seconds(600).await;
    assert_eq!(stopped(&bench), (SUSPECTS, SUSPECTS));
    acknowledge(&bench, POOL, bench.now());
    for n in 1..=SUSPECTS {
        goes_after(&bench, POOL, &n.to_string(), 120).await;
    }
    // Long after, and before the hold is over.
    seconds(600).await;
    assert_eq!(stopped(&bench), (0, SUSPECTS));
    assert_eq!(bench.rows(POOL), ["101", "102"]);
    assert_eq!(bench.rows(QUIET), ["103"]);
}

/// A person saves the rows of one pool after the other. The rest is few, and waits all the same.
#[tokio::test(start_paused = true)]
async fn it_holds_what_is_left_after_others_were_exempted() {
    let bench = open().await;
    annotate_pool(&bench, POOL, "ipgc.dev/hold", "true");
    seconds(900).await;
    assert_eq!(stopped(&bench), (SUSPECTS, SUSPECTS));
    seconds(HOLD - 300 - 900 + 120).await;
    assert_eq!(stopped(&bench), (SUSPECTS, 0));
}

/// By a clock that is hours ahead.
#[tokio::test(start_paused = true)]
async fn an_acknowledgement_in_the_future_lets_nothing_go() {
    let bench = open().await;
    acknowledge(&bench, POOL, bench.now() + Duration::from_secs(3_600));
    seconds(900).await;
    assert_eq!(stopped(&bench), (SUSPECTS, SUSPECTS));
}

#[tokio::test(start_paused = true)]
async fn it_lets_go_after_the_hold_what_nobody_acknowledged() {
    let bench = open().await;
    seconds(HOLD - 300 - 5).await;
    assert_eq!(
        stopped(&bench),
        (SUSPECTS, SUSPECTS),
        "before the hold is over"
    );
    seconds(125).await;
    assert_eq!(stopped(&bench), (0, 0), "\n{}", bench.requests());
    assert_eq!(bench.rows(POOL), ["101", "102"]);
    assert_eq!(bench.rows(QUIET), ["103"]);
}

#[tokio::test(start_paused = true)]
async fn it_does_not_concern_ends_that_were_watched() {
    let bench = open().await;
    // One ends well, one by force.
    bench.end(["web-101"]);
    bench.kubelet().force_delete(NS, "web-102");
    let waited = goes_after(&bench, POOL, "101", 9).await;
    goes_in(&bench, POOL, "102", W - waited..=W + 60).await;
    assert_eq!(stopped(&bench), (SUSPECTS, SUSPECTS));
}

#[tokio::test(start_paused = true)]
async fn it_holds_anew_after_a_restart() {
    let bench = open().await;
    // The hold is all but over.
    seconds(HOLD - 300 - 30).await;
    assert_eq!(stopped(&bench), (SUSPECTS, SUSPECTS));
    let server = bench.stop().await;

    // For ten minutes the new one cannot look at the pools.
    let contents = Match::list("ippools").filter(|r| !r.metadata_only);
    let sweeps = server.on(contents).fail(503);
    let bench = Bench::with(server, config()).await;
    seconds(600).await;
    assert!(sweeps.hits() > 0);
    assert_eq!(
        stopped(&bench),
        (SUSPECTS, SUSPECTS),
        "nobody has looked yet"
    );
    sweeps.remove();
    seconds(HOLD - 10).await;
    assert!(bench.counted("sweeps_ended") > 3);
    assert_eq!(stopped(&bench), (SUSPECTS, SUSPECTS), "it holds anew");
    let events = pool_events(&bench, "IPPoolGCBreakerOpen");
    assert_eq!(events.len(), 4, "{events:?}");
    seconds(240).await;
    assert_eq!(stopped(&bench), (0, 0), "\n{}", bench.requests());
}

/// An end that only a list told is no suspect of a sweep yet: it waits for the next one.
#[tokio::test(start_paused = true)]
async fn an_end_that_a_list_told_waits_for_a_sweep() {
    let bench = Bench::with(room(), Config::default()).await;
    seconds(900).await;
    let contents = Match::list("ippools").filter(|r| !r.metadata_only);
    let sweeps = bench.on(contents).fail(503);
    let gap = bench.gap().await;
    bench.kubelet().force_delete(NS, "web-101");
    bench.compact();
    gap.remove();
    seconds(3_600).await;
    assert!(sweeps.hits() > 0);
    let proofs = bench.sent(Match::get("pods").name("web-101"));
    assert!(!proofs.is_empty(), "nobody asked");
    assert!(bench.rows(POOL).contains(&"101".to_owned()));
    sweeps.remove();
    goes_after(&bench, POOL, "101", 120).await;
    assert_eq!(bench.rows(POOL), ["102"]);
}

/// More than the least number, and less than half of all.
#[tokio::test(start_paused = true)]
async fn a_small_part_opens_nothing() {
    let server = room();
    // Eight of 27.
    let mut pool = fixtures::pool(NS, "10.3.0.0/24");
    for n in 1..=16 {
        let name = format!("busy-{n}");
        pool = pool.row_of(n, &format!("{NS}/{name}"));
        let pod = reporting(&name, 200 + n).networks("default/net,default/net");
        server.put(pod.running());
    }
    server.put(pool);
    let bench = Bench::with(server, config()).await;
    seconds(W + 60).await;
    assert_eq!(stopped(&bench), (0, 0));
    assert_eq!(bench.rows("10.3.0.0-24").len(), 16);
}

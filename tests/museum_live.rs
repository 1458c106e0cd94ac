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

/// The same, with a collector that knows of no `web-0`, since its watch never showed that one was
/// born.
async fn room_with_an_unseen_pod() -> Bench {
    let bench = Bench::start(with_neighbour(&[])).await;
    let births = bench.on_events(Match::watch("pods")).name("web-0");
    births.lose();
    seconds(20).await;
    run_pod(&bench, "web-0", 1);
    put_row(&bench, 1, "web-0", 1);
    bench
}

fn position(bench: &Bench, what: impl Fn(&Request) -> bool) -> usize {
    let requests = bench.requests();
    let position = requests.iter().position(what);
    position.unwrap_or_else(|| panic!("no such request\n{requests}"))
}

fn is(verb: Verb, resource: &'static str, name: &'static str) -> impl Fn(&Request) -> bool {
    move |r| r.verb == verb && r.resource == resource && r.name == name
}

#[tokio::test(start_paused = true)]
async fn m1_01_pod_created_between_two_lists() {
    let bench = room_with_an_unseen_pod().await;
    stays(&bench, POOL, &["1"]).await;
    // The row first, then its pod.
    let observed = position(&bench, is(Verb::Get, "ippools", POOL));
    let proved = position(&bench, is(Verb::Get, "pods", "web-0"));
    assert!(observed < proved, "{}", bench.requests());
}

#[tokio::test(start_paused = true)]
async fn m1_02_annotation_not_written_yet() {
    let server = room();
    let pod = asking("web-0");
    server.put(pod.status(fixtures::starting_status()));
    let bench = Bench::start(server).await;
    stays(&bench, POOL, &["1"]).await;
    bench.kubelet().run_pod(NS, "web-0", &[]);
    seconds(7_200).await;
    assert_eq!(bench.rows(POOL), ["1"], "running, and still not written");
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
async fn m1_07_one_half_decides_for_both() {
    let server = room();
    server.put(fixtures::nad(NS, "six", "fd00::/120"));
    let six = fixtures::pool_name("fd00::/120");
    let pool = fixtures::pool(NS, "fd00::/120");
    let pool = pool.row(1, &fixtures::sandbox(1), "default/web-0", "net2");
    // Its former sandbox had this one, and lost its other half.
    let pool = pool.row(9, &fixtures::sandbox(9), "default/web-0", "net2");
    server.put(pool);
    let pod = reporting("web-0", 1).networks("default/net,default/six");
    let pod = pod.reports("default/six", "net2", &["fd00::1"]);
    server.put(pod.running());
    let bench = Bench::start(server).await;
    stays(&bench, POOL, &["1"]).await;
    assert_eq!(bench.rows(&six), ["1"], "the former sandbox's row goes");
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
async fn m1_10_malformed_empty_or_partial_annotation() {
    let server = server();
    let statuses = ["{", "[]", "", "null", r#"[{"name":7}]"#];
    let names: Vec<_> = (1..=6).map(|n| format!("web-{n}")).collect();
    put_pool(&server, &numbered(&names));
    put_neighbour(&server, POOL);
    for (name, status) in names.iter().zip(statuses) {
        let pod = asking(name);
        let pod = pod.annotation(fixtures::NETWORK_STATUS, status);
        server.put(pod.running());
    }
    // Two were asked for, one is told.
    let partial = reporting("web-6", 60).networks("default/net,default/net");
    server.put(partial.running());
    put_row(&server, 60, "web-6", 60);
    let bench = Bench::start(server).await;
    stays(&bench, POOL, &["1", "2", "3", "4", "5", "6", "60"]).await;
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
async fn m1_12_text_compared_instead_of_addresses() {
    let server = room();
    run_pod(&server, "web-0", 1);
    server.put(fixtures::nad(NS, "six", "fd00::/120"));
    let six = fixtures::pool_name("fd00::/120");
    let pool = fixtures::pool(NS, "fd00::/120");
    let pool = pool.row_of(1, "default/web-6");
    let pool = pool.row_of(16, "default/gone");
    server.put(pool);
    server.put(on_net("six", "web-6", "FD00:0:0:0::0001").running());
    let expanded = |last: &str| format!("fd00-0000-0000-0000-0000-0000-0000-{last}");
    // Addresses that end in zeroes are stored with one more, and a network goes before the name.
    let zeroes = "fd01:0:0:1::/64";
    let pool = fixtures::pool(NS, zeroes).network_name("blue");
    let pool = pool.row(ZEROES, &fixtures::sandbox(21), "default/web-7", "net1");
    let pool = pool.row(2 * ZEROES, &fixtures::sandbox(22), "default/gone", "net1");
    server.put(pool);
    server.put(on_net("blue", "web-7", "fd01:0:0:1:7:0:0:0").running());
    for (name, pod) in [
        (expanded("0001"), "web-6"),
        (expanded("0010"), "gone"),
        ("blue-fd01-0-0-1-7--0".to_owned(), "web-7"),
        ("blue-fd01-0-0-1-e--0".to_owned(), "gone"),
    ] {
        reserve(&server, &name, pod);
    }
    let bench = Bench::start(server).await;
    stays(&bench, POOL, &["1"]).await;
    assert_eq!(bench.rows(&six), ["1"]);
    let blue = format!("blue-{}", fixtures::pool_name(zeroes));
    assert_eq!(bench.rows(&blue), [ZEROES.to_string()]);
    let left = bench.reservations();
    let in_use = ["10.0.0.1", "blue-fd01-0-0-1-7--0", &expanded("0001")];
    assert_eq!(left, in_use);
}

/// The offset of `::7:0:0:0` in a range of 64 bits.
const ZEROES: u64 = 7 << 48;

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

#[tokio::test(start_paused = true)]
async fn m1_17_owner_is_not_a_pod() {
    // The schema of a version to come, which knows of claims.
    let server = Server::builder().adjust("ippools", |r| r.prune = false);
    let server = server.build();
    let id = fixtures::sandbox(1);
    let mut claim = fixtures::row(&id, "default/gone", "net1");
    claim["claim"] = "default/claim".into();
    let pool = fixtures::pool(NS, RANGE)
        .raw_row("1", claim)
        .raw_row("2", fixtures::row("claim-uid", "default/gone", "net1"))
        .raw_row("3", fixtures::row(&id, "gone", "net1"))
        .raw_row("4", fixtures::row(&id, "dra/gone", "net1"))
        .raw_row("5", fixtures::row(&id, "default/gone", "net1"));
    server.put(pool);
    put_neighbour(&server, POOL);
    let config = Config::default()
        .with(|it| it.policy.keep_podrefs = vec![ipgc_core::podref::Glob::new("dra/*")]);
    let bench = Bench::with(server, config).await;
    // Row 5 is a pod's, and leaked.
    stays(&bench, POOL, &["1", "2", "3", "4"]).await;
    assert!(bench.counted("rows_unknown") >= 4);
}

#[tokio::test(start_paused = true)]
async fn m1_18_reservation_of_a_live_pod_without_a_row() {
    let server = room();
    run_pod(&server, "web-0", 1);
    run_pod(&server, "web-7", 7);
    server.put(asking("web-8").running());
    for (offset, pod) in [(7, "web-7"), (8, "web-8"), (9, "gone")] {
        reserve(&server, &format!("10.0.0.{offset}"), pod);
    }
    let bench = Bench::start(server).await;
    stays(&bench, POOL, &["1"]).await;
    let left = bench.reservations();
    assert_eq!(left, ["10.0.0.1", "10.0.0.7", "10.0.0.8"]);
}

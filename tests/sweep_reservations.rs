//! Reservations without a row: whose the sweep removes, and whose it leaves alone.

use std::ops::RangeInclusive;

use crate::prelude::*;

/// `alive` uses row 2, with its reservation.
fn room() -> Server {
    running(&[(2, "alive")])
}

/// Just these are left within so many seconds.
async fn left_after(bench: &Bench, names: &[&str], at_most: u64) {
    left_in(bench, names, 0..=at_most).await;
}

/// Just these are left within these seconds, and not before them.
async fn left_in(bench: &Bench, names: &[&str], within: RangeInclusive<u64>) {
    for second in 0..=*within.end() {
        if bench.reservations() == names {
            assert!(within.contains(&second), "deleted after {second} s");
            return;
        }
        seconds(1).await;
    }
    let left = bench.reservations();
    panic!("{left:?} instead of {names:?}\n{}", bench.requests());
}

#[tokio::test(start_paused = true)]
async fn of_a_pod_that_is_gone() {
    let server = room();
    reserve(&server, "10.0.0.9", "gone");
    let bench = Bench::start(server).await;
    left_in(&bench, &["10.0.0.2"], W + 10..=600).await;
    // Claimed, proven, deleted.
    assert_eq!(bench.sent(Match::patch(ORIP).name("10.0.0.9")).len(), 1);
    seconds(3_600).await;
    assert_eq!(bench.reservations(), ["10.0.0.2"]);
}

/// Of those that cannot be read nobody knows whose they are: one that names no pod, one that says more than we know,
/// and the same claimed.
#[tokio::test(start_paused = true)]
async fn never_of_nobody_knows_whom() {
    let server = room();
    let put = |offset: u64, spec: Value| {
        let mut reservation = fixtures::reservation(NS, &format!("10.0.0.{offset}"), "", "");
        reservation["spec"] = spec;
        reservation["metadata"]["annotations"]["ipgc.dev/claimed-from"] = "default/gone".into();
        server.put(reservation);
    };
    put(5, json!({ "containerid": fixtures::sandbox(5) }));
    put(6, json!({ "podref": "default/gone", "ipamclaim": "c" }));
    put(
        7,
        json!({ "podref": "ipgc.dev/releasing", "ipamclaim": "c" }),
    );
    // Of this one it is known.
    put(
        9,
        json!({ "podref": "default/gone", "ifname": "net1", "poduid": "u" }),
    );
    let bench = Bench::start(server).await;
    let kept = ["10.0.0.2", "10.0.0.5", "10.0.0.6", "10.0.0.7"];
    left_after(&bench, &kept, 600).await;
    seconds(3_600).await;
    assert_eq!(bench.reservations(), kept);
}

#[tokio::test(start_paused = true)]
async fn waits_longer_than_from_sweep_to_sweep() {
    let server = room();
    reserve(&server, "10.0.0.9", "alive");
    let config = Config::default().with(|it| it.policy.leftover_grace = Duration::from_secs(7_200));
    let bench = Bench::with(server, config).await;
    left_in(&bench, &["10.0.0.2"], 7_200..=7_900).await;
}

/// Those of pods that are gone go, whatever their names are, and others stay.
#[rstest]
#[case::in_every_spelling(&["10.0.0.2", "fd00-0000-0000-0000-0000-0000-0000-0001"], |s: &Server| {
    let six = fixtures::pool(NS, "fd00::/120");
    s.put(six.row_of(1, "default/six"));
    s.put(on_net("six", "six", "fd00::1").running());
    s.put(fixtures::pool(NS, RANGE).network_name("blue"));
    reserve(s, "fd00-0000-0000-0000-0000-0000-0000-0001", "six");
    for name in ["fd00--0", "fd00-0000-0000-0000-0000-0000-0000-0010", "blue-10.0.0.77", "red-10.0.0.78", "10.0.0.79"] {
        reserve(s, name, "gone");
    }
})]
// Row 2 is of `alive`; somebody who is gone has the reservation of its address.
#[case::a_row_of_another_holds_the_address(&["10.0.0.2"], |s: &Server| {
    s.delete(ORIP, NS, "10.0.0.2");
    reserve(s, "10.0.0.2", "gone");
    reserve(s, "10.0.0.9", "gone");
})]
#[case::of_a_pool_that_is_gone(&["10.0.0.2"], |s: &Server| reserve(s, "10.55.0.9", "gone"))]
#[tokio::test(start_paused = true)]
async fn just_these_are_left(#[case] left: &[&str], #[case] puts: fn(&Server)) {
    let server = room();
    puts(&server);
    let bench = Bench::start(server).await;
    left_after(&bench, left, 900).await;
    seconds(7_200).await;
    assert_eq!(bench.reservations(), left);
}

/// Whichever pool the sweep finds for it: a wider range of the same network, or none since the pool was a node's slice.
#[rstest]
#[case::in_a_narrower_range("10.0.0.9", fixtures::pool(NS, "10.0.0.0/25"))]
#[case::in_a_former_slice("sliced-10.8.3.1", fixtures::pool(NS, "10.8.3.0/24").network_name("sliced-node-1"))]
#[tokio::test(start_paused = true)]
async fn of_an_exempt_pool_stay(#[case] name: &str, #[case] pool: fixtures::PoolBuilder) {
    for (is_exempt, left) in [(true, vec!["10.0.0.2", name]), (false, vec!["10.0.0.2"])] {
        let server = room();
        let pool = pool.clone();
        server.put(if is_exempt {
            pool.annotation("ipgc.dev/hold", "")
        } else {
            pool
        });
        reserve(&server, name, "gone");
        reserve(&server, "10.0.0.200", "gone");
        let bench = Bench::start(server).await;
        left_after(&bench, &left, 900).await;
        seconds(3_600).await;
        assert_eq!(bench.reservations(), left);
    }
}

/// In an outage all reservations of the pods that are gone lack nothing but the pods.
#[tokio::test(start_paused = true)]
async fn those_whose_rows_a_sweep_has_seen_need_no_second_look() {
    // The last one is of another network than the row with that address.
    for (lone, looks) in [(None, 1), (Some("10.0.0.9"), 2), (Some("blue-10.0.0.3"), 2)] {
        let server = room();
        silent_node(&server, "dead");
        put_pool(&server, &[(2, "alive"), (3, "gone")]);
        server.put(fixtures::pool(NS, RANGE).network_name("blue"));
        for name in ["10.0.0.3"].into_iter().chain(lone) {
            reserve(&server, name, "gone");
        }
        let bench = Bench::start(server).await;
        seconds(3_600).await;
        let listed = |kind| {
            let lists = bench.sent(Match::list(kind));
            lists.filter(|request| !request.metadata_only).len()
        };
        let sweeps = listed("nodeslicepools");
        assert!(sweeps >= 10, "{sweeps}");
        assert_eq!(listed("ippools"), sweeps * looks, "{lone:?}");
        assert_eq!(bench.rows(POOL), ["2", "3"], "held by the node");
        bench.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn claim_that_a_crash_left() {
    let server = room();
    for (name, owner) in [("10.0.0.9", "gone"), ("10.0.0.2", "alive")] {
        put_claimed(&server, name, owner);
    }
    let bench = Bench::start(server).await;
    left_after(&bench, &["10.0.0.2"], 900).await;
    seconds(900).await;
    assert_eq!(podref(&bench, "10.0.0.2"), "default/alive", "given back");
}

#[rstest]
// Two ADDs raced for one address of two ranges that overlap: both rows are there, and one reservation. Its pod went, and
// the run that had claimed it.
#[case::while_another_pod_has_a_row_of_the_address("gone", 900, |s: &Server| {
    s.put(asking("stuck"));
    put_row(s, 9, "stuck", 9);
})]
#[case::of_a_live_pod_without_a_row("web-9", 1_200, |s: &Server| run_pod(s, "web-9", 9))]
// Its row is not in the pool of its network that comes first.
#[case::with_a_row_in_another_pool("web-9", 900, |s: &Server| {
    put_wider_pool(s);
    run_pod(s, "web-9", 9);
    put_row(s, 9, "web-9", 9);
})]
#[case::whose_address_another_pod_reports("web-9", 900, |s: &Server| {
    run_pod(s, "web-9", 9);
    put_row(s, 9, "web-9", 9);
    run_pod(s, "other", 9);
})]
#[case::of_a_live_pod_whose_address_another_reports("web-9", 1_200, |s: &Server| {
    run_pod(s, "web-9", 9);
    run_pod(s, "other", 9);
})]
#[tokio::test(start_paused = true)]
async fn claim_that_a_crash_left_is_given_back(
    #[case] pod: &str,
    #[case] wait: u64,
    #[case] puts: fn(&Server),
) {
    let server = room();
    puts(&server);
    put_claimed(&server, "10.0.0.9", pod);
    let bench = Bench::start(server).await;
    seconds(wait).await;
    assert_eq!(podref(&bench, "10.0.0.9"), format!("{NS}/{pod}"));
}

/// It lived when the turn began. The proof finds it gone, and its sandbox runs on.
#[tokio::test(start_paused = true)]
async fn claim_that_a_crash_left_of_a_pod_that_is_forced_away_meanwhile() {
    let server = room();
    run_pod(&server, "web-9", 9);
    put_claimed(&server, "10.0.0.9", "web-9");
    let bench = Bench::start(server).await;
    let proof = bench.on(Match::get("pods").name("web-9")).once();
    let proof = proof.before(|server| async move {
        server.delete("pods", NS, "web-9");
    });
    while proof.hits() == 0 {
        seconds(1).await;
    }
    seconds(W - 10).await;
    assert!(bench.reservations().contains(&"10.0.0.9".to_owned()));
}

/// The pod accepted it for a new sandbox before the claim. Its successor runs elsewhere, without the address.
#[tokio::test(start_paused = true)]
async fn of_a_pod_whose_end_no_watch_tells_it_stays() {
    let server = room();
    reserve(&server, "10.0.0.9", "alive");
    let bench = Bench::start(server).await;
    let claim = bench.on(Match::patch(ORIP).name("10.0.0.9")).once();
    let claim = claim.before(|server| async move {
        server.on(Match::watch("pods")).hang();
        server.cut_watches("pods");
    });
    while claim.hits() == 0 {
        seconds(1).await;
    }
    bench.kubelet().force_delete(NS, "alive");
    bench.put(second("alive", 3));
    seconds(600).await;
    assert!(bench.reservations().contains(&"10.0.0.9".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn held_while_a_node_is_silent() {
    let server = room();
    silent_node(&server, "node-9");
    reserve(&server, "10.0.0.9", "gone");
    put_neighbour(&server, POOL);
    let bench = Bench::start(server).await;
    seconds(3_600).await;
    neighbour_goes(&bench, POOL).await;
    assert_eq!(bench.reservations(), ["10.0.0.2", "10.0.0.9"]);
    bench.delete("nodes", "", "node-9");
    left_after(&bench, &["10.0.0.2"], 900).await;
}

/// A wider range in the same network, in whose pool the sweep looks for 10.0.0.9 first.
fn put_wider_pool(server: &Server) {
    let wider = "10.0.0.0/16";
    server.put(fixtures::nad(NS, "wide", wider));
    server.put(fixtures::pool(NS, wider));
}

/// Puts the wider pool of network `node-1`, or that without a name, with row 9, and its definition. The network may be a
/// node's slice, which the next sweep knows of, before the claim has waited for ADDs that are at work.
fn put_new_pool(server: &Server, slice: Option<&str>) {
    let wider = "10.0.0.0/16";
    server.put(fixtures::nad(NS, "wide", wider));
    let mut pool = fixtures::pool(NS, wider);
    if let Some(node) = slice {
        pool = pool.network_name(node);
        let slices = [(node, wider)];
        server.put(fixtures::node_slice_pool(NS, "wide", wider, "/16", &slices));
    }
    server.put(pool.row_of(9, "default/gone"));
}

/// A pod of that name is given the address in the other pool, accepts the reservation without a trace, and is killed,
/// unseen: the reservation stays with its row. The pool may be younger than the sweep, which saw no other range.
#[rstest]
#[case::that_a_sweep_saw(put_wider_pool, |s: &Server| put_row(s, 9, "gone", 9), POOL, &["2"])]
#[case::that_no_sweep_saw(|_: &Server| {}, |s: &Server| put_new_pool(s, None), "10.0.0.0-16", &[])]
#[case::slice_that_no_sweep_saw(|_: &Server| {}, |s: &Server| put_new_pool(s, Some("node-1")), "node-1-10.0.0.0-16", &[])]
#[tokio::test(start_paused = true)]
async fn row_in_another_pool_of_the_network_comes_before_the_claim(
    #[case] before: fn(&Server),
    #[case] add: fn(&Server),
    #[case] pool: &str,
    #[case] left: &[&str],
) {
    let server = room();
    before(&server);
    reserve(&server, "10.0.0.9", "gone");
    let bench = Bench::start(server).await;
    let claim = bench.on(Match::patch(ORIP).name("10.0.0.9")).once();
    let claim = claim.before(move |server| async move { add(&server) });
    wait_hits(&claim, 1).await;
    // The wait for ADDs that are at work, and what follows it.
    seconds(140).await;
    assert_eq!(bench.rows(pool).last().unwrap(), "9");
    assert_eq!(podref(&bench, "10.0.0.9"), "default/gone", "given back");
    // Then both go.
    left_after(&bench, &["10.0.0.2"], 1_800).await;
    bench.wait_rows(pool, left).await;
}

/// Its row is in a pool that was a node's slice once, and is read as of a network of that node's name now. The row stays,
/// since nothing tells whose it is, and so does the reservation.
#[tokio::test(start_paused = true)]
async fn reservation_whose_row_is_in_a_former_slice_is_not_claimed_again_and_again() {
    let server = server();
    run_pod(&server, "alive", 2);
    let pool = fixtures::pool(NS, RANGE).network_name("node-1");
    server.put(pool.row_of(9, "default/alive"));
    reserve(&server, "10.0.0.9", "alive");
    let bench = Bench::start(server).await;
    seconds(3_600).await;
    assert_eq!(bench.rows("node-1-10.0.0.0-24"), ["9"]);
    let claims = bench.sent(Match::patch(ORIP).name("10.0.0.9"));
    assert_eq!(claims.len(), 0, "{}", bench.requests());
}

/// A pod that is gone left two reservations of the same address, in two networks; in one of them it
/// comes back and uses it, unseen, before the claims.
#[rstest]
#[case::without_a_name(POOL, "10.0.0.9")]
#[case::with_a_name("blue-10.0.0.0-24", "blue-10.0.0.9")]
#[tokio::test(start_paused = true)]
async fn row_in_either_of_two_networks_comes_before_the_claim(
    #[case] pool: &'static str,
    #[case] reservation: &str,
) {
    let server = room();
    put_wider_pool(&server);
    for range in [RANGE, "10.0.0.0/16"] {
        let name = format!("blue-{}", fixtures::pool_name(range));
        put_network(&server, &name, "blue", range);
        server.put(fixtures::pool(NS, range).network_name("blue"));
    }
    reserve(&server, "10.0.0.9", "gone");
    reserve(&server, "blue-10.0.0.9", "gone");
    let bench = Bench::start(server).await;
    let claims = bench.on(Match::patch(ORIP)).times(2);
    let claims = claims.before(move |server| async move {
        put_row_on(&server, pool, 9, "gone", "net1", 9);
    });
    wait_hits(&claims, 2).await;
    // The wait for ADDs that are at work, and what follows it.
    seconds(140).await;
    assert_eq!(podref(&bench, reservation), "default/gone", "given back");
    // Then all go.
    left_after(&bench, &["10.0.0.2"], 900).await;
    bench
        .wait_rows(pool, if pool == POOL { &["2"] } else { &[] })
        .await;
}

/// Rows are swept all the same.
#[rstest]
#[tokio::test(start_paused = true)]
async fn that_cannot_be_listed_fail_the_sweep(#[values("500", "deny")] fault: &str) {
    let server = room();
    let leaked = put_leak(&server, "10.7.0.0/24");
    let rule = strike(server.on(Match::list(ORIP)), fault);
    let bench = Bench::start(server).await;
    let context = &bench.running.context;
    let mut was_ready = true;
    for _ in 0..W + 180 {
        was_ready &= context.not_ready().is_empty();
        seconds(1).await;
    }
    assert_eq!(was_ready, fault == "500", "a right is missing otherwise");
    assert!(bench.counted("sweeps_failed") > 3);
    assert_eq!(bench.counted("sweeps_ended"), 0);
    assert_eq!(context.last_sweep().to_bits(), 0);
    assert!(bench.rows(&leaked).is_empty());
    let shown = Scrape::of(&bench.running);
    assert_eq!(shown.rows("live"), Some(1.0));
    shown.lacks(&["ipgc_reservations_orphaned"]);
    rule.remove();
    seconds(900).await;
    assert!(context.last_sweep() > 0.0 && context.not_ready().is_empty());
    let orphaned = Scrape::of(&bench.running).get("ipgc_reservations_orphaned");
    assert_eq!(orphaned, Some(0.0));
    // Later on too, that all was seen is told of the last time when it was.
    let last = context.last_sweep();
    strike(bench.on(Match::list(ORIP)), fault);
    seconds(900).await;
    assert_eq!(context.last_sweep().to_bits(), last.to_bits());
    Scrape::of(&bench.running).lacks(&["ipgc_reservations_orphaned"]);
}

/// The plugin's file names the network `red` for `default/net`; another definition names it too. web-7 lives on
/// 10.0.0.7 and has a reservation, and no row.
#[rstest]
#[case::only_the_file(false)]
#[case::and_a_definition(true)]
#[tokio::test(start_paused = true)]
async fn a_living_pods_reservation_stays_whatever_network_its_definition_names(
    #[case] named: bool,
) {
    let server = Server::new();
    server.put(fixtures::nad(NS, "net", RANGE));
    if named {
        put_network(&server, "red", "red", RANGE);
    }
    let pool = fixtures::pool(NS, RANGE).network_name("red");
    server.put(pool.row_of(1, "default/web-1"));
    for offset in [1, 7] {
        let name = format!("web-{offset}");
        run_pod(&server, &name, offset);
        reserve(&server, &format!("red-10.0.0.{offset}"), &name);
    }
    let _beat = live_node(&server, "node-1");
    let bench = Bench::start(server).await;
    seconds(7_200).await;
    assert_eq!(bench.reservations(), ["red-10.0.0.1", "red-10.0.0.7"]);
}

/// A claim that a crash left is ended, also if its owner is kept since.
#[tokio::test(start_paused = true)]
async fn a_claim_of_an_owner_that_is_kept_since_is_ended() {
    let server = running(&[(1, "web-0")]);
    put_claimed(&server, "10.0.0.1", "web-0");
    let config = Config::default().with(|it| {
        it.policy.keep_podrefs = vec![ipgc::core::podref::Glob::new("default/*")];
    });
    let bench = Bench::with(server, config).await;
    seconds(7_200).await;
    assert_eq!(podref(&bench, "10.0.0.1"), "default/web-0");
}

/// The definition becomes one of another plugin, or names another network, while web-7 lives on 10.0.0.7, with a reservation
/// and no row.
#[rstest]
#[case::plugin(json!({ "type": "host-local", "subnet": "10.0.0.0/24" }))]
#[case::network(json!({ "type": "whereabouts", "range": "10.0.0.0/24", "network_name": "blue" }))]
#[tokio::test(start_paused = true)]
async fn a_living_pods_reservation_stays_though_its_definition_is_another_now(#[case] ipam: Value) {
    let server = running(&[(1, "web-1")]);
    run_pod(&server, "web-7", 7);
    reserve(&server, "10.0.0.7", "web-7");
    server.put(fixtures::nad(NS, "other", "10.0.0.0/16"));
    let _beat = live_node(&server, "node-1");
    let bench = Bench::start(server).await;
    bench.put(fixtures::nad_with_ipam(NS, "net", &ipam));
    seconds(4 * 3_600).await;
    assert_eq!(bench.reservations(), ["10.0.0.1", "10.0.0.7"]);
}

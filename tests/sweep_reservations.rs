//! Reservations without a row: whose the sweep removes, and whose it leaves alone.

use crate::common::{
    Bench, NS, ORIP, POOL, RANGE,
    nodes::{W, neighbour_goes, put_neighbour, second, silent_node},
    on_net, put_pool, put_row, put_row_on, reserve, run_pod, running, seconds, server,
};
use ipgc::config::Config;
use rstest::rstest;
use serde_json::json;
use testkit::{Match, Server, fixtures};

/// `alive` uses row 2, with its reservation.
fn room() -> Server {
    running(&[(2, "alive")])
}

/// Seconds until just these are left.
async fn left_after(bench: &Bench, names: &[&str], at_most: u64) -> u64 {
    for second in 0..=at_most {
        if bench.reservations() == names {
            return second;
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
    let waited = left_after(&bench, &["10.0.0.2"], 600).await;
    assert!(waited >= W + 10, "deleted after {waited} s");
    // Claimed, proven, deleted.
    assert_eq!(bench.sent(Match::patch(ORIP).name("10.0.0.9")).len(), 1);
    seconds(3_600).await;
    assert_eq!(bench.reservations(), ["10.0.0.2"]);
}

#[tokio::test(start_paused = true)]
async fn of_a_live_pod_that_uses_another_address() {
    let server = room();
    reserve(&server, "10.0.0.9", "alive");
    let bench = Bench::start(server).await;
    let waited = left_after(&bench, &["10.0.0.2"], 1_800).await;
    assert!(waited >= 600, "deleted after {waited} s");
}

/// Of those that cannot be read nobody knows whose they are: one that names no pod, one that says more than we know,
/// and the same claimed.
#[tokio::test(start_paused = true)]
async fn never_of_nobody_knows_whom() {
    let server = room();
    let lone = [
        ("10.0.0.5", json!({ "containerid": fixtures::sandbox(5) })),
        (
            "10.0.0.6",
            json!({ "podref": "default/gone", "ipamclaim": "c" }),
        ),
        (
            "10.0.0.7",
            json!({ "podref": "ipgc.dev/releasing", "ipamclaim": "c" }),
        ),
        (
            "10.0.0.9",
            json!({ "podref": "default/gone", "ifname": "net1", "poduid": "u" }),
        ),
    ];
    for (name, spec) in lone {
        let mut reservation = fixtures::reservation(NS, name, "", "");
        reservation["spec"] = spec;
        reservation["metadata"]["annotations"]["ipgc.dev/claimed-from"] = "default/gone".into();
        server.put(reservation);
    }
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
    let mut config = Config::default();
    config.policy.leftover_grace = std::time::Duration::from_secs(7_200);
    let bench = Bench::with(server, config).await;
    let waited = left_after(&bench, &["10.0.0.2"], 7_900).await;
    assert!(waited >= 7_200, "deleted after {waited} s");
}

#[tokio::test(start_paused = true)]
async fn of_a_live_pod_that_does_not_tell_all() {
    let server = room();
    let pod = fixtures::pod(NS, "quiet").node("node-1");
    server.put(pod.networks("default/net").running());
    reserve(&server, "10.0.0.9", "quiet");
    reserve(&server, "10.0.0.8", "gone");
    let bench = Bench::start(server).await;
    left_after(&bench, &["10.0.0.2", "10.0.0.9"], 600).await;
    seconds(7_200).await;
    assert_eq!(bench.reservations(), ["10.0.0.2", "10.0.0.9"]);
}

#[tokio::test(start_paused = true)]
async fn in_every_spelling() {
    let server = room();
    let six = fixtures::pool(NS, "fd00::/120");
    server.put(six.row_of(1, "default/six"));
    server.put(on_net("six", "six", "fd00::1").running());
    let blue = fixtures::pool(NS, RANGE).network_name("blue");
    server.put(blue);
    reserve(&server, "fd00--1", "six");
    for name in [
        "fd00--0",
        "fd00-0000-0000-0000-0000-0000-0000-0010",
        "blue-10.0.0.77",
        "red-10.0.0.78",
        "10.0.0.79",
    ] {
        reserve(&server, name, "gone");
    }
    let bench = Bench::start(server).await;
    left_after(&bench, &["10.0.0.2", "fd00--1"], 900).await;
    seconds(3_600).await;
    assert_eq!(bench.reservations(), ["10.0.0.2", "fd00--1"]);
}

#[tokio::test(start_paused = true)]
async fn never_where_a_row_holds_the_address() {
    let server = room();
    // Row 2 is of `alive`; somebody who is gone has the reservation of its address.
    server.delete(ORIP, NS, "10.0.0.2");
    reserve(&server, "10.0.0.2", "gone");
    reserve(&server, "10.0.0.9", "gone");
    let bench = Bench::start(server).await;
    left_after(&bench, &["10.0.0.2"], 600).await;
    seconds(7_200).await;
    assert_eq!(bench.reservations(), ["10.0.0.2"]);
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
    for (name, owner) in [("10.0.0.9", "default/gone"), ("10.0.0.2", "default/alive")] {
        let mut claim = fixtures::reservation(NS, name, "ipgc.dev/releasing", "net1");
        claim["metadata"]["annotations"]["ipgc.dev/claimed-from"] = owner.into();
        server.put(claim);
    }
    let bench = Bench::start(server).await;
    left_after(&bench, &["10.0.0.2"], 900).await;
    seconds(900).await;
    let left = bench.get(ORIP, NS, "10.0.0.2").unwrap();
    assert_eq!(left["spec"]["podref"], "default/alive", "given back");
}

/// Two ADDs raced for one address of two ranges that overlap: both rows are there, and one reservation. Its pod went, and
/// the run that had claimed it.
#[tokio::test(start_paused = true)]
async fn claim_that_a_crash_left_while_another_pod_has_a_row_of_the_address() {
    let server = room();
    let mut claim = fixtures::reservation(NS, "10.0.0.9", "ipgc.dev/releasing", "net1");
    claim["metadata"]["annotations"]["ipgc.dev/claimed-from"] = "default/gone".into();
    server.put(claim);
    server.put(
        fixtures::pod(NS, "stuck")
            .node("node-1")
            .networks("default/net"),
    );
    put_row(&server, 9, "stuck", 9);
    let bench = Bench::start(server).await;
    seconds(900).await;
    let left = bench.get(ORIP, NS, "10.0.0.9").expect("deleted");
    assert_eq!(left["spec"]["podref"], "default/gone", "given back");
}

#[tokio::test(start_paused = true)]
async fn claim_of_a_live_pod_without_a_row() {
    let server = room();
    run_pod(&server, "web-9", 9);
    let mut claim = fixtures::reservation(NS, "10.0.0.9", "ipgc.dev/releasing", "net1");
    claim["metadata"]["annotations"]["ipgc.dev/claimed-from"] = "default/web-9".into();
    server.put(claim);
    let bench = Bench::start(server).await;
    seconds(1_200).await;
    let left = bench.get(ORIP, NS, "10.0.0.9").expect("deleted");
    assert_eq!(left["spec"]["podref"], "default/web-9", "given back");
}

#[tokio::test(start_paused = true)]
async fn of_a_pool_that_is_gone() {
    let server = room();
    reserve(&server, "10.55.0.9", "gone");
    let bench = Bench::start(server).await;
    left_after(&bench, &["10.0.0.2"], 900).await;
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

#[tokio::test(start_paused = true)]
async fn pod_that_is_born_after_the_claim_gets_it_back() {
    let server = room();
    reserve(&server, "10.0.0.9", "web-9");
    let bench = Bench::start(server).await;
    let claim = bench.on(Match::patch(ORIP)).once();
    let claim = claim.after(|server| async move {
        server.put(second("web-9", 9));
    });
    seconds(3_600).await;
    assert_eq!(claim.hits(), 1);
    let left = bench.get(ORIP, NS, "10.0.0.9").expect("deleted");
    assert_eq!(left["spec"]["podref"], "default/web-9");
}

/// A wider range in the same network, in whose pool the sweep looks for 10.0.0.9 first.
fn put_wider_pool(server: &Server) {
    let wider = "10.0.0.0/16";
    server.put(fixtures::nad(NS, "wide", wider));
    server.put(fixtures::pool(NS, wider));
}

/// A pod of that name is given the address in the other pool, accepts the reservation without a trace,
/// and is killed, unseen: the reservation stays with its row.
#[tokio::test(start_paused = true)]
async fn row_in_another_pool_of_the_network_comes_before_the_claim() {
    let server = room();
    put_wider_pool(&server);
    reserve(&server, "10.0.0.9", "gone");
    let bench = Bench::start(server).await;
    let claim = bench.on(Match::patch(ORIP).name("10.0.0.9")).once();
    let claim = claim.before(|server| async move {
        put_row(&server, 9, "gone", 9);
    });
    while claim.hits() == 0 {
        seconds(1).await;
    }
    // The wait for ADDs that are at work, and what follows it.
    seconds(140).await;
    assert_eq!(bench.rows(POOL), ["2", "9"]);
    let left = bench.get(ORIP, NS, "10.0.0.9").expect("deleted");
    assert_eq!(left["spec"]["podref"], "default/gone", "given back");
    // Then both go.
    left_after(&bench, &["10.0.0.2"], 900).await;
    assert_eq!(bench.rows(POOL), ["2"]);
}

/// The same in a pool that was made since the sweep, which saw no other range; it may be a node's slice,
/// which nobody knows before the next sweep.
#[rstest]
#[case::of_its_network(None, "10.0.0.0-16")]
#[case::slice_of_its_network(Some("node-1"), "node-1-10.0.0.0-16")]
#[tokio::test(start_paused = true)]
async fn row_in_a_pool_that_no_sweep_saw_comes_before_the_claim(
    #[case] network: Option<&'static str>,
    #[case] name: &str,
) {
    let server = room();
    reserve(&server, "10.0.0.9", "gone");
    let bench = Bench::start(server).await;
    let claim = bench.on(Match::patch(ORIP).name("10.0.0.9")).once();
    let claim = claim.before(move |server| async move {
        let wider = "10.0.0.0/16";
        server.put(fixtures::nad(NS, "wide", wider));
        let mut pool = fixtures::pool(NS, wider);
        if let Some(network) = network {
            pool = pool.network_name(network);
            // The next sweep knows of it, before the claim has waited for ADDs that are at work.
            let slices = [(network, wider)];
            server.put(fixtures::node_slice_pool(NS, "wide", wider, "/16", &slices));
        }
        let pool = pool.row_of(9, "default/gone");
        server.put(pool);
    });
    while claim.hits() == 0 {
        seconds(1).await;
    }
    // The wait for ADDs that are at work, and what follows it.
    seconds(140).await;
    let left = bench.get(ORIP, NS, "10.0.0.9").expect("deleted");
    assert_eq!(left["spec"]["podref"], "default/gone", "given back");
    // Then both go.
    left_after(&bench, &["10.0.0.2"], 1_800).await;
    bench.wait_rows(name, &[]).await;
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

/// A claim that a crash left, whose row is in the other pool of the network.
#[tokio::test(start_paused = true)]
async fn claim_with_a_row_in_another_pool_is_given_back() {
    let server = room();
    put_wider_pool(&server);
    run_pod(&server, "web-9", 9);
    put_row(&server, 9, "web-9", 9);
    reserve(&server, "10.0.0.9", "web-9");
    server.edit(ORIP, NS, "10.0.0.9", |reservation| {
        let from = reservation["spec"]["podref"].clone();
        reservation["metadata"]["annotations"]["ipgc.dev/claimed-from"] = from;
        reservation["spec"]["podref"] = "ipgc.dev/releasing".into();
    });
    let bench = Bench::start(server).await;
    seconds(900).await;
    let reservation = bench.get(ORIP, NS, "10.0.0.9").expect("deleted");
    assert_eq!(reservation["spec"]["podref"], "default/web-9");
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
        let network = json!({ "type": "whereabouts", "range": range, "network_name": "blue" });
        let name = format!("blue-{}", fixtures::pool_name(range));
        server.put(fixtures::nad_with_ipam(NS, &name, &network));
        let pool = fixtures::pool(NS, range).network_name("blue");
        server.put(pool);
    }
    reserve(&server, "10.0.0.9", "gone");
    reserve(&server, "blue-10.0.0.9", "gone");
    let bench = Bench::start(server).await;
    let claims = bench.on(Match::patch(ORIP)).times(2);
    let claims = claims.before(move |server| async move {
        put_row_on(&server, pool, 9, "gone", "net1", 9);
    });
    while claims.hits() < 2 {
        seconds(1).await;
    }
    // The wait for ADDs that are at work, and what follows it.
    seconds(140).await;
    let left = bench.get(ORIP, NS, reservation).expect("deleted");
    assert_eq!(left["spec"]["podref"], "default/gone", "given back");
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
    let leaked = fixtures::pool(NS, "10.7.0.0/24");
    let leaked = leaked.row(1, &fixtures::sandbox(7), "default/gone", "net1");
    server.put(leaked);
    let list = server.on(Match::list(ORIP));
    let rule = match fault {
        "500" => list.fail(500),
        _ => list.deny(),
    };
    let bench = Bench::start(server).await;
    let vitals = &bench.running.vitals;
    let mut was_ready = true;
    for _ in 0..W + 180 {
        was_ready &= vitals.not_ready().is_empty();
        seconds(1).await;
    }
    assert_eq!(was_ready, fault == "500", "a right is missing otherwise");
    assert!(bench.counted("sweeps_failed") > 3);
    assert_eq!(bench.counted("sweeps_ended"), 0);
    assert_eq!(vitals.last_sweep().to_bits(), 0);
    assert!(bench.rows(&fixtures::pool_name("10.7.0.0/24")).is_empty());
    rule.remove();
    seconds(900).await;
    assert!(vitals.last_sweep() > 0.0 && vitals.not_ready().is_empty());
}

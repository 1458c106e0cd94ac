//! Masses of pods that end together: their cost in requests, and which of them wait for others.
//!
//! The server answers as slowly as a real one on large pools, since gathering is what that is for.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::prelude::*;
use rand::{RngExt, SeedableRng, rngs::StdRng};

/// Pods in all.
const COUNT: u64 = 500;
/// Default cooldown.
const COOLDOWN: Duration = Duration::from_secs(2);

/// A crowd of running pods, each with a row in one of some pools and a reservation.
struct Crowd {
    bench: Bench,
    names: Vec<String>,
    pools: Vec<String>,
}

impl Crowd {
    /// Spread over so many pools; `kind` controls them.
    async fn gather(pools: u64, kind: &str) -> Self {
        let server = Server::new();
        let mut names = Vec::new();
        let mut pool_names = Vec::new();
        for number in 0..pools {
            let of_pool: Vec<_> = (1..=COUNT / pools)
                .map(|n| format!("pod-{number}-{n}"))
                .collect();
            let net = format!("net-{number}");
            let addresses = put_many(&server, number, &net, kind, &of_pool);
            for (address, name) in addresses.iter().zip(&of_pool) {
                reserve(&server, address, name);
            }
            names.extend(of_pool);
            pool_names.push(format!("10.{number}.0.0-16"));
        }
        slow(&server, Match::patch("ippools"), 500);
        slow(&server, Match::get("ippools"), 100);
        slow(&server, Match::list("pods"), 100);
        slow(&server, Match::resource(ORIP), 20);
        Self {
            bench: Bench::long_since(server, Config::default()).await,
            names,
            pools: pool_names,
        }
    }

    /// All at one moment.
    fn end(&self) {
        self.bench.end(&self.names);
    }

    async fn wait_rows(&self) {
        for pool in &self.pools {
            self.bench.wait_rows(pool, &[]).await;
        }
    }

    fn sent(&self, matcher: Match) -> Vec<Request> {
        self.bench.sent(matcher).iter().cloned().collect()
    }
}

#[rstest]
#[case::of_one_pool(1, "StatefulSet")]
#[case::of_one_pool_whose_names_never_return(1, "ReplicaSet")]
#[case::of_ten_pools(10, "StatefulSet")]
#[case::of_ten_pools_whose_names_never_return(10, "ReplicaSet")]
#[tokio::test(start_paused = true)]
async fn a_mass_of_ends_is_a_handful_of_requests(#[case] pools: usize, #[case] kind: &str) {
    let crowd = Crowd::gather(pools as u64, kind).await;
    crowd.end();
    let ended = Instant::now();
    crowd.wait_rows().await;
    took(ended, ..COOLDOWN.as_secs_f64() + 6.0);
    // A claimed reservation waits until no ADD that accepted it is at work any more.
    seconds(200).await;
    let bench = &crowd.bench;
    assert_eq!(bench.counted("rows_freed"), COUNT);
    assert_eq!(bench.reservations(), Vec::<String>::new());
    let patches = crowd.sent(Match::patch("ippools")).len();
    assert!(patches <= 3 * pools, "{patches} patches");
    let claims = if kind == "ReplicaSet" { 0 } else { COUNT };
    let writes = (
        crowd.sent(Match::patch(ORIP)).len() as u64,
        crowd.sent(Match::delete(ORIP)).len() as u64,
    );
    assert_eq!(writes, (claims, COUNT));
    // All but one write for each reservation, or two, and the events.
    let others = crowd.sent(Match::any()).into_iter().filter(|request| {
        let is_write = Match::writes(ORIP).matches(request);
        !is_write && request.resource != "events"
    });
    let others: Vec<_> = others.collect();
    // A sweep may come in between.
    let most = 20 + 10 * pools;
    let count = others.len();
    let texts: Vec<_> = others.iter().map(ToString::to_string).collect();
    assert!(count <= most, "{count} of {most}:\n{}", texts.join("\n"));
    assert_eq!(bench.counted("retries_exhausted"), 0);
}

/// The API server answers half of all requests with 429, and asks for a second of patience.
#[rstest]
#[case::whose_names_return("StatefulSet")]
#[case::whose_names_never_return("ReplicaSet")]
#[tokio::test(start_paused = true)]
async fn a_mass_goes_though_the_server_is_too_busy_for_half_of_the_requests(#[case] kind: &str) {
    let crowd = Crowd::gather(10, kind).await;
    let bench = &crowd.bench;
    let coins = Mutex::new(StdRng::seed_from_u64(1));
    let coin =
        move |request: &Request| request.verb != Verb::Watch && coins.lock().unwrap().random();
    let busy = bench.on(Match::any().filter(coin));
    let busy = busy.answer(Failure::too_many_requests(1));
    crowd.end();
    let ended = Instant::now();
    crowd.wait_rows().await;
    took(ended, ..60.0);
    // A claim alone waits for two minutes. DELETEs are not sent again before their pods were proven absent again.
    while !bench.reservations().is_empty() {
        seconds(1).await;
        took(ended, ..600.0);
    }
    assert!(busy.hits() > 400, "{}", busy.hits());
}

/// Connections die: one request in thirty is never answered. The reservations of a namespace go together, and those hold
/// up the others for a moment only.
#[tokio::test(start_paused = true)]
async fn reservations_go_as_they_come_though_some_requests_are_never_answered() {
    let crowd = Crowd::gather(1, "ReplicaSet").await;
    let bench = &crowd.bench;
    let coins = Mutex::new(StdRng::seed_from_u64(1));
    let coin = move |_: &Request| coins.lock().unwrap().random_ratio(1, 30);
    let verbs = &[Verb::Get, Verb::List, Verb::Delete];
    let reservations = Match::verbs(verbs, ORIP);
    let silent = bench.on(reservations.filter(coin)).hang();
    for pods in crowd.names.chunks(10) {
        bench.end(pods.iter().map(String::as_str));
        seconds(1).await;
    }
    let left = bench.reservations().len();
    assert!(left < 100, "{left} are left of {COUNT}");
    let ended = Instant::now();
    while !bench.reservations().is_empty() {
        seconds(1).await;
        took(ended, ..60.0);
    }
    assert!(silent.hits() > 15, "{}", silent.hits());
}

/// Whose rows are in pools that are looked at in turns ask for the same roll, and each roll begins
/// after those who are answered by it have observed their rows.
#[tokio::test(start_paused = true)]
async fn whoever_asks_while_a_roll_is_read_is_answered_by_the_next() {
    let crowd = Crowd::gather(10, "ReplicaSet").await;
    let server = &crowd.bench.server;
    // The pools answer one after the other, and the first roll is still read by then.
    for (number, pool) in (0..).zip(&crowd.pools) {
        slow(server, Match::get("ippools").name(pool), 300 * number);
    }
    slow(server, Match::list("pods").client("ipgc"), 2_000);
    crowd.end();
    crowd.wait_rows().await;
    seconds(120).await;
    // Proofs take longer than a DELETE may come after one begins, and they go nevertheless.
    assert_eq!(crowd.bench.reservations(), Vec::<String>::new());
    let rolls = crowd.sent(Match::list("pods").filter(|request| request.as_table));
    assert!((2..=20).contains(&rolls.len()), "{} rolls", rolls.len());
    // Those who came first, alone.
    let mut proofs = crowd.sent(Match::get("pods"));
    assert!(proofs.len() <= 50, "{}", proofs.len());
    proofs.extend(rolls);
    for patch in crowd.sent(Match::patch("ippools")) {
        let observed = crowd.sent(Match::get("ippools").name(&patch.name));
        let observed = observed.iter().filter_map(|get| get.answered_at);
        let observed = observed.filter(|at| *at <= patch.at).max().unwrap();
        let is_proof = |read: &Request| {
            let ended = read.answered_at.is_some_and(|at| at <= patch.at);
            read.at >= observed && ended && read.is_quorum_read()
        };
        assert!(proofs.iter().any(is_proof), "{patch}");
    }
}

/// Pods of one pool end one by one, too far apart to be waited for. Each alone would be a read and a patch,
/// and the server would do nothing else.
#[tokio::test(start_paused = true)]
async fn the_server_is_busy_with_one_pool_for_a_quarter_of_the_time() {
    let crowd = Crowd::gather(1, "ReplicaSet").await;
    let begun = Instant::now();
    for name in crowd.names.iter().take(100) {
        crowd.bench.end([name.as_str()]);
        sleep(Duration::from_millis(700)).await;
    }
    let took = begun.elapsed();
    sleep(COOLDOWN + Duration::from_secs(5)).await;
    let pool = &crowd.pools[0];
    assert_eq!(crowd.bench.rows(pool).len() as u64, COUNT - 100);
    let count = |matcher| u32::try_from(crowd.sent(matcher).len()).unwrap();
    let patches = count(Match::patch("ippools")) * Duration::from_millis(500);
    let busy = patches + count(Match::get("ippools")) * Duration::from_millis(100);
    assert!(busy <= took.mul_f64(0.3), "{busy:?} of {took:?}");
}

/// A right that is missing is missing for all: only what was under way by then is refused as well.
#[rstest]
#[case::to_claim("StatefulSet", Match::patch)]
#[case::to_delete("ReplicaSet", Match::delete)]
#[tokio::test(start_paused = true)]
async fn who_is_refused_asks_no_more(#[case] kind: &str, #[case] verb: fn(&str) -> Match) {
    let crowd = Crowd::gather(1, kind).await;
    let write = verb(ORIP);
    let denied = crowd.bench.deny(write);
    crowd.end();
    crowd.wait_rows().await;
    seconds(5).await;
    assert!((16..=31).contains(&denied.hits()), "{}", denied.hits());
    denied.remove();
    seconds(250).await;
    assert_eq!(crowd.bench.reservations(), Vec::<String>::new());
}

#[rstest]
#[case::quick(5)]
#[case::slow(100)]
#[case::very_slow(200)]
#[tokio::test(start_paused = true)]
async fn each_delete_comes_soon_after_a_proof(
    #[case] milliseconds: u64,
    #[values("StatefulSet", "ReplicaSet")] kind: &str,
) {
    let crowd = Crowd::gather(4, kind).await;
    // Once, the server takes its time.
    let lists = Match::list("pods").namespace(NS);
    let list = crowd.bench.on(lists).skip(3).once();
    let list = list.delay(Duration::from_secs(3));
    // And a claim of the next round is never answered.
    let claim = crowd.bench.on(Match::patch(ORIP)).skip(250);
    claim.once().hang();
    let writes = Match::verbs(&[Verb::Delete, Verb::Patch], ORIP);
    slow(&crowd.bench, writes, milliseconds);
    crowd.end();
    crowd.wait_rows().await;
    seconds(250).await;
    assert_eq!(crowd.bench.reservations(), Vec::<String>::new());
    let proofs = crowd.sent(Match::reads("pods"));
    let claims: HashMap<_, _> = crowd
        .sent(Match::patch(ORIP))
        .into_iter()
        .map(|claim| (claim.name, claim.at))
        .collect();
    let oldest = crowd.bench.counted("longest_proof_age_ms");
    assert!((1..=2_000).contains(&oldest), "{oldest} ms");
    assert_eq!(list.hits(), usize::from(milliseconds > 5));
    let writes = [Match::delete(ORIP), Match::patch(ORIP)];
    let writes: Vec<_> = writes.into_iter().flat_map(|it| crowd.sent(it)).collect();
    let in_flight = |at: Instant| {
        let begun = writes.iter().filter(|write| write.at <= at);
        begun
            .filter(|write| write.answered_at.is_some_and(|end| end > at))
            .count()
    };
    // And one more of the round whose claim hung, which ends beside the next one.
    let most = writes.iter().map(|write| in_flight(write.at)).max();
    assert!(matches!(most, Some(16 | 17)), "{most:?} at a time");
    for delete in crowd.sent(Match::delete(ORIP)) {
        let before = proofs.iter().filter(|proof| proof.at <= delete.at);
        let late = delete.at - before.map(|proof| proof.at).max().unwrap();
        assert!(late <= Duration::from_secs(2), "{late:?} late: {delete}");
        // Nobody is claimed after the proof that lets the reservation go.
        let claim = claims.get(&delete.name);
        assert!(claim.is_none_or(|at| *at < delete.at - late), "{delete}");
    }
}

/// How many requests of a kind are answered at one moment, at the most, if each takes so long.
fn most_at_once(server: &Server, requests: Match, each: Duration) -> Arc<AtomicUsize> {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counted = (now, Arc::clone(&most));
    server.on(requests).before(move |_| {
        let (now, most) = counted.clone();
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            sleep(each).await;
            now.fetch_sub(1, Ordering::SeqCst);
        }
    });
    most
}

/// Marks of a run before in 40 pools, all due at one moment, and the lists of all pools.
async fn many_marks() -> (Bench, Beat, Match) {
    let server = server();
    let beat = live_node(&server, "node-1");
    for pool in 1..=40 {
        server.put(fixtures::pool(NS, &format!("10.9.{pool}.0/24")));
        put_claimed(&server, &format!("10.9.{pool}.9"), "gone");
    }
    let bench = Bench::with(server, seldom()).await;
    seconds(60).await;
    let lists = Match::list("ippools").filter(|request| !request.metadata_only);
    (bench, beat, lists)
}

/// Marks of a run before are due at one moment, and each pool has some: all pools are read for one of them at a time, also
/// where that takes longer than anybody waits.
#[rstest]
#[case::quick(300)]
#[case::slow(3_000)]
#[tokio::test(start_paused = true)]
async fn pools_with_reservations_alone_are_looked_at_one_after_the_other(#[case] millis: u64) {
    let (bench, _beat, lists) = many_marks().await;
    let most = most_at_once(&bench, lists, Duration::from_millis(millis));
    seconds(1_800).await;
    assert_eq!(bench.reservations(), Vec::<String>::new());
    let most = most.load(Ordering::SeqCst);
    assert!((1..=5).contains(&most), "{most} at once");
}

/// Looks that have begun are not waited for, nor those behind them.
#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_looks_at_all_pools() {
    let (bench, _beat, lists) = many_marks().await;
    let begun = bench.on(lists).delay(Duration::from_secs(4));
    wait_hits(&begun, 1).await;
    seconds(5).await;
    bench.stop().await;
}

/// A sweep finds rows in many pools, each of which takes a second to read.
async fn many_leaks() -> (Bench, Beat, Arc<AtomicUsize>) {
    let server = server();
    let beat = live_node(&server, "node-1");
    for n in 1..=100 {
        let (pool, podref) = (format!("10.9.{n}.0/24"), format!("{NS}/gone-{n}"));
        let pool = fixtures::pool(NS, &pool);
        server.put(pool.row(1, &fixtures::sandbox(n), &podref, "net1"));
    }
    let gets = Match::get("ippools");
    let most = most_at_once(&server, gets, Duration::from_secs(1));
    let config = seldom().with(|it| it.breaker.min = 1_000);
    (Bench::with(server, config).await, beat, most)
}

/// Each may be megabytes, so few are read at a time, however many wait.
#[tokio::test(start_paused = true)]
async fn no_more_pools_are_read_at_a_time_though_many_wait() {
    let (bench, _beat, most) = many_leaks().await;
    seconds(1_800).await;
    for pool in 1..=100 {
        assert_eq!(bench.rows(&format!("10.9.{pool}.0-24")), [""; 0]);
    }
    let most = most.load(Ordering::SeqCst);
    assert!((1..=4).contains(&most), "{most} at once");
}

/// Those that wait for their turn are not waited for.
#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_pools_that_are_not_read_yet() {
    let (bench, ..) = many_leaks().await;
    seconds(5).await;
    bench.stop().await;
}

/// A pool was deleted, its reservations were not: they are looked at together.
#[tokio::test(start_paused = true)]
async fn reservations_of_no_pool_are_looked_at_together() {
    let server = server();
    let _beat = live_node(&server, "node-1");
    for number in 1..=100 {
        reserve(
            &server,
            &format!("10.9.0.{number}"),
            &format!("gone-{number}"),
        );
    }
    let bench = Bench::with(server, seldom()).await;
    seconds(1_800).await;
    assert_eq!(bench.reservations(), Vec::<String>::new());
    let lists = Match::list("ippools").filter(|request| !request.metadata_only);
    let lists = bench.sent(lists).len();
    assert!(lists < 20, "{lists} lists of all pools");
}

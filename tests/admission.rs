//! Admission that refuses a write of ours: a matter of that object, and of no other. And what tells it from a right that
//! is missing.

use std::collections::BTreeSet;

use crate::prelude::*;
use testkit::RuleBuilder;

const REFUSED: &str = "IPAddressGarbageCollectionRefused";
/// A second range, its pool and its definition.
const OTHER_RANGE: &str = "10.0.1.0/24";
const OTHER_POOL: &str = "10.0.1.0-24";

/// A refusal as real clusters word it.
fn refusal(how: &str) -> Failure {
    let (code, reason, webhook) = match how {
        "webhook" => (403, "Forbidden", "guard.example.com"),
        "Kyverno" => (400, "BadRequest", "validate.kyverno.svc-fail"),
        "webhook with a code of its own" => (409, "Conflict", "guard.example.com"),
        "webhook that says unprocessable" => (422, "Invalid", "guard.example.com"),
        _ => {
            let words = "ValidatingAdmissionPolicy 'guard' with binding 'guard' denied request: no";
            let mut policy = Failure::new(422, "Invalid", words);
            policy.details = Some(json!({ "causes": [{ "message": words }] }));
            return policy;
        }
    };
    let words = format!("admission webhook \"{webhook}\" denied the request: no");
    Failure::new(code, reason, words)
}

/// Two pools with a row and a reservation of a running pod each: `web-1` in one, `other` in the other.
async fn two_pools(config: Config) -> Bench {
    let server = server();
    server.put(fixtures::nad(NS, "other", OTHER_RANGE));
    put_running(&server, &[(1, "web-1"), (2, "web-2")]);
    let pool = fixtures::pool(NS, OTHER_RANGE);
    let row = fixtures::sandbox(50);
    server.put(pool.row(1, &row, "default/other", "net1"));
    server.put(on_net("other", "other", "10.0.1.1").running());
    let bench = Bench::long_since(server, config).await;
    seconds(1).await;
    bench
}

fn is_ready(bench: &Bench) -> bool {
    bench.running.context.not_ready().is_empty()
}

/// A write is tried again after 1, 2, 4, … seconds, and then each five minutes.
fn backs_off(bench: &Bench, write: Match) {
    let gaps = gaps(&bench.sent(write));
    let gaps: Vec<_> = gaps.iter().map(Duration::as_secs).collect();
    let doubling: Vec<_> = (0..8).map(|n| 1 << n).collect();
    assert_eq!(gaps[..8], doubling, "{gaps:?}");
    let is_longest = |gap: &u64| (300..=321).contains(gap);
    assert!(gaps[9..].iter().all(is_longest), "{gaps:?}");
}

/// An event is the warning of a refusal.
fn is_told(event: &str) {
    assert!(event.starts_with("Warning"), "{event}");
    says(event, &["denied"]);
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn a_pool_that_admission_refuses_backs_off_alone(
    #[values(
        "webhook",
        "Kyverno",
        "webhook with a code of its own",
        "webhook that says unprocessable",
        "policy"
    )]
    how: &str,
) {
    let bench = two_pools(no_add(seldom())).await;
    let refused = bench.on(Match::patch("ippools").name(POOL));
    let refused = refused.answer(refusal(how));
    bench.end(["web-1"]);
    seconds(10).await;
    assert!(refused.hits() >= 2);
    // Others go on as if nothing were.
    bench.end(["other"]);
    bench.rows_in(OTHER_POOL, &[], ..4.0).await;
    assert!(is_ready(&bench));
    seconds(1_800).await;
    assert!(is_ready(&bench));
    assert_eq!(bench.rows(POOL), ["1", "2"]);
    backs_off(&bench, Match::patch("ippools").name(POOL));
    let events = bench.events("IPPool");
    let of_refusal: Vec<_> = events.iter().filter(|it| it.contains(REFUSED)).collect();
    let [told] = of_refusal[..] else {
        panic!("{events:?}")
    };
    is_told(told);
    assert_eq!(bench.counted("frees_refused"), 1);
    assert_eq!(bench.counted("retries_exhausted"), 0);
    // Told again after 50 minutes, and at once where the cause is another.
    seconds(2_400).await;
    let told = |bench: &Bench| {
        let events = bench.events("IPPool");
        events.iter().filter(|it| it.contains(REFUSED)).count()
    };
    assert_eq!(told(&bench), 2);
    refused.remove();
    let other = bench.on(Match::patch("ippools").name(POOL));
    let other = other.answer(Failure::new(400, "BadRequest", "another cause"));
    seconds(330).await;
    assert_eq!(told(&bench), 3);
    other.remove();
    seconds(330).await;
    assert_eq!(bench.rows(POOL), ["2"]);
    // Once it is done, a refusal is the first again.
    let again = bench.on(Match::patch("ippools").name(POOL)).once();
    again.answer(refusal(how));
    bench.end(["web-2"]);
    seconds(6).await;
    assert_eq!(bench.rows(POOL), Vec::<String>::new());
}

/// The same 403; only the review tells that it is about us.
#[rstest]
#[case::denied(|_: RuleBuilder<'_>| None)]
#[case::failed(|rule: RuleBuilder<'_>| Some(rule.fail(500)))]
#[case::refused(|rule: RuleBuilder<'_>| Some(rule.fail(403)))]
#[case::silent(|rule: RuleBuilder<'_>| Some(rule.hang()))]
#[tokio::test(start_paused = true)]
async fn a_right_that_is_missing_or_not_known_is_about_us(
    #[case] review: fn(RuleBuilder<'_>) -> Option<Rule>,
    #[values("patch a pool", "delete a reservation")] write: &str,
) {
    let bench = two_pools(no_add(seldom())).await;
    let write = match write {
        "patch a pool" => Match::patch("ippools"),
        _ => Match::writes(ORIP),
    };
    let reviews = bench.on(Match::create("selfsubjectaccessreviews"));
    let unclear = review(reviews);
    let refused = match &unclear {
        None => bench.deny(write),
        Some(_) => bench.on(write).answer(refusal("webhook")),
    };
    bench.end(["web-1"]);
    seconds(30).await;
    assert!(refused.hits() > 0 && !is_ready(&bench));
    assert_eq!(bench.counted("frees_refused"), 0);
    let mut told = bench.events("IPPool");
    told.extend(bench.events("OverlappingRangeIPReservation"));
    assert!(!told.iter().any(|it| it.contains(REFUSED)), "{told:?}");
    refused.remove();
    if let Some(unclear) = unclear {
        unclear.remove();
    }
    seconds(60).await;
    assert!(is_ready(&bench));
    assert_eq!(bench.rows(POOL), ["2"]);
    assert_eq!(bench.reservations(), ["10.0.0.2"]);
}

/// The review is about the object that was refused, and about nothing else.
#[tokio::test(start_paused = true)]
async fn exactly_the_right_that_was_used_is_asked_for() {
    let bench = two_pools(no_add(seldom())).await;
    bench.on(Match::patch("ippools").name(POOL)).fail(403);
    bench.on(Match::patch(ORIP)).fail(403);
    bench.on(Match::delete(ORIP)).fail(403);
    bench.end(["web-1", "other"]);
    reserve(&bench, "10.0.1.1", "other");
    seconds(5).await;
    let reviews = bench.sent(Match::create("selfsubjectaccessreviews"));
    let asked = reviews.iter().map(|review| {
        let asked = review.json()["spec"]["resourceAttributes"].clone();
        let text = |field: &str| asked[field].as_str().unwrap().to_owned();
        ["verb", "resource", "namespace", "name"]
            .map(text)
            .join(" ")
    });
    let asked: BTreeSet<_> = asked.collect();
    let expected = [
        format!("patch ippools default {POOL}"),
        format!("patch {ORIP} default 10.0.1.1"),
    ];
    assert_eq!(asked.into_iter().collect::<Vec<_>>(), expected);
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn a_reservation_that_admission_refuses_backs_off_alone(
    #[values("webhook", "Kyverno", "policy")] how: &str,
    #[values("claim", "delete")] step: &str,
) {
    let bench = two_pools(no_add(seldom())).await;
    let write = match step {
        "claim" => Match::patch(ORIP),
        _ => Match::delete(ORIP),
    };
    let write = write.name("10.0.0.1");
    let refused = bench.on(write.clone()).answer(refusal(how));
    bench.end(["web-1"]);
    seconds(10).await;
    assert!(refused.hits() >= 2, "{}", bench.requests());
    bench.end(["web-2"]);
    seconds(4).await;
    assert_eq!(bench.rows(POOL), Vec::<String>::new());
    assert_eq!(bench.reservations(), ["10.0.0.1"]);
    assert!(is_ready(&bench));
    seconds(1_800).await;
    backs_off(&bench, write);
    let events = bench.events("OverlappingRangeIPReservation");
    let [told] = &events[..] else {
        panic!("{events:?}")
    };
    is_told(told);
    assert_eq!(bench.counted("frees_refused"), 1);
    assert_eq!(bench.counted("retries_exhausted"), 0);
    assert!(is_ready(&bench));
    refused.remove();
    seconds(330).await;
    assert_eq!(bench.reservations(), Vec::<String>::new());
}

/// A pod with rows in two pools. One pool is refused; the row in the other has a wait that is over before that pool is
/// tried again.
#[tokio::test(start_paused = true)]
async fn a_row_of_the_same_pod_in_another_pool_goes_at_its_moment() {
    let bench = two_pools(no_add(seldom())).await;
    // Nobody reported the second row.
    let both = reporting("both", 9).networks("default/net,default/other");
    bench.put(both.running());
    for (pool, interface) in [(POOL, "net1"), (OTHER_POOL, "net2")] {
        put_row_on(&bench, pool, 9, "both", interface, 9);
    }
    let refused = Match::patch("ippools").name(POOL);
    let refused = bench.on(refused).answer(refusal("policy"));
    bench.end(["web-1"]);
    // The pool backs off for five minutes by now, and was just tried.
    seconds(1_200).await;
    let tried = refused.hits();
    let again = Duration::from_secs(330);
    let again = bench.wait_until(again, |_| refused.hits() > tried);
    assert!(again.await);
    bench.end(["both"]);
    let ended = Instant::now();
    bench.wait_rows(OTHER_POOL, &["1"]).await;
    let took = ended.elapsed().as_secs();
    assert!((265..=285).contains(&took), "{took}");
    assert_eq!(bench.rows(POOL), ["1", "2", "9"]);
}

/// After a claim that was refused, its successor was given the same address: the reservation is of that row.
#[tokio::test(start_paused = true)]
async fn a_claim_that_is_refused_is_given_up_once_the_pod_has_the_address_again() {
    let config = no_add(Config::default());
    let bench = Bench::long_since(running(&[(1, "web-1"), (2, "web-2")]), config).await;
    let refused = bench.on(Match::patch(ORIP).name("10.0.0.1"));
    let refused = refused.answer(refusal("webhook"));
    bench.end(["web-1"]);
    bench.wait_rows(POOL, &["2"]).await;
    seconds(10).await;
    let before = refused.hits();
    assert!(before > 0, "{}", bench.requests());
    run_pod(&bench, "web-1", 1);
    put_row(&bench, 1, "web-1", 7);
    seconds(3_600).await;
    assert!(refused.hits() <= before + 1, "{}", bench.requests());
    assert_eq!(bench.rows(POOL), ["1", "2"]);
}

// ---- claims that are forbidden -------------------------------------------------------------------

/// Names of a StatefulSet's pods return; those of a ReplicaSet's do not, and their reservations need no claim.
fn crowd(server: &Server, kind: &str, offsets: std::ops::RangeInclusive<u64>) -> Vec<String> {
    let pods = offsets.map(|offset| {
        let name = format!("{}-{offset}", kind.to_lowercase());
        let pod = reporting(&name, offset).owner(kind, "owner");
        server.put(pod.running());
        put_row_on(server, POOL, offset, &name, "net1", offset);
        reserve(server, &format!("10.0.0.{offset}"), &name);
        name
    });
    pods.collect()
}

/// The museum's 4.9.
#[rstest]
#[tokio::test(start_paused = true)]
async fn where_podrefs_are_immutable_claims_stop_and_all_else_goes(
    #[values("webhook", "Kyverno", "policy")] how: &str,
) {
    let server = server();
    put_pool(&server, &[]);
    let returning = crowd(&server, "StatefulSet", 1..=100);
    let never = crowd(&server, "ReplicaSet", 101..=120);
    let immutable = Match::patch(ORIP);
    let immutable = server.on(immutable).answer(refusal(how));
    let bench = Bench::long_since(server, no_add(Config::default())).await;
    seconds(1).await;
    bench.end(returning.iter().chain(&never));
    bench.wait_rows(POOL, &[]).await;
    seconds(20).await;
    let left = bench.reservations().len();
    assert_eq!(left, 100, "those that need no claim go");
    assert!(is_ready(&bench));
    // Those under way when the first was refused.
    let first = immutable.hits();
    assert!((3..=32).contains(&first), "{first}");
    // Three sweeps in 15 minutes: a claim each.
    seconds(900).await;
    let later = immutable.hits() - first;
    assert!((1..=4).contains(&later), "{later}");
    assert!(is_ready(&bench));
    let events = bench.events("OverlappingRangeIPReservation");
    let is_forbidden = |it: &&String| it.contains("IPReservationClaimsForbidden");
    let told: Vec<_> = events.iter().filter(is_forbidden).collect();
    assert_eq!(told.len(), 1, "{events:?}");
    is_told(told[0]);
    let left = bench.counted("claims_forbidden");
    assert!((60..=100).contains(&left), "{left}");
    assert_eq!(bench.counted("retries_exhausted"), 0);
    // A row goes all the same, and so does what needs no claim.
    let late = crowd(&bench, "StatefulSet", 201..=201);
    seconds(1).await;
    bench.end(&late);
    // Two cooldowns, where a sweep saw the row a moment before the end.
    seconds(5).await;
    assert_eq!(bench.rows(POOL), Vec::<String>::new());
    assert_eq!(bench.reservations().len(), 101);
    // Mended: one claim is tried after a sweep, and lets all others follow. One was tried just before that sweep, maybe.
    immutable.remove();
    seconds(660).await;
    assert_eq!(bench.reservations(), Vec::<String>::new());
}

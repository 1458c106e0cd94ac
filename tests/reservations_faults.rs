//! Reservations while requests fail: nothing is deleted without a proof, and nothing is forgotten.

use crate::prelude::*;

const FAILED: &str = "Warning IPAddressGarbageCollectionFailed failed to garbage collect addresses for pod default/web-1";

async fn one() -> Bench {
    one_with(Config::default()).await
}

/// A running pod `web-1` with a row and a reservation, followed by a collector.
async fn one_with(config: Config) -> Bench {
    followed(&[(1, "web-1")], no_add(config)).await
}

/// The requests of a step.
fn requests(step: &str) -> Match {
    match step {
        "find" => Match::get(ORIP),
        "claim" => Match::patch(ORIP),
        "prove" => Match::get("pods"),
        _ => Match::delete(ORIP),
    }
}

/// Every step fails once, in every way, when the row is gone already.
#[rstest]
#[tokio::test(start_paused = true)]
async fn a_step_that_fails_is_tried_again_without_a_second_success(
    #[values("find", "claim", "prove", "delete")] step: &str,
    #[values(
        "409",
        "500",
        "broken",
        "hang",
        "done, then broken",
        "done, then 503",
        "too many"
    )]
    fault: &str,
) {
    let bench = one().await;
    // The first proof is that of the row.
    let skip = usize::from(step == "prove");
    let on = bench.on(requests(step)).skip(skip).once();
    let rule = match fault {
        "too many" => on.answer(Failure::too_many_requests(3)),
        _ => strike(on, fault),
    };
    bench.end(["web-1"]);
    bench.wait_rows(POOL, &[]).await;
    seconds(60).await;
    assert_eq!(rule.hits(), 1);
    assert_eq!(bench.reservations(), Vec::<String>::new());
    assert_eq!(bench.told_as_freed(), ["10.0.0.1"]);
    assert_eq!(bench.events("IPPool").len(), 1);
    assert_eq!(bench.counted("rows_freed"), 1);
    assert_eq!(bench.counted("retries_exhausted"), 0);
    assert_eq!(bench.sent(Match::patch("ippools")).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_proof_that_fails_between_claim_and_delete_deletes_nothing() {
    let bench = one().await;
    let rule = bench.on(Match::get("pods")).skip(1).fail(500);
    bench.end(["web-1"]);
    seconds(600).await;
    assert_eq!(bench.rows(POOL), Vec::<String>::new());
    assert_eq!(bench.reservations(), ["10.0.0.1"]);
    assert!(bench.sent(Match::delete(ORIP)).is_empty());
    // Sweeps find it as a reservation without a row, and fail like the first; that is told once.
    let exhausted = bench.counted("retries_exhausted");
    assert!((2..=5).contains(&exhausted), "{exhausted}");
    let events = bench.events("Pod");
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(events.contains(&FAILED.to_owned()));
    // Mended, the next one frees it.
    rule.remove();
    seconds(400).await;
    assert_eq!(bench.reservations(), Vec::<String>::new());
}

/// Not being allowed is no failure of a pod here either.
#[rstest]
#[tokio::test(start_paused = true)]
async fn a_refusal_waits_until_it_is_mended(
    #[values("find", "claim", "delete")] step: &str,
    #[values(401, 403)] code: u16,
) {
    let bench = one().await;
    let matcher = requests(step);
    let rule = if code == 401 {
        // An unknown account may not ask for rights either.
        let reviews = Match::create("selfsubjectaccessreviews");
        bench.on(reviews).fail(code);
        bench.on(matcher).fail(code)
    } else {
        bench.deny(matcher)
    };
    bench.end(["web-1"]);
    seconds(600).await;
    assert_eq!(bench.rows(POOL), Vec::<String>::new());
    assert_eq!(bench.reservations(), ["10.0.0.1"]);
    assert!(bench.is_shut());
    let hits = rule.hits();
    assert!((10..=40).contains(&hits), "{hits} in ten minutes");
    assert_eq!(bench.counted("retries_exhausted"), 0);
    rule.remove();
    seconds(40).await;
    assert_eq!(bench.reservations(), Vec::<String>::new());
    assert!(!bench.is_shut());
    assert_eq!(bench.told_as_freed(), ["10.0.0.1"]);
}

/// A write that passes tells that writing is allowed again. After a refused read there may be none.
#[tokio::test(start_paused = true)]
async fn a_refused_read_is_over_when_everything_can_be_read() {
    let bench = one().await;
    let rule = bench.deny(requests("find"));
    bench.end(["web-1"]);
    seconds(60).await;
    assert!(bench.is_shut());
    bench.server.delete(ORIP, NS, "10.0.0.1").unwrap();
    rule.remove();
    seconds(1_300).await;
    assert!(!bench.is_shut());
}

/// Somebody else did what was to be written, so no write passes: the API server is asked for the right.
#[tokio::test(start_paused = true)]
async fn a_refused_write_is_over_when_the_right_is_there() {
    let bench = one().await;
    let rule = bench.deny(Match::patch("ippools"));
    bench.end(["web-1"]);
    seconds(60).await;
    assert!(bench.is_shut());
    bench.edit("ippools", NS, POOL, |pool| {
        pool["spec"]["allocations"] = json!({});
    });
    bench.server.delete(ORIP, NS, "10.0.0.1").unwrap();
    seconds(1_300).await;
    assert!(bench.is_shut());
    rule.remove();
    seconds(700).await;
    assert!(!bench.is_shut());
    // Somebody else removed the row.
    assert_eq!(bench.counted("rows_freed"), 0);
}

/// A claim whose connection broke is done by the server much later, when its pod lives again.
#[tokio::test(start_paused = true)]
async fn a_claim_that_is_done_late_does_not_hit_a_successor() {
    let bench = one().await;
    bench.edit(ORIP, NS, "10.0.0.1", |reservation| {
        reservation["metadata"]["annotations"]["note"] = "there before".into();
    });
    let late = bench.on(Match::patch(ORIP)).once();
    late.apply_late(Duration::from_secs(30));
    // The second claim; the first is settled by the rule above.
    let next = bench.on(Match::patch(ORIP)).once();
    next.after(|server| async move {
        server.put(second("web-1", 1));
    });
    bench.end(["web-1"]);
    seconds(600).await;
    assert_eq!(podref(&bench, "10.0.0.1"), "default/web-1");
}

/// One that fails for good keeps none of the others.
#[tokio::test(start_paused = true)]
async fn one_bad_reservation_keeps_no_other() {
    let server = server();
    let names = put_crowd(&server, 12);
    server.on(Match::writes(ORIP).name("10.0.0.7")).fail(500);
    let bench = Bench::long_since(server, no_add(Config::default())).await;
    seconds(1).await;
    bench.end(&names);
    seconds(60).await;
    assert_eq!(bench.rows(POOL), Vec::<String>::new());
    assert_eq!(bench.reservations(), ["10.0.0.7"]);
    // Of the item, and of the sweep that it asked for.
    assert!((1..=2).contains(&bench.counted("retries_exhausted")));
    let events = bench.events("Pod");
    let warnings = events.iter().filter(|event| event.starts_with("Warning"));
    assert_eq!(warnings.count(), 1);
}

/// However often the server asks for patience, and at whichever step.
#[rstest]
#[tokio::test(start_paused = true)]
async fn retry_after_is_waited_for(#[values("find", "claim", "delete")] step: &str) {
    let bench = one_with(seldom()).await;
    let rule = bench.on(requests(step)).times(2);
    rule.answer(Failure::too_many_requests(17));
    bench.end(["web-1"]);
    seconds(60).await;
    assert_eq!(bench.reservations(), Vec::<String>::new());
    let waits = gaps(&bench.sent(requests(step)));
    assert_eq!(waits.len(), 2);
    for wait in waits {
        assert!((17..19).contains(&wait.as_secs()), "{wait:?}");
    }
}

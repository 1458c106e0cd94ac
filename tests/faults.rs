//! Every answer that the API server, or something before it, can give to an observation, a proof
//! or a patch.

use std::time::Duration;

use crate::common::{
    Bench, NS, PODS, POOL,
    nodes::{adopt, second},
    put_crowd, put_row, seconds, seldom, server, three, three_with, took,
};
use ipgc::config::Config;
use rstest::rstest;
use testkit::{ChangeKind, Failure, Garble, Match, Request, Rule, RuleBuilder, Verb, fixtures};
use tokio::time::Instant;

const FAILED: &str = "Warning IPAddressGarbageCollectionFailed failed to garbage collect addresses for pod default/web-1";

#[tokio::test(start_paused = true)]
async fn a_pool_that_is_gone_is_done() {
    let bench = three().await;
    let hook = bench.on(Match::patch("ippools")).once();
    hook.before(|server| async move {
        server.delete("ippools", NS, POOL);
    });
    bench.end(PODS);
    seconds(600).await;
    let patches = bench.sent(Match::patch("ippools"));
    assert_eq!(patches.len(), 1);
    assert_eq!(patches.last().unwrap().status, Some(404));
    assert_eq!(bench.counted("retries_exhausted"), 0);
    let events = bench.events("Pod");
    assert!(
        events.iter().all(|event| event.starts_with("Normal")),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_row_that_a_successor_adopted_survives_and_the_rest_goes() {
    let bench = three().await;
    let hook = bench.on(Match::patch("ippools")).once();
    hook.before(|server| async move {
        server.put(second("web-2", 2));
        adopt(&server, POOL, "2");
    });
    bench.end(PODS);
    seconds(600).await;
    assert_eq!(bench.rows(POOL), ["2"]);
    assert_eq!(bench.reservations(), ["10.0.0.2"]);
    let reservation = &bench.list("overlappingrangeipreservations")[0];
    assert_eq!(reservation["spec"]["podref"], "default/web-2");
    assert_eq!(bench.told_as_freed(), ["10.0.0.1", "10.0.0.3"]);
    // The first turn may begin before all three have reached it.
    let patches = bench.sent(Match::patch("ippools"));
    assert!(patches.len() <= 3, "{patches}");
}

#[derive(Clone, Copy)]
enum Fault {
    Code(u16),
    /// An answer that something before the API server made.
    Proxy(u16, &'static str),
    Deny,
    Disconnect,
    Hang,
    Spoil(Garble),
    DoneThenCode(u16),
    DoneThenDisconnect,
    DoneThenHang,
}

impl Fault {
    fn strike(self, rule: RuleBuilder<'_>) -> Rule {
        match self {
            Self::Code(code) => rule.fail(code),
            // The reason is what kube puts where there is no Status in the body.
            Self::Proxy(code, text) => {
                rule.answer(Failure::new(code, "Failed to parse error data", text))
            }
            Self::Deny => rule.deny(),
            Self::Disconnect => rule.disconnect(),
            Self::Hang => rule.hang(),
            Self::Spoil(how) => rule.garble(how),
            Self::DoneThenCode(code) => rule.apply_then_answer(Failure::of_code(code)),
            Self::DoneThenDisconnect => rule.apply_then_disconnect(),
            Self::DoneThenHang => rule.apply_then_hang(),
        }
    }
}

/// Faults that pass: the first request of a kind fails, nothing was done.
#[rstest]
#[case::conflict(Fault::Code(409))]
#[case::too_many(Fault::Code(429))]
#[case::internal(Fault::Code(500))]
#[case::bad_gateway(Fault::Proxy(502, "<html>bad gateway</html>"))]
#[case::unavailable(Fault::Code(503))]
#[case::timeout(Fault::Code(504))]
#[case::broken(Fault::Disconnect)]
#[case::hangs(Fault::Hang)]
#[case::expired(Fault::Code(410))]
#[case::bad_request(Fault::Code(400))]
#[tokio::test(start_paused = true)]
async fn a_fault_that_passes_costs_a_retry(
    #[case] fault: Fault,
    #[values("observe", "prove", "patch")] step: &str,
) {
    let bench = three().await;
    let matcher = match step {
        "observe" => Match::get("ippools"),
        "prove" => Match::get("pods"),
        _ => Match::patch("ippools"),
    };
    let rule = fault.strike(bench.on(matcher).once());
    bench.end(["web-1"]);
    let ended = Instant::now();
    bench.wait_rows(POOL, &["2", "3"]).await;
    // The cooldown, 20 s at most until a hanging request is given up, the pause of the writer.
    took(ended, ..27.0);
    assert_eq!(rule.hits(), 1);
    seconds(60 + 120).await;
    assert_eq!(bench.told_as_freed(), ["10.0.0.1"]);
    assert_eq!(bench.counted("rows_freed"), 1);
    assert_eq!(bench.counted("retries_exhausted"), 0);
    assert_eq!(bench.reservations(), ["10.0.0.2", "10.0.0.3"]);
}

/// A GET is sent once more: at once where it failed, after five seconds where nothing is heard of it.
#[rstest]
#[case::failed("ippools", Fault::Code(500), 1.0)]
#[case::failed_of_pods("pods", Fault::Code(500), 1.0)]
#[case::broken("ippools", Fault::Disconnect, 1.0)]
#[case::broken_of_pods("pods", Fault::Disconnect, 1.0)]
#[case::silent_of_pods("pods", Fault::Hang, 6.0)]
#[tokio::test(start_paused = true)]
async fn a_get_is_sent_once_more(
    #[case] resource: &str,
    #[case] fault: Fault,
    #[case] longer: f64,
) {
    let bench = three().await;
    bench.end(["web-1"]);
    let ended = Instant::now();
    bench.wait_rows(POOL, &["2", "3"]).await;
    let usual = ended.elapsed().as_secs_f64();
    let rule = fault.strike(bench.on(Match::get(resource)).once());
    bench.end(["web-2"]);
    let ended = Instant::now();
    bench.wait_rows(POOL, &["3"]).await;
    took(ended, ..usual + longer);
    assert_eq!(rule.hits(), 1);
    assert_eq!(bench.counted("rows_freed"), 2);
}

/// The patch was done and we were not told.
#[rstest]
#[case::broken(Fault::DoneThenDisconnect)]
#[case::hangs(Fault::DoneThenHang)]
#[case::unavailable(Fault::DoneThenCode(503))]
#[case::timeout(Fault::DoneThenCode(504))]
#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_one_free_and_one_success(
    #[case] fault: Fault,
    #[values("each", "the first")] which: &str,
) {
    let bench = three().await;
    let patches = bench.on(Match::patch("ippools"));
    fault.strike(match which {
        "each" => patches,
        _ => patches.once(),
    });
    bench.end(PODS);
    seconds(60 + 120).await;
    assert_eq!(bench.rows(POOL), Vec::<String>::new());
    assert!(bench.sent(Match::patch("ippools")).len() <= 3);
    assert_eq!(bench.told_as_freed(), ["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
    assert_eq!(bench.counted("rows_freed"), 3);
    assert_eq!(bench.reservations(), Vec::<String>::new());
    assert_eq!(bench.counted("retries_exhausted"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_patch_that_is_done_late_takes_nothing_from_a_second() {
    let bench = three().await;
    let late = bench.on(Match::patch("ippools")).once();
    late.apply_late(Duration::from_secs(30));
    bench.end(["web-1"]);
    bench.wait_rows(POOL, &["2", "3"]).await;
    bench.put(second("web-1", 1));
    put_row(&bench, 1, "web-1", 99);
    seconds(120).await;
    assert_eq!(bench.rows(POOL), ["1", "2", "3"]);
    assert_eq!(bench.told_as_freed(), ["10.0.0.1"]);
}

#[tokio::test(start_paused = true)]
async fn a_row_that_was_adopted_after_a_lost_patch_is_not_told_as_freed() {
    let bench = three().await;
    let rule = bench.on(Match::patch("ippools")).once().disconnect();
    let third = bench.on(Match::get("ippools")).skip(2).once();
    third.before(|server| async move {
        server.put(second("web-1", 1));
        adopt(&server, POOL, "1");
    });
    bench.end(["web-1"]);
    seconds(600).await;
    assert_eq!(rule.hits(), 1);
    assert_eq!(bench.rows(POOL), ["1", "2", "3"]);
    assert_eq!(bench.events("Pod"), Vec::<String>::new());
    assert_eq!(bench.counted("rows_freed"), 0);
    assert!(
        bench
            .sent(Match::writes("overlappingrangeipreservations"))
            .is_empty()
    );
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_waited_for() {
    let bench = three().await;
    let rule = bench.on(Match::patch("ippools")).times(2);
    rule.answer(Failure::too_many_requests(17));
    bench.end(["web-1"]);
    bench.wait_rows(POOL, &["2", "3"]).await;
    let at: Vec<_> = bench
        .sent(Match::patch("ippools"))
        .iter()
        .map(|r| r.at)
        .collect();
    assert_eq!(at.len(), 3);
    for pair in at.windows(2) {
        let wait = pair[1] - pair[0];
        assert!((17..19).contains(&wait.as_secs()), "{wait:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn retries_double_from_200_ms_and_end_with_one_warning_and_sweeps() {
    let bench = three_with(Config::default()).await;
    // A sweep just now, so that none comes between the first tries and joins them.
    let swept = bench.counted("sweeps_ended");
    while bench.counted("sweeps_ended") == swept {
        seconds(1).await;
    }
    seconds(15).await;
    bench.clear_requests();
    let rule = bench.on(Match::patch("ippools")).fail(500);
    bench.end(["web-1"]);
    seconds(600).await;
    // Not in the midst of those of a later one.
    let tries = || bench.sent(Match::patch("ippools")).len();
    let mut seen = 0;
    while seen != tries() {
        seen = tries();
        seconds(10).await;
    }
    let at: Vec<_> = bench
        .sent(Match::patch("ippools"))
        .iter()
        .map(|r| r.at)
        .collect();
    // One try and five retries; as many by the sweep that was then asked for, and by each later one.
    assert!(
        at.len() % 6 == 0 && (12..=24).contains(&at.len()),
        "{}",
        at.len()
    );
    let at = &at[..6];
    for (pair, full) in at.windows(2).zip([200, 400, 800, 1_600, 3_200_u128]) {
        // Jitter takes up to a half away; the timer's grain is a millisecond.
        let wait = (pair[1] - pair[0]).as_millis();
        assert!(wait >= full / 2 && wait <= full + 5, "{wait} of {full}");
    }
    assert_eq!(bench.events("Pod"), [FAILED]);
    assert!((2..=4).contains(&bench.counted("retries_exhausted")));
    assert_eq!(bench.rows(POOL), ["1", "2", "3"]);
    assert!(
        bench
            .sent(Match::writes("overlappingrangeipreservations"))
            .is_empty()
    );
    // Mended, the next sweep frees it.
    rule.remove();
    seconds(340).await;
    assert_eq!(bench.rows(POOL), ["2", "3"]);
    assert_eq!(bench.told_as_freed(), ["10.0.0.1"]);
}

#[tokio::test(start_paused = true)]
async fn max_retries_is_what_was_set() {
    let config = Config {
        max_retries: 1,
        ..seldom()
    };
    let bench = three_with(config).await;
    bench.on(Match::patch("ippools")).fail(503);
    bench.end(["web-1"]);
    seconds(600).await;
    // Each time, by its end and by the sweep that was asked for.
    assert_eq!(bench.sent(Match::patch("ippools")).len(), 2 * 2);
    assert_eq!(bench.events("Pod"), [FAILED]);
}

/// Not being allowed is no failure of a pod: writing stops, and begins again by itself.
#[rstest]
#[case::unauthorized(Fault::Code(401))]
#[case::forbidden(Fault::Deny)]
#[tokio::test(start_paused = true)]
async fn a_refusal_shuts_the_gate_and_costs_no_retries(
    #[case] fault: Fault,
    #[values("patch", "observe")] step: &str,
) {
    let bench = three().await;
    let shut = bench.running.vitals.shut.clone();
    let matcher = match step {
        "patch" => Match::patch("ippools"),
        _ => Match::get("ippools"),
    };
    let rule = fault.strike(bench.on(matcher));
    if let Fault::Code(_) = fault {
        // An unknown account may not ask for rights either.
        fault.strike(bench.on(Match::create("selfsubjectaccessreviews")));
    }
    assert!(shut.borrow().is_none());
    bench.end(PODS);
    seconds(600).await;
    assert!(shut.borrow().is_some());
    let hits = rule.hits();
    assert!((10..=40).contains(&hits), "{hits} tries in ten minutes");
    assert_eq!(bench.counted("retries_exhausted"), 0);
    assert_eq!(bench.events("Pod"), Vec::<String>::new());
    assert_eq!(bench.rows(POOL), ["1", "2", "3"]);
    rule.remove();
    seconds(40).await;
    assert!(shut.borrow().is_none(), "{}", bench.requests());
    assert_eq!(bench.rows(POOL), Vec::<String>::new());
}

/// While the proof fails nothing is written, whatever the failure looks like. The pod was in fact
/// deleted here, so that code which takes the failure for absence frees the row and is found out.
#[rstest]
#[case::internal(Fault::Code(500))]
#[case::forbidden(Fault::Deny)]
#[case::broken(Fault::Disconnect)]
#[case::html(Fault::Spoil(Garble::Html))]
#[case::half(Fault::Spoil(Garble::Truncated))]
#[case::proxy(Fault::Proxy(404, "default backend - 404"))]
#[case::not_served(Fault::Code(404))]
#[case::gone(Fault::Code(410))]
#[tokio::test(start_paused = true)]
async fn an_error_is_never_absence(#[case] fault: Fault, #[values("get", "list")] verb: &str) {
    let bench = Bench::long_since(server(), Config::default()).await;
    let count = if verb == "get" { 2 } else { 20 };
    let names = put_crowd(&bench, count);
    seconds(1).await;
    // Something must be there to spoil.
    bench.put(fixtures::pod(NS, "other"));
    // Slow enough that the pods gather and a list is the shorter proof.
    let slow = bench.on(Match::get("ippools"));
    slow.delay(Duration::from_millis(100));
    let matcher = Match::verbs(&[Verb::Get, Verb::List], "pods");
    if verb == "get" {
        // A read that finds the pod, of which no watch tells: its answer is what is garbled.
        let unheard = bench.on_events(Match::watch("pods"));
        unheard.kind(ChangeKind::Added).lose();
        let rule = bench.on(Match::get("pods"));
        rule.before(|server| async move {
            for (offset, name) in [(1, "web-1"), (2, "web-2")] {
                if server.get("pods", NS, name).is_none() {
                    server.put(second(name, offset));
                }
            }
        });
    }
    fault.strike(bench.on(matcher));
    bench.end(&names);
    seconds(600).await;
    assert_eq!(bench.rows(POOL).len(), count);
    assert!(bench.sent(Match::writes("ippools")).is_empty());
    // Not being allowed to look is no failure of the pods.
    let refused = matches!(fault, Fault::Deny);
    let lists = bench.sent(Match::list("pods"));
    assert_eq!(lists.is_empty(), verb == "get", "{lists}");
    let exhausted = bench.counted("retries_exhausted");
    if refused {
        assert_eq!(exhausted, 0);
    } else {
        // By the ends, by the sweeps asked for as one end after another is given up (ten seconds
        // apart, so one to three), and by one every five minutes: some retries, and no storm.
        let all = count as u64;
        assert!((2 * all..=8 * all).contains(&exhausted), "{exhausted}");
        assert_eq!(bench.events("Pod").len(), count, "each is told once");
    }
    assert_eq!(bench.running.vitals.shut.borrow().is_none(), !refused);
}

/// A body that is no pool says nothing about its rows; the next read may.
#[rstest]
#[case::html(Garble::Html)]
#[case::half(Garble::Truncated)]
#[tokio::test(start_paused = true)]
async fn a_spoiled_observation_is_tried_again(#[case] how: Garble) {
    let bench = three().await;
    bench.on(Match::get("ippools")).once().garble(how);
    bench.end(["web-1"]);
    seconds(10).await;
    assert_eq!(bench.rows(POOL), ["2", "3"]);
    assert_eq!(bench.counted("pools_unreadable"), 1);
}

#[tokio::test(start_paused = true)]
async fn others_who_write_the_pool_all_the_time_neither_fail_us_nor_lose_a_row() {
    let bench = three().await;
    let rule = bench.before(Match::patch("ippools"), |server| async move {
        server.edit("ippools", NS, POOL, |pool| {
            let rows = pool["spec"]["allocations"].as_object_mut().unwrap();
            let key = (100 + rows.len()).to_string();
            rows.insert(
                key,
                fixtures::row(&fixtures::sandbox(7), "default/new", "net1"),
            );
            rows.remove("2");
        });
    });
    bench.end(["web-1", "web-3"]);
    seconds(60).await;
    assert_eq!(rule.hits(), 1);
    assert_eq!(bench.rows(POOL), ["103"]);
    assert_eq!(bench.told_as_freed(), ["10.0.0.1", "10.0.0.3"]);
}

#[tokio::test(start_paused = true)]
async fn the_proof_begins_after_the_observation_and_all_reads_are_quorum_reads() {
    let bench = three().await;
    let slow = bench.on(Match::get("ippools"));
    slow.delay(Duration::from_millis(700));
    bench.end(PODS);
    bench.wait_rows(POOL, &[]).await;
    let observed = bench.sent(Match::get("ippools"));
    let requests = bench.sent(Match::any());
    let mut reading: Option<&Request> = None;
    for request in &requests {
        match (request.verb, request.resource.as_str()) {
            (Verb::Get, "ippools") => reading = Some(request),
            (Verb::Get | Verb::List, "pods") => {
                let read = reading.expect("proven before it was observed");
                let answered = read.answered_at.expect("no proof without an answer");
                assert!(answered <= request.at, "{requests}");
            }
            _ => {}
        }
    }
    let reads = bench.sent(Match::verbs(&[Verb::Get, Verb::List], "pods"));
    assert!(reads.iter().all(Request::is_quorum_read));
    assert!(observed.iter().all(Request::is_quorum_read));
}

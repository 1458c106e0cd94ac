//! Every answer that the API server, or something before it, can give to an observation, a proof
//! or a patch.

use crate::{common, prelude::*};
use testkit::RuleBuilder;

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
    assert_eq!(podref(&bench, "10.0.0.2"), "default/web-2");
    assert_eq!(bench.told_as_freed(), ["10.0.0.1", "10.0.0.3"]);
    // The first turn may begin before all three have reached it.
    let patches = bench.sent(Match::patch("ippools"));
    assert!(patches.len() <= 3, "{patches}");
}

/// An answer that something before the API server made; or another fault.
fn strike(rule: RuleBuilder<'_>, fault: &str) -> Rule {
    let (code, text) = match fault {
        "bad gateway" => (502, "<html>bad gateway</html>"),
        "no backend" => (404, "default backend - 404"),
        fault => return common::strike(rule, fault),
    };
    // The reason is what kube puts where there is no Status in the body.
    rule.answer(Failure::new(code, "Failed to parse error data", text))
}

/// Faults that pass: the first request of a kind fails, nothing was done.
#[rstest]
#[case::conflict("409")]
#[case::too_many("429")]
#[case::internal("500")]
#[case::bad_gateway("bad gateway")]
#[case::unavailable("503")]
#[case::timeout("504")]
#[case::broken("broken")]
#[case::hangs("hang")]
#[case::expired("410")]
#[case::bad_request("400")]
#[tokio::test(start_paused = true)]
async fn a_fault_that_passes_costs_a_retry(
    #[case] fault: &str,
    #[values("observe", "prove", "patch")] step: &str,
) {
    let bench = three().await;
    let matcher = match step {
        "observe" => Match::get("ippools"),
        "prove" => Match::get("pods"),
        _ => Match::patch("ippools"),
    };
    let rule = strike(bench.on(matcher).once(), fault);
    bench.end(["web-1"]);
    // The cooldown, 20 s at most until a hanging request is given up, the pause of the writer.
    bench.rows_in(POOL, &["2", "3"], ..27.0).await;
    assert_eq!(rule.hits(), 1);
    seconds(60 + 120).await;
    assert_eq!(bench.told_as_freed(), ["10.0.0.1"]);
    assert_eq!(bench.counted("rows_freed"), 1);
    assert_eq!(bench.counted("retries_exhausted"), 0);
    assert_eq!(bench.reservations(), ["10.0.0.2", "10.0.0.3"]);
}

/// A GET is sent once more: at once where it failed, after five seconds where nothing is heard of it.
#[rstest]
#[case::failed("ippools", "500", 1.0)]
#[case::failed_of_pods("pods", "500", 1.0)]
#[case::broken("ippools", "broken", 1.0)]
#[case::broken_of_pods("pods", "broken", 1.0)]
#[case::silent_of_pods("pods", "hang", 6.0)]
#[tokio::test(start_paused = true)]
async fn a_get_is_sent_once_more(#[case] resource: &str, #[case] fault: &str, #[case] longer: f64) {
    let bench = three().await;
    bench.end(["web-1"]);
    let ended = Instant::now();
    bench.wait_rows(POOL, &["2", "3"]).await;
    let usual = ended.elapsed().as_secs_f64();
    let rule = strike(bench.on(Match::get(resource)).once(), fault);
    bench.end(["web-2"]);
    bench.rows_in(POOL, &["3"], ..usual + longer).await;
    assert_eq!(rule.hits(), 1);
    assert_eq!(bench.counted("rows_freed"), 2);
}

/// The patch was done and we were not told.
#[rstest]
#[case::broken("done, then broken")]
#[case::hangs("done, then hang")]
#[case::unavailable("done, then 503")]
#[case::timeout("done, then 504")]
#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_one_free_and_one_success(
    #[case] fault: &str,
    #[values("each", "the first")] which: &str,
) {
    let bench = three().await;
    let patches = bench.on(Match::patch("ippools"));
    let patches = match which {
        "each" => patches,
        _ => patches.once(),
    };
    strike(patches, fault);
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
    assert!(bench.sent(Match::writes(ORIP)).is_empty());
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_waited_for() {
    let bench = three().await;
    let rule = bench.on(Match::patch("ippools")).times(2);
    rule.answer(Failure::too_many_requests(17));
    bench.end(["web-1"]);
    bench.wait_rows(POOL, &["2", "3"]).await;
    let waits = gaps(&bench.sent(Match::patch("ippools")));
    assert_eq!(waits.len(), 2);
    for wait in waits {
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
    let patches = bench.sent(Match::patch("ippools"));
    // One try and five retries; as many by the sweep that was then asked for, and by each later one.
    let tries = patches.len();
    assert!(tries % 6 == 0 && (12..=24).contains(&tries), "{tries}");
    for (wait, full) in gaps(&patches)
        .iter()
        .zip([200, 400, 800, 1_600, 3_200_u128])
    {
        // Jitter takes up to a half away; the timer's grain is a millisecond.
        let wait = wait.as_millis();
        assert!(wait >= full / 2 && wait <= full + 5, "{wait} of {full}");
    }
    assert_eq!(bench.events("Pod"), [FAILED]);
    assert!((2..=4).contains(&bench.counted("retries_exhausted")));
    assert_eq!(bench.rows(POOL), ["1", "2", "3"]);
    assert!(bench.sent(Match::writes(ORIP)).is_empty());
    // Mended, the next sweep frees it.
    rule.remove();
    seconds(340).await;
    assert_eq!(bench.rows(POOL), ["2", "3"]);
    assert_eq!(bench.told_as_freed(), ["10.0.0.1"]);
}

#[tokio::test(start_paused = true)]
async fn max_retries_is_what_was_set() {
    let config = seldom().with(|it| it.max_retries = 1);
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
#[case::unauthorized("401")]
#[case::forbidden("deny")]
#[tokio::test(start_paused = true)]
async fn a_refusal_shuts_the_gate_and_costs_no_retries(
    #[case] fault: &str,
    #[values("patch", "observe")] step: &str,
) {
    let bench = three().await;
    let matcher = match step {
        "patch" => Match::patch("ippools"),
        _ => Match::get("ippools"),
    };
    let rule = strike(bench.on(matcher), fault);
    if fault == "401" {
        // An unknown account may not ask for rights either.
        strike(bench.on(Match::create("selfsubjectaccessreviews")), fault);
    }
    assert!(!bench.is_shut());
    bench.end(PODS);
    seconds(600).await;
    assert!(bench.is_shut());
    let hits = rule.hits();
    assert!((10..=40).contains(&hits), "{hits} tries in ten minutes");
    assert_eq!(bench.counted("retries_exhausted"), 0);
    assert_eq!(bench.events("Pod"), Vec::<String>::new());
    assert_eq!(bench.rows(POOL), ["1", "2", "3"]);
    rule.remove();
    seconds(40).await;
    assert!(!bench.is_shut(), "{}", bench.requests());
    assert_eq!(bench.rows(POOL), Vec::<String>::new());
}

/// While the proof fails nothing is written, whatever the failure looks like. The pod was in fact
/// deleted here, so that code which takes the failure for absence frees the row and is found out.
#[rstest]
#[case::internal("500")]
#[case::forbidden("deny")]
#[case::broken("broken")]
#[case::html("html")]
#[case::half("half")]
#[case::proxy("no backend")]
#[case::not_served("404")]
#[case::gone("410")]
#[tokio::test(start_paused = true)]
async fn an_error_is_never_absence(#[case] fault: &str, #[values("get", "list")] verb: &str) {
    let bench = Bench::long_since(server(), Config::default()).await;
    let count = if verb == "get" { 2 } else { 20 };
    let names = put_crowd(&bench, count);
    seconds(1).await;
    // Something must be there to spoil.
    bench.put(fixtures::pod(NS, "other"));
    // Slow enough that the pods gather and a list is the shorter proof.
    slow(&bench, Match::get("ippools"), 100);
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
    strike(bench.on(matcher), fault);
    bench.end(&names);
    seconds(600).await;
    assert_eq!(bench.rows(POOL).len(), count);
    assert!(bench.sent(Match::writes("ippools")).is_empty());
    // Not being allowed to look is no failure of the pods.
    let refused = fault == "deny";
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
    assert_eq!(!bench.is_shut(), !refused);
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
    let rule = bench
        .on(Match::patch("ippools"))
        .before(|server| async move {
            server.edit("ippools", NS, POOL, |pool| {
                let rows = pool["spec"]["allocations"].as_object_mut().unwrap();
                let key = (100 + rows.len()).to_string();
                let row = fixtures::row(&fixtures::sandbox(7), "default/new", "net1");
                rows.insert(key, row);
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
    slow(&bench, Match::get("ippools"), 700);
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

//! The reservations of freed rows: found by parsing, claimed, proven, deleted (docs/safety.md).

use crate::prelude::*;
use ipgc::core::reservation::{CLAIM_ANNOTATION, CLAIMED_PODREF};

/// Seconds from a claim to the DELETE.
const ADD: u64 = 120;

/// A running pod `web-1` with a row and a reservation, followed by a collector.
async fn one() -> Bench {
    followed(&[(1, "web-1")], seldom()).await
}

async fn following(server: Server) -> Bench {
    // Sweeps are rare here: their work on reservations is not the subject.
    let bench = Bench::long_since(server, seldom()).await;
    seconds(1).await;
    bench
}

fn reserved(server: &Server, name: &str) -> Option<Value> {
    server.get(ORIP, NS, name)
}

/// The requests of the collector about pods, rows and reservations, in order.
fn steps(bench: &Bench) -> Vec<&'static str> {
    let requests = bench.sent(Match::any());
    let step = |r: &Request| match (r.verb, r.resource.as_str()) {
        (Verb::Get | Verb::List, "pods") => Some("prove"),
        (Verb::Patch, "ippools") => Some("free"),
        (Verb::Patch, ORIP) => Some("patch"),
        (Verb::Delete, ORIP) => Some("delete"),
        (Verb::Get | Verb::List, ORIP) => Some("find"),
        _ => None,
    };
    requests.iter().filter_map(step).collect()
}

#[tokio::test(start_paused = true)]
async fn a_reservation_is_claimed_then_proven_then_deleted() {
    let bench = one().await;
    let claimed = bench.on(Match::patch(ORIP)).after(|server| async move {
        let reservation = reserved(&server, "10.0.0.1").unwrap();
        assert_eq!(reservation["spec"]["podref"], CLAIMED_PODREF);
        assert_eq!(reservation["spec"]["ifname"], "net1");
        assert_eq!(
            reservation["metadata"]["annotations"][CLAIM_ANNOTATION],
            "default/web-1"
        );
    });
    bench.end(["web-1"]);
    seconds(10).await;
    assert_eq!(claimed.hits(), 1);
    assert_eq!(steps(&bench), ["prove", "free", "find", "patch"]);
    // An ADD that accepted it before the claim may write its row for so long.
    seconds(ADD - 10).await;
    assert_eq!(bench.reservations(), ["10.0.0.1"]);
    seconds(10).await;
    assert_eq!(bench.reservations(), Vec::<String>::new());
    assert_eq!(
        steps(&bench),
        ["prove", "free", "find", "patch", "find", "prove", "delete"]
    );
    let proof = bench.sent(Match::get("pods"));
    let claim = bench.sent(Match::patch(ORIP));
    let claimed = claim.last().unwrap().answered_at.unwrap();
    assert!(proof.last().unwrap().at >= claimed + Duration::from_secs(ADD));
    assert_eq!(bench.counted("reservations_freed"), 1);
}

/// A successor accepted the reservation without writing it, before or after our claim.
#[rstest]
#[case::before_the_search(Match::get(ORIP))]
#[case::before_the_claim(Match::patch(ORIP))]
#[tokio::test(start_paused = true)]
async fn a_successor_keeps_the_reservation(#[case] moment: Match) {
    let bench = one().await;
    bench.on(moment).once().before(|server| async move {
        server.put(second("web-1", 1));
    });
    bench.end(["web-1"]);
    seconds(600).await;
    assert_eq!(podref(&bench, "10.0.0.1"), "default/web-1");
    let annotations = &reserved(&bench, "10.0.0.1").unwrap()["metadata"]["annotations"];
    assert!(annotations.get(CLAIM_ANNOTATION).is_none(), "{annotations}");
    assert!(bench.sent(Match::delete(ORIP)).is_empty());
    assert_eq!(bench.counted("retries_exhausted"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_successor_that_appears_between_claim_and_proof_gets_it_back() {
    let bench = one().await;
    let claimed = bench.on(Match::patch(ORIP)).once();
    claimed.after(|server| async move {
        server.put(second("web-1", 1));
    });
    bench.end(["web-1"]);
    seconds(600).await;
    assert_eq!(podref(&bench, "10.0.0.1"), "default/web-1");
    assert!(bench.sent(Match::delete(ORIP)).is_empty());
    assert_eq!(bench.sent(Match::patch(ORIP)).len(), 2);
    // Its own end frees what it had.
    put_row(&bench, 1, "web-1", 9);
    bench.end(["web-1"]);
    seconds(60 + ADD).await;
    assert_eq!(bench.rows(POOL), Vec::<String>::new());
    assert_eq!(bench.reservations(), Vec::<String>::new());
}

/// An ADD looks at the reservation, accepts it without a write, and is slow. Meanwhile it is claimed, and the pod is forced
/// away. The ADD writes its row all the same, and its sandbox answers for a while.
#[rstest]
#[case::before_the_claim(false)]
#[case::its_pod_seen_alive_after_the_claim(true)]
#[tokio::test(start_paused = true)]
async fn an_add_that_accepted_it_before_the_claim_finds_it_after_its_write(
    #[case] is_there: bool,
    #[values(0, 20, 110)] add: u64,
) {
    let bench = one().await;
    let looked = bench.on(Match::patch(ORIP)).once();
    looked.before(move |server| async move {
        server.put(second("web-1", 1));
        if !is_there {
            server.delete("pods", NS, "web-1");
        }
    });
    bench.end(["web-1"]);
    let ended = Instant::now();
    seconds(5).await;
    if is_there {
        bench.kubelet().force_delete(NS, "web-1");
    }
    assert_eq!(bench.rows(POOL), Vec::<String>::new());
    seconds(add).await;
    put_row(&bench, 1, "web-1", 9);
    // As long as the row is there, for which nobody reported, the address is taken in every range.
    while ended.elapsed() < Duration::from_secs(ADD + 60) {
        seconds(3).await;
        assert_eq!(bench.rows(POOL), ["1"]);
        assert_eq!(bench.reservations(), ["10.0.0.1"]);
    }
    assert!(bench.sent(Match::delete(ORIP)).is_empty());
}

/// `web-1` ends, and its successor accepts the reservation just before the claim. After this deed it is forced away: the
/// reservation stays.
async fn accept_and_end(bench: &Bench, deed: impl FnOnce(&Server)) {
    let looked = bench.on(Match::patch(ORIP)).once();
    looked.before(|server| async move {
        server.put(second("web-1", 1));
    });
    bench.end(["web-1"]);
    seconds(5).await;
    deed(bench);
    seconds(5).await;
    bench.kubelet().force_delete(NS, "web-1");
    seconds(200).await;
    assert_eq!(bench.reservations(), ["10.0.0.1"]);
    assert!(bench.sent(Match::delete(ORIP)).is_empty());
}

/// An ADD accepts the reservation before the claim, and its write is lost. Its pod is forced away, and its end leads to no
/// pool.
#[tokio::test(start_paused = true)]
async fn an_end_that_leads_to_no_pool_counts_for_what_is_claimed() {
    let bench = one().await;
    accept_and_end(&bench, |server| drop(server.delete(NADS, NS, "net"))).await;
}

/// The same, and the watch of pods is silent when the pod is forced away.
#[tokio::test(start_paused = true)]
async fn what_is_claimed_waits_while_the_watch_is_not_heard() {
    let bench = one().await;
    let silence = |server: &Server| {
        server.on(Match::watch("pods")).hang();
        server.cut_watches("pods");
    };
    accept_and_end(&bench, silence).await;
}

/// The same, and the pod came and went in a gap of the watch.
#[tokio::test(start_paused = true)]
async fn what_is_claimed_is_judged_anew_after_a_gap() {
    // A sweep finds it anew.
    let bench = Bench::long_since(running(&[(1, "web-1")]), Config::default()).await;
    let _beat = live_node(&bench, "node-1");
    let looked = bench.on(Match::patch(ORIP)).once();
    looked.before(|server| async move {
        server.on(Match::watch("pods")).fail(503);
        server.cut_watches("pods");
        server.put(second("web-1", 1));
    });
    bench.end(["web-1"]);
    seconds(20).await;
    assert!(bench.rows(POOL).is_empty());
    bench.kubelet().force_delete(NS, "web-1");
    bench.clear_rules();
    bench.on(Match::watch("pods")).once().fail(410);
    // From the list, in which the pod is not.
    seconds(W).await;
    assert_eq!(bench.reservations(), ["10.0.0.1"]);
    assert!(bench.sent(Match::delete(ORIP)).is_empty());
    seconds(600).await;
    assert!(bench.reservations().is_empty());
}

#[rstest]
#[case("ReplicaSet", false)]
#[case("DaemonSet", false)]
#[case("Job", false)]
#[case("StatefulSet", true)]
#[tokio::test(start_paused = true)]
async fn only_names_that_may_return_are_claimed(#[case] owner: &str, #[case] claimed: bool) {
    let server = server();
    put_pool(&server, &[(1, "web-1")]);
    server.put(reporting("web-1", 1).owner(owner, "web").running());
    let bench = following(server).await;
    bench.end(["web-1"]);
    seconds(10).await;
    assert_eq!(bench.reservations().is_empty(), !claimed);
    seconds(ADD).await;
    assert_eq!(bench.reservations(), Vec::<String>::new());
    assert_eq!(bench.sent(Match::patch(ORIP)).len(), usize::from(claimed));
    // Proven after the row went, in either case.
    assert_eq!(bench.sent(Match::get("pods")).len(), 2);
}

#[rstest]
#[case::another_pod("10.0.0.1", "default/web-10", "net1")]
#[case::another_namespace("10.0.0.1", "other/web-1", "net1")]
#[case::another_interface("10.0.0.1", "default/web-1", "net2")]
#[case::another_network("blue-10.0.0.1", "default/web-1", "net1")]
#[case::another_address("10.0.0.10", "default/web-1", "net1")]
#[case::no_pod("10.0.0.1", "", "net1")]
#[case::somebody_elses_claim("10.0.0.1", CLAIMED_PODREF, "net1")]
#[tokio::test(start_paused = true)]
async fn what_is_not_the_rows_is_not_touched(
    #[case] name: &str,
    #[case] podref: &str,
    #[case] interface: &str,
    #[values(1, 12)] pods: usize,
) {
    let server = server();
    let names = put_crowd(&server, pods);
    for offset in 1..=pods {
        // Gathered in one turn, many are looked up in a list.
        server.delete(ORIP, NS, &format!("10.0.0.{offset}"));
    }
    slow(&server, Match::get("ippools"), 100);
    let bench = following(server).await;
    // Sweeps would find it without a row, and free it in its time.
    let reservation = fixtures::reservation(NS, name, podref, interface);
    bench.put(reservation);
    let before = reserved(&bench, name);
    // Not the owner of another pod's row, which would be the row's after all.
    bench.end(names.iter().map(String::as_str).filter(|n| *n != "web-10"));
    seconds(60).await;
    assert_eq!(reserved(&bench, name), before);
    assert!(bench.sent(Match::writes(ORIP)).is_empty());
    assert_eq!(bench.counted("retries_exhausted"), 0);
}

/// As old CRDs keep it: they drop the podref. No ADD accepts such a one, so it is not claimed.
#[rstest]
#[tokio::test(start_paused = true)]
async fn a_reservation_without_a_podref_goes_with_the_row_of_its_sandbox(
    #[values(false, true)] is_its: bool,
    #[values(1, 12)] pods: usize,
) {
    let server = server();
    let names = put_crowd(&server, pods);
    let pool = server.get("ippools", NS, POOL).unwrap();
    for offset in 1..=pods {
        let id = &pool["spec"]["allocations"][offset.to_string()]["id"];
        server.edit(ORIP, NS, &format!("10.0.0.{offset}"), |it| {
            it["spec"] = json!({ "containerid": id });
            if !is_its {
                it["spec"]["containerid"] = fixtures::sandbox(99).into();
            }
        });
    }
    slow(&server, Match::get("ippools"), 100);
    let bench = following(server).await;
    bench.end(&names);
    seconds(60).await;
    assert_eq!(bench.rows(POOL), Vec::<String>::new());
    assert!(bench.sent(Match::patch(ORIP)).is_empty());
    let left = if is_its { 0 } else { names.len() };
    assert_eq!(bench.reservations().len(), left);
    assert_eq!(bench.counted("retries_exhausted"), 0);
}

/// A later version may say by it whose the address is.
#[tokio::test(start_paused = true)]
async fn a_reservation_with_an_unknown_field_does_not_go_with_its_row() {
    let server = running(&[(1, "web-1")]);
    server.edit(ORIP, NS, "10.0.0.1", |it| {
        it["spec"]["ipamclaim"] = "default/web-1-net1".into();
    });
    let bench = following(server).await;
    bench.end(["web-1"]);
    seconds(60).await;
    assert_eq!(bench.rows(POOL), Vec::<String>::new());
    assert_eq!(bench.reservations(), ["10.0.0.1"]);
    assert!(bench.sent(Match::writes(ORIP)).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_delete_names_uid_and_version_and_spares_what_changed() {
    let bench = one().await;
    let changed = bench.on(Match::delete(ORIP)).once();
    changed.before(|server| async move {
        server.edit(ORIP, NS, "10.0.0.1", |r| {
            r["spec"]["podref"] = "default/other".into();
        });
    });
    bench.end(["web-1"]);
    seconds(60 + ADD).await;
    let deletes = bench.sent(Match::delete(ORIP));
    assert_eq!(deletes.len(), 1);
    let delete = deletes.last().unwrap();
    assert_eq!(delete.status, Some(409));
    let wanted = delete.json()["preconditions"].clone();
    let left = reserved(&bench, "10.0.0.1").unwrap();
    assert_eq!(wanted["uid"], left["metadata"]["uid"]);
    assert!(wanted["resourceVersion"].is_string());
    assert_eq!(left["spec"]["podref"], "default/other");
    assert_eq!(bench.counted("retries_exhausted"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_a_crash_left_is_finished_with_its_row() {
    let bench = one().await;
    put_claimed(&bench, "10.0.0.1", "web-1");
    bench.end(["web-1"]);
    seconds(60 + ADD).await;
    assert_eq!(bench.reservations(), Vec::<String>::new());
    assert!(bench.sent(Match::patch(ORIP)).is_empty());
}

/// It takes longer than from one sweep to the next, and each sweep sees it again.
#[rstest]
#[case::that_lives(false, 610 + ADD, 670 + ADD)]
#[case::that_is_gone(true, 12, 350)]
#[tokio::test(start_paused = true)]
async fn a_reservation_without_a_row_goes_as_soon_as_nobody_can_use_it(
    #[case] ends: bool,
    #[case] from: u64,
    #[case] to: u64,
) {
    let bench = Bench::long_since(running(&[(1, "web-1")]), Config::default()).await;
    reserve(&bench, "10.0.0.10", "web-1");
    if ends {
        bench.end(["web-1"]);
    }
    let begun = Instant::now();
    let gone = |s: &Server| reserved(s, "10.0.0.10").is_none();
    let sweep = Duration::from_secs(330);
    let longest = Duration::from_secs(to) + sweep;
    assert!(bench.wait_until(longest, gone).await);
    assert!(
        begun.elapsed() >= Duration::from_secs(from),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(bench.rows(POOL).is_empty(), ends);
    assert_eq!(reserved(&bench, "10.0.0.1").is_none(), ends);
}

#[tokio::test(start_paused = true)]
async fn without_reservations_there_is_nothing_to_do() {
    let bench = one().await;
    bench.delete(ORIP, NS, "10.0.0.1");
    bench.end(["web-1"]);
    seconds(60).await;
    assert_eq!(bench.rows(POOL), Vec::<String>::new());
    assert_eq!(steps(&bench), ["prove", "free", "find"]);
    assert_eq!(bench.counted("retries_exhausted"), 0);
}

/// A sweep that has listed the reservation before its claim does not begin the wait anew.
#[tokio::test(start_paused = true)]
async fn a_sweep_beside_a_claim_does_not_begin_its_wait_anew() {
    let server = server();
    put_pool(&server, &[(1, "web-1")]);
    server.put(reporting("web-1", 1).running());
    let config = Config::default().with(|it| it.sweep_interval = Duration::from_secs(600));
    let bench = Bench::long_since(server, config).await;
    let list = bench.on(Match::list(ORIP)).once();
    list.before(|server| async move {
        end_pod(&server, NS, "web-1");
        sleep(Duration::from_millis(300)).await;
    });
    let slow = bench.on(Match::list("ippools").first_page());
    slow.once().delay(Duration::from_secs(6));
    while rows(&bench, POOL).iter().any(|row| row == "1") {
        seconds(1).await;
    }
    seconds(150).await;
    assert!(
        bench.reservations().is_empty(),
        "{:?}",
        bench.reservations()
    );
}

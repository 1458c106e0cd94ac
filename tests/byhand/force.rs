//! `ipgc release --force`: one address, whatever it waits for, and never one that a pod needs.

use rstest::rstest;
use tokio::time::{Instant, sleep, timeout};

use super::{common::nodes::adopt, *};

#[tokio::test(start_paused = true)]
async fn what_a_silent_node_holds_goes_at_once_and_nothing_else() {
    let (server, _beat) = room(&[(1, "gone"), (2, "other")]);
    silent_node(&server, "node-2");
    let (it, begun) = (pick(&server, "10.0.0.1").await, Instant::now());
    assert_eq!(free(&server, &it).await.unwrap(), 1);
    // The row at once, and the reservation once no ADD is at work that accepted it before it was claimed.
    assert!(begun.elapsed() >= ADD_BUDGET, "{:?}", begun.elapsed());
    assert!(begun.elapsed() < ADD_BUDGET * 2, "{:?}", begun.elapsed());
    assert_eq!(
        (rows(&server, POOL), reservations(&server)),
        (vec!["2".to_owned()], vec!["10.0.0.2".to_owned()])
    );
}

/// All addresses have lost their pods unseen, at which a collector stops.
#[tokio::test(start_paused = true)]
async fn the_breaker_is_no_obstacle() {
    let (server, _beat) = room(&[(1, "a"), (2, "b"), (3, "c")]);
    let it = pick(&server, "10.0.0.1").await;
    free(&server, &it).await.unwrap();
    assert_eq!(rows(&server, POOL), ["2", "3"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_there_keeps_its_address() {
    let (server, _beat) = room(&[(1, "web"), (2, "young")]);
    server.put(reporting("web", 1).running());
    server.put(fixtures::pod(NS, "young").node("node-1"));
    for (address, says) in [
        (
            "10.0.0.1",
            "10.0.0.1 is kept: default/10.0.0.0-24: its pod reports the address",
        ),
        (
            "10.0.0.2",
            "10.0.0.2 is kept: default/10.0.0.0-24: its pod is starting or ending, or its \
             network-status cannot be read",
        ),
        ("10.0.0.3", "nothing holds 10.0.0.3"),
    ] {
        assert_eq!(forced(&server, address).await.unwrap_err(), says);
    }
}

/// Why nothing was freed.
enum Not {
    Kept(&'static str),
    Gone,
    Read,
    Refused,
}

#[track_caller]
fn assert_not(answer: &Result<usize, NotDone>, not: &Not) {
    match not {
        Not::Kept(words) => assert_kept(answer, words),
        Not::Gone => assert_gone(answer),
        Not::Read => assert!(matches!(answer, Err(NotDone::Read(_))), "{answer:?}"),
        Not::Refused => assert!(matches!(answer, Err(NotDone::Call(_))), "{answer:?}"),
    }
}

const REPORTED: Not = Not::Kept("its pod reports the address");
const EXEMPT: &str = "ipgc.dev/hold or ipgc.dev/keep of its pool exempts it";

/// After this answer to ipgc the row's pod is born.
fn born_after(server: &Server, last: Match) {
    let last = server.on(last.client("ipgc")).once();
    last.after(|server| async move {
        server.put(reporting("web-0", 1).running());
    });
}

/// Something happens between the look and the free. `tries`: a patch of the pool was sent.
#[rstest]
#[case::its_pod_uses_it(|s: &Server| { s.put(reporting("web-0", 1).running()); }, REPORTED, false)]
#[case::another_pod_uses_it(|s: &Server| { s.put(reporting("other", 1).running()); }, Not::Kept("pod default/other reports the address"), false)]
#[case::its_pod_is_born_after_the_row_was_observed(|s: &Server| born_after(s, Match::get("ippools")), REPORTED, false)]
#[case::its_pod_is_born_after_the_pods_were_listed(|s: &Server| born_after(s, Match::list("nodes")), REPORTED, false)]
#[case::its_pod_cannot_be_read(|s: &Server| { s.on(Match::get("pods").client("ipgc")).fail(500); }, Not::Kept("nobody knows whether a pod uses it: Internal error"), false)]
#[case::pods_cannot_be_listed(|s: &Server| { s.on(Match::list("pods").client("ipgc")).fail(500); }, Not::Read, false)]
#[case::it_is_adopted(|s: &Server| adopt(s, POOL, "1"), Not::Gone, false)]
#[case::its_pool_is_another_one(|s: &Server| { s.delete("ippools", NS, POOL); common::put_pool(s, &[(1, "web-0")]); }, Not::Gone, false)]
// The successor is deleted by force, so that no pod speaks for its row.
#[case::it_is_adopted_before_the_patch(|s: &Server| { s.on(Match::patch("ippools")).once().before(|server| async move { adopt(&server, POOL, "1") }); }, Not::Refused, true)]
// The patch may have been done, or not: the row is a successor's by now.
#[case::it_is_adopted_while_nobody_answers(|s: &Server| {
    s.on(Match::patch("ippools")).fail(500);
    s.on(Match::get("ippools")).skip(1).once().before(|server| async move { adopt(&server, POOL, "1") });
}, Not::Gone, true)]
#[case::the_patch_is_rejected(|s: &Server| { s.on(Match::patch("ippools")).fail(422); }, Not::Refused, true)]
#[case::the_patch_is_forbidden(|s: &Server| { s.on(Match::patch("ippools")).fail(403); }, Not::Refused, true)]
#[tokio::test(start_paused = true)]
async fn a_row_stays_if(#[case] deed: fn(&Server), #[case] not: Not, #[case] tries: bool) {
    let (server, _beat) = room(&[(1, "web-0")]);
    let it = pick(&server, "10.0.0.1").await;
    deed(&server);
    assert_not(&free(&server, &it).await, &not);
    assert_eq!(left(&server), (1, 1));
    assert_eq!(writes(&server) > 0, tries);
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_is_gone_took_its_rows_along() {
    let (server, _beat) = room(&[(1, "gone")]);
    let it = pick(&server, "10.0.0.1").await;
    server.delete("ippools", NS, POOL).unwrap();
    assert_gone(&free(&server, &it).await);
    assert_eq!(writes(&server), 0);
}

fn exempt(server: &Server, keep: &str) {
    common::annotate_pool(server, POOL, "ipgc.dev/keep", keep);
}

#[rstest]
#[case::it_is_exempted(|s: &Server| exempt(s, "9"), Not::Kept(EXEMPT), 1)]
#[case::it_is_removed(|s: &Server| { s.delete(ORIP, NS, "10.0.0.9"); }, Not::Gone, 0)]
#[case::it_is_made_anew(|s: &Server| { s.delete(ORIP, NS, "10.0.0.9"); reserve(s, "10.0.0.9", "alone"); }, Not::Gone, 1)]
#[tokio::test(start_paused = true)]
async fn a_reservation_stays_if(
    #[case] deed: fn(&Server),
    #[case] not: Not,
    #[case] reservations: usize,
) {
    let (server, _beat) = room(&[]);
    reserve(&server, "10.0.0.9", "alone");
    let it = pick(&server, "10.0.0.9").await;
    deed(&server);
    assert_not(&free(&server, &it).await, &not);
    assert_eq!((left(&server).1, writes(&server)), (reservations, 0));
}

#[rstest]
#[case::a_row("10.0.0.1")]
#[case::a_row_that_cannot_be_read("10.0.0.5")]
#[case::a_reservation_alone("10.0.0.9")]
#[tokio::test(start_paused = true)]
async fn what_a_person_exempted_stays(#[case] address: &str) {
    let (server, _beat) = room(&[(1, "gone")]);
    reserve(&server, "10.0.0.9", "alone");
    exempt(&server, "10.0.0.1, 10.0.0.5, 9");
    server.edit("ippools", NS, POOL, |pool| {
        pool["spec"]["allocations"]["5"] = json!({"id": "x", "podref": ""});
    });
    let why = forced(&server, address).await.unwrap_err();
    assert!(why.ends_with(EXEMPT), "{why}");
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_no_failure() {
    let (server, _beat) = room(&[(1, "gone")]);
    let it = pick(&server, "10.0.0.1").await;
    let lost = server.on(Match::patch("ippools")).once();
    lost.apply_then_disconnect();
    free(&server, &it).await.unwrap();
    assert!(rows(&server, POOL).is_empty() && reservations(&server).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_reservation_that_may_not_go_is_told_beside_its_row() {
    for code in [500, 403] {
        let (server, _beat) = room(&[(1, "gone")]);
        let it = pick(&server, "10.0.0.1").await;
        server.on(Match::delete(ORIP)).fail(code);
        assert_kept(&free(&server, &it).await, &format!("({code})"));
        assert!(rows(&server, POOL).is_empty() && reservations(&server).len() == 1);
    }
}

#[tokio::test(start_paused = true)]
async fn without_rights_nothing_is_begun() {
    let (server, _beat) = room(&[(1, "gone")]);
    server.deny(Match::delete(ORIP));
    let writer = writer(&server, policy());
    writer.check_rights(true).await.unwrap();
    let missing = "delete overlappingrangeipreservations.whereabouts.cni.cncf.io in all namespaces";
    assert_eq!(
        writer.check_rights(false).await.unwrap_err(),
        format!("rights are missing: {missing}")
    );
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_writes_nothing() {
    let (server, _beat) = room(&[(1, "gone")]);
    reserve(&server, "10.0.0.9", "alone");
    for address in ["10.0.0.1", "10.0.0.9"] {
        let it = pick(&server, address).await;
        let would = writer(&server, policy()).free(&it, true).await.unwrap();
        assert!(would.is_some());
    }
    assert_eq!(writes(&server), 0);
    assert_eq!(left(&server), (1, 2));
}

/// A collector ends the claim, as after a crash.
#[tokio::test(start_paused = true)]
async fn an_end_in_between_leaves_the_reservation_claimed() {
    let (server, _beat) = room(&[(1, "gone")]);
    let it = pick(&server, "10.0.0.1").await;
    let writer = writer(&server, policy());
    let (_, reservation) = writer.free(&it, false).await.unwrap().unwrap();
    let stopping = async {
        sleep(ADD_BUDGET / 2).await;
        writer.stop().cancel();
    };
    let released = writer.release(&it.pool, reservation);
    let (answer, ()) = tokio::join!(timeout(ADD_BUDGET * 3 / 4, released), stopping);
    assert_kept(&answer.unwrap(), "interrupted");
    let left = server.get(ORIP, NS, "10.0.0.1");
    assert_eq!(left.unwrap()["spec"]["podref"], "ipgc.dev/releasing");
}

#[tokio::test(start_paused = true)]
async fn one_of_several_networks_has_to_be_named() {
    let (server, _beat) = room(&[(1, "gone")]);
    let other = fixtures::pool(NS, RANGE).network_name("blue");
    let other = other.row(1, &fixtures::sandbox(7), "default/elsewhere", "net1");
    server.put(other);
    assert_eq!(
        forced(&server, "10.0.0.1").await.unwrap_err(),
        "several networks hold 10.0.0.1: name one pool by --pool"
    );
    let it = find(&look(&server).await, "10.0.0.1", Some("blue-10.0.0.0-24")).unwrap();
    assert_eq!(it.podref.unwrap().as_str(), "default/elsewhere");
}

/// That its pod needs a row no more nobody can say, as long as the pod is there.
#[tokio::test(start_paused = true)]
async fn a_row_that_its_pod_does_not_use_goes_at_once() {
    // Left of an earlier sandbox; and with the id of the present one, of which nothing else is known.
    let (server, _beat) = room(&[(1, "web-0"), (2, "web-0"), (3, "web-0")]);
    server.edit("ippools", NS, POOL, |pool| {
        pool["spec"]["allocations"]["3"]["id"] = fixtures::sandbox(2).into();
    });
    server.put(reporting("web-0", 2).running());
    let why = forced(&server, "10.0.0.2").await.unwrap_err();
    assert!(why.ends_with("its pod reports the address"), "{why}");
    for address in ["10.0.0.1", "10.0.0.3"] {
        let it = pick(&server, address).await;
        assert!(begin(&server, &it).await.unwrap().is_some());
    }
    assert_eq!(rows(&server, POOL), ["2"]);
}

/// whereabouts gave the address away a second time.
#[tokio::test(start_paused = true)]
async fn a_row_that_its_pod_does_not_use_stays_where_another_pod_reports_the_address() {
    let (server, _beat) = room(&[(2, "web-0"), (3, "web-0")]);
    server.edit("ippools", NS, POOL, |pool| {
        pool["spec"]["allocations"]["3"]["id"] = fixtures::sandbox(2).into();
    });
    server.put(reporting("web-0", 2).running());
    let it = pick(&server, "10.0.0.3").await;
    server.put(reporting("other", 3).running());
    let says = "pod default/other reports the address";
    let why = forced(&server, "10.0.0.3").await.unwrap_err();
    assert!(why.ends_with(says), "{why}");
    assert_kept(&free(&server, &it).await, says);
    assert_eq!((rows(&server, POOL).len(), writes(&server)), (2, 0));
}

#[tokio::test]
async fn owners_that_are_never_touched_keep_what_cannot_be_read() {
    let (server, _) = with_unreadable(json!({"id": "x", "podref": "vm/a/b"})).await;
    let policy = Policy {
        keep_podrefs: vec![ipgc::core::podref::Glob::new("vm/*")],
        ..Policy::default()
    };
    let why = at(
        &look(&server).await,
        &policy,
        "10.0.0.5".parse().unwrap(),
        None,
    )
    .unwrap_err();
    assert!(why.ends_with("--keep-podref matches its owner"), "{why}");
}

#[tokio::test]
async fn an_answer_that_was_lost_is_asked_for_again() {
    let (server, found) = with_unreadable(json!({"id": "", "podref": ""})).await;
    server.on(Match::patch("ippools")).apply_then_disconnect();
    free(&server, &found).await.unwrap();
    assert!(rows(&server, POOL).is_empty());
}

/// Multus attaches a network by its own configuration, and reports nothing of it.
#[tokio::test(start_paused = true)]
async fn what_a_pod_may_use_without_a_report_stays() {
    let (server, _beat) = room(&[(1, "web-0"), (2, "web-0")]);
    server.edit("ippools", NS, POOL, |pool| {
        pool["spec"]["allocations"]["1"]["id"] = fixtures::sandbox(2).into();
    });
    reserve(&server, "10.0.0.9", "web-0");
    let pod = fixtures::pod(NS, "web-0").node("node-1");
    server.put(pod.reports("default/net", "net1", &["10.0.0.2"]).running());
    let picked = [
        pick(&server, "10.0.0.1").await,
        pick(&server, "10.0.0.9").await,
    ];
    let ipam = json!({ "type": "whereabouts", "range": RANGE });
    let config = json!({ "type": "macvlan", "ipam": ipam }).to_string();
    server.put(fixtures::nad_with_config("kube-system", "all", &config));
    let says = "its pod is there and does not report the address";
    for (address, it) in ["10.0.0.1", "10.0.0.9"].into_iter().zip(&picked) {
        let why = forced(&server, address).await.unwrap_err();
        assert!(why.ends_with(says), "{why}");
        assert_kept(&free(&server, it).await, says);
    }
    assert_eq!(writes(&server), 0);
}

/// DRANET writes the second of these names for ResourceClaims.
#[rstest]
#[case::of_a_pod("alone")]
#[case::of_a_resource_claim("pod-whereabouts")]
#[tokio::test(start_paused = true)]
async fn a_reservation_alone_goes(#[case] owner: &str) {
    let (server, _beat) = room(&[(2, "other")]);
    silent_node(&server, "node-2");
    reserve(&server, "10.0.0.9", owner);
    let it = pick(&server, "10.0.0.9").await;
    assert!(matches!(it.subject, Subject::Reservation(_)));
    assert_eq!(free(&server, &it).await.unwrap(), 1);
    assert_eq!(reservations(&server), ["10.0.0.2"]);
    assert_eq!(rows(&server, POOL), ["2"]);
}

#[tokio::test(start_paused = true)]
async fn a_reservation_alone_goes_whatever_another_network_holds() {
    let (server, _beat) = room(&[(2, "other")]);
    let blue = fixtures::pool(NS, RANGE).network_name("blue");
    server.put(blue.row(9, &fixtures::sandbox(7), "default/young", "net1"));
    server.put(fixtures::pod(NS, "young").node("node-1"));
    reserve(&server, "10.0.0.9", "alone");
    let why = forced(&server, "10.0.0.9").await.unwrap_err();
    let two = "several networks hold 10.0.0.9: name one pool by --pool";
    assert_eq!(why, two);
    server.delete("pods", NS, "young");
    assert_eq!(forced(&server, "10.0.0.9").await.unwrap_err(), two);
    let found = find(&look(&server).await, "10.0.0.9", Some(POOL)).unwrap();
    assert_eq!(free(&server, &found).await.unwrap(), 1);
}

/// If its row was freed, that is gone by then, and the reservation of the next pod is not: the person hears of it.
#[rstest]
#[case::alone(false)]
#[case::of_a_row_that_was_freed(true)]
#[tokio::test(start_paused = true)]
async fn a_reservation_whose_pod_comes_back_in_time_is_given_back(#[case] has_row: bool) {
    let (server, _beat) = room(if has_row { &[(9, "web-0")] } else { &[] });
    reserve(&server, "10.0.0.9", "web-0");
    let it = pick(&server, "10.0.0.9").await;
    let claim = server.on(Match::patch(ORIP)).once();
    claim.before(|server| async move {
        server.put(reporting("web-0", 9).running());
    });
    assert_kept(&free(&server, &it).await, "its pod or a row may need it");
    assert_eq!(common::podref(&server, "10.0.0.9"), "default/web-0");
    assert!(rows(&server, POOL).is_empty());
}

/// The row of the reservation may be in the pool that cannot be read.
#[tokio::test(start_paused = true)]
async fn a_reservation_alone_stays_while_a_pool_cannot_be_read() {
    let (server, _beat) = room(&[]);
    reserve(&server, "10.0.0.9", "alone");
    let it = pick(&server, "10.0.0.9").await;
    let writer = writer(&server, policy());
    let (_, reservation) = writer.free(&it, false).await.unwrap().unwrap();
    let mut spoiled = fixtures::pool(NS, "10.1.0.0/24").build();
    spoiled["spec"]["range"] = "?".into();
    server.put(spoiled);
    let why = forced(&server, "10.0.0.9").await.unwrap_err();
    assert!(
        why.contains("a pool of its namespace cannot be read"),
        "{why}"
    );
    assert_kept(
        &free(&server, &it).await,
        "a pool of its namespace cannot be read",
    );
    assert_eq!(writes(&server), 0);
    // And if that is found only after the claim, the reservation is given back.
    server.edit("ippools", NS, "10.1.0.0-24", |pool| {
        pool["spec"] = json!("?");
    });
    let released = writer.release(&it.pool, reservation).await;
    assert_kept(&released, "its pod or a row may need it");
    let kept = server.get(ORIP, NS, "10.0.0.9");
    assert_eq!(kept.unwrap()["spec"]["podref"], "default/alone");
}

/// Their DELs may never end, so the node holds them while it is at work.
#[tokio::test(start_paused = true)]
async fn what_a_node_at_work_holds_goes_one_by_one() {
    let (server, _beat) = room(&[(1, "gone")]);
    for number in 1..=3 {
        let pool = fixtures::pool(NS, &format!("10.0.{number}.0/24"));
        let pool = pool.row(
            1,
            &fixtures::sandbox(number),
            "default/three",
            &format!("net{number}"),
        );
        server.put(pool);
    }
    let it = pick(&server, "10.0.2.1").await;
    free(&server, &it).await.unwrap();
    let left = |pool| server.get("ippools", NS, pool).unwrap()["spec"]["allocations"].clone();
    let count = |pool| left(pool).as_object().map(serde_json::Map::len);
    assert_eq!(
        ["10.0.1.0-24", "10.0.2.0-24", "10.0.3.0-24"].map(count),
        [Some(1), Some(0), Some(1)]
    );
    assert_eq!(rows(&server, POOL), ["1"]);
}

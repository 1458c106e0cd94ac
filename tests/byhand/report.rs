//! `ipgc release --from`: exactly what a report says is stale, each judged again.

use ipgc_core::clearance::Wait;
use rstest::rstest;

use super::*;

pub const HOUR: Duration = Duration::from_hours(1);

pub fn all_of(report: &Report) -> Picked {
    picks(report, false, Timestamp::now()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_stale_rows_of_a_report_go_and_nothing_else() {
    let (server, _beat) = room(&[(1, "gone"), (2, "web"), (4, "old")]);
    server.put(reporting("web", 2).running());
    let report = reported(&server, HOUR).await;
    // Stale as well, and nobody picked it: neither its row nor its reservation.
    server.edit("ippools", NS, POOL, |pool| {
        let row = fixtures::row(&fixtures::sandbox(3), "default/later", "net1");
        pool["spec"]["allocations"]["3"] = row;
    });
    reserve(&server, "10.0.0.3", "later");
    reserve(&server, "10.0.0.9", "alone");
    let released = run(&server, all_of(&report), config()).await;
    released.result.as_ref().unwrap();
    let fates = released.fates();
    assert_eq!(fates.len(), 2, "{fates:?}");
    assert!(fates.iter().all(|(_, fate)| is_freed(fate)), "{fates:?}");
    assert_eq!(rows(&server), ["2", "3"]);
    assert_eq!(reservations(&server), ["10.0.0.2", "10.0.0.3", "10.0.0.9"]);
    let patches = server.requests().matching(&Match::patch("ippools"));
    assert_eq!(patches.len(), 1, "both at once");
}

#[tokio::test(start_paused = true)]
async fn what_waits_is_told_before_it_goes() {
    let (server, _beat) = room(&[(1, "gone")]);
    let report = reported(&server, HOUR).await;
    let released = run(&server, all_of(&report), config()).await;
    let told: Vec<_> = released.told.iter().map(|(_, fate)| fate).collect();
    assert!(
        matches!(told[..], [Fate::Waits(_), Fate::Done(_)]),
        "{told:?}"
    );
    // The kubelet has to be at work for so long, whenever the report was made.
    assert!(
        released.took >= Duration::from_secs(W),
        "{:?}",
        released.took
    );
    assert!(
        released.took < Duration::from_secs(W + 90),
        "{:?}",
        released.took
    );
}

#[rstest]
#[case::of_now(Duration::ZERO, W)]
#[case::of_a_minute_ago(Duration::from_mins(1), W - 60)]
// A name that may return waits for a word of the pod watch, which is a bookmark here.
#[case::of_an_hour_ago(HOUR, 60)]
#[tokio::test(start_paused = true)]
async fn its_time_counts_as_the_first_sight_of_a_row(#[case] ago: Duration, #[case] waits: u64) {
    // Without nodes there is nothing else to wait for.
    let server = common::server();
    common::put_pool(&server, &[(1, "gone")]);
    let mut report = reported(&server, ago).await;
    // Where no node is known, an audit cannot tell.
    report.findings[0].problem = ipgc::audit::report::Problem::Stale;
    let released = run(&server, all_of(&report), config()).await;
    assert!(is_freed(&released.only()), "{:?}", released.told);
    let took = released.took.as_secs();
    assert!(
        (waits.saturating_sub(2)..waits + 20).contains(&took),
        "{took} s"
    );
}

#[tokio::test(start_paused = true)]
async fn a_report_of_the_future_is_of_now() {
    let server = common::server();
    common::put_pool(&server, &[(1, "gone")]);
    let mut report = reported(&server, Duration::ZERO).await;
    report.findings[0].problem = ipgc::audit::report::Problem::Stale;
    report.made = (Timestamp::now() + SignedDuration::from_hours(5)).to_string();
    let released = run(&server, all_of(&report), config()).await;
    assert!(is_freed(&released.only()));
    assert!(released.took.as_secs() >= W - 1, "{:?}", released.took);
}

#[rstest]
#[case::before(0)]
#[case::while_it_waits(W - 20)]
#[tokio::test(start_paused = true)]
async fn a_row_that_was_adopted_since_is_another_one(#[case] after: u64) {
    let (server, _beat) = room(&[(1, "web-0")]);
    let report = reported(&server, HOUR).await;
    let meanwhile = async {
        seconds(after).await;
        common::nodes::adopt(&server, POOL, "1");
    };
    let (released, ()) = tokio::join!(run(&server, all_of(&report), config()), meanwhile);
    assert_eq!(released.only(), Fate::Gone);
    assert_eq!(rows(&server), ["1"]);
    assert_eq!(writes(&server), 0, "{}", server.requests());
}

#[rstest]
#[case::before(0)]
#[case::while_it_waits(100)]
#[tokio::test(start_paused = true)]
async fn a_pod_that_comes_back_keeps_its_row(#[case] after: u64) {
    let (server, _beat) = room(&[(1, "web-0")]);
    let report = reported(&server, HOUR).await;
    let meanwhile = async {
        seconds(after).await;
        server.put(reporting("web-0", 1).running());
    };
    let (released, ()) = tokio::join!(run(&server, all_of(&report), config()), meanwhile);
    assert_eq!(why_kept(&released.only()), "its pod reports the address");
    assert_eq!((rows(&server).len(), writes(&server)), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn an_error_is_no_absence() {
    let (server, _beat) = room(&[(1, "gone")]);
    let report = reported(&server, HOUR).await;
    server.on(Match::get("pods").client("ipgc")).fail(500);
    server
        .on(Match::list("pods").client("ipgc").namespace(NS))
        .fail(500);
    let released = run(&server, all_of(&report), config()).await;
    assert!(
        released
            .told
            .iter()
            .any(|(_, fate)| matches!(fate, Fate::Retried(_))),
        "{:?}",
        released.told
    );
    assert!(why_kept(&released.only()).contains("could not be read"));
    assert_eq!((rows(&server).len(), writes(&server)), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_holds_until_the_end() {
    let (server, _beat) = room(&[(1, "gone")]);
    let report = reported(&server, HOUR).await;
    silent_node(&server, "node-2");
    let released = run(&server, all_of(&report), config()).await;
    let Fate::Waits(Wait::For(nodes) | Wait::AtMost(nodes, _)) = released.only() else {
        panic!("{:?}", released.told);
    };
    assert!(nodes.contains(&"node-2".into()), "{nodes:?}");
    // And a moment for events.
    let took = released.took.as_secs();
    assert!((1_200..=1_201).contains(&took), "{took}");
    assert_eq!((rows(&server).len(), writes(&server)), (1, 0));
}

/// The report knows of one interface, and there are three: their DELs may never end.
#[tokio::test(start_paused = true)]
async fn rows_of_a_pod_that_were_not_picked_count_too() {
    for others in [1, 2] {
        let (server, _beat) = room(&[(1, "gone")]);
        let report = reported(&server, HOUR).await;
        for other in 1..=others {
            let pool = fixtures::pool(NS, &format!("10.0.{other}.0/24"));
            let interface = format!("net{}", other + 1);
            let row = pool.row(1, &fixtures::sandbox(1), "default/gone", &interface);
            server.put(row);
        }
        let released = run(&server, all_of(&report), config()).await;
        let goes = others == 1;
        assert_eq!(is_freed(&released.only()), goes, "{:?}", released.told);
        assert_eq!(rows(&server).is_empty(), goes);
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_assumed_dead_holds_nothing() {
    let (server, _beat) = room(&[(1, "gone")]);
    silent_node(&server, "node-2");
    let report = reported(&server, HOUR).await;
    assert!(all_of(&report).picks().is_empty(), "it is held");
    let picked = picks(&report, true, Timestamp::now()).unwrap();
    let config = Config {
        said_dead: ["node-2".into()].into(),
        ..config()
    };
    let released = run(&server, picked, config).await;
    assert!(is_freed(&released.only()), "{:?}", released.told);
    assert!(rows(&server).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_assumed_dead_and_comes_back_is_alive() {
    let (server, _beat) = room(&[(1, "gone")]);
    silent_node(&server, "node-2");
    let report = reported(&server, HOUR).await;
    // Ready, and its kubelet says nothing yet.
    common::nodes::come_back(&server, "node-2");
    let picked = picks(&report, true, Timestamp::now()).unwrap();
    let config = Config {
        said_dead: ["node-2".into()].into(),
        ..config()
    };
    let released = run(&server, picked, config).await;
    assert!(
        matches!(released.only(), Fate::Waits(_)),
        "{:?}",
        released.told
    );
    assert_eq!(writes(&server), 0);
}

#[rstest]
#[case::of_now(Duration::ZERO, false)]
#[case::of_an_hour_ago(HOUR, true)]
#[tokio::test(start_paused = true)]
async fn the_breaker_stops_a_mass(#[case] ago: Duration, #[case] goes: bool) {
    let lost: Vec<_> = (1..=9).map(|n| (n, format!("lost-{n}"))).collect();
    let lost: Vec<_> = lost
        .iter()
        .map(|(n, podref)| (*n, podref.as_str()))
        .collect();
    let (server, _beat) = room(&lost);
    let report = reported(&server, ago).await;
    let limits = Limits {
        min: 5,
        ..Limits::default()
    };
    let config = Config {
        breaker: limits,
        ..config()
    };
    let released = run(&server, all_of(&report), config).await;
    let fates = released.fates();
    if goes {
        assert!(fates.iter().all(|(_, fate)| is_freed(fate)), "{fates:?}");
    } else {
        let is_stopped = |fate: &Fate| matches!(fate, Fate::Stopped(_));
        assert!(fates.iter().all(|(_, fate)| is_stopped(fate)), "{fates:?}");
        assert_eq!((rows(&server).len(), writes(&server)), (9, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_row_that_its_pod_has_left_behind_goes() {
    let (server, _beat) = room(&[(1, "web-0"), (2, "web-0")]);
    server.put(reporting("web-0", 2).running());
    let report = reported(&server, HOUR).await;
    assert_eq!(
        report.findings[0].problem,
        ipgc::audit::report::Problem::Leftover
    );
    let released = run(&server, all_of(&report), config()).await;
    assert!(is_freed(&released.only()), "{:?}", released.told);
    assert_eq!(
        (rows(&server), reservations(&server)),
        (vec!["2".to_owned()], vec!["10.0.0.2".to_owned()])
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_not_looked_at_is_not_gone() {
    let (server, _beat) = room(&[(1, "gone")]);
    let report = reported(&server, HOUR).await;
    let config = Config {
        pool_namespace: Some("elsewhere".to_owned()),
        ..config()
    };
    let released = run(&server, all_of(&report), config).await;
    assert_eq!(
        why_kept(&released.only()),
        "only pools in namespace elsewhere are looked at"
    );
    // Nothing has to be read for that.
    released.result.unwrap();
    assert_eq!(released.took, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_turns_out_to_be_alive_holds_again() {
    let (server, _beat) = room(&[(1, "gone")]);
    silent_node(&server, "node-2");
    let report = reported(&server, HOUR).await;
    let picked = picks(&report, true, Timestamp::now()).unwrap();
    let config = Config {
        said_dead: ["node-2".into()].into(),
        ..config()
    };
    let meanwhile = async {
        seconds(W - 30).await;
        let beat = common::nodes::come_back(&server, "node-2");
        seconds(120).await;
        assert_eq!(rows(&server), ["1"], "it may run there");
        beat
    };
    let (released, _beat) = tokio::join!(run(&server, picked, config), meanwhile);
    assert!(is_freed(&released.only()), "{:?}", released.told);
    assert!(released.took.as_secs() >= 2 * W - 30, "{:?}", released.took);
}

#[tokio::test]
async fn no_report_is_older_than_a_day() {
    let (server, _beat) = room(&[(1, "gone")]);
    let mut report = reported(&server, HOUR).await;
    "0001-01-01T00:00:00Z".clone_into(&mut report.made);
    assert_eq!(all_of(&report).seen_before(), Duration::from_hours(24));
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_writes_nothing() {
    let (server, _beat) = room(&[(1, "gone")]);
    reserve(&server, "10.0.0.9", "alone");
    let report = reported(&server, HOUR).await;
    let config = Config {
        dry_run: true,
        ..config()
    };
    let released = run(&server, all_of(&report), config).await;
    let fates = released.fates();
    let would = |fate: &Fate| matches!(fate, Fate::WouldGo(stale) if stale.cause == Cause::Deleted);
    assert!(fates.iter().all(|(_, fate)| would(fate)), "{fates:?}");
    assert_eq!(writes(&server), 0);
    assert_eq!((rows(&server).len(), reservations(&server).len()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn ends_of_other_pods_are_nobody_s_business() {
    let (server, _beat) = room(&[(1, "gone"), (2, "web")]);
    server.put(reporting("web", 2).running());
    let report = reported(&server, HOUR).await;
    let meanwhile = async {
        seconds(20).await;
        let kubelet = testkit::pods::Kubelet::new(&server);
        kubelet.mark_pod(NS, "web");
        kubelet.complete_pod(NS, "web", "Succeeded");
        kubelet.remove_pod(NS, "web");
    };
    let (released, ()) = tokio::join!(run(&server, all_of(&report), config()), meanwhile);
    assert!(is_freed(&released.only()));
    assert_eq!(rows(&server), ["2"]);
}

#[tokio::test(start_paused = true)]
async fn a_row_that_the_server_refuses_to_free_is_told() {
    let (server, _beat) = room(&[(1, "gone")]);
    let report = reported(&server, HOUR).await;
    server.on(Match::patch("ippools")).fail(422);
    let released = run(&server, all_of(&report), config()).await;
    assert!(why_kept(&released.only()).starts_with("the server refuses"));
    assert_eq!(rows(&server), ["1"]);
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_is_gone_took_its_rows_along() {
    let (server, _beat) = room(&[(1, "gone")]);
    let report = reported(&server, HOUR).await;
    server.delete("ippools", NS, POOL).unwrap();
    let released = run(&server, all_of(&report), config()).await;
    assert_eq!(released.only(), Fate::Gone);
    // Another one of that name.
    common::put_pool(&server, &[(1, "gone")]);
    let released = run(&server, all_of(&report), config()).await;
    assert_eq!(released.only(), Fate::Gone);
    assert_eq!((rows(&server).len(), writes(&server)), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_no_failure() {
    let (server, _beat) = room(&[(1, "gone")]);
    let report = reported(&server, HOUR).await;
    let lost = server.on(Match::patch("ippools")).once();
    lost.apply_then_disconnect();
    let released = run(&server, all_of(&report), config()).await;
    assert!(is_freed(&released.only()), "{:?}", released.told);
    assert!(reservations(&server).is_empty());
}

#[tokio::test(start_paused = true)]
async fn without_rights_nothing_is_begun() {
    let (server, _beat) = room(&[(1, "gone")]);
    let report = reported(&server, HOUR).await;
    server.deny(Match::patch("ippools"));
    let released = run(&server, all_of(&report), config()).await;
    assert_eq!(
        released.result.unwrap_err(),
        "rights are missing: patch ippools.whereabouts.cni.cncf.io in all namespaces"
    );
    assert_eq!(writes(&server), 0);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_cannot_be_read_is_said() {
    let (server, _beat) = room(&[(1, "gone")]);
    let report = reported(&server, HOUR).await;
    server.on(Match::list("pods").client("ipgc")).fail(500);
    let released = run(&server, all_of(&report), config()).await;
    assert!(
        released
            .result
            .unwrap_err()
            .contains("could not all be read")
    );
    assert_eq!(writes(&server), 0);
}

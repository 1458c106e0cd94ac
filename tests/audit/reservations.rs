//! One test for each finding about reservations.

use super::*;
use rstest::rstest;
use testkit::Match;

#[rstest]
#[case::none(None, "it has no reservation")]
#[case::of_another(Some("default/other"), "its reservation is of default/other")]
#[tokio::test]
async fn a_live_row_wants_a_reservation(#[case] of: Option<&str>, #[case] says: &str) {
    let server = live_one();
    server.put(pod("other", 3).reports("default/net", "net2", &["10.0.0.4"]));
    let pool = server.edit("ippools", NS, POOL, |pool| {
        for key in ["3", "4"] {
            pool["spec"]["allocations"][key] =
                fixtures::row(&fixtures::sandbox(3), "default/other", "net1");
        }
    });
    assert!(pool);
    for name in ["10.0.0.3", "10.0.0.4"] {
        reserve(&server, name, "default/other");
    }
    assert_eq!(report(&server).await.findings, []);
    unreserve(&server, "10.0.0.1");
    if let Some(of) = of {
        reserve(&server, "10.0.0.1", of);
    }
    let finding = found(&server).await;
    assert_eq!(finding.problem, Problem::ReservationMissing);
    assert_eq!(finding.pods, ["default/web-1"]);
    assert_says(&finding.detail, says);
    assert_eq!(finding.reservation.is_some(), of.is_some());
    // Nobody's is replaced.
    assert_eq!(finding.command.is_some(), of.is_none());
}

/// As an ipgc leaves it that is stopped between its mark and the deletion, while an ADD of the pod is at work.
#[tokio::test]
async fn a_live_row_whose_reservation_is_marked_is_told() {
    let server = live_one();
    let mark = |claimed_from: &str| {
        server.edit(ORIP, NS, "10.0.0.1", |it| {
            it["spec"]["podref"] = "ipgc.dev/releasing".into();
            it["metadata"]["annotations"] = json!({ "ipgc.dev/claimed-from": claimed_from });
        });
    };
    mark("default/web-1");
    let marked = report(&server).await;
    let finding = only(&marked);
    assert_eq!(finding.problem, Problem::ReservationMissing);
    assert_begins(&finding.detail, "its reservation is marked by ipgc");
    assert_eq!(finding.command, None);
    mark("default/other");
    let says = "its pod lives, and its reservation is of default/other";
    assert_eq!(only(&report(&server).await).detail, says);
}

/// As an old CRD keeps it, which drops the podref.
async fn with_spec(spec: serde_json::Value) -> Report {
    let server = live_one();
    server.edit("overlappingrangeipreservations", NS, "10.0.0.1", |it| {
        it["spec"] = spec;
    });
    report(&server).await
}

#[tokio::test]
async fn a_reservation_that_names_no_pod_is_that_of_the_row_with_its_sandbox() {
    let server = server();
    put_pool(&server, &[LIVE]);
    let pool = server.get("ippools", NS, POOL).unwrap();
    let id = &pool["spec"]["allocations"]["1"]["id"];
    let report = with_spec(json!({ "containerid": id })).await;
    assert_eq!(report.findings, []);
    for spec in [json!({ "containerid": fixtures::sandbox(7) }), json!({})] {
        let report = with_spec(spec).await;
        let finding = only(&report);
        assert_eq!(finding.problem, Problem::ReservationMissing);
        let says = "its pod lives, and its reservation names no pod and another sandbox";
        assert_begins(&finding.detail, says);
        assert_eq!(finding.command, None);
    }
}

#[rstest]
#[case::no_pod(
    json!({ "containerid": fixtures::sandbox(7) }),
    "a reservation without a row; it names no pod: its podref is missing, or not exactly namespace/name; once nobody answers on it, free it by hand",
    Some("ipgc release --force 10.0.0.8")
)]
#[case::neither(
    json!({}),
    "a reservation without a row; it names no pod: its podref is missing, or not exactly namespace/name; once nobody answers on it, free it by hand",
    Some("ipgc release --force 10.0.0.8")
)]
#[case::a_field_that_is_not_known(
    json!({ "podref": "default/gone", "ipamclaim": "c" }),
    "a reservation without a row; it has an unknown field \"ipamclaim\"",
    None
)]
#[tokio::test]
async fn a_reservation_alone_of_nobody_knows_whom_cannot_be_read(
    #[case] spec: serde_json::Value,
    #[case] says: &str,
    #[case] command: Option<&str>,
) {
    let server = live_one();
    let mut lone = fixtures::reservation(NS, "10.0.0.8", "", "");
    lone["spec"] = spec;
    server.put(lone);
    let finding = found(&server).await;
    assert_eq!(finding.problem, Problem::Unreadable);
    assert_eq!(finding.detail, says);
    assert_eq!(finding.command.as_deref(), command);
    assert_eq!(finding.address.as_deref(), Some("10.0.0.8"));
}

/// Whereabouts with pull request #742: the address of a virtual machine outlives its pods.
#[rstest]
#[case::there(true, true)]
#[case::gone(false, true)]
#[case::not_known(false, false)]
#[tokio::test]
async fn of_an_ipam_claim_only_its_end_is_a_finding(
    #[case] is_there: bool,
    #[case] is_known: bool,
) {
    let server = live_one();
    let long = &*format!("default/{}", "vm-net.".repeat(20) + "x");
    server.edit("ippools", NS, POOL, |pool| {
        pool["spec"]["allocations"]["9"] =
            fixtures::row(&fixtures::sandbox(9), "default/vm", "net1");
        pool["spec"]["allocations"]["9"]["ipamclaimref"] = long.into();
    });
    let mut tagged = fixtures::reservation(NS, "10.0.0.9", "default/vm", "net1");
    tagged["spec"]["ipamclaimref"] = long.into();
    let mut alone = tagged.clone();
    alone["metadata"]["name"] = "10.0.0.8".into();
    server.put_all([tagged, alone]);
    let name = if is_there {
        &long["default/".len()..]
    } else {
        "other"
    };
    server.put(json!({
        "apiVersion": "k8s.cni.cncf.io/v1alpha1",
        "kind": "IPAMClaim",
        "metadata": { "namespace": NS, "name": name },
    }));
    if !is_known {
        server.on(Match::resource("ipamclaims")).deny();
    }
    let report = live(&server).await.unwrap();
    let (client, scan) = (server.client_named("ipgc"), Scan::default());
    let snapshot = read(&client, &scan).await.unwrap();
    let told = explained(&snapshot, "10.0.0.9").unwrap().rows.remove(0);
    match with(Problem::IpamClaimGone, &report).last() {
        Some(finding) => assert_eq!(told.reason, finding.detail),
        None => assert_ends(&told.reason, "whereabouts frees it when that is gone"),
    }
    let of_files = dump(&server).judged();
    for (report, is_live) in [(&report, true), (&of_files, false)] {
        assert_eq!(report.totals.split.unknown, 1);
        let expected = ["ipam-claim-gone 10.0.0.8", "ipam-claim-gone 10.0.0.9"];
        let is_found = is_live && is_known && !is_there;
        assert_eq!(problems(report), &expected[..if is_found { 2 } else { 0 }]);
        let notes = report.notes.join("; ");
        assert_eq!(
            notes.contains("IPAMClaims"),
            is_live && !is_known,
            "{notes}"
        );
    }
}

/// While a virtual machine migrates, two pods have its address. The row may name a third one that is gone.
#[tokio::test]
async fn all_pods_of_an_ipam_claim_may_have_its_address() {
    let server = live_one();
    for tag in [None, Some("ipamclaimref")] {
        server.edit("ippools", NS, POOL, |pool| {
            let row = fixtures::row(&fixtures::sandbox(9), "default/vm-0", "net1");
            pool["spec"]["allocations"]["9"] = row;
            if let Some(tag) = tag {
                pool["spec"]["allocations"]["9"][tag] = "default/vm-net".into();
            }
        });
        server.put_all([pod("vm-1", 9), pod("vm-2", 9)]);
        let report = live(&server).await.unwrap();
        let problems = kinds_of(&report);
        let is_wrong = problems.contains(&Problem::InUseTwice)
            && problems.contains(&Problem::InUseUnallocated);
        assert_eq!(is_wrong, tag.is_none(), "{problems:?}");
    }
}

#[tokio::test]
async fn where_nothing_is_reserved_no_reservation_is_missing() {
    let server = server();
    let keys = json!({ "range": RANGE, "enable_overlapping_ranges": false });
    define(&server, "net", &keys);
    server.put(fixtures::pool(NS, RANGE).row_of(1, "default/web-1"));
    server.put(pod("web-1", 1));
    assert_eq!(report(&server).await.findings, []);
}

#[tokio::test]
async fn a_reservation_without_a_row_is_orphaned() {
    let server = live_one();
    reserve(&server, "10.0.0.8", "default/gone");
    // Of a pod that lives and has it, and of one whose status is not there yet: both are needed.
    reserve(&server, "10.0.0.9", "default/young");
    server.put(asking("young").node("n1"));
    let finding = found(&server).await;
    assert_eq!(finding.problem, Problem::ReservationOrphaned);
    assert_eq!(finding.address.as_deref(), Some("10.0.0.8"));
    assert_eq!(finding.reservation.as_ref().unwrap().podref, "default/gone");
    assert_eq!(finding.pool.as_deref(), Some(POOL));
    // Ten seconds more than a row.
    let seconds = finding.wait_seconds.unwrap();
    assert_eq!(seconds, 220);
}

/// Two ADDs raced for one address of two ranges that overlap, and the other pod went: whereabouts tries for ever.
/// The row is in a pool that was a node's slice once, and is read as of a network of that node's name now.
#[tokio::test]
async fn a_reservation_whose_row_is_in_a_former_slice_is_not_alone() {
    let server = live_one();
    let former = fixtures::pool(NS, RANGE).network_name("node-1");
    server.put(former.row_of(9, "default/web-1"));
    reserve(&server, "10.0.0.9", "default/web-1");
    let report = report(&server).await;
    let orphaned = Problem::ReservationOrphaned;
    assert!(!kinds_of(&report).contains(&orphaned), "{report:?}");
    reserve(&server, "10.0.0.8", "default/web-1");
    let report = super::report(&server).await;
    assert!(kinds_of(&report).contains(&orphaned));
}

/// The definition named no network when web-9 began.
#[tokio::test]
async fn a_reservation_whose_pod_reports_its_address_without_a_row_is_not_orphaned() {
    let server = live_one();
    let blue = json!({ "range": RANGE, "network_name": "blue" });
    define(&server, "net", &blue);
    server.put(fixtures::pool(NS, RANGE).network_name("blue"));
    server.put(pod("web-9", 9));
    reserve(&server, "10.0.0.9", "default/web-9");
    let problems = kinds_of(&report(&server).await);
    assert!(
        !problems.contains(&Problem::ReservationOrphaned),
        "{problems:?}"
    );
}

#[tokio::test]
async fn a_pod_that_cannot_start_for_anothers_reservation_is_a_finding() {
    for (owner, is_found) in [("default/gone", true), ("default/web-1", false)] {
        let server = server();
        server.put(fixtures::pool(NS, RANGE).row_of(1, "default/web-1"));
        server.put(asking("web-1").node("n1"));
        reserve(&server, "10.0.0.1", owner);
        let report = report(&server).await;
        let found = with(Problem::ReservationMissing, &report);
        assert_eq!(found.len(), usize::from(is_found), "{report:#?}");
        if let [found] = found[..] {
            assert!(found.detail.contains("cannot start") && found.detail.contains("default/gone"));
            assert_eq!(
                (&found.command, &*found.pods),
                (&None, &["default/web-1".to_owned()][..])
            );
        }
    }
}

/// ipgc touches nothing that a person exempted, so no audit says that it goes.
#[tokio::test]
async fn an_exempted_reservation_without_a_row_is_no_finding() {
    for (annotation, value, is_exempt) in [
        ("ipgc.dev/hold", "", true),
        ("ipgc.dev/keep", "10.0.0.8", true),
        ("ipgc.dev/keep", "8", true),
        ("ipgc.dev/keep", "10.0.0.9", false),
    ] {
        let server = server();
        server.put(fixtures::pool(NS, RANGE).annotation(annotation, value));
        reserve(&server, "10.0.0.8", "default/gone");
        let findings = report(&server).await.findings;
        assert_eq!(
            findings.is_empty(),
            is_exempt,
            "{annotation} {value}: {findings:?}"
        );
    }
}

/// A collector has told it by an event, which is there for an hour.
#[tokio::test]
async fn an_orphaned_reservation_says_that_claims_are_forbidden() {
    let server = server();
    put_pool(&server, &[]);
    reserve(&server, "10.0.0.8", "default/gone");
    let detail = async || {
        let report = live(&server).await.unwrap();
        only(&report).detail.clone()
    };
    assert!(!detail().await.contains("IPReservationClaimsForbidden"));
    let event = |reason: &str| {
        json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": { "namespace": NS, "name": "told.1" },
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingController": "ipgc.dev/ipgc",
            "reportingInstance": "a",
            "action": "GarbageCollect",
            "reason": reason,
            "type": "Warning",
            "regarding": {
                "kind": "OverlappingRangeIPReservation", "namespace": NS, "name": "10.0.0.8",
            },
        })
    };
    server.put(event("Another"));
    assert!(!detail().await.contains("IPReservationClaimsForbidden"));
    server.put(event("IPReservationClaimsForbidden"));
    let said = detail().await;
    assert_says(&said, "IPReservationClaimsForbidden");
    assert_says(&said, "a reservation without a row");
    server.deny(testkit::Match::list("events.events.k8s.io"));
    let notes = live(&server).await.unwrap().notes;
    assert!(
        notes
            .iter()
            .any(|note| note.contains("events cannot be read")),
        "{notes:?}"
    );
}

#[tokio::test]
async fn reservations_are_found_by_any_spelling() {
    let server = bare();
    let keys = json!({ "range": "fd00::/64", "network_name": "blue" });
    define(&server, "six", &keys);
    let pool = fixtures::pool(NS, "fd00::/64").network_name("blue");
    server.put(pool.row_of(5, "default/web-5"));
    server.put(on_net("six", "web-5", "fd00::5").node("n1").running());
    let expanded = "blue-fd00-0000-0000-0000-0000-0000-0000-0005";
    reserve(&server, expanded, "default/web-5");
    assert_eq!(report(&server).await.findings, []);
    reserve(&server, "blue-fd00--6", "default/gone");
    let report = report(&server).await;
    assert_eq!(problems(&report), ["reservation-orphaned fd00::6"]);
}

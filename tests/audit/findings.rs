//! One test for each finding about rows, most of them beside a row that is as it should be.

use super::*;
use rstest::rstest;

#[tokio::test]
async fn a_row_without_a_pod_is_stale_with_its_wait_and_all_that_identifies_it() {
    let server = server();
    put_pool(&server, &[LIVE, (2, "default/gone")]);
    server.put(pod("web-1", 1));
    let report = report(&server).await;
    // The reservation stays with its row, so there is no finding of its own.
    let finding = only(&report);
    assert_eq!(finding.problem, Problem::Stale);
    assert_eq!(finding.grade.as_deref(), Some("unwitnessed"));
    assert_eq!(finding.cause.as_deref(), Some("deleted"));
    // 120 s + 30 s + 60 s for its one row.
    assert_eq!(finding.wait_seconds, Some(210));
    assert_eq!(
        finding.detail,
        "its pod is gone; goes 3m30s after a collector has begun"
    );
    let row = finding.row.as_ref().unwrap();
    let pool = server.get("ippools", NS, POOL).unwrap();
    assert_eq!(
        Value::from(row.stored.clone()),
        pool["spec"]["allocations"]["2"]
    );
    assert_eq!(row.pool_uid, pool["metadata"]["uid"].as_str().unwrap());
    assert_eq!(row.key, "2");
    assert_eq!(finding.pods, ["default/gone"]);
    let split = report.totals.split;
    assert_eq!((split.live, split.stale), (1, 1));
}

#[tokio::test]
async fn a_pod_at_its_end_needs_no_row() {
    let server = server();
    put_pool(&server, &[LIVE]);
    server.put(pod("web-1", 1).ended("Succeeded"));
    let finding = found(&server).await;
    assert_eq!(finding.problem, Problem::Stale);
    assert_eq!(finding.cause.as_deref(), Some("completed"));
    assert_eq!(*finding.nodes, ["n1"].map(Box::<str>::from));
}

#[tokio::test]
async fn a_silent_node_holds_what_nobody_saw_ending() {
    let server = server();
    put_second_node(&server, false);
    put_pool(&server, &[(2, "default/gone")]);
    let report = report(&server).await;
    let finding = only(&report);
    assert_eq!(finding.problem, Problem::HeldUnfenced);
    assert_eq!(*finding.nodes, ["n2"].map(Box::<str>::from));
    assert_eq!(finding.wait_seconds, None);
    let command = finding.command.as_deref().unwrap();
    assert!(command.starts_with("kubectl annotate node n2 --overwrite ipgc.dev/no-sandboxes="));
    let split = report.totals.split;
    assert_eq!((split.unfenced, split.stale), (1, 0));
    // Fenced, it holds nothing any more.
    let fenced = server.edit("nodes", "", "n2", |node| {
        node["spec"]["taints"] = json!([fixtures::out_of_service_taint()]);
    });
    assert!(fenced);
    let report = super::report(&server).await;
    assert_eq!(only(&report).problem, Problem::Stale);
}

#[tokio::test]
async fn a_statement_about_the_future_is_told_and_does_not_count() {
    let server = server();
    put_pool(&server, &[(2, "default/gone")]);
    server.put(fixtures::node("n2", false));
    server.edit("nodes", "", "n2", |node| {
        let ahead = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
        node["metadata"]["annotations"]["ipgc.dev/no-sandboxes"] = ahead.to_string().into();
    });
    let report = live(&server).await.unwrap();
    assert_eq!(report.totals.split.unfenced, 1);
    let note = "ipgc.dev/no-sandboxes is in the future, and does not count: n2";
    assert!(report.notes.contains(&note.to_owned()), "{report:#?}");
}

/// A kubelet at work may never get through three DELs that are lost.
#[tokio::test]
async fn rows_of_three_interfaces_are_held_by_a_node_at_work() {
    let server = server();
    let rows = [2, 3, 4].map(|key| (key, "default/gone"));
    put_pool(&server, &rows[..2]);
    let two = report(&server).await;
    assert_eq!(kinds_of(&two), [Problem::Stale; 2]);
    put_pool(&server, &rows);
    let three = report(&server).await;
    assert_eq!(three.totals.split.unfenced, 3);
    for finding in &three.findings {
        assert_eq!(finding.problem, Problem::HeldUnfenced);
        assert_says(&finding.detail, "may still be at its DELs");
        assert_eq!(*finding.nodes, ["n1"].map(Box::<str>::from));
        // That it runs no sandboxes would not count.
        let command = finding.command.as_deref().unwrap();
        assert_begins(command, "ipgc release --force 10.0.0.");
    }
    // A row of a ResourceClaim is of no interface.
    server.edit("ippools", NS, POOL, |pool| {
        pool["spec"]["allocations"]["4"]["id"] = "0b4d9d3c-8a31-4b2b-9a52-3f0e2d6c1a11".into();
    });
    let two = report(&server).await;
    assert_eq!((two.totals.split.unfenced, two.totals.split.stale), (0, 2));
}

#[tokio::test]
async fn a_silent_node_holds_the_rows_of_its_completed_pods() {
    let server = server();
    server.put(fixtures::node("n2", false));
    put_pool(&server, &[(2, "default/job")]);
    let pod = pod("job", 2)
        .node("n2")
        .owner("Job", "jobs")
        .ended("Succeeded");
    server.put(pod);
    let report = report(&server).await;
    let finding = only(&report);
    assert_eq!(finding.problem, Problem::HeldUnfenced);
    assert_eq!(finding.grade.as_deref(), Some("unfenced"));
    assert_eq!(*finding.nodes, ["n2"].map(Box::<str>::from));
    // Its reservation was created a moment ago.
    let seconds = report.pools[0].oldest_stale_seconds;
    assert!(seconds.is_some_and(|it| it < 60), "{seconds:?}");
}

/// Each is a DEL, also where its row is gone.
#[tokio::test]
async fn a_completed_pod_waits_for_all_addresses_that_it_reports() {
    let mut waits = Vec::new();
    for others in [&[][..], &["10.9.0.1", "10.9.0.2"]] {
        let server = server();
        put_pool(&server, &[(2, "default/job")]);
        let pod = pod("job", 2).reports("default/other", "net2", others);
        server.put(pod.owner("Job", "jobs").ended("Succeeded"));
        waits.push(only(&report(&server).await).wait_seconds);
    }
    assert_eq!(waits[0].unwrap() + 2 * 60, waits[1].unwrap());
}

#[tokio::test]
async fn what_a_pod_that_lives_has_left_behind_is_told_apart() {
    let server = server();
    put_pool(&server, &[LIVE, (2, "default/web-1")]);
    server.put(pod("web-1", 1));
    let finding = found(&server).await;
    assert_eq!(finding.problem, Problem::Leftover);
    assert_eq!(finding.address.as_deref(), Some("10.0.0.2"));
    assert_eq!(finding.cause.as_deref(), Some("leftover"));
    assert_eq!(finding.wait_seconds, Some(600));
}

#[tokio::test]
async fn rows_and_objects_that_cannot_be_read_are_told() {
    let server = live_one();
    server.edit("ippools", NS, POOL, |pool| {
        let rows = &mut pool["spec"]["allocations"];
        rows["2"] = fixtures::row("short", "default/web-1", "net1");
        rows["3"] = fixtures::row(&fixtures::sandbox(3), "no podref", "net1");
        rows["x"] = fixtures::row(&fixtures::sandbox(4), "default/web-1", "net1");
    });
    let report = report(&server).await;
    let findings = report.findings.iter();
    let found: Vec<_> = findings.map(|it| (it.problem, &*it.detail)).collect();
    assert_eq!(
        found,
        [
            (Problem::Unreadable, "the key is not an offset"),
            (
                Problem::Unreadable,
                "its id is not 64 hex digits; once nobody answers on it, free it by hand"
            ),
            (
                Problem::Unreadable,
                "it names no pod: its podref is missing, or not exactly namespace/name; once nobody answers on it, free it by hand"
            ),
        ]
    );
    let split = report.totals.split;
    assert_eq!((split.unknown, split.live), (3, 1));
}

/// Most rows need no other evidence, since their pods report them.
#[rstest]
#[case::unknown_field(|pool: &mut Value| pool["spec"]["allocations"]["1"]["claim"] = json!("c"), &[Problem::Unreadable], 1)]
#[case::id(|pool: &mut Value| pool["spec"]["allocations"]["1"]["id"] = json!("short"), &[Problem::Unreadable], 1)]
#[case::interface(|pool: &mut Value| pool["spec"]["allocations"]["1"]["ifname"] = json!(7), &[Problem::Unreadable], 1)]
#[case::out_of_range(|pool: &mut Value| pool["spec"]["range"] = json!("10.0.0.0/32"), &[Problem::OutOfRange], 0)]
#[case::kept(|pool: &mut Value| pool["metadata"]["annotations"] = json!({ "ipgc.dev/keep": "1" }), &[], 1)]
#[case::hold(|pool: &mut Value| pool["metadata"]["annotations"] = json!({ "ipgc.dev/hold": "" }), &[], 2)]
#[tokio::test]
async fn what_is_odd_is_told_even_of_a_row_that_its_pod_reports(
    #[case] change: fn(&mut Value),
    #[case] problems: &[Problem],
    #[case] unknown: usize,
) {
    let server = server();
    put_pool(&server, &[LIVE, (2, "default/web-2")]);
    server.put(pod("web-1", 1));
    server.put(pod("web-2", 2));
    server.edit("ippools", NS, POOL, change);
    let report = report(&server).await;
    let mut found = kinds_of(&report);
    // A problem that is reported several times counts once, and problems of the pool alone do not count.
    found.dedup();
    found.retain(|it| !matches!(it, Problem::PoolWithoutDefinition | Problem::NearlyFull));
    assert_eq!(found, problems);
    let split = report.totals.split;
    let held = split.live + split.unreported;
    assert_eq!((held, split.unknown), (2 - unknown, unknown));
}

#[tokio::test]
async fn what_a_person_exempted_is_counted_and_no_finding() {
    let server = server();
    let pool = fixtures::pool(NS, RANGE).annotation("ipgc.dev/keep", "10.0.0.2");
    server.put(pool.row_of(2, "default/gone").row_of(3, "default/gone"));
    let report = report(&server).await;
    assert_eq!(problems(&report), ["stale 10.0.0.3"]);
    assert_eq!(report.notes, ["1 rows are exempted by a person"]);
    assert_eq!(report.totals.split.unknown, 1);
}

/// A person who mistyped the annotation wants to keep addresses as well.
#[tokio::test]
async fn an_exemption_that_nobody_understands_keeps_the_pool_and_is_told() {
    let server = server();
    let pool = fixtures::pool(NS, RANGE).annotation("ipgc.dev/keep", "10.0.0.2; 10.0.0.12");
    server.put(pool.row_of(2, "default/gone").row_of(3, "default/gone"));
    let report = report(&server).await;
    assert_eq!(report.findings, []);
    assert_eq!(
        report.notes,
        [
            "2 rows are exempted by a person",
            "pool default/10.0.0.0-24: all of its rows are kept, since in its annotation ipgc.dev/keep \"10.0.0.2;\" is \
             neither an address nor a key"
        ]
    );
}

/// A duplicate may hide behind it.
#[tokio::test]
async fn what_a_definition_that_cannot_be_read_hides_is_told() {
    let server = live_one();
    server.put(pod("web-2", 1));
    let before = report(&server).await;
    assert_eq!(kinds_of(&before)[0], Problem::InUseTwice);
    server.put(fixtures::nad_with_config(NS, "net", "{bad"));
    let report = report(&server).await;
    assert!(!kinds_of(&report).contains(&Problem::InUseTwice));
    let told = &report.notes[1];
    assert!(
        told.starts_with("of what these definitions give, duplicates,")
            && told.ends_with(": default/net"),
        "{:?}",
        report.notes
    );
}

#[tokio::test]
async fn the_worst_comes_first_and_addresses_are_in_their_order() {
    let server = server();
    put_pool(&server, &[(10, "default/gone"), (9, "default/gone")]);
    server.put(pod("web-1", 1));
    let report = report(&server).await;
    assert_eq!(
        problems(&report),
        [
            "in-use-unallocated 10.0.0.1",
            "stale 10.0.0.9",
            "stale 10.0.0.10",
        ]
    );
}

#[tokio::test]
async fn a_mass_of_rows_without_pods_is_told_to_open_the_breaker() {
    let server = server();
    let rows: Vec<_> = (1..=60).map(|offset| (offset, "default/gone")).collect();
    put_pool(&server, &rows);
    let report = report(&server).await;
    assert_eq!(report.findings.len(), 60);
    assert_begins(&report.notes[0], "60 of 60 rows");
}

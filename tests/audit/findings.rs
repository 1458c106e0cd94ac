//! One test for each finding, most of them beside a row that is as it should be.

use super::*;
use rstest::rstest;

/// A row whose pod is there.
const LIVE: (u64, &str) = (1, "default/web-1");

#[tokio::test]
async fn nothing_is_found_where_nothing_is_wrong() {
    let server = server();
    put_pool(&server, &[LIVE, (2, "default/web-2")]);
    server.put(pod("web-1", 1).build());
    server.put(pod("web-2", 2).build());
    let report = report(&server).await;
    assert_eq!(report.findings, []);
    assert_eq!(report.notes, Vec::<String>::new());
    assert_eq!(report.totals.split.live, 2);
    assert_eq!((report.totals.rows, report.totals.reservations), (2, 2));
    assert_eq!(report.pools[0].size, Some(254));
}

#[tokio::test]
async fn a_row_without_a_pod_is_stale_with_its_wait_and_all_that_identifies_it() {
    let server = server();
    put_pool(&server, &[LIVE, (2, "default/gone")]);
    server.put(pod("web-1", 1).build());
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
    assert_eq!(row.stored.value(), pool["spec"]["allocations"]["2"]);
    assert_eq!(row.pool_uid, pool["metadata"]["uid"].as_str().unwrap());
    assert_eq!(row.key, "2");
    assert_eq!(finding.pods, ["default/gone"]);
    assert_eq!(
        (report.totals.split.live, report.totals.split.stale),
        (1, 1)
    );
}

#[rstest]
#[case::stopped("Succeeded", Some(Problem::Stale))]
#[case::not_at_its_end("Running", None)]
#[tokio::test]
async fn a_pod_at_its_end_needs_no_row(#[case] phase: &str, #[case] problem: Option<Problem>) {
    let server = server();
    put_pool(&server, &[LIVE]);
    let pod = pod("web-1", 1);
    let pod = if phase == "Running" {
        pod
    } else {
        pod.ended(phase)
    };
    server.put(pod.build());
    let report = report(&server).await;
    let found = report.findings.first();
    assert_eq!(found.map(|finding| finding.problem), problem);
    assert_eq!(
        found.and_then(|f| f.cause.as_deref()),
        problem.map(|_| "completed")
    );
    assert_eq!(
        found.and_then(|f| f.nodes.first().map(|node| &**node)),
        problem.map(|_| "n1")
    );
}

#[tokio::test]
async fn a_silent_node_holds_what_nobody_saw_ending() {
    let server = server();
    server.put(fixtures::node("n2", false));
    let proxy = fixtures::pod("kube-system", "proxy").node("n2");
    server.put(proxy.running().build());
    put_pool(&server, &[(2, "default/gone")]);
    let report = report(&server).await;
    let finding = only(&report);
    assert_eq!(finding.problem, Problem::HeldUnfenced);
    assert_eq!(finding.nodes, ["n2"]);
    assert_eq!(finding.wait_seconds, None);
    let command = finding.command.as_deref().unwrap();
    assert!(command.starts_with("kubectl annotate node n2 --overwrite ipgc.dev/no-sandboxes="));
    assert_eq!(
        (report.totals.split.held, report.totals.split.stale),
        (1, 0)
    );
    // Fenced, it holds nothing any more.
    let fenced = server.edit("nodes", "", "n2", |node| {
        node["spec"]["taints"] = json!([fixtures::out_of_service_taint()]);
    });
    assert!(fenced);
    let report = super::report(&server).await;
    assert_eq!(only(&report).problem, Problem::Stale);
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
    server.put(pod.build());
    let report = report(&server).await;
    let finding = only(&report);
    assert_eq!(finding.problem, Problem::HeldUnfenced);
    assert_eq!(finding.grade.as_deref(), Some("unfenced"));
    assert_eq!(finding.nodes, ["n2"]);
}

#[tokio::test]
async fn what_a_pod_that_lives_has_left_behind_is_told_apart() {
    let server = server();
    put_pool(&server, &[LIVE, (2, "default/web-1")]);
    server.put(pod("web-1", 1).build());
    let report = report(&server).await;
    let finding = only(&report);
    assert_eq!(finding.problem, Problem::Leftover);
    assert_eq!(finding.address.as_deref(), Some("10.0.0.2"));
    assert_eq!(finding.cause.as_deref(), Some("leftover"));
    assert_eq!(finding.wait_seconds, Some(600));
}

#[tokio::test]
async fn an_address_of_two_pods_that_live_is_a_duplicate() {
    let server = server();
    server.put(fixtures::nad_with_ipam(
        NS,
        "blue",
        &json!({ "type": "whereabouts", "range": RANGE, "network_name": "blue" }),
    ));
    put_pool(&server, &[LIVE]);
    server.put(pod("web-1", 1).build());
    // In another network it is another address, and none of whereabouts' where nobody knows the network.
    let elsewhere = |name: &str, network: &str| {
        let pod = fixtures::pod(NS, name).node("n1").running();
        pod.reports(network, "net1", &["10.0.0.1"]).build()
    };
    server.put(elsewhere("other", "default/unknown"));
    let blue = fixtures::pool(NS, RANGE).network_name("blue");
    server.put(
        blue.row(1, &fixtures::sandbox(7), "default/blue-1", "net1")
            .build(),
    );
    server.put(fixtures::reservation(
        NS,
        "blue-10.0.0.1",
        "default/blue-1",
        "net1",
    ));
    server.put(elsewhere("blue-1", "default/blue"));
    assert_eq!(report(&server).await.findings, []);
    server.put(pod("web-2", 1).node("n2").build());
    server.put(fixtures::node("n2", true));
    let report = report(&server).await;
    let found = problems(&report);
    assert_eq!(
        found,
        [
            (Problem::Duplicate, "10.0.0.1"),
            (Problem::InUseUnallocated, "10.0.0.1")
        ]
    );
    assert_eq!(report.findings[0].pods, ["default/web-1", "default/web-2"]);
    assert_eq!(report.findings[0].nodes, ["n1", "n2"]);
    assert_eq!(report.findings[0].pool.as_deref(), Some(POOL));
    let detail = &report.findings[1].detail;
    assert!(detail.contains("is another's"), "{detail}");
}

#[tokio::test]
async fn what_a_deleted_pod_has_given_back_is_another_s_to_have() {
    let server = server();
    put_pool(&server, &[(1, "default/web-2")]);
    let going = pod("web-1", 1).with(|pod| {
        pod["metadata"]["deletionTimestamp"] = MADE.into();
        pod["metadata"]["finalizers"] = json!(["x/y"]);
    });
    server.put(going.build());
    server.put(pod("web-2", 1).build());
    assert_eq!(report(&server).await.findings, []);
}

#[tokio::test]
async fn an_address_in_use_that_no_row_holds_is_found() {
    let server = server();
    put_pool(&server, &[LIVE]);
    server.put(pod("web-1", 1).build());
    server.put(pod("web-9", 9).build());
    let report = report(&server).await;
    let finding = only(&report);
    assert_eq!(finding.problem, Problem::InUseUnallocated);
    assert_eq!(finding.address.as_deref(), Some("10.0.0.9"));
    assert_eq!(finding.pods, ["default/web-9"]);
}

#[tokio::test]
async fn addresses_of_other_plugins_are_none_of_ours() {
    let server = server();
    put_pool(&server, &[]);
    server.put(fixtures::nad_with_ipam(
        NS,
        "bridge",
        &json!({ "type": "host-local" }),
    ));
    let other = fixtures::pod(NS, "other").node("n1").running();
    server.put(
        other
            .reports("default/bridge", "net1", &["10.0.0.7"])
            .build(),
    );
    assert_eq!(report(&server).await.findings, []);
}

#[rstest]
#[case::none(None, "it has no reservation")]
#[case::of_another(Some("default/other"), "its reservation is of default/other")]
#[tokio::test]
async fn a_live_row_wants_a_reservation(#[case] of: Option<&str>, #[case] says: &str) {
    let server = server();
    put_pool(&server, &[LIVE]);
    server.put(pod("web-1", 1).build());
    server.put(
        pod("other", 3)
            .reports("default/net", "net2", &["10.0.0.4"])
            .build(),
    );
    let pool = server.edit("ippools", NS, POOL, |pool| {
        for key in ["3", "4"] {
            pool["spec"]["allocations"][key] =
                fixtures::row(&fixtures::sandbox(3), "default/other", "net1");
        }
    });
    assert!(pool);
    for name in ["10.0.0.3", "10.0.0.4"] {
        server.put(fixtures::reservation(NS, name, "default/other", "net1"));
    }
    assert_eq!(report(&server).await.findings, []);
    server
        .delete("overlappingrangeipreservations", NS, "10.0.0.1")
        .unwrap();
    if let Some(of) = of {
        server.put(fixtures::reservation(NS, "10.0.0.1", of, "net1"));
    }
    let report = report(&server).await;
    let finding = only(&report);
    assert_eq!(finding.problem, Problem::ReservationMissing);
    assert_eq!(finding.pods, ["default/web-1"]);
    assert!(finding.detail.contains(says), "{}", finding.detail);
    assert_eq!(finding.reservation.is_some(), of.is_some());
}

#[tokio::test]
async fn where_nothing_is_reserved_no_reservation_is_missing() {
    let server = server();
    let ipam = json!({ "type": "whereabouts", "range": RANGE, "enable_overlapping_ranges": false });
    server.put(fixtures::nad_with_ipam(NS, "net", &ipam));
    let pool = fixtures::pool(NS, RANGE);
    server.put(
        pool.row(1, &fixtures::sandbox(1), "default/web-1", "net1")
            .build(),
    );
    server.put(pod("web-1", 1).build());
    assert_eq!(report(&server).await.findings, []);
}

#[tokio::test]
async fn a_reservation_without_a_row_is_orphaned() {
    let server = server();
    put_pool(&server, &[LIVE]);
    server.put(pod("web-1", 1).build());
    server.put(fixtures::reservation(
        NS,
        "10.0.0.8",
        "default/gone",
        "net1",
    ));
    // Of a pod that lives and has it, and of one whose status is not there yet: both are needed.
    server.put(fixtures::reservation(
        NS,
        "10.0.0.9",
        "default/young",
        "net1",
    ));
    server.put(
        fixtures::pod(NS, "young")
            .node("n1")
            .networks("default/net")
            .build(),
    );
    let report = report(&server).await;
    let finding = only(&report);
    assert_eq!(finding.problem, Problem::ReservationOrphaned);
    assert_eq!(finding.address.as_deref(), Some("10.0.0.8"));
    assert_eq!(finding.reservation.as_ref().unwrap().podref, "default/gone");
    assert_eq!(finding.pool.as_deref(), Some(POOL));
    // Ten seconds more than a row.
    let seconds = finding.wait_seconds.unwrap();
    assert_eq!(seconds, 220);
}

#[tokio::test]
async fn reservations_are_found_by_any_spelling() {
    let server = bare();
    let ipam = json!({ "type": "whereabouts", "range": "fd00::/64", "network_name": "blue" });
    server.put(fixtures::nad_with_ipam(NS, "six", &ipam));
    let pool = fixtures::pool(NS, "fd00::/64").network_name("blue");
    server.put(
        pool.row(5, &fixtures::sandbox(5), "default/web-5", "net1")
            .build(),
    );
    let pod = fixtures::pod(NS, "web-5").node("n1").running();
    server.put(pod.reports("default/six", "net1", &["fd00::5"]).build());
    let expanded = "blue-fd00-0000-0000-0000-0000-0000-0000-0005";
    server.put(fixtures::reservation(NS, expanded, "default/web-5", "net1"));
    assert_eq!(report(&server).await.findings, []);
    server.put(fixtures::reservation(
        NS,
        "blue-fd00--6",
        "default/gone",
        "net1",
    ));
    let report = report(&server).await;
    assert_eq!(
        problems(&report),
        [(Problem::ReservationOrphaned, "fd00::6")]
    );
}

#[tokio::test]
async fn an_address_beyond_its_range_is_found() {
    let server = server();
    put_pool(&server, &[(300, "default/web-1")]);
    server
        .delete("overlappingrangeipreservations", NS, "10.0.0.300")
        .unwrap();
    let pod = fixtures::pod(NS, "web-1").node("n1").running();
    server.put(pod.reports("default/net", "net1", &["10.0.1.44"]).build());
    server.put(fixtures::reservation(
        NS,
        "10.0.1.44",
        "default/web-1",
        "net1",
    ));
    let report = report(&server).await;
    assert_eq!(problems(&report), [(Problem::OutOfRange, "10.0.1.44")]);
    assert_eq!(only(&report).row.as_ref().unwrap().key, "300");
}

#[tokio::test]
async fn rows_and_objects_that_cannot_be_read_are_told() {
    let server = server();
    put_pool(&server, &[LIVE]);
    server.put(pod("web-1", 1).build());
    server.edit("ippools", NS, POOL, |pool| {
        let rows = &mut pool["spec"]["allocations"];
        rows["2"] = fixtures::row("short", "default/web-1", "net1");
        rows["3"] = fixtures::row(&fixtures::sandbox(3), "no podref", "net1");
        rows["x"] = fixtures::row(&fixtures::sandbox(4), "default/web-1", "net1");
    });
    let report = report(&server).await;
    let found: Vec<_> = report
        .findings
        .iter()
        .map(|f| (f.problem, &*f.detail))
        .collect();
    assert_eq!(
        found,
        [
            (Problem::Unreadable, "the key is not an offset"),
            (Problem::Unreadable, "its id is not 64 hex digits"),
            (
                Problem::Unreadable,
                "its podref is not exactly namespace/name"
            ),
        ]
    );
    assert_eq!(
        (report.totals.split.unknown, report.totals.split.live),
        (3, 1)
    );
}

#[tokio::test]
async fn a_pool_that_cannot_be_read_stands_alone_and_hides_no_row() {
    let server = server();
    put_pool(&server, &[(2, "default/gone")]);
    server.put(pod("web-9", 9).build());
    server.put(fixtures::reservation(
        NS,
        "10.0.0.8",
        "default/gone",
        "net1",
    ));
    let mut dump = dump_of(&server, &Kind::ALL);
    let mut bad = server.get("ippools", NS, POOL).unwrap();
    bad["metadata"] = json!({ "namespace": NS, "name": "bad" });
    dump["items"].as_array_mut().unwrap().insert(0, bad);
    let report = judge(&File::new(dump.to_string()).read().unwrap(), Source::Files);
    // web-9's row, and that of the reservation, may be in the pool that cannot be read.
    assert_eq!(
        problems(&report),
        [(Problem::Stale, "10.0.0.2"), (Problem::Unreadable, "")]
    );
    let detail = &report.findings[1].detail;
    assert!(
        detail.starts_with("IPPool default/bad: missing field `uid`"),
        "{detail}"
    );
}

#[tokio::test]
async fn a_pool_that_no_definition_leads_to_may_be_removed_once_it_is_empty() {
    let server = server();
    put_pool(&server, &[LIVE]);
    server.put(pod("web-1", 1).build());
    server.put(fixtures::pool("other", "10.9.0.0/24").build());
    let finding = only(&live(&server).await.unwrap()).clone();
    assert_eq!(finding.problem, Problem::PoolWithoutDefinition);
    let pool = server.get("ippools", "other", "10.9.0.0-24").unwrap();
    let metadata = |field: &str| pool["metadata"][field].as_str().unwrap().to_owned();
    let expected = format!(
        r#"echo '{{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{{"uid":"{}","resourceVersion":"{}"}}}}' | kubectl delete -f - --raw /apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/other/ippools/10.9.0.0-24"#,
        metadata("uid"),
        metadata("resourceVersion"),
    );
    assert_eq!(finding.command, Some(expected.into()));
    // A dump may be hours old.
    let offline = judge(&dump(&server).read().unwrap(), Source::Files);
    assert_eq!(only(&offline).command, None);
    assert!(
        only(&offline).detail.contains("look again at the cluster"),
        "{:?}",
        only(&offline)
    );
    server.edit("ippools", "other", "10.9.0.0-24", |pool| {
        pool["spec"]["allocations"]["1"] =
            fixtures::row(&fixtures::sandbox(1), "default/gone", "net1");
    });
    let report = report(&server).await;
    let found: Vec<_> = report
        .findings
        .iter()
        .map(|f| (f.problem, f.command.is_some()))
        .collect();
    assert_eq!(
        found,
        [
            (Problem::Stale, false),
            (Problem::PoolWithoutDefinition, false)
        ]
    );
}

#[tokio::test]
async fn a_definition_without_a_range_may_lead_to_any_pool() {
    let server = server();
    server.put(fixtures::nad_with_config(NS, "on-the-node", ""));
    server.put(fixtures::pool("other", "10.9.0.0/24").build());
    let report = report(&server).await;
    let finding = only(&report);
    assert_eq!(
        (finding.problem, &finding.command),
        (Problem::PoolWithoutDefinition, &None)
    );
    assert!(
        finding
            .detail
            .contains("1 definitions do not tell their range"),
        "{}",
        finding.detail
    );
}

#[tokio::test]
async fn a_slice_of_a_node_that_is_gone_is_told_with_what_removes_it() {
    let server = bare();
    server.put(fixtures::node("n2", true));
    let ipam = json!({
        "type": "whereabouts", "range": "10.0.0.0/16", "node_slice_size": "/24", "network_name": "blue"
    });
    server.put(fixtures::nad_with_ipam(NS, "net", &ipam));
    let slices = [("n1", "10.0.0.0/24"), ("n2", "10.0.1.0/24")];
    server.put(fixtures::node_slice_pool(
        NS,
        "blue",
        "10.0.0.0/16",
        "/24",
        &slices,
    ));
    server.put(
        fixtures::pool(NS, "10.0.1.0/24")
            .name("blue-n2-10.0.1.0-24")
            .build(),
    );
    assert_eq!(report(&server).await.findings, []);
    server.delete("nodes", "", "n2").unwrap();
    let offline = judge(&dump(&server).read().unwrap(), Source::Files);
    assert_eq!(
        (only(&offline).problem, &only(&offline).command),
        (Problem::SliceOfGoneNode, &None)
    );
    let gone = only(&live(&server).await.unwrap()).clone();
    assert_eq!(gone.problem, Problem::SliceOfGoneNode);
    assert_eq!(gone.nodes, ["n2"]);
    let command = gone.command.unwrap();
    assert!(
        command.contains("/ippools/blue-n2-10.0.1.0-24 && kubectl -n default"),
        "{command}"
    );
    assert!(
        command.ends_with(
            "patch nodeslicepools.whereabouts.cni.cncf.io blue --type=json -p \
             '[{\"op\":\"test\",\"path\":\"/status/allocations/1/nodeName\",\"value\":\"n2\"},\
             {\"op\":\"replace\",\"path\":\"/status/allocations/1/nodeName\",\"value\":\"\"}]'"
        ),
        "{command}"
    );
    server.edit("ippools", NS, "blue-n2-10.0.1.0-24", |pool| {
        pool["spec"]["allocations"]["1"] =
            fixtures::row(&fixtures::sandbox(1), "default/gone", "net1");
    });
    let report = report(&server).await;
    let slice = report.findings.last().unwrap();
    assert_eq!(
        (slice.problem, &slice.command),
        (Problem::SliceOfGoneNode, &None)
    );
}

#[rstest]
#[case::not_quite(json!({ "type": "whereabouts", "range": "10.0.0.0/28" }), 12, None)]
#[case::nearly(json!({ "type": "whereabouts", "range": "10.0.0.0/28" }), 13, Some("13 of 14"))]
#[case::part(json!({ "type": "whereabouts", "range": "10.0.0.1-10.0.0.4/28" }), 4, Some("4 of 4"))]
#[case::part_not(json!({ "type": "whereabouts", "range": "10.0.0.1-10.0.0.5/28" }), 4, None)]
#[tokio::test]
async fn a_range_that_is_nearly_full_is_told_with_its_split(
    #[case] ipam: Value,
    #[case] rows: u64,
    #[case] says: Option<&str>,
) {
    let server = bare();
    server.put(fixtures::nad_with_ipam(NS, "net", &ipam));
    let mut pool = fixtures::pool(NS, "10.0.0.0/28");
    for offset in 1..=rows {
        pool = pool.row(offset, &fixtures::sandbox(offset), "default/gone", "net1");
    }
    server.put(pool.build());
    let report = report(&server).await;
    let full: Vec<_> = report
        .findings
        .iter()
        .filter(|f| f.problem == Problem::NearlyFull)
        .collect();
    assert_eq!(full.len(), usize::from(says.is_some()));
    if let (Some(says), [finding]) = (says, full.as_slice()) {
        let split = format!("0 live, {rows} stale, 0 held, 0 unknown");
        assert!(
            finding.detail.starts_with(says) && finding.detail.ends_with(&split),
            "{}",
            finding.detail
        );
    }
}

#[tokio::test]
async fn what_a_person_exempted_is_counted_and_no_finding() {
    let server = server();
    let pool = fixtures::pool(NS, RANGE).annotation("ipgc.dev/keep", "10.0.0.2");
    let pool = pool.row(2, &fixtures::sandbox(2), "default/gone", "net1");
    server.put(
        pool.row(3, &fixtures::sandbox(3), "default/gone", "net1")
            .build(),
    );
    let report = report(&server).await;
    assert_eq!(problems(&report), [(Problem::Stale, "10.0.0.3")]);
    assert_eq!(report.notes, ["1 rows are exempted by a person"]);
    assert_eq!(report.totals.split.unknown, 1);
}

#[tokio::test]
async fn the_worst_comes_first_and_addresses_are_in_their_order() {
    let server = server();
    put_pool(&server, &[(10, "default/gone"), (9, "default/gone")]);
    server.put(pod("web-1", 1).build());
    let report = report(&server).await;
    assert_eq!(
        problems(&report),
        [
            (Problem::InUseUnallocated, "10.0.0.1"),
            (Problem::Stale, "10.0.0.9"),
            (Problem::Stale, "10.0.0.10"),
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
    assert!(
        report.notes[0].starts_with("60 of 60 rows"),
        "{:?}",
        report.notes
    );
}

/// What is printed is what the schema says, and is read again as it was.
#[tokio::test]
async fn a_report_is_read_again_as_it_was_written() {
    let server = server();
    put_pool(&server, &[LIVE, (2, "default/gone")]);
    server.put(pod("web-9", 9).build());
    let report = report(&server).await;
    let text = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
    let schema = ipgc::audit::report::schema();
    let known = &schema["$defs"]["Finding"]["properties"];
    let finding = serde_json::to_value(&report.findings[1]).unwrap();
    for field in finding.as_object().unwrap().keys() {
        assert!(known[field].is_object(), "{field} is not in the schema");
        assert!(
            known[field]["description"].is_string()
                || known[field]["$ref"].is_string()
                || known[field]["anyOf"].is_array(),
            "{field} is not described"
        );
    }
    let problem = &schema["$defs"]["Problem"]["oneOf"];
    let words: Vec<_> = problem
        .as_array()
        .unwrap()
        .iter()
        .map(|word| word["const"].as_str().unwrap())
        .collect();
    assert!(words.contains(&Problem::HeldUnfenced.as_str()) && words.len() == 14);
}

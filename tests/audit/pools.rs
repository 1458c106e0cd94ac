//! Findings about pools, their ranges, the definitions that lead to them and the slices of nodes.

use super::*;
use rstest::rstest;

#[tokio::test]
async fn an_address_beyond_its_range_is_found() {
    let server = server();
    put_pool(&server, &[(300, "default/web-1")]);
    unreserve(&server, "10.0.0.300");
    server.put(reporting("web-1", "10.0.1.44"));
    reserve(&server, "10.0.1.44", "default/web-1");
    let report = report(&server).await;
    assert_eq!(problems(&report), ["out-of-range 10.0.1.44"]);
    assert_eq!(only(&report).row.as_ref().unwrap().key, "300");
}

#[tokio::test]
async fn a_pool_that_cannot_be_read_stands_alone_and_hides_no_row() {
    let server = server();
    put_pool(&server, &[(2, "default/gone")]);
    server.put(pod("web-9", 9));
    reserve(&server, "10.0.0.8", "default/gone");
    let report = with_bad_pool(&server).judged();
    // web-9's row, and that of the reservation, may be in the pool that cannot be read.
    assert_eq!(problems(&report), ["stale 10.0.0.2", "unreadable"]);
    assert_begins(
        &report.findings[1].detail,
        "IPPool default/bad: missing field `uid`",
    );
}

/// Of a pool that cannot be read, whether all of it or its range, each command tells the name.
#[rstest]
#[case::range_is_a_number("/range", json!(5), "invalid type: integer `5`")]
#[case::range_is_a_text("/range", json!("zzz"), "the range of this pool is missing, or not a CIDR")]
#[case::no_range("", json!({}), "the range of this pool is missing, or not a CIDR")]
fn a_pool_that_cannot_be_read_is_named(
    #[case] place: &str,
    #[case] value: Value,
    #[case] says: &str,
) {
    let server = live_one();
    server.put(fixtures::pool(NS, "10.9.0.0/24"));
    let mut dump = dump_of(&server, &Kind::ALL);
    let mut items = dump["items"].as_array_mut().unwrap().iter_mut();
    let pool = items
        .find(|it| it["metadata"]["name"] == "10.9.0.0-24")
        .unwrap();
    *pool["spec"].pointer_mut(place).unwrap() = value;
    let file = File::new(dump.to_string());
    let path = file.0.to_str().unwrap();
    let (code, stdout, _) = ipgc(&["audit", "-f", path, "-o", "json", "--pool", "10.9.0.0-24"]);
    let report: Report = serde_json::from_str(&stdout).unwrap();
    let finding = with(Problem::Unreadable, &report)[0];
    assert_eq!((code, finding.pool.as_deref()), (1, Some("10.9.0.0-24")));
    assert_says(&finding.detail, says);
    for args in [["pools", "10.9.0.0-24"], ["pools", POOL], ["explain", POOL]] {
        let (code, stdout, stderr) = ipgc(&[args[0], args[1], "-f", path]);
        assert_eq!(code, 0, "{stderr}");
        let note = stdout.lines().filter(|line| line.starts_with("note: "));
        assert_ends(&note.collect::<String>(), "default/10.9.0.0-24");
    }
}

#[tokio::test]
async fn a_pool_that_no_definition_leads_to_may_be_removed_once_it_is_empty() {
    let server = live_one();
    server.put(fixtures::pool("other", "10.9.0.0/24"));
    let finding = only(&live(&server).await.unwrap()).clone();
    assert_eq!(finding.problem, Problem::PoolWithoutDefinition);
    let pool = server.get("ippools", "other", "10.9.0.0-24").unwrap();
    let metadata = |field: &str| pool["metadata"][field].as_str().unwrap().to_owned();
    let expected = format!(
        r#"echo '{{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{{"uid":"{}","resourceVersion":"{}"}}}}' | kubectl delete -f - --raw /apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/other/ippools/10.9.0.0-24"#,
        metadata("uid"),
        metadata("resourceVersion"),
    );
    assert_eq!(finding.command, Some(expected));
    // A dump may be hours old.
    let offline = dump(&server).judged();
    assert_eq!(only(&offline).command, None);
    assert_says(&only(&offline).detail, "look again at the cluster");
    let other = fixtures::pool("other", "10.9.0.0/24");
    server.put(other.row_of(1, "default/gone"));
    let report = report(&server).await;
    assert_eq!(
        kinds_of(&report),
        [Problem::Stale, Problem::PoolWithoutDefinition]
    );
    let mut findings = report.findings.iter();
    assert!(findings.all(|finding| finding.command.is_none()));
}

#[tokio::test]
async fn a_definition_without_a_range_may_lead_to_any_pool() {
    let server = server();
    server.put(fixtures::nad_with_config(NS, "on-the-node", ""));
    server.put(fixtures::pool("other", "10.9.0.0/24"));
    let finding = found(&server).await;
    assert_eq!(
        (finding.problem, &finding.command),
        (Problem::PoolWithoutDefinition, &None)
    );
    assert_says(
        &finding.detail,
        "what does not tell its range may: default/on-the-node",
    );
}

#[tokio::test]
async fn a_slice_of_a_node_that_is_gone_is_told_with_what_removes_it() {
    let server = bare();
    server.put(fixtures::node("n2", true));
    put_slices(&server, &[("n1", "10.0.0.0/24"), ("n2", "10.0.1.0/24")]);
    server.put(fixtures::pool(NS, "10.0.1.0/24").name("blue-n2-10.0.1.0-24"));
    assert_eq!(report(&server).await.findings, []);
    server.delete("nodes", "", "n2").unwrap();
    let offline = dump(&server).judged();
    assert_eq!(
        (only(&offline).problem, &only(&offline).command),
        (Problem::SliceOfGoneNode, &None)
    );
    let gone = only(&live(&server).await.unwrap()).clone();
    assert_eq!(gone.problem, Problem::SliceOfGoneNode);
    assert_eq!(*gone.nodes, ["n2"].map(Box::<str>::from));
    let command = gone.command.unwrap();
    assert_says(
        &command,
        "/ippools/blue-n2-10.0.1.0-24 && kubectl -n default",
    );
    assert_ends(
        &command,
        "patch nodeslicepools.whereabouts.cni.cncf.io blue --type=json -p \
             '[{\"op\":\"test\",\"path\":\"/status/allocations/1/nodeName\",\"value\":\"n2\"},\
             {\"op\":\"replace\",\"path\":\"/status/allocations/1/nodeName\",\"value\":\"\"}]'",
    );
    // The pool from before the definition had a network name.
    server.put(fixtures::pool(NS, "10.0.1.0/24").name("n2-10.0.1.0-24"));
    let both = report(&server).await.findings;
    let both = both.last().unwrap().command.clone().unwrap();
    assert_says(&both, "/ippools/n2-10.0.1.0-24 && kubectl -n default");
    assert_says(&both, "/ippools/blue-n2-10.0.1.0-24 && echo");
    put_row_on(&server, "blue-n2-10.0.1.0-24", 1, "default/gone", "net1", 1);
    let report = report(&server).await;
    let slice = report.findings.last().unwrap();
    assert_eq!(
        (slice.problem, &slice.command),
        (Problem::SliceOfGoneNode, &None)
    );
}

/// Its name tells no node: each that is silent holds it.
#[tokio::test]
async fn a_reservation_alone_in_a_slice_is_of_no_node() {
    let server = bare();
    put_second_node(&server, true);
    put_slices(&server, &[("n2", "10.0.1.0/24")]);
    server.put(fixtures::pool(NS, "10.0.1.0/24").name("blue-n2-10.0.1.0-24"));
    reserve(&server, "blue-10.0.1.2", "default/gone");
    let nodes = |report: &Report| only(report).nodes.clone();
    assert_eq!(*nodes(&report(&server).await), []);
    server.put(fixtures::node("n1", false));
    assert_eq!(*nodes(&report(&server).await), ["n1"].map(Box::<str>::from));
}

/// The slice of n2 by its name: a silent n1 holds no row of it, unless a pod of another node has one as well.
#[tokio::test]
async fn m4_06_a_slice_with_a_row_of_another_node_is_a_finding() {
    let server = bare();
    put_second_node(&server, true);
    server.put(fixtures::node("n3", false));
    put_slices(&server, &[("n2", "10.0.1.0/24")]);
    let pool = fixtures::pool(NS, "10.0.1.0/24").name("blue-n2-10.0.1.0-24");
    server.put(pool.row_of(1, "default/gone").row_of(2, "default/web"));
    reserve(&server, "blue-10.0.1.2", "default/web");
    let put_on = |node: &str| server.put(reporting("web", "10.0.1.2").node(node));
    put_on("n2");
    let before = report(&server).await;
    assert_eq!(before.totals.split.unfenced, 0);
    assert!(!kinds_of(&before).contains(&Problem::SliceOfSeveralNodes));
    put_on("n1");
    let after = report(&server).await;
    assert_eq!(after.totals.split.unfenced, 1);
    let finding = with(Problem::SliceOfSeveralNodes, &after)[0];
    assert_eq!(*finding.nodes, ["n2", "n1"].map(Box::<str>::from));
    assert_says(&finding.detail, "pod default/web on node n1");
}

#[rstest]
#[case::not_quite("10.0.0.0/28", 12, None)]
#[case::nearly("10.0.0.0/28", 13, Some("13 of 14"))]
#[case::part("10.0.0.1-10.0.0.4/28", 4, Some("4 of 4"))]
#[case::part_not("10.0.0.1-10.0.0.5/28", 4, None)]
#[tokio::test]
async fn a_range_that_is_nearly_full_is_told_with_its_split(
    #[case] range: &str,
    #[case] rows: u64,
    #[case] says: Option<&str>,
) {
    let server = bare();
    server.put(fixtures::nad(NS, "net", range));
    let mut pool = fixtures::pool(NS, "10.0.0.0/28");
    for offset in 1..=rows {
        let owner = format!("default/gone-{offset}");
        pool = pool.row_of(offset, &owner);
    }
    server.put(pool);
    let report = report(&server).await;
    let full = with(Problem::NearlyFull, &report);
    assert_eq!(full.len(), usize::from(says.is_some()));
    if let (Some(says), [finding]) = (says, full.as_slice()) {
        let split = format!("0 live, 0 unreported, {rows} stale, 0 unfenced, 0 unknown");
        assert_begins(&finding.detail, says);
        assert_ends(&finding.detail, &split);
    }
}

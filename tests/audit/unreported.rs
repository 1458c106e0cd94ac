//! Rows and reservations that are held although no pod that is at work reports them: each is a finding with its reason
//! and with what frees it.

use super::*;
use rstest::rstest;
use testkit::fixtures::{NETWORK_STATUS, NETWORKS, PodBuilder, running_status, sandbox};

/// `web-1` on this node, which asks for `default/net`.
fn asking(node: &str) -> PodBuilder {
    let pod = fixtures::pod(NS, "web-1").networks("default/net");
    pod.node(node).with(|pod| {
        pod["metadata"]["creationTimestamp"] = "2025-12-01T00:00:00Z".into();
    })
}

/// The same, and reports 10.0.0.1.
fn reporting(node: &str) -> PodBuilder {
    asking(node).reports("default/net", "net1", &["10.0.0.1"])
}

fn deleted(pod: PodBuilder) -> PodBuilder {
    pod.with(|pod| pod["metadata"]["deletionTimestamp"] = "2025-12-01T00:00:00Z".into())
}

fn failed_by_another(pod: PodBuilder) -> PodBuilder {
    let mut status = running_status();
    status["phase"] = "Failed".into();
    pod.status(status)
}

const DELETE: Option<&str> = Some("kubectl -n default delete pod web-1");
const FORCE: Option<&str> = Some("kubectl -n default delete pod web-1 --force");
const ANNOTATE: Option<&str> = Some("kubectl annotate node n2 --overwrite ipgc.dev/no-sandboxes=");
const TAINT: Option<&str> =
    Some("kubectl taint node n2 node.kubernetes.io/out-of-service=nodeshutdown:NoExecute");

/// Row 1 has the sandbox that the pod reports nothing else of. `n2` is not ready, and `n3` fenced.
#[rstest]
#[case::rejected(reporting("n1").status(json!({"phase": "Failed"})), "Failed without container states", DELETE)]
#[case::rejected_on_a_dead_node(reporting("n2").status(json!({"phase": "Failed"})), "and its node is not ready", ANNOTATE)]
#[case::succeeded(asking("n1").status(json!({"phase": "Succeeded"})), "Succeeded without container states", DELETE)]
#[case::failed_by_another(
    failed_by_another(reporting("n2")),
    "while containers are shown as running",
    ANNOTATE
)]
#[case::terminating(deleted(reporting("n2").running()), "no kubelet ends the pod", TAINT)]
#[case::terminating_unreported(deleted(asking("n2").running()), "no kubelet ends the pod", TAINT)]
#[case::terminating_fenced(deleted(asking("n3").running()), "its node is gone or runs no sandboxes", FORCE)]
#[case::terminating_for_long(deleted(asking("n1").running()), "being deleted for long", None)]
#[case::starting(asking("n1"), "starting for long", DELETE)]
#[case::without_status(asking("n1").running(), "network-status is missing", DELETE)]
#[case::unreadable(asking("n1").annotation(NETWORK_STATUS, "[{").running(), "network-status cannot be read", DELETE)]
#[case::incomplete(asking("n1").annotation(NETWORKS, "default/net,default/other").reports("default/net", "net1", &["10.0.0.9"]).running(), "lacks networks", DELETE)]
#[case::unused(asking("n1").reports("default/net", "net1", &["10.0.0.9"]).running(), "nothing tells whose the row is", Some("ipgc release --force 10.0.0.1"))]
#[case::mirror(asking("n1").mirror().running(), "mirror of a static pod", None)]
#[tokio::test]
async fn a_row_that_no_pod_at_work_reports_is_a_finding(
    #[case] pod: PodBuilder,
    #[case] says: &str,
    #[case] command: Option<&str>,
) {
    let server = server();
    server.put(fixtures::node("n2", false));
    let mut fenced = fixtures::node("n3", false);
    fenced["spec"]["taints"] = json!([fixtures::out_of_service_taint()]);
    server.put(fenced);
    put_pool(&server, &[LIVE]);
    server.put(pod);
    let report = report(&server).await;
    let split = report.totals.split;
    assert_eq!((split.unreported, split.rows()), (1, 1));
    let [finding] = with(Problem::Unreported, &report)[..] else {
        panic!("{report:#?}");
    };
    assert_says(&finding.detail, says);
    assert_eq!(finding.pods, ["default/web-1"]);
    let told = finding.command.as_deref();
    assert_eq!(told.is_some(), command.is_some(), "{told:?}");
    assert_begins(told.unwrap_or_default(), command.unwrap_or_default());
}

/// A row that a pod reports is live, also while the kubelet ends the pod.
#[rstest]
#[case::running(reporting("n1").running())]
#[case::terminating(deleted(reporting("n1").running()))]
#[case::mirror(reporting("n1").mirror().running())]
#[tokio::test]
async fn a_row_that_a_pod_at_work_reports_is_live(#[case] pod: PodBuilder) {
    let server = server();
    put_pool(&server, &[LIVE]);
    server.put(pod);
    let report = report(&server).await;
    assert_eq!(report.totals.split.live, 1);
    assert_eq!(report.findings, []);
}

/// Two rows of one sandbox of `web-1`, on `net1` and `net2`.
fn put_two_rows(server: &Server) {
    let pool = fixtures::pool(NS, RANGE);
    let pool = pool.row(1, &sandbox(1), "default/web-1", "net1");
    server.put(pool.row(2, &sandbox(1), "default/web-1", "net2"));
}

#[tokio::test]
async fn a_row_of_an_interface_that_was_unplugged_says_so() {
    let server = server();
    put_two_rows(&server);
    server.put(reporting("n1").running());
    for (address, interface) in [("10.0.0.1", "net1"), ("10.0.0.2", "net2")] {
        server.put(fixtures::reservation(
            NS,
            address,
            "default/web-1",
            interface,
        ));
    }
    let report = report(&server).await;
    let split = report.totals.split;
    assert_eq!((split.live, split.unreported), (1, 1));
    let [finding] = with(Problem::Unreported, &report)[..] else {
        panic!("{report:#?}");
    };
    assert_says(&finding.detail, "unplugged");
    let command = finding.command.as_deref();
    assert_eq!(command, Some("ipgc release --force 10.0.0.2"));
}

/// 10 min are `--leftover-grace`. The dump was made when its youngest pod was.
#[rstest]
#[case::young("2025-12-31T23:55:00Z", None, false)]
#[case::old("2025-12-31T23:45:00Z", None, true)]
#[case::deleted_lately("2025-12-31T23:45:00Z", Some("2025-12-31T23:59:00Z"), false)]
#[case::deleted_long_ago("2025-12-31T22:00:00Z", Some("2025-12-31T23:40:00Z"), true)]
#[tokio::test]
async fn a_young_pod_is_counted_without_a_finding(
    #[case] created: &str,
    #[case] deleted: Option<&str>,
    #[case] is_found: bool,
) {
    let server = server();
    put_pool(&server, &[LIVE]);
    let at = |pod: PodBuilder, created: &str| {
        pod.with(|pod| pod["metadata"]["creationTimestamp"] = created.into())
    };
    let pod = at(asking("n1"), created).with(|pod| {
        if let Some(deleted) = deleted {
            pod["metadata"]["deletionTimestamp"] = deleted.into();
        }
    });
    server.put(pod);
    server.put(at(fixtures::pod("kube-system", "last").node("n1"), MADE));
    let report = report(&server).await;
    assert_eq!(report.totals.split.unreported, 1);
    assert_eq!(
        with(Problem::Unreported, &report).len(),
        usize::from(is_found)
    );
}

#[tokio::test]
async fn a_reservation_that_is_held_so_is_a_finding() {
    let server = server();
    put_pool(&server, &[]);
    server.put(asking("n1"));
    reserve(&server, "10.0.0.1", "default/web-1");
    let finding = found(&server).await;
    assert_eq!(finding.problem, Problem::Unreported);
    let says = "a reservation without a row; its pod has been starting for long";
    assert_begins(&finding.detail, says);
    assert_eq!(finding.command.as_deref(), DELETE);
}

#[tokio::test]
async fn a_range_that_is_nearly_full_of_them_points_to_them_first() {
    let server = bare();
    server.put(fixtures::nad(NS, "net", "10.0.0.0/30"));
    let pool = fixtures::pool(NS, "10.0.0.0/30");
    let pool = pool.row(1, &sandbox(1), "default/web-1", "net1");
    server.put(pool.row(2, &sandbox(2), "default/web-1", "net2"));
    server.put(asking("n1"));
    let report = report(&server).await;
    let full = with(Problem::NearlyFull, &report)[0];
    let says = "0 live, 2 unreported, 0 stale, 0 unfenced, 0 unknown; see first to the findings unreported";
    assert_says(&full.detail, says);
}

/// The pod did not ask for the network, and multus reports nothing of it.
#[tokio::test]
async fn what_a_pod_may_use_without_a_report_has_no_command() {
    let server = server();
    put_two_rows(&server);
    let ipam = json!({ "type": "whereabouts", "range": RANGE });
    let config = json!({ "type": "macvlan", "ipam": ipam }).to_string();
    server.put(fixtures::nad_with_config("kube-system", "all", &config));
    server.put(reporting("n1").running());
    reserve(&server, "10.0.0.1", "default/web-1");
    let report = report(&server).await;
    let [finding] = with(Problem::Unreported, &report)[..] else {
        panic!("{report:#?}");
    };
    assert_says(&finding.detail, "without a cniVersion");
    assert_eq!(finding.command, None);
}

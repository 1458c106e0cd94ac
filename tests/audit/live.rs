//! On a cluster: pages, the order of reads, rights that are missing, and what runs beside us.

use ipgc::core::podref::PodRef;
use rstest::rstest;
use testkit::{Match, Resource, Verb};

use super::*;

#[tokio::test]
async fn lists_are_quorum_reads_of_pages_reservations_first_then_rows_then_pods() {
    let server = server();
    for offset in 0..1_100_u64 {
        server.put(fixtures::pod(NS, &format!("pod-{offset}")));
    }
    for net in 0..40 {
        server.put(fixtures::pool(NS, &format!("10.1.{net}.0/24")));
        let (name, range) = (format!("net-{net}"), format!("10.1.{net}.0/24"));
        server.put(fixtures::nad(NS, &name, &range));
    }
    let report = live(&server).await.unwrap();
    assert_eq!((report.totals.pods, report.totals.pools), (1_102, 40));
    assert_eq!(report.findings, []);
    let requests = server.requests();
    let mut of_objects = requests.iter().filter(|r| is_of_objects(&r.path));
    assert!(
        of_objects.all(|r| r.verb == Verb::List && r.is_quorum_read()),
        "{requests}"
    );
    let order: Vec<_> = requests.iter().map(|r| r.resource.clone()).collect();
    let first = |resource: &str| order.iter().position(|r| r == resource).unwrap();
    let last = |resource: &str| order.iter().rposition(|r| r == resource).unwrap();
    assert!(last("overlappingrangeipreservations") < first("ippools"));
    assert!(last("ippools") < first("pods") && last("pods") < first("nodes"));
    let pages = |resource: &str| order.iter().filter(|r| *r == resource).count();
    assert_eq!(pages("pods"), 3);
    assert!(pages("ippools") > 3, "{requests}");
}

#[rstest]
#[case(ORIP, ".whereabouts.cni.cncf.io in all namespaces")]
#[case("ippools", ".whereabouts.cni.cncf.io in all namespaces")]
#[case("nodeslicepools", ".whereabouts.cni.cncf.io in all namespaces")]
#[case("pods", " in all namespaces")]
#[case("nodes", " at the cluster scope")]
#[case(NADS, ".k8s.cni.cncf.io in all namespaces")]
#[tokio::test]
async fn a_right_that_is_missing_is_named(#[case] resource: &str, #[case] of: &str) {
    let server = server();
    server.deny(Match::list(resource));
    let says = format!("not allowed to list {resource}{of}");
    assert_eq!(live(&server).await.unwrap_err().to_string(), says);
}

#[tokio::test]
async fn an_error_is_never_an_empty_list() {
    let server = server();
    for number in 0..600 {
        server.put(fixtures::pod(NS, &format!("pod-{number}")));
    }
    server.on(Match::list("pods").further_pages()).disconnect();
    assert_begins(
        &live(&server).await.unwrap_err().to_string(),
        "cannot list pods: ",
    );
}

#[tokio::test]
async fn kinds_that_are_not_installed_are_told_or_the_end() {
    let server = server();
    put_pool(&server, &[]);
    server
        .on(Match::list("network-attachment-definitions"))
        .fail(404);
    let report = live(&server).await.unwrap();
    assert_eq!(report.findings, []);
    assert_eq!(
        report.notes[0],
        "the API server knows no network-attachment-definitions: duplicates, addresses in use without a row, missing \
         reservations and unused pools are not looked for"
    );
    server.on(Match::list("ippools")).fail(404);
    let error = live(&server).await.unwrap_err().to_string();
    let says = "the API server knows no ippools: whereabouts is not installed";
    assert_eq!(error, says);
}

/// The report about a server of which only the pools of the namespace `net` are looked at.
async fn report_of_net(server: &Server) -> Report {
    let scan = Scan {
        pool_namespace: Some("net".to_owned()),
        ..Scan::default()
    };
    judge(&read(&server.client(), &scan).await.unwrap())
}

#[tokio::test]
async fn pools_in_a_namespace_that_is_not_looked_at_are_told() {
    let server = server();
    server.put(fixtures::pool("elsewhere", RANGE));
    let report = report_of_net(&server).await;
    assert_eq!(problems(&report), ["no-pools"]);
    assert!(only(&report).detail.contains("in namespace net"));
    assert_eq!(
        report.notes,
        ["1 pools are in namespace elsewhere, which is not looked at"]
    );
}

#[tokio::test]
async fn pools_elsewhere_may_hold_what_a_pod_uses() {
    let server = server();
    server.put(pod("web-1", 1));
    assert_eq!(problems(&report_of_net(&server).await), ["no-pools"]);
    server.put(fixtures::pool("net", RANGE));
    let report = report_of_net(&server).await;
    assert_eq!(problems(&report), ["in-use-unallocated 10.0.0.1"]);
}

/// A server that knows workloads.
fn with_workloads() -> Server {
    let server = Server::builder()
        .resource(Resource::builtin("apps", "v1", "DaemonSet", "daemonsets"))
        .resource(Resource::builtin("apps", "v1", "Deployment", "deployments"))
        .resource(Resource::builtin("batch", "v1", "CronJob", "cronjobs"))
        .build();
    server.put(fixtures::node("n1", true));
    put_pool(&server, &[]);
    server.put(fixtures::nad(NS, "net", RANGE));
    server
}

fn workload(kind: &str, name: &str, spec: Value) -> Value {
    let version = match kind {
        "CronJob" => "batch/v1",
        _ => "apps/v1",
    };
    let mut object = json!({
        "apiVersion": version,
        "kind": kind,
        "metadata": { "namespace": "kube-system", "name": name },
    });
    object["spec"] = spec;
    object
}

#[tokio::test]
async fn whoever_else_frees_addresses_is_told() {
    let server = with_workloads();
    let command = |text: &str| json!({ "template": { "spec": { "containers": [{ "command": ["/bin/sh", "-c", text] }] } } });
    server.put(workload("DaemonSet", "kindnet", command("kindnetd")));
    assert_eq!(live(&server).await.unwrap().notes, Vec::<String>::new());
    let run = "/install-cni.sh && /ip-control-loop -log-level debug";
    server.put(workload("DaemonSet", "whereabouts", command(run)));
    // As upstream's chart names them, and as it lets people name them.
    let reconciler = |kind: &str, name: &str, at_rest: bool| {
        let runs = command("/ip-reconciler -log-level=verbose");
        let spec = match kind {
            "Deployment" => {
                json!({ "replicas": u8::from(!at_rest), "template": runs["template"] })
            }
            _ => json!({ "suspend": at_rest, "jobTemplate": { "spec": runs } }),
        };
        server.put(workload(kind, name, spec));
    };
    reconciler("Deployment", "wb-whereabouts-reconciler", false);
    reconciler("CronJob", "wb-whereabouts", false);
    let notes = live(&server).await.unwrap().notes;
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert_says(&notes[0], "DaemonSet kube-system/whereabouts");
    assert_says(
        &notes[1],
        "Deployment kube-system/wb-whereabouts-reconciler",
    );
    assert_says(&notes[2], "CronJob kube-system/wb-whereabouts");
    // At rest they are no news, and a right that is missing says nothing.
    reconciler("Deployment", "wb-whereabouts-reconciler", true);
    reconciler("CronJob", "wb-whereabouts", true);
    assert_eq!(live(&server).await.unwrap().notes.len(), 1);
    server.deny(Match::list("daemonsets"));
    let notes = live(&server).await.unwrap().notes;
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert_begins(&notes[0], "DaemonSets cannot be read");
}

/// A pod is born after the reservations or the pools were read, with a row, a reservation and a status of its own.
#[rstest]
#[case::after_the_reservations("ippools")]
#[case::after_the_pools("pods")]
#[tokio::test]
async fn what_came_to_be_between_two_lists_is_looked_at_again(#[case] next: &str) {
    let server = server();
    put_pool(&server, &[(1, "default/web-1")]);
    server.put(pod("web-1", 1));
    let list = server.on(Match::list(next)).once();
    list.before(|server| async move {
        server.put(pod("web-2", 2));
        reserve(&server, "10.0.0.2", "default/web-2");
        put_row_on(&server, POOL, 2, "default/web-2", "net1", 2);
    });
    assert_eq!(live(&server).await.unwrap().findings, []);
    // A pod without a row still has none at the second look, and an address without a reservation neither.
    server.put(pod("web-3", 3));
    unreserve(&server, "10.0.0.1");
    let report = live(&server).await.unwrap();
    assert_eq!(
        problems(&report),
        [
            "in-use-unallocated 10.0.0.3",
            "reservation-missing 10.0.0.1"
        ]
    );
}

#[tokio::test]
async fn a_pool_that_cannot_be_read_at_the_second_look_proves_no_row() {
    let server = server();
    put_pool(&server, &[]);
    server.put(pod("web-1", 1));
    let list = server.on(Match::list("pods")).once();
    list.before(|server| async move {
        server.edit("ippools", NS, POOL, |pool| {
            pool["spec"]["allocations"] = json!("nothing");
        });
    });
    assert_eq!(
        problems(&live(&server).await.unwrap()),
        ["in-use-unallocated 10.0.0.1"]
    );
}

/// API servers take such ones, in any object.
#[tokio::test]
async fn managed_fields_that_cannot_be_read_hide_nothing() {
    let server = shop();
    define(&server, "other", &json!({ "range": "10.1.0.0/24" }));
    let before = live(&server).await.unwrap();
    for resource in ["nodes", "pods", "ippools", ORIP, NADS] {
        for object in server.list(resource) {
            let [namespace, name] = ["namespace", "name"].map(|it| &object["metadata"][it]);
            let namespace = namespace.as_str().unwrap_or_default();
            let odd = |it: &mut Value| it["metadata"]["managedFields"] = far_fields();
            assert!(server.edit(resource, namespace, name.as_str().unwrap(), odd));
        }
    }
    let after = live(&server).await.unwrap();
    assert_eq!(
        (&after.findings, &after.notes),
        (&before.findings, &before.notes)
    );
}

#[tokio::test]
async fn pods_are_chosen_by_their_labels() {
    let server = server();
    server.put(pod("web-1", 1).label("app", "web"));
    server.put(pod("db-1", 2).label("app", "db"));
    let scan = Scan {
        selector: Some(ipgc::snapshot::labels::parse("app in (web)").unwrap()),
        ..Scan::default()
    };
    let snapshot = read(&server.client(), &scan).await.unwrap();
    let selected = snapshot.selected.unwrap();
    let selected: Vec<_> = selected.iter().map(PodRef::as_str).collect();
    assert_eq!(selected, ["default/web-1"]);
}

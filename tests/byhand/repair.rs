//! `ipgc repair`: the reservation that a live row lacks.

use ipgc::{
    audit::report::Problem,
    byhand::{
        Writer,
        repair::{Missing, missing},
    },
};
use rstest::rstest;

use super::*;

/// A row of a live pod in this range without its reservation.
fn lacking(range: &str, network: Option<&str>, address: &str) -> Server {
    let server = Server::new();
    server.put(fixtures::node("node-1", true));
    let mut ipam = json!({"type": "whereabouts", "range": range});
    if let Some(network) = network {
        ipam["network_name"] = network.into();
    }
    server.put(fixtures::nad_with_ipam(NS, "net", &ipam));
    let pod = fixtures::pod(NS, "web")
        .node("node-1")
        .networks("default/net");
    let pod = pod.reports("default/net", "net1", &[address]);
    server.put(pod.running());
    let pool = fixtures::pool(NS, range);
    let pool = match network {
        Some(network) => pool.network_name(network),
        None => pool,
    };
    let last: u64 =
        u64::from_str_radix(address.rsplit(['.', ':']).next().unwrap(), 16).unwrap_or(0);
    server.put(pool.row(last, &fixtures::sandbox(last), "default/web", "net1"));
    server
}

async fn found(server: &Server) -> (Vec<Missing>, usize) {
    let snapshot = look(server).await;
    let report = reported(server, Duration::ZERO).await;
    let (missing, others) = missing(&snapshot, &report);
    (missing, others.len())
}

/// How many are missing, and how many are left alone.
async fn counted(server: &Server) -> (usize, usize) {
    let (missing, others) = found(server).await;
    (missing.len(), others)
}

async fn only(server: &Server) -> Missing {
    let (mut missing, others) = found(server).await;
    assert_eq!((missing.len(), others), (1, 0));
    missing.remove(0)
}

async fn make(server: &Server, missing: &Missing) -> Result<String, NotDone> {
    Writer::new(&server.client_named("ipgc"))
        .make(missing, false)
        .await
}

#[rstest]
#[case("10.0.0.0/24", None, "10.0.0.5", "10.0.0.5")]
#[case("10.0.0.0/24", Some("blue"), "10.0.0.5", "blue-10.0.0.5")]
#[case("fd00::/120", None, "fd00::5", "fd00--5")]
#[case("fd00::/120", Some("blue"), "fd00::5", "blue-fd00--5")]
#[tokio::test]
async fn it_is_made_as_whereabouts_makes_it(
    #[case] range: &str,
    #[case] network: Option<&str>,
    #[case] address: &str,
    #[case] name: &str,
) {
    let server = lacking(range, network, address);
    assert_eq!(make(&server, &only(&server).await).await.unwrap(), name);
    let made = server
        .get("overlappingrangeipreservations", NS, name)
        .unwrap();
    assert_eq!(
        made["spec"],
        json!({"podref": "default/web", "ifname": "net1"})
    );
    assert_eq!(counted(&server).await, (0, 0), "all is well");
    let report = reported(&server, Duration::ZERO).await;
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

#[tokio::test]
async fn the_name_of_a_node_s_slice_does_not_tell_the_node() {
    let server = lacking("10.0.0.0/24", Some("blue-node-1"), "10.0.0.5");
    let ipam = json!({
        "type": "whereabouts", "range": "10.0.0.0/16", "node_slice_size": "/24", "network_name": "blue"
    });
    server.put(fixtures::nad_with_ipam(NS, "net", &ipam));
    let slices = [("node-1", "10.0.0.0/24")];
    server.put(fixtures::node_slice_pool(
        NS,
        "blue",
        "10.0.0.0/16",
        "/24",
        &slices,
    ));
    let name = make(&server, &only(&server).await).await.unwrap();
    assert_eq!(name, "blue-10.0.0.5");
    assert_eq!(counted(&server).await, (0, 0));
}

#[tokio::test]
async fn one_that_another_pod_has_is_left_alone() {
    let server = lacking("10.0.0.0/24", None, "10.0.0.5");
    reserve(&server, "10.0.0.5", "other");
    let report = reported(&server, Duration::ZERO).await;
    assert!(
        report
            .findings
            .iter()
            .any(|it| it.problem == Problem::ReservationMissing)
    );
    assert_eq!(counted(&server).await, (0, 1));
}

#[tokio::test]
async fn one_that_is_there_by_now_is_left_alone() {
    let server = lacking("fd00::/120", None, "fd00::5");
    let missing = only(&server).await;
    // In another spelling.
    let name = "fd00-0000-0000-0000-0000-0000-0000-0005";
    reserve(&server, name, "other");
    let answer = make(&server, &missing).await;
    let there = format!("there is reservation {name} by now");
    assert!(says(&answer, &there), "{answer:?}");
    server
        .delete("overlappingrangeipreservations", NS, name)
        .unwrap();
    // Between the look and the creation.
    let other = server.clone();
    let create = server
        .on(Match::create("overlappingrangeipreservations"))
        .once();
    create.before(move |_| {
        reserve(&other, "fd00--5", "other");
        async {}
    });
    let answer = make(&server, &missing).await;
    assert!(says(&answer, "there is reservation"), "{answer:?}");
    let there = server
        .get("overlappingrangeipreservations", NS, "fd00--5")
        .unwrap();
    assert_eq!(there["spec"]["podref"], "default/other");
}

#[tokio::test]
async fn none_is_made_for_a_pod_that_does_not_need_it_any_more() {
    let server = lacking("10.0.0.0/24", None, "10.0.0.5");
    let missing = only(&server).await;
    server.put(fixtures::pod(NS, "web").uid(common::nodes::SECOND));
    let answer = make(&server, &missing).await;
    assert!(
        says(&answer, "does not report the address any more"),
        "{answer:?}"
    );
    server.delete("pods", NS, "web").unwrap();
    let answer = make(&server, &missing).await;
    assert!(
        says(&answer, "does not report the address any more"),
        "{answer:?}"
    );
    server.on(Match::get("pods")).fail(500);
    let answer = make(&server, &missing).await;
    assert!(says(&answer, "could not be read"), "{answer:?}");
    server.clear_rules();
    common::nodes::adopt(&server, POOL, "5");
    let answer = make(&server, &missing).await;
    assert!(matches!(answer, Err(NotDone::Gone)), "{answer:?}");
    assert_eq!((reservations(&server).len(), writes(&server)), (0, 0));
}

#[tokio::test]
async fn one_whose_row_goes_meanwhile_is_taken_back() {
    let server = lacking("10.0.0.0/24", None, "10.0.0.5");
    let missing = only(&server).await;
    let del = server.clone();
    let create = server.on(Match::create("overlappingrangeipreservations"));
    create.before(move |_| {
        del.edit("ippools", NS, POOL, |pool| {
            pool["spec"]["allocations"] = json!({});
        });
        async {}
    });
    let answer = make(&server, &missing).await;
    assert!(matches!(answer, Err(NotDone::Gone)), "{answer:?}");
    assert!(reservations(&server).is_empty());
}

#[tokio::test]
async fn one_whose_answer_was_lost_is_made() {
    let server = lacking("10.0.0.0/24", None, "10.0.0.5");
    let missing = only(&server).await;
    let create = server
        .on(Match::create("overlappingrangeipreservations"))
        .once();
    create.apply_then_disconnect();
    assert_eq!(make(&server, &missing).await.unwrap(), "10.0.0.5");
    // And one that its own pod has by now is none that is missing.
    assert_eq!(make(&server, &missing).await.unwrap(), "10.0.0.5");
    assert_eq!(reservations(&server).len(), 1);
}

/// Whereabouts could not have made it.
#[tokio::test]
async fn one_that_can_have_no_name_is_not_made() {
    let server = lacking("::/120", None, "::5");
    let answer = make(&server, &only(&server).await).await;
    assert!(says(&answer, "can have no name"), "{answer:?}");
}

#[tokio::test]
async fn a_dry_run_makes_none() {
    let server = lacking("10.0.0.0/24", None, "10.0.0.5");
    let repairer = Writer::new(&server.client_named("ipgc"));
    let name = repairer.make(&only(&server).await, true).await.unwrap();
    assert_eq!(name, "10.0.0.5");
    assert_eq!((reservations(&server).len(), writes(&server)), (0, 0));
}

#[tokio::test]
async fn whoever_may_not_make_one_hears_so() {
    let server = lacking("10.0.0.0/24", None, "10.0.0.5");
    server.deny(Match::create("overlappingrangeipreservations"));
    let error = make(&server, &only(&server).await)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("(403)"), "{error}");
}

/// As an old CRD keeps it, which drops the podref: it is the row's by its sandbox, or nobody's that we know.
#[tokio::test]
async fn one_that_names_no_pod_is_the_rows_by_its_sandbox() {
    let server = lacking(RANGE, None, "10.0.0.5");
    let missing = only(&server).await;
    let mut reservation = fixtures::reservation(NS, "10.0.0.5", "", "");
    reservation["spec"] = json!({ "containerid": fixtures::sandbox(5) });
    server.put(reservation.clone());
    assert_eq!(counted(&server).await, (0, 0));
    assert_eq!(make(&server, &missing).await.unwrap(), "10.0.0.5");
    assert_eq!(writes(&server), 0);
    reservation["spec"] = json!({ "containerid": fixtures::sandbox(6) });
    server.put(reservation);
    assert_eq!(counted(&server).await, (0, 1), "left alone");
    let made = make(&server, &missing).await;
    assert!(says(&made, "there is reservation"), "{made:?}");
}

//! Addresses that pods report, where several networks and pools have the same ones, and pods that come and go while
//! the input is read.

use testkit::Match;

use super::*;

/// Two networks on one range, with a pool each.
fn two_networks() -> Server {
    let server = bare();
    for network in ["ared", "blue"] {
        let keys = json!({ "range": RANGE, "network_name": network });
        define(&server, network, &keys);
    }
    server
}

fn put_network(server: &Server, network: &str, podref: Option<&str>) {
    let mut pool = fixtures::pool(NS, RANGE).network_name(network);
    if let Some(podref) = podref {
        pool = pool.row_of(5, podref);
        let name = format!("{network}-10.0.0.5");
        reserve(server, &name, podref);
    }
    server.put(pool);
}

/// A pod that reports 10.0.0.5 of these networks.
fn on(name: &str, networks: &[&str]) -> Value {
    let pod = fixtures::pod(NS, name).node("n1").running();
    pod.with(|pod| {
        let entry = |(at, network): (usize, &&str)| {
            json!({ "name": format!("{NS}/{network}"), "interface": format!("net{at}"), "ips": ["10.0.0.5"] })
        };
        let status: Vec<_> = networks.iter().enumerate().map(entry).collect();
        pod["metadata"]["annotations"]["k8s.v1.cni.cncf.io/network-status"] =
            json!(status).to_string().into();
    })
    .build()
}

#[tokio::test]
async fn a_row_of_another_network_is_none_of_this_one() {
    let server = two_networks();
    put_network(&server, "ared", Some("default/a1"));
    put_network(&server, "blue", None);
    server.put(on("a1", &["ared", "blue"]));
    let finding = found(&server).await;
    assert_eq!(finding.problem, Problem::InUseUnallocated);
    assert_eq!(finding.pool.as_deref(), Some("blue-10.0.0.0-24"));
    assert_eq!(finding.namespace.as_deref(), Some(NS));
}

#[tokio::test]
async fn a_duplicate_is_of_the_pool_of_its_network() {
    let server = two_networks();
    put_network(&server, "ared", Some("default/a1"));
    put_network(&server, "blue", Some("default/b1"));
    server.put(on("a1", &["ared"]));
    for name in ["b1", "b2", "b3"] {
        server.put(on(name, &["blue"]));
    }
    let report = report(&server).await;
    let duplicate = &report.findings[0];
    assert_eq!(duplicate.problem, Problem::InUseTwice);
    assert_eq!(duplicate.pods, ["default/b1", "default/b2", "default/b3"]);
    let pools = report
        .findings
        .iter()
        .map(|finding| finding.pool.as_deref());
    assert_eq!(pools.collect::<Vec<_>>(), [Some("blue-10.0.0.0-24"); 3]);
}

#[tokio::test]
async fn what_no_row_holds_is_of_a_pool_too() {
    let server = server();
    put_pool(&server, &[]);
    server.put(pod("web-9", 9));
    let snapshot = dump(&server).read().unwrap();
    for pool in [POOL, "default/10.0.0.0-24"] {
        let filter = Filter {
            pool: Some(pool.to_owned()),
            ..Filter::default()
        };
        let report = audit(&snapshot, &Policy::default(), &filter);
        assert_eq!(problems(&report), ["in-use-unallocated 10.0.0.9"]);
    }
}

/// As of the IPPools of one namespace, and the pods of all.
#[test]
fn a_pool_that_files_lack_may_hold_what_a_pod_uses() {
    let server = server();
    let elsewhere = fixtures::pool("elsewhere", "10.1.0.0/24").network_name("blue");
    server.put(elsewhere);
    let blue = json!({ "range": "10.1.0.0/24", "network_name": "blue" });
    define(&server, "blue", &blue);
    server.put(pod("web-9", 9));
    assert_eq!(dump(&server).judged().findings, []);
    put_pool(&server, &[]);
    let report = dump(&server).judged();
    assert_eq!(problems(&report), ["in-use-unallocated 10.0.0.9"]);
}

#[tokio::test]
async fn a_row_in_a_slice_s_pool_is_found() {
    let server = bare();
    put_slices(&server, &[("n1", "10.0.0.0/24")]);
    let name = "blue-n1-10.0.0.0-24";
    let pool = fixtures::pool(NS, RANGE).name(name);
    server.put(pool.row_of(5, "default/a1"));
    reserve(&server, "blue-10.0.0.5", "default/a1");
    server.put(on("a1", &["net"]));
    assert_eq!(report(&server).await.findings, []);
    server.put(on("a2", &["net"]));
    let report = report(&server).await;
    let found = [Problem::InUseTwice, Problem::InUseUnallocated];
    assert_eq!(kinds_of(&report), found);
    let mut findings = report.findings.iter();
    assert!(findings.all(|it| it.pool.as_deref() == Some(name)));
}

/// Ranges that overlap without reservations give one address twice, and are meant to.
#[tokio::test]
async fn who_does_not_reserve_shares_with_other_pools() {
    let server = bare();
    for (name, range, reserves) in [
        ("a", RANGE, false),
        ("b", "10.0.0.0/16", false),
        ("c", "10.0.0.0/20", true),
    ] {
        let keys = json!({ "range": range, "enable_overlapping_ranges": reserves });
        define(&server, name, &keys);
        let owner = format!("{NS}/{name}1");
        server.put(fixtures::pool(NS, range).row_of(5, &owner));
        server.put(on(&format!("{name}1"), &[name]));
    }
    reserve(&server, "10.0.0.5", "default/c1");
    assert_eq!(report(&server).await.findings, []);
    // Of one pool it is nobody's but one pod's.
    server.put(on("b2", &["b"]));
    let report = report(&server).await;
    assert_eq!(report.findings[0].pods, ["default/b1", "default/b2"]);
    assert_eq!(report.findings[0].pool.as_deref(), Some("10.0.0.0-16"));
    assert_eq!(report.findings.len(), 2);
}

fn deleted(pod: &mut Value) {
    pod["metadata"]["deletionTimestamp"] = MADE.into();
    pod["metadata"]["finalizers"] = json!(["x/y"]);
}

fn ended(pod: &mut Value) {
    let ended = json!({ "terminated": { "exitCode": 0, "startedAt": MADE, "finishedAt": MADE } });
    pod["status"]["containerStatuses"] = json!([{ "name": "main", "state": ended }]);
}

/// Its row and its reservation go while all is read.
#[tokio::test]
async fn whoever_goes_has_given_back_what_it_reports() {
    let changes: [fn(&mut Value); 2] = [deleted, ended];
    for change in changes {
        let server = server();
        put_pool(&server, &[(1, "default/web-1")]);
        server.put(pod("web-1", 1).with(change));
        server.put(pod("idle-2", 2).with(change));
        unreserve(&server, "10.0.0.1");
        assert_eq!(report(&server).await.findings, []);
        server.put(pod("web-2", 1));
        let offline = dump(&server).judged();
        assert_eq!(problems(&offline), ["in-use-unallocated 10.0.0.1"]);
        assert_eq!(only(&offline).pods, ["default/web-2"]);
    }
}

#[tokio::test]
async fn a_duplicate_is_looked_at_again() {
    let server = server();
    put_pool(&server, &[(1, "default/web-1")]);
    for name in ["web-1", "web-2"] {
        server.put(pod(name, 1));
    }
    let before = live(&server).await.unwrap();
    assert_eq!(kinds_of(&before)[0], Problem::InUseTwice);
    // The pod that looked alive had ended, and its phase says so by now.
    let list = server.on(Match::list("nodes")).once();
    list.before(|server| async move {
        server.put(pod("web-1", 1).ended("Succeeded"));
        server.edit("ippools", NS, POOL, |pool| {
            pool["spec"]["allocations"]["1"] =
                fixtures::row(&fixtures::sandbox(2), "default/web-2", "net1");
        });
    });
    let report = live(&server).await.unwrap();
    assert_eq!(report.findings, []);
}

#[test]
fn whoever_may_be_younger_than_the_pools_of_a_dump_is_unknown() {
    let server = server();
    put_pool(&server, &[]);
    server.put(pod("young", 9));
    reserve(&server, "10.0.0.9", "default/young");
    let report = dump(&server).judged();
    assert_eq!(problems(&report), ["unknown 10.0.0.9"]);
    assert!(only(&report).detail.contains("younger than the IPPools"));
    reserve(&server, "10.0.0.9", "default/other");
    let report = dump(&server).judged();
    let found = ["in-use-twice 10.0.0.9", "in-use-unallocated 10.0.0.9"];
    assert_eq!(problems(&report), found);
}

#[tokio::test]
async fn an_address_of_two_pods_that_live_is_a_duplicate() {
    let server = server();
    let keys = json!({ "range": RANGE, "network_name": "blue" });
    define(&server, "blue", &keys);
    put_pool(&server, &[LIVE]);
    server.put(pod("web-1", 1));
    // In another network it is another address, and none of whereabouts' where nobody knows the network.
    let elsewhere = |name, net| on_net(net, name, "10.0.0.1").node("n1").running();
    server.put(elsewhere("other", "unknown"));
    let blue = fixtures::pool(NS, RANGE).network_name("blue");
    server.put(blue.row(1, &fixtures::sandbox(7), "default/blue-1", "net1"));
    reserve(&server, "blue-10.0.0.1", "default/blue-1");
    server.put(elsewhere("blue-1", "blue"));
    assert_eq!(report(&server).await.findings, []);
    server.put(pod("web-2", 1).node("n2"));
    server.put(fixtures::node("n2", true));
    let report = report(&server).await;
    let found = ["in-use-twice 10.0.0.1", "in-use-unallocated 10.0.0.1"];
    assert_eq!(problems(&report), found);
    assert_eq!(report.findings[0].pods, ["default/web-1", "default/web-2"]);
    assert_eq!(
        *report.findings[0].nodes,
        ["n1", "n2"].map(Box::<str>::from)
    );
    assert_eq!(report.findings[0].pool.as_deref(), Some(POOL));
    assert_says(&report.findings[1].detail, "is another's");
}

#[tokio::test]
async fn addresses_of_other_plugins_are_none_of_ours() {
    let server = server();
    put_pool(&server, &[]);
    let ipam = json!({ "type": "host-local" });
    server.put(fixtures::nad_with_ipam(NS, "bridge", &ipam));
    server.put(on_net("bridge", "other", "10.0.0.7").node("n1").running());
    assert_eq!(report(&server).await.findings, []);
}

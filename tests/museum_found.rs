//! The museum, third room (docs/museum.md): faults that public reports and reviews showed in ipgc itself.
//! Each with a neighbour whose row goes meanwhile, so that nothing passes by doing nothing.

use crate::prelude::*;

/// A server with the pool, the neighbour, and `node-1` at work.
fn room() -> (Server, Beat) {
    let server = with_neighbour(&[]);
    let beat = live_node(&server, "node-1");
    (server, beat)
}

async fn room_with_a_collector() -> (Bench, Beat) {
    let (server, beat) = room();
    (Bench::start(server).await, beat)
}

/// A pod that lives reports row 1; row 2 has the id of one of its containers.
#[rstest]
#[case::running("containerStatuses", json!({"name": "main", "containerID": format!("containerd://{}", fixtures::sandbox(2)), "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}))]
#[case::init_that_ended("initContainerStatuses", json!({"name": "init", "state": {"terminated": {"containerID": fixtures::sandbox(2), "startedAt": "2026-01-01T00:00:00Z"}}}))]
#[tokio::test(start_paused = true)]
async fn m4_01_id_of_a_container_in_the_row(#[case] of: &str, #[case] status: Value) {
    let (server, _beat) = room();
    server.put(reporting("web-0", 1).node("node-1").running());
    put_row(&server, 1, "web-0", 1);
    put_row_on(&server, POOL, 2, "web-0", "net2", 2);
    // The row of an earlier sandbox is freed.
    put_row(&server, 3, "web-0", 3);
    server.edit("pods", NS, "web-0", |pod| {
        pod["status"][of] = json!([status]);
    });
    let bench = Bench::start(server).await;
    goes_after(&bench, POOL, "3", 3_600).await;
    stays(&bench, POOL, &["1", "2"]).await;
}

/// Two pods run that report one address, of which `web-0` has the row.
async fn run_both(bench: &Bench) {
    for name in ["web-0", "web-1"] {
        run_on(bench, "node-1", name, 1);
    }
    put_row(bench, 1, "web-0", 1);
    seconds(600).await;
}

/// Two pods that live report one address; the row is of the one that ends well.
#[tokio::test(start_paused = true)]
async fn m4_02_two_pods_report_one_address() {
    let (bench, _beat) = room_with_a_collector().await;
    run_both(&bench).await;
    bench.end(["web-0"]);
    stays(&bench, POOL, &["1"]).await;
    let told = pool_events(&bench, "IPAddressInUseTwice");
    assert!(told[0].contains("10.0.0.1"), "{told:?}");
    assert!(told[0].contains("default/web-1"), "{told:?}");
    // It goes soon after the last of them.
    bench.end(["web-1"]);
    goes_in(&bench, POOL, "1", 2..=60).await;
}

/// The other pod was forced away: the row waits for what that is worth.
#[tokio::test(start_paused = true)]
async fn m4_02_the_other_pod_is_forced_away() {
    let (bench, _beat) = room_with_a_collector().await;
    run_both(&bench).await;
    bench.delete("pods", NS, "web-1");
    bench.end(["web-0"]);
    goes_in(&bench, POOL, "1", 210..=600).await;
}

/// The same number in another network, or by another IPAM, is another address.
#[rstest]
#[case::another_network(json!({"type": "whereabouts", "range": "10.0.0.0/24", "network_name": "red"}))]
#[case::another_ipam(json!({"type": "host-local", "subnet": "10.0.0.0/24"}))]
#[tokio::test(start_paused = true)]
async fn m4_02_the_same_number_in_another_network(#[case] ipam: Value) {
    let (server, _beat) = room();
    server.put(fixtures::nad_with_ipam(NS, "red", &ipam));
    let bench = Bench::start(server).await;
    run_on(&bench, "node-1", "web-0", 1);
    bench.put(on_net("red", "web-1", "10.0.0.1").running());
    put_row(&bench, 1, "web-0", 1);
    seconds(600).await;
    bench.end(["web-0"]);
    assert!(goes_after(&bench, POOL, "1", 60).await <= 5);
}

/// The row of a predecessor goes by rule 6, and its reservation with it. Where the pod's status is not complete, both may
/// be its own.
#[rstest]
#[case::complete("default/net")]
#[case::incomplete("default/net,default/old")]
#[tokio::test(start_paused = true)]
async fn m4_04_reservation_of_a_row_that_goes_while_its_pod_runs(#[case] networks: &str) {
    let (bench, _beat) = room_with_a_collector().await;
    run_on(&bench, "node-1", "web-0", 1);
    put_row(&bench, 1, "web-0", 1);
    reserve(&bench, "10.0.0.1", "web-0");
    seconds(600).await;
    // Forced away, so that the row waits, and is seen while the pod is absent.
    bench.delete("pods", NS, "web-0");
    seconds(60).await;
    let again = reporting("web-0", 2).uid(SECOND).networks(networks);
    bench.put(again.running());
    put_row(&bench, 2, "web-0", 2);
    if networks.contains(',') {
        stays(&bench, POOL, &["1", "2"]).await;
        assert_eq!(bench.reservations(), ["10.0.0.1"]);
        return;
    }
    goes_after(&bench, POOL, "1", 3_600).await;
    seconds(120).await;
    assert_eq!(bench.reservations(), [""; 0]);
    stays(&bench, POOL, &["2"]).await;
}

/// A StatefulSet's pod comes back with the host's network, in another network, or with another IPAM.
#[rstest]
#[case::host_network(fixtures::pod(NS, "web-0").with(|pod| pod["spec"]["hostNetwork"] = true.into()))]
#[case::no_further_network(fixtures::pod(NS, "web-0").reports_default(&["10.244.0.9"]))]
#[case::the_same_number_in_another_network(fixtures::pod(NS, "web-0").networks("default/red").reports("default/red", "net1", &["10.0.0.1"]))]
#[case::the_same_number_by_another_ipam(fixtures::pod(NS, "web-0").networks("default/local").reports("default/local", "net1", &["10.0.0.1"]))]
#[tokio::test(start_paused = true)]
async fn m4_15_name_that_left_the_network(#[case] again: fixtures::PodBuilder) {
    let (server, _beat) = room();
    put_network(&server, "red", "red", RANGE);
    let local = json!({"type": "host-local"});
    server.put(fixtures::nad_with_ipam(NS, "local", &local));
    server.put(fixtures::pool(NS, RANGE).network_name("red"));
    let config = Config::default().with(|it| it.sweep_interval = Duration::from_mins(5));
    let bench = Bench::with(server, config).await;
    run_on(&bench, "node-1", "web-0", 1);
    put_row(&bench, 1, "web-0", 1);
    reserve(&bench, "10.0.0.1", "web-0");
    // A sweep sees the row while its pod lives.
    seconds(900).await;
    bench.end(["web-0"]);
    let again = again.node("node-1").uid(SECOND).running().build();
    let in_red = again.to_string().contains("default/red");
    bench.put(again);
    if in_red {
        put_row_on(&bench, "red-10.0.0.0-24", 1, "web-0", "net1", 2);
        reserve(&bench, "red-10.0.0.1", "web-0");
    }
    goes_in(&bench, POOL, "1", 600..=3_600).await;
    seconds(120).await;
    let left: &[&str] = if in_red { &["red-10.0.0.1"] } else { &[] };
    assert_eq!(bench.reservations(), left);
    stays(&bench, "red-10.0.0.0-24", if in_red { &["1"] } else { &[] }).await;
}

/// The pod before it ended while ipgc did not run.
#[tokio::test(start_paused = true)]
async fn m4_15_name_that_left_the_network_before_ipgc_began() {
    let (server, _beat) = room();
    put_row(&server, 1, "web-0", 1);
    reserve(&server, "10.0.0.1", "web-0");
    reserve(&server, "10.0.0.7", "web-0");
    let again = fixtures::pod(NS, "web-0").node("node-1").running();
    server.put(again.with(|pod| pod["spec"]["hostNetwork"] = true.into()));
    let bench = Bench::start(server).await;
    goes_in(&bench, POOL, "1", 300..=3_600).await;
    seconds(900).await;
    assert_eq!(bench.reservations(), [""; 0]);
}

/// Whereabouts serves the first interface, and no entry of the status tells it.
#[tokio::test(start_paused = true)]
async fn m4_16_address_in_pod_ips_alone() {
    let (server, _beat) = room();
    let pod = reporting("web-0", 1).node("node-1").running();
    let pod = pod.with(|pod| pod["status"]["podIPs"] = json!([{"ip": "10.0.0.2"}]));
    server.put(pod);
    put_row(&server, 1, "web-0", 1);
    put_row_on(&server, POOL, 2, "web-0", "eth0", 2);
    put_row_on(&server, POOL, 3, "web-0", "net3", 3);
    let bench = Bench::start(server).await;
    // The row of the first interface has another id: nothing can be said of the third one then.
    stays(&bench, POOL, &["1", "2", "3"]).await;
}

/// The pod of the row is gone, and the row's id is the sandbox of another pod that lives.
#[tokio::test(start_paused = true)]
async fn m4_17_id_of_another_pods_sandbox() {
    let (bench, _beat) = room_with_a_collector().await;
    run_on(&bench, "node-1", "web-0", 1);
    put_row(&bench, 1, "web-0", 1);
    // A sweep sees whose sandbox it is.
    seconds(900).await;
    put_row_on(&bench, POOL, 2, "gone", "net2", 1);
    stays(&bench, POOL, &["1", "2"]).await;
    let told = pool_events(&bench, "IPAddressInUseTwice");
    assert!(told[0].contains("10.0.0.2"), "{told:?}");
}

/// A virtual machine's migration makes a pod with a name of its own: no longer wait for names that return.
#[tokio::test(start_paused = true)]
async fn m4_17_pods_of_a_virtual_machine_never_return() {
    let (server, _beat) = room();
    let vm = |pod: fixtures::PodBuilder| {
        pod.with(|pod| {
            pod["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
                "name": "vm", "uid": "vm-uid", "controller": true,
            }]);
        })
    };
    server.put(vm(reporting("virt-launcher-vm-a", 1).node("node-1")).running());
    put_row(&server, 1, "virt-launcher-vm-a", 1);
    let bench = Bench::start(server).await;
    // Right after the start of ipgc: of a name that returns, nobody would know who had it before.
    seconds(10).await;
    bench.end(["virt-launcher-vm-a"]);
    assert!(goes_after(&bench, POOL, "1", 60).await <= 5);
    assert_eq!(bench.sent(Match::patch("ippools")).len(), 1);
}

/// Rows that are held although no pod at work reports them took a range for good, and were counted as live.
#[tokio::test(start_paused = true)]
async fn m4_18_rows_that_are_held_and_not_reported_are_shown() {
    let (server, _beat) = room();
    server.put(fixtures::node("node-2", false));
    for (offset, name) in (1..).zip(["rejected", "terminating", "unplugged", "unplugged"]) {
        put_row_on(&server, POOL, offset, name, "net1", offset.min(3));
    }
    let rejected = reporting("rejected", 1).node("node-1");
    server.put(rejected.status(json!({"phase": "Failed"})));
    let terminating = reporting("terminating", 2).node("node-2").running();
    let deleted = |pod: &mut Value| {
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    };
    server.put(terminating.with(deleted));
    server.put(reporting("unplugged", 3).node("node-1").running());
    let bench = Bench::start(server).await;
    stays(&bench, POOL, &["1", "2", "3", "4"]).await;
    let scrape = Scrape::of(&bench.running);
    let rows = ["live", "unreported", "stale", "unfenced"].map(|verdict| scrape.rows(verdict));
    assert_eq!(rows, [1.0, 3.0, 0.0, 0.0].map(Some));
}

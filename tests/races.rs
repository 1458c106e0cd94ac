//! Races between a pod's end, its successors and our own view of them, each with the one course of
//! events that would free a live address or lose a delete.

use crate::prelude::*;

#[track_caller]
fn no_reservations(bench: &Bench) {
    assert_eq!(bench.reservations(), [""; 0], "\n{}", bench.requests());
}

/// The pool has no row any more.
#[track_caller]
fn no_rows(bench: &Bench, pool: &str) {
    assert_eq!(bench.rows(pool), [""; 0], "\n{}", bench.requests());
}

/// The pod ends well, and nothing is heard of its successor until the moment of the proof. Then the
/// watch shows that it was born, and the proof that nobody is there any more.
#[tokio::test(start_paused = true)]
async fn an_incarnation_whose_end_is_on_its_way_keeps_its_row() {
    let bench = Bench::long_since(server(), Config::default()).await;
    put_running(&bench, &[(1, "web-1")]);
    put_neighbour(&bench, POOL);
    seconds(1).await;
    let births = bench.on_events(Match::watch("pods")).name("web-1");
    let births = births.kind(ChangeKind::Added).hold();
    let deaths = bench.on_events(Match::watch("pods")).name("web-1");
    let proof = bench.on(Match::get("pods").name("web-1")).once();
    let proof = proof.before(move |server| {
        births.remove();
        async move {
            seconds(1).await;
            Kubelet::new(&server).force_delete(NS, "web-1");
        }
    });
    bench.end(["web-1", NEIGHBOUR]);
    bench.put(second("web-1", 1));
    adopt(&bench, POOL, "1");
    sleep(Duration::from_millis(500)).await;
    // From here on: the end of its predecessor is told.
    let late = deaths.kind(ChangeKind::Deleted);
    let late = late.delay(Duration::from_secs(3));
    seconds(2).await;
    let told = bench.counted("ends_seen");
    seconds(28).await;
    assert_eq!(proof.hits(), 1, "nobody asked {}", bench.requests());
    assert_eq!(late.hits(), 1);
    assert_eq!(bench.counted("ends_seen"), told + 1);
    let waited = 30 + goes_after(&bench, POOL, "1", W + 60).await;
    assert!(waited >= W, "freed {waited} s after its end");
    assert!(bench.rows(POOL).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_successor_that_never_ran_leaves_the_rows_to_be_freed() {
    let bench = Bench::start(running(&[(1, "web-1")])).await;
    seconds(1).await;
    bench.end(["web-1"]);
    let young = fixtures::pod(NS, "web-1").uid(SECOND);
    bench.put(young.networks("default/net"));
    seconds(10).await;
    bench.kubelet().force_delete(NS, "web-1");
    seconds(7200).await;
    no_rows(&bench, POOL);
}

#[tokio::test(start_paused = true)]
async fn a_successor_on_a_whereabouts_default_network_keeps_its_row() {
    let server = server();
    put_pool(&server, &[(1, "web-1")]);
    let a = fixtures::pod(NS, "web-1").node("node-1");
    let a = a.annotation("v1.multus-cni.io/default-network", "default/net");
    let reports = a.clone().reports("default/net", "net1", &["10.0.0.1"]);
    server.put(reports.running());
    let bench = Bench::start(server).await;
    seconds(1).await;
    bench.end(["web-1"]);
    bench.put(a.uid(SECOND));
    adopt(&bench, POOL, "1");
    seconds(1).await;
    bench.kubelet().force_delete(NS, "web-1");
    seconds(10).await;
    assert_eq!(bench.rows(POOL), ["1"], "\n{}", bench.requests());
}

#[tokio::test(start_paused = true)]
async fn a_job_of_another_api_group_may_come_back_under_its_name() {
    let server = server();
    put_pool(&server, &[(1, "web-1")]);
    let pod = reporting("web-1", 1).owner("Job", "web").with(|pod| {
        pod["metadata"]["ownerReferences"][0]["apiVersion"] = "batch.volcano.sh/v1alpha1".into();
    });
    server.put(pod.running());
    let bench = Bench::start(server).await;
    seconds(1).await;
    bench.end(["web-1"]);
    seconds(600).await;
    assert!(bench.reservations().is_empty());
    let claims = bench.sent(Match::patch(ORIP));
    assert_eq!(claims.len(), 1, "{}", bench.requests());
}

#[tokio::test(start_paused = true)]
async fn a_slice_that_was_cut_after_the_last_list_is_found() {
    let server = Server::new();
    put_sliced(&server, "net");
    let slices = [("node-1", "10.8.3.0/24"), ("node-2", "10.8.4.0/24")];
    put_slices(&server, "kube-system", &slices[..1]);
    let bench = Bench::start(server).await;
    let put = |node: &str, range: &str, pod: &str, ip: &str| {
        let name = format!("sliced-{node}-{}", range.replace('/', "-"));
        let pool = fixtures::pool(NS, range).name(&name);
        bench.put(pool.row_of(1, &format!("default/{pod}")));
        bench.put(on_net("net", pod, ip).node(node).running());
        name
    };
    let one = put("node-1", "10.8.3.0/24", "web-0", "10.8.3.1");
    seconds(1).await;
    bench.end(["web-0"]);
    bench.wait_rows(&one, &[]).await;
    seconds(60).await;
    put_slices(&bench, "kube-system", &slices);
    let two = put("node-2", "10.8.4.0/24", "web-1", "10.8.4.1");
    seconds(60).await;
    bench.end(["web-1"]);
    seconds(7200).await;
    no_rows(&bench, &two);
}

#[tokio::test(start_paused = true)]
async fn what_was_begun_is_ended_though_its_definition_is_gone() {
    let bench = Bench::start(running(&[(1, "web-1")])).await;
    seconds(1).await;
    bench.on(Match::patch(ORIP)).once().after(|s| async move {
        s.on(Match::get("pods")).once().fail(503);
        s.delete(NADS, NS, "net");
    });
    bench.end(["web-1"]);
    seconds(7200).await;
    no_reservations(&bench);
}

#[tokio::test(start_paused = true)]
async fn a_restart_does_not_forget_that_somebody_unseen_may_hold_the_row() {
    let server = with_neighbour(&[(1, "web-1")]);
    run_pod(&server, "web-1", 1);
    let first = Bench::start(server.clone()).await;
    seconds(1).await;
    first.kubelet().force_delete(NS, "web-1");
    server.put(second("web-1", 1));
    adopt(&server, POOL, "1");
    first.stop().await;
    let bench = Bench::start(server).await;
    seconds(5).await;
    assert_eq!(bench.rows(POOL), ["1", NEIGHBOUR_KEY]);
    bench.end(["web-1", NEIGHBOUR]);
    seconds(30).await;
    // The neighbour's name never returns, so nobody unseen can hold its row.
    assert_eq!(bench.rows(POOL), ["1"], "\n{}", bench.requests());
    // Nor is it for ever.
    goes_after(&bench, POOL, "1", W + 60).await;
}

#[tokio::test(start_paused = true)]
async fn a_bare_404_is_no_word_about_a_reservation() {
    let bench = Bench::start(running(&[(1, "web-1")])).await;
    seconds(1).await;
    bench.on(Match::delete(ORIP)).once().fail(404);
    bench.end(["web-1"]);
    seconds(7200).await;
    no_reservations(&bench);
}

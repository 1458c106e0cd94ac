//! Rows of ResourceClaims, as DRANET writes them, with `--resource-claims`.

use ipgc::core::{evidence::Unfenced, reservation::CLAIMED_PODREF};

use crate::prelude::*;

/// DRANET 1.4 writes this podref for each claim.
const PLACEHOLDER: &str = "default/pod-whereabouts";

/// W of three DELs.
const CLAIM_W: u64 = W + 120;

fn uid(number: u64) -> String {
    format!("0a1b2c3d-0a1b-0a1b-0a1b-{number:012x}")
}

/// The claim of this number, which reports this address.
fn put_claim(server: &Server, number: u64, address: &str) {
    server.put(json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": format!("claim-{number}"), "namespace": "apps", "uid": uid(number)},
        "status": {"devices": [{"driver": "dra.net", "networkData": {"ips": [format!("{address}/24")]}}, {"driver": "gpu"}]}
    }));
}

/// The rows of claims 1 and 2 with their reservations, the claims, and the neighbour.
fn two_claims() -> Server {
    let server = server();
    let mut pool = fixtures::pool(NS, RANGE);
    for number in [1, 2] {
        let address = format!("10.0.0.{number}");
        pool = pool.row(number, &uid(number), PLACEHOLDER, "dra1");
        put_claim(&server, number, &address);
        let mut reservation = fixtures::reservation(NS, &address, PLACEHOLDER, "dra1");
        reservation["spec"]["containerid"] = uid(number).into();
        server.put(reservation);
    }
    server.put(pool);
    put_neighbour(&server, POOL);
    server
}

async fn bench(server: Server) -> Bench {
    Bench::long_since(
        server,
        Config::default().with(|it| it.resource_claims = true),
    )
    .await
}

/// The same, with a node at work and a collector.
async fn two_followed() -> (Bench, Beat) {
    let server = two_claims();
    let beat = live_node(&server, "node-1");
    (bench(server).await, beat)
}

/// As far as the other claim is read it can be read.
fn spoil(claim: &mut Value) {
    claim["metadata"]["managedFields"] = far_fields();
    claim["status"]["allocation"] = (0..200).fold(json!({}), |it, _| json!({ "deep": it }));
}

#[rstest]
#[case::beside_another(|_: &mut Value| {})]
#[case::beside_one_with_a_time_that_cannot_be_told(spoil)]
#[tokio::test(start_paused = true)]
async fn the_row_of_a_claim_that_is_gone_goes_after_w_and_its_reservation_too(
    #[case] change: fn(&mut Value),
) {
    let server = two_claims();
    assert!(server.edit("resourceclaims", "apps", "claim-2", change));
    let _beat = live_node(&server, "node-1");
    let bench = bench(server).await;
    assert_eq!(bench.rows(POOL), ["1", "2", NEIGHBOUR_KEY]);
    bench.delete("resourceclaims", "apps", "claim-1");
    // A sweep finds it within five minutes and a half.
    goes_in(&bench, POOL, "1", CLAIM_W..=330 + CLAIM_W + 120).await;
    let events = pool_events(&bench, "IPAddressGarbageCollected");
    assert!(events[0].contains("10.0.0.1"), "{events:?}");
    stays(&bench, POOL, &["2"]).await;
    assert_eq!(bench.reservations(), ["10.0.0.2"]);
}

/// Its ADD wrote no row.
#[rstest]
#[case::without_the_flag(false)]
#[case::with_it(true)]
#[tokio::test(start_paused = true)]
async fn a_reservation_without_a_row_stays_as_long_as_a_claim_may_report_its_address(
    #[case] flag: bool,
) {
    let server = two_claims();
    put_claim(&server, 3, "10.0.0.9");
    server.put(fixtures::reservation(NS, "10.0.0.9", PLACEHOLDER, "dra1"));
    let _beat = live_node(&server, "node-1");
    let config = Config::default().with(|it| it.resource_claims = flag);
    let bench = Bench::long_since(server, config).await;
    let is_there = || bench.reservations().iter().any(|it| it == "10.0.0.9");
    seconds(7_200).await;
    assert!(is_there());
    bench.delete("resourceclaims", "apps", "claim-3");
    seconds(CLAIM_W).await;
    assert!(is_there());
    seconds(2_000).await;
    assert_eq!(is_there(), !flag);
}

/// An ADD had accepted it before it was marked, and wrote no row.
#[tokio::test(start_paused = true)]
async fn a_claim_that_reports_the_address_after_the_mark_gets_the_reservation_back() {
    let (bench, _beat) = two_followed().await;
    bench.put(fixtures::reservation(NS, "10.0.0.9", PLACEHOLDER, "dra1"));
    let owner = || podref(&bench, "10.0.0.9");
    for _ in 0..2_000 {
        if owner() == CLAIMED_PODREF {
            break;
        }
        seconds(1).await;
    }
    assert_eq!(owner(), CLAIMED_PODREF);
    put_claim(&bench, 3, "10.0.0.9");
    seconds(600).await;
    assert_eq!(owner(), PLACEHOLDER);
}

/// The pod was forced away, and its claim went with it: its sandbox may run on.
#[tokio::test(start_paused = true)]
async fn a_node_that_falls_silent_holds_it_until_it_is_fenced() {
    let server = two_claims();
    let _beat = live_node(&server, "node-1");
    let other = live_node(&server, "node-2");
    let bench = bench(server).await;
    fall_silent(&bench, "node-2", other);
    bench.delete("resourceclaims", "apps", "claim-1");
    stays(&bench, POOL, &["1", "2"]).await;
    let held = pool_events(&bench, "IPAddressHeldUnfenced");
    assert!(held[0].contains("node-2"), "{held:?}");
    taint(&bench, "node-2");
    goes_after(&bench, POOL, "1", 900).await;
    assert_eq!(bench.rows(POOL), ["2"]);
}

/// The watch of nodes is dead without an error, and a node joins. Its pod was forced away.
#[tokio::test(start_paused = true)]
async fn a_node_that_no_watch_told_holds_it() {
    let (bench, _beat) = two_followed().await;
    bench.on_events(Match::watch("nodes")).lose();
    silent_node(&bench, "node-2");
    bench.delete("resourceclaims", "apps", "claim-1");
    stays(&bench, POOL, &["1", "2"]).await;
}

/// In an outage of many nodes a look at many such rows takes no time worth speaking of.
#[tokio::test(start_paused = true)]
async fn many_silent_nodes_cost_no_time() {
    let server = server();
    let mut pool = fixtures::pool(NS, RANGE);
    for number in 1..=200 {
        pool = pool.row(number, &uid(number), PLACEHOLDER, "dra1");
    }
    server.put(pool);
    for number in 0..1_000 {
        silent_node(&server, &format!("node-{number}"));
    }
    let begun = std::time::Instant::now();
    let bench = bench(server).await;
    assert_eq!(bench.rows(POOL).len(), 200);
    let took = begun.elapsed();
    assert!(took.as_secs() < 150, "an hour took {took:?}");
}

/// Without the flag no claim is read.
#[rstest]
#[case::without_the_flag(None)]
#[case::forbidden(Some(403))]
#[case::missing(Some(404))]
#[case::failed(Some(500))]
#[case::away(Some(503))]
#[tokio::test(start_paused = true)]
async fn an_error_is_no_absence(#[case] code: Option<u16>) {
    let server = two_claims();
    let _beat = live_node(&server, "node-1");
    let lists = Match::list("resourceclaims");
    if let Some(code) = code {
        server.on(lists.clone()).fail(code);
    }
    let config = Config::default().with(|it| it.resource_claims = code.is_some());
    let bench = Bench::long_since(server, config).await;
    bench.delete("resourceclaims", "apps", "claim-1");
    stays(&bench, POOL, &["1", "2"]).await;
    assert_eq!(bench.sent(lists).is_empty(), code.is_none());
}

/// The list of the sweep did not have it; that of the proof does.
#[tokio::test(start_paused = true)]
async fn a_claim_that_only_the_proof_sees_keeps_its_row() {
    let (bench, _beat) = two_followed().await;
    bench.delete("resourceclaims", "apps", "claim-1");
    let lists = || bench.sent(Match::list("resourceclaims")).len();
    let before = lists();
    while lists() == before {
        seconds(1).await;
    }
    put_claim(&bench, 1, "10.0.0.1");
    stays(&bench, POOL, &["1", "2"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_reports_the_address_keeps_the_row_of_another() {
    let server = two_claims();
    put_claim(&server, 3, "10.0.0.1");
    let _beat = live_node(&server, "node-1");
    let bench = bench(server).await;
    bench.delete("resourceclaims", "apps", "claim-1");
    stays(&bench, POOL, &["1", "2"]).await;
    bench.delete("resourceclaims", "apps", "claim-3");
    goes_after(&bench, POOL, "1", 330 + CLAIM_W + 120).await;
}

/// Later versions of DRANET write the podref of a pod, and its name may never return. Its sandbox may run on any node.
#[tokio::test(start_paused = true)]
async fn of_a_pod_whose_name_never_returns_it_goes_by_the_cap() {
    let server = two_claims();
    let _beat = live_node(&server, "node-1");
    let other = live_node(&server, "node-2");
    let pod = reporting("web-3", 3).owner("ReplicaSet", "web");
    server.put(pod.node("node-1").running());
    put_claim(&server, 3, "10.0.0.3");
    server.edit("ippools", NS, POOL, |pool| {
        pool["spec"]["allocations"]["3"] = fixtures::row(&uid(3), "default/web-3", "dra1");
    });
    let config = Config::default().with(|it| {
        it.resource_claims = true;
        it.policy.unfenced = Unfenced::FreeAfter(Duration::from_mins(10));
    });
    let bench = Bench::long_since(server, config).await;
    fall_silent(&bench, "node-2", other);
    bench.kubelet().force_delete(NS, "web-3");
    bench.delete("resourceclaims", "apps", "claim-3");
    goes_in(&bench, POOL, "3", 600..=1_000).await;
}

/// The first proof that the claim is gone was long ago. Meanwhile another claim had the address, and its sandbox may answer
/// yet.
#[tokio::test(start_paused = true)]
async fn a_claim_that_reported_the_address_since_begins_the_wait_anew() {
    let (bench, _beat) = two_followed().await;
    bench.delete("resourceclaims", "apps", "claim-1");
    // A sweep found that.
    seconds(310).await;
    put_claim(&bench, 3, "10.0.0.1");
    // What waits for a node at work keeps its Lease read.
    for number in 4..20 {
        let name = format!("web-{number}");
        bench.put(reporting(&name, number).node("node-1").running());
        put_row(&bench, number, &name, number);
        seconds(60).await;
        bench.kubelet().force_delete(NS, &name);
        seconds(120).await;
    }
    bench.delete("resourceclaims", "apps", "claim-3");
    goes_in(&bench, POOL, "1", CLAIM_W..=330 + CLAIM_W + 120).await;
}

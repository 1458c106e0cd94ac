//! Objects that nobody should have written: no panic, no free of what cannot be read, a counter
//! that moves, and the neighbour's row goes all the same.

use crate::prelude::*;

const MEGABYTE: usize = 1_000_000;
const ODD: &str = "default/odd";

/// A pool with the good row 1 of `good`, and this row under this key.
fn put_with(server: &Server, key: &str, row: Value) {
    let pool = fixtures::pool(NS, RANGE);
    let pool = pool.row_of(1, "default/good");
    server.put(pool.raw_row(key, row));
    run_pod(server, "good", 1);
}

/// The same with the row 2 of `odd`, which says nothing odd.
fn put_odd(server: &Server) {
    put_with(server, "2", row_of(ODD));
}

/// A row of this pod that says nothing odd.
fn row_of(podref: &str) -> Value {
    fixtures::row(&fixtures::sandbox(2), podref, "net1")
}

/// Ends the good pod and the odd one, and waits longer than any wait.
async fn end_both(bench: &Bench) {
    let odd = bench.get("pods", NS, "odd").is_some();
    bench.end(["good"].into_iter().chain(odd.then_some("odd")));
    seconds(600).await;
}

/// Rows of the ended pod `odd` that say nothing which we may act on.
#[rstest]
#[case::short_id("2", json!({"id": "abc", "podref": ODD, "ifname": "net1"}))]
#[case::null_interface("2", json!({"id": fixtures::sandbox(2), "podref": ODD, "ifname": null}))]
#[case::claim_tag("2", json!({"id": fixtures::sandbox(2), "podref": ODD, "ifname": "net1", "claim": "x"}))]
#[case::word_key("two", row_of(ODD))]
#[case::pointer_key("2/id", row_of(ODD))]
#[case::far_key("18446744073709551615", row_of(ODD))]
// Rows without a podref that can be read.
#[case::null("2", json!(null))]
#[case::no_podref("2", json!({"id": fixtures::sandbox(2), "ifname": "net1"}))]
#[case::long("2", row_of(&format!("default/{}", "o".repeat(MEGABYTE))))]
#[case::deep("2", serde_json::from_str(&format!("{}{}", "[".repeat(100), "]".repeat(100))).unwrap())]
#[tokio::test(start_paused = true)]
async fn a_row_that_cannot_be_read_stays_and_is_counted(#[case] key: &str, #[case] row: Value) {
    let server = lenient();
    put_with(&server, key, row.clone());
    run_pod(&server, "odd", 2);
    let bench = Bench::long_since(server, Config::default()).await;
    end_both(&bench).await;
    assert_eq!(bench.rows(POOL), [key]);
    let pool = bench.get("ippools", NS, POOL).unwrap();
    assert_eq!(pool["spec"]["allocations"][key], row);
    assert!(bench.counted("rows_unknown") >= 1);
    assert_eq!(bench.counted("rows_freed"), 1);
    assert_eq!(bench.counted("retries_exhausted"), 0);
}

/// A podref may hold characters that no URL takes. The answer to such a request is not about that pod.
#[rstest]
#[case("default/odd?x=y")]
#[case("default/odd#x")]
#[case("default/o%2e%2e")]
#[case("default/öäü")]
#[case("de fault/odd")]
#[tokio::test(start_paused = true)]
async fn a_pod_with_a_strange_name_that_lives_keeps_its_row(#[case] podref: &str) {
    let (namespace, name) = podref.split_once('/').unwrap();
    let server = lenient();
    put_with(&server, "2", row_of(podref));
    let pod = fixtures::pod(namespace, name).node("n");
    let pod = pod.networks("default/net").running();
    let first = pod.clone();
    server.put(first.reports("default/net", "net1", &["10.0.0.2"]));
    // It lives on under that very name; only the watch is told otherwise.
    let bench = Bench::long_since(server, Config::default()).await;
    bench.put(pod.uid(SECOND));
    end_both(&bench).await;
    assert_eq!(bench.rows(POOL), ["2"]);
}

#[rstest]
#[case::addresses(
    r#"[{"name": "default/net", "interface": "net1", "ips": ["10.0.0.2", "10.0.0.256"]}]"#
)]
#[case::half(r#"[{"name": "default/net", "interface": "net1", "ips": ["10.0.0.2"]"#)]
#[case::deep(&"[".repeat(MEGABYTE))]
#[case::long(&format!("[{}]", "{},".repeat(MEGABYTE / 3)))]
#[tokio::test(start_paused = true)]
async fn a_network_status_that_cannot_be_read_is_no_evidence(#[case] status: &str) {
    let server = lenient();
    put_odd(&server);
    let odd = asking("odd");
    server.put(odd.annotation(fixtures::NETWORK_STATUS, status).running());
    let bench = Bench::long_since(server, Config::default()).await;
    bench.end(["good", "odd"]);
    let ended = Instant::now();
    bench.wait_rows(POOL, &["2"]).await;
    took(ended, ..5.0);
    // A good end, but nobody knows of which row: W and not the cooldown.
    bench.wait_rows(POOL, &[]).await;
    took(ended, 210.0..);
    assert_eq!(bench.counted("annotations_unreadable"), 1);
}

async fn end_good(bench: &Bench) {
    bench.end(["good"]);
    seconds(600).await;
}

#[rstest]
#[case::json("[{")]
#[case::long(&"x,".repeat(MEGABYTE / 2))]
#[case::deep(&"[".repeat(MEGABYTE))]
#[tokio::test(start_paused = true)]
async fn a_request_that_cannot_be_read_leaves_what_was_reported(#[case] request: &str) {
    let server = lenient();
    put_odd(&server);
    server.put(reporting("odd", 2).networks(request).running());
    let bench = Bench::long_since(server, Config::default()).await;
    end_both(&bench).await;
    assert_eq!(bench.rows(POOL), Vec::<String>::new());
    let told = bench.counted("annotations_unreadable") + bench.counted("left_to_sweep");
    assert!(told >= 1);
}

#[rstest]
#[case::empty(json!({"config": ""}))]
#[case::no_config(json!({}))]
#[case::text(json!({"config": "not json"}))]
#[case::no_range(json!({"config": r#"{"type": "macvlan", "ipam": {"type": "whereabouts"}}"#}))]
#[case::bad_range(json!({"config": r#"{"type": "macvlan", "ipam": {"type": "whereabouts", "range": "10.0.0.0/33"}}"#}))]
#[case::long(json!({"config": "x".repeat(MEGABYTE)}))]
#[case::deep(json!({"config": "[".repeat(MEGABYTE)}))]
#[tokio::test(start_paused = true)]
async fn a_definition_that_cannot_be_read_is_left_to_the_sweep_which_needs_none(
    #[case] spec: Value,
) {
    let server = lenient();
    put_odd(&server);
    let mut bad = fixtures::nad(NS, "bad", RANGE);
    bad["spec"] = spec;
    server.put(bad);
    server.put(on_net("bad", "odd", "10.0.0.2").running());
    let bench = Bench::long_since(server, seldom()).await;
    end_both(&bench).await;
    assert_eq!(bench.rows(POOL), ["2"], "no sweep came by");
    assert_eq!(bench.counted("left_to_sweep"), 1);
    bench.relist();
    bench.wait_rows(POOL, &[]).await;
    assert_eq!(bench.counted("retries_exhausted"), 0);
}

/// API servers take them, and an object that cannot be read would fail its list for ever.
#[rstest]
#[case::ready("nodes", "", "node-0", |it: &mut Value| it["status"]["conditions"][0]["lastTransitionTime"] = FAR.into())]
#[case::taint("nodes", "", "node-0", |it: &mut Value| it["spec"]["taints"] = json!([{"key": "x", "effect": "NoSchedule", "timeAdded": FAR}]))]
#[case::node("nodes", "", "node-0", |it: &mut Value| it["metadata"]["managedFields"] = far_fields())]
#[case::renewal("leases", "kube-node-lease", "node-3", |it: &mut Value| it["spec"]["renewTime"] = FAR.into())]
#[case::lease("leases", "kube-node-lease", "node-3", |it: &mut Value| it["metadata"]["managedFields"] = far_fields())]
#[case::definition(NADS, NS, "net", |it: &mut Value| it["metadata"]["managedFields"] = far_fields())]
#[tokio::test(start_paused = true)]
async fn a_time_that_cannot_be_told_holds_up_nobody(
    #[case] resource: &str,
    #[case] namespace: &str,
    #[case] name: &str,
    #[case] change: fn(&mut Value),
    #[values(true, false)] at_start: bool,
) {
    let server = with_neighbour(&[]);
    let _beats = ["node-0", "node-1"].map(|node| live_node(&server, node));
    Kubelet::new(&server).renew_lease("node-3");
    let spoil = || assert!(server.edit(resource, namespace, name, change));
    if at_start {
        spoil();
    }
    let bench = timeout(
        Duration::from_secs(600),
        Bench::with(server.clone(), seldom()),
    );
    let bench = bench.await.expect("it starts");
    if !at_start {
        spoil();
    }
    bench.put(fixtures::nad(NS, "other", RANGE));
    seconds(600).await;
    bench.put(on_net("other", "web-0", "10.0.0.1").running());
    put_row(&bench, 1, "web-0", 1);
    seconds(60).await;
    bench.kubelet().force_delete(NS, "web-0");
    goes_in(&bench, POOL, "1", W..=W + 120).await;
    // Whether time went back is seen by one list for each watch.
    let looks = bench
        .requests()
        .matching(&Match::list(resource))
        .filter(is_look);
    assert!(looks.len() < 10, "{looks}");
}

/// A pool of this range with row 1 of `good`.
fn with_range(range: &str) -> Value {
    json!({"range": range, "allocations": {"1": row_of("default/good")}})
}

/// Pools that are none, or have no rows, or whose range is not what their name says. All have the name of one that is good,
/// so that all are looked at.
#[rstest]
#[case::no_spec(json!(null), None)]
#[case::empty_spec(json!({}), None)]
#[case::null_rows(json!({"range": RANGE, "allocations": null}), None)]
#[case::no_rows(json!({"range": RANGE}), None)]
#[case::number_spec(json!(7), Some("pools_unreadable"))]
#[case::list_rows(json!({"range": RANGE, "allocations": []}), Some("pools_unreadable"))]
#[case::text_rows(json!({"range": RANGE, "allocations": "x"}), Some("pools_unreadable"))]
#[case::bare_range(with_range("10.0.0.0"), Some("rows_unknown"))]
#[case::null_range(json!({"range": null, "allocations": {"1": row_of("default/good")}}), Some("rows_unknown"))]
#[case::long_range(with_range(&"1".repeat(MEGABYTE)), Some("rows_unknown"))]
#[tokio::test(start_paused = true)]
async fn an_odd_pool_keeps_what_it_has_and_no_other(
    #[case] spec: Value,
    #[case] told: Option<&str>,
) {
    let server = lenient();
    put_running(&server, &[(1, "good")]);
    let mut bad = fixtures::pool("another", RANGE).build();
    bad["spec"] = spec.clone();
    server.put(bad);
    let bench = Bench::long_since(server, Config::default()).await;
    end_good(&bench).await;
    assert_eq!(bench.rows(POOL), Vec::<String>::new());
    assert_eq!(bench.told_as_freed(), ["10.0.0.1"]);
    assert_eq!(bench.get("ippools", "another", POOL).unwrap()["spec"], spec);
    assert!(told.is_none_or(|counter| bench.counted(counter) >= 1));
    assert_eq!(bench.counted("retries_exhausted"), 0);
}

/// Pods that are hardly any; their rows are not freed on such a word, and the others are followed.
#[rstest]
#[case::nothing(json!({}), json!({}))]
#[case::null(json!(null), json!(null))]
#[case::phase(json!({"nodeName": "n"}), json!({"phase": "Dreaming"}))]
#[case::state(json!({"nodeName": "n"}), json!({"phase": "Running", "containerStatuses": [{"name": "c", "state": {"paused": {}}}]}))]
#[case::nulls(json!({"nodeName": "n"}), json!({"phase": null, "conditions": null, "containerStatuses": null}))]
#[case::condition(json!({"nodeName": "n"}), json!({"phase": "Failed", "conditions": [{"type": "PodReadyToStartContainers", "status": "Perhaps"}]}))]
#[case::grace(json!({"nodeName": "n", "terminationGracePeriodSeconds": -5}), json!({"phase": "Running"}))]
#[case::long_grace(json!({"nodeName": "n", "terminationGracePeriodSeconds": i64::MAX}), json!({"phase": "Running"}))]
#[tokio::test(start_paused = true)]
async fn an_odd_pod_ends_without_a_word_about_its_sandbox(
    #[case] spec: Value,
    #[case] status: Value,
) {
    let server = lenient();
    put_odd(&server);
    let mut odd = reporting("odd", 2).build();
    odd["spec"] = spec;
    odd["status"] = status;
    server.put(odd);
    let bench = Bench::long_since(server, Config::default()).await;
    // Nobody knows who bore the names before the first list, and the longest grace of any pod counts
    // for them: more than an hour in one of these cases.
    seconds(600).await;
    bench.end(["good"]);
    bench.delete("pods", NS, "odd");
    seconds(120).await;
    assert_eq!(bench.rows(POOL), ["2"], "W is longer than that");
}

/// Names that no API server would let in.
#[tokio::test(start_paused = true)]
async fn objects_with_strange_names_hide_no_others() {
    let server = running(&[(1, "good")]);
    for name in ["ü", "a/b", "..", "%2f", "x y", &"n".repeat(300)] {
        server.put(fixtures::pool(NS, RANGE).name(name));
        server.put(fixtures::pool(name, RANGE));
        server.put(fixtures::nad(name, name, RANGE));
        server.put(reporting(name, 9).running());
        reserve(&server, name, "good");
    }
    let bench = Bench::long_since(server, Config::default()).await;
    for name in ["ü", "a/b", "..", "%2f", "x y", &"n".repeat(300)] {
        bench.delete("pods", NS, name);
    }
    end_good(&bench).await;
    assert_eq!(bench.rows(POOL), Vec::<String>::new());
    assert_eq!(bench.told_as_freed(), ["10.0.0.1"]);
    assert!(bench.get(ORIP, NS, "10.0.0.1").is_none());
    assert_eq!(bench.count(ORIP), 6);
}

/// A full pool, every second row of it unreadable.
#[tokio::test(start_paused = true)]
async fn ten_thousand_rows_are_read_for_the_one_that_goes() {
    let server = lenient();
    let mut pool = fixtures::pool(NS, RANGE).build();
    let rows: serde_json::Map<String, Value> = (0..10_000_u64)
        .map(|n| {
            let row = match n % 2 {
                0 => fixtures::row(&fixtures::sandbox(n), "default/starting", "net1"),
                _ => json!({ "id": n, "podref": [n] }),
            };
            ((1_000 + n).to_string(), row)
        })
        .collect();
    pool["spec"]["allocations"] = rows.into();
    pool["spec"]["allocations"]["1"] = fixtures::row(&fixtures::sandbox(1), "default/good", "net1");
    server.put(pool);
    run_pod(&server, "good", 1);
    server.put(asking("starting"));
    let bench = Bench::long_since(server, Config::default()).await;
    end_good(&bench).await;
    let rows = bench.rows(POOL);
    assert_eq!(rows.len(), 10_000);
    assert!(!rows.contains(&"1".to_owned()));
    assert_eq!(bench.sent(Match::patch("ippools")).len(), 1);
}

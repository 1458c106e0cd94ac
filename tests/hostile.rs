//! People who may edit pods and definitions, and no pools (docs/security.md): their words hold rows of others and free
//! none, and no text of theirs makes a line of the log, or more work than its size.
//!
//! Input that nobody can read is in `bad_input.rs`.

use crate::prelude::*;
use ipgc::metrics;
use testkit::fixtures::{NETWORK_STATUS, NETWORKS, PodBuilder};

/// The namespace of somebody who may edit its pods and definitions.
const TENANT: &str = "tenant";

/// The pool with row 1 of `web-0`, which lives, its reservation, and the neighbour.
fn room() -> (Server, Beat) {
    let server = with_neighbour(&[(1, "web-0")]);
    let beat = live_node(&server, "node-1");
    server.put(reporting("web-0", 1).node("node-1").running());
    (server, beat)
}

async fn room_with_a_collector() -> (Bench, Beat) {
    let (server, beat) = room();
    (Bench::start(server).await, beat)
}

/// A pod of the tenant that asks for the network of row 1.
fn forger() -> PodBuilder {
    let pod = fixtures::pod(TENANT, "forger").node("node-1");
    pod.networks("default/net")
}

/// The same, and it says that it has the address of row 1.
fn claimant() -> PodBuilder {
    forger().reports("default/net", "net1", &["10.0.0.1"])
}

/// The kubelet ends a pod of the tenant.
fn ends(server: &Server, name: &str) {
    end_pod(server, TENANT, name);
}

/// Shows a container with the sandbox of row 1 as its id.
fn shows_sandbox(pod: &mut Value) {
    pod["status"]["containerStatuses"] = json!([{
        "name": "main", "containerID": format!("containerd://{}", fixtures::sandbox(1)),
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
    }]);
}

fn define(server: &Server, ipam: &Value) {
    server.put(fixtures::nad_with_ipam(NS, "net", ipam));
}

fn annotate(server: &Server, key: &str, value: &str) {
    let found = server.edit("pods", NS, "web-0", |pod| {
        pod["metadata"]["annotations"][key] = value.into();
    });
    assert!(found);
}

/// Deeds of the tenant, or of somebody who may edit definitions or annotations wherever the pod is.
#[rstest]
#[case::a_pod_that_reports_it_ends(|s: &Server| { s.put(claimant().running()); ends(s, "forger"); })]
#[case::a_pod_that_reports_it_is_forced_away(|s: &Server| { s.put(claimant().running()); s.delete("pods", TENANT, "forger"); })]
#[case::a_pod_that_reports_it_completes(|s: &Server| { s.put(claimant().ended("Succeeded")); })]
#[case::a_pod_of_its_name_ends(|s: &Server| {
    let pod = fixtures::pod(TENANT, "web-0").node("node-1").networks("default/net");
    s.put(pod.reports("default/net", "net1", &["10.0.0.1"]).running());
    ends(s, "web-0");
})]
#[case::a_pod_with_its_sandbox_ends(|s: &Server| { s.put(forger().running().with(shows_sandbox)); ends(s, "forger"); })]
#[case::a_pod_that_asks_for_its_pool_ends(|s: &Server| { s.put(forger().running()); ends(s, "forger"); })]
#[case::a_definition_of_its_pool_elsewhere(|s: &Server| {
    s.put(fixtures::nad(TENANT, "own", RANGE));
    s.put(fixtures::pod(TENANT, "forger").node("node-1").networks("tenant/own").reports("tenant/own", "net1", &["10.0.0.1"]).running());
    ends(s, "forger");
})]
#[case::its_definition_has_another_network(|s: &Server| define(s, &json!({"type": "whereabouts", "range": RANGE, "network_name": "red"})))]
#[case::its_definition_has_another_range(|s: &Server| define(s, &json!({"type": "whereabouts", "range": "10.9.0.0/24"})))]
#[case::its_definition_does_not_reserve(|s: &Server| define(s, &json!({"type": "whereabouts", "range": RANGE, "enable_overlapping_ranges": false})))]
#[case::its_definition_has_another_ipam(|s: &Server| define(s, &json!({"type": "host-local", "subnet": RANGE})))]
#[case::its_definition_excludes_it(|s: &Server| define(s, &json!({"type": "whereabouts", "range": RANGE, "exclude": [RANGE]})))]
#[case::its_definition_is_unreadable(|s: &Server| { s.put(fixtures::nad_with_config(NS, "net", "{")); })]
#[case::its_definition_is_gone(|s: &Server| { s.delete(NADS, NS, "net"); })]
#[case::its_report_is_empty(|s: &Server| annotate(s, NETWORK_STATUS, "[]"))]
#[case::its_report_is_of_another_address(|s: &Server| annotate(s, NETWORK_STATUS, r#"[{"name":"default/net","interface":"net1","ips":["10.0.0.9"]}]"#))]
#[case::it_asks_for_nothing_and_reports_nothing(|s: &Server| { annotate(s, NETWORKS, ""); annotate(s, NETWORK_STATUS, "[]"); })]
#[case::its_annotations_are_gone(|s: &Server| { s.edit("pods", NS, "web-0", |pod| pod["metadata"]["annotations"] = json!({})); })]
#[tokio::test(start_paused = true)]
async fn who_edits_no_pool_frees_no_row_of_a_pod_that_lives(#[case] deed: fn(&Server)) {
    let (bench, _beat) = room_with_a_collector().await;
    seconds(600).await;
    deed(&bench);
    stays(&bench, POOL, &["1"]).await;
    assert_eq!(bench.reservations(), ["10.0.0.1"]);
}

/// The same deeds were done before ipgc began, so that it saw nothing better.
#[rstest]
#[case::its_definition_has_another_network(|s: &Server| define(s, &json!({"type": "whereabouts", "range": RANGE, "network_name": "red"})))]
#[case::its_definition_has_another_ipam(|s: &Server| define(s, &json!({"type": "host-local", "subnet": RANGE})))]
#[case::its_report_is_of_another_address(|s: &Server| annotate(s, NETWORK_STATUS, r#"[{"name":"default/net","interface":"net1","ips":["10.0.0.9"]}]"#))]
#[case::it_asks_for_nothing_and_reports_nothing(|s: &Server| { annotate(s, NETWORKS, ""); annotate(s, NETWORK_STATUS, "[]"); })]
#[tokio::test(start_paused = true)]
async fn nor_if_ipgc_began_after_that(#[case] deed: fn(&Server)) {
    let (server, _beat) = room();
    deed(&server);
    let bench = Bench::start(server).await;
    stays(&bench, POOL, &["1"]).await;
    assert_eq!(bench.reservations(), ["10.0.0.1"]);
}

/// A report frees one row too early at the most: one of its own pod, which has an older row to point at.
#[tokio::test(start_paused = true)]
async fn a_report_of_an_older_row_gives_up_a_row_of_its_own_pod_alone() {
    let (server, _beat) = room();
    put_row(&server, 2, "web-0", 2);
    let bench = Bench::start(server).await;
    seconds(600).await;
    // The row of its sandbox is the first one.
    annotate(
        &bench,
        NETWORK_STATUS,
        r#"[{"name":"default/net","interface":"net1","ips":["10.0.0.2"]}]"#,
    );
    goes_in(&bench, POOL, "1", 600 - 300..=3_600).await;
    stays(&bench, POOL, &["2"]).await;
}

/// The claims of a pod of the tenant on the address of a pod that ends, and the words by which they are told.
#[rstest]
#[case::report(claimant().running(), "pod tenant/forger reports the address")]
#[case::report_of_no_network(forger().reports_default(&["10.0.0.1"]).reports("x", "net1", &["10.0.0.1"]).running(), "pod tenant/forger reports the address")]
#[case::sandbox(forger().running().with(shows_sandbox), "its id is a sandbox or container of pod tenant/forger")]
#[tokio::test(start_paused = true)]
async fn a_forged_claim_is_told_and_holds_a_row_until_it_is_withdrawn(
    #[case] claim: PodBuilder,
    #[case] words: &str,
    #[values("edited", "ended", "forced away")] end: &str,
) {
    let (bench, _beat) = room_with_a_collector().await;
    bench.put(claim);
    seconds(600).await;
    bench.end(["web-0"]);
    seconds(7_200).await;
    assert!(bench.rows(POOL).contains(&"1".to_owned()));
    let told = pool_events(&bench, "IPAddressInUseTwice");
    assert!(!told.is_empty(), "nothing is told");
    says(&told[0], &["Warning", "10.0.0.1", "default/web-0", words]);
    assert_eq!(Scrape::of(&bench.running).rows("unreported"), Some(1.0));
    match end {
        "edited" => {
            let found = bench.edit("pods", TENANT, "forger", |pod| {
                pod["metadata"]["annotations"] = json!({});
                pod["status"]["containerStatuses"] = json!([]);
            });
            assert!(found);
        }
        "ended" => ends(&bench, "forger"),
        _ => drop(bench.delete("pods", TENANT, "forger")),
    }
    goes_after(&bench, POOL, "1", 900).await;
    seconds(300).await;
    assert_eq!(bench.reservations(), [""; 0]);
}

/// As long as an annotation can be, and longer.
#[tokio::test(start_paused = true)]
async fn a_megabyte_of_claims_holds_what_it_names_and_nothing_else() {
    let (bench, _beat) = room_with_a_collector().await;
    let claims = (0..60_000).map(|n| format!("172.16.{}.{}", n / 250, n % 250));
    let claims: Vec<_> = claims.chain(["10.0.0.1".to_owned()]).collect();
    let status = json!([{"name": "default/net", "interface": "net1", "ips": claims}]).to_string();
    assert!(status.len() > 900_000);
    bench.put(forger().annotation(NETWORK_STATUS, &status).running());
    seconds(600).await;
    bench.end(["web-0"]);
    stays(&bench, POOL, &["1"]).await;
    ends(&bench, "forger");
    goes_after(&bench, POOL, "1", 900).await;
}

/// Nothing runs of a pod that has no node.
#[tokio::test(start_paused = true)]
async fn a_claim_of_a_pod_that_was_never_scheduled_holds_nothing() {
    let (bench, _beat) = room_with_a_collector().await;
    let pod = claimant().with(|pod| {
        pod["spec"].as_object_mut().unwrap().remove("nodeName");
    });
    bench.put(pod);
    seconds(600).await;
    bench.end(["web-0"]);
    goes_after(&bench, POOL, "1", 60).await;
}

/// Texts that end a line, colour a terminal, turn the direction of writing, or are markup.
const TEXTS: [&str; 4] = [
    "x\n2026-01-01T00:00:00.000000Z  INFO ipgc: freed row forged=true",
    "x\r\u{1b}[2Jforged",
    "x\u{202e}degrof\u{0}\u{85}",
    "x</td><script>forged</script>\"} 1",
];

/// Wherever a person can put a text, in objects of all kinds.
fn put_texts(server: &Server, text: &str) {
    let config = |ipam: Value| json!({"type": "macvlan", "ipam": ipam}).to_string();
    let whereabouts = |key: &str, value: Value| {
        let mut ipam = json!({"type": "whereabouts", "range": RANGE});
        ipam[key] = value;
        config(ipam)
    };
    let slices = json!({"type": "whereabouts", "network_name": text, "range": RANGE, "node_slice_size": "/26"});
    let definitions = [
        text.to_owned(),
        format!("{{\"{text}\": 1}}"),
        json!({text: 1}).to_string(),
        json!({"plugins": [{text: 1}]}).to_string(),
        json!({"type": text, "ipam": {"type": text}}).to_string(),
        whereabouts("range", text.into()),
        whereabouts("range", json!({text: text})),
        whereabouts("ipRanges", json!([{"range": text}, {text: text}])),
        whereabouts("network_name", text.into()),
        whereabouts(text, text.into()),
        config(slices),
    ];
    let ends = definitions.len();
    for (n, config) in definitions.iter().enumerate() {
        let name = format!("evil-{n}");
        let network = format!("{NS}/{name}");
        server.put(fixtures::nad_with_config(NS, &name, config));
        let pod = fixtures::pod(TENANT, &name)
            .node("node-1")
            .networks(&network);
        server.put(pod.reports(&network, "net1", &["10.0.0.77"]).running());
    }
    let entry = |name: &str, interface: &str, ip: &str| {
        json!([{"name": name, "interface": interface, "ips": [ip]}]).to_string()
    };
    let annotations = [
        (NETWORK_STATUS, text.to_owned()),
        (NETWORK_STATUS, json!([{text: text}]).to_string()),
        (
            NETWORK_STATUS,
            json!([{"name": [text], "ips": text}]).to_string(),
        ),
        (NETWORK_STATUS, entry("default/net", "net1", text)),
        (
            NETWORK_STATUS,
            entry(&format!("default/{text}"), text, "10.0.0.2"),
        ),
        (NETWORKS, text.to_owned()),
        (NETWORKS, format!("default/{text}@{text}")),
        (
            NETWORKS,
            json!([{"name": text, "namespace": text}]).to_string(),
        ),
        (NETWORKS, json!([{text: text, "name": 1}]).to_string()),
    ];
    for (n, (key, value)) in (ends..).zip(&annotations) {
        // What the builder reports would take the place of the annotation.
        let pod = if *key == NETWORK_STATUS {
            forger()
        } else {
            claimant()
        };
        let pod = pod.with(|pod| pod["metadata"]["name"] = format!("evil-{n}").into());
        server.put(pod.annotation(key, value).running());
    }
    // These take rights on pools or nodes.
    let sandbox = fixtures::sandbox(2);
    server.edit("ippools", NS, POOL, |pool| {
        let row = fixtures::row(&sandbox, &format!("{TENANT}/evil-{}", ends + 4), text);
        pool["spec"]["allocations"]["2"] = row;
    });
    let pool = fixtures::pool(NS, "10.2.0.0/24").annotation("ipgc.dev/keep", text);
    server.put(pool.row(1, &sandbox, "default/gone", "net1"));
    let pool = fixtures::pool(NS, "10.3.0.0/24")
        .annotation("ipgc.dev/ack", text)
        .row(1, &sandbox, &format!("default/{text}"), "net1")
        .row(2, text, "default/gone", "net1")
        .row(3, &sandbox, "tenant/evil-0", text)
        .raw_row(text, json!({text: text}))
        .raw_row(
            "4",
            json!({"id": sandbox, "podref": "default/gone", text: text}),
        );
    server.put(pool);
    let mut pool = fixtures::pool(NS, "10.4.0.0/24").build();
    pool["spec"]["range"] = text.into();
    server.put(pool);
    server.put(fixtures::reservation(NS, "10.0.0.66", text, text));
    server.put(fixtures::node_slice_pool(NS, "sliced", text, text, &[]));
    let mut node = fixtures::node("node-9", false);
    node["metadata"]["annotations"] = json!({"ipgc.dev/no-sandboxes": text});
    server.put(node);
}

/// A line of the log begins with its time, and has no character that does more than to stand there. So do events.
#[rstest]
#[tokio::test(start_paused = true)]
async fn no_text_makes_a_line_of_the_log_or_moves_a_terminal(
    #[values(0, 1, 2, 3)] which: usize,
    #[values(false, true)] before: bool,
) {
    let (log, _guard) = Log::start();
    let server = lenient();
    server.put(fixtures::pool(NS, RANGE).row_of(1, "default/web-0"));
    run_pod(&server, "web-0", 1);
    let _beat = live_node(&server, "node-1");
    let text = TEXTS[which];
    if before {
        put_texts(&server, text);
    }
    let bench = Bench::start(server).await;
    if !before {
        put_texts(&bench, text);
    }
    seconds(3_600).await;
    bench.delete("nodes", "", "node-9");
    seconds(3_600).await;
    for pod in bench.list("pods") {
        let name = pod["metadata"]["name"].as_str().unwrap();
        if pod["metadata"]["namespace"] == TENANT {
            ends(&bench, name);
        }
    }
    bench.end(["web-0"]);
    goes_after(&bench, POOL, "1", 7_200).await;
    seconds(3_600).await;
    let lines = log.lines("");
    assert!(lines.len() > 10, "{lines:?}");
    for line in &lines {
        assert!(
            line.starts_with("20") && !line.starts_with("2026-01-01T00"),
            "{line}"
        );
        let moves = |c: char| c.is_control() || c == '\u{202e}';
        assert!(!line.contains(moves), "{line:?}");
    }
    let events = bench.list("events");
    assert!(!events.is_empty());
    for event in events {
        let note = event.get("note").or(event.get("message"));
        let note = note.unwrap().as_str().unwrap();
        assert!(!note.contains(|c: char| c.is_control()), "{note:?}");
    }
}

/// The labels that there are, and none that a person can make as many of as pods or definitions.
#[tokio::test(start_paused = true)]
async fn metrics_tell_pools_and_numbers_and_no_pod_or_definition() {
    let (server, _beat) = room();
    put_texts(&server, "forged");
    let bench = Bench::start(server).await;
    seconds(3_600).await;
    bench.end(["web-0"]);
    seconds(3_600).await;
    let text = metrics::text(&bench.running.context);
    let labels = [
        "cause", "code", "grade", "le", "pool", "reason", "resource", "trigger", "verb", "verdict",
    ];
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let mut pools = std::collections::BTreeSet::new();
    for line in samples {
        let Some((_, rest)) = line.split_once('{') else {
            continue;
        };
        for pair in rest.split('}').next().unwrap().split(',') {
            let (label, value) = pair.split_once('=').unwrap();
            assert!(labels.contains(&label), "{line}");
            if label == "pool" {
                pools.insert(value.trim_matches('"').to_owned());
            }
        }
    }
    let names = [POOL, "10.2.0.0-24", "10.3.0.0-24", "10.4.0.0-24"];
    let names = names.map(|name| format!("{NS}/{name}"));
    assert!(pools.iter().all(|pool| names.contains(pool)), "{pools:?}");
    for word in [
        "forged",
        "forger",
        "evil",
        "web-0",
        "neighbour",
        "node-",
        "tenant",
        "10.0.0.1\"",
        "default/net",
        &fixtures::sandbox(1)[..16],
        "sliced",
    ] {
        assert!(!text.contains(word), "{word} is in the metrics");
    }
}

/// Ten thousand definitions of one person, and a pod that claims all of them.
#[tokio::test(start_paused = true)]
async fn ten_thousand_definitions_keep_no_row_and_cost_no_time() {
    const MANY: u64 = 10_000;
    let begun = std::time::Instant::now();
    let (server, _beat) = room();
    let range = |n: u64| format!("10.{}.{}.0/24", 100 + n / 250, n % 250);
    for n in 0..MANY {
        server.put(fixtures::nad(TENANT, &format!("own-{n}"), &range(n)));
    }
    let entries: Vec<_> = (0..MANY)
        .map(|n| fixtures::network(&format!("{TENANT}/own-{n}"), &format!("net{n}"), &[]))
        .collect();
    let pod = fixtures::pod(TENANT, "forger").node("node-1");
    let pod = pod.annotation(NETWORK_STATUS, &json!(entries).to_string());
    server.put(pod.networks("tenant/own-0").running());
    let bench = Bench::long_since(server, Config::default()).await;
    ends(&bench, "forger");
    bench.end(["web-0"]);
    let after = goes_after(&bench, POOL, "1", 600).await;
    let asked = bench.sent(Match::get("ippools")).len();
    let took = begun.elapsed();
    println!("{asked} reads of pools, the row went after {after} s, {took:?}");
    assert!(after <= 10, "{after} s");
    assert!(asked <= 10, "{asked} reads of pools");
    assert!(bench.counted("left_to_sweep") >= 1);
}

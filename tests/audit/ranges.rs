//! The addresses that definitions hand out: changed and unreadable ranges, single addresses, parts of ranges, and
//! static addresses.

use rstest::rstest;

use super::*;

/// The findings as problems and definitions.
fn about(report: &Report) -> Vec<(Problem, Option<&str>)> {
    let findings = report.findings.iter();
    let about = findings.map(|it| (it.problem, it.definition.as_deref()));
    about.collect()
}

/// The live row of web-1 stays in the pool that it was given of.
#[rstest]
#[case::widened(json!({ "range": "10.0.0.0/16" }))]
#[case::narrowed(json!({ "range": "10.0.0.0/28" }))]
#[case::several(json!({ "ipRanges": [{ "range": "10.9.0.0/24" }, { "range": "10.0.0.0/20" }] }))]
#[tokio::test]
async fn a_pool_whose_definition_was_changed_is_superseded_and_drains(#[case] keys: Value) {
    let server = server();
    put_pool(&server, &[LIVE, (2, "default/web-2")]);
    for (name, offset) in [("web-1", 1), ("web-2", 2)] {
        server.put(pod(name, offset));
    }
    assert_eq!(report(&server).await.findings, []);
    define(&server, "net", &keys);
    let changed = report(&server).await;
    let superseded = (Problem::PoolSuperseded, Some("default/net"));
    assert_eq!(about(&changed), [superseded]);
    let finding = only(&changed);
    assert_eq!(
        (finding.pool.as_deref(), &finding.command),
        (Some(POOL), &None)
    );
    assert_says(&finding.detail, "go with their pods");
    // The new pool keeps off the address because of its reservation, which is still wanted.
    unreserve(&server, "10.0.0.1");
    let open = (Problem::ReservationMissing, None);
    assert_eq!(about(&report(&server).await), [open, superseded]);
    put_pool(&server, &[]);
    unreserve(&server, "10.0.0.2");
    for name in ["web-1", "web-2"] {
        server.delete("pods", NS, name).unwrap();
    }
    let drained = live(&server).await.unwrap();
    assert_eq!(only(&drained).problem, Problem::PoolWithoutDefinition);
}

/// Without reservations each range gives its addresses by itself, but the row is that of the pod all the same.
#[tokio::test]
async fn the_row_in_a_superseded_pool_without_reservations_is_that_of_its_pod() {
    let server = server();
    let wide = json!({ "range": "10.0.0.0/16", "enable_overlapping_ranges": false });
    define(&server, "net", &wide);
    put_pool(&server, &[LIVE]);
    let old = pod("web-1", 1).with(|pod| {
        pod["metadata"]["creationTimestamp"] = "2025-01-01T00:00:00Z".into();
    });
    server.put(old);
    let changed = report(&server).await;
    assert_eq!(only(&changed).problem, Problem::PoolSuperseded);
    assert_eq!(changed.totals.split.live, 1);
    // Where the pool is that of a definition, its row is another one than the report is about.
    define(&server, "own", &json!({ "range": RANGE }));
    assert_eq!(report(&server).await.totals.split.live, 0);
}

/// In another network the address is another one, and so it is without a row at all.
#[tokio::test]
async fn a_row_of_another_network_does_not_stand_in() {
    let server = server();
    put_pool(&server, &[LIVE]);
    let blue = json!({ "range": "10.0.0.0/16", "network_name": "blue" });
    define(&server, "blue", &blue);
    server.put(fixtures::pool(NS, "10.0.0.0/16").network_name("blue"));
    let web = pod("web-1", 1).reports("default/blue", "net2", &["10.0.0.1"]);
    server.put(web);
    let report = report(&server).await;
    assert_eq!(problems(&report), ["in-use-unallocated 10.0.0.1"]);
    assert_eq!(only(&report).interface.as_deref(), Some("net2"));
}

/// One that is full was widened for that, and nothing more is given of it.
#[tokio::test]
async fn a_superseded_pool_is_not_nearly_full() {
    let server = bare();
    let mut pool = fixtures::pool(NS, "10.0.0.0/28");
    for offset in 1..=14 {
        let owner = format!("default/gone-{offset}");
        pool = pool.row_of(offset, &owner);
    }
    server.put(pool);
    define(&server, "net", &json!({ "range": "10.0.0.0/28" }));
    let is_full = |report: &Report| kinds_of(report).contains(&Problem::NearlyFull);
    assert!(is_full(&report(&server).await));
    define(&server, "net", &json!({ "range": "10.0.0.0/24" }));
    assert!(!is_full(&report(&server).await));
}

/// Each hands out one address, and has it in use.
#[rstest]
#[case::start_and_end(&[json!({ "range": RANGE, "range_start": "10.0.0.1", "range_end": "10.0.0.1" })])]
#[case::in_the_text(&[json!({ "range": "10.0.0.1-10.0.0.1/24" })])]
#[case::excluded(&[json!({ "range": "10.0.0.0/30", "exclude": ["10.0.0.2/32"] })])]
#[case::several(&[
    json!({ "range": "10.0.0.1-10.0.0.1/24" }),
    json!({ "range": "10.0.0.2-10.0.0.2/24" })
])]
#[tokio::test]
async fn a_range_of_single_addresses_is_full_by_design(#[case] definitions: &[Value]) {
    let server = bare();
    let of = definitions[0]["range"].as_str().unwrap();
    let range = if of.ends_with("/30") {
        "10.0.0.0/30"
    } else {
        RANGE
    };
    let mut pool = fixtures::pool(NS, range);
    for (at, keys) in (1..).zip(definitions) {
        let (name, network) = (format!("web-{at}"), format!("net-{at}"));
        define(&server, &network, keys);
        let (podref, address) = (format!("default/{name}"), format!("10.0.0.{at}"));
        pool = pool.row_of(at, &podref);
        reserve(&server, &address, &podref);
        let pod = on_net(&network, &name, &address).node("n1");
        server.put(pod.running());
    }
    server.put(pool);
    let report = report(&server).await;
    assert_eq!(report.findings, []);
    assert_eq!(report.pools[0].size, Some(definitions.len() as u64));
}

/// whereabouts cannot read its range either, and leads nowhere. Of its own pool nobody knows that for long.
#[tokio::test]
async fn a_definition_whose_range_cannot_be_read_is_named_and_hides_no_other_pool() {
    let server = live_one();
    define(&server, "bad", &json!({ "range": "10.1.0.0" }));
    server.put(fixtures::pool(NS, "10.9.0.0/24"));
    server.put(fixtures::pool(NS, "10.1.0.0/24").row_of(1, "default/web-2"));
    server.put(on_net("bad", "web-2", "10.1.0.1").node("n1").running());
    server.put(pod("web-3", 9));
    let report = live(&server).await.unwrap();
    let findings = report.findings.iter();
    let found = findings.map(|it| (it.problem, it.pool.as_deref(), it.command.is_some()));
    let found: Vec<_> = found.collect();
    let unused = Problem::PoolWithoutDefinition;
    assert_eq!(
        found,
        [
            // Other problems are reported as well.
            (Problem::InUseUnallocated, Some(POOL), false),
            (unused, Some("10.1.0.0-24"), false),
            (unused, Some("10.9.0.0-24"), true)
        ]
    );
    let says = "unless it is of one whose range cannot be read: default/bad; it has 1 rows";
    assert_says(&report.findings[1].detail, says);
    assert_eq!(report.totals.split.live, 2);
    let says = "definition default/bad cannot be read: `range`";
    let is_told = |says: &str| report.notes.iter().any(|note| note.starts_with(says));
    assert!(is_told(says), "{:?}", report.notes);
    let hidden = "since they do not tell all of their ranges: default/bad";
    let mut notes = report.notes.iter();
    let is_hidden = notes.any(|note| note.ends_with(hidden));
    assert!(is_hidden, "{:?}", report.notes);
}

/// One whose range may be in a file on the nodes leads to pools of its own network.
#[tokio::test]
async fn a_definition_without_a_range_hides_the_pools_of_its_network() {
    let server = server();
    put_pool(&server, &[]);
    define(&server, "far", &json!({ "network_name": "far" }));
    for network in ["far", "gone"] {
        server.put(fixtures::pool(NS, RANGE).network_name(network));
    }
    let report = live(&server).await.unwrap();
    let findings = report.findings.iter();
    let found: Vec<_> = findings
        .map(|it| (it.pool.as_deref().unwrap(), it.command.is_some()))
        .collect();
    assert_eq!(
        found,
        [("far-10.0.0.0-24", false), ("gone-10.0.0.0-24", true)]
    );
    assert_ends(
        &report.findings[0].detail,
        "what does not tell its range may: default/far",
    );
}

/// The part of `a` is full, and the rest of the range has room.
#[tokio::test]
async fn a_part_that_is_full_is_told_though_the_range_has_room() {
    let server = bare();
    let part = json!({ "range": RANGE, "range_start": "10.0.0.10", "range_end": "10.0.0.13" });
    define(&server, "a", &part);
    let other = json!({ "range": "10.0.0.100-10.0.0.200/24" });
    define(&server, "b", &other);
    let rows = [
        (10, "default/web-10"),
        (11, "default/web-11"),
        (12, "default/web-12"),
        (13, "default/web-13"),
    ];
    for (at, _) in &rows {
        let (name, address) = (format!("web-{at}"), format!("10.0.0.{at}"));
        server.put(on_net("a", &name, &address).node("n1").running());
    }
    put_pool(&server, &rows);
    let full = report(&server).await;
    assert_eq!(about(&full), [(Problem::NearlyFull, Some("default/a"))]);
    let says = "4 of 4 addresses are taken of the part that default/a hands out, from 10.0.0.10 to 10.0.0.13";
    assert_eq!(*only(&full).detail, *says);
    // Another definition of the same part is named, and none that hands out the whole of it.
    define(&server, "c", &json!({ "range": "10.0.0.10-10.0.0.13/24" }));
    let both = report(&server).await;
    assert_says(&only(&both).detail, "default/a, default/c hands out");
    put_pool(&server, &rows[..3]);
    server.delete("pods", NS, "web-13").unwrap();
    unreserve(&server, "10.0.0.13");
    assert_eq!(report(&server).await.findings, []);
}

/// Each pod of `fixed` has 10.0.0.7 beside an address of its range.
#[rstest]
#[case::of_another("10.1.0.0/24", 1)]
#[case::of_its_own(RANGE, 2)]
#[tokio::test]
async fn a_static_address_that_a_pool_hands_out_is_told_with_exclude(
    #[case] range: &str,
    #[case] named: usize,
) {
    let server = live_one();
    let fixed = json!({ "range": range, "addresses": [{ "address": "10.0.0.7/24" }, { "address": "10.5.0.7/24" }] });
    define(&server, "fixed", &fixed);
    server.put(on_net("fixed", "web-2", "10.0.0.7").node("n1").running());
    let clash = report(&server).await;
    let finding = only(&clash);
    assert_eq!(
        (finding.problem, finding.address.as_deref()),
        (Problem::StaticInPool, Some("10.0.0.7"))
    );
    let detail = &finding.detail;
    assert_says(detail, "definition default/fixed has it in `addresses`");
    assert_says(detail, "`exclude`");
    let names = [
        "default/fixed, default/net hands it out",
        "and default/net hands it out",
    ];
    assert_says(detail, names[2 - named]);
    // An address that no definition hands out is no problem, nor is one that another network hands out.
    let without = json!({ "range": RANGE, "exclude": ["10.0.0.7"] });
    define(&server, "net", &without);
    let mut apart = fixed.clone();
    apart["exclude"] = json!(["10.0.0.4/30"]);
    define(&server, "fixed", &apart);
    assert_eq!(report(&server).await.findings, []);
    let other =
        json!({ "range": "10.1.0.0/24", "network_name": "x", "addresses": fixed["addresses"] });
    define(&server, "fixed", &other);
    define(&server, "net", &json!({ "range": RANGE }));
    assert_eq!(report(&server).await.findings, []);
}

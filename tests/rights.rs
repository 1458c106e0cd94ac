//! A right that is withdrawn while ipgc runs: its loss is told, for each of the rights that the manifests grant.
//!
//! That a right is missing when `ipgc run` starts is exit code 2 (e2e/tests/scenarios/rights.rs, on the real server).

use crate::prelude::*;
use ipgc::access::{Right, Scope};

const LEASE_NAMESPACE: &str = "ipgc-system";

/// Every request that takes this right.
fn requests(right: &Right) -> Match {
    let (verb, resource) = (right.verb, right.resource.clone().into_owned());
    let namespace = match &right.scope {
        Scope::Namespace(namespace) => Some(namespace.clone()),
        Scope::Cluster | Scope::AllNamespaces => None,
    };
    Match::any().client("ipgc").filter(move |request| {
        let is_there = namespace.as_ref().is_none_or(|it| *it == request.namespace);
        request.verb.as_str() == verb && request.resource == resource && is_there
    })
}

/// Pods end well, by force and unseen, every watch begins anew, and so does the election.
async fn live_on(bench: &Bench) {
    bench.end(["web-1", "web-2", "web-3", "web-4", "web-5", "web-6"]);
    bench.delete("pods", NS, "web-7");
    put_row(bench, 99, "gone", 99);
    for kind in ["pods", "nodes", NADS] {
        bench.on(Match::watch(kind)).once().fail(410);
        bench.cut_watches(kind);
    }
    bench.delete("leases", LEASE_NAMESPACE, "ipgc");
    seconds(1_800).await;
}

#[tokio::test(start_paused = true)]
async fn each_right_that_is_withdrawn_is_told() {
    let config = Config {
        lease_namespace: Some(LEASE_NAMESPACE.to_owned()),
        resource_claims: true,
        ..Config::default()
    };
    let mut untold = Vec::new();
    for right in config.rights() {
        let (log, _guard) = Log::start();
        let server = server();
        put_crowd(&server, 8);
        let _beat = live_node(&server, "node-1");
        let bench = Bench::long_since(server, config.clone()).await;
        let before = (log.lines("").len(), bench.counted("events_dropped"));
        bench.on(requests(&right)).deny();
        live_on(&bench).await;
        let not_ready = bench.running.context.not_ready();
        let lines = log.lines("");
        // The API server's own words, in a warning or an error. Events are refused in a namespace that is deleted, too:
        // of those a counter tells.
        let words = format!("cannot {} resource \"{}\"", right.verb, right.resource);
        let is_warning = |line: &&String| line.contains(" WARN ") || line.contains("ERROR ");
        let warnings: Vec<_> = lines[before.0..].iter().filter(is_warning).collect();
        let is_told = warnings
            .iter()
            .any(|line| line.replace('\\', "").contains(&words))
            || (right.resource == "events" && bench.counted("events_dropped") > before.1);
        // Nothing else tells of these, and it is told as long as they are missing.
        let listed = [
            "leases",
            "nodes",
            "ippools",
            "overlappingrangeipreservations",
        ];
        let needs_page = right.verb == "list" && listed.contains(&&*right.resource);
        let is_unready = not_ready
            .iter()
            .any(|it| it.contains("does not allow us to list"));
        if !is_told || needs_page != is_unready {
            untold.push(format!("{right}\n{warnings:#?}"));
        }
        bench.stop().await;
    }
    assert!(untold.is_empty(), "{}", untold.join("\n"));
}

/// With all of them the same life ends without a warning about a right, and all goes.
#[tokio::test(start_paused = true)]
async fn with_all_rights_nothing_is_refused() {
    let (log, _guard) = Log::start();
    let server = server();
    put_crowd(&server, 8);
    run_pod(&server, "other", 20);
    let _beat = live_node(&server, "node-1");
    let config = Config::default().with(|it| it.lease_namespace = Some(LEASE_NAMESPACE.to_owned()));
    let bench = Bench::long_since(server, config).await;
    live_on(&bench).await;
    assert_eq!(bench.running.context.not_ready(), [""; 0]);
    assert_eq!(bench.rows(POOL), ["8"]);
    assert_eq!(log.lines("not allowed"), [""; 0]);
}

/// Rows go on going, and none that goes passes for a right that was mended.
#[rstest]
#[case::marks(Match::patch(ORIP), "release reservations", "writing is allowed again")]
#[case::sweeps(Match::list("ippools"), "list pools", "allowed to list pools again")]
#[tokio::test(start_paused = true)]
async fn a_right_that_rows_do_not_need_is_missing_until_it_is_back(
    #[case] requests: Match,
    #[case] what: &str,
    #[case] again: &str,
) {
    let (log, _guard) = Log::start();
    let server = server();
    put_crowd(&server, 40);
    let bench = Bench::long_since(server, Config::default()).await;
    let denied = bench.on(requests).deny();
    let not_ready = || bench.running.context.not_ready();
    bench.end(["web-1"]);
    // A sweep comes, too.
    seconds(400).await;
    for n in 2..=40 {
        bench.end([&*format!("web-{n}")]);
        for _ in 0..10 {
            seconds(1).await;
            let is_told = not_ready().iter().any(|it| it.ends_with(what));
            assert!(is_told, "at pod {n}: {:?}", not_ready());
        }
    }
    assert!(bench.rows(POOL).len() < 10, "{:?}", bench.rows(POOL));
    assert_eq!(log.lines(again), [""; 0]);
    denied.remove();
    seconds(120).await;
    assert_eq!(not_ready(), [""; 0]);
    assert_eq!(log.lines(again).len(), 1);
}

//! The flags, and the reasons for which nothing could ever be done.

#![allow(clippy::unwrap_used)]
use clap::Parser;
use testkit::Match;

use super::*;

#[derive(Parser)]
struct Only {
    #[command(flatten)]
    args: Args,
}

fn config(args: &[&str]) -> Result<Config, String> {
    let args = ["ipgc"].iter().chain(args);
    Only::try_parse_from(args).unwrap().args.config()
}

fn waits(policy: &Policy) -> [Duration; 6] {
    [
        policy.cooldown,
        policy.grace,
        policy.del_budget,
        policy.max_pod_grace.unwrap_or_default(),
        policy.leftover_grace,
        policy.add_budget,
    ]
}

#[test]
fn every_flag_reaches_the_settings() {
    let config = config(&[
        "--pool-namespace=net",
        "--cooldown=3s",
        "--grace=4s",
        "--del-budget=5s",
        "--add-budget=15s",
        "--max-pod-grace=6s",
        "--leftover-grace=7s",
        "--keep-podref=a/*",
        "--keep-podref=b/*",
        "--max-retries=8",
        "--workers=9",
        "--unfenced=free-after=10s",
        "--unwitnessed-hold=11s",
        "--sweep-interval=12s",
        "--breaker-fraction=0.25",
        "--breaker-min=13",
        "--breaker-hold=14s",
        "--dry-run",
        "--lease-namespace=mine",
        "--listen=none",
    ])
    .unwrap();
    assert_eq!(config.pool_namespace.as_deref(), Some("net"));
    assert_eq!(config.lease_namespace.as_deref(), Some("mine"));
    assert_eq!(
        config.election(),
        None,
        "a dry run leaves the Lease to others"
    );
    assert_eq!((config.max_retries, config.workers), (8, 9));
    let policy = config.policy;
    assert_eq!(
        waits(&policy).map(|wait| wait.as_secs()),
        [3, 4, 5, 6, 7, 15]
    );
    let after = |seconds| Duration::from_secs(seconds);
    assert_eq!(policy.unfenced, Unfenced::FreeAfter(after(10)));
    assert_eq!(policy.unwitnessed_hold, Some(after(11)));
    assert_eq!(config.sweep_interval, after(12));
    let limits = Limits {
        fraction: 0.25,
        min: 13,
        hold: after(14),
    };
    assert_eq!(config.breaker, limits);
    assert!(config.dry_run);
    let kept = |podref: &str| policy.keep_podrefs.iter().any(|glob| glob.matches(podref));
    assert!(kept("a/x") && kept("b/x") && !kept("c/x"));
}

#[test]
fn the_defaults_of_the_flags_are_those_of_the_library() {
    let (flags, library) = (config(&[]).unwrap(), Config::default());
    assert_eq!(waits(&flags.policy), waits(&library.policy));
    assert_eq!(flags.policy.unfenced, library.policy.unfenced);
    assert_eq!(
        flags.policy.unwitnessed_hold,
        library.policy.unwitnessed_hold
    );
    assert_eq!(flags.sweep_interval, library.sweep_interval);
    assert_eq!(flags.breaker, library.breaker);
    assert_eq!(flags.dry_run, library.dry_run);
    assert_eq!(flags.max_retries, library.max_retries);
    assert_eq!(flags.workers, library.workers);
}

#[test]
fn a_run_that_ends_by_itself_looks_once() {
    let args = ["ipgc", "--once", "--wait=20m"];
    let args = Only::try_parse_from(args).unwrap().args;
    assert_eq!((args.once, args.wait.as_secs()), (true, 20 * 60));
    assert!(args.config().unwrap().sweep_interval > args.wait);
    assert!(Only::try_parse_from(["ipgc", "--wait=20m"]).is_err());
    assert_eq!(
        Only::try_parse_from(["ipgc"]).unwrap().args.wait.as_secs(),
        600
    );
}

/// A run that goes on for ever asks for ever.
#[tokio::test(start_paused = true)]
async fn an_api_server_that_does_not_say_which_rights_there_are_ends_a_run_that_is_to_end() {
    let server = testkit::Server::new();
    server.on(Match::create("selfsubjectaccessreviews")).hang();
    let begun = tokio::time::Instant::now();
    let unfit = unfit_in_time(&server.client(), &electing(), true).await;
    assert!(unfit.is_err());
    assert_eq!(begun.elapsed(), once::SURVEY);
}

#[test]
fn there_is_an_election_unless_told_otherwise() {
    let lease = |args: &[&str]| config(args).unwrap().lease_namespace;
    let standard = Some("ipgc-system".to_owned());
    assert_eq!(lease(&[]), standard);
    assert_eq!(lease(&["--leader-elect"]), standard);
    assert_eq!(lease(&["--leader-elect=true"]), standard);
    assert_eq!(lease(&["--leader-elect=false"]), None);
    assert!(config(&["--lease-namespace="]).is_err());
    assert!(config(&["--leader-elect=false", "--lease-namespace="]).is_ok());
}

#[test]
fn waits_of_less_than_a_kubelet_needs_are_told() {
    let warning = |args: &[&str]| {
        let args = ["ipgc"].iter().chain(args);
        Only::try_parse_from(args).unwrap().args.waits.warning()
    };
    for enough in [
        &[][..],
        &["--grace=0s"],
        &["--del-budget=0s"],
        &["--grace=1m30s", "--del-budget=0s", "--max-pod-grace=0s"],
    ] {
        assert_eq!(warning(enough), None, "{enough:?}");
    }
    let none = ["--grace=0s", "--del-budget=0s", "--max-pod-grace=0s"];
    let text = warning(&none).unwrap();
    assert!(
        text.contains("goes after 0s") && text.contains("1m30s"),
        "{text}"
    );
    assert!(warning(&["--grace=1s", "--del-budget=50s"]).is_some());
}

#[test]
fn what_is_held_for_ever_unless_told_otherwise() {
    let policy = config(&["--unfenced=hold", "--unwitnessed-hold=forever"]);
    let policy = policy.unwrap().policy;
    assert_eq!(policy.unfenced, Unfenced::Hold);
    assert_eq!(policy.unwitnessed_hold, None);
    assert!(config(&["--sweep-interval=999ms"]).is_err());
}

fn electing() -> Config {
    config(&["--lease-namespace=mine"]).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_namespace_of_the_lease_that_is_missing_is_said_in_one_line() {
    let server = testkit::Server::builder().require_namespaces().build();
    let said = || async { unfit(&server.client(), &electing()).await };
    let missing = said().await.unwrap();
    assert!(missing.contains("namespace mine"), "{missing}");
    assert!(missing.contains("--lease-namespace") && missing.contains("create it"));
    // The account may lack rights there as well.
    let denied = server.deny(Match::resource("leases").namespace("mine"));
    let lacking = said().await.unwrap();
    assert!(lacking.contains("create leases.coordination.k8s.io in namespace mine"));
    assert!(lacking.contains("--lease-namespace"), "{lacking}");
    denied.remove();
    // A run without an election needs none.
    let alone = config(&["--leader-elect=false"]).unwrap();
    assert_eq!(unfit(&server.client(), &alone).await, None);
    server.put(testkit::fixtures::namespace("mine"));
    assert_eq!(said().await, None);
    assert!(server.list("leases").is_empty(), "nothing was made");
}

/// Only the API server's own word counts.
#[tokio::test(start_paused = true)]
async fn a_lease_that_cannot_be_tried_is_no_missing_namespace() {
    for code in [400, 403, 404, 409, 500] {
        let server = testkit::Server::new();
        server.on(Match::create("leases")).fail(code);
        assert_eq!(unfit(&server.client(), &electing()).await, None, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_starts_late_is_asked_until_it_answers() {
    let server = testkit::Server::new();
    let reviews = || server.on(Match::create("selfsubjectaccessreviews"));
    reviews().times(40).disconnect();
    reviews().times(40).fail(403);
    reviews().times(4).hang();
    server.on(Match::patch("ippools")).deny();
    let begun = tokio::time::Instant::now();
    let missing = missing_rights(&server.client(), &Config::default()).await;
    assert_eq!(
        lacking(&missing, Some("ipgc-system")),
        "rights are missing, manifests/base/rbac.yaml grants them: \
         patch ippools.whereabouts.cni.cncf.io in all namespaces"
    );
    assert!(begun.elapsed() > Duration::from_mins(1), "hardly waited");
}

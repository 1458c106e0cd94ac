//! The rights that `ipgc run` asks for before it starts, on the in-process API server. That `manifests/` grant just these
//! is shown on a real one (e2e/tests/scenarios/rights.rs).

use crate::prelude::*;
use ipgc::access::{CallError, Right, Scope, missing};
use kube::{Client, client::Body};
use testkit::RuleBuilder;

/// The reviews, and nothing else that is created.
fn reviews() -> Match {
    Match::create("selfsubjectaccessreviews")
}

/// Settings with an election; with pools everywhere unless they are in one namespace.
fn config(pools: Option<&str>, dry_run: bool) -> Config {
    Config {
        pool_namespace: pools.map(str::to_owned),
        dry_run,
        lease_namespace: Some("ipgc-system".to_owned()),
        ..Config::default()
    }
}

/// Exactly what a right allows.
fn matching(right: &Right) -> Match {
    let right = right.clone();
    let namespace = match &right.scope {
        Scope::Namespace(namespace) => namespace.as_str(),
        Scope::Cluster | Scope::AllNamespaces => "",
    };
    let of_namespace = Match::resource(&right.resource).namespace(namespace);
    of_namespace.filter(move |asked| {
        let is_it = asked.name == right.name.as_deref().unwrap_or_default();
        asked.verb.as_str() == right.verb && asked.group == right.group && is_it
    })
}

async fn asked(server: &Server, pools: Option<&str>, dry_run: bool) -> Vec<String> {
    let answer = missing(&server.client(), config(pools, dry_run).rights()).await;
    answer.unwrap().iter().map(Right::to_string).collect()
}

#[rstest]
#[tokio::test]
async fn nothing_is_missing_where_everything_is_allowed(
    #[values(None, Some("net"))] pools: Option<&str>,
    #[values(false, true)] dry_run: bool,
) {
    let server = Server::new();
    assert!(asked(&server, pools, dry_run).await.is_empty());
    let requests = server.requests();
    let rights = config(pools, dry_run).rights().len();
    assert_eq!(requests.len(), rights, "{requests}");
    let reviews = requests.matching(&reviews()).len();
    assert_eq!(reviews, rights, "{requests}");
}

#[rstest]
#[tokio::test]
async fn each_right_denied_alone_is_named_alone(
    #[values(None, Some("net"))] pools: Option<&str>,
    #[values(false, true)] dry_run: bool,
) {
    for right in config(pools, dry_run).rights() {
        let server = Server::new();
        server.deny(matching(&right));
        let asked = asked(&server, pools, dry_run).await;
        assert_eq!(asked, [right.to_string()], "{}", server.requests());
    }
}

#[tokio::test]
async fn rights_in_other_namespaces_than_the_one_of_the_pools_are_not_asked_for() {
    let server = Server::new();
    let elsewhere =
        |asked: &Request| asked.group == "whereabouts.cni.cncf.io" && asked.namespace != "net";
    server.deny(Match::any().filter(elsewhere));
    assert!(asked(&server, Some("net"), false).await.is_empty());
    assert_eq!(asked(&server, Some("other"), false).await.len(), 8);
    assert_eq!(asked(&server, None, false).await.len(), 8);
}

#[tokio::test]
async fn a_dry_run_needs_no_right_to_write() {
    let server = Server::new();
    let writes = |asked: &Request| {
        let writes = ["create", "update", "patch", "delete", "deletecollection"];
        writes.contains(&asked.verb.as_str()) && asked.group != "authorization.k8s.io"
    };
    server.deny(Match::any().filter(writes));
    assert!(asked(&server, None, true).await.is_empty());
    assert_eq!(
        asked(&server, None, false).await,
        [
            "patch ippools.whereabouts.cni.cncf.io in all namespaces",
            "patch overlappingrangeipreservations.whereabouts.cni.cncf.io in all namespaces",
            "delete overlappingrangeipreservations.whereabouts.cni.cncf.io in all namespaces",
            "create events.events.k8s.io in all namespaces",
            "create leases.coordination.k8s.io in namespace ipgc-system",
            "update leases.coordination.k8s.io ipgc in namespace ipgc-system",
        ]
    );
}

#[tokio::test]
async fn the_only_copy_needs_no_right_on_a_lease_of_its_own() {
    let server = Server::new();
    server.deny(Match::resource("leases").namespace("ipgc-system"));
    let alone = Config::default();
    let asked = missing(&server.client(), alone.rights()).await.unwrap();
    assert!(asked.is_empty(), "{asked:?}");
}

/// One review of all is not answered; everything would be allowed.
#[rstest]
#[case::server_error(|rule: RuleBuilder<'_>| rule.fail(500), "(500)")]
#[case::overloaded(|rule: RuleBuilder<'_>| rule.fail(429), "(429)")]
#[case::not_authenticated(|rule: RuleBuilder<'_>| rule.fail(401), "(401)")]
#[case::not_allowed_to_ask(|rule: RuleBuilder<'_>| rule.deny(), "cannot create")]
#[case::out_of_reach(|rule: RuleBuilder<'_>| rule.disconnect(), "connection")]
#[case::answer_lost(|rule: RuleBuilder<'_>| rule.apply_then_disconnect(), "connection")]
#[case::garbled(|rule: RuleBuilder<'_>| rule.garble(Garble::Html), "deserializing")]
#[case::cut_off(|rule: RuleBuilder<'_>| rule.garble(Garble::Truncated), "deserializing")]
#[case::silent(|rule: RuleBuilder<'_>| rule.hang(), "no answer within 20s")]
#[tokio::test(start_paused = true)]
async fn a_review_that_is_not_answered_is_an_error(
    #[case] fault: fn(RuleBuilder<'_>) -> Rule,
    #[case] says: &str,
    #[values(0, 7, 19)] which: usize,
) {
    let server = Server::new();
    fault(server.on(reviews()).skip(which).once());
    let answer: Result<_, CallError> =
        missing(&server.client(), config(None, false).rights()).await;
    let error = answer.unwrap_err().to_string();
    assert!(error.contains(says), "{error}");
}

/// Something that sends back what it gets, where a server would fill in the status.
#[tokio::test]
async fn an_answer_that_grants_nothing_grants_nothing() {
    let echo = tower::service_fn(async |request: http::Request<Body>| {
        Ok::<_, tower::BoxError>(http::Response::new(request.into_body()))
    });
    let answer = missing(&Client::new(echo, "default"), config(None, false).rights()).await;
    assert_eq!(answer.unwrap(), config(None, false).rights());
}

#[tokio::test(start_paused = true)]
async fn a_few_are_asked_at_a_time() {
    let server = Server::new();
    server.on(reviews()).hang();
    let (client, silent) = (server.client(), Duration::from_secs(1));
    let config = config(None, false);
    let asking = timeout(silent, missing(&client, config.rights())).await;
    assert!(asking.is_err());
    assert_eq!(server.requests().len(), 4, "{}", server.requests());
}

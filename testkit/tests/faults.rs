//! Faults, hooks, denials, and what the log and the history remember.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::response::Status;
use kube::{Api, Client, Error};
use serde_json::json;
use testkit::ChangeKind::{Added, Deleted, Modified};
use testkit::pods::Kubelet;
use testkit::{Failure, Garble, Match, Server, Verb, fixtures};
use tokio::time::{Instant, timeout};

fn server() -> Server {
    let server = Server::new();
    server.put(fixtures::pod("shop", "a").node("n1"));
    server
}

fn pods(client: Client) -> Api<Pod> {
    Api::namespaced(client, "shop")
}

/// The Status of a refusal.
fn refused<T>(answer: Result<T, Error>) -> Box<Status> {
    match answer {
        Err(Error::Api(status)) => status,
        Err(other) => panic!("no status: {other}"),
        Ok(_) => panic!("no refusal"),
    }
}

fn code<T>(answer: Result<T, Error>) -> u16 {
    refused(answer).code
}

fn at_once() -> DeleteParams {
    DeleteParams::default().grace_period(0)
}

#[tokio::test(start_paused = true)]
async fn a_rule_acts_on_the_requests_it_matches_and_so_often() {
    let server = server();
    let (ours, other) = (pods(server.client_named("ipgc")), pods(server.client()));
    let matcher = Match::get("pods")
        .namespace("shop")
        .name("a")
        .client("ipgc");
    let rule = server.on(matcher).skip(1).times(2).fail(503);
    assert!(ours.get("a").await.is_ok());
    assert!(other.get("a").await.is_ok());
    assert!(ours.list(&ListParams::default()).await.is_ok());
    assert_eq!(code(ours.get("a").await), 503);
    assert_eq!(code(ours.get("a").await), 503);
    assert!(ours.get("a").await.is_ok());
    assert_eq!(rule.hits(), 2);
    let standing = server.on(Match::any()).fail(500);
    assert!(ours.get("a").await.is_err());
    standing.remove();
    assert!(ours.get("a").await.is_ok());
    server.on(Match::any()).disconnect();
    server.clear_rules();
    assert!(ours.get("a").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_a_header_and_a_detail() {
    let server = server();
    let busy = Failure::too_many_requests(7);
    server.on(Match::any()).answer(busy);
    let request = http::Request::get("/api/v1/pods")
        .body(kube::client::Body::empty())
        .unwrap();
    let answer = server.client().send(request).await.unwrap();
    assert_eq!(answer.status(), 429);
    assert_eq!(answer.headers()["retry-after"], "7");
    let status = refused(pods(server.client()).get("a").await);
    assert_eq!(status.details.as_ref().unwrap().retry_after_seconds, 7);
}

#[tokio::test(start_paused = true)]
async fn lost_responses_did_their_work() {
    let server = server();
    let client = server.client();
    server
        .on(Match::delete("pods"))
        .once()
        .apply_then_disconnect();
    let answer = pods(client.clone()).delete("a", &at_once()).await;
    assert!(matches!(answer, Err(Error::Service(_))), "{answer:?}");
    assert_eq!(server.count("pods"), 0);
    assert_eq!(server.requests().last().unwrap().status, None);

    server
        .on(Match::create("pods"))
        .apply_then_answer(Failure::of_code(504));
    let pod = serde_json::from_value(fixtures::pod("shop", "b").build()).unwrap();
    let answer = pods(client).create(&PostParams::default(), &pod).await;
    assert_eq!(code(answer), 504);
    assert_eq!(server.count("pods"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_late_write_outlives_its_client() {
    let server = server();
    server
        .on(Match::delete("pods"))
        .apply_late(Duration::from_secs(20));
    let answer = pods(server.client()).delete("a", &at_once()).await;
    assert!(answer.is_err());
    tokio::time::sleep(Duration::from_secs(19)).await;
    assert_eq!(server.count("pods"), 1);
    let gone = server.wait_until(Duration::from_secs(5), |it| it.count("pods") == 0);
    assert!(gone.await);
}

#[tokio::test(start_paused = true)]
async fn requests_hang_until_released_or_wait_a_while() {
    let server = server();
    let api = pods(server.client());
    let hang = server.on(Match::get("pods")).hang();
    let gone = timeout(Duration::from_secs(3600), api.get("a")).await;
    assert!(gone.is_err());
    let release = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        hang.remove();
    };
    let (answer, ()) = tokio::join!(api.get("a"), release);
    assert!(answer.is_ok());
    server.on(Match::get("pods")).delay(Duration::from_secs(3));
    let begin = Instant::now();
    api.get("a").await.unwrap();
    assert_eq!(begin.elapsed(), Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn stale_reads_see_an_earlier_revision() {
    let server = server();
    let api = pods(server.client());
    let then = server.revision();
    server.put(fixtures::pod("shop", "b"));
    server
        .on(Match::reads("pods").any_version())
        .serve_stale(then);
    let list = async |params: ListParams| api.list(&params).await.unwrap().items.len();
    assert_eq!(list(ListParams::default()).await, 2);
    assert_eq!(list(ListParams::default().match_any()).await, 1);
    server.on(Match::get("pods")).serve_stale(then);
    assert_eq!(code(api.get("b").await), 404);
}

#[tokio::test(start_paused = true)]
async fn answers_can_be_garbled() {
    let server = server();
    let api = pods(server.client());
    for how in [Garble::Html, Garble::Truncated, Garble::Item(0)] {
        let rule = server.on(Match::list("pods")).garble(how);
        let error = api.list(&ListParams::default()).await.unwrap_err();
        assert!(matches!(error, Error::SerdeError(_)), "{how:?}: {error:?}");
        rule.remove();
    }
    assert!(api.list(&ListParams::default()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn hooks_stand_right_before_and_after_a_request() {
    let server = server();
    let pool = fixtures::pool("kube-system", "10.0.0.0/24");
    server.put(pool.row(1, "old", "shop/a", "net1"));
    // An ADD adopts the row between our observation and our patch.
    let patches = Match::patch("ippools").client("ipgc");
    let hook = server.before(patches, |server| async move {
        server.edit("ippools", "kube-system", "10.0.0.0-24", |pool| {
            pool["spec"]["allocations"]["1"]["id"] = "new".into();
        });
    });
    let patch = json!([
        { "op": "test", "path": "/spec/allocations/1/id", "value": "old" },
        { "op": "remove", "path": "/spec/allocations/1" },
    ])
    .to_string();
    let request = http::Request::patch(
        "/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/kube-system/ippools/10.0.0.0-24",
    )
    .header("content-type", "application/json-patch+json")
    .body(patch.into_bytes())
    .unwrap();
    let answer = server.client_named("ipgc").request_text(request).await;
    assert_eq!(code(answer), 422);
    assert_eq!(hook.hits(), 1);
    // The row was there all the time.
    for write in server.history("ippools") {
        assert!(!write.object()["spec"]["allocations"]["1"].is_null());
    }

    // A hook may use a client of its own, and it runs after each page.
    let pages = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&pages);
    server.after(Match::list("pods").client("ipgc"), move |server| {
        let counter = Arc::clone(&counter);
        async move {
            let number = counter.fetch_add(1, Ordering::Relaxed);
            let name = format!("extra-{number}");
            let pod = serde_json::from_value(fixtures::pod("shop", &name).build()).unwrap();
            let pods = pods(server.client_named("other"));
            pods.create(&PostParams::default(), &pod).await.unwrap();
        }
    });
    let ours = pods(server.client_named("ipgc"));
    let list = ours.list(&ListParams::default()).await.unwrap();
    assert_eq!((list.items.len(), server.count("pods")), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn denials_speak_like_rbac_and_show_in_access_reviews() {
    let server = server();
    let client = server.client_named("ipgc");
    let denial = server.deny(Match::list("pods").client("ipgc"));
    let all: Api<Pod> = Api::all(client.clone());
    let status = refused(all.list(&ListParams::default()).await);
    assert_eq!((status.code, &*status.reason), (403, "Forbidden"));
    let user = "User \"ipgc\" cannot list resource \"pods\" in API group \"\"";
    let message = format!("pods is forbidden: {user} at the cluster scope");
    assert_eq!(status.message, message);
    let status = refused(pods(client.clone()).list(&ListParams::default()).await);
    let message = format!("pods is forbidden: {user} in the namespace \"shop\"");
    assert_eq!(status.message, message);

    let reviews: Api<SelfSubjectAccessReview> = Api::all(client);
    let ask = async |verb: &str| {
        let review = serde_json::from_value(json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "metadata": {},
            "spec": { "resourceAttributes": { "verb": verb, "resource": "pods" } },
        }))
        .unwrap();
        let review = reviews.create(&PostParams::default(), &review).await;
        review.unwrap().status.unwrap().allowed
    };
    assert!(!ask("list").await);
    assert!(ask("get").await);
    denial.remove();
    assert!(ask("list").await);
}

#[tokio::test(start_paused = true)]
async fn the_log_tells_who_asked_what_and_got_what() {
    let server = server();
    let api = pods(server.client_named("ipgc"));
    api.list(&ListParams::default().limit(1).fields("spec.nodeName=n1"))
        .await
        .unwrap();
    let _ = api.get("nope").await;
    let patch = json!({ "metadata": { "labels": { "a": "b" } } });
    api.patch("a", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    let log = server.requests();
    assert_eq!(log.len(), 3);
    assert_eq!(log.count(|request| request.status == Some(404)), 1);
    assert_eq!(log.matching(&Match::writes("pods").name("a")).len(), 1);
    let last = log.last().unwrap();
    assert_eq!((last.verb, last.json()), (Verb::Patch, patch));
    assert!(last.answered_at.is_some());
    let text = log.to_string();
    let line = "ipgc     list pods shop/ limit=1 fields=spec.nodeName=n1 -> 200";
    assert!(text.contains(line), "{text}");
    server.clear_requests();
    assert!(server.requests().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_history_tells_who_wrote_what() {
    let server = server();
    let ours = pods(server.client_named("ipgc"));
    ours.delete("a", &at_once()).await.unwrap();
    let writes = server.history("pods");
    let told: Vec<_> = writes.iter().map(|it| (it.kind(), it.by())).collect();
    let wanted = [(Added, ""), (Modified, "ipgc"), (Deleted, "ipgc")];
    assert_eq!(told, wanted);
    assert!(writes[0].previous().is_none());
    assert_eq!(writes[2].name(), "a");
}

#[tokio::test(start_paused = true)]
async fn kubelet_plays_the_lives_of_pods_as_watches_show_them() {
    let server = server();
    let kubelet = Kubelet::new(&server);
    kubelet.start_pod("shop", "a");
    let network = fixtures::network("shop/net", "net1", &["10.0.0.1"]);
    kubelet.run_pod("shop", "a", &[network]);
    kubelet.terminate_pod("shop", "a").await;
    let seen = server.history("pods").into_iter().map(|write| {
        let pod = write.object();
        let grace = &pod["metadata"]["deletionGracePeriodSeconds"];
        let phase = pod["status"]["phase"].as_str().unwrap();
        format!("{:?} {phase} {grace}", write.kind())
    });
    assert_eq!(
        seen.collect::<Vec<_>>(),
        [
            "Added Pending null",
            "Modified Pending null",
            "Modified Pending null",
            "Modified Running null",
            "Modified Running 30",
            "Modified Succeeded 30",
            "Modified Succeeded 0",
            "Deleted Succeeded 0",
        ]
    );

    server.put(fixtures::pod("shop", "b").node("n1").running());
    kubelet.force_delete("shop", "b");
    let last = server.history("pods").last().unwrap().object();
    assert_eq!(last["status"]["phase"], "Running");
    server.put(fixtures::pod("shop", "c").node("n1").running());
    kubelet.collect_pod("shop", "c");
    let last = server.history("pods").last().unwrap().object();
    assert_eq!(last["status"]["phase"], "Failed");
    let state = &last["status"]["containerStatuses"][0]["state"];
    assert!(state.get("running").is_some());

    server.put(fixtures::node("n1", true));
    kubelet.set_ready("n1", false);
    kubelet.renew_lease("n1");
    assert!(server.get("leases", "kube-node-lease", "n1").is_some());
}

#[tokio::test(start_paused = true)]
async fn another_uid_is_another_incarnation() {
    let server = Server::new();
    server.put(fixtures::pod("shop", "a").uid("u1"));
    server.put(fixtures::pod("shop", "a").uid("u1").label("x", "y"));
    server.put(fixtures::pod("shop", "a").uid("u2"));
    let writes = server.history("pods");
    let kinds: Vec<_> = writes.iter().map(testkit::Write::kind).collect();
    assert_eq!(kinds, [Added, Modified, Deleted, Added]);
}

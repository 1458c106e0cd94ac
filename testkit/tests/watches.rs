//! What a watch tells, and how it ends.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::pin::pin;
use std::time::Duration;

use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{WatchEvent, WatchParams};
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use testkit::{ChangeKind, Cut, Failure, Match, Server, fixtures};
use tokio::time::{Instant, timeout};

const SOON: Duration = Duration::from_secs(1);

fn put_pod(server: &Server, name: &str) {
    server.put(fixtures::pod("shop", name).node("n1").build());
}

fn line(event: &WatchEvent<Pod>) -> String {
    match event {
        WatchEvent::Added(pod) => format!("ADDED {}", pod.name_any()),
        WatchEvent::Modified(pod) => format!("MODIFIED {}", pod.name_any()),
        WatchEvent::Deleted(pod) => format!("DELETED {}", pod.name_any()),
        WatchEvent::Bookmark(_) => "BOOKMARK".to_owned(),
        WatchEvent::Error(status) => format!("ERROR {}", status.code),
    }
}

/// What arrives within the next second.
async fn soon<S>(stream: &mut S) -> Vec<String>
where
    S: Stream<Item = Result<WatchEvent<Pod>, kube::Error>> + Unpin,
{
    let mut lines = Vec::new();
    loop {
        match timeout(SOON, stream.next()).await {
            Ok(Some(Ok(event))) => lines.push(line(&event)),
            Ok(Some(Err(error))) => lines.push(format!("error: {error}")),
            Ok(None) => {
                lines.push("end".to_owned());
                return lines;
            }
            Err(_) => return lines,
        }
    }
}

async fn open(
    server: &Server,
    params: WatchParams,
    version: &str,
) -> impl Stream<Item = Result<WatchEvent<Pod>, kube::Error>> + Unpin + use<> {
    let pods: Api<Pod> = Api::all(server.client());
    pods.watch(&params, version).await.unwrap().boxed()
}

#[tokio::test(start_paused = true)]
async fn events_after_the_version_arrive_in_order() {
    let server = Server::new();
    put_pod(&server, "before");
    let version = server.revision().to_string();
    put_pod(&server, "a");
    let mut stream = open(&server, WatchParams::default(), &version).await;
    assert_eq!(soon(&mut stream).await, ["ADDED a"]);
    server.edit("pods", "shop", "a", |pod| {
        pod["status"]["phase"] = "Running".into();
    });
    server.delete("pods", "shop", "a");
    put_pod(&server, "a");
    assert_eq!(
        soon(&mut stream).await,
        ["MODIFIED a", "DELETED a", "ADDED a"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_deletion_carries_the_last_state_and_a_new_version() {
    let server = Server::new();
    put_pod(&server, "a");
    let version = server.revision();
    let mut stream = open(&server, WatchParams::default(), &version.to_string()).await;
    server.delete("pods", "shop", "a");
    let Some(Ok(WatchEvent::Deleted(pod))) = stream.next().await else {
        panic!()
    };
    assert_eq!(pod.spec.as_ref().unwrap().node_name.as_deref(), Some("n1"));
    assert_eq!(pod.resource_version().unwrap(), (version + 1).to_string());
}

#[tokio::test(start_paused = true)]
async fn without_a_version_a_watch_begins_with_what_exists() {
    let server = Server::new();
    put_pod(&server, "a");
    put_pod(&server, "b");
    let mut stream = open(&server, WatchParams::default(), "0").await;
    put_pod(&server, "c");
    assert_eq!(soon(&mut stream).await, ["ADDED a", "ADDED b", "ADDED c"]);
}

#[tokio::test(start_paused = true)]
async fn selectors_turn_changes_into_arrivals_and_departures() {
    let server = Server::new();
    let version = server.revision().to_string();
    let params = WatchParams::default().fields("spec.nodeName=n1");
    let mut stream = open(&server, params, &version).await;
    server.put(fixtures::pod("shop", "a").build());
    assert!(soon(&mut stream).await.is_empty());
    server.edit("pods", "shop", "a", |pod| {
        pod["spec"]["nodeName"] = "n1".into();
    });
    assert_eq!(soon(&mut stream).await, ["ADDED a"]);
    server.edit("pods", "shop", "a", |pod| {
        pod["spec"]["nodeName"] = "n2".into();
    });
    assert_eq!(soon(&mut stream).await, ["DELETED a"]);
    server.delete("pods", "shop", "a");
    assert!(soon(&mut stream).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn namespaced_watches_see_their_namespace_only() {
    let server = Server::new();
    let pods: Api<Pod> = Api::namespaced(server.client(), "shop");
    let mut stream = pods
        .watch(&WatchParams::default(), "1")
        .await
        .unwrap()
        .boxed();
    server.put(fixtures::pod("other", "x").build());
    put_pod(&server, "a");
    assert_eq!(soon(&mut stream).await, ["ADDED a"]);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_tell_the_newest_version_every_minute() {
    let server = Server::new();
    let mut stream = open(&server, WatchParams::default(), "1").await;
    server.put(fixtures::node("n1", true));
    let begin = Instant::now();
    let Some(Ok(WatchEvent::Bookmark(mark))) = stream.next().await else {
        panic!()
    };
    assert_eq!(begin.elapsed().as_secs(), 60);
    assert_eq!(
        mark.metadata.resource_version,
        server.revision().to_string()
    );
    let Some(Ok(WatchEvent::Bookmark(_))) = stream.next().await else {
        panic!()
    };
    assert_eq!(begin.elapsed().as_secs(), 120);
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_after_its_timeout() {
    let server = Server::new();
    let begin = Instant::now();
    let mut stream = open(
        &server,
        WatchParams::default().disable_bookmarks().timeout(20),
        "1",
    )
    .await;
    assert!(stream.next().await.is_none());
    assert_eq!(begin.elapsed().as_secs(), 20);
}

#[tokio::test(start_paused = true)]
async fn a_version_too_old_is_told_within_the_stream() {
    let server = Server::new();
    put_pod(&server, "a");
    put_pod(&server, "b");
    server.compact();
    let mut stream = open(&server, WatchParams::default(), "1").await;
    assert_eq!(soon(&mut stream).await, ["ERROR 410", "end"]);
    let newest = server.revision().to_string();
    let mut stream = open(&server, WatchParams::default(), &newest).await;
    assert!(soon(&mut stream).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_proxy_may_answer_410_by_status() {
    let server = Server::new();
    server
        .on(Match::watch("pods"))
        .once()
        .answer(Failure::expired("too old resource version"));
    let pods: Api<Pod> = Api::all(server.client());
    let Err(kube::Error::Api(status)) = pods.watch(&WatchParams::default(), "1").await else {
        panic!()
    };
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
}

#[tokio::test(start_paused = true)]
async fn send_initial_events_is_refused_unless_enabled() {
    let server = Server::new();
    let pods: Api<Pod> = Api::all(server.client());
    let params = WatchParams::default().initial_events();
    let Err(kube::Error::Api(status)) = pods.watch(&params, "0").await else {
        panic!()
    };
    assert_eq!(status.code, 422);
    assert!(
        status.message.contains("sendInitialEvents"),
        "{}",
        status.message
    );
}

#[tokio::test(start_paused = true)]
async fn streaming_lists_end_with_an_annotated_bookmark() {
    let server = Server::builder().streaming_lists().build();
    put_pod(&server, "a");
    let mut stream = open(&server, WatchParams::default().initial_events(), "0").await;
    let Some(Ok(WatchEvent::Added(_))) = stream.next().await else {
        panic!()
    };
    let Some(Ok(WatchEvent::Bookmark(mark))) = stream.next().await else {
        panic!()
    };
    assert!(
        mark.metadata
            .annotations
            .contains_key("k8s.io/initial-events-end")
    );
    put_pod(&server, "b");
    assert_eq!(soon(&mut stream).await, ["ADDED b"]);
}

#[tokio::test(start_paused = true)]
async fn metadata_watches_carry_metadata_only() {
    let server = Server::new();
    put_pod(&server, "a");
    let pods: Api<Pod> = Api::all(server.client());
    let mut stream = pods
        .watch_metadata(&WatchParams::default(), "0")
        .await
        .unwrap()
        .boxed();
    let Some(Ok(WatchEvent::Added(pod))) = stream.next().await else {
        panic!()
    };
    assert_eq!(pod.types.unwrap().kind, "PartialObjectMetadata");
}

#[tokio::test(start_paused = true)]
async fn cuts_end_open_streams_cleanly_or_not() {
    let server = Server::new();
    let mut stream = open(&server, WatchParams::default(), "1").await;
    assert!(soon(&mut stream).await.is_empty());
    server.cut_watches("nodes");
    assert!(soon(&mut stream).await.is_empty());
    server.cut_watches("pods");
    assert_eq!(soon(&mut stream).await, ["end"]);
    let mut stream = open(&server, WatchParams::default(), "1").await;
    server.cut(Match::watch("pods"), Cut::Broken);
    let lines = soon(&mut stream).await;
    assert!(lines[0].starts_with("error"), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn events_can_be_lost_doubled_delayed_and_cut_off() {
    let server = Server::new();
    let watch = || Match::watch("pods");
    let mut stream = open(&server, WatchParams::default(), "1").await;
    put_pod(&server, "a");
    assert_eq!(soon(&mut stream).await, ["ADDED a"]);

    let lost = server
        .on_events(watch())
        .kind(ChangeKind::Deleted)
        .name("a")
        .lose();
    server.delete("pods", "shop", "a");
    put_pod(&server, "b");
    assert_eq!(soon(&mut stream).await, ["ADDED b"]);
    assert_eq!(lost.hits(), 1);

    let doubled = server.on_events(watch()).once().duplicate();
    put_pod(&server, "c");
    assert_eq!(soon(&mut stream).await, ["ADDED c", "ADDED c"]);
    doubled.remove();

    server
        .on_events(watch())
        .name("d")
        .delay(Duration::from_secs(30));
    put_pod(&server, "d");
    put_pod(&server, "e");
    assert!(soon(&mut stream).await.is_empty());
    tokio::time::sleep(Duration::from_secs(29)).await;
    assert_eq!(soon(&mut stream).await, ["ADDED d", "ADDED e"]);

    server.on_events(watch()).once().cut_after(2);
    put_pod(&server, "f");
    put_pod(&server, "g");
    put_pod(&server, "h");
    assert_eq!(soon(&mut stream).await, ["ADDED f", "ADDED g", "end"]);
}

#[tokio::test(start_paused = true)]
async fn a_held_stream_is_open_and_silent_until_released() {
    let server = Server::new();
    let mut stream = open(&server, WatchParams::default(), "1").await;
    let hold = server.on_events(Match::watch("pods")).hold();
    put_pod(&server, "a");
    let quiet = timeout(Duration::from_secs(100), stream.next()).await;
    assert!(quiet.is_err(), "no event and no bookmark");
    hold.remove();
    // The bookmark that was due meanwhile follows.
    assert_eq!(soon(&mut stream).await, ["ADDED a", "BOOKMARK"]);
}

/// One line per event of kube's own watcher.
async fn watched(server: &Server, config: watcher::Config, count: usize) -> Vec<String> {
    let pods: Api<Pod> = Api::all(server.client_named("watcher"));
    let stream = watcher(pods, config).map(|event| match event {
        Ok(watcher::Event::Init) => "init".to_owned(),
        Ok(watcher::Event::InitApply(pod)) => format!("listed {}", pod.name_any()),
        Ok(watcher::Event::InitDone) => "done".to_owned(),
        Ok(watcher::Event::Apply(pod)) => format!("applied {}", pod.name_any()),
        Ok(watcher::Event::Delete(pod)) => format!("deleted {}", pod.name_any()),
        Err(error) => format!("error: {error}"),
    });
    let stream = pin!(stream);
    stream.take(count).collect().await
}

#[tokio::test(start_paused = true)]
async fn kubes_watcher_lists_in_pages_resumes_and_relists() {
    let server = Server::new();
    for name in ["a", "b", "c"] {
        put_pod(&server, name);
    }
    let script = async {
        tokio::time::sleep(SOON).await;
        put_pod(&server, "d");
        tokio::time::sleep(SOON).await;
        // A cut is resumed from the last version: nothing is listed again.
        server.cut_watches("pods");
        put_pod(&server, "e");
        tokio::time::sleep(SOON).await;
        // Compaction during the gap makes a relist.
        let rule = server.on(Match::watch("pods")).fail(503);
        server.cut_watches("pods");
        server.delete("pods", "shop", "a");
        tokio::time::sleep(SOON).await;
        server.compact();
        rule.remove();
    };
    let watch = watched(&server, watcher::Config::default().page_size(2), 8);
    let (events, ()) = tokio::join!(watch, script);
    assert_eq!(
        events[..7],
        [
            "init",
            "listed a",
            "listed b",
            "listed c",
            "done",
            "applied d",
            "applied e"
        ]
    );
    let lists = server
        .requests()
        .matching(&Match::list("pods").client("watcher"));
    assert_eq!(lists.len(), 2, "{}", server.requests());
}

#[tokio::test(start_paused = true)]
async fn kubes_watcher_streams_lists_where_enabled() {
    let server = Server::builder().streaming_lists().build();
    put_pod(&server, "a");
    put_pod(&server, "b");
    let config = watcher::Config::default().streaming_lists();
    let events = watched(&server, config, 4).await;
    assert_eq!(events, ["init", "listed a", "listed b", "done"]);
    assert_eq!(
        server
            .requests()
            .count(|request| request.verb == testkit::Verb::List),
        0
    );
}

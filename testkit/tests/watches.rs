//! The events of a watch, and how a watch ends.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{WatchEvent, WatchParams};
use kube::{Api, ResourceExt};
use testkit::{Match, Server, fixtures};
use tokio::time::{Instant, timeout};

const SOON: Duration = Duration::from_secs(1);

fn put_pod(server: &Server, name: &str) {
    server.put(fixtures::pod("shop", name).node("n1"));
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

/// The events that arrive within the next second.
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
async fn a_watch_begins_with_what_exists_and_tells_what_follows_in_its_namespace() {
    let server = Server::new();
    put_pod(&server, "a");
    put_pod(&server, "b");
    let pods: Api<Pod> = Api::namespaced(server.client(), "shop");
    let stream = pods.watch(&WatchParams::default(), "0").await;
    let mut stream = stream.unwrap().boxed();
    server.put(fixtures::pod("other", "x"));
    put_pod(&server, "c");
    assert_eq!(soon(&mut stream).await, ["ADDED a", "ADDED b", "ADDED c"]);
    let status = |pod: &mut serde_json::Value| pod["status"]["phase"] = "Running".into();
    server.edit("pods", "shop", "a", status);
    server.delete("pods", "shop", "a");
    put_pod(&server, "a");
    let told = ["MODIFIED a", "DELETED a", "ADDED a"];
    assert_eq!(soon(&mut stream).await, told);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_tell_the_newest_version_every_minute() {
    let server = Server::new();
    let mut stream = open(&server, WatchParams::default(), "1").await;
    server.put(fixtures::node("n1", true));
    let begin = Instant::now();
    for seconds in [60, 120] {
        let Some(Ok(WatchEvent::Bookmark(mark))) = stream.next().await else {
            panic!("no bookmark")
        };
        assert_eq!(begin.elapsed().as_secs(), seconds);
        let newest = server.revision().to_string();
        assert_eq!(mark.metadata.resource_version, newest);
    }
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
async fn events_can_be_doubled() {
    let server = Server::new();
    let mut stream = open(&server, WatchParams::default(), "1").await;
    server.on_events(Match::watch("pods")).duplicate();
    put_pod(&server, "a");
    assert_eq!(soon(&mut stream).await, ["ADDED a", "ADDED a"]);
}

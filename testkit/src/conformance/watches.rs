//! What watches tell, and how they end.

use std::fmt::Debug;
use std::time::Duration;

use futures::{Stream, StreamExt};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, WatchEvent, WatchParams};
use kube::{Error, ResourceExt};
use serde_json::json;
use tokio::time::timeout;

use super::{Cluster, Verdict, clear, ensure, refused, same, text};

/// The next event as text, bookmarks left out; `end` if there is none.
async fn next<K, S>(stream: &mut S) -> Result<(String, Option<K>), String>
where
    K: ResourceExt + Debug,
    S: Stream<Item = Result<WatchEvent<K>, Error>> + Unpin,
{
    loop {
        let event = timeout(Duration::from_secs(20), stream.next()).await;
        let event = event.map_err(|_| "no event within 20 s")?;
        let (kind, object) = match event {
            None => return Ok(("end".to_owned(), None)),
            Some(Err(error)) => return Err(text(error)),
            Some(Ok(WatchEvent::Bookmark(_))) => continue,
            Some(Ok(WatchEvent::Error(status))) => {
                return Ok((format!("ERROR {}", status.code), None));
            }
            Some(Ok(WatchEvent::Added(object))) => ("ADDED", object),
            Some(Ok(WatchEvent::Modified(object))) => ("MODIFIED", object),
            Some(Ok(WatchEvent::Deleted(object))) => ("DELETED", object),
        };
        return Ok((format!("{kind} {}", object.name_any()), Some(object)));
    }
}

async fn version(cluster: &Cluster) -> Result<String, String> {
    let list = cluster
        .pods()
        .list(&ListParams::default())
        .await
        .map_err(text)?;
    list.metadata
        .resource_version
        .ok_or_else(|| "no version".to_owned())
}

pub(super) async fn events_come_in_order_with_the_last_state(cluster: &Cluster) -> Verdict {
    let name = "watch-order";
    clear(&cluster.pods(), name).await?;
    let version = version(cluster).await?;
    cluster.pod(name, |pod| pod.label("set", name)).await?;
    let pods = cluster.pods();
    let patch = Patch::Merge(json!({ "metadata": { "labels": { "a": "b" } } }));
    let changed = pods
        .patch(name, &PatchParams::default(), &patch)
        .await
        .map_err(text)?;
    let params = WatchParams::default().labels("set=watch-order");
    let mut stream = pods.watch(&params, &version).await.map_err(text)?.boxed();
    same(
        "first",
        next(&mut stream).await?.0.as_str(),
        "ADDED watch-order",
    )?;
    same(
        "second",
        next(&mut stream).await?.0.as_str(),
        "MODIFIED watch-order",
    )?;
    pods.delete(name, &DeleteParams::default())
        .await
        .map_err(text)?;
    loop {
        let (line, pod) = next(&mut stream).await?;
        if line == "MODIFIED watch-order" {
            continue;
        }
        same("last", line.as_str(), "DELETED watch-order")?;
        let pod = pod.ok_or("no pod")?;
        same(
            "label",
            pod.labels().get("a").map(String::as_str),
            Some("b"),
        )?;
        let number =
            |version: Option<String>| version.unwrap_or_default().parse::<u64>().unwrap_or(0);
        let (last, before) = (
            number(pod.resource_version()),
            number(changed.resource_version()),
        );
        return ensure(last > before, format!("version {last} after {before}"));
    }
}

pub(super) async fn selection_turns_changes_into_arrivals_and_departures(
    cluster: &Cluster,
) -> Verdict {
    let name = "watch-selection";
    cluster.pod(name, |pod| pod).await?;
    let pods = cluster.pods();
    let params = WatchParams::default().labels("watch-selection=yes");
    let version = version(cluster).await?;
    let mut stream = pods.watch(&params, &version).await.map_err(text)?.boxed();
    for (value, wanted) in [
        ("yes", "ADDED watch-selection"),
        ("no", "DELETED watch-selection"),
    ] {
        let patch = Patch::Merge(json!({ "metadata": { "labels": { "watch-selection": value } } }));
        let changed = pods
            .patch(name, &PatchParams::default(), &patch)
            .await
            .map_err(text)?;
        let (line, pod) = next(&mut stream).await?;
        same("event", line.as_str(), wanted)?;
        let pod = pod.ok_or("no pod")?;
        same(
            "version",
            pod.resource_version(),
            changed.resource_version(),
        )?;
        // Also the departure shows the state within the selection.
        same(
            "label",
            pod.labels().get(name).map(String::as_str),
            Some("yes"),
        )?;
    }
    Ok(())
}

pub(super) async fn version_zero_begins_with_what_exists(cluster: &Cluster) -> Verdict {
    let name = "watch-zero";
    cluster.pod(name, |pod| pod).await?;
    let params = WatchParams::default().fields("metadata.name=watch-zero");
    let pods = cluster.pods();
    let mut stream = pods.watch(&params, "0").await.map_err(text)?.boxed();
    same(
        "event",
        next(&mut stream).await?.0.as_str(),
        "ADDED watch-zero",
    )
}

pub(super) async fn a_watch_ends_after_its_timeout(cluster: &Cluster) -> Verdict {
    let params = WatchParams::default()
        .fields("metadata.name=watch-nothing")
        .timeout(2);
    let version = version(cluster).await?;
    let pods = cluster.pods();
    let mut stream = pods.watch(&params, &version).await.map_err(text)?.boxed();
    same("event", next(&mut stream).await?.0.as_str(), "end")
}

pub(super) async fn initial_events_are_refused_or_end_with_a_bookmark(
    cluster: &Cluster,
) -> Verdict {
    let name = "watch-initial";
    cluster.pod(name, |pod| pod).await?;
    let params = WatchParams::default()
        .fields("metadata.name=watch-initial")
        .initial_events();
    let mut stream = match cluster.pods().watch(&params, "0").await {
        Ok(stream) => stream.boxed(),
        Err(error) => {
            let status = refused::<()>(Err(error), 422)?;
            return ensure(
                status.message.contains("sendInitialEvents"),
                &status.message,
            );
        }
    };
    let mut listed = 0;
    while let Ok(Some(event)) = timeout(Duration::from_secs(20), stream.next()).await {
        match event.map_err(text)? {
            WatchEvent::Added(_) => listed += 1,
            WatchEvent::Bookmark(mark) => {
                let end = mark
                    .metadata
                    .annotations
                    .contains_key("k8s.io/initial-events-end");
                ensure(end, "a bookmark without the annotation")?;
                return same("listed", listed, 1);
            }
            other => return Err(format!("{other:?}")),
        }
    }
    Err("no bookmark".to_owned())
}

pub(super) async fn metadata_can_be_watched_alone(cluster: &Cluster) -> Verdict {
    let name = "watch-metadata";
    cluster.pod(name, |pod| pod).await?;
    let params = WatchParams::default().fields("metadata.name=watch-metadata");
    let pods = cluster.pods();
    let mut stream = pods
        .watch_metadata(&params, "0")
        .await
        .map_err(text)?
        .boxed();
    let (line, pod) = next(&mut stream).await?;
    same("event", line.as_str(), "ADDED watch-metadata")?;
    let types = pod.and_then(|pod| pod.types).map(|types| types.kind);
    same("kind", types.as_deref(), Some("PartialObjectMetadata"))
}

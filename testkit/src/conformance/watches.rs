//! The events of watches, and how watches end.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use http::{Request, header};
use kube::Error;
use kube::api::WatchEvent;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{Cluster, JSON, METADATA, Shown, ensure, same, text, version, with};

/// An open watch.
pub(super) struct Watch(BoxStream<'static, Result<WatchEvent<Value>, Error>>);

impl Watch {
    pub(super) async fn open(
        cluster: &Cluster,
        what: &str,
        options: &[(&str, &str)],
    ) -> Result<Self, Error> {
        Self::open_as(cluster, what, options, JSON).await
    }

    async fn open_as(
        cluster: &Cluster,
        what: &str,
        options: &[(&str, &str)],
        accept: &str,
    ) -> Result<Self, Error> {
        let options = [options, &[("watch", "true")]].concat();
        let path = cluster.path(&with(what, &options));
        let request = Request::get(path).header(header::ACCEPT, accept);
        let request = request.body(Vec::new()).map_err(Error::HttpError)?;
        let events = cluster.client.request_events(request).await?;
        Ok(Self(events.boxed()))
    }

    /// Type and object of the next event; `end` if there is none.
    pub(super) async fn next(&mut self) -> Shown<(&'static str, Value)> {
        let event = timeout(Duration::from_secs(20), self.0.next()).await;
        let event = event.map_err(|_| "no event within 20 s")?;
        Ok(match event.transpose()? {
            None => ("end", Value::Null),
            Some(WatchEvent::Added(object)) => ("ADDED", object),
            Some(WatchEvent::Modified(object)) => ("MODIFIED", object),
            Some(WatchEvent::Deleted(object)) => ("DELETED", object),
            Some(WatchEvent::Bookmark(mark)) => {
                let annotations = mark.metadata.annotations;
                (
                    "BOOKMARK",
                    json!({ "metadata": { "annotations": annotations } }),
                )
            }
            Some(WatchEvent::Error(status)) => return Err(format!("{status:?}").into()),
        })
    }

    /// The next event, which has to be of this type.
    async fn expect(&mut self, wanted: &str) -> Shown<Value> {
        let (kind, object) = self.next().await?;
        same("event", &kind, wanted)?;
        Ok(object)
    }
}

async fn present(cluster: &Cluster) -> Shown<String> {
    Ok(version(&cluster.get("pods").await?).to_owned())
}

pub(super) async fn events_come_in_order_with_the_last_state(cluster: &Cluster) -> Shown {
    let name = "watch-order";
    cluster.clear("pods/watch-order").await?;
    let before = present(cluster).await?;
    cluster.pod(name, |pod| pod.label("set", name)).await?;
    let label = json!({ "metadata": { "labels": { "a": "b" } } });
    let changed = cluster.merge("pods/watch-order", &label).await?;
    let options = [
        ("labelSelector", "set=watch-order"),
        ("resourceVersion", &*before),
    ];
    let mut watch = Watch::open(cluster, "pods", &options).await?;
    watch.expect("ADDED").await?;
    watch.expect("MODIFIED").await?;
    cluster.delete("pods/watch-order", &json!({})).await?;
    loop {
        let (kind, pod) = watch.next().await?;
        if kind == "MODIFIED" {
            continue;
        }
        same("last", &kind, "DELETED")?;
        same("label", &text(&pod, "/metadata/labels/a"), "b")?;
        let number = |object| version(object).parse().unwrap_or(0_u64);
        let (last, before) = (number(&pod), number(&changed));
        return ensure(last > before, format!("version {last} after {before}"));
    }
}

pub(super) async fn selection_turns_changes_into_arrivals_and_departures(
    cluster: &Cluster,
) -> Shown {
    cluster.pod("watch-selection", |pod| pod).await?;
    let before = present(cluster).await?;
    let options = [
        ("labelSelector", "watch-selection=yes"),
        ("resourceVersion", &*before),
    ];
    let mut watch = Watch::open(cluster, "pods", &options).await?;
    for (value, wanted) in [("yes", "ADDED"), ("no", "DELETED")] {
        let label = json!({ "metadata": { "labels": { "watch-selection": value } } });
        let changed = cluster.merge("pods/watch-selection", &label).await?;
        let pod = watch.expect(wanted).await?;
        same("version", &version(&pod), version(&changed))?;
        // Also the departure shows the state within the selection.
        same(
            "label",
            &text(&pod, "/metadata/labels/watch-selection"),
            "yes",
        )?;
    }
    Ok(())
}

pub(super) async fn version_zero_begins_with_what_exists(cluster: &Cluster) -> Shown {
    cluster.pod("watch-zero", |pod| pod).await?;
    let options = [
        ("fieldSelector", "metadata.name=watch-zero"),
        ("resourceVersion", "0"),
    ];
    let mut watch = Watch::open(cluster, "pods", &options).await?;
    let pod = watch.expect("ADDED").await?;
    same("name", &text(&pod, "/metadata/name"), "watch-zero")
}

pub(super) async fn a_watch_ends_after_its_timeout(cluster: &Cluster) -> Shown {
    let now = present(cluster).await?;
    let nothing = ("fieldSelector", "metadata.name=watch-nothing");
    let options = [nothing, ("timeoutSeconds", "2"), ("resourceVersion", &*now)];
    let mut watch = Watch::open(cluster, "pods", &options).await?;
    watch.expect("end").await.map(drop)
}

pub(super) async fn metadata_can_be_watched_alone(cluster: &Cluster) -> Shown {
    cluster.pod("watch-metadata", |pod| pod).await?;
    let options = [
        ("fieldSelector", "metadata.name=watch-metadata"),
        ("resourceVersion", "0"),
    ];
    let mut watch = Watch::open_as(cluster, "pods", &options, METADATA).await?;
    let pod = watch.expect("ADDED").await?;
    same("name", &text(&pod, "/metadata/name"), "watch-metadata")?;
    same("kind", &pod["kind"], "PartialObjectMetadata")
}

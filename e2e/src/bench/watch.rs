//! The bench's own watches: when rows, reservations and pods went, as somebody beside ipgc sees it.
//!
//! A watch costs the server one encoding for each change, where a poll of large pools would cost more than
//! what is measured. Each begins with all objects that are there, so nothing is missed; a watch that the
//! server ends is an error.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    time::{Duration, Instant},
};

use futures::{Stream, StreamExt as _, TryStreamExt as _};
use http::{Request, header::ACCEPT};
use kube::{Client, Resource, api::WatchEvent};
use serde::{Deserialize, Deserializer, de::IgnoredAny};
use tokio::{sync::oneshot, task::JoinHandle};

use super::raw;
use crate::{Error, Result, wait::PATIENCE};

/// An object of which the name is read, and the keys of its rows if it is a pool.
#[derive(Clone, Debug, Deserialize)]
pub struct Object {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
}

#[derive(Clone, Debug, Deserialize)]
struct Metadata {
    name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Spec {
    #[serde(default, deserialize_with = "keys")]
    allocations: Option<Rows>,
}

/// Rows, of which only the keys are read.
pub type Rows = BTreeSet<Box<str>>;

#[allow(clippy::zero_sized_map_values, reason = "it is how a map is read")]
fn keys<'de, D: Deserializer<'de>>(map: D) -> Result<Option<Rows>, D::Error> {
    let map = BTreeMap::<Box<str>, IgnoredAny>::deserialize(map)?;
    Ok(Some(map.into_keys().collect()))
}

impl Object {
    /// Its name, and the rows of a pool.
    pub fn parts(self) -> (String, Option<Rows>) {
        (self.metadata.name, self.spec.allocations)
    }
}

/// A change of an object.
pub enum Change {
    /// There is such an object, new or changed.
    Is(Object),
    /// It is gone.
    Gone(Object),
}

/// All objects of a path, and from then on every change, each with the moment at which it was read.
pub async fn changes(
    client: &Client,
    path: &str,
    accept: &str,
) -> Result<impl Stream<Item = Result<(Instant, Change)>> + use<>> {
    let what = format!("watch {path}");
    let request = Request::get(format!("{path}?watch=true&timeoutSeconds=7200"))
        .header(ACCEPT, accept)
        .body(Vec::new())?;
    let events = client.request_events::<Object>(request).await?;
    Ok(events.map(move |event| {
        let now = Instant::now();
        let why = match event? {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                return Ok((now, Change::Is(object)));
            }
            WatchEvent::Deleted(object) => return Ok((now, Change::Gone(object))),
            // Bookmarks were not asked for.
            WatchEvent::Bookmark(_) => "a bookmark".into(),
            WatchEvent::Error(status) => status.message,
        };
        Err(Error::Other(format!("{what}: {why}")))
    }))
}

/// Objects that are watched until they are gone, or have no rows any more.
pub struct Emptied(JoinHandle<Result<Instant>>);

impl Emptied {
    /// Waits until it has happened, and returns when that was.
    pub async fn within(mut self, after: Duration) -> Result<Instant> {
        tokio::time::timeout(after, &mut self.0).await??
    }
}

impl Drop for Emptied {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Watches all objects of a kind in a namespace, and returns when so many were seen: from then on they are awaited
/// to be gone, or to have no rows.
pub async fn emptied<K: Resource<DynamicType = ()>>(
    client: &Client,
    namespace: &str,
    objects: usize,
) -> Result<Emptied> {
    let (told, seen) = oneshot::channel();
    let (client, path) = (client.clone(), raw::all::<K>(namespace));
    let task = tokio::spawn(async move {
        let mut changes = pin!(changes(&client, &path, raw::JSON).await?);
        let mut told = Some(told);
        let mut left = BTreeMap::new();
        while let Some((at, change)) = changes.try_next().await? {
            let (name, count) = match change {
                Change::Is(object) => {
                    let (name, rows) = object.parts();
                    (name, rows.map_or(1, |rows| rows.len()))
                }
                Change::Gone(object) => (object.metadata.name, 0),
            };
            left.insert(name, count);
            if left.len() < objects {
                continue;
            }
            if let Some(told) = told.take() {
                // Nobody may wait any more.
                told.send(()).ok();
            }
            if left.values().all(|count| *count == 0) {
                return Ok(at);
            }
        }
        Err(Error::Other(format!("the server ended {path}")))
    });
    let emptied = Emptied(task);
    if tokio::time::timeout(PATIENCE, seen).await?.is_err() {
        // It ended before: its error says why.
        emptied.within(PATIENCE).await?;
        return Err(Error::Other(format!("{objects} objects came and went")));
    }
    Ok(emptied)
}

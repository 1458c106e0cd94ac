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
use serde_json::Value;
use tokio::{sync::oneshot, task::JoinHandle};

use super::raw;
use crate::{Error, Result, wait::PATIENCE};

/// The keys of a pool's rows.
pub type Rows = BTreeSet<String>;

/// The name of an object, and the rows of a pool.
fn parts(object: &Value) -> (String, Option<Rows>) {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let rows = object["spec"]["allocations"].as_object();
    (
        name.to_owned(),
        rows.map(|rows| rows.keys().cloned().collect()),
    )
}

/// A change of an object.
pub enum Change {
    /// There is an object of this name, new or changed; and if it is a pool it has these rows.
    Is(String, Option<Rows>),
    /// The object of this name is gone.
    Gone(String),
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
    let events = client.request_events::<Value>(request).await?;
    Ok(events.map(move |event| {
        let now = Instant::now();
        let why = match event? {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                let (name, rows) = parts(&object);
                return Ok((now, Change::Is(name, rows)));
            }
            WatchEvent::Deleted(object) => return Ok((now, Change::Gone(parts(&object).0))),
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
                Change::Is(name, rows) => (name, rows.map_or(1, |rows| rows.len())),
                Change::Gone(name) => (name, 0),
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

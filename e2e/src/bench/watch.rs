//! The bench's own watches: when rows, reservations and pods went, as somebody beside ipgc sees it.
//!
//! A watch costs the server one encoding for each change, where a poll of large pools would cost more than
//! what is measured. Each begins with all objects that are there, so nothing is missed; a watch that the
//! server ends is an error.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures::{Stream, StreamExt as _, TryStreamExt as _};
use http::{Request, header::ACCEPT};
use ipgc::api::{IpPool, Reservation};
use kube::{Client, api::WatchEvent};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, IgnoredAny, MapAccess, Visitor},
};
use tokio::{sync::oneshot, task::JoinHandle};

use super::raw::{self, METADATA};
use crate::{Error, Result, wait::PATIENCE};

/// An object of which only the name is read.
#[derive(Clone, Debug, Deserialize)]
pub struct Named {
    pub metadata: Metadata,
}

/// Its metadata.
#[derive(Clone, Debug, Deserialize)]
pub struct Metadata {
    pub name: String,
}

/// A pool of which only the keys of its rows are read.
#[derive(Clone, Debug, Deserialize)]
pub struct Pool {
    pub metadata: Metadata,
    pub spec: PoolSpec,
}

/// Its rows.
#[derive(Clone, Debug, Deserialize)]
pub struct PoolSpec {
    #[serde(deserialize_with = "keys")]
    pub allocations: BTreeSet<Box<str>>,
}

/// The keys of a map, whatever its values are.
fn keys<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeSet<Box<str>>, D::Error> {
    struct Keys;
    impl<'de> Visitor<'de> for Keys {
        type Value = BTreeSet<Box<str>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut keys = BTreeSet::new();
            while let Some((key, IgnoredAny)) = map.next_entry::<Box<str>, _>()? {
                keys.insert(key);
            }
            Ok(keys)
        }
    }
    deserializer.deserialize_map(Keys)
}

/// A change, and when it came.
pub enum Change<T> {
    /// There is such an object, new or changed.
    Is(T),
    /// It is gone.
    Gone(T),
}

/// All objects of a path, and from then on every change, each with the moment at which it was read.
pub async fn changes<T: Clone + DeserializeOwned>(
    client: &Client,
    path: &str,
    metadata_only: bool,
) -> Result<impl Stream<Item = Result<(Instant, Change<T>)>> + use<T>> {
    let what = format!("watch {path}");
    let accept = if metadata_only {
        METADATA
    } else {
        "application/json"
    };
    let request = Request::get(format!("{path}?watch=true&timeoutSeconds=7200"))
        .header(ACCEPT, accept)
        .body(Vec::new())
        .map_err(Error::malformed(&*what))?;
    let events = client.request_events::<T>(request).await;
    let events = events.map_err(Error::api(&*what))?;
    Ok(events.map(move |event| {
        let now = Instant::now();
        match event.map_err(Error::api(&*what))? {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                Ok((now, Change::Is(object)))
            }
            WatchEvent::Deleted(object) => Ok((now, Change::Gone(object))),
            // Bookmarks were not asked for.
            WatchEvent::Bookmark(_) => Err(Error::malformed(&*what)("a bookmark")),
            WatchEvent::Error(status) => Err(Error::malformed(&*what)(status.message)),
        }
    }))
}

/// Something that is watched for: it has begun, and it will be over.
pub struct Awaited {
    task: JoinHandle<Result<Instant>>,
    what: &'static str,
    /// How many are still there.
    there: Arc<AtomicUsize>,
}

impl Awaited {
    /// Starts to watch a path, and returns when all that is there was seen; `over` says so, and later says
    /// that what is awaited has happened.
    async fn start<T>(
        client: &Client,
        path: String,
        what: &'static str,
        mut over: impl FnMut(Change<T>) -> Progress + Send + 'static,
    ) -> Result<Self>
    where
        T: Clone + DeserializeOwned + Send + 'static,
    {
        let (told, seen) = oneshot::channel();
        let client = client.clone();
        let there = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&there);
        let task = tokio::spawn(async move {
            let changes = changes::<T>(&client, &path, false).await?;
            let mut changes = pin!(changes);
            let mut told = Some(told);
            while let Some((at, change)) = changes.try_next().await? {
                let progress = over(change);
                if let Progress::Begun(there) = progress {
                    count.store(there, Ordering::Relaxed);
                }
                if progress != Progress::Incomplete
                    && let Some(told) = told.take()
                {
                    // Nobody may wait any more.
                    told.send(()).ok();
                }
                if progress == Progress::Over {
                    count.store(0, Ordering::Relaxed);
                    return Ok(at);
                }
            }
            Err(Error::Unsupported(format!("the server ended {path}")))
        });
        let mut awaited = Self { task, what, there };
        match tokio::time::timeout(PATIENCE, seen).await {
            Ok(Ok(())) => Ok(awaited),
            // It ended before: its error says why.
            Ok(Err(_)) => awaited.done().await.map(|_| awaited),
            Err(_) => Err(awaited.late(PATIENCE)),
        }
    }

    /// How many there are now, nothing when it has happened.
    pub fn there(&self) -> usize {
        self.there.load(Ordering::Relaxed)
    }

    /// Waits until it has happened, and returns when that was.
    pub async fn done(&mut self) -> Result<Instant> {
        (&mut self.task)
            .await
            .map_err(|error| Error::Unsupported(error.to_string()))?
    }

    /// The same with a deadline.
    pub async fn within(&mut self, deadline: Duration) -> Result<Instant> {
        match tokio::time::timeout(deadline, self.done()).await {
            Ok(done) => done,
            Err(_) => Err(self.late(deadline)),
        }
    }

    fn late(&self, after: Duration) -> Error {
        Error::Deadline {
            what: self.what.into(),
            after,
            state: "it did not happen".into(),
        }
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// How far something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// Not all that is there was seen.
    Incomplete,
    /// It was, and so many are there still.
    Begun(usize),
    /// It has happened.
    Over,
}

/// Awaits that these pools of a namespace, which have rows now, have `left` rows in all.
pub async fn rows_left(
    client: &Client,
    namespace: &str,
    pools: usize,
    left: usize,
) -> Result<Awaited> {
    let path = raw::all::<IpPool>(namespace);
    let mut rows = BTreeMap::new();
    let over = move |change: Change<Pool>| {
        if let Change::Is(pool) = change {
            rows.insert(pool.metadata.name, pool.spec.allocations.len());
        }
        let there = rows.values().sum();
        if rows.len() < pools {
            Progress::Incomplete
        } else if there > left {
            Progress::Begun(there)
        } else {
            Progress::Over
        }
    };
    Awaited::start(client, path, "the rows to be gone", over).await
}

/// Awaits that of so many reservations of a namespace `left` are left.
pub async fn reservations_left(
    client: &Client,
    namespace: &str,
    count: usize,
    left: usize,
) -> Result<Awaited> {
    let path = raw::all::<Reservation>(namespace);
    let mut there = BTreeSet::new();
    let mut complete = false;
    let over = move |change: Change<Named>| {
        match change {
            Change::Is(object) => there.insert(object.metadata.name),
            Change::Gone(object) => there.remove(&object.metadata.name),
        };
        complete |= there.len() >= count;
        if !complete {
            Progress::Incomplete
        } else if there.len() > left {
            Progress::Begun(there.len())
        } else {
            Progress::Over
        }
    };
    Awaited::start(client, path, "the reservations to be gone", over).await
}

//! Informers: what the API server tells, stripped and put into an index.
//!
//! [`follow`] turns kube's watcher into calls of a [`Sink`], with a backoff of our own and a
//! deadline on the list. Sinks never wait: a server cuts a watch whose reader is slow.
//!
//! Nothing here writes to the API server.

mod freshness;
mod lean;
mod lean_definition;
mod lean_node;
mod lean_pod;

use std::{fmt::Debug, pin::pin, sync::Arc, time::Duration};

use futures::TryStreamExt;
use kube::{
    Api, Client, Resource,
    runtime::watcher::{self, Event, watcher},
};
use serde::de::DeserializeOwned;
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};
use tracing::{debug, warn};

pub(crate) use self::lean::Lean;
pub use self::{
    freshness::Freshness, lean_definition::LeanDefinition, lean_node::LeanNode, lean_pod::LeanPod,
};
use crate::{
    backoff::Backoff,
    calls::{PAGE, with_causes},
    history::History,
};

/// Longest silence while a list is read. kube sets no deadline of its own here.
const LIST_DEADLINE: Duration = Duration::from_mins(1);
/// If no watch can begin for so long, all is listed again: nothing else tells what changed. A list that takes so long, and
/// fails, leaves nothing to rely on.
const LIST_AGAIN: Duration = Duration::from_mins(5);
/// A watch that does not fail for so long has begun: the deadline of its head is shorter.
const BEGUN: Duration = Duration::from_mins(1);

/// Where the objects of one kind go.
pub trait Sink<K> {
    /// A list begins; it may begin again before it is complete.
    fn begin_list(&mut self);
    /// An object exists: listed, made or changed.
    fn apply(&mut self, object: K);
    /// An object was deleted; this is its last state.
    fn delete(&mut self, object: K);
    /// The list is complete.
    fn end_list(&mut self);
    /// The list or the watch failed and is tried again later.
    fn interrupted(&mut self) {}
}

/// Follows all objects of a kind for ever, and anew when the API server's data went back in time. `synced` turns true
/// when the first list is complete, and is false while for minutes no watch could begin, or no list be read.
pub async fn follow<K>(
    client: Client,
    mut sink: impl Sink<K>,
    synced: watch::Sender<bool>,
    history: Arc<History>,
) where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let (api, kind) = (Api::<K>::all(client), K::plural(&()));
    // Five megabytes of pods.
    let config = watcher::Config::default().page_size(PAGE);
    let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(30));
    let mut epoch = history.subscribe();
    // Since when no watch can begin, or since a list was begun because of that.
    let mut failing = None::<Instant>;
    // Since when there is a list to be read.
    let mut listing = None::<Instant>;
    loop {
        epoch.mark_unchanged();
        let mut events = pin!(watcher(api.clone(), config.clone()));
        listing.get_or_insert_with(Instant::now);
        loop {
            let longest = if listing.is_some() {
                LIST_DEADLINE
            } else {
                failing.map_or(Duration::MAX, |_| BEGUN)
            };
            let event = tokio::select! {
                biased;
                Ok(()) = epoch.changed() => {
                    sink.interrupted();
                    break;
                }
                event = timeout(longest, events.try_next()) => event,
            };
            let has_begun = event.as_ref().map_or(listing.is_none(), |event| {
                matches!(event, Ok(Some(Event::Apply(_) | Event::Delete(_))))
            });
            if has_begun {
                backoff.reset();
                if failing.take().is_some() {
                    synced.send_replace(true);
                }
            }
            let has_failed = matches!(event, Err(_) | Ok(Err(_)));
            if has_failed && listing.is_some_and(|since| since.elapsed() >= LIST_AGAIN) {
                synced.send_replace(false);
            }
            let Ok(event) = event else {
                if has_begun {
                    continue;
                }
                warn!(%kind, "list hangs, starting over");
                sink.interrupted();
                break;
            };
            match event {
                Ok(Some(Event::Init)) => {
                    listing.get_or_insert_with(Instant::now);
                    sink.begin_list();
                }
                Ok(Some(Event::InitDone)) => {
                    listing = None;
                    sink.end_list();
                    if failing.is_none() && !synced.send_replace(true) {
                        debug!(%kind, "first list complete");
                    }
                }
                Ok(Some(Event::InitApply(object) | Event::Apply(object))) => sink.apply(object),
                Ok(Some(Event::Delete(object))) => sink.delete(object),
                Ok(None) => break,
                Err(error) => {
                    sink.interrupted();
                    let wait = backoff.next_wait();
                    if is_not_served(&error) {
                        warn!(%kind, ?wait, "the API server does not know this kind: is its CRD installed?");
                    } else {
                        warn!(%kind, error = with_causes(&error), ?wait, "watch interrupted");
                    }
                    tokio::time::sleep(wait).await;
                    if matches!(error, watcher::Error::WatchStartFailed(_))
                        && failing.get_or_insert_with(Instant::now).elapsed() >= LIST_AGAIN
                    {
                        failing = Some(Instant::now());
                        synced.send_replace(false);
                        break;
                    }
                    if is_to_begin_anew(&error) {
                        break;
                    }
                }
            }
        }
    }
}

/// Whether kube would not find the way back by itself. An event that cannot be read is an event lost: kube goes on behind
/// it. Most of what it cannot read kube takes for a refusal, all of whose fields may be absent; real ones are events. As an
/// HTTP status, 410 is what proxies make of a version that is too old. kube would ask for the same version for ever.
fn is_to_begin_anew(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::WatchFailed(kube::Error::SerdeError(_) | kube::Error::Api(_)) => true,
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code == 410,
        _ => false,
    }
}

/// No list of any kind that is served is answered so.
fn is_not_served(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::InitialListFailed(kube::Error::Api(status)) if status.code == 404)
}

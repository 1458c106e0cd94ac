//! Whether the pod watch is fresh: something was heard of it lately.
//!
//! A settled end frees after seconds, so an incarnation born since must have been seen by then. A
//! connection that died in silence looks like a quiet cluster, for minutes. What tells them apart are
//! the bookmarks that the API server sends about once a minute; kube's watcher keeps them to itself,
//! so they are noticed where the bytes come in.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use http_body_util::BodyExt;
use ipgc_core::time::Moment;
use kube::{
    Client,
    client::{Body, ClientBuilder},
};
use tokio::time::sleep;
use tower::{service_fn, timeout::TimeoutLayer};

use super::{is_of_pods, is_watch};
use crate::{clock::Clock, lock::lock};

/// Longest silence of a fresh watch: a minute from bookmark to bookmark, and half of one to spare.
const FRESH: Duration = Duration::from_secs(90);
/// Longest wait for the head of a watch's or a list's answer. kube has no deadline there, and a
/// watch may then go on for minutes.
pub const HEAD_DEADLINE: Duration = Duration::from_secs(30);

/// After a failure, what was missed comes in first: time to take it in.
const CATCH_UP: Duration = Duration::from_secs(2);
/// A watch that is taken up soon is fresh by then. Who waits longer waits for one that may stay away.
const CAUGHT_UP: Duration = Duration::from_secs(3);
/// How often it is looked at whether it is.
const LOOK: Duration = Duration::from_millis(100);
/// The server ends each watch after some minutes, and the next one is taken up at once. What happens
/// within so short a time is told in time: it is less than the shortest cooldown.
const TAKEN_UP: Duration = Duration::from_millis(500);

/// When the pod watch was last heard. Lists do not count: what they tell is as old as their first page.
#[derive(Debug)]
pub struct Freshness {
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// When something was heard last; `None` while nothing is heard.
    heard: Option<Moment>,
    /// When the watch ended in order, until the next one is taken up.
    ended: Option<Moment>,
    /// When it was heard first after nothing was.
    since: Moment,
    /// When it was heard last before it was lost.
    until: Moment,
}

impl Freshness {
    /// Nothing was heard yet.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            state: Mutex::default(),
        }
    }

    /// Something was heard.
    fn hear(&self) {
        let now = self.clock.now();
        let mut state = lock(&self.state);
        let is_gap = match (state.heard, state.ended.take()) {
            (None, _) => true,
            (Some(_), Some(ended)) => now.since(ended) > TAKEN_UP,
            (Some(_), None) => false,
        };
        if is_gap {
            state.since = now;
        }
        state.heard = Some(now);
    }

    /// The watch ended in order.
    fn end(&self) {
        let now = self.clock.now();
        lock(&self.state).ended.get_or_insert(now);
    }

    /// The watch failed: stale until something is heard again.
    pub fn lose(&self) {
        let mut state = lock(&self.state);
        state.ended = None;
        if let Some(heard) = state.heard.take() {
            state.until = heard;
        }
    }

    /// Up to when it was heard before it was lost last.
    #[must_use]
    pub fn heard_until(&self) -> Moment {
        lock(&self.state).until
    }

    /// Whether there is a watch of which something was heard within 90 s, and no failure since,
    /// nor shortly before.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        let now = self.clock.now();
        let state = lock(&self.state);
        let is_heard = state.heard.is_some_and(|heard| now.since(heard) <= FRESH);
        is_heard && state.ended.is_none() && now.since(state.since) >= CATCH_UP
    }

    /// Waits until it is fresh, for 3 s at the most.
    pub async fn caught_up(&self) {
        let begun = self.clock.now();
        while !self.is_fresh() && self.clock.now().since(begun) < CAUGHT_UP {
            sleep(LOOK).await;
        }
    }

    /// The client for watches: what it hears of pods is noted here, and the heads of its answers
    /// are under a deadline.
    #[must_use]
    pub fn listen(self: &Arc<Self>, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let freshness = Arc::clone(self);
        let send = service_fn(move |request: http::Request<Body>| {
            let (client, freshness) = (client.clone(), Arc::clone(&freshness));
            let is_heard = is_of_pods(&request) && is_watch(&request);
            async move {
                let response = client.send(request).await?;
                // A watch that is taken up again is served from where it ended, at once.
                let watch =
                    (is_heard && response.status().is_success()).then(|| Watch::of(freshness));
                Ok::<_, kube::Error>(response.map(|body| {
                    body.map_frame(move |frame| {
                        if let Some(watch) = &watch {
                            watch.0.hear();
                        }
                        frame
                    })
                }))
            }
        });
        ClientBuilder::new(send, namespace)
            .with_layer(&TimeoutLayer::new(HEAD_DEADLINE))
            .build()
    }
}

/// A watch of pods, for as long as there is one.
struct Watch(Arc<Freshness>);

impl Watch {
    fn of(freshness: Arc<Freshness>) -> Self {
        freshness.hear();
        Self(freshness)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.end();
    }
}

//! Whether the pod watch is fresh: something was heard of it lately.
//!
//! A settled end frees after seconds, so an incarnation born since must have been seen by then. A
//! connection that died in silence looks like a quiet cluster, for minutes. What tells them apart are
//! the bookmarks that the API server sends about once a minute; kube's watcher keeps them to itself,
//! so they are noticed where the bytes come in.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use http_body_util::BodyExt;
use ipgc_core::time::Moment;
use kube::{
    Client,
    client::{Body, ClientBuilder},
};
use tower::{service_fn, timeout::TimeoutLayer};

use crate::clock::Clock;

/// Longest silence of a fresh watch: a minute from bookmark to bookmark, and half of one to spare.
const FRESH: Duration = Duration::from_secs(90);
/// Longest wait for the head of a watch's or a list's answer. kube has no deadline there, and a
/// watch may then go on for minutes.
const HEAD_DEADLINE: Duration = Duration::from_secs(30);

/// After a failure, what was missed comes in first: time to take it in.
const CATCH_UP: Duration = Duration::from_secs(2);

/// When the pod watch was last heard.
#[derive(Debug)]
pub struct Freshness {
    clock: Clock,
    /// Milliseconds since the clock's epoch, plus one; zero while nothing is heard.
    heard: AtomicU64,
    /// When it was heard first after nothing was, in milliseconds since the epoch.
    since: AtomicU64,
    /// When it was heard last before it was lost, in milliseconds since the epoch.
    until: AtomicU64,
}

impl Freshness {
    /// Nothing was heard yet.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            heard: AtomicU64::new(0),
            since: AtomicU64::new(0),
            until: AtomicU64::new(0),
        }
    }

    /// Something was heard.
    fn hear(&self) {
        let now = self.now();
        if self.heard.swap(now + 1, Ordering::Relaxed) == 0 {
            self.since.store(now, Ordering::Relaxed);
        }
    }

    /// The watch failed: stale until something is heard again.
    pub fn lose(&self) {
        if let Some(heard) = self.heard.swap(0, Ordering::Relaxed).checked_sub(1) {
            self.until.store(heard, Ordering::Relaxed);
        }
    }

    /// Up to when it was heard before it was lost last.
    #[must_use]
    pub fn heard_until(&self) -> Moment {
        Moment::new(Duration::from_millis(self.until.load(Ordering::Relaxed)))
    }

    /// Whether something was heard within [`FRESH`], and no failure since, nor shortly before.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        let Some(heard) = self.heard.load(Ordering::Relaxed).checked_sub(1) else {
            return false;
        };
        let ago = |then: u64| Duration::from_millis(self.now().saturating_sub(then));
        ago(heard) <= FRESH && ago(self.since.load(Ordering::Relaxed)) >= CATCH_UP
    }

    fn now(&self) -> u64 {
        let now = self.clock.now().since_epoch().as_millis();
        u64::try_from(now).unwrap_or(u64::MAX - 1)
    }

    /// The client for watches: what it hears of pods is noted here, and the heads of its answers
    /// are under a deadline.
    #[must_use]
    pub fn listen(self: &Arc<Self>, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let freshness = Arc::clone(self);
        let send = service_fn(move |request: http::Request<Body>| {
            let (client, freshness) = (client.clone(), Arc::clone(&freshness));
            let of_pods = request.uri().path().ends_with("/pods");
            async move {
                let response = client.send(request).await?;
                // A watch that is taken up again is served from where it ended, at once.
                if of_pods && response.status().is_success() {
                    freshness.hear();
                }
                Ok::<_, kube::Error>(response.map(|body| {
                    body.map_frame(move |frame| {
                        if of_pods {
                            freshness.hear();
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

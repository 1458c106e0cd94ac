//! Whether the pod watch is fresh: something was heard of it lately.
//!
//! A settled end frees after seconds, so an incarnation born since must have been seen by then. A
//! connection that died in silence looks like a quiet cluster, for minutes. What tells them apart are
//! the bookmarks that the API server sends about once a minute; kube's watcher keeps them to itself,
//! so they are noticed where the bytes come in.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use http_body_util::BodyExt;
use ipgc_core::time::Moment;
use kube::Client;
use tokio::time::{sleep, timeout};

use crate::{
    calls::{is_watch, via},
    clock::Clock,
    history::History,
    lock::lock,
};

/// Longest silence of a fresh watch: a minute from bookmark to bookmark, and half of one to spare.
const FRESH: Duration = Duration::from_secs(90);
/// Longest wait for the head of a watch's or a list's answer. kube has no deadline there, and a
/// watch may then go on for minutes.
const HEAD_DEADLINE: Duration = Duration::from_secs(30);

/// After a gap, missed events come first. This is the time for them.
const CATCH_UP: Duration = Duration::from_secs(2);
/// Longest wait of a sweep for a fresh watch.
const CAUGHT_UP: Duration = Duration::from_secs(3);
/// How often it is looked at whether it is.
const LOOK: Duration = Duration::from_millis(100);
/// A new watch within this time leaves no gap: it is less than the shortest cooldown.
const TAKEN_UP: Duration = Duration::from_millis(500);
/// Shortest time from the beginning of a watch to the next one: kube begins one that ended anew without a pause.
const PACE: Duration = Duration::from_secs(1);

/// When the pod watch was last heard: by an event or a bookmark. The head of its answer does not count: a server
/// whose data went back in time gives one to a watch that asks for a version of the future, and then says nothing.
/// Lists do not count either: what they tell is as old as their first page.
#[derive(Debug)]
pub struct Freshness {
    clock: Clock,
    /// Whether there is a watch at all.
    is_watched: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Last event or bookmark; `None` from a failure to the next one.
    heard: Option<Moment>,
    /// When the watch ended in order, until the next one is taken up.
    ended: Option<Moment>,
    /// First event or bookmark after the last gap.
    since: Moment,
    /// When the present watch began.
    head: Moment,
    /// Last event or bookmark before the present watch began.
    before: Moment,
    /// Last event or bookmark before the watch failed.
    until: Moment,
}

impl State {
    fn hear(&mut self, now: Moment) {
        let ended = self.ended.take();
        // The first events after a silence are those that were missed, whether or not the watch ended meanwhile.
        let is_gap = self.heard.is_none_or(|heard| now.since(heard) > FRESH)
            || ended.is_some_and(|ended| now.since(ended) > TAKEN_UP);
        if is_gap {
            self.since = now;
        }
        self.heard = Some(now);
    }
}

impl Freshness {
    /// Nothing was heard yet.
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            is_watched: true,
            state: Mutex::default(),
        }
    }

    /// There is no watch, so nothing is missed: each pod is read before anything is decided.
    pub fn always(clock: Clock) -> Self {
        Self {
            is_watched: false,
            ..Self::new(clock)
        }
    }

    fn begin(&self) {
        let now = self.clock.now();
        let mut state = lock(&self.state);
        state.before = state.heard.unwrap_or(state.until);
        state.head = now;
        // Taken up at once, it goes on. Else something has to be heard first.
        state.ended.take_if(|ended| now.since(*ended) <= TAKEN_UP);
    }

    fn hear(&self) {
        let now = self.clock.now();
        lock(&self.state).hear(now);
    }

    /// The watch ended in order.
    fn end(&self) {
        let now = self.clock.now();
        lock(&self.state).ended.get_or_insert(now);
    }

    /// The watch failed: stale until something is heard again.
    pub fn lose(&self) {
        let now = self.clock.now();
        let mut state = lock(&self.state);
        state.ended = None;
        if let Some(heard) = state.heard.take() {
            // A watch that fails in its first 2 s may have sent only old events.
            let is_new = now.since(state.head) < CATCH_UP;
            state.until = if is_new { state.before } else { heard };
        }
    }

    /// Up to when it was heard before it was lost last.
    pub fn heard_until(&self) -> Moment {
        lock(&self.state).until
    }

    /// Whether there is a watch of which something was heard within 90 s, and no failure since,
    /// nor shortly before.
    pub fn is_fresh(&self) -> bool {
        let now = self.clock.now();
        let state = lock(&self.state);
        let is_heard = state.heard.is_some_and(|heard| now.since(heard) <= FRESH);
        let is_fresh = is_heard && state.ended.is_none() && now.since(state.since) >= CATCH_UP;
        is_fresh || !self.is_watched
    }

    /// Waits until it is fresh, for 3 s at the most.
    pub async fn caught_up(&self) {
        let begun = self.clock.now();
        while !self.is_fresh() && self.clock.now().since(begun) < CAUGHT_UP {
            sleep(LOOK).await;
        }
    }

    /// The client for watches: what it hears of pods is noted here, and the heads of its answers
    /// are under a deadline. When a watch has begun, it is asked whether the data went back in time. A watch that ended at
    /// once does not begin again at once.
    pub fn listen(self: &Arc<Self>, client: Client, history: &Arc<History>) -> Client {
        let (freshness, history) = (Arc::clone(self), Arc::clone(history));
        // When the last watch of each path began, and the task that asks whether the data went back.
        let begun = Arc::new(Mutex::new(HashMap::<String, (Moment, _)>::new()));
        via(client, move |client, request| {
            let (freshness, history) = (Arc::clone(&freshness), Arc::clone(&history));
            let begun = Arc::clone(&begun);
            let head = async move {
                let path = request.uri().path().to_owned();
                let is_watch = is_watch(&request);
                let asked = is_watch.then(|| history.ask_for_watch(&request));
                let last = lock(&begun).get(&path).map(|(last, _)| *last);
                if let Some(last) = last.filter(|_| is_watch) {
                    sleep(freshness.clock.until(last + PACE)).await;
                }
                let is_of_pods = is_watch && path.ends_with("/pods");
                let response = client.send(request).await?;
                let has_begun = response.status().is_success();
                if let Some(asked) = asked.flatten().filter(|_| has_begun) {
                    history.keep(&asked);
                    let history = Arc::downgrade(&history);
                    let look = History::look(history, client, path.clone(), asked);
                    let look = tokio::spawn(look).abort_handle();
                    let former = lock(&begun).insert(path, (freshness.clock.now(), look));
                    // The later one compares with no smaller version.
                    if let Some((_, former)) = former {
                        former.abort();
                    }
                }
                // A watch that is taken up again is served from where it ended, at once.
                let watch = (is_of_pods && has_begun).then(|| Watch::of(freshness));
                Ok::<_, kube::Error>(response.map(|body| {
                    body.map_frame(move |frame| {
                        if let Some(watch) = watch.as_ref().filter(|_| frame.is_data()) {
                            watch.0.hear();
                        }
                        frame
                    })
                }))
            };
            async {
                let answer = timeout(HEAD_DEADLINE, head).await;
                Ok(answer.map_err(|_| "request timed out")??)
            }
        })
    }
}

/// A watch of pods, for as long as there is one.
struct Watch(Arc<Freshness>);

impl Watch {
    fn of(freshness: Arc<Freshness>) -> Self {
        freshness.begin();
        Self(freshness)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn seconds(seconds: u64) {
        sleep(Duration::from_secs(seconds)).await;
    }

    /// A watch that was heard for long, at present.
    async fn heard() -> (Arc<Freshness>, Watch, Moment) {
        let freshness = Arc::new(Freshness::new(Clock::start()));
        let watch = Watch::of(Arc::clone(&freshness));
        for _ in 0..2 {
            assert!(!freshness.is_fresh(), "the head of its answer is no word");
            seconds(60).await;
            freshness.hear();
        }
        assert!(freshness.is_fresh());
        let now = freshness.clock.now();
        (freshness, watch, now)
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_fails_as_it_begins_says_nothing_of_what_was_missed() {
        let (freshness, watch, heard) = heard().await;
        seconds(295).await;
        drop(watch);
        // An answer of 200, and in it that the version is too old. Twice.
        for _ in 0..2 {
            let watch = Watch::of(Arc::clone(&freshness));
            freshness.hear();
            freshness.lose();
            drop(watch);
            assert_eq!(freshness.heard_until(), heard);
            seconds(1).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_was_heard_for_a_while_says_until_when() {
        let (freshness, watch, _) = heard().await;
        drop(watch);
        let _next = Watch::of(Arc::clone(&freshness));
        seconds(10).await;
        freshness.hear();
        let heard = freshness.clock.now();
        seconds(10).await;
        freshness.lose();
        assert_eq!(freshness.heard_until(), heard);
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_after_a_silence_is_taken_in_first() {
        for ends in [false, true] {
            let (freshness, watch, _) = heard().await;
            seconds(295).await;
            assert!(!freshness.is_fresh());
            let _next = ends.then(|| {
                drop(watch);
                Watch::of(Arc::clone(&freshness))
            });
            freshness.hear();
            assert!(!freshness.is_fresh(), "at once; it had ended: {ends}");
            sleep(CATCH_UP).await;
            assert!(freshness.is_fresh(), "never; it had ended: {ends}");
        }
    }
}

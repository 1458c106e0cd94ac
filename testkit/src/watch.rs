//! WATCH: a stream that reads the store's log behind a cursor.
//!
//! A watch keeps no queue of its own. It is polled, takes the next write behind its cursor, and
//! lets the event rules decide what becomes of it; a slow reader therefore costs nothing, and one
//! that falls behind what the log keeps is told so with 410.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::stream;
use http::{Response, header};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::bytes::Bytes;
use tower::BoxError;

use crate::body::{self, broken_connection};
use crate::faults::{Action, Match, RuleState};
use crate::handlers::{Answer, ResourceCall, Shape};
use crate::object::Object;
use crate::read::parse_version;
use crate::request::Request;
use crate::selectors::Selector;
use crate::server::Server;
use crate::status::Failure;
use crate::store::{Change, ChangeKind, Compacted, Key};
use crate::watch_faults::{Cut, EventAction};

/// How long a watch lives that names no `timeoutSeconds`.
const LIFETIME: Duration = Duration::from_mins(30);

/// How many existing objects a watch takes from the store at a time.
const INITIAL_PAGE: usize = 500;

impl ResourceCall<'_> {
    pub(crate) fn watch(&self) -> Answer {
        let request = self.request;
        let selector = Selector::parse(
            self.resource,
            request.label_selector.as_deref(),
            request.field_selector.as_deref(),
        )?;
        let version = match request.resource_version.as_deref() {
            Some(version) => parse_version(version)?,
            None => 0,
        };
        let mut store = self.inner.store();
        store.forget_old();
        // Without a version the watch begins with the objects that exist.
        let initial = version == 0;
        let cursor = if initial {
            self.stale.unwrap_or(store.revision())
        } else {
            version
        };
        let now = Instant::now();
        let lifetime = request.timeout_seconds;
        let lifetime = lifetime.map_or(LIFETIME, Duration::from_secs);
        let mut watch = Watch {
            server: self.server.clone(),
            request: request.clone(),
            table: self.table,
            shape: Shape::of(self),
            selector,
            cursor,
            phase: if initial {
                Phase::Initial(None)
            } else {
                Phase::Live
            },
            queue: VecDeque::new(),
            pending: None,
            wake: store.subscribe(self.table),
            cuts: self.inner.cuts.subscribe(),
            cuts_seen: self.inner.cuts.borrow().len(),
            deadline: now + lifetime,
            bookmark: request
                .bookmarks
                .then(|| next_bookmark(now, now + lifetime)),
        };
        if cursor < store.compacted() {
            let oldest = store.compacted();
            watch.fail(&Failure::expired(format!(
                "too old resource version: {cursor} ({oldest})"
            )));
        }
        drop(store);
        let frames = stream::unfold(watch, Watch::next);
        let mut response = Response::new(body::stream(frames));
        let json = header::HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        Ok(response)
    }
}

/// As the API server has it: each minute, and two seconds before the end.
fn next_bookmark(now: Instant, deadline: Instant) -> Instant {
    let last = deadline - Duration::from_secs(2);
    let next = now + Duration::from_mins(1);
    if last > now { next.min(last) } else { next }
}

enum Phase {
    /// Existing objects behind this key are still to be sent.
    Initial(Option<Key>),
    Live,
    Over,
}

/// An event that a rule makes wait.
struct Pending {
    change: Arc<Change>,
    release: Instant,
    copies: usize,
}

struct Watch {
    server: Server,
    request: Request,
    table: usize,
    shape: Shape,
    selector: Selector,
    /// Every write up to here was taken from the log.
    cursor: u64,
    phase: Phase,
    /// Lines ready to be sent.
    queue: VecDeque<Bytes>,
    pending: Option<Pending>,
    wake: watch::Receiver<u64>,
    cuts: watch::Receiver<Vec<(Match, Cut)>>,
    cuts_seen: usize,
    deadline: Instant,
    /// When the next one is due.
    bookmark: Option<Instant>,
}

type Frame = Result<Bytes, BoxError>;

impl Watch {
    async fn next(mut self) -> Option<(Frame, Self)> {
        loop {
            if let Some(how) = self.cut() {
                if how == Cut::Clean {
                    return None;
                }
                self.phase = Phase::Over;
                self.queue.clear();
                return Some((Err(broken_connection()), self));
            }
            if let Some(line) = self.queue.pop_front() {
                return Some((Ok(line), self));
            }
            if matches!(self.phase, Phase::Over) || Instant::now() >= self.deadline {
                return None;
            }
            if let Phase::Initial(after) = &self.phase {
                let after = after.clone();
                self.send_existing(after.as_ref());
                continue;
            }
            self.step().await;
        }
    }

    /// Takes one write further, or waits for one.
    async fn step(&mut self) {
        self.wake.borrow_and_update();
        if let Some(rule) = self.holding_rule() {
            self.wait(None, Some(&rule)).await;
            return;
        }
        if let Some(pending) = &self.pending {
            let release = pending.release;
            if Instant::now() < release {
                self.wait(Some(release), None).await;
            } else if let Some(pending) = self.pending.take() {
                self.deliver(&pending);
            }
            return;
        }
        match self.next_change() {
            Ok(Some(change)) => self.take(change),
            Ok(None) => self.idle().await,
            Err(Compacted) => self.too_old(),
        }
    }

    /// The next write, if there is one; else the cursor goes up to the present.
    fn next_change(&mut self) -> Result<Option<Arc<Change>>, Compacted> {
        let store = self.server.inner.store();
        let change = store.next_change(self.table, self.cursor)?;
        if change.is_none() {
            self.cursor = self.cursor.max(store.revision());
        }
        Ok(change)
    }

    /// Passes a write to the rules; the cursor goes behind it whatever they say.
    fn take(&mut self, change: Arc<Change>) {
        self.cursor = change.revision();
        if self.event_of(&change).is_none() {
            return;
        }
        let mut pending = Pending {
            release: change.at,
            change,
            copies: 1,
        };
        for rule in self.server.inner.rules.of_watch(&self.request) {
            let Action::Event(event) = &rule.action else {
                continue;
            };
            if !event.select.matches(&pending.change) {
                continue;
            }
            match event.action {
                EventAction::Lose if rule.fires() => return,
                EventAction::Duplicate if rule.fires() => pending.copies += 1,
                EventAction::Delay(duration) if rule.fires() => {
                    pending.release = pending.release.max(pending.change.at + duration);
                }
                // Holds are looked at before anything is taken from the log.
                _ => {}
            }
        }
        self.pending = Some(pending);
    }

    fn deliver(&mut self, pending: &Pending) {
        if let Some((kind, object)) = self.event_of(&pending.change) {
            let line = self.event(kind, &object);
            self.queue.extend(vec![line; pending.copies]);
        }
    }

    fn event(&self, kind: &str, object: &Object) -> Bytes {
        let mut line = format!("{{\"type\":\"{kind}\",\"object\":").into_bytes();
        self.shape.write(object, true, &mut line);
        line.extend_from_slice(b"}\n");
        line.into()
    }

    /// The event of this watch for a write; none if the write does not concern the watch.
    fn event_of(&self, change: &Change) -> Option<(&'static str, Arc<Object>)> {
        let namespace = &*self.request.namespace;
        if !namespace.is_empty() && namespace != &*change.key.namespace {
            return None;
        }
        let selected = |object: &Arc<Object>| self.selector.matches(&change.key, object);
        let before = change
            .previous
            .as_ref()
            .filter(|previous| selected(previous));
        let after = change.kind != ChangeKind::Deleted && selected(&change.object);
        match (before, after) {
            (None, false) => None,
            (None, true) => Some(("ADDED", Arc::clone(&change.object))),
            (Some(_), true) => Some(("MODIFIED", Arc::clone(&change.object))),
            // An object that leaves the selection is shown in its last state within.
            (Some(previous), false) => {
                Some(("DELETED", Arc::new(previous.at_revision(change.revision()))))
            }
        }
    }

    /// The rule that stops this stream at its next write, if any does.
    fn holding_rule(&self) -> Option<Arc<RuleState>> {
        let rules = self.server.inner.rules.of_watch(&self.request);
        let holds = |rule: &Arc<RuleState>| matches!(&rule.action, Action::Event(event) if matches!(event.action, EventAction::Hold));
        let holds: Vec<_> = rules.into_iter().filter(holds).collect();
        if holds.is_empty() {
            return None;
        }
        let next = if let Some(pending) = &self.pending {
            Arc::clone(&pending.change)
        } else {
            let store = self.server.inner.store();
            let mut changes = store.changes_after(self.table, self.cursor).ok()?;
            let next = changes.find(|change| self.event_of(change).is_some());
            Arc::clone(next?)
        };
        holds.into_iter().find(
            |rule| matches!(&rule.action, Action::Event(event) if event.select.matches(&next)),
        )
    }

    /// Nothing to send: waits for a write, and sends a bookmark when one is due.
    async fn idle(&mut self) {
        self.wait(self.bookmark, None).await;
        let now = Instant::now();
        if self.bookmark.is_some_and(|due| now >= due) && matches!(self.next_change(), Ok(None)) {
            self.bookmark = Some(next_bookmark(now, self.deadline));
            // A watch that began at a revision of the future is not told of the present.
            if self.cursor <= self.server.inner.store().revision() {
                self.queue_bookmark();
            }
        }
    }

    /// Waits until something may have changed for this stream.
    async fn wait(&mut self, until: Option<Instant>, rule: Option<&RuleState>) {
        let until = until.map_or(self.deadline, |until| until.min(self.deadline));
        let removed = async {
            match rule {
                Some(rule) => rule.removed.cancelled().await,
                None => std::future::pending().await,
            }
        };
        // A stream that waits for a moment or for a rule does not care for further writes.
        let write = async {
            if rule.is_none() && self.pending.is_none() {
                let _ = self.wake.changed().await;
            } else {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            () = removed => {}
            _ = self.cuts.changed() => {}
            () = write => {}
            () = tokio::time::sleep_until(until) => {}
        }
    }

    /// The cut that ends this stream, if there was one.
    fn cut(&mut self) -> Option<Cut> {
        let cuts = self.cuts.borrow_and_update();
        if cuts.len() == self.cuts_seen {
            return None;
        }
        let new = &cuts[self.cuts_seen..];
        let found = new
            .iter()
            .find(|(matcher, _)| matcher.matches(&self.request))
            .map(|(_, how)| *how);
        self.cuts_seen = cuts.len();
        found
    }

    /// Sends the next objects that existed when the watch began.
    fn send_existing(&mut self, after: Option<&Key>) {
        let namespace = (!self.request.namespace.is_empty()).then_some(&*self.request.namespace);
        let page = self.server.inner.store().page(
            self.table,
            namespace,
            self.cursor,
            after,
            Some(INITIAL_PAGE),
            Some(&|key, object| self.selector.matches(key, object)),
        );
        let Ok(page) = page else {
            return self.too_old();
        };
        for (_, object) in &page.items {
            let line = self.event("ADDED", object);
            self.queue.push_back(line);
        }
        if page.is_cut {
            self.phase = Phase::Initial(page.next().cloned());
            return;
        }
        self.phase = Phase::Live;
    }

    fn queue_bookmark(&mut self) {
        let shown = self.shape.shown_type();
        let metadata = json!({ "resourceVersion": self.cursor.to_string() });
        self.queue_line(&json!({
            "type": "BOOKMARK",
            "object": {
                "kind": shown.kind,
                "apiVersion": shown.api_version,
                "metadata": metadata,
            },
        }));
    }

    fn too_old(&mut self) {
        let cursor = self.cursor;
        self.fail(&Failure::expired(format!(
            "too old resource version: {cursor}"
        )));
    }

    /// Ends the stream with an error event.
    fn fail(&mut self, failure: &Failure) {
        self.queue_line(&json!({ "type": "ERROR", "object": failure.to_status() }));
        self.phase = Phase::Over;
    }

    fn queue_line(&mut self, value: &Value) {
        self.queue.push_back(Bytes::from(format!("{value}\n")));
    }
}

//! The server handle: options, clients, faults, and direct access to the state.
//!
//! Direct access is the test's own hand: it is synchronous, follows no admission, validation or
//! fault rule, and is not in the request log. Watches see its writes like any other.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::clock::Clock;
use crate::direct;
use crate::faults::{Match, Rule, RuleBuilder, Rules, Window};
use crate::history::Write;
use crate::log::{Log, Requests};
use crate::resources::{Registry, Resource};
use crate::service::ApiService;
use crate::store::{Backup, Store};
use crate::watch_faults::{Cut, EventRuleBuilder, EventSelect};

/// Behaviour that a real server takes from its flags.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) require_namespaces: bool,
    pub(crate) version: String,
}

/// Sets a [`Server`] up; made by [`Server::builder`].
#[derive(Clone, Debug)]
#[must_use = "nothing runs before `build`"]
pub struct ServerBuilder {
    registry: Registry,
    options: Options,
    start: Timestamp,
}

impl ServerBuilder {
    /// Serves one more resource, or replaces the known one of the same group and plural.
    pub fn resource(mut self, resource: Resource) -> Self {
        self.registry.add(resource);
        self
    }

    /// Changes a known resource, for example its pruning.
    pub fn adjust(mut self, resource: &str, change: impl FnOnce(&mut Resource)) -> Self {
        let table = self.registry.table(resource);
        change(self.registry.get_mut(table));
        self
    }

    /// Refuses to create objects in namespaces that do not exist (404).
    pub fn require_namespaces(mut self) -> Self {
        self.options.require_namespaces = true;
        self
    }

    /// The wall clock at the start: 2026-01-01T00:00:00Z unless told otherwise.
    pub fn start_time(mut self, start: Timestamp) -> Self {
        self.start = start;
        self
    }

    /// The version that `/version` tells: `v1.34.4` unless told otherwise.
    pub fn version(mut self, git_version: &str) -> Self {
        git_version.clone_into(&mut self.options.version);
        self
    }

    /// The server.
    pub fn build(self) -> Server {
        let store = Store::new(self.registry.all().len());
        Server {
            inner: Arc::new(Inner {
                registry: self.registry,
                options: self.options,
                clock: Clock::starting_at(self.start),
                store: Mutex::new(store),
                rules: Rules::default(),
                log: Log::default(),
                cuts: watch::Sender::new(Vec::new()),
            }),
        }
    }
}

pub(crate) struct Inner {
    pub(crate) registry: Registry,
    pub(crate) options: Options,
    pub(crate) clock: Clock,
    store: Mutex<Store>,
    pub(crate) rules: Rules,
    pub(crate) log: Log,
    /// Every cut so far; a watch knows how many it had seen when it began.
    pub(crate) cuts: watch::Sender<Vec<(Match, Cut)>>,
}

impl Inner {
    pub(crate) fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn table(&self, resource: &str) -> usize {
        self.registry.table(resource)
    }
}

/// An API server within this process. Clones are handles to the same server.
#[derive(Clone)]
pub struct Server {
    pub(crate) inner: Arc<Inner>,
}

impl Default for Server {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("revision", &self.revision())
            .finish_non_exhaustive()
    }
}

#[expect(
    clippy::must_use_candidate,
    reason = "rules stay in force and writes are done without their results"
)]
impl Server {
    /// A server with the standard resources and options.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// A server with other resources or options.
    pub fn builder() -> ServerBuilder {
        ServerBuilder {
            registry: Registry::standard(),
            options: Options {
                require_namespaces: false,
                version: "v1.34.4".to_owned(),
            },
            start: Timestamp::constant(1_767_225_600, 0),
        }
    }

    /// A client, with the label `test`.
    ///
    /// It has no retries and no timeouts of its own. Has to be called within a tokio runtime.
    pub fn client(&self) -> Client {
        self.client_named("test")
    }

    /// A client whose label rules and the request log can tell; also its user name in refusals.
    pub fn client_named(&self, label: &str) -> Client {
        Client::new(self.service(label), "default")
    }

    /// The bare HTTP service behind [`Server::client_named`].
    pub fn service(&self, label: &str) -> ApiService {
        ApiService::new(self.clone(), label)
    }

    // ---- faults, hooks, observation ----

    /// Begins a rule for matching requests.
    pub fn on(&self, matcher: Match) -> RuleBuilder<'_> {
        RuleBuilder {
            rules: &self.inner.rules,
            matcher,
            window: Window::default(),
        }
    }

    /// Begins a rule for the events of matching watches, open ones included.
    pub fn on_events(&self, matcher: Match) -> EventRuleBuilder<'_> {
        EventRuleBuilder {
            rules: &self.inner.rules,
            matcher,
            select: EventSelect::default(),
        }
    }

    /// Refuses matching requests with 403; see [`RuleBuilder::deny`].
    pub fn deny(&self, matcher: Match) -> Rule {
        self.on(matcher).deny()
    }

    /// Ends every open watch of a resource.
    pub fn cut_watches(&self, resource: &str) {
        self.cut(Match::watch(resource), Cut::Clean);
    }

    /// Ends every open watch that matches.
    pub fn cut(&self, matcher: Match, how: Cut) {
        self.inner
            .cuts
            .send_modify(|cuts| cuts.push((matcher, how)));
    }

    /// Removes all rules: faults, hooks and denials. Requests that they hold go on.
    pub fn clear_rules(&self) {
        self.inner.rules.clear();
    }

    /// Forgets all revisions before the current one: reads and watches that ask for one are
    /// answered with 410.
    pub fn compact(&self) {
        let mut store = self.inner.store();
        let revision = store.revision();
        store.compact(revision);
        store.wake_all();
    }

    /// A copy of all objects, for [`Server::restore`].
    pub fn back_up(&self) -> Backup {
        self.inner.store().back_up()
    }

    /// Restores a copy, as when etcd is restored from a backup and the API server started again: revisions go
    /// back to that of the copy, and all watches break. A watch that asks for a later revision is told nothing
    /// until there is one.
    pub fn restore(&self, backup: Backup) {
        self.inner.store().restore(backup);
        self.cut(Match::any(), Cut::Broken);
    }

    /// All requests so far.
    pub fn requests(&self) -> Requests {
        self.inner.log.snapshot()
    }

    /// Empties the request log.
    pub fn clear_requests(&self) {
        self.inner.log.clear();
    }

    /// All writes to a resource, oldest first.
    pub fn history(&self, resource: &str) -> Vec<Write> {
        let table = self.inner.table(resource);
        let type_meta = Arc::new(self.inner.registry.get(table).type_meta());
        self.inner
            .store()
            .history(table)
            .iter()
            .map(|change| Write::new(change, &type_meta))
            .collect()
    }

    /// The newest revision.
    pub fn revision(&self) -> u64 {
        self.inner.store().revision()
    }

    /// The server's wall clock.
    pub fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    /// Waits until `condition` holds, at most `timeout`; whether it does.
    pub async fn wait_until(&self, timeout: Duration, condition: impl Fn(&Self) -> bool) -> bool {
        const STEP: Duration = Duration::from_millis(10);
        let deadline = Instant::now() + timeout;
        loop {
            if condition(self) {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            tokio::time::sleep_until((Instant::now() + STEP).min(deadline)).await;
        }
    }

    // ---- direct access ----

    /// Writes an object as it is: creates it, replaces it, or, if it carries another uid than the
    /// one there, deletes that one first. Answers with what is stored.
    pub fn put(&self, object: impl Into<Value>) -> Value {
        let (stored, type_meta) = direct::put(&self.inner, object.into());
        stored.to_value(&type_meta)
    }

    /// Writes many objects, see [`Server::put`].
    pub fn put_all<O: Into<Value>>(&self, objects: impl IntoIterator<Item = O>) {
        for object in objects {
            direct::put(&self.inner, object.into());
        }
    }

    /// An object, if it is there; `namespace` is empty for cluster-scoped ones.
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        direct::get(&self.inner, resource, namespace, name)
    }

    /// All objects of a resource, in order of namespace and name.
    pub fn list(&self, resource: &str) -> Vec<Value> {
        direct::list(&self.inner, resource)
    }

    /// How many objects a resource has.
    pub fn count(&self, resource: &str) -> usize {
        let table = self.inner.table(resource);
        self.inner.store().live(table, None).count()
    }

    /// Changes an object in place; whether it was there.
    pub fn edit(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        change: impl FnOnce(&mut Value),
    ) -> bool {
        direct::edit(&self.inner, resource, namespace, name, change)
    }

    /// Removes an object at once, finalizers or not; its last state, if it was there.
    pub fn delete(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        direct::delete(&self.inner, resource, namespace, name)
    }
}

//! Faults and hooks: which requests they concern and what happens to those.
//!
//! A rule is a [`Match`] plus one action. Rules are looked at in the order in which they were
//! made; every matching rule acts, until one of them settles the answer. The rules hold no
//! objects and change none: hooks do that through the server handle they are given.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::request::{Request, Verb};
use crate::server::Server;
use crate::status::Failure;
use crate::watch_faults::{EventAction, EventSelect};

type Predicate = Arc<dyn Fn(&Request) -> bool + Send + Sync>;
pub(crate) type Hook = Arc<dyn Fn(Server) -> BoxFuture<'static, ()> + Send + Sync>;

/// Which requests a rule concerns. Every condition given has to hold.
#[derive(Clone, Default)]
#[must_use = "it does nothing by itself"]
pub struct Match {
    verbs: Option<Vec<Verb>>,
    resource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    client: Option<String>,
    predicates: Vec<Predicate>,
}

impl fmt::Debug for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Match")
            .field("verbs", &self.verbs)
            .field("resource", &self.resource)
            .field("namespace", &self.namespace)
            .field("name", &self.name)
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}

impl Match {
    /// Every request.
    pub fn any() -> Self {
        Self::default()
    }

    /// Every request for a resource, by plural name or `plural.group`.
    pub fn resource(resource: &str) -> Self {
        Self {
            resource: Some(resource.to_owned()),
            ..Self::default()
        }
    }

    /// Some verbs on a resource.
    pub fn verbs(verbs: &[Verb], resource: &str) -> Self {
        Self {
            verbs: Some(verbs.to_vec()),
            ..Self::resource(resource)
        }
    }

    /// Reads of single objects.
    pub fn get(resource: &str) -> Self {
        Self::verbs(&[Verb::Get], resource)
    }

    /// Lists, each page a request of its own.
    pub fn list(resource: &str) -> Self {
        Self::verbs(&[Verb::List], resource)
    }

    /// Watches.
    pub fn watch(resource: &str) -> Self {
        Self::verbs(&[Verb::Watch], resource)
    }

    /// Creations.
    pub fn create(resource: &str) -> Self {
        Self::verbs(&[Verb::Create], resource)
    }

    /// Patches.
    pub fn patch(resource: &str) -> Self {
        Self::verbs(&[Verb::Patch], resource)
    }

    /// Deletions of single objects.
    pub fn delete(resource: &str) -> Self {
        Self::verbs(&[Verb::Delete], resource)
    }

    /// Get, list and watch.
    pub fn reads(resource: &str) -> Self {
        Self::verbs(Verb::READS, resource)
    }

    /// Everything that changes something.
    pub fn writes(resource: &str) -> Self {
        Self::verbs(Verb::WRITES, resource)
    }

    /// Only requests within this namespace; `""` for cluster-wide ones.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Only requests for this object.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Only requests of the client with this label.
    pub fn client(mut self, label: &str) -> Self {
        self.client = Some(label.to_owned());
        self
    }

    /// Only the first page of lists.
    pub fn first_page(self) -> Self {
        self.filter(|request| request.continue_token.is_none())
    }

    /// Only the pages of lists behind the first.
    pub fn further_pages(self) -> Self {
        self.filter(|request| request.continue_token.is_some())
    }

    /// Only reads that ask for the newest state.
    pub fn quorum(self) -> Self {
        self.filter(Request::is_quorum_read)
    }

    /// Only requests that `predicate` takes.
    pub fn filter(mut self, predicate: impl Fn(&Request) -> bool + Send + Sync + 'static) -> Self {
        self.predicates.push(Arc::new(predicate));
        self
    }

    /// Whether this concerns `request`.
    pub fn matches(&self, request: &Request) -> bool {
        let same = |wanted: &Option<String>, actual: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == actual)
        };
        self.verbs
            .as_ref()
            .is_none_or(|verbs| verbs.contains(&request.verb))
            && self.resource.as_deref().is_none_or(|wanted| {
                wanted == request.resource
                    || wanted
                        .strip_prefix(request.resource.as_str())
                        .and_then(|rest| rest.strip_prefix('.'))
                        .is_some_and(|group| group == request.group)
            })
            && same(&self.namespace, &request.namespace)
            && same(&self.name, &request.name)
            && same(&self.client, &request.client)
            && self.predicates.iter().all(|predicate| predicate(request))
    }
}

/// How an answer is spoiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Garble {
    /// The body is HTML, as a proxy in between would send.
    Html,
    /// The body ends in the middle.
    Truncated,
    /// One item of a list (or the object itself) has numbers where objects and strings belong.
    Item(usize),
}

/// The fault that a request meets.
pub(crate) enum Action {
    Answer(Failure),
    Disconnect,
    Hang,
    Delay(Duration),
    Late(Duration),
    Before(Hook),
    After(Hook),
    ThenAnswer(Failure),
    ThenDisconnect,
    ThenHang,
    Stale(u64),
    Garble(Garble),
    Deny,
    Event(EventRule),
}

impl Action {
    /// Whether nothing behind this rule matters any more.
    fn settles(&self) -> bool {
        matches!(
            self,
            Self::Answer(_) | Self::Disconnect | Self::Late(_) | Self::Deny
        )
    }
}

/// A fault for events of a watch.
pub(crate) struct EventRule {
    pub(crate) select: EventSelect,
    pub(crate) action: EventAction,
}

/// Which of the matching occasions a rule acts on: all of them unless told.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    pub(crate) skip: usize,
    pub(crate) times: Option<usize>,
}

impl Window {
    /// Whether the occasion with so many before it lies within.
    fn holds(self, before: usize) -> bool {
        before
            .checked_sub(self.skip)
            .is_some_and(|index| self.times.is_none_or(|times| index < times))
    }
}

pub(crate) struct RuleState {
    pub(crate) matcher: Match,
    pub(crate) action: Action,
    window: Window,
    seen: AtomicUsize,
    hits: AtomicUsize,
    pub(crate) removed: CancellationToken,
}

impl RuleState {
    /// Counts one more occasion; whether the rule acts on it.
    pub(crate) fn fires(&self) -> bool {
        let seen = self.seen.fetch_add(1, Ordering::Relaxed);
        let fires = self.window.holds(seen);
        if fires {
            self.hits.fetch_add(1, Ordering::Relaxed);
        }
        fires
    }

    fn is_removed(&self) -> bool {
        self.removed.is_cancelled()
    }
}

/// A rule in force. Dropping the handle leaves the rule as it is.
#[derive(Clone)]
pub struct Rule {
    state: Arc<RuleState>,
}

impl Rule {
    /// Takes the rule back; requests and watches that it holds go on.
    pub fn remove(&self) {
        self.state.removed.cancel();
    }

    /// How often it acted.
    pub fn hits(&self) -> usize {
        self.state.hits.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule")
            .field("match", &self.state.matcher)
            .field("hits", &self.hits())
            .finish_non_exhaustive()
    }
}

/// All rules of a server.
#[derive(Default)]
pub(crate) struct Rules {
    list: Mutex<Vec<Arc<RuleState>>>,
}

impl Rules {
    pub(crate) fn add(&self, matcher: Match, window: Window, action: Action) -> Rule {
        let state = Arc::new(RuleState {
            matcher,
            action,
            window,
            seen: AtomicUsize::new(0),
            hits: AtomicUsize::new(0),
            removed: CancellationToken::new(),
        });
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.push(Arc::clone(&state));
        Rule { state }
    }

    pub(crate) fn clear(&self) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        for rule in list.drain(..) {
            rule.removed.cancel();
        }
    }

    fn select(&self, request: &Request, events: bool) -> Vec<Arc<RuleState>> {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.retain(|rule| !rule.is_removed());
        list.iter()
            .filter(|rule| matches!(rule.action, Action::Event(_)) == events)
            .filter(|rule| rule.matcher.matches(request))
            .cloned()
            .collect()
    }

    /// The rules that act on a request, in order.
    pub(crate) fn plan(&self, request: &Request) -> Vec<Arc<RuleState>> {
        let mut plan = Vec::new();
        for rule in self.select(request, false) {
            if rule.fires() {
                let settles = rule.action.settles();
                plan.push(rule);
                if settles {
                    break;
                }
            }
        }
        plan
    }

    /// The rules for events of the watch that `request` opened; nothing is counted yet.
    pub(crate) fn of_watch(&self, request: &Request) -> Vec<Arc<RuleState>> {
        self.select(request, true)
    }

    /// Whether a denial stands against this request; nothing is counted.
    pub(crate) fn denies(&self, request: &Request) -> bool {
        self.select(request, false)
            .iter()
            .any(|rule| matches!(rule.action, Action::Deny))
    }
}

/// A rule in the making: made by [`Server::on`], put in force by its action.
#[must_use = "a rule does nothing before it is given an action"]
pub struct RuleBuilder<'a> {
    pub(crate) rules: &'a Rules,
    pub(crate) matcher: Match,
    pub(crate) window: Window,
}

#[expect(
    clippy::must_use_candidate,
    reason = "a rule stays in force without its handle"
)]
impl RuleBuilder<'_> {
    /// Leaves the first `count` matching requests alone.
    pub fn skip(mut self, count: usize) -> Self {
        self.window.skip = count;
        self
    }

    /// Acts on so many requests, then never again.
    pub fn times(mut self, count: usize) -> Self {
        self.window.times = Some(count);
        self
    }

    /// Acts on one request only.
    pub fn once(self) -> Self {
        self.times(1)
    }

    fn add(self, action: Action) -> Rule {
        self.rules.add(self.matcher, self.window, action)
    }

    /// Answers with a failure; nothing is done.
    pub fn answer(self, failure: Failure) -> Rule {
        self.add(Action::Answer(failure))
    }

    /// Answers with the usual failure of a code; nothing is done.
    pub fn fail(self, code: u16) -> Rule {
        self.answer(Failure::of_code(code))
    }

    /// Breaks the connection; nothing is done.
    pub fn disconnect(self) -> Rule {
        self.add(Action::Disconnect)
    }

    /// Holds the request until the rule is removed; then it goes on as if it had just arrived.
    pub fn hang(self) -> Rule {
        self.add(Action::Hang)
    }

    /// Lets the request wait before it is done.
    pub fn delay(self, duration: Duration) -> Rule {
        self.add(Action::Delay(duration))
    }

    /// Breaks the connection at once and does the request after `duration` all the same, as a
    /// server does whose client gave up.
    pub fn apply_late(self, duration: Duration) -> Rule {
        self.add(Action::Late(duration))
    }

    /// Does the request, then answers with a failure.
    pub fn apply_then_answer(self, failure: Failure) -> Rule {
        self.add(Action::ThenAnswer(failure))
    }

    /// Does the request, then breaks the connection: a lost response.
    pub fn apply_then_disconnect(self) -> Rule {
        self.add(Action::ThenDisconnect)
    }

    /// Does the request, then holds the answer until the rule is removed.
    pub fn apply_then_hang(self) -> Rule {
        self.add(Action::ThenHang)
    }

    /// Serves reads from an earlier revision (see [`Server::revision`]), as a lagging cache does.
    pub fn serve_stale(self, revision: u64) -> Rule {
        self.add(Action::Stale(revision))
    }

    /// Spoils the answer.
    pub fn garble(self, garble: Garble) -> Rule {
        self.add(Action::Garble(garble))
    }

    /// Refuses with 403 in the words of RBAC; access reviews tell the same.
    pub fn deny(self) -> Rule {
        self.add(Action::Deny)
    }

    /// Runs `hook` before the request is done.
    pub fn before<F, Fut>(self, hook: F) -> Rule
    where
        F: Fn(Server) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.add(Action::Before(Arc::new(move |server| hook(server).boxed())))
    }

    /// Runs `hook` after the request was done and before it is answered.
    pub fn after<F, Fut>(self, hook: F) -> Rule
    where
        F: Fn(Server) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.add(Action::After(Arc::new(move |server| hook(server).boxed())))
    }
}

//! A collector on the in-process API server, with a paused clock.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::{
    cell::Cell,
    fmt::Debug,
    ops::{Deref, DerefMut, RangeBounds},
    panic,
    sync::Once,
    thread,
    time::Duration,
};

use ipgc::{
    config::Config,
    run::{Collector, Phase, Running},
};
use testkit::{Failure, Garble, Match, Requests, Rule, RuleBuilder, Server, pods::Kubelet};
use tokio::time::Instant;

pub mod log;
pub mod nodes;
pub mod objects;
pub mod scrape;

pub use objects::*;

/// Namespace of pools, reservations and most pods.
pub const NS: &str = "default";
/// A range, its pool and its definition.
pub const RANGE: &str = "10.0.0.0/24";
pub const POOL: &str = "10.0.0.0-24";

/// The resource of reservations.
pub const ORIP: &str = "overlappingrangeipreservations";
/// The resource of definitions.
pub const NADS: &str = "network-attachment-definitions";

thread_local! {
    static HAS_PANICKED: Cell<bool> = const { Cell::new(false) };
}

/// From now on a panic of any task on this thread is known: nobody waits for those that serve a pool or a namespace.
fn note_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |panicked| {
            HAS_PANICKED.set(true);
            usual(panicked);
        }));
    });
    HAS_PANICKED.set(false);
}

/// A run that must neither end nor fail before its test is over or stops it.
pub struct Alive(pub Option<Running>);

impl Alive {
    /// Starts a collector, without waiting for it.
    pub fn start(server: &Server, name: &str, config: Config) -> Self {
        note_panics();
        let client = server.client_named(name);
        Self(Some(Collector::new(client.clone(), client, config).start()))
    }

    /// The run, whose end is watched no more.
    pub fn release(mut self) -> Running {
        self.0.take().expect("it was not released yet")
    }

    /// Stops it, and it must end well.
    pub async fn stop(self) {
        Running::stop(&self);
        self.release().done().await.expect("the run failed");
    }
}

impl Deref for Alive {
    type Target = Running;

    fn deref(&self) -> &Running {
        self.0.as_ref().expect("it was not released yet")
    }
}

impl DerefMut for Alive {
    fn deref_mut(&mut self) -> &mut Running {
        self.0.as_mut().expect("it was not released yet")
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        let has_ended = |run: &Running| *run.context.phase.borrow() == Phase::Done;
        let is_dead = self.0.as_ref().is_some_and(has_ended);
        assert!(thread::panicking() || !is_dead, "the run ended by itself");
        let has_panicked = self.0.is_some() && HAS_PANICKED.get();
        assert!(
            thread::panicking() || !has_panicked,
            "a task of the run panicked"
        );
    }
}

/// An API server and a collector.
pub struct Bench {
    pub server: Server,
    pub running: Alive,
}

/// A bench stands for its server: a test calls the server's methods on the bench.
impl Deref for Bench {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl Bench {
    /// Starts a collector with default settings and waits until it is ready.
    pub async fn start(server: Server) -> Self {
        Self::with(server, Config::default()).await
    }

    /// Starts a collector and lets an hour pass, so that pods from before its start are in doubt no more.
    pub async fn long_since(server: Server, config: Config) -> Self {
        let bench = Self::with(server, config).await;
        // Sweeps come at random times. One that ends shortly before a pod does delays the sweep that this end asks for.
        // Watches end every 290 s, and are as old at the beginning of each test.
        let mut sweeps = bench.running.context.sweeps.subscribe();
        seconds(3_585).await;
        // Where sweeps are frequent, one is always near.
        for _ in 0..3 {
            sweeps.mark_unchanged();
            seconds(15).await;
            if !sweeps.has_changed().unwrap() {
                break;
            }
            seconds(275).await;
        }
        bench.server.clear_requests();
        bench
    }

    /// Starts a collector and waits until it is ready.
    pub async fn with(server: Server, config: Config) -> Self {
        let mut running = launch(&server, config);
        assert!(running.ready().await, "the run ended before it was ready");
        server.clear_requests();
        Self { server, running }
    }

    /// The requests of the collector that a sweep did not send: all but lists of pools and
    /// reservations with their contents, and lists of slices.
    pub fn aside_from_sweeps(&self) -> Requests {
        let swept = ["ippools", ORIP, "nodeslicepools"];
        self.sent(Match::any()).filter(|r| {
            let of_contents = r.verb == testkit::Verb::List && !r.metadata_only;
            !(of_contents && swept.contains(&&*r.resource))
        })
    }

    /// The pod watch is lost and begins anew with a list, which asks for a sweep.
    pub fn relist(&self) {
        let gone = self.server.on(Match::watch("pods")).once();
        gone.fail(410);
        self.server.cut_watches("pods");
    }

    /// Plays the kubelet.
    pub fn kubelet(&self) -> Kubelet {
        Kubelet::new(&self.server)
    }

    /// Keys of a pool's rows.
    pub fn rows(&self, pool: &str) -> Vec<String> {
        rows(&self.server, pool)
    }

    /// Names of all reservations.
    pub fn reservations(&self) -> Vec<String> {
        reservations(&self.server)
    }

    /// Waits until a pool has just these rows.
    pub async fn wait_rows(&self, pool: &str, keys: &[&str]) {
        let wait = Duration::from_secs(600);
        let reached = self
            .server
            .wait_until(wait, |s| rows(s, pool) == keys)
            .await;
        assert!(
            reached,
            "rows {:?}\n{}",
            self.rows(pool),
            self.server.requests()
        );
    }

    /// Waits until a pool has just these rows, and checks that this takes so many seconds.
    pub async fn rows_in(&self, pool: &str, keys: &[&str], seconds: impl RangeBounds<f64> + Debug) {
        let begun = Instant::now();
        self.wait_rows(pool, keys).await;
        took(begun, seconds);
    }

    /// `type reason note` of all events that regard this kind, sorted.
    pub fn events(&self, kind: &str) -> Vec<String> {
        let mut events: Vec<_> = self
            .server
            .list("events")
            .iter()
            .filter(|event| {
                let regarding = event.get("regarding").or(event.get("involvedObject"));
                regarding.is_some_and(|r| r["kind"] == kind)
            })
            .map(|event| {
                let text = |a: &str, b: &str| {
                    let value = event.get(a).or(event.get(b)).and_then(|v| v.as_str());
                    value.unwrap_or_default().to_owned()
                };
                format!(
                    "{} {} {}",
                    text("type", "type"),
                    text("reason", "reason"),
                    text("note", "message")
                )
            })
            .collect();
        events.sort();
        events
    }

    /// Ends pods gracefully, all at one moment.
    pub fn end<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) {
        for name in names {
            end_pod(self, NS, name.as_ref());
        }
    }

    /// The collector's requests that match, in their order.
    pub fn sent(&self, matcher: Match) -> Requests {
        let sent = self.server.requests().matching(&matcher.client("ipgc"));
        sent.filter(|request| !is_look(request))
    }

    /// A counter by its name.
    pub fn counted(&self, name: &str) -> u64 {
        let counters = self.running.context.counters.snapshot();
        let found = counters.iter().find(|(counter, _)| *counter == name);
        found.expect("no such counter").1
    }

    /// Whether nothing is written, since the API server does not allow it.
    pub fn is_shut(&self) -> bool {
        let not_ready = self.running.context.not_ready();
        not_ready.iter().any(|it| it.contains("does not allow"))
    }

    /// Addresses in the success events on pods.
    pub fn told_as_freed(&self) -> Vec<String> {
        let events = self.events("Pod");
        let freed = events
            .iter()
            .filter(|event| event.contains("Collected succ"))
            .filter_map(|event| event.split(['[', ']']).nth(1));
        freed.map(str::to_owned).collect()
    }

    /// From now on the watch of pods is down, until the rule is removed.
    pub async fn gap(&self) -> Rule {
        let gap = self.on(Match::watch("pods")).fail(503);
        self.cut_watches("pods");
        seconds(1).await;
        gap
    }

    /// Stops the collector, which must end well, and leaves its server.
    pub async fn stop(self) -> Server {
        self.running.stop().await;
        self.server
    }
}

/// Settings with a change.
pub trait With {
    /// These settings but for this change.
    fn with(self, change: impl FnOnce(&mut Self)) -> Self;
}

impl With for Config {
    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

/// Default settings, with no sweep but the one at the start and those that are asked for.
pub fn seldom() -> Config {
    Config::default().with(|it| it.sweep_interval = Duration::from_hours(1_000))
}

/// The same, and a claim need not wait for an ADD that accepted the reservation before.
pub fn no_add(config: Config) -> Config {
    config.with(|it| it.policy.add_budget = Duration::ZERO)
}

thread_local! {
    static REPEATS: Cell<bool> = const { Cell::new(false) };
}

/// Starts a collector without waiting for it.
pub fn launch(server: &Server, config: Config) -> Alive {
    // Sweeps come at random times, and one that is near delays a free by seconds: each test has a thread of its own, and its
    // times are the same in each run.
    if !REPEATS.replace(true) {
        ipgc::chance::repeat(1);
    }
    Alive::start(server, "ipgc", config)
}

/// Whether it is the list of one object by which ipgc learns, when a watch begins, whether time went back.
pub fn is_look(request: &testkit::Request) -> bool {
    request.verb == testkit::Verb::List && request.metadata_only && request.limit == Some(1)
}

/// Keys of a pool's rows.
pub fn rows(server: &Server, pool: &str) -> Vec<String> {
    let pool = server.get("ippools", NS, pool).unwrap_or_default();
    let rows = pool["spec"]["allocations"].as_object();
    rows.map(|rows| rows.keys().cloned().collect())
        .unwrap_or_default()
}

/// Names of all reservations.
pub fn reservations(server: &Server) -> Vec<String> {
    let all = server.list(ORIP).into_iter();
    let names = all.map(|it| it["metadata"]["name"].as_str().map(str::to_owned));
    names.flatten().collect()
}

/// Checks that the time since then, in seconds, is within this range.
#[track_caller]
pub fn took(since: Instant, seconds: impl RangeBounds<f64> + Debug) {
    let took = since.elapsed().as_secs_f64();
    assert!(seconds.contains(&took), "{took} s instead of {seconds:?}");
}

/// The kubelet ends a pod gracefully, at one moment: terminal, containers terminated, removed.
pub fn end_pod(server: &Server, namespace: &str, name: &str) {
    let kubelet = Kubelet::new(server);
    kubelet.begin_delete(namespace, name);
    kubelet.complete_pod(namespace, name, "Succeeded");
    kubelet.remove_pod(namespace, name);
}

/// Such requests take so many milliseconds from now on.
pub fn slow(server: &Server, requests: Match, milliseconds: u64) {
    server
        .on(requests)
        .delay(Duration::from_millis(milliseconds));
}

/// Puts a fault into force, by the name that a case has: a code, or what becomes of the request or its answer.
pub fn strike(rule: RuleBuilder<'_>, fault: &str) -> Rule {
    match fault {
        "deny" => rule.deny(),
        "broken" => rule.disconnect(),
        "hang" => rule.hang(),
        "html" => rule.garble(Garble::Html),
        "half" => rule.garble(Garble::Truncated),
        "item" => rule.garble(Garble::Item(0)),
        "done, then broken" => rule.apply_then_disconnect(),
        "done, then hang" => rule.apply_then_hang(),
        "done, then 503" => rule.apply_then_answer(Failure::of_code(503)),
        "done, then 504" => rule.apply_then_answer(Failure::of_code(504)),
        code => rule.fail(code.parse().expect("a code")),
    }
}

/// The times between requests.
pub fn gaps(requests: &Requests) -> Vec<Duration> {
    let at: Vec<_> = requests.iter().map(|request| request.at).collect();
    at.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// Waits until a rule was hit so often.
pub async fn wait_hits(rule: &Rule, count: usize) {
    while rule.hits() < count {
        seconds(1).await;
    }
}

/// Checks that a text has all these parts.
#[track_caller]
pub fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

/// The pods of [`three`].
pub const PODS: [&str; 3] = ["web-1", "web-2", "web-3"];

/// A collector that follows running pods with these rows and a reservation each, an hour after its start.
pub async fn followed(rows: &[(u64, &str)], config: Config) -> Bench {
    let bench = Bench::long_since(running(rows), config).await;
    seconds(1).await;
    bench
}

/// Three running pods with a row and a reservation each. Sweeps come when they are asked for only.
pub async fn three() -> Bench {
    three_with(seldom()).await
}

/// The same, with these settings.
pub async fn three_with(config: Config) -> Bench {
    let bench = Bench::long_since(server(), config).await;
    put_crowd(&bench, 3);
    seconds(1).await;
    bench
}

/// Lets time pass.
pub async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

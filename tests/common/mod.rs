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
use testkit::{
    Server,
    fixtures::{self, PodBuilder},
    pods::Kubelet,
};
use tokio::time::Instant;

pub mod log;
pub mod nodes;
pub mod scrape;

/// Namespace of pools, reservations and most pods.
pub const NS: &str = "default";
/// A range, its pool and its definition.
pub const RANGE: &str = "10.0.0.0/24";
pub const POOL: &str = "10.0.0.0-24";

/// The resource of reservations.
pub const ORIP: &str = "overlappingrangeipreservations";

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
        let has_ended = |run: &Running| *run.vitals.phase.borrow() == Phase::Done;
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
        let mut sweeps = bench.running.vitals.sweeps.subscribe();
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
    pub fn aside_from_sweeps(&self) -> testkit::Requests {
        let swept = ["ippools", ORIP, "nodeslicepools"];
        self.sent(testkit::Match::any()).filter(|r| {
            let of_contents = r.verb == testkit::Verb::List && !r.metadata_only;
            !(of_contents && swept.contains(&&*r.resource))
        })
    }

    /// The pod watch is lost and begins anew with a list, which asks for a sweep.
    pub fn relist(&self) {
        let gone = self.server.on(testkit::Match::watch("pods")).once();
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
        let names = self.server.list(ORIP);
        names
            .iter()
            .map(|r| {
                r["metadata"]["name"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned()
            })
            .collect()
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

    /// Ends pods gracefully, all at one moment: terminal, containers terminated, removed.
    pub fn end<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) {
        let kubelet = self.kubelet();
        for name in names {
            let name = name.as_ref();
            kubelet.mark_pod(NS, name);
            kubelet.complete_pod(NS, name, "Succeeded");
            kubelet.remove_pod(NS, name);
        }
    }

    /// The collector's requests that match, in their order.
    pub fn sent(&self, matcher: testkit::Match) -> testkit::Requests {
        let sent = self.server.requests().matching(&matcher.client("ipgc"));
        sent.filter(|request| !is_look(request))
    }

    /// A counter by its name.
    pub fn counted(&self, name: &str) -> u64 {
        let counters = self.running.vitals.counters.snapshot();
        let found = counters.iter().find(|(counter, _)| *counter == name);
        found.expect("no such counter").1
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

    /// Stops the collector, which must end well.
    pub async fn stop(self) {
        self.running.stop().await;
    }
}

/// Default settings, with no sweep but the one at the start and those that are asked for.
pub fn seldom() -> Config {
    Config {
        sweep_interval: Duration::from_hours(1_000),
        ..Config::default()
    }
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

fn rows(server: &Server, pool: &str) -> Vec<String> {
    let pool = server.get("ippools", NS, pool).unwrap_or_default();
    let rows = pool["spec"]["allocations"].as_object();
    rows.map(|rows| rows.keys().cloned().collect())
        .unwrap_or_default()
}

/// A server with the definition `default/net` on [`RANGE`], and its pool without rows: the first sweep learns where
/// pools are.
pub fn server() -> Server {
    let server = Server::new();
    server.put(fixtures::nad(NS, "net", RANGE));
    server.put(fixtures::pool(NS, RANGE));
    server
}

/// Puts a pool with one row for each (offset, pod), on `net1`, with reservations.
pub fn put_pool(server: &Server, rows: &[(u64, &str)]) {
    let mut pool = fixtures::pool(NS, RANGE);
    for (offset, pod) in rows {
        let podref = format!("{NS}/{pod}");
        pool = pool.row(*offset, &fixtures::sandbox(*offset), &podref, "net1");
        let address = format!("10.0.0.{offset}");
        server.put(fixtures::reservation(NS, &address, &podref, "net1"));
    }
    server.put(pool);
}

/// The same, and its pods run.
pub fn put_running(server: &Server, rows: &[(u64, &str)]) {
    put_pool(server, rows);
    for (offset, pod) in rows {
        run_pod(server, pod, *offset);
    }
}

/// A server with a pool of these rows, whose pods run.
pub fn running(rows: &[(u64, &str)]) -> Server {
    let server = server();
    put_running(&server, rows);
    server
}

/// The running pods `web-1` to `web-<count>` with a row and a reservation each; their names.
pub fn put_crowd(server: &Server, count: usize) -> Vec<String> {
    let names: Vec<_> = (1..=count).map(|n| format!("web-{n}")).collect();
    let rows: Vec<_> = (1..).zip(names.iter().map(String::as_str)).collect();
    put_running(server, &rows);
    names
}

/// Puts a reservation of a pod, on `net1`.
pub fn reserve(server: &Server, name: &str, pod: &str) {
    let podref = format!("{NS}/{pod}");
    server.put(fixtures::reservation(NS, name, &podref, "net1"));
}

/// Puts a pool of its own whose one row is of a pod that is not there; its name.
pub fn put_leak(server: &Server, range: &str) -> String {
    let pool = fixtures::pool(NS, range);
    server.put(pool.row(1, &fixtures::sandbox(0x1ea), "default/gone", "net1"));
    fixtures::pool_name(range)
}

/// Checks that the time since then, in seconds, is within this range.
#[track_caller]
pub fn took(since: Instant, seconds: impl RangeBounds<f64> + Debug) {
    let took = since.elapsed().as_secs_f64();
    assert!(seconds.contains(&took), "{took} s instead of {seconds:?}");
}

/// One more row of [`POOL`], on `net1`, of a sandbox of this number; or another in its place.
pub fn put_row(server: &Server, offset: u64, pod: &str, sandbox: u64) {
    put_row_on(server, POOL, offset, pod, "net1", sandbox);
}

/// The same in any pool, on any interface.
pub fn put_row_on(
    server: &Server,
    pool: &str,
    offset: u64,
    pod: &str,
    interface: &str,
    sandbox: u64,
) {
    let row = fixtures::row(
        &fixtures::sandbox(sandbox),
        &format!("{NS}/{pod}"),
        interface,
    );
    let found = server.edit("ippools", NS, pool, |pool| {
        pool["spec"]["allocations"][offset.to_string()] = row;
    });
    assert!(found, "no pool {pool}");
}

/// A running pod that reports 10.0.0.`offset` on `net1`.
pub fn run_pod(server: &Server, name: &str, offset: u64) {
    server.put(reporting(name, offset).running());
}

/// A pod that reports 10.0.0.`offset` on `net1`.
pub fn reporting(name: &str, offset: u64) -> PodBuilder {
    on_net("net", name, &format!("10.0.0.{offset}"))
}

/// A pod that asks for a network of `default`, and reports this address of it on `net1`.
pub fn on_net(net: &str, name: &str, address: &str) -> PodBuilder {
    let net = format!("{NS}/{net}");
    let pod = fixtures::pod(NS, name).node("node-1").networks(&net);
    pod.reports(&net, "net1", &[address])
}

/// The pods of [`three`].
pub const PODS: [&str; 3] = ["web-1", "web-2", "web-3"];

/// Three running pods with a row and a reservation each. Sweeps come when they are asked for only.
pub async fn three() -> Bench {
    three_with(seldom()).await
}

/// The same, with these settings.
pub async fn three_with(config: Config) -> Bench {
    let bench = Bench::long_since(server(), config).await;
    put_crowd(&bench, 3);
    tokio::time::sleep(Duration::from_secs(1)).await;
    bench
}

/// Lets time pass.
pub async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

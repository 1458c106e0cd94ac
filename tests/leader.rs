//! Several copies on one API server: one of them writes, and what happens when it does not any more.

use crate::prelude::*;
use ipgc::{
    leader::{LEASE, PAUSE_ANNOTATION, SWEEP_ANNOTATION},
    run::Running,
};

const LEASES: &str = "ipgc-system";

fn electing(name: &str) -> Config {
    Config {
        instance: name.to_owned(),
        lease_namespace: Some(LEASES.to_owned()),
        ..seldom()
    }
}

async fn copy(server: &Server, name: &str) -> Alive {
    copy_with(server, name, electing(name)).await
}

async fn copy_with(server: &Server, name: &str, config: Config) -> Alive {
    let mut running = Alive::start(server, name, config);
    assert!(running.ready().await, "{name} ended before it was ready");
    running
}

/// Two copies, of which the first leads, long after they started, and two pods with rows.
async fn two() -> (Server, Alive, Alive) {
    let server = server();
    let a = copy(&server, "a").await;
    seconds(1).await;
    assert!(a.context.is_leader());
    let b = copy(&server, "b").await;
    seconds(3_600).await;
    put_crowd(&server, 2);
    seconds(1).await;
    assert!(a.context.is_leader() && !b.context.is_leader());
    server.clear_requests();
    (server, a, b)
}

fn lease(server: &Server) -> Value {
    let lease = server.get("leases", LEASES, LEASE).unwrap();
    lease["spec"].clone()
}

/// The writes of a copy, without those of the Lease.
fn written(server: &Server, name: &str) -> Requests {
    let of = server.requests().matching(&Match::any().client(name));
    of.filter(|r| {
        let reads = [Verb::Get, Verb::List, Verb::Watch];
        !reads.contains(&r.verb) && r.resource != "leases"
    })
}

/// How many events a copy sent.
fn events(server: &Server, name: &str) -> usize {
    let created = Match::create("events.events.k8s.io").client(name);
    server.requests().matching(&created).len()
}

/// The watch of pods of a copy is lost and begins anew with a list.
fn relist(server: &Server, name: &str) {
    let watch = Match::watch("pods").client(name);
    server.on(watch.clone()).once().fail(410);
    server.cut(watch, Cut::Clean);
}

async fn end(server: &Server, pod: &str) {
    Kubelet::new(server).terminate_pod(NS, pod).await;
}

/// Waits until the rows are these, for so many seconds; how long it took.
async fn rows_become(server: &Server, keys: &[&str], within: u64) -> Duration {
    let begun = Instant::now();
    let within = Duration::from_secs(within);
    let reached = server.wait_until(within, |server| rows(server, POOL) == keys);
    assert!(
        reached.await,
        "{:?}\n{}",
        rows(server, POOL),
        server.requests()
    );
    begun.elapsed()
}

/// A copy is cut off from the API server, as far as writing and reading goes.
fn cut_off(server: &Server, name: &str) -> Rule {
    let cut = server.on(Match::any().client(name)).hang();
    server.cut(Match::any().client(name), Cut::Broken);
    cut
}

#[tokio::test(start_paused = true)]
async fn one_copy_writes_and_the_others_only_look() {
    let (server, a, b) = two().await;
    end(&server, "web-1").await;
    rows_become(&server, &["2"], 10).await;
    seconds(600).await;
    assert!(!written(&server, "a").is_empty());
    assert!(written(&server, "b").is_empty(), "{}", server.requests());
    // It looks on: not every second, and to the end.
    let pools = Match::get("ippools").client("b");
    let looked = server.requests().matching(&pools).len();
    assert!((1..=3).contains(&looked), "{}", server.requests());
    // A copy that waits to lead, with a case, stops at once as well.
    end(&server, "web-2").await;
    seconds(1).await;
    b.stop().await;
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn of_copies_that_start_together_one_leads() {
    let server = server();
    let copies: Vec<_> = ["a", "b", "c"]
        .map(|name| Alive::start(&server, name, electing(name)))
        .into();
    let leaders = || {
        copies
            .iter()
            .filter(|copy| copy.context.is_leader())
            .count()
    };
    for _ in 0..600 {
        seconds(1).await;
        assert!(leaders() <= 1);
    }
    assert_eq!(leaders(), 1);
    let held = lease(&server);
    assert_eq!(held["leaseTransitions"], 0, "{held}");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_is_succeeded_within_the_lease_and_nine_seconds() {
    let (server, a, b) = two().await;
    let cut = cut_off(&server, "a");
    // Seen to end by the one that does not lead yet.
    end(&server, "web-1").await;
    let took = rows_become(&server, &["2"], 24).await;
    assert!(took > Duration::from_secs(5), "{took:?}");
    assert!(b.context.is_leader() && !a.context.is_leader());
    assert_eq!(lease(&server)["leaseTransitions"], 1);
    assert!(written(&server, "a").is_empty());
    // It is back, and one of many.
    cut.remove();
    end(&server, "web-2").await;
    rows_become(&server, &[], 10).await;
    seconds(60).await;
    assert!(b.context.is_leader() && !a.context.is_leader());
    assert!(written(&server, "a").is_empty(), "{}", server.requests());
}

/// They are written all the same, and each would begin the others' wait anew.
#[tokio::test(start_paused = true)]
async fn a_leader_that_hears_of_no_renewal_is_succeeded() {
    let (server, a, b) = two().await;
    let renewals = server.on(Match::writes("leases").client("a"));
    let late = renewals.after(async |_| seconds(4).await);
    seconds(45).await;
    assert!(late.hits() > 1, "{}", server.requests());
    assert!(b.context.is_leader() && !a.context.is_leader());
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_requests_take_seconds_leads_again_after_a_conflict() {
    let server = server();
    let a = copy(&server, "a").await;
    slow(&server, Match::get("leases"), 1_000);
    slow(&server, Match::writes("leases"), 2_500);
    for _ in 0..3 {
        seconds(60).await;
        assert!(a.context.is_leader(), "{}", server.requests());
        annotate(&server, "a", Some("b"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_stops_is_succeeded_within_five_seconds() {
    let (server, a, b) = two().await;
    Kubelet::new(&server).begin_delete(NS, "web-1");
    end(&server, "web-1").await;
    // Before the cooldown is over.
    a.stop().await;
    rows_become(&server, &["2"], 5).await;
    assert!(b.context.is_leader());
    b.stop().await;
    assert_eq!(lease(&server)["holderIdentity"], Value::Null);
}

/// W is counted from the end that both saw.
#[tokio::test(start_paused = true)]
async fn a_wait_that_began_before_the_takeover_ends_no_later_for_it() {
    let (server, a, _b) = two().await;
    let _beat = live_node(&server, "node-1");
    seconds(60).await;
    Kubelet::new(&server).force_delete(NS, "web-1");
    seconds(150).await;
    rows_become(&server, &["1", "2"], 1).await;
    a.stop().await;
    let took = rows_become(&server, &["2"], 300).await;
    let waited = took.as_secs() + 150;
    assert!((W..W + 60).contains(&waited), "{waited} s after the end");
}

/// Its Lease cannot be renewed; all else is as ever.
#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_its_lease_writes_nothing_more() {
    let (server, a, b) = two().await;
    b.stop().await;
    let silent = server.on(Match::resource("leases").client("a")).hang();
    seconds(11).await;
    assert!(!a.context.is_leader());
    end(&server, "web-1").await;
    seconds(600).await;
    assert!(written(&server, "a").is_empty(), "{}", server.requests());
    silent.remove();
    rows_become(&server, &["2"], 30).await;
    assert!(a.context.is_leader());
}

/// Leadership ends between the rows and their reservations, before anybody else leads.
#[tokio::test(start_paused = true)]
async fn reservations_are_left_to_whoever_leads_next() {
    let (server, a, b) = two().await;
    let silent = server.on(Match::resource("leases").client("a")).hang();
    let slow = server.on(Match::patch("ippools").client("a"));
    let slow = slow.after(async |_| seconds(10).await);
    end(&server, "web-1").await;
    rows_become(&server, &["2"], 5).await;
    assert!(a.context.is_leader());
    let reservation = |s: &Server| s.get(ORIP, NS, "10.0.0.1");
    seconds(10).await;
    assert!(!a.context.is_leader() && !b.context.is_leader());
    assert!(reservation(&server).is_some());
    // b claims the reservation that it found while a led. Then it waits for ADDs that are at work.
    let gone = server.wait_until(Duration::from_secs(200), |s| reservation(s).is_none());
    assert!(gone.await, "{}", server.requests());
    let of_a = written(&server, "a").filter(|r| r.resource == ORIP);
    assert!(of_a.is_empty(), "{of_a}");
    assert!(b.context.is_leader());
    slow.remove();
    silent.remove();
    // a does not ask for ever about frees that b has done.
    seconds(200).await;
    server.clear_requests();
    seconds(600).await;
    let asked = Match::get("ippools").client("a");
    let asked = server.requests().matching(&asked);
    assert!(asked.is_empty(), "{asked}");
}

#[tokio::test(start_paused = true)]
async fn who_does_not_lead_sends_no_events() {
    let (server, a, _b) = two().await;
    // Its node is silent, which both see and one tells.
    server.put(fixtures::node("node-1", false));
    Kubelet::new(&server).force_delete(NS, "web-1");
    seconds(600).await;
    let events = |name| events(&server, name);
    assert!(events("a") > 0 && events("b") == 0, "{}", server.requests());
    // The new leader reports the problems that still exist.
    a.stop().await;
    seconds(30).await;
    assert!(events("b") > 0, "{}", server.requests());
}

/// The same when the lead is lost between a claim and the word that its pod is back.
#[tokio::test(start_paused = true)]
async fn who_does_not_lead_any_more_gives_back_no_claim() {
    let (server, a, b) = two().await;
    // All that follows is counted from a renewal: a leads for ten seconds, b not before fifteen.
    let renewal = |server: &Server| lease(server)["renewTime"].clone();
    let last = renewal(&server);
    let renewed = server.wait_until(Duration::from_secs(10), |s| renewal(s) != last);
    assert!(renewed.await);
    let silent = server.on(Match::resource("leases").client("a")).hang();
    let claims = server.on(Match::patch(ORIP).client("a"));
    let claim = claims.once().after(async |server: Server| {
        // Its name is in use again, when a leads no more and b does not lead yet.
        seconds(9).await;
        run_pod(&server, "web-1", 1);
        seconds(1).await;
    });
    end(&server, "web-1").await;
    rows_become(&server, &["2"], 5).await;
    seconds(12).await;
    assert_eq!(claim.hits(), 1);
    assert!(!a.context.is_leader() && !b.context.is_leader());
    let of_a = written(&server, "a").filter(|r| r.resource == ORIP);
    assert_eq!(of_a.len(), 1, "{of_a}");
    assert_eq!(podref(&server, "10.0.0.1"), "ipgc.dev/releasing");
    // The next leader gives the reservation back to its owner.
    let given_back = |s: &Server| podref(s, "10.0.0.1") == "default/web-1";
    let given_back = server.wait_until(Duration::from_secs(900), given_back);
    assert!(given_back.await, "{}", server.requests());
    assert!(b.context.is_leader());
    silent.remove();
}

/// What it may read again it tells by itself.
#[tokio::test(start_paused = true)]
async fn a_standby_is_ready_again_after_a_refused_read() {
    let (server, _a, b) = two().await;
    let refused = server.on(Match::list("ippools").client("b")).fail(403);
    relist(&server, "b");
    seconds(120).await;
    assert!(refused.hits() > 1);
    assert!(!b.context.not_ready().is_empty());
    refused.remove();
    seconds(70).await;
    assert_eq!(b.context.not_ready(), [""; 0]);
}

/// It is deleted with all that is in it, while the copy leads.
#[tokio::test(start_paused = true)]
async fn a_namespace_of_the_lease_that_goes_is_told_each_minute_and_nobody_is_ready() {
    let (log, _guard) = Log::start();
    let server = Server::builder().require_namespaces().build();
    server.put(fixtures::namespace(NS));
    server.put(fixtures::namespace(LEASES));
    server.put(fixtures::nad(NS, "net", RANGE));
    let a = copy(&server, "a").await;
    seconds(5).await;
    assert!(a.context.is_leader() && a.context.not_ready().is_empty());
    server.delete("leases", LEASES, LEASE);
    server.delete("namespaces", "", LEASES);
    seconds(600).await;
    assert!(!a.context.is_leader());
    let said = a.context.not_ready();
    assert!(said.len() == 1 && said[0].contains("Lease"), "{said:?}");
    let told = log.lines("the namespace of the Lease is gone");
    assert!((9..=11).contains(&told.len()), "{told:?}");
    says(&told[0], &["--lease-namespace", LEASES]);
    let others = log.lines("no look at the Lease");
    assert!(others.len() <= 1, "{others:?}");
    server.put(fixtures::namespace(LEASES));
    seconds(10).await;
    assert!(a.context.is_leader() && a.context.not_ready().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_others_wrote_on_the_lease_stays() {
    let (server, a, _b) = two().await;
    let annotated = server.edit("leases", LEASES, LEASE, |lease| {
        lease["metadata"]["annotations"]["a"] = "b".into();
    });
    assert!(annotated);
    seconds(60).await;
    let lease = server.get("leases", LEASES, LEASE).unwrap();
    assert_eq!(lease["metadata"]["annotations"]["a"], "b", "{lease}");
    assert!(a.context.is_leader());
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_given_back_after_the_patch_in_flight() {
    let (server, a, b) = two().await;
    slow(&server, Match::patch("ippools"), 5_000);
    end(&server, "web-1").await;
    let patching = |s: &Server| s.requests().matching(&Match::patch("ippools")).len() == 1;
    let patching = server.wait_until(Duration::from_secs(10), patching);
    assert!(patching.await);
    Running::stop(&a);
    seconds(3).await;
    // Not given back while a patch is in flight.
    assert!(a.context.is_leader());
    assert!(!b.context.is_leader());
    a.release().done().await.expect("drained");
    rows_become(&server, &["2"], 1).await;
    // The other copy may have it already.
    let holder = lease(&server)["holderIdentity"].clone();
    let holder = holder.as_str().unwrap_or_default();
    assert!(!holder.starts_with("a_"), "{holder}");
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_leaves_the_lease_alone() {
    let server = server();
    let dry = copy_with(&server, "a", electing("a").with(|it| it.dry_run = true)).await;
    seconds(60).await;
    let leases = Match::resource("leases").namespace(LEASES);
    assert!(server.requests().matching(&leases).is_empty());
    assert!(dry.context.is_leader(), "alone in what it does");
}

/// A shutdown does not wait for a Lease that nobody answers for.
#[tokio::test(start_paused = true)]
async fn a_shutdown_without_an_api_server_is_quick() {
    let (server, a, _b) = two().await;
    let _cut = cut_off(&server, "a");
    Running::stop(&a);
    let ended = timeout(Duration::from_secs(3), a.release().done()).await;
    ended.expect("too late").expect("the run failed");
}

fn annotate(server: &Server, name: &str, value: Option<&str>) {
    let found = server.edit("leases", LEASES, LEASE, |lease| {
        let annotations = &mut lease["metadata"]["annotations"];
        *annotations = value.map_or(Value::Null, |value| json!({ name: value }));
    });
    assert!(found);
}

/// Neither copy writes, apart from the Lease. Rows of pods that ended meanwhile are freed once the annotation is gone.
#[tokio::test(start_paused = true)]
async fn a_person_pauses_all_copies_by_an_annotation_of_the_lease() {
    let (server, a, b) = two().await;
    annotate(&server, PAUSE_ANNOTATION, Some("false"));
    seconds(10).await;
    assert!(!a.context.is_leader() && !b.context.is_leader());
    end(&server, "web-1").await;
    seconds(1_800).await;
    for name in ["a", "b"] {
        assert_eq!(written(&server, name).len(), 0, "{}", server.requests());
    }
    // The one that led renews on.
    let holder = lease(&server)["holderIdentity"].clone();
    assert!(holder.as_str().unwrap().starts_with("a_"), "{holder}");
    annotate(&server, PAUSE_ANNOTATION, None);
    rows_become(&server, &["2"], 90).await;
    assert!(a.context.is_leader() && !b.context.is_leader());
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_starts_while_all_are_paused_writes_nothing() {
    let (server, a, b) = two().await;
    annotate(&server, PAUSE_ANNOTATION, Some(""));
    seconds(10).await;
    a.stop().await;
    b.stop().await;
    let c = copy(&server, "c").await;
    end(&server, "web-1").await;
    seconds(600).await;
    assert!(!c.context.is_leader());
    assert_eq!(written(&server, "c").len(), 0, "{}", server.requests());
}

/// Each new value asks for one sweep, and one that was there at the start for none.
#[tokio::test(start_paused = true)]
async fn a_person_asks_for_a_sweep_by_an_annotation_of_the_lease() {
    let server = server();
    let a = copy(&server, "a").await;
    seconds(5).await;
    annotate(&server, SWEEP_ANNOTATION, Some("1"));
    seconds(60).await;
    a.stop().await;
    let b = copy(&server, "b").await;
    seconds(3_600).await;
    assert!(b.context.is_leader());
    let sweeps = || b.context.counters.sweeps_ended.get();
    let before = sweeps();
    for (value, more) in [("1", 0), ("2", 1), ("2", 1), ("3", 2)] {
        annotate(&server, SWEEP_ANNOTATION, Some(value));
        seconds(60).await;
        assert_eq!(sweeps(), before + more, "{value}");
    }
}

/// The account may use the Lease, but its namespace is missing, say.
#[tokio::test(start_paused = true)]
async fn who_never_saw_the_lease_is_not_ready() {
    let server = server();
    let missing = server.on(Match::create("leases")).fail(404);
    let a = copy(&server, "a").await;
    seconds(30).await;
    let said = a.context.not_ready();
    assert!(said[0].contains("Lease"), "{said:?}");
    missing.remove();
    seconds(10).await;
    assert!(a.context.not_ready().is_empty() && a.context.is_leader());
}

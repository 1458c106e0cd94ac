//! A run that ends by itself (`ipgc run --once`): the rows that it frees, its end, and its output.

use std::future::pending;

use crate::prelude::*;
use ipgc::once::{Summary, once};

/// Its summary, and the seconds that it took.
async fn run(server: &Server, config: Config, wait: Duration) -> (Result<Summary, String>, u64) {
    let begun = Instant::now();
    let running = launch(server, config).release();
    let summary = once(running, wait, pending()).await;
    (summary, begun.elapsed().as_secs())
}

/// The same of a run that comes to something.
async fn summed_up(server: &Server, config: Config, wait: Duration) -> (Summary, u64) {
    let (summary, took) = run(server, config, wait).await;
    (summary.unwrap(), took)
}

/// Whether a run came to nothing, for a reason that begins with these words.
fn fails(summary: &Result<Summary, String>, words: &str) -> bool {
    summary
        .as_ref()
        .is_err_and(|reason| reason.starts_with(words))
}

/// One row leaked, one is in use.
fn leaked() -> Server {
    let server = server();
    put_pool(&server, &[(1, "gone"), (2, "alive")]);
    run_pod(&server, "alive", 2);
    server
}

#[tokio::test(start_paused = true)]
async fn what_may_go_within_the_wait_is_freed_and_then_it_ends() {
    let server = leaked();
    let wait = Duration::from_hours(1);
    let (summary, took) = summed_up(&server, Config::default(), wait).await;
    assert_eq!(rows(&server, POOL), ["2"]);
    assert_eq!(
        (summary.freed, summary.reservations, summary.waiting),
        (1, 1, 0)
    );
    assert!(summary.is_clear(), "{summary}");
    // Its reservation was claimed, and waits until no ADD is at work which accepted it before that.
    assert!((W..W + 240).contains(&took), "{took} s");
    let text = summary.to_string();
    says(&text, &["1 pools, 2 addresses, 1 live, 1 stale"]);
    says(&text, &["freed 1 addresses and 1 reservations"]);
}

/// The row goes within the wait. Its reservation is marked then, and a mark is not left behind.
#[tokio::test(start_paused = true)]
async fn what_was_begun_in_time_is_ended() {
    let server = leaked();
    let wait = Duration::from_secs(W + 30);
    let (summary, took) = summed_up(&server, seldom(), wait).await;
    assert_eq!(rows(&server, POOL), ["2"]);
    assert_eq!((summary.reservations, summary.begun), (1, 0), "{summary}");
    assert!(summary.is_clear());
    assert!(took > wait.as_secs(), "{took} s");
}

#[tokio::test(start_paused = true)]
async fn where_all_is_well_it_ends_at_once() {
    let server = server();
    put_pool(&server, &[(2, "alive")]);
    run_pod(&server, "alive", 2);
    let (summary, took) = summed_up(&server, Config::default(), Duration::from_hours(1)).await;
    assert!(summary.is_clear());
    assert_eq!((summary.survey.pools, summary.survey.rows), (1, 1));
    assert!(took < 10, "{took} s");
    assert_eq!(rows(&server, POOL), ["2"]);
}

/// As whereabouts before 0.5 wrote it.
#[tokio::test(start_paused = true)]
async fn a_reservation_that_names_no_pod_is_no_fault_where_a_row_has_its_address() {
    let server = server();
    put_pool(&server, &[(2, "alive")]);
    run_pod(&server, "alive", 2);
    server.edit(ORIP, NS, "10.0.0.2", |it| {
        it["spec"] = json!({ "containerid": fixtures::sandbox(2) });
    });
    let short = Duration::from_secs(20);
    let (with_row, _) = run(&server, Config::default(), short).await;
    assert!(with_row.unwrap().is_clear());
    // All pools are read once.
    let lists = server.requests().matching(&Match::list("ippools"));
    assert_eq!(lists.len(), 1);
    server.edit("ippools", NS, POOL, |pool| {
        pool["spec"]["allocations"] = json!({});
    });
    let (alone, _) = summed_up(&server, Config::default(), short).await;
    assert!(!alone.is_clear());
    says(&alone.to_string(), &["1 reservations cannot be read"]);
}

#[tokio::test(start_paused = true)]
async fn what_may_not_go_in_time_is_left_and_said() {
    let server = leaked();
    let (summary, took) = summed_up(&server, Config::default(), Duration::from_secs(20)).await;
    assert_eq!(rows(&server, POOL), ["1", "2"]);
    assert_eq!((summary.freed, summary.waiting), (0, 1));
    assert!(!summary.is_clear());
    assert!(summary.to_string().contains("1 pods have addresses"));
    assert!(took < 60, "{took} s");
}

#[rstest]
#[case::rows(leaked(), 1, "would free 1 addresses; nothing was written")]
#[case::a_reservation_alone(lone(), 0, "would free 1 reservations without an address")]
#[tokio::test(start_paused = true)]
async fn a_dry_run_says_what_would_go(
    #[case] server: Server,
    #[case] freed: u64,
    #[case] words: &str,
) {
    let config = Config::default().with(|it| it.dry_run = true);
    let before = (rows(&server, POOL), reservations(&server));
    let (summary, _) = summed_up(&server, config, Duration::from_hours(1)).await;
    assert_eq!((rows(&server, POOL), reservations(&server)), before);
    assert_eq!(summary.freed, freed);
    assert!(!summary.is_clear(), "something should go: {summary}");
    says(&summary.to_string(), &[words]);
}

/// A row that is in use, and a reservation without a row.
fn lone() -> Server {
    let server = running(&[(2, "alive")]);
    reserve(&server, "10.0.0.9", "gone");
    server
}

/// The server refuses to change the pool, though we may.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_removed_is_no_success() {
    let server = leaked();
    server.on(Match::patch("ippools")).fail(500);
    let (summary, _) = summed_up(&server, Config::default(), Duration::from_hours(1)).await;
    assert_eq!(rows(&server, POOL), ["1", "2"]);
    assert!(summary.failed > 0 && !summary.is_clear(), "{summary}");
}

#[tokio::test(start_paused = true)]
async fn while_another_copy_leads_nothing_is_freed() {
    let server = leaked();
    let elected = |name: &str| Config {
        instance: name.to_owned(),
        lease_namespace: Some(NS.to_owned()),
        ..seldom()
    };
    let mut other = launch(&server, elected("other"));
    assert!(other.ready().await);
    seconds(5).await;
    assert!(other.context.is_leader());
    let (summary, took) = run(&server, elected("once"), Duration::from_hours(1)).await;
    assert!(fails(&summary, "this run does not lead"), "{summary:?}");
    assert!(took < 60, "{took} s");
    assert_eq!(rows(&server, POOL), ["1", "2"]);
    // Two runs one after the other do not wait for each other's Lease.
    other.stop().await;
    for _ in 0..2 {
        let (summary, took) = run(&server, elected("once"), Duration::ZERO).await;
        summary.unwrap();
        assert!(took < 20, "{took} s");
    }
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_does_not_answer_ends_it() {
    let server = leaked();
    server.on(Match::list("ippools")).hang();
    let (summary, took) = run(&server, Config::default(), Duration::ZERO).await;
    assert!(fails(&summary, "no survey of all addresses"), "{summary:?}");
    assert!(took < 400, "{took} s");
}

#[tokio::test(start_paused = true)]
async fn a_signal_ends_it() {
    let server = leaked();
    let running = launch(&server, Config::default());
    let stop = sleep(Duration::from_secs(30));
    let summary = once(running.release(), Duration::from_hours(1), stop).await;
    assert_eq!(summary.unwrap().waiting, 1);
    assert_eq!(rows(&server, POOL), ["1", "2"]);
    // Before the survey there is nothing to sum up.
    let running = launch(&server, Config::default());
    let summary = once(running.release(), Duration::ZERO, async {}).await;
    assert!(
        fails(&summary, "it was ended before the survey"),
        "{summary:?}"
    );
}

/// A case that was not looked at yet is not done.
#[tokio::test(start_paused = true)]
async fn a_run_that_is_ended_in_its_first_turn_is_not_clear() {
    let server = leaked();
    let slow = Match::get("ippools");
    server.on(slow).delay(Duration::from_secs(4));
    let running = launch(&server, seldom());
    let context = running.context.clone();
    let stop = async move {
        let mut sweeps = context.sweeps.subscribe();
        sweeps.wait_for(|it| it.ended_at.is_some()).await.unwrap();
        seconds(1).await;
    };
    let wait = Duration::from_hours(1);
    let summary = once(running.release(), wait, stop).await.unwrap();
    assert_eq!(rows(&server, POOL), ["1", "2"]);
    assert!(!summary.is_clear(), "{summary}");
}

/// One row leaked, one is in use, and the pod of one is forced away after so many seconds.
fn late(after: u64) -> (Server, Beat) {
    let server = server();
    let beat = live_node(&server, "node-1");
    put_pool(&server, &[(1, "gone"), (2, "alive"), (3, "late")]);
    run_pod(&server, "alive", 2);
    run_pod(&server, "late", 3);
    let kubelet = Kubelet::new(&server);
    tokio::spawn(async move {
        seconds(after).await;
        kubelet.force_delete(NS, "late");
    });
    (server, beat)
}

/// After the wait marks are ended, and none is begun.
#[tokio::test(start_paused = true)]
async fn nothing_is_begun_after_the_wait() {
    let (server, _beat) = late(90);
    let (summary, _) = summed_up(&server, seldom(), Duration::from_secs(W + 30)).await;
    assert_eq!(summary.begun, 0, "{summary}");
    assert_eq!(rows(&server, POOL), ["2", "3"]);
    assert!(!summary.is_clear(), "{summary}");
}

/// People give the longest duration that there is where they mean for ever.
#[tokio::test(start_paused = true)]
async fn no_wait_is_too_long() {
    let longest = Duration::from_secs(i64::MAX.unsigned_abs());
    let (summary, _) = summed_up(&leaked(), Config::default(), longest).await;
    assert!(summary.is_clear());
    let waits: [fn(&mut Config, Duration); 7] = [
        |it, wait| it.policy.grace = wait,
        |it, wait| it.policy.del_budget = wait,
        |it, wait| it.policy.add_budget = wait,
        |it, wait| it.policy.leftover_grace = wait,
        |it, wait| it.policy.cooldown = wait,
        |it, wait| it.breaker.hold = wait,
        |it, wait| it.sweep_interval = wait,
    ];
    for set in waits {
        let config = Config::default().with(|it| set(it, longest));
        let (summary, _) = summed_up(&leaked(), config, Duration::ZERO).await;
        assert_eq!(summary.freed, 0);
    }
}

/// The server is too busy until the end of the wait: the row was not removed, so there is no mark to wait for or to tell of.
#[tokio::test(start_paused = true)]
async fn a_row_that_was_not_removed_leaves_no_mark() {
    let server = leaked();
    let patch = Match::patch("ippools");
    server.on(patch).answer(Failure::too_many_requests(60));
    let wait = Duration::from_secs(W + 30);
    let (summary, took) = summed_up(&server, seldom(), wait).await;
    assert_eq!(rows(&server, POOL), ["1", "2"]);
    assert_eq!((summary.waiting, summary.begun), (1, 0), "{summary}");
    assert!(took < wait.as_secs() + 70, "{took} s");
}

/// Something else was begun in time, and is waited for. The pod is there and does not use the address of its reservation.
#[tokio::test(start_paused = true)]
async fn no_reservation_alone_is_marked_after_the_wait() {
    let (server, _beat) = late(275);
    reserve(&server, "10.0.0.9", "alive");
    let (summary, _) = summed_up(&server, seldom(), Duration::from_secs(275 + W + 50)).await;
    assert_eq!(rows(&server, POOL), ["2"], "begun in time");
    assert_eq!((summary.waiting, summary.begun), (1, 0), "{summary}");
    assert_eq!(podref(&server, "10.0.0.9"), "default/alive");
}

//! A dry run takes every decision and changes nothing: the same scene with and without it.

use crate::prelude::*;

/// An hour after the start: row 1 of a pod that ended well, row 2 that leaked unseen, row 3 of a pod
/// whose node is silent, row 4 in use, and a reservation without a row. Then half an hour more.
async fn scene(dry_run: bool) -> (Bench, Beat) {
    let server = server();
    put_pool(&server, &[]);
    let beat = live_node(&server, "node-1");
    let other = live_node(&server, "node-2");
    let config = Config::default().with(|it| it.dry_run = dry_run);
    let mut running = launch(&server, config);
    assert!(running.ready().await);
    let bench = Bench { server, running };
    seconds(3_600).await;
    let pods = [(1, "good"), (2, "leaked"), (3, "silent"), (4, "alive")];
    put_pool(&bench, &pods);
    reserve(&bench, "10.0.0.9", "lost");
    run_on(&bench, "node-1", "good", 1);
    run_on(&bench, "node-2", "silent", 3);
    run_on(&bench, "node-1", "alive", 4);
    seconds(30).await;
    fall_silent(&bench, "node-2", other);
    bench.kubelet().force_delete(NS, "silent");
    bench.end(["good"]);
    seconds(1_800).await;
    (bench, beat)
}

#[tokio::test(start_paused = true)]
async fn dry_run_decides_and_writes_nothing() {
    let (log, _guard) = Log::start();
    let (bench, _beat) = scene(true).await;
    assert_eq!(bench.counted("rows_would_free"), 2);
    assert_eq!(bench.counted("rows_held"), 1);
    // Many sweeps later nothing is told or counted a second time.
    let sweeps = bench.counted("sweeps_ended");
    seconds(7_200).await;
    assert!(bench.counted("sweeps_ended") > sweeps + 10);
    assert_eq!(bench.counted("rows_would_free"), 2);
    for none in [
        "rows_freed",
        "reservations_freed",
        "patches_sent",
        "retries_exhausted",
        // Not even tried.
        "events_sent",
        "events_dropped",
    ] {
        assert_eq!(bench.counted(none), 0, "{none}");
    }

    let mut rows = log.lines("would free row");
    rows.sort_by_key(|line| line.find("key=\"1\"").is_none());
    let [good, leaked] = &rows[..] else {
        panic!("{rows:?}");
    };
    says(
        good,
        &[
            "pool=default/10.0.0.0-24",
            "key=\"1\"",
            "address=10.0.0.1",
            "podref=default/good",
            "grade=\"settled\"",
            "cause=\"deleted\"",
        ],
    );
    says(
        leaked,
        &[
            "key=\"2\"",
            "podref=default/leaked",
            "grade=\"unwitnessed\"",
        ],
    );
    let reserved = log.lines("would free reservation");
    let [lone] = &reserved[..] else {
        panic!("{reserved:?}");
    };
    says(lone, &["address=10.0.0.9", "podref=default/lost"]);
    assert!(log.lines("freed row").is_empty());

    // Since its very start.
    let written = bench
        .sent(Match::any())
        .filter(|r| !matches!(r.verb, Verb::Get | Verb::List | Verb::Watch));
    assert!(written.is_empty(), "{written}");
    assert!(bench.list("events").is_empty());
    assert_eq!(bench.rows(POOL), ["1", "2", "3", "4"]);
    let left = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.9"];
    assert_eq!(bench.reservations(), left);
}

#[tokio::test(start_paused = true)]
async fn the_same_scene_is_cleaned_up_without_it() {
    let (bench, _beat) = scene(false).await;
    assert_eq!(bench.rows(POOL), ["3", "4"]);
    assert_eq!(bench.reservations(), ["10.0.0.3", "10.0.0.4"]);
    assert_eq!(bench.counted("rows_freed"), 2);
    assert_eq!(bench.counted("rows_would_free"), 0);
    assert!(!bench.sent(Match::delete(ORIP)).is_empty());
    assert!(!bench.list("events").is_empty());
}

/// Another collector is at work beside a dry run. The address that it frees is given out again, and leaks again.
#[tokio::test(start_paused = true)]
async fn a_row_that_leaks_in_the_place_of_another_one_is_told_too() {
    let (log, _guard) = Log::start();
    let server = server();
    let _beat = live_node(&server, "node-1");
    put_pool(&server, &[(1, "first"), (2, "alive")]);
    run_pod(&server, "alive", 2);
    let config = Config::default().with(|it| it.dry_run = true);
    let bench = Bench::with(server, config).await;
    seconds(900).await;
    assert_eq!(log.lines("would free row").len(), 1);
    put_row(&bench, 1, "second", 0x77);
    seconds(900).await;
    let lines = log.lines("would free row");
    assert!(
        lines.len() == 2 && lines[1].contains("default/second"),
        "{lines:?}"
    );
    assert_eq!(bench.counted("rows_would_free"), 2);
}

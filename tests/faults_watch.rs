//! Events that the informers get late, twice, wrongly or not at all, and their consequences.

use crate::prelude::*;
use ipgc::run::Phase;

/// A collector that follows two running pods, each with a row and a reservation.
async fn two() -> Bench {
    followed(&[(1, "web-1"), (2, "web-2")], Config::default()).await
}

#[rstest]
#[case::clean(Cut::Clean)]
#[case::broken(Cut::Broken)]
#[tokio::test(start_paused = true)]
async fn a_cut_stream_is_taken_up_where_it_ended(#[case] how: Cut) {
    let bench = two().await;
    bench.cut(Match::watch("pods"), how);
    bench.on(Match::watch("pods")).times(2).fail(503);
    bench.end(["web-1"]);
    bench.rows_in(POOL, &["2"], ..5.0).await;
    seconds(1).await;
    assert_eq!(bench.told_as_freed(), ["10.0.0.1"]);
    assert!(bench.sent(Match::list("pods").namespace("")).is_empty());
}

/// A terminal state was seen before the gap. A name that may return may have done so within it, and have the address,
/// even if the row is as it was.
#[rstest]
#[case::no_return("ReplicaSet", false, 2)]
#[case::same_row("StatefulSet", false, 210)]
#[case::other_row("StatefulSet", true, 210)]
#[tokio::test(start_paused = true)]
async fn a_missed_deletion_is_found_by_the_relist(
    #[case] owner: &str,
    #[case] changed: bool,
    #[case] wait: u64,
) {
    let server = server();
    put_pool(&server, &[(1, "web-1")]);
    server.put(reporting("web-1", 1).owner(owner, "web").running());
    let bench = Bench::long_since(server, Config::default()).await;
    seconds(1).await;
    let lost = bench
        .on_events(Match::watch("pods"))
        .kind(ChangeKind::Deleted);
    let lost = lost.lose();
    if changed {
        // No sweep since: this may be its own new sandbox, or a successor's.
        adopt(&bench, POOL, "1");
    }
    bench.end(["web-1"]);
    // No bookmark yet, which would carry the watch beyond the loss.
    seconds(5).await;
    assert_eq!(lost.hits(), 1);
    assert_eq!(bench.rows(POOL), ["1"]);
    bench.compact();
    bench.cut_watches("pods");
    let cut = Instant::now();
    bench.wait_rows(POOL, &[]).await;
    let waited = cut.elapsed().as_secs();
    // No such row goes before a sweep that began after the list; one that ended just before the list
    // puts it off by ten seconds, and the row is looked at every five.
    assert!(waited >= wait && waited < wait + 20, "{waited}");
}

/// A successor lives, takes the row over and is killed, and its sandbox may still run. All that we
/// saw is the good end of its predecessor.
#[rstest]
#[tokio::test(start_paused = true)]
async fn an_incarnation_that_was_missed_counts_all_the_same(
    #[values("relist", "watch is down", "watch hangs")] how: &str,
) {
    let bench = followed(&[(1, "web-1")], Config::default()).await;
    bench.end(["web-1"]);
    sleep(Duration::from_millis(100)).await;
    let rule = bench.on(Match::watch("pods"));
    let rule = match how {
        "relist" => rule.times(4).fail(410),
        "watch hangs" => rule.hang(),
        _ => rule.fail(503),
    };
    bench.cut_watches("pods");
    bench.put(second("web-1", 1));
    adopt(&bench, POOL, "1");
    bench.kubelet().force_delete(NS, "web-1");
    let killed = Instant::now();
    seconds(205).await;
    assert_eq!(bench.rows(POOL), ["1"], "{}", bench.requests());
    rule.remove();
    bench.wait_rows(POOL, &[]).await;
    let waited = killed.elapsed().as_secs();
    assert!((210..450).contains(&waited), "{waited}");
}

/// No watch ever showed the pod: it was born while the watch was down, and was killed just before the list. Its row, or its
/// reservation alone, is known for longer than W, and its sandbox may still run.
#[rstest]
#[tokio::test(start_paused = true)]
async fn the_wait_for_a_pod_that_nobody_saw_begins_when_it_is_known_to_be_gone(
    #[values(true, false)] has_row: bool,
) {
    let bench = Bench::long_since(running(&[(1, "web-1")]), Config::default()).await;
    let down = bench.on(Match::watch("pods")).fail(503);
    bench.cut_watches("pods");
    run_pod(&bench, "web-2", 2);
    reserve(&bench, "10.0.0.2", "web-2");
    if has_row {
        put_row(&bench, 2, "web-2", 2);
    }
    let is_left = || bench.reservations().contains(&"10.0.0.2".to_owned());
    // Longer than W, and no list is read before five minutes are over.
    seconds(240).await;
    bench.compact();
    bench.kubelet().force_delete(NS, "web-2");
    let killed = Instant::now();
    down.remove();
    seconds(205).await;
    assert!(is_left(), "{}", bench.requests());
    assert_eq!(bench.rows(POOL).len(), 1 + usize::from(has_row));
    while is_left() && killed.elapsed() < Duration::from_secs(900) {
        seconds(5).await;
    }
    assert!(!is_left(), "{}", bench.requests());
    bench.wait_rows(POOL, &["1"]).await;
}

#[tokio::test(start_paused = true)]
async fn an_end_that_was_missed_altogether_is_not_settled() {
    let bench = two().await;
    bench.on(Match::watch("pods")).times(3).fail(410);
    bench.cut_watches("pods");
    seconds(0).await;
    bench.end(["web-1"]);
    bench.compact();
    // W: 120 s, 30 s of the pod, 60 s for its row.
    bench.rows_in(POOL, &["2"], 210.0..225.0).await;
}

/// A load balancer answers, and closes each stream.
#[tokio::test(start_paused = true)]
async fn watches_that_end_at_once_begin_once_a_second() {
    let bench = two().await;
    let kinds = ["pods", "nodes", NADS];
    let ends = kinds.map(|kind| {
        let begun = bench.on(Match::watch(kind));
        begun.after(move |server| async move { server.cut_watches(kind) })
    });
    for kind in kinds {
        bench.cut_watches(kind);
    }
    bench.clear_requests();
    seconds(60).await;
    for kind in kinds {
        let watches = bench.requests().matching(&Match::watch(kind)).len();
        assert!((50..=70).contains(&watches), "{kind}: {watches}");
        let lists = bench.requests().matching(&Match::list(kind)).len();
        assert!(lists <= 70, "{kind}: {lists}");
    }
    ends.iter().for_each(Rule::remove);
    seconds(2).await;
    bench.end(["web-1"]);
    bench.wait_rows(POOL, &["2"]).await;
}

/// Pods are listed every few minutes then. This one is no longer there, and its name never returns.
#[tokio::test(start_paused = true)]
async fn an_end_is_found_though_no_watch_can_begin() {
    let server = server();
    let _beat = live_node(&server, "node-1");
    put_pool(&server, &[(1, "web-1")]);
    let pod = reporting("web-1", 1).owner("ReplicaSet", "web");
    server.put(pod.running());
    let bench = Bench::long_since(server, Config::default()).await;
    let down = bench.on(Match::watch("pods")).fail(403);
    bench.cut_watches("pods");
    bench.end(["web-1"]);
    let not_ready = || bench.running.context.not_ready();
    seconds(290).await;
    assert_eq!(not_ready(), [""; 0]);
    goes_in(&bench, POOL, "1", W..=W + 120).await;
    assert_eq!(not_ready(), ["no complete list or no watch of pods"]);
    seconds(3_000).await;
    let lists = bench.sent(Match::list("pods").namespace(""));
    assert!((6..=12).contains(&lists.len()), "{lists}");
    assert_eq!(not_ready().len(), 1, "a list is no watch");
    down.remove();
    seconds(120).await;
    assert_eq!(not_ready(), [""; 0]);
}

/// All was listed once, and has to be listed anew.
#[rstest]
#[tokio::test(start_paused = true)]
async fn a_later_list_that_cannot_be_read_for_minutes_is_told(
    #[values("pods", "nodes")] resource: &'static str,
    #[values("hang", "deny", "500", "html")] fault: &str,
) {
    let bench = two().await;
    let lists = strike(bench.on(Match::list(resource).namespace("")), fault);
    bench.on(Match::watch(resource)).once().fail(410);
    bench.cut_watches(resource);
    let not_ready = || bench.running.context.not_ready();
    seconds(250).await;
    assert_eq!(not_ready(), [""; 0]);
    seconds(150).await;
    let said = format!("no complete list or no watch of {resource}");
    assert_eq!(not_ready(), [said]);
    lists.remove();
    seconds(120).await;
    assert_eq!(not_ready(), [""; 0]);
}

/// kube takes an event that it cannot read for a refusal without a reason, and goes on behind it.
#[tokio::test(start_paused = true)]
async fn after_an_event_that_cannot_be_read_all_is_listed_anew() {
    let bench = two().await;
    for odd in ["none".into(), Value::Null] {
        bench.edit("pods", NS, "web-1", |pod| {
            pod["metadata"]["ownerReferences"] = odd;
        });
    }
    seconds(2).await;
    assert_eq!(bench.sent(Match::list("pods").namespace("")).len(), 1);
    bench.end(["web-1"]);
    bench.wait_rows(POOL, &["2"]).await;
}

#[tokio::test(start_paused = true)]
async fn doubled_events_are_one_end() {
    let bench = two().await;
    bench.on_events(Match::watch("pods")).duplicate();
    bench.end(["web-1", "web-2"]);
    seconds(60).await;
    assert_eq!(bench.rows(POOL), Vec::<String>::new());
    assert_eq!(bench.counted("ends_seen"), 2);
    assert_eq!(bench.told_as_freed(), ["10.0.0.1", "10.0.0.2"]);
}

/// 1,200 pods are three pages. The second fails, so that the list begins again.
#[tokio::test(start_paused = true)]
async fn a_list_that_begins_again_ends_nobody() {
    let server = running(&[(1, "web-1")]);
    for n in 0..1_200 {
        server.put(asking(&format!("a-{n}")).running());
    }
    let further = Match::list("pods").further_pages();
    let rule = server
        .on(further)
        .skip(1)
        .times(3)
        .answer(Failure::expired("too old"));
    let bench = Bench::long_since(server, Config::default()).await;
    assert_eq!(rule.hits(), 3);
    seconds(600).await;
    assert_eq!(bench.counted("ends_seen"), 0);
    bench.relist();
    let again = bench.on(Match::list("pods").further_pages());
    let again = again.skip(1).times(2).fail(500);
    bench.end(["web-1"]);
    bench.wait_rows(POOL, &[]).await;
    assert_eq!(again.hits(), 2);
    assert_eq!(bench.counted("ends_seen"), 1);
}

/// Nothing is freed before every cache is complete, however long that takes.
#[rstest]
#[tokio::test(start_paused = true)]
async fn without_complete_caches_nothing_is_freed(
    #[values("pods", NADS, "nodes")] resource: &'static str,
    #[values("hang", "deny", "500", "html", "half")] fault: &str,
) {
    let server = running(&[(1, "web-1")]);
    let rule = strike(server.on(Match::list(resource).namespace("")), fault);
    let mut running = launch(&server, Config::default());
    seconds(120).await;
    server.delete("pods", NS, "web-1");
    seconds(900).await;
    assert_eq!(*running.context.phase.borrow(), Phase::Starting);
    let touched = server.requests().matching(&Match::resource("ippools"));
    assert!(touched.is_empty(), "{touched}");
    // Tried again and again, not in a hot loop.
    assert!((10..200).contains(&rule.hits()), "{}", rule.hits());
    rule.remove();
    assert!(running.ready().await);
}

/// A relist that is served from the past does not show the pod that lives.
#[tokio::test(start_paused = true)]
async fn a_stale_relist_frees_nothing_and_loses_no_later_end() {
    let bench = Bench::long_since(server(), Config::default()).await;
    put_pool(&bench, &[(1, "web-1")]);
    let past = bench.revision();
    run_pod(&bench, "web-1", 1);
    seconds(1).await;
    bench.on(Match::watch("pods")).times(1).fail(410);
    let stale = bench.on(Match::list("pods").namespace("")).once();
    stale.serve_stale(past);
    bench.cut_watches("pods");
    seconds(400).await;
    // The stale list shows its end.
    assert_eq!(bench.counted("ends_seen"), 1);
    assert_eq!(bench.rows(POOL), ["1"]);
    // It is there all the same, and ends now, by force.
    bench.kubelet().force_delete(NS, "web-1");
    bench.rows_in(POOL, &[], 210.0..).await;
}

/// Upstream's events go to the pod's namespace, which may be on its way out, or gone.
#[rstest]
#[case(403)]
#[case(404)]
#[case(500)]
#[tokio::test(start_paused = true)]
async fn events_that_nobody_takes_do_not_matter(#[case] code: u16) {
    let bench = two().await;
    let rule = bench.on(Match::create("events")).fail(code);
    bench.end(["web-1", "web-2"]);
    bench.wait_rows(POOL, &[]).await;
    seconds(60 + 120).await;
    // Of each pod one, and one on the pool: none is sent twice.
    assert_eq!(rule.hits(), 3);
    assert_eq!(bench.reservations(), Vec::<String>::new());
    assert_eq!(bench.counted("events_dropped"), rule.hits() as u64);
    assert_eq!(bench.counted("retries_exhausted"), 0);
    assert!(!bench.is_shut());
}

/// Events that hang hold nothing up.
#[tokio::test(start_paused = true)]
async fn events_that_hang_hold_nothing_up() {
    let bench = two().await;
    bench.on(Match::create("events")).hang();
    bench.end(["web-1", "web-2"]);
    bench.rows_in(POOL, &[], ..4.0).await;
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_into_the_queue_is_counted_and_swept_later() {
    let server = server();
    let names = put_crowd(&server, 9);
    let config = no_add(seldom()).with(|it| it.queue_capacity = 4);
    let bench = Bench::long_since(server, config).await;
    bench.end(names.iter().take(8).map(String::as_str));
    seconds(1).await;
    assert_eq!(bench.counted("ends_seen"), 8);
    assert!(bench.counted("queue_overflows") >= 4);
    seconds(60).await;
    assert_eq!(bench.rows(POOL), ["5", "6", "7", "8", "9"]);
    // The sweep that was asked for found no room either; the next one does.
    bench.relist();
    bench.wait_rows(POOL, &["9"]).await;
    // There is room again.
    let overflows = bench.counted("queue_overflows");
    bench.end(["web-9"]);
    seconds(60).await;
    assert_eq!(bench.rows(POOL), Vec::<String>::new());
    assert_eq!(bench.counted("queue_overflows"), overflows);
    assert_eq!(bench.told_as_freed().len(), 9);
}

/// Two incarnations of one name, both ended, and one row between them.
#[tokio::test(start_paused = true)]
async fn two_incarnations_of_one_name_free_one_row_once() {
    let bench = two().await;
    bench.end(["web-1"]);
    bench.put(second("web-1", 1));
    adopt(&bench, POOL, "1");
    sleep(Duration::from_millis(100)).await;
    bench.end(["web-1"]);
    // Nobody saw whether the first one began another sandbox.
    seconds(200).await;
    assert_eq!(bench.rows(POOL), ["1", "2"]);
    seconds(60).await;
    assert_eq!(bench.rows(POOL), ["2"]);
    assert_eq!(bench.counted("ends_seen"), 2);
    assert_eq!(bench.counted("rows_freed"), 1);
    assert_eq!(bench.told_as_freed(), ["10.0.0.1"]);
    assert_eq!(bench.sent(Match::patch("ippools")).len(), 1);
}

/// However often an end is told, its pool has one reader and one writer at a time.
#[tokio::test(start_paused = true)]
async fn no_two_requests_on_a_pool_overlap() {
    let bench = two().await;
    bench.on_events(Match::watch("pods")).duplicate();
    slow(&bench, Match::resource("ippools"), 3_000);
    bench.on(Match::patch("ippools")).times(2).fail(503);
    for round in 0..5 {
        bench.end(["web-1"]);
        let uid = format!("00000000-0000-4000-8000-00000000000{round}");
        bench.put(reporting("web-1", 1).uid(&uid).running());
        bench.cut_watches("pods");
        seconds(1).await;
    }
    bench.end(["web-1", "web-2"]);
    bench.wait_rows(POOL, &[]).await;
    let requests = bench.sent(Match::verbs(&[Verb::Get, Verb::Patch], "ippools"));
    let spans: Vec<_> = requests.iter().map(|r| (r.at, r.answered_at)).collect();
    assert!(spans.len() >= 4);
    // The last one may still be under way, no other.
    let in_turn = |pair: &[(Instant, Option<Instant>)]| pair[0].1.is_some_and(|at| pair[1].0 >= at);
    assert!(spans.windows(2).all(in_turn), "{requests}");
}

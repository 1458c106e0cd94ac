//! The events that ipgc writes to the cluster, and their number.

use crate::prelude::*;

const POOL: &str = "10.9.0.0-16";

/// This number of running pods, each with a row of one pool.
async fn crowd(count: u64) -> (Bench, Vec<String>) {
    let server = Server::new();
    let names: Vec<_> = (1..=count)
        .map(|n| format!("pod-with-a-rather-long-name-{n}"))
        .collect();
    put_many(&server, 9, "wide", "ReplicaSet", &names);
    (Bench::long_since(server, seldom()).await, names)
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_one_event_on_the_pool_and_one_on_each_pod() {
    let (bench, names) = crowd(40).await;
    bench.end(&names);
    bench.wait_rows(POOL, &[]).await;
    seconds(10).await;
    assert_eq!(bench.sent(Match::patch("ippools")).len(), 1);
    let of_pool = bench.events("IPPool");
    assert_eq!(of_pool.len(), 1, "{of_pool:?}");
    let note = of_pool[0]
        .strip_prefix("Normal IPAddressGarbageCollected ")
        .unwrap();
    assert!(note.starts_with("freed 40 addresses: "), "{note}");
    assert!(note.len() <= 1_024 && note.ends_with('…'), "{note}");
    assert_eq!(bench.events("Pod").len(), 40);
}

/// Never read, never changed, and by the API that has notes of its own.
#[tokio::test(start_paused = true)]
async fn events_are_created_and_nothing_else() {
    let (bench, names) = crowd(3).await;
    bench.end(&names);
    bench.wait_rows(POOL, &[]).await;
    seconds(600).await;
    let all = bench
        .requests()
        .filter(|request| request.resource == "events");
    let created = bench.sent(Match::create("events.events.k8s.io"));
    assert!(all.len() >= 4, "{all}");
    assert_eq!(created.len(), all.len(), "{all}");
    assert!(all.iter().all(|request| request.verb == Verb::Create));
}

/// 100 at once, 20 a second; the rest is counted, and nobody waits for it.
#[tokio::test(start_paused = true)]
async fn of_a_mass_the_first_events_are_sent_and_the_others_counted() {
    let (bench, names) = crowd(500).await;
    let begun = Instant::now();
    bench.end(&names);
    bench.wait_rows(POOL, &[]).await;
    let most = 100 + 20 * (begun.elapsed().as_secs() + 1);
    seconds(60).await;
    let sent = bench.counted("events_sent");
    let dropped = bench.counted("events_dropped");
    let batches = bench.sent(Match::patch("ippools")).len() as u64;
    assert_eq!(sent + dropped, 500 + batches);
    assert!((100..=most).contains(&sent), "{sent} of {most}");
    assert!(most < 250, "{most}");
    assert_eq!(bench.sent(Match::create("events")).len() as u64, sent);
}

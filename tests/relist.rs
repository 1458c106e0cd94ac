//! While a list of pods is read, events that were missed before it are not known yet.

use crate::prelude::*;

/// Other pods, enough for a list of two pages.
fn put_others(server: &Server) {
    let others = (0..600).map(|n| fixtures::pod(NS, &format!("other-{n}")).node("n").running());
    server.put_all(others.map(fixtures::PodBuilder::build));
}

/// A pod ends well. Before its row may go the watch is lost, and unseen, a successor is born, takes the
/// row over and is killed by force. The relist takes
/// 25 s.
async fn successor_in_a_gap() -> Bench {
    let server = running(&[(1, "web-0")]);
    put_others(&server);
    let bench = Bench::long_since(server, Config::default()).await;
    let second_page = bench.on(Match::list("pods")).skip(1).once();
    second_page.delay(Duration::from_secs(25));
    bench.end(["web-0"]);
    seconds(1).await;
    bench.relist();
    bench.put(second("web-0", 1));
    adopt(&bench, POOL, "1");
    bench.kubelet().force_delete(NS, "web-0");
    bench
}

#[tokio::test(start_paused = true)]
async fn nothing_goes_whose_name_may_return_while_a_list_is_read() {
    let bench = successor_in_a_gap().await;
    let waited = goes_after(&bench, POOL, "1", 600).await;
    let lists = bench.sent(Match::list("pods").namespace(""));
    assert!(lists.len() >= 2, "{lists}");
    assert!(waited >= 25 + 200, "freed after {waited} s");
}

/// Two nodes at work, and `web-0` on the first one.
fn two_nodes() -> (Server, Beat, Beat) {
    let server = running(&[(1, "web-0")]);
    let beats = ["node-1", "node-2"].map(|node| live_node(&server, node));
    let [first, second] = beats;
    (server, first, second)
}

/// The sandbox that a sweep sees meanwhile may be the successor's, which runs on a silent node.
#[tokio::test(start_paused = true)]
async fn a_sweep_while_a_list_is_read_notes_no_sandbox() {
    let (server, _beat, beat) = two_nodes();
    put_neighbour(&server, POOL);
    put_others(&server);
    let config = Config::default().with(|it| it.sweep_interval = Duration::from_secs(10));
    let bench = Bench::long_since(server, config).await;
    let second_page = bench.on(Match::list("pods")).skip(1).once();
    second_page.delay(Duration::from_secs(25));
    bench.relist();
    bench.end(["web-0"]);
    let successor = reporting("web-0", 1).uid(SECOND).node("node-2");
    bench.put(successor.running());
    adopt(&bench, POOL, "1");
    fall_silent(&bench, "node-2", beat);
    bench.kubelet().force_delete(NS, "web-0");
    stays(&bench, POOL, &["1"]).await;
}

/// Its predecessors are over and done with before the watch is lost, and before a node falls silent.
#[tokio::test(start_paused = true)]
async fn a_relist_raises_no_doubt_again_that_was_over() {
    let (server, _beat, beat) = two_nodes();
    let bench = Bench::long_since(server, Config::default()).await;
    bench.relist();
    seconds(60).await;
    fall_silent(&bench, "node-2", beat);
    bench.end(["web-0"]);
    goes_in(&bench, POOL, "1", 0..=10).await;
}

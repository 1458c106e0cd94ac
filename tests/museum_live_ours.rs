//! The museum, first room, second wall (docs/museum.md): addresses of pods that live, in
//! situations that were found by trying and by thinking. Each with a neighbour whose row goes
//! meanwhile, so that nothing passes by doing nothing.

use crate::prelude::*;
use ipgc_core::judge::Word;

/// A collector that runs, `node-1` at work, `web-0` born there with row 1, and the neighbour.
async fn room() -> (Bench, Beat) {
    let server = with_neighbour(&[]);
    let beat = live_node(&server, "node-1");
    let bench = Bench::start(server).await;
    run_on(&bench, "node-1", "web-0", 1);
    put_row(&bench, 1, "web-0", 1);
    seconds(600).await;
    (bench, beat)
}

#[tokio::test(start_paused = true)]
async fn m1_22_deleted_while_its_sandbox_was_being_set_up() {
    let (bench, _beat) = room().await;
    let pod = asking("young");
    bench.put(pod.status(fixtures::starting_status()));
    seconds(2).await;
    bench.kubelet().begin_delete(NS, "young");
    bench.kubelet().complete_pod(NS, "young", "Failed");
    // ADD is still at it, and its row comes before the pod is gone.
    put_row(&bench, 5, "young", 5);
    bench.kubelet().remove_pod(NS, "young");
    // Another one ran, and its sandbox was being set up anew: all containers are terminated, as
    // after a good end.
    run_on(&bench, "node-1", "again", 6);
    put_row(&bench, 6, "again", 6);
    seconds(10).await;
    bench.edit("pods", NS, "again", |pod| {
        pod["status"] = fixtures::ended_status("Running");
    });
    seconds(2).await;
    bench.end(["again"]);
    seconds(W - 2).await;
    for key in ["5", "6"] {
        assert!(bench.rows(POOL).contains(&key.to_owned()), "row {key}");
    }
    neighbour_goes(&bench, POOL).await;
    // At last its node had time for a DEL.
    seconds(900).await;
    assert_eq!(bench.rows(POOL), ["1"]);
}

#[tokio::test(start_paused = true)]
async fn m1_24_good_end_of_a_successor() {
    let (bench, beat) = room().await;
    fall_silent(&bench, "node-1", beat);
    bench.kubelet().force_delete(NS, "web-0");
    let _other = live_node(&bench, "node-2");
    let successor = reporting("web-0", 2).uid(SECOND).node("node-2");
    bench.put(successor.running());
    put_row(&bench, 2, "web-0", 2);
    seconds(60).await;
    bench.end(["web-0"]);
    // Which of the two had which row, the rows do not say.
    stays(&bench, POOL, &["1", "2"]).await;
    let _beat = come_back(&bench, "node-1");
    bench.wait_rows(POOL, &[]).await;
}

#[tokio::test(start_paused = true)]
async fn m1_27_held_evidence_expires() {
    let (bench, beat) = room().await;
    fall_silent(&bench, "node-1", beat);
    bench.kubelet().force_delete(NS, "web-0");
    // Many sweeps, and far longer than any evidence is kept that nobody needs.
    seconds(4 * 3_600).await;
    stays(&bench, POOL, &["1"]).await;
    let report = bench.running.context.sweeps.borrow().clone();
    assert_eq!(report.words[Word::Unfenced as usize], 1);
    let _beat = come_back(&bench, "node-1");
    goes_in(&bench, POOL, "1", W..=W + 120).await;
}

#[tokio::test(start_paused = true)]
async fn m1_28_born_and_killed_in_a_watch_gap() {
    let (bench, _beat) = room().await;
    let other = live_node(&bench, "node-2");
    seconds(600).await;
    let gap = bench.gap().await;
    bench.end(["web-0"]);
    let unseen = reporting("web-0", 1).uid(SECOND).node("node-2");
    bench.put(unseen.running());
    adopt(&bench, POOL, "1");
    bench.kubelet().force_delete(NS, "web-0");
    fall_silent(&bench, "node-2", other);
    bench.compact();
    gap.remove();
    stays(&bench, POOL, &["1"]).await;
    let _beat = come_back(&bench, "node-2");
    goes_in(&bench, POOL, "1", W..=W + 120).await;
}

#[tokio::test(start_paused = true)]
async fn m1_29_rejected_after_a_kubelet_restart() {
    let (bench, _beat) = room().await;
    bench.edit("pods", NS, "web-0", |pod| {
        pod["status"] = serde_json::json!({ "phase": "Failed", "reason": "NodeAffinity" });
    });
    stays(&bench, POOL, &["1"]).await;
    bench.kubelet().remove_pod(NS, "web-0");
    goes_in(&bench, POOL, "1", W..=W + 120).await;
}

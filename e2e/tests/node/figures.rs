//! How long an address stays taken when DEL is lost: with ipgc, and with upstream's loop in its place.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use e2e::{Result, control_plane::ADMIN, upstream::Upstream, wait};
use kube::{ResourceExt as _, api::ListParams};

use crate::{
    stage::Stage,
    support::{LOST_DEL, PATIENCE, Scene},
    wanted::Wanted,
};

/// How many pods lose their DEL.
const PODS: usize = 50;

/// Upstream takes most of a second per address, and gives up on some; its cron is for these.
const UPSTREAM: Duration = Duration::from_secs(240);

/// Fifty pods lose their DEL, twice: time from the end of each pod's object to the end of its row.
pub async fn time_to_free_beside_upstream(stage: Arc<Stage>) -> Result<()> {
    let scene = Scene::new(&stage, "figures").await?;
    let ours = measure(&scene, "10.131.0.0/24", "ipgc", PATIENCE).await?;
    assert_eq!(ours, PODS, "ipgc left rows behind");
    assert_eq!(scene.freed().await?.len(), PODS, "DEL was not lost");
    // Reservations follow their rows, and have to be gone before ipgc is.
    scene.ends_clean(PATIENCE).await?;
    let kubectl = |count: &'static str| {
        let words = ["scale", "--namespace=ipgc-system", "deployment/ipgc", count];
        stage.cluster.kubectl(words)
    };
    kubectl("--replicas=0").await?;
    let none = || async { Ok(stage.tier.ipgc_pods().await?.len()) };
    wait::until_state("ipgc to be gone", PATIENCE, none, |pods| *pods == 0).await?;
    let mut loops = Vec::new();
    for node in stage.tier.nodes() {
        let plane = stage.tier.plane();
        loops.push(Upstream::control_loop(ADMIN, plane, &stage.pools, node.name()).await?);
    }
    let upstream = Scene::new(&stage, "figures").await?;
    let freed = measure(&upstream, "10.132.0.0/24", "upstream's loop", UPSTREAM).await?;
    println!("     upstream's loop freed {freed} of {PODS} rows");
    drop(loops);
    kubectl("--replicas=2").await?;
    stage.tier.ipgc_ready().await?;
    // Rows that upstream left are freed after ipgc's first sweep and the wait W.
    upstream
        .ends_clean(Duration::from_secs(400) + PATIENCE)
        .await?;
    scene.ends_clean(PATIENCE).await
}

/// Starts the pods, loses their DELs, and prints the times. Returns how many rows went in time.
async fn measure(scene: &Scene, range: &str, who: &str, patience: Duration) -> Result<usize> {
    let network = scene.network_apart("net-a", range).await?;
    scene
        .replicas(&Wanted::pod("web", &["net-a"]), PODS)
        .await?;
    network.lose()?;
    scene.scale(0).await?;
    let began = Instant::now();
    let deadline = LOST_DEL * 2 + PATIENCE + patience;
    // By name of the pod: when its object was last seen, and then its row.
    let mut pod_gone: BTreeMap<String, Instant> = BTreeMap::new();
    let mut row_gone: BTreeMap<String, Instant> = BTreeMap::new();
    loop {
        let pods = scene
            .namespace
            .pods()
            .list_metadata(&ListParams::default())
            .await?;
        let now = Instant::now();
        for pod in &pods {
            pod_gone.insert(pod.name_any(), now);
        }
        let rows = scene.rows().await?;
        let now = Instant::now();
        for (_, row) in &rows {
            let name = row.podref.rsplit('/').next().unwrap_or_default();
            row_gone.insert(name.to_owned(), now);
        }
        if pods.items.is_empty() && rows.is_empty() || began.elapsed() > deadline {
            let mut times: Vec<Duration> = row_gone
                .iter()
                .filter(|(_, at)| **at < now)
                .map(|(name, at)| at.saturating_duration_since(pod_gone[name]))
                .collect();
            times.sort();
            let at = |percent: usize| {
                let index = (times.len() * percent).div_ceil(100).saturating_sub(1);
                times.get(index).copied().unwrap_or_default().as_secs_f64()
            };
            println!(
                "     figure: {who}, {PODS} lost DELs: from the pod's end to the freed row p50 {:.1} s, p99 {:.1} s",
                at(50),
                at(99)
            );
            return Ok(times.len());
        }
        tokio::time::sleep(wait::POLL).await;
    }
}

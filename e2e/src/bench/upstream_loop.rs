//! Upstream's ip-control-loop on one pool of one node, measured once for all scenes of a run.

use std::time::Duration;

use tokio::sync::OnceCell;

use super::{Bench, load::Kubelet, measure::Meter, population::Population, stage::Stage, watch};
use crate::{Result, upstream::Upstream};

/// It needs about a second for each address; this is for a machine that is twice as slow.
const PATIENCE: Duration = Duration::from_secs(300);

/// What it took.
#[derive(Clone, Copy, Debug)]
pub struct Took {
    /// Rows, each with its reservation.
    pub addresses: usize,
    /// From the last pod gone until the last row was gone.
    pub rows: Duration,
    /// Until the last reservation was gone as well.
    pub reservations: Duration,
    /// Its memory at the most.
    pub peak: u64,
    /// Requests to the API server, watches and events apart.
    pub requests: usize,
}

/// The measurement, when somebody has asked for it.
#[derive(Default)]
pub struct UpstreamLoop(OnceCell<Took>);

impl UpstreamLoop {
    /// Measures it, the first time.
    pub async fn get(&self, bench: &Bench) -> Result<Took> {
        self.0.get_or_try_init(|| measure(bench)).await.copied()
    }
}

async fn measure(bench: &Bench) -> Result<Took> {
    let addresses = bench.size(100);
    bench.say(
        "upstream",
        format!("its loop on {addresses} pods of one pool"),
    );
    let stage = bench.stage().await?;
    let population = stage.population(addresses);
    stage.seeder.everything(&population).await?;
    let node = Population::node(0);
    let upstream = Upstream::control_loop(&stage.plane, &stage.namespace, &node).await?;

    let (client, namespace) = (stage.client("bench").await?, &population.namespace);
    let mut rows = watch::rows_left(&client, namespace, 1, 0).await?;
    let mut reservations = watch::reservations_left(&client, namespace, addresses, 0).await?;
    let mark = stage.plane.audit().mark()?;
    let kubelet = Kubelet::new(stage.client("kubelet").await?);
    let gone = kubelet.end_all(&population, 0..addresses, 16).await?;
    let took = Took {
        addresses,
        rows: rows.within(PATIENCE).await? - gone,
        reservations: reservations.within(PATIENCE).await? - gone,
        peak: Meter::of(upstream.process()).peak()?,
        requests: requests(&stage, mark)?,
    };
    upstream.still_up()?;
    drop(upstream);
    stage.stop().await?;
    Ok(took)
}

fn requests(stage: &Stage, mark: crate::audit::Mark) -> Result<usize> {
    let mut requests = stage.plane.audit().since(mark)?;
    requests.retain(|request| {
        let its = request.user_agent.starts_with("ip-control-loop/");
        its && request.verb != "watch" && request.resource != "events"
    });
    Ok(requests.len())
}

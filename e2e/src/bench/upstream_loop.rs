//! Upstream's ip-control-loop on one pool of one node, measured once for all scenes of a run.

use std::time::Duration;

use ipgc::api::{IpPool, Reservation};

use super::{Bench, load::Kubelet, measure::Meter, population::Population, watch};
use crate::{Result, control_plane::ADMIN, upstream::Upstream};

/// It needs about a second for each address; this is for a machine that is twice as slow.
const PATIENCE: Duration = Duration::from_secs(300);

/// The cost of upstream's loop.
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

/// Its cost on this machine, measured when a scene first asks.
pub async fn took(bench: &Bench) -> Result<Took> {
    let measured = bench.upstream.get_or_try_init(|| measure(bench));
    measured.await.copied()
}

async fn measure(bench: &Bench) -> Result<Took> {
    let addresses = bench.size(100);
    let what = format!("its loop on {addresses} pods of one pool");
    bench.say("upstream", what);
    let stage = bench.stage().await?;
    let population = stage.population(addresses);
    stage.seeder.everything(&population).await?;
    let node = Population::node(0);
    let upstream = Upstream::control_loop(ADMIN, &stage.plane, &stage.namespace, &node).await?;

    let (client, namespace) = (stage.client("bench").await?, &population.namespace);
    let rows = watch::emptied::<IpPool>(&client, namespace, 1).await?;
    let reservations = watch::emptied::<Reservation>(&client, namespace, addresses).await?;
    let mark = stage.plane.audit().mark()?;
    let kubelet = Kubelet::new(stage.client("kubelet").await?);
    let gone = kubelet.end_all(&population, 0..addresses, 16).await?;
    let rows = rows.within(PATIENCE).await? - gone;
    let reservations = reservations.within(PATIENCE).await? - gone;
    let mut requests = stage.plane.audit().since(mark)?;
    requests.retain(|request| {
        let its = request.user_agent.starts_with("ip-control-loop/");
        its && request.verb != "watch" && request.resource != "events"
    });
    let took = Took {
        addresses,
        rows,
        reservations,
        peak: Meter::of(upstream.process()).peak()?,
        requests: requests.len(),
    };
    upstream.still_up()?;
    drop(upstream);
    stage.stop().await?;
    Ok(took)
}

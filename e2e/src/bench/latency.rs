//! A quiet cluster in which now and then one pod ends: how long after it its row is gone.
//!
//! Both moments are read from watches of the bench's own, so the delay of a watch cancels out.

use std::{
    collections::BTreeMap,
    pin::pin,
    time::{Duration, Instant},
};

use futures::{TryStreamExt as _, stream};
use ipgc::api::IpPool;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use tokio::sync::oneshot;

use super::{
    Bench,
    load::Kubelet,
    population::Population,
    raw,
    table::{Amount, Line, float},
    watch::{self, Change},
};
use crate::{Error, Result};

pub const NAME: &str = "latency";

/// The least that can be set.
const COOLDOWN: Duration = Duration::from_secs(1);

/// The two watches of the bench may be so far apart.
const SKEW: Duration = Duration::from_millis(50);

/// Rows of each pool: a range of 254 that is full.
const ROWS: usize = 254;

/// Pools; two ends in one pool are seconds apart.
const POOLS: usize = 20;

/// From one end to the next: neither the cooldown nor [`TERMINATION`] is a multiple, so that no free meets the end
/// of another pod.
const EVERY: Duration = Duration::from_millis(230);

/// How long the kubelet takes from the terminal phase to the deletion.
const TERMINATION: Duration = Duration::from_millis(500);

/// How often a kubelet renews its Lease.
const BEAT: Duration = Duration::from_secs(10);

/// Until the last row is gone.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs it.
pub async fn run(bench: &Bench) -> Result<Vec<Line>> {
    let tries = bench.size(1_000);
    let stage = bench.stage().await?;
    let population = Population {
        pools: POOLS,
        reservations: false,
        ..stage.population(POOLS * ROWS)
    };
    bench.say(NAME, format!("seeding {} pods", population.pods));
    stage.seeder.everything(&population).await?;
    let _beats = stage.beats(population.nodes, BEAT).await?;
    let cooldown = format!("--cooldown={}s", COOLDOWN.as_secs());
    let collector = stage.started(&[&cooldown]).await?;
    let (told, seen) = oneshot::channel();
    let client = stage.client("bench").await?;
    let watching = tokio::spawn(delays(client, population.clone(), tries, told));
    tokio::time::timeout(PATIENCE, seen).await??;
    bench.say(NAME, format!("{tries} pods end, one each {EVERY:?}"));
    let kubelet = Kubelet::new(stage.client("kubelet").await?);
    let ends = kubelet.end_evenly(&population, 0..tries, EVERY, TERMINATION);
    ends.await?;
    let watched = collector.within(PATIENCE, "free all rows", watching);
    let mut delays = watched.await???;
    collector.stop().await?;
    stage.stop().await?;

    let early = COOLDOWN.saturating_sub(SKEW);
    let early = delays.iter().filter(|delay| **delay < early).count();
    for delay in &mut delays {
        *delay = delay.saturating_sub(COOLDOWN);
    }
    delays.sort_unstable();
    let line = |what: &str, part| Line::new(NAME, what, Amount::time(at(&delays, part)));
    Ok(vec![
        line("DELETED to row gone, less the cooldown of 1 s: p50", 0.5).at_most(0.050),
        line("p99", 0.99).at_most(0.150),
        line("most", 1.0),
        line("least", 0.0),
        Line::new(NAME, "before the cooldown was over", Amount::count(early))
            .at_most(0.0)
            .counted(),
    ])
}

/// The delay that this part of them does not exceed.
fn at(sorted: &[Duration], part: f64) -> Duration {
    let last = float(sorted.len().saturating_sub(1) as u64);
    // A position in the list: neither negative nor too large.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let place = (last * part).round() as usize;
    sorted.get(place).copied().unwrap_or_default()
}

/// From each pod's DELETED to the removal of its row.
async fn delays(
    client: Client,
    population: Population,
    tries: usize,
    begun: oneshot::Sender<()>,
) -> Result<Vec<Duration>> {
    let home = &population.namespace;
    let pods = watch::changes(&client, &raw::all::<Pod>(home), raw::METADATA).await?;
    let pools = watch::changes(&client, &raw::all::<IpPool>(home), raw::JSON).await?;
    let mut all = pin!(stream::select(pods, pools));

    // Which pod has which row, as it was seeded.
    let mut pods_by_row = BTreeMap::new();
    for row in (0..population.pools).flat_map(|pool| population.rows_of(pool)) {
        let key = (population.pool(row.pool), row.offset.to_string());
        pods_by_row.insert(key, population.pod(row.pod));
    }
    let mut rows = BTreeMap::<String, watch::Rows>::new();
    let mut there = 0_usize;
    let mut gone = BTreeMap::<String, Instant>::new();
    let mut delays = Vec::with_capacity(tries);
    let mut begun = Some(begun);
    while delays.len() < tries {
        let Some((at, change)) = all.try_next().await? else {
            return Err(Error::Other("the server ended a watch".into()));
        };
        match change {
            Change::Gone(pod) => {
                gone.insert(pod, at);
            }
            Change::Is(_, None) => there += 1,
            Change::Is(pool, Some(now)) => {
                let before = rows.remove(&pool).unwrap_or_default();
                for row in before.into_iter().filter(|row| !now.contains(row)) {
                    let pod = pods_by_row.get(&(pool.clone(), row));
                    let ended = pod.and_then(|pod| gone.get(pod));
                    // A row that goes before its pod is seen to go is what must never be; it counts as a
                    // delay of nothing, and the least shows it.
                    let delay = ended.map(|ended| at.saturating_duration_since(*ended));
                    delays.push(delay.unwrap_or_default());
                }
                rows.insert(pool, now);
            }
        }
        if there >= population.pods
            && rows.len() == population.pools
            && let Some(begun) = begun.take()
        {
            // Nobody may wait any more.
            begun.send(()).ok();
        }
    }
    Ok(delays)
}

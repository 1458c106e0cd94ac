//! A quiet cluster in which now and then one pod ends: how long after it its row is gone.
//!
//! Both moments are read from watches of the bench's own, so the delay of a watch cancels out. What the
//! server itself needs is measured first: the patch that a free ends with, and with it the two reads that
//! ipgc sends while the row still waits, by a client that does nothing else.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    time::{Duration, Instant},
};

use futures::{StreamExt as _, TryStreamExt as _};
use ipgc::api::IpPool;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use serde_json::json;

use super::{
    Bench,
    load::Kubelet,
    population::Population,
    raw,
    seed::{BEAT, Heartbeats},
    stage::Stage,
    table::{Amount, Line, float},
    template,
    watch::{self, Change, Named, Pool},
};
use crate::{Error, Result};

pub const NAME: &str = "latency";

/// The least that can be set.
const COOLDOWN: Duration = Duration::from_secs(1);

/// The two watches of the bench may be so far apart.
const SKEW: Duration = Duration::from_millis(50);

/// Rows of each pool: a range of 254 that is full.
pub const ROWS: usize = 254;

/// Pools; two ends in one pool are seconds apart.
pub const POOLS: usize = 20;

/// From one end to the next: neither the cooldown nor [`TERMINATION`] is a multiple, so that no free meets the end
/// of another pod.
const EVERY: Duration = Duration::from_millis(230);

/// How long the kubelet takes from the terminal phase to the deletion.
const TERMINATION: Duration = Duration::from_millis(500);

/// So often the bare requests are sent.
const BARE: usize = 200;

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
    let bare = bare(&stage, bench.size(BARE), tries).await?;
    let _beats = Heartbeats::start(stage.client("kubelet").await?, population.nodes, BEAT);
    let cooldown = format!("--cooldown={}s", COOLDOWN.as_secs());
    let collector = stage.started(&[&cooldown]).await?;
    let (told, seen) = tokio::sync::oneshot::channel();
    let client = stage.client("bench").await?;
    let watching = tokio::spawn(delays(client, population.clone(), tries, told));
    let begun = tokio::time::timeout(PATIENCE, seen).await;
    begun
        .map_err(Error::malformed("the bench's watches"))?
        .map_err(Error::malformed("the bench's watches"))?;
    bench.say(NAME, format!("{tries} pods end, one each {EVERY:?}"));
    let kubelet = Kubelet::new(stage.client("kubelet").await?);
    kubelet
        .end_evenly(&population, 0..tries, EVERY, TERMINATION)
        .await?;
    let watched = async {
        let watched = watching.await;
        watched.map_err(|error| Error::Unsupported(error.to_string()))?
    };
    let mut delays = collector.within(PATIENCE, "free all rows", watched).await?;
    collector.stop().await?;
    stage.stop().await?;

    let early = COOLDOWN.saturating_sub(SKEW);
    let early = delays.iter().filter(|delay| **delay < early).count();
    for delay in &mut delays {
        *delay = delay.saturating_sub(COOLDOWN);
    }
    delays.sort_unstable();
    let line = |what: &str, part| {
        let line = Line::new(NAME, what, Amount::time(at(&delays, part)));
        line.against("bare PATCH", Amount::time(at(&bare.patch, part)))
    };
    let all = |what: &str, part| Line::new(NAME, what, Amount::time(at(&bare.all, part)));
    Ok(vec![
        line("DELETED to row gone, less the cooldown of 1 s: p50", 0.5).at_most(0.050),
        line("p99", 0.99).at_most(0.150),
        line("most", 1.0),
        line("least", 0.0),
        Line::new(NAME, "before the cooldown was over", Amount::count(early))
            .at_most(0.0)
            .counted(),
        all("bare GET, GET, PATCH: p50", 0.5),
        all("bare GET, GET, PATCH: p99", 0.99),
    ])
}

/// How long the server takes for what a free cannot do without, from the shortest to the longest.
#[derive(Default)]
struct Bare {
    /// One row is removed.
    patch: Vec<Duration>,
    /// The same, and before it the rows are read and the pod is proven absent.
    all: Vec<Duration>,
}

/// The delay that this part of them does not exceed.
fn at(sorted: &[Duration], part: f64) -> Duration {
    let last = float(sorted.len().saturating_sub(1) as u64);
    // A position in the list: neither negative nor too large.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let place = (last * part).round() as usize;
    sorted.get(place).copied().unwrap_or_default()
}

async fn bare(stage: &Stage, tries: usize, of_ipgc: usize) -> Result<Bare> {
    let home = stage.cluster.namespace("bare").await?;
    let population = Population {
        pools: POOLS,
        reservations: false,
        ..stage.population_in(&home, POOLS * ROWS)
    };
    stage.seeder.pools(&population, Population::rows_of).await?;
    let client = stage.client("bench-loop").await?;
    let namespace = &population.namespace;
    // The first patch of a pool has managed fields to remove. Of all tries it is to be as large a part as of ipgc's.
    for pool in POOLS * tries / of_ipgc..POOLS {
        let path = raw::one::<IpPool>(namespace, &population.pool(pool));
        raw::patch_for_metadata(&client, &path, &json!([raw::forget_managers()])).await?;
    }
    let mut delays = Bare::default();
    let rows = |pool| population.rows_of(pool).take(tries.div_ceil(POOLS));
    for row in (0..POOLS).flat_map(rows).take(tries) {
        tokio::time::sleep(EVERY / 2).await;
        let pool = population.pool(row.pool);
        let pool = raw::one::<IpPool>(namespace, &pool);
        let pod = population.pod(row.pod);
        let pod = raw::one::<Pod>(namespace, &pod);
        let path = format!("/spec/allocations/{}", row.offset);
        let removal = json!([
            {"op": "test", "path": path, "value": template::row(&population, row)},
            {"op": "remove", "path": path},
            raw::forget_managers(),
        ]);
        let begun = Instant::now();
        raw::get(&client, &pool).await?;
        match raw::get(&client, &pod).await {
            Err(error) if error.api_code() == Some(404) => {}
            _ => return Err(Error::Unsupported("a pod that nobody made exists".into())),
        }
        let reads = begun.elapsed();
        raw::patch_for_metadata(&client, &pool, &removal).await?;
        let all = begun.elapsed();
        delays.all.push(all);
        delays.patch.push(all.saturating_sub(reads));
    }
    for pool in 0..POOLS {
        let pool = population.pool(pool);
        let path = raw::one::<IpPool>(namespace, &pool);
        // Its rows have no pods, and would be held as orphans.
        raw::delete(&client, &path).await?;
    }
    delays.all.sort_unstable();
    delays.patch.sort_unstable();
    Ok(delays)
}

/// From each pod's DELETED to the removal of its row.
async fn delays(
    client: Client,
    population: Population,
    tries: usize,
    begun: tokio::sync::oneshot::Sender<()>,
) -> Result<Vec<Duration>> {
    let home = &population.namespace;
    let pods = raw::all::<Pod>(home);
    let pools = raw::all::<IpPool>(home);
    let pods = watch::changes::<Named>(&client, &pods, true).await?;
    let pools = watch::changes::<Pool>(&client, &pools, false).await?;
    let pods = pods.map_ok(|(at, change)| (at, Seen::Pod(change)));
    let pools = pools.map_ok(|(at, change)| (at, Seen::Pool(change)));
    let mut all = pin!(futures::stream::select(pods, pools));

    // Who has which row, as it was seeded.
    let mut pods_by_row = BTreeMap::new();
    for row in (0..population.pools).flat_map(|pool| population.rows_of(pool)) {
        let key = (population.pool(row.pool), row.offset.to_string());
        pods_by_row.insert(key, population.pod(row.pod));
    }
    let mut rows = BTreeMap::<String, BTreeSet<Box<str>>>::new();
    let mut there = 0_usize;
    let mut gone = BTreeMap::<String, Instant>::new();
    let mut delays = Vec::with_capacity(tries);
    let mut begun = Some(begun);
    while delays.len() < tries {
        let Some(seen) = all.next().await else {
            return Err(Error::Unsupported("the server ended a watch".into()));
        };
        match seen? {
            (_, Seen::Pod(Change::Is(_))) => there += 1,
            (at, Seen::Pod(Change::Gone(pod))) => {
                gone.insert(pod.metadata.name, at);
            }
            (at, Seen::Pool(Change::Is(pool))) => {
                let (name, now) = (pool.metadata.name, pool.spec.allocations);
                let before = rows.insert(name.clone(), now.clone());
                for row in before.iter().flatten().filter(|row| !now.contains(*row)) {
                    let pod = pods_by_row.get(&(name.clone(), row.to_string()));
                    let ended = pod.and_then(|pod| gone.get(pod));
                    // A row that goes before its pod is seen to go is what must never be; it counts as a
                    // delay of nothing, and the least shows it.
                    let delay = ended.map(|ended| at.saturating_duration_since(*ended));
                    delays.push(delay.unwrap_or_default());
                }
            }
            (_, Seen::Pool(Change::Gone(_))) => {}
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

enum Seen {
    Pod(Change<Named>),
    Pool(Change<Pool>),
}

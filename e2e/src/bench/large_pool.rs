//! One pool of ten thousand rows whose pods end one after the other for a minute: each write of such a pool
//! costs the API server as much whatever it changes, so the writer has to collect.
//!
//! The API server's CPU for one patch is measured first, without ipgc: an equal pool is emptied some hundreds of rows at
//! a time, with the operations of ipgc's patches, and before and after that by single rows. As with ipgc the pool becomes
//! smaller meanwhile, and patches with it: what counts is their mean.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use ipgc::api::IpPool;
use serde_json::json;

use super::{
    Bench,
    load::Kubelet,
    population::Population,
    raw,
    seed::{BEAT, Heartbeats},
    stage::Stage,
    table::{Amount, Line, Unit, float},
    watch,
};
use crate::{Error, Namespace, Result};

pub const NAME: &str = "one-large-pool";

/// Rows to a patch: ipgc's have some hundreds here.
const BATCH: usize = 400;

/// How long the kubelet takes from the terminal phase to the deletion.
const LEAD: Duration = Duration::from_millis(500);

/// Until the last row is gone. With the goals met it takes seconds.
const PATIENCE: Duration = Duration::from_secs(300);

/// How long the API server is watched doing nothing for anybody.
const IDLE: Duration = Duration::from_secs(2);

/// CPU of the API server for one patch.
struct Price {
    /// It removes one row: the mean of those on the full pool and on the nearly empty one.
    single: Duration,
    /// It removes [`BATCH`] rows and tests each, as ipgc's: the mean of those that empty the pool.
    batch: Duration,
}

/// Runs it.
pub async fn run(bench: &Bench) -> Result<Vec<Line>> {
    let rows = bench.size(10_000);
    bench.say(NAME, format!("seeding a pool of {rows} rows"));
    let stage = bench.stage().await?;
    let priced = stage.cluster.namespace("price").await?;
    let price = price(&stage, &priced, rows, bench.size(200)).await?;

    let population = population(&stage, &stage.namespace, rows);
    stage.seeder.everything(&population).await?;
    let _beats = Heartbeats::start(stage.client("kubelet").await?, population.nodes, BEAT);
    let collector = stage.started(&[]).await?;
    let client = stage.client("bench").await?;
    let empty = watch::emptied::<IpPool>(&client, &population.namespace, 1).await?;
    let kubelet = Kubelet::new(stage.client("kubelet").await?);
    let meter = collector.meter();
    let mark = stage.plane.audit().mark()?;
    let (cpu, begun) = (meter.cpu()?, Instant::now());
    bench.say(NAME, "pods end");
    let all = Duration::from_secs(if bench.short { 6 } else { 60 });
    let every = all / u32::try_from(rows).unwrap_or(u32::MAX);
    let gone = kubelet
        .end_evenly(&population, 0..rows, every, LEAD)
        .await?;
    bench.say(NAME, format!("all are gone, after {:.1?}", gone - begun));
    let freed = collector.freed(empty, PATIENCE).await?;
    let ours = collector.requests(mark)?;
    let cpu = meter.cpu()?.saturating_sub(cpu);
    collector.stop().await?;
    stage.stop().await?;
    bench.say(NAME, format!("ipgc asked: {}", ours.summary()));

    let line = |what: &str, ours| Line::new(NAME, what, ours);
    let sent = ours.count("patch", "ippools");
    let all = |each: Duration, count: usize| each.mul_f64(float(count as u64));
    let patches = all(price.batch, sent);
    let part = patches.as_secs_f64() / (freed - begun).as_secs_f64();
    let lag = freed.saturating_duration_since(gone);
    let each = line("patches per freed row", Amount::each(sent, rows)).counted();
    Ok(vec![
        line("patches of the pool", Amount::count(sent)),
        line("API server's CPU for the patches", Amount::cpu(patches))
            .against("one patch a row", Amount::cpu(all(price.single, rows)))
            .ratio_at_most(0.01),
        line(
            "the same, as part of a core",
            Amount::new(part, Unit::Cores),
        )
        .at_most(0.25),
        line(
            "last row gone, from the last pod gone; cooldown 2 s",
            Amount::time(lag),
        )
        .at_most(7.0),
        line("API server's CPU for one of them", Amount::cpu(price.batch))
            .against("a patch of one row", Amount::cpu(price.single)),
        line("pods gone, from the first end", Amount::time(gone - begun)),
        line("ipgc's CPU", Amount::cpu(cpu)),
        // How many fit into the time depends on the machine; that they are few does not.
        if bench.short { each.at_most(0.1) } else { each },
    ])
}

fn population(stage: &Stage, namespace: &Namespace, rows: usize) -> Population {
    Population {
        reservations: false,
        ..stage.population_in(namespace, rows)
    }
}

/// Empties a pool of this size.
async fn price(stage: &Stage, home: &Namespace, rows: usize, singles: usize) -> Result<Price> {
    let population = population(stage, home, rows);
    stage.seeder.pools(&population, Population::rows_of).await?;
    let client = &stage.client("bench-loop").await?;
    let server = stage.api_server();
    let (cpu, begun) = (server.cpu()?, Instant::now());
    tokio::time::sleep(IDLE).await;
    let used = server.cpu()?.saturating_sub(cpu);
    let idle = used.as_secs_f64() / begun.elapsed().as_secs_f64();
    let path = raw::one::<IpPool>(&population.namespace, population.pool(0));
    let pool = raw::read(client, &path).await?;
    let uid = json!({"op": "test", "path": "/metadata/uid", "value": pool["metadata"]["uid"]});
    let all: Vec<_> = population.rows_of(0).collect();
    // The server's CPU for one patch of so many rows, less what it does by itself.
    let cost = async |rows: Range<usize>, each: usize| {
        let (cpu, begun) = (server.cpu()?, Instant::now());
        let count = rows.len() / each;
        for rows in all[rows].chunks_exact(each) {
            let mut removal = population.removal(rows.iter().copied());
            if let Some(changes) = removal.as_array_mut() {
                changes.insert(0, uid.clone());
            }
            raw::patch_for_metadata(client, &path, &removal).await?;
        }
        let used = server.cpu()?.saturating_sub(cpu);
        let own = used.saturating_sub(begun.elapsed().mul_f64(idle));
        Ok::<_, Error>(own.div_f64(float(count as u64)))
    };
    let half = singles / 2;
    let rest = half + (rows - singles) / BATCH * BATCH;
    let of_full = cost(0..half, 1).await?;
    let batch = cost(half..rest, BATCH).await?;
    let of_nearly_empty = cost(rest..rest + half, 1).await?;
    // Its rows have no pods, and would be held as orphans.
    raw::delete(client, &path).await?;
    let single = (of_full + of_nearly_empty) / 2;
    Ok(Price { single, batch })
}

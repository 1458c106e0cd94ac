//! One pool of ten thousand rows whose pods end one after the other for a minute: each write of such a pool
//! costs the API server as much whatever it changes, so the writer has to collect.
//!
//! What one patch costs the server is measured first, without ipgc: an equal pool is emptied some hundreds of rows at a
//! time, with the operations of ipgc's patches, and before and after that by single rows. As with ipgc the pool becomes
//! smaller meanwhile, and patches with it: what counts is their mean. The whole is measured twice, without ipgc and with it; the difference is all that ipgc makes the server do.

use std::{
    collections::BTreeMap,
    ops::Range,
    time::{Duration, Instant},
};

use ipgc::api::IpPool;
use serde_json::json;

use super::{
    Bench,
    load::Kubelet,
    population::Population,
    price::Prices,
    raw,
    requests::Ours,
    seed::{BEAT, Heartbeats},
    stage::Stage,
    table::{Amount, Line, Unit, float},
    template, watch,
};
use crate::{Namespace, Result};

pub const NAME: &str = "one-large-pool";

/// ipgc's default wait after an end that proves the sandbox stopped.
const COOLDOWN: Duration = Duration::from_secs(2);

/// Rows to a patch: ipgc's have some hundreds here.
const BATCH: usize = 400;

/// How long the kubelet takes from the terminal phase to the deletion.
const LEAD: Duration = Duration::from_millis(500);

/// Until the last row is gone. With the goals met it takes seconds.
const PATIENCE: Duration = Duration::from_secs(300);

/// All pods end, with and without ipgc.
struct Run {
    /// From the first end to the last row gone, or to the last pod gone.
    time: Duration,
    server_cpu: Duration,
}

/// What ipgc did in its run.
struct Seen {
    run: Run,
    ours: Ours,
    cpu: Duration,
    /// From the first end to the last pod gone.
    gone: Duration,
    /// From the last pod gone to the last row gone.
    lag: Duration,
}

/// CPU of the API server for one request.
struct Price {
    /// A patch that removes one row: the mean of those on the full pool and on the nearly empty one.
    patch: Duration,
    /// A patch like ipgc's, that removes [`BATCH`] rows and tests each: the mean of those that empty the pool.
    batch: Duration,
    /// A read of the full pool.
    get: Duration,
}

/// Runs it.
pub async fn run(bench: &Bench) -> Result<Vec<Line>> {
    let rows = bench.size(10_000);
    bench.say(NAME, format!("seeding a pool of {rows} rows"));
    let stage = bench.stage().await?;
    let priced = stage.cluster.namespace("price").await?;
    let patches = bench.size(200);
    let price = price(&stage, &priced, rows, patches).await?;
    bench.say(
        NAME,
        format!(
            "a patch of one row costs the server {:.1?} of CPU, one of {BATCH} rows {:.1?}, a GET {:.1?}",
            price.patch, price.batch, price.get
        ),
    );
    let without = if bench.short {
        None
    } else {
        let alone = stage.cluster.namespace("alone").await?;
        Some(without_ipgc(bench, &stage, &alone, rows).await?)
    };
    let seen = with_ipgc(bench, &stage, rows).await?;
    stage.stop().await?;
    bench.say(NAME, format!("ipgc asked: {}", seen.ours.summary()));

    let line = |what: &str, ours| Line::new(NAME, what, ours);
    let sent = seen.ours.count("patch", "ippools");
    let reads = seen.ours.count("get", "ippools") + seen.ours.count("list", "ippools");
    let all = |each: Duration, count: usize| each.mul_f64(float(count as u64));
    let patches_cpu = all(price.batch, sent);
    let pool_cpu = patches_cpu + all(price.get, reads);
    let seconds = seen.run.time.as_secs_f64();
    let cores = |cpu: Duration| Amount::new(cpu.as_secs_f64() / seconds, Unit::Cores);
    let mut lines = vec![
        line("patches of the pool", Amount::count(sent)),
        line("API server's CPU for the patches", Amount::cpu(patches_cpu))
            .against("one patch a row", Amount::cpu(all(price.patch, rows)))
            .ratio_at_most(0.01),
        line("the same, as part of a core", cores(patches_cpu)).at_most(0.25),
        line("with ipgc's reads of the pool", cores(pool_cpu)),
        line(
            "last row gone, from the last pod gone; cooldown 2 s",
            Amount::time(seen.lag),
        )
        .at_most((COOLDOWN + Duration::from_secs(5)).as_secs_f64()),
        line("API server's CPU for one of them", Amount::cpu(price.batch))
            .against("a patch of one row", Amount::cpu(price.patch)),
        line("pods gone, from the first end", Amount::time(seen.gone)),
        line("ipgc's CPU", Amount::cpu(seen.cpu)),
    ];
    let patches = line("patches per freed row", Amount::each(sent, rows));
    // How many fit into the time depends on the machine; that they are few does not.
    lines.push(if bench.short {
        patches.at_most(0.1).counted()
    } else {
        patches.counted()
    });
    if let Some(without) = without {
        let more = seen.run.server_cpu.saturating_sub(without.server_cpu);
        lines.push(line("all that ipgc makes the API server do", cores(more)));
    }
    Ok(lines)
}

fn population(stage: &Stage, namespace: &Namespace, rows: usize) -> Population {
    Population {
        reservations: false,
        ..stage.population_in(namespace, rows)
    }
}

/// Reads a pool of this size, and empties it.
async fn price(stage: &Stage, home: &Namespace, rows: usize, patches: usize) -> Result<Price> {
    let population = population(stage, home, rows);
    stage.seeder.pools(&population, Population::rows_of).await?;
    let stored: BTreeMap<_, _> = population
        .rows_of(0)
        .map(|row| (row.offset, template::row(&population, row)))
        .collect();
    let client = &stage.client("bench-loop").await?;
    let prices = Prices::of(stage.api_server()).await?;
    let path = raw::one::<IpPool>(&population.namespace, population.pool(0));
    let pool = raw::parse("the pool", &raw::get(client, &path).await?)?;
    let uid = &pool["metadata"]["uid"];
    let remove = async |rows: Range<usize>| {
        let changes = rows.flat_map(|offset| {
            let path = format!("/spec/allocations/{offset}");
            let test = json!({"op": "test", "path": path, "value": stored[&offset]});
            [test, json!({"op": "remove", "path": path})]
        });
        let uid = json!({"op": "test", "path": "/metadata/uid", "value": uid});
        let changes = [uid].into_iter().chain(changes);
        let changes = changes.chain([raw::forget_managers()]);
        raw::patch_for_metadata(client, &path, &changes.collect()).await
    };
    let read = prices
        .each(patches, async || {
            for _ in 0..patches {
                raw::get(client, &path).await?;
            }
            Ok(())
        })
        .await?;
    let half = patches / 2;
    let single = async |from: usize| {
        let removals = prices.each(half, async || {
            for offset in from..from + half {
                remove(offset..offset + 1).await?;
            }
            Ok(())
        });
        removals.await
    };
    let of_full = single(1).await?;
    let batches = (rows - patches) / BATCH;
    let removal_of_many = prices
        .each(batches, async || {
            for number in 0..batches {
                let first = 1 + half + number * BATCH;
                remove(first..first + BATCH).await?;
            }
            Ok(())
        })
        .await?;
    let of_nearly_empty = single(1 + half + batches * BATCH).await?;
    // Its rows have no pods, and would be held as orphans.
    raw::delete(client, &path).await?;
    Ok(Price {
        patch: (of_full + of_nearly_empty) / 2,
        batch: removal_of_many,
        get: read,
    })
}

fn pace(bench: &Bench, rows: usize) -> Duration {
    Duration::from_secs(60).mul_f64(if bench.short { 0.1 } else { 1.0 })
        / u32::try_from(rows).unwrap_or(u32::MAX)
}

/// The same ends without anybody who frees.
async fn without_ipgc(bench: &Bench, stage: &Stage, home: &Namespace, rows: usize) -> Result<Run> {
    let population = population(stage, home, rows);
    stage.seeder.nodes(population.nodes).await?;
    stage.seeder.pods(&population).await?;
    bench.say(NAME, "pods end without ipgc");
    let _beats = Heartbeats::start(stage.client("kubelet").await?, population.nodes, BEAT);
    let kubelet = Kubelet::new(stage.client("kubelet").await?);
    let server = stage.api_server();
    let (cpu, begun) = (server.cpu()?, Instant::now());
    kubelet
        .end_evenly(&population, 0..rows, pace(bench, rows), LEAD)
        .await?;
    Ok(Run {
        time: begun.elapsed(),
        server_cpu: server.cpu()?.saturating_sub(cpu),
    })
}

async fn with_ipgc(bench: &Bench, stage: &Stage, rows: usize) -> Result<Seen> {
    let population = population(stage, &stage.namespace, rows);
    stage.seeder.everything(&population).await?;
    let _beats = Heartbeats::start(stage.client("kubelet").await?, population.nodes, BEAT);
    let collector = stage.started(&[]).await?;
    let (client, home) = (stage.client("bench").await?, &population.namespace);
    let kubelet = Kubelet::new(stage.client("kubelet").await?);
    let mut empty = watch::rows_left(&client, home, 1, 0).await?;
    let (meter, server) = (collector.meter(), stage.api_server());
    let mark = stage.plane.audit().mark()?;
    let (cpu, server_cpu, begun) = (meter.cpu()?, server.cpu()?, Instant::now());
    bench.say(NAME, "pods end with ipgc");
    let gone = kubelet
        .end_evenly(&population, 0..rows, pace(bench, rows), LEAD)
        .await?;
    bench.say(NAME, format!("all are gone, after {:.1?}", gone - begun));
    let what = "free all rows";
    let freed = collector.within(PATIENCE, what, empty.done()).await?;
    let run = Run {
        time: freed - begun,
        server_cpu: server.cpu()?.saturating_sub(server_cpu),
    };
    let seen = Seen {
        run,
        ours: collector.requests(mark)?,
        cpu: meter.cpu()?.saturating_sub(cpu),
        gone: gone - begun,
        lag: freed.saturating_duration_since(gone),
    };
    collector.stop().await?;
    Ok(seen)
}

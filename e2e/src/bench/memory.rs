//! How much memory a large cluster takes, and what the first list costs; and the same of a small one.
//! It is scraped once, as Prometheus would.
//!
//! The peak is the kernel's high-water mark, set back between the phases: the first list, a relist (the API
//! server is restarted, and its watch cache knows no version from before), a sweep.

use std::time::Duration;

use super::{
    Bench,
    measure::Meter,
    population::Population,
    requests::Ours,
    stage::{Collector, Stage},
    table::{Amount, Line},
};
use crate::{
    Result,
    audit::{Mark, Request},
    wait,
};

pub const NAME: &str = "memory";

/// Until nothing happens any more in a process that has nothing to do.
const SETTLE: Duration = Duration::from_secs(5);

/// The restarted server decodes all pods before it lists them.
const RELIST: Duration = Duration::from_secs(180);

/// CPU time and memory, phase by phase.
struct Seen {
    list_cpu: Duration,
    list_peak: u64,
    settled: u64,
}

/// Runs it.
pub async fn run(bench: &Bench) -> Result<Vec<Line>> {
    let stage = bench.stage().await?;
    let few = bench.size(1_000);
    let idle = Population {
        interfaces: 2,
        pools: 10,
        reservations: false,
        ..stage.population(few)
    };
    bench.say(NAME, format!("seeding {few} pods"));
    stage.seeder.everything(&idle).await?;
    let collector = stage.start(&[])?;
    let small = first_list(&collector).await?;
    let small_peak = small.list_peak.max(collector.meter().peak()?);
    collector.stop().await?;
    let many = bench.size(100_000);
    let namespace = stage.cluster.namespace("many").await?;
    let population = Population {
        // With those that are there already.
        pods: many - few,
        nodes: bench.size(1_000),
        interfaces: 2,
        pools: 20,
        reservations: false,
        ..stage.population_in(&namespace, many)
    };
    bench.say(NAME, format!("seeding {many} pods"));
    stage.seeder.everything(&population).await?;
    let collector = stage.start(&[])?;
    let large = first_list(&collector).await?;
    let first_sweep = collector.meter().peak()?;
    let (relist, sweep) = relist(bench, &stage, &collector).await?;
    let settled = settled(&collector.meter()).await?;
    collector.stop().await?;
    stage.stop().await?;

    let most = |pods: usize, what: &str, bytes, most| {
        let line = Line::new(NAME, format!("{pods} pods: {what}"), Amount::bytes(bytes));
        line.at_most(most * 1e6)
    };
    let cpu = format!("{many} pods: CPU of the first list");
    Ok(vec![
        most(few, "settled", small.settled, 16.0),
        most(few, "peak", small_peak, 24.0),
        most(many, "settled", large.settled, 64.0),
        most(many, "peak of the first list", large.list_peak, 96.0),
        most(many, "peak of the first sweep", first_sweep, 96.0),
        most(many, "peak of a relist", relist, 96.0),
        most(many, "peak of a sweep", sweep, 96.0),
        most(many, "settled again", settled, 64.0),
        Line::new(NAME, cpu, Amount::cpu(large.list_cpu)).at_most(10.0),
    ])
}

/// From the start to the end of the first sweep, and a scrape after it.
async fn first_list(collector: &Collector) -> Result<Seen> {
    let meter = collector.meter();
    collector.ready().await?;
    let (list_cpu, list_peak) = (meter.cpu()?, meter.peak()?);
    meter.reset_peak()?;
    collector.swept(1).await?;
    // The memory that a scrape takes stays in use.
    collector.scrape().await?;
    Ok(Seen {
        list_cpu,
        list_peak,
        settled: settled(&meter).await?,
    })
}

/// The bytes in memory when nothing happens.
pub async fn settled(meter: &Meter) -> Result<u64> {
    tokio::time::sleep(SETTLE).await;
    meter.resident()
}

/// The peaks of a relist and of the sweep that follows it.
async fn relist(bench: &Bench, stage: &Stage, collector: &Collector) -> Result<(u64, u64)> {
    let meter = collector.meter();
    bench.say(NAME, "the API server restarts");
    let sweeps = collector.sweeps()?;
    meter.reset_peak()?;
    let mark = stage.plane.audit().mark()?;
    stage.plane.restart_api_server().await?;
    let relisted = || async { watched_again(stage, mark) };
    let what = "ipgc to list all pods again";
    wait::until_state(what, RELIST, relisted, |(lists, watches)| {
        *lists > 0 && *watches
    })
    .await?;
    let relist = meter.peak()?;
    meter.reset_peak()?;
    collector.swept(sweeps + 1).await?;
    Ok((relist, meter.peak()?))
}

/// How many pages of pods ipgc has listed since a mark, and whether it watches them after the last.
fn watched_again(stage: &Stage, mark: Mark) -> Result<(usize, bool)> {
    let mut requests = stage.plane.audit().since(mark)?;
    // A list of one pod follows each watch: it asks whether the data went back in time.
    let is_look = |request: &Request| request.verb == "list" && !request.uri.contains("limit=500");
    requests.retain(|request| {
        Ours::is_ours(request) && request.resource == "pods" && !is_look(request)
    });
    let of = |verb| requests.iter().filter(move |request| request.verb == verb);
    let last_of = |verb| {
        let answered = of(verb).filter(|request| request.code == 200);
        answered.map(|request| &request.received).max()
    };
    Ok((of("list").count(), last_of("watch") > last_of("list")))
}

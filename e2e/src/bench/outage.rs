//! ipgc starts while all nodes are silent, and many pods are gone that it never saw: what it costs to hold their rows.
//!
//! Nobody renews a Lease here, so each of those rows waits for each node.

use std::time::Duration;

use super::{
    Bench,
    population::Population,
    stage::Stage,
    table::{Amount, Line},
};
use crate::Result;

pub const NAME: &str = "outage";

/// After it W of two rows is over, and all that waits for nodes was looked at again.
const SILENT: Duration = Duration::from_secs(330);

/// So long is measured.
const WATCHED: Duration = Duration::from_secs(120);

/// Runs it.
pub async fn run(bench: &Bench) -> Result<Vec<Line>> {
    let stage = bench.stage_alone().await?;
    let (pods, gone) = (bench.size(30_000), bench.size(20_000));
    let population = Population {
        nodes: bench.size(1_000),
        interfaces: 2,
        pools: 20,
        reservations: false,
        ..stage.population(pods)
    };
    seed(bench, &stage, &population, gone).await?;
    let collector = stage.start(&[])?;
    let meter = collector.meter();
    collector.ready().await?;
    let ready = meter.resident()?;
    tokio::time::sleep(SILENT).await;
    let (cpu, mark) = (meter.cpu()?, stage.plane.audit().mark()?);
    tokio::time::sleep(WATCHED).await;
    let busy = meter.cpu()?.saturating_sub(cpu);
    let requests = collector.requests(mark)?;
    bench.say(NAME, requests.summary());
    let (resident, peak) = (meter.resident()?, meter.peak()?);
    collector.stop().await?;
    stage.stop().await?;
    let minutes = u32::try_from(WATCHED.as_secs() / 60).unwrap_or(1);
    let line = |what: &str, ours| Line::new(NAME, what, ours);
    let nodes = population.nodes;
    Ok(vec![
        line(
            &format!(
                "{gone} of {pods} pods are gone, {nodes} silent nodes hold their rows: memory when ready"
            ),
            Amount::bytes(ready),
        ),
        line("memory while they are held", Amount::bytes(resident)),
        line("peak", Amount::bytes(peak)),
        line("CPU of a minute", Amount::cpu(busy / minutes)),
        line(
            "reads of 20 pools in two minutes",
            Amount::count(requests.count("get", "ippools")),
        ),
    ])
}

async fn seed(bench: &Bench, stage: &Stage, population: &Population, gone: usize) -> Result<()> {
    let Population { pods, nodes, .. } = population;
    bench.say(
        NAME,
        format!("seeding {pods} pods on {nodes} nodes, of which {gone} are gone"),
    );
    let seeder = &stage.seeder;
    seeder.attachments(population).await?;
    seeder.nodes(*nodes).await?;
    seeder.pools(population, Population::rows_of).await?;
    let living = Population {
        pods: pods - gone,
        ..population.clone()
    };
    seeder.pods(&living).await
}

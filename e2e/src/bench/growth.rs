//! How the costs grow: with pods, with rows and with pools, three sizes each.

use std::time::Duration;

use super::{
    Bench, memory,
    plot::Panel,
    population::Population,
    stage::Stage,
    table::{Amount, Line, float},
};
use crate::Result;

pub const NAME: &str = "growth";

/// Sizes: pods, interfaces of each of [`FIXED`] pods, and pools.
const PODS: [usize; 3] = [10_000, 30_000, 100_000];
const INTERFACES: [usize; 3] = [1, 3, 10];
const POOLS: [usize; 3] = [10, 100, 1_000];

/// Pods and pools, where they do not grow. CPU time is counted in hundredths of a second, so a sweep has to
/// take some of them.
const FIXED: usize = 30_000;
const FIXED_POOLS: usize = 100;

/// Sweeps often enough that the second comes soon.
const INTERVAL: &str = "--sweep-interval=11s";

/// What one size costs.
struct Cost {
    list_cpu: Duration,
    settled: u64,
    sweep_cpu: Duration,
}

/// Runs it.
pub async fn run(bench: &Bench) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    let pods = pods(bench, &mut lines).await?;
    let mut rows = Vec::new();
    for interfaces in INTERFACES {
        let population = |stage: &Stage| Population {
            interfaces,
            pools: FIXED_POOLS,
            reservations: false,
            ..stage.population(bench.size(FIXED))
        };
        let count = bench.size(FIXED) * interfaces;
        let cost = alone(bench, &format!("{count} rows"), population, &mut lines).await?;
        rows.push((float(count as u64), cost.sweep_cpu.as_secs_f64()));
    }
    let mut pools = Vec::new();
    for count in POOLS {
        let population = |stage: &Stage| Population {
            pools: count,
            reservations: false,
            ..stage.population(bench.size(FIXED))
        };
        let cost = alone(bench, &format!("{count} pools"), population, &mut lines).await?;
        pools.push((float(count as u64), cost.sweep_cpu.as_secs_f64()));
    }
    let of = |cost: fn(&Cost) -> f64| pods.iter().map(|(count, of)| (*count, cost(of))).collect();
    bench.plot(vec![
        Panel {
            title: "Memory, settled",
            x: "pods",
            y: "MB",
            points: of(|cost| float(cost.settled) / 1e6),
        },
        Panel {
            title: "First list",
            x: "pods",
            y: "CPU seconds",
            points: of(|cost| cost.list_cpu.as_secs_f64()),
        },
        Panel {
            title: "Sweep, 100 pools",
            x: "rows",
            y: "CPU seconds",
            points: rows,
        },
        Panel {
            title: "Sweep, 30,000 rows",
            x: "pools",
            y: "CPU seconds",
            points: pools,
        },
    ]);
    Ok(lines)
}

/// Pods only: their pools are empty.
async fn pods(bench: &Bench, lines: &mut Vec<Line>) -> Result<Vec<(f64, Cost)>> {
    let stage = bench.stage_alone().await?;
    let sizes = PODS.map(|pods| bench.size(pods));
    let population = Population {
        nodes: bench.size(1_000),
        pools: 10,
        reservations: false,
        ..stage.population(sizes[2])
    };
    let seeder = &stage.seeder;
    seeder.attachments(&population).await?;
    seeder.nodes(population.nodes).await?;
    let none = |population: &Population, pool| population.rows_of(pool).take(0);
    seeder.pools(&population, none).await?;
    let mut costs = Vec::new();
    for pods in sizes {
        // The smaller ones are written anew.
        let population = Population {
            pods,
            ..population.clone()
        };
        bench.say(NAME, format!("{pods} pods"));
        seeder.pods(&population).await?;
        let cost = cost(&stage).await?;
        tell(&format!("{pods} pods"), &cost, lines);
        costs.push((float(pods as u64), cost));
    }
    stage.stop().await?;
    Ok(costs)
}

/// One size on servers of its own.
async fn alone(
    bench: &Bench,
    what: &str,
    population: impl FnOnce(&Stage) -> Population,
    lines: &mut Vec<Line>,
) -> Result<Cost> {
    bench.say(NAME, what);
    let stage = bench.stage_alone().await?;
    let population = population(&stage);
    stage.seeder.everything(&population).await?;
    let cost = cost(&stage).await?;
    stage.stop().await?;
    tell(what, &cost, lines);
    Ok(cost)
}

async fn cost(stage: &Stage) -> Result<Cost> {
    let collector = stage.start(&[INTERVAL])?;
    let meter = collector.meter();
    collector.ready().await?;
    let list_cpu = meter.cpu()?;
    collector.swept(1).await?;
    let settled = memory::settled(&meter).await?;
    let cpu = meter.cpu()?;
    collector.swept(2).await?;
    let sweep_cpu = meter.cpu()?.saturating_sub(cpu);
    collector.stop().await?;
    Ok(Cost {
        list_cpu,
        settled,
        sweep_cpu,
    })
}

fn tell(what: &str, cost: &Cost, lines: &mut Vec<Line>) {
    let line = |figure: &str, ours| Line::new(NAME, format!("{what}: {figure}"), ours);
    lines.extend([
        line("CPU until ready", Amount::cpu(cost.list_cpu)),
        line("memory, settled", Amount::bytes(cost.settled)),
        line("CPU of a sweep", Amount::cpu(cost.sweep_cpu)),
    ]);
}

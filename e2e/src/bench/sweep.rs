//! One sweep over a million rows: CPU, time and memory of reading them all, and of finding those of the hundredth
//! part of the pods that is gone. They wait, so that it is one sweep that is measured, and nothing that follows.

use std::time::Duration;

use super::{
    Bench, memory,
    population::Population,
    table::{Amount, Line},
};
use crate::{Error, Result};

pub const NAME: &str = "sweep";

/// Sweeps, and the time after the first: late enough that what it found was looked at once, and not yet again.
const LONG: (&str, Duration) = ("--sweep-interval=45s", Duration::from_secs(25));
/// The same of a short run.
const SHORT: (&str, Duration) = ("--sweep-interval=15s", Duration::ZERO);

/// Goal for the memory that a sweep takes above what is settled.
const ABOVE: f64 = 12e6;

/// Runs it.
pub async fn run(bench: &Bench) -> Result<Vec<Line>> {
    let pods = bench.size(100_000);
    let stage = bench.stage().await?;
    let population = Population {
        nodes: bench.size(1_000),
        interfaces: 10,
        pools: 100,
        reservations: false,
        ..stage.population(pods)
    };
    let rows = population.rows();
    let orphans = pods / 100;
    bench.say(
        NAME,
        format!("seeding {rows} rows of {pods} pods, of which {orphans} are gone"),
    );
    stage.seeder.everything_but(&population, orphans).await?;
    let (interval, pause) = if bench.short { SHORT } else { LONG };
    let collector = stage.start(&[interval])?;
    let meter = collector.meter();
    collector.ready().await?;
    collector.swept(1).await?;
    let cpu = meter.cpu()?;
    tokio::time::sleep(pause).await;
    let settled = memory::settled(&meter).await?;
    meter.reset_peak()?;
    let looks = meter.cpu()?.saturating_sub(cpu);
    let cpu = meter.cpu()?;
    let swept = collector.swept(2).await?;
    let second_cpu = meter.cpu()?.saturating_sub(cpu);
    let peak = meter.peak()?;
    bench.say(NAME, &swept);
    let expected = population.interfaces * orphans;
    // Nobody saw these pods, and they had ten interfaces: their rows wait for nodes.
    if !swept.contains(&format!(" unfenced={expected} ")) {
        return Err(Error::Other(format!(
            "not {expected} rows that wait for nodes were found: {swept}"
        )));
    }
    collector.stop().await?;
    stage.stop().await?;

    let line = |what: &str, ours| Line::new(NAME, what, ours);
    let above = peak.saturating_sub(settled);
    Ok(vec![
        line("CPU of a sweep, with transport", Amount::cpu(second_cpu)).at_most(1.5),
        line("CPU of the first look at what it found", Amount::cpu(looks)),
        line("memory, settled", Amount::bytes(settled)),
        line("peak of a sweep above that", Amount::bytes(above)).at_most(ABOVE),
    ])
}

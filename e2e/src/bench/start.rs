//! From the start of the process to the end of its first lists, and the size of the binary.

use super::{
    Bench,
    population::Population,
    table::{Amount, Line},
};
use crate::Result;

pub const NAME: &str = "start";

/// How often it is started; the slowest counts.
const STARTS: usize = 3;

/// Runs it.
pub async fn run(bench: &Bench) -> Result<Vec<Line>> {
    let pods = bench.size(10_000);
    let stage = bench.stage().await?;
    let population = Population {
        pools: 10,
        ..stage.population(pods)
    };
    bench.say(NAME, format!("seeding {pods} pods"));
    stage.seeder.everything(&population).await?;
    let mut slowest = std::time::Duration::ZERO;
    let mut cpu = slowest;
    for _ in 0..STARTS {
        let collector = stage.start(&[])?;
        slowest = slowest.max(collector.ready().await?);
        cpu = cpu.max(collector.meter().cpu()?);
        // An orderly end comes after the first sweep.
        collector.swept(1).await?;
        collector.stop().await?;
    }
    stage.stop().await?;
    let line = |what: String, ours| Line::new(NAME, what, ours);
    let size = Amount::bytes(bench.program.metadata()?.len());
    Ok(vec![
        line(
            format!("{pods} pods: start to ready, slowest of {STARTS}"),
            Amount::time(slowest),
        )
        .at_most(2.0),
        line("ipgc's CPU until then".into(), Amount::cpu(cpu)),
        line("size of the binary".into(), size).at_most(9e6),
    ])
}

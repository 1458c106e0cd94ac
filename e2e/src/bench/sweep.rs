//! One sweep over a million rows: CPU, time and memory of reading them all, and of finding those of the hundredth
//! part of the pods that is gone. They wait, so that it is one sweep that is measured, and nothing that follows.

use std::time::Duration;

use ipgc::api::IpPool;

use super::{
    Bench,
    measure::Meter,
    memory,
    population::Population,
    raw,
    stage::Stage,
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
    let stage = bench.stage_alone().await?;
    let population = Population {
        nodes: bench.size(1_000),
        interfaces: 10,
        pools: 100,
        reservations: false,
        ..stage.population(pods)
    };
    let rows = population.rows();
    let orphans = pods / 100;
    let seeding =
        format!("seeding {pods} pods with {rows} rows, and {orphans} of the pods not at all");
    bench.say(NAME, seeding);
    stage.seeder.everything_but(&population, orphans).await?;
    let (interval, pause) = if bench.short { SHORT } else { LONG };
    let collector = stage.start(&[interval])?;
    let meter = collector.meter();
    collector.ready().await?;
    let (cpu, ready) = (meter.cpu()?, meter.resident()?);
    meter.reset_peak()?;
    collector.swept(1).await?;
    let first_cpu = meter.cpu()?.saturating_sub(cpu);
    tokio::time::sleep(pause).await;
    let first_peak = meter.peak()?;
    let settled = memory::settled(&meter).await?;
    meter.reset_peak()?;
    let looks = meter.cpu()?.saturating_sub(cpu + first_cpu);
    let cpu = meter.cpu()?;
    let swept = collector.swept(2).await?;
    let second_cpu = meter.cpu()?.saturating_sub(cpu);
    let peak = meter.peak()?;
    bench.say(NAME, &swept);
    let expected = population.interfaces * orphans;
    // Nobody saw these pods, and they had ten interfaces: their rows wait for nodes.
    if !swept.contains(&format!(" unfenced={expected} ")) {
        return Err(Error::Unsupported(format!(
            "not {expected} rows that wait for nodes were found: {swept}"
        )));
    }
    collector.stop().await?;
    let transport = transport(&stage, &population.namespace).await?;
    stage.stop().await?;

    let line = |what: &str, ours| Line::new(NAME, what, ours);
    let above = peak.saturating_sub(settled);
    Ok(vec![
        line("CPU of a sweep, with transport", Amount::cpu(second_cpu)).at_most(1.5),
        line(
            "CPU of a bare client that reads the same",
            Amount::cpu(transport),
        ),
        line("parse and judge", Amount::cpu(told(&swept, "judging=")?)),
        line("CPU of the first sweep", Amount::cpu(first_cpu)),
        line("CPU of the first look at what it found", Amount::cpu(looks)),
        line("rows a second of CPU", Amount::rate(rows, second_cpu)),
        line("time of a sweep", Amount::time(told(&swept, "took=")?)),
        line("memory when ready", Amount::bytes(ready)),
        line(
            "peak of the first sweep and its looks above that",
            Amount::bytes(first_peak.saturating_sub(ready)),
        ),
        line("memory, settled", Amount::bytes(settled)),
        line("peak of a sweep above that", Amount::bytes(above)).at_most(ABOVE),
    ])
}

/// What it costs this process to read all pools in pages as large as a sweep's, and to do nothing with
/// them.
async fn transport(stage: &Stage, namespace: &str) -> Result<Duration> {
    let client = stage.client("bench-loop").await?;
    let meter = Meter::own();
    let cpu = meter.cpu()?;
    let path = format!("{}?limit=2", raw::all::<IpPool>(namespace));
    let mut next = path.clone();
    loop {
        let page = raw::get(&client, &next).await?;
        // Metadata stand first or last, and no row has such a text.
        let token = page.split(r#""continue":""#).nth(1).unwrap_or_default();
        match token.split('"').next() {
            None | Some("") => return Ok(meter.cpu()?.saturating_sub(cpu)),
            Some(token) => next = format!("{path}&continue={token}"),
        }
    }
}

/// A time that a sweep's line tells, as in `took=1.5s`.
fn told(line: &str, what: &str) -> Result<Duration> {
    let text = line.split(what).nth(1).unwrap_or_default();
    let text = text.split_whitespace().next().unwrap_or_default();
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let scale = match &text[digits.len()..] {
        "s" => 1.0,
        "ms" => 1e-3,
        "µs" => 1e-6,
        "ns" => 1e-9,
        _ => return Err(Error::Unsupported(format!("no {what} in {line:?}"))),
    };
    let value: f64 = digits.parse().map_err(Error::malformed(what))?;
    Duration::try_from_secs_f64(value * scale).map_err(Error::malformed(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_from_a_sweeps_line() {
        let took = |text: &str| told(&format!("… sweep ended rows=2 took={text}"), "took=");
        let is = |text: &str, micros| {
            assert_eq!(took(text).ok(), Some(Duration::from_micros(micros)));
        };
        is("1.5s judging=3s", 1_500_000);
        is("12.25ms orphans=0", 12_250);
        is("80µs", 80);
        assert!(took("none").is_err());
        assert!(told("took=1s", "judging=").is_err());
    }
}

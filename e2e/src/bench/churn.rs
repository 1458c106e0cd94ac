//! A healthy cluster: pods come and go, and CNI DEL has taken their rows before they are gone. There is
//! nothing to free, and looking for it must cost next to nothing.

use std::time::{Duration, Instant};

use super::{
    Bench,
    load::Kubelet,
    population::{Address, Population},
    seed::{BEAT, Heartbeats},
    table::{Amount, Line},
};
use crate::Result;

pub const NAME: &str = "healthy-churn";

/// Pods that end in a second.
const RATE: u32 = 200;

/// How long the kubelet takes from the terminal phase to the deletion.
const LEAD: Duration = Duration::from_millis(500);

/// After the last end: the cooldown, and time for whatever is asked late.
const AFTER: Duration = Duration::from_secs(8);

/// Goal for requests per deleted pod.
const REQUESTS: f64 = 0.1;

/// The same for a tenth of the pods, over which as many looks at the pools are spread.
const SHORT_REQUESTS: f64 = 0.5;

/// Runs it.
pub async fn run(bench: &Bench) -> Result<Vec<Line>> {
    let seconds = bench.size(60);
    let ending = RATE as usize * seconds;
    let staying = bench.size(2_000);
    bench.say(NAME, format!("seeding {} pods", ending + staying));
    let stage = bench.stage().await?;
    let population = Population {
        pools: 10,
        ..stage.population(ending + staying)
    };
    let seeder = &stage.seeder;
    seeder.attachments(&population).await?;
    seeder.nodes(population.nodes).await?;
    // Those of the pods that stay.
    let stays = move |address: &Address| address.pod >= ending;
    let rows = |population: &Population, pool| population.rows_of(pool).filter(stays);
    seeder.pools(&population, rows).await?;
    let all = (0..population.pools).flat_map(|pool| rows(&population, pool));
    seeder.reservations(&population, all).await?;
    seeder.pods(&population).await?;

    let _beats = Heartbeats::start(stage.client("kubelet").await?, population.nodes, BEAT);
    let collector = stage.started(&[]).await?;
    let meter = collector.meter();
    let (cpu, server_cpu) = (meter.cpu()?, stage.api_server().cpu()?);
    let mark = stage.plane.audit().mark()?;
    bench.say(NAME, format!("{RATE} pods end each second, {seconds} s"));
    let kubelet = Kubelet::new(stage.client("kubelet").await?);
    let begun = Instant::now();
    let gone = kubelet
        .end_evenly(&population, 0..ending, Duration::from_secs(1) / RATE, LEAD)
        .await?;
    let rate = Amount::rate(ending, gone - begun);
    tokio::time::sleep(AFTER).await;
    let ours = collector.requests(mark)?;
    bench.say(NAME, format!("ipgc asked: {}", ours.summary()));

    let line = |what: &str, ours| Line::new(NAME, what, ours);
    let each = Amount::each(ours.requests.len(), ending);
    let cpu = Amount::cpu(meter.cpu()?.saturating_sub(cpu));
    let server_cpu = Amount::cpu(stage.api_server().cpu()?.saturating_sub(server_cpu));
    let most = if bench.short {
        SHORT_REQUESTS
    } else {
        REQUESTS
    };
    let ended = format!("pods that ended a second, of {RATE} that were asked for");
    let lines = vec![
        line("requests per deleted pod", each)
            .at_most(most)
            .counted(),
        line("writes", Amount::count(ours.writes()))
            .at_most(0.0)
            .counted(),
        line("events", Amount::count(ours.events)),
        line(&ended, rate),
        line("ipgc's CPU", cpu),
        line("API server's CPU", server_cpu),
    ];
    collector.stop().await?;
    stage.stop().await?;
    Ok(lines)
}

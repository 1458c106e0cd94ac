//! All pods of ten pools end at full speed: how long until their addresses are free, and how many requests
//! that takes.
//!
//! Three times: with reservations and names that never return, with reservations and names that do (each
//! needs a claim), and without reservations.

use std::time::{Duration, Instant};

use ipgc::api::{IpPool, Reservation};

use super::{
    Bench, bare_loop,
    load::Kubelet,
    population::{Owner, Population},
    requests::{Ours, RESERVATIONS},
    stage::Stage,
    table::{Amount, Line},
    upstream_loop::{self, Took},
    watch,
};
use crate::{Error, Result, ours::SHORT_WAITS};

/// Names that return are not freed before it is sure that nobody bore them before ipgc was started. By
/// default that takes minutes; with [`SHORT_WAITS`] it is so by now. The wait after an end that proves the
/// sandbox stopped stays at its default.
const PAST: Duration = Duration::from_secs(15);

/// Nodes block as long as their Leases were not seen to change.
const BEAT: Duration = Duration::from_secs(2);

/// Connections of the load driver: a node pool of a few dozen kubelets.
const KUBELETS: usize = 32;

/// Of a short run: patches of pools for each row. Single patches would be one.
const SHORT_PATCHES: f64 = 0.2;

/// ipgc's budget of events: at once, and from then on.
const EVENTS: f64 = 100.0;
const EVENTS_A_SECOND: f64 = 20.0;

/// Until all is free. With the goals met it takes seconds.
const PATIENCE: Duration = Duration::from_secs(300);

/// One of the three.
pub struct Variant {
    pub name: &'static str,
    owner: Owner,
    reservations: bool,
    /// Goal for requests per freed address.
    requests: f64,
    /// Writes of reservations per freed address, whatever the machine.
    writes: f64,
    /// Reads per freed address, whatever the machine: single ones would be one of each kind.
    reads: f64,
}

pub const REPLICA_SET: Variant = Variant {
    name: "mass-delete",
    owner: Owner::ReplicaSet,
    reservations: true,
    requests: 1.05,
    writes: 1.0,
    reads: 0.3,
};

pub const STATEFUL_SET: Variant = Variant {
    name: "mass-delete-statefulset",
    owner: Owner::StatefulSet,
    reservations: true,
    requests: 2.1,
    writes: 2.0,
    // 0.25 on an idle machine, 0.32 on one that does much else.
    reads: 0.4,
};

pub const ROWS: Variant = Variant {
    name: "mass-delete-rows",
    owner: Owner::ReplicaSet,
    reservations: false,
    requests: 0.05,
    writes: 0.0,
    reads: 0.2,
};

/// The measurements of a mass delete.
struct Seen {
    begun: Instant,
    /// When the last pod was gone.
    gone: Instant,
    rows: Instant,
    reservations: Instant,
    ours: Ours,
    cpu: Duration,
    server_cpu: Duration,
    peak: u64,
    oldest_proof: Duration,
}

/// Runs one of them.
pub async fn run(bench: &Bench, variant: &Variant) -> Result<Vec<Line>> {
    let scene = variant.name;
    let upstream = upstream_loop::took(bench).await?;
    let pods = bench.size(10_000);
    bench.say(scene, format!("seeding {pods} pods"));
    let stage = bench.stage().await?;
    let population = Population {
        owner: variant.owner,
        nodes: 20,
        pools: 10,
        reservations: variant.reservations,
        ..stage.population(pods)
    };
    stage.seeder.everything(&population).await?;
    let mut bare = None;
    if variant.reservations {
        bench.say(scene, "the bare loop");
        bare = Some(bare_loop::run(&stage, &population).await?);
    }
    let seen = end_all(bench, scene, &stage, &population).await?;
    stage.stop().await?;

    let mut lines = times(variant, pods, &seen, bare, upstream);
    lines.extend(costs(bench, variant, pods, &seen, upstream));
    Ok(lines)
}

/// All pods end while ipgc runs.
async fn end_all(
    bench: &Bench,
    scene: &str,
    stage: &Stage,
    population: &Population,
) -> Result<Seen> {
    let client = stage.client("bench").await?;
    let (namespace, pods) = (&population.namespace, population.pods);
    let _beats = stage.beats(population.nodes, BEAT).await?;
    let waits: &[&str] = match population.owner {
        Owner::ReplicaSet => &[],
        Owner::StatefulSet => &SHORT_WAITS,
    };
    let collector = stage.started(waits).await?;
    if !waits.is_empty() {
        bench.say(scene, format!("waits are {}", waits.join(" ")));
        tokio::time::sleep(PAST).await;
    }
    let meter = collector.meter();
    let rows = watch::emptied::<IpPool>(&client, namespace, population.pools).await?;
    let mut reservations = None;
    if population.reservations {
        reservations = Some(watch::emptied::<Reservation>(&client, namespace, pods).await?);
    }
    let mark = stage.plane.audit().mark()?;
    let (cpu, server_cpu) = (meter.cpu()?, stage.api_server().cpu()?);
    meter.reset_peak()?;
    bench.say(scene, "all pods end");
    let kubelet = Kubelet::new(stage.client("kubelet").await?);
    let begun = Instant::now();
    let gone = kubelet.end_all(population, 0..pods, KUBELETS).await?;
    bench.say(scene, format!("all are gone, after {:.1?}", gone - begun));
    let rows = collector.freed(rows, PATIENCE).await?;
    let reservations = match reservations {
        Some(reservations) => collector.freed(reservations, PATIENCE).await?,
        None => rows,
    };
    // Requests shortly after the last free count as well.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let ours = collector.requests(mark)?;
    bench.say(scene, format!("ipgc asked: {}", ours.summary()));
    all_are_counted(&ours, population)?;
    let peak = meter.peak()?;
    let cpu = meter.cpu()?.saturating_sub(cpu);
    let server_cpu = stage.api_server().cpu()?.saturating_sub(server_cpu);
    let log = collector.stop().await?;
    let mut oldest_proof = Duration::ZERO;
    if population.reservations {
        let mut counted = log
            .split("counted name=\"longest_proof_age_ms\" value=")
            .skip(1);
        let value = counted
            .next()
            .and_then(|rest| rest.split_whitespace().next());
        oldest_proof = Duration::from_millis(value.unwrap_or_default().parse()?);
    }
    Ok(Seen {
        begun,
        gone,
        rows,
        reservations,
        ours,
        cpu,
        server_cpu,
        peak,
        oldest_proof,
    })
}

/// That few requests were counted says something only if those are among them that there must be.
fn all_are_counted(ours: &Ours, population: &Population) -> Result<()> {
    let deleted = ours.count("delete", RESERVATIONS);
    let is_short = population.reservations && deleted < population.pods;
    if is_short || ours.count("patch", "ippools") == 0 {
        let why = format!("not all that ipgc did is in it: {}", ours.summary());
        return Err(Error::Other(why));
    }
    Ok(())
}

fn times(
    variant: &Variant,
    pods: usize,
    seen: &Seen,
    bare: Option<Duration>,
    upstream: Took,
) -> Vec<Line> {
    let line = |what: &str, ours| Line::new(variant.name, what, ours);
    let time = |what: &str, time| line(what, Amount::time(time));
    let pace = |what: &str, ours, theirs, least| {
        let theirs = Amount::rate(upstream.addresses, theirs);
        let line = line(what, Amount::rate(pods, ours)).against("upstream", theirs);
        line.ratio_at_least(least)
    };
    let rows = seen.rows.saturating_duration_since(seen.gone);
    let mut lines = vec![
        time("all pods gone, from the first end", seen.gone - seen.begun),
        time("rows empty, from the last pod gone; cooldown 2 s", rows).at_most(3.0),
        pace(
            "all rows a second, from the last pod gone",
            rows,
            upstream.rows,
            2_500.0,
        ),
    ];
    let Some(bare) = bare else {
        return lines;
    };
    let bare = Amount::time(bare);
    let (of, waits) = match variant.owner {
        Owner::ReplicaSet => ("bare DELETE loop", String::new()),
        Owner::StatefulSet => (
            "bare PATCH+DELETE loop",
            format!(" ({})", SHORT_WAITS.join(" ")),
        ),
    };
    let empty = format!("reservations empty, from the last pod gone{waits}");
    let from_begin = seen.reservations - seen.begun;
    let reservations = seen.reservations.saturating_duration_since(seen.gone);
    let both = "all rows with reservations a second, from the last pod gone";
    let proof = "longest from a proof's first request to a DELETE";
    lines.extend([
        time(&empty, reservations)
            .against(of, bare)
            .ratio_at_most(1.3),
        time("reservations empty, from the first end", from_begin).against(of, bare),
        pace(both, reservations, upstream.reservations, 300.0),
        time(proof, seen.oldest_proof).at_most(2.0),
    ]);
    lines
}

fn costs(bench: &Bench, variant: &Variant, pods: usize, seen: &Seen, upstream: Took) -> [Line; 8] {
    let line = |what: &str, ours| Line::new(variant.name, what, ours);
    let each = |what: &str, count| line(what, Amount::each(count, pods));
    let ours = &seen.ours;
    let writes = ours.count("patch", RESERVATIONS) + ours.count("delete", RESERVATIONS);
    // How many there are depends on how long the pods take to go, but not much.
    let in_short = |line: Line, most| {
        if bench.short {
            line.at_most(most).counted()
        } else {
            line
        }
    };
    let patches = each(
        "patches of pools per freed row",
        ours.count("patch", "ippools"),
    );
    let reads = each(
        "reads per freed address",
        ours.requests.len() - ours.writes(),
    );
    let events = EVENTS + EVENTS_A_SECOND * (seen.reservations - seen.begun).as_secs_f64();
    let upstream_requests = Amount::each(upstream.requests, upstream.addresses);
    [
        each("requests per freed address", ours.requests.len())
            .against("upstream", upstream_requests)
            .at_most(variant.requests),
        each("writes of reservations per freed address", writes)
            .at_most(variant.writes)
            .counted(),
        in_short(patches, SHORT_PATCHES),
        in_short(reads, variant.reads),
        line("events", Amount::count(ours.events))
            .at_most(events)
            .counted(),
        line("ipgc's CPU", Amount::cpu(seen.cpu)),
        line("API server's CPU", Amount::cpu(seen.server_cpu)),
        line("ipgc's memory at the most", Amount::bytes(seen.peak))
            .against("upstream", Amount::bytes(upstream.peak)),
    ]
}

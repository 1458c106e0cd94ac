//! All pods of ten pools end at full speed: how long until their addresses are free, and how many requests
//! that takes.
//!
//! Three times: with reservations and names that never return, with reservations and names that do (each
//! needs a claim), and without reservations.

use std::time::{Duration, Instant};

use super::{
    Bench,
    bare_loop::{self, CONNECTIONS},
    load::Kubelet,
    population::{Owner, Population},
    requests::{Ours, RESERVATIONS},
    seed::Heartbeats,
    stage::{SHORT_WAITS, Stage},
    table::{Amount, Line, float},
    upstream_loop::Took,
    watch,
};
use crate::{Error, Result};

/// Names that return are not freed before it is sure that nobody bore them before ipgc was started. By
/// default that takes minutes; with [`SHORT_WAITS`] it is so by now. The wait after an end that proves the
/// sandbox stopped stays at its default.
const PAST: Duration = Duration::from_secs(15);

/// Nodes block as long as their Leases were not seen to change.
const BEAT: Duration = Duration::from_secs(2);

/// ipgc's default wait after an end that proves the sandbox stopped.
const COOLDOWN: Duration = Duration::from_secs(2);

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
    reads: 0.3,
};

pub const ROWS: Variant = Variant {
    name: "mass-delete-rows",
    owner: Owner::ReplicaSet,
    reservations: false,
    requests: 0.05,
    writes: 0.0,
    reads: 0.2,
};

/// What was seen.
struct Seen {
    begun: Instant,
    /// When the last pod was gone.
    gone: Instant,
    /// Rows and reservations that were there then.
    rows_then: usize,
    reservations_then: usize,
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
    let upstream = bench.upstream.get(bench).await?;
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
    let mut paces = Vec::new();
    let bare = if variant.reservations {
        bench.say(scene, "the bare loop");
        let few = Population {
            pods: pods / 10,
            ..population.clone()
        };
        for connections in bare_loop::OTHERS {
            let took = bare_loop::run(&stage, &few, connections).await?;
            paces.push((connections, Amount::rate(few.pods, took.time)));
        }
        let took = bare_loop::run(&stage, &population, CONNECTIONS).await?;
        Some(took.time)
    } else {
        None
    };
    let seen = end_all(bench, scene, &stage, &population).await?;
    stage.stop().await?;

    let mut lines = times(variant, &population, &seen, bare, upstream);
    if variant.reservations {
        let what = "longest from a proof's first request to a DELETE";
        lines.push(Line::new(scene, what, Amount::time(seen.oldest_proof)).at_most(2.0));
    }
    lines.extend(costs(bench, variant, pods, &seen, upstream));
    if let Some(bare) = bare {
        let by_ours = Amount::rate(pods, bare);
        lines.extend(paces.into_iter().map(|(connections, pace)| {
            let what = format!("bare loop, reservations a second by {connections} connections");
            Line::new(scene, what, pace).against("by as many as ipgc's", by_ours)
        }));
    }
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
    let _beats = Heartbeats::start(stage.client("kubelet").await?, population.nodes, BEAT);
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
    let mut rows = watch::rows_left(&client, namespace, population.pools, 0).await?;
    let mut reservations = if population.reservations {
        Some(watch::reservations_left(&client, namespace, pods, 0).await?)
    } else {
        None
    };
    let mark = stage.plane.audit().mark()?;
    let (cpu, server_cpu) = (meter.cpu()?, stage.api_server().cpu()?);
    meter.reset_peak()?;
    bench.say(scene, "all pods end");
    let kubelet = Kubelet::new(stage.client("kubelet").await?);
    let begun = Instant::now();
    let gone = kubelet.end_all(population, 0..pods, KUBELETS).await?;
    let rows_then = rows.there();
    let reservations_then = reservations.as_ref().map_or(0, watch::Awaited::there);
    bench.say(scene, format!("all are gone, after {:.1?}", gone - begun));
    let what = "free all rows";
    let rows = collector.within(PATIENCE, what, rows.done()).await?;
    let what = "free all reservations";
    let reservations = match &mut reservations {
        Some(reservations) => {
            collector
                .within(PATIENCE, what, reservations.done())
                .await?
        }
        None => rows,
    };
    // What is asked after the last free belongs to it as well.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let ours = collector.requests(mark)?;
    bench.say(scene, format!("ipgc asked: {}", ours.summary()));
    all_are_counted(&ours, population)?;
    let peak = meter.peak()?;
    let (cpu, server_cpu) = (
        meter.cpu()?.saturating_sub(cpu),
        stage.api_server().cpu()?.saturating_sub(server_cpu),
    );
    let counted = collector.stop().await?;
    let oldest_proof = if population.reservations {
        counted.counted("longest_proof_age_ms")?
    } else {
        0
    };
    Ok(Seen {
        begun,
        gone,
        rows_then,
        reservations_then,
        rows,
        reservations,
        ours,
        cpu,
        server_cpu,
        peak,
        oldest_proof: Duration::from_millis(oldest_proof),
    })
}

/// That few requests were counted says something only if those are among them that there must be.
fn all_are_counted(ours: &Ours, population: &Population) -> Result<()> {
    let deleted = ours.count("delete", RESERVATIONS);
    let is_short = population.reservations && deleted < population.pods;
    if is_short || ours.count("patch", "ippools") == 0 {
        return Err(Error::Malformed {
            what: "the audit log".into(),
            why: format!("not all that ipgc did is in it: {}", ours.summary()),
        });
    }
    Ok(())
}

fn times(
    variant: &Variant,
    population: &Population,
    seen: &Seen,
    bare: Option<Duration>,
    upstream: Took,
) -> Vec<Line> {
    let pods = population.pods;
    let line = |what: &str, ours| Line::new(variant.name, what, ours);
    let from_gone = |end: Instant| end.saturating_duration_since(seen.gone);
    let rows = from_gone(seen.rows);
    let mut lines = vec![
        line(
            "all pods gone, from the first end",
            Amount::time(seen.gone - seen.begun),
        ),
        line("rows that were there then", Amount::count(seen.rows_then)),
        line(
            "those a second, the cooldown included",
            Amount::rate(seen.rows_then, rows),
        )
        .against(
            "upstream, all its rows",
            Amount::rate(upstream.addresses, upstream.rows),
        ),
        line(
            "rows empty, from the last pod gone; cooldown 2 s",
            Amount::time(rows),
        )
        .at_most((COOLDOWN + Duration::from_secs(1)).as_secs_f64()),
        line(
            "all rows a second, from the last pod gone",
            Amount::rate(pods, rows),
        )
        .against(
            "upstream, with reservations",
            Amount::rate(upstream.addresses, upstream.rows),
        )
        .ratio_at_least(2_500.0),
    ];
    let Some(bare) = bare else {
        return lines;
    };
    let (of, waits) = match variant.owner {
        Owner::ReplicaSet => ("bare DELETE loop", String::new()),
        Owner::StatefulSet => (
            "bare PATCH+DELETE loop",
            format!(" ({})", SHORT_WAITS.join(" ")),
        ),
    };
    let reservations = from_gone(seen.reservations);
    let left = float(seen.reservations_then as u64) / float(pods as u64);
    let (bare, bare_of_left) = (Amount::time(bare), Amount::time(bare.mul_f64(left)));
    lines.extend([
        line(
            "reservations that were there then",
            Amount::count(seen.reservations_then),
        ),
        line(
            "those a second",
            Amount::rate(seen.reservations_then, reservations),
        )
        .against(
            "upstream, all its reservations",
            Amount::rate(upstream.addresses, upstream.reservations),
        ),
        line(
            &format!("reservations empty, from the last pod gone{waits}"),
            Amount::time(reservations),
        )
        .against(of, bare)
        .ratio_at_most(1.3),
        line(
            "the same, less the cooldown",
            Amount::time(reservations.saturating_sub(COOLDOWN)),
        )
        .against("the loop's pace, as many as were left", bare_of_left),
        line(
            "reservations empty, from the first end",
            Amount::time(seen.reservations - seen.begun),
        )
        .against(of, bare),
        line(
            "all rows with reservations a second, from the last pod gone",
            Amount::rate(pods, reservations),
        )
        .against(
            "upstream",
            Amount::rate(upstream.addresses, upstream.reservations),
        )
        .ratio_at_least(300.0),
    ]);
    lines
}

fn costs(bench: &Bench, variant: &Variant, pods: usize, seen: &Seen, upstream: Took) -> [Line; 8] {
    let line = |what: &str, ours| Line::new(variant.name, what, ours);
    let count = |verb| seen.ours.count(verb, RESERVATIONS);
    let writes = count("patch") + count("delete");
    let patches = seen.ours.count("patch", "ippools");
    let mut patches_each = line(
        "patches of pools per freed row",
        Amount::each(patches, pods),
    );
    if bench.short {
        // How many there are depends on how long the pods take to go, but not much.
        patches_each = patches_each.at_most(SHORT_PATCHES).counted();
    }
    let mut reads_each = line(
        "reads per freed address",
        Amount::each(seen.ours.requests.len() - seen.ours.writes(), pods),
    );
    if bench.short {
        reads_each = reads_each.at_most(variant.reads).counted();
    }
    let events = EVENTS + EVENTS_A_SECOND * (seen.reservations - seen.begun).as_secs_f64();
    let upstream_requests = Amount::each(upstream.requests, upstream.addresses);
    [
        line(
            "requests per freed address",
            Amount::each(seen.ours.requests.len(), pods),
        )
        .against("upstream", upstream_requests)
        .at_most(variant.requests),
        line(
            "writes of reservations per freed address",
            Amount::each(writes, pods),
        )
        .at_most(variant.writes)
        .counted(),
        patches_each,
        reads_each,
        line("events", Amount::count(seen.ours.events))
            .at_most(events)
            .counted(),
        line("ipgc's CPU", Amount::cpu(seen.cpu)),
        line("API server's CPU", Amount::cpu(seen.server_cpu)),
        line("ipgc's memory at the most", Amount::bytes(seen.peak))
            .against("upstream", Amount::bytes(upstream.peak)),
    ]
}

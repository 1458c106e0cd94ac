//! Rows and reservations that lost their pods while nobody watched: one pass of upstream's ip-reconciler
//! against our sweep.
//!
//! Each has servers of its own with the same objects. Upstream's pass is counted from its first list. Ours
//! is counted from the end of our wait, which upstream does not have. It begins with the first sweep, is
//! set to a few seconds by `--grace`, `--del-budget` and `--max-pod-grace`, and ends when all nodes were
//! seen at work since: a first renewal of a Lease is known to come after it, and another one is seen. If
//! the first row is patched away before that, that is when the wait was over.

use std::time::{Duration, Instant};

use k8s_openapi::jiff::{Timestamp, ToSpan as _, tz::TimeZone};

use super::{
    Bench, bare_loop,
    measure::Meter,
    population::{Owner, Population},
    requests::{self, Ours},
    seed::Heartbeats,
    stage::{SHORT_WAITS, Stage},
    table::{Amount, Line},
    watch,
};
use crate::{
    Error, Result,
    audit::{Mark, Request},
    upstream::Upstream,
    wait::{self, Probe},
};

pub const NAME: &str = "reconciler";

/// What these make of it, for a podref of one row, before Leases count.
const WAIT: Duration = Duration::from_secs(3);

/// Nodes block while they are silent; a Lease that changes every second shows soon that none is.
const BEAT: Duration = Duration::from_secs(1);

/// Upstream deletes five reservations a second.
const PATIENCE: Duration = Duration::from_secs(900);

/// Its schedule has minutes.
const BEGIN: Duration = Duration::from_secs(90);

/// What one of the two took.
struct Took {
    rows: Duration,
    reservations: Duration,
    cpu: Duration,
    peak: u64,
}

/// Runs both.
pub async fn run(bench: &Bench) -> Result<Vec<Line>> {
    let (ours, bare) = {
        let (stage, population) = seeded(bench, "ipgc").await?;
        let took = ours(bench, &stage, &population).await?;
        let (time, cpu) = (took.reservations, took.cpu);
        bench.say(
            NAME,
            format!("{time:.1?} and {cpu:.2?} of CPU; the bare loop"),
        );
        let as_many = Population {
            owner: Owner::StatefulSet,
            pods: orphans(bench),
            ..population
        };
        let bare = bare_loop::run(&stage, &as_many, bare_loop::CONNECTIONS).await?;
        stage.stop().await?;
        (took, bare)
    };
    let theirs = {
        let (stage, population) = seeded(bench, "ip-reconciler").await?;
        let took = theirs(bench, &stage, &population).await?;
        stage.stop().await?;
        took
    };
    let line = |what: &str, ours, theirs| Line::new(NAME, what, ours).against("upstream", theirs);
    let waits = format!("({}, from the end of the wait)", SHORT_WAITS.join(" "));
    Ok(vec![
        line(
            "rows gone",
            Amount::time(ours.rows),
            Amount::time(theirs.rows),
        ),
        line(
            &format!("rows and reservations gone {waits}"),
            Amount::time(ours.reservations),
            Amount::time(theirs.reservations),
        )
        .ratio_at_most(0.02),
        line(
            "as many reservations by a bare PATCH+DELETE loop",
            Amount::time(bare.time),
            Amount::time(theirs.reservations),
        ),
        line(
            "memory at the most",
            Amount::bytes(ours.peak),
            Amount::bytes(theirs.peak),
        )
        .ratio_at_most(0.25),
        line("CPU", Amount::cpu(ours.cpu), Amount::cpu(theirs.cpu)).ratio_at_most(0.25),
        line(
            "CPU of the bare loop",
            Amount::cpu(bare.cpu),
            Amount::cpu(theirs.cpu),
        ),
    ])
}

/// Servers with pods, and with rows and reservations of more pods than there are.
async fn seeded(bench: &Bench, who: &str) -> Result<(Stage, Population)> {
    let pods = bench.size(10_000);
    let orphans = orphans(bench);
    bench.say(
        NAME,
        format!("seeding {pods} pods and {orphans} orphans for {who}"),
    );
    let stage = bench.stage_alone().await?;
    let population = Population {
        nodes: 10,
        pools: 10,
        ..stage.population(pods + orphans)
    };
    stage.seeder.everything_but(&population, orphans).await?;
    Ok((stage, population))
}

fn orphans(bench: &Bench) -> usize {
    // Upstream deletes five a second: more would not fit into a short run.
    if bench.short { 20 } else { 2_000 }
}

/// Rows and reservations that are to go.
async fn awaited(
    stage: &Stage,
    population: &Population,
    orphans: usize,
) -> Result<(watch::Awaited, watch::Awaited)> {
    let (client, home) = (stage.client("bench").await?, &population.namespace);
    let (all, left) = (population.pods, population.pods - orphans);
    Ok((
        watch::rows_left(&client, home, population.pools, left).await?,
        watch::reservations_left(&client, home, all, left).await?,
    ))
}

async fn ours(bench: &Bench, stage: &Stage, population: &Population) -> Result<Took> {
    let _beats = Heartbeats::start(stage.client("kubelet").await?, population.nodes, BEAT);
    let (mut rows, mut reservations) = awaited(stage, population, orphans(bench)).await?;
    let mark = stage.plane.audit().mark()?;
    let collector = stage.start(&SHORT_WAITS)?;
    let swept = collector.swept(1).await?;
    let wait_over = collector.begun() + collector.after_start(&swept)? + WAIT + 2 * BEAT;
    let what = "free the orphaned rows";
    let rows = collector.within(PATIENCE, what, rows.done()).await?;
    let what = "free the orphaned reservations";
    let freed = reservations.done();
    let reservations = collector.within(PATIENCE, what, freed).await?;
    let patch = |request: &Request| Ours::is_ours(request) && request.verb == "patch";
    let wait_over = match first(stage, mark, "ippools", patch)? {
        Some(begun) => wait_over.min(begun),
        None => wait_over,
    };
    let meter = collector.meter();
    let took = took(&meter, wait_over, rows, reservations)?;
    collector.stop().await?;
    Ok(took)
}

async fn theirs(bench: &Bench, stage: &Stage, population: &Population) -> Result<Took> {
    let _beats = Heartbeats::start(stage.client("kubelet").await?, population.nodes, BEAT);
    let (mut rows, mut reservations) = awaited(stage, population, orphans(bench)).await?;
    let mark = stage.plane.audit().mark()?;
    // A few orphans take less time than lies between two passes.
    let schedule = if bench.short {
        "@every 12s".into()
    } else {
        next_minute()?
    };
    let upstream = Upstream::reconciler(&stage.plane, &stage.namespace, &schedule).await?;
    let begun = wait::until("upstream's pass to begin", BEGIN, || async {
        upstream.still_up()?;
        Ok(match first_list(stage, mark)? {
            Some(begun) => Probe::Done(begun),
            None => Probe::NotYet("it has listed no pools".into()),
        })
    })
    .await?;
    bench.say(NAME, "upstream's pass has begun");
    let rows = rows.within(PATIENCE).await?;
    let reservations = reservations.within(PATIENCE).await?;
    upstream.still_up()?;
    took(&Meter::of(upstream.process()), begun, rows, reservations)
}

fn took(meter: &Meter, from: Instant, rows: Instant, reservations: Instant) -> Result<Took> {
    Ok(Took {
        rows: rows.saturating_duration_since(from),
        reservations: reservations.saturating_duration_since(from),
        cpu: meter.cpu()?,
        peak: meter.peak()?,
    })
}

/// When upstream first listed the pools.
fn first_list(stage: &Stage, mark: Mark) -> Result<Option<Instant>> {
    let list = |request: &Request| {
        request.user_agent.starts_with("ip-reconciler/") && request.verb == "list"
    };
    first(stage, mark, "ippools", list)
}

/// When the first such request about a resource came in.
fn first(
    stage: &Stage,
    mark: Mark,
    resource: &str,
    is_it: impl Fn(&Request) -> bool,
) -> Result<Option<Instant>> {
    let asked = stage.plane.audit().since(mark)?;
    let mut of_resource = asked.iter().filter(|request| request.resource == resource);
    let Some(first) = of_resource.find(|request| is_it(request)) else {
        return Ok(None);
    };
    let ago = Timestamp::now().duration_since(requests::time(&first.received)?);
    let ago = Duration::try_from(ago).unwrap_or_default();
    Ok(Instant::now().checked_sub(ago))
}

/// A schedule whose only time of the day is the next minute that it cannot miss, so that one pass is all.
fn next_minute() -> Result<String> {
    let soon = Timestamp::now()
        .checked_add(5.seconds())
        .map_err(Error::malformed("the time"))?;
    let soon = soon.to_zoned(TimeZone::UTC).datetime();
    let next = soon
        .checked_add(1.minute())
        .map_err(Error::malformed("the time"))?;
    Ok(format!("{} {} * * *", next.minute(), next.hour()))
}

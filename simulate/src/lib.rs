//! A whole cluster in one process, driven by one number: machines, kubelets, whereabouts, owners of pods, people and a
//! hostile API server around the shipped ipgc, under a paused clock and on one thread.
//!
//! | module | content |
//! |---|---|
//! | `dice` | every random choice |
//! | [`story`], `seeds`, `plots` | a cluster and all that is done to it, as a list; that of a seed |
//! | `world` | the truth: which sandboxes run, which addresses answer |
//! | `cni`, `kubelet`, `mirrors` | whereabouts; the life of a pod; static pods |
//! | `cluster`, `owners`, `people` | machines; the owners of pods; the deeds of the story |
//! | `second` | second sandboxes that no state shows |
//! | `slices`, `resource_claims` | ranges that are cut up among nodes; pods with a ResourceClaim |
//! | `hand` | administrators who run `ipgc release` |
//! | [`faults`], `copies` | faults of the API server; the copies of ipgc, which crash |
//! | `oracle` | what must not be |
//! | [`coverage`] | what many seeds must have seen |
//! | [`shrink`] | the fewest deeds that still show a violation |
//!
//! No socket, no file, no clock of the machine.

mod cluster;
mod cni;
mod copies;
pub mod coverage;
mod dice;
pub mod faults;
mod hand;
mod kubelet;
mod mirrors;
mod oracle;
mod owners;
mod people;
mod plots;
mod resource_claims;
mod second;
mod seeds;
pub mod shrink;
mod slices;
pub mod story;
mod world;

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;
use tokio::{
    runtime::{Builder, RngSeed},
    time::{Instant, sleep},
};

use self::{
    copies::{Copies, END},
    faults::At,
    story::{Deed, Story},
    world::World,
};

/// What a run showed.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What must not be, and was.
    pub violations: Vec<String>,
    /// How often each thing happened.
    pub counts: BTreeMap<String, u64>,
    /// How many requests the first copy sent for rows and reservations.
    pub requests: usize,
    /// The story as it went, if it was wanted.
    pub trace: Vec<(Duration, String)>,
}

/// In the end no wait but that of a leftover is longer. Then it is looked more often whether anything is left.
const FIRST_LOOK: Duration = Duration::from_secs(300);
const LOOK: Duration = Duration::from_secs(100);
/// As long as something is left, all machines are booted anew after this time, again and again.
const REBOOT: Duration = Duration::from_secs(900);

/// Plays a story to its end.
///
/// # Errors
/// No runtime could be made.
pub fn play(story: &Story, trace: bool) -> Result<Outcome, std::io::Error> {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        // The order in which tokio wakes tasks that wait for one thing.
        .rng_seed(RngSeed::from_bytes(&story.seed.to_le_bytes()))
        .build()?;
    Ok(runtime.block_on(run(story, trace)))
}

async fn run(story: &Story, trace: bool) -> Outcome {
    ipgc::chance::repeat(story.seed);
    let world = World::new(story, trace);
    let of_ipgc = world.clone();
    ipgc::clock::set_wall(move || of_ipgc.wall());
    world.begin();
    for machine in 0..story.machines {
        tokio::spawn(world.clone().beat(machine));
    }
    let forbidden = story
        .immutable
        .map(|it| faults::forbid_claims(&world.server, it.code));
    if let Some(returns) = story.returns {
        world.return_names(&story.owners, returns);
    }
    let mut copies = Copies::start(&world, story);
    for (number, owner) in story.owners.iter().enumerate() {
        tokio::spawn(world.clone().own(number, owner.clone()));
    }
    if world.has_resource_claims() {
        tokio::spawn(world.clone().control_claims());
    }
    if story.upstream {
        tokio::spawn(world.clone().reconcile());
    }
    let last = story.steps.last().map_or(Duration::ZERO, |step| step.at);
    let faults = story.steps.iter().filter_map(|step| match step.deed {
        Deed::Fault(_, time) => Some(step.at + time),
        _ => None,
    });
    let faults = faults.max().unwrap_or_default();
    let people = {
        let (world, story) = (world.clone(), story.clone());
        tokio::spawn(async move { world.act(&story).await })
    };
    trouble(&world, story, &mut copies).await;
    // The longest fault of most stories.
    let end = Instant::now() + Duration::from_secs(200);
    copies
        .look_after_until(end.max(world.begun() + faults))
        .await;
    drop(people.await);
    let policy = story.policy();
    let verdicts = world.verdicts(&policy).await;
    world.heal();
    let is_mended = story.immutable.is_none_or(|it| it.is_mended);
    if let Some(rule) = &forbidden {
        world.note("a claim is forbidden", rule.hits());
        if is_mended {
            world.tell("claims are allowed again", "");
            rule.remove();
        }
    }
    world.tell("the end begins", format_args!("{last:?} after the begin"));
    let (mut left, mut kept, end) = (Vec::new(), BTreeMap::new(), Instant::now() + END);
    // Where claims stay forbidden, each reservation is tried now and then, for each network that has its address.
    let waiting = || {
        let reservations = if is_mended { 0 } else { world.reservations() };
        reservations * story.nets.len() as u64
    };
    let (mut look, mut reboot) = (FIRST_LOOK, Instant::now() + REBOOT);
    while Instant::now() < end {
        let next = Instant::now() + std::mem::replace(&mut look, LOOK);
        copies.look_after_until(next).await;
        // Rows of ends that may outlast W go with what ran on their machines.
        if Instant::now() >= reboot {
            world.boot_all();
            reboot += REBOOT;
        }
        world.delete_foreign_reservations();
        (left, kept) = world.left_over(&policy, !is_mended).await;
        if left.is_empty() && copies.queued() <= waiting() {
            break;
        }
    }
    let mut violations = std::mem::take(&mut world.state().wrong);
    violations.extend(world.freed_alive());
    violations.extend(left);
    let queued = copies.queued();
    let ours = copies.stop();
    if queued > waiting() {
        violations.push(format!("left at the end: {queued} cases in the queue"));
    }
    let sent = world.server.requests();
    let work = sent.count(|it| &*it.client == "ipgc-0.1" && faults::is_work(it));
    let mut trace = requests(&world);
    let mut state = world.state();
    trace.extend(state.trace.take().unwrap_or_default());
    trace.sort_by_key(|(at, _)| *at);
    let mut counts = std::mem::take(&mut state.counts);
    counts.extend(ours.into_iter().chain(kept).chain(verdicts));
    Outcome {
        violations,
        requests: work,
        counts,
        trace,
    }
}

/// Does to ipgc and its requests what the story has for them.
async fn trouble(world: &World, story: &Story, copies: &mut Copies) {
    for (number, step) in story.steps.iter().enumerate() {
        copies.look_after_until(world.begun() + step.at).await;
        match &step.deed {
            Deed::Restart(copy) => copies.restart(*copy, world.percent(50)).await,
            Deed::CrashAtWrite(copy, left, is_done) => copies.crash_at(
                *copy,
                At {
                    left: *left,
                    is_done: *is_done,
                    only_writes: true,
                },
            ),
            Deed::Fault(fault, time) => {
                world.tell(
                    &format!("fault: {}", fault.name()),
                    format_args!("{fault:?} for {time:?}"),
                );
                let rules = fault.begin(&world.server, story.seed ^ number as u64);
                let time = *time;
                world.deafen(time);
                tokio::spawn(async move {
                    sleep(time).await;
                    rules.iter().for_each(testkit::Rule::remove);
                });
            }
            _ => {}
        }
    }
}

/// The requests of ipgc, as lines of the trace.
fn requests(world: &World) -> Vec<(Duration, String)> {
    if world.state().trace.is_none() {
        return Vec::new();
    }
    let requests = world.server.requests();
    let ours = requests.iter();
    let ours = ours.filter(|it| it.client.starts_with(faults::OURS));
    let line = |it: &testkit::Request| {
        let status = it
            .status
            .map_or_else(|| "no answer".to_owned(), |status| status.to_string());
        // The rest says the time of the machine.
        let body = match &*it.resource {
            "ippools" => String::from_utf8_lossy(&it.body).into_owned(),
            "events" => {
                let event: Value = serde_json::from_slice(&it.body).unwrap_or_default();
                format!("{}: {}", event["reason"], event["note"])
            }
            _ => String::new(),
        };
        let place = [&*it.namespace, &it.name].join("/");
        format!(
            "    {} {} {} {place} {body} -> {status}",
            it.client, it.verb, it.resource
        )
    };
    ours.map(|it| (it.at.duration_since(world.begun()), line(it)))
        .collect()
}

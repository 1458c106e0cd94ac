//! ipgc on real nodes: installed by its manifests, beside kubelets, containerd, multus and whereabouts.
//!
//! ```text
//!  scenario ──▶ pods, networks ──▶ kube-apiserver ◀── ipgc, two replicas, as users run it
//!     │                                 ▲ ▲
//!     │ kills, cuts, loses DEL          │ └── kubelets ─▶ containerd ─▶ multus ─▶ whereabouts
//!     └──▶ nodes ───────────────────────┘
//!  detector: reads every address in every sandbox, from the first scenario to the last
//! ```
//!
//! ```sh
//! cargo test -p e2e --test node                  # the short set
//! cargo test -p e2e --test node -- --long        # all of it
//! cargo test -p e2e --test node -- --fire        # those of the set, while ipgc is killed again and again
//! cargo test -p e2e --test node -- lost churn    # those whose name has one of these words
//! cargo test -p e2e --test node -- --release     # the artifacts of a release: built, signed, pulled, installed, removed
//! ```
//!
//! A harness of its own: most scenarios wait for minutes, so they wait together, on one cluster, each in a
//! namespace and a range of its own; those that hurt a node or ipgc run alone. It needs root; without, it
//! fails, and so `cargo test` leaves it out unless it is named.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod ends;
mod figures;
mod networks;
mod outages;
mod release;
mod stage;
mod support;
mod wanted;

use std::{path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use clap::Parser;
use e2e::{Error, Result};
use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};

use stage::Stage;

/// The longest scenario of all needs half of it, and that under fire most of it.
const SCENARIO: Duration = Duration::from_secs(1800);

/// Its failure ends the run.
const DETECTOR: &str = "detector";

/// The scenarios of the node tier.
#[derive(Parser)]
#[expect(clippy::struct_excessive_bools, reason = "flags")]
struct Arguments {
    /// Words of names; none: all
    words: Vec<String>,
    /// The long ones as well
    #[arg(long)]
    long: bool,
    /// While ipgc is killed at random moments; `--long` does this at its end
    #[arg(long)]
    fire: bool,
    /// The artifacts of a release in place of a binary and the manifests, in a scenario of its own
    #[arg(long, conflicts_with_all = ["long", "fire", "program", "words"])]
    release: bool,
    /// Print the names and do nothing
    #[arg(long)]
    list: bool,
    /// The static binary of ipgc; none: it is built
    #[arg(long)]
    program: Option<PathBuf>,
}

/// When a scenario runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Before others until it has killed ipgc, then beside them. Under fire alone.
    First,
    /// Beside others.
    Together,
    /// Alone, since it hurts a node, ipgc or the API server.
    Alone,
    /// Alone, and not under fire: it kills ipgc by itself, or measures.
    Once,
}

/// Which set a scenario belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Set {
    Short,
    Long,
    /// With `--release` only, and then alone.
    Release,
}

/// One scenario.
struct Scenario {
    name: &'static str,
    turn: Turn,
    set: Set,
    run: fn(Arc<Stage>) -> BoxFuture<'static, Result<()>>,
}

macro_rules! scenarios {
    ($($turn:ident $set:ident $module:ident :: $name:ident),* $(,)?) => {
        &[$(Scenario {
            name: stringify!($name),
            turn: Turn::$turn,
            set: Set::$set,
            run: |stage| $module::$name(stage).boxed(),
        }),*]
    };
}

/// In the order in which those that run alone run.
const SCENARIOS: &[Scenario] = scenarios![
    Together Short ends::graceful_delete_leaves_nothing_to_do,
    Together Short ends::lost_del_is_freed_after_the_cooldown,
    Together Short ends::forced_delete_with_a_live_kubelet,
    Together Long ends::forced_while_the_kubelet_tries_again,
    Together Short ends::forced_while_a_hook_runs,
    Together Short ends::completed_job_gives_its_address_back,
    Together Short ends::evicted_pod_gives_its_address_back,
    Together Short networks::default_network_by_whereabouts,
    Together Short networks::attachments_without_version,
    Together Short networks::node_slices_are_pools_of_their_own,
    Together Short networks::interface_plugged_into_a_running_pod,
    Together Short ends::deleted_while_it_is_set_up,
    Together Short ends::stateful_set_up_and_down,
    First Short outages::silent_node_holds_until_it_is_fenced,
    Alone Long outages::silent_node_holds_until_it_is_back,
    Alone Long outages::removed_node_is_waited_for,
    Alone Long outages::dead_node_is_removed,
    Once Long outages::churn_under_fire,
    Alone Long outages::churn_beside_upstream,
    Once Long figures::time_to_free_beside_upstream,
    Once Release release::installed_upgraded_and_removed,
];

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let chosen: Vec<&'static Scenario> = SCENARIOS
        .iter()
        .filter(|one| {
            if arguments.release != (one.set == Set::Release) {
                return false;
            }
            let words = &arguments.words;
            let named = words.iter().any(|word| one.name.contains(word.as_str()));
            let set = arguments.long || one.set != Set::Long;
            let turn = !arguments.fire || one.turn != Turn::Once;
            turn && (named || words.is_empty() && set)
        })
        .collect();
    if arguments.list {
        for one in &chosen {
            println!("{:?} {:?} {}", one.turn, one.set, one.name);
        }
        return ExitCode::SUCCESS;
    }
    if chosen.is_empty() {
        eprintln!("node: no scenario has one of these words in its name");
        return ExitCode::FAILURE;
    }
    match run(&chosen, arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("node: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(chosen: &[&'static Scenario], arguments: Arguments) -> Result<()> {
    let began = std::time::Instant::now();
    let stage = if arguments.release {
        Stage::of_release().await?
    } else {
        Stage::new(arguments.program).await?
    };
    let stage = Arc::new(stage);
    println!("node: up after {} s", began.elapsed().as_secs());
    let of = |turns: &'static [Turn]| chosen.iter().filter(|one| turns.contains(&one.turn));
    let start = |one: &&'static Scenario| one_scenario(one, Arc::clone(&stage));
    let mut failures = Vec::new();
    let mut ran = 0;
    if !arguments.fire {
        let mut running: FuturesUnordered<_> = of(&[Turn::First]).map(start).collect();
        tokio::select! {
            () = drain(&mut running, &stage, &mut failures) => {}
            () = stage.others_may_begin.notified() => {}
        }
        ran += of(&[Turn::First, Turn::Together]).count();
        running.extend(of(&[Turn::Together]).map(start));
        drain(&mut running, &stage, &mut failures).await;
        for one in of(&[Turn::Alone, Turn::Once]) {
            // A wrong free leaves an address in use twice, which harms all later scenarios.
            if failures.iter().any(|failed| failed == DETECTOR) {
                break;
            }
            running.push(start(one));
            ran += 1;
            drain(&mut running, &stage, &mut failures).await;
        }
    }
    if (arguments.fire || arguments.long) && failures.is_empty() {
        println!("node: under fire");
        let mut running: FuturesUnordered<_> = of(&[Turn::Together]).map(start).collect();
        ran += running.len();
        drain_under_fire(&mut running, &stage, &mut failures).await;
        for one in of(&[Turn::First, Turn::Alone]) {
            if !failures.is_empty() {
                break;
            }
            running.push(start(one));
            ran += 1;
            drain_under_fire(&mut running, &stage, &mut failures).await;
        }
    }
    if failures.is_empty() {
        stage.end().await?;
    } else {
        stage.keep_evidence();
    }
    println!("node: {ran} scenarios in {} s", began.elapsed().as_secs());
    if failures.is_empty() {
        return Ok(());
    }
    Err(Error::Other(format!("failed: {}", failures.join(", "))))
}

/// Waits for all that run; a double of our making ends them at once.
async fn drain(
    running: &mut FuturesUnordered<impl Future<Output = (&'static str, Result<()>)>>,
    stage: &Stage,
    failures: &mut Vec<String>,
) {
    while !running.is_empty() {
        tokio::select! {
            Some((name, result)) = running.next() => {
                if let Err(error) = result {
                    println!("FAIL {name}\n{error}");
                    failures.push(name.to_owned());
                }
            }
            error = stage.wrong_free() => {
                println!("FAIL {DETECTOR}\n{error}");
                failures.push(DETECTOR.to_owned());
                running.clear();
            }
        }
    }
}

/// The same, while ipgc is killed at random moments.
async fn drain_under_fire(
    running: &mut FuturesUnordered<impl Future<Output = (&'static str, Result<()>)>>,
    stage: &Stage,
    failures: &mut Vec<String>,
) {
    tokio::select! {
        () = drain(running, stage, failures) => {}
        error = stage.fire() => {
            println!("FAIL fire\n{error}");
            failures.push("fire".to_owned());
            running.clear();
        }
    }
}

async fn one_scenario(one: &'static Scenario, stage: Arc<Stage>) -> (&'static str, Result<()>) {
    let began = std::time::Instant::now();
    // A panic is a failure of this scenario, not the end of all.
    let task = tokio::spawn((one.run)(stage));
    let abort = task.abort_handle();
    let result = match tokio::time::timeout(SCENARIO, task).await {
        Ok(Ok(result)) => result,
        Ok(Err(panic)) => Err(Error::Other(panic.to_string())),
        Err(_) => {
            abort.abort();
            Err(Error::late(one.name, SCENARIO, "it still ran"))
        }
    };
    if result.is_ok() {
        println!("ok   {} ({} s)", one.name, began.elapsed().as_secs());
    }
    (one.name, result)
}

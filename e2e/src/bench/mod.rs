//! The benchmark: what ipgc costs and how fast it is, on a real etcd and kube-apiserver.
//!
//! ```text
//!  mass_delete, memory, …   one scene each: seed, let things happen, measure, judge
//!    │
//!  stage        servers of the scene's own, the manifests' account, `ipgc` as a process
//!    ├ seed       writes a population, through etcd ── template, population, etcd
//!    ├ load       the kubelet's part in the end of pods
//!    ├ watch      when rows, reservations and pods went
//!    ├ requests   what ipgc asked, from the audit log
//!    ├ bare_loop  what the server takes for as many writes of reservations
//!    ├ upstream_loop  upstream's loop on 100 pods, once for all scenes
//!    ├ dump       what an audit of files reads
//!    ├ raw        requests as bytes
//!    └ measure    memory and CPU of a process
//!    │
//!  table        lines with goals
//! ```
//!
//! Every ratio is to a figure of the same run: upstream's own loop, or a bare loop of requests against
//! the same server. A scene that comes to no end is reported and does not keep the others from running.
//! The short form is a tenth of the size and judges only what no busy machine changes: counts of requests, and an audit's memory.

mod audit;
mod bare_loop;
mod dump;
pub(crate) mod etcd;
mod latency;
pub(crate) mod load;
mod mass_delete;
pub(crate) mod measure;
mod memory;
pub(crate) mod population;
pub(crate) mod raw;
mod requests;
pub(crate) mod seed;
pub(crate) mod stage;
mod start;
mod sweep;
pub(crate) mod table;
pub(crate) mod template;
mod upstream_loop;
pub(crate) mod watch;

use std::{fs, path::PathBuf, time::Instant};

use futures::{FutureExt as _, future::LocalBoxFuture};
use tokio::sync::OnceCell;

use crate::{Result, ours, process::said};
use stage::Stage;
use table::Line;
use upstream_loop::Took;

/// Arguments of `e2e bench`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// A tenth of the size; only counts of requests, and an audit's memory, can fail
    #[arg(long)]
    short: bool,

    /// Run this scene only; may be given several times
    #[arg(long = "scene", value_name = "NAME", value_parser = names())]
    scenes: Vec<String>,

    /// Measure this ipgc instead of building the static one
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// One scene.
struct Scene {
    name: &'static str,
    /// Whether a short run has it, too, when it is not asked for by its name: those that count
    /// requests, and the quick ones.
    is_short: bool,
    run: for<'b> fn(&'b Bench) -> LocalBoxFuture<'b, Result<Vec<Line>>>,
}

macro_rules! scenes {
    ($($name:expr, $is_short:literal, $run:expr;)*) => {
        &[$(Scene { name: $name, is_short: $is_short, run: |bench| ($run)(bench).boxed_local() }),*]
    };
}

/// All scenes, in the order in which they run: name, whether it is part of a short run, function.
const SCENES: &[Scene] = scenes! {
    mass_delete::REPLICA_SET.name, true, |bench| mass_delete::run(bench, &mass_delete::REPLICA_SET);
    mass_delete::STATEFUL_SET.name, true, |bench| mass_delete::run(bench, &mass_delete::STATEFUL_SET);
    mass_delete::ROWS.name, true, |bench| mass_delete::run(bench, &mass_delete::ROWS);
    memory::NAME, false, memory::run;
    sweep::NAME, false, sweep::run;
    latency::NAME, true, latency::run;
    start::NAME, true, start::run;
    audit::NAME, true, audit::run;
};

fn names() -> clap::builder::PossibleValuesParser {
    SCENES
        .iter()
        .map(|scene| scene.name)
        .collect::<Vec<_>>()
        .into()
}

/// The state that all scenes of a run share.
struct Bench {
    /// The binary that is measured.
    program: PathBuf,
    short: bool,
    /// The cost of upstream's loop, once a scene has asked for it.
    upstream: OnceCell<Took>,
    begun: Instant,
}

impl Bench {
    /// A size, or a tenth of it.
    fn size(&self, full: usize) -> usize {
        if self.short { full / 10 } else { full }
    }

    /// Servers of a scene's own.
    async fn stage(&self) -> Result<Stage> {
        Stage::new(&self.program).await
    }

    /// Tells the person who waits what happens now.
    fn say(&self, scene: &str, what: impl AsRef<str>) {
        let at = self.begun.elapsed().as_secs();
        eprintln!("{at:>5} s  {scene}: {}", what.as_ref());
    }
}

/// Runs the scenes and prints the table. False if a short run has a count over its goal, or a scene came to
/// no end.
pub async fn run(args: Args) -> Result<bool> {
    let program = if let Some(program) = args.program {
        fs::canonicalize(&program)?
    } else {
        eprintln!("building the static ipgc, which takes minutes the first time");
        ours::static_program().await?
    };
    let version = said(std::process::Command::new(&program).arg("--version"))?;
    let size = fs::metadata(&program)?.len();
    let bench = Bench {
        program,
        short: args.short,
        upstream: OnceCell::new(),
        begun: Instant::now(),
    };
    let (mut lines, mut broken) = (Vec::new(), Vec::new());
    for scene in SCENES {
        let asked = args.scenes.iter().any(|name| name == scene.name);
        let ordinary = args.scenes.is_empty() && (scene.is_short || !bench.short);
        if !asked && !ordinary {
            continue;
        }
        match (scene.run)(&bench).await {
            Ok(of_scene) => lines.extend(of_scene),
            Err(error) => {
                bench.say(scene.name, format!("came to no end: {error}"));
                broken.push(scene.name);
            }
        }
    }
    if bench.short {
        lines = lines.into_iter().map(Line::of_short_run).collect();
    }
    println!("{}, {size} bytes", version.trim());
    println!("{}", table::table(&lines));
    let failed = bench.short && lines.iter().any(|line| line.pass() == Some(false));
    for scene in &broken {
        println!("{scene}: came to no end, as told above");
    }
    Ok(broken.is_empty() && !failed)
}

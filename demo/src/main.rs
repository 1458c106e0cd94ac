//! The main job of ipgc, told on an API server that is part of this process, or on a real cluster.
//!
//! ipgc itself is the real one, as a library. Everybody else is played: the kubelet, the CNI plugin,
//! and the person who deletes pods. The printed values are read back from the API server. The demo
//! fails when the story does not come out as told.

mod cluster;
mod failure;
mod frame;
mod ledger;
mod look;
mod play;
mod print;
mod stage;
mod story;

use std::{panic::AssertUnwindSafe, process::ExitCode, time::Duration};

use clap::Parser;
use futures::FutureExt;
use ipgc::run::{Phase, Running};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::{sleep, timeout},
};

use crate::{
    cluster::Cluster,
    failure::Failure,
    print::{Paper, Tone},
    stage::Stage,
};

/// Longest time until ipgc has read all pods of a cluster.
const READY_WAIT: Duration = Duration::from_secs(60);
/// Longest time that the story may take. After that the pod garbage collector of a real cluster
/// would join in.
const STORY_WAIT: Duration = Duration::from_secs(40);

/// Shows in a few seconds how ipgc gives back leaked IP addresses, and which ones it keeps.
///
/// Without flags everything happens in this process, on an embedded API server. With --kubeconfig
/// the same story is played on a real cluster, in a new namespace that is removed at the end, also
/// on Ctrl-C and on failure. Nothing else there is written: the pods are bound to a node that does
/// not exist, and the client that ipgc gets refuses every write outside of that namespace.
#[derive(Debug, Parser)]
#[command(name = "demo", version, verbatim_doc_comment, after_help = EXAMPLES)]
struct Args {
    #[command(flatten)]
    cluster: cluster::Place,
}

const EXAMPLES: &str = "\
Examples:
  cargo run -p demo
      nothing needed but Rust
  cargo run -p demo -- --kubeconfig ~/.kube/config --context kind-kind
      on a real cluster
  cargo run -p demo -- --kubeconfig ~/.kube/config --install-crds
      on a cluster without whereabouts and multus

Exit codes:
  0    the story came out as told
  1    it did not
  2    it cannot be played there
  130  interrupted";

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let paper = Paper::stdout();
    let told = match Signals::new() {
        Ok(mut signals) => match &args.cluster.kubeconfig {
            None => perform(&Stage::embedded(), paper, &mut signals).await,
            Some(file) => on_cluster(&args.cluster, file, paper, &mut signals).await,
        },
        Err(error) => Err(Failure::Setup(format!(
            "cannot listen for signals: {error}"
        ))),
    };
    match told {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("demo: {failure}");
            ExitCode::from(failure.code())
        }
    }
}

/// Plays on a real cluster, and leaves it as it was.
async fn on_cluster(
    args: &cluster::Place,
    file: &std::path::PathBuf,
    paper: Paper,
    signals: &mut Signals,
) -> Result<(), Failure> {
    let (cluster, stage) = tokio::select! {
        opened = Cluster::open(args, file) => opened?,
        () = signals.next() => return Err(Failure::Interrupted),
    };
    if !cluster.installed.is_empty() {
        let names = cluster.installed.join(" ");
        paper.line(Tone::Kept, "Installed the CRDs that were missing. They stay; to remove them, with all their objects:");
        paper.line(Tone::Kept, &format!("kubectl delete crd {names}"));
        paper.gap();
    }
    let told = match cluster.make_namespace().await {
        Ok(()) => perform(&stage, paper, signals).await,
        Err(failure) => Err(failure),
    };
    paper.gap();
    tokio::select! {
        words = cluster.clean_up() => paper.line(Tone::Faint, &words),
        () = signals.next() => {
            let name = &stage.namespace;
            eprintln!("demo: remove the rest with: kubectl delete namespace {name}");
            return Err(Failure::Interrupted);
        }
    }
    told
}

/// Starts ipgc, tells the story, and stops ipgc whatever came of it.
async fn perform(stage: &Stage, paper: Paper, signals: &mut Signals) -> Result<(), Failure> {
    let mut running = stage.collector().start();
    let told = tokio::select! {
        told = tell(stage, paper, &mut running) => told,
        () = signals.next() => Err(Failure::Interrupted),
    };
    running.stop();
    let ended = running.done().await;
    if matches!(told, Err(Failure::Story(_))) {
        paper.title("ipgc's requests up to here");
        paper.table(&frame::requests(&stage.ledger.since(0)));
    }
    told?;
    ended.map_err(|error| Failure::Story(format!("ipgc failed: {error}")))
}

async fn tell(stage: &Stage, paper: Paper, running: &mut Running) -> Result<(), Failure> {
    frame::introduce(stage, paper);
    let ready = timeout(READY_WAIT, running.ready()).await;
    if ready != Ok(true) {
        return Err(Failure::Story("ipgc did not become ready".to_owned()));
    }
    let swept = timeout(READY_WAIT, past_is_known(running)).await;
    if swept.is_err() {
        return Err(Failure::Story("ipgc did not sweep".to_owned()));
    }
    let mut phase = running.context.phase.subscribe();
    let ended = phase.wait_for(|phase| *phase == Phase::Done);
    // A panic must not keep the cluster from being cleaned up.
    let story = AssertUnwindSafe(story::tell(stage, paper)).catch_unwind();
    tokio::select! {
        told = timeout(STORY_WAIT, story) => match told {
            Ok(Ok(told)) => told,
            Ok(Err(_)) => Err(Failure::Story("a panic, see above".to_owned())),
            Err(_) => Err(Failure::Story(format!("it took longer than {}s", STORY_WAIT.as_secs()))),
        },
        _ = ended => Err(Failure::Story("ipgc ended in the middle".to_owned())),
    }
}

/// Waits until ipgc knows that nobody who was there before it left a row: until then it counts with
/// such a predecessor of every pod whose name may return, and waits longer. The second sweep tells.
async fn past_is_known(running: &Running) {
    while running.context.counters.sweeps_ended.get() < 2 {
        sleep(Duration::from_millis(50)).await;
    }
}

/// Ctrl-C and SIGTERM, from the first line on.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

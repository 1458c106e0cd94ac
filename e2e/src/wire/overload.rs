//! All pods of ten pools end at once, while half of all of ipgc's requests are answered with 429.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use ipgc::api::{IpPool, Reservation};

use super::{
    faults::{Fault, Weather},
    samples::Samples,
    stage::{Behind, program},
};
use crate::{
    Error, Result,
    bench::{load::Kubelet, population::Population, table::float, watch},
};

/// Nodes of the pods, and connections of their kubelets.
const NODES: usize = 20;
const KUBELETS: usize = 32;

/// Megabytes of ipgc at the most.
const MEMORY: f64 = 160.0;

/// Until all is free, and until nothing is open any more after that.
const PATIENCE: Duration = Duration::from_mins(90);
const CLOSED: Duration = Duration::from_secs(60);

/// How often ipgc is measured.
const EVERY: Duration = Duration::from_secs(1);

/// Arguments of `e2e overload`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Pods that end
    #[arg(long, default_value_t = 50_000)]
    pods: usize,

    /// Let this ipgc work instead of building the static one
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// The command: prints what happened, and fails if something is not as it should be.
pub async fn run(args: Args) -> Result<()> {
    play(&program(args.program).await?, args.pods).await
}

/// Plays it with this ipgc and so many pods.
pub async fn play(program: &Path, pods: usize) -> Result<()> {
    let behind = Behind::new().await?;
    let population = Population {
        nodes: NODES,
        pools: 10,
        ..behind.stage.population(pods)
    };
    behind.say(&format!("seeding {pods} pods"));
    behind.stage.seeder.everything(&population).await?;
    let _beats = behind.beats(NODES).await?;
    let collector = behind.start(program, &[]).await?;
    let client = behind.stage.client("wire").await?;
    let home = &population.namespace;
    let rows = watch::emptied::<IpPool>(&client, home, population.pools).await?;
    let reservations = watch::emptied::<Reservation>(&client, home, pods).await?;
    behind.proxy.faults().set(Some(Weather::overload()));
    let kubelet = Kubelet::new(behind.stage.client("kubelet").await?);
    behind.say("all pods end");
    let begun = Instant::now();
    let mut samples = Samples::new(EVERY);
    let ends = async {
        let gone = kubelet.end_all(&population, 0..pods, KUBELETS).await?;
        behind.say("all pods are gone");
        let rows = collector.freed(rows, PATIENCE).await?;
        behind.say("all rows are gone");
        let reservations = collector.freed(reservations, PATIENCE).await?;
        Ok::<_, Error>([gone, rows, reservations])
    };
    let ends = samples.take(&behind, &collector, ends).await??;
    let [gone, rows, reservations] = ends.map(|end| end.saturating_duration_since(begun));
    let mut open = 0.0;
    let asked = Instant::now();
    while asked.elapsed() < CLOSED {
        open = samples.measure(&behind, &collector).await?.queue();
        if open == 0.0 {
            break;
        }
        tokio::time::sleep(EVERY).await;
    }
    let most = samples.most();
    println!(
        "{pods} pods were gone after {gone:.0?}, their rows after {rows:.0?}, their reservations after {reservations:.0?}"
    );
    println!("ipgc at the most: {most}; {open} cases were open at the end");
    let busy = behind.proxy.faults().happened(Fault::Busy);
    println!("{busy:>8}  answers of 429");
    let mut wrong = Vec::new();
    if busy == 0 {
        wrong.push("no request was answered with 429".to_owned());
    }
    if most.megabytes() > MEMORY {
        wrong.push(format!("more than {MEMORY} MB"));
    }
    if most.queue() > float(pods as u64) {
        wrong.push("more open cases than pods".to_owned());
    }
    if open > 0.0 {
        wrong.push("cases are open though nothing is left".to_owned());
    }
    behind.end(collector, wrong).await
}

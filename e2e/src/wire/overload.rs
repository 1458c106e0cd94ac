//! All pods of ten pools end at once, while half of all of ipgc's requests are answered with 429.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use ipgc::api::{IpPool, Reservation};

use super::{
    BEAT, behind,
    faults::{Fault, Weather},
    samples::{Samples, open_cases, words},
};
use crate::{
    Error, Result,
    bench::{load::Kubelet, population::Population, table::float, watch},
    wait::{self, Probe},
};

/// Nodes of the pods, and connections of their kubelets.
const NODES: usize = 20;
const KUBELETS: usize = 32;

/// Megabytes of ipgc at the most.
const MEMORY: f64 = 160.0;

/// Until all is free, and until no case is open after that.
const PATIENCE: Duration = Duration::from_mins(90);
const CLOSED: Duration = Duration::from_secs(60);

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
    let pods = args.pods;
    let (stage, proxy, _second) = behind(args.program).await?;
    let population = Population {
        nodes: NODES,
        pools: 10,
        ..stage.population(pods)
    };
    stage.seeder.everything(&population).await?;
    let _beats = stage.beats(NODES, BEAT).await?;
    let collector = stage.started(&[]).await?;
    let client = stage.client("wire").await?;
    let home = &population.namespace;
    let rows = watch::emptied::<IpPool>(&client, home, population.pools).await?;
    let reservations = watch::emptied::<Reservation>(&client, home, pods).await?;
    proxy.faults().set(Some(Weather::overload()));
    let kubelet = Kubelet::new(stage.client("kubelet").await?);
    let begun = Instant::now();
    let ends = async {
        let gone = kubelet.end_all(&population, 0..pods, KUBELETS).await?;
        let rows = collector.freed(rows, PATIENCE).await?;
        let reservations = collector.freed(reservations, PATIENCE).await?;
        Ok::<_, Error>([gone, rows, reservations])
    };
    let (samples, ends) = Samples::take(&proxy, &collector, ends).await?;
    let [gone, rows, reservations] = ends?.map(|end| end.saturating_duration_since(begun));
    let closed = wait::until("no case to be open", CLOSED, || async {
        let open = open_cases(&collector.scrape().await?)?;
        Ok(match open {
            0.0 => Probe::Done(()),
            _ => Probe::NotYet(format!("{open} are")),
        })
    });
    let closed = closed.await;
    let busy = proxy.faults().happened(Fault::Busy);
    println!(
        "{pods} pods were gone after {gone:.0?}, their rows after {rows:.0?}, their reservations after {reservations:.0?}"
    );
    println!(
        "ipgc at the most: {}; {busy} answers of 429",
        words(samples.most)
    );
    let [memory, _, _, queue] = samples.most;
    let wrong = [
        (busy == 0).then(|| "no request was answered with 429".to_owned()),
        (memory > MEMORY).then(|| format!("more than {MEMORY} MB")),
        (queue > float(pods as u64)).then(|| "more open cases than pods".to_owned()),
        closed.err().map(|error| error.to_string()),
    ];
    let wrong: Vec<_> = wrong.into_iter().flatten().collect();
    if !wrong.is_empty() {
        return Err(collector.fault(wrong.join("\n")));
    }
    collector.stop().await?;
    stage.stop().await
}

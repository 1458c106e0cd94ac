//! ipgc over a bad wire: `ipgc run` as a process behind a proxy that breaks connections, answers and watches, while
//! pods come and go.
//!
//! ```text
//!  wire (here)  two API servers on one store, of which one lags, a proxy before both, `ipgc run` that knows it alone
//!    ├ proxy      does what `faults` tell ── bodies
//!    ├ samples    memory, descriptors, connections and open work of ipgc, and how they grow
//!    └ churn      pods that come and go, and a ledger of what may be freed
//!  overload     all pods end at once
//! ```
//!
//! The pods, rows and reservations are written, and the rows watched, without the proxy. A fault that never happened
//! fails the scene.

mod bodies;
mod churn;
mod faults;
pub mod overload;
mod proxy;
mod samples;

use std::{
    fmt::Debug,
    ops::Range,
    path::PathBuf,
    time::{Duration, Instant},
};

use crate::{
    Error, Result,
    bench::{stage::Stage, table::float},
    ours::static_program,
    process::Process,
    wait,
};
use churn::Churn;
use faults::{Fault, Weather};
use proxy::Proxy;
use samples::{Samples, words};

/// How many nodes there are, and how often each renews its Lease.
const NODES: usize = 4;
const BEAT: Duration = Duration::from_secs(2);

/// The seconds that a watch lives before something happens to it.
const LIFE: Range<f64> = 5.0..30.0;

/// ipgc notices within 90 s that a watch is half-open. None gets so later than this before the faults end.
const DEAF: Duration = Duration::from_mins(2);

/// Of ipgc, at the most. Each of two namespaces may have 64 writes of reservations in flight, where all hang.
const CONNECTIONS: f64 = 160.0;
const MEMORY: f64 = 100.0;

/// Evidence of ends is kept for ten minutes, so until then the memory grows with their number. From then on it may
/// grow by so many megabytes an hour, in a run that lasts so long.
const WARM: Duration = Duration::from_mins(12);
const SOAK: Duration = Duration::from_mins(20);
const GROWTH: f64 = 8.0;

/// After the last fault what pods that were deleted by force left may stay for so long. Their nodes' kubelets have to be
/// seen at work since their ends, and after Leases that were read late this is known a minute late at the most.
const FORCED: Duration = Duration::from_secs(120);

/// While a watch is half-open, pods of a few seconds are born and end unseen: more than run at a time, which opens the
/// breaker for half an hour. Under load an API server may take ten seconds from the first write of a deletion by force to
/// its last; a kubelet that is at work for longer than it needs meanwhile counts as stuck.
const FLAGS: [&str; 5] = [
    "--grace=1s",
    "--del-budget=10s",
    "--add-budget=1s",
    "--max-pod-grace=10s",
    "--breaker-fraction=1",
];

/// How long it is watched after all is well.
const MORE: Duration = Duration::from_secs(3);

/// Arguments of `e2e wire`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// How long the faults last; from 20 minutes on the growth of memory is judged
    #[arg(long, default_value_t = 10)]
    minutes: u64,

    /// Pods that begin, and end, each second
    #[arg(long, default_value_t = 50)]
    rate: u32,

    /// Seconds after the faults until all is well again, but for what pods deleted by force left
    #[arg(long, default_value_t = 30)]
    whole: u64,

    /// Let this ipgc work instead of building the static one
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// Two API servers on one store, of which one lags, and a proxy before both, by which ipgc goes. The second server ends
/// with its process.
async fn behind(program: Option<PathBuf>) -> Result<(Stage, Proxy, Process)> {
    let program = match program {
        Some(program) => program,
        None => static_program().await?,
    };
    let mut stage = Stage::new(&program).await?;
    let (second, url) = stage.plane.another_api_server().await?;
    let proxy = Proxy::start(&stage.plane, &url).await?;
    stage.access = stage.access.by_way_of(proxy.url());
    Ok((stage, proxy, second))
}

/// The command: prints what happened, and fails if something is not as it should be.
pub async fn run(args: Args) -> Result<()> {
    let minutes = Duration::from_mins(args.minutes);
    let begun = Instant::now();
    let say = |what: &str| eprintln!("{:>5} s  {what}", begun.elapsed().as_secs());
    let (stage, proxy, _second) = behind(args.program).await?;
    let churn = Churn::prepare(&stage, NODES).await?;
    let _beats = stage.beats(NODES, BEAT).await?;
    let collector = stage.started(&FLAGS).await?;
    say("ipgc has swept");
    let faults = proxy.faults();
    let mut audit = churn.audit();
    let mut lives = churn.begin(Duration::from_secs(1) / args.rate);
    say("the faults begin");
    let begun = Instant::now();
    let deaf_for = minutes.saturating_sub(DEAF);
    faults.set(Some(Weather::wild(LIFE, deaf_for)));
    let failed = |failed: &dyn Debug| Error::Other(format!("the pods: {failed:?}"));
    let samples = tokio::select! {
        samples = Samples::take(&proxy, &collector, tokio::time::sleep(minutes)) => samples?.0,
        error = &mut audit => return Err(failed(&error)),
        error = &mut lives => return Err(failed(&error)),
    };
    churn.stop();
    let pods = lives.await.map_err(|error| failed(&error))??;
    let time = begun.elapsed();
    faults.set(None);
    say("the faults are over");
    let calm = Instant::now();
    let whole = Duration::from_secs(args.whole);
    let whole = wait::until("all to be well", whole, || churn.well(true)).await;
    let took = calm.elapsed();
    let forced = wait::until("forced ends to be well", FORCED, || churn.well(false)).await;
    let forced_took = calm.elapsed();
    // A row that goes now would be that of a pod that runs.
    tokio::time::sleep(MORE).await;
    if audit.is_finished() {
        return Err(failed(&audit.await));
    }
    audit.abort();

    let (ended, freed, mut wrong) = churn.so_far();
    let rate = float(ended as u64) / time.as_secs_f64();
    println!(
        "{pods} pods began and {ended} ended in {time:.0?}, {rate:.1} a second; {freed} rows went"
    );
    println!(
        "all was well {took:.1?} after the last fault, and what forced ends left after {forced_took:.1?}"
    );
    let still = wait::until("all to be well still", Duration::ZERO, || churn.well(false)).await;
    let all = [whole, forced, still].into_iter();
    wrong.extend(all.filter_map(Result::err).map(|error| error.to_string()));
    for (fault, words) in Fault::ALL {
        let count = faults.happened(fault);
        println!("{count:>8}  {words}");
        if count == 0 && (fault != Fault::DeafWatch || deaf_for > Duration::ZERO) {
            wrong.push(format!("it never happened: {words}"));
        }
    }
    let second = proxy.to_the_second();
    println!("{second:>8}  sent to the API server that lags");
    if second == 0 {
        wrong.push("nothing was sent to the API server that lags".to_owned());
    }
    wrong.extend(judged(&samples, minutes));
    if !wrong.is_empty() {
        return Err(collector.fault(wrong.join("\n")));
    }
    collector.stop().await?;
    stage.stop().await
}

/// What ipgc took too much of.
fn judged(samples: &Samples, time: Duration) -> Vec<String> {
    let mut wrong = Vec::new();
    let [memory, _, connections, _] = samples.most;
    println!("ipgc at the most: {}", words(samples.most));
    if memory > MEMORY || connections > CONNECTIONS {
        wrong.push(format!(
            "more than {MEMORY} MB, or {CONNECTIONS} connections"
        ));
    }
    let is_soak = time >= SOAK;
    let from = if is_soak { WARM } else { time / 2 };
    let growth = samples.growth(from);
    println!("more in an hour, from {from:?} on: {}", words(growth));
    if is_soak && growth[0] > GROWTH {
        wrong.push(format!("memory grows by more than {GROWTH} MB an hour"));
    }
    wrong
}

//! `ipgc release`: rows and reservations are freed by hand.

use std::{
    collections::BTreeSet,
    io::{self, stdin},
    net::IpAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use clap::ArgGroup;
use futures::FutureExt as _;
use ipgc_core::{
    breaker::{ACK_ANNOTATION, Open},
    clearance::Wait,
    judge::Stale,
    pool::PoolKey,
    text::clean,
    time::Moment,
};
use jiff::Timestamp;
use kube::Client;
use tracing::level_filters::LevelFilter;

use super::{
    Ended, block_on,
    candidates::Wanted,
    log, print, print_line,
    question::{agrees, ask},
    signals,
    source::Live,
    values::duration,
};
use crate::{
    audit::{
        explain::{explain, text},
        report::Source,
        words,
    },
    byhand::{
        Fate, Pick, Picked, Subject, Writer,
        force::{self, Forced, Unreadable},
        release::release,
        report,
    },
    calls::call,
    config::Config,
    snapshot::Snapshot,
    watch::LeanNode,
};

/// Arguments of `ipgc release`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, group(ArgGroup::new("what").required(true)))]
pub struct Args {
    /// Free what this report of ipgc audit -o json says is stale, and what is still so: a file, or - for standard
    /// input
    #[arg(long, value_name = "REPORT", group = "what", conflicts_with = "pool")]
    from: Option<PathBuf>,

    /// Free this address, whatever its row waits for; it is shown what is known, and the address has to be typed
    #[arg(long, value_name = "IP", num_args = 1.., group = "what", conflicts_with = "yes", add = Wanted::Addresses.completer())]
    force: Vec<IpAddr>,

    /// Free all that this node holds: the addresses are listed, and the name of the node has to be typed
    #[arg(long, value_name = "node/NAME", group = "what", value_parser = node_name, conflicts_with_all = ["yes", "pool"])]
    held_by: Option<String>,

    /// Where several networks hold an address that is forced: the pool, by its name or as NAMESPACE/NAME
    #[arg(long, value_name = "POOL")]
    pool: Option<String>,

    /// Count these nodes as fenced in this run: they run no sandboxes, and are not ready
    #[arg(long, value_name = "NODE", num_args = 1..)]
    assume_dead: Vec<Box<str>>,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    /// Write nothing, and tell what would be freed
    #[arg(long)]
    dry_run: bool,

    /// End after this time, whatever still waits
    #[arg(long, value_name = "DURATION", default_value = "15m", value_parser = duration)]
    timeout: Duration,

    #[command(flatten)]
    live: Live,
}

const EXAMPLES: &str = "\
What is freed is observed, proven and judged again now, as by ipgc run. Where nobody saw who had an address, that
takes some minutes: the kubelets of all nodes have to show that they are at work.

Exit code: 0 all is free, 1 something is kept or still waits, 2 error

Examples:
  ipgc audit -o json > report.json; ipgc release --from report.json
  ipgc release --from report.json --dry-run --yes
  ipgc release --from report.json --assume-dead worker-3
  ipgc release --force 10.0.0.7
  ipgc release --held-by node/worker-3

A node that is silent is fenced better, if it is off; --held-by is for what no fence frees, as what a node holds that
is ready.";

/// The modules that log what was freed, with all that is needed to reconstruct it.
const FREES: [&str; 3] = [
    "ipgc::byhand::force",
    "ipgc::collect::release",
    "ipgc::collect::turn::report",
];

/// So many are listed before the question.
const LISTED: usize = 40;

pub(super) fn main(args: &Args) -> Ended {
    log::start(log::Format::Text, LevelFilter::WARN, &FREES)?;
    block_on(args.release())
}

impl Args {
    async fn release(&self) -> Ended {
        if let Some(warning) = self.live.waits.warning() {
            eprintln!("ipgc: {warning}");
        }
        // A fault of the report is known without a cluster.
        let of_report = self
            .from
            .as_deref()
            .map(|file| self.picks(file))
            .transpose()?;
        let clients = self.live.cluster.clients().await?;
        self.check_dead(&clients.0).await?;
        let (picked, unreadable, mut kept) = match (of_report, &self.held_by) {
            (Some((picked, made)), _) => (self.agree(picked, &made)?, Vec::new(), 0),
            (None, Some(node)) => (self.held_by(node).await?, Vec::new(), 0),
            (None, None) => self.force().await?,
        };
        if picked.picks().is_empty() && unreadable.is_empty() {
            return Ok(ExitCode::from(1));
        }
        let mut freed = 0;
        for row in &unreadable {
            if self.remove(&clients.0, row).await? {
                freed += 1;
            } else {
                kept += 1;
            }
        }
        let picked = Arc::new(picked);
        let run = self.run(clients, &picked).await;
        let told = tell(&picked.fates(), freed, kept, self.dry_run);
        // The reason why the run ended matters more than a line that cannot be printed.
        run.and(told)
    }

    /// Whether the nodes that a person says are dead can be.
    async fn check_dead(&self, client: &Client) -> Result<(), String> {
        let nodes: kube::Api<LeanNode> = kube::Api::all(client.clone());
        for name in &self.assume_dead {
            let node = match call(nodes.get(name)).await {
                Ok(node) => node.into_state(),
                Err(error) if error.is_absence_of::<LeanNode>(name) => None,
                Err(error) => return Err(format!("cannot read node {name}: {error}")),
            };
            let why_not = match node {
                None => format!("there is no node {name}"),
                Some((_, state)) if state.ready => {
                    format!("node {name} is ready, so its kubelet is at work")
                }
                Some(_) => continue,
            };
            return Err(format!("--assume-dead: {why_not}"));
        }
        Ok(())
    }

    /// The stale rows and reservations of a report, and when it was made.
    fn picks(&self, file: &Path) -> Result<(Picked, String), String> {
        let picked = self.picks_of(file);
        let picked = picked.map_err(|reason| format!("{}: {reason}", file.display()))?;
        let asks = !self.yes && !self.dry_run;
        if asks && file == Path::new("-") {
            return Err("the report is standard input, so nobody can be asked: --yes".to_owned());
        }
        Ok(picked)
    }

    fn picks_of(&self, file: &Path) -> Result<(Picked, String), String> {
        let text = if file == Path::new("-") {
            io::read_to_string(stdin())
        } else {
            std::fs::read_to_string(file)
        };
        let report = report::parse(&text.map_err(|error| error.to_string())?)?;
        let picked = report::picks(&report, !self.assume_dead.is_empty(), Timestamp::now())?;
        if picked.picks().is_empty() {
            return Err(report::nothing_in(&report));
        }
        Ok((picked, report.made))
    }

    /// Asks a person whether all of it is to be freed. Without consent nothing is.
    fn agree(&self, picked: Picked, made: &str) -> Result<Picked, String> {
        if self.yes || self.dry_run {
            return Ok(picked);
        }
        let of = format!("stale by the report of {made}:");
        eprintln!("{}", listing(&picked, of, &self.assume_dead));
        let agrees = agrees("Free those that are still so?")?;
        Ok(if agrees { picked } else { nothing() })
    }

    /// The addresses that a person typed after they had seen what is known of each, those of them that cannot be read, and
    /// how many were not typed.
    async fn force(&self) -> Result<(Picked, Vec<Unreadable>, usize), String> {
        let addresses: BTreeSet<_> = self.force.iter().map(IpAddr::to_canonical).collect();
        let snapshot = self.snapshot().await?;
        let policy = self.live.waits.policy();
        let mut found = Vec::new();
        for address in addresses {
            let forced = force::at(&snapshot, &policy, address, self.pool.as_deref())?;
            if let Forced::Unreadable(row) = &forced {
                let checked = force::check_unreadable(&snapshot, &policy, row);
                checked.map_err(|reason| format!("{address} is kept: {reason}"))?;
            }
            found.push((address, forced));
        }
        let (mut picks, mut unreadable, mut kept) = (Vec::new(), Vec::new(), 0);
        for (address, forced) in found {
            let (made, asked) = (Timestamp::now().to_string(), address.to_string());
            let explanation = explain(&snapshot, &policy, &asked, Source::Cluster, made)?;
            eprint!("{}", text(&explanation));
            let question = "\nIf nothing answers on it any more, type the address: ";
            if !self.dry_run && ask(question)?.parse().ok() != Some(address) {
                eprintln!("{address} was not typed, it stays");
                kept += 1;
                continue;
            }
            match forced {
                Forced::Pick(pick) => picks.push(pick),
                Forced::Unreadable(row) => unreadable.push(row),
            }
        }
        Ok((Picked::new(picks, Duration::ZERO), unreadable, kept))
    }

    /// All that a node holds, after a person has seen it and said that nothing answers on any of it.
    async fn held_by(&self, node: &str) -> Result<Picked, String> {
        let policy = self.live.waits.policy();
        let (picked, others) = force::held_by(&self.snapshot().await?, &policy, node);
        if picked.picks().is_empty() {
            return Err(format!("node {node} holds nothing that could be freed"));
        }
        let of = format!("held by node {node}:");
        eprintln!("{}", listing(&picked, of, &self.assume_dead));
        if !others.is_empty() {
            let others = words::names(&Vec::from_iter(others));
            eprintln!("nobody saw where all of them ran: these nodes hold some as well: {others}");
        }
        let question = "\nIf nothing answers on any of them any more, type the name of the node: ";
        if !self.dry_run && ask(question)? != node {
            eprintln!("{node} was not typed, all of it stays");
            return Ok(nothing());
        }
        Ok(picked)
    }

    async fn snapshot(&self) -> Result<Snapshot, String> {
        Ok(self.live.read(None).await?.snapshot)
    }

    /// Removes what cannot be read, if it may go. The question may have taken a while, so all is read
    /// again.
    async fn remove(&self, client: &Client, row: &Unreadable) -> Result<bool, String> {
        let snapshot = self.snapshot().await?;
        let removed = match force::check_unreadable(&snapshot, &self.live.waits.policy(), row) {
            Ok(()) => Writer::new(client).remove(row, self.dry_run).await,
            Err(reason) => Err(reason),
        };
        let said = match &removed {
            Ok(()) if self.dry_run => "would be freed (it cannot be read)".to_owned(),
            Ok(()) => format!("freed {row}"),
            Err(reason) => format!("kept: {reason}"),
        };
        line(row.address, &row.pool, "-", &said)?;
        Ok(removed.is_ok())
    }

    async fn run(&self, clients: (Client, Client), picked: &Arc<Picked>) -> Result<(), String> {
        if picked.picks().is_empty() {
            return Ok(());
        }
        let config = Config {
            pool_namespace: self.live.cluster.pool_namespace(),
            policy: self.live.waits.policy(),
            sweep_interval: Duration::from_mins(1),
            dry_run: self.dry_run,
            instance: "ipgc release".to_owned(),
            said_dead: self.assume_dead.iter().cloned().collect(),
            ..Config::default()
        };
        let mut failed = None;
        let tell = |pick: &Pick, fate: &Fate, now: Moment| {
            let told = line(
                pick.address,
                &pick.pool,
                pick.podref.as_str(),
                &said(fate, now),
            );
            failed = failed.take().or(told.err());
        };
        let interrupted = signals::listen()?.map(|_| ());
        let released = release(clients, config, picked, self.timeout, interrupted, tell).await;
        if picked.fates().iter().all(|fate| *fate == Fate::Gone) {
            eprintln!("ipgc: nothing of it is there: is this the cluster that the report is of?");
        }
        // The run counts, even if its lines could not be printed.
        released?;
        failed.map_or(Ok(()), Err)
    }
}

fn nothing() -> Picked {
    Picked::new(Vec::new(), Duration::ZERO)
}

/// How many came to what, with those that were freed or kept without a run.
fn tell(fates: &[Fate], freed: usize, kept: usize, dry_run: bool) -> Ended {
    let count = |is_it: fn(&Fate) -> bool| fates.iter().filter(|fate| is_it(fate)).count();
    let freed = freed + count(|fate| matches!(fate, Fate::Done(_) | Fate::WouldGo(_)));
    let left = count(|fate| matches!(fate, Fate::Freed(_) | Fate::Left(..)));
    let gone = count(|fate| matches!(fate, Fate::Gone));
    let kept = kept + count(|fate| matches!(fate, Fate::Kept(_)));
    let waiting = count(|fate| !fate.is_final() && !matches!(fate, Fate::Freed(_)));
    let would = if dry_run { "would be freed" } else { "freed" };
    let left_over = match left {
        0 => String::new(),
        left => format!("{left} freed but for their reservations, "),
    };
    let text = format!(
        "{freed} {would}, {left_over}{gone} gone already or changed, {kept} kept, {waiting} still waiting\n"
    );
    let code = ExitCode::from(u8::from(left + kept + waiting > 0));
    print(&text, code)
}

/// One line of what was done.
fn line(address: IpAddr, pool: &PoolKey, podref: &str, said: &str) -> Result<(), String> {
    let pool = pool.to_string();
    print_line(&format!("{address:<16} {pool:<28} {podref:<28} {said}"))
}

/// The fate of a pick in a few words.
fn said(fate: &Fate, now: Moment) -> String {
    let in_time = |moment: &Moment| words::duration(moment.since(now));
    let why = |it: &Stale| format!("{}, {}", it.clearance.grade.as_str(), it.cause.as_str());
    match fate {
        Fate::Unseen | Fate::Stopped(Open::NotAssessed) => "not looked at yet".to_owned(),
        Fate::Waits(Wait::Until(moment)) => format!("waits: goes in {}", in_time(moment)),
        Fate::Waits(Wait::For(nodes)) if nodes.is_empty() => {
            "waits: the nodes are not known yet".to_owned()
        }
        Fate::Waits(Wait::For(nodes)) => {
            format!("waits until back, gone or fenced: {}", words::names(nodes))
        }
        Fate::Waits(Wait::AtMost(nodes, moment)) => format!(
            "waits for {}, or until back, gone or fenced: {}",
            in_time(moment),
            words::names(nodes)
        ),
        Fate::Stopped(Open::Until(moment)) => format!(
            "waits: most addresses have lost their pods unseen; goes in {}, or when its pool bears {ACK_ANNOTATION}",
            in_time(moment)
        ),
        Fate::Asked(_) => "its removal was asked for, and there is no answer yet".to_owned(),
        Fate::Retried(reason) => format!("tried again: {reason}"),
        Fate::Kept(reason) => format!("kept: {reason}"),
        Fate::Gone => "gone already, or changed".to_owned(),
        Fate::WouldGo(stale) => format!("would be freed ({})", why(stale)),
        Fate::Freed(stale) => format!("freed ({}), its reservation is left", why(stale)),
        Fate::Left(stale, reason) => {
            format!("freed ({}), its reservation is left: {reason}", why(stale))
        }
        Fate::Done(stale) => format!("freed ({})", why(stale)),
    }
}

/// The picks that a person is asked about.
fn listing(picked: &Picked, of: String, assume_dead: &[Box<str>]) -> String {
    let mut lines = vec![of];
    for pick in picked.picks().iter().take(LISTED) {
        let Pick {
            address,
            pool,
            podref,
            ..
        } = pick;
        let what = match pick.subject {
            Subject::Row { .. } => "",
            Subject::Reservation { .. } => "a reservation without a row",
        };
        lines.push(format!("  {address:<16} {pool:<28} {podref:<28} {what}"));
    }
    if let Some(more) = picked.picks().len().checked_sub(LISTED + 1) {
        lines.push(format!("  and {} more", more + 1));
    }
    if !assume_dead.is_empty() {
        let nodes = words::names(assume_dead);
        lines.push(format!("nodes that count as running no sandboxes: {nodes}"));
    }
    let lines: Vec<_> = lines
        .iter()
        .map(|line| clean(line).trim_end().to_owned())
        .collect();
    lines.join("\n")
}

/// The name of a node, as `ipgc explain` is given it.
fn node_name(text: &str) -> Result<String, String> {
    let name = text.strip_prefix("node/").filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| format!("{text:?} is not node/NAME"))?;
    Ok(name.to_owned())
}

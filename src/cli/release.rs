//! `ipgc release`: single addresses are freed by hand.

use std::{
    collections::BTreeSet,
    io::{BufRead as _, Write as _, stderr, stdin},
    net::IpAddr,
    process::ExitCode,
};

use futures::future::join_all;

use super::{Ended, block_on, candidates::Wanted, log, print, print_line, signals, source::Live};
use crate::{
    audit::{
        explain::{explain, text},
        words::duration,
    },
    byhand::{
        NotDone, Writer,
        force::{self, Forced, Subject},
    },
    core::judge::Stale,
};

/// Arguments of `ipgc release`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Free this address without its wait. ipgc shows what it knows of the address, and then asks to type it
    #[arg(long, value_name = "IP", num_args = 1.., required = true, add = Wanted::Addresses.completer())]
    force: Vec<IpAddr>,

    /// If several networks hold an address: its pool, by its name or as NAMESPACE/NAME
    #[arg(long, value_name = "POOL")]
    pool: Option<String>,

    /// Write nothing, and tell what would be freed
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    live: Live,
}

const EXAMPLES: &str = "\
What is freed is observed, proven and judged again now, as by ipgc run; only the waits and the breaker do not count. A
pod that uses the address, or may, keeps it. A reservation takes --add-budget longer.

Exit code: 0 all is freed, 1 something is not, 2 error, or an address that may not go: then nothing is freed

Examples:
  ipgc release --force 10.0.0.7
  ipgc release --force 10.0.0.7 10.0.0.8 --pool 10.0.0.0-24
  ipgc release --force 10.0.0.7 --dry-run

To free all that may go without a person: ipgc run --once. If a silent node runs nothing, say so on the node, or fence it.";

/// Some modules log what was freed, with all that is needed to reconstruct it.
const LOGGED: &str = "warn,ipgc::byhand::free=info,ipgc::collect::release=info";

/// How many addresses came to what.
#[derive(Default)]
struct Tally {
    freed: usize,
    /// Freed, but for their reservations.
    left: usize,
    gone: usize,
    kept: usize,
    /// Why a line could not be printed.
    unprinted: Option<String>,
}

pub(super) fn main(args: &Args) -> Ended {
    log::start(log::Format::Text, LOGGED)?;
    block_on(args.release())
}

impl Args {
    async fn release(&self) -> Ended {
        if let Some(warning) = self.live.waits.warning() {
            eprintln!("ipgc: {warning}");
        }
        let client = self.live.cluster.client().await?;
        let mut tally = Tally::default();
        let forced = self.typed(&mut tally).await?;
        if forced.is_empty() {
            return Ok(ExitCode::from(1));
        }
        let namespace = self.live.cluster.pool_namespace();
        let writer = Writer::new(&client, self.live.waits.policy(), namespace);
        writer.check_rights(self.dry_run).await?;
        let (stop, interrupted) = (writer.stop(), signals::listen()?);
        let stopping = stop.clone();
        tokio::spawn(async move {
            interrupted.await;
            stopping.cancel();
        });
        let mut begun = Vec::new();
        for it in &forced {
            let freed = if stop.is_cancelled() {
                Err(NotDone::Kept("it was interrupted".to_owned()))
            } else {
                writer.free(it, self.dry_run).await
            };
            match freed {
                Ok(Some(freed)) if !self.dry_run => begun.push((it, freed)),
                freed => {
                    let stale = freed.map(|freed| freed.map(|(stale, _)| stale));
                    tally.add(it, stale.map(|stale| self.said(it, stale.as_ref())));
                }
            }
        }
        if !begun.is_empty() {
            let wait = duration(self.live.waits.policy().add_budget);
            eprintln!(
                "ipgc: reservations of pods whose names may return go {wait} after their mark; if you interrupt this, ipgc run frees them"
            );
        }
        // Each may wait for ADDs that are at work, and they wait together.
        let released = begun.into_iter().map(async |(it, (stale, reservation))| {
            let said = self.said(it, Some(&stale));
            let released = writer.release(&it.pool, reservation).await;
            (it, said, released)
        });
        for (it, said, released) in join_all(released).await {
            match released {
                Ok(0) if matches!(it.subject, Subject::Reservation(_)) => {
                    tally.add(it, Err(NotDone::Gone));
                }
                Err(reason) if matches!(it.subject, Subject::Row(_)) => {
                    tally.left += 1;
                    tally.line(it, &format!("{said}, its reservation is left: {reason}"));
                }
                released => tally.add(it, released.map(|_| said)),
            }
        }
        tally.tell(self.dry_run)
    }

    /// What is at the addresses that a person typed after they had seen what is known of each.
    async fn typed(&self, tally: &mut Tally) -> Result<Vec<Forced>, String> {
        let snapshot = self.live.read().await?;
        let policy = self.live.waits.policy();
        let addresses: BTreeSet<_> = self.force.iter().map(IpAddr::to_canonical).collect();
        let found = addresses.into_iter();
        let found = found.map(|it| force::at(&snapshot, &policy, it, self.pool.as_deref()));
        let mut forced = Vec::new();
        for it in found.collect::<Result<Vec<_>, _>>()? {
            let address = it.address;
            let explanation = explain(&snapshot, &policy, &address.to_string())?;
            eprint!("{}", text(&explanation, 80, false));
            let question = "\nIf nothing answers on it any more, type the address: ";
            if !self.dry_run && ask(question)?.parse().ok() != Some(address) {
                eprintln!("{address} was not typed, it stays");
                tally.kept += 1;
                continue;
            }
            forced.push(it);
        }
        Ok(forced)
    }

    /// That it is freed, or would be, and why it may go, if that was judged.
    fn said(&self, it: &Forced, stale: Option<&Stale>) -> String {
        let done = if self.dry_run {
            "would be freed"
        } else {
            "freed"
        };
        let grade = |stale: &Stale| stale.clearance.grade.as_str();
        match (stale, &it.subject) {
            (Some(stale), _) => format!("{done} ({}, {})", grade(stale), stale.cause.as_str()),
            (None, Subject::Row(_)) => {
                format!("{done} (it cannot be read; if it has a reservation, that stays)")
            }
            (None, Subject::Reservation(_)) => format!("{done} (it names no pod)"),
        }
    }
}

impl Tally {
    /// One address came to this: what is said of it if it is freed, or why it is not.
    fn add(&mut self, it: &Forced, done: Result<String, NotDone>) {
        let (count, said) = match done {
            Ok(said) => (&mut self.freed, said),
            Err(NotDone::Gone) => (&mut self.gone, "gone already, or changed".to_owned()),
            Err(reason) => (&mut self.kept, format!("kept: {reason}")),
        };
        *count += 1;
        self.line(it, &said);
    }

    /// One line of what was done. What was begun is ended, even if a line cannot be printed.
    fn line(&mut self, it: &Forced, said: &str) {
        let (address, pool) = (it.address, it.pool.to_string());
        let podref = it.podref.as_ref().map_or("-", |podref| podref.as_str());
        let line = format!("{address:<16} {pool:<28} {podref:<28} {said}");
        self.unprinted = self.unprinted.take().or(print_line(&line).err());
    }

    /// 1 unless all is freed. What is gone or changed may be another pod's by now.
    fn code(&self) -> u8 {
        u8::from(self.left + self.gone + self.kept > 0)
    }

    fn tell(self, dry_run: bool) -> Ended {
        let code = self.code();
        if let Some(reason) = self.unprinted {
            return Err(reason);
        }
        let (freed, left, gone, kept) = (self.freed, self.left, self.gone, self.kept);
        let would = if dry_run { "would be freed" } else { "freed" };
        let left_over = match left {
            0 => String::new(),
            left => format!("{left} freed but for their reservations, "),
        };
        let text =
            format!("{freed} {would}, {left_over}{gone} gone already or changed, {kept} kept\n");
        print(&text, ExitCode::from(code))
    }
}

/// The words that a person types on standard input when asked on standard error, without space around them.
fn ask(question: &str) -> Result<String, String> {
    let mut asked = stderr().lock();
    // A person who cannot be asked cannot agree.
    let said = write!(asked, "{question}").and_then(|()| asked.flush());
    said.map_err(|error| format!("cannot ask: {error}"))?;
    let mut line = String::new();
    let read = stdin().lock().read_line(&mut line);
    read.map_err(|error| format!("cannot read an answer: {error}"))?;
    if !line.ends_with('\n') {
        // The next line of output is not to stand behind the question.
        let _ = writeln!(asked);
    }
    Ok(line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_is_0_only_if_all_is_freed() {
        for (left, gone, kept, code) in [(0, 0, 0, 0), (1, 0, 0, 1), (0, 1, 0, 1), (0, 0, 1, 1)] {
            let tally = Tally {
                freed: 1,
                left,
                gone,
                kept,
                unprinted: None,
            };
            assert_eq!(tally.code(), code);
        }
    }
}

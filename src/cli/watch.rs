//! `ipgc watch`: the findings of `ipgc audit`, and then how they change.
//!
//! If a look fails, no change is printed, and the findings of the last look stay. The command only reads the cluster.

use std::{
    io::{self, BufWriter, Write, stderr, stdout},
    mem,
    process::ExitCode,
    thread,
    time::Duration,
};

use clap::ValueEnum;
use kube::Client;
use tokio::{sync::oneshot, time::sleep};

use super::{Ended, block_on, readable, signals, source, unwritten, values::duration};
use crate::{
    audit::{
        changes::{Audited, changes},
        filter::Filter,
        table::{self, GAP, summary, write_rows},
    },
    backoff::Backoff,
    snapshot::live::Scan,
};

/// Arguments of `ipgc watch`: the findings that are watched, and the form of their lines.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    source: source::Live,

    /// Wait between two looks, at least 1s. Each reads all pools, reservations, pods and nodes: on a large cluster wait
    /// longer
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    interval: Duration,

    /// How findings are printed
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: Output,

    /// The findings that are asked for.
    #[command(flatten)]
    pub filter: Filter,
}

const EXAMPLES: &str = "\
First come the findings that there are (present), then a line that begins with synced, then the findings that differ
from the look before: appeared, changed, gone. A finding that comes and goes between two looks is not seen.

Exit code: 0 ended by SIGINT, SIGTERM or the end of its reader, 2 error

Give the collector's waits (--grace, ...) and --keep-podref: ipgc judges by them.

Examples:
  ipgc watch                                 the cluster that kubectl uses
  ipgc watch --node worker-3 --interval 2s   the findings about a node
  ipgc watch -o json | jq -c 'select(.event == \"appeared\" and .problem == \"stale\")'";

/// The first wait after a look that failed, and the longest one.
const SOON: Duration = Duration::from_secs(1);
const LATE: Duration = Duration::from_secs(60);

pub(super) fn main(args: &Args) -> Ended {
    if args.interval < Duration::from_secs(1) {
        return Err("--interval must be at least 1s".to_owned());
    }
    let args = args.clone();
    let (send, ended) = oneshot::channel();
    // If the reader of stdout pauses (a pager), a write blocks. So the writer has its own thread, and signals still work.
    let looking = move || {
        let result = block_on(async {
            let (client, scan) = args.source.scan(args.filter.selector.clone()).await?;
            let mut output = BufWriter::new(stdout());
            args.run(client, scan, &mut output, &mut stderr()).await
        });
        // After a signal nothing waits for the result.
        let _ = send.send(result);
    };
    block_on(async move {
        let signal = signals::listen()?;
        thread::spawn(looking);
        tokio::select! {
            _ = signal => {}
            result = ended => result.map_err(|_| "the watch broke off".to_owned())??,
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// The form in which changes are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// A line for each change
    Table,
    /// The same with all columns
    Wide,
    /// One object for each change, in a line
    Json,
}

impl Args {
    /// Looks again and again, and writes what changes, until `output` takes no more. A look that fails is told to
    /// `complaints`.
    ///
    /// # Errors
    /// One line: the first look failed, or lines cannot be written.
    pub async fn run(
        &self,
        client: Client,
        mut scan: Scan,
        output: &mut dyn Write,
        complaints: &mut dyn Write,
    ) -> Result<(), String> {
        let (_, mut widths) = titles(self.output);
        let policy = self.source.waits.policy();
        let mut backoff = Backoff::new(SOON, LATE.max(self.interval));
        let (mut known, mut is_failing) = (None, false);
        // A standard error that is gone has nobody to tell.
        let mut complain = |text: &str| {
            let _ = writeln!(complaints, "ipgc: {}", readable(text));
        };
        loop {
            let look = source::look(&client, &mut scan, &self.filter, &policy).await;
            let wait = match look {
                Ok((_, mut look)) => {
                    look.report.made = format!("{:.0}", jiff::Timestamp::now());
                    if mem::take(&mut is_failing) {
                        complain("a look succeeded again");
                        backoff.reset();
                    }
                    if let Some(before) = &known {
                        look.keep(before);
                    }
                    match self.write(known.as_ref(), &look, &mut widths, output) {
                        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                        written => written.map_err(|error| unwritten(&error))?,
                    }
                    known = Some(look);
                    self.interval
                }
                Err(error) if known.is_none() => return Err(error.to_string()),
                Err(error) => {
                    if !mem::replace(&mut is_failing, true) {
                        complain(&format!(
                            "{error}; nothing is told until a look succeeds, and what is known is kept"
                        ));
                    }
                    let asked = error.retry_after().unwrap_or_default();
                    backoff.next_wait().max(asked)
                }
            };
            sleep(wait).await;
        }
    }

    /// Writes the changes. At the first look a header is above them, and the totals and notes are below.
    fn write(
        &self,
        before: Option<&Audited>,
        look: &Audited,
        widths: &mut Vec<usize>,
        output: &mut dyn Write,
    ) -> io::Result<()> {
        let changes = changes(before, look);
        if self.output == Output::Json {
            for change in &changes {
                writeln!(output, "{}", serde_json::to_string(change)?)?;
            }
            return output.flush();
        }
        let titles = before.is_none().then(|| titles(self.output).0);
        let rows = changes.iter().map(|change| {
            let was = change.was.map_or("-".to_owned(), |was| was.to_string());
            let first = [change.at.to_owned(), change.event.to_owned(), was];
            let cells = table::cells(change.finding, self.output == Output::Wide);
            first.into_iter().chain(cells).collect()
        });
        write_rows(titles.into_iter().chain(rows), widths, GAP, output)?;
        if before.is_none() {
            write!(output, "synced, ")?;
            summary(&look.report, output)?;
        }
        output.flush()
    }
}

/// The titles of the table, and the least widths of its columns: later lines may be wider.
fn titles(output: Output) -> (Vec<String>, Vec<usize>) {
    let first = [("TIME", 20), ("EVENT", 8), ("WAS", 5)];
    let columns = first
        .into_iter()
        .chain(table::columns(output == Output::Wide));
    columns
        .map(|(title, least)| (title.to_owned(), least))
        .unzip()
}

//! `ipgc watch`: what is wrong with the addresses of a cluster, and then what changes.
//!
//! The command looks at the cluster again and again, as `ipgc audit` does, and tells how a look differs from the one before.
//! A look that fails tells nothing: what was known stays known. Nothing is written but lines.

use std::{
    collections::HashSet,
    io::{self, BufWriter, Write, stderr, stdout},
    process::ExitCode,
    thread,
    time::Duration,
};

use kube::Client;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::{
    sync::oneshot,
    time::{interval, sleep},
};

use super::{Ended, block_on, print, readable, signals, source, unwritten, values::duration};
use crate::{
    audit::{
        Look, State, changes, confirm,
        filter::Filter,
        line::{self, Message, Synced},
        present,
        report::Report,
        table::{Output, summary, write_rows},
        wants_confirmation,
    },
    backoff::Backoff,
    core::evidence::Policy,
    snapshot::{
        Snapshot,
        live::{self, LiveError, Scan},
    },
};

/// Arguments of `ipgc watch`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    source: source::Live,

    #[command(flatten)]
    watch: Watch,

    /// Print the schema of -o json, and look at nothing
    #[arg(long)]
    schema: bool,
}

const EXAMPLES: &str = "\
First come the findings that there are (present), then a line that begins with synced, then what changes:
appeared, changed, gone. What is gone is told with its pod and node as they were last known. What comes and goes
between two looks is not seen.

Exit code: 0 ended by SIGINT, SIGTERM or whoever reads it, 2 error

--grace, --del-budget, --add-budget, --max-pod-grace, --leftover-grace and --keep-podref are to be the collector's: waits are reckoned
with them.

Examples:
  ipgc watch                                 the cluster that kubectl uses
  ipgc watch --all -n shop                   every row of the pods of a namespace
  ipgc watch --node worker-3 --interval 2s   what becomes of a node's addresses
  ipgc watch -o json | jq -c 'select(.event == \"changed\" and .verdict == \"stale\")'";

/// So often it is checked whether anybody still reads the lines.
const NOTICED: Duration = Duration::from_secs(1);

pub(super) fn main(args: &Args) -> Ended {
    if args.schema {
        return print(line::SCHEMA, ExitCode::SUCCESS);
    }
    if args.watch.interval < Duration::from_secs(1) {
        return Err("--interval must be at least 1s".to_owned());
    }
    let watch = Watch {
        policy: args.source.waits.policy(),
        ..args.watch.clone()
    };
    let live = args.source.clone();
    let (send, ended) = oneshot::channel();
    // A reader that rests holds up who writes, and must not hold up a signal.
    let looking = move || {
        let result = block_on(async {
            let (client, scan) = live.scan(watch.filter.selector.clone()).await?;
            watch
                .run(client, scan, &mut BufWriter::new(stdout()), &mut stderr())
                .await
        });
        // Nobody waits for it after a signal.
        let _ = send.send(result);
    };
    block_on(async move {
        let signal = signals::listen()?;
        thread::spawn(looking);
        tokio::select! {
            _ = signal => {}
            () = reader_is_gone() => {}
            result = ended => result.map_err(|_| "the watch broke off".to_owned())??,
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Waits until nobody reads standard output any more. A cluster in which nothing changes would never tell.
async fn reader_is_gone() {
    let mut ticks = interval(NOTICED);
    loop {
        ticks.tick().await;
        let output = stdout();
        let mut asked = [PollFd::new(&output, PollFlags::empty())];
        let polled = poll(&mut asked, Some(&Timespec::default()));
        if polled.is_ok() && asked[0].revents().contains(PollFlags::ERR) {
            return;
        }
    }
}

/// The subjects of a watch, and the form of its lines.
#[derive(Clone, Debug, clap::Args)]
// Else its group would have the name of the command's own.
#[group(skip)]
pub struct Watch {
    /// The waits to judge with, which are flags of another part.
    #[arg(skip)]
    pub policy: Policy,

    /// Wait so long between two looks, at least 1s. Each reads all pools, reservations, pods and nodes in pages, as
    /// ipgc audit does: on a large cluster wait longer
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub interval: Duration,

    /// Tell of all rows, also of those with which nothing is wrong
    #[arg(long)]
    pub all: bool,

    /// How findings are printed
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: Output,

    /// The findings that are asked for.
    #[command(flatten)]
    pub filter: Filter,
}

/// A failed look is followed by another after that, and the next ones by longer waits.
const SOON: Duration = Duration::from_secs(1);
const LATE: Duration = Duration::from_secs(60);

impl Watch {
    /// Tells of the cluster behind `client` until nobody reads `output` any more. A look that fails is told to
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
        let (titles, widths) = line::columns(self.output);
        let mut lines = Lines {
            writer: output,
            output: self.output,
            widths,
        };
        let (mut state, first) = self.first(&client, &mut scan, complaints).await?;
        if let Err(error) = lines.first(titles, &state, first, self.all) {
            return ended(&error);
        }
        // Other programs that free addresses were told of once.
        scan.only_objects = true;
        let mut backoff = Backoff::new(SOON, LATE.max(self.interval));
        let mut failing = false;
        let mut wait = self.interval;
        loop {
            sleep(wait).await;
            let at = timestamp();
            let look = match live::read(&client, &scan).await {
                Ok(snapshot) => self.judge(&client, &mut scan, snapshot, &state, &at).await,
                Err(error) => Err(error),
            };
            match look {
                Ok((next, _)) => {
                    if failing {
                        complain(complaints, "a look succeeded again");
                        backoff.reset();
                        failing = false;
                    }
                    if let Err(error) = lines.write(&changes(&state, &next, &at, self.all)) {
                        return ended(&error);
                    }
                    state = next;
                    wait = self.interval;
                }
                Err(error) => {
                    if !failing {
                        let after =
                            "nothing is told until a look succeeds, and what is known is kept";
                        complain(complaints, &format!("{error}; {after}"));
                    }
                    failing = true;
                    wait = backoff
                        .next_wait()
                        .max(error.retry_after().unwrap_or_default());
                }
            }
        }
    }

    /// The first look. The filter has to name what there is, but pods with the labels may yet come.
    async fn first(
        &self,
        client: &Client,
        scan: &mut Scan,
        complaints: &mut dyn Write,
    ) -> Result<(State, Report), String> {
        let at = timestamp();
        let mut snapshot = source::read(client, scan).await?;
        let selected = snapshot.selected.take();
        self.filter.check(&snapshot)?;
        if selected.as_ref().is_some_and(HashSet::is_empty) {
            complain(complaints, "the selector chooses no pod yet");
        }
        snapshot.selected = selected;
        let look = self.judge(client, scan, snapshot, &State::new(), &at).await;
        look.map_err(|error| error.to_string())
    }

    async fn judge(
        &self,
        client: &Client,
        scan: &mut Scan,
        snapshot: Snapshot,
        before: &State,
        at: &str,
    ) -> Result<(State, Report), LiveError> {
        scan.known.extend(&snapshot.kinds);
        let mut look = Look::new(&snapshot, &self.policy, &self.filter, at.to_owned());
        if wants_confirmation(&look.report) {
            let again = live::read_again(client, scan).await?;
            confirm(&mut look.report, &again, &self.policy);
        }
        Ok(look.into_state(before))
    }
}

/// The end of a watch whose lines cannot be written.
fn ended(error: &io::Error) -> Result<(), String> {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Ok(()),
        _ => Err(unwritten(error)),
    }
}

/// The lines that are written, as JSON or as a table without an end.
struct Lines<'w> {
    writer: &'w mut dyn Write,
    output: Output,
    widths: Vec<usize>,
}

impl Lines<'_> {
    /// The header, the lines of the first look, and that this is all.
    fn first(
        &mut self,
        titles: Vec<String>,
        state: &State,
        report: Report,
        all: bool,
    ) -> io::Result<()> {
        let present = present(state, all);
        if self.output == Output::Json {
            self.write(&present)?;
            return self.write(&[Message::Synced(Synced {
                at: report.made,
                totals: report.totals,
                notes: report.notes,
            })]);
        }
        let titles = std::iter::once(titles);
        let cells = present
            .iter()
            .filter_map(|message| message.cells(self.output));
        write_rows(titles.chain(cells), &mut self.widths, self.writer)?;
        let is_finding = |it: &&Message| matches!(it, Message::Present(line) if !line.subject.problem.is_nothing());
        let findings = present.iter().filter(is_finding).count();
        write!(self.writer, "synced, ")?;
        summary(&report, findings, self.writer)?;
        self.writer.flush()
    }

    fn write(&mut self, messages: &[Message]) -> io::Result<()> {
        if self.output == Output::Json {
            for message in messages {
                writeln!(self.writer, "{}", serde_json::to_string(message)?)?;
            }
        } else {
            let cells = messages
                .iter()
                .filter_map(|message| message.cells(self.output));
            write_rows(cells, &mut self.widths, self.writer)?;
        }
        if messages.is_empty() {
            Ok(())
        } else {
            self.writer.flush()
        }
    }
}

/// A line for people. One whose standard error is gone is not there to be told.
fn complain(complaints: &mut dyn Write, text: &str) {
    let _ = writeln!(complaints, "ipgc: {}", readable(text));
}

/// The time in whole seconds, RFC 3339.
fn timestamp() -> String {
    let now = jiff::Timestamp::now();
    let whole = jiff::Timestamp::from_second(now.as_second());
    whole.unwrap_or(now).to_string()
}

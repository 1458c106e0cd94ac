//! `ipgc watch`: what is wrong with the addresses of a cluster, and then what changes.
//!
//! It looks at the cluster again and again, as `ipgc audit` does, and tells how a look differs from the one before.
//! A look that fails tells nothing: what was known stays known. Nothing is written but lines.

use std::{
    collections::BTreeSet,
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

use super::{
    block_on, form, print, readable,
    signals::Signals,
    source::{self, Progress},
    tell::{Seen, Teller},
    usage,
    values::duration,
};
use crate::{
    audit::{
        changes::{State, changes},
        confirm,
        filter::Filter,
        line::{self, Lines},
        look::{History, look},
        table::Column,
        wants_confirmation,
    },
    backoff::Backoff,
    clock::Clock,
    core::{evidence::Policy, time::Moment},
    snapshot::{
        Kind, Snapshot,
        live::{self, LiveError, Scan},
    },
};

/// Arguments of `ipgc watch`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    source: source::Live,

    /// Wait so long between two looks, at least 1s. Each reads all pools, reservations, pods and nodes in pages, as
    /// ipgc audit does: on a large cluster wait longer
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    interval: Duration,

    /// Tell of all rows, also of those with which nothing is wrong
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    form: form::Args,
}

const EXAMPLES: &str = "\
First come the findings that there are (present), then a line that begins with synced, then what changes:
appeared, changed, gone. What is gone is told with its pod and node as they were last known; both are
remembered for 5 minutes. What comes and goes between two looks is not seen.

Exit code: 0 ended by SIGINT, SIGTERM or whoever reads it, 2 error

--grace, --del-budget, --add-budget, --max-pod-grace, --leftover-grace and --keep-podref are to be the collector's: waits are reckoned
with them.

Examples:
  ipgc watch                                 the cluster that kubectl uses
  ipgc watch --all -n shop                   every row of the pods of a namespace
  ipgc watch --node worker-3 --interval 2s   what becomes of a node's addresses
  ipgc watch -o json | jq -c 'select(.event == \"changed\" and .verdict == \"stale\")'";

/// Whoever wants no more lines is noticed after that.
const NOTICED: Duration = Duration::from_secs(1);

/// Watches.
pub(super) fn main(args: &Args) -> ExitCode {
    if args.form.schema {
        return print(line::SCHEMA, ExitCode::SUCCESS);
    }
    let watch = match args.watch() {
        Ok(watch) => watch,
        Err(reason) => return usage(&reason),
    };
    let live = args.source.clone();
    let (send, ended) = oneshot::channel();
    // A reader that rests holds up who writes, and must not hold up a signal.
    let looking = move || {
        let result = block_on(async {
            let (client, scan) = live.scan(watch.selector.clone()).await?;
            watch
                .run(client, scan, &mut BufWriter::new(stdout()), &mut stderr())
                .await
        });
        // Nobody waits for it after a signal.
        let _ = send.send(result);
    };
    let result = block_on(async move {
        let signals = Signals::listen()?;
        thread::spawn(looking);
        tokio::select! {
            _ = signals.end() => Ok(()),
            () = reader_is_gone() => Ok(()),
            result = ended => result.unwrap_or_else(|_| Err("the watch broke off".to_owned())),
        }
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => usage(&reason),
    }
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

impl Args {
    fn watch(&self) -> Result<Watch, String> {
        if self.interval < Duration::from_secs(1) {
            return Err("--interval must be at least 1s".to_owned());
        }
        Ok(Watch {
            filter: self.form.choice.filter(),
            selector: self.form.choice.selector()?,
            policy: self.source.policy(),
            interval: self.interval,
            all: self.all,
            columns: self.form.columns().map(<[_]>::to_vec),
        })
    }
}

/// What is watched, and how it is told.
#[derive(Clone, Debug)]
pub struct Watch {
    /// What is asked for.
    pub filter: Filter,
    /// The labels that are asked for.
    pub selector: Option<kube::core::Selector>,
    /// The waits to judge with.
    pub policy: Policy,
    /// Between two looks.
    pub interval: Duration,
    /// Whether rows with which nothing is wrong are told of.
    pub all: bool,
    /// The columns of a table; without, JSON.
    pub columns: Option<Vec<Column>>,
}

/// Why there is nothing to tell.
struct Failure {
    reason: String,
    retry_after: Option<Duration>,
}

impl Failure {
    fn unknown(kind: Kind) -> Self {
        Self {
            reason: format!("the API server knows no {kind} any more"),
            retry_after: None,
        }
    }
}

impl From<LiveError> for Failure {
    fn from(error: LiveError) -> Self {
        Self {
            retry_after: match &error {
                LiveError::Call(_, error) => error.retry_after(),
                _ => None,
            },
            reason: error.to_string(),
        }
    }
}

/// What is known.
#[derive(Default)]
struct Known {
    state: State,
    history: History,
    kinds: BTreeSet<Kind>,
}

/// A failed look is followed by another after that, and the next ones by longer waits.
const SOON: Duration = Duration::from_secs(1);
const LATE: Duration = Duration::from_secs(60);

impl Watch {
    /// Tells of the cluster behind `client` until whoever reads `output` has enough; what is wrong with a look is
    /// told to `complaints`.
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
        let lines = self.columns.as_deref().map(Lines::new);
        let mut teller = Teller::new(output, lines);
        match self.tell(&client, &mut scan, &mut teller, complaints).await {
            Ok(never) => match never {},
            Err(End::Failed(reason)) => Err(reason),
            Err(End::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(End::Write(error)) => Err(format!("cannot write: {error}")),
        }
    }

    async fn tell(
        &self,
        client: &Client,
        scan: &mut Scan,
        teller: &mut Teller<'_>,
        complaints: &mut dyn Write,
    ) -> Result<std::convert::Infallible, End> {
        let clock = Clock::start();
        let mut known = Known::default();
        let mut progress = Progress::new();
        let mut tell = |kind, count| progress.tell(|| format!("{count} {kind}"));
        let (at, now) = (timestamp(), clock.now());
        let snapshot = live::read(client, scan, &mut tell).await;
        let mut snapshot = snapshot.map_err(|error| End::Failed(error.to_string()))?;
        drop(progress);
        self.check(&mut snapshot, complaints).map_err(End::Failed)?;
        let first = self
            .judge(client, scan, snapshot, &mut known, (now, at))
            .await;
        let first = first.map_err(|failure| End::Failed(failure.reason))?;
        teller.snapshot(&first, self.all)?;
        known.state = first.state;
        // Whoever else frees addresses was told of once.
        scan.only_objects = true;
        let mut backoff = Backoff::new(SOON, LATE.max(self.interval));
        let mut failing = false;
        let mut wait = self.interval;
        loop {
            sleep(wait).await;
            let seen = match self.look(client, scan, &mut known, &clock).await {
                Ok(seen) => seen,
                Err(Failure {
                    reason,
                    retry_after,
                }) => {
                    if !failing {
                        complain(
                            complaints,
                            &format!(
                                "{reason}; nothing is told until a look succeeds, and what is known is kept"
                            ),
                        );
                    }
                    failing = true;
                    wait = backoff.next_wait().max(retry_after.unwrap_or_default());
                    continue;
                }
            };
            if failing {
                complain(complaints, "a look succeeded again");
                backoff.reset();
                failing = false;
            }
            let told = changes(&known.state, &seen.state);
            teller.changes(&told, &known.history, &seen, self.all)?;
            known.history.advance(&told, seen.now);
            known.state = seen.state;
            wait = self.interval;
        }
    }

    /// Whether there is what is asked for. Pods with the labels may yet come.
    fn check(&self, snapshot: &mut Snapshot, complaints: &mut dyn Write) -> Result<(), String> {
        let selected = snapshot.selected.take();
        self.filter.check(snapshot)?;
        if selected
            .as_ref()
            .is_some_and(std::collections::HashSet::is_empty)
        {
            complain(complaints, "the selector chooses no pod yet");
        }
        snapshot.selected = selected;
        Ok(())
    }

    async fn look(
        &self,
        client: &Client,
        scan: &Scan,
        known: &mut Known,
        clock: &Clock,
    ) -> Result<Seen, Failure> {
        let moment = (clock.now(), timestamp());
        let snapshot = live::read(client, scan, &mut |_, _| {}).await?;
        self.judge(client, scan, snapshot, known, moment).await
    }

    async fn judge(
        &self,
        client: &Client,
        scan: &Scan,
        mut snapshot: Snapshot,
        known: &mut Known,
        (now, at): (Moment, String),
    ) -> Result<Seen, Failure> {
        // What was found with its help is not absent because it is.
        if let Some(kind) = known.kinds.difference(&snapshot.kinds).next() {
            return Err(Failure::unknown(*kind));
        }
        known.kinds.extend(&snapshot.kinds);
        let mut look = look(
            &mut snapshot,
            &self.policy,
            &self.filter,
            &mut known.history,
            (now, at.clone()),
        );
        if wants_confirmation(&look.report) {
            let again = live::read_again(client, scan).await?;
            let twice = BTreeSet::from([Kind::IpPool, Kind::Reservation, Kind::Pod]);
            let mut unknown = twice.difference(&again.kinds);
            if let Some(kind) = unknown.find(|kind| known.kinds.contains(kind)) {
                return Err(Failure::unknown(*kind));
            }
            confirm(&mut look.report, &again, &self.policy);
        }
        let (state, report) = look.into_state(&known.state, &mut known.history);
        Ok(Seen {
            state,
            report,
            at,
            now,
        })
    }
}

/// Why it ends.
enum End {
    Failed(String),
    Write(io::Error),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
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

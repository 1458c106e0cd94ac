//! `ipgc pools`: how full each pool is, and with what.

use std::{
    io::{IsTerminal as _, Write as _, stdout},
    process::ExitCode,
    time::Duration,
};

use clap::ValueEnum;

use super::{
    Ended, block_on, candidates::Wanted, print, print_json, print_with, readable, source, terminal,
    values::duration,
};
use crate::audit::{
    audit,
    filter::{Filter, is_named},
    pool_table::{Style, write_pools},
    report::{PoolUsage, Problem, Report},
};

/// Arguments of `ipgc pools`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// These pools only, by name, NAMESPACE/NAME or range
    #[arg(value_name = "POOL", add = Wanted::Pools.completer())]
    pools: Vec<String>,

    #[command(flatten)]
    source: source::Args,

    /// How the pools are printed
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Output,

    /// Look again and again, until it is stopped
    #[arg(short, long, conflicts_with = "files")]
    watch: bool,

    /// With --watch: wait between two looks, at least 1s
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    interval: Duration,
}

const EXAMPLES: &str = "\
The fullest pool comes first, and below it the parts of its range that some definitions hand out. NETWORK names the
definitions. HELD counts unreported and unfenced rows. FREE, FULL and USE leave out rows of addresses that nothing hands
out. OLDEST is the age of the oldest reservation of a stale or unfenced row; only a running ipgc knows how long the row
has been stale (ipgc_oldest_stale_seconds). WAITS is the time until an ipgc that starts now has freed the last stale
row, and the nodes that hold rows. -o json and yaml are the report of ipgc audit without findings.

Exit code: 0 printed, 2 error

Examples:
  ipgc pools                    all pools of the cluster that kubectl uses
  ipgc pools 10.0.0.0/24 -w     one pool, again and again
  ipgc pools -o wide            with all columns and names
  ipgc pools -f dump.json       of a dump, see ipgc audit --help";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A line for each pool
    Table,
    /// The same with all columns and names
    Wide,
    /// One object, described by schemas/audit.json in the repository
    Json,
    /// The same as YAML
    Yaml,
}

pub(super) fn main(args: &Args) -> Ended {
    if args.interval < Duration::from_secs(1) {
        return Err("--interval must be at least 1s".to_owned());
    }
    args.print(&block_on(args.report())?)?;
    if !args.watch {
        return Ok(ExitCode::SUCCESS);
    }
    let between = match args.output {
        // The cursor goes to the first line, and what is below it goes.
        _ if stdout().is_terminal() => "\x1b[H\x1b[2J",
        // Each report is a document.
        Output::Yaml => "---\n",
        _ => "\n",
    };
    loop {
        std::thread::sleep(args.interval);
        match block_on(args.report()) {
            Ok(report) => {
                let written = write!(stdout(), "{between}").and_then(|()| stdout().flush());
                // A reader that is gone has enough.
                if written.is_err() {
                    return Ok(ExitCode::SUCCESS);
                }
                args.print(&report)?;
            }
            Err(reason) => eprintln!(
                "ipgc: {}; the next look is in {:?}",
                readable(&reason),
                args.interval
            ),
        }
    }
}

impl Args {
    async fn report(&self) -> Result<Report, String> {
        let snapshot = self.source.read().await?;
        let policy = self.source.live.waits.policy();
        let mut report = audit(&snapshot, &policy, &Filter::default());
        let is_it = |words: &String, it: &PoolUsage| {
            is_named(words, &it.namespace, &it.name) || it.range.as_ref() == Some(words)
        };
        for wanted in &self.pools {
            // One that cannot be read is known, and is not among them.
            if !report.pools.iter().any(|it| is_it(wanted, it)) {
                let filter = Filter {
                    pool: Some(wanted.clone()),
                    ..Filter::default()
                };
                filter.check(&snapshot)?;
            }
        }
        // The others would want a second look.
        let findings = report.findings.drain(..);
        let none = findings.filter(|it| it.problem == Problem::NoPools);
        report.notes.extend(none.map(|it| it.detail));
        report.pools.retain(|it| {
            let mut pools = self.pools.iter();
            self.pools.is_empty() || pools.any(|words| is_it(words, it))
        });
        Ok(report)
    }

    fn print(&self, report: &Report) -> Ended {
        match self.output {
            Output::Json => print_json(report, ExitCode::SUCCESS),
            Output::Yaml => {
                let text = serde_saphyr::to_string(report);
                let text = text.map_err(|error| format!("cannot write YAML: {error}"))?;
                print(&text, ExitCode::SUCCESS)
            }
            Output::Table | Output::Wide => {
                let (width, colours) = terminal();
                let wide = self.output == Output::Wide;
                let style = Style {
                    width,
                    colours,
                    wide,
                };
                print_with(ExitCode::SUCCESS, |it| write_pools(report, style, it))
            }
        }
    }
}

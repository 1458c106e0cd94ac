//! `ipgc audit`: what is wrong with the addresses of a cluster, or of files.

use std::process::ExitCode;

use clap::ValueEnum;

use super::{Ended, block_on, print_json, print_with, source};
use crate::audit::{filter::Filter, html::write_page, table::write_table};

/// Arguments of `ipgc audit`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    source: source::Args,

    /// How findings are printed
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Output,

    #[command(flatten)]
    filter: Filter,

    /// Exit with 0 also if there are findings
    #[arg(long)]
    exit_zero: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A line for each finding
    Table,
    /// The same with all columns
    Wide,
    /// One object, described by schemas/audit.json in the repository
    Json,
    /// A page for a browser, with a grid of each pool
    Html,
}

const EXAMPLES: &str = "\
Exit code: 0 nothing found, 1 findings (0 with --exit-zero), 2 error

Give the collector's waits (--grace, ...) and --keep-podref: ipgc judges by them.

Examples:
  ipgc audit                                 the cluster that kubectl uses
  ipgc audit -o wide --pool 10.0.0.0-24      all that is known about one pool
  ipgc audit -l app=web                      findings about the pods of one application
  ipgc audit -o json > report.json           for programs, and for later
  ipgc audit -o html > report.html           for a browser: pools as bars and grids
  kubectl get ippools,overlappingrangeipreservations,nodeslicepools,pods,nodes,network-attachment-definitions \\
    -A -o json > dump.json && ipgc audit -f dump.json";

pub(super) fn main(args: &Args) -> Ended {
    let policy = args.source.live.waits.policy();
    let (snapshot, report) = block_on(args.source.report(&args.filter, &policy))?;
    let code = ExitCode::from(u8::from(!report.findings.is_empty() && !args.exit_zero));
    match args.output {
        Output::Table | Output::Wide => {
            let is_wide = args.output == Output::Wide;
            print_with(code, |output| write_table(&report, is_wide, output))
        }
        Output::Json => print_json(&report, code),
        Output::Html => print_with(code, |output| {
            write_page(&report, &snapshot, &policy, &args.source.files, output)
        }),
    }
}

//! `ipgc audit`: what is wrong with the addresses of a cluster, or of files.

use std::process::ExitCode;

use super::{Ended, block_on, choice, print, print_json, print_with, source};
use crate::audit::{
    report::{self, Report},
    table::{Output, write_table},
};

/// Arguments of `ipgc audit`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    source: source::Args,

    #[command(flatten)]
    form: choice::Form,
}

const EXAMPLES: &str = "\
Exit code: 0 nothing found, 1 findings, 2 error

--grace, --del-budget, --add-budget, --max-pod-grace, --leftover-grace and --keep-podref are to be the collector's: waits are reckoned
with them.

Examples:
  ipgc audit                                 the cluster that kubectl uses
  ipgc audit -o wide --pool 10.0.0.0-24      all that is known about one pool
  ipgc audit -l app=web                      findings about the pods of one application
  ipgc audit -o json > report.json           for programs, and for later
  kubectl get ippools,overlappingrangeipreservations,nodeslicepools,pods,nodes,network-attachment-definitions \\
    -A -o json > dump.json && ipgc audit -f dump.json";

/// Audits.
pub(super) fn main(args: &Args) -> Ended {
    if args.form.schema {
        return print(report::SCHEMA, ExitCode::SUCCESS);
    }
    let report = block_on(args.report())?;
    let code = ExitCode::from(u8::from(!report.findings.is_empty()));
    match args.form.output {
        Output::Json => print_json(&report, code),
        form => print_with(code, |output| write_table(&report, form, output)),
    }
}

impl Args {
    async fn report(&self) -> Result<Report, String> {
        let choice = &self.form.choice;
        let read = self.source.read(choice.selector.clone()).await?;
        read.report(&choice.filter, &self.source.live.waits.policy())
            .await
    }
}

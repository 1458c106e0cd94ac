//! `ipgc audit`: what is wrong with the addresses of a cluster, or of files.

use std::process::ExitCode;

use super::{block_on, form, print, print_json, print_with, source, usage};
use crate::{
    audit::{
        audit, confirm,
        report::{self, Report},
        table::{Output, write_table},
        wants_confirmation,
    },
    snapshot::live,
};

/// Arguments of `ipgc audit`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[allow(
    clippy::doc_markdown,
    reason = "the comments are help texts for people"
)]
pub struct Args {
    #[command(flatten)]
    source: source::Args,

    #[command(flatten)]
    form: form::Args,
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
pub(super) fn main(args: &Args) -> ExitCode {
    if args.form.schema {
        return print(report::SCHEMA, ExitCode::SUCCESS);
    }
    let report = match block_on(args.report()) {
        Ok(report) => report,
        Err(reason) => return usage(&reason),
    };
    let code = if report.findings.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    };
    match args.form.output {
        Output::Json => print_json(&report, code),
        form => print_with(code, |output| write_table(&report, form, output)),
    }
}

impl Args {
    async fn report(&self) -> Result<Report, String> {
        let selector = self.form.choice.selector()?;
        let source::Read {
            snapshot,
            source,
            cluster,
        } = self.source.read(selector).await?;
        let filter = self.form.choice.filter();
        filter.check(&snapshot)?;
        let policy = self.source.policy();
        let made = jiff::Timestamp::now().to_string();
        let mut report = audit(&snapshot, &policy, &filter, source, made);
        if let Some((client, scan)) = cluster
            && wants_confirmation(&report)
        {
            let again = live::read_again(&client, &scan).await;
            let again = again.map_err(|error| error.to_string())?;
            confirm(&mut report, &again, &policy);
        }
        // The process is about to end, which gives all of it back at once.
        std::mem::forget(snapshot);
        Ok(report)
    }
}

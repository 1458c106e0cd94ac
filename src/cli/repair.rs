//! `ipgc repair`: the reservations that rows of live pods lack are made.

use std::process::ExitCode;

use ipgc_core::text::clean;

use super::{Ended, block_on, print_line, question::agrees, source::Live};
use crate::{
    audit::filter::Filter,
    byhand::{NotDone, Pick, Writer, repair::missing},
};

/// Arguments of `ipgc repair`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    /// Write nothing, and tell what would be made
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    filter: Filter,

    #[command(flatten)]
    live: Live,
}

const EXAMPLES: &str = "\
Where a row of a live pod has no reservation, another range of the same network may give its address away:
the finding reservation-missing of ipgc audit. One that another pod has is told and left alone.

Exit code: 0 none is missing any more, 1 some are, 2 error

Examples:
  ipgc repair                        asks first
  ipgc repair --pool 10.0.0.0-24 -y  of one pool, without asking";

pub(super) fn main(args: &Args) -> Ended {
    block_on(args.repair())
}

impl Args {
    async fn repair(&self) -> Ended {
        let read = self.live.read(self.filter.selector.clone()).await?;
        let policy = self.live.waits.policy();
        let report = read.report(&self.filter, &policy).await?;
        let (missing, others) = missing(&read.snapshot, &report);
        for finding in &others {
            let address = finding.address.as_deref().unwrap_or_default();
            let why = format!("left alone: {}", finding.detail);
            tell(address, &finding.pods.join(","), &why)?;
        }
        let left_alone = !others.is_empty();
        if missing.is_empty() {
            if !left_alone {
                tell("-", "-", "no reservation is missing")?;
            }
            return Ok(ExitCode::from(u8::from(left_alone)));
        }
        for one in &missing {
            let Pick {
                address,
                podref,
                pool,
                ..
            } = &one.row;
            let name = one.name().unwrap_or_default();
            let line = format!(
                "{address} of {podref}: reservation {}/{name}",
                pool.namespace
            );
            eprintln!("{}", clean(&line));
        }
        if !self.yes && !self.dry_run && !agrees("Make these?")? {
            return Ok(ExitCode::from(1));
        }
        let (client, _) = self.live.cluster.clients().await?;
        let writer = Writer::new(&client);
        let mut is_whole = !left_alone && !self.dry_run;
        for one in &missing {
            let said = match writer.make(one, self.dry_run).await {
                Ok(name) if self.dry_run => format!("would make reservation {name}"),
                Ok(name) => format!("made reservation {name}"),
                // Nothing is missing where nothing is.
                Err(NotDone::Gone) => "not made: its row is gone, or has changed".to_owned(),
                Err(reason) => {
                    is_whole = false;
                    format!("not made: {reason}")
                }
            };
            tell(&one.row.address.to_string(), one.row.podref.as_str(), &said)?;
        }
        Ok(ExitCode::from(u8::from(!is_whole)))
    }
}

fn tell(address: &str, pod: &str, said: &str) -> Result<(), String> {
    print_line(&format!("{address:<16} {pod:<28} {said}"))
}

//! `ipgc crds`: print or write the CRDs of the kinds that ipgc reads.

use std::{path::PathBuf, process::ExitCode};

use super::{Ended, print};
use crate::api;

const EXAMPLES: &str = "\
Examples:
  ipgc crds | kubectl diff -f -  compare them with a cluster's
  ipgc crds --output crds        one file for each";

/// Arguments of `ipgc crds`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Write one file for each kind into this directory instead of printing
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

pub(super) fn main(args: &Args) -> Ended {
    let Some(directory) = &args.output else {
        let all = api::CRD_FILES.map(|(_, text)| text).join("---\n");
        return print(&all, ExitCode::SUCCESS);
    };
    for (name, text) in api::CRD_FILES {
        let path = directory.join(name);
        let written = std::fs::write(&path, text);
        written.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

//! `ipgc crds`: print or write the CRDs of the kinds that ipgc reads.

use std::{path::Path, process::ExitCode};

use super::{Ended, print};
use crate::api;

pub(super) const EXAMPLES: &str = "\
Examples:
  ipgc crds | kubectl diff -f -  compare them with a cluster's
  ipgc crds --output crds        one file for each";

pub(super) fn main(output: Option<&Path>) -> Ended {
    let Some(directory) = output else {
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

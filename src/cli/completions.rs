//! `ipgc completions`: words for a shell to complete commands and flags with.

use std::{
    io::{Write, stdout},
    process::ExitCode,
};

use clap::CommandFactory;
use clap_complete::Shell;

/// Arguments of `ipgc completions`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which shell
    shell: Shell,
}

/// Prints the script.
pub(super) fn main(args: &Args) -> ExitCode {
    let mut command = super::Cli::command();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "ipgc", &mut script);
    match stdout().write_all(&script) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => super::usage(&format!("cannot write: {error}")),
    }
}

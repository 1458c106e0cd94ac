//! `ipgc completions`: words for a shell to complete commands and flags with.

use std::{
    io::{Write, stdout},
    process::ExitCode,
};

use clap::CommandFactory;
use clap_complete::Shell;

const EXAMPLES: &str = "\
Examples:
  . <(ipgc completions bash)                                   in this shell
  ipgc completions zsh > \"${fpath[1]}/_ipgc\"                 in each zsh
  ipgc completions fish > ~/.config/fish/completions/ipgc.fish  in each fish";

/// Arguments of `ipgc completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
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

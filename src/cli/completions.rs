//! `ipgc completions`: words for a shell to complete commands and flags with.

use std::{io::Write as _, process::ExitCode};

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Ended, print_with};

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
pub(super) fn main(args: &Args) -> Ended {
    let mut command = super::Cli::command();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "ipgc", &mut script);
    print_with(ExitCode::SUCCESS, |output| output.write_all(&script))
}

//! `ipgc completions`: words for a shell, and for kubectl, to complete commands and flags with.

use std::{ffi::OsString, io::Write as _, process::ExitCode};

use clap::CommandFactory;
use clap_complete::{Shell, engine::complete};

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

/// The words of a command line of kubectl after `kubectl ipgc`; the last one is to be completed.
#[derive(Debug, clap::Args)]
pub struct Words {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Prints the candidates as kubectl reads them of a plugin: one on a line, with its meaning after a tab, and at the end what
/// else is to be offered: 0 for files, 4 for nothing.
pub(super) fn of_plugin(words: &Words) -> Ended {
    let mut words = words.words.clone();
    words.insert(0, "ipgc".into());
    let last = words.len().saturating_sub(1).max(1);
    let here = std::env::current_dir().ok();
    let found = complete(&mut super::Cli::command(), words, last, here.as_deref());
    let found = found.map_err(|error| format!("cannot complete: {error}"))?;
    print_with(ExitCode::SUCCESS, |output| {
        for candidate in &found {
            let value = candidate.get_value().display();
            let help = candidate.get_help().map(ToString::to_string);
            writeln!(output, "{value}\t{}", help.unwrap_or_default())?;
        }
        writeln!(output, ":{}", if found.is_empty() { 0 } else { 4 })
    })
}

/// Prints the script.
pub(super) fn main(args: &Args) -> Ended {
    let mut command = super::Cli::command();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "ipgc", &mut script);
    print_with(ExitCode::SUCCESS, |output| output.write_all(&script))
}

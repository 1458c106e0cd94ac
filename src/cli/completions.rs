//! `ipgc completions`: words for a shell, and for kubectl, to complete commands and flags with.

use std::{ffi::OsString, io::Write as _, process::ExitCode};

use clap::CommandFactory;
use clap_complete::{CompleteEnv, Shell, engine::complete, env::Shells};

use super::{Ended, print_with};

const EXAMPLES: &str = "\
Examples:
  . <(ipgc completions bash)                                   in this shell
  . <(ipgc completions zsh)                                    in this zsh
  ipgc completions fish > ~/.config/fish/completions/ipgc.fish  in each fish";

/// Arguments of `ipgc completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Which shell; its script asks ipgc, which also knows pools, addresses and pods of the cluster that kubectl uses
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

/// The variable by which the script of a shell asks this program.
const ASKED: &str = "COMPLETE";

/// Answers the script of a shell, and ends, if it asks.
pub(super) fn answer() {
    CompleteEnv::with_factory(super::Cli::command)
        .var(ASKED)
        .complete();
}

pub(super) fn main(args: &Args) -> Ended {
    let shell = args.shell.to_string();
    let shells = Shells::builtins();
    let known = shells.completer(&shell);
    let known = known.ok_or_else(|| format!("nothing is known of {shell}"))?;
    let mut script = Vec::new();
    known
        .write_registration(ASKED, "ipgc", "ipgc", "ipgc", &mut script)
        .map_err(|error| format!("cannot make the script: {error}"))?;
    print_with(ExitCode::SUCCESS, |output| output.write_all(&script))
}

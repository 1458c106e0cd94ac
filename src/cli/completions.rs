//! `ipgc completions`: words for a shell, and for kubectl, to complete commands and flags with.

use std::{ffi::OsString, io::Write as _, process::ExitCode};

use clap::{Command, CommandFactory};
use clap_complete::{CompleteEnv, Shell, engine::complete, env::Shells};

use super::{Ended, candidates::Wanted, print_with};

pub(super) const EXAMPLES: &str = "\
Examples:
  . <(ipgc completions bash)                                   in this shell
  . <(ipgc completions zsh)                                    in this zsh
  ipgc completions fish > ~/.config/fish/completions/ipgc.fish  in each fish";

/// Prints the candidates for the last of these words as kubectl reads them of a plugin: one on a line, with its meaning
/// after a tab, and at the end what else is to be offered: 0 for files, 4 for nothing.
pub(super) fn of_plugin(mut words: Vec<OsString>) -> Ended {
    words.insert(0, "ipgc".into());
    let last = words.len().saturating_sub(1).max(1);
    let here = std::env::current_dir().ok();
    let found = complete(&mut command(), words, last, here.as_deref());
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

/// The commands, with what completes the flags that choose findings.
fn command() -> Command {
    let with_names = |command: Command| {
        let flags = [
            ("pool", Wanted::Pools),
            ("namespace", Wanted::Namespaces),
            ("node", Wanted::Nodes),
        ];
        flags.into_iter().fold(command, |command, (flag, wanted)| {
            command.mut_arg(flag, |it| it.add(wanted.completer()))
        })
    };
    let commands = super::Cli::command().mut_subcommand("audit", with_names);
    commands.mut_subcommand("watch", with_names)
}

/// The variable by which the script of a shell asks this program.
const ASKED: &str = "COMPLETE";

/// Answers the script of a shell, and ends, if it asks.
pub(super) fn answer() {
    CompleteEnv::with_factory(command).var(ASKED).complete();
}

pub(super) fn main(shell: Shell) -> Ended {
    let shells = Shells::builtins();
    let known = shells.completer(&shell.to_string());
    let known = known.ok_or_else(|| format!("nothing is known of {shell}"))?;
    let mut script = Vec::new();
    known
        .write_registration(ASKED, "ipgc", "ipgc", "ipgc", &mut script)
        .map_err(|error| format!("cannot make the script: {error}"))?;
    let mut script = String::from_utf8_lossy(&script).into_owned();
    if shell == Shell::Bash {
        script = script.replace("-F _clap_complete_ipgc ", "-F _ipgc ");
        script += include_str!("completions.bash");
    }
    print_with(ExitCode::SUCCESS, |output| {
        output.write_all(script.as_bytes())
    })
}

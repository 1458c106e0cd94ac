//! The command line.
//!
//! A bad flag, configuration or file is one clear line and exit code 2; a run that failed is exit
//! code 1, and so is an audit with findings. Each command has a module, and returns its exit code, or the line.

#![allow(clippy::doc_markdown, reason = "comments of arguments are help texts")]

mod audit;
mod candidates;
mod cluster;
mod completions;
mod crds;
mod explain;
mod log;
mod pools;
mod release;
mod run;
mod signals;
mod source;
mod values;
mod waits;
pub mod watch;

use std::{
    env,
    ffi::OsString,
    io::{self, BufWriter, IsTerminal as _, Write as _, stdout},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Parser, error::ErrorKind};
use clap_complete::Shell;
use rustix::termios::tcgetwinsize;

use crate::audit::table::cut;
use ipgc_core::text::clean;

const EXAMPLES: &str = "\
Examples:
  ipgc run                          collect, with the cluster that kubectl uses
  ipgc run --cooldown 5s            wait longer before an address is given back
  ipgc audit                        what is wrong with the addresses of a cluster
  ipgc explain 10.0.0.7             why an address is held
  ipgc pools                        how full each pool is
  ipgc watch                        the findings as they come and go
  ipgc release --force 10.0.0.7     free an address on which nothing answers, whatever it waits for
  ipgc crds | kubectl diff -f -     compare the CRDs that ipgc knows with a cluster's
  . <(ipgc completions bash)        complete commands, flags, pools, addresses and pods in this shell";

/// Gives back the IP addresses that whereabouts still holds for pods that are gone.
#[derive(Debug, Parser)]
#[command(name = "ipgc", version, about, long_about = None, after_help = EXAMPLES)]
pub enum Cli {
    /// Collect addresses until SIGTERM or SIGINT
    Run(Box<run::Args>),
    /// Tell what is wrong with the addresses of a cluster, or of files of kubectl get -o json or yaml
    Audit(Box<audit::Args>),
    /// Tell why an address is held, or what is known of a pod, a pool or a node
    Explain(Box<explain::Args>),
    /// Tell how full each pool is, and with what
    Pools(Box<pools::Args>),
    /// Tell what is wrong with the addresses of a cluster, and then what changes, until it is stopped
    Watch(Box<watch::Args>),
    /// Free single addresses by hand, whatever they wait for
    Release(Box<release::Args>),
    /// Print the CRDs of the kinds that ipgc reads
    #[command(after_help = crds::EXAMPLES)]
    Crds {
        /// Write one file for each kind into this directory instead of printing
        #[arg(long, value_name = "DIR")]
        output: Option<PathBuf>,
    },
    /// Print a script by which a shell completes commands and flags
    #[command(after_help = completions::EXAMPLES)]
    Completions {
        /// Which shell; its script asks ipgc, which also knows pools, addresses, pods, nodes and namespaces of the cluster
        /// that kubectl uses
        shell: Shell,
    },
    /// Tell kubectl how the words of a command line after `kubectl ipgc` may go on
    #[command(name = "__complete", hide = true)]
    Complete {
        /// The words, of which the last one is to be completed
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
}

/// Runs the command that the arguments name.
pub fn main() -> ExitCode {
    completions::answer();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(help) if help.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            help.exit()
        }
        Err(error) if error.use_stderr() => return usage(&one_line(&error)),
        // Help and version, as they were asked for.
        Err(text) => text.exit(),
    };
    let ended = match cli {
        Cli::Run(args) => run::main(&args),
        Cli::Audit(args) => audit::main(&args),
        Cli::Explain(args) => explain::main(&args),
        Cli::Pools(args) => pools::main(&args),
        Cli::Watch(args) => watch::main(&args),
        Cli::Release(args) => release::main(&args),
        Cli::Crds { output } => crds::main(output.as_deref()),
        Cli::Completions { shell } => completions::main(shell),
        Cli::Complete { words } => completions::of_plugin(words),
    };
    ended.unwrap_or_else(|reason| usage(&reason))
}

/// The error as clap says it, and its tip, without the usage that follows.
fn one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let said: Vec<_> = text
        .split("\n\n")
        .take_while(|part| !part.starts_with("Usage:") && !part.starts_with("For more"))
        .map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let line = said.join("; ");
    line.strip_prefix("error: ").unwrap_or(&line).to_owned()
}

/// The longest line of an error: foreign names in it have no end.
const LONGEST: usize = 1_000;

/// How a command ended; an error is one line about bad input.
type Ended = Result<ExitCode, String>;

/// One line on standard error, and the exit code for bad input.
fn usage(message: &str) -> ExitCode {
    eprintln!("ipgc: {}", readable(message));
    ExitCode::from(2)
}

/// A message as a line for people.
fn readable(message: &str) -> String {
    cut(&clean(message), LONGEST)
}

/// The cells of a line of the terminal, where nothing tells them as many as people had; and whether it may have colours.
fn terminal() -> (usize, bool) {
    let asked = tcgetwinsize(stdout()).ok().map(|size| size.ws_col);
    let told = || env::var("COLUMNS").ok()?.parse().ok();
    let width = asked.filter(|width| *width > 0).or_else(told);
    let plain = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let colours = stdout().is_terminal() && !plain;
    (width.unwrap_or(80).into(), colours)
}

fn print(text: &str, code: ExitCode) -> Ended {
    print_with(code, |output| output.write_all(text.as_bytes()))
}

/// Prints as JSON for people as well as for programs.
fn print_json(value: &impl serde::Serialize, code: ExitCode) -> Ended {
    print_with(code, |output| {
        serde_json::to_writer_pretty(&mut *output, value)?;
        writeln!(output)
    })
}

/// Prints what is as large as it may be.
fn print_with(
    code: ExitCode,
    write: impl FnOnce(&mut BufWriter<io::StdoutLock<'_>>) -> io::Result<()>,
) -> Ended {
    let mut output = BufWriter::new(stdout().lock());
    match write(&mut output).and_then(|()| output.flush()) {
        // A reader may have enough of it before the end.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(unwritten(&error)),
        Ok(()) | Err(_) => Ok(code),
    }
}

/// Prints a line at once. It may hold foreign names.
fn print_line(line: &str) -> Result<(), String> {
    writeln!(stdout().lock(), "{}", clean(line)).map_err(|error| unwritten(&error))
}

fn unwritten(error: &io::Error) -> String {
    format!("cannot write: {error}")
}

/// Runs a command that makes requests one after the other.
fn block_on<T>(work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| format!("cannot start a runtime: {error}"))?;
    runtime.block_on(work)
}

//! `ipgc explain`: why an address is held, or what is known of a pod, a pool or a node.

use std::process::ExitCode;

use clap::ValueEnum;

use super::{Ended, block_on, candidates::Wanted, print, print_json, source, terminal};
use crate::audit::explain::{explain, text};

/// Arguments of `ipgc explain`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// An address, NAMESPACE/POD, a pool or its range, or node/NAME
    #[arg(add = Wanted::All.completer())]
    subject: String,

    #[command(flatten)]
    source: source::Args,

    /// How the answer is printed
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Output,
}

const EXAMPLES: &str = "\
Exit code: 0 explained, 2 nothing is known of it, or error

Give the collector's waits (--grace, ...) and --keep-podref: ipgc judges by them.

Examples:
  ipgc explain 10.0.0.7                 why is this address held?
  ipgc explain shop/cart-0              which addresses has this pod, or had it?
  ipgc explain 10.0.0.0-24              what of this pool is not in use?
  ipgc explain node/worker-3            what does it hold, and what would fencing it free?
  ipgc explain 10.0.0.7 -f dump.json    the same of a dump, see ipgc audit --help";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people
    Text,
    /// One object, described by schemas/explain.json in the repository
    Json,
}

pub(super) fn main(args: &Args) -> Ended {
    let snapshot = block_on(args.source.read())?;
    let policy = args.source.live.waits.policy();
    let explanation = explain(&snapshot, &policy, &args.subject)?;
    let (width, colours) = terminal();
    match args.output {
        Output::Text => print(&text(&explanation, width, colours), ExitCode::SUCCESS),
        Output::Json => print_json(&explanation, ExitCode::SUCCESS),
    }
}

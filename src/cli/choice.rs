//! Which findings are of interest, and in which form they are told: the flags that commands share.

use kube::core::Selector;

use crate::{
    audit::{filter::Filter, table::Output},
    snapshot::labels,
};

/// The findings that are asked for.
#[derive(Clone, Debug, Default, clap::Args)]
// Else its group would have the name of the command's own.
#[group(skip)]
pub struct Args {
    #[command(flatten)]
    pub(super) filter: Filter,

    /// Findings about pods with these labels only, as with kubectl; those that are gone have none in an audit, and in a
    /// watch those that they had
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = labels::parse)]
    pub(super) selector: Option<Selector>,
}

/// The same, and the form of the findings.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub struct Form {
    /// How findings are printed
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(super) output: Output,

    #[command(flatten)]
    pub(super) choice: Args,

    /// Print the schema of -o json, and look at nothing
    #[arg(long)]
    pub(super) schema: bool,
}

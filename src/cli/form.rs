//! In which form findings are told, and which of them: the flags that `ipgc audit` and `ipgc watch` share.

use super::choice;
use crate::audit::table::Output;

/// The form of the findings, and which of them are told.
#[derive(Clone, Debug, clap::Args)]
// Else its group would have the name of the command's own.
#[group(skip)]
pub struct Args {
    /// How findings are printed
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(super) output: Output,

    #[command(flatten)]
    pub(super) choice: choice::Args,

    /// Print the schema of -o json, and look at nothing
    #[arg(long)]
    pub(super) schema: bool,
}

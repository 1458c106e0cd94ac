//! Which findings are of interest: the flags that commands share.

use kube::core::Selector;

use crate::{audit::filter::Filter, snapshot::labels};

/// The findings that are asked for.
#[derive(Clone, Debug, Default, clap::Args)]
// Else its group would have the name of the command's own.
#[group(skip)]
pub struct Args {
    /// The properties that are asked for.
    #[command(flatten)]
    pub filter: Filter,

    /// Findings about pods with these labels only, as with kubectl; those that are gone have none in an audit, and in a
    /// watch those that they had
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = labels::parse)]
    pub selector: Option<Selector>,
}

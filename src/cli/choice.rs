//! Which findings are of interest, and in which form they are told: the flags that commands share.

use kube::core::Selector;

use crate::{
    audit::{filter::Filter, table::Output},
    snapshot::labels,
};

/// What is asked for.
#[derive(Clone, Debug, Default, clap::Args)]
// Else its group would have the name of the command's own.
#[group(skip)]
pub struct Args {
    /// Findings about this pool only, by its name or as NAMESPACE/NAME
    #[arg(long, value_name = "POOL")]
    pool: Option<String>,

    /// Findings about pods of this namespace only
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    /// Findings about this node only: of its pods, and what it holds
    #[arg(long, value_name = "NODE")]
    node: Option<String>,

    /// Findings about pods with these labels only, as with kubectl; those that are gone have none in an audit, and in a
    /// watch those that they had
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<String>,
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

impl Args {
    /// What a finding has to have.
    #[must_use]
    pub fn filter(&self) -> Filter {
        Filter {
            pool: self.pool.clone(),
            namespace: self.namespace.clone(),
            node: self.node.clone(),
        }
    }

    /// The labels that a pod has to have.
    ///
    /// # Errors
    /// One line that says what is no selector.
    pub fn selector(&self) -> Result<Option<Selector>, String> {
        self.selector.as_deref().map(labels::parse).transpose()
    }
}

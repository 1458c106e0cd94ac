//! In which form findings are told, and which of them: the flags that `ipgc audit` and `ipgc watch` share.

use clap::ValueEnum;

use super::choice;
use crate::audit::table::Column;

/// What is told, and how.
#[derive(Clone, Debug, clap::Args)]
// Else its group would have the name of the command's own.
#[group(skip)]
pub struct Args {
    /// How findings are printed
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Output,

    /// The columns of the table
    #[arg(long, value_name = "COLUMN", value_delimiter = ',')]
    columns: Vec<Column>,

    #[command(flatten)]
    pub(super) choice: choice::Args,

    /// Print the schema of -o json, and look at nothing
    #[arg(long)]
    pub(super) schema: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A line for each finding, or for each change of one
    Table,
    /// The same with all columns
    Wide,
    /// One object, or one in a line for each change, see --schema
    Json,
}

impl Args {
    /// The columns of a table; without, JSON.
    #[must_use]
    pub fn columns(&self) -> Option<&[Column]> {
        match (self.output, self.columns.as_slice()) {
            (Output::Json, _) => None,
            (Output::Table, []) => Some(&Column::USUAL),
            (Output::Wide, []) => Some(&Column::WIDE),
            (Output::Table | Output::Wide, columns) => Some(columns),
        }
    }
}

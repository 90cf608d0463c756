//! Options of the list commands: one vocabulary for all of them.

use clap::Args;

use crate::select::ListQuery;

/// The selection, order and columns of a list.
#[derive(Clone, Debug, Args)]
pub struct QueryArgs {
    /// Show only matching rows; if you give several filters, all must match
    ///
    /// A filter is KEY=VALUE, KEY!=VALUE, KEY<VALUE, KEY<=VALUE, KEY>VALUE, KEY>=VALUE, or KEY~TEXT for a
    /// text within the value. The keys are listed below. A number may have a unit: 20ms, 10Mbit, 1%, 5min. An
    /// address equals a prefix that contains it, a list equals each of its entries, and `-` stands for a
    /// missing value. A TEXT alone may stand in any of the usual columns. Quote `<` and `>` in a shell.
    #[arg(long, value_name = "FILTER")]
    pub filter: Vec<String>,
    /// Sort by these columns, least first; `-KEY` puts the greatest first
    #[arg(
        long,
        value_name = "KEY",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    pub sort: Vec<String>,
    /// Show at most so many paths, connections or flows
    #[arg(long, value_name = "COUNT")]
    pub limit: Option<usize>,
    /// Show these columns instead of the usual ones; JSON always has all fields
    #[arg(long, value_name = "KEY", value_delimiter = ',')]
    pub columns: Vec<String>,
}

/// The selection, order and columns of a list of paths or connections.
#[derive(Clone, Debug, Args)]
pub struct SelectArgs {
    /// Rows and columns.
    #[command(flatten)]
    pub rows: QueryArgs,
    /// Also show the processes and pods of the connections
    #[arg(long)]
    pub processes: bool,
}

impl SelectArgs {
    /// The query as it was written, not parsed yet.
    pub fn query(&self) -> ListQuery {
        self.rows.query()
    }
}

impl QueryArgs {
    /// The query as it was written, not parsed yet.
    pub fn query(&self) -> ListQuery {
        ListQuery {
            filter: self.filter.clone(),
            sort: self.sort.clone(),
            limit: self.limit,
            columns: self.columns.clone(),
        }
    }
}

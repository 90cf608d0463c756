//! The lists of the commands: asks the daemon for them, and selects the rows.

use std::path::Path;

use tcpilot_show::select::{Listed, NoPart, Selection};

use crate::{
    args::PathsArgs,
    figures::{AlgorithmView, FlowView, PathView},
    owners,
    protocol::{self, AskError, Request},
    table,
};

/// Columns that need a search for the owners of connections.
const OWNERS: [&str; 4] = ["processes", "pids", "cgroup", "pods"];

impl Listed for PathView {
    const HAS_PROCESSES: bool = true;
    type Part = AlgorithmView;
    const PARTS: &'static str = "algorithms";
    const NAME: &'static str = "Path";

    fn name(&self) -> String {
        table::class_name(self)
    }

    fn parts(&self) -> &[AlgorithmView] {
        &self.algorithms
    }

    fn parts_mut(&mut self) -> Option<&mut Vec<AlgorithmView>> {
        Some(&mut self.algorithms)
    }
}

impl Listed for FlowView {
    const HAS_PROCESSES: bool = true;
    type Part = NoPart;
}

/// The user's selection of paths; `processes`: with the processes and pods of their connections.
///
/// # Errors
/// The daemon does not answer.
pub fn paths(
    socket: &Path,
    selection: &Selection<PathView>,
    processes: bool,
) -> Result<Vec<PathView>, AskError> {
    let mut paths = all_paths(socket, selection, processes)?;
    selection.apply(&mut paths);
    Ok(paths)
}

/// The user's selection of paths as a table. Unless `all` is set or columns are named, it has a row for each address.
///
/// # Errors
/// The daemon does not answer.
pub fn table_of_paths(
    socket: &Path,
    selection: &Selection<PathView>,
    list: &PathsArgs,
) -> Result<String, AskError> {
    let processes = list.list.processes;
    if list.all || selection.has_columns() {
        let paths = paths(socket, selection, processes)?;
        return Ok(table::selected_paths(&paths, selection, processes));
    }
    let mut paths = all_paths(socket, selection, processes)?;
    selection.apply_whole(&mut paths);
    let names = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    let names = table::hosts(&names);
    Ok(table::selected_addresses(
        &paths, selection, &names, processes,
    ))
}

/// All paths, the most recently used first, with owners if the selection needs them.
fn all_paths(
    socket: &Path,
    selection: &Selection<PathView>,
    processes: bool,
) -> Result<Vec<PathView>, AskError> {
    let mut paths: Vec<PathView> = protocol::ask(socket, &Request::Paths)?;
    PathView::sort(&mut paths);
    if processes || selection.names(&OWNERS) {
        let mut flows: Vec<FlowView> = protocol::ask(socket, &Request::Flows)?;
        owners::name_owners(&mut flows);
        owners::name_owners_of_paths(&mut paths, &flows);
    }
    Ok(paths)
}

/// The user's selection of connections; `processes`: with their processes and pods.
///
/// # Errors
/// The daemon does not answer.
pub fn flows(
    socket: &Path,
    selection: &Selection<FlowView>,
    processes: bool,
) -> Result<Vec<FlowView>, AskError> {
    let mut flows: Vec<FlowView> = protocol::ask(socket, &Request::Flows)?;
    if processes || selection.names(&OWNERS) {
        owners::name_owners(&mut flows);
    }
    selection.apply(&mut flows);
    Ok(flows)
}

//! The options of `tcpilot cc`, and the text of their help.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use tcpilot_kernel::cc::DEFAULT_BPFFS;

/// Commands about congestion controls.
#[derive(Debug, Subcommand)]
pub enum CcCommand {
    /// List the kernel's and tcpilot's: state, sockets that use each, and its purpose
    #[command(after_long_help = super::json_fields())]
    List {
        /// Print JSON for scripts instead of a table
        #[arg(long)]
        json: bool,
        /// BPF file system with the pins of `cc load`
        #[arg(long, value_name = "DIR", default_value = DEFAULT_BPFFS)]
        bpffs: PathBuf,
    },
    /// Register some of tcpilot's, or objects of your own, for sockets to choose
    ///
    /// The kernel verifies each, and tcpilot tries it with data on a loopback connection. It stays until you
    /// unload it or the host boots: a file in the BPF file system keeps it.
    Load(LoadArgs),
    /// Remove an algorithm registered by `cc load`; refuses while sockets use it
    Unload(UnloadArgs),
}

/// Options of `tcpilot cc load`.
#[derive(Debug, Args)]
pub struct LoadArgs {
    /// Names as in `cc list`, or files: ./mine.bpf.o; `all` means all of tcpilot's
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,
    /// Keep them for as long as this process runs, instead of pinning them
    #[arg(long, conflicts_with = "update")]
    pub foreground: bool,
    /// Put a new version in the place of a loaded one; connections keep the old one until they end
    #[arg(long)]
    pub update: bool,
    /// Count acknowledgements as Linux's module of bic, hstcp or hybla does, instead of packets
    #[arg(long)]
    pub as_module: bool,
    /// BPF file system with the pins of `cc load`
    #[arg(long, value_name = "DIR", default_value = DEFAULT_BPFFS)]
    pub bpffs: PathBuf,
}

/// Options of `tcpilot cc unload`.
#[derive(Debug, Args)]
pub struct UnloadArgs {
    /// Names as in `cc list`, not file names
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,
    /// Unload even while sockets use it; they keep it until they close
    #[arg(long)]
    pub force: bool,
    /// BPF file system with the pins of `cc load`
    #[arg(long, value_name = "DIR", default_value = DEFAULT_BPFFS)]
    pub bpffs: PathBuf,
}

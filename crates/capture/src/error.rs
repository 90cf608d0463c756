/// Why a capture cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It has no bytes.
    #[error("it has no packets")]
    Empty,
    /// It begins as no known format does.
    #[error("it is no capture: neither pcap nor pcapng")]
    Format,
    /// It ends within its header.
    #[error("it ends within its header")]
    Header,
    /// The file cannot be read.
    #[error(transparent)]
    Input(#[from] std::io::Error),
    /// The tables cannot be allocated.
    #[error("there is no memory for the table of flows")]
    Memory,
}

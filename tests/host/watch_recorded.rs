//! The file of `tcpilot watch --record`.

use std::{fs, path::Path};

use tcpilot_abi::{
    TP_RECORD_OPENED, TP_RECORD_ROUND, from_bytes, tp_interval, tp_opened, tp_round,
};

/// The rounds of a recording.
pub fn recorded_rounds(path: &Path) -> Vec<tp_round> {
    let bytes = fs::read(path).unwrap();
    let mut rest = bytes.strip_prefix(b"TPWATCH1").unwrap();
    let mut found = Vec::new();
    while let Some(kind) = rest.first() {
        let kind = u32::from(*kind);
        let size = match kind {
            TP_RECORD_OPENED => size_of::<tp_opened>(),
            TP_RECORD_ROUND => size_of::<tp_round>(),
            _ => size_of::<tp_interval>(),
        };
        if kind == TP_RECORD_ROUND {
            found.push(from_bytes(rest).unwrap());
        }
        rest = &rest[size..];
    }
    found
}

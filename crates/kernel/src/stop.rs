//! The signals that end a process.

use std::{
    io,
    sync::{Arc, atomic::AtomicBool},
};

use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag::register,
};

use crate::host;

/// A flag, set by a signal to end tcpilot. A terminal sends SIGHUP when it goes away: this does not
/// count under nohup(1).
///
/// # Errors
/// The kernel's.
pub fn stop_flag() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        if signal != SIGHUP || !host::ignores_signal(SIGHUP) {
            register(signal, Arc::clone(&stop))?;
        }
    }
    Ok(stop)
}

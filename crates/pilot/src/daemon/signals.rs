//! Signals: SIGINT and SIGTERM end tcpilot. SIGHUP means a lost terminal, and ends a process started by a
//! terminal. A service reloads its configuration on SIGHUP.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag::register,
};
use tcpilot_kernel::{host, stop_flag, take_signals};
use tcpilot_show::failure::Failure;

/// The requests received as signals.
pub(super) struct Signals {
    stop: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
}

impl Signals {
    /// Starts to take signals.
    pub fn listen() -> Result<Signals, Failure> {
        let reload = Arc::new(AtomicBool::new(false));
        if host::has_terminal() {
            let stop = stop_flag()?;
            return Ok(Signals { stop, reload });
        }
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            register(signal, Arc::clone(&stop))?;
        }
        if !host::ignores_signal(SIGHUP) {
            register(SIGHUP, Arc::clone(&reload))?;
        }
        Ok(Signals { stop, reload })
    }

    /// The same after an upgrade: the former program blocked signals, and now they are delivered.
    pub fn resume() -> Result<Signals, Failure> {
        let signals = Signals::listen()?;
        take_signals()?;
        Ok(signals)
    }

    /// Whether a signal has asked to end.
    pub fn stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether a signal has asked to reload the configuration, since the last call.
    pub fn reload(&self) -> bool {
        self.reload.swap(false, Ordering::Relaxed)
    }
}

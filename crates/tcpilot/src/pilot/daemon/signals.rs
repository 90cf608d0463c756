//! What signals mean: SIGINT and SIGTERM end tcpilot. SIGHUP ends what a terminal started, since it says
//! that the terminal is gone, and has a service read its configuration anew.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag::register,
};
use tcpilot_kernel::{host, take_signals};

use crate::failure::Failure;

/// Set by a signal that ends tcpilot. A terminal that goes away sends SIGHUP, unless nohup(1) keeps it off.
pub(crate) fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        if signal != SIGHUP || !host::ignores_signal(SIGHUP) {
            register(signal, Arc::clone(&stop))?;
        }
    }
    Ok(stop)
}

/// What signals have asked for.
pub(super) struct Signals {
    stop: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
}

impl Signals {
    /// From now on they are heard.
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

    /// The same for a program that another one became, which held them back meanwhile.
    pub fn resume() -> Result<Signals, Failure> {
        let signals = Signals::listen()?;
        take_signals()?;
        Ok(signals)
    }

    /// Whether to end.
    pub fn stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether to read the configuration anew; asked for once.
    pub fn reload(&self) -> bool {
        self.reload.swap(false, Ordering::Relaxed)
    }
}

//! Signals: one ends a run of tests, and nothing is left behind.

use std::{
    mem::MaybeUninit,
    ptr,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

static ENDED: AtomicBool = AtomicBool::new(false);
const ENDING: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// From here on these signals only make [`ended`] true. Call it before any thread is started: a thread
/// inherits the mask of its maker.
///
/// # Errors
/// When the system refuses.
pub fn take() -> Result<(), String> {
    let set = ending();
    // SAFETY: a plain system call; set outlives it.
    let result = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) };
    if result != 0 {
        return Err(format!("signals cannot be blocked: error {result}"));
    }
    thread::spawn(move || {
        let mut signal = 0;
        // SAFETY: as above; signal is valid for writes.
        while unsafe { libc::sigwait(&raw const set, &raw mut signal) } != 0 {}
        ENDED.store(true, Ordering::Relaxed);
    });
    Ok(())
}

/// Whether one of them came.
pub fn ended() -> bool {
    ENDED.load(Ordering::Relaxed)
}

/// For a child, between fork and exec: it gets its signals again, even those that nohup(1) or a shell without
/// job control ignored when the tests were started. Tests check a daemon's reaction to them.
pub fn unblock() {
    let set = ending();
    for signal in ENDING {
        // SAFETY: a plain system call.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: a plain system call; set outlives it.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut()) };
}

fn ending() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset makes set valid.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        let mut set = set.assume_init();
        for signal in ENDING {
            libc::sigaddset(&raw mut set, signal);
        }
        set
    }
}

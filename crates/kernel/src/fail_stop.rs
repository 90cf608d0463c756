//! A program that is half dead is worse than one that ends: its service manager starts it again.

use std::panic;

/// Ends this process, by SIGABRT, as soon as any thread but the first one panics. A panic of the first thread ends the
/// process anyway, and undoes on its way what was changed on the host; the next start does that after an abort.
pub fn end_on_panic() {
    let report = panic::take_hook();
    let first = std::thread::current().id();
    panic::set_hook(Box::new(move |panicked| {
        report(panicked);
        if std::thread::current().id() != first {
            tracing::error!("a thread panicked: the process ends");
            std::process::abort();
        }
    }));
}

#[cfg(test)]
mod tests {
    use std::{os::unix::process::ExitStatusExt, process::Command, time::Duration};

    use super::*;

    const VARIABLE: &str = "TCPILOT_TEST_PANICS";

    #[test]
    fn a_panic_of_any_thread_ends_the_process() {
        if std::env::var_os(VARIABLE).is_some() {
            end_on_panic();
            let _ = std::thread::spawn(|| panic!("of a thread that nobody joins")).join();
            std::thread::sleep(Duration::from_secs(60));
            return;
        }
        let own = std::env::current_exe().unwrap();
        let mut again = Command::new(own);
        again.args([
            "--exact",
            "fail_stop::tests::a_panic_of_any_thread_ends_the_process",
        ]);
        let ended = again.env(VARIABLE, "1").output().unwrap();
        assert_eq!(ended.status.signal(), Some(6), "{ended:?}");
    }
}

//! The daemon's messages to a service manager, sd_notify(3). `lab/tests/test_service_vm.py` tests them with a
//! real systemd.

use std::{os::unix::net::UnixDatagram, path::Path, time::Duration};

use tcpilot_tests::{Lab, Place, attached, until};

use crate::ALWAYS_BBR;

/// The manager's end.
struct Manager(UnixDatagram);

impl Manager {
    fn at(path: &Path) -> Manager {
        let socket = UnixDatagram::bind(path).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(50)))
            .unwrap();
        Manager(socket)
    }

    /// The next message; none if there is none yet.
    fn heard(&self) -> Option<String> {
        let mut bytes = [0; 4096];
        let length = self.0.recv(&mut bytes).ok()?;
        Some(String::from_utf8(bytes[..length].to_vec()).unwrap())
    }

    /// Waits for the next message other than a renewal of the watchdog.
    fn next(&self) -> String {
        until("the manager is told something", || {
            self.heard()
                .filter(|message| message.trim() != "WATCHDOG=1")
        })
    }
}

/// A lab, a manager, and a place for a daemon reporting to it.
macro_rules! managed {
    ($lab:ident, $manager:ident, $place:ident) => {
        let $lab = Lab::new();
        let path = $lab.dir.path().join("notify.sock");
        let $manager = Manager::at(&path);
        let $place = Place {
            manager: Some(&path),
            ..Place::here()
        };
    };
}

#[test]
fn daemon_notifies_ready_when_attached_then_stopping() {
    managed!(lab, manager, place);
    let pilot = lab.spawn_pilot(place, ALWAYS_BBR, &[]);
    let ready = manager.next();
    assert!(ready.starts_with("READY=1\nSTATUS=steers "), "{ready}");
    assert!(ready.contains(" with bbr\n"), "{ready}");
    assert_eq!(attached(lab.cgroup.path()).len(), 1);
    assert_eq!(pilot.ready().end(libc::SIGTERM).status, Some(0));
    assert_eq!(manager.next().trim(), "STOPPING=1");
}

#[test]
fn a_start_that_fails_is_never_ready() {
    managed!(lab, manager, place);
    let mut pilot = lab.spawn_pilot(place, "algorithms = 1", &[]);
    assert_eq!(pilot.ended().status, Some(2));
    assert_eq!(manager.heard(), None);
}

#[test]
fn watchdog_is_renewed_only_by_main_loop() {
    managed!(lab, manager, place);
    let pilot = lab.spawn_pilot(place, ALWAYS_BBR, &[]).ready();
    manager.next();
    for _ in 0..2 {
        let renewed = || manager.heard().filter(|m| m.trim() == "WATCHDOG=1");
        until("the watchdog is renewed", renewed);
    }
    pilot.signal(libc::SIGSTOP);
    until("it is silent for three seconds", || {
        let silent = (0..60).all(|_| manager.heard().is_none());
        silent.then_some(())
    });
    pilot.signal(libc::SIGCONT);
    until("it is heard again", || manager.heard());
}

#[test]
fn every_reload_notifies_ready_even_if_refused() {
    managed!(lab, manager, place);
    let pilot = lab.spawn_pilot(place, ALWAYS_BBR, &[]).ready();
    manager.next();
    let reload = |config: &str| {
        pilot.configure(config);
        pilot.signal(libc::SIGHUP);
        let begun = manager.next();
        let lines: Vec<_> = begun.lines().collect();
        assert_eq!((lines[0], lines[2]), ("RELOADING=1", "WATCHDOG=1"));
        let time = lines[1].strip_prefix("MONOTONIC_USEC=").unwrap();
        assert!(time.parse::<u64>().unwrap() > 0);
        manager.next()
    };
    let taken = reload(&ALWAYS_BBR.replace(r#"["bbr"]"#, r#"["cubic", "bbr"]"#));
    assert!(taken.starts_with("READY=1\n"), "{taken}");
    assert!(taken.contains(" with bbr cubic\n"), "{taken}");
    let refused = reload("algorithms = 1");
    assert!(refused.starts_with("READY=1\n"), "{refused}");
    assert_eq!(pilot.take_overs(), (1, 1));
}

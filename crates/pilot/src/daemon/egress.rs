//! Sends acknowledgements first on some devices: a prio qdisc replaces the kernel's default one while the
//! daemon runs.
//!
//! A qdisc outlives its process. So the daemon notes each one in a journal before it adds it. After a kill
//! the next start deletes these qdiscs. If the root qdisc of a device is not the kernel's default (its handle
//! is not 0), somebody chose it, and tcpilot leaves it alone. So the journal needs no former qdisc: when ours
//! is deleted, the kernel puts its default back.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use tcpilot_kernel::file;
use tcpilot_netlink::device::index_of;
use tcpilot_netlink::tc::{Device as Tc, Qdisc, ROOT};

/// The handle of our qdiscs, by which we recognize them.
const HANDLE: u32 = 0x07c1_0000;

/// The added qdiscs; dropping this deletes them.
pub struct Egress {
    /// The devices with our qdisc, by the journal.
    devices: Vec<String>,
    journal: PathBuf,
}

impl Egress {
    /// Deletes the qdiscs of a killed daemon, then adds one to each of `devices`. Returns a sentence for each
    /// failure.
    pub fn set_up(devices: &[String], state: &Path) -> (Egress, Vec<String>) {
        Egress::read(journal_of(state)).renew(devices, |_| false)
    }

    /// As [`Egress::set_up`], but after an upgrade: the former program deleted nothing, so qdiscs still
    /// wanted stay.
    pub fn go_on(devices: &[String], state: &Path) -> (Egress, Vec<String>) {
        Egress::read(journal_of(state)).renew(devices, |device| devices.contains(device))
    }

    fn renew(
        mut self,
        devices: &[String],
        stays: impl Fn(&String) -> bool,
    ) -> (Egress, Vec<String>) {
        let mut problems = self.clear(|device| stays(device), delete);
        let there: Vec<String> = self.devices.iter().filter(|d| stays(d)).cloned().collect();
        for device in devices.iter().filter(|device| !there.contains(device)) {
            if let Err(error) = self.add(device) {
                problems.push(format!(
                    "{device} serves acknowledgements like the rest: {error}"
                ));
            }
        }
        (self, problems)
    }

    fn read(journal: PathBuf) -> Egress {
        let left = fs::read_to_string(&journal).unwrap_or_default();
        Egress {
            devices: left.lines().map(str::to_owned).collect(),
            journal,
        }
    }

    /// Deletes all qdiscs except the wanted ones. If a deletion fails, the qdisc stays in the journal too.
    /// Returns a sentence for each failure.
    fn clear(
        &mut self,
        stays: impl Fn(&String) -> bool,
        delete: impl Fn(&str) -> io::Result<()>,
    ) -> Vec<String> {
        if self.devices.is_empty() {
            return Vec::new();
        }
        let mut problems = Vec::new();
        let delete_unless = |stays: bool, device: &str| match stays {
            true => Ok(true),
            false => delete(device).map(|()| false),
        };
        self.devices
            .retain(|device| match delete_unless(stays(device), device) {
                Ok(stays) => stays,
                Err(error) => {
                    problems.push(format!("{device} keeps tcpilot's prio qdisc: {error}"));
                    true
                }
            });
        let kept = match self.devices.is_empty() {
            true => fs::remove_file(&self.journal),
            false => self.write_journal(),
        };
        problems.extend(
            kept.err()
                .map(|e| format!("{}: {e}", self.journal.display())),
        );
        problems
    }

    fn add(&mut self, device: &str) -> io::Result<()> {
        let index = index_of(device);
        if index == 0 {
            return Err(io::Error::other("there is no such device"));
        }
        let tc = Tc::new(index)?;
        let all = tc.qdiscs()?;
        if let Some(root) = all.iter().find(|q| q.parent == ROOT && q.handle != 0) {
            return Err(io::Error::other(format!(
                "its qdisc {} is not the kernel's default, so it is left as it is",
                root.kind
            )));
        }
        if !self.devices.iter().any(|known| known == device) {
            self.devices.push(device.to_owned());
            self.write_journal()?;
        }
        tc.add_prio(HANDLE)
    }

    /// Writes the journal to disk, before the qdisc is added.
    fn write_journal(&self) -> io::Result<()> {
        let devices = self.devices.join("\n") + "\n";
        file::replace(&self.journal, file::PRIVATE, devices.as_bytes())
    }
}

/// The journal, next to the state file.
fn journal_of(state: &Path) -> PathBuf {
    let mut journal = state.as_os_str().to_owned();
    journal.push(".qdiscs");
    journal.into()
}

impl Drop for Egress {
    fn drop(&mut self) {
        for problem in self.clear(|_| false, delete) {
            tracing::warn!("{problem}");
        }
    }
}

/// Deletes our qdisc if it is still there. Somebody may have replaced it, or the device may be gone.
fn delete(device: &str) -> io::Result<()> {
    let index = index_of(device);
    if index == 0 {
        return Ok(());
    }
    let tc = Tc::new(index)?;
    let is_ours = |all: Vec<_>| {
        let mut all = all.into_iter();
        all.any(|q: Qdisc| q.parent == ROOT && q.handle == HANDLE)
    };
    match tc.qdiscs().map(is_ours)? {
        true => tc.delete(ROOT),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_deletion_stays_in_the_journal() {
        let dir = tempfile::tempdir().unwrap();
        let journal = dir.path().join("state.db.qdiscs");
        fs::write(&journal, "eth0\neth1\n").unwrap();
        let refuse_one = |device: &str| match device {
            "eth1" => Err(io::ErrorKind::PermissionDenied.into()),
            _ => Ok(()),
        };
        let mut egress = Egress::read(journal.clone());
        let problems = egress.clear(|_| false, refuse_one);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].starts_with("eth1 keeps"), "{problems:?}");
        assert_eq!(fs::read_to_string(&journal).unwrap(), "eth1\n");
        assert!(egress.clear(|_| false, |_| Ok(())).is_empty());
        assert!(!journal.exists());
    }

    #[test]
    fn wanted_qdisc_stays_and_stays_journalled() {
        let dir = tempfile::tempdir().unwrap();
        let journal = dir.path().join("state.db.qdiscs");
        fs::write(&journal, "eth0\neth1\n").unwrap();
        let mut egress = Egress::read(journal.clone());
        let only_eth1 = |device: &str| {
            assert_eq!(device, "eth1");
            Ok(())
        };
        assert!(
            egress
                .clear(|device| device == "eth0", only_eth1)
                .is_empty()
        );
        assert_eq!(fs::read_to_string(&journal).unwrap(), "eth0\n");
        egress.devices.clear(); // no such qdisc exists, so drop must not delete one
    }
}

//! Follows the steered cgroup: when a service restarts, its cgroup is removed and recreated.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    time::{Duration, Instant},
};

use rustix::{
    fs::inotify::{CreateFlags, WatchFlags, add_watch, init},
    io::read,
};
use tcpilot_kernel::host;
use tcpilot_show::failure::{Failure, Kind};

use super::Daemon;

/// A cgroup still missing after this time counts as removed for good.
const RETURNS_WITHIN: Duration = Duration::from_secs(5);

/// Wakes the daemon when a cgroup in the same directory comes or goes. It is empty on a host without free
/// inotify instances: the daemon also looks once a second.
pub(super) struct Changes(Option<OwnedFd>);

impl Changes {
    /// Watches the cgroup's parent directory.
    pub fn beside(cgroup: &Path) -> Changes {
        let open = || {
            let directory = cgroup.canonicalize().ok()?;
            let fd = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
            let what = WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::ONLYDIR;
            add_watch(&fd, directory.parent()?, what).ok()?;
            Some(fd)
        };
        Changes(open())
    }

    /// A descriptor that becomes readable after a change.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(AsFd::as_fd)
    }

    /// Reads the changes, to make the descriptor unreadable until the next one.
    fn forget(&self) {
        let mut events = [0u8; 4096];
        while self.fd().is_some_and(|fd| read(fd, &mut events).is_ok()) {}
    }
}

impl Daemon {
    /// Attaches again if the cgroup was recreated.
    ///
    /// # Errors
    /// The cgroup is gone and does not come back, or the programs cannot be attached to it.
    pub(super) fn follow_cgroup(&mut self) -> Result<(), Failure> {
        self.changes.forget();
        if self.pilot.is_attached() {
            self.gone_since = None;
            return Ok(());
        }
        let Ok(id) = host::cgroup_id(&self.cgroup) else {
            return self.wait_for_return();
        };
        let cgroup = self.cgroup.clone();
        if let Err(error) = self.pilot.attach(&cgroup) {
            // The cgroup may have been removed again meanwhile.
            return match host::cgroup_id(&cgroup) {
                Ok(now) if now == id => Err(error.into()),
                _ => Ok(()),
            };
        }
        self.pilot.set_cgroup(id);
        self.changes = Changes::beside(&cgroup);
        self.gone_since = None;
        tracing::info!(
            cgroup = %cgroup.display(),
            "the cgroup was removed and made anew: attached to the new one"
        );
        Ok(())
    }

    fn wait_for_return(&mut self) -> Result<(), Failure> {
        let since = *self.gone_since.get_or_insert_with(Instant::now);
        if since.elapsed() < RETURNS_WITHIN {
            return Ok(());
        }
        Err(Failure::new(
            Kind::Failed,
            format!("the cgroup {} was removed", self.cgroup.display()),
            "start again with a cgroup that stays",
        ))
    }
}

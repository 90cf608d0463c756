//! Where the programs of the watch are attached: at hooks of tc at the device from kernel 6.6 on, else at
//! tracepoints, which fire for all devices.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

use libbpf_rs::{
    Link, ProgramMut,
    btf::{Btf, types::Struct},
    libbpf_sys::{BPF_TCX_EGRESS, BPF_TCX_INGRESS},
};

use super::{
    fair::link_tcx,
    skeleton::{OpenWatchSkel, WatchProgs, WatchSkel},
};
use crate::{Error, object::map_error};

/// Where packets are seen that go into the queue, and that come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Places {
    /// At tracepoints.
    Traced,
    /// At hooks of tc: the device's own, and headers are read in place.
    Direct,
}

/// The places that this kernel has.
pub(super) fn places() -> Places {
    let has_tcx = Btf::from_vmlinux().is_ok_and(|btf| {
        let link: Option<Struct<'_>> = btf.type_by_name("tcx_link");
        link.is_some()
    });
    if has_tcx {
        Places::Direct
    } else {
        Places::Traced
    }
}

impl Places {
    /// Chooses the programs that are loaded.
    pub fn choose(self, open: &mut OpenWatchSkel<'_>) {
        let progs = &mut open.progs;
        let is_direct = self == Places::Direct;
        for (program, is_wanted) in [
            (&mut progs.watch_in, !is_direct),
            (&mut progs.watch_back, !is_direct),
            (&mut progs.watch_in_tc, is_direct),
            (&mut progs.watch_back_tc, is_direct),
        ] {
            program.set_autoload(is_wanted);
        }
    }
}

/// The attached programs.
pub(super) struct Hooks {
    places: Places,
    _traced: Vec<Link>,
    /// The device, and the links there.
    device: Option<(u32, [OwnedFd; 2])>,
}

impl Hooks {
    /// Attaches the programs that belong to no device.
    pub fn attach(skel: &mut WatchSkel<'static>, places: Places) -> Result<Hooks, Error> {
        let progs = &mut skel.progs;
        let mut traced = vec![&mut progs.watch_out, &mut progs.watch_drop];
        if places == Places::Traced {
            traced.extend([&mut progs.watch_in, &mut progs.watch_back]);
        }
        let attach = |program: &mut ProgramMut<'_>| program.attach();
        let links: Result<_, _> = traced.into_iter().map(attach).collect();
        Ok(Hooks {
            places,
            _traced: links.map_err(map_error("attach a tracepoint"))?,
            device: None,
        })
    }

    /// Attaches the others to a device; 0: there is none.
    pub fn follow(&mut self, skel: &WatchSkel<'_>, ifindex: u32) -> Result<(), Error> {
        if self.places == Places::Traced || self.device.as_ref().is_some_and(|d| d.0 == ifindex) {
            return Ok(());
        }
        self.device = None;
        if ifindex == 0 {
            return Ok(());
        }
        let back = link_tcx(skel.progs.watch_back_tc.as_fd(), ifindex, BPF_TCX_INGRESS);
        let going_in = link_tcx(skel.progs.watch_in_tc.as_fd(), ifindex, BPF_TCX_EGRESS);
        match back.and_then(|back| Ok([back, going_in?])) {
            Ok(links) => self.device = Some((ifindex, links)),
            // It vanished. The next look tries again.
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
            Err(source) => return Err(refused(source)),
        }
        Ok(())
    }

    /// The programs that see packets going in, and coming back.
    pub fn programs<'a, 'obj>(
        &self,
        progs: &'a WatchProgs<'obj>,
    ) -> (&'a ProgramMut<'obj>, &'a ProgramMut<'obj>) {
        match self.places {
            Places::Traced => (&progs.watch_in, &progs.watch_back),
            Places::Direct => (&progs.watch_in_tc, &progs.watch_back_tc),
        }
    }
}

fn refused(source: io::Error) -> Error {
    Error::System {
        action: "attach the programs to the device",
        source,
    }
}

//! Where the programs of the watch are attached: at hooks of tc at the device from kernel 6.6 on, else at
//! tracepoints for all devices. Leaving packets are seen at the kernel's function for taking them out of a
//! queue, or at a tracepoint if the device has none.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

use libbpf_rs::{
    Link, ProgramMut,
    libbpf_sys::{BPF_TCX_EGRESS, BPF_TCX_INGRESS},
};

use super::{
    fair::link_tcx,
    skeleton::{OpenWatchSkel, WatchProgs, WatchSkel},
};
use crate::{Error, object::map_error, trace::may_trace, types::KernelTypes};

/// The hooks for packets into the queue, and for packets in the other direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HookPoint {
    /// At tracepoints.
    Traced,
    /// At hooks of tc: the device's own, and headers are read in place.
    Direct,
}

/// The hooks of this kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct HookSupport {
    point: HookPoint,
    /// Whether the function for taking packets out of queues can be traced.
    queues: bool,
}

/// Asks the kernel for its hooks.
pub(super) fn hook_support() -> HookSupport {
    let is_direct = KernelTypes::get().is_ok_and(|types| types.tcx);
    HookSupport {
        point: if is_direct {
            HookPoint::Direct
        } else {
            HookPoint::Traced
        },
        queues: may_trace("sch_direct_xmit"),
    }
}

impl HookSupport {
    /// Chooses the programs to load.
    pub fn choose(self, open: &mut OpenWatchSkel<'_>) {
        let progs = &mut open.progs;
        let is_direct = self.point == HookPoint::Direct;
        for (program, is_wanted) in [
            (&mut progs.watch_out_queue, self.queues),
            (&mut progs.watch_in, !is_direct),
            (&mut progs.watch_back, !is_direct),
            (&mut progs.watch_in_tc, is_direct),
            (&mut progs.watch_back_tc, is_direct),
        ] {
            program.set_autoload(is_wanted);
        }
    }
}

/// The hook for leaving packets.
struct Exit {
    _link: Link,
    /// At the function for taking packets out of queues, or else at the tracepoint.
    is_of_queue: bool,
}

/// The attached programs.
pub(super) struct Hooks {
    support: HookSupport,
    /// `None` until it is known whether the device has a queue.
    exit: Option<Exit>,
    /// Whether the function cannot be traced after all.
    is_refused: bool,
    _traced: Vec<Link>,
    /// The device, and the links there.
    device: Option<(u32, [OwnedFd; 2])>,
}

impl Hooks {
    /// Attaches the programs without a device.
    pub fn attach(skel: &mut WatchSkel<'static>, support: HookSupport) -> Result<Hooks, Error> {
        let progs = &mut skel.progs;
        let mut traced = vec![&mut progs.watch_drop];
        if support.point == HookPoint::Traced {
            traced.extend([&mut progs.watch_in, &mut progs.watch_back]);
        }
        let attach = |program: &mut ProgramMut<'_>| program.attach();
        let links: Result<_, _> = traced.into_iter().map(attach).collect();
        Ok(Hooks {
            support,
            exit: None,
            is_refused: false,
            _traced: links.map_err(map_error("attach a tracepoint"))?,
            device: None,
        })
    }

    /// Sees packets leave: at the queue if the device has one, and the kernel allows it, else at the tracepoint.
    pub fn leave(&mut self, skel: &mut WatchSkel<'static>, has_queue: bool) -> Result<(), Error> {
        let is_of_queue = has_queue && self.support.queues && !self.is_refused;
        if self
            .exit
            .as_ref()
            .is_some_and(|exit| exit.is_of_queue == is_of_queue)
        {
            return Ok(());
        }
        self.exit = None; // with both a packet would count twice
        let program = match is_of_queue {
            true => &mut skel.progs.watch_out_queue,
            false => &mut skel.progs.watch_out,
        };
        match program.attach() {
            Ok(link) => {
                self.exit = Some(Exit {
                    _link: link,
                    is_of_queue,
                })
            }
            Err(error) if is_of_queue => {
                tracing::debug!(%error, "the kernel does not let its queues be traced");
                self.is_refused = true;
                return self.leave(skel, false);
            }
            Err(error) => return Err(map_error("attach a tracepoint")(error)),
        }
        Ok(())
    }

    /// Attaches the others to a device; 0: there is none.
    pub fn follow(&mut self, skel: &WatchSkel<'_>, ifindex: u32) -> Result<(), Error> {
        if self.support.point == HookPoint::Traced
            || self.device.as_ref().is_some_and(|d| d.0 == ifindex)
        {
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

    /// Has the program for incoming packets see all packets of another device, for as long as these live.
    pub fn link_acks(&self, skel: &WatchSkel<'_>, ifindex: u32) -> io::Result<[OwnedFd; 2]> {
        if self.support.point == HookPoint::Traced {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let link = |place| link_tcx(skel.progs.watch_back_tc.as_fd(), ifindex, place);
        Ok([link(BPF_TCX_INGRESS)?, link(BPF_TCX_EGRESS)?])
    }

    /// The programs for packets going in, leaving, and coming back, each with the name of its hook.
    pub fn programs<'a, 'obj>(
        &self,
        progs: &'a WatchProgs<'obj>,
    ) -> Vec<(&'static str, &'a ProgramMut<'obj>)> {
        let (going_in, back) = match self.support.point {
            HookPoint::Traced => (&progs.watch_in, &progs.watch_back),
            HookPoint::Direct => (&progs.watch_in_tc, &progs.watch_back_tc),
        };
        let of_queues = self.support.queues.then_some(&progs.watch_out_queue);
        let out = [Some(&progs.watch_out), of_queues].into_iter().flatten();
        let out = out.map(|program| ("out", program));
        [("in", going_in)]
            .into_iter()
            .chain(out)
            .chain([("back", back)])
            .collect()
    }
}

fn refused(source: io::Error) -> Error {
    Error::System {
        action: "attach the programs to the device",
        source,
    }
}

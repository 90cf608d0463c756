//! `--mark`: a program at the device's egress writes the group of each flow into its packets.

use std::os::fd::OwnedFd;

use tcpilot_abi::{TP_GROUP_COUNT, tp_mark};
use tcpilot_kernel::watch::Watch;
use tcpilot_show::failure::{Failure, Kind};

use crate::{args::GroupMark, link::Device};

/// The marks by group, as the program reads them; `None` if none is wanted.
pub fn by_group(wanted: &[GroupMark]) -> Option<[tp_mark; TP_GROUP_COUNT as usize]> {
    let mut marks = [tp_mark::default(); TP_GROUP_COUNT as usize];
    for one in wanted {
        let Some(mark) = marks.get_mut(one.group as usize) else {
            continue;
        };
        if let Some((value, mask)) = one.mark {
            (mark.value, mark.mask) = (value, mask);
        }
        if let Some(dscp) = one.dscp {
            (mark.has_dscp, mark.dscp) = (1, dscp);
        }
    }
    (!wanted.is_empty()).then_some(marks)
}

/// The program at a device. The kernel takes it off when this is dropped, and when the process dies.
#[derive(Debug, Default)]
pub struct Marker {
    ifindex: u32,
    _link: Option<OwnedFd>,
}

impl Marker {
    /// Attaches the program, again if the device vanished and is back.
    ///
    /// # Errors
    /// The device is there, and the kernel refuses the program.
    pub fn follow(&mut self, watch: &Watch, device: &Device) -> Result<(), Failure> {
        if self.ifindex == device.index() {
            return Ok(());
        }
        *self = Marker::default();
        if device.index() == 0 {
            return Ok(());
        }
        match watch.link_mark(device.index()) {
            Ok(link) => {
                *self = Marker {
                    ifindex: device.index(),
                    _link: Some(link),
                };
                Ok(())
            }
            // The device vanished meanwhile. The next look finds it again.
            Err(_) if device.has_changed() => Ok(()),
            Err(error) => Err(Failure::new(
                Kind::Unsupported,
                format!("{}: packets cannot be marked: {error}", device.name()),
                "--mark needs kernel 6.6 or newer",
            )),
        }
    }
}

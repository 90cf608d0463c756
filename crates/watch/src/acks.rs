//! `--acks-at`: acknowledgements of the watched device's flows go past another device.

use std::os::fd::OwnedFd;

use tcpilot_kernel::watch::Watch;
use tcpilot_show::failure::{Failure, Kind};

use crate::link::Device;

/// The other device, and the program there. The kernel takes it off when this is dropped, and when the process dies.
#[derive(Debug)]
pub struct Acks {
    device: Device,
    /// Where the links are; 0: nowhere.
    ifindex: u32,
    links: Option<[OwnedFd; 2]>,
}

impl Acks {
    /// Finds the device.
    ///
    /// # Errors
    /// There is none.
    pub fn find(name: &str) -> Result<Acks, Failure> {
        Ok(Acks {
            device: Device::find(name)?,
            ifindex: 0,
            links: None,
        })
    }

    /// Attaches the program, again if the device vanished and is back.
    ///
    /// # Errors
    /// The device is there, and the kernel refuses the program.
    pub fn follow(&mut self, watch: &Watch) -> Result<(), Failure> {
        let ifindex = self.device.look();
        if self.ifindex == ifindex {
            return Ok(());
        }
        (self.ifindex, self.links) = (0, None);
        if ifindex == 0 {
            return Ok(());
        }
        match watch.link_acks(ifindex) {
            Ok(links) => (self.ifindex, self.links) = (ifindex, Some(links)),
            // The device vanished meanwhile. The next look finds it again.
            Err(_) if self.device.has_changed() => {}
            Err(error) => {
                let name = self.device.name();
                return Err(Failure::new(
                    Kind::Unsupported,
                    format!("{name}: acknowledgements cannot be seen: {error}"),
                    "--acks-at needs kernel 6.6 or newer",
                ));
            }
        }
        Ok(())
    }
}

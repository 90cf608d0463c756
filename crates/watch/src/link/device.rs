//! The watched device, by its name: a vanished device returns with another index.

use tcpilot_netlink::device::{index_of, ports_of_bridge};
use tcpilot_show::failure::{Failure, Kind};

/// A device.
#[derive(Debug)]
pub struct Device {
    name: String,
    index: u32,
}

impl Device {
    /// Finds a device by its name; an error if there is none.
    pub fn find(name: &str) -> Result<Device, Failure> {
        match index_of(name) {
            0 => Err(Failure::new(
                Kind::Usage,
                format!("there is no device {name} in this network namespace"),
                "`ip link` lists them; `ip netns exec NAME tcpilot watch …` looks into another",
            )),
            index => Ok(Device {
                name: name.to_owned(),
                index,
            }),
        }
    }

    /// Says so if the device is a bridge: packets between its ports pass by its own queue.
    pub fn warn_of_ports(&self) {
        if let Ok(Some(ports)) = ports_of_bridge(self.index) {
            let ports = ports.join(" ");
            tracing::warn!(
                "{} is a bridge: packets between its ports are not seen here; watch the port with the queue, of {ports}",
                self.name
            );
        }
    }

    /// Looks again, and returns the device's index; 0 while there is no device of this name.
    pub fn look(&mut self) -> u32 {
        let index = index_of(&self.name);
        if index != self.index {
            if index == 0 {
                tracing::warn!(device = self.name, "is gone; waiting until it returns");
            } else {
                tracing::warn!(device = self.name, "is back");
            }
            self.index = index;
        }
        index
    }

    /// Whether the device has vanished, or returned, since the last look.
    pub fn has_changed(&self) -> bool {
        index_of(&self.name) != self.index
    }

    /// The kernel's index, as of the last look.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

//! The boot of the last save. A saved domain (the part of a path's key that separates private addresses by
//! namespace) is made of a namespace's cookie, and after a reboot other namespaces have these cookies.

use serde::{Deserialize, Serialize};
use tcpilot_kernel::{host, own_netns_cookie};

use super::{Knowledge, StateError, Store};

/// Stands for the name of a policy in the table of the learner's rows. Names of policies have no slash.
const BOOT: &str = "/boot";

/// The factor of an interface's number in a domain, `tp_egress_domain` in bpf/core/choice_dist.h.
const EGRESS: u32 = 0x9e37_79b1;

/// A boot of this host, and the daemon's own namespace in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Boot {
    /// The kernel's identifier of the boot.
    pub id: String,
    /// The cookie of the daemon's own namespace.
    pub netns_cookie: u64,
}

impl Boot {
    /// The present boot.
    pub fn present() -> Boot {
        #[cfg(test)]
        if let Some(time) = crate::clocks::simulated::time() {
            return Boot {
                id: format!("boot {}", time.boot),
                netns_cookie: 1,
            };
        }
        Boot {
            id: host::boot_id(),
            netns_cookie: own_netns_cookie().unwrap_or_default(),
        }
    }

    /// Whether a domain saved in the boot `saved` means the same namespace now. Namespaces share domain 0, and the
    /// host's first namespace has one cookie in all boots.
    pub fn knows(&self, domain: u32, saved: &Boot) -> bool {
        let is_own = self.netns_cookie == saved.netns_cookie && is_of(domain, self.netns_cookie);
        domain == 0 || self.id == saved.id || is_own
    }
}

/// Whether a domain belongs to this namespace: the cookie, and perhaps the number of an interface.
fn is_of(domain: u32, netns_cookie: u64) -> bool {
    let rest = domain.wrapping_sub(netns_cookie as u32);
    rest.wrapping_mul(inverse(EGRESS)) <= u32::from(u16::MAX)
}

/// The inverse of an odd number modulo 2^32, by Newton's method: each step doubles the number of right bits, first three.
const fn inverse(odd: u32) -> u32 {
    let (mut x, mut right_bits) = (odd, 3);
    while right_bits < u32::BITS {
        x = x.wrapping_mul(2u32.wrapping_sub(odd.wrapping_mul(x)));
        right_bits *= 2;
    }
    x
}

impl Knowledge {
    /// The boot of a save.
    pub fn of_boot(boot: &Boot) -> Knowledge {
        let row = serde_json::to_vec(boot).unwrap_or_default();
        Knowledge {
            policy: BOOT.to_owned(),
            rows: vec![(b"now".to_vec(), row)],
            ..Knowledge::default()
        }
    }
}

impl Store {
    /// The boot of the last save; `None` in a file of an older version.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn saved_boot(&self) -> Result<Option<Boot>, StateError> {
        let mut boot = None;
        self.for_each_row(BOOT, |_, row| boot = serde_json::from_slice(row).ok())?;
        Ok(boot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boot(id: &str, netns_cookie: u64) -> Boot {
        Boot {
            id: id.to_owned(),
            netns_cookie,
        }
    }

    #[test]
    fn a_reboot_ends_all_namespaces_but_the_hosts() {
        let (now, own) = (boot("b", 1), 1);
        let by_interface = own + 3u32.wrapping_mul(EGRESS);
        let known =
            |saved: &Boot| [0, own, by_interface, 4097].map(|domain| now.knows(domain, saved));
        assert_eq!(known(&boot("b", 1)), [true; 4]);
        assert_eq!(known(&boot("a", 1)), [true, true, true, false]);
        assert_eq!(
            known(&boot("a", 5)),
            [true, false, false, false],
            "it ran in a container"
        );
    }

    #[test]
    fn saved_boot_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let (mut store, _) = Store::open(&dir.path().join("state.db")).unwrap();
        assert_eq!(store.saved_boot().unwrap(), None);
        for id in ["a", "b"] {
            let saved = [Knowledge::of_boot(&boot(id, 7))];
            store.save_knowledge(&saved).unwrap();
            assert_eq!(store.saved_boot().unwrap(), Some(boot(id, 7)));
        }
        assert!(!Boot::present().id.is_empty());
    }
}

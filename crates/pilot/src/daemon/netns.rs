//! Names of network namespaces: `host` for the daemon's own, and the names of `ip netns` for others.

use std::collections::HashMap;

use tcpilot_kernel::{host, netns_cookie, own_netns_cookie};

/// The name of the daemon's own namespace.
pub const HOST: &str = "host";

/// The names at the last [`Names::refresh`].
#[derive(Debug, Default)]
pub struct Names {
    by_inum: HashMap<u32, String>,
}

impl Names {
    /// Looks them up again.
    pub fn refresh(&mut self) {
        self.by_inum = host::named_netns().into_iter().collect();
        if let Some(own) = host::own_netns_inum() {
            self.by_inum.insert(own, HOST.to_owned());
        }
    }

    /// The name of a namespace by its inode number; the number if it has no name.
    pub fn name(&self, inum: u32) -> String {
        self.by_inum
            .get(&inum)
            .cloned()
            .unwrap_or_else(|| inum.to_string())
    }

    /// Inode number and cookie of a namespace by its name; `None` if it is gone.
    pub fn find(&self, name: &str) -> Option<(u32, u64)> {
        let (inum, _) = self.by_inum.iter().find(|(_, n)| *n == name)?;
        let cookie = if name == HOST {
            own_netns_cookie().ok()?
        } else {
            netns_cookie(name).ok()?
        };
        Some((*inum, cookie))
    }

    /// The name of the namespace with this cookie; the cookie if it has no name.
    pub fn by_cookie(&self, cookie: u64) -> String {
        let name = self.by(|known| known == cookie);
        name.unwrap_or_else(|| format!("cookie-{cookie}"))
    }

    /// The name of the namespace with this domain, the low half of its cookie; the domain if it has no name.
    pub fn by_domain(&self, domain: u32) -> String {
        let name = self.by(|known| known as u32 == domain);
        name.unwrap_or_else(|| format!("domain-{domain}"))
    }

    fn by(&self, is_its_cookie: impl Fn(u64) -> bool) -> Option<String> {
        let mut names = self.by_inum.values();
        let is_it = |name: &&String| self.find(name).is_some_and(|(_, c)| is_its_cookie(c));
        names.find(is_it).cloned()
    }

    /// Whether a namespace has a name that outlasts its number.
    pub fn is_named(&self, inum: u32) -> bool {
        self.by_inum.contains_key(&inum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_namespace_is_host_others_are_numbers() {
        let mut names = Names::default();
        names.refresh();
        let own = host::own_netns_inum().unwrap();
        assert_eq!(names.name(own), HOST);
        assert_eq!(names.name(7), "7");
        assert_eq!(names.find(HOST).unwrap().1, own_netns_cookie().unwrap());
        assert!(names.find("no-such-namespace").is_none());
        assert_eq!(names.by_cookie(own_netns_cookie().unwrap()), HOST);
        assert_eq!(names.by_domain(own_netns_cookie().unwrap() as u32), HOST);
        assert_eq!(names.by_cookie(u64::MAX), format!("cookie-{}", u64::MAX));
    }
}

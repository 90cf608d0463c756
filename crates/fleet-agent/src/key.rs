//! Keys of the engine.

use std::fmt;

use tcpilot_fleet::Name;

/// A host of a place. It alone may write the keys that begin with its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Host {
    /// Hosts of one place take the same routes.
    pub place: Name,
    /// Its name, unique within the place.
    pub name: Name,
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "h.{}.{}", self.place, self.name)
    }
}

/// What a host writes, and what an administrator writes of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Item {
    /// Its shards, see [`tcpilot_fleet::manifest`].
    Manifest,
    /// A part of its state under one policy.
    Shard(Name, u16),
    /// An administrator's mark: its present states are not heard ([`crate::forget`]).
    Forgotten,
    /// Only `tcpilot-fleet check` writes it, and nobody reads it.
    Check,
}

/// The name of a value in the engine: `h.PLACE.HOST.i`, `h.PLACE.HOST.POLICY.SHARD`, `h.PLACE.HOST.check`,
/// `f.PLACE.HOST`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Its writer, or the forgotten host.
    pub host: Host,
    /// What it is.
    pub item: Item,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.item {
            Item::Manifest => write!(f, "{}.i", self.host),
            Item::Shard(policy, shard) => write!(f, "{}.{policy}.{shard}", self.host),
            Item::Forgotten => write!(f, "f.{}.{}", self.host.place, self.host.name),
            Item::Check => write!(f, "{}.check", self.host),
        }
    }
}

impl Key {
    /// The host's manifest.
    #[must_use]
    pub fn manifest(host: &Host) -> Self {
        Self {
            host: host.clone(),
            item: Item::Manifest,
        }
    }

    /// The mark of a forgotten host.
    #[must_use]
    pub fn forgotten(host: &Host) -> Self {
        Self {
            host: host.clone(),
            item: Item::Forgotten,
        }
    }

    /// The host's shard.
    #[must_use]
    pub fn shard(host: &Host, policy: &Name, shard: u16) -> Self {
        Self {
            host: host.clone(),
            item: Item::Shard(policy.clone(), shard),
        }
    }

    /// The host whose manifest has this key, if it is of this place.
    #[must_use]
    pub fn host_of_manifest(key: &str, place: &Name) -> Option<Host> {
        let mut parts = key.strip_prefix("h.")?.split('.');
        let (found, name, item) = (parts.next()?, parts.next()?, parts.next()?);
        let is_manifest = found == place.as_str() && item == "i" && parts.next().is_none();
        let name = Name::new(name).ok().filter(|_| is_manifest)?;
        Some(Host {
            place: place.clone(),
            name,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_host_begin_with_its_name() {
        let name = |name| Name::new(name).unwrap();
        let host = Host {
            place: name("fra1"),
            name: name("web-07"),
        };
        let manifest = Key::manifest(&host).to_string();
        assert_eq!(manifest, "h.fra1.web-07.i");
        let shard = Key::shard(&host, &name("bulk"), 63).to_string();
        assert_eq!(shard, "h.fra1.web-07.bulk.63");
        assert_eq!(
            Key::host_of_manifest(&manifest, &host.place),
            Some(host.clone())
        );
        for other in [
            "h.sin2.web-07.i",
            "h.fra1.web-07.i.i",
            "h.fra1.WEB.i",
            "h.fra1.i",
        ] {
            assert_eq!(Key::host_of_manifest(other, &host.place), None, "{other}");
        }
        assert_eq!(Key::host_of_manifest(&shard, &host.place), None);
        let mark = Key::forgotten(&host).to_string();
        assert_eq!(mark, "f.fra1.web-07");
        assert_eq!(Key::host_of_manifest(&mark, &host.place), None);
    }
}

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

/// Who writes a state: its host, or the mergers of a place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Writer {
    /// The host itself.
    Host(Host),
    /// All mergers of this place write the same: what its hosts say without those of a set ([`crate::merger`]).
    Mergers(Name, u8),
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(host) => host.fmt(f),
            Self::Mergers(place, set) => write!(f, "m.{place}.{set}"),
        }
    }
}

impl From<&Host> for Writer {
    fn from(host: &Host) -> Self {
        Self::Host(host.clone())
    }
}

impl From<&Writer> for Writer {
    fn from(writer: &Writer) -> Self {
        writer.clone()
    }
}

/// The name of a value in the engine. Certificates permit the first part of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// The list of a writer's shards, see [`tcpilot_fleet::manifest`]: `h.PLACE.HOST.i`, `m.PLACE.SET.i`.
    Manifest(Writer),
    /// A part of a state under one policy: `h.PLACE.HOST.POLICY.SHARD`, `m.PLACE.SET.POLICY.SHARD`.
    Shard(Writer, Name, u16),
    /// An administrator's mark: a host's present states are not heard ([`crate::forget`]): `f.PLACE.HOST`.
    Forgotten(Host),
    /// Only `tcpilot-fleet check` writes it, and nobody reads it: `h.PLACE.HOST.check`.
    Check(Host),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Manifest(writer) => write!(f, "{writer}.i"),
            Self::Shard(writer, policy, shard) => write!(f, "{writer}.{policy}.{shard}"),
            Self::Forgotten(host) => write!(f, "f.{}.{}", host.place, host.name),
            Self::Check(host) => write!(f, "{host}.check"),
        }
    }
}

impl Key {
    /// The writer's manifest.
    #[must_use]
    pub fn manifest(writer: impl Into<Writer>) -> Self {
        Self::Manifest(writer.into())
    }

    /// The writer's shard.
    #[must_use]
    pub fn shard(writer: impl Into<Writer>, policy: &Name, shard: u16) -> Self {
        Self::Shard(writer.into(), policy.clone(), shard)
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
        let mark = Key::Forgotten(host.clone()).to_string();
        assert_eq!(mark, "f.fra1.web-07");
        assert_eq!(Key::host_of_manifest(&mark, &host.place), None);
        let merged = Key::manifest(Writer::Mergers(host.place.clone(), 2)).to_string();
        assert_eq!(merged, "m.fra1.2.i");
        assert_eq!(Key::host_of_manifest(&merged, &host.place), None);
    }
}

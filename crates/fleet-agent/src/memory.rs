//! What was heard, as files: a restart without the engine loses nothing. One file per host, `hosts/PLACE.HOST`, replaced at
//! once. What mergers say is `hosts/PLACE`.
//!
//! | field, little-endian | bytes |
//! |---|---|
//! | version | 1 |
//! | this host's boot; seconds since it; seconds since 1970 | 16, 8, 8 |
//! | sender's boot; number of policies | 8, 1 |
//! | policy: length of its name, name, number of shards, of those with rows | 1, length, 2, 2 |
//! | shard: number, age in seconds, length, state | 2, 8, 4, length |
//! | check sum of everything before | 8 |

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use tcpilot_fleet::{Name, Refusal, format};

use crate::clock::{age_after_save_s, boot_s, unix_s};
use crate::hear::{Heard, Member, Shard};
use crate::key::Host;

const VERSION: u8 = 1;

/// The longest file: 16 policies of 65,536 rows of eight algorithms.
const BYTES_MAX: usize = 256 << 20;

/// Files looked at.
const FILES_MAX: usize = 1000;

/// The number of this boot of the kernel, 16 bytes.
fn kernel_boot() -> [u8; 16] {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let mut boot = [0; 16];
    let digits = text.bytes().filter(u8::is_ascii_hexdigit);
    for (i, digit) in digits.take(32).enumerate() {
        let value = (digit as char).to_digit(16).unwrap_or(0) as u8;
        boot[i / 2] = boot[i / 2] << 4 | value;
    }
    boot
}

/// The folder with a file per host.
#[derive(Clone, Debug)]
pub struct Memory {
    folder: PathBuf,
}

impl Memory {
    /// The folder, which exists.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    fn path(&self, host: &Host) -> PathBuf {
        self.folder.join(format!("{}.{}", host.place, host.name))
    }

    /// Saves a host.
    ///
    /// # Errors
    /// The folder cannot be written. The former file is left.
    pub fn save(&self, host: &Host, member: &Member) -> io::Result<()> {
        let bytes = encode(member, boot_s());
        tcpilot_file::replace(&self.path(host), tcpilot_file::PRIVATE, &bytes)
    }

    /// Saves what mergers say of a place, or removes it.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn save_merged(&self, place: &Name, merged: Option<&Member>) -> io::Result<()> {
        let path = self.folder.join(place.as_str());
        match merged {
            Some(merged) if merged.is_new || !path.exists() => {
                let bytes = encode(merged, boot_s());
                tcpilot_file::replace(&path, tcpilot_file::PRIVATE, &bytes)
            }
            Some(_) => Ok(()),
            None if path.exists() => fs::remove_file(path),
            None => Ok(()),
        }
    }

    /// What mergers said of a place. A damaged file is left out, aloud.
    #[must_use]
    pub fn load_merged(&self, place: &Name) -> Option<Member> {
        let path = self.folder.join(place.as_str());
        match load_file(&path) {
            Ok(merged) => Some(merged),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => {
                tracing::warn!("{} is left out: {error}", path.display());
                None
            }
        }
    }

    /// Removes the files of hosts that are not there any more.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn keep_only(&self, members: &BTreeMap<Host, Member>) -> io::Result<()> {
        for (host, path) in self.files()? {
            if !members.contains_key(&host) {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    fn files(&self) -> io::Result<Vec<(Host, PathBuf)>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder)?.take(FILES_MAX) {
            let entry = entry?;
            let name = entry.file_name();
            let parts = name.to_str().and_then(|name| name.split_once('.'));
            let names = parts.map(|(place, name)| (Name::new(place), Name::new(name)));
            if let Some((Ok(place), Ok(name))) = names {
                files.push((Host { place, name }, entry.path()));
            }
        }
        Ok(files)
    }

    /// All hosts that were saved. A damaged file is left out, once, aloud.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn load(&self) -> io::Result<BTreeMap<Host, Member>> {
        let mut members = BTreeMap::new();
        for (host, path) in self.files()? {
            match load_file(&path) {
                Ok(member) => drop(members.insert(host, member)),
                Err(error) => tracing::warn!("{} is left out: {error}", path.display()),
            }
        }
        Ok(members)
    }
}

fn load_file(path: &Path) -> io::Result<Member> {
    let (bytes, _) = tcpilot_file::read(path, BYTES_MAX)?;
    decode(&bytes).map_err(|refusal| io::Error::new(ErrorKind::InvalidData, refusal))
}

fn encode(member: &Member, now_s: f64) -> Vec<u8> {
    let mut out = vec![VERSION];
    out.extend(kernel_boot());
    out.extend(now_s.to_le_bytes());
    out.extend(unix_s().to_le_bytes());
    out.extend(member.boot.to_le_bytes());
    out.push(member.policies.len() as u8);
    for (policy, heard) in &member.policies {
        out.push(policy.as_str().len() as u8);
        out.extend(policy.as_str().as_bytes());
        out.extend(heard.count.to_le_bytes());
        out.extend((heard.shards.len() as u16).to_le_bytes());
        for shard in &heard.shards {
            out.extend(shard.number.to_le_bytes());
            out.extend(shard.age_s(now_s).to_le_bytes());
            out.extend((shard.bytes.len() as u32).to_le_bytes());
            out.extend(&shard.bytes);
        }
    }
    let sum = format::check_sum(&out);
    out.extend(sum.to_le_bytes());
    out
}

/// Bytes being read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8], Refusal> {
        let (first, rest) = self.0.split_at_checked(count).ok_or(Refusal::CutOff)?;
        self.0 = rest;
        Ok(first)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Refusal> {
        let (first, rest) = self.0.split_first_chunk::<N>().ok_or(Refusal::CutOff)?;
        self.0 = rest;
        Ok(*first)
    }
}

fn decode(bytes: &[u8]) -> Result<Member, Refusal> {
    let (body, sum) = bytes.split_last_chunk::<8>().ok_or(Refusal::CutOff)?;
    if format::check_sum(body) != u64::from_le_bytes(*sum) {
        return Err(Refusal::Damaged);
    }
    let mut reader = Reader(body);
    let [version] = reader.take()?;
    if version != VERSION {
        return Err(Refusal::Version(version));
    }
    let kernel: [u8; 16] = reader.take()?;
    let saved_s = f64::from_le_bytes(reader.take()?);
    let saved_unix_s = f64::from_le_bytes(reader.take()?);
    let now_s = boot_s();
    let between = (kernel == kernel_boot()).then_some(now_s - saved_s);
    let unix_between = unix_s() - saved_unix_s;
    let mut member = Member {
        boot: u64::from_le_bytes(reader.take()?),
        ..Member::default()
    };
    let [policies] = reader.take()?;
    for _ in 0..policies {
        let [len] = reader.take()?;
        let name = std::str::from_utf8(reader.bytes(len.into())?).map_err(|_| Refusal::Name)?;
        let name = Name::new(name)?;
        let mut heard = Heard {
            count: u16::from_le_bytes(reader.take()?),
            shards: Vec::new(),
        };
        for _ in 0..u16::from_le_bytes(reader.take()?) {
            let number = u16::from_le_bytes(reader.take()?);
            let age_s = f64::from_le_bytes(reader.take()?);
            let len = u32::from_le_bytes(reader.take()?);
            let bytes = reader.bytes(len as usize)?.to_vec();
            let state = format::decode(&bytes, u32::MAX)?;
            heard.shards.push(Shard {
                number,
                sequence: state.sequence,
                rows: state.rows().len() as u32,
                as_of_s: 0.0,
                bytes,
                age_s: age_after_save_s(age_s, between, unix_between),
                at_s: now_s,
            });
        }
        member.policies.insert(name, heard);
    }
    Ok(member)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpilot_fleet::State;

    fn member() -> Member {
        let mut state = State::new(0, vec!["cubic".into(), "bbr".into()]).unwrap();
        (state.boot, state.sequence) = (4, 9);
        let shard = Shard {
            number: 3,
            sequence: 9,
            rows: 0,
            as_of_s: 0.0,
            bytes: format::encode(&state),
            age_s: 100.0,
            at_s: boot_s(),
        };
        let heard = Heard {
            count: 64,
            shards: vec![shard],
        };
        Member {
            boot: 4,
            policies: BTreeMap::from([(Name::new("bulk").unwrap(), heard)]),
            ..Member::default()
        }
    }

    #[test]
    fn hosts_come_back_from_their_files() {
        let folder = tempfile::tempdir().unwrap();
        let memory = Memory::new(folder.path().to_owned());
        let name = |name| Name::new(name).unwrap();
        let host = |host| Host {
            place: name("fra1"),
            name: name(host),
        };
        memory.save(&host("web-07"), &member()).unwrap();
        memory.save(&host("web-08"), &member()).unwrap();
        fs::write(folder.path().join("fra1.web-09"), "damaged").unwrap();
        let loaded = memory.load().unwrap();
        assert_eq!(loaded.len(), 2);
        let heard = &loaded[&host("web-07")].policies[&name("bulk")];
        assert_eq!((heard.count, heard.shards[0].sequence), (64, 9));
        let age_s = heard.shards[0].age_s(boot_s());
        assert!((100.0..101.0).contains(&age_s), "{age_s}");
        memory
            .keep_only(&BTreeMap::from([(host("web-08"), member())]))
            .unwrap();
        assert_eq!(memory.load().unwrap().len(), 1);

        let place = name("fra1");
        assert!(memory.load_merged(&place).is_none());
        memory.save_merged(&place, Some(&member())).unwrap();
        assert_eq!(memory.load().unwrap().len(), 1);
        assert_eq!(memory.load_merged(&place).unwrap().policies.len(), 1);
        memory.save_merged(&place, None).unwrap();
        assert!(memory.load_merged(&place).is_none());
    }
}

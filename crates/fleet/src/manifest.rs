//! The manifest of a host: the shards it has said, so that a reader fetches only changed ones. Little-endian.
//!
//! | field | bytes |
//! |---|---|
//! | version | 1 |
//! | boot, sequence | 8 each |
//! | version of the software: length, text | 1, length |
//! | number of policies | 1 |
//! | policy: length of its name, name, rows, number of shards | 1, length, 4, 2 |
//! | shard: sequence, bytes; both 0 if it has no rows | 8, 4 |
//! | check sum of everything before | 8 |
//!
//! A host writes its manifest after its shards. So a reader never sees a manifest that promises more than is there.

use crate::format::{Reader, check_sum};
use crate::name::{NAME_MAX, Name};
use crate::{Refusal, shard};

/// Version of this format.
pub const VERSION: u8 = 1;

/// Policies of one host.
pub const POLICIES_MAX: usize = 16;

/// A shard as its host has said it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Sequence of the shard's state.
    pub sequence: u64,
    /// Its length; 0 if it has no rows and is not in the engine.
    pub bytes: u32,
}

/// The shards of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The policy.
    pub name: Name,
    /// Rows of all shards.
    pub rows: u32,
    /// The shards in order.
    pub marks: Vec<Mark>,
}

/// What a host has said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// A random number per start of the sender. The shards have the same.
    pub boot: u64,
    /// Number of the manifest within its boot.
    pub sequence: u64,
    /// Version of the sender's software, for people.
    pub software: String,
    /// Its policies.
    pub policies: Vec<Policy>,
}

/// The bytes of a manifest.
#[must_use]
pub fn encode(manifest: &Manifest) -> Vec<u8> {
    let mut out = vec![VERSION];
    out.extend(manifest.boot.to_le_bytes());
    out.extend(manifest.sequence.to_le_bytes());
    put_text(&manifest.software, &mut out);
    out.push(manifest.policies.len() as u8);
    for policy in &manifest.policies {
        put_text(policy.name.as_str(), &mut out);
        out.extend(policy.rows.to_le_bytes());
        out.extend((policy.marks.len() as u16).to_le_bytes());
        for mark in &policy.marks {
            out.extend(mark.sequence.to_le_bytes());
            out.extend(mark.bytes.to_le_bytes());
        }
    }
    let sum = check_sum(&out);
    out.extend(sum.to_le_bytes());
    out
}

fn put_text(text: &str, out: &mut Vec<u8>) {
    let text = &text.as_bytes()[..text.len().min(NAME_MAX)];
    out.push(text.len() as u8);
    out.extend(text);
}

/// Reads a manifest.
///
/// # Errors
/// A [`Refusal`].
pub fn decode(bytes: &[u8]) -> Result<Manifest, Refusal> {
    let version = *bytes.first().ok_or(Refusal::CutOff)?;
    if version != VERSION {
        return Err(Refusal::Version(version));
    }
    let (body, sum) = bytes.split_last_chunk::<8>().ok_or(Refusal::CutOff)?;
    if check_sum(body) != u64::from_le_bytes(*sum) {
        return Err(Refusal::Damaged);
    }
    let mut reader = Reader(body.get(1..).ok_or(Refusal::CutOff)?);
    let (boot, sequence) = (reader.u64()?, reader.u64()?);
    let software = text(&mut reader)?;
    if !software.bytes().all(|c| c.is_ascii_graphic()) {
        return Err(Refusal::Name);
    }
    let mut policies: Vec<Policy> = Vec::new();
    for _ in 0..reader.u8()? {
        let policy = policy(&mut reader)?;
        // In order, so that none comes twice.
        let is_behind = policies.last().is_none_or(|last| last.name < policy.name);
        if !is_behind || policies.len() == POLICIES_MAX {
            return Err(Refusal::Unordered);
        }
        policies.push(policy);
    }
    let manifest = Manifest {
        boot,
        sequence,
        software,
        policies,
    };
    let is_all = reader.0.is_empty();
    is_all.then_some(manifest).ok_or(Refusal::TooLong)
}

fn text(reader: &mut Reader) -> Result<String, Refusal> {
    let len = usize::from(reader.u8()?);
    let text = reader.bytes(len)?.to_vec();
    let text = String::from_utf8(text).map_err(|_| Refusal::Name)?;
    (text.len() <= NAME_MAX)
        .then_some(text)
        .ok_or(Refusal::Name)
}

fn policy(reader: &mut Reader) -> Result<Policy, Refusal> {
    let name = Name::new(&text(reader)?)?;
    let (rows, shards) = (reader.u32()?, reader.u16()?);
    if !shard::is_count(shards) {
        return Err(Refusal::Misplaced);
    }
    let mut marks = Vec::new();
    for _ in 0..shards {
        let (sequence, bytes) = (reader.u64()?, reader.u32()?);
        marks.push(Mark { sequence, bytes });
    }
    Ok(Policy { name, rows, marks })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::check_sum;
    use proptest::prelude::*;

    fn example() -> Manifest {
        let policy = |name: &str, sequence| Policy {
            name: Name::new(name).unwrap(),
            rows: 12,
            marks: (0..64).map(|i| Mark { sequence, bytes: i }).collect(),
        };
        Manifest {
            boot: 5,
            sequence: 6,
            software: "0.2.0".into(),
            policies: vec![policy("bulk", 3), policy("web", 6)],
        }
    }

    fn resealed(mut bytes: Vec<u8>, change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
        bytes.truncate(bytes.len() - 8);
        change(&mut bytes);
        let sum = check_sum(&bytes);
        [bytes, sum.to_le_bytes().to_vec()].concat()
    }

    #[test]
    fn decoding_undoes_encoding() {
        assert_eq!(decode(&encode(&example())), Ok(example()));
    }

    #[test]
    fn bad_manifests_are_refused_by_reason() {
        let bytes = encode(&example());
        let refused = |change: &dyn Fn(&mut Vec<u8>)| decode(&resealed(bytes.clone(), change));
        assert_eq!(refused(&|b| b[0] = 2), Err(Refusal::Version(2)));
        assert_eq!(refused(&|b| b.push(0)), Err(Refusal::TooLong));
        assert_eq!(refused(&|b| b.truncate(100)), Err(Refusal::CutOff));
        assert_eq!(refused(&|b| b[25] = b'B'), Err(Refusal::Name));
        assert_eq!(refused(&|b| b[33] = 63), Err(Refusal::Misplaced));
        assert_eq!(refused(&|b| b[25] = b'x'), Err(Refusal::Unordered));
        assert_eq!(refused(&|b| b[18] = b'\n'), Err(Refusal::Name));
        let mut damaged = bytes.clone();
        damaged[40] ^= 1;
        assert_eq!(decode(&damaged), Err(Refusal::Damaged));
        assert_eq!(decode(&[]), Err(Refusal::CutOff));
    }

    proptest! {
        #[test]
        fn changed_bytes_are_read_or_refused(at in any::<prop::sample::Index>(), value in any::<u8>()) {
            let changed = resealed(encode(&example()), |body| {
                let at = at.index(body.len());
                body[at] = value;
            });
            if let Ok(manifest) = decode(&changed) {
                prop_assert_eq!(encode(&manifest), changed);
            }
        }
    }
}

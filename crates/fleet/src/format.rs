//! A state as bytes, little-endian.
//!
//! | field | bytes |
//! |---|---|
//! | version | 1 |
//! | reward, boot, sequence | 8 each |
//! | age in seconds | 4 |
//! | number of algorithms, then for each the length of its name and the name | 1, 1 + length |
//! | number of rows | 4 |
//! | row: 4 or 6 for the family, prefix, class | 1, 3 or 6, 2 |
//! | row: log₂ of paths, doubts, age in quarter hours | 1 each |
//! | row: bouts of loss with a queue, and without, in eighths | 1 each |
//! | row: triangle of the precision, shift, as f32 | 4 each |
//! | check sum of everything before | 8 |
//!
//! Version 1 had no bouts of loss. Each version refuses the others.
//!
//! Foreign bytes of a fleet have two readers: [`decode`], and that of manifests ([`crate::manifest`]).

use crate::message::{Message, numbers};
use crate::state::{Row, State};
use crate::{Group, Losses, Refusal};

/// Version of this format.
pub const VERSION: u8 = 2;

/// Rows of the largest state that a reader takes by default.
pub const ROWS_MAX: u32 = 65_536;

const V4: u8 = 4;
const V6: u8 = 6;

/// The prefix of IPv4 addresses mapped into IPv6 (RFC 4291, section 2.5.5.2), above a /24.
const MAPPED: u128 = 0xffff << 32;

/// FNV-1a (Fowler, Noll and Vo) of 64 bits: it finds damage, but does not keep an attacker out. Members are known by
/// their certificates.
#[must_use]
pub fn check_sum(bytes: &[u8]) -> u64 {
    let step = |h: u64, byte: &u8| (h ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// The bytes of a state.
#[must_use]
pub fn encode(state: &State) -> Vec<u8> {
    encode_rows(state, state.rows().iter().copied())
}

/// The bytes of a state with the head of `state` and these rows, which come in order and are of its algorithms. Decoded rows
/// take ten times the room of their bytes, so a long state is better never held as one.
#[must_use]
pub fn encode_rows(state: &State, rows: impl Iterator<Item = Row>) -> Vec<u8> {
    let mut out = vec![VERSION];
    for number in [state.reward, state.boot, state.sequence] {
        out.extend(number.to_le_bytes());
    }
    out.extend(state.age_s.to_le_bytes());
    out.push(state.algorithms().len() as u8);
    for name in state.algorithms() {
        out.push(name.len() as u8);
        out.extend(name.as_bytes());
    }
    let count_at = out.len();
    out.extend([0; 4]);
    let mut count = 0u32;
    for row in rows {
        encode_row(&row, &mut out);
        count += 1;
    }
    if let Some(place) = out.get_mut(count_at..count_at + 4) {
        place.copy_from_slice(&count.to_le_bytes());
    }
    let sum = check_sum(&out);
    out.extend(sum.to_le_bytes());
    out
}

fn encode_row(row: &Row, out: &mut Vec<u8>) {
    let prefix = row.group.prefix().to_be_bytes();
    if row.group.is_v4() {
        out.push(V4);
        out.extend(&prefix[12..15]);
    } else {
        out.push(V6);
        out.extend(&prefix[..6]);
    }
    out.extend(row.group.class().to_le_bytes());
    out.extend([row.paths_log2, row.doubt, row.age_quarters]);
    out.extend([row.losses.queued, row.losses.clear]);
    for x in row.said.numbers() {
        out.extend(x.to_le_bytes());
    }
}

/// Bytes being read.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Refusal> {
        let (first, rest) = self.0.split_at_checked(count).ok_or(Refusal::CutOff)?;
        self.0 = rest;
        Ok(first)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Refusal> {
        let (first, rest) = self.0.split_first_chunk::<N>().ok_or(Refusal::CutOff)?;
        self.0 = rest;
        Ok(*first)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Refusal> {
        self.take().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Refusal> {
        self.take().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Refusal> {
        self.take().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Refusal> {
        self.take().map(u64::from_le_bytes)
    }
}

/// Reads a state of at most `rows_max` rows. The version comes before the check sum, so a later
/// format is called by its name and not damaged.
///
/// # Errors
/// A [`Refusal`]; [`Refusal::Reward`] and [`Refusal::NothingInCommon`] come from the translation instead.
pub fn decode(bytes: &[u8], rows_max: u32) -> Result<State, Refusal> {
    let version = *bytes.first().ok_or(Refusal::CutOff)?;
    if version != VERSION {
        return Err(Refusal::Version(version));
    }
    let (body, sum) = bytes.split_last_chunk::<8>().ok_or(Refusal::CutOff)?;
    if check_sum(body) != u64::from_le_bytes(*sum) {
        return Err(Refusal::Damaged);
    }
    let mut reader = Reader(body.get(1..).ok_or(Refusal::CutOff)?);
    let mut state = decode_head(&mut reader)?;
    let rows = reader.u32()?;
    if rows > rows_max {
        return Err(Refusal::Rows(rows));
    }
    let numbers = numbers(state.algorithms().len() - 1);
    for _ in 0..rows {
        state.push(decode_row(&mut reader, numbers)?)?;
    }
    reader.0.is_empty().then_some(state).ok_or(Refusal::TooLong)
}

/// The head of a state, without its rows. Only for bytes that [`decode`] has read before: the check sum is not looked at.
///
/// # Errors
/// As [`decode`].
pub fn head(bytes: &[u8]) -> Result<State, Refusal> {
    decode_head(&mut Reader(bytes.get(1..).ok_or(Refusal::CutOff)?))
}

fn decode_head(reader: &mut Reader) -> Result<State, Refusal> {
    let [reward, boot, sequence] = [reader.u64()?, reader.u64()?, reader.u64()?];
    let age_s = reader.u32()?;
    let mut state = State::new(reward, decode_names(reader)?)?;
    (state.boot, state.sequence, state.age_s) = (boot, sequence, age_s);
    Ok(state)
}

fn decode_names(reader: &mut Reader) -> Result<Vec<String>, Refusal> {
    let count = reader.u8()?;
    let mut names = Vec::new();
    for _ in 0..count {
        let len = reader.u8()?;
        let name = reader.bytes(len.into())?.to_vec();
        names.push(String::from_utf8(name).map_err(|_| Refusal::Algorithms)?);
    }
    Ok(names)
}

fn decode_row(reader: &mut Reader, numbers: usize) -> Result<Row, Refusal> {
    let mut prefix = [0; 16];
    let mapped = match reader.u8()? {
        V4 => {
            prefix[12..15].copy_from_slice(reader.bytes(3)?);
            MAPPED
        }
        V6 => {
            prefix[..6].copy_from_slice(reader.bytes(6)?);
            0
        }
        _ => return Err(Refusal::Group),
    };
    let group = Group::new(u128::from_be_bytes(prefix) | mapped, reader.u16()?)?;
    let [paths_log2, doubt, age_quarters, queued, clear] = reader.take()?;
    let said = reader.bytes(4 * numbers)?.chunks_exact(4);
    let said: Vec<f32> = said
        .map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]]))
        .collect();
    Ok(Row {
        group,
        paths_log2,
        doubt,
        age_quarters,
        losses: Losses { queued, clear },
        said: Message::new(&said)?,
    })
}

#[cfg(test)]
#[path = "format_tests.rs"]
mod tests;

//! Rows of paths and nodes, to be saved and read again.
//!
//! Each row stands for itself: a path's key gives all nodes above it, and a node's row has the knowledge
//! missing in its children's rows. So a lost or damaged row spoils no other.

use super::beside::InOctave;
use super::foreign::Facts;
use super::store::{pack, triangle, unpack};
use super::{GLOBAL, PathId, Share, Tree};
use crate::MAX_ADVANTAGES;
use crate::bytes::{Reader, Writer};
use crate::change::Sums;
use crate::gaussian::Information;
use crate::linalg::NotPositive;
use crate::lineage::{Class, Key, Level, Lineage, NodeKey};
use crate::path::Evidence;
use crate::settings::Memory;
use crate::sharing::Bouts;

/// Half-lives before the start at which a tree's time begins: older knowledge counts as nothing.
const HALF_LIVES_MAX: f64 = 13.0;

/// No sum of a row is larger: the weight of a million connections a second for a day is 10^11.
const SUM_MAX: f64 = 1e12;

/// No reward is further from 0: e^50 bytes a second pass no link.
const TYPICAL_MAX: f64 = 50.0;

/// More half-lives than these leave nothing of any number.
const HALF_LIVES_PASSED_MAX: f64 = 1e6;

/// Whether a tree can have these numbers. A check sum does not show that: one impossible row would spoil the sums of all
/// nodes above it.
fn are_possible(
    numbers: impl IntoIterator<Item = f64>,
    range: std::ops::RangeInclusive<f64>,
) -> bool {
    numbers.into_iter().all(|x| range.contains(&x))
}

/// When a row was written, when its message was, and how much of that had faded.
fn read_times(row: &mut Reader, now_s: f64) -> Option<(f64, f64, f64)> {
    let (at_s, as_of_s, faded) = (row.f64()?, row.f64()?, row.f64()?);
    let possible = are_possible([at_s, as_of_s], -LATEST_S..=LATEST_S)
        && are_possible([faded], -1.0..=HALF_LIVES_PASSED_MAX);
    possible.then_some((at_s.min(now_s), as_of_s.min(now_s), faded))
}

/// A group's foreign message, the part of it in the sum, and facts.
fn read_foreign<const C: usize>(row: &mut Reader) -> Option<(Information<C>, f64, Facts)> {
    let mut packed = [0f32; triangle(MAX_ADVANTAGES)];
    let packed = &mut packed[..triangle(C)];
    row.f32s(packed)?;
    let (part, age_s) = (f64::from(row.f32()?), f64::from(row.f32()?));
    let facts = Facts {
        paths_log2: row.u16()?.try_into().ok()?,
        age_s,
        bouts: read_bouts(row)?,
        is_held_back: false, // such a message is not saved
    };
    let said = unpack(packed);
    let possible = is_knowledge(&said)
        && are_possible([part], 0.0..=1.0)
        && are_possible([age_s], 0.0..=LATEST_S);
    possible.then_some((said, part, facts))
}

/// Counts of bouts; none in rows of earlier versions.
fn read_bouts(row: &mut Reader) -> Option<Bouts> {
    let bouts = Bouts {
        queued: row.f32().unwrap_or_default(),
        clear: row.f32().unwrap_or_default(),
    };
    bouts.is_possible().then_some(bouts)
}

/// Bytes of a saved key.
pub const KEY_BYTES: usize = 24;

/// The outcome of reading a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    Up,
    Damaged,
    Outdated,
}

/// The bytes of a key: level, length, class, domain, prefix.
#[must_use]
pub fn key_bytes(key: &NodeKey) -> [u8; KEY_BYTES] {
    let mut bytes = [0; KEY_BYTES];
    bytes[0] = key.level as u8;
    bytes[1] = key.key.len;
    bytes[2..4].copy_from_slice(&key.key.class.to_be_bytes());
    bytes[4..8].copy_from_slice(&key.key.domain.to_be_bytes());
    bytes[8..].copy_from_slice(&key.key.prefix.to_be_bytes());
    bytes
}

/// No time of a row is later, in seconds since 1970: the year 2242.
const LATEST_S: f64 = (1u64 << 33) as f64;

/// When a saved row of a path or node was last changed, by the learner's clock; `None` if it is no such row.
#[must_use]
pub fn saved_at_s(key: &[u8], row: &[u8]) -> Option<f64> {
    key_of_bytes(key)?;
    Reader::new(row)?
        .f64()
        .filter(|at_s| (0.0..LATEST_S).contains(at_s))
}

/// The domain in a saved key of a path, group or site; `None` if it is no such key.
#[must_use]
pub fn saved_domain(key: &[u8]) -> Option<u32> {
    let (lineage, level) = key_of_bytes(key)?;
    (level < Level::Class).then_some(lineage.path.domain)
}

/// The key of these bytes, if a tree can have it.
pub(crate) fn key_of_bytes(bytes: &[u8]) -> Option<(Lineage, Level)> {
    let bytes: &[u8; KEY_BYTES] = bytes.try_into().ok()?;
    let key = Key {
        len: bytes[1],
        class: u16::from_be_bytes([bytes[2], bytes[3]]),
        domain: u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
        prefix: u128::from_be_bytes(*bytes.last_chunk()?),
    };
    let level = Level::from_number(bytes[0])?;
    let lineage = Lineage::of_key(&key);
    (lineage.node(level).key == key).then_some((lineage, level))
}

/// Whether this is knowledge that a path or node can give: nothing is known less than not at all, and together with a
/// little it is a belief.
fn is_knowledge<const C: usize>(known: &Information<C>) -> bool {
    let mut with_a_little = *known;
    let little = 1e-3 * known.trace().abs() + 1e-3;
    for i in 0..C {
        with_a_little.precision[i][i] += little;
    }
    are_possible(
        known.precision.as_flattened().iter().copied(),
        -SUM_MAX..=SUM_MAX,
    ) && are_possible(known.shift, -SUM_MAX..=SUM_MAX)
        && with_a_little.belief().is_ok()
}

/// Whether no connection is of this class any more: earlier versions had octaves of round trips below
/// 1024 us.
pub(crate) fn is_outdated(class: u16) -> bool {
    (1..Class::LEAST_OCTAVE).contains(&Class::octave_of_bits(class))
}

impl<const C: usize> Tree<C> {
    /// A path's row.
    pub(crate) fn path_row(&self, id: PathId) -> Vec<u8> {
        let path = &self.paths[id.0 as usize];
        let group = &self.nodes[path.group as usize];
        let len = Evidence::<C>::PACKED;
        let evidence = &self.evidence[id.0 as usize * len..][..len];
        let mut row = Writer::new();
        row.f64(self.at_s(id))
            .f64(group.at_s)
            .f64(group.discount - f64::from(path.told_discount))
            .u16(self.doubts(id))
            .u16(path.told_factor.0)
            .u16(path.wild.0)
            .u16(path.sums.up)
            .u16(path.sums.down)
            .f32s(evidence)
            .u16(u16::from_le_bytes([path.rtt.0, self.loss_byte(id)]))
            .f32s(&[path.bouts.queued, path.bouts.clear]);
        let other = self.losses.get(&id.0).and_then(|loss| loss.other.as_ref());
        if let Some((evidence, at_s)) = other {
            row.f64(*at_s).f32s(evidence.iter());
        }
        if path.typical.is_finite() {
            row.f32(path.typical);
        }
        row.finish()
    }

    /// A node's row.
    pub(crate) fn node_row(&self, id: u32) -> Vec<u8> {
        let node = &self.nodes[id as usize];
        let parent = &self.nodes[node.parent as usize];
        let mut row = Writer::new();
        row.f64(node.at_s)
            .f64(parent.at_s)
            .f64(parent.discount - node.told_discount)
            .f32(node.told_factor)
            .f32s(&[node.ledger.balance, node.ledger.spent])
            .f32s(&[node.time_outs.all, node.time_outs.timed_out])
            .u16(node.sums.up)
            .u16(node.sums.down);
        for known in [self.node_told(id), self.gone(id)] {
            let mut packed = [0f32; triangle(MAX_ADVANTAGES)];
            pack(&known, |x| x as f32, &mut packed);
            row.f32s(&packed[..triangle(C)]);
        }
        row.f32s(&[node.bouts.queued, node.bouts.clear]);
        if let Some((said, part, facts)) = self.foreign_to_save(id) {
            let mut packed = [0f32; triangle(MAX_ADVANTAGES)];
            pack(&said, |x| x as f32, &mut packed);
            row.f32s(&packed[..triangle(C)])
                .f32(part as f32)
                .f32(facts.age_s as f32)
                .u16(facts.paths_log2.into())
                .f32s(&[facts.bouts.queued, facts.bouts.clear]);
        }
        row.finish()
    }

    /// Prepares an empty tree for rows: its time begins before the oldest of them.
    pub(crate) fn begin(&mut self, now_s: f64) {
        let Memory {
            path_s,
            group_s,
            above_s,
            ..
        } = self.memory;
        self.begun = true;
        let longest = path_s.max(group_s).max(above_s);
        self.begin_s = (now_s - HALF_LIVES_MAX * longest).floor();
        let discount = self.passed(Level::Global as u8, now_s);
        let global = &mut self.nodes[GLOBAL as usize];
        (global.at_s, global.discount) = (now_s, discount);
    }

    /// Restores a row. The sums are not right until [`Tree::complete`] has run.
    pub(crate) fn take_up(
        &mut self,
        lineage: &Lineage,
        level: Level,
        row: &[u8],
        now_s: f64,
    ) -> Taken {
        let taken = Reader::new(row).and_then(|reader| match level {
            Level::Path => self.take_path(lineage, reader, now_s),
            _ => self.take_node(lineage, level, reader, now_s),
        });
        taken.unwrap_or(Taken::Damaged)
    }

    fn take_path(&mut self, lineage: &Lineage, mut row: Reader, now_s: f64) -> Option<Taken> {
        let (at_s, as_of_s, faded) = read_times(&mut row, now_s)?;
        let doubts = row.u16()?;
        let (told_factor, wild) = (Share(row.u16()?), Share(row.u16()?));
        let (up, down) = (row.u16()?, row.u16()?);
        let evidence = self.read_evidence(&mut row)?;
        // Rows of earlier versions end here, or after the next number.
        let [rtt, state] = row.u16().unwrap_or_default().to_le_bytes();
        let bouts = read_bouts(&mut row)?;
        // The evidence of the path's other state.
        let other = match row.f64() {
            Some(at_s) => Some((at_s.min(now_s), self.read_evidence(&mut row)?)),
            None => None,
        };
        let typical = row.f32();
        row.done()?;
        are_possible(typical.map(f64::from), -TYPICAL_MAX..=TYPICAL_MAX).then_some(())?;
        are_possible(other.iter().map(|(at_s, _)| *at_s), -LATEST_S..=LATEST_S).then_some(())?;
        let id = self.path(lineage, now_s);
        self.restore_loss(id, state, other);
        self.store(id, &evidence);
        self.set_at_s(id, at_s);
        let told_discount = self.passed(Level::Group as u8, as_of_s) - faded;
        let path = &mut self.paths[id.0 as usize];
        path.told_discount = told_discount as f32;
        path.doubt_seen = path.doubt_seen.wrapping_sub(doubts);
        path.told_factor = told_factor;
        path.wild = wild;
        path.rtt = InOctave(rtt);
        path.bouts = bouts;
        path.typical = typical.unwrap_or(f32::NAN);
        path.sums = Sums { up, down };
        Some(Taken::Up)
    }

    /// Reads a path's evidence, if a path can have it.
    fn read_evidence(&self, row: &mut Reader) -> Option<Evidence<C>> {
        let mut packed = vec![0.0; Evidence::<C>::PACKED];
        row.f32s(&mut packed)?;
        let evidence = Evidence::unpack(&packed);
        let numbers = packed.iter().copied().map(f64::from);
        let is_possible = are_possible(numbers, -SUM_MAX..=SUM_MAX)
            && evidence.weight >= 0.0
            && self
                .message(&evidence)
                .is_ok_and(|told| is_knowledge(&told));
        is_possible.then_some(evidence)
    }

    fn take_node(
        &mut self,
        lineage: &Lineage,
        level: Level,
        mut row: Reader,
        now_s: f64,
    ) -> Option<Taken> {
        let (at_s, as_of_s, faded) = read_times(&mut row, now_s)?;
        let told_factor = row.f32()?;
        let [mut ledger, mut time_outs] = [[0.0; 2]; 2];
        row.f32s(&mut ledger)?;
        row.f32s(&mut time_outs)?;
        let (up, down) = (row.u16()?, row.u16()?);
        let mut known = [Information::NONE; 2];
        for known in &mut known {
            let mut packed = [0f32; triangle(MAX_ADVANTAGES)];
            let packed = &mut packed[..triangle(C)];
            row.f32s(packed)?;
            *known = unpack(packed);
        }
        // Rows of earlier versions end here, and those of groups without a foreign message after the next numbers.
        let bouts = read_bouts(&mut row)?;
        let foreign = match row.done() {
            None if level == Level::Group => Some(read_foreign(&mut row)?),
            _ => None,
        };
        row.done()?;
        let sums = ledger.iter().chain(&time_outs).copied().map(f64::from);
        let is_possible = are_possible(sums, -SUM_MAX..=SUM_MAX)
            && are_possible(time_outs.map(f64::from), 0.0..=SUM_MAX)
            && are_possible([f64::from(told_factor)], 0.0..=1.0 + 1e-3)
            && known.iter().all(is_knowledge)
            && self
                .spread
                .get(level as usize)
                .is_none_or(|spread| known[1].through(*spread).is_ok());
        is_possible.then_some(())?;
        let id = self.node(lineage, level, now_s);
        self.set_node_told(id, &known[0]);
        self.set_gone(id, &known[1]);
        let discount = self.passed(level as u8, at_s);
        let told_discount = self.passed(level as u8 + 1, as_of_s) - faded;
        let node = &mut self.nodes[id as usize];
        (node.at_s, node.discount) = (at_s, discount);
        node.told_discount = told_discount;
        node.told_factor = told_factor;
        (node.ledger.balance, node.ledger.spent) = (ledger[0], ledger[1]);
        (node.time_outs.all, node.time_outs.timed_out) = (time_outs[0], time_outs[1]);
        node.sums = Sums { up, down };
        node.bouts = bouts;
        if let Some((said, part, facts)) = foreign {
            self.restore_foreign(id, &said, part, facts);
        }
        Some(Taken::Up)
    }

    /// Computes the sums once all rows are restored. Nodes with a message from a row keep it.
    ///
    /// # Errors
    /// [`NotPositive`] if rows contradict each other.
    pub(crate) fn complete(&mut self) -> Result<(), NotPositive> {
        let told: Vec<bool> = (0..self.nodes.len() as u32)
            .map(|id| self.node_told(id).trace() > 0.0)
            .collect();
        self.refill(|id| told[id as usize])
    }

    /// Marks all paths and nodes as unsaved.
    pub(crate) fn mark_unsaved(&mut self) {
        self.paths.iter_mut().for_each(|path| path.unsaved = true);
        self.nodes.iter_mut().for_each(|node| node.unsaved = true);
    }

    /// Gives at most `most` of the paths and nodes changed since they were last given. Returns whether
    /// those were all.
    pub(crate) fn unsaved(&mut self, most: usize, mut each: impl FnMut(&[u8], &[u8])) -> bool {
        let mut count = 0;
        for id in 0..self.paths.len() as u32 {
            let path = &mut self.paths[id as usize];
            if count == most {
                return false;
            }
            if std::mem::take(&mut path.unsaved) && path.live() {
                count += 1;
                let key = NodeKey {
                    level: Level::Path,
                    key: self.path_key(id),
                };
                each(&key_bytes(&key), &self.path_row(PathId(id)));
            }
        }
        for id in GLOBAL..self.nodes.len() as u32 {
            let node = &mut self.nodes[id as usize];
            if count == most {
                return false;
            }
            if std::mem::take(&mut node.unsaved) && node.live {
                count += 1;
                each(&key_bytes(&self.node_key(id)), &self.node_row(id));
            }
        }
        true
    }
}

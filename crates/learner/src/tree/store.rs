//! How paths and nodes are kept: small, since there may be a million.
//!
//! A path's key is its group's key and the bits below it. Times are tenths of a second since the tree's
//! first sample, and shares are parts of 65535. Numbers are rounded before they are used, so that an
//! added message can be subtracted again exactly.

use std::collections::HashSet;

use super::beside::InOctave;
use super::{GLOBAL, LEVELS, NONE, PathId, Tree};
use crate::MAX_ARMS;
use crate::change::{Alarms, Sums};
use crate::gaussian::Information;
use crate::ledger::Ledger;
use crate::lineage::{Key, Level, Lineage, NodeKey, path_len};
use crate::path::Evidence;
use crate::reward::TimeOuts;
use crate::sharing::Bouts;

/// Steps of a path's times in a second.
const TICKS: f64 = 10.0;

/// A share of 1.
const WHOLE: f64 = 65535.0;

/// A share in 16 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share(pub u16);

impl Share {
    pub const ALL: Self = Self(u16::MAX);

    pub fn new(share: f64) -> Self {
        Self((share.clamp(0.0, 1.0) * WHOLE).round() as u16)
    }

    pub fn get(self) -> f64 {
        f64::from(self.0) / WHOLE
    }
}

/// The fields of a path besides its evidence.
#[derive(Clone, Debug)]
pub(crate) struct PathFields {
    /// The bits of its address below the group's prefix.
    host: [u32; 2],
    /// Its group, or [`NONE`] if the place is free.
    pub group: u32,
    /// The next path of its group, or [`NONE`].
    pub next: u32,
    /// When its evidence was stored, in ticks since the tree's beginning.
    at: u32,
    /// The group's `discount` when the path sent its message.
    pub told_discount: f32,
    /// Evidence of a change of the path.
    pub sums: Sums,
    /// The part of its message that still counts.
    pub told_factor: Share,
    /// Share of its last samples cut off.
    pub wild: Share,
    /// Its group's `doubt` when the evidence was stored.
    pub doubt_seen: u16,
    /// Its connections' bouts of loss.
    pub bouts: Bouts,
    /// The mean of the regression's part of its samples, in nats; not a number before the first sample.
    pub typical: f32,
    /// Its connections since it was first seen, or since its saved row was read.
    pub connections: u32,
    /// It has changed since it was saved.
    pub unsaved: bool,
    /// It waits for its choice distribution to be published.
    pub queued: bool,
    /// The place of its round trips in their octave.
    pub rtt: InOctave,
    /// Whether its address has, or had, a path in the octave below, and above.
    pub beside: [bool; 2],
}

/// A group, a site, a class, or the global node.
#[derive(Clone, Debug)]
pub struct Node {
    pub(crate) key: Key,
    pub(crate) parent: u32,
    pub(crate) level: u8,
    /// It has changed since it was saved.
    pub(crate) unsaved: bool,
    /// It waits for its choice distributions to be published.
    pub(crate) queued: bool,
    pub(crate) live: bool,
    /// The first of its children (paths if it is a group), and its parent's next child; or [`NONE`].
    pub(crate) first: u32,
    pub(crate) next: u32,
    pub(super) told_discount: f64,
    pub(super) told_factor: f32,
    /// A group's: how often alarms doubted its paths' evidence.
    pub(super) doubt: u16,
    /// Elapsed half-lives; alarms count as time.
    pub(super) discount: f64,
    pub(super) at_s: f64,
    /// A group's: the balance for exploring.
    pub ledger: Ledger,
    /// Evidence of a change of the paths below it.
    pub(super) sums: Sums,
    /// The path of the last deviation in the sums.
    pub(super) pooled_last: u32,
    /// Its children's last alarms, if any.
    pub(super) alarms: Option<Box<Alarms>>,
    /// A group's: how usual time-outs are.
    pub time_outs: TimeOuts,
    /// Bouts of loss on the paths below.
    pub(super) bouts: Bouts,
    /// An unknown path's shares when the distributions below were last written, in parts of 255.
    pub(crate) swept: [u8; MAX_ARMS],
}

/// The matrices of the nodes, triangles one after another. `told` and `gone` are f32: they are rounded
/// before they are added to `sum`.
#[derive(Clone, Debug, Default)]
pub(super) struct Knowledge {
    sum: Vec<f64>,
    told: Vec<f32>,
    gone: Vec<f32>,
}

/// The count of numbers in knowledge of so many advantages.
pub(crate) const fn triangle(advantages: usize) -> usize {
    advantages * (advantages + 1) / 2 + advantages
}

/// Writes the lower triangle and the shift.
pub(crate) fn pack<T, const C: usize>(
    known: &Information<C>,
    to: impl Fn(f64) -> T,
    out: &mut [T],
) {
    let rows = known.precision.iter().enumerate();
    let numbers = rows.flat_map(|(i, row)| row.iter().take(i + 1));
    for (slot, x) in out.iter_mut().zip(numbers.chain(&known.shift)) {
        *slot = to(*x);
    }
}

/// Reads the numbers written by [`pack`].
pub(crate) fn unpack<T: Copy + Into<f64>, const C: usize>(packed: &[T]) -> Information<C> {
    let mut known = Information::NONE;
    let mut numbers = packed.iter().map(|x| (*x).into());
    let mut next = || numbers.next().unwrap_or(0.0);
    for i in 0..C {
        for j in 0..=i {
            let x = next();
            known.precision[i][j] = x;
            known.precision[j][i] = x;
        }
    }
    known.shift.iter_mut().for_each(|x| *x = next());
    known
}

/// A message as it is stored: rounded to f32.
pub(super) fn rounded<const C: usize>(known: &Information<C>) -> Information<C> {
    Information {
        precision: known.precision.map(|row| row.map(|x| f64::from(x as f32))),
        shift: known.shift.map(|x| f64::from(x as f32)),
    }
}

impl Node {
    /// Whether it is a group or site of one of these domains. Domains share the nodes above.
    pub(super) fn is_of(&self, domains: &HashSet<u32>) -> bool {
        self.live && matches!(self.level, 1 | 2) && domains.contains(&self.key.domain)
    }
}

impl PathFields {
    fn new(host: u64, group: u32) -> Self {
        Self {
            host: [host as u32, (host >> 32) as u32],
            group,
            next: NONE,
            at: 0,
            told_discount: 0.0,
            sums: Sums::default(),
            told_factor: Share::ALL,
            wild: Share::default(),
            doubt_seen: 0,
            bouts: Bouts::default(),
            typical: f32::NAN,
            connections: 0,
            unsaved: true,
            queued: false,
            rtt: InOctave::default(),
            beside: [false; 2],
        }
    }

    /// Whether there is a path in this place: a forgotten one has no group.
    pub fn live(&self) -> bool {
        self.group != NONE
    }
}

impl<const C: usize> Tree<C> {
    /// The count of numbers of one node's matrix.
    const STRIDE: usize = triangle(C);

    fn place(&self, id: u32) -> std::ops::Range<usize> {
        id as usize * Self::STRIDE..(id as usize + 1) * Self::STRIDE
    }

    /// Drops cached knowledge about a node, and about all below it.
    fn changed(&mut self, id: u32) {
        if let Some(node) = self.nodes.get(id as usize) {
            self.memo[..=usize::from(node.level)].fill(None);
        }
    }

    /// Sum of a node's children's messages.
    #[inline]
    pub(crate) fn sum(&self, id: u32) -> Information<C> {
        unpack(&self.known.sum[self.place(id)])
    }

    /// The messages of a node's forgotten children; part of its sum.
    pub(super) fn gone(&self, id: u32) -> Information<C> {
        unpack(&self.known.gone[self.place(id)])
    }

    /// A node's own message, as in the parent's sum since `told_discount`.
    pub(super) fn node_told(&self, id: u32) -> Information<C> {
        unpack(&self.known.told[self.place(id)])
    }

    pub(super) fn set_sum(&mut self, id: u32, sum: &Information<C>) {
        self.changed(id);
        let place = self.place(id);
        pack(sum, |x| x, &mut self.known.sum[place]);
    }

    pub(super) fn set_gone(&mut self, id: u32, gone: &Information<C>) {
        let place = self.place(id);
        pack(gone, |x| x as f32, &mut self.known.gone[place]);
    }

    pub(super) fn set_node_told(&mut self, id: u32, told: &Information<C>) {
        self.changed(id);
        let place = self.place(id);
        pack(told, |x| x as f32, &mut self.known.told[place]);
    }

    /// Adds a child's message to a node's sum (`factor` 1), or subtracts it (−1).
    pub(super) fn add_sum(&mut self, id: u32, message: &Information<C>, factor: f64) {
        let mut sum = self.sum(id);
        sum.add(message, factor);
        self.set_sum(id, &sum);
    }

    pub(super) fn add_gone(&mut self, id: u32, message: &Information<C>, factor: f64) {
        let mut gone = self.gone(id);
        gone.add(message, factor);
        self.set_gone(id, &gone);
    }

    /// Half-lives of a level's knowledge from the tree's beginning to this time.
    pub(super) fn passed(&self, level: u8, at_s: f64) -> f64 {
        (at_s - self.begin_s).max(0.0) / self.half_life(level)
    }

    /// Lets half-lives pass for a node's knowledge.
    pub(super) fn fade(&mut self, id: u32, half_lives: f64) {
        self.changed(id);
        let factor = (-half_lives).exp2();
        let place = self.place(id);
        self.known.sum[place.clone()]
            .iter_mut()
            .for_each(|x| *x *= factor);
        self.known.gone[place]
            .iter_mut()
            .for_each(|x| *x *= factor as f32);
        self.nodes[id as usize].discount += half_lives;
    }

    fn slot(&self, id: PathId) -> std::ops::Range<usize> {
        let len = Evidence::<C>::PACKED;
        id.0 as usize * len..(id.0 as usize + 1) * len
    }

    pub(super) fn store(&mut self, id: PathId, evidence: &Evidence<C>) {
        let slot = self.slot(id);
        evidence.pack(&mut self.evidence[slot]);
    }

    /// Whether a path has samples.
    pub(super) fn has_samples(&self, id: PathId) -> bool {
        self.evidence[self.slot(id)]
            .last()
            .is_some_and(|weight| *weight > 0.0)
    }

    /// A path's evidence as of its last sample.
    #[inline]
    pub(super) fn stored(&self, id: PathId) -> Evidence<C> {
        Evidence::unpack(&self.evidence[self.slot(id)])
    }

    /// When a path's evidence was stored.
    pub(crate) fn at_s(&self, id: PathId) -> f64 {
        self.begin_s + f64::from(self.paths[id.0 as usize].at) / TICKS
    }

    pub(super) fn set_at_s(&mut self, id: PathId, at_s: f64) {
        let ticks = ((at_s - self.begin_s) * TICKS)
            .round()
            .clamp(0.0, f64::from(u32::MAX));
        self.paths[id.0 as usize].at = ticks as u32;
    }

    /// The key of a node.
    pub(crate) fn node_key(&self, id: u32) -> NodeKey {
        let node = &self.nodes[id as usize];
        NodeKey {
            level: Level::from_number(node.level).unwrap_or(Level::Global),
            key: node.key,
        }
    }

    /// The key of a path: its group's, and its own bits.
    pub(crate) fn path_key(&self, id: u32) -> Key {
        let path = &self.paths[id as usize];
        let group = self.nodes[path.group as usize].key;
        let len = path_len(&group);
        let host = u64::from(path.host[0]) | u64::from(path.host[1]) << 32;
        Key {
            prefix: group.prefix | u128::from(host) << (128 - len),
            len,
            ..group
        }
    }

    /// The path, if it is known.
    #[must_use]
    pub fn find(&self, path: &Key) -> Option<PathId> {
        let is = |id: u32| self.path_key(id) == *path;
        self.path_index.find(path, is).map(PathId)
    }

    /// The node above the paths, if it is known.
    pub(crate) fn find_node(&self, key: &NodeKey) -> Option<u32> {
        self.node_index.find(key, |id| self.node_key(id) == *key)
    }

    /// A group's node.
    pub(crate) fn node_of_group(&self, group: &Key) -> Option<u32> {
        self.find_node(&NodeKey {
            level: Level::Group,
            key: *group,
        })
    }

    pub(super) fn push_node(&mut self, key: NodeKey, parent: u32, now_s: f64) -> u32 {
        let told_discount = self.nodes.get(parent as usize).map_or(0.0, |p| p.discount);
        let discount = self.passed(key.level as u8, now_s);
        let node = Node {
            key: key.key,
            parent,
            level: key.level as u8,
            unsaved: true,
            queued: false,
            live: true,
            first: NONE,
            next: NONE,
            told_discount,
            told_factor: 1.0,
            doubt: 0,
            discount,
            at_s: now_s,
            ledger: self.ledger,
            sums: Sums::default(),
            pooled_last: NONE,
            alarms: None,
            time_outs: TimeOuts::default(),
            bouts: Bouts::default(),
            swept: [0; MAX_ARMS],
        };
        let id = self.free_nodes.pop().unwrap_or(self.nodes.len() as u32);
        match self.nodes.get_mut(id as usize) {
            Some(slot) => *slot = node,
            None => self.nodes.push(node),
        }
        let len = self.nodes.len() * Self::STRIDE;
        self.known.sum.resize(len, 0.0);
        self.known.told.resize(len, 0.0);
        self.known.gone.resize(len, 0.0);
        let none = Information::NONE;
        self.set_sum(id, &none);
        self.set_node_told(id, &none);
        self.set_gone(id, &none);
        let mut index = std::mem::take(&mut self.node_index);
        index.insert(&key, id, |other| self.node_key(other));
        self.node_index = index;
        if id != GLOBAL {
            let parent = &mut self.nodes[parent as usize];
            let next = std::mem::replace(&mut parent.first, id);
            self.nodes[id as usize].next = next;
        }
        id
    }

    /// The node of this level above a path, made with all above it if it is not known yet.
    pub(super) fn node(&mut self, lineage: &Lineage, level: Level, now_s: f64) -> u32 {
        let mut parent = GLOBAL;
        for at in (level as usize..LEVELS).rev() {
            let key = lineage.node(Level::ALL[at]);
            parent = match self.find_node(&key) {
                Some(id) => id,
                None => self.push_node(key, parent, now_s),
            };
        }
        parent
    }

    /// Begins the tree's time with its first path or group.
    pub(super) fn start(&mut self, now_s: f64) {
        if !self.begun {
            self.begun = true;
            self.begin_s = now_s.floor();
            self.nodes[GLOBAL as usize].at_s = now_s;
        }
    }

    /// The path, made with the nodes above it if it is not known yet.
    pub fn path(&mut self, lineage: &Lineage, now_s: f64) -> PathId {
        if let Some(id) = self.find(&lineage.path) {
            return id;
        }
        self.start(now_s);
        let group = self.node(lineage, Level::Group, now_s);
        let below = lineage.path.prefix ^ lineage.group.prefix;
        let mut path = PathFields::new((below >> (128 - lineage.path.len)) as u64, group);
        let node = &mut self.nodes[group as usize];
        path.told_discount = node.discount as f32;
        path.doubt_seen = node.doubt;
        let id = self.free.pop().unwrap_or(self.paths.len() as u32);
        path.next = std::mem::replace(&mut node.first, id);
        match self.paths.get_mut(id as usize) {
            Some(slot) => *slot = path,
            None => {
                self.paths.push(path);
                let len = self.paths.len() * Evidence::<C>::PACKED;
                self.evidence.resize(len, 0.0);
            }
        }
        self.store(PathId(id), &Evidence::NONE);
        self.set_at_s(PathId(id), now_s);
        let mut index = std::mem::take(&mut self.path_index);
        index.insert(&lineage.path, id, |other| self.path_key(other));
        self.path_index = index;
        self.introduce(PathId(id), &lineage.path);
        PathId(id)
    }
}

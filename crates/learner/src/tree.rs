//! The tree of priors: path, group, site, class, global.
//!
//! Each node's contrasts are its parent's plus `N(0, spread²)`. Knowledge flows up as messages: a path's
//! likelihood through the first spread is its message, a group sums its children's, passes the sum
//! through the next spread, and so on. A child that sends a new message takes its old one away first.
//! Knowledge flows down as the parent's belief *without* the child's own message, else a child would
//! hear itself as its neighbours (belief propagation: Pearl, *Probabilistic Reasoning*, 1988; it is exact
//! on a tree of Gaussians, which `tests/exact.rs` checks against the joint distribution).

use std::collections::HashMap;

use crate::change::{Alarms, Sums};
use crate::gaussian::Information;
use crate::ledger::Ledger;
use crate::linalg::NotPositive;
use crate::lineage::{Key, Lineage};
use crate::path::{Evidence, Widths, left};
use crate::reward::TimeOuts;
use crate::settings::{Memory, Model, Settings};

/// Levels of nodes above the paths, the global one included.
pub const LEVELS: usize = 4;

const GLOBAL: u32 = 0;

/// Samples over which the share of cut-off ones is taken.
const WILD_MEMORY: f32 = 16.0;

/// The share of cut-off samples from which a path's message does not count at all. Heavy tails cut off
/// one in fifty; a peer that makes arms look unlike by many nats, every other one.
const WILD_MOST: f32 = 0.25;

mod belief;
mod doubt;

/// Index of a path in its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PathId(pub(crate) u32);

/// What is kept of a path.
#[derive(Clone, Debug)]
pub struct Path {
    /// Evidence that the path changed.
    pub sums: Sums,
    pub(crate) at_s: f64,
    pub(crate) group: u32,
    told_discount: f64,
    told_factor: f32,
    /// Share of its last samples that were cut off.
    wild: f32,
    /// Its group's `doubt` when the evidence was stored.
    doubt_seen: f32,
}

/// What is kept of a group, a site, a class, or of all.
#[derive(Clone, Debug)]
pub struct Node {
    pub(crate) parent: u32,
    pub(crate) level: usize,
    /// Sum of the children's messages.
    pub(crate) sum: Information,
    /// What children said that are no longer kept; part of `sum`.
    gone: Information,
    /// Its own message, as the parent's sum has it since `told_discount`.
    told: Information,
    told_discount: f64,
    /// Half-lives that passed, alarms counted as time.
    discount: f64,
    at_s: f64,
    /// A group's: half-lives by which alarms aged its paths' evidence.
    doubt: f32,
    /// A group's: what exploring may cost.
    pub ledger: Ledger,
    /// Evidence that what is below it changed.
    sums: Sums,
    /// The path whose deviation was summed up last.
    pooled_last: u32,
    /// Its children's last alarms.
    pub alarms: Alarms,
    /// A group's: how usual time-outs are.
    pub time_outs: TimeOuts,
}

/// The tree of one policy's learner.
#[derive(Clone, Debug)]
pub struct Tree {
    arms: usize,
    pub(crate) widths: Widths,
    /// Standard deviation between child and parent, by the parent's level: group, site, class, global.
    pub(crate) spread: [f64; LEVELS],
    memory: Memory,
    path_weight_max: f64,
    outlier_sd: f64,
    base: Information,
    ledger: Ledger,
    pub(crate) nodes: Vec<Node>,
    pub(crate) paths: Vec<Path>,
    /// The paths' evidence, aged up to their `at_s`, packed.
    evidence: Vec<f32>,
    free: Vec<u32>,
    path_ids: HashMap<Key, u32>,
    node_ids: HashMap<(usize, Key), u32>,
}

impl Tree {
    /// An empty tree for so many arms, the default among them.
    #[must_use]
    pub fn new(arms: usize, settings: &Settings) -> Self {
        let Model {
            noise_sd,
            baseline_sd,
            swing_sd,
            swing_s,
            prior_mean,
            prior_sd,
            ..
        } = settings.model;
        let mut tree = Self {
            arms,
            widths: Widths {
                noise: noise_sd * noise_sd,
                baseline: baseline_sd * baseline_sd,
                swing: swing_sd * swing_sd,
                swing_s,
            },
            spread: settings.model.spread,
            memory: settings.memory.clone(),
            path_weight_max: settings.model.path_weight_max,
            outlier_sd: settings.model.outlier_sd,
            base: Information::isotropic(arms - 1, prior_mean, prior_sd),
            ledger: Ledger::new(&settings.choice),
            nodes: Vec::new(),
            paths: Vec::new(),
            evidence: Vec::new(),
            free: Vec::new(),
            path_ids: HashMap::new(),
            node_ids: HashMap::new(),
        };
        tree.push_node(GLOBAL, LEVELS, 0.0);
        tree
    }

    /// Arms, the default among them.
    #[must_use]
    pub fn arms(&self) -> usize {
        self.arms
    }

    /// How many paths are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.path_ids.len()
    }

    /// Whether no path is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.path_ids.is_empty()
    }

    /// Noise and baseline widths in use.
    #[must_use]
    pub fn widths(&self) -> Widths {
        self.widths
    }

    /// Spreads in use, from path in group up.
    #[must_use]
    pub fn spread(&self) -> [f64; LEVELS] {
        self.spread
    }

    fn push_node(&mut self, parent: u32, level: usize, now_s: f64) -> u32 {
        let none = Information::none(self.arms - 1);
        let told_discount = self.nodes.get(parent as usize).map_or(0.0, |p| p.discount);
        self.nodes.push(Node {
            parent,
            level,
            sum: none,
            gone: none,
            told: none,
            told_discount,
            discount: 0.0,
            at_s: now_s,
            sums: Sums::default(),
            pooled_last: u32::MAX,
            doubt: 0.0,
            ledger: self.ledger,
            alarms: Alarms::default(),
            time_outs: TimeOuts::default(),
        });
        (self.nodes.len() - 1) as u32
    }

    /// Keys of the nodes above a path, from the class down.
    fn above(lineage: &Lineage) -> [(usize, Key); LEVELS - 1] {
        let class = Key {
            prefix: 0,
            domain: 0,
            class: lineage.class,
            len: 0,
        };
        [(3, class), (2, lineage.site), (1, lineage.group)]
    }

    /// The path, if it is kept.
    #[must_use]
    pub fn find(&self, path: &Key) -> Option<PathId> {
        self.path_ids.get(path).map(|id| PathId(*id))
    }

    /// The path, made with the nodes above it if it is not kept yet.
    pub fn path(&mut self, lineage: &Lineage, now_s: f64) -> PathId {
        if let Some(id) = self.path_ids.get(&lineage.path) {
            return PathId(*id);
        }
        let mut parent = GLOBAL;
        for (level, key) in Self::above(lineage) {
            parent = match self.node_ids.get(&(level, key)) {
                Some(id) => *id,
                None => {
                    let id = self.push_node(parent, level, now_s);
                    self.node_ids.insert((level, key), id);
                    id
                }
            };
        }
        let path = Path {
            sums: Sums::default(),
            at_s: now_s,
            group: parent,
            told_discount: self.nodes[parent as usize].discount,
            told_factor: 1.0,
            wild: 0.0,
            doubt_seen: self.nodes[parent as usize].doubt,
        };
        let id = self.free.pop().unwrap_or(self.paths.len() as u32);
        match self.paths.get_mut(id as usize) {
            Some(slot) => *slot = path,
            None => {
                self.paths.push(path);
                self.evidence
                    .resize(self.paths.len() * Evidence::packed_len(self.arms), 0.0);
            }
        }
        self.path_ids.insert(lineage.path, id);
        PathId(id)
    }

    /// Forgets a path; what it told its group stays and fades.
    ///
    /// # Errors
    /// [`NotPositive`] when the tree has lost its digits; [`Tree::rebuild`] mends that.
    pub fn remove(&mut self, path: &Key) -> Result<(), NotPositive> {
        let Some(id) = self.path_ids.remove(path) else {
            return Ok(());
        };
        let told = self.told(PathId(id), self.paths[id as usize].told_factor)?;
        let group = self.paths[id as usize].group as usize;
        self.nodes[group].gone.add(&told, 1.0);
        self.store(PathId(id), &Evidence::none(self.arms));
        self.free.push(id);
        Ok(())
    }

    /// A path.
    #[must_use]
    pub fn get(&self, id: PathId) -> &Path {
        &self.paths[id.0 as usize]
    }

    /// Notes whether a path's sample had to be cut off. One whose samples often are is no witness.
    pub fn note_cut(&mut self, id: PathId, cut: bool) {
        let wild = &mut self.paths[id.0 as usize].wild;
        *wild += (f32::from(u8::from(cut)) - *wild) / WILD_MEMORY;
    }

    /// How far a path is a witness: 1, or less the more of its last samples were cut off.
    #[must_use]
    pub fn calm(&self, id: PathId) -> f64 {
        f64::from((1.0 - self.get(id).wild / WILD_MOST).max(0.0))
    }

    /// A path's group.
    #[must_use]
    pub fn group(&self, id: PathId) -> &Node {
        &self.nodes[self.get(id).group as usize]
    }

    /// A path's group, to be changed.
    pub fn group_mut(&mut self, id: PathId) -> &mut Node {
        let group = self.get(id).group as usize;
        &mut self.nodes[group]
    }

    fn half_life(&self, level: usize) -> f64 {
        if level == 1 {
            self.memory.group_s
        } else {
            self.memory.above_s
        }
    }

    /// Ages a node and all above it.
    fn age(&mut self, mut id: u32, now_s: f64) {
        loop {
            let half_life = self.half_life(self.nodes[id as usize].level);
            let node = &mut self.nodes[id as usize];
            let half_lives = (now_s - node.at_s).max(0.0) / half_life;
            if half_lives > 0.0 {
                node.fade(half_lives);
                node.at_s = now_s;
            }
            if id == GLOBAL {
                return;
            }
            id = node.parent;
        }
    }

    fn slot(&self, id: PathId) -> std::ops::Range<usize> {
        let len = Evidence::packed_len(self.arms);
        id.0 as usize * len..(id.0 as usize + 1) * len
    }

    fn store(&mut self, id: PathId, evidence: &Evidence) {
        let slot = self.slot(id);
        evidence.pack(&mut self.evidence[slot]);
    }

    /// A path's evidence as of its last sample.
    fn stored(&self, id: PathId) -> Evidence {
        Evidence::unpack(self.arms, &self.evidence[self.slot(id)])
    }

    /// What a path's evidence says of its group. Beyond `path_weight_max` it counts no more.
    fn message(&self, evidence: &Evidence) -> Result<Information, NotPositive> {
        let (total, most) = (evidence.weight, self.path_weight_max);
        let cap = if total > most { most / total } else { 1.0 };
        evidence
            .likelihood(&self.widths, cap)
            .through(self.spread[0])
    }

    /// A path's message as its group has it now, if it counts by `factor`.
    fn told(&self, id: PathId, factor: f32) -> Result<Information, NotPositive> {
        let path = self.get(id);
        let mut told = self.message(&self.stored(id))?;
        let faded = self.nodes[path.group as usize].discount - path.told_discount;
        told.scale(f64::from(factor) * (-faded).exp2());
        Ok(told)
    }

    /// A path's message as its group has it now, and the share of it that the path's samples, which
    /// age faster, still say themselves. The rest is memory of how the path was: it counts among the
    /// neighbours' knowledge, or a path that is seldom used would have no memory but its own.
    fn told_and_live(&self, id: PathId, now_s: f64) -> Result<(Information, f64), NotPositive> {
        let path = self.get(id);
        let told = self.told(id, path.told_factor)?;
        let live = self.message(&self.evidence_at(id, now_s))?;
        let live = live.trace() * f64::from(path.told_factor);
        let share = if live < told.trace() {
            live / told.trace()
        } else {
            1.0
        };
        Ok((told, share))
    }

    /// A path's evidence as it counts now.
    #[must_use]
    pub fn evidence_at(&self, id: PathId, now_s: f64) -> Evidence {
        let elapsed_s = now_s - self.get(id).at_s;
        let mut evidence = self.stored(id);
        let path = self.get(id);
        let doubt = f64::from(self.nodes[path.group as usize].doubt - path.doubt_seen);
        evidence.scale(left(elapsed_s, self.memory.path_s) * (-doubt).exp2());
        evidence.wait(elapsed_s, &self.widths);
        evidence
    }

    /// Changes a path's evidence, aged up to now, and tells its ancestors.
    ///
    /// # Errors
    /// [`NotPositive`], as for [`Tree::belief`]; the evidence is changed even so.
    pub fn update(
        &mut self,
        id: PathId,
        now_s: f64,
        change: impl FnOnce(&mut Evidence),
    ) -> Result<(), NotPositive> {
        let group = self.get(id).group;
        self.age(group, now_s);
        let old = self.told_and_live(id, now_s);
        let mut evidence = self.evidence_at(id, now_s);
        change(&mut evidence);
        self.store(id, &evidence);
        let Node {
            discount, doubt, ..
        } = self.nodes[group as usize];
        let path = &mut self.paths[id.0 as usize];
        path.at_s = path.at_s.max(now_s);
        path.told_discount = discount;
        path.doubt_seen = doubt;
        let (old, live) = old?;
        self.nodes[group as usize].sum.add(&old, -live);
        self.nodes[group as usize].gone.add(&old, 1.0 - live);
        let new = self.told(id, 1.0)?;
        let mut others = self.outside(group)?;
        others.add(&self.nodes[group as usize].sum, 1.0);
        let factor = self.credible(&others, &new)? * self.calm(id);
        self.nodes[group as usize].sum.add(&new, factor);
        self.paths[id.0 as usize].told_factor = factor as f32;
        self.tell(group)
    }

    /// Sends a node's message, and those above it that change by it.
    fn tell(&mut self, mut id: u32) -> Result<(), NotPositive> {
        while id != GLOBAL {
            let (parent, level) = (
                self.nodes[id as usize].parent,
                self.nodes[id as usize].level,
            );
            let mut new = self.nodes[id as usize].sum.through(self.spread[level])?;
            let discount = self.nodes[parent as usize].discount;
            let node = &self.nodes[id as usize];
            let (old, faded) = (node.told, (node.told_discount - discount).exp2());
            self.nodes[parent as usize].sum.add(&old, -faded);
            let mut others = self.outside(parent)?;
            others.add(&self.nodes[parent as usize].sum, 1.0);
            new.scale(self.credible(&others, &new)?);
            self.nodes[parent as usize].sum.add(&new, 1.0);
            self.nodes[id as usize].told = new;
            self.nodes[id as usize].told_discount = discount;
            id = parent;
        }
        Ok(())
    }

    /// How far a message is believed: 1, less when it would move a contrast by more standard deviations
    /// than `outlier_sd`, and 0 from twice as many (a redescending weight as Tukey's: what is merely
    /// weighed down can still lie without measure).
    fn credible(&self, others: &Information, new: &Information) -> Result<f64, NotPositive> {
        let before = others.belief()?;
        let mut with = *others;
        with.add(new, 1.0);
        let after = with.belief()?;
        let mut far: f64 = 0.0;
        for i in 0..self.arms - 1 {
            let moved = (after.mean[i] - before.mean[i]).abs();
            let variance = (before.variance(i) - after.variance(i)).max(1e-12);
            far = far.max(moved / variance.sqrt());
        }
        Ok(if far > self.outlier_sd {
            self.outlier_sd / far
        } else {
            1.0
        })
    }

    /// Computes all sums anew from the paths, with the widths of now.
    ///
    /// # Errors
    /// [`NotPositive`] only when samples are not finite.
    pub fn rebuild(&mut self) -> Result<(), NotPositive> {
        for node in &mut self.nodes {
            node.sum = node.gone;
        }
        let kept: Vec<u32> = self.path_ids.values().copied().collect();
        for id in kept {
            let told = self.told(PathId(id), self.get(PathId(id)).told_factor)?;
            let group = self.get(PathId(id)).group as usize;
            self.nodes[group].sum.add(&told, 1.0);
        }
        // A child is made after its parent, so its index is higher and its sum complete.
        for id in (1..self.nodes.len()).rev() {
            let node = &self.nodes[id];
            let (parent, discount) = (
                node.parent as usize,
                self.nodes[node.parent as usize].discount,
            );
            let told = node.sum.through(self.spread[node.level])?;
            self.nodes[parent].sum.add(&told, 1.0);
            self.nodes[id].told = told;
            self.nodes[id].told_discount = discount;
        }
        Ok(())
    }
}

impl Node {
    fn fade(&mut self, half_lives: f64) {
        let factor = (-half_lives).exp2();
        self.sum.scale(factor);
        self.gone.scale(factor);
        self.discount += half_lives;
    }
}

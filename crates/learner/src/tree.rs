//! The tree of priors: path, group, site, class, global.
//!
//! Each node's advantages are its parent's plus `N(0, spread²)`. Knowledge flows up as messages: a path's
//! likelihood through the first spread is its message, a group sums its children's messages, passes the
//! sum through the next spread, and so on. Before a child sends a new message, it subtracts its old one.
//! Knowledge flows down as the parent's belief *without* the child's own message. Otherwise a child would
//! hear itself as its neighbours (belief propagation: Pearl, *Probabilistic Reasoning*, 1988; it is exact
//! on a tree of Gaussians: `tests/exact.rs` compares it with the joint distribution).

use crate::gaussian::Information;
use crate::index::Index;
use crate::ledger::Ledger;
use crate::linalg::NotPositive;
use crate::lineage::{Key, Level, NodeKey};
use crate::path::{Evidence, Widths, left};
use crate::settings::{Memory, Model, Settings};

/// Levels of nodes above the paths, the global one included.
pub const LEVELS: usize = 4;

pub(crate) const GLOBAL: u32 = 0;

/// No path, no node.
pub(crate) const NONE: u32 = u32::MAX;

/// Samples over which the share of cut-off ones is taken.
const WILD_MEMORY: f64 = 16.0;

/// From this share of cut-off samples on a path's message does not count at all. With heavy tails one
/// sample in fifty is cut off; if a peer makes arms look many nats apart, it is every other one.
const WILD_MOST: f64 = 0.25;

mod belief;
mod beside;
mod crowd;
mod doubt;
mod foreign;
mod forget;
mod loss;
pub(crate) mod saved;
mod store;
mod typical;

pub use foreign::{Facts, Heard};
pub use store::Node;
pub(crate) use store::{Share, pack, triangle, unpack};

/// Index of a path in its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PathId(pub(crate) u32);

/// The evidence of a path at some time.
#[derive(Clone, Debug)]
pub(crate) struct Now<const C: usize> {
    pub evidence: Evidence<C>,
    /// The likelihood of the advantages.
    pub likelihood: Information<C>,
    /// Its message in its group's sum.
    told: Information<C>,
    /// The share of this message still supported by its own samples.
    live: f64,
}

/// The tree of one policy's learner, with `C` advantages: it has one arm more.
#[derive(Clone, Debug)]
pub struct Tree<const C: usize> {
    pub(crate) widths: Widths,
    /// Standard deviation between child and parent, by the parent's level: group, site, class, global.
    pub(crate) spread: [f64; LEVELS],
    memory: Memory,
    path_weight_max: f64,
    outlier_sd: f64,
    /// Half-lives by which an alarm above the paths ages the knowledge below.
    doubt_half_lives: f64,
    base: Information<C>,
    /// The knowledge about a path without neighbours and samples.
    alone: Information<C>,
    /// For each level the last node asked for, and all knowledge about it.
    memo: [Option<(u32, Information<C>)>; LEVELS + 1],
    ledger: Ledger,
    /// Zero of the paths' times, in seconds of the caller's clock.
    begin_s: f64,
    begun: bool,
    pub(crate) nodes: Vec<Node>,
    known: store::Knowledge,
    pub(crate) paths: Vec<store::PathFields>,
    /// The paths' evidence, aged up to their times, packed.
    evidence: Vec<f32>,
    /// Paths with losses without a queue.
    losses: std::collections::HashMap<u32, loss::Loss>,
    /// What other hosts say of groups.
    fleet: foreign::Fleet<C>,
    free: Vec<u32>,
    free_nodes: Vec<u32>,
    path_index: Index,
    node_index: Index,
}

impl<const C: usize> Tree<C> {
    /// The number of arms, including the default.
    pub const ARMS: usize = C + 1;

    /// An empty tree.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        let Model {
            noise_sd,
            baseline_sd,
            swing_sd,
            swing_s,
            prior_mean,
            prior_sd,
            prior_correlation,
            ..
        } = settings.model;
        let mut tree = Self {
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
            doubt_half_lives: -settings.change.group_keep.log2(),
            base: Information::correlated(prior_mean, prior_sd, prior_correlation),
            alone: Information::NONE,
            memo: [None; LEVELS + 1],
            ledger: Ledger::new(&settings.choice),
            begin_s: 0.0,
            begun: false,
            nodes: Vec::new(),
            known: store::Knowledge::default(),
            paths: Vec::new(),
            evidence: Vec::new(),
            losses: std::collections::HashMap::new(),
            fleet: foreign::Fleet::default(),
            free: Vec::new(),
            free_nodes: Vec::new(),
            path_index: Index::default(),
            node_index: Index::default(),
        };
        let global = NodeKey {
            level: Level::Global,
            key: Key::default(),
        };
        tree.push_node(global, GLOBAL, 0.0);
        tree.set_spread(settings.model.spread);
        tree
    }

    /// Number of paths.
    #[must_use]
    pub fn len(&self) -> usize {
        self.path_index.len()
    }

    /// Whether there is no path.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.path_index.is_empty()
    }

    /// Number of nodes above the paths.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.node_index.len()
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

    /// All paths.
    pub(crate) fn live_paths(&self) -> impl Iterator<Item = PathId> + '_ {
        let live =
            |(id, path): (usize, &store::PathFields)| path.live().then_some(PathId(id as u32));
        self.paths.iter().enumerate().filter_map(live)
    }

    /// Notes whether a path's sample had to be cut off. A path with many cut-off samples is no witness.
    pub fn note_cut(&mut self, id: PathId, cut: bool) {
        let wild = &mut self.paths[id.0 as usize].wild;
        let before = wild.get();
        *wild = Share::new(before + (f64::from(u8::from(cut)) - before) / WILD_MEMORY);
    }

    /// How far a path is a witness: 1, and less the more of its last samples were cut off.
    #[must_use]
    pub fn calm(&self, id: PathId) -> f64 {
        let wild = self.paths[id.0 as usize].wild.get();
        (1.0 - wild / WILD_MOST).max(0.0)
    }

    /// A path's group.
    #[must_use]
    pub fn group(&self, id: PathId) -> &Node {
        &self.nodes[self.group_of(id) as usize]
    }

    pub(crate) fn group_of(&self, id: PathId) -> u32 {
        self.paths[id.0 as usize].group
    }

    /// A path's group, to be changed.
    pub fn group_mut(&mut self, id: PathId) -> &mut Node {
        let group = self.group_of(id) as usize;
        &mut self.nodes[group]
    }

    /// Sets the spreads; [`Tree::rebuild`] must follow unless the tree is empty.
    pub(crate) fn set_spread(&mut self, spread: [f64; LEVELS]) {
        self.spread = spread;
        self.memo = [None; LEVELS + 1];
        // A belief through spreads is a belief: it cannot fail. Independent advantages stay so.
        let mut alone = self.base;
        for spread in spread {
            alone = alone.through(spread).unwrap_or(alone);
        }
        self.alone = alone;
    }

    fn half_life(&self, level: u8) -> f64 {
        if level == Level::Group as u8 {
            self.memory.group_s
        } else {
            self.memory.above_s
        }
    }

    /// Ages a node and all above it.
    pub(crate) fn age(&mut self, mut id: u32, now_s: f64) {
        loop {
            let node = &self.nodes[id as usize];
            let half_lives = (now_s - node.at_s).max(0.0) / self.half_life(node.level);
            if half_lives > 0.0 {
                self.fade(id, half_lives);
                self.nodes[id as usize].at_s = now_s;
            }
            if id == GLOBAL {
                return;
            }
            id = self.nodes[id as usize].parent;
        }
    }

    /// A path's message to its group. Weight beyond `path_weight_max` does not count.
    #[inline]
    fn message(&self, evidence: &Evidence<C>) -> Result<Information<C>, NotPositive> {
        let (total, most) = (evidence.weight, self.path_weight_max);
        let cap = if total > most { most / total } else { 1.0 };
        evidence
            .likelihood(&self.widths, cap)
            .through(self.spread[0])
    }

    /// A path's message in its group's sum now, if it counts by `factor`.
    #[inline]
    fn told(&self, id: PathId, factor: Share) -> Result<Information<C>, NotPositive> {
        let path = &self.paths[id.0 as usize];
        let mut told = self.message(&self.stored(id))?;
        let faded = self.nodes[path.group as usize].discount - f64::from(path.told_discount);
        told.scale(factor.get() * (-faded).exp2());
        Ok(told)
    }

    /// A path's evidence as it counts now, and the part of its message that still counts.
    ///
    /// The path's samples age faster than its message. The part of the message that they no longer
    /// support is memory of the path's past. It counts with the neighbours' knowledge: otherwise a seldom
    /// used path would have no memory but its own samples.
    #[inline]
    pub(crate) fn now(&self, id: PathId, now_s: f64) -> Result<Now<C>, NotPositive> {
        let factor = self.paths[id.0 as usize].told_factor;
        let told = self.told(id, factor)?;
        let evidence = self.evidence_at(id, now_s);
        let likelihood = evidence.likelihood(&self.widths, 1.0);
        let message = if evidence.weight > self.path_weight_max {
            self.message(&evidence)?
        } else {
            likelihood.through(self.spread[0])?
        };
        let live = message.trace() * factor.get();
        let live = if live < told.trace() {
            live / told.trace()
        } else {
            1.0
        };
        Ok(Now {
            evidence,
            likelihood,
            told,
            live,
        })
    }

    /// A path's evidence as it counts now.
    #[inline]
    #[must_use]
    pub fn evidence_at(&self, id: PathId, now_s: f64) -> Evidence<C> {
        let elapsed_s = now_s - self.at_s(id);
        let mut evidence = self.stored(id);
        let doubts = f64::from(self.doubts(id)) * self.doubt_half_lives;
        evidence.scale((-doubts).exp2());
        self.let_pass(&mut evidence, elapsed_s);
        evidence
    }

    /// Ages a path's evidence.
    #[inline]
    fn let_pass(&self, evidence: &mut Evidence<C>, elapsed_s: f64) {
        evidence.scale(left(elapsed_s, self.memory.path_s));
        evidence.wait(elapsed_s, &self.widths);
    }

    /// How often alarms doubted a path's evidence since it was stored.
    fn doubts(&self, id: PathId) -> u16 {
        let path = &self.paths[id.0 as usize];
        self.nodes[path.group as usize]
            .doubt
            .wrapping_sub(path.doubt_seen)
    }

    /// Changes a path's evidence, aged up to now, and sends its message up the tree.
    ///
    /// # Errors
    /// [`NotPositive`], as for [`Tree::belief`]; the evidence has changed nevertheless.
    pub fn update(
        &mut self,
        id: PathId,
        now_s: f64,
        change: impl FnOnce(&mut Evidence<C>),
    ) -> Result<(), NotPositive> {
        let group = self.group_of(id);
        self.age(group, now_s);
        let old = self.now(id, now_s).map(|now| (now.told, now.live));
        let mut evidence = self.evidence_at(id, now_s);
        change(&mut evidence);
        self.store(id, &evidence);
        self.set_at_s(id, self.at_s(id).max(now_s));
        let Node {
            discount, doubt, ..
        } = self.nodes[group as usize];
        let path = &mut self.paths[id.0 as usize];
        path.told_discount = discount as f32;
        path.doubt_seen = doubt;
        path.unsaved = true;
        let (old, live) = old?;
        // The host's own samples are judged by its own knowledge, and what others say of the group by both.
        let is_heard = self.set_apart(group);
        self.add_sum(group, &old, -live);
        self.add_gone(group, &old, 1.0 - live);
        let new = self.told(id, Share::ALL)?;
        let mut others = self.outside(group)?;
        others.add(&self.sum(group), 1.0);
        let factor = Share::new(self.credible(&others, &new)? * self.calm(id));
        self.add_sum(group, &new, factor.get());
        self.paths[id.0 as usize].told_factor = factor;
        if is_heard {
            self.count_foreign(group)?;
        }
        self.tell(group)
    }

    /// Sends a node's message, and the messages above it if they change.
    fn tell(&mut self, mut id: u32) -> Result<(), NotPositive> {
        self.nodes[id as usize].unsaved = true;
        while id != GLOBAL {
            let Node { parent, level, .. } = self.nodes[id as usize];
            let mut new = self.sum(id).through(self.spread[usize::from(level)])?;
            let discount = self.nodes[parent as usize].discount;
            let (old, faded) = self.node_told_faded(id);
            self.add_sum(parent, &old, -faded);
            let mut others = self.outside(parent)?;
            others.add(&self.sum(parent), 1.0);
            let factor = self.credible(&others, &new)?;
            new.scale(factor);
            let new = store::rounded(&new);
            self.add_sum(parent, &new, 1.0);
            self.set_node_told(id, &new);
            let node = &mut self.nodes[id as usize];
            node.told_factor = factor as f32;
            node.told_discount = discount;
            self.nodes[parent as usize].unsaved = true;
            id = parent;
        }
        Ok(())
    }

    /// A node's message as it was sent, and the part the parent has now.
    fn node_told_faded(&self, id: u32) -> (Information<C>, f64) {
        let node = &self.nodes[id as usize];
        let discount = self.nodes[node.parent as usize].discount;
        let faded = (node.told_discount - discount).exp2();
        (self.node_told(id), faded)
    }

    /// How far a message is believed: 1, less if it would move an advantage by more standard deviations
    /// than `outlier_sd`, and 0 from twice as many on. (A redescending weight, as Tukey's: an extreme lie
    /// with a small weight could still do harm.)
    fn credible(&self, others: &Information<C>, new: &Information<C>) -> Result<f64, NotPositive> {
        let before = others.belief()?;
        let mut with = *others;
        with.add(new, 1.0);
        let after = with.belief()?;
        let mut far: f64 = 0.0;
        for i in 0..C {
            let moved = (after.mean[i] - before.mean[i]).abs();
            let variance = (before.variance(i) - after.variance(i)).max(1e-12);
            far = far.max(moved / variance.sqrt());
        }
        Ok((2.0 - far / self.outlier_sd).clamp(0.0, 1.0))
    }

    /// Recomputes all sums from the paths, with the present widths.
    ///
    /// # Errors
    /// [`NotPositive`] only if samples are not finite.
    pub fn rebuild(&mut self) -> Result<(), NotPositive> {
        self.refill(|_| false)
    }

    /// As [`Tree::rebuild`]; `keep` says which nodes' messages stay as they are.
    fn refill(&mut self, keep: impl Fn(u32) -> bool) -> Result<(), NotPositive> {
        for id in 0..self.nodes.len() as u32 {
            let gone = self.gone(id);
            self.set_sum(id, &gone);
        }
        for id in 0..self.paths.len() as u32 {
            let path = &self.paths[id as usize];
            if path.live() {
                let (group, factor) = (path.group, path.told_factor);
                let told = self.told(PathId(id), factor)?;
                self.add_sum(group, &told, 1.0);
            }
        }
        self.refill_foreign();
        for level in 1..LEVELS as u8 {
            for id in 1..self.nodes.len() as u32 {
                let Node {
                    parent,
                    level: at,
                    live,
                    told_factor,
                    ..
                } = self.nodes[id as usize];
                if !live || at != level {
                    continue;
                }
                if !keep(id) {
                    let mut told = self.sum(id).through(self.spread[usize::from(level)])?;
                    told.scale(f64::from(told_factor));
                    self.set_node_told(id, &told);
                    self.nodes[id as usize].told_discount = self.nodes[parent as usize].discount;
                }
                let (told, faded) = self.node_told_faded(id);
                self.add_sum(parent, &told, faded);
            }
        }
        Ok(())
    }
}

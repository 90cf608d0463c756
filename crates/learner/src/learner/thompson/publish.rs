//! Selects the choice distributions to write: those of paths with new samples at once, their
//! neighbours' when there is time.
//!
//! A sample changes its path's shares, and a little those of all paths of its group, of its site and so
//! on. To write all of them each time would be a million distributions a second. So the path and the nodes above
//! it are written soon. Then, if a node's shares for unknown paths have moved, its children follow, and
//! so on downwards. Besides, a slow round goes through all paths, because knowledge ages.

use std::collections::VecDeque;

use super::{Exact, Thompson};
use crate::choice::Plan;
use crate::lineage::{Level, NodeKey};
use crate::tree::{GLOBAL, NONE, PathId, Tree};

/// If an unknown path's share moves by so many parts of 255 (one per cent), the choice distributions
/// below are written.
const MOVED: u8 = 3;

/// Maximum number of forgotten keys kept for the next save.
const FORGOTTEN_MAX: usize = 1 << 20;

/// Choice distributions to be written.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    paths: VecDeque<u32>,
    nodes: VecDeque<u32>,
    /// Groups with paths to write.
    groups: VecDeque<u32>,
    /// The group of the paths being written, and the next of them.
    sweep: Option<(u32, u32)>,
    /// The next path of the slow round, the number due, and since when.
    round: usize,
    due: f64,
    due_s: f64,
    /// Keys of choice distributions to remove.
    forgotten: Vec<NodeKey>,
    turn: bool,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            paths: VecDeque::new(),
            nodes: VecDeque::new(),
            groups: VecDeque::new(),
            sweep: None,
            round: 0,
            due: 0.0,
            due_s: f64::INFINITY,
            forgotten: Vec::new(),
            turn: false,
        }
    }
}

/// The choice distribution to write next.
enum NextDist {
    Path(u32),
    Node(u32),
}

impl Queue {
    fn node<const C: usize>(&mut self, tree: &mut Tree<C>, id: u32) {
        if !std::mem::replace(&mut tree.nodes[id as usize].queued, true) {
            self.nodes.push_back(id);
        }
    }

    fn path<const C: usize>(&mut self, tree: &mut Tree<C>, id: PathId) {
        if !std::mem::replace(&mut tree.paths[id.0 as usize].queued, true) {
            self.paths.push_back(id.0);
        }
    }

    /// Paths with new samples take turns with the rest: neither may wait for ever.
    fn next<const C: usize>(&mut self, tree: &mut Tree<C>) -> Option<NextDist> {
        self.turn = !self.turn;
        let taught = |queue: &mut Self| queue.paths.pop_front().map(NextDist::Path);
        if self.turn {
            taught(self).or_else(|| self.rest(tree))
        } else {
            self.rest(tree).or_else(|| taught(self))
        }
    }

    fn rest<const C: usize>(&mut self, tree: &mut Tree<C>) -> Option<NextDist> {
        let node = self.nodes.pop_front().map(NextDist::Node);
        node.or_else(|| self.sibling(tree).map(NextDist::Path))
            .or_else(|| self.old(tree).map(NextDist::Path))
    }

    /// The next path of a group with moved shares.
    fn sibling<const C: usize>(&mut self, tree: &Tree<C>) -> Option<u32> {
        loop {
            let (group, id) = match self.sweep.take() {
                Some(at) => at,
                None => {
                    let group = self.groups.pop_front()?;
                    (group, tree.nodes[group as usize].first)
                }
            };
            // Paths may have been forgotten meanwhile, and others may have got their places.
            if id != NONE && tree.paths[id as usize].group == group {
                self.sweep = Some((group, tree.paths[id as usize].next));
                return Some(id);
            }
        }
    }

    /// The next path of the slow round, if one is due.
    fn old<const C: usize>(&mut self, tree: &Tree<C>) -> Option<u32> {
        while self.due >= 1.0 {
            self.due -= 1.0;
            self.round = if self.round < tree.paths.len() {
                self.round + 1
            } else {
                1
            };
            if tree.paths.get(self.round - 1).is_some_and(|p| p.live()) {
                return Some(self.round as u32 - 1);
            }
        }
        None
    }
}

impl Thompson {
    /// Queues all paths and nodes, to fill an empty table.
    pub fn publish_all(&mut self) {
        exact!(&mut self.0, it => it.queue_below(GLOBAL));
    }

    /// Gives the choice distributions to write, at most `budget` of them, and those to remove (`None`). Paths
    /// with new samples come first; call it again to go on. Returns their number.
    pub fn publish(
        &mut self,
        now_s: f64,
        budget: usize,
        dist: impl FnMut(&NodeKey, Option<&Plan>),
    ) -> usize {
        exact!(&mut self.0, it => it.publish(now_s, budget, dist))
    }
}

impl<const C: usize> Exact<C> {
    /// Queues a path with a new sample, and the nodes above it.
    pub(super) fn queue_path(&mut self, id: PathId) {
        self.queue.path(&mut self.tree, id);
        if let Some((other, _)) = self.tree.relative(id) {
            self.queue.path(&mut self.tree, other);
        }
        self.queue_up(self.tree.group_of(id));
    }

    /// Queues a node, and the nodes above it.
    pub(super) fn queue_up(&mut self, mut node: u32) {
        loop {
            self.queue.node(&mut self.tree, node);
            if node == GLOBAL {
                return;
            }
            node = self.tree.nodes[node as usize].parent;
        }
    }

    /// Queues everything below a node, whether its shares have moved or not.
    pub(super) fn queue_below(&mut self, top: u32) {
        let mut below = vec![top];
        while let Some(id) = below.pop() {
            self.tree.nodes[id as usize].swept = Default::default();
            self.queue.node(&mut self.tree, id);
            if self.tree.nodes[id as usize].level > Level::Group as u8 {
                below.extend(self.tree.children(id));
            }
        }
    }

    pub(super) fn note_forgotten(&mut self, keys: Vec<NodeKey>) {
        if self.forgotten.len() < FORGOTTEN_MAX {
            self.forgotten.extend_from_slice(&keys);
        }
        self.queue.forgotten.extend(keys);
    }

    fn publish(
        &mut self,
        now_s: f64,
        budget: usize,
        mut dist: impl FnMut(&NodeKey, Option<&Plan>),
    ) -> usize {
        for key in std::mem::take(&mut self.queue.forgotten) {
            dist(&key, None);
        }
        let waited = (now_s - self.queue.due_s).max(0.0) / self.settings.memory.round_s;
        let all = self.tree.paths.len() as f64;
        self.queue.due = (self.queue.due + waited * all).min(all);
        self.queue.due_s = now_s;
        for written in 0..budget {
            match self.queue.next(&mut self.tree) {
                Some(NextDist::Path(id)) => self.publish_path(id, now_s, &mut dist),
                Some(NextDist::Node(id)) => self.publish_node(id, now_s, &mut dist),
                None => return written,
            }
        }
        budget
    }

    fn publish_path(
        &mut self,
        id: u32,
        now_s: f64,
        dist: &mut impl FnMut(&NodeKey, Option<&Plan>),
    ) {
        let path = &mut self.tree.paths[id as usize];
        path.queued = false;
        if !path.live() {
            return;
        }
        let plan = self.plan_of_path(PathId(id), now_s);
        let key = NodeKey {
            level: Level::Path,
            key: self.tree.path_key(id),
        };
        dist(&key, Some(&plan));
    }

    fn publish_node(
        &mut self,
        id: u32,
        now_s: f64,
        dist: &mut impl FnMut(&NodeKey, Option<&Plan>),
    ) {
        self.tree.nodes[id as usize].queued = false;
        if !self.tree.nodes[id as usize].live {
            return;
        }
        let plan = self.plan_of_node(id, now_s);
        dist(&self.tree.node_key(id), Some(&plan));
        let parts = plan.shares.map(|share| (share * 255.0).round() as u8);
        let node = &mut self.tree.nodes[id as usize];
        let moved = |(a, b): (&u8, &u8)| a.abs_diff(*b) >= MOVED;
        if !parts.iter().zip(&node.swept).any(moved) {
            return;
        }
        node.swept = parts;
        if node.level == Level::Group as u8 {
            self.queue.groups.push_back(id);
            return;
        }
        let children: Vec<u32> = self.tree.children(id).collect();
        for child in children {
            self.queue.node(&mut self.tree, child);
        }
    }
}

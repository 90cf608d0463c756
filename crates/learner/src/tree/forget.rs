//! Forgetting: paths with the fewest and oldest samples go first, and their messages stay in their groups.

use std::collections::HashSet;

use super::{GLOBAL, LEVELS, NONE, PathId, Tree};
use crate::linalg::NotPositive;
use crate::lineage::{Key, Level, NodeKey};
use crate::path::{Evidence, left};

/// Half-lives after which a path is forgotten: only a 64th of its samples' weight is left.
const HALF_LIVES_MAX: f64 = 6.0;

/// A node without children that knows less than so many samples is not worth its memory.
const NODE_SAMPLES_MIN: f64 = 0.1;

impl<const C: usize> Tree<C> {
    /// Weight of a path's samples as they count now.
    pub(crate) fn own_weight(&self, id: PathId, now_s: f64) -> f64 {
        let len = Evidence::<C>::PACKED;
        let weight = f64::from(self.evidence[(id.0 as usize + 1) * len - 1]);
        let doubts = f64::from(self.doubts(id)) * self.doubt_half_lives;
        weight * left(now_s - self.at_s(id), self.memory.path_s) * (-doubts).exp2()
    }

    /// Forgets so many paths, first those whose samples count least by now, because they are
    /// few or old. Then it forgets nodes without children, if they know nothing or are more than
    /// `nodes_max`. Returns all their keys.
    ///
    /// # Errors
    /// [`NotPositive`] when the tree has lost its digits; [`Tree::rebuild`] mends it.
    pub fn forget_least(
        &mut self,
        count: usize,
        nodes_max: usize,
        now_s: f64,
    ) -> Result<Vec<NodeKey>, NotPositive> {
        let mut all: Vec<(f32, u32)> = self
            .live_paths()
            .map(|id| (self.own_weight(id, now_s) as f32, id.0))
            .collect();
        let count = count.min(all.len());
        if count < all.len() {
            let order = |a: &(f32, u32), b: &(f32, u32)| a.0.total_cmp(&b.0);
            all.select_nth_unstable_by(count, order);
            all.truncate(count);
        }
        self.forget_these(
            all.into_iter().map(|(_, id)| PathId(id)),
            nodes_max,
            &HashSet::new(),
        )
    }

    /// Forgets the paths whose samples have faded, and nodes as [`Tree::forget_least`]. Returns all their keys.
    ///
    /// # Errors
    /// As [`Tree::forget_least`].
    pub fn forget_old(
        &mut self,
        nodes_max: usize,
        now_s: f64,
    ) -> Result<Vec<NodeKey>, NotPositive> {
        let old: Vec<PathId> = self
            .live_paths()
            .filter(|id| now_s - self.at_s(*id) > HALF_LIVES_MAX * self.memory.path_s)
            .collect();
        for id in &old {
            let group = self.group_of(*id);
            self.age(group, now_s);
        }
        self.forget_these(old, nodes_max, &HashSet::new())
    }

    /// Forgets the paths of these domains and the groups and sites above them. Their classes keep their messages. Returns
    /// all their keys. Costs little if there is none.
    ///
    /// # Errors
    /// As [`Tree::forget_least`].
    pub fn forget_domains(
        &mut self,
        domains: &HashSet<u32>,
        nodes_max: usize,
    ) -> Result<Vec<NodeKey>, NotPositive> {
        let mut paths = Vec::new();
        let mut is_any = false;
        for node in self.nodes.iter().filter(|node| node.is_of(domains)) {
            is_any = true;
            let mut next = if node.level == 1 { node.first } else { NONE };
            while next != NONE {
                paths.push(PathId(next));
                next = self.paths[next as usize].next;
            }
        }
        if !is_any {
            return Ok(Vec::new());
        }
        self.forget_these(paths, nodes_max, domains)
    }

    /// Forgets nodes without children and knowledge, or more than `nodes_max`; returns their keys.
    ///
    /// # Errors
    /// As [`Tree::forget_least`].
    pub(crate) fn forget_bare(&mut self, nodes_max: usize) -> Result<Vec<NodeKey>, NotPositive> {
        self.forget_these([], nodes_max, &HashSet::new())
    }

    fn forget_these(
        &mut self,
        paths: impl IntoIterator<Item = PathId>,
        nodes_max: usize,
        domains: &HashSet<u32>,
    ) -> Result<Vec<NodeKey>, NotPositive> {
        let mut forgotten = Vec::new();
        for id in paths {
            self.forget(id, &mut forgotten)?;
        }
        self.link_paths();
        self.forget_nodes(nodes_max, domains, &mut forgotten)?;
        Ok(forgotten)
    }

    /// Forgets a path.
    ///
    /// # Errors
    /// As [`Tree::forget_least`].
    pub fn remove(&mut self, path: &Key) -> Result<(), NotPositive> {
        if let Some(id) = self.find(path) {
            self.forget(id, &mut Vec::new())?;
            self.link_paths();
        }
        Ok(())
    }

    /// Removes a path. Lists and index still have it: [`Tree::link_paths`] must follow.
    fn forget(&mut self, id: PathId, forgotten: &mut Vec<NodeKey>) -> Result<(), NotPositive> {
        let told = self.told(id, self.paths[id.0 as usize].told_factor)?;
        let group = self.group_of(id);
        self.add_gone(group, &told, 1.0);
        self.nodes[group as usize].unsaved = true;
        forgotten.push(NodeKey {
            level: Level::Path,
            key: self.path_key(id.0),
        });
        self.paths[id.0 as usize].group = NONE;
        self.losses.remove(&id.0);
        self.free.push(id.0);
        Ok(())
    }

    /// Rebuilds the groups' lists and the index of paths.
    fn link_paths(&mut self) {
        for node in self.nodes.iter_mut().filter(|n| n.level == 1) {
            node.first = NONE;
        }
        for id in 0..self.paths.len() {
            if self.paths[id].live() {
                let group = self.paths[id].group as usize;
                self.paths[id].next = std::mem::replace(&mut self.nodes[group].first, id as u32);
            }
        }
        let mut index = std::mem::take(&mut self.path_index);
        index.refill(self.live_paths().map(|id| (id.0, self.path_key(id.0))));
        self.path_index = index;
    }

    /// Forgets nodes without children: all of these domains, and others as [`Tree::forget_least`] says.
    fn forget_nodes(
        &mut self,
        nodes_max: usize,
        domains: &HashSet<u32>,
        forgotten: &mut Vec<NodeKey>,
    ) -> Result<(), NotPositive> {
        let before = forgotten.len();
        for level in 1..LEVELS as u8 {
            let known = |tree: &Self, id: u32| {
                let node = &tree.nodes[id as usize];
                let bare = node.live && node.level == level && node.first == NONE;
                bare.then(|| (tree.sum(id).trace() * tree.widths.noise, id))
            };
            let ids = 1..self.nodes.len() as u32;
            let mut bare: Vec<(f64, u32)> = ids.filter_map(|id| known(self, id)).collect();
            bare.sort_by(|a, b| a.0.total_cmp(&b.0));
            let kept = self.node_index.len() - (forgotten.len() - before);
            let excess = kept.saturating_sub(nodes_max);
            for (nth, (samples, id)) in bare.into_iter().enumerate() {
                let is_ended = self.nodes[id as usize].is_of(domains);
                if nth >= excess && samples >= NODE_SAMPLES_MIN && !is_ended {
                    continue;
                }
                if level == Level::Group as u8 {
                    self.silence(id)?;
                }
                let parent = self.nodes[id as usize].parent;
                let (told, faded) = self.node_told_faded(id);
                self.add_gone(parent, &told, faded);
                forgotten.push(self.node_key(id));
                self.nodes[id as usize].live = false;
                self.nodes[parent as usize].unsaved = true;
                self.free_nodes.push(id);
            }
            self.link_nodes(level);
        }
        let live = |id: &u32| self.nodes[*id as usize].live;
        let all = (GLOBAL..self.nodes.len() as u32).filter(live);
        let mut index = std::mem::take(&mut self.node_index);
        index.refill(all.map(|id| (id, self.node_key(id))));
        self.node_index = index;
        Ok(())
    }

    /// Rebuilds the lists of the nodes of this level.
    fn link_nodes(&mut self, level: u8) {
        for node in self.nodes.iter_mut().filter(|n| n.level == level + 1) {
            node.first = NONE;
        }
        for id in 1..self.nodes.len() {
            if self.nodes[id].live && self.nodes[id].level == level {
                let parent = self.nodes[id].parent as usize;
                self.nodes[id].next = std::mem::replace(&mut self.nodes[parent].first, id as u32);
            }
        }
    }
}

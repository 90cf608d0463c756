//! What a change of some paths means for what is known of the others.

use super::{GLOBAL, LEVELS, PathId, Tree};
use crate::change::Sums;
use crate::linalg::NotPositive;
use crate::settings::Change;

impl Tree {
    /// A path's evidence of change.
    pub fn sums_mut(&mut self, id: PathId) -> &mut Sums {
        &mut self.paths[id.0 as usize].sums
    }

    /// Notes that a path changed. When enough children of a node did within the window, the node did:
    /// all that is known below it is doubted, and its own parent notes that. Gives how many levels
    /// changed, 0 for the path alone.
    ///
    /// # Errors
    /// [`NotPositive`], as for [`Tree::belief`].
    pub fn note_change(
        &mut self,
        id: PathId,
        now_s: f64,
        settings: &Change,
    ) -> Result<usize, NotPositive> {
        let mut child = id.0;
        let mut node = self.get(id).group;
        for changed in 0..LEVELS {
            if !self.nodes[node as usize]
                .alarms
                .note(child, now_s, settings)
            {
                return Ok(changed);
            }
            self.doubt(node, settings.group_keep)?;
            (child, node) = (node, self.nodes[node as usize].parent);
        }
        Ok(LEVELS)
    }

    /// Notes a path's deviation at all nodes above it: a shift that is too small to be seen on one path
    /// is seen on many. Gives how many levels changed.
    ///
    /// # Errors
    /// [`NotPositive`], as for [`Tree::belief`].
    pub fn pool(&mut self, id: PathId, z: f64, settings: &Change) -> Result<usize, NotPositive> {
        let mut node = self.get(id).group;
        let mut highest = None;
        loop {
            let n = &mut self.nodes[node as usize];
            // One busy path is no crowd: of its samples in a row only the first counts here.
            let other = std::mem::replace(&mut n.pooled_last, id.0) != id.0;
            if other
                && n.sums
                    .observe(z, settings.pooled_drift, settings.pooled_alarm)
            {
                highest = Some((node, n.level));
            }
            if node == GLOBAL {
                break;
            }
            node = n.parent;
        }
        match highest {
            Some((node, level)) => self.doubt(node, settings.group_keep).map(|()| level),
            None => Ok(0),
        }
    }

    /// Ages all that is known below a node, as if time had passed.
    fn doubt(&mut self, top: u32, keep: f64) -> Result<(), NotPositive> {
        let mut below = vec![false; self.nodes.len()];
        for id in top as usize..self.nodes.len() {
            below[id] = id == top as usize || below[self.nodes[id].parent as usize];
            if below[id] {
                self.nodes[id].fade(-keep.log2());
                self.nodes[id].sums = Sums::default();
                self.nodes[id].doubt -= keep.log2() as f32;
            }
        }
        self.tell(top)
    }

    /// Weighs down what a path that changed has left in its group's memory: its part of it.
    ///
    /// # Errors
    /// [`NotPositive`], as for [`Tree::belief`].
    pub fn doubt_memory(&mut self, id: PathId, keep: f64) -> Result<(), NotPositive> {
        let told = self.told(id, self.get(id).told_factor)?.trace();
        let group = self.get(id).group;
        let node = &mut self.nodes[group as usize];
        let all = node.sum.trace() - node.gone.trace();
        let share = if all > told { told / all } else { 1.0 };
        let gone = node.gone;
        node.sum.add(&gone, -1.0);
        node.gone.scale(keep.powf(share));
        let gone = node.gone;
        node.sum.add(&gone, 1.0);
        self.tell(group)
    }
}

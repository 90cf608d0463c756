//! The effect of some paths' changes on the knowledge about the others.

use super::{GLOBAL, LEVELS, NONE, PathId, Tree};
use crate::change::{Alarms, Sums};
use crate::linalg::NotPositive;
use crate::settings::Change;

impl<const C: usize> Tree<C> {
    /// A path's evidence of change.
    pub fn sums_mut(&mut self, id: PathId) -> &mut Sums {
        &mut self.paths[id.0 as usize].sums
    }

    /// Notes a change of a path. If enough children of a node changed within the window, the node
    /// did, too: all knowledge below it is doubted, and its own parent notes the change. Returns the
    /// number of changed levels, 0 for the path alone.
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
        let mut node = self.group_of(id);
        for changed in 0..LEVELS {
            let alarms = &mut self.nodes[node as usize].alarms;
            let noted = alarms.get_or_insert_with(Box::<Alarms>::default);
            if !noted.note(child, now_s, settings) {
                return Ok(changed);
            }
            *alarms = None;
            self.doubt(node, settings.group_keep)?;
            (child, node) = (node, self.nodes[node as usize].parent);
        }
        Ok(LEVELS)
    }

    /// Notes a path's deviation (`z`, in standard deviations) at all nodes above it: a shift
    /// too small to be seen on one path shows on many. Returns the number of changed levels.
    ///
    /// # Errors
    /// [`NotPositive`], as for [`Tree::belief`].
    pub fn pool(&mut self, id: PathId, z: f64, settings: &Change) -> Result<usize, NotPositive> {
        let mut node = self.group_of(id);
        let relative = self.relative(id).map_or(NONE, |(other, _)| other.0);
        let mut highest = None;
        loop {
            let n = &mut self.nodes[node as usize];
            // One busy path is not many paths: only the first of its samples in a row counts here.
            let last = std::mem::replace(&mut n.pooled_last, id.0);
            let other = last != id.0 && (last != relative || relative == NONE);
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
            Some((node, level)) => self
                .doubt(node, settings.group_keep)
                .map(|()| usize::from(level)),
            None => Ok(0),
        }
    }

    /// Ages all knowledge below a node, as if time had passed.
    fn doubt(&mut self, top: u32, keep: f64) -> Result<(), NotPositive> {
        self.doubt_foreign(top)?;
        let mut below = vec![top];
        while let Some(id) = below.pop() {
            self.fade(id, -keep.log2());
            let node = &mut self.nodes[id as usize];
            node.sums = Sums::default();
            node.doubt = node.doubt.wrapping_add(1);
            node.unsaved = true;
            if node.level > 1 {
                below.extend(self.children(id));
            } else {
                self.doubted(id);
            }
        }
        self.tell(top)
    }

    /// Marks a group's paths to be saved again: their rows say how often they were doubted.
    fn doubted(&mut self, group: u32) {
        let mut id = self.nodes[group as usize].first;
        while id != NONE {
            let path = &mut self.paths[id as usize];
            path.unsaved = true;
            id = path.next;
        }
    }

    /// The paths of a group.
    pub(crate) fn paths_of(&self, group: u32) -> impl Iterator<Item = PathId> + '_ {
        let some = |id: u32| (id != NONE).then_some(PathId(id));
        let first = some(self.nodes[group as usize].first);
        std::iter::successors(first, move |id| some(self.paths[id.0 as usize].next))
    }

    /// The nodes right below a site, a class or the global node.
    pub(crate) fn children(&self, id: u32) -> impl Iterator<Item = u32> + '_ {
        let some = |id: u32| (id != NONE).then_some(id);
        let first = some(self.nodes[id as usize].first);
        std::iter::successors(first, move |id| some(self.nodes[*id as usize].next))
    }

    /// Reduces the weight of a changed path's part in its group's memory.
    ///
    /// # Errors
    /// [`NotPositive`], as for [`Tree::belief`].
    pub fn doubt_memory(&mut self, id: PathId, keep: f64) -> Result<(), NotPositive> {
        let told = self
            .told(id, self.paths[id.0 as usize].told_factor)?
            .trace();
        let group = self.group_of(id);
        let mut gone = self.gone(group);
        let all = self.own_sum(group).trace() - gone.trace();
        let share = if all > told { told / all } else { 1.0 };
        self.add_sum(group, &gone, -1.0);
        gone.scale(keep.powf(share));
        let gone = super::store::rounded(&gone);
        self.set_gone(group, &gone);
        self.add_sum(group, &gone, 1.0);
        self.tell(group)
    }
}

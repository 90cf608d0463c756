//! How far the losses of paths and nodes come with a queue ([`crate::sharing`]).

use super::{GLOBAL, PathId, Tree};
use crate::sharing::{Bouts, OF_NODE, OF_PATH, UNKNOWN};

impl<const C: usize> Tree<C> {
    /// Notes a connection's bouts of loss for its path, and for the nodes above.
    pub(crate) fn note_bouts(&mut self, id: PathId, seen: Bouts) {
        let mut node = self.group_of(id);
        self.paths[id.0 as usize].bouts.add(seen, OF_PATH);
        loop {
            self.nodes[node as usize].bouts.add(seen, OF_NODE);
            if node == GLOBAL {
                return;
            }
            node = self.nodes[node as usize].parent;
        }
    }

    /// A changed path keeps a part of its count.
    pub(crate) fn doubt_bouts(&mut self, id: PathId, keep: f64) {
        self.paths[id.0 as usize].bouts.scale(keep as f32);
    }

    /// The share of a path's bouts with a queue; what it lacks comes from the nodes above.
    #[inline]
    pub(crate) fn queued_share(&self, id: PathId) -> f64 {
        let path = &self.paths[id.0 as usize];
        path.bouts.queued_share(self.queued_share_below(path.group))
    }

    /// The same for an unknown path below a node.
    pub(crate) fn queued_share_below(&self, mut node: u32) -> f64 {
        let mut up = [GLOBAL; super::LEVELS];
        let mut count = 0;
        while node != GLOBAL && count + 1 < up.len() {
            up[count] = node;
            count += 1;
            node = self.nodes[node as usize].parent;
        }
        // From the global node down to the given one.
        let above = |share: f64, node: &u32| self.nodes[*node as usize].bouts.queued_share(share);
        up[..=count].iter().rev().fold(UNKNOWN, above)
    }
}

//! How far the losses of paths and nodes come with a queue ([`crate::sharing`]).

use super::{GLOBAL, PathId, Tree};
use crate::lineage::{Key, Level};
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
    pub(crate) fn queued_share_below(&self, node: u32) -> f64 {
        let heard = self.foreign_is_used();
        self.queued_share_of(node, |key, share| {
            if heard && !self.is_held_back(key) {
                self.heard_share(key, share)
            } else {
                share
            }
        })
    }

    /// The share of a group's path, or of an unknown one, with what others say of the group, or without.
    pub(crate) fn queued_share_if(&self, group: &Key, id: Option<PathId>, is_heard: bool) -> f64 {
        let heard = |share: f64| {
            if is_heard {
                self.heard_share(group, share)
            } else {
                share
            }
        };
        let share = match self.node_of_group(group) {
            Some(node) => self.queued_share_of(node, |_, share| heard(share)),
            None => {
                let above = self.deepest(&crate::lineage::Lineage::of_key(group));
                heard(self.queued_share_of(above, |_, share| share))
            }
        };
        match id {
            Some(id) => self.paths[id.0 as usize].bouts.queued_share(share),
            None => share,
        }
    }

    /// The share below a node, from the global node down. `heard` gives that of a group with the fleet's part, from the
    /// share above: a group's own bouts come after it.
    fn queued_share_of(&self, mut node: u32, heard: impl Fn(&Key, f64) -> f64) -> f64 {
        let mut up = [GLOBAL; super::LEVELS];
        let mut count = 0;
        while node != GLOBAL && count + 1 < up.len() {
            up[count] = node;
            count += 1;
            node = self.nodes[node as usize].parent;
        }
        let below = |share: f64, node: &u32| {
            let node = &self.nodes[*node as usize];
            let share = if node.level == Level::Group as u8 {
                heard(&node.key, share)
            } else {
                share
            };
            node.bouts.queued_share(share)
        };
        up[..=count].iter().rev().fold(UNKNOWN, below)
    }
}

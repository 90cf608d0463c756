//! The belief about a path or a node: knowledge on its way down the tree.

use super::{GLOBAL, Now, PathId, Tree};
use crate::gaussian::{Belief, Information};
use crate::ledger::Ledger;
use crate::linalg::NotPositive;
use crate::lineage::{Level, Lineage};

impl<const C: usize> Now<C> {
    /// The belief from this evidence and this prior.
    #[inline]
    pub(crate) fn belief(&self, prior: &Information<C>) -> Result<Belief<C>, NotPositive> {
        let mut known = *prior;
        known.add(&self.likelihood, 1.0);
        known.belief()
    }

    /// The path's message to its group, as far as its own samples still support it.
    pub(crate) fn told_live(&self) -> Information<C> {
        let mut told = self.told;
        told.scale(self.live);
        told
    }
}

impl<const C: usize> Tree<C> {
    /// All knowledge about a node's advantages except its children's.
    pub(crate) fn outside(&self, id: u32) -> Result<Information<C>, NotPositive> {
        if id == GLOBAL {
            return Ok(self.base);
        }
        let parent = self.nodes[id as usize].parent;
        let mut known = self.outside(parent)?;
        known.add(&self.sum(parent), 1.0);
        let (told, faded) = self.node_told_faded(id);
        known.add(&told, -faded);
        known.through(self.spread[usize::from(self.nodes[id as usize].level)])
    }

    /// The belief about a node's advantages.
    pub(crate) fn belief_of_node(&self, id: u32) -> Result<Belief<C>, NotPositive> {
        let mut known = self.outside(id)?;
        known.add(&self.sum(id), 1.0);
        known.belief()
    }

    /// All knowledge about a node, including its children's messages.
    #[inline]
    pub(super) fn known_in(&mut self, id: u32) -> Result<Information<C>, NotPositive> {
        let level = usize::from(self.nodes[id as usize].level);
        match self.memo[level] {
            Some((of, known)) if of == id => Ok(known),
            _ => self.learn_known_in(id, level),
        }
    }

    fn learn_known_in(&mut self, id: u32, level: usize) -> Result<Information<C>, NotPositive> {
        let mut known = self.base;
        if id != GLOBAL {
            known = self.known_in(self.nodes[id as usize].parent)?;
            let (told, faded) = self.node_told_faded(id);
            known.add(&told, -faded);
            known = known.through(self.spread[level])?;
        }
        known.add(&self.sum(id), 1.0);
        self.memo[level] = Some((id, known));
        Ok(known)
    }

    /// A path's evidence now, and the knowledge about it from its neighbours and all nodes above.
    ///
    /// # Errors
    /// [`NotPositive`] when the tree has lost its digits; [`Tree::rebuild`] mends that.
    #[inline]
    pub(crate) fn now_and_prior(
        &mut self,
        id: PathId,
        now_s: f64,
    ) -> Result<(Now<C>, Information<C>), NotPositive> {
        let group = self.group_of(id);
        self.age(group, now_s);
        let now = self.now(id, now_s)?;
        let mut known = self.known_in(group)?;
        known.add(&now.told, -now.live);
        let prior = known.through(self.spread[0])?;
        Ok((now, prior))
    }

    /// The belief about a path's advantages now.
    ///
    /// # Errors
    /// [`NotPositive`] when the tree has lost its digits; [`Tree::rebuild`] mends that.
    pub fn belief(&mut self, id: PathId, now_s: f64) -> Result<Belief<C>, NotPositive> {
        let (now, prior) = self.now_and_prior(id, now_s)?;
        now.belief(&prior)
    }

    /// The belief about a path with this evidence, if its neighbours had said nothing.
    #[inline]
    pub(crate) fn sceptic(&self, now: &Now<C>) -> Result<Belief<C>, NotPositive> {
        now.belief(&self.alone)
    }

    /// The belief about a path without samples and without neighbours.
    pub(crate) fn alone(&self) -> Result<Belief<C>, NotPositive> {
        self.alone.belief()
    }

    /// The belief about an unknown path: the lowest known node above it decides.
    ///
    /// # Errors
    /// [`NotPositive`], as for [`Tree::belief`].
    pub fn belief_of_unseen(
        &mut self,
        lineage: &Lineage,
        now_s: f64,
    ) -> Result<(Belief<C>, u32), NotPositive> {
        let deepest = self.deepest(lineage);
        Ok((self.belief_below(deepest, now_s)?, deepest))
    }

    /// The lowest known node above a path.
    pub(crate) fn deepest(&self, lineage: &Lineage) -> u32 {
        let above = &Level::ALL[1..];
        above
            .iter()
            .find_map(|level| self.find_node(&lineage.node(*level)))
            .unwrap_or(GLOBAL)
    }

    /// The belief about an unknown path below a node, if no known node lies between them.
    ///
    /// # Errors
    /// [`NotPositive`], as for [`Tree::belief`].
    pub(crate) fn belief_below(&mut self, node: u32, now_s: f64) -> Result<Belief<C>, NotPositive> {
        self.age(node, now_s);
        let mut known = self.known_in(node)?;
        for level in (0..usize::from(self.nodes[node as usize].level)).rev() {
            known = known.through(self.spread[level])?;
        }
        known.belief()
    }

    /// The balance for the choice of an unknown path: its group's, or a new group's.
    #[must_use]
    pub fn ledger_of(&self, node: u32) -> Ledger {
        match self.nodes[node as usize].level {
            1 => self.nodes[node as usize].ledger,
            _ => self.ledger,
        }
    }

    /// The assumption about all advantages before the first sample.
    pub(crate) fn base_information(&self) -> Information<C> {
        self.base
    }

    /// The belief before the first sample.
    #[must_use]
    pub fn base(&self) -> Belief<C> {
        // An inverse of a covariance can be factored; else an advantage is anything.
        self.base.belief().unwrap_or(Belief::WIDE)
    }
}

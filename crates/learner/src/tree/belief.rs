//! What is believed of a path or a node: knowledge on its way down the tree.

use super::{GLOBAL, Now, PathId, Tree};
use crate::gaussian::{Belief, Information};
use crate::ledger::Ledger;
use crate::linalg::NotPositive;
use crate::lineage::{Level, Lineage};

impl Now {
    /// The belief after this, with that prior.
    #[inline]
    pub(crate) fn belief(&self, prior: &Information) -> Result<Belief, NotPositive> {
        let mut known = *prior;
        known.add(&self.likelihood, 1.0);
        known.belief()
    }

    /// What the path has told its group, as far as its own samples still say it.
    pub(crate) fn told_live(&self) -> Information {
        let mut told = self.told;
        told.scale(self.live);
        told
    }
}

impl Tree {
    /// All that is known of a node's contrasts from outside of its children.
    pub(crate) fn outside(&self, id: u32) -> Result<Information, NotPositive> {
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

    /// What a node's contrasts are believed to be.
    pub(crate) fn belief_of_node(&self, id: u32) -> Result<Belief, NotPositive> {
        let mut known = self.outside(id)?;
        known.add(&self.sum(id), 1.0);
        known.belief()
    }

    /// All that is known of a node, its children's messages included.
    #[inline]
    fn known_in(&mut self, id: u32) -> Result<Information, NotPositive> {
        let level = usize::from(self.nodes[id as usize].level);
        match self.memo[level] {
            Some((of, known)) if of == id => Ok(known),
            _ => self.learn_known_in(id, level),
        }
    }

    fn learn_known_in(&mut self, id: u32, level: usize) -> Result<Information, NotPositive> {
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

    /// What a path says now, and what its neighbours and all above say of it.
    ///
    /// # Errors
    /// [`NotPositive`] when the tree has lost its digits; [`Tree::rebuild`] mends that.
    #[inline]
    pub(crate) fn now_and_prior(
        &mut self,
        id: PathId,
        now_s: f64,
    ) -> Result<(Now, Information), NotPositive> {
        let group = self.group_of(id);
        self.age(group, now_s);
        let now = self.now(id, now_s)?;
        let mut known = self.known_in(group)?;
        known.add(&now.told, -now.live);
        let prior = known.through(self.spread[0])?;
        Ok((now, prior))
    }

    /// What a path's contrasts are believed to be now.
    ///
    /// # Errors
    /// [`NotPositive`] when the tree has lost its digits; [`Tree::rebuild`] mends that.
    pub fn belief(&mut self, id: PathId, now_s: f64) -> Result<Belief, NotPositive> {
        let (now, prior) = self.now_and_prior(id, now_s)?;
        now.belief(&prior)
    }

    /// What would be believed of a path that says this if its neighbours had said nothing.
    #[inline]
    pub(crate) fn sceptic(&self, now: &Now) -> Result<Belief, NotPositive> {
        now.belief(&self.alone)
    }

    /// What a path without samples is believed to be like if it has no neighbours.
    pub(crate) fn alone(&self) -> Result<Belief, NotPositive> {
        self.alone.belief()
    }

    /// What a path that is not kept is believed to be like: its deepest known node decides.
    ///
    /// # Errors
    /// [`NotPositive`], as for [`Tree::belief`].
    pub fn belief_of_stranger(
        &mut self,
        lineage: &Lineage,
        now_s: f64,
    ) -> Result<(Belief, u32), NotPositive> {
        let deepest = self.deepest(lineage);
        Ok((self.belief_below(deepest, now_s)?, deepest))
    }

    /// The lowest node above a path that is kept.
    pub(crate) fn deepest(&self, lineage: &Lineage) -> u32 {
        let above = &Level::ALL[1..];
        above
            .iter()
            .find_map(|level| self.find_node(&lineage.node(*level)))
            .unwrap_or(GLOBAL)
    }

    /// What a path below a node is believed to be like if nothing lies between them.
    ///
    /// # Errors
    /// [`NotPositive`], as for [`Tree::belief`].
    pub(crate) fn belief_below(&mut self, node: u32, now_s: f64) -> Result<Belief, NotPositive> {
        self.age(node, now_s);
        let mut known = self.known_in(node)?;
        for level in (0..usize::from(self.nodes[node as usize].level)).rev() {
            known = known.through(self.spread[level])?;
        }
        known.belief()
    }

    /// The balance that a stranger's choice is held to: its group's, or a new group's.
    #[must_use]
    pub fn ledger_of(&self, node: u32) -> Ledger {
        match self.nodes[node as usize].level {
            1 => self.nodes[node as usize].ledger,
            _ => self.ledger,
        }
    }

    /// What is assumed of all contrasts before anything was seen.
    pub(crate) fn base_information(&self) -> Information {
        self.base
    }

    /// The belief before anything was seen.
    #[must_use]
    pub fn base(&self) -> Belief {
        self.base.prior()
    }
}

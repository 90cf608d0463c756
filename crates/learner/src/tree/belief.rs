//! What is believed of a path or a node: knowledge on its way down the tree.

use super::{GLOBAL, PathId, Tree};
use crate::gaussian::{Belief, Information};
use crate::ledger::Ledger;
use crate::linalg::NotPositive;
use crate::lineage::Lineage;
use crate::path::Expected;

impl Tree {
    /// All that is known of a node's contrasts from outside of its children.
    pub(super) fn outside(&self, id: u32) -> Result<Information, NotPositive> {
        if id == GLOBAL {
            return Ok(self.base);
        }
        let node = &self.nodes[id as usize];
        let parent = &self.nodes[node.parent as usize];
        let mut known = self.outside(node.parent)?;
        known.add(&parent.sum, 1.0);
        known.add(&node.told, -(node.told_discount - parent.discount).exp2());
        known.through(self.spread[parent.level - 1])
    }

    /// What a node's contrasts are believed to be.
    pub(crate) fn belief_of_node(&self, id: u32) -> Result<Belief, NotPositive> {
        let mut known = self.outside(id)?;
        known.add(&self.nodes[id as usize].sum, 1.0);
        known.belief()
    }

    /// What a path is believed to be like before its own samples.
    pub(crate) fn prior(&self, id: PathId, now_s: f64) -> Result<Information, NotPositive> {
        let path = self.get(id);
        let (told, live) = self.told_and_live(id, now_s)?;
        let mut known = self.outside(path.group)?;
        known.add(&self.nodes[path.group as usize].sum, 1.0);
        known.add(&told, -live);
        known.through(self.spread[0])
    }

    /// What a path's contrasts are believed to be now.
    ///
    /// # Errors
    /// [`NotPositive`] when the tree has lost its digits; [`Tree::rebuild`] mends that.
    pub fn belief(&mut self, id: PathId, now_s: f64) -> Result<Belief, NotPositive> {
        self.age(self.get(id).group, now_s);
        let mut known = self.prior(id, now_s)?;
        known.add(
            &self.evidence_at(id, now_s).likelihood(&self.widths, 1.0),
            1.0,
        );
        known.belief()
    }

    /// What a path's contrasts would be believed to be if its neighbours had said nothing.
    ///
    /// # Errors
    /// [`NotPositive`] when a sample is not finite.
    pub fn sceptic(&self, id: Option<PathId>, now_s: f64) -> Result<Belief, NotPositive> {
        let mut known = self.base;
        for spread in self.spread {
            known = known.through(spread)?;
        }
        if let Some(id) = id {
            known.add(
                &self.evidence_at(id, now_s).likelihood(&self.widths, 1.0),
                1.0,
            );
        }
        known.belief()
    }

    /// What the next sample of a path's arm is expected to be.
    ///
    /// # Errors
    /// [`NotPositive`], as for [`Tree::belief`].
    pub fn expected(
        &mut self,
        id: PathId,
        arm: usize,
        now_s: f64,
    ) -> Result<Expected, NotPositive> {
        self.age(self.get(id).group, now_s);
        let prior = self.prior(id, now_s)?;
        self.evidence_at(id, now_s)
            .expected(arm, &prior, &self.widths)
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
        let mut deepest = GLOBAL;
        for key in Self::above(lineage) {
            match self.node_ids.get(&key) {
                Some(id) => deepest = *id,
                None => break,
            }
        }
        self.age(deepest, now_s);
        let mut known = self.outside(deepest)?;
        known.add(&self.nodes[deepest as usize].sum, 1.0);
        for level in (0..self.nodes[deepest as usize].level).rev() {
            known = known.through(self.spread[level])?;
        }
        Ok((known.belief()?, deepest))
    }

    /// The balance that a stranger's choice is held to: its group's, or a new group's.
    #[must_use]
    pub fn ledger_of(&self, node: u32) -> Ledger {
        match self.nodes[node as usize].level {
            1 => self.nodes[node as usize].ledger,
            _ => self.ledger,
        }
    }

    /// The belief before anything was seen.
    #[must_use]
    pub fn base(&self) -> Belief {
        self.base.prior()
    }
}

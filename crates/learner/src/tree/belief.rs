//! What is believed of a path or a node: knowledge on its way down the tree.

use super::{GLOBAL, PathId, Tree};
use crate::gaussian::{Belief, Information};
use crate::ledger::Ledger;
use crate::linalg::NotPositive;
use crate::lineage::{Level, Lineage};
use crate::path::Expected;

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

    /// What a path is believed to be like before its own samples.
    pub(crate) fn prior(&self, id: PathId, now_s: f64) -> Result<Information, NotPositive> {
        let group = self.group_of(id);
        let (told, live) = self.told_and_live(id, now_s)?;
        let mut known = self.outside(group)?;
        known.add(&self.sum(group), 1.0);
        known.add(&told, -live);
        known.through(self.spread[0])
    }

    /// What a path's contrasts are believed to be now.
    ///
    /// # Errors
    /// [`NotPositive`] when the tree has lost its digits; [`Tree::rebuild`] mends that.
    pub fn belief(&mut self, id: PathId, now_s: f64) -> Result<Belief, NotPositive> {
        self.age(self.group_of(id), now_s);
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
        self.age(self.group_of(id), now_s);
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
        let mut known = self.outside(node)?;
        known.add(&self.sum(node), 1.0);
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

    /// What a path has told its group, as far as its own samples still say it.
    pub(crate) fn told_live(&self, id: PathId, now_s: f64) -> Result<Information, NotPositive> {
        let (mut told, live) = self.told_and_live(id, now_s)?;
        told.scale(live);
        Ok(told)
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

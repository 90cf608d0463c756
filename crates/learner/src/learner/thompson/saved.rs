//! Saving knowledge, and reading it again.
//!
//! A saved learner is a set of rows with keys: two copies of a head (regression, noise, widths) and one
//! row for each path and node. Rows do not depend on each other, so only changed ones have to be
//! written again, and a damaged row spoils no other. Without a head the others mean nothing: samples
//! are kept as deviations from the regression.

use std::collections::HashSet;

use super::{Exact, Restored, Thompson, Unusable};
use crate::bytes::{Reader, Writer};
use crate::lineage::{Level, NodeKey};
use crate::regression::Regression;
use crate::settings::Settings;
use crate::tree::saved::{Taken, is_outdated, key_bytes, key_of_bytes};
use crate::tree::{GLOBAL, Tree};

/// No sum of a head is larger.
const SUM_MAX: f64 = 1e15;
/// Variances and standard deviations of rewards, in nats squared and nats.
const POSSIBLE_WIDTH: std::ops::RangeInclusive<f64> = 1e-9..=1e6;

/// First byte of a head's key; below are levels.
const HEAD: u8 = 0xff;

/// Calls its argument with each saved key and row.
pub type SavedRows<'a> = dyn FnMut(&mut dyn FnMut(&[u8], &[u8])) + 'a;

impl Thompson {
    /// Gives the rows changed since the last save, or all: key and row, `None` for a row to be
    /// removed. With `all` the rows not given have to be removed as well.
    pub fn save(&mut self, all: bool, row: impl FnMut(&[u8], Option<&[u8]>)) {
        if all {
            self.begin_anew();
        }
        self.save_some(usize::MAX, row);
    }

    /// Tells the learner that the saved rows are gone: it will give all rows again.
    pub fn begin_anew(&mut self) {
        exact!(&mut self.0, it => it.begin_anew());
    }

    /// The same for at most `most` of the changed paths and nodes, so a million need not be in
    /// memory a second time. Returns whether those were all; if not, call it again.
    pub fn save_some(&mut self, most: usize, row: impl FnMut(&[u8], Option<&[u8]>)) -> bool {
        exact!(&mut self.0, it => it.save_some(most, row))
    }

    /// A learner with the saved knowledge. Rows may come in any order; `now_s` must be of the clock of
    /// the saved times.
    ///
    /// # Errors
    /// [`Unusable::Arms`].
    pub fn restore<K: AsRef<[u8]>, R: AsRef<[u8]>>(
        arms: usize,
        settings: Settings,
        rows: impl IntoIterator<Item = (K, R)>,
        now_s: f64,
    ) -> Result<(Self, Restored), Unusable> {
        let mut learner = Thompson::new(arms, settings)?;
        let mut rows = Some(rows);
        let restored = learner.take_up(
            &mut |each| {
                for (key, row) in rows.take().into_iter().flatten() {
                    each(key.as_ref(), row.as_ref());
                }
            },
            now_s,
        );
        Ok((learner, restored))
    }

    /// Forgets the paths whose samples have faded.
    pub fn forget_old(&mut self, now_s: f64) {
        exact!(&mut self.0, it => it.forget_old(now_s));
    }

    /// Forgets the paths of these domains, and the groups and sites above them; returns the number of paths.
    pub fn forget_domains(&mut self, domains: &HashSet<u32>) -> usize {
        exact!(&mut self.0, it => it.forget_domains(domains))
    }

    /// Starts from the saved rows, in any order; `now_s` must be of the clock of the saved times. Rows
    /// are taken up one by one, so a million need not be in memory a second time.
    pub fn take_up(&mut self, rows: &mut SavedRows<'_>, now_s: f64) -> Restored {
        exact!(&mut self.0, it => it.take_up_all(rows, now_s))
    }
}

impl<const C: usize> Exact<C> {
    fn begin_anew(&mut self) {
        self.forgotten.clear();
        self.tree.mark_unsaved();
    }

    fn save_some(&mut self, most: usize, mut row: impl FnMut(&[u8], Option<&[u8]>)) -> bool {
        for key in std::mem::take(&mut self.forgotten) {
            row(&key_bytes(&key), None);
        }
        let head = self.head();
        for copy in 0..2 {
            row(&[HEAD, copy], Some(&head));
        }
        self.tree.unsaved(most, |key, bytes| row(key, Some(bytes)))
    }

    fn head(&self) -> Vec<u8> {
        let mut row = Writer::new();
        let widths = self.tree.widths();
        row.u16(Tree::<C>::ARMS as u16)
            .u64(self.seen)
            .u64(self.widths_at)
            .f64(self.widths_at_s.max(f64::MIN))
            .f64s(&[self.noise.sum, self.noise.weight])
            .f64s(&[widths.noise, widths.baseline])
            .f64s(&self.tree.spread());
        self.regression.write(&mut row);
        row.finish()
    }

    fn read_head(&mut self, row: &[u8], now_s: f64) -> Option<()> {
        let mut row = Reader::new(row)?;
        if usize::from(row.u16()?) != Tree::<C>::ARMS {
            return None;
        }
        let (seen, widths_at, widths_at_s) = (row.u64()?, row.u64()?, row.f64()?);
        let [mut noise, mut widths] = [[0.0; 2]; 2];
        let mut spread = self.tree.spread();
        row.f64s(&mut noise)?;
        row.f64s(&mut widths)?;
        row.f64s(&mut spread)?;
        let regression = Regression::read(&mut row, now_s)?;
        row.done()?;
        let is_possible = (0.0..=SUM_MAX).contains(&noise[0])
            && (0.0..=SUM_MAX).contains(&noise[1])
            && widths
                .iter()
                .chain(&spread)
                .all(|x| POSSIBLE_WIDTH.contains(x))
            && regression.is_possible();
        is_possible.then_some(())?;
        (self.seen, self.widths_at) = (seen, widths_at);
        self.widths_at_s = match widths_at_s > f64::MIN {
            true => widths_at_s.min(now_s),
            false => f64::NEG_INFINITY,
        };
        (self.noise.sum, self.noise.weight) = (noise[0], noise[1]);
        (self.tree.widths.noise, self.tree.widths.baseline) = (widths[0], widths[1]);
        self.tree.set_spread(spread);
        self.regression = regression;
        Some(())
    }

    fn take_up_all(&mut self, rows: &mut SavedRows<'_>, now_s: f64) -> Restored {
        *self = Self::new(self.settings.clone());
        self.tree.begin(now_s);
        let mut restored = Restored::default();
        let mut outdated = Vec::new();
        rows(&mut |key, row| {
            if key.first() == Some(&HEAD) {
                let read = self.read_head(row, now_s).is_some();
                restored.head |= read;
                restored.damaged += usize::from(!read);
                return;
            }
            match self.take_up(key, row, now_s, &mut outdated) {
                Taken::Outdated => restored.outdated += 1,
                Taken::Up => restored.taken_up += 1,
                Taken::Damaged => restored.damaged += 1,
            }
        });
        if !restored.head || !self.complete(now_s) {
            restored.damaged += std::mem::take(&mut restored.taken_up);
            *self = Self::new(self.settings.clone());
        }
        self.note_forgotten(outdated);
        restored
    }

    /// Takes up the row of a path or node, or notes its key as outdated.
    fn take_up(
        &mut self,
        key: &[u8],
        row: &[u8],
        now_s: f64,
        outdated: &mut Vec<NodeKey>,
    ) -> Taken {
        let Some((lineage, level)) = key_of_bytes(key) else {
            return Taken::Damaged;
        };
        if level != Level::Global && is_outdated(lineage.class) {
            outdated.push(lineage.node(level));
            return Taken::Outdated;
        }
        self.tree.take_up(&lineage, level, row, now_s)
    }

    /// Computes what follows from the rows; says whether they agree.
    fn complete(&mut self, now_s: f64) -> bool {
        if self.tree.complete().is_err() {
            return false;
        }
        let memory = &self.settings.memory;
        let excess = self.tree.len().saturating_sub(memory.paths_max);
        if excess > 0 {
            let nodes_max = memory.paths_max / 2 + 4;
            match self.tree.forget_least(excess, nodes_max, now_s) {
                Ok(keys) => self.note_forgotten(keys),
                Err(_) => self.rebuild(),
            }
        }
        self.queue_below(GLOBAL);
        true
    }
}

//! A fleet's part in the learner: what this host says of groups, and what it hears ([`crate::tree::Facts`]).

use super::view::Foreign;
use super::{Exact, Thompson};
use crate::gaussian::Information;
use crate::linalg::NotPositive;
use crate::lineage::{Key, NodeKey};
use crate::sharing::Bouts;
use crate::tree::{Facts, GLOBAL, Heard, PathId, pack, triangle, unpack};

/// This host's own knowledge of a group, without anything heard.
#[derive(Clone, Copy, Debug)]
pub struct OwnGroup<'a> {
    /// The group.
    pub key: &'a Key,
    /// Lower triangle of the precision by rows, then the shift.
    pub numbers: &'a [f32],
    /// How often the group was doubted; it wraps.
    pub doubt: u16,
    /// When one of its paths gave the last sample, in seconds; minus infinity if all are forgotten.
    pub seen_s: f64,
    /// Its bouts of loss.
    pub bouts: Bouts,
    /// Its paths with samples.
    pub paths: &'a [Key],
}

impl Thompson {
    /// Whether foreign messages count, or are only shown. Those heard before are dropped if they do not count.
    pub fn use_foreign(&mut self, is_used: bool) {
        exact!(&mut self.0, it => it.use_foreign(is_used));
    }

    /// Begins to hear a fleet: what is not heard until [`Thompson::end_hearing`] is dropped then.
    pub fn begin_hearing(&mut self, now_s: f64) {
        exact!(&mut self.0, it => it.tree.begin_hearing(now_s));
    }

    /// Hears what others say of a group: `left` times the knowledge in `numbers` (see [`OwnGroup`]). It replaces the former
    /// message of the group. Groups unknown to this host take at most half of the room for nodes.
    pub fn hear(
        &mut self,
        group: &Key,
        numbers: &[f32],
        left: f64,
        facts: Facts,
        now_s: f64,
    ) -> Heard {
        exact!(&mut self.0, it => it.hear(group, numbers, left, facts, now_s))
    }

    /// Drops what was not heard again.
    pub fn end_hearing(&mut self) {
        exact!(&mut self.0, it => it.end_hearing());
    }

    /// Drops what others say of a group that does harm there, and hears nothing of it for the half-life of a group. Whether it
    /// was in use.
    pub fn refuse_foreign(&mut self, group: &Key, now_s: f64) -> bool {
        exact!(&mut self.0, it => it.refuse_foreign(group, now_s))
    }

    /// Whether others say something of a group.
    #[must_use]
    pub fn is_heard_of(&self, group: &Key) -> bool {
        exact!(&self.0, it => it.tree.is_heard_of(group))
    }

    /// The groups of which others said something.
    pub fn foreign_groups(&self) -> impl Iterator<Item = NodeKey> + '_ {
        let all: Box<dyn Iterator<Item = NodeKey> + '_> =
            exact!(&self.0, it => Box::new(it.tree.foreign_groups()));
        all
    }

    /// The host's own knowledge of the groups of domain 0, aged up to now: at most `most` of them, beginning with number
    /// `from`. Returns the number to go on with.
    pub fn own_groups(
        &mut self,
        from: u32,
        most: usize,
        now_s: f64,
        each: impl FnMut(OwnGroup<'_>),
    ) -> Option<u32> {
        exact!(&mut self.0, it => it.own_groups(from, most, now_s, each))
    }
}

impl<const C: usize> Exact<C> {
    fn use_foreign(&mut self, is_used: bool) {
        if self.tree.use_foreign(is_used).is_err() {
            self.rebuild();
        }
    }

    fn hear(&mut self, group: &Key, numbers: &[f32], left: f64, facts: Facts, now_s: f64) -> Heard {
        if C == 0 || numbers.len() != triangle(C) {
            return Heard::Unusable;
        }
        let mut said: Information<C> = unpack(numbers);
        said.scale(left);
        let nodes_max = self.nodes_max() / 2;
        match self.tree.hear(group, &said, facts, nodes_max, now_s) {
            Ok(heard) => {
                if let Some(node) = self.tree.node_of_group(group) {
                    self.queue_up(node);
                }
                heard
            }
            Err(_) => {
                self.rebuild();
                Heard::Unusable
            }
        }
    }

    fn end_hearing(&mut self) {
        match self.tree.end_hearing() {
            Ok(dropped) if dropped.is_empty() => {}
            Ok(dropped) => {
                for node in dropped {
                    self.queue_up(node);
                }
                let forgotten = self.tree.forget_bare(self.nodes_max());
                self.note_or_rebuild(forgotten);
            }
            Err(_) => self.rebuild(),
        }
    }

    fn refuse_foreign(&mut self, group: &Key, now_s: f64) -> bool {
        let refused = self.tree.refuse_foreign(group, now_s);
        if let Some(node) = self.tree.node_of_group(group) {
            self.queue_up(node);
        }
        refused.unwrap_or_else(|_| {
            self.rebuild();
            true
        })
    }

    fn own_groups(
        &mut self,
        from: u32,
        most: usize,
        now_s: f64,
        mut each: impl FnMut(OwnGroup<'_>),
    ) -> Option<u32> {
        let mut numbers = vec![0f32; triangle(C)];
        self.tree.own_groups(
            from,
            most,
            now_s,
            |key, own, (doubt, seen_s, bouts), paths| {
                pack(own, |x| x as f32, &mut numbers);
                each(OwnGroup {
                    key,
                    numbers: &numbers,
                    doubt,
                    seen_s,
                    bouts,
                    paths,
                });
            },
        )
    }

    /// What others say of a path's group, or of a group, for people.
    pub(super) fn foreign(
        &mut self,
        group: &Key,
        id: Option<PathId>,
        now_s: f64,
    ) -> Result<Option<Foreign>, NotPositive> {
        let Some(shown) = self.tree.foreign_of(group, now_s)? else {
            return Ok(None);
        };
        let mut change = shown.said;
        change.scale(if shown.is_used {
            -shown.believed
        } else {
            shown.believed
        });
        let belief = self.tree.belief_if(group, id, &change, now_s)?;
        let queued = self.tree.queued_share_if(group, id, !shown.is_used);
        let otherwise = match id {
            Some(id) => {
                let now = self.tree.now(id, now_s)?;
                self.plan_if(id, &belief, Some(&now), queued)
            }
            None => {
                let node = self.tree.node_of_group(group).unwrap_or(GLOBAL);
                self.plan_below_if(node, &belief, queued)
            }
        };
        let noise = self.tree.widths().noise;
        Ok(Some(Foreign {
            connections: shown.said.trace() * noise / C.max(1) as f64,
            believed: shown.believed,
            paths: 1 << shown.paths_log2.min(63),
            age_s: shown.age_s,
            is_used: shown.is_used,
            is_held_back: shown.is_held_back,
            otherwise,
        }))
    }
}

//! Foreign messages: what the other hosts of a fleet say of a group.
//!
//! A foreign message is one more child of its group's sum. It stays apart from the messages of the host's own paths, so
//! the host's own knowledge is the sum less the foreign message, and a host never says what it heard. Each message
//! replaces the former one of its group as a whole. The check of outliers judges it by what the host itself knows, and
//! again after each of the host's own samples. If the group is found to have changed, its message is dropped, and the
//! group hears none for a half-life: the others may not have noticed the change yet.
//!
//! If messages are only shown, they are kept without entering any sum. So is the message of a group that is held back from
//! the fleet, to compare such groups with the others.

use std::collections::HashMap;

use super::{GLOBAL, Node, PathId, Tree};
use crate::gaussian::{Belief, Information};
use crate::linalg::NotPositive;
use crate::lineage::{Key, Level, Lineage, NodeKey};
use crate::sharing::Bouts;

/// What is known of a foreign message besides its numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Facts {
    /// Binary logarithm of the number of the other hosts' paths behind it.
    pub paths_log2: u8,
    /// Seconds from the last of their samples to the time when it was heard.
    pub age_s: f64,
    /// Their bouts of loss, as they counted when it was heard.
    pub bouts: Bouts,
    /// Whether the group is held back from the fleet: its message enters no sum.
    pub is_held_back: bool,
}

/// The foreign message of a group.
#[derive(Clone, Debug)]
pub(super) struct Foreign<const C: usize> {
    /// As heard, and as it counted at `at_s`.
    said: Information<C>,
    at_s: f64,
    /// The part of it in the group's sum, and the group's `discount` for which `said` holds.
    counted: Option<(f64, f64)>,
    facts: Facts,
    /// When it was heard, in seconds.
    heard_s: f64,
    /// The hearing that it belongs to.
    hearing: u32,
}

/// The foreign messages of a tree.
#[derive(Clone, Debug, Default)]
pub(super) struct Fleet<const C: usize> {
    said: HashMap<Key, Foreign<C>>,
    /// Changed groups, and until when they hear nothing.
    deaf: HashMap<Key, f64>,
    hearing: u32,
    /// Whether messages enter the sums.
    is_used: bool,
}

/// The outcome of a foreign message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It replaced the former one.
    Taken,
    /// The group has changed; the message may be older than the change.
    Changed,
    /// The group is new, and there is no room for it.
    NoRoom,
    /// Together with the host's own knowledge it is no belief, or it is for another number of algorithms.
    Unusable,
}

/// The foreign message of a path's group, as people see it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shown<const C: usize> {
    /// As it counts now if it is believed.
    pub said: Information<C>,
    /// The believed part, 0 to 1.
    pub believed: f64,
    /// Whether it is in the sums.
    pub is_used: bool,
    pub is_held_back: bool,
    pub paths_log2: u8,
    /// Seconds since the last sample behind it.
    pub age_s: f64,
}

fn group_of(key: &Key) -> NodeKey {
    NodeKey {
        level: Level::Group,
        key: *key,
    }
}

impl<const C: usize> Tree<C> {
    /// Whether foreign messages enter the sums from now on. All former ones are dropped if this changes.
    ///
    /// # Errors
    /// [`NotPositive`], as for [`Tree::belief`].
    pub(crate) fn use_foreign(&mut self, is_used: bool) -> Result<(), NotPositive> {
        if is_used != self.fleet.is_used || !is_used {
            self.drop_foreign(|_| true)?;
        }
        self.fleet.is_used = is_used;
        Ok(())
    }

    /// Keeps messages of saved rows: they are part of what their groups told their sites.
    pub(super) fn restore_foreign(
        &mut self,
        id: u32,
        said: &Information<C>,
        part: f64,
        facts: Facts,
    ) {
        let node = &self.nodes[id as usize];
        self.fleet.is_used = true;
        self.fleet.said.insert(
            node.key,
            Foreign {
                said: *said,
                at_s: node.at_s,
                counted: Some((part, node.discount)),
                facts,
                heard_s: node.at_s,
                hearing: self.fleet.hearing,
            },
        );
    }

    /// A group's foreign message for its saved row: as it counts now, the part in the sum, and facts as of now.
    pub(super) fn foreign_to_save(&self, id: u32) -> Option<(Information<C>, f64, Facts)> {
        let node = &self.nodes[id as usize];
        let foreign = self.fleet.said.get(&node.key).filter(|_| node.level == 1)?;
        let (part, discount) = foreign.counted?;
        let mut said = foreign.said;
        said.scale((discount - node.discount).exp2());
        let since_s = (node.at_s - foreign.heard_s).max(0.0);
        let facts = Facts {
            age_s: foreign.facts.age_s + since_s,
            bouts: self.foreign_bouts(foreign, node.at_s),
            ..foreign.facts
        };
        Some((said, part, facts))
    }

    /// Groups with foreign messages.
    pub(crate) fn foreign_groups(&self) -> impl Iterator<Item = NodeKey> + '_ {
        self.fleet.said.keys().map(group_of)
    }

    /// Whether others say something of a group.
    pub(crate) fn is_heard_of(&self, group: &Key) -> bool {
        self.fleet.said.contains_key(group)
    }

    /// Whether a group's message enters no sum.
    pub(super) fn is_held_back(&self, group: &Key) -> bool {
        let foreign = self.fleet.said.get(group);
        foreign.is_some_and(|foreign| foreign.facts.is_held_back)
    }

    /// The part of a node's sum that is foreign.
    pub(super) fn foreign_in(&self, id: u32) -> Option<Information<C>> {
        if self.fleet.said.is_empty() {
            return None;
        }
        let node = &self.nodes[id as usize];
        let foreign = self.fleet.said.get(&node.key).filter(|_| node.level == 1)?;
        let (part, discount) = foreign.counted?;
        let mut said = foreign.said;
        said.scale(part * (discount - node.discount).exp2());
        Some(said)
    }

    /// A node's sum without its foreign message: for a group, the host's own knowledge.
    pub(crate) fn own_sum(&self, id: u32) -> Information<C> {
        let mut own = self.sum(id);
        if let Some(foreign) = self.foreign_in(id) {
            own.add(&foreign, -1.0);
        }
        own
    }

    /// Takes a group's foreign message out of its sum; whether there is one that may enter it.
    pub(super) fn set_apart(&mut self, id: u32) -> bool {
        if self.fleet.said.is_empty() {
            return false;
        }
        let foreign = self.foreign_in(id);
        let Node {
            key,
            at_s,
            discount,
            ..
        } = self.nodes[id as usize];
        let Some(known) = self.fleet.said.get_mut(&key) else {
            return false;
        };
        if let Some((_, since)) = known.counted.take() {
            known.said.scale((since - discount).exp2());
            known.at_s = at_s;
        }
        if let Some(foreign) = foreign {
            self.add_sum(id, &foreign, -1.0);
        }
        self.fleet.is_used
    }

    /// Adds a group's foreign message to its sum, as far as the rest of its knowledge lets it be believed. It must have
    /// been set apart, and the group aged up to now.
    pub(super) fn count_foreign(&mut self, id: u32) -> Result<(), NotPositive> {
        let Node {
            key,
            at_s,
            discount,
            ..
        } = self.nodes[id as usize];
        let foreign = self.fleet.said.get(&key);
        let Some(foreign) = foreign.filter(|foreign| !foreign.facts.is_held_back) else {
            return Ok(());
        };
        let said = self.faded(foreign, at_s);
        let mut others = self.outside(id)?;
        others.add(&self.sum(id), 1.0);
        let part = self.credible(&others, &said)?;
        self.add_sum(id, &said, part);
        if let Some(foreign) = self.fleet.said.get_mut(&key) {
            (foreign.said, foreign.at_s) = (said, at_s);
            foreign.counted = Some((part, discount));
        }
        Ok(())
    }

    /// Whether messages are in the sums.
    pub(super) fn foreign_is_used(&self) -> bool {
        self.fleet.is_used && !self.fleet.said.is_empty()
    }

    /// A message's bouts of loss at a later time.
    fn foreign_bouts(&self, foreign: &Foreign<C>, now_s: f64) -> Bouts {
        let mut bouts = foreign.facts.bouts;
        let half_lives = (now_s - foreign.heard_s).max(0.0) / self.half_life(Level::Group as u8);
        bouts.scale((-half_lives).exp2() as f32);
        bouts
    }

    /// The share of a group's bouts of loss with a queue, with what others say, as far as their message is believed.
    /// `above` is the share of the level above.
    pub(super) fn heard_share(&self, group: &Key, above: f64) -> f64 {
        let Some(foreign) = self.fleet.said.get(group) else {
            return above;
        };
        let mut bouts = self.foreign_bouts(foreign, self.nodes[GLOBAL as usize].at_s);
        bouts.scale(foreign.counted.map_or(1.0, |(part, _)| part as f32));
        bouts.heard_share(above)
    }

    /// A message outside the sums, at a later time.
    fn faded(&self, foreign: &Foreign<C>, now_s: f64) -> Information<C> {
        let mut said = foreign.said;
        let half_lives = (now_s - foreign.at_s).max(0.0) / self.half_life(Level::Group as u8);
        said.scale((-half_lives).exp2());
        said
    }

    /// Begins to hear a fleet: what is not heard until [`Tree::end_hearing`] is dropped then.
    pub(crate) fn begin_hearing(&mut self, now_s: f64) {
        self.fleet.hearing = self.fleet.hearing.wrapping_add(1);
        self.fleet.deaf.retain(|_, until_s| *until_s > now_s);
    }

    /// Hears what others say of a group. New groups get a node if there are less than `nodes_max`.
    ///
    /// # Errors
    /// [`NotPositive`], as for [`Tree::belief`].
    pub(crate) fn hear(
        &mut self,
        key: &Key,
        said: &Information<C>,
        facts: Facts,
        nodes_max: usize,
        now_s: f64,
    ) -> Result<Heard, NotPositive> {
        let lineage = Lineage::of_key(key);
        let mut with_a_little = *said;
        (0..C).for_each(|i| with_a_little.precision[i][i] += 1e-3 * (1.0 + said.trace()));
        if lineage.group != *key || with_a_little.belief().is_err() {
            return Ok(Heard::Unusable);
        }
        if self.fleet.deaf.contains_key(key) {
            return Ok(Heard::Changed);
        }
        let node = self.node_of_group(key);
        let is_new = node.is_none() && !self.fleet.said.contains_key(key);
        if is_new && self.node_count().max(self.fleet.said.len()) >= nodes_max {
            return Ok(Heard::NoRoom);
        }
        let id = match node {
            None if self.fleet.is_used && !facts.is_held_back => {
                self.start(now_s);
                Some(self.node(&lineage, Level::Group, now_s))
            }
            node => node,
        };
        if let Some(id) = id {
            self.age(id, now_s);
            self.set_apart(id);
        }
        let hearing = self.fleet.hearing;
        self.fleet.said.insert(
            *key,
            Foreign {
                said: *said,
                at_s: now_s,
                counted: None,
                facts,
                heard_s: now_s,
                hearing,
            },
        );
        if let Some(id) = id.filter(|_| self.fleet.is_used) {
            self.count_foreign(id)?;
            self.tell(id)?;
        }
        Ok(Heard::Taken)
    }

    /// Drops the messages that the last hearing did not have; returns the groups' nodes.
    ///
    /// # Errors
    /// [`NotPositive`], as for [`Tree::belief`].
    pub(crate) fn end_hearing(&mut self) -> Result<Vec<u32>, NotPositive> {
        let hearing = self.fleet.hearing;
        self.drop_foreign(|foreign| foreign.hearing != hearing)
    }

    /// Drops messages; returns the groups' nodes.
    fn drop_foreign(
        &mut self,
        is_out: impl Fn(&Foreign<C>) -> bool,
    ) -> Result<Vec<u32>, NotPositive> {
        let out = self
            .fleet
            .said
            .iter()
            .filter(|(_, foreign)| is_out(foreign));
        let out: Vec<Key> = out.map(|(key, _)| *key).collect();
        let mut nodes = Vec::new();
        for key in out {
            let node = self.node_of_group(&key);
            if let Some(id) = node {
                self.silence(id)?;
                nodes.push(id);
            }
            self.fleet.said.remove(&key);
        }
        Ok(nodes)
    }

    /// Drops a group's message, and tells those above.
    pub(super) fn silence(&mut self, id: u32) -> Result<(), NotPositive> {
        let was_counted = self.foreign_in(id).is_some();
        self.set_apart(id);
        let key = self.nodes[id as usize].key;
        if self.fleet.said.remove(&key).is_some() && was_counted {
            self.tell(id)?;
        }
        Ok(())
    }

    /// Drops a group's message, and hears none of it for a half-life. Whether it was in a sum.
    ///
    /// # Errors
    /// [`NotPositive`], as for [`Tree::belief`].
    pub(crate) fn refuse_foreign(&mut self, key: &Key, now_s: f64) -> Result<bool, NotPositive> {
        if !self.is_heard_of(key) {
            return Ok(false);
        }
        self.fleet.deaf.insert(*key, now_s + self.memory.group_s);
        let Some(id) = self.node_of_group(key) else {
            self.fleet.said.remove(key);
            return Ok(false);
        };
        self.age(id, now_s);
        // A message that nobody believes has done nothing.
        let was_used = self.foreign_in(id).is_some_and(|said| said.trace() > 0.0);
        self.silence(id)?;
        Ok(was_used)
    }

    /// Drops the messages of all groups below a changed node: what others say may be older than the change.
    pub(super) fn doubt_foreign(&mut self, top: u32) -> Result<(), NotPositive> {
        if self.fleet.said.is_empty() {
            return Ok(());
        }
        let until_s = self.nodes[GLOBAL as usize].at_s + self.memory.group_s;
        let mut below = vec![top];
        while let Some(id) = below.pop() {
            let Node { key, level, .. } = self.nodes[id as usize];
            if level > 1 {
                below.extend(self.children(id));
            } else if self.fleet.said.contains_key(&key) {
                self.silence(id)?;
                self.fleet.deaf.insert(key, until_s);
            }
        }
        Ok(())
    }

    /// Adds all foreign messages to sums that have just been computed without them.
    pub(super) fn refill_foreign(&mut self) {
        let keys: Vec<Key> = self.fleet.said.keys().copied().collect();
        for key in keys {
            if let Some(id) = self.node_of_group(&key) {
                if let Some(foreign) = self.foreign_in(id) {
                    self.add_sum(id, &foreign, 1.0);
                }
            }
        }
    }

    /// The foreign message of a group, for people.
    ///
    /// # Errors
    /// [`NotPositive`], as for [`Tree::belief`].
    pub(crate) fn foreign_of(
        &mut self,
        key: &Key,
        now_s: f64,
    ) -> Result<Option<Shown<C>>, NotPositive> {
        let Some(known) = self.fleet.said.get(key) else {
            return Ok(None);
        };
        let (facts, counted) = (known.facts, known.counted);
        let age_s = known.facts.age_s + (now_s - known.heard_s).max(0.0);
        let node = self.node_of_group(key);
        if let Some(id) = node {
            self.age(id, now_s);
        }
        let (said, believed) = match (counted, node) {
            (Some((part, discount)), Some(id)) => {
                let mut said = self.fleet.said[key].said;
                said.scale((discount - self.nodes[id as usize].discount).exp2());
                (said, part)
            }
            _ => {
                let said = self.faded(&self.fleet.said[key], now_s);
                let others = self.around_group(key, now_s)?;
                (said, self.credible(&others, &said)?)
            }
        };
        Ok(Some(Shown {
            said,
            believed,
            is_used: counted.is_some(),
            is_held_back: facts.is_held_back,
            paths_log2: facts.paths_log2,
            age_s,
        }))
    }

    /// All knowledge about a group's advantages, also if it has no node.
    fn around_group(&mut self, key: &Key, now_s: f64) -> Result<Information<C>, NotPositive> {
        let deepest = self.deepest(&Lineage::of_key(key));
        self.age(deepest, now_s);
        let mut known = self.known_in(deepest)?;
        for level in (1..usize::from(self.nodes[deepest as usize].level)).rev() {
            known = known.through(self.spread[level])?;
        }
        Ok(known)
    }

    /// The belief about a path of a group, or an unknown one, if the group's sum had another `change` in it.
    ///
    /// # Errors
    /// [`NotPositive`], as for [`Tree::belief`].
    pub(crate) fn belief_if(
        &mut self,
        group: &Key,
        id: Option<PathId>,
        change: &Information<C>,
        now_s: f64,
    ) -> Result<Belief<C>, NotPositive> {
        let mut known = self.around_group(group, now_s)?;
        known.add(change, 1.0);
        let Some(id) = id else {
            return known.through(self.spread[0])?.belief();
        };
        let now = self.now(id, now_s)?;
        known.add(&now.told_live(), -1.0);
        now.belief(&known.through(self.spread[0])?)
    }

    /// The own knowledge of the groups of domain 0, from a number of a node on, at most `most` of them. `each` gets the
    /// key, the knowledge, the count of doubts with the time of the last sample and the bouts of loss, and the paths. Returns the number to go on with.
    pub(crate) fn own_groups(
        &mut self,
        from: u32,
        most: usize,
        now_s: f64,
        mut each: impl FnMut(&Key, &Information<C>, (u16, f64, Bouts), &[Key]),
    ) -> Option<u32> {
        let mut count = 0;
        let mut paths = Vec::new();
        for id in from.max(1)..self.nodes.len() as u32 {
            let Node {
                key,
                level,
                live,
                doubt,
                bouts,
                ..
            } = self.nodes[id as usize];
            if !live || level != Level::Group as u8 || key.domain != 0 {
                continue;
            }
            if count == most {
                return Some(id);
            }
            count += 1;
            self.age(id, now_s);
            paths.clear();
            let mut seen_s = f64::NEG_INFINITY;
            for path in self.paths_of(id).filter(|path| self.has_samples(*path)) {
                seen_s = seen_s.max(self.at_s(path));
                paths.push(self.path_key(path.0));
            }
            let own = self.own_sum(id);
            if own.trace() > 0.0 {
                each(&key, &own, (doubt, seen_s, bouts), &paths);
            }
        }
        None
    }
}

//! Merging: from this host's own state and the heard ones to one foreign message per group, as bytes of a state.
//!
//! It goes part by part, and three times over all parts ([`tcpilot_fleet::merge::Reader`]): decoded rows take ten times the
//! room of their bytes, so at no time more than a part is decoded.

use std::collections::BTreeMap;

use tcpilot_fleet::age::left;
use tcpilot_fleet::clip::{Bound, clipped};
use tcpilot_fleet::format::ROWS_MAX;
use tcpilot_fleet::shard::{SHARDS, part_of, shard_of};
use tcpilot_fleet::state::QUARTER_S;
use tcpilot_fleet::translate::Translation;
use tcpilot_fleet::trust::trust;
use tcpilot_fleet::{
    Group, Groups, HostPairs, HostWidths, Message, Name, Part, PlacePairs, Reader, Refusal, Row,
    State, format,
};
use tcpilot_learner::gaussian::Information;
use tcpilot_learner::sharing::Bouts;

use crate::hear::{Heard, Member, Shard};
use crate::key::Host;
use crate::say::Own;

/// What the fleet says under one policy, and how far its hosts are trusted.
pub struct Merged {
    /// The foreign messages: the bytes of a state in the reader's own terms.
    pub bytes: Vec<u8>,
    /// Its rows.
    pub rows: u64,
    /// Trust in each merged host, 0 to 1; `None` if it is too far from its place to be heard.
    pub trust: BTreeMap<Host, Option<f64>>,
    /// Hosts that were not merged, by reason.
    pub refused: BTreeMap<Host, Refusal>,
}

/// What was heard by one host.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// The reader.
    pub reader: &'a Host,
    /// Its own knowledge.
    pub own: &'a Own,
    /// The policy.
    pub policy: &'a Name,
    /// Hosts that were heard themselves.
    pub members: &'a BTreeMap<Host, Member>,
    /// What mergers say of the reader's place.
    pub merged: Option<&'a Member>,
    /// Seconds by this host's boot clock.
    pub now_s: f64,
}

/// What one host's row adds to a merged row besides its message.
#[derive(Clone, Copy)]
pub struct Fact {
    /// The host's set ([`crate::merger`]).
    pub set: u8,
    paths_log2: u8,
    age_quarters: u8,
    losses: Losses,
}

#[derive(Clone, Copy)]
enum Losses {
    /// Unknown in the reader's terms.
    None,
    OfHost(Bouts),
    /// Already those of many hosts.
    OfPlace(Bouts),
}

/// The facts of a part's groups.
pub type Facts = BTreeMap<Group, Vec<Fact>>;

impl Fact {
    /// Of a row that is so old, and has so much left. `has_default` says whether its default is the reader's: another default
    /// has other losses.
    #[must_use]
    pub fn of(row: &Row, set: u8, (age_s, left): (f64, f64), has_default: bool) -> Self {
        let quarters = (age_s / QUARTER_S) as u8;
        let is_known = has_default && row.losses != Default::default();
        let bouts = row.losses.bouts(left);
        Self {
            set,
            paths_log2: row.paths_log2.min(32),
            age_quarters: row.age_quarters.saturating_add(quarters),
            losses: if is_known {
                Losses::OfHost(bouts)
            } else {
                Losses::None
            },
        }
    }

    fn of_place(self) -> Self {
        let losses = match self.losses {
            Losses::OfHost(bouts) => Losses::OfPlace(bouts),
            other => other,
        };
        Self { losses, ..self }
    }
}

/// A merged row with what its hosts know besides. `None` if rounding has made it impossible.
pub fn row<'a, const C: usize>(
    group: Group,
    said: &Information<C>,
    facts: impl Iterator<Item = &'a Fact>,
) -> Option<Row> {
    let (mut paths, mut age_quarters) = (0u64, u8::MAX);
    let (mut bouts, mut of_place) = (Vec::new(), None);
    for fact in facts {
        paths = paths.saturating_add(1 << fact.paths_log2);
        age_quarters = age_quarters.min(fact.age_quarters);
        match fact.losses {
            Losses::None => {}
            Losses::OfHost(of) => bouts.push(of),
            Losses::OfPlace(of) => of_place = Some(of),
        }
    }
    let losses = match of_place {
        Some(of) => tcpilot_fleet::losses::of_place(of),
        None => tcpilot_fleet::losses::merged(&bouts),
    };
    Some(Row {
        group,
        paths_log2: paths.max(1).ilog2() as u8,
        doubt: 0,
        age_quarters: if paths == 0 { 0 } else { age_quarters },
        losses,
        said: Message::of(said).ok()?,
    })
}

/// Merges what was heard under one policy, in the terms of the own state, which may have no rows.
///
/// # Errors
/// [`Refusal::Algorithms`] if the own state has none.
pub fn merged(input: &Input) -> Result<Merged, Refusal> {
    match input.own.state.algorithms().len() {
        2 => of::<1>(input),
        3 => of::<2>(input),
        4 => of::<3>(input),
        5 => of::<4>(input),
        6 => of::<5>(input),
        7 => of::<6>(input),
        8 => of::<7>(input),
        _ => Err(Refusal::Algorithms),
    }
}

/// The states to merge.
struct Sources<'a> {
    hosts: Vec<(&'a Host, &'a Heard)>,
    place: Option<&'a Heard>,
    /// The part of each own row.
    own_parts: Vec<u16>,
}

impl<'a> Sources<'a> {
    fn new<const C: usize>(input: &Input<'a>, refused: &mut BTreeMap<Host, Refusal>) -> Self {
        let own = &input.own.state;
        let heard = |member: &'a Member| member.policies.get(input.policy);
        let members = input.members.iter();
        let members = members.filter(|(_, member)| !member.are_two(input.now_s));
        let mut hosts = Vec::new();
        for (host, heard) in members.filter_map(|(host, member)| Some((host, heard(member)?))) {
            match is_translatable::<C>(heard, own) {
                Ok(()) => hosts.push((host, heard)),
                Err(refusal) => drop(refused.insert(host.clone(), refusal)),
            }
        }
        let place = input.merged.and_then(heard);
        Self {
            hosts,
            place: place.filter(|place| is_translatable::<C>(place, own).is_ok()),
            own_parts: own
                .rows()
                .iter()
                .map(|row| shard_of(&row.group, SHARDS))
                .collect(),
        }
    }

    /// A part of them. `facts` collects those of the hosts that are heard.
    fn part<const C: usize>(
        &self,
        input: &Input,
        number: u16,
        mut facts: Option<(&mut Facts, &HostWidths)>,
    ) -> Result<Part<C>, Refusal> {
        let own = &input.own.state;
        let mut part = Part::default();
        if let Some(left) = left(input.own.age_s) {
            let rows = own.rows().iter().zip(&self.own_parts);
            let rows = rows.filter(|(_, part)| **part == number);
            let translation = Translation::<C>::new(own, own.reward, own.algorithms())?;
            for (row, _) in rows {
                let mut known = translation.row(row);
                known.scale(left);
                part.own.insert(row.group, known);
            }
        }
        let age_s = |shard: &Shard| shard.age_s(input.now_s);
        for (host, heard) in &self.hosts {
            let key = (host.place.to_string(), host.name.to_string());
            let mut facts = facts.as_mut();
            let facts = facts
                .as_mut()
                .filter(|(_, widths)| widths.get(&key).is_some_and(Option::is_some));
            let mut facts = facts.map(|(facts, _)| facts);
            let groups = groups_of(heard, number, own, age_s, |row, fact| {
                if let Some(facts) = facts.as_mut() {
                    facts.entry(row.group).or_default().push(fact);
                }
            })?;
            let place = part.places.entry(key.0).or_default();
            place.insert(key.1, groups);
        }
        if let Some(place) = self.place {
            let mut groups = groups_of(place, number, own, age_s, |row, fact| {
                if let Some((facts, _)) = facts.as_mut() {
                    facts.insert(row.group, vec![fact.of_place()]);
                }
            })?;
            let said = groups.values_mut();
            said.for_each(|said| *said = clipped(said, &[Bound::OF_PLACE; C]));
            part.merged.insert(input.reader.place.to_string(), groups);
        }
        Ok(part)
    }
}

/// Whether all that a host says can be translated. Only the heads of its shards are read.
fn is_translatable<const C: usize>(heard: &Heard, reader: &State) -> Result<(), Refusal> {
    heard.shards.iter().try_for_each(|shard| {
        let head = format::head(&shard.bytes)?;
        Translation::<C>::new(&head, reader.reward, reader.algorithms()).map(drop)
    })
}

/// A part of a host's knowledge in the reader's terms, aged. What is too old to count is left out.
///
/// # Errors
/// It cannot be translated.
pub fn groups_of<const C: usize>(
    heard: &Heard,
    number: u16,
    reader: &State,
    age_s: impl Fn(&Shard) -> f64,
    mut each: impl FnMut(&Row, Fact),
) -> Result<Groups<C>, Refusal> {
    let mut groups = Groups::new();
    for shard in heard
        .shards
        .iter()
        .filter(|shard| part_of(shard.number) == number)
    {
        let age_s = age_s(shard);
        let Some(left) = left(age_s) else { continue };
        let state = format::decode(&shard.bytes, u32::MAX)?;
        let translation = Translation::<C>::new(&state, reader.reward, reader.algorithms())?;
        let has_default = state.algorithms().first() == reader.algorithms().first();
        for row in state.rows() {
            let mut known = translation.row(row);
            known.scale(left);
            groups.insert(row.group, known);
            each(row, Fact::of(row, 0, (age_s, left), has_default));
        }
    }
    Ok(groups)
}

/// Rows held before the least useful ones are dropped.
const FOUND_MAX: usize = ROWS_MAX as usize + ROWS_MAX as usize / 4;

/// A merged row in a third of the room: a message has room for eight algorithms.
struct Found<const C: usize> {
    group: Group,
    said: Information<C>,
    is_own: bool,
    paths_log2: u8,
    age_quarters: u8,
    losses: tcpilot_fleet::Losses,
}

impl<const C: usize> Found<C> {
    fn new(row: &Row, said: Information<C>, is_own: bool) -> Self {
        Self {
            group: row.group,
            said,
            is_own,
            paths_log2: row.paths_log2,
            age_quarters: row.age_quarters,
            losses: row.losses,
        }
    }

    fn row(&self) -> Option<Row> {
        Some(Row {
            group: self.group,
            paths_log2: self.paths_log2,
            doubt: 0,
            age_quarters: self.age_quarters,
            losses: self.losses,
            said: Message::of(&self.said).ok()?,
        })
    }
}

/// Keeps at most `most` rows: first those that the reader knows, then those that say most.
fn keep_most_useful<const C: usize>(found: &mut Vec<Found<C>>, most: usize) {
    if found.len() <= most {
        return;
    }
    found.select_nth_unstable_by(most, |a, b| {
        b.is_own
            .cmp(&a.is_own)
            .then(b.said.trace().total_cmp(&a.said.trace()))
            .then(a.group.cmp(&b.group))
    });
    found.truncate(most);
}

fn of<const C: usize>(input: &Input) -> Result<Merged, Refusal> {
    let mut refused = BTreeMap::new();
    let sources = Sources::new::<C>(input, &mut refused);
    let reader = Reader {
        home: input.reader.place.as_str(),
        name: input.reader.name.as_str(),
    };
    let mut pairs = HostPairs::default();
    for number in 0..SHARDS {
        pairs.add(&reader, &sources.part::<C>(input, number, None)?);
    }
    let hosts = pairs.widths();
    let mut pairs = PlacePairs::default();
    for number in 0..SHARDS {
        pairs.add(&reader, &sources.part::<C>(input, number, None)?, &hosts);
    }
    let places = pairs.widths(&reader);
    let mut found = Vec::new();
    for number in 0..SHARDS {
        let mut facts = Facts::new();
        let part = sources.part::<C>(input, number, Some((&mut facts, &hosts)))?;
        for (group, said) in reader.foreign(&part, &hosts, &places) {
            let of_group = facts.get(&group).into_iter().flatten();
            // A sum of valid messages can be beyond what a message may say, for rounding. Then the group has none.
            if let Some(row) = row(group, &said, of_group) {
                let is_own = part.own.contains_key(&group);
                found.push(Found::new(&row, said, is_own));
            }
        }
        if found.len() > FOUND_MAX {
            keep_most_useful(&mut found, ROWS_MAX as usize);
        }
    }
    keep_most_useful(&mut found, ROWS_MAX as usize);
    found.sort_unstable_by_key(|found| found.group);
    let host = |(place, name): &(String, String)| {
        let (place, name) = (Name::new(place).ok()?, Name::new(name).ok()?);
        Some(Host { place, name })
    };
    let trusted = hosts.iter();
    let trusted = trusted.filter_map(|(names, width)| Some((host(names)?, width.map(trust))));
    let mut head = input.own.state.empty();
    // The rows are aged up to now.
    head.age_s = 0;
    Ok(Merged {
        bytes: format::encode_rows(&head, found.iter().filter_map(Found::row)),
        rows: found.len() as u64,
        trust: trusted.collect(),
        refused,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_groups_known_ones_stay_first() {
        let group = |i: u128| Group::new(0xffff_0800_0000 + (i << 8), 0).unwrap();
        let found = |i: u128| {
            let said = Information::<1>::isotropic(0.1, 0.6 - 0.05 * i as f64);
            let row = row(group(i), &said, [].into_iter()).unwrap();
            Found::new(&row, said, i == 1)
        };
        let kept = |most| {
            let mut all: Vec<_> = (0..6).map(found).collect();
            keep_most_useful(&mut all, most);
            let mut kept: Vec<Group> = all.iter().map(|found| found.group).collect();
            kept.sort();
            kept
        };
        assert_eq!(kept(3), [group(1), group(4), group(5)]);
        assert_eq!(kept(6).len(), 6);
    }
}

//! Merging: from this host's own state and the heard ones to one foreign message per group, as bytes of a state.

use std::collections::BTreeMap;

use tcpilot_fleet::age::left;
use tcpilot_fleet::format::ROWS_MAX;
use tcpilot_fleet::translate::Translation;
use tcpilot_fleet::trust::trust;
use tcpilot_fleet::{Group, Groups, Message, Name, Place, Refusal, Row, State, format, merge};
use tcpilot_learner::gaussian::Information;
use tcpilot_learner::sharing::Bouts;

use crate::hear::{Heard, Member};
use crate::key::Host;
use crate::say::Own;

/// What the fleet says under one policy, and how far its hosts are trusted.
pub struct Merged {
    /// The foreign messages: a state in the reader's own terms.
    pub foreign: State,
    /// Trust in each merged host, 0 to 1; `None` if it is too far from its place to be heard.
    pub trust: BTreeMap<Host, Option<f64>>,
    /// Hosts that were not merged, by reason.
    pub refused: BTreeMap<Host, Refusal>,
}

/// Facts of a group that its merged row carries for people.
#[derive(Clone, Copy)]
struct Facts {
    paths: u64,
    age_quarters: u8,
}

/// What each host says of groups' losses, aged.
type Losses = BTreeMap<Group, Vec<(Host, Bouts)>>;

/// Merges the states heard under one policy, in the terms of the own state, which may have no rows.
///
/// # Errors
/// [`Refusal::Algorithms`] if the own state has none.
pub fn merged(
    reader: &Host,
    own: &Own,
    policy: &Name,
    members: &BTreeMap<Host, Member>,
    now_s: f64,
) -> Result<Merged, Refusal> {
    match own.state.algorithms().len() {
        2 => of::<1>(reader, own, policy, members, now_s),
        3 => of::<2>(reader, own, policy, members, now_s),
        4 => of::<3>(reader, own, policy, members, now_s),
        5 => of::<4>(reader, own, policy, members, now_s),
        6 => of::<5>(reader, own, policy, members, now_s),
        7 => of::<6>(reader, own, policy, members, now_s),
        8 => of::<7>(reader, own, policy, members, now_s),
        _ => Err(Refusal::Algorithms),
    }
}

fn of<const C: usize>(
    reader: &Host,
    own: &Own,
    policy: &Name,
    members: &BTreeMap<Host, Member>,
    now_s: f64,
) -> Result<Merged, Refusal> {
    let mut facts: BTreeMap<Group, Facts> = BTreeMap::new();
    let mut losses = Losses::new();
    let mut refused = BTreeMap::new();
    let mut places: BTreeMap<String, Place<C>> = BTreeMap::new();
    for (host, member) in members.iter().filter(|(_, member)| !member.are_two(now_s)) {
        let Some(heard) = member.policies.get(policy) else {
            continue;
        };
        match known::<C>(heard, &own.state, now_s, &mut facts) {
            Ok(groups) => {
                // Other routes may have other queues, and another default other losses.
                if host.place == reader.place {
                    add_losses(host, heard, &own.state, now_s, &mut losses)?;
                }
                let place = places.entry(host.place.to_string()).or_default();
                place.insert(host.name.to_string(), groups);
            }
            Err(refusal) => drop(refused.insert(host.clone(), refusal)),
        }
    }
    let mut own_groups = BTreeMap::new();
    add(&own.state, &own.state, own.age_s, &mut own_groups)?;
    let (place, name) = (reader.place.as_str(), reader.name.as_str());
    let all = merge((place, name), &own_groups, &places);
    let mut foreign = own.state.empty();
    // The rows are aged up to now.
    foreign.age_s = 0;
    for (group, said) in most_useful(&all.foreign, &own_groups, ROWS_MAX as usize) {
        // A sum of valid messages can be beyond what a message may say, for rounding. Then the group has none.
        let Ok(said) = Message::of(said) else {
            continue;
        };
        let facts = facts.get(group);
        let _ = foreign.push(Row {
            group: *group,
            paths_log2: facts.map_or(0, |facts| facts.paths.max(1).ilog2() as u8),
            doubt: 0,
            age_quarters: facts.map_or(0, |facts| facts.age_quarters),
            losses: merged_losses(&losses, group, &all.hosts),
            said,
        });
    }
    let host = |(place, name): &(String, String)| {
        let (place, name) = (Name::new(place).ok()?, Name::new(name).ok()?);
        Some(Host { place, name })
    };
    let widths = all.hosts.iter();
    let trusted = widths.filter_map(|(names, width)| Some((host(names)?, width.map(trust))));
    Ok(Merged {
        foreign,
        trust: trusted.collect(),
        refused,
    })
}

/// At most `most` groups in their order: first those that the reader knows, then those of which most is said.
fn most_useful<'a, const C: usize>(
    foreign: &'a Groups<C>,
    own: &Groups<C>,
    most: usize,
) -> Vec<(&'a Group, &'a Information<C>)> {
    let mut groups: Vec<_> = foreign.iter().collect();
    if groups.len() > most {
        let rank =
            |(group, said): &(&Group, &Information<C>)| (own.contains_key(*group), said.trace());
        groups.sort_by(|a, b| {
            let (a, b) = (rank(a), rank(b));
            b.0.cmp(&a.0).then(b.1.total_cmp(&a.1))
        });
        groups.truncate(most);
        groups.sort_by_key(|(group, _)| **group);
    }
    groups
}

/// A host's knowledge in the reader's terms, aged.
fn known<const C: usize>(
    heard: &Heard,
    reader: &State,
    now_s: f64,
    facts: &mut BTreeMap<Group, Facts>,
) -> Result<BTreeMap<Group, Information<C>>, Refusal> {
    let mut groups = BTreeMap::new();
    for shard in &heard.shards {
        let state = format::decode(&shard.bytes, u32::MAX)?;
        let age_s = shard.age_s(now_s);
        if add(&state, reader, age_s, &mut groups)? {
            for row in state.rows() {
                let quarters = (age_s / tcpilot_fleet::state::QUARTER_S) as u8;
                let age_quarters = row.age_quarters.saturating_add(quarters);
                let known = facts.entry(row.group).or_insert(Facts {
                    paths: 0,
                    age_quarters,
                });
                known.paths = known.paths.saturating_add(1 << row.paths_log2.min(32));
                known.age_quarters = known.age_quarters.min(age_quarters);
            }
        }
    }
    Ok(groups)
}

/// Adds a host's bouts of loss.
fn add_losses(
    host: &Host,
    heard: &Heard,
    reader: &State,
    now_s: f64,
    losses: &mut Losses,
) -> Result<(), Refusal> {
    for shard in &heard.shards {
        let state = format::decode(&shard.bytes, u32::MAX)?;
        let Some(left) = left(shard.age_s(now_s)) else {
            continue;
        };
        if state.algorithms().first() != reader.algorithms().first() {
            continue;
        }
        for row in state
            .rows()
            .iter()
            .filter(|row| row.losses != Default::default())
        {
            let said = losses.entry(row.group).or_default();
            said.push((host.clone(), row.losses.bouts(left)));
        }
    }
    Ok(())
}

/// The losses of a group, by the hosts that are heard.
fn merged_losses(
    losses: &Losses,
    group: &Group,
    widths: &BTreeMap<(String, String), Option<f64>>,
) -> tcpilot_fleet::Losses {
    let is_heard = |host: &Host| {
        let names = (host.place.to_string(), host.name.to_string());
        widths.get(&names).is_some_and(Option::is_some)
    };
    let said = losses.get(group).into_iter().flatten();
    let said = said.filter(|(host, _)| is_heard(host));
    let said: Vec<Bouts> = said.map(|(_, bouts)| *bouts).collect();
    tcpilot_fleet::losses::merged(&said)
}

/// Adds a state's rows, translated and aged. False if they are too old to count.
fn add<const C: usize>(
    state: &State,
    reader: &State,
    age_s: f64,
    groups: &mut BTreeMap<Group, Information<C>>,
) -> Result<bool, Refusal> {
    let translation = Translation::<C>::new(state, reader.reward, reader.algorithms())?;
    let Some(left) = left(age_s) else {
        return Ok(false);
    };
    for row in state.rows() {
        let mut known = translation.row(row);
        known.scale(left);
        groups.insert(row.group, known);
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_groups_known_ones_stay_first() {
        let group = |i: u128| Group::new(0xffff_0800_0000 + (i << 8), 0).unwrap();
        let said = |sd: f64| Information::<1>::isotropic(0.1, sd);
        let foreign: Groups<1> = (0..6)
            .map(|i| (group(i), said(0.6 - 0.05 * i as f64)))
            .collect();
        let own: Groups<1> = [(group(1), said(0.5))].into();
        let kept = |most| -> Vec<Group> {
            let kept = most_useful(&foreign, &own, most);
            kept.into_iter().map(|(group, _)| *group).collect()
        };
        assert_eq!(kept(3), [group(1), group(4), group(5)]);
        assert_eq!(kept(6).len(), 6);
    }
}

//! The merge rule: from the states of a fleet's hosts to one foreign message per group.
//!
//! The rule has these steps. Ageing and translation come before.
//!
//! 1. Clip each host's claims by its place's median ([`mod@crate::clip`]).
//! 2. Vote on each group, with a quorum ([`crate::vote`]).
//! 3. Estimate each host's width over all groups; a wide host is not heard ([`crate::trust`]).
//! 4. Merge each place ([`crate::place`]).
//! 5. Estimate each place's width, against what is known at home.
//! 6. Add the places' messages, each through its width; another place's is wider if it speaks of several groups of a site.
//!
//! The result goes to the learner as one more child of the group, behind the learner's own check of outliers.
//! In a place of fewer than three hosts there is no median: a fleet of two hosts trusts both.

use std::collections::{BTreeMap, HashMap};

use tcpilot_learner::gaussian::Information;
use tcpilot_learner::lineage::Key;

use crate::Group;
use crate::clip::{bounds, clipped};
use crate::place::merged;
use crate::trust::{GUESS_WEIGHT, HOME_GUESS, HOME_WEIGHT, PLACE_GUESS, PLACE_LEAST, Pairs};
use crate::vote::{Vote, Votes, is_known, known, votes};

/// Knowledge by group, in the reader's terms, aged.
pub type Groups<const C: usize> = BTreeMap<Group, Information<C>>;

/// The hosts of a place, by name.
pub type Place<const C: usize> = BTreeMap<String, Groups<C>>;

/// Bound of the design effect: sites with hundreds of groups would otherwise say nothing of each group.
pub const DESIGN_EFFECT_MAX: f64 = 16.0;

/// The result of a merge.
#[derive(Clone, Debug, PartialEq)]
pub struct Merged<const C: usize> {
    /// The foreign message of each group.
    pub foreign: Groups<C>,
    /// Width of each host in nats, by place and name; `None` if it is not heard.
    pub hosts: BTreeMap<(String, String), Option<f64>>,
    /// Width of each place in nats.
    pub places: BTreeMap<String, f64>,
}

/// The hosts of a place that know a group: clipped messages, with the hosts' numbers.
struct Heard<const C: usize> {
    said: Vec<(usize, Information<C>)>,
    votes: Votes<C>,
}

/// A place and its hosts' widths.
struct Merger<const C: usize> {
    groups: BTreeMap<Group, Heard<C>>,
    widths: Vec<Option<f64>>,
}

impl<const C: usize> Merger<C> {
    /// Clips, votes, and estimates the hosts' widths. Without a middle a host is judged by the reader's own knowledge, before
    /// its claims are clipped: nobody else can judge it. `reader` is the reader's number.
    fn new(hosts: &[&Groups<C>], reader: Option<usize>) -> Self {
        let mut all: BTreeMap<Group, Vec<(usize, Information<C>)>> = BTreeMap::new();
        for (number, groups) in hosts.iter().enumerate() {
            for (group, said) in groups.iter().filter(|(_, said)| is_known(said)) {
                all.entry(*group).or_default().push((number, *said));
            }
        }
        let mut pairs = vec![Pairs::default(); hosts.len()];
        let mut groups = BTreeMap::new();
        for (group, said) in all {
            let own = said.iter().find(|(number, _)| Some(*number) == reader);
            let own = own.map(|(_, own)| known(own));
            let judged = said.iter().filter(|(number, _)| Some(*number) != reader);
            let alone: Vec<_> = match own {
                Some(_) => judged
                    .map(|(number, said)| (*number, known(said)))
                    .collect(),
                None => Vec::new(),
            };
            let heard = heard(said);
            for ((number, _), of) in heard.said.iter().zip(&heard.votes.of) {
                let both = of.iter().zip(&heard.votes.centre);
                for (vote, centre) in both.filter_map(|(a, b)| a.filter(Vote::is_witness).zip(*b)) {
                    pairs[*number].add(vote, centre);
                }
            }
            let own = own.unwrap_or([None; C]);
            for (number, of) in alone {
                for c in (0..C).filter(|c| heard.votes.centre[*c].is_none()) {
                    if let Some((vote, own)) = of[c].zip(own[c]) {
                        pairs[number].add(vote, own);
                    }
                }
            }
            groups.insert(group, heard);
        }
        let widths = pairs.iter().map(Pairs::host).collect();
        Self { groups, widths }
    }

    /// The place's messages, without the host of this number.
    fn says(&self, except: Option<usize>) -> Groups<C> {
        let says = |(group, heard): (&Group, &Heard<C>)| {
            let hosts = heard.said.iter().enumerate();
            let hosts: Vec<_> = hosts
                .filter(|(_, (number, _))| Some(*number) != except)
                .filter_map(|(i, (number, said))| Some((said, i, self.widths[*number]?)))
                .collect();
            let said = merged(&hosts, &heard.votes);
            (said.trace() > 0.0).then_some((*group, said))
        };
        self.groups.iter().filter_map(says).collect()
    }
}

fn heard<const C: usize>(said: Vec<(usize, Information<C>)>) -> Heard<C> {
    let messages: Vec<Information<C>> = said.iter().map(|(_, message)| *message).collect();
    let most = bounds(&messages);
    let messages: Vec<_> = messages.iter().map(|said| clipped(said, &most)).collect();
    Heard {
        votes: votes(&messages),
        said: said
            .iter()
            .map(|(number, _)| *number)
            .zip(messages)
            .collect(),
    }
}

/// Differences between two sources' knowledge of the same groups.
fn differences<const C: usize>(a: &Groups<C>, b: &Groups<C>) -> Pairs {
    let mut pairs = Pairs::default();
    for (group, said) in a {
        let Some(other) = b.get(group) else { continue };
        let both = known(said).into_iter().zip(known(other));
        for (x, y) in both.filter_map(|(x, y)| x.zip(y)) {
            pairs.add(x, y);
        }
    }
    pairs
}

/// Sum of two sources' knowledge.
fn together<const C: usize>(a: &Groups<C>, b: &Groups<C>) -> Groups<C> {
    let mut sum = a.clone();
    for (group, said) in b {
        sum.entry(*group)
            .or_insert(Information::NONE)
            .add(said, 1.0);
    }
    sum
}

/// The width of each place: the own place's against the host's own knowledge, the others' against all knowledge at home.
fn place_widths<const C: usize>(
    home: &str,
    own: &Groups<C>,
    says: &BTreeMap<String, Groups<C>>,
) -> BTreeMap<String, f64> {
    let nothing = Groups::new();
    let at_home = says.get(home).unwrap_or(&nothing);
    let known_at_home = together(own, at_home);
    let pairs =
        |name: &String, groups: &Groups<C>| (name.clone(), differences(groups, &known_at_home));
    let others = says.iter().filter(|(name, _)| *name != home);
    let others: BTreeMap<String, Pairs> = others.map(|(name, says)| pairs(name, says)).collect();
    let mut all = Pairs::default();
    others.values().for_each(|pairs| all.join(pairs));
    let guess = all.width(PLACE_GUESS, GUESS_WEIGHT, PLACE_LEAST);
    let width =
        |(name, pairs): (String, Pairs)| (name, pairs.width(guess, GUESS_WEIGHT, PLACE_LEAST));
    let mut widths: BTreeMap<String, f64> = others.into_iter().map(width).collect();
    if says.contains_key(home) {
        let own = differences(at_home, own);
        widths.insert(
            home.to_owned(),
            own.width(HOME_GUESS, HOME_WEIGHT, PLACE_LEAST),
        );
    }
    widths
}

/// Number of groups by site.
fn site_sizes<const C: usize>(groups: &Groups<C>) -> HashMap<Key, u32> {
    let mut sizes = HashMap::new();
    for group in groups.keys() {
        *sizes.entry(group.site()).or_insert(0) += 1;
    }
    sizes
}

/// Factor on a variance if `count` groups of one site err alike (Kish, *Survey Sampling*, 1965, 5.4, with a
/// correlation of 1): together they say no more of the site than one group does. Another place takes other routes to all
/// of a site, and the learner adds the groups up as if their errors were independent.
fn design_effect(count: u32) -> f64 {
    f64::from(count).clamp(1.0, DESIGN_EFFECT_MAX)
}

/// Merges the states of a fleet for the host `(place, name)` with its own knowledge `own`. A state under the
/// host's own name is left out, so nothing that it said comes back.
#[must_use]
pub fn merge<const C: usize>(
    (home, name): (&str, &str),
    own: &Groups<C>,
    places: &BTreeMap<String, Place<C>>,
) -> Merged<C> {
    let (mut hosts, mut says) = (BTreeMap::new(), BTreeMap::new());
    for (place, members) in places {
        let is_home = place == home;
        let others = members
            .iter()
            .filter(|(member, _)| !(is_home && *member == name));
        let (names, mut all): (Vec<&String>, Vec<&Groups<C>>) = others.unzip();
        if names.is_empty() {
            continue;
        }
        // The reader votes at home, too, and is not merged.
        let own_number = is_home.then_some(all.len());
        all.extend(is_home.then_some(own));
        let merger = Merger::new(&all, own_number);
        for (member, width) in names.iter().zip(&merger.widths) {
            hosts.insert((place.clone(), (*member).clone()), *width);
        }
        says.insert(place.clone(), merger.says(own_number));
    }
    let widths = place_widths(home, own, &says);
    let mut foreign = Groups::new();
    for (place, groups) in &says {
        let width = widths.get(place).copied().unwrap_or(PLACE_GUESS);
        let per_site = if place == home {
            HashMap::new()
        } else {
            site_sizes(groups)
        };
        for (group, said) in groups {
            let count = per_site.get(&group.site()).copied().unwrap_or(1);
            if let Ok(told) = said.through(width * design_effect(count).sqrt()) {
                foreign
                    .entry(*group)
                    .or_insert(Information::NONE)
                    .add(&told, 1.0);
            }
        }
    }
    Merged {
        foreign,
        hosts,
        places: widths,
    }
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;

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
    pub hosts: HostWidths,
    /// Width of each place in nats.
    pub places: PlaceWidths,
}

/// The hosts of a place that know a group: clipped messages, with the hosts' numbers.
struct Heard<const C: usize> {
    said: Vec<(usize, Information<C>)>,
    votes: Votes<C>,
}

/// What the hosts of a place say of each group of a part.
struct Gathered<const C: usize>(BTreeMap<Group, Heard<C>>);

impl<const C: usize> Gathered<C> {
    /// Clips and votes; also each host's pairs. Without a middle a host is judged by the reader's own knowledge, before
    /// its claims are clipped: nobody else can judge it. `reader` is the reader's number.
    fn new(hosts: &[&Groups<C>], reader: Option<usize>) -> (Self, Vec<Pairs>) {
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
        (Self(groups), pairs)
    }

    /// The place's messages, without the hosts of some numbers.
    fn says(&self, widths: &[Option<f64>], is_out: impl Fn(usize) -> bool) -> Groups<C> {
        let says = |(group, heard): (&Group, &Heard<C>)| {
            let hosts = heard.said.iter().enumerate();
            let hosts: Vec<_> = hosts
                .filter(|(_, (number, _))| !is_out(*number))
                .filter_map(|(i, (number, said))| Some((said, i, widths[*number]?)))
                .collect();
            let said = merged(&hosts, &heard.votes);
            (said.trace() > 0.0).then_some((*group, said))
        };
        self.0.iter().filter_map(says).collect()
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

/// A part of what a reader has heard: the same shards of all hosts. All groups of a site are in one part.
#[derive(Clone, Debug, Default)]
pub struct Part<const C: usize> {
    /// The reader's own knowledge.
    pub own: Groups<C>,
    /// The hosts, by place. A host that says nothing here has no groups.
    pub places: BTreeMap<String, Place<C>>,
    /// Places whose hosts a merger has merged already ([`says_without`]).
    pub merged: BTreeMap<String, Groups<C>>,
}

/// Widths of hosts in nats, by place and name; `None` if a host is not heard.
pub type HostWidths = BTreeMap<(String, String), Option<f64>>;

/// Widths of places in nats.
pub type PlaceWidths = BTreeMap<String, f64>;

/// A host that merges for itself. It goes over all parts three times: for its hosts' widths ([`HostPairs`]), for its places'
/// ([`PlacePairs`]), and for the result ([`Reader::foreign`]). So it never holds more than one part.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    /// Its place.
    pub home: &'a str,
    /// Its name.
    pub name: &'a str,
}

/// The reader's other hosts of a place, and its own number among them if it votes there.
struct Voters<'a, const C: usize> {
    names: Vec<&'a String>,
    groups: Vec<&'a Groups<C>>,
    reader: Option<usize>,
}

impl Reader<'_> {
    /// A state under the reader's own name is left out, so nothing that it said comes back.
    fn voters<'a, const C: usize>(
        &self,
        place: &str,
        members: &'a Place<C>,
        own: &'a Groups<C>,
    ) -> Voters<'a, C> {
        let is_home = place == self.home;
        let others = members
            .iter()
            .filter(|(member, _)| !(is_home && *member == self.name));
        let (names, mut groups): (Vec<&String>, Vec<&Groups<C>>) = others.unzip();
        // The reader votes at home, too, and is not merged.
        let reader = is_home.then_some(groups.len());
        groups.extend(is_home.then_some(own));
        Voters {
            names,
            groups,
            reader,
        }
    }

    /// What each place says of a part's groups.
    fn says<const C: usize>(
        &self,
        part: &Part<C>,
        widths: &HostWidths,
    ) -> BTreeMap<String, Groups<C>> {
        let says = |(place, members): (&String, &Place<C>)| {
            let voters = self.voters(place, members, &part.own);
            let width = |name: &&String| {
                let key = (place.clone(), (*name).clone());
                widths.get(&key).copied().flatten()
            };
            let mut of: Vec<Option<f64>> = voters.names.iter().map(width).collect();
            of.extend(voters.reader.map(|_| None));
            let (gathered, _) = Gathered::new(&voters.groups, voters.reader);
            let says = gathered.says(&of, |_| false);
            (!voters.names.is_empty()).then(|| (place.clone(), says))
        };
        let mut all: BTreeMap<String, Groups<C>> = part.merged.clone();
        all.extend(part.places.iter().filter_map(says));
        all
    }

    /// The foreign messages of a part.
    #[must_use]
    pub fn foreign<const C: usize>(
        &self,
        part: &Part<C>,
        hosts: &HostWidths,
        places: &PlaceWidths,
    ) -> Groups<C> {
        let mut foreign = Groups::new();
        for (place, groups) in &self.says(part, hosts) {
            let width = places.get(place).copied().unwrap_or(PLACE_GUESS);
            let per_site = if place == self.home {
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
        foreign
    }
}

/// The first time over all parts: how far each host is from its place.
#[derive(Clone, Debug, Default)]
pub struct HostPairs(BTreeMap<(String, String), Pairs>);

impl HostPairs {
    /// Adds a part as its reader sees it.
    pub fn add<const C: usize>(&mut self, reader: &Reader, part: &Part<C>) {
        for (place, members) in &part.places {
            let voters = reader.voters(place, members, &part.own);
            self.add_place(place, &voters.names, &voters.groups, voters.reader);
        }
    }

    /// Adds a part of one place as a merger sees it: without own knowledge.
    pub fn add_members<const C: usize>(&mut self, place: &str, members: &Place<C>) {
        let (names, groups): (Vec<&String>, Vec<&Groups<C>>) = members.iter().unzip();
        self.add_place(place, &names, &groups, None);
    }

    fn add_place<const C: usize>(
        &mut self,
        place: &str,
        names: &[&String],
        groups: &[&Groups<C>],
        reader: Option<usize>,
    ) {
        if names.is_empty() {
            return;
        }
        let (_, pairs) = Gathered::new(groups, reader);
        for (name, pairs) in names.iter().zip(&pairs) {
            let key = (place.to_owned(), (*name).clone());
            self.0.entry(key).or_default().join(pairs);
        }
    }

    /// The widths.
    #[must_use]
    pub fn widths(&self) -> HostWidths {
        let hosts = self.0.iter();
        hosts.map(|(key, of)| (key.clone(), of.host())).collect()
    }
}

/// The second time over all parts: the own place's distance to the host's own knowledge, the others' to all knowledge at home.
#[derive(Clone, Debug, Default)]
pub struct PlacePairs(BTreeMap<String, Pairs>);

impl PlacePairs {
    /// Adds a part.
    pub fn add<const C: usize>(&mut self, reader: &Reader, part: &Part<C>, widths: &HostWidths) {
        let says = reader.says(part, widths);
        let nothing = Groups::new();
        let at_home = says.get(reader.home).unwrap_or(&nothing);
        let known_at_home = together(&part.own, at_home);
        for (place, groups) in &says {
            let of = if place == reader.home {
                differences(groups, &part.own)
            } else {
                differences(groups, &known_at_home)
            };
            self.0.entry(place.clone()).or_default().join(&of);
        }
    }

    /// The widths.
    #[must_use]
    pub fn widths(&self, reader: &Reader) -> PlaceWidths {
        let others = || self.0.iter().filter(|(name, _)| *name != reader.home);
        let mut all = Pairs::default();
        others().for_each(|(_, pairs)| all.join(pairs));
        let guess = all.width(PLACE_GUESS, GUESS_WEIGHT, PLACE_LEAST);
        let width = |pairs: &Pairs| pairs.width(guess, GUESS_WEIGHT, PLACE_LEAST);
        let mut widths: PlaceWidths = others()
            .map(|(name, pairs)| (name.clone(), width(pairs)))
            .collect();
        if let Some(own) = self.0.get(reader.home) {
            let width = own.width(HOME_GUESS, HOME_WEIGHT, PLACE_LEAST);
            widths.insert(reader.home.to_owned(), width);
        }
        widths
    }
}

/// What a merger says of a part of its place, once for each set of hosts to be left out. The hosts that are left out vote
/// with the others, and nothing that they say is in the result.
#[must_use]
pub fn says_without<const C: usize>(
    place: &str,
    members: &Place<C>,
    widths: &HostWidths,
    sets: u8,
    set_of: impl Fn(&str) -> u8,
) -> Vec<Groups<C>> {
    let (names, groups): (Vec<&String>, Vec<&Groups<C>>) = members.iter().unzip();
    let width = |name: &&String| {
        let key = (place.to_owned(), (*name).clone());
        widths.get(&key).copied().flatten()
    };
    let widths: Vec<Option<f64>> = names.iter().map(width).collect();
    let set: Vec<u8> = names.iter().map(|name| set_of(name)).collect();
    let (gathered, _) = Gathered::new(&groups, None);
    let without = |out: u8| gathered.says(&widths, |number| set[number] == out);
    (0..sets).map(without).collect()
}

/// Merges the states of a fleet for the host `(place, name)` with its own knowledge `own`, all in one part.
#[must_use]
pub fn merge<const C: usize>(
    (home, name): (&str, &str),
    own: &Groups<C>,
    places: &BTreeMap<String, Place<C>>,
) -> Merged<C> {
    let reader = Reader { home, name };
    let part = Part {
        own: own.clone(),
        places: places.clone(),
        merged: BTreeMap::new(),
    };
    let mut pairs = HostPairs::default();
    pairs.add(&reader, &part);
    let hosts = pairs.widths();
    let mut pairs = PlacePairs::default();
    pairs.add(&reader, &part, &hosts);
    let places = pairs.widths(&reader);
    Merged {
        foreign: reader.foreign(&part, &hosts, &places),
        hosts,
        places,
    }
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;

//! A merger: reads what all hosts of its place say, and says what the place knows, so that no host has to read them all.
//!
//! *No host hears itself.* A merger says the place's knowledge [`SETS`] times, each time without the hosts of one set. A host
//! belongs to a set by a hash of its name, and reads the state without its own set. So nothing that it said comes back, and no
//! reader has to know how much its own words counted. It misses a quarter of the hosts.
//!
//! *Two mergers say the same bytes.* Nothing here depends on a clock or on the past of the process: rows are aged up to the
//! engine's time of the newest shard that they come from, and a shard is put if it differs from the one in the engine as much as
//! a host's would have to ([`is_changed`]). So a second merger finds nothing to put, and no election is needed.
//!
//! In a merged state `boot` is the engine's time up to which the rows are aged, and `sequence` is a check sum of the rest. A
//! shard that another merger has replaced meanwhile does not fit the manifest; readers wait for the next one.

use std::collections::BTreeMap;

use tcpilot_fleet::manifest::{self, Manifest, Mark, Policy};
use tcpilot_fleet::merge::says_without;
use tcpilot_fleet::message::numbers;
use tcpilot_fleet::shard::{SHARDS, SHARDS_MAX, part_of, shard_of};
use tcpilot_fleet::translate::Translation;
use tcpilot_fleet::{
    Group, HostPairs, HostWidths, Name, Place, Refusal, State, format, trust::trust,
};
use tcpilot_random::mix;

use crate::changed::is_changed;
use crate::clock::EngineClock;
use crate::hear::{Heard, Member, Shard};
use crate::key::{Host, Key, Writer};
use crate::merging::{Facts, groups_of, row};
use crate::store::{Store, StoreError, VALUE_BYTES_MAX};

/// Sets of a place's hosts.
pub const SETS: u8 = 4;

/// Rows of what mergers say of a place under one policy.
pub const ROWS_MAX: u32 = 1 << 20;

/// Mergers that have said nothing for so long have stopped, in seconds: six of their rounds. Then hosts read each other.
pub const OLDEST_S: f64 = 3600.0;

/// Bytes of a row without its numbers, at most, and of a state without rows, at most (eight names).
const ROW_BYTES: usize = 1 + 6 + 2 + 3 + 2;
const HEAD_BYTES: usize = 1 + 3 * 8 + 4 + 1 + 8 * 21 + 4 + 8;

/// The set of a host.
#[must_use]
pub fn set_of(host: &str) -> u8 {
    (mix(format::check_sum(host.as_bytes())) % u64::from(SETS)) as u8
}

/// The engine's time up to which a merged state's rows are aged, in seconds since 1970.
#[must_use]
pub fn as_of_s(state: &State) -> f64 {
    state.boot as f64
}

/// Figures of merging.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// Values that the engine has acknowledged.
    pub puts: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What mergers say under one policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Said {
    /// Hosts in it.
    pub hosts: u64,
    /// Rows known to all hosts together.
    pub rows: u64,
    /// Trust in each host, 0 to 1; `None` if it is too far from its place to be heard.
    pub trust: BTreeMap<Host, Option<f64>>,
    /// Hosts that were not merged, by reason.
    pub refused: BTreeMap<Host, Refusal>,
}

/// Says what a place's hosts know: puts what has changed, and the manifests after it.
///
/// # Errors
/// The engine's. What it has acknowledged is not put again.
pub async fn say(
    store: &impl Store,
    clock: &mut EngineClock,
    place: &Name,
    members: &BTreeMap<Host, Member>,
    now_s: f64,
    counts: &mut Counts,
) -> Result<BTreeMap<Name, Said>, StoreError> {
    let present = || members.iter().filter(|(_, member)| !member.are_two(now_s));
    let mut policies: Vec<&Name> = present().flat_map(|(_, of)| of.policies.keys()).collect();
    policies.sort();
    policies.dedup();
    policies.truncate(manifest::POLICIES_MAX);
    let mut manifests: Vec<Vec<Policy>> = vec![Vec::new(); SETS.into()];
    let mut all = BTreeMap::new();
    for policy in policies {
        let hosts = present().filter_map(|(host, of)| Some((host, of.policies.get(policy)?)));
        let hosts: Vec<(&Host, &Heard)> = hosts.collect();
        let Some(head) = terms(&hosts) else { continue };
        let mut saying = Saying {
            store,
            place,
            policy,
            head,
            counts,
        };
        let (said, marks) = saying.say_policy(&hosts).await?;
        for (of_set, (rows, marks)) in manifests.iter_mut().zip(marks) {
            of_set.push(Policy {
                name: policy.clone(),
                rows,
                marks,
            });
        }
        all.insert(policy.clone(), said);
    }
    for (set, policies) in (0u8..).zip(manifests) {
        let key = Key::manifest(Writer::Mergers(place.clone(), set));
        let manifest = Manifest {
            boot: 0,
            sequence: 0,
            software: env!("CARGO_PKG_VERSION").to_owned(),
            policies,
        };
        let bytes = manifest::encode(&manifest);
        crate::say::put_manifest(store, clock, &key, &bytes).await?;
        counts.puts += 1;
        counts.bytes += bytes.len() as u64;
    }
    Ok(all)
}

/// The terms of a merged state: those of most hosts. Readers translate them.
fn terms(hosts: &[(&Host, &Heard)]) -> Option<State> {
    let mut counts: BTreeMap<(Vec<String>, u64), usize> = BTreeMap::new();
    for (_, heard) in hosts {
        let first = heard.shards.first();
        if let Some(head) = first.and_then(|shard| format::head(&shard.bytes).ok()) {
            let terms = (head.algorithms().to_vec(), head.reward);
            *counts.entry(terms).or_default() += 1;
        }
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    let ((algorithms, reward), _) = most?;
    State::new(reward, algorithms).ok()
}

/// Rows and shards of one set's manifest.
type Marks = Vec<(u32, Vec<Mark>)>;

/// The saying under one policy.
struct Saying<'a, S> {
    store: &'a S,
    place: &'a Name,
    policy: &'a Name,
    head: State,
    counts: &'a mut Counts,
}

impl<S: Store> Saying<'_, S> {
    async fn say_policy(&mut self, hosts: &[(&Host, &Heard)]) -> Result<(Said, Marks), StoreError> {
        match self.head.algorithms().len() {
            2 => self.say_all::<1>(hosts).await,
            3 => self.say_all::<2>(hosts).await,
            4 => self.say_all::<3>(hosts).await,
            5 => self.say_all::<4>(hosts).await,
            6 => self.say_all::<5>(hosts).await,
            7 => self.say_all::<6>(hosts).await,
            _ => self.say_all::<7>(hosts).await,
        }
    }

    async fn say_all<const C: usize>(
        &mut self,
        hosts: &[(&Host, &Heard)],
    ) -> Result<(Said, Marks), StoreError> {
        let mut refused = BTreeMap::new();
        let mut heard = Vec::new();
        for (host, of) in hosts {
            match self.is_translatable::<C>(of) {
                Ok(()) => heard.push((*host, *of)),
                Err(refusal) => drop(refused.insert((*host).clone(), refusal)),
            }
        }
        let mut pairs = HostPairs::default();
        let mut sizes = vec![0usize; SHARDS_MAX.into()];
        for number in 0..SHARDS {
            let Part { members, .. } = self.part::<C>(&heard, number, &HostWidths::new());
            pairs.add_members(self.place.as_str(), &members);
            let mut groups: Vec<&Group> = members.values().flat_map(BTreeMap::keys).collect();
            groups.sort_unstable();
            groups.dedup();
            for group in groups {
                sizes[usize::from(shard_of(group, SHARDS_MAX))] += 1;
            }
        }
        let widths = pairs.widths();
        let count = shards_for::<C>(&sizes);
        let mut marks: Marks = vec![(0, vec![Mark::default(); count.into()]); SETS.into()];
        for number in 0..SHARDS {
            let part = self.part::<C>(&heard, number, &widths);
            let place = self.place.as_str();
            let says = says_without(place, &part.members, &widths, SETS, set_of);
            for (set, says) in (0u8..).zip(says) {
                let mut rows = Vec::new();
                for (group, said) in &says {
                    let facts = part.facts.get(group).into_iter().flatten();
                    rows.extend(row(*group, said, facts.filter(|fact| fact.set != set)));
                }
                let (all, of_set) = &mut marks[usize::from(set)];
                *all += rows.len() as u32;
                for shard in (number..count).step_by(SHARDS.into()) {
                    let of_shard = rows
                        .iter()
                        .filter(|row| shard_of(&row.group, count) == shard);
                    let new = self.shard(part.as_of_s, of_shard);
                    of_set[usize::from(shard)] = self.put(set, shard, &new).await?;
                }
            }
        }
        let trust = heard.iter().map(|(host, _)| {
            let key = (host.place.to_string(), host.name.to_string());
            (
                (*host).clone(),
                widths.get(&key).copied().flatten().map(trust),
            )
        });
        let said = Said {
            hosts: heard.len() as u64,
            rows: sizes.iter().sum::<usize>() as u64,
            trust: trust.collect(),
            refused,
        };
        Ok((said, marks))
    }

    fn is_translatable<const C: usize>(&self, heard: &Heard) -> Result<(), Refusal> {
        heard.shards.iter().try_for_each(|shard| {
            let head = format::head(&shard.bytes)?;
            Translation::<C>::new(&head, self.head.reward, self.head.algorithms()).map(drop)
        })
    }

    /// A part of what the hosts say, aged up to its newest shard; the facts are of those that are heard.
    fn part<const C: usize>(
        &self,
        heard: &[(&Host, &Heard)],
        number: u16,
        widths: &HostWidths,
    ) -> Part<C> {
        let shards = heard.iter().flat_map(|(_, of)| &of.shards);
        let shards = shards.filter(|shard| part_of(shard.number) == number);
        let newest_s = shards.map(|shard| shard.as_of_s).fold(0.0, f64::max);
        // Whole seconds, as they travel.
        let as_of_s = newest_s.ceil();
        let age_s = |shard: &Shard| (as_of_s - shard.as_of_s).max(0.0);
        let (mut members, mut facts) = (Place::new(), Facts::new());
        for (host, of) in heard {
            let name = host.name.to_string();
            let key = (host.place.to_string(), name.clone());
            let is_heard = widths.get(&key).is_some_and(Option::is_some);
            let set = set_of(&name);
            let groups = groups_of(of, number, &self.head, age_s, |row, mut fact| {
                fact.set = set;
                if is_heard {
                    facts.entry(row.group).or_default().push(fact);
                }
            });
            // It was found translatable.
            members.insert(name, groups.unwrap_or_default());
        }
        Part {
            members,
            facts,
            as_of_s,
        }
    }

    /// A shard of these rows.
    fn shard<'r>(&self, as_of_s: f64, rows: impl Iterator<Item = &'r tcpilot_fleet::Row>) -> State {
        let mut state = self.head.empty();
        state.boot = as_of_s as u64;
        for row in rows {
            // They come in order, and are of these algorithms.
            let _ = state.push(*row);
        }
        state.sequence = format::check_sum(&format::encode(&state));
        state
    }

    /// Puts a shard if it says something else than the one in the engine, and returns the mark of the one that is there then.
    async fn put(&mut self, set: u8, number: u16, new: &State) -> Result<Mark, StoreError> {
        let writer = Writer::Mergers(self.place.clone(), set);
        let key = Key::shard(&writer, self.policy, number);
        let present = self.store.get(&key).await?;
        let mark = |state: &State, bytes: &[u8]| Mark {
            sequence: state.sequence,
            bytes: if state.rows().is_empty() {
                0
            } else {
                bytes.len() as u32
            },
        };
        if let Some(present) = present {
            if let Ok(state) = format::decode(&present.value, ROWS_MAX) {
                let age_s = as_of_s(new) - as_of_s(&state);
                if !is_changed(Some(&state), new, age_s) {
                    return Ok(mark(&state, &present.value));
                }
            }
        } else if new.rows().is_empty() {
            return Ok(Mark::default());
        }
        let bytes = format::encode(new);
        self.store.put(&key, &bytes).await?;
        self.counts.puts += 1;
        self.counts.bytes += bytes.len() as u64;
        Ok(mark(new, &bytes))
    }
}

/// A part of what the hosts of a place say.
struct Part<const C: usize> {
    members: Place<C>,
    facts: Facts,
    as_of_s: f64,
}

/// As few shards as fit the engine's values, from the number of rows in each of [`SHARDS_MAX`].
fn shards_for<const C: usize>(sizes: &[usize]) -> u16 {
    let row_bytes = ROW_BYTES + 4 * numbers(C);
    let rows_max = (VALUE_BYTES_MAX - HEAD_BYTES) / row_bytes;
    let mut count = SHARDS;
    while count < SHARDS_MAX {
        let rows = |shard| {
            sizes
                .iter()
                .skip(shard)
                .step_by(count.into())
                .sum::<usize>()
        };
        if (0..count.into()).all(|shard| rows(shard) <= rows_max) {
            break;
        }
        count *= 2;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_as_few_as_fit() {
        let mut sizes = vec![1; SHARDS_MAX.into()];
        assert_eq!(shards_for::<1>(&sizes), SHARDS);
        sizes[3] = 3000;
        sizes[3 + 64] = 3000;
        assert_eq!(shards_for::<1>(&sizes), 2 * SHARDS);
        assert_eq!(shards_for::<1>(&vec![95; SHARDS_MAX.into()]), 2 * SHARDS);
    }

    #[test]
    fn hosts_spread_over_the_sets() {
        let mut counts = [0; SETS as usize];
        (0..1000).for_each(|i| counts[usize::from(set_of(&format!("web-{i}")))] += 1);
        assert!(
            counts.iter().all(|count| (200..300).contains(count)),
            "{counts:?}"
        );
    }
}

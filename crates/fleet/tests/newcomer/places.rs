//! What a newcomer gains by the merged states of other places, and what a lying place costs it. Nothing of this is built:
//! decision 36 has the result.
//!
//! Hosts at home have met every second site; each of three other places has met all. A share of the sites is alike at all
//! places: the way of their packets ends in the same bottleneck. The other sites have effects of each place's own.

use std::collections::BTreeMap;

use tcpilot_fleet::merge::says_without;
use tcpilot_fleet::{Groups, HostPairs, Part, Place, PlacePairs, Reader};

use crate::fleet::{HOUR_S, Lie, NEWCOMER, REFRESH_S, lie, old, peer_of_sites, travelled};
use crate::host::Host;
use crate::world::{CONTRASTS, GROUPS, SITES, World, lineage};

const PLACES: u64 = 3;

/// Hosts at each other place, and the most at home.
const HOSTS: usize = 10;

const CONNECTIONS: usize = 10;

fn is_known_at_home(site: usize) -> bool {
    site % 2 == 0
}

/// How a newcomer counts other places.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rule {
    /// Each through its width, as the merge rule has it for places.
    ByPlace,
    /// As if the places were hosts of one further place: clipped, voting, and judged like hosts.
    AsHosts,
}

/// Who speaks for the other places.
#[derive(Clone, Copy, Debug)]
enum Others {
    Nobody,
    Honest,
    /// One place lies about all groups.
    LyingPlace(Lie),
    /// So many places say the truth about sites that are known at home, and the opposite of it about the others.
    SlyPlaces(usize),
    /// Three hosts of each place lie.
    LyingHosts(Lie),
}

struct Places {
    seed: u64,
    home: World,
    at_home: Vec<Groups<CONTRASTS>>,
    elsewhere: Vec<Vec<Groups<CONTRASTS>>>,
}

/// Mean regret of a newcomer: in sites known at home and in the others, over one connection to each prefix and over all.
type Regrets = [[f64; 2]; 2];

impl Places {
    fn new(seed: u64, alike: f64) -> Self {
        let home = World::new(seed, 0);
        let at_home = (0..HOSTS as u64).map(|i| peer_of_sites(seed, i, &home, is_known_at_home));
        let at_home = at_home.collect();
        let elsewhere = (1..=PLACES).map(|place| {
            let world = home.partly_alike(&World::new(seed, place), alike);
            let peers = (0..HOSTS as u64).map(|i| place * 200 + i);
            let said = peers.map(|number| peer_of_sites(seed, number, &world, |_| true));
            said.collect()
        });
        Self {
            seed,
            elsewhere: elsewhere.collect(),
            home,
            at_home,
        }
    }

    /// What the mergers of the other places say.
    fn merged(&self, others: Others) -> BTreeMap<String, Groups<CONTRASTS>> {
        let mut all = BTreeMap::new();
        if matches!(others, Others::Nobody) {
            return all;
        }
        for (number, said) in self.elsewhere.iter().enumerate() {
            let place = format!("p{}", number + 1);
            let members: Place<CONTRASTS> = said
                .iter()
                .enumerate()
                .map(|(i, said)| match others {
                    Others::LyingHosts(kind) if i < 3 => lie(&self.home, said, kind),
                    _ => said.clone(),
                })
                .enumerate()
                .map(|(i, said)| (format!("h{i:03}"), said))
                .collect();
            let mut pairs = HostPairs::default();
            pairs.add_members(&place, &members);
            // A reader elsewhere is in no set.
            let says = says_without(&place, &members, &pairs.widths(), 1, |_| 1);
            let honest = travelled(&says[0]);
            let said = match others {
                Others::LyingPlace(kind) if number == 0 => lie(&self.home, &honest, kind),
                Others::SlyPlaces(places) if number < places => self.sly(&honest),
                _ => honest,
            };
            all.insert(place, said);
        }
        all
    }

    fn sly(&self, honest: &Groups<CONTRASTS>) -> Groups<CONTRASTS> {
        let mut said = lie(&self.home, honest, Lie::Opposite);
        for i in (0..GROUPS).filter(|i| is_known_at_home(i % SITES)) {
            let group = tcpilot_fleet::Group::of(&lineage(i, 0).group).unwrap();
            match honest.get(&group) {
                Some(truth) => said.insert(group, *truth),
                None => said.remove(&group),
            };
        }
        said
    }

    /// A newcomer that hears hosts at home itself, and mergers of the other places.
    fn newcomer(&self, hosts: usize, others: Others, rule: Rule) -> Regrets {
        let merged = self.merged(others);
        let mut newcomer = Host::new(self.seed, NEWCOMER);
        let mut regrets = Regrets::default();
        let mut heard_s = f64::MIN;
        for round in 0..CONNECTIONS {
            for i in 0..GROUPS {
                let part = (round * GROUPS + i) as f64 / (CONNECTIONS * GROUPS) as f64;
                let now_s = HOUR_S * (1.0 + part);
                if now_s - heard_s >= REFRESH_S {
                    heard_s = now_s;
                    let own = newcomer.knowledge(now_s);
                    let heard = self.heard((hosts, rule), &merged, own, now_s - HOUR_S);
                    newcomer.hear(&heard, now_s);
                }
                let cost = newcomer.connect(&self.home, i, now_s);
                let is_known = usize::from(!is_known_at_home(i % SITES));
                if round == 0 {
                    regrets[is_known][0] += cost.regret / (GROUPS / 2) as f64;
                }
                regrets[is_known][1] += cost.regret / (CONNECTIONS * GROUPS / 2) as f64;
            }
        }
        regrets
    }

    fn heard(
        &self,
        (hosts, rule): (usize, Rule),
        merged: &BTreeMap<String, Groups<CONTRASTS>>,
        own: Groups<CONTRASTS>,
        age_s: f64,
    ) -> Groups<CONTRASTS> {
        let members = self.at_home.iter().take(hosts).enumerate();
        let members: Place<CONTRASTS> = members
            .map(|(i, said)| (format!("h{i:03}"), old(said, age_s)))
            .collect();
        let others: Place<CONTRASTS> = merged
            .iter()
            .map(|(place, said)| (place.clone(), old(said, age_s)))
            .collect();
        let (voting, merged) = match rule {
            Rule::ByPlace => (Place::new(), others),
            Rule::AsHosts => (others, Place::new()),
        };
        let part = Part {
            own,
            places: BTreeMap::from([("p0".to_owned(), members), ("others".to_owned(), voting)]),
            merged,
        };
        let reader = Reader {
            home: "p0",
            name: "newcomer",
        };
        let mut pairs = HostPairs::default();
        pairs.add(&reader, &part);
        let widths = pairs.widths();
        let mut pairs = PlacePairs::default();
        pairs.add(&reader, &part, &widths);
        reader.foreign(&part, &widths, &pairs.widths(&reader))
    }
}

fn print(name: &str, of: &[Regrets]) {
    let mean = |known: usize, k: usize| {
        of.iter().map(|regrets| regrets[known][k]).sum::<f64>() / of.len() as f64
    };
    println!(
        "{name:58} known K=1 {:.3} K=10 {:.3}  unknown K=1 {:.3} K=10 {:.3}",
        mean(0, 0),
        mean(0, 1),
        mean(1, 0),
        mean(1, 1)
    );
}

/// `cargo test -p tcpilot-fleet --test newcomer -- --ignored --nocapture other_places`
#[test]
#[ignore = "a measurement of minutes, for a decision"]
fn other_places_gain_and_harm() {
    for alike in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let seeds = crate::seeds();
        let places: Vec<Places> = seeds.iter().map(|seed| Places::new(*seed, alike)).collect();
        let show = |hosts: usize, others: Others, rule: Rule| {
            let of = places.iter().map(|of| of.newcomer(hosts, others, rule));
            let name = format!("{alike} alike, {hosts} at home, {others:?}, {rule:?}");
            print(&name, &of.collect::<Vec<_>>());
        };
        for hosts in [0, 3, HOSTS] {
            show(hosts, Others::Nobody, Rule::ByPlace);
            show(hosts, Others::Honest, Rule::ByPlace);
            show(hosts, Others::Honest, Rule::AsHosts);
        }
        if alike != 0.5 {
            continue;
        }
        for (hosts, rule) in [0, HOSTS]
            .into_iter()
            .flat_map(|hosts| [(hosts, Rule::ByPlace), (hosts, Rule::AsHosts)])
        {
            for kind in [Lie::Extreme, Lie::Moderate, Lie::Opposite] {
                show(hosts, Others::LyingPlace(kind), rule);
                show(hosts, Others::LyingHosts(kind), rule);
            }
            show(hosts, Others::SlyPlaces(1), rule);
            show(hosts, Others::SlyPlaces(3), rule);
        }
    }
}

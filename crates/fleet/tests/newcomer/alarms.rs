//! Whether alarms by three hosts would have a fleet find a change sooner, and what liars gain by them. Nothing of this is
//! built: decision 36 has the result.
//!
//! Ten hosts of a place have learned for an hour, and hear each other every ten minutes. Then every second site changes for
//! all of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tcpilot_fleet::{Group, Groups, Place, merge};
use tcpilot_learner::lineage::Key;

use crate::fleet::{HOUR_S, Lie, MET, REFRESH_S, lie, travelled};
use crate::host::Host;
use crate::world::{CONTRASTS, GROUPS, SITES, World, lineage};

const HOSTS: usize = 10;

/// Part of its weight that a state keeps which is older than an alarm.
const KEPT: f64 = 0.03;

/// An alarm counts for so long, unless its group was doubted again.
const ALARM_S: f64 = 3600.0;

const CHANGE_S: f64 = HOUR_S + 300.0;

/// Each bin of the result.
const BIN_S: f64 = 600.0;
const BINS: usize = 12;

/// Newcomers come so many bins after the change.
const COMES: [usize; 4] = [0, 1, 3, 6];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    /// Nobody hears anybody.
    Alone,
    /// As it is built.
    Fleet,
    /// A host counts little if so many others have doubted the group within so many seconds, and it has not; groups of a
    /// site count together or not.
    Alarms(usize, f64, bool),
    /// Nobody says anything about a changed group that is older than the change: the bound of what alarms may gain by what
    /// others say.
    NothingOldIsSaid,
    /// Besides, each host forgets its own old knowledge at once: the bound of all alarms.
    AllOldIsForgotten,
}

fn is_changed(site: usize) -> bool {
    site % 2 == 0
}

fn group_of(i: usize) -> Group {
    Group::of(&lineage(i, 0).group).unwrap()
}

/// A host, and a learner of the same connections without those of before the change.
struct Member {
    host: Host,
    without_old: Host,
    doubts: BTreeMap<Group, u16>,
    raised_s: BTreeMap<Group, f64>,
}

impl Member {
    fn new(seed: u64, number: u64, world: &World) -> Self {
        let mut it = Self {
            host: Host::new(seed, number),
            without_old: Host::new(seed, number),
            doubts: BTreeMap::new(),
            raised_s: BTreeMap::new(),
        };
        for round in 0..MET {
            for i in 0..GROUPS {
                let part = (round * GROUPS + i) as f64 / (MET * GROUPS) as f64;
                it.connect(world, i, HOUR_S * part);
            }
        }
        it
    }

    fn connect(&mut self, world: &World, i: usize, at_s: f64) -> f64 {
        let (cost, seen) = self.host.meet(world, i, at_s);
        self.host.learn(&seen);
        if at_s >= CHANGE_S || !is_changed(i % SITES) {
            self.without_old.learn(&seen);
        }
        cost.regret
    }

    fn note_doubts(&mut self, now_s: f64) {
        let doubts = self.host.doubts(now_s);
        for (group, doubt) in &doubts {
            if self.doubts.get(group).copied().unwrap_or(0) != *doubt {
                self.raised_s.insert(*group, now_s);
            }
        }
        self.doubts = doubts;
    }
}

struct Fleet {
    seed: u64,
    mode: Mode,
    old: World,
    new: World,
    members: Vec<Member>,
    alarms_s: BTreeMap<Group, f64>,
    /// So many members say that they doubt everything, always; and what they say.
    liars: (usize, Option<Lie>),
}

/// Mean regret in changed sites, of members by bin, and of newcomers; that of newcomers in unchanged sites; share of the
/// changed groups with an alarm within an hour, and of the unchanged ones; mean number of members that have doubted a group since
/// the change.
struct Seen {
    members: [f64; BINS],
    newcomers: [f64; COMES.len()],
    unchanged: f64,
    alarms: [f64; 2],
    doubters: [f64; 2],
}

impl Fleet {
    fn new(seed: u64, mode: Mode, liars: (usize, Option<Lie>)) -> Self {
        let old = World::new(seed, 0);
        let members = (0..HOSTS as u64).map(|number| Member::new(seed, number, &old));
        Self {
            seed,
            mode,
            members: members.collect(),
            new: old.changed(is_changed),
            old,
            alarms_s: BTreeMap::new(),
            liars,
        }
    }

    fn says(&mut self, number: usize, now_s: f64) -> Groups<CONTRASTS> {
        let is_after = now_s >= CHANGE_S;
        let member = &mut self.members[number];
        let mut said = member.host.knowledge(now_s);
        if self.mode == Mode::NothingOldIsSaid && is_after {
            let newer = member.without_old.knowledge(now_s);
            for i in (0..GROUPS).filter(|i| is_changed(i % SITES)) {
                said.remove(&group_of(i));
                let known = newer.get(&group_of(i));
                said.extend(known.map(|known| (group_of(i), *known)));
            }
        }
        let world = if is_after { &self.new } else { &self.old };
        match self.liars {
            (liars, Some(kind)) if number < liars => lie(world, &said, kind),
            _ => travelled(&said),
        }
    }

    /// All say and hear, then. What the members said, as a reader counts it.
    fn refresh(&mut self, now_s: f64) -> Place<CONTRASTS> {
        let mut place = Place::new();
        for number in 0..HOSTS {
            let said = self.says(number, now_s);
            place.insert(format!("h{number:03}"), said);
        }
        for member in &mut self.members {
            member.note_doubts(now_s);
        }
        if let Mode::Alarms(hosts, window_s, is_by_site) = self.mode {
            self.raise(now_s, (hosts, window_s, is_by_site));
            self.fade(&mut place, now_s, window_s);
        }
        for number in 0..HOSTS {
            if self.mode != Mode::Alone {
                let host = &mut self.members[number].host;
                let own = host.knowledge(now_s);
                host.hear(&heard(&format!("h{number:03}"), &own, &place), now_s);
            }
        }
        place
    }

    /// The groups that count together with a group in an alarm.
    fn together(group: Group, is_by_site: bool) -> Key {
        if is_by_site {
            group.site()
        } else {
            group.key()
        }
    }

    fn raise(&mut self, now_s: f64, (hosts, window_s, is_by_site): (usize, f64, bool)) {
        let mut raised: HashMap<Key, BTreeSet<usize>> = HashMap::new();
        for (number, member) in self.members.iter_mut().enumerate() {
            if number < self.liars.0 {
                let all = (0..GROUPS).map(|i| (group_of(i), now_s));
                member.raised_s.extend(all);
            }
            let lately = member.raised_s.iter();
            for (group, _) in lately.filter(|(_, at_s)| **at_s >= now_s - window_s) {
                let key = Self::together(*group, is_by_site);
                raised.entry(key).or_default().insert(number);
            }
        }
        raised.retain(|_, by| by.len() >= hosts);
        for i in 0..GROUPS {
            if raised.contains_key(&Self::together(group_of(i), is_by_site)) {
                self.alarms_s.insert(group_of(i), now_s);
            }
        }
    }

    /// The states of members that have not doubted a group since its alarm count little.
    fn fade(&self, place: &mut Place<CONTRASTS>, now_s: f64, window_s: f64) {
        for (member, said) in self.members.iter().zip(place.values_mut()) {
            for (group, said) in said.iter_mut() {
                let Some(alarm_s) = self.alarms_s.get(group) else {
                    continue;
                };
                let raised_s = member.raised_s.get(group).copied().unwrap_or(f64::MIN);
                if now_s - alarm_s <= ALARM_S && raised_s < alarm_s - window_s {
                    said.scale(KEPT);
                }
            }
        }
    }

    /// Mean number of members that have doubted a group, changed or not.
    fn doubters(&self) -> [f64; 2] {
        let mean = |is: bool| {
            let groups = (0..GROUPS).filter(|i| is_changed(i % SITES) == is);
            let by = |i: usize| {
                let members = self.members.iter();
                members
                    .filter(|member| member.raised_s.contains_key(&group_of(i)))
                    .count()
            };
            groups.map(by).sum::<usize>() as f64 / (GROUPS / 2) as f64
        };
        [mean(true), mean(false)]
    }

    /// From the change on, with so many connections of each host to each prefix in an hour.
    fn run(&mut self, rate: usize) -> Seen {
        let mut seen = Seen {
            members: [0.0; BINS],
            newcomers: [0.0; COMES.len()],
            unchanged: 0.0,
            alarms: [0.0; 2],
            doubters: [0.0; 2],
        };
        let mut counts = [0.0f64; BINS];
        let rounds = rate * 2 + 1;
        let (mut heard_s, mut place, mut is_changed_yet) = (f64::MIN, Place::new(), false);
        let mut came = 0;
        for step in 0..rounds * GROUPS {
            let now_s = HOUR_S + HOUR_S * step as f64 / (rate * GROUPS) as f64;
            if now_s >= CHANGE_S && !is_changed_yet {
                is_changed_yet = true;
                if self.mode == Mode::AllOldIsForgotten {
                    for (number, member) in self.members.iter_mut().enumerate() {
                        let fresh = Host::new(self.seed, number as u64);
                        member.host = std::mem::replace(&mut member.without_old, fresh);
                    }
                }
            }
            if now_s - heard_s >= REFRESH_S {
                heard_s = now_s;
                place = self.refresh(now_s);
                if is_changed_yet && came < COMES.len() {
                    let bin = ((now_s - CHANGE_S) / BIN_S) as usize;
                    if bin >= COMES[came] {
                        let [changed, unchanged] = self.newcomer(&place, now_s);
                        seen.newcomers[came] = changed;
                        seen.unchanged += unchanged / COMES.len() as f64;
                        came += 1;
                        if bin >= 6 {
                            seen.alarms = self.alarmed();
                        }
                    }
                }
            }
            // Each host is elsewhere in its list.
            for number in 0..HOSTS {
                let i = (step + number * GROUPS / HOSTS) % GROUPS;
                let world = if is_changed_yet { &self.new } else { &self.old };
                let regret = self.members[number].connect(world, i, now_s);
                let bin = ((now_s - CHANGE_S) / BIN_S) as usize;
                if is_changed_yet && is_changed(i % SITES) && bin < BINS {
                    seen.members[bin] += regret;
                    counts[bin] += 1.0;
                }
            }
        }
        assert!(came == COMES.len() && !place.is_empty());
        seen.doubters = self.doubters();
        for (sum, count) in seen.members.iter_mut().zip(counts) {
            *sum /= count;
        }
        seen
    }

    fn alarmed(&self) -> [f64; 2] {
        let share = |is: bool| {
            let groups = (0..GROUPS).filter(|i| is_changed(i % SITES) == is);
            let alarmed = groups.filter(|i| self.alarms_s.contains_key(&group_of(*i)));
            alarmed.count() as f64 / (GROUPS / 2) as f64
        };
        [share(true), share(false)]
    }

    /// Mean regret of a newcomer's first connection to each changed prefix, and to each other.
    fn newcomer(&self, place: &Place<CONTRASTS>, now_s: f64) -> [f64; 2] {
        let mut host = Host::new(self.seed, 1000 + now_s as u64);
        if self.mode != Mode::Alone {
            host.hear(&heard("newcomer", &Groups::new(), place), now_s);
        }
        let mut regrets = [0.0; 2];
        for i in 0..GROUPS {
            let cost = host.connect(&self.new, i, now_s);
            regrets[usize::from(!is_changed(i % SITES))] += cost.regret / (GROUPS / 2) as f64;
        }
        regrets
    }
}

fn heard(name: &str, own: &Groups<CONTRASTS>, place: &Place<CONTRASTS>) -> Groups<CONTRASTS> {
    let places = BTreeMap::from([("p0".to_owned(), place.clone())]);
    merge(("p0", name), own, &places).foreign
}

fn show(mode: Mode, liars: (usize, Option<Lie>), rate: usize) {
    let seeds = crate::seeds();
    let of: Vec<Seen> = seeds
        .iter()
        .map(|seed| Fleet::new(*seed, mode, liars).run(rate))
        .collect();
    let mean = |what: &dyn Fn(&Seen) -> f64| of.iter().map(what).sum::<f64>() / of.len() as f64;
    let bins = (0..BINS).map(|bin| format!("{:.3}", mean(&|seen| seen.members[bin])));
    let newcomers = (0..COMES.len()).map(|i| format!("{:.3}", mean(&|seen| seen.newcomers[i])));
    println!(
        "{rate}/h {mode:?} {liars:?}: members {}; newcomers {}; unchanged {:.3}; alarms {:.0} % and {:.0} %; doubters {:.2} and {:.2}",
        bins.collect::<Vec<_>>().join(" "),
        newcomers.collect::<Vec<_>>().join(" "),
        mean(&|seen| seen.unchanged),
        100.0 * mean(&|seen| seen.alarms[0]),
        100.0 * mean(&|seen| seen.alarms[1]),
        mean(&|seen| seen.doubters[0]),
        mean(&|seen| seen.doubters[1]),
    );
}

/// `cargo test -p tcpilot-fleet --test newcomer -- --ignored --nocapture alarms`
#[test]
#[ignore = "a measurement of minutes, for a decision"]
fn alarms_of_three_hosts() {
    let designed = Mode::Alarms(3, REFRESH_S, false);
    for rate in [6, 20] {
        for mode in [
            Mode::Alone,
            Mode::Fleet,
            designed,
            Mode::Alarms(3, 3600.0, false),
            Mode::Alarms(3, 3600.0, true),
            Mode::Alarms(1, 3600.0, true),
            Mode::NothingOldIsSaid,
            Mode::AllOldIsForgotten,
        ] {
            show(mode, (0, None), rate);
        }
    }
    for kind in [None, Some(Lie::Moderate), Some(Lie::Opposite)] {
        show(Mode::Fleet, (3, kind), 6);
        show(designed, (3, kind), 6);
    }
}

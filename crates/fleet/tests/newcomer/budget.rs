//! Whether a loss that is seen should make a group hear less. Nothing of this is built: docs/measured/fleet.md has the
//! result.
//!
//! The design: if a group's own evidence puts the algorithm of a connection below the default by two standard deviations,
//! its foreign message is halved, and not doubled again for an hour. Without it, the merge rule judges hosts every ten
//! minutes, and the learner judges the foreign message after each of the group's own samples.

use std::collections::BTreeMap;

use tcpilot_fleet::age::HALF_LIFE_S;
use tcpilot_fleet::vote::known;
use tcpilot_fleet::{Group, Groups};
use tcpilot_learner::Observation;

use crate::fleet::{
    Crowd, Deaf, Ear, Fleet, HOUR_S, Lie, NEWCOMER, REFRESH_S, Rounds, Said, first_hour, heard,
};
use crate::host::Host;
use crate::world::{CONTRASTS, World};

const CONNECTIONS: usize = 60;

/// A halved message is not doubled again for so long.
const DOUBLED_AFTER_S: f64 = 3600.0;

/// What a loss in a group changes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rule {
    /// Nothing but what the learner and the merge rule make of it.
    AsBuilt,
    /// From so many standard deviations on the part of the message that counts is multiplied.
    Seen { sd: f64, kept: f64 },
    /// Nothing either, but the newcomer merges each so many seconds.
    Often(f64),
}

const RULES: [Rule; 4] = [
    Rule::AsBuilt,
    Rule::Seen { sd: 2.0, kept: 0.5 },
    Rule::Seen { sd: 1.0, kept: 0.5 },
    Rule::Often(60.0),
];

/// A newcomer's ear with a budget.
struct Budget {
    rule: Rule,
    states: Vec<Said>,
    /// As merged, and when.
    heard: Groups<CONTRASTS>,
    heard_s: f64,
    /// The part that counts, and since when.
    parts: BTreeMap<Group, (f64, f64)>,
    losses: usize,
}

impl Budget {
    fn new(rule: Rule, states: Vec<Said>) -> Self {
        Self {
            rule,
            states,
            heard: Groups::new(),
            heard_s: 0.0,
            parts: BTreeMap::new(),
            losses: 0,
        }
    }
}

impl Ear for Budget {
    fn refresh_s(&self) -> f64 {
        match self.rule {
            Rule::Often(refresh_s) => refresh_s,
            _ => REFRESH_S,
        }
    }

    fn hear(&mut self, host: &mut Host, age_s: f64) {
        let now_s = HOUR_S + age_s;
        let own = host.knowledge(now_s);
        self.heard = heard(&self.states, &own, age_s);
        self.heard_s = now_s;
        for (part, since_s) in self.parts.values_mut() {
            if now_s - *since_s >= DOUBLED_AFTER_S {
                (*part, *since_s) = ((2.0 * *part).min(1.0), now_s);
            }
        }
        let mut counted = self.heard.clone();
        for (group, said) in &mut counted {
            said.scale(self.parts.get(group).map_or(1.0, |(part, _)| *part));
        }
        host.hear(&counted, now_s);
    }

    fn look(&mut self, host: &mut Host, seen: &Observation) {
        let Rule::Seen { sd, kept } = self.rule else {
            return;
        };
        let Some(contrast) = seen.arm.checked_sub(1) else {
            return;
        };
        let now_s = seen.at_s;
        let group = Group::of(&seen.lineage.group).unwrap();
        let Some(said) = self.heard.get(&group) else {
            return;
        };
        let own = host.knowledge_of(group, now_s).map(|own| known(&own));
        let Some(own) = own.and_then(|own| own[contrast]) else {
            return;
        };
        if own.mean + sd * own.variance.sqrt() < 0.0 {
            self.losses += 1;
            let part = self.parts.entry(group).or_insert((1.0, now_s));
            *part = (kept * part.0, now_s);
            let aged = (-(now_s - self.heard_s) / HALF_LIFE_S).exp2();
            host.hear_one(group, said, part.0 * aged, now_s);
        }
    }
}

/// A newcomer in a world that is that of its peers, or has changed since.
fn newcomer(fleet: &Fleet, world: &World, crowd: &Crowd, rule: Rule) -> (Rounds, usize) {
    let mut host = Host::new(fleet.seed, NEWCOMER);
    let states = fleet.states(crowd);
    if states.is_empty() {
        return (first_hour(&mut host, world, CONNECTIONS, &mut Deaf), 0);
    }
    let mut ear = Budget::new(rule, states);
    let rounds = first_hour(&mut host, world, CONNECTIONS, &mut ear);
    (rounds, ear.losses)
}

/// Which sites have changed since the peers met them.
type Changed = fn(usize) -> bool;

fn show(name: &str, crowd: Crowd, changed: Changed) {
    let rules = if crowd.home + crowd.elsewhere == 0 {
        &RULES[..1]
    } else {
        &RULES
    };
    for rule in rules {
        let of = crate::fleets().iter().map(|fleet| {
            let world = fleet.worlds[0].changed(changed);
            newcomer(fleet, &world, &crowd, *rule)
        });
        let (of, losses): (Vec<_>, Vec<_>) = of.unzip();
        let mean = |k: usize| {
            let costs = of.iter().flat_map(|rounds: &Rounds| &rounds.all[..k]);
            costs.map(|cost| cost.regret).sum::<f64>() / (k * of.len()) as f64
        };
        let text = [1, 3, 10, 30, 60].map(|k| format!("K={k} {:.3}", mean(k)));
        let losses = losses.iter().sum::<usize>() / of.len();
        println!("{name:24} {rule:?}: {}; {losses} losses", text.join(" "));
    }
}

/// `cargo test -p tcpilot-fleet --test newcomer -- --ignored --nocapture losses_that_are_seen`
#[test]
#[ignore = "a measurement of minutes, for a decision"]
fn losses_that_are_seen() {
    let same: Changed = |_| false;
    show("alone", Crowd::default(), same);
    for home in [30, 3, 1] {
        show(&format!("{home} honest"), Crowd::home(home), same);
    }
    for home in [1, 2, 4] {
        for kind in [Lie::Extreme, Lie::Moderate, Lie::Few, Lie::Opposite] {
            let name = format!("1 of {home} lies, {kind:?}");
            show(&name, Crowd::with_liars(home, 1, kind), same);
        }
    }
    let elsewhere = |home: usize, elsewhere: usize| Crowd {
        home,
        elsewhere,
        ..Crowd::default()
    };
    show("30 % elsewhere", elsewhere(21, 3), same);
    show("all elsewhere", elsewhere(0, 10), same);
    let half: Changed = |site| site % 2 == 0;
    for (which, changed) in [("all", (|_| true) as Changed), ("half", half)] {
        show(
            &format!("{which} changed, alone"),
            Crowd::default(),
            changed,
        );
        for home in [1, 3, 30] {
            let name = format!("{which} changed, {home} peers");
            show(&name, Crowd::home(home), changed);
        }
    }
}
